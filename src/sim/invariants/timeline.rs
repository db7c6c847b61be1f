//! Which timing of a schedule counted when, and what became accounted for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Blame, Case, Invariant, facts, instants::Timing};
use crate::sim::Key;

/// How far the moment from which a new timing counts may be from when it was seen: the largest clock
/// difference with which a leader decides anything, and a second for the cut to whole ones.
const MAX_SKEW: SignedDuration = SignedDuration::from_secs(6);

/// A timing while it counted.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) timing: Timing,
    /// From when its instants are due; the next stretch ends it.
    pub(super) from: Timestamp,
}

/// What is known of one schedule object.
pub(super) struct Past {
    pub(super) key: Key,
    pub(super) created: Timestamp,
    /// Oldest first.
    pub(super) stretches: Vec<Stretch>,
    /// When the spec was last changed to a timing that no leader has taken up yet.
    edited: Option<Timestamp>,
    /// Since when it has been suspended without a break.
    pub(super) suspended: Option<Timestamp>,
    /// What its first version called decided, before anybody could judge.
    pub(super) given: Option<Timestamp>,
    /// Ranges that ever stood in `status.skipped`: first and last instant.
    pub(super) skipped: BTreeSet<(Timestamp, Timestamp)>,
}

/// All schedule objects, by uid.
#[derive(Default)]
pub(super) struct Timeline {
    pub(super) schedules: BTreeMap<String, Past>,
}

impl Timeline {
    pub(super) fn follow(&mut self, case: &Case, blame: &mut Blame) {
        if !facts::is_schedule(case.commit.key.kind) {
            return;
        }
        let Some(new) = case.after() else { return };
        let past = self
            .schedules
            .entry(facts::uid(new).to_owned())
            .or_insert_with(|| Past::new(&case.commit.key, new, case.now));
        past.follow(case, new, blame);
    }
}

impl Past {
    fn new(key: &Key, schedule: &Value, now: Timestamp) -> Self {
        let created = facts::time(schedule, "/metadata/creationTimestamp").unwrap_or(now);
        let given = ["/status/lastScheduleTime", "/status/prunedThrough"]
            .into_iter()
            .filter_map(|field| facts::time(schedule, field))
            .max();
        Self {
            key: key.clone(),
            created,
            stretches: vec![Stretch { timing: Timing::of(&schedule["spec"]), from: created }],
            edited: None,
            suspended: None,
            given,
            skipped: BTreeSet::new(),
        }
    }

    fn follow(&mut self, case: &Case, new: &Value, blame: &mut Blame) {
        let timing = Timing::of(&new["spec"]);
        let counts = self.stretches.last().is_some_and(|last| last.timing == timing);
        let changed = case.before().is_some_and(|old| Timing::of(&old["spec"]) != timing);
        if counts {
            self.edited = None;
        } else if changed {
            self.edited = Some(case.now);
        }
        self.suspended = match self.suspended {
            _ if !is_suspended(new, case.now) => None,
            since => since.or(Some(case.now)),
        };
        for range in facts::list(new, "/status/skipped") {
            if let (Some(from), Some(to)) = (facts::time(range, "/from"), facts::time(range, "/to"))
            {
                self.skipped.insert((from, to));
            }
        }
        let observed = new.pointer("/status/observed").map(Timing::of);
        if case.is_status_of_replica() && !counts && observed.as_ref() == Some(&timing) {
            self.take_up(case, new, timing, blame);
        }
    }

    /// A leader has seen the edit: from now on the new timing counts.
    fn take_up(&mut self, case: &Case, new: &Value, timing: Timing, blame: &mut Blame) {
        let from = facts::time(new, "/status/effectiveTime").unwrap_or(case.now);
        let earliest = self.edited.unwrap_or(self.created);
        if from < earliest - MAX_SKEW || from > case.now + MAX_SKEW {
            let sentence = format!(
                "its edit of {earliest} was seen by {}, but counts from {from}: the instants between \
                 are lost",
                case.now
            );
            blame.on(Invariant::InstantsAccounted, &case.commit.key, sentence);
        }
        self.edited = None;
        self.stretches.push(Stretch { timing, from });
    }
}

/// Whether the spec suspends it at this moment.
fn is_suspended(schedule: &Value, now: Timestamp) -> bool {
    let until = facts::time(schedule, "/spec/suspendUntilTime");
    facts::flag(schedule, "/spec/suspend") && until.is_none_or(|until| now < until)
}
