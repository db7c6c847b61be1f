//! People act on what runs: they cancel it, delete it, suspend or replace its Job. Nothing runs twice
//! for that, and its place is free only when its run is over.

use std::time::Duration;

use punctual::{identity::occurrence_name, time::IntendedTime};
use serde_json::{Value, json};

use super::steps::{
    SOON, apply_back_dated, claims, claims_nothing, hourly_at, in_state, in_state_within, job_of,
    let_go, minutes_ago, not_soon, patch, runs_of, schedule, skipped, skipped_total, state_of,
    trigger, trigger_again, try_patch, uid,
};
use crate::bed::{
    objects::text,
    plan::scenario,
    scenario::{Scenario, ok},
};

/// Without a stop that we asked for, a pod that vanished counts as over when its node was Ready for
/// a minute afterwards.
const VANISHED: Duration = Duration::from_secs(120);

/// A schedule with one instant that was just missed, whose run goes on until it is told to end.
/// `play` and `spec` as for [`schedule`].
async fn runs(s: &Scenario, name: &str, play: Value, spec: &Value) -> (String, IntendedTime) {
    let at = minutes_ago(5);
    let mut annotations = json!({"play/hang": "true"});
    for (key, value) in play.as_object().into_iter().flatten() {
        annotations[key] = value.clone();
    }
    let manifest = schedule(name, &hourly_at(&[at]), &annotations, spec);
    apply_back_dated(s, &manifest, minutes_ago(7)).await;
    (occurrence_name(name, at), at)
}

/// The pods of a Job.
async fn pods_of(s: &Scenario, job: &str) -> Vec<Value> {
    let mut pods = s.list("pod").await;
    pods.retain(|pod| text(pod, "/metadata/labels/batch.kubernetes.io~1job-name") == job);
    pods
}

fn is_leaving(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

#[test]
fn a_running_occurrence_that_is_deleted_keeps_its_place_until_it_is_over() {
    scenario().on_throw_away_cluster().run(async |s| {
        let lingers = json!({"play/linger": "true"});
        let (name, at) = runs(s, "doomed", lingers, &json!({})).await;
        s.replica("r0").await;
        let running = in_state(s, &name, "Running").await;
        let pods = pods_of(s, &job_of(&name, 1)).await;
        assert_eq!(pods.len(), 1, "{pods:?}");
        ok(s.kubectl().run(&["delete", "mocc", &name, "--wait=false"]).await);
        s.wait_gone("mocc", &name, SOON).await;
        // Its pod is told to end, and takes its time.
        let pod = text(&pods[0], "/metadata/name");
        s.wait_for("pod", pod, "it is told to end", SOON, is_leaving).await;
        let next = trigger(s, "doomed", minutes_ago(3)).await;
        let waits = in_state(s, &next, "Pending").await;
        assert_eq!(state_of(&waits), ("Pending", "Waiting"));
        let holds = s.get("msched", "doomed").await.unwrap();
        assert!(claims(&holds, uid(&running), true), "the place is taken: {holds}");
        assert_eq!(skipped_total(&holds, "Deleted"), 0);
        let_go(s, &job_of(&name, 1), "play/linger").await;
        in_state(s, &next, "Running").await;
        let freed = s.get("msched", "doomed").await.unwrap();
        assert!(!claims(&freed, uid(&running), true), "{freed}");
        assert_eq!((skipped(&freed, at), skipped_total(&freed, "Deleted")), (Some("Deleted"), 1));
        s.wait_gone("job", &job_of(&name, 1), SOON).await;
        assert_eq!(s.get("mocc", &name).await, None, "it is not made again");
        assert_eq!(runs_of(s, &name).await, 1);
        assert_eq!(runs_of(s, &next).await, 1);
    });
}

#[test]
fn a_job_suspended_by_a_person_fails_and_is_not_released_again() {
    scenario().on_throw_away_cluster().run(async |s| {
        let retries = json!({"run": {"maxAttempts": 3}});
        let (name, _) = runs(s, "suspended", json!({}), &retries).await;
        s.replica("r0").await;
        in_state(s, &name, "Running").await;
        let job = job_of(&name, 1);
        patch(s, "job", &job, &json!({"spec": {"suspend": true}})).await;
        let over = in_state(s, &name, "Failed").await;
        assert_eq!(state_of(&over), ("Failed", "SuspendedByOthers"));
        s.wait_gone("job", &job, SOON).await;
        s.wait_for("msched", "suspended", "its place is free", SOON, claims_nothing).await;
        assert_eq!(over["status"]["attempts"].as_array().map(Vec::len), Some(1));
        assert_eq!(runs_of(s, &name).await, 1);
    });
}

#[test]
fn a_job_deleted_by_a_person_is_not_run_again() {
    scenario().on_throw_away_cluster().run(async |s| {
        let retries = json!({"run": {"maxAttempts": 3}});
        let (name, _) = runs(s, "deleted", json!({}), &retries).await;
        s.replica("r0").await;
        in_state(s, &name, "Running").await;
        ok(s.kubectl().run(&["delete", "job", &job_of(&name, 1)]).await);
        let over = in_state_within(s, &name, "Failed", VANISHED).await;
        assert_eq!(state_of(&over), ("Failed", "Deleted"));
        assert_eq!(over["status"]["attempts"].as_array().map(Vec::len), Some(1));
        s.wait_for("msched", "deleted", "its place is free", SOON, claims_nothing).await;
        assert_eq!(s.list("job").await.len(), 0);
        assert_eq!(runs_of(s, &name).await, 1);
    });
}

#[test]
fn a_job_replaced_by_another_of_its_name_is_left_alone_and_not_run_again() {
    scenario().on_throw_away_cluster().run(async |s| {
        let retries = json!({"run": {"maxAttempts": 3}});
        let (name, _) = runs(s, "replaced", json!({}), &retries).await;
        s.replica("r0").await;
        in_state(s, &name, "Running").await;
        let job = job_of(&name, 1);
        let foreign = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job},
            "spec": {"template": {
                "metadata": {"annotations": {"play/hang": "true"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "registry.example/none:1"}],
                },
            }},
        });
        let said =
            ok(s.kubectl().try_run(&["replace", "--force", "-f", "-"], &foreign.to_string()).await);
        assert!(said.ok, "{}", said.stderr);
        let theirs = s.get("job", &job).await.expect("it was created");
        let over = in_state_within(s, &name, "Failed", VANISHED).await;
        assert_eq!(state_of(&over), ("Failed", "Deleted"));
        assert_eq!(over["status"]["attempts"].as_array().map(Vec::len), Some(1));
        s.wait_for("msched", "replaced", "its place is free", SOON, claims_nothing).await;
        let still = s.get("job", &job).await.expect("a person's Job is left alone");
        assert_eq!((uid(&still), is_leaving(&still)), (uid(&theirs), false));
        assert_eq!(pods_of(s, &job).await.len(), 1);
        assert_eq!(runs_of(s, &name).await, 1);
    });
}

