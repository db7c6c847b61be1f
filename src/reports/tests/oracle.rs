//! The rules of admission in their plainest form, to compare the fast one with: everything is looked
//! at again for every decision.

use std::collections::BTreeMap;

use super::history::{World, any_mood, at, run_ref};
use crate::{
    api::{Ledger, LedgerEntry, MAX_CHARGE},
    reports::{rules::Rules, waiting::WaitingJob},
    sim::rng::Rng,
};

/// A tenant's tag, the slots it holds, and how old its first job is.
type Key<'a> = (i64, usize, i64, &'a str);

fn tag(ledger: &Ledger, tenant: &str) -> i64 {
    let finish = ledger.tags.iter().find(|tag| tag.tenant == tenant).map_or(0, |tag| tag.finish);
    ledger.virtual_time.max(finish)
}

/// The job whose turn it is, among `jobs`: first attempts, or retries.
fn first<'a>(
    ledger: &Ledger,
    rules: &Rules,
    jobs: &[&'a WaitingJob],
    retry: bool,
) -> Option<(Key<'a>, &'a WaitingJob)> {
    let order = |job: &WaitingJob| (-job.priority, job.created, job.name.clone());
    let mut queues: BTreeMap<&str, Vec<&WaitingJob>> = BTreeMap::new();
    for &job in jobs.iter().filter(|job| job.retry == retry) {
        queues.entry(&job.tenant).or_default().push(job);
    }
    let is_free = |job: &&&WaitingJob| !ledger.entries.iter().any(|entry| entry.job == job.name);
    queues
        .into_iter()
        .filter_map(|(tenant, mut queue)| {
            queue.sort_by_key(|job| order(job));
            let (head, job) = (queue[0], *queue.iter().find(is_free)?);
            let running = ledger.entries.iter().filter(|e| e.tenant == tenant).count();
            let most = rules.tenants.get(tenant).and_then(|rule| rule.max_running);
            let may = most.is_none_or(|most| running < usize::try_from(most).unwrap());
            let created = head.created.as_millisecond();
            may.then_some(((tag(ledger, tenant), running, created, head.name.as_str()), job))
        })
        .min_by_key(|(key, _)| *key)
}

/// One decision; the ledger after it. `left` is what is left of the retry budget.
fn decide(
    ledger: &mut Ledger,
    rules: &Rules,
    jobs: &[&WaitingJob],
    left: i64,
) -> Option<LedgerEntry> {
    let slots = usize::try_from(rules.slots).unwrap();
    if ledger.entries.len() >= slots {
        return None;
    }
    let retries = ledger.entries.iter().filter(|entry| entry.retry).count();
    let (least, busy, idle) =
        (if slots == 1 { 0 } else { slots.div_ceil(20) }, slots.div_ceil(10), slots.div_ceil(2));
    let plain = first(ledger, rules, jobs, false);
    let most = if plain.is_some() { busy } else { idle };
    // Beyond the budget: nothing else is to be done.
    let alone = plain.is_none() && ledger.entries.is_empty();
    let again = first(ledger, rules, jobs, true)
        .filter(|(_, job)| rules.retries && retries < most && (job.charge <= left || alone));
    let (_, job) = match (plain, again) {
        (None, None) => return None,
        (Some(plain), None) => plain,
        (None, Some(again)) => again,
        (Some(_), Some(again)) if retries < least => again,
        (Some(plain), Some(again)) => {
            if (again.0.0, again.0.1) < (plain.0.0, plain.0.1) {
                again
            } else {
                plain
            }
        }
    };
    let smallest = [plain, again].into_iter().flatten().map(|(key, _)| key.0).min().unwrap();
    ledger.virtual_time = ledger.virtual_time.max(smallest);
    let weight = i64::from(rules.tenants.get(&job.tenant).map_or(1, |rule| rule.weight));
    let finish = tag(ledger, &job.tenant) + job.charge.clamp(1_000, MAX_CHARGE) * 1024 / weight;
    let v = ledger.virtual_time;
    ledger.tags.retain(|tag| tag.tenant != job.tenant && tag.finish > v);
    ledger.tags.push(crate::api::TenantTag { tenant: job.tenant.clone(), finish });
    ledger.tags.sort_by(|a, b| a.tenant.cmp(&b.tenant));
    let run = run_ref(&job.name, &job.uid, job.attempt).unwrap();
    let entry = LedgerEntry {
        job: job.name.clone(),
        uid: job.uid.clone(),
        tenant: job.tenant.clone(),
        attempt: job.attempt,
        run_key: run.run_key,
        action_class: run.action_class,
        http: None,
        charge: job.charge,
        retry: job.retry,
        admitted_time: at(0).into(),
    };
    ledger.entries.push(entry.clone());
    Some(entry)
}

/// What the oracle admits for the same ledger and jobs: names, and virtual time and tags after it.
fn admits(world: &World) -> (Vec<String>, Ledger) {
    let mut ledger = world.books.close();
    let mut books = world.books.clone();
    let mut jobs: Vec<&WaitingJob> = world
        .durable
        .values()
        .filter(|job| job.not_before.is_none_or(|time| time <= at(world.now)))
        .collect();
    let mut names = Vec::new();
    loop {
        let left = books.retry_budget_left(&world.rules);
        let Some(entry) = decide(&mut ledger, &world.rules, &jobs, left) else {
            return (names, ledger);
        };
        if entry.retry {
            books.budget.retry(&world.rules, entry.charge);
        } else {
            books.budget.first_attempt(&world.rules, entry.charge);
        }
        jobs.retain(|job| job.name != entry.job);
        names.push(entry.job);
    }
}

#[test]
fn the_fast_order_is_the_plain_one() {
    let mut retries = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed).fork(1);
        let mut world = World::new(seed, any_mood(&mut rng));
        for _ in 0..22 {
            world.arrivals(6);
            world.people();
            world.edits();
            let (names, ledger) = admits(&world);
            let admitted = world.admit();
            retries += admitted.iter().filter(|entry| entry.retry).count();
            let fast: Vec<String> = admitted.into_iter().map(|entry| entry.job).collect();
            assert_eq!(fast, names, "seed {seed}");
            let after = world.books.close();
            assert_eq!(after.virtual_time, ledger.virtual_time, "seed {seed}");
            assert_eq!(after.tags, ledger.tags, "seed {seed}");
            world.ends();
        }
    }
    assert!(retries > 200, "only {retries} retries: the histories show nothing about them");
}

#[test]
fn a_pass_changes_nothing_but_what_it_returns() {
    let mut world = World::new(5, super::history::Mood::default());
    for _ in 0..20 {
        world.arrivals(6);
    }
    let before = format!("{:?}", world.waiting);
    let ledger = world.books.close();
    let first =
        crate::reports::admission::admit(&ledger, &world.waiting, &world.rules, at(9), run_ref);
    let again =
        crate::reports::admission::admit(&ledger, &world.waiting, &world.rules, at(9), run_ref);
    assert!(!first.admitted.is_empty());
    assert_eq!(first, again);
    assert_eq!(first.ledger.entries.len(), first.admitted.len());
    assert_eq!(format!("{:?}", world.waiting), before);
}
