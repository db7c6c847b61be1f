//! No attempt is open: what the occurrence waits for, or that it is prepared and committed.

use jiff::Timestamp;

use super::{
    Decision, PREPARE_PATIENCE, SignedDuration, Standing, Step, UNRESOLVED_INTERVAL, View,
    WATCHFUL_INTERVAL, effective_run, work_id,
};
use crate::{
    api::{Attempt, Condition, OccurrenceState, RunSpec, Time, set_condition},
    maintenance::conditions,
    providers::Prepared,
};

impl View<'_> {
    pub(super) fn begin(&self) -> Decision {
        let spec = &self.snapshot.occurrence.spec;
        if spec.cancel {
            return self.end(
                OccurrenceState::Cancelled,
                "CancelRequested",
                "cancelled before it started",
            );
        }
        let prepared_before = !self.status.attempts.is_empty();
        match &self.snapshot.standing {
            Standing::Undecided => Decision::wait(),
            Standing::Waiting => self.pending("Waiting", "waits until what runs before it is over"),
            Standing::Ghost { skipped: Some(reason) } => {
                let reason = format!("{reason:?}");
                self.end(OccurrenceState::Skipped, &reason, "its schedule decided not to run this instant")
            }
            Standing::Ghost { skipped: None } => self.end(
                OccurrenceState::Superseded,
                "NotClaimed",
                "its schedule decided this instant without it; it was never run",
            ),
            Standing::RecordPruned => self.end(
                OccurrenceState::Skipped,
                "RecordPruned",
                "records up to this instant were removed, so it may have run; trigger another instant",
            ),
            Standing::RunNotAllowed => self.end(
                OccurrenceState::Skipped,
                "RunNotAllowed",
                "its schedule exists, so spec.run must be absent: it runs what the schedule says",
            ),
            Standing::ScheduleGone => self.begin_without_schedule(prepared_before),
            Standing::Started { not_before, deadline, replaced } => {
                if *replaced {
                    return self.end(OccurrenceState::Cancelled, "Replaced", "a newer instant replaced it");
                }
                self.begin_started(*not_before, *deadline, prepared_before)
            }
        }
    }

    pub(super) fn begin_without_schedule(&self, prepared_before: bool) -> Decision {
        let spec = &self.snapshot.occurrence.spec;
        if spec.schedule_uid.is_some() && !prepared_before {
            return self.end(
                OccurrenceState::Superseded,
                "ScheduleDeleted",
                "its schedule was deleted before it started",
            );
        }
        if effective_run(self.snapshot).is_none() {
            let message = format!(
                "there is no MaintenanceSchedule {:?} in this namespace; create it, or delete this occurrence",
                spec.schedule_name
            );
            return self
                .pending("ScheduleNotFound", &message)
                .wake_at(self.after(UNRESOLVED_INTERVAL));
        }
        self.begin_started(spec.intended_time.timestamp(), None, prepared_before)
    }

    pub(super) fn begin_started(
        &self,
        not_before: Timestamp,
        deadline: Option<Timestamp>,
        prepared_before: bool,
    ) -> Decision {
        if !self.snapshot.trust_clock {
            return Decision::wait().wake_at(self.after(WATCHFUL_INTERVAL));
        }
        if self.now < not_before {
            return self
                .pending("Spread", &format!("starts at {not_before}"))
                .wake_at(Some(not_before));
        }
        if !prepared_before && deadline.is_some_and(|end| self.now > end) {
            return self.end(
                OccurrenceState::Skipped,
                "Deadline",
                "spec.startingDeadlineSeconds of its schedule passed before it could start",
            );
        }
        if let Some(at) = self.status.next_attempt_time.filter(|at| at.0 > self.now) {
            return Decision::wait().wake_at(Some(at.0));
        }
        self.prepare()
    }

    pub(super) fn prepare(&self) -> Decision {
        let number = self.status.attempts.last().map_or(1, |a| a.number + 1);
        let Some(run) = effective_run(self.snapshot) else {
            return self.pending("ScheduleNotFound", "nothing says what to run");
        };
        match &self.snapshot.prepared {
            // With a schedule, its seal and claim are the start decision; without, the own seal is.
            None if self.snapshot.standing == Standing::ScheduleGone && !self.sealed() => {
                self.seal()
            }
            None => Decision::step(Step::Prepare { attempt: number, run: Box::new(run) }),
            Some(Prepared::Ready { handle }) => self.commit(number, run, handle),
            Some(Prepared::Refused { message }) => {
                let mut status = self.status.clone();
                set_condition(&mut status.conditions, self.accepted(false, "RunRefused", message));
                self.end_with(status, OccurrenceState::Failed, "RunRefused", message)
            }
            Some(Prepared::NameConflict { message }) => {
                self.end(OccurrenceState::Skipped, "NameConflict", message)
            }
            Some(Prepared::NotYet { message }) => self.not_prepared(message),
        }
    }

    pub(super) fn accepted(&self, holds: bool, reason: &str, message: &str) -> Condition {
        let generation = self.snapshot.occurrence.metadata.generation;
        conditions::condition(conditions::ACCEPTED, holds, reason, message, self.now, generation)
    }

    /// The API server refuses for now (quota, a namespace that ends): tried again, for a while.
    pub(super) fn not_prepared(&self, message: &str) -> Decision {
        let since = self
            .status
            .conditions
            .iter()
            .find(|c| c.r#type == conditions::ACCEPTED && c.reason == "CreateRefused")
            .map(|c| c.last_transition_time.0);
        if since.is_some_and(|since| self.now.duration_since(since) >= PREPARE_PATIENCE) {
            return self.end(OccurrenceState::Skipped, "CreateRefused", message);
        }
        let retry_at = self.after(SignedDuration::from_secs(5));
        let mut status = self.status.clone();
        set_condition(&mut status.conditions, self.accepted(false, "CreateRefused", message));
        let decision = self.move_to(status, OccurrenceState::Pending, "CreateRefused", message);
        decision.wake_at(retry_at)
    }

    /// Records the handle in the parent: from here on only this handle can be released.
    pub(super) fn commit(&self, number: i32, run: RunSpec, handle: &str) -> Decision {
        let work = work_id(&self.snapshot.occurrence);
        let mut status = self.status.clone();
        status.id = Some(work.id());
        status.run = Some(run);
        status.attempt = Some(number);
        status.next_attempt_time = None;
        status.attempts.push(Attempt {
            number,
            run_key: work.maintenance_run_key(number),
            handle: Some(handle.to_owned()),
            pod: None,
            epoch: self.snapshot.fence.epoch,
            prepared_time: Some(Time::new(self.now)),
            released_time: None,
            start_time: None,
            completion_time: None,
            stop_requested_time: None,
            stop_reason: None,
            outcome: None,
            reason: None,
        });
        set_condition(&mut status.conditions, self.accepted(true, "Accepted", ""));
        self.move_to(
            status,
            OccurrenceState::Starting,
            "Prepared",
            "prepared, about to be released",
        )
    }
}
