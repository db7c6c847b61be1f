//! What a job costs, and what its customer says it costs.

use super::numbers;
use crate::rng::Rng;

/// What jobs cost. A customer says what a report of this kind takes as a rule; a run takes that, times
/// a factor of the tenant that says too little or too much, times a factor of the run. Both factors
/// have mean 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Median of the body, in seconds; its logarithm is normal,
    pub median_seconds: f64,
    /// with this standard deviation.
    pub sigma: f64,
    /// Of a hundred jobs, how many are of the tail: a bounded Pareto distribution,
    pub tail_percent: u64,
    /// with this exponent,
    pub tail_alpha: f64,
    /// from so many seconds on,
    pub tail_from_seconds: f64,
    /// up to so many. No estimate is larger, of the body neither.
    pub tail_to_seconds: f64,
    /// How wrong tenants are about their jobs: standard deviation of the logarithm of the factor.
    pub tenant_sigma: f64,
    /// How much runs of one kind differ: standard deviation of the logarithm of the factor.
    pub run_sigma: f64,
    /// No run takes longer, in seconds: the time limit of the service.
    pub limit_seconds: f64,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            median_seconds: 60.0,
            sigma: 1.2,
            tail_percent: 5,
            tail_alpha: 1.1,
            tail_from_seconds: 300.0,
            tail_to_seconds: 3_600.0,
            tenant_sigma: 0.4,
            run_sigma: 0.5,
            limit_seconds: 3_600.0,
        }
    }
}

impl Work {
    /// What a customer says that a job takes, in whole seconds.
    pub fn estimate(&self, rng: &mut Rng) -> i32 {
        let of_tail = rng.chance(self.tail_percent);
        let seconds = if of_tail {
            numbers::pareto(rng, self.tail_alpha, self.tail_from_seconds, self.tail_to_seconds)
        } else {
            numbers::log_normal(rng, self.median_seconds, self.sigma)
        };
        #[allow(clippy::cast_possible_truncation)] // within the bounds before it
        let whole = seconds.clamp(1.0, self.tail_to_seconds).round() as i32;
        whole
    }

    /// What a run takes of which that was said, in milliseconds.
    pub fn cost(&self, rng: &mut Rng, estimate: i32, bias: f64) -> i64 {
        let run = numbers::factor(rng, self.run_sigma);
        numbers::millis((f64::from(estimate) * bias * run).clamp(1.0, self.limit_seconds))
    }
}
