//! Retries stay within their shares and their budget.

use super::history::{Mood, World, at, job, run_ref};
use crate::{
    api::Ledger,
    reports::{
        admission::{Why, explain},
        ledger::Books,
        rules::{Rules, Starts, TenantRule},
        waiting::{Waiting, WaitingJob},
    },
    sim::rng::Rng,
};

fn retry(name: &str, tenant: &str, charge: i64) -> WaitingJob {
    WaitingJob { attempt: 2, retry: true, not_before: Some(at(0)), ..job(name, tenant, 0, charge) }
}

fn waiting(jobs: &[WaitingJob]) -> Waiting {
    let mut waiting = Waiting::new();
    for job in jobs {
        waiting.upsert(job);
    }
    waiting
}

#[test]
fn retries_never_hold_more_than_their_share_nor_cost_more_than_their_budget() {
    let (mut most_seen, mut exhausted, mut beyond) = (0, 0, 0);
    for seed in 0..400 {
        let mut rng = Rng::new(seed).fork(8);
        let failing = *rng.pick(&[30, 60, 95]).unwrap();
        let mood = Mood { failing, people: rng.chance(30), ..Mood::default() };
        let mut world = World::new(seed, mood);
        let (mut paid_in, mut cost) = (0, 0);
        for _ in 0..40 {
            if rng.chance(60) {
                world.arrivals(3);
            }
            let (before, books) = (world.books.retries(), world.books.clone());
            let none_waits = !world.durable.values().any(|job| !job.retry);
            let admitted = world.admit();
            for (turn, entry) in admitted.iter().enumerate() {
                if entry.retry && !books.budget.affords(&world.rules, entry.charge) && turn == 0 {
                    // One at a time, while there is nothing else to do.
                    assert!(none_waits && books.used() == 0, "seed {seed}");
                    assert_eq!(admitted.len(), 1, "seed {seed}");
                    beyond += 1;
                } else if entry.retry {
                    cost += entry.charge;
                } else {
                    paid_in += entry.charge / 10;
                }
            }
            let (now, firsts_wait) =
                (world.books.retries(), world.durable.values().any(|job| !job.retry));
            // Admitted when none waited, they may go on when some do.
            assert!(now <= world.rules.most_retries(firsts_wait).max(before), "seed {seed}");
            assert!(now <= world.rules.most_retries(false), "seed {seed}");
            most_seen = most_seen.max(now);
            // No estimate is wrong here, so a retry costs what it was charged.
            let slots = i64::try_from(world.rules.slots()).unwrap();
            let largest = world.books.budget.largest();
            let full = (slots * 360_000).max(2 * largest);
            assert!(cost <= full + paid_in, "seed {seed}: {cost} of {full} + {paid_in}");
            for name in world.durable.keys() {
                let why = explain(&world.books, &world.waiting, &world.rules, name);
                exhausted += usize::from(why == Some(Why::RetryBudgetExhausted));
            }
            world.ends();
        }
    }
    assert!(
        most_seen >= 6 && exhausted > 500 && beyond > 5,
        "{most_seen} at once, {exhausted} without budget, {beyond} beyond it"
    );
}

/// Attempts that a history of these tests can have at most, passes that settle nothing included.
const MOST_PASSES: usize = 20_000;

#[test]
fn every_queue_drains_whatever_fails_without_new_work() {
    let mut beyond = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed).fork(9);
        let failing = *rng.pick(&[60, 95, 100]).unwrap();
        let mood =
            Mood { failing, wrong: rng.chance(50), priorities: rng.chance(50), ..Mood::default() };
        let mut world = World::new(seed, mood);
        for _ in 0..20 {
            world.arrivals(10);
            world.admit();
            world.ends();
        }
        let mut passes = 0;
        while !world.durable.is_empty() || world.books.used() > 0 {
            passes += 1;
            assert!(passes < MOST_PASSES, "seed {seed}: {} wait for ever", world.durable.len());
            let left = world.books.retry_budget_left(&world.rules);
            let admitted = world.admit();
            beyond += usize::from(admitted.first().is_some_and(|first| first.charge > left));
            world.ends();
        }
    }
    assert!(beyond > 300, "only {beyond} went beyond the budget");
}

