//! Forged histories: good ones, and for each invariant what a faulty operator would have left
//! behind. A checker that accepts one of the latter proves nothing.

use serde_json::json;

use super::Invariant;
use crate::sim::RunChange;

mod forger;
mod report_schedules;
mod reports;
mod runs;

use forger::{Forger, INSTANT, Term, attempt, claim, lease, occurrence, schedule};

#[test]
fn a_clean_history_passes() {
    Forger::finished().0.must_pass();
}

#[test]
fn a_takeover_midway_passes() {
    let (mut forger, _) = Forger::running();
    let next = forger.at(140).acquire("r1", "n1");
    forger.claim(next, &json!([claim("o1", true)]));
    forger.attempts(next, "Running", &json!([attempt(1, &json!({}))]));
    forger.at(150).finish_job(1, "Complete");
    forger.end(next, "Succeeded");
    forger.claim(next, &json!([]));
    forger.must_pass();
}

#[test]
fn a_lease_that_people_delete_and_edit_passes() {
    let (mut forger, _) = Forger::finished();
    forger.delete("person", &lease());
    forger.acquire("r1", "n1");
    forger.write(
        "person",
        &lease(),
        &json!({"metadata": {"annotations": {"punctual.dev/epoch": "7"}}}),
    );
    forger.acquire("r0", "n2");
    forger.must_pass();
}

#[test]
fn an_empty_history_is_refused() {
    let mut forger = Forger::new();
    forger.new_schedule(&json!({}));
    forger.must_break(Invariant::HistoryNotEmpty, "no replica wrote");
}

#[test]
fn an_epoch_that_is_not_above_all_before_is_found() {
    let (mut forger, term) = Forger::led();
    forger.delete("person", &lease());
    forger.write("r1", &lease(), &json!({"metadata": {"uid": "l2"}}));
    forger.take(Term { by: "r1", epoch: term.epoch, nonce: "n1" });
    forger.must_break(Invariant::EpochsIncrease, "was acquired after epoch");
}

#[test]
fn an_epoch_that_is_not_the_version_it_replaced_is_found() {
    let (mut forger, term) = Forger::led();
    forger.take(Term { by: "r1", epoch: term.epoch + 5, nonce: "n1" });
    forger.must_break(Invariant::EpochsIncrease, "is not of the version");
}

#[test]
fn an_epoch_that_changes_within_a_term_is_found() {
    let (mut forger, term) = Forger::led();
    forger.take(Term { epoch: term.epoch + 1, ..term });
    forger.must_break(Invariant::EpochsIncrease, "changes within a term");
}

#[test]
fn an_epoch_of_two_processes_is_found() {
    let (mut forger, term) = Forger::led();
    forger.decide(Term { by: "r1", nonce: "n1", ..term }, &schedule(), &json!({}));
    let found = forger.judged();
    assert!(found.iter().any(|v| v.invariant == Invariant::EpochOfOneProcess), "{found:#?}");
}

#[test]
fn a_term_renewed_by_another_replica_is_found() {
    let (mut forger, term) = Forger::led();
    forger.take(Term { by: "r1", ..term });
    forger.must_break(Invariant::EpochOfOneProcess, "r1 renews");
}

#[test]
fn a_write_of_a_term_that_nobody_acquired_is_found() {
    let (mut forger, term) = Forger::led();
    forger.decide(Term { epoch: term.epoch + 1, ..term }, &schedule(), &json!({}));
    forger.must_break(Invariant::TermAcquired, "nobody has acquired");
}

#[test]
fn a_write_of_a_replica_that_never_led_is_found() {
    let (mut forger, _) = Forger::led();
    forger.create_occurrence("r1", "o1", &json!({}));
    forger.must_break(Invariant::TermAcquired, "without ever having led");
}

#[test]
fn a_status_without_a_fence_is_found() {
    let mut forger = Forger::new();
    forger.new_schedule(&json!({}));
    forger.acquire("r0", "n0");
    forger.status("r0", &schedule(), json!({"state": "Active"}));
    forger.must_break(Invariant::TermAcquired, "without a fence");
}

