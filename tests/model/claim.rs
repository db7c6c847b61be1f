//! Create inert, then claim, then start: one schedule, one instant, one occurrence, one Job.
//!
//! ```text
//!   create occurrence ─> claim its uid ─> prepare Job ─> commit its uid ─> release ─> end
//!   (inert)              (CAS, schedule)   (inert)        (CAS, occurrence)           ─> drop claim
//!                                                                                     ─> mark, prune
//! ```
//!
//! Leaders may be stale for ever and every request may be late. A person deletes the occurrence,
//! makes one by hand, deletes the schedule and creates it again; finished and unreleased Jobs whose
//! owner is gone are collected. The truth is kept beside: how often the instant ran. It may run
//! again only where a person deleted its record and then asked for it by hand.
//!
//! What a leader knows of schedule and occurrence it has from caches, which may be old; what it does
//! not write on condition it reads live before it decides. That an answer is late is covered by the
//! request being late.
//!
//! Conditional requests of a version that is gone are left out: versions never come back.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::explore::{Truth, bound, must_fail, must_hold, nothing_wrong};

#[path = "claim/leader.rs"]
mod leader;
#[path = "claim/truth.rs"]
mod truth;

use leader::{Decision, is_ghost};
use truth::{arrive, create_occurrence, is_dead, new_schedule};

/// What a claim says, and when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// As implemented: the object first, then a claim of its uid.
    CreateThenClaim,
    /// A claim of the instant, then the object.
    ClaimThenCreate,
    /// No claim: whoever finds an occurrence starts it.
    NoClaim,
}

/// Which guards there are.
#[derive(Clone, Copy, Debug)]
struct Protocol {
    order: Order,
    /// Before a new schedule is sealed, its open occurrences are.
    takeover_seals: bool,
    /// A new schedule claims what was prepared.
    takeover_claims: bool,
    /// The mark is advanced before records are removed.
    marks_before_pruning: bool,
    /// The claim of a deleted occurrence stays until its runs are over.
    keeps_claim: bool,
    /// Only the Job whose uid is committed is released.
    commits: bool,
}

