//! Writes, and what is refused.

use std::sync::Arc;

use super::{super::*, *};

fn refused(model: &Model, request: Request) -> (u16, &'static str, String) {
    let before = model.revision();
    let refusal = model.write("r0", request).unwrap_err();
    assert_eq!(model.revision(), before, "a refused write changes nothing");
    (refusal.code, refusal.reason, refusal.message)
}

#[test]
fn a_new_object_gets_what_the_server_gives() {
    let model = model();
    let mut object = schedule("nightly");
    object["status"] = json!({"state": "Active"});
    object["spec"]["unknown"] = 1.into();
    let key = create(&model, object.clone());
    let made = model.get(&key).unwrap();
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-11-29T01:58:30Z");
    assert_eq!(made["metadata"]["resourceVersion"], model.revision().to_string());
    assert!(made["metadata"]["uid"].as_str().unwrap().len() == 36);
    assert_eq!(made["spec"]["missedRuns"], json!({"policy": "Latest", "limit": 10}));
    assert!(made.get("status").is_none() && made["spec"].get("unknown").is_none());
    let again = refused(&model, Request::create(key.kind, "docs", object.clone()));
    assert_eq!((again.0, again.1), (409, "AlreadyExists"));
    let nowhere = Request::create(
        key.kind,
        "nowhere",
        json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"],
            "metadata": {"name": "a"}, "spec": object["spec"],
        }),
    );
    assert_eq!(refused(&model, nowhere).0, 404);
}

#[test]
fn what_an_object_lacks_or_has_wrong_is_said_field_by_field() {
    let model = model();
    let mut object = schedule("nightly");
    object["spec"] = json!({
        "schedule": 5, "concurrencyPolicy": "Some", "missedRuns": {"limit": 0},
        "suspendUntilTime": "soon", "timeZone": "",
    });
    let (code, reason, message) =
        refused(&model, Request::create(Kind::MaintenanceSchedule, "docs", object));
    assert_eq!((code, reason), (422, "Invalid"));
    for part in [
        "MaintenanceSchedule.punctual.dev \"nightly\" is invalid: [",
        "spec.run: Required value",
        "spec.schedule: Invalid value: \"integer\": spec.schedule in body must be of type string: \"integer\"",
        "spec.concurrencyPolicy: Unsupported value: \"Some\": supported values: \"Allow\", \"Forbid\"",
        "spec.missedRuns.limit: Invalid value: 0: spec.missedRuns.limit in body should be greater than or equal to 1",
        "spec.suspendUntilTime: Invalid value: \"soon\": spec.suspendUntilTime in body must be of type date-time: \"soon\"",
        "spec.timeZone in body should be at least 1 chars long",
        "some validation rules were not checked",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
}

#[test]
fn the_status_has_its_own_way_and_the_fence_stands() {
    let model = model();
    let key = create(&model, occurrence());
    let mut object = (*model.get(&key).unwrap()).clone();
    object["status"] = json!({"fence": {"epoch": 5, "nonce": "a"}, "state": "Running"});
    object["spec"]["cancel"] = true.into();
    let after = model.write("r0", Request::update_status(&key, object.clone())).unwrap();
    assert_eq!(after["status"]["state"], "Running");
    assert!(after["spec"].get("cancel").is_none());
    assert_eq!(after["metadata"]["generation"], 1);
    let old_version = refused(&model, Request::update_status(&key, object));
    assert_eq!((old_version.0, old_version.1), (409, "Conflict"));
    let mut stale = (*after).clone();
    stale["status"]["fence"] = json!({"epoch": 4, "nonce": "z"});
    let (code, _, message) = refused(&model, Request::update_status(&key, stale));
    assert_eq!(code, 422);
    assert!(message.contains(crate::api::FENCE_MESSAGE), "{message}");
    let mut main = (*after).clone();
    main["spec"]["cancel"] = true.into();
    main["status"] = json!({"state": "Failed"});
    let main = model.write("person", Request::update(&key, main)).unwrap();
    assert_eq!(main["metadata"]["generation"], 2);
    assert_eq!(main["status"]["state"], "Running");
    let again = model.write("person", Request::update(&key, (*main).clone())).unwrap();
    assert_eq!(again["metadata"]["resourceVersion"], main["metadata"]["resourceVersion"]);
}

#[test]
fn a_deleted_lease_is_created_by_a_put_without_uid_alone() {
    let model = model();
    let key = Key::new(Kind::Lease, "docs", "punctual");
    let lease = |uid: Option<&str>| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "punctual", "namespace": "docs", "uid": uid, "resourceVersion": "7"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 3},
        })
    };
    let with_uid = refused(&model, Request::update(&key, lease(Some("gone"))));
    assert_eq!((with_uid.0, with_uid.1), (409, "Conflict"));
    let made = model.write("r0", Request::update(&key, lease(None))).unwrap();
    assert_eq!(made["spec"]["holderIdentity"], "a");
    let mut unversioned = (*made).clone();
    unversioned["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(refused(&model, Request::update(&key, unversioned)).0, 422);
    let mut zero = (*made).clone();
    zero["spec"]["leaseDurationSeconds"] = 0.into();
    assert_eq!(refused(&model, Request::update(&key, zero)).0, 422);
}

