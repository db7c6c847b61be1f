//! What executes a run.
