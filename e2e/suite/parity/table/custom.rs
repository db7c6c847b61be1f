//! Schedules and occurrences: schema, rules, status, fence.

use serde_json::{Value, json};

use super::{
    Compare, JSON, OCCURRENCES, SCHEDULES, Step, TRACES, at_version, delete, get, patch, post, put,
    with,
};

pub(super) fn steps() -> Vec<Step> {
    [
        creation(),
        refused_fields(),
        replacing(),
        fence(),
        patching(),
        occurrences(),
        deletion(),
        traces(),
    ]
    .concat()
}

fn schedule() -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
        "metadata": {"name": "a", "namespace": "{ns}", "labels": {"app": "x"}},
        "spec": {"schedule": "0 2 * * *", "run": {"simulated": {}}},
    })
}

fn named(name: &str) -> Value {
    with(&schedule(), [("/metadata/name", name.into())])
}

/// Schedule `a` as it is, at its version, with changes.
fn current<const N: usize>(changes: [(&str, Value); N]) -> Value {
    let base = with(
        &schedule(),
        [("/metadata/uid", "{uid}".into()), ("/metadata/resourceVersion", "{rv}".into())],
    );
    with(&base, changes)
}

fn creation() -> Vec<Step> {
    let full = with(
        &schedule(),
        [
            ("/status", json!({"state": "Active"})),
            ("/spec/unknown", json!({"a": 1})),
            ("/spec/suspendReason", json!("because")),
            ("/spec/missedRuns", json!({"policy": "All", "other": 1})),
        ],
    );
    let mut nulls = with(&named("nulls"), [("/spec/retention", json!({"successful": null}))]);
    nulls["spec"]["timeZone"] = Value::Null;
    nulls["spec"]["suspendReason"] = Value::Null;
    let elsewhere = with(&schedule(), [("/metadata/namespace", "default".into())]);
    let nameless = with(&schedule(), [("/metadata/name", Value::Null)]);
    let mut kindless = named("kindless");
    kindless.as_object_mut().expect("the literal is an object").remove("kind");
    vec![
        post("create", SCHEDULES, full),
        post("create what exists", SCHEDULES, schedule()),
        post("create with nulls", SCHEDULES, nulls),
        post(
            "create in no namespace",
            &SCHEDULES.replace("{ns}", "nowhere"),
            with(&named("b"), [("/metadata/namespace", "nowhere".into())]),
        ),
        post("create for another namespace", SCHEDULES, elsewhere),
        post("create without a name", SCHEDULES, nameless),
        post("create with a bad name", SCHEDULES, named("A_b")),
        post("create with a long name", SCHEDULES, named(&"s".repeat(41))),
        post("create without a kind", SCHEDULES, kindless).compare(Compare::NotTheMessage),
        post("create another kind", SCHEDULES, with(&named("b"), [("/kind", "Job".into())]))
            .compare(Compare::NotTheMessage),
        post("create from a list", SCHEDULES, json!([1])).compare(Compare::NotTheMessage),
        post("create from a torn text", SCHEDULES, "{\"a".into()).compare(Compare::NotTheMessage),
        post("create from another type", SCHEDULES, named("b"))
            .content_type("text/plain")
            .compare(Compare::NotTheMessage),
        post(
            "create a version",
            SCHEDULES,
            with(&named("b"), [("/metadata/resourceVersion", "5".into())]),
        ),
        post(
            "create with a uid",
            SCHEDULES,
            with(&named("with-uid"), [("/metadata/uid", "u".into())]),
        ),
        post("dry run of a creation", SCHEDULES, named("dry")).dry(),
        post("dry run of what exists", SCHEDULES, schedule()).dry(),
        post(
            "dry run of a refused creation",
            SCHEDULES,
            with(&named("dry"), [("/spec/schedule", "TZ=UTC 0 2 * * *".into())]),
        )
        .dry(),
        post("dry run of some kind", SCHEDULES, named("dry")).query("dryRun=Some"),
    ]
}

