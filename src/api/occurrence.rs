//! `MaintenanceOccurrence`: one intended instant of a schedule and its one logical run.

use std::{borrow::Cow, collections::BTreeMap};

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{
    common::{Condition, Fence, Time},
    rules::{
        CANCEL_MESSAGE, CANCEL_RULE, FENCE_MESSAGE, FENCE_RULE, ID_MESSAGE, ID_RULE,
        IDENTITY_MESSAGE, IDENTITY_RULE, INSTANT_MESSAGE, INSTANT_RULE, NAME_RULE,
        NAME_RULE_MESSAGE, RUN_MESSAGE, RUN_RULE, TERMINAL_MESSAGE, TERMINAL_RULE,
    },
    run::RunSpec,
};
use crate::time::IntendedTime;

/// The identity of the occurrence, and what people may ask of it. Immutable, except for `cancel` and `resolution`.
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
    doc = "One instant of a MaintenanceSchedule: its identity, its one logical run, its outcome. The name is the identity, so two objects for one instant cannot exist. The operator creates them when they are due; creating one by hand asks for a run of that instant.",
    selectable = ".spec.scheduleName",
    selectable = ".status.state",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Intended", type_ = "string", json_path = ".spec.intendedTime"),
    printcolumn(name = "Late", type_ = "integer", json_path = ".status.latenessSeconds", description = "Seconds between the instant and the start"),
    printcolumn(name = "Attempt", type_ = "integer", json_path = ".status.attempt"),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".status.fence.epoch", description = "Epoch of the term that wrote last"),
    printcolumn(name = "Id", type_ = "string", json_path = ".status.id", priority = 1, description = "Identity for systems outside the cluster"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(NAME_RULE).message(NAME_RULE_MESSAGE),
    validation = Rule::new(IDENTITY_RULE).message(IDENTITY_MESSAGE).field_path(".spec").reason(Reason::FieldValueForbidden),
    validation = Rule::new(RUN_RULE).message(RUN_MESSAGE).field_path(".spec.run").reason(Reason::FieldValueForbidden),
    validation = Rule::new(CANCEL_RULE).message(CANCEL_MESSAGE).field_path(".spec.cancel").reason(Reason::FieldValueForbidden),
    validation = Rule::new(FENCE_RULE).message(FENCE_MESSAGE).field_path(".status.fence").reason(Reason::FieldValueForbidden),
    validation = Rule::new(ID_RULE).message(ID_MESSAGE).field_path(".status.id").reason(Reason::FieldValueForbidden),
    validation = Rule::new(TERMINAL_RULE).message(TERMINAL_MESSAGE).field_path(".status.state").reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceOccurrenceSpec {
    /// Name of the schedule this is an instant of, in the same namespace. Immutable.
    #[schemars(length(min = 1, max = 40), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub schedule_name: String,
    /// The intended instant: UTC, whole minutes, for example 2026-11-29T02:00:00Z. Never the time of creation or
    /// start. The object's name is `<scheduleName>-<YYYYMMDDHHMM>` of this instant. Immutable.
    #[x_kube(validation = Rule::new(INSTANT_RULE).message(INSTANT_MESSAGE))]
    pub intended_time: IntendedTime,
    /// Uid of the schedule it was created for. Set by the operator, absent on hand-made ones. Immutable.
    #[serde(rename = "scheduleUID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub schedule_uid: Option<String>,
    /// What it runs. Copied from the schedule by the operator. A hand-made one whose schedule exists has none and uses
    /// its schedule's; one without a schedule brings its own. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSpec>,
    /// Cancels the occurrence. Cannot be taken back. It is Cancelled once its run is proven over. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
    /// A person's decision about an attempt whose outcome nobody knows. Has an effect only while that attempt is
    /// Unresolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
}

/// A person's decision about an Unresolved attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// Number of the attempt it decides, as in `status.attempts`.
    #[schemars(range(min = 1, max = 64))]
    pub attempt: i32,
    /// Succeeded and Failed are final, and the person's word counts as proof. Retry cancels the old run, waits until it
    /// is gone, and starts another attempt.
    pub decision: ResolutionDecision,
    /// How the person knows. Kept with the attempt.
    #[schemars(length(min = 1, max = 256))]
    pub reason: String,
    /// For Retry, when nobody can prove that the old run is over: accept that the work may run twice. Default: false.
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

/// Where it stands: Pending, Starting, Running, Cancelling, Unresolved, or one of the terminal states Succeeded, Failed,
/// Cancelled, Skipped, Superseded, which never change. Unresolved means that nobody knows how the run ended; it waits for
/// the provider or for a person (`spec.resolution`).
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

/// How the attempt ended. Absent while it has not ended. Unknown is not final.
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
    /// Key by which the provider knows the run: `<id>-m<number>` for maintenance, `<id>-r<number>` for reports, and
    /// `<id>-<8 hex digits>-r<number>` for a report that a client named.
    #[schemars(length(max = 64))]
    pub run_key: String,
    /// What was committed: the Job's uid, or what the execution service gave. Only this can be released.
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
    /// When it was seen to have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When it was first asked to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_requested_time: Option<Time>,
    /// Why it was asked to stop: becomes the reason of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub stop_reason: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<AttemptOutcome>,
    /// Why it ended so, in one word, for example ExitCode, Evicted, OOMKilled, NeverStarted, DeadlineExceeded.
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
    /// The identity for systems outside the cluster: 32 hex digits, a hash of namespace, schedule and instant.
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
    /// The run as it was when the operator first decided about it; used from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSpec>,
    /// Seconds between the intended instant and the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_seconds: Option<i64>,
    /// When the next attempt starts, after one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_time: Option<Time>,
    /// Term of the leader that wrote last. The API server refuses writes of older terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// Accepted, Running, Finished, and at the end exactly one of Complete and Failed. Every end but success sets
    /// Failed, so that `kubectl wait` never hangs. Unresolved is there once nobody knew how the run ended, and True
    /// while that is so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
