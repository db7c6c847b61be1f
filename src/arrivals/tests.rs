//! The model has the moments and the bursts that its parameters say. Bounds are five standard errors:
//! a right model exceeds them once in two million seeds.

use super::*;
use crate::providers::FailureClass;

const HOUR: i64 = 3_600_000;

fn many() -> Model {
    Model { jobs: 200_000, ..Model::default() }
}

/// The part of the jobs of which it holds.
fn part(arrivals: &[Arrival], holds: impl Fn(&Arrival) -> bool) -> f64 {
    let count = u32::try_from(arrivals.iter().filter(|job| holds(job)).count()).unwrap();
    f64::from(count) / f64::from(u32::try_from(arrivals.len()).unwrap())
}

#[track_caller]
fn close(what: f64, to: f64, within: f64) {
    assert!((what - to).abs() <= within, "{what} is not {to} ± {within}");
}

/// Five standard errors of a part of so many.
fn five_errors(part: f64, of: f64) -> f64 {
    5.0 * (part * (1.0 - part) / of).sqrt()
}

#[test]
fn a_seed_is_one_history_and_jobs_come_in_order_within_it() {
    let model = Model { jobs: 5_000, ..Model::default() };
    let (all, again) = (model.arrivals(), model.arrivals());
    assert_eq!(all, again);
    assert_ne!(all, Model { seed: 2, ..model.clone() }.arrivals());
    assert_eq!(all.len(), 5_000);
    let from = model.from.as_millisecond();
    for (number, pair) in (1..).zip(all.windows(2)) {
        assert!(pair[0].at <= pair[1].at && pair[1].number == number);
    }
    assert!(all.iter().all(|job| job.at >= from && job.at < from + 24 * HOUR + 60_000));
    assert!(all.iter().all(|job| job.tenant < 300 && job.estimate >= 1 && job.cost >= 1_000));
    let failing = Model { failures: Failures::none(), outage: None, ..model };
    assert_eq!(all, failing.arrivals(), "how jobs end does not move how they come");
}

#[test]
fn jobs_come_at_marks_in_the_parts_that_the_rhythm_says() {
    let arrivals = many().arrivals();
    let from = Model::default().from.as_millisecond();
    // From three seconds before a mark, for clocks that are fast, to a minute after it.
    let near = |minute: i64| {
        move |job: &Arrival| {
            let since = (job.at - from - minute * 60_000).rem_euclid(HOUR);
            !(61_000..HOUR - 3_000).contains(&since)
        }
    };
    let anywhere = 0.30 * 64.0 / 3_600.0;
    for (minute, share) in
        [(0, 0.40), (30, 0.10), (15, 0.05), (45, 0.05), (5, 0.0125), (55, 0.0125)]
    {
        let share = share + anywhere;
        close(part(&arrivals, near(minute)), share, five_errors(share, 200_000.0));
    }
    close(part(&arrivals, near(7)), anywhere, five_errors(anywhere, 200_000.0));
    // Half of those who do not spread their jobs are there after the median of the lateness.
    let small = |job: &Arrival| job.tenant > 0;
    let burst: Vec<Arrival> =
        arrivals.iter().filter(|job| small(job) && near(0)(job)).copied().collect();
    let early = part(&burst, |job| (job.at - from + 3_000).rem_euclid(HOUR) < 3_000 + 2_773);
    close(early, 0.8 * 0.50 + 0.2 * 0.046, 0.02);
}

#[test]
fn the_largest_tenant_submits_in_one_block() {
    let arrivals = many().arrivals();
    let from = Model::default().from.as_millisecond();
    let burst = |job: &&Arrival| job.tenant == 0 && (job.at - from).rem_euclid(HOUR) < 60_000;
    let all: Vec<Arrival> = arrivals.iter().filter(burst).copied().collect();
    let block = part(&all, |job| (job.at - from).rem_euclid(HOUR) < 1_000);
    assert!(block > 0.98, "{block} of its jobs of the full hour come within a second");
}

#[test]
fn hours_have_the_volume_of_the_day() {
    let arrivals = many().arrivals();
    let from = Model::default().from.as_millisecond();
    let day = Rhythm::default().day;
    let total: f64 = day.iter().sum::<f64>() + day[9]; // a Monday: 09 counts twice
    for (hour, volume) in [(0, day[0]), (4, day[4]), (9, 2.0 * day[9]), (14, day[14])] {
        let share = volume / total;
        let of_hour = |job: &Arrival| (job.at - from + 3_000) / HOUR == hour;
        close(part(&arrivals, of_hour), share, five_errors(share, 200_000.0) + 0.0005);
    }
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let hours = |from: &str, hours| Model { from: at(from), hours, ..many() }.arrivals();
    let second_day = |from: &str| {
        let start = at(from).as_millisecond();
        part(&hours(from, 48), |job| job.at - start + 3_000 >= 24 * HOUR)
    };
    // The first of a month has twice the volume of the day before it; neither is a Monday.
    close(second_day("2026-09-30T00:00:00Z"), 2.0 / 3.0, 0.006);
}

