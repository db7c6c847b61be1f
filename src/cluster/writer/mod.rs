//! The only way to write.
//!
//! Every write carries a precondition and is made under a [`Permit`] that is checked right before it
//! is sent. None is retried in here: after an unknown outcome the object is read and compared, and
//! whoever called decides anew. The rules are those of `docs/contracts/authority.md`.

mod status;

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ApiError, FIELD_MANAGER, Object, ObjectKey, kind_of, reader};
use crate::{
    api::{ANNOTATION_EPOCH, ANNOTATION_RELEASED, Fence},
    authority::{NotLeading, Permit, Sealed},
};

/// Deadline of one write. Long for an API server in good health (milliseconds), so that it is not
/// the deadline that makes outcomes unknown; short against the minutes a run takes.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// POST.
    Create,
    /// PUT of a status.
    UpdateStatus,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
    /// POST or PUT that changes nothing.
    DryRun,
}

impl Verb {
    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::UpdateStatus => "update_status",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DryRun => "dry_run",
        }
    }
}

/// Is told about every request that the writer sent.
pub trait WriteObserver: Send + Sync {
    /// `result` is `ok` or the category of the [`ApiError`].
    fn wrote(&self, verb: Verb, kind: &'static str, result: &'static str);
}

/// Counts nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoObserver;

impl WriteObserver for NoObserver {
    fn wrote(&self, _: Verb, _: &'static str, _: &'static str) {}
}

/// Why a write did not happen, or is not known to have happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// This process does not lead; nothing was sent.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The object was sealed by a newer term, or by another holder of this epoch; nothing was sent.
    #[error("the object carries the fence of another term (epoch {}), not this one's", .fence.epoch)]
    ForeignFence {
        /// The fence it carries.
        fence: Fence,
    },
    /// The object lacks what a precondition needs; nothing was sent.
    #[error("the object has no {field}, so the write would have no precondition")]
    Incomplete {
        /// What it lacks.
        field: &'static str,
    },
    /// The write was answered, but the answer does not carry this term's fence: the schema on the
    /// server drops it.
    #[error("the API server did not keep status.fence")]
    FenceNotKept,
    /// The API server accepts the fence of an older term, so nothing would hold a stale leader off.
    /// Leadership was given up.
    #[error("the API server does not enforce the fence of {kind}: install this version's CRDs")]
    FenceNotEnforced {
        /// The kind.
        kind: &'static str,
    },
    /// The API server says no, or nobody knows whether it said yes.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl WriteError {
    /// One word for metrics and logs.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotLeading(_) => "not_leading",
            Self::ForeignFence { .. } => "foreign_fence",
            Self::Incomplete { .. } => "incomplete",
            Self::FenceNotKept => "fence_not_kept",
            Self::FenceNotEnforced { .. } => "fence_not_enforced",
            Self::Api(error) => error.category(),
        }
    }
}

/// What a create came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Created<K> {
    /// It was created by this call.
    New(K),
    /// It was there, or nobody knows who created it; read live.
    Existing(K),
}

impl<K> Created<K> {
    /// The object, whoever created it.
    pub fn into_inner(self) -> K {
        match self {
            Self::New(object) | Self::Existing(object) => object,
        }
    }
}

/// What a delete came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The API server took it; the object may stay until its dependents are gone.
    Accepted,
    /// There is no such object (any more).
    Gone,
}

/// The only way to write.
pub struct FencedWriter {
    client: Client,
    observer: Box<dyn WriteObserver>,
    /// For each kind the newest epoch in which the API server was seen to enforce the fence.
    enforced: Mutex<BTreeMap<&'static str, i64>>,
    /// For each kind, held while its fence is tried. Kinds do not wait for each other.
    trials: Mutex<BTreeMap<&'static str, Arc<tokio::sync::Mutex<()>>>>,
}

impl FencedWriter {
    pub(super) fn new(client: Client, observer: Box<dyn WriteObserver>) -> Self {
        Self { client, observer, enforced: Mutex::default(), trials: Mutex::default() }
    }

    fn api<K: Object>(&self, key: &ObjectKey) -> Api<K> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    /// Sends one request with the deadline and tells the observer.
    async fn send<K: Object, T>(
        &self,
        verb: Verb,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        let outcome = match timeout(WRITE_TIMEOUT, Box::pin(call)).await {
            Ok(answer) => answer.map_err(ApiError::from),
            Err(_) => Err(ApiError::deadline()),
        };
        let result = outcome.as_ref().err().map_or("ok", ApiError::category);
        self.observer.wrote(verb, kind_of::<K>(), result);
        outcome
    }

