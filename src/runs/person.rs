//! A person decides about an attempt whose outcome nobody knows.

use super::{
    Change, Decision, End, Note, Phase, Record, Step, UNREACHABLE_PATIENCE, View,
    WATCHFUL_INTERVAL, move_to, outcome::RETRY_REQUESTED, seal,
};
use crate::{
    api::{Attempt, AttemptOutcome, PodRef, Resolution, ResolutionDecision, Time},
    providers::{ProviderError, RunStatus},
};

/// Reason of an end that a person decided.
pub const RESOLVED_BY_PERSON: &str = "ResolvedByPerson";

impl View<'_> {
    /// Whether a person's decision has an effect now; `newest` is the number of the newest attempt.
    pub(super) fn applies(&self, resolution: &Resolution, newest: i32) -> bool {
        let full = self.record.is_full();
        self.phase == Phase::Unresolved
            && resolution.attempt == newest
            && !(full && resolution.decision == ResolutionDecision::Retry)
    }

    /// Whether a person's decision had its effect, so that it only still stands there.
    pub(super) fn was_applied(&self, resolution: &Resolution) -> bool {
        let by_person = |text: &Option<String>| {
            text.as_deref().is_some_and(|t| [RESOLVED_BY_PERSON, RETRY_REQUESTED].contains(&t))
        };
        let mut named = self.record.attempts.iter().filter(|a| a.number == resolution.attempt);
        named.any(|attempt| by_person(&attempt.reason) || by_person(&attempt.stop_reason))
    }

    pub(super) fn resolve(&self, attempt: &Attempt) -> Option<Decision<Change>> {
        let resolution = self.snapshot.asked.resolution?;
        if !self.applies(resolution, attempt.number) {
            return None;
        }
        let end = |outcome, end| {
            let record = self.close(outcome, None, None, RESOLVED_BY_PERSON);
            let message = format!("decided by a person: {}", resolution.reason);
            self.end_with(record, end, RESOLVED_BY_PERSON, &message)
                .note(resolved(attempt, resolution))
        };
        match resolution.decision {
            ResolutionDecision::Succeeded => Some(end(AttemptOutcome::Succeeded, End::Succeeded)),
            ResolutionDecision::Failed => Some(end(AttemptOutcome::Failed, End::Failed)),
            ResolutionDecision::Retry => self.resolve_by_retry(attempt, resolution),
        }
    }

    /// `Retry`: the old run is cancelled first, and the attempt stays Unresolved until it is proven
    /// over, or until the provider cannot say and the person accepts that it may run twice. `None`
    /// means: follow the attempt as usual.
    fn resolve_by_retry(
        &self,
        attempt: &Attempt,
        resolution: &Resolution,
    ) -> Option<Decision<Change>> {
        if attempt.stop_requested_time.is_none() {
            return Some(self.stop_unresolved());
        }
        let mut pod = None;
        let cannot_say = match self.snapshot.heard.answer.as_ref()? {
            Ok(RunStatus::Absent | RunStatus::Failed { .. }) => {
                return Some(self.another_attempt(attempt, resolution));
            }
            Ok(RunStatus::Succeeded { artifact, .. }) if !self.is_success(artifact) => {
                return Some(self.another_attempt(attempt, resolution));
            }
            // A definite success wins; the others say nothing.
            Ok(RunStatus::Succeeded { .. })
            | Err(ProviderError::Conflict(_) | ProviderError::NotLeading) => return None,
            Ok(RunStatus::Unknown { .. }) => true,
            Err(ProviderError::Unreachable(_)) => {
                let since = self.snapshot.heard.unreachable_since.unwrap_or(self.now);
                self.now.duration_since(since) >= UNREACHABLE_PATIENCE
            }
            Ok(RunStatus::Released { pod: seen, .. } | RunStatus::Running { pod: seen, .. }) => {
                pod = seen.as_ref();
                false
            }
            Ok(RunStatus::Held | RunStatus::Stopping | RunStatus::StoppedByOthers { .. }) => false,
        };
        if !self.snapshot.sealed {
            return Some(seal());
        }
        if !self.snapshot.heard.cancelled {
            return Some(Decision::step(Step::Cancel { attempt: attempt.number, recorded: false }));
        }
        if cannot_say && resolution.accept_duplicate {
            return Some(self.another_attempt(attempt, resolution));
        }
        match self.snapshot.heard.answer.as_ref() {
            // Said and asked again as of any attempt that is Unresolved.
            Some(Ok(RunStatus::Unknown { .. }) | Err(_)) => None,
            _ => Some(self.stopping_unresolved(pod)),
        }
    }

    /// The step out of Unresolved into the next attempt.
    fn another_attempt(&self, attempt: &Attempt, resolution: &Resolution) -> Decision<Change> {
        let mut record = self.close(AttemptOutcome::Failed, None, None, RETRY_REQUESTED);
        record.next_attempt_time = Some(Time::new(self.now));
        let message = "a person asked for another attempt";
        move_to(record, Phase::Waiting, RETRY_REQUESTED, message)
            .note(resolved(attempt, resolution))
    }

    /// Records the wish to stop without leaving Unresolved.
    fn stop_unresolved(&self) -> Decision<Change> {
        let mut record = self.record.clone();
        if let Some(last) = record.attempts.last_mut() {
            last.stop_requested_time = Some(Time::new(self.now));
            last.stop_reason = Some(RETRY_REQUESTED.to_owned());
        }
        let why = "a person asked for another attempt; the old run is stopped first";
        self.stay_unresolved(record).note(Note::normal("Stopping", why))
    }

    /// The old run is there and being stopped. Its pod is the proof that its end needs later.
    fn stopping_unresolved(&self, pod: Option<&PodRef>) -> Decision<Change> {
        let mut record = self.record.clone();
        if let (Some(last), Some(pod)) = (record.attempts.last_mut(), pod) {
            last.pod = Some(pod.clone());
        }
        self.stay_unresolved(record).wake_at(self.after(WATCHFUL_INTERVAL))
    }

    fn stay_unresolved(&self, record: Record) -> Decision<Change> {
        let text = |of: &Option<String>| of.clone().unwrap_or_default();
        let (reason, message) = (text(&self.record.reason), text(&self.record.message));
        move_to(record, Phase::Unresolved, &reason, &message)
    }

    /// After a person's `Succeeded` or `Failed` the old handle is cancelled, best effort.
    pub(super) fn after_the_end(&self) -> Decision<Change> {
        let by_person = self.record.reason.as_deref() == Some(RESOLVED_BY_PERSON);
        match self.record.attempts.last() {
            Some(attempt)
                if by_person && self.snapshot.sealed && !self.snapshot.heard.cancelled =>
            {
                Decision::step(Step::Cancel { attempt: attempt.number, recorded: true })
            }
            _ => Decision::wait(),
        }
    }
}

fn resolved(attempt: &Attempt, resolution: &Resolution) -> Note {
    let Resolution { decision, reason, .. } = resolution;
    let n = attempt.number;
    Note::normal("Resolved", format!("a person decided {decision:?} for attempt {n}: {reason}"))
}
