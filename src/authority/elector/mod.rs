//! The hands of the election: sends what [`lease::decide`](super::lease::decide) says and tells it
//! what came of it. Decides nothing by itself.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    ClockGuard, Entropy, Gate, LeaseConfig, Term,
    lease::{
        Acquisition, Action, Gained, Input, LeaseView, LostReason, OBSERVE_EVERY, Own, Read, Role,
        acquired, decide, given_back, renewed, unheld,
    },
};
use crate::{
    cluster::{Answered, ApiError, LeaseApi},
    task,
    time::{LeaseClock, LeaseInstant, WallClock},
    watch,
};

/// How long the drain may take before the Lease is given back: longer than the deadline of a write,
/// shorter than the 30 s a pod has for its end. Giving it back earlier is safe too; the fence holds.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(12);
/// How often giving back is tried: once more than a lost answer needs. If it fails, the standby waits
/// for the expiry.
const RELEASE_TRIES: usize = 2;

/// What this process is, for everybody who wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It does not lead.
    Follower {
        /// Who does, as far as known.
        holder: Option<String>,
    },
    /// It leads; the gate is open.
    Leading {
        /// The term.
        term: Term,
        /// How it was gained.
        gained: Gained,
        /// Who held the Lease before.
        former_holder: Option<String>,
    },
    /// It does not lead and never will again; the process is to end.
    Lost {
        /// Why.
        reason: LostReason,
    },
}

/// What an elector works with.
pub struct Setup {
    /// The Lease.
    pub lease: LeaseApi,
    /// Its times.
    pub config: LeaseConfig,
    /// Name of this process, the pod's; the holder identity is `<pod>/<nonce>`.
    pub pod: String,
    /// Opened while leading.
    pub gate: Gate,
    /// The clock of all decisions.
    pub lease_clock: LeaseClock,
    /// Stamps the Lease, for people.
    pub wall_clock: WallClock,
    /// Told the API server's clock.
    pub clocks: ClockGuard,
    /// Source of nonces.
    pub entropy: Entropy,
}

/// Takes part in the election.
pub struct Elector {
    setup: Setup,
    own: Own,
    /// The Lease last read or written.
    base: Option<Lease>,
    /// The acquisition last sent.
    sent: Option<Acquisition>,
    leadership: watch::Sender<Leadership>,
    orders: watch::Receiver<Option<LostReason>>,
    campaign: watch::Receiver<bool>,
    hints: Hints,
}

/// What the watch of the Lease tells a follower: that there is something to look at. It looks at each
/// renewal, not only when nobody holds the Lease, because the time to the takeover counts from when
/// the last renewal was *seen*.
#[derive(Default)]
struct Hints {
    task: JoinSet<()>,
    news: Arc<Notify>,
    /// Version from which to watch.
    version: Arc<Mutex<Option<String>>>,
}

/// Gives an elector orders and asks it for news; clones share it.
#[derive(Clone, Debug)]
pub struct ElectorHandle {
    gate: Gate,
    leadership: watch::Receiver<Leadership>,
    orders: Arc<watch::Sender<Option<LostReason>>>,
    campaign: Arc<watch::Sender<bool>>,
}

impl ElectorHandle {
    /// News of the leadership.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Whether this process may acquire the Lease. At first it may not: no fence, no campaign.
    pub fn set_campaign(&self, allowed: bool) {
        self.campaign.send_if_modified(|now| std::mem::replace(now, allowed) != allowed);
    }

    /// Ends leadership, for good. The gate is closed when this returns; the first reason counts.
    pub fn lose(&self, reason: LostReason) {
        self.gate.lose();
        self.orders.send_if_modified(|order| {
            let first = order.is_none();
            order.get_or_insert(reason);
            first
        });
    }

    /// Ends leadership because the process ends: drains, then gives the Lease back.
    pub fn shutdown(&self) {
        // The gate is closed by the elector, after it published the loss.
        self.orders.send_if_modified(|order| {
            let first = order.is_none();
            order.get_or_insert(LostReason::Shutdown);
            first
        });
    }
}

impl Elector {
    /// An elector and its handle.
    pub fn new(setup: Setup) -> (Self, ElectorHandle) {
        let (leadership, news) = watch::channel(Leadership::Follower { holder: None });
        let (orders, ordered) = watch::channel(None);
        let (campaign, campaigning) = watch::channel(false);
        let handle = ElectorHandle {
            gate: setup.gate.clone(),
            leadership: news,
            orders: Arc::new(orders),
            campaign: Arc::new(campaign),
        };
        let elector = Self {
            setup,
            own: Own::new(),
            base: None,
            sent: None,
            leadership,
            orders: ordered,
            campaign: campaigning,
            hints: Hints::default(),
        };
        (elector, handle)
    }

