//! Forged histories of reports: a good one, and for each rule what a faulty operator would have left
//! behind.

use serde_json::{Value, json};

use super::{
    Exception, Rule, check,
    forger::{CONTROLLER, Forger, OPERATOR, PERSON, Write},
};

/// The term of all histories here, once [`begin`] made it.
type Term = (i64, &'static str);

fn begin() -> (Forger, Term) {
    let mut forger = Forger::new();
    forger.new_lease("l1");
    let epoch = forger.acquire("n1");
    (forger, (epoch, "n1"))
}

/// A version of the queue; `entries` are uid and attempt, `None` is no ledger.
fn queue(forger: &mut Forger, term: Term, uid: &str, slots: u32, entries: Option<&[(&str, i32)]>) {
    let mut status = json!({"fence": {"epoch": term.0, "nonce": term.1}});
    if let Some(entries) = entries {
        let entries: Vec<Value> = entries
            .iter()
            .map(|(uid, attempt)| json!({"job": uid, "uid": uid, "attempt": attempt}))
            .collect();
        status["ledger"] = json!({"entries": entries, "virtualTime": 0});
    }
    let object = json!({
        "kind": "ReportQueue", "metadata": {"name": "reports", "uid": uid},
        "spec": {"slots": slots}, "status": status,
    });
    forger.write(Write {
        user: OPERATOR,
        verb: "update",
        resource: "reportqueues",
        subresource: "status",
        request: Value::Null,
        object,
    });
}

/// A version of a report; its uid is its name.
fn report(forger: &mut Forger, term: Term, name: &str, status: &Value) {
    report_of(forger, term, (name, name, "acme"), status);
}

fn report_of(forger: &mut Forger, term: Term, of: (&str, &str, &str), status: &Value) {
    let (name, uid, tenant) = of;
    let mut status = status.clone();
    status["fence"] = json!({"epoch": term.0, "nonce": term.1});
    let object = json!({
        "kind": "ReportJob", "metadata": {"name": name, "uid": uid},
        "spec": {"queueName": "reports", "tenant": tenant}, "status": status,
    });
    forger.write(Write {
        user: OPERATOR,
        verb: "update",
        resource: "reportjobs",
        subresource: "status",
        request: Value::Null,
        object,
    });
}

/// A version of the Job of a report's attempt. `how`: `held`, `released`, or a condition.
fn job(forger: &mut Forger, term: Term, of: (&str, &str), attempt: u32, how: &str) {
    let (name, uid) = of;
    let epoch = term.0.to_string();
    let mut object = json!({
        "kind": "Job",
        "metadata": {
            "name": format!("{name}-r{attempt}"), "uid": format!("{uid}-j{attempt}"),
            "annotations": {"punctual.dev/epoch": epoch},
            "labels": {"punctual.dev/parent-uid": uid, "punctual.dev/queue": "reports"},
            "ownerReferences": [{"kind": "ReportJob", "name": name, "uid": uid}],
        },
        "spec": {"suspend": how == "held"},
    });
    let (user, verb, mut request) = match how {
        "held" => (OPERATOR, "create", Value::Null),
        "released" => (
            OPERATOR,
            "patch",
            json!({"metadata": {"resourceVersion": "1", "annotations": {"punctual.dev/released": epoch}}}),
        ),
        _ => (CONTROLLER, "update", Value::Null),
    };
    if how != "held" {
        object["metadata"]["annotations"]["punctual.dev/released"] = json!(epoch);
    }
    if user == CONTROLLER {
        object["status"]["conditions"] = json!([{"type": how, "status": "True"}]);
        request = json!({"metadata": {"uid": uid, "resourceVersion": "1"}});
    }
    forger.write(Write { user, verb, resource: "jobs", subresource: "", request, object });
}

/// From the committed handle to the release.
fn starts(forger: &mut Forger, term: Term, name: &str, attempt: u32) {
    job(forger, term, (name, name), attempt, "held");
    let attempts: Vec<Value> = (1..=attempt)
        .map(|number| json!({"number": number, "handle": format!("{name}-j{number}")}))
        .collect();
    report(forger, term, name, &json!({"state": "Admitted", "attempts": attempts}));
    job(forger, term, (name, name), attempt, "released");
}

fn ends(forger: &mut Forger, term: Term, name: &str, attempt: u32, condition: &str) {
    job(forger, term, (name, name), attempt, condition);
    let state = if condition == "Complete" { "Succeeded" } else { "Queued" };
    report(forger, term, name, &json!({"state": state}));
}

/// Two reports on one slot, one after the other.
fn good() -> (Forger, Term) {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 1, None);
    report(&mut forger, term, "a", &json!({"state": "Queued"}));
    report(&mut forger, term, "b", &json!({"state": "Queued"}));
    queue(&mut forger, term, "q1", 1, Some(&[("a", 1)]));
    starts(&mut forger, term, "a", 1);
    ends(&mut forger, term, "a", 1, "Complete");
    queue(&mut forger, term, "q1", 1, Some(&[("b", 1)]));
    starts(&mut forger, term, "b", 1);
    (forger, term)
}

