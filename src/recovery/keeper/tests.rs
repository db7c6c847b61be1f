//! The record of a term, against a small API server in virtual time.

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::{
    authority::Term,
    cluster::{
        Clients, NoObserver,
        fake::{FakeApi, Fault},
    },
};

const TRACES: &str = "/apis/punctual.dev/v1alpha1/namespaces/ops/recoverytraces";
const TRACE: &str = "/apis/punctual.dev/v1alpha1/namespaces/ops/recoverytraces/punctual-50";

/// A term of epoch 50 that begins.
struct Scene {
    fake: FakeApi,
    keeper: Keeper,
    gate: Gate,
    events: EventQueue,
    metrics: Arc<Metrics>,
}

impl Scene {
    fn new() -> Self {
        let fake = FakeApi::new();
        let clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let gate = Gate::new(clock.clone());
        let term = Term { epoch: 50, nonce: "mine".into() };
        gate.open(&term, LeaseInstant::from_nanos(1));
        let clients = Clients::single(fake.client());
        let metrics = Arc::new(Metrics::new());
        let events = EventQueue::new(Arc::clone(&metrics));
        let parts = Parts {
            gate: gate.clone(),
            reader: clients.reader(),
            writer: Arc::new(clients.writer(NoObserver)),
            wall: WallClock::driven("2026-11-29T02:00:00Z".parse().unwrap()),
            clock,
            events: events.clone(),
            metrics: Arc::clone(&metrics),
        };
        let beginning = Beginning {
            term,
            lease: ObjectKey::new("ops", "punctual"),
            holder: "r1/mine".into(),
            former_holder: Some("r0/old".into()),
            gained: Gained::Expired,
        };
        Self { fake, keeper: Keeper::new(parts, beginning), gate, events, metrics }
    }

    /// Finds these and runs to the end.
    async fn finds(&self, items: Vec<(Item, Found)>) {
        self.keeper.recovery().listed(items);
        self.keeper.run(Vec::new).await;
    }

    fn trace(&self) -> Value {
        self.fake.stored(TRACE).unwrap_or_default()
    }

    fn told(&self) -> Vec<(String, NoteKind)> {
        let mut told = Vec::new();
        while let Some(note) = self.events.try_next() {
            told.push((note.reason.into_owned(), note.kind));
        }
        told
    }

    fn shows(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|shown| shown == line)
    }
}

fn item(name: &str) -> Item {
    Item { namespace: "docs".into(), kind: "mocc", name: name.to_owned(), uid: name.to_owned() }
}

fn open() -> Found {
    Found::Open { unresolved: false }
}

fn running() -> RunStatus {
    RunStatus::Running { started: "2026-11-29T02:00:00Z".parse().unwrap(), pod: None }
}

