//! Schedules of reports on the real API server: one job an instant, whoever leads.

use punctual::identity::occurrence_name;
use serde_json::{Value, json};

use super::{
    reports::{QUEUE, idle, in_state, one_run_each, queue},
    steps::{
        SOON, apply_back_dated, claims, claims_nothing, column, columns, hourly_at, let_go,
        minutes_ago, uid,
    },
    work::{held, pair, revive},
};
use crate::bed::{objects::text, plan::scenario, scenario::ok};

/// The schedule of the scenario.
const HOURLY: &str = "hourly";

fn report_schedule(expression: &str) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "ReportSchedule",
        "metadata": {"name": HOURLY},
        "spec": {
            "schedule": expression,
            "timeZone": "Etc/UTC",
            "jobTemplate": {"spec": {
                "queueName": QUEUE, "tenant": "acme", "estimateSeconds": 1,
                "parameters": {"table": "visits"},
            }},
        },
    })
}

#[test]
fn an_instant_makes_one_report_whoever_leads() {
    scenario().on_throw_away_cluster().run(async |s| {
        let at = minutes_ago(5);
        s.apply(&queue(1, &held(), &json!({})).to_string()).await;
        apply_back_dated(s, &report_schedule(&hourly_at(&[at])), minutes_ago(7)).await;
        pair(s).await;
        let name = occurrence_name(HOURLY, at);
        let runs = in_state(s, &name, "Running").await;
        assert_eq!(text(&runs, "/spec/tenant"), "acme");
        assert_eq!(text(&runs, "/spec/scheduleName"), HOURLY);
        assert_eq!(runs["spec"]["parameters"], json!({"table": "visits"}));
        let schedule = s.get("rsched", HOURLY).await.expect("it was applied");
        assert!(claims(&schedule, uid(&runs), true), "{schedule}");

        let leader = s.leader(SOON).await;
        ok(leader.kill().await);
        s.next_leader(&leader, SOON).await;
        revive(&leader).await;
        let_go(s, &format!("{name}-r1"), "play/hang").await;
        let done = in_state(s, &name, "Succeeded").await;
        assert_eq!((uid(&done), &done["status"]["result"]["rows"]), (uid(&runs), &json!(3)));
        idle(s).await;
        let now = s.wait_for("rsched", HOURLY, "nothing is claimed", SOON, claims_nothing).await;
        assert_eq!(text(&now, "/status/lastScheduleTime"), at.to_string());
        let cells = columns(s, "rsched", HOURLY).await;
        assert_eq!((column(&cells, "STATE"), column(&cells, "ACTIVE")), ("Active", "0"));

        let report = s.verify().await;
        one_run_each(&report, std::slice::from_ref(&name));
        let made: Vec<Value> = s.list("rjob").await;
        assert_eq!(made.iter().map(|job| text(job, "/metadata/name")).collect::<Vec<_>>(), [name]);
    });
}
