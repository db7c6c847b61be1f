//! The clock boundary, cron expressions, time zones, and the plan of a schedule.
//!
//! Pure, except [`clock`], the only file in the crate that reads a clock.

pub mod clock;
pub mod instant;
pub mod plan;

pub use clock::{LeaseClock, LeaseInstant, WallClock};
pub use instant::IntendedTime;
pub use plan::{DstPolicy, MissedRunsPolicy, SkipReason, SkippedRange};
