//! The clock boundary: two clocks, two types, no third.
//!
//! * [`LeaseClock`] is the only time source that lease decisions accept. It counts suspended time
//!   too, so a machine that slept knows that its lease is old.
//! * [`WallClock`] is the only one that schedule decisions accept.
//!
//! Nothing else in the crate calls a clock; `tests/boundaries.rs` enforces it. Both can be driven
//! by tests and by the simulation.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;

/// A reading of the [`LeaseClock`]: nanoseconds since an arbitrary origin of this process's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseInstant(u64);

impl LeaseInstant {
    /// A reading, for tests and drivers of a simulated clock.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The reading `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Monotonic time that goes on while the machine sleeps (`CLOCK_BOOTTIME`).
#[derive(Clone, Debug, Default)]
pub struct LeaseClock(Source<LeaseInstant>);

/// UTC wall time.
#[derive(Clone, Debug, Default)]
pub struct WallClock(Source<Timestamp>);

/// Where readings come from.
#[derive(Clone, Debug, Default)]
enum Source<T> {
    /// The operating system.
    #[default]
    System,
    /// A value that a test sets.
    Driven(Arc<Mutex<T>>),
    /// A function of the simulation's virtual time.
    Computed(Computed<T>),
}

#[derive(Clone)]
struct Computed<T>(Arc<dyn Fn() -> T + Send + Sync>);

impl<T> fmt::Debug for Computed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Computed")
    }
}

impl LeaseClock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `start` until [`LeaseClock::set`] moves it.
    pub fn driven(start: LeaseInstant) -> Self {
        Self(Source::Driven(Arc::new(Mutex::new(start))))
    }

    /// A clock that shows what `reading` gives; it must never go back.
    pub fn computed(reading: impl Fn() -> LeaseInstant + Send + Sync + 'static) -> Self {
        Self(Source::Computed(Computed(Arc::new(reading))))
    }

    /// Moves a driven clock; does nothing to another.
    pub fn set(&self, to: LeaseInstant) {
        self.0.set(to);
    }

    /// The present reading.
    pub fn now(&self) -> LeaseInstant {
        self.0.read(|| {
            let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            let secs = u64::try_from(t.tv_sec).unwrap_or(0);
            let nanos = u64::try_from(t.tv_nsec).unwrap_or(0);
            LeaseInstant(secs.saturating_mul(1_000_000_000).saturating_add(nanos))
        })
    }
}

impl WallClock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `start` until [`WallClock::set`] moves it.
    pub fn driven(start: Timestamp) -> Self {
        Self(Source::Driven(Arc::new(Mutex::new(start))))
    }

    /// A clock that shows what `reading` gives.
    pub fn computed(reading: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Computed(Computed(Arc::new(reading))))
    }

    /// Moves a driven clock; does nothing to another.
    pub fn set(&self, to: Timestamp) {
        self.0.set(to);
    }

    /// The present reading.
    pub fn now(&self) -> Timestamp {
        self.0.read(Timestamp::now)
    }
}

impl<T: Copy> Source<T> {
    fn read(&self, system: impl FnOnce() -> T) -> T {
        match self {
            Self::System => system(),
            // A poisoned lock still holds a whole value: readings are `Copy`.
            Self::Driven(value) => *value.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
            Self::Computed(Computed(reading)) => reading(),
        }
    }

    fn set(&self, to: T) {
        if let Self::Driven(value) = self {
            *value.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driven_clock_stands_still_until_set() {
        let clock = LeaseClock::driven(LeaseInstant::from_nanos(5));
        assert_eq!(clock.now(), LeaseInstant::from_nanos(5));
        clock.clone().set(LeaseInstant::from_nanos(9));
        assert_eq!(clock.now().since(LeaseInstant::from_nanos(5)), Duration::from_nanos(4));
    }

    #[test]
    fn a_computed_clock_shows_what_it_is_told() {
        let time = Arc::new(Mutex::new(5));
        let shown = Arc::clone(&time);
        let clock = LeaseClock::computed(move || LeaseInstant::from_nanos(*shown.lock().unwrap()));
        assert_eq!(clock.now(), LeaseInstant::from_nanos(5));
        *time.lock().unwrap() = 7;
        clock.set(LeaseInstant::from_nanos(1));
        assert_eq!(clock.clone().now(), LeaseInstant::from_nanos(7), "nobody sets it");
    }

    #[test]
    fn the_machine_clock_never_goes_back() {
        let clock = LeaseClock::system();
        let first = clock.now();
        assert!(clock.now() >= first);
    }
}
