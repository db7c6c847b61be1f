//! Why an occurrence is as it is.

use jiff::Timestamp;

use super::{
    answer::{Answer, second, span},
    blocker::{Others, Within},
    commands::Target,
    events,
    run::Run,
    snapshot::{Snapshot, known},
    terms::{Terms, created_by, explain_no_leader},
    words,
};
use crate::{
    api::{
        Claim, ConcurrencyPolicy, MaintenanceOccurrence, MaintenanceOccurrenceStatus,
        MaintenanceSchedule, OccurrenceState, RunSpec, Time,
    },
    runs::{UNANSWERED_INTERVAL, conditions},
    schedules::not_before,
    time::SkipReason,
};

/// What a person can do about what cannot be prepared.
pub(super) const REMOVE_THE_CAUSE: &str = "Remove the cause that the sentence above names.";

/// Explains an occurrence that could be read.
pub(super) fn explain(
    snapshot: &Snapshot,
    occurrence: &MaintenanceOccurrence,
    answer: &mut Answer,
) {
    let status = occurrence.status.clone().unwrap_or_default();
    let schedule: Option<MaintenanceSchedule> = known(snapshot.schedule.as_ref());
    let terms = Terms::of(snapshot);
    let target = Target::new(answer.object.clone(), &answer.namespace);
    let view = View { snapshot, occurrence, status: &status, schedule, terms, target };
    view.story(answer);
    view.state(answer);
    events::explain_fenced_write(answer, snapshot);
    if view.occurrence.metadata.deletion_timestamp.is_some() {
        answer.because("It is being deleted. Deleting something that runs is a cancel: its run is stopped, and its instant is not run again.");
    }
}

struct View<'a> {
    snapshot: &'a Snapshot,
    occurrence: &'a MaintenanceOccurrence,
    status: &'a MaintenanceOccurrenceStatus,
    schedule: Option<MaintenanceSchedule>,
    terms: Terms,
    target: Target,
}

