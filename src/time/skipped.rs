//! Accounting of instants that were not run: ranges with a reason.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IntendedTime;

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

impl SkipReason {
    /// The reason as it is written in a status, an event or a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suspended => "Suspended",
            Self::Missed => "Missed",
            Self::Concurrent => "Concurrent",
            Self::Deadline => "Deadline",
            Self::Superseded => "Superseded",
            Self::QueueFull => "QueueFull",
            Self::Deleted => "Deleted",
            Self::CreateRefused => "CreateRefused",
            Self::NameConflict => "NameConflict",
        }
    }
}

impl SkippedRange {
    /// A single instant.
    pub fn one(at: IntendedTime, reason: SkipReason) -> Self {
        Self { from: at, to: at, count: 1, reason }
    }
}

/// Adds the ranges of a new decision to those that a status has, merges adjacent ranges of one
/// reason, and keeps the newest `keep_last`, ordered by their first instant.
///
/// `cursor` is `lastScheduleTime` before the decision and `run` what the decision runs. They tell
/// whether two ranges are adjacent: no instant lies between the range that ends at the cursor and
/// the first one that the decision concerns, nor between two ranges of the decision unless it runs.
pub fn merge_skipped(
    existing: Vec<SkippedRange>,
    new: &[SkippedRange],
    cursor: Option<IntendedTime>,
    run: &[IntendedTime],
    keep_last: usize,
) -> Vec<SkippedRange> {
    let mut ranges = existing;
    let mut fresh: Vec<SkippedRange> = new.to_vec();
    fresh.sort_by_key(|range| range.from);
    for (number, range) in fresh.into_iter().enumerate() {
        let adjacent = |last: &SkippedRange| {
            (number > 0 || cursor == Some(last.to))
                && !run.iter().any(|&at| last.to < at && at < range.from)
        };
        match ranges.last_mut() {
            Some(last) if last.reason == range.reason && last.to < range.from && adjacent(last) => {
                last.to = range.to;
                last.count = last.count.saturating_add(range.count);
            }
            _ => ranges.push(range),
        }
    }
    ranges.sort_by_key(|range| range.from);
    let surplus = ranges.len().saturating_sub(keep_last);
    ranges.split_off(surplus)
}

/// Adds the counts of new ranges to the totals by reason.
pub fn add_skipped_totals(totals: &mut BTreeMap<String, i64>, new: &[SkippedRange]) {
    for range in new {
        let total = totals.entry(range.reason.as_str().to_owned()).or_default();
        *total = total.saturating_add(range.count);
    }
}
