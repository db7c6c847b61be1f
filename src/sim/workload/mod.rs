//! The cluster around the operator: Job controller, scheduler, nodes and garbage collection, as far as
//! runs depend on them, with the behaviours that were measured on a real cluster.
//!
//! * The Job controller works from a view that is a little old: it creates the pod of a released Job
//!   although that Job is gone or suspended by then, and records `startTime` after that.
//! * A Job that is suspended while it runs loses its pod, and its controller forgets that there was
//!   one; released again it gets another.
//! * Pods carry a finalizer until their Job has counted them.
//! * A node that is lost says nothing: its containers may run on. A Node that is removed takes its pods
//!   with it, and the containers may run on all the same.
//!
//! Everything is done by one task, in order of virtual time; each step is put off by a small time of
//! the seed's choice. [`Execution`]s are the ground truth: what containers really did.

mod garbage;
mod jobs;
mod pods;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::Notify, time::sleep_until};

use super::{
    Commit, Key, Kind, RunChange, RunEvent, Verb,
    api::{Deletion, Model, Propagation, Request},
    provider::Provider,
    rng::Rng,
    world::Time,
};

/// Who writes Jobs' status and creates pods.
const JOB_CONTROLLER: &str = "job-controller";
/// Who binds pods and reports what containers do.
const NODE: &str = "node";
/// Who deletes what has no owner, or no node.
const COLLECTOR: &str = "garbage-collector";

/// Finalizer of pods that their Job has not counted yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Label and selector of the pods of a Job.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// How long a component needs to notice and to act, in milliseconds.
const SOON_MS: (u64, u64) = (5, 150);
/// How long garbage lies about.
const GARBAGE_MS: (u64, u64) = (100, 2000);
/// How long a node may be silent before it counts as lost: the node controller's default.
const NODE_GRACE: Duration = Duration::from_secs(40);
/// How long pods stay on a lost node before they are evicted: the default toleration.
const EVICTION: Duration = Duration::from_secs(300);

/// Nodes of a world.
pub const NODES: [&str; 2] = ["node-a", "node-b"];

/// What a container really did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Namespace of its Job.
    pub namespace: String,
    /// Name of its Job: that of the attempt.
    pub job: String,
    /// Uid of its Job: the handle.
    pub job_uid: String,
    /// Uid of its pod.
    pub pod_uid: String,
    /// Its node.
    pub node: String,
    /// When it started, in virtual time.
    pub started: Duration,
    /// When it ended, and with which exit code; nobody need have seen it.
    pub ended: Option<(Duration, i32)>,
    /// The object that its Job belongs to, its uid, and the run key.
    parent: (Key, String, String),
    /// What it leaves as its termination message.
    message: String,
}

type Hears = Box<dyn FnMut(&RunEvent) + Send>;

/// The cluster; clones share it.
#[derive(Clone)]
pub struct Workload(Arc<Inner>);

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload").finish_non_exhaustive()
    }
}

struct Inner {
    model: Model,
    provider: Provider,
    time: Time,
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    rng: Rng,
    agenda: BTreeMap<(Duration, u64), Step>,
    steps: u64,
    /// Nodes whose kubelet works.
    alive: BTreeSet<String>,
    executions: Vec<Execution>,
    /// Jobs for which a pod is about to be created, by uid.
    creating: BTreeSet<String>,
    /// Until when the Job controller does nothing.
    away_until: Duration,
    counts: BTreeMap<String, u64>,
    hears: Vec<Hears>,
}

impl State {
    /// A container ends, if it still runs; gives its index.
    fn end(&mut self, now: Duration, index: usize, code: i32) {
        let Some(execution) = self.executions.get_mut(index).filter(|e| e.ended.is_none()) else {
            return;
        };
        execution.ended = Some((now, code));
        let outcome = format!("exit {code}");
        self.tell(now, index, RunChange::Ended { outcome });
    }

    fn tell(&mut self, at: Duration, index: usize, what: RunChange) {
        let Some(execution) = self.executions.get(index) else { return };
        let (parent, parent_uid, run_key) = execution.parent.clone();
        let handle = execution.job_uid.clone();
        let event = RunEvent { at, parent, parent_uid, run_key, handle, what };
        self.hears.iter_mut().for_each(|hear| hear(&event));
    }
}

