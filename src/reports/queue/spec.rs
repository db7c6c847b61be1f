//! What a queue's spec says at a moment: pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    api::{AdmissionPolicy, ReportJob, ReportQueueSpec},
    reports::rules::{Rules, Starts, TenantRule},
};

/// The policy that is in force now: one that ends at a time gives way to Open then.
pub fn policy(spec: &ReportQueueSpec, now: Timestamp) -> AdmissionPolicy {
    match spec.admission_until_time {
        Some(until) if until.0 <= now => AdmissionPolicy::Open,
        _ => spec.admission,
    }
}

/// When the policy changes by itself.
pub fn policy_ends(spec: &ReportQueueSpec, now: Timestamp) -> Option<Timestamp> {
    let until = spec.admission_until_time?.0;
    (spec.admission != AdmissionPolicy::Open && until > now).then_some(until)
}

/// Why the queue does not run what this job brings, if so. What was accepted before goes on.
pub fn refuses_own_run(spec: &ReportQueueSpec, job: &ReportJob) -> Option<&'static str> {
    let taken = job.status.as_ref().is_some_and(|status| status.run.is_some());
    let refused = !spec.allow_own_run && job.spec.run.is_some() && !taken;
    refused.then_some(
        "its queue runs its own runTemplate only (allowOwnRun: false): create it without spec.run",
    )
}

/// Whether new reports start now. `paused`: the leader has yet to account for what it found.
pub fn starts(spec: &ReportQueueSpec, paused: bool, now: Timestamp) -> Starts {
    match policy(spec, now) {
        _ if paused => Starts::Paused,
        AdmissionPolicy::Hold => Starts::Held,
        AdmissionPolicy::Open | AdmissionPolicy::Closed => Starts::Open,
    }
}

/// The rules of the queue now. `paused`: the leader has yet to account for what it found.
pub fn rules(spec: &ReportQueueSpec, paused: bool, now: Timestamp) -> Rules {
    let tenants: BTreeMap<String, TenantRule> = spec
        .tenants
        .iter()
        .map(|rule| {
            let max_running = rule.max_running;
            (rule.name.clone(), TenantRule { weight: rule.weight, max_running })
        })
        .collect();
    Rules {
        starts: starts(spec, paused, now),
        accepts: policy(spec, now) != AdmissionPolicy::Closed,
        slots: spec.slots,
        tenants,
        queued: spec.limits.queued,
        queued_per_tenant: spec.limits.queued_per_tenant,
        retries: spec.retries.enabled,
        budget_percent: spec.retries.budget_percent,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(spec: &Value) -> ReportQueueSpec {
        serde_json::from_value(spec.clone()).unwrap()
    }

    #[test]
    fn a_note_with_an_end_opens_the_queue_by_itself() {
        let held = spec(&json!({
            "slots": 2, "admission": "Hold", "admissionUntilTime": "2026-11-29T03:00:00Z",
        }));
        let before = "2026-11-29T02:59:59Z".parse().unwrap();
        let after = "2026-11-29T03:00:00Z".parse().unwrap();
        assert_eq!(policy(&held, before), AdmissionPolicy::Hold);
        assert_eq!(policy_ends(&held, before), Some(after));
        assert_eq!(policy(&held, after), AdmissionPolicy::Open);
        assert_eq!(policy_ends(&held, after), None);
        assert_eq!(policy_ends(&spec(&json!({"slots": 2})), before), None);
    }

    #[test]
    fn a_queue_may_run_its_own_template_only() {
        let job = |run: &Value, status: &Value| -> ReportJob {
            serde_json::from_value(json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
                "metadata": {"name": "r0", "namespace": "d"},
                "spec": {"queueName": "q", "tenant": "acme", "run": run}, "status": status,
            }))
            .unwrap()
        };
        let run = json!({"simulated": {}});
        let strict = spec(&json!({"slots": 1, "allowOwnRun": false, "runTemplate": run}));
        let open = spec(&json!({"slots": 1, "runTemplate": run}));
        let taken = json!({"state": "Queued", "run": run});
        assert!(refuses_own_run(&strict, &job(&run, &Value::Null)).is_some());
        assert_eq!(refuses_own_run(&strict, &job(&Value::Null, &Value::Null)), None);
        assert_eq!(refuses_own_run(&strict, &job(&run, &taken)), None);
        assert_eq!(refuses_own_run(&open, &job(&run, &Value::Null)), None);
    }

    #[test]
    fn what_is_closed_still_starts_and_what_is_held_still_accepts() {
        let now = "2026-11-29T02:00:00Z".parse().unwrap();
        let of = |admission: &str, paused| {
            let rules = rules(&spec(&json!({"slots": 2, "admission": admission})), paused, now);
            (rules.starts, rules.accepts)
        };
        assert_eq!(of("Open", false), (Starts::Open, true));
        assert_eq!(of("Hold", false), (Starts::Held, true));
        assert_eq!(of("Closed", false), (Starts::Open, false));
        assert_eq!(of("Closed", true), (Starts::Paused, false));
        assert_eq!(of("Hold", true), (Starts::Paused, true));
    }
}
