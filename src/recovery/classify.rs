//! In which class a piece of work falls: pure.
//!
//! | durable state at takeover | then | class |
//! |---|---|---|
//! | terminal | nothing is asked or written | Preserved |
//! | nothing committed | its first pass has ended | Resumed |
//! | an attempt is committed | the provider says that it was never released | Resumed |
//! | | the provider answers anything else definite | Reconciled |
//! | | a person's decision ends it without an answer | Reconciled |
//! | | the provider says that it cannot say | Uncertain |
//! | | no answer for 60 s | Uncertain |
//! | the object is gone, its claim is not | its runs are proven over | Reconciled |
//! | | they are not, for 60 s | Uncertain |
//! | left alone: a foreign fence, unreadable | | Uncertain |

use std::fmt;

use crate::{
    api::{
        Attempt, MAX_MESSAGE_CHARS, MAX_REASON_CHARS, MaintenanceOccurrence, OccurrenceState,
        RecoveryClass, ReportJob, ReportState, truncate,
    },
    providers::{Orphans, ProviderError, RunStatus},
    runs::open_attempt,
};

/// A piece of work that a new leader found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Namespace.
    pub namespace: String,
    /// Short name of its kind, for example `mocc`.
    pub kind: &'static str,
    /// Name.
    pub name: String,
    /// Uid: an object of the same name that is made later is another item.
    pub uid: String,
}

impl fmt::Display for Item {
    /// `<namespace>/<kind>/<name>`, as scenario files write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.kind, self.name)
    }
}

/// The durable state of an item when it was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was over.
    Over,
    /// Nothing was committed that may run.
    Idle,
    /// An attempt was committed and its end is not recorded.
    Open {
        /// Whether it was Unresolved already.
        unresolved: bool,
    },
    /// The object is gone, its place is still taken.
    Gone,
    /// It cannot be read.
    Unreadable {
        /// What is wrong with it.
        error: String,
    },
}

/// How an occurrence is found.
pub fn found(occurrence: &MaintenanceOccurrence) -> Found {
    let Some(status) = &occurrence.status else { return Found::Idle };
    let state = status.state.unwrap_or(OccurrenceState::Pending);
    found_as(state.is_terminal(), state == OccurrenceState::Unresolved, &status.attempts)
}

/// How a report job is found.
pub fn found_report(report: &ReportJob) -> Found {
    let Some(status) = &report.status else { return Found::Idle };
    let state = status.state.unwrap_or(ReportState::Queued);
    found_as(state.is_terminal(), state == ReportState::Unresolved, &status.attempts)
}

fn found_as(terminal: bool, unresolved: bool, attempts: &[Attempt]) -> Found {
    match (terminal, open_attempt(attempts).is_some()) {
        (true, _) => Found::Over,
        (false, true) => Found::Open { unresolved },
        (false, false) => Found::Idle,
    }
}

/// An object once a pass over it has come to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtRest<'a> {
    /// Its uid.
    pub uid: Option<&'a str>,
    /// Whether it is over.
    pub terminal: bool,
    /// Whether nobody knows how its run ended.
    pub unresolved: bool,
    /// The reason of its state.
    pub reason: &'a str,
    /// The sentence with it.
    pub message: &'a str,
}

impl<'a> From<&'a MaintenanceOccurrence> for AtRest<'a> {
    fn from(occurrence: &'a MaintenanceOccurrence) -> Self {
        let status = occurrence.status.as_ref();
        let state = status.and_then(|status| status.state);
        Self {
            uid: occurrence.metadata.uid.as_deref(),
            terminal: state.is_some_and(OccurrenceState::is_terminal),
            unresolved: state == Some(OccurrenceState::Unresolved),
            reason: status.and_then(|status| status.reason.as_deref()).unwrap_or_default(),
            message: status.and_then(|status| status.message.as_deref()).unwrap_or_default(),
        }
    }
}

impl<'a> From<&'a ReportJob> for AtRest<'a> {
    fn from(report: &'a ReportJob) -> Self {
        let status = report.status.as_ref();
        let state = status.and_then(|status| status.state);
        Self {
            uid: report.metadata.uid.as_deref(),
            terminal: state.is_some_and(ReportState::is_terminal),
            unresolved: state == Some(ReportState::Unresolved),
            reason: status.and_then(|status| status.reason.as_deref()).unwrap_or_default(),
            message: status.and_then(|status| status.message.as_deref()).unwrap_or_default(),
        }
    }
}

/// What is known of an item, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its class.
    pub class: RecoveryClass,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

impl Verdict {
    /// A verdict; texts are cut to their bounds.
    pub fn new(class: RecoveryClass, reason: &str, message: &str) -> Self {
        Self {
            class,
            reason: truncate(reason, MAX_REASON_CHARS),
            message: truncate(message, MAX_MESSAGE_CHARS),
        }
    }

    /// Nobody could say how it stands.
    pub fn uncertain(reason: &str, message: &str) -> Self {
        Self::new(RecoveryClass::Uncertain, reason, message)
    }
}

