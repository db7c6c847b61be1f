//! Runs that only pretend: for drills and demos.
//!
//! What executes them is behind [`SimulatedService`]. [`InProcess`] lives in the operator's own
//! process and forgets everything with it; a simulation puts one service outside all replicas.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use super::{
    CancelStep, Committed, Delivered, FailureClass, Orphan, Orphans, Prepared, ProviderError,
    RunRequest, RunStatus,
};
use crate::{
    api::{ActionClass, SimulatedOutcome, SimulatedRun},
    time::{LeaseClock, LeaseInstant, WallClock},
};

/// How long a simulated run takes if nothing else is said.
pub const DEFAULT_SECONDS: u64 = 10;
/// Simulated runs that one process keeps: far more than a demo has. Runs that are over make room.
const MAX_RUNS: usize = 10_000;
/// What the handles of simulated runs begin with, so that they are never taken for a Job's uid.
const HANDLE_PREFIX: &str = "simulated/";

/// Executes simulated runs, known by their handle. Answers [`ProviderError::Unreachable`] when it
/// cannot be asked.
pub trait SimulatedService: Send + Sync {
    /// Holds a run under its run key, or finds the one that is held or ran already. The handle it
    /// gives must begin with [`handle_prefix`].
    fn prepare(&self, request: &RunRequest) -> Result<Prepared, ProviderError>;
    /// Lets a held run start; does nothing to one that started.
    fn release(&self, handle: &str) -> Result<(), ProviderError>;
    /// How the run stands; `None` if this service does not know it.
    fn status(&self, handle: &str) -> Result<Option<RunStatus>, ProviderError>;
    /// Ends the run. Its status says when it is over.
    fn cancel(&self, handle: &str) -> Result<(), ProviderError>;
}

/// What the handle of every simulated run begins with.
pub fn handle_prefix() -> &'static str {
    HANDLE_PREFIX
}

/// Whether a handle is that of a simulated run.
pub fn is_simulated(handle: &str) -> bool {
    handle.starts_with(HANDLE_PREFIX)
}

/// How a committed run stands.
///
/// One that the service does not know is unknown: it may have been released before, and then it may
/// have run. For `ReadOnly` and `Idempotent` that suffices once a stop was requested.
pub fn status(
    service: &dyn SimulatedService,
    class: ActionClass,
    committed: &Committed,
) -> Result<RunStatus, ProviderError> {
    let Some(handle) = &committed.handle else { return Ok(RunStatus::Absent) };
    if let Some(status) = service.status(handle)? {
        return Ok(status);
    }
    let suffices = match class {
        ActionClass::ReadOnly | ActionClass::Idempotent => committed.stop_requested.is_some(),
        ActionClass::Fenced => false,
    };
    Ok(if suffices {
        RunStatus::Absent
    } else {
        RunStatus::Unknown {
            reason: "EndNotSeen".into(),
            message:
                "the simulated provider does not know this run: the process that ran it is gone"
                    .into(),
        }
    })
}

/// Takes the next step of ending a committed run. The stop must be recorded first.
pub fn cancel(
    service: &dyn SimulatedService,
    committed: &Committed,
    outcome_recorded: bool,
) -> Result<CancelStep, ProviderError> {
    let Some(handle) = &committed.handle else { return Ok(CancelStep::Asked) };
    if committed.stop_requested.is_none() && !outcome_recorded {
        let why = "a run is stopped only after the request is recorded".to_owned();
        return Err(ProviderError::Conflict(why));
    }
    service.cancel(handle)?;
    Ok(CancelStep::Asked)
}

