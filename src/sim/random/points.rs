//! Every point at which a leader can die, and every write of it that can come too late.
//!
//! A quiet history in which the first leader commits n writes of work gives n + 1 histories in which it
//! dies before its first write, or after each one and before it sees the answer; and n histories in
//! which a write is held back on its way, its sender dies or freezes, and the write lands only after a
//! successor has begun to work.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use super::{Report, objects::by_hand};
use crate::{
    api::SimulatedOutcome,
    sim::{
        provider::Rule,
        rng::Rng,
        world::{Effect, Fault, Setup, World, history},
    },
};

/// When the points begin to count: the first term has begun, and nothing is due yet.
const FROM: Duration = Duration::from_secs(10);
/// When it all ends: every run is over by then, whoever had to take it up.
const END: Duration = Duration::from_secs(400);
/// How long a dead replica stays dead.
const DEAD_FOR: Duration = Duration::from_secs(60);
/// A held write is let through so long after its successor has written first: it has sealed by then.
const AFTER_SEAL: Duration = Duration::from_secs(2);
/// How often the world is looked at while a write is held back.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most points of one history: one with more would be a load test.
pub const MAX_POINTS: u32 = 200;

/// A quiet history whose points are tried one by one.
#[derive(Clone, Debug)]
pub struct Story {
    /// What it shows.
    pub name: &'static str,
    /// What is in the cluster.
    pub objects: Vec<Value>,
    /// How runs behave.
    pub rules: Vec<Rule>,
}

/// What becomes of the leader whose write is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It dies.
    Dies,
    /// It freezes until the write has landed.
    Freezes,
}

/// One point of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The leader dies after so many writes, 0 for before the first.
    Crash(u32),
    /// This write of the leader, counted from 0, lands only after a successor works.
    Late(u32, Fate),
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash(0) => f.write_str("the leader dies before its first write"),
            Self::Crash(writes) => write!(f, "the leader dies after write {writes}"),
            Self::Late(number, Fate::Dies) => {
                write!(f, "write {} is late, its sender dies", number + 1)
            }
            Self::Late(number, Fate::Freezes) => {
                write!(f, "write {} is late, its sender freezes", number + 1)
            }
        }
    }
}

/// All points of a story. Plays it once, to count its writes.
pub fn points(story: &Story) -> Vec<Point> {
    let writes = count(story, seed_of(story));
    let late = (0..writes)
        .flat_map(|number| [Fate::Dies, Fate::Freezes].map(|fate| Point::Late(number, fate)));
    (0..=writes).map(Point::Crash).chain(late).collect()
}

/// Plays one point of a story.
pub fn play(story: &Story, point: Point) -> Report {
    let seed = seed_of(story);
    match point {
        Point::Crash(writes) => crash(story, seed, writes),
        Point::Late(number, fate) => late(story, seed, number, fate),
    }
}

/// The histories: a run that succeeds, one that fails and is tried again, a Job, a replaced run, one
/// made by hand, and two schedules at once.
pub fn stories() -> Vec<Story> {
    let simulated = json!({"simulated": {"durationSeconds": 30}});
    let retried = json!({
        "actionClass": "Idempotent", "maxAttempts": 2, "simulated": {"durationSeconds": 10},
    });
    let container = json!({"name": "main", "image": "example.org/work:1"});
    let job = json!({"job": {"template": {"spec": {"containers": [container]}}}});
    let failing = Rule {
        matches: "nightly-*".into(),
        attempts: Some(vec![1]),
        outcome: SimulatedOutcome::Failed,
        reason: Some("Unavailable".into()),
        ..Rule::default()
    };
    let one = |run: &Value| vec![schedule("nightly", "0 2 * * *", "Forbid", run)];
    let story = |name, objects, rules| Story { name, objects, rules };
    let by_hand = by_hand("alone", "202611290200", "2026-11-29T02:00:00Z", Some(simulated.clone()));
    vec![
        story("a simulated run", one(&simulated), Vec::new()),
        story("a retry", one(&retried), vec![failing]),
        story("a Job", one(&job), Vec::new()),
        story(
            "replaced",
            vec![schedule(
                "nightly",
                "* * * * *",
                "Replace",
                &json!({"simulated": {"durationSeconds": 90}}),
            )],
            Vec::new(),
        ),
        story("made by hand", vec![by_hand], Vec::new()),
        story(
            "two schedules",
            vec![
                schedule("nightly", "0 2 * * *", "Forbid", &simulated),
                schedule("often", "*/2 * * * *", "Enqueue", &simulated),
            ],
            Vec::new(),
        ),
    ]
}

