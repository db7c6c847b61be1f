//! The rights that the documentation gives each command are enough, and none of them is too much:
//! each command is run with exactly these, and with each single one taken away.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    account::{Right, person},
    reports::{queue, quick, report},
    steps::{
        Answer, SOON, by_hand, job_of, minutes_ago, not_soon, patch_status, punctual_with,
        schedule, uid,
    },
};
use crate::bed::{
    kubelet::Kubelet,
    kwok,
    plan::scenario,
    scenario::{Scenario, ok},
};

/// The page with the table.
const PAGE: &str = include_str!("../../docs/reference/commands.md");
/// A report of the schedule `monthly`.
const MONTHLY: &str = "monthly-202601010000";
/// Fewer commands in the table than this: it was not read.
const LEAST_COMMANDS: usize = 27;

/// What stands between backticks in a cell.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

/// The rights of each command, as the page has them.
fn documented() -> BTreeMap<String, Vec<Right>> {
    let mut found: BTreeMap<String, Vec<Right>> = BTreeMap::new();
    let (_, section) = PAGE.split_once("\n## Rights\n").expect("the page has a section of rights");
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [commands, group, resource, verbs] = cells[..] else { panic!("four cells: {line}") };
        let group = quoted(group).pop().unwrap_or_default();
        let resource = quoted(resource).pop().expect("each row names a resource");
        for command in quoted(commands) {
            let rights = verbs.split(',').map(|verb| Right {
                group: group.clone(),
                resource: resource.clone(),
                verb: verb.trim().to_owned(),
            });
            found.entry(command).or_default().extend(rights);
        }
    }
    found
}

/// The objects that the commands are tried on, and how each command is called on its own.
struct Stage {
    occurrence: String,
    lost: String,
    waits: String,
    file: PathBuf,
    _kubelet: Kubelet,
}

/// An attempt that stands at this Job.
fn attempt(handle: &str) -> Value {
    json!({"number": 1, "runKey": "k-m1", "handle": handle, "epoch": 1})
}

/// A Job whose pod hangs on a node with a kubelet, and carries the uid of each of these parents.
async fn talking_job(s: &Scenario, name: &str, parent: &str) -> String {
    let mut pod = kwok::placement(&s.namespace);
    pod["restartPolicy"] = json!("Never");
    pod["containers"] = json!([{"name": "main", "image": "registry.example/none:1"}]);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {
            "metadata": {
                "labels": {"punctual.dev/parent-uid": parent}, "annotations": {"play/hang": "true"},
            },
            "spec": pod,
        }},
    });
    s.apply(&job.to_string()).await;
    let ready = |job: &Value| job["status"]["ready"] == 1;
    let job = s.wait_for("job", name, "its pod is ready", SOON, ready).await;
    uid(&job).to_owned()
}

async fn stage(s: &Scenario) -> Stage {
    let nightly = schedule("nightly", &not_soon(), &json!({}), &json!({}));
    s.apply(&nightly.to_string()).await;
    let file = s.dir.join("nightly.yaml");
    fs::write(&file, nightly.to_string()).unwrap();
    s.apply(&queue(1, &quick(), &json!({})).to_string()).await;
    let monthly = json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportSchedule",
        "metadata": {"name": "monthly"},
        "spec": {"schedule": not_soon(), "jobTemplate": {"spec": {"queueName": "reports", "tenant": "acme"}}},
    });
    s.apply(&monthly.to_string()).await;
    let mut of_monthly = report(MONTHLY, "acme");
    let of = s.get("rsched", "monthly").await.expect("it was applied");
    of_monthly["spec"]["scheduleName"] = json!("monthly");
    of_monthly["spec"]["intendedTime"] = json!("2026-01-01T00:00:00Z");
    of_monthly["spec"]["scheduleUID"] = json!(uid(&of));
    s.apply(&of_monthly.to_string()).await;
    for name in ["running", "lost", "rejected"] {
        s.apply(&report(name, "acme").to_string()).await;
    }
    let (at, of_lost) = (minutes_ago(3), minutes_ago(4));
    let occurrence = format!("nightly-{}", at.digits());
    let lost = format!("nightly-{}", of_lost.digits());
    s.apply(&by_hand("nightly", at).to_string()).await;
    s.apply(&by_hand("nightly", of_lost).to_string()).await;
    // What exists is looked up, too, and asked why it waits.
    let waits = format!("minutely-{}", at.digits());
    s.apply(&schedule("minutely", "* * * * *", &json!({}), &json!({})).to_string()).await;
    s.apply(&by_hand("minutely", at).to_string()).await;
    let node = format!("node-{}", s.namespace);
    ok(kwok::add_node(&s.bed, &node, Some(&s.namespace)).await);
    ok(kwok::node_ready(&s.bed, &node).await);
    let kubelet = ok(Kubelet::serve(&s.bed, &node).await);
    let run = json!({"job": {"template": {}}});
    for (kind, name) in [("mocc", occurrence.as_str()), ("rjob", "running")] {
        let parent = s.get(kind, name).await.expect("it was applied");
        let handle = talking_job(s, &job_of(name, 1), uid(&parent)).await;
        let status = json!({"state": "Running", "attempts": [attempt(&handle)], "run": run});
        patch_status(s, kind, name, &json!({"status": status})).await;
    }
    for (kind, name) in [("mocc", lost.as_str()), ("rjob", "lost")] {
        let status = json!({"state": "Unresolved", "attempts": [attempt("gone")]});
        patch_status(s, kind, name, &json!({"status": status})).await;
    }
    patch_status(s, "rjob", "rejected", &json!({"status": {"state": "Rejected"}})).await;
    let record = json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "RecoveryTrace",
        "metadata": {"name": "punctual-7"},
        "spec": {"leaseName": "punctual", "epoch": 7, "holder": "punctual-0/ab", "gained": "First"},
    });
    s.apply(&record.to_string()).await;
    Stage { occurrence, lost, waits, file, _kubelet: kubelet }
}

