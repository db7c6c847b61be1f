//! What matters of a Job and of a pod, taken out of the objects that the API server keeps. Pure.

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobStatus},
        core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::report::Report;
use crate::{
    api::{ANNOTATION_RELEASED, LABEL_PARENT_UID, MAX_MESSAGE_CHARS, truncate},
    cluster::resource_version,
    providers::{FailureClass, Waiting},
};

/// Label that the Job controller puts on the pods of a Job: the Job's uid. It stays when a Job is
/// deleted with `propagationPolicy: Orphan`, which takes the owner reference away.
pub const LABEL_CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// Exit code by which a container says that trying again is useless.
const EXIT_DO_NOT_RETRY: i32 = 42;

/// How a Job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobFinish {
    /// Neither complete nor failed.
    No,
    /// Condition Complete: its pod is over.
    Complete {
        /// When.
        at: Option<Timestamp>,
    },
    /// Condition Failed: no proof that its pod is over.
    Failed {
        /// When.
        at: Option<Timestamp>,
        /// The condition's reason.
        reason: String,
        /// The condition's message.
        message: String,
    },
}

/// What matters of a Job.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of the stored object")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDigest {
    /// Uid: the handle of the run.
    pub uid: String,
    /// Name.
    pub name: String,
    /// Uid of the parent, as its label says.
    pub parent_uid: Option<String>,
    /// `spec.suspend`.
    pub suspended: bool,
    /// It carries the annotation of a release.
    pub released: bool,
    /// `status.startTime`: the Job controller began with it.
    pub started: Option<Timestamp>,
    /// It is being deleted.
    pub deleting: bool,
    /// The Job controller has counted a pod of it, in whatever state.
    pub counted: bool,
    /// Whether it finished.
    pub finish: JobFinish,
}

impl JobDigest {
    /// Reads a Job. `None` if it has no uid or name, which no stored object lacks.
    pub fn of(job: &Job) -> Option<Self> {
        let meta = &job.metadata;
        let status = job.status.as_ref();
        let annotations = meta.annotations.as_ref();
        Some(Self {
            uid: meta.uid.clone()?,
            name: meta.name.clone()?,
            parent_uid: label(meta, LABEL_PARENT_UID),
            suspended: job.spec.as_ref().and_then(|spec| spec.suspend).unwrap_or(false),
            released: annotations.is_some_and(|all| all.contains_key(ANNOTATION_RELEASED)),
            started: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
            counted: status.is_some_and(counted),
            finish: status.map_or(JobFinish::No, finish),
        })
    }

    /// Whether it is suspended and was never released: inert.
    pub fn is_held(&self) -> bool {
        self.suspended && !self.released
    }

    /// Whether it finished, with success or failure.
    pub fn is_finished(&self) -> bool {
        self.finish != JobFinish::No
    }
}

fn label(meta: &ObjectMeta, key: &str) -> Option<String> {
    meta.labels.as_ref()?.get(key).cloned()
}

/// Pods of a Job carry a finalizer until they are counted, so a Job that counts none had none, up to
/// one that its controller is creating right now.
fn counted(status: &JobStatus) -> bool {
    let waiting = status.uncounted_terminated_pods.as_ref();
    let lists = waiting.into_iter().flat_map(|all| [&all.failed, &all.succeeded]);
    [status.active, status.failed, status.succeeded, status.terminating, status.ready]
        .into_iter()
        .flatten()
        .any(|count| count > 0)
        || lists.flatten().any(|list| !list.is_empty())
}

fn finish(status: &JobStatus) -> JobFinish {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let is = |kind: &str| conditions.iter().find(|c| c.type_ == kind && c.status == "True");
    let changed = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.map(|time| time.0)
    };
    if let Some(condition) = is("Complete") {
        let at = changed(status.completion_time.as_ref());
        return JobFinish::Complete { at: at.or(changed(condition.last_transition_time.as_ref())) };
    }
    match is("Failed") {
        Some(condition) => JobFinish::Failed {
            at: changed(condition.last_transition_time.as_ref()),
            reason: condition.reason.clone().unwrap_or_default(),
            message: truncate(condition.message.as_deref().unwrap_or_default(), MAX_MESSAGE_CHARS),
        },
        None => JobFinish::No,
    }
}

/// How a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// PascalCase.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// What a retry may expect.
    pub class: FailureClass,
}

/// Whether a pod can still act.
#[derive(Clone, Debug, PartialEq)]
pub enum PodEnd {
    /// It can, or nobody knows.
    Open,
    /// It was never bound to a node and never will be: nothing ran.
    NeverBound,
    /// Every container is terminated, with success.
    Succeeded(Report),
    /// Every container is terminated, not with success.
    Failed(Failure),
}

