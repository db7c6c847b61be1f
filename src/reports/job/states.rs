//! The states a customer sees, as one table: a write that is not in it cannot be made.

use jiff::Timestamp;

use super::life::{New, ReportPhase as _};
use crate::{
    api::{MAX_MESSAGE_CHARS, MAX_REASON_CHARS, ReportJobStatus, ReportState, Time, truncate},
    runs::conditions,
};

/// Condition: whether it holds a slot of its queue.
pub const ADMITTED: &str = "Admitted";

/// What a write finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Before {
    /// No status: nobody has looked at it.
    New,
    /// `Queued`, and its queue has not taken it: the queue is missing.
    Unanswered,
    /// A state. `Queued` means here that the queue has taken it, which is a promise.
    Is(ReportState),
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// What the write finds.
    pub from: Before,
    /// What it leaves.
    pub to: ReportState,
    /// The usual reason. A write may give a more precise one, for example a provider's.
    pub reason: &'static str,
    /// What it means. A write may say it more precisely.
    pub sentence: &'static str,
}

const fn row(
    from: Before,
    to: ReportState,
    reason: &'static str,
    sentence: &'static str,
) -> Transition {
    Transition { from, to, reason, sentence }
}

use Before::{Is, New as Unseen, Unanswered};
use ReportState::{
    Admitted, Cancelled, Cancelling, Failed, Queued, Rejected, Running, Succeeded, Unresolved,
};

const WAITS: &str = "its queue took it; it waits for a slot";
const PREPARED: &str = "it has a slot; its run is prepared and about to be released";
const TOO_LATE: &str = "it was not admitted before spec.queueDeadlineSeconds had passed";
const NOT_STARTED: &str = "cancelled before it started";
const REFUSED: &str = "its queue did not take it; nothing ran and nothing was promised";
const RETRY: &str = "an attempt failed; it waits for another one";
const STARTS: &str = "its run acts";
const STOPS: &str = "it is being stopped; its slot is taken until that is confirmed";
const NOBODY_KNOWS: &str = "nobody knows how it ended; set spec.resolution when you know";
const DONE: &str = "it ran and succeeded";
const BROKE: &str = "its run failed";
const STOPPED: &str = "stopped on request; nothing of it acts any more";

/// Every transition there is. What is over has none.
pub const TRANSITIONS: [Transition; 44] = [
    row(Unseen, Queued, super::WAITING, WAITS),
    row(Unseen, Admitted, "Prepared", PREPARED),
    row(Unseen, Failed, "QueueDeadlineExceeded", TOO_LATE),
    row(Unseen, Cancelled, "CancelRequested", NOT_STARTED),
    row(Unseen, Rejected, "QueueFull", REFUSED),
    row(Unanswered, Queued, super::WAITING, WAITS),
    row(Unanswered, Admitted, "Prepared", PREPARED),
    row(Unanswered, Failed, "QueueDeadlineExceeded", TOO_LATE),
    row(Unanswered, Cancelled, "CancelRequested", NOT_STARTED),
    row(Unanswered, Rejected, "QueueFull", REFUSED),
    row(Is(Queued), Queued, super::WAITING, WAITS),
    row(Is(Queued), Admitted, "Prepared", PREPARED),
    row(Is(Queued), Failed, "QueueDeadlineExceeded", TOO_LATE),
    row(Is(Queued), Cancelled, "CancelRequested", NOT_STARTED),
    row(Is(Admitted), Admitted, "Released", "released; no container has started yet"),
    row(Is(Admitted), Running, "Running", STARTS),
    row(Is(Admitted), Cancelling, "CancelRequested", STOPS),
    row(Is(Admitted), Unresolved, "ProviderUnreachable", NOBODY_KNOWS),
    row(Is(Admitted), Queued, "RetryScheduled", RETRY),
    row(Is(Admitted), Succeeded, "Completed", DONE),
    row(Is(Admitted), Failed, "ExitCode", BROKE),
    row(Is(Admitted), Cancelled, "CancelRequested", STOPPED),
    row(Is(Running), Running, "GoingAway", "what runs it is being deleted by someone else"),
    // A pod that was seen started and is gone leaves a Job that may start another.
    row(Is(Running), Admitted, "Released", "its provider says that it has not started"),
    row(Is(Running), Cancelling, "CancelRequested", STOPS),
    row(Is(Running), Unresolved, "EndNotSeen", NOBODY_KNOWS),
    row(Is(Running), Queued, "RetryScheduled", RETRY),
    row(Is(Running), Succeeded, "Completed", DONE),
    row(Is(Running), Failed, "ExitCode", BROKE),
    row(Is(Running), Cancelled, "CancelRequested", STOPPED),
    row(Is(Cancelling), Cancelling, "CancelRequested", STOPS),
    row(Is(Cancelling), Unresolved, "EndNotSeen", NOBODY_KNOWS),
    row(Is(Cancelling), Queued, "RetryScheduled", RETRY),
    row(Is(Cancelling), Succeeded, "Completed", "it had succeeded before it could be stopped"),
    row(Is(Cancelling), Failed, "DeadlineExceeded", "stopped because a time limit had passed"),
    row(Is(Cancelling), Cancelled, "CancelRequested", STOPPED),
    row(Is(Unresolved), Unresolved, "EndNotSeen", NOBODY_KNOWS),
    row(Is(Unresolved), Admitted, "Released", "its provider answers again: it has not started"),
    row(Is(Unresolved), Running, "Running", "its provider answers again: its run acts"),
    row(Is(Unresolved), Cancelling, "CancelRequested", STOPS),
    row(Is(Unresolved), Queued, "RetryRequested", "a person asked for another attempt"),
    row(Is(Unresolved), Succeeded, "ResolvedByPerson", DONE),
    row(Is(Unresolved), Failed, "ResolvedByPerson", BROKE),
    row(Is(Unresolved), Cancelled, "CancelRequested", STOPPED),
];

