use super::*;
use points::Fate;

/// Says what is wrong with a history, and how to see it again.
fn complaint(what: &str, report: &Report) -> String {
    let mut lines = vec![format!("{what}, seed {}:", report.seed)];
    lines.extend(report.violations.iter().map(ToString::to_string));
    lines.extend(report.defects.iter().cloned());
    lines.extend(report.story.iter().map(ToString::to_string));
    lines.join("\n")
}

fn hold(what: &str, report: &Report) {
    assert!(report.is_clean(), "{}", complaint(what, report));
}

#[test]
fn a_plan_is_its_seed() {
    assert_eq!(plan(7), plan(7));
    assert_ne!(plan(7).moves, plan(8).moves);
    for seed in 0..200 {
        let plan = plan(seed);
        assert!(plan.moves.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!(plan.moves.iter().all(|(at, _)| *at <= plan.calm) && plan.calm < plan.end);
        assert!(!plan.objects.is_empty());
    }
}

#[test]
fn random_histories_are_clean() {
    // 66: the second pod of a Job was deleted before it had started.
    for seed in (0..4).chain([66]) {
        hold("random", &history(seed));
    }
}

#[test]
fn a_random_history_repeats() {
    let (first, second) = (history(3), history(3));
    assert_eq!(first.log, second.log);
    assert_eq!(first.story, second.story);
}

#[test]
fn every_crash_point_of_a_run_is_survived() {
    let story = &points::stories()[0];
    let seed = points::seed_of(story);
    let writes = points::count(story, seed);
    assert!(writes >= 5, "created, claimed, sealed, committed, recorded: {writes}");
    for point in 0..=writes {
        hold(&format!("crash after write {point}"), &points::crash(story, seed, point));
    }
}

#[test]
fn every_write_of_a_run_may_come_too_late() {
    let story = &points::stories()[0];
    let seed = points::seed_of(story);
    for point in 0..points::count(story, seed) {
        for fate in [Fate::Dies, Fate::Freezes] {
            let report = points::late(story, seed, point, fate);
            hold(&format!("write {point} late, leader {fate:?}"), &report);
        }
    }
}
