//! `punctual audit`: looks for work that ran more than once. It reads, by get and list, and writes
//! nothing.

use std::io::{self, IsTerminal as _, Write as _};

use super::{
    CliError, DONE, DUPLICATES, output,
    target::{Connection, Output, block_on},
};

mod collect;
mod cronjob;
mod groups;
mod read;
mod report;
mod run;
#[cfg(test)]
mod tests;

use run::Same;

/// Arguments of `punctual audit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List instants whose work ran more than once: by CronJobs, by Punctual, or by hand.
    Duplicates(Duplicates),
}

/// Arguments of `punctual audit duplicates`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl punctual audit duplicates -A
  kubectl punctual audit duplicates -n docs -o json
  kubectl punctual audit duplicates -n docs --same cronjob/old-nightly=msched/nightly-retention

It only reads (list, in pages of 500). Exit codes: 0 no duplicates, 3 some were found, 1 it could not
look, 2 bad usage.")]
struct Duplicates {
    /// Look at all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// A CronJob does the work of this schedule, although their names differ. May be repeated.
    #[arg(long, value_name = "cronjob/NAME=msched/NAME", value_parser = Same::parse)]
    same: Vec<Same>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// Runs `punctual audit`.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let What::Duplicates(args) = &args.what;
    block_on(async {
        let person = args.connection.connect().await?;
        let namespace = (!args.all_namespaces).then(|| person.namespace().to_owned());
        let collected = read::collect(&person, namespace.as_deref(), &args.same, progress).await?;
        let report = groups::report(collected, namespace);
        output::print(args.output, &report, || report.text())?;
        Ok(if report.groups.is_empty() { DONE } else { DUPLICATES })
    })
}

/// Tells a person at a terminal how far a long list is.
fn progress(kind: &str, read: usize, rest: i64) {
    let mut stderr = io::stderr();
    if !stderr.is_terminal() {
        return;
    }
    let end = if rest == 0 { "\x1b[K\n" } else { "\x1b[K" };
    // Progress that cannot be shown is no reason to stop.
    let _ = write!(stderr, "\rread {read} {kind}, about {rest} to come{end}");
    let _ = stderr.flush();
}
