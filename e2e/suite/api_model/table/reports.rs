//! Queues, report jobs and schedules of reports: rules, the ledger, outcomes, selectors.

use serde_json::{Value, json};

use super::{
    Compare, REPORT_JOBS, REPORT_QUEUES, REPORT_SCHEDULES, Step, at_version, delete, get, patch,
    post, put, with,
};

pub(super) fn steps() -> Vec<Step> {
    [
        queues(),
        ledger(),
        jobs(),
        scheduled_jobs(),
        edits(),
        outcomes(),
        artifacts(),
        reads(),
        schedules(),
        deletion(),
    ]
    .concat()
}

const NAME: &str = "acme-usage-2026-11";

fn queue() -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
        "metadata": {"name": "reports", "namespace": "{ns}"},
        "spec": {"slots": 2, "runTemplate": {"simulated": {}}},
    })
}

fn job() -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
        "metadata": {"name": NAME, "namespace": "{ns}"},
        "spec": {
            "queueName": "reports", "tenant": "acme", "parameters": {"month": "2026-11"},
            "run": {"actionClass": "Idempotent", "job": {"template": {"spec": {"any": 1}}}},
        },
    })
}

fn report_schedule() -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportSchedule",
        "metadata": {"name": "hourly-usage", "namespace": "{ns}"},
        "spec": {
            "schedule": "0 * * * *",
            "jobTemplate": {
                "metadata": {"labels": {"team": "usage"}},
                "spec": {"queueName": "reports", "tenant": "acme", "run": {"simulated": {}}},
            },
        },
    })
}

fn queues() -> Vec<Step> {
    let make =
        |what, path, value: Value| post(what, REPORT_QUEUES, with(&queue(), [(path, value)]));
    let edit = |what, spec: Value| patch(what, REPORT_QUEUES, "reports", json!({"spec": spec}));
    vec![
        make("a queue with a long name", "/metadata/name", "q".repeat(64).into()),
        make("a queue without slots", "/spec/slots", Value::Null),
        make("a queue of no slots", "/spec/slots", json!(0)),
        make("a queue of too many slots", "/spec/slots", json!(1025)),
        make("a tenant of no weight", "/spec/tenants", json!([{"name": "acme", "weight": 0}])),
        make("a tenant twice", "/spec/tenants", json!([{"name": "acme"}, {"name": "acme"}])),
        make("a tenant of an odd name", "/spec/tenants", json!([{"name": "a/b"}])),
        make("a template of no provider", "/spec/runTemplate", json!({})),
        post("create a queue", REPORT_QUEUES, queue()),
        post("create the queue twice", REPORT_QUEUES, queue()),
        make("create a queue of defaults", "/metadata/name", "others".into()),
        edit("weights", json!({"tenants": [{"name": "acme", "weight": 2, "maxRunning": 4}]})),
        edit("no admissions that are known", json!({"admission": "Ajar"})),
        edit("hold", json!({"admission": "Hold", "admissionReason": "migration"})),
        edit("open", json!({"admission": null, "admissionReason": null})),
        edit("other limits", json!({"limits": {"queued": 5}})),
    ]
}

/// The queue at its version, with this many entries in its ledger.
fn admitted(entries: usize, epoch: i64) -> Value {
    let entry = |number: usize| {
        json!({
            "job": format!("acme-{number}"), "uid": format!("u-{number}"), "tenant": "acme",
            "attempt": 1, "runKey": format!("{number:032x}-r1"), "actionClass": "Idempotent",
            "charge": 60_000, "admittedTime": "2026-11-29T02:00:00Z",
        })
    };
    let entries: Vec<Value> = (0..entries).map(entry).collect();
    let status = json!({
        "fence": {"epoch": epoch, "nonce": "n"}, "admissions": "Open", "slots": "1/2",
        "ledger": {"virtualTime": 5, "entries": entries},
    });
    let spec = json!({
        "slots": 2, "runTemplate": {"simulated": {}}, "limits": {"queued": 5},
    });
    with(&queue(), [("/metadata", at_version("reports")), ("/status", status), ("/spec", spec)])
}

