//! Which local minutes an expression matches: whole-number arithmetic on sets of bits, without
//! zones. Local time is counted in seconds since 1970-01-01T00:00 local, as if there were no
//! offsets; dates are proleptic Gregorian.
//!
//! Every function takes a bounded number of steps: months are skipped at once, days of a month are
//! one mask, minutes of a day are two.

use super::cron::CronFields;

/// Seconds of a minute.
pub(super) const MINUTE: i64 = 60;
/// Minutes of a day.
const DAY_MINUTES: i64 = 24 * 60;

/// A date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: i64,
    /// 1 to 12.
    pub(super) month: u32,
    /// 1 to 31.
    pub(super) day: u32,
}

impl Date {
    /// The date `days` after 1970-01-01. Algorithm `civil_from_days` of Howard Hinnant,
    /// "chrono-compatible low-level date algorithms".
    pub(super) fn from_days(days: i64) -> Self {
        let shifted = days + 719_468; // days since 0000-03-01
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * of_year + 2) / 153; // 0 is March
        let day = small(of_year - (153 * march_month + 2) / 5 + 1);
        let month = small(if march_month < 10 { march_month + 3 } else { march_month - 9 });
        Self { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
    }

    /// Days from 1970-01-01 to this date. Algorithm `days_from_civil` of Howard Hinnant.
    pub(super) fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let march_month = (i64::from(self.month) + 9) % 12;
        let of_year = (153 * march_month + 2) / 5 + i64::from(self.day) - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        era * 146_097 + of_era - 719_468
    }

    /// The first day of the next month.
    fn next_month(self) -> Self {
        if self.month == 12 {
            Self { year: self.year + 1, month: 1, day: 1 }
        } else {
            Self { month: self.month + 1, day: 1, ..self }
        }
    }

    /// Number of days of this date's month.
    fn days_in_month(self) -> u32 {
        match self.month {
            4 | 6 | 9 | 11 => 30,
            2 if self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0) => 29,
            2 => 28,
            _ => 31,
        }
    }
}

/// A day or month number as `u32`.
fn small(value: i64) -> u32 {
    u32::try_from(value).expect("day and month numbers are small and positive")
}

/// The weekday of a day number, Sunday being 0: 1970-01-01 was a Thursday.
fn weekday(days: i64) -> u32 {
    small((days + 4).rem_euclid(7))
}

/// Minutes since 1970 of the first whole minute at or after `second`.
fn minute_at_or_after(second: i64) -> i64 {
    second.div_euclid(MINUTE) + i64::from(second.rem_euclid(MINUTE) != 0)
}

impl CronFields {
    /// The first matching local minute at or after `from` and before `limit`, in seconds.
    pub(super) fn first_local(&self, from: i64, limit: i64) -> Option<i64> {
        if self.never_matches() {
            return None;
        }
        let from_minute = minute_at_or_after(from);
        let mut days = from_minute.div_euclid(DAY_MINUTES);
        let mut of_day = small(from_minute.rem_euclid(DAY_MINUTES));
        let mut date = Date::from_days(days);
        while days * DAY_MINUTES * MINUTE < limit {
            let left = self.days_of_month(date, days) & (u64::MAX << date.day);
            if left & (1 << date.day) != 0
                && let Some(minute) = self.first_of_day(of_day)
            {
                let found = (days * DAY_MINUTES + i64::from(minute)) * MINUTE;
                return (found < limit).then_some(found);
            }
            of_day = 0;
            let later = left & (u64::MAX << (date.day + 1));
            if later != 0 {
                let day = later.trailing_zeros();
                days += i64::from(day - date.day);
                date.day = day;
            } else {
                date = self.next_matching_month(date);
                days = date.days();
            }
        }
        None
    }

    /// The last matching local minute before `limit` and at or after `from`, in seconds.
    pub(super) fn last_local(&self, from: i64, limit: i64) -> Option<i64> {
        if self.never_matches() || limit <= from {
            return None;
        }
        let last_minute = minute_at_or_after(limit) - 1;
        let mut days = last_minute.div_euclid(DAY_MINUTES);
        let mut of_day = small(last_minute.rem_euclid(DAY_MINUTES));
        let mut date = Date::from_days(days);
        while (days + 1) * DAY_MINUTES * MINUTE > from {
            let left = self.days_of_month(date, days) & !(u64::MAX << (date.day + 1));
            if left & (1 << date.day) != 0
                && let Some(minute) = self.last_of_day(of_day)
            {
                let found = (days * DAY_MINUTES + i64::from(minute)) * MINUTE;
                return (found >= from).then_some(found);
            }
            of_day = small(DAY_MINUTES - 1);
            let earlier = left & !(u64::MAX << date.day);
            if earlier != 0 {
                let day = earlier.ilog2();
                days -= i64::from(date.day - day);
                date.day = day;
            } else {
                days -= i64::from(date.day); // the last day of the month before
                date = Date::from_days(days);
            }
        }
        None
    }

