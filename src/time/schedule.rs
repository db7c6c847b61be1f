//! A schedule: an expression in a time zone under a policy, as a strictly increasing row of
//! instants that can be asked for the next, the last, or a count.

use jiff::{SignedDuration, Timestamp};

use super::{
    DstPolicy, IntendedTime,
    calendar::MINUTE,
    cron::{CronError, CronExpression, EveryMinutes},
    walk::{Walk, ceil_minute, floor_minute},
    zone::{Zone, ZoneError},
};

/// The minute before 0001-01-01T00:00:00Z, the first instant there can be.
const BEFORE_FIRST: i64 = -62_135_596_800 - MINUTE;

/// A schedule that can be asked for its instants.
///
/// Instants are whole minutes UTC. Where a zone once had offsets with seconds (before 1972), the
/// minute that follows is the instant.
#[derive(Clone, Debug)]
pub struct Schedule {
    expression: CronExpression,
    zone: Zone,
    policy: DstPolicy,
    anchor: IntendedTime,
}

/// Why a schedule is refused, with the field that has to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The expression.
    #[error("spec.schedule: {0}")]
    Expression(CronError),
    /// The time zone.
    #[error("spec.timeZone: {0}")]
    TimeZone(ZoneError),
}

impl ScheduleError {
    /// The sentence without the name of the field, for callers that know the field by another name.
    pub fn problem(&self) -> String {
        match self {
            Self::Expression(error) => error.to_string(),
            Self::TimeZone(error) => error.to_string(),
        }
    }
}

impl Schedule {
    /// Parses a schedule.
    ///
    /// `anchor` concerns `@every D` only: the first instant is the anchor itself, the others follow
    /// at whole multiples of D, whatever the zone's clocks do. Nothing is before the anchor.
    pub fn parse(
        expression: &str,
        time_zone: &str,
        policy: DstPolicy,
        anchor: IntendedTime,
    ) -> Result<Self, ScheduleError> {
        let expression = CronExpression::parse(expression).map_err(ScheduleError::Expression)?;
        let zone = Zone::lookup(time_zone).map_err(ScheduleError::TimeZone)?;
        Ok(Self { expression, zone, policy, anchor })
    }

    /// The time zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The first instant strictly after `after`. `None` if there is none: the expression never
    /// fires, or not within 20 years, or not before the year 10000.
    pub fn next_after(&self, after: Timestamp) -> Option<IntendedTime> {
        if self.never_fires() {
            return None;
        }
        // An instant (a whole minute) after `after` is after the minute that contains `after`.
        let after = floor_minute(floor_second(after)).max(BEFORE_FIRST);
        let found = match &self.expression {
            CronExpression::Every(every) => Grid::new(*every, self.anchor).first_after(after),
            CronExpression::Fields(fields) => {
                Walk::new(fields, &self.zone, self.policy).first_after(after)
            }
        };
        found.and_then(instant)
    }

    /// The last instant at or before `until` and strictly after `after`.
    pub fn last_within(&self, after: Timestamp, until: Timestamp) -> Option<IntendedTime> {
        if self.never_fires() {
            return None;
        }
        let (after, until) = (floor_second(after), floor_second(until));
        let (after, until) = (floor_minute(after), floor_minute(until));
        let found = match &self.expression {
            CronExpression::Every(every) => {
                Grid::new(*every, self.anchor).last_within(after, until)
            }
            CronExpression::Fields(fields) => {
                Walk::new(fields, &self.zone, self.policy).last_within(after, until)
            }
        };
        found.and_then(instant)
    }

    /// Number of instants strictly after `after` and at or before `until`, without visiting them:
    /// the work grows with months and clock changes, not with instants.
    pub fn count_within(&self, after: Timestamp, until: Timestamp) -> i64 {
        if self.never_fires() {
            return 0;
        }
        let (after, until) = (floor_second(after), floor_second(until));
        let (after, until) = (floor_minute(after), floor_minute(until));
        match &self.expression {
            CronExpression::Every(every) => {
                Grid::new(*every, self.anchor).count_within(after, until)
            }
            CronExpression::Fields(fields) => {
                Walk::new(fields, &self.zone, self.policy).count_within(after, until)
            }
        }
    }

    /// The instants strictly after `after` and at or before `until`, oldest first. The caller
    /// bounds how many it takes.
    pub fn between(
        &self,
        after: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = IntendedTime> + '_ {
        std::iter::successors(self.next_after(after), |at| self.next_after(at.timestamp()))
            .take_while(move |at| at.timestamp() <= until)
    }

    /// The newest `limit` instants strictly after `after` and at or before `until`, oldest first.
    pub fn newest_within(
        &self,
        after: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Vec<IntendedTime> {
        let mut newest: Vec<IntendedTime> =
            std::iter::successors(self.last_within(after, until), |at| {
                self.last_within(after, just_before(at.timestamp()))
            })
            .take(limit)
            .collect();
        newest.reverse();
        newest
    }

    /// Whether it is `@every`: a grid that no clock change moves.
    pub fn is_interval(&self) -> bool {
        matches!(self.expression, CronExpression::Every(_))
    }

    /// Whether no date of the calendar matches, such as 30 February.
    pub fn never_fires(&self) -> bool {
        self.expression.never_fires()
    }

    /// The walk over real time, for expressions with fields.
    pub(super) fn walk(&self) -> Option<Walk<'_>> {
        match &self.expression {
            CronExpression::Every(_) => None,
            CronExpression::Fields(fields) => Some(Walk::new(fields, &self.zone, self.policy)),
        }
    }

    /// The policy for changes of the clocks.
    pub(super) fn policy(&self) -> DstPolicy {
        self.policy
    }

    /// The sets of the five fields, for expressions that have them.
    pub(super) fn fields(&self) -> Option<&super::cron::CronFields> {
        match &self.expression {
            CronExpression::Every(_) => None,
            CronExpression::Fields(fields) => Some(fields),
        }
    }
}

/// The latest moment before `at`, for limits that include their end.
pub(super) fn just_before(at: Timestamp) -> Timestamp {
    at.saturating_sub(SignedDuration::from_nanos(1)).expect("a duration has no calendar units")
}

/// The second that contains `at`, also before 1970.
fn floor_second(at: Timestamp) -> i64 {
    at.as_second() - i64::from(at.subsec_nanosecond() < 0)
}

/// The instant of a walked second; `None` outside the times that instants have.
fn instant(second: i64) -> Option<IntendedTime> {
    IntendedTime::new(Timestamp::from_second(ceil_minute(second)).ok()?).ok()
}

/// The fixed grid of `@every`, in seconds.
struct Grid {
    origin: i64,
    step: i64,
}

impl Grid {
    fn new(every: EveryMinutes, anchor: IntendedTime) -> Self {
        // At most 2^63 ns / 60 s minutes, so the product is far from overflow.
        Self { origin: anchor.timestamp().as_second(), step: every.minutes() * MINUTE }
    }

    /// Number of grid points at or before `second`.
    fn count_until(&self, second: i64) -> i64 {
        (second - self.origin).div_euclid(self.step).max(-1) + 1
    }

    fn first_after(&self, after: i64) -> Option<i64> {
        let found = self.origin + self.count_until(after) * self.step;
        (found <= Timestamp::MAX.as_second()).then_some(found)
    }

    fn last_within(&self, after: i64, until: i64) -> Option<i64> {
        let last = self.origin + (self.count_until(until) - 1) * self.step;
        (last >= self.origin && last > after && last <= until).then_some(last)
    }

    fn count_within(&self, after: i64, until: i64) -> i64 {
        (self.count_until(until) - self.count_until(after)).max(0)
    }
}
