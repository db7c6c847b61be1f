//! Bad input gets one clear sentence, from the API server or in a condition, and disturbs nothing
//! else.

use punctual::identity::occurrence_name;
use serde_json::{Value, json};

use super::steps::{
    SOON, by_hand, condition, in_state, message_of, minutes_ago, not_soon, operator, patch,
    patch_status, punctual, runs_of, schedule, state_of, trigger, trigger_again, try_patch,
};
use crate::bed::{
    error::BedError,
    objects::text,
    plan::scenario,
    scenario::{Scenario, ok},
    wait,
};

/// A schedule that is fine but for what `spec` lays over it.
fn with(name: &str, spec: &Value) -> Value {
    schedule(name, &not_soon(), &json!({}), spec)
}

/// A sentence for people: it says something, on one line, and names what to change.
fn assert_clear(case: &str, sentence: &str, parts: &[&str]) {
    for part in parts {
        assert!(sentence.contains(part), "{case}: {part:?} is not in {sentence:?}");
    }
    assert!(!sentence.trim().contains('\n'), "{case}: {sentence:?} is more than one line");
}

#[test]
fn the_api_server_refuses_bad_input_with_a_clear_sentence() {
    scenario().run(async |s| {
        let at = minutes_ago(5);
        let mut no_provider = with("none", &json!({}));
        no_provider["spec"]["run"] = json!({"maxAttempts": 1});
        let mut wrong_name = by_hand("nightly", at);
        wrong_name["metadata"]["name"] = json!("nightly-now");
        let mut impossible = by_hand("nightly", at);
        impossible["metadata"]["name"] = json!("nightly-202602300000");
        impossible["spec"]["intendedTime"] = json!("2026-02-30T00:00:00Z");
        let cases: [(&str, Value, &[&str]); 10] = [
            (
                "TZ=",
                with("zoned", &json!({"schedule": "TZ=Europe/Berlin 0 2 * * *"})),
                &["spec.schedule", "spec.timeZone"],
            ),
            (
                "CRON_TZ=",
                with("zoned", &json!({"schedule": "CRON_TZ=UTC 0 2 * * *"})),
                &["spec.schedule", "spec.timeZone"],
            ),
            (
                "41 characters",
                with(&"n".repeat(41), &json!({})),
                &["at most 40 characters", "shorter name"],
            ),
            ("no provider", no_provider, &["spec.run", "exactly one of job, http, simulated"]),
            (
                "two providers",
                with("two", &json!({"run": {"simulated": {}}})),
                &["spec.run", "exactly one of job, http, simulated"],
            ),
            (
                "negative spread",
                with("spread", &json!({"spread": {"windowSeconds": -1}})),
                &["spec.spread.windowSeconds", "greater than or equal to 0"],
            ),
            (
                "wrong policy",
                with("policy", &json!({"concurrencyPolicy": "Sometimes"})),
                &["spec.concurrencyPolicy", "Replace"],
            ),
            (
                "a name that is no identity",
                wrong_name,
                &["metadata.name must be spec.scheduleName"],
            ),
            (
                "a day that does not exist",
                impossible,
                &["spec.intendedTime", "a whole minute that exists"],
            ),
            (
                "an unknown field",
                with("typo", &json!({"scheduel": "0 2 * * *"})),
                &["unknown field", "spec.scheduel"],
            ),
        ];
        for (case, manifest, parts) in &cases {
            let said = ok(s
                .kubectl()
                .try_run(&["apply", "--validate=strict", "-f", "-"], &manifest.to_string())
                .await);
            assert!(!said.ok, "{case} was accepted");
            for part in *parts {
                assert!(said.stderr.contains(part), "{case}: {part:?} is not in {:?}", said.stderr);
            }
        }
        assert!(s.list("msched").await.is_empty() && s.list("mocc").await.is_empty());
    });
}

#[test]
fn an_occurrence_cannot_be_edited() {
    scenario().run(async |s| {
        let at = minutes_ago(-60);
        s.apply(&by_hand("nobody", at).to_string()).await;
        let name = occurrence_name("nobody", at);
        for edit in [
            json!({"scheduleName": "other"}),
            json!({"intendedTime": minutes_ago(-61).to_string()}),
            json!({"scheduleUID": "u"}),
            json!({"run": {"simulated": {}}}),
        ] {
            let refused = try_patch(s, "mocc", &name, &json!({"spec": edit})).await.unwrap_err();
            assert!(refused.contains("immutable"), "{edit}: {refused}");
        }
    });
}

