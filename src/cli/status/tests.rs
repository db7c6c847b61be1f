//! Reports on clusters in trouble, and on one that is well.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    digest::digest,
    fences::{self, Fences},
    read::{Facts, gather},
    report::Report,
};
use crate::{
    cli::why::read::LeasePlace,
    cluster::{ObjectKey, Person},
    sim::api::Model,
    time::WallClock,
};

const NOW: &str = "2026-11-29T03:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn lease(holder: &str, renewed: &str) -> Value {
    json!({
        "metadata": {"name": "punctual", "namespace": "system", "annotations": {"punctual.dev/epoch": "4212"}},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 10,
            "acquireTime": "2026-11-29T01:00:00.000000Z", "renewTime": renewed,
        },
    })
}

fn trace(completed: bool, started: &str) -> Value {
    let end = completed.then_some("2026-11-29T01:00:02Z");
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "RecoveryTrace",
        "metadata": {"name": "punctual-4212", "namespace": "system", "creationTimestamp": started},
        "spec": {"leaseName": "punctual", "epoch": 4212, "holder": "p-1/n", "formerHolder": "p-0/m", "gained": "Expired"},
        "status": {"startTime": started, "completionTime": end, "duration": "1.2s", "resumed": 1, "reconciled": 2, "preserved": 3, "uncertain": 0},
    })
}

/// A cluster in which all is well.
fn well() -> Facts {
    Facts {
        now: now(),
        server_time: Some(now()),
        namespace: None,
        lease_key: Some(ObjectKey::new("system", "punctual")),
        lease: Some(lease("p-1/nonce", "2026-11-29T02:59:59.000000Z")),
        renewed: true,
        schedules: vec![schedule(
            "nightly",
            &json!({"state": "Active", "nextScheduleTime": "2026-11-30T02:00:00Z", "active": 1}),
        )],
        queues: vec![queue(
            &json!({"slots": "3/8", "waiting": 12, "admissions": "Open", "reason": "Open", "drain": {"jobs": 15, "slotSeconds": 900, "aboutTime": "2026-11-29T03:05:00Z"}}),
        )],
        unresolved: Vec::new(),
        stuck: Vec::new(),
        traces: vec![trace(true, "2026-11-29T01:00:00Z")],
        fences: Fences::new(),
        foreign: Vec::new(),
        lease_events: Vec::new(),
        not_read: Vec::new(),
    }
}

fn schedule(name: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
        "metadata": {"name": name, "namespace": "docs"},
        "spec": {"schedule": "0 2 * * *", "run": {"simulated": {}}},
        "status": status,
    })
}

fn queue(status: &Value) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
        "metadata": {"name": "reports", "namespace": "docs"}, "spec": {"slots": 8}, "status": status,
    })
}

fn not_ready(reason: &str, since: &str) -> Value {
    json!([{"type": "Ready", "status": "False", "reason": reason, "message": "the sentence", "lastTransitionTime": since}])
}

/// What needs a person: object and reason.
fn needs(report: &Report) -> Vec<(String, String)> {
    report.needs.items.iter().map(|need| (need.object.clone(), need.reason.clone())).collect()
}

