//! What vanished without a trace counts as over only after a while, and only with a proof: these
//! scenarios wait for a minute each, so they begin first.

use std::time::Duration;

use punctual::identity::occurrence_name;
use serde_json::{Value, json};

use super::{
    jobs::{attempts, run_now},
    people::{is_leaving, pods_of, runs, runs_at},
    steps::{
        SOON, claims, claims_nothing, in_state, in_state_within, job_of, message_of, minutes_ago,
        operator, patch, runs_of, state_of, trigger, uid,
    },
};
use crate::{
    bed::kwok,
    bed::objects::text,
    bed::plan::scenario,
    bed::scenario::{Scenario, ok},
    checker::Exception,
};

/// Without a stop that we asked for, a pod that vanished counts as over when its node was Ready for
/// a minute afterwards.
const VANISHED: Duration = Duration::from_secs(120);

/// The pod garbage collector takes up to 20 s to see that a node is gone and waits another 40 s.
const POD_GC: Duration = Duration::from_secs(150);

#[test]
fn a_job_deleted_by_a_person_is_not_run_again() {
    scenario().on_throw_away_cluster().run(async |s| {
        let retries = json!({"run": {"maxAttempts": 3}});
        let (name, _) = runs(s, "deleted", json!({}), &retries).await;
        operator(s).await;
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
        operator(s).await;
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

/// The manifest of a Job as a person saves it to create it again: with everything that we wrote.
fn copy_of(job: &Value) -> Value {
    let mut copy = job.clone();
    copy["apiVersion"] = json!("batch/v1");
    copy["kind"] = json!("Job");
    copy["status"] = Value::Null;
    copy["spec"]["selector"] = Value::Null;
    copy["spec"]["template"]["metadata"]["labels"] = Value::Null;
    for field in ["uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"] {
        copy["metadata"][field] = Value::Null;
    }
    for label in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
        copy["metadata"]["labels"][label] = Value::Null;
    }
    copy
}

#[test]
fn a_copy_of_a_deleted_job_does_not_pass_for_it_and_is_stopped() {
    let at = minutes_ago(5);
    let name = occurrence_name("copied", at);
    let by_hand = Exception::StartedByHand(job_of(&name, 1));
    scenario().on_throw_away_cluster().allow(by_hand).run(async |s| {
        runs_at(s, "copied", at, &json!({}), &json!({"run": {"maxAttempts": 3}})).await;
        operator(s).await;
        in_state(s, &name, "Running").await;
        let job = job_of(&name, 1);
        let copy = copy_of(&s.get("job", &job).await.unwrap());
        let replace = ["replace", "--force", "-f", "-"];
        let said = ok(s.kubectl().try_run(&replace, &copy.to_string()).await);
        assert!(said.ok, "{}", said.stderr);
        let over = in_state_within(s, &name, "Failed", VANISHED).await;
        assert_eq!(state_of(&over), ("Failed", "Deleted"));
        assert_eq!(over["status"]["attempts"].as_array().map(Vec::len), Some(1));
        s.wait_gone("job", &job, SOON).await;
        s.wait_for("msched", "copied", "its place is free", SOON, claims_nothing).await;
    });
}

/// Two runs on a node of their own that was removed under them, Unresolved: the first of `names`, and
/// the other.
async fn lost_with_their_node(s: &Scenario, names: [&str; 2]) -> [Value; 2] {
    let node = format!("node-{}", s.namespace);
    ok(kwok::add_node(&s.bed, &node, Some(&s.namespace)).await);
    ok(kwok::node_ready(&s.bed, &node).await);
    let placed = kwok::placement(&s.namespace);
    let spec = json!({"run": {
        "actionClass": "Fenced", "maxAttempts": 3, "job": {"template": {"spec": placed}},
    }});
    let hangs = json!({"play/hang": "true"});
    let occurrences =
        [run_now(s, names[0], &hangs, &spec).await, run_now(s, names[1], &hangs, &spec).await];
    operator(s).await;
    let here = |o: &Value| attempts(o).first().is_some_and(|a| a["pod"]["nodeUID"].is_string());
    for name in &occurrences {
        let running = s.wait_for("mocc", name, "it runs on a known node", SOON, here).await;
        assert_eq!(attempts(&running)[0]["pod"]["node"], node);
    }
    ok(s.kubectl().run(&["delete", "node", &node]).await);
    let first = in_state_within(s, &occurrences[0], "Unresolved", POD_GC).await;
    let other = in_state_within(s, &occurrences[1], "Unresolved", POD_GC).await;
    // It is there again, but it is another machine.
    ok(kwok::add_node(&s.bed, &node, Some(&s.namespace)).await);
    [first, other]
}

async fn resolve(s: &Scenario, name: &str, resolution: &Value) {
    patch(s, "mocc", name, &json!({"spec": {"resolution": resolution}})).await;
}

#[test]
fn a_run_on_a_node_that_was_removed_is_unresolved_until_a_person_decides() {
    scenario().within(Duration::from_secs(300)).on_throw_away_cluster().run(async |s| {
        let [lost, other] = lost_with_their_node(s, ["lost", "other"]).await;
        for object in [&lost, &other] {
            assert_eq!(state_of(object), ("Unresolved", "EndNotSeen"));
            assert!(message_of(object).contains("Node"), "{}", message_of(object));
            assert_eq!(attempts(object).len(), 1, "nothing is tried again: {object}");
        }
        // It holds its place: it may still run.
        let next = trigger(s, "lost", minutes_ago(3)).await;
        assert_eq!(state_of(&in_state(s, &next, "Pending").await), ("Pending", "Waiting"));
        assert!(claims(&s.get("msched", "lost").await.unwrap(), uid(&lost), true));
        let name = text(&lost, "/metadata/name");
        let known = json!({"attempt": 1, "decision": "Succeeded", "reason": "it is on the share"});
        resolve(s, name, &known).await;
        let over = in_state(s, name, "Succeeded").await;
        assert_eq!(state_of(&over), ("Succeeded", "ResolvedByPerson"));
        assert!(message_of(&over).contains("it is on the share"), "{}", message_of(&over));
        let free = |m: &Value| !claims(m, uid(&lost), true);
        s.wait_for("msched", "lost", "its place is free", SOON, free).await;
        in_state(s, &next, "Running").await;
        assert_eq!(attempts(&over).len(), 1);
        assert_eq!(runs_of(s, name).await, 1);
        // Trying again needs the word that it may run twice.
        let name = text(&other, "/metadata/name");
        let mut again = json!({"attempt": 1, "decision": "Retry", "reason": "the share is empty"});
        resolve(s, name, &again).await;
        let told = |o: &Value| attempts(o)[0]["stopRequestedTime"].is_string();
        let waits = s.wait_for("mocc", name, "the old run is told to stop", SOON, told).await;
        assert_eq!((text(&waits, "/status/state"), attempts(&waits).len()), ("Unresolved", 1));
        assert_eq!(runs_of(s, name).await, 1);
        again["acceptDuplicate"] = json!(true);
        resolve(s, name, &again).await;
        let second = in_state(s, name, "Running").await;
        assert_eq!(attempts(&second).len(), 2);
        assert_eq!(runs_of(s, name).await, 2);
    });
}
