//! What is never exceeded, whatever happens.

use std::collections::BTreeMap;

use super::history::{Mood, World, any_mood, at, job, run_ref};
use crate::{
    api::{HttpRun, Ledger, LedgerEntry, MAX_CHARGE, MAX_LEDGER_HTTP_BYTES, MAX_TAGS, TenantTag},
    reports::{
        admission::{LeftOut, RunRef, Why, explain},
        ledger::Books,
        rules::{Rules, TenantRule},
        waiting::{Waiting, WaitingJob},
    },
    sim::rng::Rng,
};

#[test]
fn slots_are_never_exceeded_and_none_is_idle_while_somebody_could_use_it() {
    let (mut idle, mut full) = (0, 0);
    for seed in 0..400 {
        let mut rng = Rng::new(seed).fork(6);
        let mut world = World::new(seed, any_mood(&mut rng));
        for _ in 0..30 {
            world.arrivals(6);
            world.people();
            world.edits();
            let admitted = world.admit();
            let slots = world.rules.slots();
            assert!(world.books.used() <= slots || admitted.is_empty(), "seed {seed}");
            full += usize::from(world.books.used() >= slots);
            if world.books.used() < slots {
                idle += 1;
                for name in world.durable.keys() {
                    let why = explain(&world.books, &world.waiting, &world.rules, name);
                    let why = why.unwrap();
                    assert!(
                        !matches!(why, Why::Next | Why::FairShare | Why::WaitingForSlot),
                        "seed {seed}: {name} waits with a free slot: {why:?}"
                    );
                }
            }
            world.ends();
        }
    }
    assert!(idle > 1_000 && full > 1_000, "{idle} times idle, {full} times full");
}

#[test]
fn who_waits_and_gets_nothing_keeps_its_tag() {
    let mut checked = 0;
    for seed in 0..100 {
        let mut rng = Rng::new(seed).fork(7);
        let mut world = World::new(seed, any_mood(&mut rng));
        for _ in 0..40 {
            world.arrivals(6);
            world.people();
            let tag = |world: &World, tenant: &str| {
                let v = world.books.accounts.virtual_time();
                world.books.accounts.get(&tenant.into()).finish.unwrap_or(v)
            };
            // Who may start holds the virtual time back; who may not does not.
            let may_start = |job: &&WaitingJob| {
                !job.retry
                    && !world.books.is_name_taken(&job.name)
                    && !world.rules.is_capped(&job.tenant, world.books.running(&job.tenant))
            };
            let mut tags: BTreeMap<String, i64> = world
                .durable
                .values()
                .filter(may_start)
                .map(|job| (job.tenant.clone(), tag(&world, &job.tenant)))
                .collect();
            for entry in world.admit() {
                tags.remove(&entry.tenant);
            }
            for (tenant, before) in tags {
                checked += 1;
                assert_eq!(tag(&world, &tenant), before, "seed {seed}: {tenant}");
            }
            world.ends();
        }
    }
    assert!(checked > 5_000, "{checked}");
}

/// A queue in which `tenants` have one job each and all start.
fn served(tenants: usize, slots: i32) -> (Books, Rules) {
    let rules = Rules { slots, ..Rules::default() };
    let mut waiting = Waiting::new();
    for number in 0..tenants {
        let name = format!("j{number:05}");
        let charge = 1_000_000 + 1_000 * i64::try_from(number % 97).unwrap();
        waiting.upsert(&job(&name, &format!("t{number:05}"), 0, charge));
    }
    let mut books = Books::open(&Ledger::new());
    loop {
        let (admitted, _) = books.admit(&waiting, &rules, at(0), run_ref);
        if admitted.is_empty() {
            return (books, rules);
        }
        for entry in admitted {
            assert!(waiting.remove(&entry.job, &entry.uid));
            assert!(books.settle(&rules, &entry.uid, 1, entry.charge));
        }
    }
}

#[test]
fn at_most_two_thousand_tags_are_kept_and_the_smallest_debts_go_first() {
    let (books, _) = served(5_000, 1024);
    let ledger = books.close();
    // Equal ones go together.
    assert!((MAX_TAGS - 20..=MAX_TAGS).contains(&ledger.tags.len()), "{}", ledger.tags.len());
    assert!(ledger.virtual_time > 0);
    assert!(ledger.tags.iter().all(|tag| tag.finish > ledger.virtual_time));
    assert!(ledger.tags.is_sorted_by(|a, b| a.tenant < b.tenant));
    // A ledger with more, which nobody here writes, is cut when it is opened.
    let tag = |n: i64| TenantTag { tenant: format!("t{n}"), finish: n };
    let more = Ledger { tags: (1..=2_500).map(tag).collect(), ..Ledger::new() };
    let cut = Books::open(&more).close();
    assert_eq!((cut.tags.len(), cut.virtual_time), (MAX_TAGS, 500));
}

#[test]
fn numbers_start_again_before_they_are_too_large_and_nothing_else_changes() {
    let mut rng = Rng::new(1);
    for seed in 0..40 {
        let mood = any_mood(&mut rng);
        let (mut world, mut high) = (World::new(seed, mood), World::new(seed, mood));
        let base = (1 << 51) - 1;
        high.books = Books::open(&Ledger { virtual_time: base, ..Ledger::new() });
        let mut rebased = false;
        for _ in 0..40 {
            for world in [&mut world, &mut high] {
                world.arrivals(6);
                world.people();
            }
            assert_eq!(world.admit(), high.admit(), "seed {seed}");
            world.ends();
            high.ends();
            let (low, ledger) = (world.books.close(), high.books.close());
            rebased |= ledger.virtual_time < base;
            high.books = Books::open(&ledger);
            let relative = |ledger: &Ledger| -> Vec<i64> {
                ledger.tags.iter().map(|tag| tag.finish - ledger.virtual_time).collect()
            };
            assert_eq!(relative(&low), relative(&ledger), "seed {seed}");
            assert!(ledger.tags.iter().all(|tag| tag.finish < 1 << 53));
        }
        assert!(rebased, "seed {seed}");
    }
}

