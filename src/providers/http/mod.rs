//! Runs on an execution service outside the cluster.
//!
//! `docs/reference/provider.openapi.yaml` is the contract. A run is recorded under its run key and
//! held (`PUT`), the handle that the service gives is committed, and only that handle is released
//! (`POST`). Every request carries the epoch of the term, and the service refuses one lower than it
//! has seen for that key, so what a deposed leader sent late changes nothing once its successor has
//! asked about the key. A key that was deleted is never accepted again.
//!
//! Nothing is repeated by itself: a request without an answer is looked at again by whoever decides.
//! What does not keep to the contract is no answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{Method, Request, StatusCode, header};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    Acceptance, CancelStep, Committed, Orphan, Orphans, Prepared, ProviderError, RunRequest,
    RunStatus,
};
use crate::{
    api::{ActionClass, HttpRun},
    authority::Permit,
    cluster::Reader,
    retry,
    runs::MAX_ATTEMPTS,
    telemetry::Metrics,
    time::{LeaseClock, LeaseInstant},
};

mod address;
mod answer;
mod credentials;
mod transport;
mod wire;

#[cfg(test)]
mod tests;

pub use transport::{ANSWER_TIMEOUT, Network, SendError, Tls, Transport};
pub use wire::{EPOCH_HEADER, MAX_HANDLE_CHARS};

use address::BaseUrl;
use answer::{Answer, Ended, no_answer, not_committed_here, not_remembered, prepared, status_of};
use credentials::{Credentials, Vault};
use wire::{Capabilities, NewRun, Problem, Release, State, Told};

/// What the handles of such runs begin with, so that they are never taken for a Job's uid. The run
/// key follows, and then what the service gave.
const HANDLE_PREFIX: &str = "http/";
/// Services that are remembered at once. One that is forgotten is asked a little early.
const MAX_SERVICES: usize = 256;
/// Requests to one service under way at once: half of the workers that a leader has by default, so
/// that a slow service leaves the others room.
const MAX_UNDER_WAY: usize = 8;
/// How long a request waits for its turn: a service that answers within 100 ms has dozens of turns in
/// that time, and a worker that waits for a slow one is free again soon.
const TURN_PATIENCE: Duration = Duration::from_millis(500);
/// Who asks.
const USER_AGENT: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));

/// Whether a committed handle is that of a run on an execution service.
pub fn is_http(handle: &str) -> bool {
    handle.starts_with(HANDLE_PREFIX)
}

/// Asks execution services.
pub struct HttpProvider {
    transport: Arc<dyn Transport>,
    vault: Vault,
    clock: LeaseClock,
    metrics: Arc<Metrics>,
    /// By base address.
    services: Mutex<BTreeMap<String, Service>>,
}

/// What is remembered of a service between requests; may be forgotten at any time.
#[derive(Debug)]
struct Service {
    turns: Arc<Semaphore>,
    quiet: Option<Quiet>,
}

impl Default for Service {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(MAX_UNDER_WAY)), quiet: None }
    }
}

/// A service that could not be reached is left alone for a moment, so that it does not hold up those
/// that can be: each attempt to reach it takes a worker for seconds.
#[derive(Debug)]
struct Quiet {
    until: LeaseInstant,
    failures: u32,
    why: String,
}

/// Why there is no answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CallError {
    /// It was not sent and never will be: the sentence names the field and the fix.
    Refused(String),
    /// None came, or none that can be read.
    NoAnswer(String),
    /// It was not sent: this process does not lead any more.
    NotLeading,
}

impl From<CallError> for ProviderError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(why) | CallError::NoAnswer(why) => Self::Unreachable(why),
            CallError::NotLeading => Self::NotLeading,
        }
    }
}

/// One run at one service.
struct Place<'a> {
    namespace: &'a str,
    http: &'a HttpRun,
    key: &'a str,
    epoch: i64,
}

impl HttpProvider {
    /// A provider that reads credentials with `reader`, sends with `transport` and counts in
    /// `metrics`.
    pub fn new(
        reader: Reader,
        transport: Arc<dyn Transport>,
        clock: LeaseClock,
        metrics: Arc<Metrics>,
    ) -> Self {
        let vault = Vault::new(reader, clock.clone());
        Self { transport, vault, clock, metrics, services: Mutex::default() }
    }

