//! Every rule of the decision about a schedule. The driver creates and writes as the API server would.

use serde_json::{Value, json};

use super::*;
use crate::api::{
    MaintenanceOccurrence, MaintenanceOccurrenceStatus, MaintenanceSchedule, OccurrenceState,
};

pub(super) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) fn at(text: &str) -> IntendedTime {
    text.parse().unwrap()
}

pub(super) fn fence() -> Fence {
    Fence { epoch: 7, nonce: "n7".into() }
}

/// A schedule every hour on the hour, created at midnight, driven through time.
pub(super) struct Driver {
    pub(super) snapshot: Snapshot<MaintenanceSchedule>,
    pub(super) uids: usize,
    pub(super) writes: usize,
    pub(super) notes: Vec<Note>,
}

impl Driver {
    pub(super) fn new(spec: &Value) -> Self {
        let mut manifest = json!({
            "apiVersion": "punctual.dev/v1alpha1",
            "kind": "MaintenanceSchedule",
            "metadata": {"name": "s", "namespace": "d", "uid": "s1", "resourceVersion": "5", "generation": 1, "creationTimestamp": "2026-01-01T00:00:30Z"},
            "spec": {"schedule": "0 * * * *", "run": {"simulated": {}}},
        });
        merge(&mut manifest["spec"], spec);
        Self {
            snapshot: Snapshot {
                schedule: serde_json::from_value(manifest).unwrap(),
                works: BTreeMap::new(),
                taken_over: Some(TakenOver::default()),
                refused: BTreeMap::new(),
                over: BTreeSet::new(),
                room: usize::MAX,
                fence: fence(),
                may_create: Ok(()),
                acceptance: None,
            },
            uids: 0,
            writes: 0,
            notes: Vec::new(),
        }
    }

    /// A schedule under `policy` that was seen at its creation.
    pub(super) fn policy(policy: &str) -> Self {
        let mut driver = Self::new(
            &json!({"concurrencyPolicy": policy, "missedRuns": {"policy": "All", "limit": 3}}),
        );
        driver.run("2026-01-01T00:00:40Z");
        driver
    }

    /// Decides and acts until nothing more is wanted.
    pub(super) fn run(&mut self, now: &str) -> Plan<MaintenanceOccurrence> {
        let now = time(now);
        for _ in 0..10 {
            let plan = decide(&self.snapshot, now);
            assert_eq!(plan, decide(&self.snapshot, now), "same snapshot, same plan");
            if plan.create.is_empty() {
                self.notes.extend(plan.notes.clone());
                if let Some(status) = &plan.status {
                    self.write(status.clone());
                }
                return plan;
            }
            assert!(plan.status.is_none(), "create first, claim after");
            for (_, occurrence) in plan.create {
                self.create(occurrence);
            }
        }
        panic!("does not come to rest");
    }

    pub(super) fn write(&mut self, mut status: MaintenanceScheduleStatus) {
        for claim in &status.claimed {
            assert!(!claim.uid.is_empty(), "a claim without uid would start anything of that name");
        }
        status.fence = Some(fence());
        self.snapshot.schedule.status = Some(status);
        self.snapshot.taken_over = None;
        self.writes += 1;
    }

    pub(super) fn create(&mut self, mut occurrence: MaintenanceOccurrence) {
        self.uids += 1;
        occurrence.metadata.uid = Some(format!("u{}", self.uids));
        self.snapshot.works.insert(occurrence.spec.intended_time, occurrence);
    }

    pub(super) fn by_hand(&mut self, instant: &str) {
        let mut occurrence = self.snapshot.schedule.new_work(at(instant));
        occurrence.spec.schedule_uid = None;
        occurrence.spec.run = None;
        self.create(occurrence);
    }

    pub(super) fn end(&mut self, instant: &str, state: OccurrenceState, reason: &str) {
        let occurrence = self.snapshot.works.get_mut(&at(instant)).unwrap();
        occurrence.status = Some(MaintenanceOccurrenceStatus {
            state: Some(state),
            reason: Some(reason.into()),
            ..Default::default()
        });
    }

