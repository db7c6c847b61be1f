//! How runs end: with a result, with a failure that is tried again or not, never started, or without
//! anybody knowing.

use std::time::Duration;

use punctual::identity::occurrence_name;
use serde_json::{Value, json};

use super::steps::{
    SOON, apply_back_dated, claims_nothing, condition, hourly_at, in_state, in_state_within,
    job_of, message_of, minutes_ago, moment, not_soon, operator, patch_status, runs_of, schedule,
    skipped_total, state_of, trigger, uid,
};
use crate::bed::{
    objects::text,
    plan::scenario,
    scenario::{Scenario, ok},
};

/// The attempts of an occurrence.
pub(super) fn attempts(occurrence: &Value) -> Vec<Value> {
    occurrence["status"]["attempts"].as_array().cloned().unwrap_or_default()
}

/// Applies a schedule and asks for an instant of it by hand; gives the occurrence's name.
pub(super) async fn run_now(s: &Scenario, name: &str, play: &Value, spec: &Value) -> String {
    s.apply(&schedule(name, &not_soon(), play, spec).to_string()).await;
    trigger(s, name, minutes_ago(5)).await
}

#[test]
fn a_job_of_someone_else_keeps_its_name_and_the_next_instant_runs() {
    scenario().on_throw_away_cluster().run(async |s| {
        let instants = [minutes_ago(6), minutes_ago(5)];
        let [taken, free] = instants.map(|at| occurrence_name("named", at));
        let foreign = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job_of(&taken, 1)},
            "spec": {"suspend": true, "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "registry.example/none:1"}],
            }}},
        });
        s.apply(&foreign.to_string()).await;
        let theirs = s.get("job", &job_of(&taken, 1)).await.unwrap();
        let all = json!({"missedRuns": {"policy": "All"}});
        let manifest = schedule("named", &hourly_at(&instants), &json!({}), &all);
        apply_back_dated(s, &manifest, minutes_ago(8)).await;
        operator(s).await;
        let over = in_state(s, &taken, "Skipped").await;
        assert_eq!(state_of(&over), ("Skipped", "NameConflict"));
        assert!(message_of(&over).contains(&job_of(&taken, 1)), "{}", message_of(&over));
        in_state(s, &free, "Succeeded").await;
        let accounted = |m: &Value| skipped_total(m, "NameConflict") == 1 && claims_nothing(m);
        s.wait_for("msched", "named", "it is accounted for", SOON, accounted).await;
        let still = s.get("job", &job_of(&taken, 1)).await.unwrap();
        assert_eq!((uid(&still), &still["spec"]), (uid(&theirs), &theirs["spec"]));
        assert_eq!(runs_of(s, &taken).await, 0);
        assert_eq!(runs_of(s, &free).await, 1);
    });
}

#[test]
fn failures_are_tried_again_as_their_kind_allows() {
    scenario().on_throw_away_cluster().run(async |s| {
        let tries = |n: i32| json!({"run": {"maxAttempts": n}});
        let once = run_now(s, "once", &json!({"play/exit-code": "3"}), &json!({})).await;
        let transient = run_now(s, "transient", &json!({"play/exit-code": "1"}), &tries(2)).await;
        let useless = run_now(s, "useless", &json!({"play/exit-code": "42"}), &tries(5)).await;
        let told = json!({
            "play/exit-code": "1",
            "play/message": "{\"retryable\": false, \"reason\": \"NoSuchTenant\"}",
        });
        let told = run_now(s, "told", &told, &tries(5)).await;
        operator(s).await;
        let over = in_state(s, &once, "Failed").await;
        assert_eq!((state_of(&over), attempts(&over).len()), (("Failed", "ExitCode"), 1));
        assert!(message_of(&over).contains("exited with code 3"), "{}", message_of(&over));
        assert_eq!(condition(&over, "Failed").map(|c| c.0), Some("True"));
        assert_eq!(condition(&over, "Complete"), None);
        // The first retry comes after 15 to 30 s.
        let retry = Duration::from_secs(90);
        for (name, reason) in
            [(&transient, "ExitCode"), (&useless, "ExitCode"), (&told, "NoSuchTenant")]
        {
            let over = in_state_within(s, name, "Failed", retry).await;
            assert_eq!((state_of(&over), attempts(&over).len()), (("Failed", reason), 2), "{over}");
            let ended = moment(&over, "/status/attempts/0/completionTime");
            let again = moment(&over, "/status/attempts/1/preparedTime");
            let waited = again.duration_since(ended).as_secs();
            assert!((15..=45).contains(&waited), "attempt 2 came {waited} s after the failure");
            for attempt in [1, 2] {
                assert!(s.get("job", &job_of(name, attempt)).await.is_some());
            }
            assert_eq!(runs_of(s, name).await, 2);
        }
        assert_eq!(runs_of(s, &once).await, 1);
    });
}

