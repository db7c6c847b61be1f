//! The plan of a schedule: what one look at it decides, as data.
//!
//! The plan says which instants run and accounts for every other one up to now. It is the same for
//! every kind of schedule and comes before the concurrency policy, which concerns what it wants to
//! run. Its result is recorded in one conditional write together with the claims; if that write
//! fails, the plan is made anew from what is stored by then.
//!
//! Four moments bound what an instant can be:
//!
//! ```text
//!   lastScheduleTime      effectiveTime            now - 60 s         now
//!   ──────┤─── of the old ───┤────── missed ───────────┤───── due ─────┤──── next ──>
//!   decided   expression, or     Latest, All, None          runs
//!             suspended
//! ```

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::skipped::{SkipReason, SkippedRange, add_skipped_totals, merge_skipped};
use super::{IntendedTime, Schedule, ScheduleError, schedule::just_before, spread::SpreadOf};

/// An instant at most this old is due; an older one is missed. A leader that is healthy plans an
/// instant within milliseconds, one that took over within less than a minute.
pub const DUE_SECONDS: i64 = 60;

/// Instants can be due together at most this often: whole minutes, both ends of a minute included.
const MOST_DUE: usize = 2;

/// Instants that were missed longer ago than this are not run any more: 7 days.
pub const LOOK_BACK_SECONDS: i64 = 7 * 24 * 3600;

/// Most instants that `missedRuns.limit` lets `All` catch up at once.
pub const MAX_MISSED_LIMIT: usize = 100;

/// The zone of schedules that name none.
pub const DEFAULT_TIME_ZONE: &str = "UTC";

/// What happens to local times that a change of the clocks removes or repeats.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum DstPolicy {
    /// A local time that does not exist runs once, at the end of the gap; one that exists twice
    /// runs at the first. Schedules that cover all 24 hours follow real time.
    #[default]
    Once,
    /// As a CronJob does it: a local time that does not exist is left out, one that exists twice
    /// runs twice.
    CronJob,
}

/// What happens to instants that nobody started in time.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum MissedRunsPolicy {
    /// Only the newest due or missed instant runs; the others are recorded as `Superseded`.
    #[default]
    Latest,
    /// The newest `limit` due or missed instants run; older ones are recorded as `Superseded`.
    All,
    /// Only what is due runs; the rest is recorded as `Missed`.
    None,
}

/// The timing fields of a schedule as the operator last acted on them (`status.observed`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The schedule's uid, where it is known.
    pub uid: Option<String>,
    /// `spec.schedule`.
    pub schedule: String,
    /// `spec.timeZone`, the default filled in.
    pub time_zone: String,
    /// `spec.dstPolicy`, the default filled in.
    pub dst_policy: DstPolicy,
    /// `spec.anchor`.
    pub anchor: Option<IntendedTime>,
    /// `spec.suspendUntilTime`, while suspended: a time that was known beforehand ends the
    /// suspension at that time, however late the leader looks.
    pub suspend_until_time: Option<Timestamp>,
}

