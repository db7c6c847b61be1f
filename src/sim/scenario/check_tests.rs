//! Expectations hold when they should, fail when they should, and say what was there.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    check::{Ground, RunFact},
    parse,
};
use crate::{sim::api::Model, time::WallClock};

fn model() -> Model {
    let model = Model::new(WallClock::driven("2026-11-29T01:58:00Z".parse().unwrap()));
    model.install_crds();
    for namespace in ["default", "docs"] {
        model.add_namespace(namespace);
    }
    let occurrence = |namespace: &str, minute: &str, status: Value| {
        json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
            "metadata": {"name": format!("nightly-2026112902{minute}"), "namespace": namespace},
            "spec": {"scheduleName": "nightly", "intendedTime": format!("2026-11-29T02:{minute}:00Z")},
            "status": status,
        })
    };
    let succeeded = json!({
        "state": "Succeeded", "reason": "Completed", "message": "it ran and succeeded",
        "result": {"rows": 3, "text": "x"},
    });
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "e1", "namespace": "default"},
        "reason": "ClockSkew", "type": "Warning", "action": "Compare",
        "reportingController": "punctual", "reportingInstance": "r0",
        "eventTime": "2026-11-29T01:58:00.000000Z",
        "series": {"count": 3, "lastObservedTime": "2026-11-29T01:58:00.000000Z"},
        "regarding": {"kind": "MaintenanceOccurrence", "namespace": "default", "name": "nightly-202611290200"},
    });
    let report = |namespace: &str, name: &str, tenant: &str, status: Value| {
        json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"queueName": "reports", "tenant": tenant},
            "status": status,
        })
    };
    let artifact = json!({
        "uri": "s3://acme/1", "sha256": "0a".repeat(32), "sizeBytes": 9, "attempt": 1,
        "acceptedTime": "2026-11-29T02:00:00Z",
    });
    let queue = json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
        "metadata": {"name": "reports", "namespace": "default"},
        "spec": {"slots": 2},
        "status": {"admissions": "Paused", "reason": "RecoveryIncomplete", "waiting": 1},
    });
    for object in [
        report("default", "acme-1", "acme", json!({"state": "Succeeded", "artifact": artifact})),
        report("default", "acme-2", "acme", json!({"state": "Queued", "position": "1"})),
        report("docs", "small-1", "small", json!({"state": "Queued", "reason": "Waiting"})),
        queue,
        occurrence("default", "00", succeeded),
        occurrence("default", "10", json!({"state": "Running", "reason": "Running"})),
        occurrence("docs", "00", json!({"state": "Running"})),
        event,
    ] {
        model.install(&object).unwrap();
    }
    model
}

fn run(name: &str, key: &str, released: Option<u64>) -> RunFact {
    RunFact {
        kind: "MaintenanceOccurrence".to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        run_key: key.to_owned(),
        released_at: released.map(Duration::from_secs),
    }
}

/// What an expectation comes to: nothing, or what was expected and what was there.
fn judged(expectation: &str) -> Option<(String, String)> {
    let file = format!(
        "apiVersion: punctual.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: x}}\nspec:\n  start: \
         '2026-11-29T01:58:00Z'\n  expect:\n  - {expectation}\n"
    );
    let scenario = parse("x.yaml", &file).unwrap();
    let runs = [
        run("nightly-202611290200", "k-m1", Some(120)),
        // Released again by a new leader: the same run.
        run("nightly-202611290200", "k-m1", Some(140)),
        run("nightly-202611290210", "l-m1", Some(720)),
        run("nightly-202611290210", "l-m2", Some(800)),
        run("nightly-202611290220", "n-m1", None),
        RunFact { kind: "ReportJob".to_owned(), ..run("acme-1", "a-r1", Some(130)) },
        RunFact { kind: "ReportJob".to_owned(), ..run("acme-2", "b-r1", Some(125)) },
    ];
    let trace =
        |name: &str, status: Value| Arc::new(json!({"metadata": {"name": name}, "status": status}));
    let full = json!({"resumed": 1, "reconciled": 2, "preserved": 3, "uncertain": 0});
    let traces = [trace("punctual-100", full), trace("punctual-200", json!({}))];
    let model = model();
    let ground = Ground { model: &model, runs: &runs, traces: &traces, terms: 2 };
    let miss = scenario.expect[0].what.judge(ground).err()?;
    Some((miss.expected, miss.found))
}

