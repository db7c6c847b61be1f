//! A whole run, written step by step with the operator's rights: what the API server records of it is
//! what the history checker believes it to be.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::DynamicObject,
};
use serde_json::{Value, json};

use crate::{
    bed::{
        objects::{self, text},
        plan::scenario,
        scenario::Scenario,
    },
    checker::Rule,
};

const SOON: Duration = Duration::from_secs(60);
const SCHEDULE: &str = "by-hand";
const OCCURRENCE: &str = "by-hand-202611290200";

/// Acts as the operator would, right or wrong.
struct Hand<'a> {
    s: &'a Scenario,
    client: Client,
    nonce: &'static str,
    epoch: i64,
}

impl<'a> Hand<'a> {
    async fn new(s: &'a Scenario, nonce: &'static str) -> Self {
        Self { s, client: s.account_client().await, nonce, epoch: 0 }
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        objects::api(&self.client, &self.s.namespace, kind)
    }

    async fn create(&self, kind: &str, object: Value) -> String {
        let object = serde_json::from_value(object).unwrap();
        let made = self.api(kind).create(&PostParams::default(), &object).await.unwrap();
        made.metadata.uid.unwrap()
    }

    async fn acquire(&mut self) {
        let leases = self.api("lease");
        let mut lease = leases.get(&self.s.lease).await.unwrap();
        self.epoch = lease.metadata.resource_version.as_ref().unwrap().parse().unwrap();
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert("punctual.dev/epoch".to_owned(), self.epoch.to_string());
        annotations.insert("punctual.dev/nonce".to_owned(), self.nonce.to_owned());
        leases.replace(&self.s.lease, &PostParams::default(), &lease).await.unwrap();
    }

    /// Writes a status with the fence of this term.
    async fn status(&self, kind: &str, name: &str, fields: Value) -> kube::Result<DynamicObject> {
        let api = self.api(kind);
        let mut object = api.get(name).await?;
        for (field, value) in fields.as_object().into_iter().flatten() {
            object.data["status"][field] = value.clone();
        }
        object.data["status"]["fence"] = json!({"epoch": self.epoch, "nonce": self.nonce});
        api.replace_status(name, &PostParams::default(), &object).await
    }

    async fn prepare(&self, attempt: i32, parent: &str) -> String {
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": job_name(attempt),
                "annotations": {"punctual.dev/epoch": self.epoch.to_string()},
                "labels": {"punctual.dev/parent-uid": parent},
                "ownerReferences": [{
                    "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
                    "name": OCCURRENCE, "uid": parent,
                }],
            },
            "spec": {"suspend": true, "backoffLimit": 0, "template": pod_template()},
        });
        self.create("job", job).await
    }

    async fn release(&self, attempt: i32) {
        let name = job_name(attempt);
        // The controller writes once more when it has seen that the Job is suspended.
        let suspended = |job: &Value| job["status"]["conditions"][0]["type"] == "Suspended";
        self.s.wait_for("job", &name, "it was seen suspended", SOON, suspended).await;
        let jobs = self.api("job");
        let job = jobs.get(&name).await.unwrap();
        let patch = json!({
            "metadata": {
                "resourceVersion": job.metadata.resource_version,
                "annotations": {"punctual.dev/released": self.epoch.to_string()},
            },
            "spec": {"suspend": false},
        });
        jobs.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn delete_job(&self, attempt: i32) {
        let jobs = self.api("job");
        let job = jobs.get(&job_name(attempt)).await.unwrap();
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions {
                uid: job.metadata.uid,
                resource_version: job.metadata.resource_version,
            }),
            ..DeleteParams::default()
        };
        jobs.delete(&job_name(attempt), &params).await.unwrap();
    }
}

fn job_name(attempt: i32) -> String {
    format!("{OCCURRENCE}-m{attempt}")
}

async fn complete(s: &Scenario) {
    let done = |job: &Value| !text(job, "/status/completionTime").is_empty();
    s.wait_for("job", &job_name(1), "it is complete", SOON, done).await;
}

