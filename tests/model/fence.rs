//! One object, its fence, and leaders that never stop.
//!
//! Acquiring the Lease is one step here; how it comes to be one is the model of the Lease. The object
//! may be read and written by any leader that ever was, at any time, and what it sends may arrive
//! after any number of its successors. *Relied on*: a term has drawn conclusions from what it found
//! in the object, by sealing it (or, in protocols without a seal, by reading it). From then on no
//! older term may change it.
//!
//! Conditional writes of a version that is gone are left out: versions never come back, so nothing
//! can ever come of them.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::explore::{Truth, bound, nothing_wrong};

#[path = "fence/tests.rs"]
mod tests;

/// How a term gets its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Epochs {
    /// The resourceVersion of the Lease version that its acquisition replaced.
    LeaseVersion,
    /// One more than what stands in the Lease; a new Lease begins at 1.
    Counter,
    /// The same, but above the fence that stands on the object when the Lease is acquired.
    CounterAboveFence,
}

/// What seals an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seal {
    /// The leader's first write, conditional on the version that it read.
    Write,
    /// A write that changes nothing: an API server leaves the resourceVersion as it was.
    NoOp,
    /// Nothing: reading is enough.
    None,
}

/// Who, besides the object's own version and fence, is to hold stale writes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// Nobody.
    None,
    /// The leader reads the Lease before it sends.
    LeaderReadsLease,
    /// A policy of the API server that knows the Lease from its cache.
    PolicyWithCache,
    /// A webhook that reads the Lease before the write commits.
    Webhook,
}

/// The protocol: which guards there are.
#[derive(Clone, Copy, Debug)]
struct Protocol {
    epochs: Epochs,
    seal: Seal,
    /// Writes carry the resourceVersion that was read.
    version: bool,
    /// The API server refuses an epoch below the stored one.
    epoch_rule: bool,
    /// The API server refuses another nonce under the stored epoch.
    nonce_rule: bool,
    /// Who reads a newer fence than its own never writes again.
    heeds_fence: bool,
    admission: Admission,
    /// Whether people delete the Lease and edit it.
    meddling: bool,
}

/// As it is implemented.
const IMPLEMENTED: Protocol = Protocol {
    epochs: Epochs::LeaseVersion,
    seal: Seal::Write,
    version: true,
    epoch_rule: true,
    nonce_rule: true,
    heeds_fence: true,
    admission: Admission::None,
    meddling: true,
};

