//! Every rule of the decision about a schedule. The driver creates and writes as the API server would.

use serde_json::{Value, json};

use super::*;
use crate::api::{MaintenanceOccurrenceStatus, OccurrenceState};

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn at(text: &str) -> IntendedTime {
    text.parse().unwrap()
}

fn fence() -> Fence {
    Fence { epoch: 7, nonce: "n7".into() }
}

/// A schedule every hour on the hour, created at midnight, driven through time.
struct Driver {
    snapshot: Snapshot,
    uids: usize,
    writes: usize,
    notes: Vec<Note>,
}

impl Driver {
    fn new(spec: &Value) -> Self {
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
                occurrences: BTreeMap::new(),
                taken_over: Some(TakenOver::default()),
                refused: BTreeMap::new(),
                over: BTreeSet::new(),
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
    fn policy(policy: &str) -> Self {
        let mut driver = Self::new(
            &json!({"concurrencyPolicy": policy, "missedRuns": {"policy": "All", "limit": 3}}),
        );
        driver.run("2026-01-01T00:00:40Z");
        driver
    }

    /// Decides and acts until nothing more is wanted.
    fn run(&mut self, now: &str) -> Plan {
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
            for occurrence in plan.create {
                self.create(occurrence);
            }
        }
        panic!("does not come to rest");
    }

    fn write(&mut self, mut status: MaintenanceScheduleStatus) {
        for claim in &status.claimed {
            assert!(!claim.uid.is_empty(), "a claim without uid would start anything of that name");
        }
        status.fence = Some(fence());
        self.snapshot.schedule.status = Some(status);
        self.snapshot.taken_over = None;
        self.writes += 1;
    }

    fn create(&mut self, mut occurrence: MaintenanceOccurrence) {
        self.uids += 1;
        occurrence.metadata.uid = Some(format!("u{}", self.uids));
        self.snapshot.occurrences.insert(occurrence.spec.intended_time, occurrence);
    }

    fn by_hand(&mut self, instant: &str) {
        let mut occurrence = new_occurrence(&self.snapshot.schedule, at(instant));
        occurrence.spec.schedule_uid = None;
        occurrence.spec.run = None;
        self.create(occurrence);
    }

    fn end(&mut self, instant: &str, state: OccurrenceState, reason: &str) {
        let occurrence = self.snapshot.occurrences.get_mut(&at(instant)).unwrap();
        occurrence.status = Some(MaintenanceOccurrenceStatus {
            state: Some(state),
            reason: Some(reason.into()),
            ..Default::default()
        });
    }

    fn succeed(&mut self, instant: &str) {
        self.end(instant, OccurrenceState::Succeeded, "Completed");
    }

    fn spec(&mut self, spec: &Value) {
        let mut manifest = serde_json::to_value(&self.snapshot.schedule).unwrap();
        merge(&mut manifest["spec"], spec);
        self.snapshot.schedule = serde_json::from_value(manifest).unwrap();
    }

    fn status(&self) -> &MaintenanceScheduleStatus {
        self.snapshot.schedule.status.as_ref().unwrap()
    }

    /// Claims as `HH` of the instant, started ones with `!`.
    fn claims(&self) -> Vec<String> {
        self.status()
            .claimed
            .iter()
            .map(|c| format!("{}{}", &c.time.to_string()[11..13], if c.start { "!" } else { "" }))
            .collect()
    }

