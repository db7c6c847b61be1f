//! Steps that scenarios share: manifests, schedules whose instants are past, what a person types,
//! and what stands in a status.

use std::{path::Path, process::Stdio, time::Duration};

use jiff::{SignedDuration, Timestamp};
use punctual::{
    identity::{maintenance_attempt_name, occurrence_name},
    time::IntendedTime,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::bed::{
    error::BedError,
    objects::text,
    operator::ReplicaOptions,
    run::progress,
    scenario::{Scenario, ok},
    wait,
};

/// For what happens within seconds on an idle machine.
pub(super) const SOON: Duration = Duration::from_secs(60);
/// A command of ours does a few calls of the API server.
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);

/// Nobody takes over in these scenarios. A short lease would be lost on a busy machine, for want of an
/// answer rather than for the fault under test.
const LEASE: Duration = Duration::from_secs(30);

/// Starts the one replica of a scenario in which leadership does not matter.
pub(super) async fn operator(s: &Scenario) {
    operator_with(s, &[]).await;
}

/// The same with further arguments.
pub(super) async fn operator_with(s: &Scenario, args: &[&str]) {
    let args = args.iter().map(ToString::to_string).collect();
    let options = ReplicaOptions { lease_duration: Some(LEASE), args, ..ReplicaOptions::default() };
    s.replica_with("r0", &options).await;
}

/// The whole minute that began at least `minutes` minutes ago.
pub(super) fn minutes_ago(minutes: i64) -> IntendedTime {
    let then = Timestamp::now() - SignedDuration::from_mins(minutes);
    IntendedTime::floor(then)
}

/// The instant `minutes` minutes after this one.
pub(super) fn after(instant: IntendedTime, minutes: i64) -> IntendedTime {
    IntendedTime::floor(instant.timestamp() + SignedDuration::from_mins(minutes))
}

/// Every hour at the minutes of these instants. With instants of the last minutes, the next one is
/// far away.
pub(super) fn hourly_at(instants: &[IntendedTime]) -> String {
    let minutes: Vec<String> =
        instants.iter().map(|instant| instant.digits()[10..12].to_owned()).collect();
    format!("{} * * * *", minutes.join(","))
}

/// An expression of which no instant comes while a scenario runs.
pub(super) fn not_soon() -> String {
    let digits = minutes_ago(12 * 60).digits();
    format!("{} {} * * *", &digits[10..12], &digits[8..10])
}

/// A MaintenanceSchedule. `play` are the annotations of its pods, which say how they behave; `spec`
/// is laid over the usual spec.
pub(super) fn schedule(name: &str, expression: &str, play: &Value, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "MaintenanceSchedule",
        "metadata": {"name": name},
        "spec": {
            "schedule": expression,
            "run": {"job": {"template": {
                "metadata": {"annotations": play},
                "spec": {"containers": [{"name": "main", "image": "registry.example/none:1"}]},
            }}},
        },
    });
    lay_over(&mut object["spec"], spec);
    object
}

/// An occurrence as a person makes it by hand.
pub(super) fn by_hand(schedule: &str, at: IntendedTime) -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1",
        "kind": "MaintenanceOccurrence",
        "metadata": {"name": occurrence_name(schedule, at)},
        "spec": {"scheduleName": schedule, "intendedTime": at.to_string()},
    })
}

fn lay_over(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                lay_over(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more.clone(),
    }
}

/// Applies a schedule and writes into its status that it was last looked at at `since`, so that its
/// instants after that are due or missed as soon as an operator looks. Without an operator running.
pub(super) async fn apply_back_dated(s: &Scenario, manifest: &Value, since: IntendedTime) {
    s.apply(&manifest.to_string()).await;
    let name = text(manifest, "/metadata/name");
    let kind = if text(manifest, "/kind") == "ReportSchedule" { "rsched" } else { "msched" };
    let stored = s.get(kind, name).await.expect("it was applied");
    let spec = &stored["spec"];
    let status = json!({"status": {
        "lastScheduleTime": since.to_string(),
        "effectiveTime": since.to_string(),
        "observed": {
            "uid": stored["metadata"]["uid"], "schedule": spec["schedule"],
            "timeZone": spec["timeZone"], "dstPolicy": spec["dstPolicy"],
        },
    }});
    patch_status(s, kind, name, &status).await;
}

