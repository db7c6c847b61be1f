//! What retries may cost.
//!
//! A budget per queue in slot-milliseconds: reports differ a hundredfold in cost, so counting
//! retries would say little. Each first attempt pays in a few percent of its estimate, each retry
//! takes its estimate out and gives back what it did not use. So over any time retries cost at most
//! the size of the budget and these percent of the first attempts.
//!
//! A queue that has nothing else to do goes beyond it, one retry at a time ([`beyond`]): who pays in
//! is not coming, and it takes nothing from anybody. What such a retry costs is charged like that of
//! any other; what earlier ones have overdrawn is written off, so that nobody pays for it who comes
//! after a bad night.
//!
//! What is stored is how much is *spent*. A full budget is 0, so a new queue, a rebuilt ledger and a
//! queue whose slots were changed start right without knowing how large the budget is.

use super::rules::Rules;
use crate::api::{Ledger, MAX_CHARGE};

/// The budget has room for so many percent of the slots for one hour.
const ROOM_PERCENT: i64 = 10;
/// One hour in milliseconds.
const HOUR: i64 = 3_600_000;
/// The budget has room for so many of the largest estimates, so that every job can be tried again.
const ROOM_FOR_LARGEST: i64 = 2;
/// How many of a million first attempts are tried again is an average that forgets half of what it
/// was after about 90 of them. Of 40 % it is wrong by 3 at the standard error: fewer would make the
/// forecast of the drain jump, more would not notice that a provider is ill.
pub(crate) const AVERAGE_OVER: i64 = 128;
/// All of them.
const MOST_PER_MILLION: i64 = 1_000_000;

/// Whether a retry may go beyond the budget: nothing runs in its queue, no first attempt could.
pub(crate) fn beyond(used: usize, first_attempt_next: bool) -> bool {
    used == 0 && !first_attempt_next
}

/// What first attempts of that charge pay in.
pub(crate) fn pays_in(rules: &Rules, charge: i64) -> i64 {
    charge * i64::from(rules.budget_percent.clamp(0, 100)) / 100
}

/// The retry budget of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    spent: i64,
    largest: i64,
    per_million: i64,
}

impl Budget {
    pub(crate) fn open(ledger: &Ledger) -> Self {
        Self {
            spent: ledger.retry_spent.max(0),
            largest: ledger.largest_charge.clamp(0, MAX_CHARGE),
            per_million: ledger.retries_per_million.clamp(0, MOST_PER_MILLION),
        }
    }

    pub(crate) fn close(self, ledger: &mut Ledger) {
        ledger.retry_spent = self.spent;
        ledger.largest_charge = self.largest;
        ledger.retries_per_million = self.per_million;
    }

    /// Largest charge that was admitted.
    #[cfg(test)]
    pub(crate) fn largest(self) -> i64 {
        self.largest
    }

    /// Of a million first attempts, how many are tried again, of late.
    pub(crate) fn per_million(self) -> i64 {
        self.per_million
    }

    /// Slot-milliseconds that are left for retries.
    pub(crate) fn left(self, rules: &Rules) -> i64 {
        self.size(rules, 0) - self.spent
    }

    /// Slot-milliseconds that a full budget has.
    pub(crate) fn full(self, rules: &Rules) -> i64 {
        self.size(rules, 0)
    }

    /// Whether a retry can be paid.
    pub(crate) fn affords(self, rules: &Rules, charge: i64) -> bool {
        charge <= self.size(rules, charge) - self.spent
    }

    fn size(self, rules: &Rules, charge: i64) -> i64 {
        let slots = i64::try_from(rules.slots()).unwrap_or(1);
        (slots * HOUR * ROOM_PERCENT / 100).max(ROOM_FOR_LARGEST * self.largest.max(charge))
    }

    /// A first attempt was admitted.
    pub(crate) fn first_attempt(&mut self, rules: &Rules, charge: i64) {
        self.spent = (self.spent - pays_in(rules, charge)).max(0);
        self.largest = self.largest.max(charge);
    }

    /// A retry was admitted.
    pub(crate) fn retry(&mut self, rules: &Rules, charge: i64) {
        if !self.affords(rules, charge) {
            self.spent = self.spent.min(self.size(rules, charge));
        }
        self.spent = self.spent.saturating_add(charge);
        self.largest = self.largest.max(charge);
    }

