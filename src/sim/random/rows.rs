//! What random histories must have gone through, row by row: `punctual drill --seeds` prints it, and a
//! few thousand seeds leave no row at zero.
//!
//! A row is something that can be reached. What cannot, is no row, and is told here why:
//!
//! * a create is never answered 409 by chance: a conflict is about a version, and a create names none;
//! * `QueueFull` belongs to report queues, `Superseded` of skipped instants is a row of schedules only;
//! * `CreateRefused` as an end needs ten minutes of refusals, more than a history lasts; as a state of
//!   waiting it is a row;
//! * `NotClaimed` of an attempt that was prepared (`Cancelling/NotClaimed`, and `Cancelled/NotClaimed`
//!   of a report) needs a hand in the status of a schedule, or more prepared attempts than a schedule
//!   can claim. A claim goes only with the end of its work, and who takes a schedule over seals its
//!   work first and claims what was prepared. A held attempt without a claim is stopped all the same:
//!   `what_is_held_without_a_claim_is_stopped_and_never_released`.

use std::collections::BTreeMap;

use super::duty::{duties, report_duties};
use crate::sim::world::Coverage;

/// Faults that are no answer to one request, as coverage names them.
const FAULTS: [&str; 25] = [
    "API server away",
    "Lease deleted",
    "Lease edited",
    "clock jump",
    "clock rate",
    "compaction",
    "conflicts",
    "connections broken",
    "kill",
    "partition",
    "pause",
    "pods not listed",
    "provider loses a run",
    "provider unreachable",
    "provider: Failed",
    "provider: Hang",
    "provider: Succeeded",
    "provider: Unknown",
    "provider: answers lost",
    "refusals",
    "responses dropped",
    "slow",
    "stale reads",
    "partition, answer lost",
    "API server away, answer lost",
];

/// States of occurrences, from and to; empty for one that has none yet.
const TRANSITIONS: [(&str, &str); 37] = [
    ("", "Cancelled"),
    ("", "Pending"),
    ("", "Skipped"),
    ("", "Starting"),
    ("", "Superseded"),
    ("Cancelling", "Cancelled"),
    ("Cancelling", "Failed"),
    ("Cancelling", "Pending"),
    ("Cancelling", "Succeeded"),
    ("Cancelling", "Unresolved"),
    ("Pending", "Cancelled"),
    ("Pending", "Failed"),
    ("Pending", "Skipped"),
    ("Pending", "Starting"),
    ("Pending", "Superseded"),
    ("Running", "Cancelled"),
    ("Running", "Cancelling"),
    ("Running", "Failed"),
    ("Running", "Pending"),
    ("Running", "Starting"),
    ("Running", "Succeeded"),
    ("Running", "Unresolved"),
    ("Starting", "Cancelling"),
    ("Starting", "Failed"),
    ("Starting", "Pending"),
    ("Starting", "Running"),
    ("Starting", "Succeeded"),
    ("Starting", "Unresolved"),
    ("Unresolved", "Cancelled"),
    ("Unresolved", "Cancelling"),
    ("Unresolved", "Failed"),
    ("Unresolved", "Pending"),
    ("Unresolved", "Running"),
    ("Unresolved", "Starting"),
    ("Unresolved", "Succeeded"),
    ("", "Failed"),
    ("Starting", "Cancelled"),
];

/// Reasons, by state.
const REASONS: [(&str, &[&str]); 9] = [
    ("Cancelled", &["CancelRequested", "Replaced"]),
    (
        "Cancelling",
        &[
            "CancelRequested",
            "DeadlineExceeded",
            "DuplicatePod",
            "NeverStarted",
            "OutcomeUnknown",
            "Replaced",
            "SuspendedByOthers",
        ],
    ),
    (
        "Failed",
        &[
            "Crash",
            "DeadlineExceeded",
            "Deleted",
            "Evicted",
            "ExitCode",
            "NeverStarted",
            "NodeLost",
            "ResolvedByPerson",
            "RunRefused",
            "Simulated",
            "SuspendedByOthers",
            "Unavailable",
        ],
    ),
    (
        "Pending",
        &[
            "CreateRefused",
            "RetryRequested",
            "RetryScheduled",
            "ScheduleNotFound",
            "Spread",
            "Waiting",
        ],
    ),
    ("Running", &["GoingAway", "Running"]),
    (
        "Skipped",
        &["Concurrent", "Deadline", "NameConflict", "RecordPruned", "RunNotAllowed", "Suspended"],
    ),
    ("Starting", &["GoingAway", "Prepared", "Released"]),
    ("Succeeded", &["Completed", "ResolvedByPerson", "ResultLost"]),
    ("Superseded", &["NotClaimed", "ScheduleDeleted"]),
];

