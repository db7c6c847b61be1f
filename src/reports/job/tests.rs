//! Every rule of the decision, one case each. The driver applies writes as the API server would.

use serde_json::{Value, json};

use super::*;
pub(super) use crate::{
    api::{Artifact, ConditionStatus, PodRef},
    providers::{Delivered, FailureClass, Prepared, ProviderError, RunStatus},
};

pub(super) const CREATED: &str = "2026-11-29T09:00:00Z";

pub(super) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) fn fence() -> Fence {
    Fence { epoch: 7, nonce: "n7".into() }
}

pub(super) fn waits() -> Standing {
    Standing::Accepted { reason: WAITING, message: "waits for a slot of queue reports".into() }
}

pub(super) fn admitted(attempt: i32) -> Standing {
    Standing::Admitted { attempt }
}

/// A driver: a snapshot whose writes are applied, as the hands do it.
pub(super) struct Driver {
    pub(super) snapshot: Snapshot,
    pub(super) now: Timestamp,
    pub(super) writes: usize,
    pub(super) notes: Vec<Note>,
}

impl Driver {
    pub(super) fn new(spec: &Value) -> Self {
        let mut manifest = json!({
            "apiVersion": "punctual.dev/v1alpha1",
            "kind": "ReportJob",
            "metadata": {"name": "acme-usage-2026-11", "namespace": "reports", "uid": "u1",
                         "resourceVersion": "5", "generation": 1, "creationTimestamp": CREATED},
            "spec": {"queueName": "reports", "tenant": "acme", "parameters": {"month": "2026-11"},
                     "run": {"actionClass": "Idempotent", "simulated": {}}},
        });
        merge(&mut manifest["spec"], spec);
        Self {
            snapshot: Snapshot {
                job: serde_json::from_value(manifest).unwrap(),
                standing: waits(),
                queue_run: None,
                place: None,
                late: Vec::new(),
                heard: Heard::default(),
                told: None,
                trust_clock: true,
                fence: fence(),
            },
            now: time("2026-11-29T09:00:01Z"),
            writes: 0,
            notes: Vec::new(),
        }
    }

    pub(super) fn plain() -> Self {
        Self::new(&json!({}))
    }

    pub(super) fn standing(mut self, standing: Standing) -> Self {
        self.snapshot.standing = standing;
        self
    }

    pub(super) fn decide(&mut self) -> Decision {
        let decision = decide(&self.snapshot, self.now);
        assert_eq!(decision, decide(&self.snapshot, self.now), "same snapshot, same decision");
        let defect = decision.notes.iter().find(|note| note.reason == "IllegalTransition");
        assert_eq!(defect, None, "the decision stays within the table");
        decision
    }

    /// Takes one step; a write is stored with the present fence.
    pub(super) fn step(&mut self) -> Step {
        let decision = self.decide();
        self.notes.extend(decision.notes);
        if let Step::Write(status) = &decision.step {
            let mut stored = self.snapshot.job.clone();
            stored.status = Some((**status).clone());
            stored.status.as_mut().unwrap().fence = Some(self.snapshot.fence.clone());
            self.snapshot.go_on_with(stored);
            self.writes += 1;
            assert!(self.writes < 100, "does not come to rest");
        }
        decision.step
    }

    /// Steps until something else than a write is wanted.
    pub(super) fn settle(&mut self) -> Step {
        loop {
            let step = self.step();
            if !matches!(step, Step::Write(_)) {
                return step;
            }
        }
    }

    pub(super) fn answer(&mut self, answer: RunStatus) -> Step {
        self.snapshot.heard.answer = Some(Ok(answer));
        self.settle()
    }

    /// Admitted as `attempt`, prepared, committed and released.
    pub(super) fn release(&mut self, attempt: i32) {
        self.settle();
        self.snapshot.standing = admitted(attempt);
        self.snapshot.heard.answer = None;
        self.snapshot.heard.cancelled = false;
        assert!(matches!(self.settle(), Step::Prepare { attempt: n, .. } if n == attempt));
        self.snapshot.heard.prepared =
            Some(Prepared::Ready { handle: format!("job-uid-{attempt}") });
        assert_eq!(self.settle(), Step::Ask { attempt });
        assert_eq!(self.answer(RunStatus::Held), Step::Release { attempt });
    }

