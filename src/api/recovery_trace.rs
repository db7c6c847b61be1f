//! `RecoveryTrace`: what a new leader found and took over.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    common::{Condition, Fence, Time},
    rules::{
        FENCE_MESSAGE, FENCE_RULE, TRACE_FINAL_MESSAGE, TRACE_FINAL_RULE, TRACE_NAME_MESSAGE,
        TRACE_NAME_RULE, TRACE_SPEC_MESSAGE, TRACE_SPEC_RULE, TRACE_TERM_MESSAGE, TRACE_TERM_RULE,
    },
};

/// Longest name of a Lease, so that `<lease>-<epoch>` stays within the 253 characters of a name.
pub const MAX_LEASE_NAME: usize = 233;
/// Most uncertain items that one trace lists; all are counted. Each has at most 1.5 kB, so a trace
/// stays far below what the API server takes.
pub const MAX_TRACE_ITEMS: usize = 64;
/// Most paused objects that one trace lists.
pub const MAX_TRACE_PAUSED: usize = 64;

/// Which term this is the record of. Immutable.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "punctual.dev",
    version = "v1alpha1",
    kind = "RecoveryTrace",
    plural = "recoverytraces",
    shortname = "rtrace",
    category = "punctual",
    namespaced,
    status = "RecoveryTraceStatus",
    derive = "PartialEq",
    doc = "The record of one takeover: what a new leader found when its term began, and what it knew of each piece of work when recovery was complete. The operator creates one for each term, beside its Lease, and keeps the last 20. One without a completion time was not completed: recovery is under way, or the term ended before.",
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".spec.epoch", description = "Epoch of the term"),
    printcolumn(name = "Holder", type_ = "string", json_path = ".spec.holder", description = "Who leads in this term, as the Lease says"),
    printcolumn(name = "Gained", type_ = "string", json_path = ".spec.gained", description = "How leadership was gained"),
    printcolumn(name = "Resumed", type_ = "integer", json_path = ".status.resumed", description = "Items of which nothing was running"),
    printcolumn(name = "Reconciled", type_ = "integer", json_path = ".status.reconciled", description = "Items whose provider was asked and answered"),
    printcolumn(name = "Preserved", type_ = "integer", json_path = ".status.preserved", description = "Items that were over"),
    printcolumn(name = "Uncertain", type_ = "integer", json_path = ".status.uncertain", description = "Items of which nobody could say how they stand"),
    printcolumn(name = "Duration", type_ = "string", json_path = ".status.duration", description = "From the beginning of the term until every item was accounted for"),
    printcolumn(name = "Former", type_ = "string", json_path = ".spec.formerHolder", priority = 1, description = "Who held the Lease before"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(TRACE_NAME_RULE).message(TRACE_NAME_MESSAGE),
    validation = Rule::new(TRACE_SPEC_RULE).message(TRACE_SPEC_MESSAGE).field_path(".spec").reason(Reason::FieldValueForbidden),
    validation = Rule::new(FENCE_RULE).message(FENCE_MESSAGE).field_path(".status.fence").reason(Reason::FieldValueForbidden),
    validation = Rule::new(TRACE_TERM_RULE).message(TRACE_TERM_MESSAGE).field_path(".status.fence").reason(Reason::FieldValueForbidden),
    validation = Rule::new(TRACE_FINAL_RULE).message(TRACE_FINAL_MESSAGE).field_path(".status").reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryTraceSpec {
    /// Name of the Lease. The trace's own name is `<leaseName>-<epoch>`.
    #[schemars(length(min = 1, max = 233), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub lease_name: String,
    /// Epoch of the term: the fencing token that everything written in it carries.
    #[schemars(range(min = 1))]
    pub epoch: i64,
    /// Who leads in this term, as the Lease says: `<pod>/<nonce>`.
    #[schemars(length(min = 1, max = 320))]
    pub holder: String,
    /// Who held the Lease before. Absent if nobody did, or if it was given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 320))]
    pub former_holder: Option<String>,
    /// How leadership was gained.
    pub gained: LeadershipGained,
}

/// How leadership was gained: Released (the holder gave the Lease back), Expired (the holder had been silent for too
/// long), LeaseDeleted (the Lease had been deleted), First (nobody had held it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LeadershipGained {
    /// The holder gave it back.
    Released,
    /// The holder had not renewed it for long enough.
    Expired,
    /// The Lease had been deleted.
    LeaseDeleted,
    /// Nobody had held it.
    First,
}

