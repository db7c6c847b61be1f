//! The numbers that people and scripts are shown. Times are seconds, shares are percent, both with one
//! digit after the point.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{
    Fate, Played, Setting, Share,
    forecast::{Told, error},
    play::at,
};

/// Of a hundred tenants, how many count as large: those with most jobs, one at least.
const LARGE_PERCENT: usize = 10;
/// Tenants that are shown one by one: those with most jobs.
const MAX_TENANT_LINES: usize = 8;
/// A wait or drain that took less than this is not judged, in milliseconds: half a minute is what the
/// operator calls on time.
const LEAST_JUDGED: i64 = 60_000;

/// What came of a setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// What was played.
    pub setting: Shown,
    /// What became of the jobs.
    pub jobs: Jobs,
    /// Time from creation to the first start, by size of the tenant.
    pub waiting: Waits,
    /// How full the queue was.
    pub queue: Load,
    /// How right the forecasts were.
    pub forecast: Forecast,
    /// What failures cost.
    pub retries: Retries,
    /// The largest tenants, and those with rules of their own.
    pub tenants: Vec<Tenant>,
}

/// What was played.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Slots of the queue.
    pub slots: usize,
    /// Tenants.
    pub tenants: u32,
    /// Jobs that come.
    pub jobs: u32,
    /// In so many hours.
    pub hours: u32,
    /// From then on.
    pub from_time: String,
    /// The seed.
    pub seed: u64,
    /// Most waiting jobs.
    pub queued: i32,
    /// Most waiting jobs of one tenant.
    pub queued_per_tenant: i32,
    /// What retries may cost, in percent of first attempts; none if they are switched off.
    pub retry_budget_percent: Option<i32>,
    /// When the provider fails.
    pub outage: Option<Away>,
}

/// An outage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Away {
    /// When it begins.
    pub from_time: String,
    /// How long it takes.
    pub seconds: u32,
    /// Of a hundred attempts, how many fail.
    pub percent: u64,
}

/// What became of the jobs. Succeeded and failed ones ran; all together are those that arrived.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Jobs {
    /// All.
    pub arrived: u64,
    /// Succeeded.
    pub succeeded: u64,
    /// Failed for good.
    pub failed: u64,
    /// Cancelled while they waited.
    pub cancelled: u64,
    /// Wait still, and nothing will start them.
    pub waiting: u64,
    /// Not accepted, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
}

impl Jobs {
    /// All that were not accepted.
    pub fn rejected(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// All that ran to an end.
    pub fn ran(&self) -> u64 {
        self.succeeded + self.failed
    }

    fn count(&mut self, fate: Fate) {
        self.arrived += 1;
        *match fate {
            Fate::Open => &mut self.waiting,
            Fate::Succeeded => &mut self.succeeded,
            Fate::Failed => &mut self.failed,
            Fate::Cancelled => &mut self.cancelled,
            Fate::Rejected(reason) => self.rejected.entry(reason).or_default(),
        } += 1;
    }
}

/// Waits by size of the tenant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// How many tenants count as large.
    pub large_tenants: usize,
    /// Of all others.
    pub small: Wait,
    /// Of those.
    pub large: Wait,
}

/// Waits of some jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// How many started.
    pub started: usize,
    /// Half of them waited no longer.
    pub p50_seconds: f64,
    /// 95 % of them.
    pub p95_seconds: f64,
    /// 99 % of them.
    pub p99_seconds: f64,
    /// None waited longer.
    pub longest_seconds: f64,
}

impl Wait {
    fn of(mut waits: Vec<i64>) -> Self {
        waits.sort_unstable();
        let part = |percent| seconds(quantile(&waits, percent).unwrap_or(0));
        Self {
            started: waits.len(),
            p50_seconds: part(50),
            p95_seconds: part(95),
            p99_seconds: part(99),
            longest_seconds: part(100),
        }
    }
}

/// How full the queue was.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Of the slots, how many were held on average while jobs came.
    pub utilisation_percent: f64,
    /// Most slots held at once.
    pub most_slots_used: usize,
    /// Most jobs that waited at once.
    pub most_waiting: usize,
    /// Longest time in which always somebody waited.
    pub longest_backlog_seconds: f64,
    /// When the last run was over.
    pub drained_time: String,
    /// How long after the last hour that was.
    pub drained_after_seconds: f64,
}

