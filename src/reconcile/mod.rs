//! What every controller does alike: its means, how a pass over one object ends, and what is left
//! alone. What is decided is in the rooms of the kinds.

mod census;
mod departed;
mod report;
#[cfg(test)]
pub(crate) mod scene;
mod watching;

pub use census::{Census, Place, schedule_word};
#[cfg(test)]
pub(crate) use departed::PROBE_TIME;
pub use departed::{Asking, Departures, Followed, Promised};
pub use report::publish;
pub use watching::{RunCaches, RunListener, Watching, follow, job_of_pod};

use std::{ops::Deref, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::api::ObjectMeta;
use tokio::{
    sync::{RwLock, RwLockReadGuard},
    time::Instant,
};

use crate::{
    api::{Attempt, Fence},
    authority::{Fenced, Foreign, Gate, NotLeading, Permit, Quarantine},
    cluster::{ApiError, Cache, FencedWriter, Object, ObjectKey, Reader, WriteError, kind_of},
    providers::Providers,
    recovery::Recovery,
    retry::{self, ObjectBackoff},
    runs::Note,
    telemetry::{EventQueue, Metrics},
    time::WallClock,
};

/// Event about an object that a leader tried to write after its term was over.
pub const FENCED_WRITE_REJECTED: &str = "FencedWriteRejected";

/// What that event says: the epoch that tried, and the one that had sealed the object.
pub fn fenced_write(mine: i64, newer: i64) -> String {
    format!(
        "a write of epoch {mine} was refused, because epoch {newer} has sealed the object since; it changed nothing"
    )
}

/// Whether it is certain that the write changed nothing, because the API server said no.
fn is_refusal(error: &WriteError) -> bool {
    matches!(error, WriteError::Api(ApiError::Conflict { .. } | ApiError::FenceRefused))
}

/// Most rounds of one pass over one object. A pass ends by itself much earlier; the bound turns a
/// decision that does not come to rest into a visible error instead of a busy loop.
pub const MAX_ROUNDS: usize = 16;

/// After a conflicting write: the watch has brought the newer version by then, or it is read live.
const AFTER_CONFLICT: Duration = Duration::from_millis(50);

/// Why a pass over an object was broken off; it is made again later.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// This process does not lead (any more).
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// A read failed.
    #[error("cannot read from the API server")]
    Read(#[source] ApiError),
    /// A write failed.
    #[error("cannot write to the API server")]
    Write(#[source] WriteError),
    /// An object that must be sealed cannot be read.
    #[error("{0} cannot be read; repair or delete it, what it belongs to waits for that")]
    Unreadable(ObjectKey),
    /// The decision did not come to rest: a defect.
    #[error("no rest after {MAX_ROUNDS} rounds; this is a defect")]
    Restless,
}

impl PassError {
    /// For metrics.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotLeading(_) => "not_leading",
            Self::Read(error) => error.category(),
            Self::Write(error) => error.category(),
            Self::Unreadable(_) => "unreadable",
            Self::Restless => "restless",
        }
    }
}

impl From<WriteError> for PassError {
    /// A write that this process had no right to make any more is no failed write.
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NotLeading(not_leading) => Self::NotLeading(not_leading),
            error => Self::Write(error),
        }
    }
}

/// Whether new work may be created now: the clocks agree.
pub type MayCreate = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What controllers work with.
pub struct Means {
    /// Leadership.
    pub gate: Gate,
    /// Objects with foreign fences, which are left alone.
    pub quarantine: Arc<Quarantine>,
    /// Live reads.
    pub reader: Reader,
    /// Fenced writes.
    pub writer: Arc<FencedWriter>,
    /// Wall clock: the only time decisions about schedules know.
    pub wall: WallClock,
    /// What executes runs.
    pub providers: Providers,
    /// Whether new work may be created now.
    pub may_create: MayCreate,
    /// Told what is learnt of what this leader found.
    pub recovery: Recovery,
    /// Events for people.
    pub events: EventQueue,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// How long finished occurrences without a schedule are kept.
    pub orphan_retention: Duration,
    /// Objects worked on at once, by each controller.
    pub concurrency: usize,
}