impl View<'_> {
    fn run(&self) -> Run<'_> {
        let run = self.run_in_force();
        Run {
            target: &self.target,
            uid: self.occurrence.metadata.uid.as_deref().unwrap_or_default(),
            attempts: &self.status.attempts,
            class: run.map_or(crate::api::ActionClass::Fenced, RunSpec::maintenance_class),
            spec: run,
            conditions: &self.status.conditions,
            due: Some(self.occurrence.spec.intended_time.timestamp()),
            cancel: self.occurrence.spec.cancel,
            resolution: self.occurrence.spec.resolution.as_ref(),
            reason: self.reason(),
            message: self.message(),
        }
    }

    fn run_in_force(&self) -> Option<&RunSpec> {
        let of_schedule = self.schedule.as_ref().map(|schedule| &schedule.spec.run);
        self.status.run.as_ref().or(self.occurrence.spec.run.as_ref()).or(of_schedule)
    }

    fn reason(&self) -> &str {
        self.status.reason.as_deref().unwrap_or_default()
    }

    fn message(&self) -> &str {
        self.status.message.as_deref().unwrap_or_default()
    }

    fn by_hand(&self) -> bool {
        self.occurrence.spec.schedule_uid.is_none()
    }

    fn claim(&self) -> Option<&Claim> {
        let claimed = &self.schedule.as_ref()?.status.as_ref()?.claimed;
        let uid = self.occurrence.metadata.uid.as_deref()?;
        claimed.iter().find(|claim| claim.uid == uid)
    }

    fn finished(&self) -> Option<Timestamp> {
        finished(&self.status.conditions)
    }

    fn story(&self, answer: &mut Answer) {
        let object = self.snapshot.object.as_ref();
        let created = self.occurrence.metadata.creation_timestamp.as_ref().map(|at| at.0);
        let instant = self.occurrence.spec.intended_time;
        let schedule = &self.occurrence.spec.schedule_name;
        let epoch = object.and_then(created_by).filter(|_| !self.by_hand());
        let who = match (self.by_hand(), epoch) {
            (true, _) => "by hand".to_owned(),
            (false, Some(epoch)) => format!("by {}", self.terms.who(epoch)),
            (false, None) => "by the operator".to_owned(),
        };
        let what = format!(
            "created {who}, for the instant {instant} of msched/{schedule}; inert until the schedule claims it"
        );
        answer.happened(created, what, epoch);
        if let Some(claim) = self.claim() {
            let what = if claim.start {
                "claimed: the schedule recorded that this object runs its instant"
            } else {
                "claimed: the schedule recorded that this object runs its instant when its turn comes"
            };
            answer.happened(None, what, None);
        } else if !self.status.attempts.is_empty() {
            answer.happened(None, "claimed by its schedule, which is what let it start", None);
        }
        self.run().tell(answer, &self.terms);
        if let (Some(at), Some(state)) = (self.finished(), self.status.state) {
            let reason = self.reason();
            answer.happened(Some(at), format!("ended: {state:?} ({reason})"), None);
        }
        let until = self.finished().unwrap_or(self.snapshot.now);
        events::end_story(answer, self.snapshot, &self.terms, created, until);
    }

    fn state(&self, answer: &mut Answer) {
        let instant = self.occurrence.spec.intended_time;
        let Some(state) = self.status.state else {
            answer.stands("Pending", None, "No leader has looked at it yet.");
            return self.pending(answer);
        };
        let reason = self.reason();
        let plain = |what: &str| format!("The work of {instant} {what}");
        let summary = match state {
            OccurrenceState::Pending => plain("has not started."),
            OccurrenceState::Starting => plain("is prepared and about to start."),
            OccurrenceState::Running => plain("is running."),
            OccurrenceState::Cancelling => plain("is being stopped."),
            OccurrenceState::Unresolved => plain("may or may not be done."),
            OccurrenceState::Succeeded => plain("is done."),
            OccurrenceState::Failed => plain("failed, and is not tried again."),
            OccurrenceState::Cancelled => plain("was cancelled."),
            OccurrenceState::Skipped => plain("was not run, and will not be."),
            OccurrenceState::Superseded => plain("was not run by this object, and will not be."),
        };
        answer.stands(format!("{state:?}"), Some(reason), summary);
        match state {
            OccurrenceState::Pending => self.pending(answer),
            OccurrenceState::Starting | OccurrenceState::Running => self.acting(answer),
            OccurrenceState::Cancelling => self.cancelling(answer),
            OccurrenceState::Unresolved => self.run().explain_unresolved(answer, &self.holds()),
            _ => self.over(answer, state),
        }
    }

    /// What an occurrence that is not over keeps others from.
    fn holds(&self) -> String {
        let Some(schedule) = &self.schedule else {
            return "Its schedule does not exist, so nothing waits for it.".to_owned();
        };
        let name = schedule.metadata.name.as_deref().unwrap_or_default();
        match schedule.spec.concurrency_policy {
            ConcurrencyPolicy::Allow => {
                format!(
                    "concurrencyPolicy of msched/{name} is Allow: later instants run meanwhile."
                )
            }
            ConcurrencyPolicy::Forbid => format!(
                "Until then it counts as running. concurrencyPolicy of msched/{name} is Forbid, so instants that come due meanwhile are skipped (Concurrent)."
            ),
            ConcurrencyPolicy::Replace | ConcurrencyPolicy::Enqueue => format!(
                "Until then it counts as running. concurrencyPolicy of msched/{name} is {:?}, so later instants wait for it.",
                schedule.spec.concurrency_policy
            ),
        }
    }

    fn pending(&self, answer: &mut Answer) {
        if words::not_prepared(self.reason()).is_some() {
            say_not_prepared(answer, self.reason(), self.message());
        } else {
            self.say_why(answer);
        }
        if self.occurrence.spec.cancel {
            self.cancelled_before_start(answer);
            return;
        }
        match (self.reason(), self.claim(), &self.schedule) {
            ("RetryScheduled" | "RetryRequested", ..) => {
                let at = self.status.next_attempt_time.map(|at| at.0);
                answer.then(at, "The next attempt starts.");
            }
            (reason, ..) if words::not_prepared(reason).is_some() => {
                answer.then(None, tried_again());
                answer.can_do(REMOVE_THE_CAUSE);
            }
            ("ScheduleNotFound", ..) | (_, _, None) => self.without_schedule(answer),
            (_, Some(claim), Some(schedule)) if claim.start => {
                let at = not_before(schedule, claim.time);
                let when = (at > self.snapshot.now).then_some(at);
                answer.then(when, "It starts.");
            }
            (_, Some(_), Some(schedule)) => self.waits_its_turn(answer, schedule),
            (_, None, Some(schedule)) => self.unclaimed(answer, schedule),
        }
        explain_no_leader(answer, self.snapshot);
        answer.can("If it is not wanted any more", self.target.cancel());
    }

    /// One that may start may have been asked for; a service that cannot hold runs what it is asked to
    /// prepare.
    fn cancelled_before_start(&self, answer: &mut Answer) {
        let may_start = self.claim().is_some_and(|claim| claim.start);
        if may_start && self.run_in_force().is_some_and(|run| run.http.is_some()) {
            answer.then(None, "A person asked to cancel it. The service may have been asked to run it, so it is Cancelled as soon as the service confirms that nothing of it runs.");
        } else {
            answer.then(None, "A person asked to cancel it; nothing of it runs, so it is Cancelled as soon as a leader looks.");
        }
    }

    fn without_schedule(&self, answer: &mut Answer) {
        let name = &self.occurrence.spec.schedule_name;
        if self.snapshot.not_read.is_empty() {
            answer.because(format!("There is no MaintenanceSchedule {name:?} in this namespace."));
        }
        answer.then(None, "It starts once the schedule exists and claims it.");
        answer.can_do(format!("Create MaintenanceSchedule {name:?}, or delete this occurrence."));
    }

    /// What is in its way.
    fn waits_its_turn(&self, answer: &mut Answer, schedule: &MaintenanceSchedule) {
        let status = schedule.status.clone().unwrap_or_default();
        let others = Others::of(self.snapshot, schedule, &status);
        others.explain_wait(answer, self.occurrence.spec.intended_time);
    }

    /// What was in its way, if it gave way for others.
    fn gave_way(&self, answer: &mut Answer) {
        let created = self.occurrence.metadata.creation_timestamp.as_ref().map(|at| at.0);
        let (Some(schedule), Some(until)) = (&self.schedule, self.finished()) else { return };
        let within = Within { from: created.map_or(until, |from| from.min(until)), until };
        let status = schedule.status.clone().unwrap_or_default();
        let others = Others::of(self.snapshot, schedule, &status);
        others.explain_skip(answer, self.occurrence.spec.intended_time, within);
    }

    fn unclaimed(&self, answer: &mut Answer, schedule: &MaintenanceSchedule) {
        let instant = self.occurrence.spec.intended_time;
        if !self.by_hand() {
            answer.because("Its schedule has not claimed it yet. Until then it is inert: it starts nothing, whoever created it.");
            answer.then(None, "Within moments the schedule claims it, or decides its instant without it (Superseded).");
            return;
        }
        if instant.timestamp() > self.snapshot.now {
            answer.because("It was made by hand for an instant that has not come. The right time is part of what was asked.");
            answer.then(Some(instant.timestamp()), "It asks its schedule for a start.");
            return;
        }
        let running = schedule.status.as_ref().is_some_and(|s| s.claimed.iter().any(|c| c.start));
        if running {
            answer.because("It was made by hand. Such ones replace nothing and are never skipped for another; they wait until nothing of the schedule runs.");
            self.waits_its_turn(answer, schedule);
        } else {
            answer.then(None, "Within moments its schedule claims it, and it starts.");
        }
    }

    fn acting(&self, answer: &mut Answer) {
        answer.because("Its schedule claimed it in one write together with the decision about this instant. Only what that claim names runs.");
        self.say_why(answer);
        self.run().explain_running(answer, self.snapshot.now);
        if self.run_in_force().is_some_and(|run| run.job.is_some()) {
            answer.can("To see what it prints", self.target.logs());
        }
        answer.can("To stop it (cannot be taken back)", self.target.cancel());
    }

    fn cancelling(&self, answer: &mut Answer) {
        self.say_why(answer);
        answer.because("The wish to stop is recorded. It counts as running until the provider confirms that nothing acts any more: an end is never assumed.");
        answer.then(
            None,
            "It is asked every 2 seconds whether it is over; then its end is recorded.",
        );
    }

    fn over(&self, answer: &mut Answer, state: OccurrenceState) {
        self.say_why(answer);
        answer.because(
            "Its end is final: an instant that is over is never run again, whoever leads.",
        );
        answer.then(
            None,
            "Nothing; the record is kept as long as spec.retention of its schedule says.",
        );
        if state == OccurrenceState::Succeeded {
            return;
        }
        if self.reason() == SkipReason::Concurrent.as_str() {
            self.gave_way(answer);
        }
        let limit = self.run_in_force().map_or(1, RunSpec::maintenance_attempts);
        self.run().explain_attempts(answer, limit);
        if state == OccurrenceState::Failed && self.run_in_force().is_some_and(|r| r.job.is_some())
        {
            answer.can("To see what it printed, if its pod is still there", self.target.logs());
        }
        let schedule = format!("msched/{}", self.occurrence.spec.schedule_name);
        let schedule = Target::new(schedule, &self.target.namespace);
        answer.can("To do the work after all, now, as a new instant", schedule.trigger(None));
    }

    /// The recorded sentence, and what its reason means.
    fn say_why(&self, answer: &mut Answer) {
        say_why(answer, self.reason(), self.message());
        if let Some(Time(at)) = self.status.next_attempt_time.filter(|at| at.0 > self.snapshot.now)
        {
            answer.because(format!(
                "The pause ends at {} (in {}).",
                second(at),
                span(at.duration_since(self.snapshot.now))
            ));
        }
    }
}

