//! The life of a run's attempts, the same for every kind that runs something: pure, except [`hands`].
//!
//! ```text
//!   Waiting ──prepare, commit──> Starting ──release──> Running ──> Over
//!      ^                            │                     │          ^
//!      └── another attempt ─────────┴──── Stopping, Unresolved ──────┘
//! ```
//!
//! [`decide`] gives one [`Step`] at a time. The hands take it, put its answer into the snapshot and
//! ask again, a bounded number of times. Every write is the seal of the object for the present term
//! if it was not sealed before, because it is conditional on the very version it was decided from.
//!
//! Whether a run may start is not decided here: the kind says so by a [`Right`], an occurrence by
//! its schedule's claim, a report job by its queue's ledger. The kind also gives the states their
//! names and says which conditions follow from them.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{
        ActionClass, Attempt, AttemptOutcome, MAX_REASON_CHARS, Resolution, RunSpec, Time, truncate,
    },
    identity::AttemptNames,
    providers::{Prepared, ProviderError, RunStatus},
};

pub mod conditions;
mod follow;
pub mod hands;
mod ignored;
mod note;
mod outcome;
mod person;
mod record;
mod start;

pub use ignored::is_about_ignored;
pub use note::Note;
pub use outcome::{DUPLICATE_POD, OUTCOME_UNKNOWN, RETRY_REQUESTED, RETRY_SCHEDULED, may_retry};
pub use person::RESOLVED_BY_PERSON;
pub use record::{Acceptance, End, Phase, Record, open_attempt};
pub use start::{CREATE_REFUSED, UNANSWERED_INTERVAL};

/// How long preparing is tried while the API server refuses, when there is no deadline.
pub const PREPARE_PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// Reason of a run whose provider gives no answer.
pub const PROVIDER_UNREACHABLE: &str = "ProviderUnreachable";
/// How long a provider that gives no answer is asked before the attempt is Unresolved.
pub const UNREACHABLE_PATIENCE: SignedDuration =
    SignedDuration::from_secs(UNREACHABLE_TIME.as_secs().cast_signed());
/// The same, for whoever waits.
pub const UNREACHABLE_TIME: std::time::Duration = std::time::Duration::from_secs(60);
/// How often an attempt whose end nobody knows is asked about again.
pub const UNRESOLVED_INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// How often a run that is being stopped, that was released and not seen started, or whose provider
/// tells nothing by itself, is looked at.
const WATCHFUL_INTERVAL: SignedDuration = SignedDuration::from_secs(2);
/// How often a running Job is looked at besides its watch, so that a lost event costs little.
const RUNNING_INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// A release is recorded if the run was not seen started by then; most start sooner, and are spared
/// the write.
pub const RECORD_RELEASE_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// Most disruptions that are made up for, apart from `maxAttempts`.
pub const MAX_DISRUPTIONS: usize = 5;
/// Most attempts of one run, people's retries included: the bound of the status list.
pub const MAX_ATTEMPTS: usize = 64;

/// Whether the next attempt may start, and whether a committed one may be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Right {
    /// Not decided in this term: nothing starts, and nothing is said.
    Undecided,
    /// Not yet, for the reason that is recorded: nothing is said.
    WaitsAsBefore,
    /// Not yet.
    Waits {
        /// Why, in one word.
        reason: &'static str,
        /// Why, in a sentence.
        message: String,
        /// When to look again, if nothing changes before.
        again: Option<Timestamp>,
    },
    /// Never: it ends, unless an attempt is committed.
    Denied {
        /// How it ends.
        end: End,
        /// Why, in one word.
        reason: String,
        /// Why, in a sentence.
        message: &'static str,
        /// Whether an attempt that is still held is stopped; else it waits for what follows.
        stops_held: bool,
    },
    /// It may.
    Start(Start),
}

/// The right to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Not before this moment.
    pub not_before: Timestamp,
    /// Not after this moment, if nothing was prepared by then.
    pub deadline: Option<Deadline>,
    /// Number of the attempt that may start; without one, the next.
    pub attempt: Option<i32>,
    /// Whether newer work replaces it, so that it stops.
    pub replaced: bool,
    /// Whether the object's own seal is the start decision, because no other object decides it.
    pub own_seal: bool,
}

/// When it is too late to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The last moment.
    pub end: Timestamp,
    /// What is said afterwards.
    pub message: &'static str,
}

/// What people ask for in the object's spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked<'a> {
    /// The generation of the spec.
    pub generation: Option<i64>,
    /// That it stops.
    pub cancel: bool,
    /// A decision about an attempt whose outcome nobody knows.
    pub resolution: Option<&'a Resolution>,
    /// What it should run, if the spec says it and a difference is worth a word.
    pub run: Option<&'a RunSpec>,
}

/// What a run may do and how often it is tried, the defaults of its kind filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The action class.
    pub class: ActionClass,
    /// Attempts in all, disruptions apart.
    pub attempts: i32,
}

/// The identity of the work for systems outside the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// 32 hex digits; delays between attempts are a function of it.
    pub id: String,
    /// Equal over attempts: what an idempotent receiver deduplicates by.
    pub request_id: String,
    /// Names and keys of the attempts.
    pub attempts: AttemptNames,
}

