//! Names of tenants, quick to look up.

use std::{
    fmt,
    hash::{DefaultHasher, Hasher as _},
    ops::Deref,
    sync::Arc,
};

/// A name that is compared by a number first: a search among thousands then touches few places of
/// memory. Its order is no order that people or decisions know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    hash: u64,
    text: Arc<str>,
}

/// A number for a name. Only equality of names decides anything, so any function will do.
pub(crate) fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self { hash: hash(text), text: text.into() }
    }
}

impl Default for Name {
    fn default() -> Self {
        "".into()
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
