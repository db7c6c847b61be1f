//! How right forecasts are: `cargo bench --bench accuracy [-- BURSTS]`.
//!
//! Plays bursts of the arrival model with different seeds. Each queue is asked 5 s after the burst, the
//! minute included over which clients spread their jobs, when it will be drained and when every
//! waiting job will start; that is compared with what came of it. Beside the start the queue says
//! there are two plain formulas for the same jobs: jobs before it, times the mean estimate, over the
//! slots; "before it" by order of arrival, as a ticket counter would say, and by the order of
//! admission, which only the queue itself knows.
//!
//! Goals: the drain of a burst is within 15 % of the truth at the median, or 20 % where 40 % of the
//! attempts fail; in 95 of 100 bursts all is done when it was said to be done at most; and starts are
//! told better than by the order of arrival. Fails when a goal is missed.

use std::process::ExitCode;

use punctual::{
    arrivals::{Failures, Model, Rhythm},
    reports::rules::Rules,
    simulate::{
        AFTER_BURST_SECONDS, Setting,
        forecast::{Sample, Told, error},
        play,
    },
};

/// Bursts of each row.
const BURSTS: u64 = 100;
/// Goal for the drain of a burst at the median, in percent,
const DRAIN: Option<f64> = Some(15.0);
/// and where so many attempts fail that most of the time goes to retries, one at a time: how many
/// will fail is known to a tenth, and what the budget does not pay is a difference of two sums.
const DRAIN_OF_RETRIES: Option<f64> = Some(20.0);
/// Goal for the bound on the drain, in percent of the bursts.
const BOUND: usize = 95;
/// What took less is not judged, in milliseconds: half a minute counts as on time.
const LEAST: i64 = 60_000;

/// A kind of burst.
struct Row {
    name: &'static str,
    /// Goal for the drain at the median, in percent. None: the row is printed and not judged.
    goal: Option<f64>,
    slots: i32,
    jobs: u32,
    hours: u32,
    change: fn(&mut Model),
}

const ROWS: [Row; 6] = [
    Row {
        name: "1500 jobs, 64 slots",
        goal: DRAIN,
        slots: 64,
        jobs: 3_000,
        hours: 25,
        change: burst,
    },
    Row {
        name: "2000 jobs, 40 slots",
        goal: DRAIN,
        slots: 40,
        jobs: 4_000,
        hours: 25,
        change: burst,
    },
    Row { name: "300 jobs, 8 slots", goal: DRAIN, slots: 8, jobs: 600, hours: 25, change: burst },
    Row { name: "exact estimates", goal: DRAIN, slots: 64, jobs: 3_000, hours: 25, change: exact },
    Row {
        name: "40 % of attempts fail",
        goal: DRAIN_OF_RETRIES,
        slots: 64,
        jobs: 3_000,
        hours: 25,
        change: fail,
    },
    Row { name: "jobs go on coming", goal: None, slots: 64, jobs: 4_500, hours: 3, change: go_on },
];

/// Two bursts at midnight, a day apart: the second finds a queue that knows how often attempts fail.
fn burst(model: &mut Model) {
    let mut day = [0.0; 24];
    day[0] = 1.0;
    model.rhythm = Rhythm { day, ..Rhythm::burst() };
}

fn exact(model: &mut Model) {
    burst(model);
    (model.work.tenant_sigma, model.work.run_sigma) = (0.0, 0.0);
    model.failures = Failures::none();
}

fn fail(model: &mut Model) {
    burst(model);
    model.failures.transient_per_mille = 400;
}

/// A Monday from eight on: the forecast does not know of jobs that come after it.
fn go_on(model: &mut Model) {
    const EIGHT: i64 = 8 * 3_600;
    let eight = model.from.as_second() + EIGHT;
    model.from = jiff::Timestamp::from_second(eight).unwrap_or(model.from);
}

/// Errors of a row, in thousandths, in order.
#[derive(Default)]
struct Errors {
    drain: Vec<i64>,
    /// How many drains took no longer than was said they would at most.
    bound: usize,
    said: Vec<i64>,
    by_turn: Vec<i64>,
    by_arrival: Vec<i64>,
}

impl Errors {
    fn add(&mut self, sample: &Sample, told: &[Told]) {
        if let (Some(about), Some(over)) = (sample.about, sample.over) {
            self.drain.extend(error(sample.at, about, over, LEAST));
            self.bound += usize::from(sample.at_most.is_some_and(|at_most| over <= at_most));
        }
        for told in told {
            let Some(started) = told.started else { continue };
            let of = |said| error(told.at, said, started, LEAST);
            self.said.extend(of(told.said));
            self.by_turn.extend(of(told.by_turn));
            self.by_arrival.extend(of(told.by_arrival));
        }
    }
}

fn played(row: &Row, bursts: u64) -> Errors {
    let mut errors = Errors::default();
    for seed in 1..=bursts {
        let mut model = Model { seed, hours: row.hours, jobs: row.jobs, ..Model::default() };
        (row.change)(&mut model);
        let rules = Rules { slots: row.slots, queued_per_tenant: 10_000, ..Rules::default() };
        let hour = i64::from(row.hours - 1) * 3_600 + AFTER_BURST_SECONDS;
        let mut setting = Setting::new(model, rules);
        setting.asks = vec![setting.model.from.as_millisecond() + hour * 1_000];
        let played = play(&setting, |_| {});
        for sample in &played.asked {
            errors.add(sample, &played.told);
        }
    }
    for all in [&mut errors.drain, &mut errors.said, &mut errors.by_turn, &mut errors.by_arrival] {
        all.sort_unstable();
    }
    errors
}

/// A quantile of sorted errors, in percent.
fn part(errors: &[i64], percent: usize) -> f64 {
    let place = (errors.len() * percent).div_ceil(100).max(1) - 1;
    errors.get(place).and_then(|e| i32::try_from(*e).ok()).map_or(f64::NAN, |e| f64::from(e) / 10.0)
}

fn main() -> ExitCode {
    let given = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let bursts = given.unwrap_or(BURSTS).max(1);
    println!("errors in percent of what came of it, median / 90 %, over {bursts} bursts each");
    println!(
        "{:<24} {:>15} {:>7} {:>15} {:>15} {:>15} {:>9}",
        "", "drain", "bound", "start", "turn / rate", "arrival / rate", "jobs"
    );
    let mut missed = false;
    for row in &ROWS {
        let errors = played(row, bursts);
        let pair = |of: &[i64]| format!("{:.1} / {:.1}", part(of, 50), part(of, 90));
        let drain = part(&errors.drain, 50);
        let beaten = part(&errors.said, 50) < part(&errors.by_arrival, 50);
        let bound = errors.bound * 100 / errors.drain.len().max(1);
        let reached = |goal| drain <= goal && bound >= BOUND && beaten;
        let fine = row.goal.is_none_or(reached);
        missed |= !fine;
        println!(
            "{:<24} {:>15} {:>5} % {:>15} {:>15} {:>15} {:>9}{}",
            row.name,
            pair(&errors.drain),
            bound,
            pair(&errors.said),
            pair(&errors.by_turn),
            pair(&errors.by_arrival),
            errors.said.len(),
            if fine { "" } else { "  MISSED" }
        );
    }
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
