//! Where nonces come from.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::identity::{hex, sha256_hex};

/// Bytes of a nonce: enough that two never meet.
const NONCE_BYTES: usize = 16;

/// A source of randomness; clones share it.
#[derive(Clone, Debug)]
pub struct Entropy(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The operating system.
    System,
    /// A seed and a counter: the same nonces in every run, for tests and the simulation.
    Seeded(u64, Arc<AtomicU64>),
}

impl Entropy {
    /// The operating system's.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// One that repeats itself. Different processes need different seeds.
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(seed, Arc::default()))
    }

    /// A fresh nonce: 32 hex digits.
    ///
    /// # Panics
    /// If the operating system has no randomness to give, which no supported one does after boot.
    pub fn nonce(&self) -> String {
        match &self.0 {
            Source::System => {
                let mut bytes = [0; NONCE_BYTES];
                let flags = rustix::rand::GetRandomFlags::empty();
                let filled =
                    rustix::io::retry_on_intr(|| rustix::rand::getrandom(&mut bytes, flags))
                        .expect("Linux gives randomness to every process once it has booted");
                assert_eq!(filled, NONCE_BYTES, "up to 256 bytes are given whole");
                hex(&bytes)
            }
            Source::Seeded(seed, counter) => {
                let count = counter.fetch_add(1, Ordering::Relaxed);
                let mut digits = sha256_hex(format!("nonce {seed} {count}").as_bytes());
                digits.truncate(2 * NONCE_BYTES);
                digits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_differ_and_seeds_repeat() {
        let system = Entropy::system();
        assert_ne!(system.nonce(), system.nonce());
        assert_eq!(system.nonce().len(), 2 * NONCE_BYTES);
        let (a, b) = (Entropy::seeded(1), Entropy::seeded(1));
        let first = a.nonce();
        assert_eq!(first, b.nonce());
        assert_eq!(first.len(), 2 * NONCE_BYTES);
        assert_ne!(first, a.clone().nonce(), "a clone goes on, it does not start again");
        assert_ne!(first, Entropy::seeded(2).nonce());
    }
}
