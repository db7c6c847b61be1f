//! Leases, Jobs, events, and what the model's own controllers write.

use serde_json::{Value, json};

use super::{
    CRDS, Compare, EVENTS, JOBS, LEASES, NAMESPACES, NODES, PODS, SCHEDULES, Step, delete, get,
    patch, post, put, with,
};

pub(super) fn steps() -> Vec<Step> {
    [leases(), lost_leases(), jobs(), changed_jobs(), job_deletions(), events(), pods(), others()]
        .concat()
}

fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "namespace": "{ns}", "annotations": {"punctual.dev/epoch": "7"}},
        "spec": {
            "holderIdentity": "r0/a", "leaseDurationSeconds": 3,
            "renewTime": "2026-11-29T02:00:00.500000Z", "acquireTime": "2026-11-29T02:00:00.000000Z",
            "leaseTransitions": 1,
        },
    })
}

fn leases() -> Vec<Step> {
    let seconds = |value: i64| {
        with(&lease_at("{uid}", "{rv}"), [("/spec/leaseDurationSeconds", json!(value))])
    };
    let renewed = with(
        &lease_at("{uid}", "{rv}"),
        [("/spec/renewTime", "2026-11-29T02:00:02.250000Z".into())],
    );
    vec![
        post("create a Lease", LEASES, lease()),
        post("create it twice", LEASES, lease()),
        post(
            "create an unheld one",
            LEASES,
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "unheld"}, "spec": {"unknown": 1},
            }),
        ),
        get("read a Lease", LEASES, "l"),
        put("renew", LEASES, "l", renewed.clone()),
        put("renew by the same", LEASES, "l", renewed),
        put("renew an old version", LEASES, "l", lease_at("{uid}", "{old-rv}")),
        put("renew another Lease", LEASES, "l", lease_at("other", "{rv}")),
        put(
            "renew without a version",
            LEASES,
            "l",
            with(&lease(), [("/metadata/uid", "{uid}".into())]),
        ),
        put(
            "renew without a uid",
            LEASES,
            "l",
            with(&lease(), [("/metadata/resourceVersion", "{rv}".into())]),
        ),
        put("renew for no time", LEASES, "l", seconds(0)),
        put(
            "renew at no time",
            LEASES,
            "l",
            with(&lease_at("{uid}", "{rv}"), [("/spec/renewTime", "soon".into())]),
        )
        .compare(Compare::NotTheMessage),
        put("dry run of a renewal", LEASES, "l", seconds(9)).dry(),
        put("a status that Leases lack", LEASES, "l/status", lease_at("{uid}", "{rv}"))
            .compare(Compare::NotTheMessage),
    ]
}

/// Metadata of the Lease with this uid and version.
fn lease_at(uid: &str, version: &str) -> Value {
    let version = ("/metadata/resourceVersion", version.into());
    with(&lease(), [("/metadata/uid", uid.into()), version])
}

fn lost_leases() -> Vec<Step> {
    vec![
        patch("patch a Lease", LEASES, "l", json!({"spec": {"holderIdentity": ""}})),
        patch("patch another Lease", LEASES, "l", json!({"metadata": {"uid": "other"}})),
        delete("delete another Lease", LEASES, "l", json!({"preconditions": {"uid": "other"}})),
        delete("delete the Lease", LEASES, "l", json!({"preconditions": {"uid": "{uid}"}})),
        patch("patch the deleted Lease", LEASES, "l", json!({"spec": {"holderIdentity": "x"}})),
        put("renew the deleted Lease", LEASES, "l", lease_at("{uid}", "{rv}")),
        put(
            "dry run of bringing it back",
            LEASES,
            "l",
            with(&lease(), [("/metadata/resourceVersion", "{old-rv}".into())]),
        )
        .dry(),
        put(
            "bring it back without a uid",
            LEASES,
            "l",
            with(&lease(), [("/metadata/resourceVersion", "{old-rv}".into())]),
        ),
        put(
            "a Lease that never was",
            LEASES,
            "fresh",
            with(&lease(), [("/metadata/name", "fresh".into())]),
        ),
        put(
            "a Lease in no namespace",
            &LEASES.replace("{ns}", "nowhere"),
            "fresh",
            with(
                &lease(),
                [("/metadata/name", "fresh".into()), ("/metadata/namespace", "nowhere".into())],
            ),
        ),
    ]
}

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "namespace": "{ns}", "labels": {"punctual.dev/parent-uid": "p"},
            "annotations": {"punctual.dev/epoch": "7", "punctual.dev/run-key": "k"},
            "ownerReferences": [{
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
                "name": "nightly-202611290200", "uid": "p", "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "suspend": true, "backoffLimit": 0, "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [{
                "action": "FailJob",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            }]},
            "template": {
                "metadata": {"labels": {"punctual.dev/parent-uid": "p"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{
                        "name": "main", "image": "registry.example/x:1",
                        "env": [{"name": "PUNCTUAL_RUN_KEY", "value": "k"}, {"name": "EMPTY"}],
                        "resources": {"requests": {"cpu": "100m"}},
                    }],
                },
            },
        },
    })
}

