use std::collections::BTreeMap;

use super::*;
use crate::{
    api::RunSpec,
    providers::job::fixtures::{merged, request},
};

const PLAIN: &str = "{spec: {containers: [{name: main, image: busybox}]}}";

fn env(container: &Value) -> BTreeMap<String, Value> {
    let entries = container["env"].as_array().unwrap();
    let pair = |entry: &Value| (entry["name"].as_str().unwrap().to_owned(), entry.clone());
    let all: BTreeMap<_, _> = entries.iter().map(pair).collect();
    assert_eq!(all.len(), entries.len(), "no variable twice");
    all
}

#[test]
fn the_job_is_inert_runs_at_most_one_pod_and_knows_its_parent() {
    let request = request(PLAIN);
    let job = manifest(&request).unwrap();
    let mut spec = job["spec"].clone();
    spec.as_object_mut().unwrap().remove("template");
    assert_eq!(
        spec,
        json!({
            "suspend": true, "completions": 1, "parallelism": 1, "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [{
                "action": "FailJob",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            }]},
        }),
        "no ttlSecondsAfterFinished, no activeDeadlineSeconds"
    );
    assert_eq!(
        job["metadata"],
        json!({
            "name": "nightly-202611290200-m1",
            "namespace": "docs",
            "labels": {"punctual.dev/parent-uid": "parent-1"},
            "annotations": {
                "punctual.dev/parent-kind": "MaintenanceOccurrence",
                "punctual.dev/parent-uid": "parent-1",
                "punctual.dev/run-key": "4c78fa5c685dd0f1904515254e6e61c1-m1",
                "punctual.dev/template-hash": template_hash(&request),
                "punctual.dev/epoch": "7",
            },
            "ownerReferences": [{
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
                "name": "nightly-202611290200", "uid": "parent-1",
                "controller": true, "blockOwnerDeletion": false,
            }],
        })
    );
    assert_eq!((&job["apiVersion"], &job["kind"]), (&json!("batch/v1"), &json!("Job")));
    assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
}

#[test]
fn what_the_user_wrote_stays_known_or_not() {
    let template = "
metadata: {labels: {app: a, punctual.dev/parent-uid: forged}, annotations: {play/duration: 3s}}
spec:
  fieldOfTomorrow: {a: [1, 2]}
  serviceAccountName: reader
  containers: [{name: main, image: x, newThing: 1.50, env: [{name: MODE, value: plan}]}]
  initContainers: [{name: proxy, restartPolicy: Always}, {name: prepare, restartPolicy: Never}]
futureSibling: true
";
    let job = manifest(&request(template)).unwrap();
    let out = &job["spec"]["template"];
    assert_eq!(
        out["metadata"],
        json!({
            "labels": {"app": "a", "punctual.dev/parent-uid": "parent-1"},
            "annotations": {
                "play/duration": "3s",
                "punctual.dev/run-key": "4c78fa5c685dd0f1904515254e6e61c1-m1",
            },
        })
    );
    assert_eq!(out["futureSibling"], true);
    assert_eq!(out["spec"]["fieldOfTomorrow"], json!({"a": [1, 2]}));
    assert_eq!(out["spec"]["serviceAccountName"], "reader");
    assert_eq!(out["spec"]["containers"][0]["newThing"], 1.5);
    assert_eq!(out["spec"]["containers"][0]["env"][6], json!({"name": "MODE", "value": "plan"}));
    assert_eq!(out["spec"]["initContainers"][0]["restartPolicy"], "Always");
}

