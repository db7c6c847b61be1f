//! What random histories must have gone through, row by row: `punctual drill --seeds` prints it, and a
//! few thousand seeds leave no row at zero.
//!
//! A row is something that can be reached. What cannot, is no row, and is told here why:
//!
//! * a create is never answered 409 by chance: a conflict is about a version, and a create names none;
//! * `QueueFull` belongs to report queues, `Superseded` of skipped instants is a row of schedules only;
//! * `CreateRefused` as an end needs ten minutes of refusals, more than a history lasts; as a state of
//!   waiting it is a row.

use std::collections::BTreeMap;

use super::duty::duties;
use crate::sim::world::Coverage;

/// Faults that are no answer to one request, as coverage names them.
const FAULTS: [&str; 24] = [
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
const TRANSITIONS: [(&str, &str); 36] = [
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
            "NotClaimed",
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

/// Reasons of attempts whose outcome is not known.
const UNRESOLVED: [&str; 3] = ["DuplicatePod", "EndNotSeen", "ProviderUnreachable"];

/// Reasons of instants that were not run.
const SKIPPED: [&str; 7] =
    ["Concurrent", "Deadline", "Deleted", "Missed", "NameConflict", "Superseded", "Suspended"];

/// How leadership is gained.
const GAINED: [&str; 4] = ["Expired", "First", "LeaseDeleted", "Released"];

/// What happens in the cluster around the operator.
const AROUND: [&str; 10] = [
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
    for duty in duties() {
        let key = (duty.effect.name(), duty.write.to_owned());
        row(format!("fault: {} × {}", key.0, key.1), coverage.faults.get(&key).copied());
    }
    for fault in FAULTS {
        let all = coverage.faults.iter().filter(|((name, _), _)| name == fault);
        row(format!("fault: {fault}"), Some(all.map(|(_, number)| number).sum()));
    }
    for (from, to) in TRANSITIONS {
        let number = coverage.transitions.get(&(from.to_owned(), to.to_owned()));
        let from = if from.is_empty() { "(new)" } else { from };
        row(format!("state: {from} -> {to}"), number.copied());
    }
    let unresolved = [("Unresolved", &UNRESOLVED[..])];
    for (state, reasons) in REASONS.into_iter().chain(unresolved) {
        for reason in reasons {
            let number = coverage.reasons.get(&(state.to_owned(), (*reason).to_owned()));
            row(format!("reason: {state}/{reason}"), number.copied());
        }
    }
    for (group, names, map) in [
        ("not run", &SKIPPED[..], &coverage.skipped),
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
        let effects = empty.keys().filter(|row| row.contains(" × ")).count();
        assert_eq!(u64::try_from(effects).unwrap(), number, "no duty twice");
        let first = super::super::duty(number);
        assert_eq!(first, super::super::duty(0), "every range of seeds has all duties");
        let mut coverage = Coverage::default();
        coverage.fault(&first.effect.name(), first.write);
        let reached: Vec<String> =
            rows(&coverage).into_iter().filter(|(_, n)| *n > 0).map(|(row, _)| row).collect();
        assert_eq!(reached, [format!("fault: {} × {}", first.effect.name(), first.write)]);
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
