//! What the one-word reasons of the product mean, for a person who never read the documentation.

use crate::{
    api::ActionClass,
    runs::{CREATE_REFUSED, PROVIDER_UNREACHABLE},
    time::SkipReason,
};

/// What the reason of a run, an attempt or an end means; `None` for one that is not known here.
pub(super) fn meaning(reason: &str) -> Option<&'static str> {
    ends(reason).or_else(|| waits(reason)).or_else(|| failures(reason))
}

/// What the reason means of a run that may start and cannot be prepared for now. The same words mean
/// other things of an end, and of an attempt that is committed.
pub(super) fn not_prepared(reason: &str) -> Option<&'static str> {
    Some(match reason {
        CREATE_REFUSED => {
            "The API server refuses to create what runs it, for example because of a quota or a namespace that is being deleted. Nothing of it runs. It is tried for ten minutes, or until the deadline."
        }
        PROVIDER_UNREACHABLE => {
            "The service that is to run it does not say whether it took the request. Nothing is committed yet; but a service that got the request may run it, so it is asked until it answers, and nothing else starts in its place."
        }
        _ => return None,
    })
}

/// Why something ended, or is to end, other than by running.
fn ends(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "CancelRequested" => {
            "A person set spec.cancel. A cancel cannot be taken back; what runs is stopped, and the end is recorded once the provider confirms that nothing acts any more."
        }
        "Replaced" => {
            "concurrencyPolicy is Replace: a newer instant was due, so this one is stopped to make room."
        }
        "Superseded" | "NotClaimed" => {
            "Its schedule decided this instant without this object, for example because the object came from a leader whose term was over. Only what the schedule's claim names is ever started, so this one never ran."
        }
        "ScheduleDeleted" => {
            "Its schedule was deleted before anything of it was prepared, and deleting a schedule stops new work."
        }
        "Deadline" => {
            "spec.startingDeadlineSeconds of the schedule passed before it could start. A late start was not wanted, so it is not started at all."
        }
        "Concurrent" => {
            "An earlier one was not over, and concurrencyPolicy did not allow a second."
        }
        "RecordPruned" => {
            "Records up to this instant may have been removed by retention, so it may have run before. To be safe it is not run again."
        }
        "RunNotAllowed" => {
            "It was made by hand with a run of its own, although its schedule exists. What a schedule's instant runs is said by the schedule alone."
        }
        "RunRefused" => {
            "What should run it refused it, so nothing was started. The message names the field."
        }
        "CreateRefused" => {
            "The API server refused to create what runs it, for example because of a quota or a namespace that is being deleted. It was tried for ten minutes, or until the deadline."
        }
        "NameConflict" => {
            "An object of somebody else bears the name that its Job needs. Punctual never touches what it did not create."
        }
        "ResolvedByPerson" => {
            "A person decided how it ended, because nobody could prove it. Such a decision is final."
        }
        "QueueDeadlineExceeded" => {
            "It was not admitted within spec.queueDeadlineSeconds, so it is not started any more."
        }
        "Completed" => "It ran to its end and reported success.",
        "ResultLost" => "It ran to its end, but what it reported could not be read.",
        "ArtifactMissing" => {
            "It ran and succeeded, but spec.artifact is Required and it delivered none. It is not repeated: the work is done, and doing it again would do it twice."
        }
        "Deleted" => "What ran it was deleted by someone else.",
        _ => return None,
    })
}

/// Why something waits.
fn waits(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "Waiting" => {
            "Only one of the schedule runs at a time (concurrencyPolicy), and it waits until the one before it is over."
        }
        "Spread" => {
            "spec.spread delays starts by a fixed part of a window, so that many schedules that are due at one instant do not start together."
        }
        "ScheduleNotFound" => {
            "It says what instant it is but not what to run, and the schedule that would say it does not exist."
        }
        "RetryScheduled" => {
            "An attempt failed in a way that may be different next time, and run.maxAttempts allows another one. It waits 15 to 30 seconds after the first failure, up to twice as long after each further one, and at most 30 minutes."
        }
        "RetryRequested" => "A person asked for another attempt.",
        "Prepared" => {
            "What runs it was created, held back, and recorded in this object. Only then is it let go, so that a leader whose time is over can start nothing."
        }
        "QueueNotFound" => "The queue that it names does not exist in this namespace.",
        _ => return None,
    })
}

