//! `punctual pause` and `punctual resume`: schedules and queues, with a note and an until-time.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Decision, act, resolve::parse_reason};
use crate::{
    api::{AdmissionPolicy, Admissions, MaintenanceSchedule, ReportQueue, ReportSchedule, Time},
    cli::{
        CliError, DONE, output,
        target::{Connection, Output, Target, TargetKind, block_on},
        when::{When, parse_when},
    },
    cluster::{Object, ObjectKey, Person},
    reports::queue::spec::policy,
    schedules::{Kind, plan_input},
    time::{IntendedTime, WallClock},
};

/// What can be paused.
const PAUSABLE: [TargetKind; 3] =
    [TargetKind::MaintenanceSchedule, TargetKind::ReportSchedule, TargetKind::ReportQueue];

/// Arguments of `punctual pause`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # No new instants until tomorrow at six; then it resumes by itself. What runs goes on.
  kubectl punctual pause msched/nightly-retention --reason 'storage migration, ask Ada' \\
    --until 2026-11-30T06:00:00Z
  # Nothing new starts from this queue for two hours; new reports still wait in line.
  kubectl punctual pause rqueue/reports --until 2h
  # New reports are turned away; those that wait still run.
  kubectl punctual pause rqueue/reports --close --reason 'shutting this queue down'

Paused again, it keeps the note and the time that are not given anew.

Exit codes: 0 it is paused; 1 something is wrong; 2 bad usage.")]
pub struct PauseArgs {
    /// What to pause, like msched/nightly-retention, rsched/monthly-invoices or rqueue/reports.
    object: String,
    /// A note for people on why, shown by kubectl get -o wide.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    /// When it resumes by itself: a time like 2026-11-30T06:00:00Z, or how long from now, like 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    until: Option<When>,
    /// Of a queue: accept nothing new, and run what waits, rather than the other way round.
    #[arg(long)]
    close: bool,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// Arguments of `punctual resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl punctual resume msched/nightly-retention
  kubectl punctual resume rqueue/reports

Instants that passed meanwhile are accounted for as Suspended and are not run; trigger or backfill runs
them.

Exit codes: 0 it is not paused any more; 1 something is wrong; 2 bad usage.")]
pub struct ResumeArgs {
    /// What to resume, like msched/nightly-retention, rsched/monthly-invoices or rqueue/reports.
    object: String,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// How something is paused, in the words of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Mode {
    /// A schedule makes no new work.
    Suspended,
    /// A queue starts nothing.
    Hold,
    /// A queue accepts nothing.
    Closed,
}

/// That something is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Paused {
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
}

/// What a person asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    Pause { reason: Option<String>, until: Option<Timestamp>, close: bool },
    Resume,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    object: String,
    namespace: String,
    /// How it is paused now; null if it is not.
    paused: Option<Paused>,
    /// Whether this call changed it.
    changed: bool,
    /// What that means.
    next: String,
}

/// Runs `punctual pause`.
pub fn pause(args: &PauseArgs) -> Result<u8, CliError> {
    let target = Target::parse(&args.object, &PAUSABLE)?;
    if args.close && target.kind != TargetKind::ReportQueue {
        return Err(CliError::BadUsage(format!("--close is for queues; {target} is a schedule")));
    }
    let now = WallClock::system().now();
    let until = match args.until {
        None => None,
        Some(until) => Some(until.after(now).ok_or_else(|| {
            CliError::BadUsage(format!("--until is not in the future; it is {now} now"))
        })?),
    };
    let wish = Wish::Pause { reason: args.reason.clone(), until, close: args.close };
    run(&target, &wish, now, args.output, &args.connection)
}

/// Runs `punctual resume`.
pub fn resume(args: &ResumeArgs) -> Result<u8, CliError> {
    let target = Target::parse(&args.object, &PAUSABLE)?;
    run(&target, &Wish::Resume, WallClock::system().now(), args.output, &args.connection)
}

