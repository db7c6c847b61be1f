//! Keeps the record of a term: creates it when the term begins, completes it when every item is
//! accounted for, and removes the oldest records.
//!
//! Nothing waits for it. A record that cannot be written is said to be lost, and work goes on.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join;
use jiff::Timestamp;
use kube::api::{ObjectMeta, PropagationPolicy};
use tokio::time::{sleep, timeout};

use super::{
    classify::{AtRest, Found, Item, Judgement, Verdict, answered, orphaned, rested},
    trace::{Tally, Timing},
};
use crate::{
    api::{LeadershipGained, RecoveryClass, RecoveryTrace, RecoveryTraceSpec, TracePaused},
    authority::{Gained, Gate, Term},
    cluster::{ApiError, FencedWriter, ObjectKey, Reader, WriteError},
    providers::{Orphans, ProviderError, RunStatus},
    retry,
    telemetry::{EventQueue, Metrics, Note, NoteKind, ObjectRef},
    time::{LeaseClock, LeaseInstant, WallClock},
    watch,
};

/// How long nothing may be learnt of any item before the rest counts as uncertain: the time for
/// which a provider that gives no answer is asked.
pub const PATIENCE: Duration = crate::runs::UNREACHABLE_TIME;
/// Records that are kept: enough to see a pattern in a bad week, few enough to read.
pub const KEPT: usize = 20;
/// Most records removed in one term; more than one are left only if removing failed before.
const MAX_REMOVED: usize = 32;
/// How often a write of the record is tried: over about half a minute, as long as a short outage.
const MAX_TRIES: u32 = 6;

impl From<Gained> for LeadershipGained {
    fn from(gained: Gained) -> Self {
        match gained {
            Gained::First => Self::First,
            Gained::Released => Self::Released,
            Gained::Expired => Self::Expired,
            Gained::LeaseDeleted => Self::LeaseDeleted,
        }
    }
}

/// How a term began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The term.
    pub term: Term,
    /// The Lease.
    pub lease: ObjectKey,
    /// The holder identity in this term.
    pub holder: String,
    /// Who held the Lease before.
    pub former_holder: Option<String>,
    /// How leadership was gained.
    pub gained: Gained,
}

/// What is known so far; the controllers tell it what they learn. Clones share it.
#[derive(Clone)]
pub struct Recovery {
    shared: Arc<Shared>,
}

struct Shared {
    stage: Mutex<Stage>,
    news: watch::Sender<News>,
    metrics: Arc<Metrics>,
}

enum Stage {
    /// Not everything is listed.
    Listing,
    /// Items are being accounted for.
    Open(Tally),
    /// Everything is accounted for.
    Closed,
}

/// What whoever waits wants to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct News {
    listed: bool,
    outstanding: usize,
    /// Counts progress, so that each piece of it is news.
    progress: u64,
}

impl Recovery {
    /// Nothing is listed yet.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        let news = watch::Sender::new(News::default());
        let shared = Shared { stage: Mutex::new(Stage::Listing), news, metrics };
        Self { shared: Arc::new(shared) }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        // Every change is one assignment or one whole call of the tally.
        self.shared.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything was listed; this was found.
    pub fn listed(&self, items: Vec<(Item, Found)>) {
        let tally = Tally::of(items);
        self.show(&tally);
        let outstanding = tally.outstanding();
        *self.stage() = Stage::Open(tally);
        self.shared.news.send_replace(News { listed: true, outstanding, progress: 0 });
    }

    fn show(&self, tally: &Tally) {
        for class in RecoveryClass::ALL {
            self.shared.metrics.recovery_items(class.as_str(), tally.count(class));
        }
        self.shared.metrics.recovery_outstanding(tally.outstanding());
    }

    fn learn(&self, uid: Option<&str>, judge: impl FnOnce(&Found) -> Judgement) {
        let Some(uid) = uid else { return };
        let mut stage = self.stage();
        let Stage::Open(tally) = &mut *stage else { return };
        let Some(judgement) = tally.found(uid).map(judge) else { return };
        if !tally.learn(uid, judgement) {
            return;
        }
        self.show(tally);
        let outstanding = tally.outstanding();
        // With the lock held, so that the last number told is the last one that was true.
        self.shared.news.send_modify(|news| {
            news.outstanding = outstanding;
            news.progress += 1;
        });
    }

    /// A provider was asked about the newest attempt of an object.
    pub fn answered(&self, uid: Option<&str>, answer: &Result<RunStatus, ProviderError>) {
        self.learn(uid, |_| answered(answer));
    }

