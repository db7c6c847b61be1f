//! How the work of an instant stands with its schedule: pure.

use jiff::Timestamp;
use kube::Resource as _;

use super::{Kind, Work as _, spread_delay, start_deadline};
use crate::{
    api::Fence,
    runs::{End, Right},
    time::{IntendedTime, SkipReason},
};

/// How the work of an instant stands with its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not decided yet, or the schedule is not sealed in this term: nothing may start.
    Undecided,
    /// Claimed, but not its turn yet.
    Waiting,
    /// Claimed and started by the schedule, which is sealed in this term.
    Started {
        /// Not before this moment (`spread`).
        not_before: Timestamp,
        /// Not after this moment, if it has not been prepared by then.
        deadline: Option<Timestamp>,
        /// Whether a newer instant replaces it.
        replaced: bool,
    },
    /// Hand-made, and not claimed.
    Unclaimed,
    /// The schedule has decided this instant without claiming this object. `skipped`: the reason of
    /// the schedule's accounting, if it is one that an existing object can end with.
    Ghost {
        /// The reason.
        skipped: Option<SkipReason>,
    },
}

/// What becomes of work of which nothing was prepared when its schedule went, read live.
pub fn gone_before_start() -> Right {
    Right::Denied {
        end: End::Superseded,
        reason: "ScheduleDeleted".to_owned(),
        message: "its schedule was deleted before it started",
        stops_held: false,
    }
}

/// Judges by one version of the schedule.
///
/// A [`Standing::Ghost`] counts only if that version was read live after the work was seen;
/// everything else is as good from a cache that holds the own writes.
pub fn standing<S: Kind>(
    schedule: &S,
    work: &S::Work,
    instant: IntendedTime,
    fence: &Fence,
) -> Standing {
    // A write of an earlier term could still change an unsealed schedule: nothing starts on it.
    let status = schedule.status();
    let Some(status) = status.filter(|status| status.fence.as_ref() == Some(fence)) else {
        return Standing::Undecided;
    };
    let planned = !work.is_hand_made();
    let claim = status.claimed.iter().find(|claim| Some(&claim.uid) == work.meta().uid.as_ref());
    if let Some(claim) = claim {
        if !claim.start {
            return Standing::Waiting;
        }
        return Standing::Started {
            not_before: if planned { not_before(schedule, instant) } else { instant.timestamp() },
            deadline: if planned { start_deadline(schedule, instant) } else { None },
            replaced: status.claimed.iter().any(|other| other.replaces && !other.start),
        };
    }
    if !planned {
        return Standing::Unclaimed;
    }
    let decided = status.last_schedule_time.is_some_and(|last| instant <= last)
        || status.effective_time.is_some_and(|from| instant.timestamp() < from.0);
    if decided {
        Standing::Ghost { skipped: skipped(schedule, instant) }
    } else {
        Standing::Undecided
    }
}

/// When the work of a planned instant may start.
pub fn not_before<S: Kind>(schedule: &S, instant: IntendedTime) -> Timestamp {
    let delay = spread_delay(schedule, instant);
    instant.timestamp().checked_add(delay).unwrap_or(instant.timestamp())
}

/// The reason under which the schedule's accounting has the instant, if it is one that an existing
/// object can end with.
fn skipped<S: Kind>(schedule: &S, instant: IntendedTime) -> Option<SkipReason> {
    let ranges = &schedule.status()?.skipped;
    ranges
        .iter()
        .rev()
        .find(|range| range.from <= instant && instant <= range.to)
        .map(|range| range.reason)
        .filter(|reason| *reason != SkipReason::Superseded)
}
