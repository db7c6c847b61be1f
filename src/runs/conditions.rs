//! The conditions that follow from where a run stands: one table for all kinds, so that no write can
//! forget one.

use jiff::Timestamp;

use super::{Acceptance, End, Phase, start::CREATE_REFUSED};
use crate::api::{Condition, ConditionStatus, Time, set_condition};

/// Whether the run was accepted; `False` names the fix.
pub const ACCEPTED: &str = "Accepted";
/// Whether nothing more will happen.
pub const FINISHED: &str = "Finished";
/// Whether nobody knows how the run ended. Only where that was once so.
pub const UNRESOLVED: &str = "Unresolved";
/// Set at the end, if it succeeded.
pub const COMPLETE: &str = "Complete";
/// Set at the end, if it did not succeed, whatever the reason.
pub const FAILED: &str = "Failed";

/// On what starts runs, a schedule or a queue: whether its spec can be used and runs start.
pub const READY: &str = "Ready";

/// A condition.
pub fn condition(
    r#type: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
    generation: Option<i64>,
) -> Condition {
    Condition {
        r#type: r#type.to_owned(),
        status: if holds { ConditionStatus::True } else { ConditionStatus::False },
        // The API convention wants a reason always.
        reason: if reason.is_empty() { "AsExpected".to_owned() } else { reason.to_owned() },
        message: message.to_owned(),
        last_transition_time: Time::new(now),
        observed_generation: generation,
    }
}

/// Brings the conditions in line with `phase`: `acts` is the kind's own condition and whether it
/// holds, for example `Running`; the others are the same for all kinds.
pub fn follow_phase(
    conditions: &mut Vec<Condition>,
    phase: Phase,
    acts: (&str, bool),
    (reason, message): (&str, &str),
    now: Timestamp,
    generation: Option<i64>,
) {
    let unresolved = phase == Phase::Unresolved;
    let ever = conditions.iter().any(|condition| condition.r#type == UNRESOLVED);
    let mut set = |r#type: &str, holds: bool| {
        set_condition(conditions, condition(r#type, holds, reason, message, now, generation));
    };
    set(acts.0, acts.1);
    set(FINISHED, phase.is_over());
    if unresolved || ever {
        set(UNRESOLVED, unresolved);
    }
    if let Phase::Over(end) = phase {
        // Exactly one of the two, so that `kubectl wait` on either never hangs.
        set(if end == End::Succeeded { COMPLETE } else { FAILED }, true);
    }
}

/// Says whether the run was accepted.
pub fn accept(
    conditions: &mut Vec<Condition>,
    accepted: &Acceptance,
    now: Timestamp,
    generation: Option<i64>,
) {
    let Acceptance { holds, reason, message } = accepted;
    set_condition(conditions, condition(ACCEPTED, *holds, reason, message, now, generation));
}

/// Since when creating what it runs has been refused, if that is so.
pub fn refused_since(conditions: &[Condition]) -> Option<Timestamp> {
    let mut refused =
        conditions.iter().filter(|c| c.r#type == ACCEPTED && c.reason == CREATE_REFUSED);
    refused.next().map(|c| c.last_transition_time.0)
}

/// Since when nobody has known how the run ended, if so.
pub fn unresolved_since(conditions: &[Condition]) -> Option<Timestamp> {
    let mut unresolved =
        conditions.iter().filter(|c| c.r#type == UNRESOLVED && c.status == ConditionStatus::True);
    unresolved.next().map(|c| c.last_transition_time.0)
}
