//! Paths of fields: `status.result.rows`, `status.skipped[0].reason`,
//! `metadata.annotations["punctual.dev/epoch"]`.

use std::fmt;

use serde_json::Value;

/// A path from the outside of an object to one of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl FieldPath {
    /// Reads a path; the error is a sentence that says how to write one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no path of a field; write it like status.result.rows, \
                 status.skipped[0].reason or metadata.annotations[\"example.org/x\"]"
            )
        };
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let read = if let Some(inside) = rest.strip_prefix('[') {
                bracket(inside)
            } else if steps.is_empty() {
                key(rest)
            } else {
                rest.strip_prefix('.').and_then(key)
            };
            let (step, after) = read.ok_or_else(wrong)?;
            steps.push(step);
            rest = after;
        }
        if !matches!(steps.first(), Some(Step::Key(_))) {
            return Err(wrong());
        }
        Ok(Self { text: text.to_owned(), steps })
    }

    /// The field's value in an object; `None` if it is not there.
    pub fn of<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let found = self.steps.iter().try_fold(object, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.get(index),
        });
        found.filter(|value| !value.is_null())
    }
}

/// What stands in brackets, up to and without the closing one, and what follows it.
fn bracket(inside: &str) -> Option<(Step, &str)> {
    if let Some(quoted) = inside.strip_prefix('"') {
        let (key, after) = quoted.split_once("\"]")?;
        return Some((Step::Key(key.to_owned()), after));
    }
    let (index, after) = inside.split_once(']')?;
    Some((Step::Index(index.parse().ok()?), after))
}

fn key(text: &str) -> Option<(Step, &str)> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (key, after) = text.split_at(end);
    (!key.is_empty()).then(|| (Step::Key(key.to_owned()), after))
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_its_field() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "x"}},
            "status": {"skipped": [{"reason": "Concurrent"}], "n": 3, "gone": null},
        });
        let of = |text: &str| FieldPath::parse(text).unwrap().of(&object).cloned();
        assert_eq!(of("status.n"), Some(json!(3)));
        assert_eq!(of("status.skipped[0].reason"), Some(json!("Concurrent")));
        assert_eq!(of("status.skipped[1].reason"), None);
        assert_eq!(of("metadata.annotations[\"a.b/c\"]"), Some(json!("x")));
        assert_eq!(of("status.gone"), None, "null is not there");
        assert_eq!(of("status.n.deeper"), None);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", ".a", "a.", "a..b", "[0]", "a[x]", "a[0", "a[\"x]", "a[0]b", "a.[0]"] {
            let error = FieldPath::parse(text).unwrap_err();
            assert!(error.contains("write it like status.result.rows"), "{text}: {error}");
        }
    }
}
