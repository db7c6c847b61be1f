//! The command line: one file a subcommand.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod audit;
pub mod convert;
pub mod crds;
pub mod drill;
pub mod fakeprovider;
pub mod input;
pub mod next;
pub mod output;
pub mod plan;
pub mod run;
pub mod status;
pub mod target;
pub mod trigger;
pub mod version;
pub mod why;

/// Scheduled work that happens once, on time and explainably.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look for work that ran more than once; reads only.
    Audit(audit::Args),
    /// Run every instant of a time, as occurrences made by hand.
    Backfill(trigger::BackfillArgs),
    /// Make a schedule of a CronJob, with comments on what differs; with --check, list the instants at
    /// which only one of them would run.
    Convert(convert::Args),
    /// Print the CustomResourceDefinitions as YAML.
    Crds(crds::Args),
    /// Rehearse on a model: scenario files, a restart of everything, or random histories.
    Drill(drill::Args),
    /// Serve as an execution service that executes nothing, for tests of run.http.
    FakeProvider(fakeprovider::Args),
    /// List the next instants of a schedule, with local times and what clock changes do to them.
    Next(next::Args),
    /// Show what the operator would run and skip with a schedule at a moment; reads the cluster only
    /// with --cluster.
    Plan(plan::Args),
    /// Run the operator.
    Run(Box<run::Args>),
    /// Show who leads, what needs a person, and how schedules and queues stand; reads only.
    Status(status::Args),
    /// Run one instant of a schedule, as an occurrence made by hand.
    Trigger(trigger::Args),
    /// Print the version of this program.
    Version(version::Args),
    /// Explain an object: what happened, why, what happens next, what you can do; reads only.
    Why(why::Args),
}

/// Exit code: done.
pub const DONE: u8 = 0;
/// Exit code: the answer is "no" (an expectation failed, something is wrong).
pub const NO: u8 = 1;
/// Exit code: bad usage or a bad file.
pub const BAD_USAGE: u8 = 2;
/// Exit code: duplicates found.
pub const DUPLICATES: u8 = 3;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The user gave something that cannot be used: exit code 2.
    #[error("{0}")]
    BadUsage(String),
    /// The answer is "no", or something is wrong: exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    /// The process's exit code for this error.
    pub fn code(&self) -> u8 {
        match self {
            Self::BadUsage(_) => BAD_USAGE,
            Self::Failed(_) => NO,
        }
    }
}

/// Runs the command line and returns the process's exit code.
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Audit(args) => audit::run(&args),
        Command::Backfill(args) => trigger::backfill(&args),
        Command::Trigger(args) => trigger::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Drill(args) => drill::run(&args),
        Command::FakeProvider(args) => fakeprovider::run(&args),
        Command::Next(args) => next::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Run(args) => run::run(*args),
        Command::Status(args) => status::run(&args),
        Command::Version(args) => version::run(&args),
        Command::Why(args) => why::run(&args),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("punctual: {error}");
            ExitCode::from(error.code())
        }
    }
}
