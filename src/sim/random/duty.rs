//! What each seed has to see to, besides what chance brings: one fault at one kind of write, and one
//! more at a kind of write about reports if its history has some.
//!
//! By chance alone the rarest pairs would take some hundred thousand histories. A seed's duty is its
//! remainder, so every range of a few hundred seeds has all duties, and a fault whose write does not
//! come in one history has another try in the next range.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    moves::{Around, Move, Who},
    objects,
    plan::Plan,
    reports,
};
use crate::sim::{
    rng::Rng,
    world::{Class, Effect, Fault, LEASE_NAME, LEASE_NAMESPACE},
};

/// Kinds of writes that the operator sends, dry runs included, as coverage names them; those about
/// reports are [`REPORT_WRITES`].
pub const WRITES: [&str; 20] = [
    "create event",
    "create job",
    "create job (dry run)",
    "create lease",
    "create mocc",
    "create mocc (dry run)",
    "create rtrace",
    "delete job",
    "delete mocc",
    "delete pod",
    "delete rtrace",
    "patch event",
    "patch job",
    "update lease",
    "update mocc/status",
    "update mocc/status (dry run)",
    "update msched/status",
    "update msched/status (dry run)",
    "update rtrace/status",
    "update rtrace/status (dry run)",
];

/// The same about reports.
pub const REPORT_WRITES: [&str; 8] = [
    "create rjob",
    "delete rjob",
    "update rjob/status",
    "update rjob/status (dry run)",
    "update rqueue/status",
    "update rqueue/status (dry run)",
    "update rsched/status",
    "update rsched/status (dry run)",
];

/// When the fault is put there: the first term has begun.
const FROM: Duration = Duration::from_secs(4);
/// When a leader dies, so that its successor does what is done once a term.
const DEATH: Duration = Duration::from_secs(20);
/// How long it stays dead.
const DEAD_FOR: Duration = Duration::from_secs(30);
/// How often people do something that leads to a rare write.
const EVERY: Duration = Duration::from_secs(35);
/// Recovery traces of earlier terms: as many as are kept, so that the next one drives one out.
const EARLIER_TRACES: u64 = 20;

/// A fault at a kind of write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duty {
    /// Which write, as coverage names it.
    pub write: &'static str,
    /// What happens to it.
    pub effect: Effect,
}

/// What can happen to a request, each way once.
fn effects() -> Vec<Effect> {
    let lasting = Duration::from_secs(20);
    let mut effects = vec![
        Effect::LoseRequest { silent: false },
        Effect::LoseResponse { silent: true },
        Effect::Duplicate { after: Duration::from_secs(3) },
        Effect::Delay { by: Duration::from_secs(12) },
        Effect::Hold,
        Effect::CrashBefore,
        Effect::CrashAfter,
        Effect::Freeze { lasting },
        Effect::CutOff { lasting },
        Effect::Refuse { code: 409, committed: false },
    ];
    for code in [429, 500, 503, 504] {
        effects.push(Effect::Refuse { code, committed: false });
        effects.push(Effect::Refuse { code, committed: true });
    }
    effects
}

/// Whether the API server could do that to such a write. Nothing conflicts with a create but what
/// exists, and that is another answer.
fn is_possible(write: &str, effect: &Effect) -> bool {
    !(matches!(effect, Effect::Refuse { code: 409, .. }) && write.starts_with("create"))
}

/// All duties, in the order of seeds.
pub fn duties() -> Vec<Duty> {
    all(&WRITES)
}

/// All duties about reports, in the order of the seeds that have reports.
pub fn report_duties() -> Vec<Duty> {
    all(&REPORT_WRITES)
}

