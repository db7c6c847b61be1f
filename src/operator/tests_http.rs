//! Whole replicas and the reference service for runs outside the cluster, in virtual time.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    lab::{Running, secs, until},
    tests::Lab,
};
use crate::{
    fakeprovider::{
        book::Habits,
        outside::{Outside, URL},
    },
    sim::{
        Key, Kind,
        api::{Deletion, Request, Subresource},
    },
};

const NIGHTLY: &str = "nightly-202611290200";

struct Scene {
    lab: Lab,
    outside: Arc<Outside>,
}

impl Scene {
    fn new() -> Self {
        Self::with(Habits { hold: true, seconds: 5 })
    }

    fn with(habits: Habits) -> Self {
        let lab = Lab::new();
        let outside = Arc::new(Outside::with(lab.clocks.wall.clone(), habits));
        Self { lab, outside }
    }

    fn start(&self, name: &'static str) -> Running {
        self.lab.start_with(name, Arc::new(Arc::clone(&self.outside)))
    }

    fn install(&self, manifest: &Value) {
        self.lab.model.install(manifest).unwrap();
    }

    /// A schedule that runs outside, due at a minute after two o'clock.
    fn schedule(&self, name: &str, minute: u8, class: &str, parameters: &Value) {
        self.install(&json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {
                "name": name, "namespace": "docs", "creationTimestamp": "2026-11-29T01:58:00Z",
            },
            "spec": {
                "schedule": format!("{minute} 2 * * *"),
                "run": {"actionClass": class, "parameters": parameters, "http": {"url": URL}},
            },
        }));
    }

    fn get(&self, kind: Kind, name: &str) -> Option<Arc<Value>> {
        self.lab.model.get(&Key::new(kind, "docs", name))
    }

    fn occurrence(&self, name: &str) -> Value {
        self.get(Kind::MaintenanceOccurrence, name).map_or(Value::Null, |found| (*found).clone())
    }

    fn state(&self, name: &str) -> String {
        self.occurrence(name)["status"]["state"].as_str().unwrap_or_default().to_owned()
    }

    fn reason(&self, name: &str) -> String {
        self.occurrence(name)["status"]["reason"].as_str().unwrap_or_default().to_owned()
    }

    async fn until_state(&self, name: &str, state: &str) {
        let what = format!("{name} is {state}, its last reason {:?}", self.reason(name));
        until(&what, || self.state(name) == state).await;
    }

    fn edit(&self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let key = Key::new(kind, "docs", name);
        self.lab.model.edit("person", &key, Subresource::Main, change).unwrap();
    }

    fn delete(&self, kind: Kind, name: &str) {
        let key = Key::new(kind, "docs", name);
        let request = Request::delete(&key, Deletion::default());
        self.lab.model.write("person", request).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_fenced_run_outside_runs_once_whatever_goes_wrong_on_the_way() {
    for fault in [
        "unreachable,times=3",
        "unreachable,on=put,times=2",
        "unreachable,on=release,times=2",
        "slow,on=capabilities,times=1",
        "slow,on=put,times=2",
        "slow,on=release,times=2",
        "slow,on=get,times=2",
        "lost-response,on=capabilities,times=2",
        "lost-response,on=put,times=3",
        "lost-response,on=release,times=3",
        "lost-response,on=get,times=3",
        "crash,on=put,times=1",
        "crash,on=release,times=1",
        "crash,on=get,times=1",
        "duplicate",
        "epoch-refused,on=put,times=2",
        "epoch-refused,on=release,times=2",
        "epoch-refused,on=get,times=2",
        "forget,on=put,times=1",
        "late-put,times=2",
        "unknown,times=3",
    ] {
        let scene = Scene::new();
        scene.schedule("nightly", 0, "Fenced", &json!({}));
        scene.outside.arm(fault);
        let _replica = scene.start("r0");
        scene.until_state(NIGHTLY, "Succeeded").await;
        assert_eq!(scene.outside.starts(), 1, "{fault}");
        let attempts = &scene.occurrence(NIGHTLY)["status"]["attempts"];
        assert_eq!(attempts.as_array().map(Vec::len), Some(1), "{fault}: {attempts}");
        assert_eq!(scene.outside.crashes(), u64::from(fault.starts_with("crash")), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fenced_run_that_its_service_forgot_waits_for_a_person() {
    for fault in ["forget,on=release,times=1", "forget,on=get,times=99"] {
        let scene = Scene::new();
        scene.schedule("nightly", 0, "Fenced", &json!({"fakeDurationSeconds": "30"}));
        let _replica = scene.start("r0");
        if fault.contains("release") {
            scene.outside.arm(fault);
        } else {
            scene.until_state(NIGHTLY, "Running").await;
            scene.outside.arm(fault);
        }
        scene.until_state(NIGHTLY, "Unresolved").await;
        sleep(secs(900)).await;
        assert_eq!(scene.state(NIGHTLY), "Unresolved", "{fault}");
        assert_eq!(scene.reason(NIGHTLY), "EndNotSeen", "{fault}");
        assert!(scene.outside.starts() <= 1, "{fault}");
        scene.edit(Kind::MaintenanceOccurrence, NIGHTLY, |object| {
            object["spec"]["resolution"] =
                json!({"attempt": 1, "decision": "Failed", "reason": "looked at the service"});
        });
        scene.until_state(NIGHTLY, "Failed").await;
        assert!(scene.outside.starts() <= 1, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_away_for_ten_minutes_holds_up_nothing_else_and_loses_nothing() {
    let scene = Scene::new();
    scene.schedule("nightly", 0, "Fenced", &json!({"fakeDurationSeconds": "120"}));
    scene.schedule("due-meanwhile", 4, "Fenced", &json!({}));
    scene.install(&json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
        "metadata": {
            "name": "inside", "namespace": "docs", "creationTimestamp": "2026-11-29T01:58:00Z",
        },
        "spec": {
            "schedule": "6 2 * * *",
            "run": {"actionClass": "Fenced", "simulated": {"durationSeconds": 5}},
        },
    }));
    let _replica = scene.start("r0");
    scene.until_state(NIGHTLY, "Running").await;
    scene.outside.go_away();
    sleep(secs(90)).await;
    assert_eq!(scene.state(NIGHTLY), "Unresolved");
    assert_eq!(scene.reason(NIGHTLY), "ProviderUnreachable");
    scene.until_state("inside-202611290206", "Succeeded").await;
    sleep(secs(240)).await; // ten minutes in all
    let meanwhile = "due-meanwhile-202611290204";
    assert_eq!(scene.state(NIGHTLY), "Unresolved");
    assert_eq!(scene.state(meanwhile), "Pending");
    assert_eq!(scene.reason(meanwhile), "ProviderUnreachable");
    sleep(secs(240)).await; // longer than anything that the API server refuses is tried
    assert_eq!(scene.state(meanwhile), "Pending");
    scene.outside.come_back();
    scene.until_state(NIGHTLY, "Succeeded").await;
    scene.until_state(meanwhile, "Succeeded").await;
    assert_eq!(scene.outside.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_with_what_it_finds_at_the_service() {
    for (fault, crash_when) in [
        ("lost-response,on=put", "put"),
        ("lost-response,on=release", "release"),
        ("duplicate", "release"),
    ] {
        let scene = Scene::new();
        scene.schedule("nightly", 0, "Fenced", &json!({"fakeDurationSeconds": "60"}));
        let first = scene.start("r0");
        until("r0 leads", || scene.lab.holder().as_deref() == Some("r0")).await;
        scene.outside.arm(fault);
        let audit = || scene.outside.control("GET", "/fake/audit", "")["runs"].clone();
        let done = |what: &str| {
            let runs = audit();
            let runs = runs.as_object().unwrap();
            let field = if what == "put" { "puts" } else { "starts" };
            runs.values().any(|run| run[field].as_u64() > Some(0))
        };
        until("it got that far", || done(crash_when)).await;
        first.task.abort();
        let _second = scene.start("r1");
        until("r1 leads", || scene.lab.holder().as_deref() == Some("r1")).await;
        scene.outside.disarm();
        scene.until_state(NIGHTLY, "Succeeded").await;
        assert_eq!(scene.outside.starts(), 1, "{fault}");
        assert_eq!(audit().as_object().unwrap().len(), 1, "{fault}: one key");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_before_it_was_committed_never_runs() {
    for (habits, class) in [
        (Habits { hold: true, seconds: 5 }, "Fenced"),
        (Habits { hold: false, seconds: 3600 }, "Idempotent"),
    ] {
        let scene = Scene::with(habits.clone());
        scene.schedule("nightly", 0, class, &json!({}));
        // What was asked for arrives, and nobody hears of it.
        scene.outside.arm("lost-response,on=put");
        let _replica = scene.start("r0");
        until("it says why it waits", || scene.reason(NIGHTLY) == "ProviderUnreachable").await;
        scene.outside.arm("unreachable,on=delete");
        scene.edit(Kind::MaintenanceOccurrence, NIGHTLY, |object| {
            object["spec"]["cancel"] = true.into();
        });
        sleep(secs(120)).await;
        assert_eq!(scene.state(NIGHTLY), "Pending", "{class}: it is not certain that nothing runs");
        scene.outside.disarm();
        scene.until_state(NIGHTLY, "Cancelled").await;
        assert_eq!(scene.outside.starts(), u64::from(!habits.hold), "{class}");
        let audit = scene.outside.control("GET", "/fake/audit", "");
        let run = audit["runs"].as_object().unwrap().values().next().unwrap();
        assert_eq!(run["deletes"], 1, "{class}: {audit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_put_after_the_end_is_refused() {
    let scene = Scene::new();
    scene.schedule("nightly", 0, "Fenced", &json!({}));
    scene.outside.arm("late-put");
    let _replica = scene.start("r0");
    until("it says why it waits", || scene.reason(NIGHTLY) == "ProviderUnreachable").await;
    scene.edit(Kind::MaintenanceOccurrence, NIGHTLY, |object| {
        object["spec"]["cancel"] = true.into();
    });
    scene.until_state(NIGHTLY, "Cancelled").await;
    let audit = scene.outside.control("GET", "/fake/audit", "");
    let late = audit["late"].as_array().unwrap();
    assert!(!late.is_empty() && late.iter().all(|late| late["code"] == 410), "{audit}");
    assert_eq!(scene.outside.starts(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_run_of_a_deleted_occurrence_is_ended_also_by_a_leader_that_never_saw_it() {
    for restart in [false, true] {
        let scene = Scene::new();
        scene.schedule("nightly", 0, "Fenced", &json!({"fakeDurationSeconds": "3600"}));
        let first = scene.start("r0");
        scene.until_state(NIGHTLY, "Running").await;
        if restart {
            first.task.abort();
            scene.delete(Kind::MaintenanceOccurrence, NIGHTLY);
        }
        let _second = restart.then(|| scene.start("r1"));
        if !restart {
            scene.delete(Kind::MaintenanceOccurrence, NIGHTLY);
        }
        let claims = || {
            let schedule = scene.get(Kind::MaintenanceSchedule, "nightly").unwrap();
            schedule["status"]["claimed"].as_array().map_or(0, Vec::len)
        };
        until("its claim is dropped", || claims() == 0).await;
        let audit = scene.outside.control("GET", "/fake/audit", "");
        let deleted: u64 = audit["runs"]
            .as_object()
            .unwrap()
            .values()
            .filter(|run| run["starts"] == 1)
            .map(|run| run["deletes"].as_u64().unwrap())
            .sum();
        assert_eq!(deleted, 1, "after a restart: {restart}: {audit}");
        assert_eq!(scene.outside.starts(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_goes_without_a_word_to_the_service() {
    let scene = Scene::new();
    scene.schedule("nightly", 0, "Fenced", &json!({}));
    let _replica = scene.start("r0");
    scene.until_state(NIGHTLY, "Succeeded").await;
    scene.delete(Kind::MaintenanceOccurrence, NIGHTLY);
    sleep(secs(120)).await;
    let audit = scene.outside.control("GET", "/fake/audit", "");
    let runs = audit["runs"].as_object().unwrap();
    assert_eq!(runs.len(), 1, "{audit}");
    assert!(runs.values().all(|run| run["deletes"] == 0), "{audit}");
}

#[tokio::test(start_paused = true)]
async fn reports_run_outside_and_deliver_their_artifact() {
    let scene = Scene::new();
    scene.install(&json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
        "metadata": {"name": "reports", "namespace": "docs"},
        "spec": {"slots": 2, "runTemplate": {"http": {"url": URL}}},
    }));
    for number in 0..6 {
        let outcome = if number == 5 { "Failed" } else { "Succeeded" };
        scene.install(&json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
            "metadata": {"name": format!("job-{number}"), "namespace": "docs"},
            "spec": {
                "queueName": "reports", "tenant": "acme", "artifact": "Required",
                "parameters": {"fakeArtifact": "true", "fakeOutcome": outcome,
                               "fakeReason": "Broken", "fakeRetryable": "false"},
            },
        }));
    }
    scene.outside.arm("lost-response,times=5");
    let _replica = scene.start("r0");
    let state = |name: &str| scene.get(Kind::ReportJob, name).map(|job| job["status"].clone());
    for number in 0..5 {
        let name = format!("job-{number}");
        until(&name, || state(&name).is_some_and(|status| status["state"] == "Succeeded")).await;
        let status = state(&name).unwrap();
        assert!(status["artifact"]["uri"].as_str().unwrap().starts_with("fake://"), "{status}");
    }
    until("the broken one has failed", || {
        state("job-5").is_some_and(|status| status["state"] == "Failed")
    })
    .await;
    let attempts = state("job-5").unwrap()["attempts"].as_array().unwrap().len();
    assert_eq!(attempts, 2, "a failure that is not to be tried again stops at the second");
    assert_eq!(scene.outside.starts(), 7);
}