#[test]
fn a_retry_gets_the_next_free_slot_while_retries_hold_less_than_is_guaranteed() {
    let rules = Rules { slots: 2, ..Rules::default() };
    let mut books = Books::open(&Ledger::new());
    let jobs =
        [job("a", "new", 0, 1_000), job("b", "newer", 1, 1_000), retry("r", "failing", 60_000)];
    let (admitted, _) = books.admit(&waiting(&jobs), &rules, at(0), run_ref);
    let names: Vec<&str> = admitted.iter().map(|entry| entry.job.as_str()).collect();
    assert_eq!(names, ["r", "a"]);
    // With one slot nothing is guaranteed, and one may run.
    let one = Rules::default();
    let mut books = Books::open(&Ledger::new());
    let (admitted, _) = books.admit(&waiting(&jobs), &one, at(0), run_ref);
    assert_eq!(admitted[0].job, "a");
    let mut books = Books::open(&Ledger::new());
    let (admitted, _) = books.admit(&waiting(&jobs[2..]), &one, at(0), run_ref);
    assert_eq!(admitted[0].job, "r");
}

#[test]
fn a_retry_waits_for_its_time() {
    let rules = Rules::default();
    let late = WaitingJob { not_before: Some(at(5_000)), ..retry("r", "t", 1_000) };
    let mut waiting = waiting(&[late]);
    let mut books = Books::open(&Ledger::new());
    waiting.advance(at(4_999));
    assert_eq!(waiting.next_due(), Some(at(5_000)));
    assert!(books.admit(&waiting, &rules, at(4_999), run_ref).0.is_empty());
    let why = explain(&books, &waiting, &rules, "r").unwrap();
    assert_eq!(why, Why::BackingOff { until: at(5_000) });
    assert_eq!(why.to_string(), "it is tried again after 1970-01-01T00:00:05Z");
    waiting.advance(at(5_000));
    assert_eq!(waiting.next_due(), None);
    assert_eq!(books.admit(&waiting, &rules, at(5_000), run_ref).0.len(), 1);
}

#[test]
fn a_retry_that_cannot_be_paid_waits_and_smaller_ones_do_not_go_before_it() {
    let rules = Rules { slots: 20, ..Rules::default() };
    // 20 slots for six minutes are full; all but a second is spent, and something runs.
    let spent = Ledger { retry_spent: 20 * 360_000 - 1_000, ..Ledger::new() };
    let mut books = Books::open(&spent);
    let mut waiting = waiting(&[job("x", "w", 0, 0)]);
    assert_eq!(books.admit(&waiting, &rules, at(0), run_ref).0.len(), 1);
    waiting.remove("x", "uid-x");
    for retry in [retry("a", "t", 60_000), retry("b", "u", 1_000)] {
        waiting.upsert(&retry);
    }
    assert!(books.admit(&waiting, &rules, at(0), run_ref).0.is_empty());
    let why = |books: &Books, name| explain(books, &waiting, &rules, name);
    assert_eq!(why(&books, "a"), Some(Why::RetryBudgetExhausted));
    // Work of first attempts pays for it.
    books.budget.first_attempt(&rules, 590_000);
    assert_eq!(books.admit(&waiting, &rules, at(0), run_ref).0.len(), 1);
    // What is given back pays for the next.
    let entry = books.entries().next().unwrap().clone();
    assert_eq!((entry.job.as_str(), books.retry_budget_left(&rules)), ("a", 0));
    assert!(books.settle(&rules, "uid-a", 2, 20_000));
    assert_eq!(books.retry_budget_left(&rules), 40_000);
}

