//! Shapes of duplicates, most of them as people reported them of CronJobs.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde_json::{Value, json};

use super::{
    collect::{Collected, active, of_job, of_occurrence, of_report},
    groups::report,
    report::Report,
    run::{Outcome, Same, Source},
};
use crate::{
    api::{MaintenanceOccurrence, ReportJob},
    identity::WorkId,
};

const INSTANT: &str = "2026-11-29T02:00:00Z";
/// The instant in minutes since 1970.
const MINUTES: i64 = 29_931_960;

/// A Job that ran for some seconds from the start.
fn job(name: &str, cronjob: Option<&str>, start: &str, state: &str) -> Value {
    let owners = cronjob.map(|owner| {
        json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": owner, "uid": "c", "controller": true}])
    });
    let ends = (state != "Running").then(|| {
        json!([{
            "type": state, "status": "True", "lastTransitionTime": start.replace(":00Z", ":40Z"),
        }])
    });
    let completed = (state == "Complete").then(|| start.replace(":00Z", ":40Z"));
    json!({
        "metadata": {
            "name": name, "namespace": "docs", "uid": format!("uid-{name}"),
            "creationTimestamp": start, "ownerReferences": owners,
        },
        "status": {
            "startTime": start, "completionTime": completed, "conditions": ends,
            "succeeded": i32::from(state == "Complete"), "failed": i32::from(state == "Failed"),
        },
    })
}

fn scheduled(mut job: Value, at: &str) -> Value {
    job["metadata"]["annotations"] = json!({"batch.kubernetes.io/cronjob-scheduled-timestamp": at});
    job
}

fn keyed(mut job: Value, key: &str, place: &str) -> Value {
    job["metadata"][place] = json!({"punctual.dev/run-key": key});
    job
}

fn attempt(
    number: i32,
    from: &str,
    to: Option<&str>,
    outcome: Option<&str>,
    reason: &str,
) -> Value {
    json!({
        "number": number, "runKey": format!("k-m{number}"), "epoch": 100, "handle": format!("handle-{number}"),
        "preparedTime": from, "startTime": from, "completionTime": to, "outcome": outcome, "reason": reason,
    })
}

fn occurrence(attempts: &[Value]) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
        "metadata": {"name": "nightly-202611290200", "namespace": "docs", "uid": "o1", "creationTimestamp": INSTANT},
        "spec": {"scheduleName": "nightly", "intendedTime": INSTANT, "scheduleUID": "s1"},
        "status": {"state": "Succeeded", "attempts": attempts},
    })
}

fn done() -> Value {
    occurrence(&[attempt(1, INSTANT, Some("2026-11-29T02:00:30Z"), Some("Succeeded"), "Completed")])
}

fn audit(jobs: &[Value], occurrences: &[Value], same: &[&str]) -> Report {
    let same: Vec<Same> = same.iter().map(|text| Same::parse(text).unwrap()).collect();
    let mut all = Collected::new(&same);
    let read = |value: &Value| of_job(&serde_json::from_value::<Job>(value.clone()).unwrap());
    all.jobs = jobs.iter().map(read).collect();
    let read = |value: &Value| {
        of_occurrence(&serde_json::from_value::<MaintenanceOccurrence>(value.clone()).unwrap())
    };
    all.occurrences = occurrences.iter().map(read).collect();
    report(all, Some("docs".to_owned()))
}

/// Of each group: whose work, how many runs, and which run is the record.
fn found(report: &Report) -> Vec<(String, usize, String)> {
    let record = |group: &super::report::Group| {
        let marked: Vec<_> = group.runs.iter().filter(|run| run.record).collect();
        assert_eq!(marked.len(), 1, "exactly one is the record: {group:?}");
        marked[0].object.clone()
    };
    report.groups.iter().map(|group| (group.of.clone(), group.runs.len(), record(group))).collect()
}

fn named(minutes: i64) -> String {
    format!("nightly-{minutes}")
}

#[test]
fn one_run_of_each_instant_is_no_duplicate() {
    let jobs = [
        job(&named(MINUTES), Some("nightly"), INSTANT, "Complete"),
        job(&named(MINUTES + 1), Some("nightly"), "2026-11-29T02:01:00Z", "Complete"),
        job("unrelated", None, INSTANT, "Complete"),
        job("nightly-by-hand", Some("nightly"), INSTANT, "Complete"),
    ];
    let report = audit(&jobs, &[], &[]);
    assert_eq!((report.duplicates, report.without_instant), (0, 1));
    assert!(report.text().starts_with("No work ran more than once. Read 0 occurrences"));
}