/// Ends the simulated runs of a parent that is gone or being deleted, as far as they are recorded.
pub fn stop_orphans(
    service: &dyn SimulatedService,
    orphan: &Orphan,
) -> Result<Orphans, ProviderError> {
    let recorded = orphan.attempts.iter().flatten();
    for known in recorded.filter(|known| known.handle.as_deref().is_some_and(is_simulated)) {
        let stop_requested = known.stop_requested.or(Some(Timestamp::UNIX_EPOCH));
        let committed = Committed { stop_requested, ..known.clone() };
        cancel(service, &committed, true)?;
        match status(service, orphan.class, &committed)? {
            RunStatus::Absent | RunStatus::Succeeded { .. } | RunStatus::Failed { .. } => {}
            RunStatus::Unknown { message, .. } => return Ok(Orphans::NotYet { message }),
            RunStatus::Held
            | RunStatus::Released { .. }
            | RunStatus::Running { .. }
            | RunStatus::Stopping
            | RunStatus::StoppedByOthers { .. } => {
                let message = "a simulated run is being ended".to_owned();
                return Ok(Orphans::NotYet { message });
            }
        }
    }
    Ok(Orphans::Over)
}

/// The service inside the operator's own process.
///
/// Nothing happens in the background: a run that was released is over once its duration has passed
/// on the clock when somebody asks.
pub struct InProcess {
    runs: Mutex<BTreeMap<String, Run>>,
    /// Tells the runs of this process from those of another with the same run key.
    instance: String,
    elapsed: LeaseClock,
    wall: WallClock,
}

struct Run {
    spec: SimulatedRun,
    phase: Phase,
}

enum Phase {
    Held,
    Started { since: LeaseInstant, at: Timestamp, stopping: bool },
    Cancelled,
}

impl InProcess {
    /// A service without runs. `instance` is different in every process.
    pub fn new(instance: impl Into<String>, elapsed: LeaseClock, wall: WallClock) -> Self {
        Self { runs: Mutex::default(), instance: instance.into(), elapsed, wall }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Run>> {
        // Every change is one assignment.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, run_key: &str) -> String {
        format!("{HANDLE_PREFIX}{}/{run_key}", self.instance)
    }
}

impl Run {
    fn duration(&self) -> Duration {
        let seconds = self.spec.duration_seconds.and_then(|secs| u64::try_from(secs).ok());
        Duration::from_secs(seconds.unwrap_or(DEFAULT_SECONDS))
    }

    fn outcome(&self) -> SimulatedOutcome {
        self.spec.outcome.unwrap_or_default()
    }

    fn status(&self, now: LeaseInstant) -> RunStatus {
        let (since, at, stopping) = match self.phase {
            Phase::Held => return RunStatus::Held,
            Phase::Cancelled => return RunStatus::Absent,
            Phase::Started { since, at, stopping } => (since, at, stopping),
        };
        let duration = self.duration();
        let completed = at.checked_add(duration).ok();
        match self.outcome() {
            SimulatedOutcome::Hang if stopping => RunStatus::Stopping,
            _ if now.since(since) < duration => RunStatus::Running { started: at, pod: None },
            SimulatedOutcome::Hang => RunStatus::Running { started: at, pod: None },
            SimulatedOutcome::Succeeded => RunStatus::Succeeded {
                started: Some(at),
                completed,
                result: self.spec.result.clone(),
                result_lost: false,
                artifact: Delivered::Nothing,
            },
            SimulatedOutcome::Failed => {
                let reason = self.spec.reason.clone().unwrap_or_else(|| "Simulated".to_owned());
                RunStatus::Failed {
                    started: Some(at),
                    completed,
                    class: class_of(&reason),
                    message: format!("the simulated run failed as it was told to ({reason})"),
                    reason,
                }
            }
            SimulatedOutcome::Unknown => RunStatus::Unknown {
                reason: "EndNotSeen".into(),
                message: "the simulated provider cannot say how the run ended, as it was told to"
                    .into(),
            },
        }
    }
}

/// What a reason of a simulated failure says about a retry.
pub(crate) fn class_of(reason: &str) -> FailureClass {
    match reason {
        "Crash" => FailureClass::Deterministic,
        "Evicted" | "Preempted" | "NodeLost" => FailureClass::Disruption,
        _ => FailureClass::Transient,
    }
}

impl SimulatedService for InProcess {
    fn prepare(&self, request: &RunRequest) -> Result<Prepared, ProviderError> {
        let spec = request.run.simulated.clone().unwrap_or_default();
        let handle = self.handle(&request.run_key);
        let now = self.elapsed.now();
        let mut runs = self.lock();
        if !runs.contains_key(&handle) && runs.len() >= MAX_RUNS {
            runs.retain(|_, run| {
                let status = run.status(now);
                !matches!(
                    status,
                    RunStatus::Absent | RunStatus::Succeeded { .. } | RunStatus::Failed { .. }
                )
            });
            if runs.len() >= MAX_RUNS {
                let message = format!("{MAX_RUNS} simulated runs are under way");
                return Ok(Prepared::NotYet { message });
            }
        }
        let run = runs
            .entry(handle.clone())
            .or_insert_with(|| Run { spec: spec.clone(), phase: Phase::Held });
        if matches!(run.phase, Phase::Held) {
            run.spec = spec;
        }
        Ok(Prepared::Ready { handle })
    }

