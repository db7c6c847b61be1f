//! Events, as parts of the story of an object.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    answer::{Answer, from_now, second},
    snapshot::{Snapshot, moment, text},
    terms::{Terms, sealed_by},
};
use crate::reconcile::FENCED_WRITE_REJECTED;

/// Reasons of events that say no more than the object itself, with its times.
const TOLD_BY_THE_OBJECT: [&str; 9] = [
    "Released",
    "Succeeded",
    "Failed",
    "Cancelled",
    "Skipped",
    "Superseded",
    "Unresolved",
    "Stopping",
    "Admitted",
];
/// Reason of the event about a process that leads no more.
const LEADERSHIP_LOST: &str = "LeadershipLost";

/// When an event happened last.
fn last_seen(event: &Value) -> Option<Timestamp> {
    [
        "/series/lastObservedTime",
        "/eventTime",
        "/deprecatedLastTimestamp",
        "/metadata/creationTimestamp",
    ]
    .iter()
    .find_map(|pointer| moment(event, pointer))
}

/// When it happened first.
pub(super) fn first_seen(event: &Value) -> Option<Timestamp> {
    ["/eventTime", "/deprecatedFirstTimestamp", "/metadata/creationTimestamp"]
        .iter()
        .find_map(|pointer| moment(event, pointer))
}

/// Puts the events about the object into its story.
pub(super) fn tell(answer: &mut Answer, snapshot: &Snapshot) {
    for event in &snapshot.events {
        let reason = text(event, "/reason");
        if TOLD_BY_THE_OBJECT.contains(&reason) {
            continue;
        }
        let note = match text(event, "/note") {
            "" => "no more is said of it",
            note => note,
        };
        let times = event.pointer("/series/count").and_then(Value::as_i64).unwrap_or(1);
        let again = match (times, last_seen(event)) {
            (2.., Some(last)) => {
                format!(" ({times} times, last at {})", second(last))
            }
            _ => String::new(),
        };
        answer.happened(first_seen(event), format!("event {reason}: {note}{again}"), None);
    }
}

/// The newest event about the object with this reason.
pub(super) fn newest<'a>(snapshot: &'a Snapshot, reason: &str) -> Option<&'a Value> {
    let named = snapshot.events.iter().filter(|event| text(event, "/reason") == reason);
    named.max_by_key(|event| last_seen(event))
}

/// Puts into the story who lost leadership within a time.
pub(super) fn tell_of_losses(
    answer: &mut Answer,
    snapshot: &Snapshot,
    from: Option<Timestamp>,
    until: Timestamp,
) {
    let Some(from) = from else { return };
    for event in &snapshot.lease_events {
        let when = first_seen(event).filter(|at| (from..=until).contains(at));
        if text(event, "/reason") == LEADERSHIP_LOST && when.is_some() {
            answer.happened(when, format!("leadership was lost: {}", text(event, "/note")), None);
        }
    }
}

/// Ends the story of something that runs: who led between its creation and its end, what events tell,
/// and, behind all that has a time, who wrote it last.
pub(super) fn end_story(
    answer: &mut Answer,
    snapshot: &Snapshot,
    terms: &Terms,
    created: Option<Timestamp>,
    until: Timestamp,
) {
    terms.tell(answer, created, until);
    tell_of_losses(answer, snapshot, created, until);
    tell(answer, snapshot);
    *answer = std::mem::take(answer).in_order();
    if let Some(epoch) = snapshot.object.as_ref().and_then(sealed_by) {
        let who = terms.who(epoch);
        let what = format!("last written by {who}; the API server refuses writes of older epochs");
        answer.happened(None, what, Some(epoch));
    }
}

/// What is to be said of a write that was refused because its term was over.
pub(super) fn explain_fenced_write(answer: &mut Answer, snapshot: &Snapshot) {
    let Some(event) = newest(snapshot, FENCED_WRITE_REJECTED) else { return };
    let age = last_seen(event).map_or_else(String::new, |at| from_now(at, snapshot.now));
    answer.because(format!(
        "A leader whose term was over still tried to write this object ({age}). Every write carries the epoch of its term, and the API server refuses a write that is older than the object. The refused write changed nothing, and no run was started by it. The process that tried has ended itself or is about to; nothing is to be repaired."
    ));
    answer.can(
        "Nothing has to be done. If leaders change often, this shows who leads and what is wrong",
        "kubectl punctual status",
    );
}