/// What a new leader knows of a piece of work that it found: Resumed (ownership follows from its durable identity;
/// nothing was running), Reconciled (the provider was asked and answered, also that it still runs), Preserved (it was
/// over and was not touched), Uncertain (nobody could say how it stands).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum RecoveryClass {
    /// Nothing was running.
    Resumed,
    /// The provider was asked and answered.
    Reconciled,
    /// It was over.
    Preserved,
    /// Nobody could say.
    Uncertain,
}

impl RecoveryClass {
    /// All classes, in the order of the columns.
    pub const ALL: [Self; 4] = [Self::Resumed, Self::Reconciled, Self::Preserved, Self::Uncertain];

    /// The word, for metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resumed => "Resumed",
            Self::Reconciled => "Reconciled",
            Self::Preserved => "Preserved",
            Self::Uncertain => "Uncertain",
        }
    }
}

/// Parts of a recovery: List (everything is read, from the beginning of the term), Classify (each item is looked at,
/// and its provider asked).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecoveryPhase {
    /// Everything is read.
    List,
    /// Each item is looked at, and its provider asked.
    Classify,
}

/// How long a part of the recovery took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseDuration {
    /// Which part.
    pub name: RecoveryPhase,
    /// How long it took.
    #[schemars(range(min = 0))]
    pub milliseconds: i64,
}

/// An item that a person may have to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceItem {
    /// Which object, written `<namespace>/<short name of the kind>/<name>`, for example
    /// docs/mocc/nightly-202611290200.
    #[schemars(length(min = 1, max = 340))]
    pub object: String,
    /// What is known of it: Uncertain for every item in the list.
    pub class: RecoveryClass,
    /// Why, in one word, for example EndNotSeen, ProviderUnreachable, ForeignFence, Unreadable.
    #[schemars(length(max = 128))]
    pub reason: String,
    /// Why, in a sentence.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// A schedule or a queue of which nothing new is started in this term, or not yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TracePaused {
    /// The schedule, written `<namespace>/<name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 320))]
    pub schedule: Option<String>,
    /// The queue, written `<namespace>/<name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 320))]
    pub queue: Option<String>,
    /// Why, in one word: ForeignFence, Unreadable or, of a queue, RecoveryIncomplete.
    #[schemars(length(max = 128))]
    pub reason: String,
}

impl TracePaused {
    /// A schedule, written `<namespace>/<name>`.
    pub fn schedule(schedule: &str, reason: &str) -> Self {
        Self { schedule: Some(schedule.to_owned()), queue: None, reason: reason.to_owned() }
    }

    /// A queue, written `<namespace>/<name>`.
    pub fn queue(queue: &str, reason: &str) -> Self {
        Self { schedule: None, queue: Some(queue.to_owned()), reason: reason.to_owned() }
    }
}

/// What was found. Written once, by the term it is about, when every item is accounted for; never changed again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryTraceStatus {
    /// When the term began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When every item was accounted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// How long that took, for example 1.204s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub duration: Option<String>,
    /// How long each part took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub phases: Vec<PhaseDuration>,
    /// Items whose ownership follows from their durable identity; nothing of them was running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub resumed: Option<i32>,
    /// Items whose provider was asked and answered, also that they still run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub reconciled: Option<i32>,
    /// Items that were over. They were not touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub preserved: Option<i32>,
    /// Items of which nobody could say how they stand. The first 64 are in `items`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub uncertain: Option<i32>,
    /// The uncertain items, by name; at most 64 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub items: Vec<TraceItem>,
    /// Of what nothing new is started in this term; at most 64 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub paused: Vec<TracePaused>,
    /// The term, as on everything that it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// Complete is True once every item is accounted for: with reason Accounted, or Uncertain if some are uncertain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
