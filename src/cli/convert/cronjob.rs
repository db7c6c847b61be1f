//! What a CronJob says, as a schedule says it. Pure: JSON in, fields and comments out.
//!
//! What a CronJob does is kept, also where the defaults differ, and each place where the two are not
//! the same has a comment. What cannot be kept is refused with a sentence.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::time::{
    DstPolicy, IntendedTime, Schedule,
    plan::{DEFAULT_TIME_ZONE, PlanInput},
};

/// Most characters of a schedule's name, as its kind has it: names of occurrences, attempts and pods
/// are made of it.
const MAX_NAME: usize = 40;
/// Most attempts of a run, as its kind has it.
const MAX_ATTEMPTS: i64 = 20;

/// The annotation in which `kubectl apply` keeps what was applied: of the CronJob, not of the schedule.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// A CronJob that names no limit has pods tried this often in addition.
const DEFAULT_BACKOFF_LIMIT: i64 = 6;
/// What a CronJob keeps if it does not say.
const DEFAULT_HISTORY: (i64, i64) = (3, 1);

/// A CronJob that cannot be converted: one sentence that names the field and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unconvertible(String);

impl From<String> for Unconvertible {
    fn from(sentence: String) -> Self {
        Self(sentence)
    }
}

fn refuse<T>(sentence: impl Into<String>) -> Result<T, Unconvertible> {
    Err(Unconvertible(sentence.into()))
}

/// One field of the schedule, with what is to be said about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// What differs from the CronJob, a sentence or more; empty if nothing does.
    pub comment: String,
}

/// A schedule that was made of a CronJob.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Converted {
    /// `metadata` of the schedule.
    pub metadata: Value,
    /// What holds for the whole.
    pub notes: Vec<String>,
    /// `spec` without `run`.
    pub spec: Vec<Field>,
    /// `spec.run`.
    pub run: Vec<Field>,
}

impl Converted {
    /// The schedule as one object.
    pub(super) fn manifest(&self) -> Value {
        let object = |fields: &[Field]| -> Map<String, Value> {
            fields.iter().map(|field| (field.name.to_owned(), field.value.clone())).collect()
        };
        let mut spec = object(&self.spec);
        spec.insert("run".to_owned(), object(&self.run).into());
        json!({
            "apiVersion": "punctual.dev/v1alpha1",
            "kind": "MaintenanceSchedule",
            "metadata": self.metadata,
            "spec": spec,
        })
    }

    /// When it is due.
    pub(super) fn plan_input(&self) -> Result<PlanInput, Unconvertible> {
        PlanInput::from_manifest(&self.manifest()).map_err(|error| Unconvertible(error.to_string()))
    }
}

/// What a person may choose.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    /// Name of the schedule; that of the CronJob if absent.
    pub name: Option<String>,
    /// What happens when clocks change.
    pub dst_policy: DstPolicy,
}

/// Makes a schedule of a CronJob.
pub(super) fn convert(cron_job: &Value, choices: &Choices) -> Result<Converted, Unconvertible> {
    let kind = cron_job["kind"].as_str().unwrap_or_default();
    if kind != "CronJob" {
        return refuse(format!(
            "kind: is {kind:?}; `punctual convert` makes a schedule of a CronJob"
        ));
    }
    let spec = &cron_job["spec"];
    let job = &spec["jobTemplate"]["spec"];
    let mut notes = Vec::new();
    let metadata = metadata(cron_job, choices)?;
    let (schedule, zone) = timing(spec)?;
    let text = |field: &Field| field.value.as_str().unwrap_or_default().to_owned();
    let start = IntendedTime::floor(Timestamp::UNIX_EPOCH);
    let due = Schedule::parse(&text(&schedule), &text(&zone), choices.dst_policy, start)
        .map_err(|error| Unconvertible(error.to_string()))?;
    let mut fields = vec![schedule, zone];
    fields.extend(clock_changes(&due, choices.dst_policy));
    fields.extend(anchor(cron_job, &due));
    fields.extend(standing(spec));
    let run = run(job, &mut notes)?;
    if !spec["jobTemplate"]["metadata"].as_object().is_none_or(Map::is_empty) {
        notes.push(
            "Labels and annotations of jobTemplate.metadata are not carried over: the operator's \
             Jobs have its own. Those of the pod template are kept."
                .to_owned(),
        );
    }
    let converted = Converted { metadata, notes, spec: fields, run };
    converted.plan_input()?;
    Ok(converted)
}

