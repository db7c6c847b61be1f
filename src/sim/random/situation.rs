//! What situations are put together from.

use std::time::Duration;

use serde_json::{Value, json};

use super::{moves::Move, plan::Plan};
use crate::sim::world::{Class, Effect, Fault};

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn at(plan: &mut Plan, second: u64, one: Move) {
    plan.moves.push((secs(second), one));
}

/// From that second on, again and again until the calm.
pub(super) fn every(plan: &mut Plan, from: u64, step: u64, one: &Move) {
    let mut second = from;
    while secs(second) < plan.calm {
        at(plan, second, one.clone());
        second += step;
    }
}

/// The next write of a kind meets a fault.
pub(super) fn inject(plan: &mut Plan, second: u64, only: &'static str, effect: Effect) {
    let fault = Fault { class: Class::Any, only: Some(only), ..Fault::next_write(effect) };
    at(plan, second, Move::Inject(None, fault));
}

/// What takes so long and does nothing.
pub(super) fn simulated(seconds: u64) -> Value {
    json!({"simulated": {"durationSeconds": seconds}})
}

/// Puts more fields into an object, over those that it has.
pub(super) fn extend(fields: &mut Value, more: &Value) {
    if let (Some(fields), Some(more)) = (fields.as_object_mut(), more.as_object()) {
        fields.extend(more.clone());
    }
}

/// A Job that somebody else has made.
pub(super) fn job_of_others(name: &str) -> Value {
    let container = json!({"name": "main", "image": "example.org/other:1"});
    let pod = json!({"spec": {"containers": [container], "restartPolicy": "Never"}});
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"suspend": true, "template": pod},
    })
}
