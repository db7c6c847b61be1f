//! The end of a history: every instant is run or accounted for, and nothing is left to do.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    Blame, Invariant,
    facts::{self, Store},
    runs::{Run, Runs},
    terms::Terms,
    timeline::{Past, Timeline},
};
use crate::sim::{Key, Kind};

/// What is younger than this at the end may still be under way: the pauses between attempts of a
/// write that was refused are shorter, and so is the search for the end of a run.
const UNDER_WAY: Duration = Duration::from_secs(30);
/// The same for the wall clock.
const UNDER_WAY_WALL: SignedDuration = SignedDuration::from_secs(30);

/// Everything that the end is judged by.
pub(super) struct End<'a> {
    pub(super) start: Timestamp,
    pub(super) now: Timestamp,
    pub(super) at: Duration,
    pub(super) store: &'a Store,
    pub(super) terms: &'a Terms,
    pub(super) runs: &'a Runs,
    pub(super) timeline: &'a Timeline,
}

impl End<'_> {
    pub(super) fn judge(&self, blame: &mut Blame) {
        let of_reports = self.store.all(Kind::ReportSchedule);
        for (key, schedule) in self.store.all(Kind::MaintenanceSchedule).chain(of_reports) {
            if self.is_quarantined(schedule) {
                continue;
            }
            if let Some(past) = self.timeline.schedules.get(facts::uid(schedule)) {
                self.instants(past, schedule, blame);
            }
            self.claims(key, schedule, blame);
        }
        for (key, occurrence) in self.store.all(Kind::MaintenanceOccurrence) {
            let schedule = self.store.schedule_of(occurrence);
            let left_alone = schedule.is_some_and(|schedule| self.is_quarantined(schedule));
            if !left_alone && !self.is_quarantined(occurrence) && !facts::is_terminal(occurrence) {
                self.occurrence(key, occurrence, schedule, blame);
            }
        }
        for (key, job) in self.store.all(Kind::Job) {
            self.job(key, job, blame);
        }
        self.reports(blame);
    }

    /// Whether it carries a fence that no term of this history wrote: it is left alone.
    pub(super) fn is_quarantined(&self, object: &Value) -> bool {
        let highest = self.terms.newest_epoch();
        facts::fence(object)
            .is_some_and(|fence| !self.terms.knows(fence) && Some(fence.0) >= highest)
    }

    /// Every instant that became due was run, waits, or is in a range with a reason.
    fn instants(&self, past: &Past, schedule: &Value, blame: &mut Blame) {
        let end = self.now - UNDER_WAY_WALL;
        for (place, stretch) in past.stretches.iter().enumerate() {
            let from = stretch.from.max(self.start).max(past.created);
            let next = past.stretches.get(place + 1).map(|next| next.from);
            let until = next.map_or(end, |next| end.min(next - SignedDuration::from_nanos(1)));
            let due = stretch.timing.instants(past.created, from, until);
            for instant in due.unwrap_or_default() {
                let given = past.given.is_some_and(|given| instant <= given);
                if !given && !self.is_accounted(past, schedule, instant) {
                    let sentence = format!("{instant} was due, but nothing says what became of it");
                    blame.on(Invariant::InstantsAccounted, &past.key, sentence);
                }
            }
        }
    }

    fn is_accounted(&self, past: &Past, schedule: &Value, instant: Timestamp) -> bool {
        // A suspension is dated by the clock of the leader that saw it, which may have been slow.
        let dated = facts::time(schedule, "/status/suspendedTime");
        let since = past.suspended.map(|since| dated.map_or(since, |dated| since.min(dated)));
        if since.is_some_and(|since| since <= instant)
            || past.skipped.iter().any(|(from, to)| *from <= instant && instant <= *to)
        {
            return true;
        }
        let is_claimed = |claim: &Value| facts::time(claim, "/time") == Some(instant);
        if facts::claims(schedule).iter().any(is_claimed) {
            return true;
        }
        let key = occurrence_key(&past.key, instant);
        if self.runs.ran(&key) || self.store.has_ended(&key) {
            return true;
        }
        self.store.get(&key).is_some_and(|occurrence| {
            let by_hand = !facts::is_planned(occurrence);
            // One made by hand tells its own story; so does one that is left alone.
            by_hand || self.is_quarantined(occurrence)
        })
    }

    /// Whether the last write to an object is old enough to have been acted on.
    pub(super) fn has_rested(&self, key: &Key) -> bool {
        self.store.written(key).is_none_or(|at| at + UNDER_WAY <= self.at)
    }

    fn claims(&self, key: &Key, schedule: &Value, blame: &mut Blame) {
        if !self.has_rested(key) {
            return;
        }
        let mut left = |sentence: String| blame.on(Invariant::Converged, key, sentence);
        let mut by_start: BTreeMap<bool, Vec<&str>> = BTreeMap::new();
        for claim in facts::claims(schedule) {
            let time = facts::text(claim, "/time");
            by_start.entry(facts::is_started(claim)).or_default().push(time);
            let Some(instant) = facts::time(claim, "/time") else { continue };
            let occurrence_key = occurrence_key(key, instant);
            let of_claim = |o: &&Value| facts::uid(o) == facts::text(claim, "/uid");
            let over = self
                .store
                .get(&occurrence_key)
                .filter(of_claim)
                .is_some_and(|o| facts::is_terminal(o) && self.has_rested(&occurrence_key));
            if over {
                left(format!("the claim of {time} stands although its occurrence is over"));
            }
        }
        if let (None, Some(waiting)) = (by_start.get(&true), by_start.get(&false)) {
            left(format!("{} waits although nothing runs", waiting.join(", ")));
        }
    }

    fn occurrence(&self, key: &Key, o: &Value, schedule: Option<&Value>, blame: &mut Blame) {
        if !self.has_rested(key)
            || !schedule.is_none_or(|_| self.has_rested(&facts::schedule_key(o)))
        {
            return;
        }
        let mut left = |sentence: &str| blame.on(Invariant::Converged, key, sentence);
        let claim = schedule
            .into_iter()
            .flat_map(facts::claims)
            .find(|claim| facts::text(claim, "/uid") == facts::uid(o));
        let open = facts::attempts(o)
            .last()
            .filter(|attempt| ["", "Unknown"].contains(&facts::text(attempt, "/outcome")));
        let Some(attempt) = open else {
            if facts::flag(o, "/spec/cancel") {
                left("its cancel was not carried out, although nothing of it runs");
            } else if claim.is_some_and(facts::is_started) && self.may_begin(o, schedule) {
                left("its claim is started, but it was not prepared");
            } else if claim.is_none() && is_ghost(o, schedule) {
                left("its schedule has decided its instant without it, but it was not ended");
            }
            return;
        };
        if let Some(sentence) = self.of_attempt(o, attempt) {
            left(sentence);
        }
    }

    /// What is left to do about an open attempt.
    pub(super) fn of_attempt(&self, of: &Value, attempt: &Value) -> Option<&'static str> {
        let run = self.runs.get(facts::text(attempt, "/handle"))?;
        let stops = !facts::text(attempt, "/stopRequestedTime").is_empty();
        let unresolved = facts::text(of, "/status/state") == "Unresolved";
        let waits = unresolved && self.is_for_a_person(of, attempt, run);
        if run.over().is_some_and(|over| over + UNDER_WAY <= self.at) && !run.lost && !waits {
            return Some("its run is over, but its end was not recorded");
        }
        // Of a Job that is gone nobody can say that no one else had released it.
        let unseen = unresolved && run.job_over.is_some();
        let held = run.released.is_none() && run.ended.is_none() && !run.lost && !stops && !unseen;
        held.then_some("its run is prepared and committed, but it was not released")
    }

    /// Whether only a person can say what a run that is over did: that two pods are over says nothing
    /// about what they did; of a pod that vanished with its node, or before anybody recorded it,
    /// nobody can say that it is over; and none that is gone or reports no JSON tells what it delivered.
    fn is_for_a_person(&self, of: &Value, attempt: &Value, run: &Run) -> bool {
        let (pod, node) = (facts::text(attempt, "/pod/uid"), facts::text(attempt, "/pod/nodeUID"));
        // Of a Node that was replaced a moment before, the former uid may have been recorded.
        let unrecorded = pod.is_empty() || !run.was_on(pod, node);
        let undelivered = facts::text(of, "/spec/artifact") == "Required"
            && facts::text(of, "/status/reason") == "ResultLost";
        run.was_doubled()
            || run.has_lost_its_proof(self.store)
            || (unrecorded && run.has_lost_its_pods())
            || (undelivered && run.has_lost_its_report())
    }

    /// Whether its instant, delayed as far as its schedule may delay it, is long over.
    pub(super) fn is_due(&self, work: &Value, schedule: Option<&Value>) -> bool {
        let spread = schedule
            .and_then(|schedule| schedule.pointer("/spec/spread/windowSeconds"))
            .and_then(Value::as_i64)
            .unwrap_or(0);
        facts::time(work, "/spec/intendedTime")
            .and_then(|at| at.checked_add(SignedDuration::from_secs(spread)).ok())
            .is_some_and(|at| at <= self.now - UNDER_WAY_WALL)
    }

    /// Whether a started occurrence has nothing more to wait for.
    fn may_begin(&self, occurrence: &Value, schedule: Option<&Value>) -> bool {
        let rested = self.now - UNDER_WAY_WALL;
        let next = facts::time(occurrence, "/status/nextAttemptTime");
        let refused = facts::list(occurrence, "/status/conditions")
            .iter()
            .any(|condition| facts::text(condition, "/reason") == "CreateRefused");
        self.is_due(occurrence, schedule) && next.is_none_or(|at| at <= rested) && !refused
    }

    /// A Job that was prepared for nothing is removed.
    fn job(&self, key: &Key, job: &Value, blame: &mut Blame) {
        let parent = facts::text(job, "/metadata/labels/punctual.dev~1parent-uid");
        let held =
            facts::flag(job, "/spec/suspend") && facts::annotation(job, "released").is_empty();
        let going = !facts::text(job, "/metadata/deletionTimestamp").is_empty();
        let over = self.store.occurrence(parent).is_some_and(facts::is_terminal);
        if held
            && over
            && !going
            && self.has_rested(key)
            && !self.runs.is_committed(facts::uid(job))
        {
            let sentence = "it was prepared for an occurrence that is over, and was not removed";
            blame.on(Invariant::Converged, key, sentence);
        }
    }
}

/// Planned work whose instant its schedule has decided without it.
pub(super) fn is_ghost(work: &Value, schedule: Option<&Value>) -> bool {
    let instant = facts::text(work, "/spec/intendedTime");
    let decided = schedule.is_some_and(|schedule| {
        // Instants have one spelling, which sorts by time.
        instant <= facts::text(schedule, "/status/lastScheduleTime")
    });
    facts::is_planned(work) && decided && facts::attempts(work).is_empty()
}

/// The work of an instant of a schedule.
fn occurrence_key(schedule: &Key, instant: Timestamp) -> Key {
    facts::work_key(schedule, &instant.strftime("%Y%m%d%H%M").to_string())
}
