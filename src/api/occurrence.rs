//! `MaintenanceOccurrence`: one intended instant of a schedule and its one logical run.

use std::{borrow::Cow, collections::BTreeMap};

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{
    common::{Condition, Fence, Time},
    run::RunSpec,
};
use crate::time::IntendedTime;

/// One instant of a schedule: its identity, its run, its outcome.
///
/// The name is the identity, so two objects for one instant cannot exist. The operator creates
/// them; creating one by hand asks for a run of that instant.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "punctual.dev",
    version = "v1alpha1",
    kind = "MaintenanceOccurrence",
    plural = "maintenanceoccurrences",
    shortname = "mocc",
    category = "punctual",
    namespaced,
    status = "MaintenanceOccurrenceStatus",
    derive = "PartialEq",
    selectable = ".spec.scheduleName",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Intended", type_ = "string", json_path = ".spec.intendedTime"),
    printcolumn(name = "Late", type_ = "integer", json_path = ".status.latenessSeconds", description = "Seconds between the instant and the start"),
    printcolumn(name = "Attempt", type_ = "integer", json_path = ".status.attempt"),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".status.fence.epoch"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name == self.spec.scheduleName + '-' + self.spec.intendedTime.replace('-', '').replace('T', '').replace(':', '').substring(0, 12)").message(super::NAME_RULE_MESSAGE),
    validation = Rule::new("self.spec.scheduleName == oldSelf.spec.scheduleName && self.spec.intendedTime == oldSelf.spec.intendedTime && has(self.spec.scheduleUID) == has(oldSelf.spec.scheduleUID) && (!has(self.spec.scheduleUID) || self.spec.scheduleUID == oldSelf.spec.scheduleUID)").message("spec is immutable: scheduleName, intendedTime and scheduleUID are the identity; only cancel and resolution may change"),
    validation = Rule::new("has(self.spec.run) == has(oldSelf.spec.run) && (!has(self.spec.run) || has(self.spec.run.actionClass) == has(oldSelf.spec.run.actionClass) && (!has(self.spec.run.actionClass) || self.spec.run.actionClass == oldSelf.spec.run.actionClass) && has(self.spec.run.maxAttempts) == has(oldSelf.spec.run.maxAttempts) && (!has(self.spec.run.maxAttempts) || self.spec.run.maxAttempts == oldSelf.spec.run.maxAttempts) && has(self.spec.run.startTimeoutSeconds) == has(oldSelf.spec.run.startTimeoutSeconds) && (!has(self.spec.run.startTimeoutSeconds) || self.spec.run.startTimeoutSeconds == oldSelf.spec.run.startTimeoutSeconds) && has(self.spec.run.timeoutSeconds) == has(oldSelf.spec.run.timeoutSeconds) && (!has(self.spec.run.timeoutSeconds) || self.spec.run.timeoutSeconds == oldSelf.spec.run.timeoutSeconds) && has(self.spec.run.parameters) == has(oldSelf.spec.run.parameters) && (!has(self.spec.run.parameters) || self.spec.run.parameters == oldSelf.spec.run.parameters) && has(self.spec.run.job) == has(oldSelf.spec.run.job) && has(self.spec.run.http) == has(oldSelf.spec.run.http) && (!has(self.spec.run.http) || self.spec.run.http == oldSelf.spec.run.http) && has(self.spec.run.simulated) == has(oldSelf.spec.run.simulated) && (!has(self.spec.run.simulated) || self.spec.run.simulated == oldSelf.spec.run.simulated))").message("spec.run is immutable; to run something else, trigger another instant"),
    validation = Rule::new("!has(oldSelf.spec.cancel) || !oldSelf.spec.cancel || (has(self.spec.cancel) && self.spec.cancel)").message("spec.cancel cannot be taken back; trigger another instant instead"),
    validation = Rule::new(super::FENCE_RULE).message(super::FENCE_MESSAGE).reason(Reason::FieldValueForbidden),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.id) || (has(self.status) && has(self.status.id) && self.status.id == oldSelf.status.id)").message("status.id is the identity and never changes").reason(Reason::FieldValueForbidden),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.state) || !(oldSelf.status.state in ['Succeeded', 'Failed', 'Cancelled', 'Skipped', 'Superseded']) || (has(self.status) && has(self.status.state) && self.status.state == oldSelf.status.state && has(self.status.reason) == has(oldSelf.status.reason) && (!has(self.status.reason) || self.status.reason == oldSelf.status.reason) && has(self.status.result) == has(oldSelf.status.result) && (!has(self.status.result) || self.status.result == oldSelf.status.result))").message("a terminal outcome never changes: status.state, reason and result are final").reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceOccurrenceSpec {
    /// The schedule this is an instant of.
    #[schemars(length(min = 1, max = 40), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub schedule_name: String,
    /// The instant: UTC, whole minutes, for example 2026-11-29T02:00:00Z.
    #[x_kube(validation = Rule::new("timestamp(self) == timestamp(self)").message("must be an existing minute in UTC, written like 2026-11-29T02:00:00Z"))]
    pub intended_time: IntendedTime,
    /// Uid of the schedule that created it; set by the operator, absent on hand-made ones.
    #[serde(rename = "scheduleUID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub schedule_uid: Option<String>,
    /// What it runs; set by the operator. A hand-made one whose schedule exists has none and uses its schedule's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSpec>,
    /// Cancels it, for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
    /// A person's decision about an attempt whose outcome nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
}