#[test]
fn a_result_is_recorded_as_the_run_reported_it() {
    scenario().on_throw_away_cluster().run(async |s| {
        let message = "{\"result\": {\"rows\": 3, \"table\": \"visits\", \"share\": 0.5}}";
        let reports = run_now(s, "reports", &json!({"play/message": message}), &json!({})).await;
        let silent = run_now(s, "silent", &json!({"play/duration": "0s"}), &json!({})).await;
        let garbled =
            run_now(s, "garbled", &json!({"play/message": "{\"result\": "}), &json!({})).await;
        operator(s).await;
        let done = in_state(s, &reports, "Succeeded").await;
        assert_eq!(done["status"]["result"]["rows"], 3);
        assert_eq!(done["status"]["result"]["table"], "visits");
        assert_eq!(condition(&done, "Complete").map(|c| c.0), Some("True"));
        let columns = ok(s.kubectl().run(&["get", "mocc", &reports]).await);
        assert!(columns.contains("Succeeded"), "{columns}");
        let done = in_state(s, &silent, "Succeeded").await;
        assert_eq!((state_of(&done).1, done["status"].get("result")), ("Completed", None));
        let done = in_state(s, &garbled, "Succeeded").await;
        assert_eq!((state_of(&done).1, done["status"].get("result")), ("ResultLost", None));
        ok(s.kubectl()
            .run(&["wait", "--for=condition=Complete", "--timeout=10s", "mocc", "--all"])
            .await);
    });
}

/// The waiting reason of an image that cannot be pulled, as the kubelet writes it.
async fn image_is_missing(s: &Scenario, pod: &str, image: &str) {
    let message = format!("failed to pull image \"{image}\": not found");
    let waiting = json!({"status": {"containerStatuses": [{
        "name": "main", "image": image, "imageID": "", "ready": false, "restartCount": 0,
        "started": false, "state": {"waiting": {"reason": "ErrImagePull", "message": message}},
    }]}});
    patch_status(s, "pod", pod, &waiting).await;
}

#[test]
fn an_image_that_does_not_exist_is_named_and_never_started() {
    scenario().on_throw_away_cluster().run(async |s| {
        let spec = json!({"run": {"startTimeoutSeconds": 8, "maxAttempts": 1}});
        let name = run_now(s, "no-image", &json!({"play/stay-pending": "true"}), &spec).await;
        operator(s).await;
        let bound = |o: &Value| attempts(o).first().is_some_and(|a| a["pod"]["node"].is_string());
        s.wait_for("mocc", &name, "its pod is bound", SOON, bound).await;
        let pods = s.list("pod").await;
        image_is_missing(s, text(&pods[0], "/metadata/name"), "registry.example/none:1").await;
        let says = |o: &Value| text(o, "/status/reason") == "ErrImagePull";
        let starting = s.wait_for("mocc", &name, "it says what it waits for", SOON, says).await;
        assert_eq!(text(&starting, "/status/state"), "Starting");
        let over = in_state(s, &name, "Failed").await;
        assert_eq!(state_of(&over), ("Failed", "NeverStarted"));
        let sentence = message_of(&over);
        for part in ["8 s", "run.startTimeoutSeconds", "ErrImagePull", "registry.example/none:1"] {
            assert!(sentence.contains(part), "{part} is not in {sentence:?}");
        }
        s.wait_gone("job", &job_of(&name, 1), SOON).await;
        assert_eq!(runs_of(s, &name).await, 1);
    });
}

#[test]
fn a_run_that_takes_too_long_is_stopped() {
    scenario().on_throw_away_cluster().run(async |s| {
        let spec = json!({"run": {"timeoutSeconds": 2}});
        let name = run_now(s, "slow", &json!({"play/hang": "true"}), &spec).await;
        operator(s).await;
        let over = in_state(s, &name, "Failed").await;
        assert_eq!(state_of(&over), ("Failed", "DeadlineExceeded"));
        assert!(message_of(&over).contains("run.timeoutSeconds"), "{}", message_of(&over));
        s.wait_gone("job", &job_of(&name, 1), SOON).await;
        assert_eq!(runs_of(s, &name).await, 1);
    });
}