/// `kubectl patch --subresource=status`.
pub(super) async fn patch_status(s: &Scenario, kind: &str, name: &str, patch: &Value) {
    let patch = patch.to_string();
    let args = ["patch", kind, name, "--subresource=status", "--type=merge", "-p", &patch];
    ok(s.kubectl().run(&args).await);
}

/// `kubectl patch`; the error is what kubectl said.
pub(super) async fn try_patch(
    s: &Scenario,
    kind: &str,
    name: &str,
    patch: &Value,
) -> Result<(), String> {
    let patch = patch.to_string();
    let said =
        ok(s.kubectl().try_run(&["patch", kind, name, "--type=merge", "-p", &patch], "").await);
    if said.ok { Ok(()) } else { Err(said.stderr) }
}

/// `kubectl patch` that must be accepted.
pub(super) async fn patch(s: &Scenario, kind: &str, name: &str, what: &Value) {
    if let Err(error) = try_patch(s, kind, name, what).await {
        panic!("kubectl patch {kind} {name} {what}: {error}");
    }
}

/// What one of our own commands answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Answer {
    /// What it printed with `-o json`.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not one JSON document ({error}): {self:?}"))
    }
}

/// Runs `punctual` as a person does, in the scenario's namespace.
pub(super) async fn punctual(s: &Scenario, args: &[&str]) -> Answer {
    let args = [args, &["--namespace", &s.namespace]].concat();
    punctual_with(&s.bed.kubeconfig, &args).await
}

