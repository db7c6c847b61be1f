//! The conditions of schedules and occurrences: those of every run, and their own.

use jiff::Timestamp;

use super::occurrence::phase;
use crate::{
    api::{MaintenanceOccurrenceStatus, OccurrenceState},
    runs,
};

pub use crate::runs::conditions::{
    ACCEPTED, COMPLETE, FAILED, FINISHED, READY, UNRESOLVED, condition,
};

/// Whether the run acts now.
pub const RUNNING: &str = "Running";

/// Brings the conditions of an occurrence in line with its state.
pub fn follow_state(
    status: &mut MaintenanceOccurrenceStatus,
    now: Timestamp,
    generation: Option<i64>,
) {
    let state = status.state.unwrap_or(OccurrenceState::Pending);
    let reason = status.reason.as_deref().unwrap_or_default();
    let message = status.message.as_deref().unwrap_or_default();
    runs::conditions::follow_phase(
        &mut status.conditions,
        phase(state),
        (RUNNING, state == OccurrenceState::Running),
        (reason, message),
        now,
        generation,
    );
}

/// Since when nobody has known how the run of an occurrence ended, if so.
pub fn unresolved_since(status: &MaintenanceOccurrenceStatus) -> Option<Timestamp> {
    runs::conditions::unresolved_since(&status.conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ConditionStatus;

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
