//! The command line: one file a subcommand.

use std::{path::Path, process::ExitCode, sync::OnceLock};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub mod act;
pub mod audit;
pub mod completion;
pub mod convert;
pub mod crds;
pub mod drill;
pub mod fakeprovider;
pub mod input;
pub mod logs;
pub mod next;
pub mod output;
pub mod plan;
mod progress;
pub mod run;
pub mod simulate;
pub mod status;
pub mod target;
pub mod trace;
pub mod trigger;
pub mod trouble;
pub mod version;
pub mod when;
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
    /// Ask for the end of an occurrence or a report; says what must be confirmed first.
    Cancel(act::cancel::Args),
    /// Print what a shell needs to complete this program's command line.
    Completion(completion::Args),
    /// Make a schedule of a CronJob, with comments on what differs; with --check, list the instants at
    /// which only one of them would run.
    Convert(convert::Args),
    /// Print the CustomResourceDefinitions as YAML.
    Crds(crds::Args),
    /// Rehearse on a model: scenario files, a restart of everything, or random histories.
    Drill(drill::Args),
    /// Serve as an execution service that executes nothing, for tests of run.http.
    FakeProvider(fakeprovider::Args),
    /// Print what the pod of an attempt wrote.
    Logs(logs::Args),
    /// List the next instants of a schedule, with local times and what clock changes do to them.
    Next(next::Args),
    /// Pause a schedule or a queue, with a note and an end.
    Pause(act::pause::PauseArgs),
    /// Show what the operator would run and skip with a schedule at a moment; reads the cluster only
    /// with --cluster.
    Plan(plan::Args),
    /// Decide about an attempt whose outcome nobody knows.
    Resolve(act::resolve::Args),
    /// Create a report again that its queue did not take.
    Resubmit(act::resubmit::Args),
    /// Take back a pause of a schedule or a queue.
    Resume(act::pause::ResumeArgs),
    /// Run the operator.
    Run(Box<run::Args>),
    /// Play a day of reports on a queue, with bursts, failures and many tenants, to choose its slots and
    /// limits; values with commas are compared.
    Simulate(Box<simulate::Args>),
    /// Show who leads, what needs a person, and how schedules and queues stand; reads only.
    Status(status::Args),
    /// Show what a leader found when it took over, and what of it needs a person.
    Trace(trace::Args),
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

/// The name under which kubectl looks for the command `kubectl punctual`.
const PLUGIN: &str = "kubectl-punctual";

/// The name of the file by which this program was called: `punctual` or one of those that kubectl
/// looks for.
fn file_name() -> &'static str {
    static CALLED: OnceLock<&str> = OnceLock::new();
    CALLED.get_or_init(|| {
        let called = std::env::args_os().next().unwrap_or_default();
        let stem = Path::new(&called).file_stem().unwrap_or_default();
        [PLUGIN, completion::COMPLETER].into_iter().find(|name| stem == *name).unwrap_or("punctual")
    })
}

/// What a person types to run this program, for help and for sentences that name a command.
fn program() -> &'static str {
    if file_name() == PLUGIN { "kubectl punctual" } else { "punctual" }
}

/// The command line.
fn command() -> clap::Command {
    Cli::command().bin_name(program())
}

/// Runs the command line and returns the process's exit code.
pub fn main() -> ExitCode {
    let outcome = if file_name() == completion::COMPLETER {
        completion::for_kubectl()
    } else {
        let cli = Cli::from_arg_matches(&command().get_matches());
        run_command(cli.unwrap_or_else(|error| error.exit()).command)
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{}: {error}", program());
            ExitCode::from(error.code())
        }
    }
}

fn run_command(command: Command) -> Result<u8, CliError> {
    match command {
        Command::Audit(args) => audit::run(&args),
        Command::Backfill(args) => trigger::backfill(&args),
        Command::Cancel(args) => act::cancel::run(&args),
        Command::Completion(args) => completion::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Pause(args) => act::pause::pause(&args),
        Command::Resolve(args) => act::resolve::run(&args),
        Command::Resubmit(args) => act::resubmit::run(&args),
        Command::Resume(args) => act::pause::resume(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Trigger(args) => trigger::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Drill(args) => drill::run(&args),
        Command::FakeProvider(args) => fakeprovider::run(&args),
        Command::Next(args) => next::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Run(args) => run::run(*args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Version(args) => version::run(&args),
        Command::Why(args) => why::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example_that_can_be_typed() {
        let mut all = command();
        all.build();
        let known = all.clone();
        let written = all.get_subcommands().filter(|one| one.get_name() != "help");
        let commands = written.flat_map(|one| {
            let below: Vec<_> = one.get_subcommands().filter(|b| b.get_name() != "help").collect();
            if below.is_empty() { vec![one] } else { below }
        });
        let mut examples = 0;
        for one in commands {
            let help = one.get_after_help().map(ToString::to_string).unwrap_or_default();
            let name = one.get_name();
            let (_, lines) = help
                .split_once("Examples:\n")
                .unwrap_or_else(|| panic!("{name} shows no examples: {help:?}"));
            let lines = lines.split("\n\n").next().unwrap_or_default().replace("\\\n", " ");
            // What is piped or written elsewhere is another program's.
            let parts = lines.lines().flat_map(|line| line.split(['|', '>'])).map(str::trim);
            let ours: Vec<&str> = parts.filter(|part| is_ours(part)).collect();
            let own = ours.iter().any(|line| line.contains(&format!(" {name}")));
            assert!(own, "{name}: none of its examples calls it: {help}");
            for line in ours {
                let words = words(line.trim_start_matches("kubectl "));
                let parsed = known.clone().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{name}: {words:?}: {}", parsed.unwrap_err());
                examples += 1;
            }
        }
        assert!(examples >= 30, "only {examples} examples were tried");
    }

    /// Whether a line of examples calls this program.
    fn is_ours(line: &str) -> bool {
        ["punctual ", "kubectl punctual "].iter().any(|program| line.starts_with(program))
    }

    /// A line as a shell takes it apart.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for character in line.chars() {
            match (quote, character) {
                (Some(open), _) if character == open => quote = None,
                (None, '\'' | '"') => quote = Some(character),
                (None, ' ') => words.push(String::new()),
                _ => words.last_mut().unwrap().push(character),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_command_that_acts_on_a_cluster_shows_examples_and_exit_codes() {
        let mut all = command();
        all.build();
        let of_clusters: Vec<_> = all
            .get_subcommands()
            .filter(|one| one.get_arguments().any(|argument| argument.get_id() == "context"))
            .collect();
        assert!(of_clusters.len() >= 10, "{}", of_clusters.len());
        for one in of_clusters {
            let help = one.get_after_help().map(ToString::to_string).unwrap_or_default();
            let name = one.get_name();
            assert!(help.contains(&format!("kubectl punctual {name} ")), "{name}: {help}");
            assert!(help.contains("Exit codes: 0 "), "{name}: {help}");
        }
    }
}
