//! `punctual trigger` and `punctual backfill`: occurrences made by hand.
//!
//! They have the same identity as those that the operator makes, so asking for an instant that is
//! over gives its recorded result and runs nothing.

use std::{collections::BTreeMap, fmt::Write as _};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    CliError, DONE, NO, output,
    progress::Progress,
    target::{Connection, Output, Target, TargetKind, block_on, find, read},
    trouble::Call,
};
use crate::{
    api::{
        LABEL_SCHEDULE, MaintenanceOccurrence, MaintenanceOccurrenceSpec, MaintenanceSchedule,
        OccurrenceState, ResultValue,
    },
    cluster::{Created, ObjectKey, Person},
    identity::occurrence_name,
    schedules::plan_input,
    time::{IntendedTime, WallClock},
};

/// Most occurrences that one backfill creates: each of them runs.
const MAX_BACKFILL: usize = 1000;

/// Arguments of `punctual trigger`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Run it now, beside its plan.
  kubectl punctual trigger msched/nightly-retention
  # Run an instant that was skipped; if it ran, print its recorded result.
  kubectl punctual trigger msched/nightly-retention --at 2026-11-29T02:00:00Z

Exit codes: 0 created, or it exists and has not failed; 1 it ended otherwise than with success, or
something is wrong; 2 bad usage.")]
pub struct Args {
    /// The schedule, like msched/nightly-retention.
    schedule: String,
    /// The instant to run, a whole minute; default: the present one.
    #[arg(long, value_parser = instant)]
    at: Option<IntendedTime>,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// Arguments of `punctual backfill`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What would be created.
  kubectl punctual backfill msched/hourly-usage --from 2026-11-28T00:00:00Z --to 2026-11-28T23:59:00Z --dry-run
  # Create it.
  kubectl punctual backfill msched/hourly-usage --from 2026-11-28T00:00:00Z --to 2026-11-28T23:59:00Z

At most 1000 instants at a time, one after the other. If one cannot be created it stops, and prints
what it did; the same command goes on, for what exists is not created again.

Exit codes: 0 done; 1 one that existed ended otherwise than with success, or something is wrong; 2 bad
usage.")]
pub struct BackfillArgs {
    /// The schedule, like msched/nightly-retention.
    schedule: String,
    /// Start of the time whose instants are run.
    #[arg(long, value_parser = moment)]
    from: Timestamp,
    /// End of it, included.
    #[arg(long, value_parser = moment)]
    to: Timestamp,
    /// Only print what would be created.
    #[arg(long)]
    dry_run: bool,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

fn instant(text: &str) -> Result<IntendedTime, String> {
    IntendedTime::parse_lenient(text).map_err(|error| error.to_string())
}

fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| format!("{text:?} is not a time like 2026-11-29T02:00:00Z"))
}

/// What became of one request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    name: String,
    namespace: String,
    intended_time: IntendedTime,
    /// Whether the occurrence existed before.
    existing: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<OccurrenceState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<BTreeMap<String, ResultValue>>,
}

impl Answer {
    fn of(occurrence: MaintenanceOccurrence, existing: bool) -> Self {
        let key = ObjectKey::of(&occurrence.metadata);
        let status = occurrence.status.unwrap_or_default();
        Self {
            name: key.name,
            namespace: key.namespace,
            intended_time: occurrence.spec.intended_time,
            existing,
            state: status.state,
            reason: status.reason,
            message: status.message,
            result: status.result,
        }
    }

    /// Whether the recorded result is anything but success.
    fn is_bad_end(&self) -> bool {
        self.existing
            && self
                .state
                .is_some_and(|state| state.is_terminal() && state != OccurrenceState::Succeeded)
    }

    /// For people: the sentence with `more` behind it, and of one that exists what is recorded.
    fn text(&self, more: &str) -> String {
        let mut text = format!("{}{more}\n", self.sentence());
        if !self.existing {
            return text;
        }
        if let Some(message) = self.message.as_ref().filter(|message| !message.is_empty()) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  message: {message}");
        }
        if let Some(result) = self.result.as_ref().filter(|result| !result.is_empty()) {
            let values = result.iter().map(|(key, value)| match value {
                ResultValue::Text(text) => format!("{key}={text}"),
                ResultValue::Integer(number) => format!("{key}={number}"),
            });
            let _ = writeln!(text, "  result: {}", values.collect::<Vec<_>>().join(", "));
        }
        text
    }

    fn sentence(&self) -> String {
        let state = self.state.map_or_else(|| "Pending".to_owned(), |state| format!("{state:?}"));
        let reason = self.reason.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
        if self.existing {
            format!("mocc/{} exists: {state}{reason}", self.name)
        } else {
            format!("mocc/{} created", self.name)
        }
    }
}

