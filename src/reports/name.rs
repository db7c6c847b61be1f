//! Names of tenants, quick to look up.

use std::{fmt, ops::Deref, sync::Arc};

/// A name that is compared by a number first: a search among thousands then touches few places of
/// memory. Its order is no order that people or decisions know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    hash: u64,
    text: Arc<str>,
}

/// A number for a name. Only equality of names decides anything, and names of one number are told
/// apart by their text, so any quick function will do: here eight bytes at a time are mixed in by a
/// multiplication with an odd constant (2^64 divided by the golden ratio).
pub(crate) fn hash(name: &str) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let all = words.iter().chain([&last]);
    all.fold(name.len() as u64, |hash, word| {
        (hash.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(ODD)
    })
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self { hash: hash(text), text: text.into() }
    }
}

impl From<&Arc<str>> for Name {
    fn from(text: &Arc<str>) -> Self {
        Self { hash: hash(text), text: Arc::clone(text) }
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