#[test]
fn a_write_of_an_older_term_after_the_seal_is_found() {
    let (mut forger, old) = Forger::led();
    let new = forger.acquire("r1", "n1");
    forger.decide(new, &schedule(), &json!({}));
    forger.decide(old, &schedule(), &json!({"state": "Active"}));
    forger.must_break(Invariant::OlderTermWritesNothing, "had sealed it");
}

#[test]
fn a_fence_that_vanishes_is_found() {
    let (mut forger, _) = Forger::led();
    forger.status("person", &schedule(), json!({}));
    forger.must_break(Invariant::OlderTermWritesNothing, "vanished");
}

#[test]
fn a_delete_by_an_older_term_is_found() {
    let (mut forger, _) = Forger::finished();
    let new = forger.acquire("r1", "n1");
    forger.decide(new, &schedule(), &json!({"prunedThrough": INSTANT}));
    forger.decide(new, &occurrence(), &json!({}));
    forger.delete("r0", &occurrence());
    forger.must_break(Invariant::OlderTermWritesNothing, "r0 deleted it");
}

#[test]
fn a_job_that_an_older_term_releases_is_found() {
    let (mut forger, old) = Forger::committed();
    let new = forger.acquire("r1", "n1");
    let taken = json!({"metadata": {"annotations": {"punctual.dev/epoch": new.epoch.to_string()}}});
    forger.write("r1", &forger::job(1), &taken);
    forger.release(old, 1);
    forger.must_break(Invariant::OlderTermWritesNothing, "released a Job that epoch");
}

#[test]
fn a_job_that_an_older_term_takes_back_is_found() {
    let (mut forger, old) = Forger::led();
    let new = forger.acquire("r1", "n1");
    forger.prepare(new, 1, "o1");
    forger.prepare(old, 1, "o1");
    forger.must_break(Invariant::OlderTermWritesNothing, "took a Job");
}

#[test]
fn a_name_that_is_not_the_identity_is_found() {
    let (mut forger, _) = Forger::led();
    let wrong = json!({"spec": {"intendedTime": "2026-11-29T02:01:00Z"}});
    forger.create_occurrence("r0", "o1", &wrong);
    forger.must_break(Invariant::IdentityFixed, "its name is not");
}

#[test]
fn an_identity_that_changes_is_found() {
    let (mut forger, _) = Forger::claimed();
    forger.write("person", &occurrence(), &json!({"spec": {"scheduleUID": "s2"}}));
    forger.must_break(Invariant::IdentityFixed, "/spec/scheduleUID changed");
}

#[test]
fn two_ids_of_one_identity_are_found() {
    let (mut forger, term) = Forger::committed();
    let id = "f".repeat(32);
    let attempts = json!([{"number": 1, "runKey": format!("{id}-m1"), "handle": "j1"}]);
    forger.decide(term, &occurrence(), &json!({"id": id, "attempts": attempts}));
    let found = forger.judged();
    assert!(found.iter().any(|v| v.sentence.contains("two ids")), "{found:#?}");
}

#[test]
fn a_run_key_of_something_else_is_found() {
    let (mut forger, term) = Forger::claimed();
    forger.attempts(term, "Starting", &json!([attempt(1, &json!({"runKey": "other-m1"}))]));
    forger.must_break(Invariant::IdentityFixed, "the run key");
}

#[test]
fn an_outcome_that_changes_is_found() {
    let (mut forger, term) = Forger::finished();
    forger.decide(term, &occurrence(), &json!({"result": {"rows": 4}}));
    forger.must_break(Invariant::OutcomeFixed, "status.result changed");
}

#[test]
fn an_end_of_an_attempt_that_changes_is_found() {
    let (mut forger, term) = Forger::running();
    forger.at(150).finish_job(1, "Failed");
    forger.end(term, "Failed");
    forger.attempts(term, "Failed", &json!([attempt(1, &json!({"outcome": "Succeeded"}))]));
    forger.must_break(Invariant::OutcomeFixed, "its end changed");
}

