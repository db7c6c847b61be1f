//! How many writes of the operator a report costs: `cargo bench --bench writes [-- REPORTS]`.
//!
//! 500 reports of 20 tenants that take 200 ms each, as Jobs on 64 slots, in a cluster in virtual time
//! in which nothing goes wrong. Every write that the API server accepted is counted by its kind. Goals:
//! at most 5.2 writes over the whole life of a report, of which its admission (the queue's ledger, and
//! what tells the report that it is admitted) at most 1.2. Fails when a goal is missed. Events, the Lease
//! and reads are not counted. The counts are the same every time.

use std::{process::ExitCode, time::Duration};

use punctual::{
    api::SimulatedOutcome,
    sim::{
        Kind,
        provider::Rule,
        world::{Coverage, Setup, World, history},
    },
};
use serde_json::json;

/// Reports, unless the command says another number.
const REPORTS: usize = 500;
/// Who submits them.
const TENANTS: usize = 20;
/// How many run at a time.
const SLOTS: usize = 64;
/// How long one runs.
const RUN: Duration = Duration::from_millis(200);
/// Longest time for all of them, in virtual time.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Goal for the whole life of a report.
const MOST: f64 = 5.2;
/// Goal for its admission.
const MOST_OF_ADMISSION: f64 = 1.2;

/// Plays the burst until every report is done; what was called, and how long it took.
fn burst(reports: usize) -> (Coverage, Duration) {
    history(async {
        let world = World::new(Setup { replicas: 1, ..Setup::default() });
        world.provider().add_rules([Rule {
            matches: "*".to_owned(),
            duration: Some(RUN),
            outcome: SimulatedOutcome::Succeeded,
            ..Rule::default()
        }]);
        let install = |manifest| world.model().install(&manifest).expect("it is valid");
        install(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
            "metadata": {"name": "reports", "namespace": "default"}, "spec": {"slots": SLOTS},
        }));
        world.start();
        world.run_until(Duration::from_secs(30)).await;
        for number in 0..reports {
            install(json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
                "metadata": {"name": format!("r{number:05}"), "namespace": "default"},
                "spec": {
                    "queueName": "reports", "tenant": format!("t{:02}", number % TENANTS),
                    "run": {"job": {"template": {"spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "registry.example/none:1"}],
                    }}}},
                },
            }));
        }
        let begun = world.elapsed();
        let done = || {
            let all = world.model().list(Kind::ReportJob);
            all.iter().filter(|report| report["status"]["state"] == "Succeeded").count() == reports
        };
        while !done() {
            assert!(world.elapsed() < PATIENCE, "the reports do not come to an end");
            world.run_until(world.elapsed() + Duration::from_secs(1)).await;
        }
        assert_eq!(world.violations(), []);
        (world.coverage(), world.elapsed().saturating_sub(begun))
    })
}

fn main() -> ExitCode {
    let number = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let reports = match number.map(|number| number.parse::<usize>()) {
        None => REPORTS,
        Some(Ok(number)) if number > 0 => number,
        Some(_) => {
            eprintln!("give the number of reports, for example 500");
            return ExitCode::from(2);
        }
    };
    let (coverage, lasted) = burst(reports);
    let each = |count: u64| {
        let all = u32::try_from(reports).map_or(f64::MAX, f64::from);
        u32::try_from(count).map_or(f64::MAX, f64::from) / all
    };
    println!(
        "{reports} reports of {} ms on {SLOTS} slots, done in {:.1} s of the cluster's time",
        RUN.as_millis(),
        lasted.as_secs_f64(),
    );
    let (mut total, mut ledger) = (0, 0);
    for ((sort, status), count) in &coverage.calls {
        let is_read = ["get ", "list ", "watch "].iter().any(|verb| sort.starts_with(verb));
        let of_reports = ["rjob", "rqueue", "job"].iter().any(|kind| {
            sort.split(' ').nth(1).is_some_and(|of| of.split('/').next() == Some(kind))
        });
        if is_read || !of_reports || sort.contains("dry run") {
            continue;
        }
        println!("{:>8.3} a report: {sort}, answered {status}", each(*count));
        if *status < 300 {
            total += count;
            ledger += if sort.contains("rqueue") { *count } else { 0 };
        }
    }
    // What tells a report that it is admitted is one write of its status.
    let admission = 1.0 + each(ledger);
    println!(
        "{:.2} writes a report (goal {MOST}), of which {admission:.2} admit it (goal {MOST_OF_ADMISSION})",
        each(total)
    );
    if each(total) <= MOST && admission <= MOST_OF_ADMISSION {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}