/// What an artifact means to the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactRule {
    /// It has none; what a run says of one is ignored.
    None,
    /// It is accepted if there is one.
    Optional,
    /// Success without one is not success.
    Required,
}

/// How the kind speaks to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Event of [`End::NotRun`].
    pub not_run: &'static str,
    /// Event of [`End::Superseded`].
    pub superseded: &'static str,
    /// What to do to run something else.
    pub run_other: &'static str,
}

/// Everything a decision about a run depends on.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// The life so far, as the version says that the decision's write replaces.
    pub record: Record,
    /// The name of the state it is in.
    pub state: String,
    /// The generation of the spec that was acted on last.
    pub observed: Option<i64>,
    /// Whether that version carries the fence of the present term.
    pub sealed: bool,
    /// Epoch of the present term.
    pub epoch: i64,
    /// What people ask for.
    pub asked: Asked<'a>,
    /// Whether it may start.
    pub right: Right,
    /// The run that is in force: as sealed first, else as it will be sealed.
    pub run: Option<RunSpec>,
    /// Class and attempts of that run.
    pub limits: Limits,
    /// Identity.
    pub work: Work,
    /// What an artifact means.
    pub artifact: ArtifactRule,
    /// How long a start, and the pod it has, are not worth a write of their own: most runs of the
    /// kind are over by then, and the write at their end says it all. Until then there is no pod to
    /// prove an end by. Zero: every start is recorded.
    pub spare: SignedDuration,
    /// The moment its lateness counts from, if it has one.
    pub due: Option<Timestamp>,
    /// Since when creating what it runs has been refused, as recorded.
    pub refused_since: Option<Timestamp>,
    /// How its kind speaks.
    pub words: Words,
    /// What was heard and done about the attempt that is under way, or about the one to come.
    pub heard: &'a Heard,
    /// The newest generation of which people were told that something in it is ignored, as far as
    /// this process knows.
    pub told: Option<i64>,
    /// Whether the wall clock agrees with the API server's. If not, nothing ends or starts because
    /// of a time.
    pub trust_clock: bool,
}

/// What a pass has heard and done about one attempt: the newest, or the one that is to be prepared.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Answer to the last [`Step::Prepare`].
    pub prepared: Option<Prepared>,
    /// Answer to the last [`Step::Withdraw`].
    pub withdrawn: Option<Withdrawn>,
    /// Answer to the last [`Step::Ask`].
    pub answer: Option<Result<RunStatus, ProviderError>>,
    /// Since when the provider has not answered, as far as this process knows.
    pub unreachable_since: Option<Timestamp>,
    /// Whether this pass already asked the provider to cancel.
    pub cancelled: bool,
}

impl Heard {
    /// Forgets everything if another attempt is the newest in what was stored than in what was read.
    pub fn go_on(&mut self, read: &[Attempt], stored: &[Attempt]) {
        if record::newest_attempt(stored) != record::newest_attempt(read) {
            *self = Self::default();
        }
    }
}

/// Whether it is certain that nothing runs of an attempt that was not committed; if not, why.
pub type Withdrawn = Result<(), String>;

/// One step. `W` is what is written: a [`Change`] of the record, and for the hands a whole status.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<W> {
    /// Nothing to do until something changes or `wake_at`.
    Wait,
    /// Write this.
    Write(Box<W>),
    /// Ask the provider to prepare attempt `attempt` of `run`.
    Prepare {
        /// Number of the attempt.
        attempt: i32,
        /// What it runs.
        run: Box<RunSpec>,
    },
    /// Ask the provider to take back what may have been prepared for attempt `attempt` of `run`, of
    /// which nothing is committed.
    Withdraw {
        /// Number of the attempt.
        attempt: i32,
        /// What it would run.
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

/// What a write changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Nothing: the status as it is, with the present term's fence.
    Seal,
    /// The life goes on like this.
    To(Box<Record>),
}

/// A step, when to look again, and what is worth an event once the step is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<W> {
    /// What to do now.
    pub step: Step<W>,
    /// When to look again at the latest.
    pub wake_at: Option<Timestamp>,
    /// Events.
    pub notes: Vec<Note>,
}

impl<W> Decision<W> {
    /// Nothing to do.
    pub fn wait() -> Self {
        Self::step(Step::Wait)
    }

    /// This step, and nothing to say.
    pub fn step(step: Step<W>) -> Self {
        Self { step, wake_at: None, notes: Vec::new() }
    }

