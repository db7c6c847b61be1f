//! The model as its users meet it.

mod reads;
mod rules;
mod writes;

use serde_json::{Value, json};

use super::{Model, Request};
use crate::{
    sim::{Key, Kind},
    time::WallClock,
};

/// A model with its CRDs and a namespace.
fn model() -> Model {
    let model = Model::new(WallClock::driven("2026-11-29T01:58:30Z".parse().unwrap()));
    model.install_crds();
    model.add_namespace("docs");
    model
}

fn schedule(name: &str) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
        "metadata": {"name": name, "namespace": "docs"},
        "spec": {"schedule": "0 2 * * *", "run": {"simulated": {}}},
    })
}

fn occurrence() -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
        "metadata": {"name": "nightly-202611290200", "namespace": "docs"},
        "spec": {"scheduleName": "nightly", "intendedTime": "2026-11-29T02:00:00Z"},
    })
}

fn report_queue(name: &str) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
        "metadata": {"name": name, "namespace": "docs"},
        "spec": {"slots": 2, "runTemplate": {"simulated": {}}},
    })
}

fn report_job(name: &str) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
        "metadata": {"name": name, "namespace": "docs"},
        "spec": {
            "queueName": "reports", "tenant": "acme", "priority": 0, "estimateSeconds": 60,
            "artifact": "Optional",
            "run": {"simulated": {}},
        },
    })
}

fn report_schedule(name: &str) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportSchedule",
        "metadata": {"name": name, "namespace": "docs"},
        "spec": {
            "schedule": "0 2 * * *",
            "jobTemplate": {"spec": {
                "queueName": "reports", "tenant": "acme", "run": {"simulated": {}},
            }},
        },
    })
}

fn schedule_key(name: &str) -> Key {
    Key::new(Kind::MaintenanceSchedule, "docs", name)
}

fn create(model: &Model, object: Value) -> Key {
    let kind = Kind::named(object["kind"].as_str().unwrap()).unwrap();
    let made = model.write("person", Request::create(kind, "docs", object)).unwrap();
    Key::new(kind, "docs", made["metadata"]["name"].as_str().unwrap())
}
