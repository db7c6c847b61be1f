//! What is particular to schedules of reports; a pass over one is [`crate::schedules::hands`].
//!
//! A job of a schedule stands in the [`Book`](crate::reports::queue::Book) of its queue only while
//! its schedule, sealed in this term, has started it. So its queue neither answers nor admits it
//! before.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{Controller, Key, State, queue_key};
use crate::{
    api::{ReportJob, ReportSchedule},
    authority::{Fenced as _, Permit},
    cluster::{Lookup, ObjectKey},
    providers::{Acceptance, OfQueue, RunRequest},
    reconcile::PassError,
    reports::{
        facts::{attempts, is_terminal},
        job::{self, NoRun},
        limits,
        queue::{entries, spec, waiting_job},
        rules::Rules,
        schedule::started,
    },
    runs::hands::{self, AttemptOf},
    schedules::{
        Kind as _, Standing, Work as _,
        hands::{Hands, Manner},
        needs_takeover, standing,
    },
    time::IntendedTime,
};

/// When a delayed start is looked at again while the clock is not trusted.
const CLOCK_RECHECK: SignedDuration = SignedDuration::from_secs(2);

/// How a job stands with the schedule that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    /// It may be answered, admitted and started: no schedule made it, or its schedule started it, or
    /// its schedule is gone after it was prepared.
    Started,
    /// Nobody knows yet.
    Undecided,
    /// Nobody will know: its schedule cannot be read, or carries a foreign fence.
    LeftAlone,
    /// Its schedule, read live, has decided its instant without it.
    Ghost,
    /// Its schedule, read live, is gone, and nothing of it was prepared.
    ScheduleGone,
}

