use super::*;
use crate::reconcile::{FENCED_WRITE_REJECTED, fenced_write};

pub(super) const SCHEDULE: &str = "\
start: \"2026-11-29T01:58:00Z\"
objects:
- apiVersion: punctual.dev/v1alpha1
  kind: MaintenanceSchedule
  metadata: {name: nightly, namespace: docs}
  spec:
    schedule: \"0 2 * * *\"
    run: {actionClass: Fenced, simulated: {}}
";

pub(super) const QUEUE: &str = "\
start: \"2026-11-29T02:00:00Z\"
objects:
- apiVersion: punctual.dev/v1alpha1
  kind: ReportQueue
  metadata: {name: reports, namespace: docs}
";

/// A report of a tenant.
pub(super) fn report(name: &str, tenant: &str, more: &str) -> String {
    format!(
        "- apiVersion: punctual.dev/v1alpha1
  kind: ReportJob
  metadata: {{name: {name}, namespace: docs}}
  spec: {{queueName: reports, tenant: {tenant}, run: {{simulated: {{}}}}{more}}}
"
    )
}

/// The text answers what happened, why, what happens next, and what a person can do.
pub(super) fn answers_everything(text: &str) {
    for title in ["What happened", "Why", "What happens next", "What you can do"] {
        assert!(text.contains(&format!("\n{title}\n")), "no {title:?} in\n{text}");
    }
}

pub(super) fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_queued_report_knows_who_is_ahead_of_it() {
    let mut spec = format!("{QUEUE}  spec: {{slots: 2, tenants: [{{name: acme, weight: 2}}]}}\n");
    for (name, tenant) in [
        ("big-1", "globex"),
        ("big-2", "globex"),
        ("big-3", "globex"),
        ("one", "acme"),
        ("big-4", "globex"),
        ("two", "initech"),
    ] {
        spec += &report(name, tenant, ", estimateSeconds: 600");
    }
    spec += "provider:\n- {match: '*', duration: 20m}\nend: 3m\n";
    let scene = scene("queued", &spec);
    let text = scene.golden("queued-report", "docs", "rjob/big-4", None);
    answers_everything(&text);
    says(
        &text,
        &["2 of 2 slots", "tenant globex", "Before it, ", "kubectl punctual cancel rjob/big-4"],
    );
}

#[test]
fn a_skipped_instant_says_what_stood_in_its_way() {
    let spec = format!(
        "{}provider:\n- {{match: '*', duration: 40m}}\nend: 65m\n",
        SCHEDULE.replace("0 2 * * *", "*/30 * * * *")
    );
    let scene = scene("skipped", &spec);
    let at = Some("2026-11-29T02:30:00Z");
    let text = scene.golden("skipped-instant", "docs", "msched/nightly", at);
    answers_everything(&text);
    says(
        &text,
        &[
            "Skipped (Concurrent)",
            "was not run, and will not be",
            "Forbid",
            "--at 2026-11-29T02:30:00Z",
        ],
    );
    let by_name = scene.why("docs", "mocc/nightly-202611290230", None);
    assert_eq!(
        by_name,
        scene.why("docs", "msched/nightly", at),
        "asked for by its name it is the same"
    );
}

#[test]
fn an_unresolved_run_says_what_can_be_decided() {
    let spec = format!(
        "{SCHEDULE}provider:\n- {{match: '*', duration: 30s, outcome: Unknown}}\nend: 20m\n"
    );
    let scene = scene("unresolved", &spec);
    let text = scene.golden("unresolved-run", "docs", "mocc/nightly-202611290200", None);
    answers_everything(&text);
    says(
        &text,
        &[
            "Unresolved (EndNotSeen)",
            "What was asked",
            "What is unknown",
            "every 30s",
            "--decision Succeeded",
            "--decision Failed",
            "--decision Retry",
            "--accept-duplicate",
        ],
    );
}

