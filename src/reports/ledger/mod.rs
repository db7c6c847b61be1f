//! The ledger in memory.
//!
//! [`Books`] are opened from `status.ledger`, changed by admissions and settlements, and closed into
//! a ledger again, which one conditional write makes true. If that write fails the books are thrown
//! away. Closed and opened again they are the same: nothing that decides is only in memory.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use super::{
    budget::Budget,
    fairness::{Accounts, units},
    name::Name,
    rules::Rules,
};
use crate::api::{Ledger, LedgerEntry};

mod rebuild;
#[cfg(test)]
mod tests;

pub use rebuild::{Found, rebuild};

/// The ledger of one queue, in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Books {
    pub(crate) accounts: Accounts,
    pub(crate) budget: Budget,
    /// By uid and attempt.
    entries: BTreeMap<(Arc<str>, i32), Arc<LedgerEntry>>,
    /// Names of jobs that hold a slot, and how many entries have that name.
    pub(crate) names: BTreeMap<Name, u32>,
    retries: usize,
    http_bytes: usize,
}

impl Books {
    /// Opens a ledger.
    pub fn open(ledger: &Ledger) -> Self {
        let mut books = Self {
            accounts: Accounts::new(ledger.virtual_time, &ledger.tags),
            budget: Budget::open(ledger),
            entries: BTreeMap::new(),
            names: BTreeMap::new(),
            retries: 0,
            http_bytes: 0,
        };
        for entry in &ledger.entries {
            if books.enter(entry.clone()).is_some() {
                books.accounts.hold(&entry.tenant.as_str().into());
            }
        }
        books
    }

    /// The ledger to write.
    pub fn close(&self) -> Ledger {
        let mut accounts = self.accounts.clone();
        accounts.rebase();
        let mut entries: Vec<&Arc<LedgerEntry>> = self.entries.values().collect();
        entries.sort_by(|a, b| (&a.job, &a.uid, a.attempt).cmp(&(&b.job, &b.uid, b.attempt)));
        let mut ledger = Ledger {
            virtual_time: accounts.virtual_time(),
            tags: accounts.tags(),
            entries: entries.into_iter().map(|entry| LedgerEntry::clone(entry)).collect(),
            ..Ledger::new()
        };
        self.budget.close(&mut ledger);
        ledger
    }

    /// The run of this attempt is proven over and cost `actual` slot-milliseconds (0 if it never
    /// started): its tenant's tag is corrected, its slot is free. `false` if it holds no slot, and
    /// then nothing changes.
    pub fn settle(&mut self, rules: &Rules, uid: &str, attempt: i32, actual: i64) -> bool {
        let Some(entry) = self.entries.remove(&(uid.into(), attempt)) else { return false };
        if let Entry::Occupied(mut count) = self.names.entry(entry.job.as_str().into()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        self.http_bytes -= http_bytes(&entry);
        if entry.retry {
            self.retries -= 1;
            self.budget.refund(entry.charge, actual.max(0));
        }
        let weight = rules.weight(&entry.tenant);
        let (charged, actual) = (units(entry.charge, weight), units(actual, weight));
        self.accounts.settle(&entry.tenant.as_str().into(), charged, actual);
        true
    }

    /// [`Books::settle`] for an attempt of which it is known whether it is tried `again`. The forecast
    /// of the drain learns from it.
    pub fn settle_known(
        &mut self,
        rules: &Rules,
        uid: &str,
        attempt: i32,
        actual: i64,
        again: bool,
    ) -> bool {
        let first = self.entries.get(&(uid.into(), attempt)).is_some_and(|entry| !entry.retry);
        if first {
            self.budget.first_ended(again);
        }
        self.settle(rules, uid, attempt, actual)
    }

    /// How many slots are held.
    pub fn used(&self) -> usize {
        self.entries.len()
    }

    /// How many of them by retries.
    pub fn retries(&self) -> usize {
        self.retries
    }

    /// How many slots the tenant holds.
    pub fn running(&self, tenant: &str) -> u32 {
        self.accounts.get(&tenant.into()).running
    }

    /// What holds a slot, by uid and attempt.
    pub fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.values().map(AsRef::as_ref)
    }

    /// The newest attempt of a job that holds a slot.
    pub fn entry(&self, uid: &str) -> Option<&LedgerEntry> {
        let uid: Arc<str> = uid.into();
        let of_uid = (Arc::clone(&uid), i32::MIN)..=(uid, i32::MAX);
        self.entries.range(of_uid).next_back().map(|(_, entry)| entry.as_ref())
    }

    /// Whether a job of that name holds a slot, whatever its uid.
    pub fn is_name_taken(&self, job: &str) -> bool {
        self.names.contains_key(&job.into())
    }

    /// Slot-milliseconds that are left for retries.
    pub fn retry_budget_left(&self, rules: &Rules) -> i64 {
        self.budget.left(rules)
    }

    pub(crate) fn http_bytes(&self) -> usize {
        self.http_bytes
    }

    /// The entry holds a slot. `None` if it did before.
    pub(crate) fn enter(&mut self, entry: LedgerEntry) -> Option<Arc<LedgerEntry>> {
        let key = (entry.uid.as_str().into(), entry.attempt);
        let Entry::Vacant(place) = self.entries.entry(key) else { return None };
        *self.names.entry(entry.job.as_str().into()).or_default() += 1;
        self.retries += usize::from(entry.retry);
        self.http_bytes += http_bytes(&entry);
        let entry = Arc::new(entry);
        place.insert(Arc::clone(&entry));
        Some(entry)
    }
}

/// Bytes of the entry's provider, as JSON.
pub(crate) fn http_bytes(entry: &LedgerEntry) -> usize {
    let json = entry.http.as_ref().and_then(|http| serde_json::to_string(http).ok());
    json.map_or(0, |json| json.len())
}

/// [`Books::settle`] on a ledger.
#[must_use]
pub fn settle(ledger: &Ledger, rules: &Rules, uid: &str, attempt: i32, actual: i64) -> Ledger {
    let mut books = Books::open(ledger);
    books.settle(rules, uid, attempt, actual);
    books.close()
}
