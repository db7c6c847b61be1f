//! `MaintenanceSchedule`: when maintenance is due and what it runs.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    common::{Condition, Fence, Time},
    run::{ActionClass, HttpRun, RunSpec},
};
use crate::time::{
    IntendedTime,
    plan::{DstPolicy, MissedRunsPolicy, SkippedRange},
};

/// Most claims at once: what is started and not over, or waits to start. Beyond that an instant is
/// Concurrent under every policy; 256 claims of 300 bytes stay far below the size of an object.
pub const MAX_CLAIMS: usize = 256;
/// Most ranges of skipped instants that are kept, the newest.
pub const MAX_SKIPPED_RANGES: usize = 20;

/// Maintenance that is due at the instants of a cron expression.
///
/// Each instant has one identity, one MaintenanceOccurrence and one logical run, whoever leads.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "punctual.dev",
    version = "v1alpha1",
    kind = "MaintenanceSchedule",
    plural = "maintenanceschedules",
    shortname = "msched",
    category = "punctual",
    namespaced,
    status = "MaintenanceScheduleStatus",
    derive = "PartialEq",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.timeZone"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Last", type_ = "string", json_path = ".status.lastScheduleTime"),
    printcolumn(name = "Late", type_ = "integer", json_path = ".status.latenessSeconds", description = "Seconds between the last instant and the start of its occurrence"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextScheduleTime"),
    printcolumn(name = "Active", type_ = "integer", json_path = ".status.active"),
    printcolumn(name = "Why", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 40").message("metadata.name of a MaintenanceSchedule has at most 40 characters, so that its occurrences, attempts and pods stay within 63"),
    validation = Rule::new(super::FENCE_RULE).message(super::FENCE_MESSAGE).reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceScheduleSpec {
    /// Cron expression as in a CronJob: five fields, names, `@daily` and the like, `@every 90m`. Sunday is 0.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("!self.contains('TZ=')").message("write the zone into spec.timeZone, not as TZ= or CRON_TZ= into spec.schedule"))]
    pub schedule: String,
    /// IANA time zone, spelt exactly, for example `Europe/Berlin`.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
    /// What happens when clocks change. `Once`: every local time runs once; one that does not exist runs
    /// at the end of the gap. `CronJob`: as a CronJob does, skipped in a gap and run twice in an overlap.
    #[serde(default)]
    pub dst_policy: DstPolicy,
    /// Start of the grid of `@every`. Default: the creation time, cut to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("timestamp(self) == timestamp(self)").message("must be an existing minute in UTC, written like 2026-01-01T00:00:00Z"))]
    pub anchor: Option<IntendedTime>,
    /// Whether new instants are skipped. Touches no occurrence that exists.
    #[serde(default)]
    pub suspend: bool,
    /// A note on why it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub suspend_reason: Option<String>,
    /// When a suspended schedule resumes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_until_time: Option<Time>,
    /// What happens when an instant is due while an earlier occurrence runs. `Allow`: both run. `Forbid`:
    /// the instant is skipped for good. `Replace`: the running one is cancelled first. `Enqueue`: it waits.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Seconds after the instant within which it must start; later it is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens to instants that were missed, because nothing could run them in time.
    #[serde(default)]
    pub missed_runs: MissedRuns,
    /// Spreads the starts of many schedules that are due at once.
    #[serde(default)]
    pub spread: Spread,
    /// How many finished occurrences are kept.
    #[serde(default)]
    pub retention: Retention,
    /// A person's word that the runs of deleted occurrences are over; frees their claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub abandon: Vec<Abandoned>,
    /// What each occurrence runs.
    pub run: RunSpec,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// What happens when an instant is due while an earlier occurrence of the schedule runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// All run.
    Allow,
    /// The instant is skipped, for good.
    #[default]
    Forbid,
    /// The running one is cancelled; the new one starts when that is confirmed.
    Replace,
    /// The instant waits; at most `missedRuns.limit` wait.
    Enqueue,
}

/// What happens to missed instants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct MissedRuns {
    /// `Latest`: only the newest runs. `All`: the newest `limit` run. `None`: only what is due runs.
    #[serde(default)]
    pub policy: MissedRunsPolicy,
    /// Most instants that `All` catches up and that `Enqueue` lets wait.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: i32,
}

impl Default for MissedRuns {
    fn default() -> Self {
        Self { policy: MissedRunsPolicy::default(), limit: ten() }
    }
}

fn ten() -> i32 {
    10
}

/// Spreads starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The start is delayed by up to this many seconds, by a hash of the identity.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86400))]
    pub window_seconds: i32,
}