#[test]
fn a_cluster_that_is_well_needs_nobody() {
    let report = digest(&well());
    assert!(report.is_well(), "{report:?}");
    let text = report.text(now());
    for part in [
        "Leader      p-1 since 2026-11-29T01:00:00Z (2h), epoch 4212; it renews",
        "kubectl get pods -n system",
        "Recovery    system/punctual-4212 (Expired, began 2h ago): complete after 1.2s; 1 resumed, 2 reconciled, 3 preserved, 0 uncertain",
        "Nothing needs a person.",
        "1 schedules: 1 active, 0 suspended, 0 invalid, 0 new; 0 late, 1 running. Next: docs/msched/nightly at 2026-11-30T02:00:00Z (in 23h).",
        "docs/reports  3/8    12       Open        Open    in 5m",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn nobody_leads_whatever_the_lease_says() {
    for (description, change, part) in [
        (
            "no Lease is known",
            (|facts: &mut Facts| facts.lease_key = None) as fn(&mut Facts),
            "--lease-namespace",
        ),
        ("the Lease is gone", |facts| facts.lease = None, "there is no Lease system/punctual"),
        ("nobody holds it", |facts| facts.lease = Some(lease("", NOW)), "nobody holds the Lease"),
        (
            "it is not renewed",
            |facts| {
                facts.renewed = false;
                facts.lease = Some(lease("p-1/n", "2026-11-29T02:50:00.000000Z"));
            },
            "it has not renewed for 10m, and nobody took over",
        ),
    ] {
        let mut facts = well();
        change(&mut facts);
        let report = digest(&facts);
        assert!(!report.is_well() && !report.leader.leads, "{description}");
        assert!(report.leader.message.contains(part), "{description}: {}", report.leader.message);
    }
    let mut quiet = well();
    quiet.renewed = false;
    quiet.lease = Some(lease("p-1/n", "2026-11-29T02:59:56.000000Z"));
    assert!(digest(&quiet).leader.leads, "the last renewal is young");
}

/// A cluster in which everything is wrong at once.
fn in_trouble() -> Facts {
    let mut facts = well();
    facts.unresolved = vec![
        json!({
            "kind": "ReportJob", "metadata": {"name": "acme-1", "namespace": "docs"},
            "status": {"reason": "ProviderUnreachable", "message": "m", "conditions": [
                {"type": "Unresolved", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-11-29T02:30:00Z"},
            ]},
        }),
        json!({
            "kind": "MaintenanceOccurrence", "metadata": {"name": "nightly-202611290200", "namespace": "docs"},
            "status": {"reason": "EndNotSeen", "message": "m", "conditions": [
                {"type": "Unresolved", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-11-29T02:10:00Z"},
            ]},
        }),
    ];
    facts.schedules = vec![
        schedule("late", &json!({"state": "Active", "nextScheduleTime": "2026-11-29T02:59:00Z"})),
        schedule(
            "skewed",
            &json!({"state": "Active", "nextScheduleTime": "2026-11-29T02:59:00Z", "conditions": not_ready("ClockSkew", "2026-11-29T02:58:00Z")}),
        ),
        schedule(
            "taken",
            &json!({"state": "Active", "skipped": [{"from": "2026-11-29T02:00:00Z", "to": "2026-11-29T02:00:00Z", "count": 1, "reason": "NameConflict"}]}),
        ),
        schedule(
            "refused",
            &json!({"state": "Active", "conditions": [{"type": "Accepted", "status": "False", "reason": "RunRefused", "message": "m", "lastTransitionTime": NOW}]}),
        ),
        schedule("broken", &json!({"state": "Exploded"})),
        schedule("new", &Value::Null),
        schedule("held", &json!({"state": "Suspended"})),
    ];
    facts.queues = vec![queue(
        &json!({"admissions": "Paused", "reason": "RecoveryIncomplete", "conditions": not_ready("RecoveryIncomplete", "2026-11-29T02:50:00Z")}),
    )];
    facts.stuck = vec![
        json!({"metadata": {"name": "x-202611290200", "namespace": "docs", "creationTimestamp": NOW}, "status": {"reason": "CreateRefused", "message": "quota"}}),
        json!({
            "kind": "ReportJob", "metadata": {"name": "acme-2", "namespace": "docs", "creationTimestamp": "2026-11-29T01:00:00Z"},
            "status": {"reason": "CreateRefused", "message": "exceeded quota: compute", "conditions": [
                {"type": "Accepted", "status": "False", "reason": "CreateRefused", "message": "", "lastTransitionTime": "2026-11-29T02:55:00Z"},
            ]},
        }),
    ];
    facts.foreign = vec![
        json!({"reason": "ForeignFence", "note": "n", "eventTime": "2026-11-29T02:00:00.000000Z", "regarding": {"kind": "ReportQueue", "namespace": "docs", "name": "q"}}),
        json!({"reason": "ForeignFence", "note": "n", "eventTime": "2026-11-29T02:20:00.000000Z", "regarding": {"kind": "ReportQueue", "namespace": "docs", "name": "q"}}),
        json!({"reason": "ForeignFence", "note": "n", "regarding": {"kind": "Unheard", "namespace": "docs", "name": "q"}}),
    ];
    facts.traces = vec![trace(false, "2026-11-29T02:50:00Z")];
    facts
}

#[test]
fn everything_that_needs_a_person_is_named_with_its_age() {
    let facts = in_trouble();
    let report = digest(&facts);
    let expected = [
        ("docs/mocc/nightly-202611290200", "Unresolved"),
        ("docs/rjob/acme-1", "Unresolved"),
        ("docs/rqueue/reports", "Paused"),
        ("docs/rqueue/q", "ForeignFence"),
        ("docs/msched/late", "Late"),
        ("docs/msched/skewed", "ClockSkew"),
        ("docs/msched/taken", "NameConflict"),
        ("docs/msched/refused", "RunRefused"),
        ("docs/msched/broken", "Unreadable"),
        ("docs/mocc/x-202611290200", "CreateRefused"),
        ("docs/rjob/acme-2", "CreateRefused"),
        ("system/rtrace/punctual-4212", "RecoveryIncomplete"),
    ];
    let expected: Vec<_> = expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    assert_eq!(needs(&report), expected);
    let s = &report.schedules;
    assert_eq!((s.total, s.active, s.suspended, s.invalid, s.new, s.late), (7, 4, 1, 1, 1, 2));
    let text = report.text(now());
    for part in [
        "12 things need a person:",
        "docs/rjob/acme-2 CreateRefused, 5m ago",
        "it cannot start: exceeded quota: compute",
        "docs/mocc/nightly-202611290200 Unresolved, 50m ago",
        "kubectl punctual why rjob/acme-1 -n docs",
        "is not complete",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_recovery_that_is_just_under_way_needs_nobody() {
    let mut facts = well();
    facts.traces = vec![trace(false, "2026-11-29T02:59:30Z")];
    facts.queues = vec![queue(
        &json!({"admissions": "Paused", "reason": "RecoveryIncomplete", "conditions": not_ready("RecoveryIncomplete", "2026-11-29T02:59:30Z")}),
    )];
    assert!(digest(&facts).is_well());
}

#[test]
fn lists_are_bounded_and_say_how_much_more_there_is() {
    let mut facts = well();
    facts.schedules = (0..100)
        .map(|n| {
            schedule(
                &format!("s{n:03}"),
                &json!({"state": "Invalid", "conditions": not_ready("InvalidSchedule", NOW)}),
            )
        })
        .collect();
    facts.queues = (0..100).map(|_| queue(&Value::Null)).collect();
    let report = digest(&facts);
    assert_eq!((report.needs.total, report.needs.items.len()), (100, 30));
    assert_eq!((report.queues.total, report.queues.items.len()), (100, 50));
    let text = report.text(now());
    assert!(text.contains("… and 70 more") && text.contains("… and 50 more"), "{text}");
}

#[test]
fn clocks_that_disagree_are_told() {
    let event = |reason: &str, at: &str| json!({"reason": reason, "note": "the clocks differ by 9.0 s", "eventTime": at});
    let mut facts = well();
    facts.lease_events = vec![
        event("ClocksAgree", "2026-11-29T02:00:00.000000Z"),
        event("ClockSkew", "2026-11-29T02:30:00.000000Z"),
    ];
    assert!(!digest(&facts).is_well());
    facts.lease_events.push(event("ClocksAgree", "2026-11-29T02:40:00.000000Z"));
    assert!(digest(&facts).is_well());
    facts.server_time = Some("2026-11-29T02:58:00Z".parse().unwrap());
    let report = digest(&facts);
    assert_eq!(report.clocks.own_ahead_seconds, Some(120));
    assert!(report.clocks.message.contains("ahead by 120 s"));
}

#[test]
fn nothing_that_is_stored_makes_it_fail() {
    let odd = [
        Value::Null,
        json!(1),
        json!([]),
        json!({"metadata": 1, "spec": [], "status": "x"}),
        json!({"kind": "ReportSchedule"}),
    ];
    let mut facts = well();
    facts.schedules = odd.to_vec();
    facts.queues = odd.to_vec();
    facts.unresolved = odd.to_vec();
    facts.stuck = odd.to_vec();
    facts.traces = odd.to_vec();
    facts.foreign = odd.to_vec();
    facts.lease_events = odd.to_vec();
    for lease in odd {
        facts.lease = Some(lease);
        let report = digest(&facts);
        assert!(!report.is_well());
        assert!(!report.text(now()).is_empty());
    }
}

/// What `status` reads of a cluster in which these are.
fn read(objects: &[Value]) -> Facts {
    let model = Model::new(WallClock::driven(now()));
    model.install_crds();
    for object in objects {
        model.install(object).unwrap_or_else(|error| panic!("{error}: {object}"));
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let person = Person::single(&model.server(0).client("reader"), "docs");
        gather(&person, false, &LeasePlace::default()).await.unwrap()
    })
}

fn report(name: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
        "metadata": {"name": name, "namespace": "docs"},
        "spec": {"queueName": "reports", "tenant": "acme", "run": {"simulated": {}}},
        "status": status,
    })
}

fn occurrence(minute: u32, status: &Value) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
        "metadata": {"name": format!("nightly-2026112902{minute:02}"), "namespace": "docs"},
        "spec": {"scheduleName": "nightly", "intendedTime": format!("2026-11-29T02:{minute:02}:00Z")},
        "status": status,
    })
}

