//! An occurrence as a run: its status is the record of a life, under its own names.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::{Snapshot, effective_run, right::right, work_id};
use crate::{
    api::{
        ActionClass, MAX_MESSAGE_CHARS, MaintenanceOccurrence, MaintenanceOccurrenceStatus,
        OccurrenceState, RunSpec, truncate,
    },
    identity::AttemptNames,
    maintenance::conditions,
    runs::{self, ArtifactRule, Asked, Change, End, Limits, Phase, Record, Words, Work},
};

/// How occurrences speak.
const WORDS: Words =
    Words { not_run: "Skipped", superseded: "Superseded", run_other: "trigger another instant" };

/// Where the run of an occurrence stands in each state.
pub fn phase(state: OccurrenceState) -> Phase {
    match state {
        OccurrenceState::Pending => Phase::Waiting,
        OccurrenceState::Starting => Phase::Starting,
        OccurrenceState::Running => Phase::Running,
        OccurrenceState::Cancelling => Phase::Stopping,
        OccurrenceState::Unresolved => Phase::Unresolved,
        OccurrenceState::Succeeded => Phase::Over(End::Succeeded),
        OccurrenceState::Failed => Phase::Over(End::Failed),
        OccurrenceState::Cancelled => Phase::Over(End::Cancelled),
        OccurrenceState::Skipped => Phase::Over(End::NotRun),
        OccurrenceState::Superseded => Phase::Over(End::Superseded),
    }
}

/// The state of an occurrence whose run stands so.
fn state(phase: Phase) -> OccurrenceState {
    match phase {
        Phase::Waiting => OccurrenceState::Pending,
        Phase::Starting => OccurrenceState::Starting,
        Phase::Running => OccurrenceState::Running,
        Phase::Stopping => OccurrenceState::Cancelling,
        Phase::Unresolved => OccurrenceState::Unresolved,
        Phase::Over(End::Succeeded) => OccurrenceState::Succeeded,
        Phase::Over(End::Failed) => OccurrenceState::Failed,
        Phase::Over(End::Cancelled) => OccurrenceState::Cancelled,
        Phase::Over(End::NotRun) => OccurrenceState::Skipped,
        Phase::Over(End::Superseded) => OccurrenceState::Superseded,
    }
}

/// The identity of an occurrence's work and the names of its attempts.
pub fn work(occurrence: &MaintenanceOccurrence) -> Work {
    let id = work_id(occurrence);
    Work {
        id: id.id(),
        request_id: id.request_id(),
        attempts: AttemptNames::maintenance(&occurrence.name_any(), id),
    }
}

/// What is recorded of the run.
pub(super) fn record(status: &MaintenanceOccurrenceStatus) -> Record {
    Record {
        phase: status.state.map(phase),
        reason: status.reason.clone(),
        message: status.message.clone(),
        id: status.id.clone(),
        attempt: status.attempt,
        attempts: status.attempts.clone(),
        result: status.result.clone(),
        artifact: None,
        run: status.run.clone(),
        lateness_seconds: status.lateness_seconds,
        next_attempt_time: status.next_attempt_time,
        accepted: None,
    }
}

/// What a decision about the run depends on.
pub(super) fn snapshot<'a>(
    of: &'a Snapshot,
    status: &MaintenanceOccurrenceStatus,
    now: Timestamp,
) -> runs::Snapshot<'a> {
    let spec = &of.occurrence.spec;
    let record = record(status);
    let run = effective_run(of);
    runs::Snapshot {
        right: right(of, &record, run.is_some(), now),
        state: format!("{:?}", state(record.phase())),
        record,
        observed: status.observed_generation,
        sealed: status.fence.as_ref() == Some(&of.fence),
        epoch: of.fence.epoch,
        asked: Asked {
            generation: of.occurrence.metadata.generation,
            cancel: spec.cancel,
            resolution: spec.resolution.as_ref(),
            run: spec.run.as_ref(),
        },
        limits: Limits {
            class: run.as_ref().map_or(ActionClass::Fenced, RunSpec::maintenance_class),
            attempts: run.as_ref().map_or(1, RunSpec::maintenance_attempts),
        },
        run,
        work: work(&of.occurrence),
        artifact: ArtifactRule::None,
        spare: SignedDuration::ZERO,
        due: Some(spec.intended_time.timestamp()),
        refused_since: runs::conditions::refused_since(&status.conditions),
        words: WORDS,
        heard: &of.heard,
        told: of.told,
        trust_clock: of.trust_clock,
    }
}

/// The status that a change of the run's record leads to; `None` if it is there already.
pub(super) fn written(
    of: &Snapshot,
    old: &MaintenanceOccurrenceStatus,
    change: Change,
    now: Timestamp,
) -> Option<MaintenanceOccurrenceStatus> {
    let Change::To(record) = change else { return Some(old.clone()) };
    let record = *record;
    let generation = of.occurrence.metadata.generation;
    let mut status = MaintenanceOccurrenceStatus {
        state: record.phase.map(state),
        reason: record.reason,
        message: record.message.map(|message| truncate(&message, MAX_MESSAGE_CHARS)),
        id: record.id,
        attempt: record.attempt,
        attempts: record.attempts,
        result: record.result,
        run: record.run,
        lateness_seconds: record.lateness_seconds,
        next_attempt_time: record.next_attempt_time,
        fence: old.fence.clone(),
        conditions: old.conditions.clone(),
        observed_generation: generation,
    };
    if let Some(accepted) = &record.accepted {
        runs::conditions::accept(&mut status.conditions, accepted, now, generation);
    }
    conditions::follow_state(&mut status, now, generation);
    let there = status == *old && old.fence.as_ref() == Some(&of.fence);
    (!there).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_one_phase_and_back() {
        use OccurrenceState::*;
        for name in [
            Pending, Starting, Running, Cancelling, Unresolved, Succeeded, Failed, Cancelled,
            Skipped, Superseded,
        ] {
            assert_eq!(state(phase(name)), name);
            assert_eq!(phase(name).is_over(), name.is_terminal(), "{name:?}");
        }
    }
}
