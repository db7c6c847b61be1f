//! What a run says about itself: the termination message of its container. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    api::{Artifact, ResultValue, truncate},
    providers::Delivered,
};

/// Longest termination message that is read, in bytes: what the kubelet keeps of one container.
pub const MAX_MESSAGE_BYTES: usize = 4096;
/// Most entries of a result; the schema of the status allows no more.
pub const MAX_RESULT_ENTRIES: usize = 32;
/// Longest text of a result, in characters; the schema of the status allows no more.
pub const MAX_RESULT_CHARS: usize = 256;
/// Longest key of a result, in characters: the status stays below 12 KiB whatever a run reports.
pub const MAX_RESULT_KEY_CHARS: usize = 64;
/// Longest reason that a run may give, in characters: it becomes a condition's reason.
pub const MAX_REASON_CHARS: usize = 63;

/// A termination message, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// `result`: at most [`MAX_RESULT_ENTRIES`] integers or short texts.
    pub result: Option<BTreeMap<String, ResultValue>>,
    /// Something was there and could not be read, or it is gone: a result may be lost.
    pub lost: bool,
    /// `artifact`.
    pub artifact: Delivered,
    /// `retryable`, if given.
    pub retryable: Option<bool>,
    /// `reason`, if it can serve as one.
    pub reason: Option<String>,
}

impl Report {
    /// The report of a run whose message cannot be had any more.
    pub fn gone() -> Self {
        Self { lost: true, artifact: Delivered::Unreadable, ..Self::default() }
    }

    /// Reads a message. No message at all is a run that reports nothing, which is no loss; a message
    /// that is not the JSON object of the contract is one.
    pub fn parse(message: Option<&str>) -> Self {
        let text = message.unwrap_or_default().trim();
        if text.is_empty() {
            return Self::default();
        }
        if text.len() > MAX_MESSAGE_BYTES {
            return Self::gone();
        }
        let Ok(Value::Object(content)) = serde_json::from_str(text) else {
            return Self::gone();
        };
        Self::of(&content)
    }

    /// Reads the JSON object of the contract.
    pub fn of(content: &serde_json::Map<String, Value>) -> Self {
        let (result, unreadable) = match content.get("result") {
            None | Some(Value::Null) => (None, false),
            Some(Value::Object(entries)) => (Some(bounded(entries)), false),
            Some(_) => (None, true),
        };
        Self {
            result,
            lost: unreadable,
            artifact: artifact(content.get("artifact")),
            retryable: content.get("retryable").and_then(Value::as_bool),
            reason: content.get("reason").and_then(Value::as_str).and_then(reason),
        }
    }
}

/// Where the artifact is and how it is recognised: all three fields, or nobody knows.
fn artifact(of: Option<&Value>) -> Delivered {
    match of {
        None | Some(Value::Null) => Delivered::Nothing,
        Some(value) => serde_json::from_value::<Artifact>(value.clone())
            .map_or(Delivered::Unreadable, Delivered::artifact),
    }
}

/// The first entries, by key, that are integers or texts; longer texts are cut, the rest is ignored.
fn bounded(entries: &serde_json::Map<String, Value>) -> BTreeMap<String, ResultValue> {
    let mut all: Vec<_> = entries
        .iter()
        .filter(|(key, _)| !key.is_empty() && key.chars().count() <= MAX_RESULT_KEY_CHARS)
        .filter_map(|(key, value)| Some((key.clone(), entry(value)?)))
        .collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all.into_iter().take(MAX_RESULT_ENTRIES).collect()
}

