//! How attempts end, are retried, or stay unresolved.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{
    ArtifactRule, Change, Decision, End, MAX_DISRUPTIONS, Note, PROVIDER_UNREACHABLE, Phase,
    UNREACHABLE_PATIENCE, UNRESOLVED_INTERVAL, View, WATCHFUL_INTERVAL, move_to, record::is_full,
};
use crate::{
    api::{
        AcceptedArtifact, ActionClass, Attempt, AttemptOutcome, MAX_REASON_CHARS, ResultValue,
        Time, truncate,
    },
    providers::{Delivered, FailureClass},
    retry,
};

/// Reason of an attempt that a person wants repeated; it is charged to no budget.
pub const RETRY_REQUESTED: &str = "RetryRequested";
/// Reason of a run that waits for its next attempt.
pub const RETRY_SCHEDULED: &str = "RetryScheduled";
/// Reason of a run that succeeded and whose report could not be read.
const RESULT_LOST: &str = "ResultLost";
/// Reason of a run that succeeded without the artifact that it owes.
const ARTIFACT_MISSING: &str = "ArtifactMissing";
/// Reason of an attempt whose Job had more than one pod: only a person can say what that did.
pub const DUPLICATE_POD: &str = "DuplicatePod";
/// Reason of an attempt that is stopped because its outcome is unknown and it may be repeated.
pub const OUTCOME_UNKNOWN: &str = "OutcomeUnknown";

/// A success, as the provider tells it.
#[derive(Clone, Copy)]
pub(super) struct Success<'a> {
    pub(super) started: Option<Timestamp>,
    pub(super) completed: Option<Timestamp>,
    pub(super) result: Option<&'a BTreeMap<String, ResultValue>>,
    pub(super) result_lost: bool,
    pub(super) artifact: &'a Delivered,
}

