//! What the API server fills in and refuses of a Job. The controller that runs Jobs is elsewhere.

use serde_json::{Map, Value, json};

use super::refusal::Cause;

/// Fields of a Job that never change.
const IMMUTABLE: [&str; 4] = ["completions", "selector", "podFailurePolicy", "completionMode"];

/// Fills in what a new Job gets.
pub(super) fn prepare(job: &mut Value, uid: &str) {
    let name = job["metadata"]["name"].clone();
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
        "controller-uid": uid, "job-name": name,
    });
    if let Some(job) = job.as_object_mut() {
        job.insert("status".to_owned(), json!({}));
    }
    let spec = &mut job["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    let has_policy = spec.get("podFailurePolicy").is_some_and(Value::is_object);
    let replacement = if has_policy { "Failed" } else { "TerminatingOrFailed" };
    let defaults = json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "suspend": false,
        "completionMode": "NonIndexed", "podReplacementPolicy": replacement,
        "manualSelector": false,
    });
    fill(spec, defaults);
    let generated = spec["manualSelector"] != true;
    if generated {
        spec["selector"] = json!({
            "matchLabels": {"batch.kubernetes.io/controller-uid": uid},
        });
    }
    let Some(template) = spec.get_mut("template") else { return };
    if generated {
        if template["metadata"]["labels"].is_null() {
            template["metadata"]["labels"] = json!({});
        }
        fill(&mut template["metadata"]["labels"], labels);
    }
    if let Some(spec) = template.get_mut("spec") {
        pod_defaults(spec);
    }
    let labels = template["metadata"].get("labels").cloned();
    if job["metadata"].get("labels").is_none()
        && let Some(labels) = labels
    {
        job["metadata"]["labels"] = labels;
    }
}

/// Puts in what is absent.
fn fill(target: &mut Value, defaults: Value) {
    let (Some(target), Value::Object(defaults)) = (target.as_object_mut(), defaults) else {
        return;
    };
    for (name, value) in defaults {
        target.entry(name).or_insert(value);
    }
}

fn pod_defaults(spec: &mut Value) {
    fill(
        spec,
        json!({
            "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
        }),
    );
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let image = container.get("image").and_then(Value::as_str);
            let pull = image_pull_policy(image.unwrap_or_default());
            fill(
                container,
                json!({
                    "imagePullPolicy": pull, "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }),
            );
        }
    }
}

fn image_pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or(image);
    let tag = last.split_once(':').map_or("latest", |(_, tag)| tag);
    if tag == "latest" && !image.contains('@') { "Always" } else { "IfNotPresent" }
}

/// Why a Job is refused, in place of `old` or as a new one.
pub(super) fn check(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match old {
        None => template(&new["spec"]["template"]["spec"], &mut causes),
        Some(old) => immutable(&new["spec"], &old["spec"], &mut causes),
    }
    causes
}

fn template(spec: &Value, causes: &mut Vec<Cause>) {
    let path = "spec.template.spec";
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    for (index, container) in spec["containers"].as_array().into_iter().flatten().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                causes.push(Cause::required(format!("{path}.containers[{index}].{field}"), ""));
            }
        }
    }
    let field = format!("{path}.restartPolicy");
    if !["Never", "OnFailure"].iter().any(|known| spec["restartPolicy"] == *known) {
        causes.push(Cause::required(field, "valid values: \"OnFailure\", \"Never\""));
    }
}

/// What else is wrong with a Job that is patched under the uid of another: selector and labels are
/// made from the uid.
pub(super) fn not_its_own(job: &Value, uid: &str) -> Vec<Cause> {
    let spec = &job["spec"];
    let quoted = |value: &Value, why: &str| format!("Invalid value: {value}: {why}");
    let invalid = |field: &str, message| Cause::of("FieldValueInvalid", field, message);
    let labels = &spec["template"]["metadata"]["labels"];
    let wanted = format!("must be '{uid}'");
    let of = "spec.template.metadata.labels";
    vec![
        invalid("spec.selector", quoted(&spec["selector"], "`selector` not auto-generated")),
        invalid(&format!("{of}[batch.kubernetes.io/controller-uid]"), quoted(labels, &wanted)),
        invalid(&format!("{of}[controller-uid]"), quoted(labels, &wanted)),
    ]
}

fn immutable(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for field in IMMUTABLE {
        if new.get(field) != old.get(field) {
            causes.push(Cause::invalid(format!("spec.{field}"), &new[field], "field is immutable"));
        }
    }
    if bare(&new["template"]) != bare(&old["template"]) {
        let field = "spec.template";
        causes.push(Cause::invalid(field, &new["template"], "field is immutable"));
    }
}

/// A template as far as it counts: what is empty is absent.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().map(|(name, value)| (name.clone(), bare(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
