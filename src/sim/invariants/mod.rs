//! What must hold in every history: judged after every committed write, on what is stored and on
//! what really ran, never on what the operator says of itself.
//!
//! ```text
//!   Commit ───┐                     ┌─ terms     Lease, epochs, fences
//!   RunEvent ─┴─> Checker ─ judges ─┼─ records   identity, outcome, removal
//!                    │              ├─ claims    who may start
//!                    │              ├─ admissions  the ledger of a queue
//!                    │              ├─ runs      what ran, and when it could act
//!                    └── finish ────┴─ ending    instants, nothing left to do
//! ```
//!
//! The judges share nothing with the code they judge: they read stored objects as JSON by names of
//! their own, and count the instants of an expression minute by minute. Each invariant has a name
//! that `docs/reference/invariants.md` explains, and a forged history that must break it.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};

use super::{Commit, Key, RunEvent};

mod admissions;
mod claims;
mod drained;
mod ending;
mod facts;
#[cfg(test)]
mod forged;
mod instants;
mod name;
mod records;
mod runs;
mod terms;
mod timeline;

pub use name::Invariant;

/// Most violations that are kept: what comes after the first few is a consequence of them.
const MAX_VIOLATIONS: usize = 100;

/// What a checker must know beforehand.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The true wall clock at virtual second 0.
    pub start: Timestamp,
    /// The Lease that the replicas compete for.
    pub lease: Key,
    /// `--epoch-offset` of the replicas.
    pub epoch_offset: i64,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// Virtual time since the start of the history.
    pub at: Duration,
    /// The object that shows it.
    pub object: Key,
    /// What is wrong, in a sentence.
    pub sentence: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { invariant, at, object, sentence } = self;
        write!(f, "{invariant} at {:.3} s: {object}: {sentence}", at.as_secs_f64())
    }
}

/// Judges one history. It must be given every commit from the first on, in order, and every event
/// of a run in order with them.
pub struct Checker {
    setup: Setup,
    store: facts::Store,
    terms: terms::Terms,
    records: records::Records,
    claims: claims::Claims,
    admissions: admissions::Admissions,
    runs: runs::Runs,
    timeline: timeline::Timeline,
    replica_wrote: bool,
    blame: Blame,
}

/// Collects violations.
#[derive(Default)]
struct Blame {
    at: Duration,
    found: Vec<Violation>,
}

impl Blame {
    fn on(&mut self, invariant: Invariant, object: &Key, sentence: impl Into<String>) {
        if self.found.len() < MAX_VIOLATIONS {
            let (at, object, sentence) = (self.at, object.clone(), sentence.into());
            self.found.push(Violation { invariant, at, object, sentence });
        }
    }
}

/// A commit with everything a judge may look at besides.
struct Case<'a> {
    commit: &'a Commit,
    /// The objects as they stood before.
    store: &'a facts::Store,
    /// Whether a replica wrote.
    by_replica: bool,
    /// The true wall clock.
    now: Timestamp,
}

impl Checker {
    /// A checker of an empty history.
    pub fn new(setup: Setup) -> Self {
        Self {
            terms: terms::Terms::new(&setup),
            setup,
            store: facts::Store::default(),
            records: records::Records::default(),
            claims: claims::Claims::default(),
            admissions: admissions::Admissions::default(),
            runs: runs::Runs::default(),
            timeline: timeline::Timeline::default(),
            replica_wrote: false,
            blame: Blame::default(),
        }
    }

    /// Judges a committed write.
    pub fn commit(&mut self, commit: &Commit) {
        self.blame.at = commit.at;
        let by_replica = facts::is_replica(&commit.by);
        self.replica_wrote |= by_replica;
        let now = self.wall(commit.at);
        let case = Case { commit, store: &self.store, by_replica, now };
        self.terms.judge(&case, &mut self.blame);
        self.records.judge(&case, &mut self.blame);
        self.claims.judge(&case, &self.runs, &mut self.blame);
        self.admissions.judge(&case, &self.runs, &mut self.blame);
        let rights = runs::Rights { claims: &self.claims, admissions: &self.admissions };
        self.runs.judge(&case, rights, &mut self.blame);
        self.timeline.follow(&case, &mut self.blame);
        self.store.apply(commit);
    }

    /// Judges what happened to a run.
    pub fn run(&mut self, event: &RunEvent) {
        self.blame.at = event.at;
        let rights = runs::Rights { claims: &self.claims, admissions: &self.admissions };
        self.runs.event(event, &self.store, rights, &mut self.blame);
    }

    /// Judges the end of the history, after the last commit and event.
    ///
    /// `able` says that for the last minute a leader was alive, reached the API server and the
    /// providers, and had the right time. Without one nobody could do what is due, and only the
    /// whole of the history is judged.
    pub fn finish(&mut self, at: Duration, able: bool) {
        self.blame.at = at;
        if !self.replica_wrote {
            let sentence = "no replica wrote anything: the history proves nothing";
            self.blame.on(Invariant::HistoryNotEmpty, &self.setup.lease, sentence);
        }
        if able {
            let end = ending::End {
                start: self.setup.start,
                now: self.wall(at),
                at,
                store: &self.store,
                terms: &self.terms,
                runs: &self.runs,
                timeline: &self.timeline,
            };
            end.judge(&mut self.blame);
        }
    }

    /// What is wrong, in the order it was found; at most the first 100.
    pub fn violations(&self) -> &[Violation] {
        &self.blame.found
    }

    /// The true wall clock at a virtual time.
    fn wall(&self, at: Duration) -> Timestamp {
        let since = SignedDuration::try_from(at).unwrap_or(SignedDuration::MAX);
        self.setup.start.saturating_add(since).unwrap_or(Timestamp::MAX)
    }
}

impl Case<'_> {
    /// The object before; absent for a creation.
    fn before(&self) -> Option<&serde_json::Value> {
        self.commit.old.as_ref().map(Arc::as_ref)
    }

    /// The object after; absent for a deletion.
    fn after(&self) -> Option<&serde_json::Value> {
        self.commit.new.as_ref().map(Arc::as_ref)
    }

    /// A replica's write of a status.
    fn is_status_of_replica(&self) -> bool {
        self.by_replica && self.commit.subresource == "status"
    }
}