#[test]
fn a_cancel_ends_what_waits_and_what_runs_and_cannot_be_taken_back() {
    scenario().on_throw_away_cluster().run(async |s| {
        let (running, _) = runs(s, "busy", json!({}), &json!({})).await;
        s.replica("r0").await;
        in_state(s, &running, "Running").await;
        let waiting = trigger(s, "busy", minutes_ago(3)).await;
        in_state(s, &waiting, "Pending").await;
        let tomorrow = minutes_ago(-24 * 60);
        let future = trigger(s, "busy", tomorrow).await;
        let cancel = json!({"spec": {"cancel": true}});
        for name in [&waiting, &future, &running] {
            patch(s, "mocc", name, &cancel).await;
        }
        for name in [&waiting, &future] {
            let over = in_state(s, name, "Cancelled").await;
            assert_eq!(state_of(&over), ("Cancelled", "CancelRequested"));
            assert_eq!(over["status"].get("attempts"), None, "{over}");
            assert_eq!(runs_of(s, name).await, 0);
        }
        let over = in_state(s, &running, "Cancelled").await;
        assert_eq!(state_of(&over), ("Cancelled", "CancelRequested"));
        let attempt = &over["status"]["attempts"][0];
        assert_eq!(attempt["outcome"], "Cancelled");
        assert!(attempt["stopRequestedTime"].is_string(), "recorded before it was stopped: {over}");
        s.wait_gone("job", &job_of(&running, 1), SOON).await;
        s.wait_for("msched", "busy", "it holds nothing", SOON, claims_nothing).await;
        for back in [json!({"spec": {"cancel": false}}), json!({"spec": {"cancel": null}})] {
            let refused = try_patch(s, "mocc", &running, &back).await.unwrap_err();
            assert!(refused.contains("spec.cancel cannot be taken back"), "{refused}");
        }
        let again = trigger_again(s, "busy", tomorrow).await;
        assert_eq!(
            (again.code, &again.json()["state"]),
            (Some(1), &json!("Cancelled")),
            "{again:?}"
        );
        assert_eq!(runs_of(s, &running).await, 1);
    });
}

#[test]
fn a_schedule_that_is_suspended_lets_what_runs_go_on() {
    scenario().on_throw_away_cluster().run(async |s| {
        let (name, _) = runs(s, "paused", json!({}), &json!({})).await;
        s.apply(&schedule("other", &not_soon(), &json!({}), &json!({"suspend": true})).to_string())
            .await;
        s.replica("r0").await;
        in_state(s, &name, "Running").await;
        patch(
            s,
            "msched",
            "paused",
            &json!({"spec": {"suspend": true, "suspendReason": "freeze"}}),
        )
        .await;
        let suspended = |m: &Value| text(m, "/status/state") == "Suspended";
        s.wait_for("msched", "paused", "it is suspended", SOON, suspended).await;
        let_go(s, &job_of(&name, 1), "play/hang").await;
        in_state(s, &name, "Succeeded").await;
        // What a person asks for by hand runs, suspended or not.
        let asked = trigger(s, "other", minutes_ago(3)).await;
        in_state(s, &asked, "Succeeded").await;
    });
}
