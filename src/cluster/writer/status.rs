//! Status writes: the seal and everything after it.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError},
};

use serde_json::Value;

use super::{FencedWriter, Identity, Verb, WriteError, post_params};
use crate::{
    api::Fence,
    authority::{Fenced, Permit, Sealed},
    cluster::{ApiError, Object, kind_of, reader},
};

impl FencedWriter {
    /// Writes the status of `next` over `read`, the version the decision was made from, and with it
    /// this term's fence. If `read` was not sealed in this term, this is the seal.
    ///
    /// Nothing is sent if it would change nothing. After an unknown outcome the object is read: it
    /// counts as written only if it carries this fence and exactly this status.
    ///
    /// The first status write of each kind in a term is followed by a trial: a dry run of the same
    /// write under an older epoch, which the API server must refuse. If it accepts, leadership is
    /// given up at once. Until the trial succeeded no other status write of the kind is sent.
    pub async fn write_status<K: Object + Fenced>(
        &self,
        permit: &Permit,
        read: &K,
        next: K,
    ) -> Result<Sealed<K>, WriteError> {
        let epoch = permit.term().epoch;
        if self.fence_works::<K>(epoch) {
            return self.put_status(permit, read, next).await;
        }
        let trial = self.trial_of::<K>();
        let _turn = trial.lock().await; // one seals first, the others of the kind wait
        let sealed = self.put_status(permit, read, next).await?;
        if !self.fence_works::<K>(epoch) {
            self.try_fence(permit, &sealed).await?;
        }
        Ok(sealed)
    }

    fn enforced(&self) -> MutexGuard<'_, BTreeMap<&'static str, i64>> {
        self.enforced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trial_of<K: Object>(&self) -> Arc<tokio::sync::Mutex<()>> {
        let mut trials = self.trials.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(trials.entry(kind_of::<K>()).or_default())
    }

    /// Whether the API server was seen to enforce the fence of this kind in this term.
    fn fence_works<K: Object>(&self, epoch: i64) -> bool {
        self.enforced().get(kind_of::<K>()) == Some(&epoch)
    }

    async fn put_status<K: Object + Fenced>(
        &self,
        permit: &Permit,
        read: &K,
        mut next: K,
    ) -> Result<Sealed<K>, WriteError> {
        let identity = Identity::of(read)?;
        let fence = permit.term().fence();
        refuse_foreign(read.fence(), &fence)?;
        next.set_fence(fence);
        let wanted = status_of(&next)?;
        permit.check()?;
        if status_of(read)? == wanted {
            return Sealed::of(permit, read.clone()).map_err(|_| WriteError::FenceNotKept);
        }
        *next.meta_mut() = identity.metadata();
        let api = self.api::<K>(&identity.key);
        let params = post_params(false);
        let call = api.replace_status(&identity.key.name, &params, &next);
        let written = match self.send::<K, _>(Verb::UpdateStatus, call).await {
            Err(error) if error.is_outcome_unknown() => {
                let seen = reader::get(&api, &identity.key.name).await.ok().flatten();
                seen.filter(|seen: &K| seen.meta().uid.as_deref() == Some(&identity.uid))
                    .filter(|seen| status_of(seen).is_ok_and(|status| status == wanted))
                    .ok_or(error)?
            }
            outcome => outcome?,
        };
        Sealed::of(permit, written).map_err(|_| WriteError::FenceNotKept)
    }

    /// Whether the API server refuses an older epoch on this object. Only its refusal by the fence
    /// rule counts; any other answer leaves the question open.
    async fn try_fence<K: Object + Fenced>(
        &self,
        permit: &Permit,
        sealed: &Sealed<K>,
    ) -> Result<(), WriteError> {
        let identity = Identity::of(&**sealed)?;
        let term = permit.term();
        let mut stale = (**sealed).clone();
        stale.set_fence(Fence { epoch: term.epoch - 1, nonce: term.nonce.clone() });
        *stale.meta_mut() = identity.metadata();
        let api = self.api::<K>(&identity.key);
        let params = post_params(true);
        permit.check()?;
        let call = api.replace_status(&identity.key.name, &params, &stale);
        let kind = kind_of::<K>();
        match self.send::<K, _>(Verb::DryRun, call).await {
            Err(ApiError::FenceRefused) => {
                self.enforced().insert(kind, term.epoch);
                Ok(())
            }
            Ok(_) => {
                permit.gate().lose();
                Err(WriteError::FenceNotEnforced { kind })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Refuses an object that a newer term sealed, or another holder of the same epoch.
fn refuse_foreign(stored: Option<&Fence>, mine: &Fence) -> Result<(), WriteError> {
    match stored {
        Some(stored)
            if stored.epoch > mine.epoch
                || (stored.epoch == mine.epoch && stored.nonce != mine.nonce) =>
        {
            Err(WriteError::ForeignFence { fence: stored.clone() })
        }
        Some(_) | None => Ok(()),
    }
}

/// The status as JSON, by which two versions are compared.
fn status_of<K: Object>(object: &K) -> Result<Value, WriteError> {
    let mut json = serde_json::to_value(object)
        .map_err(|error| WriteError::Api(ApiError::Unsendable { message: error.to_string() }))?;
    Ok(json.get_mut("status").map_or(Value::Null, Value::take))
}
