//! More rules of the decision, on the same driver.

use serde_json::json;

use super::{tests::*, *};
use crate::{
    api::PodRef,
    providers::{FailureClass, Waiting},
};

#[test]
fn a_new_leader_follows_what_runs_without_a_new_attempt() {
    let mut driver = Driver::fenced().running();
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    driver.snapshot.heard.answer = None;
    assert_eq!(driver.decide().step, Step::Ask { attempt: 1 });
    driver.snapshot.heard.answer = Some(Ok(succeeded()));
    driver.settle();
    assert_eq!(driver.outcome().0, OccurrenceState::Succeeded);
    assert_eq!(driver.status().attempts.len(), 1);
}

#[test]
fn a_terminal_one_is_never_touched_again() {
    let mut driver = Driver::fenced().running();
    driver.answer(succeeded());
    for standing in [Standing::Undecided, Standing::Ghost { skipped: None }, Standing::ScheduleGone]
    {
        driver.snapshot.standing = standing;
        driver.cancel();
        driver.snapshot.heard.answer = Some(Ok(failed("ExitCode", FailureClass::Transient)));
        assert_eq!(driver.decide(), Decision::wait());
    }
}

#[test]
fn one_that_has_not_started_after_all_does_not_say_that_it_runs() {
    let mut driver = Driver::fenced().released();
    driver.now = time("2026-11-29T02:00:30Z");
    driver.answer(released());
    assert_eq!(driver.outcome(), (OccurrenceState::Starting, "Released"));
    driver.answer(running());
    assert_eq!(driver.outcome(), (OccurrenceState::Running, "Running"));
    driver.answer(released());
    assert_eq!(driver.outcome(), (OccurrenceState::Starting, "Released"));
}

#[test]
fn what_is_held_without_a_claim_is_stopped_and_never_released() {
    let mut driver = Driver::fenced();
    assert!(matches!(driver.settle(), Step::Prepare { attempt: 1, .. }));
    driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: "job-uid".into() });
    assert_eq!(driver.settle(), Step::Ask { attempt: 1 });
    driver.snapshot.standing = Standing::Ghost { skipped: None };
    assert_eq!(driver.answer(RunStatus::Held), Step::Cancel { attempt: 1, recorded: false });
    assert_eq!(driver.outcome(), (OccurrenceState::Cancelling, "NotClaimed"));
    driver.snapshot.heard.cancelled = true;
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (OccurrenceState::Superseded, "NotClaimed"));
}

#[test]
fn cancel_records_the_wish_before_it_stops_anything() {
    let mut driver = Driver::fenced().running();
    driver.cancel();
    let Step::Write(status) = driver.step() else { panic!("records first") };
    assert!(status.attempts[0].stop_requested_time.is_some());
    assert_eq!(driver.outcome(), (OccurrenceState::Cancelling, "CancelRequested"));
    assert_eq!(driver.settle(), Step::Cancel { attempt: 1, recorded: false });
    driver.snapshot.heard.cancelled = true;
    assert_eq!(
        driver.answer(RunStatus::Stopping),
        Step::Wait,
        "Cancelling until the provider confirms"
    );
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (OccurrenceState::Cancelled, "CancelRequested"));
}

#[test]
fn a_run_that_someone_else_removes_says_so_while_its_end_is_awaited() {
    let mut driver = Driver::fenced().running();
    driver.answer(RunStatus::Stopping);
    assert_eq!(driver.outcome(), (OccurrenceState::Running, "GoingAway"));
    assert!(driver.status().message.as_deref().unwrap().contains("deleted by someone else"));
    assert_eq!(driver.answer(RunStatus::Stopping), Step::Wait, "it is said once");
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (OccurrenceState::Failed, "Deleted"));
}

#[test]
fn the_end_of_a_run_is_noticed_within_two_seconds() {
    let mut asked = Driver::fenced().running();
    let soon = asked.now + SignedDuration::from_secs(2);
    assert_eq!(asked.decide().wake_at, Some(soon), "nobody tells of a simulated one");
    let template = json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}});
    let job = json!({"run": {"simulated": null, "job": {"template": template}}});
    let mut told = Driver::new(&job).running();
    let wake = told.decide().wake_at.unwrap();
    assert!(wake > told.now + SignedDuration::from_secs(2), "a Job tells by watch");
}

