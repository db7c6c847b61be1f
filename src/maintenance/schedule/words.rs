//! What a skipped instant is called, and said to be.

use crate::{
    api::MaintenanceOccurrence,
    time::skipped::{SkipReason, SkippedRange},
};

/// The range under which a claimed occurrence that ended without running is accounted for.
pub(super) fn skipped_for(occurrence: &MaintenanceOccurrence) -> Option<SkipReason> {
    match occurrence.status.as_ref()?.reason.as_deref()? {
        "Deadline" => Some(SkipReason::Deadline),
        "NameConflict" => Some(SkipReason::NameConflict),
        "CreateRefused" => Some(SkipReason::CreateRefused),
        _ => None,
    }
}

pub(super) fn skip_event(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Suspended => "InstantSuspended",
        SkipReason::Missed => "InstantMissed",
        SkipReason::Concurrent => "InstantConcurrent",
        SkipReason::Deadline => "InstantPastDeadline",
        SkipReason::Superseded => "InstantSuperseded",
        SkipReason::QueueFull => "InstantQueueFull",
        SkipReason::Deleted => "InstantDeleted",
        SkipReason::CreateRefused => "InstantCreateRefused",
        SkipReason::NameConflict => "InstantNameConflict",
    }
}

pub(super) fn skip_sentence(range: &SkippedRange) -> String {
    let why = match range.reason {
        SkipReason::Suspended => "the schedule was suspended",
        SkipReason::Missed => {
            "nothing could run it in time and spec.missedRuns does not catch it up"
        }
        SkipReason::Concurrent => "an earlier occurrence was not over (spec.concurrencyPolicy)",
        SkipReason::Deadline => "spec.startingDeadlineSeconds passed",
        SkipReason::Superseded => "a newer instant or an edit took its place",
        SkipReason::QueueFull => "the report queue was full",
        SkipReason::Deleted => "its occurrence was deleted, which cancels it",
        SkipReason::CreateRefused => "the API server refused to create its occurrence",
        SkipReason::NameConflict => "its name is taken by an object of someone else",
    };
    if range.count == 1 {
        format!("the instant {} is not run: {why}", range.from)
    } else {
        format!("{} instants from {} to {} are not run: {why}", range.count, range.from, range.to)
    }
}
