//! The clock boundary, cron expressions, time zones, and the plan of a schedule.
//!
//! Pure, except [`clock`], the only file in the crate that reads a clock.

mod calendar;
pub mod clock;
pub mod cron;
mod explain;
pub mod instant;
pub mod manifest;
pub mod plan;
pub mod schedule;
pub mod skipped;
pub mod spread;
#[cfg(test)]
mod tests;
mod walk;
pub mod zone;

pub use clock::{LeaseClock, LeaseInstant, WallClock};
pub use instant::IntendedTime;
pub use plan::{DstPolicy, MissedRunsPolicy, SkipReason, SkippedRange};
pub use schedule::{Schedule, ScheduleError};
pub use zone::tzdb_version;
