//! What an occurrence does next: pure.
//!
//! The life of its attempts is [`crate::runs`]; here are its states, its conditions, and whether it
//! may start: a schedule's claim, a ghost, a schedule that is gone.

use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::{
    api::{Fence, MaintenanceOccurrence, MaintenanceOccurrenceStatus, RunSpec},
    identity::WorkId,
    runs::{self, Heard},
    schedules::Work,
};

pub use crate::runs::{MAX_ATTEMPTS, UNREACHABLE_PATIENCE, UNREACHABLE_TIME, is_about_ignored};

mod life;
mod right;
pub mod standing;

pub use life::{phase, work};

/// One step; what is written is a whole status.
pub type Step = runs::Step<MaintenanceOccurrenceStatus>;

/// A step, when to look again, and what is worth an event once the step is done.
pub type Decision = runs::Decision<MaintenanceOccurrenceStatus>;

/// How the occurrence stands with its schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not decided yet, or the schedule is not sealed in this term: nothing may start.
    Undecided,
    /// Claimed, but not its turn yet.
    Waiting,
    /// Claimed and started by the schedule, which is sealed in this term.
    Started {
        /// Not before this moment (`spread`).
        not_before: Timestamp,
        /// Not after this moment, if it has not been prepared by then.
        deadline: Option<Timestamp>,
        /// Whether a newer instant replaces it.
        replaced: bool,
    },
    /// The schedule, read live, has decided this instant without claiming this object.
    Ghost {
        /// State it ends in: `Skipped` with a reason of the schedule's accounting, or `Superseded`.
        skipped: Option<crate::time::SkipReason>,
    },
    /// Hand-made, and records up to its instant may have been removed: it may have run.
    RecordPruned,
    /// Hand-made with a run of its own although its schedule exists.
    RunNotAllowed,
    /// The schedule does not exist (read live).
    ScheduleGone,
}

/// Everything a decision about an occurrence depends on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The occurrence, at the version that the decision's write replaces.
    pub occurrence: MaintenanceOccurrence,
    /// How it stands with its schedule.
    pub standing: Standing,
    /// The run of the schedule, for hand-made ones that have none.
    pub schedule_run: Option<RunSpec>,
    /// What this pass has heard and done about an attempt.
    pub heard: Heard,
    /// The newest generation of which people were told that something in it is ignored, as far as
    /// this process knows.
    pub told: Option<i64>,
    /// Whether the wall clock agrees with the API server's. If not, nothing ends or starts because
    /// of a time.
    pub trust_clock: bool,
    /// The present term.
    pub fence: Fence,
}

impl Snapshot {
    /// Goes on with the version that was stored. What a provider said of an attempt says nothing of the
    /// next one.
    pub fn go_on_with(&mut self, stored: MaintenanceOccurrence) {
        self.heard.go_on(Work::attempts(&self.occurrence), Work::attempts(&stored));
        self.occurrence = stored;
    }
}

/// Decides the next step. Pure: equal snapshots and times give equal decisions.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Decision {
    if snapshot.occurrence.metadata.deletion_timestamp.is_some() {
        return Decision::wait(); // deletion is a cancel; what is left is stopped by its parent's uid
    }
    let status = snapshot.occurrence.status.clone().unwrap_or_default();
    let life = life::snapshot(snapshot, &status, now);
    runs::decide(&life, now).written(|change| life::written(snapshot, &status, change, now))
}

/// The identity of the occurrence for systems outside the cluster.
pub fn work_id(occurrence: &MaintenanceOccurrence) -> WorkId {
    let namespace = occurrence.namespace().unwrap_or_default();
    WorkId::maintenance(&namespace, &occurrence.spec.schedule_name, occurrence.spec.intended_time)
}

/// The run that is in force: as sealed first, else as it will be sealed.
pub fn effective_run(snapshot: &Snapshot) -> Option<RunSpec> {
    let occurrence = &snapshot.occurrence;
    let sealed = occurrence.status.as_ref().and_then(|status| status.run.clone());
    sealed.or_else(|| occurrence.spec.run.clone()).or_else(|| snapshot.schedule_run.clone())
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_ends;
#[cfg(test)]
mod tests_person;
#[cfg(test)]
mod tests_withdraw;