/// The recorded sentence of a reason, and what the reason means.
pub(super) fn say_why(answer: &mut Answer, reason: &str, message: &str) {
    say(answer, reason, message, words::meaning(reason));
}

/// The same of what cannot be prepared for now: nothing of it is over, and nothing of it is committed.
pub(super) fn say_not_prepared(answer: &mut Answer, reason: &str, message: &str) {
    say(answer, reason, message, words::not_prepared(reason).or_else(|| words::meaning(reason)));
}

/// What happens next to what cannot be prepared.
pub(super) fn tried_again() -> String {
    format!("It is tried again every {}.", span(UNANSWERED_INTERVAL))
}

fn say(answer: &mut Answer, reason: &str, message: &str, meaning: Option<&str>) {
    if !message.is_empty() {
        let message = message.trim_end_matches('.');
        answer.because(format!(
            "{}: {message}.",
            if reason.is_empty() { "Recorded" } else { reason }
        ));
    }
    match meaning {
        Some(meaning) => answer.because(meaning),
        None if message.is_empty() && !["", "Running"].contains(&reason) => {
            answer.because(format!("The recorded reason is {reason}; no more is recorded."));
        }
        None => {}
    }
}

/// When something ended, if it is over.
pub(super) fn finished(all: &[crate::api::Condition]) -> Option<Timestamp> {
    let mut finished = all.iter().filter(|condition| {
        condition.r#type == conditions::FINISHED
            && condition.status == crate::api::ConditionStatus::True
    });
    finished.next().map(|condition| condition.last_transition_time.0)
}

/// Names in a sentence: the first five, and how many more.
pub(super) fn list(names: &[String]) -> String {
    const MOST: usize = 5;
    let shown = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
