//! Label and field selectors.

use serde_json::Value;

use super::refusal::Refusal;
use crate::sim::Kind;

/// What objects a list or a watch shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    labels: Vec<LabelTerm>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTerm {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    /// Where the field is, from the root.
    path: Vec<String>,
    value: String,
    equal: bool,
}

impl Selector {
    /// Reads both selectors; `selectable` are the fields that a CRD offers, for example
    /// `.spec.scheduleName`.
    pub(super) fn parse(
        kind: Kind,
        labels: &str,
        fields: &str,
        selectable: &[String],
    ) -> Result<Self, Refusal> {
        let labels = split_terms(labels).into_iter().map(label_term).collect::<Result<_, _>>()?;
        let fields = fields
            .split(',')
            .filter(|term| !term.is_empty())
            .map(|term| field_term(kind, term, selectable))
            .collect::<Result<_, _>>()?;
        Ok(Self { labels, fields })
    }

    /// Whether it lets everything through.
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is shown.
    pub(super) fn shows(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|term| term.holds(labels))
            && self.fields.iter().all(|term| term.holds(object))
    }
}

impl LabelTerm {
    fn holds(&self, labels: &Value) -> bool {
        let of = |name: &String| labels.get(name).and_then(Value::as_str);
        match self {
            Self::In(name, values) => {
                of(name).is_some_and(|value| values.iter().any(|wanted| wanted == value))
            }
            Self::NotIn(name, values) => {
                of(name).is_none_or(|value| values.iter().all(|wanted| wanted != value))
            }
            Self::Exists(name) => of(name).is_some(),
            Self::Absent(name) => of(name).is_none(),
        }
    }
}

impl FieldTerm {
    fn holds(&self, object: &Value) -> bool {
        let found = self.path.iter().try_fold(object, |value, name| value.get(name));
        let text = match found {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        (text == self.value) == self.equal
    }
}

/// Splits at commas outside parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut from, mut depth) = (0, 0_u32);
    for (at, sign) in text.char_indices() {
        match sign {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                terms.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[from..]);
    terms.into_iter().map(str::trim).filter(|term| !term.is_empty()).collect()
}

fn label_term(term: &str) -> Result<LabelTerm, Refusal> {
    let not_understood = || {
        Refusal::bad_request(format!(
            "unable to parse requirement: found '{term}', expected: a term"
        ))
    };
    if let Some((name, values)) = term.split_once(" notin ") {
        return Ok(LabelTerm::NotIn(label_name(name), set(values).ok_or_else(not_understood)?));
    }
    if let Some((name, values)) = term.split_once(" in ") {
        return Ok(LabelTerm::In(label_name(name), set(values).ok_or_else(not_understood)?));
    }
    if let Some((name, value)) = term.split_once("!=") {
        return Ok(LabelTerm::NotIn(label_name(name), vec![value.trim().to_owned()]));
    }
    if let Some((name, value)) = term.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value); // `==` says the same
        return Ok(LabelTerm::In(label_name(name), vec![value.trim().to_owned()]));
    }
    if term.contains(char::is_whitespace) {
        return Err(not_understood());
    }
    Ok(match term.strip_prefix('!') {
        Some(name) => LabelTerm::Absent(label_name(name)),
        None => LabelTerm::Exists(label_name(term)),
    })
}

fn label_name(text: &str) -> String {
    text.trim().to_owned()
}

fn set(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
}

fn field_term(kind: Kind, term: &str, selectable: &[String]) -> Result<FieldTerm, Refusal> {
    let (name, value, equal) = if let Some((name, value)) = term.split_once("!=") {
        (name, value, false)
    } else if let Some((name, value)) = term.split_once('=') {
        (name, value.strip_prefix('=').unwrap_or(value), true)
    } else {
        let message = format!("invalid selector: '{term}'; can't understand '{term}'");
        return Err(Refusal::bad_request(message));
    };
    let built_in: &[&str] = match kind {
        Kind::Pod => &["spec.nodeName", "status.phase"],
        Kind::Job => &["status.successful"],
        Kind::Namespace => &["status.phase"],
        Kind::Event => &["regarding.kind", "regarding.name", "regarding.uid", "reason", "type"],
        Kind::Node => &["spec.unschedulable"],
        _ => &[],
    };
    let known = ["metadata.name", "metadata.namespace"].contains(&name)
        || built_in.contains(&name)
        || selectable.iter().any(|path| path.strip_prefix('.') == Some(name));
    if !known {
        return Err(Refusal::bad_request(format!("field label not supported: {name}")));
    }
    let path = name.split('.').map(ToOwned::to_owned).collect();
    Ok(FieldTerm { path, value: value.to_owned(), equal })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shows(labels: &str, fields: &str) -> bool {
        let object = json!({
            "metadata": {"name": "a", "labels": {"app": "x", "punctual.dev/schedule": "nightly"}},
            "spec": {"scheduleName": "nightly", "number": 3},
        });
        let selectable = [".spec.scheduleName".to_owned(), ".spec.number".to_owned()];
        let kind = Kind::MaintenanceOccurrence;
        Selector::parse(kind, labels, fields, &selectable).unwrap().shows(&object)
    }

    #[test]
    fn labels_select() {
        for yes in [
            "",
            "app=x",
            "app==x",
            "app",
            "app in (y, x)",
            "app notin (y),punctual.dev/schedule",
            "other!=x",
            "!other",
        ] {
            assert!(shows(yes, ""), "{yes}");
        }
        for no in ["app=y", "other", "app notin (x)", "app!=x", "!app", "app=x,app=y", "z in (a)"] {
            assert!(!shows(no, ""), "{no}");
        }
    }

    #[test]
    fn fields_select() {
        for yes in [
            "metadata.name=a",
            "spec.scheduleName=nightly,metadata.name!=b",
            "spec.number=3",
            "spec.scheduleName==nightly",
        ] {
            assert!(shows("", yes), "{yes}");
        }
        assert!(!shows("", "metadata.name=b"));
        assert!(!shows("", "metadata.name=a,spec.scheduleName=other"));
    }

    #[test]
    fn what_cannot_be_selected_by_is_refused() {
        let parse = |labels, fields| Selector::parse(Kind::Job, labels, fields, &[]);
        assert_eq!(parse("", "spec.suspend=true").unwrap_err().code, 400);
        assert_eq!(parse("", "metadata.name").unwrap_err().code, 400);
        assert_eq!(parse("a b", "").unwrap_err().code, 400);
        assert_eq!(parse("a in x", "").unwrap_err().code, 400);
        assert!(parse("a", "status.successful=1").is_ok());
        assert!(parse("", "").unwrap().is_empty());
    }
}
