//! What a schedule decides, the same for every [`Kind`]: pure, except [`hands`].
//!
//! The order is *create inert, then claim*. The work that the plan wants is created first; it is
//! inert. Then one write on the schedule, conditional on the very version the plan was computed
//! from, records the whole decision: the cursor, the skipped instants and the claims. Work starts
//! only while its uid is claimed, so that write is the commit of the instant and the concurrency
//! decision at once. If it fails, the plan is made anew. Claiming before creating, or without the
//! uid, runs an instant twice (shown by an exhaustive model).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::{Resource as _, ResourceExt as _};

use crate::{
    api::{
        Claim, ConcurrencyPolicy, Fence, MAX_SKIPPED_RANGES, MaintenanceScheduleStatus,
        ScheduleState, set_condition,
    },
    providers::Acceptance,
    runs::{Note, conditions},
    time::{
        IntendedTime,
        plan::{self, PlanInput},
        skipped::{SkipReason, SkippedRange, add_skipped_totals, merge_skipped},
        spread::SpreadOf,
    },
};

mod acceptance;
mod claims;
mod concurrency;
pub mod hands;
mod kind;
mod place;
pub mod retention;
mod standing;
mod words;

pub use claims::gone;
pub(crate) use kind::timing;
pub use kind::{Kind, RunOf, Timing, Work};
pub use standing::{Standing, gone_before_start, not_before, standing};
pub use words::skip_event;

use claims::inherited_claims;
use words::skip_sentence;

/// How long the creation of work is tried when the schedule names no deadline.
pub const CREATE_PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// When a clock that disagrees with the API server's is looked at again.
const CLOCK_RECHECK: SignedDuration = SignedDuration::from_secs(2);

/// When it is looked again whether the runs of deleted work are over.
const PROBE_INTERVAL: SignedDuration = SignedDuration::from_secs(5);

/// Everything a decision about a schedule depends on.
#[derive(Clone, Debug)]
pub struct Snapshot<S: Kind> {
    /// The schedule, at the version that the decision's write replaces.
    pub schedule: S,
    /// All its work that is known, by instant.
    pub works: BTreeMap<IntendedTime, S::Work>,
    /// Set if the schedule is new, re-created or restored, and its non-terminal work was read live
    /// and sealed.
    pub taken_over: Option<TakenOver>,
    /// Instants whose work the API server refused to create in this pass.
    pub refused: BTreeMap<IntendedTime, Refusal>,
    /// Uids of claimed work that is gone and whose runs are proven over.
    pub over: BTreeSet<String>,
    /// For how many more instants there is room; beyond that one is skipped, the oldest go first.
    pub room: usize,
    /// The present term.
    pub fence: Fence,
    /// Why nothing may be created now (the clock disagrees with the API server's).
    pub may_create: Result<(), String>,
    /// Answer to [`Plan::ask_acceptance`] in this pass.
    pub acceptance: Option<Acceptance>,
}

/// What was found when a schedule was seen for the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// The newest instant of work of its name that carried a fence.
    pub fenced_through: Option<IntendedTime>,
}

/// The API server refused to create the work of an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its words.
    pub message: String,
    /// When it is tried again.
    pub retry_at: Timestamp,
}

/// What to do about a schedule whose instants make `W`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<W> {
    /// Create these first, put the answers into the snapshot, and decide again.
    pub create: Vec<(IntendedTime, W)>,
    /// Claimed uids whose object is not known: look whether it exists, and if not whether its runs
    /// are over; then decide again.
    pub probe: Vec<Claim>,
    /// Ask the provider whether it would accept the run, put the answer into the snapshot, and decide
    /// again.
    pub ask_acceptance: bool,
    /// Write this.
    pub status: Option<MaintenanceScheduleStatus>,
    /// Remove these records; the stored `prunedThrough` covers them.
    pub prune: Vec<W>,
    /// When to look again.
    pub wake_at: Option<Timestamp>,
    /// What happened, once the write is committed.
    pub notes: Vec<Note>,
}

