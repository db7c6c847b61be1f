//! Whether the run of a schedule would be accepted, asked before anything is due: pure.
//!
//! A template with a fault should show it when it is applied, not at two in the morning. The answer
//! is recorded in the condition `Accepted`. It stops nothing: a run that its provider refuses is
//! claimed and ends `Failed/RunRefused`.

use jiff::{SignedDuration, Timestamp};

use super::Kind;
use crate::{
    api::{ConditionStatus, Fence, MaintenanceScheduleStatus, set_condition},
    providers::Acceptance,
    runs::{Note, conditions},
};

/// When a provider that cannot tell now is asked again.
pub(super) const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// Whether the provider is to be asked: once for each version of the spec. What was refused is asked
/// once more by each leader, because the fault may have been outside the spec (a flag of the
/// operator, a policy of the cluster).
pub(super) fn must_ask<S: Kind>(schedule: &S, fence: &Fence) -> bool {
    let status = schedule.status();
    let known = status
        .into_iter()
        .flat_map(|status| &status.conditions)
        .find(|c| c.r#type == conditions::ACCEPTED)
        .filter(|c| c.observed_generation == schedule.meta().generation);
    let sealed = status.and_then(|status| status.fence.as_ref()) == Some(fence);
    known.is_none_or(|known| known.status != ConditionStatus::True && !sealed)
}

/// Records the answer. Gives the event that it is worth.
pub(super) fn record(
    status: &mut MaintenanceScheduleStatus,
    answer: &Acceptance,
    now: Timestamp,
    generation: Option<i64>,
) -> Option<Note> {
    let (holds, reason, message) = match answer {
        Acceptance::Accepted => (true, "Accepted", ""),
        Acceptance::Refused { message } => (false, "RunRefused", message.as_str()),
        Acceptance::NotYet { .. } => return None,
    };
    let condition =
        conditions::condition(conditions::ACCEPTED, holds, reason, message, now, generation);
    let said = status.conditions.iter().any(|c| {
        c.r#type == condition.r#type
            && c.status == condition.status
            && c.message == condition.message
    });
    set_condition(&mut status.conditions, condition);
    (!holds && !said).then(|| Note::warning("RunRefused", message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::MaintenanceSchedule;

    fn schedule(generation: i64, status: &Value) -> MaintenanceSchedule {
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {"name": "s", "namespace": "d", "uid": "s1", "generation": generation},
            "spec": {"schedule": "0 * * * *", "run": {"simulated": {}}},
            "status": status,
        }))
        .unwrap()
    }

    fn known(status: &str, epoch: i64) -> Value {
        json!({
            "fence": {"epoch": epoch, "nonce": "n"},
            "conditions": [{
                "type": "Accepted", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2,
            }],
        })
    }

    #[test]
    fn it_is_asked_once_for_each_spec_and_a_refusal_once_more_by_each_leader() {
        let fence = Fence { epoch: 7, nonce: "n".into() };
        for (description, schedule, expected) in [
            ("new", schedule(1, &Value::Null), true),
            ("accepted", schedule(2, &known("True", 7)), false),
            ("accepted under another leader", schedule(2, &known("True", 6)), false),
            ("edited since", schedule(3, &known("True", 7)), true),
            ("refused", schedule(2, &known("False", 7)), false),
            ("refused under another leader", schedule(2, &known("False", 6)), true),
            ("refused and edited since", schedule(3, &known("False", 7)), true),
        ] {
            assert_eq!(must_ask(&schedule, &fence), expected, "{description}");
        }
    }

    #[test]
    fn a_refusal_is_said_once_and_no_answer_is_no_condition() {
        let mut status = MaintenanceScheduleStatus::default();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let refused = Acceptance::Refused { message: "run.x must be left out".into() };
        let not_yet = Acceptance::NotYet { message: "quota".into() };
        assert_eq!(record(&mut status, &not_yet, now, Some(1)), None);
        assert!(status.conditions.is_empty());
        let note = record(&mut status, &refused, now, Some(1)).unwrap();
        assert!(note.warning && note.message == "run.x must be left out");
        assert_eq!(record(&mut status, &refused, now, Some(2)), None, "the same again");
        let found = &status.conditions[0];
        assert_eq!(
            (found.r#type.as_str(), found.status, found.observed_generation),
            ("Accepted", ConditionStatus::False, Some(2))
        );
        assert_eq!(record(&mut status, &Acceptance::Accepted, now, Some(3)), None);
        assert_eq!(status.conditions[0].status, ConditionStatus::True);
        assert_eq!(status.conditions.len(), 1);
    }
}
