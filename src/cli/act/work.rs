//! One piece of work as a person sees it, whichever kind it is: an occurrence or a report job.

use std::{collections::BTreeMap, fmt};

use kube::api::ObjectMeta;
use serde::Serialize;

use crate::{
    api::{
        AcceptedArtifact, Attempt, MaintenanceOccurrence, OccurrenceState, ReportJob, ReportState,
        Resolution, ResultValue, RunSpec,
    },
    cli::target::{Target, TargetKind},
    cluster::{Object, ObjectKey},
};

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Stage {
    /// Nothing of it is prepared or runs.
    Waits,
    /// Its run is prepared, or released and not seen started.
    Starts,
    /// Its run acts.
    Runs,
    /// Its run is being stopped.
    Stops,
    /// Nobody knows how its run ended.
    Unresolved,
    /// It was cancelled.
    Cancelled,
    /// It is over, otherwise than by a cancel.
    Over,
}

/// What runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum RunsOn {
    /// A Job.
    Job,
    /// An execution service at this address.
    Service(String),
    /// Nothing: it is pretended.
    Simulation,
    /// Not known yet.
    Unknown,
}

impl RunsOn {
    pub(in crate::cli) fn of(run: Option<&RunSpec>) -> Self {
        match run {
            Some(RunSpec { job: Some(_), .. }) => Self::Job,
            Some(RunSpec { http: Some(http), .. }) => Self::Service(http.url.clone()),
            Some(RunSpec { simulated: Some(_), .. }) => Self::Simulation,
            _ => Self::Unknown,
        }
    }
}

/// What is recorded of it, for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Recorded {
    /// What it is called: `KIND/NAME`.
    pub(in crate::cli) object: String,
    /// Where it is.
    pub(in crate::cli) namespace: String,
    /// Its state, in the words of its kind.
    pub(in crate::cli) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) message: Option<String>,
    /// Number of the newest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) attempt: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) result: Option<BTreeMap<String, ResultValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) artifact: Option<AcceptedArtifact>,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.object, self.state)?;
        if let Some(reason) = self.reason.as_deref().filter(|reason| *reason != self.state) {
            write!(f, " ({reason})")?;
        }
        match self.message.as_deref().filter(|message| !message.is_empty()) {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

/// One piece of work.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Work {
    pub(in crate::cli) target: Target,
    pub(in crate::cli) uid: String,
    pub(in crate::cli) stage: Stage,
    pub(in crate::cli) recorded: Recorded,
    pub(in crate::cli) attempts: Vec<Attempt>,
    pub(in crate::cli) cancel: bool,
    pub(in crate::cli) resolution: Option<Resolution>,
    pub(in crate::cli) runs_on: RunsOn,
    /// What it holds while its run may act.
    pub(in crate::cli) holds: &'static str,
}

impl Work {
    /// Whether nothing more will happen.
    pub(in crate::cli) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Cancelled | Stage::Over)
    }
}

/// A kind of which each object is one piece of work.
pub(in crate::cli) trait Piece: Object {
    /// It, as a person sees it.
    fn work(&self) -> Work;
}

/// What both kinds record, and what people ask of both.
struct Common<'a> {
    kind: TargetKind,
    meta: &'a ObjectMeta,
    /// How far it is, and the word of its kind for that.
    stands: (Stage, String),
    /// Why, in one word and in a sentence.
    why: (Option<String>, Option<String>),
    attempts: Vec<Attempt>,
    run: Option<&'a RunSpec>,
    cancel: bool,
    resolution: Option<&'a Resolution>,
}

impl Common<'_> {
    fn work(self) -> Work {
        let ObjectKey { namespace, name } = ObjectKey::of(self.meta);
        let target = Target { kind: self.kind, name };
        let ((stage, word), (reason, message)) = (self.stands, self.why);
        Work {
            uid: self.meta.uid.clone().unwrap_or_default(),
            stage,
            recorded: Recorded {
                object: target.to_string(),
                namespace,
                state: word,
                reason,
                message,
                attempt: self.attempts.last().map(|attempt| attempt.number),
                result: None,
                artifact: None,
            },
            runs_on: RunsOn::of(self.run),
            attempts: self.attempts,
            cancel: self.cancel,
            resolution: self.resolution.cloned(),
            holds: match self.kind {
                TargetKind::ReportJob => "slot",
                _ => "place in its schedule",
            },
            target,
        }
    }
}

