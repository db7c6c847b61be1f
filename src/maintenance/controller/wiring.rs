//! Which change of which object makes which key due, and the loops that keep the caches alive.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt as _;
use tokio::task::JoinSet;

use super::{
    Controller, Deps, Key, Memory, backoff, census::Census, lock, occurrence::orphan_key,
    schedule::index_key,
};
use crate::{
    api::{LABEL_PARENT_UID, MaintenanceOccurrence, MaintenanceSchedule},
    cluster::{Cache, Change, Clients, Listener, Object, ObjectKey, Queue, Scope},
    identity::occurrence_name,
    maintenance::{Note, schedule::is_terminal},
    providers::job::{Sightings, digest::JobDigest},
    task,
    telemetry::{EventQueue, Metrics},
};

/// Label that the Job controller puts on pods: the name of their Job.
const LABEL_JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// The caches and the queue, before there is a controller: providers are built from them.
pub struct Wiring {
    schedules: Cache<MaintenanceSchedule>,
    occurrences: Cache<MaintenanceOccurrence>,
    jobs: Cache<Job>,
    pods: Cache<Pod>,
    queue: Queue<Key>,
    sightings: Sightings,
    census: Census,
    memory: Arc<Mutex<Memory>>,
}

impl Wiring {
    /// Empty caches whose changes make keys due.
    pub fn new(events: &EventQueue, metrics: &Arc<Metrics>) -> Self {
        let queue = Queue::new();
        let sightings = Sightings::new();
        let memory: Arc<Mutex<Memory>> = Arc::default();
        let census = Census::new(Arc::clone(metrics));
        let watching = |kind| (kind, events.clone(), Arc::clone(metrics));
        let schedules = Cache::new(
            |_: &MaintenanceSchedule| None,
            Watching::new(watching("MaintenanceSchedule"), {
                let (queue, census) = (queue.clone(), census.clone());
                move |change: &Change<'_, MaintenanceSchedule>| {
                    census.schedule(change);
                    schedule_changed(&queue, change);
                }
            }),
        );
        let occurrences = Cache::new(
            |o: &MaintenanceOccurrence| Some(index_key(&schedule_key(o))),
            Watching::new(watching("MaintenanceOccurrence"), {
                let (queue, memory) = (queue.clone(), Arc::clone(&memory));
                let census = census.clone();
                move |change: &Change<'_, MaintenanceOccurrence>| {
                    census.occurrence(change);
                    occurrence_changed(&queue, &memory, change);
                }
            }),
        );
        let jobs = Cache::new(
            |job: &Job| job.labels().get(LABEL_PARENT_UID).cloned(),
            Watching::new(watching("Job"), {
                let (queue, occurrences, sightings) =
                    (queue.clone(), occurrences.clone(), sightings.clone());
                move |change: &Change<'_, Job>| {
                    sightings.on_job(change);
                    job_changed(&queue, &occurrences, change);
                }
            }),
        );
        let pods = Cache::new(
            |pod: &Pod| pod.labels().get(LABEL_PARENT_UID).cloned(),
            Watching::new(watching("Pod"), {
                let (queue, sightings) = (queue.clone(), sightings.clone());
                move |change: &Change<'_, Pod>| {
                    sightings.on_pod(change);
                    pod_changed(&queue, change);
                }
            }),
        );
        Self { schedules, occurrences, jobs, pods, queue, sightings, census, memory }
    }

    /// The cache of Jobs, and what was seen of Jobs and pods: the Job provider reads them.
    pub fn runs(&self) -> (Cache<Job>, Sightings) {
        (self.jobs.clone(), self.sightings.clone())
    }

    /// The controller over these caches.
    pub fn controller(&self, deps: Deps) -> Controller {
        Controller {
            deps: Arc::new(deps),
            schedules: self.schedules.clone(),
            occurrences: self.occurrences.clone(),
            queue: self.queue.clone(),
            census: self.census.clone(),
            backoff: backoff(),
            memory: Arc::clone(&self.memory),
            working: Arc::default(),
        }
    }

    /// Starts to follow all kinds in the given namespaces (none: all). The watches end when the set
    /// is dropped.
    pub fn follow(&self, clients: &Clients, namespaces: &[String]) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        let all = Scope { namespaces: namespaces.iter().cloned().collect(), labels: None };
        let runs = Scope { labels: Some(LABEL_PARENT_UID.to_owned()), ..all.clone() };
        follow(&mut watches, &self.schedules, clients, &all);
        follow(&mut watches, &self.occurrences, clients, &all);
        follow(&mut watches, &self.jobs, clients, &runs);
        follow(&mut watches, &self.pods, clients, &runs);
        watches
    }

    /// Waits until all kinds have been listed once.
    pub async fn wait_ready(&self) {
        self.schedules.wait_ready().await;
        self.occurrences.wait_ready().await;
        self.jobs.wait_ready().await;
        self.pods.wait_ready().await;
    }

    /// The kinds that have not been listed yet.
    pub fn missing(&self) -> Vec<&'static str> {
        let ready = [
            ("MaintenanceSchedule", self.schedules.is_ready()),
            ("MaintenanceOccurrence", self.occurrences.is_ready()),
            ("Job", self.jobs.is_ready()),
            ("Pod", self.pods.is_ready()),
        ];
        ready.into_iter().filter(|(_, ready)| !ready).map(|(kind, _)| kind).collect()
    }
}