/// Runs `punctual` with another kubeconfig.
pub(super) async fn punctual_with(kubeconfig: &Path, args: &[&str]) -> Answer {
    let child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(COMMAND_DEADLINE, child)
        .await
        .unwrap_or_else(|_| panic!("punctual {args:?}: no answer in {COMMAND_DEADLINE:?}"))
        .expect("the program was built with the suite");
    Answer {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// `punctual trigger … -o json`, which must make a new occurrence; gives its name.
pub(super) async fn trigger(s: &Scenario, schedule: &str, at: IntendedTime) -> String {
    let answer = trigger_again(s, schedule, at).await;
    assert_eq!((answer.code, &answer.json()["existing"]), (Some(0), &json!(false)), "{answer:?}");
    occurrence_name(schedule, at)
}

/// `punctual trigger … -o json`, whatever it answers.
pub(super) async fn trigger_again(s: &Scenario, schedule: &str, at: IntendedTime) -> Answer {
    let target = format!("msched/{schedule}");
    punctual(s, &["trigger", &target, "--at", &at.to_string(), "-o", "json"]).await
}

/// Waits until an occurrence is in this state.
pub(super) async fn in_state(s: &Scenario, occurrence: &str, state: &str) -> Value {
    in_state_within(s, occurrence, state, SOON).await
}

/// The same with another deadline.
pub(super) async fn in_state_within(
    s: &Scenario,
    occurrence: &str,
    state: &str,
    within: Duration,
) -> Value {
    let what = format!("its state is {state}");
    s.wait_for("mocc", occurrence, &what, within, |o| text(o, "/status/state") == state).await
}

/// State and reason of an occurrence.
pub(super) fn state_of(occurrence: &Value) -> (&str, &str) {
    (text(occurrence, "/status/state"), text(occurrence, "/status/reason"))
}

/// What an occurrence says about itself.
pub(super) fn message_of(occurrence: &Value) -> &str {
    text(occurrence, "/status/message")
}

/// The one occurrence of a schedule that is Running, once there is one.
pub(super) async fn running_of(s: &Scenario, schedule: &str) -> (String, IntendedTime) {
    let what = format!("an occurrence of {schedule} runs");
    let found = wait::until(&what, SOON, || async {
        let all = s.list("mocc").await;
        let one = all.iter().find(|o| {
            text(o, "/spec/scheduleName") == schedule && text(o, "/status/state") == "Running"
        });
        one.map(|o| {
            let at = text(o, "/spec/intendedTime").parse().expect("the API server checks it");
            (text(o, "/metadata/name").to_owned(), at)
        })
        .ok_or_else(|| BedError(format!("none of {}", all.len())))
    });
    ok(found.await)
}

/// The Job of an occurrence's attempt.
pub(super) fn job_of(occurrence: &str, attempt: i32) -> String {
    maintenance_attempt_name(occurrence, attempt)
}

/// Takes an annotation away from the pods of a Job, so that they go on: see `kwok-stages.yaml`.
pub(super) async fn let_go(s: &Scenario, job: &str, annotation: &str) {
    let labels = format!("batch.kubernetes.io/job-name={job}");
    let gone = format!("{annotation}-");
    ok(s.kubectl().run(&["annotate", "pods", "-l", &labels, &gone]).await);
}

/// Status, reason and message of a condition.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let all = object["status"]["conditions"].as_array()?;
    let found = all.iter().find(|c| c["type"] == kind)?;
    Some((text(found, "/status"), text(found, "/reason"), text(found, "/message")))
}

/// Whether the status of a schedule has a claim with this uid; `start` as given.
pub(super) fn claims(schedule: &Value, uid: &str, start: bool) -> bool {
    let all = schedule["status"]["claimed"].as_array();
    all.into_iter().flatten().any(|claim| claim["uid"] == uid && claim["start"] == start)
}

/// Whether the status of a schedule has no claim.
pub(super) fn claims_nothing(schedule: &Value) -> bool {
    schedule["status"]["claimed"].as_array().is_none_or(Vec::is_empty)
}

/// The reason under which a schedule accounts for an instant that was not run.
pub(super) fn skipped(schedule: &Value, at: IntendedTime) -> Option<&str> {
    let ranges = schedule["status"]["skipped"].as_array()?;
    let instant = |range: &Value, field: &str| range[field].as_str().and_then(|t| t.parse().ok());
    let range = ranges.iter().find(|range| {
        let within = |from: IntendedTime, to: IntendedTime| from <= at && at <= to;
        instant(range, "from").zip(instant(range, "to")).is_some_and(|(from, to)| within(from, to))
    })?;
    range["reason"].as_str()
}

/// How many instants were not run for this reason.
pub(super) fn skipped_total(schedule: &Value, reason: &str) -> i64 {
    schedule["status"]["skippedTotal"][reason].as_i64().unwrap_or(0)
}

/// The uid of an object.
pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// A moment in an object.
pub(super) fn moment(object: &Value, pointer: &str) -> Timestamp {
    let found = text(object, pointer);
    found.parse().unwrap_or_else(|error| panic!("{pointer} is {found:?}: {error}: {object}"))
}

/// How many runs of an occurrence were let go, as the audit log shows.
pub(super) async fn runs_of(s: &Scenario, occurrence: &str) -> usize {
    s.verify().await.releases_of(occurrence).count()
}

/// The cells of one object as kubectl prints them, by column.
pub(super) async fn columns(s: &Scenario, kind: &str, name: &str) -> Vec<(String, String)> {
    let table = ok(s.kubectl().run(&["get", kind, name]).await);
    progress(&format!("kubectl get {kind} {name}:\n{table}"));
    let (head, row) = table.trim_end().split_once('\n').expect("a header and a row");
    // Cells are aligned with their headers; one may contain spaces, as a cron expression does.
    let starts: Vec<usize> = head
        .char_indices()
        .filter(|(at, c)| *c != ' ' && (*at == 0 || head[..*at].ends_with(' ')))
        .map(|(at, _)| at)
        .collect();
    let cell = |line: &str, column: usize| {
        let end = starts.get(column + 1).map_or(line.len(), |next| (*next).min(line.len()));
        line[starts[column].min(end)..end].trim().to_owned()
    };
    (0..starts.len()).map(|column| (cell(head, column), cell(row, column))).collect()
}

/// The cell of a column.
pub(super) fn column<'a>(cells: &'a [(String, String)], name: &str) -> &'a str {
    let found = cells.iter().find(|(head, _)| head == name);
    found.map_or_else(|| panic!("no column {name}: {cells:?}"), |(_, cell)| cell.as_str())
}
