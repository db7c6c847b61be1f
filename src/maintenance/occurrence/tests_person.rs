//! Attempts whose outcome nobody knows, and people's decisions about them.

use serde_json::{Value, json};

use super::{tests::*, *};
use crate::providers::FailureClass;

/// An occurrence that may be tried `max` times, unresolved after its first attempt.
fn unresolved(max: i32) -> Driver {
    let run = json!({"run": {"actionClass": "Fenced", "maxAttempts": max, "simulated": {}}});
    let mut driver = Driver::new(&run).running();
    driver.answer(unknown("EndNotSeen"));
    assert_eq!(driver.outcome(), (OccurrenceState::Unresolved, "EndNotSeen"));
    driver
}

fn decision(attempt: i32, decision: &str, accept: bool) -> Value {
    json!({"resolution": {
        "attempt": attempt, "decision": decision, "reason": "looked", "acceptDuplicate": accept,
    }})
}

/// Asked for another attempt, and the old run was asked to stop once in this pass.
fn retrying(accept: bool) -> Driver {
    let mut driver = unresolved(1);
    driver.patch(&decision(1, "Retry", accept));
    assert_eq!(driver.settle(), Step::Cancel { attempt: 1, recorded: false });
    driver.snapshot.heard.cancelled = true;
    driver
}

fn stopping() -> RunStatus {
    RunStatus::Stopping
}

impl Driver {
    /// A change of the spec, as the API server stores it.
    fn edit(&mut self, spec: &Value) {
        self.patch(spec);
        let generation = &mut self.snapshot.occurrence.metadata.generation;
        *generation = generation.map(|generation| generation + 1);
    }

    fn told(&self, reason: &str) -> usize {
        self.notes.iter().filter(|note| note.reason == reason).count()
    }

    /// A new pass: what was asked and done in the last one is forgotten.
    fn pass(&mut self) {
        self.snapshot.heard.answer = None;
        self.snapshot.heard.cancelled = false;
    }
}

#[test]
fn a_retry_stays_unresolved_until_the_old_run_is_proven_over() {
    for accept in [false, true] {
        for answer in [running(), stopping(), released(), RunStatus::Held] {
            let mut driver = retrying(accept);
            assert_eq!(driver.answer(answer.clone()), Step::Wait, "{answer:?}");
            assert_eq!(driver.outcome().0, OccurrenceState::Unresolved, "{answer:?}");
            assert!(driver.decide().wake_at.is_some(), "{answer:?}: looked at again");
            driver.pass();
            assert_eq!(driver.settle(), Step::Ask { attempt: 1 });
            assert_eq!(
                driver.answer(answer.clone()),
                Step::Cancel { attempt: 1, recorded: false },
                "{answer:?}: and asked to stop again"
            );
            driver.snapshot.heard.cancelled = true;
            assert!(matches!(driver.answer(RunStatus::Absent), Step::Prepare { attempt: 2, .. }));
        }
    }
}

#[test]
fn what_was_said_of_an_attempt_says_nothing_of_the_next_one() {
    let old =
        [RunStatus::Absent, failed("ExitCode", FailureClass::Transient), unknown("EndNotSeen")];
    for answer in old {
        let mut driver = retrying(true);
        let next = driver.answer(answer.clone());
        assert!(matches!(next, Step::Prepare { attempt: 2, .. }), "{answer:?}: {next:?}");
        driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: "second".into() });
        // In the same pass: it is asked about, not judged by what its predecessor was.
        assert_eq!(driver.settle(), Step::Ask { attempt: 2 }, "{answer:?}");
        assert_eq!(driver.outcome().0, OccurrenceState::Starting, "{answer:?}");
    }
}

