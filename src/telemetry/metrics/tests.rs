//! Every metric is documented, and what is counted appears under its name.

use std::collections::BTreeSet;

use super::*;

/// Metrics of which each has at least one series.
fn touched() -> Metrics {
    let metrics = Metrics::new();
    metrics.reconciled("MaintenanceSchedule", Err("conflict"), Duration::from_millis(20));
    metrics.action("update", "MaintenanceSchedule", "ok");
    metrics.objects("MaintenanceSchedule", "Active", 3);
    metrics.crd_missing("maintenanceschedules.punctual.dev", true);
    metrics.watch_error("Job");
    metrics.recovery_items("Resumed", 2);
    metrics.service_answered("PUT", "ok", Duration::from_millis(30));
    metrics
}

/// Names as Prometheus shows them: counters end in `_total`.
fn names(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect()
}

#[test]
fn the_reference_lists_exactly_the_metrics_that_exist() {
    let reference = include_str!("../../../docs/reference/metrics.md");
    let documented: BTreeSet<String> = reference
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split(['`', '{']).next())
        .map(str::to_owned)
        .collect();
    assert_eq!(names(&touched().encode()), documented);
}

#[test]
fn values_appear_under_their_names() {
    let metrics = touched();
    metrics.leading(Some(4711));
    metrics.clock_compared(-0.25, true);
    metrics.created(Duration::from_secs(61));
    metrics.released(Duration::from_millis(70));
    metrics.foreign_fence();
    metrics.fenced_write_rejected();
    metrics.fence_enforced(true);
    metrics.recovery_outstanding(1);
    metrics.recovery_completed(Duration::from_millis(1250));
    metrics.recovery_trace_lost();
    metrics.unresolved_oldest(Duration::from_secs(90));
    let text = metrics.encode();
    for line in [
        "punctual_leader 1",
        "punctual_epoch 4711",
        "punctual_clock_skew_seconds -0.25",
        "punctual_clock_ok 1",
        "punctual_creation_lateness_seconds_bucket{le=\"60.0\"} 0",
        "punctual_creation_lateness_seconds_bucket{le=\"300.0\"} 1",
        "punctual_lateness_seconds_bucket{le=\"0.05\"} 0",
        "punctual_lateness_seconds_bucket{le=\"0.1\"} 1",
        "punctual_foreign_fence_total 1",
        "punctual_fenced_write_rejected_total 1",
        "punctual_fence_enforced 1",
        "punctual_crd_missing{crd=\"maintenanceschedules.punctual.dev\"} 1",
        "punctual_objects{kind=\"MaintenanceSchedule\",state=\"Active\"} 3",
        "punctual_actions_total{verb=\"update\",kind=\"MaintenanceSchedule\",result=\"ok\"} 1",
        "punctual_reconciles_total{kind=\"MaintenanceSchedule\",result=\"error\"} 1",
        "punctual_reconcile_errors_total{kind=\"MaintenanceSchedule\",category=\"conflict\"} 1",
        "punctual_recovery_items{class=\"Resumed\"} 2",
        "punctual_recovery_outstanding 1",
        "punctual_recovery_duration_seconds 1.25",
        "punctual_recovery_traces_lost_total 1",
        "punctual_unresolved_oldest_seconds 90.0",
        "punctual_watch_errors_total{kind=\"Job\"} 1",
        "punctual_service_requests_total{method=\"PUT\",result=\"ok\"} 1",
        "punctual_service_request_duration_seconds_bucket{le=\"0.025\",method=\"PUT\"} 0",
        "punctual_service_request_duration_seconds_bucket{le=\"0.05\",method=\"PUT\"} 1",
        "# EOF",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert!((metrics.clock_skew_seconds() - -0.25).abs() < f64::EPSILON);
}

#[test]
fn a_replica_that_stops_leading_says_so() {
    let metrics = Metrics::new();
    metrics.leading(Some(7));
    metrics.leading(None);
    let text = metrics.encode();
    assert!(text.contains("punctual_leader 0\n") && text.contains("punctual_epoch 0\n"));
}
