//! What is recorded of a run's life, whatever the kind calls its states.

use std::collections::BTreeMap;

use super::MAX_ATTEMPTS;
use crate::api::{AcceptedArtifact, Attempt, AttemptOutcome, ResultValue, RunSpec, Time};

/// How a run's life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran and succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled; nothing of it acts any more.
    Cancelled,
    /// It was not run; the reason says why.
    NotRun,
    /// It was not run, because a newer decision took its place.
    Superseded,
}

/// Where a run's life stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No attempt is open: it waits for its turn, or for the next attempt.
    Waiting,
    /// An attempt is committed and was not seen started.
    Starting,
    /// It was seen started.
    Running,
    /// It is being stopped; the provider has not confirmed.
    Stopping,
    /// Nobody knows how it ended; it waits for the provider or a person. Not an end.
    Unresolved,
    /// Nothing more will happen.
    Over(End),
}

impl Phase {
    /// Whether nothing more will happen.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Over(_))
    }
}

/// Whether the run was accepted, as a write says it newly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// Whether it was.
    pub holds: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub message: String,
}

/// The life of one run. Statuses convert to it and back; nothing of it is lost on the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Where it stands; `None` before the first decision.
    pub phase: Option<Phase>,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, in a sentence. Cut to its bound where it is written.
    pub message: Option<String>,
    /// The identity for systems outside the cluster.
    pub id: Option<String>,
    /// Number of the newest attempt.
    pub attempt: Option<i32>,
    /// The attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// What the run reported.
    pub result: Option<BTreeMap<String, ResultValue>>,
    /// The one artifact that counts, where the kind has artifacts.
    pub artifact: Option<AcceptedArtifact>,
    /// The run as it was first decided; used from then on.
    pub run: Option<RunSpec>,
    /// Seconds between the moment it was due and its start.
    pub lateness_seconds: Option<i64>,
    /// When the next attempt may start, after one that failed.
    pub next_attempt_time: Option<Time>,
    /// What this write says newly of the acceptance; `None` in what was read.
    pub accepted: Option<Acceptance>,
}

impl Record {
    /// Where it stands; before the first decision it waits.
    pub fn phase(&self) -> Phase {
        self.phase.unwrap_or(Phase::Waiting)
    }

    /// Number of the newest attempt, 0 without one.
    pub fn newest(&self) -> i32 {
        newest_attempt(&self.attempts)
    }

    /// Whether no further attempt can be recorded.
    pub fn is_full(&self) -> bool {
        is_full(&self.attempts)
    }

    /// The newest attempt, if it was committed and is not over.
    pub fn open_attempt(&self) -> Option<&Attempt> {
        open_attempt(&self.attempts)
    }
}

/// Number of the newest of these attempts, 0 without one.
pub(super) fn newest_attempt(attempts: &[Attempt]) -> i32 {
    attempts.last().map_or(0, |attempt| attempt.number)
}

/// Whether no attempt can be recorded beside these.
pub(super) fn is_full(attempts: &[Attempt]) -> bool {
    usize::try_from(newest_attempt(attempts)).unwrap_or(0) >= MAX_ATTEMPTS
}

/// The newest of these attempts, if it was committed and is not over.
pub fn open_attempt(attempts: &[Attempt]) -> Option<&Attempt> {
    attempts.last().filter(|attempt| {
        attempt.handle.is_some() && matches!(attempt.outcome, None | Some(AttemptOutcome::Unknown))
    })
}
