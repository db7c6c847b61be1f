//! Whole replicas against the model of the API server, in virtual time.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, header};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    lab::{Clocks, Running, holder_of, secs, until},
    *,
};
use crate::{
    authority::LostReason,
    cluster::Clients,
    sim::{
        Key, Kind,
        api::{Model, Refusal, Subresource},
    },
    time::WallClock,
};

/// The way of the requests to the model: a latency, a log, refusals, and a clock in the answers.
#[derive(Clone)]
struct Wire {
    model: Model,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    log: Vec<Logged>,
    /// How many dry runs of an occurrence are refused because the server is away.
    refusals: usize,
    date: WallClock,
}

/// A request that arrived, watches left out.
#[derive(Debug)]
struct Logged {
    method: Method,
    path: String,
    body: Value,
}

impl Wire {
    fn client(&self, by: &'static str) -> Client {
        let wire = self.clone();
        let service = tower::service_fn(move |request| {
            let wire = wire.clone();
            async move { Ok::<_, tower::BoxError>(wire.carry(by, request).await) }
        });
        Client::new(service, "default")
    }

    async fn carry(
        &self,
        by: &str,
        request: Request<Body>,
    ) -> http::Response<crate::sim::api::Body> {
        let server = self.model.server(0);
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            return server.serve(by, request).await;
        }
        sleep(Duration::from_millis(3)).await;
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await.unwrap();
        let refused = {
            let mut shared = self.shared.lock().unwrap();
            shared.log.push(Logged {
                method: parts.method.clone(),
                path: parts.uri.path().to_owned(),
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            });
            let asked = parts.method == Method::POST && parts.uri.path().ends_with("occurrences");
            let refused = asked && shared.refusals > 0;
            shared.refusals -= usize::from(refused);
            refused
        };
        let mut response = if refused {
            server.refuse(&Refusal::unavailable())
        } else {
            server.serve(by, Request::from_parts(parts, bytes.into())).await
        };
        let date = jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&self.shared.lock().unwrap().date.now())
            .unwrap();
        response.headers_mut().insert(header::DATE, date.try_into().unwrap());
        response
    }
}

/// An API server and replicas.
pub(super) struct Lab {
    pub(super) model: Model,
    wire: Wire,
    pub(super) clocks: Clocks,
}

impl Lab {
    fn without_crds() -> Self {
        let clocks = Clocks::start();
        let model = Model::new(clocks.wall.clone());
        model.add_namespace("ops");
        let shared = Shared { log: Vec::new(), refusals: 0, date: clocks.wall.clone() };
        let wire = Wire { model: model.clone(), shared: Arc::new(Mutex::new(shared)) };
        Self { model, wire, clocks }
    }

    pub(super) fn new() -> Self {
        let lab = Self::without_crds();
        lab.model.install_crds();
        lab
    }

    fn start(&self, name: &'static str) -> Running {
        let clients = Clients::single(self.wire.client(name));
        self.clocks.replica(name, clients, self.clocks.provider(name))
    }

    /// A replica that asks execution services in this way.
    pub(super) fn start_with(
        &self,
        name: &'static str,
        http: Arc<dyn crate::providers::http::Transport>,
    ) -> Running {
        let clients = Clients::single(self.wire.client(name));
        self.clocks.replica_with(name, clients, self.clocks.provider(name), Some(http))
    }

    pub(super) fn holder(&self) -> Option<String> {
        holder_of(&*self.model.get(&lease())?)
    }

    fn events(&self) -> Vec<Value> {
        let shared = self.wire.shared.lock().unwrap();
        let posts = shared.log.iter().filter(|entry| entry.method == Method::POST);
        posts.filter(|post| post.path.ends_with("/events")).map(|post| post.body.clone()).collect()
    }

    fn told(&self, reason: &str) -> bool {
        self.events().iter().any(|event| event["reason"] == reason)
    }
}

fn lease() -> Key {
    Key::new(Kind::Lease, "ops", "punctual")
}

