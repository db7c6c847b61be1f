//! How attempts end.

use super::{Arrival, numbers};
use crate::{providers::FailureClass, rng::Rng};

/// How often attempts fail, by class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Of a thousand attempts, how many fail for a reason that passes. They have run for a part of
    /// their time by then.
    pub transient_per_mille: u64,
    /// Of a thousand attempts, how many the platform ends, likewise.
    pub disruption_per_mille: u64,
    /// Of a thousand jobs, how many can never succeed. They have run for a tenth of their time.
    pub broken_per_mille: u64,
    /// Whether the first template is broken: every attempt of it crashes.
    pub poison: bool,
    /// After how long it does, in seconds.
    pub poison_seconds: i32,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            transient_per_mille: 50,
            disruption_per_mille: 10,
            broken_per_mille: 5,
            poison: true,
            poison_seconds: 2,
        }
    }
}

impl Failures {
    /// Nothing fails.
    #[must_use]
    pub fn none() -> Self {
        Self {
            transient_per_mille: 0,
            disruption_per_mille: 0,
            broken_per_mille: 0,
            poison: false,
            ..Self::default()
        }
    }
}

/// A time in which the provider fails: attempts that start in it. What runs already is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it begins, in seconds after the history.
    pub after_seconds: u32,
    /// How long it takes, in seconds.
    pub seconds: u32,
    /// Of a hundred attempts that start in it, how many fail.
    pub percent: u64,
}

/// A failure of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What decides about another attempt.
    pub class: FailureClass,
    /// Why, in one word. Equal deterministic failures have equal reasons.
    pub reason: &'static str,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// After how long, in milliseconds, at least 1.
    pub after: i64,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// Longest time in which an attempt notices that the provider fails, in milliseconds.
const NOTICES: u64 = 30_000;
/// A run of a job that can never succeed takes this part of its time.
const BROKEN_PART: i64 = 10;

impl Failures {
    /// How an attempt ends. `rng` is of the job; an outage is given as moments and percent.
    pub(super) fn ending(
        &self,
        rng: &Rng,
        job: &Arrival,
        attempt: i32,
        start: i64,
        outage: Option<&(i64, i64, u64)>,
    ) -> Ending {
        let fail = |after: i64, class, reason| Ending {
            after: after.max(1),
            failure: Some(Failure { class, reason }),
        };
        let mut of_job = rng.fork(0);
        let mut rng = rng.fork(u64::from(attempt.unsigned_abs()));
        let notices = i64::try_from(rng.of(1_000..=NOTICES)).unwrap_or(1_000);
        // Drawn in any case, so that what else happens does not hang on whether there is an outage.
        let hit = rng.of(1..=100);
        if let Some(&(from, until, percent)) = outage
            && (from..until).contains(&start)
            && hit <= percent
        {
            return fail(notices, FailureClass::Transient, "Unavailable");
        }
        if self.poison && job.template == 0 {
            let after = i64::from(self.poison_seconds) * 1000;
            return fail(after, FailureClass::Deterministic, "Crash");
        }
        if of_job.of(1..=1000) <= self.broken_per_mille {
            return fail(job.cost / BROKEN_PART, FailureClass::Deterministic, "InvalidParameters");
        }
        let part = numbers::millis(numbers::unit(&mut rng));
        let roll = rng.of(1..=1000);
        if roll <= self.transient_per_mille {
            return fail(job.cost * part / 1000, FailureClass::Transient, "ExitCode");
        }
        if roll <= self.transient_per_mille + self.disruption_per_mille {
            return fail(job.cost * part / 1000, FailureClass::Disruption, "Evicted");
        }
        Ending { after: job.cost.max(1), failure: None }
    }
}
