//! Garbage collection: what is owned goes with its owner, before it or after it.

use serde_json::{Value, json};

use super::{
    COLLECTOR, Inner, Step, has_finalizer, is_deleting, key_of, uid_of, without_finalizer,
};
use crate::sim::{
    Key, Kind,
    api::{Deletion, Propagation, Request},
};

/// Finalizer of an object that waits for what it owns.
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object that leaves behind what it owns.
const ORPHAN: &str = "orphan";

impl Inner {
    /// An owner is gone: what it owned is garbage.
    pub(super) fn owner_gone(&self, owner: Option<&Value>) {
        let Some(uid) = owner.and_then(uid_of) else { return };
        for key in self.owned_by(uid) {
            self.as_garbage(Step::Collect(key));
        }
    }

    /// An object that is being deleted may wait for what it owns.
    pub(super) fn dependents(&self, key: &Key, object: Option<&Value>) {
        if object.is_some_and(is_deleting) {
            self.as_garbage(Step::Dependents(key.clone()));
        }
    }

    fn owned_by(&self, uid: &str) -> Vec<Key> {
        let owned = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == uid))
        };
        let mut keys = Vec::new();
        for kind in [Kind::Job, Kind::Pod] {
            let objects = self.model.list(kind);
            let of = objects.iter().filter(|object| owned(object));
            keys.extend(of.map(|object| key_of(kind, object)));
        }
        keys
    }

    /// Deletes an object whose owner is gone.
    pub(super) fn collect(&self, key: &Key) {
        let Some(object) = self.model.get(key).filter(|object| !is_deleting(object)) else {
            return;
        };
        let owners = object["metadata"]["ownerReferences"].as_array();
        let Some(owner) = owners.and_then(|owners| owners.first()) else { return };
        let (kind, name) = (owner["kind"].as_str(), owner["name"].as_str());
        let Some(kind) = kind.and_then(Kind::named) else { return };
        let there = self.model.get(&Key::new(kind, &*key.namespace, name.unwrap_or_default()));
        if there.is_some_and(|there| owner["uid"] == there["metadata"]["uid"]) {
            return;
        }
        let how = Deletion {
            uid: uid_of(&object).map(ToOwned::to_owned),
            propagation: Some(Propagation::Background),
            ..Deletion::default()
        };
        self.write(COLLECTOR, Request::delete(key, how));
    }

    /// Lets an object go once what it owns is gone, or is its own.
    pub(super) fn look_at_dependents(&self, key: &Key) {
        let Some(object) = self.model.get(key).filter(|object| is_deleting(object)) else { return };
        let Some(uid) = uid_of(&object) else { return };
        let owned = self.owned_by(uid);
        let done = if has_finalizer(&object, ORPHAN) {
            for one in owned {
                let patch = json!({"metadata": {"ownerReferences": null}});
                self.write(COLLECTOR, Request::patch(&one, patch));
            }
            ORPHAN
        } else if has_finalizer(&object, FOREGROUND) {
            let mut left = false;
            for one in owned {
                left = true;
                if self.model.get(&one).is_some_and(|object| !is_deleting(&object)) {
                    self.write(COLLECTOR, Request::delete(&one, Deletion::default()));
                }
            }
            if left {
                return; // looked at again when one of them goes
            }
            FOREGROUND
        } else {
            return;
        };
        let patch = json!({"metadata": {"finalizers": without_finalizer(&object, done)}});
        self.write(COLLECTOR, Request::patch(key, patch));
    }
}
