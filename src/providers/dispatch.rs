//! One door to all providers: each run goes to the one it names.

use std::sync::Arc;

use super::{
    Acceptance, CancelStep, Committed, Orphan, Orphans, Prepared, ProviderError, RunRequest,
    RunStatus,
    http::{self, HttpProvider},
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
/// Said of `run.http` where nothing outside is ever asked: in rehearsals.
const HTTP_REFUSED: &str =
    "run.http is refused: a rehearsal asks no service outside; use run.simulated";
/// Said of a run that names no provider.
const NONE_NAMED: &str = "run needs exactly one of job, http, simulated";

/// All providers.
pub struct Providers {
    job: JobProvider,
    simulated: Option<Arc<dyn SimulatedService>>,
    http: Option<HttpProvider>,
}

/// Where a run goes.
enum Route<'a> {
    Job,
    Simulated(&'a dyn SimulatedService),
    Http(&'a HttpProvider),
    Nowhere(&'static str),
}

impl Providers {
    /// Providers of Jobs and, if there are any, of simulated runs and of runs outside the cluster.
    pub fn new(
        job: JobProvider,
        simulated: Option<Arc<dyn SimulatedService>>,
        http: Option<HttpProvider>,
    ) -> Self {
        Self { job, simulated, http }
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
            (None, None, Some(_)) => match &self.http {
                Some(http) => Route::Http(http),
                None => Route::Nowhere(HTTP_REFUSED),
            },
            _ => Route::Nowhere(NONE_NAMED),
        }
    }

    /// Whether the run would be accepted, without creating anything.
    pub async fn accept(&self, request: &RunRequest) -> Result<Acceptance, ProviderError> {
        match self.route(&request.run) {
            Route::Job => self.job.accept(request).await,
            Route::Simulated(_) => Ok(Acceptance::Accepted),
            Route::Http(http) => Ok(http.accept(request).await),
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
            Route::Http(http) => http.prepare(parent.permit(), request).await,
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
            Route::Http(http) => http.release(parent.permit(), request, handle).await,
            Route::Nowhere(why) => Err(ProviderError::Conflict(why.to_owned())),
        }
    }

    /// Takes back what may have been prepared of an attempt of which nothing is committed, and never
    /// will be. Once it is done, nothing of it runs.
    pub async fn withdraw(
        &self,
        permit: &Permit,
        request: &RunRequest,
    ) -> Result<(), ProviderError> {
        match self.route(&request.run) {
            Route::Http(http) => http.withdraw(permit, request).await,
            // What was prepared is held until its handle is committed and released.
            Route::Job | Route::Simulated(_) | Route::Nowhere(_) => Ok(()),
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
            Route::Http(http) => http.status(request, committed).await,
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
            Route::Http(http) => http.cancel(permit, request, committed, outcome_recorded).await,
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
        let perhaps =
            orphan.attempts.is_none() && orphan.http.is_none() && self.simulated.is_some();
        if some_simulated || perhaps {
            leading(permit)?;
            let Some(service) = self.simulated.as_deref() else {
                return Ok(Orphans::NotYet { message: SIMULATED_REFUSED.to_owned() });
            };
            if let not_yet @ Orphans::NotYet { .. } = simulated::stop_orphans(service, orphan)? {
                return Ok(not_yet);
            }
        }
        let is_http = |known: &Committed| known.handle.as_deref().is_some_and(http::is_http);
        if orphan.http.is_some() {
            let Some(service) = &self.http else {
                return Ok(Orphans::NotYet { message: HTTP_REFUSED.to_owned() });
            };
            if let not_yet @ Orphans::NotYet { .. } = service.stop_orphans(permit, orphan).await? {
                return Ok(not_yet);
            }
        }
        let mut of_jobs = orphan.clone();
        if orphan.http.is_some() {
            // Its service has said how its runs ended; a Job that it had nevertheless carries its uid.
            of_jobs.attempts.get_or_insert_default();
        }
        if let Some(attempts) = &mut of_jobs.attempts {
            attempts.retain(|known| !is_simulated(known) && !is_http(known));
        }
        self.job.stop_orphans(permit, &of_jobs).await
    }

    /// Whether something still acts for a parent that is over, as far as is known without asking: a
    /// copy that a person made of its Job, for example. Then [`Providers::stop_orphans`] ends it.
    pub fn acts_for(&self, parent_uid: &str) -> bool {
        self.job.acts_for(parent_uid)
    }

    /// The outcome of the attempt with this handle is recorded: what was remembered of it goes.
    pub fn forget(&self, handle: &str) {
        self.job.sightings().forget(handle);
    }
}

fn leading(permit: &Permit) -> Result<(), ProviderError> {
    permit.check().map_err(|_| ProviderError::NotLeading)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        api::{ActionClass, Fence, MaintenanceOccurrence},
        authority::{Fenced as _, Gate, Term},
        cluster::{Cache, Clients, NoObserver, fake::FakeApi},
        providers::{
            job::{Sightings, fixtures},
            simulated::InProcess,
        },
        time::{LeaseClock, LeaseInstant, WallClock},
        yaml,
    };

    struct Scene {
        fake: FakeApi,
        gate: Gate,
        providers: Providers,
    }

    fn scene(allow_simulated: bool) -> Scene {
        let fake = FakeApi::new();
        let clients = Clients::single(fake.client());
        let clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let gate = Gate::new(clock.clone());
        gate.open(&Term { epoch: 7, nonce: "n7".into() }, LeaseInstant::from_nanos(1));
        let jobs = Cache::new(|_| None, |_: &crate::cluster::Change<'_, _>| {});
        let writer = Arc::new(clients.writer(NoObserver));
        let sightings = Sightings::new();
        let job = JobProvider::new(clients.reader(), writer, jobs, sightings, clock.clone());
        let service = || {
            Arc::new(InProcess::new("p1", clock, WallClock::system())) as Arc<dyn SimulatedService>
        };
        let simulated = allow_simulated.then(service);
        Scene { fake, gate, providers: Providers::new(job, simulated, None) }
    }

    impl Scene {
        fn parent(&self) -> Sealed<MaintenanceOccurrence> {
            let mut parent: MaintenanceOccurrence = yaml::from_str(
                "{metadata: {name: a-202611290200}, spec: {scheduleName: a, intendedTime: \
                 '2026-11-29T02:00:00Z'}}",
            )
            .unwrap();
            parent.set_fence(Fence { epoch: 7, nonce: "n7".into() });
            Sealed::of(&self.gate.permit().unwrap(), parent).unwrap()
        }
    }

    fn request(run: &str) -> RunRequest {
        RunRequest { run: yaml::from_str(run).unwrap(), ..fixtures::request("{}") }
    }

    fn committed(handle: &str) -> Committed {
        Committed { handle: Some(handle.into()), ..Committed::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_can_run_is_refused_with_the_fix() {
        for (description, run, part) in [
            ("http", "{http: {url: 'https://a.example'}}", "a rehearsal asks no service outside"),
            ("simulated, not allowed", "{simulated: {}}", "--allow-simulated"),
            ("none", "{}", "exactly one of job, http, simulated"),
            ("two", "{simulated: {}, job: {template: {}}}", "exactly one of job, http, simulated"),
        ] {
            let scene = scene(false);
            let (request, parent) = (request(run), scene.parent());
            match scene.providers.prepare(&parent, &request).await.unwrap() {
                Prepared::Refused { message } => assert!(message.contains(part), "{message}"),
                other => panic!("{description}: {other:?}"),
            }
            match scene.providers.accept(&request).await.unwrap() {
                Acceptance::Refused { message } => assert!(message.contains(part), "{message}"),
                other => panic!("{description}: {other:?}"),
            }
            let known = committed("x");
            let status = scene.providers.status(&request, &known).await.unwrap();
            assert!(matches!(status, RunStatus::Unknown { .. }), "{description}: {status:?}");
            let released = scene.providers.release(&parent, &request, "x").await;
            assert!(matches!(released, Err(ProviderError::Conflict(_))), "{description}");
            let none = scene.providers.status(&request, &Committed::default()).await.unwrap();
            assert_eq!(none, RunStatus::Absent, "{description}");
            assert!(scene.fake.log().is_empty(), "{description}: the cluster is left alone");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulated_run_goes_through_the_same_steps_and_touches_no_cluster() {
        let scene = scene(true);
        let (request, parent) = (request("{simulated: {durationSeconds: 0}}"), scene.parent());
        let providers = &scene.providers;
        assert_eq!(providers.accept(&request).await, Ok(Acceptance::Accepted));
        let Ok(Prepared::Ready { handle }) = providers.prepare(&parent, &request).await else {
            panic!("not ready")
        };
        let known = committed(&handle);
        assert_eq!(providers.status(&request, &known).await, Ok(RunStatus::Held));
        providers.release(&parent, &request, &handle).await.unwrap();
        let status = providers.status(&request, &known).await.unwrap();
        assert!(matches!(status, RunStatus::Succeeded { .. }), "{status:?}");
        assert!(scene.fake.log().is_empty());

        let permit = scene.gate.permit().unwrap();
        scene.gate.lose();
        let lost = Err(ProviderError::NotLeading);
        assert_eq!(providers.release(&parent, &request, &handle).await, lost);
        let prepared = providers.prepare(&parent, &request).await;
        assert_eq!(prepared, Err(ProviderError::NotLeading));
        let cancelled = providers.cancel(&permit, &request, &known, true).await;
        assert_eq!(cancelled, Err(ProviderError::NotLeading));
    }

    #[tokio::test(start_paused = true)]
    async fn every_step_can_move_between_threads() {
        fn can_move<T: Send>(_: T) {}
        let scene = scene(true);
        let (request, parent) = (request("{simulated: {}}"), scene.parent());
        let (providers, none) = (&scene.providers, Committed::default());
        can_move(providers.accept(&request));
        can_move(providers.prepare(&parent, &request));
        can_move(providers.release(&parent, &request, "x"));
        can_move(providers.status(&request, &none));
        can_move(providers.cancel(parent.permit(), &request, &none, false));
    }

    #[tokio::test(start_paused = true)]
    async fn orphans_of_both_providers_are_ended() {
        let scene = scene(true);
        let (request, parent) = (request("{simulated: {}}"), scene.parent());
        let Ok(Prepared::Ready { handle }) = scene.providers.prepare(&parent, &request).await
        else {
            panic!("not ready")
        };
        scene.providers.release(&parent, &request, &handle).await.unwrap();
        let orphan = |attempts: Vec<Committed>| Orphan {
            namespace: "docs".into(),
            parent_uid: "parent-1".into(),
            class: ActionClass::Fenced,
            attempts: Some(attempts),
            http: None,
            run_key: None,
        };
        let permit = scene.gate.permit().unwrap();
        let stop = async |attempts| {
            scene.providers.stop_orphans(&permit, &orphan(attempts)).await.unwrap()
        };
        assert_eq!(stop(vec![committed(&handle)]).await, Orphans::Over);
        let cancelled = scene.providers.status(&request, &committed(&handle)).await.unwrap();
        assert_eq!(cancelled, RunStatus::Absent);
        let unseen_job = stop(vec![committed(&handle), committed("job-9")]).await;
        assert!(matches!(unseen_job, Orphans::NotYet { .. }), "{unseen_job:?}");

        let job = json!({
            "metadata": {"name": "m1", "labels": {"punctual.dev/parent-uid": "parent-1"}},
            "spec": {"suspend": true, "template": {}},
        });
        scene.fake.put("/apis/batch/v1/namespaces/docs/jobs", job);
        let held = stop(vec![committed(&handle)]).await;
        assert!(matches!(held, Orphans::NotYet { .. }), "an uncommitted Job is removed: {held:?}");
        assert_eq!(stop(vec![committed(&handle)]).await, Orphans::Over);
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulated_run_of_which_only_the_key_is_known_is_ended_too() {
        let scene = scene(true);
        let (request, parent) = (request("{simulated: {outcome: Hang}}"), scene.parent());
        let Ok(Prepared::Ready { handle }) = scene.providers.prepare(&parent, &request).await
        else {
            panic!("not ready")
        };
        scene.providers.release(&parent, &request, &handle).await.unwrap();
        let orphan = Orphan {
            namespace: "docs".into(),
            parent_uid: "parent-1".into(),
            class: ActionClass::Idempotent,
            attempts: None,
            http: None,
            run_key: Some(request.run_key.clone()),
        };
        let permit = scene.gate.permit().unwrap();
        let stopped = scene.providers.stop_orphans(&permit, &orphan).await.unwrap();
        assert!(matches!(stopped, Orphans::NotYet { .. }), "it still acts: {stopped:?}");
        let told = scene.providers.status(&request, &committed(&handle)).await.unwrap();
        assert_eq!(told, RunStatus::Stopping);
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_orphans_wait_where_they_are_not_allowed() {
        let scene = scene(false);
        let orphan = Orphan {
            namespace: "docs".into(),
            parent_uid: "parent-1".into(),
            class: ActionClass::Fenced,
            attempts: Some(vec![committed("simulated/p1/x")]),
            http: None,
            run_key: None,
        };
        let permit = scene.gate.permit().unwrap();
        let stopped = scene.providers.stop_orphans(&permit, &orphan).await.unwrap();
        assert!(matches!(stopped, Orphans::NotYet { .. }), "{stopped:?}");
    }
}
