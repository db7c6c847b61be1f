//! A new leader that finds much: how many questions it asks at a time, in virtual time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response};
use serde_json::json;
use tokio::time::sleep;

use super::{lab::until, tests::Lab};
use crate::{
    fakeprovider::{
        book::Habits,
        outside::{Outside, URL},
    },
    providers::http::{SendError, Tls, Transport},
    sim::Kind,
};

/// Reports that run.
const REPORTS: usize = 60;
/// The service takes so long to answer.
const ANSWER: Duration = Duration::from_millis(200);
/// Objects one controller of a replica of the lab works on at a time.
const CONCURRENCY: usize = 4;

/// A service that takes its time, and counts who waits for it.
struct Counting {
    outside: Outside,
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A question under way, until it is dropped.
struct Question<'a>(&'a AtomicUsize);

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Transport for Counting {
    fn send<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        tls: &'a Tls,
    ) -> BoxFuture<'a, Result<Response<Vec<u8>>, SendError>> {
        Box::pin(async move {
            let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
            let _question = Question(&self.now);
            self.most.fetch_max(now, Ordering::Relaxed);
            sleep(ANSWER).await;
            self.outside.send(request, tls).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_asks_about_all_that_runs_a_few_at_a_time() {
    let lab = Lab::new();
    let service = Arc::new(Counting {
        outside: Outside::with(lab.clocks.wall.clone(), Habits { hold: true, seconds: 36_000 }),
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let install = |manifest| lab.model.install(&manifest).unwrap();
    install(json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
        "metadata": {"name": "reports", "namespace": "docs"}, "spec": {"slots": REPORTS},
    }));
    for number in 0..REPORTS {
        install(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
            "metadata": {"name": format!("r{number:02}"), "namespace": "docs"},
            "spec": {
                "queueName": "reports", "tenant": "acme",
                "run": {"actionClass": "Fenced", "http": {"url": URL}},
            },
        }));
    }
    let first = lab.start_with("r0", service.clone());
    let running = || {
        let reports = lab.model.list(Kind::ReportJob);
        reports.iter().filter(|report| report["status"]["state"] == "Running").count()
    };
    until("all reports run", || running() == REPORTS).await;
    drop(first);
    until("the first has stopped", || lab.holder().is_none()).await;
    service.most.store(0, Ordering::Relaxed);
    let _second = lab.start_with("r1", service.clone());
    let reconciled = || {
        let traces = lab.model.list(Kind::RecoveryTrace);
        let newest = traces.iter().max_by_key(|trace| trace["spec"]["epoch"].as_i64());
        newest.and_then(|trace| trace["status"]["reconciled"].as_u64())
    };
    until("everything is accounted for", || reconciled() == u64::try_from(REPORTS).ok()).await;
    let most = service.most.load(Ordering::Relaxed);
    assert_eq!(most, CONCURRENCY, "every worker asks, and no more than there are workers");
    assert_eq!(service.outside.starts(), REPORTS as u64, "nothing was started again");
    assert_eq!(running(), REPORTS);
}
