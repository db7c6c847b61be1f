//! One door to all providers: each run goes to the one it names.

use std::sync::Arc;

use super::{
    Acceptance, CancelStep, Committed, Orphan, Orphans, Prepared, ProviderError, RunRequest,
    RunStatus,
    job::JobProvider,
    simulated::{self, SimulatedService},
};
use crate::{
    api::RunSpec,
    authority::{Permit, Sealed},
};

/// Said where `run.simulated` is not allowed.
const SIMULATED_REFUSED: &str = "run.simulated is refused: it only pretends to work; start the operator with \
     --allow-simulated for drills and demos, or use run.job";
/// Said of `run.http`.
const HTTP_REFUSED: &str = "run.http is not supported by this version; use run.job";
/// Said of a run that names no provider.
const NONE_NAMED: &str = "run needs exactly one of job, http, simulated";

/// All providers.
pub struct Providers {
    job: JobProvider,
    simulated: Option<Arc<dyn SimulatedService>>,
}

/// Where a run goes.
enum Route<'a> {
    Job,
    Simulated(&'a dyn SimulatedService),
    Nowhere(&'static str),
}

impl Providers {
    /// Providers of Jobs and, if allowed, of simulated runs.
    pub fn new(job: JobProvider, simulated: Option<Arc<dyn SimulatedService>>) -> Self {
        Self { job, simulated }
    }

    /// The provider of Jobs.
    pub fn job(&self) -> &JobProvider {
        &self.job
    }

    fn route(&self, run: &RunSpec) -> Route<'_> {
        match (&run.job, &run.simulated, &run.http) {
            (Some(_), None, None) => Route::Job,
            (None, Some(_), None) => match self.simulated.as_deref() {
                Some(service) => Route::Simulated(service),
                None => Route::Nowhere(SIMULATED_REFUSED),
            },
            (None, None, Some(_)) => Route::Nowhere(HTTP_REFUSED),
            _ => Route::Nowhere(NONE_NAMED),
        }
    }

    /// Whether the run would be accepted, without creating anything.
    pub async fn accept(&self, request: &RunRequest) -> Result<Acceptance, ProviderError> {
        match self.route(&request.run) {
            Route::Job => self.job.accept(request).await,
            Route::Simulated(_) => Ok(Acceptance::Accepted),
            Route::Nowhere(why) => Ok(Acceptance::Refused { message: why.to_owned() }),
        }
    }

    /// Creates something inert for an attempt for which nothing is committed yet. Only in a parent
    /// that this term has sealed and that is not being deleted.
    pub async fn prepare<P>(
        &self,
        parent: &Sealed<P>,
        request: &RunRequest,
    ) -> Result<Prepared, ProviderError> {
        match self.route(&request.run) {
            Route::Job => self.job.prepare(parent, request).await,
            Route::Simulated(service) => {
                leading(parent.permit())?;
                service.prepare(request)
            }
            Route::Nowhere(why) => Ok(Prepared::Refused { message: why.to_owned() }),
        }
    }

    /// Makes the committed handle run. Calling it again changes nothing. A conflict means: look at
    /// the status again.
    pub async fn release<P>(
        &self,
        parent: &Sealed<P>,
        request: &RunRequest,
        handle: &str,
    ) -> Result<(), ProviderError> {
        match self.route(&request.run) {
            Route::Job => self.job.release(parent, request, handle).await,
            Route::Simulated(service) => {
                leading(parent.permit())?;
                service.release(handle)
            }
            Route::Nowhere(why) => Err(ProviderError::Conflict(why.to_owned())),
        }
    }

    /// How a committed run stands. Without a handle it is absent: nothing that was not committed was
    /// released.
    pub async fn status(
        &self,
        request: &RunRequest,
        committed: &Committed,
    ) -> Result<RunStatus, ProviderError> {
        match self.route(&request.run) {
            _ if committed.handle.is_none() => Ok(RunStatus::Absent),
            Route::Job => self.job.status(request, committed).await,
            Route::Simulated(service) => simulated::status(service, request.class, committed),
            // Committed by an operator that could: whoever runs it is not asked by this one.
            Route::Nowhere(why) => Ok(RunStatus::Unknown {
                reason: "ProviderNotSupported".into(),
                message: why.to_owned(),
            }),
        }
    }

    /// Takes the next step of ending a committed run whose stop is recorded, or whose outcome is.
    /// Call it until the status says that the run is over.
    pub async fn cancel(
        &self,
        permit: &Permit,
        request: &RunRequest,
        committed: &Committed,
        outcome_recorded: bool,
    ) -> Result<CancelStep, ProviderError> {
        match self.route(&request.run) {
            Route::Job => self.job.cancel(permit, request, committed, outcome_recorded).await,
            Route::Simulated(service) => {
                leading(permit)?;
                simulated::cancel(service, committed, outcome_recorded)
            }
            Route::Nowhere(why) => Ok(CancelStep::Waits { message: why.to_owned() }),
        }
    }

    /// Stops everything that runs for a parent that is gone or being deleted, and says whether it is
    /// proven over. Call it until it is.
    pub async fn stop_orphans(
        &self,
        permit: &Permit,
        orphan: &Orphan,
    ) -> Result<Orphans, ProviderError> {
        let is_simulated =
            |known: &Committed| known.handle.as_deref().is_some_and(simulated::is_simulated);
        let some_simulated = orphan.attempts.iter().flatten().any(is_simulated);
        if some_simulated {
            leading(permit)?;
            let Some(service) = self.simulated.as_deref() else {
                return Ok(Orphans::NotYet { message: SIMULATED_REFUSED.to_owned() });
            };
            if let not_yet @ Orphans::NotYet { .. } = simulated::stop_orphans(service, orphan)? {
                return Ok(not_yet);
            }
        }
        let mut of_jobs = orphan.clone();
        if let Some(attempts) = &mut of_jobs.attempts {
            attempts.retain(|known| !is_simulated(known));
        }
        self.job.stop_orphans(permit, &of_jobs).await
    }

    /// The outcome of the attempt with this handle is recorded: what was remembered of it goes.
    pub fn forget(&self, handle: &str) {
        self.job.sightings().forget(handle);
    }
}

fn leading(permit: &Permit) -> Result<(), ProviderError> {
    permit.check().map_err(|_| ProviderError::NotLeading)
}
