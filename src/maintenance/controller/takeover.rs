//! What a new leader finds, as [`crate::recovery`] counts it.

use kube::ResourceExt as _;

use super::Controller;
use crate::{
    api::{MaintenanceOccurrence, MaintenanceSchedule, TracePaused},
    identity::occurrence_name,
    maintenance::schedule::needs_takeover,
    recovery::{Found, Item, classify},
};

/// Short name of an occurrence's kind.
const KIND: &str = "mocc";

impl Controller {
    /// Every occurrence that was listed, and every claim whose occurrence is gone.
    pub fn found(&self) -> Vec<(Item, Found)> {
        let mut items = Vec::new();
        for occurrence in self.occurrences.all() {
            items.push((item(&occurrence), classify::found(&occurrence)));
        }
        for (key, error) in self.occurrences.unreadable() {
            let item =
                Item { namespace: key.namespace, kind: KIND, name: key.name, uid: String::new() };
            items.push((item, Found::Unreadable { error: error.to_string() }));
        }
        for schedule in self.schedules.all() {
            items.extend(self.gone(&schedule).into_iter().map(|item| (item, Found::Gone)));
        }
        items
    }

    /// Claimed occurrences that are not there any more. A schedule that starts anew discards its
    /// claims, so nothing is to be learnt of them.
    fn gone(&self, schedule: &MaintenanceSchedule) -> Vec<Item> {
        if needs_takeover(schedule) {
            return Vec::new();
        }
        let namespace = schedule.namespace().unwrap_or_default();
        let mut gone = Vec::new();
        for claim in schedule.status.iter().flat_map(|status| &status.claimed) {
            let name = occurrence_name(&schedule.name_any(), claim.time);
            let key = crate::cluster::ObjectKey::new(&namespace, &name);
            let there = self.occurrences.get(&key);
            if there.is_none_or(|there| there.metadata.uid.as_ref() != Some(&claim.uid)) {
                let (namespace, uid) = (namespace.clone(), claim.uid.clone());
                gone.push(Item { namespace, kind: KIND, name, uid });
            }
        }
        gone
    }

    /// Schedules of which nothing new is started in this term.
    pub fn paused(&self) -> Vec<TracePaused> {
        let pause = |schedule: String, reason: &str| TracePaused {
            schedule: Some(schedule),
            queue: None,
            reason: reason.to_owned(),
        };
        let quarantined = self.schedules.all().into_iter().filter_map(|schedule| {
            let uid = schedule.metadata.uid.as_deref()?;
            let key = crate::cluster::ObjectKey::of(&schedule.metadata);
            self.deps.quarantine.contains(uid).then(|| pause(key.to_string(), "ForeignFence"))
        });
        let unreadable = self.schedules.unreadable().into_iter();
        let unreadable = unreadable.map(|(key, _)| pause(key.to_string(), "Unreadable"));
        let mut paused: Vec<TracePaused> = quarantined.chain(unreadable).collect();
        paused.sort_by(|a, b| a.schedule.cmp(&b.schedule));
        paused
    }
}

fn item(occurrence: &MaintenanceOccurrence) -> Item {
    Item {
        namespace: occurrence.namespace().unwrap_or_default(),
        kind: KIND,
        name: occurrence.name_any(),
        uid: occurrence.uid().unwrap_or_default(),
    }
}
