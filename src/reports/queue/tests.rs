use serde_json::{Value, json};

use super::*;
use crate::{
    api::{ActionClass, ReportJob},
    reports::admission::Why,
};

const NOW: &str = "2026-11-29T02:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn fence() -> Fence {
    Fence { epoch: 7, nonce: "n".into() }
}

fn queue(spec: &Value, status: &Value) -> ReportQueue {
    serde_json::from_value(json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
        "metadata": {"name": "reports", "namespace": "d", "uid": "q1", "generation": 1},
        "spec": spec, "status": status,
    }))
    .unwrap()
}

fn sealed(entries: &Value) -> Value {
    json!({
        "fence": {"epoch": 7, "nonce": "n"},
        "ledger": {"entries": entries},
    })
}

fn entry(job: &str) -> Value {
    json!({
        "job": job, "uid": job, "tenant": "acme", "attempt": 1, "runKey": "k",
        "actionClass": "Idempotent", "charge": 60_000, "admittedTime": NOW,
    })
}

/// A job of this age in seconds.
fn job(name: &str, age: i64, spec: &Value, status: &Value) -> ReportJob {
    let created = at(NOW) - SignedDuration::from_secs(age);
    let mut all = json!({"queueName": "reports", "tenant": "acme"});
    for (field, value) in spec.as_object().into_iter().flatten() {
        all[field] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
        "metadata": {
            "name": name, "namespace": "d", "uid": name, "creationTimestamp": created.to_string(),
        },
        "spec": all, "status": status,
    }))
    .unwrap()
}

fn new(name: &str, age: i64) -> ReportJob {
    job(name, age, &json!({}), &Value::Null)
}

fn queued(name: &str, age: i64) -> ReportJob {
    job(name, age, &json!({}), &json!({"state": "Queued"}))
}

fn book(jobs: &[ReportJob]) -> Book {
    let mut book = Book::default();
    for job in jobs {
        book.follow(job.metadata.name.as_deref().unwrap(), Some(job));
    }
    book
}

fn snapshot(queue: ReportQueue, standings: Vec<Standing>) -> Snapshot {
    Snapshot {
        queue,
        standings,
        over: BTreeSet::new(),
        taken_over: None,
        unaccounted: 0,
        shown: None,
        written: None,
        fence: fence(),
    }
}

/// One pass: answers, then decides.
fn pass(snapshot: &Snapshot, book: &mut Book) -> Plan {
    let now = at(NOW);
    book.advance(now);
    answer(snapshot, book, now);
    decide(snapshot, book, now, |_, _, attempt| {
        let action_class = ActionClass::Idempotent;
        Some(RunRef { run_key: format!("k-r{attempt}"), action_class, http: None })
    })
}

fn admitted(plan: &Plan) -> Vec<&str> {
    plan.admitted.iter().map(|entry| entry.job.as_str()).collect()
}

fn ledger(plan: &Plan) -> Vec<&str> {
    let ledger = plan.status.as_ref().unwrap().ledger.as_ref().unwrap();
    ledger.entries.iter().map(|entry| entry.job.as_str()).collect()
}

fn rejection<'a>(book: &'a Book, name: &str) -> Option<&'a str> {
    match book.answer(name, name)? {
        Answer::Rejected { reason, .. } => Some(reason),
        Answer::Accepted => Some("Accepted"),
    }
}

#[test]
fn of_four_jobs_at_once_one_runs_two_wait_and_the_youngest_is_rejected() {
    let spec = json!({"slots": 1, "limits": {"queued": 2, "queuedPerTenant": 2}});
    let snapshot = snapshot(queue(&spec, &sealed(&json!([]))), Vec::new());
    let mut book = book(&[new("r3", 1), new("r0", 4), new("r2", 2), new("r1", 3)]);
    let plan = pass(&snapshot, &mut book);
    assert_eq!(admitted(&plan), ["r0"]);
    assert_eq!(ledger(&plan), ["r0"]);
    let answers: Vec<_> =
        ["r0", "r1", "r2", "r3"].into_iter().map(|name| rejection(&book, name)).collect();
    let yes = Some("Accepted");
    assert_eq!(answers, [yes, yes, yes, Some("QueueFull")]);
    let status = plan.status.unwrap();
    assert_eq!((status.slots.as_deref(), status.waiting), (Some("1/1"), Some(2)));
    assert_eq!(status.admissions, Some(Admissions::Open));
}

