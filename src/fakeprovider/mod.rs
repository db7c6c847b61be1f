//! A reference service for the provider `http`: `punctual fake-provider`.
//!
//! It keeps to `docs/reference/provider.openapi.yaml` and executes nothing: a run is a record with a
//! clock. What it records is on disk before it answers, so it can be killed at any moment. On request
//! it misbehaves, in the ways that services and networks do.
//!
//! * [`book`]: what is known of runs, and what a request does to it. Pure.
//! * [`journal`]: the file.
//! * [`faults`]: what goes wrong, and when.
//! * [`service`]: one request in, one reaction out.
//! * [`server`]: the sockets.

pub mod book;
pub mod faults;
pub mod journal;
pub mod server;
pub mod service;

#[cfg(test)]
pub(crate) mod outside;
#[cfg(test)]
mod tests;
