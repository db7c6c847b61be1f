//! Recovery by whole replicas against a small API server, in virtual time.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::lab::{Clocks, Running, holder_of, secs, until};
use crate::{
    api,
    cluster::{Clients, fake::FakeApi},
    providers::simulated::SimulatedService,
};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/punctual";
const SCHEDULES: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/maintenanceschedules";
const OCCURRENCES: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/maintenanceoccurrences";
const TRACES: &str = "/apis/punctual.dev/v1alpha1/namespaces/ops/recoverytraces";
/// An occurrence of the schedule `nightly`.
const AT_TWO: &str =
    "/apis/punctual.dev/v1alpha1/namespaces/docs/maintenanceoccurrences/nightly-202611290200";

/// An API server and replicas.
struct Lab {
    fake: FakeApi,
    clocks: Clocks,
}

impl Lab {
    fn new() -> Self {
        let (fake, clocks) = (FakeApi::new(), Clocks::start());
        fake.set_latency(Duration::from_millis(3));
        fake.show_date(&clocks.wall);
        for crd in api::crds() {
            fake.put(CRDS, serde_json::to_value(crd).unwrap());
        }
        Self { fake, clocks }
    }

    /// A provider of simulated runs.
    fn provider(&self, name: &str) -> Arc<dyn SimulatedService> {
        self.clocks.provider(name)
    }

    /// A replica with a provider of its own, whose runs it takes into the grave.
    fn start(&self, name: &str) -> Running {
        self.start_with(name, &self.provider(name))
    }

    fn start_with(&self, name: &str, simulated: &Arc<dyn SimulatedService>) -> Running {
        let clients = Clients::single(self.fake.client());
        self.clocks.replica(name, clients, Arc::clone(simulated))
    }

    fn holder(&self) -> Option<String> {
        holder_of(&self.fake.stored(LEASE)?)
    }

    /// A schedule of 02:00 whose runs take this long.
    fn put_nightly(&self, seconds: u32) {
        self.fake.put(
            SCHEDULES,
            json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
                "metadata": {
                    "name": "nightly", "namespace": "docs", "generation": 1,
                    "creationTimestamp": "2026-11-29T01:58:00Z",
                },
                "spec": {
                    "schedule": "0 2 * * *",
                    "run": {"actionClass": "Fenced", "simulated": {"durationSeconds": seconds}},
                },
            }),
        );
    }

    /// An occurrence of `nightly` made by hand.
    fn put_by_hand(&self, instant: &str, status: &Value) {
        let digits: String = instant.chars().filter(char::is_ascii_digit).take(12).collect();
        self.fake.put(
            OCCURRENCES,
            json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
                "metadata": {"name": format!("nightly-{digits}"), "namespace": "docs"},
                "spec": {"scheduleName": "nightly", "intendedTime": instant}, "status": status,
            }),
        );
    }

    /// Whether the occurrence of 02:00 is in this state.
    fn at_two_is(&self, state: &str) -> bool {
        self.fake.stored(AT_TWO).is_some_and(|o| o["status"]["state"] == state)
    }

    /// The record of the present term, if it is there.
    fn trace(&self) -> Option<Value> {
        let lease = self.fake.stored(LEASE)?;
        let epoch = lease["metadata"]["annotations"]["punctual.dev/epoch"].as_str()?;
        self.fake.stored(&format!("{TRACES}/punctual-{epoch}"))
    }

    /// The complete record of the term that this replica leads.
    async fn trace_of(&self, name: &str) -> Value {
        let complete = || {
            let trace = self.trace().filter(|_| self.holder().as_deref() == Some(name))?;
            trace["status"]["completionTime"].is_string().then_some(trace)
        };
        until(&format!("the record of {name} is complete"), || complete().is_some()).await;
        complete().unwrap()
    }

    fn events(&self) -> Vec<Value> {
        let posts = self.fake.log().into_iter().filter(|entry| entry.method == Method::POST);
        posts.filter(|post| post.path.ends_with("/events")).map(|post| post.body).collect()
    }

    fn told(&self, reason: &str) -> bool {
        self.events().iter().any(|event| event["reason"] == reason)
    }
}

/// The four counts of a record.
fn counts(trace: &Value) -> [i64; 4] {
    let count = |class: &str| trace["status"][class].as_i64().unwrap_or(-1);
    ["resumed", "reconciled", "preserved", "uncertain"].map(count)
}

