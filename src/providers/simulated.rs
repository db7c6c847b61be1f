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
    /// The handle of the run that is held or ran under this run key; `None` if the service knows none.
    fn find(&self, run_key: &str) -> Result<Option<String>, ProviderError>;
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
    let mut recorded = orphan.attempts.clone().unwrap_or_default();
    if let (None, Some(run_key)) = (&orphan.attempts, &orphan.run_key)
        && let Some(handle) = service.find(run_key)?
    {
        // Nobody who leads has seen its record; its claim or entry names the key.
        recorded.push(Committed { handle: Some(handle), ..Committed::default() });
    }
    let is_ours = |known: &&Committed| known.handle.as_deref().is_some_and(is_simulated);
    for known in recorded.iter().filter(is_ours) {
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

    fn find(&self, run_key: &str) -> Result<Option<String>, ProviderError> {
        let handle = self.handle(run_key);
        Ok(self.lock().contains_key(&handle).then_some(handle))
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
mod tests;
