//! Virtual time, and the clocks that every replica's machine makes of it.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::time::{LeaseClock, LeaseInstant, WallClock};

/// Parts of a million: a rate of 1.
const ONE: u128 = 1_000_000;
/// The fastest a lease clock may run: no quartz does, but tests exaggerate.
const MAX_RATE: f64 = 100.0;
/// What the first machine's lease clock shows at the start; each further machine shows another hour.
const FIRST_READING: Duration = Duration::from_secs(3600);

/// Runs a history: on one thread, on a runtime of its own whose time is virtual. Time passes only when
/// nothing is left to do, so a history takes as long as its work, and nothing of it depends on the
/// machine.
///
/// # Panics
/// If the operating system gives no runtime.
pub fn history<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets and threads needs nothing of the operating system");
    runtime.block_on(future)
}

/// Virtual time since the start, and what a true clock shows.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    start: Instant,
    wall: Timestamp,
}

impl Time {
    /// Time that starts now, when a true clock shows `wall`.
    pub fn starting(wall: Timestamp) -> Self {
        Self { start: Instant::now(), wall }
    }

    /// Virtual time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The runtime's instant at that virtual time.
    pub fn at(&self, since_start: Duration) -> Instant {
        self.start + since_start
    }

    /// What a true clock shows at that virtual time.
    pub fn wall_at(&self, since_start: Duration) -> Timestamp {
        let passed = SignedDuration::try_from(since_start).unwrap_or(SignedDuration::MAX);
        self.wall.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// A clock that is never wrong: the API server's, the provider's.
    pub fn true_clock(&self) -> WallClock {
        let time = *self;
        WallClock::computed(move || time.wall_at(time.elapsed()))
    }
}

/// The two clocks of one machine.
#[derive(Clone, Debug)]
pub struct Machine {
    time: Time,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// Since when the lease clock runs at this rate, in virtual time, and what it showed then.
    since: Duration,
    reading: Duration,
    /// In parts of a million.
    rate: u128,
    /// How far the wall clock is ahead.
    ahead: SignedDuration,
}

impl State {
    fn lease_at(&self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.since).as_nanos() * self.rate / ONE;
        self.reading + Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

impl Machine {
    /// The clocks of machine number `index`: right, with an origin of its own.
    pub fn new(time: Time, index: usize) -> Self {
        let reading = FIRST_READING * u32::try_from(index + 1).unwrap_or(u32::MAX);
        let state =
            State { since: time.elapsed(), reading, rate: ONE, ahead: SignedDuration::ZERO };
        Self { time, state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic between two assignments could at most leave a clock that is wrong.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine's monotonic clock.
    pub fn lease_clock(&self) -> LeaseClock {
        let this = self.clone();
        LeaseClock::computed(move || {
            let reading = this.lock().lease_at(this.time.elapsed());
            LeaseInstant::from_nanos(u64::try_from(reading.as_nanos()).unwrap_or(u64::MAX))
        })
    }

    /// The machine's wall clock.
    pub fn wall_clock(&self) -> WallClock {
        let this = self.clone();
        WallClock::computed(move || {
            let right = this.time.wall_at(this.time.elapsed());
            right.saturating_add(this.lock().ahead).unwrap_or(Timestamp::MAX)
        })
    }

    /// Whether both clocks are right.
    pub fn is_right(&self) -> bool {
        let state = self.lock();
        state.ahead.is_zero() && state.rate == ONE
    }

    /// Sets the wall clock right, and lets the lease clock run at the right rate.
    pub fn set_right(&self) {
        self.set_rate(1.0);
        self.lock().ahead = SignedDuration::ZERO;
    }

    /// Sets the wall clock forward, or back.
    pub fn jump(&self, by: SignedDuration) {
        let mut state = self.lock();
        state.ahead = state.ahead.saturating_add(by);
    }

    /// Lets the lease clock run at this rate from now on: 1 is right, 0 stands still, above 100 counts
    /// as 100.
    pub fn set_rate(&self, rate: f64) {
        let now = self.time.elapsed();
        let mut state = self.lock();
        (state.reading, state.since) = (state.lease_at(now), now);
        state.rate = Duration::from_secs_f64(rate.clamp(0.0, MAX_RATE)).as_micros();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_history_of_a_year_takes_no_time_and_ends_at_the_very_moment() {
        let year = secs(365 * 24 * 3600);
        let (elapsed, wall) = history(async {
            let time = Time::starting("2026-01-01T00:00:00Z".parse().unwrap());
            sleep(year).await;
            (time.elapsed(), time.true_clock().now())
        });
        assert_eq!((elapsed, wall.to_string().as_str()), (year, "2027-01-01T00:00:00Z"));
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_follow_their_rate_and_jumps_without_going_back() {
        let time = Time::starting("2026-01-01T00:00:00Z".parse().unwrap());
        let machine = Machine::new(time, 1);
        let (lease, wall) = (machine.lease_clock(), machine.wall_clock());
        let start = lease.now();
        sleep(secs(10)).await;
        assert_eq!(lease.now().since(start), secs(10));
        for (rate, shown) in [(1.5, 15), (0.0, 0), (-3.0, 0), (1.0, 10)] {
            let before = lease.now();
            machine.set_rate(rate);
            assert_eq!(lease.now(), before, "a new rate moves nothing");
            sleep(secs(10)).await;
            assert_eq!(lease.now().since(before), secs(shown), "{rate}");
        }
        assert_eq!(wall.now().to_string(), "2026-01-01T00:00:50Z");
        machine.jump(SignedDuration::from_secs(-90));
        assert_eq!(wall.now().to_string(), "2025-12-31T23:59:20Z");
        assert_eq!(time.true_clock().now().to_string(), "2026-01-01T00:00:50Z");
        assert_ne!(Machine::new(time, 0).lease_clock().now(), lease.now(), "other machine");
    }
}