#[test]
fn a_new_leader_seals_before_it_stops_what_its_predecessor_wanted_stopped() {
    let mut driver = Driver::fenced().running();
    driver.cancel();
    assert!(matches!(driver.step(), Step::Write(_)), "the wish is recorded");
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    let Step::Write(status) = driver.decide().step else { panic!("seals before it cancels") };
    assert!(status.attempts[0].stop_requested_time.is_some());
}

#[test]
fn how_a_stopped_run_ends() {
    use OccurrenceState::{Cancelled, Failed, Succeeded};
    let transient = || failed("ExitCode", FailureClass::Transient);
    for (answer, state, reason) in [
        (RunStatus::Absent, Cancelled, "CancelRequested"),
        (transient(), Cancelled, "CancelRequested"),
        (succeeded(), Succeeded, "Completed"),
    ] {
        let mut driver = Driver::fenced().running();
        driver.cancel();
        driver.settle();
        driver.answer(answer);
        assert_eq!(driver.outcome(), (state, reason));
    }
    let mut never = Driver::fenced().released().at("2026-11-29T02:10:02Z");
    assert_eq!(never.answer(released()), Step::Cancel { attempt: 1, recorded: false });
    never.answer(RunStatus::Absent);
    assert_eq!(never.outcome(), (Failed, "NeverStarted"));
    let mut long = Driver::new(&json!({"run": {"simulated": {}, "timeoutSeconds": 60}}))
        .running()
        .at("2026-11-29T02:01:03Z");
    assert_eq!(long.settle(), Step::Cancel { attempt: 1, recorded: false });
    long.answer(transient());
    assert_eq!(long.outcome(), (Failed, "DeadlineExceeded"));
    let mut stopped = Driver::fenced().running();
    assert_eq!(
        stopped.answer(RunStatus::StoppedByOthers { message: "m".into() }),
        Step::Cancel { attempt: 1, recorded: false }
    );
    stopped.answer(RunStatus::Absent);
    assert_eq!(stopped.outcome(), (Failed, "SuspendedByOthers"));
}

#[test]
fn what_keeps_a_run_from_starting_is_said_once_and_at_the_end() {
    let waiting = |reason: &str| RunStatus::Released {
        pod: Some(PodRef { uid: "p1".into(), node: Some("n".into()), node_uid: None }),
        waiting: Some(Waiting {
            reason: reason.into(),
            message: "no such image".into(),
            class: FailureClass::Deterministic,
        }),
    };
    let mut driver = Driver::fenced().released();
    driver.answer(waiting("ErrImagePull"));
    assert_eq!(driver.outcome(), (OccurrenceState::Starting, "ErrImagePull"));
    assert_eq!(driver.status().attempts[0].pod.as_ref().unwrap().uid, "p1", "the proof for later");
    let writes = driver.writes;
    driver.answer(waiting("ImagePullBackOff"));
    assert_eq!(driver.writes, writes);
    driver.now = time("2026-11-29T02:10:30Z");
    driver.answer(waiting("ErrImagePull"));
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (OccurrenceState::Failed, "NeverStarted"));
    assert!(
        driver.status().message.as_ref().unwrap().contains("no such image"),
        "{:?}",
        driver.status().message
    );
}

#[test]
fn a_run_cut_short_by_its_own_deadline_is_not_early() {
    let mut driver = Driver::new(&json!({"run": {"simulated": {}, "timeoutSeconds": 60}}))
        .running()
        .at("2026-11-29T02:01:02Z");
    assert_eq!(driver.settle(), Step::Wait);
    assert_eq!(driver.decide().wake_at, Some(time("2026-11-29T02:01:03Z")));
}

#[test]
fn a_wrong_clock_ends_and_starts_nothing() {
    let mut driver = Driver::new(&json!({"run": {"simulated": {}, "timeoutSeconds": 60}}))
        .running()
        .at("2026-11-29T09:00:00Z");
    driver.snapshot.trust_clock = false;
    assert_eq!(driver.settle(), Step::Wait, "not stopped as too long");
    assert!(driver.decide().wake_at.is_some_and(|at| at > driver.now), "nor asked without pause");
    driver.snapshot.trust_clock = true;
    assert_eq!(driver.settle(), Step::Cancel { attempt: 1, recorded: false });
    let deadline = Some(time("2026-11-29T02:00:00Z"));
    let mut late = Driver::fenced().standing(Standing::Started {
        not_before: time(T),
        deadline,
        replaced: false,
    });
    late.snapshot.trust_clock = false;
    assert_eq!(late.settle(), Step::Wait, "not skipped as too late");
    assert!(late.decide().wake_at.is_some());
}

