//! What an API call can end with, in the terms of this operator.

use kube::core::Status;

use crate::api::{FENCE_MESSAGE, MAX_MESSAGE_CHARS, truncate};

/// Why a call to the API server did not give what was asked.
///
/// Messages are cut to [`MAX_MESSAGE_CHARS`], whatever the server wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The object is not the version or not the object (uid) that was expected. Nothing was written.
    #[error("the object changed in the meantime: {message}")]
    Conflict {
        /// The server's words.
        message: String,
    },
    /// An object of that name exists. Nothing was written.
    #[error("an object of that name exists")]
    AlreadyExists,
    /// There is no such object, or no such kind. Nothing was written.
    #[error("not found")]
    NotFound,
    /// The API server refuses the content (schema or rule). Nothing was written.
    #[error("the API server refuses the object: {message}")]
    Invalid {
        /// The server's words.
        message: String,
    },
    /// A newer term has sealed the object. Nothing was written.
    #[error("a newer leader term has sealed the object")]
    FenceRefused,
    /// Not allowed: rights, quota, or a namespace that is being deleted. Nothing was written.
    #[error("forbidden: {message}")]
    Forbidden {
        /// The server's words.
        message: String,
    },
    /// Refused before it was looked at, because the server is busy. Nothing was written.
    #[error("the API server has no room for the request")]
    TooManyRequests {
        /// Seconds the server asks to wait, if it said so.
        retry_after_secs: Option<u32>,
    },
    /// The version asked for is no longer kept; list again.
    #[error("the requested resourceVersion is gone")]
    Gone,
    /// The server, or something before it, could not answer (5xx). A write may or may not have
    /// happened.
    #[error("the API server cannot answer ({code}): {message}")]
    Unavailable {
        /// HTTP status.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// No answer within the deadline, or the connection broke. A write may or may not have happened.
    #[error("no answer from the API server: {message}")]
    OutcomeUnknown {
        /// What broke.
        message: String,
    },
    /// An answer that cannot be read as the kind that was asked for. A write did happen.
    #[error("the API server's answer cannot be read: {message}")]
    Malformed {
        /// What is wrong with it.
        message: String,
    },
    /// The request could not even be built.
    #[error("the request cannot be built: {message}")]
    Unsendable {
        /// Why.
        message: String,
    },
}

impl ApiError {
    /// One word for metrics and logs.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::AlreadyExists => "already_exists",
            Self::NotFound => "not_found",
            Self::Invalid { .. } => "invalid",
            Self::FenceRefused => "fence_refused",
            Self::Forbidden { .. } => "forbidden",
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::Gone => "gone",
            Self::Unavailable { .. } => "unavailable",
            Self::OutcomeUnknown { .. } => "outcome_unknown",
            Self::Malformed { .. } => "malformed",
            Self::Unsendable { .. } => "unsendable",
        }
    }

    /// Whether a write that ended like this may have happened, so that only a read can tell.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::OutcomeUnknown { .. } | Self::Malformed { .. } => true,
            Self::Conflict { .. }
            | Self::AlreadyExists
            | Self::NotFound
            | Self::Invalid { .. }
            | Self::FenceRefused
            | Self::Forbidden { .. }
            | Self::TooManyRequests { .. }
            | Self::Gone
            | Self::Unsendable { .. } => false,
        }
    }

    /// Whether the trouble is between us and the server, so that the same call may work later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::TooManyRequests { .. } | Self::Unavailable { .. } | Self::OutcomeUnknown { .. }
        )
    }

    /// The deadline passed.
    pub(super) fn deadline() -> Self {
        Self::OutcomeUnknown { message: "deadline passed".to_owned() }
    }

    /// Classifies a `Status` answer.
    pub(super) fn of_status(status: &Status) -> Self {
        let message = truncate(&status.message, MAX_MESSAGE_CHARS);
        match status.code {
            400 => Self::Invalid { message },
            401 | 403 => Self::Forbidden { message },
            404 => Self::NotFound,
            409 if status.is_already_exists() => Self::AlreadyExists,
            409 => Self::Conflict { message },
            410 => Self::Gone,
            422 if says(status, FENCE_MESSAGE) => Self::FenceRefused,
            422 if identity_mismatch(status) => Self::Conflict { message },
            // 405, 406, 413, 415 and the like: the request as such is refused.
            402..=499 if status.code != 429 => Self::Invalid { message },
            429 => Self::TooManyRequests {
                retry_after_secs: status
                    .details
                    .as_ref()
                    .map(|details| details.retry_after_seconds)
                    .filter(|secs| *secs > 0),
            },
            code => Self::Unavailable { code, message },
        }
    }
}