impl Controller {
    pub(super) async fn pass_schedule(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Timestamp>, PassError> {
        let permit = self.deps.permit()?;
        // What is claimed counts before new instants are judged: it takes places.
        self.follow_claims(key, &permit);
        let hands = Hands {
            deps: &self.deps,
            schedules: &self.schedules,
            works: &self.jobs,
            departures: &self.departures,
            refusals: &self.refusals,
            manner: self,
        };
        let passed = Box::pin(hands.pass(key)).await; // its state is large
        let next = self.follow_claims(key, &permit);
        let wake_at = passed?;
        Ok(wake_at.into_iter().chain(next).min())
    }

    /// The jobs that the schedule has started, and no others of it, stand in their books from now
    /// on. Gives the moment at which the next one joins them.
    pub(super) fn follow_claims(&self, key: &ObjectKey, permit: &Permit) -> Option<Timestamp> {
        let known: Vec<Arc<ReportJob>> = self.works_of(key);
        let (may_start, next) = match self.schedules.lookup(key) {
            Lookup::Unreadable(_) => (BTreeSet::new(), None),
            // What was prepared goes on without its schedule.
            Lookup::Absent => {
                let prepared = known.iter().filter(|job| !attempts(job).is_empty());
                (prepared.filter_map(|job| job.metadata.uid.clone()).collect(), None)
            }
            Lookup::Found(schedule) => self.started(key, &schedule, permit),
        };
        let mut state = self.state.lock();
        let before = state.started.remove(key).unwrap_or_default();
        let uid = |job: &ReportJob| job.metadata.uid.clone().unwrap_or_default();
        let changed: Vec<&Arc<ReportJob>> = known
            .iter()
            .filter(|job| before.contains(&uid(job)) != may_start.contains(&uid(job)))
            .collect();
        if !may_start.is_empty() {
            state.started.insert(key.clone(), may_start);
        }
        for job in &changed {
            state.follow(&ObjectKey::of(&job.metadata), job);
        }
        drop(state);
        for job in changed.into_iter().filter(|job| !is_terminal(job)) {
            self.queue.add(Key::Queue(queue_key(job)));
            self.queue.add(Key::Job(ObjectKey::of(&job.metadata)));
        }
        next
    }

    fn started(
        &self,
        key: &ObjectKey,
        schedule: &ReportSchedule,
        permit: &Permit,
    ) -> (BTreeSet<String>, Option<Timestamp>) {
        // A write of an earlier term could still change it, or its claims are of an earlier life.
        let sealed = schedule.fence() == Some(&permit.term().fence());
        if !sealed || needs_takeover(schedule) {
            return (BTreeSet::new(), None);
        }
        let now = self.deps.wall.now();
        let (uids, next) = started(schedule, now);
        let mut uids: BTreeSet<String> = uids.into_iter().collect();
        if (self.deps.may_create)().is_err() {
            // Whether a delay is over cannot be told.
            let state = self.state.lock();
            let known = state.started.get(key);
            let all = uids.len();
            uids.retain(|uid| known.is_some_and(|known| known.contains(uid)));
            let again = (uids.len() < all).then(|| now.checked_add(CLOCK_RECHECK).ok()).flatten();
            return (uids, again);
        }
        (uids, next)
    }

    /// How a job stands with the schedule that made it, if one did.
    pub(super) async fn claimed(
        &self,
        report: &ReportJob,
        permit: &Permit,
    ) -> Result<Claimed, PassError> {
        let (Some(key), Some(instant)) = (schedule_key(report), report.instant()) else {
            return Ok(Claimed::Started);
        };
        let fence = permit.term().fence();
        let judge = |schedule: &ReportSchedule| match standing(schedule, report, instant, &fence) {
            // One that is to be taken over keeps of its claims what it finds prepared.
            _ if needs_takeover(schedule) => Claimed::Undecided,
            Standing::Started { not_before, .. } if not_before <= self.deps.wall.now() => {
                Claimed::Started
            }
            Standing::Started { .. }
            | Standing::Undecided
            | Standing::Waiting
            | Standing::Unclaimed => Claimed::Undecided,
            Standing::Ghost { .. } => Claimed::Ghost,
        };
        match self.schedules.lookup(&key) {
            Lookup::Unreadable(_) => return Ok(Claimed::LeftAlone),
            Lookup::Found(schedule)
                if self
                    .deps
                    .quarantine
                    .contains(schedule.metadata.uid.as_deref().unwrap_or_default()) =>
            {
                return Ok(Claimed::LeftAlone);
            }
            Lookup::Found(schedule) => match judge(&schedule) {
                Claimed::Ghost => {} // judged on a live read only
                found => {
                    if found == Claimed::Undecided {
                        self.queue.add(Key::Schedule(key));
                    }
                    return Ok(found);
                }
            },
            Lookup::Absent => {}
        }
        let live: Option<ReportSchedule> =
            self.deps.reader.get(&key).await.map_err(PassError::Read)?;
        let Some(live) = live else {
            let prepared = !attempts(report).is_empty();
            return Ok(if prepared { Claimed::Started } else { Claimed::ScheduleGone });
        };
        let found = judge(&live);
        self.schedules.observe(live);
        if found == Claimed::Undecided {
            self.queue.add(Key::Schedule(key));
        }
        Ok(found)
    }
}

impl Manner<ReportSchedule> for Controller {
    fn works_of(&self, schedule: &ObjectKey) -> Vec<Arc<ReportJob>> {
        let names = self.state.lock().of_schedule.get(schedule).cloned().unwrap_or_default();
        let found = names
            .into_iter()
            .filter_map(|name| self.jobs.get(&ObjectKey::new(&schedule.namespace, name)));
        found.filter(|job| schedule_key(job).as_ref() == Some(schedule)).collect()
    }

