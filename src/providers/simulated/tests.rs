use std::collections::BTreeMap;

use super::*;
use crate::{
    api::ResultValue,
    providers::job::fixtures::{START, simulated_request, stopping, word},
};

struct Scene {
    service: InProcess,
    clock: LeaseClock,
}

fn at(seconds: u64) -> LeaseInstant {
    LeaseInstant::from_nanos(0).after(Duration::from_secs(seconds))
}

impl Scene {
    fn new() -> Self {
        let clock = LeaseClock::driven(at(0));
        let wall = WallClock::driven(START.parse().unwrap());
        Self { service: InProcess::new("p1", clock.clone(), wall), clock }
    }

    /// Prepares and releases a run; gives its record.
    fn run(&self, spec: &str) -> Committed {
        let Prepared::Ready { handle } = self.service.prepare(&simulated_request(spec)).unwrap()
        else {
            panic!("not ready")
        };
        self.service.release(&handle).unwrap();
        Committed { handle: Some(handle), ..Committed::default() }
    }

    fn status(&self, committed: &Committed) -> RunStatus {
        status(&self.service, ActionClass::Fenced, committed).unwrap()
    }
}

#[test]
fn a_run_is_held_until_released_and_takes_its_time() {
    let scene = Scene::new();
    let spec = "{durationSeconds: 30, result: {rows: 3}}";
    let Prepared::Ready { handle } = scene.service.prepare(&simulated_request(spec)).unwrap()
    else {
        panic!("not ready")
    };
    assert!(is_simulated(&handle) && handle.len() <= 128);
    let committed = Committed { handle: Some(handle.clone()), ..Committed::default() };
    scene.clock.set(at(100));
    assert_eq!(scene.status(&committed), RunStatus::Held);
    scene.service.release(&handle).unwrap();
    scene.clock.set(at(129));
    scene.service.release(&handle).unwrap();
    let started = START.parse().unwrap();
    assert_eq!(scene.status(&committed), RunStatus::Running { started, pod: None });
    scene.clock.set(at(130));
    assert_eq!(
        scene.status(&committed),
        RunStatus::Succeeded {
            started: Some(started),
            completed: Some("2026-11-29T02:00:30Z".parse().unwrap()),
            result: Some(BTreeMap::from([("rows".into(), ResultValue::Integer(3))])),
            result_lost: false,
            artifact: Delivered::Nothing,
        }
    );
}

#[test]
fn every_outcome_is_told_and_cancelled_as_the_contract_says() {
    for (description, spec, after, expected, cancelled) in [
        ("default, running", "{}", 9, "Running", "Absent"),
        ("default", "{}", 10, "Succeeded", "Succeeded"),
        ("no time at all", "{durationSeconds: 0}", 0, "Succeeded", "Succeeded"),
        ("fails", "{outcome: Failed}", 10, "Failed", "Failed"),
        ("cannot say, running", "{outcome: Unknown}", 9, "Running", "Absent"),
        ("cannot say", "{outcome: Unknown}", 10, "Unknown", "Absent"),
        ("hangs", "{outcome: Hang}", 9, "Running", "Stopping"),
        ("hangs on", "{outcome: Hang}", 100_000, "Running", "Stopping"),
    ] {
        let scene = Scene::new();
        let committed = scene.run(spec);
        scene.clock.set(at(after));
        assert_eq!(word(&scene.status(&committed)), expected, "{description}");
        cancel(&scene.service, &stopping(&committed), false).unwrap();
        assert_eq!(word(&scene.status(&committed)), cancelled, "{description}, cancelled");
    }
}

