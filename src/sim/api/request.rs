//! The writes of the model, in one form for HTTP requests and for steps that need no client.

use serde_json::Value;

use crate::sim::{Key, Kind};

/// What part of an object a write is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subresource {
    /// The object itself.
    #[default]
    Main,
    /// Its status.
    Status,
}

impl Subresource {
    /// The word in paths and in a [`crate::sim::Commit`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
        }
    }
}

/// What a deletion does to the objects that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go first; it stays until they are gone.
    Foreground,
    /// They stay.
    Orphan,
}

/// How a deletion is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Only an object with this uid.
    pub uid: Option<String>,
    /// Only this version.
    pub resource_version: Option<String>,
    /// What happens to what it owns; by default what its kind does.
    pub propagation: Option<Propagation>,
    /// Seconds that a Pod gets to end; by default its own.
    pub grace_seconds: Option<i64>,
}

/// A write.
#[derive(Clone, Debug)]
pub enum Request {
    /// POST.
    Create {
        /// Of which kind.
        kind: Kind,
        /// Where.
        namespace: String,
        /// What.
        object: Value,
        /// Check everything, store nothing.
        dry_run: bool,
    },
    /// PUT.
    Update {
        /// Which object.
        key: Key,
        /// Which part of it.
        subresource: Subresource,
        /// What it becomes.
        object: Value,
        /// Check everything, store nothing.
        dry_run: bool,
    },
    /// PATCH with a JSON merge patch.
    Patch {
        /// Which object.
        key: Key,
        /// Which part of it.
        subresource: Subresource,
        /// RFC 7396.
        patch: Value,
        /// Check everything, store nothing.
        dry_run: bool,
    },
    /// DELETE.
    Delete {
        /// Which object.
        key: Key,
        /// How.
        how: Deletion,
        /// Check everything, store nothing.
        dry_run: bool,
    },
}

impl Request {
    /// A new object in `namespace`.
    pub fn create(kind: Kind, namespace: &str, object: Value) -> Self {
        Self::Create { kind, namespace: namespace.to_owned(), object, dry_run: false }
    }

    /// The object becomes `object`, at exactly the version that it names.
    pub fn update(key: &Key, object: Value) -> Self {
        let (key, subresource) = (key.clone(), Subresource::Main);
        Self::Update { key, subresource, object, dry_run: false }
    }

    /// Its status becomes that of `object`, at exactly the version that it names.
    pub fn update_status(key: &Key, object: Value) -> Self {
        let (key, subresource) = (key.clone(), Subresource::Status);
        Self::Update { key, subresource, object, dry_run: false }
    }

    /// A JSON merge patch.
    pub fn patch(key: &Key, patch: Value) -> Self {
        let (key, subresource) = (key.clone(), Subresource::Main);
        Self::Patch { key, subresource, patch, dry_run: false }
    }

    /// A JSON merge patch of the status.
    pub fn patch_status(key: &Key, patch: Value) -> Self {
        let (key, subresource) = (key.clone(), Subresource::Status);
        Self::Patch { key, subresource, patch, dry_run: false }
    }

    /// A deletion.
    pub fn delete(key: &Key, how: Deletion) -> Self {
        Self::Delete { key: key.clone(), how, dry_run: false }
    }
}
