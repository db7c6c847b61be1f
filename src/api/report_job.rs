//! `ReportJob`: one expensive report of a customer, admitted by its queue, run once.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{
    common::{Condition, Fence, Time},
    occurrence::{Attempt, Resolution, ResultValue},
    parameters::Parameters,
    report_rules::{
        ARTIFACT_MESSAGE, ARTIFACT_RULE, REPORT_CANCEL_MESSAGE, REPORT_IDENTITY_MESSAGE,
        REPORT_IDENTITY_RULE, REPORT_NAME_MESSAGE, REPORT_NAME_RULE, REPORT_RUN_MESSAGE,
        REPORT_TERMINAL_MESSAGE, REPORT_TERMINAL_RULE, SCHEDULED_NAME_MESSAGE, SCHEDULED_NAME_RULE,
        SCHEDULED_WHOLE_MESSAGE, SCHEDULED_WHOLE_RULE,
    },
    rules::{
        CANCEL_RULE, FENCE_MESSAGE, FENCE_RULE, ID_MESSAGE, ID_RULE, INSTANT_MESSAGE, INSTANT_RULE,
        PARAMETERS_MESSAGE, PARAMETERS_RULE, RUN_RULE,
    },
    run::{RunSpec, parameters_schema},
};
use crate::time::IntendedTime;

/// What is to be reported, for whom, and what people may ask of it. Immutable, except for `cancel` and `resolution`.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "punctual.dev",
    version = "v1alpha1",
    kind = "ReportJob",
    plural = "reportjobs",
    shortname = "rjob",
    category = "punctual",
    namespaced,
    status = "ReportJobStatus",
    derive = "PartialEq",
    doc = "One report of a tenant. Its queue admits it when its turn comes, it runs once, and its state says at every moment what it waits for.",
    selectable = ".spec.queueName",
    selectable = ".spec.tenant",
    selectable = ".spec.scheduleName",
    selectable = ".status.state",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Tenant", type_ = "string", json_path = ".spec.tenant"),
    printcolumn(name = "Position", type_ = "string", json_path = ".status.position", description = "About how many jobs start before it"),
    printcolumn(name = "Starts", type_ = "string", json_path = ".status.estimatedStartTime", description = "About when it starts"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Queue", type_ = "string", json_path = ".spec.queueName", priority = 1),
    printcolumn(name = "Attempt", type_ = "integer", json_path = ".status.attempt", priority = 1),
    printcolumn(name = "Artifact", type_ = "string", json_path = ".status.artifact.uri", priority = 1),
    printcolumn(name = "Id", type_ = "string", json_path = ".status.id", priority = 1, description = "Identity for systems outside the cluster"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(REPORT_NAME_RULE).message(REPORT_NAME_MESSAGE),
    validation = Rule::new(SCHEDULED_WHOLE_RULE).message(SCHEDULED_WHOLE_MESSAGE).field_path(".spec.scheduleName"),
    validation = Rule::new(SCHEDULED_NAME_RULE).message(SCHEDULED_NAME_MESSAGE),
    validation = Rule::new(REPORT_IDENTITY_RULE).message(REPORT_IDENTITY_MESSAGE).field_path(".spec").reason(Reason::FieldValueForbidden),
    validation = Rule::new(RUN_RULE).message(REPORT_RUN_MESSAGE).field_path(".spec.run").reason(Reason::FieldValueForbidden),
    validation = Rule::new(CANCEL_RULE).message(REPORT_CANCEL_MESSAGE).field_path(".spec.cancel").reason(Reason::FieldValueForbidden),
    validation = Rule::new(FENCE_RULE).message(FENCE_MESSAGE).field_path(".status.fence").reason(Reason::FieldValueForbidden),
    validation = Rule::new(ID_RULE).message(ID_MESSAGE).field_path(".status.id").reason(Reason::FieldValueForbidden),
    validation = Rule::new(ARTIFACT_RULE).message(ARTIFACT_MESSAGE).field_path(".status.artifact").reason(Reason::FieldValueForbidden),
    validation = Rule::new(REPORT_TERMINAL_RULE).message(REPORT_TERMINAL_MESSAGE).field_path(".status.state").reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct ReportJobSpec {
    /// Name of the ReportQueue that admits it, in the same namespace. Immutable.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub queue_name: String,
    /// For whom it is. Slots are shared fairly between tenants. Immutable.
    #[schemars(
        length(min = 1, max = 40),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub tenant: String,
    /// Order within the tenant: a higher one starts first. It never puts a job before one of another tenant.
    /// Default: 0. Immutable.
    #[serde(default)]
    #[schemars(range(min = -1000, max = 1000))]
    pub priority: i32,
    /// Strings given to the run, merged over `run.parameters`. At most 64 entries and 8192 bytes in all. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_parameters")]
    #[x_kube(validation = Rule::new(PARAMETERS_RULE).message(PARAMETERS_MESSAGE))]
    pub parameters: Option<Parameters>,
    /// About how many seconds of one slot it takes. What its tenant is charged when it is admitted; corrected by what
    /// it really took when it ends. Default: 60. Immutable.
    #[serde(default = "sixty")]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub estimate_seconds: i32,
    /// Seconds from its creation within which it must be admitted for the first time. Later it is Failed, with reason
    /// QueueDeadlineExceeded. Without it there is no deadline. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_536_000))]
    pub queue_deadline_seconds: Option<i64>,
    /// Whether success without an artifact is success. Optional (default): it is. Required: it is not. Immutable.
    #[serde(default)]
    pub artifact: ArtifactPolicy,
    /// What it runs. Without it, the `runTemplate` of its queue. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<RunSpec>>,
    /// Cancels the report. Cannot be taken back. It is Cancelled once its run is proven over. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
    /// A person's decision about an attempt whose outcome nobody knows. Has an effect only while that attempt is
    /// Unresolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Name of the ReportSchedule it is an instant of. Set by the operator, together with `intendedTime` and
    /// `scheduleUID`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 40), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub schedule_name: Option<String>,
    /// The intended instant, if a ReportSchedule made it. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(INSTANT_RULE).message(INSTANT_MESSAGE))]
    pub intended_time: Option<IntendedTime>,
    /// Uid of the ReportSchedule it was created for. Immutable.
    #[serde(rename = "scheduleUID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub schedule_uid: Option<String>,
}

fn sixty() -> i32 {
    60
}

fn optional_parameters(generator: &mut SchemaGenerator) -> Schema {
    parameters_schema(generator)
}

/// Whether a report without an artifact is a success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ArtifactPolicy {
    /// It is.
    #[default]
    Optional,
    /// It is not.
    Required,
}

/// Where it stands: Queued, Admitted, Running, Cancelling, Unresolved, or one of the terminal states Succeeded, Failed,
/// Cancelled, Rejected, which never change. Unresolved means that nobody knows how the run ended; it keeps its slot and
/// waits for the provider or for a person (`spec.resolution`). Rejected means that nothing ran and nothing was promised:
/// delete it and create it again after `retryAfterTime`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ReportState {
    /// Waits for a slot, for a retry, or for its queue.
    Queued,
    /// Has a slot; its run is being prepared and released.
    Admitted,
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
    /// Terminal: its queue did not take it; nothing ran.
    Rejected,
}

