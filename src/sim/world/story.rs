//! What happened, told so that a person understands why: who led and how that was gained, why a term
//! ended, what went wrong, and whose write was refused with which sentence.

use std::{fmt, time::Duration};

use crate::authority::Gained;

/// Longest story. A history of hours with faults every second stays below; what comes after it is
/// counted, not kept.
pub const MAX_STORY: usize = 100_000;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Virtual time since the start.
    pub at: Duration,
    /// The replica it happened to, if to one.
    pub replica: Option<usize>,
    /// What.
    pub what: What,
}

/// Kinds of happenings.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A process of the replica started; the first one is 1.
    Up {
        /// Which one.
        process: u32,
    },
    /// The process ended.
    Down(Down),
    /// The process was stopped, as by SIGSTOP.
    Frozen,
    /// It goes on.
    Thawed,
    /// It cannot reach the API server any more.
    CutOff,
    /// It can again.
    Reachable,
    /// A term began: the Lease was acquired.
    Leads {
        /// Its epoch.
        epoch: i64,
        /// How it was gained.
        gained: Gained,
        /// Who held the Lease before.
        former: Option<String>,
        /// How long the Lease had not been renewed, if somebody held it.
        silent_for: Option<Duration>,
    },
    /// A term ended.
    TermEnded {
        /// Its epoch.
        epoch: i64,
        /// Why, as a sentence.
        why: String,
    },
    /// A write was refused.
    Refused(Refused),
    /// Something was made to go wrong.
    Fault {
        /// What, as a sentence.
        sentence: String,
    },
    /// A person, or the scenario, did something.
    Step {
        /// What, as a sentence.
        sentence: String,
    },
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Down {
    /// SIGKILL from outside.
    Killed,
    /// It died around one of its own requests, or after so many writes.
    Crashed {
        /// At which point, as a sentence.
        point: String,
    },
    /// It ended by itself, and starts again.
    Ended {
        /// Why, in its own words.
        why: String,
        /// Whether that is a defect: a panic, or controllers that ended.
        defect: bool,
    },
}

/// A refused write.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// What was tried, as `update mocc/status`.
    pub write: String,
    /// On which object, as `mocc/nightly-202611290200`.
    pub object: String,
    /// HTTP status.
    pub code: u16,
    /// One word, for example `Conflict`.
    pub reason: String,
    /// The API server's sentence.
    pub sentence: String,
    /// Whether the fence refused it: a newer term had sealed the object.
    pub fenced: bool,
    /// Whether its sender no longer held the Lease when it arrived.
    pub stale: bool,
    /// Whether it was made to be refused, so that the object had nothing to do with it.
    pub injected: bool,
}

/// One term of leadership.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Its epoch.
    pub epoch: i64,
    /// Its nonce.
    pub nonce: String,
    /// Which replica led.
    pub replica: Option<usize>,
    /// The holder as the Lease names it.
    pub holder: String,
    /// Which of the replica's processes it was.
    pub process: u32,
    /// How it was gained.
    pub gained: Gained,
    /// Who held the Lease before.
    pub former: Option<String>,
    /// When it began.
    pub began: Duration,
    /// When the Lease was last renewed in it.
    pub renewed: Duration,
    /// When and why it ended, as far as it did.
    pub ended: Option<(Duration, String)>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  ", clock(self.at))?;
        if let Some(replica) = self.replica {
            write!(f, "r{replica} ")?;
        }
        self.what.fmt(f)
    }
}

impl fmt::Display for What {
    /// A sentence without its subject, which is the replica, where there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up { process: 1 } => f.write_str("starts"),
            Self::Up { process } => write!(f, "starts again (process {process})"),
            Self::Down(Down::Killed) => f.write_str("is killed; it gives nothing back"),
            Self::Down(Down::Crashed { point }) => write!(f, "crashes {point}"),
            Self::Down(Down::Ended { why, defect: false }) => write!(f, "ends: {why}"),
            Self::Down(Down::Ended { why, defect: true }) => write!(f, "ends by a DEFECT: {why}"),
            Self::Frozen => f.write_str("is frozen"),
            Self::Thawed => f.write_str("goes on as if nothing had happened"),
            Self::CutOff => f.write_str("is cut off from the API server"),
            Self::Reachable => f.write_str("reaches the API server again"),
            Self::Leads { epoch, gained, former, silent_for } => {
                write!(f, "leads with epoch {epoch}: ")?;
                let former = former.as_deref().unwrap_or("nobody");
                match (gained, silent_for) {
                    (Gained::First, _) => f.write_str("nobody had led before"),
                    (Gained::Released, _) => write!(f, "{former} gave the Lease back"),
                    (Gained::LeaseDeleted, _) => f.write_str("the Lease had been deleted"),
                    (Gained::Expired, Some(silent)) => {
                        write!(f, "{former} had not renewed for {:.1} s", silent.as_secs_f64())
                    }
                    (Gained::Expired, None) => write!(f, "{former} had not renewed in time"),
                }
            }
            Self::TermEnded { epoch, why } => write!(f, "leads no more (epoch {epoch}): {why}"),
            Self::Refused(refused) => refused.fmt(f),
            Self::Fault { sentence } | Self::Step { sentence } => f.write_str(sentence),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stale = if self.stale { "deposed, " } else { "" };
        let Self { write, object, code, reason, sentence, .. } = self;
        write!(f, "{stale}is refused: {write} {object}: {code} {reason}: {sentence}")
    }
}

/// Virtual time as `1:02:03.456`.
pub fn clock(at: Duration) -> String {
    let (secs, millis) = (at.as_secs(), at.subsec_millis());
    format!("{}:{:02}:{:02}.{millis:03}", secs / 3600, secs / 60 % 60, secs % 60)
}

/// The story so far.
#[derive(Debug, Default)]
pub(super) struct Story {
    entries: Vec<Entry>,
    /// How many more there were.
    left_out: u64,
}

impl Story {
    pub(super) fn tell(&mut self, at: Duration, replica: Option<usize>, what: What) {
        if self.entries.len() < MAX_STORY {
            self.entries.push(Entry { at, replica, what });
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sentences() {
        let told = |what| Entry { at: Duration::from_millis(3_723_004), replica: Some(1), what };
        for (what, sentence) in [
            (What::Up { process: 1 }, "1:02:03.004  r1 starts"),
            (
                What::Leads {
                    epoch: 104,
                    gained: Gained::Expired,
                    former: Some("r0".into()),
                    silent_for: Some(Duration::from_millis(11_520)),
                },
                "1:02:03.004  r1 leads with epoch 104: r0 had not renewed for 11.5 s",
            ),
            (
                What::Refused(Refused {
                    write: "update mocc/status".into(),
                    object: "mocc/a".into(),
                    code: 422,
                    reason: "Invalid".into(),
                    sentence: "a newer term".into(),
                    fenced: true,
                    stale: true,
                    injected: false,
                }),
                "1:02:03.004  r1 deposed, is refused: update mocc/status mocc/a: 422 Invalid: a newer term",
            ),
        ] {
            assert_eq!(told(what).to_string(), sentence);
        }
        let fault = What::Fault { sentence: "the API server is away".into() };
        let entry = Entry { replica: None, ..told(fault) };
        assert_eq!(entry.to_string(), "1:02:03.004  the API server is away");
    }
}