fn metadata(cron_job: &Value, choices: &Choices) -> Result<Value, Unconvertible> {
    let of = &cron_job["metadata"];
    let Some(name) = choices.name.as_deref().or(of["name"].as_str()) else {
        return refuse(
            "metadata.name: is missing; give the CronJob one, or the schedule with --name",
        );
    };
    if name.len() > MAX_NAME {
        return refuse(format!(
            "metadata.name: {name:?} has {} characters and a schedule has at most \
             {MAX_NAME}; choose a shorter one with --name",
            name.len()
        ));
    }
    let mut metadata = Map::from_iter([("name".to_owned(), Value::from(name))]);
    if let Some(namespace) = of["namespace"].as_str() {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    for kept in ["labels", "annotations"] {
        let mut map = of[kept].as_object().cloned().unwrap_or_default();
        map.remove(LAST_APPLIED);
        if !map.is_empty() {
            metadata.insert(kept.to_owned(), map.into());
        }
    }
    Ok(metadata.into())
}

/// The expression, and the zone in which it is read.
fn timing(spec: &Value) -> Result<(Field, Field), Unconvertible> {
    let Some(text) = spec["schedule"].as_str() else {
        return refuse("spec.schedule: is missing; a CronJob has one");
    };
    let (written_in, expression) = split_zone(text)?;
    let schedule = Field { name: "schedule", value: expression.into(), comment: String::new() };
    let zone = |value: &str, comment: &str| Field {
        name: "timeZone",
        value: value.into(),
        comment: comment.to_owned(),
    };
    let zone = match (spec["timeZone"].as_str().filter(|zone| !zone.is_empty()), written_in) {
        (Some(given), _) => zone(given, ""),
        (None, Some(written)) => zone(
            written,
            "It stood in the expression of the CronJob. API servers refuse that in new CronJobs.",
        ),
        (None, None) => zone(
            DEFAULT_TIME_ZONE,
            "A CronJob without a zone is read in the zone of kube-controller-manager, which is \
             nearly always UTC. If yours is set to another, write that one.",
        ),
    };
    Ok((schedule, zone))
}

/// Parts `TZ=Europe/Berlin 0 2 * * *` into zone and expression.
fn split_zone(text: &str) -> Result<(Option<&str>, &str), Unconvertible> {
    let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok((None, text));
    };
    match rest.split_once(' ') {
        Some((zone, expression)) => Ok((Some(zone), expression.trim())),
        None => refuse(format!("spec.schedule: {text:?} names a zone and no time; add the fields")),
    }
}

/// What happens when clocks change, if the zone's do.
fn clock_changes(schedule: &Schedule, policy: DstPolicy) -> Option<Field> {
    let zone = schedule.zone().name();
    if zone == DEFAULT_TIME_ZONE || schedule.is_interval() {
        return None;
    }
    let (value, comment) = match policy {
        DstPolicy::CronJob => (
            "CronJob",
            "As a CronJob does: a time that clocks skip is not run, one that they repeat is run \
             twice. Once, the default of a schedule, runs each local time once.",
        ),
        DstPolicy::Once => (
            "Once",
            "Each local time runs once. A CronJob leaves out a time that clocks skip and runs one \
             that they repeat twice.",
        ),
    };
    let comment = format!("The clocks of {zone} may change. {comment}");
    Some(Field { name: "dstPolicy", value: value.into(), comment })
}

/// The start of the grid of `@every`.
fn anchor(cron_job: &Value, schedule: &Schedule) -> Option<Field> {
    if !schedule.is_interval() {
        return None;
    }
    let anchor = grid_start(cron_job)?;
    let comment =
        "A CronJob counts from its last run, or from its creation. A schedule has a grid that \
                   starts here and never moves; its instants are whole minutes."
            .to_owned();
    Some(Field { name: "anchor", value: IntendedTime::floor(anchor).to_string().into(), comment })
}

/// From when a CronJob counts the intervals of `@every`.
pub(super) fn grid_start(cron_job: &Value) -> Option<Timestamp> {
    let last = cron_job["status"]["lastScheduleTime"].as_str();
    last.or(cron_job["metadata"]["creationTimestamp"].as_str())?.parse().ok()
}