#[test]
fn what_is_accepted_and_cannot_start_is_found_whatever_kind_it_is_of() {
    let mut objects = Vec::new();
    for (n, reason) in
        ["CreateRefused", "ProviderUnreachable", "ScheduleNotFound", "Waiting"].iter().enumerate()
    {
        let status = json!({"state": "Pending", "reason": reason, "message": "m"});
        objects.push(occurrence(u32::try_from(n).unwrap(), &status));
    }
    for reason in ["CreateRefused", "ProviderUnreachable", "QueueNotFound", "WaitingForSlot"] {
        let status = json!({"state": "Queued", "reason": reason, "message": "m"});
        objects.push(report(&reason.to_lowercase(), &status));
    }
    // What ended with such a reason waits for nobody.
    objects.push(report("over", &json!({"state": "Failed", "reason": "CreateRefused"})));
    let mut found = needs(&digest(&read(&objects)));
    found.sort();
    let expected = [
        ("docs/mocc/nightly-202611290200", "CreateRefused"),
        ("docs/mocc/nightly-202611290201", "ProviderUnreachable"),
        ("docs/mocc/nightly-202611290202", "ScheduleNotFound"),
        ("docs/rjob/createrefused", "CreateRefused"),
        ("docs/rjob/providerunreachable", "ProviderUnreachable"),
        ("docs/rjob/queuenotfound", "QueueNotFound"),
    ];
    assert_eq!(found, expected.map(|(object, reason)| (object.to_owned(), reason.to_owned())));
}

