//! Whether the wall clock can be trusted with schedules.
//!
//! The leader compares its wall clock with the API server's at its acquisition and at every
//! renewal, and before it creates occurrences it also requires that both of its own clocks advanced
//! alike since. What runs goes on whatever this says.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use crate::time::{LeaseClock, LeaseInstant, WallClock};

/// Default of the largest difference that is tolerated.
pub const DEFAULT_MAX_SKEW: Duration = Duration::from_secs(5);
/// The server's clock is answered in whole seconds, cut.
const SERVER_GRAIN: SignedDuration = SignedDuration::from_secs(1);

/// Why no occurrence may be created now.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ClockSkew {
    /// No comparison in this process yet.
    #[error("the clock has not been compared with the API server's yet")]
    NotCompared,
    /// The clocks differ.
    #[error(
        "this machine's clock and the API server's differ by {seconds:.1} s; correct the clock of \
         the one that is wrong"
    )]
    Differs {
        /// Own clock minus the server's, in seconds: at least this much.
        seconds: f64,
    },
    /// The wall clock was set since the last comparison.
    #[error("this machine's clock was moved by {seconds:.1} s; waiting for the next comparison")]
    Jumped {
        /// By how much it ran away from the lease clock, in seconds.
        seconds: f64,
    },
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    lease: LeaseInstant,
    wall: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Comparison {
    at: Reading,
    skew: SignedDuration,
}

type Told = dyn Fn(f64, bool) + Send + Sync;

/// Compares the clocks; clones share what they know.
#[derive(Clone)]
pub struct ClockGuard {
    lease: LeaseClock,
    wall: WallClock,
    max_skew: SignedDuration,
    last: Arc<Mutex<Option<Comparison>>>,
    told: Arc<Told>,
}

impl fmt::Debug for ClockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockGuard").field("max_skew", &self.max_skew).finish_non_exhaustive()
    }
}

impl ClockGuard {
    /// A guard that has compared nothing. `told` hears of every comparison: own clock minus the
    /// server's in seconds, and whether that is tolerable.
    pub fn new(
        lease: LeaseClock,
        wall: WallClock,
        max_skew: Duration,
        told: impl Fn(f64, bool) + Send + Sync + 'static,
    ) -> Self {
        let max_skew = SignedDuration::try_from(max_skew).unwrap_or(SignedDuration::MAX);
        Self { lease, wall, max_skew, last: Arc::default(), told: Arc::new(told) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Comparison>> {
        // A poisoned lock still holds a whole comparison: it is `Copy`.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both clocks now; taken before a request whose answer is to be compared.
    pub fn reading(&self) -> Reading {
        Reading { lease: self.lease.now(), wall: self.wall.now() }
    }

    /// Compares with the server's clock in the answer to a request that was sent at `sent`. An
    /// answer without a clock changes nothing.
    ///
    /// The server read its clock some time between sending and now, and cut it to whole seconds; the
    /// difference counted is the smallest that fits.
    pub fn compare(&self, sent: Reading, server: Option<Timestamp>) {
        let Some(server) = server else { return };
        let at = self.reading();
        let most = at.wall.duration_since(server);
        let least = sent.wall.duration_since(server) - SERVER_GRAIN;
        let (least, most) = (least.min(most), most.max(least));
        let skew = if least.is_positive() {
            least
        } else if most.is_negative() {
            most
        } else {
            SignedDuration::ZERO
        };
        *self.lock() = Some(Comparison { at, skew });
        (self.told)(skew.as_secs_f64(), self.tolerates(skew));
    }

    fn tolerates(&self, difference: SignedDuration) -> bool {
        difference.abs() <= self.max_skew
    }

    /// Whether occurrences may be created now.
    pub fn may_create(&self) -> Result<(), ClockSkew> {
        let last = *self.lock();
        let Some(Comparison { at, skew }) = last else { return Err(ClockSkew::NotCompared) };
        if !self.tolerates(skew) {
            return Err(ClockSkew::Differs { seconds: skew.as_secs_f64() });
        }
        let now = self.reading();
        let by_lease = SignedDuration::try_from(now.lease.since(at.lease));
        let by_wall = now.wall.duration_since(at.wall);
        let drift = by_wall - by_lease.unwrap_or(SignedDuration::MAX);
        if !self.tolerates(drift) {
            return Err(ClockSkew::Jumped { seconds: drift.as_secs_f64() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        lease: LeaseClock,
        wall: WallClock,
        guard: ClockGuard,
        told: Arc<Mutex<Vec<(i64, bool)>>>,
    }

    fn time(text: &str) -> Timestamp {
        format!("2026-01-01T{text}Z").parse().unwrap()
    }

    #[expect(clippy::cast_possible_truncation, reason = "the tests use small whole numbers")]
    fn scene() -> Scene {
        let lease = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let wall = WallClock::driven(time("00:01:00"));
        let told = Arc::<Mutex<Vec<(i64, bool)>>>::default();
        let hears = Arc::clone(&told);
        let guard =
            ClockGuard::new(lease.clone(), wall.clone(), DEFAULT_MAX_SKEW, move |skew, ok| {
                hears.lock().unwrap().push(((skew * 1000.0).round() as i64, ok));
            });
        Scene { lease, wall, guard, told }
    }

    #[test]
    fn nothing_is_created_before_the_first_comparison() {
        let scene = scene();
        assert_eq!(scene.guard.may_create(), Err(ClockSkew::NotCompared));
        scene.guard.compare(scene.guard.reading(), None);
        assert_eq!(scene.guard.may_create(), Err(ClockSkew::NotCompared), "no clock in it");
    }

    #[test]
    fn the_smallest_difference_that_fits_counts() {
        // Sent at 00:01:00, answered at 00:01:01.
        for (server, millis, ok) in [
            ("00:01:00", 0, true),
            ("00:00:59", 0, true), // 00:00:59.999 when it was sent
            ("00:00:58", 1000, true),
            ("00:00:54", 5000, true),
            ("00:00:53", 6000, false),
            ("00:01:01", 0, true),
            ("00:01:02", -1000, true),
            ("00:01:06", -5000, true),
            ("00:01:07", -6000, false),
        ] {
            let scene = scene();
            let sent = scene.guard.reading();
            scene.wall.set(time("00:01:01"));
            scene.lease.set(LeaseInstant::from_nanos(1_000_000_000));
            scene.guard.compare(sent, Some(time(server)));
            assert_eq!(*scene.told.lock().unwrap(), [(millis, ok)], "{server}");
            assert_eq!(scene.guard.may_create().is_ok(), ok, "{server}");
        }
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_and_forgiven_after_the_next_comparison() {
        for (wall, lease_secs, seconds) in [
            ("00:01:30", 30, None),
            ("00:01:35", 30, None),
            ("00:01:36", 30, Some(6.0)),
            ("00:01:24", 30, Some(-6.0)),
            ("00:00:00", 30, Some(-90.0)),
        ] {
            let scene = scene();
            scene.guard.compare(scene.guard.reading(), Some(time("00:01:00")));
            scene.wall.set(time(wall));
            scene.lease.set(LeaseInstant::from_nanos(lease_secs * 1_000_000_000));
            let verdict = scene.guard.may_create();
            assert_eq!(verdict.err(), seconds.map(|seconds| ClockSkew::Jumped { seconds }));
            scene.guard.compare(scene.guard.reading(), Some(time(wall)));
            assert_eq!(scene.guard.may_create(), Ok(()), "{wall}");
        }
    }
}
