//! The walk over real time: from matching local minutes to instants, through changes of the clocks.
//!
//! Local time is a piecewise shift of UTC, so the walk goes from one stretch of constant offset to
//! the next and asks the calendar within each. Under [`DstPolicy::Once`] a stretch that begins with
//! a jump forward (a gap) owes one instant, at its start, if a matching local minute was jumped
//! over; one that begins with a jump back (a fold) owes nothing until local time has passed what it
//! had already reached. Schedules that cover all 24 hours, and [`DstPolicy::CronJob`], follow real
//! time instead: every minute whose wall clock matches.
//!
//! The walk ends: the longest wait between two matching dates is eight years (29 February around
//! 2100), stretches without a matching date nearby are skipped at once, and [`HORIZON`] bounds what
//! is left.

use super::{
    calendar::MINUTE,
    cron::CronFields,
    plan::DstPolicy,
    zone::{Begun, Stretch, WIDEST_SHIFT, Zone},
};

/// How far the walk looks, in seconds: 20 years. The longest wait between matching dates is 8 years;
/// the rest lets a match be lost to a gap and the next one be found.
const HORIZON: i64 = 20 * 366 * 24 * 3600;

/// A walk for one expression in one zone. All seconds are since 1970 UTC.
pub(super) struct Walk<'a> {
    fields: &'a CronFields,
    zone: &'a Zone,
    /// Whether wall clock readings may be lost and doubled as real time goes.
    real: bool,
}

/// A stretch with what the policy makes of its start.
struct Span {
    offset: i64,
    end: Option<i64>,
    /// Local time from which matches count.
    from: i64,
    /// The local times that were jumped over at the start, if any: first, and end (exclusive).
    gap: Option<(i64, i64)>,
}

impl Span {
    /// The gap at whose end `at` is.
    fn gap_ending_at(&self, at: i64) -> Option<(i64, i64)> {
        self.gap.filter(|&(_, end)| end == at + self.offset)
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(fields: &'a CronFields, zone: &'a Zone, policy: DstPolicy) -> Self {
        let real = policy == DstPolicy::CronJob || fields.covers_all_hours();
        Self { fields, zone, real }
    }

    /// The first instant after second `after`.
    pub(super) fn first_after(&self, after: i64) -> Option<i64> {
        self.first_after_in_steps(after).0
    }

    /// [`Self::first_after`], with the number of stretches visited.
    pub(super) fn first_after_in_steps(&self, after: i64) -> (Option<i64>, u32) {
        let mut at = after + 1;
        let horizon = after.saturating_add(HORIZON);
        let mut steps = 0;
        loop {
            steps += 1;
            let span = self.span(at);
            if span.gap_ending_at(at).is_some_and(|gap| self.owes(gap)) {
                return (Some(at), steps);
            }
            let end = span.end.map_or(horizon, |end| end.min(horizon));
            let from = span.from.max(at + span.offset);
            if let Some(local) = self.fields.first_local(from, end + span.offset) {
                return (Some(local - span.offset), steps);
            }
            if end == horizon {
                return (None, steps);
            }
            // No instant before the next matching local minute, whatever the offset is by then.
            let next = self.fields.first_local(end - WIDEST_SHIFT, horizon + WIDEST_SHIFT);
            let Some(next) = next else { return (None, steps) };
            at = end.max(next - WIDEST_SHIFT);
        }
    }

    /// The last instant at or before second `until` and after second `after`.
    pub(super) fn last_within(&self, after: i64, until: i64) -> Option<i64> {
        let mut until = until;
        while until > after {
            let floor = self.zone.same_offset_since(until).max(after + 1);
            let span = self.span(floor);
            let from = span.from.max(floor + span.offset);
            if let Some(local) = self.fields.last_local(from, until + span.offset + 1) {
                return Some(local - span.offset);
            }
            if span.gap_ending_at(floor).is_some_and(|gap| self.owes(gap)) {
                return Some(floor);
            }
            let earliest = after - WIDEST_SHIFT;
            let previous = self.fields.last_local(earliest, floor + WIDEST_SHIFT)?;
            until = (floor - 1).min(previous + WIDEST_SHIFT);
        }
        None
    }

    /// Number of instants after second `after` and at or before second `until`. Work: one step a
    /// change of the clocks and a month. Exact where offsets are whole minutes, which all are since
    /// 1972.
    pub(super) fn count_within(&self, after: i64, until: i64) -> i64 {
        let mut at = after + 1;
        let mut total = 0;
        while at <= until {
            let span = self.span(at);
            let end = span.end.map_or(until + 1, |end| end.min(until + 1));
            let from = span.from.max(at + span.offset);
            total += self.fields.count_local(from, end + span.offset);
            if let Some(gap) = span.gap_ending_at(at)
                && self.owes(gap)
                && self.fields.first_local(gap.1, gap.1 + 1).is_none()
            {
                total += 1; // an instant of its own, not also that of the minute after the gap
            }
            at = end;
        }
        total
    }

    /// The local times that clocks jumped over at `at`, if they did: first, and end (exclusive).
    pub(super) fn gap_at(&self, at: i64) -> Option<(i64, i64)> {
        let stretch = self.zone.stretch(at);
        let Begun { start, reached } = stretch.begun?;
        let local = start + stretch.offset;
        (start == at && local > reached).then_some((reached, local))
    }

    /// Whether this walk follows real time.
    pub(super) fn follows_real_time(&self) -> bool {
        self.real
    }

    /// The stretch that contains `at`, seen through the policy.
    fn span(&self, at: i64) -> Span {
        let Stretch { offset, end, begun } = self.zone.stretch(at);
        let all = Span { offset, end, from: i64::MIN, gap: None };
        // Without a change nearby, local time has long passed whatever it had reached before.
        let Some(Begun { start, reached }) = begun.filter(|_| !self.real) else { return all };
        let begin = start + offset;
        Span { from: begin.max(reached), gap: (begin > reached).then_some((reached, begin)), ..all }
    }

    /// Whether a matching local minute lies in the gap.
    fn owes(&self, (first, end): (i64, i64)) -> bool {
        self.fields.first_local(first, end).is_some()
    }
}

/// The whole minute at or before a second.
pub(super) fn floor_minute(second: i64) -> i64 {
    second - second.rem_euclid(MINUTE)
}

/// The whole minute at or after a second.
pub(super) fn ceil_minute(second: i64) -> i64 {
    floor_minute(second + MINUTE - 1)
}
