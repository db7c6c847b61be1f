//! What a new leader finds of reports, as [`crate::recovery`] counts it, and runs whose report is
//! gone.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::{Controller, Key, queue_key};
use crate::{
    api::{LedgerEntry, ReportJob, ReportQueue, TracePaused},
    cluster::ObjectKey,
    providers::Orphans,
    reconcile::{Departures, PassError},
    recovery::{Found, Item, classify},
    reports::facts::{attempts, class, is_terminal},
    runs::hands,
};

/// Short name of a report job's kind.
const KIND: &str = "rjob";

/// How often it is looked again at runs whose report is gone.
const INTERVAL: SignedDuration = SignedDuration::from_secs(5);

impl Controller {
    /// Every report job that was listed, and every ledger entry whose job is gone.
    pub fn found(&self) -> Vec<(Item, Found)> {
        let mut items = Vec::new();
        for report in self.jobs.all() {
            items.push((item(&report), classify::found_report(&report)));
        }
        for (key, error) in self.jobs.unreadable() {
            let item =
                Item { namespace: key.namespace, kind: KIND, name: key.name, uid: String::new() };
            items.push((item, Found::Unreadable { error: error.to_string() }));
        }
        for queue in self.queues.all() {
            items.extend(self.gone(&queue).into_iter().map(|item| (item, Found::Gone)));
        }
        items
    }

    /// Jobs that hold a slot and are not there any more.
    fn gone(&self, queue: &ReportQueue) -> Vec<Item> {
        let namespace = queue.namespace().unwrap_or_default();
        let ledger = queue.status.as_ref().and_then(|status| status.ledger.as_ref());
        let is_gone = |entry: &&LedgerEntry| {
            let there = self.jobs.get(&ObjectKey::new(&namespace, &entry.job));
            there.is_none_or(|there| there.metadata.uid.as_ref() != Some(&entry.uid))
        };
        let gone = ledger.into_iter().flat_map(|ledger| &ledger.entries).filter(is_gone);
        gone.map(|entry| Item {
            namespace: namespace.clone(),
            kind: KIND,
            name: entry.job.clone(),
            uid: entry.uid.clone(),
        })
        .collect()
    }

    /// Queues of which nothing new is admitted in this term, or not yet.
    pub fn paused(&self) -> Vec<TracePaused> {
        let pause = |queue: String, reason: &str| TracePaused {
            queue: Some(queue),
            schedule: None,
            reason: reason.to_owned(),
        };
        let state = self.state.lock();
        let mut paused = Vec::new();
        for queue in self.queues.all() {
            let key = ObjectKey::of(&queue.metadata);
            let uid = queue.metadata.uid.as_deref().unwrap_or_default();
            if self.deps.quarantine.contains(uid) {
                paused.push(pause(key.to_string(), "ForeignFence"));
            } else if state.terms.get(&key).is_some_and(|term| !term.unaccounted.is_empty()) {
                paused.push(pause(key.to_string(), "RecoveryIncomplete"));
            }
        }
        drop(state);
        let unreadable = self.queues.unreadable().into_iter();
        paused.extend(unreadable.map(|(key, _)| pause(key.to_string(), "Unreadable")));
        paused.sort_by(|a, b| a.queue.cmp(&b.queue));
        paused
    }

    pub(super) async fn pass_orphan(
        &self,
        namespace: &str,
        uid: &str,
        name: &str,
        queue: &str,
    ) -> Result<Option<Timestamp>, PassError> {
        let permit = self.deps.permit()?;
        let key = ObjectKey::new(namespace, name);
        let parent: Option<ReportJob> =
            self.deps.reader.get(&key).await.map_err(PassError::Read)?;
        let parent = parent.filter(|parent| parent.metadata.uid.as_deref() == Some(uid));
        if let Some(parent) = &parent {
            if parent.metadata.deletion_timestamp.is_none() && !is_terminal(parent) {
                self.queue.add(Key::Job(key));
                return Ok(None);
            }
            remember(&self.departures, parent);
        }
        let again = self.deps.wall.now().checked_add(INTERVAL).ok();
        match self.departures.stop(&self.deps, &permit, namespace, uid, None).await {
            Ok(Orphans::Over) => {
                self.queue.add(Key::Queue(ObjectKey::new(namespace, queue)));
                Ok(None)
            }
            Ok(Orphans::NotYet { message }) => {
                tracing::debug!(
                    namespace,
                    uid,
                    name,
                    message,
                    "runs of a report that is over or gone are being stopped"
                );
                Ok(again)
            }
            Err(error) => {
                tracing::debug!(namespace, uid, name, %error, "runs of a report that is over or gone cannot be stopped yet");
                Ok(again)
            }
        }
    }
}

/// Remembers the last version of a report that goes.
pub(super) fn remember(departures: &Departures, report: &ReportJob) {
    let Some(uid) = report.metadata.uid.as_deref() else { return };
    departures.remember(uid, class(report), hands::committed(attempts(report)));
}

/// The key under which the runs of a deleted report are stopped.
pub(super) fn orphan_key(report: &ReportJob) -> Key {
    Key::Orphan {
        namespace: report.namespace().unwrap_or_default(),
        uid: report.uid().unwrap_or_default(),
        name: report.name_any(),
        queue: queue_key(report).name,
    }
}

fn item(report: &ReportJob) -> Item {
    Item {
        namespace: report.namespace().unwrap_or_default(),
        kind: KIND,
        name: report.name_any(),
        uid: report.uid().unwrap_or_default(),
    }
}
