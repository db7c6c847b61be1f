//! How a scenario is run: where, for how long, and what is checked at its end.

use std::{
    any::{Any, type_name},
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{sync::Semaphore, time::Instant};

use super::{
    control_plane::PlaneOptions,
    other_cluster,
    run::{block_on, progress},
    scenario::Scenario,
};
use crate::checker::Exception;

/// Time for one scenario, unless it asks for more: an instant is at most 60 s away, a failover a
/// few seconds, and the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(180);
/// Scenarios at one time. More make the API server slow on two cores, and a short Lease is then lost
/// for want of an answer rather than for the fault under test.
const SIDE_BY_SIDE: usize = 8;
/// What a scenario counts that makes as much work as several: one with its own cluster.
const HEAVY: u32 = 3;

static TURNS: Semaphore = Semaphore::const_new(SIDE_BY_SIDE);
static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// How a scenario is run.
#[must_use = "a scenario does nothing until it is run"]
pub struct Plan {
    deadline: Duration,
    pub(super) own: Option<PlaneOptions>,
    throw_away: bool,
    pub(super) exceptions: Vec<Exception>,
    unchecked: Option<&'static str>,
    turns: u32,
}

/// A scenario on the shared cluster, checked at its end.
pub fn scenario() -> Plan {
    Plan {
        deadline: DEADLINE,
        own: None,
        throw_away: false,
        exceptions: Vec::new(),
        unchecked: None,
        turns: 1,
    }
}

impl Plan {
    /// Gives it another time limit, counted from the moment its namespace exists.
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Gives it a control plane of its own, because it disturbs others or needs other flags.
    pub fn on_own_cluster(self, options: PlaneOptions) -> Self {
        Self { own: Some(options), throw_away: true, ..self }.heavy()
    }

    /// Leaves it more of the machine: fewer others run beside it.
    pub fn heavy(self) -> Self {
        Self { turns: HEAVY, ..self }
    }

    /// Leaves it out on a cluster that is not ours: it needs kwok, the audit log or the programs.
    pub fn on_throw_away_cluster(self) -> Self {
        Self { throw_away: true, ..self }
    }

    /// Tells the checker of something that this scenario does on purpose.
    pub fn allow(mut self, exception: Exception) -> Self {
        self.exceptions.push(exception);
        self
    }

    /// Leaves the history unchecked; say why.
    pub fn unchecked(self, reason: &'static str) -> Self {
        Self { unchecked: Some(reason), ..self }
    }

    /// Runs it. Panics, as a test does, if it fails.
    pub fn run<F: AsyncFnOnce(&Scenario)>(self, body: F) {
        let name = test_name::<F>();
        if self.throw_away && other_cluster().is_some() {
            let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
            progress(&format!("skipped ({count} so far) {name}: it needs the throw-away cluster"));
            return;
        }
        block_on(self.run_named(&name, body));
    }

    async fn run_named<F: AsyncFnOnce(&Scenario)>(self, name: &str, body: F) {
        let _turn = TURNS.acquire_many(self.turns).await.expect("nobody closes the semaphore");
        let scenario = match Scenario::create(name, &self).await {
            Ok(scenario) => scenario,
            Err(error) => panic!("{name}: the test bed: {error}"),
        };
        let started = Instant::now();
        let body = tokio::time::timeout(self.deadline, body(&scenario));
        let outcome = match AssertUnwindSafe(body).catch_unwind().await {
            Err(panic) => Err(Failure::Panicked(panic)),
            Ok(Err(_)) => {
                Err(Failure::Said(format!("{name}: not done within {:?}", self.deadline)))
            }
            Ok(Ok(())) => scenario
                .conclude(self.unchecked)
                .await
                .map_err(|error| Failure::Said(error.to_string())),
        };
        scenario.end(started, outcome).await;
    }
}

/// Why a scenario failed.
pub(super) enum Failure {
    /// Its body panicked; the message is printed already.
    Panicked(Box<dyn Any + Send>),
    /// It took too long, or its history is wrong.
    Said(String),
}

impl Failure {
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Said(text) => text,
            Self::Panicked(payload) => payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or_default(),
        }
    }
}

/// The test function's path: `suite::bed::a_job_is_played`.
fn test_name<F>() -> String {
    let path = type_name::<F>().replace("::{{closure}}", "");
    path.split_once("::").map_or(path.clone(), |(_, rest)| rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::scenario::{NAMESPACE_CHARS, short_name};

    #[test]
    fn names_come_from_the_test_function() {
        let name = test_name_of(async |_: &Scenario| {});
        assert_eq!(name, "bed::plan::tests::names_come_from_the_test_function");
        assert_eq!(short_name(&name), "names-come-from-the-test-function");
        assert!(short_name(&"a_long_name".repeat(9)).len() <= NAMESPACE_CHARS - 6);
    }

    fn test_name_of<F: AsyncFnOnce(&Scenario)>(_: F) -> String {
        test_name::<F>()
    }
}
