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

/// What a leader sends, from what it has in its caches and from what it reads live.
struct Decision<'a> {
    protocol: &'a Protocol,
    leader: &'a Leader,
    live: &'a State,
    requests: Vec<Request>,
}

impl Decision<'_> {
    fn schedule(&mut self, read: Schedule, change: impl Fn(&mut Schedule)) {
        let term = self.leader.term;
        let mut next = Schedule { version: read.version + 1, fence: term, ..read };
        change(&mut next);
        self.requests.push(Request::Schedule { term, over: read.version, next });
    }

    fn occurrence(&mut self, read: Occurrence, change: impl Fn(&mut Occurrence)) {
        let term = self.leader.term;
        let mut next = Occurrence { version: read.version + 1, fence: term, ..read };
        change(&mut next);
        self.requests.push(Request::Occurrence { term, over: read.version, next });
    }

    fn all(mut self) -> Vec<Request> {
        match self.leader.schedule {
            None if self.live.schedule.is_none() => self.without_schedule(),
            None => {}
            Some(schedule) if !schedule.taken_up => self.take_over(schedule),
            Some(schedule) => self.with_schedule(schedule, self.leader.occurrence),
        }
        self.requests
    }

    /// Its open occurrences are sealed first, then the schedule claims what was prepared.
    fn take_over(&mut self, schedule: Schedule) {
        let term = self.leader.term;
        let occurrence = self.live.occurrence;
        let open = occurrence.filter(|o| !o.ended);
        if let Some(open) = open.filter(|o| self.protocol.takeover_seals && o.fence != term) {
            self.occurrence(open, |_| {});
            return;
        }
        let prepared = open.filter(|o| o.handle != 0 && self.protocol.takeover_claims);
        let fenced = occurrence.is_some_and(|o| o.fence != 0 && o.fence != term);
        self.schedule(schedule, |next| {
            next.taken_up = true;
            next.claim = prepared.map(|o| o.uid);
            next.marked |= fenced;
            next.decided = !next.wants;
        });
    }

    fn without_schedule(&mut self) {
        let Some(o) = self.leader.occurrence.filter(|o| !o.ended) else { return };
        if o.fence != self.leader.term {
            self.occurrence(o, |_| {}); // of one by hand, this seal is the decision to start
        } else if o.by_hand || o.handle != 0 {
            self.start(o);
        } else {
            self.occurrence(o, |next| next.ended = true); // ScheduleDeleted
        }
    }

    fn with_schedule(&mut self, schedule: Schedule, occurrence: Option<Occurrence>) {
        let sealed = schedule.fence == self.leader.term;
        if !sealed {
            self.schedule(schedule, |_| {});
        }
        if schedule.wants && !schedule.decided {
            self.plan(schedule, occurrence);
        }
        let Some(o) = occurrence else {
            self.without_occurrence(schedule);
            return;
        };
        let claimed = schedule.claim.is_some_and(|uid| uid == o.uid || uid == ANY);
        if sealed && !o.ended && (claimed || self.protocol.order == Order::NoClaim) {
            self.start(o);
        }
        if o.ended {
            self.after_the_end(schedule, o, claimed, sealed);
        } else if o.handle != 0 {
            if sealed && !claimed {
                self.follow_unclaimed(o);
            }
        } else if o.by_hand && !claimed && schedule.claim.is_none() {
            if schedule.marked {
                // RecordPruned: it may have run.
                if sealed {
                    self.occurrence(o, |next| next.ended = true);
                }
            } else {
                // The same pass records what the plan says of the instant.
                self.schedule(schedule, |next| {
                    next.claim = Some(o.uid);
                    next.decided = true;
                });
            }
        }
        if schedule.claim.is_some_and(|uid| uid != o.uid && uid != ANY) {
            self.without_occurrence(schedule); // another object of the name
        }
    }

    /// The instant is due: created inert, then claimed by uid.
    fn plan(&mut self, schedule: Schedule, occurrence: Option<Occurrence>) {
        let first = self.protocol.order == Order::ClaimThenCreate;
        match occurrence {
            _ if schedule.claim.is_some() => self.schedule(schedule, |next| next.decided = true),
            None if schedule.marked => self.schedule(schedule, |next| next.decided = true),
            Some(o) if o.ended => self.schedule(schedule, |next| next.decided = true),
            _ if first => self.schedule(schedule, |next| {
                next.decided = true;
                next.claim = Some(ANY);
            }),
            None => self.requests.push(Request::CreateOccurrence),
            Some(o) => self.schedule(schedule, |next| {
                next.decided = true;
                next.claim = Some(o.uid);
            }),
        }
    }

    /// A claimed object is gone: its runs are stopped, then the claim goes.
    fn without_occurrence(&mut self, schedule: Schedule) {
        let Some(uid) = schedule.claim else { return };
        if uid == ANY {
            if schedule.fence == self.leader.term {
                self.requests.push(Request::CreateOccurrence);
            }
            return;
        }
        if self.live.occurrence.is_some_and(|o| o.uid == uid) {
            return; // the cache is behind
        }
        match self.live.job.filter(|job| job.parent == uid) {
            Some(job) if self.protocol.keeps_claim => {
                if !job.released || job.finished {
                    self.delete(job);
                }
            }
            _ => self.schedule(schedule, |next| next.claim = None),
        }
    }

    fn delete(&mut self, job: Job) {
        self.requests.push(Request::DeleteJob { uid: job.uid, version: job.version });
    }

    /// Prepare, commit, release, follow to the end.
    fn start(&mut self, o: Occurrence) {
        let commits = self.protocol.commits;
        match self.live.job {
            None if o.handle == 0 => self.requests.push(Request::CreateJob { parent: o.uid }),
            None => {} // nobody knows how it ended
            Some(job) if job.parent != o.uid => {
                if !job.released || job.finished {
                    self.delete(job); // left over from another object of the name
                }
            }
            Some(job) if o.handle == 0 && commits => {
                self.occurrence(o, |next| next.handle = job.uid);
            }
            Some(job) if o.handle != job.uid && commits => {}
            Some(_) if o.fence != self.leader.term => self.occurrence(o, |_| {}),
            Some(job) if job.finished => self.occurrence(o, |next| next.ended = true),
            Some(job) if !job.released => {
                self.requests.push(Request::Release { uid: job.uid, version: job.version });
            }
            Some(_) => {}
        }
    }

    /// Committed, and its claim is gone: what is held is stopped, what runs is followed to its end.
    fn follow_unclaimed(&mut self, o: Occurrence) {
        match self.live.job.filter(|job| job.uid == o.handle) {
            Some(job) if !job.released => self.delete(job),
            Some(job) if !job.finished => {}
            _ => self.occurrence(o, |next| next.ended = true),
        }
    }

    fn after_the_end(&mut self, schedule: Schedule, o: Occurrence, claimed: bool, sealed: bool) {
        if claimed {
            self.schedule(schedule, |next| next.claim = None);
        } else if schedule.claim.is_none() && schedule.decided && !schedule.marked {
            if self.protocol.marks_before_pruning {
                self.schedule(schedule, |next| next.marked = true);
            } else if sealed {
                let (uid, version) = (o.uid, o.version);
                self.requests.push(Request::DeleteOccurrence { uid, version });
            }
        } else if schedule.marked && sealed && schedule.claim.is_none() {
            self.requests.push(Request::DeleteOccurrence { uid: o.uid, version: o.version });
        }
        if let Some(job) = self.live.job
            && sealed
            && job.uid != o.handle
            && (!job.released || job.finished)
        {
            self.delete(job); // prepared for nothing
        }
    }
}

