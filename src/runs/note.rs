//! What is worth an event.

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