    /// Whether the run would be accepted.
    pub(super) async fn accept(&self, request: &RunRequest) -> Acceptance {
        match self.capable(&place(request), request.class).await {
            Ok(None) => Acceptance::Accepted,
            Ok(Some(message)) | Err(CallError::Refused(message)) => Acceptance::Refused { message },
            Err(CallError::NoAnswer(message)) => Acceptance::NotYet { message },
            Err(CallError::NotLeading) => {
                Acceptance::NotYet { message: ProviderError::NotLeading.to_string() }
            }
        }
    }

    /// Records the run at its service, held if its class needs that.
    pub(super) async fn prepare(
        &self,
        permit: &Permit,
        request: &RunRequest,
    ) -> Result<Prepared, ProviderError> {
        let place = place(request);
        if request.class == ActionClass::Fenced {
            // Asked each time: a service that stopped holding would run what nobody released.
            match self.capable(&place, request.class).await {
                Ok(None) => {}
                Ok(Some(message)) | Err(CallError::Refused(message)) => {
                    return Ok(Prepared::Refused { message });
                }
                Err(CallError::NoAnswer(message)) => return Ok(Prepared::NoAnswer { message }),
                Err(CallError::NotLeading) => return Err(ProviderError::NotLeading),
            }
        }
        let body = serde_json::to_vec(&NewRun::of(request)).unwrap_or_default();
        match self.call(&place, Method::PUT, &run_path(place.key), Some(body), Some(permit)).await {
            Ok(answer) => Ok(prepared(&request.run_key, &answer)),
            Err(CallError::Refused(message)) => Ok(Prepared::Refused { message }),
            Err(CallError::NoAnswer(message)) => Ok(Prepared::NoAnswer { message }),
            Err(CallError::NotLeading) => Err(ProviderError::NotLeading),
        }
    }

    /// Starts the run whose handle is committed.
    pub(super) async fn release(
        &self,
        permit: &Permit,
        request: &RunRequest,
        handle: &str,
    ) -> Result<(), ProviderError> {
        let Some((key, given)) = split(handle).filter(|(key, _)| *key == request.run_key) else {
            return Err(ProviderError::Conflict("the handle is not that of this run".into()));
        };
        let body = serde_json::to_vec(&Release { handle: given }).unwrap_or_default();
        let path = format!("{}/release", run_path(key));
        let answer =
            self.call(&place(request), Method::POST, &path, Some(body), Some(permit)).await?;
        match answer.status {
            StatusCode::OK => {
                let told = Told::read(key, &answer.body).map_err(ProviderError::Unreachable)?;
                if told.state == State::Held {
                    let why = "the service did not release the run".to_owned();
                    return Err(ProviderError::Unreachable(why));
                }
                Ok(())
            }
            StatusCode::NOT_FOUND
            | StatusCode::CONFLICT
            | StatusCode::GONE
            | StatusCode::PRECONDITION_FAILED => {
                let words = Problem::read(&answer.body).or("the service does not release it");
                Err(ProviderError::Conflict(words))
            }
            _ => Err(no_answer(&answer).into()),
        }
    }

    /// How a committed run stands.
    pub(super) async fn status(
        &self,
        request: &RunRequest,
        committed: &Committed,
    ) -> Result<RunStatus, ProviderError> {
        let Some((key, given)) = committed.handle.as_deref().and_then(split) else {
            return Ok(not_committed_here());
        };
        let place = Place { key, ..place(request) };
        let answer = self.call(&place, Method::GET, &run_path(key), None, None).await?;
        let stopped = committed.stop_requested.is_some();
        status_of(key, given, &answer, request.class, stopped)
    }

    /// Asks the service to end a committed run. Whether it is over says its status.
    pub(super) async fn cancel(
        &self,
        permit: &Permit,
        request: &RunRequest,
        committed: &Committed,
        outcome_recorded: bool,
    ) -> Result<CancelStep, ProviderError> {
        let Some((key, _)) = committed.handle.as_deref().and_then(split) else {
            return Ok(CancelStep::Asked);
        };
        if committed.stop_requested.is_none() && !outcome_recorded {
            let why = "a run is stopped only after the request is recorded".to_owned();
            return Err(ProviderError::Conflict(why));
        }
        let place = Place { key, ..place(request) };
        let answer = self.call(&place, Method::DELETE, &run_path(key), None, Some(permit)).await?;
        match answer.status {
            StatusCode::OK | StatusCode::ACCEPTED | StatusCode::PRECONDITION_FAILED => {
                Ok(CancelStep::Asked)
            }
            _ => Err(no_answer(&answer).into()),
        }
    }

