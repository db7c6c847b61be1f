//! Reports on the real API server with real Jobs: admitted, run, cancelled, turned away.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use super::steps::{
    SOON, column, columns, condition, message_of, moment, operator, patch, state_of, uid,
};
use crate::{
    bed::{
        error::{BedError, Context as _, Result},
        objects::text,
        plan::scenario,
        run::progress,
        scenario::{Scenario, ok},
        wait,
    },
    checker::Report,
};

/// The queue of a scenario.
pub(super) const QUEUE: &str = "reports";
/// What the Jobs report.
const MESSAGE: &str = r#"{"result": {"rows": 3}}"#;
/// Requests under way at one time when many objects are created.
const CONNECTIONS: usize = 16;
/// Pause between two looks at many objects.
const LOOK: Duration = Duration::from_millis(500);

/// A queue whose Jobs play as the annotations `play` say; `spec` is laid over.
pub(super) fn queue(slots: usize, play: &Value, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "ReportQueue",
        "metadata": {"name": QUEUE},
        "spec": {
            "slots": slots,
            "runTemplate": {"job": {"template": {
                "metadata": {"annotations": play},
                "spec": {"containers": [{"name": "main", "image": "registry.example/none:1"}]},
            }}},
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

/// A Job that succeeds after a moment.
pub(super) fn quick() -> Value {
    json!({"play/duration": "200ms", "play/message": MESSAGE})
}

/// A report of a tenant for the scenario's queue.
pub(super) fn report(name: &str, tenant: &str) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "ReportJob",
        "metadata": {"name": name},
        "spec": {"queueName": QUEUE, "tenant": tenant, "estimateSeconds": 1},
    })
}

/// Creates many reports over several connections; gives their names.
pub(super) async fn create_all(s: &Scenario, reports: Vec<Value>) -> Vec<String> {
    let api = s.api("rjob");
    let created = stream::iter(reports.into_iter().map(|report| {
        let api = api.clone();
        async move {
            let name = text(&report, "/metadata/name").to_owned();
            let object = serde_json::from_value(report).expect("a report is an object");
            api.create(&PostParams::default(), &object)
                .await
                .context(|| format!("create report {name}"))
                .map(|_| name)
        }
    }));
    let created: Vec<Result<String>> = created.buffer_unordered(CONNECTIONS).collect().await;
    created.into_iter().map(ok).collect()
}

/// How many reports are in a state, counted by the API server.
pub(super) async fn count(s: &Scenario, state: &str) -> Result<usize> {
    let wanted = ListParams::default().fields(&format!("status.state={state}"));
    let found = s.api("rjob").list_metadata(&wanted).await;
    Ok(found.context(|| format!("count reports that are {state}"))?.items.len())
}

