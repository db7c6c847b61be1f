//! The hands of the maintenance room: observe, decide, act, report.
//!
//! One watch a kind feeds one cache a kind; a change puts keys into one work queue; a bounded number
//! of workers take them out. A key is never worked on twice at once. The decisions are in
//! [`super::schedule`] and [`super::occurrence`]; nothing here decides what should happen, only how
//! it is carried out and what is looked at next.

mod acceptance;
mod census;
mod occurrence;
mod orphans;
mod report;
mod schedule;
mod start;
mod takeover;
mod wiring;

pub use start::{Setup, run};
pub use wiring::Wiring;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::Note;
use crate::{
    api::{Fence, MaintenanceOccurrence, MaintenanceSchedule},
    authority::{Foreign, Gate, NotLeading, Permit, Quarantine},
    cluster::{ApiError, Cache, FencedWriter, ObjectKey, Queue, Reader, WriteError, run_workers},
    providers::Providers,
    recovery::Recovery,
    retry::{self, ObjectBackoff},
    telemetry::{EventQueue, Metrics},
    time::WallClock,
};

/// Most rounds of one pass over one object. A pass ends by itself much earlier; the bound turns a
/// decision that does not come to rest into a visible error instead of a busy loop.
const MAX_ROUNDS: usize = 16;

/// After a conflicting write: the watch has brought the newer version by then, or it is read live.
const AFTER_CONFLICT: Duration = Duration::from_millis(50);

/// What the queue hands out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A schedule.
    Schedule(ObjectKey),
    /// An occurrence.
    Occurrence(ObjectKey),
    /// Runs whose parent, known by its uid, is gone or being deleted.
    Orphan {
        /// Namespace of the runs.
        namespace: String,
        /// Uid of the parent.
        uid: String,
        /// Name of the parent.
        name: String,
    },
}

impl Key {
    /// For logs, events' backoff and metrics.
    fn kind(&self) -> &'static str {
        match self {
            Self::Schedule(_) => "MaintenanceSchedule",
            Self::Occurrence(_) => "MaintenanceOccurrence",
            Self::Orphan { .. } => "Orphan",
        }
    }

    fn backoff_key(&self) -> String {
        match self {
            Self::Schedule(key) | Self::Occurrence(key) => format!("{} {key}", self.kind()),
            Self::Orphan { namespace, uid, .. } => format!("Orphan {namespace}/{uid}"),
        }
    }
}

/// Why a pass over an object was broken off; it is made again later.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// This process does not lead (any more).
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// A read failed.
    #[error("cannot read from the API server")]
    Read(#[source] ApiError),
    /// A write failed.
    #[error("cannot write to the API server")]
    Write(#[source] WriteError),
    /// An object that must be sealed cannot be read.
    #[error("occurrence {0} cannot be read; repair or delete it, its schedule waits for that")]
    Unreadable(ObjectKey),
    /// The decision did not come to rest: a defect.
    #[error("no rest after {MAX_ROUNDS} rounds; this is a defect")]
    Restless,
}

impl PassError {
    /// For metrics.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotLeading(_) => "not_leading",
            Self::Read(error) => error.category(),
            Self::Write(error) => error.category(),
            Self::Unreadable(_) => "unreadable",
            Self::Restless => "restless",
        }
    }
}

/// Whether occurrences may be created now: the clocks agree.
pub type MayCreate = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the controller works with.
pub struct Deps {
    /// Leadership.
    pub gate: Gate,
    /// Objects with foreign fences, which are left alone.
    pub quarantine: Arc<Quarantine>,
    /// Live reads.
    pub reader: Reader,
    /// Fenced writes.
    pub writer: Arc<FencedWriter>,
    /// Wall clock: the only time decisions about schedules know.
    pub wall: WallClock,
    /// What executes runs.
    pub providers: Providers,
    /// Whether occurrences may be created now.
    pub may_create: MayCreate,
    /// Told what is learnt of what this leader found.
    pub recovery: Recovery,
    /// Events for people.
    pub events: EventQueue,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// How long finished occurrences without a schedule are kept.
    pub orphan_retention: Duration,
    /// Objects worked on at once.
    pub concurrency: usize,
}

/// The maintenance controller.
#[derive(Clone)]
pub struct Controller {
    deps: Arc<Deps>,
    schedules: Cache<MaintenanceSchedule>,
    occurrences: Cache<MaintenanceOccurrence>,
    queue: Queue<Key>,
    census: census::Census,
    backoff: Arc<ObjectBackoff>,
    memory: Arc<Mutex<Memory>>,
    working: Arc<AtomicBool>,
}

