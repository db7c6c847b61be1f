//! Liveness and readiness of the process, and the small HTTP server that answers for them.
//!
//! * `/livez`: the process answers and its loops ticked recently. It never fails because a CRD is
//!   missing or the API server is away: a restart repairs neither.
//! * `/readyz`: the fence is enforced and the caches are filled. Otherwise 503 and what is missing,
//!   a line each. Followers are ready: they can take over.
//! * `/metrics`: [`super::metrics`].

mod server;

pub use server::{HealthError, bind, serve};

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::Metrics;
use crate::{
    api::{MAX_MESSAGE_CHARS, truncate},
    time::{LeaseClock, LeaseInstant},
};

/// What readiness waits for until the process has said what else it waits for.
const PROCESS: &str = "process";

/// What the process knows about its own health. Clones share it.
#[derive(Clone, Debug)]
pub struct Health {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: LeaseClock,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
}

/// Keys are program text, so both maps are bounded by it.
#[derive(Debug, Default)]
struct State {
    /// What readiness waits for, with a sentence for people.
    missing: BTreeMap<&'static str, String>,
    loops: BTreeMap<&'static str, Loop>,
}

#[derive(Debug)]
struct Loop {
    max_silence: Duration,
    last_tick: LeaseInstant,
}

/// A loop that must go on: it says so by [`Heartbeat::tick`].
///
/// Dropping it changes nothing: a loop that died of a panic must become visible. A loop that ends
/// as intended says [`Heartbeat::end`].
#[derive(Debug)]
pub struct Heartbeat {
    health: Health,
    name: &'static str,
}

impl Heartbeat {
    /// The loop is alive.
    pub fn tick(&self) {
        let now = self.health.shared.clock.now();
        if let Some(entry) = self.health.lock().loops.get_mut(self.name) {
            entry.last_tick = now;
        }
    }

    /// The loop ended as intended; nothing is expected of it any more.
    pub fn end(self) {
        self.health.lock().loops.remove(self.name);
    }
}

impl Health {
    /// Alive, and not ready before [`Health::started`]: nobody may ask too early and be told that
    /// nothing is missing.
    pub fn new(clock: LeaseClock, metrics: Arc<Metrics>) -> Self {
        let health = Self { shared: Arc::new(Shared { clock, metrics, state: Mutex::default() }) };
        health.missing(PROCESS, "the process is starting");
        health
    }

    /// Everything that readiness waits for has been reported missing, or is there.
    pub fn started(&self) {
        self.present(PROCESS);
    }

    /// Readiness waits for `what`; the sentence says what to do about it.
    pub fn missing(&self, what: &'static str, sentence: &str) {
        self.lock().missing.insert(what, truncate(sentence, MAX_MESSAGE_CHARS));
    }

    /// Readiness no longer waits for `what`.
    pub fn present(&self, what: &'static str) {
        self.lock().missing.remove(what);
    }

    /// Expects the loop `name` to tick at least every `max_silence` from now on. A second loop of
    /// the same name replaces the first.
    pub fn expect_loop(&self, name: &'static str, max_silence: Duration) -> Heartbeat {
        let last_tick = self.shared.clock.now();
        self.lock().loops.insert(name, Loop { max_silence, last_tick });
        Heartbeat { health: self.clone(), name }
    }

    /// What keeps the process from being ready, a line each; empty if it is.
    pub fn why_not_ready(&self) -> Vec<String> {
        self.lock().missing.iter().map(|(what, why)| format!("{what}: {why}")).collect()
    }

    /// What keeps the process from being alive, a line each; empty if it is.
    pub fn why_not_alive(&self) -> Vec<String> {
        let now = self.shared.clock.now();
        let silent = |(name, entry): (&&str, &Loop)| {
            let silence = now.since(entry.last_tick);
            (silence > entry.max_silence).then(|| {
                let allowed = entry.max_silence.as_secs_f64();
                format!("{name}: silent for {:.1} s, at most {allowed:.1} s", silence.as_secs_f64())
            })
        };
        self.lock().loops.iter().filter_map(silent).collect()
    }

    /// The process's metrics.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock still holds whole maps: every change is one insert or remove.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> (Health, LeaseClock) {
        let clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let health = Health::new(clock.clone(), Arc::new(Metrics::new()));
        assert_eq!(health.why_not_ready(), ["process: the process is starting"]);
        health.started();
        (health, clock)
    }

    fn at(seconds: u64) -> LeaseInstant {
        LeaseInstant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn readiness_lists_what_is_missing_until_it_is_there() {
        let (health, _clock) = health();
        assert!(health.why_not_ready().is_empty());
        health.missing("fence", "the CRD has no rule");
        health.missing("caches", "first list of MaintenanceSchedule");
        assert_eq!(
            health.why_not_ready(),
            ["caches: first list of MaintenanceSchedule", "fence: the CRD has no rule"]
        );
        health.present("fence");
        health.missing("caches", "first list of Job");
        assert_eq!(health.why_not_ready(), ["caches: first list of Job"]);
        assert!(health.why_not_alive().is_empty(), "missing things do not end the process");
    }

    #[test]
    fn a_silent_loop_fails_liveness_until_it_ticks_again() {
        let (health, clock) = health();
        let beat = health.expect_loop("elector", Duration::from_secs(10));
        clock.set(at(10));
        assert!(health.why_not_alive().is_empty(), "the bound itself is allowed");
        clock.set(at(11));
        assert_eq!(health.why_not_alive(), ["elector: silent for 11.0 s, at most 10.0 s"]);
        beat.tick();
        assert!(health.why_not_alive().is_empty());
    }

    #[test]
    fn a_loop_that_died_stays_expected_and_one_that_ended_does_not() {
        let (health, clock) = health();
        drop(health.expect_loop("died", Duration::from_secs(1)));
        health.expect_loop("ended", Duration::from_secs(1)).end();
        clock.set(at(5));
        let why = health.why_not_alive();
        assert_eq!(why.len(), 1);
        assert!(why[0].starts_with("died:"), "{why:?}");
    }

    #[test]
    fn sentences_are_bounded() {
        let (health, _clock) = health();
        health.missing("fence", &"x".repeat(100_000));
        assert!(health.why_not_ready()[0].chars().count() < MAX_MESSAGE_CHARS + 20);
    }
}