fn jobs() -> Vec<Step> {
    let plain = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "plain"},
        "spec": {"template": {"spec": {
            "restartPolicy": "OnFailure",
            "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x:2@sha256:abc"}],
        }}},
    });
    vec![
        post("create a Job", JOBS, job("j")),
        post("create the Job twice", JOBS, job("j")),
        post("create a plain Job", JOBS, plain),
        post("dry run of a Job", JOBS, job("dry")).dry(),
        post(
            "a Job without containers",
            JOBS,
            with(&job("bad"), [("/spec/template/spec/containers", json!([]))]),
        )
        .dry(),
        post(
            "a Job without a template",
            JOBS,
            with(&job("bad"), [("/spec/template", Value::Null)]),
        )
        .compare(Compare::NotTheMessage),
        post(
            "a Job whose pods start again",
            JOBS,
            with(&job("bad"), [("/spec/template/spec/restartPolicy", "Always".into())]),
        ),
        post(
            "a Job of a wrong type",
            JOBS,
            with(&job("bad"), [("/spec/backoffLimit", "many".into())]),
        )
        .compare(Compare::NotTheMessage),
        post(
            "a Job without a container's name",
            JOBS,
            with(&job("bad"), [("/spec/template/spec/containers", json!([{"image": "x"}]))]),
        ),
        get("read a Job", JOBS, "j"),
        get("read no Job", JOBS, "missing"),
    ]
}

fn changed_jobs() -> Vec<Step> {
    let release = json!({
        "metadata": {
            "uid": "{uid}", "resourceVersion": "{rv}", "annotations": {"punctual.dev/released": "7"},
        },
        "spec": {"suspend": false},
    });
    let edit = |what, body: Value| patch(what, JOBS, "j", body);
    vec![
        edit("adopt", json!({"metadata": {"uid": "{uid}", "resourceVersion": "{rv}", "annotations": {"punctual.dev/epoch": "8"}}})),
        edit("release another Job", with(&release, [("/metadata/uid", "other".into())])),
        edit("release an old version", with(&release, [("/metadata/resourceVersion", "{old-rv}".into())])),
        edit("dry run of a release", release.clone()).dry(),
        edit("release", release),
        edit("release again", json!({"spec": {"suspend": false}})),
        edit("another template of a Job", json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "y"}]}}}}))
            .compare(Compare::NotTheMessage),
        edit("more pods", json!({"spec": {"parallelism": 2}})),
        edit("another mode", json!({"spec": {"completionMode": "Indexed"}})).compare(Compare::NotTheMessage),
        patch("release no Job", JOBS, "missing", json!({"spec": {"suspend": false}})),
        patch("a Job starts", JOBS, "j/status", json!({"status": {"startTime": "2026-11-29T02:00:00Z", "active": 1}})),
        patch(
            "a spec by way of the status",
            JOBS,
            "j/status",
            json!({"spec": {"suspend": true}, "metadata": {"labels": {"by": "status"}}}),
        ),
        edit("a status by way of the spec", json!({"status": {"active": 5}})),
        patch(
            "the status of an old version",
            JOBS,
            "j/status",
            json!({"metadata": {"resourceVersion": "{old-rv}"}, "status": {"active": 2}}),
        ),
    ]
}

fn job_deletions() -> Vec<Step> {
    let preconditions = |uid: &str, version: &str| json!({"uid": uid, "resourceVersion": version});
    let how = |policy: &str| json!({"propagationPolicy": policy, "preconditions": preconditions("{uid}", "{rv}")});
    vec![
        delete(
            "cancel another Job",
            JOBS,
            "j",
            json!({"preconditions": preconditions("other", "{rv}")}),
        ),
        delete(
            "cancel an old version",
            JOBS,
            "j",
            json!({"preconditions": preconditions("{uid}", "{old-rv}")}),
        ),
        delete(
            "dry run of a cancel",
            JOBS,
            "j",
            with(&how("Foreground"), [("/dryRun", json!(["All"]))]),
        ),
        delete("cancel", JOBS, "j", how("Foreground")),
        delete("cancel again", JOBS, "j", how("Foreground")),
        delete("and now orphan", JOBS, "j", how("Orphan")),
        delete("and now neither", JOBS, "j", how("Background")),
        post("create what is to go", JOBS, job("j")),
        delete(
            "and now neither, at any version",
            JOBS,
            "j",
            json!({"propagationPolicy": "Background"}),
        ),
        post("create the Job again", JOBS, job("j")),
        delete("cancel by default", JOBS, "j", Value::Null),
        patch("nobody is left", JOBS, "j", json!({"metadata": {"finalizers": null}})),
        post("create the Job a third time", JOBS, job("j")),
        delete("remove", JOBS, "j", how("Background")),
        delete("remove what is gone", JOBS, "j", how("Background")),
        delete("cancel by the query", JOBS, "plain", Value::Null)
            .query("propagationPolicy=Foreground"),
    ]
}

