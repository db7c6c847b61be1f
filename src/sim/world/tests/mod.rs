mod determinism;

use serde_json::{Value, json};

use super::*;
use crate::authority::Gained;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn nightly() -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {
            "schedule": "0 2 * * *",
            "run": {"actionClass": "Fenced", "simulated": {"durationSeconds": 90}},
        },
    })
}

/// A world whose replicas have just been started, with a schedule that is due after two minutes.
fn world(seed: u64) -> World {
    let world = World::new(Setup { seed, ..Setup::default() });
    world.model().install(&nightly()).unwrap();
    world.start();
    world
}

fn occurrence(world: &World) -> Arc<Value> {
    let key = Key::new(Kind::MaintenanceOccurrence, "default", "nightly-202611290200");
    world.model().get(&key).unwrap_or_default()
}

fn state(world: &World) -> String {
    occurrence(world)["status"]["state"].as_str().unwrap_or_default().to_owned()
}

fn told(world: &World) -> String {
    let lines: Vec<String> = world.story().iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn one_of_two_replicas_leads_and_runs_what_is_due() {
    history(async {
        let world = world(1);
        world.run_until(secs(30)).await;
        let leader = world.leader().unwrap();
        assert_eq!(world.standby(), Some(1 - leader));
        world.run_until(secs(150)).await;
        assert_eq!(state(&world), "Running", "{}", told(&world));
        world.run_until(secs(240)).await;
        assert_eq!(state(&world), "Succeeded", "{}", told(&world));
        let runs = world.provider().runs();
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].name, "nightly-202611290200");
        let terms = world.terms();
        assert_eq!(terms.len(), 1);
        assert_eq!((terms[0].replica, terms[0].gained), (Some(leader), Gained::First));
        assert!(world.defects().is_empty());
    });
}

#[test]
fn a_killed_leader_is_succeeded_and_its_run_goes_on() {
    history(async {
        let world = world(2);
        world.run_until(secs(150)).await;
        let first = world.leader().unwrap();
        world.kill(first);
        assert_eq!(world.leader(), Some(first), "the Lease still names it");
        assert_eq!(world.living(), [1 - first]);
        world.run_until(secs(165)).await;
        assert_eq!(world.leader(), Some(1 - first), "{}", told(&world));
        world.run_until(secs(240)).await;
        assert_eq!(state(&world), "Succeeded");
        assert_eq!(world.provider().runs().len(), 1);
        let terms = world.terms();
        assert_eq!((terms.len(), terms[1].gained), (2, Gained::Expired));
        assert!(terms[1].epoch > terms[0].epoch);
        assert_eq!(terms[0].ended.as_ref().unwrap().0, secs(150));
        let story = told(&world);
        for sentence in [
            &format!("0:02:30.000  r{first} is killed; it gives nothing back"),
            &format!("r{first} leads no more (epoch {}): r{first} is killed", terms[0].epoch),
            &format!(" leads with epoch {}: r{first} had not renewed for 1", terms[1].epoch),
        ] {
            assert!(story.contains(sentence), "{sentence}\n{story}");
        }
    });
}

#[test]
fn a_frozen_leader_wakes_up_deposed_and_changes_nothing() {
    history(async {
        let world = world(3);
        world.run_until(secs(119)).await;
        let first = world.leader().unwrap();
        world.pause(first);
        assert!(world.is_frozen(first));
        world.run_until(secs(200)).await;
        assert_eq!(world.leader(), Some(1 - first));
        assert_eq!(state(&world), "Running", "the successor ran it: {}", told(&world));
        let before = world.write_log().lines().filter(|line| is_work_of(line, first)).count();
        world.resume(first);
        world.run_until(secs(300)).await;
        let after = world.write_log().lines().filter(|line| is_work_of(line, first)).count();
        assert_eq!(before, after, "{}", told(&world));
        assert_eq!(state(&world), "Succeeded");
        assert_eq!(world.provider().runs().len(), 1);
        assert_eq!(world.living().len(), 2, "the deposed process ended and started again");
        assert_eq!(world.terms().len(), 2);
        let story = told(&world);
        assert!(story.contains(&format!("r{first} ends: leadership was lost")), "{story}");
        assert!(story.contains(&format!("r{first} starts again (process 2)")), "{story}");
    });
}