fn follow<K: Object>(
    watches: &mut JoinSet<()>,
    cache: &Cache<K>,
    clients: &Clients,
    scope: &Scope,
) {
    let (cache, clients, scope) = (cache.clone(), clients.clone(), scope.clone());
    task::spawn_in(watches, async move { cache.run(&clients, &scope).await });
}

/// A cache's listener: one closure for changes, one place for faults.
struct Watching<F> {
    kind: &'static str,
    events: EventQueue,
    metrics: Arc<Metrics>,
    changed: F,
}

impl<F> Watching<F> {
    fn new((kind, events, metrics): (&'static str, EventQueue, Arc<Metrics>), changed: F) -> Self {
        Self { kind, events, metrics, changed }
    }
}

impl<K, F: Fn(&Change<'_, K>) + Send + Sync> Listener<K> for Watching<F> {
    fn changed(&self, change: &Change<'_, K>) {
        (self.changed)(change);
    }

    fn unreadable(&self, key: &ObjectKey, error: &str) {
        let note = Note::warning(
            "Unreadable",
            format!("this object cannot be read and is left alone: {error}"),
        );
        super::report::publish(&self.events, self.kind, key, None, &note);
    }

    fn watch_failed(&self, error: &str) {
        self.metrics.watch_error(self.kind);
        tracing::warn!(kind = self.kind, error, "watch broke; it is taken up again");
    }
}

fn schedule_key(occurrence: &MaintenanceOccurrence) -> ObjectKey {
    ObjectKey::new(occurrence.namespace().unwrap_or_default(), &occurrence.spec.schedule_name)
}

fn schedule_changed(queue: &Queue<Key>, change: &Change<'_, MaintenanceSchedule>) {
    queue.add(Key::Schedule(change.key.clone()));
    let claims = |schedule: Option<&MaintenanceSchedule>| {
        let status = schedule.and_then(|schedule| schedule.status.as_ref());
        status.map(|status| status.claimed.clone()).unwrap_or_default()
    };
    let (old, new) = (claims(change.old), claims(change.new));
    // A claim is what lets an occurrence start. Whoever wrote it may not have learnt that it was
    // written, so what counts is that it is there.
    for claim in new.into_iter().filter(|claim| !old.contains(claim)) {
        let name = occurrence_name(&change.key.name, claim.time);
        queue.add(Key::Occurrence(ObjectKey::new(&change.key.namespace, name)));
    }
}

fn occurrence_changed(
    queue: &Queue<Key>,
    memory: &Mutex<Memory>,
    change: &Change<'_, MaintenanceOccurrence>,
) {
    let over_before = change.old.is_some_and(is_terminal);
    match change.new {
        Some(new) => {
            let over = is_terminal(new);
            queue.add(Key::Occurrence(change.key.clone()));
            // The schedule drops the claim of what is over, and gives one to what was made by hand.
            if (over && !over_before) || (!over && new.spec.schedule_uid.is_none()) {
                queue.add(Key::Schedule(schedule_key(new)));
            }
        }
        None => {
            if let Some(old) = change.old {
                lock(memory).remember(old);
                queue.add(Key::Schedule(schedule_key(old)));
                queue.add(orphan_key(old));
            }
        }
    }
}

fn job_changed(
    queue: &Queue<Key>,
    occurrences: &Cache<MaintenanceOccurrence>,
    change: &Change<'_, Job>,
) {
    let Some(job) = change.new.or(change.old) else { return };
    let Some(name) = occurrence_of_attempt(&change.key.name) else { return };
    let Some(uid) = job.labels().get(LABEL_PARENT_UID) else { return };
    let parent = ObjectKey::new(&change.key.namespace, name);
    let open = occurrences
        .get(&parent)
        .is_some_and(|o| o.metadata.uid.as_ref() == Some(uid) && !is_terminal(&o));
    if open {
        queue.add(Key::Occurrence(parent));
    } else if change.new.is_some_and(|job| !JobDigest::of(job).is_some_and(|job| job.is_finished()))
    {
        queue.add(Key::Orphan {
            namespace: change.key.namespace.clone(),
            uid: uid.clone(),
            name: name.to_owned(),
        });
    }
}

fn pod_changed(queue: &Queue<Key>, change: &Change<'_, Pod>) {
    let Some(pod) = change.new.or(change.old) else { return };
    let Some(name) = pod.labels().get(LABEL_JOB_NAME).and_then(|job| occurrence_of_attempt(job))
    else {
        return;
    };
    queue.add(Key::Occurrence(ObjectKey::new(&change.key.namespace, name)));
}

/// The occurrence's name in the name of one of its attempts (`<occurrence>-m<N>`).
fn occurrence_of_attempt(attempt: &str) -> Option<&str> {
    let (occurrence, number) = attempt.rsplit_once("-m")?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(occurrence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_name_their_occurrence() {
        assert_eq!(occurrence_of_attempt("a-m-202611290200-m12"), Some("a-m-202611290200"));
        assert_eq!(occurrence_of_attempt("a-202611290200-r1"), None);
        assert_eq!(occurrence_of_attempt("a-mx"), None);
    }
}
