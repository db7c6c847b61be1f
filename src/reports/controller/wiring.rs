//! Which change of which object makes which key due.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt as _;
use tokio::task::JoinSet;

use super::{
    Controller, Key, Shared, census, queue_key,
    recovery::{orphan_key, remember},
    schedule::schedule_key,
};
use crate::{
    api::{
        Claim, LABEL_PARENT_UID, LABEL_QUEUE, LedgerEntry, ReportJob, ReportQueue, ReportSchedule,
    },
    cluster::{Cache, Change, Clients, Listener, ObjectKey, Queue, Scope, Templates},
    identity::{REPORT_ATTEMPT, occurrence_name, work_of_attempt},
    providers::job::digest::JobDigest,
    reconcile::{Census, Departures, Deps, RunListener, Watching, follow, job_of_pod},
    reports::{facts::is_terminal, queue::entries},
    telemetry::{EventQueue, Metrics},
};

/// The caches and the queue, before there is a controller.
pub struct Wiring {
    queues: Cache<ReportQueue>,
    jobs: Cache<ReportJob>,
    schedules: Cache<ReportSchedule>,
    queue: Queue<Key>,
    state: Shared,
    departures: Arc<Departures>,
}

impl Wiring {
    /// Empty caches whose changes make keys due.
    pub fn new(events: &EventQueue, metrics: &Arc<Metrics>, census: &Census) -> Self {
        let queue = Queue::new();
        let state = Shared::default();
        let departures: Arc<Departures> = Arc::default();
        let queues = Cache::new(
            |_: &ReportQueue| None,
            Watching::new("ReportQueue", events, metrics, {
                let (queue, census) = (queue.clone(), census.clone());
                move |change: &Change<'_, ReportQueue>| {
                    census::queue_changed(&census, change);
                    queue_changed(&queue, change);
                }
            }),
        );
        let jobs = cache(Watching::new("ReportJob", events, metrics, {
            let (queue, state) = (queue.clone(), state.clone());
            let (departures, census) = (Arc::clone(&departures), census.clone());
            move |change: &Change<'_, ReportJob>| {
                census::job_changed(&census, change);
                job_changed(&queue, &state, &departures, change);
            }
        }));
        let schedules = Cache::new(
            |_: &ReportSchedule| None,
            Watching::new("ReportSchedule", events, metrics, {
                let (queue, census) = (queue.clone(), census.clone());
                move |change: &Change<'_, ReportSchedule>| {
                    census::schedule_changed(&census, change);
                    schedule_changed(&queue, change);
                }
            }),
        );
        Self { queues, jobs, schedules, queue, state, departures }
    }

    /// Told what happens to Jobs and pods.
    pub fn listener(&self) -> Arc<dyn RunListener> {
        Arc::new(Runs { queue: self.queue.clone(), jobs: self.jobs.clone() })
    }

    /// The controller over these caches.
    pub fn controller(&self, deps: &Arc<Deps>) -> Controller {
        Controller {
            deps: Arc::clone(deps),
            queues: self.queues.clone(),
            jobs: self.jobs.clone(),
            schedules: self.schedules.clone(),
            queue: self.queue.clone(),
            state: self.state.clone(),
            refusals: Arc::default(),
            departures: Arc::clone(&self.departures),
            working: Arc::default(),
        }
    }

    /// Starts to follow the kinds of the room.
    pub fn follow(&self, watches: &mut JoinSet<()>, clients: &Clients, scope: &Scope) {
        follow(watches, &self.queues, clients, scope);
        follow(watches, &self.jobs, clients, scope);
        follow(watches, &self.schedules, clients, scope);
    }

    /// Waits until all kinds have been listed once.
    pub async fn wait_ready(&self) {
        self.queues.wait_ready().await;
        self.jobs.wait_ready().await;
        self.schedules.wait_ready().await;
    }
}

/// The jobs, by their queue. There may be 100,000, so each is kept small.
pub fn cache(listener: impl Listener<ReportJob> + 'static) -> Cache<ReportJob> {
    let templates = Templates::default();
    let smaller = move |report: &mut ReportJob| make_smaller(report, &templates);
    Cache::preparing(smaller, |report| Some(queue_key(report).to_string()), listener)
}

/// Equal pod templates are kept once, and parameters that were sealed as they were given. Labels and
/// annotations are not kept: nothing is decided by those of a job, and no write sends them.
fn make_smaller(report: &mut ReportJob, templates: &Templates) {
    report.metadata.labels = None;
    report.metadata.annotations = None;
    if let Some(status) = &mut report.status {
        status.conditions.shrink_to_fit();
        status.attempts.shrink_to_fit();
        let sealed = status.run.as_mut().and_then(|run| run.parameters.as_mut());
        if let (Some(sealed), Some(given)) = (sealed, &report.spec.parameters) {
            sealed.share(given);
        }
    }
    let sealed = report.status.as_mut().and_then(|status| status.run.as_mut());
    templates.share_runs([sealed, report.spec.run.as_deref_mut()]);
}

