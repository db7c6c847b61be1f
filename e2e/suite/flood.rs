//! While very many reports are created, everything else goes on.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    reports::{QUEUE, create_all, in_state, queue, quick, report},
    steps::{SOON, patch},
    work::{BY_HAND, SCHEDULE, epoch, schedule},
};
use crate::{
    bed::{
        control_plane::{Parts, PlaneOptions},
        objects::text,
        operator::ReplicaOptions,
        plan::scenario,
        run::progress,
        scenario::{Scenario, ok},
    },
    resident::resident,
};

/// Says how many reports are created.
const FLOOD_ENV: &str = "PUNCTUAL_E2E_FLOOD";
/// Without it: as many as a busy machine with two cores creates in less than half a minute.
const FLOOD: usize = 2000;
/// Tenants that submit them.
const TENANTS: usize = 40;
/// Slots of the queue.
const SLOTS: usize = 16;
/// The part of the flood that is there when the cancel is asked for.
const BEFORE_THE_CANCEL: usize = 8;
/// Reads of other objects while nothing happens.
const IDLE_READS: usize = 100;
/// Pause between two of them.
const READ_PAUSE: Duration = Duration::from_millis(20);
/// The default of the product.
const LEASE: Duration = Duration::from_secs(10);

fn flood() -> usize {
    let asked = std::env::var(FLOOD_ENV).ok().map(|text| {
        let number: NonZeroUsize =
            text.parse().unwrap_or_else(|_| panic!("{FLOOD_ENV} is a number, not {text:?}"));
        number.get()
    });
    asked.unwrap_or(FLOOD)
}

/// Reads an object of another kind, again and again; how long each took.
async fn reads(s: &Scenario, go_on: impl Fn(usize) -> bool) -> Vec<Duration> {
    let mut times = Vec::new();
    while go_on(times.len()) {
        let began = Instant::now();
        assert!(s.get("msched", SCHEDULE).await.is_some());
        times.push(began.elapsed());
        tokio::time::sleep(READ_PAUSE).await;
    }
    times.sort();
    times
}

fn say(what: &str, times: &[Duration]) -> String {
    let of = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    format!("{what} {:.1} / {:.1} / {:.1} ms ({})", of(50), of(99), of(100), times.len())
}

fn reports(numbers: std::ops::Range<usize>) -> Vec<Value> {
    numbers.map(|n| report(&format!("r{n:05}"), &format!("tenant-{}", n % TENANTS))).collect()
}

#[test]
fn everything_else_goes_on_while_very_many_reports_are_created() {
    let options = PlaneOptions { parts: Parts::ApiServer, ..PlaneOptions::default() };
    let plan = scenario().within(Duration::from_secs(900)).on_own_cluster(options);
    plan.unchecked("the audit log of so many objects takes longer than the rest").run(async |s| {
        let flood = flood();
        let replica = {
            let options =
                ReplicaOptions { lease_duration: Some(LEASE), ..ReplicaOptions::default() };
            s.replica_with("r0", &options).await
        };
        ok(replica.wait_ready(SOON).await);
        s.leader(SOON).await;
        s.apply(&schedule(BY_HAND, &quick())).await;
        // Nothing runs them here, so the slots are taken at once and stay so.
        let limits = json!({"limits": {"queued": 1_000_000, "queuedPerTenant": 1_000_000}});
        s.apply(&queue(SLOTS, &quick(), &limits).to_string()).await;
        let term = epoch(s).await;
        let empty = resident(&replica.process().pid().to_string());
        let idle = reads(s, |done| done < IDLE_READS).await;

        // One that waits, while the slots are taken.
        create_all(s, reports(0..SLOTS)).await;
        s.wait_for("rqueue", QUEUE, "all slots are taken", SOON, |o| {
            o["status"]["slotsUsed"] == SLOTS
        })
        .await;
        let name = "to-cancel";
        create_all(s, vec![report(name, "tenant-0")]).await;
        in_state(s, name, "Queued").await;
        let poured = AtomicBool::new(false);
        let (first, began) = (SLOTS + flood / BEFORE_THE_CANCEL, Instant::now());
        let (sender, halfway) = tokio::sync::oneshot::channel();
        let creating = async {
            create_all(s, reports(SLOTS..first)).await;
            sender.send(()).expect("it waits for this");
            create_all(s, reports(first..flood)).await;
            poured.store(true, Ordering::Relaxed);
            began.elapsed()
        };
        let cancelling = async {
            halfway.await.expect("it is sent");
            let asked = Instant::now();
            patch(s, "rjob", name, &json!({"spec": {"cancel": true}})).await;
            let over = in_state(s, name, "Cancelled").await;
            assert_eq!(over["status"]["attempts"].as_array().map_or(0, Vec::len), 0, "{over}");
            (asked.elapsed(), poured.load(Ordering::Relaxed))
        };
        let reading = reads(s, |_| !poured.load(Ordering::Relaxed));
        let (took, (confirmed, too_late), busy) = tokio::join!(creating, cancelling, reading);
        assert!(!too_late, "the flood was over before the cancel was confirmed");
        let answered = flood + 1 - unanswered(s).await;
        progress(&format!(
            "{flood} reports created in {:.1} s, {answered} of them answered by then; a cancel confirmed in {confirmed:?}",
            took.as_secs_f64(),
        ));
        progress(&format!(
            "GET of another object, median / 99 % / longest: {}; {}",
            say("idle", &idle),
            say("meanwhile", &busy),
        ));
        let all = resident(&replica.process().pid().to_string());
        progress(&format!(
            "resident memory of the replica: {} MiB without reports, {} MiB with {flood}",
            empty >> 20,
            all >> 20,
        ));
        assert_eq!(epoch(s).await, term, "leadership changed: {}", replica.log_text());
        assert_eq!(replica.process().lives(), 1);
    });
}

/// Reports without a state.
async fn unanswered(s: &Scenario) -> usize {
    s.list("rjob").await.iter().filter(|o| text(o, "/status/state").is_empty()).count()
}