#[test]
fn a_handle_that_changes_is_found() {
    let (mut forger, term) = Forger::committed();
    forger.attempts(term, "Starting", &json!([attempt(1, &json!({"handle": "j2"}))]));
    forger.must_break(Invariant::OutcomeFixed, "handle changed");
}

/// A claim of the next minute.
fn next_claim(uid: &str) -> serde_json::Value {
    let mut claim = claim(uid, true);
    claim["time"] = json!("2026-11-29T02:01:00Z");
    claim
}

#[test]
fn two_started_claims_are_found() {
    let (mut forger, term) = Forger::claimed();
    forger.claim(term, &json!([claim("o1", true), next_claim("o2")]));
    forger.must_break(Invariant::OneStartedClaim, "are started together");
}

#[test]
fn under_allow_claims_may_be_started_together() {
    let (mut forger, term) = Forger::claimed();
    forger.write("person", &schedule(), &json!({"spec": {"concurrencyPolicy": "Allow"}}));
    forger.claim(term, &json!([claim("o1", true), next_claim("o2")]));
    assert!(forger.checker.violations().is_empty(), "{:#?}", forger.checker.violations());
}

#[test]
fn an_instant_that_is_claimed_twice_is_found() {
    let (mut forger, term) = Forger::claimed();
    forger.write("person", &schedule(), &json!({"spec": {"concurrencyPolicy": "Allow"}}));
    forger.claim(term, &json!([claim("o1", true), claim("o2", true)]));
    forger.must_break(Invariant::ClaimsInOrder, "stands behind");
}

#[test]
fn a_started_claim_that_is_dropped_early_is_found() {
    let (mut forger, term) = Forger::running();
    forger.claim(term, &json!([]));
    forger.must_break(Invariant::ClaimKept, "dropped before its end");
}

#[test]
fn a_claim_of_a_deleted_occurrence_that_is_dropped_while_it_runs_is_found() {
    let (mut forger, term) = Forger::running();
    forger.delete("person", &occurrence());
    forger.claim(term, &json!([]));
    forger.must_break(Invariant::ClaimKept, "while run j1 can act");
}

#[test]
fn a_claim_that_a_person_has_written_off_may_go() {
    let (mut forger, term) = Forger::running();
    forger.delete("person", &occurrence());
    forger.write("person", &schedule(), &json!({"spec": {"abandon": [{"uid": "o1"}]}}));
    forger.claim(term, &json!([]));
    forger.must_pass();
}

#[test]
fn a_record_that_is_removed_before_the_mark_is_found() {
    let (mut forger, _) = Forger::finished();
    forger.delete("r0", &occurrence());
    forger.must_break(Invariant::RecordsBehindMark, "prunedThrough is");
}

#[test]
fn a_record_that_is_removed_before_its_end_is_found() {
    let (mut forger, term) = Forger::running();
    forger.decide(term, &schedule(), &json!({"prunedThrough": INSTANT}));
    forger.delete("r0", &occurrence());
    forger.must_break(Invariant::RecordsBehindMark, "removed while it was");
}

#[test]
fn a_mark_that_goes_back_is_found() {
    let (mut forger, term) = Forger::finished();
    forger.decide(term, &schedule(), &json!({"prunedThrough": INSTANT}));
    forger.decide(term, &schedule(), &json!({"prunedThrough": "2026-11-28T02:00:00Z"}));
    forger.must_break(Invariant::RecordsBehindMark, "went back");
}

#[test]
fn a_record_behind_the_mark_may_go() {
    let (mut forger, term) = Forger::finished();
    forger.decide(term, &schedule(), &json!({"prunedThrough": INSTANT}));
    forger.delete("r0", &occurrence());
    forger.must_pass();
}

#[test]
fn an_instant_that_nobody_accounts_for_is_found() {
    let (mut forger, term) = Forger::led();
    forger.at(130).decide(term, &schedule(), &json!({"lastScheduleTime": INSTANT}));
    forger.must_break(Invariant::InstantsAccounted, "2026-11-29T02:00:00Z was due");
}