fn ledger() -> Vec<Step> {
    let write = |what, body: Value| put(what, REPORT_QUEUES, "reports/status", body);
    let slots =
        |what, slots: i32| patch(what, REPORT_QUEUES, "reports", json!({"spec": {"slots": slots}}));
    let without = with(&admitted(1, 5), [("/status/ledger", Value::Null)]);
    let lacking = with(&admitted(1, 5), [("/status/ledger/entries", json!([{"job": "acme-1"}]))]);
    let retries = with(&admitted(1, 5), [("/status/ledger/retriesPerMillion", json!(-1))]);
    vec![
        write("rebuild a ledger of more than the slots", admitted(3, 5)),
        write("settle two", admitted(1, 5)),
        write("admit into the last slot", admitted(2, 5)),
        write("admit beyond the slots", admitted(3, 5)),
        write("admit beyond the slots in a newer term", admitted(3, 6)),
        write("dry run of an older term", admitted(1, 4)).dry(),
        write("admit in an older term", admitted(1, 4)),
        write("the ledger vanishes", without),
        write(
            "the status of the queue vanishes",
            with(&admitted(0, 5), [("/status", Value::Null)]),
        ),
        write("an entry without its fields", lacking),
        write("retries out of range", retries),
        slots("lower the slots below what is taken", 1),
        write("hold what is taken", admitted(2, 5)),
        write("admit while more is taken than there is", admitted(3, 5)),
        write("settle one", admitted(1, 5)),
        slots("raise the slots", 2),
        write("settle all", admitted(0, 5)),
        get("read a queue", REPORT_QUEUES, "reports"),
    ]
}

fn jobs() -> Vec<Step> {
    let make = |what, path, value: Value| post(what, REPORT_JOBS, with(&job(), [(path, value)]));
    vec![
        make("a job with a long name", "/metadata/name", "a".repeat(54).into()),
        make("a job named like an instant", "/metadata/name", "acme-202611290200".into()),
        make("a job of no queue", "/spec/queueName", Value::Null),
        make("a job of no tenant", "/spec/tenant", "".into()),
        make("a job of an odd tenant", "/spec/tenant", "a/b".into()),
        make("a tenant with a long name", "/spec/tenant", "t".repeat(41).into()),
        make("a priority out of range", "/spec/priority", json!(1001)),
        make("an estimate out of range", "/spec/estimateSeconds", json!(0)),
        make("an artifact of no known kind", "/spec/artifact", "Some".into()),
        make("a run of no provider", "/spec/run/job", Value::Null),
        make("a job of a part of a schedule", "/spec/scheduleName", "hourly-usage".into()),
        make("a job of another part", "/spec/intendedTime", "2026-11-29T09:00:00Z".into()),
        make("parameters without end", "/spec/parameters", json!({"k": "x".repeat(8192)})),
        post("create a job", REPORT_JOBS, job()),
        post("create the job twice", REPORT_JOBS, job()),
        make("a job without a run", "/spec/run", Value::Null).dry(),
    ]
}

fn scheduled_jobs() -> Vec<Step> {
    let scheduled = |name: &str, instant: &str| {
        with(
            &job(),
            [
                ("/metadata/name", name.into()),
                ("/spec/scheduleName", "hourly-usage".into()),
                ("/spec/intendedTime", instant.into()),
                ("/spec/scheduleUID", "u-1".into()),
            ],
        )
    };
    let nine = "2026-11-29T09:00:00Z";
    let named = "hourly-usage-202611290900";
    vec![
        post("an instant of another name", REPORT_JOBS, scheduled("hourly-usage", nine)),
        post(
            "an instant of another minute",
            REPORT_JOBS,
            scheduled("hourly-usage-202611290901", nine),
        ),
        post(
            "an instant that is not",
            REPORT_JOBS,
            scheduled("hourly-usage-202611310900", "2026-11-31T09:00:00Z"),
        ),
        post("create the job of an instant", REPORT_JOBS, scheduled(named, nine)),
        patch(
            "the schedule of a job vanishes",
            REPORT_JOBS,
            named,
            json!({"spec": {"scheduleName": null, "intendedTime": null, "scheduleUID": null}}),
        ),
        patch(
            "a job of another schedule's uid",
            REPORT_JOBS,
            named,
            json!({"spec": {"scheduleUID": "u-2"}}),
        ),
    ]
}

