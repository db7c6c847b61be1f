//! How long it takes to find the next instant: `cargo bench --bench next`.
//!
//! Prints nanoseconds for common expressions (goal: below 2 µs) and for the slowest that are
//! accepted (goal: below 1 ms), and fails when a goal is missed by a machine that is not busy.

use std::{
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use punctual::time::{DstPolicy, IntendedTime, Schedule};

/// Goal for common expressions.
const COMMON: Duration = Duration::from_micros(2);
/// Goal for every accepted expression.
const ANY: Duration = Duration::from_millis(1);

/// Calls of one measurement. The best of several measurements counts: others only add noise.
const CALLS: u32 = 2_000;
const MEASUREMENTS: u32 = 7;

const CASES: [(&str, &str, Duration); 16] = [
    ("* * * * *", "UTC", COMMON),
    ("*/5 * * * *", "America/New_York", COMMON),
    ("@hourly", "Europe/Berlin", COMMON),
    ("0 2 * * *", "UTC", COMMON),
    ("0 2 * * *", "Europe/Berlin", COMMON),
    ("30 2 * * *", "America/New_York", COMMON),
    ("0 9,17 * * 1-5", "Asia/Tokyo", COMMON),
    ("0 9 * * MON-FRI", "America/New_York", COMMON),
    ("0 0 1 * *", "Europe/London", COMMON),
    ("@every 6h", "UTC", COMMON),
    ("0 0 29 2 *", "America/New_York", ANY),
    ("0 0 29 2 */1", "Africa/Casablanca", ANY),
    ("30 2 8 3 *", "America/New_York", ANY),
    ("15 2 29 2 *", "Australia/Lord_Howe", ANY),
    ("0 0 30 2 *", "America/New_York", ANY),
    (", * * * *", "America/New_York", ANY),
];

fn main() -> ExitCode {
    let anchor: IntendedTime = "2026-01-01T00:00:00Z".parse().expect("an instant");
    let mut missed = 0;
    println!("{:<20} {:<20} {:<8} {:>10} {:>10}", "expression", "zone", "policy", "ns", "goal");
    for (expression, zone, goal) in CASES {
        for policy in [DstPolicy::Once, DstPolicy::CronJob] {
            let schedule = Schedule::parse(expression, zone, policy, anchor).expect("accepted");
            let each = best(&schedule, anchor.timestamp());
            let verdict = if each > goal { "  MISSED" } else { "" };
            missed += u32::from(each > goal);
            let (each, goal) = (each.as_nanos(), goal.as_nanos());
            println!("{expression:<20} {zone:<20} {policy:<8?} {each:>10} {goal:>10}{verdict}");
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Time of one `next_after`, from instant to instant and from moments in between.
fn best(schedule: &Schedule, start: Timestamp) -> Duration {
    let measure = || {
        let mut at = start;
        let begin = Instant::now();
        for call in 0..CALLS {
            let next = black_box(schedule).next_after(black_box(at));
            at = match next {
                Some(next) if call % 64 != 63 => next.timestamp(),
                // Rare instants reach the end of time, and some never come: go on from elsewhere.
                _ => start + SignedDuration::from_hours(i64::from(call)),
            };
        }
        begin.elapsed() / CALLS
    };
    (0..MEASUREMENTS).map(|_| measure()).min().unwrap_or_default()
}
