//! Attempts that do not count any more and may deliver something still.
//!
//! They were given up without a proof of their end. While their job is open they are asked about in
//! every pass, the one that ends it included, until their provider says how they ended: what they
//! deliver is refused, and people are told. Of a job that was over when its pass began nothing is
//! asked any more.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    Controller,
    job::{committed_of, request_of},
};
use crate::{
    authority::Permit,
    cluster::ObjectKey,
    reconcile::PassError,
    reports::{
        facts::is_terminal,
        job::{Late, Snapshot, may_deliver_late},
    },
    runs::UNRESOLVED_INTERVAL,
};

/// What one pass asks about late deliveries.
#[derive(Debug)]
pub(super) struct LateAsks {
    /// Whether the job was open when the pass began.
    open: bool,
    /// Attempts that were asked about in this pass.
    asked: BTreeSet<i32>,
    /// Whether all of them have ended.
    ended: bool,
}

impl LateAsks {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self { open: !is_terminal(&snapshot.job), asked: BTreeSet::new(), ended: true }
    }

    /// When to look again: most providers tell the end of a run by themselves, some do not.
    pub(super) fn again(&self, now: Timestamp) -> Option<Timestamp> {
        if self.ended { None } else { now.checked_add(UNRESOLVED_INTERVAL).ok() }
    }
}

impl Controller {
    /// Puts into the snapshot what providers say of attempts that were given up, each once for each
    /// pass, and not again once the end is known.
    pub(super) async fn ask_late(
        &self,
        key: &ObjectKey,
        asks: &mut LateAsks,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        let Some(status) = snapshot.job.status.as_ref().filter(|_| asks.open) else {
            return Ok(());
        };
        for attempt in may_deliver_late(status) {
            if !asks.asked.insert(attempt) || self.state.lock().runs.has_heard(key, attempt) {
                continue;
            }
            let request = request_of(snapshot, attempt, permit);
            let known = committed_of(&snapshot.job, attempt);
            match self.hands(permit).ask_late(&request, &known).await? {
                Some(answer) => snapshot.late.push(Late { attempt, answer }),
                None => asks.ended = false,
            }
        }
        Ok(())
    }

    /// A decision was made with what providers said of them: that is told.
    pub(super) fn heard_late(&self, key: &ObjectKey, snapshot: &mut Snapshot) {
        for late in snapshot.late.drain(..) {
            self.state.lock().runs.hear(key, late.attempt);
        }
    }
}
