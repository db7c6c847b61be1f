//! What jobs that wait say of it.

use http::Method;

use super::*;
use crate::cluster::fake::Fault;

#[tokio::test(start_paused = true)]
async fn a_retry_without_budget_says_so_as_soon_as_its_time_has_come() {
    let scene = Scene::new();
    let uid = scene.put_job("runs", &running());
    let entry = json!({
        "job": "runs", "uid": uid, "tenant": "acme", "attempt": 1, "runKey": "k-r1",
        "actionClass": "Idempotent", "charge": 60_000, "admittedTime": "2026-11-29T01:59:00Z",
    });
    scene.put_queue(&json!({
        "fence": {"epoch": 50, "nonce": "mine"},
        "ledger": {"entries": [entry], "retrySpent": 1_000_000_000},
    }));
    let mut again = running();
    again["state"] = json!("Queued");
    again["reason"] = json!("RetryScheduled");
    again["nextAttemptTime"] = json!("2026-11-29T02:00:30Z");
    again["attempts"][0]["outcome"] = json!("Failed");
    again["attempts"][0]["reason"] = json!("Unavailable");
    scene.put_job("again", &again);
    scene.pass_queue().await;
    assert_eq!(scene.pass_job("again").await["reason"], "RetryScheduled", "its time comes later");
    scene.later(30);
    assert_eq!(scene.pass_job("again").await["reason"], "RetryBudgetExhausted");
}

#[tokio::test(start_paused = true)]
async fn an_answered_job_is_looked_at_again_although_the_first_write_of_its_queue_failed() {
    let scene = Scene::new();
    scene.put_job("new", &json!(null));
    scene.put_queue(&json!({"fence": {"epoch": 49, "nonce": "theirs"}}));
    scene.fake.fault(Method::PUT, "/reportqueues/q/status", Fault::Refuse(409, "Conflict"));
    let queue = ObjectKey::new("docs", "q");
    let failed = Box::pin(scene.controller.pass_queue(&queue)).await;
    assert!(failed.is_err(), "{failed:?}");
    scene.woken().await;
    scene.pass_queue().await;
    let woken = scene.woken().await;
    assert!(woken.contains(&Key::Job(ObjectKey::new("docs", "new"))), "{woken:?}");
}