    /// Creates an object under its own name. What is created is inert until a sealed parent records
    /// its uid, because a create has no older version to compare.
    ///
    /// An object that exists is read and given back; whether it is the wanted one is for the caller
    /// to judge. After an unknown outcome the same, since nobody knows who created it.
    pub async fn create<K: Object>(
        &self,
        permit: &Permit,
        object: &K,
    ) -> Result<Created<K>, WriteError> {
        let mut object = object.clone();
        let key = named(&object)?;
        let annotations = object.meta_mut().annotations.get_or_insert_default();
        annotations.insert(ANNOTATION_EPOCH.to_owned(), permit.term().epoch.to_string());
        let api: Api<K> = self.api(&key);
        let params = post_params(false);
        permit.check()?;
        match self.send::<K, _>(Verb::Create, api.create(&params, &object)).await {
            Ok(created) => Ok(Created::New(created)),
            Err(error) if error == ApiError::AlreadyExists || error.is_outcome_unknown() => {
                let seen = reader::get(&api, &key.name).await.ok().flatten();
                Ok(Created::Existing(seen.ok_or(error)?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the API server whether it would create the object, without creating it.
    pub async fn dry_run_create<K: Object>(&self, object: &K) -> Result<K, WriteError> {
        let key = named(object)?;
        let api: Api<K> = self.api(&key);
        let params = post_params(true);
        Ok(self.send::<K, _>(Verb::DryRun, api.create(&params, object)).await?)
    }

    /// Applies a JSON merge patch to a child of a sealed parent, at exactly the version given.
    ///
    /// After an unknown outcome the child is read: the patch counts as applied only if applying it
    /// again would change nothing.
    pub async fn patch_child<P, K: Object>(
        &self,
        parent: &Sealed<P>,
        child: &K,
        mut patch: Value,
    ) -> Result<K, WriteError> {
        let identity = Identity::of(child)?;
        let wanted = patch.clone();
        merge(
            &mut patch,
            &json!({"metadata": {
                "uid": identity.uid, "resourceVersion": identity.resource_version,
            }}),
        );
        let api: Api<K> = self.api(&identity.key);
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(&patch);
        parent.permit().check()?;
        let call = api.patch(&identity.key.name, &params, &patch);
        match self.send::<K, _>(Verb::Patch, call).await {
            Err(error) if error.is_outcome_unknown() => {
                let seen = reader::get(&api, &identity.key.name).await.ok().flatten();
                let applied = seen
                    .filter(|seen: &K| seen.meta().uid.as_deref() == Some(&identity.uid))
                    .filter(|seen| carries(seen, &wanted));
                Ok(applied.ok_or(error)?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Lets a committed Job run: one PATCH that takes the suspension away and records the epoch.
    pub async fn release_job<P>(&self, parent: &Sealed<P>, job: &Job) -> Result<Job, WriteError> {
        let epoch = parent.permit().term().epoch.to_string();
        let patch = json!({
            "metadata": {"annotations": {ANNOTATION_RELEASED: epoch}},
            "spec": {"suspend": false},
        });
        self.patch_child(parent, job, patch).await
    }

    /// Takes over a Job that an earlier term prepared: writes the own epoch on it.
    pub async fn adopt_job<P>(&self, parent: &Sealed<P>, job: &Job) -> Result<Job, WriteError> {
        let epoch = parent.permit().term().epoch.to_string();
        let patch = json!({"metadata": {"annotations": {ANNOTATION_EPOCH: epoch}}});
        self.patch_child(parent, job, patch).await
    }

    /// Deletes exactly the version given.
    pub async fn delete<K: Object>(
        &self,
        permit: &Permit,
        read: &K,
        propagation: PropagationPolicy,
    ) -> Result<Deletion, WriteError> {
        let identity = Identity::of(read)?;
        let params = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions {
                uid: Some(identity.uid.clone()),
                resource_version: Some(identity.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let api: Api<K> = self.api(&identity.key);
        permit.check()?;
        let call = api.delete(&identity.key.name, &params);
        let error = match self.send::<K, _>(Verb::Delete, call).await {
            Ok(_) => return Ok(Deletion::Accepted),
            Err(ApiError::NotFound) => return Ok(Deletion::Gone),
            Err(error) if error.is_outcome_unknown() => error,
            Err(error) => return Err(error.into()),
        };
        match reader::get(&api, &identity.key.name).await {
            Ok(None) => Ok(Deletion::Gone),
            Ok(Some(seen)) if seen.meta().uid.as_deref() != Some(&identity.uid) => {
                Ok(Deletion::Gone)
            }
            Ok(Some(seen)) if seen.meta().deletion_timestamp.is_some() => Ok(Deletion::Accepted),
            Ok(Some(_)) | Err(_) => Err(error.into()),
        }
    }
}

/// What a precondition needs of an object.
struct Identity {
    key: ObjectKey,
    uid: String,
    resource_version: String,
}

impl Identity {
    fn of<K: Object>(object: &K) -> Result<Self, WriteError> {
        let meta = object.meta();
        let part = |value: &Option<String>, field| {
            let value = value.clone().filter(|value| !value.is_empty());
            value.ok_or(WriteError::Incomplete { field })
        };
        Ok(Self {
            key: named(object)?,
            uid: part(&meta.uid, "metadata.uid")?,
            resource_version: part(&meta.resource_version, "metadata.resourceVersion")?,
        })
    }

    /// Metadata that say which version of which object, and nothing else.
    fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(self.key.namespace.clone()),
            name: Some(self.key.name.clone()),
            uid: Some(self.uid.clone()),
            resource_version: Some(self.resource_version.clone()),
            ..ObjectMeta::default()
        }
    }
}

/// The key of an object that has a name of its own.
fn named<K: Object>(object: &K) -> Result<ObjectKey, WriteError> {
    let key = ObjectKey::of(object.meta());
    if key.name.is_empty() {
        return Err(WriteError::Incomplete { field: "metadata.name" });
    }
    if key.namespace.is_empty() {
        return Err(WriteError::Incomplete { field: "metadata.namespace" });
    }
    Ok(key)
}

fn post_params(dry_run: bool) -> PostParams {
    PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) }
}

/// JSON merge patch, RFC 7396 section 2.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    if let Value::Object(target) = target {
        for (name, value) in patch {
            if value.is_null() {
                target.remove(name);
            } else {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
    }
}

/// Whether a merge patch would change nothing about the object.
fn carries<K: Object>(object: &K, patch: &Value) -> bool {
    let Ok(live) = serde_json::to_value(object) else { return false };
    let mut patched = live.clone();
    merge(&mut patched, patch);
    patched == live
}

#[cfg(test)]
mod tests;
