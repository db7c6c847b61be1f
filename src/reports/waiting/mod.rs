//! The index of the jobs that wait in one queue.
//!
//! It is made from the ReportJobs and follows their changes one by one; made anew from the same
//! jobs it is the same, in whatever order they come. Nothing durable hangs on it. An admission only
//! reads it: its write may fail, and then nothing was taken out.
//!
//! Every tenant has two queues, first attempts and retries, in the order in which its jobs go:
//! priority, age, name. A queue is a sorted list of small numbers, so a change takes a binary search
//! and moves at most half of them, four bytes each. The tenants are ordered by the age of the first
//! job of their queue, which is the order among tenants that owe nothing.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;

use super::name::{Name, hash};

mod job;
mod numbers;
#[cfg(test)]
mod tests;

pub(crate) use job::Kept;
pub use job::{Class, WaitingJob};
use numbers::Numbers;

/// A place in a tenant's queue, by number: 100,000 jobs cost 400 kB here.
type JobId = u32;
/// A tenant that has waiting jobs, by number.
pub(crate) type TenantId = u32;

/// The first job of a tenant's queue: when it was created, its name, whose it is.
pub(crate) type Head = (i64, Arc<str>, TenantId);

/// One tenant with waiting jobs.
#[derive(Clone, Debug, Default)]
struct Tenant {
    name: Name,
    /// Jobs that may start, first attempts and retries, each in the order in which they go.
    queues: [VecDeque<JobId>; 2],
    /// Retries whose time has not come.
    later: u32,
    /// ReportSchedules with waiting jobs, and how many.
    schedules: BTreeMap<Box<str>, u32>,
}

impl Tenant {
    fn len(&self) -> usize {
        self.queues[0].len() + self.queues[1].len() + self.later as usize
    }
}

/// The jobs that wait in one queue.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    jobs: Vec<Option<Kept>>,
    vacant: Vec<JobId>,
    names: Numbers,
    tenants: Vec<Tenant>,
    vacant_tenants: Vec<TenantId>,
    tenant_ids: BTreeMap<Name, TenantId>,
    heads: [BTreeSet<Head>; 2],
    later: BTreeSet<(i64, JobId)>,
    /// Retries whose time was up to here may start. Never goes back.
    advanced: i64,
    /// Sums of charges, first attempts and retries.
    charges: [i64; 2],
    /// How many jobs have which charge.
    by_charge: BTreeMap<i64, u32>,
    /// One for each schedule of each tenant with waiting jobs.
    exempt: usize,
}

impl Waiting {
    /// Nothing waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// The job waits, as given; what was known of a job of that name is forgotten. Doing it twice
    /// changes nothing.
    pub fn upsert(&mut self, job: &WaitingJob) {
        if let Some(id) = self.id(&job.name) {
            if let Some(kept) = self.jobs.get(id as usize).and_then(Option::as_ref)
                && **self.tenant(kept.tenant) == *job.tenant
                && *kept == Kept::new(job, kept.tenant)
            {
                return;
            }
            self.take(id);
        }
        let tenant = self.tenant_id_or_new(&job.tenant);
        let kept = Kept::new(job, tenant);
        let later = kept.retry && kept.not_before > self.advanced;
        self.count(&kept, job.schedule());
        let not_before = kept.not_before;
        let id = self.keep(kept);
        if later {
            self.later.insert((not_before, id));
            self.tenants[tenant as usize].later += 1;
        } else {
            self.enqueue(id);
        }
    }

    /// The job no longer waits. Whether it did; one of the same name with another uid stays.
    pub fn remove(&mut self, name: &str, uid: &str) -> bool {
        let Some(id) = self.id(name) else { return false };
        if !self.kept(id).is_some_and(|kept| kept.is(uid)) {
            return false;
        }
        self.take(id);
        true
    }

    /// Retries whose time has come up to `now` may start. A clock that goes back takes none of them
    /// away. To be called before an admission.
    pub fn advance(&mut self, now: Timestamp) {
        self.advanced = self.advanced.max(now.as_millisecond());
        while let Some(&(at, id)) = self.later.first()
            && at <= self.advanced
        {
            self.later.pop_first();
            if let Some(tenant) = self.kept(id).map(|kept| kept.tenant) {
                self.tenants[tenant as usize].later -= 1;
            }
            self.enqueue(id);
        }
    }

