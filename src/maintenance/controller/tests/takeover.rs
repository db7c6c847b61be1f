//! What a new leader finds, and what single passes tell of it.

use super::*;
use crate::recovery::{Found, Item};

fn found(scene: &Scene) -> Vec<(String, Found)> {
    let mut found: Vec<(Item, Found)> = scene.controller.found();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.into_iter().map(|(item, found)| (item.to_string(), found)).collect()
}

fn claim(uid: &str, instant: &str) -> Value {
    json!({"time": instant, "start": true, "uid": uid, "runKey": "k", "actionClass": "Fenced"})
}

fn shows(scene: &Scene, line: &str) -> bool {
    scene.controller.deps.metrics.encode().lines().any(|shown| shown == line)
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_found_is_accounted_for() {
    let scene = Scene::new();
    let schedule = scene.put_schedule(&Value::Null);
    let occurrence = scene.put_occurrence(schedule.metadata.uid.as_deref());
    let uid = occurrence.metadata.uid.clone().unwrap();
    scene.fake.edit(SCHEDULE, |schedule| {
        schedule["status"] = decided(&[
            claim(&uid, INSTANT),
            claim("gone", "2026-11-29T01:00:00Z"),
            // Deleted and made again: the claim is about the one that is gone.
            claim("made-again", INSTANT),
        ]);
        schedule["status"]["observed"] =
            json!({"uid": schedule["metadata"]["uid"], "schedule": "0 2 * * *"});
    });
    let schedule = serde_json::from_value(scene.fake.stored(SCHEDULE).unwrap()).unwrap();
    scene.controller.schedules.observe(schedule);
    scene.controller.occurrences.observe(occurrence);
    let name = |digits: &str| format!("docs/mocc/nightly-{digits}");
    assert_eq!(
        found(&scene),
        [
            (name("202611290100"), Found::Gone),
            (name("202611290200"), Found::Gone),
            (name("202611290200"), Found::Idle),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn claims_that_a_new_schedule_discards_are_nothing_to_account_for() {
    let scene = Scene::new();
    let schedule = scene.put_schedule(&decided(&[claim("gone", INSTANT)]));
    scene.controller.schedules.observe(schedule);
    assert_eq!(found(&scene), []);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_occurrence_is_gone_is_reconciled_only_when_its_runs_are_over() {
    for (class, reconciled) in [("ReadOnly", 1), ("Fenced", 0)] {
        let scene = Scene::new();
        drop(scene.put_schedule(&Value::Null));
        scene.fake.edit(SCHEDULE, |schedule| {
            let mut gone = claim("gone", INSTANT);
            gone["actionClass"] = json!(class);
            schedule["status"] = decided(&[gone]);
            schedule["status"]["observed"] =
                json!({"uid": schedule["metadata"]["uid"], "schedule": "0 2 * * *"});
            schedule["status"]["effectiveTime"] = json!("2026-11-29T01:30:00Z");
        });
        let schedule = serde_json::from_value(scene.fake.stored(SCHEDULE).unwrap()).unwrap();
        scene.controller.schedules.observe(schedule);
        scene.controller.deps.recovery.listed(scene.controller.found());
        assert!(shows(&scene, "punctual_recovery_outstanding 1"));
        scene.controller.pass_schedule(&nightly()).await.unwrap();
        let of_class = format!("punctual_recovery_items{{class=\"Reconciled\"}} {reconciled}");
        assert!(shows(&scene, &of_class), "{class}");
        let left = format!("punctual_recovery_outstanding {}", 1 - reconciled);
        assert!(shows(&scene, &left), "{class}: nobody saw what ran");
    }
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_of_which_nothing_ran_is_resumed_by_its_first_pass() {
    let scene = Scene::new();
    let schedule = scene.put_schedule(&decided(&[]));
    let occurrence = scene.put_occurrence(None);
    scene.controller.schedules.observe(schedule);
    scene.controller.occurrences.observe(occurrence);
    scene.controller.deps.recovery.listed(scene.controller.found());
    scene.controller.pass_occurrence(&at_two()).await.unwrap();
    assert!(shows(&scene, "punctual_recovery_items{class=\"Resumed\"} 1"));
    assert!(shows(&scene, "punctual_recovery_outstanding 0"));
}

#[tokio::test(start_paused = true)]
async fn what_is_quarantined_is_uncertain_and_its_schedule_paused() {
    let scene = Scene::new();
    let lease = json!({
        "metadata": {"name": "punctual", "annotations": {"punctual.dev/nonce": "mine"}},
    });
    scene.fake.put("/apis/coordination.k8s.io/v1/namespaces/ops/leases", lease);
    let foreign = json!({"fence": {"epoch": 90_000, "nonce": "z"}});
    let schedule = scene.put_schedule(&foreign);
    let occurrence = scene.put_occurrence(schedule.metadata.uid.as_deref());
    scene.fake.edit(OCCURRENCE, |occurrence| occurrence["status"] = foreign.clone());
    drop(occurrence);
    let occurrence = serde_json::from_value(scene.fake.stored(OCCURRENCE).unwrap()).unwrap();
    scene.controller.schedules.observe(schedule);
    scene.controller.occurrences.observe(occurrence);
    scene.controller.deps.recovery.listed(scene.controller.found());
    scene.controller.pass_occurrence(&at_two()).await.unwrap();
    scene.controller.pass_schedule(&nightly()).await.unwrap();
    assert!(shows(&scene, "punctual_recovery_items{class=\"Uncertain\"} 1"));
    let paused = scene.controller.paused();
    let paused: Vec<_> = paused
        .iter()
        .map(|p| (p.schedule.as_deref().unwrap_or_default(), p.reason.as_str()))
        .collect();
    assert_eq!(paused, [("docs/nightly", "ForeignFence")]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_not_taken_over_while_a_pass_over_its_occurrence_may_still_commit() {
    let scene = Scene::new();
    let schedule = scene.put_schedule(&Value::Null);
    let key = ObjectKey::of(&schedule.metadata);
    scene.controller.schedules.observe(schedule);
    let controller = scene.controller.clone();
    // What a pass of this very term holds that has not come to its end.
    let under_way = controller.deps.pass().await;
    let mut taken_over = std::pin::pin!(controller.pass_schedule(&key));
    let early = tokio::time::timeout(Duration::from_secs(60), taken_over.as_mut()).await;
    assert!(early.is_err(), "it was taken over meanwhile");
    assert!(scene.fake.stored(SCHEDULE).unwrap()["status"].is_null());
    drop(under_way);
    taken_over.await.unwrap();
    assert!(scene.fake.stored(SCHEDULE).unwrap()["status"]["observed"].is_object());
}
