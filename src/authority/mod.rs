//! Who leads (Lease, epoch) and what counts (fence, permit, sealed objects).
//!
//! The Lease decides who works; the fence on the written object decides what counts. A [`Permit`]
//! says that this process leads now; a [`Sealed`] object says that this term owns it. Only both
//! together can produce a write that matters. `docs/contracts/authority.md` is the contract.

pub mod config;
mod entropy;
pub mod lease;
mod permit;

pub use config::{LeaseConfig, LeaseConfigError};
pub use entropy::Entropy;
pub use lease::{Gained, LostReason};
pub use permit::{Fenced, Gate, NotLeading, Permit, Sealed, Term};