impl ReportState {
    /// All states, in the order in which a job may pass them.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Admitted,
        Self::Running,
        Self::Cancelling,
        Self::Unresolved,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Rejected,
    ];

    /// Whether nothing more will happen.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Queued | Self::Admitted | Self::Running | Self::Cancelling | Self::Unresolved => {
                false
            }
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::Rejected => true,
        }
    }
}

/// What a run delivered: where it is and how to recognise it. The operator never reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Where it is, for example s3://reports/acme/2026-11.pdf.
    #[schemars(length(min = 1, max = 2048))]
    pub uri: String,
    /// SHA-256 of its content, 64 lower-case hex digits.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// Its size in bytes.
    #[schemars(range(min = 0))]
    pub size_bytes: i64,
}

/// The one artifact of a report that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedArtifact {
    /// Where it is.
    #[schemars(length(min = 1, max = 2048))]
    pub uri: String,
    /// SHA-256 of its content, 64 lower-case hex digits.
    #[schemars(length(min = 64, max = 64))]
    pub sha256: String,
    /// Its size in bytes.
    #[schemars(range(min = 0))]
    pub size_bytes: i64,
    /// Number of the attempt that delivered it.
    #[schemars(range(min = 1, max = 64))]
    pub attempt: i32,
    /// When it was accepted.
    pub accepted_time: Time,
}

/// What the operator decided and saw. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportJobStatus {
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ReportState>,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// The identity for systems outside the cluster: 32 hex digits, a hash of namespace, name and content, or of
    /// namespace, schedule and instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub id: Option<String>,
    /// About how many jobs of the queue start before it; exact up to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub position: Option<String>,
    /// About when it starts. Rewritten only when it moved by more than two minutes and 20 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_start_time: Option<Time>,
    /// When it makes sense to delete a Rejected job and create it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_time: Option<Time>,
    /// When the next attempt may be admitted, after one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_time: Option<Time>,
    /// Number of the newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i32>,
    /// The attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub attempts: Vec<Attempt>,
    /// The one artifact that counts. Immutable once it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<AcceptedArtifact>,
    /// What the run reported: at most 32 short texts or integers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    pub result: Option<BTreeMap<String, ResultValue>>,
    /// The run as it was when the operator first decided about it; used from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSpec>,
    /// Term of the leader that wrote last. The API server refuses writes of older terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// Accepted, Admitted, Finished, and at the end exactly one of Complete and Failed. Every end but success sets
    /// Failed, so that `kubectl wait` never hangs. Unresolved is there once nobody knew how the run ended, and True
    /// while that is so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
