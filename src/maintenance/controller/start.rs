//! From "this process leads" to workers that work, and back.

use std::{sync::Arc, time::Duration};

use super::{Controller, Deps, MayCreate, Wiring};
use crate::{
    authority::{Gate, Quarantine},
    cluster::{Clients, FencedWriter},
    providers::{Providers, job::JobProvider, simulated::SimulatedService},
    recovery::{Beginning, Keeper, keeper},
    telemetry::{EventQueue, Metrics},
    time::{LeaseClock, WallClock},
};

/// What a process gives the room.
#[derive(Clone)]
pub struct Setup {
    /// Connections.
    pub clients: Clients,
    /// How the term began.
    pub beginning: Beginning,
    /// The writer, shared with whoever checks the fence.
    pub writer: Arc<FencedWriter>,
    /// Leadership.
    pub gate: Gate,
    /// Objects with foreign fences.
    pub quarantine: Arc<Quarantine>,
    /// Wall clock.
    pub wall: WallClock,
    /// Lease clock: measures how long something has been absent.
    pub lease_clock: LeaseClock,
    /// Whether occurrences may be created now.
    pub may_create: MayCreate,
    /// Simulated runs, if allowed.
    pub simulated: Option<Arc<dyn SimulatedService>>,
    /// Events.
    pub events: EventQueue,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Namespaces whose objects are decided about; none means all.
    pub namespaces: Vec<String>,
    /// How long finished occurrences without a schedule are kept.
    pub orphan_retention: Duration,
    /// Objects worked on at once.
    pub concurrency: usize,
}

/// Works until `stop` is ready, then ends the passes under way and returns.
///
/// `ready` is called once all kinds have been listed, with the controller that works from then on.
pub async fn run(
    setup: Setup,
    ready: impl FnOnce(&Controller) + Send,
    stop: impl Future<Output = ()> + Send,
) {
    let wiring = Wiring::new(&setup.events, &setup.metrics);
    let keeper = keeper(&setup);
    let recovery = keeper.recovery();
    let (clients, namespaces) = (setup.clients.clone(), setup.namespaces.clone());
    let controller = controller(&wiring, &keeper, setup);
    // Dropped, and so ended, when this function returns.
    let _watches = wiring.follow(&clients, &namespaces);
    let controllers = async {
        // Nothing is decided from half a list: what is missing would look deleted.
        wiring.wait_ready().await;
        recovery.listed(controller.found());
        ready(&controller);
        controller.run().await;
    };
    // The record of the term is kept beside the work, which never waits for it.
    let record = Box::pin(async {
        keeper.run(|| controller.paused()).await;
        std::future::pending::<()>().await;
    });
    let work = async {
        tokio::select! {
            biased;
            () = controllers => {}
            () = record => {}
        }
    };
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased; // work that ended by itself has nothing left to be stopped
        () = &mut work => return,
        () = stop => controller.stop(),
    }
    if controller.is_working() {
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

fn controller(wiring: &Wiring, keeper: &Keeper, setup: Setup) -> Controller {
    let (jobs, sightings) = wiring.runs();
    let job = JobProvider::new(
        setup.clients.reader(),
        Arc::clone(&setup.writer),
        jobs,
        sightings,
        setup.lease_clock,
    );
    wiring.controller(Deps {
        gate: setup.gate,
        quarantine: setup.quarantine,
        reader: setup.clients.reader(),
        writer: setup.writer,
        wall: setup.wall,
        providers: Providers::new(job, setup.simulated),
        may_create: setup.may_create,
        recovery: keeper.recovery(),
        events: setup.events,
        metrics: setup.metrics,
        orphan_retention: setup.orphan_retention,
        concurrency: setup.concurrency,
    })
}
