//! What executes a run, behind one small interface keyed by the run key.
//!
//! Every run passes through *prepare* (create something inert under a deterministic name), *commit*
//! (the controller records the handle in the sealed parent: that is the fence) and *release* (make
//! the committed handle run). A leader that was deposed meanwhile can at most leave an inert thing
//! behind. `docs/contracts/action-classes.md` is the contract.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    api::{ActionClass, Artifact, HttpRun, PodRef, ResultValue, RunSpec},
    time::IntendedTime,
};

mod dispatch;
pub mod http;
pub mod job;
pub mod simulated;

pub use dispatch::Providers;

/// Longest address of an artifact, in characters: the bound of `status.artifact.uri`.
pub const MAX_ARTIFACT_URI_CHARS: usize = 2048;

/// The object a run belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Parent {
    /// API version, for the owner reference.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// Whose report a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfQueue {
    /// Name of the queue that admitted it.
    pub name: String,
    /// Its tenant.
    pub tenant: String,
}

/// Everything a provider needs to know a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRequest {
    /// The object it belongs to.
    pub parent: Parent,
    /// Name of the attempt: `<occurrence>-m<N>`; the Job's name.
    pub attempt_name: String,
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// The key by which the provider knows the run.
    pub run_key: String,
    /// Equal over attempts: what an idempotent receiver deduplicates by.
    pub request_id: String,
    /// The intended instant, if the work has one.
    pub intended_time: Option<IntendedTime>,
    /// The queue and the tenant, if it is a report.
    pub queue: Option<OfQueue>,
    /// Epoch of the present term.
    pub epoch: i64,
    /// The effective class, the default of the parent's kind filled in.
    pub class: ActionClass,
    /// The effective run.
    pub run: RunSpec,
}

/// What is known of an attempt that was committed earlier; providers that need proof of the end use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Committed {
    /// The committed handle, if any.
    pub handle: Option<String>,
    /// The pod recorded for it.
    pub pod: Option<PodRef>,
    /// When it was first asked to stop.
    pub stop_requested: Option<Timestamp>,
}

/// Answer to *prepare*.
#[derive(Clone, Debug, PartialEq)]
pub enum Prepared {
    /// Something inert exists under this handle (or ran already, uncommitted, and is adopted).
    Ready {
        /// What to commit.
        handle: String,
    },
    /// The provider cannot or will not run this, ever: the run ends `Failed/RunRefused`.
    Refused {
        /// One sentence that names the field and the fix.
        message: String,
    },
    /// The name is taken by something that is not ours.
    NameConflict {
        /// What is in the way.
        message: String,
    },
    /// Not now; asked again with backoff.
    NotYet {
        /// Why.
        message: String,
    },
    /// Nobody knows whether something was created: asked again until there is an answer.
    NoAnswer {
        /// Why.
        message: String,
    },
}

/// Answer to the question whether a run would be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It would.
    Accepted,
    /// It would not, ever.
    Refused {
        /// One sentence that names the field and the fix.
        message: String,
    },
    /// Not now; asked again with backoff.
    NotYet {
        /// Why.
        message: String,
    },
}

/// What a step of ending a run came to. Whether it is over says its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelStep {
    /// Everything was asked for that there is to ask for.
    Asked,
    /// Not yet: asking now would do harm.
    Waits {
        /// Why.
        message: String,
    },
}

/// A parent that is gone or being deleted, and what is known of its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Orphan {
    /// Its namespace.
    pub namespace: String,
    /// Its uid.
    pub parent_uid: String,
    /// Its effective class.
    pub class: ActionClass,
    /// What its last version recorded of its attempts; `None` if no version of it was seen.
    pub attempts: Option<Vec<Committed>>,
    /// The execution service of its runs, if they have one and their end is not recorded.
    pub http: Option<HttpRun>,
    /// The run key of its claim or entry, if that was looked at: that attempt may have been prepared
    /// though none is recorded.
    pub run_key: Option<String>,
}

