use super::*;
use crate::{
    api::Ledger,
    reports::{
        tests::history::{Mood, World, at, job, run_ref},
        waiting::WaitingJob,
    },
    sim::rng::Rng,
};

const SECOND: i64 = 1_000;

fn filled(jobs: i64, charge: i64) -> Waiting {
    let mut waiting = Waiting::new();
    for number in 0..jobs {
        waiting.upsert(&job(&format!("j{number:05}"), &format!("t{}", number % 7), number, charge));
    }
    waiting
}

fn seconds(from: Timestamp, to: Option<Timestamp>) -> i64 {
    to.unwrap().duration_since(from).as_secs()
}

#[test]
fn the_drain_is_the_work_over_the_slots_and_half_of_the_longest() {
    let now = at(1_700_000_000_000);
    let rules = Rules { slots: 10, retries: false, ..Rules::default() };
    let waiting = filled(100, 60 * SECOND);
    let books = Books::open(&Ledger::new());
    let all = drain(&books, &waiting, &rules, now);
    assert_eq!((all.jobs, all.slot_seconds), (100, 6_000));
    assert_eq!((seconds(now, all.about), seconds(now, all.at_most)), (630, 660));
    // Half of the attempts fail, half-way: 100 first attempts take 4,500 s, 75 retries 3,375 s. 500 s
    // of these go on one slot beside first attempts, the others on five.
    let often = Ledger { retries_per_million: 500_000, ..Ledger::new() };
    let with_retries = Rules { retries: true, ..rules.clone() };
    let more = drain(&Books::open(&often), &waiting, &with_retries, now);
    assert_eq!((more.jobs, more.slot_seconds), (100, 7_875));
    assert_eq!(seconds(now, more.about), 5_000 / 10 + 2_875 / 5 + 30);
    // Nothing starts, so nobody knows.
    let held = Rules { starts: Starts::Held, ..rules.clone() };
    let held = drain(&books, &waiting, &held, now);
    assert_eq!((held.jobs, held.about, held.at_most), (100, None, None));
    let empty = drain(&books, &Waiting::new(), &rules, now);
    assert_eq!(empty, Drain { about: Some(now), at_most: Some(now), ..Drain::default() });
}

#[test]
fn what_runs_counts_with_what_it_still_needs() {
    let now = at(1_700_000_000_000);
    let rules = Rules { retries: false, ..Rules::default() };
    let mut books = Books::open(&Ledger::new());
    books.admit(&filled(1, 600 * SECOND), &rules, now, run_ref);
    // seconds since its admission, seconds that it still needs
    for (since, left) in [(0, 600), (100, 500), (590, 60), (700, 100), (2_000, 1_400)] {
        let now = after(now, since * SECOND);
        let drain = drain(&books, &Waiting::new(), &rules, now);
        assert_eq!((drain.jobs, drain.slot_seconds), (1, left), "{since} s later");
    }
}

/// Plays a burst to its end: when each job started, and when all were done.
fn play(world: &mut World, short: bool) -> (std::collections::BTreeMap<String, i64>, i64) {
    let (mut started, mut end) = (std::collections::BTreeMap::new(), world.now);
    while !world.durable.is_empty() || world.books.used() > 0 {
        if !short {
            world.books = Books::open(&Ledger { retry_spent: 0, ..world.books.close() });
        }
        for entry in world.admit() {
            started.entry(entry.job).or_insert(world.now);
        }
        if world.ends().is_some() {
            end = world.now;
        }
    }
    (started, end)
}

#[test]
fn starts_are_those_that_happen_if_estimates_are_right() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mood = Mood { priorities: rng.chance(50), busy: true, ..Mood::default() };
        let mut world = World::new(seed, mood);
        for _ in 0..4 {
            world.arrivals(30);
        }
        let said = starts(&world.books, &world.waiting, &world.rules, at(world.now));
        assert_eq!(said.len(), world.durable.len());
        let (started, _) = play(&mut world, false);
        for (job, was) in started {
            assert_eq!(said[job.as_str()].at, at(was), "seed {seed}: {job}");
        }
    }
}

#[test]
fn what_the_budget_does_not_pay_is_foreseen_to_go_alone() {
    let now = at(1_700_000_000_000);
    let rules = Rules { slots: 10, ..Rules::default() };
    // 300 retries of a minute, of attempts of which none fails any more.
    let mut waiting = Waiting::new();
    for number in 0..300 {
        let (name, tenant) = (format!("j{number:05}"), format!("t{}", number % 7));
        let first = job(&name, &tenant, number, 60 * SECOND);
        waiting.upsert(&WaitingJob { attempt: 2, retry: true, ..first });
    }
    // Slot-seconds that are left for retries, and those of them that are paid.
    for (left, paid) in [(3_600, 3_600), (600, 600), (0, 0), (-600, 0)] {
        let ledger = Ledger { retry_spent: (3_600 - left) * SECOND, ..Ledger::new() };
        let said = drain(&Books::open(&ledger), &waiting, &rules, now);
        assert_eq!(seconds(now, said.about), paid / 5 + (18_000 - paid) + 30, "{left} left");
        assert!(said.about < said.at_most);
    }
    let off = Rules { retries: false, ..rules };
    let said = drain(&Books::open(&Ledger::new()), &waiting, &off, now);
    assert_eq!(seconds(now, said.about), 1_800 + 30, "nothing holds back what does not start");
}

