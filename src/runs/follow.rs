//! An attempt is open: what the provider says of it, and when it is asked to stop.

use jiff::{SignedDuration, Timestamp};

use super::{
    Change, Decision, End, Note, Phase, RECORD_RELEASE_AFTER, RUNNING_INTERVAL, Right, Start, Step,
    View, WATCHFUL_INTERVAL, move_to, outcome::Success, seal,
};
use crate::{
    api::{Attempt, AttemptOutcome, PodRef, Time},
    providers::{ProviderError, RunStatus, Waiting},
};

/// Reason of an attempt whose Job or pod someone else removes.
const GOING_AWAY: &str = "GoingAway";

impl View<'_> {
    pub(super) fn follow(&self, attempt: &Attempt) -> Decision<Change> {
        if let Some(decision) = self.resolve(attempt) {
            return decision;
        }
        let Some(answer) = self.snapshot.heard.answer.as_ref() else {
            return Decision::step(Step::Ask { attempt: attempt.number });
        };
        match answer {
            Err(ProviderError::Unreachable(why)) => self.unreachable(attempt, why),
            Err(ProviderError::NotLeading) => Decision::wait(),
            Err(ProviderError::Conflict(_)) => Decision::wait().wake_at(Some(self.now)),
            Ok(answer) => self.answered(attempt, answer),
        }
    }

    pub(super) fn answered(&self, attempt: &Attempt, answer: &RunStatus) -> Decision<Change> {
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
            RunStatus::Succeeded { started, completed, result, result_lost, artifact } => {
                let (started, completed, result_lost) = (*started, *completed, *result_lost);
                let result = result.as_ref();
                self.succeeded(
                    attempt,
                    &Success { started, completed, result, result_lost, artifact },
                )
            }
            RunStatus::Failed { started, completed, reason, message, class } => {
                self.failed(attempt, *started, *completed, reason, message, *class)
            }
            RunStatus::Absent => self.absent(attempt),
            RunStatus::Unknown { reason, message } => self.unknown(attempt, reason, message),
        }
    }

    /// Why the attempt should stop, if it should.
    pub(super) fn stop_reason(
        &self,
        attempt: &Attempt,
        started: Option<Timestamp>,
    ) -> Option<(&'static str, String)> {
        if self.snapshot.asked.cancel {
            return Some(("CancelRequested", "spec.cancel was set".to_owned()));
        }
        if matches!(self.snapshot.right, Right::Start(Start { replaced: true, .. })) {
            return Some(("Replaced", "a newer instant replaces it".to_owned()));
        }
        if !self.snapshot.trust_clock {
            return None;
        }
        let run = self.record.run.as_ref()?;
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

    pub(super) fn held(&self, attempt: &Attempt) -> Decision<Change> {
        let stop = if self.snapshot.asked.cancel {
            Some(("CancelRequested", "spec.cancel was set"))
        } else {
            match &self.snapshot.right {
                Right::Start(Start { replaced: true, .. }) => {
                    Some(("Replaced", "a newer instant replaces it"))
                }
                Right::Denied { stops_held: true, .. } => {
                    Some(("NotClaimed", "its claim was dropped before it was released"))
                }
                _ => None,
            }
        };
        if attempt.stop_requested_time.is_some() || stop.is_some() {
            let (reason, message) = stop.unwrap_or(("Stopped", "stopping was requested"));
            return self.stop(attempt, reason, message);
        }
        match self.snapshot.right {
            Right::Start(_) if self.snapshot.sealed => {
                Decision::step(Step::Release { attempt: attempt.number })
            }
            Right::Start(_) => seal(),
            // Not decided in this term yet: what decides it is sealed first.
            _ => Decision::wait(),
        }
    }

    pub(super) fn released(
        &self,
        attempt: &Attempt,
        pod: Option<&PodRef>,
        waiting: Option<&Waiting>,
    ) -> Decision<Change> {
        if attempt.stop_requested_time.is_some() {
            return self.stop(attempt, "Stopped", "stopping was requested");
        }
        let mut record = self.record.clone();
        let mut reason = record.reason.clone().unwrap_or_default();
        let mut message = record.message.clone().unwrap_or_default();
        if matches!(self.phase, Phase::Unresolved | Phase::Running) {
            (reason, message) = ("Released".to_owned(), String::new());
        }
        let base = attempt.released_time.or(attempt.prepared_time).map_or(self.now, |t| t.0);
        if let Some(last) = record.attempts.last_mut() {
            if pod.is_some() && !self.spared(base) {
                last.pod = pod.cloned();
            }
            last.outcome = None; // a definite answer: it is not unknown any more
            let slow = self.now.duration_since(base) >= RECORD_RELEASE_AFTER;
            if last.released_time.is_none() && slow {
                last.released_time = Some(Time::new(self.now));
                "Released".clone_into(&mut reason);
                "released; no container has started yet".clone_into(&mut message);
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
        move_to(record, Phase::Starting, &reason, &message).wake_at(self.after(WATCHFUL_INTERVAL))
    }

    /// It goes away: because it was asked to, or because someone else deletes it.
    pub(super) fn going_away(&self, attempt: &Attempt) -> Decision<Change> {
        if attempt.stop_requested_time.is_some() && !self.snapshot.heard.cancelled {
            return self.stop(attempt, "Stopped", "stopping was requested");
        }
        let acts = matches!(self.phase, Phase::Starting | Phase::Running);
        let told = self.record.reason.as_deref() == Some(GOING_AWAY);
        if attempt.stop_requested_time.is_none() && acts && !told {
            // The wait for the proof of its end may be a minute: whoever looks sees why.
            let message = "what runs it is being deleted by someone else, or is gone; the outcome \
                           is recorded once it is certain that nothing of it acts any more";
            return move_to(self.record.clone(), self.phase, GOING_AWAY, message)
                .wake_at(self.after(WATCHFUL_INTERVAL));
        }
        self.cancelling(attempt).wake_at(self.after(WATCHFUL_INTERVAL))
    }

    pub(super) fn running(
        &self,
        attempt: &Attempt,
        started: Timestamp,
        pod: Option<&PodRef>,
    ) -> Decision<Change> {
        let mut record = self.record.clone();
        let first = attempt.number == 1;
        if let Some(last) = record.attempts.last_mut() {
            last.start_time.get_or_insert(Time::new(started));
            if pod.is_some() {
                last.pod = pod.cloned();
            }
            last.outcome = None;
        }
        if first {
            self.lateness(&mut record, started);
        }
        if attempt.stop_requested_time.is_some() {
            return self.stop(attempt, "Stopped", "stopping was requested");
        }
        let stop = self.stop_reason(attempt, Some(started));
        let timeout = self.record.run.as_ref().and_then(|run| run.timeout_seconds);
        let ends =
            timeout.and_then(|s| started.checked_add(SignedDuration::from_secs(i64::from(s))).ok());
        // One that should have ended by a clock that is not trusted is not asked about without pause.
        let ends = ends.filter(|end| *end > self.now);
        let wait = Decision::wait().wake_at(self.after(self.running_interval())).wake_at(ends);
        let recorded = self.phase == Phase::Running;
        if !recorded && stop.is_none() && self.spared(started) {
            return wait.wake_at(started.checked_add(self.snapshot.spare).ok());
        }
        // The start and the pod are recorded first: they are the proof that a stop needs later.
        if record != *self.record || !recorded {
            return move_to(record, Phase::Running, "Running", "");
        }
        match stop {
            Some((reason, message)) => self.stop(attempt, reason, &message),
            None => wait,
        }
    }

    /// Its end is to be noticed within 2 s: a Job tells by watch, any other provider is asked.
    fn running_interval(&self) -> SignedDuration {
        let watched = self.record.run.as_ref().is_some_and(|run| run.job.is_some());
        if watched { RUNNING_INTERVAL } else { WATCHFUL_INTERVAL }
    }

    /// First records the wish to stop in the sealed parent, then asks the provider.
    pub(super) fn stop(&self, attempt: &Attempt, reason: &str, message: &str) -> Decision<Change> {
        if attempt.stop_requested_time.is_none() {
            let mut record = self.record.clone();
            if let Some(last) = record.attempts.last_mut() {
                last.stop_requested_time = Some(Time::new(self.now));
                last.stop_reason = Some(reason.to_owned());
            }
            return move_to(record, Phase::Stopping, reason, message)
                .note(Note::normal("Stopping", message));
        }
        if !self.snapshot.sealed {
            return seal();
        }
        if self.snapshot.heard.cancelled {
            return self.cancelling(attempt).wake_at(self.after(WATCHFUL_INTERVAL));
        }
        Decision::step(Step::Cancel { attempt: attempt.number, recorded: false })
    }

    /// Stopping is under way: the state says so.
    pub(super) fn cancelling(&self, attempt: &Attempt) -> Decision<Change> {
        if self.phase == Phase::Stopping || attempt.stop_requested_time.is_none() {
            return Decision::wait();
        }
        let reason = attempt.stop_reason.clone().unwrap_or_default();
        move_to(self.record.clone(), Phase::Stopping, &reason, "being stopped")
    }

    pub(super) fn absent(&self, attempt: &Attempt) -> Decision<Change> {
        if attempt.stop_requested_time.is_some() {
            return self.stopped(attempt, None, None);
        }
        if self.phase == Phase::Unresolved && self.snapshot.asked.cancel {
            return self.stopped(attempt, None, None);
        }
        let record = self.close(AttemptOutcome::Failed, None, None, "Deleted");
        self.end_with(record, End::Failed, "Deleted", "what ran it was deleted by someone else")
    }
}