/// Concurrency, deadline, suspension, history.
fn standing(spec: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut add = |name, value: Value, comment: &str| {
        fields.push(Field { name, value, comment: comment.to_owned() });
    };
    let concurrency = spec["concurrencyPolicy"].as_str().unwrap_or("Allow");
    let comment = match concurrency {
        "Allow" => {
            "Two may run at once, as the CronJob allows. Forbid, the default of a schedule, skips an \
             instant that is due while an earlier one runs; for work that deletes that is the safer choice."
        }
        "Forbid" => {
            "A skipped instant is accounted for in status.skipped and is not run later. A CronJob \
             may still run it once the earlier Job is over, within its deadline."
        }
        _ => "The new one starts once the end of the running one is confirmed, not at once.",
    };
    add("concurrencyPolicy", concurrency.into(), comment);
    match spec["startingDeadlineSeconds"].as_i64() {
        Some(seconds @ ..10) => add(
            "startingDeadlineSeconds",
            seconds.max(0).into(),
            "A CronJob with less than 10 seconds may never run, because its controller looks every 10 \
             seconds. Here the deadline counts as it is.",
        ),
        Some(seconds) => add("startingDeadlineSeconds", seconds.into(), ""),
        None => add(
            "missedRuns",
            json!({"policy": "Latest"}),
            "Of instants that were missed the newest runs, as with a CronJob without a deadline; but \
             none that is older than 7 days.",
        ),
    }
    if spec["suspend"] == true {
        add(
            "suspend",
            true.into(),
            "Resuming runs none of the instants in between. A CronJob that is resumed may at once run \
             the newest that it missed.",
        );
    }
    let keep = |field: &str, default| spec[field].as_i64().unwrap_or(default).clamp(0, 1000);
    add(
        "retention",
        json!({
            "successful": keep("successfulJobsHistoryLimit", DEFAULT_HISTORY.0),
            "failed": keep("failedJobsHistoryLimit", DEFAULT_HISTORY.1),
        }),
        "What the CronJob keeps. `failed` counts cancelled and superseded ones too. An occurrence is \
         the record of what happened to its instant; the default of a schedule is 30 of each.",
    );
    fields
}

/// What each occurrence runs.
fn run(job: &Value, notes: &mut Vec<String>) -> Result<Vec<Field>, Unconvertible> {
    for (field, most) in [("parallelism", 1), ("completions", 1)] {
        if let Some(count) = job[field].as_i64().filter(|count| *count > most) {
            return refuse(format!(
                "spec.jobTemplate.spec.{field}: is {count}; a run is one pod. Start the others from \
                 within it, or keep this CronJob"
            ));
        }
    }
    let mut template = job["template"].clone();
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return refuse(
            "spec.jobTemplate.spec.template.spec: is missing; a CronJob has a pod to run",
        );
    };
    let restarts = pod.remove("restartPolicy").is_some_and(|policy| policy == "OnFailure");
    tidy_metadata(&mut template);
    for ignored in ["podFailurePolicy", "successPolicy", "managedBy", "ttlSecondsAfterFinished"] {
        if !job[ignored].is_null() {
            notes.push(format!(
                "{ignored} of the Job is not carried over: {}",
                if ignored == "ttlSecondsAfterFinished" {
                    "a Job is removed with its occurrence, which retention removes."
                } else {
                    "the operator writes the Job and decides what its end means."
                }
            ));
        }
    }
    let mut fields = vec![Field {
        name: "actionClass",
        value: "Fenced".into(),
        comment:
            "What it may do. Fenced, for work that must not run twice, such as deletes, is the \
                  default. ReadOnly lets an unknown outcome be repeated; the others wait as Unresolved."
                .to_owned(),
    }];
    fields.push(attempts(job, restarts));
    if let Some(seconds) = job["activeDeadlineSeconds"].as_i64() {
        fields.push(Field {
            name: "timeoutSeconds",
            value: seconds.into(),
            comment:
                "Of each attempt, from its start. activeDeadlineSeconds counts all attempts of a \
                      Job together."
                    .to_owned(),
        });
    }
    fields.push(Field {
        name: "job",
        value: json!({"template": template}),
        comment: String::new(),
    });
    Ok(fields)
}

/// Takes away what `kubectl get -o yaml` shows and nobody wrote.
fn tidy_metadata(template: &mut Value) {
    let Some(template) = template.as_object_mut() else { return };
    let Some(Value::Object(metadata)) = template.get_mut("metadata") else { return };
    metadata.remove("creationTimestamp");
    if metadata.is_empty() {
        template.remove("metadata");
    }
}

fn attempts(job: &Value, restarts: bool) -> Field {
    let limit = job["backoffLimit"].as_i64();
    let wanted = limit.unwrap_or(DEFAULT_BACKOFF_LIMIT).saturating_add(1);
    let given = wanted.clamp(1, MAX_ATTEMPTS);
    let mut comment = match limit {
        Some(limit) => format!("backoffLimit is {limit}: the first attempt and {limit} more."),
        None => format!(
            "A Job without backoffLimit has {DEFAULT_BACKOFF_LIMIT} more attempts after the first."
        ),
    };
    if given < wanted {
        let _ = write!(comment, " At most {MAX_ATTEMPTS} are possible."); // writing to a String cannot fail
    }
    comment += " The next attempt starts once the end of the one before is proven; work that must not be \
                repeated without a look has 1.";
    if restarts {
        comment += " restartPolicy was OnFailure; a run's container is not restarted, a new attempt is \
                    a new pod.";
    }
    Field { name: "maxAttempts", value: given.into(), comment }
}
