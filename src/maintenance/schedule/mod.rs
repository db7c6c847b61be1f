//! What a schedule decides: pure.
//!
//! The order is *create inert, then claim*. The occurrences that the plan wants are created first;
//! they are inert. Then one write on the schedule, conditional on the very version the plan was
//! computed from, records the whole decision: the cursor, the skipped instants and the claims. An
//! occurrence starts only while its uid is claimed, so that write is the commit of the instant and
//! the concurrency decision at once. If it fails, the plan is made anew. Claiming before creating,
//! or without the uid, runs an instant twice (shown by an exhaustive model).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::{Note, conditions, retention};
use crate::{
    api::{
        Claim, ConcurrencyPolicy, Fence, LABEL_SCHEDULE, MAX_CLAIMS, MAX_SKIPPED_RANGES,
        MaintenanceOccurrence, MaintenanceOccurrenceSpec, MaintenanceSchedule,
        MaintenanceScheduleStatus, Observed, ScheduleState, Time, set_condition,
    },
    identity::{WorkId, occurrence_name},
    providers::Acceptance,
    time::{
        IntendedTime,
        plan::{self, PlanInput, SchedulePlan},
        skipped::{SkipReason, SkippedRange, add_skipped_totals, merge_skipped},
        spread::{SpreadKind, SpreadOf},
    },
};

mod acceptance;

/// How long the creation of an occurrence is tried when the schedule names no deadline.
pub const CREATE_PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// When a clock that disagrees with the API server's is looked at again.
const CLOCK_RECHECK: SignedDuration = SignedDuration::from_secs(2);

/// When it is looked again whether the runs of a deleted occurrence are over.
const PROBE_INTERVAL: SignedDuration = SignedDuration::from_secs(5);

/// Everything a decision about a schedule depends on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The schedule, at the version that the decision's write replaces.
    pub schedule: MaintenanceSchedule,
    /// All its occurrences that are known, by instant.
    pub occurrences: BTreeMap<IntendedTime, MaintenanceOccurrence>,
    /// Set if the schedule is new, re-created or restored, and its non-terminal occurrences were
    /// read live and sealed.
    pub taken_over: Option<TakenOver>,
    /// Instants whose occurrence the API server refused to create in this pass.
    pub refused: BTreeMap<IntendedTime, Refusal>,
    /// Uids of claimed occurrences that are gone and whose runs are proven over.
    pub over: BTreeSet<String>,
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
    /// The newest instant of an occurrence of its name that carried a fence.
    pub fenced_through: Option<IntendedTime>,
}

/// The API server refused to create an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its words.
    pub message: String,
    /// When it is tried again.
    pub retry_at: Timestamp,
}

/// What to do about a schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Create these first, put the answers into the snapshot, and decide again.
    pub create: Vec<MaintenanceOccurrence>,
    /// Claimed uids whose object is not known: look whether it exists, and if not whether its runs
    /// are over; then decide again.
    pub probe: Vec<Claim>,
    /// Ask the provider whether it would accept the run, put the answer into the snapshot, and decide
    /// again.
    pub ask_acceptance: bool,
    /// Write this.
    pub status: Option<MaintenanceScheduleStatus>,
    /// Remove these records; the stored `prunedThrough` covers them.
    pub prune: Vec<MaintenanceOccurrence>,
    /// When to look again.
    pub wake_at: Option<Timestamp>,
    /// What happened, once the write is committed.
    pub notes: Vec<Note>,
}

/// Whether this schedule must be taken over before anything is decided: it is new, was re-created
/// under the same name, or was restored without the operator's memory of it.
pub fn needs_takeover(schedule: &MaintenanceSchedule) -> bool {
    let observed = schedule.status.as_ref().and_then(|status| status.observed.as_ref());
    match observed {
        None => true,
        Some(observed) => {
            observed.uid.as_ref().is_some_and(|uid| Some(uid) != schedule.metadata.uid.as_ref())
        }
    }
}

/// The delay of an instant's start by `spread.windowSeconds`: the same for every leader.
pub fn spread_delay(schedule: &MaintenanceSchedule, instant: IntendedTime) -> SignedDuration {
    SignedDuration::from_secs(spread_of(schedule).delay_seconds(instant))
}

fn spread_of(schedule: &MaintenanceSchedule) -> SpreadOf {
    SpreadOf {
        window_seconds: i64::from(schedule.spec.spread.window_seconds),
        of: SpreadKind::Maintenance,
        namespace: schedule.namespace().unwrap_or_default(),
        name: schedule.name_any(),
    }
}