fn is_work_of(line: &str, replica: usize) -> bool {
    let by = format!(" r{replica} ");
    line.contains(&by) && !line.contains("lease/") && !line.contains("event/")
}

#[test]
fn a_leader_that_is_cut_off_gives_up_and_comes_back() {
    history(async {
        let world = world(4);
        world.run_until(secs(60)).await;
        let first = world.leader().unwrap();
        world.partition(first);
        world.run_until(secs(90)).await;
        assert_eq!(world.leader(), Some(1 - first), "{}", told(&world));
        world.heal(first);
        world.run_until(secs(300)).await;
        assert_eq!(state(&world), "Succeeded", "{}", told(&world));
        assert_eq!(world.terms().len(), 2);
        assert!(world.coverage().faults.contains_key(&("partition".into(), "-".into())));
    });
}

#[test]
fn a_crash_is_before_or_after_a_write_and_the_dead_stay_dead() {
    for (writes, committed) in [(0, 0), (1, 1), (3, 3)] {
        history(async {
            let world = world(5);
            world.run_until(secs(119)).await;
            let first = world.leader().unwrap();
            let count = || world.write_log().lines().filter(|line| is_work_of(line, first)).count();
            let before = count();
            world.crash_after_write(first, writes);
            world.run_until(secs(300)).await;
            assert_eq!(count() - before, committed, "{}", told(&world));
            assert_eq!(world.living(), [1 - first]);
            assert_eq!(state(&world), "Succeeded", "{}", told(&world));
            assert_eq!(world.provider().runs().len(), 1);
            world.restart(first);
            world.run_until(secs(310)).await;
            assert_eq!(world.living().len(), 2);
        });
    }
}

#[test]
fn a_write_that_was_held_back_lands_after_its_successor_sealed_and_is_refused() {
    history(async {
        let world = world(6);
        world.run_until(secs(119)).await;
        let first = world.leader().unwrap();
        // The third write of the instant is the first status write of the occurrence.
        let hold = Fault { replica: Some(first), skip: 2, ..Fault::next_write(Effect::Hold) };
        world.inject(hold);
        world.run_until(secs(121)).await;
        world.kill(first);
        world.run_until(secs(200)).await;
        assert_eq!(world.leader(), Some(1 - first));
        world.let_through();
        world.settle().await;
        let refused: Vec<Refused> = world
            .story()
            .into_iter()
            .filter_map(|entry| match entry.what {
                What::Refused(refused) if entry.replica == Some(first) => Some(refused),
                _ => None,
            })
            .collect();
        assert_eq!(refused.len(), 1, "{}", told(&world));
        assert!(refused[0].stale && refused[0].code == 409, "{refused:?}");
        world.run_until(secs(300)).await;
        assert_eq!(state(&world), "Succeeded", "{}", told(&world));
    });
}

#[test]
fn lost_delayed_doubled_and_refused_writes_end_in_one_run() {
    let silent = |silent| (Effect::LoseRequest { silent }, Effect::LoseResponse { silent });
    let mut effects = vec![
        Effect::Duplicate { after: secs(3) },
        Effect::Delay { by: secs(20) },
        Effect::Freeze { lasting: secs(15) },
        Effect::CutOff { lasting: secs(15) },
    ];
    for (request, response) in [silent(true), silent(false)] {
        effects.extend([request, response]);
    }
    effects.push(Effect::Refuse { code: 409, committed: false });
    for code in [429, 503] {
        effects.extend([false, true].map(|committed| Effect::Refuse { code, committed }));
    }
    for (seed, effect) in (10..).zip(effects) {
        history(async {
            let world = world(seed);
            world.run_until(secs(119)).await;
            let strikes = Fault { skip: 1, times: 3, ..Fault::next_write(effect.clone()) };
            world.inject(strikes);
            world.run_until(secs(400)).await;
            assert_eq!(state(&world), "Succeeded", "{effect:?}\n{}", told(&world));
            let runs = world.provider().runs();
            assert_eq!(runs.iter().filter(|run| run.released_at.is_some()).count(), 1);
            let name = effect.name();
            let struck = world.coverage().faults.keys().any(|(fault, _)| *fault == name);
            assert!(struck && world.defects().is_empty(), "{effect:?}");
        });
    }
}

