//! `ReportQueue`: the slots that reports share, and the ledger of who has one.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    common::{Condition, Fence, Time},
    ledger::Ledger,
    report_rules::{LEDGER_MESSAGE, LEDGER_RULE, QUEUE_NAME_MESSAGE, QUEUE_NAME_RULE},
    rules::{FENCE_MESSAGE, FENCE_RULE},
    run::RunSpec,
    schedule::Abandoned,
};

/// Most tenants that a queue names; others weigh 1 and need no entry. A thousand entries of 100 bytes are
/// a tenth of what an object may have.
pub const MAX_TENANT_RULES: usize = 1000;

/// The slots that reports of all tenants share.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "punctual.dev",
    version = "v1alpha1",
    kind = "ReportQueue",
    plural = "reportqueues",
    shortname = "rqueue",
    category = "punctual",
    namespaced,
    status = "ReportQueueStatus",
    derive = "PartialEq",
    doc = "A bounded number of slots that the ReportJobs of all tenants share fairly. Its status holds the ledger: a job has a slot exactly if its entry stands there.",
    printcolumn(name = "Slots", type_ = "string", json_path = ".status.slots", description = "Slots that are taken, of all"),
    printcolumn(name = "Queued", type_ = "integer", json_path = ".status.waiting", description = "Jobs that wait"),
    printcolumn(name = "Drain", type_ = "string", json_path = ".status.drain.aboutTime", description = "About when what waits now will be done"),
    printcolumn(name = "Admissions", type_ = "string", json_path = ".status.admissions"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Tenants", type_ = "integer", json_path = ".status.tenantsWaiting", priority = 1, description = "Tenants with waiting jobs"),
    printcolumn(name = "Note", type_ = "string", json_path = ".spec.admissionReason", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(QUEUE_NAME_RULE).message(QUEUE_NAME_MESSAGE),
    validation = Rule::new(LEDGER_RULE).message(LEDGER_MESSAGE).field_path(".status.ledger").reason(Reason::FieldValueForbidden),
    validation = Rule::new(FENCE_RULE).message(FENCE_MESSAGE).field_path(".status.fence").reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct ReportQueueSpec {
    /// How many reports run at once. Lowering it stops admissions until what runs fits.
    #[schemars(range(min = 1, max = 1024))]
    pub slots: i32,
    /// How many jobs may wait. A job beyond that is Rejected, with a time to come back.
    #[serde(default)]
    pub limits: QueueLimits,
    /// Tenants that weigh more than 1 or may not run as many as there are slots. Others need no entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub tenants: Vec<TenantRule>,
    /// What is spent on repeating failed attempts.
    #[serde(default)]
    pub retries: RetryRules,
    /// Whether jobs are taken. Open (default). Hold: nothing new starts. Closed: nothing new is accepted, what is
    /// queued runs.
    #[serde(default)]
    pub admission: AdmissionPolicy,
    /// A note for people on why it is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub admission_reason: Option<String>,
    /// When a queue that is not open opens by itself. Without it, it stays as it is until `admission` is Open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_until_time: Option<Time>,
    /// What jobs run that bring no `run` of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_template: Option<RunSpec>,
    /// Whether jobs may bring a `run` of their own although there is a `runTemplate`. Default: true.
    #[serde(default = "yes")]
    pub allow_own_run: bool,
    /// How long finished jobs are kept.
    #[serde(default)]
    pub retention: QueueRetention,
    /// A person's word that the runs of deleted jobs are over, although nobody can prove it. Frees their slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["uid"]))]
    pub abandon: Vec<Abandoned>,
}

fn yes() -> bool {
    true
}

/// How many jobs may wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueLimits {
    /// Of all tenants together. Default: 10000.
    #[serde(default = "ten_thousand")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub queued: i32,
    /// Of one tenant. Default: 1000.
    #[serde(default = "thousand")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub queued_per_tenant: i32,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { queued: ten_thousand(), queued_per_tenant: thousand() }
    }
}

fn ten_thousand() -> i32 {
    10_000
}

fn thousand() -> i32 {
    1000
}

/// What one tenant gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantRule {
    /// The tenant, as in `spec.tenant` of its jobs.
    #[schemars(
        length(min = 1, max = 40),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub name: String,
    /// Its share against others: with weight 2 it gets twice the slot time of a tenant with weight 1. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: i32,
    /// Most slots it has at once. Without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1024))]
    pub max_running: Option<i32>,
}

fn one() -> i32 {
    1
}

/// What is spent on repeating failed attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryRules {
    /// Whether failed attempts are repeated at all. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Most slot time that repeats may take, in percent of that of first attempts. Default: 10.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 100))]
    pub budget_percent: i32,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self { enabled: true, budget_percent: ten() }
    }
}

fn ten() -> i32 {
    10
}

/// Whether jobs are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AdmissionPolicy {
    /// Jobs are accepted and started.
    #[default]
    Open,
    /// Jobs are accepted; nothing new starts.
    Hold,
    /// Nothing new is accepted; what is queued runs.
    Closed,
}

/// How long finished jobs are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueRetention {
    /// Successful ones, in seconds. Default: 604800 (7 days).
    #[serde(default = "week")]
    #[schemars(range(min = 0, max = 315_360_000))]
    pub successful_seconds: i64,
    /// Others, in seconds. Default: 604800 (7 days).
    #[serde(default = "week")]
    #[schemars(range(min = 0, max = 315_360_000))]
    pub failed_seconds: i64,
}

impl Default for QueueRetention {
    fn default() -> Self {
        Self { successful_seconds: week(), failed_seconds: week() }
    }
}

fn week() -> i64 {
    604_800
}

/// Whether jobs are taken now. Open: they are accepted and started. Paused: recovery has not accounted for every slot;
/// nothing new starts. Held: `spec.admission` is Hold. Closed: `spec.admission` is Closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Admissions {
    /// Jobs are accepted and started.
    Open,
    /// Recovery has not accounted for every slot; nothing new starts.
    Paused,
    /// `spec.admission` is Hold.
    Held,
    /// `spec.admission` is Closed.
    Closed,
}

/// How long what waits now will take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Jobs that wait or run.
    pub jobs: i64,
    /// Slot time that they need, in seconds.
    pub slot_seconds: i64,
    /// About when all of them will be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about_time: Option<Time>,
    /// When all of them will be done at the latest, if no job takes longer than estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_time: Option<Time>,
}

/// What the operator decided and saw. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportQueueStatus {
    /// Slots that are taken, of all, as text for people: 3/8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub slots: Option<String>,
    /// Slots that are taken: the number of entries in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_used: Option<i32>,
    /// Jobs that were accepted and wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<i32>,
    /// Tenants with waiting jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants_waiting: Option<i32>,
    /// Whether jobs are taken now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admissions: Option<Admissions>,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// Who has a slot, and what each tenant was charged. Admissions happen only by a write of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
    /// How long what waits now will take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Term of the leader that wrote last. The API server refuses writes of older terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// Ready: the queue works. Accepted: the API server and the provider accept the run template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