/// What an answer says about an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Everything there is to know.
    Known(Verdict),
    /// Nothing for good. The verdict holds if it stays so for 60 s.
    NotYet(Verdict),
    /// Nothing at all.
    Nothing,
}

/// What can be said without asking anybody, when everything was listed.
pub fn at_takeover(found: &Found) -> Judgement {
    match found {
        Found::Over => Judgement::Known(Verdict::new(
            RecoveryClass::Preserved,
            "Terminal",
            "it was over and is not touched",
        )),
        Found::Unreadable { error } => Judgement::Known(Verdict::uncertain(
            "Unreadable",
            &format!("it cannot be read and is left alone: {error}"),
        )),
        Found::Idle | Found::Open { .. } | Found::Gone => Judgement::Nothing,
    }
}

/// What a provider's answer about the newest attempt says.
pub fn answered(answer: &Result<RunStatus, ProviderError>) -> Judgement {
    let reconciled = |reason: &str, message: &str| {
        Judgement::Known(Verdict::new(RecoveryClass::Reconciled, reason, message))
    };
    match answer {
        Ok(RunStatus::Held) => Judgement::Known(Verdict::new(
            RecoveryClass::Resumed,
            "Held",
            "its run was prepared and never released",
        )),
        Ok(RunStatus::Released { .. }) => reconciled("Released", "its run has not started yet"),
        Ok(RunStatus::Running { .. }) => reconciled("Running", "its run goes on"),
        Ok(RunStatus::Stopping) => reconciled("Stopping", "its run is being stopped"),
        Ok(RunStatus::StoppedByOthers { message }) => reconciled("StoppedByOthers", message),
        Ok(RunStatus::Succeeded { .. }) => reconciled("Succeeded", "its run had succeeded"),
        Ok(RunStatus::Failed { reason, message, .. }) => reconciled(reason, message),
        Ok(RunStatus::Absent) => reconciled("Absent", "its run does not exist any more"),
        Ok(RunStatus::Unknown { reason, message }) => {
            Judgement::Known(Verdict::uncertain(reason, message))
        }
        Err(error @ ProviderError::Unreachable(_)) => {
            Judgement::NotYet(Verdict::uncertain("ProviderUnreachable", &error.to_string()))
        }
        // Looked at again at once, or never by this process.
        Err(ProviderError::Conflict(_) | ProviderError::NotLeading) => Judgement::Nothing,
    }
}

/// What is known once a pass over an object has come to rest.
pub fn rested<'a>(found: &Found, object: impl Into<AtRest<'a>>) -> Judgement {
    let AtRest { terminal, unresolved, reason, message, .. } = object.into();
    let known = |class, reason| Judgement::Known(Verdict::new(class, reason, message));
    match found {
        Found::Idle => known(RecoveryClass::Resumed, "NothingRan"),
        Found::Open { .. } if terminal => known(RecoveryClass::Reconciled, reason),
        // Found open and unresolved since: nobody answered. One that was unresolved before is asked
        // for as long as any other.
        Found::Open { unresolved: false } if unresolved => known(RecoveryClass::Uncertain, reason),
        _ => Judgement::Nothing,
    }
}