    /// A pass over an object has come to rest.
    pub fn rested<'a>(&self, object: impl Into<AtRest<'a>>) {
        let object = object.into();
        self.learn(object.uid, |found| rested(found, object));
    }

    /// The runs of an object that is gone or going were asked for.
    pub fn orphaned(&self, uid: &str, answer: &Result<Orphans, ProviderError>) {
        self.learn(Some(uid), |_| orphaned(answer));
    }

    /// An object is left alone in this term.
    pub fn left_alone(&self, uid: Option<&str>, reason: &str, message: &str) {
        self.learn(uid, |_| Judgement::Known(Verdict::uncertain(reason, message)));
    }

    /// Waits until everything was listed.
    async fn until_listed(&self) {
        // The sender lives as long as `self`, so this ends only by becoming true.
        let _ = self.shared.news.subscribe().wait_for(|news| news.listed).await;
    }

    /// Waits until every item is accounted for, or nothing was learnt for [`PATIENCE`]; gives what
    /// is known then. `None` if that was taken before.
    async fn until_accounted(&self) -> Option<Tally> {
        let mut news = self.shared.news.subscribe();
        while news.borrow_and_update().outstanding > 0 {
            if timeout(PATIENCE, news.changed()).await.is_err() {
                break;
            }
        }
        let Stage::Open(mut tally) = std::mem::replace(&mut *self.stage(), Stage::Closed) else {
            return None;
        };
        tally.give_up();
        self.show(&tally);
        Some(tally)
    }
}

/// What the keeper works with.
pub struct Parts {
    /// Leadership.
    pub gate: Gate,
    /// Live reads.
    pub reader: Reader,
    /// Fenced writes.
    pub writer: Arc<FencedWriter>,
    /// Stamps the record, for people.
    pub wall: WallClock,
    /// Measures how long the parts took.
    pub clock: LeaseClock,
    /// Events.
    pub events: EventQueue,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// Keeps the record of one term.
pub struct Keeper {
    parts: Parts,
    beginning: Beginning,
    recovery: Recovery,
    started: (Timestamp, LeaseInstant),
}

/// Why there is no record, or an incomplete one.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("it cannot be written: {0}")]
    Write(#[from] WriteError),
    #[error("an object of its name exists and is not it")]
    Taken,
}

impl Keeper {
    /// A keeper of the term that begins now.
    pub fn new(parts: Parts, beginning: Beginning) -> Self {
        let recovery = Recovery::new(Arc::clone(&parts.metrics));
        let started = (parts.wall.now(), parts.clock.now());
        Self { parts, beginning, recovery, started }
    }

    /// Where the controllers tell what they learn.
    pub fn recovery(&self) -> Recovery {
        self.recovery.clone()
    }

    /// Creates the record, waits until every item is accounted for, completes it, and removes the
    /// oldest. `paused` is asked at the end: of what nothing new is started in this term.
    pub async fn run(&self, paused: impl Fn() -> Vec<TracePaused> + Send) {
        let (created, accounted) = join(self.create(), self.accounted()).await;
        let Some((tally, timing)) = accounted else { return };
        let status = tally.status(&timing, paused());
        let written = match created {
            Ok(trace) => self.complete(trace, status).await,
            Err(lost) => Err(lost),
        };
        if let Err(lost) = written {
            self.lost(&lost);
        }
        self.remove_oldest().await;
    }

    /// The record as it is created: which term, and nothing that was found.
    fn blank(&self) -> RecoveryTrace {
        let Beginning { term, lease, holder, former_holder, gained } = &self.beginning;
        let name = format!("{}-{}", lease.name, term.epoch);
        let mut trace = RecoveryTrace::new(
            &name,
            RecoveryTraceSpec {
                lease_name: lease.name.clone(),
                epoch: term.epoch,
                holder: holder.clone(),
                former_holder: former_holder.clone(),
                gained: (*gained).into(),
            },
        );
        trace.metadata = ObjectMeta {
            namespace: Some(lease.namespace.clone()),
            name: Some(name),
            ..ObjectMeta::default()
        };
        trace
    }

    async fn create(&self) -> Result<RecoveryTrace, Lost> {
        let blank = self.blank();
        let mut tries = 0;
        let found = loop {
            let created = match self.parts.gate.permit() {
                Ok(permit) => self.parts.writer.create(&permit, &blank).await,
                Err(not_leading) => Err(not_leading.into()),
            };
            match created {
                Ok(created) => break created.into_inner(),
                Err(error) => tries = self.pause(tries, error).await?,
            }
        };
        if found.spec == blank.spec { Ok(found) } else { Err(Lost::Taken) }
    }

    async fn complete(
        &self,
        mut trace: RecoveryTrace,
        status: crate::api::RecoveryTraceStatus,
    ) -> Result<(), Lost> {
        let mut tries = 0;
        loop {
            let mut next = trace.clone();
            next.status = Some(status.clone());
            let written = match self.parts.gate.permit() {
                Ok(permit) => self.parts.writer.write_status(&permit, &trace, next).await,
                Err(not_leading) => Err(not_leading.into()),
            };
            match written {
                Ok(_) => return Ok(()),
                Err(error) => tries = self.pause(tries, error).await?,
            }
            // Somebody may have put a label on it, or the write may have happened after all.
            let key = ObjectKey::of(&trace.metadata);
            match self.parts.reader.get::<RecoveryTrace>(&key).await {
                Ok(Some(live)) if live.metadata.uid == trace.metadata.uid => trace = live,
                Ok(_) => return Err(Lost::Taken),
                Err(error) => tracing::debug!(%error, "the record of this term cannot be read"),
            }
        }
    }

