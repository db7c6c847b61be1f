//! Situations of reports that chance alone brings too seldom: every history with reports has one, in a
//! queue of its own.

use serde_json::{Value, json};

use super::{
    moves::{Around, Move, Who},
    objects::{self, object},
    plan::Plan,
    reports::delivering,
    situation::{
        at, every, extend, failing, inject, job_of_others, out_of_sight, secs, simulated, turn,
        vanishes_unseen,
    },
};
use crate::{
    api::SimulatedOutcome,
    sim::{Kind, provider::Rule, world::Effect},
};

/// The queue of the situation.
const QUEUE: &str = "desk";
/// The jobs of the situation, in the order in which they are submitted.
const JOBS: [&str; 7] = ["desk-1", "desk-2", "desk-3", "desk-4", "desk-5", "desk-6", "desk-7"];
/// What is theirs, as rules name it.
const OURS: &str = "desk-*";
/// The schedule of the situation.
const SCHEDULE: &str = "weekly";
/// Number of situations; it has no factor in common with the number of duties about reports.
const THEMES: u64 = 16;
/// When the situation begins; schedules that are due every minute are due then.
const BEGIN: u64 = 60;

/// Puts the situation of a seed into its plan.
pub(super) fn put(plan: &mut Plan, seed: u64) {
    match turn(seed, THEMES) {
        (0, _) => full(plan),
        (1, _) => held_then_closed(plan),
        (2, _) => its_queue_goes(plan),
        (3, _) => slots_are_lowered(plan),
        (4, _) => cancelled_in_every_state(plan),
        (5, _) => no_budget_for_retries(plan),
        (6, _) => nobody_knows(plan),
        (7, false) => never_starts(plan),
        (7, true) => its_pod_is_out_of_sight(plan),
        (8, _) => others_meddle_with_jobs(plan),
        (9, _) => takes_too_long(plan),
        (10, false) => refused_by_its_template(plan),
        (10, true) => its_pod_vanishes_unseen(plan),
        (11, _) => delivers_nothing(plan),
        (12, _) => unreachable_while_it_runs(plan),
        (13, _) => submitted_again(plan),
        (14, _) => its_schedule_changes_its_mind(plan),
        _ => of_one_tenant(plan),
    }
}

/// The queue, with some fields of its spec.
fn queue(slots: u64, more: &Value) -> Value {
    let mut queue = object("ReportQueue", QUEUE, &json!({"slots": slots}));
    extend(&mut queue["spec"], more);
    queue
}

/// A job of one of two tenants, with some fields of its spec.
fn job(number: usize, run: &Value, more: &Value) -> Value {
    let tenant = if number.is_multiple_of(2) { "acme" } else { "zeta" };
    let spec = json!({"queueName": QUEUE, "tenant": tenant, "estimateSeconds": 20, "run": run});
    let mut job = object("ReportJob", JOBS.get(number).copied().unwrap_or("desk-0"), &spec);
    extend(&mut job["spec"], more);
    job
}

/// The first so many jobs are submitted together.
fn burst(plan: &mut Plan, second: u64, number: usize, run: &Value, more: &Value) {
    for one in 0..number {
        at(plan, second, Move::Create(job(one, run, more)));
    }
}

/// What takes so long, does nothing, and must not do it twice.
fn fenced(seconds: u64) -> Value {
    let mut run = simulated(seconds);
    run["actionClass"] = json!("Fenced");
    run
}

fn edit(plan: &mut Plan, second: u64, kind: Kind, name: &'static str, spec: &Value) {
    at(plan, second, Move::Patch(kind, name, json!({"spec": spec})));
}

/// Attempts of the situation's jobs end so.
fn ends(plan: &mut Plan, attempts: &[i32], outcome: SimulatedOutcome, reason: Option<&str>) {
    let rule = Rule {
        matches: OURS.to_owned(),
        attempts: Some(attempts.to_vec()),
        duration: Some(secs(5)),
        outcome,
        reason: reason.map(str::to_owned),
        ..Rule::default()
    };
    plan.rules.insert(0, rule);
}

/// More are submitted than may wait, of all tenants and of one.
fn full(plan: &mut Plan) {
    let limits = json!({"limits": {"queued": 2, "queuedPerTenant": 1}});
    plan.objects.push(queue(1, &limits));
    burst(plan, BEGIN, 5, &simulated(25), &Value::Null);
    let weekly = scheduled(&simulated(30), &json!({"schedule": "* * * * *"}));
    plan.objects.push(weekly);
}