#[test]
fn instants_in_a_range_or_while_suspended_are_accounted_for() {
    let (mut forger, term) = Forger::led();
    let range = json!([{"from": INSTANT, "to": INSTANT, "count": 1, "reason": "Missed"}]);
    forger.at(130).decide(term, &schedule(), &json!({"skipped": range}));
    // Pushed out of the newest twenty later: it was said.
    forger.decide(term, &schedule(), &json!({"skipped": []}));
    forger.must_pass();
    let (mut forger, _) = Forger::led();
    forger.at(60).write("person", &schedule(), &json!({"spec": {"suspend": true}}));
    forger.must_pass();
}

#[test]
fn an_occurrence_that_nobody_claimed_accounts_for_nothing() {
    let (mut forger, term) = Forger::led();
    forger.at(120).create_occurrence("r0", "o1", &json!({}));
    forger.decide(term, &schedule(), &json!({"lastScheduleTime": INSTANT}));
    let ended = json!({"state": "Superseded", "reason": "NotClaimed"});
    forger.decide(term, &occurrence(), &ended);
    forger.must_break(Invariant::InstantsAccounted, "was due");
}

#[test]
fn an_edit_that_counts_from_too_late_is_found() {
    let (mut forger, term) = Forger::led();
    forger.at(60).write("person", &schedule(), &json!({"spec": {"schedule": "*/5 * * * *"}}));
    let observed = json!({"uid": "s1", "schedule": "*/5 * * * *", "timeZone": "UTC"});
    let late = json!({"observed": observed, "effectiveTime": "2026-11-29T02:30:00Z"});
    forger.at(61).decide(term, &schedule(), &late);
    forger.must_break(Invariant::InstantsAccounted, "the instants between are lost");
}

#[test]
fn an_edit_moves_what_is_due() {
    let (mut forger, term) = Forger::led();
    forger.at(60).write("person", &schedule(), &json!({"spec": {"schedule": "1 2 * * *"}}));
    let observed = json!({"uid": "s1", "schedule": "1 2 * * *", "timeZone": "UTC"});
    let seen = json!({"observed": observed, "effectiveTime": "2026-11-29T01:59:01Z"});
    forger.at(61).decide(term, &schedule(), &seen);
    forger.must_break(Invariant::InstantsAccounted, "2026-11-29T02:01:00Z was due");
}

#[test]
fn an_instant_that_was_cancelled_before_it_ran_is_accounted_for_when_its_record_is_gone() {
    let (mut forger, term) = Forger::claimed();
    forger.attempts(term, "Cancelled", &json!([]));
    forger.decide(term, &schedule(), &json!({"claimed": [], "prunedThrough": INSTANT}));
    forger.delete("r0", &occurrence());
    forger.must_pass();
    let (mut forger, term) = Forger::led();
    forger.at(120).create_occurrence("r0", "o1", &json!({}));
    forger.decide(term, &schedule(), &json!({"lastScheduleTime": INSTANT}));
    forger.delete("person", &occurrence());
    forger.must_break(Invariant::InstantsAccounted, "was due, but nothing says");
}

#[test]
fn a_history_without_a_leader_at_its_end_owes_nothing() {
    let (mut forger, _) = Forger::led();
    forger.checker.finish(std::time::Duration::from_mins(10), false);
    assert!(forger.checker.violations().is_empty());
}

#[test]
fn a_schedule_that_is_left_alone_owes_nothing() {
    let mut forger = Forger::new();
    forger.new_schedule(&json!({"status": {"fence": {"epoch": 1_000_000, "nonce": "elsewhere"}}}));
    forger.acquire("r0", "n0");
    forger.must_pass();
}