#[test]
fn commands_refuse_bad_usage_and_name_the_fix() {
    scenario().run(async |s| {
        s.apply(&with("valid", &json!({})).to_string()).await;
        let cases: [(&[&str], i32, &str); 6] = [
            (&["trigger", "valid"], 2, "msched/nightly-retention"),
            (&["trigger", "msched/valid", "--at", "2026-02-30T00:00:00Z"], 2, "--at"),
            (&["trigger", "msched/valid", "--at", "2026-01-01T00:00:30Z"], 2, "whole minute"),
            (&["trigger", "msched/nobody"], 1, "there is no MaintenanceSchedule \"nobody\""),
            (
                &[
                    "backfill",
                    "msched/valid",
                    "--from",
                    "2026-01-02T00:00:00Z",
                    "--to",
                    "2026-01-01T00:00:00Z",
                ],
                2,
                "swap",
            ),
            (
                &[
                    "backfill",
                    "msched/valid",
                    "--from",
                    "yesterday",
                    "--to",
                    "2026-01-01T00:00:00Z",
                ],
                2,
                "yesterday",
            ),
        ];
        for (args, code, part) in cases {
            let answer = punctual(s, args).await;
            assert_eq!(answer.code, Some(code), "{args:?}: {answer:?}");
            assert!(answer.stderr.contains(part), "{args:?}: {part:?} is not in {answer:?}");
            assert!(answer.stdout.is_empty(), "{args:?}: {answer:?}");
        }
        assert!(s.list("mocc").await.is_empty());
    });
}