/// Waits until so many reports are in a state.
pub(super) async fn reached(s: &Scenario, state: &str, number: usize, within: Duration) {
    let what = format!("{number} reports are {state}");
    let waited = wait::until(&what, within, || async {
        let now = count(s, state).await?;
        if now >= number {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
        Err(BedError(format!("{now} are")))
    });
    ok(waited.await);
}

/// Waits until a report is in a state.
pub(super) async fn in_state(s: &Scenario, name: &str, state: &str) -> Value {
    let what = format!("its state is {state}");
    s.wait_for("rjob", name, &what, SOON, |o| text(o, "/status/state") == state).await
}

/// Asserts that each of these reports was released once, in all with as many Jobs.
pub(super) fn one_run_each(report: &Report, names: &[String]) {
    for name in names {
        let releases: Vec<_> = report.releases_of(name).collect();
        assert_eq!(releases.len(), 1, "{name}: {releases:?}");
    }
    assert_eq!(report.releases.len(), names.len());
}

/// The newest version of the queue once its ledger is empty.
pub(super) async fn idle(s: &Scenario) -> Value {
    s.wait_for("rqueue", QUEUE, "no slot is taken", SOON, |o| {
        let entries = o["status"]["ledger"]["entries"].as_array();
        o["status"]["ledger"].is_object() && entries.is_none_or(Vec::is_empty)
    })
    .await
}

/// Lets the pod of a report's Job end.
async fn finish(s: &Scenario, name: &str) {
    let labels = format!("batch.kubernetes.io/job-name={name}-r1");
    ok(s.kubectl().run(&["annotate", "pods", "-l", &labels, "play/hang-"]).await);
}

#[test]
fn four_reports_share_two_slots() {
    scenario().on_throw_away_cluster().run(async |s| {
        s.apply(
            &queue(2, &json!({"play/duration": "2s", "play/message": MESSAGE}), &json!({}))
                .to_string(),
        )
        .await;
        let reports = [("r0", "acme"), ("r1", "acme"), ("r2", "acme"), ("r3", "beta")];
        let reports = reports.iter().map(|(name, tenant)| report(name, tenant)).collect();
        let names = create_all(s, reports).await;
        operator(s).await;
        s.wait_for("rqueue", QUEUE, "both slots are taken", SOON, |o| {
            o["status"]["slotsUsed"] == 2
        })
        .await;
        progress(&ok(s.kubectl().run(&["get", "rqueue,rjob"]).await));
        for name in &names {
            let ended = in_state(s, name, "Succeeded").await;
            assert_eq!(state_of(&ended), ("Succeeded", "Completed"), "{ended}");
            assert_eq!(ended["status"]["result"]["rows"], 3, "{ended}");
            assert_eq!(condition(&ended, "Complete").map(|c| c.0), Some("True"));
        }
        let queue = idle(s).await;
        assert_eq!(text(&queue, "/status/admissions"), "Open");
        progress(&ok(s.kubectl().run(&["get", "rqueue,rjob", "-o", "wide"]).await));
        let cells = columns(s, "rqueue", QUEUE).await;
        for (head, cell) in [("SLOTS", "0/2"), ("QUEUED", "0"), ("ADMISSIONS", "Open")] {
            assert_eq!(column(&cells, head), cell, "{head}");
        }
        let cells = columns(s, "rjob", "r3").await;
        for (head, cell) in
            [("STATE", "Succeeded"), ("TENANT", "beta"), ("POSITION", ""), ("REASON", "Completed")]
        {
            assert_eq!(column(&cells, head), cell, "{head}");
        }
        let report = s.verify().await;
        one_run_each(&report, &names);
        assert_eq!(report.most_reports_at_once(), 2);
        let jobs = s.list("job").await;
        assert_eq!(jobs.len(), names.len(), "{jobs:?}");
        // Beta's only report does not wait for acme's third.
        let order: Vec<&str> = report.releases.iter().map(|r| r.identity.as_str()).collect();
        let place = |name| order.iter().position(|of| *of == name);
        assert!(place("r3") < place("r2"), "{order:?}");
    });
}

#[test]
fn what_waits_is_cancelled_at_once_and_what_is_too_much_is_turned_away() {
    scenario().on_throw_away_cluster().run(async |s| {
        let limits = json!({"limits": {"queued": 2, "queuedPerTenant": 2}});
        let play = json!({"play/hang": "true", "play/message": MESSAGE});
        s.apply(&queue(1, &play, &limits).to_string()).await;
        create_all(s, ["a", "b", "c", "d"].map(|name| report(name, "acme")).into()).await;
        operator(s).await;
        // Ages are whole seconds, so who is the youngest is not known before.
        let rejected = wait::until("one is turned away", SOON, || async {
            let all = s.list("rjob").await;
            let rejected = |o: &&Value| text(o, "/status/state") == "Rejected";
            let found = all.iter().find(rejected).cloned();
            found.ok_or_else(|| BedError(format!("{} reports", all.len())))
        });
        let rejected = ok(rejected.await);
        assert_eq!(state_of(&rejected), ("Rejected", "QueueFull"));
        assert!(message_of(&rejected).contains("2 jobs wait"), "{}", message_of(&rejected));
        let answered = condition(&rejected, "Failed").map(|c| c.0);
        assert_eq!(answered, Some("True"), "kubectl wait does not hang: {rejected}");
        assert!(
            moment(&rejected, "/status/retryAfterTime")
                > moment(&rejected, "/metadata/creationTimestamp")
        );
        let mut others: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        others.retain(|name| name != text(&rejected, "/metadata/name"));
        reached(s, "Running", 1, SOON).await;
        reached(s, "Queued", 2, SOON).await;
        let states = s.list("rjob").await;
        let of = |state: &str| -> Vec<String> {
            let found = states.iter().filter(|o| text(o, "/status/state") == state);
            found.map(|o| text(o, "/metadata/name").to_owned()).collect()
        };
        let (running, waiting) = (of("Running"), of("Queued"));
        assert_eq!(
            state_of(
                states
                    .iter()
                    .find(|o| uid(o) != uid(&rejected) && text(o, "/status/state") == "Queued")
                    .unwrap()
            ),
            ("Queued", "WaitingForSlot")
        );
        // Queued: one write, and the place is free.
        let at = Timestamp::now();
        patch(s, "rjob", &waiting[0], &json!({"spec": {"cancel": true}})).await;
        let cancelled = in_state(s, &waiting[0], "Cancelled").await;
        progress(&format!(
            "cancel of a queued report: {:?} after kubectl",
            Timestamp::now().duration_since(at)
        ));
        assert_eq!(cancelled["status"]["attempts"].as_array().map_or(0, Vec::len), 0);
        s.apply(&report("e", "acme").to_string()).await;
        in_state(s, "e", "Queued").await;
        // Running: only once its pod is gone.
        patch(s, "rjob", &running[0], &json!({"spec": {"cancel": true}})).await;
        in_state(s, &running[0], "Cancelled").await;
        for name in [waiting[1].as_str(), "e"] {
            in_state(s, name, "Running").await;
            finish(s, name).await;
            in_state(s, name, "Succeeded").await;
        }
        idle(s).await;
        let report = s.verify().await;
        one_run_each(&report, &[running[0].clone(), waiting[1].clone(), "e".to_owned()]);
        assert_eq!(report.most_reports_at_once(), 1);
    });
}
