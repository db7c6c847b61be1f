//! What happens to a run where it is executed: the truth that no record of the operator can bend.

use std::time::Duration;

use super::Key;

/// Something happened to a run.
///
/// The simulated provider tells it for its runs. The workload tells [`RunChange::Started`] and
/// [`RunChange::Ended`] for the containers of Jobs, where only it knows that a container runs on
/// after its pod and node have vanished from the API. An event comes before whoever asks can learn
/// of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEvent {
    /// Virtual time since the start of the history.
    pub at: Duration,
    /// The object that the run belongs to; its name is the identity of the work.
    pub parent: Key,
    /// Uid of that object.
    pub parent_uid: String,
    /// Key by which the provider knows the run.
    pub run_key: String,
    /// What the parent commits: the provider's handle, for Jobs the uid.
    pub handle: String,
    /// What happened.
    pub what: RunChange,
}

/// What happened to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunChange {
    /// It is held: prepared and inert.
    Held,
    /// It was released: from now on it may act.
    Released,
    /// It acts.
    Started,
    /// It acts no more and never will.
    Ended {
        /// How, in one word.
        outcome: String,
    },
    /// It was asked to stop; it may still act.
    CancelAsked,
    /// It was stopped: it acts no more and never will.
    CancelConfirmed,
    /// The provider has forgotten it. Whether it still acts, nobody can find out.
    Lost,
}
