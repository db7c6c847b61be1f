//! Exhaustive models of the protocols that keep work from running twice.
//!
//! A model is a small world of objects, processes and requests under way, in which everything that
//! may happen does happen, in every order: leaders never stop, however stale; a Lease may be taken
//! over at any moment, so no proof rests on a clock; every request may be late, and some arrive
//! twice. The checker visits every state within the bounds. Each model is the protocol as it is
//! implemented, with its guards as fields; taking one away must lead to a violation, so that the
//! model shows what each guard is for and is itself shown to notice.
//!
//! `docs/decisions/0017-exhaustive-models.md` says what is modelled, what is not, and why the bounds
//! suffice. `PUNCTUAL_MODEL_BOUNDS=large` explores further; `--nocapture` prints the numbers.

#![expect(
    clippy::struct_excessive_bools,
    clippy::option_option,
    clippy::match_same_arms,
    clippy::trivially_copy_pass_by_ref,
    reason = "guards and facts are yes or no; each case of a decision stands by itself"
)]

#[path = "model/claim.rs"]
mod claim;
#[path = "model/explore.rs"]
mod explore;
#[path = "model/fence.rs"]
mod fence;
#[path = "model/lease.rs"]
mod lease;
#[path = "model/release.rs"]
mod release;
