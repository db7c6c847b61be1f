//! What all parts of a world share: time, network, books, and the hosts of the replicas.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    task::AbortHandle,
    time::sleep,
};

use super::{
    book::Book,
    call::Call,
    faults::Effect,
    net::{Arrival, Net},
    story::{Down, Refused, What},
    time::{Machine, Time},
    wire,
};
use crate::{
    sim::{Commit, Key, rng::Rng},
    task::Process,
};

/// Which process sent something.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) replica: usize,
    /// Number of the process, from 1.
    pub(super) number: u32,
    pub(super) process: Process,
}

/// Where a replica lives.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) machine: Machine,
    /// Processes started so far.
    pub(super) started: u32,
    pub(super) running: Option<Running>,
    /// Dies at the commit that makes this zero.
    pub(super) crash_after: Option<u32>,
    /// Starts again by itself at some time, unless somebody else does something before.
    pub(super) starts_again: bool,
}

/// A running process.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) origin: Origin,
    pub(super) root: AbortHandle,
    /// Asks it to stop when it is dropped or sent.
    pub(super) stop: Option<oneshot::Sender<()>>,
}

/// See the module.
pub(super) struct Shared {
    pub(super) time: Time,
    net: Mutex<Net>,
    book: Mutex<Book>,
    hosts: Mutex<Vec<Host>>,
    through: Notify,
    /// For tasks that outlive the call that started them.
    this: Weak<Self>,
}

impl Shared {
    pub(super) fn new(time: Time, lease: Key, replicas: usize, rng: &Rng) -> Arc<Self> {
        let host = |index| Host {
            machine: Machine::new(time, index),
            started: 0,
            running: None,
            crash_after: None,
            starts_again: false,
        };
        let hosts = (0..replicas).map(host).collect();
        Arc::new_cyclic(|this| Self {
            time,
            net: Mutex::new(Net::new(rng.fork(1), replicas)),
            book: Mutex::new(Book::new(lease, replicas)),
            hosts: Mutex::new(hosts),
            through: Notify::new(),
            this: this.clone(),
        })
    }

    // None of the three is locked while another is. A panic while one is held ends the history.

    pub(super) fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hosts(&self) -> MutexGuard<'_, Vec<Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.time.elapsed()
    }

    pub(super) fn tell(&self, replica: Option<usize>, what: What) {
        self.book().tell(self.now(), replica, what);
    }

    /// Tells of a fault and counts it, once for every write of the replica that is on its way.
    pub(super) fn fault(&self, name: &str, replica: Option<usize>, what: What) {
        match replica {
            Some(replica) => self.count_at_writes(name, replica),
            None => self.book().coverage.fault(name, "-"),
        }
        self.tell(replica, what);
    }

    /// Counts a fault at each write of the replica that is on its way.
    pub(super) fn count_at_writes(&self, name: &str, replica: usize) {
        let writes = self.net().writes_of(replica);
        let mut book = self.book();
        book.coverage.fault(name, "-");
        for sort in writes {
            book.coverage.fault(name, &sort);
        }
    }

    /// A request sets out: its number, and how long it takes to arrive.
    pub(super) fn set_out(&self, call: &Call) -> (u64, Duration) {
        let now = self.now();
        let mut net = self.net();
        (net.set_out(now, call), net.way(now))
    }

    pub(super) fn way(&self) -> Duration {
        let now = self.now();
        self.net().way(now)
    }

    pub(super) fn settled(&self, number: u64) {
        let now = self.now();
        self.net().settled(now, number);
    }

    pub(super) fn arrive(&self, call: &Call) -> Arrival {
        let now = self.now();
        self.net().arrive(now, call)
    }

    pub(super) fn depart(&self, call: &Call) -> Result<(), (&'static str, bool)> {
        let now = self.now();
        self.net().depart(now, call.replica)
    }

    /// A fault struck a request.
    pub(super) fn struck(&self, call: &Call, effect: &Effect, name: &str) {
        let mut book = self.book();
        book.coverage.fault(name, &call.sort());
        if call.is_write() {
            book.tell(self.now(), Some(call.replica), wire::sentence(call, effect, name));
        }
    }

    /// The API server answered.
    pub(super) fn served(&self, call: &Call, code: u16) {
        *self.book().coverage.calls.entry((call.sort(), code)).or_default() += 1;
    }

    pub(super) fn refused(&self, replica: usize, refused: Refused) {
        self.book().refused(self.now(), replica, refused);
    }

    /// Waits until held requests are let through.
    pub(super) async fn wait_through(&self) {
        let before = self.net().let_through;
        loop {
            let changed = self.through.notified();
            if self.net().let_through != before {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn let_through(&self) {
        self.net().let_through += 1;
        self.through.notify_waiters();
    }

    /// A commit, in order; called while the store is locked.
    pub(super) fn committed(&self, commit: &Commit) {
        self.book().commit(commit);
        if !Book::is_work(commit) {
            return;
        }
        self.net().active(self.now());
        let Some(replica) = commit.by.strip_prefix('r').and_then(|number| number.parse().ok())
        else {
            return;
        };
        let dies = {
            let mut hosts = self.hosts();
            let Some(host) = hosts.get_mut::<usize>(replica) else { return };
            let left = host.crash_after.map(|left| left.saturating_sub(1));
            host.crash_after = left.filter(|left| *left > 0);
            (left == Some(0)).then(|| host.running.as_ref().map(|running| running.origin.clone()))
        };
        if let Some(Some(origin)) = dies {
            let point = format!("before it sees the answer to its write of {}", commit.key);
            self.crash(&origin, Down::Crashed { point });
        }
    }

    /// Ends a process at once, if it still runs. It stays dead.
    pub(super) fn crash(&self, origin: &Origin, down: Down) {
        let running = {
            let mut hosts = self.hosts();
            let Some(host) = hosts.get_mut(origin.replica) else { return };
            let same = |running: &Running| running.origin.number == origin.number;
            if !host.running.as_ref().is_some_and(same) {
                return;
            }
            host.crash_after = None;
            host.running.take()
        };
        if let Some(running) = running {
            running.origin.process.kill();
            running.root.abort();
            self.book().down(self.now(), origin.replica, down);
        }
    }

    /// Freezes a process for a while.
    pub(super) fn freeze_for(&self, origin: &Origin, lasting: Duration) {
        if origin.process.is_dead() || origin.process.is_frozen() {
            return;
        }
        origin.process.freeze();
        self.tell(Some(origin.replica), What::Frozen);
        let (this, origin) = (self.this.clone(), origin.clone());
        tokio::spawn(async move {
            sleep(lasting).await;
            if let Some(this) = this.upgrade()
                && origin.process.is_frozen()
            {
                this.tell(Some(origin.replica), What::Thawed);
                origin.process.thaw();
            }
        });
    }

    /// Cuts a replica off for a while.
    pub(super) fn cut_off_for(&self, replica: usize, lasting: Duration) {
        if !self.net().cut_off(replica, true) {
            return;
        }
        self.tell(Some(replica), What::CutOff);
        let this = self.this.clone();
        tokio::spawn(async move {
            sleep(lasting).await;
            if let Some(this) = this.upgrade()
                && this.net().cut_off(replica, false)
            {
                this.tell(Some(replica), What::Reachable);
            }
        });
    }
}
