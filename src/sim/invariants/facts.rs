//! What stands in the objects. Names of fields are written out here once more, on purpose: the
//! checker must not be wrong together with the code it judges.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use crate::sim::{Commit, Key, Kind};

/// States in which nothing more happens.
const TERMINAL: [&str; 6] =
    ["Succeeded", "Failed", "Cancelled", "Rejected", "Skipped", "Superseded"];

/// The objects as they stand, and every occurrence that ever was.
#[derive(Default)]
pub(super) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    /// When each was last written.
    written: BTreeMap<Key, Duration>,
    /// The last version of every occurrence and report job, deleted ones included, by uid.
    occurrences: BTreeMap<String, Arc<Value>>,
    /// Names of occurrences that have ended otherwise than because nobody wanted them.
    ended: BTreeSet<Key>,
}

impl Store {
    /// Takes a commit over.
    pub(super) fn apply(&mut self, commit: &Commit) {
        self.written.insert(commit.key.clone(), commit.at);
        let Some(new) = &commit.new else {
            self.objects.remove(&commit.key);
            return;
        };
        if is_work(commit.key.kind) {
            self.occurrences.insert(uid(new).to_owned(), new.clone());
            if is_terminal(new) && !is_unwanted(new) {
                self.ended.insert(commit.key.clone());
            }
        }
        self.objects.insert(commit.key.clone(), new.clone());
    }

    /// The object of this name as it stands.
    pub(super) fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key).map(AsRef::as_ref)
    }

    /// When the object of this name was last written.
    pub(super) fn written(&self, key: &Key) -> Option<Duration> {
        self.written.get(key).copied()
    }

    /// All objects of a kind as they stand, by name.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Value)> {
        self.objects
            .iter()
            .filter(move |(key, _)| key.kind == kind)
            .map(|(key, object)| (key, object.as_ref()))
    }

    /// The last version of the occurrence or report job with this uid, also if it is gone.
    pub(super) fn occurrence(&self, uid: &str) -> Option<&Value> {
        self.occurrences.get(uid).map(AsRef::as_ref)
    }

    /// Whether an occurrence of this name has ended, also if its record was removed since.
    pub(super) fn has_ended(&self, key: &Key) -> bool {
        self.ended.contains(key)
    }

    /// Whether the occurrence with this uid stands.
    pub(super) fn stands(&self, key: &Key, wanted: &str) -> bool {
        self.get(key).is_some_and(|object| uid(object) == wanted)
    }

    /// The queue that a report job names, if it stands.
    pub(super) fn queue_of(&self, job: &Value) -> Option<&Value> {
        self.get(&queue_key(job))
    }

    /// The schedule that an occurrence or a report job names, if it stands.
    pub(super) fn schedule_of(&self, work: &Value) -> Option<&Value> {
        self.get(&schedule_key(work))
    }
}

/// The key of the queue that a report job names.
pub(super) fn queue_key(job: &Value) -> Key {
    let namespace = text(job, "/metadata/namespace");
    Key::new(Kind::ReportQueue, namespace, text(job, "/spec/queueName"))
}

/// The key of the schedule that an occurrence or a report job names.
pub(super) fn schedule_key(work: &Value) -> Key {
    let kind = if is_report(work) { Kind::ReportSchedule } else { Kind::MaintenanceSchedule };
    Key::new(kind, text(work, "/metadata/namespace"), text(work, "/spec/scheduleName"))
}

/// Whether objects of this kind have instants.
pub(super) fn is_schedule(kind: Kind) -> bool {
    matches!(kind, Kind::MaintenanceSchedule | Kind::ReportSchedule)
}

/// The key of the work of an instant of a schedule, given as the digits of its minute.
pub(super) fn work_key(schedule: &Key, digits: &str) -> Key {
    let kind = match schedule.kind {
        Kind::ReportSchedule => Kind::ReportJob,
        _ => Kind::MaintenanceOccurrence,
    };
    Key::new(kind, schedule.namespace.clone(), format!("{}-{digits}", schedule.name))
}

/// Whether a schedule made it.
pub(super) fn is_planned(work: &Value) -> bool {
    !text(work, "/spec/scheduleUID").is_empty()
}

/// Whether it ended because its schedule did not want it: its instant is not thereby accounted for.
fn is_unwanted(work: &Value) -> bool {
    let reason = text(work, "/status/reason");
    reason == "NotClaimed" || (is_report(work) && reason == "Superseded")
}

/// Whether a writer is a replica of the operator: `r0`, `r1`, …
pub(super) fn is_replica(by: &str) -> bool {
    by.strip_prefix('r')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// The text at a JSON pointer; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The moment at a JSON pointer.
pub(super) fn time(value: &Value, pointer: &str) -> Option<Timestamp> {
    text(value, pointer).parse().ok()
}

/// Whether the value at a JSON pointer is `true`.
pub(super) fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer) == Some(&Value::Bool(true))
}

/// The entries of the list at a JSON pointer.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Uid.
pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Uid that an owner reference names.
pub(super) fn uid_of_owner(owner: &Value) -> &str {
    text(owner, "/uid")
}

/// An annotation of ours; empty if there is none.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    text(object, &format!("/metadata/annotations/punctual.dev~1{name}"))
}

/// Epoch and nonce of the fence.
pub(super) fn fence(object: &Value) -> Option<(i64, &str)> {
    let epoch = object.pointer("/status/fence/epoch")?.as_i64()?;
    Some((epoch, text(object, "/status/fence/nonce")))
}

/// Whether the state is terminal.
pub(super) fn is_terminal(occurrence: &Value) -> bool {
    TERMINAL.contains(&text(occurrence, "/status/state"))
}

/// What is recorded of the attempts, oldest first.
pub(super) fn attempts(occurrence: &Value) -> &[Value] {
    list(occurrence, "/status/attempts")
}

/// The claims of a schedule.
pub(super) fn claims(schedule: &Value) -> &[Value] {
    list(schedule, "/status/claimed")
}

/// Whether the claim is started.
pub(super) fn is_started(claim: &Value) -> bool {
    flag(claim, "/start")
}

/// Whether objects of this kind run something.
pub(super) fn is_work(kind: Kind) -> bool {
    matches!(kind, Kind::MaintenanceOccurrence | Kind::ReportJob)
}

/// Whether it is a report job.
pub(super) fn is_report(object: &Value) -> bool {
    object.pointer("/spec/queueName").is_some()
}

/// The action class; if nothing names one `Idempotent` for reports, else `Fenced`.
pub(super) fn class(occurrence: &Value) -> &str {
    ["/status/run/actionClass", "/spec/run/actionClass"]
        .into_iter()
        .map(|pointer| text(occurrence, pointer))
        .find(|class| !class.is_empty())
        .unwrap_or(if is_report(occurrence) { "Idempotent" } else { "Fenced" })
}

/// The person's decision about this attempt, if there is one.
pub(super) fn resolution(occurrence: &Value, attempt: i64) -> Option<&Value> {
    let resolution = occurrence.pointer("/spec/resolution")?;
    (resolution["attempt"].as_i64() == Some(attempt)).then_some(resolution)
}
