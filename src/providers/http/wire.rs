//! What goes over the wire, as `docs/reference/provider.openapi.yaml` has it. Pure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    api::{ActionClass, MAX_MESSAGE_CHARS, truncate},
    providers::{FailureClass, RunRequest, RunStatus, Waiting, job::report::Report},
};

/// Header with the epoch of the term that asks.
pub const EPOCH_HEADER: &str = "punctual-epoch";
/// Longest handle that a service may give, in characters: with the run key it fits into
/// `status.attempts[n].handle`.
pub const MAX_HANDLE_CHARS: usize = 64;
/// Reason of a run of which the service knows nothing, or not what was committed.
const END_NOT_SEEN: &str = "EndNotSeen";

/// Body of `PUT /runs/{key}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewRun<'a> {
    /// Equal over attempts.
    #[serde(rename = "requestID")]
    pub(super) request_id: &'a str,
    /// Number of the attempt, from 1.
    pub(super) attempt: i32,
    /// What the run may do.
    pub(super) action_class: ActionClass,
    /// Whether it must not begin before it is released: a service that cannot promise it refuses.
    pub(super) hold: bool,
    /// The parameters.
    pub(super) parameters: Value,
    /// The intended instant, if the work has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) intended_time: Option<String>,
    /// The tenant, if it is a report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<&'a str>,
}

impl<'a> NewRun<'a> {
    /// What a service is told of a run.
    pub(super) fn of(request: &'a RunRequest) -> Self {
        let parameters = request.run.parameters.iter().flat_map(|all| all.iter());
        let parameters = parameters.map(|(key, value)| (key.clone(), value.clone().into()));
        Self {
            request_id: &request.request_id,
            attempt: request.attempt,
            action_class: request.class,
            hold: request.class == ActionClass::Fenced,
            parameters: Value::Object(parameters.collect::<Map<_, _>>()),
            intended_time: request.intended_time.map(|at| at.to_string()),
            tenant: request.queue.as_ref().map(|queue| queue.tenant.as_str()),
        }
    }
}

/// Body of `POST /runs/{key}/release`.
#[derive(Debug, Serialize)]
pub(super) struct Release<'a> {
    /// The committed handle.
    pub(super) handle: &'a str,
}

/// What a service can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Capabilities {
    /// Whether it holds a run until it is released.
    pub(super) hold: bool,
}

/// What a service says of a request that it does not carry out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Problem {
    /// One word.
    #[serde(default)]
    pub(super) reason: String,
    /// One sentence.
    #[serde(default)]
    pub(super) message: String,
}

impl Problem {
    /// Reads what a service says; words that cannot be read are left out.
    pub(super) fn read(body: &[u8]) -> Self {
        let problem: Self = serde_json::from_slice(body).unwrap_or_default();
        Self {
            reason: truncate(&problem.reason, MAX_REASON_SHOWN),
            message: truncate(&problem.message, MAX_MESSAGE_CHARS / 2),
        }
    }

    /// The words, or `else_` if there are none.
    pub(super) fn or(self, else_: &str) -> String {
        match (self.reason.is_empty(), self.message.is_empty()) {
            (_, false) => self.message,
            (false, true) => self.reason,
            (true, true) => else_.to_owned(),
        }
    }
}

/// Most characters of a service's reason that a sentence repeats.
const MAX_REASON_SHOWN: usize = 63;

/// Where a run stands at its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum State {
    /// Recorded; does not act before it is released.
    Held,
    /// Released; has not begun.
    Released,
    /// Acts.
    Running,
    /// Was asked to stop, and may still act.
    Stopping,
    /// Ended with success.
    Succeeded,
    /// Ended with failure.
    Failed,
    /// Was stopped, or deleted before it began; acts no more and never will.
    Cancelled,
    /// The service had never heard of it when it was deleted; it will not accept it any more.
    Absent,
    /// The service knows it and cannot say whether it acts.
    Unknown,
}

