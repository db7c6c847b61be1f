//! Metrics, health, logs, events.
//!
//! Nothing here decides anything. [`note`] is plain data that decisions may produce; the rest are
//! hands.

pub mod events;
pub mod health;
pub mod logs;
pub mod metrics;
pub mod note;

pub use events::EventQueue;
pub use health::Health;
pub use metrics::Metrics;
pub use note::{Note, NoteKind, ObjectRef};
