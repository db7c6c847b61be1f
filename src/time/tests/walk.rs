//! The walk: recorded cases, and a slow model over random expressions, all zones, and the times
//! around their clock changes.

use std::collections::BTreeSet;

use jiff::{Timestamp, tz::TimeZoneDatabase};
use proptest::prelude::*;

use super::{at, instant, oracle, properties, schedule};
use crate::time::{
    DstPolicy, IntendedTime, Schedule,
    cron::{CronExpression, CronFields},
    walk::ceil_minute,
    zone::Zone,
};

/// Most stretches that one walk may visit: what comes before the first skip, and a few for each
/// matching date that a gap swallows. Measured: 3.
const MOST_STEPS: u32 = 8;

/// First second from which every offset is a whole minute (Monrovia changed on 7 January 1972).
const WHOLE_MINUTES_SINCE: i64 = 66_000_000;

const BOTH: [DstPolicy; 2] = [DstPolicy::CronJob, DstPolicy::Once];

#[test]
fn recorded_cases() {
    let recorded = include_str!("../../../tests/data/cron-cases.tsv");
    let mut cases = 0;
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let [name, expression, zone, from, cron_job, once] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("six columns: {line}");
        };
        for (policy, expected) in BOTH.into_iter().zip([cron_job, once]) {
            let answer = match schedule_from(expression, zone, policy, from) {
                None => "refused".to_owned(),
                Some(schedule) => {
                    let wanted = expected.split(',').count();
                    let found: Vec<String> = schedule
                        .between(at(from), Timestamp::MAX)
                        .take(wanted)
                        .map(|t| t.to_string())
                        .collect();
                    if found.is_empty() { "never".to_owned() } else { found.join(",") }
                }
            };
            assert_eq!(answer, expected, "{name}, {policy:?}");
            cases += 1;
        }
    }
    assert!(cases > 200, "{cases}");
}

/// A schedule anchored at `from`, unless it is refused.
fn schedule_from(expression: &str, zone: &str, policy: DstPolicy, from: &str) -> Option<Schedule> {
    Schedule::parse(expression, zone, policy, instant(from)).ok()
}

#[test]
fn zones_are_places_in_exact_spelling() {
    for (name, part) in [
        ("", "is empty"),
        ("Local", "is not a place's time zone"),
        ("Factory", "is not a place's time zone"),
        ("Etc/Unknown", "is not a place's time zone"),
        ("posixrules", "is not a place's time zone"),
        ("europe/berlin", "must be spelled \"Europe/Berlin\""),
        ("utc", "must be spelled \"UTC\""),
        ("Mars/Olympus", "is not in the IANA time zone database"),
        ("EST5EDT,M3.2.0,M11.1.0", "is not in the IANA time zone database"),
    ] {
        let sentence = Zone::lookup(name).unwrap_err().to_string();
        assert!(sentence.contains(part), "{name}: {sentence}");
    }
    for name in
        ["UTC", "Etc/UTC", "GMT", "Europe/Berlin", "US/Pacific", "Etc/GMT+5", "Asia/Kolkata"]
    {
        assert_eq!(Zone::lookup(name).unwrap().name(), name);
    }
    assert!(crate::time::tzdb_version().starts_with("20"));
}

#[test]
fn intervals_keep_their_grid_from_the_anchor_on() {
    let anchor = instant("2025-02-27T00:45:00Z");
    let every = Schedule::parse("@every 6h", "Europe/Berlin", DstPolicy::Once, anchor).unwrap();
    let next = |t: &str| every.next_after(at(t)).unwrap().to_string();
    assert_eq!(next("2020-01-01T00:00:00Z"), "2025-02-27T00:45:00Z");
    assert_eq!(next("2025-02-27T00:45:00Z"), "2025-02-27T06:45:00Z");
    assert_eq!(next("2025-03-30T01:00:30Z"), "2025-03-30T06:45:00Z");
    let (from, to) = (at("2025-02-27T00:44:59Z"), at("2025-02-28T00:45:00Z"));
    assert_eq!(every.count_within(from, to), 5);
    assert_eq!(every.last_within(from, to), Some(instant("2025-02-28T00:45:00Z")));
    assert_eq!(every.last_within(at("2020-01-01T00:00:00Z"), from), None);
    assert_eq!(every.newest_within(from, to, 2).len(), 2);
}

