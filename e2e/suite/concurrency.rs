//! What is due while something runs follows the policy. It takes a whole minute, so it begins early.

use std::time::Duration;

use punctual::{identity::occurrence_name, time::IntendedTime};
use serde_json::{Value, json};

use super::steps::{
    SOON, after, apply_back_dated, claims, in_state, in_state_within, job_of, let_go, minutes_ago,
    moment, operator, patch, running_of, schedule, skipped, skipped_total, state_of, uid,
};
use crate::{bed::objects::text, bed::plan::scenario, bed::scenario::Scenario};

/// One whole minute, and time for a busy machine.
const NEXT_MINUTE: Duration = Duration::from_secs(90);

/// What a schedule that is due every minute does with the next instant while the present one runs.
async fn next_minute(s: &Scenario, name: &str, running: (&str, IntendedTime)) {
    let (first, at) = running;
    let next_at = after(at, 1);
    let next = occurrence_name(name, next_at);
    match name {
        "forbids" => {
            let what = "the next instant is accounted for";
            let concurrent = |m: &Value| skipped(m, next_at) == Some("Concurrent");
            let stored = s.wait_for("msched", name, what, NEXT_MINUTE, concurrent).await;
            assert!(skipped_total(&stored, "Concurrent") >= 1);
            assert_eq!(s.get("mocc", &next).await, None);
            assert_eq!(text(&s.get("mocc", first).await.unwrap(), "/status/state"), "Running");
        }
        "replaces" => {
            let over = in_state_within(s, first, "Cancelled", NEXT_MINUTE).await;
            assert_eq!(state_of(&over), ("Cancelled", "Replaced"));
            let ended = moment(&over, "/status/attempts/0/completionTime");
            let follows = in_state(s, &next, "Running").await;
            assert!(ended <= moment(&follows, "/status/attempts/0/preparedTime"), "{follows}");
        }
        "enqueues" => {
            let what = "the next instant waits";
            let waits = |o: &Value| state_of(o) == ("Pending", "Waiting");
            let queued = s.wait_for("mocc", &next, what, NEXT_MINUTE, waits).await;
            assert!(claims(&s.get("msched", name).await.unwrap(), uid(&queued), false));
            assert_eq!(text(&s.get("mocc", first).await.unwrap(), "/status/state"), "Running");
            let_go(s, &job_of(first, 1), "play/hang").await;
            in_state(s, first, "Succeeded").await;
            in_state(s, &next, "Running").await;
        }
        "allows" => {
            in_state_within(s, &next, "Running", NEXT_MINUTE).await;
            assert_eq!(text(&s.get("mocc", first).await.unwrap(), "/status/state"), "Running");
            let both = |m: &Value| m["status"]["active"].as_i64() >= Some(2);
            s.wait_for("msched", name, "both count as active", SOON, both).await;
        }
        other => panic!("{other} has no expectation"),
    }
}

/// A suspended schedule that was due every minute is resumed: it runs nothing of the past.
async fn resumed(s: &Scenario, name: &str) {
    let before = s.get("msched", name).await.unwrap();
    assert_eq!(text(&before, "/status/state"), "Suspended");
    let last = minutes_ago(0);
    assert!(s.list("mocc").await.iter().all(|o| text(o, "/spec/scheduleName") != name));
    patch(s, "msched", name, &json!({"spec": {"suspend": false}})).await;
    let accounted = |m: &Value| text(m, "/status/state") == "Active";
    let now = s.wait_for("msched", name, "it is resumed", SOON, accounted).await;
    assert_eq!(skipped(&now, last), Some("Suspended"), "{now}");
    assert!(skipped_total(&now, "Suspended") >= 3, "two were past, one came: {now}");
    assert!(moment(&now, "/status/effectiveTime") > last.timestamp());
    assert_eq!(s.get("mocc", &occurrence_name(name, last)).await, None);
}

#[test]
fn each_concurrency_policy_treats_the_next_instant_its_own_way() {
    scenario().on_throw_away_cluster().run(async |s| {
        let policies = [
            ("forbids", "Forbid"),
            ("replaces", "Replace"),
            ("enqueues", "Enqueue"),
            ("allows", "Allow"),
        ];
        for (name, policy) in policies {
            let hangs = json!({"play/hang": "true"});
            let spec = json!({"concurrencyPolicy": policy});
            let manifest = schedule(name, "* * * * *", &hangs, &spec);
            apply_back_dated(s, &manifest, minutes_ago(2)).await;
        }
        let suspended = schedule("suspended", "* * * * *", &json!({}), &json!({"suspend": true}));
        apply_back_dated(s, &suspended, minutes_ago(2)).await;
        operator(s).await;
        let [forbids, replaces, enqueues, allows] = policies.map(|(name, _)| async move {
            let (first, at) = running_of(s, name).await;
            next_minute(s, name, (&first, at)).await;
        });
        tokio::join!(forbids, replaces, enqueues, allows);
        resumed(s, "suspended").await;
    });
}