fn refused_fields() -> Vec<Step> {
    let refuse = |what, changes: &[(&str, Value)]| {
        let mut object = named("refused");
        for (path, value) in changes {
            object = with(&object, [(*path, value.clone())]);
        }
        post(what, SCHEDULES, object)
    };
    let abandoned = |uid: String| json!({"uid": uid, "reason": "gone"});
    let many: Value = (0..33).map(|index| abandoned(format!("u-{index}"))).collect();
    let twice = json!([abandoned("u".into()), abandoned("u".into())]);
    let parameters: serde_json::Map<String, Value> =
        (0..65).map(|index| (format!("k{index}"), json!("v"))).collect();
    let large = json!({"simulated": {}, "parameters": {"k": "x".repeat(8192)}});
    vec![
        refuse("without a run", &[("/spec/run", Value::Null)]),
        refuse("without a spec", &[("/spec", Value::Null)]),
        refuse("a number for a text", &[("/spec/schedule", json!(5))]),
        refuse("a text for a truth", &[("/spec/suspend", json!("yes"))]),
        refuse("a text for an object", &[("/spec/run", json!("x"))]),
        refuse("an object for a list", &[("/spec/abandon", json!({}))]),
        refuse("an unknown word", &[("/spec/concurrencyPolicy", json!("Some"))]),
        refuse("too little", &[("/spec/missedRuns", json!({"limit": 0}))]),
        refuse("too much", &[("/spec/missedRuns", json!({"limit": 101}))]),
        refuse("a fraction", &[("/spec/missedRuns", json!({"limit": 1.5}))]),
        refuse("another form", &[("/spec/anchor", json!("tomorrow"))]),
        refuse("a month that is not", &[("/spec/anchor", json!("2026-13-01T00:00:00Z"))]),
        refuse("no moment", &[("/spec/suspendUntilTime", json!("soon"))]),
        refuse("too short", &[("/spec/timeZone", json!(""))]),
        refuse("too long", &[("/spec/suspendReason", json!("x".repeat(257)))]),
        refuse("too many", &[("/spec/abandon", many)]),
        refuse("twice the same key", &[("/spec/abandon", twice)]),
        refuse("an element without its field", &[("/spec/abandon", json!([{"uid": "u"}]))]),
        refuse(
            "too many properties",
            &[("/spec/run", json!({"simulated": {}, "parameters": parameters}))],
        ),
        refuse("parameters too large", &[("/spec/run", large)]),
        refuse(
            "a value of a map",
            &[("/spec/run", json!({"simulated": {}, "parameters": {"k": 5}}))],
        ),
        refuse("a zone in the expression", &[("/spec/schedule", json!("TZ=UTC 0 2 * * *"))]),
        refuse(
            "two providers",
            &[("/spec/run", json!({"simulated": {}, "http": {"url": "http://x"}}))],
        ),
        refuse("no provider", &[("/spec/run", json!({}))]),
        refuse(
            "a truth as a result",
            &[("/spec/run", json!({"simulated": {"result": {"a": true}}}))],
        ),
        refuse(
            "several at once",
            &[("/spec/missedRuns", json!({"limit": 0})), ("/spec/schedule", json!("TZ=a"))],
        ),
        refuse(
            "a rule beside what stops rules",
            &[("/spec/timeZone", json!(5)), ("/spec/schedule", json!("TZ=a"))],
        ),
    ]
}

fn replacing() -> Vec<Step> {
    let suspended = [("/spec/suspend", json!(true))];
    vec![
        put("replace without a version", SCHEDULES, "a", with(&schedule(), suspended.clone())),
        put("replace", SCHEDULES, "a", current(suspended.clone())),
        put("replace by the same", SCHEDULES, "a", current(suspended.clone())),
        put(
            "replace an old version",
            SCHEDULES,
            "a",
            current([("/metadata/resourceVersion", "{old-rv}".into())]),
        ),
        put("replace another object", SCHEDULES, "a", current([("/metadata/uid", "other".into())])),
        put(
            "replace under another name",
            SCHEDULES,
            "a",
            current([("/metadata/name", "b".into())]),
        ),
        put(
            "replace for another namespace",
            SCHEDULES,
            "a",
            current([("/metadata/namespace", "default".into())]),
        ),
        put("replace what is not there", SCHEDULES, "missing", named("missing")),
        put(
            "replace what is not there with a version",
            SCHEDULES,
            "missing",
            with(&named("missing"), [("/metadata/resourceVersion", "5".into())]),
        ),
        put(
            "replace the status along the way",
            SCHEDULES,
            "a",
            current([("/status", json!({"state": "Active"})), ("/spec/suspend", json!(true))]),
        ),
        put(
            "replace the labels",
            SCHEDULES,
            "a",
            current([("/metadata/labels", json!({"app": "y"})), ("/spec/suspend", json!(true))]),
        ),
        put("replace by what is refused", SCHEDULES, "a", current([("/spec/run", json!({}))])),
        put("dry run of a replacement", SCHEDULES, "a", current([])).dry(),
        put("dry run of the same", SCHEDULES, "a", current(suspended)).dry(),
        put(
            "dry run of an old version",
            SCHEDULES,
            "a",
            current([("/metadata/resourceVersion", "{old-rv}".into())]),
        )
        .dry(),
    ]
}

/// The status of schedule `a` at its version.
fn status(status: &Value) -> Value {
    current([("/status", status.clone())])
}

fn sealed(epoch: i64, nonce: &str) -> Value {
    json!({"fence": {"epoch": epoch, "nonce": nonce}, "state": "Active"})
}

