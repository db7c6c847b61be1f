//! The hands of the maintenance room: observe, decide, act, report.
//!
//! One watch a kind feeds one cache a kind; a change puts keys into one work queue; a bounded number
//! of workers take them out. A key is never worked on twice at once. The decisions are in
//! [`crate::schedules`] and [`super::occurrence`]; nothing here decides what should happen, only how
//! it is carried out and what is looked at next.

mod census;
mod occurrence;
mod orphans;
mod schedule;
mod takeover;
mod wiring;

pub use wiring::Wiring;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::time::Instant;

use crate::{
    api::{MaintenanceOccurrence, MaintenanceSchedule},
    cluster::{Cache, ObjectKey, Queue, run_workers},
    reconcile::{Census, Departures, Deps, PassOf},
    runs::hands,
    schedules::hands::Refusals,
};

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

/// The maintenance controller.
#[derive(Clone)]
pub struct Controller {
    deps: Arc<Deps>,
    schedules: Cache<MaintenanceSchedule>,
    occurrences: Cache<MaintenanceOccurrence>,
    queue: Queue<Key>,
    census: Census,
    memory: Arc<Mutex<Memory>>,
    refusals: Arc<Refusals>,
    departures: Arc<Departures>,
    working: Arc<AtomicBool>,
}

/// What is remembered between passes and may be forgotten at any time.
#[derive(Debug, Default)]
struct Memory {
    /// Of the runs of occurrences.
    runs: hands::Memory,
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
        let pass = PassOf { kind: key.kind(), key: key.backoff_key(), started: Instant::now() };
        let outcome = match &key {
            Key::Schedule(object) => self.pass_schedule(object).await,
            Key::Occurrence(object) => self.pass_occurrence(object).await,
            Key::Orphan { namespace, uid, name } => self.pass_orphan(namespace, uid, name).await,
        };
        self.deps.ended(&pass, outcome)
    }
}

/// A poisoned lock still holds a usable memory: whatever is missing is learnt again.
fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
