//! Who comes before whom.

use std::collections::BTreeMap;

use super::history::{LARGEST, Mood, World, any_mood, at, job, run_ref};
use crate::{
    api::{Ledger, TAG_SCALE},
    reports::{fairness::units, ledger::Books, rules::Rules, waiting::Waiting},
    sim::rng::Rng,
};

/// First attempts that each tenant was given.
type Served = BTreeMap<String, u64>;

/// Whether the tenant owes nothing, holds nothing and waits for nothing.
fn is_idle(world: &World, tenant: &str) -> bool {
    world.books.accounts.get(&tenant.into()).is_empty() && world.waiting.len_of(tenant) == 0
}

#[test]
fn a_tenant_with_nothing_running_starts_before_any_other_gets_a_second_one() {
    let mut checked = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed).fork(2);
        let mood = Mood { edits: false, wrong: true, ..any_mood(&mut rng) };
        let mut world = World::new(seed, mood);
        let mut served = Served::new();
        // Idle tenants whose first job waits: how often others were served before.
        let mut since: BTreeMap<String, Served> = BTreeMap::new();
        for _ in 0..35 {
            let idle: Vec<String> =
                world.rules.tenants.keys().filter(|name| is_idle(&world, name)).cloned().collect();
            for job in world.arrivals(8) {
                let capped = world.rules.is_capped(&job.tenant, 0);
                if idle.contains(&job.tenant) && !capped {
                    since.entry(job.tenant).or_insert_with(|| served.clone());
                }
            }
            world.people();
            since.retain(|tenant, _| world.waiting.len_of(tenant) > 0);
            for entry in world.admit() {
                if let Some(before) = since.remove(&entry.tenant) {
                    checked += 1;
                    for (tenant, count) in &served {
                        let ahead = count - before.get(tenant).copied().unwrap_or(0);
                        assert!(
                            ahead <= 1 || *tenant == entry.tenant,
                            "seed {seed}: {tenant} got {ahead} before the first of {}",
                            entry.tenant
                        );
                    }
                }
                if !entry.retry {
                    *served.entry(entry.tenant).or_default() += 1;
                }
            }
            world.ends();
        }
    }
    assert!(checked > 1_500, "only {checked} first jobs of idle tenants");
}

/// A flood of one tenant comes first, then a small one's first job: how many of the flood start
/// before it, with so many slots.
fn ahead_of_the_small_one(backlog: i64, slots: i32) -> usize {
    let rules = Rules { slots, ..Rules::default() };
    let mut waiting = Waiting::new();
    for number in 0..backlog {
        waiting.upsert(&job(&format!("big-{number:05}"), "big", 0, 1_000 + number % 7 * 60_000));
    }
    let mut books = Books::open(&Ledger::new());
    // The flood fills the pool before the small tenant comes.
    let mut running = start(&mut books, &mut waiting, &rules);
    waiting.upsert(&job("small", "small", 1_000, 60_000));
    let mut ahead = 0;
    for _ in 0..backlog {
        let (uid, attempt, charge) = running.remove(0);
        // The flood gives back most of what it was charged, which must not buy it the next turn.
        books.settle(&rules, &uid, attempt, charge / 10);
        for (uid, attempt, charge) in start(&mut books, &mut waiting, &rules) {
            if uid == "uid-small" {
                return ahead;
            }
            ahead += 1;
            running.push((uid, attempt, charge));
        }
    }
    panic!("the small tenant never starts");
}

fn start(books: &mut Books, waiting: &mut Waiting, rules: &Rules) -> Vec<(String, i32, i64)> {
    let (admitted, _) = books.admit(waiting, rules, at(0), run_ref);
    for entry in &admitted {
        assert!(waiting.remove(&entry.job, &entry.uid));
    }
    admitted.iter().map(|e| (e.uid.clone(), e.attempt, e.charge)).collect()
}

