//! In which state queues, jobs and schedules of reports are counted.

use crate::{
    api::{Admissions, ReportJob, ReportQueue, ReportSchedule, ReportState},
    cluster::Change,
    reconcile::{Census, schedule_word},
    runs::conditions::unresolved_since,
};

/// What has no state yet.
const NEW: &str = "New";

pub(super) fn queue_changed(census: &Census, change: &Change<'_, ReportQueue>) {
    census.count(change, |queue| {
        let admissions = queue.status.as_ref().and_then(|status| status.admissions);
        ("ReportQueue", admissions.map_or(NEW, queue_word))
    });
}

pub(super) fn job_changed(census: &Census, change: &Change<'_, ReportJob>) {
    census.count(change, |job| {
        let state = job.status.as_ref().and_then(|status| status.state);
        ("ReportJob", state.map_or(NEW, job_word))
    });
    census.age(change, |job| unresolved_since(&job.status.as_ref()?.conditions));
}

pub(super) fn schedule_changed(census: &Census, change: &Change<'_, ReportSchedule>) {
    census.count(change, |schedule| {
        let state = schedule.status.as_ref().and_then(|status| status.state);
        ("ReportSchedule", schedule_word(state))
    });
}

fn queue_word(admissions: Admissions) -> &'static str {
    match admissions {
        Admissions::Open => "Open",
        Admissions::Paused => "Paused",
        Admissions::Held => "Held",
        Admissions::Closed => "Closed",
    }
}

fn job_word(state: ReportState) -> &'static str {
    match state {
        ReportState::Queued => "Queued",
        ReportState::Admitted => "Admitted",
        ReportState::Running => "Running",
        ReportState::Cancelling => "Cancelling",
        ReportState::Unresolved => "Unresolved",
        ReportState::Succeeded => "Succeeded",
        ReportState::Failed => "Failed",
        ReportState::Cancelled => "Cancelled",
        ReportState::Rejected => "Rejected",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::{cluster::ObjectKey, telemetry::Metrics};

    fn object<K: DeserializeOwned>(kind: &str, spec: &Value, status: &Value) -> K {
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": kind,
            "metadata": {"name": "n", "namespace": "d", "uid": "u"},
            "spec": spec, "status": status,
        }))
        .unwrap()
    }

    fn counted(census: &Census, kind: &str, state: &str, count: u32) -> bool {
        let labels = format!("kind=\"{kind}\",state=\"{state}\"");
        census.shows(&format!("punctual_objects{{{labels}}} {count}"))
    }

    #[test]
    fn every_kind_of_reports_is_counted_by_its_state() {
        let (census, key) = (Census::new(&Arc::new(Metrics::new())), ObjectKey::new("d", "n"));
        let spec = json!({"slots": 1});
        let queues: [ReportQueue; 2] = [&Value::Null, &json!({"admissions": "Paused"})]
            .map(|status| object("ReportQueue", &spec, status));
        let [old, new] = [&queues[0], &queues[1]].map(Some);
        queue_changed(&census, &Change { key: &key, old: None, new: old, witnessed: true });
        assert!(counted(&census, "ReportQueue", "New", 1));
        queue_changed(&census, &Change { key: &key, old, new, witnessed: true });
        assert!(counted(&census, "ReportQueue", "New", 0));
        assert!(counted(&census, "ReportQueue", "Paused", 1));

        let job = json!({"queueName": "q", "tenant": "acme"});
        let spec = json!({"schedule": "@daily", "jobTemplate": {"spec": job}});
        let schedule: ReportSchedule =
            object("ReportSchedule", &spec, &json!({"state": "Suspended"}));
        let new = Some(&schedule);
        schedule_changed(&census, &Change { key: &key, old: None, new, witnessed: true });
        assert!(counted(&census, "ReportSchedule", "Suspended", 1));

        let jobs: [ReportJob; 2] = [
            &Value::Null,
            &json!({"state": "Unresolved", "conditions": [{
                "type": "Unresolved", "status": "True", "reason": "EndNotSeen", "message": "m",
                "lastTransitionTime": "2026-11-29T02:00:00Z",
            }]}),
        ]
        .map(|status| object("ReportJob", &job, status));
        let [old, new] = [&jobs[0], &jobs[1]].map(Some);
        job_changed(&census, &Change { key: &key, old: None, new: old, witnessed: true });
        assert!(counted(&census, "ReportJob", "New", 1));
        job_changed(&census, &Change { key: &key, old, new, witnessed: true });
        assert!(counted(&census, "ReportJob", "Unresolved", 1));
        census.show_age("2026-11-29T02:01:30Z".parse().unwrap());
        assert!(census.shows("punctual_unresolved_oldest_seconds 90.0"));
    }
}
