//! Who led, with which epoch, and whose writes count.

use serde_json::Value;

use super::{Blame, Case, Invariant, Setup, facts};
use crate::sim::{Key, Kind, Verb};

/// One acquisition of the Lease.
struct Term {
    epoch: i64,
    nonce: String,
    /// The replica.
    by: String,
}

/// The acquisitions so far.
pub(super) struct Terms {
    lease: Key,
    epoch_offset: i64,
    acquired: Vec<Term>,
}

/// Whether the status of this kind carries a fence that lasts longer than one term.
fn is_fenced(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MaintenanceSchedule
            | Kind::MaintenanceOccurrence
            | Kind::ReportQueue
            | Kind::ReportJob
            | Kind::ReportSchedule
    )
}

impl Terms {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { lease: setup.lease.clone(), epoch_offset: setup.epoch_offset, acquired: Vec::new() }
    }

    pub(super) fn judge(&mut self, case: &Case, blame: &mut Blame) {
        let kind = case.commit.key.kind;
        if is_fenced(kind) {
            not_older(case, blame); // whoever wrote
        }
        if !case.by_replica {
            return; // whatever people write, it must not lead to a fault
        }
        match kind {
            Kind::Lease if case.commit.key == self.lease => self.lease(case, blame),
            // Anybody may report what it saw.
            Kind::Lease | Kind::Event => {}
            kind => {
                if !self.acquired.iter().any(|term| term.by == *case.commit.by) {
                    let by = &case.commit.by;
                    let sentence = format!("{by} wrote it without ever having led");
                    blame.on(Invariant::TermAcquired, &case.commit.key, sentence);
                }
                match kind {
                    Kind::Job => self.job(case, blame),
                    kind if is_fenced(kind) => self.fenced(case, blame),
                    _ => {}
                }
            }
        }
    }

    /// Whether this fence was written by a term of this history.
    pub(super) fn knows(&self, (epoch, nonce): (i64, &str)) -> bool {
        self.acquired.iter().any(|term| term.epoch == epoch && term.nonce == nonce)
    }

    /// The highest epoch so far.
    pub(super) fn newest_epoch(&self) -> Option<i64> {
        self.acquired.iter().map(|term| term.epoch).max()
    }

    fn lease(&mut self, case: &Case, blame: &mut Blame) {
        let key = &case.commit.key;
        let (Some(new), by) = (case.after(), &case.commit.by) else { return };
        let nonce = facts::annotation(new, "nonce");
        let old_nonce = case.before().map_or("", |old| facts::annotation(old, "nonce"));
        if nonce.is_empty() {
            return;
        }
        let epoch = facts::annotation(new, "epoch");
        if nonce == old_nonce {
            let Some(term) = self.acquired.iter().find(|term| term.nonce == nonce) else { return };
            if epoch != term.epoch.to_string() {
                let sentence =
                    format!("the epoch changes within a term: {} to {epoch:?}", term.epoch);
                blame.on(Invariant::EpochsIncrease, key, sentence);
            }
            if term.by != **by {
                let sentence = format!("{by} renews the term {} of {}", term.epoch, term.by);
                blame.on(Invariant::EpochOfOneProcess, key, sentence);
            }
            return;
        }
        if let Some(term) = self.acquired.iter().find(|term| term.nonce == nonce) {
            let sentence = format!("the nonce of term {} is used for another one", term.epoch);
            blame.on(Invariant::EpochOfOneProcess, key, sentence);
        }
        let Ok(epoch) = epoch.parse::<i64>() else {
            blame.on(Invariant::EpochsIncrease, key, "an acquisition without an epoch");
            return;
        };
        if let Some(highest) = self.acquired.iter().map(|term| term.epoch).max()
            && epoch <= highest
        {
            let sentence = format!("epoch {epoch} was acquired after epoch {highest}");
            blame.on(Invariant::EpochsIncrease, key, sentence);
        }
        let replaced = case.before().map(|old| facts::text(old, "/metadata/resourceVersion"));
        let expected = replaced.and_then(|version| version.parse::<i64>().ok());
        if expected.map(|version| version + self.epoch_offset) != Some(epoch) {
            let sentence =
                format!("epoch {epoch} is not of the version {replaced:?} that it replaced");
            blame.on(Invariant::EpochsIncrease, key, sentence);
        }
        self.acquired.push(Term { epoch, nonce: nonce.to_owned(), by: by.to_string() });
    }

    fn fenced(&self, case: &Case, blame: &mut Blame) {
        match case.commit.verb {
            Verb::Create => {} // inert; it carries no fence yet
            Verb::Update => {
                if case.is_status_of_replica() {
                    self.own_fence(case, blame);
                }
            }
            Verb::Delete => self.delete(case, blame),
        }
    }

    /// A status carries the fence of a term that its writer had acquired.
    fn own_fence(&self, case: &Case, blame: &mut Blame) {
        let key = &case.commit.key;
        let Some((epoch, nonce)) = case.after().and_then(facts::fence) else {
            blame.on(Invariant::TermAcquired, key, "a status was written without a fence");
            return;
        };
        let by = &case.commit.by;
        match self.acquired.iter().find(|term| term.epoch == epoch) {
            None => {
                let sentence = format!("{by} wrote with epoch {epoch}, which nobody has acquired");
                blame.on(Invariant::TermAcquired, key, sentence);
            }
            Some(term) if term.nonce != nonce || term.by != **by => {
                let sentence = format!(
                    "{by} wrote with epoch {epoch} and nonce {nonce:?}; that epoch belongs to {} \
                     and nonce {:?}",
                    term.by, term.nonce
                );
                blame.on(Invariant::EpochOfOneProcess, key, sentence);
            }
            Some(_) => {}
        }
    }

    /// Deletes carry no fence: the newest term of the writer counts, in its favour.
    fn delete(&self, case: &Case, blame: &mut Blame) {
        let Some((sealed, _)) = case.before().and_then(facts::fence) else { return };
        let of_writer = self.acquired.iter().filter(|term| term.by == *case.commit.by);
        let newest = of_writer.map(|term| term.epoch).max();
        if newest.is_some_and(|newest| newest < sealed) {
            let sentence = format!(
                "{} deleted it, whose newest term is {newest:?}, after term {sealed} had sealed it",
                case.commit.by
            );
            blame.on(Invariant::OlderTermWritesNothing, &case.commit.key, sentence);
        }
    }

    /// A Job is taken over by the epoch on it.
    fn job(&self, case: &Case, blame: &mut Blame) {
        let Some(new) = case.after() else { return };
        let key = &case.commit.key;
        let epoch =
            |object: &Value, name: &str| facts::annotation(object, name).parse::<i64>().ok();
        let before = case.before().and_then(|old| epoch(old, "epoch"));
        let now = epoch(new, "epoch");
        if let (Some(before), Some(now)) = (before, now)
            && now < before
        {
            let sentence = format!("epoch {now} took a Job that epoch {before} had taken");
            blame.on(Invariant::OlderTermWritesNothing, key, sentence);
        }
        let released_before = case.before().and_then(|old| epoch(old, "released"));
        let released = epoch(new, "released").filter(|now| Some(*now) != released_before);
        if let (Some(released), Some(taken)) = (released, now.max(before))
            && released < taken
        {
            let sentence = format!("epoch {released} released a Job that epoch {taken} had taken");
            blame.on(Invariant::OlderTermWritesNothing, key, sentence);
        }
        for epoch in [now.filter(|now| Some(*now) != before), released].into_iter().flatten() {
            let by = &case.commit.by;
            if !self.acquired.iter().any(|term| term.epoch == epoch && term.by == **by) {
                let sentence = format!("{by} wrote with epoch {epoch}, which it has not acquired");
                blame.on(Invariant::TermAcquired, key, sentence);
            }
        }
    }
}

/// The fence never goes back and never vanishes.
fn not_older(case: &Case, blame: &mut Blame) {
    let (Some(old), Some(new)) = (case.before(), case.after()) else { return };
    let Some((sealed, sealed_nonce)) = facts::fence(old) else { return };
    let sentence = match facts::fence(new) {
        Some((epoch, nonce)) if epoch > sealed || (epoch == sealed && nonce == sealed_nonce) => {
            return;
        }
        Some((epoch, nonce)) => format!(
            "epoch {epoch} (nonce {nonce:?}) wrote after epoch {sealed} (nonce {sealed_nonce:?}) \
             had sealed it"
        ),
        None => format!("the fence of epoch {sealed} has vanished"),
    };
    blame.on(Invariant::OlderTermWritesNothing, &case.commit.key, sentence);
}
