//! The table of states, and that no decision leaves it.

use serde_json::json;

use super::{
    life::{New, record},
    states::{Before, Illegal, TRANSITIONS, before, move_to, transition},
    tests::*,
    *,
};
use crate::runs::UNREACHABLE_PATIENCE;

/// What may follow what: the table once more, in the words of the contract.
fn may_follow(from: Before) -> Vec<ReportState> {
    use ReportState::*;
    match from {
        Before::New | Before::Unanswered => vec![Queued, Admitted, Failed, Cancelled, Rejected],
        Before::Is(Queued) => vec![Queued, Admitted, Failed, Cancelled],
        Before::Is(Admitted | Running | Unresolved) => {
            vec![Queued, Admitted, Running, Cancelling, Unresolved, Succeeded, Failed, Cancelled]
        }
        Before::Is(Cancelling) => {
            vec![Queued, Cancelling, Unresolved, Succeeded, Failed, Cancelled]
        }
        Before::Is(Succeeded | Failed | Cancelled | Rejected) => vec![],
    }
}

fn all_before() -> impl Iterator<Item = Before> {
    [Before::New, Before::Unanswered].into_iter().chain(ReportState::ALL.map(Before::Is))
}

/// A status in which a write finds `from`.
fn status(from: Before) -> ReportJobStatus {
    let state = match from {
        Before::New => None,
        Before::Unanswered => Some(ReportState::Queued),
        Before::Is(state) => Some(state),
    };
    let run = matches!(from, Before::Is(_)).then(RunSpec::default);
    ReportJobStatus { state, run, ..ReportJobStatus::default() }
}

fn new(of: &ReportJobStatus, state: ReportState) -> New {
    let mut record = record(of);
    (record.reason, record.message) = (None, None);
    New { record, state, retry_after: None, place: None }
}

#[test]
fn the_table_says_exactly_what_may_follow_what_and_why() {
    let now = time(CREATED);
    for from in all_before() {
        let old = status(from);
        assert_eq!(before(&old), from);
        for to in ReportState::ALL {
            let allowed = may_follow(from).contains(&to);
            assert_eq!(transition(from, to).is_some(), allowed, "{from:?} to {to:?}");
            match move_to(&old, new(&old, to), now, Some(1)) {
                Ok(written) => {
                    assert!(allowed);
                    let line = transition(from, to).unwrap();
                    assert_eq!(written.state, Some(to));
                    assert_eq!(written.reason.as_deref(), Some(line.reason));
                    assert_eq!(written.message.as_deref(), Some(line.sentence));
                }
                Err(illegal) => {
                    assert_eq!(illegal, Illegal::Transition { from, to });
                    assert!(!allowed);
                }
            }
        }
    }
}

#[test]
fn every_line_is_there_once_with_a_word_and_a_sentence() {
    for line in &TRANSITIONS {
        let same = TRANSITIONS.iter().filter(|l| (l.from, l.to) == (line.from, line.to));
        assert_eq!(same.count(), 1, "{line:?}");
        assert!(line.reason.starts_with(|c: char| c.is_ascii_uppercase()), "{line:?}");
        assert!(line.reason.chars().all(|c| c.is_ascii_alphanumeric()), "{line:?}");
        assert!(line.sentence.split(' ').count() >= 3, "{line:?}");
    }
}