impl View<'_> {
    /// It was asked to stop, and can no longer act.
    pub(super) fn stopped(
        &self,
        attempt: &Attempt,
        started: Option<Timestamp>,
        completed: Option<Timestamp>,
    ) -> Decision<Change> {
        let reason = attempt.stop_reason.clone().unwrap_or_else(|| "CancelRequested".to_owned());
        if reason == OUTCOME_UNKNOWN {
            return self.repeat_read(attempt, started, completed);
        }
        if reason == DUPLICATE_POD && !self.snapshot.asked.cancel {
            // That both are over says nothing about what they did.
            let message = "its Job had more than one pod, so the work may have run twice; nothing \
                           of it acts any more";
            return self.unresolved(DUPLICATE_POD, message);
        }
        let (outcome, state, message) = match reason.as_str() {
            // The message of the stop says what limit it was, and what kept it from starting.
            "NeverStarted" | "DeadlineExceeded" => (
                AttemptOutcome::Failed,
                End::Failed,
                self.record.message.as_deref().unwrap_or_default(),
            ),
            "SuspendedByOthers" => (
                AttemptOutcome::Failed,
                End::Failed,
                "someone else suspended its Job; it is not released again",
            ),
            "NotClaimed" => (
                AttemptOutcome::Cancelled,
                End::Superseded,
                "its claim was dropped before it was released",
            ),
            _ => (AttemptOutcome::Cancelled, End::Cancelled, "stopped on request"),
        };
        let record = self.close(outcome, started, completed, &reason);
        self.end_with(record, state, &reason, message)
    }

    /// Whether success counts as success with what it delivered.
    pub(super) fn is_success(&self, artifact: &Delivered) -> bool {
        self.snapshot.artifact != ArtifactRule::Required
            || matches!(artifact, Delivered::Artifact(_))
    }

    /// It succeeded, and can no longer act. The artifact is accepted in the write that ends the run,
    /// so that there is never an end without its artifact, nor an artifact that a cancel outruns.
    pub(super) fn succeeded(&self, attempt: &Attempt, success: &Success<'_>) -> Decision<Change> {
        let Success { started, completed, result, result_lost, artifact } = *success;
        if !self.is_success(artifact) {
            return self.not_delivered(attempt, success);
        }
        let mut record = self.close(AttemptOutcome::Succeeded, started, completed, "Completed");
        record.result = result.cloned();
        if let (false, Delivered::Artifact(artifact)) =
            (self.snapshot.artifact == ArtifactRule::None, artifact)
        {
            record.artifact = Some(AcceptedArtifact {
                uri: artifact.uri.clone(),
                sha256: artifact.sha256.clone(),
                size_bytes: artifact.size_bytes,
                attempt: attempt.number,
                accepted_time: Time::new(self.now),
            });
        }
        let unreadable =
            self.snapshot.artifact != ArtifactRule::None && *artifact == Delivered::Unreadable;
        let (reason, message) = if result_lost || unreadable {
            (RESULT_LOST, "it succeeded; what it reported could not be read")
        } else {
            ("Completed", "it ran and succeeded")
        };
        self.end_with(record, End::Succeeded, reason, message)
    }

    /// It succeeded without the artifact that its spec requires.
    fn not_delivered(&self, attempt: &Attempt, success: &Success<'_>) -> Decision<Change> {
        let Success { started, completed, artifact, .. } = *success;
        if attempt.stop_requested_time.is_some() || self.snapshot.asked.cancel {
            return self.stopped(attempt, started, completed);
        }
        if *artifact == Delivered::Unreadable {
            let message = "it succeeded, and whether it delivered its artifact \
                           (spec.artifact: Required) could not be read";
            return self.unresolved(RESULT_LOST, message);
        }
        // Not tried again: the work is done, and doing it again would do it twice.
        let record = self.close(AttemptOutcome::Failed, started, completed, ARTIFACT_MISSING);
        let message = "it ran and succeeded, but delivered no artifact (spec.artifact: Required)";
        self.end_with(record, End::Failed, ARTIFACT_MISSING, message)
    }

    pub(super) fn failed(
        &self,
        attempt: &Attempt,
        started: Option<Timestamp>,
        completed: Option<Timestamp>,
        reason: &str,
        message: &str,
        class: FailureClass,
    ) -> Decision<Change> {
        if attempt.stop_requested_time.is_some() {
            return self.stopped(attempt, started, completed);
        }
        self.retry_or_fail(attempt, started, completed, reason, message, class)
    }

    fn retry_or_fail(
        &self,
        attempt: &Attempt,
        started: Option<Timestamp>,
        completed: Option<Timestamp>,
        reason: &str,
        message: &str,
        class: FailureClass,
    ) -> Decision<Change> {
        let mut record = self.close(AttemptOutcome::Failed, started, completed, reason);
        if self.snapshot.asked.cancel {
            return self.end_with(record, End::Cancelled, "CancelRequested", message);
        }
        if let Err(why) = may_retry(&record.attempts, reason, class, self.snapshot.limits.attempts)
        {
            let message = format!("{message}{why}");
            return self.end_with(record, End::Failed, reason, &message);
        }
        let n = u32::try_from(attempt.number).unwrap_or(1);
        let delay = retry::delay(&retry::RUN, &self.snapshot.work.id, n);
        let ended = completed.unwrap_or(self.now);
        let next = ended
            .checked_add(SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO))
            .unwrap_or(self.now);
        record.next_attempt_time = Some(Time::new(next));
        let message = format!("attempt {n} failed ({reason}): {message}");
        move_to(record, Phase::Waiting, RETRY_SCHEDULED, &message).wake_at(Some(next))
    }

    /// Nobody knows how it ended.
    pub(super) fn unknown(
        &self,
        attempt: &Attempt,
        reason: &str,
        message: &str,
    ) -> Decision<Change> {
        let must_stop = reason == DUPLICATE_POD || self.snapshot.asked.cancel;
        if must_stop && attempt.stop_requested_time.is_none() {
            return self.stop(
                attempt,
                if reason == DUPLICATE_POD { reason } else { "CancelRequested" },
                message,
            );
        }
        if attempt.stop_requested_time.is_some() && !self.snapshot.heard.cancelled {
            return self.stop(attempt, reason, message);
        }
        if attempt.stop_reason.as_deref() == Some(OUTCOME_UNKNOWN) {
            return self.repeat_read(attempt, None, None); // as far as the provider can
        }
        if self.snapshot.limits.class == ActionClass::ReadOnly && self.may_repeat_read(attempt) {
            return self.stop(attempt, OUTCOME_UNKNOWN, message);
        }
        self.unresolved(reason, message)
    }

    /// A read may be repeated, whatever became of it; what is left of it is stopped first.
    fn may_repeat_read(&self, attempt: &Attempt) -> bool {
        let closed = self.close(AttemptOutcome::Failed, None, None, OUTCOME_UNKNOWN);
        let limit = self.snapshot.limits.attempts;
        attempt.stop_requested_time.is_none()
            && may_retry(&closed.attempts, OUTCOME_UNKNOWN, FailureClass::Transient, limit).is_ok()
    }

    fn repeat_read(
        &self,
        attempt: &Attempt,
        started: Option<Timestamp>,
        completed: Option<Timestamp>,
    ) -> Decision<Change> {
        let message = "nobody knows how it ended; it only reads, so it is repeated";
        let class = FailureClass::Transient;
        self.retry_or_fail(attempt, started, completed, OUTCOME_UNKNOWN, message, class)
    }

    pub(super) fn unreachable(&self, attempt: &Attempt, why: &str) -> Decision<Change> {
        let since = self.snapshot.heard.unreachable_since.unwrap_or(self.now);
        let key = format!("{}/{}", attempt.run_key, since.as_second());
        let waited = self.now.duration_since(since);
        if waited >= UNREACHABLE_PATIENCE && self.phase != Phase::Unresolved {
            return self.unresolved(PROVIDER_UNREACHABLE, why);
        }
        let tries = u32::try_from(waited.as_secs().max(0) / 2).unwrap_or(0) + 1;
        let delay = retry::delay(&retry::PROVIDER, &key, tries);
        let patience_ends = since.checked_add(UNREACHABLE_PATIENCE).ok();
        Decision::wait()
            .wake_at(self.after(SignedDuration::try_from(delay).unwrap_or(WATCHFUL_INTERVAL)))
            .wake_at(patience_ends.filter(|end| *end > self.now))
    }

    pub(super) fn unresolved(&self, reason: &str, message: &str) -> Decision<Change> {
        let again = self.after(UNRESOLVED_INTERVAL);
        if self.phase == Phase::Unresolved && self.record.reason.as_deref() == Some(reason) {
            return Decision::wait().wake_at(again);
        }
        let mut record = self.record.clone();
        if let Some(last) = record.attempts.last_mut() {
            last.outcome = Some(AttemptOutcome::Unknown);
            last.reason = Some(truncate(reason, MAX_REASON_CHARS));
        }
        move_to(record, Phase::Unresolved, reason, message).wake_at(again).note(Note::warning(
            "Unresolved",
            format!(
                "nobody knows how attempt {} ended: {message}; set spec.resolution when you know",
                self.record.attempts.len()
            ),
        ))
    }
}

/// Whether an attempt's reason is a disruption by the platform, counted apart from `maxAttempts`.
fn is_disruption(reason: &str) -> bool {
    matches!(reason, "Evicted" | "Preempted" | "NodeLost" | "Disruption")
}

/// Whether another attempt follows these; the failed one is the last of them and closed already. If
/// none follows, why, to be added to a sentence about the failure.
pub fn may_retry(
    attempts: &[Attempt],
    reason: &str,
    class: FailureClass,
    limit: i32,
) -> Result<(), &'static str> {
    if is_full(attempts) {
        return Err(" (no more attempts are kept)");
    }
    let failed = |r: &str| attempts.iter().filter(|a| a.reason.as_deref() == Some(r)).count();
    let disruptions = |a: &&Attempt| a.reason.as_deref().is_some_and(is_disruption);
    let asked_for = |a: &&Attempt| a.reason.as_deref() == Some(RETRY_REQUESTED);
    let charged = |a: &&Attempt| !disruptions(a) && !asked_for(a);
    let used = attempts.iter().filter(charged).count();
    match class {
        FailureClass::Disruption
            if attempts.iter().filter(disruptions).count() <= MAX_DISRUPTIONS && limit > 1 =>
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
