use std::sync::Arc;

use super::*;
use crate::{
    api::SimulatedOutcome,
    sim::{
        provider::Rule,
        world::{Setup, World, history},
    },
};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const OCCURRENCE: &str = "nightly-202611290200";
const JOB: &str = "nightly-202611290200-m1";

/// A world with a schedule of Jobs that is due after two minutes; each run takes 60 s.
fn world(seed: u64, rule: Rule) -> World {
    let world = World::new(Setup { seed, ..Setup::default() });
    let template = json!({"spec": {"containers": [{"name": "main", "image": "x"}]}});
    let schedule = json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {
            "schedule": "0 2 * * *",
            "run": {"actionClass": "Fenced", "job": {"template": template}},
        },
    });
    world.model().install(&schedule).unwrap();
    let duration = rule.duration.or(Some(secs(60)));
    world.provider().add_rules([Rule { matches: "*".into(), duration, ..rule }]);
    world.start();
    world
}

fn occurrence(world: &World) -> Arc<Value> {
    let key = Key::new(Kind::MaintenanceOccurrence, "default", OCCURRENCE);
    world.model().get(&key).unwrap_or_default()
}

/// State and reason, as `Failed/NodeLost`.
fn state(world: &World) -> String {
    let occurrence = occurrence(world);
    let text = |field: &str| occurrence["status"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("state"), text("reason"))
}

/// A run, what happens to it after 150 s, and where it stands after ten minutes.
fn told(seed: u64, rule: Rule, happens: impl FnOnce(&World)) -> (String, usize) {
    history(async {
        let world = world(seed, rule);
        world.run_until(secs(150)).await;
        assert!(state(&world).starts_with("Running"), "{}", state(&world));
        happens(&world);
        world.run_until(secs(600)).await;
        assert!(world.defects().is_empty());
        (state(&world), world.workload().executions().len())
    })
}

#[test]
fn a_job_runs_once_and_its_result_arrives() {
    let result = Some(BTreeMap::from([("rows".to_owned(), crate::api::ResultValue::Integer(3))]));
    history(async {
        let world = world(1, Rule { result, ..Rule::default() });
        world.run_until(secs(300)).await;
        assert!(state(&world).starts_with("Succeeded"), "{}", state(&world));
        assert_eq!(occurrence(&world)["status"]["result"]["rows"], 3);
        let [run] = &world.workload().executions()[..] else { panic!("one container") };
        assert_eq!(run.job, JOB);
        assert_eq!(run.ended.unwrap().0.saturating_sub(run.started), secs(60));
    });
}

#[test]
fn a_run_that_fails_says_why() {
    let failed = |reason: Option<&str>| Rule {
        outcome: SimulatedOutcome::Failed,
        reason: reason.map(ToOwned::to_owned),
        ..Rule::default()
    };
    let (state, runs) = told(2, failed(Some("DiskFull")), |_| {});
    assert_eq!((state.as_str(), runs), ("Failed/DiskFull", 1));
}

#[test]
fn what_happens_to_a_pod_decides_how_its_run_ends() {
    type Happens = fn(&World);
    let cases: [(&str, Happens, &str); 5] = [
        ("nothing", |_| {}, "Succeeded"),
        ("suspended", |w| w.workload().suspend("default", JOB, true), "Failed/SuspendedByOthers"),
        // Also once both pods are proven over: that says nothing about what they did.
        ("vanished", |w| w.workload().vanish("default", JOB), "Unresolved/DuplicatePod"),
        ("second pod", |w| w.workload().second_pod("default", JOB), "Unresolved/DuplicatePod"),
        ("evicted", |w| w.workload().evict("default", JOB), "Failed"),
    ];
    for (seed, (name, happens, expected)) in (20..).zip(cases) {
        let (state, _) = told(seed, Rule::default(), happens);
        assert!(state.contains(expected), "{name}: {state}");
    }
}

#[test]
fn a_pod_that_vanished_unseen_looks_unstarted_until_the_job_controller_makes_another() {
    history(async {
        let world = world(33, Rule { duration: Some(secs(300)), ..Rule::default() });
        world.run_until(secs(150)).await;
        world.workload().controller_away(secs(60));
        world.workload().vanish("default", JOB);
        for replica in 0..world.setup().replicas {
            world.restart(replica);
        }
        world.run_until(secs(190)).await;
        assert_eq!(state(&world), "Starting/Released");
        assert_eq!(world.workload().executions().len(), 1, "nobody makes another pod");
        world.run_until(secs(400)).await;
        assert_eq!(world.workload().executions().len(), 2);
        assert_eq!(state(&world), "Unresolved/DuplicatePod");
    });
}

#[test]
fn a_node_that_is_removed_proves_nothing() {
    let (state, runs) = told(30, Rule::default(), |world| {
        let node = world.workload().executions()[0].node.clone();
        world.workload().remove_node(&node);
    });
    assert_eq!((state.as_str(), runs), ("Unresolved/EndNotSeen", 1));
}

#[test]
fn a_node_that_is_silent_for_a_while_tells_later() {
    history(async {
        let world = world(31, Rule::default());
        world.run_until(secs(150)).await;
        let node = world.workload().executions()[0].node.clone();
        world.workload().lose_node(&node, false);
        world.run_until(secs(260)).await;
        assert!(state(&world).starts_with("Running"), "nobody heard of the end: {}", state(&world));
        assert!(world.workload().executions()[0].ended.is_some(), "though it ended");
        world.workload().return_node(&node);
        world.run_until(secs(270)).await;
        assert!(state(&world).starts_with("Succeeded"), "{}", state(&world));
    });
}

#[test]
fn a_deleted_occurrence_takes_its_run_with_it() {
    history(async {
        let world = world(32, Rule::default());
        world.run_until(secs(150)).await;
        let key = Key::new(Kind::MaintenanceOccurrence, "default", OCCURRENCE);
        world.model().write("person", Request::delete(&key, Deletion::default())).unwrap();
        world.run_until(secs(170)).await;
        let [run] = &world.workload().executions()[..] else { panic!("one container") };
        assert!(run.ended.is_some_and(|(at, code)| at < secs(170) && code == KILLED));
        assert!(world.model().list(Kind::Job).is_empty());
        assert!(world.model().list(Kind::Pod).is_empty());
    });
}

#[test]
fn the_name_of_a_job_says_what_it_is_an_attempt_of() {
    use Kind::{MaintenanceOccurrence, ReportJob};
    for (job, expected) in [
        ("nightly-202611290200-m1", (MaintenanceOccurrence, "nightly-202611290200", 1)),
        ("acme-1-r12", (ReportJob, "acme-1", 12)),
        ("acme-m1-r2", (ReportJob, "acme-m1", 2)),
        ("a-r1-202611290200-m3", (MaintenanceOccurrence, "a-r1-202611290200", 3)),
        ("a-rx-m3", (MaintenanceOccurrence, "a-rx", 3)),
        ("a-more", (MaintenanceOccurrence, "a-more", 1)),
        ("alone", (MaintenanceOccurrence, "alone", 1)),
    ] {
        assert_eq!(super::pods::attempt_of(job), expected, "{job}");
    }
}
