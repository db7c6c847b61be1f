//! Deleting: at once, after what is owned, or after a pod's time to end.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    custom::Custom,
    meta::{self, FOREGROUND, ORPHAN},
    refusal::Refusal,
    request::{Deletion, Propagation, Subresource},
    store::{RESOURCE_VERSION, Store, Writer},
    write::Outcome,
};
use crate::sim::{Key, Kind};

/// Seconds that a Pod gets to end if it says nothing else.
const DEFAULT_GRACE_SECONDS: i64 = 30;

impl Store {
    pub(super) fn delete(
        &mut self,
        writer: &Writer,
        key: &Key,
        how: &Deletion,
        dry_run: bool,
    ) -> Result<Outcome, Refusal> {
        self.served(key.kind)?;
        let Some(old) = self.get(key).map(Arc::clone) else { return Err(Refusal::not_found(key)) };
        preconditions(key, how, &old.object["metadata"])?;
        let mut new = (*old.object).clone();
        let left = remaining(key.kind, &old.object["metadata"], how);
        if left.is_empty() && new["metadata"]["finalizers"].is_array() {
            freed(key, how, &old.object["metadata"])?;
        }
        set_finalizers(&mut new["metadata"], left);
        let grace = if key.kind == Kind::Pod { pod_grace(&old.object, how) } else { 0 };
        let waits =
            grace > 0 || key.kind == Kind::Namespace || new["metadata"]["finalizers"].is_array();
        if !waits {
            let shown = if key.kind == Kind::Pod {
                mark(&mut new, writer, 0);
                Self::unstored(new)
            } else {
                Arc::clone(&old)
            };
            if dry_run {
                return Ok(Outcome::Deleted(shown));
            }
            self.remove_contents(writer, key, &old.object);
            self.remove(writer, key, Subresource::Main);
            return Ok(Outcome::Deleted(shown));
        }
        mark(&mut new, writer, grace);
        if key.kind == Kind::Namespace {
            new["status"]["phase"] = "Terminating".into();
            if let Some(meta) = new["metadata"].as_object_mut() {
                meta.remove("deletionGracePeriodSeconds");
            }
        }
        if new == *old.object {
            return Ok(Outcome::Deleting(old));
        }
        if dry_run {
            return Ok(Outcome::Deleting(Self::unstored(new)));
        }
        Ok(Outcome::Deleting(self.put(writer, key, Subresource::Main, new)))
    }

    /// With a CRD go the objects of its kind.
    fn remove_contents(&mut self, writer: &Writer, key: &Key, object: &Value) {
        if key.kind != Kind::CustomResourceDefinition {
            return;
        }
        let Ok(Some((kind, _))) = Custom::read(object) else { return };
        let keys: Vec<Key> =
            Self::of_kind(self.objects(), kind, "").map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.remove(writer, &key, Subresource::Main);
        }
        self.customs.remove(&kind);
    }
}

fn preconditions(key: &Key, how: &Deletion, meta: &Value) -> Result<(), Refusal> {
    let differs = |wanted: &Option<String>, field: &str| {
        let is = meta[field].as_str().unwrap_or_default();
        wanted.as_deref().filter(|wanted| *wanted != is).map(|wanted| (wanted.to_owned(), is))
    };
    if let Some((wanted, is)) = differs(&how.uid, "uid") {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({is}). The \
             object might have been deleted and then recreated"
        );
        return Err(Refusal::not_to_delete(key, &why));
    }
    if let Some((wanted, is)) = differs(&how.resource_version, RESOURCE_VERSION) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion \
             in record ({is}). The object might have been modified"
        );
        return Err(Refusal::not_to_delete(key, &why));
    }
    Ok(())
}

/// A deletion that takes the last finalizer away and names a version fails, and changes nothing: the
/// real server then compares the version with that of an object which it did not write.
fn freed(key: &Key, how: &Deletion, meta: &Value) -> Result<(), Refusal> {
    if how.resource_version.is_none() {
        return Ok(());
    }
    let is = meta[RESOURCE_VERSION].as_str().unwrap_or_default();
    Err(Refusal::precondition(key, "ResourceVersion", "", is))
}

/// The finalizers that a deletion leaves. What it says about dependents replaces what an earlier one
/// said; if it says nothing, that stands, and else what the kind does: a Job orphans its pods.
fn remaining(kind: Kind, meta: &Value, how: &Deletion) -> Vec<Value> {
    let names: Vec<Value> = meta["finalizers"].as_array().cloned().unwrap_or_default();
    let has = |name: &str| names.iter().any(|known| known == name);
    let (orphan, foreground) = match how.propagation {
        Some(Propagation::Orphan) => (true, false),
        Some(Propagation::Foreground) => (false, true),
        Some(Propagation::Background) => (false, false),
        None if has(ORPHAN) => (true, false),
        None if has(FOREGROUND) => (false, true),
        None => (kind == Kind::Job, false),
    };
    let others = names.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND).cloned();
    let mut left: Vec<Value> = others.collect();
    left.extend(orphan.then(|| ORPHAN.into()));
    left.extend(foreground.then(|| FOREGROUND.into()));
    let same = left.len() == names.len() && left.iter().all(|name| names.contains(name));
    if same { names } else { left }
}

fn set_finalizers(meta: &mut Value, names: Vec<Value>) {
    let Some(fields) = meta.as_object_mut() else { return };
    if names.is_empty() {
        fields.remove("finalizers");
    } else {
        fields.insert("finalizers".to_owned(), names.into());
    }
}

/// Seconds that a Pod still gets: none if no node has it or if it has ended, and never more than an
/// earlier deletion gave.
fn pod_grace(pod: &Value, how: &Deletion) -> i64 {
    let bound = pod["spec"]["nodeName"].as_str().is_some_and(|name| !name.is_empty());
    let ended = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
    if !bound || ended {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let wanted = how.grace_seconds.or(own).unwrap_or(DEFAULT_GRACE_SECONDS);
    pod["metadata"]["deletionGracePeriodSeconds"].as_i64().map_or(wanted, |given| given.min(wanted))
}

/// Says since when an object is to go.
fn mark(object: &mut Value, writer: &Writer, grace: i64) {
    let meta = &mut object["metadata"];
    let given = meta["deletionGracePeriodSeconds"].as_i64();
    let marked = meta["deletionTimestamp"].is_string();
    if marked && given.is_none_or(|given| given <= grace) {
        return;
    }
    if given.is_none()
        && let Some(generation) = meta["generation"].as_i64()
    {
        meta["generation"] = (generation + 1).into();
    }
    let end = writer.now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(writer.now);
    meta["deletionTimestamp"] = meta::time(end);
    meta["deletionGracePeriodSeconds"] = json!(grace);
}
