//! No attempt is open: what the run waits for, or that it is prepared and committed.

use jiff::SignedDuration;

use super::{
    Acceptance, Change, Decision, End, PREPARE_PATIENCE, PROVIDER_UNREACHABLE, Phase, Right, Start,
    Step, View, WATCHFUL_INTERVAL, move_to, seal,
};
use crate::{
    api::{Attempt, RunSpec, Time},
    providers::Prepared,
};

/// Reason of a run that cannot be prepared for now; the condition `Accepted` says since when.
pub const CREATE_REFUSED: &str = "CreateRefused";
/// How often it is tried again to prepare a run.
pub const UNANSWERED_INTERVAL: SignedDuration = SignedDuration::from_secs(5);

impl View<'_> {
    pub(super) fn begin(&self) -> Decision<Change> {
        if self.snapshot.asked.cancel {
            let message = "cancelled before it started";
            return self.end_before(End::Cancelled, "CancelRequested", message);
        }
        let prepared_before = !self.record.attempts.is_empty();
        match &self.snapshot.right {
            Right::Undecided | Right::WaitsAsBefore => Decision::wait(),
            Right::Waits { reason, message, again } => {
                self.pending(reason, message).wake_at(*again)
            }
            Right::Denied { end, reason, message, .. } => self.end(*end, reason, message),
            Right::Start(Start { replaced: true, .. }) => {
                self.end_before(End::Cancelled, "Replaced", "a newer instant replaced it")
            }
            Right::Start(start) => self.begin_started(start, prepared_before),
        }
    }

    fn begin_started(&self, start: &Start, prepared_before: bool) -> Decision<Change> {
        if !self.snapshot.trust_clock {
            return Decision::wait().wake_at(self.after(WATCHFUL_INTERVAL));
        }
        let not_before = start.not_before;
        if self.now < not_before {
            return self
                .pending("Spread", &format!("starts at {not_before}"))
                .wake_at(Some(not_before));
        }
        if let Some(deadline) = &start.deadline
            && !prepared_before
            && self.now > deadline.end
        {
            return self.end_before(End::NotRun, "Deadline", deadline.message);
        }
        if let Some(at) = self.record.next_attempt_time.filter(|at| at.0 > self.now) {
            return Decision::wait().wake_at(Some(at.0));
        }
        self.prepare(start)
    }

    fn prepare(&self, start: &Start) -> Decision<Change> {
        let number = self.next_attempt();
        let Some(run) = self.snapshot.run.clone() else {
            return self.pending("ScheduleNotFound", "nothing says what to run");
        };
        match self.snapshot.heard.prepared.as_ref() {
            // Where another object decides the start, its seal and claim are the start decision.
            None if start.own_seal && !self.snapshot.sealed => seal(),
            None => Decision::step(Step::Prepare { attempt: number, run: Box::new(run) }),
            Some(Prepared::Ready { handle }) => self.commit(number, run, handle),
            Some(Prepared::Refused { message }) => {
                let mut record = self.record.clone();
                record.accepted = Some(accepted(false, "RunRefused", message));
                self.withdrawn(|| self.end_with(record, End::Failed, "RunRefused", message))
            }
            Some(Prepared::NameConflict { message }) => {
                self.end(End::NotRun, "NameConflict", message)
            }
            Some(Prepared::NotYet { message }) => self.not_prepared(message),
            Some(Prepared::NoAnswer { message }) => self.not_answered(message),
        }
    }

    /// The attempt that would be prepared next.
    fn next_attempt(&self) -> i32 {
        let given = match &self.snapshot.right {
            Right::Start(start) => start.attempt,
            _ => None,
        };
        given.unwrap_or_else(|| self.record.newest() + 1)
    }

    /// Ends before anything of the next attempt was committed.
    fn end_before(&self, end: End, reason: &str, message: &str) -> Decision<Change> {
        self.withdrawn(|| self.end(end, reason, message))
    }

    /// `end`, once it is certain that nothing runs of an attempt that was not committed.
    ///
    /// A Job that nobody committed stays suspended. A service outside the cluster may have been asked
    /// to prepare the attempt, by this term or an earlier one, and the request may still be under
    /// way; one that cannot hold runs what it was asked to prepare. So it is asked to take it back
    /// first, and has to confirm it under the present epoch. That takes a right to start: without one
    /// nothing was ever asked for.
    fn withdrawn(&self, end: impl FnOnce() -> Decision<Change>) -> Decision<Change> {
        let Some(run) = self.snapshot.run.as_ref().filter(|run| run.http.is_some()) else {
            return end();
        };
        match (&self.snapshot.right, self.snapshot.heard.withdrawn.as_ref()) {
            (Right::Undecided, _) => Decision::wait().wake_at(self.after(WATCHFUL_INTERVAL)),
            (Right::WaitsAsBefore | Right::Waits { .. } | Right::Denied { .. }, _)
            | (Right::Start(_), Some(Ok(()))) => end(),
            (Right::Start(_), Some(Err(why))) => self.not_answered(why),
            (Right::Start(_), None) if !self.snapshot.sealed => seal(),
            (Right::Start(_), None) => {
                let run = Box::new(run.clone());
                Decision::step(Step::Withdraw { attempt: self.next_attempt(), run })
            }
        }
    }

    /// A service does not say whether it prepared the attempt, or took it back. It is asked until it
    /// does: nothing is known that could be recorded, and nothing is lost by waiting.
    fn not_answered(&self, message: &str) -> Decision<Change> {
        self.pending(PROVIDER_UNREACHABLE, message).wake_at(self.after(UNANSWERED_INTERVAL))
    }

    /// The API server refuses for now (quota, a namespace that ends): tried again, for a while.
    fn not_prepared(&self, message: &str) -> Decision<Change> {
        let since = self.snapshot.refused_since;
        if since.is_some_and(|since| self.now.duration_since(since) >= PREPARE_PATIENCE) {
            return self.end_before(End::NotRun, CREATE_REFUSED, message);
        }
        let retry_at = self.after(UNANSWERED_INTERVAL);
        let mut record = self.record.clone();
        record.accepted = Some(accepted(false, CREATE_REFUSED, message));
        move_to(record, Phase::Waiting, CREATE_REFUSED, message).wake_at(retry_at)
    }

    /// Records the handle in the parent: from here on only this handle can be released.
    fn commit(&self, number: i32, run: RunSpec, handle: &str) -> Decision<Change> {
        let work = &self.snapshot.work;
        let mut record = self.record.clone();
        record.id = Some(work.id.clone());
        record.run = Some(run);
        record.attempt = Some(number);
        record.next_attempt_time = None;
        record.attempts.push(Attempt {
            number,
            run_key: work.attempts.key(number),
            handle: Some(handle.to_owned()),
            pod: None,
            epoch: self.snapshot.epoch,
            prepared_time: Some(Time::new(self.now)),
            released_time: None,
            start_time: None,
            completion_time: None,
            stop_requested_time: None,
            stop_reason: None,
            outcome: None,
            reason: None,
        });
        record.accepted = Some(accepted(true, "Accepted", ""));
        move_to(record, Phase::Starting, "Prepared", "prepared, about to be released")
    }
}

fn accepted(holds: bool, reason: &'static str, message: &str) -> Acceptance {
    Acceptance { holds, reason, message: message.to_owned() }
}