/// Whether the message or a cause of `status` contains `text`.
pub(super) fn says(status: &Status, text: &str) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.message.contains(text) || causes.any(|cause| cause.message.contains(text))
}

/// A PATCH whose `metadata.uid` is another object's is answered with 422 on that field, where a PUT
/// is answered with 409.
fn identity_mismatch(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.field == "metadata.uid")
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        let message = |error: &dyn std::error::Error| truncate(&chain(error), MAX_MESSAGE_CHARS);
        match error {
            kube::Error::Api(status) => Self::of_status(&status),
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                Self::Malformed { message: message(&error) }
            }
            kube::Error::BuildRequest(_)
            | kube::Error::HttpError(_)
            | kube::Error::InferConfig(_)
            | kube::Error::InferKubeconfig(_)
            | kube::Error::Auth(_)
            | kube::Error::RustlsTls(_)
            | kube::Error::TlsRequired
            | kube::Error::ProxyProtocolDisabled { .. }
            | kube::Error::ProxyProtocolUnsupported { .. } => {
                Self::Unsendable { message: message(&error) }
            }
            // Everything else broke somewhere on the way there or back.
            _ => Self::OutcomeUnknown { message: message(&error) },
        }
    }
}

/// Most causes that [`chain`] follows: real chains have fewer than ten links.
const MAX_CAUSES: usize = 16;

/// The messages of an error and its causes, without repeating what an outer one already says.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    for _ in 0..MAX_CAUSES {
        let Some(cause) = next else { break };
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(code: u16, reason: &str, message: &str, field: &str) -> Status {
        serde_json::from_value(json!({
            "status": "Failure", "code": code, "reason": reason, "message": message,
            "details": {"causes": [{"reason": "x", "message": "y", "field": field}]},
        }))
        .unwrap()
    }

    #[test]
    fn every_answer_has_one_meaning() {
        let fence = format!("Schedule \"a\" is invalid: <nil>: Forbidden: {FENCE_MESSAGE}");
        for (code, reason, message, field, category, unknown) in [
            (409, "Conflict", "rv", "", "conflict", false),
            (409, "AlreadyExists", "there", "", "already_exists", false),
            (422, "Invalid", "immutable", "metadata.uid", "conflict", false),
            (422, "Invalid", "bad", "spec.schedule", "invalid", false),
            (422, "Invalid", fence.as_str(), "", "fence_refused", false),
            (400, "BadRequest", "no", "", "invalid", false),
            (413, "RequestEntityTooLarge", "big", "", "invalid", false),
            (401, "Unauthorized", "who", "", "forbidden", false),
            (403, "Forbidden", "quota", "", "forbidden", false),
            (404, "NotFound", "", "", "not_found", false),
            (410, "Expired", "", "", "gone", false),
            (429, "TooManyRequests", "", "", "too_many_requests", false),
            (500, "InternalError", "", "", "unavailable", true),
            (503, "ServiceUnavailable", "", "", "unavailable", true),
            (504, "Timeout", "", "", "unavailable", true),
        ] {
            let error = ApiError::of_status(&status(code, reason, message, field));
            assert_eq!(error.category(), category, "{code} {reason}");
            assert_eq!(error.is_outcome_unknown(), unknown, "{code} {reason}");
        }
    }

    #[test]
    fn the_fence_is_recognised_in_a_cause_too() {
        let mut refused = status(422, "Invalid", "invalid", "");
        refused.details.as_mut().unwrap().causes[0].message = FENCE_MESSAGE.to_owned();
        assert_eq!(ApiError::of_status(&refused), ApiError::FenceRefused);
    }

    #[test]
    fn a_broken_connection_is_an_unknown_outcome_but_an_unbuilt_request_is_none() {
        let broken = kube::Error::Service("connection reset".into());
        assert!(ApiError::from(broken).is_outcome_unknown());
        assert!(!ApiError::from(kube::Error::TlsRequired).is_outcome_unknown());
    }

    #[test]
    fn messages_are_bounded() {
        let long = "x".repeat(5000);
        let error = ApiError::of_status(&status(422, "Invalid", &long, "spec"));
        assert!(error.to_string().chars().count() < MAX_MESSAGE_CHARS + 64);
    }
}
