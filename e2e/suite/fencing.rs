//! A leader whose time is over changes nothing, whatever it still has under way.

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::work::{
    BY_HAND, SCHEDULE, SOON, finish, fronted_pair, gives_up, held, idle, job, leading, led_by,
    not_ready, one_run_each, pair_behind, quick, revive, running, schedule, succeeded, trigger,
};
use crate::{
    bed::{
        control_plane::{Parts, PlaneOptions},
        error::{BedError, Context as _},
        objects::text,
        plan::scenario,
        proxy::{SeenWrite, Which},
        run::progress,
        scenario::{Scenario, ok},
        wait,
    },
    checker::{
        Report,
        history::{Actor, Entry},
    },
};

/// Writes of one occurrence are fewer; without a bound a fault of the test would never end.
const MOST_WRITES: usize = 30;
/// Fewer writes cannot be: claim, create, commit, release, outcome.
const LEAST_WRITES: usize = 5;

/// Whether a write is about leadership or events and decides nothing.
fn decides(write: &SeenWrite) -> bool {
    !write.is_lease() && !write.is_event() && !write.dry_run()
}

#[test]
fn a_frozen_leader_ends_by_itself_when_it_wakes() {
    scenario().on_throw_away_cluster().run(async |s| {
        let (replicas, proxies) = fronted_pair(s).await;
        s.apply(&schedule(BY_HAND, &held())).await;
        let name = trigger(s, 0).await;
        running(s, &name).await;
        let number = leading(s).await;
        let (old, new, proxy) = (&replicas[number], &replicas[1 - number], &proxies[number]);
        old.stays_down().await;
        ok(old.freeze().await);
        let before = proxy.writes().len();
        led_by(s, new).await;
        finish(s, &name).await;
        succeeded(s, &name).await;
        ok(old.thaw());
        gives_up(old).await;
        let late = proxy.writes().split_off(before);
        let committed = late.iter().filter(|(write, answer)| {
            (decides(write) || write.is_lease()) && answer.is_some_and(|code| code.is_success())
        });
        let committed: Vec<_> = committed.collect();
        assert!(committed.is_empty(), "the old leader still wrote: {committed:?}");
        let report = s.verify().await;
        one_run_each(s, &report, &[name]).await;
    });
}

#[test]
fn a_leader_that_is_cut_off_ends_by_itself() {
    scenario().on_throw_away_cluster().run(async |s| {
        let (replicas, proxies) = fronted_pair(s).await;
        s.apply(&schedule(BY_HAND, &held())).await;
        let name = trigger(s, 0).await;
        running(s, &name).await;
        let number = leading(s).await;
        replicas[number].stays_down().await;
        proxies[number].blackhole();
        gives_up(&replicas[number]).await;
        led_by(s, &replicas[1 - number]).await;
        finish(s, &name).await;
        succeeded(s, &name).await;
        let report = s.verify().await;
        one_run_each(s, &report, &[name]).await;
    });
}

/// A write that came after its time.
struct Late {
    write: SeenWrite,
    /// Epoch of the term that sent it.
    term: i64,
    /// Name of the occurrence that ran meanwhile.
    name: String,
    report: Report,
}

/// Holds the first write that `which` chooses, freezes its sender, lets the successor do all the
/// work, and only then lets the write go.
async fn late(s: &Scenario, which: Which) -> Late {
    let (replicas, proxies) = fronted_pair(s).await;
    s.apply(&schedule(BY_HAND, &quick())).await;
    idle(s).await;
    let held = [proxies[0].hold(which.clone(), 1), proxies[1].hold(which, 1)];
    let name = trigger(s, 0).await;
    let (number, write) = tokio::select! {
        write = held[0].reached(SOON) => (0, ok(write)),
        write = held[1].reached(SOON) => (1, ok(write)),
    };
    let (old, new) = (&replicas[number], &replicas[1 - number]);
    old.stays_down().await;
    ok(old.freeze().await);
    // The same write of the successor passes.
    held[1 - number].release();
    led_by(s, new).await;
    succeeded(s, &name).await;
    idle(s).await;
    held[number].release();
    let answer = ok(held[number].answer(SOON).await);
    assert!(
        [StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY].contains(&answer.status),
        "{write:?}: {answer:?}"
    );
    progress(&format!("{} {}: {}", write.method, write.path, answer.body["message"]));
    ok(old.thaw());
    gives_up(old).await;
    let report = s.verify().await;
    one_run_each(s, &report, std::slice::from_ref(&name)).await;
    let term = term_of(&write.body).unwrap_or_else(|| panic!("no epoch in {write:?}"));
    Late { write, term, name, report }
}