const IMPLEMENTED: Protocol = Protocol {
    order: Order::CreateThenClaim,
    takeover_seals: true,
    takeover_claims: true,
    marks_before_pruning: true,
    keeps_claim: true,
    commits: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Schedule {
    uid: u8,
    version: u8,
    fence: u8,
    /// Whether a leader has taken it up (`status.observed` is its own).
    taken_up: bool,
    /// Whether the instant is due by it: not if it was created later.
    wants: bool,
    /// Whether the instant is decided (`lastScheduleTime`).
    decided: bool,
    /// The claimed uid; [`ANY`] for a claim without one.
    claim: Option<u8>,
    /// Whether the mark covers the instant (`prunedThrough`).
    marked: bool,
}

/// A claim that names no uid.
const ANY: u8 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Occurrence {
    uid: u8,
    version: u8,
    fence: u8,
    by_hand: bool,
    /// The committed handle; zero if none.
    handle: u8,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Job {
    uid: u8,
    version: u8,
    parent: u8,
    released: bool,
    finished: bool,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Request {
    CreateOccurrence,
    CreateJob {
        parent: u8,
    },
    /// PUT of the schedule's status in place of this version.
    Schedule {
        term: u8,
        over: u8,
        next: Schedule,
    },
    /// PUT of the occurrence's status.
    Occurrence {
        term: u8,
        over: u8,
        next: Occurrence,
    },
    Release {
        uid: u8,
        version: u8,
    },
    DeleteJob {
        uid: u8,
        version: u8,
    },
    DeleteOccurrence {
        uid: u8,
        version: u8,
    },
}

/// A leader, or, with term 0, a process that leads no more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Leader {
    term: u8,
    /// Its caches.
    schedule: Option<Schedule>,
    occurrence: Option<Occurrence>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    terms: u8,
    schedule: Option<Schedule>,
    occurrence: Option<Occurrence>,
    job: Option<Job>,
    uids: u8,
    leaders: [Leader; 2],
    under_way: BTreeSet<Request>,
    /// What a person may still do: delete the occurrence, make one, delete the schedule, create it.
    person: [u8; 4],
    /// The truth.
    ran: bool,
    ended: bool,
    /// The object that a person made after having deleted one before; zero if none. It may run too.
    asked_again: u8,
    ran_again: bool,
    taken_over_midway: bool,
    /// The term that committed the handle of the present occurrence.
    committed_by: u8,
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Acquire(usize),
    ReadSchedule(usize),
    ReadOccurrence(usize),
    Send(usize, Request),
    Arrive(Request),
    JobFinishes,
    JobIsCollected,
    PersonDeletesOccurrence,
    PersonCreatesOccurrence,
    PersonDeletesSchedule,
    PersonCreatesSchedule { wants: bool },
}

struct Claims {
    protocol: Protocol,
    terms: u8,
    under_way: usize,
    person: [u8; 4],
    /// Objects that are ever created.
    uids: u8,
    /// Versions of one object.
    versions: u8,
}

impl Claims {
    fn new(protocol: Protocol, person: [u8; 4]) -> Self {
        let (terms, under_way, uids, versions) = bound((2, 1, 5, 6), (2, 2, 6, 9));
        Self { protocol, terms, under_way, person, uids, versions }
    }

    fn sends(&self, state: &State, at: usize) -> Vec<Request> {
        let leader = &state.leaders[at];
        let protocol = &self.protocol;
        let decision = Decision { protocol, leader, live: state, requests: Vec::new() };
        let mut requests = decision.all();
        // A ghost is judged on the schedule as it is, after the occurrence was seen.
        if let (Some(now), Some(seen)) = (state.schedule, leader.occurrence)
            && now.fence == leader.term
            && is_ghost(&now, seen)
        {
            let next =
                Occurrence { version: seen.version + 1, fence: leader.term, ended: true, ..seen };
            requests.push(Request::Occurrence { term: leader.term, over: seen.version, next });
        }
        requests.retain(|request| !is_dead(state, request));
        requests
    }
}

impl Model for Claims {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            terms: 0,
            schedule: Some(new_schedule(1, true)),
            occurrence: None,
            job: None,
            uids: 1,
            leaders: [Leader::default(), Leader::default()],
            under_way: BTreeSet::new(),
            person: self.person,
            ran: false,
            ended: false,
            asked_again: 0,
            ran_again: false,
            taken_over_midway: false,
            committed_by: 0,
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.wrong.is_some() {
            return;
        }
        for (at, leader) in state.leaders.iter().enumerate() {
            // The first two terms are those of two processes; a third takes the place of either.
            let place = state.terms >= 2 || usize::from(state.terms) == at;
            if state.terms < self.terms && place {
                actions.push(Action::Acquire(at));
            }
            if leader.term == 0 {
                continue;
            }
            if leader.schedule != state.schedule {
                actions.push(Action::ReadSchedule(at));
            }
            if leader.occurrence != state.occurrence {
                actions.push(Action::ReadOccurrence(at));
            }
            if state.under_way.len() < self.under_way {
                let sends = self.sends(state, at).into_iter();
                let fresh = sends.filter(|request| !state.under_way.contains(request));
                actions.extend(fresh.map(|request| Action::Send(at, request)));
            }
        }
        actions.extend(state.under_way.iter().map(|request| Action::Arrive(*request)));
        if let Some(job) = state.job {
            if job.released && !job.finished {
                actions.push(Action::JobFinishes);
            } else if state.occurrence.is_none_or(|o| o.uid != job.parent) {
                actions.push(Action::JobIsCollected);
            }
        }
        let may = |n: usize| state.person[n] > 0;
        match state.occurrence {
            Some(_) if may(0) => actions.push(Action::PersonDeletesOccurrence),
            None if may(1) => actions.push(Action::PersonCreatesOccurrence),
            _ => {}
        }
        match state.schedule {
            Some(_) if may(2) => actions.push(Action::PersonDeletesSchedule),
            None if may(3) => {
                let created = [true, false].map(|wants| Action::PersonCreatesSchedule { wants });
                actions.extend(created);
            }
            _ => {}
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Acquire(at) => {
                state.terms += 1;
                let (term, schedule, occurrence) = (state.terms, state.schedule, state.occurrence);
                state.leaders[at] = Leader { term, schedule, occurrence };
            }
            Action::ReadSchedule(at) => {
                let leader = &mut state.leaders[at];
                leader.schedule = state.schedule;
                if state.schedule.is_some_and(|s| s.fence > leader.term) {
                    *leader = Leader::default(); // lost
                }
            }
            Action::ReadOccurrence(at) => {
                let leader = &mut state.leaders[at];
                leader.occurrence = state.occurrence;
                if state.occurrence.is_some_and(|o| o.fence > leader.term) {
                    *leader = Leader::default();
                }
            }
            Action::Send(_, request) => {
                state.under_way.insert(request);
            }
            Action::Arrive(request) => {
                state.under_way.remove(&request);
                arrive(&mut state, request);
            }
            Action::JobFinishes => {
                let job = state.job.as_mut()?;
                job.finished = true;
                job.version += 1;
            }
            Action::JobIsCollected => state.job = None,
            Action::PersonDeletesOccurrence => {
                state.person[0] -= 1;
                state.occurrence = None;
            }
            Action::PersonCreatesOccurrence => {
                state.person[1] -= 1;
                create_occurrence(&mut state, true);
                if state.person[0] < self.person[0] {
                    state.asked_again = state.uids;
                }
            }
            Action::PersonDeletesSchedule => {
                state.person[2] -= 1;
                state.schedule = None;
            }
            Action::PersonCreatesSchedule { wants } => {
                state.person[3] -= 1;
                state.uids += 1;
                state.schedule = Some(new_schedule(state.uids, wants));
            }
        }
        let now = state.clone();
        state.under_way.retain(|request| !is_dead(&now, request));
        (state != *last).then_some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.uids <= self.uids
            && state.schedule.is_none_or(|s| s.version <= self.versions)
            && state.occurrence.is_none_or(|o| o.version <= self.versions)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            nothing_wrong(),
            Property::sometimes("it runs and ends", |_, state: &State| state.ended),
            Property::sometimes("its record is pruned", |_, state: &State| {
                state.ended
                    && state.occurrence.is_none()
                    && state.schedule.is_some_and(|s| s.marked)
            }),
            Property::sometimes(
                "a later term ends what an earlier one began",
                |_, state: &State| state.ended && state.taken_over_midway,
            ),
        ];
        if self.person[1] > 0 {
            properties.push(Property::sometimes("one by hand runs", |_, state: &State| {
                (state.ran || state.ran_again)
                    && state.occurrence.is_some_and(|o| o.by_hand && o.ended && o.handle != 0)
            }));
        }
        if self.person[3] > 0 {
            properties
                .push(Property::sometimes("a new schedule is taken up", |_, state: &State| {
                    state.schedule.is_some_and(|s| s.uid > 1 && s.taken_up)
                }));
        }
        properties
    }
}