/// The Lease of epoch 4212, and a trace that says where it is.
fn led() -> Vec<Value> {
    let mut lease = lease("p-1/n", "2026-11-29T02:59:59.000000Z");
    lease["apiVersion"] = json!("coordination.k8s.io/v1");
    lease["kind"] = json!("Lease");
    lease["metadata"]["annotations"]["punctual.dev/nonce"] = json!("own");
    vec![lease, trace(true, "2026-11-29T01:00:00Z")]
}

fn fence(epoch: i64, nonce: &str) -> Value {
    json!({"fence": {"epoch": epoch, "nonce": nonce}})
}

fn told_of(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": format!("{name}.0123456789abcdef"), "namespace": "docs"},
        "eventTime": "2026-11-29T02:30:00.000000Z", "type": "Warning", "reason": "ForeignFence",
        "action": "Write", "note": "the words of the event", "reportingController": "punctual.dev/operator",
        "reportingInstance": "p-1",
        "regarding": {"apiVersion": "punctual.dev/v1alpha1", "kind": kind, "namespace": "docs", "name": name},
    })
}

fn left_alone(facts: &Facts) -> Vec<String> {
    let needs = needs(&digest(facts)).into_iter();
    needs.filter(|(_, reason)| reason == "ForeignFence").map(|(object, _)| object).collect()
}

