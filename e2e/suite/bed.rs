//! The bed itself: it starts, plays Jobs, and its programs can be frozen, killed and restarted.

use std::time::Duration;

use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::bed::{
    control_plane::{APISERVER, ETCD, Parts, PlaneOptions},
    kwok,
    objects::text,
    plan::scenario,
    scenario::ok,
};

/// A Job that the fake node plays: `annotations` say how.
fn job(name: &str, annotations: &serde_json::Value, pod: &serde_json::Value) -> String {
    let mut spec = json!({
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "registry.example/none:1"}],
    });
    for (key, value) in pod.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    })
    .to_string()
}

fn has_condition(object: &serde_json::Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}

#[test]
fn pods_run_finish_fail_and_hang_as_their_annotations_say() {
    scenario().on_throw_away_cluster().run(async |s| {
        let nowhere = json!({});
        s.apply(&job(
            "succeeds",
            &json!({"play/duration": "1s", "play/message": "{\"rows\": 3}"}),
            &nowhere,
        ))
        .await;
        s.apply(&job("fails", &json!({"play/exit-code": "42"}), &nowhere)).await;
        s.apply(&job("hangs", &json!({"play/hang": "true"}), &nowhere)).await;
        s.apply(&job("waits", &json!({"play/stay-pending": "true"}), &nowhere)).await;
        let soon = Duration::from_secs(60);
        s.wait_for("job", "succeeds", "it is complete", soon, |job| has_condition(job, "Complete"))
            .await;
        s.wait_for("job", "fails", "it has failed", soon, |job| has_condition(job, "Failed")).await;
        s.wait_for("job", "hangs", "its pod is ready", soon, |job| job["status"]["ready"] == 1)
            .await;
        let pods = s.list("pod").await;
        let pod_of = |job: &str| {
            pods.iter().find(|pod| text(pod, "/metadata/labels/job-name") == job).unwrap()
        };
        let ended = "/status/containerStatuses/0/state/terminated";
        assert_eq!(text(pod_of("succeeds"), &format!("{ended}/message")), "{\"rows\": 3}");
        assert_eq!(pod_of("fails").pointer(&format!("{ended}/exitCode")), Some(&json!(42)));
        assert_eq!(text(pod_of("hangs"), "/status/phase"), "Running");
        assert_eq!(text(pod_of("waits"), "/status/phase"), "Pending");
        ok(s.kubectl()
            .run(&["delete", "job", "hangs", "--cascade=foreground", "--wait=false"])
            .await);
        s.wait_gone("job", "hangs", soon).await;
    });
}

#[test]
fn a_test_can_have_a_node_of_its_own_and_lose_it() {
    scenario().on_throw_away_cluster().run(async |s| {
        let node = format!("node-{}", s.namespace);
        ok(kwok::add_node(&s.bed, &node, Some(&s.namespace)).await);
        ok(kwok::node_ready(&s.bed, &node).await);
        s.apply(&job("here", &json!({"play/hang": "true"}), &kwok::placement(&s.namespace))).await;
        let soon = Duration::from_secs(60);
        s.wait_for("job", "here", "its pod is ready", soon, |job| job["status"]["ready"] == 1)
            .await;
        let pods = s.list("pod").await;
        assert_eq!(text(&pods[0], "/spec/nodeName"), node);
        s.api("node").delete(&node, &DeleteParams::default()).await.unwrap();
        assert!(s.get("node", &node).await.is_none());
    });
}

// Server-side the bed of every other scenario applies them, just as strictly.
#[test]
fn the_kinds_are_accepted_without_a_warning() {
    let options = PlaneOptions { parts: Parts::ApiServer, kinds: false, ..PlaneOptions::default() };
    scenario().on_own_cluster(options).run(async |s| {
        ok(s.bed.apply_kinds(&[]).await);
        // Whoever began client-side may go on server-side.
        ok(s.bed.apply_kinds(&["--server-side"]).await);
    });
}

#[test]
fn the_api_server_and_etcd_can_be_frozen_killed_and_restarted() {
    let options = PlaneOptions { parts: Parts::ApiServer, fsync: true, ..PlaneOptions::default() };
    scenario().on_own_cluster(options).run(async |s| {
        let maps = s.api("configmap");
        let map = serde_json::from_value(json!({"metadata": {"name": "kept"}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
        let moment = Duration::from_secs(1);
        for name in [APISERVER, ETCD] {
            let process = ok(s.bed.process(name));
            ok(process.freeze().await);
            let answer =
                tokio::time::timeout(moment, s.kubectl().get(&["configmap", "kept"])).await;
            assert!(answer.is_err(), "a frozen {name} must not let a read be answered");
            ok(process.thaw());
            assert!(s.get("configmap", "kept").await.is_some(), "{name} goes on");
            ok(process.kill().await);
            assert!(!process.alive());
            ok(process.restart().await);
            ok(s.bed.ready().await);
            assert!(s.get("configmap", "kept").await.is_some(), "{name} lost what was written");
        }
        assert!(s.bed.lost_records());
    });
}
