use super::*;
use crate::{
    api::{ActionClass, TenantTag},
    reports::rules::TenantRule,
};

fn entry(job: &str, tenant: &str, charge: i64, retry: bool) -> LedgerEntry {
    LedgerEntry {
        job: job.into(),
        uid: format!("uid-{job}"),
        tenant: tenant.into(),
        attempt: 1,
        run_key: format!("{job}-r1"),
        action_class: ActionClass::Idempotent,
        http: None,
        charge,
        retry,
        admitted_time: crate::api::Time("2026-11-29T02:00:00Z".parse().unwrap()),
    }
}

fn tag(tenant: &str, finish: i64) -> TenantTag {
    TenantTag { tenant: tenant.into(), finish }
}

#[test]
fn a_settlement_corrects_the_tag_once_and_frees_the_slot() {
    let rules = Rules {
        tenants: [("t".to_owned(), TenantRule { weight: 2, max_running: None })].into(),
        ..Rules::default()
    };
    let ledger = Ledger {
        virtual_time: 100,
        tags: vec![tag("t", 100 + 60_000 * 512)],
        entries: vec![entry("a", "t", 60_000, false), entry("b", "u", 60_000, false)],
        ..Ledger::new()
    };
    // actual, finish tag after it
    for (actual, finish) in [
        (60_000, Some(100 + 60_000 * 512)),
        (90_000, Some(100 + 90_000 * 512)),
        (20_000, Some(100 + 20_000 * 512)),
        // A slot that did nothing still costs a second.
        (0, Some(100 + 1_000 * 512)),
        (-5, Some(100 + 1_000 * 512)),
    ] {
        let after = settle(&ledger, &rules, "uid-a", 1, actual);
        let tags: Vec<TenantTag> = finish.map(|finish| tag("t", finish)).into_iter().collect();
        assert_eq!(after.tags, tags, "{actual}");
        assert_eq!(after.entries, [entry("b", "u", 60_000, false)]);
        assert_eq!(settle(&after, &rules, "uid-a", 1, 5), after, "only once");
    }
    assert_eq!(settle(&ledger, &rules, "uid-a", 2, 5), ledger, "another attempt");
    assert_eq!(settle(&ledger, &rules, "uid-c", 1, 5), ledger, "not admitted");
}

#[test]
fn a_refund_buys_no_more_than_the_standing_of_a_newcomer() {
    let ledger = Ledger {
        virtual_time: 50_000_000,
        tags: vec![tag("t", 50_000_001)],
        entries: vec![entry("a", "t", 60_000, false)],
        ..Ledger::new()
    };
    let after = settle(&ledger, &Rules::default(), "uid-a", 1, 1_000);
    assert_eq!((after.virtual_time, after.tags), (50_000_000, vec![]));
}

#[test]
fn what_cost_more_than_was_said_is_owed_also_by_a_tenant_whose_tag_was_forgotten() {
    let ledger = Ledger {
        virtual_time: 50_000_000,
        entries: vec![entry("a", "t", 60_000, false)],
        ..Ledger::new()
    };
    let after = settle(&ledger, &Rules::default(), "uid-a", 1, 70_000);
    assert_eq!(after.tags, [tag("t", 50_000_000 + 10_000 * 1024)]);
}

#[test]
fn what_a_retry_did_not_use_goes_back_into_the_budget() {
    let ledger = Ledger {
        retry_spent: 100_000,
        entries: vec![entry("a", "t", 60_000, true), entry("b", "t", 60_000, false)],
        ..Ledger::new()
    };
    let spent = |uid, actual| settle(&ledger, &Rules::default(), uid, 1, actual).retry_spent;
    assert_eq!(spent("uid-a", 15_000), 55_000);
    assert_eq!(spent("uid-a", 0), 40_000);
    assert_eq!(spent("uid-a", 99_000), 100_000);
    assert_eq!(spent("uid-b", 0), 100_000, "a first attempt was not paid from it");
}

#[test]
fn closed_and_opened_again_the_books_are_the_same() {
    let ledger = Ledger {
        virtual_time: 10,
        tags: vec![tag("t", 20), tag("u", 30)],
        entries: vec![entry("a", "t", 60_000, true), entry("b", "u", 60_000, false)],
        retry_spent: 7,
        largest_charge: 60_000,
        retries_per_million: 80_000,
    };
    let books = Books::open(&ledger);
    assert_eq!(books.close(), ledger);
    assert_eq!((books.used(), books.retries(), books.running("t")), (2, 1, 1));
    assert!(books.is_name_taken("a") && !books.is_name_taken("c"));
    assert_eq!(books.entry("uid-b").map(|entry| entry.job.as_str()), Some("b"));
    assert_eq!(books.entry("uid"), None);
}

#[test]
fn a_ledger_that_somebody_edited_is_read_as_far_as_it_makes_sense() {
    let twice = Ledger {
        virtual_time: -5,
        tags: vec![tag("t", -1), tag("u", 9), tag("u", 7)],
        entries: vec![entry("a", "t", 60_000, false), entry("a", "t", 60_000, false)],
        retry_spent: -1,
        largest_charge: i64::MAX,
        retries_per_million: -1,
    };
    let ledger = Books::open(&twice).close();
    assert_eq!(ledger.virtual_time, 0);
    assert_eq!(ledger.tags, [tag("u", 7)]);
    assert_eq!(ledger.entries, [entry("a", "t", 60_000, false)]);
    assert_eq!((ledger.retry_spent, ledger.retries_per_million), (0, 0));
    assert_eq!(Books::open(&ledger).running("t"), 1);
}

#[test]
fn a_queue_without_a_ledger_gets_one_from_what_runs() {
    let rules = Rules { slots: 1, ..Rules::default() };
    let found = [
        entry("b", "t", 60_000, true),
        entry("a", "t", 30_000, false),
        entry("c", "u", 90_000, false),
        entry("a", "t", 30_000, false),
    ];
    let ledger = rebuild(&rules, &found);
    assert_eq!(ledger.virtual_time, 0);
    assert_eq!(ledger.tags, [tag("t", 90_000 * 1024), tag("u", 90_000 * 1024)]);
    let jobs: Vec<&str> = ledger.entries.iter().map(|entry| entry.job.as_str()).collect();
    assert_eq!(jobs, ["a", "b", "c"], "more than there are slots");
    assert_eq!((ledger.retry_spent, ledger.largest_charge), (0, 90_000));
    let mut reversed = found.to_vec();
    reversed.reverse();
    assert_eq!(rebuild(&rules, &reversed), ledger);
    assert_eq!(rebuild(&rules, &[]), Ledger::new());
}