    /// Skipped ranges as `Reason HH-HH`.
    fn skipped(&self) -> Vec<String> {
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

fn merge(into: &mut Value, from: &Value) {
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
    let occurrence = &driver.snapshot.occurrences[&at("2026-01-01T01:00:00Z")];
    assert_eq!(occurrence.spec.schedule_uid.as_deref(), Some("s1"));
    assert_eq!(occurrence.metadata.name.as_deref(), Some("s-202601010100"));
    assert_eq!(driver.status().last_schedule_time, Some(at("2026-01-01T01:00:00Z")));
    assert_eq!(driver.status().next_schedule_time, Some(at("2026-01-01T02:00:00Z")));
    assert_eq!(plan.wake_at, Some(time("2026-01-01T02:00:00Z")));
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
    assert_eq!(driver.claims(), ["01!"]);
    assert!(driver.skipped().is_empty(), "the hand-made one is that instant");
    driver.succeed("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:00:10Z");
    assert_eq!(driver.claims(), ["23!"], "the oldest instant first");
    driver.succeed("2025-12-31T23:00:00Z");
    driver.run("2026-01-01T02:00:20Z");
    assert_eq!(driver.claims(), ["02!"]);
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
fn the_plan_takes_the_object_that_exists() {
    let mut driver = Driver::policy("Forbid");
    driver.by_hand("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T01:00:00Z");
    assert_eq!(driver.status().claimed[0].uid, "u1");
    assert_eq!(driver.snapshot.occurrences.len(), 1);
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

#[test]
fn a_deleted_occurrence_keeps_its_place_until_its_runs_are_over() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.snapshot.occurrences.clear();
    let plan = driver.run("2026-01-01T01:10:00Z");
    assert_eq!(plan.probe.len(), 1);
    assert_eq!(driver.claims(), ["01!"]);
    assert!(plan.wake_at.unwrap() <= time("2026-01-01T01:10:05Z"));
    driver.run("2026-01-01T02:00:00Z");
    assert_eq!(driver.skipped(), ["Concurrent 02-02"]);
    driver.snapshot.over.insert("u1".into());
    driver.run("2026-01-01T02:10:00Z");
    assert!(driver.claims().is_empty());
    assert_eq!(driver.skipped(), ["Deleted 01-01", "Concurrent 02-02"]);
}

#[test]
fn a_persons_word_frees_a_claim() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.snapshot.occurrences.clear();
    driver.spec(&json!({"abandon": [{"uid": "u1", "reason": "node was scrapped"}]}));
    driver.run("2026-01-01T01:10:00Z");
    assert!(driver.claims().is_empty());
}

#[test]
fn another_object_of_the_same_name_is_not_the_claimed_one() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.snapshot.occurrences.clear();
    driver.by_hand("2026-01-01T01:00:00Z");
    let plan = driver.run("2026-01-01T01:10:00Z");
    assert_eq!(plan.probe.len(), 1, "the old one's runs are asked about");
    assert_eq!(driver.claims(), ["01!"]);
    assert_eq!(driver.status().claimed[0].uid, "u1");
}

#[test]
fn a_wrong_clock_creates_nothing_and_says_so() {
    let mut driver = Driver::policy("Forbid");
    driver.snapshot.may_create = Err("the clocks differ by 42 s".into());
    driver.run("2026-01-01T01:00:00Z");
    assert!(driver.claims().is_empty() && driver.snapshot.occurrences.is_empty());
    let ready = &driver.status().conditions[0];
    assert_eq!(
        (ready.reason.as_str(), ready.message.as_str()),
        ("ClockSkew", "the clocks differ by 42 s")
    );
    driver.snapshot.may_create = Ok(());
    driver.run("2026-01-01T01:00:20Z");
    assert_eq!(driver.claims(), ["01!"]);
}

#[test]
fn a_wrong_clock_starts_nothing_that_waits() {
    let mut driver = Driver::policy("Enqueue");
    driver.run("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:00:00Z");
    driver.succeed("2026-01-01T01:00:00Z");
    driver.snapshot.may_create = Err("the clocks differ".into());
    driver.run("2026-01-01T02:10:00Z");
    assert_eq!(driver.claims(), ["02"], "kept, not started");
}

#[test]
fn a_refused_creation_is_tried_again_then_given_up() {
    let mut driver = Driver::policy("Forbid");
    let refuse = |driver: &mut Driver, now: &str| {
        let refusal = Refusal { message: "exceeded quota".into(), retry_at: time(now) };
        driver.snapshot.refused.insert(at("2026-01-01T01:00:00Z"), refusal);
        driver.run(now);
    };
    refuse(&mut driver, "2026-01-01T01:00:00Z");
    assert_eq!(driver.status().conditions[0].reason, "CreateRefused");
    assert_eq!(
        driver.status().last_schedule_time,
        driver.status().last_schedule_time.filter(|t| *t < at("2026-01-01T01:00:00Z")),
        "nothing is decided yet"
    );
    refuse(&mut driver, "2026-01-01T01:09:59Z");
    assert!(driver.skipped().is_empty());
    refuse(&mut driver, "2026-01-01T01:10:00Z");
    assert_eq!(driver.skipped(), ["CreateRefused 01-01"]);
    assert_eq!(driver.status().skipped_total["CreateRefused"], 1);
}

#[test]
fn an_invalid_spec_stops_new_instants_only() {
    let mut driver = Driver::policy("Enqueue");
    driver.run("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:00:00Z");
    driver.spec(&json!({"schedule": "0 0 * * 7"}));
    driver.run("2026-01-01T02:30:00Z");
    assert_eq!(driver.status().state, Some(ScheduleState::Invalid));
    assert!(
        driver.status().conditions[0].message.contains("SUN"),
        "{:?}",
        driver.status().conditions
    );
    driver.succeed("2026-01-01T01:00:00Z");
    driver.run("2026-01-01T02:31:00Z");
    assert_eq!(driver.claims(), ["02!"]);
}

#[test]
fn an_expression_that_never_fires_says_so() {
    let mut driver = Driver::new(&json!({"schedule": "0 0 30 2 *"}));
    driver.run("2026-01-01T00:00:40Z");
    assert_eq!(driver.status().conditions[0].reason, "NeverFires");
    assert_eq!(driver.status().next_schedule_time, None);
}

#[test]
fn a_re_created_schedule_inherits_what_was_prepared_and_nothing_else() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.by_hand("2026-01-01T00:15:00Z");
    let prepared: MaintenanceOccurrenceStatus = serde_json::from_value(json!({
        "state": "Running", "attempts": [{"number": 1, "runKey": "k-m1", "handle": "j", "epoch": 7}],
    }))
    .unwrap();
    driver.snapshot.occurrences.get_mut(&at("2026-01-01T01:00:00Z")).unwrap().status =
        Some(prepared);
    driver.snapshot.schedule.metadata.uid = Some("s2".into());
    driver.snapshot.schedule.metadata.creation_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time("2026-01-01T01:30:00Z")));
    assert!(needs_takeover(&driver.snapshot.schedule));
    driver.snapshot.taken_over =
        Some(TakenOver { fenced_through: Some(at("2026-01-01T01:00:00Z")) });
    driver.run("2026-01-01T01:30:10Z");
    assert_eq!(driver.claims(), ["01!"]);
    assert_eq!(driver.status().pruned_through, Some(at("2026-01-01T01:00:00Z")));
    assert_eq!(driver.status().observed.as_ref().unwrap().uid.as_deref(), Some("s2"));
    assert!(!needs_takeover(&driver.snapshot.schedule));
    assert!(
        driver.skipped().is_empty(),
        "nothing before its creation is its own: {:?}",
        driver.skipped()
    );
}

