//! `MaintenanceSchedule`: when maintenance is due and what it runs.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    common::{Condition, Fence, Time},
    rules::{
        FENCE_MESSAGE, FENCE_RULE, INSTANT_MESSAGE, INSTANT_RULE, NO_ZONE_MESSAGE, NO_ZONE_RULE,
        SCHEDULE_NAME_MESSAGE, SCHEDULE_NAME_RULE,
    },
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

/// When maintenance is due and what it runs.
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
    doc = "Maintenance that is due at the instants of a cron expression. Each instant has one identity, one MaintenanceOccurrence and one logical run, whichever replica of the operator leads.",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.timeZone"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason", description = "Why it works or does not, in one word"),
    printcolumn(name = "Last", type_ = "string", json_path = ".status.lastScheduleTime", description = "The newest instant that was decided"),
    printcolumn(name = "Late", type_ = "integer", json_path = ".status.latenessSeconds", description = "Seconds between the newest started instant and its start"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextScheduleTime", description = "The next instant"),
    printcolumn(name = "Active", type_ = "integer", json_path = ".status.active", description = "Occurrences that are started and not over"),
    printcolumn(name = "Concurrency", type_ = "string", json_path = ".spec.concurrencyPolicy", priority = 1),
    printcolumn(name = "Note", type_ = "string", json_path = ".spec.suspendReason", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(SCHEDULE_NAME_RULE).message(SCHEDULE_NAME_MESSAGE),
    validation = Rule::new(FENCE_RULE).message(FENCE_MESSAGE).field_path(".status.fence").reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceScheduleSpec {
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
    /// Whether new instants are skipped, with reason Suspended. Touches no occurrence that exists, and resuming
    /// runs none of the instants that were skipped.
    #[serde(default)]
    pub suspend: bool,
    /// A note for people on why it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub suspend_reason: Option<String>,
    /// When a suspended schedule resumes by itself. Without it, it stays suspended until `suspend` is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_until_time: Option<Time>,
    /// What happens when an instant is due while an earlier occurrence runs. Forbid (default): the instant is
    /// skipped for good. Allow: both run. Replace: the running one is cancelled first. Enqueue: it waits. The default
    /// of a CronJob is Allow.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Seconds after the instant within which its occurrence must start. Later it is skipped, with reason Deadline.
    /// Without it there is no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens to instants that were missed, because nothing could run them within 60 seconds.
    #[serde(default)]
    pub missed_runs: MissedRuns,
    /// Delays starts, so that many schedules that are due at one instant do not start together.
    #[serde(default)]
    pub spread: Spread,
    /// How many finished occurrences are kept, and for how long.
    #[serde(default)]
    pub retention: Retention,
    /// A person's word that the runs of deleted occurrences are over, although nobody can prove it. Frees their
    /// claims in `status.claimed`, and with them the place that later instants wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["uid"]))]
    pub abandon: Vec<Abandoned>,
    /// What each occurrence runs. An edit affects instants that are not yet claimed.
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
    /// Latest (default): the newest due or missed instant runs. All: the newest `limit` of them run, one after another
    /// in a maintenance schedule whose concurrencyPolicy is not Allow. None: only what is due runs. An instant is due
    /// for 60 seconds. Every instant that does not run is accounted for in `status.skipped`. Instants older than 7
    /// days never run.
    #[serde(default)]
    pub policy: MissedRunsPolicy,
    /// Most instants, due and missed together, that policy All runs, and most that wait at a time under a maintenance
    /// schedule's concurrencyPolicy Enqueue. Default: 10.
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
    /// A start is delayed by 0 to this many seconds, chosen by a hash of the identity and so always the same. The
    /// identity and the lateness keep the intended instant; the deadline counts from the delayed start. Default: 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86400))]
    pub window_seconds: i32,
}

/// How many finished occurrences or report jobs are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// How many successful ones are kept. Default: 30.
    #[serde(default = "thirty")]
    #[schemars(range(min = 0, max = 1000))]
    pub successful: i32,
    /// How many others are kept: failed, cancelled, and what did not run. Default: 30.
    #[serde(default = "thirty")]
    #[schemars(range(min = 0, max = 1000))]
    pub failed: i32,
    /// Days after which a finished one is removed in any case. Default: 90.
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
    /// Uid of the deleted object, as in `status.claimed` of a schedule or `status.ledger.entries` of a queue.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
    /// How the person knows that its runs are over.
    #[schemars(length(min = 1, max = 256))]
    pub reason: String,
}

/// Whether the schedule works. Active: instants run when due. Suspended: instants are skipped. Invalid: the spec cannot
/// be used; the condition Ready says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScheduleState {
    /// Instants run when due.
    Active,
    /// Instants are skipped until it is resumed.
    Suspended,
    /// The spec cannot be used; the condition Ready says why.
    Invalid,
}

/// A promise: this occurrence or report job runs (`start`) or waits for its turn.
///
/// Recorded in one write with the decision; an object starts only while its uid is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The intended instant.
    pub time: IntendedTime,
    /// Whether it may start.
    pub start: bool,
    /// Whether what runs is cancelled to make room for it (`Replace`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// Uid of the occurrence or report job.
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
    /// `spec.suspendUntilTime`, while suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_until_time: Option<Time>,
}

/// What the operator decided and saw. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceScheduleStatus {
    /// Whether the schedule works, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ScheduleState>,
    /// The next instant. Absent if there is none, or while suspended without an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<IntendedTime>,
    /// The newest instant that was decided: it was run, or skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<IntendedTime>,
    /// Seconds between the newest started instant and the start of its occurrence or report job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_seconds: Option<i64>,
    /// How many occurrences or report jobs are started and not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<i32>,
    /// Occurrences or report jobs that are started and not over, or that wait to start. Only these are ever started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub claimed: Vec<Claim>,
    /// From when the present timing counts: no instant before it is ever run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_time: Option<Time>,
    /// Since when it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_time: Option<Time>,
    /// The timing fields that were last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Records of instants up to this one may have been removed by retention; they are never run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned_through: Option<IntendedTime>,
    /// The last 20 ranges of instants that were not run, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub skipped: Vec<SkippedRange>,
    /// How many instants were not run since the schedule exists, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub skipped_total: BTreeMap<String, i64>,
    /// Version of the time zone database that the instants were computed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tzdb_version: Option<String>,
    /// Term of the leader that wrote last. The API server refuses writes of older terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// Ready: the spec can be used and instants run. Accepted: the API server and the provider accept the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
