//! From a [`RunRequest`] to the Job that runs it. Pure: JSON in, JSON out.
//!
//! The template is the user's and stays as written: fields that this version does not know are
//! passed on. What the contract needs is added, and what would break it is refused with a sentence.

use serde_json::{Map, Value, json};

use crate::{
    api::{
        ANNOTATION_EPOCH, ANNOTATION_PARENT_KIND, ANNOTATION_RUN_KEY, ANNOTATION_TEMPLATE_HASH,
        LABEL_PARENT_UID, LABEL_QUEUE, LABEL_TENANT, MAX_PARAMETERS, MAX_PARAMETERS_BYTES,
    },
    identity::sha256_hex,
    providers::{OfQueue, RunRequest},
};

/// Environment variable with the key by which the provider knows the run.
pub const ENV_RUN_KEY: &str = "PUNCTUAL_RUN_KEY";
/// Environment variable with the request id: equal over attempts.
pub const ENV_REQUEST_ID: &str = "PUNCTUAL_REQUEST_ID";
/// Environment variable with the number of the attempt, from 1.
pub const ENV_ATTEMPT: &str = "PUNCTUAL_ATTEMPT";
/// Environment variable with the intended instant; absent if the work has none.
pub const ENV_INTENDED_TIME: &str = "PUNCTUAL_INTENDED_TIME";
/// Environment variable with the epoch of the term that created the Job.
pub const ENV_EPOCH: &str = "PUNCTUAL_EPOCH";
/// Environment variable with the parameters as one JSON object.
pub const ENV_PARAMETERS: &str = "PUNCTUAL_PARAMETERS";

/// All variables that belong to Punctual: a user's variable of such a name gives way.
const RESERVED_ENV: [&str; 6] =
    [ENV_RUN_KEY, ENV_REQUEST_ID, ENV_ATTEMPT, ENV_INTENDED_TIME, ENV_EPOCH, ENV_PARAMETERS];

/// A run that can never be a Job: one sentence that names the field and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unrunnable(pub String);

fn refuse<T>(message: impl Into<String>) -> Result<T, Unrunnable> {
    Err(Unrunnable(message.into()))
}

/// The Job of a run: suspended, so inert, until it is released.
///
/// What Jobs and pods are found by: the parent, and of reports the queue and the tenant.
fn labels(request: &RunRequest) -> Map<String, Value> {
    let mut labels = Map::new();
    labels.insert(LABEL_PARENT_UID.to_owned(), request.parent.uid.as_str().into());
    if let Some(OfQueue { name, tenant }) = &request.queue {
        labels.insert(LABEL_QUEUE.to_owned(), name.as_str().into());
        labels.insert(LABEL_TENANT.to_owned(), tenant.as_str().into());
    }
    labels
}

/// One pod at most: no retry (`backoffLimit: 0`), no replacement before the old pod is over
/// (`podReplacementPolicy: Failed`), and a disruption fails the Job instead of running it again. It
/// is owned by its parent without `blockOwnerDeletion`, which would need the right to update the
/// parent's finalizers where `OwnerReferencesPermissionEnforcement` is on.
pub fn manifest(request: &RunRequest) -> Result<Value, Unrunnable> {
    let template = pod_template(request)?;
    let parent = &request.parent;
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": request.attempt_name,
            "namespace": parent.namespace,
            "labels": labels(request),
            "annotations": {
                ANNOTATION_PARENT_KIND: parent.kind,
                LABEL_PARENT_UID: parent.uid,
                ANNOTATION_RUN_KEY: request.run_key,
                ANNOTATION_TEMPLATE_HASH: template_hash(request),
                ANNOTATION_EPOCH: request.epoch.to_string(),
            },
            "ownerReferences": [{
                "apiVersion": parent.api_version,
                "kind": parent.kind,
                "name": parent.name,
                "uid": parent.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": {
            "suspend": true,
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [{
                "action": "FailJob",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            }]},
            "template": template,
        },
    }))
}

/// Hash of what the user wrote: template and parameters. It says whether a Job that exists already
/// is the one that would be created now, whatever an API server filled in.
pub fn template_hash(request: &RunRequest) -> String {
    let template = request.run.job.as_ref().map(|job| &job.template);
    let content = json!({"template": template, "parameters": request.run.parameters});
    let mut text = String::new();
    write_canonical(&content, &mut text);
    sha256_hex(text.as_bytes())
}

/// JSON without spaces and with sorted keys: equal content gives equal text.
fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, value) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(value, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

/// The user's template, checked, with our label, annotation and variables.
fn pod_template(request: &RunRequest) -> Result<Value, Unrunnable> {
    let Some(job) = &request.run.job else {
        return refuse("run.job is missing: this run is no Job");
    };
    let Value::Object(mut template) = Value::clone(&job.template) else {
        return refuse("run.job.template must be an object: a PodTemplateSpec, as in a Job");
    };
    let environment = environment(request)?;

    let metadata = object_at(&mut template, "metadata", "run.job.template.metadata")?;
    let object_labels = object_at(metadata, "labels", "run.job.template.metadata.labels")?;
    object_labels.extend(labels(request));
    let annotations = object_at(metadata, "annotations", "run.job.template.metadata.annotations")?;
    annotations.insert(ANNOTATION_RUN_KEY.into(), request.run_key.as_str().into());

    let Some(Value::Object(spec)) = template.get_mut("spec") else {
        return refuse("run.job.template.spec is missing: it needs at least one container");
    };
    restart_policy(spec)?;
    containers(spec, "initContainers", &environment)?;
    if containers(spec, "containers", &environment)? == 0 {
        return refuse("run.job.template.spec.containers needs at least one container");
    }
    spec.insert("restartPolicy".into(), "Never".into());
    Ok(Value::Object(template))
}

/// The object under `key`, created if absent.
fn object_at<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
    path: &str,
) -> Result<&'a mut Map<String, Value>, Unrunnable> {
    let value = parent.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => Ok(map),
        _ => refuse(format!("{path} must be an object")),
    }
}

