//! Files that commands read.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use serde_json::Value;

use super::CliError;
use crate::yaml::{self, YamlError};

/// Most bytes of a file: far more than the API server takes for one object (1.5 MiB).
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Reads one object from a YAML or JSON file; `-` is standard input.
pub fn read_manifest(path: &Path) -> Result<Value, CliError> {
    read(path, yaml::from_str, "one YAML object")
}

/// Reads all objects of a YAML or JSON file; `-` is standard input.
pub(super) fn read_manifests(path: &Path) -> Result<Vec<Value>, CliError> {
    read(path, yaml::all_from_str, "YAML")
}

fn read<T>(
    path: &Path,
    parse: impl Fn(&str) -> Result<T, YamlError>,
    wanted: &str,
) -> Result<T, CliError> {
    let name = path.display();
    let text = read_text(path)
        .map_err(|error| CliError::BadUsage(format!("cannot read {name}: {error}")))?;
    parse(&text).map_err(|error| CliError::BadUsage(format!("{name} is not {wanted}: {error}")))
}

/// Reads a file as text; `-` is standard input.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let limit = MAX_FILE_BYTES + 1;
    let read = if path.as_os_str() == "-" {
        io::stdin().take(limit).read_to_string(&mut text)?
    } else {
        File::open(path)?.take(limit).read_to_string(&mut text)?
    };
    if read as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}
