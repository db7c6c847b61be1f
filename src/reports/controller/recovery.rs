//! What a new leader finds of reports, as [`crate::recovery`] counts it, and runs whose report is
//! gone.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::{Controller, Key, queue_key};
use crate::{
    api::{Claim, LedgerEntry, ReportJob, ReportQueue, ReportSchedule, TracePaused},
    cluster::ObjectKey,
    identity::occurrence_name,
    providers::Orphans,
    reconcile::{Departures, PassError},
    recovery::{Found, Item, classify},
    reports::{
        facts::{attempts, class, is_terminal},
        queue::entries,
    },
    runs::hands,
    schedules::needs_takeover,
};

/// Short name of a report job's kind.
const KIND: &str = "rjob";

/// How often it is looked again at runs whose report is gone.
const INTERVAL: SignedDuration = SignedDuration::from_secs(5);

impl Controller {
    /// Every report job that was listed, and every ledger entry and claim whose job is gone.
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
        // A job that is gone may stand in a ledger and in a claim.
        let mut gone = BTreeSet::new();
        for queue in self.queues.all() {
            gone.extend(self.gone(&queue));
        }
        for schedule in self.schedules.all() {
            gone.extend(self.gone_of_schedule(&schedule));
        }
        items.extend(gone.into_iter().map(|item| (item, Found::Gone)));
        items
    }

    /// Claimed jobs that are not there any more. A schedule that starts anew discards its claims, so
    /// nothing is to be learnt of them.
    fn gone_of_schedule(&self, schedule: &ReportSchedule) -> Vec<Item> {
        if needs_takeover(schedule) {
            return Vec::new();
        }
        let namespace = schedule.namespace().unwrap_or_default();
        let claimed = schedule.status.iter().flat_map(|status| &status.claimed);
        let item = |claim: &Claim| {
            let name = occurrence_name(&schedule.name_any(), claim.time);
            let there = self.jobs.get(&ObjectKey::new(&namespace, &name));
            let is_there = there.is_some_and(|job| job.metadata.uid.as_ref() == Some(&claim.uid));
            let (namespace, uid) = (namespace.clone(), claim.uid.clone());
            (!is_there).then_some(Item { namespace, kind: KIND, name, uid })
        };
        claimed.filter_map(item).collect()
    }

    /// Jobs that hold a slot and are not there any more.
    fn gone(&self, queue: &ReportQueue) -> Vec<Item> {
        let namespace = queue.namespace().unwrap_or_default();
        let is_gone = |entry: &&LedgerEntry| {
            let there = self.jobs.get(&ObjectKey::new(&namespace, &entry.job));
            there.is_none_or(|there| there.metadata.uid.as_ref() != Some(&entry.uid))
        };
        let gone = entries(queue).iter().filter(is_gone);
        gone.map(|entry| Item {
            namespace: namespace.clone(),
            kind: KIND,
            name: entry.job.clone(),
            uid: entry.uid.clone(),
        })
        .collect()
    }

    /// Queues of which nothing new is admitted in this term, or not yet, and schedules.
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
        paused.extend(self.paused_schedules());
        paused.sort_by(|a, b| (&a.queue, &a.schedule).cmp(&(&b.queue, &b.schedule)));
        paused
    }

    /// Schedules of which nothing new is claimed in this term.
    fn paused_schedules(&self) -> Vec<TracePaused> {
        let pause = |key: ObjectKey, reason: &str| TracePaused {
            queue: None,
            schedule: Some(key.to_string()),
            reason: reason.to_owned(),
        };
        let quarantined = self.schedules.all().into_iter().filter_map(|schedule| {
            let foreign = self.deps.quarantine.contains(schedule.metadata.uid.as_deref()?);
            foreign.then(|| pause(ObjectKey::of(&schedule.metadata), "ForeignFence"))
        });
        let unreadable = self.schedules.unreadable().into_iter();
        quarantined.chain(unreadable.map(|(key, _)| pause(key, "Unreadable"))).collect()
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