fn silent() -> ProviderError {
    ProviderError::Unreachable("timeout".into())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_finds_nothing_leaves_a_record_with_zeros() {
    let scene = Scene::new();
    scene.finds(vec![]).await;
    let trace = scene.trace();
    assert_eq!(
        trace["spec"],
        json!({
            "leaseName": "punctual", "epoch": 50, "holder": "r1/mine", "formerHolder": "r0/old",
            "gained": "Expired",
        })
    );
    for class in ["resumed", "reconciled", "preserved", "uncertain"] {
        assert_eq!(trace["status"][class], 0, "{class}");
    }
    assert_eq!(trace["status"]["fence"], json!({"epoch": 50, "nonce": "mine"}));
    assert_eq!(trace["status"]["completionTime"], "2026-11-29T02:00:00Z");
    assert_eq!(scene.told(), [("Recovered".to_owned(), NoteKind::Normal)]);
}

#[tokio::test(start_paused = true)]
async fn the_record_is_there_before_anything_is_listed_and_complete_when_all_is_known() {
    let scene = Scene::new();
    let recovery = scene.keeper.recovery();
    let run = scene.keeper.run(Vec::new);
    let story = async {
        sleep(Duration::from_secs(1)).await;
        assert!(scene.trace()["spec"].is_object(), "a crash from now on leaves something");
        assert!(scene.trace()["status"].is_null());
        recovery.listed(vec![
            (item("a"), open()),
            (item("b"), Found::Idle),
            (item("c"), Found::Over),
        ]);
        assert!(scene.shows("punctual_recovery_outstanding 2"));
        recovery.answered(Some("a"), &Ok(running()));
        sleep(Duration::from_secs(1)).await;
        assert!(scene.trace()["status"].is_null(), "one is not accounted for");
        recovery.left_alone(Some("b"), "ForeignFence", "m");
    };
    join(run, story).await;
    let status = &scene.trace()["status"];
    let counts = ["resumed", "reconciled", "preserved", "uncertain"].map(|c| &status[c]);
    assert_eq!(counts, [0, 1, 1, 1]);
    assert_eq!(status["items"][0]["object"], "docs/mocc/b");
    assert!(scene.shows("punctual_recovery_outstanding 0"));
    assert!(scene.shows("punctual_recovery_items{class=\"Uncertain\"} 1"));
    assert_eq!(scene.told(), [("Recovered".to_owned(), NoteKind::Warning)]);
}

#[tokio::test(start_paused = true)]
async fn a_minute_in_which_nothing_is_learnt_ends_the_wait() {
    let scene = Scene::new();
    let recovery = scene.keeper.recovery();
    recovery.listed(vec![(item("a"), open()), (item("b"), open())]);
    let began = tokio::time::Instant::now();
    let story = async {
        recovery.answered(Some("a"), &Err(silent()));
        sleep(Duration::from_secs(59)).await;
        recovery.answered(Some("b"), &Ok(running()));
        // Asked again and again, which is no progress.
        for _ in 0..12 {
            sleep(Duration::from_secs(5)).await;
            recovery.answered(Some("a"), &Err(silent()));
        }
    };
    join(scene.keeper.run(Vec::new), story).await;
    assert_eq!(began.elapsed(), Duration::from_secs(59) + PATIENCE);
    let status = &scene.trace()["status"];
    assert_eq!((&status["uncertain"], &status["reconciled"]), (&json!(1), &json!(1)));
    assert_eq!(status["items"][0]["reason"], "ProviderUnreachable");
    recovery.answered(Some("a"), &Ok(running()));
    assert!(scene.shows("punctual_recovery_items{class=\"Uncertain\"} 1"), "the record is closed");
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_looked_at_and_a_refused_one_tried_again() {
    let scene = Scene::new();
    scene.fake.fault(Method::POST, "recoverytraces", Fault::LoseRequest);
    scene.fake.fault(Method::POST, "recoverytraces", Fault::LoseResponse);
    scene.fake.fault(Method::PUT, "recoverytraces", Fault::Refuse(409, "Conflict"));
    scene.fake.fault(Method::PUT, "recoverytraces", Fault::LoseResponse);
    scene.finds(vec![]).await;
    assert_eq!(scene.trace()["status"]["preserved"], 0);
    assert_eq!(scene.fake.faults_left(), 0);
    assert!(scene.shows("punctual_recovery_traces_lost_total 0"));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_may_not_be_written_is_said_to_be_lost_at_once() {
    for method in [Method::POST, Method::PUT] {
        let scene = Scene::new();
        scene.fake.fault(method.clone(), "recoverytraces", Fault::Refuse(403, "Forbidden"));
        let began = tokio::time::Instant::now();
        scene.finds(vec![(item("a"), Found::Over)]).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "{method}: not tried again");
        assert!(scene.shows("punctual_recovery_traces_lost_total 1"), "{method}");
        let told = scene.told();
        assert!(told.contains(&("TraceNotWritten".to_owned(), NoteKind::Warning)), "{told:?}");
        assert!(told.contains(&("Recovered".to_owned(), NoteKind::Normal)), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tries_end() {
    let scene = Scene::new();
    for _ in 0..MAX_TRIES {
        scene.fake.fault(Method::POST, "recoverytraces", Fault::Refuse(503, "Unavailable"));
    }
    scene.finds(vec![]).await;
    assert_eq!(scene.fake.faults_left(), 0);
    assert!(scene.shows("punctual_recovery_traces_lost_total 1"));
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_lead_writes_nothing_and_calls_nothing_lost() {
    let scene = Scene::new();
    let recovery = scene.keeper.recovery();
    let story = async {
        sleep(Duration::from_secs(1)).await;
        scene.gate.lose();
        scene.fake.clear_log();
        recovery.listed(vec![]);
    };
    join(scene.keeper.run(Vec::new), story).await;
    let writes = scene.fake.log().into_iter().filter(|entry| entry.method != Method::GET);
    assert_eq!(writes.count(), 0);
    assert!(scene.trace()["status"].is_null(), "it stays open: its term ended before");
    assert!(scene.shows("punctual_recovery_traces_lost_total 0"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_late_with_a_renewal_writes_once_it_has_renewed() {
    let scene = Scene::new();
    let late = LeaseInstant::from_nanos(5);
    scene.keeper.parts.clock.set(late);
    let renewed = async {
        sleep(Duration::from_millis(100)).await;
        assert_eq!(scene.fake.log().len(), 0, "its validity has run out");
        scene.gate.open(&scene.keeper.beginning.term, late.after(Duration::from_secs(60)));
    };
    join(scene.finds(vec![]), renewed).await;
    assert_eq!(scene.trace()["status"]["preserved"], 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_that_name_that_is_not_the_record_is_left_alone() {
    let scene = Scene::new();
    let spec = json!({"leaseName": "punctual", "epoch": 50, "holder": "x/y", "gained": "First"});
    scene.fake.put(TRACES, json!({"metadata": {"name": "punctual-50"}, "spec": spec}));
    scene.finds(vec![]).await;
    assert!(scene.trace()["status"].is_null());
    assert!(scene.shows("punctual_recovery_traces_lost_total 1"));
}

#[tokio::test(start_paused = true)]
async fn the_last_twenty_records_of_the_lease_are_kept() {
    let scene = Scene::new();
    let put = |lease: &str, epoch: i64| {
        let spec = json!({"leaseName": lease, "epoch": epoch, "holder": "h", "gained": "First"});
        let name = format!("{lease}-{epoch}");
        scene.fake.put(TRACES, json!({"metadata": {"name": name}, "spec": spec}));
    };
    for epoch in 1..=25 {
        put("punctual", epoch);
        put("other", epoch);
    }
    put("punctual", 900); // of a newer term
    scene.finds(vec![]).await;
    let left = |lease: &str| {
        let there = |epoch: &i64| scene.fake.stored(&format!("{TRACES}/{lease}-{epoch}")).is_some();
        (1..=900).filter(there).collect::<Vec<i64>>()
    };
    let expected: Vec<i64> = (7..=25).chain([50, 900]).collect();
    assert_eq!(left("punctual"), expected);
    assert_eq!(left("other").len(), 25);
    let deletes = scene.fake.log().into_iter().filter(|entry| entry.method == Method::DELETE);
    for delete in deletes {
        assert!(delete.body["preconditions"]["uid"].is_string(), "{delete:?}");
        assert!(delete.body["preconditions"]["resourceVersion"].is_string(), "{delete:?}");
    }
}

#[test]
fn gained_says_the_same_in_the_record() {
    for (gained, word) in [
        (Gained::First, "First"),
        (Gained::Released, "Released"),
        (Gained::Expired, "Expired"),
        (Gained::LeaseDeleted, "LeaseDeleted"),
    ] {
        assert_eq!(serde_json::to_value(LeadershipGained::from(gained)).unwrap(), word);
    }
}
