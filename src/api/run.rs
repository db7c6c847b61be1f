//! What a run executes and what it is allowed to do.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::occurrence::ResultValue;

/// Most parameters a run may have.
pub const MAX_PARAMETERS: usize = 64;
/// Most bytes of all parameters together: they become one environment variable of the container.
pub const MAX_PARAMETERS_BYTES: usize = 8 * 1024;

/// What a run may do, and so what guards it and what a failure may trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ActionClass {
    /// Only reads: an unknown outcome is retried within `maxAttempts`.
    ReadOnly,
    /// May be started twice with one effect (keyed by the request id): an unknown outcome waits as Unresolved.
    Idempotent,
    /// Must not run twice or after a cancel: deletes, retention. The default for maintenance.
    Fenced,
}

/// What to run. Exactly one of `job`, `http`, `simulated`.
///
/// The schema declares no defaults here, so that what a user wrote is what gets hashed and copied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.job), has(self.http), has(self.simulated)].filter(x, x).size() == 1")
        .message("run needs exactly one of job, http, simulated")
)]
pub struct RunSpec {
    /// What the run may do: `ReadOnly`, `Idempotent` or `Fenced`. Default for maintenance: `Fenced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_class: Option<ActionClass>,
    /// How often a failed run is attempted in all. Default for maintenance: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub max_attempts: Option<i32>,
    /// Seconds from release to the first start, after which the run is cancelled as NeverStarted. Default: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub start_timeout_seconds: Option<i32>,
    /// Seconds from start, after which the run is cancelled as DeadlineExceeded. No limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub timeout_seconds: Option<i32>,
    /// Given to the run as JSON in PUNCTUAL_PARAMETERS; at most 64 entries and 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64), inner(length(max = 4096)))]
    pub parameters: Option<BTreeMap<String, String>>,
    /// Run a batch/v1 Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobRun>,
    /// Run on an external execution service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRun>,
    /// Pretend to run; for drills and demos only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<SimulatedRun>,
}

impl RunSpec {
    /// Seconds from release to the first start, if the spec names none.
    pub const DEFAULT_START_TIMEOUT_SECONDS: i32 = 600;

    /// The class, with the default for maintenance.
    pub fn maintenance_class(&self) -> ActionClass {
        self.action_class.unwrap_or(ActionClass::Fenced)
    }

    /// Attempts in all, with the default for maintenance.
    pub fn maintenance_attempts(&self) -> i32 {
        self.max_attempts.unwrap_or(1)
    }

    /// Seconds from release to the first start.
    pub fn start_timeout(&self) -> i32 {
        self.start_timeout_seconds.unwrap_or(Self::DEFAULT_START_TIMEOUT_SECONDS)
    }
}

/// A batch/v1 Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
pub struct JobRun {
    /// A PodTemplateSpec, as in a Job. Its restartPolicy is Never.
    #[schemars(schema_with = "raw_object")]
    pub template: serde_json::Value,
}

/// Kept as written: a typed schema would drop fields of newer API servers and weigh 333 kB a kind.
fn raw_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// An external execution service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpRun {
    /// Base address of the service.
    #[schemars(length(min = 1, max = 2048), regex(pattern = "^https?://"))]
    pub url: String,
    /// Secret with the credentials: `token`, or `tls.crt` and `tls.key`, and `ca.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretRef>,
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct SecretRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How a simulated run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SimulatedOutcome {
    /// With success.
    #[default]
    Succeeded,
    /// With failure.
    Failed,
    /// The provider cannot say.
    Unknown,
    /// Never.
    Hang,
}

/// A pretended run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedRun {
    /// How long it takes. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub duration_seconds: Option<i32>,
    /// How it ends. Default: `Succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<SimulatedOutcome>,
    /// Reason given when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,
    /// Result given when it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    pub result: Option<BTreeMap<String, ResultValue>>,
}
