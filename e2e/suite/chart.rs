//! The chart: what it renders, and what its admission policies refuse.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use kube::api::PostParams;
use punctual::identity::occurrence_name;
use serde_json::{Value, json};

use super::steps::{by_hand, minutes_ago, not_soon, schedule, try_patch};
use crate::bed::{
    error::BedError,
    objects,
    plan::scenario,
    rights,
    scenario::{Scenario, ok},
    wait,
};

/// A policy counts a moment after it was created, once the API server has compiled it.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn the_chart_renders_what_its_golden_file_says() {
    scenario().unchecked("it only renders the chart").run(async |s| {
        let args = ["--set", "crds.enabled=false"];
        let rendered = ok(rights::template(&s.bed, "punctual", "punctual-system", &args).await);
        let golden = include_str!("../../charts/punctual/tests/golden.yaml");
        let differs = rendered.lines().zip(golden.lines()).position(|(now, then)| now != then);
        assert!(
            rendered == golden,
            "charts/punctual/tests/golden.yaml is old (first in line {:?}): run `make gen`",
            differs.map(|line| line + 1),
        );
    });
}

#[test]
fn alerts_and_the_dashboard_are_rendered_if_asked_for() {
    scenario().unchecked("it only renders the chart").run(async |s| {
        let kinds = ["PrometheusRule", "ConfigMap"];
        let without = ok(rights::template(&s.bed, "p", "ops", &[]).await);
        assert_eq!(ok(rights::documents(&without, &kinds)), Vec::<Value>::new(), "off by default");
        let mut args = vec!["--set", "metrics.prometheusRule.enabled=true"];
        args.extend(["--set", "metrics.prometheusRule.labels.release=monitoring"]);
        args.extend(["--set", "metrics.prometheusRule.runbooks=https://runbooks.example/"]);
        args.extend(["--set", "metrics.dashboard.enabled=true"]);
        let rendered = ok(rights::template(&s.bed, "p", "ops", &args).await);
        let objects = ok(rights::documents(&rendered, &kinds));
        let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();

        let rule = of("PrometheusRule");
        assert_eq!(rule["metadata"]["labels"]["release"], "monitoring");
        let alerts = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
        assert!(alerts.len() >= 5, "{alerts:?}");
        for alert in alerts {
            let asked = alert["expr"].as_str().unwrap();
            assert!(asked.contains("{namespace=\"ops\""), "{asked}");
            let runbook = alert["annotations"]["runbook_url"].as_str().unwrap();
            assert!(runbook.starts_with("https://runbooks.example/"), "{runbook}");
        }

        let dashboard = of("ConfigMap");
        assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
        let model: Value =
            serde_json::from_str(dashboard["data"]["punctual.json"].as_str().unwrap()).unwrap();
        assert!(model["panels"].as_array().unwrap().len() >= 10, "{model}");

        let args = [&args[..], &["--set", "metrics.prometheusRule.selector=job=\"punctual\""]];
        let rendered = ok(rights::template(&s.bed, "p", "ops", &args.concat()).await);
        let rule = ok(rights::documents(&rendered, &["PrometheusRule"])).remove(0);
        let leader = rule["spec"]["groups"][0]["rules"][0]["expr"].as_str().unwrap();
        assert!(leader.contains("punctual_leader{job=\"punctual\"}"), "{leader}");
    });
}

#[test]
fn values_that_cannot_work_are_refused_with_the_name_of_the_value() {
    scenario().unchecked("it only renders the chart").run(async |s| {
        for (set, named) in [
            ("lease.durationSeconds=2", "durationSeconds"),
            ("replica=3", "replica"),
            ("admissionPolicies.immutableRun=maybe", "immutableRun"),
            ("admissionPolicies.tenantAuthorization=maybe", "tenantAuthorization"),
            ("admissionPolicies.refuseWhenNotAccepting=1", "refuseWhenNotAccepting"),
            ("podDisruptionBudget.minAvailable=lots", "minAvailable"),
            ("metrics.prometheusRule.enabled=maybe", "enabled"),
        ] {
            let refused = rights::template(&s.bed, "p", "ns", &["--set", set]).await;
            let why = refused.expect_err(set).0;
            assert!(why.contains(named), "{set}: {why}");
        }
    });
}

/// Applies the policies as a release that watches this namespace alone, with one more option than the
/// defaults.
async fn apply_policies(s: &Scenario, option: &str) {
    let watched = format!("watchNamespaces={{{}}}", s.namespace);
    let option = format!("admissionPolicies.{option}=true");
    let args = ["--set", &watched, "--set", &option];
    let rendered = ok(rights::template(&s.bed, &s.namespace, &s.namespace, &args).await);
    let kinds = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
    let policies = ok(rights::documents(&rendered, &kinds));
    assert_eq!(policies.len(), 4, "two policies, each with its binding");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": policies}).to_string();
    ok(s.kubectl().run_with(&["apply", "-f", "-"], &list).await);
}