#[test]
fn a_good_history_is_accepted() {
    let (mut forger, term) = good();
    ends(&mut forger, term, "b", 1, "Complete");
    queue(&mut forger, term, "q1", 1, Some(&[]));
    let report = forger.judge().unwrap();
    assert_eq!(report.releases.len(), 2);
    assert_eq!(report.releases_of("a").count(), 1);
    assert_eq!(report.most_reports_at_once(), 1);
}

#[test]
fn an_attempt_after_one_that_failed_needs_an_entry_of_its_own() {
    for second in [1, 2] {
        let (mut forger, term) = begin();
        queue(&mut forger, term, "q1", 1, Some(&[("a", 1)]));
        starts(&mut forger, term, "a", 1);
        ends(&mut forger, term, "a", 1, "Failed");
        queue(&mut forger, term, "q1", 1, Some(&[("a", second)]));
        starts(&mut forger, term, "a", 2);
        if second == 1 {
            forger.must_break(Rule::Admitted);
        } else {
            assert_eq!(forger.judge().unwrap().releases_of("a").count(), 2);
        }
    }
}

#[test]
fn a_release_without_an_entry_is_rejected() {
    for before in [None, Some(&[][..]), Some(&[("b", 1)][..])] {
        let (mut forger, term) = begin();
        report(&mut forger, term, "a", &json!({"state": "Queued"}));
        queue(&mut forger, term, "q1", 1, before);
        starts(&mut forger, term, "a", 1);
        forger.must_break(Rule::Admitted);
    }
}

#[test]
fn a_release_after_its_entry_was_settled_is_rejected() {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 1, Some(&[("a", 1)]));
    queue(&mut forger, term, "q1", 1, Some(&[]));
    starts(&mut forger, term, "a", 1);
    forger.must_break(Rule::Admitted);
}

#[test]
fn an_entry_of_another_object_of_the_same_name_is_no_entry() {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 1, Some(&[("u1", 1)]));
    report_of(&mut forger, term, ("a", "u2", "acme"), &json!({"state": "Queued"}));
    job(&mut forger, term, ("a", "u2"), 1, "held");
    let attempts = json!({"state": "Admitted", "attempts": [{"number": 1, "handle": "u2-j1"}]});
    report_of(&mut forger, term, ("a", "u2", "acme"), &attempts);
    job(&mut forger, term, ("a", "u2"), 1, "released");
    forger.must_break(Rule::Admitted);
}

#[test]
fn a_release_of_a_report_that_is_not_in_the_history_is_rejected() {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 1, Some(&[("a", 1)]));
    job(&mut forger, term, ("a", "a"), 1, "held");
    job(&mut forger, term, ("a", "a"), 1, "released");
    forger.must_break(Rule::Admitted);
}

#[test]
fn more_entries_than_slots_are_rejected() {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 1, Some(&[("a", 1)]));
    queue(&mut forger, term, "q1", 1, Some(&[("a", 1), ("b", 1)]));
    forger.must_break(Rule::NoOverAdmission);
}

