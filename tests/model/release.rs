//! Prepare, commit, release: one claimed occurrence and its Job, with others who meddle with it.
//!
//! The Job controller makes a pod of a Job that is not suspended, late, even after the Job is gone;
//! it forgets the pod of a Job that is suspended again. People suspend and resume the Job and delete
//! it. Leaders may be stale for ever and every request may be late. The truth is how often the
//! operator let a pod start, and whether one may still come when the end is recorded.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::explore::{Truth, bound, must_fail, must_hold, nothing_wrong};

/// Which guards there are.
#[derive(Clone, Copy, Debug)]
struct Protocol {
    /// Only the Job whose uid stands in the sealed parent is released; otherwise the one of the name.
    commits: bool,
    /// The release marks the Job, and a suspended Job with the mark is never released again.
    marks: bool,
    /// A release is conditional on the version that was read.
    conditional: bool,
    /// A released Job is deleted only after its start was seen. If it vanished before, its absence
    /// counts only after a wait, in which the controller makes the pod that it may still make.
    waits_for_start: bool,
    /// The end of a run that was not seen to finish needs a requested stop and no pod.
    proves_end: bool,
}

const IMPLEMENTED: Protocol = Protocol {
    commits: true,
    marks: true,
    conditional: true,
    waits_for_start: true,
    proves_end: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Parent {
    version: u8,
    fence: u8,
    handle: u8,
    stop: bool,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Job {
    uid: u8,
    version: u8,
    suspended: bool,
    /// The annotation of the release.
    marked: bool,
    /// `status.startTime`: the controller has made its pod.
    started: bool,
    finished: bool,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Request {
    Create,
    Parent { term: u8, over: u8, next: Parent },
    Release { uid: u8, version: u8 },
    Delete { uid: u8, version: u8 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Leader {
    term: u8,
    /// What it has read of both; a Job without its own write since may be old.
    parent: Option<Parent>,
    job: Option<Job>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    terms: u8,
    parent: Parent,
    job: Option<Job>,
    uids: u8,
    /// The Job of which the controller is about to make a pod; zero if none.
    controller: u8,
    /// The Job whose pod runs; zero if none.
    pod: u8,
    leaders: [Leader; 2],
    under_way: BTreeSet<Request>,
    /// Suspend, resume, delete, cancel: what a person may still do.
    person: [u8; 4],
    cancel: bool,
    /// Uids of the Jobs that the operator released.
    released: BTreeSet<u8>,
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Acquire(usize),
    Read(usize),
    Send(usize, Request),
    Arrive(Request),
    ControllerSees,
    PodStarts,
    PodEnds,
    PersonSuspends,
    PersonResumes,
    PersonDeletes,
    PersonCancels,
}

struct Releases {
    protocol: Protocol,
    terms: u8,
    under_way: usize,
    uids: u8,
    versions: u8,
}

impl Releases {
    fn new(protocol: Protocol) -> Self {
        let (under_way, uids, versions) = bound((1, 2, 8), (2, 3, 10));
        Self { protocol, terms: 2, under_way, uids, versions }
    }

    fn sends(&self, state: &State, leader: Leader) -> Vec<Request> {
        let Some(parent) = leader.parent.filter(|parent| !parent.ended) else { return Vec::new() };
        let term = leader.term;
        let write = |change: &dyn Fn(&mut Parent)| {
            let mut next = Parent { version: parent.version + 1, fence: term, ..parent };
            change(&mut next);
            Request::Parent { term, over: parent.version, next }
        };
        if parent.fence != term {
            return vec![write(&|_| {})];
        }
        if state.cancel && !parent.stop {
            return vec![write(&|next| next.stop = true)];
        }
        let stop = parent.stop;
        let end = write(&|next| next.ended = true);
        match leader.job {
            // Cancelled before anything was committed.
            _ if stop && parent.handle == 0 => vec![end],
            None if parent.handle == 0 => vec![Request::Create],
            // Absence proves nothing by itself: the pod may run, or may still come.
            None if !self.protocol.proves_end => vec![end],
            None if stop && state.pod == 0 => {
                let waited = state.controller == 0 || !self.protocol.waits_for_start;
                if waited { vec![end] } else { Vec::new() }
            }
            None => Vec::new(),
            Some(job) if parent.handle == 0 && self.protocol.commits => {
                vec![write(&|next| next.handle = job.uid)]
            }
            Some(job) if parent.handle != job.uid && self.protocol.commits => Vec::new(),
            Some(job) if job.finished => vec![end],
            Some(job) if stop => {
                let held = job.suspended && !job.marked;
                if held || job.started || !self.protocol.waits_for_start {
                    vec![Request::Delete { uid: job.uid, version: job.version }]
                } else {
                    Vec::new()
                }
            }
            Some(job) if job.suspended && !(job.marked && self.protocol.marks) => {
                vec![Request::Release { uid: job.uid, version: job.version }]
            }
            // Someone else suspended it: it is stopped, and never released again.
            Some(job) if job.suspended => vec![write(&|next| next.stop = true)],
            Some(_) => Vec::new(),
        }
    }

    fn is_dead(&self, state: &State, request: &Request) -> bool {
        match *request {
            Request::Create => state.job.is_some(),
            Request::Parent { term, over, .. } => {
                state.parent.version != over || state.parent.fence > term || state.parent.ended
            }
            Request::Release { uid, version } => !state.job.is_some_and(|job| {
                let same = job.uid == uid && job.version == version;
                same || !self.protocol.conditional
            }),
            Request::Delete { uid, version } => {
                !state.job.is_some_and(|job| job.uid == uid && job.version == version)
            }
        }
    }

    fn arrive(&self, state: &mut State, request: Request) {
        if self.is_dead(state, &request) {
            return;
        }
        match request {
            Request::Create => {
                state.uids += 1;
                state.job = Some(Job {
                    uid: state.uids,
                    version: 1,
                    suspended: true,
                    marked: false,
                    started: false,
                    finished: false,
                });
            }
            Request::Parent { next, .. } => {
                let acts = state.pod != 0 || state.controller != 0;
                let free = state.job.is_some_and(|job| !job.suspended && !job.finished);
                if next.ended && (acts || free) && next.handle != 0 {
                    state.wrong = Some("an end was recorded while the run could act");
                }
                state.parent = next;
            }
            Request::Release { .. } => {
                let Some(job) = state.job.as_mut() else { return };
                if !job.suspended {
                    return;
                }
                (job.suspended, job.marked) = (false, true);
                job.version += 1;
                if !state.released.insert(job.uid) {
                    state.wrong = Some("a run was released again");
                } else if state.released.len() > 1 {
                    state.wrong = Some("two runs were released");
                } else if state.parent.ended {
                    state.wrong = Some("a run was released after the end");
                }
            }
            Request::Delete { .. } => {
                let foreground = state.job.map_or(0, |job| job.uid);
                if state.pod == foreground {
                    state.pod = 0; // its pod goes first
                }
                state.job = None;
            }
        }
    }
}

impl Model for Releases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            terms: 0,
            parent: Parent { version: 1, fence: 0, handle: 0, stop: false, ended: false },
            job: None,
            uids: 0,
            controller: 0,
            pod: 0,
            leaders: [Leader::default(); 2],
            under_way: BTreeSet::new(),
            person: [1; 4],
            cancel: false,
            released: BTreeSet::new(),
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.wrong.is_some() {
            return;
        }
        for (at, leader) in state.leaders.iter().enumerate() {
            if state.terms < self.terms && usize::from(state.terms) == at {
                actions.push(Action::Acquire(at));
            }
            if leader.term == 0 {
                continue;
            }
            actions.push(Action::Read(at));
            if state.under_way.len() < self.under_way {
                let sends = self.sends(state, *leader).into_iter();
                let alive = sends.filter(|request| !self.is_dead(state, request));
                actions.extend(alive.map(|request| Action::Send(at, request)));
            }
        }
        actions.extend(state.under_way.iter().map(|request| Action::Arrive(*request)));
        if state.controller != 0 {
            actions.push(Action::PodStarts);
        }
        if state.pod != 0 {
            actions.push(Action::PodEnds);
        }
        if state.person[3] > 0 {
            actions.push(Action::PersonCancels);
        }
        let Some(job) = state.job.filter(|job| !job.finished) else { return };
        if !job.suspended && !job.started && state.controller == 0 {
            actions.push(Action::ControllerSees);
        }
        if !job.suspended && state.person[0] > 0 {
            actions.push(Action::PersonSuspends);
        }
        if job.suspended && job.marked && state.person[1] > 0 {
            actions.push(Action::PersonResumes);
        }
        if state.person[2] > 0 {
            actions.push(Action::PersonDeletes);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Acquire(at) => {
                state.terms += 1;
                state.leaders[at].term = state.terms;
            }
            Action::Read(at) => {
                let leader = &mut state.leaders[at];
                if state.parent.fence > leader.term {
                    *leader = Leader::default(); // lost
                } else {
                    (leader.parent, leader.job) = (Some(state.parent), state.job);
                }
            }
            Action::Send(_, request) => {
                state.under_way.insert(request);
            }
            Action::Arrive(request) => {
                state.under_way.remove(&request);
                self.arrive(&mut state, request);
            }
            Action::ControllerSees => state.controller = state.job?.uid,
            Action::PodStarts => {
                // The pod comes although the Job may be gone; a Job that stands is marked started.
                state.pod = state.controller;
                state.controller = 0;
                if let Some(job) = state.job.as_mut().filter(|job| job.uid == state.pod) {
                    if job.suspended {
                        state.pod = 0; // seen in time
                    } else {
                        job.started = true;
                        job.version += 1;
                    }
                }
            }
            Action::PodEnds => {
                if let Some(job) = state.job.as_mut().filter(|job| job.uid == state.pod) {
                    job.finished = true;
                    job.version += 1;
                }
                state.pod = 0;
            }
            Action::PersonSuspends => {
                state.person[0] -= 1;
                let job = state.job.as_mut()?;
                // The controller deletes the pod and forgets it.
                (job.suspended, job.started) = (true, false);
                job.version += 1;
                state.pod = 0;
            }
            Action::PersonResumes => {
                state.person[1] -= 1;
                let job = state.job.as_mut()?;
                job.suspended = false;
                job.version += 1;
            }
            Action::PersonDeletes => {
                state.person[2] -= 1;
                state.job = None; // without its pod, which runs on
            }
            Action::PersonCancels => {
                state.person[3] -= 1;
                state.cancel = true;
            }
        }
        let now = state.clone();
        state.under_way.retain(|request| !self.is_dead(&now, request));
        (state != *last).then_some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.uids <= self.uids
            && state.parent.version <= self.versions
            && state.job.is_none_or(|job| job.version <= self.versions)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            nothing_wrong(),
            Property::sometimes("a run finishes and its end is recorded", |_, state: &State| {
                state.parent.ended && state.job.is_some_and(|job| job.finished)
            }),
            Property::sometimes("a run is cancelled midway", |_, state: &State| {
                state.parent.ended && state.job.is_none() && !state.released.is_empty()
            }),
            Property::sometimes("a later term ends it", |_, state: &State| {
                state.parent.ended && state.parent.fence == 2 && state.parent.handle != 0
            }),
        ]
    }
}

impl Truth for Releases {
    fn wrong(state: &State) -> Option<&'static str> {
        state.wrong
    }
}

#[test]
fn a_committed_run_is_released_once_and_ends_with_proof() {
    must_hold("release, as implemented", Releases::new(IMPLEMENTED));
}

#[test]
fn without_a_guard_of_the_release_a_run_starts_twice_or_outlives_its_end() {
    for (what, protocol) in [
        ("no commit", Protocol { commits: false, ..IMPLEMENTED }),
        ("no mark of the release", Protocol { marks: false, ..IMPLEMENTED }),
        ("unconditional release", Protocol { conditional: false, ..IMPLEMENTED }),
        ("deletion before the start was seen", Protocol { waits_for_start: false, ..IMPLEMENTED }),
        ("absence taken for the end", Protocol { proves_end: false, ..IMPLEMENTED }),
    ] {
        must_fail(&format!("release, {what}"), Releases::new(protocol));
    }
}
