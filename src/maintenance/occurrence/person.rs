//! A person decides about an attempt whose outcome nobody knows.

use super::{
    Decision, MAX_ATTEMPTS, Step, UNREACHABLE_PATIENCE, View, WATCHFUL_INTERVAL,
    outcome::RETRY_REQUESTED,
};
use crate::{
    api::{Attempt, AttemptOutcome, OccurrenceState, PodRef, Resolution, ResolutionDecision, Time},
    maintenance::Note,
    providers::{ProviderError, RunStatus},
};

/// Reason of an end that a person decided.
const RESOLVED_BY_PERSON: &str = "ResolvedByPerson";

impl View<'_> {
    /// Whether a person's decision has an effect now; `newest` is the number of the newest attempt.
    pub(super) fn applies(&self, resolution: &Resolution, newest: i32) -> bool {
        let full = self.status.attempts.len() >= MAX_ATTEMPTS;
        self.state == OccurrenceState::Unresolved
            && resolution.attempt == newest
            && !(full && resolution.decision == ResolutionDecision::Retry)
    }

    /// Whether a person's decision had its effect, so that it only still stands there.
    pub(super) fn was_applied(&self, resolution: &Resolution) -> bool {
        let by_person = |text: &Option<String>| {
            text.as_deref().is_some_and(|t| [RESOLVED_BY_PERSON, RETRY_REQUESTED].contains(&t))
        };
        let mut named = self.status.attempts.iter().filter(|a| a.number == resolution.attempt);
        named.any(|attempt| by_person(&attempt.reason) || by_person(&attempt.stop_reason))
    }

    pub(super) fn resolve(&self, attempt: &Attempt) -> Option<Decision> {
        let resolution = self.snapshot.occurrence.spec.resolution.as_ref()?;
        if !self.applies(resolution, attempt.number) {
            return None;
        }
        let end = |outcome, state| {
            let status = self.close(outcome, None, None, RESOLVED_BY_PERSON);
            let message = format!("decided by a person: {}", resolution.reason);
            self.end_with(status, state, RESOLVED_BY_PERSON, &message)
                .note(resolved(attempt, resolution))
        };
        match resolution.decision {
            ResolutionDecision::Succeeded => {
                Some(end(AttemptOutcome::Succeeded, OccurrenceState::Succeeded))
            }
            ResolutionDecision::Failed => {
                Some(end(AttemptOutcome::Failed, OccurrenceState::Failed))
            }
            ResolutionDecision::Retry => self.resolve_by_retry(attempt, resolution),
        }
    }

    /// `Retry`: the old run is cancelled first, and the attempt stays Unresolved until it is proven
    /// over, or until the provider cannot say and the person accepts that it may run twice. `None`
    /// means: follow the attempt as usual.
    fn resolve_by_retry(&self, attempt: &Attempt, resolution: &Resolution) -> Option<Decision> {
        if attempt.stop_requested_time.is_none() {
            return Some(self.stop_unresolved());
        }
        let mut pod = None;
        let cannot_say = match self.snapshot.answer.as_ref()? {
            Ok(RunStatus::Absent | RunStatus::Failed { .. }) => {
                return Some(self.another_attempt(attempt, resolution));
            }
            // A definite success wins; the others say nothing.
            Ok(RunStatus::Succeeded { .. })
            | Err(ProviderError::Conflict(_) | ProviderError::NotLeading) => return None,
            Ok(RunStatus::Unknown { .. }) => true,
            Err(ProviderError::Unreachable(_)) => {
                let since = self.snapshot.unreachable_since.unwrap_or(self.now);
                self.now.duration_since(since) >= UNREACHABLE_PATIENCE
            }
            Ok(RunStatus::Released { pod: seen, .. } | RunStatus::Running { pod: seen, .. }) => {
                pod = seen.as_ref();
                false
            }
            Ok(RunStatus::Held | RunStatus::Stopping | RunStatus::StoppedByOthers { .. }) => false,
        };
        if !self.sealed() {
            return Some(self.seal());
        }
        if !self.snapshot.cancelled {
            return Some(Decision::step(Step::Cancel { attempt: attempt.number, recorded: false }));
        }
        if cannot_say && resolution.accept_duplicate {
            return Some(self.another_attempt(attempt, resolution));
        }
        match self.snapshot.answer {
            // Said and asked again as of any attempt that is Unresolved.
            Some(Ok(RunStatus::Unknown { .. }) | Err(_)) => None,
            _ => Some(self.stopping_unresolved(pod)),
        }
    }

    /// The step out of Unresolved into the next attempt.
    fn another_attempt(&self, attempt: &Attempt, resolution: &Resolution) -> Decision {
        let mut status = self.close(AttemptOutcome::Failed, None, None, RETRY_REQUESTED);
        status.next_attempt_time = Some(Time::new(self.now));
        let message = "a person asked for another attempt";
        self.move_to(status, OccurrenceState::Pending, RETRY_REQUESTED, message)
            .note(resolved(attempt, resolution))
    }

    /// Records the wish to stop without leaving Unresolved.
    fn stop_unresolved(&self) -> Decision {
        let mut status = self.status.clone();
        if let Some(last) = status.attempts.last_mut() {
            last.stop_requested_time = Some(Time::new(self.now));
            last.stop_reason = Some(RETRY_REQUESTED.to_owned());
        }
        let why = "a person asked for another attempt; the old run is stopped first";
        self.stay_unresolved(status).note(Note::normal("Stopping", why))
    }

    /// The old run is there and being stopped. Its pod is the proof that its end needs later.
    fn stopping_unresolved(&self, pod: Option<&PodRef>) -> Decision {
        let mut status = self.status.clone();
        if let (Some(last), Some(pod)) = (status.attempts.last_mut(), pod) {
            last.pod = Some(pod.clone());
        }
        self.stay_unresolved(status).wake_at(self.after(WATCHFUL_INTERVAL))
    }

    fn stay_unresolved(&self, status: crate::api::MaintenanceOccurrenceStatus) -> Decision {
        let text = |of: &Option<String>| of.clone().unwrap_or_default();
        let (reason, message) = (text(&self.status.reason), text(&self.status.message));
        self.move_to(status, OccurrenceState::Unresolved, &reason, &message)
    }

    /// After a person's `Succeeded` or `Failed` the old handle is cancelled, best effort.
    pub(super) fn after_the_end(&self) -> Decision {
        let by_person = self.status.reason.as_deref() == Some(RESOLVED_BY_PERSON);
        match self.status.attempts.last() {
            Some(attempt) if by_person && self.sealed() && !self.snapshot.cancelled => {
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
