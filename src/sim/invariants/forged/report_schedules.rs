//! Forged histories of a schedule of reports: what holds for one of maintenance holds for it.

use serde_json::{Value, json};

use super::forger::{Forger, ID, INSTANT, START, Term};
use crate::sim::{Key, Kind, RunChange, RunEvent, invariants::Invariant};

fn queue() -> Key {
    Key::new(Kind::ReportQueue, "default", "reports")
}

fn weekly() -> Key {
    Key::new(Kind::ReportSchedule, "default", "weekly")
}

fn report() -> Key {
    Key::new(Kind::ReportJob, "default", "weekly-202611290200")
}

fn claim(time: &str, uid: &str) -> Value {
    json!({"time": time, "start": true, "uid": uid, "runKey": format!("{ID}-r1"), "actionClass": "Fenced"})
}

impl Forger {
    /// A queue and a schedule of reports, both sealed; nothing is due yet.
    fn reporting() -> (Self, Term) {
        let mut forger = Self::new();
        let spec = json!({"slots": 1});
        forger.write("person", &queue(), &json!({"metadata": {"uid": "q1"}, "spec": spec}));
        let meta = json!({"uid": "s1", "creationTimestamp": START});
        let spec = json!({"schedule": "0 2 * * *", "timeZone": "UTC"});
        forger.write("person", &weekly(), &json!({"metadata": meta, "spec": spec}));
        let term = forger.at(1).acquire("r0", "n0");
        forger.decide(term, &queue(), &json!({"ledger": {"entries": []}, "admissions": "Open"}));
        let observed = json!({"uid": "s1", "schedule": "0 2 * * *", "timeZone": "UTC"});
        let more = json!({"observed": observed, "effectiveTime": START});
        forger.decide(term, &weekly(), &more);
        forger.at(120);
        (forger, term)
    }

    fn new_report(&mut self, more: &Value) {
        let mut object = json!({"metadata": {"uid": "w1"}, "spec": {
            "queueName": "reports", "tenant": "acme", "scheduleName": "weekly",
            "intendedTime": INSTANT, "scheduleUID": "s1",
        }});
        for (field, value) in more.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        self.write("r0", &report(), &object);
    }

    fn decided(&mut self, term: Term, claims: &Value) {
        self.decide(term, &weekly(), &json!({"lastScheduleTime": INSTANT, "claimed": claims}));
    }

    /// Its queue takes it, admits it, and it is released.
    fn report_starts(&mut self, term: Term) {
        self.decide(term, &report(), &json!({"state": "Queued", "id": ID}));
        let entry = json!({"job": report().name, "uid": "w1", "tenant": "acme", "attempt": 1, "actionClass": "Fenced"});
        self.decide(term, &queue(), &json!({"ledger": {"entries": [entry]}}));
        let attempt =
            json!({"number": 1, "runKey": format!("{ID}-r1"), "handle": "h1", "epoch": 1});
        self.decide(term, &report(), &json!({"state": "Admitted", "attempts": [attempt]}));
        self.report_event(RunChange::Held);
        self.report_event(RunChange::Released);
    }

    fn report_event(&mut self, what: RunChange) {
        self.checker.run(&RunEvent {
            at: std::time::Duration::from_secs(120),
            parent: report(),
            parent_uid: "w1".into(),
            run_key: format!("{ID}-r1"),
            handle: "h1".into(),
            what,
        });
    }

    /// It is over, and nobody claims or holds anything for it.
    fn report_ends(&mut self, term: Term) {
        self.report_event(RunChange::Ended { outcome: "Succeeded".into() });
        let attempt = json!({"number": 1, "runKey": format!("{ID}-r1"), "handle": "h1", "epoch": 1, "outcome": "Succeeded"});
        self.decide(term, &report(), &json!({"state": "Succeeded", "attempts": [attempt]}));
        self.decide(term, &queue(), &json!({"ledger": {"entries": []}}));
        self.decided(term, &json!([]));
    }
}

/// The report of the instant is claimed, runs and ends.
fn story() -> (Forger, Term) {
    let (mut forger, term) = Forger::reporting();
    forger.new_report(&json!({}));
    forger.decided(term, &json!([claim(INSTANT, "w1")]));
    forger.report_starts(term);
    forger.report_ends(term);
    (forger, term)
}

#[test]
fn a_report_of_a_schedule_passes() {
    story().0.must_pass();
}

#[test]
fn an_instant_without_a_report_is_found() {
    let (forger, _) = Forger::reporting();
    forger.must_break(Invariant::InstantsAccounted, "nothing says what became of it");
}