fn edits() -> Vec<Step> {
    let edit = |what, spec: Value| patch(what, REPORT_JOBS, NAME, json!({"spec": spec}));
    vec![
        edit("another queue", json!({"queueName": "others"})),
        edit("another tenant", json!({"tenant": "zeta"})),
        edit("another priority", json!({"priority": 1})),
        edit("the priority it has", json!({"priority": null})),
        edit("another parameter", json!({"parameters": {"month": "2026-12"}})),
        edit("one more parameter", json!({"parameters": {"year": "2026"}})),
        edit("the parameters vanish", json!({"parameters": null})),
        edit("another estimate", json!({"estimateSeconds": 61})),
        edit("a queue deadline comes", json!({"queueDeadlineSeconds": 60})),
        edit("another artifact", json!({"artifact": "Required"})),
        edit("another class", json!({"run": {"actionClass": "Fenced"}})),
        edit("the run vanishes", json!({"run": null})),
        edit(
            "another template of a job",
            json!({"run": {"job": {"template": {"spec": {"any": 2}}}}}),
        ),
        edit(
            "a resolution",
            json!({"resolution": {"attempt": 1, "decision": "Retry", "reason": "x"}}),
        ),
        edit("cancel", json!({"cancel": true})),
        edit("take the cancel back", json!({"cancel": false})),
        edit("the cancel vanishes", json!({"cancel": null})),
    ]
}

fn outcomes() -> Vec<Step> {
    let path = "hourly-usage-202611290900/status";
    let state = |what, body: Value| patch(what, REPORT_JOBS, path, json!({"status": body}));
    vec![
        state(
            "seal a job",
            json!({"fence": {"epoch": 5, "nonce": "a"}, "state": "Queued", "id": "abc", "position": "2"}),
        ),
        state("another id", json!({"id": "abd"})),
        state("the id vanishes", json!({"id": null})),
        state("an older term", json!({"fence": {"epoch": 4}})),
        state("no known state", json!({"state": "Pending"})),
        state("reject it", json!({"state": "Rejected", "reason": "QueueFull"})),
        state("accept it after all", json!({"state": "Queued"})),
        state("for another reason", json!({"reason": "TenantQueueFull"})),
        state("with a result", json!({"result": {"rows": 3}})),
        state(
            "accept it in a newer term",
            json!({"state": "Queued", "fence": {"epoch": 6, "nonce": "b"}}),
        ),
        state("a time to come back", json!({"retryAfterTime": "2026-11-29T10:00:00Z"})),
    ]
}

fn artifacts() -> Vec<Step> {
    let path = "acme-usage-2026-11/status";
    let state = |what, body: Value| patch(what, REPORT_JOBS, path, json!({"status": body}));
    let artifact = json!({
        "uri": "s3://reports/acme/2026-11.pdf", "sha256": "0a".repeat(32), "sizeBytes": 9,
        "attempt": 1, "acceptedTime": "2026-11-29T02:00:00Z",
    });
    vec![
        state("run it", json!({"fence": {"epoch": 5, "nonce": "a"}, "state": "Running"})),
        state(
            "an artifact without a digest",
            with(&json!({"artifact": artifact}), [("/artifact/sha256", "0a".into())]),
        ),
        state("accept an artifact", json!({"artifact": artifact})),
        state("another artifact", json!({"artifact": {"uri": "s3://reports/acme/other.pdf"}})),
        state("the artifact of another attempt", json!({"artifact": {"attempt": 2}})),
        state("the artifact vanishes", json!({"artifact": null})),
        state(
            "success",
            json!({"state": "Succeeded", "reason": "Completed", "result": {"pages": 3}}),
        ),
        state("another outcome", json!({"state": "Failed"})),
        state("another result", json!({"result": {"pages": 4}})),
        state("another artifact after the end", json!({"artifact": {"sizeBytes": 10}})),
        state("a note after the end", json!({"message": "all is well"})),
        get("read a job", REPORT_JOBS, NAME),
    ]
}

