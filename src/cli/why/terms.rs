//! Who led when: from the recovery traces, one for each term, and from the Lease.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    answer::Answer,
    snapshot::{Snapshot, known, moment, text},
};
use crate::api::{ANNOTATION_EPOCH, LeadershipGained, RecoveryTrace};

/// One term.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    holder: String,
    former: Option<String>,
    gained: LeadershipGained,
    began: Option<Timestamp>,
}

/// The terms that are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Terms(BTreeMap<i64, Term>);

impl Terms {
    /// Those that recovery traces tell of. The traces of one installation are enough; where several
    /// share a cluster, epochs do not meet, because they are versions of one store.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let traces = snapshot.traces.iter().filter_map(|trace| known::<RecoveryTrace>(Some(trace)));
        let term = |trace: RecoveryTrace| {
            let created = trace.metadata.creation_timestamp.as_ref().map(|at| at.0);
            let began = trace.status.as_ref().and_then(|status| status.start_time);
            let term = Term {
                holder: trace.spec.holder,
                former: trace.spec.former_holder,
                gained: trace.spec.gained,
                began: began.map(|at| at.0).or(created),
            };
            (trace.spec.epoch, term)
        };
        Self(traces.map(term).collect())
    }

    /// A term in words: its epoch and who led.
    pub(super) fn who(&self, epoch: i64) -> String {
        match self.0.get(&epoch) {
            Some(term) => format!("epoch {epoch}, led by {}", pod(&term.holder)),
            None => format!("epoch {epoch}, of which no recovery trace is kept"),
        }
    }

    /// The newest term.
    pub(super) fn newest(&self) -> Option<i64> {
        self.0.last_key_value().map(|(epoch, _)| *epoch)
    }

    /// Tells of the terms that began within a time.
    pub(super) fn tell(&self, answer: &mut Answer, from: Option<Timestamp>, until: Timestamp) {
        let Some(from) = from else { return };
        for (epoch, term) in &self.0 {
            let Some(began) = term.began.filter(|at| (from..=until).contains(at)) else { continue };
            let leader = pod(&term.holder);
            let what = format!("{leader} began to lead with epoch {epoch}: {}", term.how());
            answer.happened(Some(began), what, Some(*epoch));
        }
    }

    /// How the term began, for a sentence.
    pub(super) fn how(&self, epoch: i64) -> Option<String> {
        self.0.get(&epoch).map(Term::how)
    }
}

impl Term {
    fn how(&self) -> String {
        let former = self.former.as_deref().map_or("the leader before it", pod);
        match self.gained {
            LeadershipGained::First => "nobody had led before".to_owned(),
            LeadershipGained::Released => "the leader before it had stepped down".to_owned(),
            LeadershipGained::Expired => {
                format!("{former} had not renewed the Lease for too long")
            }
            LeadershipGained::LeaseDeleted => "the Lease had been deleted".to_owned(),
        }
    }
}

/// The pod in a holder identity `<pod>/<nonce>`.
pub(in crate::cli) fn pod(holder: &str) -> &str {
    holder.split_once('/').map_or(holder, |(pod, _)| pod)
}

/// The epoch of the term that created an object, if a leader did.
pub(super) fn created_by(object: &Value) -> Option<i64> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION_EPOCH)?.as_str()?.parse().ok()
}

/// The epoch of the term that wrote an object last.
pub(super) fn sealed_by(object: &Value) -> Option<i64> {
    object.pointer("/status/fence/epoch")?.as_i64()
}

/// Says that nothing is decided, if nobody seems to lead now.
pub(super) fn explain_no_leader(answer: &mut Answer, snapshot: &Snapshot) {
    if let Some(nobody) = lead(snapshot) {
        answer.because(format!("Nothing is decided meanwhile: {nobody}."));
        answer.can("To see why nobody leads", "kubectl punctual status");
    }
}

/// A sentence if nobody seems to lead now.
fn lead(snapshot: &Snapshot) -> Option<String> {
    let lease = snapshot.lease.as_ref()?;
    let holder = text(lease, "/spec/holderIdentity");
    if holder.is_empty() {
        return Some("nobody leads now: the Lease is not held".to_owned());
    }
    let silent = moment(lease, "/spec/renewTime").map(|at| snapshot.now.duration_since(at));
    let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64);
    let seconds = seconds.unwrap_or(10).clamp(1, 3600);
    // The time in a Lease is another machine's clock: it is for people, and so is this sentence.
    let late = silent.filter(|silent| silent.as_secs() > 2 * seconds + 5)?;
    Some(format!(
        "nobody seems to lead now: {} renewed the Lease last {} ago",
        pod(holder),
        super::answer::span(late)
    ))
}
