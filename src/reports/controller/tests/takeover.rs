//! What a new leader does with a queue before anything new starts in it.

use super::*;

fn waiting() -> Value {
    json!({"state": "Queued", "reason": "WaitingForSlot", "run": {"simulated": {}}, "id": "i"})
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_a_ledger_admits_nothing_until_what_runs_is_accounted_for() {
    let scene = Scene::new();
    scene.put_queue(&Value::Null);
    scene.put_job("runs", &running());
    scene.put_job("waits", &waiting());
    let queue = scene.pass_queue().await;
    assert_eq!(admitted(&queue), ["runs"], "the pass that takes over");
    assert_eq!(
        (&queue["admissions"], &queue["reason"]),
        (&json!("Paused"), &json!("RecoveryIncomplete"))
    );
    scene.later(1);
    assert_eq!(admitted(&scene.pass_queue().await), ["runs"], "its provider was not asked");
    scene.pass_job("runs").await;
    scene.later(1);
    let queue = scene.pass_queue().await;
    assert_eq!(admitted(&queue), ["runs", "waits"]);
    assert_eq!(queue["admissions"], "Open");
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_which_nothing_runs_opens_with_its_first_write() {
    let scene = Scene::new();
    scene.put_queue(&Value::Null);
    scene.put_job("waits", &waiting());
    let queue = scene.pass_queue().await;
    assert_eq!((admitted(&queue), &queue["admissions"]), (vec!["waits"], &json!("Open")));
}
