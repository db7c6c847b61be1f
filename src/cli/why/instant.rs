//! Why an instant of a schedule was run, is to be run, or is not, when no object tells it.

use jiff::{SignedDuration, Timestamp};

use super::{
    answer::{Answer, from_now, second},
    blocker::{Others, Within},
    commands::Target,
    events,
    schedule::{explain_ready, makes_reports, policy, skipped, skipped_fix},
    snapshot::Snapshot,
    terms::{Terms, explain_no_leader},
    words,
};
use crate::{
    api::MaintenanceScheduleStatus,
    schedules::{Kind, plan_input, skip_event},
    time::{
        IntendedTime, MissedRunsPolicy, Schedule, SkipReason,
        plan::{PlanInput, SchedulePlan, plan},
    },
};

/// How far around an instant that does not exist its neighbours are looked for.
const NEAR: SignedDuration = SignedDuration::from_hours(24 * 366);

/// What a person can do who wants the report of an instant after all.
const OWN_REPORT: &str = "If the report is wanted after all: create a ReportJob of your own, with what spec.jobTemplate of the schedule says.";

/// Explains an instant of a schedule that made no object, or whose object is gone. `made`: what the
/// schedule makes of an instant.
pub(super) fn explain<S: Kind>(
    snapshot: &Snapshot,
    schedule: &S,
    instant: IntendedTime,
    made: &Target,
    answer: &mut Answer,
) {
    let status = schedule.status().cloned().unwrap_or_default();
    let input = plan_input(schedule, &status);
    let target = Target::new(answer.object.clone(), &answer.namespace);
    let view = View { snapshot, schedule, status, input, instant, target, made };
    view.story(answer);
    view.verdict(answer);
}

struct View<'a, S: Kind> {
    snapshot: &'a Snapshot,
    schedule: &'a S,
    status: MaintenanceScheduleStatus,
    input: PlanInput,
    instant: IntendedTime,
    target: Target,
    made: &'a Target,
}

