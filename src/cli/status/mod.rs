//! `punctual status`: who leads, what needs a person, how schedules and queues stand.

use super::{
    CliError, DONE, NO, output,
    target::{Connection, Output, block_on},
    why,
};

mod digest;
mod fences;
mod read;
mod report;
#[cfg(test)]
mod tests;

/// Arguments of `punctual status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl punctual status -A
  kubectl punctual status -n docs
  kubectl punctual status -A -o json

It only reads (get and list). Exit codes: 0 all is well, 1 something needs a person, nobody leads, or
not everything could be read, 2 bad usage.")]
pub struct Args {
    /// Look at all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    lease: why::read::LeasePlace,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// Runs `punctual status`.
pub fn run(args: &Args) -> Result<u8, CliError> {
    block_on(async {
        let person = args.connection.connect().await?;
        let facts = read::gather(&person, args.all_namespaces, &args.lease).await?;
        let report = digest::digest(&facts);
        output::print(args.output, &report, || report.text(facts.now))?;
        Ok(if report.is_well() { DONE } else { NO })
    })
}
