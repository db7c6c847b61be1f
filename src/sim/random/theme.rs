//! Situations that chance alone brings too seldom: every second seed has one, on a schedule of its own.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    moves::{Around, Move, Who},
    objects,
    plan::Plan,
    situation::{
        at, every, extend, failing, inject, job_of_others, out_of_sight, secs, simulated, turn,
        vanishes_unseen,
    },
};
use crate::{
    api::SimulatedOutcome,
    sim::{Kind, provider::Rule, world::Effect},
};

/// The schedule of the situation.
const NAME: &str = "delta";
/// Its occurrences of the first full minutes: a minute, two and three after the start.
const FIRST: &str = "delta-202611290159";
const SECOND: &str = "delta-202611290200";
const THIRD: &str = "delta-202611290201";
/// Number of situations.
const THEMES: u64 = 14;
/// Minutes after the start, in seconds: instants of a schedule that is due every minute.
const MINUTE: u64 = 60;

/// Puts the situation of a seed into its plan, if it has one.
pub(super) fn put(plan: &mut Plan, seed: u64) {
    if seed.is_multiple_of(2) {
        return;
    }
    match turn(seed, THEMES) {
        (0, _) => never_starts(plan),
        (1, _) => nobody_wants_it(plan),
        (2, _) => its_schedule_goes(plan),
        (3, false) => its_schedule_returns(plan),
        (3, true) => cancelled_while_nobody_leads(plan),
        (4, false) => others_stop_jobs(plan),
        (4, true) => its_pod_is_out_of_sight(plan),
        (5, false) => others_delete_jobs(plan),
        (5, true) => its_pod_vanishes_unseen(plan),
        (6, _) => takes_too_long(plan),
        (7, _) => refused_by_its_template(plan),
        (8, _) => made_by_hand(plan),
        (9, _) => too_late_to_start(plan),
        (10, _) => name_is_taken(plan),
        (11, _) => trigger_what_was_removed(plan),
        (12, _) => unreachable_while_it_runs(plan),
        _ => over_at_once(plan),
    }
    plan.moves.retain(|(at, _)| *at < plan.calm);
    plan.moves.sort_by_key(|(at, _)| *at);
}