/// A planned occurrence whose instant is decided without it.
fn is_ghost(schedule: &Schedule, o: &Occurrence) -> bool {
    let claimed = schedule.claim == Some(o.uid) || schedule.claim == Some(ANY);
    !o.by_hand && !o.ended && o.handle == 0 && schedule.taken_up && schedule.decided && !claimed
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
            && is_ghost(&now, &seen)
        {
            let next =
                Occurrence { version: seen.version + 1, fence: leader.term, ended: true, ..seen };
            requests.push(Request::Occurrence { term: leader.term, over: seen.version, next });
        }
        requests.retain(|request| !is_dead(state, request));
        requests
    }
}

/// Whether nothing can ever come of a request: its version or uid is gone, or its term outranked.
fn is_dead(state: &State, request: &Request) -> bool {
    match *request {
        Request::CreateOccurrence | Request::CreateJob { .. } => false,
        Request::Schedule { term, over, next } => !state
            .schedule
            .is_some_and(|now| now.uid == next.uid && now.version == over && now.fence <= term),
        Request::Occurrence { term, over, next } => !state.occurrence.is_some_and(|now| {
            now.uid == next.uid && now.version == over && now.fence <= term && !now.ended
        }),
        Request::Release { uid, version } | Request::DeleteJob { uid, version } => {
            !state.job.is_some_and(|job| job.uid == uid && job.version == version)
        }
        Request::DeleteOccurrence { uid, version } => {
            !state.occurrence.is_some_and(|o| o.uid == uid && o.version == version)
        }
    }
}