/// What kubectl says once it refuses a manifest.
async fn refusal_of(s: &Scenario, manifest: &Value) -> String {
    refusal_to(s, "system:admin", manifest).await
}

/// Dry-runs a create as somebody of the group of administrators, or as somebody else.
async fn try_create(s: &Scenario, who: &str, manifest: &Value) -> Result<(), String> {
    let (text, who) = (manifest.to_string(), format!("--as={who}"));
    let mut args = vec!["create", "--dry-run=server", "-f", "-"];
    if who != "--as=system:admin" {
        args.push(&who);
    }
    match s.kubectl().try_run(&args, &text).await {
        Ok(said) if said.ok => Ok(()),
        Ok(said) => Err(said.stderr),
        Err(error) => Err(error.0),
    }
}

/// What kubectl tells somebody once it refuses a manifest.
async fn refusal_to(s: &Scenario, who: &str, manifest: &Value) -> String {
    ok(wait::until("the policy counts", SOON, async || match try_create(s, who, manifest).await {
        Ok(()) => Err(BedError("it was accepted".to_owned())),
        Err(said) => Ok(said),
    })
    .await)
}

/// Waits until somebody may create what a manifest says.
async fn accepted_from(s: &Scenario, who: &str, manifest: &Value) {
    ok(wait::until("it is accepted", SOON, async || {
        try_create(s, who, manifest).await.map_err(BedError)
    })
    .await);
}

fn report_job(name: &str, queue: &str, tenant: &str) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob", "metadata": {"name": name},
        "spec": {"queueName": queue, "tenant": tenant, "run": {"simulated": {}}},
    })
}

fn report_queue(name: &str) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue", "metadata": {"name": name},
        "spec": {"slots": 2, "limits": {"queued": 3}},
    })
}

#[test]
fn the_admission_policies_refuse_other_runs_and_nothing_else() {
    scenario().on_throw_away_cluster().unchecked("nothing runs").run(async |s| {
        let (at, later) = (minutes_ago(-60), minutes_ago(-61));
        let template = json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}});
        let mut with_run = by_hand("nobody", at);
        with_run["spec"]["run"] = json!({"job": {"template": template}});
        s.apply(&with_run.to_string()).await;
        let name = occurrence_name("nobody", at);
        apply_policies(s, "forbidHandMadeRun").await;

        let mut another = by_hand("nobody", later);
        another["spec"]["run"] = json!({"simulated": {}});
        let refused = refusal_of(s, &another).await;
        assert!(refused.contains("spec.run and spec.scheduleUID"), "{refused}");
        // The operator may, and so may a person without a run.
        let mut own = another.clone();
        own["spec"]["scheduleUID"] = json!("0b9a6c3e-1111-4222-8333-444455556666");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let api = objects::api(&s.account_client().await, &s.namespace, "mocc");
        api.create(&dry, &serde_json::from_value(own).unwrap()).await.unwrap();
        s.apply(&by_hand("nobody", later).to_string()).await;

        // Swapped values are what a rule of the CRD would miss.
        for template in [
            json!({"spec": {"containers": [{"name": "main", "image": "alpine"}]}}),
            json!({"spec": {"containers": [{"image": "main", "name": "busybox"}]}}),
        ] {
            let edit = json!({"spec": {"run": {"job": {"template": template}}}});
            let refused = try_patch(s, "mocc", &name, &edit).await.unwrap_err();
            assert!(refused.contains("the Job template included"), "{refused}");
        }
        let cancel = json!({"spec": {"cancel": true}, "metadata": {"labels": {"a": "b"}}});
        try_patch(s, "mocc", &name, &cancel).await.unwrap();
        // Schedules may change.
        s.apply(&schedule("nightly", &not_soon(), &json!({}), &json!({})).to_string()).await;
    });
}

