//! Runs whose occurrence is gone, is being deleted, or is over without them.
//!
//! Deletion is a cancel. The leader stops the runs itself, by their parent's uid, and does not wait
//! for the garbage collector. The schedule's claim keeps the place until they are proven over.

use jiff::Timestamp;

use super::{Controller, Key, occurrence::all_committed};
use crate::{
    api::{ActionClass, MaintenanceOccurrence, RunSpec},
    cluster::ObjectKey,
    maintenance::schedule::is_terminal,
    reconcile::{Departures, Followed, PassError},
};

/// Length of `-YYYYMMDDHHMM` at the end of an occurrence's name.
const INSTANT_SUFFIX: usize = 13;

impl Controller {
    pub(super) async fn pass_orphan(
        &self,
        namespace: &str,
        uid: &str,
        name: &str,
    ) -> Result<Option<Timestamp>, PassError> {
        let permit = self.deps.permit()?;
        let key = ObjectKey::new(namespace, name);
        let parent: Option<MaintenanceOccurrence> =
            self.deps.reader.get(&key).await.map_err(PassError::Read)?;
        let open = parent.as_ref().is_some_and(|p| {
            p.metadata.uid.as_deref() == Some(uid)
                && p.metadata.deletion_timestamp.is_none()
                && !is_terminal(p)
        });
        if open {
            self.queue.add(Key::Occurrence(key));
            return Ok(None);
        }
        if let Some(parent) = parent.filter(|p| p.metadata.uid.as_deref() == Some(uid)) {
            remember(&self.departures, &parent);
        }
        match self.departures.follow(&self.deps, &permit, &key, uid).await {
            Followed::Over => {
                if let Some(schedule) = schedule_of(name) {
                    self.queue.add(Key::Schedule(ObjectKey::new(namespace, schedule)));
                }
                Ok(None)
            }
            Followed::Again(at) => Ok(at),
        }
    }
}

/// Remembers the last version of an occurrence that goes.
pub(super) fn remember(departures: &Departures, occurrence: &MaintenanceOccurrence) {
    let Some(uid) = occurrence.metadata.uid.as_deref() else { return };
    let status = occurrence.status.as_ref();
    let run = status.and_then(|s| s.run.as_ref()).or(occurrence.spec.run.as_ref());
    let class = run.map_or(ActionClass::Fenced, RunSpec::maintenance_class);
    // A run whose end is recorded is over: its service is not asked again when the record goes.
    let http = run.and_then(|run| run.http.clone()).filter(|_| !is_terminal(occurrence));
    departures.remember(uid, class, http, all_committed(occurrence));
}

/// The schedule's name in an occurrence's name.
fn schedule_of(occurrence: &str) -> Option<&str> {
    let cut = occurrence.len().checked_sub(INSTANT_SUFFIX)?;
    occurrence.get(..cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_in_the_name() {
        assert_eq!(schedule_of("nightly-retention-202611290200"), Some("nightly-retention"));
        assert_eq!(schedule_of("short"), None);
    }
}