#[test]
fn an_entry_that_takes_the_place_of_another_while_there_are_too_many_is_rejected() {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 2, Some(&[("a", 1), ("b", 1)]));
    // The slots were lowered: what is there may stay.
    queue(&mut forger, term, "q1", 1, Some(&[("a", 1), ("b", 1)]));
    forger.judge().unwrap();
    // The sizes alone would look right.
    queue(&mut forger, term, "q1", 1, Some(&[("a", 1), ("c", 1)]));
    forger.must_break(Rule::NoOverAdmission);
}

#[test]
fn a_ledger_that_is_made_anew_may_have_too_many_but_admits_none() {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 2, Some(&[("a", 1), ("b", 1)]));
    starts(&mut forger, term, "a", 1);
    starts(&mut forger, term, "b", 1);
    forger.delete(PERSON, "reportqueues", "reports", "q1", false);
    queue(&mut forger, term, "q2", 1, Some(&[("a", 1), ("b", 1)]));
    forger.judge().unwrap();
    for event in &mut forger.events {
        let version = &mut event["responseObject"];
        if version["metadata"]["uid"] == "q2" {
            version["status"]["ledger"]["entries"][1] = json!({"uid": "c", "attempt": 1});
        }
    }
    forger.must_break(Rule::NoOverAdmission);
}

#[test]
fn a_ledger_that_vanishes_is_rejected() {
    let (mut forger, term) = good();
    queue(&mut forger, term, "q1", 1, None);
    forger.must_break(Rule::LedgerStays);
}

#[test]
fn more_runs_than_slots_are_rejected() {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 1, Some(&[("a", 1)]));
    starts(&mut forger, term, "a", 1);
    // Its slot is given away while it runs.
    queue(&mut forger, term, "q1", 1, Some(&[("b", 1)]));
    starts(&mut forger, term, "b", 1);
    forger.must_break(Rule::WithinSlots);
}

#[test]
fn a_run_is_over_once_the_last_finalizer_of_its_job_is_gone() {
    for gone in [true, false] {
        let (mut forger, term) = begin();
        queue(&mut forger, term, "q1", 1, Some(&[("a", 1)]));
        starts(&mut forger, term, "a", 1);
        let mut object = forger.events.last().unwrap()["responseObject"].clone();
        object["metadata"]["deletionTimestamp"] = json!("2026-11-29T02:00:30Z");
        object["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
        let request = json!({"preconditions": {"uid": "a-j1", "resourceVersion": "1"}});
        forger.write(Write {
            user: OPERATOR,
            verb: "delete",
            resource: "jobs",
            subresource: "",
            request,
            object: object.clone(),
        });
        if gone {
            // It is answered with the version that the deletion left behind.
            object["metadata"]["resourceVersion"] = json!(forger.revision.to_string());
            object["metadata"]["finalizers"] = Value::Null;
            let patch = json!({"metadata": {"finalizers": null}});
            let uid = json!("a-j1");
            forger.record(CONTROLLER, "patch", "jobs", "", 200, &patch, object, &uid);
        }
        report(&mut forger, term, "a", &json!({"state": "Cancelled"}));
        queue(&mut forger, term, "q1", 1, Some(&[("b", 1)]));
        starts(&mut forger, term, "b", 1);
        if gone {
            forger.judge().unwrap();
        } else {
            forger.must_break(Rule::WithinSlots);
        }
    }
}

#[test]
fn what_was_admitted_before_the_slots_were_lowered_may_start() {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 2, Some(&[("a", 1), ("b", 1)]));
    starts(&mut forger, term, "a", 1);
    queue(&mut forger, term, "q1", 1, Some(&[("a", 1), ("b", 1)]));
    starts(&mut forger, term, "b", 1);
    assert_eq!(forger.judge().unwrap().most_reports_at_once(), 2);
}

