//! Every rule of the decision, one case each. The driver applies writes as the API server would.

use serde_json::{Value, json};

use super::*;
use crate::time::SkipReason;

const T: &str = "2026-11-29T02:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn fence() -> Fence {
    Fence { epoch: 7, nonce: "n7".into() }
}

/// A driver: a snapshot whose writes are applied, as the hands do it.
struct Driver {
    snapshot: Snapshot,
    now: Timestamp,
    writes: usize,
    notes: Vec<Note>,
}

impl Driver {
    fn new(spec: &Value) -> Self {
        let mut manifest = json!({
            "apiVersion": "punctual.dev/v1alpha1",
            "kind": "MaintenanceOccurrence",
            "metadata": {"name": "nightly-202611290200", "namespace": "d", "uid": "u1", "resourceVersion": "5", "generation": 1},
            "spec": {"scheduleName": "nightly", "intendedTime": T, "scheduleUID": "s1",
                     "run": {"actionClass": "Fenced", "simulated": {}}},
        });
        merge(&mut manifest["spec"], spec);
        Self {
            snapshot: Snapshot {
                occurrence: serde_json::from_value(manifest).unwrap(),
                standing: Standing::Started {
                    not_before: time(T),
                    deadline: None,
                    replaced: false,
                },
                schedule_run: None,
                prepared: None,
                answer: None,
                unreachable_since: None,
                cancelled: false,
                trust_clock: true,
                fence: fence(),
            },
            now: time("2026-11-29T02:00:01Z"),
            writes: 0,
            notes: Vec::new(),
        }
    }

    fn fenced() -> Self {
        Self::new(&json!({}))
    }

    fn standing(mut self, standing: Standing) -> Self {
        self.snapshot.standing = standing;
        self
    }

    fn at(mut self, text: &str) -> Self {
        self.now = time(text);
        self
    }

    fn decide(&mut self) -> Decision {
        let decision = decide(&self.snapshot, self.now);
        assert_eq!(decision, decide(&self.snapshot, self.now), "same snapshot, same decision");
        decision
    }

    /// Takes one step; a write is stored with the present fence.
    fn step(&mut self) -> Step {
        let decision = self.decide();
        self.notes.extend(decision.notes);
        if let Step::Write(status) = &decision.step {
            let mut status = (**status).clone();
            status.fence = Some(fence());
            self.snapshot.occurrence.status = Some(status);
            self.writes += 1;
            assert!(self.writes < 50, "does not come to rest");
        }
        decision.step
    }

    /// Steps until something else than a write is wanted.
    fn settle(&mut self) -> Step {
        loop {
            let step = self.step();
            if !matches!(step, Step::Write(_)) {
                return step;
            }
        }
    }

    fn answer(&mut self, answer: RunStatus) -> Step {
        self.snapshot.answer = Some(Ok(answer));
        self.settle()
    }

    /// Prepared, committed and released.
    fn released(mut self) -> Self {
        assert!(matches!(self.settle(), Step::Prepare { attempt: 1, .. }));
        self.snapshot.prepared = Some(Prepared::Ready { handle: "job-uid".into() });
        assert_eq!(self.settle(), Step::Ask { attempt: 1 });
        assert_eq!(self.answer(RunStatus::Held), Step::Release { attempt: 1 });
        self.snapshot.prepared = None;
        self
    }

    fn running(self) -> Self {
        let mut driver = self.released();
        assert_eq!(driver.answer(running()), Step::Wait);
        driver
    }

    fn status(&self) -> &MaintenanceOccurrenceStatus {
        self.snapshot.occurrence.status.as_ref().unwrap()
    }

    fn outcome(&self) -> (OccurrenceState, &str) {
        (self.status().state.unwrap(), self.status().reason.as_deref().unwrap())
    }

    fn patch(&mut self, spec: &Value) {
        let mut manifest = serde_json::to_value(&self.snapshot.occurrence).unwrap();
        merge(&mut manifest["spec"], spec);
        self.snapshot.occurrence = serde_json::from_value(manifest).unwrap();
    }

    fn cancel(&mut self) {
        self.patch(&json!({"cancel": true}));
    }
}

