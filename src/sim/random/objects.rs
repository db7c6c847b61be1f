//! What is in a random cluster, and how its runs behave.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    api::{ResultValue, SimulatedOutcome},
    sim::{provider::Rule, rng::Rng},
};

/// Names of schedules; a plan has some of them.
pub(super) const SCHEDULES: [&str; 3] = ["alpha", "beta", "gamma"];

/// Schedules, and an occurrence that somebody made by hand.
pub(super) fn objects(dice: &mut Rng) -> Vec<Value> {
    let number = usize::try_from(dice.of(1..=3)).unwrap_or(1);
    let mut objects: Vec<Value> =
        SCHEDULES.into_iter().take(number).map(|name| schedule(dice, name)).collect();
    if dice.chance(30) {
        objects.push(by_hand("alpha", "202611290200", "2026-11-29T02:00:00Z", None));
    }
    if dice.chance(15) {
        let run = json!({"actionClass": "Idempotent", "simulated": {"durationSeconds": 20}});
        objects.push(by_hand("nobody", "202611290201", "2026-11-29T02:01:00Z", Some(run)));
    }
    objects
}

/// An object in the namespace of the histories.
pub(super) fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

/// An occurrence made by hand.
pub(super) fn by_hand(schedule: &str, digits: &str, instant: &str, run: Option<Value>) -> Value {
    let mut spec = json!({"scheduleName": schedule, "intendedTime": instant});
    if let Some(run) = run {
        spec["run"] = run;
    }
    object("MaintenanceOccurrence", &format!("{schedule}-{digits}"), &spec)
}

/// A schedule that is due every one to three minutes.
pub(super) fn schedule(dice: &mut Rng, name: &str) -> Value {
    let expression =
        pick(dice, &["* * * * *", "*/2 * * * *", "*/3 * * * *", "@every 1m", "0 2 * * *"]);
    let concurrency = pick(dice, &["Allow", "Forbid", "Forbid", "Replace", "Enqueue", "Enqueue"]);
    let missed = pick(dice, &["Latest", "Latest", "All", "None"]);
    let class = pick(dice, &["Fenced", "Fenced", "Fenced", "Idempotent", "ReadOnly"]);
    let mut run = json!({
        "actionClass": class, "maxAttempts": dice.of(1..=3),
        "startTimeoutSeconds": pick(dice, &["30", "600"]).parse::<u64>().unwrap_or(600),
    });
    if dice.chance(20) {
        run["timeoutSeconds"] = json!(dice.of(20..=90));
    }
    if dice.chance(35) {
        run["job"] = job()["job"].take();
    } else {
        run["simulated"] = json!({"durationSeconds": dice.of(0..=60)});
    }
    let mut spec = json!({
        "schedule": expression, "concurrencyPolicy": concurrency,
        "missedRuns": {"policy": missed, "limit": dice.of(1..=4)}, "run": run,
    });
    if dice.chance(25) {
        spec["startingDeadlineSeconds"] = json!(dice.of(10..=120));
    }
    if dice.chance(20) {
        spec["spread"] = json!({"windowSeconds": dice.of(1..=30)});
    }
    if dice.chance(25) {
        spec["retention"] = json!({"successful": dice.of(0..=2), "failed": dice.of(0..=2)});
    }
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

/// A run that is a Job.
pub(super) fn job() -> Value {
    let container = json!({"name": "main", "image": "example.org/work:1"});
    json!({"job": {"template": {"spec": {"containers": [container]}}}})
}

/// Runs of that name succeed after so long.
pub(super) fn lasting(name: &str, duration: Duration) -> Rule {
    Rule { matches: name.to_owned(), duration: Some(duration), ..Rule::default() }
}

pub(super) fn pick<'a>(dice: &mut Rng, from: &[&'a str]) -> &'a str {
    dice.pick(from).copied().unwrap_or_default()
}

/// How runs behave: each schedule in its own way, some attempts otherwise.
pub(super) fn rules(dice: &mut Rng) -> Vec<Rule> {
    let mut rules = Vec::new();
    for name in SCHEDULES {
        if dice.chance(50) {
            let first = Rule { attempts: Some(vec![1]), ..rule(dice, &format!("{name}-*")) };
            rules.push(first);
        }
        if dice.chance(40) {
            let result = Some(BTreeMap::from([("rows".to_owned(), ResultValue::Integer(7))]));
            let duration = Some(Duration::from_secs(dice.of(0..=80)));
            let matches = format!("{name}-*");
            rules.push(Rule { matches, duration, result, ..Rule::default() });
        }
    }
    rules
}

/// One way to behave.
pub(super) fn rule(dice: &mut Rng, matches: &str) -> Rule {
    let outcome = match dice.of(1..=10) {
        1..=4 => SimulatedOutcome::Succeeded,
        5..=7 => SimulatedOutcome::Failed,
        8 | 9 => SimulatedOutcome::Unknown,
        _ => SimulatedOutcome::Hang,
    };
    let reason = match dice.of(1..=4) {
        1 => Some("Crash".to_owned()),
        2 => Some("NodeLost".to_owned()),
        3 => Some("Unavailable".to_owned()),
        _ => None,
    };
    let duration = Some(Duration::from_secs(dice.of(0..=60)));
    Rule { matches: matches.to_owned(), duration, outcome, reason, ..Rule::default() }
}