    pub(super) fn succeed(&mut self, instant: &str) {
        self.end(instant, OccurrenceState::Succeeded, "Completed");
    }

    pub(super) fn spec(&mut self, spec: &Value) {
        let mut manifest = serde_json::to_value(&self.snapshot.schedule).unwrap();
        merge(&mut manifest["spec"], spec);
        self.snapshot.schedule = serde_json::from_value(manifest).unwrap();
    }

    pub(super) fn status(&self) -> &MaintenanceScheduleStatus {
        self.snapshot.schedule.status.as_ref().unwrap()
    }

    /// Claims as `HH` of the instant, started ones with `!`.
    pub(super) fn claims(&self) -> Vec<String> {
        self.status()
            .claimed
            .iter()
            .map(|c| format!("{}{}", &c.time.to_string()[11..13], if c.start { "!" } else { "" }))
            .collect()
    }

    /// Skipped ranges as `Reason HH-HH`.
    pub(super) fn skipped(&self) -> Vec<String> {
        self.status()
            .skipped
            .iter()
            .map(|r| {
                format!(
                    "{:?} {}-{}",
                    r.reason,
                    &r.from.to_string()[11..13],
                    &r.to.to_string()[11..13]
                )
            })
            .collect()
    }
}

pub(super) fn merge(into: &mut Value, from: &Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        for (key, value) in from {
            into.insert(key.clone(), value.clone());
        }
    }
}

#[test]
fn a_due_instant_is_created_inert_then_claimed_in_one_write() {
    let mut driver = Driver::policy("Forbid");
    let writes = driver.writes;
    let plan = driver.run("2026-01-01T01:00:00Z");
    assert_eq!(driver.claims(), ["01!"]);
    assert_eq!(driver.writes, writes + 1);
    let occurrence = &driver.snapshot.works[&at("2026-01-01T01:00:00Z")];
    assert_eq!(occurrence.spec.schedule_uid.as_deref(), Some("s1"));
    assert_eq!(occurrence.metadata.name.as_deref(), Some("s-202601010100"));
    assert_eq!(driver.status().last_schedule_time, Some(at("2026-01-01T01:00:00Z")));
    assert_eq!(driver.status().next_schedule_time, Some(at("2026-01-01T02:00:00Z")));
    assert_eq!(plan.wake_at, Some(time("2026-01-01T02:00:00Z")));
}

#[test]
fn the_version_of_the_zones_is_in_the_status() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    assert_eq!(driver.status().tzdb_version.as_deref(), Some(crate::time::tzdb_version()));
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut driver = Driver::policy("Forbid");
    let writes = driver.writes;
    driver.run("2026-01-01T00:30:00Z");
    assert_eq!(driver.writes, writes);
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    driver.run("2026-01-01T00:31:00Z");
    assert_eq!(
        driver.writes, writes,
        "an idle schedule is not sealed merely because the leader changed"
    );
}

#[test]
fn a_new_term_seals_a_schedule_with_open_occurrences() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    assert!(driver.run("2026-01-01T01:00:05Z").status.is_some());
}

#[test]
fn an_over_occurrence_frees_its_claim() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.succeed("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T01:10:00Z");
    assert!(driver.claims().is_empty());
    assert_eq!(driver.status().active, Some(0));
}

#[test]
fn forbid_decides_at_the_instant_and_for_good() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:00:00Z");
    assert_eq!(driver.claims(), ["01!"]);
    assert_eq!(driver.skipped(), ["Concurrent 02-02"]);
    driver.succeed("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:00:10Z");
    assert!(driver.claims().is_empty(), "a CronJob would run it later");
    assert_eq!(driver.notes.iter().filter(|n| n.reason == "InstantConcurrent").count(), 1);
}

