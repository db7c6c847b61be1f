//! Which new jobs are accepted, and when a rejected one may try again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    rules::Rules,
    waiting::{Waiting, WaitingJob},
};
use crate::retry::{self, Policy};

/// A rejected job may not try again sooner: a place that becomes free is seen by then.
const LEAST_WAIT: Duration = Duration::from_secs(30);
/// A rejected job may try again after that, and as long again, however long the queue is.
const MOST_WAIT: Duration = Duration::from_secs(3600);

/// Why a job is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// `spec.admission: Closed`.
    QueueClosed,
    /// As many jobs wait as may (`limits.queued`).
    QueueFull,
    /// As many jobs of the tenant wait as may (`limits.queuedPerTenant`).
    TenantQueueFull,
}

impl Refusal {
    /// The reason, for programs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::QueueClosed => "QueueClosed",
            Self::QueueFull => "QueueFull",
            Self::TenantQueueFull => "TenantQueueFull",
        }
    }
}

/// What becomes of new jobs. Indices into what was given, oldest job first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// They wait from now on.
    pub accepted: Vec<usize>,
    /// They do not, and nothing was promised.
    pub rejected: Vec<(usize, Refusal)>,
}

/// Places that are taken while a pass goes on.
struct Places<'a> {
    waiting: &'a Waiting,
    rules: &'a Rules,
    free: usize,
    total: usize,
    tenants: BTreeMap<&'a str, usize>,
    schedules: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Places<'a> {
    fn new(waiting: &'a Waiting, rules: &'a Rules, used: usize) -> Self {
        Self {
            waiting,
            rules,
            free: rules.free(used),
            total: waiting.counted(),
            tenants: BTreeMap::new(),
            schedules: BTreeSet::new(),
        }
    }

    /// Places beside what waits, of all and of the tenant: a free slot is one more place.
    fn places(&self, tenant: &str) -> (usize, usize) {
        let limit = |limit: i32| usize::try_from(limit).unwrap_or(0).saturating_add(self.free);
        let of_tenant = self.tenants.get(tenant).copied();
        let of_tenant = of_tenant.unwrap_or_else(|| self.waiting.counted_of(tenant));
        (
            limit(self.rules.queued).saturating_sub(self.total),
            limit(self.rules.queued_per_tenant).saturating_sub(of_tenant),
        )
    }

    /// How many more jobs of the tenant fit.
    fn left(&self, tenant: &str) -> usize {
        let (of_all, of_tenant) = self.places(tenant);
        of_all.min(of_tenant)
    }

    /// Whether a job of the tenant fits.
    fn fits(&self, tenant: &str) -> Result<(), Refusal> {
        match self.places(tenant) {
            (0, _) => Err(Refusal::QueueFull),
            (_, 0) => Err(Refusal::TenantQueueFull),
            _ => Ok(()),
        }
    }

    fn accept(&mut self, job: &'a WaitingJob) -> Result<(), Refusal> {
        if !self.rules.accepts {
            return Err(Refusal::QueueClosed);
        }
        if let Some(schedule) = job.schedule()
            && !self.waiting.has_of_schedule(&job.tenant, schedule)
            && self.schedules.insert((&job.tenant, schedule))
        {
            return Ok(());
        }
        self.fits(&job.tenant)?;
        self.total += 1;
        let before = self.waiting.counted_of(&job.tenant);
        *self.tenants.entry(&job.tenant).or_insert(before) += 1;
        Ok(())
    }
}

/// Accepts new jobs, oldest first, while there is room for them in both limits; `used` slots are
/// held. One waiting job of each ReportSchedule has a place of its own.
///
/// To be done after what is over was settled and before anything is admitted.
pub fn accept(waiting: &Waiting, rules: &Rules, used: usize, new: &[WaitingJob]) -> Verdicts {
    let mut order: Vec<usize> = (0..new.len()).collect();
    order.sort_by(|&a, &b| (new[a].created, &new[a].name).cmp(&(new[b].created, &new[b].name)));
    let mut places = Places::new(waiting, rules, used);
    let mut verdicts = Verdicts::default();
    for index in order {
        match places.accept(&new[index]) {
            Ok(()) => verdicts.accepted.push(index),
            Err(refusal) => verdicts.rejected.push((index, refusal)),
        }
    }
    verdicts
}

/// How many more instants of a ReportSchedule may be claimed for that tenant; beyond that they are
/// skipped. `one_waits`: whether a job of the schedule waits already, so that none has a place of its
/// own.
pub fn room_for_instants(
    waiting: &Waiting,
    rules: &Rules,
    used: usize,
    tenant: &str,
    one_waits: bool,
) -> usize {
    if !rules.accepts {
        return 0;
    }
    let places = Places::new(waiting, rules, used).left(tenant);
    places.saturating_add(usize::from(!one_waits))
}