#[test]
fn a_dry_run_checks_everything_and_stores_nothing() {
    let model = model();
    let before = model.revision();
    let kind = Kind::MaintenanceSchedule;
    let dry = |object| Request::Create { kind, namespace: "docs".into(), object, dry_run: true };
    let shown = model.write("r0", dry(schedule("a"))).unwrap();
    assert_eq!(shown["spec"]["timeZone"], "UTC");
    assert!(shown["metadata"].get("resourceVersion").is_none());
    let mut wrong = schedule("a");
    wrong["spec"]["schedule"] = "TZ=UTC @daily".into();
    assert_eq!(refused(&model, dry(wrong)).0, 422);
    assert_eq!(model.revision(), before);
    assert!(model.get(&schedule_key("a")).is_none());
}

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "a", "namespace": "docs"},
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "m", "image": "x:1"}],
        }}},
    })
}

#[test]
fn a_job_is_patched_at_its_version_and_only_where_it_may() {
    let model = model();
    let key = create(&model, job());
    let made = model.get(&key).unwrap();
    let version = made["metadata"]["resourceVersion"].clone();
    let uid = made["metadata"]["uid"].clone();
    assert_eq!(made["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], uid);
    let other = json!({"metadata": {"uid": "other"}, "spec": {"suspend": false}});
    let (code, _, message) = refused(&model, Request::patch(&key, other));
    assert_eq!(code, 422);
    assert!(message.contains("metadata.uid"), "{message}");
    let release =
        json!({"metadata": {"uid": uid, "resourceVersion": version}, "spec": {"suspend": false}});
    let released = model.write("r0", Request::patch(&key, release.clone())).unwrap();
    assert_eq!(released["metadata"]["generation"], 2);
    assert_eq!(refused(&model, Request::patch(&key, release)).1, "Conflict");
    let template =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "m", "image": "y:1"}]}}}});
    let (code, _, message) = refused(&model, Request::patch(&key, template));
    assert!(code == 422 && message.contains("field is immutable"), "{message}");
}

#[test]
fn a_deletion_waits_for_what_holds_the_object() {
    let model = model();
    let key = create(&model, job());
    let uid = |uid: &str| Deletion { uid: Some(uid.into()), ..Deletion::default() };
    assert_eq!(refused(&model, Request::delete(&key, uid("other"))).1, "Conflict");
    let foreground = Deletion { propagation: Some(Propagation::Foreground), ..Deletion::default() };
    let going = model.write("r0", Request::delete(&key, foreground.clone())).unwrap();
    assert_eq!(going["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(going["metadata"]["deletionTimestamp"], "2026-11-29T01:58:30Z");
    assert_eq!(going["metadata"]["generation"], 2);
    let again = model.write("r0", Request::delete(&key, foreground)).unwrap();
    assert_eq!(again["metadata"]["resourceVersion"], going["metadata"]["resourceVersion"]);
    let more = json!({"metadata": {"finalizers": ["foregroundDeletion", "x.dev/y"]}});
    assert_eq!(refused(&model, Request::patch(&key, more)).0, 422);
    let free = json!({"metadata": {"finalizers": null}});
    model.write("garbage-collector", Request::patch(&key, free)).unwrap();
    assert!(model.get(&key).is_none());
    let orphaned = create(&model, job());
    let going = model.write("person", Request::delete(&orphaned, Deletion::default())).unwrap();
    assert_eq!(going["metadata"]["finalizers"], json!(["orphan"]), "what a Job does by default");
}

#[test]
fn a_pod_gets_its_time_and_a_schedule_goes_at_once() {
    let model = model();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "docs"},
        "spec": {"nodeName": "n", "containers": [{"name": "m", "image": "x"}]},
        "status": {"phase": "Running"},
    });
    let key = model.install(&pod).unwrap();
    let going = model.write("person", Request::delete(&key, Deletion::default())).unwrap();
    assert_eq!(going["metadata"]["deletionTimestamp"], "2026-11-29T01:59:00Z");
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 30);
    let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
    model.write("node", Request::delete(&key, now)).unwrap();
    assert!(model.get(&key).is_none());
    let key = create(&model, schedule("nightly"));
    model.write("person", Request::delete(&key, Deletion::default())).unwrap();
    assert!(model.get(&key).is_none());
    assert_eq!(refused(&model, Request::delete(&key, Deletion::default())).0, 404);
}

