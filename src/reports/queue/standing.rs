//! How the job of a ledger entry stands: pure.
//!
//! What an entry waits for is the end of its attempt, and that is recorded in the job: an attempt
//! that is closed never opens again, so an old version of a job that shows it closed is proof
//! enough. A job that is gone proves nothing; its runs are asked after.

use jiff::SignedDuration;

use crate::{
    api::{Attempt, LedgerEntry, ReportJob, ReportState},
    reports::job::attempt_is_over,
    runs::RETRY_REQUESTED,
};

/// How the job of an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its attempt is not over.
    Open,
    /// Its attempt is over, after this many slot-milliseconds; the entry goes.
    Over {
        /// What it took.
        took: i64,
        /// Whether the job is tried again by itself. None if nothing ran.
        again: Option<bool>,
    },
    /// The job with the entry's uid is not known: it was deleted.
    Gone,
}

/// How the job of this entry stands, `job` being what is known under its name.
pub fn standing(entry: &LedgerEntry, job: Option<&ReportJob>) -> Standing {
    let job = job.filter(|job| {
        job.metadata.uid.as_ref() == Some(&entry.uid) && job.metadata.deletion_timestamp.is_none()
    });
    let Some(job) = job else { return Standing::Gone };
    let Some(status) = &job.status else { return Standing::Open };
    if !attempt_is_over(status, entry.attempt) {
        return Standing::Open;
    }
    let attempt = status.attempts.iter().find(|attempt| attempt.number == entry.attempt);
    // Without it, it ended before anything of this attempt was committed: nothing ran.
    let waits = status.state == Some(ReportState::Queued);
    let again = |attempt: &Attempt| waits && attempt.reason.as_deref() != Some(RETRY_REQUESTED);
    Standing::Over { took: attempt.map_or(0, took), again: attempt.map(again) }
}

/// Slot-milliseconds from the start of an attempt, or from its commit if it never started, to its end.
fn took(attempt: &Attempt) -> i64 {
    let from = attempt.start_time.or(attempt.prepared_time);
    let (Some(from), Some(to)) = (from, attempt.completion_time) else { return 0 };
    let took: SignedDuration = to.0.duration_since(from.0);
    i64::try_from(took.as_millis()).unwrap_or(i64::MAX).max(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(attempt: i32) -> LedgerEntry {
        serde_json::from_value(json!({
            "job": "r0", "uid": "u0", "tenant": "acme", "attempt": attempt, "runKey": "k",
            "actionClass": "Idempotent", "charge": 1000, "admittedTime": "2026-11-29T02:00:00Z",
        }))
        .unwrap()
    }

    fn job(uid: &str, status: &Value) -> ReportJob {
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
            "metadata": {"name": "r0", "namespace": "d", "uid": uid},
            "spec": {"queueName": "q", "tenant": "acme"},
            "status": status,
        }))
        .unwrap()
    }

    fn attempt(number: i32, outcome: Option<&str>) -> Value {
        json!({
            "number": number, "runKey": "k", "epoch": 1, "handle": "h", "outcome": outcome,
            "preparedTime": "2026-11-29T02:00:00Z", "startTime": "2026-11-29T02:00:05Z",
            "completionTime": outcome.map(|_| "2026-11-29T02:00:35Z"),
        })
    }

    #[test]
    fn an_entry_stands_until_its_attempt_is_over() {
        let running = json!({"state": "Running", "attempts": [attempt(1, None)]});
        let unresolved = json!({"state": "Unresolved", "attempts": [attempt(1, Some("Unknown"))]});
        let failed = json!({"state": "Queued", "attempts": [attempt(1, Some("Failed"))]});
        let done = json!({"state": "Succeeded", "attempts": [attempt(1, Some("Succeeded"))]});
        let cancelled = json!({"state": "Cancelled"});
        let deleted = {
            let mut job = job("u0", &running);
            job.metadata.deletion_timestamp =
                serde_json::from_value(json!("2026-11-29T02:00:00Z")).unwrap();
            job
        };
        let asked_for = {
            let mut attempt = attempt(1, Some("Failed"));
            attempt["reason"] = json!(RETRY_REQUESTED);
            json!({"state": "Queued", "attempts": [attempt]})
        };
        let over = |again| Standing::Over { took: 30_000, again: Some(again) };
        for (description, number, known, expected) in [
            ("not seen yet by the job", 1, Some(job("u0", &Value::Null)), Standing::Open),
            ("running", 1, Some(job("u0", &running)), Standing::Open),
            ("nobody knows", 1, Some(job("u0", &unresolved)), Standing::Open),
            ("waits for another attempt", 1, Some(job("u0", &failed)), over(true)),
            ("a person ordered another", 1, Some(job("u0", &asked_for)), over(false)),
            ("the next attempt, not committed", 2, Some(job("u0", &failed)), Standing::Open),
            ("done", 1, Some(job("u0", &done)), over(false)),
            (
                "cancelled before it began",
                1,
                Some(job("u0", &cancelled)),
                Standing::Over { took: 0, again: None },
            ),
            ("deleted", 1, None, Standing::Gone),
            ("being deleted", 1, Some(deleted), Standing::Gone),
            ("created again", 1, Some(job("u1", &done)), Standing::Gone),
        ] {
            assert_eq!(standing(&entry(number), known.as_ref()), expected, "{description}");
        }
    }
}
