//! Report schedules and the jobs of their instants, as [`crate::schedules`] sees them: pure.
//!
//! Each instant makes one job, inert until its uid is claimed. From then on it is a job like any
//! other, except that the claim has accepted it: how many may wait was judged for the claim.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt as _;

use super::facts;
use crate::{
    api::{
        ActionClass, Attempt, ConcurrencyPolicy, LABEL_SCHEDULE, MaintenanceScheduleStatus,
        ReportJob, ReportJobSpec, ReportSchedule, ReportState, RunSpec,
    },
    identity::{AttemptNames, WorkId, occurrence_name},
    schedules::{Kind, RunOf, Timing, Work, not_before, timing},
    time::{IntendedTime, SkipReason, spread::SpreadKind},
};

/// Labels and annotations that only the operator sets.
const OWN_PREFIX: &str = "punctual.dev/";

impl Kind for ReportSchedule {
    type Work = ReportJob;
    const SPREAD: SpreadKind = SpreadKind::Report;

    fn timing(&self) -> Timing<'_> {
        timing!(self.spec)
    }

    fn status(&self) -> Option<&MaintenanceScheduleStatus> {
        self.status.as_ref()
    }

    fn set_status(&mut self, status: MaintenanceScheduleStatus) {
        self.status = Some(status);
    }

    /// Jobs wait in their queue, not in their schedule.
    fn policy(&self) -> ConcurrencyPolicy {
        ConcurrencyPolicy::Allow
    }

    fn new_work(&self, instant: IntendedTime) -> ReportJob {
        let name = self.name_any();
        let template = &self.spec.job_template;
        let spec = template.spec.clone();
        let mut job = ReportJob::new(
            &occurrence_name(&name, instant),
            ReportJobSpec {
                queue_name: spec.queue_name,
                tenant: spec.tenant,
                priority: spec.priority,
                parameters: spec.parameters,
                estimate_seconds: spec.estimate_seconds,
                queue_deadline_seconds: spec.queue_deadline_seconds,
                artifact: spec.artifact,
                run: spec.run.map(Box::new),
                cancel: false,
                resolution: None,
                schedule_name: Some(name.clone()),
                intended_time: Some(instant),
                schedule_uid: self.metadata.uid.clone(),
            },
        );
        let meta = template.metadata.clone().unwrap_or_default();
        let mut labels = of_people(meta.labels);
        labels.insert(LABEL_SCHEDULE.to_owned(), name);
        let annotations = of_people(meta.annotations);
        job.metadata.namespace = self.namespace();
        job.metadata.labels = Some(labels);
        job.metadata.annotations = (!annotations.is_empty()).then_some(annotations);
        job
    }

    /// What a queue would lend the job is not known here: without a run of its own only a full proof
    /// counts.
    fn run_of(&self, instant: IntendedTime) -> RunOf {
        let (namespace, name) = (self.namespace().unwrap_or_default(), self.name_any());
        let work = WorkId::report(&namespace, &name, instant);
        let key = AttemptNames::report(&occurrence_name(&name, instant), work).key(1);
        let run = self.spec.job_template.spec.run.as_ref();
        let class = run.map_or(ActionClass::Fenced, RunSpec::report_class);
        (key, class, run.and_then(|run| run.http.clone()))
    }
}

fn of_people(mut entries: BTreeMap<String, String>) -> BTreeMap<String, String> {
    entries.retain(|key, _| !key.starts_with(OWN_PREFIX));
    entries
}

impl Work for ReportJob {
    const NOUN: &'static str = "report job";

    fn instant(&self) -> Option<IntendedTime> {
        self.spec.schedule_name.as_ref().and(self.spec.intended_time)
    }

    /// A client's job is no instant of a schedule: its name may not look like one.
    fn is_hand_made(&self) -> bool {
        self.spec.schedule_uid.is_none()
    }

    fn asks_for_claim(&self) -> bool {
        false
    }

    fn is_terminal(&self) -> bool {
        facts::is_terminal(self)
    }

    fn has_succeeded(&self) -> bool {
        self.status.as_ref().and_then(|status| status.state) == Some(ReportState::Succeeded)
    }

    fn attempts(&self) -> &[Attempt] {
        facts::attempts(self)
    }

    fn lateness_seconds(&self) -> Option<i64> {
        let started = facts::attempts(self).first()?.start_time?;
        Some(started.0.duration_since(self.instant()?.timestamp()).as_secs())
    }

    fn not_run(&self) -> Option<SkipReason> {
        match self.status.as_ref()?.reason.as_deref()? {
            "QueueDeadlineExceeded" => Some(SkipReason::Deadline),
            "NameConflict" => Some(SkipReason::NameConflict),
            "CreateRefused" => Some(SkipReason::CreateRefused),
            _ => None,
        }
    }

