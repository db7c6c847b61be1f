//! How attempts end, are retried, or stay unresolved.

use jiff::{SignedDuration, Timestamp};

use super::{
    Decision, MAX_ATTEMPTS, MAX_DISRUPTIONS, UNREACHABLE_PATIENCE, UNRESOLVED_INTERVAL, View,
    WATCHFUL_INTERVAL, work_id,
};
use crate::{
    api::{
        ActionClass, Attempt, AttemptOutcome, MAX_REASON_CHARS, MaintenanceOccurrenceStatus,
        OccurrenceState, RunSpec, Time, truncate,
    },
    maintenance::Note,
    providers::FailureClass,
    retry,
};

impl View<'_> {
    /// It was asked to stop, and can no longer act.
    pub(super) fn stopped(
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

    pub(super) fn failed(
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
        if let Err(why) = may_retry(&status, reason, class) {
            let message = format!("{message}{why}");
            return self.end_with(status, OccurrenceState::Failed, reason, &message);
        }
        let n = u32::try_from(attempt.number).unwrap_or(1);
        let delay = retry::delay(&retry::RUN, &work_id(&self.snapshot.occurrence).id(), n);
        let ended = completed.unwrap_or(self.now);
        let next = ended
            .checked_add(SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO))
            .unwrap_or(self.now);
        status.next_attempt_time = Some(Time::new(next));
        let message = format!("attempt {n} failed ({reason}): {message}");
        self.move_to(status, OccurrenceState::Pending, "RetryScheduled", &message)
            .wake_at(Some(next))
    }

    /// Nobody knows how it ended.
    pub(super) fn unknown(&self, attempt: &Attempt, reason: &str, message: &str) -> Decision {
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
            if may_retry(&status, reason, FailureClass::Transient).is_ok() {
                return self.failed(attempt, None, None, reason, message, FailureClass::Transient);
            }
        }
        self.unresolved(reason, message)
    }

    pub(super) fn unreachable(&self, attempt: &Attempt, why: &str) -> Decision {
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

    pub(super) fn unresolved(&self, reason: &str, message: &str) -> Decision {
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
}

/// Whether an attempt's reason is a disruption by the platform, counted apart from `maxAttempts`.
fn is_disruption(reason: &str) -> bool {
    matches!(reason, "Evicted" | "Preempted" | "NodeLost" | "Disruption")
}

/// Whether another attempt follows; `status` has the failed one closed already.
fn may_retry(
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
