//! What a schedule and an occurrence do next, and the controller that does it.
//!
//! Two pure decisions and one pair of hands:
//!
//! * [`schedule`]: snapshot of a schedule and its occurrences -> which occurrences to create
//!   (inert), and the one write that records the whole decision: claims, skipped instants, cursor.
//! * [`occurrence`]: snapshot of an occurrence, its standing with its schedule, and the provider's
//!   answer -> one step: write, prepare, release, cancel, ask, or wait. The life of its attempts is
//!   [`crate::runs`].
//! * [`controller`]: observes, decides, acts, reports.

pub mod conditions;
pub mod controller;
pub mod occurrence;
pub mod retention;
pub mod schedule;

pub use crate::runs::Note;
