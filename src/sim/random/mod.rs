//! Random histories: a seed chooses a cluster, what is in it, and everything that goes wrong.
//!
//! A history has two parts. In the first one faults strike and people interfere. Then everything is
//! repaired, and what is left must converge. Each is judged by the same invariants as a scenario.

mod client;
mod duty;
mod moves;
mod objects;
mod person;
mod plan;
pub mod points;
mod report_theme;
mod reports;
mod rows;
mod situation;
#[cfg(test)]
mod tests;
mod theme;

pub use duty::{Duty, REPORT_WRITES, WRITES, duties, duty, report_duties, report_duty};
pub use moves::{Around, Move, Who};
pub use plan::{Plan, plan};
pub use rows::rows;

use std::time::Duration;

use tokio::time::sleep;

use self::moves::Hand;
use super::{
    chronicle::{Chronicle, Recorder},
    invariants::Violation,
    rng::Rng,
    world::{Coverage, Entry, World, history as in_virtual_time},
};

/// What came of a history.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What did not hold.
    pub violations: Vec<Violation>,
    /// Panics, and controllers that ended by themselves.
    pub defects: Vec<String>,
    /// What it went through.
    pub coverage: Coverage,
    /// How often the Lease was acquired.
    pub terms: usize,
    /// How many writes were committed.
    pub commits: u64,
    /// How long it was, in virtual time.
    pub lasted: Duration,
    /// What happened; for people who look for the cause of a failure.
    pub story: Vec<Entry>,
    /// Every committed write; two histories with equal logs are the same.
    pub log: String,
}

impl Report {
    /// Whether everything held.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.defects.is_empty()
    }

    pub(super) fn of(seed: u64, world: &World) -> Self {
        Self {
            seed,
            violations: world.finish(),
            defects: world.defects(),
            coverage: world.coverage(),
            terms: world.terms().len(),
            commits: world.commits(),
            lasted: world.elapsed(),
            story: world.story(),
            log: world.write_log(),
        }
    }
}

/// Plays the history of a seed.
pub fn history(seed: u64) -> Report {
    play(&plan(seed))
}

/// Plays the history of a seed again, and listens to it: to be shown to people.
pub fn told(seed: u64) -> (Report, Chronicle) {
    in_virtual_time(async {
        let plan = plan(seed);
        let world = World::new(plan.setup);
        let recorder = Recorder::attach(&world);
        let report = play_on(&world, &plan).await;
        (report, recorder.chronicle(&world))
    })
}

/// Plays a plan.
pub fn play(plan: &Plan) -> Report {
    in_virtual_time(async { play_on(&World::new(plan.setup), plan).await })
}

async fn play_on(world: &World, plan: &Plan) -> Report {
    for object in &plan.objects {
        // A plan's objects are made by the same schema that judges them; a test installs many.
        if let Err(why) = world.model().install(object) {
            world.note(format!("an object of the plan is refused: {why}"));
        }
    }
    world.provider().add_rules(plan.rules.clone());
    world.start();
    let mut hand = Hand::new(world, Rng::new(plan.setup.seed).fork(0xfa17));
    for (at, one) in &plan.moves {
        hand.until(*at).await;
        hand.make(one);
    }
    hand.until(plan.calm).await;
    hand.repair();
    world.run_until(plan.end).await;
    // A run may just have ended; whoever watches it looks every two seconds.
    for _ in 0..LAST_TRIES {
        if world.settle().await && world.is_able() {
            break;
        }
        sleep(LAST_PAUSE).await;
    }
    Report::of(plan.setup.seed, world)
}

/// How often the end of a history is put off, because somebody has only just begun to lead.
const LAST_TRIES: usize = 24;
/// By how much.
const LAST_PAUSE: Duration = Duration::from_secs(5);
