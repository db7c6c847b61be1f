//! Every rule of the decision, one case each. The driver applies writes as the API server would.

pub(super) use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::{api::PodRef, providers::FailureClass, time::SkipReason};
pub(super) use crate::{
    api::{Attempt, OccurrenceState},
    maintenance::{Note, conditions},
    providers::{Prepared, ProviderError, RunStatus},
    runs::MAX_DISRUPTIONS,
};

pub(super) const T: &str = "2026-11-29T02:00:00Z";

pub(super) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) fn fence() -> Fence {
    Fence { epoch: 7, nonce: "n7".into() }
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
                heard: Heard::default(),
                told: None,
                trust_clock: true,
                fence: fence(),
            },
            now: time("2026-11-29T02:00:01Z"),
            writes: 0,
            notes: Vec::new(),
        }
    }

    pub(super) fn fenced() -> Self {
        Self::new(&json!({}))
    }

    pub(super) fn standing(mut self, standing: Standing) -> Self {
        self.snapshot.standing = standing;
        self
    }

    pub(super) fn at(mut self, text: &str) -> Self {
        self.now = time(text);
        self
    }

    pub(super) fn decide(&mut self) -> Decision {
        let decision = decide(&self.snapshot, self.now);
        assert_eq!(decision, decide(&self.snapshot, self.now), "same snapshot, same decision");
        decision
    }

    /// Takes one step; a write is stored with the present fence.
    pub(super) fn step(&mut self) -> Step {
        let decision = self.decide();
        self.notes.extend(decision.notes);
        if let Step::Write(status) = &decision.step {
            let mut stored = self.snapshot.occurrence.clone();
            stored.status = Some((**status).clone());
            stored.status.as_mut().unwrap().fence = Some(fence());
            self.snapshot.go_on_with(stored);
            self.writes += 1;
            assert!(self.writes < 50, "does not come to rest");
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

    /// Prepared, committed and released.
    pub(super) fn released(mut self) -> Self {
        assert!(matches!(self.settle(), Step::Prepare { attempt: 1, .. }));
        self.snapshot.heard.prepared = Some(Prepared::Ready { handle: "job-uid".into() });
        assert_eq!(self.settle(), Step::Ask { attempt: 1 });
        assert_eq!(self.answer(RunStatus::Held), Step::Release { attempt: 1 });
        self
    }

    pub(super) fn running(self) -> Self {
        let mut driver = self.released();
        assert_eq!(driver.answer(running()), Step::Wait);
        driver
    }

    pub(super) fn status(&self) -> &MaintenanceOccurrenceStatus {
        self.snapshot.occurrence.status.as_ref().unwrap()
    }

    pub(super) fn outcome(&self) -> (OccurrenceState, &str) {
        (self.status().state.unwrap(), self.status().reason.as_deref().unwrap())
    }

    pub(super) fn patch(&mut self, spec: &Value) {
        let mut manifest = serde_json::to_value(&self.snapshot.occurrence).unwrap();
        merge(&mut manifest["spec"], spec);
        self.snapshot.occurrence = serde_json::from_value(manifest).unwrap();
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
        started: time("2026-11-29T02:00:03Z"),
        pod: Some(PodRef { uid: "p1".into(), node: Some("n".into()), node_uid: Some("nu".into()) }),
    }
}

pub(super) fn released() -> RunStatus {
    RunStatus::Released { pod: None, waiting: None }
}

pub(super) fn succeeded() -> RunStatus {
    RunStatus::Succeeded {
        started: Some(time("2026-11-29T02:00:03Z")),
        completed: None,
        result: None,
        result_lost: false,
        artifact: crate::providers::Delivered::Nothing,
    }
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
    driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: "job-uid".into() });
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
        driver.snapshot.heard.prepared = Some(prepared);
        driver.settle();
        assert_eq!(driver.outcome(), (state, reason));
    }
}

#[test]
fn a_refused_creation_is_tried_for_ten_minutes() {
    let mut driver = Driver::fenced();
    driver.settle();
    driver.snapshot.heard.prepared = Some(Prepared::NotYet { message: "exceeded quota".into() });
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
    driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: "job-uid".into() });
    driver.settle();
    // The next leader: another term.
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    driver.snapshot.heard.answer = Some(Ok(RunStatus::Held));
    let decision = driver.decide();
    assert!(matches!(decision.step, Step::Write(_)), "seals before it releases: {decision:?}");
    driver.snapshot.standing = Standing::Undecided;
    assert_eq!(driver.decide().step, Step::Wait, "the schedule is sealed first");
}