fn run(
    target: &Target,
    wish: &Wish,
    now: Timestamp,
    form: Output,
    connection: &Connection,
) -> Result<u8, CliError> {
    block_on(async {
        let person = connection.connect().await?;
        let answer = match target.kind {
            TargetKind::ReportQueue => write::<ReportQueue>(&person, target, wish, now).await,
            TargetKind::ReportSchedule => write::<ReportSchedule>(&person, target, wish, now).await,
            _ => write::<MaintenanceSchedule>(&person, target, wish, now).await,
        }?;
        output::print(form, &answer, || sentences(&answer))?;
        Ok(DONE)
    })
}

async fn write<K: Brake>(
    person: &Person,
    target: &Target,
    wish: &Wish,
    now: Timestamp,
) -> Result<Answer, CliError> {
    act(person, &target.name, |seen: &K| Ok(decide(seen, target, wish, now))).await
}

/// What can be paused.
trait Brake: Object {
    /// How it is paused at a moment.
    fn paused(&self, now: Timestamp) -> Option<Paused>;
    /// How a wish would pause it.
    fn mode(close: bool) -> Mode;
    /// The patch that makes it so.
    fn patch(paused: Option<&Paused>) -> Value;
    /// What it means that it is paused like this, or not, from `now` on.
    fn meaning(&self, paused: Option<&Paused>, now: Timestamp) -> String;
}

/// Schedules; a macro, because the operator's trait of schedules cannot be given another one.
macro_rules! brake_of_schedules {
    ($($kind:ty),*) => {$(
        impl Brake for $kind {
            fn paused(&self, now: Timestamp) -> Option<Paused> {
                let timing = self.timing();
                let over = timing.suspend_until_time.is_some_and(|until| until <= now);
                (timing.suspend && !over).then(|| Paused {
                    mode: Mode::Suspended,
                    reason: timing.suspend_reason.map(ToOwned::to_owned),
                    until: timing.suspend_until_time.map(Time),
                })
            }

            fn mode(_close: bool) -> Mode {
                Mode::Suspended
            }

            fn patch(paused: Option<&Paused>) -> Value {
                json!({"spec": {
                    "suspend": paused.is_some(),
                    "suspendReason": paused.and_then(|p| p.reason.as_deref()),
                    "suspendUntilTime": paused.and_then(|p| p.until),
                }})
            }

            fn meaning(&self, paused: Option<&Paused>, now: Timestamp) -> String {
                schedule_meaning(self, paused, now)
            }
        }
    )*};
}
brake_of_schedules!(MaintenanceSchedule, ReportSchedule);

/// What it means for a schedule, with its next instant.
fn schedule_meaning<S: Kind>(schedule: &S, paused: Option<&Paused>, now: Timestamp) -> String {
    let status = schedule.status().cloned().unwrap_or_default();
    let next = |from: Timestamp| {
        let expression = plan_input(schedule, &status).to_schedule(now).ok()?;
        expression.next_after(from)
    };
    let say = |next: Option<IntendedTime>| {
        next.map_or_else(|| "; no instant comes".to_owned(), |at| format!("; the next one is {at}"))
    };
    match paused {
        Some(Paused { until, .. }) => {
            // An instant at the very end is no longer skipped.
            let then = until.map(|until| until.0 - SignedDuration::from_secs(1));
            let next = then.map(|from| say(next(from))).unwrap_or_default();
            let active = status.active.filter(|active| *active > 0);
            let goes_on = active.map_or_else(
                || "what already exists is not touched".to_owned(),
                |active| format!("what already exists is not touched ({active} active)"),
            );
            format!("instants are skipped, with reason Suspended; {goes_on}{next}")
        }
        None => {
            format!("new instants run again, and those that passed are not run{}", say(next(now)))
        }
    }
}

impl Brake for ReportQueue {
    fn paused(&self, now: Timestamp) -> Option<Paused> {
        let mode = match policy(&self.spec, now) {
            AdmissionPolicy::Open => return None,
            AdmissionPolicy::Hold => Mode::Hold,
            AdmissionPolicy::Closed => Mode::Closed,
        };
        let reason = self.spec.admission_reason.clone();
        Some(Paused { mode, reason, until: self.spec.admission_until_time })
    }

