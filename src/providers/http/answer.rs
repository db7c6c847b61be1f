//! What answers of a service mean. Pure.

use http::{Method, Response, StatusCode};

use super::{
    CallError, SendError, handle,
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

/// What metrics call a method.
pub(super) fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "other", // the contract has no more
    }
}

/// What metrics call what came back.
pub(super) fn result_of(answer: &Result<Response<Vec<u8>>, SendError>) -> &'static str {
    match answer {
        Ok(answer) if answer.status().is_success() => "ok",
        Ok(answer) if answer.status().is_client_error() => "refused",
        Ok(_) => "error",
        Err(SendError::Refused(_)) => "not_sent",
        Err(SendError::NotReached(_)) => "not_reached",
        Err(SendError::Broken(_)) => "broken",
    }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(status: u16, body: &Value) -> Answer {
        let body = match body {
            Value::String(page) => page.clone().into_bytes(),
            body => body.to_string().into_bytes(),
        };
        Answer { status: StatusCode::from_u16(status).unwrap(), body }
    }

    fn page() -> Value {
        "<html>no such page</html>".into()
    }

    fn problem(reason: &str) -> Value {
        json!({"reason": reason, "message": "words of the service"})
    }

    #[test]
    fn what_came_back_is_counted_by_a_few_words() {
        let came = |status: u16| {
            let answer = Response::builder().status(status).body(Vec::new());
            result_of(&Ok(answer.unwrap()))
        };
        let words = [200, 201, 204, 307, 404, 412, 500, 503].map(came);
        assert_eq!(words, ["ok", "ok", "ok", "error", "refused", "refused", "error", "error"]);
        let failed = |error: fn(String) -> SendError| result_of(&Err(error("why".to_owned())));
        assert_eq!(failed(SendError::Refused), "not_sent");
        assert_eq!(failed(SendError::NotReached), "not_reached");
        assert_eq!(failed(SendError::Broken), "broken");
        let methods = [Method::GET, Method::PUT, Method::POST, Method::DELETE];
        for method in methods {
            assert_eq!(method_name(&method), method.as_str());
        }
        assert_eq!(method_name(&Method::PATCH), "other");
    }

    #[test]
    fn only_a_provider_can_refuse_a_run_and_everything_else_is_no_answer() {
        let held = json!({"key": "a-m1", "state": "Held", "handle": "h"});
        for (status, body, expected) in [
            (201, held.clone(), "Ready"),
            (200, held.clone(), "Ready"),
            (200, json!({"key": "a-m1", "state": "Cancelled"}), "NoAnswer"),
            (200, page(), "NoAnswer"),
            (202, held, "NoAnswer"),
            (400, problem("Bad"), "Refused"),
            (422, problem("CannotHold"), "Refused"),
            (410, problem("Deleted"), "Refused"),
            (409, problem("KeyTaken"), "NameConflict"),
            (412, problem("EpochTooLow"), "NoAnswer"),
            (400, page(), "NoAnswer"),
            (409, page(), "NoAnswer"),
            (410, page(), "NoAnswer"),
            (301, page(), "NoAnswer"),
            (401, problem("Unauthorized"), "NoAnswer"),
            (403, page(), "NoAnswer"),
            (404, page(), "NoAnswer"),
            (404, problem("NoSuchPath"), "NoAnswer"),
            (429, page(), "NoAnswer"),
            (500, page(), "NoAnswer"),
            (503, problem("Full"), "NoAnswer"),
        ] {
            let prepared = prepared("a-m1", &answer(status, &body));
            let name = format!("{prepared:?}");
            assert!(name.starts_with(expected), "{status} {body}: {name}");
        }
    }

    #[test]
    fn a_proxys_page_says_nothing_about_a_committed_run() {
        let status = |status, body: &Value, class, stopped| {
            status_of("a-m1", "h", &answer(status, body), class, stopped)
        };
        for class in [ActionClass::ReadOnly, ActionClass::Idempotent, ActionClass::Fenced] {
            for (code, body) in [
                (404, page()),
                (404, problem("NoSuchPath")),
                (200, page()),
                (302, page()),
                (401, problem("Unauthorized")),
                (410, page()),
                (502, page()),
            ] {
                let answer = status(code, &body, class, true);
                assert!(matches!(answer, Err(ProviderError::Unreachable(_))), "{code}: {answer:?}");
            }
        }
        let unknown = status(404, &problem("UnknownRun"), ActionClass::Idempotent, true);
        assert_eq!(unknown, Ok(RunStatus::Absent));
        let unknown = status(404, &problem("UnknownRun"), ActionClass::Fenced, true);
        assert!(matches!(unknown, Ok(RunStatus::Unknown { .. })), "{unknown:?}");
    }

    #[test]
    fn a_delete_is_an_end_only_if_the_service_says_so() {
        let told = |state: &str| json!({"key": "a-m1", "state": state, "handle": "h", "startTime": "2026-11-29T02:00:00Z"});
        for (status, body, expected) in [
            (200, told("Cancelled"), "Over"),
            (200, told("Succeeded"), "Over"),
            (200, told("Failed"), "Over"),
            (200, told("Absent"), "NeverHeard"),
            (202, told("Stopping"), "NotYet"),
            (200, told("Unknown"), "NotYet"),
            (200, told("Running"), "NotYet"),
            (412, problem("EpochTooLow"), "NotYet"),
            (200, page(), "Unreachable"),
            (404, problem("UnknownRun"), "Unreachable"),
            (204, page(), "Unreachable"),
            (500, page(), "Unreachable"),
        ] {
            let ended = match Ended::of("a-m1", &answer(status, &body)) {
                Ok(Ended::Over) => "Over",
                Ok(Ended::NeverHeard) => "NeverHeard",
                Ok(Ended::NotYet(_)) => "NotYet",
                Err(_) => "Unreachable",
            };
            assert_eq!(ended, expected, "{status} {body}");
        }
    }
}
