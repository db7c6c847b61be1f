//! What answers of a service mean. Pure.

use http::StatusCode;

use super::{
    CallError, handle,
    wire::{self, Problem, State, Told},
};
use crate::{
    api::ActionClass,
    providers::{Prepared, ProviderError, RunStatus},
};

/// An answer of a service.
pub(super) struct Answer {
    /// Status.
    pub(super) status: StatusCode,
    /// Body, as it came.
    pub(super) body: Vec<u8>,
}

/// What the answer to a DELETE says of the run.
pub(super) enum Ended {
    /// It acts no more and never will.
    Over,
    /// Its service had never heard of it, or has forgotten it, and will not accept it any more.
    NeverHeard,
    /// It may still act, and why.
    NotYet(String),
}

impl Ended {
    /// Reads the answer.
    pub(super) fn of(key: &str, answer: &Answer) -> Result<Self, ProviderError> {
        match answer.status {
            StatusCode::OK | StatusCode::ACCEPTED => {
                let told = Told::read(key, &answer.body).map_err(ProviderError::Unreachable)?;
                Ok(match told.state {
                    State::Absent => Self::NeverHeard,
                    _ if told.is_over() => Self::Over,
                    _ => Self::NotYet(format!("run {key} is being stopped by its service")),
                })
            }
            StatusCode::PRECONDITION_FAILED => Ok(Self::NotYet(format!(
                "its service has seen a newer epoch for run {key} than this term's"
            ))),
            _ => Err(no_answer(answer).into()),
        }
    }
}

/// What the answer to a PUT means.
pub(super) fn prepared(key: &str, answer: &Answer) -> Prepared {
    let no_answer = |message| Prepared::NoAnswer { message };
    match answer.status {
        StatusCode::OK | StatusCode::CREATED => match Told::read(key, &answer.body) {
            Err(why) => no_answer(why),
            Ok(told) => match told.handle.as_deref() {
                Some(given) => Prepared::Ready { handle: handle(key, given) },
                None => no_answer("the service gave no handle for the run".to_owned()),
            },
        },
        StatusCode::PRECONDITION_FAILED => {
            no_answer("the service has seen a newer epoch for this run than this term's".to_owned())
        }
        StatusCode::CONFLICT if says_why(answer) => {
            let message = Problem::read(&answer.body).or("the service has another run of this key");
            Prepared::NameConflict { message }
        }
        // What is no answer of a provider (a proxy's page) refuses nothing for ever.
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::GONE
            if says_why(answer) =>
        {
            let words = Problem::read(&answer.body).or("without words");
            Prepared::Refused {
                message: format!("the service at run.http.url refuses it: {words}"),
            }
        }
        _ => no_answer(words_of(answer)),
    }
}

/// Whether a refusal is one of a provider.
fn says_why(answer: &Answer) -> bool {
    !Problem::read(&answer.body).reason.is_empty()
}

/// What the answer to a GET means for a committed run.
pub(super) fn status_of(
    key: &str,
    given: &str,
    answer: &Answer,
    class: ActionClass,
    stopped: bool,
) -> Result<RunStatus, ProviderError> {
    let absence_suffices = stopped && class != ActionClass::Fenced;
    match answer.status {
        StatusCode::OK => Told::read(key, &answer.body)
            .map(|told| told.status(given, absence_suffices))
            .map_err(ProviderError::Unreachable),
        StatusCode::NOT_FOUND if Problem::read(&answer.body).reason == "UnknownRun" => {
            Ok(wire::not_known(absence_suffices))
        }
        StatusCode::PRECONDITION_FAILED => Ok(RunStatus::Unknown {
            reason: "EpochRefused".to_owned(),
            message:
                "its service has seen a newer epoch for this run than this term's, so it does \
                      not say how the run stands"
                    .to_owned(),
        }),
        _ => Err(no_answer(answer).into()),
    }
}

/// An answer that says nothing about the run.
pub(super) fn no_answer(answer: &Answer) -> CallError {
    CallError::NoAnswer(words_of(answer))
}

/// What such an answer said, and what may help.
fn words_of(answer: &Answer) -> String {
    let status = answer.status.as_u16();
    let hint = match answer.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; it needs other credentials (run.http.credentialsSecretRef)"
        }
        StatusCode::NOT_FOUND => "; run.http.url may not be the address of a provider",
        code if code.is_redirection() => "; redirects are not followed: write the final address",
        _ => "",
    };
    let words = Problem::read(&answer.body).or("");
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    format!("the service answered {status}{words}{hint}")
}

/// A committed handle of which this provider knows nothing.
pub(super) fn not_committed_here() -> RunStatus {
    RunStatus::Unknown {
        reason: "EndNotSeen".to_owned(),
        message: "what was committed is not a run of an execution service".to_owned(),
    }
}

/// Said of a run of a parent that is gone, if its service does not know it.
pub(super) fn not_remembered(key: &str) -> String {
    format!(
        "its service does not know run {key}, so nothing shows whether it is over; once it is, add \
         the uid of its object to spec.abandon"
    )
}
