//! A run at its instant, and runs that outlive their leader: killed, asked to go, killed again.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::steps::{column, columns};
use super::work::{
    BY_HAND, FAILOVER_GOAL, HANDOVER_GOAL, SCHEDULE, SOON, acquisition, epoch, finish,
    first_decision, held, job, one_run_each, pair, print_times, quick, renewed, revive, running,
    schedule, since, succeeded, trigger,
};
use crate::bed::{
    objects::text,
    plan::scenario,
    run::progress,
    scenario::{Scenario, ok},
};

/// Leaders that are killed, one after the other.
const KILLED: usize = 4;
/// Leaders that are asked to go, one after the other.
const ASKED: usize = 4;
/// The same with those that had just lost their leadership.
const MOST_ASKED: usize = 3 * ASKED;

/// Least renewals of a term before its leader is killed: a standby has looked meanwhile.
const LASTED: usize = 3;

/// The instant is the minute that begins at most this far away: time enough to apply the schedule.
const AHEAD: Duration = Duration::from_secs(75);
/// Then it runs.
const NEXT_MINUTE: Duration = Duration::from_secs(120);

#[test]
fn what_is_applied_with_kubectl_runs_at_its_instant() {
    scenario().on_throw_away_cluster().run(async |s| {
        pair(s).await;
        // One instant, so that a machine that is busy for a minute does not meet a second one.
        let instant = Timestamp::now() + AHEAD;
        let expression = instant.strftime("%-M %-H * * *").to_string();
        s.apply(&schedule(&expression, &quick())).await;
        let seen = s
            .wait_for("msched", SCHEDULE, "it says when it runs", SOON, |o| {
                !text(o, "/status/nextScheduleTime").is_empty()
            })
            .await;
        let next: Timestamp = text(&seen, "/status/nextScheduleTime").parse().unwrap();
        let name = format!("{SCHEDULE}-{}", next.strftime("%Y%m%d%H%M"));
        s.wait_for("mocc", &name, "it exists", NEXT_MINUTE, |_| true).await;
        let ended = succeeded(s, &name).await;
        assert_eq!(text(&ended, "/status/reason"), "Completed");
        s.wait_for("msched", SCHEDULE, "the run is settled", SOON, |o| {
            text(o, "/status/lastScheduleTime") == text(&ended, "/spec/intendedTime")
                && o["status"]["active"].as_i64().unwrap_or(0) == 0
        })
        .await;

        let report = s.verify().await;
        one_run_each(s, &report, std::slice::from_ref(&name)).await;
        let first = |resource, name: &str| {
            let found = report.history.of(resource).find(|entry| entry.name == name);
            found.unwrap_or_else(|| panic!("{resource}/{name} is not in the history"))
        };
        let created = first("maintenanceoccurrences", &name);
        assert!(created.received >= next, "created at {}, before {next}", created.received);
        let release = report.releases_of(&name).next().unwrap();
        let released = report.history.of("jobs").find(|e| e.place == Some(release.place)).unwrap();
        progress(&format!(
            "lateness: created {} ms, released {} ms after the instant",
            since(next, created).as_millis(),
            since(next, released).as_millis(),
        ));

        let of_run = columns(s, "mocc", &name).await;
        let term = ended["status"]["fence"]["epoch"].to_string();
        for (head, cell) in [
            ("NAME", name.as_str()),
            ("STATE", "Succeeded"),
            ("REASON", "Completed"),
            ("INTENDED", text(&ended, "/spec/intendedTime")),
            ("ATTEMPT", "1"),
            ("EPOCH", &term),
        ] {
            assert_eq!(column(&of_run, head), cell, "{head}");
        }
        assert!(column(&of_run, "LATE").parse::<u32>().is_ok(), "{of_run:?}");
        let of_schedule = columns(s, "msched", SCHEDULE).await;
        for (head, cell) in [
            ("NAME", SCHEDULE),
            ("SCHEDULE", expression.as_str()),
            ("ZONE", "UTC"),
            ("LAST", text(&ended, "/spec/intendedTime")),
            ("ACTIVE", "0"),
        ] {
            assert_eq!(column(&of_schedule, head), cell, "{head}");
        }
        let after: Timestamp = column(&of_schedule, "NEXT").parse().unwrap();
        assert!(after > next);
    });
}

#[test]
fn the_successor_of_a_killed_leader_records_the_result() {
    scenario().on_throw_away_cluster().run(async |s| {
        pair(s).await;
        s.apply(&schedule(BY_HAND, &held())).await;
        let mut names = Vec::new();
        let mut killed = Vec::new();
        for round in 0..KILLED {
            let name = trigger(s, round).await;
            running(s, &name).await;
            let leader = s.leader(SOON).await;
            let term = epoch(s).await;
            // At another point between two looks of the standby each time.
            renewed(s, term, LASTED + round).await;
            let at = Timestamp::now();
            ok(leader.kill().await);
            // It ends while nobody leads.
            finish(s, &name).await;
            let ended = succeeded(s, &name).await;
            let by = ended["status"]["fence"]["epoch"].as_i64().unwrap();
            assert!(by > term, "recorded in term {by}, not after {term}");
            killed.push((at, by));
            names.push(name);
            revive(&leader).await;
        }
        let report = s.verify().await;
        one_run_each(s, &report, &names).await;
        let times = killed.iter().map(|(at, term)| since(*at, first_decision(&report, *term)));
        print_times("SIGKILL to the successor's first decision", FAILOVER_GOAL, times.collect());
    });
}