/// The line of the table, if there is one.
pub fn transition(from: Before, to: ReportState) -> Option<&'static Transition> {
    TRANSITIONS.iter().find(|line| line.from == from && line.to == to)
}

/// What a write finds in this status.
pub fn before(status: &ReportJobStatus) -> Before {
    match status.state {
        None => Before::New,
        // The run is sealed when the queue takes the job.
        Some(Queued) if status.run.is_none() => Before::Unanswered,
        Some(state) => Before::Is(state),
    }
}

/// A write that must not be made: a defect, so nothing is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// The table has no such line.
    #[error(
        "a report job does not go from {from:?} to {to:?}; this is a defect, nothing was written"
    )]
    Transition {
        /// What there is.
        from: Before,
        /// What was wanted.
        to: ReportState,
    },
    /// An accepted artifact stays what it is.
    #[error("an accepted artifact is immutable; this is a defect, nothing was written")]
    Artifact,
}

/// The only way to a new status: through the table. Gives `old` itself if nothing changes.
pub(super) fn move_to(
    old: &ReportJobStatus,
    new: New,
    now: Timestamp,
    generation: Option<i64>,
) -> Result<ReportJobStatus, Illegal> {
    let New { record, state: to, retry_after, place } = new;
    let from = before(old);
    let line = transition(from, to).ok_or(Illegal::Transition { from, to })?;
    if old.artifact.is_some() && record.artifact != old.artifact {
        return Err(Illegal::Artifact);
    }
    let said = |text: Option<String>, usual: &str| {
        text.filter(|text| !text.is_empty()).unwrap_or_else(|| usual.to_owned())
    };
    let reason = truncate(&said(record.reason, line.reason), MAX_REASON_CHARS);
    let message = truncate(&said(record.message, line.sentence), MAX_MESSAGE_CHARS);
    let waits = to == Queued;
    let place = place.unwrap_or_else(|| super::Place {
        position: old.position.clone(),
        estimated_start: old.estimated_start_time.map(|at| at.0),
    });
    let mut status = ReportJobStatus {
        state: Some(to),
        reason: Some(reason.clone()),
        message: Some(message.clone()),
        id: record.id,
        position: place.position.filter(|_| waits),
        estimated_start_time: place.estimated_start.filter(|_| waits).map(Time::new),
        retry_after_time: retry_after,
        next_attempt_time: record.next_attempt_time,
        attempt: record.attempt,
        attempts: record.attempts,
        artifact: record.artifact,
        result: record.result,
        run: record.run,
        fence: old.fence.clone(),
        conditions: old.conditions.clone(),
        observed_generation: generation,
    };
    if let Some(accepted) = &record.accepted {
        conditions::accept(&mut status.conditions, accepted, now, generation);
    }
    conditions::follow_phase(
        &mut status.conditions,
        to.phase(),
        (ADMITTED, to.holds_slot()),
        (&reason, &message),
        now,
        generation,
    );
    Ok(status)
}
