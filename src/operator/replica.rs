//! The life of one replica: check the fence, take part in the election, work while leading, hand over.
//!
//! A library function, so that many replicas with clocks of their own can live in one process.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet, time::sleep};

use super::Config;
use crate::{
    authority::{
        ClockGuard, Elector, ElectorHandle, Entropy, Gate, Leadership, LeaseConfig,
        LeaseConfigError, LostReason, Quarantine, Setup, Watchdog,
    },
    cluster::{Clients, EventSender, FencedWriter, ObjectKey, Verb, WriteObserver, check_fence},
    maintenance::controller::{self, Controller, MayCreate},
    providers::simulated::SimulatedService,
    retry,
    telemetry::{EventQueue, Health, Metrics, Note, NoteKind, ObjectRef},
    time::{LeaseClock, WallClock},
};

/// How often the replica looks at itself: the heartbeat of the runtime, and the wall clock.
const PULSE: Duration = Duration::from_secs(1);
/// Longest silence of the pulse before the process counts as stuck. Far above what a busy machine
/// delays, far below what a person would wait.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// The wall clock was set if it moved by this much against the lease clock within a pulse; sleepers
/// then wake at wrong moments, so everything is looked at again.
const CLOCK_STEP: Duration = Duration::from_millis(100);
/// Time for the last events when the process ends.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// What readiness waits for: the rules on the API server.
const FENCE: &str = "FenceNotEnforced";
/// What readiness waits for: the first lists of a new leader.
const CACHES: &str = "caches";

/// What a replica is given by whoever starts it.
pub struct Parts {
    /// Connections to the API server.
    pub clients: Clients,
    /// The clock of lease decisions.
    pub lease_clock: LeaseClock,
    /// The clock of schedule decisions.
    pub wall_clock: WallClock,
    /// Source of nonces.
    pub entropy: Entropy,
    /// Where missing things and heartbeats are reported.
    pub health: Health,
    /// Simulated runs, if allowed.
    pub simulated: Option<Arc<dyn SimulatedService>>,
    /// Ends the process at once when its validity ran out unnoticed; `None` where a thread makes no
    /// sense (many replicas in one process).
    pub watchdog_exit: Option<Box<dyn FnOnce() + Send>>,
}

