//! The Lease: who acquires it, with which epoch.
//!
//! Every process may judge the Lease expired at any moment, so clocks are worth nothing here. A
//! request may be late, arrive twice, or its answer may be lost: what a process knows it knows from
//! reading. People delete the Lease and write what they like into it. A process that lost starts
//! again under the same pod name. Conditional writes of a version that is gone are left out: versions
//! never come back.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::explore::{Truth, bound, must_fail, must_hold, nothing_wrong};

/// Which guards there are.
#[derive(Clone, Copy, Debug)]
struct Protocol {
    /// The epoch is the version that is replaced; otherwise one more than the annotation says.
    epoch_is_version: bool,
    /// An acquisition is conditional on the version that was read.
    conditional: bool,
    /// A process recognises its acquisition by the nonce of that attempt; otherwise by its name.
    by_nonce: bool,
    /// It leads only with the epoch that it sent; otherwise with what the annotation says.
    own_epoch: bool,
    /// A renewal is conditional on the version that was read.
    renews_conditionally: bool,
    /// A renewal names the uid, so that it never brings a deleted Lease back.
    renews_with_uid: bool,
}

const IMPLEMENTED: Protocol = Protocol {
    epoch_is_version: true,
    conditional: true,
    by_nonce: true,
    own_epoch: true,
    renews_conditionally: true,
    renews_with_uid: true,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lease {
    /// Tells a Lease that was created again from the one before.
    uid: u8,
    version: u8,
    /// Name of the holder, counted from 1; zero if nobody holds it.
    holder: u8,
    epoch: u8,
    nonce: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Process {
    /// What it read last: never, no Lease, or this one.
    read: Option<Option<Lease>>,
    /// Nonce and epoch of its attempt to acquire; zero if none.
    attempt: (u8, u8),
    /// Whether it leads, with that epoch.
    leads: u8,
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Request {
    /// POST: a Lease that nobody holds.
    Create,
    /// PUT in place of `over`.
    Put { over: Lease, by: u8, epoch: u8, nonce: u8, renews: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    lease: Option<Lease>,
    /// The cluster's revision.
    revision: u8,
    uids: u8,
    nonces: u8,
    processes: [Process; 2],
    under_way: BTreeSet<Request>,
    resends: u8,
    restarts: u8,
    deletions: u8,
    edits: u8,
    /// The truth: epoch and nonce of each acquisition that committed, in order.
    acquired: Vec<(u8, u8)>,
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Read(usize),
    Create,
    Acquire(usize),
    Renew(usize),
    Restart(usize),
    Arrive {
        request: Request,
        again: bool,
    },
    Delete,
    /// A person sets the epoch's annotation to this.
    Edit(u8),
}

struct Leases {
    protocol: Protocol,
    nonces: u8,
    under_way: usize,
    restarts: u8,
    deletions: u8,
    edits: u8,
    revisions: u8,
}

impl Leases {
    fn new(protocol: Protocol) -> Self {
        let (nonces, restarts, deletions, revisions) = bound((3, 1, 1, 5), (4, 1, 1, 7));
        Self { protocol, nonces, under_way: 2, restarts, deletions, edits: 1, revisions }
    }

    fn read(&self, state: &mut State, at: usize) {
        let name = name(at);
        let process = &mut state.processes[at];
        let lease = state.lease;
        process.read = Some(lease);
        let (nonce, epoch) = process.attempt;
        let Some(found) = lease.filter(|_| nonce != 0) else {
            if process.leads != 0 {
                *process = Process::default(); // lost: the Lease is gone
            }
            return;
        };
        let known =
            if self.protocol.by_nonce { found.nonce == nonce } else { found.holder == name };
        let matches = !self.protocol.own_epoch || found.epoch == epoch;
        if process.leads != 0 {
            if !known {
                *process = Process::default();
            }
        } else if known && matches {
            process.leads = if self.protocol.own_epoch { epoch } else { found.epoch };
            let leads = (process.leads, nonce);
            if !state.acquired.contains(&leads) {
                state.wrong =
                    Some("a process leads with an epoch and nonce that it has not acquired");
            }
        }
    }

    /// Whether nothing can ever come of a request.
    fn is_dead(&self, state: &State, request: &Request) -> bool {
        let Request::Put { over, renews, .. } = *request else { return state.lease.is_some() };
        let conditional =
            if renews { self.protocol.renews_conditionally } else { self.protocol.conditional };
        let with_uid = !renews || self.protocol.renews_with_uid;
        match state.lease {
            Some(lease) => conditional && with_uid && lease.version != over.version,
            None => with_uid,
        }
    }

    fn put(&self, state: &mut State, request: &Request) {
        let Request::Put { over, by, epoch, nonce, renews } = *request else { return };
        let (conditional, with_uid) = if renews {
            (self.protocol.renews_conditionally, self.protocol.renews_with_uid)
        } else {
            (self.protocol.conditional, true)
        };
        let uid = match state.lease {
            Some(lease) if conditional && lease.version != over.version => return,
            Some(lease) if with_uid && lease.uid != over.uid => return,
            Some(lease) => lease.uid,
            None if with_uid => return,
            None => {
                state.uids += 1; // a PUT without a uid creates it again
                state.uids
            }
        };
        state.revision += 1;
        state.lease = Some(Lease { uid, version: state.revision, holder: by, epoch, nonce });
        let newest = state.acquired.last().copied().unwrap_or_default();
        if renews {
            if nonce != newest.1 {
                state.wrong = Some("the Lease went back to an older term");
            }
            return;
        }
        if epoch <= newest.0 {
            state.wrong = Some("an epoch is not above all before");
        }
        state.acquired.push((epoch, nonce));
    }
}

/// The name of a pod: the same after a restart.
fn name(at: usize) -> u8 {
    u8::try_from(at + 1).expect("there are two processes")
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lease: None,
            revision: 0,
            uids: 0,
            nonces: 0,
            processes: [Process::default(), Process::default()],
            under_way: BTreeSet::new(),
            resends: 0,
            restarts: 0,
            deletions: 0,
            edits: 0,
            acquired: Vec::new(),
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.wrong.is_some() {
            return;
        }
        let room = state.under_way.len() < self.under_way;
        for (at, process) in state.processes.iter().enumerate() {
            if process.read != Some(state.lease) || (process.leads == 0 && process.attempt.0 != 0) {
                actions.push(Action::Read(at));
            }
            if *process != Process::default() && state.restarts < self.restarts {
                actions.push(Action::Restart(at));
            }
            match process.read {
                Some(None) if room => actions.push(Action::Create),
                Some(Some(_)) if room && process.leads != 0 => actions.push(Action::Renew(at)),
                Some(Some(_)) if room && state.nonces < self.nonces => {
                    actions.push(Action::Acquire(at));
                }
                _ => {}
            }
        }
        for request in &state.under_way {
            actions.push(Action::Arrive { request: request.clone(), again: false });
            if state.resends == 0 {
                actions.push(Action::Arrive { request: request.clone(), again: true });
            }
        }
        if state.lease.is_some() {
            if state.deletions < self.deletions {
                actions.push(Action::Delete);
            }
            if state.edits < self.edits {
                actions.extend([Action::Edit(0), Action::Edit(9)]);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Read(at) => self.read(&mut state, at),
            Action::Create => {
                state.under_way.insert(Request::Create);
            }
            Action::Restart(at) => {
                state.restarts += 1;
                state.processes[at] = Process::default();
            }
            Action::Acquire(at) => {
                let over = state.processes[at].read??;
                state.nonces += 1;
                let nonce = state.nonces;
                let epoch =
                    if self.protocol.epoch_is_version { over.version } else { over.epoch + 1 };
                state.processes[at].attempt = (nonce, epoch);
                state.under_way.insert(Request::Put {
                    over,
                    by: name(at),
                    epoch,
                    nonce,
                    renews: false,
                });
            }
            Action::Renew(at) => {
                let process = &state.processes[at];
                let over = process.read??;
                let (nonce, epoch) = (process.attempt.0, process.leads);
                state.under_way.insert(Request::Put {
                    over,
                    by: name(at),
                    epoch,
                    nonce,
                    renews: true,
                });
            }
            Action::Arrive { request, again } => {
                if again {
                    state.resends += 1;
                } else {
                    state.under_way.remove(&request);
                }
                if request == Request::Create {
                    if state.lease.is_none() {
                        state.revision += 1;
                        state.uids += 1;
                        let (uid, version) = (state.uids, state.revision);
                        state.lease = Some(Lease { uid, version, ..Lease::default() });
                    }
                } else {
                    self.put(&mut state, &request);
                }
            }
            Action::Delete => {
                state.deletions += 1;
                state.lease = None;
            }
            Action::Edit(epoch) => {
                state.edits += 1;
                state.revision += 1;
                let lease = state.lease.as_mut()?;
                (lease.epoch, lease.version) = (epoch, state.revision);
            }
        }
        let now = state.clone();
        state.under_way.retain(|request| !self.is_dead(&now, request));
        (state != *last).then_some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.revision <= self.revisions
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            nothing_wrong(),
            Property::sometimes("three terms", |_, state: &State| state.acquired.len() >= 3),
            Property::sometimes("a new Lease is acquired", |_, state: &State| {
                state.lease.is_some_and(|lease| lease.uid > 1 && lease.nonce != 0)
            }),
            Property::sometimes("two believe that they lead", |_, state: &State| {
                state.processes.iter().all(|process| process.leads != 0)
            }),
        ]
    }
}

impl Truth for Leases {
    fn wrong(state: &State) -> Option<&'static str> {
        state.wrong
    }
}

#[test]
fn each_epoch_of_the_lease_has_one_winner_and_epochs_increase() {
    must_hold("lease, as implemented", Leases::new(IMPLEMENTED));
}

#[test]
fn without_a_guard_of_the_lease_epochs_are_shared_or_go_back() {
    for (what, protocol) in [
        ("epochs that are counted", Protocol { epoch_is_version: false, ..IMPLEMENTED }),
        ("unconditional acquisitions", Protocol { conditional: false, ..IMPLEMENTED }),
        ("acquisitions known by name", Protocol { by_nonce: false, ..IMPLEMENTED }),
        ("epochs believed from the annotation", Protocol { own_epoch: false, ..IMPLEMENTED }),
        ("unconditional renewals", Protocol { renews_conditionally: false, ..IMPLEMENTED }),
        (
            "renewals that bring a deleted Lease back",
            Protocol { renews_with_uid: false, ..IMPLEMENTED },
        ),
    ] {
        must_fail(&format!("lease, {what}"), Leases::new(protocol));
    }
}