/// Why an attempt failed, or why nobody knows how it ended.
fn failures(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "EndNotSeen" => {
            "The end of the run was not seen, and nothing proves it: what ran it is gone, or does not know the run any more. The work may be done, done in part, or not done."
        }
        "ProviderUnreachable" => {
            "The service that runs it has given no answer for a minute. No answer is not an answer: the run may be going on."
        }
        "DuplicatePod" => {
            "Its Job had more than one pod, so the work may have been done twice. Only a person can say what that did."
        }
        "OutcomeUnknown" => {
            "Nobody knows how the attempt ended. Because it only reads, it is simply repeated."
        }
        "NeverStarted" => {
            "It did not start within run.startTimeoutSeconds after it was released, and was cancelled."
        }
        "DeadlineExceeded" => "It ran longer than run.timeoutSeconds, and was stopped.",
        "SuspendedByOthers" => {
            "Someone else suspended its Job, which removes its pod. It is not released a second time, because that would run it twice."
        }
        "GoingAway" => "Someone else is deleting its Job or pod.",
        "OOMKilled" => "Its container needed more memory than its limit and was killed.",
        "ExitCode" => "Its container ended with an exit code other than 0.",
        "Evicted" | "Preempted" | "Disruption" => {
            "The platform took its pod away. Such disruptions are counted apart from run.maxAttempts."
        }
        "NodeLost" => {
            "The node that it ran on was lost. A pod that is gone with its node may have run on."
        }
        "EpochRefused" => "The service refused a leader whose term was over.",
        _ => return None,
    })
}

/// What an action class means for a run of which nobody knows how it ended.
pub(super) fn class_rule(class: ActionClass) -> &'static str {
    match class {
        ActionClass::ReadOnly => {
            "Its action class is ReadOnly: it is repeated by itself while run.maxAttempts allows it, and no more attempts are left."
        }
        ActionClass::Idempotent => {
            "Its action class is Idempotent: whoever receives the work can tell a repetition, but a run is still not repeated while an earlier one may be acting. So it waits rather than guess."
        }
        ActionClass::Fenced => {
            "Its action class is Fenced: the work must not happen twice. It is never repeated unless it is proven that the first run is over, so it waits rather than guess."
        }
    }
}

/// Why an instant was not run, by the reason in the accounting of its schedule.
pub(super) fn skipped(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Suspended => {
            "The schedule was suspended at that time (spec.suspend). Instants of a suspension are counted and never run, also not after it is resumed."
        }
        SkipReason::Missed => {
            "Nobody could run it within 60 seconds of its instant (for example because the operator was down), and spec.missedRuns of the schedule does not catch it up."
        }
        SkipReason::Concurrent => {
            "An earlier one was still running, or Unresolved, and spec.concurrencyPolicy does not let a second one run beside it. With Forbid that is decided at the instant and for good; a CronJob would run it later."
        }
        SkipReason::Deadline => {
            "spec.startingDeadlineSeconds of the schedule had passed before it could start."
        }
        SkipReason::Superseded => {
            "A newer instant or an edit of the schedule took its place: with spec.missedRuns.policy Latest only the newest missed instant runs, and after an edit of the timing no instant of the old expression does."
        }
        SkipReason::QueueFull => {
            "Its report queue had no place for another report of this schedule."
        }
        SkipReason::Deleted => "Its object was deleted before it ended. Deleting is a cancel.",
        SkipReason::CreateRefused => {
            "The API server refused to create its object for too long, for example because of a quota or a namespace that is being deleted."
        }
        SkipReason::NameConflict => "An object of somebody else bears the name that it needs.",
    }
}

/// What a person can change so that such an instant runs the next time; `None` if nothing is to be
/// changed.
pub(super) fn skipped_fix(reason: SkipReason) -> Option<&'static str> {
    Some(match reason {
        SkipReason::Suspended | SkipReason::Deleted => return None,
        SkipReason::Missed => {
            "To have missed instants run later, set spec.missedRuns.policy to Latest or All."
        }
        SkipReason::Concurrent => {
            "If a run usually takes longer than the time to the next instant, make the schedule rarer, or let instants wait (concurrencyPolicy Enqueue) or run together (Allow)."
        }
        SkipReason::Deadline => {
            "If a later start is better than none, raise spec.startingDeadlineSeconds."
        }
        SkipReason::Superseded => {
            "To have every missed instant run, set spec.missedRuns.policy to All."
        }
        SkipReason::QueueFull => {
            "Raise limits.queued or limits.queuedPerTenant of the queue, or give it more slots."
        }
        SkipReason::CreateRefused => {
            "Free the quota, or correct what the message of the schedule's condition Ready names."
        }
        SkipReason::NameConflict => {
            "Rename or remove the object of that name, if it is not needed."
        }
    })
}
