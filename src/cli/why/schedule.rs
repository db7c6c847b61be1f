//! Why a schedule is as it is.

use kube::Resource as _;

use super::{
    answer::{Answer, second},
    commands::Target,
    events,
    occurrence::list,
    snapshot::Snapshot,
    terms::{Terms, explain_no_leader, sealed_by},
    words,
};
use crate::{
    api::{
        ConcurrencyPolicy, Condition, ConditionStatus, MaintenanceScheduleStatus, ReportSchedule,
        ScheduleState,
    },
    identity::occurrence_name,
    runs::conditions,
    schedules::{Kind, Timing, plan_input},
    time::SkipReason,
};

/// Most ranges of skipped instants that are told, the newest.
const MOST_RANGES: usize = 8;

/// Explains a schedule that could be read. `work`: short name of what its instants make.
pub(super) fn explain<S: Kind>(snapshot: &Snapshot, schedule: &S, work: &str, answer: &mut Answer) {
    let status = schedule.status().cloned().unwrap_or_default();
    let target = Target::new(answer.object.clone(), &answer.namespace);
    let terms = Terms::of(snapshot);
    story(snapshot, schedule, &status, answer);
    if let Some(epoch) = snapshot.schedule.as_ref().and_then(sealed_by) {
        let what = format!("last written by {}", terms.who(epoch));
        answer.happened(None, what, Some(epoch));
    }
    state(snapshot, schedule, &status, &target, answer);
    claims(schedule, &status, work, &target, answer);
    skips::<S>(&status, answer);
    explain_ready(answer, &status);
    if let Some(accepted) = condition(&status.conditions, conditions::ACCEPTED)
        && accepted.status == ConditionStatus::False
    {
        answer.because(format!(
            "Its run would be refused ({}): {}.",
            accepted.reason,
            accepted.message.trim_end_matches('.')
        ));
        answer.can("To correct what it runs", target.edit());
    }
    explain_no_leader(answer, snapshot);
    events::explain_fenced_write(answer, snapshot);
    answer.can("To ask about one instant", format!("{} --at 2026-11-29T02:00:00Z", target.why()));
}

fn story<S: Kind>(
    snapshot: &Snapshot,
    schedule: &S,
    status: &MaintenanceScheduleStatus,
    answer: &mut Answer,
) {
    let created = schedule.meta().creation_timestamp.as_ref().map(|at| at.0);
    answer.happened(created, "created", None);
    if let Some(from) = status.effective_time.filter(|from| Some(from.0) != created) {
        answer.happened(
            Some(from.0),
            "its present timing counts from here on (edited or resumed)",
            None,
        );
    }
    if let Some(since) = status.suspended_time {
        answer.happened(Some(since.0), "suspended", None);
    }
    if let Some(last) = status.last_schedule_time {
        let late = status.lateness_seconds.map(|s| format!("; the newest start was {s} s late"));
        let what = format!("the newest instant that is decided{}", late.unwrap_or_default());
        answer.happened(Some(last.timestamp()), what, None);
    }
    events::tell(answer, snapshot);
    *answer = std::mem::take(answer).in_order();
}

fn state<S: Kind>(
    snapshot: &Snapshot,
    schedule: &S,
    status: &MaintenanceScheduleStatus,
    target: &Target,
    answer: &mut Answer,
) {
    let timing = schedule.timing();
    let input = plan_input(schedule, status);
    let rule = format!("{:?} in {}", timing.schedule, timing.time_zone);
    match status.state {
        None => {
            answer.stands("New", None, "No leader has looked at it yet.");
            answer.then(
                None,
                "A leader looks at it within a second. Instants before its creation never run.",
            );
        }
        Some(ScheduleState::Active) => {
            answer.stands("Active", None, format!("Its instants run when they are due: {rule}."));
            let missed = timing.missed_runs.policy;
            answer.because(match policy(schedule) {
                Some(policy) => format!("When one is due while an earlier one is not over, concurrencyPolicy {policy:?} decides; when one was missed, missedRuns.policy {missed:?}."),
                None => format!("Each of them makes a report, whether earlier ones are over or not; reports wait in their queue. When one was missed, missedRuns.policy {missed:?} decides."),
            });
        }
        Some(ScheduleState::Invalid) => {
            let problem = input.to_schedule(snapshot.now).err().map(|error| error.problem());
            answer.stands(
                "Invalid",
                Some("InvalidSchedule"),
                "It cannot be used, so no new instant runs. What was claimed before goes on.",
            );
            if let Some(problem) = problem {
                answer.because(format!("spec.schedule or spec.timeZone {problem}."));
            }
            answer.can("To correct it", target.edit());
        }
        Some(ScheduleState::Suspended) => {
            suspended(status, &timing, answer);
            answer.can("To resume it", target.resume());
        }
    }
    if let Some(next) = status.next_schedule_time {
        let at = next.timestamp();
        let what = if at <= snapshot.now {
            "The next instant has come and is about to be decided."
        } else {
            "The next instant comes due."
        };
        answer.then(Some(at), what);
    }
}