/// What matters of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodDigest {
    /// Uid.
    pub uid: String,
    /// Name.
    pub name: String,
    /// Version; Kubernetes promises that they are comparable numbers. 0 if it is none.
    pub version: u64,
    /// Uid of the Job it belongs to.
    pub job_uid: Option<String>,
    /// Uid of the parent of that Job, as its label says.
    pub parent_uid: Option<String>,
    /// Its node, once bound.
    pub node: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
    /// When its first container started.
    pub started: Option<Timestamp>,
    /// When its last container ended.
    pub finished: Option<Timestamp>,
    /// Whether it can still act.
    pub end: PodEnd,
    /// What keeps it from starting.
    pub waiting: Option<Waiting>,
}

impl PodDigest {
    /// Reads a pod. `None` if it has no uid or name, which no stored object lacks.
    pub fn of(pod: &Pod) -> Option<Self> {
        let meta = &pod.metadata;
        let empty = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&empty);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let node = node.filter(|name| !name.is_empty());
        let deleting = meta.deletion_timestamp.is_some();
        let times = || statuses(status).filter_map(|s| s.state.as_ref());
        Some(Self {
            uid: meta.uid.clone()?,
            name: meta.name.clone()?,
            version: resource_version(meta).unwrap_or(0),
            job_uid: job_uid(meta),
            parent_uid: label(meta, LABEL_PARENT_UID),
            deleting,
            started: times().filter_map(started).min().or_else(|| phase_start(status)),
            finished: times().filter_map(finished).max(),
            end: end(pod, status, node.is_some(), deleting),
            waiting: waiting(status),
            node,
        })
    }

    /// Whether it is over: it ended, or nothing of it ever ran.
    pub fn is_over(&self) -> bool {
        self.end != PodEnd::Open
    }
}

fn job_uid(meta: &ObjectMeta) -> Option<String> {
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.kind == "Job" && owner.controller == Some(true));
    owner.map(|owner| owner.uid.clone()).or_else(|| label(meta, LABEL_CONTROLLER_UID))
}

/// Init containers (sidecars among them) first, as they start.
fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
}

fn started(state: &ContainerState) -> Option<Timestamp> {
    let running = state.running.as_ref().and_then(|state| state.started_at.as_ref());
    let ended = state.terminated.as_ref().and_then(|state| state.started_at.as_ref());
    real(running.or(ended)?.0)
}

fn finished(state: &ContainerState) -> Option<Timestamp> {
    real(state.terminated.as_ref()?.finished_at.as_ref()?.0)
}

/// A kubelet that lost track of a container reports the Unix epoch.
fn real(time: Timestamp) -> Option<Timestamp> {
    (time > Timestamp::UNIX_EPOCH).then_some(time)
}

/// A pod that runs and whose containers are not listed yet.
fn phase_start(status: &PodStatus) -> Option<Timestamp> {
    let runs = status.phase.as_deref() == Some("Running");
    status.start_time.as_ref().filter(|_| runs).map(|time| time.0)
}

fn end(pod: &Pod, status: &PodStatus, bound: bool, deleting: bool) -> PodEnd {
    let phase = status.phase.as_deref();
    let terminal = matches!(phase, Some("Succeeded" | "Failed"));
    if !bound {
        // The API server binds no pod that is being deleted, and the scheduler none that is over.
        return if deleting || terminal { PodEnd::NeverBound } else { PodEnd::Open };
    }
    if !every_container_ended(pod, status, terminal) {
        return PodEnd::Open;
    }
    // Sidecars do not count: they are killed once the work is done. If an init container failed, no
    // container of the work has ended.
    let mut work = status.container_statuses.iter().flatten().filter_map(terminated);
    let succeeded = match phase {
        Some("Succeeded") => true,
        Some("Failed") => false,
        _ => work.all(|(_, state)| state.exit_code == 0),
    };
    if succeeded { PodEnd::Succeeded(report(status)) } else { PodEnd::Failed(failure(status)) }
}

/// Whether no container of a bound pod runs or can start.
///
/// The phase alone says nothing: the pod garbage collector sets `Failed` when a Node object is gone,
/// and the node controller the reason `NodeLost`, while the containers may run on. In a pod that the kubelet itself reports as over, a container
/// that still waits is one that never started (its init containers failed, or the pod was rejected).
fn every_container_ended(pod: &Pod, status: &PodStatus, terminal: bool) -> bool {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref()).map_or(0, Vec::len);
    let wanted = spec.map_or(0, |spec| spec.containers.len()) + init;
    let state = |s: &ContainerStatus| s.state.clone().unwrap_or_default();
    let by_others = disruption(status) == Some("DeletionByPodGC")
        || status.reason.as_deref() == Some("NodeLost");
    if !terminal || by_others {
        return statuses(status).count() >= wanted.max(1)
            && statuses(status).all(|s| state(s).terminated.is_some());
    }
    let reported = statuses(status).any(|s| state(s).terminated.is_some());
    (reported || status.reason.is_some()) && statuses(status).all(|s| state(s).running.is_none())
}

fn terminated(status: &ContainerStatus) -> Option<(&str, &ContainerStateTerminated)> {
    Some((status.name.as_str(), status.state.as_ref()?.terminated.as_ref()?))
}