#[test]
fn what_is_over_is_settled_before_anybody_is_answered_and_admitted() {
    let spec = json!({"slots": 1, "limits": {"queued": 0}});
    let queue = queue(&spec, &sealed(&json!([entry("old")])));
    let mut full = book(&[new("r0", 1)]);
    let plan = pass(&snapshot(queue.clone(), vec![Standing::Open]), &mut full);
    assert_eq!((admitted(&plan), rejection(&full, "r0")), (vec![], Some("QueueFull")));
    let mut free = book(&[new("r0", 1)]);
    let plan = pass(
        &snapshot(queue, vec![Standing::Over { took: 30_000, again: Some(false) }]),
        &mut free,
    );
    assert_eq!((admitted(&plan), ledger(&plan)), (vec!["r0"], vec!["r0"]));
}

#[test]
fn nothing_is_answered_or_admitted_until_what_was_found_is_accounted_for() {
    let status =
        json!({"fence": {"epoch": 6, "nonce": "old"}, "ledger": {"entries": [entry("old")]}});
    let queue = queue(&json!({"slots": 4}), &status);
    let mut snapshot = snapshot(queue, vec![Standing::Open]);
    snapshot.unaccounted = 1;
    let mut book = book(&[new("r0", 1), queued("r1", 1)]);
    let plan = pass(&snapshot, &mut book);
    assert_eq!((admitted(&plan), rejection(&book, "r0")), (vec![], None));
    let status = plan.status.unwrap();
    assert_eq!(status.admissions, Some(Admissions::Paused));
    assert_eq!(status.reason.as_deref(), Some("RecoveryIncomplete"));
    snapshot.unaccounted = 0;
    let plan = pass(&snapshot, &mut book);
    assert_eq!(admitted(&plan), ["r0", "r1"], "by name: both are as old");
}

#[test]
fn a_queue_on_hold_accepts_and_a_closed_one_runs_what_waits() {
    let of = |admission: &str| {
        let spec = json!({"slots": 2, "admission": admission, "admissionReason": "audit"});
        let snapshot = snapshot(queue(&spec, &sealed(&json!([]))), Vec::new());
        let mut book = book(&[new("r0", 1), queued("r1", 1)]);
        let plan = pass(&snapshot, &mut book);
        let status = plan.status.clone().unwrap();
        let answered = rejection(&book, "r0").map(str::to_owned);
        (plan.admitted.len(), answered, status.admissions.unwrap(), status.message)
    };
    let note = Some("audit".to_owned());
    assert_eq!(of("Hold"), (0, Some("Accepted".into()), Admissions::Held, note.clone()));
    assert_eq!(of("Closed"), (1, Some("QueueClosed".into()), Admissions::Closed, note));
}

#[test]
fn what_could_never_start_is_said_so() {
    let spec = json!({
        "slots": 2, "admission": "Hold", "admissionUntilTime": "2026-11-29T03:00:00Z",
        "tenants": [{"name": "none", "maxRunning": 0}],
    });
    let snapshot = snapshot(queue(&spec, &sealed(&json!([]))), Vec::new());
    let mut book = book(&[
        job("late", 1, &json!({"queueDeadlineSeconds": 60}), &Value::Null),
        job("soon", 1, &json!({"queueDeadlineSeconds": 7200}), &Value::Null),
        job("none", 1, &json!({"tenant": "none"}), &Value::Null),
    ]);
    let plan = pass(&snapshot, &mut book);
    let unsatisfiable = Some("Unsatisfiable");
    assert_eq!(rejection(&book, "late"), unsatisfiable);
    assert_eq!(rejection(&book, "none"), unsatisfiable);
    assert_eq!(rejection(&book, "soon"), Some("Accepted"));
    assert_eq!(plan.wake_at, Some(at("2026-11-29T03:00:00Z")), "it opens by itself");
}

