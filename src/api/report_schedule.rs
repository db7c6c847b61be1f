//! `ReportSchedule`: when reports are due. Its semantics are those of `MaintenanceSchedule`.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{
    common::Time,
    parameters::Parameters,
    report_job::ArtifactPolicy,
    report_rules::REPORT_SCHEDULE_NAME_MESSAGE,
    rules::{
        FENCE_MESSAGE, FENCE_RULE, INSTANT_MESSAGE, INSTANT_RULE, NO_ZONE_MESSAGE, NO_ZONE_RULE,
        PARAMETERS_MESSAGE, PARAMETERS_RULE, SCHEDULE_NAME_RULE,
    },
    run::{RunSpec, parameters_schema},
    schedule::{Abandoned, MaintenanceScheduleStatus, MissedRuns, Retention, Spread},
};
use crate::time::{IntendedTime, plan::DstPolicy};

/// When reports are due and what they are.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "punctual.dev",
    version = "v1alpha1",
    kind = "ReportSchedule",
    plural = "reportschedules",
    shortname = "rsched",
    category = "punctual",
    namespaced,
    status = "MaintenanceScheduleStatus",
    derive = "PartialEq",
    doc = "Reports that are due at the instants of a cron expression. Each instant has one identity and one ReportJob, which its queue admits when its turn comes.",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.timeZone"),
    printcolumn(name = "Queue", type_ = "string", json_path = ".spec.jobTemplate.spec.queueName"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason", description = "Why it works or does not, in one word"),
    printcolumn(name = "Last", type_ = "string", json_path = ".status.lastScheduleTime", description = "The newest instant that was decided"),
    printcolumn(name = "Late", type_ = "integer", json_path = ".status.latenessSeconds", description = "Seconds between the newest started instant and its start, the wait in its queue included"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextScheduleTime", description = "The next instant"),
    printcolumn(name = "Active", type_ = "integer", json_path = ".status.active", description = "Report jobs that are not over"),
    printcolumn(name = "Note", type_ = "string", json_path = ".spec.suspendReason", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(SCHEDULE_NAME_RULE).message(REPORT_SCHEDULE_NAME_MESSAGE),
    validation = Rule::new(FENCE_RULE).message(FENCE_MESSAGE).field_path(".status.fence").reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct ReportScheduleSpec {
    /// Cron expression, as in a CronJob: five fields (minute, hour, day of month, month, day of week), names such as
    /// MON or JAN, or one of @hourly, @daily, @weekly, @monthly, @yearly, or `@every 90m`. Sunday is 0, not 7.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new(NO_ZONE_RULE).message(NO_ZONE_MESSAGE))]
    pub schedule: String,
    /// IANA time zone in which the expression is read, spelt exactly, for example Europe/Berlin. Default: UTC.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
    /// What happens when clocks change. Once (default): every local time runs once; one that does not exist runs
    /// at the end of the gap, one that exists twice runs at the first. CronJob: as a CronJob does, skipped in a gap
    /// and run twice in an overlap.
    #[serde(default)]
    pub dst_policy: DstPolicy,
    /// Start of the grid of `@every`, for example 2026-01-01T00:00:00Z. Default: the creation time, cut to the
    /// minute. Other expressions do not use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(INSTANT_RULE).message(INSTANT_MESSAGE))]
    pub anchor: Option<IntendedTime>,
    /// Whether new instants are skipped, with reason Suspended. Touches no job that exists, and resuming runs none of
    /// the instants that were skipped.
    #[serde(default)]
    pub suspend: bool,
    /// A note for people on why it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub suspend_reason: Option<String>,
    /// When a suspended schedule resumes by itself. Without it, it stays suspended until `suspend` is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_until_time: Option<Time>,
    /// Seconds after the instant within which its job must be created. Later it is skipped, with reason Deadline.
    /// Without it there is no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens to instants that were missed, because nothing could run them within 60 seconds.
    #[serde(default)]
    pub missed_runs: MissedRuns,
    /// Delays jobs, so that many schedules that are due at one instant do not start together.
    #[serde(default)]
    pub spread: Spread,
    /// How many finished jobs are kept, and for how long.
    #[serde(default)]
    pub retention: Retention,
    /// A person's word that the runs of deleted jobs are over, although nobody can prove it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["uid"]))]
    pub abandon: Vec<Abandoned>,
    /// The job that each instant makes. An edit affects instants that are not yet claimed.
    pub job_template: ReportJobTemplate,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// The job that an instant makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
pub struct ReportJobTemplate {
    /// Labels and annotations of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ReportJobTemplateMeta>,
    /// What is to be reported, and for whom.
    pub spec: ReportJobTemplateSpec,
}

/// Labels and annotations of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ReportJobTemplateMeta {
    /// Labels. Those of punctual.dev are set by the operator.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "parameters")]
    pub labels: BTreeMap<String, String>,
    /// Annotations. Those of punctual.dev are set by the operator.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "parameters")]
    pub annotations: BTreeMap<String, String>,
}

/// What is to be reported: the spec of a ReportJob without what only a job has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportJobTemplateSpec {
    /// Name of the ReportQueue that admits it, in the same namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub queue_name: String,
    /// For whom it is. Slots are shared fairly between tenants.
    #[schemars(
        length(min = 1, max = 40),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub tenant: String,
    /// Order within the tenant: a higher one starts first. Default: 0.
    #[serde(default)]
    #[schemars(range(min = -1000, max = 1000))]
    pub priority: i32,
    /// Strings given to the run, merged over `run.parameters`. At most 64 entries and 8192 bytes in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parameters")]
    #[x_kube(validation = Rule::new(PARAMETERS_RULE).message(PARAMETERS_MESSAGE))]
    pub parameters: Option<Parameters>,
    /// About how many seconds of one slot it takes. Default: 60.
    #[serde(default = "sixty")]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub estimate_seconds: i32,
    /// Seconds from its creation within which it must be admitted for the first time. Without it there is no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_536_000))]
    pub queue_deadline_seconds: Option<i64>,
    /// Whether success without an artifact is success. Optional (default): it is. Required: it is not.
    #[serde(default)]
    pub artifact: ArtifactPolicy,
    /// What it runs. Without it, the `runTemplate` of its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSpec>,
}

fn sixty() -> i32 {
    60
}

fn parameters(generator: &mut SchemaGenerator) -> Schema {
    parameters_schema(generator)
}
