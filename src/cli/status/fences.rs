//! Which objects carry a fence that the present term cannot write over, so that they are left alone:
//! pure.
//!
//! The operator says so once a term, in an event that the API server keeps for about an hour; the
//! object stays left alone for the whole term. So the fence itself is looked at, and the event is
//! asked for the time alone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::read::Facts;
use crate::{
    api::{ANNOTATION_EPOCH, ANNOTATION_NONCE, Fence},
    cli::{
        target::TargetKind,
        why::snapshot::{moment, text},
    },
};

/// Kinds that are left alone if their fence is foreign.
const FENCED: [TargetKind; 5] = [
    TargetKind::MaintenanceOccurrence,
    TargetKind::MaintenanceSchedule,
    TargetKind::ReportJob,
    TargetKind::ReportQueue,
    TargetKind::ReportSchedule,
];

/// An object: its namespace, the short name of its kind, its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) short: &'static str,
    pub(super) name: String,
}

impl Key {
    /// The key of an object that was read.
    pub(super) fn of(kind: TargetKind, object: &Value) -> Self {
        let part = |pointer| text(object, pointer).to_owned();
        Self {
            namespace: part("/metadata/namespace"),
            short: kind.short(),
            name: part("/metadata/name"),
        }
    }
}

/// Fences of objects that were looked at; `None` of one that has none, or that is not there.
pub(super) type Fences = BTreeMap<Key, Option<Fence>>;

/// The fence that an object carries.
pub(super) fn fence_of(object: &Value) -> Option<Fence> {
    Fence::deserialize(object.pointer("/status/fence")?).ok()
}

/// What an event says of an object that is left alone: which, since when, and in which words.
pub(super) struct Told {
    pub(super) kind: TargetKind,
    pub(super) since: Option<Timestamp>,
    pub(super) note: String,
}

/// Objects of which events say that they are left alone.
pub(super) fn told(events: &[Value]) -> BTreeMap<Key, Told> {
    let mut told: BTreeMap<Key, Told> = BTreeMap::new();
    for event in events {
        let kind = text(event, "/regarding/kind");
        let Some(kind) = FENCED.into_iter().find(|known| known.kind() == kind) else { continue };
        let key = Key {
            namespace: text(event, "/regarding/namespace").to_owned(),
            short: kind.short(),
            name: text(event, "/regarding/name").to_owned(),
        };
        let since = moment(event, "/eventTime");
        let note = text(event, "/note").to_owned();
        let first = told.entry(key).or_insert(Told { kind, since, note });
        first.since = first.since.min(since);
    }
    told
}

/// What the present term is to a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It writes over it.
    Own,
    /// It does not.
    Foreign,
    /// The term is not known, or it may be the fence of another installation, which has a Lease of
    /// its own.
    Unclear,
}

/// The terms that are known.
struct Terms<'a> {
    /// Epoch and nonce in the Lease.
    present: Option<(i64, &'a str)>,
    /// The highest epoch that another Lease is known to have had.
    elsewhere: i64,
}

impl<'a> Terms<'a> {
    fn of(facts: &'a Facts) -> Self {
        let notes = facts.lease.as_ref().and_then(|lease| lease.pointer("/metadata/annotations"));
        let note = |name: &str| notes?.get(name)?.as_str();
        let epoch = note(ANNOTATION_EPOCH).and_then(|text| text.parse().ok());
        let of_others = facts.traces.iter().filter(|trace| {
            facts.lease_key.as_ref().is_none_or(|own| {
                text(trace, "/metadata/namespace") != own.namespace
                    || text(trace, "/spec/leaseName") != own.name
            })
        });
        let epochs = of_others.filter_map(|trace| trace.pointer("/spec/epoch")?.as_i64());
        Self {
            present: epoch.map(|epoch| (epoch, note(ANNOTATION_NONCE).unwrap_or_default())),
            elsewhere: epochs.max().unwrap_or(0),
        }
    }

    fn judge(&self, fence: &Fence) -> Verdict {
        let Some((epoch, nonce)) = self.present else { return Verdict::Unclear };
        let same_term = nonce.is_empty() || fence.nonce == nonce;
        if fence.epoch < epoch || (fence.epoch == epoch && same_term) {
            Verdict::Own
        } else if fence.epoch <= self.elsewhere {
            Verdict::Unclear
        } else {
            Verdict::Foreign
        }
    }
}

/// Objects that are left alone: since when, as far as an event says it, and why.
pub(super) fn left_alone(facts: &Facts) -> BTreeMap<Key, (Option<Timestamp>, String)> {
    let terms = Terms::of(facts);
    let mut told = told(&facts.foreign);
    let mut found = BTreeMap::new();
    for (key, fence) in &facts.fences {
        let verdict = fence.as_ref().map_or(Verdict::Own, |fence| terms.judge(fence));
        match (verdict, fence, &terms.present) {
            (Verdict::Own, ..) => {
                // It was taken over or removed since, whatever was told.
                told.remove(key);
            }
            (Verdict::Foreign, Some(fence), Some((epoch, _))) => {
                let since = told.remove(key).and_then(|told| told.since);
                let message = format!(
                    "its fence (status.fence) is of epoch {}, and the present term, of epoch {epoch}, cannot write over it, so it is left alone; docs/runbooks/foreign-fence.md says what to do",
                    fence.epoch
                );
                found.insert(key.clone(), (since, message));
            }
            _ => {}
        }
    }
    found.extend(told.into_iter().map(|(key, told)| (key, (told.since, told.note))));
    found
}