    /// Takes back what may have been recorded for an attempt of which nothing is committed: its
    /// service will never run it. An error means that this is not certain.
    pub(super) async fn withdraw(
        &self,
        permit: &Permit,
        request: &RunRequest,
    ) -> Result<(), ProviderError> {
        let place = place(request);
        let answer =
            match self.call(&place, Method::DELETE, &run_path(place.key), None, Some(permit)).await
            {
                // Nothing is ever sent there, so nothing was.
                Err(CallError::Refused(_)) => return Ok(()),
                answer => answer?,
            };
        match Ended::of(place.key, &answer)? {
            Ended::Over | Ended::NeverHeard => Ok(()),
            Ended::NotYet(why) => Err(ProviderError::Unreachable(why)),
        }
    }

    /// Ends the runs of a parent that is gone or being deleted: those that are recorded, and what may
    /// have been prepared after them.
    pub(super) async fn stop_orphans(
        &self,
        permit: &Permit,
        orphan: &Orphan,
    ) -> Result<Orphans, ProviderError> {
        let Some(http) = &orphan.http else { return Ok(Orphans::Over) };
        let recorded = orphan.attempts.iter().flatten();
        let committed: BTreeMap<u32, &str> = recorded
            .filter_map(|known| split(known.handle.as_deref()?))
            .filter_map(|(key, _)| Some((wire::number_of(key)?, key)))
            .collect();
        let first = committed.values().next().copied().or(orphan.run_key.as_deref());
        let Some(mut key) = first.map(str::to_owned) else { return Ok(Orphans::Over) };
        // Attempts follow one another, so the first key that its service never had is the last.
        for _ in 0..=MAX_ATTEMPTS {
            let epoch = permit.term().epoch;
            let place = Place { namespace: &orphan.namespace, http, key: &key, epoch };
            let answer = match self
                .call(&place, Method::DELETE, &run_path(&key), None, Some(permit))
                .await
            {
                Err(CallError::Refused(message)) => return Ok(Orphans::NotYet { message }),
                answer => answer?,
            };
            let known = wire::number_of(&key).is_some_and(|n| committed.contains_key(&n));
            // Without a version of the parent nobody knows whether the attempt of its claim began.
            let unseen = orphan.attempts.is_none() && Some(&key) == orphan.run_key.as_ref();
            match Ended::of(&key, &answer)? {
                Ended::Over => {}
                Ended::NeverHeard if (known || unseen) && orphan.class == ActionClass::Fenced => {
                    return Ok(Orphans::NotYet { message: not_remembered(&key) });
                }
                Ended::NeverHeard if known => {}
                Ended::NeverHeard => return Ok(Orphans::Over),
                Ended::NotYet(message) => return Ok(Orphans::NotYet { message }),
            }
            match wire::next_key(&key) {
                Some(next) => key = next,
                None => break,
            }
        }
        Ok(Orphans::Over)
    }

    /// Whether a service can do what the class needs; if not, the sentence that says so.
    async fn capable(
        &self,
        place: &Place<'_>,
        class: ActionClass,
    ) -> Result<Option<String>, CallError> {
        let answer = self.call(place, Method::GET, "/capabilities", None, None).await?;
        if answer.status != StatusCode::OK {
            return Err(no_answer(&answer));
        }
        let told: Capabilities = serde_json::from_slice(&answer.body)
            .map_err(|_| CallError::NoAnswer("its capabilities cannot be read".to_owned()))?;
        let lacks = class == ActionClass::Fenced && !told.hold;
        Ok(lacks.then(|| {
            "run.actionClass Fenced needs a service that holds a run until it is released, and the \
             one at run.http.url says that it does not; use another service, or another class if \
             that is true"
                .to_owned()
        }))
    }

