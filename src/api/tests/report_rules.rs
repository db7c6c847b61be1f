//! Every rule of the kinds of reports, with inputs it must accept and inputs it must refuse.

use serde_json::{Value, json};

use super::{
    super::{
        FENCE_MESSAGE, MAX_SLOTS, ReportState,
        report_rules::{
            ARTIFACT_MESSAGE, LEDGER_MESSAGE, QUEUE_NAME_MESSAGE, REPORT_CANCEL_MESSAGE,
            REPORT_IDENTITY_MESSAGE, REPORT_NAME_MESSAGE, REPORT_RUN_MESSAGE,
            REPORT_SCHEDULE_NAME_MESSAGE, REPORT_TERMINAL_MESSAGE, SCHEDULED_NAME_MESSAGE,
            SCHEDULED_WHOLE_MESSAGE,
        },
        rules::{
            ID_MESSAGE, INSTANT_MESSAGE, NO_ZONE_MESSAGE, ONE_PROVIDER_MESSAGE, PARAMETERS_MESSAGE,
        },
    },
    rules::{accepted, refusals, refused, with},
    schema,
};

const QUEUE: &str = "ReportQueue";
const JOB: &str = "ReportJob";
const SCHEDULE: &str = "ReportSchedule";

fn fence() -> Value {
    json!({"epoch": 100, "nonce": "a"})
}

/// A queue whose ledger has this many entries.
fn queue(slots: i32, entries: usize) -> Value {
    let entry = |number: usize| {
        json!({
            "job": format!("acme-{number}"), "uid": format!("u-{number}"), "tenant": "acme",
            "attempt": 1, "runKey": format!("{number:032x}-r1"), "actionClass": "Idempotent",
            "charge": 60_000, "admittedTime": "2026-11-29T02:00:00Z",
        })
    };
    let entries: Vec<Value> = (0..entries).map(entry).collect();
    json!({
        "metadata": {"name": "reports"},
        "spec": {"slots": slots, "runTemplate": {"simulated": {}}},
        "status": {"ledger": {"virtualTime": 0, "entries": entries}, "fence": fence()},
    })
}

fn job() -> Value {
    json!({
        "metadata": {"name": "acme-usage-2026-11"},
        "spec": {
            "queueName": "reports", "tenant": "acme", "priority": 0, "estimateSeconds": 60,
            "artifact": "Optional", "parameters": {"month": "2026-11"},
            "queueDeadlineSeconds": 86400,
            "run": {
                "actionClass": "Idempotent", "maxAttempts": 3, "startTimeoutSeconds": 60,
                "timeoutSeconds": 600, "parameters": {"mode": "full"},
                "simulated": {"durationSeconds": 3},
            },
        },
        "status": {"id": "abc", "state": "Running", "fence": fence()},
    })
}

fn scheduled() -> Value {
    let mut job = job();
    job["metadata"]["name"] = "hourly-usage-202611290900".into();
    job["spec"]["scheduleName"] = "hourly-usage".into();
    job["spec"]["intendedTime"] = "2026-11-29T09:00:00Z".into();
    job["spec"]["scheduleUID"] = "uid-1".into();
    job
}

fn schedule() -> Value {
    json!({
        "metadata": {"name": "hourly-usage"},
        "spec": {
            "schedule": "0 * * * *",
            "jobTemplate": {"spec": {
                "queueName": "reports", "tenant": "acme", "run": {"simulated": {}},
            }},
        },
        "status": {"fence": fence()},
    })
}

fn artifact() -> Value {
    json!({
        "uri": "s3://reports/acme/2026-11.pdf", "sha256": "0a".repeat(32), "sizeBytes": 9,
        "attempt": 1, "acceptedTime": "2026-11-29T02:00:00Z",
    })
}

#[test]
fn a_good_object_is_accepted_also_as_an_update_of_itself() {
    for (kind, object) in [
        (QUEUE, queue(2, 2)),
        (JOB, job()),
        (JOB, scheduled()),
        (JOB, with(&job(), "/status/artifact", artifact())),
        (SCHEDULE, schedule()),
    ] {
        accepted(kind, &object, None);
        accepted(kind, &object, Some(&object));
    }
}

#[test]
fn names_leave_room_for_what_is_made_of_them() {
    for (kind, object, longest, message) in [
        (QUEUE, queue(1, 0), 63, QUEUE_NAME_MESSAGE),
        (JOB, job(), 53, REPORT_NAME_MESSAGE),
        (SCHEDULE, schedule(), 40, REPORT_SCHEDULE_NAME_MESSAGE),
    ] {
        let named = |length| with(&object, "/metadata/name", "n".repeat(length).into());
        accepted(kind, &named(longest), None);
        refused(kind, &named(longest + 1), None, &[message]);
        // An attempt of it is a Job, whose pods have six characters more.
        assert!(kind != JOB || longest + "-r99".len() + "-abcde".len() <= 63);
    }
}