impl Truth for Claims {
    fn wrong(state: &State) -> Option<&'static str> {
        state.wrong
    }
}

/// What a person does: with occurrences, or with the schedule.
const OCCURRENCES: [u8; 4] = [1, 1, 0, 0];
const SCHEDULE: [u8; 4] = [0, 0, 1, 1];
const NOTHING: [u8; 4] = [0; 4];

#[test]
fn an_instant_runs_once_whatever_becomes_of_its_object() {
    must_hold(
        "claim, as implemented, occurrences deleted and made by hand",
        Claims::new(IMPLEMENTED, OCCURRENCES),
    );
}

#[test]
fn an_instant_runs_once_whatever_becomes_of_its_schedule() {
    must_hold(
        "claim, as implemented, the schedule created again",
        Claims::new(IMPLEMENTED, SCHEDULE),
    );
}

#[test]
fn without_a_guard_of_the_claim_an_instant_runs_twice_or_unknown_to_its_schedule() {
    for (what, protocol, person) in [
        ("no claim", Protocol { order: Order::NoClaim, ..IMPLEMENTED }, NOTHING),
        ("claim, then create", Protocol { order: Order::ClaimThenCreate, ..IMPLEMENTED }, NOTHING),
        (
            "a takeover that seals nothing",
            Protocol { takeover_seals: false, ..IMPLEMENTED },
            SCHEDULE,
        ),
        (
            "a takeover that claims nothing",
            Protocol { takeover_claims: false, ..IMPLEMENTED },
            SCHEDULE,
        ),
        (
            "pruning without a mark",
            Protocol { marks_before_pruning: false, ..IMPLEMENTED },
            OCCURRENCES,
        ),
        ("claims dropped at deletion", Protocol { keeps_claim: false, ..IMPLEMENTED }, OCCURRENCES),
        ("release without commit", Protocol { commits: false, ..IMPLEMENTED }, OCCURRENCES),
    ] {
        must_fail(&format!("claim, {what}"), Claims::new(protocol, person));
    }
}