impl<W> Default for Plan<W> {
    fn default() -> Self {
        Self {
            create: Vec::new(),
            probe: Vec::new(),
            ask_acceptance: false,
            status: None,
            prune: Vec::new(),
            wake_at: None,
            notes: Vec::new(),
        }
    }
}

/// Whether this schedule must be taken over before anything is decided: it is new, was re-created
/// under the same name, or was restored without the operator's memory of it.
pub fn needs_takeover<S: Kind>(schedule: &S) -> bool {
    let observed = schedule.status().and_then(|status| status.observed.as_ref());
    match observed {
        None => true,
        Some(observed) => {
            observed.uid.as_ref().is_some_and(|uid| Some(uid) != schedule.meta().uid.as_ref())
        }
    }
}

/// The delay of an instant's start by `spread.windowSeconds`: the same for every leader.
pub fn spread_delay<S: Kind>(schedule: &S, instant: IntendedTime) -> SignedDuration {
    SignedDuration::from_secs(spread_of(schedule).delay_seconds(instant))
}

fn spread_of<S: Kind>(schedule: &S) -> SpreadOf {
    SpreadOf {
        window_seconds: i64::from(schedule.timing().spread.window_seconds),
        of: S::SPREAD,
        namespace: schedule.namespace().unwrap_or_default(),
        name: schedule.name_any(),
    }
}

/// The last moment at which work of this instant may start, if there is one.
pub fn start_deadline<S: Kind>(schedule: &S, instant: IntendedTime) -> Option<Timestamp> {
    let seconds = schedule.timing().starting_deadline_seconds?;
    let delay = spread_delay(schedule, instant);
    instant.timestamp().checked_add(delay + SignedDuration::from_secs(seconds)).ok()
}

/// What the schedule and its status say to the plan.
pub fn plan_input<S: Kind>(schedule: &S, status: &MaintenanceScheduleStatus) -> PlanInput {
    let spec = schedule.timing();
    let meta = schedule.meta();
    PlanInput {
        schedule: spec.schedule.to_owned(),
        time_zone: spec.time_zone.to_owned(),
        dst_policy: spec.dst_policy,
        anchor: spec.anchor,
        suspend: spec.suspend,
        suspend_until_time: spec.suspend_until_time,
        starting_deadline_seconds: spec.starting_deadline_seconds,
        missed_policy: spec.missed_runs.policy,
        missed_limit: usize::try_from(spec.missed_runs.limit).unwrap_or(1),
        spread: (spec.spread.window_seconds > 0).then(|| spread_of(schedule)),
        uid: meta.uid.clone(),
        creation_time: meta.creation_timestamp.as_ref().map(|t| t.0),
        last_schedule_time: status.last_schedule_time,
        effective_time: status.effective_time.map(|t| t.0),
        suspended_time: status.suspended_time.map(|t| t.0),
        observed: status.observed.as_ref().map(|o| plan::Observed {
            uid: o.uid.clone(),
            schedule: o.schedule.clone(),
            time_zone: o.time_zone.clone(),
            dst_policy: o.dst_policy,
            anchor: o.anchor,
            suspend_until_time: o.suspend_until_time.map(|t| t.0),
        }),
    }
}

/// Decides what the schedule does next. Pure: equal snapshots and times give equal plans.
pub fn decide<S: Kind>(snapshot: &Snapshot<S>, now: Timestamp) -> Plan<S::Work> {
    let mut draft = Draft::new(snapshot, now);
    draft.keep_claims();
    let input = plan_input(&snapshot.schedule, &draft.status);
    match plan::plan(&input, now) {
        Ok(planned) => draft.place(&planned),
        Err(error) => draft.invalid(&input, &error.to_string()),
    }
    draft.start_next();
    draft.prune();
    draft.finish()
}

/// A decision in the making.
struct Draft<'a, S: Kind> {
    snapshot: &'a Snapshot<S>,
    now: Timestamp,
    status: MaintenanceScheduleStatus,
    skipped: Vec<SkippedRange>,
    /// What the plan runs: it lies between ranges that are then not adjacent.
    run: Vec<IntendedTime>,
    /// Instants that the plan has still to decide, because it cannot be recorded in this pass.
    undecided: place::Undecided,
    ready: (bool, &'static str, String),
    plan: Plan<S::Work>,
}