fn reads() -> Vec<Step> {
    let list = |what, query: &str| get(what, REPORT_JOBS, "").query(query);
    let watch = |what, query: &str| list(what, &format!("watch=true&timeoutSeconds=1&{query}"));
    vec![
        list("list jobs", ""),
        list("list jobs of a queue", "fieldSelector=spec.queueName%3Dreports"),
        list("list jobs of a tenant", "fieldSelector=spec.tenant%3Dacme"),
        list("list jobs of a state", "fieldSelector=status.state%3DRejected"),
        list(
            "list jobs of two fields",
            "fieldSelector=spec.tenant%3Dacme,status.state!%3DRejected",
        ),
        list("list jobs by no field", "fieldSelector=spec.priority%3D0")
            .compare(Compare::NotTheMessage),
        watch("watch jobs", "allowWatchBookmarks=true"),
        watch("watch jobs of a queue", "fieldSelector=spec.queueName%3Dreports"),
        get("list queues", REPORT_QUEUES, ""),
        get("watch queues", REPORT_QUEUES, "")
            .query("watch=true&timeoutSeconds=1&allowWatchBookmarks=true"),
    ]
}

fn schedules() -> Vec<Step> {
    let make = |what, path, value: Value| {
        post(what, REPORT_SCHEDULES, with(&report_schedule(), [(path, value)]))
    };
    let template = "/spec/jobTemplate/spec";
    let status = |what, epoch: i64| {
        let status = json!({"fence": {"epoch": epoch, "nonce": "a"}, "state": "Active"});
        let changes = [("/metadata", at_version("hourly-usage")), ("/status", status)];
        put(what, REPORT_SCHEDULES, "hourly-usage/status", with(&report_schedule(), changes))
    };
    vec![
        make("reports of a long name", "/metadata/name", "s".repeat(41).into()),
        make("reports in a zone of their own", "/spec/schedule", "TZ=UTC 0 * * * *".into()),
        make("reports from no moment", "/spec/anchor", "2026-02-30T00:00:00Z".into()),
        make("reports of no template", "/spec/jobTemplate", Value::Null),
        make("reports of no tenant", "/spec/jobTemplate/spec/tenant", Value::Null),
        make("reports of no provider", "/spec/jobTemplate/spec/run", json!({})),
        post(
            "reports of parameters without end",
            REPORT_SCHEDULES,
            with(
                &report_schedule(),
                [("/spec/jobTemplate/spec/parameters", json!({"k": "x".repeat(8192)}))],
            ),
        ),
        post("create a schedule of reports", REPORT_SCHEDULES, report_schedule()),
        patch(
            "an edit of its template",
            REPORT_SCHEDULES,
            "hourly-usage",
            json!({"spec": {"jobTemplate": {"spec": {"priority": 3}}}}),
        ),
        status("seal a schedule of reports", 10),
        status("an older term on a schedule of reports", 9),
        status("dry run of an older term on it", 9).dry(),
        get("read a schedule of reports", REPORT_SCHEDULES, "hourly-usage"),
        get("watch schedules of reports", REPORT_SCHEDULES, "")
            .query("watch=true&timeoutSeconds=1&allowWatchBookmarks=true"),
        get("list schedules of reports", REPORT_SCHEDULES, ""),
        make("a template beside it", template, json!({"queueName": "q", "tenant": "t"})).dry(),
    ]
}

fn deletion() -> Vec<Step> {
    let conditions = json!({
        "propagationPolicy": "Background",
        "preconditions": {"uid": "{uid}", "resourceVersion": "{rv}"},
    });
    let older = json!({"preconditions": {"uid": "{uid}", "resourceVersion": "{old-rv}"}});
    vec![
        delete("delete a job at an old version", REPORT_JOBS, NAME, older),
        delete("delete a job", REPORT_JOBS, NAME, conditions.clone()),
        delete("delete a queue", REPORT_QUEUES, "others", conditions),
    ]
}