fn queue_changed(queue: &Queue<Key>, change: &Change<'_, ReportQueue>) {
    queue.add(Key::Queue(change.key.clone()));
    let of = |entry: &'_ LedgerEntry| (entry.uid.clone(), entry.attempt);
    let old: BTreeSet<_> = change.old.map(entries).unwrap_or_default().iter().map(of).collect();
    // An entry is what lets a job start. Whoever wrote it may not have learnt that it was written,
    // so what counts is that it is there.
    for entry in change.new.map(entries).unwrap_or_default() {
        if !old.contains(&of(entry)) {
            queue.add(Key::Job(ObjectKey::new(&change.key.namespace, &entry.job)));
        }
    }
}

fn schedule_changed(queue: &Queue<Key>, change: &Change<'_, ReportSchedule>) {
    queue.add(Key::Schedule(change.key.clone()));
    let claims = |schedule: Option<&ReportSchedule>| -> Vec<Claim> {
        let status = schedule.and_then(|schedule| schedule.status.as_ref());
        status.map(|status| status.claimed.clone()).unwrap_or_default()
    };
    let old = claims(change.old);
    // A claim is what lets a job start. Whoever wrote it may not have learnt that it was written, so
    // what counts is that it is there.
    for claim in claims(change.new).into_iter().filter(|claim| !old.contains(claim)) {
        let name = occurrence_name(&change.key.name, claim.time);
        queue.add(Key::Job(ObjectKey::new(&change.key.namespace, name)));
    }
}

fn job_changed(
    queue: &Queue<Key>,
    state: &Shared,
    departures: &Departures,
    change: &Change<'_, ReportJob>,
) {
    let Some(any) = change.new.or(change.old) else { return };
    match (change.new, change.old) {
        (Some(new), _) => state.lock().follow(change.key, new),
        (None, Some(old)) => state.lock().forget(change.key, old),
        (None, None) => {}
    }
    // What the queue decides by: who waits, and whose attempt is over.
    queue.add(Key::Queue(queue_key(any)));
    // The schedule drops the claim of what is over or gone.
    let over = |report: Option<&ReportJob>| report.is_none_or(is_terminal);
    if let Some(schedule) = schedule_key(any)
        && over(change.new)
        && !change.old.is_some_and(is_terminal)
    {
        queue.add(Key::Schedule(schedule));
    }
    match (change.new, change.old) {
        (Some(_), _) => queue.add(Key::Job(change.key.clone())),
        (None, Some(old)) => {
            state.lock().runs.forget(change.key);
            remember(departures, old);
            queue.add(orphan_key(old));
        }
        (None, None) => {}
    }
}

/// Jobs and pods of reports.
struct Runs {
    queue: Queue<Key>,
    jobs: Cache<ReportJob>,
}

impl RunListener for Runs {
    fn job_changed(&self, change: &Change<'_, Job>) {
        let Some(run) = change.new.or(change.old) else { return };
        let Some((name, _)) = report_of(&change.key.name) else { return };
        let Some(uid) = run.labels().get(LABEL_PARENT_UID) else { return };
        let parent = ObjectKey::new(&change.key.namespace, name);
        let open = self.jobs.get(&parent).is_some_and(|report| {
            report.metadata.uid.as_ref() == Some(uid) && !is_terminal(&report)
        });
        if open {
            self.queue.add(Key::Job(parent));
        } else if change
            .new
            .is_some_and(|run| !JobDigest::of(run).is_some_and(|run| run.is_finished()))
        {
            self.queue.add(Key::Orphan {
                namespace: change.key.namespace.clone(),
                uid: uid.clone(),
                name: name.to_owned(),
                queue: run.labels().get(LABEL_QUEUE).cloned().unwrap_or_default(),
            });
        }
    }

    fn pod_changed(&self, change: &Change<'_, Pod>) {
        let Some(pod) = change.new.or(change.old) else { return };
        if let Some((name, _)) = job_of_pod(pod).and_then(report_of) {
            self.queue.add(Key::Job(ObjectKey::new(&change.key.namespace, name)));
        }
    }
}

/// The report job of an attempt, by name, and the number of the attempt.
pub(super) fn report_of(attempt: &str) -> Option<(&str, i32)> {
    work_of_attempt(attempt, REPORT_ATTEMPT)
}