#[test]
fn the_fence_never_goes_back() {
    for (kind, old) in [(QUEUE, queue(2, 1)), (JOB, job()), (SCHEDULE, schedule())] {
        let sealed = |epoch: i64, nonce: &str| {
            with(&old, "/status/fence", json!({"epoch": epoch, "nonce": nonce}))
        };
        accepted(kind, &sealed(100, "a"), Some(&old));
        accepted(kind, &sealed(101, "b"), Some(&old));
        refused(kind, &sealed(99, "a"), Some(&old), &[FENCE_MESSAGE]);
        refused(kind, &sealed(100, "b"), Some(&old), &[FENCE_MESSAGE]);
        refused(kind, &with(&old, "/status/fence", Value::Null), Some(&old), &[FENCE_MESSAGE]);
        let without = with(&old, "/status", Value::Null);
        assert!(refusals(kind, &without, Some(&old)).contains(&FENCE_MESSAGE.to_owned()));
    }
}

#[test]
fn no_job_is_admitted_while_the_entries_fill_the_slots() {
    let slots = 2;
    for (before, after, fine) in [
        (0, 2, true),
        (0, 3, false),
        (1, 2, true),
        (2, 2, true),
        (2, 3, false),
        // The slots were lowered while more of them were taken.
        (4, 4, true),
        (4, 3, true),
        (4, 0, true),
        (4, 5, false),
    ] {
        let (old, new) = (queue(slots, before), queue(slots, after));
        let expected: &[&str] = if fine { &[] } else { &[LEDGER_MESSAGE] };
        refused(QUEUE, &new, Some(&old), expected);
        let mut newer_term = new;
        newer_term["status"]["fence"] = json!({"epoch": 101, "nonce": "b"});
        refused(QUEUE, &newer_term, Some(&old), expected);
    }
    let most = usize::try_from(MAX_SLOTS).unwrap();
    accepted(QUEUE, &queue(MAX_SLOTS, most), Some(&queue(MAX_SLOTS, most - 1)));
}

#[test]
fn slots_may_be_lowered_below_what_is_taken() {
    accepted(QUEUE, &queue(1, 4), Some(&queue(4, 4)));
}

#[test]
fn a_ledger_never_vanishes_and_may_be_rebuilt_where_there_is_none() {
    let old = queue(2, 1);
    let without = with(&old, "/status/ledger", Value::Null);
    refused(QUEUE, &without, Some(&old), &[LEDGER_MESSAGE]);
    let no_status = with(&old, "/status", Value::Null);
    let found = refusals(QUEUE, &no_status, Some(&old));
    assert!(found.contains(&LEDGER_MESSAGE.to_owned()), "{found:?}");
    for before in [&without, &no_status] {
        accepted(QUEUE, &queue(2, 3), Some(before));
    }
    let empty = with(&old, "/status/ledger/entries", Value::Null);
    accepted(QUEUE, &empty, Some(&old));
    accepted(QUEUE, &queue(2, 2), Some(&empty));
    refused(QUEUE, &queue(2, 3), Some(&empty), &[LEDGER_MESSAGE]);
}

#[test]
fn the_name_of_a_scheduled_job_is_its_identity() {
    for name in [
        "hourly-usage-202611290901",
        "daily-usage-202611290900",
        "hourly-usage",
        "hourly-usage-2026112909000",
    ] {
        let object = with(&scheduled(), "/metadata/name", name.into());
        refused(JOB, &object, None, &[SCHEDULED_NAME_MESSAGE]);
    }
    let mut month_13 = with(&scheduled(), "/spec/intendedTime", "2026-13-29T09:00:00Z".into());
    month_13["metadata"]["name"] = "hourly-usage-202613290900".into();
    refused(JOB, &month_13, None, &[INSTANT_MESSAGE]);
}

#[test]
fn no_other_name_ends_like_an_instant() {
    for name in ["acme-202611290900", "a-000000000000", "-202611290900"] {
        let object = with(&job(), "/metadata/name", name.into());
        refused(JOB, &object, None, &[SCHEDULED_NAME_MESSAGE]);
    }
    for name in ["acme-20261129090", "acme-2026112909000", "acme-202611290900x", "202611290900"] {
        accepted(JOB, &with(&job(), "/metadata/name", name.into()), None);
    }
}

