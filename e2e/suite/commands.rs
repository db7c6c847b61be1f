//! What people ask the command line about a cluster, and what it says when it cannot answer.

use std::fs;

use serde_json::{Value, json};

use super::steps::{not_soon, patch, punctual, schedule};
use crate::bed::{plan::scenario, scenario::Scenario};

/// A file with this manifest.
fn file(s: &Scenario, manifest: &Value) -> String {
    let path = s.dir.join("edited.yaml");
    fs::write(&path, manifest.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn next_and_plan_answer_for_a_schedule_of_the_cluster() {
    scenario().unchecked("nothing runs").run(async |s| {
        let spec = json!({"timeZone": "Europe/Berlin"});
        let nightly = schedule("nightly", "0 2 * * *", &json!({}), &spec);
        s.apply(&nightly.to_string()).await;
        let asked = ["msched/nightly", "--from", "2026-06-01T00:00:00Z", "--count", "1"];
        let next = punctual(s, &[&["next", "-o", "json"], &asked[..]].concat()).await;
        assert_eq!(next.code, Some(0), "{next:?}");
        assert_eq!(next.json()[0]["local"], "2026-06-02T02:00:00+02:00");

        // The edit is planned with the status of the live object, not with that of the file.
        let status = json!({"status": {
            "lastScheduleTime": "2030-01-01T01:00:00Z", "effectiveTime": "2029-01-01T00:00:00Z",
            "observed": {
                "uid": s.get("msched", "nightly").await.unwrap()["metadata"]["uid"],
                "schedule": "0 2 * * *", "timeZone": "Europe/Berlin", "dstPolicy": "Once",
            },
        }});
        let text = status.to_string();
        let args =
            ["patch", "msched", "nightly", "--subresource=status", "--type=merge", "-p", &text];
        s.kubectl().run(&args).await.unwrap();
        let edit = schedule("nightly", "0 4 * * *", &json!({}), &spec);
        let path = file(s, &edit);
        let now = ["--now", "2030-01-02T01:30:00Z", "-o", "json"];
        let plan = punctual(s, &[&["plan", "-f", &path, "--cluster"], &now[..]].concat()).await;
        assert_eq!(plan.code, Some(0), "{plan:?}");
        let planned = plan.json();
        assert_eq!(planned["skipped"][0]["from"], "2030-01-02T01:00:00Z", "{planned}");
        assert_eq!(planned["skipped"][0]["reason"], "Superseded");
        assert_eq!(planned["next"], "2030-01-02T03:00:00Z");
        let live = s.get("msched", "nightly").await.unwrap();
        assert_eq!(live["spec"]["schedule"], "0 2 * * *", "nothing was written");
    });
}

#[test]
fn a_command_that_cannot_answer_says_why() {
    scenario().unchecked("nothing runs").run(async |s| {
        let edit = file(s, &schedule("nightly", &not_soon(), &json!({}), &json!({})));
        let elsewhere = {
            let mut manifest = schedule("nightly", &not_soon(), &json!({}), &json!({}));
            manifest["metadata"]["namespace"] = json!("elsewhere");
            let path = s.dir.join("elsewhere.yaml");
            fs::write(&path, manifest.to_string()).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let cases: [(&[&str], i32, &[&str]); 6] = [
            (&["next", "msched/none"], 1, &["no MaintenanceSchedule \"none\""]),
            (&["next", "cronjob/x"], 2, &["write it like msched/"]),
            (&["next", "msched/x", "--schedule", "@daily"], 2, &["--schedule", "cannot be used"]),
            (&["plan", "--cluster"], 2, &["--file"]),
            (&["plan", "-f", &elsewhere, "--cluster"], 2, &["--namespace", "elsewhere"]),
            (&["plan", "-f", &edit, "--cluster", "--context", "nowhere"], 1, &["nowhere"]),
        ];
        for (args, code, parts) in cases {
            let answer = punctual(s, args).await;
            assert_eq!(answer.code, Some(code), "{args:?}: {answer:?}");
            for part in parts {
                assert!(answer.stderr.contains(part), "{args:?}: {part:?} not in {answer:?}");
            }
        }
        // One that is not there yet is planned as just created.
        let planned = punctual(s, &["plan", "-f", &edit, "--cluster", "-o", "json"]).await;
        assert_eq!(planned.code, Some(0), "{planned:?}");
        assert_eq!(planned.json()["run"], json!([]));
        an_unknown_zone_is_named(s).await;
    });
}

/// A schedule that the operator cannot use either.
async fn an_unknown_zone_is_named(s: &Scenario) {
    s.apply(&schedule("odd", &not_soon(), &json!({}), &json!({})).to_string()).await;
    patch(s, "msched", "odd", &json!({"spec": {"timeZone": "Mars/Olympus"}})).await;
    let answer = punctual(s, &["next", "msched/odd"]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stderr.contains("Mars/Olympus"), "{answer:?}");
}
