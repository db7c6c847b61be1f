//! The hands of a run: they carry out one step at a provider. Both controllers use them; what they
//! learn goes into the next snapshot.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::{Resource, ResourceExt as _};

use super::{Withdrawn, Work};
use crate::{
    api::{ActionClass, Attempt, RunSpec},
    authority::{NotLeading, Permit, Sealed},
    cluster::ObjectKey,
    providers::{
        CancelStep, Committed, Parent, Prepared, ProviderError, Providers, RunRequest, RunStatus,
    },
    recovery::Recovery,
    time::IntendedTime,
};

/// What a provider said of a run.
pub type Answer = Result<RunStatus, ProviderError>;

/// What is remembered of runs between passes and may be forgotten at any time.
#[derive(Debug, Default)]
pub struct Memory {
    /// Since when the provider of an object's run has not answered.
    unreachable: BTreeMap<ObjectKey, Timestamp>,
    /// The generation of an object of which people were told that something in it is ignored.
    told: BTreeMap<ObjectKey, i64>,
    /// Attempts of an object that were given up and whose end is known since.
    heard: BTreeMap<ObjectKey, BTreeSet<i32>>,
}

impl Memory {
    /// The object is gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.unreachable.remove(key);
        self.told.remove(key);
        self.heard.remove(key);
    }

    /// A provider was asked; since when it has not answered, if it did not.
    pub fn learn(
        &mut self,
        key: &ObjectKey,
        answer: &Answer,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Timestamp> {
        if let Err(ProviderError::Unreachable(_)) = answer {
            return Some(*self.unreachable.entry(key.clone()).or_insert_with(now));
        }
        self.unreachable.remove(key);
        None
    }

    /// The newest generation of which people were told that something in it is ignored.
    pub fn told(&self, key: &ObjectKey) -> Option<i64> {
        self.told.get(key).copied()
    }

    /// Whether it is known how an attempt ended that was given up.
    pub fn has_heard(&self, key: &ObjectKey, attempt: i32) -> bool {
        self.heard.get(key).is_some_and(|heard| heard.contains(&attempt))
    }

    /// It is known how an attempt ended that was given up, and what it delivered was judged.
    pub fn hear(&mut self, key: &ObjectKey, attempt: i32) {
        self.heard.entry(key.clone()).or_default().insert(attempt);
    }

    /// People were told that something in this generation is ignored.
    pub fn tell(&mut self, key: &ObjectKey, generation: i64) {
        self.told.insert(key.clone(), generation);
    }
}

/// One pair of hands, for one pass.
pub struct Hands<'a> {
    /// What executes runs.
    pub providers: &'a Providers,
    /// Told what providers answer.
    pub recovery: &'a Recovery,
    /// The present term.
    pub permit: &'a Permit,
}

impl Hands<'_> {
    /// Prepares an attempt. A provider that does not answer prepares nothing for now.
    pub async fn prepare<P>(
        &self,
        parent: &Sealed<P>,
        request: &RunRequest,
    ) -> Result<Prepared, NotLeading> {
        match self.providers.prepare(parent, request).await {
            Ok(prepared) => Ok(prepared),
            Err(ProviderError::NotLeading) => Err(NotLeading),
            Err(error) => Ok(Prepared::NotYet { message: error.to_string() }),
        }
    }

    /// Takes back what may have been prepared of an attempt of which nothing is committed. An error is
    /// why that is not certain.
    pub async fn withdraw(&self, request: &RunRequest) -> Result<Withdrawn, NotLeading> {
        match self.providers.withdraw(self.permit, request).await {
            Ok(()) => Ok(Ok(())),
            Err(ProviderError::NotLeading) => Err(NotLeading),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// Releases the committed handle. An error is an answer to look at again: the release may have
    /// happened, or the thing changed meanwhile.
    pub async fn release<P>(
        &self,
        parent: &Sealed<P>,
        request: &RunRequest,
        handle: &str,
    ) -> Result<Answer, NotLeading> {
        match self.providers.release(parent, request, handle).await {
            Ok(()) => Ok(Ok(RunStatus::Released { pod: None, waiting: None })),
            Err(ProviderError::NotLeading) => Err(NotLeading),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Asks about a committed attempt of the object with this uid.
    pub async fn ask(
        &self,
        uid: Option<&str>,
        request: &RunRequest,
        committed: &Committed,
    ) -> Result<Answer, NotLeading> {
        let answer = self.providers.status(request, committed).await;
        self.recovery.answered(uid, &answer);
        match answer {
            Err(ProviderError::NotLeading) => Err(NotLeading),
            answer => Ok(answer),
        }
    }

    /// Asks about an attempt that was given up and does not count any more. What its provider says
    /// once it has ended; nothing hangs on it, so no answer is none.
    pub async fn ask_late(
        &self,
        request: &RunRequest,
        committed: &Committed,
    ) -> Result<Option<RunStatus>, NotLeading> {
        match self.providers.status(request, committed).await {
            Err(ProviderError::NotLeading) => Err(NotLeading),
            Ok(
                ended
                @ (RunStatus::Succeeded { .. } | RunStatus::Failed { .. } | RunStatus::Absent),
            ) => Ok(Some(ended)),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Asks to stop an attempt whose stop, or whose outcome, is recorded in an object of this term.
    /// Whether it stopped says its status.
    pub async fn cancel(
        &self,
        key: &ObjectKey,
        request: &RunRequest,
        committed: &Committed,
        recorded: bool,
    ) -> Result<(), NotLeading> {
        match self.providers.cancel(self.permit, request, committed, recorded).await {
            Ok(CancelStep::Asked) | Err(ProviderError::Conflict(_)) => Ok(()),
            Ok(CancelStep::Waits { message }) => {
                tracing::debug!(%key, message, "cancel waits");
                Ok(())
            }
            Err(ProviderError::NotLeading) => Err(NotLeading),
            Err(ProviderError::Unreachable(why)) => {
                tracing::debug!(%key, why, "cancel not confirmed");
                Ok(())
            }
        }
    }
}

/// What is recorded of attempts, oldest first.
pub fn committed(attempts: &[Attempt]) -> Vec<Committed> {
    let committed = |attempt: &Attempt| Committed {
        handle: attempt.handle.clone(),
        pod: attempt.pod.clone(),
        stop_requested: attempt.stop_requested_time.map(|t| t.0),
    };
    attempts.iter().map(committed).collect()
}

/// The object as the parent of runs.
pub fn parent<K: Resource<DynamicType = ()>>(object: &K) -> Parent {
    Parent {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
    }
}

/// What a provider needs to know of one attempt, whoever its parent is.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptOf<'a> {
    /// Identity of the work.
    pub work: &'a Work,
    /// Number of the attempt.
    pub attempt: i32,
    /// What it runs.
    pub run: RunSpec,
    /// Its class, the default of the kind filled in.
    pub class: ActionClass,
    /// The intended instant, if the work has one.
    pub intended_time: Option<IntendedTime>,
}

/// The request of an attempt in the present term.
pub fn request(parent: Parent, of: AttemptOf<'_>, permit: &Permit) -> RunRequest {
    let AttemptOf { work, attempt, run, class, intended_time } = of;
    RunRequest {
        parent,
        attempt_name: work.attempts.name(attempt),
        attempt,
        run_key: work.attempts.key(attempt),
        request_id: work.request_id.clone(),
        intended_time,
        queue: None,
        epoch: permit.term().epoch,
        class,
        run,
    }
}