#[test]
fn a_job_is_an_instant_of_a_schedule_altogether_or_not_at_all() {
    let fields = ["scheduleName", "intendedTime", "scheduleUID"];
    for kept in 1..7_u32 {
        let mut object = scheduled();
        for (bit, field) in fields.iter().enumerate() {
            if kept & (1 << bit) == 0 {
                object["spec"].as_object_mut().unwrap().remove(*field);
            }
        }
        let found = refusals(JOB, &object, None);
        assert!(found.contains(&SCHEDULED_WHOLE_MESSAGE.to_owned()), "{kept:b}: {found:?}");
    }
}

#[test]
fn what_a_report_is_never_changes() {
    let old = job();
    for (field, value) in [
        ("queueName", json!("others")),
        ("tenant", json!("zeta")),
        ("priority", json!(1)),
        ("parameters", json!({"month": "2026-12"})),
        ("parameters", json!({"month": "2026-11", "more": ""})),
        ("parameters", Value::Null),
        ("estimateSeconds", json!(61)),
        ("queueDeadlineSeconds", json!(86401)),
        ("queueDeadlineSeconds", Value::Null),
        ("artifact", json!("Required")),
    ] {
        let new = with(&old, &format!("/spec/{field}"), value);
        refused(JOB, &new, Some(&old), &[REPORT_IDENTITY_MESSAGE]);
    }
    for field in ["parameters", "queueDeadlineSeconds"] {
        let without = with(&old, &format!("/spec/{field}"), Value::Null);
        refused(JOB, &old, Some(&without), &[REPORT_IDENTITY_MESSAGE]);
    }
    let uid = with(&scheduled(), "/spec/scheduleUID", "uid-2".into());
    refused(JOB, &uid, Some(&scheduled()), &[REPORT_IDENTITY_MESSAGE]);
    let time = with(&scheduled(), "/spec/intendedTime", "2026-11-29T10:00:00Z".into());
    let both = [SCHEDULED_NAME_MESSAGE, REPORT_IDENTITY_MESSAGE];
    refused(JOB, &time, Some(&scheduled()), &both);
    for message in [
        REPORT_IDENTITY_MESSAGE,
        REPORT_RUN_MESSAGE,
        REPORT_TERMINAL_MESSAGE,
        ARTIFACT_MESSAGE,
        ID_MESSAGE,
    ] {
        assert!(message.contains("immutable"), "{message}");
    }
}

#[test]
fn every_field_of_the_spec_is_immutable_but_two() {
    let schema = schema(JOB);
    let fields = schema["properties"]["spec"]["properties"].as_object().unwrap();
    let free: Vec<&str> = fields
        .keys()
        .map(String::as_str)
        .filter(|field| {
            let field = format!("oldSelf.spec.{field}");
            let rules = schema["x-kubernetes-validations"].as_array().unwrap().iter();
            !rules.filter_map(|rule| rule["rule"].as_str()).any(|rule| rule.contains(&field))
        })
        .collect();
    // A cancel has a rule of its own.
    assert_eq!(free, ["resolution"]);
}

#[test]
fn the_run_of_a_report_is_immutable() {
    let old = job();
    for (field, value) in [
        ("actionClass", json!("ReadOnly")),
        ("maxAttempts", json!(4)),
        ("startTimeoutSeconds", json!(61)),
        ("timeoutSeconds", json!(601)),
        ("parameters", json!({"mode": "short"})),
        ("simulated", json!({"durationSeconds": 4})),
    ] {
        let new = with(&old, &format!("/spec/run/{field}"), value);
        refused(JOB, &new, Some(&old), &[REPORT_RUN_MESSAGE]);
    }
    let without = with(&old, "/spec/run", Value::Null);
    refused(JOB, &without, Some(&old), &[REPORT_RUN_MESSAGE]);
    refused(JOB, &old, Some(&without), &[REPORT_RUN_MESSAGE]);
    let job_run = with(&old, "/spec/run", json!({"job": {"template": {"spec": {}}}}));
    refused(JOB, &job_run, Some(&old), &[REPORT_RUN_MESSAGE]);
    let none = with(&old, "/spec/run", json!({}));
    assert!(refusals(JOB, &none, None).contains(&ONE_PROVIDER_MESSAGE.to_owned()));
}

#[test]
fn a_cancel_is_for_good_and_a_resolution_may_change() {
    let old = job();
    let cancelled = with(&old, "/spec/cancel", true.into());
    accepted(JOB, &cancelled, Some(&old));
    refused(JOB, &old, Some(&cancelled), &[REPORT_CANCEL_MESSAGE]);
    let taken_back = with(&old, "/spec/cancel", false.into());
    refused(JOB, &taken_back, Some(&cancelled), &[REPORT_CANCEL_MESSAGE]);
    let resolution = |attempt| {
        let value = json!({"attempt": attempt, "decision": "Retry", "reason": "seen in the log"});
        with(&old, "/spec/resolution", value)
    };
    accepted(JOB, &resolution(2), Some(&resolution(1)));
    accepted(JOB, &old, Some(&resolution(1)));
}