    fn release(&self, handle: &str) -> Result<(), ProviderError> {
        let (since, at) = (self.elapsed.now(), self.wall.now());
        let mut runs = self.lock();
        match runs.get_mut(handle) {
            None => Err(ProviderError::Conflict("the simulated run is not known here".into())),
            Some(Run { phase: Phase::Cancelled, .. }) => {
                Err(ProviderError::Conflict("the simulated run was cancelled".into()))
            }
            Some(Run { phase: Phase::Started { .. }, .. }) => Ok(()),
            Some(run) => {
                run.phase = Phase::Started { since, at, stopping: false };
                Ok(())
            }
        }
    }

    fn status(&self, handle: &str) -> Result<Option<RunStatus>, ProviderError> {
        let now = self.elapsed.now();
        Ok(self.lock().get(handle).map(|run| run.status(now)))
    }

    fn cancel(&self, handle: &str) -> Result<(), ProviderError> {
        let now = self.elapsed.now();
        let mut runs = self.lock();
        let Some(run) = runs.get_mut(handle) else { return Ok(()) };
        let hangs = run.outcome() == SimulatedOutcome::Hang;
        match (run.status(now), &mut run.phase) {
            // What ended before it was cancelled stays so.
            (RunStatus::Succeeded { .. } | RunStatus::Failed { .. }, _) => {}
            (_, Phase::Started { stopping, .. }) if hangs => *stopping = true,
            (_, phase) => *phase = Phase::Cancelled,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        api::{ResultValue, RunSpec},
        providers::job::fixtures,
        yaml,
    };

    struct Scene {
        service: InProcess,
        clock: LeaseClock,
    }

    fn at(seconds: u64) -> LeaseInstant {
        LeaseInstant::from_nanos(0).after(Duration::from_secs(seconds))
    }

    const START: &str = "2026-11-29T02:00:00Z";

    impl Scene {
        fn new() -> Self {
            let clock = LeaseClock::driven(at(0));
            let wall = WallClock::driven(START.parse().unwrap());
            Self { service: InProcess::new("p1", clock.clone(), wall), clock }
        }

        /// Prepares and releases a run; gives its record.
        fn run(&self, spec: &str) -> Committed {
            let Prepared::Ready { handle } = self.service.prepare(&request(spec)).unwrap() else {
                panic!("not ready")
            };
            self.service.release(&handle).unwrap();
            Committed { handle: Some(handle), ..Committed::default() }
        }

        fn status(&self, committed: &Committed) -> RunStatus {
            status(&self.service, ActionClass::Fenced, committed).unwrap()
        }
    }

    fn request(spec: &str) -> RunRequest {
        let simulated = Some(yaml::from_str(spec).unwrap());
        let run = RunSpec { simulated, ..RunSpec::default() };
        RunRequest { run, ..fixtures::request("{}") }
    }

    fn stopped(committed: &Committed) -> Committed {
        Committed { stop_requested: Some(START.parse().unwrap()), ..committed.clone() }
    }

    fn kind(status: &RunStatus) -> &'static str {
        match status {
            RunStatus::Held => "Held",
            RunStatus::Released { .. } => "Released",
            RunStatus::Running { .. } => "Running",
            RunStatus::Succeeded { .. } => "Succeeded",
            RunStatus::Failed { .. } => "Failed",
            RunStatus::Absent => "Absent",
            RunStatus::Stopping => "Stopping",
            RunStatus::Unknown { .. } => "Unknown",
            RunStatus::StoppedByOthers { .. } => "StoppedByOthers",
        }
    }