#[test]
fn work_that_is_left_at_the_end_is_found() {
    let (forger, _) = Forger::claimed();
    forger.must_break(Invariant::Converged, "it was not prepared");
    let (forger, _) = Forger::committed();
    forger.must_break(Invariant::Converged, "it was not released");
    let (mut forger, _) = Forger::running();
    forger.finish_job(1, "Complete");
    forger.must_break(Invariant::Converged, "its end was not recorded");
    let (mut forger, term) = Forger::finished();
    forger.claim(term, &json!([claim("o1", true)]));
    forger.must_break(Invariant::Converged, "although its occurrence is over");
    let (mut forger, term) = Forger::claimed();
    forger.claim(term, &json!([claim("o1", false)]));
    let found = forger.judged();
    assert!(found.iter().any(|v| v.sentence.contains("although nothing runs")), "{found:#?}");
    let (mut forger, term) = Forger::led();
    forger.at(120).create_occurrence("r0", "o1", &json!({}));
    forger.decide(term, &schedule(), &json!({"lastScheduleTime": INSTANT}));
    forger.must_break(Invariant::Converged, "it was not ended");
    let (mut forger, _) = Forger::claimed();
    forger.write("person", &occurrence(), &json!({"spec": {"cancel": true}}));
    forger.must_break(Invariant::Converged, "its cancel was not carried out");
    let (mut forger, term) = Forger::finished();
    forger.prepare(term, 2, "o1");
    forger.must_break(Invariant::Converged, "was not removed");
}

#[test]
fn what_runs_or_is_unresolved_at_the_end_is_no_fault() {
    Forger::running().0.must_pass();
    let (mut forger, term) = Forger::running();
    forger.run("j1", RunChange::Started);
    forger.attempts(term, "Unresolved", &json!([attempt(1, &json!({"outcome": "Unknown"}))]));
    forger.must_pass();
}

#[test]
fn two_pods_that_are_over_wait_for_a_person_and_one_does_not() {
    for pods in [1, 2] {
        let (mut forger, term) = Forger::running();
        for n in 1..=pods {
            let owners = json!([{"kind": "Job", "uid": "j1"}]);
            let uid = format!("p{n}");
            let pod = json!({"metadata": {"uid": uid, "ownerReferences": owners}});
            forger.write("job-controller", &forger::pod(n), &pod);
            forger.delete("garbage-collector", &forger::pod(n));
        }
        let recorded = json!({"outcome": "Unknown", "pod": {"uid": "p1"}});
        forger.attempts(term, "Unresolved", &json!([attempt(1, &recorded)]));
        forger.finish_job(1, "Failed");
        if pods == 2 {
            forger.must_pass();
        } else {
            forger.must_break(Invariant::Converged, "its end was not recorded");
        }
    }
}

#[test]
fn a_pod_that_vanished_with_its_node_waits_for_a_person_and_one_of_a_node_that_stands_does_not() {
    for replaced in [true, false] {
        let (mut forger, term) = Forger::running();
        let node = crate::sim::Key::new(crate::sim::Kind::Node, "", "node-a");
        forger.write("kubelet", &node, &json!({"metadata": {"uid": "n1"}}));
        let meta = json!({"uid": "p1", "ownerReferences": json!([{"kind": "Job", "uid": "j1"}])});
        let pod = json!({"metadata": meta, "spec": {"nodeName": "node-a"}});
        forger.write("job-controller", &forger::pod(1), &pod);
        forger.delete("garbage-collector", &forger::pod(1));
        if replaced {
            forger.delete("person", &node);
            forger.write("kubelet", &node, &json!({"metadata": {"uid": "n2"}}));
        }
        forger.at(150).finish_job(1, "Failed");
        let recorded = json!({"outcome": "Unknown", "pod": {"uid": "p1"}});
        forger.attempts(term, "Unresolved", &json!([attempt(1, &recorded)]));
        if replaced {
            forger.must_pass();
        } else {
            forger.must_break(Invariant::Converged, "its end was not recorded");
        }
    }
}

#[test]
fn the_reference_explains_every_invariant() {
    let reference = include_str!("../../../../docs/reference/invariants.md");
    let headings: Vec<&str> =
        reference.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let names: Vec<&str> = Invariant::ALL.into_iter().map(Invariant::name).collect();
    assert_eq!(headings, names);
}

#[test]
fn names_are_kebab_case_and_differ() {
    let names: std::collections::BTreeSet<&str> =
        Invariant::ALL.into_iter().map(Invariant::name).collect();
    assert_eq!(names.len(), Invariant::ALL.len());
    let plain = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    assert!(names.iter().all(plain), "{names:?}");
}