/// Why a replica could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The times of the Lease do not work.
    #[error("the times of the Lease do not work")]
    Lease(#[from] LeaseConfigError),
    /// The operating system gave no thread for the watchdog.
    #[error("cannot start the watchdog")]
    Watchdog(#[source] std::io::Error),
}

/// Lives until leadership is lost or `stop` is ready. Says why it ended; after any reason but
/// [`LostReason::Shutdown`] the process should end with an error and start anew.
pub async fn run(
    config: Config,
    parts: Parts,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<LostReason, StartError> {
    let duration = Duration::from_secs(u64::from(config.lease_seconds));
    let lease_config = LeaseConfig::new(duration, config.epoch_offset)?;
    let metrics = Arc::clone(parts.health.metrics());
    let gate = Gate::new(parts.lease_clock.clone());
    let clocks = {
        let metrics = Arc::clone(&metrics);
        ClockGuard::new(
            parts.lease_clock.clone(),
            parts.wall_clock.clone(),
            config.max_clock_skew,
            move |seconds, ok| metrics.clock_compared(seconds, ok),
        )
    };
    let lease_key = ObjectKey::new(&config.lease_namespace, &config.lease_name);
    let lease = parts.clients.lease(lease_key, lease_config.attempt_timeout());
    let (elector, handle) = Elector::new(Setup {
        lease: lease.clone(),
        config: lease_config,
        pod: config.replica.clone(),
        gate: gate.clone(),
        lease_clock: parts.lease_clock.clone(),
        wall_clock: parts.wall_clock.clone(),
        clocks: clocks.clone(),
        entropy: parts.entropy.clone(),
    });
    let _watchdog = match parts.watchdog_exit {
        Some(exit) => Some(
            Watchdog::start(gate.clone(), parts.lease_clock.clone(), exit)
                .map_err(StartError::Watchdog)?,
        ),
        None => None,
    };
    let events = EventQueue::new(Arc::clone(&metrics));
    let writer = Arc::new(parts.clients.writer(Counting(Arc::clone(&metrics))));
    let replica = Replica {
        quarantine: Arc::new(Quarantine::new(lease, handle.clone(), config.epoch_offset)),
        config,
        clients: parts.clients,
        writer,
        gate,
        clocks,
        lease_clock: parts.lease_clock,
        wall_clock: parts.wall_clock,
        events,
        metrics,
        health: parts.health,
        simulated: parts.simulated,
        handle,
    };
    Ok(replica.live(elector, stop).await)
}

/// A started replica.
struct Replica {
    config: Config,
    clients: Clients,
    writer: Arc<FencedWriter>,
    gate: Gate,
    clocks: ClockGuard,
    quarantine: Arc<Quarantine>,
    lease_clock: LeaseClock,
    wall_clock: WallClock,
    events: EventQueue,
    metrics: Arc<Metrics>,
    health: Health,
    simulated: Option<Arc<dyn SimulatedService>>,
    handle: ElectorHandle,
}

impl Replica {
    async fn live(
        self,
        elector: Elector,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> LostReason {
        let this = Arc::new(self);
        let mut sender = EventSender::new(
            &this.clients,
            &this.config.replica,
            this.events.clone(),
            Arc::clone(&this.metrics),
        );
        // Everything here ends when the set is dropped.
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&this).campaign_once_fenced());
        tasks.spawn(Arc::clone(&this).report_leadership());
        let (controllers, working) = watch::channel(None);
        tasks.spawn(Arc::clone(&this).pulse(working));
        tasks.spawn({
            let handle = this.handle.clone();
            async move {
                stop.await;
                tracing::info!("asked to stop; handing over");
                handle.shutdown();
            }
        });
        let work = tokio::spawn(Arc::clone(&this).work_while_leading(controllers));
        let drain = || async {
            // Ends once leadership is over and the passes under way have ended. A panic in there has
            // been logged; there is nothing left to wait for.
            let _ = work.await;
        };
        let send = sender.run(PULSE, || {});
        let reason = tokio::select! {
            reason = elector.run(drain) => reason,
            () = send => LostReason::Shutdown,
        };
        // What happened last is worth telling; nothing waits long for it.
        let _ = tokio::time::timeout(LAST_EVENTS, sender.flush()).await;
        reason
    }

    /// No fence, no campaign: asks until the API server is known to enforce the rules.
    async fn campaign_once_fenced(self: Arc<Self>) {
        self.health.missing(FENCE, "the API server's validation rules have not been checked yet");
        let namespace = match self.config.watch_namespaces.first() {
            Some(watched) => watched.clone(),
            None => self.config.lease_namespace.clone(),
        };
        let mut attempt = 0;
        loop {
            let check = check_fence(&self.clients.reader(), &self.writer, &namespace).await;
            self.metrics.fence_enforced(check.passed());
            if check.passed() {
                self.health.present(FENCE);
                self.handle.set_campaign(true);
                return;
            }
            let sentence = check.to_string();
            self.health.missing(FENCE, &sentence);
            if attempt == 0 {
                tracing::warn!(reason = FENCE, "{sentence}");
                self.note(FENCE, sentence);
            }
            attempt += 1;
            sleep(retry::delay(&retry::STARTUP, &self.config.replica, attempt)).await;
        }
    }

    /// An event about this process, on its Lease.
    fn note(&self, reason: &'static str, message: String) {
        self.events.publish(Note {
            object: ObjectRef {
                api_version: "coordination.k8s.io/v1".to_owned(),
                kind: "Lease".to_owned(),
                namespace: self.config.lease_namespace.clone(),
                name: self.config.lease_name.clone(),
                uid: String::new(),
            },
            kind: NoteKind::Warning,
            reason: reason.into(),
            action: "Campaign".into(),
            message,
        });
    }

    async fn report_leadership(self: Arc<Self>) {
        let mut news = self.handle.leadership();
        loop {
            let now = news.borrow_and_update().clone();
            match now {
                Leadership::Leading { term, gained, former_holder } => {
                    self.metrics.leading(Some(term.epoch));
                    tracing::info!(epoch = term.epoch, ?gained, former_holder, "leading");
                }
                Leadership::Follower { holder } => {
                    self.metrics.leading(None);
                    tracing::info!(holder, "standing by");
                }
                Leadership::Lost { .. } => self.metrics.leading(None),
            }
            if news.changed().await.is_err() {
                return;
            }
        }
    }

    /// Starts the controllers when leadership begins, stops them when it ends, and returns then.
    async fn work_while_leading(self: Arc<Self>, controllers: watch::Sender<Option<Controller>>) {
        let mut news = self.handle.leadership();
        let begun = news
            .wait_for(|now| !matches!(now, Leadership::Follower { .. }))
            .await
            .is_ok_and(|now| matches!(*now, Leadership::Leading { .. }));
        if !begun {
            return;
        }
        self.health.missing(CACHES, "the first lists of this term are not complete");
        let may_create: MayCreate = {
            let clocks = self.clocks.clone();
            Arc::new(move || clocks.may_create().map_err(|skew| skew.to_string()))
        };
        let setup = controller::Setup {
            clients: self.clients.clone(),
            writer: Arc::clone(&self.writer),
            gate: self.gate.clone(),
            quarantine: Arc::clone(&self.quarantine),
            wall: self.wall_clock.clone(),
            lease_clock: self.lease_clock.clone(),
            may_create,
            simulated: self.simulated.clone(),
            events: self.events.clone(),
            metrics: Arc::clone(&self.metrics),
            namespaces: self.config.watch_namespaces.clone(),
            orphan_retention: self.config.orphan_retention,
            concurrency: self.config.concurrency,
        };
        let health = self.health.clone();
        let ready = move |working: &Controller| {
            health.present(CACHES);
            controllers.send_replace(Some(working.clone()));
        };
        let over = async move {
            // An error means that the elector is gone, which is the same news.
            let _ = news.wait_for(|now| matches!(now, Leadership::Lost { .. })).await;
        };
        controller::run(setup, ready, over).await;
        self.health.present(CACHES);
    }

    /// Ticks, and looks at everything again when the wall clock was set.
    async fn pulse(self: Arc<Self>, working: watch::Receiver<Option<Controller>>) {
        let beat = self.health.expect_loop("pulse", MAX_SILENCE);
        let mut lease = self.lease_clock.now();
        let mut wall = self.wall_clock.now();
        loop {
            sleep(PULSE).await;
            beat.tick();
            let (lease_now, wall_now) = (self.lease_clock.now(), self.wall_clock.now());
            let by_lease = jiff::SignedDuration::try_from(lease_now.since(lease));
            let moved = wall_now.duration_since(wall) - by_lease.unwrap_or_default();
            (lease, wall) = (lease_now, wall_now);
            if moved.unsigned_abs() >= CLOCK_STEP {
                tracing::warn!(?moved, "the wall clock was set; everything is looked at again");
                if let Some(controller) = working.borrow().as_ref() {
                    controller.look_at_everything();
                }
            }
        }
    }
}

/// Counts every write in the metrics.
struct Counting(Arc<Metrics>);

impl WriteObserver for Counting {
    fn wrote(&self, verb: Verb, kind: &'static str, result: &'static str) {
        self.0.action(verb.as_str(), kind, result);
        if result == "fence_refused" {
            self.0.fenced_write_rejected();
        }
    }
}