/// What controllers work with, and how often what failed is tried again.
pub struct Deps {
    means: Means,
    backoff: ObjectBackoff,
    /// Read by each pass over something that runs; see [`Deps::passes_ended`].
    passes: RwLock<()>,
}

impl Deref for Deps {
    type Target = Means;

    fn deref(&self) -> &Means {
        &self.means
    }
}

/// A pass, for logs and metrics.
#[derive(Clone, Debug)]
pub struct PassOf {
    /// The kind.
    pub kind: &'static str,
    /// What its failures are counted by.
    pub key: String,
    /// When it began.
    pub started: Instant,
}

impl Deps {
    /// Controllers with these means, of which nothing has failed yet.
    pub fn new(means: Means) -> Self {
        let backoff = ObjectBackoff::new(retry::RECONCILE);
        Self { means, backoff, passes: RwLock::new(()) }
    }

    /// To be held during a pass over something that runs.
    pub async fn pass(&self) -> RwLockReadGuard<'_, ()> {
        self.passes.read().await
    }

    /// Waits until every pass has ended that is under way. Whoever takes over what a schedule or a
    /// queue of the same name had started calls it before it looks: such a pass may still commit what
    /// the object that is gone had promised, in the very same term, so that no fence stops it. Later
    /// passes see the new object.
    pub async fn passes_ended(&self) {
        drop(self.passes.write().await);
    }

    /// The right to act, for one pass.
    pub fn permit(&self) -> Result<Permit, PassError> {
        Ok(self.gate.permit()?)
    }

    /// Tells people what happened to an object.
    pub fn note(&self, kind: &'static str, key: &ObjectKey, uid: Option<&str>, notes: &[Note]) {
        for note in notes {
            publish(&self.events, kind, key, uid, note);
        }
    }

    /// Counts a pass, and gives the moment of the next one.
    pub fn ended(
        &self,
        pass: &PassOf,
        outcome: Result<Option<Timestamp>, PassError>,
    ) -> Option<Instant> {
        let result = outcome.as_ref().map(|_| ()).map_err(PassError::category);
        self.metrics.reconciled(pass.kind, result, pass.started.elapsed());
        match outcome {
            Ok(wake_at) => {
                self.backoff.succeeded(&pass.key);
                wake_at.map(|at| self.instant(at))
            }
            Err(PassError::NotLeading(_)) => None,
            // Somebody else wrote, which is no fault: the newest version is looked at at once.
            Err(PassError::Write(WriteError::Api(ApiError::Conflict { .. }))) => {
                Some(Instant::now() + AFTER_CONFLICT)
            }
            Err(error) => {
                let delay = self.backoff.failed(&pass.key);
                let error = &error as &dyn std::error::Error;
                tracing::warn!(key = pass.key, error, ?delay, "pass broken off; it is made again");
                Some(Instant::now() + delay)
            }
        }
    }

    /// The moment on the scheduler's clock at which the wall clock will show `at`. If someone sets
    /// the wall clock meanwhile, everything is looked at again. A moment that has come already is no
    /// reason to look again without pause.
    fn instant(&self, at: Timestamp) -> Instant {
        let wait = Duration::try_from(at.duration_since(self.wall.now()));
        Instant::now() + wait.ok().filter(|wait| !wait.is_zero()).unwrap_or(AFTER_CONFLICT)
    }

    /// Writes a status and puts what is stored into its cache. After a refusal what is there now
    /// decides, not what the cache remembers.
    pub async fn write_status<K: Object + Fenced>(
        &self,
        permit: &Permit,
        cache: &Cache<K>,
        read: &K,
        next: K,
    ) -> Result<K, PassError> {
        match self.writer.write_status(permit, read, next).await {
            Ok(sealed) => {
                let stored = sealed.into_inner();
                cache.observe(stored.clone());
                Ok(stored)
            }
            Err(error) => {
                if let Ok(Some(live)) = self.reader.get::<K>(&ObjectKey::of(read.meta())).await {
                    if is_refusal(&error) {
                        self.tell_of_fenced_write(permit, &live);
                    }
                    cache.observe(live);
                }
                Err(error.into())
            }
        }
    }

    /// A write was refused, and a newer term has sealed the object: whoever looks at it later is told
    /// that this process tried, and that it changed nothing.
    fn tell_of_fenced_write<K: Object + Fenced>(&self, permit: &Permit, live: &K) {
        let mine = permit.term().epoch;
        let Some(newer) = live.fence().map(|fence| fence.epoch).filter(|epoch| *epoch > mine)
        else {
            return;
        };
        let note = Note::warning(FENCED_WRITE_REJECTED, fenced_write(mine, newer));
        self.note(kind_of::<K>(), &ObjectKey::of(live.meta()), live.meta().uid.as_deref(), &[note]);
    }

    /// The end of these attempts' parent is recorded. Whether something still acts for it.
    pub fn ended_with(&self, uid: &str, attempts: &[Attempt]) -> bool {
        for handle in attempts.iter().filter_map(|attempt| attempt.handle.as_ref()) {
            self.providers.forget(handle);
        }
        self.providers.acts_for(uid)
    }

    /// The occurrence or report job of an instant of a schedule was created.
    pub fn created(&self, instant: Timestamp) {
        self.metrics.created(self.lateness(instant));
    }

    /// How long ago a moment was; nothing if it is to come.
    fn lateness(&self, due: Timestamp) -> Duration {
        Duration::try_from(self.wall.now().duration_since(due)).unwrap_or(Duration::ZERO)
    }

    /// An attempt of an object was released; `due` is the moment its first one is late against.
    pub fn released(
        &self,
        kind: &'static str,
        object: &ObjectMeta,
        attempt: i32,
        due: Option<Timestamp>,
    ) {
        if let (Some(due), 1) = (due, attempt) {
            self.metrics.released(self.lateness(due));
        }
        let note = Note::normal("Released", format!("attempt {attempt} was released"));
        self.note(kind, &ObjectKey::of(object), object.uid.as_deref(), &[note]);
    }

    /// The objects of a cache that are left alone in this term, and why.
    pub fn left_alone<K: Object>(&self, cache: &Cache<K>) -> Vec<(ObjectKey, &'static str)> {
        let foreign = cache.all().into_iter().filter_map(|object| {
            let foreign = self.quarantine.contains(object.meta().uid.as_deref()?);
            foreign.then(|| (ObjectKey::of(object.meta()), "ForeignFence"))
        });
        let unreadable = cache.unreadable().into_iter().map(|(key, _)| (key, "Unreadable"));
        foreign.chain(unreadable).collect()
    }

    /// Whether an object, as read, may be written in this term. A newer fence than this term's means
    /// that either this process is deposed or the object is to be left alone.
    pub async fn may_write(
        &self,
        permit: &Permit,
        kind: &'static str,
        object: &ObjectMeta,
        fence: Option<&Fence>,
    ) -> Result<bool, PassError> {
        let term = permit.term();
        let foreign = fence.filter(|fence| {
            fence.epoch > term.epoch || (fence.epoch == term.epoch && fence.nonce != term.nonce)
        });
        let Some(fence) = foreign else { return Ok(true) };
        let met = self.quarantine.met(permit, kind, object, fence).await;
        match met.map_err(PassError::Read)? {
            Foreign::Lost(_) => Err(NotLeading.into()),
            Foreign::Quarantined { first } => {
                if first {
                    self.metrics.foreign_fence();
                    let message = format!(
                        "it carries the fence of epoch {}, which no term of this Lease has had; it is left alone",
                        fence.epoch
                    );
                    let note = Note::warning("ForeignFence", message);
                    self.note(kind, &ObjectKey::of(object), object.uid.as_deref(), &[note]);
                }
                Ok(false)
            }
        }
    }
}
