//! Events about the process itself: on its Lease, which every replica has, so that one place tells
//! the story of leadership.

use crate::{
    authority::{Gained, LostReason},
    cluster::FenceCheck,
    telemetry::{EventQueue, Note, NoteKind, ObjectRef},
};

/// Tells people what happened to this replica. Clones share the queue.
#[derive(Clone)]
pub(super) struct ProcessNotes {
    replica: String,
    lease: ObjectRef,
    events: EventQueue,
}

impl ProcessNotes {
    pub(super) fn new(config: &super::Config, events: EventQueue) -> Self {
        let lease = ObjectRef {
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            namespace: config.lease_namespace.clone(),
            name: config.lease_name.clone(),
            // The Lease may be deleted and created again; the story goes on under its name.
            uid: String::new(),
        };
        Self { replica: config.replica.clone(), lease, events }
    }

    /// A term began.
    pub(super) fn leading(&self, epoch: i64, gained: Gained, former: Option<&str>) {
        let former = former.map_or_else(String::new, |holder| format!(", formerly {holder}"));
        let message = format!("{} leads with epoch {epoch} ({gained:?}{former})", self.replica);
        self.tell(NoteKind::Normal, "Leading", "Acquire", message);
    }

    /// Leadership, or the chance of it, ended in this process.
    pub(super) fn lost(&self, reason: &LostReason) {
        let message = format!("{} ends: {reason}", self.replica);
        match reason {
            LostReason::Shutdown => self.tell(NoteKind::Normal, "Stopped", "HandOver", message),
            _ => self.tell(NoteKind::Warning, "LeadershipLost", "GiveUp", message),
        }
    }

    /// The API server does not enforce the rules, or is not known to.
    pub(super) fn fence_not_enforced(&self, sentence: String) {
        self.tell(NoteKind::Warning, FenceCheck::REASON, "Campaign", sentence);
    }

    /// The clocks of this machine and of the API server differ too much, or agree again.
    pub(super) fn clocks(&self, seconds: f64, ok: bool) {
        let (kind, reason, what) = if ok {
            (NoteKind::Normal, "ClocksAgree", "occurrences are created again")
        } else {
            (NoteKind::Warning, "ClockSkew", "no occurrence is created until they agree")
        };
        let replica = &self.replica;
        let message =
            format!("the clocks of {replica} and the API server differ by {seconds:.1} s; {what}");
        self.tell(kind, reason, "CompareClocks", message);
    }

    fn tell(&self, kind: NoteKind, reason: &'static str, action: &'static str, message: String) {
        let object = self.lease.clone();
        self.events.publish(Note {
            object,
            kind,
            reason: reason.into(),
            action: action.into(),
            message,
        });
    }
}
