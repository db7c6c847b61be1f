//! `punctual version`.

use super::{CliError, DONE};

/// Arguments of `punctual version`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints the version.
pub fn run(_: &Args) -> Result<u8, CliError> {
    println!("punctual {}", env!("CARGO_PKG_VERSION"));
    Ok(DONE)
}