#[test]
fn the_slot_of_a_deleted_job_is_kept_until_its_run_is_proven_over_or_written_off() {
    let queue = |abandon: &Value| {
        let spec = json!({"slots": 1, "abandon": abandon});
        queue(&spec, &sealed(&json!([entry("gone")])))
    };
    let mut snapshot = snapshot(queue(&json!([])), vec![Standing::Gone]);
    let mut book = book(&[queued("r0", 1)]);
    let plan = pass(&snapshot, &mut book);
    assert_eq!((plan.probe.len(), admitted(&plan)), (1, vec![]));
    assert_eq!(plan.wake_at, Some(after(at(NOW), PROBE_INTERVAL)));
    snapshot.over.insert("gone".into());
    assert_eq!(admitted(&pass(&snapshot, &mut book)), ["r0"]);
    snapshot.over.clear();
    snapshot.queue = queue_with(&snapshot.queue, &json!([{"uid": "gone", "reason": "looked"}]));
    let plan = pass(&snapshot, &mut book);
    assert_eq!(admitted(&plan), ["r0"]);
    assert!(plan.notes.iter().any(|note| note.warning && note.reason == "SlotAbandoned"));
}

#[test]
fn how_often_first_attempts_are_tried_again_is_counted_when_they_end() {
    for (again, retry, counted) in [
        (Some(true), false, 7_812),
        (Some(false), false, 0),
        (None, false, 0),
        (Some(true), true, 0),
    ] {
        let mut old = entry("old");
        old["retry"] = json!(retry);
        let queue = queue(&json!({"slots": 1}), &sealed(&json!([old])));
        let over = Standing::Over { took: 30_000, again };
        let plan = pass(&snapshot(queue, vec![over]), &mut book(&[]));
        let ledger = plan.status.unwrap().ledger.unwrap();
        assert_eq!((ledger.entries.len(), ledger.retries_per_million), (0, counted), "{again:?}");
    }
}

fn queue_with(queue: &ReportQueue, abandon: &Value) -> ReportQueue {
    let mut queue = queue.clone();
    queue.spec.abandon = serde_json::from_value(abandon.clone()).unwrap();
    queue
}

#[test]
fn a_job_made_again_under_the_name_of_one_that_still_runs_waits() {
    let queue = queue(&json!({"slots": 2}), &sealed(&json!([entry("r0")])));
    let mut again = queued("r0", 1);
    again.metadata.uid = Some("r0-again".into());
    let mut book = book(&[again, queued("r1", 0)]);
    let plan = pass(&snapshot(queue, vec![Standing::Gone]), &mut book);
    assert_eq!(admitted(&plan), ["r1"]);
}

#[test]
fn a_queue_without_a_ledger_gets_one_from_what_was_found() {
    let fresh = queue(&json!({"slots": 1}), &Value::Null);
    assert!(needs_takeover(&fresh));
    let mut snapshot = snapshot(fresh, Vec::new());
    let mut book = book(&[queued("r0", 1)]);
    assert_eq!(pass(&snapshot, &mut book), Plan::default(), "not before it was taken over");
    let found = |names: &[&str]| -> Vec<LedgerEntry> {
        names.iter().map(|name| serde_json::from_value(entry(name)).unwrap()).collect()
    };
    snapshot.taken_over = Some(found(&["a", "b"]));
    let plan = pass(&snapshot, &mut book);
    assert_eq!((admitted(&plan), ledger(&plan)), (vec![], vec!["a", "b"]), "more than the slots");
    assert_eq!(plan.status.unwrap().reason.as_deref(), Some("SlotsLowered"));
    snapshot.taken_over = Some(Vec::new());
    assert_eq!(ledger(&pass(&snapshot, &mut book)), ["r0"]);
}

