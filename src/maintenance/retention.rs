//! How long the record of an occurrence is kept whose schedule is gone.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::conditions::FINISHED;
use crate::api::MaintenanceOccurrence;

/// When the record of a finished occurrence whose schedule is gone may be removed: `keep` after its
/// end. `None` if it has not ended.
pub fn orphan_until(occurrence: &MaintenanceOccurrence, keep: Duration) -> Option<Timestamp> {
    let status = occurrence.status.as_ref()?;
    status.state.filter(|state| state.is_terminal())?;
    let finished = status.conditions.iter().find(|c| c.r#type == FINISHED);
    let ended =
        finished.map_or(occurrence.spec.intended_time.timestamp(), |c| c.last_transition_time.0);
    ended.checked_add(SignedDuration::try_from(keep).ok()?).ok()
}
