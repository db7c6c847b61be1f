//! How reports end: cancels, retries, artifacts, unknown outcomes.

use serde_json::json;

use super::{tests::*, *};
use crate::api::AttemptOutcome;

fn transient() -> RunStatus {
    failed("ExitCode", FailureClass::Transient)
}

fn person(decision: &str, accept_duplicate: bool, attempt: i32) -> serde_json::Value {
    json!({"resolution": {"attempt": attempt, "decision": decision, "reason": "I looked",
           "acceptDuplicate": accept_duplicate}})
}

#[test]
fn a_queued_one_is_cancelled_in_one_write() {
    for standing in [waits(), Standing::Undecided, Standing::QueueNotFound, admitted(1)] {
        let mut driver = Driver::plain();
        driver.settle();
        driver.snapshot.standing = standing.clone();
        driver.cancel();
        let writes = driver.writes;
        assert_eq!(driver.settle(), Step::Wait);
        assert_eq!(driver.outcome(), (ReportState::Cancelled, "CancelRequested"), "{standing:?}");
        assert_eq!(driver.writes, writes + 1);
        assert!(driver.holds("Failed") && !driver.holds("Complete"));
        assert!(attempt_is_over(driver.status(), 1), "the place is free in that write");
    }
    let mut unseen = Driver::plain();
    unseen.cancel();
    unseen.settle();
    assert_eq!(unseen.outcome(), (ReportState::Cancelled, "CancelRequested"));
}

#[test]
fn an_admitted_or_running_one_is_cancelling_until_the_provider_confirms() {
    for (mut driver, seen) in [
        (Driver::plain().released(), RunStatus::Released { pod: None, waiting: None }),
        (Driver::plain().released(), RunStatus::Held),
        (Driver::plain().running(), running()),
    ] {
        driver.snapshot.heard.answer = Some(Ok(seen));
        driver.cancel();
        let Step::Write(status) = driver.step() else { panic!("records first") };
        assert!(status.attempts[0].stop_requested_time.is_some());
        assert_eq!(driver.outcome(), (ReportState::Cancelling, "CancelRequested"));
        assert!(driver.holds(states::ADMITTED), "the slot stays taken");
        assert!(!attempt_is_over(driver.status(), 1));
        assert_eq!(driver.settle(), Step::Cancel { attempt: 1, recorded: false });
        driver.snapshot.heard.cancelled = true;
        assert_eq!(driver.answer(RunStatus::Stopping), Step::Wait);
        assert_eq!(driver.outcome().0, ReportState::Cancelling);
        driver.answer(RunStatus::Absent);
        assert_eq!(driver.outcome(), (ReportState::Cancelled, "CancelRequested"));
        assert!(attempt_is_over(driver.status(), 1));
    }
}

#[test]
fn cancel_beats_retry_and_an_accepted_artifact_beats_a_later_cancel() {
    let mut fails = Driver::plain().running();
    fails.cancel();
    fails.settle();
    fails.answer(transient());
    assert_eq!(fails.outcome(), (ReportState::Cancelled, "CancelRequested"), "no retry");
    let mut between = Driver::plain().running();
    between.answer(transient());
    assert_eq!(between.outcome(), (ReportState::Queued, "RetryScheduled"));
    between.cancel();
    between.settle();
    assert_eq!(between.outcome(), (ReportState::Cancelled, "CancelRequested"));
    let mut done = Driver::plain().running();
    done.answer(delivered());
    done.cancel();
    assert_eq!(done.settle(), Step::Wait);
    assert_eq!(done.outcome(), (ReportState::Succeeded, "Completed"));
    assert!(done.status().artifact.is_some());
    let mut faster = Driver::plain().running();
    faster.cancel();
    faster.settle();
    faster.answer(delivered());
    assert_eq!(faster.outcome(), (ReportState::Succeeded, "Completed"), "it was done before");
}

