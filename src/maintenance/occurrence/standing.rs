//! How an occurrence stands with its schedule: pure.

use super::Standing;
use crate::{
    api::{Fence, MaintenanceOccurrence, MaintenanceSchedule},
    schedules,
    time::IntendedTime,
};

/// Judges by one version of the schedule.
///
/// A [`Standing::Ghost`] counts only if that version was read live after the occurrence was seen;
/// everything else is as good from a cache that holds the own writes.
pub fn standing(
    schedule: &MaintenanceSchedule,
    occurrence: &MaintenanceOccurrence,
    fence: &Fence,
) -> Standing {
    match schedules::standing(schedule, occurrence, occurrence.spec.intended_time, fence) {
        schedules::Standing::Undecided => Standing::Undecided,
        schedules::Standing::Waiting => Standing::Waiting,
        schedules::Standing::Started { not_before, deadline, replaced } => {
            Standing::Started { not_before, deadline, replaced }
        }
        schedules::Standing::Unclaimed => {
            hand_made(occurrence, schedule.status.as_ref().and_then(|s| s.pruned_through))
        }
        schedules::Standing::Ghost { skipped } => Standing::Ghost { skipped },
    }
}

/// An unclaimed hand-made occurrence waits for its turn, unless it may never have one.
fn hand_made(occurrence: &MaintenanceOccurrence, pruned_through: Option<IntendedTime>) -> Standing {
    let prepared = occurrence.status.as_ref().is_some_and(|s| !s.attempts.is_empty());
    if prepared {
        return Standing::Undecided;
    }
    if occurrence.spec.run.is_some() {
        return Standing::RunNotAllowed;
    }
    if pruned_through.is_some_and(|through| occurrence.spec.intended_time <= through) {
        return Standing::RecordPruned;
    }
    Standing::Waiting
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::time::SkipReason;

    fn fence() -> Fence {
        Fence { epoch: 7, nonce: "n".into() }
    }

    fn schedule(status: &Value) -> MaintenanceSchedule {
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {"name": "s", "namespace": "d", "uid": "s1"},
            "spec": {"schedule": "0 * * * *", "startingDeadlineSeconds": 60, "run": {"simulated": {}}},
            "status": status,
        }))
        .unwrap()
    }

    fn occurrence(spec: &Value) -> MaintenanceOccurrence {
        let mut all = json!({"scheduleName": "s", "intendedTime": "2026-01-01T01:00:00Z"});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
            "metadata": {"name": "s-202601010100", "namespace": "d", "uid": "u1"}, "spec": all,
        }))
        .unwrap()
    }

    fn claim(start: bool, uid: &str) -> Value {
        json!({"time": "2026-01-01T01:00:00Z", "start": start, "uid": uid, "runKey": "k", "actionClass": "Fenced"})
    }

    #[test]
    fn every_standing() {
        let fence_json = json!({"epoch": 7, "nonce": "n"});
        let planned = occurrence(&json!({"scheduleUID": "s1"}));
        let by_hand = occurrence(&json!({}));
        let started = |planned: bool, replaced: bool| Standing::Started {
            not_before: "2026-01-01T01:00:00Z".parse().unwrap(),
            deadline: planned.then(|| "2026-01-01T01:01:00Z".parse().unwrap()),
            replaced,
        };
        let cases = [
            (
                "never sealed",
                json!({"lastScheduleTime": "2026-01-01T01:00:00Z"}),
                &planned,
                Standing::Undecided,
            ),
            (
                "sealed by another term",
                json!({"fence": {"epoch": 6, "nonce": "n"}, "claimed": [claim(true, "u1")]}),
                &planned,
                Standing::Undecided,
            ),
            (
                "same epoch, another nonce",
                json!({"fence": {"epoch": 7, "nonce": "x"}, "claimed": [claim(true, "u1")]}),
                &planned,
                Standing::Undecided,
            ),
            (
                "claimed and started",
                json!({"fence": fence_json, "claimed": [claim(true, "u1")]}),
                &planned,
                started(true, false),
            ),
            (
                "by hand, claimed and started: no deadline",
                json!({"fence": fence_json, "claimed": [claim(true, "u1")]}),
                &by_hand,
                started(false, false),
            ),
            (
                "claimed, waiting",
                json!({"fence": fence_json, "claimed": [claim(false, "u1")]}),
                &planned,
                Standing::Waiting,
            ),
            (
                "the claim is of another uid",
                json!({"fence": fence_json, "lastScheduleTime": "2026-01-01T01:00:00Z", "claimed": [claim(true, "u2")]}),
                &planned,
                Standing::Ghost { skipped: None },
            ),
            (
                "not decided yet",
                json!({"fence": fence_json, "lastScheduleTime": "2026-01-01T00:00:00Z"}),
                &planned,
                Standing::Undecided,
            ),
            (
                "before the schedule counts",
                json!({"fence": fence_json, "effectiveTime": "2026-01-01T01:00:01Z"}),
                &planned,
                Standing::Ghost { skipped: None },
            ),
            (
                "accounted for",
                json!({"fence": fence_json, "lastScheduleTime": "2026-01-01T01:00:00Z",
                "skipped": [{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z", "count": 2, "reason": "Concurrent"}]}),
                &planned,
                Standing::Ghost { skipped: Some(SkipReason::Concurrent) },
            ),
            (
                "by hand, unclaimed",
                json!({"fence": fence_json, "lastScheduleTime": "2026-01-01T01:00:00Z"}),
                &by_hand,
                Standing::Waiting,
            ),
            (
                "by hand, pruned",
                json!({"fence": fence_json, "prunedThrough": "2026-01-01T01:00:00Z"}),
                &by_hand,
                Standing::RecordPruned,
            ),
        ];
        for (what, status, occurrence, expected) in cases {
            assert_eq!(standing(&schedule(&status), occurrence, &fence()), expected, "{what}");
        }
        let own_run = occurrence(&json!({"run": {"simulated": {}}}));
        assert_eq!(
            standing(&schedule(&json!({"fence": fence_json})), &own_run, &fence()),
            Standing::RunNotAllowed
        );
        let replacing = json!({"fence": fence_json, "claimed": [claim(true, "u1"), {"time": "2026-01-01T02:00:00Z", "start": false, "replaces": true, "uid": "u2", "runKey": "k", "actionClass": "Fenced"}]});
        assert_eq!(standing(&schedule(&replacing), &planned, &fence()), started(true, true));
    }
}