#[test]
fn nothing_is_written_without_a_reason() {
    let mut book = book(&[]);
    let spec = json!({"slots": 1});
    let first = pass(&snapshot(queue(&spec, &sealed(&json!([]))), Vec::new()), &mut book);
    let mut status = first.status.unwrap();
    status.fence = Some(fence());
    let mut stored = queue(&spec, &Value::Null);
    stored.status = Some(status.clone());
    assert_eq!(pass(&snapshot(stored.clone(), Vec::new()), &mut book).status, None);
    // A queue with nothing in it is not sealed merely because the leader changed.
    let mut of_old_term = stored.clone();
    of_old_term.status.as_mut().unwrap().fence = Some(Fence { epoch: 6, nonce: "o".into() });
    assert_eq!(pass(&snapshot(of_old_term.clone(), Vec::new()), &mut book).status, None);
    let mut waits = super::tests::book(&[new("r0", 1)]);
    assert!(pass(&snapshot(of_old_term, Vec::new()), &mut waits).status.is_some());
}

#[test]
fn a_queue_is_sealed_although_all_that_is_new_is_rejected() {
    let spec = json!({"slots": 1, "admission": "Closed"});
    let first = pass(&snapshot(queue(&spec, &sealed(&json!([]))), Vec::new()), &mut book(&[]));
    let mut stored = queue(&spec, &Value::Null);
    stored.status = first.status;
    stored.status.as_mut().unwrap().fence = Some(Fence { epoch: 6, nonce: "o".into() });
    let mut book = book(&[new("r0", 1)]);
    let plan = pass(&snapshot(stored, Vec::new()), &mut book);
    assert_eq!(rejection(&book, "r0"), Some("QueueClosed"));
    assert!(plan.status.is_some(), "a job is answered once its queue is sealed");
}

#[test]
fn counts_are_shown_once_in_a_while() {
    let spec = json!({"slots": 1});
    let entries = json!([entry("old")]);
    let mut empty = book(&[]);
    let first = pass(&snapshot(queue(&spec, &sealed(&entries)), vec![Standing::Open]), &mut empty);
    let mut stored = queue(&spec, &Value::Null);
    stored.status = first.status;
    stored.status.as_mut().unwrap().fence = Some(fence());
    let mut more = book(&[queued("r0", 1)]);
    let mut snapshot = snapshot(stored, vec![Standing::Open]);
    snapshot.shown = Some(at(NOW) - SignedDuration::from_secs(4));
    let plan = pass(&snapshot, &mut more);
    assert_eq!((plan.status.is_some(), plan.wake_at), (false, Some(at("2026-11-29T02:00:06Z"))));
    snapshot.shown = Some(at(NOW) - SHOW_INTERVAL);
    assert_eq!(pass(&snapshot, &mut more).status.unwrap().waiting, Some(1));
}

#[test]
fn a_ledger_is_written_five_times_a_second_however_many_jobs_come_and_go() {
    for used in [1, 1000] {
        let entries: Vec<Value> = (0..used).map(|n| entry(&format!("r{n:04}"))).collect();
        let queue = queue(&json!({"slots": 1024}), &sealed(&json!(entries)));
        let mut snapshot = snapshot(queue, vec![Standing::Open; used]);
        let mut book = book(&[queued("a", 2), queued("b", 1)]);
        snapshot.written = Some(at(NOW) - SignedDuration::from_millis(50));
        let plan = pass(&snapshot, &mut book);
        assert_eq!((plan.status.is_some(), plan.admitted.len()), (false, 0));
        assert_eq!(plan.wake_at, Some(at("2026-11-29T02:00:00.15Z")));
        snapshot.written = Some(at(NOW) - WRITE_PAUSE);
        assert_eq!(admitted(&pass(&snapshot, &mut book)), ["a", "b"], "both in one write");
        // The clock was set back by an hour: that is no reason to wait.
        snapshot.written = Some(at(NOW) + SignedDuration::from_hours(1));
        assert_eq!(admitted(&pass(&snapshot, &mut book)), ["a", "b"]);
    }
}

#[test]
fn those_that_were_answered_are_named_and_nobody_else() {
    let spec = json!({"slots": 1, "limits": {"queued": 1}});
    let snapshot = snapshot(queue(&spec, &sealed(&json!([]))), Vec::new());
    let mut book = book(&[queued("waits", 9), new("r0", 3), new("r1", 2)]);
    assert_eq!(answer(&snapshot, &mut book, at(NOW)), ["r0", "r1"]);
    assert_eq!(rejection(&book, "r1"), Some("QueueFull"));
    assert_eq!(answer(&snapshot, &mut book, at(NOW)), [""; 0]);
}

