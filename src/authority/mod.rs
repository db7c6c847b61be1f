//! Who leads (Lease, epoch) and what counts (fence, permit, sealed objects).
//!
//! The Lease decides who works; the fence on the written object decides what counts. A [`Permit`]
//! says that this process leads now; a [`Sealed`] object says that this term owns it. Only both
//! together can produce a write that matters. `docs/contracts/authority.md` is the contract.

mod permit;

pub use permit::{Fenced, Gate, NotLeading, Permit, Sealed, Term};
