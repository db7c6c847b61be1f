//! Forged histories about what ran.

use serde_json::json;

use super::forger::{Forger, ID, Term, attempt, claim, job, occurrence, pod, schedule};
use crate::sim::{Key, Kind, RunChange, invariants::Invariant};

/// The run of a provider, committed and released.
fn of_provider() -> (Forger, Term) {
    let (mut forger, term) = Forger::claimed();
    forger.run("j1", RunChange::Held);
    forger.attempts(term, "Starting", &json!([attempt(1, &json!({}))]));
    forger.run("j1", RunChange::Released);
    forger.run("j1", RunChange::Started);
    (forger, term)
}

/// A second attempt is committed.
fn second(forger: &mut Forger, term: Term, first: &serde_json::Value) {
    let attempts = json!([attempt(1, first), attempt(2, &json!({}))]);
    forger.attempts(term, "Starting", &attempts);
}

#[test]
fn a_run_of_a_provider_passes() {
    let (mut forger, term) = of_provider();
    forger.at(150).run("j1", RunChange::Ended { outcome: "Succeeded".into() });
    forger.end(term, "Succeeded");
    forger.claim(term, &json!([]));
    forger.must_pass();
}

#[test]
fn a_second_attempt_after_the_first_failed_passes() {
    let (mut forger, term) = Forger::running();
    forger.at(150).finish_job(1, "Failed");
    forger.prepare(term, 2, "o1");
    second(&mut forger, term, &json!({"outcome": "Failed"}));
    forger.release(term, 2);
    forger.must_pass();
}

#[test]
fn two_runs_at_a_time_are_found() {
    let (mut forger, term) = Forger::running();
    forger.prepare(term, 2, "o1");
    second(&mut forger, term, &json!({"outcome": "Failed"}));
    forger.release(term, 2);
    forger.must_break(Invariant::OneRun, "while run j1 can act");
    let (mut forger, term) = of_provider();
    second(&mut forger, term, &json!({"outcome": "Failed"}));
    forger.run("j2", RunChange::Released);
    forger.must_break(Invariant::OneRun, "while run j1 can act");
}

#[test]
fn a_second_run_beside_the_pod_of_a_finished_job_is_found() {
    let (mut forger, term) = Forger::running();
    let owner = json!({"kind": "Job", "name": "j", "uid": "j1"});
    let object = json!({"metadata": {"uid": "p1", "ownerReferences": [owner]}, "status": {"phase": "Running"}});
    forger.write("job-controller", &pod(1), &object);
    forger.finish_job(1, "Failed");
    forger.prepare(term, 2, "o1");
    second(&mut forger, term, &json!({"outcome": "Failed"}));
    forger.release(term, 2);
    forger.must_break(Invariant::OneRun, "while run j1 can act");
}

#[test]
fn a_pod_without_a_node_acts_no_more_once_it_is_being_deleted() {
    for node in ["", "node-a"] {
        let (mut forger, term) = Forger::running();
        let owner = json!({"kind": "Job", "name": "j", "uid": "j1"});
        let object = json!({
            "metadata": {"uid": "p1", "ownerReferences": [owner]}, "spec": {"nodeName": node},
        });
        forger.write("job-controller", &pod(1), &object);
        forger.delete("person", &job(1));
        let going = json!({"metadata": {"deletionTimestamp": "2026-11-29T02:00:05Z"}});
        forger.write("garbage-collector", &pod(1), &going);
        forger.end(term, "Failed");
        forger.claim(term, &json!([]));
        if node.is_empty() {
            forger.must_pass();
        } else {
            forger.must_break(Invariant::OutcomeProven, "can act");
        }
    }
}

#[test]
fn a_second_run_beside_a_container_that_only_its_node_knows_is_found() {
    let (mut forger, term) = Forger::running();
    forger.run("j1", RunChange::Started);
    forger.delete("garbage-collector", &job(1));
    forger.prepare(term, 2, "o1");
    second(&mut forger, term, &json!({"outcome": "Failed"}));
    forger.release(term, 2);
    forger.must_break(Invariant::OneRun, "while run j1 can act");
}

