//! What an occurrence does next: pure.
//!
//! [`decide`] gives one [`Step`] at a time. The hands take it, put its answer into the snapshot and
//! ask again, a bounded number of times. Every write is the seal of the object for the present term
//! if it was not sealed before, because it is conditional on the very version it was decided from.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::{Note, conditions};
use crate::{
    api::{
        ActionClass, Attempt, AttemptOutcome, Fence, MAX_MESSAGE_CHARS, MAX_REASON_CHARS,
        MaintenanceOccurrence, MaintenanceOccurrenceStatus, OccurrenceState, RunSpec, Time,
        truncate,
    },
    identity::WorkId,
    providers::{Prepared, ProviderError, RunStatus},
};

/// How long preparing is tried while the API server refuses, when there is no deadline.
const PREPARE_PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// How long a provider that gives no answer is asked before the attempt is Unresolved.
pub const UNREACHABLE_PATIENCE: SignedDuration =
    SignedDuration::from_secs(UNREACHABLE_TIME.as_secs().cast_signed());
/// The same, for whoever waits.
pub const UNREACHABLE_TIME: std::time::Duration = std::time::Duration::from_secs(60);
/// How often an attempt whose end nobody knows is asked about again.
const UNRESOLVED_INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// How often a run that is being stopped, or that was released and not seen started, is looked at.
const WATCHFUL_INTERVAL: SignedDuration = SignedDuration::from_secs(2);
/// How often a running one is looked at besides its watch, so that a lost event costs little.
const RUNNING_INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// A release is recorded if the run was not seen started by then; most start sooner, and are spared
/// the write.
const RECORD_RELEASE_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// Most disruptions that are made up for, apart from `maxAttempts`.
const MAX_DISRUPTIONS: usize = 5;
/// Most attempts of one occurrence, people's retries included: the bound of the status list.
pub const MAX_ATTEMPTS: usize = 64;

mod follow;
mod ignored;
mod outcome;
mod person;
pub mod standing;
mod start;

pub use ignored::is_about_ignored;

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
    /// Answer to the last [`Step::Prepare`].
    pub prepared: Option<Prepared>,
    /// Answer to the last [`Step::Ask`].
    pub answer: Option<Result<RunStatus, ProviderError>>,
    /// Since when the provider has not answered, as far as this process knows.
    pub unreachable_since: Option<Timestamp>,
    /// Whether this pass already asked the provider to cancel.
    pub cancelled: bool,
    /// The newest generation of which people were told that something in it is ignored, as far as
    /// this process knows.
    pub told: Option<i64>,
    /// Whether the wall clock agrees with the API server's. If not, nothing ends or starts because
    /// of a time.
    pub trust_clock: bool,
    /// The present term.
    pub fence: Fence,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing to do until something changes or `wake_at`.
    Wait,
    /// Write this status.
    Write(Box<MaintenanceOccurrenceStatus>),
    /// Ask the provider to prepare attempt `attempt` of `run`.
    Prepare {
        /// Number of the attempt.
        attempt: i32,
        /// What it runs.
        run: Box<RunSpec>,
    },
    /// Release the committed attempt.
    Release {
        /// Number of the attempt.
        attempt: i32,
    },
    /// Ask the provider about the newest attempt.
    Ask {
        /// Number of the attempt.
        attempt: i32,
    },
    /// Ask the provider to stop the newest attempt.
    Cancel {
        /// Number of the attempt.
        attempt: i32,
        /// Whether its outcome is recorded already, so that nothing of it needs to be kept.
        recorded: bool,
    },
}

/// A step, when to look again, and what is worth an event once the step is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do now.
    pub step: Step,
    /// When to look again at the latest.
    pub wake_at: Option<Timestamp>,
    /// Events.
    pub notes: Vec<Note>,
}

impl Decision {
    fn wait() -> Self {
        Self { step: Step::Wait, wake_at: None, notes: Vec::new() }
    }

    fn step(step: Step) -> Self {
        Self { step, wake_at: None, notes: Vec::new() }
    }

    fn wake_at(mut self, at: Option<Timestamp>) -> Self {
        self.wake_at = match (self.wake_at, at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self
    }

    fn note(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }
}

/// Decides the next step. Pure: equal snapshots and times give equal decisions.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Decision {
    let view = View::new(snapshot, now);
    if snapshot.occurrence.metadata.deletion_timestamp.is_some() {
        return Decision::wait(); // deletion is a cancel; what is left is stopped by its parent's uid
    }
    let mut decision = view.next();
    decision.notes.extend(view.ignored());
    decision
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

struct View<'a> {
    snapshot: &'a Snapshot,
    status: MaintenanceOccurrenceStatus,
    state: OccurrenceState,
    now: Timestamp,
}

