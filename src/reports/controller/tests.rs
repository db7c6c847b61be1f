//! Single passes against a small API server, with caches that hold what each test puts into them.

mod gone;
mod late;
mod schedule;
mod takeover;
mod waiting;

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::{
    cluster::fake::FakeApi,
    providers::{Prepared, ProviderError, RunRequest, RunStatus, simulated::SimulatedService},
    reconcile::{Census, scene::Leader},
};

const QUEUES: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/reportqueues";
const QUEUE: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/reportqueues/q";
const SCHEDULES: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/reportschedules";
const JOBS: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/reportjobs";

/// A service that says of each run what the test wants; of others it knows nothing.
#[derive(Default)]
struct Scripted {
    answers: Mutex<BTreeMap<String, RunStatus>>,
    asked: Mutex<Vec<String>>,
}

impl SimulatedService for Scripted {
    fn prepare(&self, request: &RunRequest) -> Result<Prepared, ProviderError> {
        Ok(Prepared::Ready { handle: handle(&request.run_key) })
    }

    fn find(&self, run_key: &str) -> Result<Option<String>, ProviderError> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(handle(run_key)).filter(|handle| answers.contains_key(handle)))
    }

    fn release(&self, _: &str) -> Result<(), ProviderError> {
        Ok(())
    }

    fn status(&self, handle: &str) -> Result<Option<RunStatus>, ProviderError> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(handle.to_owned());
        Ok(self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(handle).cloned())
    }

    fn cancel(&self, _: &str) -> Result<(), ProviderError> {
        Ok(())
    }
}

fn handle(run_key: &str) -> String {
    format!("simulated/{run_key}")
}

/// A leader in term 50 at 02:00:05.
struct Scene {
    fake: FakeApi,
    controller: Controller,
    runs: Arc<Scripted>,
    leader: Leader,
}

impl Scene {
    fn new() -> Self {
        let runs = Arc::new(Scripted::default());
        let (leader, wiring) = Leader::new(Some(runs.clone()), |events, metrics| {
            let wiring = Wiring::new(events, metrics, &Census::new(metrics));
            let listener = wiring.listener();
            (wiring, listener)
        });
        let controller = wiring.controller(&leader.deps);
        Self { fake: leader.fake.clone(), controller, runs, leader }
    }

    /// Stores a queue with two slots and this status, and lets the controller know.
    fn put_queue(&self, status: &Value) {
        let object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
            "metadata": {"name": "q"}, "spec": {"slots": 2}, "status": status,
        });
        self.fake.put(QUEUES, object);
        self.controller.queues.observe(self.read(QUEUE));
    }

    /// Stores a job and lets the controller know. Gives its uid.
    fn put_job(&self, name: &str, status: &Value) -> String {
        let object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
            "metadata": {"name": name, "creationTimestamp": "2026-11-29T02:00:00Z"},
            "spec": {"queueName": "q", "tenant": "acme", "run": {"simulated": {}}},
            "status": status,
        });
        let uid = self.fake.put(JOBS, object)["metadata"]["uid"].clone();
        self.observe_job(name);
        uid.as_str().unwrap().to_owned()
    }

    /// The controller hears of the newest version of a job.
    fn observe_job(&self, name: &str) {
        self.controller.jobs.observe(self.read(&format!("{JOBS}/{name}")));
    }

    fn read<K: DeserializeOwned>(&self, path: &str) -> K {
        serde_json::from_value(self.fake.stored(path).unwrap()).unwrap()
    }

    /// Some time goes by.
    fn later(&self, seconds: i64) {
        let wall = &self.controller.deps.wall;
        wall.set(wall.now() + jiff::SignedDuration::from_secs(seconds));
    }

    /// The provider says this of a run from now on.
    fn says(&self, run_key: &str, status: RunStatus) {
        self.runs.answers.lock().unwrap().insert(handle(run_key), status);
    }

    /// What was told since the last time.
    fn told(&self) -> Vec<String> {
        let events = &self.controller.deps.events;
        std::iter::from_fn(|| events.try_next()).map(|note| note.reason.into_owned()).collect()
    }

    /// What is to be looked at, which is forgotten with this.
    async fn woken(&self) -> Vec<Key> {
        let mut woken = Vec::new();
        while !self.controller.queue.is_empty() {
            let key = self.controller.queue.next().await.unwrap();
            self.controller.queue.done(&key);
            woken.push(key);
        }
        woken
    }

    async fn pass_queue(&self) -> Value {
        Box::pin(self.controller.pass_queue(&ObjectKey::new("docs", "q"))).await.unwrap();
        self.fake.stored(QUEUE).unwrap()["status"].clone()
    }

    async fn pass_job(&self, name: &str) -> Value {
        Box::pin(self.controller.pass_job(&ObjectKey::new("docs", name))).await.unwrap();
        self.fake.stored(&format!("{JOBS}/{name}")).unwrap()["status"].clone()
    }
}

/// A status with one attempt that an earlier term committed and released.
fn running() -> Value {
    json!({
        "state": "Running", "reason": "Running", "run": {"simulated": {}},
        "fence": {"epoch": 49, "nonce": "theirs"}, "attempt": 1,
        "attempts": [{
            "number": 1, "runKey": "k-r1", "epoch": 49, "handle": handle("k-r1"),
            "preparedTime": "2026-11-29T01:59:00Z", "startTime": "2026-11-29T01:59:01Z",
        }],
    })
}

/// Of which jobs a queue's ledger has entries.
fn admitted(queue: &Value) -> Vec<&str> {
    let entries = queue["ledger"]["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["job"].as_str().unwrap()).collect()
}