#[tokio::test(start_paused = true)]
async fn the_first_leader_ever_leaves_a_record_too() {
    let lab = Lab::new();
    let replica = lab.start("r0");
    let trace = lab.trace_of("r0").await;
    assert_eq!(counts(&trace), [0; 4]);
    assert_eq!(trace["spec"]["gained"], "First");
    assert!(trace["spec"]["holder"].as_str().unwrap().starts_with("r0/"));
    assert!(trace["spec"]["formerHolder"].is_null());
    let epoch = trace["spec"]["epoch"].as_i64().unwrap();
    assert_eq!(trace["metadata"]["name"], format!("punctual-{epoch}"));
    assert!(replica.shows(&format!("punctual_epoch {epoch}")));
    until("it is told", || lab.told("Recovered")).await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_says_what_it_found_and_leaves_what_was_over() {
    let lab = Lab::new();
    let provider = lab.provider("outside");
    lab.put_nightly(90);
    lab.put_by_hand("2026-11-28T02:00:00Z", &json!({"state": "Failed", "reason": "ExitCode"}));
    lab.put_by_hand("2027-01-01T00:00:00Z", &Value::Null);
    let first = lab.start_with("r0", &provider);
    until("it runs", || lab.at_two_is("Running")).await;
    let over = format!("{OCCURRENCES}/nightly-202611280200");
    let before = lab.fake.stored(&over);
    let second = lab.start_with("r1", &provider);
    until("the standby is ready", || second.is_ready()).await;
    first.task.abort();
    let trace = lab.trace_of("r1").await;
    assert_eq!(counts(&trace), [1, 1, 1, 0], "{trace}");
    assert_eq!(trace["spec"]["gained"], "Expired");
    assert!(trace["spec"]["formerHolder"].as_str().unwrap().starts_with("r0/"));
    assert_eq!(lab.fake.stored(&over), before, "what was over is not touched");
    for line in [
        "punctual_recovery_items{class=\"Reconciled\"} 1",
        "punctual_recovery_items{class=\"Preserved\"} 1",
        "punctual_recovery_outstanding 0",
        "punctual_objects{kind=\"MaintenanceOccurrence\",state=\"Running\"} 1",
        "punctual_objects{kind=\"MaintenanceOccurrence\",state=\"Failed\"} 1",
        "punctual_objects{kind=\"MaintenanceSchedule\",state=\"Active\"} 1",
    ] {
        assert!(second.shows(line), "{line}\n{}", second.metrics.encode());
    }
    until("the occurrence succeeded", || lab.at_two_is("Succeeded")).await;
    let stored = lab.fake.stored(AT_TWO).unwrap();
    assert_eq!(stored["status"]["attempts"].as_array().unwrap().len(), 1);
    assert!(second.shows("punctual_objects{kind=\"MaintenanceOccurrence\",state=\"Running\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_say_is_uncertain_and_stays_unresolved() {
    let lab = Lab::new();
    lab.put_nightly(90);
    let first = lab.start("r0");
    until("it runs", || lab.at_two_is("Running")).await;
    let second = lab.start("r1");
    until("the standby is ready", || second.is_ready()).await;
    first.task.abort(); // and its runs with it
    let trace = lab.trace_of("r1").await;
    assert_eq!(counts(&trace), [0, 0, 0, 1], "{trace}");
    let item = &trace["status"]["items"][0];
    assert_eq!(item["object"], "docs/mocc/nightly-202611290200");
    let unresolved = lab.fake.stored(AT_TWO).unwrap();
    assert_eq!(unresolved["status"]["state"], "Unresolved");
    assert_eq!(item["reason"], unresolved["status"]["reason"]);
    assert_eq!(trace["status"]["conditions"][0]["reason"], "Uncertain");
    sleep(secs(1000)).await;
    assert!(lab.at_two_is("Unresolved"), "never retried by itself");
    let age = |line: &str| -> Option<f64> {
        line.strip_prefix("punctual_unresolved_oldest_seconds ")?.parse().ok()
    };
    let shown = second.metrics.encode().lines().find_map(age).unwrap();
    assert!((995.0..1010.0).contains(&shown), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_when_records_cannot_be_written() {
    let lab = Lab::new();
    lab.put_nightly(5);
    let forbidden = crate::cluster::fake::Fault::Refuse(403, "Forbidden");
    lab.fake.fault(Method::POST, "recoverytraces", forbidden);
    let replica = lab.start("r0");
    until("the occurrence succeeded", || lab.at_two_is("Succeeded")).await;
    until("it is told", || lab.told("TraceNotWritten")).await;
    assert!(replica.shows("punctual_recovery_traces_lost_total 1"));
    assert_eq!(lab.trace(), None);
}

#[tokio::test(start_paused = true)]
async fn what_is_ignored_in_a_spec_is_one_event() {
    let lab = Lab::new();
    lab.put_nightly(300);
    let _replica = lab.start("r0");
    until("it runs", || lab.at_two_is("Running")).await;
    lab.fake.edit(AT_TWO, |occurrence| {
        occurrence["metadata"]["generation"] = json!(2);
        occurrence["spec"]["run"]["simulated"]["durationSeconds"] = json!(1);
        occurrence["spec"]["resolution"] =
            json!({"attempt": 1, "decision": "Failed", "reason": "I think so"});
    });
    sleep(secs(120)).await;
    assert!(lab.at_two_is("Running"), "what was recorded first runs");
    for reason in ["SpecChanged", "ResolutionIgnored"] {
        let told = lab.events().iter().filter(|event| event["reason"] == reason).count();
        assert_eq!(told, 1, "{reason}");
    }
    let again = lab.fake.log().into_iter().filter(|entry| entry.method == Method::PATCH);
    assert_eq!(again.count(), 0, "no event was repeated");
}
