//! Lists and watches.

use serde_json::{Value, json};

use super::{Compare, JOBS, LEASES, OCCURRENCES, PODS, SCHEDULES, Step, TRACES, get, patch, post};

pub(super) fn steps() -> Vec<Step> {
    [made(), lists(), watches(), pages()].concat()
}

fn made() -> Vec<Step> {
    let schedule = |what, name: &str, app: &str| {
        post(
            what,
            SCHEDULES,
            json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
                "metadata": {"name": name, "labels": {"app": app}},
                "spec": {"schedule": "0 2 * * *", "run": {"simulated": {}}},
            }),
        )
    };
    vec![
        schedule("one to list", "s1", "x"),
        schedule("two to list", "s2", "y"),
        schedule("three to list", "s3", "x"),
        schedule("four to list", "s4", "z"),
    ]
}

fn lists() -> Vec<Step> {
    let list = |what, path: &str, query: &str| get(what, path, "").query(query);
    vec![
        list("list", SCHEDULES, ""),
        list("list by a label", SCHEDULES, "labelSelector=app%3Dx"),
        list("list by a set of labels", SCHEDULES, "labelSelector=app%20in%20(x,z)"),
        list("list without labels", SCHEDULES, "labelSelector=app%20notin%20(x,z)"),
        list("list by a label's presence", SCHEDULES, "labelSelector=app"),
        list("list by a label's absence", SCHEDULES, "labelSelector=!app"),
        list("list by another label", SCHEDULES, "labelSelector=app!%3Dx"),
        list("list by two labels", SCHEDULES, "labelSelector=app%3Dx,other%3Dy"),
        list("list by no label", SCHEDULES, "labelSelector=a%20b").compare(Compare::NotTheMessage),
        list("list by a name", SCHEDULES, "fieldSelector=metadata.name%3Ds2"),
        list("list by a schedule", OCCURRENCES, "fieldSelector=spec.scheduleName%3Dweekly"),
        list("list by a state", OCCURRENCES, "fieldSelector=status.state%3DSucceeded"),
        list("list by no field", OCCURRENCES, "fieldSelector=spec.intendedTime%3Dx")
            .compare(Compare::NotTheMessage),
        list("list Leases", LEASES, "fieldSelector=metadata.name%3Dl"),
        list("list Jobs of a parent", JOBS, "labelSelector=punctual.dev/parent-uid%3Dp"),
        list("list occurrences", OCCURRENCES, ""),
        list("list no pods", PODS, "labelSelector=job-name%3Dj"),
        list("list a kind that is not", "/apis/punctual.dev/v1alpha1/namespaces/{ns}/nothings", "")
            .compare(Compare::NotTheMessage),
        list("list anything the cache has", SCHEDULES, "resourceVersion=0"),
        list(
            "list everywhere",
            "/apis/punctual.dev/v1alpha1/maintenanceschedules",
            "labelSelector=app",
        ),
    ]
}

fn watches() -> Vec<Step> {
    let watch = |what, path: &str, query: &str| {
        get(what, path, "").query(&format!("watch=true&timeoutSeconds=1&{query}"))
    };
    vec![
        watch("watch from what is there", SCHEDULES, "labelSelector=app%3Dx"),
        watch(
            "watch from the cache",
            SCHEDULES,
            "resourceVersion=0&fieldSelector=metadata.name%3Ds2",
        ),
        watch("watch from before", SCHEDULES, "resourceVersion=1").compacted(),
        watch("watch occurrences", OCCURRENCES, "allowWatchBookmarks=true"),
        watch("watch traces", TRACES, "allowWatchBookmarks=true"),
        watch("watch schedules", SCHEDULES, "allowWatchBookmarks=true"),
        watch("watch Jobs of the operator", JOBS, "labelSelector=punctual.dev/parent-uid"),
        watch("watch pods of the operator", PODS, "labelSelector=punctual.dev/parent-uid"),
        watch("watch one Lease", LEASES, "fieldSelector=metadata.name%3Dl"),
        patch("a label goes", SCHEDULES, "s1", json!({"metadata": {"labels": {"app": "w"}}})),
    ]
}

fn pages() -> Vec<Step> {
    let list = |what, query: &str| get(what, SCHEDULES, "").query(query);
    vec![
        list("a first page", "limit=2"),
        post(
            "one more between pages",
            SCHEDULES,
            json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
                "metadata": {"name": "s22"},
                "spec": {"schedule": "0 2 * * *", "run": {"simulated": {}}},
            }),
        ),
        list("a second page", "limit=2&continue={continue}"),
        list("a page by label", "limit=1&labelSelector=app%3Dx"),
        list("a page after the compaction", "limit=1"),
        patch("a label comes", SCHEDULES, "s1", json!({"metadata": {"labels": {"new": "w"}}})),
        list("the next page is too old", "limit=1&continue={continue}")
            .compacted()
            .compare(Compare::NotTheMessage),
        list("a page of no token", "limit=2&continue=nonsense").compare(Compare::NotTheMessage),
        Step { body: Value::Null, ..list("no limit", "limit=x") }.compare(Compare::NotTheMessage),
    ]
}
