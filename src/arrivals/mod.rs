//! A model of how report jobs come: when, whose, how much they cost, what is said of it, how they end.
//!
//! Pure and seeded: a seed and parameters are one history, on every machine. `punctual simulate` and
//! the benches play it. What the parameters are based on, and why they are what they are, says
//! decision record 0027; all of them are in [`Model`], with their units.
//!
//! | room | what it holds |
//! |---|---|
//! | [`rhythm`] | when jobs come: hours of the day, bursts at :00, :30 and other marks, clocks of clients |
//! | [`work`] | what a job costs and what its customer says it costs |
//! | [`failures`] | how attempts end: failures by class, a broken template, an outage |
//! | [`numbers`] | draws from distributions, the same on every machine |

use jiff::Timestamp;

use crate::rng::Rng;

pub mod failures;
pub mod numbers;
pub mod rhythm;
#[cfg(test)]
mod tests;
pub mod work;

pub use failures::{Ending, Failure, Failures, Outage};
pub use rhythm::Rhythm;
pub use work::Work;

/// Most jobs of one history: what is known of each takes about 80 bytes of memory.
pub const MAX_JOBS: u32 = 5_000_000;
/// Most tenants: as many as a queue may name is a tenth of it.
pub const MAX_TENANTS: u32 = 10_000;
/// Longest history, in hours: a quarter of a year.
pub const MAX_HOURS: u32 = 24 * 92;

/// The parameters of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// One seed is one history.
    pub seed: u64,
    /// The first moment.
    pub from: Timestamp,
    /// How long jobs come, in hours.
    pub hours: u32,
    /// How many jobs come in that time, exactly: a Poisson process of which the number is known.
    pub jobs: u32,
    /// How many tenants there are. The first has the most jobs.
    pub tenants: u32,
    /// Zipf exponent of the tenants: number k has a share in proportion to k^-s.
    pub skew: f64,
    /// How many report templates there are; a job is of each with the same chance. The first is the
    /// one that may be broken.
    pub templates: u32,
    /// When jobs come.
    pub rhythm: Rhythm,
    /// What they cost.
    pub work: Work,
    /// How they end.
    pub failures: Failures,
    /// A time in which the provider fails.
    pub outage: Option<Outage>,
    /// Of a thousand jobs, how many customers lose patience with while they wait.
    pub impatient_per_mille: u64,
    /// After how long they do, in seconds: the mean of an exponential distribution.
    pub patience_seconds: f64,
}

impl Default for Model {
    /// A Monday of a service with 300 tenants and 20,000 reports.
    fn default() -> Self {
        Self {
            seed: 1,
            from: Timestamp::from_second(FIRST_MONDAY).unwrap_or(Timestamp::UNIX_EPOCH),
            hours: 24,
            jobs: 20_000,
            tenants: 300,
            skew: 1.1,
            templates: 200,
            rhythm: Rhythm::default(),
            work: Work::default(),
            failures: Failures::default(),
            outage: None,
            impatient_per_mille: 10,
            patience_seconds: 900.0,
        }
    }
}

/// 2026-11-30T00:00:00Z, a Monday that is not the first of a month.
const FIRST_MONDAY: i64 = 1_795_996_800;

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its place among all, by time, from 0.
    pub number: u32,
    /// When it is created, in milliseconds since the epoch.
    pub at: i64,
    /// Whose it is, from 0.
    pub tenant: u32,
    /// Its template, from 0.
    pub template: u32,
    /// What its customer says it takes, in whole seconds.
    pub estimate: i32,
    /// What an attempt takes that does not fail, in milliseconds.
    pub cost: i64,
    /// After how long its customer cancels it if it still waits, in milliseconds.
    pub patience: Option<i64>,
}

/// Purposes of the generators, so that a change of one parameter does not move all other draws.
mod purpose {
    pub(super) const WHEN: u64 = 1;
    pub(super) const WHOSE: u64 = 2;
    pub(super) const COST: u64 = 3;
    pub(super) const BIAS: u64 = 4;
    pub(super) const PATIENCE: u64 = 5;
    pub(super) const ENDINGS: u64 = 6;
}

impl Model {
    /// All jobs, in the order in which they come.
    pub fn arrivals(&self) -> Vec<Arrival> {
        let seed = Rng::new(self.seed);
        let fork = |purpose| seed.fork(purpose);
        let (mut when, mut whose) = (fork(purpose::WHEN), fork(purpose::WHOSE));
        let (mut cost, mut patience) = (fork(purpose::COST), fork(purpose::PATIENCE));
        let moments = self.rhythm.moments(self.from, self.hours);
        let shares = self.shares();
        let mut arrivals: Vec<Arrival> = (0..self.jobs.min(MAX_JOBS))
            .map(|number| {
                let tenant = pick(&shares, numbers::unit(&mut whose));
                let template = whose.of(0..=u64::from(self.templates.max(1) - 1));
                let estimate = self.work.estimate(&mut cost);
                Arrival {
                    number,
                    at: moments.draw(&mut when, tenant),
                    tenant,
                    template: u32::try_from(template).unwrap_or(0),
                    estimate,
                    cost: self.work.cost(&mut cost, estimate, self.bias(tenant)),
                    patience: self.patience(&mut patience),
                }
            })
            .collect();
        arrivals.sort_by_key(|arrival| (arrival.at, arrival.number));
        for (number, arrival) in (0..).zip(&mut arrivals) {
            arrival.number = number;
        }
        arrivals
    }

    /// By which factor the jobs of a tenant cost more than it says, whatever the seed's other draws.
    pub fn bias(&self, tenant: u32) -> f64 {
        let mut rng = Rng::new(self.seed).fork(purpose::BIAS).fork(u64::from(tenant));
        numbers::factor(&mut rng, self.work.tenant_sigma)
    }

    /// How an attempt of a job ends that starts at that moment, in milliseconds since the epoch.
    pub fn ending(&self, job: &Arrival, attempt: i32, start: i64) -> Ending {
        let rng = Rng::new(self.seed).fork(purpose::ENDINGS).fork(u64::from(job.number));
        self.failures.ending(&rng, job, attempt, start, self.outage_at().as_ref())
    }

    /// The outage as moments: from, until, and of a hundred attempts how many fail.
    fn outage_at(&self) -> Option<(i64, i64, u64)> {
        let outage = self.outage.as_ref()?;
        let from = self.from.as_millisecond() + i64::from(outage.after_seconds) * 1000;
        Some((from, from + i64::from(outage.seconds) * 1000, outage.percent))
    }

    /// Shares of the tenants, added up.
    fn shares(&self) -> Vec<f64> {
        let tenants = self.tenants.clamp(1, MAX_TENANTS);
        let share = |rank: u32| numbers::power(f64::from(rank), -self.skew);
        added_up((1..=tenants).map(share))
    }

    fn patience(&self, rng: &mut Rng) -> Option<i64> {
        let impatient = rng.of(1..=1000) <= self.impatient_per_mille;
        let after = numbers::exponential(rng, self.patience_seconds);
        impatient.then(|| numbers::millis(after))
    }
}

/// Sums of the first one, two, … numbers.
fn added_up(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    numbers
        .scan(0.0, |sum, number| {
            *sum += number;
            Some(*sum)
        })
        .collect()
}

/// Which of the shares, added up, a number between 0 and 1 falls into.
fn pick(added_up: &[f64], unit: f64) -> u32 {
    let total = added_up.last().copied().unwrap_or(0.0);
    let index = added_up.partition_point(|sum| *sum <= unit * total);
    u32::try_from(index.min(added_up.len().saturating_sub(1))).unwrap_or(0)
}
