//! What a new leader finds of reports, as [`crate::recovery`] counts it, and runs whose report is
//! gone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt as _;

use super::{Controller, Key, queue_key};
use crate::{
    api::{LedgerEntry, ReportJob, ReportQueue, ReportSchedule, TracePaused},
    cluster::ObjectKey,
    reconcile::{Departures, Followed, PassError},
    recovery::{Found, Item, classify},
    reports::{
        facts::{attempts, class, is_terminal},
        queue::entries,
    },
    runs::hands,
    schedules,
};

/// Short name of a report job's kind.
const KIND: &str = "rjob";

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

    /// Claimed jobs that are not there any more.
    fn gone_of_schedule(&self, schedule: &ReportSchedule) -> Vec<Item> {
        let namespace = schedule.namespace().unwrap_or_default();
        let uid =
            |name: &str| self.jobs.get(&ObjectKey::new(&namespace, name))?.metadata.uid.clone();
        let item = |(name, uid)| Item { namespace: namespace.clone(), kind: KIND, name, uid };
        schedules::gone(schedule, uid).into_iter().map(item).collect()
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
        let alone: BTreeMap<ObjectKey, &str> =
            self.deps.left_alone(&self.queues).into_iter().collect();
        let mut paused: Vec<TracePaused> =
            alone.iter().map(|(key, why)| TracePaused::queue(&key.to_string(), why)).collect();
        let state = self.state.lock();
        let open = |key: &ObjectKey| !alone.contains_key(key) && self.queues.get(key).is_some();
        for (key, term) in state.terms.iter().filter(|(key, _)| open(key)) {
            if !term.unaccounted.is_empty() {
                paused.push(TracePaused::queue(&key.to_string(), "RecoveryIncomplete"));
            }
        }
        drop(state);
        let schedules = self.deps.left_alone(&self.schedules).into_iter();
        paused.extend(schedules.map(|(key, why)| TracePaused::schedule(&key.to_string(), why)));
        paused.sort_by(|a, b| (&a.queue, &a.schedule).cmp(&(&b.queue, &b.schedule)));
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
        match self.departures.follow(&self.deps, &permit, &key, uid).await {
            Followed::Over => {
                self.queue.add(Key::Queue(ObjectKey::new(namespace, queue)));
                Ok(None)
            }
            Followed::Again(at) => Ok(at),
        }
    }
}

/// Remembers the last version of a report that goes.
pub(super) fn remember(departures: &Departures, report: &ReportJob) {
    let Some(uid) = report.metadata.uid.as_deref() else { return };
    let status = report.status.as_ref();
    let run = status.and_then(|s| s.run.as_ref()).or(report.spec.run.as_deref());
    // A run whose end is recorded is over: its service is not asked again when the record goes.
    let http = run.and_then(|run| run.http.clone()).filter(|_| !is_terminal(report));
    departures.remember(uid, class(report), http, hands::committed(attempts(report)));
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