#[test]
fn a_claim_of_which_nobody_learnt_starts_its_occurrence_all_the_same() {
    history(async {
        let world = world(11);
        world.run_until(secs(119)).await;
        let kind = Some(Kind::MaintenanceSchedule);
        let lost = Fault::next_write(Effect::LoseResponse { silent: false });
        world.inject(Fault { kind, times: 2, ..lost });
        let unread = Fault::next_write(Effect::LoseRequest { silent: false });
        world.inject(Fault { kind, class: Class::Read, times: 3, ..unread });
        world.run_until(secs(150)).await;
        assert_eq!(state(&world), "Running", "{}", told(&world));
        assert_eq!(world.terms().len(), 1);
    });
}

#[test]
fn faults_of_the_api_server_pass() {
    for fault in [
        ApiFault::Unavailable(secs(20)),
        ApiFault::DropResponses(5),
        ApiFault::Conflicts(5),
        ApiFault::Refuse { code: 429, times: 8, committed: false },
        ApiFault::Latency { extra: secs(1), lasting: secs(30) },
        ApiFault::StaleReads(secs(30)),
        ApiFault::PodsNotListed(secs(30)),
        ApiFault::Compact,
        ApiFault::BreakConnections,
    ] {
        history(async {
            let world = world(7);
            world.run_until(Duration::from_millis(119_500)).await;
            world.api(&fault);
            world.run_until(secs(400)).await;
            assert_eq!(state(&world), "Succeeded", "{fault:?}\n{}", told(&world));
            assert_eq!(world.provider().runs().len(), 1);
            assert!(world.defects().is_empty());
        });
    }
}

#[test]
fn the_lease_deleted_or_edited_costs_a_term_and_no_run() {
    for edit in [None, Some(json!({"spec": {"holderIdentity": "somebody/else"}}))] {
        history(async {
            let world = world(8);
            world.run_until(secs(140)).await;
            match edit.clone() {
                None => world.delete_lease(),
                Some(patch) => world.patch_lease(patch).unwrap(),
            }
            world.run_until(secs(300)).await;
            assert_eq!(state(&world), "Succeeded", "{edit:?}\n{}", told(&world));
            assert_eq!(world.provider().runs().len(), 1);
            let terms = world.terms();
            assert!(terms.len() >= 2, "{}", told(&world));
            assert!(terms.windows(2).all(|pair| pair[0].epoch < pair[1].epoch));
        });
    }
}

#[test]
fn a_moment_settles_when_what_it_began_is_done() {
    history(async {
        let world = world(9);
        world.run_until(secs(100)).await;
        assert!(world.settle().await);
        assert!(world.elapsed() < secs(100) + QUIET * 3, "{:?}", world.elapsed());
        world.run_until(secs(120)).await;
        assert!(world.settle().await);
        assert_eq!(state(&world), "Running", "{}", told(&world));
        assert!(world.elapsed() < secs(121), "{:?}", world.elapsed());
    });
}

#[test]
fn a_stopped_leader_hands_over_and_stays_down() {
    history(async {
        let world = world(12);
        world.run_until(secs(60)).await;
        let first = world.leader().unwrap();
        world.stop(first);
        world.run_until(secs(61)).await;
        assert_eq!(world.leader(), Some(1 - first), "{}", told(&world));
        assert_eq!(world.terms()[1].gained, Gained::Released);
        world.run_until(secs(70)).await;
        assert_eq!(world.living(), [1 - first]);
    });
}
