//! Whose turn it is: the order of admission, without changing the index of waiting jobs.
//!
//! Tenants without an account all have the tag `v` and hold nothing; among them the oldest first job
//! decides, and that order is in the index. Only tenants with an account, few beside all that wait,
//! are ranked here, and those who are ahead of the virtual time only when their turn comes near.
//! So one decision costs some logarithms, however many wait.

use std::{
    collections::{BTreeMap, BTreeSet, btree_set},
    iter::Peekable,
    sync::Arc,
};

use super::{Accounts, units};
use crate::reports::{
    name::Name,
    rules::Rules,
    waiting::{Class, Head, Kept, TenantId, Waiting},
};

/// The order of turns: the finish tag if it is above the virtual time (none comes first), the slots
/// held, then age and name of the first job. The rest names the tenant.
type Rank = (Option<i64>, u32, i64, Arc<str>, TenantId);

/// A tenant that is ranked.
#[derive(Clone, Debug, Default)]
struct Ranked {
    ranks: [Option<Rank>; 2],
    /// Where in its queues the next job is.
    places: [usize; 2],
    /// Where the first job is that may not start because its name is taken. Its age counts still:
    /// the tenant has waited that long.
    blocked: [Option<usize>; 2],
}

/// The tenant whose turn it is in a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) class: Class,
    rank: Rank,
}

impl Next {
    /// What decides between the classes.
    pub(crate) fn before(&self, other: &Self) -> bool {
        (self.rank.0, self.rank.1) < (other.rank.0, other.rank.1)
    }

    /// The tenant.
    pub(crate) fn tenant(&self) -> TenantId {
        self.rank.4
    }
}

/// One pass of admissions.
pub(crate) struct Turns<'a> {
    accounts: &'a mut Accounts,
    waiting: &'a Waiting,
    rules: &'a Rules,
    taken: &'a BTreeMap<Name, u32>,
    fresh: [Peekable<btree_set::Iter<'a, Head>>; 2],
    /// Whether a tenant has or had an account in this pass, by number. If so its place is not among
    /// the fresh: it is ranked, or will be when its turn comes near.
    known: Vec<bool>,
    ranked: BTreeMap<TenantId, Ranked>,
    order: [BTreeSet<Rank>; 2],
    /// The last tenant ahead of the virtual time that was ranked.
    near: Option<(i64, Name)>,
}

impl<'a> Turns<'a> {
    /// Jobs whose name is `taken`, because one of that name holds a slot, are passed over.
    pub(crate) fn new(
        accounts: &'a mut Accounts,
        waiting: &'a Waiting,
        rules: &'a Rules,
        taken: &'a BTreeMap<Name, u32>,
    ) -> Self {
        let mut known = vec![false; waiting.tenant_numbers()];
        let mut holding: Vec<TenantId> = Vec::new();
        let mut unknown = Class::ALL.map(|class| waiting.heads(class).len());
        for (tenant, account) in waiting.find_tenants(accounts.all()) {
            known[tenant as usize] = true;
            for class in Class::ALL {
                unknown[class.index()] -= usize::from(waiting.has_head(tenant, class));
            }
            if account.finish.is_none() {
                holding.push(tenant);
            }
        }
        // In a queue that is full of work all tenants have accounts: nobody is fresh.
        let fresh = Class::ALL.map(|class| match unknown[class.index()] {
            0 => btree_set::Iter::default().peekable(),
            _ => waiting.heads(class).iter().peekable(),
        });
        let mut turns = Self {
            accounts,
            waiting,
            rules,
            taken,
            fresh,
            known,
            ranked: BTreeMap::new(),
            order: Default::default(),
            near: None,
        };
        for tenant in holding {
            turns.rank(tenant);
        }
        turns
    }

    /// The next tenant of a class.
    pub(crate) fn next(&mut self, class: Class) -> Option<Next> {
        if self.waiting.heads(class).is_empty() {
            return None;
        }
        loop {
            let best = self.best(class);
            let Some(near) = self.accounts.next_ahead(self.near.as_ref()) else {
                return best;
            };
            if best.as_ref().is_some_and(|best| best.rank.0 < Some(near.0)) {
                return best;
            }
            let near = near.clone();
            if let Some(tenant) = self.waiting.tenant_number(&near.1)
                && !self.ranked.contains_key(&tenant)
            {
                self.rank(tenant);
            }
            self.near = Some(near);
        }
    }