/// A container that restarts would run the work twice within one attempt.
fn restart_policy(spec: &Map<String, Value>) -> Result<(), Unrunnable> {
    match spec.get("restartPolicy") {
        None | Some(Value::Null) => Ok(()),
        Some(policy) if policy == "Never" => Ok(()),
        Some(policy) => refuse(format!(
            "run.job.template.spec.restartPolicy must be Never or left out, not {policy}: a \
             container that restarts runs the work twice; run.maxAttempts repeats failed work"
        )),
    }
}

/// Checks and completes the containers under `list`; gives their number.
fn containers(
    spec: &mut Map<String, Value>,
    list: &str,
    environment: &[Value],
) -> Result<usize, Unrunnable> {
    let path = format!("run.job.template.spec.{list}");
    let items = match spec.get_mut(list) {
        None | Some(Value::Null) => return Ok(0),
        Some(Value::Array(items)) => items,
        Some(_) => return refuse(format!("{path} must be a list of containers")),
    };
    for (index, item) in items.iter_mut().enumerate() {
        let Value::Object(container) = item else {
            return refuse(format!("{path}[{index}] must be an object"));
        };
        let sidecars = list == "initContainers";
        container_restarts(container, sidecars, &format!("{path}[{index}]"))?;
        add_environment(container, environment, &format!("{path}[{index}]"))?;
    }
    Ok(items.len())
}

/// Only sidecars (init containers with `restartPolicy: Always`) may restart: they do not do the
/// work, and they end with it.
fn container_restarts(
    container: &Map<String, Value>,
    sidecars: bool,
    path: &str,
) -> Result<(), Unrunnable> {
    let rules = container.get("restartPolicyRules");
    if rules.is_some_and(|rules| !rules.is_null() && rules.as_array().is_none_or(|r| !r.is_empty()))
    {
        return refuse(format!(
            "{path}.restartPolicyRules must be left out: a container that restarts runs the work \
             twice; run.maxAttempts repeats failed work"
        ));
    }
    match container.get("restartPolicy") {
        None | Some(Value::Null) => Ok(()),
        Some(policy) if policy == "Never" || (sidecars && policy == "Always") => Ok(()),
        Some(policy) => {
            let allowed = if sidecars { "Always (a sidecar), Never" } else { "Never" };
            refuse(format!(
                "{path}.restartPolicy must be {allowed} or left out, not {policy}: a container \
                 that restarts runs the work twice; run.maxAttempts repeats failed work"
            ))
        }
    }
}

/// Puts our variables in front of the user's, who can refer to them as `$(PUNCTUAL_…)`; a user's
/// variable of the same name gives way.
fn add_environment(
    container: &mut Map<String, Value>,
    ours: &[Value],
    path: &str,
) -> Result<(), Unrunnable> {
    let theirs = match container.remove("env") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(_) => return refuse(format!("{path}.env must be a list")),
    };
    let is_ours = |entry: &Value| {
        entry.get("name").and_then(Value::as_str).is_some_and(|name| RESERVED_ENV.contains(&name))
    };
    let mut all = ours.to_vec();
    all.extend(theirs.into_iter().filter(|entry| !is_ours(entry)));
    container.insert("env".into(), Value::Array(all));
    Ok(())
}

fn environment(request: &RunRequest) -> Result<Vec<Value>, Unrunnable> {
    let parameters = parameters(request)?;
    let intended = request.intended_time.map(|instant| instant.to_string());
    let values = [
        (ENV_RUN_KEY, Some(request.run_key.clone())),
        (ENV_REQUEST_ID, Some(request.request_id.clone())),
        (ENV_ATTEMPT, Some(request.attempt.to_string())),
        (ENV_INTENDED_TIME, intended),
        (ENV_EPOCH, Some(request.epoch.to_string())),
        (ENV_PARAMETERS, Some(parameters)),
    ];
    Ok(values
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| (name, value)))
        // The kubelet expands $(NAME) in values and turns $$ into $: doubled, the text arrives as is.
        .map(|(name, value)| json!({"name": name, "value": value.replace('$', "$$")}))
        .collect())
}

fn parameters(request: &RunRequest) -> Result<String, Unrunnable> {
    let parameters = request.run.parameters.clone().unwrap_or_default();
    if parameters.len() > MAX_PARAMETERS {
        return refuse(format!(
            "run.parameters has {} entries; at most {MAX_PARAMETERS} are allowed",
            parameters.len()
        ));
    }
    let text = json!(parameters).to_string();
    if text.len() > MAX_PARAMETERS_BYTES {
        return refuse(format!(
            "run.parameters is {} bytes of JSON; at most {MAX_PARAMETERS_BYTES} are allowed: pass a \
             reference to larger data instead",
            text.len()
        ));
    }
    Ok(text)
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
