//! The hands of the reports room: observe, decide, act, report.
//!
//! A change of a job goes into the [`Book`] of its queue at once and makes the queue due; one pass of
//! the queue then decides about everything that has changed meanwhile. The decisions are in
//! [`super::queue`] and [`super::job`].

mod census;
mod job;
mod late;
mod queue;
mod recovery;
mod schedule;
mod takeover;
#[cfg(test)]
mod tests;
mod wiring;

pub use wiring::{Wiring, cache};

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::Timestamp;
use tokio::time::Instant;

use super::queue::Book;
use crate::{
    api::{ReportJob, ReportQueue, ReportSchedule},
    cluster::{Cache, ObjectKey, Queue, run_workers},
    reconcile::{Departures, Deps, PassError, PassOf},
    runs::hands,
    schedules::hands::Refusals,
};

/// What the queue hands out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A report queue.
    Queue(ObjectKey),
    /// A report job.
    Job(ObjectKey),
    /// A report schedule.
    Schedule(ObjectKey),
    /// Runs whose report job, known by its uid, is gone or being deleted.
    Orphan {
        /// Namespace of the runs.
        namespace: String,
        /// Uid of the job.
        uid: String,
        /// Name of the job.
        name: String,
        /// Name of its queue.
        queue: String,
    },
}

impl Key {
    fn kind(&self) -> &'static str {
        match self {
            Self::Queue(_) => "ReportQueue",
            Self::Job(_) => "ReportJob",
            Self::Schedule(_) => "ReportSchedule",
            Self::Orphan { .. } => "Orphan",
        }
    }

    fn backoff_key(&self) -> String {
        match self {
            Self::Queue(key) | Self::Job(key) | Self::Schedule(key) => {
                format!("{} {key}", self.kind())
            }
            Self::Orphan { namespace, uid, .. } => format!("Orphan {namespace}/{uid}"),
        }
    }
}

/// The reports controller.
#[derive(Clone)]
pub struct Controller {
    deps: Arc<Deps>,
    queues: Cache<ReportQueue>,
    jobs: Cache<ReportJob>,
    schedules: Cache<ReportSchedule>,
    queue: Queue<Key>,
    state: Shared,
    refusals: Arc<Refusals>,
    departures: Arc<Departures>,
    working: Arc<AtomicBool>,
}

/// What is known besides the objects; clones share it.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<State>>);

/// Everything in here is made from the objects, or may be forgotten at any time.
#[derive(Debug, Default)]
struct State {
    /// By queue, whether it exists or not.
    books: BTreeMap<ObjectKey, Book>,
    /// What this leader found in each queue, and did in it.
    terms: BTreeMap<ObjectKey, Term>,
    /// Names of jobs by the schedule that made them.
    of_schedule: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Uids of the jobs that their schedule, sealed in this term, has started: only these stand in a
    /// book.
    started: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Of the runs of jobs.
    runs: hands::Memory,
}

/// What this leader knows of a queue.
#[derive(Debug, Default)]
struct Term {
    /// Uid of the queue it is about.
    uid: String,
    /// Uids of entries that were there when this leader first saw the queue, and that are not
    /// accounted for.
    unaccounted: BTreeSet<String>,
    /// Names of jobs that are answered and look again once the queue's pass is recorded: it may take
    /// several tries.
    answered: BTreeSet<String>,
    /// When it last wrote counts and estimates.
    shown: Option<Timestamp>,
    /// When it last wrote the ledger.
    written: Option<Timestamp>,
    /// When it last computed when waiting jobs start.
    expected: Option<Timestamp>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock still holds a usable state: whatever is missing is learnt again.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller {
    /// Works until the queue is closed ([`Controller::stop`]).
    pub async fn run(&self) {
        let this = self.clone();
        self.working.store(true, Ordering::Relaxed);
        run_workers(self.queue.clone(), self.deps.concurrency, move |key| {
            let this = this.clone();
            async move { Box::pin(this.pass(key)).await } // its state is large
        })
        .await;
    }

    /// Whether [`Controller::run`] has begun.
    pub fn is_working(&self) -> bool {
        self.working.load(Ordering::Relaxed)
    }

    /// Hands out no more keys; passes under way go on to their end.
    pub fn stop(&self) {
        self.queue.close();
    }

    /// Looks at everything again, for example after the wall clock was set.
    pub fn look_at_everything(&self) {
        for queue in self.queues.all() {
            self.queue.add(Key::Queue(ObjectKey::of(&queue.metadata)));
        }
        for schedule in self.schedules.all() {
            self.queue.add(Key::Schedule(ObjectKey::of(&schedule.metadata)));
        }
        for job in self.jobs.all() {
            self.queue.add(Key::Job(ObjectKey::of(&job.metadata)));
        }
    }

    /// One pass over one object; gives the moment of the next look.
    async fn pass(&self, key: Key) -> Option<Instant> {
        let pass = PassOf { kind: key.kind(), key: key.backoff_key(), started: Instant::now() };
        let outcome: Result<Option<Timestamp>, PassError> = match &key {
            Key::Queue(object) => Box::pin(self.pass_queue(object)).await,
            Key::Job(object) => Box::pin(self.pass_job(object)).await,
            Key::Schedule(object) => Box::pin(self.pass_schedule(object)).await,
            Key::Orphan { namespace, uid, name, queue } => {
                self.pass_orphan(namespace, uid, name, queue).await
            }
        };
        self.deps.ended(&pass, outcome)
    }
}

/// The queue that a job names.
fn queue_key(job: &ReportJob) -> ObjectKey {
    ObjectKey::new(job.metadata.namespace.as_deref().unwrap_or_default(), &job.spec.queue_name)
}
