//! The life of one replica: check the fence, take part in the election, work while leading, hand over.
//!
//! A library function, so that many replicas with clocks of their own can live in one process.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::sleep};

use super::{
    Config,
    campaign::{Campaign, watch_clocks},
    notes::ProcessNotes,
    work::{self, Controllers},
};
use crate::{
    authority::{
        ClockGuard, Elector, ElectorHandle, Entropy, Gate, Leadership, LeaseConfig,
        LeaseConfigError, LostReason, Quarantine, Setup, Watchdog, lease::holder,
    },
    cluster::{Clients, EventSender, FencedWriter, ObjectKey, Verb, WriteObserver},
    providers::{http::Transport, simulated::SimulatedService},
    reconcile::MayCreate,
    recovery::Beginning,
    task,
    telemetry::{EventQueue, Health, Metrics},
    time::{LeaseClock, WallClock},
    watch,
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
    /// How execution services outside the cluster are asked; `None` in a rehearsal.
    pub http: Option<Arc<dyn Transport>>,
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

/// How a replica ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was asked to stop and handed over.
    Stopped,
    /// Leadership was lost; the process should end with an error and start anew.
    Lost(LostReason),
    /// The controllers ended by themselves while it led, which is a defect: it handed over, and the
    /// process should end with an error and start anew.
    ControllersEnded,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped as asked"),
            Self::Lost(reason) => write!(f, "leadership was lost: {reason}"),
            Self::ControllersEnded => {
                f.write_str("the controllers ended by themselves, which is a defect")
            }
        }
    }
}