impl<'a, S: Kind> Draft<'a, S> {
    fn new(snapshot: &'a Snapshot<S>, now: Timestamp) -> Self {
        let stored = snapshot.schedule.status().cloned().unwrap_or_default();
        let status = match &snapshot.taken_over {
            None => stored,
            Some(found) => MaintenanceScheduleStatus {
                // A mark never goes back: records up to it may have been removed.
                pruned_through: stored.pruned_through.max(found.fenced_through),
                claimed: inherited_claims(snapshot),
                conditions: stored.conditions,
                fence: stored.fence,
                ..MaintenanceScheduleStatus::default()
            },
        };
        let ready = (true, "Scheduled", String::new());
        Self {
            snapshot,
            now,
            status,
            skipped: Vec::new(),
            run: Vec::new(),
            undecided: place::Undecided::Nothing,
            ready,
            plan: Plan::default(),
        }
    }

    fn policy(&self) -> ConcurrencyPolicy {
        self.snapshot.schedule.policy()
    }

    fn wake(&mut self, at: Timestamp) {
        self.plan.wake_at = Some(self.plan.wake_at.map_or(at, |before| before.min(at)));
    }

    fn wake_after(&mut self, delay: SignedDuration) {
        if let Ok(at) = self.now.checked_add(delay) {
            self.wake(at);
        }
    }

    fn skip(&mut self, instant: IntendedTime, reason: SkipReason) {
        self.skipped.push(SkippedRange::one(instant, reason));
    }

    /// Drops the claims of what is over; asks about those whose object is not known.
    fn keep_claims(&mut self) {
        let abandoned = self.snapshot.schedule.timing().abandon;
        for claim in std::mem::take(&mut self.status.claimed) {
            let held = self
                .snapshot
                .works
                .get(&claim.time)
                .filter(|work| work.meta().uid.as_deref() == Some(&claim.uid));
            match held {
                Some(work) if work.is_terminal() => {
                    if let Some(reason) = work.not_run() {
                        self.skip(claim.time, reason);
                    }
                }
                Some(_) => self.status.claimed.push(claim),
                None if self.snapshot.over.contains(&claim.uid) => {
                    self.skip(claim.time, SkipReason::Deleted);
                    self.plan.notes.push(Note::normal(
                        "ClaimDropped",
                        format!(
                            "the {} of {} was deleted; its runs are over",
                            S::Work::NOUN,
                            claim.time
                        ),
                    ));
                }
                None if abandoned.iter().any(|a| a.uid == claim.uid) => {
                    self.plan.notes.push(Note::warning(
                        "ClaimAbandoned",
                        format!(
                            "spec.abandon says that the runs of the deleted {} of {} are over",
                            S::Work::NOUN,
                            claim.time
                        ),
                    ));
                }
                None => {
                    self.plan.probe.push(claim.clone());
                    self.status.claimed.push(claim);
                    self.wake_after(PROBE_INTERVAL);
                }
            }
        }
    }

    fn started(&self) -> usize {
        self.status.claimed.iter().filter(|claim| claim.start).count()
    }

    /// The spec cannot be used. What was promised goes on.
    fn invalid(&mut self, input: &PlanInput, error: &str) {
        self.status.state = Some(ScheduleState::Invalid);
        self.status.next_schedule_time = None;
        self.undecided = place::Undecided::last_observed(input, self.now);
        self.ready = (false, "InvalidSchedule", error.to_owned());
        if !matches!(
            self.snapshot.schedule.status().and_then(|s| s.state),
            Some(ScheduleState::Invalid)
        ) {
            self.plan.notes.push(Note::warning("InvalidSchedule", error.to_owned()));
        }
    }

