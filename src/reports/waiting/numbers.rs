//! Numbers by name, quick to look up among very many.

use hashbrown::HashTable;

/// The hash of a name, and the number of the name.
type Entry = (u32, u32);

/// The number of each name. The names themselves are elsewhere: whoever asks can tell whether a
/// number is that of the name.
///
/// A hash table: among 100,000 names a search touches one or two places of memory, where a tree would
/// touch twenty. Nothing goes through it in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers(HashTable<Entry>);

impl Numbers {
    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of a name; `is` says whether a number is that of this name.
    pub(super) fn get(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = upper(hash);
        self.0.find(spread(hash), |entry| entry.0 == hash && is(entry.1)).map(|entry| entry.1)
    }

    /// A name that had no number has this one.
    pub(super) fn insert(&mut self, hash: u64, number: u32) {
        let hash = upper(hash);
        self.0.insert_unique(spread(hash), (hash, number), |entry| spread(entry.0));
    }

    /// A name has that number no longer.
    pub(super) fn remove(&mut self, hash: u64, number: u32) {
        let hash = upper(hash);
        if let Ok(entry) = self.0.find_entry(spread(hash), |entry| entry.1 == number) {
            entry.remove();
        }
    }
}

/// The half of a hash that depends on all of the name.
fn upper(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or_default()
}

/// The same at both ends: the table takes its places from the low bits, and tells entries of one place
/// apart by the high ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sim::rng::Rng;

    /// Few hashes, some of them next to the end of the table.
    fn hash(name: u32) -> u64 {
        u64::from([0_u32, 1, 2, 14, 15, 15, 31, 31][name as usize % 8]) << 32
    }

    #[test]
    fn names_of_near_and_equal_hashes_are_told_apart_however_they_come_and_go() {
        for seed in 0..200 {
            let (mut rng, mut numbers) = (Rng::new(seed), Numbers::default());
            let mut known: BTreeMap<u32, u32> = BTreeMap::new();
            for step in 0..300 {
                let name = u32::try_from(rng.of(0..=23)).unwrap();
                if let Some(number) = known.remove(&name) {
                    numbers.remove(hash(name), number);
                } else {
                    known.insert(name, step);
                    numbers.insert(hash(name), step);
                }
                for name in 0..24 {
                    let number = known.get(&name).copied();
                    let found = numbers.get(hash(name), |found| Some(found) == number);
                    assert_eq!(found, number, "seed {seed}, step {step}, name {name}");
                }
                assert_eq!(numbers.len(), known.len());
                assert!(numbers.0.capacity() >= numbers.len());
            }
        }
    }
}
