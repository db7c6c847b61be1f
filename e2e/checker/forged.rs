//! Forged histories: good ones, and for each rule what a faulty operator would have left behind. A
//! checker that accepts one of the latter proves nothing.

use serde_json::{Value, json};

use super::{
    Exception, Rule, check,
    forger::{CONTROLLER, Forger, IDENTITY, NS, OPERATOR, PERSON, claim, instant},
    history::{BadLine, History},
};

#[test]
fn a_good_history_is_accepted() {
    let mut forger = Forger::new();
    let first = forger.finished();
    let second = forger.acquire("n2");
    forger.schedule((second, "n2"), &json!([]));
    let report = forger.judge().unwrap();
    assert_eq!(report.terms.iter().map(|term| term.epoch).collect::<Vec<_>>(), [first, second]);
    assert_eq!(report.releases_of(IDENTITY).count(), 1);
    assert_eq!(report.releases[0].epoch, Some(first));
}

#[test]
fn a_takeover_midway_is_accepted() {
    let mut forger = Forger::new();
    forger.running();
    let second = forger.acquire("n2");
    forger.occurrence((second, "n2"), "o1", json!({"state": "Running"}));
    forger.job("update", CONTROLLER, 1, "j1", second, &json!({"condition": "Complete"}));
    forger.occurrence((second, "n2"), "o1", json!({"state": "Succeeded"}));
    forger.judge().unwrap();
}

#[test]
fn a_second_attempt_after_the_first_failed_is_accepted() {
    let mut forger = Forger::new();
    let epoch = forger.running();
    let term = (epoch, "n1");
    forger.job("update", CONTROLLER, 1, "j1", epoch, &json!({"condition": "Failed"}));
    forger.job("create", OPERATOR, 2, "j2", epoch, &Value::Null);
    forger.occurrence(
        term,
        "o1",
        json!({"state": "Starting", "attempts": [{"handle": "j1"}, {"handle": "j2"}]}),
    );
    forger.job("patch", OPERATOR, 2, "j2", epoch, &json!({"released": epoch}));
    assert_eq!(forger.judge().unwrap().releases_of(IDENTITY).count(), 2);
}

#[test]
fn an_occurrence_made_by_hand_without_a_schedule_decides_for_itself() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    let epoch = forger.acquire("n1");
    let by_hand = json!({"intendedTime": "2026-11-29T02:00:00Z"});
    forger.create_occurrence(by_hand.clone(), "o1");
    forger.occurrence_as(
        OPERATOR,
        (epoch, "n1"),
        "o1",
        &by_hand,
        json!({"state": "Starting"}),
        Value::Null,
    );
    forger.job("create", OPERATOR, 1, "j1", epoch, &Value::Null);
    let attempts = json!({"state": "Starting", "attempts": [{"handle": "j1"}]});
    forger.occurrence_as(OPERATOR, (epoch, "n1"), "o1", &by_hand, attempts, Value::Null);
    forger.job("patch", OPERATOR, 1, "j1", epoch, &json!({"released": epoch}));
    forger.judge().unwrap();
}

#[test]
fn an_empty_log_is_rejected() {
    Forger::new().must_break(Rule::NotEmpty);
}

#[test]
fn a_log_of_refused_writes_only_is_rejected() {
    let mut forger = Forger::new();
    let object = json!({"kind": "Lease", "metadata": {"name": "punctual", "uid": "l1"}});
    forger.record(OPERATOR, "update", "leases", "", 409, &object, Value::Null, &Value::Null);
    forger.must_break(Rule::NotEmpty);
    assert_eq!(forger.read().refused.len(), 1);
}

#[test]
fn a_torn_line_is_rejected() {
    let problem = History::read(["{\"stage\": "], NS, &[]).unwrap_err();
    assert!(matches!(problem, BadLine { line: 1, .. }), "{problem}");
}

#[test]
fn an_entry_without_the_object_is_rejected() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    forger.events[0]["responseObject"] = Value::Null;
    let line = forger.events[0].to_string();
    assert!(History::read([line.as_str()], NS, &[]).is_err());
}

#[test]
fn a_dry_run_is_no_write() {
    let mut forger = Forger::new();
    forger.finished();
    let before = forger.read().committed.len();
    // The operator's own check of the fence: an older epoch, sent as a dry run.
    forger.occurrence((1, "n0"), "o1", json!({"state": "Running"}));
    let last = forger.events.last_mut().unwrap();
    last["requestURI"] = json!("/apis/x?dryRun=All");
    assert_eq!(forger.read().committed.len(), before);
    forger.judge().unwrap();
}

