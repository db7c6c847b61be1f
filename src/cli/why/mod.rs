//! `punctual why`: what happened to an object, why, what happens next, and what a person can do.
//!
//! What is read is gathered once, by get and list alone; [`explain`] makes the answer from it and is
//! pure. Where the operator decides by pure code, the same code is asked here: the plan of a
//! schedule, the order of admission of a queue. So the answer cannot differ from what is done.

use super::{
    CliError, DONE, output,
    target::{Connection, Output, TargetKind, block_on},
};
use crate::{
    cluster::ObjectKey,
    time::{IntendedTime, WallClock},
};

mod answer;
mod ask;
mod blocker;
mod commands;
mod events;
mod explain;
mod instant;
mod occurrence;
mod queue;
pub(super) mod read;
mod report;
mod run;
mod schedule;
pub(super) mod snapshot;
mod terms;
#[cfg(test)]
mod tests;
mod trace;
mod waiting;
mod words;

pub(super) use answer::{from_now, second, span};
pub(super) use commands::Target;
pub(super) use terms::pod;

/// Arguments of `punctual why`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl punctual why mocc/nightly-retention-202611290200 -n docs
  kubectl punctual why msched/nightly-retention --at 2026-11-29T02:00:00Z
  kubectl punctual why rjob/acme-usage-2026-11 -o json

It only reads (get and list). Exit codes: 0 answered, 1 there is no such object or it cannot be read,
2 bad usage.")]
pub struct Args {
    /// What to explain, as KIND/NAME with mocc, msched, rjob, rqueue, rsched or rtrace.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    /// An instant of a schedule, a whole minute: why it ran, is to run, or was not run.
    #[arg(long, value_name = "TIME", value_parser = instant_of)]
    at: Option<IntendedTime>,
    #[command(flatten)]
    lease: read::LeasePlace,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

fn instant_of(text: &str) -> Result<IntendedTime, String> {
    IntendedTime::parse_lenient(text).map_err(|error| error.to_string())
}

/// Runs `punctual why`.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let (subject, name) = ask::parse(&args.object)?;
    if args.at.is_some()
        && !matches!(subject, TargetKind::MaintenanceSchedule | TargetKind::ReportSchedule)
    {
        return Err(CliError::BadUsage(format!(
            "--at goes with a schedule, like msched/NAME; {} is a {}",
            args.object,
            subject.kind()
        )));
    }
    block_on(async {
        let person = args.connection.connect().await?;
        let key = ObjectKey::new(person.namespace(), name);
        let now = WallClock::system().now();
        let question = read::Question { subject, key, at: args.at, now };
        let snapshot = read::gather(&person, question, &args.lease).await?;
        let answer = explain::explain(&snapshot).map_err(CliError::Failed)?;
        output::print(args.output, &answer, || answer.text(snapshot.now))?;
        Ok(DONE)
    })
}
