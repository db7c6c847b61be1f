//! The commands by which a person acts on the cluster, on the real API server: what they do, and
//! what they say when it cannot be done.

use std::{fs, os::unix::fs::symlink, time::Duration};

use serde_json::{Value, json};

use super::{
    reports,
    steps::{
        SOON, after, apply_back_dated, by_hand, hourly_at, in_state, job_of, minutes_ago, not_soon,
        operator_with, patch_status, punctual, punctual_with, schedule, state_of, trigger, uid,
    },
};
use crate::bed::{
    kubeconfig::{self, Credentials, Server},
    kubelet::Kubelet,
    kwok,
    objects::text,
    plan::scenario,
    scenario::{Scenario, ok},
};

/// Nothing listens there.
const NOBODY: &str = "https://127.0.0.1:1";

/// An occurrence that ends as nobody knows, by a simulated run.
async fn unresolved(s: &Scenario, name: &str) -> String {
    let run = json!({"run": {"simulated": {"durationSeconds": 0, "outcome": "Unknown"}}});
    let mut manifest = schedule(name, &not_soon(), &json!({}), &json!({}));
    manifest["spec"]["run"] = run["run"].clone();
    s.apply(&manifest.to_string()).await;
    trigger(s, name, minutes_ago(3)).await
}

#[test]
fn cancel_asks_for_the_end_and_waits_for_it() {
    scenario().on_throw_away_cluster().run(async |s| {
        let at = minutes_ago(5);
        let hangs = json!({"play/hang": "true"});
        let manifest = schedule("long", &hourly_at(&[at]), &hangs, &json!({}));
        apply_back_dated(s, &manifest, after(at, -2)).await;
        operator_with(s, &["--allow-simulated"]).await;
        let name = format!("long-{}", at.digits());
        in_state(s, &name, "Running").await;
        let target = format!("mocc/{name}");
        let ended = punctual(s, &["cancel", &target, "--wait=2m", "-o", "json"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let answer = ended.json();
        assert_eq!((&answer["state"], &answer["requested"]), (&json!("Cancelled"), &json!(true)));
        assert!(ended.stderr.contains("is Cancelling"), "each change is shown: {ended:?}");
        s.wait_gone("job", &job_of(&name, 1), SOON).await;
        let again = punctual(s, &["cancel", &target]).await;
        assert_eq!(again.code, Some(0), "it is Cancelled: {again:?}");
        assert!(again.stdout.contains("is Cancelled"), "{again:?}");
        // What has succeeded can no longer be cancelled; its recorded outcome is shown.
        let quick = schedule("quick", &not_soon(), &json!({}), &json!({}));
        s.apply(&quick.to_string()).await;
        let done = trigger(s, "quick", minutes_ago(3)).await;
        in_state(s, &done, "Succeeded").await;
        let late = punctual(s, &["cancel", &format!("mocc/{done}"), "-o", "json"]).await;
        assert_eq!(late.code, Some(1), "{late:?}");
        assert_eq!(
            (&late.json()["state"], &late.json()["requested"]),
            (&json!("Succeeded"), &json!(false))
        );
        assert_eq!(s.get("mocc", &done).await.unwrap()["spec"].get("cancel"), None);
    });
}

#[test]
fn a_cancel_that_takes_longer_than_one_waits_stands() {
    scenario().unchecked("nothing runs").run(async |s| {
        let at = minutes_ago(3);
        s.apply(&by_hand("none", at).to_string()).await;
        let name = format!("none-{}", at.digits());
        patch_status(s, "mocc", &name, &json!({"status": {"state": "Running"}})).await;
        let waited = punctual(s, &["cancel", &format!("mocc/{name}"), "--wait=1s"]).await;
        assert_eq!(waited.code, Some(1), "{waited:?}");
        assert!(waited.stderr.contains("the cancel stands"), "{waited:?}");
        assert_eq!(s.get("mocc", &name).await.unwrap()["spec"]["cancel"], json!(true));
    });
}

#[test]
fn resolve_decides_what_is_unresolved_and_nothing_else() {
    scenario().unchecked("the runs are simulated").run(async |s| {
        operator_with(s, &["--allow-simulated"]).await;
        let name = unresolved(s, "lost").await;
        in_state(s, &name, "Unresolved").await;
        let target = format!("mocc/{name}");
        let decide = |attempt: &'static str, more: &[&'static str]| {
            let mut args = vec!["resolve", "-o", "json", "--reason", "the table has 42 rows"];
            args.extend(["--attempt", attempt]);
            args.extend(more);
            args.into_iter().map(ToOwned::to_owned).chain([target.clone()]).collect::<Vec<_>>()
        };
        let run = async |args: Vec<String>| {
            punctual(s, &args.iter().map(String::as_str).collect::<Vec<_>>()).await
        };
        let other = run(decide("2", &["--decision", "Failed"])).await;
        assert_eq!(other.code, Some(1), "{other:?}");
        assert!(other.stderr.contains("attempt 1 is Unresolved"), "{other:?}");
        let unasked = run(decide("1", &["--decision", "Retry", "--accept-duplicate"])).await;
        assert_eq!(unasked.code, Some(2), "nobody can be asked: {unasked:?}");
        assert!(unasked.stderr.contains("--yes"), "{unasked:?}");
        assert_eq!(s.get("mocc", &name).await.unwrap()["spec"].get("resolution"), None);
        let retry = ["--decision", "Retry", "--accept-duplicate", "--yes"];
        let retried = run(decide("1", &retry)).await;
        assert_eq!(retried.code, Some(0), "{retried:?}");
        assert!(text(&retried.json(), "/next").contains("may run twice"), "{retried:?}");
        let second =
            |o: &Value| text(o, "/status/state") == "Unresolved" && o["status"]["attempt"] == 2;
        s.wait_for("mocc", &name, "the second attempt is Unresolved too", SOON, second).await;
        let decided = run(decide("2", &["--decision", "Succeeded"])).await;
        assert_eq!(decided.code, Some(0), "{decided:?}");
        let over = in_state(s, &name, "Succeeded").await;
        assert_eq!(state_of(&over), ("Succeeded", "ResolvedByPerson"));
        let late = run(decide("2", &["--decision", "Failed"])).await;
        assert_eq!(late.code, Some(1), "{late:?}");
        assert!(late.stderr.contains("never changes"), "{late:?}");
    });
}

#[test]
fn a_rejected_report_is_resubmitted_as_a_new_object() {
    scenario().on_throw_away_cluster().run(async |s| {
        s.apply(&reports::queue(1, &reports::quick(), &json!({})).to_string()).await;
        let closed =
            punctual(s, &["pause", "rqueue/reports", "--close", "--reason", "moving"]).await;
        assert_eq!(closed.code, Some(0), "{closed:?}");
        operator_with(s, &[]).await;
        let mut report = reports::report("acme-1", "acme");
        report["metadata"]["labels"] = json!({"team": "a"});
        s.apply(&report.to_string()).await;
        let turned_away = reports::in_state(s, "acme-1", "Rejected").await;
        assert_eq!(state_of(&turned_away), ("Rejected", "QueueClosed"));
        // In a queue that is closed it would only be turned away again: it says when to come.
        let status = json!({"status": {"retryAfterTime": "2099-01-01T00:00:00Z"}});
        patch_status(s, "rjob", "acme-1", &status).await;
        let early = punctual(s, &["resubmit", "rjob/acme-1"]).await;
        assert_eq!(early.code, Some(1), "{early:?}");
        assert!(early.stderr.contains("2099-01-01") && early.stderr.contains("--now"), "{early:?}");
        let open = punctual(s, &["resume", "rqueue/reports"]).await;
        assert_eq!(open.code, Some(0), "{open:?}");
        let again = punctual(s, &["resubmit", "rjob/acme-1", "--now", "-o", "json"]).await;
        assert_eq!(again.code, Some(0), "{again:?}");
        let answer = again.json();
        assert_eq!(text(&answer, "/deleted"), uid(&turned_away));
        let done = reports::in_state(s, "acme-1", "Succeeded").await;
        assert_eq!(text(&answer, "/created"), uid(&done));
        assert_eq!(done["metadata"]["labels"]["team"], "a");
        assert_eq!(done["spec"], turned_away["spec"]);
        let over = punctual(s, &["resubmit", "rjob/acme-1"]).await;
        assert_eq!(over.code, Some(1), "{over:?}");
        assert!(over.stderr.contains("Succeeded (Completed), not Rejected"), "{over:?}");
        assert_eq!(uid(&s.get("rjob", "acme-1").await.unwrap()), uid(&done));
    });
}

#[test]
fn a_paused_queue_resumes_by_itself_and_a_schedule_keeps_its_note() {
    scenario().on_throw_away_cluster().run(async |s| {
        s.apply(&reports::queue(1, &reports::quick(), &json!({})).to_string()).await;
        s.apply(&schedule("nightly", &not_soon(), &json!({}), &json!({})).to_string()).await;
        operator_with(s, &[]).await;
        let paused =
            punctual(s, &["pause", "rqueue/reports", "--until", "15s", "-o", "json"]).await;
        assert_eq!(paused.code, Some(0), "{paused:?}");
        assert_eq!(paused.json()["paused"]["mode"], "Hold");
        s.apply(&reports::report("acme-1", "acme").to_string()).await;
        let held = |o: &Value| text(o, "/status/admissions") == "Held";
        s.wait_for("rqueue", "reports", "it is held", SOON, held).await;
        reports::in_state(s, "acme-1", "Succeeded").await;
        let queue = s.get("rqueue", "reports").await.unwrap();
        assert_eq!(queue["spec"]["admission"], "Hold", "nobody resumed it");

        let note = ["--reason", "storage migration", "--until", "2099-01-01T00:00:00Z"];
        let paused = punctual(s, &[&["pause", "msched/nightly"], &note[..]].concat()).await;
        assert_eq!(paused.code, Some(0), "{paused:?}");
        let suspended = |o: &Value| text(o, "/status/state") == "Suspended";
        let seen = s.wait_for("msched", "nightly", "it is suspended", SOON, suspended).await;
        assert_eq!(seen["spec"]["suspendReason"], "storage migration");
        let again = punctual(s, &["pause", "msched/nightly", "-o", "json"]).await;
        assert_eq!((again.code, &again.json()["changed"]), (Some(0), &json!(false)), "{again:?}");
        let resumed = punctual(s, &["resume", "msched/nightly"]).await;
        assert_eq!(resumed.code, Some(0), "{resumed:?}");
        assert!(resumed.stdout.contains("the next one is"), "{resumed:?}");
        let runs = |o: &Value| text(o, "/status/state") != "Suspended";
        let spec = s.wait_for("msched", "nightly", "it runs", SOON, runs).await;
        assert_eq!(
            (spec["spec"].get("suspendReason"), spec["spec"].get("suspendUntilTime")),
            (None, None)
        );
        let past =
            punctual(s, &["pause", "msched/nightly", "--until", "2001-01-01T00:00:00Z"]).await;
        assert_eq!(past.code, Some(2), "{past:?}");
        assert!(past.stderr.contains("not in the future"), "{past:?}");
        let wrong = punctual(s, &["pause", "msched/nightly", "--close"]).await;
        assert_eq!(wrong.code, Some(2), "{wrong:?}");
    });
}

#[test]
fn logs_come_from_the_pod_of_the_committed_attempt() {
    scenario().on_throw_away_cluster().run(async |s| {
        let node = format!("node-{}", s.namespace);
        ok(kwok::add_node(&s.bed, &node, Some(&s.namespace)).await);
        ok(kwok::node_ready(&s.bed, &node).await);
        let _kubelet = ok(Kubelet::serve(&s.bed, &node).await);
        let spec = json!({"run": {"job": {"template": {"spec": kwok::placement(&s.namespace)}}}});
        let hangs = json!({"play/hang": "true"});
        s.apply(&schedule("talks", &not_soon(), &hangs, &spec).to_string()).await;
        operator_with(s, &["--allow-simulated"]).await;
        let name = trigger(s, "talks", minutes_ago(3)).await;
        let target = format!("mocc/{name}");
        in_state(s, &name, "Running").await;
        let pods = s.list("pod").await;
        assert_eq!(pods.len(), 1, "{pods:?}");
        let path =
            format!("/containerLogs/{}/{}/main", s.namespace, text(&pods[0], "/metadata/name"));
        let log = punctual(s, &["logs", &target, "--follow", "--tail", "5"]).await;
        assert_eq!(log.code, Some(0), "{log:?}");
        assert!(log.stdout.starts_with(&path), "{log:?}");
        for asked in ["follow=true", "tailLines=5"] {
            assert!(log.stdout.contains(asked), "{log:?}");
        }
        let container = punctual(s, &["logs", &target, "--container", "none"]).await;
        assert_eq!(container.code, Some(1), "{container:?}");
        assert!(container.stderr.contains("it has main"), "{container:?}");
        let attempt = punctual(s, &["logs", &target, "--attempt", "7"]).await;
        assert_eq!(attempt.code, Some(1), "{attempt:?}");
        assert!(attempt.stderr.contains("no attempt 7"), "{attempt:?}");
        let simulated = unresolved(s, "pretends").await;
        in_state(s, &simulated, "Unresolved").await;
        let nothing = punctual(s, &["logs", &format!("mocc/{simulated}")]).await;
        assert_eq!(nothing.code, Some(1), "{nothing:?}");
        assert!(nothing.stderr.contains("is simulated"), "{nothing:?}");
    });
}

#[test]
fn trace_says_what_was_found_and_what_to_do() {
    scenario().unchecked("the runs are simulated").run(async |s| {
        let at = minutes_ago(3);
        s.apply(&by_hand("lost", at).to_string()).await;
        let name = format!("lost-{}", at.digits());
        let attempt = json!({"number": 1, "runKey": "k-m1", "handle": "h", "epoch": 1});
        let status = json!({"status": {"state": "Unresolved", "attempts": [attempt]}});
        patch_status(s, "mocc", &name, &status).await;
        let none = punctual(s, &["trace"]).await;
        assert_eq!(none.code, Some(1), "{none:?}");
        assert!(none.stderr.contains("no RecoveryTrace"), "{none:?}");
        let record = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "RecoveryTrace",
            "metadata": {"name": "punctual-7"},
            "spec": {"leaseName": "punctual", "epoch": 7, "holder": "punctual-0/ab", "gained": "First"},
        });
        s.apply(&record.to_string()).await;
        let item = json!({
            "object": format!("{}/mocc/{name}", s.namespace), "class": "Uncertain",
            "reason": "EndNotSeen", "message": "its node was removed",
        });
        let found = json!({"status": {
            "startTime": "2026-11-29T02:00:00Z", "completionTime": "2026-11-29T02:00:01Z",
            "duration": "1.000s", "resumed": 2, "reconciled": 0, "preserved": 9, "uncertain": 1,
            "items": [item], "fence": {"epoch": 7, "nonce": "ab"},
        }});
        patch_status(s, "rtrace", "punctual-7", &found).await;
        let page = punctual(s, &["trace"]).await;
        assert_eq!(page.code, Some(0), "{page:?}");
        let line = format!("punctual resolve mocc/{name} --namespace {} --attempt 1", s.namespace);
        assert!(page.stdout.contains(&line), "{}", page.stdout);
        // The decision that it proposes is one that the command takes.
        let args = ["--attempt", "1", "--decision", "Failed", "--reason", "it was off"];
        let target = format!("mocc/{name}");
        let decided = punctual(s, &[&["resolve", &target], &args[..]].concat()).await;
        assert_eq!(decided.code, Some(0), "{decided:?}");
        patch_status(s, "mocc", &name, &json!({"status": {"state": "Failed"}})).await;
        let later = punctual(s, &["trace", "7", "-o", "json"]).await;
        assert_eq!(later.code, Some(0), "{later:?}");
        let items = &later.json()["items"];
        assert_eq!((&items[0]["needsPerson"], &items[0]["command"]), (&json!(false), &Value::Null));
        let wrong = punctual(s, &["trace", "8"]).await;
        assert_eq!(wrong.code, Some(1), "{wrong:?}");
        assert!(wrong.stderr.contains("epoch 8"), "{wrong:?}");
    });
}