#[test]
fn time_has_two_ends() {
    let daily = schedule("0 0 * * *", "UTC", DstPolicy::Once).unwrap();
    let next = |t: Timestamp| daily.next_after(t).map(|t| t.to_string());
    assert_eq!(next(Timestamp::MIN).unwrap(), "0001-01-01T00:00:00Z");
    assert_eq!(next(at("9999-12-29T00:00:00Z")).unwrap(), "9999-12-30T00:00:00Z");
    assert_eq!(next(at("9999-12-30T00:00:00Z")), None, "timestamps end at 22:00 of that day");
    assert_eq!(next(Timestamp::MAX), None);
    assert_eq!(daily.count_within(Timestamp::MAX, Timestamp::MIN), 0);
    assert_eq!(daily.last_within(Timestamp::MAX, Timestamp::MIN), None);
}

/// The changes of a zone's clocks in the years that schedules live in.
fn changes(zone: &Zone) -> Vec<i64> {
    let tz = TimeZoneDatabase::bundled().get(zone.name()).unwrap();
    let since = Timestamp::from_second(WHOLE_MINUTES_SINCE).unwrap();
    tz.following(since)
        .map(|change| change.timestamp().as_second())
        .take_while(|&second| second < at("2040-01-01T00:00:00Z").as_second())
        .collect()
}

/// Every zone of the database.
fn zones() -> Vec<Zone> {
    let names = TimeZoneDatabase::bundled();
    let all: Vec<Zone> =
        names.available().filter_map(|name| Zone::lookup(name.as_str()).ok()).collect();
    assert!(all.len() > 500, "{}", all.len());
    all
}

/// Compares every answer of the walk with the model's, within `window` seconds around `around`.
fn agrees_with_the_model(
    expression: &str,
    zone: &Zone,
    policy: DstPolicy,
    around: i64,
    (window, grain): (i64, i64),
) {
    let said = format!("{expression:?} {} {policy:?} around {around}", zone.name());
    let schedule = schedule(expression, zone.name(), policy).unwrap();
    let CronExpression::Fields(fields) = CronExpression::parse(expression).unwrap() else {
        panic!("the model knows fields only");
    };
    let tz = TimeZoneDatabase::bundled().get(zone.name()).unwrap();
    let (after, until) = (ceil_minute(around - window), ceil_minute(around + window));
    let mut expected: Vec<i64> = oracle::instants(&fields, &tz, policy, (after, until), grain);
    for second in &mut expected {
        *second = ceil_minute(*second);
    }
    expected.dedup();
    expected.retain(|&second| second <= until);

    let [after, until] = [after, until].map(|s| Timestamp::from_second(s).unwrap());
    let found: Vec<IntendedTime> = schedule.between(after, until).collect();
    let seconds = |t: &IntendedTime| t.timestamp().as_second();
    assert_eq!(found.iter().map(seconds).collect::<Vec<_>>(), expected, "next: {said}");
    assert_eq!(schedule.newest_within(after, until, usize::MAX), found, "last: {said}");
    if grain == 60 {
        let count = schedule.count_within(after, until);
        assert_eq!(count, i64::try_from(found.len()).unwrap(), "count: {said}");
    }
    for pair in found.windows(2) {
        assert!(pair[0] < pair[1], "strictly increasing: {said}");
        let middle = Timestamp::from_second(seconds(&pair[0]).midpoint(seconds(&pair[1]))).unwrap();
        assert_eq!(schedule.next_after(middle), Some(pair[1]), "asked again between: {said}");
    }
}

/// One field of an expression; values near `near` come often.
fn field(min: u32, max: u32, near: Vec<u32>) -> impl Strategy<Value = String> {
    let value = prop_oneof![2 => prop::sample::select(near), 1 => min..=max].boxed();
    let item = prop_oneof![
        3 => Just("*".to_owned()),
        3 => value.clone().prop_map(|v| v.to_string()),
        1 => (2..20_u32).prop_map(|step| format!("*/{step}")),
        1 => (value.clone(), 1..9_u32).prop_map(|(v, step)| format!("{v}/{step}")),
        1 => (value.clone(), value, 1..4_u32)
            .prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b))),
    ];
    prop::collection::vec(item, 1..3).prop_map(|items| items.join(","))
}

/// A random expression.
fn expression() -> impl Strategy<Value = String> {
    (
        field(0, 59, vec![0, 1, 15, 30, 45, 59]),
        field(0, 23, vec![0, 1, 2, 3, 23]),
        field(1, 31, vec![1, 4, 8, 15, 25, 29, 30, 31]),
        field(1, 12, vec![3, 4, 10, 11]),
        field(0, 6, vec![0, 5, 6]),
    )
        .prop_map(|(minute, hour, day, month, weekday)| {
            format!("{minute} {hour} {day} {month} {weekday}")
        })
}