#[test]
fn a_job_deleted_by_others_fails() {
    let mut driver = Driver::fenced().running();
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (OccurrenceState::Failed, "Deleted"));
}

#[test]
fn unknown_outcomes_by_action_class() {
    for class in ["Fenced", "Idempotent"] {
        let run = json!({"run": {"actionClass": class, "maxAttempts": 3, "simulated": {}}});
        let mut driver = Driver::new(&run).running();
        driver.answer(unknown("EndNotSeen"));
        assert_eq!(driver.outcome(), (OccurrenceState::Unresolved, "EndNotSeen"), "{class}");
        assert_eq!(driver.status().attempts.len(), 1);
        let writes = driver.writes;
        driver.now = time("2026-11-29T09:00:00Z");
        assert_eq!(driver.settle(), Step::Wait, "{class}: never retried by itself");
        assert_eq!(driver.writes, writes);
    }
    let run = json!({"run": {"actionClass": "ReadOnly", "maxAttempts": 2, "simulated": {}}});
    let mut read = Driver::new(&run).running();
    assert_eq!(
        read.answer(unknown("EndNotSeen")),
        Step::Cancel { attempt: 1, recorded: false },
        "what is left of it is stopped first"
    );
    read.snapshot.heard.cancelled = true;
    read.settle();
    assert_eq!(read.outcome(), (OccurrenceState::Pending, "RetryScheduled"));
}

#[test]
fn a_definite_answer_resolves() {
    for (answer, state) in [
        (succeeded(), OccurrenceState::Succeeded),
        (failed("ExitCode", FailureClass::Transient), OccurrenceState::Failed),
        (running(), OccurrenceState::Running),
    ] {
        let mut driver = Driver::fenced().running();
        driver.answer(unknown("EndNotSeen"));
        driver.answer(answer);
        assert_eq!(driver.outcome().0, state);
    }
}

#[test]
fn unreachable_is_not_unknown_for_a_minute() {
    let mut driver = Driver::fenced().running();
    let since = driver.now;
    driver.snapshot.heard.answer = Some(Err(ProviderError::Unreachable("timeout".into())));
    driver.snapshot.heard.unreachable_since = Some(since);
    assert_eq!(driver.settle(), Step::Wait);
    assert!(driver.decide().wake_at.is_some(), "asked again");
    driver.now = since + SignedDuration::from_secs(59);
    assert_eq!(driver.settle(), Step::Wait);
    assert_eq!(driver.outcome().0, OccurrenceState::Running);
    driver.now = since + UNREACHABLE_PATIENCE;
    driver.settle();
    assert_eq!(driver.outcome(), (OccurrenceState::Unresolved, "ProviderUnreachable"));
    assert!(driver.decide().wake_at.is_some(), "asking goes on");
}

#[test]
fn a_second_pod_is_stopped_and_unresolved() {
    let mut driver = Driver::fenced().running();
    assert_eq!(
        driver.answer(unknown("DuplicatePod")),
        Step::Cancel { attempt: 1, recorded: false }
    );
    driver.snapshot.heard.cancelled = true;
    driver.settle();
    assert_eq!(driver.outcome(), (OccurrenceState::Unresolved, "DuplicatePod"));
    // That both are over says nothing about what they did: a person decides, or cancels.
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (OccurrenceState::Unresolved, "DuplicatePod"));
    driver.cancel();
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome().0, OccurrenceState::Cancelled);
}