#[test]
fn accepting_a_duplicate_counts_only_when_the_provider_cannot_say() {
    let mut cannot_say = retrying(true);
    let next = cannot_say.answer(unknown("EndNotSeen"));
    assert!(matches!(next, Step::Prepare { attempt: 2, .. }), "{next:?}");
    let mut not_accepted = retrying(false);
    assert_eq!(not_accepted.answer(unknown("EndNotSeen")), Step::Wait);
    // No answer is no answer for a minute.
    let mut silent = retrying(true);
    silent.snapshot.heard.answer = Some(Err(ProviderError::Unreachable("timeout".into())));
    silent.snapshot.heard.unreachable_since = Some(silent.now);
    assert_eq!(silent.settle(), Step::Wait);
    silent.now += UNREACHABLE_PATIENCE;
    let next = silent.settle();
    assert!(matches!(next, Step::Prepare { attempt: 2, .. }), "{next:?}");
}

#[test]
fn the_old_run_is_cancelled_before_a_duplicate_also_by_the_next_leader() {
    let mut driver = unresolved(1);
    driver.patch(&decision(1, "Retry", true));
    driver.settle();
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    driver.snapshot.heard.answer = Some(Ok(unknown("EndNotSeen")));
    assert!(matches!(driver.decide().step, Step::Write(_)), "it seals first");
    driver.snapshot.occurrence.status.as_mut().unwrap().fence = Some(driver.snapshot.fence.clone());
    assert_eq!(driver.decide().step, Step::Cancel { attempt: 1, recorded: false });
}

#[test]
fn a_definite_success_wins_over_a_retry() {
    let mut driver = retrying(true);
    driver.answer(succeeded());
    assert_eq!(driver.outcome(), (OccurrenceState::Succeeded, "Completed"));
}

#[test]
fn a_retry_is_told_once_and_the_proof_of_the_old_run_is_recorded() {
    let mut driver = retrying(false);
    let moved = RunStatus::Running {
        started: time("2026-11-29T02:00:03Z"),
        pod: Some(crate::api::PodRef { uid: "p2".into(), node: None, node_uid: None }),
    };
    driver.answer(moved);
    assert_eq!(driver.status().attempts[0].pod.as_ref().unwrap().uid, "p2");
    assert_eq!((driver.told("Resolved"), driver.told("Stopping")), (0, 1));
    driver.answer(RunStatus::Absent);
    assert_eq!((driver.told("Resolved"), driver.told("Stopping")), (1, 1));
    assert_eq!(driver.status().attempts[0].reason.as_deref(), Some("RetryRequested"));
}

#[test]
fn a_retry_by_a_person_is_charged_to_no_budget() {
    for (max, attempts) in [(1, 2), (2, 3)] {
        let mut driver = unresolved(max);
        driver.patch(&decision(1, "Retry", false));
        driver.settle();
        driver.snapshot.heard.cancelled = true;
        driver.answer(RunStatus::Absent);
        for n in 2..=9 {
            driver.pass();
            driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: format!("h{n}") });
            driver.settle();
            driver.snapshot.heard.prepared = None;
            driver.answer(failed("ExitCode", FailureClass::Transient));
            let Some(next) = driver.status().next_attempt_time else { break };
            driver.now = next.0;
        }
        assert_eq!(driver.outcome().0, OccurrenceState::Failed);
        assert_eq!(driver.status().attempts.len(), attempts, "maxAttempts {max}");
    }
}

#[test]
fn a_decision_names_the_attempt_that_it_is_about_also_after_a_retry() {
    let mut driver = retrying(false);
    driver.answer(RunStatus::Absent);
    driver.pass();
    driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: "h2".into() });
    driver.settle();
    driver.snapshot.heard.prepared = None;
    driver.answer(running());
    driver.answer(unknown("EndNotSeen"));
    assert_eq!(driver.status().attempts.len(), 2);
    assert_eq!(driver.settle(), Step::Wait, "the decision about the first is used up");
    driver.edit(&decision(2, "Failed", false));
    driver.settle();
    assert_eq!(driver.outcome(), (OccurrenceState::Failed, "ResolvedByPerson"));
}

#[test]
fn a_cancel_during_a_retry_starts_nothing() {
    let mut driver = retrying(false);
    driver.cancel();
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (OccurrenceState::Cancelled, "CancelRequested"));
    assert_eq!(driver.status().attempts.len(), 1);
}

