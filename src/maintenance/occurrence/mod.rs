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
        MaintenanceOccurrence, MaintenanceOccurrenceStatus, OccurrenceState, PodRef, Resolution,
        ResolutionDecision, RunSpec, Time, set_condition, truncate,
    },
    identity::WorkId,
    providers::{FailureClass, Prepared, ProviderError, RunStatus, Waiting},
    retry,
};

/// How long preparing is tried while the API server refuses, when there is no deadline.
const PREPARE_PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// How long a provider that gives no answer is asked before the attempt is Unresolved.
pub const UNREACHABLE_PATIENCE: SignedDuration = SignedDuration::from_secs(60);
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

pub mod standing;

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
    if view.state.is_terminal() {
        return view.after_the_end();
    }
    match view.open_attempt() {
        Some(attempt) => view.follow(attempt),
        None => view.begin(),
    }
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

    // ---- no attempt is open ----------------------------------------------------------------

    fn begin(&self) -> Decision {
        let spec = &self.snapshot.occurrence.spec;
        if spec.cancel {
            return self.end(
                OccurrenceState::Cancelled,
                "CancelRequested",
                "cancelled before it started",
            );
        }
        let prepared_before = !self.status.attempts.is_empty();
        match &self.snapshot.standing {
            Standing::Undecided => Decision::wait(),
            Standing::Waiting => self.pending("Waiting", "waits until what runs before it is over"),
            Standing::Ghost { skipped: Some(reason) } => {
                let reason = format!("{reason:?}");
                self.end(OccurrenceState::Skipped, &reason, "its schedule decided not to run this instant")
            }
            Standing::Ghost { skipped: None } => self.end(
                OccurrenceState::Superseded,
                "NotClaimed",
                "its schedule decided this instant without it; it was never run",
            ),
            Standing::RecordPruned => self.end(
                OccurrenceState::Skipped,
                "RecordPruned",
                "records up to this instant were removed, so it may have run; trigger another instant",
            ),
            Standing::RunNotAllowed => self.end(
                OccurrenceState::Skipped,
                "RunNotAllowed",
                "its schedule exists, so spec.run must be absent: it runs what the schedule says",
            ),
            Standing::ScheduleGone => self.begin_without_schedule(prepared_before),
            Standing::Started { not_before, deadline, replaced } => {
                if *replaced {
                    return self.end(OccurrenceState::Cancelled, "Replaced", "a newer instant replaced it");
                }
                self.begin_started(*not_before, *deadline, prepared_before)
            }
        }
    }

    fn begin_without_schedule(&self, prepared_before: bool) -> Decision {
        let spec = &self.snapshot.occurrence.spec;
        if spec.schedule_uid.is_some() && !prepared_before {
            return self.end(
                OccurrenceState::Superseded,
                "ScheduleDeleted",
                "its schedule was deleted before it started",
            );
        }
        if effective_run(self.snapshot).is_none() {
            let message = format!(
                "there is no MaintenanceSchedule {:?} in this namespace; create it, or delete this occurrence",
                spec.schedule_name
            );
            return self
                .pending("ScheduleNotFound", &message)
                .wake_at(self.after(UNRESOLVED_INTERVAL));
        }
        self.begin_started(spec.intended_time.timestamp(), None, prepared_before)
    }

    fn begin_started(
        &self,
        not_before: Timestamp,
        deadline: Option<Timestamp>,
        prepared_before: bool,
    ) -> Decision {
        if !self.snapshot.trust_clock {
            return Decision::wait().wake_at(self.after(WATCHFUL_INTERVAL));
        }
        if self.now < not_before {
            return self
                .pending("Spread", &format!("starts at {not_before}"))
                .wake_at(Some(not_before));
        }
        if !prepared_before && deadline.is_some_and(|end| self.now > end) {
            return self.end(
                OccurrenceState::Skipped,
                "Deadline",
                "spec.startingDeadlineSeconds of its schedule passed before it could start",
            );
        }
        if let Some(at) = self.status.next_attempt_time.filter(|at| at.0 > self.now) {
            return Decision::wait().wake_at(Some(at.0));
        }
        self.prepare()
    }

    fn prepare(&self) -> Decision {
        let number = self.status.attempts.last().map_or(1, |a| a.number + 1);
        let Some(run) = effective_run(self.snapshot) else {
            return self.pending("ScheduleNotFound", "nothing says what to run");
        };
        match &self.snapshot.prepared {
            // With a schedule, its seal and claim are the start decision; without, the own seal is.
            None if self.snapshot.standing == Standing::ScheduleGone && !self.sealed() => {
                self.seal()
            }
            None => Decision::step(Step::Prepare { attempt: number, run: Box::new(run) }),
            Some(Prepared::Ready { handle }) => self.commit(number, run, handle),
            Some(Prepared::Refused { message }) => {
                let mut status = self.status.clone();
                set_condition(&mut status.conditions, self.accepted(false, "RunRefused", message));
                self.end_with(status, OccurrenceState::Failed, "RunRefused", message)
            }
            Some(Prepared::NameConflict { message }) => {
                self.end(OccurrenceState::Skipped, "NameConflict", message)
            }
            Some(Prepared::NotYet { message }) => self.not_prepared(message),
        }
    }

    fn accepted(&self, holds: bool, reason: &str, message: &str) -> crate::api::Condition {
        let generation = self.snapshot.occurrence.metadata.generation;
        conditions::condition(conditions::ACCEPTED, holds, reason, message, self.now, generation)
    }

    /// The API server refuses for now (quota, a namespace that ends): tried again, for a while.
    fn not_prepared(&self, message: &str) -> Decision {
        let since = self
            .status
            .conditions
            .iter()
            .find(|c| c.r#type == conditions::ACCEPTED && c.reason == "CreateRefused")
            .map(|c| c.last_transition_time.0);
        if since.is_some_and(|since| self.now.duration_since(since) >= PREPARE_PATIENCE) {
            return self.end(OccurrenceState::Skipped, "CreateRefused", message);
        }
        let retry_at = self.after(SignedDuration::from_secs(5));
        let mut status = self.status.clone();
        set_condition(&mut status.conditions, self.accepted(false, "CreateRefused", message));
        let decision = self.move_to(status, OccurrenceState::Pending, "CreateRefused", message);
        decision.wake_at(retry_at)
    }

    /// Records the handle in the parent: from here on only this handle can be released.
    fn commit(&self, number: i32, run: RunSpec, handle: &str) -> Decision {
        let work = work_id(&self.snapshot.occurrence);
        let mut status = self.status.clone();
        status.id = Some(work.id());
        status.run = Some(run);
        status.attempt = Some(number);
        status.next_attempt_time = None;
        status.attempts.push(Attempt {
            number,
            run_key: work.maintenance_run_key(number),
            handle: Some(handle.to_owned()),
            pod: None,
            epoch: self.snapshot.fence.epoch,
            prepared_time: Some(Time::new(self.now)),
            released_time: None,
            start_time: None,
            completion_time: None,
            stop_requested_time: None,
            stop_reason: None,
            unreachable_since_time: None,
            outcome: None,
            reason: None,
        });
        set_condition(&mut status.conditions, self.accepted(true, "Accepted", ""));
        self.move_to(
            status,
            OccurrenceState::Starting,
            "Prepared",
            "prepared, about to be released",
        )
    }

    // ---- an attempt is open ----------------------------------------------------------------

    fn follow(&self, attempt: &Attempt) -> Decision {
        if let Some(decision) = self.resolve(attempt) {
            return decision;
        }
        let Some(answer) = &self.snapshot.answer else {
            return Decision::step(Step::Ask { attempt: attempt.number });
        };
        match answer {
            Err(ProviderError::Unreachable(why)) => self.unreachable(attempt, why),
            Err(ProviderError::NotLeading) => Decision::wait(),
            Err(ProviderError::Conflict(_)) => Decision::wait().wake_at(Some(self.now)),
            Ok(answer) => self.answered(attempt, answer),
        }
    }

    fn answered(&self, attempt: &Attempt, answer: &RunStatus) -> Decision {
        match answer {
            RunStatus::Held => self.held(attempt),
            RunStatus::Released { pod, waiting } => {
                self.released(attempt, pod.as_ref(), waiting.as_ref())
            }
            RunStatus::Running { started, pod } => self.running(attempt, *started, pod.as_ref()),
            RunStatus::Stopping => self.going_away(attempt),
            RunStatus::StoppedByOthers { message } => {
                self.stop(attempt, "SuspendedByOthers", message)
            }
            RunStatus::Succeeded { started, completed, result, result_lost } => {
                let mut status =
                    self.close(AttemptOutcome::Succeeded, *started, *completed, "Completed");
                status.result.clone_from(result);
                let (reason, message) = if *result_lost {
                    ("ResultLost", "it succeeded; what it reported could not be read")
                } else {
                    ("Completed", "it ran and succeeded")
                };
                self.end_with(status, OccurrenceState::Succeeded, reason, message)
            }
            RunStatus::Failed { started, completed, reason, message, class } => {
                self.failed(attempt, *started, *completed, reason, message, *class)
            }
            RunStatus::Absent => self.absent(attempt),
            RunStatus::Unknown { reason, message } => self.unknown(attempt, reason, message),
        }
    }

    /// Why the attempt should stop, if it should.
    fn stop_reason(
        &self,
        attempt: &Attempt,
        started: Option<Timestamp>,
    ) -> Option<(&'static str, String)> {
        if self.snapshot.occurrence.spec.cancel {
            return Some(("CancelRequested", "spec.cancel was set".to_owned()));
        }
        if matches!(self.snapshot.standing, Standing::Started { replaced: true, .. }) {
            return Some(("Replaced", "a newer instant replaces it".to_owned()));
        }
        if !self.snapshot.trust_clock {
            return None;
        }
        let run = self.status.run.as_ref()?;
        match started {
            None => {
                let limit = i64::from(run.start_timeout());
                let base = attempt.released_time.or(attempt.prepared_time)?;
                (self.now.duration_since(base.0) >= SignedDuration::from_secs(limit)).then(|| {
                    (
                        "NeverStarted",
                        format!("it did not start within {limit} s (run.startTimeoutSeconds)"),
                    )
                })
            }
            Some(started) => {
                let limit = i64::from(run.timeout_seconds?);
                (self.now.duration_since(started) >= SignedDuration::from_secs(limit)).then(|| {
                    (
                        "DeadlineExceeded",
                        format!("it ran longer than {limit} s (run.timeoutSeconds)"),
                    )
                })
            }
        }
    }

    fn held(&self, attempt: &Attempt) -> Decision {
        let stop = if self.snapshot.occurrence.spec.cancel {
            Some(("CancelRequested", "spec.cancel was set"))
        } else {
            match &self.snapshot.standing {
                Standing::Started { replaced: true, .. } => {
                    Some(("Replaced", "a newer instant replaces it"))
                }
                Standing::Ghost { .. } => {
                    Some(("NotClaimed", "its claim was dropped before it was released"))
                }
                _ => None,
            }
        };
        if attempt.stop_requested_time.is_some() || stop.is_some() {
            let (reason, message) = stop.unwrap_or(("Stopped", "stopping was requested"));
            return self.stop(attempt, reason, message);
        }
        match self.snapshot.standing {
            Standing::Started { .. } | Standing::ScheduleGone if self.sealed() => {
                Decision::step(Step::Release { attempt: attempt.number })
            }
            Standing::Started { .. } | Standing::ScheduleGone => self.seal(),
            // Not decided in this term yet: the schedule is sealed first.
            _ => Decision::wait(),
        }
    }

    fn released(
        &self,
        attempt: &Attempt,
        pod: Option<&PodRef>,
        waiting: Option<&Waiting>,
    ) -> Decision {
        if attempt.stop_requested_time.is_some() {
            return self.stop(attempt, "Stopped", "stopping was requested");
        }
        let mut status = self.status.clone();
        let mut reason = status.reason.clone().unwrap_or_default();
        let mut message = status.message.clone().unwrap_or_default();
        let base = attempt.released_time.or(attempt.prepared_time).map_or(self.now, |t| t.0);
        if let Some(last) = status.attempts.last_mut() {
            if pod.is_some() {
                last.pod = pod.cloned();
            }
            let slow = self.now.duration_since(base) >= RECORD_RELEASE_AFTER;
            if last.released_time.is_none() && slow {
                last.released_time = Some(Time::new(self.now));
                reason = "Released".to_owned();
                message = "released; no container has started yet".to_owned();
            }
        }
        // Said once: what keeps a pod waiting alternates (ErrImagePull, ImagePullBackOff).
        if let Some(waiting) =
            waiting.filter(|_| ["Prepared", "Released"].contains(&reason.as_str()))
        {
            (reason, message) = (waiting.reason.clone(), waiting.message.clone());
        }
        if let Some((stop, why)) = self.stop_reason(attempt, None) {
            let known =
                waiting.map(|w| format!("; {}: {}", w.reason, w.message)).unwrap_or_default();
            return self.stop(attempt, stop, &format!("{why}{known}"));
        }
        self.move_to(status, OccurrenceState::Starting, &reason, &message)
            .wake_at(self.after(WATCHFUL_INTERVAL))
    }

    /// It goes away: because it was asked to, or because someone else deletes it.
    fn going_away(&self, attempt: &Attempt) -> Decision {
        if attempt.stop_requested_time.is_some() && !self.snapshot.cancelled {
            return self.stop(attempt, "Stopped", "stopping was requested");
        }
        self.cancelling(attempt).wake_at(self.after(WATCHFUL_INTERVAL))
    }

    fn running(&self, attempt: &Attempt, started: Timestamp, pod: Option<&PodRef>) -> Decision {
        let mut status = self.status.clone();
        let intended = self.snapshot.occurrence.spec.intended_time.timestamp();
        let first = attempt.number == 1;
        if let Some(last) = status.attempts.last_mut() {
            last.start_time.get_or_insert(Time::new(started));
            if pod.is_some() {
                last.pod = pod.cloned();
            }
            last.outcome = None;
            last.unreachable_since_time = None;
        }
        if first && status.lateness_seconds.is_none() {
            status.lateness_seconds = Some(started.duration_since(intended).as_secs().max(0));
        }
        if attempt.stop_requested_time.is_some() {
            return self.stop(attempt, "Stopped", "stopping was requested");
        }
        let changed = status != self.status || self.state != OccurrenceState::Running;
        // The start and the pod are recorded first: they are the proof that a stop needs later.
        if changed {
            return self.move_to(status, OccurrenceState::Running, "Running", "");
        }
        if let Some((reason, message)) = self.stop_reason(attempt, Some(started)) {
            return self.stop(attempt, reason, &message);
        }
        let timeout = self.status.run.as_ref().and_then(|run| run.timeout_seconds);
        let ends =
            timeout.and_then(|s| started.checked_add(SignedDuration::from_secs(i64::from(s))).ok());
        Decision::wait().wake_at(self.after(RUNNING_INTERVAL)).wake_at(ends)
    }

    /// First records the wish to stop in the sealed parent, then asks the provider.
    fn stop(&self, attempt: &Attempt, reason: &str, message: &str) -> Decision {
        if attempt.stop_requested_time.is_none() {
            let mut status = self.status.clone();
            if let Some(last) = status.attempts.last_mut() {
                last.stop_requested_time = Some(Time::new(self.now));
                last.stop_reason = Some(reason.to_owned());
            }
            return self
                .move_to(status, OccurrenceState::Cancelling, reason, message)
                .note(Note::normal("Stopping", message));
        }
        if !self.sealed() {
            return self.seal();
        }
        if self.snapshot.cancelled {
            return self.cancelling(attempt).wake_at(self.after(WATCHFUL_INTERVAL));
        }
        Decision::step(Step::Cancel { attempt: attempt.number, recorded: false })
    }

    /// Stopping is under way: the state says so.
    fn cancelling(&self, attempt: &Attempt) -> Decision {
        if self.state == OccurrenceState::Cancelling || attempt.stop_requested_time.is_none() {
            return Decision::wait();
        }
        let reason = attempt.stop_reason.clone().unwrap_or_default();
        self.move_to(self.status.clone(), OccurrenceState::Cancelling, &reason, "being stopped")
    }

    fn absent(&self, attempt: &Attempt) -> Decision {
        if attempt.stop_requested_time.is_some() {
            return self.stopped(attempt, None, None);
        }
        if self.state == OccurrenceState::Unresolved && self.snapshot.occurrence.spec.cancel {
            return self.stopped(attempt, None, None);
        }
        let status = self.close(AttemptOutcome::Failed, None, None, "Deleted");
        self.end_with(
            status,
            OccurrenceState::Failed,
            "Deleted",
            "what ran it was deleted by someone else",
        )
    }

    /// It was asked to stop, and can no longer act.
    fn stopped(
        &self,
        attempt: &Attempt,
        started: Option<Timestamp>,
        completed: Option<Timestamp>,
    ) -> Decision {
        let reason = attempt.stop_reason.clone().unwrap_or_else(|| "CancelRequested".to_owned());
        let (outcome, state, message) = match reason.as_str() {
            // The message of the stop says what limit it was, and what kept it from starting.
            "NeverStarted" | "DeadlineExceeded" => (
                AttemptOutcome::Failed,
                OccurrenceState::Failed,
                self.status.message.as_deref().unwrap_or_default(),
            ),
            "SuspendedByOthers" => (
                AttemptOutcome::Failed,
                OccurrenceState::Failed,
                "someone else suspended its Job; it is not released again",
            ),
            "NotClaimed" => (
                AttemptOutcome::Cancelled,
                OccurrenceState::Superseded,
                "its claim was dropped before it was released",
            ),
            _ => (AttemptOutcome::Cancelled, OccurrenceState::Cancelled, "stopped on request"),
        };
        let status = self.close(outcome, started, completed, &reason);
        self.end_with(status, state, &reason, message)
    }

    fn failed(
        &self,
        attempt: &Attempt,
        started: Option<Timestamp>,
        completed: Option<Timestamp>,
        reason: &str,
        message: &str,
        class: FailureClass,
    ) -> Decision {
        if attempt.stop_requested_time.is_some() {
            return self.stopped(attempt, started, completed);
        }
        let mut status = self.close(AttemptOutcome::Failed, started, completed, reason);
        if self.snapshot.occurrence.spec.cancel {
            return self.end_with(status, OccurrenceState::Cancelled, "CancelRequested", message);
        }
        match self.may_retry(&status, reason, class) {
            Err(why) => {
                self.end_with(status, OccurrenceState::Failed, reason, &format!("{message}{why}"))
            }
            Ok(()) => {
                let n = u32::try_from(attempt.number).unwrap_or(1);
                let key = work_id(&self.snapshot.occurrence).id();
                let delay = retry::delay(&retry::RUN, &key, n);
                let ended = completed.unwrap_or(self.now);
                let next = ended
                    .checked_add(SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO))
                    .unwrap_or(self.now);
                status.next_attempt_time = Some(Time::new(next));
                self.move_to(
                    status,
                    OccurrenceState::Pending,
                    "RetryScheduled",
                    &format!("attempt {n} failed ({reason}): {message}"),
                )
                .wake_at(Some(next))
            }
        }
    }

    /// Whether another attempt follows; `status` has the failed one closed already.
    fn may_retry(
        &self,
        status: &MaintenanceOccurrenceStatus,
        reason: &str,
        class: FailureClass,
    ) -> Result<(), &'static str> {
        if status.attempts.len() >= MAX_ATTEMPTS {
            return Err(" (no more attempts are kept)");
        }
        let failed =
            |r: &str| status.attempts.iter().filter(|a| a.reason.as_deref() == Some(r)).count();
        let disruptions = |a: &&Attempt| a.reason.as_deref().is_some_and(is_disruption);
        let limit = status.run.as_ref().map_or(1, RunSpec::maintenance_attempts);
        let used = status.attempts.len() - status.attempts.iter().filter(disruptions).count();
        match class {
            FailureClass::Disruption
                if status.attempts.iter().filter(disruptions).count() <= MAX_DISRUPTIONS
                    && limit > 1 =>
            {
                Ok(())
            }
            FailureClass::Disruption => Err(" (not tried again)"),
            FailureClass::Deterministic if failed(reason) >= 2 => {
                Err(" (the second equal failure; not tried again)")
            }
            FailureClass::Deterministic | FailureClass::Transient => {
                if used < usize::try_from(limit).unwrap_or(1) { Ok(()) } else { Err("") }
            }
        }
    }

    /// Nobody knows how it ended.
    fn unknown(&self, attempt: &Attempt, reason: &str, message: &str) -> Decision {
        let must_stop = reason == "DuplicatePod" || self.snapshot.occurrence.spec.cancel;
        if must_stop && attempt.stop_requested_time.is_none() {
            return self.stop(
                attempt,
                if reason == "DuplicatePod" { reason } else { "CancelRequested" },
                message,
            );
        }
        if attempt.stop_requested_time.is_some() && !self.snapshot.cancelled {
            return self.stop(attempt, reason, message);
        }
        if self.class() == ActionClass::ReadOnly && attempt.stop_requested_time.is_none() {
            let mut status = self.close(AttemptOutcome::Unknown, None, None, reason);
            if let Some(last) = status.attempts.last_mut() {
                // A read may be repeated: the attempt is over for us, whatever became of it.
                last.outcome = Some(AttemptOutcome::Failed);
            }
            if self.may_retry(&status, reason, FailureClass::Transient).is_ok() {
                return self.failed(attempt, None, None, reason, message, FailureClass::Transient);
            }
        }
        self.unresolved(reason, message)
    }

    fn unreachable(&self, attempt: &Attempt, why: &str) -> Decision {
        let since = self.snapshot.unreachable_since.unwrap_or(self.now);
        let key = format!("{}/{}", attempt.run_key, since.as_second());
        let waited = self.now.duration_since(since);
        if waited >= UNREACHABLE_PATIENCE && self.state != OccurrenceState::Unresolved {
            return self.unresolved("ProviderUnreachable", why);
        }
        let tries = u32::try_from(waited.as_secs().max(0) / 2).unwrap_or(0) + 1;
        let delay = retry::delay(&retry::PROVIDER, &key, tries);
        Decision::wait()
            .wake_at(self.after(SignedDuration::try_from(delay).unwrap_or(WATCHFUL_INTERVAL)))
    }

    fn unresolved(&self, reason: &str, message: &str) -> Decision {
        let again = self.after(UNRESOLVED_INTERVAL);
        if self.state == OccurrenceState::Unresolved
            && self.status.reason.as_deref() == Some(reason)
        {
            return Decision::wait().wake_at(again);
        }
        let mut status = self.status.clone();
        if let Some(last) = status.attempts.last_mut() {
            last.outcome = Some(AttemptOutcome::Unknown);
            last.reason = Some(truncate(reason, MAX_REASON_CHARS));
        }
        self.move_to(status, OccurrenceState::Unresolved, reason, message)
            .wake_at(again)
            .note(Note::warning(
                "Unresolved",
                format!("nobody knows how attempt {} ended: {message}; set spec.resolution when you know", self.status.attempts.len()),
            ))
    }

    // ---- a person decides ------------------------------------------------------------------

    /// The person's decision about this attempt, if there is one that applies.
    fn resolution(&self, attempt: &Attempt) -> Option<&Resolution> {
        self.snapshot
            .occurrence
            .spec
            .resolution
            .as_ref()
            .filter(|r| self.state == OccurrenceState::Unresolved && r.attempt == attempt.number)
    }

    fn resolve(&self, attempt: &Attempt) -> Option<Decision> {
        let resolution = self.resolution(attempt)?;
        let note = Note::normal(
            "Resolved",
            format!(
                "a person decided {:?} for attempt {}: {}",
                resolution.decision, attempt.number, resolution.reason
            ),
        );
        let message = format!("decided by a person: {}", resolution.reason);
        Some(match resolution.decision {
            ResolutionDecision::Succeeded => {
                let status = self.close(AttemptOutcome::Succeeded, None, None, "ResolvedByPerson");
                self.end_with(status, OccurrenceState::Succeeded, "ResolvedByPerson", &message)
                    .note(note)
            }
            ResolutionDecision::Failed => {
                let status = self.close(AttemptOutcome::Failed, None, None, "ResolvedByPerson");
                self.end_with(status, OccurrenceState::Failed, "ResolvedByPerson", &message)
                    .note(note)
            }
            ResolutionDecision::Retry => self.resolve_by_retry(attempt, resolution)?.note(note),
        })
    }

    /// `Retry`: the old run is cancelled first; it must be proven over, unless the person accepts
    /// that it may run twice. `None` means: follow the attempt as usual first.
    fn resolve_by_retry(&self, attempt: &Attempt, resolution: &Resolution) -> Option<Decision> {
        if attempt.stop_requested_time.is_none() {
            return Some(self.stop_unresolved("RetryRequested"));
        }
        let over = match self.snapshot.answer.as_ref()? {
            Ok(RunStatus::Absent | RunStatus::Failed { .. }) => true,
            Ok(RunStatus::Succeeded { .. }) => return None, // a definite answer wins
            _ => false,
        };
        if !over && !self.snapshot.cancelled && self.sealed() {
            return Some(Decision::step(Step::Cancel { attempt: attempt.number, recorded: false }));
        }
        if !over && !resolution.accept_duplicate {
            return None;
        }
        let mut status = self.close(AttemptOutcome::Failed, None, None, "RetryRequested");
        if status.attempts.len() >= MAX_ATTEMPTS {
            return None;
        }
        status.next_attempt_time = Some(Time::new(self.now));
        Some(self.move_to(
            status,
            OccurrenceState::Pending,
            "RetryRequested",
            "a person asked for another attempt",
        ))
    }

    /// Records the wish to stop without leaving Unresolved.
    fn stop_unresolved(&self, reason: &str) -> Decision {
        let mut status = self.status.clone();
        if let Some(last) = status.attempts.last_mut() {
            last.stop_requested_time = Some(Time::new(self.now));
            last.stop_reason = Some(reason.to_owned());
        }
        let (r, m) =
            (status.reason.clone().unwrap_or_default(), status.message.clone().unwrap_or_default());
        self.move_to(status, OccurrenceState::Unresolved, &r, &m)
    }

    /// After a person's `Succeeded` or `Failed` the old handle is cancelled, best effort.
    fn after_the_end(&self) -> Decision {
        let by_person = self.status.reason.as_deref() == Some("ResolvedByPerson");
        match self.status.attempts.last() {
            Some(attempt) if by_person && self.sealed() && !self.snapshot.cancelled => {
                Decision::step(Step::Cancel { attempt: attempt.number, recorded: true })
            }
            _ => Decision::wait(),
        }
    }

    // ---- writing ---------------------------------------------------------------------------

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
            last.unreachable_since_time = None;
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

/// Whether an attempt's reason is a disruption by the platform, counted apart from `maxAttempts`.
fn is_disruption(reason: &str) -> bool {
    matches!(reason, "Evicted" | "Preempted" | "NodeLost" | "Disruption")
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