/// Runs `punctual trigger`.
pub fn run(args: &Args) -> Result<u8, CliError> {
    block_on(async {
        let target = Target::parse(&args.schedule, &[TargetKind::MaintenanceSchedule])?;
        let person = args.connection.connect().await?;
        let schedule: MaintenanceSchedule = read(&person, &target.name).await?;
        let at = args.at.unwrap_or_else(|| IntendedTime::floor(WallClock::system().now()));
        let answer = create(&person, &schedule, at).await?;
        output::print(args.output, &answer, || answer.text(""))?;
        Ok(if answer.is_bad_end() { NO } else { DONE })
    })
}

/// Runs `punctual backfill`.
pub fn backfill(args: &BackfillArgs) -> Result<u8, CliError> {
    block_on(async {
        let target = Target::parse(&args.schedule, &[TargetKind::MaintenanceSchedule])?;
        if args.to < args.from {
            return Err(CliError::BadUsage("--to is before --from; swap them".to_owned()));
        }
        let person = args.connection.connect().await?;
        let schedule: MaintenanceSchedule = read(&person, &target.name).await?;
        let instants = instants(&schedule, args.from, args.to)?;
        let (person, schedule) = (&person, &schedule);
        let filled = each(&instants, async |at| {
            if args.dry_run {
                look_up(person, schedule, at).await
            } else {
                create(person, schedule, at).await
            }
        })
        .await;
        filled.report(args)
    })
}

/// How far a backfill came.
struct Backfilled {
    answers: Vec<Answer>,
    /// How many instants there are.
    total: usize,
    /// Why it stopped before the last.
    stopped: Option<CliError>,
}

/// Does the same with one instant after the other, up to the first that fails.
async fn each(
    instants: &[IntendedTime],
    act: impl AsyncFn(IntendedTime) -> Result<Answer, CliError>,
) -> Backfilled {
    let total = instants.len();
    let mut filled = Backfilled { answers: Vec::new(), total, stopped: None };
    let mut progress = Progress::new(total as u64);
    for &at in instants {
        progress.at(&at.to_string());
        match act(at).await {
            Ok(answer) => filled.answers.push(answer),
            Err(error) => {
                filled.stopped = Some(error);
                break;
            }
        }
    }
    progress.done();
    filled
}

impl Backfilled {
    /// Prints what was done, also if it was not all.
    fn report(self, args: &BackfillArgs) -> Result<u8, CliError> {
        if self.stopped.is_none() || !self.answers.is_empty() {
            output::print(args.output, &self.answers, || self.text(args.dry_run))?;
        }
        let bad = self.answers.iter().any(Answer::is_bad_end);
        match self.stopped_at() {
            Some(error) => Err(error),
            None => Ok(if bad { NO } else { DONE }),
        }
    }

    fn text(&self, dry_run: bool) -> String {
        let line = |answer: &Answer| {
            let would = dry_run && !answer.existing;
            answer.text(if would { " (dry run: not created)" } else { "" })
        };
        let lines: String = self.answers.iter().map(line).collect();
        let done = self.answers.len();
        match self.stopped {
            None => format!("{lines}{done} instants\n"),
            Some(_) => format!("{lines}{done} of {} instants\n", self.total),
        }
    }

    /// Why it stopped, and how to go on.
    fn stopped_at(self) -> Option<CliError> {
        let (done, total) = (self.answers.len(), self.total);
        let words = |text: String| {
            if done == 0 {
                return text;
            }
            let text = text.trim_end_matches('.');
            format!(
                "{text}. It stopped after {done} of {total} instants; the same command goes on: what exists is not created again"
            )
        };
        self.stopped.map(|error| match error {
            CliError::BadUsage(text) => CliError::BadUsage(words(text)),
            CliError::Failed(text) => CliError::Failed(words(text)),
        })
    }
}