/// What is remembered between passes and may be forgotten at any time.
#[derive(Debug, Default)]
struct Memory {
    /// Since when the provider of an occurrence has not answered.
    unreachable: BTreeMap<ObjectKey, Timestamp>,
    /// The generation of an occurrence of which people were told that something in it is ignored.
    told: BTreeMap<ObjectKey, i64>,
    /// The newest instant whose occurrence the API server refused, by schedule.
    refused: BTreeMap<ObjectKey, schedule::Refused>,
    /// What deleted occurrences recorded, by uid.
    departed: BTreeMap<String, orphans::Departed>,
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
        for schedule in self.schedules.all() {
            self.queue.add(Key::Schedule(ObjectKey::of(&schedule.metadata)));
        }
    }

    /// Shows what only time changes: how old the oldest unresolved occurrence is.
    pub fn show_ages(&self) {
        self.census.show_age(self.deps.wall.now());
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    /// One pass over one object; gives the moment of the next look.
    async fn pass(&self, key: Key) -> Option<Instant> {
        let started = Instant::now();
        let outcome = match &key {
            Key::Schedule(object) => self.pass_schedule(object).await,
            Key::Occurrence(object) => self.pass_occurrence(object).await,
            Key::Orphan { namespace, uid, name } => self.pass_orphan(namespace, uid, name).await,
        };
        let result = outcome.as_ref().map(|_| ()).map_err(PassError::category);
        self.deps.metrics.reconciled(key.kind(), result, started.elapsed());
        match outcome {
            Ok(wake_at) => {
                self.backoff.succeeded(&key.backoff_key());
                wake_at.map(|at| self.instant(at))
            }
            Err(PassError::NotLeading(_)) => None,
            // Somebody else wrote, which is no fault: the newest version is looked at at once.
            Err(PassError::Write(WriteError::Api(ApiError::Conflict { .. }))) => {
                Some(Instant::now() + AFTER_CONFLICT)
            }
            Err(error) => {
                let delay = self.backoff.failed(&key.backoff_key());
                let error = &error as &dyn std::error::Error;
                tracing::warn!(?key, error, ?delay, "pass broken off; it is made again");
                Some(Instant::now() + delay)
            }
        }
    }

    /// The moment on the scheduler's clock at which the wall clock will show `at`. If someone sets
    /// the wall clock meanwhile, [`Controller::look_at_everything`] corrects it. A moment that has come
    /// already is no reason to look again without pause.
    fn instant(&self, at: Timestamp) -> Instant {
        let wait = Duration::try_from(at.duration_since(self.deps.wall.now()));
        Instant::now() + wait.ok().filter(|wait| !wait.is_zero()).unwrap_or(AFTER_CONFLICT)
    }

    fn permit(&self) -> Result<Permit, PassError> {
        Ok(self.deps.gate.permit()?)
    }

    fn note(&self, kind: &'static str, key: &ObjectKey, uid: Option<&str>, notes: &[Note]) {
        for note in notes {
            report::publish(&self.deps.events, kind, key, uid, note);
        }
    }

    /// Whether an object, as read, may be written in this term. A newer fence than this term's means
    /// that either this process is deposed or the object is to be left alone.
    async fn may_write(
        &self,
        permit: &Permit,
        kind: &'static str,
        object: &ObjectMeta,
        fence: Option<&Fence>,
    ) -> Result<bool, PassError> {
        let term = permit.term();
        let foreign = fence.filter(|fence| {
            fence.epoch > term.epoch || (fence.epoch == term.epoch && fence.nonce != term.nonce)
        });
        let Some(fence) = foreign else { return Ok(true) };
        let met = self.deps.quarantine.met(permit, kind, object, fence).await;
        match met.map_err(PassError::Read)? {
            Foreign::Lost(_) => Err(NotLeading.into()),
            Foreign::Quarantined { first } => {
                if first {
                    self.deps.metrics.foreign_fence();
                    let message = format!(
                        "it carries the fence of epoch {}, which no term of this Lease has had; it is left alone",
                        fence.epoch
                    );
                    let note = Note::warning("ForeignFence", message);
                    self.note(kind, &ObjectKey::of(object), object.uid.as_deref(), &[note]);
                }
                Ok(false)
            }
        }
    }

    /// What a failed write means for the pass: a conflict is no fault, the object is looked at again.
    fn after_write_error(error: WriteError) -> PassError {
        match error {
            WriteError::NotLeading(not_leading) => PassError::NotLeading(not_leading),
            error => PassError::Write(error),
        }
    }
}

/// A poisoned lock still holds a usable memory: whatever is missing is learnt again.
fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new instance of the retry bookkeeping.
fn backoff() -> Arc<ObjectBackoff> {
    Arc::new(ObjectBackoff::new(retry::RECONCILE))
}

#[cfg(test)]
mod tests;
