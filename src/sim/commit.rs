//! One change of the model's store.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::Key;

/// What a commit did to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// It came.
    Create,
    /// It changed, by PUT or PATCH.
    Update,
    /// It went.
    Delete,
}

/// One committed write: what every invariant is judged on.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The store's revision after it; strictly increasing.
    pub revision: u64,
    /// Virtual time since the start of the history.
    pub at: Duration,
    /// Who wrote: a replica (`r0`), `person`, `job-controller`, `node`, `garbage-collector`.
    pub by: Arc<str>,
    /// What it did.
    pub verb: Verb,
    /// The subresource written, `status` or empty.
    pub subresource: &'static str,
    /// Which object.
    pub key: Key,
    /// The object before; absent for a creation.
    pub old: Option<Arc<Value>>,
    /// The object after; absent for a deletion.
    pub new: Option<Arc<Value>>,
}
