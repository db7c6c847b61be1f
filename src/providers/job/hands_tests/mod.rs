use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{ActionClass, Fence, LABEL_PARENT_UID, MaintenanceOccurrence, PodRef},
    authority::{Fenced as _, Gate, Term},
    cluster::{
        Clients, NoObserver,
        fake::{FakeApi, Fault, Logged},
    },
    providers::{Orphan, Orphans, RunStatus, job::fixtures::merged},
    time::LeaseInstant,
    yaml,
};

mod look;
mod prepare;
mod stopping;

const JOBS: &str = "/apis/batch/v1/namespaces/docs/jobs";
const JOB: &str = "/apis/batch/v1/namespaces/docs/jobs/nightly-202611290200-m1";
const PODS: &str = "/api/v1/namespaces/docs/pods";
const POD: &str = "/api/v1/namespaces/docs/pods/p1";
const NODES: &str = "/api/v1/nodes";
const NODE: &str = "/api/v1/nodes/n1";
const TEMPLATE: &str = "{spec: {containers: [{name: main, image: x, newField: 1}]}}";
const AT: &str = "2026-11-29T02:00:05Z";

struct Scene {
    fake: FakeApi,
    gate: Gate,
    clock: LeaseClock,
    provider: JobProvider,
    request: RunRequest,
}

/// A leader in term 7, and nothing in the cluster but Node `n1`, Ready.
fn scene() -> Scene {
    let fake = FakeApi::new();
    let clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
    let gate = Gate::new(LeaseClock::driven(LeaseInstant::from_nanos(0)));
    gate.open(&Term { epoch: 7, nonce: "n7".into() }, LeaseInstant::from_nanos(1));
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    fake.put(NODES, json!({"metadata": {"name": "n1"}, "status": ready}));
    let request = fixtures::request(TEMPLATE);
    let provider = provider(&fake, &clock);
    Scene { fake, gate, clock, provider, request }
}

fn provider(fake: &FakeApi, clock: &LeaseClock) -> JobProvider {
    let clients = Clients::single(fake.client());
    let sightings = Sightings::new();
    let feed = sightings.clone();
    let jobs = Cache::new(
        |job: &Job| job.metadata.labels.as_ref()?.get(LABEL_PARENT_UID).cloned(),
        move |change: &Change<'_, Job>| feed.on_job(change),
    );
    let writer = Arc::new(clients.writer(NoObserver));
    JobProvider::new(clients.reader(), writer, jobs, sightings, clock.clone())
}

impl Scene {
    fn permit(&self) -> Permit {
        self.gate.permit().unwrap()
    }

    fn parent(&self) -> Sealed<MaintenanceOccurrence> {
        let mut parent: MaintenanceOccurrence = yaml::from_str(
            "{metadata: {name: nightly-202611290200}, spec: {scheduleName: nightly, \
             intendedTime: '2026-11-29T02:00:00Z'}}",
        )
        .unwrap();
        parent.set_fence(Fence { epoch: 7, nonce: "n7".into() });
        Sealed::of(&self.permit(), parent).unwrap()
    }

    async fn prepare(&self) -> Result<Prepared, ProviderError> {
        self.provider.prepare(&self.parent(), &self.request).await
    }

    async fn prepared(&self) -> Committed {
        match self.prepare().await.unwrap() {
            Prepared::Ready { handle } => {
                Committed { handle: Some(handle), ..Committed::default() }
            }
            other => panic!("{other:?}"),
        }
    }

    async fn release(&self, committed: &Committed) -> Result<(), ProviderError> {
        let handle = committed.handle.as_deref().unwrap();
        self.provider.release(&self.parent(), &self.request, handle).await
    }

    async fn status(&self, committed: &Committed) -> RunStatus {
        self.provider.status(&self.request, committed).await.unwrap()
    }

    async fn cancel(&self, committed: &Committed) -> Result<CancelStep, ProviderError> {
        self.provider.cancel(&self.permit(), &self.request, committed, false).await
    }

    async fn stop_orphans(&self, class: ActionClass, attempts: Option<Vec<Committed>>) -> Orphans {
        let orphan = Orphan {
            namespace: "docs".into(),
            parent_uid: "parent-1".into(),
            class,
            attempts,
            http: None,
            run_key: None,
        };
        self.provider.stop_orphans(&self.permit(), &orphan).await.unwrap()
    }

    /// Changes the stored Job as its controller or a person does; the watch shows it.
    fn edit_job(&self, change: &str) {
        let change: Value = yaml::from_str(change).unwrap();
        self.fake.edit(JOB, |job| *job = merged(job.take(), change));
        self.watch_job();
    }

    fn watch_job(&self) {
        let job = serde_json::from_value(self.fake.stored(JOB).unwrap()).unwrap();
        self.provider.jobs.observe(job);
    }

    /// The Job controller creates the pod; the watch shows it.
    fn put_pod(&self, committed: &Committed, yaml: &str) {
        let labels = json!({
            "punctual.dev/parent-uid": "parent-1",
            LABEL_CONTROLLER_UID: committed.handle.as_deref().unwrap(),
        });
        let base = json!({
            "metadata": {"name": "p1", "labels": labels},
            "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        });
        self.fake.put(PODS, merged(base, yaml::from_str(yaml).unwrap()));
        self.provider.sightings.pod_changed(None, Some(&self.pod()), true);
    }

    fn pod(&self) -> Pod {
        serde_json::from_value(self.fake.stored(POD).unwrap()).unwrap()
    }

    /// The pod goes; the watch shows it.
    fn remove_pod(&self) {
        let last = self.pod();
        self.fake.remove(POD);
        self.provider.sightings.pod_changed(Some(&last), None, true);
    }

    fn wait(&self, seconds: u64) {
        self.clock.set(self.clock.now().after(Duration::from_secs(seconds)));
    }

    /// Requests since the last call, without their bodies.
    fn requests(&self) -> Vec<String> {
        let log = self.logged();
        log.iter().map(|entry| format!("{} {}", entry.method, entry.path)).collect()
    }

    fn logged(&self) -> Vec<Logged> {
        let log = self.fake.log();
        self.fake.clear_log();
        log
    }
}

fn status(state: &str) -> String {
    format!(
        "status: {{phase: Running, containerStatuses: [{{name: main, ready: true, restartCount: 0, \
         image: x, imageID: x, state: {state}}}]}}"
    )
}

fn running() -> String {
    format!("{{{}}}", status(&format!("{{running: {{startedAt: '{AT}'}}}}")))
}

fn begun(more: &str) -> String {
    format!("{{status: {{startTime: '{AT}', active: 1{more}}}}}")
}

fn stopping(committed: &Committed) -> Committed {
    Committed { stop_requested: Some(AT.parse().unwrap()), ..committed.clone() }
}

fn assert_exact_deletion(entry: &Logged, stored: &Value, propagation: &str) {
    assert_eq!(entry.method, Method::DELETE);
    assert_eq!(entry.body["propagationPolicy"], propagation);
    assert_eq!(
        entry.body["preconditions"],
        json!({
            "uid": stored["metadata"]["uid"],
            "resourceVersion": stored["metadata"]["resourceVersion"],
        })
    );
}