#[test]
fn a_run_of_the_same_name_beside_that_of_a_deleted_object_is_found() {
    let (mut forger, term) = Forger::running();
    forger.delete("person", &occurrence());
    forger.create_occurrence("person", "o2", &json!({"spec": {"scheduleUID": null}}));
    forger.claim(term, &json!([claim("o1", true), claim("o2", true)]));
    forger.prepare(term, 2, "o2");
    forger.attempts(term, "Starting", &json!([attempt(1, &json!({"handle": "j2"}))]));
    forger.release(term, 2);
    let found = forger.judged();
    assert!(found.iter().any(|v| v.invariant == Invariant::OneRun), "{found:#?}");
}

#[test]
fn a_job_that_is_released_again_is_found() {
    let (mut forger, term) = Forger::running();
    forger.write("person", &job(1), &json!({"spec": {"suspend": true}}));
    forger.release(term, 1);
    forger.must_break(Invariant::OneRun, "released again");
}

#[test]
fn a_run_after_the_end_is_found() {
    let (mut forger, term) = Forger::finished();
    forger.prepare(term, 2, "o1");
    let attempts = json!([attempt(1, &json!({"outcome": "Succeeded"})), attempt(2, &json!({}))]);
    forger.attempts(term, "Succeeded", &attempts);
    forger.release(term, 2);
    forger.must_break(Invariant::OneRun, "after the end");
}

#[test]
fn the_record_of_an_end_that_a_person_deletes_allows_a_run_by_hand_only() {
    for (by_hand, expected) in [(true, 0), (false, 1)] {
        let (mut forger, term) = Forger::finished();
        forger.delete("garbage-collector", &job(1));
        forger.delete("person", &occurrence());
        let uid = if by_hand { json!(null) } else { json!("s1") };
        forger.create_occurrence("person", "o2", &json!({"spec": {"scheduleUID": uid}}));
        forger.claim(term, &json!([claim("o2", true)]));
        forger.prepare(term, 2, "o2");
        forger.attempts(term, "Starting", &json!([attempt(1, &json!({"handle": "j2"}))]));
        forger.release(term, 2);
        let found = forger.checker.violations();
        let runs = found.iter().filter(|v| v.invariant == Invariant::OneRun).count();
        assert_eq!((runs, found.len()), (expected, expected), "{found:#?}");
    }
}

#[test]
fn an_accepted_duplicate_passes() {
    let (mut forger, term) = of_provider();
    forger.run("j1", RunChange::Lost);
    forger.attempts(term, "Unresolved", &json!([attempt(1, &json!({"outcome": "Unknown"}))]));
    let resolution = json!({"attempt": 1, "decision": "Retry", "acceptDuplicate": true});
    forger.write("person", &occurrence(), &json!({"spec": {"resolution": resolution}}));
    second(&mut forger, term, &json!({"outcome": "Failed"}));
    forger.run("j2", RunChange::Released);
    forger.must_pass();
}

#[test]
fn what_only_reads_may_be_repeated_once_it_was_told_to_stop() {
    for (told, expected) in [(true, 0), (false, 1)] {
        let (mut forger, term) = of_provider();
        forger.decide(term, &occurrence(), &json!({"run": {"actionClass": "ReadOnly"}}));
        forger.attempts(term, "Unresolved", &json!([attempt(1, &json!({"outcome": "Unknown"}))]));
        if told {
            forger.run("j1", RunChange::CancelAsked);
        }
        second(&mut forger, term, &json!({"outcome": "Failed"}));
        forger.run("j2", RunChange::Released);
        assert_eq!(forger.checker.violations().len(), expected, "told: {told}");
    }
}

#[test]
fn what_is_idempotent_may_be_repeated_once_it_was_asked_to_stop_and_its_provider_forgot_it() {
    for (class, stop, lost, expected) in [
        ("Idempotent", true, true, 0),
        ("Idempotent", false, true, 1),
        ("Idempotent", true, false, 1),
        ("Fenced", true, true, 1),
    ] {
        let (mut forger, term) = of_provider();
        forger.decide(term, &occurrence(), &json!({"run": {"actionClass": class}}));
        let mut ended = json!({"outcome": "Failed"});
        if stop {
            ended["stopRequestedTime"] = json!("2026-11-29T02:00:30Z");
        }
        if lost {
            forger.run("j1", RunChange::Lost);
        }
        second(&mut forger, term, &ended);
        forger.run("j2", RunChange::Released);
        let found = forger.checker.violations().len();
        assert_eq!(found, expected, "{class}, stop {stop}, lost {lost}");
    }
}