/// States of reports, from and to.
const REPORT_TRANSITIONS: [(&str, &str); 35] = [
    ("", "Admitted"),
    ("", "Cancelled"),
    ("", "Failed"),
    ("", "Queued"),
    ("", "Rejected"),
    ("Admitted", "Cancelled"),
    ("Admitted", "Cancelling"),
    ("Admitted", "Failed"),
    ("Admitted", "Queued"),
    ("Admitted", "Running"),
    ("Admitted", "Succeeded"),
    ("Admitted", "Unresolved"),
    ("Cancelling", "Cancelled"),
    ("Cancelling", "Failed"),
    ("Cancelling", "Queued"),
    ("Cancelling", "Succeeded"),
    ("Cancelling", "Unresolved"),
    ("Queued", "Admitted"),
    ("Queued", "Cancelled"),
    ("Queued", "Failed"),
    ("Queued", "Rejected"),
    ("Running", "Admitted"),
    ("Running", "Cancelled"),
    ("Running", "Cancelling"),
    ("Running", "Failed"),
    ("Running", "Queued"),
    ("Running", "Succeeded"),
    ("Running", "Unresolved"),
    ("Unresolved", "Admitted"),
    ("Unresolved", "Cancelled"),
    ("Unresolved", "Cancelling"),
    ("Unresolved", "Failed"),
    ("Unresolved", "Queued"),
    ("Unresolved", "Running"),
    ("Unresolved", "Succeeded"),
];

/// Reasons of reports, by state.
const REPORT_REASONS: [(&str, &[&str]); 9] = [
    ("Admitted", &["GoingAway", "Prepared", "Released"]),
    ("Cancelled", &["CancelRequested", "ScheduleDeleted", "Superseded"]),
    (
        "Cancelling",
        &[
            "CancelRequested",
            "DeadlineExceeded",
            "DuplicatePod",
            "NeverStarted",
            "OutcomeUnknown",
            "SuspendedByOthers",
        ],
    ),
    (
        "Failed",
        &[
            "ArtifactMissing",
            "Crash",
            "DeadlineExceeded",
            "Deleted",
            "Evicted",
            "NameConflict",
            "NeverStarted",
            "NodeLost",
            "QueueDeadlineExceeded",
            "ResolvedByPerson",
            "RunRefused",
            "Simulated",
            "SuspendedByOthers",
            "Unavailable",
        ],
    ),
    (
        "Queued",
        &[
            "NameTaken",
            "QueueNotFound",
            "RetriesDisabled",
            "RetryBudgetExhausted",
            "RetryRequested",
            "RetryScheduled",
            "TenantLimit",
            "WaitingForSlot",
        ],
    ),
    ("Rejected", &["QueueClosed", "QueueFull", "TenantQueueFull", "Unsatisfiable"]),
    ("Running", &["GoingAway", "Running"]),
    ("Succeeded", &["Completed", "ResolvedByPerson", "ResultLost"]),
    ("Unresolved", &["DuplicatePod", "EndNotSeen", "ProviderUnreachable", "ResultLost"]),
];

/// Whether queues admit, and why.
const ADMISSIONS: [(&str, &str); 5] = [
    ("Closed", "Closed"),
    ("Held", "Hold"),
    ("Open", "Open"),
    ("Open", "SlotsLowered"),
    ("Paused", "RecoveryIncomplete"),
];

/// Reasons of instants of reports that were not run.
const REPORT_SKIPPED: [&str; 6] =
    ["Deadline", "Deleted", "Missed", "QueueFull", "Superseded", "Suspended"];

/// Reasons of attempts whose outcome is not known.
const UNRESOLVED: [&str; 3] = ["DuplicatePod", "EndNotSeen", "ProviderUnreachable"];

/// Reasons of instants that were not run.
const SKIPPED: [&str; 7] =
    ["Concurrent", "Deadline", "Deleted", "Missed", "NameConflict", "Superseded", "Suspended"];

/// How leadership is gained.
const GAINED: [&str; 4] = ["Expired", "First", "LeaseDeleted", "Released"];

/// What happens in the cluster around the operator.
const AROUND: [&str; 11] = [
    "Job controller away",
    "Job resumed by others",
    "Job suspended by others",
    "node crashed",
    "node lost",
    "node removed",
    "pod collected",
    "pod evicted",
    "pod vanished",
    "pods orphaned",
    "second pod",
];

