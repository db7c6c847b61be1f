//! Start-time fair queueing over the slots of a queue.
//!
//! Goyal, Vin, Cheng: Start-time Fair Queueing, 1996, for a server of varying rate, here with many
//! slots. A tenant's *tag* is `max(v, f)`: the virtual time `v`, or its finish tag `f` if it was
//! served ahead of it. The waiting tenant with the smallest tag is next, and pays by moving its
//! finish tag on by the cost of the job divided by its weight. `v` follows the smallest tag of those
//! who wait, so a tenant that comes back neither has saved anything up nor owes what others did.
//!
//! Among equal tags the tenant that holds fewer slots is next. Without it the bound does not hold:
//! corrections of jobs admitted earlier could move a tenant's tag back to `v` again and again, and
//! with the older job it would win each tie.

mod accounts;
mod turns;

pub(crate) use accounts::{Accounts, units};
pub(crate) use turns::{Next, Turns};
