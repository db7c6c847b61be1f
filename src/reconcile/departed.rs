//! Runs whose parent is gone, is being deleted, or is over without them.
//!
//! Deletion is a cancel. The leader stops the runs itself, by their parent's uid, and does not wait
//! for the garbage collector. A claim or an entry keeps the place until they are proven over.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::Deps;
use crate::{
    api::{ActionClass, HttpRun},
    authority::Permit,
    cluster::ObjectKey,
    providers::{Committed, Orphan, Orphans, ProviderError},
};

/// How often it is looked again at runs whose parent is over or gone.
const INTERVAL: SignedDuration = SignedDuration::from_secs(5);

/// Deleted parents whose runs are not known to be over. One that is forgotten frees its place by what
/// the API server still shows, or by a person's word.
const MAX_DEPARTED: usize = 4096;

/// How long one pass over a schedule or a queue asks about work that is gone. There may be a thousand
/// of it, and each question may take seconds: meanwhile nothing else of the schedule or queue is decided.
/// So it goes on after this time, and the next pass asks about the others.
pub(crate) const PROBE_TIME: Duration = Duration::from_secs(10);
/// Schedules and queues of which it is remembered where asking was broken off. One that is forgotten
/// begins with its first again.
const MAX_BROKEN_OFF: usize = 1024;

/// One pass over a schedule or a queue, as far as it asks about work that is gone.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    begun: Instant,
}

impl Asking {
    /// A pass that begins now.
    pub fn begin() -> Self {
        Self { begun: Instant::now() }
    }
}

/// What the last version of a parent recorded.
#[derive(Clone, Debug)]
struct Departed {
    class: ActionClass,
    http: Option<HttpRun>,
    attempts: Vec<Committed>,
}

/// What deleted parents recorded, by uid, until their runs are over. May be forgotten at any time.
#[derive(Debug, Default)]
pub struct Departures {
    parents: Mutex<BTreeMap<String, Departed>>,
    /// By schedule or queue: uid of the parent that is asked about next, where asking was broken off.
    next: Mutex<BTreeMap<ObjectKey, String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one insertion or removal.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a claim or an entry says of a parent's run.
#[derive(Clone, Copy, Debug)]
pub struct Promised<'a> {
    /// Its class.
    pub class: ActionClass,
    /// The key of the attempt that may run.
    pub run_key: &'a str,
    /// Its execution service, if it has one.
    pub http: Option<&'a HttpRun>,
}

/// How it stands with the runs of a parent that is over or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// They are over, all of them, proven.
    Over,
    /// Not yet, or nobody can tell; when to look again.
    Again(Option<Timestamp>),
}

impl Departures {
    /// Remembers the last version of a parent that goes.
    pub fn remember(
        &self,
        uid: &str,
        class: ActionClass,
        http: Option<HttpRun>,
        attempts: Vec<Committed>,
    ) {
        let mut departed = lock(&self.parents);
        if departed.len() >= MAX_DEPARTED {
            departed.pop_first();
        }
        departed.insert(uid.to_owned(), Departed { class, http, attempts });
    }

    /// What a schedule or a queue holds for parents that are gone, beginning where asking was broken off.
    pub fn in_turn<'a, T>(
        &self,
        of: &ObjectKey,
        held: &'a [T],
        uid: fn(&T) -> &str,
    ) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let next = lock(&self.next).get(of).cloned();
        let first = next.and_then(|next| held.iter().position(|one| uid(one) == next));
        let (last, first) = held.split_at(first.unwrap_or(0));
        first.iter().chain(last)
    }

    /// Whether a pass goes on to the parent with this uid. If not, the next pass begins with it.
    pub fn goes_on(&self, of: &ObjectKey, pass: Asking, uid: &str) -> bool {
        if pass.begun.elapsed() < PROBE_TIME {
            return true;
        }
        let mut next = lock(&self.next);
        if next.len() >= MAX_BROKEN_OFF && !next.contains_key(of) {
            next.pop_first();
        }
        next.insert(of.clone(), uid.to_owned());
        false
    }

    /// All parents of a schedule or a queue were asked about.
    pub fn all_asked(&self, of: &ObjectKey) {
        lock(&self.next).remove(of);
    }

    /// Stops what runs for a parent that is over or gone, until it is proven over.
    pub async fn follow(
        &self,
        deps: &Deps,
        permit: &Permit,
        parent: &ObjectKey,
        uid: &str,
    ) -> Followed {
        let again = Followed::Again(deps.wall.now().checked_add(INTERVAL).ok());
        match self.stop(deps, permit, &parent.namespace, uid, None).await {
            Ok(Orphans::Over) => Followed::Over,
            Ok(Orphans::NotYet { message }) => {
                tracing::debug!(%parent, uid, message, "runs of a parent that is over or gone are being stopped");
                again
            }
            Err(error) => {
                tracing::debug!(%parent, uid, %error, "runs of a parent that is over or gone cannot be stopped yet");
                again
            }
        }
    }

    /// Stops what runs for a parent that is gone, going or over. `promised`: what its claim or entry
    /// says, in case no version of it was seen.
    pub async fn stop(
        &self,
        deps: &Deps,
        permit: &Permit,
        namespace: &str,
        uid: &str,
        promised: Option<Promised<'_>>,
    ) -> Result<Orphans, ProviderError> {
        let departed = lock(&self.parents).get(uid).cloned();
        let orphan = Orphan {
            namespace: namespace.to_owned(),
            parent_uid: uid.to_owned(),
            class: departed
                .as_ref()
                .map(|d| d.class)
                .or(promised.map(|promised| promised.class))
                .unwrap_or(ActionClass::Fenced),
            http: departed
                .as_ref()
                .and_then(|d| d.http.clone())
                .or(promised.and_then(|promised| promised.http.cloned())),
            run_key: promised.map(|promised| promised.run_key.to_owned()),
            attempts: departed.map(|d| d.attempts),
        };
        let outcome = deps.providers.stop_orphans(permit, &orphan).await;
        deps.recovery.orphaned(uid, &outcome);
        let outcome = outcome?;
        if outcome == Orphans::Over {
            lock(&self.parents).remove(uid);
        }
        Ok(outcome)
    }
}
