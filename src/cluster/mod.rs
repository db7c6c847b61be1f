//! The only room that talks to the API server.
//!
//! * [`Clients`] builds the connections: one for work, one for watches, one for the Lease. None of
//!   them retries by itself, and none of them leaves this room.
//! * [`Reader`] reads, [`FencedWriter`] writes. Every call has a deadline, every write a permit and
//!   a precondition; nothing is resent blindly.
//! * [`Cache`] follows a kind by watch, [`Queue`] says what to look at next.

mod cache;
mod client;
mod error;
mod events;
mod fence_check;
mod lease_api;
mod object;
mod person;
mod queue;
mod reader;
mod templates;
mod writer;

pub use cache::{Cache, Change, Listener, Lookup, Scope};
pub use client::Clients;
pub use error::ApiError;
pub use events::EventSender;
pub use fence_check::{FenceCheck, Gap, check_fence};
pub use lease_api::{Answered, LeaseApi};
pub(crate) use object::kind_of;
pub use object::{Object, ObjectKey, Raw, resource_version};
pub use person::Person;
pub use queue::{Queue, run_workers};
pub use reader::{Listed, Reader, Unreadable};
pub use templates::Templates;
pub use writer::{Created, Deletion, FencedWriter, NoObserver, Verb, WriteError, WriteObserver};

#[cfg(test)]
pub(crate) mod fake;

/// Name under which the API server records the fields that the operator sets.
pub const FIELD_MANAGER: &str = "punctual";
