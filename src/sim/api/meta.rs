//! Metadata: what the server sets, keeps and refuses, whatever the kind.

use std::sync::OnceLock;

use jiff::Timestamp;
use regex::Regex;
use serde_json::{Value, json};

use super::{
    job, kinds,
    refusal::{Cause, Refusal},
    store::RESOURCE_VERSION,
};
use crate::{
    api::MAX_NAME_CHARS,
    sim::{Key, Kind},
};

/// Finalizer of an object that goes after what it owns.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents are to be set free first.
pub(super) const ORPHAN: &str = "orphan";

/// Fields that only the server writes.
const OF_THE_SERVER: [&str; 4] =
    ["managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// A moment as metadata show it.
pub(super) fn time(at: Timestamp) -> Value {
    let seconds = Timestamp::from_second(at.as_second()).unwrap_or(at);
    seconds.to_string().into()
}

fn text<'a>(meta: &'a Value, field: &str) -> &'a str {
    meta[field].as_str().unwrap_or_default()
}

/// What is empty is absent.
pub(super) fn normalise(object: &mut Value) {
    let meta = &mut object["metadata"];
    if meta.is_null() {
        *meta = json!({});
    }
    let Some(fields) = meta.as_object_mut() else { return };
    fields.remove("managedFields");
    fields.remove("selfLink");
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(inner) => !inner.is_empty(),
        Value::Array(inner) => !inner.is_empty(),
        Value::String(inner) => !inner.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    });
}

/// What a new object is called; empty if it does not say. A name of the form `prefix-` gets five
/// signs from its uid.
pub(super) fn key_of_new(
    kind: Kind,
    namespace: &str,
    object: &mut Value,
    uid: &str,
) -> Result<Key, Refusal> {
    let meta = &mut object["metadata"];
    let of_body = text(meta, "namespace");
    if kind.namespaced() && !of_body.is_empty() && of_body != namespace {
        return Err(wrong_namespace());
    }
    if text(meta, "name").is_empty() && !text(meta, "generateName").is_empty() {
        let suffix = &uid[uid.len().saturating_sub(5)..];
        meta["name"] = format!("{}{suffix}", text(meta, "generateName")).into();
    }
    Ok(Key::new(kind, namespace, text(meta, "name")))
}

fn wrong_namespace() -> Refusal {
    Refusal::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}

/// Metadata of a new object.
pub(super) fn begin(key: &Key, object: &mut Value, uid: &str, now: Timestamp) {
    let meta = &mut object["metadata"];
    if let Some(fields) = meta.as_object_mut() {
        for field in OF_THE_SERVER.iter().chain(&["generation", RESOURCE_VERSION]) {
            fields.remove(*field);
        }
    }
    if key.kind.namespaced() {
        meta["namespace"] = key.namespace.clone().into();
    }
    meta["uid"] = uid.into();
    meta["creationTimestamp"] = time(now);
    if kinds::has_generation(key.kind) {
        meta["generation"] = 1.into();
    }
}

/// Why the metadata of a new object are refused.
pub(super) fn check(key: &Key) -> Vec<Cause> {
    static NAME: OnceLock<Regex> = OnceLock::new();
    if key.name.is_empty() {
        return vec![Cause::required("metadata.name", "name or generateName is required")];
    }
    let name = NAME.get_or_init(|| {
        Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
            .expect("the literal pattern is a regular expression")
    });
    if name.is_match(&key.name) && key.name.len() <= MAX_NAME_CHARS {
        return Vec::new();
    }
    let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
               '-' or '.', and must start and end with an alphanumeric character (e.g. \
               'example.com', regex used for validation is \
               '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let too_long = format!("must be no more than {MAX_NAME_CHARS} bytes");
    let why = if name.is_match(&key.name) { too_long.as_str() } else { why };
    vec![Cause::invalid("metadata.name", &key.name.clone().into(), why)]
}

/// The body of a PUT or PATCH is about the object of the path.
pub(super) fn same_name(key: &Key, body: &Value) -> Result<(), Refusal> {
    let meta = &body["metadata"];
    let name = text(meta, "name");
    if name != key.name {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    let namespace = text(meta, "namespace");
    if key.kind.namespaced() && !namespace.is_empty() && namespace != key.namespace {
        return Err(wrong_namespace());
    }
    Ok(())
}

/// Whether the stored object is the one, at the version, that the body names.
pub(super) fn preconditions(
    key: &Key,
    body: &Value,
    old: &Value,
    patched: bool,
) -> Result<(), Refusal> {
    let (meta, stored) = (&body["metadata"], &old["metadata"]);
    let (uid, is) = (text(meta, "uid"), text(stored, "uid"));
    if !uid.is_empty() && uid != is {
        if patched {
            let cause = Cause::invalid("metadata.uid", &uid.into(), "field is immutable");
            let mut causes = twice(cause).to_vec();
            if key.kind == Kind::Job {
                causes.extend(job::not_its_own(old, uid));
            }
            return Err(Refusal::invalid(key, causes));
        }
        return Err(Refusal::precondition(key, "UID", uid, is));
    }
    let version = text(meta, RESOURCE_VERSION);
    if version.is_empty() || version == "0" {
        if patched || kinds::updates_unconditionally(key.kind) {
            return Ok(());
        }
        let why = "must be specified for an update";
        let cause = Cause::invalid("metadata.resourceVersion", &0.into(), why);
        return Err(Refusal::invalid_resource(key, cause));
    }
    if version == text(stored, RESOURCE_VERSION) { Ok(()) } else { Err(Refusal::modified(key)) }
}

/// The metadata that no writer changes.
pub(super) fn carry_over(key: &Key, new: &mut Value, old: &Value) {
    let (meta, stored) = (&mut new["metadata"], &old["metadata"]);
    let Some(fields) = meta.as_object_mut() else { return };
    if key.kind.namespaced() {
        fields.insert("namespace".to_owned(), key.namespace.clone().into());
    }
    let kept = ["uid", "creationTimestamp", "generation", RESOURCE_VERSION];
    for field in kept.iter().chain(&OF_THE_SERVER) {
        match stored.get(*field) {
            Some(value) => fields.insert((*field).to_owned(), value.clone()),
            None => fields.remove(*field),
        };
    }
}

/// The real server checks metadata in two places, and says the same twice.
fn twice(cause: Cause) -> [Cause; 2] {
    [cause.clone(), cause]
}

fn finalizers(meta: &Value) -> impl Iterator<Item = &Value> {
    meta["finalizers"].as_array().into_iter().flatten()
}

/// Why a change of the metadata is refused.
pub(super) fn check_change(new: &Value, old: &Value) -> Vec<Cause> {
    let (meta, stored) = (&new["metadata"], &old["metadata"]);
    let mut causes = Vec::new();
    if stored["deletionTimestamp"].is_string() {
        let added: Vec<&str> = finalizers(meta)
            .filter(|name| !finalizers(stored).any(|known| known == *name))
            .filter_map(Value::as_str)
            .collect();
        if !added.is_empty() {
            let added: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                added.join(", ")
            );
            causes.extend(twice(Cause::forbidden("metadata.finalizers", &why)));
        }
    }
    causes
}

/// Whether an object that is to go has nothing left to wait for.
pub(super) fn may_go(meta: &Value) -> bool {
    meta["deletionTimestamp"].is_string()
        && finalizers(meta).next().is_none()
        && meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}