    /// As many as may wait in the queue, and one more if none of the schedule waits. Where there is
    /// no such queue, only that one.
    fn room(&self, schedule: &ReportSchedule, works: &BTreeMap<IntendedTime, ReportJob>) -> usize {
        let template = &schedule.spec.job_template.spec;
        let namespace = schedule.metadata.namespace.as_deref().unwrap_or_default();
        let key = ObjectKey::new(namespace, &template.queue_name);
        let queue = self.queues.get(&key);
        let now = self.deps.wall.now();
        let state = self.state.lock();
        let claimed = schedule.status().map(|status| status.claimed.as_slice()).unwrap_or_default();
        let one_waits = claimed.iter().any(|claim| {
            works.get(&claim.time).is_some_and(|job| {
                job.metadata.uid.as_ref() == Some(&claim.uid)
                    && waiting_job(job).is_some()
                    && !state.books.get(&queue_key(job)).is_some_and(|b| b.holds_slot(&claim.uid))
            })
        });
        let paused = state.terms.get(&key).is_some_and(|term| !term.unaccounted.is_empty());
        let (rules, used) = match &queue {
            Some(queue) => (spec::rules(&queue.spec, paused, now), entries(queue).len()),
            None => (Rules { queued: 0, queued_per_tenant: 0, ..Rules::default() }, usize::MAX),
        };
        let empty = crate::reports::queue::Book::default();
        let book = state.books.get(&key).unwrap_or(&empty);
        limits::room_for_instants(book.waiting(), &rules, used, &template.tenant, one_waits)
    }

    fn first_run(
        &self,
        schedule: &ReportSchedule,
        at: IntendedTime,
        permit: &Permit,
    ) -> Result<RunRequest, Acceptance> {
        let mut report = schedule.new_work(at);
        // The job does not exist, so the schedule's uid stands for its.
        report.metadata.uid.clone_from(&schedule.metadata.uid);
        let template =
            self.queues.get(&queue_key(&report)).and_then(|q| q.spec.run_template.clone());
        let run = job::wanted_run(&report, template.as_ref()).map_err(|why| match why {
            // The queue may get one any time.
            NoRun::Absent => Acceptance::NotYet { message: why.to_string() },
            NoRun::TooManyParameters => Acceptance::Refused { message: why.to_string() },
        })?;
        let of = AttemptOf {
            work: &job::work(&report, template.as_ref()),
            attempt: 1,
            class: run.report_class(),
            run,
            intended_time: Some(at),
        };
        let mut request = hands::request(hands::parent(&report), of, permit);
        let (name, tenant) = (report.spec.queue_name.clone(), report.spec.tenant.clone());
        request.queue = Some(OfQueue { name, tenant });
        Ok(request)
    }

    fn look_at(&self, work: ObjectKey) {
        self.queue.add(Key::Job(work));
    }
}

impl State {
    /// A job came or changed.
    pub(super) fn follow(&mut self, key: &ObjectKey, job: &ReportJob) {
        if let Some(schedule) = schedule_key(job) {
            self.of_schedule.entry(schedule).or_default().insert(key.name.clone());
        }
        let may_start = self.may_start(job);
        let book = self.books.entry(queue_key(job)).or_default();
        book.follow(&key.name, Some(job).filter(|_| may_start));
    }

    /// A job went.
    pub(super) fn forget(&mut self, key: &ObjectKey, old: &ReportJob) {
        self.books.entry(queue_key(old)).or_default().follow(&key.name, None);
        let Some(schedule) = schedule_key(old) else { return };
        if let Some(names) = self.of_schedule.get_mut(&schedule) {
            names.remove(&key.name);
            if names.is_empty() {
                self.of_schedule.remove(&schedule);
            }
        }
    }

    /// Whether the job may stand in the book of its queue.
    fn may_start(&self, job: &ReportJob) -> bool {
        let Some(schedule) = schedule_key(job) else { return true };
        let started = self.started.get(&schedule);
        started.is_some_and(|uids| job.metadata.uid.as_ref().is_some_and(|uid| uids.contains(uid)))
    }
}

/// The schedule that made a job.
pub(super) fn schedule_key(job: &ReportJob) -> Option<ObjectKey> {
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    Some(ObjectKey::new(namespace, job.spec.schedule_name.as_ref()?))
}
