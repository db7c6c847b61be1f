//! A whole cluster in virtual time: replicas of the production operator, each on a machine with its
//! own clocks and its own line to the API server, and everything that can go wrong between them.
//!
//! ```no_run
//! # use punctual::sim::world::{Setup, World, history};
//! # use std::time::Duration;
//! let story = history(async {
//!     let world = World::new(Setup::default());
//!     world.start();
//!     world.run_until(Duration::from_secs(30)).await;
//!     if let Some(leader) = world.leader() {
//!         world.kill(leader);
//!     }
//!     world.run_until(Duration::from_secs(60)).await;
//!     world.story()
//! });
//! ```
//!
//! One seed is one history: nothing in it reads a clock of the machine, draws randomness of the
//! operating system, or depends on the order of a hash map or of threads.

mod book;
mod call;
mod coverage;
mod faults;
mod fleet;
mod meddle;
mod net;
mod shared;
mod story;
#[cfg(test)]
mod tests;
mod time;
mod wire;

pub use call::{Action, Call};
pub use coverage::Coverage;
pub use faults::{Class, Effect, Fault, MAX_WAITING_FAULTS};
pub use fleet::RESTART_AFTER;
pub use meddle::ApiFault;
pub use story::{Down, Entry, MAX_STORY, Refused, Term, What, clock};
pub use time::{Machine, Time, history};

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::{sleep, sleep_until};

use self::{fleet::Fleet, shared::Shared};
use super::{
    Key, Kind,
    api::{Model, Server},
    invariants::{self, Checker, Violation},
    provider::Provider,
    rng::Rng,
    workload::Workload,
};

/// Namespace of the Lease.
pub const LEASE_NAMESPACE: &str = "punctual-system";
/// Name of the Lease.
pub const LEASE_NAME: &str = "punctual";

/// A moment has settled when nothing was on its way for so long: longer than the pause of a controller
/// after a conflict (50 ms) and than any round trip without faults.
pub const QUIET: Duration = Duration::from_millis(60);
/// Longest time a moment may take to settle; one that takes longer is judged as it is then.
pub const MAX_SETTLE: Duration = Duration::from_secs(2);
/// How long nothing may have been wrong before everything must have been done that could be done.
pub const UNDISTURBED: Duration = Duration::from_secs(60);
/// Most replicas of a world: each is a whole operator.
pub const MAX_REPLICAS: usize = 9;

/// What a world begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What a true clock shows at virtual time 0.
    pub start: Timestamp,
    /// How many replicas, at most [`MAX_REPLICAS`].
    pub replicas: usize,
    /// Chooses latencies, nonces, and everything that is left to chance.
    pub seed: u64,
    /// Duration of the Lease.
    pub lease_seconds: u32,
}

impl Default for Setup {
    /// Two replicas with the default Lease, two minutes before 2 o'clock.
    fn default() -> Self {
        let start = Timestamp::from_second(DEFAULT_START).unwrap_or(Timestamp::UNIX_EPOCH);
        Self { start, replicas: 2, seed: 1, lease_seconds: 10 }
    }
}

/// 2026-11-29T01:58:00Z.
const DEFAULT_START: i64 = 1_795_917_480;

/// The world. Dropping the runtime it was made in ends it.
pub struct World {
    shared: Arc<Shared>,
    fleet: Arc<Fleet>,
    model: Model,
    provider: Provider,
    workload: Workload,
    checker: Arc<Mutex<Checker>>,
}