/// The last moment at which an occurrence of this instant may start, if there is one.
pub fn start_deadline(schedule: &MaintenanceSchedule, instant: IntendedTime) -> Option<Timestamp> {
    let seconds = schedule.spec.starting_deadline_seconds?;
    let delay = spread_delay(schedule, instant);
    instant.timestamp().checked_add(delay + SignedDuration::from_secs(seconds)).ok()
}

/// What the schedule and its status say to the plan.
pub fn plan_input(schedule: &MaintenanceSchedule, status: &MaintenanceScheduleStatus) -> PlanInput {
    let spec = &schedule.spec;
    PlanInput {
        schedule: spec.schedule.clone(),
        time_zone: spec.time_zone.clone(),
        dst_policy: spec.dst_policy,
        anchor: spec.anchor,
        suspend: spec.suspend,
        suspend_until_time: spec.suspend_until_time.map(|t| t.0),
        starting_deadline_seconds: spec.starting_deadline_seconds,
        missed_policy: spec.missed_runs.policy,
        missed_limit: usize::try_from(spec.missed_runs.limit).unwrap_or(1),
        spread: (spec.spread.window_seconds > 0).then(|| spread_of(schedule)),
        uid: schedule.metadata.uid.clone(),
        creation_time: schedule.metadata.creation_timestamp.as_ref().map(|t| t.0),
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
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut draft = Draft::new(snapshot, now);
    draft.keep_claims();
    match plan::plan(&plan_input(&snapshot.schedule, &draft.status), now) {
        Ok(planned) => draft.place(&planned),
        Err(error) => draft.invalid(&error.to_string()),
    }
    draft.start_next();
    draft.prune();
    draft.finish()
}

/// A decision in the making.
struct Draft<'a> {
    snapshot: &'a Snapshot,
    now: Timestamp,
    status: MaintenanceScheduleStatus,
    skipped: Vec<SkippedRange>,
    /// What the plan runs: it lies between ranges that are then not adjacent.
    run: Vec<IntendedTime>,
    ready: (bool, &'static str, String),
    plan: Plan,
}

impl<'a> Draft<'a> {
    fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let stored = snapshot.schedule.status.clone().unwrap_or_default();
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
            ready,
            plan: Plan::default(),
        }
    }

    fn policy(&self) -> ConcurrencyPolicy {
        self.snapshot.schedule.spec.concurrency_policy
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
        let abandoned = &self.snapshot.schedule.spec.abandon;
        for claim in std::mem::take(&mut self.status.claimed) {
            let held = self
                .snapshot
                .occurrences
                .get(&claim.time)
                .filter(|o| o.metadata.uid.as_deref() == Some(&claim.uid));
            match held {
                Some(occurrence) if is_terminal(occurrence) => {
                    if let Some(reason) = skipped_for(occurrence) {
                        self.skip(claim.time, reason);
                    }
                }
                Some(_) => self.status.claimed.push(claim),
                None if self.snapshot.over.contains(&claim.uid) => {
                    self.skip(claim.time, SkipReason::Deleted);
                    self.plan.notes.push(Note::normal(
                        "ClaimDropped",
                        format!("the occurrence of {} was deleted; its runs are over", claim.time),
                    ));
                }
                None if abandoned.iter().any(|a| a.uid == claim.uid) => {
                    self.plan.notes.push(Note::warning(
                        "ClaimAbandoned",
                        format!("spec.abandon says that the runs of the deleted occurrence of {} are over", claim.time),
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
    fn invalid(&mut self, error: &str) {
        self.status.state = Some(ScheduleState::Invalid);
        self.status.next_schedule_time = None;
        self.ready = (false, "InvalidSchedule", error.to_owned());
        if !matches!(
            self.snapshot.schedule.status.as_ref().and_then(|s| s.state),
            Some(ScheduleState::Invalid)
        ) {
            self.plan.notes.push(Note::warning("InvalidSchedule", error.to_owned()));
        }
    }

    /// Records what the plan of the schedule says and claims what it wants.
    fn place(&mut self, planned: &SchedulePlan) {
        if self.snapshot.schedule.metadata.deletion_timestamp.is_some() {
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
        self.claim_wanted(wanted.into_iter().filter(|at| !given_up.contains(at)).collect());
    }

    /// Whether the instant still needs a claim.
    fn is_open(&self, instant: IntendedTime) -> bool {
        if self.status.claimed.iter().any(|claim| claim.time == instant) {
            return false;
        }
        match self.snapshot.occurrences.get(&instant) {
            Some(occurrence) => {
                !is_terminal(occurrence) && occurrence.metadata.deletion_timestamp.is_none()
            }
            None => self.status.pruned_through.is_none_or(|through| instant > through),
        }
    }

    /// An instant that the plan wants and that nothing may start: it is over, or its record is gone.
    fn account_for_closed(&mut self, instant: IntendedTime) {
        match self.snapshot.occurrences.get(&instant) {
            Some(occurrence)
                if occurrence.metadata.deletion_timestamp.is_some() && !is_terminal(occurrence) =>
            {
                self.skip(instant, SkipReason::Deleted);
            }
            Some(_) => {} // the object tells its own story
            None if self.status.claimed.iter().any(|claim| claim.time == instant) => {}
            None => self.skip(instant, SkipReason::Superseded),
        }
    }

    /// Whether the plan cannot be carried out now; then nothing of it is recorded, and it is made
    /// anew later.
    fn blocked(&mut self, planned: &SchedulePlan, wanted: &[IntendedTime]) -> bool {
        if planned.run.is_empty() && planned.skipped.is_empty() {
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
            return true;
        }
        false
    }

    /// Whether creation has been refused for so long that the instant is given up. The deadline of
    /// the schedule, if it has one, ends it earlier or later through the plan itself.
    fn patience_is_over(&self) -> bool {
        if self.snapshot.schedule.spec.starting_deadline_seconds.is_some() {
            return false;
        }
        let since = self
            .status
            .conditions
            .iter()
            .find(|c| c.r#type == conditions::READY && c.reason == "CreateRefused");
        since.is_some_and(|c| self.now.duration_since(c.last_transition_time.0) >= CREATE_PATIENCE)
    }

    fn record(&mut self, planned: &SchedulePlan) {
        self.status.state =
            Some(if planned.suspended { ScheduleState::Suspended } else { ScheduleState::Active });
        if planned.suspended {
            let note = self.snapshot.schedule.spec.suspend_reason.clone().unwrap_or_default();
            self.ready = (true, "Suspended", note);
        }
        if planned.never_fires {
            self.ready = (
                false,
                "NeverFires",
                format!(
                    "spec.schedule {:?} names no instant that exists, for example 30 February; correct the day or the month",
                    self.snapshot.schedule.spec.schedule
                ),
            );
        }
        self.status.next_schedule_time = planned.next;
        self.status.last_schedule_time = planned.last_schedule_time;
        self.status.effective_time = Some(Time(planned.effective_time));
        self.status.suspended_time = planned.suspended_time.map(Time);
        let observed = &planned.observed;
        self.status.observed = Some(Observed {
            uid: self.snapshot.schedule.metadata.uid.clone(),
            schedule: observed.schedule.clone(),
            time_zone: observed.time_zone.clone(),
            dst_policy: observed.dst_policy,
            anchor: observed.anchor,
            suspend_until_time: observed.suspend_until_time.map(Time),
        });
        self.status.tzdb_version = Some(crate::time::tzdb_version().to_owned());
        self.skipped.extend(planned.skipped.iter().cloned());
    }

    /// Applies the concurrency policy to the instants of one plan, oldest first.
    fn claim_wanted(&mut self, wanted: Vec<IntendedTime>) {
        match self.policy() {
            ConcurrencyPolicy::Allow => {
                for instant in wanted {
                    self.claim(instant, true, false);
                }
            }
            ConcurrencyPolicy::Forbid => {
                let busy = !self.status.claimed.is_empty();
                for instant in wanted {
                    if busy && self.is_hand_made(instant) {
                        continue; // it waits for its turn, it is never Concurrent
                    }
                    if busy {
                        self.skip(instant, SkipReason::Concurrent);
                    } else {
                        // The first starts, the others of this plan follow one after another.
                        self.claim(instant, false, false);
                    }
                }
            }
            ConcurrencyPolicy::Replace => self.claim_replacing(wanted),
            ConcurrencyPolicy::Enqueue => {
                for instant in wanted {
                    self.claim(instant, false, false);
                }
                self.limit_waiting();
            }
        }
    }

    /// `Replace`: what waits gives way, what runs is replaced by the first of the new ones.
    fn claim_replacing(&mut self, wanted: Vec<IntendedTime>) {
        if wanted.is_empty() {
            return;
        }
        let (started, waiting): (Vec<Claim>, Vec<Claim>) =
            std::mem::take(&mut self.status.claimed).into_iter().partition(|claim| claim.start);
        let busy = !started.is_empty();
        self.status.claimed = started;
        for claim in waiting {
            self.skip(claim.time, SkipReason::Concurrent);
        }
        for (position, instant) in wanted.into_iter().enumerate() {
            self.claim(instant, false, busy && position == 0);
        }
    }

    /// `Enqueue`: at most `missedRuns.limit` wait, the newest.
    fn limit_waiting(&mut self) {
        let limit = usize::try_from(self.snapshot.schedule.spec.missed_runs.limit).unwrap_or(0);
        let idle = self.started() == 0;
        let waiting = self.status.claimed.iter().filter(|claim| !claim.start).count();
        // With nothing started the oldest does not wait: it starts in this very write.
        let surplus = waiting.saturating_sub(limit + usize::from(idle));
        let mut dropped = Vec::new();
        self.status.claimed.retain(|claim| {
            if claim.start || dropped.len() == surplus {
                return true;
            }
            dropped.push(claim.time);
            false
        });
        for instant in dropped {
            self.skip(instant, SkipReason::Concurrent);
        }
    }

    fn is_hand_made(&self, instant: IntendedTime) -> bool {
        self.snapshot.occurrences.get(&instant).is_some_and(|o| o.spec.schedule_uid.is_none())
    }

    /// Claims the instant's occurrence, creating it first if it does not exist.
    fn claim(&mut self, instant: IntendedTime, start: bool, replaces: bool) {
        if self.status.claimed.len() >= MAX_CLAIMS {
            self.skip(instant, SkipReason::Concurrent);
            return;
        }
        let uid = match self.snapshot.occurrences.get(&instant) {
            Some(occurrence) => occurrence.metadata.uid.clone().unwrap_or_default(),
            None => {
                self.plan.create.push(new_occurrence(&self.snapshot.schedule, instant));
                String::new() // this draft is thrown away: the decision is made again with the uid
            }
        };
        let schedule = &self.snapshot.schedule;
        self.status.claimed.push(new_claim(schedule, instant, uid, start, replaces));
        self.status.claimed.sort_by_key(|claim| claim.time);
    }

    /// Starts what waits: claims and hand-made occurrences, the oldest instant first.
    fn start_next(&mut self) {
        if self.snapshot.may_create.is_err() {
            self.wake_after(CLOCK_RECHECK); // neither "due" nor "too late" can be told
            return;
        }
        let mut asked: Vec<IntendedTime> = Vec::new();
        for (instant, occurrence) in &self.snapshot.occurrences {
            if !self.may_be_asked_for(*instant, occurrence) {
                continue;
            }
            if instant.timestamp() > self.now {
                self.wake(instant.timestamp());
            } else {
                asked.push(*instant);
            }
        }
        if self.policy() == ConcurrencyPolicy::Allow {
            for claim in &mut self.status.claimed {
                claim.start = true;
            }
            for instant in asked {
                if self.status.claimed.len() < MAX_CLAIMS {
                    self.claim(instant, true, false);
                }
            }
            return;
        }
        while self.started() == 0 {
            let waiting = self.status.claimed.iter().map(|claim| claim.time).min();
            let by_hand = asked.first().copied();
            match (waiting, by_hand) {
                (None, None) => return,
                (Some(first), by_hand) if by_hand.is_none_or(|other| first <= other) => {
                    self.start_claim(first);
                }
                (_, Some(instant)) => self.claim(instant, true, false),
                (Some(first), None) => self.start_claim(first),
            }
        }
    }

    /// Whether this is a hand-made occurrence that waits for a claim.
    fn may_be_asked_for(&self, instant: IntendedTime, occurrence: &MaintenanceOccurrence) -> bool {
        occurrence.spec.schedule_uid.is_none()
            && occurrence.spec.run.is_none()
            && !occurrence.spec.cancel
            && !is_terminal(occurrence)
            && occurrence.metadata.deletion_timestamp.is_none()
            && self.status.pruned_through.is_none_or(|through| instant > through)
            && !self.status.claimed.iter().any(|claim| claim.time == instant)
    }

    /// Starts a waiting claim, or drops it if its deadline passed while it waited.
    fn start_claim(&mut self, instant: IntendedTime) {
        let planned = !self.is_hand_made(instant);
        let late = planned
            && start_deadline(&self.snapshot.schedule, instant).is_some_and(|end| self.now > end);
        if late {
            self.status.claimed.retain(|claim| claim.time != instant);
            self.skip(instant, SkipReason::Deadline);
            return;
        }
        for claim in self.status.claimed.iter_mut().filter(|claim| claim.time == instant) {
            claim.start = true;
        }
    }

    /// Advances the mark, then removes what the stored mark covers.
    fn prune(&mut self) {
        let schedule = &self.snapshot.schedule;
        let claimed: BTreeSet<&str> = self.status.claimed.iter().map(|c| c.uid.as_str()).collect();
        let is_claimed = |o: &MaintenanceOccurrence| {
            o.metadata.uid.as_deref().is_some_and(|uid| claimed.contains(uid))
        };
        let waits = |o: &&MaintenanceOccurrence| {
            let prepared = o.status.as_ref().is_some_and(|s| !s.attempts.is_empty());
            !is_terminal(o) && !prepared
        };
        let waiting_from =
            self.snapshot.occurrences.values().filter(waits).map(|o| o.spec.intended_time).min();
        let surplus = retention::surplus(
            &schedule.spec.retention,
            self.snapshot.occurrences.values(),
            waiting_from,
            &is_claimed,
            self.now,
        );
        let stored = schedule
            .status
            .as_ref()
            .filter(|status| status.fence.as_ref() == Some(&self.snapshot.fence))
            .and_then(|status| status.pruned_through);
        let newest = surplus.iter().map(|o| o.spec.intended_time).max();
        self.plan.prune = surplus
            .into_iter()
            .filter(|o| stored.is_some_and(|through| o.spec.intended_time <= through))
            .cloned()
            .collect();
        self.status.pruned_through = self.status.pruned_through.max(newest);
    }

    fn finish(mut self) -> Plan {
        let schedule = &self.snapshot.schedule;
        if !self.plan.create.is_empty() {
            // Decided again with the uids of what gets created; nothing else of this draft counts.
            let Plan { create, wake_at, .. } = self.plan;
            return Plan { create, wake_at, ..Plan::default() };
        }
        for range in &self.skipped {
            self.plan.notes.push(Note::warning(skip_event(range.reason), skip_sentence(range)));
        }
        add_skipped_totals(&mut self.status.skipped_total, &self.skipped);
        let old_ranges = std::mem::take(&mut self.status.skipped);
        let cursor = schedule.status.as_ref().and_then(|status| status.last_schedule_time);
        self.status.skipped =
            merge_skipped(old_ranges, &self.skipped, cursor, &self.run, MAX_SKIPPED_RANGES);
        self.status.active = Some(i32::try_from(self.started()).unwrap_or(i32::MAX));
        let generation = schedule.metadata.generation;
        let (holds, reason, message) = &self.ready;
        set_condition(
            &mut self.status.conditions,
            conditions::condition(conditions::READY, *holds, reason, message, self.now, generation),
        );
        self.status.observed_generation = generation;
        self.judge_run();
        let stored = schedule.status.clone().unwrap_or_default();
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
                let stored = schedule.status.as_ref().map(|status| status.claimed.as_slice());
                self.plan.ask_acceptance = stored.unwrap_or_default() == self.status.claimed
                    && acceptance::must_ask(schedule, &self.snapshot.fence);
            }
            Some(answer) => {
                let generation = schedule.metadata.generation;
                let note = acceptance::record(&mut self.status, answer, self.now, generation);
                self.plan.notes.extend(note);
                if matches!(answer, Acceptance::NotYet { .. }) {
                    self.wake_after(acceptance::ASK_AGAIN);
                }
            }
        }
    }

    /// Whether there is anything to record. A schedule whose occurrences are all over is not
    /// sealed merely because the leader changed; one with open occurrences is, before they move.
    fn must_write(&self, stored: &MaintenanceScheduleStatus) -> bool {
        let mut old = stored.clone();
        old.fence = self.status.fence.clone();
        if old != self.status {
            return true;
        }
        let sealed = stored.fence.as_ref() == Some(&self.snapshot.fence);
        let open = !self.status.claimed.is_empty()
            || self.snapshot.occurrences.values().any(|occurrence| !is_terminal(occurrence));
        open && !sealed
    }

    fn newest_lateness(&self) -> Option<i64> {
        self.snapshot.occurrences.values().rev().find_map(|o| o.status.as_ref()?.lateness_seconds)
    }
}

/// Started claims for what was prepared under an earlier life of the schedule.
fn inherited_claims(snapshot: &Snapshot) -> Vec<Claim> {
    let prepared = |o: &&MaintenanceOccurrence| {
        !is_terminal(o)
            && o.status.as_ref().is_some_and(|s| s.attempts.iter().any(|a| a.handle.is_some()))
    };
    snapshot
        .occurrences
        .values()
        .filter(prepared)
        .take(MAX_CLAIMS)
        .map(|o| {
            let uid = o.metadata.uid.clone().unwrap_or_default();
            new_claim(&snapshot.schedule, o.spec.intended_time, uid, true, false)
        })
        .collect()
}

fn new_claim(
    schedule: &MaintenanceSchedule,
    instant: IntendedTime,
    uid: String,
    start: bool,
    replaces: bool,
) -> Claim {
    let namespace = schedule.namespace().unwrap_or_default();
    let work = WorkId::maintenance(&namespace, &schedule.name_any(), instant);
    Claim {
        time: instant,
        start,
        replaces,
        uid,
        run_key: work.maintenance_run_key(1),
        action_class: schedule.spec.run.maintenance_class(),
        http: schedule.spec.run.http.clone(),
    }
}

/// The occurrence of an instant, as the operator creates it: inert until its uid is claimed.
fn new_occurrence(schedule: &MaintenanceSchedule, instant: IntendedTime) -> MaintenanceOccurrence {
    let name = schedule.name_any();
    let mut occurrence = MaintenanceOccurrence::new(
        &occurrence_name(&name, instant),
        MaintenanceOccurrenceSpec {
            schedule_name: name.clone(),
            intended_time: instant,
            schedule_uid: schedule.metadata.uid.clone(),
            run: Some(schedule.spec.run.clone()),
            cancel: false,
            resolution: None,
        },
    );
    occurrence.metadata.namespace = schedule.namespace();
    occurrence.metadata.labels = Some(BTreeMap::from([(LABEL_SCHEDULE.to_owned(), name)]));
    occurrence
}

/// Whether nothing more will happen to the occurrence.
pub fn is_terminal(occurrence: &MaintenanceOccurrence) -> bool {
    occurrence.status.as_ref().and_then(|s| s.state).is_some_and(|state| state.is_terminal())
}

/// The range under which a claimed occurrence that ended without running is accounted for.
fn skipped_for(occurrence: &MaintenanceOccurrence) -> Option<SkipReason> {
    match occurrence.status.as_ref()?.reason.as_deref()? {
        "Deadline" => Some(SkipReason::Deadline),
        "NameConflict" => Some(SkipReason::NameConflict),
        "CreateRefused" => Some(SkipReason::CreateRefused),
        _ => None,
    }
}

fn skip_event(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Suspended => "InstantSuspended",
        SkipReason::Missed => "InstantMissed",
        SkipReason::Concurrent => "InstantConcurrent",
        SkipReason::Deadline => "InstantPastDeadline",
        SkipReason::Superseded => "InstantSuperseded",
        SkipReason::QueueFull => "InstantQueueFull",
        SkipReason::Deleted => "InstantDeleted",
        SkipReason::CreateRefused => "InstantCreateRefused",
        SkipReason::NameConflict => "InstantNameConflict",
    }
}

fn skip_sentence(range: &SkippedRange) -> String {
    let why = match range.reason {
        SkipReason::Suspended => "the schedule was suspended",
        SkipReason::Missed => {
            "nothing could run it in time and spec.missedRuns does not catch it up"
        }
        SkipReason::Concurrent => "an earlier occurrence was not over (spec.concurrencyPolicy)",
        SkipReason::Deadline => "spec.startingDeadlineSeconds passed",
        SkipReason::Superseded => "a newer instant or an edit took its place",
        SkipReason::QueueFull => "the report queue was full",
        SkipReason::Deleted => "its occurrence was deleted, which cancels it",
        SkipReason::CreateRefused => "the API server refused to create its occurrence",
        SkipReason::NameConflict => "its name is taken by an object of someone else",
    };
    if range.count == 1 {
        format!("the instant {} is not run: {why}", range.from)
    } else {
        format!("{} instants from {} to {} are not run: {why}", range.count, range.from, range.to)
    }
}

#[cfg(test)]
mod tests;
