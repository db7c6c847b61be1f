//! `punctual plan`: what the operator would do with a schedule at a moment, without a cluster.

use std::{fmt::Write as _, path::PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::{CliError, DONE, input, output, target::Output};
use crate::time::{
    IntendedTime, SkippedRange, WallClock,
    manifest::parse_time,
    plan::{PlanInput, SchedulePlan, plan},
};

/// Arguments of `punctual plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File with a schedule and its status, as `kubectl get -o yaml` shows it; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// The moment to plan at [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    now: Option<Timestamp>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The answer for scripts.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    run: &'a [IntendedTime],
    skipped: &'a [SkippedRange],
    next: Option<IntendedTime>,
}

/// Prints the plan.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let now = args.now.unwrap_or_else(|| WallClock::system().now());
    let manifest = input::read_manifest(&args.file)?;
    let refused = |error: String| CliError::BadUsage(format!("{}: {error}", args.file.display()));
    let input = PlanInput::from_manifest(&manifest).map_err(|error| refused(error.to_string()))?;
    let plan = plan(&input, now).map_err(|error| refused(error.to_string()))?;
    let answer = Answer { run: &plan.run, skipped: &plan.skipped, next: plan.next };
    output::print(args.output, &answer, || for_people(&plan, now))?;
    Ok(DONE)
}

/// The plan in words.
fn for_people(plan: &SchedulePlan, now: Timestamp) -> String {
    let mut text = format!("At {now}:\n");
    let mut line = |head: &str, what: &str| {
        let _ = writeln!(text, "  {head:<8} {what}"); // writing to a String cannot fail
    };
    if plan.run.is_empty() {
        line("run", "nothing");
    }
    for at in &plan.run {
        line("run", &at.to_string());
    }
    for range in &plan.skipped {
        let SkippedRange { from, to, count, reason } = range;
        let when = if count == &1 {
            from.to_string()
        } else {
            format!("{from} to {to}, {count} instants")
        };
        line("skip", &format!("{when}: {}", reason.as_str()));
    }
    match (plan.suspended_time, plan.next) {
        (Some(since), None) => line("next", &format!("none, suspended since {since}")),
        (Some(since), Some(next)) => {
            line("next", &format!("{next}, suspended since {since} until then"));
        }
        (None, None) if plan.never_fires => line("next", "never, no date of the calendar matches"),
        (None, None) => line("next", "none within 20 years"),
        (None, Some(next)) => line("next", &next.to_string()),
    }
    text
}