fn merge(into: &mut Value, from: &Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        for (key, value) in from {
            if value.is_null() {
                into.remove(key);
            } else {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

fn running() -> RunStatus {
    RunStatus::Running {
        started: time("2026-11-29T02:00:03Z"),
        pod: Some(PodRef { uid: "p1".into(), node: Some("n".into()), node_uid: Some("nu".into()) }),
    }
}

fn released() -> RunStatus {
    RunStatus::Released { pod: None, waiting: None }
}

fn succeeded() -> RunStatus {
    RunStatus::Succeeded {
        started: Some(time("2026-11-29T02:00:03Z")),
        completed: None,
        result: None,
        result_lost: false,
    }
}

fn failed(reason: &str, class: FailureClass) -> RunStatus {
    RunStatus::Failed {
        started: None,
        completed: None,
        reason: reason.into(),
        message: "m".into(),
        class,
    }
}

fn unknown(reason: &str) -> RunStatus {
    RunStatus::Unknown { reason: reason.into(), message: "m".into() }
}

#[test]
fn a_run_passes_through_prepare_commit_release() {
    let mut driver = Driver::fenced().released();
    let attempt = &driver.status().attempts[0];
    assert_eq!((attempt.number, attempt.epoch, attempt.handle.as_deref()), (1, 7, Some("job-uid")));
    assert_eq!(attempt.run_key, format!("{}-m1", driver.status().id.clone().unwrap()));
    assert_eq!(driver.writes, 1, "the commit is the seal: one write before the release");
    driver.answer(running());
    assert_eq!(driver.outcome(), (OccurrenceState::Running, "Running"));
    assert_eq!(driver.status().lateness_seconds, Some(3));
    assert_eq!(driver.status().attempts[0].pod.as_ref().unwrap().uid, "p1");
    driver.answer(succeeded());
    assert_eq!(driver.outcome(), (OccurrenceState::Succeeded, "Completed"));
    assert_eq!(driver.writes, 3);
}

#[test]
fn nothing_starts_without_a_started_claim() {
    for standing in [Standing::Undecided, Standing::Waiting] {
        let mut driver = Driver::fenced().standing(standing.clone());
        assert_eq!(driver.settle(), Step::Wait, "{standing:?}");
    }
}

#[test]
fn ends_that_never_ran() {
    let cases = [
        (Standing::Ghost { skipped: None }, OccurrenceState::Superseded, "NotClaimed"),
        (
            Standing::Ghost { skipped: Some(SkipReason::Concurrent) },
            OccurrenceState::Skipped,
            "Concurrent",
        ),
        (Standing::RecordPruned, OccurrenceState::Skipped, "RecordPruned"),
        (Standing::RunNotAllowed, OccurrenceState::Skipped, "RunNotAllowed"),
        (Standing::ScheduleGone, OccurrenceState::Superseded, "ScheduleDeleted"),
        (
            Standing::Started {
                not_before: time(T),
                deadline: Some(time("2026-11-29T02:00:00Z")),
                replaced: false,
            },
            OccurrenceState::Skipped,
            "Deadline",
        ),
        (
            Standing::Started { not_before: time(T), deadline: None, replaced: true },
            OccurrenceState::Cancelled,
            "Replaced",
        ),
    ];
    for (standing, state, reason) in cases {
        let mut driver = Driver::fenced().standing(standing.clone());
        assert_eq!(driver.settle(), Step::Wait);
        assert_eq!(driver.outcome(), (state, reason), "{standing:?}");
        assert!(driver.status().attempts.is_empty());
        assert_eq!(driver.notes.len(), 1, "{standing:?}");
    }
}

#[test]
fn the_spread_delays_the_start() {
    let not_before = time("2026-11-29T02:00:20Z");
    let mut driver = Driver::fenced().standing(Standing::Started {
        not_before,
        deadline: None,
        replaced: false,
    });
    assert_eq!(driver.settle(), Step::Wait);
    assert_eq!(driver.decide().wake_at, Some(not_before));
    driver.now = not_before;
    assert!(matches!(driver.settle(), Step::Prepare { .. }));
}

#[test]
fn hand_made_without_schedule_runs_what_it_carries_or_waits() {
    let mut own = Driver::new(&json!({"scheduleUID": null})).standing(Standing::ScheduleGone);
    assert!(matches!(own.step(), Step::Write(_)), "its own seal is the start decision");
    assert!(matches!(own.settle(), Step::Prepare { .. }));
    let mut bare =
        Driver::new(&json!({"scheduleUID": null, "run": null})).standing(Standing::ScheduleGone);
    assert_eq!(bare.settle(), Step::Wait);
    assert_eq!(bare.outcome(), (OccurrenceState::Pending, "ScheduleNotFound"));
    let early = Driver::new(&json!({"scheduleUID": null})).standing(Standing::ScheduleGone);
    assert_eq!(
        early.at("2026-11-29T01:00:00Z").settle(),
        Step::Wait,
        "a future instant is waited for"
    );
}

#[test]
fn a_prepared_one_goes_on_when_its_schedule_is_deleted() {
    let mut driver = Driver::fenced();
    driver.settle();
    driver.snapshot.prepared = Some(Prepared::Ready { handle: "job-uid".into() });
    driver.settle();
    driver.snapshot.standing = Standing::ScheduleGone;
    assert_eq!(driver.answer(RunStatus::Held), Step::Release { attempt: 1 });
}

#[test]
fn what_the_provider_refuses_ends() {
    let cases = [
        (
            Prepared::Refused { message: "run.job.template: …".into() },
            OccurrenceState::Failed,
            "RunRefused",
        ),
        (
            Prepared::NameConflict { message: "a Job of someone else".into() },
            OccurrenceState::Skipped,
            "NameConflict",
        ),
    ];
    for (prepared, state, reason) in cases {
        let mut driver = Driver::fenced();
        driver.settle();
        driver.snapshot.prepared = Some(prepared);
        driver.settle();
        assert_eq!(driver.outcome(), (state, reason));
    }
}

#[test]
fn a_refused_creation_is_tried_for_ten_minutes() {
    let mut driver = Driver::fenced();
    driver.settle();
    driver.snapshot.prepared = Some(Prepared::NotYet { message: "exceeded quota".into() });
    driver.settle();
    assert_eq!(driver.outcome(), (OccurrenceState::Pending, "CreateRefused"));
    driver.now = time("2026-11-29T02:10:00Z");
    driver.settle();
    assert_eq!(driver.outcome(), (OccurrenceState::Pending, "CreateRefused"));
    driver.now = time("2026-11-29T02:10:02Z");
    driver.settle();
    assert_eq!(driver.outcome(), (OccurrenceState::Skipped, "CreateRefused"));
}

#[test]
fn only_the_sealed_release() {
    let mut driver = Driver::fenced();
    driver.settle();
    driver.snapshot.prepared = Some(Prepared::Ready { handle: "job-uid".into() });
    driver.settle();
    // The next leader: another term.
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    driver.snapshot.answer = Some(Ok(RunStatus::Held));
    let decision = driver.decide();
    assert!(matches!(decision.step, Step::Write(_)), "seals before it releases: {decision:?}");
    driver.snapshot.standing = Standing::Undecided;
    assert_eq!(driver.decide().step, Step::Wait, "the schedule is sealed first");
}

#[test]
fn a_new_leader_follows_what_runs_without_a_new_attempt() {
    let mut driver = Driver::fenced().running();
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    driver.snapshot.answer = None;
    assert_eq!(driver.decide().step, Step::Ask { attempt: 1 });
    driver.snapshot.answer = Some(Ok(succeeded()));
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
        driver.snapshot.answer = Some(Ok(failed("ExitCode", FailureClass::Transient)));
        assert_eq!(driver.decide(), Decision::wait());
    }
}

#[test]
fn cancel_records_the_wish_before_it_stops_anything() {
    let mut driver = Driver::fenced().running();
    driver.cancel();
    let Step::Write(status) = driver.step() else { panic!("records first") };
    assert!(status.attempts[0].stop_requested_time.is_some());
    assert_eq!(driver.outcome(), (OccurrenceState::Cancelling, "CancelRequested"));
    assert_eq!(driver.settle(), Step::Cancel { attempt: 1, recorded: false });
    driver.snapshot.cancelled = true;
    assert_eq!(
        driver.answer(RunStatus::Stopping),
        Step::Wait,
        "Cancelling until the provider confirms"
    );
    driver.answer(RunStatus::Absent);
    assert_eq!(driver.outcome(), (OccurrenceState::Cancelled, "CancelRequested"));
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
    read.answer(unknown("EndNotSeen"));
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
    driver.snapshot.answer = Some(Err(ProviderError::Unreachable("timeout".into())));
    driver.snapshot.unreachable_since = Some(since);
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
    driver.snapshot.cancelled = true;
    driver.settle();
    assert_eq!(driver.outcome(), (OccurrenceState::Unresolved, "DuplicatePod"));
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
            driver.snapshot.prepared = Some(Prepared::Ready { handle: format!("h{n}") });
            driver.settle();
            driver.snapshot.prepared = None;
            driver.answer(failed(reason, class));
            driver.snapshot.answer = None;
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
            Step::Cancel { attempt: 1, recorded: false },
            "the old handle is cancelled, after recording"
        );
        assert_eq!(driver.outcome(), (state, "ResolvedByPerson"));
        driver.snapshot.cancelled = true;
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
        driver.snapshot.cancelled = true;
        driver
    };
    let mut proven = unresolved(false);
    proven.snapshot.answer = Some(Ok(RunStatus::Absent));
    assert!(matches!(proven.settle(), Step::Prepare { attempt: 2, .. }), "beyond maxAttempts");
    let mut unproven = unresolved(false);
    assert_eq!(unproven.settle(), Step::Wait);
    assert_eq!(unproven.outcome().0, OccurrenceState::Unresolved);
    let mut accepted = unresolved(true);
    assert!(matches!(accepted.settle(), Step::Prepare { attempt: 2, .. }));
    assert_eq!(accepted.status().attempts.len(), 1);
}

#[test]
fn a_cancel_of_an_unresolved_one_waits_for_proof() {
    let mut driver = Driver::fenced().running();
    driver.answer(unknown("EndNotSeen"));
    driver.cancel();
    assert_eq!(driver.settle(), Step::Cancel { attempt: 1, recorded: false });
    driver.snapshot.cancelled = true;
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