#[test]
fn records_are_removed_only_behind_the_stored_mark() {
    let mut driver = Driver::policy("Forbid");
    driver.spec(&json!({"retention": {"successful": 1, "failed": 1, "maxAgeDays": 90}}));
    for hour in 1..=3 {
        driver.run(&format!("2026-01-01T0{hour}:00:00Z"));
        driver.succeed(&format!("2026-01-01T0{hour}:00:00Z"));
    }
    let first = driver.run("2026-01-01T03:10:00Z");
    let through = driver.status().pruned_through;
    assert_eq!(through, Some(at("2026-01-01T02:00:00Z")));
    assert!(
        first.prune.iter().all(|o| o.spec.intended_time < at("2026-01-01T02:00:00Z")),
        "only what the mark covered before"
    );
    let second = driver.run("2026-01-01T03:10:01Z");
    assert!(second.prune.iter().any(|o| o.spec.intended_time == at("2026-01-01T02:00:00Z")));
    driver.snapshot.fence = Fence { epoch: 9, nonce: "n9".into() };
    assert!(
        decide(&driver.snapshot, time("2026-01-01T03:10:02Z")).prune.is_empty(),
        "not sealed in this term"
    );
}

#[test]
fn the_deadline_counts_from_the_delayed_start() {
    let driver =
        Driver::new(&json!({"spread": {"windowSeconds": 300}, "startingDeadlineSeconds": 60}));
    let schedule = &driver.snapshot.schedule;
    let instant = at("2026-01-01T01:00:00Z");
    let delay = spread_delay(schedule, instant);
    assert!(delay > SignedDuration::ZERO && delay < SignedDuration::from_secs(300));
    let end = instant.timestamp() + delay + SignedDuration::from_secs(60);
    assert_eq!(start_deadline(schedule, instant), Some(end));
}

#[test]
fn what_is_due_is_claimed_before_the_run_is_judged_and_a_refusal_stops_nothing() {
    let mut driver = Driver::new(&json!({}));
    assert!(driver.run("2026-01-01T00:00:40Z").ask_acceptance, "nothing is due: it is asked first");
    let due = driver.run("2026-01-01T01:00:00Z");
    assert_eq!(due.status.unwrap().claimed.len(), 1);
    assert!(!due.ask_acceptance, "the claim does not wait for the provider");
    assert!(driver.run("2026-01-01T01:00:00Z").ask_acceptance);
    driver.snapshot.acceptance = Some(Acceptance::Refused { message: "no".into() });
    let judged = driver.run("2026-01-01T01:00:01Z");
    let status = judged.status.unwrap();
    let refused = status.conditions.iter().find(|c| c.r#type == "Accepted").unwrap();
    assert_eq!((refused.reason.as_str(), refused.message.as_str()), ("RunRefused", "no"));
    assert_eq!(status.claimed.len(), 1);
    assert!(status.conditions.iter().any(|c| c.r#type == "Ready" && c.reason == "Scheduled"));
    driver.snapshot.acceptance = None;
    assert!(!driver.run("2026-01-01T01:00:02Z").ask_acceptance, "it is known");
    driver.snapshot.schedule.metadata.generation = Some(2);
    driver.snapshot.acceptance = Some(Acceptance::NotYet { message: "quota".into() });
    let later = driver.run("2026-01-01T01:00:03Z").wake_at;
    assert_eq!(later, Some(time("2026-01-01T01:01:03Z")));
}
