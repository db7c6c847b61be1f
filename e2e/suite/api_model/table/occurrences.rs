//! Occurrences and traces: rules, outcomes; and how objects of both kinds go.

use serde_json::{Value, json};

use super::{
    Compare, OCCURRENCES, SCHEDULES, Step, TRACES, at_version, delete, get, patch, post, put, with,
};

pub(super) fn steps() -> Vec<Step> {
    [occurrences(), outcomes(), deletion(), traces()].concat()
}

const NAME: &str = "nightly-202611290200";

fn occurrence() -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
        "metadata": {"name": NAME, "namespace": "{ns}", "labels": {"punctual.dev/schedule": "nightly"}},
        "spec": {
            "scheduleName": "nightly", "intendedTime": "2026-11-29T02:00:00Z", "scheduleUID": "u-1",
            "run": {"actionClass": "Fenced", "maxAttempts": 2, "job": {"template": {"spec": {"any": 1}}}},
        },
    })
}

/// The occurrence at its version, sealed by a term.
fn sealed_occurrence(epoch: i64) -> Value {
    let status = json!({
        "fence": {"epoch": epoch, "nonce": "n"}, "state": "Running", "id": "abc",
    });
    with(&occurrence(), [("/metadata", at_version(NAME)), ("/status", status)])
}

fn occurrences() -> Vec<Step> {
    let make =
        |what, changes: [(&str, Value); 1]| post(what, OCCURRENCES, with(&occurrence(), changes));
    let edit = |what, body: Value| patch(what, OCCURRENCES, NAME, body);
    vec![
        make("a name that is no identity", [("/metadata/name", "nightly".into())]),
        make("an instant that is not", [("/spec/intendedTime", "2026-11-31T02:00:00Z".into())]),
        make("an instant without its form", [("/spec/intendedTime", "2026-11-29 02:00".into())]),
        make("an occurrence without a schedule", [("/spec/scheduleName", Value::Null)]),
        make("a dry run of a wrong name", [("/metadata/name", "punctual-fence-check".into())])
            .dry(),
        post("create an occurrence", OCCURRENCES, occurrence()),
        post(
            "create another one",
            OCCURRENCES,
            with(
                &occurrence(),
                [
                    ("/metadata/name", "weekly-202611290300".into()),
                    ("/spec/scheduleName", "weekly".into()),
                    ("/spec/intendedTime", "2026-11-29T03:00:00Z".into()),
                    ("/metadata/labels", json!({"punctual.dev/schedule": "weekly", "more": "z"})),
                ],
            ),
        ),
        edit("another schedule's uid", json!({"spec": {"scheduleUID": "u-2"}})),
        edit("the schedule's uid vanishes", json!({"spec": {"scheduleUID": null}})),
        edit("another instant", json!({"spec": {"intendedTime": "2026-11-29T02:01:00Z"}})),
        edit("another run", json!({"spec": {"run": {"maxAttempts": 3}}})),
        edit("the run vanishes", json!({"spec": {"run": null}})),
        edit(
            "another template",
            json!({"spec": {"run": {"job": {"template": {"spec": {"any": 2}}}}}}),
        ),
        edit("cancel", json!({"spec": {"cancel": true}})),
        edit("take the cancel back", json!({"spec": {"cancel": false}})),
        edit("let the cancel vanish", json!({"spec": {"cancel": null}})),
        edit(
            "a resolution",
            json!({"spec": {"resolution": {"attempt": 1, "decision": "Retry", "reason": "seen"}}}),
        ),
        edit("a resolution without its fields", json!({"spec": {"resolution": {"reason": null}}})),
    ]
}

fn outcomes() -> Vec<Step> {
    let path = "nightly-202611290200/status";
    let state = |what, body: Value| patch(what, OCCURRENCES, path, json!({"status": body}));
    let fence = json!({"epoch": 5, "nonce": "a"});
    vec![
        state("seal it", json!({"fence": fence, "state": "Running", "id": "abc"})),
        state("another id", json!({"id": "abd"})),
        state("the id vanishes", json!({"id": null})),
        state("an attempt without its fields", json!({"attempts": [{"number": 1}]})),
        get("read an occurrence", OCCURRENCES, NAME),
        put("seal it in a newer term", OCCURRENCES, path, sealed_occurrence(6)),
        put("dry run of an older term", OCCURRENCES, path, sealed_occurrence(5)).dry(),
        put("dry run of a newer term", OCCURRENCES, path, sealed_occurrence(7)).dry(),
        state(
            "an outcome",
            json!({"state": "Succeeded", "reason": "Complete", "result": {"rows": 3, "table": "t"}}),
        ),
        state("another outcome", json!({"state": "Failed"})),
        state("another reason", json!({"reason": "Other"})),
        state("another result", json!({"result": {"rows": 4}})),
        state("the result vanishes", json!({"result": null})),
        state("a note after the end", json!({"message": "all is well"})),
        state(
            "another outcome in a newer term",
            json!({"state": "Failed", "fence": {"epoch": 8, "nonce": "b"}}),
        ),
        state("an unknown state", json!({"state": "Odd"})),
    ]
}

