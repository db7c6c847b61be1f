//! Properties of admission over random histories. Every seed is one history, for ever.

mod bounds;
mod fair;
pub(super) mod history;
mod oracle;
mod retries;