#[test]
fn no_retry_beyond_the_attempts_that_are_kept() {
    let mut driver = unresolved(1);
    let status = driver.snapshot.occurrence.status.as_mut().unwrap();
    let first = status.attempts[0].clone();
    let number = |n: usize| i32::try_from(n).unwrap();
    status.attempts =
        (1..=MAX_ATTEMPTS).map(|n| Attempt { number: number(n), ..first.clone() }).collect();
    driver.edit(&decision(number(MAX_ATTEMPTS), "Retry", false));
    assert_eq!(driver.settle(), Step::Wait);
    assert_eq!(driver.told("ResolutionIgnored"), 1);
    driver.edit(&decision(number(MAX_ATTEMPTS), "Failed", false));
    driver.settle();
    assert_eq!(driver.outcome(), (OccurrenceState::Failed, "ResolvedByPerson"));
}

/// Settles as the hands do, which remember what was told.
fn settle_and_remember(driver: &mut Driver) -> Step {
    let before = driver.notes.len();
    let step = driver.settle();
    if driver.notes[before..].iter().any(is_about_ignored) {
        driver.snapshot.told = driver.snapshot.occurrence.metadata.generation;
    }
    step
}

#[test]
fn a_decision_that_does_not_apply_is_ignored_and_told_once() {
    let pending = || Driver::fenced().standing(Standing::Waiting);
    let over = || {
        let mut driver = Driver::fenced().running();
        driver.answer(succeeded());
        driver
    };
    let cases = [
        ("nothing was tried", pending(), 1, "the newest attempt is 0"),
        ("it runs", Driver::fenced().running(), 1, "it is Running, not Unresolved"),
        ("another attempt", unresolved(1), 2, "the newest attempt is 1"),
        ("it is over", over(), 1, "it is over (Succeeded)"),
    ];
    for (what, mut driver, attempt, why) in cases {
        driver.edit(&decision(attempt, "Failed", false));
        let state = driver.snapshot.occurrence.status.as_ref().and_then(|status| status.state);
        for _ in 0..3 {
            assert_eq!(settle_and_remember(&mut driver), Step::Wait, "{what}");
        }
        let now = driver.snapshot.occurrence.status.as_ref().and_then(|status| status.state);
        assert!(state.is_none() || state == now, "{what}");
        let told: Vec<&Note> =
            driver.notes.iter().filter(|n| n.reason == "ResolutionIgnored").collect();
        assert_eq!(told.len(), 1, "{what}: {told:?}");
        assert!(told[0].warning && told[0].message.ends_with(why), "{what}: {told:?}");
        driver.edit(&json!({"resolution": null}));
        settle_and_remember(&mut driver);
        assert_eq!(driver.told("ResolutionIgnored"), 1, "{what}");
    }
}

#[test]
fn a_decision_that_had_its_effect_is_not_told_as_ignored() {
    for which in ["Succeeded", "Failed", "Retry"] {
        let mut driver = unresolved(1);
        driver.edit(&decision(1, which, false));
        driver.settle();
        driver.snapshot.heard.cancelled = true;
        driver.answer(RunStatus::Absent);
        // Another change of the spec, long after.
        driver.edit(&json!({"cancel": true}));
        driver.settle();
        assert_eq!(driver.told("ResolutionIgnored"), 0, "{which}");
    }
}

#[test]
fn a_changed_run_is_ignored_and_told_once() {
    let mut driver = Driver::fenced().running();
    driver.edit(&json!({"run": {"actionClass": "Fenced", "simulated": {"durationSeconds": 9}}}));
    for _ in 0..3 {
        assert_eq!(settle_and_remember(&mut driver), Step::Wait);
    }
    assert_eq!(driver.told("SpecChanged"), 1);
    driver.answer(failed("ExitCode", FailureClass::Transient));
    assert_eq!(driver.told("SpecChanged"), 1, "the write records the generation");
    driver.snapshot.told = None;
    driver.settle();
    assert_eq!(driver.told("SpecChanged"), 1, "also for the next leader");
    assert_eq!(
        driver.status().run.as_ref().unwrap().simulated,
        Some(crate::api::SimulatedRun::default()),
        "what was recorded first is what ran"
    );
}

