//! The chart: what it renders, and what its admission policies refuse.

use std::time::Duration;

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
fn values_that_cannot_work_are_refused_with_the_name_of_the_value() {
    scenario().unchecked("it only renders the chart").run(async |s| {
        for (set, named) in [
            ("lease.durationSeconds=2", "durationSeconds"),
            ("replica=3", "replica"),
            ("admissionPolicies.immutableRun=maybe", "immutableRun"),
            ("podDisruptionBudget.minAvailable=lots", "minAvailable"),
        ] {
            let refused = rights::template(&s.bed, "p", "ns", &["--set", set]).await;
            let why = refused.expect_err(set).0;
            assert!(why.contains(named), "{set}: {why}");
        }
    });
}

/// Applies the policies as a release that watches this namespace alone.
async fn apply_policies(s: &Scenario) {
    let watched = format!("watchNamespaces={{{}}}", s.namespace);
    let args = ["--set", &watched, "--set", "admissionPolicies.forbidHandMadeRun=true"];
    let rendered = ok(rights::template(&s.bed, &s.namespace, &s.namespace, &args).await);
    let kinds = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
    let policies = ok(rights::documents(&rendered, &kinds));
    assert_eq!(policies.len(), 4, "two policies, each with its binding");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": policies}).to_string();
    ok(s.kubectl().run_with(&["apply", "-f", "-"], &list).await);
}

/// What kubectl says once it refuses a manifest.
async fn refusal_of(s: &Scenario, manifest: &Value) -> String {
    let text = manifest.to_string();
    ok(wait::until("the policy counts", SOON, async || {
        let said = s.kubectl().try_run(&["create", "--dry-run=server", "-f", "-"], &text).await?;
        if said.ok { Err(BedError("it was accepted".to_owned())) } else { Ok(said.stderr) }
    })
    .await)
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
        apply_policies(s).await;

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
