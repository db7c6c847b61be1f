//! The table has every kind of request that the operator sends.
//!
//! Replicas of the operator run on the model in virtual time. They run Jobs and simulated runs,
//! cancel, replace, prune, and lose their leader. What they send is compared with the table.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request};
use kube::{Client, client::Body};
use punctual::{
    authority::Entropy,
    cluster::Clients,
    operator::{Config, Parts, run},
    providers::simulated::InProcess,
    sim::{
        Commit, Key, Kind,
        api::{Deletion, Model, Request as Write},
    },
    telemetry::{Health, Metrics},
    time::{LeaseClock, LeaseInstant, WallClock},
};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use super::table::table;

/// What a request is, as far as the table is to know it: for example `PUT leases`,
/// `POST maintenanceoccurrences, dry run`, `GET pods, all`.
fn kind_of_request(method: &Method, path: &str, query: &str, body: &Value) -> String {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let skip = if parts[0] == "api" { 2 } else { 3 };
    let rest = match &parts[skip..] {
        ["namespaces", _, rest @ ..] if !rest.is_empty() && rest[0] != "status" => rest,
        rest => rest,
    };
    let (plural, name) = (rest[0], rest.get(1));
    let part = rest.get(2).map(|part| format!("/{part}")).unwrap_or_default();
    let dry = query.contains("dryRun=All") || body["dryRun"].is_array();
    let mut text = format!("{method} {plural}{part}");
    for (holds, word) in [
        (dry, ", dry run"),
        (query.contains("watch=true"), ", watch"),
        (method == Method::GET && name.is_none() && !query.contains("watch=true"), ", all"),
        (query.contains("labelSelector"), ", by label"),
        (query.contains("fieldSelector"), ", by field"),
        (body["preconditions"].is_object(), ", with preconditions"),
    ] {
        text.push_str(if holds { word } else { "" });
    }
    text
}

/// What the operator cannot do without; if the run below does not send it, it shows nothing.
const SENT_AT_LEAST: [&str; 22] = [
    "DELETE jobs, with preconditions",
    "DELETE maintenanceoccurrences, with preconditions",
    "GET customresourcedefinitions",
    "GET jobs, all, by label",
    "GET jobs, watch, by label",
    "GET leases",
    "GET leases, watch, by field",
    "GET maintenanceoccurrences, all",
    "GET maintenanceoccurrences, watch",
    "GET maintenanceschedules, all",
    "GET maintenanceschedules, watch",
    "PATCH jobs",
    "POST events",
    "POST jobs",
    "POST jobs, dry run",
    "POST leases",
    "POST maintenanceoccurrences",
    "POST maintenanceoccurrences, dry run",
    "PUT leases",
    "PUT maintenanceoccurrences/status",
    "PUT maintenanceoccurrences/status, dry run",
    "PUT maintenanceschedules/status",
];

type Sent = Arc<Mutex<BTreeSet<String>>>;

/// The model and the time that everybody's clocks show.
struct Lab {
    model: Model,
    lease_clock: LeaseClock,
    wall_clock: WallClock,
    sent: Sent,
}

impl Lab {
    fn new() -> Self {
        let start = "2026-11-29T01:58:30Z".parse().unwrap();
        let (wall_clock, lease_clock) =
            (WallClock::driven(start), LeaseClock::driven(LeaseInstant::from_nanos(0)));
        let model = Model::new(wall_clock.clone());
        model.install_crds();
        model.add_namespace("ops");
        let (lease, wall) = (lease_clock.clone(), wall_clock.clone());
        tokio::spawn(async move {
            let tick = Duration::from_millis(20);
            for ticks in 1.. {
                sleep(tick).await;
                lease.set(LeaseInstant::from_nanos(0).after(tick * ticks));
                wall.set(start + tick * ticks);
            }
        });
        Self { model, lease_clock, wall_clock, sent: Sent::default() }
    }

    fn client(&self, by: &'static str) -> Client {
        let (server, sent) = (self.model.server(0), Arc::clone(&self.sent));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, sent) = (server.clone(), Arc::clone(&sent));
            async move {
                sleep(Duration::from_millis(2)).await;
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
                let kind = kind_of_request(&parts.method, path, query, &body);
                sent.lock().unwrap().insert(kind);
                let request = Request::from_parts(parts, bytes.into());
                Ok::<_, tower::BoxError>(server.serve(by, request).await)
            }
        });
        Client::new(service, "default")
    }

    fn start(&self, name: &'static str) -> JoinHandle<()> {
        let config = Config {
            replica: name.to_owned(),
            pod_uid: None,
            lease_namespace: "ops".into(),
            lease_name: "punctual".into(),
            lease_seconds: 3,
            watch_namespaces: vec![],
            health_address: None,
            allow_simulated: true,
            allow_local_providers: false,
            max_clock_skew: Duration::from_secs(5),
            epoch_offset: 0,
            orphan_retention: Duration::from_secs(24 * 3600),
            concurrency: 4,
        };
        let (lease_clock, wall_clock) = (self.lease_clock.clone(), self.wall_clock.clone());
        let metrics = Arc::new(Metrics::new());
        let simulated = InProcess::new(name.to_owned(), lease_clock.clone(), wall_clock.clone());
        let parts = Parts {
            clients: Clients::single(self.client(name)),
            health: Health::new(lease_clock.clone(), metrics),
            lease_clock,
            wall_clock,
            entropy: Entropy::seeded(name.bytes().map(u64::from).sum()),
            simulated: Some(Arc::new(simulated)),
            http: None,
            watchdog_exit: None,
        };
        tokio::spawn(async move {
            run(config, parts, std::future::pending()).await.unwrap();
        })
    }

    fn schedule(&self, name: &str, expression: &str, policy: &str, run: &Value) {
        let manifest = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {"name": name, "namespace": "docs"},
            "spec": {
                "schedule": expression, "concurrencyPolicy": policy,
                "retention": {"successful": 1, "failed": 1}, "run": run,
            },
        });
        self.model.install(&manifest).unwrap();
    }
}

