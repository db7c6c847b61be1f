//! What a leader does, from what it has in its caches and from what it reads live.

use super::{ANY, Job, Leader, Occurrence, Order, Protocol, Request, Schedule, State};

/// What a leader sends, from what it has in its caches and from what it reads live.
pub(super) struct Decision<'a> {
    pub(super) protocol: &'a Protocol,
    pub(super) leader: &'a Leader,
    pub(super) live: &'a State,
    pub(super) requests: Vec<Request>,
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

    /// Everything that it may send now.
    pub(super) fn all(mut self) -> Vec<Request> {
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
            // Left over from another object of the name.
            Some(job) if job.parent != o.uid && (!job.released || job.finished) => self.delete(job),
            Some(job) if job.parent != o.uid => {}
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
pub(super) fn is_ghost(schedule: &Schedule, o: Occurrence) -> bool {
    let claimed = schedule.claim == Some(o.uid) || schedule.claim == Some(ANY);
    !o.by_hand && !o.ended && o.handle == 0 && schedule.taken_up && schedule.decided && !claimed
}