/// What somebody does next.
#[derive(Clone, Debug)]
enum Step {
    /// The Job controller looks at a Job.
    Job(Key),
    /// The Job controller creates a pod, from the Job as it saw it.
    CreatePod(Arc<Value>),
    /// Scheduler, kubelet and Job controller look at a pod.
    Pod(Key),
    /// A container has done its work, with this exit code.
    ContainerEnds { pod_uid: String, pod: Key, code: i32 },
    /// A kubelet finds a container whose pod is gone.
    KillContainer { pod_uid: String },
    /// The garbage collector looks at an object whose owner may be gone.
    Collect(Key),
    /// The garbage collector looks at an object that waits for what it owns.
    Dependents(Key),
    /// The node controller finds a node silent.
    NodeSilent { node: String },
    /// The pods of a lost node are evicted.
    EvictFrom { node: String },
}

impl Workload {
    /// A cluster with two ready nodes that works from now on.
    pub fn new(model: Model, provider: Provider, time: Time, rng: Rng) -> Self {
        let state = State {
            rng,
            agenda: BTreeMap::new(),
            steps: 0,
            alive: BTreeSet::new(),
            executions: Vec::new(),
            creating: BTreeSet::new(),
            away_until: Duration::ZERO,
            counts: BTreeMap::new(),
            hears: Vec::new(),
        };
        let this = Self(Arc::new(Inner {
            model,
            provider,
            time,
            state: Mutex::new(state),
            wake: Notify::new(),
        }));
        for node in NODES {
            this.return_node(node);
        }
        let hears = Arc::downgrade(&this.0);
        this.0.model.on_commit(Box::new(move |commit| {
            if let Some(inner) = hears.upgrade() {
                inner.committed(commit);
            }
        }));
        tokio::spawn(Arc::clone(&this.0).work());
        this
    }

    /// What containers did so far, in the order in which they started.
    pub fn executions(&self) -> Vec<Execution> {
        self.0.state().executions.clone()
    }

    /// Is told when containers start and end, in order.
    pub fn on_event(&self, hear: impl FnMut(&RunEvent) + Send + 'static) {
        self.0.state().hears.push(Box::new(hear));
    }

