//! Which change of which object makes which key due, and the loops that keep the caches alive.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt as _;
use tokio::task::JoinSet;

use super::{
    Controller, Key, Memory, census, occurrence::orphan_key, orphans::remember, schedule::index_key,
};
use crate::{
    api::{LABEL_PARENT_UID, MaintenanceOccurrence, MaintenanceSchedule},
    cluster::{Cache, Change, Clients, ObjectKey, Queue, Scope, Templates},
    identity::{MAINTENANCE_ATTEMPT, occurrence_name, work_of_attempt},
    maintenance::schedule::is_terminal,
    providers::job::digest::JobDigest,
    reconcile::{Census, Departures, Deps, RunListener, Watching, follow, job_of_pod},
    telemetry::{EventQueue, Metrics},
};

/// The caches and the queue, before there is a controller.
pub struct Wiring {
    schedules: Cache<MaintenanceSchedule>,
    occurrences: Cache<MaintenanceOccurrence>,
    queue: Queue<Key>,
    census: Census,
    memory: Arc<Mutex<Memory>>,
    departures: Arc<Departures>,
}

impl Wiring {
    /// Empty caches whose changes make keys due.
    pub fn new(events: &EventQueue, metrics: &Arc<Metrics>, census: &Census) -> Self {
        let queue = Queue::new();
        let memory: Arc<Mutex<Memory>> = Arc::default();
        let departures: Arc<Departures> = Arc::default();
        let census = census.clone();
        let schedules = Cache::new(
            |_: &MaintenanceSchedule| None,
            Watching::new("MaintenanceSchedule", events, metrics, {
                let (queue, census) = (queue.clone(), census.clone());
                move |change: &Change<'_, MaintenanceSchedule>| {
                    census::schedule_changed(&census, change);
                    schedule_changed(&queue, change);
                }
            }),
        );
        let templates = Templates::default();
        let occurrences = Cache::preparing(
            move |o: &mut MaintenanceOccurrence| {
                // Most carry the template of their schedule.
                let sealed = o.status.as_mut().and_then(|status| status.run.as_mut());
                templates.share_runs([sealed, o.spec.run.as_mut()]);
            },
            |o: &MaintenanceOccurrence| Some(index_key(&schedule_key(o))),
            Watching::new("MaintenanceOccurrence", events, metrics, {
                let (queue, departures) = (queue.clone(), Arc::clone(&departures));
                let census = census.clone();
                move |change: &Change<'_, MaintenanceOccurrence>| {
                    census::occurrence_changed(&census, change);
                    occurrence_changed(&queue, &departures, change);
                }
            }),
        );
        Self { schedules, occurrences, queue, census, memory, departures }
    }

    /// Told what happens to Jobs and pods.
    pub fn listener(&self) -> Arc<dyn RunListener> {
        Arc::new(Runs { queue: self.queue.clone(), occurrences: self.occurrences.clone() })
    }

    /// The controller over these caches.
    pub fn controller(&self, deps: &Arc<Deps>) -> Controller {
        Controller {
            deps: Arc::clone(deps),
            schedules: self.schedules.clone(),
            occurrences: self.occurrences.clone(),
            queue: self.queue.clone(),
            census: self.census.clone(),
            memory: Arc::clone(&self.memory),
            refusals: Arc::default(),
            departures: Arc::clone(&self.departures),
            working: Arc::default(),
        }
    }

    /// Starts to follow the kinds of the room.
    pub fn follow(&self, watches: &mut JoinSet<()>, clients: &Clients, scope: &Scope) {
        follow(watches, &self.schedules, clients, scope);
        follow(watches, &self.occurrences, clients, scope);
    }

    /// Waits until all kinds have been listed once.
    pub async fn wait_ready(&self) {
        self.schedules.wait_ready().await;
        self.occurrences.wait_ready().await;
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
    departures: &Departures,
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
                remember(departures, old);
                queue.add(Key::Schedule(schedule_key(old)));
                queue.add(orphan_key(old));
            }
        }
    }
}

/// Jobs and pods of occurrences.
struct Runs {
    queue: Queue<Key>,
    occurrences: Cache<MaintenanceOccurrence>,
}

impl RunListener for Runs {
    fn job_changed(&self, change: &Change<'_, Job>) {
        let Some(job) = change.new.or(change.old) else { return };
        let Some(name) = occurrence_of(&change.key.name) else { return };
        let Some(uid) = job.labels().get(LABEL_PARENT_UID) else { return };
        let parent = ObjectKey::new(&change.key.namespace, name);
        let open = self
            .occurrences
            .get(&parent)
            .is_some_and(|o| o.metadata.uid.as_ref() == Some(uid) && !is_terminal(&o));
        let unfinished = |job: &Job| !JobDigest::of(job).is_some_and(|job| job.is_finished());
        if open {
            self.queue.add(Key::Occurrence(parent));
        } else if change.new.is_some_and(unfinished) {
            self.queue.add(Key::Orphan {
                namespace: change.key.namespace.clone(),
                uid: uid.clone(),
                name: name.to_owned(),
            });
        }
    }

    fn pod_changed(&self, change: &Change<'_, Pod>) {
        let Some(pod) = change.new.or(change.old) else { return };
        if let Some(name) = job_of_pod(pod).and_then(occurrence_of) {
            self.queue.add(Key::Occurrence(ObjectKey::new(&change.key.namespace, name)));
        }
    }
}

/// The occurrence of an attempt, by name.
fn occurrence_of(attempt: &str) -> Option<&str> {
    work_of_attempt(attempt, MAINTENANCE_ATTEMPT).map(|(occurrence, _)| occurrence)
}
