//! Many reports at once, while leaders are killed and frozen and the queue is deleted.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    reports::{
        QUEUE, count, create_all, idle, in_state, one_run_each, queue, quick, reached, report,
    },
    steps::{SOON, operator},
    work::{pair, revive},
};
use crate::{
    bed::{
        control_plane::PlaneOptions,
        objects::text,
        plan::scenario,
        run::progress,
        scenario::{Scenario, ok},
    },
    checker::{
        Report,
        history::{Actor, Entry},
    },
};

/// Reports of the burst.
const REPORTS: usize = 500;
/// Tenants that submit them, all alike.
const TENANTS: usize = 20;
/// Reports at a time.
const SLOTS: usize = 16;
/// Done before the first leader is killed.
const CALM: usize = 120;
/// Done between two faults.
const BETWEEN: usize = 60;
/// Time for the whole burst: half a minute on an idle machine, and three failovers.
const BURST: Duration = Duration::from_secs(240);
/// Writes that are for one report alone: its answer, its commit and its end; its Job, and its release.
const OWN_WRITES: usize = 5;
/// Least time between two writes of a ledger.
const LEDGER_PAUSE: SignedDuration = SignedDuration::from_millis(200);
/// Writes of the operator over the life of a report, when many come to their end together.
const WRITES_GOAL: f64 = 5.2;
/// How many of them are the admission.
const ADMISSION_GOAL: f64 = 1.2;

fn name(number: usize) -> String {
    format!("r{number:03}")
}

/// Everything done: all of these have succeeded, and no slot is taken.
async fn all_done(s: &Scenario, names: &[String]) {
    reached(s, "Succeeded", names.len(), BURST).await;
    idle(s).await;
    let all = s.list("rjob").await;
    let others: Vec<&str> = all
        .iter()
        .filter(|o| text(o, "/status/state") != "Succeeded")
        .map(|o| text(o, "/metadata/name"))
        .collect();
    assert_eq!((all.len(), others), (names.len(), vec![]));
    assert_eq!(s.list("job").await.len(), names.len());
}

#[test]
fn a_burst_of_reports_outlives_its_leaders() {
    let plan = scenario().within(Duration::from_secs(420)).on_own_cluster(PlaneOptions::default());
    plan.unchecked("the body checks it: the history is long").run(async |s| {
        pair(s).await;
        s.apply(&queue(SLOTS, &quick(), &json!({})).to_string()).await;
        let began = Instant::now();
        let flood =
            (0..REPORTS).map(|n| report(&name(n), &format!("tenant-{}", n % TENANTS))).collect();
        let mut names = create_all(s, flood).await;
        progress(&format!("{REPORTS} reports created in {:?}", began.elapsed()));
        reached(s, "Succeeded", CALM / 2, BURST).await;
        names.extend(create_all(s, vec![report("late", "small")]).await);
        in_state(s, "late", "Succeeded").await;
        reached(s, "Succeeded", CALM, BURST).await;
        for _ in 0..2 {
            let leader = s.leader(SOON).await;
            ok(leader.kill().await);
            s.next_leader(&leader, SOON).await;
            revive(&leader).await;
            let done = ok(count(s, "Succeeded").await);
            reached(s, "Succeeded", (done + BETWEEN).min(names.len()), BURST).await;
        }
        let leader = s.leader(SOON).await;
        ok(leader.freeze().await);
        s.next_leader(&leader, SOON).await;
        let left = names.len() - ok(count(s, "Succeeded").await);
        ok(leader.thaw());
        progress(&format!("{left} reports are left when the frozen leader goes on"));
        all_done(s, &names).await;
        let took = began.elapsed();
        progress(&format!("{} reports done in {took:?}", names.len()));

        let report = s.verify().await;
        one_run_each(&report, &names);
        let most = report.most_reports_at_once();
        progress(&format!("at most {most} reports at a time, of {SLOTS} slots"));
        assert!((2..=SLOTS).contains(&most), "{most} at a time");
        not_behind_the_flood(&report, "late");
        few_writes(&Writes::of(&report, names.len()));
    });
}

/// A report of a tenant with nothing else waits for one of each other tenant at most, and for what
/// was admitted before it was seen.
fn not_behind_the_flood(report: &Report, late: &str) {
    let created = report.history.of("reportjobs").find(|e| e.name == late && e.verb == "create");
    let created = created.expect("the test created it").place;
    let since: Vec<&str> = report
        .releases
        .iter()
        .filter(|release| Some(release.place) > created)
        .map(|release| release.identity.as_str())
        .collect();
    let before = since.iter().position(|name| *name == late).expect("it was released");
    let after = since.len() - before - 1;
    progress(&format!("the small tenant's report started after {before} others; {after} waited"));
    assert!(before <= TENANTS + 2 * SLOTS, "{before} started before it");
    assert!(after > REPORTS / 2, "the flood was over");
}