fn arrive(state: &mut State, request: Request) {
    if is_dead(state, &request) {
        return;
    }
    match request {
        Request::CreateOccurrence => {
            if state.occurrence.is_none() {
                create_occurrence(state, false);
            }
        }
        Request::CreateJob { parent } => {
            if state.job.is_none() {
                state.uids += 1;
                let (uid, version) = (state.uids, 1);
                state.job = Some(Job { uid, version, parent, released: false, finished: false });
            }
        }
        Request::Schedule { term, next, .. } => {
            let open = state.occurrence.filter(|o| o.handle != 0 && !o.ended);
            let takes_over = state.schedule.is_some_and(|now| !now.taken_up);
            if let Some(open) = open
                && takes_over
                && state.committed_by < term
                && next.claim != Some(open.uid)
            {
                state.wrong =
                    Some("a schedule was taken over without what an older term had begun");
            }
            let claimed = state.schedule.and_then(|now| now.claim.filter(|_| now.taken_up));
            let acts = state.job.filter(|job| job.released && !job.finished);
            if let Some(job) = acts
                && claimed == Some(job.parent)
                && next.claim != claimed
            {
                state.wrong = Some("a claim was dropped while its run could act");
            }
            state.schedule = Some(next);
        }
        Request::Occurrence { term, next, .. } => {
            let commits = state.occurrence.is_some_and(|o| o.handle == 0) && next.handle != 0;
            let unknown = state
                .schedule
                .is_some_and(|s| s.taken_up && s.fence > term && s.claim != Some(next.uid));
            if commits && unknown {
                state.wrong =
                    Some("an older term committed a run that the newer one knows nothing of");
            }
            if commits {
                state.committed_by = term;
            }
            let started = state
                .job
                .is_some_and(|job| job.uid == next.handle && job.released && !job.finished);
            if next.ended && started {
                state.wrong = Some("an end was recorded while the run could act");
            }
            let claimed = state.schedule.is_some_and(|s| s.taken_up && s.claim == Some(next.uid));
            if next.ended && next.handle == 0 && claimed {
                state.wrong = Some("a claimed occurrence was ended as if nobody wanted it");
            }
            state.taken_over_midway |= next.handle != 0 && next.fence > 1;
            let ended_by_run = state.job.is_some_and(|job| job.uid == next.handle && job.finished);
            state.ended |= next.ended && ended_by_run;
            state.occurrence = Some(next);
        }
        Request::Release { .. } => release(state),
        Request::DeleteJob { .. } => state.job = None,
        Request::DeleteOccurrence { .. } => state.occurrence = None,
    }
}

fn release(state: &mut State) {
    let Some(job) = state.job.as_mut().filter(|job| !job.released) else { return };
    job.released = true;
    job.version += 1;
    if job.parent == state.asked_again && !state.ran_again {
        state.ran_again = true;
        return;
    }
    if state.ran {
        state.wrong = Some("the instant ran twice");
    } else if state.ended {
        state.wrong = Some("the instant ran after its end");
    }
    state.ran = true;
}

fn create_occurrence(state: &mut State, by_hand: bool) {
    state.uids += 1;
    let uid = state.uids;
    state.occurrence =
        Some(Occurrence { uid, version: 1, fence: 0, by_hand, handle: 0, ended: false });
}

fn new_schedule(uid: u8, wants: bool) -> Schedule {
    Schedule {
        uid,
        version: 1,
        fence: 0,
        taken_up: false,
        wants,
        decided: false,
        claim: None,
        marked: false,
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
                actions.extend([true, false].map(|wants| Action::PersonCreatesSchedule { wants }))
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