#[test]
fn a_run_without_a_started_claim_is_found() {
    let (mut forger, term) = Forger::led();
    forger.at(120).create_occurrence("r0", "o1", &json!({}));
    forger.claim(term, &json!([claim("o1", false)]));
    forger.prepare(term, 1, "o1");
    forger.attempts(term, "Starting", &json!([attempt(1, &json!({}))]));
    forger.release(term, 1);
    forger.must_break(Invariant::StartedByClaim, "without a started claim");
}

#[test]
fn a_claim_of_another_object_of_the_name_does_not_count() {
    let (mut forger, term) = Forger::claimed();
    forger.delete("person", &occurrence());
    forger.create_occurrence("r0", "o2", &json!({}));
    forger.prepare(term, 1, "o2");
    forger.attempts(term, "Starting", &json!([attempt(1, &json!({}))]));
    forger.release(term, 1);
    forger.must_break(Invariant::StartedByClaim, "of uid o2");
}

#[test]
fn an_occurrence_without_a_schedule_starts_by_its_own_seal() {
    for (run, passes) in [(json!({"simulated": {}}), true), (json!(null), false)] {
        let mut forger = Forger::new();
        let term = forger.acquire("r0", "n0");
        let mut more = json!({"spec": {"scheduleUID": null}});
        if passes {
            more["spec"]["run"] = run;
        }
        forger.at(120).create_occurrence("person", "o1", &more);
        forger.prepare(term, 1, "o1");
        forger.attempts(term, "Starting", &json!([attempt(1, &json!({}))]));
        forger.release(term, 1);
        if passes {
            forger.must_pass();
        } else {
            forger.must_break(Invariant::StartedByClaim, "without a started claim");
        }
    }
}

#[test]
fn a_run_that_was_not_committed_is_found() {
    let (mut forger, term) = Forger::claimed();
    forger.prepare(term, 1, "o1");
    forger.release(term, 1);
    forger.must_break(Invariant::ReleasedAsCommitted, "before its parent had committed it");
    let (mut forger, _) = Forger::claimed();
    forger.run("j1", RunChange::Released);
    forger.must_break(Invariant::ReleasedAsCommitted, "before its parent had committed it");
}

#[test]
fn what_a_person_starts_is_not_the_operators_fault() {
    let (mut forger, term) = Forger::claimed();
    forger.prepare(term, 1, "o1");
    forger.write("person", &job(1), &json!({"spec": {"suspend": false}}));
    forger.attempts(term, "Running", &json!([attempt(1, &json!({}))]));
    forger.must_pass();
}

#[test]
fn an_unresolved_run_that_is_repeated_by_itself_is_found() {
    let (mut forger, term) = of_provider();
    forger.run("j1", RunChange::Lost);
    forger.attempts(term, "Unresolved", &json!([attempt(1, &json!({"outcome": "Unknown"}))]));
    second(&mut forger, term, &json!({"outcome": "Failed"}));
    forger.must_break(Invariant::UnresolvedNotRetried, "whose end nobody knows");
}

#[test]
fn an_unresolved_run_whose_end_was_found_out_may_be_repeated() {
    let (mut forger, term) = of_provider();
    forger.attempts(term, "Unresolved", &json!([attempt(1, &json!({"outcome": "Unknown"}))]));
    forger.run("j1", RunChange::Ended { outcome: "Failed".into() });
    second(&mut forger, term, &json!({"outcome": "Failed"}));
    forger.run("j2", RunChange::Released);
    forger.must_pass();
}

#[test]
fn an_end_that_is_recorded_while_it_runs_is_found() {
    let (mut forger, term) = of_provider();
    forger.end(term, "Failed");
    forger.must_break(Invariant::OutcomeProven, "while run j1 can act");
}

