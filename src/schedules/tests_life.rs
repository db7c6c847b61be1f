//! More rules of the decision, on the same driver.

use serde_json::json;

use super::{tests::*, *};
use crate::api::{Claim, MAX_CLAIMS, MaintenanceOccurrenceStatus};

#[test]
fn a_deleted_occurrence_keeps_its_place_until_its_runs_are_over() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.snapshot.works.clear();
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
    driver.snapshot.works.clear();
    driver.spec(&json!({"abandon": [{"uid": "u1", "reason": "node was scrapped"}]}));
    driver.run("2026-01-01T01:10:00Z");
    assert!(driver.claims().is_empty());
}

#[test]
fn another_object_of_the_same_name_is_not_the_claimed_one() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    driver.snapshot.works.clear();
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
    assert!(driver.claims().is_empty() && driver.snapshot.works.is_empty());
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
fn an_edit_that_is_seen_by_a_wrong_clock_counts_once_the_clock_is_right() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T00:30:00Z");
    let from = driver.status().effective_time;
    assert!(from.is_some());
    driver.snapshot.schedule.spec.schedule = "*/10 * * * *".to_owned();
    driver.snapshot.may_create = Err("the clocks differ by 88 s".into());
    driver.run("2026-01-01T00:30:30Z");
    assert_eq!(
        driver.status().effective_time,
        from,
        "by that clock the edit counts from another time"
    );
    assert_eq!(driver.status().conditions[0].reason, "ClockSkew");
    driver.snapshot.may_create = Ok(());
    driver.run("2026-01-01T00:32:00Z");
    let effective = driver.status().effective_time.map(|from| from.0);
    assert_eq!(effective, Some(time("2026-01-01T00:32:00Z")));
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

/// What a person triggers runs at once, unless the plan has still to decide that instant: the record
/// may be deleted before it does, and the plan would run the instant again.
#[test]
fn a_hand_made_one_waits_for_a_plan_that_cannot_be_recorded() {
    let mut driver = Driver::policy("Allow");
    let refuse = |driver: &mut Driver, now: &str| {
        let refusal = Refusal { message: "exceeded quota".into(), retry_at: time(now) };
        driver.snapshot.refused.insert(at("2026-01-01T01:00:00Z"), refusal);
        driver.run(now);
    };
    driver.by_hand("2026-01-01T02:00:00Z");
    driver.by_hand("2026-01-01T02:07:00Z");
    refuse(&mut driver, "2026-01-01T02:08:00Z");
    assert_eq!(driver.claims(), ["02!"], "02:07 is no instant of the schedule");
    assert_eq!(driver.status().claimed[0].time, at("2026-01-01T02:07:00Z"));
    driver.snapshot.refused.clear();
    driver.run("2026-01-01T02:09:00Z");
    assert_eq!(driver.claims(), ["01!", "02!", "02!"], "the plan decides 02:00 and claims it");
    assert_eq!(driver.status().last_schedule_time, Some(at("2026-01-01T02:00:00Z")));
}

#[test]
fn while_the_spec_is_invalid_an_instant_of_the_old_one_waits_and_others_run() {
    let mut driver = Driver::policy("Allow");
    driver.spec(&json!({"schedule": "0 0 * * 7"}));
    driver.by_hand("2026-01-01T01:00:00Z");
    driver.by_hand("2026-01-01T01:07:00Z");
    driver.run("2026-01-01T01:08:00Z");
    let claimed: Vec<_> = driver.status().claimed.iter().map(|claim| claim.time).collect();
    assert_eq!(claimed, [at("2026-01-01T01:07:00Z")]);
    driver.spec(&json!({"schedule": "0 * * * *"}));
    driver.run("2026-01-01T01:09:00Z");
    assert_eq!(driver.claims(), ["01!", "01!"], "the edit was taken back: the plan decides it");
    assert_eq!(driver.status().last_schedule_time, Some(at("2026-01-01T01:00:00Z")));
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
    driver.snapshot.works.get_mut(&at("2026-01-01T01:00:00Z")).unwrap().status = Some(prepared);
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

#[test]
fn at_most_so_many_claims_exist_also_under_allow() {
    let mut driver = Driver::policy("Allow");
    driver.spec(&json!({"schedule": "* * * * *"}));
    driver.run("2026-01-01T00:00:50Z");
    for minute in 1..=i64::try_from(MAX_CLAIMS).unwrap() + 2 {
        let now = time("2026-01-01T00:00:00Z") + jiff::SignedDuration::from_mins(minute);
        driver.run(&now.to_string());
    }
    assert_eq!(driver.status().claimed.len(), MAX_CLAIMS);
    assert_eq!(driver.snapshot.works.len(), MAX_CLAIMS, "nothing is created in vain");
    let concurrent: i64 = driver.status().skipped.iter().map(|range| range.count).sum();
    assert_eq!(concurrent, 2);
}

#[test]
fn a_schedule_that_is_full_of_claims_starts_one_of_them() {
    let mut driver = Driver::policy("Forbid");
    driver.run("2026-01-01T01:00:00Z");
    let mut status = driver.status().clone();
    let mut claim = status.claimed.remove(0);
    claim.start = false;
    for minute in 0..MAX_CLAIMS {
        let instant = format!("2025-12-31T{:02}:{:02}:00Z", minute / 60, minute % 60);
        driver.by_hand(&instant);
        let uid = driver.snapshot.works[&at(&instant)].metadata.uid.clone().unwrap();
        status.claimed.push(Claim { time: at(&instant), uid, ..claim.clone() });
    }
    driver.write(status);
    driver.by_hand("2025-12-30T23:00:00Z"); // older than all of them, and not claimed
    driver.run("2026-01-01T01:00:30Z");
    let claimed = &driver.status().claimed;
    assert_eq!(claimed.len(), MAX_CLAIMS);
    let started: Vec<_> = claimed.iter().filter(|claim| claim.start).map(|c| c.time).collect();
    assert_eq!(started, [at("2025-12-31T00:00:00Z")]);
    assert!(driver.skipped().is_empty(), "hand-made work is never Concurrent");
}