#[tokio::test(start_paused = true)]
async fn a_leader_runs_what_is_due_and_records_the_outcome() {
    let lab = Lab::new();
    lab.model
        .install(&json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {
                "name": "nightly", "namespace": "docs",
                "creationTimestamp": "2026-11-29T01:58:00Z",
            },
            "spec": {
                "schedule": "0 2 * * *",
                "run": {"actionClass": "Fenced", "simulated": {"durationSeconds": 5}},
            },
        }))
        .unwrap();
    let replica = lab.start("r0");
    let occurrence = Key::new(Kind::MaintenanceOccurrence, "docs", "nightly-202611290200");
    until("the occurrence succeeded", || {
        lab.model.get(&occurrence).is_some_and(|o| o["status"]["state"] == "Succeeded")
    })
    .await;
    let stored = lab.model.get(&occurrence).unwrap();
    assert_eq!(stored["status"]["attempts"].as_array().unwrap().len(), 1);
    let epoch = stored["status"]["fence"]["epoch"].as_i64().unwrap();
    assert!(replica.shows(&format!("punctual_epoch {epoch}")));
    assert!(replica.shows("punctual_creation_lateness_seconds_count 1"));
    assert!(replica.shows("punctual_lateness_seconds_count 1"));
    assert!(replica.is_ready() && replica.health.why_not_alive().is_empty());
    assert!(lab.told("Leading"));
}

#[tokio::test(start_paused = true)]
async fn asked_to_stop_a_leader_hands_over_and_a_standby_leads_at_once() {
    let lab = Lab::new();
    let mut first = lab.start("r0");
    until("r0 leads", || lab.holder().as_deref() == Some("r0")).await;
    let second = lab.start("r1");
    until("the standby is ready", || second.is_ready()).await;
    sleep(secs(5)).await;
    assert!(second.shows("punctual_leader 0") && second.is_ready(), "ready while standing by");
    first.ask_to_stop();
    let asked = tokio::time::Instant::now();
    until("r1 leads", || lab.holder().as_deref() == Some("r1")).await;
    assert!(asked.elapsed() < Duration::from_millis(300), "{:?}", asked.elapsed());
    assert_eq!(first.task.await.unwrap(), Exit::Stopped);
    assert!(lab.told("Stopped"));
}

#[tokio::test(start_paused = true)]
async fn asked_to_stop_a_follower_ends_at_once_and_leaves_the_lease_alone() {
    let lab = Lab::new();
    let _leader = lab.start("r0");
    until("r0 leads", || lab.holder().as_deref() == Some("r0")).await;
    let mut follower = lab.start("r1");
    until("the standby is ready", || follower.is_ready()).await;
    follower.ask_to_stop();
    assert_eq!(follower.task.await.unwrap(), Exit::Stopped);
    sleep(secs(10)).await;
    assert_eq!(lab.holder().as_deref(), Some("r0"));
}

