//! When the queue is empty, and when a job starts: estimates for people, which nothing decides by.

use jiff::{SignedDuration, Timestamp};

use super::{
    ledger::Books,
    rules::{Rules, Starts},
    waiting::{Class, Waiting},
};
use crate::api::LedgerEntry;

mod replay;
#[cfg(test)]
mod tests;
mod work;

pub use replay::{MAX_REPLAYED, Start, order, starts};
use work::{Charges, Failing, Load, Retries, to_i64};

/// Backoffs of a job with three attempts, in milliseconds: 30 s and 60 s.
const BACKOFFS: i64 = 90_000;
/// Attempts of a job, as far as the bound counts on them.
const ATTEMPTS: i64 = 3;
/// A run that should be over is taken to need this part of its estimate at least.
const LEAST_PART: i64 = 10;
/// An estimate is written again if it moved by more than this, in milliseconds,
const MOVED: i64 = 120_000;
/// and by more than this part of the wait.
const MOVED_PART: i64 = 5;
/// Positions up to here are exact.
const EXACT: usize = 10;

/// `status.drain`: how much there is to do and how long it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Jobs that wait or hold a slot.
    pub jobs: usize,
    /// What they still cost, expected retries included, in whole slot-seconds.
    pub slot_seconds: i64,
    /// When they are likely to be done. None while nothing starts.
    pub about: Option<Timestamp>,
    /// When they are done at the latest if estimates hold, each needs at most three attempts, and
    /// attempts fail about as often as of late. None while nothing starts.
    pub at_most: Option<Timestamp>,
}

/// How long the queue takes to be empty if nothing more comes.
///
/// About: what all slots do together, what retries do on theirs, what goes alone ([`work`]), and
/// half of the longest run, for the end, when not all slots have something to do. At most: Graham's
/// bound for list scheduling (1966), with the slots that retries may hold taken off first attempts,
/// retries as many as they may become, and a chain of three attempts and its backoffs at the end.
pub fn drain(books: &Books, waiting: &Waiting, rules: &Rules, now: Timestamp) -> Drain {
    let of = charges(books, waiting, now);
    let jobs = waiting.len() + books.used();
    let due = waiting.last_due().map_or(0, |at| at.duration_since(now).as_millis());
    let due = i64::try_from(due).unwrap_or(i64::MAX / 8).max(0);
    let (load, about, at_most) = if rules.retries {
        let load = Failing::likely(books).load(&of);
        (load, about(load, &of, books, rules).max(due), due + at_most(&of, books, rules))
    } else {
        let load = Failing::never().load(&of);
        let shared = (load.first + load.running + load.retries) / to_i64(rules.slots());
        (load, (shared + of.longest / 2).max(of.longest), shared + of.longest)
    };
    let at = |ms: i64| {
        let ms = if jobs == 0 { 0 } else { ms };
        (rules.starts == Starts::Open).then(|| after(now, ms))
    };
    Drain {
        jobs,
        slot_seconds: (load.first + load.running + load.retries) / 1000,
        about: at(about),
        at_most: at(at_most.max(about)),
    }
}

/// In how many milliseconds it is likely to be done.
fn about(load: Load, of: &Charges, books: &Books, rules: &Rules) -> i64 {
    let retries = Retries::of(load, of, books, rules);
    let together = (load.first + load.running + retries.beside) / to_i64(rules.slots());
    let after = retries.after / to_i64(rules.most_retries(false));
    (together + after + retries.alone + of.longest / 2).max(of.longest)
}

/// In how many milliseconds it is done at the latest, from when the last retry may start that waits
/// for its time.
fn at_most(of: &Charges, books: &Books, rules: &Rules) -> i64 {
    let failing = Failing::often(books);
    let mut load = failing.load(of);
    load.retries += failing.chance(of);
    let retries = Retries::of(load, of, books, rules);
    let firsts = (to_i64(rules.slots()) - to_i64(rules.most_retries(true))).max(1);
    let paid = load.running + retries.beside + retries.after;
    // The budget is not used up to its end: a large retry waits for what smaller ones would take.
    let unused = if retries.alone > 0 { of.longest } else { 0 };
    load.first / firsts
        + paid / to_i64(rules.most_retries(false))
        + retries.alone
        + unused
        + ATTEMPTS * of.longest
        + BACKOFFS
}

/// Charges of what waits and runs.
fn charges(books: &Books, waiting: &Waiting, now: Timestamp) -> Charges {
    let mut of = Charges {
        wait: Class::ALL.map(|class| waiting.charge(class)),
        longest: waiting.largest_charge(),
        ..Charges::default()
    };
    for entry in books.entries() {
        let (class, left) = (usize::from(entry.retry), remaining(entry, now));
        of.run[class] += entry.charge;
        of.left[class] += left;
        of.longest = of.longest.max(left);
    }
    of
}

/// What a run that holds a slot still needs. One that should be over is taken to need as long again
/// as it is late, because run times have long tails.
fn remaining(entry: &LedgerEntry, now: Timestamp) -> i64 {
    let since = now.duration_since(entry.admitted_time.0).as_millis();
    let left = entry.charge.saturating_sub(i64::try_from(since).unwrap_or(i64::MAX).max(0));
    left.saturating_abs().clamp(entry.charge / LEAST_PART, crate::api::MAX_CHARGE)
}

fn after(now: Timestamp, ms: i64) -> Timestamp {
    now.saturating_add(SignedDuration::from_millis(ms)).unwrap_or(Timestamp::MAX)
}

/// A moment as people are told: whole seconds, and nothing is said to happen before it may.
pub fn whole(at: Timestamp) -> Timestamp {
    let up = i64::from(at.subsec_nanosecond() > 0);
    Timestamp::from_second(at.as_second().saturating_add(up)).unwrap_or(at)
}

/// Whether an estimate moved so far that it is worth a write: by more than 2 minutes, and by more
/// than a fifth of the wait.
pub fn moved(written: Option<Timestamp>, new: Timestamp, now: Timestamp) -> bool {
    let Some(written) = written else { return true };
    let by = new.as_millisecond().abs_diff(written.as_millisecond());
    let wait = new.as_millisecond().saturating_sub(now.as_millisecond()).max(0);
    by > u64::try_from(MOVED.max(wait / MOVED_PART)).unwrap_or(0)
}

/// A position as people are told: exact up to 10, then one digit and zeros, so that it changes
/// seldom: 10, 20, …, 90, 100, 200, …
pub fn coarse(position: usize) -> usize {
    let mut step = 1;
    while position / step >= EXACT {
        step *= 10;
    }
    (position + step / 2) / step * step
}