    /// Looks again at `at` too.
    #[must_use]
    pub fn wake_at(mut self, at: Option<Timestamp>) -> Self {
        self.wake_at = match (self.wake_at, at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self
    }

    /// Says this too.
    #[must_use]
    pub fn note(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }

    /// The same with what is written put into another form; without a form there is nothing to do.
    pub fn written<S>(self, form: impl FnOnce(W) -> Option<S>) -> Decision<S> {
        let step = match self.step {
            Step::Wait => Step::Wait,
            Step::Write(what) => {
                form(*what).map_or(Step::Wait, |written| Step::Write(Box::new(written)))
            }
            Step::Prepare { attempt, run } => Step::Prepare { attempt, run },
            Step::Withdraw { attempt, run } => Step::Withdraw { attempt, run },
            Step::Release { attempt } => Step::Release { attempt },
            Step::Ask { attempt } => Step::Ask { attempt },
            Step::Cancel { attempt, recorded } => Step::Cancel { attempt, recorded },
        };
        Decision { step, wake_at: self.wake_at, notes: self.notes }
    }
}

/// Decides the next step. Pure: equal snapshots and times give equal decisions.
pub fn decide(snapshot: &Snapshot<'_>, now: Timestamp) -> Decision<Change> {
    let view = View::of(snapshot, now);
    let mut decision = view.next();
    decision.notes.extend(view.ignored());
    decision
}

/// What of the spec has no effect, unless that was said: for a kind that decides something itself.
pub fn ignored(snapshot: &Snapshot<'_>, now: Timestamp) -> Vec<Note> {
    View::of(snapshot, now).ignored()
}

struct View<'a> {
    snapshot: &'a Snapshot<'a>,
    record: &'a Record,
    phase: Phase,
    now: Timestamp,
}

impl<'a> View<'a> {
    fn of(snapshot: &'a Snapshot<'a>, now: Timestamp) -> Self {
        Self { snapshot, record: &snapshot.record, phase: snapshot.record.phase(), now }
    }

    fn next(&self) -> Decision<Change> {
        if self.phase.is_over() {
            return self.after_the_end();
        }
        match self.record.open_attempt() {
            Some(attempt) => self.follow(attempt),
            None => self.begin(),
        }
    }

    fn after(&self, delay: SignedDuration) -> Option<Timestamp> {
        self.now.checked_add(delay).ok()
    }

    /// The record with the newest attempt closed.
    fn close(
        &self,
        outcome: AttemptOutcome,
        started: Option<Timestamp>,
        completed: Option<Timestamp>,
        reason: &str,
    ) -> Record {
        let mut record = self.record.clone();
        if let Some(last) = record.attempts.last_mut() {
            if let Some(started) = started {
                last.start_time.get_or_insert(Time::new(started));
            }
            last.completion_time = Some(Time::new(completed.unwrap_or(self.now)));
            last.outcome = Some(outcome);
            last.reason = Some(truncate(reason, MAX_REASON_CHARS));
            if let (1, Some(started)) = (last.number, last.start_time) {
                self.lateness(&mut record, started.0);
            }
        }
        record
    }

    /// Whether something that happened at `since` is not worth a write yet.
    fn spared(&self, since: Timestamp) -> bool {
        let spare = self.snapshot.spare;
        let worth_it = spare.is_zero() || self.phase == Phase::Unresolved;
        !worth_it && self.now.duration_since(since) < spare
    }

    /// How late the first start was, once and for all.
    fn lateness(&self, record: &mut Record, started: Timestamp) {
        if let Some(due) = self.snapshot.due {
            let late = started.duration_since(due).as_secs().max(0);
            record.lateness_seconds.get_or_insert(late);
        }
    }

    /// Waits, and says why once.
    fn pending(&self, reason: &str, message: &str) -> Decision<Change> {
        if self.record.phase == Some(Phase::Waiting)
            && self.record.reason.as_deref() == Some(reason)
        {
            return Decision::wait();
        }
        move_to(self.record.clone(), Phase::Waiting, reason, message)
    }

    fn end(&self, end: End, reason: &str, message: &str) -> Decision<Change> {
        self.end_with(self.record.clone(), end, reason, message)
    }

    fn end_with(
        &self,
        mut record: Record,
        end: End,
        reason: &str,
        message: &str,
    ) -> Decision<Change> {
        record.id.get_or_insert_with(|| self.snapshot.work.id.clone());
        record.next_attempt_time = None;
        let text = if message.is_empty() { reason } else { message };
        let note = match end {
            End::Succeeded => Note::normal("Succeeded", text),
            _ => Note::warning(self.end_event(end), format!("{reason}: {text}")),
        };
        move_to(record, Phase::Over(end), reason, message).note(note)
    }

    fn end_event(&self, end: End) -> &'static str {
        match end {
            End::Succeeded => "Succeeded",
            End::Failed => "Failed",
            End::Cancelled => "Cancelled",
            End::NotRun => self.snapshot.words.not_run,
            End::Superseded => self.snapshot.words.superseded,
        }
    }
}

/// Writes the status as it is, with the present term's fence.
fn seal() -> Decision<Change> {
    Decision::step(Step::Write(Box::new(Change::Seal)))
}

/// Writes that the life stands so now.
fn move_to(mut record: Record, phase: Phase, reason: &str, message: &str) -> Decision<Change> {
    record.phase = Some(phase);
    record.reason = Some(truncate(reason, MAX_REASON_CHARS));
    record.message = (!message.is_empty()).then(|| message.to_owned());
    Decision::step(Step::Write(Box::new(Change::To(Box::new(record)))))
}
