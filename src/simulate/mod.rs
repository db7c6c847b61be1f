//! A queue played on the arrival model, through the code that the operator runs.
//!
//! What decides is the production code and nothing else: [`limits::accept`] answers new jobs,
//! [`Books`] admit and settle, [`retry::delay`] and [`runs::may_retry`] say whether and when an attempt
//! follows, [`drain`] makes the forecasts. This room only lets time pass: jobs come as
//! [`crate::arrivals`] says, runs end after what they cost, and a pass is made when something happened,
//! at most five times a second, as the operator makes them. No API server, no provider, no network: a
//! run starts with its admission.
//!
//! | room | what it holds |
//! |---|---|
//! | [`play`] | the loop on virtual time |
//! | [`forecast`] | what was said about the drain and about starts, and what came of it |
//! | [`outcome`] | the numbers that people and scripts are shown |
//! | [`page`] | the same as a page with plots |
//!
//! [`limits::accept`]: crate::reports::limits::accept
//! [`Books`]: crate::reports::ledger::Books
//! [`retry::delay`]: crate::retry::delay
//! [`runs::may_retry`]: crate::runs::may_retry
//! [`drain`]: crate::reports::drain

use crate::{
    arrivals::{Arrival, Model},
    reports::rules::Rules,
};

pub mod forecast;
pub mod outcome;
pub mod page;
pub mod play;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_forecast;

pub use play::play;

/// Seconds after a full hour at which the forecasts of that burst are judged: the minute over which
/// clients spread their jobs, and five more.
pub const AFTER_BURST_SECONDS: i64 = 65;
/// Most bursts of which every single forecast of a start is judged: two days. Each costs what it takes
/// to play 10,000 admissions ahead.
const MAX_JUDGED: u32 = 48;

/// What is played.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// How jobs come and end.
    pub model: Model,
    /// The rules of the queue.
    pub rules: Rules,
    /// Attempts of a job (`maxAttempts`).
    pub max_attempts: i32,
    /// Names of the tenants, the one with most jobs first; others are called by their number.
    pub names: Vec<String>,
    /// Moments at which everybody who waits is asked when they will start, in milliseconds since the
    /// epoch, in order.
    pub asks: Vec<i64>,
}

impl Setting {
    /// A setting that judges the forecasts after each full hour.
    pub fn new(model: Model, rules: Rules) -> Self {
        let from = model.from.as_millisecond();
        let asks = (0..model.hours.min(MAX_JUDGED))
            .map(|hour| from + i64::from(hour) * 3_600_000 + AFTER_BURST_SECONDS * 1000)
            .collect();
        Self { model, rules, max_attempts: 3, names: Vec::new(), asks }
    }

    /// Names of all tenants, by number.
    pub fn tenants(&self) -> Vec<String> {
        let known =
            |name: &&String| generated(name).is_none_or(|number| number > self.model.tenants);
        let mut given = self.names.iter().filter(known);
        (1..=self.model.tenants)
            .map(|number| given.next().cloned().unwrap_or_else(|| tenant(number)))
            .collect()
    }
}

/// The name of a tenant that was given none; numbers begin with 1.
pub fn tenant(number: u32) -> String {
    format!("tenant-{number:03}")
}

/// The number of a name that [`tenant`] gives.
fn generated(name: &str) -> Option<u32> {
    let number = name.strip_prefix("tenant-")?.parse().ok()?;
    (tenant(number) == name).then_some(number)
}

/// What became of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It waits, or runs.
    #[default]
    Open,
    /// It succeeded.
    Succeeded,
    /// It failed and is not tried again.
    Failed,
    /// Its customer lost patience.
    Cancelled,
    /// It was not accepted.
    Rejected(&'static str),
}

/// What is known of a job when all is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// What became of it.
    pub fate: Fate,
    /// When its first attempt was admitted.
    pub started: Option<i64>,
    /// When it was over.
    pub over: Option<i64>,
}

/// An admission: when, which job, which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// Number of the job.
    pub job: u32,
    /// Number of the attempt, from 1.
    pub attempt: i32,
}

/// What is counted while it is played. Times of slots are in slot-milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Slots held while jobs came.
    pub held: i64,
    /// What runs of first attempts took.
    pub first_took: i64,
    /// What runs of retries took.
    pub retries_took: i64,
    /// What first attempts were charged when they were admitted.
    pub first_charged: i64,
    /// What retries took out of the budget: their charge, without what they did not use.
    pub retries_paid: i64,
    /// Charges of retries that went beyond the budget because nothing else was to be done.
    pub beyond_charged: i64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Of them, those after which no other followed.
    pub given_up: u64,
    /// Retries that were admitted.
    pub retries: u64,
    /// Retries whose time had come and that waited for the budget.
    pub waited_for_budget: u64,
    /// Likewise for a slot among those that retries may hold.
    pub waited_for_share: u64,
    /// Most slots held at once.
    pub most_held: usize,
    /// Most jobs that waited at once.
    pub most_waiting: usize,
    /// Longest time in which always somebody waited, in milliseconds.
    pub longest_backlog: i64,
    /// How many passes were made.
    pub passes: u64,
}

/// What a tenant had while it waited and all slots were held, summed over the samples, in thousandths
/// of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Slots that it held.
    pub held: i64,
    /// Slots that its weight gives it of those that all who waited held together.
    pub due: i64,
    /// Those.
    pub of: i64,
}

/// A history that was played to its end.
#[derive(Clone, Debug)]
pub struct Played {
    /// The jobs, in the order in which they came.
    pub arrivals: Vec<Arrival>,
    /// What became of each.
    pub stories: Vec<Story>,
    /// Admissions, in their order.
    pub admissions: Vec<Admitted>,
    /// What was counted.
    pub tally: Tally,
    /// The queue, minute by minute.
    pub samples: Vec<forecast::Sample>,
    /// The queue at the moments at which everybody was asked.
    pub asked: Vec<forecast::Sample>,
    /// What each was told who was asked for.
    pub told: Vec<forecast::Told>,
    /// What each tenant had while it waited.
    pub shares: Vec<Share>,
    /// When the last run was over.
    pub end: i64,
}
