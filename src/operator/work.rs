//! From "this process leads" to workers that work, and back.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use crate::{
    api::TracePaused,
    authority::{Gate, Quarantine},
    cluster::{Clients, FencedWriter, Scope},
    maintenance::controller as maintenance,
    providers::{
        Providers,
        http::{HttpProvider, Transport},
        job::JobProvider,
        simulated::SimulatedService,
    },
    reconcile::{Census, Deps, MayCreate, Means, RunCaches},
    recovery::{Beginning, Found, Item, Keeper, keeper},
    reports::controller as reports,
    telemetry::{EventQueue, Metrics},
    time::{LeaseClock, WallClock},
};

/// What a process gives its controllers.
#[derive(Clone)]
pub(super) struct Setup {
    /// Connections.
    pub(super) clients: Clients,
    /// How the term began.
    pub(super) beginning: Beginning,
    /// The writer, shared with whoever checks the fence.
    pub(super) writer: Arc<FencedWriter>,
    /// Leadership.
    pub(super) gate: Gate,
    /// Objects with foreign fences.
    pub(super) quarantine: Arc<Quarantine>,
    /// Wall clock.
    pub(super) wall: WallClock,
    /// Lease clock: measures how long something has been absent.
    pub(super) lease_clock: LeaseClock,
    /// Whether new work may be created now.
    pub(super) may_create: MayCreate,
    /// Simulated runs, if allowed.
    pub(super) simulated: Option<Arc<dyn SimulatedService>>,
    /// How execution services are asked, if they are.
    pub(super) http: Option<Arc<dyn Transport>>,
    /// Events.
    pub(super) events: EventQueue,
    /// Metrics.
    pub(super) metrics: Arc<Metrics>,
    /// Namespaces whose objects are decided about; none means all.
    pub(super) namespaces: Vec<String>,
    /// How long finished occurrences without a schedule are kept.
    pub(super) orphan_retention: Duration,
    /// Objects worked on at once.
    pub(super) concurrency: usize,
}

/// The controllers of one term; clones share them.
#[derive(Clone)]
pub(super) struct Controllers {
    maintenance: maintenance::Controller,
    reports: reports::Controller,
}

impl Controllers {
    async fn run(&self) {
        tokio::join!(biased; self.maintenance.run(), self.reports.run());
    }

    fn stop(&self) {
        self.maintenance.stop();
        self.reports.stop();
    }

    fn are_working(&self) -> bool {
        self.maintenance.is_working() || self.reports.is_working()
    }

    fn found(&self) -> Vec<(Item, Found)> {
        let mut found = self.maintenance.found();
        found.extend(self.reports.found());
        found
    }

    fn paused(&self) -> Vec<TracePaused> {
        let mut paused = self.maintenance.paused();
        paused.extend(self.reports.paused());
        paused
    }

    /// Looks at everything again, for example after the wall clock was set.
    pub(super) fn look_at_everything(&self) {
        self.maintenance.look_at_everything();
        self.reports.look_at_everything();
    }

    /// Shows what only time changes: how old the oldest unresolved work is. The rooms are counted
    /// together, so one of them shows it for all.
    pub(super) fn show_ages(&self) {
        self.maintenance.show_ages();
    }
}

/// The caches of all rooms, before there are controllers.
struct Wiring {
    maintenance: maintenance::Wiring,
    reports: reports::Wiring,
    runs: RunCaches,
}

impl Wiring {
    fn new(events: &EventQueue, metrics: &Arc<Metrics>) -> Self {
        let census = Census::new(metrics);
        let maintenance = maintenance::Wiring::new(events, metrics, &census);
        let reports = reports::Wiring::new(events, metrics, &census);
        let listeners = [maintenance.listener(), reports.listener()];
        let runs = RunCaches::new(events, metrics, &listeners);
        Self { maintenance, reports, runs }
    }

    /// Starts to follow all kinds in the given namespaces (none: all). The watches end when the set
    /// is dropped.
    fn follow(&self, clients: &Clients, namespaces: &[String]) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        let all = Scope { namespaces: namespaces.iter().cloned().collect(), labels: None };
        self.maintenance.follow(&mut watches, clients, &all);
        self.reports.follow(&mut watches, clients, &all);
        self.runs.follow(&mut watches, clients, &all);
        watches
    }

    /// Waits until all kinds have been listed once.
    async fn wait_ready(&self) {
        self.maintenance.wait_ready().await;
        self.reports.wait_ready().await;
        self.runs.wait_ready().await;
    }
}

/// Works until `stop` is ready, then ends the passes under way and returns.
///
/// `ready` is called once all kinds have been listed, with the controllers that work from then on.
pub(super) async fn run(
    setup: Setup,
    ready: impl FnOnce(&Controllers) + Send,
    stop: impl Future<Output = ()> + Send,
) {
    let wiring = Wiring::new(&setup.events, &setup.metrics);
    let keeper = keeper(&setup);
    let recovery = keeper.recovery();
    let (clients, namespaces) = (setup.clients.clone(), setup.namespaces.clone());
    let controllers = controllers(&wiring, &keeper, setup);
    // Dropped, and so ended, when this function returns.
    let _watches = wiring.follow(&clients, &namespaces);
    let working = async {
        // Nothing is decided from half a list: what is missing would look deleted.
        wiring.wait_ready().await;
        recovery.listed(controllers.found());
        ready(&controllers);
        controllers.run().await;
    };
    // The record of the term is kept beside the work, which never waits for it.
    let record = Box::pin(async {
        keeper.run(|| controllers.paused()).await;
        std::future::pending::<()>().await;
    });
    let work = async {
        tokio::select! {
            biased;
            () = working => {}
            () = record => {}
        }
    };
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased; // work that ended by itself has nothing left to be stopped
        () = &mut work => return,
        () = stop => controllers.stop(),
    }
    if controllers.are_working() {
        work.await; // ends when the passes under way have ended
    }
}

fn keeper(setup: &Setup) -> Keeper {
    let parts = keeper::Parts {
        gate: setup.gate.clone(),
        reader: setup.clients.reader(),
        writer: Arc::clone(&setup.writer),
        wall: setup.wall.clone(),
        clock: setup.lease_clock.clone(),
        events: setup.events.clone(),
        metrics: Arc::clone(&setup.metrics),
    };
    Keeper::new(parts, setup.beginning.clone())
}

fn controllers(wiring: &Wiring, keeper: &Keeper, setup: Setup) -> Controllers {
    let (jobs, sightings) = wiring.runs.seen();
    let job = JobProvider::new(
        setup.clients.reader(),
        Arc::clone(&setup.writer),
        jobs,
        sightings,
        setup.lease_clock.clone(),
    );
    let http = setup.http.map(|transport| {
        let metrics = Arc::clone(&setup.metrics);
        HttpProvider::new(setup.clients.reader(), transport, setup.lease_clock, metrics)
    });
    let deps = Arc::new(Deps::new(Means {
        gate: setup.gate,
        quarantine: setup.quarantine,
        reader: setup.clients.reader(),
        writer: setup.writer,
        wall: setup.wall,
        providers: Providers::new(job, setup.simulated, http),
        may_create: setup.may_create,
        recovery: keeper.recovery(),
        events: setup.events,
        metrics: setup.metrics,
        orphan_retention: setup.orphan_retention,
        concurrency: setup.concurrency,
    }));
    Controllers {
        maintenance: wiring.maintenance.controller(&deps),
        reports: wiring.reports.controller(&deps),
    }
}
