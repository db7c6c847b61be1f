//! Single passes against a small API server, with caches that hold what each test puts into them.

mod takeover;

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::{
    cluster::fake::{FakeApi, Logged},
    reconcile::{Census, scene::Leader},
};

const SCHEDULES: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/maintenanceschedules";
const OCCURRENCES: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/maintenanceoccurrences";
const SCHEDULE: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/maintenanceschedules/nightly";
const OCCURRENCE: &str =
    "/apis/punctual.dev/v1alpha1/namespaces/docs/maintenanceoccurrences/nightly-202611290200";
/// The instant of that occurrence.
const INSTANT: &str = "2026-11-29T02:00:00Z";

/// A leader in term 50 at five seconds past the instant.
struct Scene {
    fake: FakeApi,
    controller: Controller,
    leader: Leader,
}

impl Scene {
    fn new() -> Self {
        let (leader, wiring) = Leader::new(None, |events, metrics| {
            let wiring = Wiring::new(events, metrics, &Census::new(metrics));
            let listener = wiring.listener();
            (wiring, listener)
        });
        let controller = wiring.controller(&leader.deps);
        Self { fake: leader.fake.clone(), controller, leader }
    }

    /// Stores a schedule of 02:00 with this status.
    fn put_schedule(&self, status: &Value) -> MaintenanceSchedule {
        let object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {"name": "nightly", "creationTimestamp": "2026-11-29T01:30:00Z"},
            "spec": {"schedule": "0 2 * * *", "run": {"job": {"template": {}}}},
            "status": status,
        });
        serde_json::from_value(self.fake.put(SCHEDULES, object)).unwrap()
    }

    fn put_occurrence(&self, schedule_uid: Option<&str>) -> MaintenanceOccurrence {
        let object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
            "metadata": {"name": "nightly-202611290200"},
            "spec": {
                "scheduleName": "nightly", "intendedTime": INSTANT, "scheduleUID": schedule_uid,
            },
        });
        serde_json::from_value(self.fake.put(OCCURRENCES, object)).unwrap()
    }

    fn writes(&self) -> Vec<Logged> {
        self.leader.writes()
    }
}

fn nightly() -> ObjectKey {
    ObjectKey::new("docs", "nightly")
}

fn at_two() -> ObjectKey {
    ObjectKey::new("docs", "nightly-202611290200")
}

/// A status that this term sealed after it decided the instant.
fn decided(claimed: &[Value]) -> Value {
    json!({
        "fence": {"epoch": 50, "nonce": "mine"}, "lastScheduleTime": INSTANT,
        "claimed": claimed,
    })
}

#[tokio::test(start_paused = true)]
async fn only_a_live_read_says_that_nobody_claimed_it() {
    let scene = Scene::new();
    let old = scene.put_schedule(&decided(&[]));
    let occurrence = scene.put_occurrence(old.metadata.uid.as_deref());
    scene.controller.schedules.observe(old);
    scene.controller.occurrences.observe(occurrence.clone());
    // The claim has been written, and the cache has not heard of it.
    scene.fake.edit(SCHEDULE, |schedule| {
        schedule["status"]["claimed"] = json!([{
            "time": INSTANT, "start": false, "uid": occurrence.metadata.uid, "runKey": "k",
            "actionClass": "Fenced",
        }]);
    });
    scene.controller.pass_occurrence(&at_two()).await.unwrap();
    let state = |scene: &Scene| scene.fake.stored(OCCURRENCE).unwrap()["status"]["state"].clone();
    assert_eq!(state(&scene), "Pending", "it is claimed");

    let unclaimed = Scene::new();
    let schedule = unclaimed.put_schedule(&decided(&[]));
    let occurrence = unclaimed.put_occurrence(schedule.metadata.uid.as_deref());
    unclaimed.controller.occurrences.observe(occurrence);
    unclaimed.controller.pass_occurrence(&at_two()).await.unwrap();
    assert_eq!(state(&unclaimed), "Superseded");
}

#[tokio::test(start_paused = true)]
async fn an_instant_is_created_then_claimed_by_its_uid_in_one_sealed_write() {
    let scene = Scene::new();
    let schedule = scene.put_schedule(&Value::Null);
    scene.controller.schedules.observe(schedule);
    scene.controller.pass_schedule(&nightly()).await.unwrap();
    let writes = scene.writes();
    let methods: Vec<&Method> = writes.iter().map(|write| &write.method).collect();
    assert_eq!(methods, [Method::POST, Method::PUT], "{writes:?}");
    let uid = scene.fake.stored(OCCURRENCE).unwrap()["metadata"]["uid"].clone();
    let claims = &writes[1].body["status"]["claimed"];
    assert_eq!((&claims[0]["uid"], claims.as_array().unwrap().len()), (&uid, 1));
    assert_eq!(writes[1].body["status"]["fence"], json!({"epoch": 50, "nonce": "mine"}));
}

