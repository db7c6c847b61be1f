//! The API server, in memory: what the operator and the people around it use of it, as the real one
//! does it.
//!
//! ```text
//!   HTTP ──> Server (lag, stale view) ──> Call ──> Request ──┐
//!   step, controller of the model ────────────────> Request ─┴─> decode, check ──> Store ──> Commit
//!                                                                 │                  │
//!                                      schema, twins, kinds, meta ┘                  └─> watches
//! ```
//!
//! One [`Model`] is one store with one counter of revisions. Its [`Server`]s answer requests over
//! HTTP; several of them show the same store with different delays. Writes without a client are
//! [`Request`]s, with the same checks in the same order.
//!
//! Nothing here draws random numbers, reads a clock other than the one given, or depends on the
//! order of a hash map: one order of requests is one history. A parity suite runs one table of
//! operations against this model and against a real kube-apiserver.

mod body;
mod custom;
mod delete;
mod formats;
mod http;
mod job;
mod kinds;
mod list;
mod merge;
mod meta;
mod model;
mod place;
mod refusal;
mod request;
mod schema;
mod select;
mod server;
mod store;
mod twins;
mod validate;
mod watch;
mod write;

#[cfg(test)]
mod tests;

pub use body::Body;
pub use model::Model;
pub use refusal::{Cause, Refusal};
pub use request::{Deletion, Propagation, Request, Subresource};
pub use server::Server;
