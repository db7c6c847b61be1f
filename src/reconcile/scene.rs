//! What a controller needs in a test of single passes: a small API server under the means of a
//! leader.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Method;

use super::{Deps, Means, RunCaches, RunListener};
use crate::{
    authority::{
        ClockGuard, Elector, Entropy, Gate, LeaseConfig, Quarantine, Setup as Election, Term,
        config::DEFAULT_DURATION,
    },
    cluster::{
        Clients, NoObserver, ObjectKey,
        fake::{FakeApi, Logged},
    },
    providers::{Providers, job::JobProvider, simulated::SimulatedService},
    recovery::Recovery,
    telemetry::{EventQueue, Metrics},
    time::{LeaseClock, LeaseInstant, WallClock},
};

/// The leader in term 50 at five seconds past 02:00 of 2026-11-29.
pub(crate) struct Leader {
    /// The API server.
    pub(crate) fake: FakeApi,
    /// What its controllers work with.
    pub(crate) deps: Arc<Deps>,
    /// Whether its wall clock is trusted.
    pub(crate) trusts_clock: Arc<AtomicBool>,
}

impl Leader {
    /// With the runs that `wire` gives a listener for, and what else it made of events and metrics.
    pub(crate) fn new<W>(
        simulated: Option<Arc<dyn SimulatedService>>,
        wire: impl FnOnce(&EventQueue, &Arc<Metrics>) -> (W, Arc<dyn RunListener>),
    ) -> (Self, W) {
        let fake = FakeApi::new();
        let lease_clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let wall = WallClock::driven("2026-11-29T02:00:05Z".parse().unwrap());
        let gate = Gate::new(lease_clock.clone());
        gate.open(&Term { epoch: 50, nonce: "mine".into() }, LeaseInstant::from_nanos(1));
        let clients = Clients::single(fake.client());
        let lease = clients.lease(ObjectKey::new("ops", "punctual"), Duration::from_secs(1));
        let skew = Duration::from_secs(5);
        let clocks = ClockGuard::new(lease_clock.clone(), wall.clone(), skew, |_, _| {});
        let (_, elector) = Elector::new(Election {
            lease: lease.clone(),
            config: LeaseConfig::new(DEFAULT_DURATION, 0).unwrap(),
            pod: "pod".into(),
            gate: gate.clone(),
            lease_clock: lease_clock.clone(),
            wall_clock: wall.clone(),
            clocks,
            entropy: Entropy::seeded(1),
        });
        let trusts_clock = Arc::new(AtomicBool::new(true));
        let metrics = Arc::new(Metrics::new());
        let events = EventQueue::new(Arc::clone(&metrics));
        let (wired, listener) = wire(&events, &metrics);
        let writer = Arc::new(clients.writer(NoObserver));
        let (jobs, sightings) = RunCaches::new(&events, &metrics, &[listener]).seen();
        let job =
            JobProvider::new(clients.reader(), Arc::clone(&writer), jobs, sightings, lease_clock);
        let deps = Arc::new(Deps::new(Means {
            gate,
            quarantine: Arc::new(Quarantine::new(lease, elector, 0)),
            reader: clients.reader(),
            writer,
            wall,
            providers: Providers::new(job, simulated, None),
            may_create: {
                let trusts = Arc::clone(&trusts_clock);
                let skew = || "the clocks differ".to_owned();
                Arc::new(move || trusts.load(Ordering::Relaxed).then_some(()).ok_or_else(skew))
            },
            recovery: Recovery::new(Arc::clone(&metrics)),
            events,
            metrics,
            orphan_retention: Duration::from_secs(3600),
            concurrency: 1,
        }));
        (Self { fake, deps, trusts_clock }, wired)
    }

    /// The writes that arrived, without dry runs.
    pub(crate) fn writes(&self) -> Vec<Logged> {
        let log = self.fake.log().into_iter();
        log.filter(|entry| entry.method != Method::GET && !entry.query.contains("dryRun")).collect()
    }
}