fn entry(value: &Value) -> Option<ResultValue> {
    match value {
        Value::Number(number) => number.as_i64().map(ResultValue::Integer),
        Value::String(text) => Some(ResultValue::Text(truncate(text, MAX_RESULT_CHARS))),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A word that can be a condition's reason.
fn reason(text: &str) -> Option<String> {
    let word = text.chars().all(|c| c.is_ascii_alphanumeric())
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= MAX_REASON_CHARS;
    word.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(report: &Report) -> Vec<(&str, &ResultValue)> {
        report.result.iter().flatten().map(|(key, value)| (key.as_str(), value)).collect()
    }

    #[test]
    fn what_is_there_and_cannot_be_read_is_lost_but_silence_is_not() {
        let too_long = format!(r#"{{"reason": "{}"}}"#, "x".repeat(MAX_MESSAGE_BYTES));
        let cut = r#"{"result": {"rows": 1"#;
        for (description, message, lost) in [
            ("no message", None, false),
            ("empty", Some(""), false),
            ("white space", Some(" \n"), false),
            ("an object", Some("{}"), false),
            ("no result in it", Some(r#"{"retryable": false}"#), false),
            ("result null", Some(r#"{"result": null}"#), false),
            ("plain words", Some("all done"), true),
            ("a list", Some("[1]"), true),
            ("cut by the kubelet", Some(cut), true),
            ("a result that is no object", Some(r#"{"result": 3}"#), true),
            ("longer than the contract allows", Some(too_long.as_str()), true),
        ] {
            let report = Report::parse(message);
            assert_eq!(report.lost, lost, "{description}");
            assert_eq!(report.result, None, "{description}");
        }
    }

    #[test]
    fn results_are_integers_and_short_texts_and_never_too_many() {
        let long = "ä".repeat(MAX_RESULT_CHARS + 1);
        let key = "k".repeat(MAX_RESULT_KEY_CHARS + 1);
        let message = json!({"result": {
            "rows": 3, "note": "ok", "ratio": 0.5, "flag": true, "list": [1], "more": {"a": 1},
            "nothing": null, "long": long, "": 1, key: 1,
        }});
        let report = Report::parse(Some(&message.to_string()));
        let cut = truncate(&long, MAX_RESULT_CHARS);
        assert_eq!(
            texts(&report),
            [
                ("long", &ResultValue::Text(cut)),
                ("note", &ResultValue::Text("ok".into())),
                ("rows", &ResultValue::Integer(3)),
            ]
        );
        assert!(!report.lost);

        let many: serde_json::Map<_, _> = (0..40).map(|n| (format!("k{n:02}"), json!(n))).collect();
        let report = Report::parse(Some(&json!({"result": many}).to_string()));
        assert_eq!(report.result.as_ref().map(BTreeMap::len), Some(MAX_RESULT_ENTRIES));
        assert_eq!(texts(&report)[31].0, "k31", "the first ones, by key");
    }

    #[test]
    fn an_artifact_is_whole_or_unreadable() {
        let sha256 = "a".repeat(64);
        let whole = json!({"uri": "s3://r/1", "sha256": sha256, "sizeBytes": 7});
        let artifact: Artifact = serde_json::from_value(whole.clone()).unwrap();
        let mut cases = vec![
            (json!({}), Delivered::Nothing),
            (json!({"artifact": null}), Delivered::Nothing),
            (json!({"artifact": whole}), Delivered::Artifact(artifact)),
            (json!({"artifact": "s3://r/1"}), Delivered::Unreadable),
        ];
        for (field, value) in [
            ("uri", json!("")),
            ("uri", json!("x".repeat(2049))),
            ("sha256", json!("a".repeat(63))),
            ("sha256", json!("A".repeat(64))),
            ("sizeBytes", json!(-1)),
            ("sizeBytes", Value::Null),
        ] {
            let mut wrong = whole.clone();
            wrong[field] = value;
            cases.push((json!({"artifact": wrong}), Delivered::Unreadable));
        }
        for (message, expected) in cases {
            let report = Report::parse(Some(&message.to_string()));
            assert_eq!(report.artifact, expected, "{message}");
            assert!(!report.lost, "a result is not lost with it: {message}");
        }
        assert_eq!(Report::gone().artifact, Delivered::Unreadable);
        assert_eq!(Report::parse(None).artifact, Delivered::Nothing);
    }

    #[test]
    fn a_reason_is_one_word() {
        for (given, taken) in [
            ("DiskFull", Some("DiskFull")),
            ("disk full", None),
            ("", None),
            ("9Lives", None),
            ("Öl", None),
            ("<script>", None),
        ] {
            let message = json!({"reason": given, "retryable": false}).to_string();
            let report = Report::parse(Some(&message));
            assert_eq!(report.reason.as_deref(), taken, "{given}");
            assert_eq!(report.retryable, Some(false));
        }
    }
}