#[test]
fn a_controller_that_named_by_seconds_and_one_that_names_by_minutes_ran_both() {
    let jobs = [
        job(&named(MINUTES * 60), Some("nightly"), INSTANT, "Failed"),
        job(&named(MINUTES), Some("nightly"), "2026-11-29T02:01:00Z", "Complete"),
    ];
    let report = audit(&jobs, &[], &[]);
    assert_eq!(
        found(&report),
        [("cronjob/nightly".to_owned(), 2, format!("job/{}", named(MINUTES)))]
    );
    assert!(report.groups[0].why.contains("first that succeeded"));
    assert!(!report.groups[0].overlapped, "one after the other");
    assert_eq!(report.groups[0].instant.unwrap().to_string(), INSTANT);
}

#[test]
fn a_cronjob_that_was_created_again_ran_its_instant_again() {
    let first = scheduled(job("nightly-a", None, INSTANT, "Complete"), "2026-11-29T03:00:00+01:00");
    let again = scheduled(job(&named(MINUTES), Some("nightly"), INSTANT, "Complete"), INSTANT);
    let report = audit(&[again, first], &[], &[]);
    assert_eq!(
        found(&report),
        [("cronjob/nightly".to_owned(), 2, format!("job/{}", named(MINUTES)))]
    );
    assert!(report.groups[0].overlapped);
}