impl<'a> View<'a> {
    fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let status = snapshot.occurrence.status.clone().unwrap_or_default();
        let state = status.state.unwrap_or(OccurrenceState::Pending);
        Self { snapshot, status, state, now }
    }

    fn next(&self) -> Decision {
        if self.state.is_terminal() {
            return self.after_the_end();
        }
        match self.open_attempt() {
            Some(attempt) => self.follow(attempt),
            None => self.begin(),
        }
    }

    fn sealed(&self) -> bool {
        self.status.fence.as_ref() == Some(&self.snapshot.fence)
    }

    fn after(&self, delay: SignedDuration) -> Option<Timestamp> {
        self.now.checked_add(delay).ok()
    }

    /// The newest attempt, if it was committed and is not over.
    fn open_attempt(&self) -> Option<&Attempt> {
        self.status.attempts.last().filter(|a| {
            a.handle.is_some() && matches!(a.outcome, None | Some(AttemptOutcome::Unknown))
        })
    }

    fn class(&self) -> ActionClass {
        effective_run(self.snapshot).map_or(ActionClass::Fenced, |run| run.maintenance_class())
    }

    /// The status with the newest attempt closed.
    fn close(
        &self,
        outcome: AttemptOutcome,
        started: Option<Timestamp>,
        completed: Option<Timestamp>,
        reason: &str,
    ) -> MaintenanceOccurrenceStatus {
        let mut status = self.status.clone();
        let intended = self.snapshot.occurrence.spec.intended_time.timestamp();
        if let Some(last) = status.attempts.last_mut() {
            if let Some(started) = started {
                last.start_time.get_or_insert(Time::new(started));
            }
            last.completion_time = Some(Time::new(completed.unwrap_or(self.now)));
            last.outcome = Some(outcome);
            last.reason = Some(truncate(reason, MAX_REASON_CHARS));
            if let (1, Some(started)) = (last.number, last.start_time) {
                let late = started.0.duration_since(intended).as_secs().max(0);
                status.lateness_seconds.get_or_insert(late);
            }
        }
        status
    }

    /// Writes the status as it is, with the present term's fence.
    fn seal(&self) -> Decision {
        Decision::step(Step::Write(Box::new(self.status.clone())))
    }

    /// Waits in `Pending`, and says why once.
    fn pending(&self, reason: &str, message: &str) -> Decision {
        if self.status.state == Some(OccurrenceState::Pending)
            && self.status.reason.as_deref() == Some(reason)
        {
            return Decision::wait();
        }
        self.move_to(self.status.clone(), OccurrenceState::Pending, reason, message)
    }

    fn end(&self, state: OccurrenceState, reason: &str, message: &str) -> Decision {
        self.end_with(self.status.clone(), state, reason, message)
    }

    fn end_with(
        &self,
        mut status: MaintenanceOccurrenceStatus,
        state: OccurrenceState,
        reason: &str,
        message: &str,
    ) -> Decision {
        status.id.get_or_insert_with(|| work_id(&self.snapshot.occurrence).id());
        status.next_attempt_time = None;
        let text = if message.is_empty() { reason.to_owned() } else { message.to_owned() };
        let note = if state == OccurrenceState::Succeeded {
            Note::normal("Succeeded", text)
        } else {
            Note::warning(end_event(state), format!("{reason}: {text}"))
        };
        self.move_to(status, state, reason, message).note(note)
    }

    fn move_to(
        &self,
        mut status: MaintenanceOccurrenceStatus,
        state: OccurrenceState,
        reason: &str,
        message: &str,
    ) -> Decision {
        status.state = Some(state);
        status.reason = Some(truncate(reason, MAX_REASON_CHARS));
        status.message = (!message.is_empty()).then(|| truncate(message, MAX_MESSAGE_CHARS));
        let generation = self.snapshot.occurrence.metadata.generation;
        status.observed_generation = generation;
        conditions::follow_state(&mut status, self.now, generation);
        if status == self.status && self.sealed() {
            return Decision::wait();
        }
        Decision::step(Step::Write(Box::new(status)))
    }
}

fn end_event(state: OccurrenceState) -> &'static str {
    match state {
        OccurrenceState::Cancelled => "Cancelled",
        OccurrenceState::Skipped => "Skipped",
        OccurrenceState::Superseded => "Superseded",
        _ => "Failed",
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_ends;
#[cfg(test)]
mod tests_person;