#[tokio::test(start_paused = true)]
async fn a_new_schedule_is_sealed_after_every_open_occurrence_of_its_name() {
    let scene = Scene::new();
    let schedule = scene.put_schedule(&Value::Null);
    scene.put_occurrence(Some("of-an-earlier-life"));
    scene.controller.schedules.observe(schedule);
    scene.controller.pass_schedule(&nightly()).await.unwrap();
    let writes = scene.writes();
    let paths: Vec<&str> = writes.iter().map(|write| write.path.as_str()).collect();
    assert_eq!(paths, [format!("{OCCURRENCE}/status"), format!("{SCHEDULE}/status")]);
    assert_eq!(writes[0].body["status"]["fence"]["epoch"], 50);
}

#[tokio::test(start_paused = true)]
async fn what_carries_a_foreign_fence_is_left_alone() {
    for (epoch, outranked) in [(900, false), (50, true)] {
        let scene = Scene::new();
        let lease = json!({
            "metadata": {"name": "punctual", "annotations": {"punctual.dev/nonce": "mine"}},
        });
        for _ in 0..=50 {
            scene.fake.put("/apis/coordination.k8s.io/v1/namespaces/ops/leases", lease.clone());
        }
        let schedule = scene.put_schedule(&json!({"fence": {"epoch": epoch, "nonce": "z"}}));
        scene.controller.schedules.observe(schedule);
        let passed = scene.controller.pass_schedule(&nightly()).await;
        match passed {
            Ok(_) => assert!(!outranked, "only this object is given up"),
            Err(error) => assert!(outranked, "a new term outranks it: {error}"),
        }
        assert!(scene.writes().is_empty(), "epoch {epoch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_deleted_after_the_mark_is_stored() {
    let scene = Scene::new();
    let schedule = scene.put_schedule(&decided(&[]));
    scene.fake.edit(SCHEDULE, |schedule| {
        schedule["spec"]["retention"] = json!({"successful": 0, "failed": 0});
        schedule["status"]["observed"] =
            json!({"uid": schedule["metadata"]["uid"], "schedule": "0 2 * * *"});
        schedule["status"]["effectiveTime"] = json!("2026-11-29T01:30:00Z");
    });
    let occurrence = scene.put_occurrence(schedule.metadata.uid.as_deref());
    scene.fake.edit(OCCURRENCE, |occurrence| {
        occurrence["status"] = json!({"state": "Succeeded", "reason": "Completed"});
    });
    drop((schedule, occurrence));
    for _ in 0..2 {
        let stored = |path| scene.fake.stored(path);
        let schedule = serde_json::from_value(stored(SCHEDULE).unwrap()).unwrap();
        let occurrence = serde_json::from_value(stored(OCCURRENCE).unwrap()).unwrap();
        scene.controller.schedules.observe(schedule);
        scene.controller.occurrences.observe(occurrence);
        scene.controller.pass_schedule(&nightly()).await.unwrap();
    }
    let writes = scene.writes();
    let methods: Vec<&Method> = writes.iter().map(|write| &write.method).collect();
    assert_eq!(methods, [Method::PUT, Method::DELETE], "{writes:?}");
    assert_eq!(writes[0].body["status"]["prunedThrough"], INSTANT);
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_schedule_is_removed_after_its_time_and_not_before() {
    let scene = Scene::new();
    scene.put_occurrence(Some("gone"));
    scene.fake.edit(OCCURRENCE, |occurrence| {
        occurrence["status"] = json!({"state": "Succeeded", "reason": "Completed"});
    });
    let record: MaintenanceOccurrence =
        serde_json::from_value(scene.fake.stored(OCCURRENCE).unwrap()).unwrap();
    scene.controller.occurrences.observe(record);
    let end = "2026-11-29T03:00:00Z".parse().unwrap();
    let pass = async || scene.controller.pass_occurrence(&at_two()).await.unwrap();
    assert_eq!(pass().await, Some(end), "looked at again when its time is over");
    assert!(scene.writes().is_empty());
    scene.controller.deps.wall.set(end);
    let schedule = scene.put_schedule(&json!({}));
    assert_eq!(pass().await, None, "a schedule that the cache has not heard of looks after it");
    assert!(scene.writes().is_empty());
    drop(schedule);
    scene.fake.remove(SCHEDULE);
    pass().await;
    let deleted = scene.writes();
    assert_eq!(deleted.len(), 1);
    assert_eq!(deleted[0].method, Method::DELETE);
}