#[test]
fn a_write_without_effect_is_no_write() {
    let mut forger = Forger::new();
    forger.finished();
    let before = forger.read().committed.len();
    let mut again = forger.events.last().unwrap().clone();
    again["user"]["username"] = json!("someone-else");
    forger.events.push(again);
    assert_eq!(forger.read().committed.len(), before);
}

#[test]
fn epochs_that_do_not_increase_are_rejected() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    let first = forger.acquire("n1");
    let request = json!({"metadata": {"uid": "l1", "resourceVersion": (first - 1).to_string()}});
    forger.lease(OPERATOR, "l1", &(first - 1).to_string(), "n2", request);
    forger.must_break(Rule::EpochsIncrease);
}

#[test]
fn an_epoch_that_starts_again_with_a_new_lease_is_rejected() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    let epoch = forger.acquire("n1");
    forger.delete(PERSON, "leases", "punctual", "l1", false);
    forger.new_lease("l2");
    forger.lease(OPERATOR, "l2", &epoch.to_string(), "n2", Value::Null);
    forger.must_break(Rule::EpochsIncrease);
}

#[test]
fn an_acquisition_without_a_condition_is_rejected() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    let epoch = forger.revision.to_string();
    forger.lease(OPERATOR, "l1", &epoch, "n1", json!({"metadata": {"resourceVersion": epoch}}));
    forger.must_break(Rule::EpochsIncrease);
}

#[test]
fn an_epoch_that_changes_within_a_term_is_rejected() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    let epoch = forger.acquire("n1");
    forger.lease(OPERATOR, "l1", &(epoch + 5).to_string(), "n1", Value::Null);
    forger.must_break(Rule::EpochsIncrease);
}

#[test]
fn an_epoch_that_is_not_the_replaced_version_is_rejected() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    forger.acquire("n1");
    forger.lease(OPERATOR, "l1", "7000", "n2", Value::Null);
    forger.must_break(Rule::EpochsIncrease);
}

#[test]
fn an_edit_of_the_lease_by_a_person_is_no_acquisition() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    forger.acquire("n1");
    forger.lease(PERSON, "l1", "1", "mine", Value::Null);
    forger.acquire("n2");
    assert_eq!(forger.judge().unwrap().terms.len(), 2);
}

#[test]
fn a_renewal_that_puts_back_what_a_person_edited_is_accepted() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    let epoch = forger.acquire("n1");
    forger.lease(PERSON, "l1", "1", "n1", Value::Null);
    forger.lease(OPERATOR, "l1", &epoch.to_string(), "n1", Value::Null);
    assert_eq!(forger.judge().unwrap().terms.len(), 1);
}

#[test]
fn a_renewal_whose_acquisition_was_not_recorded_is_a_term_only_with_holes() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    let epoch = forger.acquire("n1");
    forger.events.pop();
    forger.lease(OPERATOR, "l1", &epoch.to_string(), "n1", Value::Null);
    forger.must_break(Rule::EpochsIncrease);
    let report = check(forger.read(), "punctual", &[], true).unwrap();
    assert_eq!(report.terms[0].epoch, epoch);
}

#[test]
fn an_acquisition_that_the_api_server_gave_up_on_may_have_been_committed() {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    let epoch = forger.acquire("n1");
    let given_up = forger.events.last_mut().unwrap();
    given_up["responseStatus"]["code"] = json!(504);
    given_up["responseObject"] = json!({"kind": "Status"});
    forger.lease(OPERATOR, "l1", &epoch.to_string(), "n1", Value::Null);
    assert_eq!(forger.judge().unwrap().terms[0].epoch, epoch);
    // Refused is refused: then the same history is wrong.
    forger.events[1]["responseStatus"]["code"] = json!(409);
    forger.must_break(Rule::EpochsIncrease);
}

#[test]
fn two_processes_of_one_epoch_are_rejected() {
    let mut forger = Forger::new();
    let epoch = forger.prepared();
    forger.schedule((epoch, "another"), &claim());
    forger.must_break(Rule::OneNonceAnEpoch);
}

#[test]
fn a_term_that_nobody_acquired_is_rejected() {
    let mut forger = Forger::new();
    let epoch = forger.prepared();
    forger.schedule((epoch + 50, "n9"), &claim());
    forger.must_break(Rule::KnownTerm);
}

#[test]
fn a_write_of_an_older_term_after_a_newer_seal_is_rejected() {
    let mut forger = Forger::new();
    let first = forger.running();
    let second = forger.acquire("n2");
    forger.occurrence((second, "n2"), "o1", json!({"state": "Running"}));
    forger.occurrence((first, "n1"), "o1", json!({"state": "Running"}));
    forger.must_break(Rule::NoOlderTerm);
}

