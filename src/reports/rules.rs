//! What the queue's spec says, within the bounds that the arithmetic needs.

use std::collections::BTreeMap;

use crate::api::{MAX_SLOTS, MAX_WEIGHT};

/// Of the slots, percent that retries get even while first attempts wait.
const GUARANTEED_PERCENT: usize = 5;
/// Of the slots, percent that retries may hold while first attempts wait.
const BUSY_PERCENT: usize = 10;
/// Of the slots, percent that retries may hold while no first attempt waits. The other half is room
/// for the next burst.
const IDLE_PERCENT: usize = 50;

/// Whether new reports start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Starts {
    /// They do.
    #[default]
    Open,
    /// `spec.admission: Hold`.
    Held,
    /// The leader has yet to account for what it found.
    Paused,
}

/// What one tenant gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantRule {
    /// Its share, relative to others; 1 to [`MAX_WEIGHT`].
    pub weight: i32,
    /// Most slots it holds at once; `None` is as many as there are.
    pub max_running: Option<i32>,
}

/// The rules of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether new reports start.
    pub starts: Starts,
    /// Whether new jobs are accepted; not so with `spec.admission: Closed`.
    pub accepts: bool,
    /// Slots, 1 to [`MAX_SLOTS`].
    pub slots: i32,
    /// Tenants with a weight or a limit of their own.
    pub tenants: BTreeMap<String, TenantRule>,
    /// Most waiting jobs, free slots not counted.
    pub queued: i32,
    /// Most waiting jobs of one tenant, free slots not counted.
    pub queued_per_tenant: i32,
    /// Whether failed reports are tried again.
    pub retries: bool,
    /// Percent of the cost of first attempts that retries may cost.
    pub budget_percent: i32,
}

impl Default for Rules {
    /// The defaults of a `ReportQueue`, with one slot.
    fn default() -> Self {
        Self {
            starts: Starts::Open,
            accepts: true,
            slots: 1,
            tenants: BTreeMap::new(),
            queued: 10_000,
            queued_per_tenant: 1_000,
            retries: true,
            budget_percent: 10,
        }
    }
}

impl Rules {
    /// Slots, at least one and at most [`MAX_SLOTS`] whatever was written.
    pub fn slots(&self) -> usize {
        usize::try_from(self.slots.clamp(1, MAX_SLOTS)).unwrap_or(1)
    }

    /// Slots that nobody holds and that may be given away.
    pub fn free(&self, used: usize) -> usize {
        match self.starts {
            Starts::Open => self.slots().saturating_sub(used),
            Starts::Held | Starts::Paused => 0,
        }
    }

    /// The tenant's share.
    pub fn weight(&self, tenant: &str) -> i64 {
        let weight = self.tenants.get(tenant).map_or(1, |rule| rule.weight);
        i64::from(weight.clamp(1, MAX_WEIGHT))
    }

    /// Whether a tenant that holds so many slots may hold no more.
    pub fn is_capped(&self, tenant: &str, running: u32) -> bool {
        self.tenants
            .get(tenant)
            .and_then(|rule| rule.max_running)
            .is_some_and(|most| i64::from(running) >= i64::from(most))
    }

    /// How many slots retries hold at least when one waits: the next free ones are theirs.
    pub fn guaranteed_retries(&self) -> usize {
        if self.slots() == 1 { 0 } else { self.share(GUARANTEED_PERCENT) }
    }

    /// How many slots retries hold at most.
    pub fn most_retries(&self, first_attempts_wait: bool) -> usize {
        self.share(if first_attempts_wait { BUSY_PERCENT } else { IDLE_PERCENT })
    }

    /// So many percent of the slots, rounded up, and so at least one.
    fn share(&self, percent: usize) -> usize {
        (self.slots() * percent).div_ceil(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_retries_round_up() {
        // slots, guaranteed, at most while first attempts wait, at most while none waits
        for (slots, guaranteed, busy, idle) in [
            (1, 0, 1, 1),
            (2, 1, 1, 1),
            (8, 1, 1, 4),
            (20, 1, 2, 10),
            (21, 2, 3, 11),
            (64, 4, 7, 32),
        ] {
            let rules = Rules { slots, ..Rules::default() };
            let shares =
                (rules.guaranteed_retries(), rules.most_retries(true), rules.most_retries(false));
            assert_eq!(shares, (guaranteed, busy, idle), "{slots} slots");
        }
    }

    #[test]
    fn what_is_out_of_bounds_counts_as_the_bound() {
        let rule = |weight| TenantRule { weight, max_running: Some(0) };
        let rules = Rules {
            slots: 5000,
            tenants: [("a".to_owned(), rule(0)), ("b".to_owned(), rule(5000))].into(),
            ..Rules::default()
        };
        assert_eq!((rules.slots(), rules.free(2000)), (1024, 0));
        assert_eq!((rules.weight("a"), rules.weight("b"), rules.weight("c")), (1, 1000, 1));
        assert!(rules.is_capped("a", 0) && !rules.is_capped("c", 9));
        let held = Rules { starts: Starts::Held, ..rules };
        assert_eq!(held.free(0), 0);
    }
}
