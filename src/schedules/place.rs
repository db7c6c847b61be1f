//! What the plan of the schedule says is recorded, or held back as a whole.

use jiff::{SignedDuration, Timestamp};
use kube::Resource as _;

use super::{CLOCK_RECHECK, CREATE_PATIENCE, Draft, Kind, Work as _};
use crate::{
    api::{Observed, ScheduleState, Time},
    runs::conditions,
    time::{
        IntendedTime,
        plan::{PlanInput, SchedulePlan},
        schedule::Schedule,
        skipped::SkipReason,
    },
};

/// What the plan has still to decide. Work of such an instant that a person made waits for the
/// plan: if it ran now and its record were deleted, the plan would find nothing and run it again.
pub(super) enum Undecided {
    /// Everything was decided.
    Nothing,
    /// The instants within these, both ends included.
    Within(Vec<(IntendedTime, IntendedTime)>),
    /// Those of the schedule last acted on, after its cursor: its spec cannot be used now, and comes
    /// back to it when the edit is taken back.
    Of(Box<Schedule>, Option<IntendedTime>),
}

impl Undecided {
    fn of_plan(planned: &SchedulePlan) -> Self {
        let run = planned.run.iter().map(|at| (*at, *at));
        Self::Within(run.chain(planned.skipped.iter().map(|r| (r.from, r.to))).collect())
    }

    /// Of what was last acted on, while the spec cannot be used.
    pub(super) fn last_observed(input: &PlanInput, now: Timestamp) -> Self {
        let last = input.last_observed(now);
        last.map_or(Self::Nothing, |last| Self::Of(Box::new(last), input.last_schedule_time))
    }

    pub(super) fn includes(&self, instant: IntendedTime) -> bool {
        match self {
            Self::Nothing => false,
            Self::Within(ranges) => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&instant))
            }
            Self::Of(schedule, decided) => {
                let before = instant.timestamp() - SignedDuration::from_secs(1);
                decided.is_none_or(|decided| instant > decided)
                    && schedule.next_after(before) == Some(instant)
            }
        }
    }
}

impl<S: Kind> Draft<'_, S> {
    /// Records what the plan of the schedule says and claims what it wants.
    pub(super) fn place(&mut self, planned: &SchedulePlan) {
        if self.snapshot.schedule.meta().deletion_timestamp.is_some() {
            return; // deleting a schedule stops new work
        }
        if let Some(at) = planned.look_again {
            self.wake(at);
        }
        let wanted: Vec<IntendedTime> =
            planned.run.iter().copied().filter(|at| self.is_open(*at)).collect();
        if self.blocked(planned, &wanted) {
            return;
        }
        self.record(planned);
        for instant in &planned.run {
            if !wanted.contains(instant) {
                self.account_for_closed(*instant);
            }
        }
        self.run.clone_from(&planned.run);
        let given_up: Vec<IntendedTime> =
            wanted.iter().copied().filter(|at| self.snapshot.refused.contains_key(at)).collect();
        for instant in &given_up {
            self.skip(*instant, SkipReason::CreateRefused);
        }
        let mut wanted: Vec<IntendedTime> =
            wanted.into_iter().filter(|at| !given_up.contains(at)).collect();
        for instant in wanted.split_off(self.snapshot.room.min(wanted.len())) {
            self.skip(instant, SkipReason::QueueFull);
        }
        self.claim_wanted(wanted);
    }

    /// Whether the instant still needs a claim.
    pub(super) fn is_open(&self, instant: IntendedTime) -> bool {
        if self.status.claimed.iter().any(|claim| claim.time == instant) {
            return false;
        }
        match self.snapshot.works.get(&instant) {
            Some(work) => !work.is_terminal() && work.meta().deletion_timestamp.is_none(),
            None => self.status.pruned_through.is_none_or(|through| instant > through),
        }
    }

    /// An instant that the plan wants and that nothing may start: it is over, or its record is gone.
    pub(super) fn account_for_closed(&mut self, instant: IntendedTime) {
        match self.snapshot.works.get(&instant) {
            Some(work) if work.meta().deletion_timestamp.is_some() && !work.is_terminal() => {
                self.skip(instant, SkipReason::Deleted);
            }
            Some(_) => {} // the object tells its own story
            None if self.status.claimed.iter().any(|claim| claim.time == instant) => {}
            None => self.skip(instant, SkipReason::Superseded),
        }
    }

    /// Whether the plan cannot be carried out now; then nothing of it is recorded, and it is made
    /// anew later.
    pub(super) fn blocked(&mut self, planned: &SchedulePlan, wanted: &[IntendedTime]) -> bool {
        // From when an edit counts is read from the clock.
        let stored = self.status.effective_time;
        let edited = stored.is_some_and(|from| from.0 != planned.effective_time);
        if planned.run.is_empty() && planned.skipped.is_empty() && !edited {
            return false;
        }
        if let Err(why) = &self.snapshot.may_create {
            self.ready = (false, "ClockSkew", why.clone());
            self.wake_after(CLOCK_RECHECK);
            return true;
        }
        let waiting = wanted.iter().find_map(|at| {
            let refusal = self.snapshot.refused.get(at)?;
            (!self.patience_is_over()).then_some(refusal)
        });
        if let Some(refusal) = waiting {
            self.ready = (false, "CreateRefused", refusal.message.clone());
            self.wake(refusal.retry_at);
            self.undecided = Undecided::of_plan(planned);
            return true;
        }
        false
    }

    /// Whether creation has been refused for so long that the instant is given up. The deadline of
    /// the schedule, if it has one, ends it earlier or later through the plan itself.
    pub(super) fn patience_is_over(&self) -> bool {
        if self.snapshot.schedule.timing().starting_deadline_seconds.is_some() {
            return false;
        }
        let since = self
            .status
            .conditions
            .iter()
            .find(|c| c.r#type == conditions::READY && c.reason == "CreateRefused");
        since.is_some_and(|c| self.now.duration_since(c.last_transition_time.0) >= CREATE_PATIENCE)
    }

    pub(super) fn record(&mut self, planned: &SchedulePlan) {
        self.status.state =
            Some(if planned.suspended { ScheduleState::Suspended } else { ScheduleState::Active });
        if planned.suspended {
            let note = self.snapshot.schedule.timing().suspend_reason.unwrap_or_default();
            self.ready = (true, "Suspended", note.to_owned());
        }
        if planned.never_fires {
            self.ready = (
                false,
                "NeverFires",
                format!(
                    "spec.schedule {:?} names no instant that exists, for example 30 February; correct the day or the month",
                    self.snapshot.schedule.timing().schedule
                ),
            );
        }
        self.status.next_schedule_time = planned.next;
        self.status.last_schedule_time = planned.last_schedule_time;
        self.status.effective_time = Some(Time(planned.effective_time));
        self.status.suspended_time = planned.suspended_time.map(Time);
        let observed = &planned.observed;
        self.status.observed = Some(Observed {
            uid: self.snapshot.schedule.meta().uid.clone(),
            schedule: observed.schedule.clone(),
            time_zone: observed.time_zone.clone(),
            dst_policy: observed.dst_policy,
            anchor: observed.anchor,
            suspend_until_time: observed.suspend_until_time.map(Time),
        });
        self.status.tzdb_version = Some(crate::time::tzdb_version().to_owned());
        self.skipped.extend(planned.skipped.iter().copied());
    }
}
