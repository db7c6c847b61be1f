//! What each tenant was given: virtual time, finish tags, slots held.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use crate::{
    api::{MAX_CHARGE, MAX_TAGS, TAG_SCALE, TenantTag},
    reports::name::Name,
};

/// Least cost of a slot, in slot-milliseconds: giving it away and taking it back costs something
/// even if the job did nothing, and whoever was served is never as if it had not been.
const LEAST_CHARGE: i64 = 1_000;
/// How far a finish tag may be ahead of the virtual time. Nobody gets there by itself; it keeps all
/// tags exact in JSON (2^53) whatever weights and estimates are.
const MOST_AHEAD: i64 = 1 << 51;
/// Beyond this the virtual time starts again at 0, and every tag with it.
pub(crate) const REBASE_AT: i64 = 1 << 51;

/// The cost of so many slot-milliseconds in units of a tag.
pub(crate) fn units(charge: i64, weight: i64) -> i64 {
    charge.clamp(LEAST_CHARGE, MAX_CHARGE) * TAG_SCALE / weight.max(1)
}

/// One tenant that owes something or holds a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Its finish tag if that is above the virtual time.
    pub(crate) finish: Option<i64>,
    /// Slots it holds.
    pub(crate) running: u32,
}

impl Account {
    /// Whether the tenant owes nothing and holds nothing.
    pub(crate) fn is_empty(self) -> bool {
        self.finish.is_none() && self.running == 0
    }
}

/// The accounts of all tenants. One without an account owes nothing and holds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    virtual_time: i64,
    tenants: BTreeMap<Name, Account>,
    /// Those with a finish tag, by it.
    ahead: BTreeSet<(i64, Name)>,
}

impl Accounts {
    /// With the virtual time and tags of a ledger; nobody holds a slot yet.
    pub(crate) fn new(virtual_time: i64, tags: &[TenantTag]) -> Self {
        let mut accounts = Self { virtual_time: virtual_time.max(0), ..Self::default() };
        for tag in tags {
            let name = tag.tenant.as_str().into();
            accounts.set(&name, |account, v| account.finish = ahead_of(v, tag.finish));
        }
        accounts.keep_tags_bounded();
        accounts
    }

    pub(crate) fn virtual_time(&self) -> i64 {
        self.virtual_time
    }

    /// The tenant's account; an empty one if it has none.
    pub(crate) fn get(&self, tenant: &Name) -> Account {
        self.tenants.get(tenant).copied().unwrap_or_default()
    }

    /// All that there are, in the order of [`Name`].
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Name, &Account)> {
        self.tenants.iter()
    }

    /// The tenant with the smallest finish tag above `after`.
    pub(crate) fn next_ahead(&self, after: Option<&(i64, Name)>) -> Option<&(i64, Name)> {
        use std::ops::Bound::{Excluded, Unbounded};
        match after {
            None => self.ahead.first(),
            Some(after) => self.ahead.range((Excluded(after), Unbounded)).next(),
        }
    }

    /// The tags, by tenant.
    pub(crate) fn tags(&self) -> Vec<TenantTag> {
        let tag = |(name, account): (&Name, &Account)| {
            account.finish.map(|finish| TenantTag { tenant: name.to_string(), finish })
        };
        let mut tags: Vec<TenantTag> = self.tenants.iter().filter_map(tag).collect();
        tags.sort_by(|a, b| a.tenant.cmp(&b.tenant));
        tags
    }

    /// The tenant holds one slot more, without being charged for it.
    pub(crate) fn hold(&mut self, tenant: &Name) {
        self.set(tenant, |account, _| account.running += 1);
    }

    /// The tenant holds one slot less, without a correction.
    pub(crate) fn release(&mut self, tenant: &Name) {
        self.set(tenant, |account, _| account.running = account.running.saturating_sub(1));
    }

    /// The tenant is given a slot for `units`. Tenants that owe nothing any more, because more are
    /// ahead of the virtual time than are remembered.
    pub(crate) fn charge(&mut self, tenant: &Name, units: i64) -> Vec<Name> {
        self.set(tenant, |account, v| {
            account.finish = ahead_of(v, account.finish.unwrap_or(v) + units);
            account.running += 1;
        });
        self.keep_tags_bounded()
    }

    /// A run cost `actual` where `charged` was paid; its slot is free. What is paid back gives no
    /// more than the standing of a tenant that has just arrived.
    ///
    /// A tenant that owed nothing any more is charged from the virtual time on, as if the rest of
    /// the run had been admitted now.
    pub(crate) fn settle(&mut self, tenant: &Name, charged: i64, actual: i64) {
        self.set(tenant, |account, v| {
            account.finish = ahead_of(v, account.finish.unwrap_or(v) + (actual - charged));
            account.running = account.running.saturating_sub(1);
        });
        self.keep_tags_bounded();
    }

    /// The virtual time is at least `to`. Tenants that owe nothing any more.
    pub(crate) fn raise(&mut self, to: i64) -> Vec<Name> {
        self.virtual_time = self.virtual_time.max(to);
        let mut free = Vec::new();
        while let Some((finish, _)) = self.ahead.first()
            && *finish <= self.virtual_time
            && let Some((_, name)) = self.ahead.pop_first()
        {
            if let Some(account) = self.tenants.get_mut(&name) {
                account.finish = None;
                if account.running == 0 {
                    self.tenants.remove(&name);
                }
            }
            free.push(name);
        }
        free
    }

    /// Starts the virtual time at 0 again before numbers become too large for JSON. Only the
    /// differences between tags mean anything.
    pub(crate) fn rebase(&mut self) {
        if self.virtual_time <= REBASE_AT {
            return;
        }
        let by = std::mem::take(&mut self.virtual_time);
        for account in self.tenants.values_mut() {
            account.finish = account.finish.map(|finish| finish - by);
        }
        let ahead = std::mem::take(&mut self.ahead);
        self.ahead = ahead.into_iter().map(|(finish, name)| (finish - by, name)).collect();
    }

    /// Beyond [`MAX_TAGS`] the virtual time goes on to the smallest tag: those who owe least are
    /// forgotten first.
    fn keep_tags_bounded(&mut self) -> Vec<Name> {
        let mut free = Vec::new();
        while self.ahead.len() > MAX_TAGS
            && let Some(&(finish, _)) = self.ahead.first()
        {
            free.append(&mut self.raise(finish));
        }
        free
    }

    /// Changes one account, given the virtual time, and keeps the order by tag.
    fn set(&mut self, tenant: &Name, change: impl FnOnce(&mut Account, i64)) {
        let entry = self.tenants.entry(tenant.clone());
        let before = match &entry {
            Entry::Occupied(account) => *account.get(),
            Entry::Vacant(_) => Account::default(),
        };
        let mut after = before;
        change(&mut after, self.virtual_time);
        match entry {
            Entry::Occupied(account) if after.is_empty() => drop(account.remove()),
            Entry::Vacant(_) if after.is_empty() => {}
            Entry::Occupied(mut account) => drop(account.insert(after)),
            Entry::Vacant(place) => drop(place.insert(after)),
        }
        if before.finish == after.finish {
            return;
        }
        if let Some(finish) = before.finish {
            self.ahead.remove(&(finish, tenant.clone()));
        }
        if let Some(finish) = after.finish {
            self.ahead.insert((finish, tenant.clone()));
        }
    }
}

/// A finish tag, if it is above the virtual time.
fn ahead_of(v: i64, finish: i64) -> Option<i64> {
    (finish > v).then_some(finish.min(v.saturating_add(MOST_AHEAD)))
}
