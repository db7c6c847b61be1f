//! The replicas: each a whole production operator on a machine of its own.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    sync::oneshot,
    task::{JoinError, JoinHandle},
    time::sleep,
};

use super::{
    Setup,
    shared::{Origin, Running, Shared},
    story::{Down, What},
    wire::Wire,
};
use crate::{
    authority::Entropy,
    cluster::Clients,
    operator::{self, Config, Exit, Parts, StartError},
    sim::{api::Server, provider::Provider},
    task::Process,
    telemetry::{Health, Metrics},
};

/// A process that ends by itself starts again after this time, as the kubelet restarts a container.
pub const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Objects a replica reconciles at once. Few, so that work queues up, as it does in a large cluster.
const CONCURRENCY: usize = 4;
/// Records without a schedule are kept this long: the default of the flag.
const ORPHAN_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);
/// The default of the flag.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5);

/// All replicas and what they need.
pub(super) struct Fleet {
    pub(super) shared: Arc<Shared>,
    pub(super) servers: Vec<Server>,
    pub(super) provider: Provider,
    pub(super) setup: Setup,
}

type Ended = Result<Result<Exit, StartError>, JoinError>;

impl Fleet {
    /// Starts a process of the replica, if none runs.
    pub(super) fn launch(self: &Arc<Self>, replica: usize) {
        let Some(server) = self.servers.get(replica).cloned() else { return };
        let origin = {
            let mut hosts = self.shared.hosts();
            let Some(host) = hosts.get_mut(replica).filter(|host| host.running.is_none()) else {
                return;
            };
            host.started += 1;
            host.starts_again = false;
            host.crash_after = None;
            Origin { replica, number: host.started, process: Process::new() }
        };
        let now = self.shared.time.elapsed();
        self.shared.book().up(now, replica, origin.number);
        let wire = Wire::new(Arc::clone(&self.shared), origin.clone(), server);
        let client = Client::new(wire, "default");
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            let _ = stopped.await;
        };
        let run = operator::run(self.config(replica), self.parts(&origin, client), stopped);
        let root = tokio::spawn(origin.process.contain(run));
        let running =
            Running { origin: origin.clone(), root: root.abort_handle(), stop: Some(stop) };
        if let Some(host) = self.shared.hosts().get_mut(replica) {
            host.running = Some(running);
        }
        tokio::spawn(Arc::clone(self).supervise(origin, root));
    }

    fn config(&self, replica: usize) -> Config {
        Config {
            replica: format!("r{replica}"),
            pod_uid: None,
            lease_namespace: super::LEASE_NAMESPACE.to_owned(),
            lease_name: super::LEASE_NAME.to_owned(),
            lease_seconds: self.setup.lease_seconds,
            watch_namespaces: Vec::new(),
            health_address: None,
            allow_simulated: true,
            allow_local_providers: false,
            max_clock_skew: MAX_CLOCK_SKEW,
            epoch_offset: 0,
            orphan_retention: ORPHAN_RETENTION,
            concurrency: CONCURRENCY,
        }
    }

    fn parts(&self, origin: &Origin, client: Client) -> Parts {
        let machine = self.shared.hosts()[origin.replica].machine.clone();
        let lease_clock = machine.lease_clock();
        let process = u64::from(origin.number) << 8 | u64::try_from(origin.replica).unwrap_or(0);
        Parts {
            clients: Clients::single(client),
            wall_clock: machine.wall_clock(),
            entropy: Entropy::seeded(self.setup.seed ^ process << 40),
            health: Health::new(lease_clock.clone(), Arc::new(Metrics::new())),
            lease_clock,
            simulated: Some(Arc::new(self.provider.clone())),
            http: None,
            // A thread has no place in virtual time. The elector notices by itself.
            watchdog_exit: None,
        }
    }

    /// Waits for the end of a process and starts another, if it ended by itself.
    async fn supervise(
        self: Arc<Self>,
        origin: Origin,
        root: JoinHandle<Result<Exit, StartError>>,
    ) {
        // One that was killed has been told of.
        let Some((down, again)) = how(root.await) else { return };
        {
            let mut hosts = self.shared.hosts();
            let host = &mut hosts[origin.replica];
            let same = |running: &Running| running.origin.number == origin.number;
            if !host.running.as_ref().is_some_and(same) {
                return;
            }
            host.running = None;
            host.starts_again = again;
        }
        self.shared.book().down(self.shared.time.elapsed(), origin.replica, down);
        if !again {
            return;
        }
        sleep(RESTART_AFTER).await;
        let due = {
            let hosts = self.shared.hosts();
            let host = &hosts[origin.replica];
            host.starts_again && host.started == origin.number
        };
        if due {
            self.launch(origin.replica);
        }
    }

    /// Ends a process from outside.
    pub(super) fn kill(&self, replica: usize) {
        let origin = {
            let mut hosts = self.shared.hosts();
            let Some(host) = hosts.get_mut(replica) else { return };
            host.starts_again = false;
            host.running.as_ref().map(|running| running.origin.clone())
        };
        if let Some(origin) = origin {
            self.shared.count_at_writes("kill", replica);
            self.shared.crash(&origin, Down::Killed);
        }
    }

    /// Stops a process for a while.
    pub(super) fn freeze(&self, replica: usize) {
        let Some(process) = self.process(replica).filter(|process| !process.is_frozen()) else {
            return;
        };
        process.freeze();
        self.shared.fault("pause", Some(replica), What::Frozen);
    }

    /// Lets it go on.
    pub(super) fn thaw(&self, replica: usize) {
        let Some(process) = self.process(replica).filter(Process::is_frozen) else { return };
        self.shared.tell(Some(replica), What::Thawed);
        process.thaw();
    }

    /// Asks a process to stop, as SIGTERM does.
    pub(super) fn stop(&self, replica: usize) {
        let mut hosts = self.shared.hosts();
        let running = hosts.get_mut(replica).and_then(|host| host.running.as_mut());
        let stop = running.and_then(|running| running.stop.take());
        drop(hosts);
        if let Some(stop) = stop {
            let sentence = "is asked to stop".to_owned();
            self.shared.tell(Some(replica), What::Step { sentence });
            let _ = stop.send(());
        }
    }

    fn process(&self, replica: usize) -> Option<Process> {
        let hosts = self.shared.hosts();
        hosts.get(replica)?.running.as_ref().map(|running| running.origin.process.clone())
    }
}

/// How a process ended, and whether it starts again; `None` if it was killed.
fn how(ended: Ended) -> Option<(Down, bool)> {
    let (why, defect, again) = match ended {
        Ok(Ok(exit)) => {
            let defect = exit == Exit::ControllersEnded;
            (exit.to_string(), defect, exit != Exit::Stopped)
        }
        Ok(Err(error)) => (error.to_string(), true, false),
        Err(error) if error.is_cancelled() => return None,
        Err(error) => (error.to_string(), true, true),
    };
    Some((Down::Ended { why, defect }, again))
}
