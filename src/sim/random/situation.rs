//! What situations are put together from.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    moves::{Around, Move, Who},
    objects,
    plan::Plan,
};
use crate::{
    api::SimulatedOutcome,
    sim::{
        Kind,
        provider::Rule,
        world::{ApiFault, Class, Effect, Fault},
    },
};

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

/// Runs of that name fail after so long.
pub(super) fn failing(matches: &str, duration: Duration, reason: Option<&str>) -> Rule {
    let (outcome, reason) = (SimulatedOutcome::Failed, reason.map(str::to_owned));
    Rule { outcome, reason, ..objects::lasting(matches, duration) }
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

/// Which of so many situations a seed has, and whether it is the turn of the second one where two take
/// turns.
pub(super) fn turn(seed: u64, situations: u64) -> (u64, bool) {
    (seed / 2 % situations, !(seed / 2 / situations).is_multiple_of(2))
}

/// The pod of a Job that acts vanishes while the Job controller is away, and no process is left that
/// has seen it: the Job looks as if it had not started.
pub(super) fn vanishes_unseen(plan: &mut Plan, second: u64, prefix: &'static str) {
    at(plan, second, Move::Around(Around::NoController));
    at(plan, second + 1, Move::AroundOne(Around::Vanish, prefix));
    at(plan, second + 2, Move::Kill(Who::All, secs(3)));
}

/// The pod of a Job that is released at that second waits for a node when somebody deletes the Job and
/// leaves the pod behind; and pods cannot be listed for longer than anybody waits.
pub(super) fn out_of_sight(plan: &mut Plan, second: u64, job: &'static str) {
    at(plan, second - 3, Move::Around(Around::NoNodes));
    at(plan, second + 8, Move::Api(ApiFault::PodsNotListed(secs(75))));
    at(plan, second + 10, Move::Delete(Kind::Job, job));
    at(plan, second + 47, Move::Around(Around::NoNodes));
}
