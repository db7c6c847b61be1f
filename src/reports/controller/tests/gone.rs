//! Entries whose report is gone.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::reconcile::{Asking, PROBE_TIME};

/// Entries of reports that are gone.
const GONE: usize = 20;
/// A slow API server: below the deadline of each call.
const LATENCY: Duration = Duration::from_secs(3);

/// Names of reports that were asked for since the beginning.
fn asked(scene: &Scene) -> Vec<String> {
    let log = scene.fake.log().into_iter();
    log.filter_map(|entry| Some(entry.path.strip_prefix(&format!("{JOBS}/"))?.to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pass_asks_about_what_is_gone_for_a_bounded_time_and_the_next_goes_on() {
    let scene = Scene::new();
    let entry = |number: usize| {
        json!({
            "job": format!("gone-{number:02}"), "uid": format!("u{number:02}"), "tenant": "acme",
            "attempt": 1, "runKey": format!("g{number:02}-r1"), "actionClass": "Idempotent",
            "charge": 1000, "admittedTime": "2026-11-29T01:59:00Z",
        })
    };
    let entries: Vec<Value> = (0..GONE).map(entry).collect();
    scene.put_queue(&json!({
        "fence": {"epoch": 50, "nonce": "mine"}, "admissions": "Open",
        "ledger": {"virtualTime": 0, "entries": entries},
    }));
    scene.fake.set_latency(LATENCY);
    let (mut passes, mut left) = (0, GONE);
    while left > 0 {
        let (begun, before) = (Instant::now(), asked(&scene).len());
        let queue = scene.pass_queue().await;
        passes += 1;
        let took = begun.elapsed();
        // The question under way is waited for, which takes up to four calls, and then the decision is
        // written. All questions in one pass would take minutes.
        assert!(took < PROBE_TIME + 6 * LATENCY, "pass {passes} took {took:?}");
        assert!(asked(&scene).len() > before, "pass {passes} asked about nothing");
        left = queue["ledger"]["entries"].as_array().map_or(0, Vec::len);
        scene.later(5);
        assert!(passes <= GONE, "{left} are left");
    }
    assert!(passes > 2, "one pass asked about {GONE}");
    let mut asked = asked(&scene);
    asked.sort();
    let all: Vec<String> = (0..GONE).map(|number| format!("gone-{number:02}")).collect();
    assert_eq!(asked, all, "each was asked for once");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_told_does_not_keep_others_from_being_asked_about() {
    let departures = Departures::default();
    let queue = ObjectKey::new("docs", "q");
    let held = ["a", "b", "c", "d"].map(str::to_owned);
    let turn =
        || -> String { departures.in_turn(&queue, &held, |uid| uid).map(String::as_str).collect() };
    let pass = Asking::begin();
    assert_eq!(turn(), "abcd");
    assert!(departures.goes_on(&queue, pass, "b"));
    tokio::time::sleep(PROBE_TIME).await;
    assert!(!departures.goes_on(&queue, pass, "c"));
    assert_eq!(turn(), "cdab");
    assert!(departures.goes_on(&queue, Asking::begin(), "c"));
    departures.all_asked(&queue);
    assert_eq!(turn(), "abcd");
}
