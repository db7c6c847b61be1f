//! The time axis: linear where something happens, shortened where nothing does.

use std::time::Duration;

/// The share of the width that one quiet stretch takes at most, in percent.
const QUIET_WIDTH: f64 = 7.0;
/// A stretch without events is quiet if it takes more than this share of the whole time, in percent.
const QUIET_SHARE: f64 = 14.0;
/// Shortest distance of two ticks, in percent of the width.
const TICK_DISTANCE: f64 = 9.0;
/// Distances of ticks, in seconds.
const TICKS: [u64; 15] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 10_800, 21_600, 86_400];
/// Most ticks: the width has no room for more.
const MAX_TICKS: usize = 14;
/// Ticks are no finer than the whole time divided by this: 02:06:54 on an axis of hours says nothing.
const FINEST: u64 = 60;
/// The last place of a tick, in percent: its label must fit beside it.
const LAST_PLACE: f64 = 92.0;

/// Maps virtual time to places from 0 to 100 percent.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Times and their places, both increasing.
    knots: Vec<(Duration, f64)>,
    /// Stretches that are shortened: from, to.
    pub(super) quiet: Vec<(Duration, Duration)>,
}

impl Axis {
    /// An axis from 0 to `end` for events at these times.
    pub(super) fn new(end: Duration, moments: impl IntoIterator<Item = Duration>) -> Self {
        let end = end.max(Duration::from_secs(1));
        let mut moments: Vec<Duration> =
            moments.into_iter().chain([Duration::ZERO, end]).filter(|at| *at <= end).collect();
        moments.sort_unstable();
        moments.dedup();
        let pad = end.mul_f64(0.012);
        let quiet: Vec<(Duration, Duration)> = moments
            .windows(2)
            .filter(|pair| {
                let gap = pair[1].saturating_sub(pair[0]);
                gap.as_secs_f64() * 100.0 > end.as_secs_f64() * QUIET_SHARE
            })
            // What happens at its edges keeps some room.
            .map(|pair| (pair[0] + pad, pair[1].saturating_sub(pad)))
            .collect();
        let total: Duration = quiet.iter().map(|(from, to)| to.saturating_sub(*from)).sum();
        #[allow(clippy::cast_precision_loss)] // a handful
        let shortened = QUIET_WIDTH * quiet.len() as f64;
        let busy = end.saturating_sub(total).as_secs_f64().max(f64::MIN_POSITIVE);
        let scale = (100.0 - shortened) / busy;
        let mut knots = vec![(Duration::ZERO, 0.0)];
        let mut place = 0.0;
        let mut at = Duration::ZERO;
        for (from, to) in &quiet {
            place += from.saturating_sub(at).as_secs_f64() * scale;
            knots.push((*from, place));
            place += QUIET_WIDTH;
            knots.push((*to, place));
            at = *to;
        }
        knots.push((end, 100.0));
        Self { knots, quiet }
    }

    /// The place of a time, in percent.
    pub(super) fn place(&self, at: Duration) -> f64 {
        let next = self.knots.partition_point(|(time, _)| *time <= at);
        let Some((after, right)) = self.knots.get(next) else { return 100.0 };
        let Some((before, left)) = next.checked_sub(1).and_then(|i| self.knots.get(i)) else {
            return 0.0;
        };
        let share =
            at.saturating_sub(*before).as_secs_f64() / after.saturating_sub(*before).as_secs_f64();
        left + share * (right - left)
    }

    /// Round times to label, away from each other and from what is shortened.
    pub(super) fn ticks(&self, offset: Duration) -> Vec<Duration> {
        let end = self.knots.last().map_or(Duration::ZERO, |(time, _)| *time);
        let mut chosen: Vec<Duration> = Vec::new();
        for step in TICKS.iter().rev().map(|secs| Duration::from_secs(*secs)) {
            let count = end.as_secs() / step.as_secs().max(1);
            if count > FINEST && !chosen.is_empty() {
                break;
            }
            // Round on the clock on the wall, not since the start.
            let first = step.as_secs() - offset.as_secs() % step.as_secs();
            let first = Duration::from_secs(first % step.as_secs());
            let mut at = first;
            while at <= end && chosen.len() < MAX_TICKS {
                if self.is_free(at, &chosen) {
                    chosen.push(at);
                }
                at += step;
            }
        }
        chosen.sort_unstable();
        chosen
    }

    fn is_free(&self, at: Duration, chosen: &[Duration]) -> bool {
        let place = self.place(at);
        let shortened = self.quiet.iter().any(|(from, to)| at > *from && at < *to);
        !shortened
            && place <= LAST_PLACE
            && chosen.iter().all(|other| (self.place(*other) - place).abs() >= TICK_DISTANCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn places_rise_with_time_and_quiet_stretches_are_short() {
        let moments = [1, 120, 121, 150, 161, 211].map(secs);
        let axis = Axis::new(secs(450), moments);
        assert_eq!(axis.quiet.len(), 2, "{:?}", axis.quiet);
        let places: Vec<f64> = (0..=450).map(|at| axis.place(secs(at))).collect();
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
        assert!(places[0].abs() < 1e-9 && (places[450] - 100.0).abs() < 1e-9);
        let action = axis.place(secs(211)) - axis.place(secs(120));
        assert!(action > 60.0, "most of the width is for what happens: {action}");
    }

    #[test]
    fn an_even_history_is_linear() {
        let axis = Axis::new(secs(100), (0..=100).step_by(5).map(secs));
        assert!(axis.quiet.is_empty());
        assert!((axis.place(secs(25)) - 25.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_round_apart_and_not_in_quiet_stretches() {
        let axis = Axis::new(secs(450), [1, 120, 121, 150, 161, 211].map(secs));
        let ticks = axis.ticks(secs(58 * 60));
        assert!((4..=12).contains(&ticks.len()), "{ticks:?}");
        assert!(ticks.contains(&secs(120)), "02:00:00 is round: {ticks:?}");
        for pair in ticks.windows(2) {
            assert!(axis.place(pair[1]) - axis.place(pair[0]) >= TICK_DISTANCE, "{ticks:?}");
        }
        assert!(ticks.iter().all(|at| axis.quiet.iter().all(|(a, b)| at <= a || at >= b)));
        assert_eq!(Axis::new(secs(0), []).ticks(secs(0)).len(), 1, "even of nothing");
    }
}
