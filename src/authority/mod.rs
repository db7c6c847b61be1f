//! Who leads (Lease, epoch) and what counts (fence, permit, sealed objects).
//!
//! The Lease decides who works; the fence on the written object decides what counts. A [`Permit`]
//! says that this process leads now; a [`Sealed`] object says that this term owns it. Only both
//! together can produce a write that matters. `docs/contracts/authority.md` is the contract.

mod clock_guard;
pub mod config;
mod elector;
mod entropy;
pub mod lease;
mod permit;
mod quarantine;
mod watchdog;

pub use clock_guard::{ClockGuard, ClockSkew, DEFAULT_MAX_SKEW, Reading};
pub use config::{LeaseConfig, LeaseConfigError};
pub use elector::{DRAIN_TIMEOUT, Elector, ElectorHandle, Leadership, Setup};
pub use entropy::Entropy;
pub use lease::{Gained, LostReason};
pub use permit::{Fenced, Gate, NotLeading, Permit, Sealed, Term};
pub use quarantine::{Foreign, MAX_QUARANTINED, Quarantine, Quarantined};
pub use watchdog::Watchdog;