#[test]
fn with_nothing_else_to_do_a_retry_that_cannot_be_paid_goes_alone() {
    let rules = Rules { slots: 20, ..Rules::default() };
    let spent = Ledger { retry_spent: 20 * 360_000, ..Ledger::new() };
    let mut books = Books::open(&spent);
    let mut waiting =
        waiting(&[retry("a", "t", 60_000), retry("b", "u", 1_000), job("x", "w", 5, 0)]);
    let names = |books: &mut Books, waiting: &Waiting| -> Vec<String> {
        let (admitted, _) = books.admit(waiting, &rules, at(0), run_ref);
        admitted.iter().map(|entry| entry.job.clone()).collect()
    };
    assert_eq!(names(&mut books, &waiting), ["x"], "a first attempt waits");
    waiting.remove("x", "uid-x");
    assert!(names(&mut books, &waiting).is_empty(), "a first attempt runs");
    books.settle(&rules, "uid-x", 1, 0);
    assert_eq!(explain(&books, &waiting, &rules, "a"), Some(Why::Next));
    assert_eq!(names(&mut books, &waiting), ["a"]);
    waiting.remove("a", "uid-a");
    assert!(names(&mut books, &waiting).is_empty(), "one at a time");
    assert_eq!(explain(&books, &waiting, &rules, "b"), Some(Why::RetryBudgetExhausted));
    books.settle(&rules, "uid-a", 2, 60_000);
    assert_eq!(names(&mut books, &waiting), ["b"]);
}

#[test]
fn retries_can_be_switched_off() {
    let rules = Rules { retries: false, ..Rules::default() };
    let jobs = [retry("r", "t", 1_000), job("a", "t", 5, 1_000)];
    let mut waiting = waiting(&jobs);
    let mut books = Books::open(&Ledger::new());
    let (admitted, _) = books.admit(&waiting, &rules, at(0), run_ref);
    assert_eq!(admitted[0].job, "a");
    waiting.remove("a", "uid-a");
    books.settle(&rules, "uid-a", 1, 0);
    assert!(books.admit(&waiting, &rules, at(0), run_ref).0.is_empty());
    assert_eq!(explain(&books, &waiting, &rules, "r"), Some(Why::RetriesDisabled));
}

#[test]
fn every_reason_for_waiting_is_found() {
    let capped = TenantRule { weight: 1, max_running: Some(0) };
    let rules = Rules { tenants: [("capped".to_owned(), capped)].into(), ..Rules::default() };
    let jobs = [
        job("a", "t", 0, 1_000),
        job("b", "t", 1, 1_000),
        job("c", "u", 2, 1_000),
        job("d", "capped", 0, 1_000),
        retry("r", "v", 1_000),
    ];
    let mut waiting = waiting(&jobs);
    let mut books = Books::open(&Ledger::new());
    let why = |books: &Books, waiting: &Waiting, name| {
        explain(books, waiting, &rules, name).map(Why::reason)
    };
    assert_eq!(explain(&books, &waiting, &rules, "a"), Some(Why::Next));
    assert_eq!(books.admit(&waiting, &rules, at(0), run_ref).0.len(), 1);
    assert_eq!(why(&books, &waiting, "a"), Some("NameTaken"));
    waiting.remove("a", "uid-a");
    assert_eq!(why(&books, &waiting, "a"), None);
    assert_eq!(why(&books, &waiting, "b"), Some("FairShare"));
    assert_eq!(why(&books, &waiting, "c"), Some("WaitingForSlot"));
    assert_eq!(why(&books, &waiting, "d"), Some("TenantLimit"));
    for (starts, reason) in [(Starts::Held, "QueueHeld"), (Starts::Paused, "QueuePaused")] {
        let rules = Rules { starts, ..rules.clone() };
        assert_eq!(explain(&books, &waiting, &rules, "c").map(Why::reason), Some(reason));
        assert!(books.clone().admit(&waiting, &rules, at(0), run_ref).0.is_empty());
    }
    // A retry runs; with one slot no other may.
    let mut books = Books::open(&Ledger::new());
    let alone = [retry("r", "v", 1_000), retry("s", "w", 1_000)];
    let mut two = Waiting::new();
    two.upsert(&alone[0]);
    assert_eq!(books.admit(&two, &rules, at(0), run_ref).0.len(), 1);
    two.upsert(&alone[1]);
    assert_eq!(why(&books, &two, "s"), Some("RetryShare"));
}
