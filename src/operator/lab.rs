//! What the tests of whole replicas share: the true time, a replica on it, and waiting.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

use super::*;
use crate::{
    authority::Entropy,
    cluster::Clients,
    providers::{
        http::Transport,
        simulated::{InProcess, SimulatedService},
    },
    telemetry::{Health, Metrics},
    time::{LeaseClock, LeaseInstant, WallClock},
};

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The true time, which every replica's clocks follow until it is dropped.
pub(super) struct Clocks {
    pub(super) lease: LeaseClock,
    pub(super) wall: WallClock,
    ticker: JoinHandle<()>,
}

impl Clocks {
    pub(super) fn start() -> Self {
        let lease = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let start = "2026-11-29T01:58:30Z".parse().unwrap();
        let wall = WallClock::driven(start);
        let (lease_set, wall_set) = (lease.clone(), wall.clone());
        let ticker = tokio::spawn(async move {
            let tick = Duration::from_millis(10);
            for ticks in 1.. {
                sleep(tick).await;
                lease_set.set(LeaseInstant::from_nanos(0).after(tick * ticks));
                wall_set.set(start + tick * ticks);
            }
        });
        Self { lease, wall, ticker }
    }

    /// A provider of simulated runs.
    pub(super) fn provider(&self, name: &str) -> Arc<dyn SimulatedService> {
        Arc::new(InProcess::new(name.to_owned(), self.lease.clone(), self.wall.clone()))
    }

    /// A replica.
    pub(super) fn replica(
        &self,
        name: &str,
        clients: Clients,
        simulated: Arc<dyn SimulatedService>,
    ) -> Running {
        self.replica_with(name, clients, simulated, None)
    }

    /// A replica that asks execution services in this way.
    pub(super) fn replica_with(
        &self,
        name: &str,
        clients: Clients,
        simulated: Arc<dyn SimulatedService>,
        http: Option<Arc<dyn Transport>>,
    ) -> Running {
        let config = Config {
            replica: name.to_owned(),
            pod_uid: None,
            lease_namespace: "ops".into(),
            lease_name: "punctual".into(),
            lease_seconds: 3,
            watch_namespaces: vec![],
            health_address: None,
            allow_simulated: true,
            allow_local_providers: false,
            max_clock_skew: secs(5),
            epoch_offset: 0,
            orphan_retention: secs(24 * 3600),
            concurrency: 4,
        };
        let metrics = Arc::new(Metrics::new());
        let health = Health::new(self.lease.clone(), Arc::clone(&metrics));
        let parts = Parts {
            clients,
            lease_clock: self.lease.clone(),
            wall_clock: self.wall.clone(),
            entropy: Entropy::seeded(name.bytes().map(u64::from).sum()),
            health: health.clone(),
            simulated: Some(simulated),
            http,
            watchdog_exit: None,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stop = async move {
                let _ = stopped.await;
            };
            run(config, parts, stop).await.unwrap()
        });
        Running { health, metrics, stop: Some(stop), task }
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        self.ticker.abort();
    }
}

/// A replica that runs; one that is dropped stops.
pub(super) struct Running {
    pub(super) health: Health,
    pub(super) metrics: Arc<Metrics>,
    stop: Option<oneshot::Sender<()>>,
    pub(super) task: JoinHandle<Exit>,
}

impl Running {
    pub(super) fn ask_to_stop(&mut self) {
        drop(self.stop.take());
    }

    pub(super) fn shows(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|shown| shown == line)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.health.why_not_ready().is_empty()
    }
}

/// The name of the replica that holds the Lease.
pub(super) fn holder_of(lease: &Value) -> Option<String> {
    let holder = lease["spec"]["holderIdentity"].as_str()?;
    Some(holder.split('/').next()?.to_owned()).filter(|name| !name.is_empty())
}

pub(super) async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("not within ten minutes: {what}");
}
