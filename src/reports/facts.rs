//! What a report job says of itself: pure.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{
        ActionClass, Attempt, ConditionStatus, QueueRetention, ReportJob, ReportQueue, ReportState,
        RunSpec,
    },
    runs::conditions,
};

/// Whether nothing more will happen to the job.
pub fn is_terminal(report: &ReportJob) -> bool {
    report.status.as_ref().and_then(|s| s.state).is_some_and(ReportState::is_terminal)
}

/// The attempts, oldest first.
pub fn attempts(report: &ReportJob) -> &[Attempt] {
    report.status.as_ref().map(|status| status.attempts.as_slice()).unwrap_or_default()
}

/// What it may do, as far as it says so itself.
pub fn class(report: &ReportJob) -> ActionClass {
    let sealed = report.status.as_ref().and_then(|status| status.run.as_ref());
    sealed.or(report.spec.run.as_deref()).map_or(ActionClass::Fenced, RunSpec::report_class)
}

/// When a finished job may be removed. Without its queue the defaults hold.
pub fn kept_until(report: &ReportJob, queue: Option<&ReportQueue>) -> Option<Timestamp> {
    let status = report.status.as_ref()?;
    let state = status.state.filter(|state| state.is_terminal())?;
    let finished = status
        .conditions
        .iter()
        .find(|c| c.r#type == conditions::FINISHED && c.status == ConditionStatus::True)?;
    let retention =
        queue.map_or_else(QueueRetention::default, |queue| queue.spec.retention.clone());
    let seconds = match state {
        ReportState::Succeeded => retention.successful_seconds,
        _ => retention.failed_seconds,
    };
    finished.last_transition_time.0.checked_add(SignedDuration::from_secs(seconds)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report(status: &Value) -> ReportJob {
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
            "metadata": {"name": "r0", "namespace": "d", "uid": "u0"},
            "spec": {"queueName": "q", "tenant": "acme"},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn finished_jobs_are_kept_by_how_they_ended() {
        let queue: ReportQueue = serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
            "metadata": {"name": "q", "namespace": "d"},
            "spec": {"slots": 1, "retention": {"successfulSeconds": 60, "failedSeconds": 120}},
        }))
        .unwrap();
        let ended = |state: &str| {
            report(&json!({"state": state, "conditions": [{
                "type": "Finished", "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-11-29T02:00:00Z",
            }]}))
        };
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let until = |state, queue| kept_until(&ended(state), queue);
        assert_eq!(until("Succeeded", Some(&queue)), at("2026-11-29T02:01:00Z"));
        assert_eq!(until("Rejected", Some(&queue)), at("2026-11-29T02:02:00Z"));
        assert_eq!(until("Failed", None), at("2026-12-06T02:00:00Z"));
        assert_eq!(until("Running", Some(&queue)), None);
        assert_eq!(kept_until(&report(&Value::Null), Some(&queue)), None);
    }
}
