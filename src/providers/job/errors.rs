//! What the API server's refusals mean for a run.

use crate::{
    cluster::{ApiError, WriteError},
    providers::ProviderError,
};

/// A create that the API server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It will always: the template is wrong, or a policy forbids it.
    ForGood(String),
    /// It may accept the same later: quota, rights, a namespace that is going away.
    ForNow(String),
}

/// The provider gave no answer that means anything.
pub(super) fn no_answer(why: impl Into<String>) -> ProviderError {
    ProviderError::Unreachable(why.into())
}

/// Sorts the failure of a create into refusals and failures to get an answer.
pub(super) fn on_create(error: WriteError) -> Result<Refusal, ProviderError> {
    let api = match error {
        WriteError::Api(api) => api,
        other => return Err(on_write(other)),
    };
    match api {
        ApiError::Invalid { message } => Ok(Refusal::ForGood(format!(
            "run.job.template is refused by the API server: {message}"
        ))),
        ApiError::Forbidden { message } if is_policy(&message) => {
            Ok(Refusal::ForGood(format!("run.job.template is refused by a policy: {message}")))
        }
        ApiError::Forbidden { message } => {
            Ok(Refusal::ForNow(format!("the Job may not be created now: {message}")))
        }
        ApiError::NotFound => {
            Ok(Refusal::ForNow("the Job cannot be created: its namespace is gone".into()))
        }
        // Counting against a quota conflicts with others who do so at the same time.
        ApiError::Conflict { message } => Ok(Refusal::ForNow(message)),
        other => Err(on_write(WriteError::Api(other))),
    }
}

/// Whether an admission policy or webhook said no to the content. Quota, rights and namespaces that
/// are being deleted answer with the same code, but pass.
fn is_policy(message: &str) -> bool {
    let denied = message.contains("denied the request") || message.contains("denied request");
    denied && !message.contains("exceeded quota")
}

/// What the failure of any other write means.
pub(super) fn on_write(error: WriteError) -> ProviderError {
    match error {
        WriteError::NotLeading(_) => ProviderError::NotLeading,
        WriteError::ForeignFence { .. }
        | WriteError::Incomplete { .. }
        | WriteError::FenceNotKept
        | WriteError::FenceNotEnforced { .. } => ProviderError::Conflict(error.to_string()),
        WriteError::Api(api) => match api {
            ApiError::Conflict { .. }
            | ApiError::AlreadyExists
            | ApiError::NotFound
            | ApiError::FenceRefused
            | ApiError::Gone => ProviderError::Conflict(api.to_string()),
            ApiError::Invalid { .. }
            | ApiError::Forbidden { .. }
            | ApiError::TooManyRequests { .. }
            | ApiError::Unavailable { .. }
            | ApiError::OutcomeUnknown { .. }
            | ApiError::Malformed { .. }
            | ApiError::Unsendable { .. } => no_answer(api.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_for_good_only_when_waiting_cannot_help() {
        let forbidden = |message: &str| ApiError::Forbidden { message: message.into() };
        for (description, error, for_good) in [
            ("schema", ApiError::Invalid { message: "image: Required value".into() }, true),
            (
                "webhook",
                forbidden("admission webhook \"policy.example\" denied the request: no root"),
                true,
            ),
            (
                "policy",
                forbidden("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no root"),
                true,
            ),
            ("quota", forbidden("jobs.batch \"a\" is forbidden: exceeded quota: jobs"), false),
            (
                "namespace",
                forbidden(
                    "unable to create new content in namespace a because it is being terminated",
                ),
                false,
            ),
            (
                "rights",
                forbidden("jobs.batch is forbidden: User \"x\" cannot create resource"),
                false,
            ),
            ("no namespace", ApiError::NotFound, false),
            ("quota conflict", ApiError::Conflict { message: "resourcequotas".into() }, false),
        ] {
            let refusal = on_create(WriteError::Api(error)).unwrap();
            assert_eq!(matches!(refusal, Refusal::ForGood(_)), for_good, "{description}");
        }
    }

    #[test]
    fn no_answer_is_not_a_refusal() {
        for error in [
            ApiError::TooManyRequests { retry_after_secs: Some(1) },
            ApiError::Unavailable { code: 500, message: "failed calling webhook".into() },
            ApiError::OutcomeUnknown { message: "reset".into() },
        ] {
            let error = on_create(WriteError::Api(error)).unwrap_err();
            assert!(matches!(error, ProviderError::Unreachable(_)), "{error}");
        }
        let lost = on_create(WriteError::NotLeading(crate::authority::NotLeading)).unwrap_err();
        assert_eq!(lost, ProviderError::NotLeading);
    }
}
