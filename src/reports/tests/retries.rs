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
    let (mut most_seen, mut exhausted) = (0, 0);
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
            let before = world.books.retries();
            for entry in world.admit() {
                if entry.retry {
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
    assert!(most_seen >= 6 && exhausted > 500, "{most_seen} at once, {exhausted} without budget");
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
    // 20 slots for six minutes are full; all but a second is spent.
    let spent = Ledger { retry_spent: 20 * 360_000 - 1_000, ..Ledger::new() };
    let mut books = Books::open(&spent);
    let jobs = [retry("a", "t", 60_000), retry("b", "u", 1_000)];
    let waiting = waiting(&jobs);
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
