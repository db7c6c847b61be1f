//! What a new leader finds, as [`crate::recovery`] counts it.

use kube::ResourceExt as _;

use super::Controller;
use crate::{
    api::{MaintenanceOccurrence, MaintenanceSchedule, TracePaused},
    cluster::ObjectKey,
    recovery::{Found, Item, classify},
    schedules,
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

    /// Claimed occurrences that are not there any more.
    fn gone(&self, schedule: &MaintenanceSchedule) -> Vec<Item> {
        let namespace = schedule.namespace().unwrap_or_default();
        let uid = |name: &str| {
            self.occurrences.get(&ObjectKey::new(&namespace, name))?.metadata.uid.clone()
        };
        let item = |(name, uid)| Item { namespace: namespace.clone(), kind: KIND, name, uid };
        schedules::gone(schedule, uid).into_iter().map(item).collect()
    }

    /// Schedules of which nothing new is started in this term.
    pub fn paused(&self) -> Vec<TracePaused> {
        let alone = self.deps.left_alone(&self.schedules).into_iter();
        let mut paused: Vec<TracePaused> =
            alone.map(|(key, why)| TracePaused::schedule(&key.to_string(), why)).collect();
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
