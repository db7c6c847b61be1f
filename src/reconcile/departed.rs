//! Runs whose parent is gone, is being deleted, or is over without them.
//!
//! Deletion is a cancel. The leader stops the runs itself, by their parent's uid, and does not wait
//! for the garbage collector. A claim or an entry keeps the place until they are proven over.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};

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

/// What the last version of a parent recorded.
#[derive(Clone, Debug)]
struct Departed {
    class: ActionClass,
    http: Option<HttpRun>,
    attempts: Vec<Committed>,
}

/// What deleted parents recorded, by uid, until their runs are over. May be forgotten at any time.
#[derive(Debug, Default)]
pub struct Departures(Mutex<BTreeMap<String, Departed>>);

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
        let mut departed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if departed.len() >= MAX_DEPARTED {
            departed.pop_first();
        }
        departed.insert(uid.to_owned(), Departed { class, http, attempts });
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
        let departed = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned();
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
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        }
        Ok(outcome)
    }
}
