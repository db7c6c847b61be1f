//! One pass over an occurrence.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::{Controller, Key};
use crate::{
    api::{MaintenanceOccurrence, MaintenanceOccurrenceStatus, MaintenanceSchedule, RunSpec},
    authority::{Fenced as _, NotLeading, Permit, Sealed},
    cluster::{Lookup, ObjectKey},
    maintenance::{
        Note,
        occurrence::{self, Decision, Snapshot, Standing, Step, standing::standing},
        retention::orphan_until,
        schedule::is_terminal,
    },
    providers::{Committed, RunRequest},
    reconcile::{MAX_ROUNDS, PassError},
    runs::{
        Heard,
        hands::{self, AttemptOf, Hands},
    },
    schedules::{Work, hands::prune},
};

/// When a record is looked at again that is old by a clock that is not trusted.
const WRONG_CLOCK_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// Kind, for reports and owner references.
pub(super) const KIND: &str = "MaintenanceOccurrence";

impl Controller {
    pub(super) async fn pass_occurrence(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Timestamp>, PassError> {
        let _pass = self.deps.pass().await;
        let permit = self.deps.permit()?;
        let occurrence = match self.occurrences.lookup(key) {
            Lookup::Found(occurrence) => occurrence,
            Lookup::Unreadable(error) => {
                tracing::warn!(%key, %error, "occurrence cannot be read; nothing of it is decided");
                return Ok(None);
            }
            Lookup::Absent => {
                self.memory().runs.forget(key);
                return Ok(None);
            }
        };
        if occurrence.metadata.deletion_timestamp.is_some() {
            self.queue.add(orphan_key(&occurrence));
            return Ok(None);
        }
        if !self.deps.may_write(&permit, KIND, &occurrence.metadata, occurrence.fence()).await? {
            let uid = occurrence.metadata.uid.as_deref();
            self.deps.recovery.left_alone(uid, "ForeignFence", "it carries a foreign fence");
            return Ok(None);
        }
        // Observe.
        let (standing, schedule) = self.observe_standing(key, &occurrence, &permit).await?;
        let schedule_run = schedule.as_ref().map(|s| s.spec.run.clone());
        // The right to prepare: the schedule, sealed in this term, whose claim starts it.
        let schedule = schedule.and_then(|s| Sealed::of(&permit, s.as_ref().clone()).ok());
        let mut snapshot = Snapshot {
            occurrence: occurrence.as_ref().clone(),
            standing,
            schedule_run,
            heard: Heard::default(),
            told: self.memory().runs.told(key),
            trust_clock: (self.deps.may_create)().is_ok(),
            fence: permit.term().fence(),
        };
        for _ in 0..MAX_ROUNDS {
            // Decide.
            let decision = occurrence::decide(&snapshot, self.deps.wall.now());
            let Decision { step, wake_at, notes } = decision;
            // Act.
            if step == Step::Wait {
                self.deps.recovery.rested(&snapshot.occurrence);
                self.note_occurrence(key, &mut snapshot, &notes);
                if is_terminal(&snapshot.occurrence) {
                    return self.pass_record(key, &snapshot.occurrence, &permit).await;
                }
                return Ok(wake_at);
            }
            // Boxed, because the state of whatever a provider does is large.
            Box::pin(self.take_step(key, step, &mut snapshot, schedule.as_ref(), &permit)).await?;
            self.note_occurrence(key, &mut snapshot, &notes);
        }
        Err(PassError::Restless)
    }

    /// Tells people; what is ignored in the spec is told once for each change of it.
    fn note_occurrence(&self, key: &ObjectKey, snapshot: &mut Snapshot, notes: &[Note]) {
        let meta = &snapshot.occurrence.metadata;
        self.deps.note(KIND, key, meta.uid.as_deref(), notes);
        if let Some(generation) = meta.generation
            && notes.iter().any(occurrence::is_about_ignored)
        {
            snapshot.told = Some(generation);
            self.memory().runs.tell(key, generation);
        }
    }

    /// A record whose schedule is gone is removed after a time. Gives the moment of the next look.
    async fn pass_record(
        &self,
        key: &ObjectKey,
        record: &MaintenanceOccurrence,
        permit: &Permit,
    ) -> Result<Option<Timestamp>, PassError> {
        let schedule = ObjectKey::new(&key.namespace, &record.spec.schedule_name);
        let until = orphan_until(record, self.deps.orphan_retention);
        let (Lookup::Absent, Some(until)) = (self.schedules.lookup(&schedule), until) else {
            return Ok(None); // its schedule looks after it
        };
        let now = self.deps.wall.now();
        if now < until {
            return Ok(Some(until));
        }
        if (self.deps.may_create)().is_err() {
            return Ok(now.checked_add(WRONG_CLOCK_INTERVAL).ok());
        }
        let live: Option<MaintenanceSchedule> =
            self.deps.reader.get(&schedule).await.map_err(PassError::Read)?;
        if live.is_none() {
            let why = "its schedule is gone, and it was kept for --orphan-retention";
            prune(&self.deps, record, why, permit).await?;
        }
        Ok(None)
    }

    /// The standing with the schedule, and what the schedule runs.
    async fn observe_standing(
        &self,
        key: &ObjectKey,
        occurrence: &MaintenanceOccurrence,
        permit: &Permit,
    ) -> Result<(Standing, Option<Arc<MaintenanceSchedule>>), PassError> {
        if is_terminal(occurrence) {
            return Ok((Standing::Undecided, None));
        }
        let schedule_key = ObjectKey::new(&key.namespace, &occurrence.spec.schedule_name);
        let fence = permit.term().fence();
        if let Lookup::Unreadable(_) = self.schedules.lookup(&schedule_key) {
            return Ok((Standing::Undecided, None));
        }
        if let Some(schedule) = self.schedules.get(&schedule_key) {
            match standing(&schedule, occurrence, &fence) {
                Standing::Ghost { .. } => {} // judged on a live read only
                Standing::Undecided => {
                    self.queue.add(Key::Schedule(schedule_key));
                    return Ok((Standing::Undecided, None));
                }
                found => return Ok((found, Some(schedule))),
            }
        }
        let live: Option<MaintenanceSchedule> =
            self.deps.reader.get(&schedule_key).await.map_err(PassError::Read)?;
        let Some(live) = live else { return Ok((Standing::ScheduleGone, None)) };
        let found = standing(&live, occurrence, &fence);
        self.schedules.observe(live.clone());
        if found == Standing::Undecided {
            self.queue.add(Key::Schedule(schedule_key));
        }
        Ok((found, Some(Arc::new(live))))
    }

    async fn take_step(
        &self,
        key: &ObjectKey,
        step: Step,
        snapshot: &mut Snapshot,
        schedule: Option<&Sealed<MaintenanceSchedule>>,
        permit: &Permit,
    ) -> Result<(), PassError> {
        match step {
            Step::Wait => {}
            Step::Write(status) => self.write_occurrence(*status, snapshot, permit).await?,
            Step::Prepare { attempt, run } => {
                let request = run_request(&snapshot.occurrence, attempt, *run, permit);
                let hands = self.hands(permit);
                let answer = if let Some(schedule) = schedule {
                    hands.prepare(schedule, &request).await
                } else {
                    hands.prepare(&sealed(permit, &snapshot.occurrence)?, &request).await
                };
                snapshot.heard.prepared = Some(answer?);
            }
            Step::Withdraw { attempt, run } => {
                // Decided in an object of this term: the decision seals it first.
                sealed(permit, &snapshot.occurrence)?;
                let request = run_request(&snapshot.occurrence, attempt, *run, permit);
                snapshot.heard.withdrawn = Some(self.hands(permit).withdraw(&request).await?);
            }
            Step::Release { attempt } => self.release(attempt, snapshot, permit).await?,
            Step::Ask { attempt } => self.ask(key, attempt, snapshot, permit).await?,
            Step::Cancel { attempt, recorded } => {
                self.cancel(key, attempt, recorded, snapshot, permit).await?;
            }
        }
        Ok(())
    }

    fn hands<'a>(&'a self, permit: &'a Permit) -> Hands<'a> {
        Hands { providers: &self.deps.providers, recovery: &self.deps.recovery, permit }
    }

    async fn write_occurrence(
        &self,
        status: MaintenanceOccurrenceStatus,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        let mut next = snapshot.occurrence.clone();
        next.status = Some(status);
        let read = &snapshot.occurrence;
        let stored = self.deps.write_status(permit, &self.occurrences, read, next).await?;
        if is_terminal(&stored) {
            let uid = stored.metadata.uid.as_deref().unwrap_or_default();
            if self.deps.ended_with(uid, Work::attempts(&stored)) {
                self.queue.add(orphan_key(&stored));
            }
        }
        snapshot.go_on_with(stored);
        Ok(())
    }

    async fn cancel(
        &self,
        key: &ObjectKey,
        attempt: i32,
        recorded: bool,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        // The wish is recorded in an object of this term: the decision seals it first.
        sealed(permit, &snapshot.occurrence)?;
        let request = committed_request(&snapshot.occurrence, attempt, permit);
        let committed = committed(&snapshot.occurrence);
        self.hands(permit).cancel(key, &request, &committed, recorded).await?;
        snapshot.heard.cancelled = true;
        snapshot.heard.answer = None;
        Ok(())
    }

    async fn release(
        &self,
        attempt: i32,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        let sealed = sealed(permit, &snapshot.occurrence)?;
        let request = committed_request(&snapshot.occurrence, attempt, permit);
        let committed = committed(&snapshot.occurrence);
        let handle = committed.handle.unwrap_or_default();
        let answer = self.hands(permit).release(&sealed, &request, &handle).await?;
        if answer.is_ok() {
            let spec = &snapshot.occurrence.spec;
            // What a person made is late against nothing.
            let due = spec.schedule_uid.is_some().then(|| spec.intended_time.timestamp());
            self.deps.released(KIND, &snapshot.occurrence.metadata, attempt, due);
        }
        snapshot.heard.answer = Some(answer);
        Ok(())
    }

    async fn ask(
        &self,
        key: &ObjectKey,
        attempt: i32,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        let request = committed_request(&snapshot.occurrence, attempt, permit);
        let committed = committed(&snapshot.occurrence);
        let uid = snapshot.occurrence.metadata.uid.as_deref();
        let answer = self.hands(permit).ask(uid, &request, &committed).await?;
        let now = || self.deps.wall.now();
        snapshot.heard.unreachable_since = self.memory().runs.learn(key, &answer, now);
        snapshot.heard.answer = Some(answer);
        Ok(())
    }
}

/// The key under which the runs of a deleted occurrence are stopped.
pub(super) fn orphan_key(occurrence: &MaintenanceOccurrence) -> Key {
    Key::Orphan {
        namespace: occurrence.namespace().unwrap_or_default(),
        uid: occurrence.uid().unwrap_or_default(),
        name: occurrence.name_any(),
    }
}

/// The occurrence as this term owns it. The decision asks for the seal first, so this only fails if
/// leadership changed hands in between.
fn sealed(
    permit: &Permit,
    occurrence: &MaintenanceOccurrence,
) -> Result<Sealed<MaintenanceOccurrence>, PassError> {
    Sealed::of(permit, occurrence.clone()).map_err(|_| NotLeading.into())
}

/// What is recorded of the newest attempt.
fn committed(occurrence: &MaintenanceOccurrence) -> Committed {
    all_committed(occurrence).pop().unwrap_or_default()
}

/// What is recorded of all attempts, oldest first.
pub(super) fn all_committed(occurrence: &MaintenanceOccurrence) -> Vec<Committed> {
    occurrence.status.as_ref().map(|s| hands::committed(&s.attempts)).unwrap_or_default()
}

/// The request of a committed attempt: its run is the one that was sealed.
fn committed_request(
    occurrence: &MaintenanceOccurrence,
    attempt: i32,
    permit: &Permit,
) -> RunRequest {
    let run = occurrence.status.as_ref().and_then(|s| s.run.clone()).unwrap_or_default();
    run_request(occurrence, attempt, run, permit)
}

fn run_request(
    occurrence: &MaintenanceOccurrence,
    attempt: i32,
    run: RunSpec,
    permit: &Permit,
) -> RunRequest {
    let of = AttemptOf {
        work: &occurrence::work(occurrence),
        attempt,
        class: run.maintenance_class(),
        run,
        intended_time: Some(occurrence.spec.intended_time),
    };
    hands::request(hands::parent(occurrence), of, permit)
}