#[test]
fn the_order_of_events_decides_nothing() {
    let snapshot = snapshot(queue(&json!({"slots": 2}), &sealed(&json!([]))), Vec::new());
    let jobs = [new("a", 3), queued("b", 2), new("c", 1), queued("d", 4)];
    let mut reversed = jobs.clone();
    reversed.reverse();
    let (mut one, mut other) = (book(&jobs), book(&reversed));
    one.follow("a", Some(&jobs[0]));
    assert_eq!(pass(&snapshot, &mut one), pass(&snapshot, &mut other));
}

#[test]
fn a_job_stops_waiting_when_it_is_cancelled_deleted_or_over() {
    let gone = |change: &dyn Fn(&mut ReportJob)| {
        let mut book = book(&[queued("r0", 1), new("r1", 1)]);
        for name in ["r0", "r1"] {
            let mut job = new(name, 1);
            change(&mut job);
            book.follow(name, Some(&job));
        }
        (book.waiting().len(), book.has_fresh())
    };
    let state = |state: &str| serde_json::from_value(json!({"state": state})).unwrap();
    assert_eq!(gone(&|job| job.spec.cancel = true), (0, false));
    assert_eq!(gone(&|job| job.status = state("Running")), (0, false));
    assert_eq!(gone(&|job| job.status = state("Succeeded")), (0, false));
    let mut book = book(&[queued("r0", 1), new("r1", 1)]);
    book.follow("r0", None);
    book.follow("r1", None);
    assert_eq!((book.waiting().len(), book.has_fresh()), (0, false));
}

#[test]
fn a_started_job_of_a_schedule_was_accepted_by_its_claim() {
    let scheduled = json!({
        "scheduleName": "daily", "intendedTime": "2026-11-29T02:00:00Z", "scheduleUID": "s1",
    });
    let full = json!({"slots": 1, "limits": {"queued": 0, "queuedPerTenant": 0}});
    let instant = job("daily-202611290200", 1, &scheduled, &Value::Null);
    let mut book = book(&[instant, new("r0", 9)]);
    assert_eq!(rejection(&book, "daily-202611290200"), Some("Accepted"));
    let held = snapshot(queue(&full, &sealed(&json!([entry("large")]))), vec![Standing::Open]);
    assert!(admitted(&pass(&held, &mut book)).is_empty());
    assert_eq!(rejection(&book, "r0"), Some("QueueFull"), "nobody else may wait");
    assert!(book.waits("daily-202611290200", "daily-202611290200", 1));
    let free = snapshot(queue(&full, &sealed(&json!([]))), Vec::new());
    assert_eq!(admitted(&pass(&free, &mut book)), ["daily-202611290200"]);
    let entries = [serde_json::from_value(entry("daily-202611290200")).unwrap()];
    book.hold(&entries);
    assert!(book.holds_slot("daily-202611290200") && !book.holds_slot("daily"));
}

#[test]
fn why_jobs_wait_costs_one_look_at_each_version_of_the_ledger() {
    let jobs: Vec<ReportJob> = (0..500).map(|n| queued(&format!("r{n:03}"), n)).collect();
    let mut book = book(&jobs);
    let mut queue = queue(&json!({"slots": 1}), &sealed(&json!([entry("other")])));
    for version in 1..=3 {
        queue.metadata.resource_version = Some(version.to_string());
        for job in &jobs {
            let name = job.metadata.name.as_deref().unwrap();
            assert_eq!(book.explain(&queue, false, at(NOW), name), Some(Why::WaitingForSlot));
        }
        assert_eq!(book.openings(), version);
        // What does not come from the ledger needs no other look at it.
        assert_eq!(book.explain(&queue, true, at(NOW), "r000"), Some(Why::QueuePaused));
        assert_eq!(book.openings(), version);
    }
    // Another version says something else.
    queue.metadata.resource_version = Some("4".into());
    queue.status = serde_json::from_value(sealed(&json!([entry("r000")]))).unwrap();
    assert_eq!(book.explain(&queue, false, at(NOW), "r000"), Some(Why::NameTaken));
}
