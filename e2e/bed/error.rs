//! What can go wrong while the bed is built or asked.

/// A sentence that says what failed, with what the failing program said.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BedError(pub String);

/// Result of the bed's functions.
pub type Result<T, E = BedError> = std::result::Result<T, E>;

/// Names what was attempted when something else failed.
pub trait Context<T> {
    /// Puts `what` before the error's text.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| BedError(format!("{}: {error:#}", what())))
    }
}
