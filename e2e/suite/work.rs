//! What the scenarios about authority and faults run: a schedule that is due only by hand, and Jobs
//! that end when the scenario says so.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    bed::{
        error::BedError,
        objects::text,
        operator::{LEASE_DURATION, Replica, ReplicaOptions},
        proxy::Proxy,
        run::progress,
        scenario::{Scenario, ok},
        wait,
    },
    checker::{
        Report,
        history::{Actor, Entry},
    },
};

/// Far longer than anything awaited here takes on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);
/// The schedule of a scenario.
pub const SCHEDULE: &str = "work";
/// An expression that is not due while the suite runs: occurrences are made by hand.
pub const BY_HAND: &str = "0 0 29 2 *";
/// What the Jobs report.
const MESSAGE: &str = r#"{"result": {"rows": 3}}"#;
/// Failover goal: the Lease's duration with its margin, and 2.5 s to notice, seal and write.
pub const FAILOVER_GOAL: Duration = LEASE_DURATION
    .saturating_mul(21)
    .checked_div(20)
    .unwrap()
    .saturating_add(Duration::from_millis(2500));
/// Goal of a hand-over that was asked for.
pub const HANDOVER_GOAL: Duration = Duration::from_millis(300);

/// States in which nothing more happens.
const TERMINAL: [&str; 5] = ["Succeeded", "Failed", "Cancelled", "Skipped", "Superseded"];

/// A Job that succeeds after a moment.
pub fn quick() -> Value {
    json!({"play/duration": "200ms", "play/message": MESSAGE})
}

/// A Job that runs until [`finish`].
pub fn held() -> Value {
    json!({"play/hang": "true", "play/message": MESSAGE})
}

/// The scenario's schedule, whose Jobs play as the annotations `play` say.
pub fn schedule(expression: &str, play: &Value) -> String {
    json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "MaintenanceSchedule",
        "metadata": {"name": SCHEDULE},
        "spec": {
            "schedule": expression,
            "run": {"job": {"template": {
                "metadata": {"annotations": play},
                "spec": {"containers": [{"name": "main", "image": "registry.example/none:1"}]},
            }}},
        },
    })
    .to_string()
}

/// Asks for an instant of the schedule by hand, as a person does with kubectl; it is past, so it
/// runs at once. Gives the occurrence's name. Numbers are below 100, each is another instant.
pub async fn trigger(s: &Scenario, number: usize) -> String {
    // Fixed at the first use: the same number is the same instant however long the suite runs.
    static FIRST: LazyLock<i64> = LazyLock::new(|| Timestamp::now().as_second() / 60 * 60 - 7200);
    let number = i64::try_from(number).expect("a small number");
    let instant = Timestamp::from_second(*FIRST + 60 * number).expect("a time in this century");
    let name = format!("{SCHEDULE}-{}", instant.strftime("%Y%m%d%H%M"));
    let occurrence = json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "MaintenanceOccurrence",
        "metadata": {"name": name},
        "spec": {
            "scheduleName": SCHEDULE,
            "intendedTime": instant.strftime("%Y-%m-%dT%H:%M:00Z").to_string(),
        },
    });
    s.apply(&occurrence.to_string()).await;
    name
}

/// The Job of the first attempt.
pub fn job(occurrence: &str) -> String {
    format!("{occurrence}-m1")
}

/// Waits until the occurrence runs.
pub async fn running(s: &Scenario, name: &str) -> Value {
    s.wait_for("mocc", name, "it runs", SOON, |o| text(o, "/status/state") == "Running").await
}

/// Lets the pod of a [`held`] Job end.
pub async fn finish(s: &Scenario, name: &str) {
    let of_job = kube::api::ListParams::default().labels(&format!("job-name={}", job(name)));
    let pods = s.api("pod").list(&of_job).await.expect("pods can be listed");
    let [pod] = pods.items.as_slice() else { panic!("{} pods of {name}", pods.items.len()) };
    let release = Patch::Merge(json!({"metadata": {"annotations": {"play/hang": null}}}));
    let pod = pod.metadata.name.as_deref().expect("an object has a name");
    s.api("pod").patch(pod, &PatchParams::default(), &release).await.expect("a pod can be patched");
}

/// Waits until the occurrence has ended, well and with the result that its Job reported.
pub async fn succeeded(s: &Scenario, name: &str) -> Value {
    let ended = s
        .wait_for("mocc", name, "it has ended", SOON, |o| {
            TERMINAL.contains(&text(o, "/status/state"))
        })
        .await;
    assert_eq!(text(&ended, "/status/state"), "Succeeded", "{ended}");
    assert_eq!(ended["status"]["result"]["rows"], 3, "{ended}");
    ended
}

/// Waits until the schedule has nothing in hand: all its claims are settled.
pub async fn idle(s: &Scenario) {
    s.wait_for("msched", SCHEDULE, "nothing is claimed", SOON, |o| {
        !o["status"]["fence"].is_null()
            && o["status"]["claimed"].as_array().is_none_or(Vec::is_empty)
    })
    .await;
}

/// Two replicas; one leads, the other is ready to take over.
pub async fn pair(s: &Scenario) -> [Arc<Replica>; 2] {
    pair_with(s, [ReplicaOptions::default(), ReplicaOptions::default()]).await
}