/// What histories went through, row by row, in the order of a table; a row that was not reached has
/// zero.
pub fn rows(coverage: &Coverage) -> BTreeMap<String, u64> {
    let mut rows = BTreeMap::new();
    let mut row = |name: String, number: Option<u64>| {
        rows.insert(name, number.unwrap_or(0));
    };
    for duty in duties().into_iter().chain(report_duties()) {
        let key = (duty.effect.name(), duty.write.to_owned());
        row(format!("fault: {} × {}", key.0, key.1), coverage.faults.get(&key).copied());
    }
    for fault in FAULTS {
        let all = coverage.faults.iter().filter(|((name, _), _)| name == fault);
        row(format!("fault: {fault}"), Some(all.map(|(_, number)| number).sum()));
    }
    let pair = |map: &BTreeMap<(String, String), u64>, one: &str, other: &str| {
        map.get(&(one.to_owned(), other.to_owned())).copied()
    };
    let (states, of_reports) = (&coverage.transitions, &coverage.report_transitions);
    let named = TRANSITIONS.map(|pair| ("state", states, pair)).into_iter();
    let of_reports = REPORT_TRANSITIONS.map(|pair| ("report", of_reports, pair));
    for (group, map, (from, to)) in named.chain(of_reports) {
        let name = if from.is_empty() { "(new)" } else { from };
        row(format!("{group}: {name} -> {to}"), pair(map, from, to));
    }
    let unresolved = [("Unresolved", &UNRESOLVED[..])];
    for (state, reasons) in REASONS.into_iter().chain(unresolved) {
        for reason in reasons {
            row(format!("reason: {state}/{reason}"), pair(&coverage.reasons, state, reason));
        }
    }
    for (state, reasons) in REPORT_REASONS {
        for reason in reasons {
            let number = pair(&coverage.report_reasons, state, reason);
            row(format!("report reason: {state}/{reason}"), number);
        }
    }
    for (admissions, reason) in ADMISSIONS {
        let number = pair(&coverage.admissions, admissions, reason);
        row(format!("queue: {admissions}/{reason}"), number);
    }
    for (group, names, map) in [
        ("not run", &SKIPPED[..], &coverage.skipped),
        ("report not run", &REPORT_SKIPPED[..], &coverage.report_skipped),
        ("gained", &GAINED[..], &coverage.gained),
        ("around", &AROUND[..], &coverage.workload),
    ] {
        for name in names {
            row(format!("{group}: {name}"), map.get(*name).copied());
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_at_each_kind_of_write_is_a_row_and_the_duty_of_a_seed() {
        let empty = rows(&Coverage::default());
        assert!(empty.values().all(|number| *number == 0));
        let number = u64::try_from(duties().len()).unwrap();
        let of_reports = u64::try_from(report_duties().len()).unwrap();
        let effects = empty.keys().filter(|row| row.contains(" × ")).count();
        assert_eq!(u64::try_from(effects).unwrap(), number + of_reports, "no duty twice");
        let first = super::super::report_duty(2 * of_reports);
        assert!(first.is_some() && first == super::super::report_duty(0), "of even seeds");
        assert_eq!(super::super::report_duty(1), None, "no reports, no duty about them");
        let first = super::super::duty(number);
        assert_eq!(first, super::super::duty(0), "every range of seeds has all duties");
        let mut coverage = Coverage::default();
        coverage.fault(&first.effect.name(), first.write);
        let reached: Vec<String> =
            rows(&coverage).into_iter().filter(|(_, n)| *n > 0).map(|(row, _)| row).collect();
        assert_eq!(reached, [format!("fault: {} × {}", first.effect.name(), first.write)]);
    }

    #[test]
    fn every_state_of_reports_is_entered_as_the_table_of_states_says() {
        use crate::{
            api::ReportState,
            reports::job::states::{Before, TRANSITIONS},
        };
        let rows = rows(&Coverage::default());
        for state in ReportState::ALL {
            let entered = format!(" -> {state:?}");
            assert!(rows.keys().any(|row| row.starts_with("report: ") && row.ends_with(&entered)));
            let reason = format!("report reason: {state:?}/");
            assert!(rows.keys().any(|row| row.starts_with(&reason)), "{state:?}");
        }
        let name = |before| match before {
            Before::New => "(new)".to_owned(),
            Before::Unanswered => format!("{:?}", ReportState::Queued),
            Before::Is(state) => format!("{state:?}"),
        };
        let lines = TRANSITIONS.iter().map(|line| (name(line.from), format!("{:?}", line.to)));
        let legal: BTreeMap<String, u64> =
            lines.map(|(from, to)| (format!("report: {from} -> {to}"), 0)).collect();
        for row in rows.keys().filter(|row| row.starts_with("report: ")) {
            assert!(legal.contains_key(row), "{row} is in no line of the table");
        }
    }

    #[test]
    fn every_state_is_entered_in_some_row() {
        use crate::api::OccurrenceState::{
            Cancelled, Cancelling, Failed, Pending, Running, Skipped, Starting, Succeeded,
            Superseded, Unresolved,
        };
        let rows = rows(&Coverage::default());
        for state in [
            Cancelled, Cancelling, Failed, Pending, Running, Skipped, Starting, Succeeded,
            Superseded, Unresolved,
        ] {
            let entered = |row: &&String| {
                row.starts_with("state: ") && row.ends_with(&format!(" -> {state:?}"))
            };
            assert!(rows.keys().any(|row| entered(&row)), "{state:?}");
            let reason = format!("reason: {state:?}/");
            assert!(rows.keys().any(|row| row.starts_with(&reason)), "{state:?}");
        }
    }
}
