//! The network between the replicas and the API server: what is on its way, and what breaks.

use std::{collections::BTreeMap, task::Waker, time::Duration};

use super::{
    call::{Action, Call},
    faults::{Effect, Fault, Waiting},
};
use crate::sim::{Kind, rng::Rng};

/// Least and most milliseconds that a request, or an answer, is on its way when nothing is wrong. The
/// spread makes histories differ: which of two writes arrives first is the seed's choice.
const LATENCY_MS: (u64, u64) = (1, 4);

/// State of the network. Pure: is told the time.
#[derive(Debug)]
pub(super) struct Net {
    rng: Rng,
    waiting: Waiting,
    lines: Vec<Line>,
    away_until: Duration,
    /// Lists of pods are refused until then.
    pods_hidden_until: Duration,
    slow: Option<Slow>,
    /// Requests on their way that will be answered soon, by number.
    travelling: BTreeMap<u64, Call>,
    next: u64,
    /// When something last happened that is not background.
    active_at: Duration,
    /// How often [`Net::let_through`] was called.
    pub(super) let_through: u64,
}

/// What makes everything slow.
#[derive(Clone, Copy, Debug)]
struct Slow {
    extra: Duration,
    until: Duration,
}

/// One replica's line.
#[derive(Debug, Default)]
struct Line {
    cut_off: bool,
    /// How often its connections were broken.
    broken: u64,
    /// Streams that wait, by number; woken when the line changes.
    streams: BTreeMap<u64, Waker>,
}

/// What becomes of a request at its arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The API server gets it.
    Served,
    /// Something else happens; the fault's name for coverage.
    Struck(Effect, String),
}

/// How a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// It flows.
    Flows,
    /// Nothing comes through at present.
    Silent,
    /// It is broken for good.
    Broken,
}

impl Net {
    pub(super) fn new(rng: Rng, replicas: usize) -> Self {
        Self {
            rng,
            waiting: Waiting::default(),
            lines: (0..replicas).map(|_| Line::default()).collect(),
            away_until: Duration::ZERO,
            pods_hidden_until: Duration::ZERO,
            slow: None,
            travelling: BTreeMap::new(),
            next: 0,
            active_at: Duration::ZERO,
            let_through: 0,
        }
    }

    pub(super) fn inject(&mut self, fault: Fault) {
        self.waiting.add(fault);
    }

    pub(super) fn clear_faults(&mut self) {
        self.waiting.clear();
    }

    /// A coin, for choices that are the seed's.
    pub(super) fn coin(&mut self) -> bool {
        self.rng.chance(50)
    }

    /// How long one way takes now.
    pub(super) fn way(&mut self, now: Duration) -> Duration {
        let usual = Duration::from_millis(self.rng.of(LATENCY_MS.0..=LATENCY_MS.1));
        let slow = self.slow.filter(|slow| now < slow.until);
        usual + slow.map_or(Duration::ZERO, |slow| slow.extra / 2)
    }

    /// A request sets out; gives its number.
    pub(super) fn set_out(&mut self, now: Duration, call: &Call) -> u64 {
        self.next += 1;
        if call.is_work() {
            self.active_at = now;
            self.travelling.insert(self.next, call.clone());
        }
        self.next
    }

    /// A request was answered, or its sender waits in vain.
    pub(super) fn settled(&mut self, now: Duration, number: u64) {
        if self.travelling.remove(&number).is_some() {
            self.active_at = now;
        }
    }

    /// Something happened.
    pub(super) fn active(&mut self, now: Duration) {
        self.active_at = now;
    }

    /// Since when nothing happens; `None` while something is on its way.
    pub(super) fn quiet_since(&self) -> Option<Duration> {
        self.travelling.is_empty().then_some(self.active_at)
    }

    /// Writes of a replica that are on their way.
    pub(super) fn writes_of(&self, replica: usize) -> Vec<String> {
        let of = self.travelling.values().filter(|call| call.replica == replica && call.is_write());
        of.map(Call::sort).collect()
    }