    /// When the next retry may start whose time has not come.
    pub fn next_due(&self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.later.first()?.0).ok()
    }

    /// When the last retry may start whose time has not come.
    pub fn last_due(&self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.later.last()?.0).ok()
    }

    /// How many jobs wait, retries whose time has not come included.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.names.len() == 0
    }

    /// How many tenants have waiting jobs.
    pub fn tenants(&self) -> usize {
        self.tenant_ids.len()
    }

    /// How many jobs of the tenant wait.
    pub fn len_of(&self, tenant: &str) -> usize {
        self.tenant_id(tenant).map_or(0, |id| self.tenants[id as usize].len())
    }

    /// How many waiting jobs count for the limit of the queue: one of each schedule does not.
    pub fn counted(&self) -> usize {
        self.len() - self.exempt
    }

    /// How many waiting jobs of the tenant count for its limit.
    pub fn counted_of(&self, tenant: &str) -> usize {
        self.tenant_id(tenant).map_or(0, |id| {
            let tenant = &self.tenants[id as usize];
            tenant.len() - tenant.schedules.len()
        })
    }

    /// Whether a job of that ReportSchedule and tenant waits.
    pub fn has_of_schedule(&self, tenant: &str, schedule: &str) -> bool {
        self.tenant_id(tenant)
            .is_some_and(|id| self.tenants[id as usize].schedules.contains_key(schedule))
    }

    /// Charges of all that wait in a class, in slot-milliseconds.
    pub fn charge(&self, class: Class) -> i64 {
        self.charges[class.index()]
    }

    /// Largest charge of what waits, in slot-milliseconds.
    pub fn largest_charge(&self) -> i64 {
        self.by_charge.last_key_value().map_or(0, |(&charge, _)| charge)
    }

    /// The waiting job of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&Kept> {
        self.kept(self.id(name)?)
    }

    /// Whether the job is a retry whose time has not come.
    pub(crate) fn is_later(&self, job: &Kept) -> bool {
        job.retry && job.not_before > self.advanced
    }

    /// The number of a tenant with waiting jobs.
    pub(crate) fn tenant_id(&self, tenant: &str) -> Option<TenantId> {
        self.tenant_number(&tenant.into())
    }

    /// The number of a tenant with waiting jobs.
    pub(crate) fn tenant_number(&self, tenant: &Name) -> Option<TenantId> {
        self.tenant_ids.get(tenant).copied()
    }

    /// Every number of a tenant is below this one.
    pub(crate) fn tenant_numbers(&self) -> usize {
        self.tenants.len()
    }

    /// The numbers of those who have waiting jobs, of tenants in the order of their names. Both are
    /// in order, so the next one is most often near; where it is not, it is looked up.
    pub(crate) fn find_tenants<'a, T>(
        &'a self,
        tenants: impl Iterator<Item = (&'a Name, T)>,
    ) -> impl Iterator<Item = (TenantId, T)> {
        const NEAR: usize = 8; // about what a look-up costs
        let mut rest = self.tenant_ids.range::<Name, _>(..).peekable();
        tenants.filter_map(move |(name, with)| {
            let mut steps = 0;
            while rest.peek().is_some_and(|(other, _)| *other < name) {
                if steps == NEAR {
                    rest = self.tenant_ids.range(name..).peekable();
                    break;
                }
                steps += 1;
                rest.next();
            }
            rest.peek().filter(|(other, _)| *other == name).map(|(_, id)| (**id, with))
        })
    }

    /// The name of a tenant.
    pub(crate) fn tenant(&self, id: TenantId) -> &Name {
        &self.tenants[id as usize].name
    }

    /// Tenants whose queue of the class is not empty, the one with the oldest first job first.
    pub(crate) fn heads(&self, class: Class) -> &BTreeSet<Head> {
        &self.heads[class.index()]
    }

    /// Whether the tenant is among the [`Waiting::heads`] of the class.
    pub(crate) fn has_head(&self, tenant: TenantId, class: Class) -> bool {
        let tenant = self.tenants.get(tenant as usize);
        tenant.is_some_and(|tenant| !tenant.queues[class.index()].is_empty())
    }

    /// The job at `place` in a tenant's queue.
    pub(crate) fn at(&self, tenant: TenantId, class: Class, place: usize) -> Option<&Kept> {
        let id = self.tenants.get(tenant as usize)?.queues[class.index()].get(place)?;
        self.kept(*id)
    }

    /// The job of that name.
    fn id(&self, name: &str) -> Option<JobId> {
        self.names.get(hash(name), |id| self.kept(id).is_some_and(|kept| *kept.name == *name))
    }

    fn kept(&self, id: JobId) -> Option<&Kept> {
        self.jobs.get(id as usize)?.as_ref()
    }

    fn keep(&mut self, kept: Kept) -> JobId {
        let hash = hash(&kept.name);
        let id = if let Some(id) = self.vacant.pop() {
            self.jobs[id as usize] = Some(kept);
            id
        } else {
            self.jobs.push(Some(kept));
            JobId::try_from(self.jobs.len() - 1).unwrap_or(JobId::MAX)
        };
        self.names.insert(hash, id);
        id
    }

    /// Takes a job out of everything.
    fn take(&mut self, id: JobId) {
        let Some(kept) = self.kept(id).cloned() else { return };
        if self.later.remove(&(kept.not_before, id)) {
            self.tenants[kept.tenant as usize].later -= 1;
        } else {
            self.dequeue(id, &kept);
        }
        self.jobs[id as usize] = None;
        self.vacant.push(id);
        self.names.remove(hash(&kept.name), id);
        self.uncount(&kept);
        let tenant = &mut self.tenants[kept.tenant as usize];
        if tenant.len() == 0 {
            self.tenant_ids.remove(&tenant.name);
            *tenant = Tenant::default();
            self.vacant_tenants.push(kept.tenant);
        }
    }

    fn enqueue(&mut self, id: JobId) {
        let Some(kept) = self.kept(id) else { return };
        let (tenant, class) = (kept.tenant, kept.class());
        let place = self.place_of_new(tenant, class, kept);
        if place == 0 {
            self.drop_head(tenant, class);
        }
        self.tenants[tenant as usize].queues[class.index()].insert(place, id);
        if place == 0 {
            self.add_head(tenant, class);
        }
    }

    fn dequeue(&mut self, id: JobId, kept: &Kept) {
        let (tenant, class) = (kept.tenant, kept.class());
        let queue = &self.tenants[tenant as usize].queues[class.index()];
        let place = if queue.front() == Some(&id) { 0 } else { self.before(tenant, class, kept) };
        if place == 0 {
            self.drop_head(tenant, class);
        }
        let queue = &mut self.tenants[tenant as usize].queues[class.index()];
        if queue.get(place) == Some(&id) {
            queue.remove(place);
        }
        if place == 0 {
            self.add_head(tenant, class);
        }
    }

    /// Where a job belongs in its tenant's queue: most often at the end.
    fn place_of_new(&self, tenant: TenantId, class: Class, job: &Kept) -> usize {
        let queue = &self.tenants[tenant as usize].queues[class.index()];
        let last = queue.back().and_then(|id| self.kept(*id));
        if last.is_none_or(|last| last.order(job).is_lt()) {
            return queue.len();
        }
        self.before(tenant, class, job)
    }

    /// How many jobs of its tenant's queue go before this one.
    fn before(&self, tenant: TenantId, class: Class, job: &Kept) -> usize {
        let queue = &self.tenants[tenant as usize].queues[class.index()];
        queue.partition_point(|&id| self.kept(id).is_some_and(|other| other.order(job).is_lt()))
    }

    fn head(&self, tenant: TenantId, class: Class) -> Option<Head> {
        let first = self.at(tenant, class, 0)?;
        Some((first.created, Arc::clone(&first.name), tenant))
    }

    fn drop_head(&mut self, tenant: TenantId, class: Class) {
        if let Some(head) = self.head(tenant, class) {
            self.heads[class.index()].remove(&head);
        }
    }

    fn add_head(&mut self, tenant: TenantId, class: Class) {
        if let Some(head) = self.head(tenant, class) {
            self.heads[class.index()].insert(head);
        }
    }

    fn tenant_id_or_new(&mut self, name: &str) -> TenantId {
        if let Some(id) = self.tenant_id(name) {
            return id;
        }
        let tenant = Tenant { name: name.into(), ..Tenant::default() };
        let name = tenant.name.clone();
        let id = if let Some(id) = self.vacant_tenants.pop() {
            self.tenants[id as usize] = tenant;
            id
        } else {
            self.tenants.push(tenant);
            TenantId::try_from(self.tenants.len() - 1).unwrap_or(TenantId::MAX)
        };
        self.tenant_ids.insert(name, id);
        id
    }

    fn count(&mut self, kept: &Kept, schedule: Option<&str>) {
        self.charges[kept.class().index()] += kept.charge;
        *self.by_charge.entry(kept.charge).or_default() += 1;
        if let Some(schedule) = schedule {
            let of = self.tenants[kept.tenant as usize].schedules.entry(schedule.into());
            let jobs = of.or_default();
            *jobs += 1;
            self.exempt += usize::from(*jobs == 1);
        }
    }

    fn uncount(&mut self, kept: &Kept) {
        self.charges[kept.class().index()] -= kept.charge;
        if let Some(jobs) = self.by_charge.get_mut(&kept.charge) {
            *jobs -= 1;
            if *jobs == 0 {
                self.by_charge.remove(&kept.charge);
            }
        }
        if kept.scheduled {
            let schedules = &mut self.tenants[kept.tenant as usize].schedules;
            let schedule = job::schedule_of(&kept.name);
            if let Some(jobs) = schedules.get_mut(schedule) {
                *jobs -= 1;
                if *jobs == 0 {
                    schedules.remove(schedule);
                    self.exempt -= 1;
                }
            }
        }
    }
}