/// When a rejected job may try again: after the queue is likely to be drained, and later by up to as
/// long again, by its uid, so that those who were rejected together do not come back together.
pub fn retry_after(now: Timestamp, drained: Option<Timestamp>, uid: &str) -> Timestamp {
    let wait = drained.map_or(SignedDuration::ZERO, |at| at.duration_since(now));
    let wait = Duration::try_from(wait).unwrap_or_default().clamp(LEAST_WAIT, MOST_WAIT);
    // Jitter only shortens: of twice the wait, down to the wait.
    let twice = Policy { initial: wait * 2, max: wait * 2, jitter_percent: 50 };
    let delay = SignedDuration::try_from(retry::delay(&twice, uid, 1)).unwrap_or_default();
    now.saturating_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::{
        rules::Starts,
        tests::history::{at, job},
    };

    fn names(new: &[WaitingJob], verdicts: &Verdicts) -> (Vec<String>, Vec<(String, Refusal)>) {
        (
            verdicts.accepted.iter().map(|&index| new[index].name.clone()).collect(),
            verdicts.rejected.iter().map(|&(index, why)| (new[index].name.clone(), why)).collect(),
        )
    }

    fn rules(queued: i32, queued_per_tenant: i32) -> Rules {
        Rules { queued, queued_per_tenant, ..Rules::default() }
    }

    #[test]
    fn a_free_slot_is_one_more_place_and_the_youngest_is_rejected() {
        let new: Vec<WaitingJob> =
            ["d", "b", "a", "c"].map(|name| job(name, "t", 1_000, 60_000)).into();
        let waiting = Waiting::new();
        let verdicts = accept(&waiting, &rules(2, 1_000), 0, &new);
        let d = ("d".to_owned(), Refusal::QueueFull);
        assert_eq!(names(&new, &verdicts), (vec!["a".into(), "b".into(), "c".into()], vec![d]));
        // No slot is free: it is held, or nothing starts.
        assert_eq!(accept(&waiting, &rules(2, 1_000), 1, &new).accepted.len(), 2);
        for starts in [Starts::Held, Starts::Paused] {
            let rules = Rules { starts, ..rules(2, 1_000) };
            assert_eq!(accept(&waiting, &rules, 0, &new).accepted.len(), 2);
        }
        let closed = Rules { accepts: false, ..rules(2, 1_000) };
        let verdicts = accept(&waiting, &closed, 0, &new);
        assert!(verdicts.accepted.is_empty());
        assert!(verdicts.rejected.iter().all(|(_, why)| *why == Refusal::QueueClosed));
    }

    #[test]
    fn the_oldest_go_first_and_each_tenant_has_its_limit() {
        let mut waiting = Waiting::new();
        waiting.upsert(&job("x", "t", 0, 60_000));
        let new = [
            job("young", "u", 3_000, 60_000),
            job("a", "t", 1_000, 60_000),
            job("b", "t", 2_000, 60_000),
            job("old", "u", 0, 60_000),
        ];
        let verdicts = accept(&waiting, &rules(4, 2), 1, &new);
        let (accepted, rejected) = names(&new, &verdicts);
        assert_eq!(accepted, ["old", "a", "young"]);
        assert_eq!(rejected, [("b".to_owned(), Refusal::TenantQueueFull)]);
    }

    #[test]
    fn one_waiting_job_of_each_schedule_has_a_place_of_its_own() {
        let scheduled =
            |name: &str| WaitingJob { scheduled: true, ..job(name, "t", 1_000, 60_000) };
        let new = [
            scheduled("daily-202611290200"),
            scheduled("daily-202611300200"),
            scheduled("weekly-202611290200"),
            job("mine", "t", 9_000, 60_000),
        ];
        let verdicts = accept(&Waiting::new(), &rules(1, 1), 1, &new);
        let (accepted, rejected) = names(&new, &verdicts);
        assert_eq!(
            accepted,
            ["daily-202611290200", "daily-202611300200", "weekly-202611290200"],
            "the second daily one takes the only place"
        );
        assert_eq!(rejected, [("mine".to_owned(), Refusal::QueueFull)]);
    }

    #[test]
    fn instants_have_the_places_that_are_left_and_one_of_their_own() {
        let mut waiting = Waiting::new();
        let room = |waiting: &Waiting, rules: &Rules, used, one_waits| {
            room_for_instants(waiting, rules, used, "t", one_waits)
        };
        assert_eq!(room(&waiting, &rules(0, 0), 1, false), 1);
        assert_eq!(room(&waiting, &rules(0, 0), 1, true), 0);
        assert_eq!(room(&waiting, &rules(0, 0), 0, true), 1, "a free slot is a place");
        assert_eq!(room(&waiting, &rules(5, 2), 1, false), 3);
        waiting.upsert(&job("x", "u", 0, 60_000));
        waiting.upsert(&job("y", "t", 0, 60_000));
        assert_eq!(room(&waiting, &rules(5, 2), 1, true), 1, "of its tenant");
        assert_eq!(room(&waiting, &rules(2, 9), 1, true), 0, "of all");
        let closed = Rules { accepts: false, ..rules(5, 5) };
        assert_eq!(room(&waiting, &closed, 0, false), 0);
    }

    #[test]
    fn who_was_rejected_comes_back_after_the_drain_and_not_all_at_once() {
        let now = at(1_700_000_000_000);
        let wait = |drained: Option<i64>, uid: &str| {
            let drained = drained.map(|ms| at(now.as_millisecond() + ms));
            retry_after(now, drained, uid).duration_since(now).as_secs()
        };
        // milliseconds until the drain, least and most seconds to wait
        for (drained, least, most) in [
            (Some(600_000), 600, 1_200),
            (Some(-5), 30, 60),
            (None, 30, 60),
            (Some(i64::from(i32::MAX) * 1_000), 3_600, 7_200),
        ] {
            let all: Vec<i64> = (0..50).map(|n| wait(drained, &format!("uid-{n}"))).collect();
            assert!(all.iter().all(|wait| (least..=most).contains(wait)), "{all:?}");
            assert!(all.iter().max().unwrap() - all.iter().min().unwrap() > least / 2);
        }
        assert_eq!(wait(None, "a"), wait(None, "a"));
    }
}
