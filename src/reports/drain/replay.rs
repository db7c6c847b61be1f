//! When each waiting job starts: the order of admission, played ahead with estimates.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

use jiff::Timestamp;

use super::{after, remaining};
use crate::reports::{admission::Pass, ledger::Books, name::Name, rules::Rules, waiting::Waiting};

/// Most jobs that are played ahead: a few hundredths of a second of work. Whoever is behind them is
/// told so.
pub const MAX_REPLAYED: usize = 10_000;

/// When a job is likely to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its place in the order of admission, from 1, as people are told: see [`super::coarse`].
    pub position: usize,
    /// When, if runs take as long as estimated.
    pub at: Timestamp,
}

/// When the next [`MAX_REPLAYED`] jobs start, by name. Not in it are jobs behind those, retries whose
/// time has not come, and everything while nothing starts.
pub fn starts(
    books: &Books,
    waiting: &Waiting,
    rules: &Rules,
    now: Timestamp,
) -> BTreeMap<Arc<str>, Start> {
    let order = order(books, waiting, rules, now).into_iter().enumerate();
    order.map(|(n, (name, at))| (name, Start { position: super::coarse(n + 1), at })).collect()
}

/// The same in the order of admission: names, and when each is likely to start.
pub fn order(
    books: &Books,
    waiting: &Waiting,
    rules: &Rules,
    now: Timestamp,
) -> Vec<(Arc<str>, Timestamp)> {
    let mut running: BinaryHeap<Reverse<(i64, Name, bool)>> = books
        .entries()
        .map(|entry| Reverse((remaining(entry, now), entry.tenant.as_str().into(), entry.retry)))
        .collect();
    let mut books = books.clone();
    let mut pass = Pass::new(&mut books, waiting, rules);
    let mut found = Vec::new();
    let mut at = 0;
    while found.len() < MAX_REPLAYED {
        if let Some(turn) = pass.next() {
            let Some(job) = pass.turns.job(&turn.next) else { break };
            let start = after(now, at);
            let tenant = waiting.tenant(job.tenant).clone();
            running.push(Reverse((at.saturating_add(job.charge.max(1)), tenant, job.retry)));
            found.push((Arc::clone(&job.name), start));
            pass.take(&turn);
        } else if let Some(Reverse((end, tenant, retry))) = running.pop() {
            at = end.max(at);
            pass.release(&tenant, retry);
        } else {
            break;
        }
    }
    found
}