impl<S: Kind> View<'_, S> {
    fn now(&self) -> Timestamp {
        self.snapshot.now
    }

    fn moment(&self) -> Timestamp {
        self.instant.timestamp()
    }

    fn story(&self, answer: &mut Answer) {
        let created = self.schedule.meta().creation_timestamp.as_ref().map(|at| at.0);
        answer.happened(created, "the schedule was created", None);
        if let Some(from) = self.status.effective_time.filter(|from| Some(from.0) != created) {
            answer.happened(
                Some(from.0),
                "from here on its present timing counts (it was created, edited or resumed)",
                None,
            );
        }
        if let Some(since) = self.status.suspended_time {
            let note = self.schedule.timing().suspend_reason.map(|n| format!(": {n}"));
            answer.happened(Some(since.0), format!("suspended{}", note.unwrap_or_default()), None);
        }
        if self.moment() <= self.now() {
            answer.happened(Some(self.moment()), "the instant that is asked about", None);
        }
        let terms = Terms::of(self.snapshot);
        // Leaders that came and went around the instant are why one is late or missed.
        let around = SignedDuration::from_hours(1);
        let from = self.moment().checked_sub(around).ok();
        let until = self.moment().checked_add(around).unwrap_or(Timestamp::MAX);
        terms.tell(answer, from, until);
        events::tell_of_losses(answer, self.snapshot, from, until);
        for event in &self.snapshot.events {
            if super::snapshot::text(event, "/note").contains(&self.instant.to_string()) {
                let one = Snapshot { events: vec![event.clone()], ..self.snapshot.clone() };
                events::tell(answer, &one);
            }
        }
        *answer = std::mem::take(answer).in_order();
    }

    fn verdict(&self, answer: &mut Answer) {
        if let Some(claim) = self.status.claimed.iter().find(|claim| claim.time == self.instant) {
            return self.claimed(answer, claim.start);
        }
        let skipped = self.status.skipped.iter().rev();
        let mut skipped =
            skipped.filter(|range| range.from <= self.instant && self.instant <= range.to);
        let current = self.input.to_schedule(self.now());
        let is_one = |of: &Schedule| is_instant(of, self.instant);
        let of_old = self.input.last_observed(self.now()).is_some_and(|old| is_one(&old));
        let of_present = current.as_ref().is_ok_and(is_one);
        match (skipped.next(), &current) {
            // The range may stand for instants of an expression that is gone.
            (Some(range), Ok(_)) if !of_present && !of_old && range.count > 1 => {
                self.maybe_skipped(answer, range.reason);
            }
            (Some(range), _) => self.skipped(answer, range.reason),
            (None, Err(error)) => self.unusable(answer, &error.problem()),
            (None, Ok(present)) if !of_present && !of_old => self.no_instant(answer, present),
            (None, Ok(present)) => self.undecided_or_gone(answer, present),
        }
    }

    fn claimed(&self, answer: &mut Answer, start: bool) {
        let state = if start { "Claimed" } else { "Waiting" };
        answer.stands(
            state,
            None,
            format!("The instant {} was claimed, but {} is gone.", self.instant, self.made.object),
        );
        answer.because("Someone deleted the object. Deleting something that runs is a cancel: what it ran is stopped, and the schedule keeps its claim until that is proven over. Until then it counts as running.");
        answer.then(None, "The operator looks every 5 seconds whether its runs are over; then the instant is recorded as Deleted. It is not run again.");
        answer.can(
            "Only if you know that nothing of it runs any more and the operator cannot find out: add its uid (see status.claimed) with your reason to spec.abandon",
            self.target.edit(),
        );
    }

    fn skipped(&self, answer: &mut Answer, reason: SkipReason) {
        answer.stands(
            "Skipped",
            Some(reason.as_str()),
            format!("The instant {} was not run, and will not be.", self.instant),
        );
        answer.because(skipped::<S>(reason));
        if reason == SkipReason::Concurrent {
            let others = Others::of(self.snapshot, self.schedule, &self.status);
            others.explain_skip(answer, self.instant, Within::moment(self.decided()));
        }
        answer.because("Every instant that is not run is recorded with its reason in status.skipped of the schedule (the last 20 ranges) and counted in status.skippedTotal.");
        if reason == SkipReason::Suspended
            && let Some(note) = self.schedule.timing().suspend_reason
        {
            answer.because(format!("Note on the suspension: {note}"));
        }
        self.next_instant(answer);
        if let Some(fix) = skipped_fix::<S>(reason) {
            answer.can(fix, self.target.edit());
        }
        self.offer_trigger(answer);
    }

    /// When it was decided that it is not run: the event says it, else it was at the instant.
    fn decided(&self) -> Timestamp {
        let (reason, instant) = (skip_event(SkipReason::Concurrent), self.instant.to_string());
        let told = self.snapshot.events.iter().find(|event| {
            let said = |pointer| super::snapshot::text(event, pointer);
            said("/reason") == reason && said("/note").contains(&instant)
        });
        told.and_then(events::first_seen).unwrap_or_else(|| self.moment())
    }

    fn maybe_skipped(&self, answer: &mut Answer, reason: SkipReason) {
        answer.stands("NoInstant", None, format!("{} is no instant of the schedule as it is now; it lies in a range that was not run.", self.instant));
        answer.because(skipped::<S>(reason));
        answer.because("Whether it was an instant of an earlier expression is not recorded.");
        self.next_instant(answer);
    }

    fn unusable(&self, answer: &mut Answer, problem: &str) {
        answer.stands(
            "Invalid",
            Some("InvalidSchedule"),
            format!(
                "Whether {} is an instant cannot be said: the schedule cannot be used.",
                self.instant
            ),
        );
        answer.because(format!("spec.schedule or spec.timeZone {problem}."));
        answer.then(
            None,
            "No new instant runs until that is corrected. What was claimed before goes on.",
        );
        answer.can("To correct it", self.target.edit());
    }

    fn no_instant(&self, answer: &mut Answer, present: &Schedule) {
        let timing = self.schedule.timing();
        answer.stands(
            "NoInstant",
            None,
            format!("{} is no instant of this schedule.", self.instant),
        );
        answer.because(format!(
            "The expression {:?} in time zone {} does not fire then.",
            timing.schedule, timing.time_zone
        ));
        let before = self
            .moment()
            .checked_sub(NEAR)
            .ok()
            .and_then(|from| present.last_within(from, self.moment()));
        if let Some(before) = before {
            answer.because(format!(
                "The instant before it is {before} ({} there).",
                present.local_time(before)
            ));
        }
        match present.next_after(self.moment()) {
            Some(after) => {
                let local = present.local_time(after);
                answer.because(format!("The instant after it is {after} ({local} there)."));
                let about = Target::new(self.target.object.clone(), &self.target.namespace);
                answer.can(
                    "To see the next instants with their local times",
                    format!("kubectl punctual next {} -n {}", about.object, about.namespace),
                );
            }
            None => answer.because("No instant follows it: the expression never fires again."),
        }
    }

    fn undecided_or_gone(&self, answer: &mut Answer, present: &Schedule) {
        let (now, instant) = (self.now(), self.instant);
        if self.status.pruned_through.is_some_and(|through| instant <= through) {
            return self.pruned(answer);
        }
        let decided = self.status.last_schedule_time.is_some_and(|last| instant <= last);
        let from = self.status.effective_time.map(|from| from.0);
        let from = from.or(self.input.creation_time);
        if let Some(from) = from.filter(|from| self.moment() < *from && !decided) {
            return self.before_it_counts(answer, from);
        }
        if decided {
            return self.gone(answer);
        }
        if let Some(since) = self.status.suspended_time.filter(|since| since.0 <= self.moment())
            && self.suspended_at(self.moment())
        {
            return self.suspended(answer, since.0);
        }
        match plan(&self.input, now) {
            Ok(planned) if self.moment() <= now => self.due(answer, &planned),
            Ok(_) => self.to_come(answer, present),
            Err(error) => self.unusable(answer, &error.problem()),
        }
    }

    fn suspended_at(&self, at: Timestamp) -> bool {
        self.input.suspend && self.input.suspend_until_time.is_none_or(|until| at < until)
    }

    fn pruned(&self, answer: &mut Answer) {
        answer.stands(
            "Unknown",
            Some("RecordPruned"),
            format!("Records of {} may have been removed: it may have run.", self.instant),
        );
        let through = self.status.pruned_through.map(|t| t.to_string()).unwrap_or_default();
        answer.because(format!("Finished ones are kept as spec.retention says. Everything up to {through} (status.prunedThrough) may have been removed."));
        answer.because("Because it may have run, it is never run again, not even by hand.");
        self.offer_new_instant(answer);
    }

    fn before_it_counts(&self, answer: &mut Answer, from: Timestamp) {
        answer.stands(
            "Skipped",
            Some("BeforeEffectiveTime"),
            format!("The instant {} is before this schedule counts.", self.instant),
        );
        answer.because(format!("No instant before {} is ever run (status.effectiveTime). That is when the schedule was created, when its timing was edited, or when it was resumed: an edit must not set off work of the past.", second(from)));
        self.next_instant(answer);
        self.offer_trigger(answer);
    }

    fn gone(&self, answer: &mut Answer) {
        answer.stands(
            "Unknown",
            None,
            format!("The instant {} was decided, and no record of it is left.", self.instant),
        );
        let last = self.status.last_schedule_time.map(|t| t.to_string()).unwrap_or_default();
        answer.because(format!("Every instant up to {last} is decided (status.lastScheduleTime): it was run, or skipped and counted."));
        answer.because("Either its object was deleted by hand, or it belongs to a range that is older than the last 20 in status.skipped.");
        let totals = &self.status.skipped_total;
        if !totals.is_empty() {
            let totals: Vec<String> = totals.iter().map(|(why, n)| format!("{n} {why}")).collect();
            answer.because(format!("Skipped so far, in all: {}.", totals.join(", ")));
        }
        self.next_instant(answer);
        self.offer_new_instant(answer);
    }

    fn suspended(&self, answer: &mut Answer, since: Timestamp) {
        let past = self.moment() <= self.now();
        let tense = if past { "was not run" } else { "will not be run" };
        answer.stands(
            "Suspended",
            Some("Suspended"),
            format!("The instant {} {tense}: the schedule is suspended.", self.instant),
        );
        answer.because(words::skipped(SkipReason::Suspended));
        let note = self.schedule.timing().suspend_reason.map(|n| format!(" Note: {n}"));
        answer.because(format!(
            "It has been suspended since {}.{}",
            second(since),
            note.unwrap_or_default()
        ));
        match self.input.suspend_until_time {
            Some(until) => answer.then(Some(until), "It resumes by itself (spec.suspendUntilTime), and this instant is recorded as Suspended."),
            None => answer.then(None, "When someone resumes it, this instant is recorded as Suspended in status.skipped."),
        }
        answer.can("To resume it", self.target.resume());
        if past {
            self.offer_trigger(answer);
        }
    }

    /// It has come, and nothing was decided. What the operator would decide now is what the operator's
    /// own plan says.
    fn due(&self, answer: &mut Answer, planned: &SchedulePlan) {
        let runs = planned.run.contains(&self.instant);
        let skip = planned.skipped.iter().find(|r| r.from <= self.instant && self.instant <= r.to);
        answer.stands(
            "Due",
            None,
            format!(
                "The instant {} has come ({}) and is not decided yet.",
                self.instant,
                from_now(self.moment(), self.now())
            ),
        );
        explain_ready(answer, &self.status);
        explain_no_leader(answer, self.snapshot);
        if runs {
            answer.then(None, format!("A leader that looks now runs it{}.", self.policy_note()));
        } else if let Some(range) = skip {
            answer.then(
                None,
                format!(
                    "A leader that looks now does not run it any more ({}).",
                    range.reason.as_str()
                ),
            );
            answer.because(skipped::<S>(range.reason));
        } else {
            answer.then(None, "A leader decides it when it looks next.");
        }
    }

    fn policy_note(&self) -> String {
        let Some(policy) = policy(self.schedule) else { return String::new() };
        if !self.status.claimed.iter().any(|claim| claim.start) {
            return String::new();
        }
        format!(", as far as concurrencyPolicy {policy:?} allows: an earlier one is not over")
    }

    fn to_come(&self, answer: &mut Answer, present: &Schedule) {
        answer.stands("ToCome", None, format!("The instant {} has not come.", self.instant));
        answer.because(format!(
            "It is {} in the time zone of the schedule.",
            present.local_time(self.instant)
        ));
        explain_ready(answer, &self.status);
        answer.then(
            Some(self.moment()),
            format!(
                "It comes due; a leader creates {}, claims it and starts it{}.",
                self.made.object,
                self.policy_note()
            ),
        );
        let timing = self.schedule.timing();
        if timing.spread.window_seconds > 0 {
            let start = crate::schedules::not_before(self.schedule, self.instant);
            answer.then(Some(start), "It starts then: spec.spread delays it.");
        }
        if self.input.missed_policy != MissedRunsPolicy::All {
            answer.because(format!("If nobody leads at that time, spec.missedRuns.policy {:?} decides what becomes of it.", self.input.missed_policy));
        }
    }

    fn next_instant(&self, answer: &mut Answer) {
        match self.status.next_schedule_time {
            Some(next) => answer.then(Some(next.timestamp()), "The next instant of the schedule comes due."),
            None => answer.then(None, "No next instant is planned (suspended without an end, or the expression never fires)."),
        }
    }

    fn offer_new_instant(&self, answer: &mut Answer) {
        if makes_reports::<S>() {
            answer.can_do(OWN_REPORT);
        } else {
            answer.can("To do the work now, as a new instant", self.target.trigger(None));
        }
    }

    fn offer_trigger(&self, answer: &mut Answer) {
        if self.moment() > self.now() {
            return;
        }
        if makes_reports::<S>() {
            answer.can_do(OWN_REPORT);
        } else {
            answer.can(
                "If the work of this instant is wanted after all: this runs it once, under its own instant",
                self.target.trigger(Some(self.instant)),
            );
        }
    }
}

/// Whether it is an instant of the schedule.
fn is_instant(schedule: &Schedule, instant: IntendedTime) -> bool {
    let before = instant.timestamp().checked_sub(SignedDuration::from_secs(1));
    before.is_ok_and(|before| schedule.next_after(before) == Some(instant))
}
