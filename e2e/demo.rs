//! Demonstrations on a throw-away control plane: scenarios like those of the suite, told to a person,
//! with the check of the API server's audit log at the end. `make demo-cluster`: the chart, two
//! replicas, one run, the leader killed midway. `make drill-cluster`: a burst of reports that a service
//! outside runs, and all replicas killed.

#![allow(
    unreachable_pub,
    dead_code,
    unused_imports,
    reason = "shares the bed of the e2e suite, uses a part of it, and runs none of its tests"
)]

mod bed;
mod checker;
mod restart;

use std::{process::Command, time::Duration};

use bed::{
    control_plane::PlaneOptions,
    objects::text,
    plan::scenario,
    scenario::{Scenario, ok},
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The schedule that is applied.
const EXAMPLE: &str = include_str!("../docs/examples/nightly-retention.yaml");
/// The schedule's name.
const NAME: &str = "nightly-retention";
/// How long the played pod works: the leader dies in the middle.
const WORK: &str = "20s";
/// Patience with each step; a busy machine is slow.
const STEP: Duration = Duration::from_secs(120);

fn main() {
    // Whoever runs all test targets must not get a demonstration.
    let drill = match std::env::args().nth(1).as_deref() {
        Some("show") => false,
        Some("restart") => true,
        _ => {
            println!("usage: cargo test --test demo -- show | restart");
            return;
        }
    };
    say("Starting a throw-away control plane: etcd, kube-apiserver, controllers, a played node.");
    say("(The first time this builds them from their Go modules, which takes several minutes.)");
    let plan = scenario().on_own_cluster(PlaneOptions::default()).within(STEP * 5);
    if drill {
        plan.run(async |s| rehearse(s).await);
        say(
            "The API server's audit log was checked: epochs increase, no older term wrote after a newer",
        );
        say("one had sealed the object, no outcome changed.");
        return;
    }
    plan.run(async |s| show(s).await);
    say(
        "\nThe API server's audit log was checked: one released run for the identity, strictly increasing",
    );
    say("epochs, no write of the old term after the new one sealed the object, outcome unchanged.");
}

fn say(line: &str) {
    println!("{line}");
}

async fn kubectl(s: &Scenario, args: &[&str]) {
    println!("\n$ kubectl {}", args.join(" "));
    print!("{}", ok(s.kubectl().run(args).await));
}

async fn show(s: &Scenario) {
    say("\nInstalling the chart's account and rights, and starting two replicas with them.");
    let first = s.replica("punctual-0").await;
    let second = s.replica("punctual-1").await;
    ok(first.wait_ready(STEP).await);
    ok(second.wait_ready(STEP).await);
    let leader = s.leader(STEP).await;
    println!("{} leads, the other stands by.", leader.name);
    kubectl(s, &["get", "lease"]).await;

    say("\nApplying docs/examples/nightly-retention.yaml. It prints a plan; it deletes nothing.");
    s.apply(&manifest()).await;
    s.wait_for("msched", NAME, "the operator has seen it", STEP, |o| {
        !text(o, "/status/nextScheduleTime").is_empty()
    })
    .await;
    kubectl(s, &["get", "msched"]).await;

    say(
        "\nIts next instant is tonight. Asking for the present minute by hand gives the same kind of run.",
    );
    let created = trigger(s, &[]);
    let occurrence = text(&created, "/name").to_owned();
    s.wait_for("mocc", &occurrence, "it runs", STEP, |o| text(o, "/status/state") == "Running")
        .await;
    kubectl(s, &["get", "mocc,job,pod"]).await;

    println!(
        "\nKilling the leader, {} (SIGKILL): nothing is released, nothing is said.",
        leader.name
    );
    let killed = Instant::now();
    ok(leader.kill().await);
    let next = s.next_leader(&leader, STEP).await;
    println!("{} leads after {:.1} s.", next.name, killed.elapsed().as_secs_f64());
    kubectl(s, &["get", "lease"]).await;
    say("\nWaiting for the run to end. The new leader follows it; it does not start another.");
    s.wait_for("mocc", &occurrence, "it succeeded", STEP, |o| {
        text(o, "/status/state") == "Succeeded"
    })
    .await;
    kubectl(s, &["get", "msched,mocc,job"]).await;
    let jobs = s.list("job").await.len();
    println!("\nJobs made for it: {jobs}.");
    assert_eq!(jobs, 1, "one run");

    say("\nAsking for the same instant again returns the recorded result and runs nothing:");
    let again = trigger(s, &["--at", text(&created, "/intendedTime")]);
    println!("{}", serde_json::to_string_pretty(&again).unwrap_or_default());
    assert_eq!(again["existing"], json!(true));
    kubectl(s, &["get", "events", "--sort-by=.metadata.creationTimestamp"]).await;
}

/// The restart drill.
async fn rehearse(s: &Scenario) {
    let done = restart::restart(s, say).await;
    kubectl(s, &["get", "rtrace"]).await;
    kubectl(s, &["get", "rqueue,rjob"]).await;
    say("\nWhat the new term recorded, and what follows from the service's own file and from the");
    say("reports as they were while nobody led:\n");
    for (n, count) in restart::COUNTS.into_iter().enumerate() {
        println!("  {count:<11} {:>3}   {:>3}", done.recorded[n], done.derived[n]);
    }
    assert_eq!(done.recorded, done.derived, "the record is wrong");
    let begun = done.service.begun();
    let most = begun.values().max().copied().unwrap_or(0);
    println!("\nThe service began {} runs, none of them more than {most} time.", begun.len());
    println!(
        "{} is uncertain: its slot stays taken, and nothing is tried again by itself.",
        restart::DOUBTFUL
    );
    assert_eq!(most, 1, "{begun:?}");
}

/// Runs `punctual trigger` as a person would.
fn trigger(s: &Scenario, more: &[&str]) -> Value {
    let target = format!("msched/{NAME}");
    let mut args = vec!["trigger", &target, "-n", &s.namespace, "-o", "json"];
    args.extend(more);
    println!("\n$ punctual {}", args.join(" "));
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(&args)
        .env("KUBECONFIG", &s.bed.kubeconfig)
        .output()
        .expect("the binary was built with this program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("-o json prints JSON")
}

/// The example's schedule, in the scenario's namespace. The pod is played by a simulator of nodes,
/// which needs to be told how long it works and what it reports.
fn manifest() -> String {
    let document = EXAMPLE
        .split("\n---")
        .find(|document| document.contains("kind: MaintenanceSchedule"))
        .expect("the example has a schedule");
    let mut schedule: Value = punctual::yaml::from_str(document).expect("the example is YAML");
    if let Some(metadata) = schedule["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    schedule["spec"]["run"]["job"]["template"]["metadata"]["annotations"] = json!({
        "play/duration": WORK,
        "play/message": r#"{"result": {"wouldDelete": 3, "deleted": 0}}"#,
    });
    schedule.to_string()
}
