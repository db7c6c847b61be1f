//! From what a decision noted to an event about an object.

use crate::{
    api::{GROUP, VERSION},
    cluster::ObjectKey,
    runs::Note,
    telemetry::{self, EventQueue, NoteKind, ObjectRef},
};

/// What every event of a controller says the operator did.
const ACTION: &str = "Reconcile";

/// Queues an event about an object of one of our kinds.
pub fn publish(
    events: &EventQueue,
    kind: &'static str,
    key: &ObjectKey,
    uid: Option<&str>,
    note: &Note,
) {
    let object = ObjectRef {
        api_version: format!("{GROUP}/{VERSION}"),
        kind: kind.to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: uid.unwrap_or_default().to_owned(),
    };
    tracing::info!(kind, %key, reason = note.reason, message = note.message, "event");
    events.publish(telemetry::Note {
        object,
        kind: if note.warning { NoteKind::Warning } else { NoteKind::Normal },
        reason: note.reason.into(),
        action: ACTION.into(),
        message: note.message.clone(),
    });
}