fn pod_template() -> Value {
    json!({
        "metadata": {"annotations": {"play/duration": "500ms"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/none:1"}]},
    })
}

/// Schedule, occurrence, claim and committed Job: everything up to the release of attempt 1.
async fn prepared<'a>(s: &'a Scenario, nonce: &'static str) -> Hand<'a> {
    let mut hand = Hand::new(s, nonce).await;
    hand.create("lease", json!({"metadata": {"name": s.lease}, "spec": {}})).await;
    hand.acquire().await;
    let schedule = json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "MaintenanceSchedule",
        "metadata": {"name": SCHEDULE},
        "spec": {"schedule": "0 2 * * *", "run": {"job": {"template": pod_template()}}},
    });
    s.apply(&schedule.to_string()).await;
    let schedule = s.get("msched", SCHEDULE).await.unwrap();
    let occurrence = json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "MaintenanceOccurrence",
        "metadata": {"name": OCCURRENCE},
        "spec": {
            "scheduleName": SCHEDULE, "intendedTime": "2026-11-29T02:00:00Z",
            "scheduleUID": text(&schedule, "/metadata/uid"), "run": schedule["spec"]["run"],
        },
    });
    let uid = hand.create("mocc", occurrence).await;
    let claim = json!({"claimed": [{
        "time": "2026-11-29T02:00:00Z", "start": true, "uid": uid, "runKey": "k-m1", "actionClass": "Fenced",
    }]});
    hand.status("msched", SCHEDULE, claim).await.unwrap();
    hand.status("mocc", OCCURRENCE, json!({"state": "Starting"})).await.unwrap();
    let job = hand.prepare(1, &uid).await;
    let attempt =
        json!({"attempts": [{"number": 1, "runKey": "k-m1", "handle": job, "epoch": hand.epoch}]});
    hand.status("mocc", OCCURRENCE, attempt).await.unwrap();
    hand
}

async fn finished<'a>(s: &'a Scenario, nonce: &'static str) -> Hand<'a> {
    let hand = prepared(s, nonce).await;
    hand.release(1).await;
    complete(s).await;
    hand.status("mocc", OCCURRENCE, json!({"state": "Succeeded"})).await.unwrap();
    hand
}

#[test]
fn a_run_is_read_as_one_release_and_a_stale_write_as_refused() {
    scenario().on_throw_away_cluster().run(async |s| {
        let mut old = prepared(s, "n1").await;
        let mut new = Hand::new(s, "n2").await;
        new.acquire().await;
        new.status("mocc", OCCURRENCE, json!({"state": "Starting"})).await.unwrap();
        new.release(1).await;
        complete(s).await;
        old.status("mocc", OCCURRENCE, json!({"state": "Failed"})).await.unwrap_err();
        new.status("mocc", OCCURRENCE, json!({"state": "Succeeded"})).await.unwrap();
        new.delete_job(1).await;
        s.wait_gone("job", &job_name(1), SOON).await;
        let report = s.verify().await;
        assert_eq!(
            report.terms.iter().map(|term| term.epoch).collect::<Vec<_>>(),
            [old.epoch, new.epoch]
        );
        let releases: Vec<_> = report.releases_of(OCCURRENCE).collect();
        assert_eq!(releases.len(), 1);
        assert_eq!(releases[0].epoch, Some(new.epoch));
        let refused: Vec<_> = report.refused_of_epoch(old.epoch).collect();
        assert_eq!(refused.len(), 1);
        assert!(refused[0].message.contains("newer leader term"), "{}", refused[0].message);
        old.epoch = new.epoch;
        old.status("mocc", OCCURRENCE, json!({}))
            .await
            .expect_err("an equal epoch with another nonce");
    });
}

#[test]
fn faults_of_an_operator_are_found_in_the_audit_log() {
    scenario().on_throw_away_cluster().unchecked("it acts wrongly on purpose").run(async |s| {
        let hand = finished(s, "n1").await;
        s.verify().await;
        let parent = s.get("mocc", OCCURRENCE).await.unwrap();
        hand.prepare(2, text(&parent, "/metadata/uid")).await;
        hand.release(2).await;
        let wrong = s.try_verify().await.unwrap_err().to_string();
        for rule in [Rule::OneRun, Rule::Committed] {
            assert!(wrong.contains(&format!("{rule:?}: ")), "{rule:?} is not in {wrong}");
        }
        hand.api("job").delete(&job_name(1), &DeleteParams::default()).await.unwrap();
        let wrong = s.try_verify().await.unwrap_err().to_string();
        assert!(wrong.contains(&format!("{:?}: ", Rule::Precondition)), "{wrong}");
    });
}