/// A schedule that is due every minute, with some fields of its spec.
fn schedule(run: &Value, more: &Value) -> Value {
    let mut spec = json!({"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "run": run});
    extend(&mut spec, more);
    objects::object("MaintenanceSchedule", NAME, &spec)
}

/// There is no node that a pod could run on.
fn never_starts(plan: &mut Plan) {
    let mut run = objects::job();
    run["startTimeoutSeconds"] = json!(30);
    plan.objects.push(schedule(&run, &json!({"concurrencyPolicy": "Enqueue"})));
    plan.moves.push((secs(MINUTE - 3), Move::Around(Around::NoNodes)));
}

/// Its occurrence was created and not claimed when its schedule was edited.
fn nobody_wants_it(plan: &mut Plan) {
    plan.objects.push(schedule(&simulated(10), &json!({})));
    inject(plan, MINUTE - 1, "create mocc", Effect::CrashAfter);
    let later = json!({"spec": {"schedule": "0 3 * * *"}});
    plan.moves.push((secs(MINUTE + 3), Move::Patch(Kind::MaintenanceSchedule, NAME, later)));
    plan.moves.push((secs(MINUTE + 20), Move::Kill(Who::All, secs(5))));
}

/// Its occurrence was created when its schedule was deleted.
fn its_schedule_goes(plan: &mut Plan) {
    plan.objects.push(schedule(&simulated(10), &json!({})));
    inject(plan, MINUTE - 1, "create mocc", Effect::CrashAfter);
    plan.moves.push((secs(MINUTE + 3), Move::Delete(Kind::MaintenanceSchedule, NAME)));
}

/// A run is prepared and committed when its schedule is deleted and applied again.
fn its_schedule_returns(plan: &mut Plan) {
    let schedule = schedule(&simulated(20), &json!({}));
    plan.objects.push(schedule.clone());
    inject(plan, MINUTE - 1, "update mocc/status", Effect::CrashAfter);
    plan.moves.push((secs(MINUTE + 2), Move::Delete(Kind::MaintenanceSchedule, NAME)));
    plan.moves.push((secs(MINUTE + 4), Move::Create(schedule)));
}

/// One run is recorded as running, and one as starting, when all replicas are down, somebody cancels it
/// and it fails.
fn cancelled_while_nobody_leads(plan: &mut Plan) {
    plan.objects.push(schedule(&objects::job(), &json!({})));
    plan.rules.insert(0, failing(&format!("{NAME}-*"), secs(20), None));
    let cancel = || json!({"spec": {"cancel": true}});
    let kind = Kind::MaintenanceOccurrence;
    at(plan, MINUTE + 10, Move::Kill(Who::All, secs(8)));
    at(plan, MINUTE + 14, Move::Patch(kind, FIRST, cancel()));
    inject(plan, 2 * MINUTE - 1, "patch job", Effect::CrashAfter);
    at(plan, 2 * MINUTE + 2, Move::Kill(Who::All, secs(14)));
    at(plan, 2 * MINUTE + 10, Move::Patch(kind, SECOND, cancel()));
}

/// The pod of a Job waits for a node, its Job is gone, and pods cannot be listed.
fn its_pod_is_out_of_sight(plan: &mut Plan) {
    plan.objects.push(schedule(&objects::job(), &json!({"schedule": "59 1 * * *"})));
    plan.rules.insert(0, objects::lasting(FIRST, secs(20)));
    out_of_sight(plan, MINUTE, "delta-202611290159-m1");
}

/// The pod of a Job vanishes, and nobody has seen it who lives.
fn its_pod_vanishes_unseen(plan: &mut Plan) {
    plan.objects.push(schedule(&objects::job(), &json!({"schedule": "59 1 * * *"})));
    plan.rules.insert(0, objects::lasting(FIRST, secs(90)));
    vanishes_unseen(plan, MINUTE + 15, FIRST);
}

/// Others suspend Jobs, let them go on, and collect finished pods.
fn others_stop_jobs(plan: &mut Plan) {
    plan.objects.push(schedule(&objects::job(), &json!({"concurrencyPolicy": "Allow"})));
    plan.rules.insert(0, objects::lasting(&format!("{NAME}-*"), secs(25)));
    every(plan, MINUTE + 10, 25, &Move::Around(Around::Suspend));
    every(plan, MINUTE + 19, 50, &Move::Around(Around::Resume));
    every(plan, MINUTE + 30, 20, &Move::Around(Around::Collect));
}

/// Others delete Jobs, at once or before their pods have started.
fn others_delete_jobs(plan: &mut Plan) {
    plan.objects.push(schedule(&objects::job(), &json!({"concurrencyPolicy": "Allow"})));
    plan.rules.insert(0, objects::lasting(&format!("{NAME}-*"), secs(45)));
    every(plan, MINUTE + 20, 2 * MINUTE, &Move::Around(Around::DeleteJob));
    every(plan, 2 * MINUTE - 4, 2 * MINUTE, &Move::Around(Around::NoNodes));
    every(plan, 2 * MINUTE + 5, 2 * MINUTE, &Move::Around(Around::DeleteJob));
}

/// Runs take longer than they may; one is lost with its node before.
fn takes_too_long(plan: &mut Plan) {
    let mut run = simulated(50);
    run["timeoutSeconds"] = json!(20);
    plan.objects.push(schedule(&run, &json!({})));
    plan.rules.insert(0, failing(THIRD, secs(5), Some("NodeLost")));
}

/// What is to run can never be made into a Job.
fn refused_by_its_template(plan: &mut Plan) {
    let mut run = objects::job();
    run["job"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    let spread = json!({"spread": {"windowSeconds": 30}});
    plan.objects.push(schedule(&run, if plan.objects.len() > 1 { &spread } else { &Value::Null }));
}

/// People make occurrences that cannot run, or that are cancelled before anybody has seen them.
fn made_by_hand(plan: &mut Plan) {
    plan.objects.push(schedule(&simulated(10), &json!({"schedule": "0 3 * * *"})));
    plan.objects.push(objects::by_hand(
        NAME,
        "202611290159",
        "2026-11-29T01:59:00Z",
        Some(simulated(5)),
    ));
    let mut cancelled = objects::by_hand(NAME, "202611290157", "2026-11-29T01:57:00Z", None);
    cancelled["spec"]["cancel"] = json!(true);
    plan.moves.push((secs(MINUTE), Move::Create(cancelled)));
    let nothing = objects::by_hand("missing", "202611290157", "2026-11-29T01:57:00Z", None);
    plan.moves.push((secs(MINUTE), Move::Create(nothing)));
}

/// The leader dies when an occurrence is claimed, and its successor comes too late for it.
fn too_late_to_start(plan: &mut Plan) {
    let more = json!({"startingDeadlineSeconds": 10, "concurrencyPolicy": "Allow"});
    plan.objects.push(schedule(&simulated(10), &more));
    inject(plan, MINUTE - 1, "update msched/status", Effect::CrashAfter);
    inject(plan, 2 * MINUTE - 1, "update msched/status", Effect::CrashAfter);
}

/// Somebody's Job has the name of an attempt.
fn name_is_taken(plan: &mut Plan) {
    plan.objects.push(schedule(&objects::job(), &json!({})));
    plan.objects.push(job_of_others(&format!("{NAME}-202611290159-m1")));
}

/// Records are removed at once, and somebody asks for an instant of one again.
fn trigger_what_was_removed(plan: &mut Plan) {
    let keep_none = json!({"retention": {"successful": 0, "failed": 0}});
    plan.objects.push(schedule(&simulated(3), &keep_none));
    let again = objects::by_hand(NAME, "202611290159", "2026-11-29T01:59:00Z", None);
    plan.moves.push((secs(2 * MINUTE + 30), Move::Create(again)));
}

/// The provider cannot be asked for longer than anybody waits, while runs start, go on, end and fail.
/// One that fails is cancelled meanwhile.
fn unreachable_while_it_runs(plan: &mut Plan) {
    plan.objects.push(schedule(&simulated(10), &json!({"concurrencyPolicy": "Allow"})));
    plan.rules.insert(0, objects::lasting(&format!("{NAME}-202611290158"), secs(140)));
    plan.rules.insert(0, objects::lasting(FIRST, secs(165)));
    plan.rules.insert(0, failing(SECOND, secs(20), None));
    at(plan, 2 * MINUTE + 5, Move::ProviderUnreachable(secs(80)));
    let cancel = json!({"spec": {"cancel": true}});
    at(plan, 3 * MINUTE + 16, Move::Patch(Kind::MaintenanceOccurrence, SECOND, cancel));
}

/// Runs that are over, one way or another, before anybody can ask about them.
fn over_at_once(plan: &mut Plan) {
    let run = json!({
        "actionClass": "Idempotent", "maxAttempts": 2, "simulated": {"durationSeconds": 0},
    });
    plan.objects.push(schedule(&run, &json!({"concurrencyPolicy": "Allow"})));
    let behaves = |instants: &str, attempts, outcome| Rule {
        matches: format!("{NAME}-{instants}"),
        attempts,
        duration: Some(Duration::ZERO),
        outcome,
        ..Rule::default()
    };
    plan.rules.splice(
        0..0,
        [
            behaves("202611290159", None, SimulatedOutcome::Failed),
            behaves("202611290200", Some(vec![1]), SimulatedOutcome::Failed),
            behaves("20261129020?", Some(vec![1]), SimulatedOutcome::Unknown),
        ],
    );
}