#[test]
fn a_cronjob_and_a_schedule_of_one_name_are_one_work_and_the_occurrence_is_the_record() {
    let jobs = [scheduled(job(&named(MINUTES), Some("nightly"), INSTANT, "Complete"), INSTANT)];
    let report = audit(&jobs, &[done()], &[]);
    assert_eq!(
        found(&report),
        [("msched/nightly".to_owned(), 2, "mocc/nightly-202611290200".to_owned())]
    );
    assert!(report.groups[0].why.contains("identity of the work"));
    let text = report.text();
    for part in [
        "docs/msched/nightly 2026-11-29T02:00:00Z: 2 runs, some of them at the same time",
        "record",
        "1 piece of work ran more than once",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_cronjob_of_another_name_is_the_same_work_if_a_person_says_so() {
    let jobs = [scheduled(job("old-1", Some("old"), INSTANT, "Complete"), INSTANT)];
    assert!(audit(&jobs, &[done()], &[]).groups.is_empty());
    let report = audit(&jobs, &[done()], &["cronjob/old=msched/nightly"]);
    assert_eq!(found(&report).len(), 1);
    let two = [
        scheduled(job("old-1", Some("old"), INSTANT, "Complete"), INSTANT),
        scheduled(job("new-1", Some("new"), INSTANT, "Complete"), INSTANT),
    ];
    let report = audit(&two, &[], &["cronjob/old=cronjob/new"]);
    assert_eq!(found(&report)[0].0, "cronjob/new");
}

#[test]
fn another_namespace_or_another_instant_is_other_work() {
    let mut elsewhere = scheduled(job("nightly-x", Some("nightly"), INSTANT, "Complete"), INSTANT);
    elsewhere["metadata"]["namespace"] = json!("other");
    let next =
        scheduled(job("nightly-y", Some("nightly"), INSTANT, "Complete"), "2026-11-29T02:00:01Z");
    let this = scheduled(job("nightly-z", Some("nightly"), INSTANT, "Complete"), INSTANT);
    assert!(audit(&[elsewhere, next, this], &[], &[]).groups.is_empty());
}

#[test]
fn a_committed_job_is_its_attempt_and_another_with_its_run_key_is_a_second_run() {
    let id = WorkId::maintenance("docs", "nightly", INSTANT.parse().unwrap()).id();
    let key = format!("{id}-m1");
    let mut committed =
        keyed(job("nightly-202611290200-m1", None, INSTANT, "Complete"), &key, "annotations");
    committed["metadata"]["uid"] = json!("handle-1");
    assert!(audit(std::slice::from_ref(&committed), &[done()], &[]).groups.is_empty());
    for place in ["annotations", "labels"] {
        let by_hand = keyed(job("rerun", None, "2026-11-29T08:00:00Z", "Complete"), &key, place);
        let report = audit(&[committed.clone(), by_hand], &[done()], &[]);
        assert_eq!(
            found(&report),
            [("msched/nightly".to_owned(), 2, "mocc/nightly-202611290200".to_owned())]
        );
        assert_eq!(report.groups[0].runs[1].source, Source::Job);
    }
}

#[test]
fn a_job_that_nobody_released_did_not_run() {
    let id = WorkId::maintenance("docs", "nightly", INSTANT.parse().unwrap()).id();
    let mut inert = keyed(
        job("nightly-202611290200-m1", None, INSTANT, "Running"),
        &format!("{id}-m1"),
        "annotations",
    );
    inert["spec"] = json!({"suspend": true, "template": {}});
    inert["status"] = json!({});
    assert!(audit(&[inert], &[done()], &[]).groups.is_empty());
}

#[test]
fn runs_whose_object_is_gone_are_grouped_by_their_run_key() {
    let key = format!("{}-r1", "0a".repeat(16));
    let of_object = format!("{}-12345678-r2", "0a".repeat(16));
    let jobs = [
        keyed(job("a", None, INSTANT, "Failed"), &key, "annotations"),
        keyed(job("b", None, INSTANT, "Failed"), &of_object, "annotations"),
        keyed(job("c", None, INSTANT, "Failed"), "no-key", "annotations"),
    ];
    let report = audit(&jobs, &[], &[]);
    assert_eq!(found(&report), [(format!("run key {}", "0a".repeat(16)), 2, "job/a".to_owned())]);
    assert!(report.groups[0].why.contains("none succeeded"));
}

#[test]
fn attempts_are_one_run_unless_one_was_given_up_or_they_met() {
    let (one, two, three) =
        ("2026-11-29T02:00:10Z", "2026-11-29T02:00:20Z", "2026-11-29T02:00:30Z");
    let retried = |reason: &str, over: &str| {
        occurrence(&[
            attempt(1, INSTANT, Some(over), Some("Failed"), reason),
            attempt(2, two, Some(three), Some("Succeeded"), "Completed"),
        ])
    };
    for (description, occurrence, runs) in [
        ("tried again after its end", retried("ExitCode", one), 1),
        ("repeated by a person, and nothing says on what proof", retried("RetryRequested", one), 2),
        ("a read whose end nobody knows", retried("OutcomeUnknown", one), 2),
        ("both at one time", retried("ExitCode", three), 2),
    ] {
        let report = audit(&[], &[occurrence], &[]);
        let expected = usize::from(runs > 1);
        assert_eq!(report.duplicates, expected, "{description}");
        if let Some(group) = report.groups.first() {
            assert_eq!(group.runs.len(), runs, "{description}");
            assert!(group.runs[1].record, "{description}: what succeeded is the record");
        }
    }
    let never_ran = json!({
        "number": 2, "runKey": "k-m2", "epoch": 100, "handle": "h", "preparedTime": three,
        "completionTime": three, "outcome": "Cancelled", "reason": "CancelRequested",
    });
    let first = attempt(1, INSTANT, Some(one), Some("Failed"), "RetryRequested");
    assert!(audit(&[], &[occurrence(&[first, never_ran])], &[]).groups.is_empty());
}

#[test]
fn what_a_person_had_repeated_is_one_run_if_the_first_was_proven_over() {
    let (one, two, three) =
        ("2026-11-29T02:00:10Z", "2026-11-29T02:00:20Z", "2026-11-29T02:00:30Z");
    let retried = |resolution: &Value, stop_reason: &str| {
        let mut first = attempt(1, INSTANT, Some(one), Some("Failed"), "RetryRequested");
        (first["stopRequestedTime"], first["stopReason"]) = (json!(one), json!(stop_reason));
        let second = attempt(2, two, Some(three), Some("Succeeded"), "Completed");
        (resolution.clone(), [first, second])
    };
    let asked = |attempt: i32, decision: &str, accept: bool| json!({"attempt": attempt, "decision": decision, "reason": "r", "acceptDuplicate": accept});
    for (description, (resolution, attempts), runs) in [
        ("on the provider's word", retried(&asked(1, "Retry", false), "RetryRequested"), 1),
        ("stopped before", retried(&asked(1, "Retry", false), "DeadlineExceeded"), 1),
        ("a second run was accepted", retried(&asked(1, "Retry", true), "RetryRequested"), 2),
        ("another decision since", retried(&asked(2, "Succeeded", false), "RetryRequested"), 2),
        ("it had two pods", retried(&asked(1, "Retry", false), "DuplicatePod"), 2),
    ] {
        let mut occurrence = occurrence(&attempts);
        occurrence["spec"]["resolution"] = resolution.clone();
        let report = audit(&[], &[occurrence], &[]);
        let found: Vec<usize> = report.groups.iter().map(|group| group.runs.len()).collect();
        assert_eq!(found, if runs > 1 { vec![runs] } else { vec![] }, "{description}");
        let job: ReportJob = serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
            "metadata": {"name": "acme-1", "namespace": "docs", "uid": "r1"},
            "spec": {"queueName": "q", "tenant": "acme", "resolution": resolution},
            "status": {"state": "Succeeded", "id": "0b".repeat(16), "attempts": attempts},
        }))
        .unwrap();
        assert_eq!(of_report(&job).runs.len(), runs, "{description}");
    }
}

