//! The `punctual` binary; see the library's documentation.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual::cli::main()
}
