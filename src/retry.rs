//! Delays between attempts: the only user of the `backoff` crate.
