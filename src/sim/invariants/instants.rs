//! The instants of an expression, counted minute by minute.
//!
//! Slow and simple on purpose. It shares neither the parser nor the walk of the operator, only the
//! time zone database; where both agree, both are right or the grammar's description is wrong.

use jiff::{
    Span, Timestamp, ToSpan as _,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};
use serde_json::Value;

use super::facts;

/// Longest stretch that is counted: a year. A history is minutes to days.
const MAX_MINUTES: i64 = 366 * 24 * 60;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// What decides when a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    schedule: String,
    zone: String,
    cron_job: bool,
    /// Of `@every`.
    anchor: Option<String>,
}

impl Timing {
    /// From an object with the four fields, such as `spec` or `status.observed`.
    pub(super) fn of(fields: &Value) -> Self {
        let or = |text: &str, default: &str| {
            if text.is_empty() { default.to_owned() } else { text.to_owned() }
        };
        let anchor = facts::text(fields, "/anchor");
        Self {
            schedule: facts::text(fields, "/schedule").to_owned(),
            zone: or(facts::text(fields, "/timeZone"), "UTC"),
            cron_job: facts::text(fields, "/dstPolicy") == "CronJob",
            anchor: (!anchor.is_empty()).then(|| anchor.to_owned()),
        }
    }

    /// The instants from `from` to `until`, both included, oldest first. `created` is the default of
    /// the anchor. None if the expression or the zone cannot be read: nothing is due then.
    pub(super) fn instants(
        &self,
        created: Timestamp,
        from: Timestamp,
        until: Timestamp,
    ) -> Option<Vec<Timestamp>> {
        let first =
            from.as_second().div_euclid(60) + i64::from(from.as_second().rem_euclid(60) > 0);
        let last = until.as_second().div_euclid(60).min(first + MAX_MINUTES);
        let minutes = (first..=last).filter_map(|minute| Timestamp::from_second(minute * 60).ok());
        if let Some(every) = self.schedule.trim().strip_prefix("@every ") {
            let every = whole_minutes(every.trim())?;
            let anchor = self.anchor.as_ref().map_or(Some(created), |text| text.parse().ok())?;
            let anchor = anchor.as_second().div_euclid(60);
            let on_grid = |at: &Timestamp| {
                let since = at.as_second() / 60 - anchor;
                since >= 0 && since % every == 0
            };
            return Some(minutes.filter(on_grid).collect());
        }
        let fields = Fields::parse(&self.schedule)?;
        let zone = TimeZone::get(&self.zone).ok()?;
        let real = self.cron_job || fields.hours == (1 << 24) - 1;
        Some(minutes.filter(|at| fields.is_due(&zone, *at, real)).collect())
    }
}

/// `90m`, `1h30m`.
fn whole_minutes(text: &str) -> Option<i64> {
    let span: Span = text.parse().ok()?;
    let seconds = span.total(jiff::Unit::Second).ok()?;
    // A duration of whole minutes is far below what a float holds exactly.
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds of at most some years")]
    let seconds = seconds as i64;
    (seconds >= 60 && seconds % 60 == 0).then_some(seconds / 60)
}

/// The five fields, each as a set of bits.
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether day and weekday must both match: one of them is a star.
    both: bool,
}

impl Fields {
    fn parse(expression: &str) -> Option<Self> {
        let expression = match expression.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let parts: Vec<&str> = expression.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts[..] else { return None };
        let (days, any_day) = set(day, 1, 31, &[])?;
        let (weekdays, any_weekday) = set(weekday, 0, 6, &WEEKDAYS)?;
        Some(Self {
            minutes: set(minute, 0, 59, &[])?.0,
            hours: set(hour, 0, 23, &[])?.0,
            days,
            months: set(month, 1, 12, &MONTHS)?.0,
            weekdays,
            both: any_day || any_weekday,
        })
    }

    fn matches(&self, local: DateTime) -> bool {
        let has = |set: u64, value: i8| set & (1 << value) != 0;
        let day = has(self.days, local.day());
        let weekday = has(self.weekdays, local.weekday().to_sunday_zero_offset());
        has(self.minutes, local.minute())
            && has(self.hours, local.hour())
            && has(self.months, local.month())
            && if self.both { day && weekday } else { day || weekday }
    }

    /// Whether a minute of real time is an instant. `real` ones follow real time; of the others a
    /// local minute that exists twice counts at the first, and those that do not exist count once,
    /// at the end of the gap.
    fn is_due(&self, zone: &TimeZone, at: Timestamp, real: bool) -> bool {
        let local = zone.to_datetime(at);
        if real {
            return self.matches(local);
        }
        let repeated = match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { before, .. } => zone.to_offset(at) != before,
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => false,
        };
        if self.matches(local) && !repeated {
            return true;
        }
        let Ok(minute_before) = at.checked_sub(1.minute()) else { return false };
        let mut lost = zone.to_datetime(minute_before).saturating_add(1.minute());
        while lost < local {
            if self.matches(lost) {
                return true;
            }
            lost = lost.saturating_add(1.minute());
        }
        false
    }
}

