//! Which claims start, wait, or give way.

use kube::Resource as _;

use super::{CLOCK_RECHECK, Draft, Kind, Work as _, kind::new_claim, start_deadline};
use crate::{
    api::{ConcurrencyPolicy, MAX_CLAIMS},
    time::{IntendedTime, skipped::SkipReason},
};

impl<S: Kind> Draft<'_, S> {
    /// Applies the concurrency policy to the instants of one plan, oldest first.
    pub(super) fn claim_wanted(&mut self, mut wanted: Vec<IntendedTime>) {
        if self.policy() == ConcurrencyPolicy::Allow {
            for instant in wanted {
                self.claim(instant, true, false);
            }
            return;
        }
        let busy = !self.status.claimed.is_empty();
        wanted.retain(|instant| {
            let by_hand = self.is_hand_made(*instant);
            if by_hand {
                self.claim_for_later(*instant);
            }
            !by_hand
        });
        match self.policy() {
            ConcurrencyPolicy::Forbid if busy => {
                for instant in wanted {
                    self.skip(instant, SkipReason::Concurrent);
                }
            }
            ConcurrencyPolicy::Replace => self.claim_replacing(wanted),
            // `Forbid`: the first starts, the others of this plan follow one after another.
            policy => {
                for instant in wanted {
                    self.claim(instant, false, false);
                }
                if policy == ConcurrencyPolicy::Enqueue {
                    self.limit_waiting();
                }
            }
        }
    }

    /// Hand-made work waits for its turn, replaces nothing and is never Concurrent. The claim keeps its
    /// instant in mind: the plan has passed it, and work that is deleted while it waits would leave no
    /// word of it. Without room for a claim it asks again.
    fn claim_for_later(&mut self, instant: IntendedTime) {
        if self.has_room() {
            self.claim(instant, false, false);
        }
    }

    /// `Replace`: what waits gives way, what runs is replaced by the first of the new ones.
    fn claim_replacing(&mut self, wanted: Vec<IntendedTime>) {
        if wanted.is_empty() {
            return;
        }
        let claims = std::mem::take(&mut self.status.claimed);
        let busy = claims.iter().any(|claim| claim.start);
        for claim in claims {
            if claim.start || self.is_hand_made(claim.time) {
                self.status.claimed.push(claim);
            } else {
                self.skip(claim.time, SkipReason::Concurrent);
            }
        }
        for (position, instant) in wanted.into_iter().enumerate() {
            self.claim(instant, false, busy && position == 0);
        }
    }

    /// `Enqueue`: at most `missedRuns.limit` of the planned ones wait, the newest.
    fn limit_waiting(&mut self) {
        let limit = usize::try_from(self.snapshot.schedule.timing().missed_runs.limit).unwrap_or(0);
        let waiting: Vec<IntendedTime> =
            self.status.claimed.iter().filter(|c| !c.start).map(|c| c.time).collect();
        // With nothing started the oldest does not wait: it starts in this very write.
        let starts = usize::from(self.started() == 0);
        let planned: Vec<IntendedTime> =
            waiting.into_iter().skip(starts).filter(|at| !self.is_hand_made(*at)).collect();
        let surplus = planned.len().saturating_sub(limit);
        let dropped = &planned[..surplus];
        self.status.claimed.retain(|claim| !dropped.contains(&claim.time));
        for instant in dropped {
            self.skip(*instant, SkipReason::Concurrent);
        }
    }

    /// Whether one more claim can be kept.
    fn has_room(&self) -> bool {
        self.status.claimed.len() < MAX_CLAIMS
    }

    pub(super) fn is_hand_made(&self, instant: IntendedTime) -> bool {
        self.snapshot.works.get(&instant).is_some_and(S::Work::is_hand_made)
    }

    /// Claims the instant's work, creating it first if it does not exist.
    pub(super) fn claim(&mut self, instant: IntendedTime, start: bool, replaces: bool) {
        if self.status.claimed.len() >= MAX_CLAIMS {
            self.skip(instant, SkipReason::Concurrent);
            return;
        }
        let uid = if let Some(work) = self.snapshot.works.get(&instant) {
            work.meta().uid.clone().unwrap_or_default()
        } else {
            self.plan.create.push((instant, self.snapshot.schedule.new_work(instant)));
            String::new() // this draft is thrown away: the decision is made again with the uid
        };
        let schedule = &self.snapshot.schedule;
        self.status.claimed.push(new_claim(schedule, instant, uid, start, replaces));
        self.status.claimed.sort_by_key(|claim| claim.time);
    }

    /// Starts what waits: claims and hand-made work, the oldest instant first.
    pub(super) fn start_next(&mut self) {
        if self.snapshot.may_create.is_err() {
            self.wake_after(CLOCK_RECHECK); // neither "due" nor "too late" can be told
            return;
        }
        let mut asked: Vec<IntendedTime> = Vec::new();
        for (instant, work) in &self.snapshot.works {
            if !self.may_be_asked_for(*instant, work) {
                continue;
            }
            if instant.timestamp() > self.now {
                self.wake(instant.timestamp());
            } else {
                asked.push(*instant);
            }
        }
        if self.policy() == ConcurrencyPolicy::Allow {
            for claim in &mut self.status.claimed {
                claim.start = true;
            }
            for instant in asked {
                if self.has_room() {
                    self.claim(instant, true, false);
                }
            }
            return;
        }
        while self.started() == 0 {
            let waiting = self.status.claimed.iter().map(|claim| claim.time).min();
            // Without room for a claim what is claimed goes first, which makes room.
            let by_hand = asked.first().copied().filter(|_| self.has_room());
            match (waiting, by_hand) {
                (None, None) => return,
                (Some(first), by_hand) if by_hand.is_none_or(|other| first <= other) => {
                    self.start_claim(first);
                }
                (_, Some(instant)) => self.claim(instant, true, false),
                (Some(first), None) => self.start_claim(first),
            }
        }
    }

    /// Whether this is hand-made work that waits for a claim and may get one now.
    pub(super) fn may_be_asked_for(&self, instant: IntendedTime, work: &S::Work) -> bool {
        work.asks_for_claim()
            && !work.is_terminal()
            && work.meta().deletion_timestamp.is_none()
            && self.status.pruned_through.is_none_or(|through| instant > through)
            && !self.status.claimed.iter().any(|claim| claim.time == instant)
            && !self.undecided.includes(instant)
    }

    /// Starts a waiting claim, or drops it if its deadline passed while it waited.
    pub(super) fn start_claim(&mut self, instant: IntendedTime) {
        let planned = !self.is_hand_made(instant);
        let late = planned
            && start_deadline(&self.snapshot.schedule, instant).is_some_and(|end| self.now > end);
        if late {
            self.status.claimed.retain(|claim| claim.time != instant);
            self.skip(instant, SkipReason::Deadline);
            return;
        }
        for claim in self.status.claimed.iter_mut().filter(|claim| claim.time == instant) {
            claim.start = true;
        }
    }
}