    /// Number of matching local minutes at or after `from` and before `limit`, both in seconds.
    /// Work: one step a month.
    pub(super) fn count_local(&self, from: i64, limit: i64) -> i64 {
        if limit <= from {
            return 0;
        }
        let (first, end) = (minute_at_or_after(from), minute_at_or_after(limit));
        let (first_day, end_day) = (first.div_euclid(DAY_MINUTES), end.div_euclid(DAY_MINUTES));
        let full_days = self.matching_days(first_day, end_day);
        let before = |minute: i64, day: i64| {
            let of_day = small(minute.rem_euclid(DAY_MINUTES));
            if self.matching_days(day, day + 1) == 1 { self.count_before(of_day) } else { 0 }
        };
        full_days * self.count_before(small(DAY_MINUTES)) - before(first, first_day)
            + before(end, end_day)
    }

    /// Whether one of the sets without which nothing matches is empty.
    fn never_matches(&self) -> bool {
        self.minutes == 0 || self.hours == 0 || self.months == 0
    }

    /// The matching days of the month of `date`, whose day number is `days`, as bits 1 to 31.
    fn days_of_month(&self, date: Date, days: i64) -> u64 {
        if self.months & (1 << date.month) == 0 {
            return 0;
        }
        let month = (1_u64 << (date.days_in_month() + 1)) - 2;
        let first = weekday(days - i64::from(date.day) + 1);
        // One week from the month's first weekday on, five times, from bit 1.
        let weekdays = u64::from(self.weekdays);
        let week = ((weekdays >> first) | (weekdays << (7 - first))) & 0x7f;
        let by_weekday = week * 0x1020_4081 * 2;
        let by_day = u64::from(self.days);
        month & if self.both_days { by_day & by_weekday } else { by_day | by_weekday }
    }

    /// The first day of the next month that the expression names.
    fn next_matching_month(&self, date: Date) -> Date {
        let mut next = date.next_month();
        while self.months & (1 << next.month) == 0 {
            next = next.next_month();
        }
        next
    }

    /// Number of matching days from day number `from` to before `end`.
    fn matching_days(&self, from: i64, end: i64) -> i64 {
        let mut total = 0;
        let mut days = from;
        let mut date = Date::from_days(days);
        while days < end {
            let left = i64::from(date.days_in_month() - date.day) + 1;
            let mut matching = self.days_of_month(date, days) & (u64::MAX << date.day);
            if days + left > end {
                matching &= !(u64::MAX << (i64::from(date.day) + end - days));
            }
            total += i64::from(matching.count_ones());
            days += left;
            date = date.next_month();
        }
        total
    }

    /// The first matching minute of a matching day at or after minute `of_day`.
    fn first_of_day(&self, of_day: u32) -> Option<u32> {
        let (hour, minute) = (of_day / 60, of_day % 60);
        let now = self.minutes & (u64::MAX << minute);
        if self.hours & (1 << hour) != 0 && now != 0 {
            return Some(hour * 60 + now.trailing_zeros());
        }
        let later = u64::from(self.hours) & (u64::MAX << (hour + 1));
        (later != 0).then(|| later.trailing_zeros() * 60 + self.minutes.trailing_zeros())
    }

    /// The last matching minute of a matching day at or before minute `of_day`.
    fn last_of_day(&self, of_day: u32) -> Option<u32> {
        let (hour, minute) = (of_day / 60, of_day % 60);
        let now = self.minutes & !(u64::MAX << (minute + 1));
        if self.hours & (1 << hour) != 0 && now != 0 {
            return Some(hour * 60 + now.ilog2());
        }
        let earlier = self.hours & !(u32::MAX << hour);
        (earlier != 0).then(|| earlier.ilog2() * 60 + self.minutes.ilog2())
    }

    /// Number of matching minutes of a matching day before minute `of_day` (up to a whole day).
    fn count_before(&self, of_day: u32) -> i64 {
        let (hour, minute) = (of_day / 60, of_day % 60);
        let hours_before = (u64::from(self.hours) & !(u64::MAX << hour)).count_ones();
        let whole = i64::from(hours_before) * i64::from(self.minutes.count_ones());
        let this_hour = hour < 24 && self.hours & (1 << hour) != 0;
        let rest = (self.minutes & !(u64::MAX << minute)).count_ones();
        whole + if this_hour { i64::from(rest) } else { 0 }
    }
}