#[test]
fn a_run_that_was_not_changed_is_not_told_of() {
    let mut driver = Driver::fenced().running();
    driver.edit(&json!({"cancel": true}));
    driver.settle();
    assert_eq!(driver.told("SpecChanged"), 0);
    let mut by_hand = Driver::new(&json!({"run": null, "scheduleUID": null}));
    by_hand.snapshot.schedule_run =
        serde_json::from_value(json!({"simulated": {"durationSeconds": 3}})).unwrap();
    let mut by_hand = by_hand.running();
    by_hand.edit(&json!({"cancel": true}));
    by_hand.settle();
    assert_eq!(by_hand.told("SpecChanged"), 0, "it has no run of its own");
}

#[test]
fn what_a_person_decided_stays_whatever_the_provider_says_later() {
    let mut driver = unresolved(1);
    driver.edit(&decision(1, "Succeeded", false));
    assert_eq!(driver.settle(), Step::Cancel { attempt: 1, recorded: true });
    driver.snapshot.heard.cancelled = true;
    driver.answer(failed("ExitCode", FailureClass::Transient));
    assert_eq!(driver.outcome(), (OccurrenceState::Succeeded, "ResolvedByPerson"));
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    driver.snapshot.heard.cancelled = false;
    assert_eq!(driver.settle(), Step::Wait, "a later term leaves the record alone");
}

#[test]
fn an_unresolved_one_that_turns_out_to_be_held_or_released_goes_on() {
    let mut driver = unresolved(1);
    assert_eq!(driver.answer(RunStatus::Held), Step::Release { attempt: 1 });
    assert_eq!(driver.answer(released()), Step::Wait);
    assert_eq!(driver.outcome(), (OccurrenceState::Starting, "Released"));
    assert_eq!(driver.status().attempts[0].outcome, None, "it is not unknown any more");
    let condition = |driver: &Driver| conditions::unresolved_since(driver.status());
    assert_eq!(condition(&driver), None);
}

#[test]
fn asking_ends_exactly_when_patience_does() {
    let mut driver = Driver::fenced().running();
    let since = driver.now;
    driver.snapshot.heard.answer = Some(Err(ProviderError::Unreachable("timeout".into())));
    driver.snapshot.heard.unreachable_since = Some(since);
    driver.now = since + SignedDuration::from_millis(59_900);
    assert_eq!(driver.decide().wake_at, Some(since + UNREACHABLE_PATIENCE));
}

#[test]
fn a_read_of_unknown_outcome_is_stopped_before_it_is_repeated() {
    let read = |max: i32| {
        let run = json!({"run": {"actionClass": "ReadOnly", "maxAttempts": max, "simulated": {}}});
        let mut driver = Driver::new(&run).running();
        let step = driver.answer(unknown("EndNotSeen"));
        (driver, step)
    };
    let asked = Step::Cancel { attempt: 1, recorded: false };
    for answer in [RunStatus::Absent, failed("X", FailureClass::Transient), unknown("EndNotSeen")] {
        let (mut driver, step) = read(2);
        assert_eq!(step, asked);
        assert!(driver.status().attempts[0].stop_requested_time.is_some());
        driver.snapshot.heard.cancelled = true;
        driver.answer(answer.clone());
        assert_eq!(driver.outcome(), (OccurrenceState::Pending, "RetryScheduled"), "{answer:?}");
    }
    let (mut goes_on, _) = read(2);
    goes_on.snapshot.heard.cancelled = true;
    goes_on.answer(stopping());
    assert_eq!(goes_on.outcome().0, OccurrenceState::Cancelling, "waits while it is there");
    goes_on.cancel();
    goes_on.answer(RunStatus::Absent);
    assert_eq!(goes_on.outcome(), (OccurrenceState::Cancelled, "CancelRequested"));
    let (last, step) = read(1);
    assert_eq!(step, Step::Wait);
    assert_eq!(last.outcome(), (OccurrenceState::Unresolved, "EndNotSeen"), "no attempt is left");
}