/// What a plan is made from: the fields of a schedule and of its status that concern time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanInput {
    /// `spec.schedule`.
    pub schedule: String,
    /// `spec.timeZone`.
    pub time_zone: String,
    /// `spec.dstPolicy`.
    pub dst_policy: DstPolicy,
    /// `spec.anchor`.
    pub anchor: Option<IntendedTime>,
    /// `spec.suspend`.
    pub suspend: bool,
    /// `spec.suspendUntilTime`.
    pub suspend_until_time: Option<Timestamp>,
    /// `spec.startingDeadlineSeconds`.
    pub starting_deadline_seconds: Option<i64>,
    /// `spec.missedRuns.policy`.
    pub missed_policy: MissedRunsPolicy,
    /// `spec.missedRuns.limit`; held within 1 to [`MAX_MISSED_LIMIT`].
    pub missed_limit: usize,
    /// `spec.spread`, if it delays starts: the deadline counts from the delayed start.
    pub spread: Option<SpreadOf>,
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.creationTimestamp`.
    pub creation_time: Option<Timestamp>,
    /// `status.lastScheduleTime`: every instant up to it is decided.
    pub last_schedule_time: Option<IntendedTime>,
    /// `status.effectiveTime`.
    pub effective_time: Option<Timestamp>,
    /// `status.suspendedTime`.
    pub suspended_time: Option<Timestamp>,
    /// `status.observed`.
    pub observed: Option<Observed>,
}

/// What one look at a schedule decides: all that its one write must record, and when to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulePlan {
    /// The instants to run, oldest first. Whether several may run at once is decided elsewhere.
    pub run: Vec<IntendedTime>,
    /// The instants that are not run, as ranges ordered by their first instant.
    pub skipped: Vec<SkippedRange>,
    /// The next instant that will be due; `None` while suspended without an end, and for an
    /// expression that never fires.
    pub next: Option<IntendedTime>,
    /// When to look again if nothing happens before.
    pub look_again: Option<Timestamp>,
    /// Whether the expression can never fire.
    pub never_fires: bool,
    /// Whether the schedule is suspended at this moment.
    pub suspended: bool,
    /// New `status.lastScheduleTime`: every instant up to it is decided.
    pub last_schedule_time: Option<IntendedTime>,
    /// New `status.effectiveTime`.
    pub effective_time: Timestamp,
    /// New `status.suspendedTime`.
    pub suspended_time: Option<Timestamp>,
    /// New `status.observed`.
    pub observed: Observed,
    /// Whether any of this differs from what the status has, so that it must be written.
    pub must_record: bool,
}

impl Observed {
    /// Whether both name the same object. A uid that one side does not know tells nothing.
    fn same_object(&self, uid: Option<&str>) -> bool {
        match (self.uid.as_deref(), uid) {
            (Some(known), Some(now)) => known == now,
            _ => true,
        }
    }

    /// Whether both mean the same instants, `anchor` being the default of theirs.
    fn same_timing(&self, other: &Self, anchor: IntendedTime) -> bool {
        self.schedule == other.schedule
            && self.time_zone == other.time_zone
            && self.dst_policy == other.dst_policy
            && self.anchor.unwrap_or(anchor) == other.anchor.unwrap_or(anchor)
    }

    fn parse(&self, anchor: IntendedTime) -> Result<Schedule, ScheduleError> {
        let anchor = self.anchor.unwrap_or(anchor);
        Schedule::parse(&self.schedule, &self.time_zone, self.dst_policy, anchor)
    }
}

impl PlanInput {
    /// The schedule itself; `now` stands in for a creation time that is not known.
    pub fn to_schedule(&self, now: Timestamp) -> Result<Schedule, ScheduleError> {
        self.timing(false).parse(self.default_anchor(now))
    }

    /// The schedule that was last acted on for this object; `None` if there was none. `now` as in
    /// [`PlanInput::to_schedule`].
    pub fn last_observed(&self, now: Timestamp) -> Option<Schedule> {
        self.known()?.parse(self.default_anchor(now)).ok()
    }

    /// What was last acted on, if that was this very object.
    fn known(&self) -> Option<&Observed> {
        self.observed.as_ref().filter(|observed| observed.same_object(self.uid.as_deref()))
    }

    /// The anchor of `@every` without `spec.anchor`: the creation time, floored to the minute.
    fn default_anchor(&self, now: Timestamp) -> IntendedTime {
        IntendedTime::floor(self.creation_time.or(self.effective_time).unwrap_or(now))
    }

    /// Whether it is suspended at `now`; a passed `suspendUntilTime` ends it.
    fn suspended_at(&self, now: Timestamp) -> bool {
        self.suspend && self.suspend_until_time.is_none_or(|until| now < until)
    }

    /// The schedule's own timing fields in the form of [`Observed`].
    fn timing(&self, suspended: bool) -> Observed {
        Observed {
            uid: self.uid.clone(),
            schedule: self.schedule.clone(),
            time_zone: self.time_zone.clone(),
            dst_policy: self.dst_policy,
            anchor: self.anchor,
            suspend_until_time: self.suspend_until_time.filter(|_| suspended),
        }
    }

    /// `effectiveTime` as stored, or what it must have been.
    fn stored_effective_time(&self, seen: Timestamp) -> Timestamp {
        let decided = self.last_schedule_time.map(IntendedTime::timestamp);
        self.effective_time.or(self.creation_time).or(decided).unwrap_or(seen)
    }

    /// The moment up to which instants from `effective` on are decided.
    fn decided_until(&self, effective: Timestamp) -> Timestamp {
        let before = just_before(effective);
        self.last_schedule_time.map_or(before, |last| before.max(last.timestamp()))
    }

    /// The moment from which a resumed schedule runs instants again: when the resume was first
    /// seen, or the `suspendUntilTime` that was already known while it was suspended.
    fn resumed_at(&self, since: Timestamp, seen: Timestamp) -> Timestamp {
        let known = self.observed.as_ref().and_then(|observed| observed.suspend_until_time);
        match self.suspend_until_time {
            Some(until) if self.suspend && known == Some(until) => {
                until.clamp(since.min(seen), seen)
            }
            _ => seen,
        }
    }
}

/// Plans a schedule at `now`.
///
/// Work: a few walks and counts, and one walk for each instant that runs (at most
/// [`MAX_MISSED_LIMIT`]); with a deadline and a spread also one for each instant of the spread's
/// window.
pub fn plan(input: &PlanInput, now: Timestamp) -> Result<SchedulePlan, ScheduleError> {
    let anchor = input.default_anchor(now);
    let suspended = input.suspended_at(now);
    let timing = input.timing(suspended);
    let schedule = timing.parse(anchor)?;
    // Stored times have whole seconds. No instant lies between a second and its fractions.
    let seen = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let known = input.known();
    let since = known.and(input.suspended_time);

    let mut account = Account::default();
    let effective = match (known, since) {
        (None, _) => input.creation_time.unwrap_or(seen),
        (Some(old), since) if !old.same_timing(&timing, anchor) => {
            let instant_now = schedule.next_after(just_before(seen)).map(IntendedTime::timestamp);
            // An instant of both expressions at this very moment belongs to the new one.
            let end = if instant_now == Some(seen) { just_before(seen) } else { seen };
            if let Ok(old) = old.parse(anchor) {
                let from = input.decided_until(input.stored_effective_time(seen));
                account.close(&old, Window { after: from, until: end }, since);
            }
            seen
        }
        (Some(_), Some(since)) if !suspended => {
            let resumed = input.resumed_at(since, seen);
            let from = input.decided_until(input.stored_effective_time(seen));
            let window = Window { after: from, until: just_before(resumed) };
            account.close(&schedule, window, Some(since));
            resumed
        }
        (Some(_), _) => input.stored_effective_time(seen),
    };

    let after = account.newest.map_or(input.decided_until(effective), |newest| {
        input.decided_until(effective).max(newest.timestamp())
    });
    let window = Window { after, until: now };
    match (suspended, since) {
        (false, _) => account.decide(input, &schedule, window, now),
        (true, None) => account.skip(&schedule, window, SkipReason::Suspended),
        (true, Some(_)) => {} // the open stretch is recorded as a whole when it ends
    }
    let suspended_time = if suspended { since.or(Some(seen)) } else { None };
    Ok(finish(input, now, &schedule, account, (effective, suspended_time, timing)))
}

/// Puts the plan together.
fn finish(
    input: &PlanInput,
    now: Timestamp,
    schedule: &Schedule,
    account: Account,
    (effective_time, suspended_time, observed): (Timestamp, Option<Timestamp>, Observed),
) -> SchedulePlan {
    let Account { run, skipped, newest, .. } = account;
    let last_schedule_time = input.last_schedule_time.max(newest);
    let suspended = suspended_time.is_some();
    let earliest = match last_schedule_time {
        Some(last) => just_before(effective_time).max(last.timestamp()),
        None => just_before(effective_time),
    };
    let next = match (suspended, input.suspend_until_time) {
        (false, _) => schedule.next_after(earliest.max(now)),
        (true, Some(until)) => schedule.next_after(earliest.max(just_before(until))),
        (true, None) => None,
    };
    let look_again =
        if suspended { input.suspend_until_time } else { next.map(IntendedTime::timestamp) };
    let must_record = input.last_schedule_time != last_schedule_time
        || input.effective_time != Some(effective_time)
        || input.suspended_time != suspended_time
        || input.observed.as_ref() != Some(&observed);
    SchedulePlan {
        run,
        skipped,
        next,
        look_again,
        never_fires: schedule.never_fires(),
        suspended,
        last_schedule_time,
        effective_time,
        suspended_time,
        observed,
        must_record,
    }
}

/// Instants after one moment and at or before another.
#[derive(Clone, Copy)]
struct Window {
    after: Timestamp,
    until: Timestamp,
}

impl Window {
    /// The part up to and including `until`.
    fn to(self, until: Timestamp) -> Self {
        Self { until: self.until.min(until), ..self }
    }

    /// The part strictly after `after`.
    fn from(self, after: Timestamp) -> Self {
        Self { after: self.after.max(after), ..self }
    }
}

/// What is decided so far, oldest first.
#[derive(Default)]
struct Account {
    run: Vec<IntendedTime>,
    skipped: Vec<SkippedRange>,
    /// The newest instant decided.
    newest: Option<IntendedTime>,
    /// Whether that instant runs.
    newest_runs: bool,
}

impl Account {
    /// Records an instant to run.
    fn run(&mut self, at: IntendedTime) {
        self.run.push(at);
        self.newest = Some(at);
        self.newest_runs = true;
    }

    /// Records the instants of a window as not run.
    fn skip(&mut self, schedule: &Schedule, window: Window, reason: SkipReason) {
        let Window { after, until } = window;
        let Some(to) = schedule.last_within(after, until) else { return };
        let from = schedule.next_after(after).unwrap_or(to);
        let count = schedule.count_within(after, until);
        match self.skipped.last_mut() {
            Some(last) if last.reason == reason && !self.newest_runs => {
                last.to = to;
                last.count += count;
            }
            _ => self.skipped.push(SkippedRange { from, to, count, reason }),
        }
        self.newest = Some(to);
        self.newest_runs = false;
    }

    /// Accounts for instants before `effectiveTime`: of an expression that was replaced, or of a
    /// suspension (from `since` on) that ends.
    fn close(&mut self, schedule: &Schedule, window: Window, since: Option<Timestamp>) {
        let Some(since) = since else {
            return self.skip(schedule, window, SkipReason::Superseded);
        };
        self.skip(schedule, window.to(just_before(since)), SkipReason::Superseded);
        self.skip(schedule, window.from(just_before(since)), SkipReason::Suspended);
    }

    /// Decides the instants of a window that ends now.
    fn decide(&mut self, input: &PlanInput, schedule: &Schedule, window: Window, now: Timestamp) {
        let look_back = earlier(now, LOOK_BACK_SECONDS);
        self.skip(schedule, window.to(just_before(look_back)), SkipReason::Missed);
        let window = window.from(just_before(look_back));

        // With a spread, whether the deadline has passed differs from instant to instant.
        let spread_seconds = input.spread.as_ref().map_or(0, SpreadOf::longest_seconds);
        let on_time = input.starting_deadline_seconds.map(|limit| earlier(now, limit));
        let cut = on_time.map_or(Timestamp::MIN, just_before);
        let cut_spread =
            on_time.map_or(Timestamp::MIN, |t| just_before(earlier(t, spread_seconds)));
        self.skip(schedule, window.to(cut_spread), SkipReason::Deadline);
        let doubtful = window.from(cut_spread).to(cut);
        let live = window.from(cut);

        let (limit, reason) = match input.missed_policy {
            MissedRunsPolicy::Latest => (1, SkipReason::Superseded),
            MissedRunsPolicy::All => {
                (input.missed_limit.clamp(1, MAX_MISSED_LIMIT), SkipReason::Superseded)
            }
            MissedRunsPolicy::None => (MOST_DUE, SkipReason::Missed),
        };
        let is_late = |at: IntendedTime| {
            let delay = input.spread.as_ref().map_or(0, |spread| spread.delay_seconds(at));
            on_time.is_some_and(|on_time| at.timestamp() < earlier(on_time, delay))
        };
        let doubtful: Vec<(IntendedTime, bool)> =
            schedule.between(doubtful.after, doubtful.until).map(|at| (at, is_late(at))).collect();

        let mut chosen = schedule.newest_within(live.after, live.until, limit);
        let more = limit - chosen.len();
        let older = doubtful.iter().rev().filter(|(_, late)| !late).take(more).map(|(at, _)| *at);
        let mut wanted: Vec<IntendedTime> = older.collect();
        if input.missed_policy == MissedRunsPolicy::None {
            let due = |at: &IntendedTime| at.timestamp() >= earlier(now, DUE_SECONDS);
            chosen.retain(due);
            wanted.retain(due);
        }
        for (at, late) in doubtful {
            let one = Window { after: just_before(at.timestamp()), until: at.timestamp() };
            match (late, wanted.contains(&at)) {
                (true, _) => self.skip(schedule, one, SkipReason::Deadline),
                (false, true) => self.run(at),
                (false, false) => self.skip(schedule, one, reason),
            }
        }
        let until = chosen.first().map_or(now, |at| just_before(at.timestamp()));
        self.skip(schedule, live.to(until), reason);
        for at in chosen {
            self.run(at);
        }
    }
}

/// The moment `seconds` before `at`, or the first there is.
fn earlier(at: Timestamp, seconds: i64) -> Timestamp {
    at.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
}