    fn mode(close: bool) -> Mode {
        if close { Mode::Closed } else { Mode::Hold }
    }

    fn patch(paused: Option<&Paused>) -> Value {
        let admission = match paused.map(|paused| paused.mode) {
            None | Some(Mode::Suspended) => AdmissionPolicy::Open,
            Some(Mode::Hold) => AdmissionPolicy::Hold,
            Some(Mode::Closed) => AdmissionPolicy::Closed,
        };
        json!({"spec": {
            "admission": admission,
            "admissionReason": paused.and_then(|p| p.reason.as_deref()),
            "admissionUntilTime": paused.and_then(|p| p.until),
        }})
    }

    fn meaning(&self, paused: Option<&Paused>, _now: Timestamp) -> String {
        let status = self.status.clone().unwrap_or_default();
        let waiting = status.waiting.unwrap_or(0);
        match paused.map(|paused| paused.mode) {
            Some(Mode::Closed) => {
                format!(
                    "new reports are Rejected with reason QueueClosed; {waiting} that wait still run"
                )
            }
            Some(_) => format!(
                "nothing new starts ({waiting} wait); new reports are accepted up to the limits, and \
                 what runs goes on"
            ),
            None if status.admissions == Some(Admissions::Paused) => format!(
                "people no longer hold it back, but the operator does: {}. It opens by itself",
                status.message.or(status.reason).unwrap_or_default()
            ),
            None => format!("reports are accepted and started; {waiting} wait"),
        }
    }
}

fn decide<K: Brake>(seen: &K, target: &Target, wish: &Wish, now: Timestamp) -> Decision<Answer> {
    let before = seen.paused(now);
    let wanted = match wish {
        Wish::Resume => None,
        Wish::Pause { reason, until, close } => {
            let (old_reason, old_until) =
                before.clone().map_or((None, None), |paused| (paused.reason, paused.until));
            Some(Paused {
                mode: K::mode(*close),
                reason: reason.clone().or(old_reason),
                until: until.map(Time).or(old_until),
            })
        }
    };
    let changed = wanted != before;
    let answer = Answer {
        object: target.to_string(),
        namespace: ObjectKey::of(seen.meta()).namespace,
        next: seen.meaning(wanted.as_ref(), now),
        paused: wanted,
        changed,
    };
    if changed {
        Decision::Write(K::patch(answer.paused.as_ref()), answer)
    } else {
        Decision::Say(answer)
    }
}

