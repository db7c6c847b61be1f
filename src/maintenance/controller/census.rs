//! How many objects are in which state, and how long the oldest unresolved one has been so.
//!
//! Counted change by change, so that it costs nothing with many objects. Changes of one object may
//! arrive in another order than they happened; only sums are kept, so the result is the same.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use crate::{
    api::{MaintenanceOccurrence, MaintenanceSchedule, OccurrenceState, ScheduleState},
    cluster::Change,
    maintenance::conditions::unresolved_since,
    telemetry::Metrics,
};

/// A kind and a state.
type Place = (&'static str, &'static str);

/// The count; clones share it.
#[derive(Clone)]
pub(super) struct Census {
    sums: Arc<Mutex<Sums>>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Sums {
    states: BTreeMap<Place, i64>,
    /// Since when how many occurrences have been unresolved.
    unresolved: BTreeMap<Timestamp, i64>,
}

impl Census {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { sums: Arc::default(), metrics }
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        // Every change is a few additions; a sum that a panic left wrong is only a number shown.
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn schedule(&self, change: &Change<'_, MaintenanceSchedule>) {
        let place = |schedule: &MaintenanceSchedule| {
            let state = schedule.status.as_ref().and_then(|status| status.state);
            ("MaintenanceSchedule", schedule_word(state))
        };
        self.moved(change.old.map(place), change.new.map(place));
    }

    pub(super) fn occurrence(&self, change: &Change<'_, MaintenanceOccurrence>) {
        let place = |occurrence: &MaintenanceOccurrence| {
            let state = occurrence.status.as_ref().and_then(|status| status.state);
            ("MaintenanceOccurrence", occurrence_word(state.unwrap_or(OccurrenceState::Pending)))
        };
        self.moved(change.old.map(place), change.new.map(place));
        let since = |o: &MaintenanceOccurrence| o.status.as_ref().and_then(unresolved_since);
        let (before, after) = (change.old.and_then(since), change.new.and_then(since));
        if before != after {
            let mut sums = self.sums();
            add(&mut sums.unresolved, before, -1);
            add(&mut sums.unresolved, after, 1);
        }
    }

    fn moved(&self, from: Option<Place>, to: Option<Place>) {
        if from == to {
            return;
        }
        let mut sums = self.sums();
        for (place, by) in [(from, -1), (to, 1)] {
            let Some(place) = place else { continue };
            let sum = sums.states.entry(place).or_default();
            *sum += by;
            self.metrics.objects(place.0, place.1, usize::try_from(*sum).unwrap_or(0));
        }
    }