#[test]
fn what_still_runs_overlaps_with_what_starts_later() {
    let jobs = [
        scheduled(job("a", Some("nightly"), INSTANT, "Running"), INSTANT),
        scheduled(job("b", Some("nightly"), "2026-11-29T05:00:00Z", "Complete"), INSTANT),
    ];
    let report = audit(&jobs, &[], &[]);
    assert!(report.groups[0].overlapped);
    let outcomes: Vec<Outcome> = report.groups[0].runs.iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, [Outcome::Running, Outcome::Succeeded]);
}

#[test]
fn a_report_is_found_by_its_name_and_its_object() {
    let job: ReportJob = serde_json::from_value(json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
        "metadata": {"name": "acme-1", "namespace": "docs", "uid": "r1", "creationTimestamp": INSTANT},
        "spec": {"queueName": "q", "tenant": "acme", "run": {"simulated": {}}},
        "status": {"state": "Unresolved", "id": "0b".repeat(16), "attempts": [
            attempt(1, INSTANT, None, Some("Unknown"), "EndNotSeen"),
        ]},
    }))
    .unwrap();
    let key = format!("{}-12345678-r1", "0b".repeat(16));
    let other = keyed(self::job("again", None, INSTANT, "Complete"), &key, "annotations");
    let mut all = Collected::new(&[]);
    all.reports = vec![of_report(&job)];
    all.jobs = vec![of_job(&serde_json::from_value(other).unwrap())];
    let report = report(all, None);
    assert_eq!(found(&report), [("rjob/acme-1".to_owned(), 2, "rjob/acme-1".to_owned())]);
    assert!(report.groups[0].why.contains("although"));
}

#[test]
fn a_job_with_many_pods_is_told_apart_from_duplicates() {
    let mut many = scheduled(job("nightly-1", Some("nightly"), INSTANT, "Complete"), INSTANT);
    many["status"]["failed"] = json!(2);
    let report = audit(&[many], &[], &[]);
    assert_eq!((report.duplicates, report.many_pods.total), (0, 1));
    assert_eq!(report.many_pods.jobs, ["docs/job/nightly-1 (3 pods)"]);
}

#[test]
fn a_cronjob_and_a_schedule_that_are_both_active_are_told() {
    let cronjob = |name: &str, suspend: bool| -> CronJob {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "docs"},
            "spec": {"schedule": "0 2 * * *", "suspend": suspend, "jobTemplate": {"spec": {"template": {}}}},
        }))
        .unwrap()
    };
    let mut all = Collected::new(&[Same::parse("cronjob/old=rsched/monthly").unwrap()]);
    all.schedules = ["docs/msched/nightly", "docs/rsched/monthly", "docs/msched/paused"]
        .map(str::to_owned)
        .into();
    let found = [cronjob("nightly", false), cronjob("old", false), cronjob("paused", true)];
    all.cronjobs = found.iter().filter_map(active).collect();
    assert_eq!(
        report(all, None).both,
        [
            "docs/cronjob/nightly and docs/msched/nightly",
            "docs/cronjob/old and docs/rsched/monthly",
        ]
    );
}