#[test]
fn reasons_say_what_a_retry_may_expect() {
    for (reason, class) in [
        ("Crash", FailureClass::Deterministic),
        ("NodeLost", FailureClass::Disruption),
        ("Unavailable", FailureClass::Transient),
    ] {
        let scene = Scene::new();
        let committed =
            scene.run(&format!("{{durationSeconds: 0, outcome: Failed, reason: {reason}}}"));
        match scene.status(&committed) {
            RunStatus::Failed { reason: told, class: told_class, .. } => {
                assert_eq!((told.as_str(), told_class), (reason, class));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn one_key_is_one_run() {
    let scene = Scene::new();
    let first = scene.service.prepare(&simulated_request("{durationSeconds: 5}")).unwrap();
    let again = scene.service.prepare(&simulated_request("{durationSeconds: 7}")).unwrap();
    assert_eq!(first, again, "held: the newest content under the same handle");
    let committed = scene.run("{durationSeconds: 7}");
    scene.clock.set(at(6));
    assert_eq!(word(&scene.status(&committed)), "Running");
    let adopted = scene.service.prepare(&simulated_request("{durationSeconds: 1}")).unwrap();
    assert_eq!(adopted, first, "started: found, not started again");
    assert_eq!(word(&scene.status(&committed)), "Running");
}

#[test]
fn a_cancelled_run_is_never_released_and_a_cancel_waits_for_its_record() {
    let scene = Scene::new();
    let committed = scene.run("{}");
    let early = cancel(&scene.service, &committed, false);
    assert!(matches!(early, Err(ProviderError::Conflict(_))), "{early:?}");
    assert_eq!(word(&scene.status(&committed)), "Running");
    cancel(&scene.service, &stopping(&committed), false).unwrap();
    let released = scene.service.release(committed.handle.as_deref().unwrap());
    assert!(matches!(released, Err(ProviderError::Conflict(_))), "{released:?}");
    assert_eq!(scene.status(&committed), RunStatus::Absent);
}

#[test]
fn a_run_of_another_process_is_unknown() {
    let committed = Scene::new().run("{}");
    let scene = Scene::new();
    let other = InProcess::new("p2", scene.clock.clone(), WallClock::system());
    let ask = |class, committed: &Committed| word(&status(&other, class, committed).unwrap());
    for (description, class, committed, expected) in [
        ("nothing committed", ActionClass::Fenced, Committed::default(), "Absent"),
        ("Fenced", ActionClass::Fenced, committed.clone(), "Unknown"),
        ("Fenced, stop requested", ActionClass::Fenced, stopping(&committed), "Unknown"),
        ("ReadOnly", ActionClass::ReadOnly, committed.clone(), "Unknown"),
        ("ReadOnly, stop requested", ActionClass::ReadOnly, stopping(&committed), "Absent"),
        ("Idempotent, stop requested", ActionClass::Idempotent, stopping(&committed), "Absent"),
    ] {
        assert_eq!(ask(class, &committed), expected, "{description}");
    }
    let handle = committed.handle.unwrap();
    assert!(matches!(other.release(&handle), Err(ProviderError::Conflict(_))));
    other.cancel(&handle).unwrap();
}

#[test]
fn orphans_are_ended() {
    let scene = Scene::new();
    let orphan = |attempts| Orphan {
        namespace: "docs".into(),
        parent_uid: "parent-1".into(),
        class: ActionClass::Fenced,
        attempts,
        http: None,
        run_key: None,
    };
    let running = scene.run("{}");
    let unknown = Committed { handle: Some("simulated/p0/x".into()), ..Committed::default() };
    let job = Committed { handle: Some("a-uid".into()), ..Committed::default() };
    let stop = |attempts| stop_orphans(&scene.service, &orphan(attempts)).unwrap();
    assert_eq!(stop(None), Orphans::Over, "Jobs are not asked for here");
    assert_eq!(stop(Some(vec![Committed::default(), job])), Orphans::Over);
    assert_eq!(stop(Some(vec![running.clone()])), Orphans::Over);
    assert_eq!(scene.status(&running), RunStatus::Absent);
    assert!(matches!(stop(Some(vec![unknown])), Orphans::NotYet { .. }));
}

#[test]
fn runs_that_are_over_make_room() {
    let scene = Scene::new();
    let with_key = |n: usize| RunRequest { run_key: format!("k{n}"), ..simulated_request("{}") };
    for n in 0..MAX_RUNS {
        scene.service.prepare(&with_key(n)).unwrap();
    }
    let full = scene.service.prepare(&with_key(MAX_RUNS)).unwrap();
    assert!(matches!(full, Prepared::NotYet { .. }), "{full:?}");
    scene.service.cancel(&scene.service.handle("k5")).unwrap();
    let ready = scene.service.prepare(&with_key(MAX_RUNS)).unwrap();
    assert!(matches!(ready, Prepared::Ready { .. }), "{ready:?}");
    assert_eq!(scene.service.lock().len(), MAX_RUNS);
}