#[test]
fn a_leaders_own_record_is_shown_as_it_was_written() {
    scenario().run(async |s| {
        operator_with(s, &[]).await;
        s.leader(Duration::from_secs(60)).await;
        let complete = |o: &Value| !text(o, "/status/completionTime").is_empty();
        let name = crate::bed::wait::until("there is a record", SOON, || async {
            let all = s.list("rtrace").await;
            let one = all.first().ok_or_else(|| crate::bed::error::BedError("none".to_owned()))?;
            Ok(text(one, "/metadata/name").to_owned())
        });
        let name = ok(name.await);
        let record = s.wait_for("rtrace", &name, "it is complete", SOON, complete).await;
        let page = punctual(s, &["trace", "last", "-o", "yaml"]).await;
        assert_eq!(page.code, Some(0), "{page:?}");
        let shown: Value = punctual::yaml::from_str(&page.stdout).unwrap();
        assert_eq!((&shown["name"], &shown["epoch"]), (&json!(name), &record["spec"]["epoch"]));
        assert_eq!((&shown["gained"], &shown["complete"]), (&json!("First"), &json!(true)));
    });
}

#[test]
fn kubectl_finds_the_plugin_and_shells_complete_it() {
    scenario().unchecked("nothing runs").run(async |s| {
        let folder = s.dir.join("plugins");
        fs::create_dir_all(&folder).unwrap();
        for name in ["kubectl-punctual", "kubectl_complete-punctual"] {
            symlink(env!("CARGO_BIN_EXE_punctual"), folder.join(name)).unwrap();
        }
        let kubectl = ok(s.bed.tools.path("kubectl"));
        let path = format!("{}:/usr/bin:/bin", folder.display());
        let run = async |args: &[&str]| {
            let child = tokio::process::Command::new(&kubectl)
                .args(args)
                .env("PATH", &path)
                .env("KUBECONFIG", &s.bed.kubeconfig)
                .output();
            tokio::time::timeout(SOON, child).await.expect("it answers").unwrap()
        };
        let help = run(&["punctual", "resolve", "--help"]).await;
        let said = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.status.success(), "{help:?}");
        assert!(said.contains("Usage: kubectl punctual resolve"), "{said}");
        let none = run(&["punctual", "cancel", "rjob/none", "--namespace", &s.namespace]).await;
        let said = String::from_utf8_lossy(&none.stderr).into_owned();
        assert!(said.contains("kubectl punctual: there is no ReportJob \"none\""), "{said}");
        let script = run(&["punctual", "completion", "bash"]).await;
        let said = String::from_utf8_lossy(&script.stdout).into_owned();
        assert!(said.contains("kubectl-punctual") && said.contains("accept-duplicate"), "{said}");
        let words = run(&["__complete", "punctual", "resolve", "--acc"]).await;
        let said = String::from_utf8_lossy(&words.stdout).into_owned();
        assert!(said.starts_with("--accept-duplicate\n"), "{said}");
    });
}