#[test]
fn caught_up_instants_follow_one_after_another() {
    for policy in ["Forbid", "Replace", "Enqueue"] {
        let mut driver = Driver::policy(policy);
        driver.run("2026-01-01T03:00:00Z");
        assert_eq!(driver.claims(), ["01!", "02", "03"], "{policy}");
        assert!(!driver.status().claimed.iter().any(|c| c.replaces), "{policy}");
        driver.succeed("2026-01-01T01:00:00Z");
        driver.run("2026-01-01T03:01:00Z");
        assert_eq!(driver.claims(), ["02!", "03"], "{policy}");
    }
}

#[test]
fn allow_starts_all() {
    let mut driver = Driver::policy("Allow");
    driver.run("2026-01-01T02:00:00Z");
    driver.run("2026-01-01T03:00:00Z");
    assert_eq!(driver.claims(), ["01!", "02!", "03!"]);
}

#[test]
fn enqueue_keeps_the_newest_waiting() {
    let mut driver = Driver::policy("Enqueue");
    for hour in 1..=6 {
        driver.run(&format!("2026-01-01T0{hour}:00:00Z"));
    }
    assert_eq!(driver.claims(), ["01!", "04", "05", "06"]);
    assert_eq!(driver.skipped(), ["Concurrent 02-02", "Concurrent 03-03"]);
}

#[test]
fn replace_cancels_what_runs_and_what_waits_gives_way() {
    let mut driver = Driver::policy("Replace");
    driver.run("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:00:00Z");
    assert_eq!(driver.claims(), ["01!", "02"]);
    assert!(driver.status().claimed[1].replaces);
    driver.run("2026-01-01T03:00:00Z");
    assert_eq!(driver.claims(), ["01!", "03"], "the waiting one gave way");
    assert_eq!(driver.skipped(), ["Concurrent 02-02"]);
    driver.end("2026-01-01T01:00:00Z", OccurrenceState::Cancelled, "Replaced");
    driver.run("2026-01-01T03:00:05Z");
    assert_eq!(driver.claims(), ["03!"]);
}

#[test]
fn unresolved_counts_as_running() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.end("2026-01-01T01:00:00Z", OccurrenceState::Unresolved, "EndNotSeen");
    driver.run("2026-01-01T02:00:00Z");
    assert_eq!(driver.skipped(), ["Concurrent 02-02"]);
}

#[test]
fn a_claim_is_a_promise() {
    let mut driver = Driver::policy("Enqueue");
    driver.run("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:00:00Z");
    driver.spec(&json!({"suspend": true, "schedule": "30 * * * *", "concurrencyPolicy": "Forbid"}));
    driver.run("2026-01-01T02:10:00Z");
    assert_eq!(driver.claims(), ["01!", "02"]);
    driver.succeed("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:11:00Z");
    assert_eq!(driver.claims(), ["02!"], "suspending touches no occurrence that exists");
}

#[test]
fn the_deadline_is_checked_again_at_the_start() {
    let mut driver = Driver::policy("Enqueue");
    driver.spec(&json!({"startingDeadlineSeconds": 600}));
    driver.run("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:00:00Z");
    driver.succeed("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:10:01Z");
    assert!(driver.claims().is_empty());
    assert_eq!(driver.skipped(), ["Deadline 02-02"]);
}

#[test]
fn hand_made_ones_wait_for_their_turn_and_are_never_concurrent() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.by_hand("2025-12-31T23:00:00Z");
    driver.by_hand("2026-01-01T02:00:00Z");
    driver.run("2026-01-01T01:30:00Z");
    assert_eq!(driver.claims(), ["01!"]);
    driver.run("2026-01-01T02:00:00Z");
    assert_eq!(driver.claims(), ["01!", "02"]);
    assert!(driver.skipped().is_empty(), "the hand-made one is that instant");
    driver.succeed("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:00:10Z");
    assert_eq!(driver.claims(), ["23!", "02"], "the oldest instant first");
    driver.succeed("2025-12-31T23:00:00Z");
    driver.run("2026-01-01T02:00:20Z");
    assert_eq!(driver.claims(), ["02!"]);
}