#[test]
fn a_retry_waits_in_the_queue_for_another_admission() {
    let mut driver = Driver::plain().running();
    driver.answer(transient());
    assert_eq!(driver.outcome(), (ReportState::Queued, "RetryScheduled"));
    assert!(!driver.holds(states::ADMITTED), "its slot is free");
    assert!(attempt_is_over(driver.status(), 1) && !attempt_is_over(driver.status(), 2));
    let next = driver.status().next_attempt_time.unwrap().0;
    let delay = next.duration_since(driver.now).as_secs();
    assert!((15..=30).contains(&delay), "30 s, half of it jitter: {delay}");
    let writes = driver.writes;
    for standing in [admitted(1), waits(), Standing::Undecided] {
        driver.snapshot.standing = standing.clone();
        assert_eq!(driver.settle(), Step::Wait, "{standing:?}");
        assert_eq!(driver.decide().wake_at, Some(next), "{standing:?}");
    }
    driver.snapshot.standing = admitted(2);
    assert_eq!(driver.settle(), Step::Wait, "admitted too early, it waits all the same");
    driver.now = next;
    driver.snapshot.standing =
        Standing::Accepted { reason: RETRY_BUDGET_EXHAUSTED, message: "m".into() };
    driver.settle();
    assert_eq!(driver.outcome(), (ReportState::Queued, RETRY_BUDGET_EXHAUSTED));
    assert_eq!(driver.writes, writes + 1);
    driver.release(2);
    assert_eq!(driver.status().attempt, Some(2));
    assert_ne!(driver.status().attempts[0].run_key, driver.status().attempts[1].run_key);
    driver.answer(delivered());
    assert_eq!(driver.status().artifact.as_ref().unwrap().attempt, 2);
}

/// Fails `answers` one after another; how many attempts there were, and how it ended.
fn attempts(spec: &serde_json::Value, answers: &[RunStatus]) -> (usize, String) {
    let mut driver = Driver::new(spec);
    let mut number = 0;
    for answer in answers.iter().cycle() {
        number += 1;
        driver.release(number);
        driver.answer(answer.clone());
        if driver.outcome().0 != ReportState::Queued {
            break;
        }
        driver.now = driver.status().next_attempt_time.unwrap().0;
        driver.snapshot.standing = waits();
    }
    let (state, reason) = driver.outcome();
    (driver.status().attempts.len(), format!("{state:?}/{reason}"))
}

#[test]
fn attempts_are_bounded_by_what_failed() {
    let plain = json!({});
    assert_eq!(attempts(&plain, &[transient()]), (3, "Failed/ExitCode".into()), "the default");
    let five = json!({"run": {"simulated": {}, "maxAttempts": 5}});
    assert_eq!(attempts(&five, &[transient()]).0, 5);
    let crash = failed("Crash", FailureClass::Deterministic);
    assert_eq!(attempts(&five, std::slice::from_ref(&crash)).0, 2, "the second equal one");
    assert_eq!(attempts(&five, &[crash, transient()]).0, 3);
    let evicted = failed("Evicted", FailureClass::Disruption);
    assert_eq!(attempts(&plain, std::slice::from_ref(&evicted)), (6, "Failed/Evicted".into()));
    let mut mixed = vec![evicted; 5];
    mixed.extend([transient(), transient(), transient()]);
    assert_eq!(attempts(&plain, &mixed), (8, "Failed/ExitCode".into()), "counted apart");
}

#[test]
fn what_an_artifact_means() {
    use ReportState::{Failed, Succeeded, Unresolved};
    let some = || Delivered::Artifact(artifact());
    for (policy, delivered, lost, state, reason) in [
        ("Optional", some(), false, Succeeded, "Completed"),
        ("Optional", Delivered::Nothing, false, Succeeded, "Completed"),
        ("Optional", Delivered::Nothing, true, Succeeded, "ResultLost"),
        ("Optional", Delivered::Unreadable, false, Succeeded, "ResultLost"),
        ("Required", some(), false, Succeeded, "Completed"),
        ("Required", some(), true, Succeeded, "ResultLost"),
        ("Required", Delivered::Unreadable, true, Unresolved, "ResultLost"),
        ("Required", Delivered::Nothing, false, Failed, "ArtifactMissing"),
    ] {
        let mut driver = Driver::new(&json!({"artifact": policy})).running();
        let accepts = delivered == some();
        driver.answer(succeeded(delivered, lost));
        assert_eq!(driver.outcome(), (state, reason), "{policy}");
        assert_eq!(driver.status().artifact.is_some(), accepts);
    }
}

