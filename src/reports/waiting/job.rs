//! One waiting job: as it is given, and as it is kept.

use std::{cmp::Ordering, sync::Arc};

use jiff::Timestamp;

use crate::api::MAX_CHARGE;

/// A job that is accepted and holds no slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingJob {
    /// Name of the ReportJob.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its tenant.
    pub tenant: String,
    /// Jobs of one tenant go by priority, higher first.
    pub priority: i32,
    /// `metadata.creationTimestamp`: among equal priorities the older goes first, then by name.
    pub created: Timestamp,
    /// Number of the attempt that waits, from 1.
    pub attempt: i32,
    /// Estimated cost in slot-milliseconds; [`MAX_CHARGE`] at most counts.
    pub charge: i64,
    /// Whether it is a retry, which the budget and the shares of retries hold for. A retry that a
    /// person ordered is none: it is charged to no budget.
    pub retry: bool,
    /// When a retry may start at the earliest.
    pub not_before: Option<Timestamp>,
    /// Whether a ReportSchedule made it.
    pub scheduled: bool,
}

impl WaitingJob {
    /// Name of the ReportSchedule that made it: its own name without the instant.
    pub(crate) fn schedule(&self) -> Option<&str> {
        self.scheduled.then(|| schedule_of(&self.name))
    }
}

/// The name without `-` and the 12 digits of an instant.
pub(crate) fn schedule_of(name: &str) -> &str {
    const INSTANT: usize = 13;
    name.len().checked_sub(INSTANT).and_then(|end| name.get(..end)).unwrap_or(name)
}

/// First attempts and retries wait apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// First attempts, and what a person ordered.
    First,
    /// Retries.
    Retry,
}

impl Class {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Retry];

    /// Index into an array of both.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::First => 0,
            Self::Retry => 1,
        }
    }
}

/// A uid in 16 bytes if it is written like all uids of an API server, else as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Uid {
    Packed([u8; 16]),
    Text(Box<str>),
}

/// Places of the hyphens in a uid.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    fn new(text: &str) -> Self {
        pack(text).map_or_else(|| Self::Text(text.into()), Self::Packed)
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.to_string(),
            Self::Packed(bytes) => unpack(bytes),
        }
    }
}

/// The text of [`pack`]ed bytes.
fn unpack(bytes: &[u8; 16]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let places = (0..text.len()).filter(|place| !HYPHENS.contains(place));
    for (place, digit) in places.zip(digits) {
        text[place] = DIGITS[usize::from(digit)];
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The bytes of a uid in its canonical spelling: lower case, hyphens in their places.
fn pack(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 || HYPHENS.iter().any(|&at| bytes[at] != b'-') {
        return None;
    }
    let digit = |at: usize| match bytes[at] {
        byte @ b'0'..=b'9' => Some(byte - b'0'),
        byte @ b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (mut packed, mut at) = ([0; 16], 0);
    for byte in &mut packed {
        at += usize::from(HYPHENS.contains(&at));
        *byte = digit(at)? << 4 | digit(at + 1)?;
        at += 2;
    }
    Some(packed)
}

/// A waiting job as it is kept: 80 bytes and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    uid: Uid,
    pub(crate) name: Arc<str>,
    pub(crate) created: i64,
    pub(crate) charge: i64,
    /// 0 if it may start at once.
    pub(crate) not_before: i64,
    pub(crate) tenant: u32,
    pub(crate) priority: i32,
    pub(crate) attempt: i32,
    pub(crate) retry: bool,
    pub(crate) scheduled: bool,
}

impl Kept {
    pub(crate) fn new(job: &WaitingJob, tenant: u32) -> Self {
        let WaitingJob {
            name,
            uid,
            tenant: _,
            priority,
            created,
            attempt,
            charge,
            retry,
            not_before,
            scheduled,
        } = job;
        Self {
            uid: Uid::new(uid),
            name: name.as_str().into(),
            created: created.as_millisecond(),
            charge: (*charge).clamp(0, MAX_CHARGE),
            not_before: not_before.map_or(0, Timestamp::as_millisecond),
            tenant,
            priority: *priority,
            attempt: *attempt,
            retry: *retry,
            scheduled: *scheduled,
        }
    }

    pub(crate) fn uid(&self) -> String {
        self.uid.text()
    }

    pub(crate) fn is(&self, uid: &str) -> bool {
        match &self.uid {
            Uid::Text(text) => **text == *uid,
            Uid::Packed(bytes) => pack(uid).as_ref() == Some(bytes),
        }
    }

    pub(crate) fn class(&self) -> Class {
        if self.retry { Class::Retry } else { Class::First }
    }

    /// Order within one tenant: priority, then age, then name.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        other
            .priority
            .cmp(&self.priority)
            .then_with(|| self.created.cmp(&other.created))
            .then_with(|| self.name.cmp(&other.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_kept_in_few_bytes_and_read_as_it_was_written() {
        for uid in [
            "3f0c1a52-6d0f-4c7e-9a39-0d2c1f1f8f10",
            "3F0C1A52-6d0f-4c7e-9a39-0d2c1f1f8f10",
            "3f0c1a52-6d0f-4c7e-9a39-0d2c1f1f8f1",
            "3f0c1a526-d0f-4c7e-9a39-0d2c1f1f8f10",
            "uid-1",
            "",
        ] {
            assert_eq!(Uid::new(uid).text(), uid);
        }
        assert!(matches!(Uid::new("3f0c1a52-6d0f-4c7e-9a39-0d2c1f1f8f10"), Uid::Packed(_)));
    }

    #[test]
    fn a_scheduled_job_tells_its_schedule() {
        assert_eq!(schedule_of("daily-usage-202611290200"), "daily-usage");
        assert_eq!(schedule_of("short"), "short");
    }

    #[test]
    fn a_kept_job_is_small() {
        assert!(size_of::<Kept>() <= 80, "{} bytes", size_of::<Kept>());
    }
}