    pub(super) fn released(mut self) -> Self {
        self.release(1);
        self
    }

    /// Released, and seen running for so long that it is recorded.
    pub(super) fn running(self) -> Self {
        let mut driver = self.released();
        driver.now = time("2026-11-29T09:00:20Z");
        assert_eq!(driver.answer(running()), Step::Wait);
        assert_eq!(driver.outcome(), (ReportState::Running, "Running"));
        driver
    }

    pub(super) fn status(&self) -> &ReportJobStatus {
        self.snapshot.job.status.as_ref().unwrap()
    }

    pub(super) fn outcome(&self) -> (ReportState, &str) {
        (self.status().state.unwrap(), self.status().reason.as_deref().unwrap())
    }

    pub(super) fn holds(&self, condition: &str) -> bool {
        let mut conditions = self.status().conditions.iter();
        conditions.any(|c| c.r#type == condition && c.status == ConditionStatus::True)
    }

    pub(super) fn patch(&mut self, spec: &Value) {
        let mut manifest = serde_json::to_value(&self.snapshot.job).unwrap();
        merge(&mut manifest["spec"], spec);
        self.snapshot.job = serde_json::from_value(manifest).unwrap();
    }

    pub(super) fn cancel(&mut self) {
        self.patch(&json!({"cancel": true}));
    }
}

pub(super) fn merge(into: &mut Value, from: &Value) {
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

pub(super) fn running() -> RunStatus {
    RunStatus::Running {
        started: time("2026-11-29T09:00:03Z"),
        pod: Some(PodRef { uid: "p1".into(), node: Some("n".into()), node_uid: Some("nu".into()) }),
    }
}

pub(super) fn artifact() -> Artifact {
    Artifact { uri: "s3://reports/1".into(), sha256: "a".repeat(64), size_bytes: 7 }
}

pub(super) fn succeeded(artifact: Delivered, result_lost: bool) -> RunStatus {
    let started = Some(time("2026-11-29T09:00:03Z"));
    RunStatus::Succeeded { started, completed: None, result: None, result_lost, artifact }
}

pub(super) fn delivered() -> RunStatus {
    succeeded(Delivered::Artifact(artifact()), false)
}

pub(super) fn failed(reason: &str, class: FailureClass) -> RunStatus {
    RunStatus::Failed {
        started: None,
        completed: None,
        reason: reason.into(),
        message: "m".into(),
        class,
    }
}

pub(super) fn unknown(reason: &str) -> RunStatus {
    RunStatus::Unknown { reason: reason.into(), message: "m".into() }
}

#[test]
fn a_report_that_runs_well_is_written_three_times() {
    let mut driver = Driver::plain();
    assert_eq!(driver.settle(), Step::Wait);
    assert_eq!(driver.outcome(), (ReportState::Queued, WAITING));
    assert!(driver.holds("Accepted") && !driver.holds(states::ADMITTED));
    assert_eq!(driver.status().id.as_deref(), Some("960c23eb766849f2a0a7b37899a1b670"));
    assert!(driver.status().run.is_some(), "sealed when it was taken");
    driver.release(1);
    assert_eq!(driver.outcome(), (ReportState::Admitted, "Prepared"));
    assert!(driver.holds(states::ADMITTED));
    let attempt = &driver.status().attempts[0];
    assert_eq!(
        (attempt.number, attempt.epoch, attempt.handle.as_deref()),
        (1, 7, Some("job-uid-1"))
    );
    assert!(attempt.run_key.starts_with("960c23eb766849f2a0a7b37899a1b670-"));
    assert!(attempt.run_key.ends_with("-r1"));
    driver.now = time("2026-11-29T09:00:12Z");
    assert_eq!(driver.answer(running()), Step::Wait);
    assert_eq!(driver.writes, 2, "a start is not written while it may be over soon");
    driver.answer(delivered());
    assert_eq!(driver.outcome(), (ReportState::Succeeded, "Completed"));
    assert_eq!(driver.writes, 3, "with create and release five requests, and 0.2 for the ledger");
    let accepted = driver.status().artifact.as_ref().unwrap();
    assert_eq!((accepted.uri.as_str(), accepted.attempt), ("s3://reports/1", 1));
    assert_eq!(accepted.accepted_time.0, driver.now);
    let start = driver.status().attempts[0].start_time.unwrap().0;
    assert_eq!(start, time("2026-11-29T09:00:03Z"), "known at the end");
    assert!(driver.holds("Complete") && driver.holds("Finished") && !driver.holds("Failed"));
    assert!(!driver.holds(states::ADMITTED), "it holds no slot any more");
}

#[test]
fn a_start_that_lasts_is_recorded_and_that_of_a_fenced_one_at_once() {
    let driver = Driver::plain().running();
    assert_eq!(driver.status().attempts[0].pod.as_ref().unwrap().uid, "p1");
    let mut spared = Driver::plain().released();
    spared.answer(running());
    let wake = spared.decide().wake_at.unwrap();
    assert!(wake <= time("2026-11-29T09:00:13Z"), "it is looked at again by then: {wake}");
    let template = json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}});
    let job = json!({"job": {"template": template}, "timeoutSeconds": 4});
    let mut short = Driver::new(&json!({"run": job})).released();
    short.answer(running());
    assert_eq!(short.decide().wake_at, Some(time("2026-11-29T09:00:07Z")), "its own limit counts");
    short.now = time("2026-11-29T09:00:07Z");
    assert_eq!(short.settle(), Step::Cancel { attempt: 1, recorded: false });
    assert_eq!(short.outcome(), (ReportState::Cancelling, "DeadlineExceeded"));
    let mut fenced = Driver::new(&json!({"run": {"actionClass": "Fenced", "simulated": {}}}));
    fenced.release(1);
    fenced.answer(running());
    assert_eq!(fenced.outcome(), (ReportState::Running, "Running"));
    assert!(fenced.status().attempts[0].pod.is_some(), "the proof of its end");
}