#[test]
fn an_older_term_that_keeps_the_newer_fence_is_rejected() {
    let mut forger = Forger::new();
    let first = forger.running();
    let second = forger.acquire("n2");
    forger.occurrence((second, "n2"), "o1", json!({"state": "Running"}));
    // As a write to the main endpoint would: the body carries the old fence, the object keeps the new.
    let request = json!({"metadata": {"uid": "o1", "resourceVersion": "1"}, "status": {"fence": {"epoch": first, "nonce": "n1"}}});
    forger.occurrence_as(
        OPERATOR,
        (second, "n2"),
        "o1",
        &instant(),
        json!({"state": "Running"}),
        request,
    );
    forger.must_break(Rule::NoOlderTerm);
}

#[test]
fn a_release_by_an_older_term_than_the_jobs_is_rejected() {
    let mut forger = Forger::new();
    let first = forger.prepared();
    let second = forger.acquire("n2");
    forger.job("update", OPERATOR, 1, "j1", second, &Value::Null);
    forger.job("patch", OPERATOR, 1, "j1", second, &json!({"released": first}));
    forger.must_break(Rule::NoOlderTerm);
}

#[test]
fn a_fence_that_vanishes_is_rejected() {
    let mut forger = Forger::new();
    forger.running();
    let mut event = forger.events.last().unwrap().clone();
    event["responseObject"]["status"]["fence"] = Value::Null;
    event["responseObject"]["metadata"]["resourceVersion"] = json!("9000");
    forger.events.push(event);
    forger.must_break(Rule::NoOlderTerm);
}

#[test]
fn a_write_without_a_precondition_is_rejected() {
    let mut forger = Forger::new();
    let epoch = forger.running();
    let request =
        json!({"metadata": {"uid": "o1"}, "status": {"fence": {"epoch": epoch, "nonce": "n1"}}});
    forger.occurrence_as(
        OPERATOR,
        (epoch, "n1"),
        "o1",
        &instant(),
        json!({"state": "Running"}),
        request,
    );
    forger.must_break(Rule::Precondition);
}

#[test]
fn a_delete_without_a_precondition_is_rejected() {
    let mut forger = Forger::new();
    forger.finished();
    forger.delete(OPERATOR, "jobs", &format!("{IDENTITY}-m1"), "j1", true);
    forger.judge().unwrap();
    forger.delete(OPERATOR, "maintenanceoccurrences", IDENTITY, "o1", false);
    forger.must_break(Rule::Precondition);
}

#[test]
fn an_identity_that_changes_is_rejected() {
    let mut forger = Forger::new();
    let epoch = forger.running();
    let other = json!({"intendedTime": "2026-11-29T02:00:00Z", "scheduleUID": "s2"});
    forger.occurrence_as(
        OPERATOR,
        (epoch, "n1"),
        "o1",
        &other,
        json!({"state": "Running"}),
        Value::Null,
    );
    forger.must_break(Rule::IdentityFixed);
}

#[test]
fn a_name_that_is_not_the_identity_is_rejected() {
    let mut forger = Forger::new();
    forger.create_occurrence(json!({"intendedTime": "2026-11-29T02:01:00Z"}), "o1");
    forger.must_break(Rule::IdentityFixed);
}

#[test]
fn an_outcome_that_changes_is_rejected() {
    for status in [
        json!({"state": "Failed"}),
        json!({"state": "Running"}),
        json!({"state": "Succeeded", "result": {"rows": 4}}),
    ] {
        let mut forger = Forger::new();
        let epoch = forger.finished();
        forger.occurrence((epoch, "n1"), "o1", status);
        forger.must_break(Rule::OutcomeFixed);
    }
}

#[test]
fn a_second_run_beside_the_first_is_rejected() {
    let mut forger = Forger::new();
    let epoch = forger.running();
    forger.job("create", OPERATOR, 2, "j2", epoch, &Value::Null);
    forger.occurrence(
        (epoch, "n1"),
        "o1",
        json!({"attempts": [{"handle": "j1"}, {"handle": "j2"}]}),
    );
    forger.job("patch", OPERATOR, 2, "j2", epoch, &json!({"released": epoch}));
    forger.must_break(Rule::OneRun);
}

