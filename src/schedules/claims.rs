//! Claims of a schedule that is taken over.

use kube::Resource as _;

use super::{Kind, Snapshot, Work as _, kind::new_claim};
use crate::api::{Claim, MAX_CLAIMS};

/// Started claims for what was prepared under an earlier life of the schedule.
pub(super) fn inherited_claims<S: Kind>(snapshot: &Snapshot<S>) -> Vec<Claim> {
    let prepared =
        |work: &S::Work| !work.is_terminal() && work.attempts().iter().any(|a| a.handle.is_some());
    snapshot
        .works
        .iter()
        .filter(|(_, work)| prepared(work))
        .take(MAX_CLAIMS)
        .map(|(instant, work)| {
            let uid = work.meta().uid.clone().unwrap_or_default();
            new_claim(&snapshot.schedule, *instant, uid, true, false)
        })
        .collect()
}