#[test]
fn a_report_that_owes_its_artifact_waits_for_a_person_or_ends_with_a_cancel() {
    let owes = || {
        let mut driver = Driver::new(&json!({"artifact": "Required"})).running();
        driver.answer(succeeded(Delivered::Unreadable, true));
        assert_eq!(driver.outcome(), (ReportState::Unresolved, "ResultLost"));
        driver
    };
    let mut found = owes();
    found.answer(delivered());
    assert_eq!(found.outcome(), (ReportState::Succeeded, "Completed"), "a definite answer");
    let mut word = owes();
    word.patch(&person("Succeeded", false, 1));
    word.settle();
    assert_eq!(word.outcome(), (ReportState::Succeeded, "ResolvedByPerson"));
    let mut again = owes();
    again.patch(&person("Retry", false, 1));
    again.settle();
    assert_eq!(again.outcome(), (ReportState::Queued, "RetryRequested"), "it is over, so at once");
    again.release(2);
    let mut cancelled = owes();
    cancelled.cancel();
    cancelled.settle();
    assert_eq!(cancelled.outcome().0, ReportState::Cancelled, "nothing of it acts");
    let mut missing = Driver::new(&json!({"artifact": "Required"})).running();
    missing.cancel();
    missing.settle();
    missing.answer(succeeded(Delivered::Nothing, false));
    assert_eq!(missing.outcome().0, ReportState::Cancelled, "it failed after its cancel");
}

#[test]
fn unknown_outcomes_by_action_class() {
    for (class, state, reason) in [
        ("Idempotent", ReportState::Unresolved, "EndNotSeen"),
        ("Fenced", ReportState::Unresolved, "EndNotSeen"),
    ] {
        let mut driver = Driver::new(&json!({"run": {"actionClass": class, "simulated": {}}}));
        driver.release(1);
        driver.answer(unknown("EndNotSeen"));
        assert_eq!(driver.outcome(), (state, reason), "{class}");
        assert!(driver.holds("Unresolved") && driver.holds(states::ADMITTED), "its slot is held");
        assert!(!attempt_is_over(driver.status(), 1));
        driver.answer(running());
        assert_eq!(driver.outcome(), (ReportState::Running, "Running"), "a definite answer");
        assert!(!driver.holds("Unresolved"));
    }
    let mut reads = Driver::new(&json!({"run": {"actionClass": "ReadOnly", "simulated": {}}}));
    reads.release(1);
    assert_eq!(reads.answer(unknown("EndNotSeen")), Step::Cancel { attempt: 1, recorded: false });
    reads.snapshot.heard.cancelled = true;
    reads.answer(RunStatus::Absent);
    assert_eq!(reads.outcome(), (ReportState::Queued, "RetryScheduled"));
}

#[test]
fn silence_is_unresolved_after_a_minute_and_keeps_the_slot() {
    let mut driver = Driver::plain().running();
    driver.snapshot.heard.answer = Some(Err(ProviderError::Unreachable("down".into())));
    driver.snapshot.heard.unreachable_since = Some(driver.now);
    assert_eq!(driver.settle(), Step::Wait);
    driver.now += runs::UNREACHABLE_PATIENCE;
    driver.settle();
    assert_eq!(driver.outcome(), (ReportState::Unresolved, "ProviderUnreachable"));
    assert!(driver.holds(states::ADMITTED));
}

#[test]
fn a_person_decides_only_what_is_unresolved_and_retries_need_proof() {
    let mut early = Driver::plain().running();
    early.patch(&person("Failed", false, 1));
    early.snapshot.job.metadata.generation = Some(2);
    early.settle();
    assert_eq!(early.outcome().0, ReportState::Running);
    assert_eq!(early.notes.last().unwrap().reason, "ResolutionIgnored");
    let mut driver = Driver::plain().running();
    driver.answer(unknown("EndNotSeen"));
    driver.patch(&person("Retry", false, 1));
    assert_eq!(driver.settle(), Step::Cancel { attempt: 1, recorded: false });
    driver.snapshot.heard.cancelled = true;
    driver.settle();
    assert_eq!(driver.outcome().0, ReportState::Unresolved, "no proof");
    driver.patch(&person("Retry", true, 1));
    driver.settle();
    assert_eq!(driver.outcome(), (ReportState::Queued, "RetryRequested"));
    assert_eq!(driver.status().attempts[0].outcome, Some(AttemptOutcome::Failed));
    assert_eq!(may_deliver_late(driver.status()), [1]);
}