/// How right the forecasts were, just after each burst.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// When the jobs that were there would be done.
    pub drain: Accuracy,
    /// When each would start.
    pub start: Accuracy,
    /// The same by a plain formula: jobs before it, over the rate.
    pub start_by_arrival: Accuracy,
}

/// Errors in percent of what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Accuracy {
    /// How many were judged.
    pub judged: usize,
    /// Half of them were at most so wrong.
    pub p50_percent: f64,
    /// 90 % of them.
    pub p90_percent: f64,
}

impl Accuracy {
    /// Of errors in thousandths.
    pub fn of(errors: impl Iterator<Item = i64>) -> Self {
        let mut errors: Vec<i64> = errors.collect();
        errors.sort_unstable();
        let part = |percent| tenths(quantile(&errors, percent).unwrap_or(0), 10);
        Self { judged: errors.len(), p50_percent: part(50), p90_percent: part(90) }
    }
}

/// What failures cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retries {
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Retries that were admitted.
    pub admitted: u64,
    /// Failed attempts after which no other followed: for good, or as often as it may be.
    pub given_up: u64,
    /// Slot time of retries.
    pub slot_seconds: f64,
    /// In percent of that of first attempts.
    pub percent_of_first: f64,
    /// Retries whose time had come and that waited for the budget.
    pub waited_for_budget: u64,
    /// Likewise for a slot among those that retries may hold.
    pub waited_for_share: u64,
}

/// One tenant, or several in one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// How many tenants this is.
    pub tenants: usize,
    /// Its weight.
    pub weight: i64,
    /// Jobs of it.
    pub jobs: Jobs,
    /// How long they waited.
    pub waiting: Wait,
    /// Its part of all slot time.
    pub slot_time_percent: f64,
    /// Its part of the slots of all who waited, while it waited itself.
    pub had_percent: f64,
    /// What its weight gives it of them.
    pub due_percent: f64,
}

/// What came of a setting that was played.
pub fn outcome(setting: &Setting, played: &Played) -> Outcome {
    let by_tenant = by_tenant(setting, played);
    let mut jobs = Jobs::default();
    played.stories.iter().for_each(|story| jobs.count(story.fate));
    Outcome {
        setting: shown(setting),
        jobs,
        waiting: waits(&by_tenant),
        queue: load(setting, played),
        forecast: forecast(played),
        retries: retries(played),
        tenants: tenants(setting, &by_tenant),
    }
}

fn shown(setting: &Setting) -> Shown {
    let Setting { model, rules, .. } = setting;
    let outage = model.outage.map(|outage| Away {
        from_time: at(model.from.as_millisecond() + i64::from(outage.after_seconds) * 1000)
            .to_string(),
        seconds: outage.seconds,
        percent: outage.percent,
    });
    Shown {
        slots: rules.slots(),
        tenants: model.tenants,
        jobs: model.jobs,
        hours: model.hours,
        from_time: model.from.to_string(),
        seed: model.seed,
        queued: rules.queued,
        queued_per_tenant: rules.queued_per_tenant,
        retry_budget_percent: rules.retries.then_some(rules.budget_percent),
        outage,
    }
}

/// What is counted of one tenant.
#[derive(Clone, Debug, Default)]
struct Counted {
    jobs: Jobs,
    waits: Vec<i64>,
    slot_time: i64,
    share: Share,
}

impl Counted {
    fn add(&mut self, other: &Self) {
        let Jobs { arrived, succeeded, failed, cancelled, waiting, rejected } = &other.jobs;
        self.jobs.arrived += arrived;
        self.jobs.succeeded += succeeded;
        self.jobs.failed += failed;
        self.jobs.cancelled += cancelled;
        self.jobs.waiting += waiting;
        for (reason, count) in rejected {
            *self.jobs.rejected.entry(reason).or_default() += count;
        }
        self.waits.extend(&other.waits);
        self.slot_time += other.slot_time;
        self.share.held += other.share.held;
        self.share.due += other.share.due;
        self.share.of += other.share.of;
    }
}

fn by_tenant(setting: &Setting, played: &Played) -> Vec<Counted> {
    let mut all = vec![Counted::default(); setting.model.tenants as usize];
    for (arrival, story) in played.arrivals.iter().zip(&played.stories) {
        let of = &mut all[arrival.tenant as usize];
        of.jobs.count(story.fate);
        of.waits.extend(story.started.map(|started| started - arrival.at));
    }
    for admitted in &played.admissions {
        let job = &played.arrivals[admitted.job as usize];
        let ending = setting.model.ending(job, admitted.attempt, admitted.at);
        all[job.tenant as usize].slot_time += ending.after;
    }
    for (of, share) in all.iter_mut().zip(&played.shares) {
        of.share = *share;
    }
    all
}

