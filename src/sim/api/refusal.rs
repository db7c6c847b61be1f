//! What the API server says when it does not do what it was asked, in its own words and shape.

use std::fmt;

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
    /// A value that is not right. Objects and lists are not repeated.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let message = match value {
            Value::Object(_) | Value::Array(_) => format!("Invalid value: {why}"),
            simple => format!("Invalid value: {simple}: {why}"),
        };
        Self::of("FieldValueInvalid", field, message)
    }

    /// A word that is not one of those that are known.
    pub fn unsupported(field: impl Into<String>, value: &Value, known: &[Value]) -> Self {
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", known.join(", "));
        Self::of("FieldValueNotSupported", field, message)
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
    about: Option<Box<About>>,
}

/// What the server says that a refusal is about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct About {
    group: &'static str,
    /// A kind or a resource, depending on which part of the server refuses.
    word: String,
    name: String,
}

impl About {
    fn resource(key: &Key) -> Self {
        let (group, word) = (key.kind.group(), key.kind.plural().to_owned());
        Self { group, word, name: key.name.clone() }
    }

    fn kind(key: &Key) -> Self {
        // Events have two groups; the older one refuses.
        let group = if key.kind == Kind::Event { "" } else { key.kind.group() };
        Self { group, word: key.kind.name().to_owned(), name: key.name.clone() }
    }
}

impl fmt::Display for About {
    /// As sentences name it: `jobs.batch "x"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{} \"{}\"", self.word, self.group, self.name)
    }
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

    fn about(mut self, about: About) -> Self {
        self.about = Some(Box::new(about));
        self
    }

    /// 400: the request as such cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403: a namespace that is being deleted takes nothing new.
    pub(super) fn terminating(key: &Key) -> Self {
        let about = About::resource(key);
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            key.namespace
        );
        let mut refusal = Self::new(403, "Forbidden", format!("{about} is forbidden: {why}"));
        refusal.causes.push(Cause::of(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {} is being terminated", key.namespace),
        ));
        refusal.about(about)
    }

    /// 404: there is no such object.
    pub fn not_found(key: &Key) -> Self {
        let about = About::resource(key);
        Self::new(404, "NotFound", format!("{about} not found")).about(about)
    }

    /// 409: there is one of that name.
    pub fn already_exists(key: &Key) -> Self {
        let about = About::resource(key);
        Self::new(409, "AlreadyExists", format!("{about} already exists")).about(about)
    }

    /// 409: there is one of that name, and it is to go.
    pub(super) fn still_deleting(key: &Key) -> Self {
        let mut refusal = Self::already_exists(key);
        refusal.message = format!("object is being deleted: {}", refusal.message);
        refusal
    }

    fn conflict(about: About, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {about}: {why}");
        Self::new(409, "Conflict", message).about(about)
    }

    /// 409: somebody wrote in the meantime.
    pub fn modified(key: &Key) -> Self {
        Self::conflict(
            About::resource(key),
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        )
    }

    /// 409: a deletion is of another object or version.
    pub(super) fn not_to_delete(key: &Key, why: &str) -> Self {
        Self::conflict(About::kind(key), why)
    }

    /// 409: not the object that was expected, or one that never was. The words are those of the real
    /// server's storage.
    pub(super) fn precondition(key: &Key, what: &str, wanted: &str, is: &str) -> Self {
        let (plural, group) = (key.kind.plural(), key.kind.group());
        let folder = if super::kinds::is_custom(key.kind) {
            format!("{group}/{plural}")
        } else {
            plural.to_owned()
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{folder}/{}/{}, \
             ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: \
             {wanted}, {what} in object meta: {is}",
            key.namespace, key.name
        );
        Self::conflict(About::resource(key), &why)
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
        Self::invalid_about(About::kind(key), causes)
    }

    /// 422 in the words of the part of the server that knows the resource only.
    pub(super) fn invalid_resource(key: &Key, cause: Cause) -> Self {
        Self::invalid_about(About::resource(key), vec![cause])
    }

    /// 422: the object calls itself another kind.
    pub(super) fn invalid_kind(key: &Key, word: &str, cause: Cause) -> Self {
        let about = About { word: word.to_owned(), ..About::kind(key) };
        Self::invalid_about(about, vec![cause])
    }

    /// 422: an option of the request is refused; `options` is for example `CreateOptions`.
    pub(super) fn invalid_options(options: &str, cause: Cause) -> Self {
        let about = About { group: "meta.k8s.io", word: options.to_owned(), name: String::new() };
        Self::invalid_about(about, vec![cause])
    }

    fn invalid_about(about: About, causes: Vec<Cause>) -> Self {
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
        let mut refusal = Self::new(422, "Invalid", format!("{about} is invalid: {why}"));
        refusal.causes = causes;
        refusal.about(about)
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
        if let Some(about) = &self.about {
            let About { group, word, name } = &**about;
            for (field, text) in [("name", name.as_str()), ("group", group), ("kind", word)] {
                if !text.is_empty() {
                    details.insert(field.into(), text.into());
                }
            }
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
