//! Delays between attempts: the only user of the `backoff` crate.
//!
//! The crate's defaults do not fit an operator, so every option is given here: it would give up
//! after 15 minutes, spread delays at random by ±50 % after the cap, and so exceed its own maximum.
//! Here a delay is a *pure function* of policy, key and attempt: it never ends, never exceeds the
//! maximum, and the jitter is a hash, so a simulation with the same seed sees the same delays, and
//! a new leader computes the same retry time as the one it follows.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use backoff::{ExponentialBackoff, ExponentialBackoffBuilder, backoff::Backoff as _};
use sha2::{Digest, Sha256};

/// Each delay is twice the one before.
const MULTIPLIER: f64 = 2.0;

/// Doubling that often exceeds every maximum in use (1 ms · 2^63 is 292 million years), so later
/// attempts need no further steps and the loop of [`base`] is bounded.
const MAX_DOUBLINGS: u32 = 63;

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Delay before the second attempt, without jitter. Whole milliseconds.
    pub initial: Duration,
    /// No delay is longer, jitter included.
    pub max: Duration,
    /// How many percent of a delay are jitter: with 50, a delay of 30 s becomes 15 s to 30 s.
    /// Jitter only shortens. Values above 100 count as 100.
    pub jitter_percent: u8,
}

/// Failed reconciles of one object: a second at first, because most faults are one lost answer; at
/// most a minute, so that a repaired API server is noticed soon.
pub const RECONCILE: Policy =
    Policy { initial: Duration::from_secs(1), max: Duration::from_secs(60), jitter_percent: 50 };

/// Attempts of a run that failed for a reason that may pass.
pub const RUN: Policy = Policy {
    initial: Duration::from_secs(30),
    max: Duration::from_secs(30 * 60),
    jitter_percent: 50,
};

/// Asking a provider again that did not answer.
pub const PROVIDER: Policy = Policy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(10),
    jitter_percent: 50,
};

/// Loops of the process that cannot do their work yet (no API server, no CRDs): short, because
/// becoming ready waits for them.
pub const STARTUP: Policy =
    Policy { initial: Duration::from_millis(250), max: Duration::from_secs(5), jitter_percent: 25 };

/// The delay after the failure of attempt `attempt` (counted from 1; 0 counts as 1) of the work
/// named `key`. Equal arguments give equal delays.
pub fn delay(policy: &Policy, key: &str, attempt: u32) -> Duration {
    let base = base(policy, attempt);
    let base_ms = u64::try_from(base.as_millis()).unwrap_or(u64::MAX);
    let jitter_ms = base_ms / 100 * u64::from(policy.jitter_percent.min(100))
        + base_ms % 100 * u64::from(policy.jitter_percent.min(100)) / 100;
    Duration::from_millis(base_ms - spread(key, attempt, jitter_ms))
}

/// `initial · 2^(attempt − 1)`, at most `max`, in whole milliseconds.
fn base(policy: &Policy, attempt: u32) -> Duration {
    let mut backoff: ExponentialBackoff = ExponentialBackoffBuilder::new()
        .with_initial_interval(policy.initial.min(policy.max))
        .with_multiplier(MULTIPLIER)
        .with_max_interval(policy.max)
        .with_randomization_factor(0.0)
        .with_max_elapsed_time(None)
        .build();
    let mut delay = policy.max;
    for _ in 0..attempt.clamp(1, MAX_DOUBLINGS) {
        // `None` would mean "give up", which no elapsed time can cause here.
        delay = backoff.next_backoff().unwrap_or(policy.max);
    }
    // The crate adds up to one nanosecond of randomness even at factor 0; whole milliseconds cut it.
    Duration::from_millis(u64::try_from(delay.min(policy.max).as_millis()).unwrap_or(u64::MAX))
}

/// A number from 0 to `up_to`, both included, that depends on key and attempt only.
fn spread(key: &str, attempt: u32, up_to: u64) -> u64 {
    let mut hash = Sha256::new();
    hash.update(key.as_bytes());
    hash.update(b"\n");
    hash.update(attempt.to_be_bytes());
    let digest = hash.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    let fraction = u128::from(u64::from_be_bytes(first));
    // fraction / 2^64 · (up_to + 1), rounded down: at most `up_to`.
    u64::try_from((fraction * (u128::from(up_to) + 1)) >> 64).unwrap_or(up_to)
}

/// Objects whose consecutive failures are remembered. Above the number of objects that fail at once
/// in a cluster of the size we aim at (5,000 schedules), at about 200 bytes each.
pub const MAX_FAILING_OBJECTS: usize = 8192;

/// Consecutive failures per object, and the delay that follows from them.
///
/// An object is forgotten when it succeeds, when it is gone, and when too many others failed since:
/// it then starts again at the shortest delay, which costs a request and loses nothing.
#[derive(Debug)]
pub struct ObjectBackoff {
    policy: Policy,
    capacity: usize,
    failing: Mutex<Failing>,
}

#[derive(Debug, Default)]
struct Failing {
    /// Object → (consecutive failures, turn of the last one).
    objects: BTreeMap<String, (u32, u64)>,
    /// Turn of the last failure → object; the first entry is evicted first.
    by_turn: BTreeMap<u64, String>,
    turn: u64,
}

impl ObjectBackoff {
    /// Remembers at most [`MAX_FAILING_OBJECTS`] objects.
    pub fn new(policy: Policy) -> Self {
        Self::with_capacity(policy, MAX_FAILING_OBJECTS)
    }