fn waits(by_tenant: &[Counted]) -> Waits {
    let large_tenants = (by_tenant.len() * LARGE_PERCENT).div_ceil(100);
    let (large, small) = by_tenant.split_at(large_tenants);
    let wait = |of: &[Counted]| Wait::of(of.iter().flat_map(|of| of.waits.clone()).collect());
    Waits { large_tenants, small: wait(small), large: wait(large) }
}

fn load(setting: &Setting, played: &Played) -> Load {
    let until = setting.model.from.as_millisecond() + i64::from(setting.model.hours) * 3_600_000;
    let slots = i64::try_from(setting.rules.slots()).unwrap_or(1);
    Load {
        utilisation_percent: percent(
            played.tally.held,
            slots * i64::from(setting.model.hours) * 3_600_000,
        ),
        most_slots_used: played.tally.most_held,
        most_waiting: played.tally.most_waiting,
        longest_backlog_seconds: seconds(played.tally.longest_backlog),
        drained_time: Timestamp::from_second(played.end.div_euclid(1000))
            .unwrap_or(Timestamp::MAX)
            .to_string(),
        drained_after_seconds: seconds((played.end - until).max(0)),
    }
}

fn forecast(played: &Played) -> Forecast {
    let drain = played
        .asked
        .iter()
        .filter(|sample| sample.waiting > 0)
        .filter_map(|sample| error(sample.at, sample.about?, sample.over?, LEAST_JUDGED));
    Forecast {
        drain: Accuracy::of(drain),
        start: starts(&played.told, |told| told.said),
        start_by_arrival: starts(&played.told, |told| told.by_arrival),
    }
}

/// How right one way to say when jobs start was.
pub fn starts(told: &[Told], said: impl Fn(&Told) -> i64) -> Accuracy {
    Accuracy::of(
        told.iter().filter_map(|told| error(told.at, said(told), told.started?, LEAST_JUDGED)),
    )
}

fn retries(played: &Played) -> Retries {
    let tally = &played.tally;
    Retries {
        failed_attempts: tally.failed_attempts,
        admitted: tally.retries,
        given_up: tally.given_up,
        slot_seconds: seconds(tally.retries_took),
        percent_of_first: percent(tally.retries_took, tally.first_took),
        waited_for_budget: tally.waited_for_budget,
        waited_for_share: tally.waited_for_share,
    }
}

fn tenants(setting: &Setting, by_tenant: &[Counted]) -> Vec<Tenant> {
    let total: i64 = by_tenant.iter().map(|of| of.slot_time).sum();
    let line = |name: String, tenants: usize, weight: i64, of: Counted| Tenant {
        name,
        tenants,
        weight,
        slot_time_percent: percent(of.slot_time, total),
        had_percent: percent(of.share.held, of.share.of),
        due_percent: percent(of.share.due, of.share.of),
        jobs: of.jobs,
        waiting: Wait::of(of.waits),
    };
    let (mut lines, mut others, mut count) = (Vec::new(), Counted::default(), 0);
    for (number, (name, of)) in setting.tenants().into_iter().zip(by_tenant).enumerate() {
        let named = setting.rules.tenants.contains_key(&name) && setting.names.contains(&name);
        if number < MAX_TENANT_LINES || named {
            let weight = setting.rules.weight(&name);
            lines.push(line(name, 1, weight, of.clone()));
        } else {
            others.add(of);
            count += 1;
        }
    }
    if count > 0 {
        lines.push(line("all others".to_owned(), count, 1, others));
    }
    lines
}

/// The smallest of sorted numbers that so many percent do not exceed.
pub fn quantile(sorted: &[i64], percent: usize) -> Option<i64> {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied()
}

/// Milliseconds in seconds.
fn seconds(millis: i64) -> f64 {
    tenths(millis, 1000)
}

/// A part in percent; nothing of nothing is nothing.
fn percent(part: i64, of: i64) -> f64 {
    if of <= 0 { 0.0 } else { tenths(part.saturating_mul(100), of) }
}

/// A quotient with one digit after the point, rounded down: made of whole numbers, so that it is the
/// same everywhere.
fn tenths(number: i64, of: i64) -> f64 {
    let tenths = i128::from(number) * 10 / i128::from(of.max(1));
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let tenths = tenths as f64;
    tenths / 10.0
}
