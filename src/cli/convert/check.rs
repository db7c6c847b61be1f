//! Where a CronJob and the schedule made of it would not run at the same instants. Pure.

use std::iter::Peekable;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::cronjob::{Converted, Unconvertible, grid_start};
use crate::time::{DstPolicy, IntendedTime, Schedule};

/// Most instants that are listed: a year has two clock changes, and an hour of minutes each.
pub(super) const MAX_LISTED: usize = 1000;

/// An instant at which only one of them runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Difference {
    /// The instant.
    pub utc: IntendedTime,
    /// The same in the schedule's zone.
    pub local: String,
    /// Which of them runs then: `CronJob` or `MaintenanceSchedule`.
    pub only: &'static str,
    /// What the clocks do then.
    pub note: String,
}

/// Both, side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comparison {
    /// Name of the schedule.
    pub name: String,
    /// Start of the time that was compared, excluded.
    pub from: Timestamp,
    /// End of it, included.
    pub to: Timestamp,
    /// How often the CronJob runs in it.
    pub cron_job_runs: i64,
    /// How often the schedule does.
    pub schedule_runs: i64,
    /// Seconds by which each run of an `@every` CronJob is later, because it was created between two
    /// minutes.
    pub shift_seconds: i64,
    /// Instants at which only one of them runs, the first [`MAX_LISTED`].
    pub differences: Vec<Difference>,
    /// How many there are in all.
    pub different: u64,
}

impl Comparison {
    /// Whether they run at the same instants.
    pub(super) fn is_same(&self) -> bool {
        self.different == 0 && self.shift_seconds == 0
    }
}

/// Compares a CronJob with its schedule.
pub(super) fn compare(
    cron_job: &Value,
    converted: &Converted,
    from: Timestamp,
    to: Timestamp,
) -> Result<Comparison, Unconvertible> {
    let input = converted.plan_input()?;
    let start = grid_start(cron_job).unwrap_or(from);
    let anchor = input.anchor.unwrap_or_else(|| IntendedTime::floor(start));
    let read = |policy| Schedule::parse(&input.schedule, &input.time_zone, policy, anchor);
    let ours = read(input.dst_policy).map_err(|error| Unconvertible::from(error.to_string()))?;
    let theirs =
        read(DstPolicy::CronJob).map_err(|error| Unconvertible::from(error.to_string()))?;
    let shift =
        if ours.is_interval() { start.duration_since(anchor.timestamp()).as_secs() } else { 0 };

    let mut differences = Vec::new();
    let mut different = 0;
    let mut one = ours.between(from, to).peekable();
    let mut other = theirs.between(from, to).peekable();
    let mut previous = from;
    while let Some((utc, only)) = next_difference(&mut one, &mut other) {
        different += 1;
        if differences.len() < MAX_LISTED {
            let by = if only == THEIRS { &theirs } else { &ours };
            let note = by.note(previous, utc);
            differences.push(Difference { utc, local: ours.local_time(utc), only, note });
        }
        previous = utc.timestamp();
    }
    Ok(Comparison {
        name: converted.metadata["name"].as_str().unwrap_or_default().to_owned(),
        from,
        to,
        cron_job_runs: theirs.count_within(from, to),
        schedule_runs: ours.count_within(from, to),
        shift_seconds: shift,
        differences,
        different,
    })
}

const OURS: &str = "MaintenanceSchedule";
const THEIRS: &str = "CronJob";

/// The next instant that only one of the two rows has. Both are rising.
fn next_difference(
    ours: &mut Peekable<impl Iterator<Item = IntendedTime>>,
    theirs: &mut Peekable<impl Iterator<Item = IntendedTime>>,
) -> Option<(IntendedTime, &'static str)> {
    loop {
        match (ours.peek().copied(), theirs.peek().copied()) {
            (Some(one), Some(other)) if one == other => {
                ours.next();
                theirs.next();
            }
            (Some(one), other) if other.is_none_or(|other| one < other) => {
                ours.next();
                return Some((one, OURS));
            }
            (_, Some(other)) => {
                theirs.next();
                return Some((other, THEIRS));
            }
            (_, None) => return None,
        }
    }
}