    /// Remembers at most `capacity` objects.
    pub fn with_capacity(policy: Policy, capacity: usize) -> Self {
        Self { policy, capacity, failing: Mutex::default() }
    }

    /// The object failed once more; how long to wait before it is tried again.
    pub fn failed(&self, object: &str) -> Duration {
        let mut failing = self.lock();
        let failures = failing.forget(object).saturating_add(1);
        failing.remember(object, failures, self.capacity);
        delay(&self.policy, object, failures)
    }

    /// The object succeeded, or is gone: its failures are forgotten.
    pub fn succeeded(&self, object: &str) {
        self.lock().forget(object);
    }

    /// How many objects are failing at present.
    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Whether no object is failing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Failing> {
        // A panic between the two maps could at most leave an entry in one of them; `forget` and
        // `remember` bear that.
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failing {
    /// Removes the object; how often it had failed.
    fn forget(&mut self, object: &str) -> u32 {
        let Some((failures, turn)) = self.objects.remove(object) else { return 0 };
        self.by_turn.remove(&turn);
        failures
    }

    fn remember(&mut self, object: &str, failures: u32, capacity: usize) {
        while self.objects.len() >= capacity {
            let Some((_, oldest)) = self.by_turn.pop_first() else { return };
            self.objects.remove(&oldest);
        }
        self.turn += 1;
        self.objects.insert(object.to_owned(), (failures, self.turn));
        self.by_turn.insert(self.turn, object.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Policy = Policy { jitter_percent: 0, ..RUN };

    #[test]
    fn delays_double_up_to_the_maximum_and_never_end() {
        let seconds: Vec<u64> = (1..=9).map(|n| delay(&EXACT, "x", n).as_secs()).collect();
        assert_eq!(seconds, [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]);
        assert_eq!(delay(&EXACT, "x", u32::MAX), RUN.max, "the crate's default gives up instead");
        assert_eq!(delay(&EXACT, "x", 0), RUN.initial, "attempts count from 1");
    }

    #[test]
    fn delays_are_exact_without_jitter() {
        // The crate adds up to a nanosecond of its own randomness; a hundred calls would show it.
        for _ in 0..100 {
            assert_eq!(delay(&EXACT, "x", 3), Duration::from_secs(120));
        }
    }

    #[test]
    fn jitter_shortens_by_at_most_its_share_and_is_the_same_every_time() {
        let mut seen = std::collections::BTreeSet::new();
        for key in 0..1000 {
            let key = format!("job-{key}");
            let first = delay(&RUN, &key, 2);
            assert_eq!(first, delay(&RUN, &key, 2));
            assert!(first >= Duration::from_secs(30) && first <= Duration::from_secs(60));
            seen.insert(first);
        }
        assert!(seen.len() > 900, "a thousand keys are spread, not bunched: {}", seen.len());
        let mean = seen.iter().sum::<Duration>() / u32::try_from(seen.len()).unwrap();
        assert!(mean > Duration::from_secs(43) && mean < Duration::from_secs(47), "{mean:?}");
    }

    #[test]
    fn jitter_depends_on_the_attempt_too() {
        let at_the_cap: std::collections::BTreeSet<_> =
            (10..30).map(|n| delay(&RUN, "x", n)).collect();
        assert!(at_the_cap.len() > 10);
    }

    #[test]
    fn a_maximum_below_the_initial_delay_wins() {
        let policy = Policy { max: Duration::from_secs(1), ..EXACT };
        assert_eq!(delay(&policy, "x", 1), Duration::from_secs(1));
    }

    #[test]
    fn full_jitter_stays_between_zero_and_the_delay() {
        let policy = Policy { jitter_percent: 255, ..RUN };
        for key in 0..200 {
            assert!(delay(&policy, &key.to_string(), 1) <= RUN.initial);
        }
    }

    #[test]
    fn success_resets_an_object_and_others_keep_theirs() {
        let backoff = ObjectBackoff::new(EXACT);
        assert_eq!(backoff.failed("a").as_secs(), 30);
        assert_eq!(backoff.failed("a").as_secs(), 60);
        assert_eq!(backoff.failed("b").as_secs(), 30);
        backoff.succeeded("a");
        assert_eq!(backoff.len(), 1);
        assert_eq!(backoff.failed("a").as_secs(), 30);
        assert_eq!(backoff.failed("b").as_secs(), 60);
    }

    #[test]
    fn the_object_that_failed_longest_ago_is_evicted() {
        let backoff = ObjectBackoff::with_capacity(EXACT, 2);
        backoff.failed("a");
        backoff.failed("b");
        backoff.failed("a");
        backoff.failed("c"); // evicts b, whose failure is the oldest
        assert_eq!(backoff.len(), 2);
        assert_eq!(backoff.failed("a").as_secs(), 120, "a was kept");
        assert_eq!(backoff.failed("b").as_secs(), 30, "b starts anew");
        assert_eq!(backoff.len(), 2);
    }

    #[test]
    fn a_capacity_of_zero_remembers_nothing_and_still_delays() {
        let backoff = ObjectBackoff::with_capacity(EXACT, 0);
        assert_eq!(backoff.failed("a").as_secs(), 30);
        assert_eq!(backoff.failed("a").as_secs(), 30);
        assert!(backoff.is_empty());
    }
}
