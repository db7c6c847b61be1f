//! The times of an election, derived from one duration and checked at start.

use std::time::Duration;

/// Shortest lease: below it an attempt would have less than 400 ms.
pub const MIN_DURATION: Duration = Duration::from_secs(3);
/// Longest lease: a dead leader blocks work for as long.
pub const MAX_DURATION: Duration = Duration::from_secs(300);
/// Default lease.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// Attempts that must fit into the validity after the last confirmed renewal.
const ATTEMPTS: u32 = 3;

/// The times of an election.
///
/// | lease | renew every | attempt timeout | valid for | taken over after |
/// |---|---|---|---|---|
/// | 10 s | 1.5 s | 1.4 s | 6 s | 11.5 s |
/// | 3 s | 0.5 s | 0.4 s | 1.8 s | 4.15 s |
///
/// They carry liveness only: too short ones cost leader changes, never a duplicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    duration: Duration,
    renew_every: Duration,
    attempt_timeout: Duration,
    epoch_offset: i64,
}

/// Why these times cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseConfigError {
    /// The Lease object knows whole seconds only.
    #[error("the lease duration must be whole seconds, not {0:?}")]
    NotWholeSeconds(Duration),
    /// Too short or too long.
    #[error("the lease duration must be between {MIN_DURATION:?} and {MAX_DURATION:?}, not {0:?}")]
    OutOfRange(Duration),
    /// One failed attempt more would already cost the leadership.
    #[error(
        "three renewal attempts do not fit: {renew_every:?} + 3 x {attempt_timeout:?} must be at \
         most {validity:?} (0.6 of the lease duration); lengthen the lease or shorten the others"
    )]
    AttemptsDoNotFit {
        /// Between renewals.
        renew_every: Duration,
        /// Of one attempt.
        attempt_timeout: Duration,
        /// What they must fit into.
        validity: Duration,
    },
    /// A renewal that never comes, or one that cannot be answered.
    #[error("renewal interval and attempt timeout must be above zero")]
    Zero,
    /// Epochs only grow.
    #[error("the epoch offset must not be negative, not {0}")]
    NegativeOffset(i64),
}

impl LeaseConfig {
    /// The other times derived from the lease duration: renewals every `0.15 D + 75 ms`, cut to
    /// tenths of a second, and an attempt timeout a tenth below that.
    pub fn new(duration: Duration, epoch_offset: i64) -> Result<Self, LeaseConfigError> {
        let tenth = Duration::from_millis(100);
        let tenths = (duration * 15 / 100 + Duration::from_millis(75)).as_millis() / 100;
        let renew_every = tenth * u32::try_from(tenths).unwrap_or(u32::MAX);
        let attempt_timeout = renew_every.saturating_sub(tenth);
        Self::with_times(duration, renew_every, attempt_timeout, epoch_offset)
    }

    /// All times given.
    pub fn with_times(
        duration: Duration,
        renew_every: Duration,
        attempt_timeout: Duration,
        epoch_offset: i64,
    ) -> Result<Self, LeaseConfigError> {
        if duration.subsec_nanos() != 0 {
            return Err(LeaseConfigError::NotWholeSeconds(duration));
        }
        if !(MIN_DURATION..=MAX_DURATION).contains(&duration) {
            return Err(LeaseConfigError::OutOfRange(duration));
        }
        if renew_every.is_zero() || attempt_timeout.is_zero() {
            return Err(LeaseConfigError::Zero);
        }
        if epoch_offset < 0 {
            return Err(LeaseConfigError::NegativeOffset(epoch_offset));
        }
        let config = Self { duration, renew_every, attempt_timeout, epoch_offset };
        let validity = config.validity();
        if renew_every.saturating_add(attempt_timeout.saturating_mul(ATTEMPTS)) > validity {
            return Err(LeaseConfigError::AttemptsDoNotFit {
                renew_every,
                attempt_timeout,
                validity,
            });
        }
        Ok(config)
    }

    /// The lease duration, as written on the Lease.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// [`LeaseConfig::duration`] in the form of the Lease object.
    pub fn duration_secs(&self) -> i32 {
        // At most MAX_DURATION.
        i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// From the start of one confirmed renewal to the start of the next.
    pub fn renew_every(&self) -> Duration {
        self.renew_every
    }

    /// Deadline of one request about the Lease.
    pub fn attempt_timeout(&self) -> Duration {
        self.attempt_timeout
    }

    /// What is added to a resourceVersion to make an epoch.
    pub fn epoch_offset(&self) -> i64 {
        self.epoch_offset
    }

    /// How long a leader may write, from the *start* of its last confirmed renewal.
    pub fn validity(&self) -> Duration {
        self.duration * 3 / 5
    }
}

/// How long an unchanged Lease of the given duration is left alone: the duration, a twentieth for
/// clocks that run at different rates, and a second for answers that took long.
pub fn takeover_after(duration: Duration) -> Duration {
    duration * 21 / 20 + Duration::from_secs(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_other_times_follow_from_the_duration() {
        for (secs, renew, attempt, validity, takeover) in [
            (10, 1500, 1400, 6000, 11_500),
            (3, 500, 400, 1800, 4150),
            (15, 2300, 2200, 9000, 16_750),
            (300, 45_000, 44_900, 180_000, 316_000),
        ] {
            let duration = Duration::from_secs(secs);
            let config = LeaseConfig::new(duration, 0).unwrap();
            assert_eq!(config.renew_every(), ms(renew), "{secs}");
            assert_eq!(config.attempt_timeout(), ms(attempt), "{secs}");
            assert_eq!(config.validity(), ms(validity), "{secs}");
            assert_eq!(takeover_after(duration), ms(takeover), "{secs}");
        }
    }

    #[test]
    fn every_allowed_duration_fits() {
        for secs in MIN_DURATION.as_secs()..=MAX_DURATION.as_secs() {
            assert!(LeaseConfig::new(Duration::from_secs(secs), 0).is_ok(), "{secs}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        use LeaseConfigError as E;
        for (duration, renew, attempt, offset, expected) in [
            (ms(2500), ms(300), ms(200), 0, E::NotWholeSeconds(ms(2500))),
            (ms(2000), ms(100), ms(100), 0, E::OutOfRange(ms(2000))),
            (ms(301_000), ms(100), ms(100), 0, E::OutOfRange(ms(301_000))),
            (ms(10_000), ms(0), ms(100), 0, E::Zero),
            (ms(10_000), ms(100), ms(0), 0, E::Zero),
            (ms(10_000), ms(1500), ms(1400), -1, E::NegativeOffset(-1)),
            (
                ms(10_000),
                ms(1500),
                ms(1501),
                0,
                E::AttemptsDoNotFit {
                    renew_every: ms(1500),
                    attempt_timeout: ms(1501),
                    validity: ms(6000),
                },
            ),
        ] {
            assert_eq!(LeaseConfig::with_times(duration, renew, attempt, offset), Err(expected));
        }
        assert!(LeaseConfig::with_times(ms(10_000), ms(1500), ms(1500), 7).is_ok(), "just fits");
    }
}
