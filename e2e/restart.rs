//! The restart drill on real processes: in a burst of reports that a service outside the cluster runs,
//! all replicas are killed, and the service will not say how one run stands. `make drill-cluster` tells
//! it to a person, the suite judges it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::{
    objects::text,
    operator::ReplicaOptions,
    scenario::{Scenario, ok},
    service::Service,
};

/// Far longer than anything here takes on a busy machine; a doubt is recorded after a minute.
const PATIENCE: Duration = Duration::from_secs(180);
/// The queue.
pub const QUEUE: &str = "reports";
/// Slots of it.
const SLOTS: usize = 4;
/// The run of which the service will not speak.
pub const DOUBTFUL: &str = "doubtful";
/// What a recovery trace counts.
pub const COUNTS: [&str; 4] = ["resumed", "reconciled", "preserved", "uncertain"];

/// How it went.
pub struct Restart {
    /// The record of the first term after it.
    pub trace: Value,
    /// What the record counts, in the order of [`COUNTS`].
    pub recorded: [u64; 4],
    /// The same from the service's file, and from the reports as they were while nobody led.
    pub derived: [u64; 4],
    /// The service.
    pub service: Service,
}

/// A queue whose reports the service runs.
pub fn queue(service: &Service, slots: usize) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "ReportQueue",
        "metadata": {"name": QUEUE},
        "spec": {
            "slots": slots,
            "runTemplate": {
                "actionClass": "Fenced", "maxAttempts": 1, "http": {"url": service.url()},
            },
        },
    })
}

/// A report of a tenant that goes as the parameters say.
pub fn report(name: &str, tenant: &str, parameters: &Value) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "ReportJob",
        "metadata": {"name": name},
        "spec": {
            "queueName": QUEUE, "tenant": tenant, "estimateSeconds": 1, "parameters": parameters,
        },
    })
}

/// The run key of a report's first attempt.
pub fn run_key(report: &Value) -> String {
    text(report, "/status/attempts/0/runKey").to_owned()
}

/// Two replicas that may talk to a service on this machine; one leads.
pub async fn replicas(s: &Scenario) {
    for name in ["r0", "r1"] {
        let args = vec!["--allow-local-providers".to_owned()];
        let options = ReplicaOptions { args, ..ReplicaOptions::default() };
        ok(s.replica_with(name, &options).await.wait_ready(PATIENCE).await);
    }
    s.leader(PATIENCE).await;
}

/// Submits reports and waits until all of them are in a state.
async fn submit(s: &Scenario, names: &[&str], parameters: &Value, state: &str) {
    let tenants = ["acme", "small"].into_iter().cycle();
    let reports: Vec<String> = names
        .iter()
        .zip(tenants)
        .map(|(name, tenant)| report(name, tenant, parameters).to_string())
        .collect();
    s.apply(&reports.join("\n---\n")).await;
    for name in names {
        is(s, name, state).await;
    }
}

/// Waits until a report is in a state.
pub async fn is(s: &Scenario, name: &str, state: &str) -> Value {
    let what = format!("its state is {state}");
    s.wait_for("rjob", name, &what, PATIENCE, |o| text(o, "/status/state") == state).await
}

/// Kills all replicas in a burst, starts them again, and waits for the record of what they found.
/// `tell` is told what happens, in sentences.
pub async fn restart(s: &Scenario, tell: impl Fn(&str)) -> Restart {
    let service = Service::start(s, &[]).await;
    replicas(s).await;
    s.apply(&queue(&service, SLOTS).to_string()).await;
    tell("Two reports run to their end, one fails, three go on.");
    submit(s, &["done", "with-artifact"], &json!({"fakeArtifact": "true"}), "Succeeded").await;
    let fails = json!({"fakeOutcome": "Failed", "fakeReason": "Crash", "fakeRetryable": "false"});
    submit(s, &["fails"], &fails, "Failed").await;
    let long = json!({"fakeDurationSeconds": "86400"});
    submit(s, &["long-1", "long-2", DOUBTFUL], &long, "Running").await;
    tell("One takes the last slot; six more wait, and one of these is cancelled.");
    submit(s, &["last"], &long, "Running").await;
    let waiting = ["waits-1", "waits-2", "waits-3", "waits-4", "waits-5", "not-wanted"];
    submit(s, &waiting, &long, "Queued").await;
    ok(s.kubectl().run(&["patch", "rjob", "not-wanted", "--type=merge", "-p", CANCEL]).await);
    is(s, "not-wanted", "Cancelled").await;

    let term = ok(s.epoch().await);
    let doubtful = run_key(&is(s, DOUBTFUL, "Running").await);
    tell("All replicas are killed (SIGKILL). Nothing is released, nothing is said.");
    for replica in both(s) {
        ok(replica.kill().await);
    }
    tell("From now on the service says of one run that it does not know how it stands.");
    service.arm("unknown", &doubtful, "get").await;
    let derived = derived(&service, &s.list("rjob").await, &doubtful);
    tell("The replicas are started again. A new term takes over what it finds.");
    for replica in both(s) {
        ok(replica.restart().await);
    }
    let trace = s.record_after(term, PATIENCE).await;
    let recorded = COUNTS.map(|count| trace["status"][count].as_u64().unwrap_or(u64::MAX));
    Restart { trace, recorded, derived, service }
}

const CANCEL: &str = r#"{"spec": {"cancel": true}}"#;

fn both(s: &Scenario) -> [std::sync::Arc<crate::bed::operator::Replica>; 2] {
    ["r0", "r1"].map(|name| s.replica_named(name).expect("it was started"))
}

/// What was over, what runs, what the service will not speak of, and what had not begun.
fn derived(service: &Service, reports: &[Value], silent_about: &str) -> [u64; 4] {
    const OVER: [&str; 4] = ["Succeeded", "Failed", "Cancelled", "Rejected"];
    let begun = service.begun();
    let [mut resumed, mut reconciled, mut preserved, mut uncertain] = [0; 4];
    for report in reports {
        let key = run_key(report);
        if OVER.contains(&text(report, "/status/state")) {
            preserved += 1;
        } else if !begun.contains_key(&key) {
            resumed += 1;
        } else if key == silent_about {
            uncertain += 1;
        } else {
            reconciled += 1;
        }
    }
    [resumed, reconciled, preserved, uncertain]
}