/// Writes of the operator over the whole lives of all reports.
struct Writes {
    reports: usize,
    terms: usize,
    /// To the reports themselves, and which of them committed a handle.
    own: usize,
    commits: usize,
    /// Which of them only told a new place in the queue: after a minute of waiting at the earliest.
    places: usize,
    /// To their Jobs.
    jobs: usize,
    /// To the queue, for all of them.
    ledger: usize,
    /// Shortest time between two writes of the ledger in one term.
    pause: SignedDuration,
}

impl Writes {
    fn of(report: &Report, reports: usize) -> Self {
        let by_operator = |resource: &'static str| {
            report.history.of(resource).filter(|entry| entry.actor == Actor::Operator)
        };
        let mut lives: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in by_operator("reportjobs") {
            lives.entry(&entry.uid).or_default().push(entry);
        }
        let ledger: Vec<&Entry> = by_operator("reportqueues").collect();
        let same_term = |pair: &&[&Entry]| pair[0].fence() == pair[1].fence();
        let pauses = ledger.windows(2).filter(same_term);
        let pause = pauses.map(|pair| pair[1].received.duration_since(pair[0].received)).min();
        Self {
            reports,
            terms: report.terms.len(),
            own: lives.values().map(Vec::len).sum(),
            commits: lives.values().map(|life| commits(life)).sum(),
            places: lives.values().map(|life| places(life)).sum(),
            jobs: by_operator("jobs").count(),
            ledger: ledger.len(),
            pause: pause.unwrap_or(SignedDuration::MAX),
        }
    }

    /// Per report.
    #[expect(clippy::cast_precision_loss, reason = "counts of a test")]
    fn each(&self, count: usize) -> f64 {
        count as f64 / self.reports as f64
    }
}

/// Writes that left a report waiting as it was.
fn places(life: &[&Entry]) -> usize {
    let kept = |pair: &&[&Entry]| {
        let of = |field| pair.iter().all(|e| e.text(field) == pair[0].text(field));
        pair[0].text("/status/state") == "Queued" && of("/status/state") && of("/status/reason")
    };
    life.windows(2).filter(kept).count()
}

/// Writes that added an attempt.
fn commits(life: &[&Entry]) -> usize {
    let attempts = |e: &Entry| e.object["status"]["attempts"].as_array().map_or(0, Vec::len);
    let first = life.first().map_or(0, |entry| usize::from(attempts(entry) > 0));
    first + life.windows(2).filter(|pair| attempts(pair[1]) > attempts(pair[0])).count()
}

/// A report costs few writes. Events are not counted: they may be lost. What the ledger costs each
/// depends on how quickly the machine runs them, because one write is for all that came to their end
/// meanwhile. What holds on any machine is that it is written five times a second at most.
fn few_writes(writes: &Writes) {
    progress(&format!(
        "writes of the operator for each of {} reports, in {} terms: {:.2} (its status {:.2}, of which {:.2} its place; its Job {:.2}; the ledger {:.2}; goal {WRITES_GOAL}), of which admission {:.2} (goal {ADMISSION_GOAL}); the ledger is written again after {} ms at the earliest",
        writes.reports,
        writes.terms,
        writes.each(writes.own + writes.jobs + writes.ledger),
        writes.each(writes.own),
        writes.each(writes.places),
        writes.each(writes.jobs),
        writes.each(writes.ledger),
        writes.each(writes.commits + writes.ledger),
        writes.pause.as_millis(),
    ));
    // A new leader seals what it finds open, or takes its Job over: once more for each slot.
    let again = 2 * SLOTS * (writes.terms - 1);
    let own = writes.own - writes.places + writes.jobs;
    assert!(own <= OWN_WRITES * writes.reports + again, "{own} in {} terms", writes.terms);
    assert_eq!(writes.commits, writes.reports);
    assert!(writes.ledger <= writes.reports, "{} writes of the ledger", writes.ledger);
    assert!(writes.pause >= LEDGER_PAUSE, "after {}", writes.pause);
}

#[test]
fn a_queue_is_deleted_and_applied_again_smaller_midway() {
    scenario().on_throw_away_cluster().run(async |s| {
        let play: Value = json!({"play/duration": "2s"});
        s.apply(&queue(4, &play, &json!({})).to_string()).await;
        let reports = (0..16).map(|n| report(&name(n), &format!("tenant-{}", n % 4))).collect();
        let names = create_all(s, reports).await;
        operator(s).await;
        reached(s, "Succeeded", 3, SOON).await;
        ok(s.kubectl().run(&["delete", "rqueue", QUEUE]).await);
        // What runs goes on without it; nothing else starts.
        s.apply(&queue(2, &play, &json!({})).to_string()).await;
        all_done(s, &names).await;
        let report = s.verify().await;
        one_run_each(&report, &names);
        let most = report.most_reports_at_once();
        progress(&format!("at most {most} reports at a time, of 4 slots and then 2"));
        assert!((2..=4).contains(&most), "{most} at a time");
    });
}
