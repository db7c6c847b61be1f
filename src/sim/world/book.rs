//! Keeps the books of a history: story, terms, the log of writes, and counts.

use std::{fmt::Write as _, io, time::Duration};

use serde_json::Value;

use super::{
    coverage::{Coverage, count},
    story::{Down, Refused, Story, Term, What},
};
use crate::{
    api::{ANNOTATION_EPOCH, ANNOTATION_NONCE},
    authority::Gained,
    sim::{Commit, Key, Kind},
};

/// The books.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) story: Story,
    pub(super) coverage: Coverage,
    pub(super) terms: Vec<Term>,
    /// One line a commit.
    pub(super) log: String,
    pub(super) commits: u64,
    /// Numbers of the processes that run, by replica.
    pub(super) processes: Vec<u32>,
    /// Committed writes of work, by replica.
    pub(super) work: Vec<u32>,
    /// Until when something was wrong.
    pub(super) trouble: Duration,
    lease: Key,
    /// Uid of the Lease in which the last term began.
    lease_uid: Value,
}

impl Book {
    pub(super) fn new(lease: Key, replicas: usize) -> Self {
        Self {
            story: Story::default(),
            coverage: Coverage::default(),
            terms: Vec::new(),
            log: String::new(),
            commits: 0,
            processes: vec![0; replicas],
            work: vec![0; replicas],
            trouble: Duration::ZERO,
            lease,
            lease_uid: Value::Null,
        }
    }

    pub(super) fn tell(&mut self, at: Duration, replica: Option<usize>, what: What) {
        if !matches!(what, What::Up { .. } | What::Refused(_) | What::Step { .. }) {
            self.trouble_until(at);
        }
        self.story.tell(at, replica, what);
    }

    /// Something is wrong until then.
    pub(super) fn trouble_until(&mut self, at: Duration) {
        self.trouble = self.trouble.max(at);
    }

    /// A process of the replica started.
    pub(super) fn up(&mut self, at: Duration, replica: usize, process: u32) {
        if let Some(known) = self.processes.get_mut(replica) {
            *known = process;
        }
        self.tell(at, Some(replica), What::Up { process });
    }

    /// The replica's process ended.
    pub(super) fn down(&mut self, at: Duration, replica: usize, down: Down) {
        if let Down::Ended { why, .. } = &down {
            // Without the holder, whose nonce is another one every time.
            let reason = why.split(", held by ").next().unwrap_or(why);
            count(&mut self.coverage.ended, reason);
        }
        let process = self.processes.get(replica).copied();
        let leads = self.terms.last().is_some_and(|term| {
            term.replica == Some(replica) && Some(term.process) == process && term.ended.is_none()
        });
        let what = What::Down(down);
        let why = format!("r{replica} {what}");
        self.tell(at, Some(replica), what);
        if leads {
            self.end_term(at, why);
        }
    }

    /// A commit, in order.
    pub(super) fn commit(&mut self, commit: &Commit) {
        self.commits += 1;
        self.coverage.commit(commit);
        let writer = replica_of(&commit.by).filter(|_| Self::is_work(commit));
        if let Some(count) = writer.and_then(|replica| self.work.get_mut(replica)) {
            *count += 1;
        }
        self.log(commit);
        if commit.key == self.lease {
            self.lease_changed(commit);
        }
    }

    fn log(&mut self, commit: &Commit) {
        let mut digest = Fnv::new();
        if let Some(new) = &commit.new {
            // Writing into the digest cannot fail.
            let _ = serde_json::to_writer(&mut digest, new.as_ref());
        }
        let Commit { revision, at, by, verb, subresource, key, .. } = commit;
        let slash = if subresource.is_empty() { "" } else { "/" };
        // Neither can writing into a string.
        let _ = writeln!(
            self.log,
            "{:>9} {revision:>6} {by:<18} {verb:?} {key}{slash}{subresource} {:016x}",
            at.as_millis(),
            digest.0
        );
    }