/// Lives until leadership is lost or `stop` is ready, and says which. Dropping the future is what
/// SIGKILL is to a process: everything of the replica ends at once and nothing is given back.
pub async fn run(
    config: Config,
    parts: Parts,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<Exit, StartError> {
    let duration = Duration::from_secs(u64::from(config.lease_seconds));
    let lease_config = LeaseConfig::new(duration, config.epoch_offset)?;
    let metrics = Arc::clone(parts.health.metrics());
    let gate = Gate::new(parts.lease_clock.clone());
    let events = EventQueue::new(Arc::clone(&metrics));
    let notes = ProcessNotes::new(&config, events.clone());
    let clocks = ClockGuard::new(
        parts.lease_clock.clone(),
        parts.wall_clock.clone(),
        config.max_clock_skew,
        watch_clocks(Arc::clone(&metrics), notes.clone()),
    );
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
        notes,
        metrics,
        health: parts.health,
        simulated: parts.simulated,
        http: parts.http,
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
    notes: ProcessNotes,
    metrics: Arc<Metrics>,
    health: Health,
    simulated: Option<Arc<dyn SimulatedService>>,
    http: Option<Arc<dyn Transport>>,
    handle: ElectorHandle,
}

impl Replica {
    async fn live(self, elector: Elector, stop: impl Future<Output = ()> + Send + 'static) -> Exit {
        let this = Arc::new(self);
        let mut sender = EventSender::new(
            &this.clients,
            &this.config.replica,
            this.wall_clock.clone(),
            this.events.clone(),
            Arc::clone(&this.metrics),
        );
        // Everything in the two sets ends when they are dropped.
        let mut tasks = JoinSet::new();
        let campaign = this.campaign();
        campaign.begin();
        this.health.started();
        task::spawn_in(&mut tasks, campaign.run());
        task::spawn_in(&mut tasks, Arc::clone(&this).report_leadership());
        let (controllers, working) = watch::channel(None);
        task::spawn_in(&mut tasks, Arc::clone(&this).pulse(working));
        task::spawn_in(&mut tasks, {
            let handle = this.handle.clone();
            async move {
                stop.await;
                tracing::info!("asked to stop; handing over");
                handle.shutdown();
            }
        });
        let mut work = JoinSet::new();
        let (ended, ended_early) = watch::channel(false);
        task::spawn_in(
            &mut work,
            Arc::clone(&this).work_while_leading(controllers, Ended(Some(ended))),
        );
        task::spawn_in(
            &mut tasks,
            Arc::clone(&this).hand_over_without_controllers(ended_early.clone()),
        );
        let drain = async move || {
            // Ends once leadership is over and the passes under way have ended. A panic in there has
            // been logged; there is nothing left to wait for.
            while work.join_next().await.is_some() {}
        };
        let reason = tokio::select! {
            biased; // a loss is told at once; the sender is never ready
            reason = elector.run(drain) => reason,
            () = sender.run(PULSE, || {}) => LostReason::Shutdown, // it sends for ever
        };
        // What happened last is worth telling; nothing waits long for it.
        this.notes.lost(&reason);
        let _ = tokio::time::timeout(LAST_EVENTS, sender.flush()).await;
        match reason {
            LostReason::Shutdown if *ended_early.borrow() => Exit::ControllersEnded,
            LostReason::Shutdown => Exit::Stopped,
            reason => Exit::Lost(reason),
        }
    }

    fn campaign(&self) -> Campaign {
        Campaign {
            namespace: match self.config.watch_namespaces.first() {
                Some(watched) => watched.clone(),
                None => self.config.lease_namespace.clone(),
            },
            replica: self.config.replica.clone(),
            reader: self.clients.reader(),
            writer: Arc::clone(&self.writer),
            handle: self.handle.clone(),
            health: self.health.clone(),
            metrics: Arc::clone(&self.metrics),
            notes: self.notes.clone(),
        }
    }

    /// A leader without controllers would keep the Lease and do nothing, for ever.
    async fn hand_over_without_controllers(self: Arc<Self>, mut ended: watch::Receiver<bool>) {
        if ended.wait_for(|ended| *ended).await.is_ok() {
            tracing::error!("the controllers ended while this replica leads; handing over");
            self.handle.shutdown();
        }
    }

    async fn report_leadership(self: Arc<Self>) {
        let mut news = self.handle.leadership();
        loop {
            let now = news.borrow_and_update().clone();
            match now {
                Leadership::Leading { term, gained, former_holder } => {
                    self.metrics.leading(Some(term.epoch));
                    tracing::info!(epoch = term.epoch, ?gained, former_holder, "leading");
                    self.notes.leading(term.epoch, gained, former_holder.as_deref());
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
    async fn work_while_leading(
        self: Arc<Self>,
        controllers: watch::Sender<Option<Controllers>>,
        ended: Ended,
    ) {
        let mut news = self.handle.leadership();
        let begun = news.wait_for(|now| !matches!(now, Leadership::Follower { .. })).await;
        let Some(beginning) = begun.ok().and_then(|now| self.beginning(&now)) else {
            return ended.on_purpose();
        };
        self.health.missing(CACHES, "the first lists of this term are not complete");
        let may_create: MayCreate = {
            let clocks = self.clocks.clone();
            Arc::new(move || clocks.may_create().map_err(|skew| skew.to_string()))
        };
        let setup = work::Setup {
            clients: self.clients.clone(),
            beginning,
            writer: Arc::clone(&self.writer),
            gate: self.gate.clone(),
            quarantine: Arc::clone(&self.quarantine),
            wall: self.wall_clock.clone(),
            lease_clock: self.lease_clock.clone(),
            may_create,
            simulated: self.simulated.clone(),
            http: self.http.clone(),
            events: self.events.clone(),
            metrics: Arc::clone(&self.metrics),
            namespaces: self.config.watch_namespaces.clone(),
            orphan_retention: self.config.orphan_retention,
            concurrency: self.config.concurrency,
        };
        let health = self.health.clone();
        let ready = move |working: &Controllers| {
            health.present(CACHES);
            controllers.send_replace(Some(working.clone()));
        };
        let over = async move {
            // An error means that the elector is gone, which is the same news.
            let _ = news.wait_for(|now| matches!(now, Leadership::Lost { .. })).await;
        };
        let lost = self.handle.leadership();
        work::run(setup, ready, over).await;
        self.health.present(CACHES);
        if matches!(*lost.borrow(), Leadership::Lost { .. }) {
            ended.on_purpose();
        }
    }

    /// How the term began, if one did.
    fn beginning(&self, now: &Leadership) -> Option<Beginning> {
        let Leadership::Leading { term, gained, former_holder } = now else { return None };
        Some(Beginning {
            term: term.clone(),
            lease: ObjectKey::new(&self.config.lease_namespace, &self.config.lease_name),
            holder: holder(&self.config.replica, &term.nonce),
            former_holder: former_holder.clone(),
            gained: *gained,
        })
    }

    /// Ticks, and looks at everything again when the wall clock was set.
    async fn pulse(self: Arc<Self>, working: watch::Receiver<Option<Controllers>>) {
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
            let set = moved.unsigned_abs() >= CLOCK_STEP;
            if set {
                tracing::warn!(?moved, "the wall clock was set; everything is looked at again");
            }
            if let Some(controllers) = working.borrow().as_ref() {
                controllers.show_ages();
                if set {
                    controllers.look_at_everything();
                }
            }
        }
    }
}

/// Says that the controllers ended when it is dropped, also by a panic, unless that was intended.
struct Ended(Option<watch::Sender<bool>>);

impl Ended {
    fn on_purpose(mut self) {
        self.0 = None;
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(early) = &self.0 {
            early.send_replace(true);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_that_end_by_a_panic_or_too_early_are_noticed() {
        let (told, early) = watch::channel(false);
        Ended(Some(told)).on_purpose();
        assert!(!*early.borrow());
        let (told, early) = watch::channel(false);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ended = Ended(Some(told));
            panic!("as a controller might");
        }));
        assert!(panicked.is_err() && *early.borrow());
    }
}