#[test]
fn a_leader_that_is_asked_to_go_hands_over() {
    scenario().on_throw_away_cluster().run(async |s| {
        pair(s).await;
        s.apply(&schedule(BY_HAND, &held())).await;
        let name = trigger(s, 0).await;
        running(s, &name).await;
        let mut asked = Vec::new();
        for _ in 0..MOST_ASKED {
            let leader = s.leader(SOON).await;
            let at = Timestamp::now();
            // It may have ended by itself since: the exit code below says so.
            let sent = leader.terminate().await;
            let next = s.next_leader(&leader, SOON).await;
            let status = ok(leader.wait_exit(SOON).await);
            if status.code() == Some(0) {
                ok(sent);
                asked.push((at, epoch(s).await));
            } else {
                // On a busy machine it may have been too late to ask.
                let lost = "leadership is over reason=no renewal was confirmed";
                assert!(leader.log_text().contains(lost), "{status}: {}", leader.log_text());
            }
            let now = s.get("mocc", &name).await.expect("the record stays");
            assert_eq!(text(&now, "/status/state"), "Running", "led by {}: {now}", next.name);
            revive(&leader).await;
            if asked.len() == ASKED {
                break;
            }
        }
        assert_eq!(asked.len(), ASKED, "of {MOST_ASKED} that were asked to go");
        finish(s, &name).await;
        succeeded(s, &name).await;
        let report = s.verify().await;
        one_run_each(s, &report, &[name]).await;
        let times = asked.iter().map(|(at, term)| since(*at, acquisition(&report, *term)));
        print_times("SIGTERM to the standby's acquisition", HANDOVER_GOAL, times.collect());
    });
}

#[test]
fn one_run_outlives_three_leaders() {
    scenario().on_throw_away_cluster().run(async |s| {
        pair(s).await;
        ok(s.replica("r2").await.wait_ready(SOON).await);
        s.apply(&schedule(BY_HAND, &held())).await;
        let name = trigger(s, 0).await;
        let before = running(s, &name).await;
        let mut terms = vec![epoch(s).await];
        for _ in 0..3 {
            let leader = s.leader(SOON).await;
            ok(leader.kill().await);
            let next = s.next_leader(&leader, SOON).await;
            // It has read everything, the run too, and follows it.
            ok(next.wait_ready(SOON).await);
            terms.push(epoch(s).await);
            ok(leader.restart().await);
        }
        assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
        finish(s, &name).await;
        let ended = succeeded(s, &name).await;
        let handle = |o: &Value| text(o, "/status/attempts/0/handle").to_owned();
        assert_eq!(handle(&ended), handle(&before), "still the Job {}", job(&name));
        let report = s.verify().await;
        one_run_each(s, &report, &[name]).await;
    });
}

#[test]
fn the_successor_of_a_killed_leader_reconciles_one_run() {
    scenario().on_throw_away_cluster().run(async |s| {
        pair(s).await;
        s.apply(&schedule(BY_HAND, &held())).await;
        let over = trigger(s, 0).await;
        running(s, &over).await;
        finish(s, &over).await;
        succeeded(s, &over).await;
        let name = trigger(s, 1).await;
        running(s, &name).await;
        let leader = s.leader(SOON).await;
        let term = epoch(s).await;
        ok(leader.kill().await);
        let trace = s.record_after(term, SOON).await;
        let status = &trace["status"];
        let counts = ["resumed", "reconciled", "preserved", "uncertain"].map(|c| &status[c]);
        assert_eq!(counts, [0, 1, 1, 0], "{trace}");
        assert_eq!(status["fence"]["epoch"], trace["spec"]["epoch"]);

        let cells = columns(s, "rtrace", text(&trace, "/metadata/name")).await;
        let later = trace["spec"]["epoch"].to_string();
        for (head, cell) in [
            ("NAME", format!("{}-{later}", s.lease).as_str()),
            ("EPOCH", &later),
            ("HOLDER", text(&trace, "/spec/holder")),
            ("GAINED", text(&trace, "/spec/gained")),
            ("RESUMED", "0"),
            ("RECONCILED", "1"),
            ("PRESERVED", "1"),
            ("UNCERTAIN", "0"),
            ("DURATION", text(&trace, "/status/duration")),
        ] {
            assert_eq!(column(&cells, head), cell, "{head}");
        }
        assert!(!column(&cells, "AGE").is_empty());
        let edited = try_patch_status(s, text(&trace, "/metadata/name")).await;
        assert!(edited.contains("a completed record is immutable"), "{edited}");

        finish(s, &name).await;
        succeeded(s, &name).await;
        let report = s.verify().await;
        one_run_each(s, &report, &[over, name]).await;
    });
}

/// What the API server says to whoever changes a complete record.
async fn try_patch_status(s: &Scenario, trace: &str) -> String {
    let patch = r#"{"status": {"reconciled": 7}}"#;
    let args = ["patch", "rtrace", trace, "--subresource=status", "--type=merge", "-p", patch];
    let said = ok(s.kubectl().try_run(&args, "").await);
    assert!(!said.ok, "{}", said.stdout);
    said.stderr
}
