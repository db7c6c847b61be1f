//! A report job as a run: its status is the record of a life, under its own names.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use serde_json::json;

use super::{Place, Snapshot, Standing, WAITING};
use crate::{
    api::{
        ActionClass, ArtifactPolicy, MAX_PARAMETERS, MAX_PARAMETERS_BYTES, ReportJob,
        ReportJobStatus, ReportState, RunSpec, Time,
    },
    identity::{AttemptNames, WorkId, canonical_json, sha256_hex},
    runs::{
        self, ArtifactRule, Asked, End, Limits, Phase, RECORD_RELEASE_AFTER, Record, Right, Start,
        Words, Work,
    },
    schedules,
};

/// How report jobs speak.
const WORDS: Words =
    Words { not_run: "Failed", superseded: "Cancelled", run_other: "create another ReportJob" };

/// What a write changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct New {
    /// The life so far.
    pub(super) record: Record,
    /// The state.
    pub(super) state: ReportState,
    /// When to create a rejected one again.
    pub(super) retry_after: Option<Time>,
    /// Its place in the queue, if that is worth a change.
    pub(super) place: Option<Place>,
}

/// What a report state is to a run.
pub trait ReportPhase {
    /// Where the run stands in it.
    fn phase(self) -> Phase;
    /// Whether the job holds a slot of its queue in it.
    fn holds_slot(self) -> bool;
}

impl ReportPhase for ReportState {
    fn phase(self) -> Phase {
        match self {
            Self::Queued => Phase::Waiting,
            Self::Admitted => Phase::Starting,
            Self::Running => Phase::Running,
            Self::Cancelling => Phase::Stopping,
            Self::Unresolved => Phase::Unresolved,
            Self::Succeeded => Phase::Over(End::Succeeded),
            Self::Failed => Phase::Over(End::Failed),
            Self::Cancelled => Phase::Over(End::Cancelled),
            Self::Rejected => Phase::Over(End::NotRun),
        }
    }

    fn holds_slot(self) -> bool {
        matches!(self, Self::Admitted | Self::Running | Self::Cancelling | Self::Unresolved)
    }
}

/// The state of a job whose run stands so. A run that was accepted and cannot be prepared has
/// failed; one that a newer decision replaced is cancelled.
pub(super) fn state(phase: Phase) -> ReportState {
    match phase {
        Phase::Waiting => ReportState::Queued,
        Phase::Starting => ReportState::Admitted,
        Phase::Running => ReportState::Running,
        Phase::Stopping => ReportState::Cancelling,
        Phase::Unresolved => ReportState::Unresolved,
        Phase::Over(End::Succeeded) => ReportState::Succeeded,
        Phase::Over(End::Failed | End::NotRun) => ReportState::Failed,
        Phase::Over(End::Cancelled | End::Superseded) => ReportState::Cancelled,
    }
}

/// Why a job cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRun {
    /// Neither the job nor its queue says what to run.
    #[error(
        "spec.run is absent and its queue has no runTemplate; create it again with a run, or give the queue a runTemplate first"
    )]
    Absent,
    /// `spec.parameters` over `run.parameters` is more than one run may have.
    #[error(
        "spec.parameters and run.parameters together are more than 64 entries or 8192 bytes; create it again with fewer"
    )]
    TooManyParameters,
}

/// What a job would run if its queue took it now: its own run or its queue's, with its parameters
/// over the run's. What was taken is in `status.run`, and used from then on.
pub fn wanted_run(job: &ReportJob, queue_run: Option<&RunSpec>) -> Result<RunSpec, NoRun> {
    let mut run = job.spec.run.as_deref().or(queue_run).ok_or(NoRun::Absent)?.clone();
    if let Some(own) = &job.spec.parameters {
        run.parameters = Some(run.parameters.unwrap_or_default().with(own));
    }
    let parameters = run.parameters.iter().flat_map(|all| all.iter());
    let bytes: usize = parameters.map(|(key, value)| key.len() + value.len()).sum();
    let count = run.parameters.as_ref().map_or(0, |all| all.len());
    if count > MAX_PARAMETERS || bytes > MAX_PARAMETERS_BYTES {
        return Err(NoRun::TooManyParameters);
    }
    Ok(run)
}

/// What a job runs: as it was taken, else as it would be taken now.
pub fn run_in_force(job: &ReportJob, queue_run: Option<&RunSpec>) -> Result<RunSpec, NoRun> {
    match job.status.as_ref().and_then(|status| status.run.as_ref()) {
        Some(taken) => Ok(taken.clone()),
        None => wanted_run(job, queue_run),
    }
}

/// Hex SHA-256 of the canonical JSON of `{parameters, run}`, as the job and its queue say them now.
/// Both keys are always there: no parameters are an empty object, no run is null.
pub fn content_hash(job: &ReportJob, queue_run: Option<&RunSpec>) -> String {
    let content = json!({
        "parameters": job.spec.parameters.clone().unwrap_or_default(),
        "run": job.spec.run.as_deref().or(queue_run),
    });
    sha256_hex(canonical_json(&content).as_bytes())
}