    /// Advances the mark, then removes what the stored mark covers.
    fn prune(&mut self) {
        let schedule = &self.snapshot.schedule;
        let claimed: BTreeSet<&str> = self.status.claimed.iter().map(|c| c.uid.as_str()).collect();
        let is_claimed =
            |work: &S::Work| work.meta().uid.as_deref().is_some_and(|uid| claimed.contains(uid));
        let waits = |work: &S::Work| !work.is_terminal() && work.attempts().is_empty();
        let works = || self.snapshot.works.iter().map(|(at, work)| (*at, work));
        let waiting_from = works().find(|(_, work)| waits(work)).map(|(at, _)| at);
        let surplus = retention::surplus(
            schedule.timing().retention,
            works(),
            waiting_from,
            &is_claimed,
            self.now,
        );
        let stored = schedule
            .status()
            .filter(|status| status.fence.as_ref() == Some(&self.snapshot.fence))
            .and_then(|status| status.pruned_through);
        let newest = surplus.iter().map(|(at, _)| *at).max();
        self.plan.prune = surplus
            .into_iter()
            .filter(|(at, _)| stored.is_some_and(|through| *at <= through))
            .map(|(_, work)| work.clone())
            .collect();
        self.status.pruned_through = self.status.pruned_through.max(newest);
    }

    fn finish(mut self) -> Plan<S::Work> {
        let schedule = &self.snapshot.schedule;
        if !self.plan.create.is_empty() {
            // Decided again with the uids of what gets created; nothing else of this draft counts.
            let Plan { create, wake_at, .. } = self.plan;
            return Plan { create, wake_at, ..Plan::default() };
        }
        for range in &self.skipped {
            self.plan
                .notes
                .push(Note::warning(skip_event(range.reason), skip_sentence(range, S::Work::NOUN)));
        }
        add_skipped_totals(&mut self.status.skipped_total, &self.skipped);
        let old_ranges = std::mem::take(&mut self.status.skipped);
        let cursor = schedule.status().and_then(|status| status.last_schedule_time);
        self.status.skipped =
            merge_skipped(old_ranges, &self.skipped, cursor, &self.run, MAX_SKIPPED_RANGES);
        self.status.active = Some(i32::try_from(self.started()).unwrap_or(i32::MAX));
        let generation = schedule.meta().generation;
        let (holds, reason, message) = &self.ready;
        set_condition(
            &mut self.status.conditions,
            conditions::condition(conditions::READY, *holds, reason, message, self.now, generation),
        );
        self.status.observed_generation = generation;
        self.judge_run();
        let stored = schedule.status().cloned().unwrap_or_default();
        if self.must_write(&stored) {
            self.status.lateness_seconds = self.newest_lateness().or(self.status.lateness_seconds);
            self.plan.status = Some(self.status);
        }
        self.plan
    }

    /// Whether the run would be accepted. What is due goes first: the write that claims it is followed
    /// by another look.
    fn judge_run(&mut self) {
        let schedule = &self.snapshot.schedule;
        match &self.snapshot.acceptance {
            None => {
                let stored = schedule.status().map(|status| status.claimed.as_slice());
                self.plan.ask_acceptance = stored.unwrap_or_default() == self.status.claimed
                    && acceptance::must_ask(schedule, &self.snapshot.fence);
            }
            Some(answer) => {
                let generation = schedule.meta().generation;
                let note = acceptance::record(&mut self.status, answer, self.now, generation);
                self.plan.notes.extend(note);
                if matches!(answer, Acceptance::NotYet { .. }) {
                    self.wake_after(acceptance::ASK_AGAIN);
                }
            }
        }
    }

    /// Whether there is anything to record. A schedule whose work is all over is not sealed
    /// merely because the leader changed; one with open work is, before it moves.
    fn must_write(&self, stored: &MaintenanceScheduleStatus) -> bool {
        let mut old = stored.clone();
        old.fence.clone_from(&self.status.fence);
        if old != self.status {
            return true;
        }
        let sealed = stored.fence.as_ref() == Some(&self.snapshot.fence);
        let open = !self.status.claimed.is_empty()
            || self.snapshot.works.values().any(|work| !work.is_terminal());
        open && !sealed
    }

    fn newest_lateness(&self) -> Option<i64> {
        self.snapshot.works.values().rev().find_map(Work::lateness_seconds)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_life;