fn events() -> Vec<Step> {
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "e", "namespace": "{ns}"},
        "action": "Reconcile", "eventTime": "2026-11-29T02:00:00.000001Z", "note": "it happened",
        "reason": "Missed", "reportingController": "punctual.dev/operator", "reportingInstance": "r0",
        "regarding": {"kind": "MaintenanceSchedule", "name": "nightly", "namespace": "{ns}", "uid": "s"},
        "type": "Normal",
    });
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-11-29T02:01:00.000001Z"}});
    let long = "x".repeat(1025);
    vec![
        post("create an event", EVENTS, event.clone()),
        post(
            "an event without an action",
            EVENTS,
            with(&event, [("/metadata/name", "f".into()), ("/action", Value::Null)]),
        ),
        post(
            "an event without a time",
            EVENTS,
            with(&event, [("/metadata/name", "f".into()), ("/eventTime", Value::Null)]),
        ),
        post(
            "an event of an odd type",
            EVENTS,
            with(&event, [("/metadata/name", "f".into()), ("/type", "Odd".into())]),
        ),
        post(
            "an event that is too long",
            EVENTS,
            with(&event, [("/metadata/name", "f".into()), ("/note", long.into())]),
        )
        .compare(Compare::NotTheMessage),
        post(
            "an event about elsewhere",
            EVENTS,
            with(
                &event,
                [("/metadata/name", "f".into()), ("/regarding/namespace", "elsewhere".into())],
            ),
        ),
        patch(
            "an event repeats",
            EVENTS,
            "e",
            with(&event, [("/series", series["series"].clone())]),
        ),
        patch("an event changes", EVENTS, "e", json!({"note": "it did not"}))
            .compare(Compare::NotTheMessage),
        patch("an event that is gone repeats", EVENTS, "missing", series),
    ]
}

fn pods() -> Vec<Step> {
    let pod = |name: &str, node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "{ns}", "labels": {"job-name": "j"}, "finalizers": ["batch.kubernetes.io/job-tracking"]},
            "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [{"name": "m", "image": "x:1"}]},
        })
    };
    let running = json!({"status": {"phase": "Running"}});
    let steps = vec![
        post("create a pod", PODS, pod("p", "n")),
        post("create a pod on no node", PODS, pod("q", "")),
        get("read a pod", PODS, "p"),
        patch("a pod runs", PODS, "p/status", running),
        delete("delete a pod", PODS, "p", Value::Null),
        delete("delete the pod again", PODS, "p", Value::Null),
        delete("delete a pod at once", PODS, "p", json!({"gracePeriodSeconds": 0})),
        patch("nobody holds the pod", PODS, "p", json!({"metadata": {"finalizers": null}})),
        delete("delete a pod that is nowhere", PODS, "q", Value::Null),
        patch("nobody holds that pod", PODS, "q", json!({"metadata": {"finalizers": null}})),
        post("create a pod that ends", PODS, pod("r", "n")),
        patch("a pod ends", PODS, "r/status", json!({"status": {"phase": "Succeeded"}})),
        patch("nobody holds the ended pod", PODS, "r", json!({"metadata": {"finalizers": null}})),
        delete("delete a pod that has ended", PODS, "r", Value::Null),
    ];
    steps.into_iter().map(|step| step.compare(Compare::Metadata)).collect()
}

fn others() -> Vec<Step> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-{ns}"}});
    let crd = "maintenanceschedules.punctual.dev";
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "second-{ns}"}});
    let second = SCHEDULES.replace("{ns}", "second-{ns}");
    let steps = vec![
        post("create a node", NODES, node),
        get("read a node", NODES, "n-{ns}"),
        patch("a node is ready", NODES, "n-{ns}/status", json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})),
        delete("delete a node", NODES, "n-{ns}", Value::Null),
        get("read a CRD", CRDS, crd),
        get("read no CRD", CRDS, "nothing.punctual.dev"),
        post("create a namespace", NAMESPACES, namespace),
        get("read a namespace", NAMESPACES, "second-{ns}"),
        delete("delete a namespace", NAMESPACES, "second-{ns}", Value::Null),
        post("create in a namespace that is to go", &second, json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {"name": "late"}, "spec": {"schedule": "0 2 * * *", "run": {"simulated": {}}},
        })).compare(Compare::NotTheMessage),
    ];
    let metadata = |step: Step| {
        let compare =
            if step.compare == Compare::Everything { Compare::Metadata } else { step.compare };
        step.compare(compare)
    };
    steps.into_iter().map(metadata).collect()
}
