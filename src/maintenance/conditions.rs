//! The conditions that follow from a state: one table, so that no write can forget one.

use jiff::Timestamp;

use crate::api::{
    Condition, ConditionStatus, MaintenanceOccurrenceStatus, OccurrenceState, Time, set_condition,
};

/// Whether the run was accepted; `False` names the fix.
pub const ACCEPTED: &str = "Accepted";
/// Whether the run acts now.
pub const RUNNING: &str = "Running";
/// Whether nothing more will happen.
pub const FINISHED: &str = "Finished";
/// Whether nobody knows how the run ended. Only on occurrences of which that was once so.
pub const UNRESOLVED: &str = "Unresolved";
/// Set at the end, if it succeeded.
pub const COMPLETE: &str = "Complete";
/// Set at the end, if it did not succeed, whatever the reason.
pub const FAILED: &str = "Failed";
/// On schedules: whether the spec can be used and instants run.
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

/// Brings the conditions of an occurrence in line with its state.
pub fn follow_state(
    status: &mut MaintenanceOccurrenceStatus,
    now: Timestamp,
    generation: Option<i64>,
) {
    let state = status.state.unwrap_or(OccurrenceState::Pending);
    let reason = status.reason.clone().unwrap_or_default();
    let message = status.message.clone().unwrap_or_default();
    let running = matches!(state, OccurrenceState::Running);
    let unresolved = state == OccurrenceState::Unresolved;
    let ever = status.conditions.iter().any(|condition| condition.r#type == UNRESOLVED);
    let mut set = |r#type: &str, holds: bool| {
        set_condition(
            &mut status.conditions,
            condition(r#type, holds, &reason, &message, now, generation),
        );
    };
    set(RUNNING, running);
    set(FINISHED, state.is_terminal());
    if unresolved || ever {
        set(UNRESOLVED, unresolved);
    }
    if state.is_terminal() {
        // Exactly one of the two, so that `kubectl wait` on either never hangs.
        let ended_well = state == OccurrenceState::Succeeded;
        set(if ended_well { COMPLETE } else { FAILED }, true);
    }
}

/// Since when nobody has known how the run of an occurrence ended, if so.
pub fn unresolved_since(status: &MaintenanceOccurrenceStatus) -> Option<Timestamp> {
    let conditions = status.conditions.iter();
    conditions
        .filter(|c| c.r#type == UNRESOLVED && c.status == ConditionStatus::True)
        .map(|c| c.last_transition_time.0)
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_exactly_one_of_complete_and_failed() {
        use OccurrenceState::*;
        let now = "2026-11-29T02:00:00Z".parse().unwrap();
        for state in [
            Pending, Starting, Running, Cancelling, Unresolved, Succeeded, Failed, Cancelled,
            Skipped, Superseded,
        ] {
            let mut status =
                MaintenanceOccurrenceStatus { state: Some(state), ..Default::default() };
            follow_state(&mut status, now, Some(1));
            let is = |name: &str| {
                status
                    .conditions
                    .iter()
                    .any(|c| c.r#type == name && c.status == ConditionStatus::True)
            };
            assert_eq!(is(FINISHED), state.is_terminal(), "{state:?}");
            assert_eq!(is(COMPLETE) || is(FAILED), state.is_terminal(), "{state:?}");
            assert!(!(is(COMPLETE) && is(FAILED)), "{state:?}");
            assert_eq!(is(COMPLETE), state == Succeeded, "{state:?}");
            assert_eq!(is(RUNNING), state == Running, "{state:?}");
        }
    }
    #[test]
    fn it_is_told_since_when_nobody_knows_and_only_while_it_is_so() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut status = MaintenanceOccurrenceStatus::default();
        let mut go = |state, now: &str| {
            status.state = Some(state);
            follow_state(&mut status, at(now), Some(1));
            (unresolved_since(&status), status.conditions.len())
        };
        assert_eq!(go(OccurrenceState::Starting, "2026-11-29T02:00:00Z"), (None, 2));
        let since = Some(at("2026-11-29T02:01:00Z"));
        assert_eq!(go(OccurrenceState::Unresolved, "2026-11-29T02:01:00Z"), (since, 3));
        assert_eq!(go(OccurrenceState::Unresolved, "2026-11-29T02:02:00Z"), (since, 3));
        assert_eq!(go(OccurrenceState::Running, "2026-11-29T02:03:00Z"), (None, 3));
    }
}
