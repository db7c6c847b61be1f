//! What a skipped instant is called, and said to be.

use crate::time::skipped::{SkipReason, SkippedRange};

/// The reason of the event about an instant that is not run.
pub fn skip_event(reason: SkipReason) -> &'static str {
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

/// `noun`: what an instant of the schedule makes.
pub(super) fn skip_sentence(range: &SkippedRange, noun: &str) -> String {
    let why = match range.reason {
        SkipReason::Suspended => "the schedule was suspended".to_owned(),
        SkipReason::Missed => {
            "nothing could run it in time and spec.missedRuns does not catch it up".to_owned()
        }
        SkipReason::Concurrent => {
            format!("an earlier {noun} was not over (spec.concurrencyPolicy)")
        }
        SkipReason::Deadline => "spec.startingDeadlineSeconds passed".to_owned(),
        SkipReason::Superseded => "a newer instant or an edit took its place".to_owned(),
        SkipReason::QueueFull => "the report queue was full".to_owned(),
        SkipReason::Deleted => format!("its {noun} was deleted, which cancels it"),
        SkipReason::CreateRefused => format!("the API server refused to create its {noun}"),
        SkipReason::NameConflict => "its name is taken by an object of someone else".to_owned(),
    };
    if range.count == 1 {
        format!("the instant {} is not run: {why}", range.from)
    } else {
        format!("{} instants from {} to {} are not run: {why}", range.count, range.from, range.to)
    }
}