#[test]
fn what_is_so_holds() {
    for expectation in [
        "{object: mocc/nightly-202611290200}",
        "{object: mocc/nightly-202611290200, state: Succeeded, reason: Completed}",
        "{object: mocc/nightly-202611290200, fields: {status.result.rows: 3, status.result.text: x}}",
        "{object: mocc/nightly-202611290200, fields: {status.message: present, status.nextAttemptTime: null}}",
        "{object: mocc/nightly-202611290200, fields: {status.result: {rows: 3, text: x}}}",
        "{object: docs/mocc/nightly-202611290200, state: Running}",
        "{runs: mocc/nightly-202611290200, is: 1}",
        "{runs: mocc/nightly-202611290210, is: 2}",
        "{runs: mocc/nightly-202611290220, is: 0}",
        "{runs: mocc/never-202611290200, is: 0}",
        "{runs: docs/mocc/nightly-202611290200, is: 0}",
        "{count: mocc, is: 3}",
        "{count: mocc, state: Running, is: 2}",
        "{count: mocc, state: Running, namespace: docs, is: 1}",
        "{count: mocc, atLeast: 1, atMost: 3}",
        "{count: msched, is: 0}",
        "{absent: mocc/nightly-202611290220}",
        "{terms: 2}",
        "{terms: {atLeast: 2}}",
        "{trace: 1, resumed: 1, reconciled: 2, preserved: 3, uncertain: 0}",
        "{trace: last}",
        "{event: ClockSkew}",
        "{event: ClockSkew, object: mocc/nightly-202611290200, is: 3}",
        "{event: Other, is: 0}",
        "{order: [mocc/nightly-202611290200, mocc/nightly-202611290210]}",
        "{object: rjob/acme-1, state: Succeeded, fields: {status.artifact.sizeBytes: 9, spec.estimateSeconds: 60}}",
        "{object: docs/rjob/small-1, state: Queued, reason: Waiting, fields: {spec.priority: 0}}",
        "{object: rqueue/reports, reason: RecoveryIncomplete, fields: {spec.limits.queued: 10000}}",
        "{count: rjob, is: 3}",
        "{count: rjob, tenant: acme, is: 2}",
        "{count: rjob, state: Queued, tenant: acme, is: 1}",
        "{count: rjob, tenant: nobody, is: 0}",
        "{runs: rjob/acme-1, is: 1}",
        "{runs: docs/rjob/small-1, is: 0}",
        "{absent: rjob/acme-3}",
        "{absent: rsched/hourly}",
        "{admissions: rqueue/reports, is: Paused, reason: RecoveryIncomplete}",
        "{order: [rjob/acme-2, rjob/acme-1]}",
        "{order: [mocc/nightly-202611290200, rjob/acme-2]}",
    ] {
        assert_eq!(judged(expectation), None, "{expectation}");
    }
}