/// Schedules that the API server cannot judge, and what their condition Ready says.
const UNUSABLE: [(&str, &str, &[&str]); 6] = [
    (
        "no-such-zone",
        r#"{"timeZone": "Europe/Belrin"}"#,
        &["spec.timeZone", "Europe/Belrin", "Europe/Berlin"],
    ),
    ("zone-spelling", r#"{"timeZone": "europe/berlin"}"#, &["spec.timeZone", "Europe/Berlin"]),
    ("sunday-as-seven", r#"{"schedule": "0 0 * * 7"}"#, &["spec.schedule", "0 or SUN"]),
    ("four-fields", r#"{"schedule": "0 0 * *"}"#, &["spec.schedule", "five"]),
    (
        "every-second",
        r#"{"schedule": "@every 30s"}"#,
        &["spec.schedule", "whole number of minutes"],
    ),
    ("never", r#"{"schedule": "0 0 30 2 *"}"#, &["0 0 30 2 *"]),
];

/// The condition Ready of a schedule, once there is one.
async fn ready(s: &Scenario, name: &str, status: &str) -> Value {
    let what = format!("its condition Ready is {status}");
    s.wait_for("msched", name, &what, SOON, |m| {
        condition(m, "Ready").is_some_and(|(is, ..)| is == status)
    })
    .await
}

#[test]
fn unusable_schedules_say_why_and_disturb_no_other() {
    scenario().on_throw_away_cluster().run(async |s| {
        s.apply(&with("valid", &json!({})).to_string()).await;
        for (name, spec, _) in UNUSABLE {
            let spec = serde_json::from_str(spec).expect("it is written here");
            s.apply(&with(name, &spec).to_string()).await;
        }
        operator(s).await;
        for (name, _, parts) in UNUSABLE {
            let refused = ready(s, name, "False").await;
            let (_, reason, message) = condition(&refused, "Ready").unwrap();
            let expected = if name == "never" { "NeverFires" } else { "InvalidSchedule" };
            assert_eq!(reason, expected, "{name}: {message}");
            assert_clear(name, message, parts);
            assert_eq!(refused["status"].get("nextScheduleTime"), None, "{name}");
            let columns = ok(s.kubectl().run(&["get", "msched", name]).await);
            assert!(columns.contains(expected), "{columns}");
        }
        ready(s, "valid", "True").await;
        let done = trigger(s, "valid", minutes_ago(5)).await;
        in_state(s, &done, "Succeeded").await;
        // The fix is seen at once.
        patch(s, "msched", "no-such-zone", &json!({"spec": {"timeZone": "Europe/Berlin"}})).await;
        ready(s, "no-such-zone", "True").await;
    });
}

#[test]
fn a_run_that_cannot_be_made_is_refused_with_a_clear_sentence() {
    scenario().on_throw_away_cluster().run(async |s| {
        let restarts =
            json!({"run": {"job": {"template": {"spec": {"restartPolicy": "OnFailure"}}}}});
        s.apply(&with("restarts", &restarts).to_string()).await;
        let typo =
            json!({"run": {"job": {"template": {"spec": {"containers": [{"name": "Main!"}]}}}}});
        s.apply(&with("typo", &typo).to_string()).await;
        let mut pretends = with("pretends", &json!({}));
        pretends["spec"]["run"] = json!({"simulated": {}});
        s.apply(&pretends.to_string()).await;
        s.apply(&with("valid", &json!({})).to_string()).await;
        operator(s).await;
        let cases: [(&str, &[&str]); 3] = [
            ("restarts", &["run.job.template.spec.restartPolicy", "Never", "OnFailure"]),
            ("typo", &["containers[0].name", "Main!"]),
            ("pretends", &["run.simulated", "run.job"]),
        ];
        for (name, parts) in cases {
            // Before anything is due.
            let refused = s
                .wait_for("msched", name, "its run is not accepted", SOON, |m| {
                    condition(m, "Accepted").is_some_and(|(is, ..)| is == "False")
                })
                .await;
            assert_clear(name, condition(&refused, "Accepted").unwrap().2, parts);
            let over = in_state(s, &trigger(s, name, minutes_ago(5)).await, "Failed").await;
            assert_eq!(state_of(&over), ("Failed", "RunRefused"), "{name}");
            assert_clear(name, message_of(&over), parts);
            assert_eq!(runs_of(s, text(&over, "/metadata/name")).await, 0);
        }
        in_state(s, &trigger(s, "valid", minutes_ago(5)).await, "Succeeded").await;
        assert_eq!(s.list("job").await.len(), 1);
    });
}

/// The API server takes such an offset for a date-time; no program can.
const NO_TIME: &str = "2026-01-01T00:00:00+99:99";

/// The message of the event that says that an object cannot be read.
async fn said_unreadable(s: &Scenario, name: &str) -> String {
    let said = wait::until("an event says that it cannot be read", SOON, || async {
        let events = s.list("event").await;
        let of_it = |e: &&Value| {
            text(e, "/involvedObject/name") == name && text(e, "/reason") == "Unreadable"
        };
        let found = events.iter().find(of_it);
        found
            .map(|event| text(event, "/message").to_owned())
            .ok_or_else(|| BedError(format!("none of {} events", events.len())))
    });
    ok(said.await)
}

#[test]
fn an_object_that_cannot_be_read_is_left_alone_and_the_others_go_on() {
    scenario().on_throw_away_cluster().run(async |s| {
        let at = minutes_ago(5);
        let strange = json!({"suspendUntilTime": NO_TIME});
        s.apply(&with("strange", &strange).to_string()).await;
        // An occurrence whose status a person has damaged.
        s.apply(&with("holder", &json!({})).to_string()).await;
        s.apply(&by_hand("holder", at).to_string()).await;
        let damaged = occurrence_name("holder", at);
        patch_status(s, "mocc", &damaged, &json!({"status": {"nextAttemptTime": NO_TIME}})).await;
        s.apply(&with("valid", &json!({})).to_string()).await;
        operator(s).await;
        in_state(s, &trigger(s, "valid", at).await, "Succeeded").await;
        // What belongs to the schedule waits: it exists, and nobody knows what it says.
        s.apply(&by_hand("strange", at).to_string()).await;
        let asked = occurrence_name("strange", at);
        for name in ["strange", &damaged] {
            let said = said_unreadable(s, name).await;
            assert!(said.contains("cannot be read"), "{said}");
        }
        let answer = trigger_again(s, "strange", at).await;
        assert_eq!(answer.code, Some(1), "{answer:?}");
        assert_clear("trigger", &answer.stderr, &["\"strange\"", "cannot be read"]);
        in_state(s, &trigger(s, "valid", minutes_ago(3)).await, "Succeeded").await;
        for name in [&asked, &damaged] {
            let left = s.get("mocc", name).await.unwrap();
            assert!(["", "Pending"].contains(&text(&left, "/status/state")), "{left}");
            assert_eq!(runs_of(s, name).await, 0);
        }
        // Repaired, both work.
        patch(s, "msched", "strange", &json!({"spec": {"suspendUntilTime": null}})).await;
        ready(s, "strange", "True").await;
        in_state(s, &asked, "Succeeded").await;
        patch_status(s, "mocc", &damaged, &json!({"status": {"nextAttemptTime": null}})).await;
        in_state(s, &damaged, "Succeeded").await;
    });
}
