//! What the API server knows about the kinds that are built into it.

use k8s_openapi::{
    api::{
        batch::v1::Job,
        coordination::v1::Lease,
        core::v1::{Namespace, Node, Pod},
        events::v1::Event,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    formats, job,
    refusal::{Cause, Refusal},
    request::Subresource,
};
use crate::sim::{Key, Kind};

/// Whether a kind is defined by a CRD.
pub(super) const fn is_custom(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MaintenanceSchedule
            | Kind::MaintenanceOccurrence
            | Kind::RecoveryTrace
            | Kind::ReportQueue
            | Kind::ReportJob
            | Kind::ReportSchedule
    )
}

/// Whether a built-in kind has a status subresource.
pub(super) const fn has_status(kind: Kind) -> bool {
    match kind {
        Kind::Lease | Kind::Event => false,
        Kind::CustomResourceDefinition
        | Kind::Namespace
        | Kind::Node
        | Kind::Pod
        | Kind::Job
        | Kind::MaintenanceSchedule
        | Kind::MaintenanceOccurrence
        | Kind::RecoveryTrace
        | Kind::ReportQueue
        | Kind::ReportJob
        | Kind::ReportSchedule => true,
    }
}

/// Whether the server counts the changes of what is wanted.
pub(super) const fn has_generation(kind: Kind) -> bool {
    is_custom(kind) || matches!(kind, Kind::Job | Kind::Pod | Kind::CustomResourceDefinition)
}

/// Whether a PUT without a version replaces whatever is there.
pub(super) const fn updates_unconditionally(kind: Kind) -> bool {
    matches!(kind, Kind::Job | Kind::Pod | Kind::Node | Kind::Namespace | Kind::Event)
}

/// Reads an object of a built-in kind as the server does: unknown fields are dropped, times are
/// written in one way, and a value of a wrong type makes the whole unreadable.
pub(super) fn decode(kind: Kind, mut object: Value) -> Result<Value, Refusal> {
    let api_version = api_version(kind);
    micro_times(kind, &object)?;
    match (object.get("kind"), object.get("apiVersion")) {
        (None, None) if !is_custom(kind) => {
            object["kind"] = kind.name().into();
            object["apiVersion"] = api_version.into();
        }
        (Some(of), Some(version)) if of == kind.name() && *version == api_version => {}
        (None, _) => return Err(Refusal::bad_request("Object 'Kind' is missing")),
        (Some(of), Some(version)) if is_custom(kind) && *version == api_version => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let why = format!("must be {}", kind.name());
            let cause = Cause::invalid("kind", of, &why);
            let word = of.as_str().unwrap_or_default();
            return Err(Refusal::invalid_kind(&Key::new(kind, "", name), word, cause));
        }
        (of, version) => {
            let text = |value: Option<&Value>| {
                value.and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            return Err(Refusal::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: the kind or version differs from \
                 the one in the path",
                text(of),
                text(version),
                kind.name()
            )));
        }
    }
    match kind {
        Kind::Lease => typed::<Lease>(kind, object),
        Kind::CustomResourceDefinition => typed::<CustomResourceDefinition>(kind, object),
        Kind::Event => typed::<Event>(kind, object),
        Kind::Namespace => typed::<Namespace>(kind, object),
        Kind::Node => typed::<Node>(kind, object),
        Kind::Pod => typed::<Pod>(kind, object),
        Kind::Job => typed::<Job>(kind, object),
        Kind::MaintenanceSchedule
        | Kind::MaintenanceOccurrence
        | Kind::RecoveryTrace
        | Kind::ReportQueue
        | Kind::ReportJob
        | Kind::ReportSchedule => {
            let meta = object["metadata"].take();
            let meta = if meta.is_null() { json!({}) } else { meta };
            object["metadata"] = typed::<ObjectMeta>(kind, meta)?;
            Ok(object)
        }
    }
}

/// Fields with six digits after the second.
const MICRO_TIMES: [(Kind, &str); 4] = [
    (Kind::Lease, "/spec/renewTime"),
    (Kind::Lease, "/spec/acquireTime"),
    (Kind::Event, "/eventTime"),
    (Kind::Event, "/series/lastObservedTime"),
];

