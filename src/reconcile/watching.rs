//! The caches that several controllers share, and the loops that keep caches alive.

use std::sync::Arc;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt as _;
use tokio::task::JoinSet;

use super::publish;
use crate::{
    api::LABEL_PARENT_UID,
    cluster::{Cache, Change, Clients, Listener, Object, ObjectKey, Scope},
    providers::job::Sightings,
    runs::Note,
    task,
    telemetry::{EventQueue, Metrics},
};

/// Label that the Job controller puts on pods: the name of their Job.
const LABEL_JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// The Job that a pod belongs to.
pub fn job_of_pod(pod: &Pod) -> Option<&str> {
    pod.labels().get(LABEL_JOB_NAME).map(String::as_str)
}

/// Is told what happens to Jobs and pods. Called without locks held; must be quick.
pub trait RunListener: Send + Sync {
    /// A Job came, changed or went.
    fn job_changed(&self, change: &Change<'_, Job>);
    /// A pod came, changed or went.
    fn pod_changed(&self, change: &Change<'_, Pod>);
}

/// The Jobs and pods of all rooms.
pub struct RunCaches {
    jobs: Cache<Job>,
    pods: Cache<Pod>,
    sightings: Sightings,
}

impl RunCaches {
    /// Empty caches whose changes are told to all listeners.
    pub fn new(
        events: &EventQueue,
        metrics: &Arc<Metrics>,
        listeners: &[Arc<dyn RunListener>],
    ) -> Self {
        let sightings = Sightings::new();
        let jobs = Cache::new(
            |job: &Job| job.labels().get(LABEL_PARENT_UID).cloned(),
            Watching::new("Job", events, metrics, {
                let (sightings, listeners) = (sightings.clone(), listeners.to_vec());
                move |change: &Change<'_, Job>| {
                    sightings.on_job(change);
                    for listener in &listeners {
                        listener.job_changed(change);
                    }
                }
            }),
        );
        let pods = Cache::new(
            |pod: &Pod| pod.labels().get(LABEL_PARENT_UID).cloned(),
            Watching::new("Pod", events, metrics, {
                let (sightings, listeners) = (sightings.clone(), listeners.to_vec());
                move |change: &Change<'_, Pod>| {
                    sightings.on_pod(change);
                    for listener in &listeners {
                        listener.pod_changed(change);
                    }
                }
            }),
        );
        Self { jobs, pods, sightings }
    }

    /// The cache of Jobs, and what was seen of Jobs and pods: the Job provider reads them.
    pub fn seen(&self) -> (Cache<Job>, Sightings) {
        (self.jobs.clone(), self.sightings.clone())
    }

    /// Starts to follow Jobs and pods of the given namespaces.
    pub fn follow(&self, watches: &mut JoinSet<()>, clients: &Clients, all: &Scope) {
        let runs = Scope { labels: Some(LABEL_PARENT_UID.to_owned()), ..all.clone() };
        follow(watches, &self.jobs, clients, &runs);
        follow(watches, &self.pods, clients, &runs);
    }

    /// Waits until both kinds have been listed once.
    pub async fn wait_ready(&self) {
        self.jobs.wait_ready().await;
        self.pods.wait_ready().await;
    }
}

/// Keeps a cache alive until the set is dropped.
pub fn follow<K: Object>(
    watches: &mut JoinSet<()>,
    cache: &Cache<K>,
    clients: &Clients,
    scope: &Scope,
) {
    let (cache, clients, scope) = (cache.clone(), clients.clone(), scope.clone());
    task::spawn_in(watches, async move { cache.run(&clients, &scope).await });
}

/// A cache's listener: one closure for changes, one place for faults.
pub struct Watching<F> {
    kind: &'static str,
    events: EventQueue,
    metrics: Arc<Metrics>,
    changed: F,
}

impl<F> Watching<F> {
    /// Tells `changed` what changes, and people what is wrong.
    pub fn new(
        kind: &'static str,
        events: &EventQueue,
        metrics: &Arc<Metrics>,
        changed: F,
    ) -> Self {
        Self { kind, events: events.clone(), metrics: Arc::clone(metrics), changed }
    }
}

impl<K, F: Fn(&Change<'_, K>) + Send + Sync> Listener<K> for Watching<F> {
    fn changed(&self, change: &Change<'_, K>) {
        (self.changed)(change);
    }

    fn unreadable(&self, key: &ObjectKey, error: &str) {
        let text = format!("this object cannot be read and is left alone: {error}");
        publish(&self.events, self.kind, key, None, &Note::warning("Unreadable", text));
    }

    fn watch_failed(&self, error: &str) {
        self.metrics.watch_error(self.kind);
        tracing::warn!(kind = self.kind, error, "watch broke; it is taken up again");
    }
}
