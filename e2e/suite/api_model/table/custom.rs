//! Schedules: schema, status, fence.

use serde_json::{Value, json};

use super::{Compare, JSON, SCHEDULES, Step, at_version, get, patch, post, put, with};

pub(super) fn steps() -> Vec<Step> {
    [creation(), refused_fields(), replacing(), fence(), patching()].concat()
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
