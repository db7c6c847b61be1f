//! Forged histories of a queue and one report.

use serde_json::{Value, json};

use super::forger::{Forger, ID, Term};
use crate::sim::{Key, Kind, RunChange, RunEvent, invariants::Invariant};

fn queue() -> Key {
    Key::new(Kind::ReportQueue, "default", "reports")
}

fn report(name: &str) -> Key {
    Key::new(Kind::ReportJob, "default", name)
}

fn entry(name: &str) -> Value {
    json!({"job": name, "uid": name, "tenant": "acme", "attempt": 1, "actionClass": "Fenced"})
}

fn attempt(name: &str, more: &Value) -> Value {
    let mut attempt = json!({"number": 1, "runKey": format!("{ID}-r1"), "handle": format!("h-{name}"), "epoch": 1});
    for (field, value) in more.as_object().into_iter().flatten() {
        attempt[field] = value.clone();
    }
    attempt
}

impl Forger {
    /// A queue of so many slots, sealed, and two reports that wait.
    fn queued(slots: i64) -> (Self, Term) {
        let mut forger = Self::new();
        let spec = json!({"slots": slots});
        forger.write("person", &queue(), &json!({"metadata": {"uid": "q1"}, "spec": spec}));
        for name in ["a", "b"] {
            let spec = json!({"queueName": "reports", "tenant": "acme"});
            forger.write(
                "person",
                &report(name),
                &json!({"metadata": {"uid": name}, "spec": spec}),
            );
        }
        let term = forger.at(1).acquire("r0", "n0");
        forger.ledger(term, &json!([]));
        for name in ["a", "b"] {
            forger.decide(term, &report(name), &json!({"state": "Queued"}));
        }
        (forger, term)
    }

    fn ledger(&mut self, term: Term, entries: &Value) {
        let more = json!({"ledger": {"entries": entries}, "admissions": "Open"});
        self.decide(term, &queue(), &more);
    }

    fn of_report(&mut self, name: &str, what: RunChange) {
        let event = RunEvent {
            at: std::time::Duration::from_secs(10),
            parent: report(name),
            parent_uid: name.into(),
            run_key: format!("{ID}-r1"),
            handle: format!("h-{name}"),
            what,
        };
        self.checker.run(&event);
    }

    /// The report is committed and released.
    fn started(&mut self, term: Term, name: &str) {
        let attempts = json!([attempt(name, &json!({}))]);
        self.decide(term, &report(name), &json!({"state": "Admitted", "attempts": attempts}));
        self.of_report(name, RunChange::Held);
        self.of_report(name, RunChange::Released);
    }

    fn ended(&mut self, term: Term, name: &str) {
        self.of_report(name, RunChange::Ended { outcome: "Succeeded".into() });
        let attempts = json!([attempt(name, &json!({"outcome": "Succeeded"}))]);
        self.decide(term, &report(name), &json!({"state": "Succeeded", "attempts": attempts}));
    }
}

/// One slot, two reports, one after the other.
fn story() -> (Forger, Term) {
    let (mut forger, term) = Forger::queued(1);
    forger.ledger(term, &json!([entry("a")]));
    forger.started(term, "a");
    forger.ended(term, "a");
    forger.ledger(term, &json!([entry("b")]));
    forger.started(term, "b");
    forger.ended(term, "b");
    (forger, term)
}

#[test]
fn reports_one_after_the_other_pass() {
    let (mut forger, term) = story();
    forger.ledger(term, &json!([]));
    forger.must_pass();
}

#[test]
fn a_report_without_an_entry_is_found() {
    let (mut forger, term) = Forger::queued(2);
    forger.ledger(term, &json!([entry("a")]));
    forger.started(term, "b");
    forger.must_break(Invariant::StartedByEntry, "without an entry");
}

#[test]
fn an_admission_beyond_the_slots_is_found() {
    let (mut forger, term) = Forger::queued(1);
    forger.ledger(term, &json!([entry("a"), entry("b")]));
    forger.must_break(Invariant::SlotsKept, "2 entries after an admission, and 1 slots");
}