#[test]
fn a_late_artifact_of_another_attempt_is_refused_and_told() {
    let mut driver = Driver::plain().running();
    let late = |attempt| Late { attempt, answer: delivered() };
    driver.snapshot.late = vec![late(1)];
    assert!(driver.decide().notes.is_empty(), "it is open: its answer is not late");
    driver.snapshot.late.clear();
    driver.answer(unknown("EndNotSeen"));
    driver.snapshot.heard.cancelled = true;
    driver.patch(&person("Retry", true, 1));
    driver.settle();
    driver.now += SignedDuration::from_secs(60);
    driver.release(2);
    driver.snapshot.late = vec![late(1), Late { attempt: 1, answer: transient() }];
    let notes = driver.decide().notes;
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].reason, "ArtifactRefused");
    assert!(notes[0].message.contains("attempt 1") && notes[0].message.contains("s3://reports/1"));
    driver.snapshot.late.clear();
    driver.answer(succeeded(
        Delivered::Artifact(Artifact { uri: "s3://reports/2".into(), ..artifact() }),
        false,
    ));
    let accepted = driver.status().artifact.clone();
    assert_eq!(accepted.as_ref().unwrap().attempt, 2);
    driver.snapshot.late = vec![late(1), late(2)];
    let notes = driver.decide().notes;
    assert_eq!(notes.len(), 1, "that of the attempt that counts is no news: {notes:?}");
    driver.settle();
    assert_eq!(driver.status().artifact, accepted);
}

#[test]
fn a_terminal_one_is_never_touched_again_and_a_deleted_one_starts_nothing() {
    let mut driver = Driver::plain().running();
    driver.answer(delivered());
    let gone = [Standing::Ghost, Standing::ScheduleGone];
    for standing in [Standing::Undecided, waits(), admitted(2)].into_iter().chain(gone) {
        driver.snapshot.standing = standing;
        driver.snapshot.place = Some(Place { position: Some("1".into()), estimated_start: None });
        driver.cancel();
        driver.snapshot.heard.answer = Some(Ok(transient()));
        assert_eq!(driver.decide(), Decision::wait());
    }
    let mut deleted = Driver::plain().standing(admitted(1));
    deleted.snapshot.job.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(deleted.now));
    assert_eq!(deleted.decide(), Decision::wait());
}

#[test]
fn what_is_held_without_a_claim_is_stopped_and_never_released() {
    let mut driver = Driver::plain();
    driver.settle();
    driver.snapshot.standing = admitted(1);
    assert!(matches!(driver.settle(), Step::Prepare { attempt: 1, .. }));
    driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: "job-uid".into() });
    assert_eq!(driver.settle(), Step::Ask { attempt: 1 });
    driver.snapshot.standing = Standing::Ghost;
    assert_eq!(driver.answer(RunStatus::Held), Step::Cancel { attempt: 1, recorded: false });
    assert_eq!(driver.outcome(), (ReportState::Cancelling, "NotClaimed"));
    driver.snapshot.heard.cancelled = true;
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (ReportState::Cancelled, "NotClaimed"));
}

#[test]
fn an_admitted_one_that_cannot_be_prepared_fails() {
    for (prepared, reason) in [
        (Prepared::Refused { message: "m".into() }, "RunRefused"),
        (Prepared::NameConflict { message: "m".into() }, "NameConflict"),
    ] {
        let mut driver = Driver::plain().standing(admitted(1));
        driver.settle();
        driver.snapshot.heard.prepared = Some(prepared);
        driver.settle();
        assert_eq!(driver.outcome(), (ReportState::Failed, reason));
    }
    let mut later = Driver::plain().standing(admitted(1));
    later.settle();
    later.snapshot.heard.prepared = Some(Prepared::NotYet { message: "quota".into() });
    later.settle();
    assert_eq!(later.outcome(), (ReportState::Queued, "CreateRefused"));
    later.now += SignedDuration::from_mins(10);
    later.settle();
    assert_eq!(later.outcome(), (ReportState::Failed, "CreateRefused"));
}