#[test]
fn what_is_not_so_fails_and_says_what_was_there() {
    for (expectation, expected, found) in [
        (
            "{object: mocc/nightly-202611290200, state: Failed}",
            "mocc/nightly-202611290200 with state Failed",
            "it is Succeeded (Completed): it ran and succeeded",
        ),
        (
            "{object: mocc/nightly-202611290200, reason: Crash}",
            "mocc/nightly-202611290200 with reason Crash",
            "it is Succeeded (Completed)",
        ),
        (
            "{object: mocc/nightly-202611290230, state: Failed}",
            "mocc/nightly-202611290230 in state Failed",
            "it is not there; there are nightly-202611290200, nightly-202611290210, docs/nightly",
        ),
        ("{object: msched/x}", "msched/x", "there is no msched at all"),
        (
            "{object: mocc/nightly-202611290200, fields: {status.result.rows: 4}}",
            "with status.result.rows = 4",
            "it is 3",
        ),
        (
            "{object: mocc/nightly-202611290200, fields: {status.nextAttemptTime: present}}",
            "with some status.nextAttemptTime",
            "that field is not there",
        ),
        (
            "{object: mocc/nightly-202611290200, fields: {status.message: null}}",
            "with status.message = null",
            "it is it ran and succeeded",
        ),
        ("{runs: mocc/nightly-202611290200, is: 2}", "2 runs of mocc", "1 released, at 120s"),
        ("{runs: mocc/nightly-202611290210, is: 1}", "1 run of mocc", "2 released, at 720s, 800s"),
        ("{runs: mocc/nightly-202611290220, atLeast: 1}", "at least 1 runs", "none was released"),
        (
            "{count: mocc, state: Running, namespace: docs, is: 2}",
            "2 mocc in state Running in namespace docs",
            "1 of 3 are so: nightly-202611290200 Succeeded",
        ),
        ("{count: msched, is: 1}", "1 msched", "there is no msched at all"),
        ("{absent: mocc/nightly-202611290200}", "no mocc/nightly-202611290200", "it is Succeeded"),
        ("{terms: 1}", "1 terms of leadership", "there were 2"),
        ("{terms: {atLeast: 3}}", "at least 3 terms", "there were 2"),
        ("{trace: 1, resumed: 2}", "recovery trace 1 (punctual-100) with resumed = 2", "it is 1"),
        ("{trace: last, resumed: 1}", "the newest recovery trace (punctual-200)", "not complete"),
        ("{trace: 3}", "recovery trace 3", "there are 2"),
        ("{event: Other}", "at least 1 events Other", "there were 0; other events: ClockSkew"),
        ("{event: ClockSkew, object: mocc/y}", "events ClockSkew about mocc/y", "there were 0"),
        (
            "{order: [mocc/nightly-202611290210, mocc/nightly-202611290200]}",
            "first releases in the order mocc/nightly-202611290210, mocc/nightly-202611290200",
            "mocc/nightly-202611290200 started at 120s, mocc/nightly-202611290210 at 720s",
        ),
        (
            "{order: [mocc/nightly-202611290200, mocc/nightly-202611290220]}",
            "first releases in the order",
            "mocc/nightly-202611290220 never started",
        ),
        (
            "{object: rjob/acme-1, fields: {status.artifact.attempt: 2}}",
            "rjob/acme-1 with status.artifact.attempt = 2",
            "it is 1",
        ),
        (
            "{count: rjob, state: Queued, tenant: acme, is: 2}",
            "2 rjob in state Queued of tenant acme",
            "1 of 3 are so: acme-1 Succeeded, acme-2 Queued, docs/small-1 Queued",
        ),
        ("{runs: rjob/acme-1, is: 2}", "2 runs of rjob/acme-1", "1 released, at 130s"),
        ("{absent: rjob/acme-2}", "no rjob/acme-2", "it is Queued"),
        (
            "{admissions: rqueue/reports, is: Open}",
            "rqueue/reports with admissions Open",
            "it is Paused",
        ),
        (
            "{admissions: rqueue/reports, reason: Closed}",
            "rqueue/reports with reason Closed",
            "it is RecoveryIncomplete",
        ),
        ("{admissions: rqueue/other, is: Open}", "rqueue/other with admissions Open", "no queue"),
        (
            "{order: [rjob/acme-1, rjob/acme-2]}",
            "first releases in the order rjob/acme-1, rjob/acme-2",
            "rjob/acme-2 started at 125s, rjob/acme-1 at 130s",
        ),
        ("{order: [rjob/acme-1, rjob/acme-9]}", "first releases", "rjob/acme-9 never started"),
    ] {
        let (was_expected, was_found) = judged(expectation).expect(expectation);
        assert!(was_expected.contains(expected), "{expectation}: {was_expected}");
        assert!(was_found.contains(found), "{expectation}: {was_found}");
    }
}
