//! The client against the reference service; every exchange is held to the contract.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::ActionClass,
    authority::{Gate, Term},
    cluster::{Clients, fake::FakeApi},
    fakeprovider::{
        book::Habits,
        outside::{Outside, URL},
    },
    providers::{
        Delivered, FailureClass, OfQueue,
        job::fixtures::{self, START, stopping, word},
    },
    time::WallClock,
    yaml,
};

mod contract;
mod ends;
mod network;

use contract::Held;

struct Scene {
    fake: FakeApi,
    gate: Gate,
    lease: LeaseClock,
    wall: WallClock,
    outside: Arc<Outside>,
    provider: HttpProvider,
    operations: Arc<Mutex<Vec<(String, u16)>>>,
}

impl Scene {
    fn new() -> Self {
        Self::with(Habits { hold: true, seconds: 5 })
    }

    fn with(habits: Habits) -> Self {
        let fake = FakeApi::new();
        let lease = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let gate = Gate::new(lease.clone());
        gate.open(&Term { epoch: 7, nonce: "n7".into() }, LeaseInstant::from_nanos(u64::MAX));
        let wall = WallClock::driven(START.parse().unwrap());
        let outside = Arc::new(Outside::with(wall.clone(), habits));
        let held = Held::new(Arc::clone(&outside));
        let operations = Arc::clone(&held.operations);
        let reader = Clients::single(fake.client()).reader();
        let provider = HttpProvider::new(reader, Arc::new(held), lease.clone(), Arc::default());
        Self { fake, gate, lease, wall, outside, provider, operations }
    }

    fn permit(&self) -> Permit {
        self.gate.permit().unwrap()
    }

    async fn prepared(&self, request: &RunRequest) -> Committed {
        match self.provider.prepare(&self.permit(), request).await {
            Ok(Prepared::Ready { handle }) => {
                Committed { handle: Some(handle), ..Committed::default() }
            }
            other => panic!("{other:?}"),
        }
    }

    async fn release(&self, request: &RunRequest, known: &Committed) -> Result<(), ProviderError> {
        let handle = known.handle.as_deref().unwrap();
        self.provider.release(&self.permit(), request, handle).await
    }

    async fn status(&self, request: &RunRequest, known: &Committed) -> RunStatus {
        self.provider.status(request, known).await.unwrap()
    }

    async fn cancel(&self, request: &RunRequest, known: &Committed) {
        let step = self.provider.cancel(&self.permit(), request, known, false).await;
        assert_eq!(step, Ok(CancelStep::Asked));
    }

    fn pass(&self, seconds: u64) {
        let duration = Duration::from_secs(seconds);
        self.wall.set(self.wall.now() + duration);
        self.lease.set(self.lease.now().after(duration));
    }

    fn seen(&self, operation: &str, code: u16) -> bool {
        self.operations.lock().unwrap().contains(&(operation.to_owned(), code))
    }
}

fn request() -> RunRequest {
    of(&json!({"http": {"url": URL}, "parameters": {"mode": "plan"}}))
}

fn of(run: &Value) -> RunRequest {
    RunRequest { run: yaml::from_str(&run.to_string()).unwrap(), ..fixtures::request("{}") }
}

fn with_parameters(parameters: &Value) -> RunRequest {
    of(&json!({"http": {"url": URL}, "parameters": parameters}))
}