impl Piece for MaintenanceOccurrence {
    fn work(&self) -> Work {
        let status = self.status.clone().unwrap_or_default();
        let state = status.state.unwrap_or(OccurrenceState::Pending);
        let how_far = match state {
            OccurrenceState::Pending => Stage::Waits,
            OccurrenceState::Starting => Stage::Starts,
            OccurrenceState::Running => Stage::Runs,
            OccurrenceState::Cancelling => Stage::Stops,
            OccurrenceState::Unresolved => Stage::Unresolved,
            OccurrenceState::Cancelled => Stage::Cancelled,
            OccurrenceState::Succeeded
            | OccurrenceState::Failed
            | OccurrenceState::Skipped
            | OccurrenceState::Superseded => Stage::Over,
        };
        let common = Common {
            kind: TargetKind::MaintenanceOccurrence,
            meta: &self.metadata,
            stands: (how_far, format!("{state:?}")),
            why: (status.reason, status.message),
            attempts: status.attempts,
            run: status.run.as_ref().or(self.spec.run.as_ref()),
            cancel: self.spec.cancel,
            resolution: self.spec.resolution.as_ref(),
        };
        let mut work = common.work();
        work.recorded.result = status.result;
        work
    }
}

impl Piece for ReportJob {
    fn work(&self) -> Work {
        let status = self.status.clone().unwrap_or_default();
        let state = status.state.unwrap_or(ReportState::Queued);
        let how_far = match state {
            ReportState::Queued => Stage::Waits,
            ReportState::Admitted => Stage::Starts,
            ReportState::Running => Stage::Runs,
            ReportState::Cancelling => Stage::Stops,
            ReportState::Unresolved => Stage::Unresolved,
            ReportState::Cancelled => Stage::Cancelled,
            ReportState::Succeeded | ReportState::Failed | ReportState::Rejected => Stage::Over,
        };
        let common = Common {
            kind: TargetKind::ReportJob,
            meta: &self.metadata,
            stands: (how_far, format!("{state:?}")),
            why: (status.reason, status.message),
            attempts: status.attempts,
            run: status.run.as_ref().or(self.spec.run.as_deref()),
            cancel: self.spec.cancel,
            resolution: self.spec.resolution.as_ref(),
        };
        let mut work = common.work();
        work.recorded.result = status.result;
        work.recorded.artifact = status.artifact;
        work
    }
}

/// Work for tests.
#[cfg(test)]
pub(in crate::cli) mod made {
    use serde_json::{Value, json};

    use super::*;

    /// An occurrence with this spec laid over and this status.
    pub(in crate::cli) fn occurrence(spec: &Value, status: &Value) -> MaintenanceOccurrence {
        let mut object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
            "metadata": {"name": "nightly-202611290200", "namespace": "docs", "uid": "u1"},
            "spec": {"scheduleName": "nightly", "intendedTime": "2026-11-29T02:00:00Z"},
            "status": status,
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    /// A report job likewise.
    pub(in crate::cli) fn report(spec: &Value, status: &Value) -> ReportJob {
        let mut object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
            "metadata": {"name": "acme-1", "namespace": "docs", "uid": "u2"},
            "spec": {"queueName": "q", "tenant": "acme"},
            "status": status,
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    /// An attempt that is not over.
    pub(in crate::cli) fn attempt(number: i32) -> Value {
        json!({"number": number, "runKey": format!("k-m{number}"), "handle": "h", "epoch": 7})
    }

    /// An attempt that failed.
    pub(in crate::cli) fn failed(number: i32) -> Value {
        let mut one = attempt(number);
        one["outcome"] = json!("Failed");
        one
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_are_one_to_a_person() {
        let mocc = made::occurrence(
            &json!({}),
            &json!({"state": "Running", "reason": "Running", "attempts": [made::attempt(2)],
                    "run": {"simulated": {}}}),
        )
        .work();
        assert_eq!((mocc.stage, mocc.runs_on.clone()), (Stage::Runs, RunsOn::Simulation));
        assert_eq!(mocc.recorded.to_string(), "mocc/nightly-202611290200 is Running");
        assert_eq!(mocc.recorded.attempt, Some(2));
        let rjob = made::report(&json!({"run": {"http": {"url": "https://r/v1"}}}), &json!({}));
        let rjob = rjob.work();
        assert_eq!(rjob.stage, Stage::Waits, "nobody has looked at it yet");
        assert_eq!(rjob.runs_on, RunsOn::Service("https://r/v1".to_owned()));
        assert_eq!(rjob.recorded.attempt, None);
        let full = json!({"state": "Failed", "reason": "ExitCode", "message": "exit code 3"});
        let over = made::report(&json!({}), &full).work();
        assert!(over.is_over());
        assert_eq!(over.recorded.to_string(), "rjob/acme-1 is Failed (ExitCode): exit code 3");
    }
}