#[test]
fn tenants_have_shares_of_zipf() {
    let arrivals = many().arrivals();
    let total: f64 = (1..=300).map(|rank| f64::from(rank).powf(-1.1)).sum();
    for rank in [1, 2, 3, 10, 100] {
        let share = f64::from(rank).powf(-1.1) / total;
        let of = part(&arrivals, |job| job.tenant + 1 == rank);
        close(of, share, five_errors(share, 200_000.0));
    }
}

#[test]
fn estimates_have_the_body_and_the_tail_that_the_parameters_say() {
    let arrivals = many().arrivals();
    let mean = arrivals.iter().map(|job| f64::from(job.estimate)).sum::<f64>() / 200_000.0;
    // 95 % log-normal with mean 123.3, 5 % bounded Pareto with mean 773.
    close(mean, 0.95 * 123.3 + 0.05 * 773.0, 6.0);
    let below = |seconds: i32| part(&arrivals, |job| job.estimate <= seconds);
    close(below(60), 0.95 * 0.5, 0.02);
    // 1.2 · 1.6449 above the logarithm of the median is the 95 % quantile of the body.
    close(below(432), 0.95 * 0.95 + 0.05 * 0.355, 0.01);
    assert!(arrivals.iter().all(|job| (1..=3_600).contains(&job.estimate)));
}

#[test]
fn tenants_are_wrong_about_their_jobs_each_by_a_factor_of_its_own() {
    let model = many();
    let arrivals = model.arrivals();
    for tenant in [0, 1, 2] {
        let of: Vec<f64> = arrivals
            .iter()
            .filter(|job| job.tenant == tenant && (10..200).contains(&job.estimate))
            .map(|job| (numbers_of(job.cost) / (1_000.0 * f64::from(job.estimate))).ln())
            .collect();
        let count = f64::from(u32::try_from(of.len()).unwrap());
        let mean = of.iter().sum::<f64>() / count;
        let variance = of.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
        close(mean, model.bias(tenant).ln() - 0.125, 5.0 * 0.5 / count.sqrt());
        close(variance.sqrt(), 0.5, 0.02);
    }
    let biases: Vec<f64> = (0..10_000).map(|tenant| model.bias(tenant)).collect();
    close(biases.iter().sum::<f64>() / 10_000.0, 1.0, 5.0 * 0.0042);
}

fn numbers_of(millis: i64) -> f64 {
    f64::from(i32::try_from(millis).unwrap())
}

/// Endings of the first attempt of each job that are failures of that kind, as a part of all.
fn failing(model: &Model, arrivals: &[Arrival], reason: &str) -> f64 {
    part(arrivals, |job| {
        model.ending(job, 1, job.at).failure.is_some_and(|failure| failure.reason == reason)
    })
}

#[test]
fn attempts_fail_as_often_as_the_parameters_say() {
    let model = many();
    let arrivals = model.arrivals();
    let sound = 1.0 - 0.005 - 0.005; // neither of the broken template nor broken themselves
    for (reason, share) in [
        ("ExitCode", 0.05 * sound),
        ("Evicted", 0.01 * sound),
        ("Crash", 0.005),
        ("InvalidParameters", 0.005),
        ("Unavailable", 0.0),
    ] {
        close(failing(&model, &arrivals, reason), share, five_errors(share, 200_000.0));
    }
    let broken = |job: &&Arrival| {
        let ending = model.ending(job, 1, job.at);
        ending.failure.is_some_and(|failure| failure.class == FailureClass::Deterministic)
    };
    for job in arrivals.iter().filter(broken).take(200) {
        let (first, second) = (model.ending(job, 1, job.at), model.ending(job, 2, job.at + HOUR));
        assert_eq!(first.failure, second.failure, "it fails again in the same way");
    }
}

#[test]
fn an_outage_fails_what_starts_in_it_and_nothing_else() {
    let calm = many();
    let outage = Outage { after_seconds: 10 * 3_600, seconds: 1_200, percent: 60 };
    let model = Model { outage: Some(outage), ..calm.clone() };
    let arrivals = model.arrivals();
    let from = model.from.as_millisecond() + 10 * HOUR;
    let (inside, outside): (Vec<Arrival>, Vec<Arrival>) =
        arrivals.iter().partition(|job| (from..from + 1_200_000).contains(&job.at));
    let share = failing(&model, &inside, "Unavailable");
    close(share, 0.6, five_errors(0.6, f64::from(u32::try_from(inside.len()).unwrap())));
    assert!(outside.iter().all(|job| model.ending(job, 1, job.at) == calm.ending(job, 1, job.at)));
}

#[test]
fn few_customers_lose_patience_and_after_the_time_that_is_said() {
    let arrivals = many().arrivals();
    close(part(&arrivals, |job| job.patience.is_some()), 0.01, five_errors(0.01, 200_000.0));
    let after: Vec<f64> = arrivals.iter().filter_map(|job| job.patience).map(numbers_of).collect();
    let mean = after.iter().sum::<f64>() / f64::from(u32::try_from(after.len()).unwrap());
    close(mean, 900_000.0, 5.0 * 900_000.0 / 2_000_f64.sqrt());
}
