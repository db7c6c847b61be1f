//! Numbers by name, quick to look up among very many.

/// Places of the table of the first names.
const FIRST: usize = 16;
/// No number: a place that is free.
const FREE: u32 = u32::MAX;

/// A hash and the number of the name that has it.
type Place = (u32, u32);

/// The number of each name. The names themselves are elsewhere: whoever asks can tell whether a
/// number is that of the name.
///
/// An open table with linear probing, half full at most: among 100,000 names a search touches one
/// or two places of memory, where a tree would touch twenty. Nothing goes through it in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// As many as a power of two; none at first.
    places: Vec<Place>,
    len: usize,
}

impl Numbers {
    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of a name; `is` says whether a number is that of this name.
    pub(super) fn get(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = upper(hash);
        self.find(hash, |place| place.0 == hash && is(place.1)).map(|at| self.places[at].1)
    }

    /// A name that had no number has this one.
    pub(super) fn insert(&mut self, hash: u64, number: u32) {
        if self.places.len() <= 2 * self.len {
            let twice = FIRST.max(2 * self.places.len());
            let before = std::mem::replace(&mut self.places, vec![(0, FREE); twice]);
            for (hash, number) in before.into_iter().filter(|place| place.1 != FREE) {
                self.put(hash, number);
            }
        }
        self.put(upper(hash), number);
        self.len += 1;
    }

    /// A name has that number no longer.
    pub(super) fn remove(&mut self, hash: u64, number: u32) {
        let Some(mut free) = self.find(upper(hash), |place| place.1 == number) else { return };
        self.len -= 1;
        // What was pushed on by the one that goes moves up, so that no search ends too early.
        let mut at = self.after(free);
        while self.places[at].1 != FREE {
            let home = self.home(self.places[at].0);
            if self.distance(home, at) >= self.distance(free, at) {
                self.places[free] = self.places[at];
                free = at;
            }
            at = self.after(at);
        }
        self.places[free] = (0, FREE);
    }

    fn put(&mut self, hash: u32, number: u32) {
        let mut at = self.home(hash);
        while self.places[at].1 != FREE {
            at = self.after(at);
        }
        self.places[at] = (hash, number);
    }

    /// The first place from the hash's own on, up to a free one, that is wanted.
    fn find(&self, hash: u32, wanted: impl Fn(&Place) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        while self.places[at].1 != FREE {
            if wanted(&self.places[at]) {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }
}

/// The half of a hash that depends on all of the name.
fn upper(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or_default()
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
                assert!(numbers.places.len() >= 2 * numbers.len());
            }
        }
    }
}