    /// What becomes of a request that arrives.
    pub(super) fn arrive(&mut self, now: Duration, call: &Call) -> Arrival {
        if self.is_cut_off(call.replica) {
            return Arrival::Struck(Effect::LoseRequest { silent: true }, "partition".into());
        }
        if now < self.away_until {
            let effect = Effect::LoseRequest { silent: false };
            return Arrival::Struck(effect, "API server away".into());
        }
        let lists_pods = call.action == Action::List && call.key.kind == Kind::Pod;
        if lists_pods && now < self.pods_hidden_until {
            let effect = Effect::Refuse { code: 503, committed: false };
            return Arrival::Struck(effect, "pods not listed".into());
        }
        match self.waiting.strike(call) {
            Some(effect) => {
                let name = effect.name();
                Arrival::Struck(effect, name)
            }
            None => Arrival::Served,
        }
    }

    /// Whether an answer comes back; the name of what stops it, and whether that is silent.
    pub(super) fn depart(&self, now: Duration, replica: usize) -> Result<(), (&'static str, bool)> {
        if self.is_cut_off(replica) {
            return Err(("partition, answer lost", true));
        }
        if now < self.away_until { Err(("API server away, answer lost", false)) } else { Ok(()) }
    }

    pub(super) fn is_cut_off(&self, replica: usize) -> bool {
        self.lines.get(replica).is_some_and(|line| line.cut_off)
    }

    /// Cuts a replica off, or ends that. Gives whether that changed anything.
    pub(super) fn cut_off(&mut self, replica: usize, cut_off: bool) -> bool {
        let Some(line) = self.lines.get_mut(replica) else { return false };
        let changed = std::mem::replace(&mut line.cut_off, cut_off) != cut_off;
        line.wake();
        changed
    }

    /// The API server answers nobody until then, and every connection breaks.
    pub(super) fn go_away(&mut self, until: Duration) {
        self.away_until = self.away_until.max(until);
        self.break_connections(None);
    }

    /// Pods cannot be listed until then: an overloaded API server refuses the largest answers first.
    pub(super) fn hide_pods(&mut self, until: Duration) {
        self.pods_hidden_until = self.pods_hidden_until.max(until);
    }

    /// Breaks the connections of one replica, or of all.
    pub(super) fn break_connections(&mut self, replica: Option<usize>) {
        let lines = self.lines.iter_mut().enumerate();
        for (_, line) in lines.filter(|(index, _)| replica.is_none_or(|of| of == *index)) {
            line.broken += 1;
            line.wake();
        }
    }

    /// Everything takes that much longer until then.
    pub(super) fn slow_down(&mut self, extra: Duration, until: Duration) {
        self.slow = Some(Slow { extra, until });
    }

    /// How often the replica's connections were broken so far: a stream remembers it.
    pub(super) fn broken(&self, replica: usize) -> u64 {
        self.lines.get(replica).map_or(0, |line| line.broken)
    }

    /// How stream `number` of a replica stands, that began after so many breaks; it is woken when
    /// that changes.
    pub(super) fn flow(&mut self, replica: usize, number: u64, broken: u64, waker: &Waker) -> Flow {
        let Some(line) = self.lines.get_mut(replica) else { return Flow::Broken };
        if line.broken != broken {
            return Flow::Broken;
        }
        line.streams.insert(number, waker.clone());
        if line.cut_off { Flow::Silent } else { Flow::Flows }
    }

    /// A stream is gone.
    pub(super) fn forget(&mut self, replica: usize, number: u64) {
        if let Some(line) = self.lines.get_mut(replica) {
            line.streams.remove(&number);
        }
    }
}

impl Line {
    fn wake(&mut self) {
        std::mem::take(&mut self.streams).into_values().for_each(Waker::wake);
    }
}