#[tokio::test(start_paused = true)]
async fn without_a_fence_a_replica_is_alive_not_ready_and_does_not_campaign() {
    let lab = Lab::without_crds();
    let replica = lab.start("r0");
    sleep(secs(60)).await;
    let why = replica.health.why_not_ready().join("\n");
    assert!(why.contains("maintenanceschedules.punctual.dev is not installed"), "{why}");
    assert!(replica.health.why_not_alive().is_empty(), "a restart installs no CRD");
    assert!(replica.shows("punctual_crd_missing{crd=\"maintenanceschedules.punctual.dev\"} 1"));
    assert!(replica.shows("punctual_fence_enforced 0"));
    assert_eq!(lab.holder(), None);
    let told = lab.events().iter().filter(|e| e["reason"] == "FenceNotEnforced").count();
    assert_eq!(told, 1, "one event, however often it was asked");
    lab.model.install_crds();
    let installed = tokio::time::Instant::now();
    until("r0 leads", || replica.shows("punctual_leader 1")).await;
    assert!(installed.elapsed() < secs(10), "{:?}", installed.elapsed());
    until("r0 is ready", || replica.is_ready()).await;
    assert!(replica.shows("punctual_crd_missing{crd=\"maintenanceschedules.punctual.dev\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn a_standby_whose_fence_was_taken_away_is_not_ready_and_does_not_take_over() {
    let lab = Lab::new();
    let leader = lab.start("r0");
    until("r0 leads", || lab.holder().as_deref() == Some("r0")).await;
    let standby = lab.start("r1");
    until("the standby is ready", || standby.is_ready()).await;
    let crd = Key::new(Kind::CustomResourceDefinition, "", "maintenanceoccurrences.punctual.dev");
    let edited = lab.model.edit("person", &crd, Subresource::Main, |crd| {
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema.as_object_mut().unwrap().remove("x-kubernetes-validations");
    });
    edited.unwrap();
    until("the standby noticed", || !standby.is_ready()).await;
    leader.task.abort();
    sleep(secs(60)).await;
    assert!(standby.shows("punctual_leader 0"), "no fence, no campaign");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_makes_no_standby_unready() {
    let lab = Lab::new();
    let _leader = lab.start("r0");
    until("r0 leads", || lab.holder().as_deref() == Some("r0")).await;
    let standby = lab.start("r1");
    until("the standby is ready", || standby.is_ready()).await;
    lab.wire.shared.lock().unwrap().refusals = 4;
    until("it asked again", || lab.wire.shared.lock().unwrap().refusals < 4).await;
    sleep(secs(1)).await;
    assert!(standby.is_ready(), "{:?}", standby.health.why_not_ready());
}

#[tokio::test(start_paused = true)]
async fn a_lease_given_to_somebody_else_ends_the_leader_for_good() {
    let lab = Lab::new();
    let replica = lab.start("r0");
    until("r0 leads", || replica.shows("punctual_leader 1")).await;
    let edited = lab.model.edit("person", &lease(), Subresource::Main, |lease| {
        lease["spec"]["holderIdentity"] = json!("somebody/else");
        lease["metadata"]["annotations"]["punctual.dev/nonce"] = json!("else");
    });
    edited.unwrap();
    let metrics = Arc::clone(&replica.metrics);
    let exit = replica.task.await.unwrap();
    assert!(matches!(exit, Exit::Lost(LostReason::Taken { .. })), "{exit:?}");
    assert!(metrics.encode().contains("punctual_leader 0\n"));
    assert!(lab.told("LeadershipLost"));
    assert_eq!(lab.holder().as_deref(), Some("somebody"), "what others wrote stays");
}

#[tokio::test(start_paused = true)]
async fn a_killed_replica_sends_nothing_more() {
    let lab = Lab::new();
    let replica = lab.start("r0");
    until("r0 leads", || replica.shows("punctual_leader 1")).await;
    replica.task.abort();
    sleep(Duration::from_millis(50)).await; // what was on its way arrives
    lab.wire.shared.lock().unwrap().log.clear();
    sleep(secs(120)).await;
    let sent = lab.wire.shared.lock().unwrap().log.pop();
    assert!(sent.is_none(), "{sent:?}");
    assert_eq!(lab.holder().as_deref(), Some("r0"), "nothing is given back");
}

#[tokio::test(start_paused = true)]
async fn clocks_that_differ_are_told_once_and_again_when_they_agree() {
    let lab = Lab::new();
    let replica = lab.start("r0");
    until("r0 leads", || replica.shows("punctual_leader 1")).await;
    let wrong = WallClock::driven("2026-11-29T03:00:00Z".parse().unwrap());
    lab.wire.shared.lock().unwrap().date = wrong;
    until("it is told", || lab.told("ClockSkew")).await;
    assert!(replica.shows("punctual_clock_ok 0"));
    sleep(secs(10)).await;
    lab.wire.shared.lock().unwrap().date = lab.clocks.wall.clone();
    until("it is told", || lab.told("ClocksAgree")).await;
    assert!(replica.shows("punctual_clock_ok 1"));
    assert_eq!(lab.events().iter().filter(|e| e["reason"] == "ClockSkew").count(), 1);
}