/// A day and its time that a clock change concerns, as an expression that names nothing else.
fn expression_at(local: i64, wide: bool) -> String {
    let t = Timestamp::from_second(local).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
    let (day, month) = if wide {
        ("*".to_owned(), "*".to_owned())
    } else {
        (t.day().to_string(), t.month().to_string())
    };
    format!("{} {} {day} {month} *", t.minute(), t.hour())
}

#[test]
fn every_zone_agrees_with_the_model_around_its_changes() {
    let mut seen = BTreeSet::new();
    for (number, zone) in zones().into_iter().enumerate() {
        let changes = changes(&zone);
        if !seen.insert(changes.clone()) {
            continue; // another name for the same place
        }
        // A spread of the zone's changes, another one in every zone.
        let picked = changes.iter().skip(number % 7).step_by(changes.len() / 2 + 1);
        for (turn, &change) in picked.enumerate() {
            let policy = BOTH[(number + turn) % 2];
            let local =
                change - 60 + zone.offset_seconds(Timestamp::from_second(change - 1).unwrap());
            for into in [-1800, 60, 2400] {
                let expression = expression_at(local + into, into > 0);
                agrees_with_the_model(&expression, &zone, policy, change, (15 * 3600, 60));
            }
        }
    }
}

#[test]
fn offsets_with_seconds_agree_with_the_model() {
    // Clock changes by odd seconds, all before 1972.
    let cases = [
        ("Africa/Monrovia", "1972-01-07T00:44:30Z"),
        ("Europe/Amsterdam", "1937-06-30T23:40:28Z"),
        ("Asia/Manila", "1899-09-05T16:00:00Z"),
        ("Europe/Paris", "1911-03-10T23:50:39Z"),
    ];
    for (zone, change) in cases {
        let zone = Zone::lookup(zone).unwrap();
        for expression in ["30 0 * * *", "*/7 0,1,23 * * *", "* * * * *", "59 23 * * *"] {
            for policy in BOTH {
                let around = at(change).as_second();
                agrees_with_the_model(expression, &zone, policy, around, (2 * 3600, 1));
            }
        }
    }
}

proptest! {
    #![proptest_config(properties(120))]

    #[test]
    fn random_expressions_agree_with_the_model(
        expression in expression(),
        zone in prop::sample::select(zones()),
        change in any::<prop::sample::Index>(),
        once in any::<bool>(),
    ) {
        let changes = changes(&zone);
        let around = if changes.is_empty() {
            at("2026-03-01T00:00:00Z").as_second() // across the end of February
        } else {
            changes[change.index(changes.len())]
        };
        let policy = BOTH[usize::from(once)];
        agrees_with_the_model(&expression, &zone, policy, around, (36 * 3600, 60));
    }

    #[test]
    fn the_walk_takes_few_steps(
        expression in expression(),
        zone in prop::sample::select(zones()),
        second in 0..4_000_000_000_i64,
        once in any::<bool>(),
    ) {
        let CronExpression::Fields(fields) = CronExpression::parse(&expression).unwrap() else {
            unreachable!("no interval is made")
        };
        let (found, steps) = steps(&fields, &zone, BOTH[usize::from(once)], second);
        prop_assert!(steps <= MOST_STEPS, "{} in {}: {} steps", expression, zone.name(), steps);
        if !CronExpression::Fields(fields).never_fires() {
            prop_assert!(found.is_some(), "{} in {} fires", expression, zone.name());
        }
    }
}

fn steps(fields: &CronFields, zone: &Zone, policy: DstPolicy, after: i64) -> (Option<i64>, u32) {
    crate::time::walk::Walk::new(fields, zone, policy).first_after_in_steps(after)
}

#[test]
fn the_rarest_expressions_take_few_steps() {
    let rare = [
        "0 0 29 2 *",
        "30 2 29 2 *",
        "30 2 8 3 *",
        "59 23 31 12 *",
        "0 0 29 2 */1",
        "30 2 30 3 *",
        "* * 29 2 ,",
        ", * * * *",
        "0 0 30 2 *",
    ];
    let mut most = 0;
    for zone in zones() {
        for (expression, policy) in rare.iter().flat_map(|e| BOTH.map(|p| (e, p))) {
            let CronExpression::Fields(fields) = CronExpression::parse(expression).unwrap() else {
                panic!("fields");
            };
            for from in ["1971-01-01T00:00:00Z", "2026-03-08T06:59:59Z", "2096-03-01T00:00:00Z"] {
                most = most.max(steps(&fields, &zone, policy, at(from).as_second()).1);
            }
        }
    }
    assert!(most <= MOST_STEPS, "{most}");
}