    /// Waits before the next try; an error that will come again ends the tries.
    async fn pause(&self, tries: u32, error: WriteError) -> Result<u32, Lost> {
        let tries = tries + 1;
        // Between two renewals a busy machine may not lead for a moment.
        let over = matches!(error, WriteError::NotLeading(_)) && self.parts.gate.is_lost();
        if tries >= MAX_TRIES || over || comes_again(&error) {
            return Err(error.into());
        }
        tracing::debug!(%error, tries, "the record of this term is not written yet");
        sleep(retry::delay(&retry::RECONCILE, &self.beginning.holder, tries)).await;
        Ok(tries)
    }

    /// Waits until every item is accounted for, and says so to people.
    async fn accounted(&self) -> Option<(Tally, Timing)> {
        self.recovery.until_listed().await;
        let listed = self.parts.clock.now();
        let tally = self.recovery.until_accounted().await?;
        let ended = self.parts.clock.now();
        let timing = Timing {
            started: self.started.0,
            completed: self.parts.wall.now(),
            list: listed.since(self.started.1),
            classify: ended.since(listed),
        };
        self.tell(&tally, timing.list + timing.classify);
        Some((tally, timing))
    }

    fn tell(&self, tally: &Tally, took: Duration) {
        let of = tally.items().count();
        for (n, (item, verdict)) in tally.items().enumerate() {
            let Verdict { class, reason, message } = verdict;
            let n = n + 1;
            tracing::info!(n, of, %item, class = class.as_str(), reason, message, "recovered");
        }
        self.parts.metrics.recovery_completed(took);
        let summary = tally.summary();
        tracing::info!(summary, ?took, "recovery is complete");
        let uncertain = tally.count(RecoveryClass::Uncertain);
        let kind = if uncertain == 0 { NoteKind::Normal } else { NoteKind::Warning };
        let message = format!("{}: {summary}, in {} ms", self.beginning.holder, took.as_millis());
        self.note(kind, "Recovered", message);
    }

    fn lost(&self, lost: &Lost) {
        if matches!(lost, Lost::Write(WriteError::NotLeading(_))) {
            return; // the next leader writes its own
        }
        self.parts.metrics.recovery_trace_lost();
        tracing::warn!(%lost, "the record of this term is lost; work goes on");
        let message = format!("the RecoveryTrace of this term is lost: {lost}; work goes on");
        self.note(NoteKind::Warning, "TraceNotWritten", message);
    }

    fn note(&self, kind: NoteKind, reason: &'static str, message: String) {
        let lease = &self.beginning.lease;
        let object = ObjectRef {
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            namespace: lease.namespace.clone(),
            name: lease.name.clone(),
            uid: String::new(),
        };
        let action = "Recover".into();
        self.parts.events.publish(Note { object, kind, reason: reason.into(), action, message });
    }

    /// Removes what is older than the last [`KEPT`] records of this Lease, oldest first.
    async fn remove_oldest(&self) {
        let Beginning { term, lease, .. } = &self.beginning;
        let namespace = &lease.namespace;
        let listed = match self.parts.reader.list::<RecoveryTrace>(Some(namespace), None).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::debug!(%error, "old records are left; the next term removes them");
                return;
            }
        };
        for trace in surplus(listed.items, &lease.name, term.epoch) {
            let Ok(permit) = self.parts.gate.permit() else { return };
            let deleted =
                self.parts.writer.delete(&permit, &trace, PropagationPolicy::Background).await;
            if let Err(error) = deleted {
                tracing::debug!(%error, epoch = trace.spec.epoch, "an old record is left");
            }
        }
    }
}

/// Whether the same write would meet the same error again.
fn comes_again(error: &WriteError) -> bool {
    match error {
        WriteError::Api(error) => matches!(
            error,
            ApiError::Forbidden { .. }
                | ApiError::Invalid { .. }
                | ApiError::NotFound
                | ApiError::FenceRefused
                | ApiError::Unsendable { .. }
        ),
        WriteError::NotLeading(_) => false,
        WriteError::ForeignFence { .. }
        | WriteError::Incomplete { .. }
        | WriteError::FenceNotKept
        | WriteError::FenceNotEnforced { .. } => true,
    }
}

/// Records of this Lease beyond the last [`KEPT`], oldest first. Those of a newer term are not this
/// one's to remove, and are not counted.
fn surplus(traces: Vec<RecoveryTrace>, lease: &str, epoch: i64) -> Vec<RecoveryTrace> {
    let mut own: Vec<RecoveryTrace> = traces
        .into_iter()
        .filter(|trace| trace.spec.lease_name == lease && trace.spec.epoch <= epoch)
        .collect();
    own.sort_by_key(|trace| trace.spec.epoch);
    own.truncate(own.len().saturating_sub(KEPT).min(MAX_REMOVED));
    own
}

#[cfg(test)]
mod tests;