fn deletion() -> Vec<Step> {
    let conditions = |uid: &str, version: &str| json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    vec![
        delete("delete what holds on", SCHEDULES, "a", conditions("{uid}", "{rv}")),
        delete("delete it again", SCHEDULES, "a", Value::Null),
        patch(
            "hold on to what is to go",
            SCHEDULES,
            "a",
            json!({"metadata": {"finalizers": ["x.dev/y", "x.dev/z"]}}),
        ),
        patch("change what is to go", SCHEDULES, "a", json!({"metadata": {"labels": {"b": "c"}}})),
        patch("let go", SCHEDULES, "a", json!({"metadata": {"finalizers": null}})),
        delete("delete what is gone", SCHEDULES, "a", Value::Null),
        delete("delete another object", OCCURRENCES, NAME, conditions("other", "{rv}")),
        delete("delete another version", OCCURRENCES, NAME, conditions("{uid}", "{old-rv}")),
        delete("dry run of a deletion", OCCURRENCES, NAME, Value::Null).dry(),
        delete(
            "dry run of a deletion by its options",
            OCCURRENCES,
            NAME,
            json!({"dryRun": ["All"]}),
        ),
        delete(
            "delete in no known way",
            OCCURRENCES,
            NAME,
            json!({"propagationPolicy": "Sideways"}),
        )
        .compare(Compare::NotTheMessage),
        delete(
            "delete after its dependents",
            OCCURRENCES,
            NAME,
            json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "{uid}"}}),
        ),
        patch(
            "the dependents are gone",
            OCCURRENCES,
            NAME,
            json!({"metadata": {"finalizers": null}}),
        ),
        post("create it again", OCCURRENCES, occurrence()),
        delete("delete at once", OCCURRENCES, NAME, json!({"propagationPolicy": "Background"})),
        post("create it a third time", OCCURRENCES, occurrence()),
        delete(
            "a dry run that its options overrule",
            OCCURRENCES,
            NAME,
            conditions("{uid}", "{rv}"),
        )
        .dry(),
        post("create it a third time", OCCURRENCES, occurrence()),
        delete(
            "a dry run that its options overrule",
            OCCURRENCES,
            NAME,
            conditions("{uid}", "{rv}"),
        )
        .dry(),
    ]
}

fn traces() -> Vec<Step> {
    let trace = json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "RecoveryTrace",
        "metadata": {"name": "punctual-100", "namespace": "{ns}"},
        "spec": {"leaseName": "punctual", "epoch": 100, "holder": "r0/x", "gained": "First"},
    });
    let name = |name: &str| with(&trace, [("/metadata/name", name.into())]);
    let state = |what, status: Value| {
        let body = with(&trace, [("/status", status), ("/metadata", at_version("punctual-100"))]);
        put(what, TRACES, "punctual-100/status", body)
    };
    let fence = |epoch: i64| json!({"epoch": epoch, "nonce": "a"});
    let done = json!({"fence": fence(100), "completionTime": "2026-11-29T02:00:00Z", "resumed": 1});
    let later = with(&done, [("/resumed", json!(2))]);
    vec![
        post("a trace of another term", TRACES, name("punctual-101")),
        post("a trace of no term", TRACES, name("punctual-0100")),
        post("a trace of another Lease", TRACES, name("other-100")),
        post("create a trace", TRACES, trace.clone()),
        post("create the trace twice", TRACES, trace.clone()),
        get("read a trace", TRACES, "punctual-100"),
        patch(
            "a trace of another holder",
            TRACES,
            "punctual-100",
            json!({"spec": {"holder": "r1/y"}}),
        ),
        patch(
            "a trace of a former holder",
            TRACES,
            "punctual-100",
            json!({"spec": {"formerHolder": "r1/y"}}),
        ),
        state("a fence of another term", json!({"fence": fence(101)})),
        state("seal a trace", json!({"fence": fence(100)})),
        state("dry run of an older term", json!({"fence": fence(99)})).dry(),
        state("complete a trace", done.clone()),
        state("complete it again", done),
        state("complete it otherwise", later),
        get("list traces", TRACES, ""),
        get("list traces of a label", TRACES, "").query("labelSelector=a"),
        delete(
            "delete a trace",
            TRACES,
            "punctual-100",
            json!({
                "propagationPolicy": "Background",
                "preconditions": {"uid": "{uid}", "resourceVersion": "{rv}"},
            }),
        ),
    ]
}