    #[test]
    fn a_run_is_held_until_released_and_takes_its_time() {
        let scene = Scene::new();
        let spec = "{durationSeconds: 30, result: {rows: 3}}";
        let Prepared::Ready { handle } = scene.service.prepare(&request(spec)).unwrap() else {
            panic!("not ready")
        };
        assert!(is_simulated(&handle) && handle.len() <= 128);
        let committed = Committed { handle: Some(handle.clone()), ..Committed::default() };
        scene.clock.set(at(100));
        assert_eq!(scene.status(&committed), RunStatus::Held);
        scene.service.release(&handle).unwrap();
        scene.clock.set(at(129));
        scene.service.release(&handle).unwrap();
        let started = START.parse().unwrap();
        assert_eq!(scene.status(&committed), RunStatus::Running { started, pod: None });
        scene.clock.set(at(130));
        assert_eq!(
            scene.status(&committed),
            RunStatus::Succeeded {
                started: Some(started),
                completed: Some("2026-11-29T02:00:30Z".parse().unwrap()),
                result: Some(BTreeMap::from([("rows".into(), ResultValue::Integer(3))])),
                result_lost: false,
                artifact: Delivered::Nothing,
            }
        );
    }

    #[test]
    fn every_outcome_is_told_and_cancelled_as_the_contract_says() {
        for (description, spec, after, expected, cancelled) in [
            ("default, running", "{}", 9, "Running", "Absent"),
            ("default", "{}", 10, "Succeeded", "Succeeded"),
            ("no time at all", "{durationSeconds: 0}", 0, "Succeeded", "Succeeded"),
            ("fails", "{outcome: Failed}", 10, "Failed", "Failed"),
            ("cannot say, running", "{outcome: Unknown}", 9, "Running", "Absent"),
            ("cannot say", "{outcome: Unknown}", 10, "Unknown", "Absent"),
            ("hangs", "{outcome: Hang}", 9, "Running", "Stopping"),
            ("hangs on", "{outcome: Hang}", 100_000, "Running", "Stopping"),
        ] {
            let scene = Scene::new();
            let committed = scene.run(spec);
            scene.clock.set(at(after));
            assert_eq!(kind(&scene.status(&committed)), expected, "{description}");
            cancel(&scene.service, &stopped(&committed), false).unwrap();
            assert_eq!(kind(&scene.status(&committed)), cancelled, "{description}, cancelled");
        }
    }

