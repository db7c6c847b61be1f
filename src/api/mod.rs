//! The kinds users write: types, validation rules, conditions.
//!
//! The doc comments of fields are the user documentation: they become the descriptions that
//! `kubectl explain` shows. Every list, map and string has a bound, because an unbounded one makes
//! the cost of the validation rules unbounded and the API server then refuses the whole CRD.
//!
//! Integers are `i32`/`i64` with ranges: `u32` would emit a format that Kubernetes does not know.

// The derive of `KubeSchema` copies each struct, with its `pub`, into the body of a function.
#![allow(unreachable_pub)]

use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

mod common;
mod ledger;
mod occurrence;
mod parameters;
mod recovery_trace;
mod report_job;
mod report_queue;
pub(crate) mod report_rules;
mod report_schedule;
pub(crate) mod rules;
mod run;
mod schedule;
mod schema;
mod template;
#[cfg(test)]
mod tests;

pub use common::{
    Condition, ConditionStatus, Fence, MAX_MESSAGE_CHARS, MAX_NAME_CHARS, MAX_REASON_CHARS, Time,
    set_condition, truncate,
};
pub use ledger::{
    Ledger, LedgerEntry, MAX_CHARGE, MAX_LEDGER_HTTP_BYTES, MAX_SLOTS, MAX_TAGS, MAX_TENANT_CHARS,
    MAX_WEIGHT, TAG_SCALE, TenantTag,
};
pub use occurrence::{
    Attempt, AttemptOutcome, MaintenanceOccurrence, MaintenanceOccurrenceSpec,
    MaintenanceOccurrenceStatus, OccurrenceState, PodRef, Resolution, ResolutionDecision,
    ResultValue,
};
pub use parameters::Parameters;
pub use recovery_trace::{
    LeadershipGained, MAX_LEASE_NAME, MAX_TRACE_ITEMS, MAX_TRACE_PAUSED, PhaseDuration,
    RecoveryClass, RecoveryPhase, RecoveryTrace, RecoveryTraceSpec, RecoveryTraceStatus, TraceItem,
    TracePaused,
};
pub use report_job::{
    AcceptedArtifact, Artifact, ArtifactPolicy, ReportJob, ReportJobSpec, ReportJobStatus,
    ReportState,
};
pub use report_queue::{
    AdmissionPolicy, Admissions, Drain, MAX_TENANT_RULES, QueueLimits, QueueRetention, ReportQueue,
    ReportQueueSpec, ReportQueueStatus, RetryRules, TenantRule,
};
pub use report_schedule::{
    ReportJobTemplate, ReportJobTemplateMeta, ReportJobTemplateSpec, ReportSchedule,
    ReportScheduleSpec,
};
pub use rules::{FENCE_MESSAGE, FENCE_RULE, NAME_RULE, NAME_RULE_MESSAGE};
pub use run::{
    ActionClass, HttpRun, JobRun, MAX_PARAMETERS, MAX_PARAMETERS_BYTES, RunSpec, SecretRef,
    SimulatedOutcome, SimulatedRun,
};
pub use schedule::{
    Abandoned, Claim, ConcurrencyPolicy, MAX_CLAIMS, MAX_SKIPPED_RANGES, MaintenanceSchedule,
    MaintenanceScheduleSpec, MaintenanceScheduleStatus, MissedRuns, Observed, Retention,
    ScheduleState, Spread,
};
pub use template::Template;

/// API group of every kind of Punctual.
pub const GROUP: &str = "punctual.dev";
/// Served and stored version.
pub const VERSION: &str = "v1alpha1";

/// Label on occurrences: the name of their schedule.
pub const LABEL_SCHEDULE: &str = "punctual.dev/schedule";
/// Label on Jobs and pods of reports: the name of their queue.
pub const LABEL_QUEUE: &str = "punctual.dev/queue";
/// Label on Jobs and pods of reports: their tenant.
pub const LABEL_TENANT: &str = "punctual.dev/tenant";
/// Label on Jobs and pods: the uid of the occurrence or report job they run for.
pub const LABEL_PARENT_UID: &str = "punctual.dev/parent-uid";
/// Annotation on everything the operator creates: the epoch of the term that created it.
pub const ANNOTATION_EPOCH: &str = "punctual.dev/epoch";
/// Annotation on a Job: the epoch of the term that released it.
pub const ANNOTATION_RELEASED: &str = "punctual.dev/released";
/// Annotation on a Job: kind of its parent.
pub const ANNOTATION_PARENT_KIND: &str = "punctual.dev/parent-kind";
/// Annotation on a Job: the run key.
pub const ANNOTATION_RUN_KEY: &str = "punctual.dev/run-key";
/// Annotation on a Job: hash of the template it was made from.
pub const ANNOTATION_TEMPLATE_HASH: &str = "punctual.dev/template-hash";
/// Annotation on a Secret: beginning of the addresses of the execution services that may see it.
pub const ANNOTATION_ALLOWED_URL: &str = "punctual.dev/allowed-url";
/// Annotation on the Lease: random per acquisition attempt.
pub const ANNOTATION_NONCE: &str = "punctual.dev/nonce";
/// Annotation on the Lease: counts renewals of a term.
pub const ANNOTATION_ATTEMPT: &str = "punctual.dev/attempt";

/// The CustomResourceDefinitions of all kinds, in the order they are installed.
pub fn crds() -> &'static [CustomResourceDefinition] {
    /// Made once: deriving the schemas takes longer than whatever is done with them.
    static MADE: OnceLock<Vec<CustomResourceDefinition>> = OnceLock::new();
    MADE.get_or_init(make_crds)
}

fn make_crds() -> Vec<CustomResourceDefinition> {
    vec![
        schema::tidy(MaintenanceSchedule::crd()),
        schema::tidy(MaintenanceOccurrence::crd()),
        schema::tidy(ReportSchedule::crd()),
        schema::tidy(ReportQueue::crd()),
        schema::tidy(ReportJob::crd()),
        schema::tidy(RecoveryTrace::crd()),
    ]
}