#[test]
fn an_instant_whose_report_nobody_wanted_is_not_accounted_for() {
    let (mut forger, term) = Forger::reporting();
    forger.new_report(&json!({}));
    forger.decided(term, &json!([]));
    forger.decide(term, &report(), &json!({"state": "Cancelled", "reason": "Superseded"}));
    forger.must_break(Invariant::InstantsAccounted, "nothing says what became of it");
}

#[test]
fn an_instant_that_was_skipped_passes() {
    let (mut forger, term) = Forger::reporting();
    let range = json!({"from": INSTANT, "to": INSTANT, "count": 1, "reason": "QueueFull"});
    forger.decide(term, &weekly(), &json!({"lastScheduleTime": INSTANT, "skipped": [range]}));
    forger.must_pass();
}

#[test]
fn a_report_that_starts_without_a_claim_is_found() {
    let (mut forger, term) = Forger::reporting();
    forger.new_report(&json!({}));
    forger.report_starts(term);
    forger.must_break(Invariant::StartedByClaim, "without a started claim");
}

#[test]
fn a_claim_that_is_dropped_while_its_report_runs_is_found() {
    let (mut forger, term) = Forger::reporting();
    forger.new_report(&json!({}));
    forger.decided(term, &json!([claim(INSTANT, "w1")]));
    forger.report_starts(term);
    forger.decided(term, &json!([]));
    forger.must_break(Invariant::ClaimKept, "dropped before its end");
}

#[test]
fn claims_out_of_order_are_found() {
    let (mut forger, term) = Forger::reporting();
    forger.new_report(&json!({}));
    forger.decided(term, &json!([claim(INSTANT, "w1"), claim("2026-11-29T01:59:00Z", "w0")]));
    forger.must_break(Invariant::ClaimsInOrder, "stands behind");
}

#[test]
fn an_instant_with_two_claims_is_found() {
    let (mut forger, term) = Forger::reporting();
    forger.new_report(&json!({}));
    forger.decided(term, &json!([claim(INSTANT, "w0"), claim(INSTANT, "w1")]));
    forger.must_break(Invariant::ClaimsInOrder, "stands behind");
}

#[test]
fn an_instant_that_is_claimed_again_is_found() {
    let (mut forger, term) = story();
    forger.decided(term, &json!([claim(INSTANT, "w2")]));
    forger.must_break(Invariant::ClaimsInOrder, "was decided");
}

#[test]
fn a_report_whose_name_is_not_its_instant_is_found() {
    let (mut forger, _) = Forger::reporting();
    forger.new_report(&json!({"intendedTime": "2026-11-29T02:01:00Z"}));
    forger.must_break(Invariant::IdentityFixed, "its name is not its schedule");
}

#[test]
fn a_record_that_is_removed_before_the_mark_is_found() {
    let (mut forger, _) = story();
    forger.delete("r0", &report());
    forger.must_break(Invariant::RecordsBehindMark, "prunedThrough is \"\"");
}

#[test]
fn a_record_behind_the_mark_is_removed() {
    let (mut forger, term) = story();
    forger.decide(term, &weekly(), &json!({"prunedThrough": INSTANT}));
    forger.delete("r0", &report());
    forger.must_pass();
}

#[test]
fn a_claim_of_a_report_that_is_over_is_found() {
    let (mut forger, term) = story();
    // As it was before the end: the same uid is no new claim.
    forger.decide(term, &weekly(), &json!({"lastScheduleTime": null, "claimed": []}));
    forger.decided(term, &json!([claim(INSTANT, "w1")]));
    forger.must_break(Invariant::Converged, "stands although its occurrence is over");
}

#[test]
fn a_report_that_its_schedule_decided_without_is_to_be_ended() {
    let (mut forger, term) = Forger::reporting();
    forger.new_report(&json!({}));
    let range = json!({"from": INSTANT, "to": INSTANT, "count": 1, "reason": "Superseded"});
    forger.decide(term, &weekly(), &json!({"lastScheduleTime": INSTANT, "skipped": [range]}));
    forger.must_break(Invariant::Converged, "was not ended");
}

#[test]
fn a_report_whose_schedule_is_gone_is_to_be_ended() {
    let (mut forger, _) = Forger::reporting();
    forger.new_report(&json!({}));
    forger.delete("person", &weekly());
    forger.must_break(Invariant::Converged, "its schedule is gone");
}

#[test]
fn a_claimed_report_without_an_answer_is_found() {
    let (mut forger, term) = Forger::reporting();
    forger.new_report(&json!({}));
    forger.decided(term, &json!([claim(INSTANT, "w1")]));
    forger.must_break(Invariant::Converged, "its queue did not answer it");
}