    /// How often what happened.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.0.state().counts.clone()
    }

    /// A node falls silent. Its containers run on, or die with it.
    pub fn lose_node(&self, node: &str, containers_die: bool) {
        let now = self.0.time.elapsed();
        {
            let mut state = self.0.state();
            if !state.alive.remove(node) {
                return;
            }
            if containers_die {
                for index in 0..state.executions.len() {
                    if state.executions[index].node == node {
                        state.end(now, index, KILLED);
                    }
                }
            }
        }
        let name = if containers_die { "node crashed" } else { "node lost" };
        self.0.count(name);
        self.0.later(NODE_GRACE, Step::NodeSilent { node: node.to_owned() });
        self.0.later(NODE_GRACE + EVICTION, Step::EvictFrom { node: node.to_owned() });
    }

    /// The Node object is deleted, as a cloud controller does; what the machine does nobody knows.
    pub fn remove_node(&self, node: &str) {
        self.0.state().alive.remove(node);
        let key = Key::new(Kind::Node, "", node);
        if self.0.write(COLLECTOR, Request::delete(&key, Deletion::default())) {
            self.0.count("node removed");
            for pod in self.0.pods_on(node) {
                self.0.soon(Step::Pod(pod));
            }
        }
    }

    /// The node works, again or for the first time. A Node that was removed is another one then.
    pub fn return_node(&self, node: &str) {
        self.0.state().alive.insert(node.to_owned());
        let key = Key::new(Kind::Node, "", node);
        if self.0.model.get(&key).is_none() {
            let node = json!({"metadata": {"name": node}});
            self.0.write(NODE, Request::create(Kind::Node, "", node));
        }
        self.0.node_condition(node, "True", "KubeletReady");
        for pod in self.0.pods_on(node) {
            self.0.soon(Step::Pod(pod));
        }
        self.0.kill_strays(node);
    }

    /// The pods of a Job are evicted: told to end, and their Job fails by its policy.
    pub fn evict(&self, namespace: &str, job: &str) {
        for key in self.0.pods_named(namespace, job) {
            self.0.disrupt(&key, "EvictionByEvictionAPI");
            self.0.write(COLLECTOR, Request::delete(&key, Deletion::default()));
            self.0.count("pod evicted");
        }
    }

    /// The pods of a Job vanish without a trace, behind everybody's back.
    pub fn vanish(&self, namespace: &str, job: &str) {
        for key in self.0.pods_named(namespace, job) {
            self.0
                .write(COLLECTOR, Request::patch(&key, json!({"metadata": {"finalizers": null}})));
            self.0.force_delete(&key);
            self.0.count("pod vanished");
        }
    }

    /// Somebody deletes a Job and leaves its pods behind.
    pub fn orphan(&self, namespace: &str, job: &str) {
        let key = Key::new(Kind::Job, namespace, job);
        let how = Deletion { propagation: Some(Propagation::Orphan), ..Deletion::default() };
        if self.0.write("person", Request::delete(&key, how)) {
            self.0.count("pods orphaned");
        }
    }

    /// The Job controller makes a second pod of a Job.
    pub fn second_pod(&self, namespace: &str, job: &str) {
        let key = Key::new(Kind::Job, namespace, job);
        if let Some(job) = self.0.model.get(&key) {
            self.0.count("second pod");
            self.0.soon(Step::CreatePod(job));
        }
    }

    /// The finished pods of a Job are collected, as when there are too many in the cluster.
    pub fn collect_finished(&self, namespace: &str, job: &str) {
        for key in self.0.pods_named(namespace, job) {
            if self.0.model.get(&key).is_some_and(|pod| is_terminal(&pod)) {
                self.0.write(COLLECTOR, Request::delete(&key, Deletion::default()));
                self.0.count("pod collected");
            }
        }
    }

    /// Somebody suspends a Job, or lets it go on.
    pub fn suspend(&self, namespace: &str, job: &str, suspend: bool) {
        let key = Key::new(Kind::Job, namespace, job);
        let patch = json!({"spec": {"suspend": suspend}});
        if self.0.write("person", Request::patch(&key, patch)) {
            self.0.count(if suspend { "Job suspended by others" } else { "Job resumed by others" });
        }
    }
}