/// The identity of a job's work for systems outside the cluster: as sealed first, else as it would
/// be sealed now.
pub fn work_id(job: &ReportJob, queue_run: Option<&RunSpec>) -> WorkId {
    let namespace = job.namespace().unwrap_or_default();
    if let (Some(schedule), Some(instant)) = (&job.spec.schedule_name, job.spec.intended_time) {
        return WorkId::report(&namespace, schedule, instant);
    }
    let sealed = job.status.as_ref().and_then(|status| status.id.as_deref());
    sealed.and_then(WorkId::parse).unwrap_or_else(|| {
        WorkId::named_report(&namespace, &job.name_any(), &content_hash(job, queue_run))
    })
}

/// The identity of a job's work and the names of its attempts.
pub fn work(job: &ReportJob, queue_run: Option<&RunSpec>) -> Work {
    let (id, name) = (work_id(job, queue_run), job.name_any());
    let attempts = if job.spec.schedule_name.is_some() {
        AttemptNames::report(&name, id)
    } else {
        AttemptNames::named_report(&name, &job.uid().unwrap_or_default(), id)
    };
    Work { id: id.id(), request_id: id.request_id(), attempts }
}

/// What is recorded of the run.
pub(super) fn record(status: &ReportJobStatus) -> Record {
    Record {
        phase: status.state.map(ReportState::phase),
        reason: status.reason.clone(),
        message: status.message.clone(),
        id: status.id.clone(),
        attempt: status.attempt,
        attempts: status.attempts.clone(),
        result: status.result.clone(),
        artifact: status.artifact.clone(),
        run: status.run.clone(),
        lateness_seconds: None, // a report has no instant by which it is late
        next_attempt_time: status.next_attempt_time,
        accepted: None,
    }
}

/// What a decision about the run depends on. `wanted`: what the spec wants to run.
pub(super) fn snapshot<'a>(
    of: &'a Snapshot,
    status: &ReportJobStatus,
    wanted: Option<&'a RunSpec>,
    now: Timestamp,
) -> runs::Snapshot<'a> {
    let spec = &of.job.spec;
    let record = record(status);
    let run = record.run.clone().or_else(|| wanted.cloned());
    let limits = Limits {
        class: run.as_ref().map_or(ActionClass::Idempotent, RunSpec::report_class),
        attempts: run.as_ref().map_or(1, RunSpec::report_attempts),
    };
    runs::Snapshot {
        right: right(of, &record, now),
        state: format!("{:?}", status.state.unwrap_or(ReportState::Queued)),
        observed: status.observed_generation,
        sealed: status.fence.as_ref() == Some(&of.fence),
        epoch: of.fence.epoch,
        asked: Asked {
            generation: of.job.metadata.generation,
            cancel: spec.cancel,
            resolution: spec.resolution.as_ref(),
            run: wanted.filter(|_| spec.run.is_some()),
        },
        run,
        limits,
        work: work(&of.job, of.queue_run.as_ref()),
        artifact: match spec.artifact {
            ArtifactPolicy::Optional => ArtifactRule::Optional,
            ArtifactPolicy::Required => ArtifactRule::Required,
        },
        // What must not run twice needs its pod as the proof of its end, from the first moment.
        spare: match limits.class {
            ActionClass::ReadOnly | ActionClass::Idempotent => RECORD_RELEASE_AFTER,
            ActionClass::Fenced => SignedDuration::ZERO,
        },
        due: None,
        refused_since: runs::conditions::refused_since(&status.conditions),
        words: WORDS,
        heard: &of.heard,
        told: of.told,
        trust_clock: of.trust_clock,
        record,
    }
}

/// The right to start: an entry of the ledger for the very attempt.
fn right(of: &Snapshot, record: &Record, now: Timestamp) -> Right {
    match &of.standing {
        Standing::Undecided => Right::Undecided,
        // An accepted job has a promise: no later word of the queue takes it back.
        Standing::Rejected { .. } => Right::WaitsAsBefore,
        Standing::QueueNotFound => Right::Waits {
            reason: "QueueNotFound",
            message: format!(
                "there is no ReportQueue {:?} in this namespace; create it, or delete this job",
                of.job.spec.queue_name
            ),
            again: None,
        },
        Standing::Accepted { reason, message } => {
            let failed_before = !record.attempts.is_empty();
            let retries_later = record.next_attempt_time.is_some_and(|at| at.0 > now);
            // What is said of a retry stays until there is something else to say.
            if failed_before && (retries_later || *reason == WAITING) {
                return Right::WaitsAsBefore;
            }
            Right::Waits { reason, message: message.clone(), again: None }
        }
        Standing::Admitted { attempt } => {
            let newest = record.newest();
            let fits = match record.open_attempt() {
                Some(open) => *attempt == open.number,
                None => *attempt > newest, // an older one is over, and waits to be settled
            };
            if !fits {
                return Right::WaitsAsBefore;
            }
            Right::Start(Start {
                not_before: Timestamp::MIN,
                deadline: None,
                attempt: Some(*attempt),
                replaced: false, // report schedules replace nothing
                own_seal: false,
            })
        }
        Standing::Ghost => Right::Denied {
            end: End::Superseded,
            reason: "Superseded".to_owned(),
            message: "its schedule decided this instant without it; it was never run",
            stops_held: true,
        },
        Standing::ScheduleGone => schedules::gone_before_start(),
    }
}
