//! Objects as JSON: the suite sees what any client of the API sees, not the crate's own types.

use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::Value;

/// Short name, group, version, kind, plural, namespaced.
const KINDS: [(&str, &str, &str, &str, &str, bool); 14] = [
    ("msched", "punctual.dev", "v1alpha1", "MaintenanceSchedule", "maintenanceschedules", true),
    ("mocc", "punctual.dev", "v1alpha1", "MaintenanceOccurrence", "maintenanceoccurrences", true),
    ("rqueue", "punctual.dev", "v1alpha1", "ReportQueue", "reportqueues", true),
    ("rsched", "punctual.dev", "v1alpha1", "ReportSchedule", "reportschedules", true),
    ("rjob", "punctual.dev", "v1alpha1", "ReportJob", "reportjobs", true),
    ("rtrace", "punctual.dev", "v1alpha1", "RecoveryTrace", "recoverytraces", true),
    ("job", "batch", "v1", "Job", "jobs", true),
    ("cronjob", "batch", "v1", "CronJob", "cronjobs", true),
    ("lease", "coordination.k8s.io", "v1", "Lease", "leases", true),
    ("pod", "", "v1", "Pod", "pods", true),
    ("configmap", "", "v1", "ConfigMap", "configmaps", true),
    ("event", "", "v1", "Event", "events", true),
    ("serviceaccount", "", "v1", "ServiceAccount", "serviceaccounts", true),
    ("node", "", "v1", "Node", "nodes", false),
];

/// The resource with this short name; panics on one that the suite does not know.
fn resource(short: &str) -> (ApiResource, bool) {
    let (_, group, version, kind, plural, namespaced) = KINDS
        .into_iter()
        .find(|(name, ..)| *name == short)
        .unwrap_or_else(|| panic!("{short} is not in the suite's table of kinds"));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    (ApiResource::from_gvk_with_plural(&gvk, plural), namespaced)
}

/// Objects of the kind with this short name.
pub fn api(client: &Client, namespace: &str, short: &str) -> Api<DynamicObject> {
    let (resource, namespaced) = resource(short);
    if namespaced {
        Api::namespaced_with(client.clone(), namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    }
}

/// The whole object as JSON.
pub fn json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("a Kubernetes object is JSON")
}

/// The text at `pointer` (RFC 6901), empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
