//! The hands of a schedule, whatever its kind: one pass over it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use kube::{Resource as _, api::PropagationPolicy};

use super::{Kind, Plan, Refusal, Snapshot, TakenOver, Work, decide, needs_takeover};
use crate::{
    api::Claim,
    authority::{Fenced, NotLeading, Permit, Sealed},
    cluster::{ApiError, Cache, Created, Lookup, Object, ObjectKey, WriteError, kind_of},
    identity::occurrence_name,
    providers::{Acceptance, Orphans, ProviderError, RunRequest},
    reconcile::{Asking, Departures, Deps, MAX_ROUNDS, PassError, Promised},
    retry,
    runs::Note,
    time::IntendedTime,
};

/// Schedules whose work the API server refused to create; may be forgotten at any time.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<ObjectKey, Refused>>);

/// The API server refused to create work of a schedule.
#[derive(Clone, Debug)]
struct Refused {
    tries: u32,
    instants: BTreeMap<IntendedTime, Refusal>,
}

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Refused>> {
        // A poisoned lock still holds a usable memory: whatever is missing is learnt again.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is not to be tried again yet.
    fn pending(&self, key: &ObjectKey, now: Timestamp) -> BTreeMap<IntendedTime, Refusal> {
        let refused = self.lock();
        let instants = refused.get(key).into_iter().flat_map(|refused| &refused.instants);
        instants.filter(|(_, r)| r.retry_at > now).map(|(at, r)| (*at, r.clone())).collect()
    }

    fn remember(
        &self,
        key: &ObjectKey,
        instant: IntendedTime,
        message: String,
        now: Timestamp,
    ) -> Refusal {
        let mut memory = self.lock();
        let refused = memory
            .entry(key.clone())
            .or_insert_with(|| Refused { tries: 0, instants: BTreeMap::new() });
        refused.tries += 1;
        let delay = retry::delay(&retry::RECONCILE, &key.to_string(), refused.tries);
        let retry_at = now
            .checked_add(SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO))
            .unwrap_or(now);
        let refusal = Refusal { message, retry_at };
        // Only what the present plan wants matters: at most one batch is remembered.
        refused.instants.retain(|_, r| r.retry_at > now);
        refused.instants.insert(instant, refusal.clone());
        refusal
    }
}

/// What differs by kind; the controller of the kind implements it.
pub trait Manner<S: Kind>: Send + Sync {
    /// All work of a schedule that is known.
    fn works_of(&self, schedule: &ObjectKey) -> Vec<Arc<S::Work>>;
    /// For how many more instants there is room.
    fn room(&self, schedule: &S, works: &BTreeMap<IntendedTime, S::Work>) -> usize;
    /// The first run of an instant, as it would be prepared, or the answer that needs no provider.
    fn first_run(
        &self,
        schedule: &S,
        at: IntendedTime,
        permit: &Permit,
    ) -> Result<RunRequest, Acceptance>;
    /// The work gets another look.
    fn look_at(&self, work: ObjectKey);
}

/// One pair of hands, for one pass.
pub struct Hands<'a, S: Kind> {
    /// What controllers work with.
    pub deps: &'a Deps,
    /// The schedules.
    pub schedules: &'a Cache<S>,
    /// Their work.
    pub works: &'a Cache<S::Work>,
    /// What deleted work recorded.
    pub departures: &'a Departures,
    /// What the API server refused.
    pub refusals: &'a Refusals,
    /// What differs by kind.
    pub manner: &'a dyn Manner<S>,
}

