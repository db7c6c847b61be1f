//! How fast histories are played, on one core: `cargo bench --bench histories [-- A..B]`.
//!
//! Prints how many leader changes of a busy cluster fit into a second, which are to be at least 50, how
//! many random histories, and what did not hold. With one number in place of a range it prints the story
//! of that seed. Seconds are those of the processor: what else the machine does is left out.

use std::{process::ExitCode, time::Duration};

use punctual::sim::{
    random,
    world::{Coverage, Setup, World, history},
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// Leaders that die one after the other.
const CHANGES: u32 = 200;
/// Time from one death to the next: a Lease runs out after 11.5 s.
const BETWEEN: Duration = Duration::from_secs(20);

/// Processor time of this program so far, in seconds.
fn cpu_secs() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let secs = u32::try_from(spent.tv_sec).map_or(f64::MAX, f64::from);
    secs + u32::try_from(spent.tv_nsec).map_or(0.0, f64::from) / 1e9
}

/// Leaders of three replicas die one after the other while two schedules run something every minute.
/// Gives how many terms there were.
fn leader_changes() -> usize {
    history(async {
        let world = World::new(Setup { replicas: 3, ..Setup::default() });
        for name in ["often", "as-often"] {
            let schedule = json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "schedule": "* * * * *", "concurrencyPolicy": "Forbid",
                    "retention": {"successful": 3, "failed": 1},
                    "run": {"simulated": {"durationSeconds": 30}},
                },
            });
            world.model().install(&schedule).expect("the schedule is valid");
        }
        world.start();
        for number in 1..=CHANGES {
            world.run_until(BETWEEN * number).await;
            if let Some(leader) = world.leader() {
                world.restart(leader);
            }
        }
        assert_eq!(world.finish(), []);
        world.terms().len()
    })
}

fn main() -> ExitCode {
    let range = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let range = range.unwrap_or_else(|| "0..100".to_owned());
    let Some((from, to)) = seeds(&range) else {
        eprintln!("{range:?}: give a seed or a range of seeds, for example 0..100");
        return ExitCode::from(2);
    };
    if range.contains("..") {
        let begun = cpu_secs();
        let terms = f64::from(u32::try_from(leader_changes()).unwrap_or(0));
        let each = terms / (cpu_secs() - begun);
        println!("{each:.0} leader changes a second, of a cluster in which runs go on");
    }
    let begun = cpu_secs();
    let (mut terms, mut commits, mut virtual_secs, mut bad) = (0, 0, 0.0, 0);
    let mut coverage = Coverage::default();
    for seed in from..to {
        let report = random::history(seed);
        terms += report.terms;
        commits += report.commits;
        virtual_secs += report.lasted.as_secs_f64();
        coverage.merge(&report.coverage);
        if !range.contains("..") {
            report.story.iter().for_each(|entry| println!("{entry}"));
            println!("{}", report.log);
        }
        if !report.is_clean() {
            bad += 1;
            println!("seed {seed}:");
            report.violations.iter().for_each(|violation| println!("  {violation}"));
            report.defects.iter().for_each(|defect| println!("  {defect}"));
        }
    }
    let secs = cpu_secs() - begun;
    let number = |count: u64| u32::try_from(count).map_or(f64::MAX, f64::from);
    let histories = number(to - from);
    let changes = number(u64::try_from(terms).unwrap_or(u64::MAX));
    print_coverage(&coverage);
    println!(
        "{histories} histories in {secs:.1} s: {:.1} a second, {:.1} leader changes a second, {:.0} \
         writes a second, {:.0} times real time; {bad} with violations",
        histories / secs,
        changes / secs,
        number(commits) / secs,
        virtual_secs / secs,
    );
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn seeds(range: &str) -> Option<(u64, u64)> {
    match range.split_once("..") {
        Some((from, to)) => Some((from.parse().ok()?, to.parse().ok()?)),
        None => range.parse().ok().map(|seed: u64| (seed, seed + 1)),
    }
}

fn print_coverage(coverage: &Coverage) {
    for ((fault, request), count) in &coverage.faults {
        println!("fault       {count:>7} {fault} × {request}");
    }
    for ((from, to), count) in &coverage.transitions {
        println!("transition  {count:>7} {from} → {to}");
    }
    for ((state, reason), count) in &coverage.reasons {
        println!("reason      {count:>7} {state}/{reason}");
    }
    for (what, map) in [
        ("skipped", &coverage.skipped),
        ("event", &coverage.events),
        ("gained", &coverage.gained),
        ("ended", &coverage.ended),
        ("workload", &coverage.workload),
    ] {
        for (name, count) in map {
            println!("{what:<11} {count:>7} {name}");
        }
    }
}