/// The answer for people.
fn sentences(answer: &Answer) -> String {
    let Answer { object, paused, changed, next, .. } = answer;
    let already = if *changed { "" } else { "already " };
    match paused {
        None if *changed => format!("{object} is resumed: {next}.\n"),
        None => format!("{object} is not paused: {next}.\n"),
        Some(Paused { mode, reason, until }) => {
            let mode = match mode {
                Mode::Suspended => "paused".to_owned(),
                mode => format!("paused ({mode:?})"),
            };
            let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
            let note = reason.as_deref().map(|note| format!(", \"{note}\"")).unwrap_or_default();
            format!("{object} is {already}{mode}{until}{note}: {next}.\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-29T02:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn schedule(spec: &Value) -> MaintenanceSchedule {
        let mut object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {"name": "n", "namespace": "docs"},
            "spec": {"schedule": "0 4 * * *", "run": {"simulated": {}}},
            "status": {"active": 1},
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn queue(spec: &Value, status: &Value) -> ReportQueue {
        let mut object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
            "metadata": {"name": "q", "namespace": "docs"}, "spec": {"slots": 1}, "status": status,
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn pause(reason: Option<&str>, until: Option<&str>, close: bool) -> Wish {
        Wish::Pause { reason: reason.map(ToOwned::to_owned), until: until.map(at), close }
    }

    fn decided<K: Brake>(seen: &K, wish: &Wish) -> (Option<Value>, String) {
        let target = Target { kind: TargetKind::ReportQueue, name: "q".to_owned() };
        match decide(seen, &target, wish, at(NOW)) {
            Decision::Say(answer) => (None, sentences(&answer)),
            Decision::Write(patch, answer) => (Some(patch["spec"].clone()), sentences(&answer)),
        }
    }

    #[test]
    fn a_schedule_is_paused_with_a_note_and_an_end() {
        let wish = pause(Some("migration"), Some("2026-11-29T06:00:00Z"), false);
        let (patch, said) = decided(&schedule(&json!({})), &wish);
        assert_eq!(
            patch,
            Some(json!({
                "suspend": true, "suspendReason": "migration",
                "suspendUntilTime": "2026-11-29T06:00:00Z",
            }))
        );
        assert!(said.contains("paused until 2026-11-29T06:00:00Z, \"migration\""), "{said}");
        assert!(said.contains("1 active") && said.contains("2026-11-30T04:00:00Z"), "{said}");
    }

    #[test]
    fn paused_again_it_keeps_what_is_not_given_anew() {
        let paused = json!({
            "suspend": true, "suspendReason": "audit", "suspendUntilTime": "2026-11-29T06:00:00Z",
        });
        assert_eq!(decided(&schedule(&paused), &pause(None, None, false)).0, None);
        let (patch, _) = decided(&schedule(&paused), &pause(Some("other"), None, false));
        let patch = patch.unwrap();
        assert_eq!(patch["suspendReason"], "other");
        assert_eq!(patch["suspendUntilTime"], "2026-11-29T06:00:00Z");
        // It resumed by itself: what is left of that is taken away.
        let over = json!({
            "suspend": true, "suspendReason": "audit", "suspendUntilTime": "2026-11-29T01:00:00Z",
        });
        let (patch, _) = decided(&schedule(&over), &pause(None, None, false));
        let patch = patch.unwrap();
        assert_eq!(
            (&patch["suspendReason"], &patch["suspendUntilTime"]),
            (&json!(null), &json!(null))
        );
    }

    #[test]
    fn what_is_resumed_says_when_it_runs_next() {
        let paused = schedule(&json!({"suspend": true, "suspendReason": "audit"}));
        let (patch, said) = decided(&paused, &Wish::Resume);
        assert_eq!(
            patch,
            Some(json!({"suspend": false, "suspendReason": null, "suspendUntilTime": null}))
        );
        assert!(said.contains("resumed") && said.contains("2026-11-29T04:00:00Z"), "{said}");
        let (patch, said) = decided(&schedule(&json!({})), &Wish::Resume);
        assert!(patch.is_none() && said.contains("not paused"), "{said}");
    }

    #[test]
    fn a_queue_is_held_or_closed_and_opened() {
        let open = queue(&json!({}), &json!({"waiting": 4}));
        let (patch, said) = decided(&open, &pause(None, None, false));
        assert_eq!(patch.unwrap()["admission"], "Hold");
        assert!(said.contains("nothing new starts (4 wait)"), "{said}");
        let (patch, said) = decided(&open, &pause(Some("end"), None, true));
        assert_eq!(patch.unwrap()["admission"], "Closed");
        assert!(said.contains("QueueClosed"), "{said}");
        let held = queue(&json!({"admission": "Hold", "admissionReason": "a"}), &json!({}));
        assert_eq!(decided(&held, &pause(None, None, false)).0, None);
        assert_eq!(decided(&held, &pause(None, None, true)).0.unwrap()["admission"], "Closed");
        let opened = decided(&held, &Wish::Resume).0.unwrap();
        assert_eq!(opened["admission"], "Open");
        assert_eq!(opened["admissionReason"], json!(null));
        let recovering =
            json!({"admissions": "Paused", "message": "2 entries are not accounted for"});
        let (_, said) = decided(&queue(&json!({"admission": "Hold"}), &recovering), &Wish::Resume);
        assert!(said.contains("the operator does: 2 entries"), "{said}");
    }
}