/// The queue is on hold, and some will be too late when it opens; then it is closed.
fn held_then_closed(plan: &mut Plan) {
    let until = json!({"admission": "Hold", "admissionUntilTime": "2026-11-29T01:59:40Z"});
    plan.objects.push(queue(2, &until));
    at(plan, 20, Move::Create(job(0, &simulated(10), &json!({"queueDeadlineSeconds": 10}))));
    at(plan, 20, Move::Create(job(1, &simulated(10), &Value::Null)));
    let for_good = json!({"admission": "Hold", "admissionUntilTime": null});
    edit(plan, 110, Kind::ReportQueue, QUEUE, &for_good);
    at(plan, 112, Move::Create(job(2, &simulated(10), &json!({"queueDeadlineSeconds": 20}))));
    edit(plan, 140, Kind::ReportQueue, QUEUE, &json!({"admission": "Closed"}));
    at(plan, 145, Move::Create(job(3, &simulated(10), &Value::Null)));
    edit(plan, 180, Kind::ReportQueue, QUEUE, &json!({"admission": "Open"}));
}

/// Reports come before their queue; later it is deleted while they run, and applied again smaller.
fn its_queue_goes(plan: &mut Plan) {
    at(plan, 10, Move::Create(job(0, &simulated(30), &Value::Null)));
    at(plan, 10, Move::Create(job(1, &simulated(30), &json!({"queueDeadlineSeconds": 15}))));
    at(plan, 10, Move::Create(without_run(5)));
    at(plan, 35, Move::Create(queue(3, &Value::Null)));
    for number in 2..5 {
        at(plan, 40, Move::Create(job(number, &simulated(60), &Value::Null)));
    }
    at(plan, 65, Move::Delete(Kind::ReportQueue, QUEUE));
    at(plan, 66, Move::Delete(Kind::ReportJob, JOBS[5]));
    at(plan, 70, Move::Create(job(5, &simulated(5), &json!({"cancel": true}))));
    at(plan, 75, Move::Create(queue(1, &Value::Null)));
}

/// Slots are lowered while they are full.
fn slots_are_lowered(plan: &mut Plan) {
    plan.objects.push(queue(3, &Value::Null));
    burst(plan, 30, 6, &simulated(40), &Value::Null);
    edit(plan, 45, Kind::ReportQueue, QUEUE, &json!({"slots": 1}));
    at(plan, 55, Move::Kill(Who::Leader, secs(20)));
    edit(plan, 150, Kind::ReportQueue, QUEUE, &json!({"slots": 4}));
}

/// Reports are cancelled before anybody has seen them, while they wait, when they are prepared, while
/// they run, when they have failed, and as they fail while all replicas are down.
fn cancelled_in_every_state(plan: &mut Plan) {
    plan.objects.push(queue(2, &Value::Null));
    ends(plan, &[1], SimulatedOutcome::Failed, Some("Unavailable"));
    let cancel = json!({"cancel": true});
    at(plan, 15, Move::Create(job(0, &simulated(5), &Value::Null)));
    edit(plan, 25, Kind::ReportJob, JOBS[0], &cancel);
    for (number, name) in JOBS.iter().enumerate().take(5).skip(1) {
        plan.rules.insert(0, objects::lasting(name, secs(40)));
        at(plan, BEGIN, Move::Create(job(number, &simulated(40), &Value::Null)));
    }
    at(plan, BEGIN, Move::Create(job(5, &simulated(5), &cancel)));
    edit(plan, BEGIN + 12, Kind::ReportJob, JOBS[1], &cancel);
    edit(plan, BEGIN + 12, Kind::ReportJob, JOBS[4], &cancel);
    // The next one is committed and not released when its leader dies.
    inject(plan, BEGIN + 30, "update rjob/status", Effect::CrashAfter);
    edit(plan, BEGIN + 43, Kind::ReportJob, JOBS[2], &cancel);
    edit(plan, BEGIN + 43, Kind::ReportJob, JOBS[3], &cancel);
    plan.rules.insert(0, failing(JOBS[6], secs(20), None));
    at(plan, BEGIN + 90, Move::Create(job(6, &fenced(20), &Value::Null)));
    at(plan, BEGIN + 98, Move::Kill(Who::All, secs(14)));
    edit(plan, BEGIN + 105, Kind::ReportJob, JOBS[6], &cancel);
}

/// Attempts fail, and there is no budget for others, or they are switched off. Three could be repeated
/// at once, and the budget is for the two largest.
fn no_budget_for_retries(plan: &mut Plan) {
    plan.objects.push(queue(6, &json!({"retries": {"budgetPercent": 0}})));
    ends(plan, &[1], SimulatedOutcome::Failed, Some("Unavailable"));
    let again =
        Rule { duration: Some(secs(45)), attempts: Some(vec![2, 3]), ..plan.rules[0].clone() };
    plan.rules.insert(0, again);
    burst(plan, 20, 6, &simulated(5), &json!({"estimateSeconds": 3600}));
    edit(plan, 120, Kind::ReportQueue, QUEUE, &json!({"retries": {"enabled": false}}));
    let retries = json!({"retries": {"enabled": true, "budgetPercent": 100}});
    edit(plan, 150, Kind::ReportQueue, QUEUE, &retries);
}

