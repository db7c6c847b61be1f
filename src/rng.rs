//! The randomness of simulations and models: a seed gives the same numbers for ever.

use std::ops::RangeInclusive;

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): tiny, and
/// good enough to choose faults by. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own, for another purpose: what one draws does not move the other.
    #[must_use]
    pub fn fork(&self, purpose: u64) -> Self {
        let mut of = Self(self.0 ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self(of.draw())
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of the range, each about equally likely.
    pub fn of(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = (*range.start(), *range.end());
        let size = u128::from(high.saturating_sub(low)) + 1;
        // The product's upper half is below `size`, so it fits.
        let step = u64::try_from((u128::from(self.draw()) * size) >> 64).unwrap_or(0);
        low + step
    }

    /// True in `percent` of the cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.of(1..=100) <= percent
    }

    /// One of them; `None` of an empty slice.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let last = u64::try_from(from.len().checked_sub(1)?).ok()?;
        from.get(usize::try_from(self.of(0..=last)).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_numbers_for_ever() {
        // The reference implementation's first outputs for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let first = [rng.draw(), rng.draw(), rng.draw()];
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn ranges_include_both_ends_and_nothing_else() {
        let mut rng = Rng::new(1);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| rng.of(3..=5)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(rng.of(7..=7), 7);
        assert!(!rng.chance(0) && rng.chance(100));
        assert_eq!(rng.pick::<u8>(&[]), None);
    }

    #[test]
    fn a_fork_draws_by_itself() {
        let rng = Rng::new(9);
        assert_eq!(rng.fork(1).draw(), rng.fork(1).draw());
        assert_ne!(rng.fork(1).draw(), rng.fork(2).draw());
    }
}