#[test]
fn a_rejected_report_says_which_limit_and_when_to_come_again() {
    let mut spec = format!("{QUEUE}  spec: {{slots: 1, limits: {{queued: 2}}}}\n");
    for name in ["r1", "r2", "r3", "r4"] {
        spec += &report(name, "acme", "");
    }
    spec += "provider:\n- {match: '*', duration: 10m}\nend: 30s\n";
    let scene = scene("rejected", &spec);
    let text = scene.golden("rejected-report", "docs", "rjob/r4", None);
    answers_everything(&text);
    says(
        &text,
        &[
            "Rejected (QueueFull)",
            "limits.queued of rqueue/reports is 2",
            "Now 2 reports wait",
            "To try again, in",
            "kubectl punctual resubmit rjob/r4",
        ],
    );
}

#[test]
fn a_fenced_write_says_whose_it_was_and_that_it_changed_nothing() {
    let spec = format!(
        "{SCHEDULE}provider:\n- {{match: '*', duration: 10m}}\nsteps:\n- {{at: 5m, pause: leader}}\n- {{at: 6m, resume: all}}\nend: 15m\n"
    );
    let scene = scene("fenced", &spec);
    let epochs: Vec<i64> = scene.epochs();
    let [old, new] = epochs[..] else { panic!("two terms: {epochs:?}") };
    let note = fenced_write(old, new);
    scene.event("docs", "nightly-202611290200", FENCED_WRITE_REJECTED, &note);
    let text = scene.golden("fenced-write", "docs", "mocc/nightly-202611290200", None);
    answers_everything(&text);
    says(
        &text,
        &[
            "FencedWriteRejected: a write of epoch",
            "changed nothing",
            "began to lead with epoch",
            "leadership was lost",
            "Nothing has to be done",
        ],
    );
}

#[test]
fn a_run_that_goes_on_under_another_leader_tells_of_both() {
    let spec = format!(
        "{SCHEDULE}provider:\n- {{match: '*', duration: 40m}}\nsteps:\n- {{at: 5m, kill: leader}}\nend: 10m\n"
    );
    let scene = scene("running", &spec);
    let text = scene.golden("running-after-a-takeover", "docs", "mocc/nightly-202611290200", None);
    answers_everything(&text);
    says(
        &text,
        &[
            "had not renewed the Lease for too long",
            "There is no limit on how long it may run",
            "cancel mocc/",
        ],
    );
    let trace =
        scene.objects.iter().rev().find(|object| object["kind"] == "RecoveryTrace").unwrap();
    let (namespace, name) = (
        super::super::snapshot::text(trace, "/metadata/namespace"),
        super::super::snapshot::text(trace, "/metadata/name"),
    );
    let text = scene.golden("recovery-trace", namespace, &format!("rtrace/{name}"), None);
    says(
        &text,
        &["1 reconciled (the provider was asked and answered)", "began to lead with epoch"],
    );
}

#[test]
fn an_instant_of_a_suspension_is_counted_and_not_run() {
    let spec = format!(
        "{SCHEDULE}steps:\n- at: 1m\n  patch: {{object: docs/msched/nightly, merge: {{spec: {{suspend: true, suspendReason: a migration}}}}}}\nend: 5m\n"
    );
    let scene = scene("suspended", &spec);
    let at = Some("2026-11-29T02:00:00Z");
    let text = scene.golden("suspended-instant", "docs", "msched/nightly", at);
    answers_everything(&text);
    says(&text, &["Suspended", "a migration", "kubectl punctual resume msched/nightly"]);
    let text = scene.golden("suspended-schedule", "docs", "msched/nightly", None);
    says(&text, &["It is suspended since", "kubectl punctual resume msched/nightly"]);
}

#[test]
fn instants_of_all_sorts_are_told_apart() {
    let spec = format!("{SCHEDULE}end: 1m\n");
    let scene = scene("instants", &spec);
    let ask = |file: &str, at: &str| scene.golden(file, "docs", "msched/nightly", Some(at));
    says(
        &ask("no-instant", "2026-11-29T02:17:00Z"),
        &["is no instant of this schedule", "The instant after it is 2026-11-30T02:00:00Z"],
    );
    says(
        &ask("instant-to-come", "2026-11-30T02:00:00Z"),
        &["has not come", "a leader creates mocc/nightly-202611300200"],
    );
    says(
        &ask("instant-before-the-schedule", "2026-11-28T02:00:00Z"),
        &["is before this schedule counts", "status.effectiveTime"],
    );
    let none = explain(&scene.gather("docs", "msched/none", Some("2026-11-30T02:00:00Z")));
    assert!(none.unwrap_err().contains("there is no MaintenanceSchedule \"none\""));
    let none = explain(&scene.gather("docs", "mocc/none", None));
    assert!(none.unwrap_err().contains("kubectl get mocc -n docs"));
}

