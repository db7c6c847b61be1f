//! Every rule, with inputs it must accept and inputs it must refuse.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use kube::core::cel::{CompiledSchema, compile_schema, validate_compiled};
use serde_json::{Value, json};

use super::{
    super::{
        FENCE_MESSAGE, NAME_RULE_MESSAGE, OccurrenceState,
        rules::{
            CANCEL_MESSAGE, ID_MESSAGE, IDENTITY_MESSAGE, INSTANT_MESSAGE, NO_ZONE_MESSAGE,
            ONE_PROVIDER_MESSAGE, PARAMETERS_MESSAGE, RUN_MESSAGE, SCHEDULE_NAME_MESSAGE,
            TERMINAL_MESSAGE, TRACE_FINAL_MESSAGE, TRACE_NAME_MESSAGE, TRACE_SPEC_MESSAGE,
            TRACE_TERM_MESSAGE,
        },
    },
    schema,
};

const SCHEDULE: &str = "MaintenanceSchedule";
const OCCURRENCE: &str = "MaintenanceOccurrence";
const TRACE: &str = "RecoveryTrace";

thread_local! {
    // Compiled once for each test: each runs in its own thread, and compiling takes long.
    static COMPILED: RefCell<BTreeMap<String, Rc<CompiledSchema>>> = RefCell::default();
}

fn compiled(kind: &str) -> Rc<CompiledSchema> {
    let known = COMPILED.with_borrow(|all| all.get(kind).cloned());
    known.unwrap_or_else(|| {
        let new = Rc::new(compile_schema(&schema(kind)));
        COMPILED.with_borrow_mut(|all| all.insert(kind.to_owned(), Rc::clone(&new)));
        new
    })
}

/// Messages of the rules that refuse `new` (in place of `old`).
pub(super) fn refusals(kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    match validate_compiled(&compiled(kind), new, old) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_vec().into_iter().map(|error| error.message).collect(),
    }
}

#[track_caller]
pub(super) fn accepted(kind: &str, new: &Value, old: Option<&Value>) {
    assert_eq!(refusals(kind, new, old), [""; 0], "{new}");
}

#[track_caller]
pub(super) fn refused(kind: &str, new: &Value, old: Option<&Value>, messages: &[&str]) {
    assert_eq!(refusals(kind, new, old), messages, "{new}");
}

/// `base` with the value at a JSON pointer replaced, added, or (for null) removed.
pub(super) fn with(base: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = base.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let map = changed.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        assert!(map.remove(key).is_some(), "{pointer} was not there");
    } else {
        map.insert(key.to_owned(), value);
    }
    changed
}

fn schedule() -> Value {
    json!({
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 2 * * *", "run": {"simulated": {}}},
        "status": {"fence": {"epoch": 100, "nonce": "a"}},
    })
}

fn occurrence() -> Value {
    json!({
        "metadata": {"name": "nightly-202611290200"},
        "spec": {
            "scheduleName": "nightly",
            "intendedTime": "2026-11-29T02:00:00Z",
            "scheduleUID": "uid-1",
            "run": {
                "actionClass": "Fenced",
                "maxAttempts": 2,
                "startTimeoutSeconds": 60,
                "timeoutSeconds": 600,
                "parameters": {"mode": "plan"},
                "simulated": {"durationSeconds": 3, "result": {"rows": 3}},
            },
        },
        "status": {"id": "abc", "state": "Running", "fence": {"epoch": 100, "nonce": "a"}},
    })
}

#[test]
fn a_good_object_is_accepted_also_as_an_update_of_itself() {
    for (kind, object) in [(SCHEDULE, schedule()), (OCCURRENCE, occurrence()), (TRACE, completed())]
    {
        accepted(kind, &object, None);
        accepted(kind, &object, Some(&object));
    }
}

#[test]
fn a_schedule_name_has_at_most_forty_characters() {
    let named = |length| with(&schedule(), "/metadata/name", "s".repeat(length).into());
    accepted(SCHEDULE, &named(crate::identity::MAX_SCHEDULE_NAME), None);
    refused(
        SCHEDULE,
        &named(crate::identity::MAX_SCHEDULE_NAME + 1),
        None,
        &[SCHEDULE_NAME_MESSAGE],
    );
}

#[test]
fn the_zone_is_not_part_of_the_expression() {
    for expression in ["TZ=UTC 0 2 * * *", "CRON_TZ=Europe/Berlin 0 2 * * *"] {
        let object = with(&schedule(), "/spec/schedule", expression.into());
        refused(SCHEDULE, &object, None, &[NO_ZONE_MESSAGE]);
    }
}