/// A person's decision about an Unresolved attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// Number of the attempt it decides.
    #[schemars(range(min = 1, max = 64))]
    pub attempt: i32,
    /// `Succeeded` and `Failed` are final; `Retry` starts another attempt.
    pub decision: ResolutionDecision,
    /// Why.
    #[schemars(length(min = 1, max = 256))]
    pub reason: String,
    /// For `Retry` when the provider cannot prove that the old run is over: accept that it may run twice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_duplicate: bool,
}

/// What the person decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResolutionDecision {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// Run it again.
    Retry,
}

/// State of an occurrence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum OccurrenceState {
    /// Waits for its instant, its claim or its turn.
    Pending,
    /// Being prepared and released.
    Starting,
    /// Its run was seen started.
    Running,
    /// Being cancelled; the provider has not confirmed.
    Cancelling,
    /// Nobody knows how its run ended; it waits for the provider or a person. Not terminal.
    Unresolved,
    /// Terminal: it ran and succeeded.
    Succeeded,
    /// Terminal: it failed.
    Failed,
    /// Terminal: it was cancelled.
    Cancelled,
    /// Terminal: it was not run; the reason says why.
    Skipped,
    /// Terminal: it was not run, because a newer decision took its place.
    Superseded,
}

impl OccurrenceState {
    /// Whether nothing more will happen.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Pending
            | Self::Starting
            | Self::Running
            | Self::Cancelling
            | Self::Unresolved => false,
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::Skipped | Self::Superseded => {
                true
            }
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttemptOutcome {
    /// With success.
    Succeeded,
    /// With failure.
    Failed,
    /// Cancelled, proven over.
    Cancelled,
    /// Nobody knows; not final.
    Unknown,
}

/// The pod that ran an attempt, and the node it ran on: what proves later that it is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodRef {
    /// Uid of the pod.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// Name of its node, if bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// Uid of that node.
    #[serde(rename = "nodeUID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_uid: Option<String>,
}

/// One attempt: a committed handle and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Counted from 1.
    #[schemars(range(min = 1, max = 64))]
    pub number: i32,
    /// Key by which the provider knows the run.
    #[schemars(length(max = 64))]
    pub run_key: String,
    /// What was committed, for example the Job's uid. Only this can be released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub handle: Option<String>,
    /// The pod, once bound to a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// Epoch of the term that committed it.
    pub epoch: i64,
    /// When the handle was committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_time: Option<Time>,
    /// When the leader saw it released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_time: Option<Time>,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When it was first asked to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_requested_time: Option<Time>,
    /// Why it was asked to stop: becomes the reason of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub stop_reason: Option<String>,
    /// Since when the provider gives no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since_time: Option<Time>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<AttemptOutcome>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,
}

/// A value of a result: an integer or a short text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResultValue {
    /// A number.
    Integer(i64),
    /// A text.
    Text(String),
}

impl JsonSchema for ResultValue {
    fn schema_name() -> Cow<'static, str> {
        "ResultValue".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true, "maxLength": 256})
    }
}

/// What the operator decided and saw. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceOccurrenceStatus {
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<OccurrenceState>,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// The identity for systems outside the cluster: 32 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub id: Option<String>,
    /// Number of the newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i32>,
    /// The attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub attempts: Vec<Attempt>,
    /// What the run reported: at most 32 short texts or integers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    pub result: Option<BTreeMap<String, ResultValue>>,
    /// The run as it was when it was sealed first; used from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSpec>,
    /// Seconds between the instant and the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_seconds: Option<i64>,
    /// When a failed attempt is followed by the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_time: Option<Time>,
    /// Who wrote last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// `Accepted`, `Running`, `Finished`, and at the end exactly one of `Complete` and `Failed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