#[test]
fn slots_that_were_lowered_are_no_fault_until_something_is_admitted() {
    let (mut forger, term) = Forger::queued(2);
    forger.ledger(term, &json!([entry("a"), entry("b")]));
    forger.write("person", &queue(), &json!({"spec": {"slots": 1}}));
    forger.started(term, "a");
    forger.started(term, "b");
    forger.must_pass();
}

#[test]
fn a_ledger_that_vanishes_is_found() {
    let (mut forger, term) = Forger::queued(1);
    forger.status(term.by, &queue(), json!({"fence": term.fence()}));
    forger.must_break(Invariant::SlotsKept, "vanished");
}

#[test]
fn an_entry_that_is_dropped_too_early_is_found() {
    let (mut forger, term) = Forger::queued(1);
    forger.ledger(term, &json!([entry("a")]));
    forger.started(term, "a");
    forger.ledger(term, &json!([]));
    forger.must_break(Invariant::EntryKept, "dropped before its attempt was over");
}

#[test]
fn an_entry_of_a_deleted_report_stays_while_its_run_acts() {
    let (mut forger, term) = Forger::queued(1);
    forger.ledger(term, &json!([entry("a")]));
    forger.started(term, "a");
    forger.delete("person", &report("a"));
    forger.ledger(term, &json!([]));
    forger.must_break(Invariant::EntryKept, "while run h-a can act");
}

#[test]
fn a_new_leader_that_admits_before_it_knows_what_runs_is_found() {
    let (mut forger, term) = Forger::queued(2);
    forger.ledger(term, &json!([entry("a")]));
    forger.started(term, "a");
    let next = forger.at(20).acquire("r1", "n1");
    forger.ledger(next, &json!([entry("a"), entry("b")]));
    forger.must_break(Invariant::AdmissionsAfterRecovery, "has not sealed a");
}

#[test]
fn a_new_leader_that_seals_first_passes() {
    let (mut forger, term) = Forger::queued(2);
    forger.ledger(term, &json!([entry("a")]));
    forger.started(term, "a");
    let next = forger.at(20).acquire("r1", "n1");
    forger.ledger(next, &json!([entry("a")]));
    forger.decide(next, &report("a"), &json!({}));
    forger.ledger(next, &json!([entry("a"), entry("b")]));
    forger.started(next, "b");
    forger.must_pass();
}

#[test]
fn an_artifact_that_changes_is_found() {
    let (mut forger, term) = story();
    let artifact = |uri: &str| json!({"artifact": {"uri": uri, "attempt": 1}});
    forger.ledger(term, &json!([]));
    forger.decide(term, &report("a"), &artifact("s3://first"));
    forger.decide(term, &report("a"), &artifact("s3://second"));
    forger.must_break(Invariant::OutcomeFixed, "status.artifact changed");
}

#[test]
fn a_slot_that_is_kept_for_what_is_over_is_found() {
    let (forger, _) = story();
    forger.must_break(Invariant::Converged, "entry of b stands although its attempt is over");
}

#[test]
fn a_report_that_waits_beside_a_free_slot_is_found() {
    let (mut forger, term) = Forger::queued(2);
    forger.ledger(term, &json!([entry("a")]));
    forger.started(term, "a");
    forger.must_break(Invariant::Converged, "b waits although a slot is free");
}

#[test]
fn a_queue_that_stays_paused_is_found() {
    let (mut forger, term) = story();
    forger.ledger(term, &json!([]));
    let ready =
        json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-29T02:00:00Z"});
    forger.decide(term, &queue(), &json!({"admissions": "Paused", "conditions": [ready]}));
    forger.must_break(Invariant::Converged, "still paused");
}

#[test]
fn a_report_without_an_answer_is_found() {
    let (mut forger, term) = story();
    forger.ledger(term, &json!([]));
    let spec = json!({"queueName": "reports", "tenant": "acme"});
    forger.write("person", &report("c"), &json!({"metadata": {"uid": "c"}, "spec": spec}));
    forger.must_break(Invariant::Converged, "its queue did not answer it");
}