impl World {
    /// A world at virtual time 0, with the operator's CRDs installed and no replica started. Must be
    /// called in a runtime with virtual time, as [`history`] gives.
    pub fn new(setup: Setup) -> Self {
        let setup = Setup { replicas: setup.replicas.clamp(1, MAX_REPLICAS), ..setup };
        let time = Time::starting(setup.start);
        let rng = Rng::new(setup.seed);
        let model = Model::new(time.true_clock());
        let lease = Self::lease_key();
        let shared = Shared::new(time, lease.clone(), setup.replicas, &rng);
        let judge = invariants::Setup { start: setup.start, lease, epoch_offset: 0 };
        let checker = Arc::new(Mutex::new(Checker::new(judge)));
        // The checker hears of a write before anybody can act on it.
        let (judge, hears) = (Arc::clone(&checker), Arc::clone(&shared));
        model.on_commit(Box::new(move |commit| {
            locked(&judge).commit(commit);
            hears.committed(commit);
        }));
        model.install_crds();
        model.add_namespace("default");
        model.add_namespace(LEASE_NAMESPACE);
        let provider = Provider::new(time);
        let mut lags = rng.fork(2);
        let servers = (0..setup.replicas)
            .map(|index| {
                let server = model.server(index);
                server
                    .set_watch_lag(Duration::from_millis(lags.of(WATCH_LAG_MS.0..=WATCH_LAG_MS.1)));
                server
            })
            .collect();
        tokio::spawn(end_runs(provider.clone(), time));
        let workload = Workload::new(model.clone(), provider.clone(), time, rng.fork(3));
        let judge = Arc::clone(&checker);
        provider.on_event(move |event| locked(&judge).run(event));
        let judge = Arc::clone(&checker);
        workload.on_event(move |event| locked(&judge).run(event));
        let fleet = Arc::new(Fleet {
            shared: Arc::clone(&shared),
            servers,
            provider: provider.clone(),
            setup,
        });
        Self { shared, fleet, model, provider, workload, checker }
    }

    /// Starts all replicas.
    pub fn start(&self) {
        for replica in 0..self.fleet.setup.replicas {
            self.fleet.launch(replica);
        }
    }

    /// The store and its rules: the ground truth.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The API server that this replica talks to.
    pub fn server(&self, replica: usize) -> Option<&Server> {
        self.fleet.servers.get(replica)
    }

    /// The simulated provider.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Job controller, nodes and garbage collection.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// What it began with.
    pub fn setup(&self) -> &Setup {
        &self.fleet.setup
    }

    /// Virtual time.
    pub fn time(&self) -> Time {
        self.shared.time
    }

    /// Virtual time since the start.
    pub fn elapsed(&self) -> Duration {
        self.shared.time.elapsed()
    }

    /// Lets everything happen that happens until then.
    pub async fn run_until(&self, since_start: Duration) {
        sleep_until(self.shared.time.at(since_start)).await;
    }

    /// Waits until this moment has settled: no request is on its way and nothing was written for
    /// [`QUIET`], the Lease and events left out, which never rest; at most [`MAX_SETTLE`]. Requests
    /// that are held back, delayed or never answered are not waited for. Gives whether it settled.
    pub async fn settle(&self) -> bool {
        let begun = self.elapsed();
        loop {
            let now = self.elapsed();
            let quiet_since = self.shared.net().quiet_since();
            let from = quiet_since.unwrap_or(now).max(begun);
            if quiet_since.is_some() && now >= from + QUIET {
                return true;
            }
            if now >= begun + MAX_SETTLE {
                return false;
            }
            sleep((from + QUIET).saturating_sub(now).max(Duration::from_millis(1))).await;
        }
    }

    /// The replica that the Lease names as its holder, dead or alive.
    pub fn leader(&self) -> Option<usize> {
        let lease = self.model.get(&Self::lease_key())?;
        book::replica_of(lease["spec"]["holderIdentity"].as_str()?)
    }

    /// The living replica with the lowest number that the Lease does not name.
    pub fn standby(&self) -> Option<usize> {
        let leader = self.leader();
        self.living().into_iter().find(|&replica| Some(replica) != leader)
    }

    /// The replicas of which a process runs, frozen or not.
    pub fn living(&self) -> Vec<usize> {
        let hosts = self.shared.hosts();
        (0..hosts.len()).filter(|&replica| hosts[replica].running.is_some()).collect()
    }

    /// Whether the replica's process is frozen.
    pub fn is_frozen(&self, replica: usize) -> bool {
        let hosts = self.shared.hosts();
        let running = hosts.get(replica).and_then(|host| host.running.as_ref());
        running.is_some_and(|running| running.origin.process.is_frozen())
    }