/// The epoch that a write carries: in its fence, or in the annotations of a Job.
fn term_of(body: &Value) -> Option<i64> {
    let notes = &body["metadata"]["annotations"];
    let note = notes["punctual.dev/released"].as_str().or(notes["punctual.dev/epoch"].as_str());
    body["status"]["fence"]["epoch"].as_i64().or_else(|| note?.parse().ok())
}

impl Late {
    /// The refusals of this very write in the audit log.
    fn refusals(&self, resource: &str) -> Vec<&Entry> {
        let version = |body: &Value| text(body, "/metadata/resourceVersion").to_owned();
        let refused = self.report.history.refused.iter().filter(|entry| {
            entry.resource == resource
                && entry.actor == Actor::Operator
                && term_of(&entry.request) == Some(self.term)
                && version(&entry.request) == version(&self.write.body)
        });
        refused.collect()
    }
}

#[test]
fn a_late_write_to_an_occurrence_is_refused() {
    scenario().on_throw_away_cluster().run(async |s| {
        let late = late(s, Which::on(Method::PUT, "/maintenanceoccurrences/")).await;
        let refused = late.refusals("maintenanceoccurrences");
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!((&refused[0].name, &*refused[0].subresource), (&late.name, "status"));
        assert!(late.report.refused_of_epoch(late.term).count() >= 1);
    });
}

#[test]
fn a_late_write_to_a_schedule_is_refused() {
    scenario().on_throw_away_cluster().run(async |s| {
        let claim = Which::new(|write| {
            write.path.contains("/maintenanceschedules/")
                && !write.dry_run()
                && write.body["status"]["claimed"].as_array().is_some_and(|all| !all.is_empty())
        });
        let late = late(s, claim).await;
        let refused = late.refusals("maintenanceschedules");
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!((&*refused[0].name, &*refused[0].subresource), (SCHEDULE, "status"));
    });
}

#[test]
fn a_late_release_of_a_job_is_refused() {
    scenario().on_throw_away_cluster().run(async |s| {
        let late = late(s, Which::on(Method::PATCH, "/jobs/")).await;
        assert_eq!(late.write.body["spec"]["suspend"], false, "{:?}", late.write);
        let refused = late.refusals("jobs");
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!((&*refused[0].verb, &refused[0].name), ("patch", &job(&late.name)));
    });
}

#[test]
fn a_late_creation_of_a_job_is_refused() {
    scenario().on_throw_away_cluster().run(async |s| {
        let late = late(s, Which::on(Method::POST, "/jobs")).await;
        let refused = late.refusals("jobs");
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!((&*refused[0].verb, &refused[0].name), ("create", &job(&late.name)));
    });
}

/// The leader dies at each point at which it has written something about an occurrence and does not
/// know the answer: after write number `first`, then after every second one, until none is left.
async fn killed_after_every_second_write(s: &Scenario, first: usize) {
    let proxy = s.proxy().await;
    pair_behind(s, &proxy).await;
    s.apply(&schedule(BY_HAND, &quick())).await;
    idle(s).await;
    let mut names = Vec::new();
    for number in (first..MOST_WRITES).step_by(2) {
        let leader = s.leader(SOON).await;
        let last = proxy.hold_answer(Which::decisions(), number);
        let name = trigger(s, number).await;
        let all_done = async {
            succeeded(s, &name).await;
            idle(s).await;
        };
        let write = tokio::select! {
            biased;
            write = last.reached(SOON) => Some(ok(write)),
            () = all_done => last.reached(Duration::ZERO).await.ok(),
        };
        names.push(name.clone());
        let Some(write) = write else { break };
        progress(&format!("killed after write {number}: {} {}", write.method, write.path));
        ok(leader.kill().await);
        last.release();
        s.next_leader(&leader, SOON).await;
        succeeded(s, &name).await;
        idle(s).await;
        revive(&leader).await;
    }
    assert!((LEAST_WRITES / 2 + 1..MOST_WRITES / 2).contains(&names.len()), "{names:?}");
    let report = s.verify().await;
    one_run_each(s, &report, &names).await;
}