/// The instants of the schedule within the time, both ends included.
fn instants(
    schedule: &MaintenanceSchedule,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<IntendedTime>, CliError> {
    let input = plan_input(schedule, &schedule.status.clone().unwrap_or_default());
    let parsed = input
        .to_schedule(from)
        .map_err(|error| CliError::Failed(format!("the schedule cannot be used: {error}")))?;
    let mut found = Vec::new();
    let mut after = Timestamp::from_second(from.as_second() - 1)
        .map_err(|error| CliError::BadUsage(format!("--from: {error}")))?;
    while let Some(next) = parsed.next_after(after).filter(|next| next.timestamp() <= to) {
        if found.len() == MAX_BACKFILL {
            return Err(CliError::BadUsage(format!(
                "there are more than {MAX_BACKFILL} instants from --from to --to; take a shorter time"
            )));
        }
        found.push(next);
        after = next.timestamp();
    }
    Ok(found)
}

fn by_hand(schedule: &MaintenanceSchedule, at: IntendedTime) -> MaintenanceOccurrence {
    let key = ObjectKey::of(&schedule.metadata);
    let mut occurrence = MaintenanceOccurrence::new(
        &occurrence_name(&key.name, at),
        MaintenanceOccurrenceSpec {
            schedule_name: key.name.clone(),
            intended_time: at,
            schedule_uid: None,
            run: None,
            cancel: false,
            resolution: None,
        },
    );
    occurrence.metadata.namespace = Some(key.namespace);
    occurrence.metadata.labels = Some(BTreeMap::from([(LABEL_SCHEDULE.to_owned(), key.name)]));
    occurrence
}

async fn create(
    person: &Person,
    schedule: &MaintenanceSchedule,
    at: IntendedTime,
) -> Result<Answer, CliError> {
    let call = Call::of::<MaintenanceOccurrence>("create", person);
    match person.create(&by_hand(schedule, at)).await.map_err(|error| call.failed(error))? {
        Created::New(occurrence) => Ok(Answer::of(occurrence, false)),
        Created::Existing(occurrence) => Ok(Answer::of(occurrence, true)),
    }
}

/// What `create` would find, without creating.
async fn look_up(
    person: &Person,
    schedule: &MaintenanceSchedule,
    at: IntendedTime,
) -> Result<Answer, CliError> {
    let wanted = by_hand(schedule, at);
    let key = ObjectKey::of(&wanted.metadata);
    Ok(match find::<MaintenanceOccurrence>(person, &key.name).await? {
        Some(occurrence) => Answer::of(occurrence, true),
        None => Answer::of(wanted, false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(expression: &str) -> MaintenanceSchedule {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {"name": "s", "namespace": "d", "creationTimestamp": "2026-01-01T00:00:30Z"},
            "spec": {"schedule": expression, "run": {"simulated": {}}},
        }))
        .unwrap()
    }

    #[test]
    fn a_backfill_includes_both_ends_and_is_bounded() {
        let all = instants(
            &schedule("0 * * * *"),
            "2026-01-01T01:00:00Z".parse().unwrap(),
            "2026-01-01T03:00:00Z".parse().unwrap(),
        )
        .unwrap();
        assert_eq!(
            all.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"]
        );
        let too_many = instants(
            &schedule("* * * * *"),
            "2026-01-01T00:00:00Z".parse().unwrap(),
            "2026-01-02T00:00:00Z".parse().unwrap(),
        );
        assert!(too_many.unwrap_err().to_string().contains("1000"));
    }

    #[test]
    fn hand_made_ones_have_the_same_identity_and_carry_no_run() {
        let made = by_hand(&schedule("0 * * * *"), "2026-01-01T01:00:00Z".parse().unwrap());
        assert_eq!(made.metadata.name.as_deref(), Some("s-202601010100"));
        assert!(made.spec.schedule_uid.is_none() && made.spec.run.is_none());
    }

    fn answer(at: IntendedTime, existing: bool, status: &serde_json::Value) -> Answer {
        let mut occurrence = by_hand(&schedule("0 * * * *"), at);
        occurrence.status = serde_json::from_value(status.clone()).unwrap();
        Answer::of(occurrence, existing)
    }

    #[test]
    fn what_exists_is_printed_with_what_is_recorded_of_it() {
        let at = "2026-01-01T01:00:00Z".parse().unwrap();
        let status = serde_json::json!({
            "state": "Failed", "reason": "ExitCode", "message": "exit code 3",
            "result": {"rows": 3, "file": "a.csv"},
        });
        assert_eq!(
            answer(at, true, &status).text(""),
            "mocc/s-202601010100 exists: Failed (ExitCode)\n  message: exit code 3\n  result: file=a.csv, rows=3\n"
        );
        let none = serde_json::Value::Null;
        let new = answer(at, false, &none).text(" (dry run: not created)");
        assert_eq!(new, "mocc/s-202601010100 created (dry run: not created)\n");
        assert_eq!(answer(at, true, &none).text(""), "mocc/s-202601010100 exists: Pending\n");
    }

    #[tokio::test]
    async fn a_backfill_that_fails_midway_says_what_it_did_and_how_to_go_on() {
        let all: Vec<IntendedTime> = ["01", "02", "03", "04"]
            .map(|hour| format!("2026-01-01T{hour}:00:00Z").parse().unwrap())
            .into();
        let fails_from = async |failing: usize| {
            let fails = all.get(failing).copied();
            each(&all, async |at| {
                if fails.is_some_and(|fails| at >= fails) {
                    return Err(CliError::Failed("exceeded quota".to_owned()));
                }
                Ok(answer(at, false, &serde_json::Value::Null))
            })
            .await
        };
        let whole = fails_from(4).await;
        assert!(whole.text(false).ends_with("\n4 instants\n"), "{}", whole.text(false));
        assert!(whole.stopped_at().is_none());
        let part = fails_from(2).await;
        let text = part.text(false);
        assert_eq!(
            text,
            "mocc/s-202601010100 created\nmocc/s-202601010200 created\n2 of 4 instants\n"
        );
        let error = part.stopped_at().unwrap();
        assert_eq!(error.code(), NO);
        let error = error.to_string();
        assert!(error.starts_with("exceeded quota. It stopped after 2 of 4 instants;"), "{error}");
        let none = fails_from(0).await.stopped_at().unwrap().to_string();
        assert_eq!(none, "exceeded quota", "nothing was done");
    }
}