#[test]
fn what_is_left_alone_is_known_by_its_fence_while_it_is_so() {
    let with = |mut object: Value, status: &Value| {
        object["status"]["fence"] = status["fence"].clone();
        object
    };
    let (newer, twin) = (fence(5000, "x"), fence(4212, "other"));
    let (own, older) = (fence(4212, "own"), fence(12, "x"));
    let mut objects = led();
    objects.extend([
        with(schedule("newer", &json!({"state": "Active"})), &newer),
        with(schedule("own", &json!({"state": "Active"})), &own),
        schedule("never-written", &json!({"state": "Active"})),
        with(queue(&json!({})), &twin),
        with(report("runs", &json!({"state": "Running"})), &newer),
        with(report("waits", &json!({"state": "Queued"})), &older),
        with(occurrence(0, &json!({"state": "Pending"})), &newer),
        // Over: of these only what an event names is looked at.
        with(occurrence(1, &json!({"state": "Succeeded"})), &newer),
        with(occurrence(2, &json!({"state": "Succeeded"})), &newer),
        told_of("MaintenanceOccurrence", "nightly-202611290201"),
        // Told of, and taken over or removed since.
        with(occurrence(3, &json!({"state": "Succeeded"})), &own),
        told_of("MaintenanceOccurrence", "nightly-202611290203"),
        told_of("ReportQueue", "removed"),
        told_of("ReportJob", "waits"),
        told_of("ReportJob", "runs"),
    ]);
    let facts = read(&objects);
    let expected = [
        "docs/mocc/nightly-202611290200",
        "docs/mocc/nightly-202611290201",
        "docs/msched/newer",
        "docs/rjob/runs",
        "docs/rqueue/reports",
    ];
    assert_eq!(left_alone(&facts), expected);
    let text = digest(&facts).text(now());
    for part in ["docs/rjob/runs ForeignFence, 30m ago", "(status.fence) is of epoch 5000"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("the words of the event"), "{text}");
}

#[test]
fn without_a_term_to_compare_with_the_events_are_believed() {
    let mut facts = read(&led());
    let key = |short| fences::Key { namespace: "docs".into(), short, name: "a".into() };
    let fence = |epoch| Some(crate::api::Fence { epoch, nonce: "x".into() });
    facts.fences = [(key("rjob"), fence(5000)), (key("rqueue"), fence(9000))].into();
    assert_eq!(left_alone(&facts), ["docs/rjob/a", "docs/rqueue/a"]);
    // Another installation had a term in between: the one object may be its own.
    let mut other = trace(true, "2026-11-29T01:00:00Z");
    (other["spec"]["leaseName"], other["spec"]["epoch"]) = (json!("theirs"), json!(6000));
    facts.traces.push(other);
    assert_eq!(left_alone(&facts), ["docs/rqueue/a"]);
    facts.foreign = vec![told_of("ReportJob", "a")];
    assert_eq!(left_alone(&facts), ["docs/rjob/a", "docs/rqueue/a"]);
    facts.lease = None;
    assert_eq!(left_alone(&facts), ["docs/rjob/a"]);
    assert!(digest(&facts).text(now()).contains("the words of the event"));
}

#[test]
fn what_could_not_be_read_is_not_said_to_be_well() {
    let mut facts = well();
    facts.not_read = vec!["you may not list reportjobs.punctual.dev in all namespaces".to_owned()];
    let report = digest(&facts);
    assert!(!report.is_well());
    let text = report.text(now());
    for part in ["Nothing that could be read needs a person.", "Not read:\n  you may not list"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("Nothing needs a person"), "{text}");
}

#[test]
fn how_late_starts_are_is_told_by_the_latest() {
    let mut facts = well();
    assert!(!digest(&facts).text(now()).contains("Newest starts"), "nothing has started");
    facts.schedules = [("a", 3), ("b", 75), ("c", 0)]
        .map(|(name, seconds)| schedule(name, &json!({"latenessSeconds": seconds})))
        .into();
    facts.schedules.push(schedule("new", &Value::Null));
    // Reports wait in their queue, which makes nobody late.
    facts.schedules.push(json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportSchedule",
        "metadata": {"name": "r", "namespace": "docs"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"queueName": "q", "tenant": "t"}}},
        "status": {"latenessSeconds": 900},
    }));
    let report = digest(&facts);
    assert_eq!(report.schedules.lateness.as_ref().unwrap().seconds, 75);
    let text = report.text(now());
    assert!(text.contains("Newest starts were at most 75 s late (docs/msched/b)."), "{text}");
}