#[test]
fn a_leader_killed_after_an_odd_write_leaves_one_run() {
    scenario().on_throw_away_cluster().run(async |s| killed_after_every_second_write(s, 1).await);
}

#[test]
fn a_leader_killed_after_an_even_write_leaves_one_run() {
    scenario().on_throw_away_cluster().run(async |s| killed_after_every_second_write(s, 2).await);
}

/// The leader lives on and does not know which of its writes happened: each in turn is committed,
/// and its answer is lost.
#[test]
fn an_answer_that_is_lost_leaves_one_run() {
    scenario().on_throw_away_cluster().run(async |s| {
        let proxy = s.proxy().await;
        pair_behind(s, &proxy).await;
        s.apply(&schedule(BY_HAND, &quick())).await;
        idle(s).await;
        let mut names = Vec::new();
        for number in 1..MOST_WRITES {
            let lost = proxy.drop_answer(Which::decisions(), number);
            let name = trigger(s, number).await;
            succeeded(s, &name).await;
            idle(s).await;
            names.push(name);
            if lost.reached(Duration::ZERO).await.is_err() {
                break;
            }
        }
        assert!((LEAST_WRITES + 1..MOST_WRITES).contains(&names.len()), "{names:?}");
        let report = s.verify().await;
        one_run_each(s, &report, &names).await;
    });
}

/// The validation rules at the root of the schema of a kind.
const ROOT_RULES: &str = "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations";

async fn patch_crd(s: &Scenario, crd: &str, patch: &Value) {
    let patch = patch.to_string();
    ok(s.kubectl().run(&["patch", "crd", crd, "--type=json", "--patch", &patch]).await);
}

/// Waits until the kinds are served again: after a change of a definition they are not, for a moment.
async fn served(s: &Scenario) {
    let all = kube::api::ListParams::default();
    let listed = wait::until("the kinds are served again", SOON, || async {
        for kind in ["msched", "mocc"] {
            s.api(kind).list(&all).await.context(|| format!("list {kind}"))?;
        }
        Ok(())
    });
    ok(listed.await);
}

#[test]
fn without_the_fences_rules_nothing_is_written() {
    let options = PlaneOptions { parts: Parts::ApiServer, ..PlaneOptions::default() };
    scenario().on_own_cluster(options).run(async |s| {
        s.apply(&schedule(BY_HAND, &quick())).await;
        let crd = "maintenanceschedules.punctual.dev";
        let whole = ok(s.kubectl().get(&["crd", crd]).await);
        let rules = whole.pointer(ROOT_RULES).expect("the kind has rules at its root").clone();
        patch_crd(s, crd, &json!([{"op": "remove", "path": ROOT_RULES}])).await;
        let replica = s.replica("r0").await;
        not_ready(&replica, &format!("FenceNotEnforced: CRD {crd}")).await;
        let said = |event: &Value| {
            event["reason"] == "FenceNotEnforced"
                && text(event, "/involvedObject/name") == s.lease.as_str()
        };
        let events = wait::until("an event says so", SOON, || async {
            let events = s.list("event").await;
            let found = events.iter().any(said);
            found.then_some(()).ok_or_else(|| BedError(format!("{} events", events.len())))
        });
        ok(events.await);
        trigger(s, 0).await;
        assert!(s.get("lease", &s.lease).await.is_none(), "it campaigned");
        served(s).await;
        let report = s.verify().await;
        let written: Vec<_> =
            report.history.committed.iter().filter(|e| e.actor == Actor::Operator).collect();
        assert!(written.is_empty(), "{written:?}");
        // With the rules back it goes to work by itself.
        patch_crd(s, crd, &json!([{"op": "add", "path": ROOT_RULES, "value": rules}])).await;
        ok(replica.wait_ready(SOON).await);
        s.leader(SOON).await;
        s.wait_for("msched", SCHEDULE, "it is sealed", SOON, |o| {
            o["status"]["fence"]["epoch"].is_i64()
        })
        .await;
    });
}