/// Two replicas, each behind a proxy of its own.
pub async fn fronted_pair(s: &Scenario) -> ([Arc<Replica>; 2], [Proxy; 2]) {
    let proxies = [s.proxy().await, s.proxy().await];
    let replicas = pair_with(s, [through(&proxies[0]), through(&proxies[1])]).await;
    (replicas, proxies)
}

/// Two replicas behind one proxy, which sees the writes of whoever leads.
pub async fn pair_behind(s: &Scenario, proxy: &Proxy) -> [Arc<Replica>; 2] {
    pair_with(s, [through(proxy), through(proxy)]).await
}

fn through(proxy: &Proxy) -> ReplicaOptions {
    ReplicaOptions { through: Some(proxy.server()), ..ReplicaOptions::default() }
}

async fn pair_with(s: &Scenario, options: [ReplicaOptions; 2]) -> [Arc<Replica>; 2] {
    let [first, second] = options;
    let pair = [s.replica_with("r0", &first).await, s.replica_with("r1", &second).await];
    for replica in &pair {
        ok(replica.wait_ready(SOON).await);
    }
    s.leader(SOON).await;
    pair
}

/// Which of a pair leads now, by the Lease. A busy machine may move leadership at any time.
pub async fn leading(s: &Scenario) -> usize {
    usize::from(s.leader(SOON).await.name == "r1")
}

/// Epoch of the present term, as the Lease says.
pub async fn epoch(s: &Scenario) -> i64 {
    ok(s.epoch().await)
}

/// Waits until a term was renewed so many times, or has ended.
pub async fn renewed(s: &Scenario, term: i64, times: usize) {
    let (epoch, attempt) = ("punctual.dev/epoch", "punctual.dev/attempt");
    let term = term.to_string();
    s.wait_for("lease", &s.lease, &format!("renewed {times} times"), SOON, |lease| {
        let notes = &lease["metadata"]["annotations"];
        let renewals = notes[attempt].as_str().and_then(|text| text.parse::<usize>().ok());
        notes[epoch].as_str() != Some(&term) || renewals.is_some_and(|number| number >= times)
    })
    .await;
}

/// Waits until the Lease is held by one replica.
pub async fn led_by(s: &Scenario, replica: &Replica) {
    let holder = format!("{}/", replica.name);
    s.wait_for("lease", &s.lease, &format!("{} leads", replica.name), SOON, |lease| {
        text(lease, "/spec/holderIdentity").starts_with(&holder)
    })
    .await;
}

/// Waits until a replica that lost leadership ends by itself, with an error.
pub async fn gives_up(replica: &Replica) {
    let status = ok(replica.wait_exit(SOON).await);
    let code = status.code();
    assert!(
        code.is_some_and(|code| code != 0),
        "{}: {status}\n{}",
        replica.name,
        replica.log_text()
    );
}

/// Starts an ended replica again, as a Pod's container is, and waits until it can take over.
pub async fn revive(replica: &Replica) {
    ok(replica.restart().await);
    ok(replica.wait_ready(SOON).await);
}

/// The first decision that a term wrote.
pub fn first_decision(report: &Report, epoch: i64) -> &Entry {
    let found = report.history.committed.iter().find(|entry| {
        // The record of what a term found decides nothing.
        entry.actor == Actor::Operator
            && entry.resource != "recoverytraces"
            && entry.fence().is_some_and(|(of, _)| of == epoch)
    });
    found.unwrap_or_else(|| panic!("epoch {epoch} decided nothing"))
}

/// The write that acquired the Lease for a term.
pub fn acquisition(report: &Report, epoch: i64) -> &Entry {
    let term = report.terms.iter().find(|term| term.epoch == epoch).expect("a term of the report");
    let found = report.history.committed.iter().find(|entry| entry.place == Some(term.place));
    found.expect("a term stands in its history")
}

/// From `start` to when the API server received a write; zero if that was before.
pub fn since(start: Timestamp, entry: &Entry) -> Duration {
    let elapsed: SignedDuration = entry.received.duration_since(start);
    elapsed.try_into().unwrap_or_default()
}

/// Asserts that each of the occurrences was released exactly once, in all with as many Jobs.
pub async fn one_run_each(s: &Scenario, report: &Report, names: &[String]) {
    for name in names {
        let releases: Vec<_> = report.releases_of(name).collect();
        assert_eq!(releases.len(), 1, "{name}: {releases:?}");
    }
    let jobs = s.list("job").await;
    let jobs: Vec<&str> = jobs.iter().map(|job| text(job, "/metadata/name")).collect();
    assert_eq!(jobs.len(), names.len(), "{jobs:?}");
}

/// Prints how long something took, against its goal.
pub fn print_times(what: &str, goal: Duration, mut times: Vec<Duration>) {
    times.sort();
    let all: Vec<String> = times.iter().map(|time| format!("{:.2}", time.as_secs_f64())).collect();
    let met = times.iter().filter(|time| **time <= goal).count();
    progress(&format!(
        "{what}: {} s; goal {:.2} s, met by {met} of {}",
        all.join(" "),
        goal.as_secs_f64(),
        times.len(),
    ));
}

/// Waits until a replica says that it is not ready, and why.
pub async fn not_ready(replica: &Replica, why: &str) {
    let what = format!("{} is not ready: {why}", replica.name);
    ok(wait::until(&what, SOON, || async {
        replica.process().check_alive()?;
        let (status, body) = replica.ask("/readyz").await?;
        if status == 503 && body.contains(why) {
            Ok(())
        } else {
            Err(BedError(format!("{status}: {body}")))
        }
    })
    .await);
}