#[tokio::test]
async fn a_run_is_held_committed_released_and_followed_to_its_end() {
    let scene = Scene::new();
    let request = request();
    assert_eq!(scene.provider.accept(&request).await, Acceptance::Accepted);
    let known = scene.prepared(&request).await;
    let handle = known.handle.clone().unwrap();
    assert!(is_http(&handle) && handle.contains(&request.run_key) && handle.len() <= 128);
    assert_eq!(scene.prepared(&request).await, known, "the same run");
    scene.pass(3600);
    assert_eq!(scene.status(&request, &known).await, RunStatus::Held);
    scene.release(&request, &known).await.unwrap();
    let status = scene.status(&request, &known).await;
    let started: Timestamp = "2026-11-29T03:00:00Z".parse().unwrap();
    assert_eq!(status, RunStatus::Running { started, pod: None });
    scene.pass(5);
    scene.release(&request, &known).await.unwrap();
    match scene.status(&request, &known).await {
        RunStatus::Succeeded { started: Some(at), result: Some(result), result_lost, .. } => {
            assert_eq!(at, started);
            assert!(result.contains_key("rows") && !result_lost);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.outside.starts(), 1);
    let recorded = &scene.outside.tally(&request.run_key)["run"];
    assert_eq!(recorded["hold"], true);
    assert_eq!(recorded["parameters"]["mode"], "plan");
    assert_eq!(recorded["intendedTime"], "2026-11-29T02:00:00Z");
    for (operation, code) in [
        ("capabilities", 200),
        ("putRun", 201),
        ("putRun", 200),
        ("releaseRun", 200),
        ("getRun", 200),
    ] {
        assert!(scene.seen(operation, code), "{operation} {code}");
    }
}

#[tokio::test]
async fn ends_are_told_with_what_a_retry_may_expect_and_what_was_delivered() {
    for (parameters, class) in [
        (json!({"fakeOutcome": "Failed"}), FailureClass::Transient),
        (json!({"fakeOutcome": "Failed", "fakeRetryable": "false"}), FailureClass::Deterministic),
        (json!({"fakeOutcome": "Failed", "fakeReason": "Evicted"}), FailureClass::Disruption),
    ] {
        let scene = Scene::new();
        let request = with_parameters(&parameters);
        let known = scene.prepared(&request).await;
        scene.release(&request, &known).await.unwrap();
        scene.pass(5);
        match scene.status(&request, &known).await {
            RunStatus::Failed { class: given, .. } => assert_eq!(given, class, "{parameters}"),
            other => panic!("{other:?}"),
        }
    }
    let scene = Scene::new();
    let mut request = with_parameters(&json!({"fakeArtifact": "true"}));
    let queue = OfQueue { name: "reports".into(), tenant: "acme".into() };
    request.queue = Some(queue);
    let known = scene.prepared(&request).await;
    scene.release(&request, &known).await.unwrap();
    scene.pass(5);
    match scene.status(&request, &known).await {
        RunStatus::Succeeded { artifact: Delivered::Artifact(artifact), .. } => {
            assert!(artifact.uri.starts_with("fake://"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.outside.tally(&request.run_key)["run"]["tenant"], "acme");
}

#[tokio::test]
async fn a_cancel_is_confirmed_and_outlives_whatever_arrives_late() {
    for released in [false, true] {
        let scene = Scene::new();
        let request = request();
        let known = scene.prepared(&request).await;
        if released {
            scene.release(&request, &known).await.unwrap();
        }
        let early = scene.provider.cancel(&scene.permit(), &request, &known, false).await;
        assert!(matches!(early, Err(ProviderError::Conflict(_))), "not recorded: {early:?}");
        scene.cancel(&request, &stopping(&known)).await;
        assert_eq!(scene.status(&request, &known).await, RunStatus::Absent);
        let late = scene.release(&request, &known).await;
        assert!(matches!(late, Err(ProviderError::Conflict(_))), "{late:?}");
        match scene.provider.prepare(&scene.permit(), &request).await.unwrap() {
            Prepared::Refused { message } => assert!(message.contains("deleted"), "{message}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(scene.outside.starts(), u64::from(released));
    }
    let hangs = Scene::new();
    let request = with_parameters(&json!({"fakeOutcome": "Hang"}));
    let known = hangs.prepared(&request).await;
    hangs.release(&request, &known).await.unwrap();
    hangs.cancel(&request, &stopping(&known)).await;
    assert_eq!(hangs.status(&request, &stopping(&known)).await, RunStatus::Stopping);
}

#[tokio::test]
async fn a_deposed_leader_changes_nothing_once_its_successor_has_asked() {
    let scene = Scene::new();
    let request = request();
    let known = scene.prepared(&request).await;
    let successor = RunRequest { epoch: 8, ..request.clone() };
    assert_eq!(scene.status(&successor, &known).await, RunStatus::Held);
    let late = scene.release(&request, &known).await;
    assert!(matches!(late, Err(ProviderError::Conflict(_))), "{late:?}");
    match scene.status(&request, &known).await {
        RunStatus::Unknown { reason, .. } => assert_eq!(reason, "EpochRefused"),
        other => panic!("{other:?}"),
    }
    let prepared = scene.provider.prepare(&scene.permit(), &request).await.unwrap();
    assert!(matches!(prepared, Prepared::NoAnswer { .. }), "{prepared:?}");
    let withdrawn = scene.provider.withdraw(&scene.permit(), &request).await;
    assert!(matches!(withdrawn, Err(ProviderError::Unreachable(_))), "{withdrawn:?}");
    assert_eq!(scene.status(&successor, &known).await, RunStatus::Held);
    assert_eq!(scene.outside.starts(), 0);
    scene.gate.lose();
}

#[tokio::test]
async fn nothing_is_sent_without_a_valid_permit() {
    let scene = Scene::new();
    let request = RunRequest { class: ActionClass::Idempotent, ..request() };
    let permit = scene.permit();
    scene.gate.lose();
    let lost = || ProviderError::NotLeading;
    let known = Committed { handle: Some("http/a-m1/h".into()), ..Committed::default() };
    assert_eq!(scene.provider.prepare(&permit, &request).await, Err(lost()));
    let handle = format!("http/{}/h", request.run_key);
    assert_eq!(scene.provider.release(&permit, &request, &handle).await, Err(lost()));
    assert_eq!(scene.provider.cancel(&permit, &request, &known, true).await, Err(lost()));
    assert_eq!(scene.provider.withdraw(&permit, &request).await, Err(lost()));
    assert_eq!(scene.operations.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_run_that_its_service_does_not_know_is_unknown_unless_absence_is_enough() {
    for (class, stop, expected) in [
        (ActionClass::Fenced, false, "Unknown"),
        (ActionClass::Fenced, true, "Unknown"),
        (ActionClass::Idempotent, false, "Unknown"),
        (ActionClass::Idempotent, true, "Absent"),
        (ActionClass::ReadOnly, true, "Absent"),
    ] {
        let scene = Scene::new();
        let request = RunRequest { class, ..request() };
        let known = scene.prepared(&request).await;
        scene.release(&request, &known).await.unwrap();
        scene.outside.control("POST", "/fake/forget", r#"{"match": "*"}"#);
        let known = if stop { stopping(&known) } else { known };
        let status = scene.status(&request, &known).await;
        assert_eq!(word(&status), expected, "{class:?} {stop}");
        // A tombstone of a key that the service had forgotten proves nothing either.
        scene.cancel(&request, &stopping(&known)).await;
        let status = scene.status(&request, &known).await;
        assert_eq!(word(&status), expected, "{class:?} {stop}, after a DELETE");
        assert!(scene.seen("getRun", 404));
    }
    let scene = Scene::new();
    let request = request();
    let known = scene.prepared(&request).await;
    scene.outside.control("POST", "/fake/forget", r#"{"match": "*"}"#);
    scene.prepared(&request).await;
    let status = scene.status(&request, &known).await;
    assert!(
        matches!(&status, RunStatus::Unknown { reason, .. } if reason == "HandleChanged"),
        "recorded again after it was forgotten: {status:?}"
    );
}

#[tokio::test]
async fn fenced_runs_are_refused_by_a_service_that_cannot_hold() {
    let scene = Scene::with(Habits { hold: false, seconds: 5 });
    let request = request();
    let sentence = "needs a service that holds";
    match scene.provider.accept(&request).await {
        Acceptance::Refused { message } => assert!(message.contains(sentence), "{message}"),
        other => panic!("{other:?}"),
    }
    match scene.provider.prepare(&scene.permit(), &request).await.unwrap() {
        Prepared::Refused { message } => assert!(message.contains(sentence), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(!scene.operations.lock().unwrap().iter().any(|(name, _)| name == "putRun"));
    let eager = RunRequest { class: ActionClass::Idempotent, ..request };
    assert_eq!(scene.provider.accept(&eager).await, Acceptance::Accepted);
    let known = scene.prepared(&eager).await;
    assert_eq!(word(&scene.status(&eager, &known).await), "Running");
    scene.release(&eager, &known).await.unwrap();
    assert_eq!(scene.outside.starts(), 1);
    scene.provider.withdraw(&scene.permit(), &eager).await.unwrap();
    assert_eq!(scene.status(&eager, &known).await, RunStatus::Absent, "what began is ended");
}

#[tokio::test]
async fn what_was_perhaps_prepared_is_withdrawn_for_certain() {
    let scene = Scene::new();
    let request = request();
    scene.outside.arm("late-put,times=1");
    let prepared = scene.provider.prepare(&scene.permit(), &request).await.unwrap();
    assert!(matches!(prepared, Prepared::NoAnswer { .. }), "{prepared:?}");
    scene.provider.withdraw(&scene.permit(), &request).await.unwrap();
    let audit = scene.outside.control("GET", "/fake/audit", "");
    assert_eq!(audit["late"][0]["code"], 410, "the PUT came after the DELETE: {audit}");
    assert_eq!(scene.outside.starts(), 0);
    for fault in ["unreachable", "lost-response", "epoch-refused", "crash"] {
        scene.outside.arm(&format!("{fault},on=delete,times=1"));
        let withdrawn = scene.provider.withdraw(&scene.permit(), &request).await;
        assert!(matches!(withdrawn, Err(ProviderError::Unreachable(_))), "{fault}: {withdrawn:?}");
        scene.pass(20);
    }
    scene.provider.withdraw(&scene.permit(), &request).await.unwrap();
}

#[tokio::test]
async fn faults_of_the_service_are_no_answer_and_no_end() {
    for fault in ["unreachable", "lost-response", "crash"] {
        let scene = Scene::new();
        let request = request();
        let known = scene.prepared(&request).await;
        scene.outside.arm(&format!("{fault},times=1"));
        let none = scene.provider.status(&request, &known).await;
        assert!(matches!(none, Err(ProviderError::Unreachable(_))), "{fault}: {none:?}");
        scene.pass(20);
        assert_eq!(scene.status(&request, &known).await, RunStatus::Held, "{fault}");
        scene.outside.arm(&format!("{fault},on=release,times=1"));
        let none = scene.release(&request, &known).await;
        assert!(matches!(none, Err(ProviderError::Unreachable(_))), "{fault}: {none:?}");
        scene.pass(20);
        scene.release(&request, &known).await.unwrap();
        assert_eq!(scene.outside.starts(), 1, "{fault}");
    }
    let scene = Scene::new();
    let request = request();
    let known = scene.prepared(&request).await;
    scene.outside.arm("unknown");
    assert_eq!(word(&scene.status(&request, &known).await), "Unknown");
    scene.outside.disarm();
    scene.outside.arm("duplicate");
    scene.release(&request, &known).await.unwrap();
    assert_eq!(word(&scene.status(&request, &known).await), "Running");
    assert_eq!(scene.outside.starts(), 1, "delivered twice, begun once");
}

#[tokio::test(start_paused = true)]
async fn a_slow_service_takes_eight_workers_and_no_more() {
    let scene = Scene::new();
    let request = request();
    let known = scene.prepared(&request).await;
    scene.outside.arm("slow,on=get,millis=5000");
    let began = tokio::time::Instant::now();
    let asks = (0..20).map(|_| scene.provider.status(&request, &known));
    let answers = futures::future::join_all(asks).await;
    let held = answers.iter().filter(|answer| **answer == Ok(RunStatus::Held)).count();
    assert_eq!(held, MAX_UNDER_WAY, "{answers:?}");
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(refused.clone().all(|error| error.to_string().contains("take long")));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    scene.outside.disarm();
    let asks = (0..200).map(|_| scene.provider.status(&request, &known));
    let answers = futures::future::join_all(asks).await;
    assert!(answers.iter().all(Result::is_ok), "a quick one has turns for all: {answers:?}");
}

#[tokio::test]
async fn a_service_that_cannot_be_reached_is_left_alone_for_a_moment() {
    let scene = Scene::new();
    let request = request();
    let known = scene.prepared(&request).await;
    scene.outside.go_away();
    let asked = |scene: &Scene| scene.operations.lock().unwrap().len();
    let before = asked(&scene);
    for _ in 0..20 {
        let none = scene.provider.status(&request, &known).await;
        assert!(matches!(none, Err(ProviderError::Unreachable(_))), "{none:?}");
    }
    assert_eq!(asked(&scene), before + 1, "one of twenty was sent");
    let mut sent = 0;
    for _ in 0..600 {
        scene.pass(1);
        let before = asked(&scene);
        let none = scene.provider.status(&request, &known).await;
        assert!(matches!(none, Err(ProviderError::Unreachable(_))), "{none:?}");
        sent += asked(&scene) - before;
    }
    assert!((60..=300).contains(&sent), "about every 5 to 10 s: {sent} in 600 s");
    scene.outside.come_back();
    let mut waited = 0;
    while scene.provider.status(&request, &known).await.is_err() {
        scene.pass(1);
        waited += 1;
        assert!(waited <= 11, "it is asked again soon");
    }
    let elsewhere = of(&json!({"http": {"url": "https://other.example/v1"}}));
    scene.outside.go_away();
    let _ = scene.provider.status(&request, &known).await;
    let before = asked(&scene);
    let _ = scene.provider.accept(&elsewhere).await;
    assert_eq!(asked(&scene), before + 1, "another service is asked");
}
