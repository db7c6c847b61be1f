//! A person decides about an attempt whose outcome nobody knows.

use super::{Decision, MAX_ATTEMPTS, Step, View};
use crate::{
    api::{Attempt, AttemptOutcome, OccurrenceState, Resolution, ResolutionDecision, Time},
    maintenance::Note,
    providers::RunStatus,
};

impl View<'_> {
    /// The person's decision about this attempt, if there is one that applies.
    pub(super) fn resolution(&self, attempt: &Attempt) -> Option<&Resolution> {
        self.snapshot
            .occurrence
            .spec
            .resolution
            .as_ref()
            .filter(|r| self.state == OccurrenceState::Unresolved && r.attempt == attempt.number)
    }

    pub(super) fn resolve(&self, attempt: &Attempt) -> Option<Decision> {
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
    pub(super) fn resolve_by_retry(
        &self,
        attempt: &Attempt,
        resolution: &Resolution,
    ) -> Option<Decision> {
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
    pub(super) fn stop_unresolved(&self, reason: &str) -> Decision {
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
    pub(super) fn after_the_end(&self) -> Decision {
        let by_person = self.status.reason.as_deref() == Some("ResolvedByPerson");
        match self.status.attempts.last() {
            Some(attempt) if by_person && self.sealed() && !self.snapshot.cancelled => {
                Decision::step(Step::Cancel { attempt: attempt.number, recorded: true })
            }
            _ => Decision::wait(),
        }
    }
}