/// What is known of the runs of an object that is gone or going.
pub fn orphaned(answer: &Result<Orphans, ProviderError>) -> Judgement {
    match answer {
        Ok(Orphans::Over) => Judgement::Known(Verdict::new(
            RecoveryClass::Reconciled,
            "Deleted",
            "it was deleted; its runs are proven over",
        )),
        Ok(Orphans::NotYet { message }) => {
            let message = format!("it was deleted, and its runs are not proven over: {message}");
            Judgement::NotYet(Verdict::uncertain("DeletedNotOver", &message))
        }
        Err(error @ ProviderError::Unreachable(_)) => {
            Judgement::NotYet(Verdict::uncertain("ProviderUnreachable", &error.to_string()))
        }
        Err(ProviderError::Conflict(_) | ProviderError::NotLeading) => Judgement::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::providers::FailureClass;

    fn occurrence(status: &Value) -> MaintenanceOccurrence {
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
            "metadata": {"name": "n-202611290200", "namespace": "d", "uid": "u1"},
            "spec": {"scheduleName": "n", "intendedTime": "2026-11-29T02:00:00Z"},
            "status": status,
        }))
        .unwrap()
    }

    fn attempt(outcome: &Value) -> Value {
        json!({"number": 1, "runKey": "k", "handle": "h", "epoch": 7, "outcome": outcome})
    }

    #[test]
    fn durable_state_says_how_it_is_found() {
        let open = Found::Open { unresolved: false };
        for (what, status, expected) in [
            ("never decided", Value::Null, Found::Idle),
            ("sealed, waiting", json!({"state": "Pending"}), Found::Idle),
            (
                "the next attempt is due later",
                json!({"state": "Pending", "attempts": [attempt(&json!("Failed"))]}),
                Found::Idle,
            ),
            (
                "committed",
                json!({"state": "Starting", "attempts": [attempt(&Value::Null)]}),
                open.clone(),
            ),
            (
                "being cancelled",
                json!({"state": "Cancelling", "attempts": [attempt(&Value::Null)]}),
                open.clone(),
            ),
            (
                "unresolved",
                json!({"state": "Unresolved", "attempts": [attempt(&json!("Unknown"))]}),
                Found::Open { unresolved: true },
            ),
            ("over", json!({"state": "Failed", "attempts": [attempt(&Value::Null)]}), Found::Over),
        ] {
            assert_eq!(found(&occurrence(&status)), expected, "{what}");
        }
    }

    fn class(judgement: &Judgement) -> Option<(RecoveryClass, &str)> {
        match judgement {
            Judgement::Known(verdict) => Some((verdict.class, &verdict.reason)),
            Judgement::NotYet(_) | Judgement::Nothing => None,
        }
    }

    #[test]
    fn every_answer_has_its_class() {
        use RecoveryClass::{Reconciled, Resumed, Uncertain};
        let now = "2026-11-29T02:00:00Z".parse().unwrap();
        for (answer, expected) in [
            (RunStatus::Held, (Resumed, "Held")),
            (RunStatus::Released { pod: None, waiting: None }, (Reconciled, "Released")),
            (RunStatus::Running { started: now, pod: None }, (Reconciled, "Running")),
            (
                RunStatus::Succeeded {
                    started: None,
                    completed: None,
                    result: None,
                    result_lost: false,
                    artifact: crate::providers::Delivered::Nothing,
                },
                (Reconciled, "Succeeded"),
            ),
            (
                RunStatus::Failed {
                    started: None,
                    completed: None,
                    reason: "ExitCode".into(),
                    message: "m".into(),
                    class: FailureClass::Transient,
                },
                (Reconciled, "ExitCode"),
            ),
            (RunStatus::Absent, (Reconciled, "Absent")),
            (RunStatus::Stopping, (Reconciled, "Stopping")),
            (RunStatus::StoppedByOthers { message: "m".into() }, (Reconciled, "StoppedByOthers")),
            (
                RunStatus::Unknown { reason: "EndNotSeen".into(), message: "m".into() },
                (Uncertain, "EndNotSeen"),
            ),
        ] {
            assert_eq!(class(&answered(&Ok(answer.clone()))), Some(expected), "{answer:?}");
        }
    }

    #[test]
    fn no_answer_is_not_an_answer() {
        let silent = Err(ProviderError::Unreachable("timeout".into()));
        assert!(matches!(
            answered(&silent),
            Judgement::NotYet(Verdict { class: RecoveryClass::Uncertain, ref reason, .. })
                if reason == "ProviderUnreachable"
        ));
        for error in [ProviderError::NotLeading, ProviderError::Conflict("c".into())] {
            assert_eq!(answered(&Err(error)), Judgement::Nothing);
        }
    }

    #[test]
    fn terminal_and_unreadable_ones_are_judged_at_once_and_nothing_else_is() {
        let over = at_takeover(&Found::Over);
        assert_eq!(class(&over), Some((RecoveryClass::Preserved, "Terminal")));
        let unreadable = at_takeover(&Found::Unreadable { error: "e".into() });
        assert_eq!(class(&unreadable), Some((RecoveryClass::Uncertain, "Unreadable")));
        for found in [Found::Idle, Found::Gone, Found::Open { unresolved: false }] {
            assert_eq!(at_takeover(&found), Judgement::Nothing, "{found:?}");
        }
    }

    #[test]
    fn a_pass_that_came_to_rest_says_what_no_answer_said() {
        let open = Found::Open { unresolved: false };
        let before = Found::Open { unresolved: true };
        let at = |state: &str| occurrence(&json!({"state": state, "reason": "R"}));
        for (found, now, expected) in [
            (&Found::Idle, at("Pending"), Some((RecoveryClass::Resumed, "NothingRan"))),
            (&Found::Idle, at("Superseded"), Some((RecoveryClass::Resumed, "NothingRan"))),
            (&open, at("Starting"), None),
            (&open, at("Succeeded"), Some((RecoveryClass::Reconciled, "R"))),
            (&open, at("Unresolved"), Some((RecoveryClass::Uncertain, "R"))),
            (&before, at("Unresolved"), None),
            (&before, at("Succeeded"), Some((RecoveryClass::Reconciled, "R"))),
            (&Found::Gone, at("Pending"), None),
        ] {
            assert_eq!(class(&rested(found, &now)), expected, "{found:?} {now:?}");
        }
    }

    #[test]
    fn what_is_gone_is_reconciled_only_once_its_runs_are_proven_over() {
        assert_eq!(
            class(&orphaned(&Ok(Orphans::Over))),
            Some((RecoveryClass::Reconciled, "Deleted"))
        );
        let not_yet = orphaned(&Ok(Orphans::NotYet { message: "a pod".into() }));
        assert!(matches!(not_yet, Judgement::NotYet(_)), "{not_yet:?}");
        let silent = orphaned(&Err(ProviderError::Unreachable("timeout".into())));
        assert!(matches!(silent, Judgement::NotYet(_)), "{silent:?}");
    }
}