    /// The Lease.
    pub fn lease_key() -> Key {
        Key::new(Kind::Lease, LEASE_NAMESPACE, LEASE_NAME)
    }

    /// Writes a sentence into the story, for what the caller does by itself.
    pub fn note(&self, sentence: impl Into<String>) {
        self.shared.tell(None, What::Step { sentence: sentence.into() });
    }

    /// Counts a fault that the caller makes by itself.
    pub fn count_fault(&self, name: &str) {
        self.shared.book().coverage.fault(name, "-");
    }

    /// The story so far.
    pub fn story(&self) -> Vec<Entry> {
        self.shared.book().story.entries().to_vec()
    }

    /// How many entries came after the story was full.
    pub fn story_left_out(&self) -> u64 {
        self.shared.book().story.left_out()
    }

    /// The terms so far.
    pub fn terms(&self) -> Vec<Term> {
        self.shared.book().terms.clone()
    }

    /// One line for every committed write: when, by whom, what, and a digest of the content. Two
    /// histories with the same log are the same history.
    pub fn write_log(&self) -> String {
        self.shared.book().log.clone()
    }

    /// How many writes were committed.
    pub fn commits(&self) -> u64 {
        self.shared.book().commits
    }

    /// How many writes of work a replica has committed: neither of the Lease nor of events.
    pub fn work_writes(&self, replica: usize) -> u32 {
        self.shared.book().work.get(replica).copied().unwrap_or(0)
    }

    /// What this history went through so far.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.shared.book().coverage.clone();
        coverage.workload = self.workload.counts();
        coverage
    }

    /// What does not hold, of what must hold after every write.
    pub fn violations(&self) -> Vec<Violation> {
        locked(&self.checker).violations().to_vec()
    }

    /// Ends the history: judges also what must hold at its end, and gives all that does not hold.
    /// What must have converged is judged only if somebody was able to work: see [`World::is_able`].
    pub fn finish(&self) -> Vec<Violation> {
        self.provider.advance();
        let able = self.is_able();
        locked(&self.checker).finish(self.elapsed(), able);
        self.violations()
    }

    /// Whether for the last [`UNDISTURBED`] a leader was alive, reached everything it needs, and had
    /// the right time.
    pub fn is_able(&self) -> bool {
        let (trouble, began) = {
            let book = self.shared.book();
            let term = book.terms.last().filter(|term| term.ended.is_none());
            (book.trouble, term.map(|term| term.began))
        };
        let Some(leader) = self.leader() else { return false };
        let runs = self.living().contains(&leader) && !self.is_frozen(leader);
        let reaches = !self.shared.net().is_cut_off(leader);
        let right = self.machine(leader).is_some_and(|machine| machine.is_right());
        let calm = began.map(|began| began.max(trouble) + UNDISTURBED);
        runs && reaches && right && calm.is_some_and(|calm| self.elapsed() >= calm)
    }

    /// What tells of defects: panics, controllers that ended, and whoever asks without pause.
    pub fn defects(&self) -> Vec<String> {
        let restless = self.provider.restless().map(|at| {
            format!("{}  the provider is asked again and again without pause", clock(at))
        });
        let is_defect =
            |entry: &&Entry| matches!(entry.what, What::Down(Down::Ended { defect: true, .. }));
        let book = self.shared.book();
        let told = book.story.entries().iter().filter(is_defect).map(Entry::to_string);
        told.chain(restless).collect()
    }
}

/// Least and most milliseconds by which a server's watch is behind.
const WATCH_LAG_MS: (u64, u64) = (0, 20);

/// A checker that panicked ends the history by that.
fn locked(checker: &Mutex<Checker>) -> MutexGuard<'_, Checker> {
    checker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells of the ends of runs when they happen, not when somebody asks.
async fn end_runs(provider: Provider, time: Time) {
    let changed = Arc::clone(&provider.changed);
    loop {
        let next = provider.next_end();
        let wait = async {
            match next {
                Some(at) => sleep_until(time.at(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = changed.notified() => {}
            () = wait => {}
        }
        provider.advance();
    }
}
