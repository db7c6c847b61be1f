//! Spread: a delay of the start that is the same whoever computes it.

use super::IntendedTime;
use crate::identity::WorkId;

/// Longest `spread.windowSeconds`: one day.
pub const MAX_SPREAD_SECONDS: i64 = 24 * 3600;

/// The delay of a run's start within a window of `window_seconds`: a hash of its identity, at least
/// 0 and less than the window.
pub fn spread_delay_seconds(work: &WorkId, window_seconds: i64) -> i64 {
    // The identity is a hash already; half of it gives 64 even bits.
    let bits = u64::from_str_radix(&work.id()[..16], 16).expect("an id is 32 hex digits");
    match u64::try_from(window_seconds) {
        Ok(window) if window > 0 => {
            i64::try_from(bits % window).expect("less than the window, which is an i64")
        }
        _ => 0,
    }
}

/// The spread of one schedule's starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadOf {
    /// `spec.spread.windowSeconds`.
    pub window_seconds: i64,
    /// Whose instants they are.
    pub of: SpreadKind,
    /// Namespace of the schedule.
    pub namespace: String,
    /// Name of the schedule.
    pub name: String,
}

/// The kind of a schedule, which is part of the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadKind {
    /// MaintenanceSchedule.
    Maintenance,
    /// ReportSchedule.
    Report,
}

impl SpreadOf {
    /// The delay of the start of instant `at`.
    pub fn delay_seconds(&self, at: IntendedTime) -> i64 {
        let work = match self.of {
            SpreadKind::Maintenance => WorkId::maintenance(&self.namespace, &self.name, at),
            SpreadKind::Report => WorkId::report(&self.namespace, &self.name, at),
        };
        spread_delay_seconds(&work, self.longest_seconds())
    }

    /// An upper bound of the delays.
    pub(super) fn longest_seconds(&self) -> i64 {
        self.window_seconds.clamp(0, MAX_SPREAD_SECONDS)
    }
}
