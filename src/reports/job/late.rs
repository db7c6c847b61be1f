//! Artifacts that come too late.

use crate::{
    api::{Attempt, ReportJobStatus},
    providers::{Delivered, RunStatus},
    runs::{Note, OUTCOME_UNKNOWN, RESOLVED_BY_PERSON, RETRY_REQUESTED},
};

/// What a provider was seen to say of an attempt that does not count any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Late {
    /// Number of the attempt.
    pub attempt: i32,
    /// What the provider says.
    pub answer: RunStatus,
}

/// The attempts that may still deliver something although they do not count: those that were given
/// up without a proof of their end, by a person's word or because they only read.
pub fn may_deliver_late(status: &ReportJobStatus) -> Vec<i32> {
    let given_up = |reason: &Option<String>| {
        reason
            .as_deref()
            .is_some_and(|r| [RESOLVED_BY_PERSON, RETRY_REQUESTED, OUTCOME_UNKNOWN].contains(&r))
    };
    let over = status.attempts.iter().filter(|attempt| {
        attempt.handle.is_some() && attempt.completion_time.is_some() && given_up(&attempt.reason)
    });
    over.map(|attempt| attempt.number).collect()
}

/// The word that an artifact is refused, if it is one that does not count.
pub(super) fn refused(status: &ReportJobStatus, late: &Late) -> Option<Note> {
    let RunStatus::Succeeded { artifact: Delivered::Artifact(artifact), .. } = &late.answer else {
        return None;
    };
    // The answer of one that is open is not late: the decision takes it.
    let over = |attempt: &&Attempt| attempt.completion_time.is_some();
    let mut closed = status.attempts.iter().filter(over);
    let known = closed.find(|attempt| attempt.number == late.attempt)?;
    let counts = match &status.artifact {
        Some(accepted) if accepted.attempt == late.attempt => return None,
        Some(accepted) => format!("the artifact of attempt {} counts", accepted.attempt),
        None => "no artifact counts so far".to_owned(),
    };
    Some(Note::warning(
        "ArtifactRefused",
        format!(
            "attempt {} delivered {} after it was given up ({}): refused; {counts}",
            late.attempt,
            artifact.uri,
            known.reason.as_deref().unwrap_or("Unknown"),
        ),
    ))
}
