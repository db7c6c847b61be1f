//! No attempt is open: what the run waits for, or that it is prepared and committed.

use jiff::SignedDuration;

use super::{
    Acceptance, Change, Decision, End, PREPARE_PATIENCE, Phase, Right, Start, Step, View,
    WATCHFUL_INTERVAL, move_to, seal,
};
use crate::{
    api::{Attempt, RunSpec, Time},
    providers::Prepared,
};

/// Reason of a run that cannot be prepared for now; the condition `Accepted` says since when.
pub(super) const CREATE_REFUSED: &str = "CreateRefused";

impl View<'_> {
    pub(super) fn begin(&self) -> Decision<Change> {
        if self.snapshot.asked.cancel {
            return self.end(End::Cancelled, "CancelRequested", "cancelled before it started");
        }
        let prepared_before = !self.record.attempts.is_empty();
        match &self.snapshot.right {
            Right::Undecided => Decision::wait(),
            Right::Waits { reason, message, again } => {
                self.pending(reason, message).wake_at(*again)
            }
            Right::Denied { end, reason, message, .. } => self.end(*end, reason, message),
            Right::Start(Start { replaced: true, .. }) => {
                self.end(End::Cancelled, "Replaced", "a newer instant replaced it")
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
            return self.end(End::NotRun, "Deadline", deadline.message);
        }
        if let Some(at) = self.record.next_attempt_time.filter(|at| at.0 > self.now) {
            return Decision::wait().wake_at(Some(at.0));
        }
        self.prepare(start)
    }

    fn prepare(&self, start: &Start) -> Decision<Change> {
        let own_seal = start.own_seal;
        let number = start.attempt.unwrap_or_else(|| self.record.newest() + 1);
        let Some(run) = self.snapshot.run.clone() else {
            return self.pending("ScheduleNotFound", "nothing says what to run");
        };
        match self.snapshot.prepared {
            // Where another object decides the start, its seal and claim are the start decision.
            None if own_seal && !self.snapshot.sealed => seal(),
            None => Decision::step(Step::Prepare { attempt: number, run: Box::new(run) }),
            Some(Prepared::Ready { handle }) => self.commit(number, run, handle),
            Some(Prepared::Refused { message }) => {
                let mut record = self.record.clone();
                record.accepted = Some(accepted(false, "RunRefused", message));
                self.end_with(record, End::Failed, "RunRefused", message)
            }
            Some(Prepared::NameConflict { message }) => {
                self.end(End::NotRun, "NameConflict", message)
            }
            Some(Prepared::NotYet { message }) => self.not_prepared(message),
        }
    }

    /// The API server refuses for now (quota, a namespace that ends): tried again, for a while.
    fn not_prepared(&self, message: &str) -> Decision<Change> {
        let since = self.snapshot.refused_since;
        if since.is_some_and(|since| self.now.duration_since(since) >= PREPARE_PATIENCE) {
            return self.end(End::NotRun, CREATE_REFUSED, message);
        }
        let retry_at = self.after(SignedDuration::from_secs(5));
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
