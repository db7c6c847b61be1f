//! What people ask to understand a cluster: why, status, audit. All of it with no right but get and
//! list.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    account::{Right, person},
    reports::{QUEUE, queue, quick, report},
    steps::{
        Answer, SOON, in_state, minutes_ago, not_soon, operator, punctual, punctual_with, schedule,
        state_of, trigger,
    },
};
use crate::bed::{objects::text, plan::scenario, scenario::Scenario};

/// A person who may do `verbs` with everything that is asked about.
async fn account(s: &Scenario, name: &str, verbs: &[&str]) -> PathBuf {
    let asked_about = [
        ("punctual.dev", "*"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
    ];
    let right = |group: &str, resource: &str, verb: &str| Right {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: verb.to_owned(),
    };
    let rights: Vec<Right> = asked_about
        .into_iter()
        .flat_map(|(group, resource)| verbs.iter().map(move |verb| right(group, resource, verb)))
        .collect();
    person(s, name, &rights).await
}

/// The flags that say which Lease is the scenario's.
fn lease(s: &Scenario) -> [&str; 4] {
    ["--lease-namespace", &s.namespace, "--lease-name", &s.lease]
}

fn says(answer: &Answer, parts: &[&str]) {
    for part in parts {
        assert!(answer.stdout.contains(part), "{part:?} is not in {}", answer.stdout);
    }
}

#[test]
fn why_explains_what_stands_on_a_real_api_server() {
    scenario().run(async |s| {
        operator(s).await;
        s.apply(&schedule("nightly", &not_soon(), &quick(), &json!({})).to_string()).await;
        let at = minutes_ago(3);
        let name = trigger(s, "nightly", at).await;
        in_state(s, &name, "Succeeded").await;
        s.apply(
            &queue(1, &quick(), &json!({"admission": "Hold", "admissionReason": "month end"}))
                .to_string(),
        )
        .await;
        s.apply(&report("waits", "acme").to_string()).await;
        s.wait_for("rjob", "waits", "it waits", SOON, |job| state_of(job).0 == "Queued").await;
        let reader = account(s, "reader", &["get", "list"]).await;
        let ask = async |args: &[&str]| {
            punctual_with(&reader, &[&["why"], args, &lease(s)[..]].concat()).await
        };

        let done = ask(&[&format!("mocc/{name}"), "-o", "json"]).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        let answer = done.json();
        assert_eq!(
            (&answer["state"], &answer["reason"]),
            (&json!("Succeeded"), &json!("Completed"))
        );
        let story: Vec<&str> =
            answer["happened"].as_array().unwrap().iter().map(|m| text(m, "/what")).collect();
        for part in
            ["created by hand", "attempt 1 was prepared", "attempt 1 started", "ended: Succeeded"]
        {
            assert!(story.iter().any(|what| what.contains(part)), "{part:?} is not in {story:?}");
        }
        assert_eq!(answer["notRead"], Value::Null, "get and list were enough: {answer}");

        let waits = ask(&["rjob/waits"]).await;
        assert_eq!(waits.code, Some(0), "{waits:?}");
        says(&waits, &["Queued", "month end", "Nobody is ahead of it", "What you can do"]);
        says(&ask(&[&format!("rqueue/{QUEUE}")]).await, &["Held", "Waiting: 1 report of 1 tenant"]);
        says(
            &ask(&["msched/nightly", "--at", &at.to_string()]).await,
            &["is done", "What happened"],
        );
        says(
            &ask(&["msched/nightly", "--at", "2040-01-01T00:01:00Z"]).await,
            &["is no instant of this schedule"],
        );
        let traces = s.list("rtrace").await;
        let trace = format!("rtrace/{}", text(&traces[0], "/metadata/name"));
        says(&ask(&[&trace]).await, &["began to lead with epoch", "nobody had led before"]);
    });
}

#[test]
fn why_that_cannot_answer_says_what_to_do() {
    scenario().unchecked("nothing runs").run(async |s| {
        for (args, code, parts) in [
            (
                &["why", "mocc/none-202611290200"][..],
                1,
                &["there is no MaintenanceOccurrence", "kubectl get mocc"][..],
            ),
            (&["why", "cronjob/x"], 2, &["is no kind of Punctual", "mocc, msched"]),
            (&["why", "nightly"], 2, &["KIND/NAME"]),
            (&["why", "rjob/x", "--at", "2026-11-29T02:00:00Z"], 2, &["--at goes with a schedule"]),
            (&["why", "mocc/x", "--context", "nowhere"], 1, &["nowhere", "check KUBECONFIG"]),
        ] {
            let answer = punctual(s, args).await;
            assert_eq!(answer.code, Some(code), "{args:?}: {answer:?}");
            for part in parts {
                assert!(answer.stderr.contains(part), "{args:?}: {part:?} not in {answer:?}");
            }
        }
        let nobody = account(s, "nobody", &["watch"]).await;
        for args in [&["why", "mocc/x"][..], &["audit", "duplicates"]] {
            let answer = punctual_with(&nobody, args).await;
            assert_eq!(answer.code, Some(1), "{args:?}: {answer:?}");
            assert!(
                answer.stderr.contains("you may not")
                    && answer.stderr.contains("ask for a role with this right"),
                "{answer:?}"
            );
        }
    });
}

#[test]
fn status_tells_who_leads_and_what_needs_a_person() {
    scenario().run(async |s| {
        operator(s).await;
        s.apply(&schedule("fine", &not_soon(), &quick(), &json!({})).to_string()).await;
        s.wait_for("msched", "fine", "it is looked at", SOON, |o| {
            text(o, "/status/state") == "Active"
        })
        .await;
        let reader = account(s, "reader", &["get", "list"]).await;
        let ask = async |args: &[&str]| {
            punctual_with(&reader, &[&["status"], args, &lease(s)[..]].concat()).await
        };
        let well = ask(&["-o", "json"]).await;
        let report = well.json();
        assert_eq!(well.code, Some(0), "{report}");
        assert_eq!(
            (&report["leader"]["leads"], &report["needs"]["total"]),
            (&json!(true), &json!(0))
        );
        assert!(report["leader"]["epoch"].as_i64().is_some_and(|epoch| epoch > 0), "{report}");
        assert_eq!(report["schedules"]["active"], 1);
        assert_eq!(report["recovery"]["gained"], "First");

        s.apply(
            &schedule("odd", &not_soon(), &quick(), &json!({"timeZone": "Mars/Olympus"}))
                .to_string(),
        )
        .await;
        s.wait_for("msched", "odd", "it is refused", SOON, |o| {
            text(o, "/status/state") == "Invalid"
        })
        .await;
        let ill = ask(&[]).await;
        assert_eq!(ill.code, Some(1), "{ill:?}");
        says(
            &ill,
            &[
                "1 thing needs a person",
                "msched/odd InvalidSchedule",
                "Mars/Olympus",
                "kubectl punctual why msched/odd",
            ],
        );
    });
}

#[test]
fn status_says_that_nobody_leads() {
    scenario().unchecked("nothing runs").run(async |s| {
        let answer = punctual(s, &["status", "--lease-namespace", &s.namespace]).await;
        assert_eq!(answer.code, Some(1), "{answer:?}");
        says(&answer, &["Leader      nobody", "No schedules"]);
        let answer = punctual(s, &["status", "--context", "nowhere"]).await;
        assert_eq!(answer.code, Some(1), "{answer:?}");
        let answer = punctual(s, &["status", "-A"]).await;
        assert_eq!(answer.code, Some(2), "-A and a namespace: {answer:?}");
    });
}

/// A Job as a CronJob makes it.
fn job_of_cronjob(name: &str, cronjob: &Value, at: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name,
            "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": at},
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": cronjob["metadata"]["name"],
                "uid": cronjob["metadata"]["uid"], "controller": true,
            }],
        },
        "spec": {"backoffLimit": 0, "template": {
            "metadata": {"annotations": quick()},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/none:1"}]},
        }},
    })
}