fn all(writes: &[&'static str]) -> Vec<Duty> {
    let mut duties = Vec::new();
    // Neighbouring seeds have different effects and different writes.
    for effect in effects() {
        for write in writes.iter().filter(|write| is_possible(write, &effect)) {
            duties.push(Duty { write, effect: effect.clone() });
        }
    }
    duties
}

/// The duty of a seed.
pub fn duty(seed: u64) -> Duty {
    nth(duties(), seed)
}

/// The duty about reports of a seed, if its history has some.
pub fn report_duty(seed: u64) -> Option<Duty> {
    reports::has_reports(seed).then(|| nth(report_duties(), seed / 2))
}

fn nth(mut duties: Vec<Duty>, number: u64) -> Duty {
    let number = number % u64::try_from(duties.len()).unwrap_or(1);
    duties.swap_remove(usize::try_from(number).unwrap_or(0))
}

/// Puts the duty of a seed into its plan, and what leads to the write.
pub(super) fn put(plan: &mut Plan, seed: u64) {
    let duty = duty(seed);
    let mut dice = Rng::new(seed).fork(5);
    prepare(plan, duty.write, &mut dice);
    inject(plan, duty, &mut dice);
    plan.moves.sort_by_key(|(at, _)| *at);
}

/// Puts the duty about reports of a seed into its plan, and what leads to the write.
pub(super) fn put_report(plan: &mut Plan, seed: u64, dice: &mut Rng) {
    let Some(duty) = report_duty(seed) else { return };
    prepare_report(plan, duty.write, dice);
    inject(plan, duty, dice);
}

fn inject(plan: &mut Plan, duty: Duty, dice: &mut Rng) {
    let skip = u32::try_from(dice.of(0..=1)).unwrap_or(0);
    let (class, only, effect) = (Class::Any, Some(duty.write), duty.effect);
    // What happens once in a history or so is not let pass.
    let skip = if OFTEN.contains(&duty.write) { skip } else { 0 };
    let fault = Fault { class, only, skip, ..Fault::next_write(effect) };
    plan.moves.push((FROM, Move::Inject(None, fault)));
}

/// Writes of which every history has some, or every one with reports.
const OFTEN: [&str; 8] = [
    "create event",
    "create mocc",
    "create mocc (dry run)",
    "update lease",
    "update mocc/status",
    "update msched/status",
    "update rjob/status",
    "update rqueue/status",
];

/// Makes a kind of write about reports likely.
fn prepare_report(plan: &mut Plan, write: &str, dice: &mut Rng) {
    let is = |object: &Value, kind: &str| object["kind"] == kind;
    match write {
        "create rjob" | "update rsched/status" | "update rsched/status (dry run)" => {
            plan.objects.retain(|object| !is(object, "ReportSchedule"));
            let mut schedule = reports::schedule(dice);
            schedule["spec"]["schedule"] = json!("* * * * *");
            let name = reports::QUEUES[0];
            schedule["spec"]["jobTemplate"]["spec"]["queueName"] = json!(name);
            plan.objects.push(schedule);
            // A queue that is closed or full takes no instant.
            for queue in plan.objects.iter_mut().filter(|object| object["metadata"]["name"] == name)
            {
                if let Some(spec) = queue["spec"].as_object_mut() {
                    spec.retain(|field, _| field != "limits" && !field.starts_with("admission"));
                }
            }
        }
        "delete rjob" => {
            let queues = plan.objects.iter_mut().filter(|object| is(object, "ReportQueue"));
            for queue in queues {
                queue["spec"]["retention"] = json!({"successfulSeconds": 5, "failedSeconds": 5});
            }
        }
        _ => {}
    }
    if write.ends_with("(dry run)") {
        plan.moves.push((DEATH, Move::Kill(Who::Leader, DEAD_FOR)));
    }
}

/// Makes a kind of write likely.
fn prepare(plan: &mut Plan, write: &str, dice: &mut Rng) {
    let often = |plan: &mut Plan, one: &Move| {
        let mut at = FROM + EVERY;
        while at < plan.calm {
            plan.moves.push((at, one.clone()));
            at += EVERY;
        }
    };
    match write {
        "create lease" => plan.moves.push((FROM + DEATH, Move::DeleteLease)),
        "create job" | "patch job" | "delete job" => with_jobs(plan, dice),
        "create job (dry run)" => {
            with_jobs(plan, dice);
            often(plan, &Move::NewImage);
        }
        "delete pod" => {
            with_jobs(plan, dice);
            often(plan, &Move::Around(Around::Orphan));
        }
        "patch event" => with_repeated_events(plan, dice),
        "delete mocc" => {
            with_minutes(plan, dice, &json!({"simulated": {"durationSeconds": 5}}));
            plan.objects[0]["spec"]["retention"] = json!({"successful": 0, "failed": 0});
        }
        "delete rtrace" => {
            plan.objects.extend((1..=EARLIER_TRACES).map(trace));
            plan.moves.push((DEATH, Move::Kill(Who::Leader, DEAD_FOR)));
        }
        "create rtrace" | "update rtrace/status" | "update rtrace/status (dry run)" => {
            plan.moves.push((DEATH, Move::Kill(Who::Leader, DEAD_FOR)));
        }
        "update mocc/status (dry run)" | "update msched/status (dry run)" => {
            with_minutes(plan, dice, &json!({"simulated": {"durationSeconds": 40}}));
            plan.moves.push((DEATH, Move::Kill(Who::Leader, DEAD_FOR)));
        }
        _ => {}
    }
}

/// The first schedule is due every minute.
fn with_minutes(plan: &mut Plan, dice: &mut Rng, run: &Value) {
    let mut schedule = objects::schedule(dice, objects::SCHEDULES[0]);
    for (field, value) in [
        ("schedule", json!("* * * * *")),
        ("concurrencyPolicy", json!("Replace")),
        ("run", run.clone()),
    ] {
        schedule["spec"][field] = value;
    }
    if let Some(fields) = schedule["spec"].as_object_mut() {
        fields.remove("startingDeadlineSeconds");
    }
    plan.objects[0] = schedule;
}

/// Every schedule there can be skips each minute but one, for the same reason: a series of events for
/// each of them, whatever becomes of the others.
fn with_repeated_events(plan: &mut Plan, dice: &mut Rng) {
    plan.objects.retain(|object| object["kind"] != "MaintenanceSchedule");
    for name in objects::SCHEDULES {
        let mut schedule = objects::schedule(dice, name);
        schedule["spec"]["schedule"] = json!("* * * * *");
        schedule["spec"]["concurrencyPolicy"] = json!("Forbid");
        schedule["spec"]["run"] = json!({"simulated": {}});
        plan.objects.push(schedule);
        // As long as something may go wrong.
        plan.rules.insert(0, objects::lasting(&format!("{name}-*"), plan.calm));
    }
}

/// The first schedule runs a Job every minute, and each replaces the one before.
fn with_jobs(plan: &mut Plan, dice: &mut Rng) {
    with_minutes(plan, dice, &objects::job());
    let name = format!("{}-*", objects::SCHEDULES[0]);
    plan.rules.insert(0, objects::lasting(&name, Duration::from_secs(80)));
}

/// The record of an earlier term.
fn trace(epoch: u64) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "RecoveryTrace",
        "metadata": {"name": format!("{LEASE_NAME}-{epoch}"), "namespace": LEASE_NAMESPACE},
        "spec": {
            "leaseName": LEASE_NAME, "epoch": epoch, "holder": "r9/of-an-earlier-term",
            "gained": "Expired",
        },
    })
}