#[test]
fn nothing_starts_without_an_entry_for_the_very_attempt() {
    let mut driver = Driver::plain();
    driver.settle();
    for standing in [Standing::Undecided, waits(), Standing::QueueNotFound, admitted(0)] {
        driver.snapshot.standing = standing.clone();
        assert_eq!(driver.settle(), Step::Wait, "{standing:?}");
    }
    driver.release(1);
    driver.snapshot.heard.answer = Some(Ok(RunStatus::Held));
    for standing in [Standing::Undecided, waits(), Standing::QueueNotFound, admitted(2)] {
        driver.snapshot.standing = standing.clone();
        assert_eq!(driver.settle(), Step::Wait, "not released either: {standing:?}");
    }
}

#[test]
fn only_the_sealed_are_released_and_the_queued_are_not_sealed_again() {
    let mut driver = Driver::plain();
    driver.settle();
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    assert_eq!(driver.decide().step, Step::Wait, "a new leader writes nothing to what waits");
    driver.snapshot.fence = fence();
    driver.release(1);
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    driver.snapshot.heard.answer = Some(Ok(RunStatus::Held));
    let Step::Write(status) = driver.step() else { panic!("seals before it releases") };
    assert_eq!(status.state, Some(ReportState::Admitted));
    assert_eq!(driver.settle(), Step::Release { attempt: 1 });
}

#[test]
fn an_entry_says_which_attempt_it_is() {
    // Its status was lost; the ledger still knows that two attempts were admitted before.
    let mut driver = Driver::plain().standing(admitted(3));
    assert!(matches!(driver.settle(), Step::Prepare { attempt: 3, .. }));
    driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: "h".into() });
    driver.settle();
    assert_eq!(driver.outcome(), (ReportState::Admitted, "Prepared"));
    assert_eq!(driver.status().attempts[0].number, 3);
}