/// How many finished occurrences are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// Successful ones.
    #[serde(default = "thirty")]
    #[schemars(range(min = 0, max = 1000))]
    pub successful: i32,
    /// All others.
    #[serde(default = "thirty")]
    #[schemars(range(min = 0, max = 1000))]
    pub failed: i32,
    /// Days after which any finished one is removed.
    #[serde(default = "ninety")]
    #[schemars(range(min = 1, max = 3650))]
    pub max_age_days: i32,
}

impl Default for Retention {
    fn default() -> Self {
        Self { successful: thirty(), failed: thirty(), max_age_days: ninety() }
    }
}

fn thirty() -> i32 {
    30
}

fn ninety() -> i32 {
    90
}

/// A deleted object whose runs a person declares over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Abandoned {
    /// Its uid.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
    /// Why the person knows.
    #[schemars(length(min = 1, max = 256))]
    pub reason: String,
}

/// Whether a schedule works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScheduleState {
    /// Instants run when due.
    Active,
    /// Instants are skipped until it is resumed.
    Suspended,
    /// The spec cannot be used; the condition Ready says why.
    Invalid,
}

/// A promise: this occurrence runs (`start`) or waits for its turn.
///
/// Recorded in one write with the decision; an occurrence starts only while its uid is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The intended instant.
    pub time: IntendedTime,
    /// Whether it may start.
    pub start: bool,
    /// Uid of the occurrence.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
    /// Key of its first run, by which a provider knows it when the object is gone.
    #[schemars(length(max = 64))]
    pub run_key: String,
    /// Its action class.
    pub action_class: ActionClass,
    /// Its http provider, to ask it when the object is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRun>,
}

/// The timing fields that the operator last acted on; an edit is seen by comparison with them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Uid of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uid: Option<String>,
    /// `spec.schedule`.
    #[schemars(length(max = 256))]
    pub schedule: String,
    /// `spec.timeZone`.
    #[serde(default = "utc")]
    #[schemars(length(max = 64))]
    pub time_zone: String,
    /// `spec.dstPolicy`.
    #[serde(default)]
    pub dst_policy: DstPolicy,
    /// `spec.anchor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<IntendedTime>,
}

/// What the operator decided and saw. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceScheduleStatus {
    /// Whether the schedule works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ScheduleState>,
    /// The next instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<IntendedTime>,
    /// The newest instant that was decided (run or skipped).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<IntendedTime>,
    /// Seconds between the newest started instant and its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_seconds: Option<i64>,
    /// How many occurrences are started and not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<i32>,
    /// What is started and not over, or waits to start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub claimed: Vec<Claim>,
    /// No instant before this moment is ever run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_time: Option<Time>,
    /// Since when it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_time: Option<Time>,
    /// The timing fields last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Records of instants up to this one may have been removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned_through: Option<IntendedTime>,
    /// The last ranges of instants that were not run, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub skipped: Vec<SkippedRange>,
    /// How many instants were not run, by reason, in all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub skipped_total: BTreeMap<String, i64>,
    /// Version of the time zone database that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tzdb_version: Option<String>,
    /// Who wrote last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// `Ready`: the spec can be used. `Accepted`: the API server accepts the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