#[test]
fn an_attempt_that_is_released_twice_is_rejected() {
    let mut forger = Forger::new();
    let epoch = forger.running();
    forger.delete(PERSON, "jobs", &format!("{IDENTITY}-m1"), "j1", false);
    forger.job("create", OPERATOR, 1, "j2", epoch, &Value::Null);
    forger.occurrence((epoch, "n1"), "o1", json!({"attempts": [{"handle": "j2"}]}));
    forger.job("patch", OPERATOR, 1, "j2", epoch, &json!({"released": epoch}));
    forger.must_break(Rule::OneRun);
}

#[test]
fn a_run_after_the_end_is_rejected_unless_a_person_deleted_the_record() {
    let mut forger = Forger::new();
    let epoch = forger.finished();
    forger.delete(PERSON, "maintenanceoccurrences", IDENTITY, "o1", false);
    forger.parent = "o2";
    forger.create_occurrence(instant(), "o2");
    forger.schedule((epoch, "n1"), &json!([{"uid": "o2", "start": true}]));
    forger.job("create", OPERATOR, 1, "j2", epoch, &Value::Null);
    forger.occurrence((epoch, "n1"), "o2", json!({"attempts": [{"handle": "j2"}]}));
    forger.job("patch", OPERATOR, 1, "j2", epoch, &json!({"released": epoch}));
    forger.must_break(Rule::OneRun);
    let exception = [Exception::RecordDeleted(IDENTITY.to_owned())];
    check(forger.read(), "punctual", &exception, false).unwrap();
}

#[test]
fn a_run_without_a_started_claim_is_rejected() {
    for claims in [
        json!([]),
        json!([{"uid": "o1", "start": false}]),
        json!([{"uid": "another", "start": true}]),
    ] {
        let mut forger = Forger::new();
        forger.running();
        for event in &mut forger.events {
            if event["objectRef"]["resource"] == "maintenanceschedules" {
                event["responseObject"]["status"]["claimed"] = claims.clone();
            }
        }
        forger.must_break(Rule::Claimed);
    }
}

#[test]
fn an_occurrence_made_by_hand_beside_its_schedule_needs_a_claim() {
    let mut forger = Forger::new();
    forger.running();
    for event in &mut forger.events {
        if let Some(spec) = event["responseObject"]["spec"].as_object_mut() {
            spec.remove("scheduleUID");
        }
        event["responseObject"]["status"]["claimed"] = json!([]);
    }
    forger.must_break(Rule::Claimed);
}

#[test]
fn a_release_of_a_handle_that_nobody_committed_is_rejected() {
    let mut forger = Forger::new();
    forger.running();
    for event in &mut forger.events {
        event["responseObject"]["status"]["attempts"] = Value::Null;
    }
    forger.must_break(Rule::Committed);
}

#[test]
fn a_job_started_by_a_person_is_an_exception_that_must_be_named() {
    let mut forger = Forger::new();
    forger.prepared();
    for event in &mut forger.events {
        event["responseObject"]["status"]["claimed"] = json!([]);
    }
    forger.job("update", PERSON, 1, "j1", 1, &json!({"condition": "Complete"}));
    forger.must_break(Rule::Claimed);
    let exception = [Exception::StartedByHand(format!("{IDENTITY}-m1"))];
    let report = check(forger.read(), "punctual", &exception, false);
    assert!(
        report.is_err_and(|violations| violations.iter().all(|one| one.rule == Rule::NoOlderTerm))
    );
}

#[test]
fn a_hole_in_the_log_is_seen_and_filled_by_a_reading() {
    let mut forger = Forger::new();
    forger.finished();
    let lost = forger.events.pop().unwrap();
    let live = lost["responseObject"].clone();
    assert!(!forger.read().reaches(&live), "the last version is not in the log");
    let lines: Vec<String> = forger.events.iter().map(Value::to_string).collect();
    let filled =
        History::read(lines.iter().map(String::as_str), NS, std::slice::from_ref(&live)).unwrap();
    assert_eq!(filled.committed.last().unwrap().text("/status/state"), "Succeeded");
    check(filled, "punctual", &[], true).unwrap();
}

#[test]
fn what_is_not_in_the_history_may_be_recorded_without_its_objects() {
    let mut forger = Forger::new();
    forger.finished();
    let mut cron_job = forger.events[0].clone();
    cron_job["objectRef"]["apiGroup"] = json!("batch");
    cron_job["objectRef"]["resource"] = json!("cronjobs");
    cron_job["responseObject"] = Value::Null;
    forger.events.push(cron_job.clone());
    let committed = forger.judge().unwrap().history.committed;
    assert!(committed.iter().all(|entry| entry.resource != "cronjobs"));
    cron_job["objectRef"]["resource"] = json!("jobs");
    let line = cron_job.to_string();
    History::read([line.as_str()], NS, &[]).unwrap_err();
}