#[test]
fn the_hashed_identity_stays() {
    let old = job();
    refused(JOB, &with(&old, "/status/id", "abd".into()), Some(&old), &[ID_MESSAGE]);
    refused(JOB, &with(&old, "/status/id", Value::Null), Some(&old), &[ID_MESSAGE]);
}

#[test]
fn exactly_the_terminal_states_are_final() {
    let schema = schema(JOB);
    let states = schema["properties"]["status"]["properties"]["state"]["enum"].as_array().unwrap();
    assert_eq!(states.len(), ReportState::ALL.len());
    for state in states {
        let old = with(&job(), "/status/state", state.clone());
        let terminal = serde_json::from_value::<ReportState>(state.clone()).unwrap().is_terminal();
        for other in states.iter().filter(|other| *other != state) {
            let new = with(&old, "/status/state", other.clone());
            let expected: &[&str] = if terminal { &[REPORT_TERMINAL_MESSAGE] } else { &[] };
            refused(JOB, &new, Some(&old), expected);
        }
    }
}

#[test]
fn a_terminal_outcome_is_immutable_also_for_a_newer_term() {
    let mut old = job();
    old["status"]["state"] = "Succeeded".into();
    old["status"]["reason"] = "Completed".into();
    old["status"]["result"] = json!({"rows": 3});
    for (pointer, value) in [
        ("/status/state", Value::Null),
        ("/status/reason", json!("Other")),
        ("/status/reason", Value::Null),
        ("/status/result", json!({"rows": 4})),
        ("/status/result", Value::Null),
        ("/status/artifact", artifact()),
    ] {
        let mut new = with(&old, pointer, value);
        refused(JOB, &new, Some(&old), &[REPORT_TERMINAL_MESSAGE]);
        new["status"]["fence"] = json!({"epoch": 101, "nonce": "b"});
        refused(JOB, &new, Some(&old), &[REPORT_TERMINAL_MESSAGE]);
    }
    accepted(JOB, &with(&old, "/status/message", "a note".into()), Some(&old));
    accepted(JOB, &with(&old, "/spec/cancel", true.into()), Some(&old));
}

#[test]
fn an_accepted_artifact_stays_in_every_state() {
    let old = with(&job(), "/status/artifact", artifact());
    accepted(JOB, &old, Some(&job()));
    for (field, value) in [
        ("uri", json!("s3://reports/acme/other.pdf")),
        ("sha256", json!("0b".repeat(32))),
        ("sizeBytes", json!(10)),
        ("attempt", json!(2)),
        ("acceptedTime", json!("2026-11-29T02:00:01Z")),
    ] {
        let new = with(&old, &format!("/status/artifact/{field}"), value);
        refused(JOB, &new, Some(&old), &[ARTIFACT_MESSAGE]);
    }
    let without = with(&old, "/status/artifact", Value::Null);
    refused(JOB, &without, Some(&old), &[ARTIFACT_MESSAGE]);
    let ended = with(&old, "/status/state", "Succeeded".into());
    accepted(JOB, &ended, Some(&old));
}

#[test]
fn parameters_are_bounded_wherever_they_stand() {
    let long = json!({"k": "x".repeat(8192)});
    for (kind, object, pointer) in [
        (JOB, job(), "/spec/parameters"),
        (JOB, job(), "/spec/run/parameters"),
        (QUEUE, queue(1, 0), "/spec/runTemplate/parameters"),
        (SCHEDULE, schedule(), "/spec/jobTemplate/spec/parameters"),
        (SCHEDULE, schedule(), "/spec/jobTemplate/spec/run/parameters"),
    ] {
        let object = with(&object, pointer, long.clone());
        refused(kind, &object, None, &[PARAMETERS_MESSAGE]);
    }
}

#[test]
fn the_timing_of_a_report_schedule_has_the_rules_of_maintenance() {
    let zone = with(&schedule(), "/spec/schedule", "TZ=UTC 0 * * * *".into());
    refused(SCHEDULE, &zone, None, &[NO_ZONE_MESSAGE]);
    let anchor = with(&schedule(), "/spec/anchor", "2026-02-30T00:00:00Z".into());
    refused(SCHEDULE, &anchor, None, &[INSTANT_MESSAGE]);
}