fn fence() -> Vec<Step> {
    let write = |what, body: Value| put(what, SCHEDULES, "a/status", body);
    let stale = with(&status(&sealed(12, "a")), [("/metadata/resourceVersion", "{old-rv}".into())]);
    let other = with(&status(&sealed(12, "a")), [("/metadata/uid", "other".into())]);
    let unversioned = with(&status(&sealed(12, "a")), [("/metadata/resourceVersion", Value::Null)]);
    let conditions =
        json!({"fence": {"epoch": 11, "nonce": "b"}, "conditions": [{"type": "Ready"}]});
    vec![
        write("seal", status(&sealed(10, "a"))),
        write("write the same status", status(&sealed(10, "a"))),
        write("a status at an old version", stale),
        write("a status of another object", other),
        write("a status without a version", unversioned),
        write("a lower epoch", status(&sealed(9, "a"))),
        write("another nonce", status(&sealed(10, "b"))),
        write("no fence", status(&json!({"state": "Active"}))),
        write("no status", current([])),
        write("dry run of a lower epoch", status(&sealed(9, "a"))).dry(),
        write("dry run of a higher epoch", status(&sealed(11, "b"))).dry(),
        write("a higher epoch", status(&sealed(11, "b"))),
        write(
            "a status with another spec",
            with(
                &status(&sealed(12, "c")),
                [("/spec/suspend", json!(false)), ("/metadata/labels", json!({"z": "z"}))],
            ),
        ),
        write("a status that is refused", status(&conditions)),
        write("a status of a wrong type", status(&json!("x")))
            .compare(Compare::NotTheMessage)
            .compare(Compare::NotTheMessage),
        write(
            "an unknown field of the status",
            status(&json!({"fence": {"epoch": 13, "nonce": "a"}, "other": 1})),
        ),
        put("the status of what is not there", SCHEDULES, "missing/status", named("missing")),
        get("read a schedule", SCHEDULES, "a"),
        get("read no schedule", SCHEDULES, "missing"),
        get("read the status", SCHEDULES, "a/status"),
        put(
            "the main way keeps the fence",
            SCHEDULES,
            "a",
            current([("/spec/suspend", json!(true))]),
        ),
    ]
}

fn patching() -> Vec<Step> {
    let this = |body: Value| {
        let mut body = body;
        body["metadata"] = at_version("a");
        body
    };
    let suspend = |value: bool| json!({"spec": {"suspend": value}});
    vec![
        patch("patch", SCHEDULES, "a", suspend(false)),
        patch("patch to the same", SCHEDULES, "a", suspend(false)),
        patch("patch at the version", SCHEDULES, "a", this(suspend(true))),
        patch(
            "patch at an old version",
            SCHEDULES,
            "a",
            json!({"metadata": {"resourceVersion": "{old-rv}"}, "spec": {"suspend": false}}),
        ),
        patch(
            "patch another object",
            SCHEDULES,
            "a",
            json!({"metadata": {"uid": "other"}, "spec": {"suspend": false}}),
        ),
        patch("patch the name", SCHEDULES, "a", json!({"metadata": {"name": "b"}}))
            .compare(Compare::NotTheMessage),
        patch("patch a default away", SCHEDULES, "a", json!({"spec": {"timeZone": null}})),
        patch("patch a field away", SCHEDULES, "a", json!({"spec": {"suspendReason": null}})),
        patch("patch what must stay", SCHEDULES, "a", json!({"spec": {"run": null}})),
        patch(
            "patch the status along the way",
            SCHEDULES,
            "a",
            json!({"status": {"state": "Invalid"}}),
        ),
        patch("patch the status", SCHEDULES, "a/status", json!({"status": {"state": "Invalid"}})),
        patch(
            "patch the spec by way of the status",
            SCHEDULES,
            "a/status",
            json!({"spec": {"suspend": false}}),
        ),
        patch(
            "patch the fence back",
            SCHEDULES,
            "a/status",
            json!({"status": {"fence": {"epoch": 1}}}),
        ),
        patch("patch what is not there", SCHEDULES, "missing", suspend(true)),
        patch("patch with a torn text", SCHEDULES, "a", "{\"a".into())
            .compare(Compare::NotTheMessage),
        patch("patch with a list", SCHEDULES, "a", json!([1])).compare(Compare::NotTheMessage),
        patch("patch in another form", SCHEDULES, "a", suspend(true))
            .content_type(JSON)
            .compare(Compare::NotTheMessage),
        patch("patch as the built-in kinds", SCHEDULES, "a", suspend(true))
            .content_type("application/strategic-merge-patch+json")
            .compare(Compare::NotTheMessage),
        patch("dry run of a patch", SCHEDULES, "a", suspend(false)).dry(),
        patch("a finalizer", SCHEDULES, "a", json!({"metadata": {"finalizers": ["x.dev/y"]}})),
    ]
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
    let state = |what, body: Value| {
        patch(what, OCCURRENCES, "nightly-202611290200/status", json!({"status": body}))
    };
    let fence = json!({"epoch": 5, "nonce": "a"});
    let status_path = "nightly-202611290200/status";
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
        state("seal it", json!({"fence": fence, "state": "Running", "id": "abc"})),
        state("another id", json!({"id": "abd"})),
        state("the id vanishes", json!({"id": null})),
        state("an attempt without its fields", json!({"attempts": [{"number": 1}]})),
        get("read an occurrence", OCCURRENCES, NAME),
        put("seal it in a newer term", OCCURRENCES, status_path, sealed_occurrence(6)),
        put("dry run of an older term", OCCURRENCES, status_path, sealed_occurrence(5)).dry(),
        put("dry run of a newer term", OCCURRENCES, status_path, sealed_occurrence(7)).dry(),
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