/// Exit code of a container that was killed.
const KILLED: i32 = 137;

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, what: &str) {
        *self.state().counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Carries a write out; whether it was accepted. Controllers look again after a refusal anyway.
    fn write(&self, by: &str, request: Request) -> bool {
        self.model.write(by, request).is_ok()
    }

    fn force_delete(&self, key: &Key) {
        let how = Deletion {
            grace_seconds: Some(0),
            propagation: Some(Propagation::Background),
            ..Deletion::default()
        };
        self.write(COLLECTOR, Request::delete(key, how));
    }

    /// Puts a step off by exactly so much.
    fn later(&self, after: Duration, step: Step) {
        let at = self.time.elapsed() + after;
        let mut state = self.state();
        state.steps += 1;
        let number = state.steps;
        state.agenda.insert((at, number), step);
        drop(state);
        self.wake.notify_one();
    }

    /// Puts a step off by what a component needs.
    fn soon(&self, step: Step) {
        let after = self.state().rng.of(SOON_MS.0..=SOON_MS.1);
        self.later(Duration::from_millis(after), step);
    }

    fn as_garbage(&self, step: Step) {
        let after = self.state().rng.of(GARBAGE_MS.0..=GARBAGE_MS.1);
        self.later(Duration::from_millis(after), step);
    }

    /// Whoever is concerned by a commit looks at it soon.
    fn committed(&self, commit: &Commit) {
        let key = commit.key.clone();
        let gone = commit.verb == Verb::Delete;
        match commit.key.kind {
            Kind::Job | Kind::MaintenanceOccurrence | Kind::ReportJob if gone => {
                self.owner_gone(commit.old.as_deref());
            }
            Kind::Job => {
                self.soon(Step::Job(key.clone()));
                if let Some(uid) = commit.new.as_deref().and_then(uid_of) {
                    for pod in self.pods_of(uid) {
                        self.soon(Step::Pod(pod));
                    }
                }
                self.dependents(&key, commit.new.as_deref());
            }
            Kind::Pod => {
                if !gone {
                    self.soon(Step::Pod(key.clone()));
                    if commit.verb == Verb::Create {
                        self.as_garbage(Step::Collect(key.clone())); // its Job may be gone by now
                    }
                } else if let Some(uid) = commit.old.as_deref().and_then(uid_of) {
                    self.soon(Step::KillContainer { pod_uid: uid.to_owned() });
                }
                let pod = commit.new.as_deref().or(commit.old.as_deref());
                if let Some(name) = pod.and_then(job_name_of) {
                    let job = Key::new(Kind::Job, &*key.namespace, name);
                    self.soon(Step::Job(job.clone()));
                    self.soon(Step::Dependents(job));
                }
            }
            Kind::MaintenanceOccurrence | Kind::ReportJob => {
                self.dependents(&key, commit.new.as_deref());
            }
            _ => {}
        }
    }

    async fn work(self: Arc<Self>) {
        loop {
            let next = self.state().agenda.keys().next().map(|(at, _)| *at);
            let wait = async {
                match next {
                    Some(at) => sleep_until(self.time.at(at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = wait => {}
            }
            while let Some(step) = self.due() {
                self.carry_out(step);
            }
        }
    }

    fn due(&self) -> Option<Step> {
        let now = self.time.elapsed();
        let mut state = self.state();
        let first = state.agenda.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }

    fn carry_out(&self, step: Step) {
        match step {
            Step::Job(key) => self.look_at_job(&key),
            Step::CreatePod(job) => self.create_pod(&job),
            Step::Pod(key) => self.look_at_pod(&key),
            Step::ContainerEnds { pod_uid, pod, code } => self.container_ends(&pod_uid, &pod, code),
            Step::KillContainer { pod_uid } => self.kill_stray(&pod_uid),
            Step::Collect(key) => self.collect(&key),
            Step::Dependents(key) => self.look_at_dependents(&key),
            Step::NodeSilent { node } => self.node_silent(&node),
            Step::EvictFrom { node } => self.evict_from(&node),
        }
    }

    /// Keys of the pods for which something holds, in order.
    fn pods_where(&self, holds: impl Fn(&Value) -> bool) -> Vec<Key> {
        let pods = self.model.list(Kind::Pod);
        pods.iter().filter(|pod| holds(pod)).map(|pod| key_of(Kind::Pod, pod)).collect()
    }

    fn pods_of(&self, job_uid: &str) -> Vec<Key> {
        self.pods_where(|pod| pod["metadata"]["labels"][CONTROLLER_UID] == job_uid)
    }

    fn pods_named(&self, namespace: &str, job: &str) -> Vec<Key> {
        self.pods_where(|pod| {
            job_name_of(pod) == Some(job) && pod["metadata"]["namespace"] == namespace
        })
    }

    fn pods_on(&self, node: &str) -> Vec<Key> {
        self.pods_where(|pod| pod["spec"]["nodeName"] == node)
    }
}

fn key_of(kind: Kind, object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    Key::new(kind, text("namespace"), text("name"))
}

fn uid_of(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

fn job_name_of(pod: &Value) -> Option<&str> {
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"].as_str()
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn is_terminal(pod: &Value) -> bool {
    ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
}

fn has_finalizer(object: &Value, name: &str) -> bool {
    let names = object["metadata"]["finalizers"].as_array();
    names.is_some_and(|names| names.iter().any(|known| known == name))
}

/// The finalizers without one.
fn without_finalizer(object: &Value, name: &str) -> Value {
    let names = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    let left: Vec<Value> = names.filter(|known| *known != name).cloned().collect();
    if left.is_empty() { Value::Null } else { left.into() }
}