    /// A first attempt is over; `again` says that it is tried again. That is counted when it ends,
    /// not when the retry starts: retries of a burst start after its first attempts, some of them
    /// hours after, and would count for nothing first and for too much then.
    pub(crate) fn first_ended(&mut self, again: bool) {
        self.per_million -= self.per_million / AVERAGE_OVER;
        if again {
            self.per_million += MOST_PER_MILLION / AVERAGE_OVER;
        }
        self.per_million = self.per_million.min(MOST_PER_MILLION);
    }

    /// A run of that charge was found, whose admission is not known.
    pub(crate) fn found(&mut self, charge: i64) {
        self.largest = self.largest.max(charge);
    }

    /// A retry is over: what it did not use goes back.
    pub(crate) fn refund(&mut self, charge: i64, actual: i64) {
        self.spent = (self.spent - (charge - actual).max(0)).max(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_budget_is_a_tenth_of_the_slots_for_an_hour_or_two_of_the_largest() {
        let rules = Rules { slots: 10, ..Rules::default() };
        let mut budget = Budget::default();
        assert_eq!(budget.left(&rules), HOUR);
        budget.first_attempt(&rules, 2 * HOUR);
        assert_eq!(budget.left(&rules), 4 * HOUR);
        assert!(budget.affords(&rules, 4 * HOUR));
        // A retry that is larger than anything admitted so far makes room for itself.
        assert!(budget.affords(&rules, 9 * HOUR));
    }

    #[test]
    fn retries_pay_first_attempts_pay_in_and_what_is_unused_goes_back_once() {
        let rules = Rules { slots: 10, ..Rules::default() };
        let mut budget = Budget::default();
        budget.retry(&rules, HOUR / 2);
        budget.retry(&rules, HOUR / 2);
        assert_eq!(budget.left(&rules), 0);
        assert!(!budget.affords(&rules, 1));
        budget.first_attempt(&rules, 60_000);
        assert_eq!(budget.left(&rules), 6_000);
        assert!(budget.affords(&rules, 6_000) && !budget.affords(&rules, 6_001));
        budget.refund(HOUR / 2, HOUR / 4);
        assert_eq!(budget.left(&rules), 6_000 + HOUR / 4);
        budget.refund(HOUR / 2, 2 * HOUR);
        assert_eq!(budget.left(&rules), 6_000 + HOUR / 4);
        for _ in 0..1000 {
            budget.first_attempt(&rules, HOUR / 2);
        }
        assert_eq!(budget.left(&rules), HOUR, "no more than full");
    }

    #[test]
    fn what_was_overdrawn_before_is_written_off_and_none_of_it_comes_back() {
        let rules = Rules { slots: 10, ..Rules::default() };
        let mut budget = Budget::default();
        budget.retry(&rules, HOUR / 2);
        budget.retry(&rules, HOUR / 2);
        for _ in 0..100 {
            budget.retry(&rules, HOUR / 2);
            assert_eq!(budget.left(&rules), -HOUR / 2, "the newest one is charged");
            budget.refund(HOUR / 2, 0);
            assert_eq!(budget.left(&rules), 0, "what it did not use buys no other");
        }
        budget.retry(&rules, HOUR / 2);
        budget.first_attempt(&rules, HOUR / 2);
        assert_eq!(budget.left(&rules), HOUR / 20 - HOUR / 2, "first attempts pay in as ever");
    }

    #[test]
    fn only_a_queue_with_nothing_else_to_do_goes_beyond_its_budget() {
        assert!(beyond(0, false));
        assert!(!beyond(1, false) && !beyond(0, true));
    }

    #[test]
    fn half_of_first_attempts_that_are_tried_again_is_half_a_million_in_a_million() {
        let mut budget = Budget::default();
        for number in 0..2000 {
            budget.first_ended(number % 2 == 0);
        }
        assert!((490_000..510_000).contains(&budget.per_million()), "{}", budget.per_million());
        // When its retries start does not count.
        let before = budget.per_million();
        (0..1000).for_each(|_| budget.retry(&Rules::default(), 1));
        assert_eq!(budget.per_million(), before);
        (0..2000).for_each(|_| budget.first_ended(true));
        assert!((999_000..=1_000_000).contains(&budget.per_million()), "{}", budget.per_million());
        (0..2000).for_each(|_| budget.first_ended(false));
        assert!(budget.per_million() < AVERAGE_OVER, "{}", budget.per_million());
        let most = Ledger { retries_per_million: 4_000_000, ..Ledger::new() };
        assert_eq!(Budget::open(&most).per_million(), 1_000_000, "of an older version");
    }
}
