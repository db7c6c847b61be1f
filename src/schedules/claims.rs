//! Claims of a schedule that is taken over.

use kube::{Resource as _, ResourceExt as _};

use super::{Kind, Snapshot, Work as _, kind::new_claim, needs_takeover};
use crate::{
    api::{Claim, MAX_CLAIMS},
    identity::occurrence_name,
};

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

/// Name and uid of claimed work that is not there any more; `there` gives the uid of what has a
/// name. A schedule that starts anew discards its claims, so nothing is to be learnt of them.
pub fn gone<S: Kind>(
    schedule: &S,
    there: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    if needs_takeover(schedule) {
        return Vec::new();
    }
    let claimed = schedule.status().into_iter().flat_map(|status| &status.claimed);
    let named = claimed.map(|claim| (occurrence_name(&schedule.name_any(), claim.time), claim));
    named
        .filter(|(name, claim)| there(name).as_ref() != Some(&claim.uid))
        .map(|(name, claim)| (name, claim.uid.clone()))
        .collect()
}