/// A field as a set, and whether it is a star.
fn set(field: &str, low: u32, high: u32, names: &[&str]) -> Option<(u64, bool)> {
    let mut found = 0;
    let mut star = false;
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?))
            }
            None => (part, None),
        };
        let value = |text: &str| {
            let by_name = names.iter().position(|name| text.eq_ignore_ascii_case(name));
            match by_name {
                Some(place) => u32::try_from(place).ok().map(|place| place + low),
                None => text.parse().ok(),
            }
        };
        let (from, to) = match (range, range.split_once('-'), step) {
            ("*" | "?", _, _) => {
                star |= step.is_none_or(|step| step == 1);
                (low, high)
            }
            (_, Some((from, to)), _) => (value(from)?, value(to)?),
            (_, None, None) => (value(range)?, value(range)?),
            (_, None, Some(_)) => (value(range)?, high),
        };
        if from < low || to > high || from > to {
            return None;
        }
        for value in (from..=to).step_by(usize::try_from(step.unwrap_or(1)).ok()?) {
            found |= 1 << value;
        }
    }
    Some((found, star))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn count(expression: &str, zone: &str, policy: &str, from: &str, until: &str) -> Vec<String> {
        let timing = Timing::of(&json!({
            "schedule": expression, "timeZone": zone, "dstPolicy": policy,
        }));
        let created = "2026-01-01T00:07:30Z".parse().unwrap();
        let all = timing.instants(created, from.parse().unwrap(), until.parse().unwrap());
        all.unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn plain_expressions() {
        let day = |expression| {
            count(expression, "UTC", "Once", "2026-11-29T00:00:00Z", "2026-11-29T23:59:59Z").len()
        };
        for (expression, expected) in [
            ("* * * * *", 1440),
            ("*/7 * * * *", 24 * 9),
            ("5-10/2,30 3,4 * * *", 8),
            ("0 0 * NOV Sun", 1),
            ("0 0 1 * SUN", 1), // either
            ("0 0 1 * */2", 1), // `*/2` is no star: either
            ("0 0 1 * */1", 0), // a star: both
            ("0 0 29 * ?", 1),
            ("@hourly", 24),
            ("@every 90m", 16),
            ("0 0 30 2 *", 0),
        ] {
            assert_eq!(day(expression), expected, "{expression}");
        }
    }

    #[test]
    fn the_grid_of_every_begins_at_the_anchor() {
        let found =
            count("@every 1h30m", "UTC", "Once", "2026-01-01T00:00:00Z", "2026-01-01T03:10:00Z");
        assert_eq!(found, ["2026-01-01T00:07:00Z", "2026-01-01T01:37:00Z", "2026-01-01T03:07:00Z"]);
    }

    #[test]
    fn clock_changes() {
        let spring = |expression, policy| {
            count(
                expression,
                "Europe/Berlin",
                policy,
                "2026-03-29T00:00:00Z",
                "2026-03-29T03:00:00Z",
            )
        };
        assert_eq!(spring("30 2 * * *", "Once"), ["2026-03-29T01:00:00Z"]);
        assert_eq!(spring("*/20 2 * * *", "Once"), ["2026-03-29T01:00:00Z"]);
        assert_eq!(spring("30 2 * * *", "CronJob"), Vec::<String>::new());
        assert_eq!(spring("0 * * * *", "Once").len(), 4);
        let autumn = |expression, policy| {
            count(
                expression,
                "Europe/Berlin",
                policy,
                "2026-10-25T00:00:00Z",
                "2026-10-25T03:00:00Z",
            )
        };
        assert_eq!(autumn("30 2 * * *", "Once"), ["2026-10-25T00:30:00Z"]);
        let twice = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"];
        assert_eq!(autumn("30 2 * * *", "CronJob"), twice);
    }

    #[test]
    fn what_cannot_be_read_is_never_due() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (expression, zone) in [
            ("* * * *", "UTC"),
            ("60 * * * *", "UTC"),
            ("0 0 * * 7", "UTC"),
            ("9-5 * * * *", "UTC"),
            ("*/0 * * * *", "UTC"),
            ("@every 90s", "UTC"),
            ("0 0 * * *", "Mars/Olympus"),
        ] {
            let timing = Timing::of(&json!({"schedule": expression, "timeZone": zone}));
            assert_eq!(timing.instants(now, now, now), None, "{expression} {zone}");
        }
    }

    #[test]
    fn it_agrees_with_the_schedule_of_the_operator() {
        use crate::time::{DstPolicy, IntendedTime, Schedule};
        let created: Timestamp = "2026-01-01T00:07:30Z".parse().unwrap();
        let (from, until) = ("2026-03-07T00:00:00Z", "2026-03-30T00:00:00Z");
        let before: Timestamp = "2026-03-06T23:59:59Z".parse().unwrap();
        for expression in [
            "*/17 * * * *",
            "30 1-3 * * *",
            "15 2 */5 * MON",
            "0 0,12 8 * *",
            "@every 47m",
            "@weekly",
        ] {
            for zone in ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"] {
                for (policy, name) in [(DstPolicy::Once, "Once"), (DstPolicy::CronJob, "CronJob")] {
                    let anchor = IntendedTime::floor(created);
                    let schedule = Schedule::parse(expression, zone, policy, anchor).unwrap();
                    let theirs: Vec<String> = schedule
                        .between(before, until.parse().unwrap())
                        .map(|at| at.timestamp().to_string())
                        .collect();
                    let ours = count(expression, zone, name, from, until);
                    assert!(ours == theirs && !ours.is_empty(), "{expression} {zone} {name}");
                }
            }
        }
    }
}