    fn lease_changed(&mut self, commit: &Commit) {
        let old = commit.old.as_deref().map(View::of);
        let Some(new) = commit.new.as_deref() else {
            return self.end_term(commit.at, format!("the Lease was deleted by {}", commit.by));
        };
        let view = View::of(new);
        let acquired =
            !view.holder.is_empty() && old.as_ref().is_none_or(|old| old.nonce != view.nonce);
        if acquired {
            return self.acquired(commit, &view, old.as_ref(), new);
        }
        let Some(term) = self.terms.last_mut().filter(|term| term.nonce == view.nonce) else {
            return;
        };
        let own = term.replica.is_some_and(|replica| *commit.by == *format!("r{replica}"));
        match (view.holder.is_empty(), own) {
            (true, true) => self.end_term(commit.at, "it gave the Lease back".to_owned()),
            (false, true) => term.renewed = commit.at,
            (emptied, false) => {
                let sentence = format!("{} edits the Lease", commit.by);
                self.tell(commit.at, None, What::Step { sentence });
                if emptied {
                    self.end_term(commit.at, format!("{} took the Lease away", commit.by));
                }
            }
        }
    }

    fn acquired(&mut self, commit: &Commit, view: &View, old: Option<&View>, new: &Value) {
        let same_lease = self.lease_uid == new["metadata"]["uid"];
        let held = old.is_some_and(|old| !old.holder.is_empty());
        let gained = match (held, self.terms.is_empty(), same_lease) {
            (true, ..) => Gained::Expired,
            (false, true, _) => Gained::First,
            (false, false, true) => Gained::Released,
            (false, false, false) => Gained::LeaseDeleted,
        };
        let replica = replica_of(&view.holder);
        let before = self.terms.last();
        let former = match (old.filter(|_| held), before) {
            (Some(old), _) => Some(short(&old.holder)),
            (None, Some(term)) => Some(short(&term.holder)),
            (None, None) => None,
        };
        let silent_for = before
            .filter(|term| old.is_some_and(|old| old.nonce == term.nonce))
            .map(|term| commit.at.saturating_sub(term.renewed));
        count(&mut self.coverage.gained, &format!("{gained:?}"));
        let taker = short(&view.holder);
        self.end_term(commit.at, format!("{taker} took over"));
        let epoch = view.epoch;
        let what = What::Leads { epoch, gained, former: former.clone(), silent_for };
        self.tell(commit.at, replica, what);
        let process = replica.and_then(|replica| self.processes.get(replica)).copied();
        self.lease_uid = new["metadata"]["uid"].clone();
        self.terms.push(Term {
            epoch,
            nonce: view.nonce.clone(),
            replica,
            holder: view.holder.clone(),
            process: process.unwrap_or(0),
            gained,
            former,
            began: commit.at,
            renewed: commit.at,
            ended: None,
        });
    }

    /// Ends the last term, if that has not happened yet.
    fn end_term(&mut self, at: Duration, why: String) {
        let Some(term) = self.terms.last_mut().filter(|term| term.ended.is_none()) else { return };
        term.ended = Some((at, why.clone()));
        let (replica, epoch) = (term.replica, term.epoch);
        self.tell(at, replica, What::TermEnded { epoch, why });
    }

    /// A refused write of a replica.
    pub(super) fn refused(&mut self, at: Duration, replica: usize, mut refused: Refused) {
        let term = self.terms.last().filter(|term| term.ended.is_none());
        refused.stale = term.is_none_or(|term| term.replica != Some(replica));
        self.tell(at, Some(replica), What::Refused(refused));
    }

    /// Whether the key is that of the Lease or of an event: traffic that never rests.
    pub(super) fn is_background(key: &Key) -> bool {
        matches!(key.kind, Kind::Lease | Kind::Event)
    }

    /// Whether a commit counts as a write of work.
    pub(super) fn is_work(commit: &Commit) -> bool {
        !Self::is_background(&commit.key)
    }
}

/// What the Lease says about its holder.
struct View {
    holder: String,
    nonce: String,
    epoch: i64,
}

impl View {
    fn of(lease: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let notes = &lease["metadata"]["annotations"];
        let epoch = notes[ANNOTATION_EPOCH].as_str().and_then(|text| text.parse().ok());
        Self {
            holder: text(&lease["spec"]["holderIdentity"]),
            nonce: text(&notes[ANNOTATION_NONCE]),
            epoch: epoch.unwrap_or(0),
        }
    }
}

/// The replica in a holder identity `r1/<nonce>`.
pub(super) fn replica_of(holder: &str) -> Option<usize> {
    holder.split('/').next()?.strip_prefix('r')?.parse().ok()
}

/// A holder without its nonce.
fn short(holder: &str) -> String {
    holder.split('/').next().unwrap_or(holder).to_owned()
}

/// FNV-1a, 64 bits: tells two objects apart in a log that is compared, nothing more.
struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl io::Write for Fnv {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