#[test]
fn the_run_of_a_report_is_immutable_with_its_template() {
    scenario().on_throw_away_cluster().unchecked("nothing runs").run(async |s| {
        apply_policies(s, "forbidHandMadeRun").await;
        let template =
            |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        let mut job = report_job("acme-1", "reports", "acme");
        job["spec"]["run"] = json!({"job": {"template": template("busybox")}});
        s.apply(&job.to_string()).await;
        // Each time another one: what was accepted before the policy counted is no change any more.
        let images = AtomicUsize::new(0);
        let refused = ok(wait::until("the policy counts", SOON, async || {
            let image = format!("alpine:{}", images.fetch_add(1, Ordering::Relaxed));
            let edit = json!({"spec": {"run": {"job": {"template": template(&image)}}}});
            match try_patch(s, "rjob", "acme-1", &edit).await {
                Ok(()) => Err(BedError("it was accepted".to_owned())),
                Err(said) => Ok(said),
            }
        })
        .await);
        assert!(refused.contains("the Job template included"), "{refused}");
        let cancel = json!({"spec": {"cancel": true}, "metadata": {"labels": {"a": "b"}}});
        try_patch(s, "rjob", "acme-1", &cancel).await.unwrap();
    });
}

#[test]
fn a_report_that_its_queue_would_reject_is_not_even_created() {
    scenario().on_throw_away_cluster().unchecked("nothing runs").run(async |s| {
        s.apply(&report_queue("reports").to_string()).await;
        s.apply(&report_queue("others").to_string()).await;
        apply_policies(s, "refuseWhenNotAccepting").await;
        let stands = async |status: Value| {
            let patch = json!({"status": status}).to_string();
            let args = ["patch", "rqueue", "reports", "--subresource=status", "--type=merge", "-p"];
            ok(s.kubectl().run(&[&args[..], &[&patch]].concat()).await);
        };
        let job = report_job("acme-1", "reports", "acme");

        stands(json!({"admissions": "Closed", "slotsUsed": 0, "waiting": 0})).await;
        let refused = refusal_of(s, &job).await;
        assert!(refused.contains("queue reports is Closed"), "{refused}");
        for queue in ["others", "missing"] {
            accepted_from(s, "system:admin", &report_job("acme-2", queue, "acme")).await;
        }
        // The operator makes jobs for schedules, which the limits do not concern.
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let api = objects::api(&s.account_client().await, &s.namespace, "rjob");
        api.create(&dry, &serde_json::from_value(job.clone()).unwrap()).await.unwrap();

        // Three may wait, and two more find a free slot.
        stands(json!({"admissions": "Open", "slotsUsed": 1, "waiting": 4})).await;
        let full = ok(wait::until("the queue is full", SOON, async || {
            match try_create(s, "system:admin", &job).await {
                Err(said) if said.contains("queue reports is full") => Ok(said),
                other => Err(BedError(format!("{other:?}"))),
            }
        })
        .await);
        assert!(full.contains("create it again later"), "{full}");
        stands(json!({"admissions": "Open", "slotsUsed": 0, "waiting": 4})).await;
        accepted_from(s, "system:admin", &job).await;
        // A queue that holds offers no free slot.
        stands(json!({"admissions": "Held", "slotsUsed": 0, "waiting": 3})).await;
        let held = refusal_of(s, &job).await;
        assert!(held.contains("queue reports is full"), "{held}");
    });
}

#[test]
fn reports_of_a_tenant_are_for_those_who_may_submit_for_it() {
    scenario().on_throw_away_cluster().unchecked("nothing runs").run(async |s| {
        let may = |resources: &[&str], names: &[&str], verbs: &[&str]| {
            let groups = ["punctual.dev"];
            json!({"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs})
        };
        let mut create = may(&["reportjobs", "reportschedules"], &[], &["create"]);
        create.as_object_mut().unwrap().remove("resourceNames");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "alice"},
            "rules": [create, may(&["reporttenants"], &["acme"], &["submit"])],
        });
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "alice"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "alice"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
        });
        s.apply(&role.to_string()).await;
        s.apply(&binding.to_string()).await;
        accepted_from(s, "alice", &report_job("zeta-1", "reports", "zeta")).await;
        apply_policies(s, "tenantAuthorization").await;

        let refused = refusal_to(s, "alice", &report_job("zeta-1", "reports", "zeta")).await;
        assert!(refused.contains("submit on reporttenants/zeta"), "{refused}");
        accepted_from(s, "alice", &report_job("acme-1", "reports", "acme")).await;
        let schedule = |tenant: &str| {
            json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportSchedule",
                "metadata": {"name": "hourly"},
                "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {
                    "queueName": "reports", "tenant": tenant, "run": {"simulated": {}},
                }}},
            })
        };
        let refused = refusal_to(s, "alice", &schedule("zeta")).await;
        assert!(refused.contains("submit on reporttenants/zeta"), "{refused}");
        accepted_from(s, "alice", &schedule("acme")).await;
        // The operator makes the jobs of schedules.
        let job = serde_json::from_value(report_job("zeta-1", "reports", "zeta")).unwrap();
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let api = objects::api(&s.account_client().await, &s.namespace, "rjob");
        api.create(&dry, &job).await.unwrap();
    });
}
