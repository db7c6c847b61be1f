//! The plan of a schedule: what one look at it decides, as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IntendedTime;

/// What happens to local times that a change of the clocks removes or repeats.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum DstPolicy {
    /// A local time that does not exist runs once, at the end of the gap; one that exists twice
    /// runs at the first. Schedules that cover all 24 hours follow real time.
    #[default]
    Once,
    /// As a CronJob does it: a local time that does not exist is left out, one that exists twice
    /// runs twice.
    CronJob,
}

/// What happens to instants that nobody started in time.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum MissedRunsPolicy {
    /// Only the newest due or missed instant runs; the others are recorded as `Superseded`.
    #[default]
    Latest,
    /// The newest `limit` due or missed instants run; older ones are recorded as `Superseded`.
    All,
    /// Only what is due runs; the rest is recorded as `Missed`.
    None,
}

/// Why an instant was not run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum SkipReason {
    /// The schedule was suspended.
    Suspended,
    /// Nobody started it in time, and `missedRuns` or the look-back of seven days left it out.
    Missed,
    /// Another run of the schedule was active, and the concurrency policy did not allow a second.
    Concurrent,
    /// `startingDeadlineSeconds` had passed.
    Deadline,
    /// A newer instant or an edited schedule took its place.
    Superseded,
    /// The queue had no place for it.
    QueueFull,
    /// Its object was deleted.
    Deleted,
    /// The API server refused to create its object.
    CreateRefused,
    /// An object of somebody else bears the name it needs.
    NameConflict,
}

/// A run of consecutive instants of a schedule that were not run, for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedRange {
    /// First instant that was not run.
    pub from: IntendedTime,
    /// Last instant that was not run; equal to `from` for a single one.
    pub to: IntendedTime,
    /// Number of instants from `from` to `to`.
    #[schemars(range(min = 1))]
    pub count: i64,
    /// Why they were not run.
    pub reason: SkipReason,
}
