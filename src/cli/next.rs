//! `punctual next`: the next instants of a schedule, with local times.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::{
    CliError, DONE, input, output,
    target::{Connection, Output, SCHEDULES, Target, TargetKind, block_on, read},
};
use crate::{
    api::{MaintenanceSchedule, ReportSchedule},
    cluster::Object,
    schedules::{Kind, plan_input},
    time::{
        DstPolicy, IntendedTime, Schedule, ScheduleError, WallClock,
        manifest::parse_time,
        plan::{DEFAULT_TIME_ZONE, PlanInput},
    },
};

/// Most instants that one call lists: a week of every minute, and a second of work.
const MAX_COUNT: u64 = 10_080;

/// Arguments of `punctual next`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What a cron expression means, without a cluster.
  kubectl punctual next --schedule '30 2 * * *' --time-zone Europe/Berlin --from 2026-10-24T00:00:00Z
  # Of a schedule of the cluster, or of a file.
  kubectl punctual next msched/nightly-retention --count 3
  kubectl punctual next -f schedule.yaml -o json

Exit codes: 0 done; 1 something is wrong; 2 an expression or zone that is refused, or bad usage.")]
pub struct Args {
    /// A schedule of the cluster, like msched/nightly-retention or rsched/monthly-invoices.
    #[arg(value_name = "SCHEDULE", conflicts_with_all = ["schedule", "file", "time_zone", "dst_policy", "anchor"])]
    target: Option<String>,
    /// Cron expression as in a CronJob, for example "0 2 * * *", "@daily" or "@every 90m".
    #[arg(long, value_name = "EXPR", required_unless_present_any = ["file", "target"], allow_hyphen_values = true)]
    schedule: Option<String>,
    /// File with a schedule, in place of the expression; `-` is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["schedule", "time_zone", "dst_policy", "anchor"])]
    file: Option<PathBuf>,
    /// IANA time zone, spelt exactly [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// What happens when clocks change: Once or CronJob [default: Once]
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    dst_policy: Option<DstPolicy>,
    /// Start of the grid of `@every` [default: --from, cut to the minute]
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    anchor: Option<IntendedTime>,
    /// List instants strictly after this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<Timestamp>,
    /// How many instants to list.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=MAX_COUNT))]
    count: u64,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// Reads a policy for clock changes.
pub(super) fn parse_policy(text: &str) -> Result<DstPolicy, String> {
    match text {
        "Once" => Ok(DstPolicy::Once),
        "CronJob" => Ok(DstPolicy::CronJob),
        _ => Err("must be Once or CronJob".to_owned()),
    }
}

fn parse_instant(text: &str) -> Result<IntendedTime, String> {
    IntendedTime::new(parse_time(text)?).map_err(|error| error.to_string())
}

/// One instant of the answer.
#[derive(Debug, Serialize)]
struct Listed {
    utc: IntendedTime,
    local: String,
    note: String,
}

/// Prints the next instants.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let from = args.from.unwrap_or_else(|| WallClock::system().now());
    let schedule = schedule(args, from)?;
    let mut previous = from;
    let mut listed = Vec::new();
    for utc in schedule.between(from, Timestamp::MAX).take(usize::try_from(args.count).unwrap_or(1))
    {
        let note = schedule.note(previous, utc);
        listed.push(Listed { utc, local: schedule.local_time(utc), note });
        previous = utc.timestamp();
    }
    output::print(args.output, &listed, || {
        if listed.is_empty() {
            let why = if schedule.never_fires() {
                "never: no date of the calendar matches this expression"
            } else {
                "none within the next 20 years"
            };
            return format!("{why}\n");
        }
        let rows: Vec<[String; 3]> =
            listed.iter().map(|l| [l.utc.to_string(), l.local.clone(), l.note.clone()]).collect();
        output::table(["UTC", "LOCAL", "NOTE"], &rows)
    })?;
    Ok(DONE)
}

/// The schedule of the arguments, of the file or of the cluster.
fn schedule(args: &Args, from: Timestamp) -> Result<Schedule, CliError> {
    if let Some(target) = &args.target {
        return on_cluster(target, &args.connection, from);
    }
    if let Some(file) = &args.file {
        let manifest = input::read_manifest(file)?;
        let refused = |error: String| CliError::BadUsage(format!("{}: {error}", file.display()));
        let input = PlanInput::from_manifest(&manifest).map_err(|e| refused(e.to_string()))?;
        return input.to_schedule(from).map_err(|e| refused(e.to_string()));
    }
    let expression = args.schedule.as_deref().unwrap_or_default();
    let zone = args.time_zone.as_deref().unwrap_or(DEFAULT_TIME_ZONE);
    let anchor = args.anchor.unwrap_or_else(|| IntendedTime::floor(from));
    Schedule::parse(expression, zone, args.dst_policy.unwrap_or_default(), anchor).map_err(
        |error| {
            let flag = match &error {
                ScheduleError::Expression(_) => "--schedule",
                ScheduleError::TimeZone(_) => "--time-zone",
            };
            CliError::BadUsage(format!("{flag} {}", error.problem()))
        },
    )
}

/// The schedule of a live object.
fn on_cluster(
    target: &str,
    connection: &Connection,
    from: Timestamp,
) -> Result<Schedule, CliError> {
    block_on(async {
        let Target { kind, name } = Target::parse(target, &SCHEDULES)?;
        let input = match kind {
            TargetKind::ReportSchedule => live_input::<ReportSchedule>(connection, &name).await?,
            _ => live_input::<MaintenanceSchedule>(connection, &name).await?,
        };
        let refused = |error| CliError::Failed(format!("{target}: {error}"));
        input.to_schedule(from).map_err(refused)
    })
}

/// What the live schedule says to the plan.
async fn live_input<S: Kind + Object>(
    connection: &Connection,
    name: &str,
) -> Result<PlanInput, CliError> {
    let live: S = read(&connection.connect().await?, name).await?;
    Ok(plan_input(&live, &live.status().cloned().unwrap_or_default()))
}
