//! In which state schedules and occurrences are counted.

use crate::{
    api::{MaintenanceOccurrence, MaintenanceSchedule, OccurrenceState},
    cluster::Change,
    maintenance::conditions::unresolved_since,
    reconcile::{Census, schedule_word},
};

pub(super) fn schedule_changed(census: &Census, change: &Change<'_, MaintenanceSchedule>) {
    census.count(change, |schedule| {
        let state = schedule.status.as_ref().and_then(|status| status.state);
        ("MaintenanceSchedule", schedule_word(state))
    });
}

pub(super) fn occurrence_changed(census: &Census, change: &Change<'_, MaintenanceOccurrence>) {
    census.count(change, |occurrence| {
        let state = occurrence.status.as_ref().and_then(|status| status.state);
        ("MaintenanceOccurrence", occurrence_word(state.unwrap_or(OccurrenceState::Pending)))
    });
    census.age(change, |occurrence| occurrence.status.as_ref().and_then(unresolved_since));
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
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::{cluster::ObjectKey, telemetry::Metrics};

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
        occurrence_changed(census, &Change { key: &key, old, new, witnessed: true });
    }

    #[test]
    fn objects_are_counted_where_they_are_and_not_where_they_were() {
        let census = Census::new(&Arc::new(Metrics::new()));
        let new = occurrence(&Value::Null);
        let running = occurrence(&json!({"state": "Running"}));
        change(&census, None, Some(&new));
        change(&census, None, Some(&running));
        let of = |state: &str, count: i64| {
            let kind = "MaintenanceOccurrence";
            format!("punctual_objects{{kind=\"{kind}\",state=\"{state}\"}} {count}")
        };
        assert!(census.shows(&of("Pending", 1)) && census.shows(&of("Running", 1)));
        change(&census, Some(&new), Some(&running));
        assert!(census.shows(&of("Pending", 0)) && census.shows(&of("Running", 2)));
        change(&census, Some(&running), None);
        assert!(census.shows(&of("Running", 1)));
    }

    #[test]
    fn schedules_without_a_state_are_new() {
        let census = Census::new(&Arc::new(Metrics::new()));
        let schedule: MaintenanceSchedule = serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {"name": "n"}, "spec": {"schedule": "@daily", "run": {"simulated": {}}},
        }))
        .unwrap();
        let key = ObjectKey::new("d", "n");
        let new = Some(&schedule);
        schedule_changed(&census, &Change { key: &key, old: None, new, witnessed: true });
        assert!(census.shows("punctual_objects{kind=\"MaintenanceSchedule\",state=\"New\"} 1"));
    }

    #[test]
    fn the_oldest_unresolved_one_counts_whatever_order_changes_arrive_in() {
        let census = Census::new(&Arc::new(Metrics::new()));
        let now: Timestamp = "2026-11-29T03:00:00Z".parse().unwrap();
        let age = |seconds: &str| {
            census.show_age(now);
            census.shows(&format!("punctual_unresolved_oldest_seconds {seconds}"))
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
