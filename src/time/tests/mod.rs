//! Tests of the room, against recorded cases and against slow, simple models.

mod cron;
mod history;
mod oracle;
mod plan;
mod walk;

use jiff::Timestamp;

use super::{DstPolicy, IntendedTime, Schedule, ScheduleError};

/// A timestamp as text.
fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// An instant as text.
fn instant(text: &str) -> IntendedTime {
    IntendedTime::parse_lenient(text).unwrap()
}

/// A schedule whose anchor is the epoch.
fn schedule(expression: &str, zone: &str, policy: DstPolicy) -> Result<Schedule, ScheduleError> {
    Schedule::parse(expression, zone, policy, instant("1970-01-01T00:00:00Z"))
}