    #[test]
    fn reasons_say_what_a_retry_may_expect() {
        for (reason, class) in [
            ("Crash", FailureClass::Deterministic),
            ("NodeLost", FailureClass::Disruption),
            ("Unavailable", FailureClass::Transient),
        ] {
            let scene = Scene::new();
            let committed =
                scene.run(&format!("{{durationSeconds: 0, outcome: Failed, reason: {reason}}}"));
            match scene.status(&committed) {
                RunStatus::Failed { reason: told, class: told_class, .. } => {
                    assert_eq!((told.as_str(), told_class), (reason, class));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn one_key_is_one_run() {
        let scene = Scene::new();
        let first = scene.service.prepare(&request("{durationSeconds: 5}")).unwrap();
        let again = scene.service.prepare(&request("{durationSeconds: 7}")).unwrap();
        assert_eq!(first, again, "held: the newest content under the same handle");
        let committed = scene.run("{durationSeconds: 7}");
        scene.clock.set(at(6));
        assert_eq!(kind(&scene.status(&committed)), "Running");
        let adopted = scene.service.prepare(&request("{durationSeconds: 1}")).unwrap();
        assert_eq!(adopted, first, "started: found, not started again");
        assert_eq!(kind(&scene.status(&committed)), "Running");
    }

    #[test]
    fn a_cancelled_run_is_never_released_and_a_cancel_waits_for_its_record() {
        let scene = Scene::new();
        let committed = scene.run("{}");
        let early = cancel(&scene.service, &committed, false);
        assert!(matches!(early, Err(ProviderError::Conflict(_))), "{early:?}");
        assert_eq!(kind(&scene.status(&committed)), "Running");
        cancel(&scene.service, &stopped(&committed), false).unwrap();
        let released = scene.service.release(committed.handle.as_deref().unwrap());
        assert!(matches!(released, Err(ProviderError::Conflict(_))), "{released:?}");
        assert_eq!(scene.status(&committed), RunStatus::Absent);
    }

    #[test]
    fn a_run_of_another_process_is_unknown() {
        let committed = Scene::new().run("{}");
        let scene = Scene::new();
        let other = InProcess::new("p2", scene.clock.clone(), WallClock::system());
        let ask = |class, committed: &Committed| kind(&status(&other, class, committed).unwrap());
        for (description, class, committed, expected) in [
            ("nothing committed", ActionClass::Fenced, Committed::default(), "Absent"),
            ("Fenced", ActionClass::Fenced, committed.clone(), "Unknown"),
            ("Fenced, stop requested", ActionClass::Fenced, stopped(&committed), "Unknown"),
            ("ReadOnly", ActionClass::ReadOnly, committed.clone(), "Unknown"),
            ("ReadOnly, stop requested", ActionClass::ReadOnly, stopped(&committed), "Absent"),
            ("Idempotent, stop requested", ActionClass::Idempotent, stopped(&committed), "Absent"),
        ] {
            assert_eq!(ask(class, &committed), expected, "{description}");
        }
        let handle = committed.handle.unwrap();
        assert!(matches!(other.release(&handle), Err(ProviderError::Conflict(_))));
        other.cancel(&handle).unwrap();
    }

    #[test]
    fn orphans_are_ended() {
        let scene = Scene::new();
        let orphan = |attempts| Orphan {
            namespace: "docs".into(),
            parent_uid: "parent-1".into(),
            class: ActionClass::Fenced,
            attempts,
        };
        let running = scene.run("{}");
        let unknown = Committed { handle: Some("simulated/p0/x".into()), ..Committed::default() };
        let job = Committed { handle: Some("a-uid".into()), ..Committed::default() };
        let stop = |attempts| stop_orphans(&scene.service, &orphan(attempts)).unwrap();
        assert_eq!(stop(None), Orphans::Over, "Jobs are not asked for here");
        assert_eq!(stop(Some(vec![Committed::default(), job])), Orphans::Over);
        assert_eq!(stop(Some(vec![running.clone()])), Orphans::Over);
        assert_eq!(scene.status(&running), RunStatus::Absent);
        assert!(matches!(stop(Some(vec![unknown])), Orphans::NotYet { .. }));
    }

    #[test]
    fn runs_that_are_over_make_room() {
        let scene = Scene::new();
        let with_key = |n: usize| RunRequest { run_key: format!("k{n}"), ..request("{}") };
        for n in 0..MAX_RUNS {
            scene.service.prepare(&with_key(n)).unwrap();
        }
        let full = scene.service.prepare(&with_key(MAX_RUNS)).unwrap();
        assert!(matches!(full, Prepared::NotYet { .. }), "{full:?}");
        scene.service.cancel(&scene.service.handle("k5")).unwrap();
        let ready = scene.service.prepare(&with_key(MAX_RUNS)).unwrap();
        assert!(matches!(ready, Prepared::Ready { .. }), "{ready:?}");
        assert_eq!(scene.service.lock().len(), MAX_RUNS);
    }
}