#[test]
fn every_container_gets_the_variables_and_ours_win() {
    let template = "
spec:
  initContainers: [{name: prepare, image: x}]
  containers:
  - {name: main, image: x, env: [{name: PUNCTUAL_RUN_KEY, value: forged}, {name: A, value: b}]}
  - {name: second, image: x, env: null}
";
    let job = manifest(&request(template)).unwrap();
    let spec = &job["spec"]["template"]["spec"];
    for container in [&spec["initContainers"][0], &spec["containers"][0], &spec["containers"][1]] {
        let env = env(container);
        for (name, value) in [
            (ENV_RUN_KEY, "4c78fa5c685dd0f1904515254e6e61c1-m1"),
            (ENV_REQUEST_ID, "4c78fa5c-685d-80f1-9045-15254e6e61c1"),
            (ENV_ATTEMPT, "1"),
            (ENV_INTENDED_TIME, "2026-11-29T02:00:00Z"),
            (ENV_EPOCH, "7"),
            (ENV_PARAMETERS, r#"{"mode":"plan"}"#),
        ] {
            assert_eq!(env[name], json!({"name": name, "value": value}), "{}", container["name"]);
        }
    }
    assert_eq!(env(&spec["containers"][0])["A"]["value"], "b");
}

#[test]
fn values_arrive_as_they_are_though_the_kubelet_expands_them() {
    let mut request = request(PLAIN);
    let parameters = BTreeMap::from([("cmd".to_owned(), "$(PUNCTUAL_EPOCH) $$ $x".to_owned())]);
    request.run.parameters = Some(parameters.into());
    let job = manifest(&request).unwrap();
    let env = env(&job["spec"]["template"]["spec"]["containers"][0]);
    assert_eq!(env[ENV_PARAMETERS]["value"], r#"{"cmd":"$$(PUNCTUAL_EPOCH) $$$$ $$x"}"#);
}

#[test]
fn work_without_an_instant_has_no_variable_for_it_not_even_a_forged_one() {
    let mut request = request(
        "{spec: {containers: [{name: m, env: [{name: PUNCTUAL_INTENDED_TIME, value: x}]}]}}",
    );
    request.intended_time = None;
    request.run.parameters = None;
    let job = manifest(&request).unwrap();
    let env = env(&job["spec"]["template"]["spec"]["containers"][0]);
    assert!(!env.contains_key(ENV_INTENDED_TIME));
    assert_eq!(env[ENV_PARAMETERS]["value"], "{}");
}

#[test]
fn what_would_break_the_contract_is_refused_with_the_field_and_the_fix() {
    let at = "run.job.template";
    for (description, template, field, fix) in [
        ("no object", "[1]", at, "must be an object"),
        ("no spec", "{}", "run.job.template.spec", "at least one container"),
        ("spec is a text", "{spec: x}", "run.job.template.spec", "at least one container"),
        ("no containers", "{spec: {}}", "run.job.template.spec.containers", "at least one"),
        ("none in the list", "{spec: {containers: []}}", "spec.containers", "at least one"),
        ("no list", "{spec: {containers: x}}", "spec.containers", "a list"),
        ("no container", "{spec: {containers: [x]}}", "spec.containers[0]", "an object"),
        (
            "restarts on failure",
            "{spec: {restartPolicy: OnFailure, containers: [{name: m}]}}",
            "run.job.template.spec.restartPolicy",
            "must be Never",
        ),
        (
            "restarts always",
            "{spec: {restartPolicy: Always, containers: [{name: m}]}}",
            "run.job.template.spec.restartPolicy",
            "must be Never",
        ),
        (
            "a container that restarts",
            "{spec: {containers: [{name: m}, {name: n, restartPolicy: OnFailure}]}}",
            "run.job.template.spec.containers[1].restartPolicy",
            "must be Never or left out",
        ),
        (
            "an init container that restarts and is no sidecar",
            "{spec: {containers: [{name: m}], initContainers: [{name: i, restartPolicy: OnFailure}]}}",
            "run.job.template.spec.initContainers[0].restartPolicy",
            "Always (a sidecar), Never",
        ),
        (
            "a main container declared like a sidecar",
            "{spec: {containers: [{name: m, restartPolicy: Always}]}}",
            "run.job.template.spec.containers[0].restartPolicy",
            "must be Never",
        ),
        (
            "restart rules",
            "{spec: {containers: [{name: m, restartPolicy: Never, restartPolicyRules: [{action: Restart}]}]}}",
            "run.job.template.spec.containers[0].restartPolicyRules",
            "must be left out",
        ),
        (
            "restart rules of a sidecar",
            "{spec: {containers: [{name: m}], initContainers: [{name: i, restartPolicyRules: [{}]}]}}",
            "run.job.template.spec.initContainers[0].restartPolicyRules",
            "must be left out",
        ),
        (
            "env is no list",
            "{spec: {containers: [{name: m, env: {}}]}}",
            "containers[0].env",
            "list",
        ),
        ("labels are a list", "{metadata: {labels: []}, spec: {}}", "metadata.labels", "an object"),
        ("metadata is a text", "{metadata: x, spec: {}}", "template.metadata", "an object"),
    ] {
        let refused = manifest(&request(template)).unwrap_err().to_string();
        assert!(refused.contains(field), "{description}: {refused}");
        assert!(refused.contains(fix), "{description}: {refused}");
    }
    let mut none = request(PLAIN);
    none.run = RunSpec::default();
    assert!(manifest(&none).unwrap_err().to_string().contains("run.job is missing"));
}

#[test]
fn empty_fields_are_like_absent_ones() {
    let template = "{metadata: {labels: null, annotations: null}, spec: {restartPolicy: null, \
                    initContainers: null, containers: [{name: m, restartPolicy: null, \
                    restartPolicyRules: []}]}}";
    assert!(manifest(&request(template)).is_ok());
}

#[test]
fn parameters_are_bounded() {
    let with = |parameters: BTreeMap<String, String>| {
        let mut request = request(PLAIN);
        request.run.parameters = Some(parameters.into());
        manifest(&request).map_err(|refused| refused.to_string())
    };
    let many = |count: usize| (0..count).map(|n| (format!("k{n}"), String::new())).collect();
    assert!(with(many(MAX_PARAMETERS)).is_ok());
    let refused = with(many(MAX_PARAMETERS + 1)).unwrap_err();
    assert!(refused.contains("run.parameters has 65 entries"), "{refused}");

    let sized =
        |bytes: usize| BTreeMap::from([("k".into(), "v".repeat(bytes - r#"{"k":""}"#.len()))]);
    assert!(with(sized(MAX_PARAMETERS_BYTES)).is_ok());
    let refused = with(sized(MAX_PARAMETERS_BYTES + 1)).unwrap_err();
    assert!(refused.contains("run.parameters is 8193 bytes"), "{refused}");
}

#[test]
fn the_hash_follows_the_content_and_nothing_else() {
    let one = request("{spec: {containers: [{name: main, image: a}], x: {b: 1, a: 2}}}");
    let hash = template_hash(&one);
    assert_eq!(hash.len(), 64);
    let mut other_order =
        request("{spec: {x: {a: 2, b: 1}, containers: [{image: a, name: main}]}}");
    other_order.epoch = 99;
    other_order.attempt = 2;
    assert_eq!(template_hash(&other_order), hash, "key order, epoch and attempt do not matter");
    for (description, edit) in [
        (
            "image",
            json!({"job": {"template": {"spec": {"containers": [{"name": "main", "image": "b"}]}}}}),
        ),
        ("parameters", json!({"parameters": {"mode": "apply"}})),
    ] {
        let run = merged(serde_json::to_value(&one.run).unwrap(), edit);
        let edited = RunRequest { run: serde_json::from_value(run).unwrap(), ..one.clone() };
        assert_ne!(template_hash(&edited), hash, "{description}");
    }
}

#[test]
fn canonical_json_has_one_form() {
    let mut text = String::new();
    write_canonical(&json!({"b": [1, {"d": null, "c": "é\n"}], "a": true}), &mut text);
    assert_eq!(text, "{\"a\":true,\"b\":[1,{\"c\":\"é\\n\",\"d\":null}]}");
}