#[test]
fn a_moment_must_exist() {
    for moment in ["2026-01-01T00:00:00Z", "2028-02-29T23:59:00Z", "0001-01-01T00:00:00Z"] {
        accepted(SCHEDULE, &with(&schedule(), "/spec/anchor", moment.into()), None);
    }
    for moment in [
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "0000-01-01T00:00:00Z",
        "tomorrow",
    ] {
        let object = with(&schedule(), "/spec/anchor", moment.into());
        refused(SCHEDULE, &object, None, &[INSTANT_MESSAGE]);
    }
    let mut month_13 = with(&occurrence(), "/spec/intendedTime", "2026-13-29T02:00:00Z".into());
    month_13["metadata"]["name"] = "nightly-202613290200".into();
    refused(OCCURRENCE, &month_13, None, &[INSTANT_MESSAGE]);
}

#[test]
fn a_run_has_exactly_one_provider() {
    let providers = [
        ("job", json!({"template": {"spec": {}}})),
        ("http", json!({"url": "https://runner.example"})),
        ("simulated", json!({})),
    ];
    for chosen in 0..8_u32 {
        let run: Value = providers
            .iter()
            .enumerate()
            .filter(|(bit, _)| chosen & (1 << bit) != 0)
            .map(|(_, (name, value))| ((*name).to_owned(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let object = with(&schedule(), "/spec/run", run);
        if chosen.is_power_of_two() {
            accepted(SCHEDULE, &object, None);
        } else {
            refused(SCHEDULE, &object, None, &[ONE_PROVIDER_MESSAGE]);
        }
    }
}

#[test]
fn parameters_are_bounded_in_bytes() {
    let with_value =
        |value: String| with(&schedule(), "/spec/run/parameters", json!({"k": value, "other": ""}));
    let room = super::super::MAX_PARAMETERS_BYTES - "kother".len();
    accepted(SCHEDULE, &with_value("x".repeat(room)), None);
    refused(SCHEDULE, &with_value("x".repeat(room + 1)), None, &[PARAMETERS_MESSAGE]);
    refused(SCHEDULE, &with_value("ä".repeat(room / 2 + 1)), None, &[PARAMETERS_MESSAGE]);
}

#[test]
fn the_name_of_an_occurrence_is_its_identity() {
    for name in [
        "nightly-202611290201",
        "nightly-20261129020",
        "nightly-2026112902000",
        "weekly-202611290200",
        "nightly202611290200",
        "nightly",
    ] {
        let object = with(&occurrence(), "/metadata/name", name.into());
        refused(OCCURRENCE, &object, None, &[NAME_RULE_MESSAGE]);
    }
    let dashed = with(&occurrence(), "/spec/scheduleName", "a-b.c".into());
    accepted(OCCURRENCE, &with(&dashed, "/metadata/name", "a-b.c-202611290200".into()), None);
}

#[test]
fn a_malformed_time_fails_rules_but_not_their_evaluation() {
    let object = with(&occurrence(), "/spec/intendedTime", "x".into());
    let mut messages = refusals(OCCURRENCE, &object, None);
    messages.sort();
    assert_eq!(messages, [NAME_RULE_MESSAGE, INSTANT_MESSAGE]);
}

#[test]
fn the_identity_is_immutable() {
    let old = occurrence();
    for uid in [json!("uid-2"), Value::Null] {
        let object = with(&old, "/spec/scheduleUID", uid);
        refused(OCCURRENCE, &object, Some(&old), &[IDENTITY_MESSAGE]);
    }
    let hand_made = with(&old, "/spec/scheduleUID", Value::Null);
    refused(OCCURRENCE, &old, Some(&hand_made), &[IDENTITY_MESSAGE]);
    let other_time = with(&old, "/spec/intendedTime", "2026-11-29T02:01:00Z".into());
    refused(OCCURRENCE, &other_time, Some(&old), &[NAME_RULE_MESSAGE, IDENTITY_MESSAGE]);
    let other_schedule = with(&old, "/spec/scheduleName", "weekly".into());
    refused(OCCURRENCE, &other_schedule, Some(&old), &[NAME_RULE_MESSAGE, IDENTITY_MESSAGE]);
    assert!(IDENTITY_MESSAGE.contains("immutable") && RUN_MESSAGE.contains("immutable"));
}

#[test]
fn the_run_of_an_occurrence_is_immutable() {
    let old = occurrence();
    for (field, value) in [
        ("actionClass", json!("ReadOnly")),
        ("maxAttempts", json!(3)),
        ("startTimeoutSeconds", json!(61)),
        ("timeoutSeconds", json!(601)),
        ("parameters", json!({"mode": "delete"})),
        ("parameters", json!({"mode": "plan", "more": ""})),
        ("simulated", json!({"durationSeconds": 3, "result": {"rows": 4}})),
    ] {
        let pointer = format!("/spec/run/{field}");
        refused(OCCURRENCE, &with(&old, &pointer, value), Some(&old), &[RUN_MESSAGE]);
    }
    for field in
        ["actionClass", "maxAttempts", "startTimeoutSeconds", "timeoutSeconds", "parameters"]
    {
        let without = with(&old, &format!("/spec/run/{field}"), Value::Null);
        refused(OCCURRENCE, &without, Some(&old), &[RUN_MESSAGE]);
        refused(OCCURRENCE, &old, Some(&without), &[RUN_MESSAGE]);
    }
    let without_run = with(&old, "/spec/run", Value::Null);
    refused(OCCURRENCE, &without_run, Some(&old), &[RUN_MESSAGE]);
    refused(OCCURRENCE, &old, Some(&without_run), &[RUN_MESSAGE]);
    accepted(OCCURRENCE, &without_run, Some(&without_run));
}

#[test]
fn the_provider_of_an_occurrence_is_immutable() {
    let run = |provider: Value| with(&occurrence(), "/spec/run", provider);
    let job = run(json!({"job": {"template": {"spec": {}}}}));
    let http = run(json!({"http": {"url": "https://a.example"}}));
    let elsewhere = run(json!({"http": {"url": "https://b.example"}}));
    accepted(OCCURRENCE, &job, Some(&job));
    accepted(OCCURRENCE, &http, Some(&http));
    refused(OCCURRENCE, &elsewhere, Some(&http), &[RUN_MESSAGE]);
    refused(OCCURRENCE, &http, Some(&job), &[RUN_MESSAGE]);
    refused(OCCURRENCE, &job, Some(&http), &[RUN_MESSAGE]);
    refused(OCCURRENCE, &job, Some(&occurrence()), &[RUN_MESSAGE]);
}

#[test]
fn a_cancel_is_for_good_and_a_resolution_may_change() {
    let old = occurrence();
    let cancelled = with(&old, "/spec/cancel", true.into());
    accepted(OCCURRENCE, &cancelled, Some(&old));
    accepted(OCCURRENCE, &cancelled, Some(&cancelled));
    accepted(OCCURRENCE, &with(&old, "/spec/cancel", false.into()), Some(&old));
    refused(OCCURRENCE, &old, Some(&cancelled), &[CANCEL_MESSAGE]);
    let taken_back = with(&old, "/spec/cancel", false.into());
    refused(OCCURRENCE, &taken_back, Some(&cancelled), &[CANCEL_MESSAGE]);
    let resolution = |attempt| {
        let value = json!({"attempt": attempt, "decision": "Retry", "reason": "seen in the log"});
        with(&old, "/spec/resolution", value)
    };
    accepted(OCCURRENCE, &resolution(1), Some(&old));
    accepted(OCCURRENCE, &resolution(2), Some(&resolution(1)));
    accepted(OCCURRENCE, &old, Some(&resolution(1)));
}

#[test]
fn the_fence_never_goes_back() {
    for (kind, old) in [(SCHEDULE, schedule()), (OCCURRENCE, occurrence())] {
        let fence = |epoch: i64, nonce: &str| {
            with(&old, "/status/fence", json!({"epoch": epoch, "nonce": nonce}))
        };
        accepted(kind, &fence(100, "a"), Some(&old));
        accepted(kind, &fence(101, "b"), Some(&old));
        accepted(kind, &fence(101, "a"), Some(&old));
        refused(kind, &fence(99, "a"), Some(&old), &[FENCE_MESSAGE]);
        refused(kind, &fence(100, "b"), Some(&old), &[FENCE_MESSAGE]);
        let unfenced = with(&old, "/status/fence", Value::Null);
        refused(kind, &unfenced, Some(&old), &[FENCE_MESSAGE]);
        accepted(kind, &old, Some(&unfenced));
        accepted(kind, &unfenced, Some(&unfenced));
        let new = with(&old, "/status", Value::Null);
        accepted(kind, &old, Some(&new));
        assert!(refusals(kind, &new, Some(&old)).contains(&FENCE_MESSAGE.to_owned()));
    }
}

#[test]
fn the_hashed_identity_stays() {
    let old = occurrence();
    let without = with(&old, "/status/id", Value::Null);
    refused(OCCURRENCE, &with(&old, "/status/id", "abd".into()), Some(&old), &[ID_MESSAGE]);
    refused(OCCURRENCE, &without, Some(&old), &[ID_MESSAGE]);
    accepted(OCCURRENCE, &old, Some(&without));
}

#[test]
fn exactly_the_terminal_states_are_final() {
    let schema = schema(OCCURRENCE);
    let states = schema["properties"]["status"]["properties"]["state"]["enum"].as_array().unwrap();
    assert_eq!(states.len(), 10);
    for state in states {
        let old = with(&occurrence(), "/status/state", state.clone());
        let terminal =
            serde_json::from_value::<OccurrenceState>(state.clone()).unwrap().is_terminal();
        for other in states.iter().filter(|other| *other != state) {
            let new = with(&old, "/status/state", other.clone());
            let expected: &[&str] = if terminal { &[TERMINAL_MESSAGE] } else { &[] };
            refused(OCCURRENCE, &new, Some(&old), expected);
        }
    }
}

#[test]
fn a_terminal_outcome_is_immutable_also_for_a_newer_term() {
    let mut old = occurrence();
    old["status"]["state"] = "Succeeded".into();
    old["status"]["reason"] = "Complete".into();
    old["status"]["result"] = json!({"rows": 3, "table": "t"});
    for (pointer, value) in [
        ("/status/state", Value::Null),
        ("/status/reason", json!("Other")),
        ("/status/reason", Value::Null),
        ("/status/result", json!({"rows": 4, "table": "t"})),
        ("/status/result", json!({"rows": 3})),
        ("/status/result", json!({"rows": 3, "title": "t"})),
        ("/status/result", Value::Null),
    ] {
        let mut new = with(&old, pointer, value);
        refused(OCCURRENCE, &new, Some(&old), &[TERMINAL_MESSAGE]);
        new["status"]["fence"] = json!({"epoch": 200, "nonce": "z"});
        refused(OCCURRENCE, &new, Some(&old), &[TERMINAL_MESSAGE]);
    }
    let mut later = with(&old, "/status/message", "a note".into());
    later["status"]["attempts"] = json!([{"number": 1, "runKey": "k", "epoch": 100}]);
    accepted(OCCURRENCE, &later, Some(&old));
    let unexplained = with(&old, "/status/result", Value::Null);
    refused(OCCURRENCE, &old, Some(&unexplained), &[TERMINAL_MESSAGE]);
}

fn trace() -> Value {
    json!({
        "metadata": {"name": "punctual-100"},
        "spec": {
            "leaseName": "punctual", "epoch": 100, "holder": "r1/a", "formerHolder": "r0/b",
            "gained": "Expired",
        },
        "status": {"fence": {"epoch": 100, "nonce": "a"}},
    })
}

fn completed() -> Value {
    let mut trace = trace();
    let status = trace["status"].as_object_mut().unwrap();
    status.insert("completionTime".into(), "2026-11-29T02:00:00Z".into());
    status.insert("reconciled".into(), 1.into());
    trace
}

#[test]
fn the_name_of_a_trace_is_its_lease_and_epoch() {
    accepted(TRACE, &trace(), None);
    for name in [
        "punctual-101",
        "punctual-0100",
        "punctual",
        "punctual-",
        "punctual-x-100",
        "punctual--100",
        "other-100",
        "punctual-100x",
    ] {
        let object = with(&trace(), "/metadata/name", name.into());
        refused(TRACE, &object, None, &[TRACE_NAME_MESSAGE]);
    }
}

#[test]
fn what_a_trace_is_about_is_immutable() {
    for (pointer, value) in [
        ("/spec/holder", json!("r2/c")),
        ("/spec/formerHolder", json!("r2/c")),
        ("/spec/formerHolder", Value::Null),
        ("/spec/gained", json!("First")),
    ] {
        let new = with(&trace(), pointer, value);
        refused(TRACE, &new, Some(&trace()), &[TRACE_SPEC_MESSAGE]);
    }
}

#[test]
fn only_its_own_term_writes_into_a_trace() {
    for epoch in [99, 101] {
        let other = with(&trace(), "/status/fence", json!({"epoch": epoch, "nonce": "z"}));
        let mut unwritten = trace();
        unwritten.as_object_mut().unwrap().remove("status");
        refused(TRACE, &other, Some(&unwritten), &[TRACE_TERM_MESSAGE]);
    }
    let nonce = with(&trace(), "/status/fence/nonce", "b".into());
    refused(TRACE, &nonce, Some(&trace()), &[FENCE_MESSAGE]);
}

#[test]
fn a_completed_trace_is_final() {
    accepted(TRACE, &completed(), Some(&trace()));
    accepted(TRACE, &completed(), Some(&completed()));
    for (pointer, value) in [
        ("/status/reconciled", json!(0)),
        ("/status/reconciled", Value::Null),
        ("/status/uncertain", json!(1)),
        ("/status/completionTime", json!("2026-11-29T02:00:01Z")),
        ("/status/completionTime", Value::Null),
    ] {
        let new = with(&completed(), pointer, value);
        refused(TRACE, &new, Some(&completed()), &[TRACE_FINAL_MESSAGE]);
    }
    let labelled = with(&completed(), "/metadata/labels", json!({"kept": "for-the-review"}));
    accepted(TRACE, &labelled, Some(&completed()));
}