/// Whether the runs of an [`Orphan`] are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Orphans {
    /// They are, all of them, proven.
    Over,
    /// Not yet, or not provably.
    NotYet {
        /// Why.
        message: String,
    },
}

/// Why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// May succeed if tried again: non-zero exit.
    Transient,
    /// The platform ended it: eviction, preemption, node loss. Proven over.
    Disruption,
    /// Will fail again: exit 42, not retryable, out of memory at the same limit, image or configuration errors.
    Deterministic,
}

/// What keeps a released run from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// PascalCase reason, for example `ErrImagePull`, `CreateContainerConfigError`, `Unschedulable`.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// What a retry may expect if the run never starts.
    pub class: FailureClass,
}

/// What a run that succeeded says that it delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Delivered {
    /// No artifact.
    #[default]
    Nothing,
    /// This one.
    Artifact(Artifact),
    /// Something that cannot be read: there may be an artifact, and nobody knows which.
    Unreadable,
}

impl Delivered {
    /// An artifact, if it is one that a status can hold.
    pub fn artifact(artifact: Artifact) -> Self {
        let uri = (1..=MAX_ARTIFACT_URI_CHARS).contains(&artifact.uri.chars().count());
        let hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let sha256 = artifact.sha256.len() == 64 && artifact.sha256.bytes().all(hex);
        if uri && sha256 && artifact.size_bytes >= 0 {
            Self::Artifact(artifact)
        } else {
            Self::Unreadable
        }
    }
}

/// What the provider knows of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunStatus {
    /// Prepared, never released.
    Held,
    /// Released; not seen started.
    Released {
        /// The pod and node, once bound; recorded as proof for later.
        pod: Option<PodRef>,
        /// What keeps it from starting, if that is known.
        waiting: Option<Waiting>,
    },
    /// It acts.
    Running {
        /// Since when.
        started: Timestamp,
        /// The pod and node, where there is one; recorded as proof for later.
        pod: Option<PodRef>,
    },
    /// It ended with success and can no longer act.
    Succeeded {
        /// When it started.
        started: Option<Timestamp>,
        /// When it ended.
        completed: Option<Timestamp>,
        /// What it reported.
        result: Option<BTreeMap<String, ResultValue>>,
        /// Whether a result was expected and could not be read.
        result_lost: bool,
        /// What it delivered.
        artifact: Delivered,
    },
    /// It ended with failure and can no longer act.
    Failed {
        /// When it started.
        started: Option<Timestamp>,
        /// When it ended.
        completed: Option<Timestamp>,
        /// PascalCase reason, for example `Evicted`, `OOMKilled`, `ExitCode`.
        reason: String,
        /// One sentence.
        message: String,
        /// What a retry may expect.
        class: FailureClass,
    },
    /// It does not exist and can no longer act (never released, or proven over).
    Absent,
    /// It is going away, whoever asked for that, and may still act. Look again; if a stop is
    /// requested, call *cancel* again too.
    Stopping,
    /// It may still act, or its end was not seen.
    Unknown {
        /// PascalCase reason: `EndNotSeen`, `DuplicatePod`, `SuspendedByOthers`, …
        reason: String,
        /// One sentence.
        message: String,
    },
    /// Another person or controller stopped it (a Job suspended after release): it must be
    /// cancelled and ends `Failed/SuspendedByOthers`.
    StoppedByOthers {
        /// One sentence.
        message: String,
    },
}

/// The provider gave no answer (transport, timeout, overload). Not the same as [`RunStatus::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// No answer.
    #[error("the provider did not answer: {0}")]
    Unreachable(String),
    /// The permit is no longer valid: nothing was sent.
    #[error("not leading any more")]
    NotLeading,
    /// Somebody changed the thing meanwhile; look again.
    #[error("changed meanwhile: {0}")]
    Conflict(String),
}