#[test]
fn what_the_queue_answers() {
    let after = time("2026-11-29T10:00:00Z");
    for reason in ["QueueFull", "TenantQueueFull", "QueueClosed", UNSATISFIABLE] {
        let message = "m".to_owned();
        let standing = Standing::Rejected { reason, message, retry_after: Some(after) };
        let mut driver = Driver::plain().standing(standing);
        assert_eq!(driver.settle(), Step::Wait);
        assert_eq!(driver.outcome(), (ReportState::Rejected, reason));
        assert_eq!(driver.status().retry_after_time.unwrap().0, after);
        assert_eq!(driver.status().id, None, "it claims no identity");
        assert!(driver.holds("Failed") && driver.holds("Finished") && !driver.holds("Accepted"));
        assert_eq!((driver.writes, driver.notes.len()), (1, 0));
        driver.snapshot.standing = waits();
        assert_eq!(driver.settle(), Step::Wait, "it stays so");
        assert_eq!(driver.outcome().0, ReportState::Rejected);
    }
    let mut missing = Driver::plain().standing(Standing::QueueNotFound);
    assert_eq!(missing.settle(), Step::Wait);
    assert_eq!(missing.outcome(), (ReportState::Queued, "QueueNotFound"));
    assert!(!missing.holds("Accepted"));
    assert!(missing.status().message.as_ref().unwrap().contains("create it"));
    missing.snapshot.standing = waits();
    missing.settle();
    assert_eq!(missing.outcome(), (ReportState::Queued, WAITING));
    assert!(missing.holds("Accepted"));
    let mut ghost = Driver::plain().standing(Standing::Ghost);
    ghost.settle();
    assert_eq!(ghost.outcome(), (ReportState::Cancelled, "Superseded"));
    let mut left = Driver::plain().standing(Standing::ScheduleGone);
    left.settle();
    assert_eq!(left.outcome(), (ReportState::Cancelled, "ScheduleDeleted"));
    let said = left.status().message.as_deref();
    assert_eq!(said, Some("its schedule was deleted before it started"));
    let mut undecided = Driver::plain().standing(Standing::Undecided);
    assert_eq!(undecided.settle(), Step::Wait, "answered only once the queue is ready");
    assert_eq!(undecided.writes, 0);
}

#[test]
fn what_was_accepted_is_not_rejected() {
    let mut driver = Driver::plain();
    driver.settle();
    let message = "m".to_owned();
    driver.snapshot.standing =
        Standing::Rejected { reason: "QueueFull", message, retry_after: None };
    assert_eq!(driver.settle(), Step::Wait);
    assert_eq!(driver.outcome(), (ReportState::Queued, WAITING));
}

#[test]
fn why_it_waits_is_said_when_the_reason_changes() {
    let mut driver = Driver::plain();
    driver.settle();
    driver.snapshot.standing =
        Standing::Accepted { reason: WAITING, message: "other words".into() };
    driver.settle();
    assert_eq!(driver.writes, 1);
    driver.snapshot.standing = Standing::Accepted { reason: "TenantAtLimit", message: "m".into() };
    driver.settle();
    assert_eq!(driver.outcome(), (ReportState::Queued, "TenantAtLimit"));
    assert_eq!(driver.writes, 2);
}

#[test]
fn a_queue_deadline_ends_what_waits_and_nothing_else() {
    let spec = json!({"queueDeadlineSeconds": 60});
    let end = time("2026-11-29T09:01:00Z");
    for standing in [waits(), Standing::QueueNotFound] {
        let mut driver = Driver::new(&spec).standing(standing);
        driver.settle();
        assert_eq!(driver.decide().wake_at, Some(end));
        driver.now = end;
        driver.snapshot.trust_clock = false;
        assert_eq!(driver.decide().step, Step::Wait, "not by a clock that is not trusted");
        driver.snapshot.trust_clock = true;
        driver.settle();
        assert_eq!(driver.outcome(), (ReportState::Failed, "QueueDeadlineExceeded"));
        assert_eq!(driver.notes.last().unwrap().reason, "Failed");
    }
    let mut unknown = Driver::new(&spec).standing(Standing::Undecided);
    unknown.now = end;
    assert_eq!(unknown.settle(), Step::Wait, "it may be admitted, nobody knows");
    let mut admitted = Driver::new(&spec).standing(admitted(1));
    admitted.now = end;
    assert!(matches!(admitted.settle(), Step::Prepare { .. }), "in time");
    let mut again = Driver::new(&spec).released();
    again.now = time("2026-11-29T09:05:00Z");
    again.answer(failed("ExitCode", FailureClass::Transient));
    again.snapshot.standing = waits();
    again.settle();
    assert_eq!(
        again.outcome(),
        (ReportState::Queued, "RetryScheduled"),
        "the first admission counts"
    );
}

