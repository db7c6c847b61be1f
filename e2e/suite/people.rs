//! People act on what runs: they cancel it, delete it, suspend or replace its Job. Nothing runs twice
//! for that, and its place is free only when its run is over.

use punctual::{identity::occurrence_name, time::IntendedTime};
use serde_json::{Value, json};

use super::steps::{
    SOON, after, apply_back_dated, claims, claims_nothing, hourly_at, in_state, job_of, let_go,
    minutes_ago, not_soon, operator, patch, runs_of, schedule, skipped, skipped_total, state_of,
    trigger, trigger_again, try_patch, uid,
};
use crate::{
    bed::{
        kwok,
        objects::text,
        plan::scenario,
        scenario::{Scenario, ok},
    },
    checker::Exception,
};

/// A schedule with one instant that was just missed, whose run goes on until it is told to end.
/// `play` and `spec` as for [`schedule`].
pub(super) async fn runs(
    s: &Scenario,
    name: &str,
    play: Value,
    spec: &Value,
) -> (String, IntendedTime) {
    let at = minutes_ago(5);
    runs_at(s, name, at, &play, spec).await;
    (occurrence_name(name, at), at)
}

/// The same with this instant.
pub(super) async fn runs_at(
    s: &Scenario,
    name: &str,
    at: IntendedTime,
    play: &Value,
    spec: &Value,
) {
    let mut annotations = json!({"play/hang": "true"});
    for (key, value) in play.as_object().into_iter().flatten() {
        annotations[key] = value.clone();
    }
    let manifest = schedule(name, &hourly_at(&[at]), &annotations, spec);
    apply_back_dated(s, &manifest, after(at, -2)).await;
}

/// The pods of a Job.
pub(super) async fn pods_of(s: &Scenario, job: &str) -> Vec<Value> {
    let mut pods = s.list("pod").await;
    pods.retain(|pod| text(pod, "/metadata/labels/batch.kubernetes.io~1job-name") == job);
    pods
}

pub(super) fn is_leaving(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

#[test]
fn a_running_occurrence_that_is_deleted_keeps_its_place_until_it_is_over() {
    scenario().on_throw_away_cluster().run(async |s| {
        let lingers = json!({"play/linger": "true"});
        let (name, at) = runs(s, "doomed", lingers, &json!({})).await;
        operator(s).await;
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
fn an_instant_asked_for_again_waits_until_its_deleted_run_is_over() {
    let lingers = json!({"play/linger": "true"});
    let at = minutes_ago(5);
    let name = occurrence_name("again", at);
    let asked_again = Exception::RecordDeleted(name.clone());
    scenario().on_throw_away_cluster().allow(asked_again).run(async |s| {
        runs_at(s, "again", at, &lingers, &json!({})).await;
        operator(s).await;
        in_state(s, &name, "Running").await;
        ok(s.kubectl().run(&["delete", "mocc", &name, "--wait=false"]).await);
        s.wait_gone("mocc", &name, SOON).await;
        let pods = pods_of(s, &job_of(&name, 1)).await;
        assert_eq!(trigger(s, "again", at).await, name);
        let waits = in_state(s, &name, "Pending").await;
        assert_eq!(state_of(&waits), ("Pending", "Waiting"));
        assert_eq!(runs_of(s, &name).await, 1);
        let_go(s, &job_of(&name, 1), "play/linger").await;
        let runs = in_state(s, &name, "Running").await;
        assert_eq!(uid(&runs), uid(&waits));
        s.wait_gone("pod", text(&pods[0], "/metadata/name"), SOON).await;
        assert_eq!(runs_of(s, &name).await, 2, "one after the other, as the checker has proven");
    });
}

#[test]
fn a_persons_word_frees_the_place_of_a_run_that_nobody_can_prove_over() {
    scenario().on_throw_away_cluster().run(async |s| {
        let node = format!("node-{}", s.namespace);
        ok(kwok::add_node(&s.bed, &node, Some(&s.namespace)).await);
        ok(kwok::node_ready(&s.bed, &node).await);
        let placed = kwok::placement(&s.namespace);
        let spec = json!({"run": {"job": {"template": {"spec": placed}}}});
        let (name, _) = runs(s, "abandoned", json!({}), &spec).await;
        operator(s).await;
        let known = |o: &Value| o.pointer("/status/attempts/0/pod/nodeUID").is_some();
        let running = s.wait_for("mocc", &name, "it runs on a known node", SOON, known).await;
        let pods = pods_of(s, &job_of(&name, 1)).await;
        let pod = text(&pods[0], "/metadata/name");
        // The node is lost, and with it whoever could say that the container has stopped.
        ok(s.kubectl().run(&["delete", "node", &node]).await);
        ok(s.kubectl().run(&["delete", "mocc", &name, "--wait=false"]).await);
        s.wait_for("pod", pod, "it is told to end", SOON, is_leaving).await;
        ok(s.kubectl().run(&["delete", "pod", pod, "--force", "--grace-period=0"]).await);
        s.wait_gone("job", &job_of(&name, 1), SOON).await;
        ok(kwok::add_node(&s.bed, &node, Some(&s.namespace)).await);
        let next = trigger(s, "abandoned", minutes_ago(3)).await;
        assert_eq!(state_of(&in_state(s, &next, "Pending").await), ("Pending", "Waiting"));
        let held = s.get("msched", "abandoned").await.unwrap();
        assert!(
            claims(&held, uid(&running), true),
            "a new node of that name proves nothing: {held}"
        );
        let word = json!([{"uid": uid(&running), "reason": "the machine was switched off"}]);
        patch(s, "msched", "abandoned", &json!({"spec": {"abandon": word}})).await;
        in_state(s, &next, "Running").await;
        assert_eq!(runs_of(s, &name).await, 1);
    });
}

#[test]
fn a_job_suspended_by_a_person_fails_and_is_not_released_again() {
    scenario().on_throw_away_cluster().run(async |s| {
        let retries = json!({"run": {"maxAttempts": 3}});
        let (name, _) = runs(s, "suspended", json!({}), &retries).await;
        operator(s).await;
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
fn a_cancel_ends_what_waits_and_what_runs_and_cannot_be_taken_back() {
    scenario().on_throw_away_cluster().run(async |s| {
        let (running, _) = runs(s, "busy", json!({}), &json!({})).await;
        operator(s).await;
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
        operator(s).await;
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