/// Since when it is suspended, why, and until when.
fn suspended(status: &MaintenanceScheduleStatus, timing: &Timing<'_>, answer: &mut Answer) {
    let since = status.suspended_time.map(|at| format!(" since {}", second(at.0)));
    answer.stands(
        "Suspended",
        None,
        format!("It is suspended{}: instants are counted and not run.", since.unwrap_or_default()),
    );
    match timing.suspend_reason {
        Some(note) => answer.because(format!("spec.suspend is true, with the note: {note}")),
        None => answer.because("spec.suspend is true; nobody left a note (spec.suspendReason)."),
    }
    if let Some(until) = timing.suspend_until_time {
        answer.then(
            Some(until),
            "It resumes by itself (spec.suspendUntilTime). None of the instants until then is run.",
        );
    } else {
        answer.then(
            None,
            "It stays suspended until someone resumes it. None of the instants until then is run.",
        );
    }
}

/// What is promised and not over.
fn claims<S: Kind>(
    schedule: &S,
    status: &MaintenanceScheduleStatus,
    work: &str,
    target: &Target,
    answer: &mut Answer,
) {
    let name = schedule.meta().name.as_deref().unwrap_or_default();
    let named = |start: bool| -> Vec<String> {
        let claims = status.claimed.iter().filter(|claim| claim.start == start);
        claims.map(|claim| format!("{work}/{}", occurrence_name(name, claim.time))).collect()
    };
    let (started, waiting) = (named(true), named(false));
    if let Some(first) = started.first() {
        answer.because(format!("Started and not over: {}.", list(&started)));
        let first = Target::new(first.clone(), &target.namespace);
        answer.can("To see how the first of them stands", first.why());
    }
    if !waiting.is_empty() {
        let rule = policy(schedule).map(|policy| format!(" (concurrencyPolicy {policy:?})"));
        answer.because(format!(
            "Waiting for their turn{}: {}.",
            rule.unwrap_or_default(),
            list(&waiting)
        ));
    }
}

/// What was not run, newest first.
fn skips<S: Kind>(status: &MaintenanceScheduleStatus, answer: &mut Answer) {
    for range in status.skipped.iter().rev().take(MOST_RANGES) {
        let which = match range.count {
            1 => format!("The instant {} was not run", range.from),
            n => format!("{n} instants from {} to {} were not run", range.from, range.to),
        };
        let why = skipped::<S>(range.reason);
        answer.because(format!("{which} ({}). {why}", range.reason.as_str()));
    }
    let more = status.skipped.len().saturating_sub(MOST_RANGES);
    if more > 0 {
        answer.because(format!("{more} older ranges are in status.skipped."));
    }
}

/// Whether the instants of this kind make reports. These wait in their queue, so the kind has no
/// policy for what comes due while earlier work is not over; and nobody makes one by `trigger`.
pub(super) fn makes_reports<S: Kind>() -> bool {
    S::kind(&()) == ReportSchedule::kind(&())
}

/// What happens when an instant is due while earlier work is not over, if the kind says it.
pub(super) fn policy<S: Kind>(schedule: &S) -> Option<ConcurrencyPolicy> {
    (!makes_reports::<S>()).then(|| schedule.policy())
}

/// Why an instant was not run, by the reason in the accounting of a schedule of this kind.
pub(super) fn skipped<S: Kind>(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Concurrent if makes_reports::<S>() => {
            "As many of its reports as a schedule keeps track of were not over."
        }
        _ => words::skipped(reason),
    }
}

/// What a person can change so that such an instant runs the next time.
pub(super) fn skipped_fix<S: Kind>(reason: SkipReason) -> Option<&'static str> {
    match reason {
        SkipReason::Concurrent if makes_reports::<S>() => {
            Some("Make the schedule rarer, or give its queue more slots.")
        }
        _ => words::skipped_fix(reason),
    }
}

/// The condition of a type.
pub(super) fn condition<'a>(all: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    all.iter().find(|condition| condition.r#type == r#type)
}

/// Why a schedule does not decide what is due, if its condition says so.
pub(super) fn explain_ready(answer: &mut Answer, status: &MaintenanceScheduleStatus) {
    let Some(ready) = condition(&status.conditions, conditions::READY) else { return };
    if ready.status != ConditionStatus::False {
        return;
    }
    let message = ready.message.trim_end_matches('.');
    let meaning = match ready.reason.as_str() {
        "ClockSkew" => {
            " The clock of the leader and that of the API server disagree, so nobody can say what is due. Nothing new is created until they agree."
        }
        "CreateRefused" => {
            " It is tried again with growing pauses; after ten minutes, or the deadline, the instant is skipped."
        }
        "NeverFires" => " No date of the calendar matches, so it never runs.",
        _ => "",
    };
    answer.because(format!("{}: {message}.{meaning}", ready.reason));
}
