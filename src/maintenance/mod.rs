//! What a schedule and an occurrence do next, and the controller that does it.
//!
//! Two pure decisions and one pair of hands:
//!
//! * [`schedule`]: snapshot of a schedule and its occurrences -> which occurrences to create
//!   (inert), and the one write that records the whole decision: claims, skipped instants, cursor.
//! * [`occurrence`]: snapshot of an occurrence, its standing with its schedule, and the provider's
//!   answer -> one step: write, prepare, release, cancel, ask, or wait.
//! * [`controller`]: observes, decides, acts, reports.

pub mod conditions;
pub mod controller;
pub mod occurrence;
pub mod retention;
pub mod schedule;

/// Something worth an event: it happened once, and a person may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether a person should look at it.
    pub warning: bool,
    /// PascalCase reason.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

impl Note {
    /// Something normal.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: false, reason, message: message.into() }
    }

    /// Something a person should look at.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: true, reason, message: message.into() }
    }
}
