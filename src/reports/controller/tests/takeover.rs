//! What a new leader does with a queue before anything new starts in it.

use std::time::Duration;

use tokio::time::Instant;

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

#[tokio::test(start_paused = true)]
async fn what_is_open_is_sealed_a_few_at_a_time() {
    const MANY: u32 = 80;
    const LATENCY: Duration = Duration::from_millis(100);
    let scene = Scene::new();
    scene.put_queue(&Value::Null);
    for number in 0..MANY {
        scene.put_job(&format!("j{number:02}"), &waiting());
    }
    scene.fake.set_latency(LATENCY);
    let begun = Instant::now();
    scene.pass_queue().await;
    let took = begun.elapsed();
    // Eight at a time, and a dozen requests beside them; one after another they would take 8 s.
    assert!((LATENCY * MANY / 8..LATENCY * MANY / 3).contains(&took), "{took:?}");
    let sealed = |number| {
        let path = format!("{JOBS}/j{number:02}");
        scene.fake.stored(&path).unwrap()["status"]["fence"]["epoch"] == 50
    };
    assert!((0..MANY).all(sealed));
}