/// A run, as its service tells it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    /// Where it stands.
    pub(super) state: State,
    /// The handle, if it ever had one.
    pub(super) handle: Option<String>,
    start_time: Option<Timestamp>,
    completion_time: Option<Timestamp>,
    message: String,
    report: Report,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    key: String,
    state: State,
    #[serde(default)]
    handle: Option<String>,
    #[serde(default)]
    start_time: Option<Timestamp>,
    #[serde(default)]
    completion_time: Option<Timestamp>,
    #[serde(default)]
    message: Option<String>,
}

impl Told {
    /// Reads the run `key`. What does not keep to the contract is no answer; the sentence says why.
    pub(super) fn read(key: &str, body: &[u8]) -> Result<Self, String> {
        let content: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| "its answer is no JSON object".to_owned())?;
        let report = Report::of(&content);
        let fields: Fields = serde_json::from_value(Value::Object(content)).map_err(|error| {
            format!("its answer is not that of the contract: {}", truncate(&error.to_string(), 200))
        })?;
        if fields.key != key {
            return Err("it answered for another run".to_owned());
        }
        if let Some(handle) = &fields.handle
            && !is_handle(handle)
        {
            return Err(format!(
                "it gave a handle that is not 1 to {MAX_HANDLE_CHARS} letters, digits, dots, \
                 underscores and hyphens"
            ));
        }
        let needs_handle = matches!(fields.state, State::Held | State::Released | State::Running);
        if needs_handle && fields.handle.is_none() {
            return Err("it gave no handle for a run that it holds or runs".to_owned());
        }
        if fields.state == State::Running && fields.start_time.is_none() {
            return Err("it gave no startTime for a run that acts".to_owned());
        }
        Ok(Self {
            state: fields.state,
            handle: fields.handle,
            start_time: fields.start_time,
            completion_time: fields.completion_time,
            message: truncate(fields.message.as_deref().unwrap_or_default(), MAX_MESSAGE_CHARS / 2),
            report,
        })
    }

    /// Whether it cannot act any more, and that is certain. [`State::Absent`] is not: the service may
    /// have forgotten a run that it had.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Succeeded | State::Failed | State::Cancelled)
    }

    /// The status of the run whose committed handle is `handle`. `absence_suffices`: whether it is
    /// enough for its class that the service does not know it.
    pub(super) fn status(self, handle: &str, absence_suffices: bool) -> RunStatus {
        if self.handle.as_deref().is_some_and(|given| given != handle) {
            return unknown(
                "HandleChanged",
                "the service has another run under this key than the one that was committed",
            );
        }
        let (started, completed) = (self.start_time, self.completion_time);
        match self.state {
            State::Held => RunStatus::Held,
            State::Released => RunStatus::Released { pod: None, waiting: self.waiting() },
            State::Running => match started {
                Some(started) => RunStatus::Running { started, pod: None },
                None => unknown(END_NOT_SEEN, "the service does not say since when it acts"),
            },
            State::Stopping => RunStatus::Stopping,
            State::Succeeded => RunStatus::Succeeded {
                started,
                completed,
                result: self.report.result,
                result_lost: self.report.lost,
                artifact: self.report.artifact,
            },
            State::Failed => RunStatus::Failed {
                started,
                completed,
                class: failure_class(&self.report),
                reason: self.report.reason.unwrap_or_else(|| "ProviderFailed".to_owned()),
                message: or_else(self.message, "its service says that it failed"),
            },
            State::Cancelled => RunStatus::Absent,
            State::Absent => not_known(absence_suffices),
            State::Unknown => unknown(
                END_NOT_SEEN,
                &or_else(self.message, "its service cannot say how it stands"),
            ),
        }
    }

    fn waiting(&self) -> Option<Waiting> {
        let reason = self.report.reason.clone()?;
        let message = self.message.clone();
        Some(Waiting { reason, message, class: FailureClass::Transient })
    }
}

/// A committed run that its service does not know. It may have been released before, and then it may
/// have run.
pub(super) fn not_known(absence_suffices: bool) -> RunStatus {
    if absence_suffices {
        return RunStatus::Absent;
    }
    unknown(END_NOT_SEEN, "its service does not know this run any more, so nobody saw how it ended")
}

fn unknown(reason: &str, message: &str) -> RunStatus {
    RunStatus::Unknown { reason: reason.to_owned(), message: message.to_owned() }
}

