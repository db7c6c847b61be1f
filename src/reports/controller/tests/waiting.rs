//! What jobs that wait say of it.

use super::*;

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