/// The server reads these times in one form only.
fn micro_times(kind: Kind, object: &Value) -> Result<(), Refusal> {
    for (_, path) in MICRO_TIMES.iter().filter(|(of, _)| *of == kind) {
        let text = object.pointer(path).and_then(Value::as_str);
        if let Some(text) = text.filter(|text| !formats::is_micro_time(text)) {
            let name = kind.name();
            return Err(Refusal::bad_request(format!(
                "{name} in version {:?} cannot be handled as a {name}: parsing time {text:?} as \
                 \"2006-01-02T15:04:05.000000Z07:00\"",
                kind.version()
            )));
        }
    }
    Ok(())
}

/// Group and version as objects carry them.
pub(super) fn api_version(kind: Kind) -> String {
    let (group, version) = (kind.group(), kind.version());
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn typed<T: Serialize + DeserializeOwned>(kind: Kind, object: Value) -> Result<Value, Refusal> {
    let read: Result<T, _> = serde_json::from_value(object);
    read.and_then(serde_json::to_value).map_err(|error| {
        Refusal::bad_request(format!(
            "{name} in version {:?} cannot be handled as a {name}: {error}",
            kind.version(),
            name = kind.name()
        ))
    })
}

/// Fills in what a new object of a built-in kind gets; `uid` is to be its own.
pub(super) fn prepare(kind: Kind, object: &mut Value, uid: &str) {
    match kind {
        Kind::Job => job::prepare(object, uid),
        Kind::Pod => {
            object["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
        }
        Kind::Namespace => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        Kind::CustomResourceDefinition => establish(object),
        _ => {}
    }
}

/// A CRD is served at once, where the real server needs a moment.
fn establish(crd: &mut Value) {
    let met = |of: &str, reason: &str, message: &str| {
        json!({
            "type": of, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": crd["metadata"]["creationTimestamp"],
        })
    };
    let conditions = json!([
        met("NamesAccepted", "NoConflicts", "no conflicts found"),
        met("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]);
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let stored: Vec<Value> = versions
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    crd["status"] = json!({
        "acceptedNames": crd["spec"]["names"], "conditions": conditions, "storedVersions": stored,
    });
}

/// Why a built-in object is refused, in place of `old` or as a new one.
pub(super) fn check(kind: Kind, part: Subresource, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    match kind {
        Kind::Lease => lease(new),
        Kind::Job if part == Subresource::Main => job::check(new, old),
        Kind::Event => event(new, old),
        _ => Vec::new(),
    }
}

fn lease(lease: &Value) -> Vec<Cause> {
    let spec = &lease["spec"];
    let mut causes = Vec::new();
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) {
        let value = &spec["leaseDurationSeconds"];
        causes.push(Cause::invalid("spec.leaseDurationSeconds", value, "must be greater than 0"));
    }
    if spec["leaseTransitions"].as_i64().is_some_and(|number| number < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.leaseTransitions", &spec["leaseTransitions"], why));
    }
    causes
}

/// Longest texts of an event, in bytes.
const EVENT_TEXTS: [(&str, usize); 4] =
    [("reportingInstance", 128), ("action", 128), ("reason", 128), ("note", 1024)];

fn event(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(old) = old {
        let fields = ["reportingController", "reportingInstance", "action", "reason", "regarding"];
        for field in fields.iter().chain(&["related", "note", "type", "eventTime"]) {
            if new.get(field) != old.get(field) {
                causes.push(Cause::invalid(told(field), &new[*field], "field is immutable"));
            }
        }
    }
    for field in ["eventTime", "reportingController", "reportingInstance", "action", "reason"] {
        if new[field].as_str().is_none_or(str::is_empty) {
            causes.push(Cause::required(field, ""));
        }
    }
    for (field, most) in EVENT_TEXTS {
        if new[field].as_str().is_some_and(|text| text.len() > most) {
            let why = format!("can have at most {most} characters");
            causes.push(Cause::invalid(told(field), &"".into(), &why));
        }
    }
    if !["Normal", "Warning"].iter().any(|known| new["type"] == *known) {
        let why = "has invalid value: ".to_owned() + new["type"].as_str().unwrap_or_default();
        causes.push(Cause::invalid("type", &"".into(), &why));
    }
    causes
}

/// A field as the checks of the older group of events call it.
fn told(field: &str) -> &str {
    if field == "note" { "message" } else { field }
}
