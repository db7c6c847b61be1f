//! Jobs, pods and requests for tests, from the lines of YAML that matter.

use std::collections::BTreeMap;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use serde_json::{Value, json};

use super::digest::{JobDigest, PodDigest};
use crate::{
    api::{ActionClass, JobRun, RunSpec},
    providers::{Committed, Parent, RunRequest, RunStatus},
    time::IntendedTime,
    yaml,
};

/// When runs start.
pub(crate) const START: &str = "2026-11-29T02:00:00Z";

/// `over` laid over `base`, object by object; null removes.
pub(crate) fn merged(mut base: Value, over: Value) -> Value {
    match (&mut base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                let old = base.remove(&key).unwrap_or_default();
                if !value.is_null() {
                    base.insert(key, merged(old, value));
                }
            }
        }
        (base, over) => *base = over,
    }
    base
}

/// A Job `nightly-202611290200-m1` with uid `job-1`, as the API server keeps it.
pub(crate) fn k8s_job(text: &str) -> Job {
    let base = json!({
        "metadata": {
            "name": "nightly-202611290200-m1", "namespace": "docs", "uid": "job-1",
            "resourceVersion": "10", "labels": {"punctual.dev/parent-uid": "parent-1"},
        },
        "spec": {"template": {}},
    });
    serde_json::from_value(merged(base, yaml::from_str(text).unwrap())).unwrap()
}

/// A pod of that Job with uid `pod-1`, as the API server keeps it.
pub(crate) fn k8s_pod(text: &str) -> Pod {
    let base = json!({
        "metadata": {
            "name": "nightly-202611290200-m1-x2x4z", "namespace": "docs", "uid": "pod-1",
            "resourceVersion": "11",
            "labels": {
                "punctual.dev/parent-uid": "parent-1",
                "batch.kubernetes.io/controller-uid": "job-1",
            },
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "nightly-202611290200-m1",
                "uid": "job-1", "controller": true,
            }],
        },
        "spec": {"containers": [{"name": "main"}]},
    });
    serde_json::from_value(merged(base, yaml::from_str(text).unwrap())).unwrap()
}

/// What matters of [`k8s_job`].
pub(crate) fn job(text: &str) -> JobDigest {
    JobDigest::of(&k8s_job(text)).unwrap()
}

/// What matters of [`k8s_pod`].
pub(crate) fn pod(text: &str) -> PodDigest {
    PodDigest::of(&k8s_pod(text)).unwrap()
}

/// The run of that Job, with this template.
pub(crate) fn request(template: &str) -> RunRequest {
    RunRequest {
        parent: Parent {
            api_version: "punctual.dev/v1alpha1".into(),
            kind: "MaintenanceOccurrence".into(),
            namespace: "docs".into(),
            name: "nightly-202611290200".into(),
            uid: "parent-1".into(),
        },
        attempt_name: "nightly-202611290200-m1".into(),
        attempt: 1,
        run_key: "4c78fa5c685dd0f1904515254e6e61c1-m1".into(),
        request_id: "4c78fa5c-685d-80f1-9045-15254e6e61c1".into(),
        intended_time: Some(IntendedTime::parse_lenient("2026-11-29T02:00:00Z").unwrap()),
        queue: None,
        epoch: 7,
        class: ActionClass::Fenced,
        run: RunSpec {
            parameters: Some(BTreeMap::from([("mode".into(), "plan".into())]).into()),
            job: Some(JobRun { template: yaml::from_str(template).unwrap() }),
            ..RunSpec::default()
        },
    }
}

/// The same run, pretended.
pub(crate) fn simulated_request(spec: &str) -> RunRequest {
    let simulated = Some(yaml::from_str(spec).unwrap());
    let run = RunSpec { simulated, ..RunSpec::default() };
    RunRequest { run, ..request("{}") }
}

/// The committed attempt once its stop is requested.
pub(crate) fn stopping(committed: &Committed) -> Committed {
    Committed { stop_requested: Some(START.parse().unwrap()), ..committed.clone() }
}

/// What a status says, in one word.
pub(crate) fn word(status: &RunStatus) -> &'static str {
    match status {
        RunStatus::Held => "Held",
        RunStatus::Released { .. } => "Released",
        RunStatus::Running { .. } => "Running",
        RunStatus::Succeeded { .. } => "Succeeded",
        RunStatus::Failed { .. } => "Failed",
        RunStatus::Absent => "Absent",
        RunStatus::Stopping => "Stopping",
        RunStatus::Unknown { .. } => "Unknown",
        RunStatus::StoppedByOthers { .. } => "StoppedByOthers",
    }
}