#[test]
fn a_schedule_tells_what_it_skipped_and_why() {
    let spec = format!(
        "{}provider:\n- {{match: '*', duration: 40m}}\nend: 65m\n",
        SCHEDULE.replace("0 2 * * *", "*/30 * * * *")
    );
    let text =
        scene("skipped", &spec).golden("schedule-with-skips", "docs", "msched/nightly", None);
    answers_everything(&text);
    says(&text, &["Active", "The instant 2026-11-29T02:30:00Z was not run (Concurrent)"]);
}

#[test]
fn a_queue_on_hold_tells_the_note_and_who_waits() {
    let mut spec =
        format!("{QUEUE}  spec: {{slots: 1, admission: Hold, admissionReason: month end}}\n");
    spec += &report("one", "acme", "");
    spec += &report("two", "globex", "");
    spec += "end: 1m\n";
    let scene = scene("held", &spec);
    let text = scene.golden("queue-on-hold", "docs", "rqueue/reports", None);
    answers_everything(&text);
    says(
        &text,
        &[
            "Held",
            "month end",
            "Waiting: 2 reports of 2 tenants",
            "kubectl punctual resume rqueue/reports",
        ],
    );
    let text = scene.golden("report-on-hold", "docs", "rjob/two", None);
    answers_everything(&text);
    says(
        &text,
        &[
            "QueueHeld",
            "Before it, 1 report: 0 of its own tenant and 1 of others",
            "Once the queue is open",
        ],
    );
}

#[test]
fn a_busy_queue_names_who_has_the_slots() {
    let mut spec = format!("{QUEUE}  spec: {{slots: 2}}\n");
    for name in ["a", "b", "c"] {
        spec += &report(name, "acme", "");
    }
    spec += "provider:\n- {match: '*', duration: 10m}\nend: 2m\n";
    let text = scene("busy", &spec).golden("busy-queue", "docs", "rqueue/reports", None);
    answers_everything(&text);
    says(
        &text,
        &[
            "2 of 2 slots are taken, by rjob/a of acme",
            "Waiting: 1 report of 1 tenant. Next: rjob/c of acme",
        ],
    );
}

#[test]
fn a_report_whose_tenant_is_capped_says_so() {
    let mut spec =
        format!("{QUEUE}  spec: {{slots: 4, tenants: [{{name: acme, maxRunning: 1}}]}}\n");
    for name in ["a", "b"] {
        spec += &report(name, "acme", "");
    }
    spec += "provider:\n- {match: '*', duration: 10m}\nend: 1m\n";
    let text = scene("capped", &spec).golden("report-of-a-capped-tenant", "docs", "rjob/b", None);
    says(&text, &["TenantLimit", "holds 1 slot and may hold 1 (maxRunning"]);
}

#[test]
fn a_report_without_a_queue_says_what_to_create() {
    let spec = format!(
        "start: \"2026-11-29T02:00:00Z\"\nobjects:\n{}end: 1m\n",
        report("lonely", "acme", "")
    );
    let text = scene("lonely", &spec).golden("report-without-a-queue", "docs", "rjob/lonely", None);
    answers_everything(&text);
    says(&text, &["There is no ReportQueue \"reports\"", "Create ReportQueue \"reports\""]);
}

#[test]
fn a_report_between_two_attempts_says_when_it_is_tried_again() {
    let mut spec = format!("{QUEUE}  spec: {{slots: 1}}\n");
    spec += &report("flaky", "acme", "");
    spec +=
        "provider:\n- {match: '*', duration: 5s, outcome: Failed, reason: Unavailable}\nend: 12s\n";
    let text = scene("flaky", &spec).golden("report-between-attempts", "docs", "rjob/flaky", None);
    answers_everything(&text);
    says(&text, &["attempt 1 ended: Failed (Unavailable)", "BackingOff", "Its pause is over"]);
}