/// Nobody knows how attempts ended, and people decide.
fn nobody_knows(plan: &mut Plan) {
    plan.objects.push(queue(4, &Value::Null));
    ends(plan, &[1], SimulatedOutcome::Unknown, None);
    let run = |class: &str| {
        let mut run = simulated(5);
        run["actionClass"] = json!(class);
        run
    };
    for (number, class) in ["Fenced", "Idempotent", "ReadOnly", "Fenced"].into_iter().enumerate() {
        at(plan, 20, Move::Create(job(number, &run(class), &Value::Null)));
    }
    every(plan, 45, 25, &Move::Resolve(Kind::ReportJob));
    edit(plan, 60, Kind::ReportJob, JOBS[3], &json!({"cancel": true}));
}

/// There is no node that the pods of reports could run on.
fn never_starts(plan: &mut Plan) {
    plan.objects.push(queue(2, &Value::Null));
    let mut run = objects::job();
    run["startTimeoutSeconds"] = json!(25);
    at(plan, BEGIN - 5, Move::Around(Around::NoNodes));
    burst(plan, BEGIN, 3, &run, &Value::Null);
    every(plan, BEGIN + 5, 40, &Move::Around(Around::NoNodes));
}

/// Others suspend and delete the Jobs of reports, let them go on, and evict and collect their pods.
/// Three reports are tried once only.
fn others_meddle_with_jobs(plan: &mut Plan) {
    plan.objects.push(queue(3, &Value::Null));
    plan.rules.insert(0, objects::lasting(OURS, secs(30)));
    let required = json!({"artifact": "Required"});
    let mut once = objects::job();
    once["maxAttempts"] = json!(1);
    burst(plan, 20, 3, &once, &required);
    for number in 3..6 {
        at(plan, 20, Move::Create(job(number, &objects::job(), &required)));
    }
    let around = |what| Move::AroundOne(what, "desk-");
    every(plan, 30, 30, &around(Around::Suspend));
    every(plan, 40, 35, &around(Around::Collect));
    every(plan, 50, 60, &around(Around::DeleteJob));
    every(plan, 38, 60, &around(Around::SecondPod));
    every(plan, 28, 30, &around(Around::Evict));
}

/// The pod of a Job waits for a node, its Job is gone, and pods cannot be listed.
fn its_pod_is_out_of_sight(plan: &mut Plan) {
    plan.objects.push(queue(1, &Value::Null));
    plan.rules.insert(0, objects::lasting(OURS, secs(20)));
    burst(plan, BEGIN, 1, &objects::job(), &Value::Null);
    out_of_sight(plan, BEGIN, "desk-1-r1");
}

/// The pod of a Job vanishes, and nobody has seen it who lives.
fn its_pod_vanishes_unseen(plan: &mut Plan) {
    plan.objects.push(queue(1, &Value::Null));
    plan.rules.insert(0, objects::lasting(OURS, secs(90)));
    let mut run = objects::job();
    run["actionClass"] = json!("Fenced");
    burst(plan, BEGIN, 1, &run, &Value::Null);
    vanishes_unseen(plan, BEGIN + 15, JOBS[0]);
}

/// Reports take longer than they may.
fn takes_too_long(plan: &mut Plan) {
    plan.objects.push(queue(2, &Value::Null));
    plan.rules.insert(0, objects::lasting(OURS, secs(60)));
    let mut run = simulated(60);
    run["timeoutSeconds"] = json!(20);
    burst(plan, BEGIN, 3, &run, &Value::Null);
    edit(plan, BEGIN + 40, Kind::ReportJob, JOBS[2], &json!({"cancel": true}));
}