/// Reason of the condition `DisruptionTarget`: who ended the pod from outside.
fn disruption(status: &PodStatus) -> Option<&str> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let target = conditions.iter().find(|c| c.type_ == "DisruptionTarget" && c.status == "True")?;
    Some(target.reason.as_deref().unwrap_or_default())
}

/// The first container, in the order of the spec, that says something speaks for the run.
fn report(status: &PodStatus) -> Report {
    let containers = status.container_statuses.iter().flatten().filter_map(terminated);
    let mut messages = containers.filter_map(|(_, state)| state.message.as_deref());
    Report::parse(messages.find(|message| !message.trim().is_empty()))
}

fn failure(status: &PodStatus) -> Failure {
    let (work, init) = (&status.container_statuses, &status.init_container_statuses);
    let ended = work.iter().flatten().chain(init.iter().flatten()).filter_map(terminated);
    let failed = ended.into_iter().find(|(_, state)| state.exit_code != 0);
    if let Some(by) = disruption(status) {
        return disrupted(by, status);
    }
    match (failed, status.reason.as_deref()) {
        // The kubelet ended or rejected the pod as a whole.
        (_, Some("DeadlineExceeded")) => Failure {
            reason: "DeadlineExceeded".into(),
            message: "the pod ran longer than the activeDeadlineSeconds of its template".into(),
            class: FailureClass::Transient,
        },
        (_, Some(reason)) if is_word(reason) => Failure {
            reason: reason.to_owned(),
            message: sentence("the node ended or rejected the pod", status.message.as_deref()),
            class: FailureClass::Disruption,
        },
        (Some((name, state)), _) => exited(name, state),
        (None, _) => Failure {
            reason: "PodFailed".into(),
            message: sentence("the pod failed", status.message.as_deref()),
            class: FailureClass::Transient,
        },
    }
}

fn disrupted(by: &str, status: &PodStatus) -> Failure {
    let (reason, what) = match by {
        "PreemptionByScheduler" => ("Preempted", "a pod of higher priority took its place"),
        "DeletionByPodGC" => ("NodeLost", "its node was removed"),
        "DeletionByTaintManager" => ("NodeLost", "its node was tainted: unreachable or drained"),
        "TerminationByKubelet" => ("Evicted", "its node needed the room or shuts down"),
        _ => ("Evicted", "it was evicted"),
    };
    Failure {
        reason: reason.into(),
        message: sentence(
            &format!("the pod was ended from outside: {what}"),
            status.message.as_deref(),
        ),
        class: FailureClass::Disruption,
    }
}

fn exited(name: &str, state: &ContainerStateTerminated) -> Failure {
    let report = Report::parse(state.message.as_deref());
    let code = state.exit_code;
    let kubelet = state.reason.as_deref().unwrap_or_default();
    let (reason, message, class) = match kubelet {
        "OOMKilled" => (
            kubelet,
            format!("container {name} needed more memory than its limit"),
            FailureClass::Deterministic,
        ),
        "StartError" | "ContainerCannotRun" => (
            kubelet,
            sentence(&format!("container {name} cannot be started"), state.message.as_deref()),
            FailureClass::Deterministic,
        ),
        _ if report.retryable == Some(false) => (
            "NotRetryable",
            format!("container {name} exited with code {code} and reported retryable: false"),
            FailureClass::Deterministic,
        ),
        _ if code == EXIT_DO_NOT_RETRY && report.retryable != Some(true) => (
            "ExitCode",
            format!("container {name} exited with code {code}: trying again is useless"),
            FailureClass::Deterministic,
        ),
        _ => (
            "ExitCode",
            format!("container {name} exited with code {code}"),
            FailureClass::Transient,
        ),
    };
    Failure { reason: report.reason.unwrap_or_else(|| reason.to_owned()), message, class }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= 63 && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// `what`, and what Kubernetes says about it.
fn sentence(what: &str, said: Option<&str>) -> String {
    match said.map(str::trim).filter(|said| !said.is_empty()) {
        Some(said) => truncate(&format!("{what}: {said}"), MAX_MESSAGE_CHARS),
        None => what.to_owned(),
    }
}

/// What keeps a pod from starting, if it is more than the usual preparations.
fn waiting(status: &PodStatus) -> Option<Waiting> {
    let container = statuses(status).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| is_word(reason))?;
        let usual = matches!(reason, "ContainerCreating" | "PodInitializing");
        (!usual).then(|| Waiting {
            reason: reason.to_owned(),
            message: sentence(
                &format!("container {} cannot start ({reason})", container.name),
                waiting.message.as_deref(),
            ),
            class: FailureClass::Deterministic,
        })
    });
    container.or_else(|| {
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let unbound =
            conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
        let reason = unbound.reason.as_deref().filter(|reason| is_word(reason))?;
        Some(Waiting {
            reason: reason.to_owned(),
            message: sentence("no node takes the pod", unbound.message.as_deref()),
            class: FailureClass::Transient,
        })
    })
}

#[cfg(test)]
#[path = "digest_tests.rs"]
mod tests;