#[test]
fn retries_are_bounded_by_class_and_number() {
    let run = |max: i32| json!({"run": {"actionClass": "Idempotent", "maxAttempts": max, "simulated": {}}});
    let attempts = |max: i32, reason: &str, class: FailureClass| {
        let mut driver = Driver::new(&run(max));
        for n in 1..=20 {
            if driver.settle() == Step::Wait {
                let Some(next) =
                    driver.snapshot.occurrence.status.as_ref().and_then(|s| s.next_attempt_time)
                else {
                    return n - 1;
                };
                assert!(next.0 > driver.now, "backs off");
                driver.now = next.0;
                driver.settle();
            }
            driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: format!("h{n}") });
            driver.settle();
            driver.snapshot.heard.prepared = None;
            driver.answer(failed(reason, class));
            driver.snapshot.heard.answer = None;
        }
        20
    };
    assert_eq!(attempts(1, "ExitCode", FailureClass::Transient), 1);
    assert_eq!(attempts(4, "ExitCode", FailureClass::Transient), 4);
    assert_eq!(
        attempts(9, "OOMKilled", FailureClass::Deterministic),
        2,
        "the second equal one stops it"
    );
    assert_eq!(
        attempts(2, "Evicted", FailureClass::Disruption),
        1 + MAX_DISRUPTIONS,
        "counted apart"
    );
    assert_eq!(attempts(1, "Evicted", FailureClass::Disruption), 1, "one attempt means one");
}

#[test]
fn a_resolution_counts_only_for_the_unresolved_attempt_it_names() {
    let resolution = |attempt: i32, decision: &str| json!({"resolution": {"attempt": attempt, "decision": decision, "reason": "looked"}});
    let mut wrong = Driver::fenced().running();
    wrong.patch(&resolution(1, "Succeeded"));
    assert_eq!(wrong.settle(), Step::Wait, "it runs: the decision is ignored");
    for (decision, state) in
        [("Succeeded", OccurrenceState::Succeeded), ("Failed", OccurrenceState::Failed)]
    {
        let mut driver = Driver::fenced().running();
        driver.answer(unknown("EndNotSeen"));
        driver.patch(&resolution(2, decision));
        assert_eq!(driver.settle(), Step::Wait, "another attempt is named");
        driver.patch(&resolution(1, decision));
        assert_eq!(
            driver.settle(),
            Step::Cancel { attempt: 1, recorded: true },
            "the old handle is cancelled, after recording"
        );
        assert_eq!(driver.outcome(), (state, "ResolvedByPerson"));
        driver.snapshot.heard.cancelled = true;
        assert_eq!(driver.settle(), Step::Wait);
    }
}

#[test]
fn a_retry_by_a_person_needs_proof_or_acceptance() {
    let retry = |accept: bool| json!({"resolution": {"attempt": 1, "decision": "Retry", "reason": "looked", "acceptDuplicate": accept}});
    let unresolved = |accept: bool| {
        let mut driver = Driver::fenced().running();
        driver.answer(unknown("EndNotSeen"));
        driver.patch(&retry(accept));
        assert_eq!(
            driver.settle(),
            Step::Cancel { attempt: 1, recorded: false },
            "the old handle is cancelled first"
        );
        driver.snapshot.heard.cancelled = true;
        driver
    };
    let mut proven = unresolved(false);
    proven.snapshot.heard.answer = Some(Ok(RunStatus::Absent));
    assert!(matches!(proven.settle(), Step::Prepare { attempt: 2, .. }), "beyond maxAttempts");
    let mut unproven = unresolved(false);
    assert_eq!(unproven.answer(unknown("EndNotSeen")), Step::Wait);
    assert_eq!(unproven.outcome().0, OccurrenceState::Unresolved);
    let mut accepted = unresolved(true);
    let next = accepted.answer(unknown("EndNotSeen"));
    assert!(matches!(next, Step::Prepare { attempt: 2, .. }), "{next:?}");
    assert_eq!(accepted.status().attempts.len(), 1);
}

#[test]
fn a_cancel_of_an_unresolved_one_waits_for_proof() {
    let mut driver = Driver::fenced().running();
    driver.answer(unknown("EndNotSeen"));
    driver.cancel();
    assert_eq!(driver.settle(), Step::Cancel { attempt: 1, recorded: false });
    driver.snapshot.heard.cancelled = true;
    driver.settle();
    assert_eq!(driver.outcome().0, OccurrenceState::Unresolved);
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (OccurrenceState::Cancelled, "CancelRequested"));
}

#[test]
fn what_is_being_deleted_is_left_to_the_stop_by_parent() {
    let mut driver = Driver::fenced().running();
    driver.snapshot.occurrence.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(driver.now));
    assert_eq!(driver.decide(), Decision::wait());
}
