//! Reports in a random cluster: queues, jobs that clients submit over time, and schedules of reports.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    duty,
    moves::Move,
    objects::{job, object, pick, rule},
    plan::Plan,
    report_theme,
};
use crate::sim::{provider::Rule, rng::Rng};

/// Names of queues; a plan with reports has one or both.
pub(super) const QUEUES: [&str; 2] = ["reports", "exports"];
/// The schedule of reports that a plan may have.
pub(super) const SCHEDULE: &str = "digest";
/// Who submits reports.
const TENANTS: [&str; 4] = ["acme", "bolt", "core", "dune"];
/// Least and most jobs that clients submit. A queue drains a handful of them in a history.
const JOBS: (u64, u64) = (3, 12);
/// Least and most things that clients and people do with reports.
const MOVES: (u64, u64) = (2, 6);
/// Of a hundred histories with reports so many have no maintenance.
const ALONE_PERCENT: u64 = 6;
/// When jobs are submitted: from the first term on, and so that most have a turn before the calm.
const SUBMITTED: (u64, u64) = (3, 190);
/// When a client submits many at once: as an instant of maintenance is due.
const BURST: u64 = 60;

/// Whether the history of a seed has reports: every second one.
pub(super) fn has_reports(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Puts reports into the plan of a seed, if it has some, and everything that goes wrong with them.
pub(super) fn put(plan: &mut Plan, seed: u64) {
    if !has_reports(seed) {
        return;
    }
    let mut dice = Rng::new(seed).fork(6);
    if dice.chance(ALONE_PERCENT) {
        plan.objects.clear();
        plan.moves.retain(|(_, one)| !matches!(one, Move::Person | Move::NewImage));
    }
    let queues = if dice.chance(30) { 2 } else { 1 };
    for name in QUEUES.into_iter().take(queues) {
        plan.objects.push(queue(&mut dice, name));
    }
    if dice.chance(35) {
        plan.objects.push(schedule(&mut dice));
    }
    for number in 1..=dice.of(JOBS.0..=JOBS.1) {
        let at = if dice.chance(40) { BURST } else { dice.of(SUBMITTED.0..=SUBMITTED.1) };
        let job = submitted(&mut dice, number);
        plan.moves.push((Duration::from_secs(at), Move::Create(job)));
    }
    plan.rules.extend(rules(&mut dice));
    for _ in 0..dice.of(MOVES.0..=MOVES.1) {
        let millis = dice.of(SUBMITTED.0 * 1000..=SUBMITTED.1 * 1000);
        plan.moves.push((Duration::from_millis(millis), Move::Client));
    }
    report_theme::put(plan, seed);
    duty::put_report(plan, seed, &mut dice);
    plan.moves.retain(|(at, _)| *at < plan.calm);
    plan.moves.sort_by_key(|(at, _)| *at);
}

/// A small queue.
pub(super) fn queue(dice: &mut Rng, name: &str) -> Value {
    let mut spec = json!({"slots": dice.of(1..=4)});
    if dice.chance(40) {
        spec["limits"] = json!({"queued": dice.of(0..=6), "queuedPerTenant": dice.of(0..=3)});
    }
    if dice.chance(40) {
        spec["tenants"] = json!([{
            "name": TENANTS[0], "weight": dice.of(1..=3), "maxRunning": dice.of(0..=2),
        }]);
    }
    if dice.chance(30) {
        let (enabled, percent) = (dice.chance(70), dice.of(0..=100));
        spec["retries"] = json!({"enabled": enabled, "budgetPercent": percent});
    }
    if dice.chance(20) {
        spec["admission"] = json!(pick(dice, &["Hold", "Closed"]));
        spec["admissionReason"] = json!("month-end close");
        if dice.chance(70) {
            let minute = dice.of(0..=1);
            spec["admissionUntilTime"] = json!(format!("2026-11-29T02:0{minute}:00Z"));
        }
    }
    if dice.chance(60) {
        spec["runTemplate"] = run(dice);
        spec["allowOwnRun"] = json!(dice.chance(80));
    }
    if dice.chance(25) {
        let (successful, failed) = (dice.of(0..=90), dice.of(0..=90));
        spec["retention"] = json!({"successfulSeconds": successful, "failedSeconds": failed});
    }
    object("ReportQueue", name, &spec)
}

/// A job that a client submits.
pub(super) fn submitted(dice: &mut Rng, number: u64) -> Value {
    let tenant = pick(dice, &TENANTS);
    let mut spec = request(dice, tenant);
    if dice.chance(90) {
        spec["run"] = run(dice);
    }
    if dice.chance(5) {
        spec["cancel"] = json!(true);
    }
    object("ReportJob", &format!("{tenant}-{number}"), &spec)
}

/// What a job and the template of a schedule have in common.
fn request(dice: &mut Rng, tenant: &str) -> Value {
    let name = if dice.chance(75) { QUEUES[0] } else { QUEUES[1] };
    let mut spec = json!({
        "queueName": name, "tenant": tenant, "estimateSeconds": dice.of(1..=60),
        "priority": dice.of(0..=2),
    });
    if dice.chance(20) {
        spec["queueDeadlineSeconds"] = json!(dice.of(10..=90));
    }
    if dice.chance(30) {
        spec["artifact"] = json!("Required");
    }
    spec
}

/// What a report runs: seldom a Job.
fn run(dice: &mut Rng) -> Value {
    let class = pick(dice, &["Idempotent", "Idempotent", "Fenced", "ReadOnly"]);
    let mut run = json!({"actionClass": class, "maxAttempts": dice.of(1..=3)});
    if dice.chance(20) {
        run["timeoutSeconds"] = json!(dice.of(15..=60));
    }
    if dice.chance(15) {
        run["job"] = job()["job"].take();
        run["startTimeoutSeconds"] = json!(dice.of(30..=120));
    } else {
        run["simulated"] = json!({"durationSeconds": dice.of(0..=40)});
    }
    run
}

/// A schedule of reports that is due every one to three minutes.
pub(super) fn schedule(dice: &mut Rng) -> Value {
    let tenant = pick(dice, &TENANTS);
    let mut template = request(dice, tenant);
    if dice.chance(90) {
        template["run"] = run(dice);
    }
    let expression = pick(dice, &["* * * * *", "* * * * *", "*/2 * * * *", "@every 1m"]);
    let missed = pick(dice, &["Latest", "Latest", "All", "None"]);
    let mut spec = json!({
        "schedule": expression, "missedRuns": {"policy": missed, "limit": dice.of(1..=4)},
        "jobTemplate": {"spec": template},
    });
    if dice.chance(25) {
        spec["startingDeadlineSeconds"] = json!(dice.of(10..=120));
    }
    if dice.chance(20) {
        spec["spread"] = json!({"windowSeconds": dice.of(1..=20)});
    }
    if dice.chance(25) {
        spec["retention"] = json!({"successful": dice.of(0..=2), "failed": dice.of(0..=2)});
    }
    object("ReportSchedule", SCHEDULE, &spec)
}

/// How reports behave: those of each tenant in their own way, first attempts otherwise.
fn rules(dice: &mut Rng) -> Vec<Rule> {
    let mut rules = Vec::new();
    for name in TENANTS.into_iter().chain([SCHEDULE]) {
        let matches = format!("{name}-*");
        if dice.chance(50) {
            rules.push(Rule { attempts: Some(vec![1]), ..rule(dice, &matches) });
        }
        if dice.chance(70) {
            let duration = Duration::from_secs(dice.of(0..=50));
            rules.push(delivering(&matches, duration));
        }
    }
    rules
}

/// Reports of that name deliver an artifact after so long.
pub(super) fn delivering(matches: &str, duration: Duration) -> Rule {
    let (uri, sha256) = ("s3://reports/one", "1".repeat(64));
    let artifact = Some(json!({"uri": uri, "sha256": sha256, "sizeBytes": 4096}));
    Rule { matches: matches.to_owned(), duration: Some(duration), artifact, ..Rule::default() }
}