impl<S> Hands<'_, S>
where
    S: Kind<Work: Object + Fenced> + Object + Fenced,
{
    /// Decides what the schedule does next and does it. Gives the moment of the next look.
    pub async fn pass(&self, key: &ObjectKey) -> Result<Option<Timestamp>, PassError> {
        let permit = self.deps.permit()?;
        let schedule = match self.schedules.lookup(key) {
            Lookup::Found(schedule) => schedule,
            Lookup::Unreadable(error) => {
                // Its work must not be taken for that of a deleted schedule.
                tracing::warn!(%key, %error, "schedule cannot be read; nothing of it is decided");
                return Ok(None);
            }
            Lookup::Absent => {
                self.refusals.lock().remove(key);
                // Its records get another look too, from now on they look after themselves.
                for work in self.manner.works_of(key) {
                    self.manner.look_at(ObjectKey::of(work.meta()));
                }
                return Ok(None);
            }
        };
        let may_write =
            self.deps.may_write(&permit, kind_of::<S>(), schedule.meta(), schedule.fence());
        if !may_write.await? {
            return Ok(None);
        }
        // Observe.
        let mut snapshot = self.observe(key, &schedule, &permit);
        if needs_takeover(&*schedule) {
            snapshot.taken_over = Some(self.take_over(key, &mut snapshot, &permit).await?);
        }
        snapshot.room = self.manner.room(&schedule, &snapshot.works);
        let asking = Asking::begin();
        for _ in 0..MAX_ROUNDS {
            // Decide.
            let plan = decide(&snapshot, self.deps.wall.now());
            // Act.
            if !plan.create.is_empty() {
                self.create(key, &plan, &mut snapshot, &permit).await?;
            } else if self.probe(key, &plan, &mut snapshot, asking).await? {
                // The claims look different now.
            } else if plan.ask_acceptance {
                snapshot.acceptance = Some(self.ask_acceptance(&schedule, &permit).await?);
            } else {
                return self.record(key, plan, &snapshot, &permit).await;
            }
        }
        Err(PassError::Restless)
    }

    fn observe(&self, key: &ObjectKey, schedule: &S, permit: &Permit) -> Snapshot<S> {
        let works = self.manner.works_of(key).into_iter();
        let works = works.filter_map(|work| Some((work.instant()?, work.as_ref().clone())));
        Snapshot {
            schedule: schedule.clone(),
            works: works.collect(),
            taken_over: None,
            // A refusal is remembered until it is tried again.
            refused: self.refusals.pending(key, self.deps.wall.now()),
            over: BTreeSet::new(),
            room: 0,
            fence: permit.term().fence(),
            may_create: (self.deps.may_create)(),
            acceptance: None,
        }
    }

    /// A new, re-created or restored schedule: all non-terminal work of its name is read live
    /// and sealed before the schedule is, so that no earlier term can start one any more.
    async fn take_over(
        &self,
        key: &ObjectKey,
        snapshot: &mut Snapshot<S>,
        permit: &Permit,
    ) -> Result<TakenOver, PassError> {
        self.deps.passes_ended().await;
        let fields = format!("spec.scheduleName={}", key.name);
        let listed = self
            .deps
            .reader
            .list_fields::<S::Work>(&key.namespace, &fields)
            .await
            .map_err(PassError::Read)?;
        if let Some(unreadable) = listed.unreadable.first() {
            // It cannot be sealed, so an earlier term might still start it.
            return Err(PassError::Unreadable(unreadable.key.clone()));
        }
        let mut fenced_through = None;
        snapshot.works.clear();
        for work in listed.items {
            let Some(instant) = work.instant() else { continue };
            if work.fence().is_some() {
                fenced_through = fenced_through.max(Some(instant));
            }
            let sealed = if work.is_terminal() {
                work
            } else {
                seal(self.deps, work, permit).await?.into_inner()
            };
            self.works.observe(sealed.clone());
            snapshot.works.insert(instant, sealed);
        }
        Ok(TakenOver { fenced_through })
    }

    /// Creates what the plan wants, inert, and puts the answers into the snapshot.
    async fn create(
        &self,
        key: &ObjectKey,
        plan: &Plan<S::Work>,
        snapshot: &mut Snapshot<S>,
        permit: &Permit,
    ) -> Result<(), PassError> {
        for (instant, work) in &plan.create {
            let answer = self.deps.writer.create(permit, work).await;
            if matches!(answer, Ok(Created::New(_))) {
                self.deps.created(instant.timestamp());
            }
            match answer {
                Ok(Created::New(created) | Created::Existing(created)) => {
                    self.works.observe(created.clone());
                    snapshot.works.insert(*instant, created);
                    if let Some(refused) = self.refusals.lock().get_mut(key) {
                        refused.instants.remove(instant);
                    }
                }
                Err(WriteError::Api(error)) if refused(&error) => {
                    let now = self.deps.wall.now();
                    let refusal = self.refusals.remember(key, *instant, error.to_string(), now);
                    snapshot.refused.insert(*instant, refusal);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Looks after claimed uids whose object is not known, for a bounded time. Says whether the snapshot
    /// changed.
    async fn probe(
        &self,
        key: &ObjectKey,
        plan: &Plan<S::Work>,
        snapshot: &mut Snapshot<S>,
        asking: Asking,
    ) -> Result<bool, PassError> {
        let mut changed = false;
        for claim in self.departures.in_turn(key, &plan.probe, |claim| &claim.uid) {
            if snapshot.over.contains(&claim.uid) {
                continue;
            }
            if !self.departures.goes_on(key, asking, &claim.uid) {
                return Ok(changed);
            }
            changed |= self.probe_claim(key, claim, snapshot).await?;
        }
        self.departures.all_asked(key);
        Ok(changed)
    }

    async fn probe_claim(
        &self,
        key: &ObjectKey,
        claim: &Claim,
        snapshot: &mut Snapshot<S>,
    ) -> Result<bool, PassError> {
        let name = ObjectKey::new(&key.namespace, occurrence_name(&key.name, claim.time));
        let live: Option<S::Work> = self.deps.reader.get(&name).await.map_err(PassError::Read)?;
        if let Some(found) = live {
            let same = found.meta().uid.as_deref() == Some(&claim.uid);
            self.works.observe(found.clone());
            if same {
                let known = snapshot.works.insert(claim.time, found);
                return Ok(known.is_none_or(|k| k.meta().uid.as_deref() != Some(&claim.uid)));
            }
        }
        let permit = self.deps.permit()?;
        let promised = Promised {
            class: claim.action_class,
            run_key: &claim.run_key,
            http: claim.http.as_ref(),
        };
        let (namespace, uid) = (&key.namespace, &claim.uid);
        let stopped =
            self.departures.stop(self.deps, &permit, namespace, uid, Some(promised)).await;
        match stopped {
            Ok(Orphans::Over) => {
                snapshot.over.insert(claim.uid.clone());
                Ok(true)
            }
            Ok(Orphans::NotYet { message }) => {
                tracing::debug!(%key, uid = claim.uid, message, "the runs of deleted work are not over");
                Ok(false)
            }
            Err(error) => {
                tracing::debug!(%key, uid = claim.uid, %error, "cannot tell whether runs are over");
                Ok(false)
            }
        }
    }

    /// Writes the decision, then removes surplus records.
    async fn record(
        &self,
        key: &ObjectKey,
        plan: Plan<S::Work>,
        snapshot: &Snapshot<S>,
        permit: &Permit,
    ) -> Result<Option<Timestamp>, PassError> {
        let uid = snapshot.schedule.meta().uid.as_deref();
        if let Some(status) = plan.status {
            let mut next = snapshot.schedule.clone();
            next.set_status(status);
            self.deps.write_status(permit, self.schedules, &snapshot.schedule, next).await?;
            self.deps.note(kind_of::<S>(), key, uid, &plan.notes);
            self.look_at_open_work(key);
        }
        for record in &plan.prune {
            prune(self.deps, record, "removed by the retention of its schedule", permit).await?;
        }
        Ok(plan.wake_at)
    }

    /// The work of a schedule that is not over gets another look.
    fn look_at_open_work(&self, key: &ObjectKey) {
        for work in self.manner.works_of(key) {
            if !work.is_terminal() {
                self.manner.look_at(ObjectKey::of(work.meta()));
            }
        }
    }

    /// Asks the provider whether it would accept the run. Nothing is created. A provider that gives
    /// no answer is asked again later.
    async fn ask_acceptance(&self, schedule: &S, permit: &Permit) -> Result<Acceptance, PassError> {
        let at = IntendedTime::floor(self.deps.wall.now());
        let request = match self.manner.first_run(schedule, at, permit) {
            Ok(request) => request,
            Err(answer) => return Ok(answer),
        };
        match self.deps.providers.accept(&request).await {
            Ok(answer) => Ok(answer),
            Err(ProviderError::NotLeading) => Err(NotLeading.into()),
            Err(error) => Ok(Acceptance::NotYet { message: error.to_string() }),
        }
    }
}

/// The work as this term owns it.
pub async fn seal<W>(deps: &Deps, work: W, permit: &Permit) -> Result<Sealed<W>, PassError>
where
    W: Work + Object + Fenced,
{
    let work = match Sealed::of(permit, work) {
        Ok(sealed) => return Ok(sealed),
        Err(work) => work,
    };
    let mut next = work.clone();
    next.begin_status();
    deps.writer.write_status(permit, &work, next).await.map_err(PassError::from)
}

/// Removes a record, at exactly the version that was judged.
pub async fn prune<W>(deps: &Deps, record: &W, why: &str, permit: &Permit) -> Result<(), PassError>
where
    W: Object + Fenced,
{
    let key = ObjectKey::of(record.meta());
    deps.writer.delete(permit, record, PropagationPolicy::Background).await?;
    let note = Note::normal("RecordPruned", why);
    deps.note(kind_of::<W>(), &key, record.meta().uid.as_deref(), &[note]);
    Ok(())
}

/// Whether the API server says no for a reason that a person can remove (quota, a namespace that
/// ends, a rule), so that the creation is tried again with patience.
fn refused(error: &ApiError) -> bool {
    matches!(error, ApiError::Forbidden { .. } | ApiError::Invalid { .. } | ApiError::NotFound)
}