#[test]
fn every_commit_is_told_once_and_in_order_also_to_a_listener_that_writes() {
    let model = model();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (seen, writer) = (Arc::clone(&told), model.clone());
    model.on_commit(Box::new(move |commit| {
        seen.lock().unwrap().push((commit.revision, commit.key.name.clone(), commit.verb));
        if commit.key.name == "a" && commit.verb == crate::sim::Verb::Create {
            writer
                .write("echo", Request::create(Kind::MaintenanceSchedule, "docs", schedule("b")))
                .unwrap();
        }
    }));
    let key = create(&model, schedule("a"));
    model.write("person", Request::delete(&key, Deletion::default())).unwrap();
    let told = told.lock().unwrap();
    let names: Vec<&str> = told.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b", "a"]);
    assert!(told.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
}

#[test]
fn what_is_installed_keeps_its_status_and_may_name_its_identity() {
    let model = model();
    let mut object = occurrence();
    object["status"] = json!({"state": "Running", "fence": {"epoch": 3, "nonce": "a"}});
    object["metadata"]["uid"] = "u-1".into();
    object["metadata"]["namespace"] = "elsewhere".into();
    let key = model.install(&object).unwrap();
    let stored = model.get(&key).unwrap();
    assert_eq!(
        (&stored["metadata"]["uid"], &stored["status"]["state"]),
        (&json!("u-1"), &json!("Running"))
    );
    assert!(model.get(&Key::new(Kind::Namespace, "", "elsewhere")).is_some());
    object["metadata"]["name"] = "wrong".into();
    assert!(model.install(&object).unwrap_err().contains(crate::api::NAME_RULE_MESSAGE));
    assert!(model.install(&json!({"kind": "CronJob"})).unwrap_err().contains("CronJob"));
}

#[test]
fn the_examples_have_no_field_that_the_server_would_drop() {
    let model = model();
    for file in [
        include_str!("../../../../docs/examples/nightly-retention.yaml"),
        include_str!("../../../../docs/examples/monthly-reports.yaml"),
    ] {
        for document in file.split("\n---\n") {
            let object: Value = crate::yaml::from_str(document).unwrap();
            if object["kind"] == "Namespace" {
                model.add_namespace(object["metadata"]["name"].as_str().unwrap());
                continue;
            }
            let kind = Kind::named(object["kind"].as_str().unwrap()).unwrap();
            let namespace = object["metadata"]["namespace"].as_str().unwrap().to_owned();
            let made = model.write("person", Request::create(kind, &namespace, object.clone()));
            assert!(contains(&made.unwrap()["spec"], &object["spec"]), "{kind:?}");
        }
    }
}

/// Whether every field of `part` is in `whole`, with the same value.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, part)| whole.get(name).is_some_and(|whole| contains(whole, part))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(a, b)| contains(a, b))
        }
        (whole, part) => whole == part,
    }
}

#[test]
fn the_kinds_of_reports_get_their_defaults() {
    let model = model();
    let mut bare = report_job("acme-1");
    bare["spec"] = json!({"queueName": "reports", "tenant": "acme"});
    let key = create(&model, bare);
    let spec = &model.get(&key).unwrap()["spec"];
    let defaults = json!({
        "queueName": "reports", "tenant": "acme", "priority": 0, "estimateSeconds": 60,
        "artifact": "Optional",
    });
    assert_eq!(*spec, defaults);
    let key = create(&model, report_queue("reports"));
    let spec = &model.get(&key).unwrap()["spec"];
    assert_eq!(spec["limits"], json!({"queued": 10_000, "queuedPerTenant": 1000}));
    assert_eq!(spec["retries"], json!({"enabled": true, "budgetPercent": 10}));
    let week = 604_800;
    assert_eq!(spec["retention"], json!({"successfulSeconds": week, "failedSeconds": week}));
    assert_eq!((&spec["admission"], &spec["allowOwnRun"]), (&json!("Open"), &json!(true)));
}
