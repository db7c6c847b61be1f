//! A slow, simple model of the instants of an expression: it looks at every moment of real time,
//! with the calendar and the zones of `jiff` and nothing of the walk.

use jiff::{Timestamp, ToSpan, civil::DateTime, tz::TimeZone};

use crate::time::{DstPolicy, cron::CronFields};

/// Seconds looked at before the time of interest, to know what clocks had reached by then.
/// More than the widest shift ever made.
const LOOK_BACK: i64 = 26 * 3600;

/// Whether the local minute matches.
pub(super) fn matches(fields: &CronFields, local: DateTime) -> bool {
    let day = fields.days & (1 << local.day()) != 0;
    let weekday = fields.weekdays & (1 << local.weekday().to_sunday_zero_offset()) != 0;
    fields.months & (1 << local.month()) != 0
        && if fields.both_days { day && weekday } else { day || weekday }
        && fields.hours & (1 << local.hour()) != 0
        && fields.minutes & (1 << local.minute()) != 0
}

/// The instants after `after` and at or before `until`, in seconds, looking at every `grain`
/// seconds: 60 where offsets are whole minutes, 1 elsewhere.
pub(super) fn instants(
    fields: &CronFields,
    zone: &TimeZone,
    policy: DstPolicy,
    (after, until): (i64, i64),
    grain: i64,
) -> Vec<i64> {
    let real = policy == DstPolicy::CronJob || (0..24).all(|hour| fields.hours & (1 << hour) != 0);
    let mut found = Vec::new();
    let mut reached: Option<DateTime> = None;
    let mut at = after - LOOK_BACK;
    while at <= until {
        let local = zone.to_datetime(Timestamp::from_second(at).unwrap());
        let on_minute = local.second() == 0;
        let hit = if real {
            on_minute && matches(fields, local)
        } else {
            let had_reached = reached.unwrap_or(local);
            reached = Some(had_reached.max(local.saturating_add(grain.seconds())));
            let jumped_over = had_reached < local && {
                let mut lost = had_reached;
                while lost.second() != 0 {
                    lost = lost.saturating_add(1.second());
                }
                lost.series(1.minute()).take_while(|&l| l < local).any(|l| matches(fields, l))
            };
            jumped_over || (local >= had_reached && on_minute && matches(fields, local))
        };
        if hit && at > after {
            found.push(at);
        }
        at += grain;
    }
    found
}