#[test]
fn a_persons_word_is_proof_enough() {
    let (mut forger, term) = of_provider();
    forger.attempts(term, "Unresolved", &json!([attempt(1, &json!({"outcome": "Unknown"}))]));
    let resolution = json!({"attempt": 1, "decision": "Failed"});
    forger.write("person", &occurrence(), &json!({"spec": {"resolution": resolution}}));
    forger.end(term, "Failed");
    forger.decide(term, &schedule(), &json!({"claimed": []}));
    forger.must_pass();
}

#[test]
fn a_requested_stop_suffices_for_other_classes() {
    for (class, expected) in [("Idempotent", 0), ("Fenced", 1)] {
        let (mut forger, term) = of_provider();
        forger.decide(term, &occurrence(), &json!({"run": {"actionClass": class}}));
        let stopped = json!({"outcome": "Cancelled", "stopRequestedTime": "2026-11-29T02:01:00Z"});
        forger.attempts(term, "Cancelled", &json!([attempt(1, &stopped)]));
        assert_eq!(forger.checker.violations().len(), expected, "{class}");
    }
}

/// The pod of Job 1 in a phase, and what its container left.
fn seen(forger: &mut Forger, phase: &str, message: &str) {
    let owner = json!({"kind": "Job", "name": "j", "uid": "j1"});
    let left = json!([{"state": {"terminated": {"message": message}}}]);
    let object = json!({
        "metadata": {"uid": "p1", "ownerReferences": [owner]}, "spec": {"nodeName": "node-a"},
        "status": {"phase": phase, "containerStatuses": left},
    });
    forger.write("job-controller", &pod(1), &object);
}

/// Its end is for a person to find.
fn unresolved(forger: &mut Forger, term: Term, reason: &str, more: &serde_json::Value) {
    let attempts = json!([attempt(1, more)]);
    let status = json!({"state": "Unresolved", "reason": reason, "id": ID, "attempts": attempts});
    forger.decide(term, &occurrence(), &status);
}

#[test]
fn a_prepared_job_that_is_gone_may_be_for_a_person_to_judge() {
    let (mut forger, term) = Forger::committed();
    forger.delete("person", &job(1));
    unresolved(&mut forger, term, "EndNotSeen", &json!({}));
    forger.must_pass();
    let (mut forger, term) = Forger::committed();
    unresolved(&mut forger, term, "EndNotSeen", &json!({}));
    forger.must_break(Invariant::Converged, "it was not released");
}

#[test]
fn a_pod_that_vanished_unrecorded_leaves_the_end_to_a_person() {
    let story = |recorded: bool| {
        let (mut forger, term) = Forger::running();
        forger.write(
            "node",
            &Key::new(Kind::Node, "", "node-a"),
            &json!({"metadata": {"uid": "n1"}}),
        );
        seen(&mut forger, "Running", "");
        forger.delete("person", &pod(1));
        forger.finish_job(1, "Failed");
        let pod = if recorded { json!({"pod": {"uid": "p1"}}) } else { json!({}) };
        unresolved(&mut forger, term, "EndNotSeen", &pod);
        forger
    };
    story(false).must_pass();
    story(true).must_break(Invariant::Converged, "its end was not recorded");
}

#[test]
fn a_report_that_cannot_be_read_leaves_its_artifact_to_a_person() {
    let story = |message: &str| {
        let (mut forger, term) = Forger::led();
        let owed = json!({"spec": {"artifact": "Required"}});
        forger.at(120).create_occurrence("r0", "o1", &owed);
        forger.claim(term, &json!([claim("o1", true)]));
        forger.prepare(term, 1, "o1");
        forger.attempts(term, "Starting", &json!([attempt(1, &json!({}))]));
        forger.release(term, 1);
        seen(&mut forger, "Succeeded", message);
        forger.finish_job(1, "Complete");
        unresolved(&mut forger, term, "ResultLost", &json!({"pod": {"uid": "p1"}}));
        forger
    };
    story("this is no JSON").must_pass();
    story("{}").must_break(Invariant::Converged, "its end was not recorded");
}