    fn begin_status(&mut self) {
        self.status.get_or_insert_default();
    }
}

/// The uids of the jobs that a schedule lets wait in their queues at `now`, and when the next one
/// joins them, its start being delayed by `spread`.
pub fn started(schedule: &ReportSchedule, now: Timestamp) -> (Vec<String>, Option<Timestamp>) {
    let claimed = schedule.status.iter().flat_map(|status| &status.claimed);
    let (mut uids, mut next) = (Vec::new(), None::<Timestamp>);
    for claim in claimed.filter(|claim| claim.start) {
        let from = not_before(schedule, claim.time);
        if from <= now {
            uids.push(claim.uid.clone());
        } else {
            next = Some(next.map_or(from, |before| before.min(from)));
        }
    }
    (uids, next)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn schedule(template: &Value, status: &Value) -> ReportSchedule {
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportSchedule",
            "metadata": {"name": "daily", "namespace": "d", "uid": "s1"},
            "spec": {
                "schedule": "0 2 * * *", "spread": {"windowSeconds": 600},
                "jobTemplate": template,
            },
            "status": status,
        }))
        .unwrap()
    }

    fn at(text: &str) -> IntendedTime {
        text.parse().unwrap()
    }

    #[test]
    fn an_instant_makes_the_job_of_the_template() {
        let template = json!({
            "metadata": {
                "labels": {"team": "finance", "punctual.dev/schedule": "another"},
                "annotations": {"note": "n", "punctual.dev/x": "y"},
            },
            "spec": {
                "queueName": "q", "tenant": "acme", "priority": 5, "estimateSeconds": 90,
                "queueDeadlineSeconds": 3600, "artifact": "Required", "parameters": {"a": "b"},
                "run": {"simulated": {}},
            },
        });
        let job = schedule(&template, &Value::Null).new_work(at("2026-11-29T02:00:00Z"));
        let job = serde_json::to_value(job).unwrap();
        let mut spec = template["spec"].clone();
        for (field, value) in [
            ("scheduleName", "daily"),
            ("intendedTime", "2026-11-29T02:00:00Z"),
            ("scheduleUID", "s1"),
        ] {
            spec[field] = value.into();
        }
        assert_eq!(job["spec"], spec);
        assert_eq!(job["metadata"]["name"], "daily-202611290200");
        assert_eq!(job["metadata"]["namespace"], "d");
        let labels = json!({"team": "finance", "punctual.dev/schedule": "daily"});
        assert_eq!(job["metadata"]["labels"], labels);
        assert_eq!(job["metadata"]["annotations"], json!({"note": "n"}));
        assert!(job.get("status").is_none_or(Value::is_null));
    }

    #[test]
    fn a_claim_says_what_the_job_would_say_itself() {
        let spec = json!({"queueName": "q", "tenant": "acme"});
        let instant = at("2026-11-29T02:00:00Z");
        let without = schedule(&json!({"spec": spec}), &Value::Null);
        let (key, class, http) = without.run_of(instant);
        assert_eq!((class, http), (ActionClass::Fenced, None), "its queue says what runs");
        let job = without.new_work(instant);
        assert_eq!(key, super::super::job::work(&job, None).attempts.key(1));
        let mut with = spec;
        with["run"] =
            json!({"http": {"url": "https://reports.example"}, "actionClass": "ReadOnly"});
        let (_, class, http) = schedule(&json!({"spec": with}), &Value::Null).run_of(instant);
        assert_eq!((class, http.is_some()), (ActionClass::ReadOnly, true));
    }

    #[test]
    fn a_claimed_job_joins_its_queue_when_its_delay_is_over() {
        let claim = |hour: i32, start: bool| {
            json!({
                "time": format!("2026-11-29T{hour:02}:00:00Z"), "start": start,
                "uid": format!("u{hour}"), "runKey": "k", "actionClass": "Fenced",
            })
        };
        let claims = [claim(2, true), claim(3, false), claim(4, true)];
        let template = json!({"spec": {"queueName": "q", "tenant": "acme"}});
        let schedule = schedule(&template, &json!({"claimed": claims}));
        let from = not_before(&schedule, at("2026-11-29T02:00:00Z"));
        let later = not_before(&schedule, at("2026-11-29T04:00:00Z"));
        assert!(from > at("2026-11-29T02:00:00Z").timestamp(), "the hash gives some delay");
        let before = from - jiff::SignedDuration::from_secs(1);
        assert_eq!(started(&schedule, before), (vec![], Some(from)));
        assert_eq!(started(&schedule, from), (vec!["u2".to_owned()], Some(later)));
        let all = vec!["u2".to_owned(), "u4".to_owned()];
        assert_eq!(started(&schedule, later), (all, None), "one that waits is not started");
    }
}
