//! Runs whose occurrence is gone, is being deleted, or is over without them.
//!
//! Deletion is a cancel. The leader stops the runs itself, by their parent's uid, and does not wait
//! for the garbage collector. The schedule's claim keeps the place until they are proven over.

use jiff::{SignedDuration, Timestamp};

use super::{Controller, Key, Memory, PassError, occurrence::all_committed};
use crate::{
    api::{ActionClass, MaintenanceOccurrence, RunSpec},
    authority::Permit,
    cluster::ObjectKey,
    maintenance::schedule::is_terminal,
    providers::{Committed, Orphan, Orphans, ProviderError},
};

/// How often it is looked again.
const INTERVAL: SignedDuration = SignedDuration::from_secs(5);

/// Deleted occurrences whose runs are not known to be over. One that is forgotten frees its claim by
/// what the API server still shows, or by a person's word.
const MAX_DEPARTED: usize = 4096;

/// Length of `-YYYYMMDDHHMM` at the end of an occurrence's name.
const INSTANT_SUFFIX: usize = 13;

impl Controller {
    pub(super) async fn pass_orphan(
        &self,
        namespace: &str,
        uid: &str,
        name: &str,
    ) -> Result<Option<Timestamp>, PassError> {
        let permit = self.permit()?;
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
            self.memory().remember(&parent);
        }
        let again = self.deps.wall.now().checked_add(INTERVAL).ok();
        match self.stop_orphans(&permit, namespace, uid, None).await {
            Ok(Orphans::Over) => {
                if let Some(schedule) = schedule_of(name) {
                    self.queue.add(Key::Schedule(ObjectKey::new(namespace, schedule)));
                }
                Ok(None)
            }
            Ok(Orphans::NotYet { message }) => {
                tracing::debug!(
                    namespace,
                    uid,
                    name,
                    message,
                    "runs of a parent that is over or gone are being stopped"
                );
                Ok(again)
            }
            Err(error) => {
                tracing::debug!(namespace, uid, name, %error, "runs of a parent that is over or gone cannot be stopped yet");
                Ok(again)
            }
        }
    }
}

impl Controller {
    /// Stops what runs for a parent that is gone, going or over. `class`: what its claim says, in
    /// case no version of it was seen.
    pub(super) async fn stop_orphans(
        &self,
        permit: &Permit,
        namespace: &str,
        uid: &str,
        class: Option<ActionClass>,
    ) -> Result<Orphans, ProviderError> {
        let departed = self.memory().departed.get(uid).cloned();
        let orphan = Orphan {
            namespace: namespace.to_owned(),
            parent_uid: uid.to_owned(),
            class: departed.as_ref().map(|d| d.class).or(class).unwrap_or(ActionClass::Fenced),
            attempts: departed.map(|d| d.attempts),
        };
        let outcome = self.deps.providers.stop_orphans(permit, &orphan).await;
        self.deps.recovery.orphaned(uid, &outcome);
        let outcome = outcome?;
        if outcome == Orphans::Over {
            self.memory().departed.remove(uid);
        }
        Ok(outcome)
    }
}

/// What the last version of an occurrence recorded, kept until its runs are over.
#[derive(Clone, Debug)]
pub(super) struct Departed {
    class: ActionClass,
    attempts: Vec<Committed>,
}

impl Memory {
    /// Remembers the last version of an occurrence that goes.
    pub(super) fn remember(&mut self, occurrence: &MaintenanceOccurrence) {
        let Some(uid) = occurrence.metadata.uid.clone() else { return };
        if self.departed.len() >= MAX_DEPARTED {
            self.departed.pop_first();
        }
        let status = occurrence.status.as_ref();
        let run = status.and_then(|s| s.run.as_ref()).or(occurrence.spec.run.as_ref());
        let class = run.map_or(ActionClass::Fenced, RunSpec::maintenance_class);
        self.departed.insert(uid, Departed { class, attempts: all_committed(occurrence) });
    }
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