#[test]
fn the_instant_of_a_hand_made_one_that_is_deleted_while_it_waits_is_not_forgotten() {
    for policy in ["Allow", "Forbid", "Replace", "Enqueue"] {
        let mut driver = Driver::policy(policy);
        driver.run("2026-01-01T01:00:00Z");
        driver.by_hand("2026-01-01T02:00:00Z");
        driver.run("2026-01-01T02:00:00Z");
        let uid = driver.snapshot.works.remove(&at("2026-01-01T02:00:00Z")).unwrap();
        let plan = driver.run("2026-01-01T02:00:30Z");
        let uid = uid.metadata.uid.unwrap();
        assert!(plan.probe.iter().any(|claim| claim.uid == uid), "{policy}: {:?}", plan.probe);
        driver.snapshot.over.insert(uid);
        driver.run("2026-01-01T02:00:40Z");
        assert_eq!(driver.skipped(), ["Deleted 02-02"], "{policy}");
    }
}

#[test]
fn hand_made_ones_replace_nothing_and_give_way_to_nothing() {
    let mut driver = Driver::policy("Replace");
    driver.run("2026-01-01T01:00:00Z");
    driver.by_hand("2026-01-01T02:00:00Z");
    driver.run("2026-01-01T02:00:00Z");
    assert_eq!(driver.claims(), ["01!", "02"]);
    assert!(!driver.status().claimed.iter().any(|c| c.replaces));
    driver.run("2026-01-01T03:00:00Z");
    assert_eq!(driver.claims(), ["01!", "02", "03"]);
    assert!(driver.status().claimed[2].replaces, "a planned one still does");
    assert!(driver.skipped().is_empty());

    let mut driver = Driver::policy("Enqueue");
    driver.by_hand("2026-01-01T02:00:00Z");
    for hour in 1..=6 {
        driver.run(&format!("2026-01-01T0{hour}:00:00Z"));
    }
    assert_eq!(driver.claims(), ["01!", "02", "04", "05", "06"], "the limit is of planned ones");
    assert_eq!(driver.skipped(), ["Concurrent 03-03"]);
}

#[test]
fn hand_made_ones_ignore_suspension_but_not_the_mark() {
    let mut driver = Driver::policy("Forbid");
    driver.spec(&json!({"suspend": true}));
    driver.by_hand("2026-01-01T00:30:00Z");
    driver.run("2026-01-01T00:45:00Z");
    assert_eq!(driver.claims(), ["00!"]);
    let mut pruned = Driver::policy("Forbid");
    pruned.snapshot.schedule.status.as_mut().unwrap().pruned_through =
        Some(at("2026-01-01T00:30:00Z"));
    pruned.by_hand("2026-01-01T00:30:00Z");
    pruned.run("2026-01-01T00:45:00Z");
    assert!(pruned.claims().is_empty(), "its record may have been removed: it may have run");
}

#[test]
fn an_instant_whose_record_may_have_been_removed_is_not_run() {
    let mut driver = Driver::policy("Forbid");
    driver.snapshot.schedule.status.as_mut().unwrap().pruned_through =
        Some(at("2026-01-01T01:00:00Z"));
    driver.run("2026-01-01T01:00:30Z");
    assert!(driver.claims().is_empty() && driver.snapshot.works.is_empty());
    assert_eq!(driver.skipped(), ["Superseded 01-01"]);
    driver.run("2026-01-01T02:00:00Z");
    assert_eq!(driver.claims(), ["02!"], "those after the mark do");
}

#[test]
fn the_plan_takes_the_object_that_exists() {
    let mut driver = Driver::policy("Forbid");
    driver.by_hand("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T01:00:00Z");
    assert_eq!(driver.status().claimed[0].uid, "u1");
    assert_eq!(driver.snapshot.works.len(), 1);
}

#[test]
fn a_terminal_instant_is_not_run_again() {
    let mut driver = Driver::policy("Forbid");
    driver.by_hand("2026-01-01T01:00:00Z");
    driver.succeed("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T01:00:00Z");
    assert!(driver.claims().is_empty());
    assert_eq!(driver.status().last_schedule_time, Some(at("2026-01-01T01:00:00Z")));
}