/// What is to run can never be made into a Job, or its name is taken.
fn refused_by_its_template(plan: &mut Plan) {
    plan.objects.push(queue(2, &Value::Null));
    let mut run = objects::job();
    run["job"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    at(plan, BEGIN, Move::Create(job(0, &run, &Value::Null)));
    at(plan, BEGIN, Move::Create(job(1, &objects::job(), &Value::Null)));
    plan.objects.push(job_of_others(&format!("{}-r1", JOBS[1])));
    at(plan, BEGIN, Move::Create(without_run(2)));
}

/// Neither the job nor its queue says what to run.
fn without_run(number: usize) -> Value {
    let mut nothing = job(number, &Value::Null, &Value::Null);
    if let Some(spec) = nothing["spec"].as_object_mut() {
        spec.remove("run");
    }
    nothing
}

/// Reports succeed without the artifact that they owe, or with one.
fn delivers_nothing(plan: &mut Plan) {
    plan.objects.push(queue(2, &Value::Null));
    plan.rules.insert(0, objects::lasting(OURS, secs(10)));
    plan.rules.insert(0, delivering(JOBS[0], secs(10)));
    let required = json!({"artifact": "Required"});
    burst(plan, 30, 2, &simulated(10), &required);
    plan.objects.push(scheduled(&simulated(5), &required));
}

/// The provider cannot be asked for longer than anybody waits, and the leader dies. One report fails
/// meanwhile and is cancelled.
fn unreachable_while_it_runs(plan: &mut Plan) {
    plan.objects.push(queue(3, &Value::Null));
    plan.rules.insert(0, objects::lasting(OURS, secs(130)));
    plan.rules.insert(0, failing(JOBS[1], secs(20), None));
    burst(plan, 30, 2, &fenced(130), &Value::Null);
    at(plan, 30, Move::Create(job(2, &simulated(130), &Value::Null)));
    at(plan, 30, Move::Create(job(3, &simulated(130), &Value::Null)));
    at(plan, 35, Move::Kill(Who::Leader, secs(20)));
    at(plan, 36, Move::ProviderUnreachable(secs(110)));
    edit(plan, 125, Kind::ReportJob, JOBS[1], &json!({"cancel": true}));
}

/// A report is deleted while it runs, and submitted again under its name.
fn submitted_again(plan: &mut Plan) {
    plan.objects.push(queue(2, &json!({"retention": {"successfulSeconds": 0}})));
    plan.rules.insert(0, objects::lasting(OURS, secs(50)));
    let run = fenced(50);
    burst(plan, 20, 3, &run, &Value::Null);
    at(plan, 35, Move::Delete(Kind::ReportJob, JOBS[0]));
    at(plan, 36, Move::Create(job(0, &run, &Value::Null)));
    at(plan, 50, Move::ProviderUnreachable(secs(30)));
    at(plan, 52, Move::Delete(Kind::ReportJob, JOBS[1]));
    at(plan, 53, Move::Create(job(1, &run, &Value::Null)));
}

/// A schedule of reports in the queue of the situation, due every minute.
fn scheduled(run: &Value, more: &Value) -> Value {
    let template = json!({
        "queueName": QUEUE, "tenant": "acme", "estimateSeconds": 20, "run": run,
    });
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": template}});
    let mut schedule = object("ReportSchedule", SCHEDULE, &spec);
    if let Some(artifact) = more.get("artifact") {
        schedule["spec"]["jobTemplate"]["spec"]["artifact"] = artifact.clone();
    } else {
        extend(&mut schedule["spec"], more);
    }
    schedule
}

/// A report is created and not claimed when its schedule is edited; another one is prepared when its
/// schedule is deleted and applied again.
fn its_schedule_changes_its_mind(plan: &mut Plan) {
    plan.objects.push(queue(2, &Value::Null));
    let weekly = scheduled(&simulated(40), &Value::Null);
    plan.objects.push(weekly.clone());
    inject(plan, BEGIN - 1, "create rjob", Effect::CrashAfter);
    let later = json!({"schedule": "0 3 * * *"});
    edit(plan, BEGIN + 3, Kind::ReportSchedule, SCHEDULE, &later);
    at(plan, BEGIN + 20, Move::Kill(Who::All, secs(5)));
    edit(plan, BEGIN + 45, Kind::ReportSchedule, SCHEDULE, &json!({"schedule": "* * * * *"}));
    at(plan, 2 * BEGIN + 10, Move::Delete(Kind::ReportSchedule, SCHEDULE));
    at(plan, 2 * BEGIN + 15, Move::Create(weekly));
    edit(plan, 2 * BEGIN + 40, Kind::ReportSchedule, SCHEDULE, &json!({"suspend": true}));
    edit(plan, 3 * BEGIN + 10, Kind::ReportSchedule, SCHEDULE, &json!({"suspend": false}));
}

/// One tenant may run one report, and another one nothing; the queue runs its own template only.
fn of_one_tenant(plan: &mut Plan) {
    let tenants = json!([{"name": "acme", "maxRunning": 1}, {"name": "zeta", "maxRunning": 0}]);
    plan.objects.push(queue(3, &json!({"tenants": tenants, "runTemplate": simulated(20)})));
    burst(plan, 30, 5, &simulated(20), &Value::Null);
    edit(plan, 80, Kind::ReportQueue, QUEUE, &json!({"allowOwnRun": false}));
    let again = json!({"tenant": "core"});
    at(plan, 90, Move::Create(job(5, &simulated(20), &again)));
}