    /// One request, and its answer. What changes something needs a permit, which is looked at last.
    async fn call(
        &self,
        place: &Place<'_>,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        permit: Option<&Permit>,
    ) -> Result<Answer, CallError> {
        let base = BaseUrl::parse("run.http.url", &place.http.url).map_err(CallError::Refused)?;
        let credentials = self.vault.open(place.namespace, place.http, &base).await?;
        let service = base.join("");
        let _turn = self.turn(&service).await?;
        self.may_ask(&service)?;
        let request = request(place, &base, &credentials, method, path, body)?;
        if permit.is_some_and(|permit| permit.check().is_err()) {
            return Err(CallError::NotLeading);
        }
        let (sent, of) = (self.clock.now(), answer::method_name(request.method()));
        let answered = self.transport.send(request, &credentials.tls).await;
        let took = self.clock.now().since(sent);
        self.metrics.service_answered(of, answer::result_of(&answered), took);
        match answered {
            Ok(answer) => {
                if let Some(known) = self.lock().get_mut(&service) {
                    known.quiet = None;
                }
                Ok(Answer { status: answer.status(), body: answer.into_body() })
            }
            Err(SendError::Refused(why)) => Err(CallError::Refused(why)),
            Err(SendError::Broken(why)) => Err(CallError::NoAnswer(why)),
            Err(SendError::NotReached(why)) => {
                self.leave_alone(&service, &why);
                Err(CallError::NoAnswer(why))
            }
        }
    }

    /// A turn to ask a service, until it is dropped.
    async fn turn(&self, service: &str) -> Result<OwnedSemaphorePermit, CallError> {
        let turns = {
            let mut services = self.lock();
            if services.len() >= MAX_SERVICES && !services.contains_key(service) {
                services.pop_first();
            }
            Arc::clone(&services.entry(service.to_owned()).or_default().turns)
        };
        match timeout(TURN_PATIENCE, turns.acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            // Nobody closes the semaphore.
            Ok(Err(_)) | Err(_) => Err(CallError::NoAnswer(format!(
                "{MAX_UNDER_WAY} requests to the service are under way and take long"
            ))),
        }
    }

    /// Whether a service is asked now. Of those that wait for one that could not be reached, one
    /// tries at a time.
    fn may_ask(&self, service: &str) -> Result<(), CallError> {
        let now = self.clock.now();
        let mut services = self.lock();
        let quiet = services.get_mut(service).and_then(|known| known.quiet.as_mut());
        let Some(left) = quiet else { return Ok(()) };
        let wait = left.until.since(now);
        if !wait.is_zero() {
            let why = format!("{} (it is asked again in {} s)", left.why, wait.as_secs() + 1);
            return Err(CallError::NoAnswer(why));
        }
        left.until = now.after(ANSWER_TIMEOUT + Duration::from_secs(1));
        Ok(())
    }

    fn leave_alone(&self, service: &str, why: &str) {
        let now = self.clock.now();
        let mut services = self.lock();
        let Some(known) = services.get_mut(service) else { return };
        let failures = known.quiet.as_ref().map_or(0, |left| left.failures).saturating_add(1);
        let until = now.after(retry::delay(&retry::PROVIDER, service, failures));
        known.quiet = Some(Quiet { until, failures, why: why.to_owned() });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Service>> {
        // Every change is one insertion, removal or assignment.
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(request: &RunRequest) -> Place<'_> {
    static NOWHERE: HttpRun = HttpRun { url: String::new(), credentials_secret_ref: None };
    Place {
        namespace: &request.parent.namespace,
        http: request.run.http.as_ref().unwrap_or(&NOWHERE),
        key: &request.run_key,
        epoch: request.epoch,
    }
}

fn run_path(key: &str) -> String {
    format!("/runs/{key}")
}

/// What is committed of a run.
fn handle(key: &str, given: &str) -> String {
    format!("{HANDLE_PREFIX}{key}/{given}")
}

/// Run key and service's handle of a committed handle.
fn split(handle: &str) -> Option<(&str, &str)> {
    handle.strip_prefix(HANDLE_PREFIX)?.split_once('/')
}

fn request(
    place: &Place<'_>,
    base: &BaseUrl,
    credentials: &Credentials,
    method: Method,
    path: &str,
    body: Option<Vec<u8>>,
) -> Result<Request<Vec<u8>>, CallError> {
    let mut request = Request::builder()
        .method(method)
        .uri(base.join(path))
        .header(EPOCH_HEADER, place.epoch)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, USER_AGENT);
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    if let Some(authorization) = &credentials.authorization {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    request
        .body(body.unwrap_or_default())
        .map_err(|error| CallError::Refused(format!("run.http.url cannot be asked: {error}")))
}