fn schedule(name: &str, expression: &str, concurrency: &str, run: &Value) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": expression, "concurrencyPolicy": concurrency, "run": run},
    })
}

/// The world of a story when its points begin to count, and its leader.
async fn begin(story: &Story, seed: u64) -> (World, usize) {
    let world = World::new(Setup { seed, ..Setup::default() });
    for object in &story.objects {
        if let Err(why) = world.model().install(object) {
            world.note(format!("an object of the story is refused: {why}"));
        }
    }
    world.provider().add_rules(story.rules.clone());
    world.start();
    world.run_until(FROM).await;
    let leader = world.leader().unwrap_or(0);
    (world, leader)
}

/// How many writes of work the leader of the quiet history commits: the number of its points.
fn count(story: &Story, seed: u64) -> u32 {
    history(async {
        let (world, leader) = begin(story, seed).await;
        let before = world.work_writes(leader);
        world.run_until(END).await;
        (world.work_writes(leader) - before).min(MAX_POINTS)
    })
}

/// The history in which the leader dies after so many writes, 0 for before the first.
fn crash(story: &Story, seed: u64, point: u32) -> Report {
    history(async {
        let (world, leader) = begin(story, seed).await;
        world.crash_after_write(leader, point);
        while world.living().contains(&leader) && world.elapsed() < END {
            world.run_until(world.elapsed() + LOOK_EVERY).await;
        }
        world.run_until(world.elapsed() + DEAD_FOR).await;
        world.restart(leader);
        world.run_until(END.max(world.elapsed() + DEAD_FOR * 2)).await;
        world.settle().await;
        Report::of(seed, &world)
    })
}

/// The history in which a write of the leader, counted from 0, lands only after a successor works.
fn late(story: &Story, seed: u64, point: u32, fate: Fate) -> Report {
    history(async {
        let (world, leader) = begin(story, seed).await;
        let late = Fault::next_write(Effect::Hold);
        world.inject(Fault { replica: Some(leader), skip: point, ..late });
        let held = || world.coverage().faults.keys().any(|(fault, _)| fault == "held back");
        while !held() && world.elapsed() < END {
            world.run_until(world.elapsed() + LOOK_EVERY / 20).await;
        }
        match fate {
            Fate::Dies => world.kill(leader),
            Fate::Freezes => world.pause(leader),
        }
        let others = || -> u32 {
            let all = 0..world.setup().replicas;
            all.filter(|replica| *replica != leader).map(|replica| world.work_writes(replica)).sum()
        };
        while others() == 0 && world.elapsed() < END {
            world.run_until(world.elapsed() + LOOK_EVERY).await;
        }
        world.run_until(world.elapsed() + AFTER_SEAL).await;
        world.let_through();
        world.resume(leader);
        world.run_until(world.elapsed() + DEAD_FOR).await;
        if !world.living().contains(&leader) {
            world.restart(leader);
        }
        world.run_until(END.max(world.elapsed() + DEAD_FOR * 2)).await;
        world.settle().await;
        Report::of(seed, &world)
    })
}

/// Where a story draws its seed from: only its points matter.
fn seed_of(story: &Story) -> u64 {
    let name = story.name.bytes().map(u64::from).sum();
    Rng::new(name).draw()
}