#[test]
fn a_report_that_failed_for_good_says_how_often_it_was_tried() {
    let mut spec = format!("{QUEUE}  spec: {{slots: 1}}\n");
    spec += &report("broken", "acme", "");
    spec += "provider:\n- {match: '*', duration: 5s, outcome: Failed, reason: Crash}\nend: 10m\n";
    let text = scene("broken", &spec).golden("report-that-failed", "docs", "rjob/broken", None);
    answers_everything(&text);
    says(&text, &["Failed (Crash)", "2 attempts were made; run.maxAttempts is 3"]);
}

#[test]
fn an_unresolved_report_keeps_its_slot() {
    let mut spec = format!("{QUEUE}  spec: {{slots: 1}}\n");
    spec += &report("lost", "acme", "");
    spec += "provider:\n- {match: '*', duration: 5s, outcome: Unknown}\nend: 10m\n";
    let text = scene("lost", &spec).golden("unresolved-report", "docs", "rjob/lost", None);
    answers_everything(&text);
    says(&text, &["It keeps its slot meanwhile", "--decision Retry"]);
}

#[test]
fn one_that_waits_for_another_says_for_which() {
    let spec = format!(
        "{}    concurrencyPolicy: Enqueue\nprovider:\n- {{match: '*', duration: 40m}}\nend: 35m\n",
        SCHEDULE.replace("0 2 * * *", "*/30 * * * *")
    );
    let text = scene("waiting", &spec).golden(
        "occurrence-that-waits",
        "docs",
        "mocc/nightly-202611290230",
        None,
    );
    answers_everything(&text);
    says(&text, &["Pending (Waiting)", "Before it: mocc/nightly-202611290200"]);
}

#[test]
fn what_is_done_is_final_and_what_was_cancelled_too() {
    let spec = format!(
        "{SCHEDULE}provider:\n- {{match: '*', duration: 10m}}\nsteps:\n- {{at: 5m, cancel: docs/mocc/nightly-202611290200}}\nend: 10m\n"
    );
    let text = scene("cancelled", &spec).golden(
        "cancelled-occurrence",
        "docs",
        "mocc/nightly-202611290200",
        None,
    );
    answers_everything(&text);
    says(&text, &["Cancelled (CancelRequested)", "was asked to stop", "never run again"]);
    let spec = format!("{SCHEDULE}end: 10m\n");
    let text = scene("done", &spec).golden(
        "finished-occurrence",
        "docs",
        "mocc/nightly-202611290200",
        None,
    );
    says(&text, &["Succeeded (Completed)", "is done."]);
}

#[test]
fn a_report_schedule_has_no_concurrency_policy_to_speak_of() {
    let mut spec = format!("{QUEUE}  spec: {{slots: 1}}\n");
    spec += "- apiVersion: punctual.dev/v1alpha1\n  kind: ReportSchedule\n  metadata: {name: often, namespace: docs}\n  spec: {schedule: '*/10 * * * *', jobTemplate: {spec: {queueName: reports, tenant: acme, run: {simulated: {}}}}}\n";
    spec += "provider:\n- {match: '*', duration: 40m}\nend: 25m\n";
    let scene = scene("often", &spec);
    let text = scene.why("docs", "rsched/often", None).text(scene.now);
    answers_everything(&text);
    says(&text, &["Each of them makes a report", "missedRuns.policy", "Started and not over"]);
    let mut all = vec![text];
    for at in ["2026-11-29T02:20:00Z", "2026-11-29T02:30:00Z"] {
        all.push(scene.why("docs", "rsched/often", Some(at)).text(scene.now));
    }
    let mut read = scene.gather("docs", "rsched/often", Some("2026-11-29T02:20:00Z"));
    read.object = None;
    let range = serde_json::json!([{"from": "2026-11-29T02:20:00Z", "to": "2026-11-29T02:20:00Z", "count": 1, "reason": "Concurrent"}]);
    let status = &mut read.schedule.as_mut().unwrap()["status"];
    (status["skipped"], status["claimed"]) = (range, serde_json::json!([]));
    let skipped = explain(&read).unwrap().text(scene.now);
    says(&skipped, &["Skipped (Concurrent)", "keeps track of"]);
    all.push(skipped);
    for text in all {
        assert!(!text.contains("concurrencyPolicy"), "the kind has no such field:\n{text}");
        assert!(!text.contains("punctual trigger"), "it makes no reports:\n{text}");
    }
}
