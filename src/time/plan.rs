//! The plan of a schedule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IntendedTime;

/// What happens to a schedule when clocks change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DstPolicy {
    /// Every local time runs once; one that does not exist runs at the end of the gap.
    #[default]
    Once,
    /// As a CronJob: skipped in a gap, run twice in an overlap.
    CronJob,
}

/// What happens to missed instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MissedRunsPolicy {
    /// Only the newest due or missed instant runs.
    #[default]
    Latest,
    /// The newest `limit` run.
    All,
    /// Only what is due runs.
    None,
}

/// Why an instant was not run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum SkipReason {
    /// The schedule was suspended.
    Suspended,
    /// Nothing could run it in time.
    Missed,
    /// An earlier occurrence ran.
    Concurrent,
    /// Its starting deadline passed.
    Deadline,
    /// A newer instant or an edit took its place.
    Superseded,
    /// The report queue was full.
    QueueFull,
    /// Its occurrence was deleted before it started.
    Deleted,
    /// The API server refused to create its occurrence.
    CreateRefused,
    /// Its name was taken by something else.
    NameConflict,
}

/// Adjacent instants that were not run for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedRange {
    /// The first skipped instant.
    pub from: IntendedTime,
    /// The last skipped instant.
    pub to: IntendedTime,
    /// How many there are.
    pub count: i64,
    /// Why they were not run.
    pub reason: SkipReason,
}