    /// Shows how long the oldest unresolved occurrence has been so.
    pub(super) fn show_age(&self, now: Timestamp) {
        let sums = self.sums();
        let oldest = sums.unresolved.iter().find(|(_, count)| **count > 0).map(|(at, _)| *at);
        let age = oldest.map(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
        self.metrics.unresolved_oldest(age.unwrap_or_default());
    }
}

fn add(sums: &mut BTreeMap<Timestamp, i64>, at: Option<Timestamp>, by: i64) {
    let Some(at) = at else { return };
    let sum = sums.entry(at).or_default();
    *sum += by;
    if *sum == 0 {
        sums.remove(&at);
    }
}

fn schedule_word(state: Option<ScheduleState>) -> &'static str {
    match state {
        None => "New",
        Some(ScheduleState::Active) => "Active",
        Some(ScheduleState::Suspended) => "Suspended",
        Some(ScheduleState::Invalid) => "Invalid",
    }
}

fn occurrence_word(state: OccurrenceState) -> &'static str {
    match state {
        OccurrenceState::Pending => "Pending",
        OccurrenceState::Starting => "Starting",
        OccurrenceState::Running => "Running",
        OccurrenceState::Cancelling => "Cancelling",
        OccurrenceState::Unresolved => "Unresolved",
        OccurrenceState::Succeeded => "Succeeded",
        OccurrenceState::Failed => "Failed",
        OccurrenceState::Cancelled => "Cancelled",
        OccurrenceState::Skipped => "Skipped",
        OccurrenceState::Superseded => "Superseded",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::ObjectKey;

    fn occurrence(status: &Value) -> MaintenanceOccurrence {
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
            "metadata": {"name": "n-202611290200", "namespace": "d", "uid": "u1"},
            "spec": {"scheduleName": "n", "intendedTime": "2026-11-29T02:00:00Z"},
            "status": status,
        }))
        .unwrap()
    }

    fn unresolved(since: &str) -> MaintenanceOccurrence {
        occurrence(&json!({"state": "Unresolved", "conditions": [{
            "type": "Unresolved", "status": "True", "reason": "EndNotSeen", "message": "m",
            "lastTransitionTime": since,
        }]}))
    }

    fn change(
        census: &Census,
        old: Option<&MaintenanceOccurrence>,
        new: Option<&MaintenanceOccurrence>,
    ) {
        let key = ObjectKey::new("d", "n-202611290200");
        census.occurrence(&Change { key: &key, old, new, witnessed: true });
    }

    fn shows(census: &Census, line: &str) -> bool {
        census.metrics.encode().lines().any(|shown| shown == line)
    }

    #[test]
    fn objects_are_counted_where_they_are_and_not_where_they_were() {
        let census = Census::new(Arc::new(Metrics::new()));
        let new = occurrence(&Value::Null);
        let running = occurrence(&json!({"state": "Running"}));
        change(&census, None, Some(&new));
        change(&census, None, Some(&running));
        let of = |state: &str, count: i64| {
            let kind = "MaintenanceOccurrence";
            format!("punctual_objects{{kind=\"{kind}\",state=\"{state}\"}} {count}")
        };
        assert!(shows(&census, &of("Pending", 1)) && shows(&census, &of("Running", 1)));
        change(&census, Some(&new), Some(&running));
        assert!(shows(&census, &of("Pending", 0)) && shows(&census, &of("Running", 2)));
        change(&census, Some(&running), None);
        assert!(shows(&census, &of("Running", 1)));
    }

    #[test]
    fn schedules_without_a_state_are_new() {
        let census = Census::new(Arc::new(Metrics::new()));
        let schedule: MaintenanceSchedule = serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {"name": "n"}, "spec": {"schedule": "@daily", "run": {"simulated": {}}},
        }))
        .unwrap();
        let key = ObjectKey::new("d", "n");
        census.schedule(&Change { key: &key, old: None, new: Some(&schedule), witnessed: true });
        assert!(shows(&census, "punctual_objects{kind=\"MaintenanceSchedule\",state=\"New\"} 1"));
    }

    #[test]
    fn the_oldest_unresolved_one_counts_whatever_order_changes_arrive_in() {
        let census = Census::new(Arc::new(Metrics::new()));
        let now: Timestamp = "2026-11-29T03:00:00Z".parse().unwrap();
        let age = |seconds: &str| {
            census.show_age(now);
            shows(&census, &format!("punctual_unresolved_oldest_seconds {seconds}"))
        };
        assert!(age("0.0"));
        let (first, second) =
            (unresolved("2026-11-29T02:58:30Z"), unresolved("2026-11-29T02:59:30Z"));
        change(&census, None, Some(&second));
        assert!(age("30.0"));
        change(&census, None, Some(&first));
        assert!(age("90.0"));
        // The end of the first is told before its beginning is told again.
        let ended = occurrence(&json!({"state": "Succeeded"}));
        change(&census, Some(&first), Some(&ended));
        assert!(age("30.0"));
        change(&census, Some(&second), None);
        change(&census, Some(&first), Some(&ended));
        assert!(age("0.0"));
        change(&census, Some(&ended), Some(&first));
        assert!(age("0.0"), "the two cancel each other");
    }
}