    /// Follows, acquires, leads, until leadership is lost; then publishes the loss, closes the gate,
    /// waits for `drain` (at most [`DRAIN_TIMEOUT`]) and, if the loss was its own will, gives the
    /// Lease back. The process is to end after it.
    pub async fn run<F: Future<Output = ()>>(mut self, drain: impl FnOnce() -> F) -> LostReason {
        let reason = self.until_lost().await;
        tracing::info!(%reason, "leadership is over");
        self.leadership.send_replace(Leadership::Lost { reason: reason.clone() });
        self.setup.gate.lose();
        if timeout(DRAIN_TIMEOUT, drain()).await.is_err() {
            tracing::warn!("work did not end in time; the Lease is given back all the same");
        }
        if reason.gives_back() {
            self.give_back().await;
        }
        reason
    }

    async fn until_lost(&mut self) -> LostReason {
        let mut action = Action::Look { after: Duration::ZERO };
        loop {
            if let Some(reason) = self.ordered() {
                action = self.own.lose(reason);
            }
            action = match action {
                Action::Lose(reason) => return reason,
                Action::Look { after } => {
                    self.wait(after).await;
                    self.look().await
                }
                Action::Rest { wait } => {
                    self.wait(wait).await;
                    self.decide(Input::Timer)
                }
                Action::Create | Action::Acquire { .. } | Action::Resend
                    if !*self.campaign.borrow() =>
                {
                    self.wait(OBSERVE_EVERY).await;
                    self.look().await
                }
                Action::Create => self.create().await,
                Action::Acquire { gained } => self.acquire(gained).await,
                Action::Resend => self.send_acquisition().await,
                Action::Renew => self.renew().await,
            };
            self.publish();
        }
    }

    /// An order from outside. A gate that was closed without one was closed by the writer.
    fn ordered(&self) -> Option<LostReason> {
        let order = self.orders.borrow().clone();
        order.or_else(|| self.setup.gate.is_lost().then_some(LostReason::FenceNotEnforced))
    }

    fn now(&self) -> LeaseInstant {
        self.setup.lease_clock.now()
    }

    fn decide(&mut self, input: Input<'_>) -> Action {
        let now = self.now();
        decide(&mut self.own, input, now, &self.setup.config)
    }

    /// Waits, but not past an order or, as a follower, a hint or the permission to campaign.
    async fn wait(&mut self, at_most: Duration) {
        let following = matches!(self.own.role(), Role::Follower);
        tokio::select! {
            biased;
            // Their senders may be gone; then nobody will ever order anything.
            Ok(()) = self.orders.changed() => {}
            Ok(()) = self.campaign.changed(), if following => {}
            () = self.hints.news.notified(), if following => {}
            () = sleep(at_most) => {}
        }
    }

    fn take(&mut self, lease: Lease) -> Read {
        let read = LeaseView::of(&lease).map_or_else(Read::Unusable, Read::Lease);
        let mut version = self.hints.version.lock().unwrap_or_else(PoisonError::into_inner);
        version.clone_from(&lease.metadata.resource_version);
        drop(version);
        self.base = Some(lease);
        read
    }

    async fn look(&mut self) -> Action {
        match self.setup.lease.get().await {
            Ok(Some(answered)) => {
                let read = self.take(answered.lease);
                self.decide(Input::Read(&read))
            }
            Ok(None) => {
                self.base = None;
                self.decide(Input::Read(&Read::Absent))
            }
            Err(error) => {
                tracing::debug!(%error, "the Lease could not be read");
                self.decide(Input::Unread)
            }
        }
    }

    async fn create(&mut self) -> Action {
        let key = self.setup.lease.key();
        let lease = unheld(&key.namespace, &key.name, &self.setup.config);
        match self.setup.lease.create(&lease).await {
            Ok(answered) => {
                let read = self.take(answered.lease);
                self.decide(Input::Read(&read))
            }
            Err(ApiError::AlreadyExists) => self.decide(Input::Conflict),
            Err(error) => {
                tracing::warn!(%error, "the Lease could not be created");
                self.decide(Input::Refused)
            }
        }
    }