#[test]
fn a_flood_of_any_size_delays_a_small_tenant_by_one_job_at_most() {
    for backlog in [10, 1_000, 10_000] {
        for slots in [1, 4, 9] {
            let ahead = ahead_of_the_small_one(backlog, slots);
            assert!(ahead <= 1, "{backlog} waiting, {slots} slots: {ahead} before it");
        }
    }
}

#[test]
fn tenants_who_wait_all_the_time_are_given_equal_shares() {
    let mut closest = 0.0_f64;
    for seed in 0..400 {
        let mut rng = Rng::new(seed).fork(3);
        let mut world = World::new(seed, Mood { priorities: rng.chance(50), ..Mood::default() });
        let tenants: Vec<String> = world.rules.tenants.keys().cloned().collect();
        let (mut given, mut marked) = (BTreeMap::<String, i64>::new(), BTreeMap::new());
        for step in 0..30 {
            world.arrivals(20);
            for entry in world.admit() {
                *given.entry(entry.tenant).or_default() += entry.charge;
            }
            let waits: Vec<&String> =
                tenants.iter().filter(|name| world.waiting.len_of(name) > 0).collect();
            if step % 15 == 0 {
                marked = waits
                    .iter()
                    .map(|&name| (name.clone(), given.get(name).copied().unwrap_or(0)))
                    .collect();
            }
            marked.retain(|name, _| waits.contains(&name));
            let served = |name: &String| {
                let since = given.get(name).copied().unwrap_or(0) - marked[name];
                since * TAG_SCALE / world.rules.weight(name)
            };
            for a in marked.keys() {
                for b in marked.keys().filter(|b| *b < a) {
                    let apart = (served(a) - served(b)).abs();
                    let bound = units(LARGEST, world.rules.weight(a))
                        + units(LARGEST, world.rules.weight(b));
                    #[allow(clippy::cast_precision_loss)] // for people
                    let part = apart as f64 / bound as f64;
                    closest = closest.max(part);
                    assert!(apart <= bound, "seed {seed}: {a} and {b} are {apart} apart");
                }
            }
            world.ends();
        }
    }
    assert!(closest > 0.5, "no two tenants came near the bound ({closest:.2})");
}

#[test]
fn a_new_leader_decides_as_the_old_one_would_have() {
    let mut restarts = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed).fork(4);
        let mood = any_mood(&mut rng);
        let (mut world, mut other) = (World::new(seed, mood), World::new(seed, mood));
        for step in 0..20 {
            for world in [&mut world, &mut other] {
                world.arrivals(6);
                world.people();
                world.edits();
            }
            if rng.chance(20) {
                restarts += 1;
                let draws = other.rng.clone();
                other.restart();
                other.rng = draws; // the world goes on as it would have
            }
            assert_eq!(world.admit(), other.admit(), "seed {seed}, step {step}");
            assert_eq!(world.books.close(), other.books.close(), "seed {seed}, step {step}");
            assert_eq!(world.ends(), other.ends());
        }
    }
    assert!(restarts > 1_000);
}

#[test]
fn many_admissions_in_one_write_are_those_of_many_writes() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed).fork(5);
        let mut world = World::new(seed, any_mood(&mut rng));
        for _ in 0..20 {
            world.arrivals(6);
            world.people();
            world.waiting.advance(at(world.now));
            let (mut books, mut waiting) = (world.books.clone(), world.waiting.clone());
            let mut one_by_one = Vec::new();
            while let (admitted, _) =
                books.admit_up_to(1, &waiting, &world.rules, at(world.now), run_ref)
                && let Some(entry) = admitted.first()
            {
                assert!(waiting.remove(&entry.job, &entry.uid));
                one_by_one.push(entry.job.clone());
            }
            let at_once: Vec<String> = world.admit().into_iter().map(|entry| entry.job).collect();
            assert_eq!(at_once, one_by_one, "seed {seed}");
            assert_eq!(world.books, books, "seed {seed}");
            world.ends();
        }
    }
}