    /// The first of those who are ranked and those without an account.
    fn best(&mut self, class: Class) -> Option<Next> {
        let known = |turns: &mut Self| turns.order[class.index()].first().cloned();
        let fresh = loop {
            let Some(head) = self.fresh[class.index()].peek() else { break None };
            let (created, job, tenant) = (head.0, &head.1, head.2);
            let out_of_order =
                self.known[tenant as usize] || self.rules.is_capped(self.waiting.tenant(tenant), 0);
            if !out_of_order && !is_taken(self.taken, job) {
                break Some((None, 0, created, Arc::clone(job), tenant));
            }
            if !out_of_order {
                self.rank(tenant);
            }
            self.fresh[class.index()].next();
        };
        let rank = match (fresh, known(self)) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        Some(Next { class, rank })
    }

    /// The job whose turn it is.
    pub(crate) fn job(&self, next: &Next) -> Option<&'a Kept> {
        let ranked = self.ranked.get(&next.tenant());
        let place = ranked.map_or(0, |ranked| ranked.places[next.class.index()]);
        self.waiting.at(next.tenant(), next.class, place)
    }

    /// The virtual time goes on to the smallest tag of those whose turn it could be.
    pub(crate) fn raise(&mut self, candidates: [Option<&Next>; 2]) {
        let smallest = candidates.into_iter().flatten().map(|next| next.rank.0).min().flatten();
        if let Some(tag) = smallest {
            let free = self.accounts.raise(tag);
            self.rank_again(&free);
        }
    }

    /// The job whose turn it is gets a slot, and its tenant is charged. The charge.
    pub(crate) fn take(&mut self, next: &Next) {
        let tenant = next.tenant();
        let name = self.waiting.tenant(tenant).clone();
        let charge = self.job(next).map_or(0, |job| job.charge);
        self.ranked.entry(tenant).or_default().places[next.class.index()] += 1;
        let free = self.accounts.charge(&name, units(charge, self.rules.weight(&name)));
        self.rank(tenant);
        self.rank_again(&free);
    }

    /// The job whose turn it is is left out in this pass.
    pub(crate) fn skip(&mut self, next: &Next) {
        let tenant = next.tenant();
        self.ranked.entry(tenant).or_default().places[next.class.index()] += 1;
        self.rank(tenant);
    }

    /// A slot of the tenant is free again.
    pub(crate) fn release(&mut self, tenant: &Name) {
        self.accounts.release(tenant);
        self.rank_again(std::slice::from_ref(tenant));
    }

    /// Tenants whose account changed.
    fn rank_again(&mut self, tenants: &[Name]) {
        for name in tenants {
            if let Some(tenant) = self.waiting.tenant_number(name) {
                self.rank(tenant);
            }
        }
    }

    /// Puts a tenant where it belongs, in both classes.
    fn rank(&mut self, tenant: TenantId) {
        self.known[tenant as usize] = true;
        let name = self.waiting.tenant(tenant);
        let account = self.accounts.get(name);
        let capped = self.rules.is_capped(name, account.running);
        let ranked = self.ranked.entry(tenant).or_default();
        for class in Class::ALL {
            let index = class.index();
            let place = &mut ranked.places[index];
            while self
                .waiting
                .at(tenant, class, *place)
                .is_some_and(|job| is_taken(self.taken, &job.name))
            {
                ranked.blocked[index].get_or_insert(*place);
                *place += 1;
            }
            let oldest = ranked.blocked[index].unwrap_or(*place);
            let may_start = !capped && self.waiting.at(tenant, class, *place).is_some();
            let job = self.waiting.at(tenant, class, oldest).filter(|_| may_start);
            let rank = job.map(|job| {
                (account.finish, account.running, job.created, Arc::clone(&job.name), tenant)
            });
            if rank == ranked.ranks[index] {
                continue;
            }
            if let Some(old) = ranked.ranks[index].take() {
                self.order[index].remove(&old);
            }
            if let Some(rank) = &rank {
                self.order[index].insert(rank.clone());
            }
            ranked.ranks[index] = rank;
        }
    }
}

/// Whether a job of that name holds a slot.
fn is_taken(taken: &BTreeMap<Name, u32>, job: &Arc<str>) -> bool {
    !taken.is_empty() && taken.contains_key(&job.into())
}