impl Stage {
    /// How a command of the table is called on the stage of this namespace.
    fn arguments(&self, command: &str, namespace: &str) -> Vec<String> {
        let at = &self.occurrence.trim_start_matches("nightly-");
        let at =
            format!("{}-{}-{}T{}:{}:00Z", &at[..4], &at[4..6], &at[6..8], &at[8..10], &at[10..12]);
        let running = format!("mocc/{}", self.occurrence);
        let lost = format!("mocc/{}", self.lost);
        let decision = ["--attempt", "1", "--decision", "Failed", "--reason", "tried"];
        let file = self.file.to_str().expect("paths of the bed are text");
        let (waits, monthly) = (format!("mocc/{}", self.waits), format!("rjob/{MONTHLY}"));
        let lease = ["--lease-namespace", namespace, "--lease-name", "punctual"];
        let why = |object| [&["why", object], &lease[..]].concat();
        let words: Vec<&str> = match command {
            "why mocc/NAME" => why(&waits),
            "why msched/NAME" => why("msched/nightly"),
            "why rjob/NAME" => why(&monthly),
            "why rqueue/NAME" => why("rqueue/reports"),
            "why rsched/NAME" => why("rsched/monthly"),
            "why rtrace/NAME" => why("rtrace/punctual-7"),
            "status" => [&["status"], &lease[..]].concat(),
            "audit duplicates" => vec!["audit", "duplicates"],
            "cancel mocc/NAME" => vec!["cancel", &running],
            "cancel rjob/NAME" => vec!["cancel", "rjob/running"],
            "resolve mocc/NAME" => [&["resolve", lost.as_str()], &decision[..]].concat(),
            "resolve rjob/NAME" => [&["resolve", "rjob/lost"], &decision[..]].concat(),
            "resubmit rjob/NAME" => vec!["resubmit", "rjob/rejected"],
            "pause msched/NAME" => vec!["pause", "msched/nightly"],
            "resume msched/NAME" => vec!["resume", "msched/nightly"],
            "pause rsched/NAME" => vec!["pause", "rsched/monthly"],
            "resume rsched/NAME" => vec!["resume", "rsched/monthly"],
            "pause rqueue/NAME" => vec!["pause", "rqueue/reports"],
            "resume rqueue/NAME" => vec!["resume", "rqueue/reports"],
            "trigger msched/NAME" => vec!["trigger", "msched/nightly", "--at", &at],
            "backfill msched/NAME" => {
                vec!["backfill", "msched/minutely", "--from", &at, "--to", &at]
            }
            "logs mocc/NAME" => vec!["logs", &running],
            "logs rjob/NAME" => vec!["logs", "rjob/running"],
            "trace" => vec!["trace"],
            "next msched/NAME" => vec!["next", "msched/nightly"],
            "next rsched/NAME" => vec!["next", "rsched/monthly"],
            "plan --cluster" => vec!["plan", "--cluster", "-f", file],
            other => panic!("{other} stands in the table of rights; say here how it is tried"),
        };
        words.into_iter().map(ToOwned::to_owned).collect()
    }
}

async fn run(s: &Scenario, config: &Path, arguments: &[String]) -> Answer {
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    words.extend(["--namespace", s.namespace.as_str()]);
    punctual_with(config, &words).await
}

/// What a command ends with that has every right it needs.
fn done_with(command: &str) -> i32 {
    // Nobody leads here, and a run is Unresolved: the answer of `status` is that a person is needed.
    i32::from(command == "status")
}

/// A command that lacks a right names it. One that acts does nothing then. One that looks may go on
/// without what it can do without; its answer says what is missing.
fn names(command: &str, missing: &Right, refused: &Answer, namespace: &str) {
    let sentence = missing.sentence(namespace);
    let looks = ["why ", "status", "audit "].iter().any(|word| command.starts_with(word));
    let answered = looks && !refused.stdout.is_empty();
    if answered {
        assert!(refused.stdout.contains(&sentence), "{command}: {sentence}: {refused:?}");
        assert_eq!(refused.code, Some(done_with(command)), "{command}: {refused:?}");
    } else {
        assert!(refused.stderr.contains(&sentence), "{command}: {sentence}: {refused:?}");
        assert_eq!(refused.code, Some(1), "{command} without {missing:?}: {refused:?}");
    }
}

#[test]
fn the_documented_rights_of_each_command_are_enough_and_none_is_too_much() {
    scenario().within(SOON * 10).unchecked("no operator runs").on_throw_away_cluster().run(
        async |s| {
            let stage = stage(s).await;
            let all = documented();
            assert!(all.len() >= LEAST_COMMANDS, "{:?}", all.keys());
            for (number, (command, rights)) in all.iter().enumerate() {
                let arguments = stage.arguments(command, &s.namespace);
                // First without each: a command that lacks a right changes nothing.
                for (at, missing) in rights.iter().enumerate() {
                    let mut others = rights.clone();
                    others.remove(at);
                    let config = person(s, &format!("p{number}-without-{at}"), &others).await;
                    let refused = run(s, &config, &arguments).await;
                    names(command, missing, &refused, &s.namespace);
                }
                let config = person(s, &format!("p{number}"), rights).await;
                let done = run(s, &config, &arguments).await;
                assert_eq!(done.code, Some(done_with(command)), "{command}: {rights:?}: {done:?}");
                assert!(!done.stdout.contains("you may not"), "{command} lacks a right: {done:?}");
            }
        },
    );
}
