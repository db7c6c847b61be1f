mod peace;
mod trouble;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::{
    cluster::{
        Clients, ObjectKey,
        fake::{FakeApi, Fault, Logged},
    },
    task::Process,
};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/ops/leases";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/punctual";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An API server and the true time, which every replica's clocks follow.
struct Lab {
    fake: FakeApi,
    lease_clock: LeaseClock,
    wall_clock: WallClock,
    ticker: JoinHandle<()>,
    replicas: AtomicU64,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.ticker.abort();
    }
}

impl Lab {
    fn new() -> Self {
        let fake = FakeApi::new();
        fake.set_latency(ms(3));
        let lease_clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        let wall_clock = WallClock::driven(start);
        fake.show_date(&wall_clock);
        let (lease, wall) = (lease_clock.clone(), wall_clock.clone());
        let ticker = tokio::spawn(async move {
            let tick = ms(10);
            for ticks in 1.. {
                sleep(tick).await;
                let passed = tick * ticks;
                lease.set(LeaseInstant::from_nanos(0).after(passed));
                wall.set(start + passed);
            }
        });
        Self { fake, lease_clock, wall_clock, ticker, replicas: AtomicU64::new(0) }
    }

    /// A replica that may campaign.
    fn start(&self, duration: u64) -> Replica {
        let number = self.replicas.fetch_add(1, Ordering::Relaxed);
        let config = LeaseConfig::new(secs(duration), 0).unwrap();
        let key = ObjectKey::new("ops", "punctual");
        let gate = Gate::new(self.lease_clock.clone());
        let clocks =
            ClockGuard::new(self.lease_clock.clone(), self.wall_clock.clone(), secs(5), |_, _| {});
        let (elector, handle) = Elector::new(Setup {
            lease: Clients::single(self.fake.client()).lease(key, config.attempt_timeout()),
            config,
            pod: format!("pod-{number}"),
            gate: gate.clone(),
            lease_clock: self.lease_clock.clone(),
            wall_clock: self.wall_clock.clone(),
            clocks: clocks.clone(),
            entropy: Entropy::seeded(number),
        });
        handle.set_campaign(true);
        let process = Process::new();
        let drained = Arc::new(AtomicBool::new(false));
        let (drain_done, seen_gate) = (Arc::clone(&drained), gate.clone());
        let drain = move || async move {
            assert!(seen_gate.is_lost(), "the gate is closed before the drain");
            sleep(ms(20)).await;
            drain_done.store(true, Ordering::Relaxed);
        };
        let task = tokio::spawn(process.contain(elector.run(drain)));
        Replica { handle, gate, clocks, process, drained, task }
    }

    fn stored(&self) -> Value {
        self.fake.stored(LEASE).unwrap()
    }

    fn holder(&self) -> String {
        self.stored()["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    /// PUTs of the Lease, by whether they began a term.
    fn puts(&self, acquiring: bool) -> Vec<Logged> {
        let log = self.fake.log().into_iter().filter(|entry| entry.method == Method::PUT);
        log.filter(|entry| {
            let attempt = &entry.body["metadata"]["annotations"]["punctual.dev/attempt"];
            (*attempt == json!("0")) == acquiring && entry.body["spec"]["holderIdentity"] != ""
        })
        .collect()
    }

    fn held_by_a_ghost(&self) {
        self.fake.put(
            LEASES,
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "punctual", "annotations": {
                    "punctual.dev/epoch": "3", "punctual.dev/nonce": "ghost",
                }},
                "spec": {"holderIdentity": "ghost/ghost", "leaseDurationSeconds": 3},
            }),
        );
    }
}

struct Replica {
    handle: ElectorHandle,
    gate: Gate,
    clocks: ClockGuard,
    process: Process,
    drained: Arc<AtomicBool>,
    task: JoinHandle<LostReason>,
}

impl Replica {
    fn term(&self) -> Option<Term> {
        self.gate.permit().ok().map(|permit| permit.term().clone())
    }

    async fn leads(&self) -> (Term, Gained, Option<String>) {
        let mut news = self.handle.leadership();
        let leading =
            news.wait_for(|news| matches!(news, Leadership::Leading { .. })).await.unwrap().clone();
        match leading {
            Leadership::Leading { term, gained, former_holder } => (term, gained, former_holder),
            other => panic!("{other:?}"),
        }
    }

    async fn lost(self) -> LostReason {
        let reason = self.task.await.unwrap();
        let news = self.handle.leadership().borrow().clone();
        assert_eq!(news, Leadership::Lost { reason: reason.clone() });
        assert!(self.gate.is_lost());
        reason
    }
}
