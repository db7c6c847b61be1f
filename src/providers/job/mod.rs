//! Runs as batch/v1 Jobs.

pub mod build;
pub mod digest;
pub mod observe;
pub mod report;
pub mod sightings;
pub mod stop;

#[cfg(test)]
pub(crate) mod fixtures;
