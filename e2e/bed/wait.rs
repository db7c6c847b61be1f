//! Waiting for a condition with a deadline.

use std::{future::Future, time::Duration};

use tokio::time::Instant;

use super::error::{BedError, Result};

/// How often a condition is looked at. What changes in the cluster is watched instead; this is for
/// what cannot be watched: endpoints that come up, logs, local processes.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Looks until `look` gives a value; the error says what was awaited and what was seen last.
pub async fn until<T, Fut>(what: &str, within: Duration, mut look: impl FnMut() -> Fut) -> Result<T>
where
    Fut: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + within;
    loop {
        let last = match tokio::time::timeout_at(deadline, look()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        if Instant::now() + LOOK_AGAIN > deadline {
            return Err(BedError(format!("not within {within:?}: {what}; last seen: {last}")));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