fn or_else(message: String, else_: &str) -> String {
    if message.is_empty() { else_.to_owned() } else { message }
}

fn failure_class(report: &Report) -> FailureClass {
    match report.reason.as_deref() {
        Some("Evicted" | "Preempted" | "NodeLost") => FailureClass::Disruption,
        _ if report.retryable == Some(false) => FailureClass::Deterministic,
        _ => FailureClass::Transient,
    }
}

/// Whether a handle can be kept in a status.
fn is_handle(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=MAX_HANDLE_CHARS).contains(&text.len()) && text.bytes().all(plain)
}

/// The run key of the attempt after this one, for keys that end in `-m<N>` or `-r<N>`.
pub(super) fn next_key(key: &str) -> Option<String> {
    let cut = key.rfind(['m', 'r'])? + 1;
    let number: u32 = key.get(cut..)?.parse().ok()?;
    Some(format!("{}{}", &key[..cut], number.checked_add(1)?))
}

/// The number of the attempt in a run key.
pub(super) fn number_of(key: &str) -> Option<u32> {
    key.get(key.rfind(['m', 'r'])? + 1..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(told: &Value) -> Result<Told, String> {
        Told::read("a-m1", told.to_string().as_bytes())
    }

    #[test]
    fn what_does_not_keep_to_the_contract_is_no_answer() {
        for (description, told, part) in [
            ("no object", json!([1]), "no JSON object"),
            ("no state", json!({"key": "a-m1"}), "missing field"),
            ("another state", json!({"key": "a-m1", "state": "Sleeping"}), "unknown variant"),
            ("another run", json!({"key": "a-m2", "state": "Cancelled"}), "another run"),
            ("held without a handle", json!({"key": "a-m1", "state": "Held"}), "no handle"),
            (
                "a handle with a slash",
                json!({"key": "a-m1", "state": "Held", "handle": "a/b"}),
                "handle that is not",
            ),
            (
                "an empty handle",
                json!({"key": "a-m1", "state": "Held", "handle": ""}),
                "handle that is not",
            ),
            (
                "a handle that is too long",
                json!({"key": "a-m1", "state": "Held", "handle": "h".repeat(65)}),
                "handle that is not",
            ),
            (
                "running since never",
                json!({"key": "a-m1", "state": "Running", "handle": "h"}),
                "no startTime",
            ),
            (
                "a time that is none",
                json!({"key": "a-m1", "state": "Running", "handle": "h", "startTime": "noon"}),
                "not that of the contract",
            ),
        ] {
            let why = read(&told).unwrap_err();
            assert!(why.contains(part), "{description}: {why}");
        }
        assert!(Told::read("a-m1", b"<html>").is_err());
        let tombstone = read(&json!({"key": "a-m1", "state": "Absent", "more": 1})).unwrap();
        assert!(!tombstone.is_over(), "it may have been forgotten");
    }

    #[test]
    fn what_a_service_writes_is_cut_before_it_is_kept() {
        let long = "x".repeat(5000);
        let told = json!({"key": "a-m1", "state": "Unknown", "handle": "h", "message": long});
        match read(&told).unwrap().status("h", false) {
            RunStatus::Unknown { message, .. } => assert!(message.chars().count() <= 512),
            other => panic!("{other:?}"),
        }
        let problem =
            Problem::read(json!({"reason": long, "message": long}).to_string().as_bytes());
        assert!(problem.reason.len() < 80 && problem.message.len() < 600);
        assert_eq!(Problem::read(b"<html>").or("no words"), "no words");
    }

    #[test]
    fn keys_of_attempts_follow_one_another() {
        let id = "4c78fa5c685dd0f1904515254e6e61c1";
        assert_eq!(next_key(&format!("{id}-m9")), Some(format!("{id}-m10")));
        assert_eq!(next_key(&format!("{id}-0a1b2c3d-r1")), Some(format!("{id}-0a1b2c3d-r2")));
        assert_eq!(number_of(&format!("{id}-m12")), Some(12));
        assert_eq!((next_key("nothing"), number_of("-m")), (None, None));
    }
}