#[test]
fn a_rejected_report_stays_rejected() {
    let (mut forger, term) = begin();
    report(&mut forger, term, "a", &json!({"state": "Rejected", "reason": "QueueFull"}));
    forger.judge().unwrap();
    report(&mut forger, term, "a", &json!({"state": "Queued", "reason": "WaitingForSlot"}));
    forger.must_break(Rule::OutcomeFixed);
}

#[test]
fn an_artifact_that_changes_or_vanishes_is_rejected() {
    let accepted = json!({"state": "Running", "artifact": {"uri": "s3://a", "attempt": 1}});
    let other = json!({"state": "Running", "artifact": {"uri": "s3://b", "attempt": 2}});
    for later in [other, json!({"state": "Running"})] {
        let (mut forger, term) = begin();
        report(&mut forger, term, "a", &accepted);
        report(&mut forger, term, "a", &accepted);
        forger.judge().unwrap();
        report(&mut forger, term, "a", &later);
        forger.must_break(Rule::OutcomeFixed);
    }
}

#[test]
fn a_report_that_changes_hands_is_rejected() {
    let (mut forger, term) = begin();
    report_of(&mut forger, term, ("a", "a", "acme"), &json!({"state": "Queued"}));
    report_of(&mut forger, term, ("a", "a", "beta"), &json!({"state": "Queued"}));
    forger.must_break(Rule::IdentityFixed);
}

#[test]
fn an_older_term_at_the_ledger_or_at_a_report_is_rejected() {
    for at_the_ledger in [true, false] {
        let (mut forger, first) = begin();
        let second = (forger.acquire("n2"), "n2");
        for term in [second, first] {
            if at_the_ledger {
                queue(&mut forger, term, "q1", 1, Some(&[]));
            } else {
                report(&mut forger, term, "a", &json!({"state": "Queued"}));
            }
        }
        forger.must_break(Rule::NoOlderTerm);
    }
}

#[test]
fn a_release_of_a_handle_that_the_report_did_not_commit_is_rejected() {
    let (mut forger, _) = good();
    for event in &mut forger.events {
        if event["objectRef"]["resource"] == "reportjobs" {
            event["responseObject"]["status"]["attempts"] = Value::Null;
        }
    }
    forger.must_break(Rule::Committed);
}

#[test]
fn a_second_run_beside_the_first_or_after_the_end_is_rejected() {
    let (mut forger, term) = begin();
    queue(&mut forger, term, "q1", 3, Some(&[("a", 1), ("a", 2)]));
    starts(&mut forger, term, "a", 1);
    starts(&mut forger, term, "a", 2);
    forger.must_break(Rule::OneRun);
    let (mut forger, term) = good();
    ends(&mut forger, term, "b", 1, "Complete");
    queue(&mut forger, term, "q1", 1, Some(&[("b", 2)]));
    starts(&mut forger, term, "b", 2);
    forger.must_break(Rule::OneRun);
}

#[test]
fn a_report_that_is_created_again_runs_again_once_the_old_run_is_over() {
    for over in [true, false] {
        let (mut forger, term) = begin();
        queue(&mut forger, term, "q1", 2, Some(&[("a", 1)]));
        starts(&mut forger, term, "a", 1);
        if over {
            ends(&mut forger, term, "a", 1, "Complete");
        }
        forger.delete(PERSON, "reportjobs", "a", "a", false);
        queue(&mut forger, term, "q1", 2, Some(&[("u2", 1)]));
        report_of(&mut forger, term, ("a", "u2", "acme"), &json!({"state": "Queued"}));
        job(&mut forger, term, ("a", "u2"), 1, "held");
        let attempts = json!({"state": "Admitted", "attempts": [{"number": 1, "handle": "u2-j1"}]});
        report_of(&mut forger, term, ("a", "u2", "acme"), &attempts);
        job(&mut forger, term, ("a", "u2"), 1, "released");
        if over {
            assert_eq!(forger.judge().unwrap().releases_of("a").count(), 2);
        } else {
            forger.must_break(Rule::OneRun);
            let named = [Exception::RecordDeleted("a".to_owned())];
            assert!(check(forger.read(), "punctual", &named, false).is_err());
        }
    }
}