    async fn acquire(&mut self, gained: Gained) -> Action {
        let view = self.base.as_ref().and_then(|lease| LeaseView::of(lease).ok());
        let nonce = self.setup.entropy.nonce();
        let acquisition = view.and_then(|view| {
            self.own.acquiring(&view, gained, &self.setup.pod, &nonce, &self.setup.config)
        });
        if acquisition.is_none() {
            tracing::error!("no epoch can be made of the Lease's resourceVersion and the offset");
            return Action::Look { after: OBSERVE_EVERY };
        }
        self.sent = acquisition;
        self.send_acquisition().await
    }

    async fn send_acquisition(&mut self) -> Action {
        let (Some(base), Some(acquisition)) = (&self.base, &self.sent) else {
            return self.decide(Input::Unread);
        };
        let Setup { pod, config, wall_clock, .. } = &self.setup;
        let lease = acquired(base, &acquisition.term, pod, config, wall_clock.now());
        self.write(lease).await
    }

    async fn renew(&mut self) -> Action {
        let now = self.now();
        let attempt = self.own.renewing(now);
        let (Some(base), Some(acquisition)) = (&self.base, &self.sent) else {
            return self.decide(Input::Unread);
        };
        let Setup { config, wall_clock, .. } = &self.setup;
        let lease = renewed(base, &acquisition.term, attempt, config, wall_clock.now());
        self.write(lease).await
    }

    async fn write(&mut self, lease: Lease) -> Action {
        let (started, sent) = (self.now(), self.setup.clocks.reading());
        match self.setup.lease.replace(&lease).await {
            Ok(Answered { lease, server_time }) => {
                self.setup.clocks.compare(sent, server_time);
                let read = self.take(lease);
                self.decide(Input::Written { answer: &read, started })
            }
            Err(ApiError::Conflict { .. } | ApiError::NotFound) => self.decide(Input::Conflict),
            Err(error) if error.is_outcome_unknown() => {
                tracing::debug!(%error, "nobody knows whether the Lease was written");
                self.decide(Input::Unknown)
            }
            Err(error) => {
                tracing::warn!(%error, "the Lease could not be written");
                self.decide(Input::Refused)
            }
        }
    }

    /// Opens the gate, or keeps it open, and tells what changed. Starts and ends the watch.
    fn publish(&mut self) {
        let news = match self.own.role() {
            Role::Leading(holding) => {
                let Some(start) = holding.confirmed else { return };
                let of = &holding.acquisition;
                self.setup.gate.open(&of.term, start.after(self.setup.config.validity()));
                self.hints.task.abort_all(); // a leader learns enough from its renewals
                Leadership::Leading {
                    term: of.term.clone(),
                    gained: of.gained,
                    former_holder: of.former_holder.clone(),
                }
            }
            Role::Follower => {
                self.hints.start(&self.setup.lease);
                let spec = self.base.as_ref().and_then(|lease| lease.spec.as_ref());
                let holder = spec.and_then(|spec| spec.holder_identity.clone());
                Leadership::Follower { holder: holder.filter(|holder| !holder.is_empty()) }
            }
            Role::Acquiring(_) | Role::Lost(_) => return,
        };
        self.leadership.send_if_modified(|known| {
            let changed = *known != news;
            if changed {
                tracing::info!(leadership = ?news, "leadership changed");
                *known = news;
            }
            changed
        });
    }

    /// Gives the Lease back, if what is there is still the term that this process acquired.
    async fn give_back(&self) {
        let Some(acquisition) = &self.sent else { return };
        for _ in 0..RELEASE_TRIES {
            let lease = match self.setup.lease.get().await {
                Ok(Some(answered)) => answered.lease,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "the Lease could not be read to give it back");
                    continue;
                }
            };
            if !LeaseView::of(&lease).is_ok_and(|view| acquisition.made(&view)) {
                return;
            }
            let free = given_back(&lease, self.setup.wall_clock.now());
            match self.setup.lease.replace(&free).await {
                Ok(_) => {
                    tracing::info!("the Lease was given back");
                    return;
                }
                Err(error) => tracing::debug!(%error, "the Lease could not be given back"),
            }
        }
    }
}

impl Hints {
    /// Starts the watch, if it is not running.
    fn start(&mut self, lease: &LeaseApi) {
        if !self.task.is_empty() {
            return;
        }
        let (lease, news) = (lease.clone(), Arc::clone(&self.news));
        let version = Arc::clone(&self.version);
        task::spawn_in(&mut self.task, async move {
            let from = || version.lock().unwrap_or_else(PoisonError::into_inner).clone();
            lease.hints(from, || news.notify_one()).await;
        });
    }
}

#[cfg(test)]
mod tests;