#[test]
fn conditions_follow_the_state_and_every_end_is_one_of_two() {
    for from in all_before() {
        for to in may_follow(from) {
            let old = status(from);
            let written = move_to(&old, new(&old, to), time(CREATED), Some(3)).unwrap();
            let holds = |name: &str| {
                let mut found = written.conditions.iter();
                found.any(|c| c.r#type == name && c.status == ConditionStatus::True)
            };
            assert_eq!(holds("Finished"), to.is_terminal(), "{to:?}");
            assert_eq!(holds("Complete") || holds("Failed"), to.is_terminal(), "{to:?}");
            assert_eq!(holds("Complete"), to == ReportState::Succeeded, "{to:?}");
            assert!(!(holds("Complete") && holds("Failed")), "{to:?}");
            assert_eq!(holds("Unresolved"), to == ReportState::Unresolved, "{to:?}");
            assert_eq!(holds(states::ADMITTED), to.holds_slot(), "{to:?}");
            assert_eq!(written.observed_generation, Some(3));
            assert!(written.conditions.len() <= 8, "the bound of the list");
        }
    }
}

#[test]
fn an_accepted_artifact_cannot_be_replaced_or_taken_back() {
    let mut driver = Driver::plain().running();
    driver.answer(delivered());
    // As a forged decision would: the state allows the write, the artifact does not.
    let mut old = driver.status().clone();
    old.state = Some(ReportState::Running);
    let mut taken = new(&old, ReportState::Failed);
    taken.record.artifact = None;
    assert_eq!(move_to(&old, taken, driver.now, None), Err(Illegal::Artifact));
    let mut replaced = new(&old, ReportState::Succeeded);
    replaced.record.artifact.as_mut().unwrap().attempt = 2;
    assert_eq!(move_to(&old, replaced, driver.now, None), Err(Illegal::Artifact));
}

/// Everything a provider can say.
fn answers() -> Vec<Result<RunStatus, ProviderError>> {
    let mut all: Vec<_> = [
        RunStatus::Held,
        RunStatus::Released { pod: None, waiting: None },
        running(),
        RunStatus::Stopping,
        RunStatus::StoppedByOthers { message: "m".into() },
        delivered(),
        succeeded(Delivered::Unreadable, true),
        succeeded(Delivered::Nothing, false),
        failed("ExitCode", FailureClass::Transient),
        failed("Evicted", FailureClass::Disruption),
        failed("Crash", FailureClass::Deterministic),
        RunStatus::Absent,
        unknown("EndNotSeen"),
        unknown("DuplicatePod"),
    ]
    .into_iter()
    .map(Ok)
    .collect();
    all.push(Err(ProviderError::Unreachable("down".into())));
    all.push(Err(ProviderError::Conflict("changed".into())));
    all
}

/// Two answers one after another, with everything a person may want in between: no decision wants a
/// write that the table does not have (the driver checks it), none is restless, and what is over
/// stays as it is.
#[test]
fn whatever_happens_the_decision_stays_within_the_table() {
    let mut seen = std::collections::BTreeSet::new();
    for class in ["ReadOnly", "Idempotent", "Fenced"] {
        for wish in [
            json!({}),
            json!({"cancel": true}),
            json!({"resolution": {"attempt": 1, "decision": "Retry", "reason": "r", "acceptDuplicate": true}}),
            json!({"resolution": {"attempt": 1, "decision": "Failed", "reason": "r"}}),
        ] {
            for first in answers() {
                for second in answers() {
                    let run = json!({"actionClass": class, "simulated": {}});
                    let mut driver = Driver::new(&json!({"artifact": "Required", "run": run}));
                    driver.release(1);
                    driver.now += UNREACHABLE_PATIENCE;
                    driver.snapshot.heard.unreachable_since = Some(time(CREATED));
                    driver.snapshot.heard.answer = Some(first.clone());
                    driver.settle();
                    driver.patch(&wish);
                    driver.snapshot.heard.cancelled = true;
                    driver.settle();
                    driver.snapshot.heard.answer = Some(second);
                    driver.settle();
                    let end = driver.status().clone();
                    seen.insert(end.state.unwrap());
                    if end.state.unwrap().is_terminal() {
                        driver.snapshot.heard.answer = Some(first.clone());
                        driver.settle();
                        assert_eq!(*driver.status(), end);
                    }
                }
            }
        }
    }
    let never = [ReportState::Rejected];
    let reached: Vec<_> = ReportState::ALL.into_iter().filter(|s| !never.contains(s)).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), reached, "every state was met");
}
