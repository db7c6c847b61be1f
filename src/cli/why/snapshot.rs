//! Everything that an answer depends on, as it was read.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{cli::target::TargetKind, cluster::ObjectKey, time::IntendedTime};

/// What was read, and when. Objects are kept as the API server gave them: one that this program
/// cannot read is still one to be explained.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// When it was read.
    pub(super) now: Timestamp,
    /// The kind that is asked about.
    pub(super) subject: TargetKind,
    /// The object that is asked about.
    pub(super) key: ObjectKey,
    /// The instant that is asked about, of a schedule.
    pub(super) at: Option<IntendedTime>,
    /// The object; with an instant, what the schedule made of it.
    pub(super) object: Option<Value>,
    /// The schedule that it belongs to, or that is asked about.
    pub(super) schedule: Option<Value>,
    /// The queue that it belongs to.
    pub(super) queue: Option<Value>,
    /// What else the schedule made, or what else waits in the queue.
    pub(super) others: Vec<Value>,
    /// Whether what else the schedule made was read.
    pub(super) others_read: bool,
    /// Events about the object.
    pub(super) events: Vec<Value>,
    /// Events about the Lease: who led, and who lost leadership.
    pub(super) lease_events: Vec<Value>,
    /// Recovery traces, one for each term.
    pub(super) traces: Vec<Value>,
    /// The Lease.
    pub(super) lease: Option<Value>,
    /// What could not be read, a sentence each.
    pub(super) not_read: Vec<String>,
}

impl Snapshot {
    /// Nothing was read yet.
    pub(super) fn of(subject: TargetKind, key: ObjectKey, now: Timestamp) -> Self {
        Self {
            now,
            subject,
            key,
            at: None,
            object: None,
            schedule: None,
            queue: None,
            others: Vec::new(),
            others_read: false,
            events: Vec::new(),
            lease_events: Vec::new(),
            traces: Vec::new(),
            lease: None,
            not_read: Vec::new(),
        }
    }
}

/// An object as this program knows its kind, or what is wrong with it.
pub(super) fn typed<K: DeserializeOwned>(value: &Value) -> Result<K, String> {
    K::deserialize(value).map_err(|error| error.to_string())
}

/// An object of a kind, if it is there and can be read.
pub(super) fn known<K: DeserializeOwned>(value: Option<&Value>) -> Option<K> {
    typed(value?).ok()
}

/// A text somewhere in an object.
pub(in crate::cli) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A moment somewhere in an object.
pub(in crate::cli) fn moment(value: &Value, pointer: &str) -> Option<Timestamp> {
    value.pointer(pointer)?.as_str()?.parse().ok()
}

/// The instant in the name of what a schedule made, and the schedule's name.
pub(super) fn instant_in(name: &str) -> Option<(&str, IntendedTime)> {
    const DIGITS: usize = 12;
    let (schedule, digits) = name.rsplit_once('-')?;
    let all_digits = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if schedule.is_empty() || !all_digits {
        return None;
    }
    let [year, month, day, hour, minute] =
        [&digits[..4], &digits[4..6], &digits[6..8], &digits[8..10], &digits[10..]];
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:00Z");
    Some((schedule, text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_schedule_and_instant() {
        let (schedule, at) = instant_in("nightly-retention-202611290200").unwrap();
        assert_eq!(
            (schedule, at.to_string().as_str()),
            ("nightly-retention", "2026-11-29T02:00:00Z")
        );
        for name in [
            "nightly",
            "nightly-20261129020",
            "nightly-202613290200",
            "-202611290200",
            "x-20261129020a",
        ] {
            assert!(instant_in(name).is_none(), "{name}");
        }
    }
}
