//! One pass over a schedule.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::api::PropagationPolicy;

use super::{Controller, Key};
use crate::{
    api::{Claim, MaintenanceOccurrence, MaintenanceSchedule, OccurrenceState},
    authority::{Fenced as _, Permit, Sealed},
    cluster::{ApiError, Created, Lookup, ObjectKey, WriteError},
    identity::occurrence_name,
    maintenance::{
        Note,
        schedule::{self, Plan, Refusal, Snapshot, TakenOver},
    },
    providers::Orphans,
    reconcile::{MAX_ROUNDS, PassError},
    retry,
    time::IntendedTime,
};

/// Kind, for reports.
const KIND: &str = "MaintenanceSchedule";

/// The API server refused to create occurrences of a schedule.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    tries: u32,
    instants: BTreeMap<IntendedTime, Refusal>,
}

impl Controller {
    pub(super) async fn pass_schedule(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Timestamp>, PassError> {
        let permit = self.deps.permit()?;
        let schedule = match self.schedules.lookup(key) {
            Lookup::Found(schedule) => schedule,
            Lookup::Unreadable(error) => {
                // Its occurrences must not be taken for those of a deleted schedule.
                tracing::warn!(%key, %error, "schedule cannot be read; nothing of it is decided");
                return Ok(None);
            }
            Lookup::Absent => {
                self.memory().refused.remove(key);
                self.look_at_records_of(key);
                return Ok(None);
            }
        };
        if !self.deps.may_write(&permit, KIND, &schedule.metadata, schedule.fence()).await? {
            return Ok(None);
        }
        // Observe.
        let mut snapshot = self.observe_schedule(key, &schedule, &permit);
        if schedule::needs_takeover(&schedule) {
            snapshot.taken_over = Some(self.take_over(key, &mut snapshot, &permit).await?);
        }
        for _ in 0..MAX_ROUNDS {
            // Decide.
            let plan = schedule::decide(&snapshot, self.deps.wall.now());
            // Act.
            if !plan.create.is_empty() {
                self.create_occurrences(key, &plan, &mut snapshot, &permit).await?;
            } else if self.probe(key, &plan, &mut snapshot).await? {
                // The claims look different now.
            } else if plan.ask_acceptance {
                snapshot.acceptance = Some(self.ask_acceptance(&schedule, &permit).await?);
            } else {
                return self.record(key, plan, &snapshot, &permit).await;
            }
        }
        Err(PassError::Restless)
    }

    fn observe_schedule(
        &self,
        key: &ObjectKey,
        schedule: &MaintenanceSchedule,
        permit: &Permit,
    ) -> Snapshot {
        let occurrences = self
            .occurrences
            .by_index(&index_key(key))
            .into_iter()
            .map(|o| (o.spec.intended_time, o.as_ref().clone()))
            .collect();
        let now = self.deps.wall.now();
        // A refusal is remembered until it is tried again.
        let refused = self.memory().refused.get(key).map(|refused| {
            refused
                .instants
                .iter()
                .filter(|(_, r)| r.retry_at > now)
                .map(|(at, r)| (*at, r.clone()))
                .collect()
        });
        Snapshot {
            schedule: schedule.clone(),
            occurrences,
            taken_over: None,
            refused: refused.unwrap_or_default(),
            over: BTreeSet::new(),
            fence: permit.term().fence(),
            may_create: (self.deps.may_create)(),
            acceptance: None,
        }
    }

    /// A new, re-created or restored schedule: every non-terminal occurrence of its name is read
    /// live and sealed before the schedule is, so that no earlier term can start one any more.
    async fn take_over(
        &self,
        key: &ObjectKey,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<TakenOver, PassError> {
        let fields = format!("spec.scheduleName={}", key.name);
        let listed = self
            .deps
            .reader
            .list_fields::<MaintenanceOccurrence>(&key.namespace, &fields)
            .await
            .map_err(PassError::Read)?;
        if let Some(unreadable) = listed.unreadable.first() {
            // It cannot be sealed, so an earlier term might still start it.
            return Err(PassError::Unreadable(unreadable.key.clone()));
        }
        let fenced_through =
            listed.items.iter().filter(|o| o.fence().is_some()).map(|o| o.spec.intended_time).max();
        snapshot.occurrences.clear();
        for occurrence in listed.items {
            let instant = occurrence.spec.intended_time;
            let sealed = if schedule::is_terminal(&occurrence) {
                occurrence
            } else {
                self.seal_occurrence(occurrence, permit).await?.into_inner()
            };
            self.occurrences.observe(sealed.clone());
            snapshot.occurrences.insert(instant, sealed);
        }
        Ok(TakenOver { fenced_through })
    }

    async fn seal_occurrence(
        &self,
        occurrence: MaintenanceOccurrence,
        permit: &Permit,
    ) -> Result<Sealed<MaintenanceOccurrence>, PassError> {
        let occurrence = match Sealed::of(permit, occurrence) {
            Ok(sealed) => return Ok(sealed),
            Err(occurrence) => occurrence,
        };
        let mut next = occurrence.clone();
        next.status.get_or_insert_default().state.get_or_insert(OccurrenceState::Pending);
        self.deps.writer.write_status(permit, &occurrence, next).await.map_err(PassError::from)
    }

    /// Creates what the plan wants, inert, and puts the answers into the snapshot.
    async fn create_occurrences(
        &self,
        key: &ObjectKey,
        plan: &Plan,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        for occurrence in &plan.create {
            let instant = occurrence.spec.intended_time;
            match self.deps.writer.create(permit, occurrence).await {
                Ok(Created::New(created) | Created::Existing(created)) => {
                    self.occurrences.observe(created.clone());
                    snapshot.occurrences.insert(instant, created);
                    if let Some(refused) = self.memory().refused.get_mut(key) {
                        refused.instants.remove(&instant);
                    }
                }
                Err(WriteError::Api(error)) if refused(&error) => {
                    let refusal = self.remember_refusal(key, instant, error.to_string());
                    snapshot.refused.insert(instant, refusal);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn remember_refusal(&self, key: &ObjectKey, instant: IntendedTime, message: String) -> Refusal {
        let now = self.deps.wall.now();
        let mut memory = self.memory();
        let refused = memory
            .refused
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

    /// Looks after claimed uids whose object is not known. Says whether the snapshot changed.
    async fn probe(
        &self,
        key: &ObjectKey,
        plan: &Plan,
        snapshot: &mut Snapshot,
    ) -> Result<bool, PassError> {
        let mut changed = false;
        for claim in &plan.probe {
            if snapshot.over.contains(&claim.uid) {
                continue;
            }
            changed |= self.probe_claim(key, claim, snapshot).await?;
        }
        Ok(changed)
    }

    async fn probe_claim(
        &self,
        key: &ObjectKey,
        claim: &Claim,
        snapshot: &mut Snapshot,
    ) -> Result<bool, PassError> {
        let name = ObjectKey::new(&key.namespace, occurrence_name(&key.name, claim.time));
        let live: Option<MaintenanceOccurrence> =
            self.deps.reader.get(&name).await.map_err(PassError::Read)?;
        if let Some(found) = live {
            let same = found.metadata.uid.as_deref() == Some(&claim.uid);
            self.occurrences.observe(found.clone());
            if same {
                let known = snapshot.occurrences.insert(claim.time, found);
                return Ok(known.is_none_or(|k| k.metadata.uid.as_deref() != Some(&claim.uid)));
            }
        }
        let permit = self.deps.permit()?;
        let class = Some(claim.action_class);
        let stopped =
            self.departures.stop(&self.deps, &permit, &key.namespace, &claim.uid, class).await;
        match stopped {
            Ok(Orphans::Over) => {
                snapshot.over.insert(claim.uid.clone());
                Ok(true)
            }
            Ok(Orphans::NotYet { message }) => {
                tracing::debug!(%key, uid = claim.uid, message, "a deleted occurrence's runs are not over");
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
        plan: Plan,
        snapshot: &Snapshot,
        permit: &Permit,
    ) -> Result<Option<Timestamp>, PassError> {
        let uid = snapshot.schedule.metadata.uid.as_deref();
        if let Some(status) = plan.status {
            let mut next = snapshot.schedule.clone();
            next.status = Some(status);
            match self.deps.writer.write_status(permit, &snapshot.schedule, next).await {
                Ok(sealed) => self.schedules.observe(sealed.into_inner()),
                Err(error) => {
                    self.refresh_schedule(key).await;
                    return Err(error.into());
                }
            }
            self.deps.note(KIND, key, uid, &plan.notes);
            self.look_at_occurrences_of(key);
        }
        for record in &plan.prune {
            self.prune(record, "removed by the retention of its schedule", permit).await?;
        }
        Ok(plan.wake_at)
    }

    /// After a refused write: what is there now decides, not what the cache remembers.
    async fn refresh_schedule(&self, key: &ObjectKey) {
        if let Ok(Some(live)) = self.deps.reader.get::<MaintenanceSchedule>(key).await {
            self.schedules.observe(live);
        }
    }

    /// Removes a record, at exactly the version that was judged.
    pub(super) async fn prune(
        &self,
        record: &MaintenanceOccurrence,
        why: &str,
        permit: &Permit,
    ) -> Result<(), PassError> {
        let key = ObjectKey::of(&record.metadata);
        match self.deps.writer.delete(permit, record, PropagationPolicy::Background).await {
            Ok(_) => {
                let note = Note::normal("RecordPruned", why);
                self.deps.note(
                    "MaintenanceOccurrence",
                    &key,
                    record.metadata.uid.as_deref(),
                    &[note],
                );
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The occurrences of a schedule that are not over get another look.
    pub(super) fn look_at_occurrences_of(&self, key: &ObjectKey) {
        for occurrence in self.occurrences.by_index(&index_key(key)) {
            if !schedule::is_terminal(&occurrence) {
                self.queue.add(Key::Occurrence(ObjectKey::of(&occurrence.metadata)));
            }
        }
    }

    /// The schedule is gone: its records get another look too, from now on they look after themselves.
    fn look_at_records_of(&self, key: &ObjectKey) {
        for occurrence in self.occurrences.by_index(&index_key(key)) {
            self.queue.add(Key::Occurrence(ObjectKey::of(&occurrence.metadata)));
        }
    }
}

/// Whether the API server says no for a reason that a person can remove (quota, a namespace that
/// ends, a rule), so that the creation is tried again with patience.
fn refused(error: &ApiError) -> bool {
    matches!(error, ApiError::Forbidden { .. } | ApiError::Invalid { .. } | ApiError::NotFound)
}

/// Second key of an occurrence in its cache: the schedule it belongs to.
pub(super) fn index_key(schedule: &ObjectKey) -> String {
    schedule.to_string()
}
