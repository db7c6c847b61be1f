//! How much work there is, that of expected retries included, and how long it takes.
//!
//! Retries are not done as other work is: a share of the slots and a budget hold them back. What is
//! there is done in three parts:
//!
//! 1. While first attempts wait, all slots are held; retries have a tenth of them at most.
//! 2. Retries that the budget still pays go on, on half of the slots.
//! 3. The others go one at a time, when nothing else runs.
//!
//! The third part is long where many attempts fail: an hour of slots then is an hour.

use crate::reports::{
    budget::{AVERAGE_OVER, pays_in},
    ledger::Books,
    rules::Rules,
};

/// The whole, where parts are in millionths.
const MILLION: i64 = 1_000_000;

/// Charges of what waits and runs, in slot-milliseconds, by class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Charges {
    /// What waits.
    pub(super) wait: [i64; 2],
    /// What runs was charged.
    pub(super) run: [i64; 2],
    /// What runs still needs.
    pub(super) left: [i64; 2],
    /// The longest of all, as far as it still needs.
    pub(super) longest: i64,
}

/// What there is to do, in slot-milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// First attempts that wait or run.
    pub(super) first: i64,
    /// Retries that run.
    pub(super) running: i64,
    /// Retries that wait or are to be expected: each is paid by the budget or goes alone.
    pub(super) retries: i64,
}

/// How often attempts fail, and what of its charge one takes that does, both in millionths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    again: i64,
    takes: i64,
}

const FIRST: usize = 0;
const RETRY: usize = 1;

impl Failing {
    /// Nothing does, or nothing that does is tried again.
    pub(super) fn never() -> Self {
        Self { again: 0, takes: MILLION }
    }

    /// As often as of late, and at any time of the run: half of it, on average.
    pub(super) fn likely(books: &Books) -> Self {
        let again = books.budget.per_million();
        Self { again, takes: MILLION - again / 2 }
    }

    /// As often as it may be if it was so of late, and at the end of the run: the average over the
    /// last first attempts has a standard error of its own, and one of them more may fail. That each
    /// takes all of its time is the larger margin, so more than that would only blur the answer.
    pub(super) fn often(books: &Books) -> Self {
        let of_late = books.budget.per_million();
        let error = (of_late * (MILLION - of_late) / (2 * AVERAGE_OVER - 1)).isqrt();
        let again = (of_late + error + MILLION / AVERAGE_OVER).min(MILLION);
        Self { again, takes: MILLION }
    }

    /// What is to be done if attempts fail so. A job has three of them, as the bound counts too.
    pub(super) fn load(self, of: &Charges) -> Load {
        let second = share_of(of.wait[FIRST] + of.run[FIRST], self.again);
        // What of the known retries is a second attempt: they are to third ones as 1 to `again`.
        let known = of.wait[RETRY] + of.run[RETRY];
        let third = share_of(second, self.again)
            + share_of(known, self.again * MILLION / (MILLION + self.again));
        Load {
            first: share_of(of.wait[FIRST], self.takes) + of.left[FIRST],
            running: of.left[RETRY],
            retries: share_of(of.wait[RETRY] + second + third, self.takes),
        }
    }

    /// By how much retries may come to more than [`Failing::load`] says, because it is chance which
    /// jobs fail: a standard deviation. A few large jobs are more of a chance than many small ones,
    /// and none is larger than the longest.
    pub(super) fn chance(self, of: &Charges) -> i64 {
        let all = i128::from(of.wait[FIRST] + of.run[FIRST] + of.wait[RETRY] + of.run[RETRY]);
        let variance = all * i128::from(of.longest) / i128::from(MILLION)
            * i128::from(self.again * (MILLION - self.again) / MILLION);
        // A second attempt that fails brings a third one.
        let deviation = i64::try_from(variance.isqrt()).unwrap_or(i64::MAX / 8);
        share_of(deviation, MILLION + self.again)
    }
}

/// How retries are done, in slot-milliseconds: what the budget pays while first attempts wait, what
/// it pays then, and what goes alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Retries {
    pub(super) beside: i64,
    pub(super) after: i64,
    pub(super) alone: i64,
}

impl Retries {
    /// First attempts that wait fill the budget, but never above its size.
    pub(super) fn of(load: Load, of: &Charges, books: &Books, rules: &Rules) -> Self {
        let (slots, busy) = (to_i64(rules.slots()), to_i64(rules.most_retries(true)));
        // With one slot nothing is kept from either class.
        let room = match slots - busy {
            0 => i64::MAX,
            firsts => load.first / firsts * busy,
        };
        let funds = (books.budget.left(rules) + pays_in(rules, of.wait[FIRST])).max(0);
        let beside = load.retries.min(room).min(funds);
        let rest = (funds - beside).min(books.budget.full(rules));
        let after = (load.retries - beside).min(rest);
        Self { beside, after, alone: load.retries - beside - after }
    }
}

/// So many millionths of the work, without overflow.
fn share_of(work: i64, per_million: i64) -> i64 {
    i64::try_from(i128::from(work) * i128::from(per_million) / i128::from(MILLION))
        .unwrap_or(i64::MAX / 8)
}

pub(super) fn to_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
