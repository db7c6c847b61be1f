//! What waiting report jobs cost in memory: `cargo bench --bench memory`.
//!
//! The jobs are read from JSON as the API server stores them, one after the other, and put into what
//! a replica keeps of each: the watch cache and, on the leader, the queue's index of what waits.
//! Goal: 100,000 jobs in a resident memory below 512 MiB, the whole process included. Fails when the
//! goal is missed.

#[path = "../tests/shared/resident.rs"]
mod resident;

use std::process::ExitCode;

use jiff::Timestamp;
use punctual::{
    api::ReportJob,
    cluster::Change,
    reports::{
        controller::cache,
        waiting::{Waiting, WaitingJob},
    },
};
use resident::resident;
use serde_json::{Value, json};

/// Jobs that wait.
const JOBS: usize = 100_000;
/// Goal for all of them, in bytes.
const GOAL: usize = 512 << 20;
/// Tenants that submitted them.
const TENANTS: usize = 300;

/// A pod template of an ordinary size.
fn template() -> Value {
    let variable = |name: &str| json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "warehouse", "key": name}}});
    let environment = ["DB_HOST", "DB_USER", "DB_PASSWORD"].map(variable);
    json!({
        "metadata": {"labels": {"team": "analytics"}, "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        "spec": {
            "serviceAccountName": "reports",
            "terminationGracePeriodSeconds": 30,
            "containers": [{
                "name": "main",
                "image": "registry.example/analytics/report:2026.11.3",
                "command": ["/bin/report"],
                "args": ["--warehouse=main", "--format=parquet", "--out=s3://reports"],
                "env": environment,
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            }],
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}}],
        },
    })
}

/// Job number `number`, as the API server stores it once its queue has answered it.
fn stored(number: usize, template: &Value) -> String {
    let tenant = format!("customer-{:03}", number % TENANTS);
    let time = "2026-11-29T02:00:00Z";
    let parameters = json!({"month": "2026-10", "customer": tenant, "currency": "EUR"});
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "lastTransitionTime": time,
            "message": "It waits for a free slot of queue reports.", "observedGeneration": 1,
        })
    };
    json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "ReportJob",
        "metadata": {
            "name": format!("{tenant}-usage-{number:07}"), "namespace": "analytics",
            "uid": format!("3f0c1a52-6d0f-4c7e-9a39-{number:012x}"),
            "resourceVersion": format!("{}", 1_000_000 + number),
            "generation": 1, "creationTimestamp": time,
            "labels": {"app.kubernetes.io/name": "usage-report", "customer": tenant},
            "managedFields": [{
                "manager": "kubectl", "operation": "Apply", "apiVersion": "punctual.dev/v1alpha1",
                "time": time, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:tenant": {}}},
            }],
        },
        "spec": {
            "queueName": "reports", "tenant": tenant, "priority": 0, "estimateSeconds": 120,
            "parameters": parameters,
            "artifact": "Optional",
        },
        "status": {
            "state": "Queued", "reason": "WaitingForSlot",
            "message": "It waits for a free slot of queue reports. About 1200 jobs start before it.",
            "id": format!("{number:032x}"), "position": "~1200", "estimatedStartTime": time,
            "run": {"actionClass": "Idempotent", "parameters": parameters, "job": {"template": template}},
            "fence": {"epoch": 7, "nonce": "9f86d081884c7d659a2feaa0c55ad015"},
            "conditions": [
                condition("Accepted", "True", "Accepted"),
                condition("Admitted", "False", "WaitingForSlot"),
            ],
            "observedGeneration": 1,
        },
    })
    .to_string()
}

fn waiting(number: usize, job: &ReportJob) -> WaitingJob {
    WaitingJob {
        name: job.metadata.name.clone().unwrap_or_default(),
        uid: job.metadata.uid.clone().unwrap_or_default(),
        tenant: job.spec.tenant.clone(),
        priority: job.spec.priority,
        created: Timestamp::from_second(i64::try_from(number / 50).unwrap_or(0))
            .unwrap_or(Timestamp::UNIX_EPOCH),
        attempt: 1,
        charge: i64::from(job.spec.estimate_seconds) * 1000,
        retry: false,
        not_before: None,
        scheduled: false,
    }
}

fn main() -> ExitCode {
    let template = template();
    let (jobs, mut index) = (cache(|_: &Change<'_, ReportJob>| {}), Waiting::new());
    let before = resident("self");
    for number in 0..JOBS {
        let job: ReportJob = match serde_json::from_str(&stored(number, &template)) {
            Ok(job) => job,
            Err(error) => {
                eprintln!("job {number} cannot be read: {error}");
                return ExitCode::FAILURE;
            }
        };
        index.upsert(&waiting(number, &job));
        jobs.observe(job);
    }
    let (all, held) = (resident("self"), jobs.len());
    let each = all.saturating_sub(before) / JOBS;
    let missed = all > GOAL || held != JOBS;
    let verdict = if missed { "  MISSED" } else { "" };
    println!(
        "{held} waiting jobs: {} MiB resident, {each} bytes each (goal: {} MiB){verdict}",
        all >> 20,
        GOAL >> 20
    );
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
