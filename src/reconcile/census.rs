//! How many objects are in which state, and how long the oldest unresolved one has been so.
//!
//! Counted change by change, so that it costs nothing with many objects. Changes of one object may
//! arrive in another order than they happened; only sums are kept, so the result is the same.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use crate::{api::ScheduleState, cluster::Change, telemetry::Metrics};

/// A kind and a state.
pub type Place = (&'static str, &'static str);

/// The count of all rooms; clones share it.
#[derive(Clone)]
pub struct Census {
    sums: Arc<Mutex<Sums>>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Sums {
    states: BTreeMap<Place, i64>,
    /// Since when how many objects have been unresolved.
    unresolved: BTreeMap<Timestamp, i64>,
}

impl Census {
    /// Nothing is counted yet.
    pub fn new(metrics: &Arc<Metrics>) -> Self {
        Self { sums: Arc::default(), metrics: Arc::clone(metrics) }
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        // Every change is a few additions; a sum that a panic left wrong is only a number shown.
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object came, changed or went; `place` says where one is.
    pub fn count<K>(&self, change: &Change<'_, K>, place: impl Fn(&K) -> Place) {
        let (from, to) = (change.old.map(&place), change.new.map(&place));
        if from == to {
            return;
        }
        let mut sums = self.sums();
        for (place, by) in [(from, -1), (to, 1)] {
            let Some(place) = place else { continue };
            let sum = sums.states.entry(place).or_default();
            *sum += by;
            self.metrics.objects(place.0, place.1, usize::try_from(*sum).unwrap_or(0));
        }
    }

    /// The same, for an object of which it may be unknown how it ended; `since` says since when.
    pub fn age<K>(&self, change: &Change<'_, K>, since: impl Fn(&K) -> Option<Timestamp>) {
        let (before, after) = (change.old.and_then(&since), change.new.and_then(&since));
        if before != after {
            let mut sums = self.sums();
            add(&mut sums.unresolved, before, -1);
            add(&mut sums.unresolved, after, 1);
        }
    }

    /// Shows how long the oldest unresolved object has been so.
    pub fn show_age(&self, now: Timestamp) {
        let sums = self.sums();
        let oldest = sums.unresolved.iter().find(|(_, count)| **count > 0).map(|(at, _)| *at);
        let age = oldest.map(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
        self.metrics.unresolved_oldest(age.unwrap_or_default());
    }

    /// Whether the metrics show this line.
    #[cfg(test)]
    pub(crate) fn shows(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|shown| shown == line)
    }
}

fn add(sums: &mut BTreeMap<Timestamp, i64>, at: Option<Timestamp>, by: i64) {
    let Some(at) = at else { return };
    let sum = sums.entry(at).or_default();
    *sum += by;
    if *sum == 0 {
        sums.remove(&at);
    }
}

/// The state of a schedule of any kind; one that was never looked at is new.
pub fn schedule_word(state: Option<ScheduleState>) -> &'static str {
    match state {
        None => "New",
        Some(ScheduleState::Active) => "Active",
        Some(ScheduleState::Suspended) => "Suspended",
        Some(ScheduleState::Invalid) => "Invalid",
    }
}