#[test]
fn its_place_is_written_when_it_is_given_and_only_while_it_waits() {
    let mut driver = Driver::plain();
    let place = |position: &str| {
        let estimated_start = Some(time("2026-11-29T09:10:00Z"));
        Some(Place { position: Some(position.into()), estimated_start })
    };
    driver.snapshot.place = place("7");
    driver.settle();
    assert_eq!(driver.writes, 1, "it goes along with the acceptance");
    assert_eq!(driver.status().position.as_deref(), Some("7"));
    driver.snapshot.place = None;
    driver.settle();
    assert_eq!(driver.status().position.as_deref(), Some("7"), "no news is no change");
    driver.snapshot.place = place("3");
    driver.settle();
    assert_eq!((driver.status().position.as_deref(), driver.writes), (Some("3"), 2));
    driver.release(1);
    assert_eq!(driver.status().position, None);
    assert_eq!(driver.status().estimated_start_time, None);
}

#[test]
fn it_runs_its_own_run_or_its_queues_with_its_parameters_over_it() {
    let queue_run: RunSpec = serde_json::from_value(json!({
        "simulated": {"durationSeconds": 5}, "parameters": {"month": "none", "format": "pdf"},
    }))
    .unwrap();
    let mut driver = Driver::new(&json!({"run": null}));
    driver.snapshot.queue_run = Some(queue_run.clone());
    driver.settle();
    let run = driver.status().run.clone().unwrap();
    let parameters = run.parameters.unwrap();
    assert_eq!(parameters["month"], "2026-11");
    assert_eq!(parameters["format"], "pdf");
    let id = driver.status().id.clone();
    // The queue's template changes: what was taken is not touched, nor is its identity.
    driver.snapshot.queue_run = Some(RunSpec { max_attempts: Some(1), ..queue_run });
    driver.release(1);
    assert_eq!(driver.status().id, id);
    assert!(driver.status().attempts[0].run_key.starts_with(&id.unwrap()));
    assert_eq!(driver.status().run.as_ref().unwrap().max_attempts, None);
    let mut none = Driver::new(&json!({"run": null}));
    none.settle();
    assert_eq!(none.outcome(), (ReportState::Rejected, UNSATISFIABLE));
    assert!(none.status().message.as_ref().unwrap().contains("runTemplate"));
    let long = json!({"simulated": {}, "parameters": {"a": "x".repeat(8190)}});
    let mut many = Driver::new(&json!({"run": long}));
    many.settle();
    assert_eq!(
        many.outcome(),
        (ReportState::Rejected, UNSATISFIABLE),
        "its status could not hold it"
    );
}

#[test]
fn the_identity_is_that_of_the_contract() {
    let named = Driver::plain().snapshot.job;
    let hash = "579be3d25befe50d5a62858e8fdce0dea3163bbbad86762372dbf4ddaf96b8b6";
    assert_eq!(content_hash(&named, None), hash);
    let identity = work(&named, None);
    assert_eq!(identity.request_id, "960c23eb-7668-89f2-a0a7-b37899a1b670");
    assert_eq!(identity.attempts.name(2), "acme-usage-2026-11-r2");
    let template: RunSpec =
        serde_json::from_value(json!({"actionClass": "Idempotent", "simulated": {}})).unwrap();
    let bare = Driver::new(&json!({"run": null})).snapshot.job;
    assert_eq!(content_hash(&bare, Some(&template)), hash, "the queue's run is its run");
    let no_parameters = Driver::new(&json!({"parameters": null})).snapshot.job;
    let empty = Driver::new(&json!({"parameters": {}})).snapshot.job;
    assert_eq!(content_hash(&no_parameters, None), content_hash(&empty, None));
    let mut scheduled = Driver::new(&json!({
        "scheduleName": "hourly-usage", "intendedTime": "2026-11-29T09:00:00Z", "scheduleUID": "s1",
    }))
    .snapshot
    .job;
    scheduled.metadata.name = Some("hourly-usage-202611290900".into());
    let identity = work(&scheduled, None);
    assert_eq!(identity.id, "8d049a4a6b803923a53205501fd95f54");
    assert_eq!(identity.attempts.key(1), "8d049a4a6b803923a53205501fd95f54-r1");
}