#[test]
fn nothing_is_done_before_its_longest_run_and_its_last_retry() {
    let now = at(1_700_000_000_000);
    let rules = Rules { slots: 64, ..Rules::default() };
    let mut waiting = filled(1, 600 * SECOND);
    let said = drain(&Books::open(&Ledger::new()), &waiting, &rules, now);
    assert_eq!(seconds(now, said.about), 600);
    let later = Some(after(now, 3_000 * SECOND));
    let first = job("later", "t0", 0, SECOND);
    waiting.upsert(&WaitingJob { attempt: 2, retry: true, not_before: later, ..first });
    let said = drain(&Books::open(&Ledger::new()), &waiting, &rules, now);
    assert_eq!(seconds(now, said.about), 3_000);
    assert!(said.at_most > later);
}

#[test]
fn the_upper_bound_holds_although_attempts_fail_and_the_estimate_is_below_it() {
    let (mut ratios, mut held, mut beyond) = (Vec::new(), 0, 0);
    for seed in 0..240 {
        let mut rng = Rng::new(seed).fork(1);
        let failing = *rng.pick(&[0, 8, 20, 40, 50]).unwrap();
        let mood = Mood { failing, busy: true, ..Mood::default() };
        let mut world = World::new(seed, mood);
        for _ in 0..6 {
            world.arrivals(30);
        }
        if world.durable.is_empty() {
            continue;
        }
        // A queue that has seen such failures expects them.
        let per_million = i64::try_from(failing).unwrap() * 10_000;
        let ledger = Ledger { retries_per_million: per_million, ..world.books.close() };
        world.books = Books::open(&ledger);
        let now = world.now;
        let said = drain(&world.books, &world.waiting, &world.rules, at(now));
        assert!(said.about <= said.at_most);
        let (_, end) = play(&mut world, true);
        let holds = at(end) <= said.at_most.unwrap();
        assert!(holds || failing > 0, "seed {seed}: without failures it always holds");
        held += usize::from(holds);
        beyond += usize::from(world.books.retry_budget_left(&world.rules) < 0);
        let about = said.about.unwrap().as_millisecond() - now;
        ratios.push((end - now) * 100 / about);
    }
    ratios.sort_unstable();
    let count = ratios.len();
    let (low, high) = (ratios[count / 20], ratios[count * 19 / 20]);
    assert!(beyond > 20, "in {beyond} the budget was short");
    assert!(held * 100 >= count * 95, "the bound held in {held} of {count}");
    // Every attempt here fails at its end, twice as late as is thought likely.
    assert!(low >= 80 && high <= 250, "from {low} to {high} percent of what was said");
}

#[test]
fn an_estimate_is_written_again_only_if_it_moved_far() {
    let now = at(0);
    let second = |s: i64| at(s * SECOND);
    // written, new, whether it is worth a write
    for (written, new, worth) in [
        (600, 750, false),
        (600, 751, true),
        (600, 480, false),
        (600, 479, true),
        (6_000, 7_500, false),
        (6_000, 7_501, true),
        (6_000, 5_000, false),
        (6_000, 4_999, true),
        (-100, 0, false),
    ] {
        assert_eq!(moved(Some(second(written)), second(new), now), worth, "{written} to {new}");
    }
    assert!(moved(None, now, now));
}

#[test]
fn people_are_told_whole_seconds_and_never_too_early() {
    for (milliseconds, seconds) in
        [(0, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (-1, 0), (-1_000, -1), (-1_500, -1)]
    {
        assert_eq!(whole(at(milliseconds)), at(seconds * SECOND), "{milliseconds} ms");
    }
    assert_eq!(whole(Timestamp::MAX), Timestamp::MAX);
}

#[test]
fn a_position_is_exact_up_to_ten_and_then_round() {
    for (position, told) in [
        (0, 0),
        (1, 1),
        (9, 9),
        (10, 10),
        (11, 10),
        (15, 20),
        (99, 100),
        (149, 100),
        (150, 200),
        (1_234, 1_000),
        (9_999, 10_000),
    ] {
        assert_eq!(coarse(position), told);
    }
}

#[test]
fn starts_are_told_as_estimated() {
    let rules = Rules::default();
    let ledger = Ledger::new();
    let said = starts(&Books::open(&ledger), &filled(3, 60 * SECOND), &rules, at(0));
    let seconds: Vec<i64> = said.values().map(|start| start.at.as_second()).collect();
    assert_eq!(seconds, [0, 60, 120]);
    let held = Rules { starts: Starts::Held, ..rules };
    assert!(starts(&Books::open(&ledger), &filled(3, 1), &held, at(0)).is_empty());
}
