//! Recovery: what a new leader finds, and what it knows of it once every piece of work is accounted
//! for.
//!
//! * [`classify`]: pure. From the durable state at takeover and the provider's answer to one of four
//!   classes.
//! * [`trace`]: pure. Counts, and writes the record of the term from what was counted.
//! * [`keeper`]: creates the record when the term begins, completes it, and keeps the last ones.
//!
//! Nothing here decides what happens to a piece of work: the controllers do, from the same durable
//! state as on any other day. Recovery looks over their shoulder. So a record that cannot be written
//! stops nothing. `docs/contracts/recovery.md` is the contract.

pub mod classify;
pub mod keeper;
pub mod trace;

pub use classify::{Found, Item, Verdict};
pub use keeper::{Beginning, Keeper, Recovery};
pub use trace::Tally;
