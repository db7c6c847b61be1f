//! Whether an occurrence may start, by how it stands with its schedule.

use jiff::Timestamp;

use super::{Snapshot, Standing};
use crate::{
    runs::{Deadline, End, Record, Right, Start, UNRESOLVED_INTERVAL},
    schedules,
};

/// The right to start. `runs` says whether there is a run.
pub(super) fn right(of: &Snapshot, record: &Record, runs: bool, now: Timestamp) -> Right {
    let denied = |end, reason: &str, message| Right::Denied {
        end,
        reason: reason.to_owned(),
        message,
        stops_held: matches!(of.standing, Standing::Ghost { .. }),
    };
    match &of.standing {
        Standing::Undecided => Right::Undecided,
        Standing::Waiting => Right::Waits {
            reason: "Waiting",
            message: "waits until what runs before it is over".to_owned(),
            again: None,
        },
        Standing::Ghost { skipped: Some(reason) } => denied(
            End::NotRun,
            &format!("{reason:?}"),
            "its schedule decided not to run this instant",
        ),
        Standing::Ghost { skipped: None } => denied(
            End::Superseded,
            "NotClaimed",
            "its schedule decided this instant without it; it was never run",
        ),
        Standing::RecordPruned => denied(
            End::NotRun,
            "RecordPruned",
            "records up to this instant were removed, so it may have run; trigger another instant",
        ),
        Standing::RunNotAllowed => denied(
            End::NotRun,
            "RunNotAllowed",
            "its schedule exists, so spec.run must be absent: it runs what the schedule says",
        ),
        Standing::ScheduleGone => without_schedule(of, record, runs, now),
        Standing::Started { not_before, deadline, replaced } => Right::Start(Start {
            not_before: *not_before,
            deadline: deadline.map(|end| Deadline {
                end,
                message: "spec.startingDeadlineSeconds of its schedule passed before it could start",
            }),
            attempt: None,
            replaced: *replaced,
            own_seal: false,
        }),
    }
}

/// What was prepared goes on; what was planned and was not prepared ends with its schedule; what was
/// made by hand runs what it carries.
fn without_schedule(of: &Snapshot, record: &Record, runs: bool, now: Timestamp) -> Right {
    let spec = &of.occurrence.spec;
    if spec.schedule_uid.is_some() && record.attempts.is_empty() {
        return schedules::gone_before_start();
    }
    if !runs && record.open_attempt().is_none() {
        return Right::Waits {
            reason: "ScheduleNotFound",
            message: format!(
                "there is no MaintenanceSchedule {:?} in this namespace; create it, or delete this occurrence",
                spec.schedule_name
            ),
            again: now.checked_add(UNRESOLVED_INTERVAL).ok(),
        };
    }
    Right::Start(Start {
        not_before: spec.intended_time.timestamp(),
        deadline: None,
        attempt: None,
        replaced: false,
        own_seal: true,
    })
}