#[test]
fn an_audit_finds_what_ran_twice_and_only_reads() {
    scenario().unchecked("Jobs of nobody run").run(async |s| {
        operator(s).await;
        s.apply(&schedule("nightly", &not_soon(), &quick(), &json!({})).to_string()).await;
        let (at, other) = (minutes_ago(3), minutes_ago(5));
        let occurrence = trigger(s, "nightly", at).await;
        in_state(s, &occurrence, "Succeeded").await;
        let reader = account(s, "reader", &["get", "list"]).await;
        let clean = punctual_with(&reader, &["audit", "duplicates", "-o", "json"]).await;
        assert_eq!((clean.code, &clean.json()["duplicates"]), (Some(0), &json!(0)), "{clean:?}");

        let cronjob = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
            "spec": {"schedule": not_soon(), "suspend": true, "jobTemplate": {"spec": {"template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/none:1"}]},
            }}}},
        });
        s.apply(&cronjob.to_string()).await;
        let cronjob = s.get("cronjob", "nightly").await.unwrap();
        for (name, at) in [("nightly-a", at), ("nightly-b", other), ("nightly-c", other)] {
            s.apply(&job_of_cronjob(name, &cronjob, &at.to_string()).to_string()).await;
            s.wait_for("job", name, "it starts", SOON, |job| !text(job, "/status/startTime").is_empty()).await;
        }
        let found = punctual_with(&reader, &["audit", "duplicates", "-o", "json"]).await;
        assert_eq!(found.code, Some(3), "{found:?}");
        let report = found.json();
        let groups: Vec<(&str, &str, usize)> = report["groups"].as_array().unwrap().iter().map(|group| {
            (text(group, "/of"), text(group, "/instant"), group["runs"].as_array().unwrap().len())
        }).collect();
        let (at, other) = (at.to_string(), other.to_string());
        assert_eq!(groups, [("cronjob/nightly", other.as_str(), 2), ("msched/nightly", at.as_str(), 2)]);
        let table = punctual_with(&reader, &["audit", "duplicates"]).await;
        assert_eq!(table.code, Some(3));
        says(&table, &["2 pieces of work ran more than once", "record", &format!("mocc/{occurrence}")]);
        let wrong = punctual_with(&reader, &["audit", "duplicates", "--same", "nightly"]).await;
        assert_eq!(wrong.code, Some(2), "{wrong:?}");
    });
}
