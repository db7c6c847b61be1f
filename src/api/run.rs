//! What a run executes and what it is allowed to do.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{
    occurrence::ResultValue,
    parameters::Parameters,
    rules::{ONE_PROVIDER_MESSAGE, ONE_PROVIDER_RULE, PARAMETERS_MESSAGE, PARAMETERS_RULE},
    template::Template,
};

/// Most parameters a run may have.
pub const MAX_PARAMETERS: usize = 64;
/// Most bytes of all parameters together, keys and values: they become one environment variable of
/// the container.
pub const MAX_PARAMETERS_BYTES: usize = 8 * 1024;

/// What the run may do, and so what guards it and what a failure may trigger. ReadOnly: it only reads, so an unknown
/// outcome is tried again. Idempotent: its receiver deduplicates by the request id; an unknown outcome waits as
/// Unresolved. Fenced: it must not run twice or after a cancel, such as deletes; it waits as Unresolved too, and is
/// repeated only on proof of its end. Default: Fenced for maintenance, Idempotent for reports.
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
#[x_kube(validation = Rule::new(ONE_PROVIDER_RULE).message(ONE_PROVIDER_MESSAGE))]
pub struct RunSpec {
    /// What the run may do. Default: Fenced for maintenance, Idempotent for reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_class: Option<ActionClass>,
    /// How many attempts there are in all when runs fail. Above 1, disruptions such as an eviction are counted apart
    /// and tried again; with 1 nothing is. Default: 1 for maintenance, 3 for reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub max_attempts: Option<i32>,
    /// Seconds from the release of the run to its first start. After that it is cancelled and Failed, with reason
    /// NeverStarted. Default: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub start_timeout_seconds: Option<i32>,
    /// Seconds from the start of the run to its end. After that it is cancelled and Failed, with reason
    /// DeadlineExceeded. Without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub timeout_seconds: Option<i32>,
    /// Strings given to the run, for a Job as JSON in the environment variable PUNCTUAL_PARAMETERS. At most 64 entries
    /// and 8192 bytes in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parameters")]
    #[x_kube(validation = Rule::new(PARAMETERS_RULE).message(PARAMETERS_MESSAGE))]
    pub parameters: Option<Parameters>,
    /// Run as a Job (batch/v1).
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

    /// The class, with the default for reports.
    pub fn report_class(&self) -> ActionClass {
        self.action_class.unwrap_or(ActionClass::Idempotent)
    }

    /// Attempts in all, with the default for reports.
    pub fn report_attempts(&self) -> i32 {
        self.max_attempts.unwrap_or(3)
    }

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
    /// A pod template, as in a Job: `{metadata: {labels, annotations}, spec: {containers: [...]}}`. Its restartPolicy is
    /// Never, given or not; others are refused, because the operator itself counts attempts. The pod gets the
    /// environment variables PUNCTUAL_RUN_KEY, PUNCTUAL_REQUEST_ID, PUNCTUAL_ATTEMPT, PUNCTUAL_INTENDED_TIME,
    /// PUNCTUAL_EPOCH and PUNCTUAL_PARAMETERS, and may report a result as JSON in its termination message.
    #[schemars(schema_with = "raw_object")]
    pub template: Template,
}

fn parameters(generator: &mut SchemaGenerator) -> Schema {
    parameters_schema(generator)
}

/// A map of strings; schemars has no attribute for the bound of a map's values.
pub(super) fn parameters_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_PARAMETERS,
        "additionalProperties": {"type": "string", "maxLength": MAX_PARAMETERS_BYTES},
    })
}

/// Kept as written: a typed schema would drop fields of newer API servers and weigh 333 kB a kind.
fn raw_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// An external execution service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpRun {
    /// Base address of the service, for example https://runner.example/v1.
    #[schemars(length(min = 1, max = 2048), regex(pattern = "^https?://"))]
    pub url: String,
    /// Secret with the credentials: the key token, or the keys tls.crt and tls.key; and optionally ca.crt. Its
    /// annotation `punctual.dev/allowed-url` says to which addresses they may be sent, and must cover `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretRef>,
}

/// A Secret in the namespace of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How the simulated run ends: Succeeded (default), Failed, Unknown (the provider cannot say), or Hang (never).
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
    /// How long it takes, in seconds. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub duration_seconds: Option<i32>,
    /// How it ends. Default: `Succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<SimulatedOutcome>,
    /// The reason it reports when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,
    /// The result it reports when it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    pub result: Option<BTreeMap<String, ResultValue>>,
}
