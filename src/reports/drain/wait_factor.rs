//! What a queue learns about its estimates: one number.
//!
//! Estimates of cost are wrong in one direction for a whole queue, and jobs come in between. So
//! waits are multiplied by a factor that is learnt from the outcome: a job that started later than
//! it was told moves it up by a hundredth, one that started earlier moves it down. It settles where
//! both happen equally often, at the median, whatever the distribution is (online quantile tracking,
//! as in adaptive conformal inference: Gibbs and Candès, 2021), and it needs no history.

use jiff::Timestamp;

/// Factors below and above are a fault of the estimates that people should see.
const BOUNDS: (i32, i32) = (250, 4000);
/// A factor moves by one part in so many.
const STEP: i32 = 100;
/// So close is on time, in milliseconds; most of it is the time that a pass takes.
const ON_TIME: i64 = 30_000;

/// When a job started or would: its moment.
pub type Start = Timestamp;

pub(crate) fn bounded(factor: i32) -> i32 {
    factor.clamp(BOUNDS.0, BOUNDS.1)
}

/// The factor, after a job that was said to start at one moment started at another.
pub(crate) fn learn(factor: i32, said: Start, was: Start) -> i32 {
    let late = was.as_millisecond().saturating_sub(said.as_millisecond());
    let step = (factor / STEP).max(1);
    bounded(match late {
        late if late > ON_TIME => factor + step,
        late if late < -ON_TIME => factor - step,
        _ => factor,
    })
}

/// A wait, multiplied by the factor.
pub(crate) fn apply(factor: i32, wait: i64) -> i64 {
    i64::try_from(i128::from(wait) * i128::from(factor) / 1000).unwrap_or(i64::MAX / 4)
}
