//! YAML that every reader takes for the same: kubectl and Helm read YAML 1.1, in which `yes` is a truth
//! value and `12:30` a number, and the library writes both without quotes.

use std::fmt::Write as _;

use serde_json::Value;

/// Words that a reader of YAML 1.1 or 1.2 does not take for text.
const WORDS: [&str; 11] =
    ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"];

/// What YAML 1.1 takes for a line break, and the mark of a text's byte order.
const BREAKS: [char; 3] = ['\u{2028}', '\u{2029}', '\u{feff}'];

/// Writes a value in block style. Lines after the first are indented by `indent` blanks; what stands
/// before the first is up to the caller. Texts of several lines keep their lines.
pub fn to_portable_string(value: &Value, indent: usize) -> String {
    let mut out = String::new();
    write(value, indent, &mut out);
    out
}

/// Writes a value that begins on the line of its key, or under it if it is a mapping or a list. Ends
/// with a line break.
pub fn write_entry(key: &str, value: &Value, indent: usize, out: &mut String) {
    let _ = write!(out, "{:indent$}{}:", "", text(key)); // writing to a String cannot fail
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            let _ = write!(out, "{:1$}", "", indent + 2);
            write(value, indent + 2, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            let _ = write!(out, "{:indent$}", "");
            write(value, indent, out);
        }
        _ => {
            out.push(' ');
            write(value, indent + 2, out);
        }
    }
}

/// Writes a value whose first line stands at column `indent` already.
fn write(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (index, (key, value)) in map.iter().enumerate() {
                let mut entry = String::new();
                write_entry(key, value, indent, &mut entry);
                out.push_str(if index == 0 { entry.trim_start_matches(' ') } else { &entry });
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    let _ = write!(out, "{:indent$}", "");
                }
                out.push_str("- ");
                write(item, indent + 2, out);
            }
        }
        // Lines at the margin could be taken for the end of the document.
        Value::String(lines) if indent > 0 && is_block(lines) => {
            out.push_str(if lines.ends_with('\n') { "|\n" } else { "|-\n" });
            for line in lines.lines() {
                let blank = if line.is_empty() { 0 } else { indent };
                let _ = writeln!(out, "{:blank$}{line}", "");
            }
        }
        Value::String(one) => {
            out.push_str(&text(one));
            out.push('\n');
        }
        scalar_or_empty => {
            let _ = writeln!(out, "{scalar_or_empty}");
        }
    }
}

/// Whether a text can stand as lines: nothing in it needs an escape, and its ends say no more than
/// "one line break" or "none".
fn is_block(lines: &str) -> bool {
    lines.trim_end_matches('\n').contains('\n')
        && !lines.ends_with("\n\n")
        && !lines.starts_with([' ', '\n'])
        && lines.chars().all(|c| "\n\t".contains(c) || !(c.is_control() || BREAKS.contains(&c)))
        && !lines.lines().any(|line| line.starts_with('\t'))
}

/// A text on one line: plain if no reader takes it for anything else, else in quotes as JSON writes it.
fn text(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && !text.ends_with(' ')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " _./=-".contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain {
        return text.to_owned();
    }
    let mut quoted = String::new();
    for c in Value::from(text).to_string().chars() {
        if c.is_control() || BREAKS.contains(&c) {
            let _ = write!(quoted, "\\u{:04x}", u32::from(c));
        } else {
            quoted.push(c);
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::yaml::from_str;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let hard = [
            "",
            " ",
            "~",
            "yes",
            "No",
            "ON",
            "y",
            "null",
            "NaN",
            ".inf",
            "12:30",
            "1_000",
            "0x1F",
            "1e3",
            "2026-11-29",
            "- a",
            "a: b",
            "a #b",
            "#",
            "&a",
            "*a",
            "!t",
            "%d",
            "@x",
            "`x",
            "a\tb",
            "ä",
            "\u{feff}a",
            "end ",
            "'",
            "\"",
            "\\",
            "{",
            "[a",
            "a,b",
            "?",
            ":",
            "=",
            "<<",
            "a\nb",
            "a\nb\n",
            "a\n\nb\n",
            "a\n  b\n",
            "a\n\n",
            "\na",
            " a\nb",
            "\ta\nb",
            "a\n\tb",
            "a\r\nb",
            "a \nb ",
            "\n",
            "#!/bin/sh\nset -e\nif true; then\n  echo \"$x\"\nfi\n",
            "a\u{2028}b\nc",
            "---\nb",
        ];
        for text in hard {
            for value in [
                json!(text),
                json!([text]),
                json!({"k": text}),
                json!({"k": [{"a": text, "b": {"c": [text, [text]]}}, text]}),
                json!({"a": {text: 1}}),
            ] {
                if value["a"]["<<"] == 1 {
                    continue; // a merge key, quoted or not
                }
                let written = to_portable_string(&value, 0);
                let read: Value = from_str(&written).unwrap_or_else(|e| panic!("{written}: {e}"));
                assert_eq!(read, value, "{written}");
            }
        }
    }

    #[test]
    fn what_other_readers_take_for_something_else_is_in_quotes() {
        for text in ["yes", "Off", "y", "12:30", "1_0", "~", "null", "0o7", "2026-11-29", ".5", ""]
        {
            assert_eq!(to_portable_string(&json!(text), 0), format!("\"{text}\"\n"));
        }
    }

    #[test]
    fn it_looks_as_a_person_would_write_it() {
        let value = json!({
            "args": ["-c", "set -e\necho done\n"], "empty": [], "env": [{"name": "A", "value": "1"}],
            "image": "busybox:1.36", "limits": {"cpu": 2, "none": null, "tty": true, "x": {}},
        });
        assert_eq!(
            to_portable_string(&value, 0),
            "args:\n- \"-c\"\n- |\n  set -e\n  echo done\nempty: []\nenv:\n- name: A\n  value: \"1\"\n\
             image: \"busybox:1.36\"\nlimits:\n  cpu: 2\n  none: null\n  tty: true\n  x: {}\n"
        );
    }
}
