//! Numbers by name, quick to look up among very many.

use std::{collections::BTreeMap, sync::Arc};

/// The number of each name.
///
/// Hashes are compared, not texts: a search then touches few places of memory. A name whose hash is
/// that of another is kept by its text.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    by_hash: BTreeMap<u64, u32>,
    alike: BTreeMap<Arc<str>, u32>,
}

impl Numbers {
    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.by_hash.len() + self.alike.len()
    }

    /// The number of a name; `is` says whether a number is that of this name.
    pub(super) fn get(&self, hash: u64, name: &str, is: impl FnOnce(u32) -> bool) -> Option<u32> {
        let found = self.by_hash.get(&hash).copied().filter(|number| is(*number));
        found.or_else(|| self.alike.get(name).copied())
    }

    /// The name, which had none, has this number.
    pub(super) fn insert(&mut self, hash: u64, name: &Arc<str>, number: u32) {
        if *self.by_hash.entry(hash).or_insert(number) != number {
            self.alike.insert(Arc::clone(name), number);
        }
    }

    /// The name has that number no longer.
    pub(super) fn remove(&mut self, hash: u64, name: &str, number: u32) {
        if self.by_hash.get(&hash) == Some(&number) {
            self.by_hash.remove(&hash);
        } else {
            self.alike.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_hash_are_told_apart_in_whatever_order_they_go() {
        let names: [Arc<str>; 3] = ["a", "b", "c"].map(Into::into);
        for first in 0..3_u32 {
            let mut numbers = Numbers::default();
            for (number, name) in (0..).zip(&names) {
                numbers.insert(7, name, number);
            }
            let get = |numbers: &Numbers, of: u32| {
                numbers.get(7, &names[of as usize], |number| number == of)
            };
            numbers.remove(7, &names[first as usize], first);
            for of in 0..3 {
                assert_eq!(get(&numbers, of), (of != first).then_some(of), "{first} went");
            }
            numbers.insert(7, &names[first as usize], first);
            assert_eq!([0, 1, 2].map(|of| get(&numbers, of)), [Some(0), Some(1), Some(2)]);
            assert_eq!(numbers.len(), 3);
            for of in 0..3 {
                numbers.remove(7, &names[of as usize], of);
            }
            assert_eq!(numbers.len(), 0);
        }
    }
}
