//! The rights that the documentation gives each command are enough, and none of them is too much:
//! each command is run with exactly these, and with each single one taken away.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use super::{
    reports::{queue, quick, report},
    steps::{
        Answer, SOON, by_hand, job_of, minutes_ago, not_soon, patch_status, punctual_with,
        schedule, uid,
    },
};
use crate::bed::{
    error::{BedError, Context as _},
    kubeconfig::{self, Credentials},
    kubelet::Kubelet,
    kwok,
    plan::scenario,
    rights,
    scenario::{Scenario, ok},
    wait,
};

/// The page with the table.
const PAGE: &str = include_str!("../../docs/reference/commands.md");
/// Fewer commands in the table than this: it was not read.
const LEAST_COMMANDS: usize = 17;

/// One right: API group, resource, verb.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    resource: String,
    verb: String,
}

impl Right {
    /// As a command names what is missing.
    fn sentence(&self, namespace: &str) -> String {
        let Self { group, resource, verb } = self;
        let resource = match group.as_str() {
            "" => resource.clone(),
            group => format!("{resource}.{group}"),
        };
        format!("you may not {verb} {resource} in namespace {namespace:?}")
    }
}

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

/// A person with these rights and no others; gives the kubeconfig.
async fn person(s: &Scenario, name: &str, rights: &[Right]) -> PathBuf {
    let rules: Vec<Value> = rights
        .iter()
        .map(|right| {
            json!({
                "apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb],
            })
        })
        .collect();
    let meta = json!({"name": name});
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": s.namespace});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta,
         "roleRef": role, "subjects": [subject]},
    ]});
    s.apply(&objects.to_string()).await;
    for right in rights {
        granted(s, name, right).await;
    }
    let token = ok(rights::token(&s.bed, &s.namespace, name).await);
    let path = s.dir.join(format!("{name}.kubeconfig"));
    ok(kubeconfig::write(&path, &s.bed.server, &Credentials::Token(&token), &s.namespace));
    path
}

/// Waits until the API server has learnt of a right.
async fn granted(s: &Scenario, name: &str, right: &Right) {
    let (resource, sub) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let review: SubjectAccessReview = serde_json::from_value(json!({
        "metadata": {},
        "spec": {
            "user": format!("system:serviceaccount:{}:{name}", s.namespace),
            "resourceAttributes": {
                "namespace": s.namespace, "verb": right.verb, "group": right.group,
                "resource": resource, "subresource": sub,
            },
        },
    }))
    .expect("it is a review");
    let reviews: Api<SubjectAccessReview> = Api::all(s.client());
    let asked = wait::until("the right is known", SOON, || async {
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.context(|| format!("ask for {right:?}"))?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        if allowed { Ok(()) } else { Err(BedError(format!("{right:?} is not granted yet"))) }
    });
    ok(asked.await);
}

/// The objects that the commands are tried on, and how each command is called on its own.
struct Stage {
    occurrence: String,
    lost: String,
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
    for name in ["running", "lost", "rejected"] {
        s.apply(&report(name, "acme").to_string()).await;
    }
    let (at, of_lost) = (minutes_ago(3), minutes_ago(4));
    let occurrence = format!("nightly-{}", at.digits());
    let lost = format!("nightly-{}", of_lost.digits());
    s.apply(&by_hand("nightly", at).to_string()).await;
    s.apply(&by_hand("nightly", of_lost).to_string()).await;
    // What exists is looked up, too.
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
    Stage { occurrence, lost, file, _kubelet: kubelet }
}

impl Stage {
    /// How a command of the table is called on the stage.
    fn arguments(&self, command: &str) -> Vec<String> {
        let at = &self.occurrence.trim_start_matches("nightly-");
        let at =
            format!("{}-{}-{}T{}:{}:00Z", &at[..4], &at[4..6], &at[6..8], &at[8..10], &at[10..12]);
        let running = format!("mocc/{}", self.occurrence);
        let lost = format!("mocc/{}", self.lost);
        let decision = ["--attempt", "1", "--decision", "Failed", "--reason", "tried"];
        let file = self.file.to_str().expect("paths of the bed are text");
        let words: Vec<&str> = match command {
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

#[test]
fn the_documented_rights_of_each_command_are_enough_and_none_is_too_much() {
    scenario().within(SOON * 5).unchecked("no operator runs").on_throw_away_cluster().run(
        async |s| {
            let stage = stage(s).await;
            let all = documented();
            assert!(all.len() >= LEAST_COMMANDS, "{:?}", all.keys());
            for (number, (command, rights)) in all.iter().enumerate() {
                let arguments = stage.arguments(command);
                // First without each: a command that lacks a right changes nothing.
                for (at, missing) in rights.iter().enumerate() {
                    let mut others = rights.clone();
                    others.remove(at);
                    let config = person(s, &format!("p{number}-without-{at}"), &others).await;
                    let refused = run(s, &config, &arguments).await;
                    assert_eq!(refused.code, Some(1), "{command} without {missing:?}: {refused:?}");
                    let sentence = missing.sentence(&s.namespace);
                    assert!(
                        refused.stderr.contains(&sentence),
                        "{command}: {sentence}: {refused:?}"
                    );
                }
                let config = person(s, &format!("p{number}"), rights).await;
                let done = run(s, &config, &arguments).await;
                assert_eq!(done.code, Some(0), "{command} with {rights:?}: {done:?}");
            }
        },
    );
}