#[test]
fn the_worst_numbers_stay_exact_in_json() {
    // The largest charges there are, for a tenant of the smallest weight, out of turn for ever.
    let rules = Rules { slots: 1024, ..Rules::default() };
    let (mut waiting, mut books) = (Waiting::new(), Books::open(&Ledger::new()));
    for round in 0..4 {
        for number in 0..1024 {
            waiting.upsert(&job(&format!("j{round}-{number:04}"), "t", 0, i64::MAX));
        }
        let (admitted, _) = books.admit(&waiting, &rules, at(0), run_ref);
        assert_eq!(admitted.len(), 1024);
        for entry in admitted {
            waiting.remove(&entry.job, &entry.uid);
            books.settle(&rules, &entry.uid, 1, i64::MAX);
        }
    }
    let ledger = books.close();
    assert!(ledger.virtual_time <= 1 << 52);
    assert!(ledger.tags.iter().all(|tag| tag.finish < 1 << 53));
    assert!(ledger.largest_charge <= MAX_CHARGE && ledger.retry_spent >= 0);
}

#[test]
fn long_addresses_wait_until_the_ledger_has_room_and_others_go_on() {
    let rules = Rules { slots: 1024, ..Rules::default() };
    let mut waiting = Waiting::new();
    for number in 0..200 {
        waiting.upsert(&job(&format!("j{number:04}"), "t", 0, 1_000));
    }
    let url = format!("https://{}", "x".repeat(2_000));
    let describe = |name: &str, uid: &str, attempt| {
        let number: usize = name[1..].parse().unwrap();
        let http = (number < 100).then(|| HttpRun { url: url.clone(), ..HttpRun::default() });
        run_ref(name, uid, attempt).map(|run| RunRef { http, ..run })
    };
    let mut books = Books::open(&Ledger::new());
    let (admitted, left_out) = books.admit(&waiting, &rules, at(0), describe);
    let with_http = admitted.iter().filter(|entry| entry.http.is_some()).count();
    assert_eq!((admitted.len(), left_out.len()), (100 + with_http, 100 - with_http));
    assert!((60..70).contains(&with_http), "{with_http}");
    assert!(left_out.iter().all(|(_, why)| *why == LeftOut::LedgerFull));
    assert!(books.http_bytes() <= MAX_LEDGER_HTTP_BYTES);
    let entry = admitted.iter().find(|entry| entry.http.is_some()).unwrap();
    waiting = Waiting::new();
    waiting.upsert(&job("j0099", "t", 0, 1_000));
    assert_eq!(books.admit(&waiting, &rules, at(0), describe).0.len(), 0);
    assert!(books.settle(&rules, &entry.uid, 1, 1));
    assert_eq!(books.admit(&waiting, &rules, at(0), describe).0.len(), 1);
}

#[test]
fn what_cannot_be_described_is_left_out_and_the_next_one_goes() {
    let rules = Rules::default();
    let mut waiting = Waiting::new();
    waiting.upsert(&job("a", "t", 0, 1_000));
    waiting.upsert(&job("b", "t", 1_000, 1_000));
    let mut books = Books::open(&Ledger::new());
    let describe = |name: &str, uid: &str, attempt| {
        (name != "a").then(|| run_ref(name, uid, attempt).unwrap())
    };
    let (admitted, left_out) = books.admit(&waiting, &rules, at(7), describe);
    assert_eq!(left_out, [("a".to_owned(), LeftOut::NotDescribed)]);
    let expected = LedgerEntry {
        job: "b".into(),
        uid: "uid-b".into(),
        tenant: "t".into(),
        attempt: 1,
        run_key: "b-r1".into(),
        action_class: crate::api::ActionClass::Idempotent,
        http: None,
        charge: 1_000,
        retry: false,
        admitted_time: at(7).into(),
    };
    assert_eq!(*admitted[0], expected);
    assert_eq!(books.close().entries, [expected]);
}

#[test]
fn lowered_slots_stop_admissions_until_it_fits() {
    let mut world = World::new(3, Mood::default());
    world.rules = Rules { slots: 8, ..Rules::default() };
    for number in 0..20 {
        world.wait(job(&format!("x{number:02}"), "t", 0, 60_000));
    }
    assert_eq!(world.admit().len(), 8);
    world.rules.slots = 3;
    while world.books.used() > 3 {
        assert_eq!(world.admit(), []);
        world.ends();
    }
    world.rules.tenants.insert("t".into(), TenantRule { weight: 1, max_running: Some(2) });
    assert_eq!(world.admit(), []);
    while world.books.used() > 1 {
        world.ends();
    }
    assert_eq!(world.admit().len(), 1);
    let why = explain(&world.books, &world.waiting, &world.rules, "x19");
    assert_eq!(why, Some(Why::TenantLimit));
    world.rules.tenants.insert("t".into(), TenantRule { weight: 1, max_running: Some(0) });
    let why = explain(&world.books, &world.waiting, &world.rules, "x19");
    assert_eq!(why, Some(Why::TenantBarred), "it has none running that could end");
}