/// A Job that ends by itself if it is `quick`.
fn job(kind: &str) -> Value {
    json!({"job": {"template": {
        "metadata": {"labels": {"kind": kind}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "x:1"}]},
    }}})
}

/// Plays Job controller, node and garbage collector: a Job that may run gets a pod, one that is to go
/// loses it first.
fn play_jobs(model: &Model, commit: &Commit) {
    let Some(job) = commit.new.as_ref().filter(|_| commit.key.kind == Kind::Job) else { return };
    let pod = Key::new(Kind::Pod, &commit.key.namespace, format!("{}-x", commit.key.name));
    let write = |request| model.write("job-controller", request).unwrap();
    if job["metadata"]["deletionTimestamp"].is_string() {
        if model.get(&pod).is_some() {
            write(Write::delete(&pod, Deletion { grace_seconds: Some(0), ..Deletion::default() }));
        }
        write(Write::patch(&commit.key, json!({"metadata": {"finalizers": null}})));
        return;
    }
    if job["spec"]["suspend"] == true || job["status"]["startTime"].is_string() {
        return;
    }
    let template = &job["spec"]["template"];
    let now = model.now().to_string();
    let quick = template["metadata"]["labels"]["kind"] == "quick";
    let ended = json!([{"name": "m", "state": {"terminated": {"exitCode": 0, "finishedAt": now}}}]);
    let running = json!([{"name": "m", "state": {"running": {"startedAt": now}}}]);
    let mut spec = template["spec"].clone();
    spec["nodeName"] = "n".into();
    model
        .install(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": pod.name, "namespace": pod.namespace,
                "labels": template["metadata"]["labels"],
            },
            "spec": spec,
            "status": {
                "phase": if quick { "Succeeded" } else { "Running" }, "startTime": now,
                "containerStatuses": if quick { ended } else { running },
            },
        }))
        .unwrap();
    let complete = json!([{"type": "Complete", "status": "True", "lastTransitionTime": now}]);
    let status = if quick {
        json!({"startTime": now, "completionTime": now, "succeeded": 1, "conditions": complete})
    } else {
        json!({"startTime": now, "active": 1, "ready": 1})
    };
    write(Write::patch_status(&commit.key, json!({"status": status})));
}

async fn everything_that_the_operator_does() -> BTreeSet<String> {
    let lab = Lab::new();
    let model = lab.model.clone();
    lab.model.on_commit(Box::new(move |commit| play_jobs(&model, commit)));
    lab.model
        .install(&json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();
    lab.schedule("sim", "* * * * *", "Forbid", &json!({"simulated": {"durationSeconds": 1}}));
    lab.schedule("quick", "* * * * *", "Forbid", &job("quick"));
    lab.schedule("slow", "*/2 * * * *", "Replace", &job("slow"));
    let first = lab.start("r0");
    sleep(Duration::from_secs(20)).await;
    let _second = lab.start("r1");
    sleep(Duration::from_secs(4 * 60)).await;
    first.abort();
    sleep(Duration::from_secs(3 * 60)).await;
    let slow = Key::new(Kind::MaintenanceSchedule, "docs", "slow");
    lab.model.write("person", Write::delete(&slow, Deletion::default())).unwrap();
    sleep(Duration::from_secs(60)).await;
    let done = lab.model.list(Kind::MaintenanceOccurrence);
    let succeeded = done.iter().filter(|one| one["status"]["state"] == "Succeeded").count();
    assert!(succeeded >= 2, "{succeeded} runs succeeded: {done:?}");
    lab.sent.lock().unwrap().clone()
}

#[test]
fn the_table_has_every_kind_of_request_that_the_operator_sends() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let sent = runtime.block_on(everything_that_the_operator_does());
    let expected = SENT_AT_LEAST.iter().filter(|kind| !sent.contains(**kind));
    let unsent: Vec<_> = expected.collect();
    assert!(unsent.is_empty(), "the operator did not send {unsent:?}, only {sent:#?}");
    let known: BTreeSet<String> = table()
        .iter()
        .map(|step| kind_of_request(&step.method, &step.path, &step.query, &step.body))
        .collect();
    let missing: Vec<&String> = sent.difference(&known).collect();
    assert!(missing.is_empty(), "not in the table: {missing:#?}");
}