#[test]
fn each_command_says_what_is_wrong() {
    scenario().unchecked("nothing runs").run(async |s| {
        let nowhere = s.dir.join("nowhere.kubeconfig");
        let server = Server { url: NOBODY.to_owned(), authority: s.bed.server.authority.clone() };
        ok(kubeconfig::write(&nowhere, &server, &Credentials::Token("x"), "default"));
        let resolve = ["--attempt", "1", "--decision", "Failed", "--reason", "x"];
        for (command, object, more) in [
            ("cancel", "mocc/none-202611290200", &[][..]),
            ("cancel", "rjob/none", &[]),
            ("resolve", "mocc/none-202611290200", &resolve),
            ("resolve", "rjob/none", &resolve),
            ("resubmit", "rjob/none", &[]),
            ("pause", "msched/none", &[]),
            ("pause", "rsched/none", &[]),
            ("resume", "rqueue/none", &[]),
            ("logs", "mocc/none-202611290200", &[]),
            ("logs", "rjob/none", &[]),
            ("trace", "none", &[]),
        ] {
            let args = [&[command, object], more].concat();
            let none = punctual(s, &args).await;
            assert_eq!(none.code, Some(1), "{args:?}: {none:?}");
            assert!(
                none.stderr.contains("there is no ") && none.stderr.contains("--namespace"),
                "{none:?}"
            );
            let silent = punctual_with(&nowhere, &args).await;
            assert_eq!(silent.code, Some(1), "{args:?}: {silent:?}");
            assert!(
                silent.stderr.contains(NOBODY) && silent.stderr.contains("--context"),
                "{silent:?}"
            );
            let context = punctual(s, &[&args[..], &["--context", "elsewhere"]].concat()).await;
            assert_eq!(context.code, Some(1), "{args:?}: {context:?}");
            assert!(context.stderr.contains("get-contexts"), "{context:?}");
            let flag = punctual(s, &[&args[..], &["--no-such-flag"]].concat()).await;
            assert_eq!(flag.code, Some(2), "{args:?}: {flag:?}");
            if command != "trace" {
                let kind = punctual(s, &[&[command, "cronjob/none"], more].concat()).await;
                assert_eq!(kind.code, Some(2), "{args:?}: {kind:?}");
                assert!(kind.stderr.contains("write it like"), "{kind:?}");
            }
        }
    });
}
