//! What the API server says when it does not do what it was asked, in its own words and shape.

use serde_json::{Map, Value, json};

use crate::sim::{Key, Kind};

/// Why a value of an object is refused, one field at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What is wrong in one word, for example `FieldValueInvalid`.
    pub reason: &'static str,
    /// What is wrong, without the field.
    pub message: String,
    /// Which field, for example `spec.schedule`.
    pub field: String,
}

impl Cause {
    /// A value that is not right.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::of("FieldValueInvalid", field, format!("Invalid value: {}: {why}", shown(value)))
    }

    /// A field that must be there.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message =
            if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
        Self::of("FieldValueRequired", field, message)
    }

    /// Something that is not allowed.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::of("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    /// A cause in its final words.
    pub fn of(reason: &'static str, field: impl Into<String>, message: String) -> Self {
        Self { reason, message, field: field.into() }
    }

    /// The cause in a sentence about the whole object.
    fn sentence(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }
}

/// A value as the server's sentences show it.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "\"object\"".to_owned(),
        Value::Array(_) => "\"array\"".to_owned(),
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// A refusal: HTTP status, reason and sentence, as the body `Status` carries them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// One word, for example `AlreadyExists`; empty where the server gives none.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
    /// The single fields, if it is about fields.
    pub causes: Vec<Cause>,
    /// Seconds to wait before asking again.
    pub retry_after_secs: Option<u32>,
    /// A token with which an expired list can go on, inconsistently.
    pub continue_token: Option<String>,
    about: Option<(Kind, String)>,
}

impl Refusal {
    /// A refusal in its final words.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            causes: Vec::new(),
            retry_after_secs: None,
            continue_token: None,
            about: None,
        }
    }

    fn about(mut self, key: &Key) -> Self {
        self.about = Some((key.kind, key.name.clone()));
        self
    }

    /// 400: the request as such cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403: a namespace that is being deleted takes nothing new.
    pub(super) fn terminating(key: &Key) -> Self {
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            key.namespace
        );
        let mut refusal =
            Self::new(403, "Forbidden", format!("{} is forbidden: {why}", qualified(key)));
        refusal.causes.push(Cause::of(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {} is being terminated", key.namespace),
        ));
        refusal.about(key)
    }

    /// 404: there is no such object.
    pub fn not_found(key: &Key) -> Self {
        Self::new(404, "NotFound", format!("{} not found", qualified(key))).about(key)
    }

    /// 409: there is one of that name.
    pub fn already_exists(key: &Key) -> Self {
        Self::new(409, "AlreadyExists", format!("{} already exists", qualified(key))).about(key)
    }

    /// 409: not the version or not the object that was expected.
    pub fn conflict(key: &Key, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {}: {why}", qualified(key));
        Self::new(409, "Conflict", message).about(key)
    }

    /// 409: somebody wrote in the meantime.
    pub fn modified(key: &Key) -> Self {
        Self::conflict(
            key,
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        )
    }

    /// 410: what was asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 415: a body of a type that the server does not read.
    pub(super) fn unsupported_media(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: \
                 {accepted}"
            ),
        )
    }

    /// 422: the content is refused, for these reasons.
    pub fn invalid(key: &Key, causes: Vec<Cause>) -> Self {
        let (kind, group) = (key.kind.name(), key.kind.group());
        let dot = if group.is_empty() { "" } else { "." };
        let mut sentences: Vec<String> = Vec::new();
        for sentence in causes.iter().map(Cause::sentence) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        let why = match &sentences[..] {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!("{kind}{dot}{group} \"{}\" is invalid: {why}", key.name);
        let mut refusal = Self::new(422, "Invalid", message).about(key);
        refusal.causes = causes;
        refusal
    }

    /// 429: no room; nothing was looked at.
    pub fn too_many_requests(retry_after_secs: u32) -> Self {
        let message = "Too many requests, please try again later.";
        let mut refusal = Self::new(429, "TooManyRequests", message);
        refusal.retry_after_secs = Some(retry_after_secs);
        refusal
    }

    /// 503: the server cannot answer.
    pub fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request";
        Self::new(503, "ServiceUnavailable", message)
    }

    /// The body of the answer.
    pub fn status(&self) -> Value {
        let mut details = Map::new();
        if let Some((kind, name)) = &self.about {
            details.insert("name".into(), name.clone().into());
            if !kind.group().is_empty() {
                details.insert("group".into(), kind.group().into());
            }
            // The real server names the kind when it refuses content, else the resource.
            let word = if self.code == 422 { kind.name() } else { kind.plural() };
            details.insert("kind".into(), word.into());
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                json!({"reason": cause.reason, "message": cause.message, "field": cause.field})
            });
            details.insert("causes".into(), causes.collect());
        }
        if let Some(seconds) = self.retry_after_secs {
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        let mut meta = Map::new();
        if let Some(token) = &self.continue_token {
            meta.insert("continue".into(), token.clone().into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": meta, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !details.is_empty() {
            status["details"] = details.into();
        }
        status
    }
}

/// An object as the server's sentences name it: `jobs.batch "x"`.
fn qualified(key: &Key) -> String {
    let (plural, group) = (key.kind.plural(), key.kind.group());
    let dot = if group.is_empty() { "" } else { "." };
    format!("{plural}{dot}{group} \"{}\"", key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_speak_as_the_server_does() {
        let key = Key::new(Kind::Job, "docs", "a");
        assert_eq!(Refusal::not_found(&key).message, "jobs.batch \"a\" not found");
        let node = Key::new(Kind::Node, "", "n");
        assert_eq!(Refusal::already_exists(&node).message, "nodes \"n\" already exists");
        let causes = vec![
            Cause::required("spec.run", ""),
            Cause::invalid("spec.x", &json!("y"), "must be z"),
        ];
        let refusal = Refusal::invalid(&Key::new(Kind::MaintenanceSchedule, "docs", "n"), causes);
        assert_eq!(
            refusal.message,
            "MaintenanceSchedule.punctual.dev \"n\" is invalid: [spec.run: Required value, \
             spec.x: Invalid value: \"y\": must be z]"
        );
        let status = refusal.status();
        assert_eq!(status["details"]["causes"][1]["field"], "spec.x");
        assert_eq!(status["details"]["kind"], "MaintenanceSchedule");
        assert_eq!(Refusal::too_many_requests(2).status()["details"]["retryAfterSeconds"], 2);
    }
}