/// No guard at all.
const NOTHING: Protocol = Protocol {
    epochs: Epochs::LeaseVersion,
    seal: Seal::None,
    version: false,
    epoch_rule: false,
    nonce_rule: false,
    heeds_fence: false,
    admission: Admission::None,
    meddling: false,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lease {
    /// Absent while zero.
    version: u8,
    holder: u8,
    epoch: u8,
    nonce: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Leader {
    /// Zero for a process that does not lead, or stopped for good. Terms count acquisitions as they
    /// really were; no process knows this number.
    term: u8,
    epoch: u8,
    nonce: u8,
    /// The version of the object that it read last; zero if none.
    read: u8,
    sealed: bool,
    sent: u8,
}

/// A write on its way to the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Write {
    term: u8,
    /// Its place among the writes of its term.
    place: u8,
    seals: bool,
    version: u8,
    epoch: u8,
    nonce: u8,
    admitted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    lease: Lease,
    /// The last version that a Lease had: it grows also when the Lease is deleted and created again.
    lease_version: u8,
    /// What the API server's cache knows of the epoch.
    cached_epoch: u8,
    terms: u8,
    deletions: u8,
    edits: u8,
    /// The object's version and fence.
    version: u8,
    epoch: u8,
    nonce: u8,
    leaders: [Leader; 2],
    under_way: BTreeSet<Write>,
    resends: u8,
    /// The truth: which term, and which of its writes, changed the object last.
    last: (u8, u8),
    /// The truth: the newest term that relied on the object.
    relied: u8,
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Acquire(usize),
    Read(usize),
    Send { leader: usize, seals: bool },
    Admit(Write),
    Arrive { write: Write, again: bool },
    CacheFollows,
    DeleteLease,
    EditLease,
}

struct Fence {
    protocol: Protocol,
    terms: u8,
    /// Writes of one term.
    sends: u8,
    under_way: usize,
    resends: u8,
    /// Whether writes of one term must arrive once and in their order.
    judges_order: bool,
}

impl Fence {
    fn new(protocol: Protocol) -> Self {
        let (sends, under_way) = bound((3, 2), (4, 3));
        Self { protocol, terms: 3, sends, under_way, resends: 1, judges_order: true }
    }

    fn may_send(&self, state: &State, leader: &Leader, at: usize) -> bool {
        let reads_lease = self.protocol.admission == Admission::LeaderReadsLease;
        let holds = usize::from(state.lease.holder) == at && state.lease.nonce == leader.nonce;
        leader.sent < self.sends
            && state.under_way.len() < self.under_way
            && (!reads_lease || holds)
    }

    fn acquire(&self, state: &mut State, at: usize) {
        state.terms += 1;
        if state.lease.version == 0 {
            state.lease_version += 1; // created first, held by nobody
            state.lease = Lease { version: state.lease_version, ..Lease::default() };
        }
        let epoch = match self.protocol.epochs {
            Epochs::LeaseVersion => state.lease.version,
            Epochs::Counter => state.lease.epoch + 1,
            Epochs::CounterAboveFence => state.lease.epoch.max(state.epoch) + 1,
        };
        state.lease_version += 1;
        let holder = u8::try_from(at).expect("there are two places for leaders");
        let nonce = state.terms;
        state.lease = Lease { version: state.lease_version, holder, epoch, nonce };
        let leader = Leader { term: state.terms, epoch, nonce, ..Leader::default() };
        state.leaders[at] = leader;
    }

    fn read(&self, state: &mut State, at: usize) {
        let leader = &mut state.leaders[at];
        if self.protocol.heeds_fence && state.epoch > leader.epoch {
            *leader = Leader::default();
            return;
        }
        // The same epoch under another nonce is left alone.
        if self.protocol.heeds_fence
            && state.epoch == leader.epoch
            && state.nonce != leader.nonce
            && self.protocol.nonce_rule
        {
            *leader = Leader::default();
            return;
        }
        leader.read = state.version;
        leader.sealed = (state.epoch, state.nonce) == (leader.epoch, leader.nonce);
        if self.protocol.seal == Seal::NoOp {
            leader.sealed |= leader.sent > 0;
        }
        if self.protocol.seal == Seal::None {
            state.relied = state.relied.max(leader.term);
        }
    }

    /// Whether a write of this version can ever be taken: versions never come back.
    fn is_dead(&self, state: &State, seals: bool, version: u8) -> bool {
        (self.protocol.version || seals) && version != state.version
    }

    /// Whether the API server takes the write.
    fn takes(&self, state: &State, write: &Write) -> bool {
        let p = &self.protocol;
        let cached = p.admission == Admission::PolicyWithCache && write.epoch < state.cached_epoch;
        let conflict = self.is_dead(state, write.seals, write.version);
        let older = p.epoch_rule && write.epoch < state.epoch;
        let foreign = p.nonce_rule && write.epoch == state.epoch && write.nonce != state.nonce;
        !(cached || conflict || older || foreign)
    }

    fn arrive(&self, state: &mut State, write: &Write) {
        if !self.takes(state, write) {
            return;
        }
        if write.term < state.last.0 {
            state.wrong = Some("an older term overwrote a newer one");
        } else if write.term < state.relied {
            state.wrong = Some("an older term wrote after a newer one had relied on the object");
        } else if self.judges_order && write.term == state.last.0 && write.place <= state.last.1 {
            state.wrong = Some("a write arrived twice, or after a later one of its term");
        }
        if write.seals {
            state.relied = state.relied.max(write.term);
            if self.protocol.seal == Seal::NoOp {
                return;
            }
        }
        state.version += 1;
        state.last = (write.term, write.place);
        let carries = write.seals || self.protocol.epoch_rule;
        if carries {
            (state.epoch, state.nonce) = (write.epoch, write.nonce);
        }
    }
}

impl Model for Fence {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lease: Lease::default(),
            lease_version: 0,
            cached_epoch: 0,
            terms: 0,
            deletions: 0,
            edits: 0,
            version: 1,
            epoch: 0,
            nonce: 0,
            leaders: [Leader::default(), Leader::default()],
            under_way: BTreeSet::new(),
            resends: 0,
            last: (0, 0),
            relied: 0,
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.wrong.is_some() {
            return;
        }
        for (at, leader) in state.leaders.iter().enumerate() {
            if state.terms < self.terms {
                actions.push(Action::Acquire(at));
            }
            if leader.term == 0 {
                continue;
            }
            actions.push(Action::Read(at));
            let seals = self.protocol.seal != Seal::None && !leader.sealed;
            let dead = self.is_dead(state, seals, leader.read);
            if leader.read != 0 && !dead && self.may_send(state, leader, at) {
                actions.push(Action::Send { leader: at, seals });
            }
        }
        for write in &state.under_way {
            if self.protocol.admission == Admission::Webhook && !write.admitted {
                actions.push(Action::Admit(write.clone()));
                continue;
            }
            actions.push(Action::Arrive { write: write.clone(), again: false });
            if state.resends < self.resends {
                actions.push(Action::Arrive { write: write.clone(), again: true });
            }
        }
        if self.protocol.admission == Admission::PolicyWithCache
            && state.cached_epoch != state.lease.epoch
        {
            actions.push(Action::CacheFollows);
        }
        if self.protocol.meddling && state.lease.version != 0 {
            if state.deletions == 0 {
                actions.push(Action::DeleteLease);
            }
            if state.edits == 0 {
                actions.push(Action::EditLease);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Acquire(at) => self.acquire(&mut state, at),
            Action::Read(at) => self.read(&mut state, at),
            Action::Send { leader: at, seals } => {
                let leader = &mut state.leaders[at];
                leader.sent += 1;
                state.under_way.insert(Write {
                    term: leader.term,
                    place: leader.sent,
                    seals,
                    version: leader.read,
                    epoch: leader.epoch,
                    nonce: leader.nonce,
                    admitted: false,
                });
            }
            Action::Admit(write) => {
                state.under_way.remove(&write);
                if write.epoch == state.lease.epoch {
                    state.under_way.insert(Write { admitted: true, ..write });
                }
            }
            Action::Arrive { write, again } => {
                if again {
                    state.resends += 1; // it stays under way
                } else {
                    state.under_way.remove(&write);
                }
                self.arrive(&mut state, &write);
            }
            Action::CacheFollows => state.cached_epoch = state.lease.epoch,
            Action::DeleteLease => {
                state.deletions += 1;
                state.lease = Lease::default();
            }
            Action::EditLease => {
                // Whatever a person writes into the annotation.
                state.edits += 1;
                state.lease_version += 1;
                state.lease.version = state.lease_version;
                state.lease.epoch = 0;
            }
        }
        let version = state.version;
        let conditional = |write: &Write| self.protocol.version || write.seals;
        state.under_way.retain(|write| !conditional(write) || write.version == version);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            nothing_wrong(),
            Property::sometimes("a newer term writes", |_, state: &State| state.last.0 >= 2),
            Property::sometimes("a term writes after its seal", |_, state: &State| {
                state.last.1 >= 2
            }),
        ]
    }
}

impl Truth for Fence {
    fn wrong(state: &State) -> Option<&'static str> {
        state.wrong
    }
}
