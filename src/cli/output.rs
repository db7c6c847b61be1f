//! What commands print: a table for people, JSON or YAML for scripts.

use std::io::{self, Write as _};

use serde::Serialize;

use super::{CliError, target::Output};
use crate::yaml;

/// Prints `value` as JSON or YAML, or what `table` makes for people.
pub fn print<T: Serialize>(
    output: Output,
    value: &T,
    table: impl FnOnce() -> String,
) -> Result<(), CliError> {
    let text = match output {
        Output::Table => table(),
        Output::Json => json(value)?,
        Output::Yaml => yaml::to_string(value)
            .map_err(|error| CliError::Failed(format!("cannot write YAML: {error}")))?,
    };
    write(&text)
}

/// A value as JSON, as it is printed.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, CliError> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| CliError::Failed(format!("cannot write JSON: {error}")))
}

/// Prints a text.
pub(super) fn write(text: &str) -> Result<(), CliError> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has seen enough, as in `punctual next … | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::Failed(format!("cannot print: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Lays rows out in columns under a header, two blanks apart, without blanks at the ends of lines.
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    });
    let line = |cells: [&str; N]| {
        let padded: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let rows = rows.iter().map(|row| line(std::array::from_fn(|column| row[column].as_str())));
    std::iter::once(line(header)).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a".to_owned(), "ä longer".to_owned()], ["bcd".to_owned(), String::new()]];
        assert_eq!(table(["X", "Y"], &rows), "X    Y\na    ä longer\nbcd\n");
    }
}
