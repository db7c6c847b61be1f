//! What a Job and its pods say about a run. Pure: facts in, status out.
//!
//! Two questions are kept apart. *How does it stand?* is answered by the Job. *Can it still act?* is
//! answered by its pod, because a Job that failed or is gone says nothing about a container that may
//! run on. A run counts as over only with a proof of its end:
//!
//! * its Job is complete; or its pod was seen with every container terminated; or its pod was never
//!   bound to a node;
//! * or no pod of it exists any more, nothing can create one, and the node it was bound to is the
//!   same Node object as then and was Ready after the pod had vanished, so that its kubelet has
//!   stopped the containers. A Node that was removed makes its pods vanish while they may run on;
//! * or no pod of it ever existed: see [`never_had_a_pod`];
//! * or, for `ReadOnly` and `Idempotent`, a stop was requested and neither Job nor pod exists.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::{
    digest::{Failure, JobDigest, JobFinish, PodDigest, PodEnd},
    report::Report,
    sightings::{Seen, SeenPod},
};
use crate::{
    api::{ActionClass, PodRef},
    providers::{Committed, Delivered, FailureClass, RunStatus},
};

/// Reason of a run that may still act because its end was not seen.
pub const END_NOT_SEEN: &str = "EndNotSeen";
/// Reason of a run of which two pods were seen.
pub const DUPLICATE_POD: &str = "DuplicatePod";

/// How long neither Job nor pod may be found before absence counts where the Job controller may have
/// been about to create a pod: it creates within seconds of its last look at the Job, or never.
pub const NO_POD_SECONDS: u64 = 60;
/// How long after a pod vanished *without our asking* its node must be Ready to count as Ready
/// afterwards. Until a dead node is marked, it still looks Ready (40 to 50 s by default).
pub const NODE_READY_SECONDS: u64 = 60;

/// What a live read of a Node said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSight {
    /// It is there.
    There {
        /// Its uid.
        uid: String,
        /// Whether its condition Ready is True.
        ready: bool,
    },
    /// There is no such Node.
    Gone,
    /// It may not be read.
    Forbidden,
}

/// Everything a status is made from.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// What a failure may trigger.
    pub class: ActionClass,
    /// What is recorded of the attempt.
    pub committed: &'a Committed,
    /// The Job with the committed uid, if it is there.
    pub job: Option<&'a JobDigest>,
    /// What this process has seen of it, the present pods included.
    pub seen: &'a Seen,
    /// Live reads of Nodes, by name, made after the pods were looked for.
    pub nodes: &'a BTreeMap<String, NodeSight>,
    /// How long live reads have found no pod, and no Job that could make one.
    pub absent_for: Option<Duration>,
}

/// Whether a status made from the watch caches alone could be wrong: anything that rests on absence,
/// and an end whose pod the cache does not show ended.
pub fn needs_live_reads(facts: &Facts<'_>) -> bool {
    let Some(job) = facts.job else { return true };
    match job.finish {
        JobFinish::No => {
            let suspended = job.suspended && !job.deleting;
            suspended && (job.released || ran(facts))
        }
        JobFinish::Complete { .. } | JobFinish::Failed { .. } => {
            let over = facts.seen.pods.iter().any(|seen| seen.pod.is_over());
            !over || facts.seen.pods.iter().any(|seen| !seen.pod.is_over())
        }
    }
}

/// How the run stands.
pub fn observe(facts: &Facts<'_>) -> RunStatus {
    if facts.committed.handle.is_none() {
        return RunStatus::Absent; // only what was committed can have been released
    }
    let there = facts.job.is_some() || facts.seen.pods.iter().any(|seen| seen.present);
    if there && let Some(status) = duplicate(facts) {
        return status;
    }
    match facts.job {
        Some(job) => with_job(facts, job),
        None => without_job(facts),
    }
}

/// A second pod that can have run.
fn duplicate(facts: &Facts<'_>) -> Option<RunStatus> {
    let recorded = facts.committed.pod.iter().map(|pod| pod.uid.as_str());
    let ran = facts.seen.pods.iter().filter(|seen| seen.pod.end != PodEnd::NeverBound);
    let mut uids: Vec<&str> = recorded.chain(ran.map(|seen| seen.pod.uid.as_str())).collect();
    uids.sort_unstable();
    uids.dedup();
    (uids.len() > 1 || facts.seen.overflow).then(|| RunStatus::Unknown {
        reason: DUPLICATE_POD.into(),
        message: format!(
            "the Job has had {} pods ({}): the work may have run twice",
            uids.len(),
            uids.join(", ")
        ),
    })
}

fn with_job(facts: &Facts<'_>, job: &JobDigest) -> RunStatus {
    match &job.finish {
        JobFinish::Complete { at } => complete(facts, job, *at),
        JobFinish::Failed { at, reason, message } => failed(facts, job, *at, reason, message),
        JobFinish::No if job.deleting => RunStatus::Stopping,
        JobFinish::No if job.suspended && (job.released || ran(facts)) => {
            RunStatus::StoppedByOthers {
                message: format!(
                    "somebody suspended Job {} after it was released; its pod is gone and it is \
                     not released again",
                    job.name
                ),
            }
        }
        JobFinish::No if job.suspended => RunStatus::Held,
        JobFinish::No if facts.committed.stop_requested.is_some() && job.started.is_none() => {
            RunStatus::Stopping
        }
        JobFinish::No => acting(facts),
    }
}

/// Whether a pod of it is known, so that it was released whatever its annotations say.
fn ran(facts: &Facts<'_>) -> bool {
    facts.committed.pod.is_some() || facts.seen.pods.iter().any(|seen| !never_bound(seen))
}

fn never_bound(seen: &SeenPod) -> bool {
    seen.pod.end == PodEnd::NeverBound
}

/// Released and neither finished nor stopped.
fn acting(facts: &Facts<'_>) -> RunStatus {
    let can_act = |seen: &&SeenPod| seen.present && !seen.pod.is_over();
    let pods = &facts.seen.pods;
    let pod = pods.iter().find(can_act).or_else(|| pods.iter().find(|seen| !never_bound(seen)));
    let reference = pod.and_then(|seen| pod_ref(facts, seen));
    match pod.and_then(|seen| seen.pod.started) {
        Some(started) => RunStatus::Running { started, pod: reference },
        None => RunStatus::Released {
            pod: reference,
            waiting: pod.and_then(|seen| seen.pod.waiting.clone()),
        },
    }
}

/// The pod and its node, as they are to be recorded; only once it is bound.
fn pod_ref(facts: &Facts<'_>, seen: &SeenPod) -> Option<PodRef> {
    let node = seen.pod.node.clone()?;
    let recorded = facts.committed.pod.as_ref().filter(|pod| pod.uid == seen.pod.uid);
    let node_uid = recorded.and_then(|pod| pod.node_uid.clone()).or_else(|| seen.node_uid.clone());
    Some(PodRef { uid: seen.pod.uid.clone(), node: Some(node), node_uid })
}

fn complete(facts: &Facts<'_>, job: &JobDigest, at: Option<Timestamp>) -> RunStatus {
    let ended = facts.seen.pods.iter().find_map(|seen| match &seen.pod.end {
        PodEnd::Succeeded(report) => Some((&seen.pod, report)),
        PodEnd::Open | PodEnd::NeverBound | PodEnd::Failed(_) => None,
    });
    if let Some((pod, report)) = ended {
        return succeeded(pod, report, at);
    }
    // A Job is complete only once its pod has ended: one that is shown to act was listed by a server
    // that lags behind the one that told of the Job. What it reported is yet to be read.
    if facts.seen.pods.iter().any(|seen| seen.present && seen.pod.end == PodEnd::Open) {
        return acting(facts);
    }
    // The pod is gone: nobody can say whether it left a message.
    let started = facts.seen.pods.iter().find_map(|seen| seen.pod.started);
    RunStatus::Succeeded {
        started: started.or(job.started),
        completed: at,
        result: None,
        result_lost: true,
        artifact: Delivered::Unreadable,
    }
}

fn succeeded(pod: &PodDigest, report: &Report, at: Option<Timestamp>) -> RunStatus {
    RunStatus::Succeeded {
        started: pod.started,
        completed: pod.finished.or(at),
        result: report.result.clone(),
        result_lost: report.lost,
        artifact: report.artifact.clone(),
    }
}

fn failure(pod: Option<&PodDigest>, failure: Failure, at: Option<Timestamp>) -> RunStatus {
    RunStatus::Failed {
        started: pod.and_then(|pod| pod.started),
        completed: pod.and_then(|pod| pod.finished).or(at),
        reason: failure.reason,
        message: failure.message,
        class: failure.class,
    }
}

/// A Job that failed. That is no proof: the end of every pod it had must be.
fn failed(
    facts: &Facts<'_>,
    job: &JobDigest,
    at: Option<Timestamp>,
    reason: &str,
    message: &str,
) -> RunStatus {
    match proof(facts) {
        Proof::Over => {}
        Proof::OnceAbsentFor(needed) if absent_for(facts, needed) => {}
        Proof::OnceAbsentFor(_) => return RunStatus::Stopping,
        Proof::None(why) => {
            return unknown(format!("Job {} failed ({reason}), but {why}", job.name));
        }
    }
    if let Some(outcome) = outcome_of_pod(facts, at) {
        return outcome;
    }
    let (reason, class) = match reason {
        "PodFailurePolicy" => ("Disrupted", FailureClass::Disruption),
        "" => ("JobFailed", FailureClass::Transient),
        reason => (reason, FailureClass::Transient),
    };
    let message = format!("Job {} failed: {message}", job.name);
    let pod = facts.seen.pods.iter().find(|seen| !never_bound(seen)).map(|seen| &seen.pod);
    failure(pod, Failure { reason: reason.to_owned(), message, class }, at)
}

/// The Job is gone, or its name has another uid.
fn without_job(facts: &Facts<'_>) -> RunStatus {
    let mut present = facts.seen.pods.iter().filter(|seen| seen.present && !seen.pod.is_over());
    if let Some(left_behind) = present.next() {
        let leaving = left_behind.pod.deleting;
        return if leaving { RunStatus::Stopping } else { acting(facts) };
    }
    let suffices = match facts.class {
        ActionClass::ReadOnly | ActionClass::Idempotent => facts.committed.stop_requested.is_some(),
        ActionClass::Fenced => false,
    };
    match proof(facts) {
        Proof::Over => outcome_of_pod(facts, None).unwrap_or(RunStatus::Absent),
        Proof::OnceAbsentFor(needed) if absent_for(facts, needed) => RunStatus::Absent,
        Proof::OnceAbsentFor(_) | Proof::None(_) if suffices => RunStatus::Absent,
        Proof::OnceAbsentFor(_) => RunStatus::Stopping,
        Proof::None(why) => unknown(format!("the Job is gone, and {why}")),
    }
}

fn unknown(message: String) -> RunStatus {
    RunStatus::Unknown { reason: END_NOT_SEEN.into(), message }
}

fn absent_for(facts: &Facts<'_>, needed: Duration) -> bool {
    facts.absent_for.is_some_and(|absent| absent >= needed)
}

/// The outcome, as the pod that ended tells it.
fn outcome_of_pod(facts: &Facts<'_>, at: Option<Timestamp>) -> Option<RunStatus> {
    facts.seen.pods.iter().find_map(|seen| match &seen.pod.end {
        PodEnd::Succeeded(report) if facts.job.is_none() => Some(succeeded(&seen.pod, report, at)),
        // Of one that succeeded the Job says that it failed.
        PodEnd::Open | PodEnd::NeverBound | PodEnd::Succeeded(_) => None,
        PodEnd::Failed(cause) => Some(failure(Some(&seen.pod), cause.clone(), at)),
    })
}

/// Whether it is certain that nothing of a run acts any more. Asked of a Job that failed or is gone.
enum Proof {
    /// It is.
    Over,
    /// It is once neither pods nor an unfinished Job were found for so long.
    OnceAbsentFor(Duration),
    /// It is not; the text says why.
    None(String),
}

fn proof(facts: &Facts<'_>) -> Proof {
    let seen = facts.seen;
    if seen.deleted_held {
        return Proof::Over;
    }
    let recorded = facts.committed.pod.as_ref();
    let recorded = recorded.filter(|pod| seen.pods.iter().all(|known| known.pod.uid != pod.uid));
    if recorded.is_none() && seen.pods.iter().all(never_bound) {
        return never_had_a_pod(facts);
    }
    let vanished = seen.pods.iter().filter(|known| !known.pod.is_over());
    if let Some(there) = vanished.clone().find(|known| known.present) {
        return Proof::None(format!("pod {} was not seen to end", there.pod.name));
    }
    let vanished = vanished.map(|known| PodRef {
        uid: known.pod.uid.clone(),
        node: known.pod.node.clone(),
        node_uid: pod_ref(facts, known).and_then(|pod| pod.node_uid),
    });
    let mut all_over = true;
    for pod in vanished.chain(recorded.cloned()) {
        all_over = false;
        if let Err(why) = stopped_by_its_node(&pod, facts.nodes) {
            return Proof::None(format!("pod {} vanished and {why}", pod.uid));
        }
    }
    if all_over || facts.committed.stop_requested.is_some() {
        return Proof::Over;
    }
    Proof::OnceAbsentFor(Duration::from_secs(NODE_READY_SECONDS))
}

/// No pod was ever bound. The Job controller counts its pods in the Job's status and takes their
/// finalizer only afterwards, so a Job that was seen and counts none had none, but for one that is
/// being created right now: therefore the wait. A Job that finished, or that was deleted after its
/// controller began with it, gets none any more.
fn never_had_a_pod(facts: &Facts<'_>) -> Proof {
    let seen = facts.seen;
    let none_follows = match facts.job {
        Some(job) => job.is_finished(),
        None => seen.started && !seen.pods.is_empty(),
    };
    if none_follows && (!seen.pods.is_empty() || !seen.counted) {
        Proof::Over
    } else if !seen.pods.is_empty() || (seen.job && !seen.counted) {
        Proof::OnceAbsentFor(Duration::from_secs(NO_POD_SECONDS))
    } else {
        Proof::None("no pod of it is known: whether one ran, and ended, was not seen".to_owned())
    }
}

/// A pod that is gone was stopped by its kubelet if its Node is still the same and works.
fn stopped_by_its_node(pod: &PodRef, nodes: &BTreeMap<String, NodeSight>) -> Result<(), String> {
    let Some(name) = &pod.node else {
        return Err("it was not seen whether it was bound to a node".to_owned());
    };
    match (nodes.get(name), &pod.node_uid) {
        (None | Some(NodeSight::Forbidden), _) => {
            Err(format!("Node {name} may not be read: the operator needs the right to get nodes"))
        }
        (Some(NodeSight::Gone), _) => {
            Err(format!("Node {name} was removed: its containers may run on"))
        }
        (_, None) => Err(format!("it is not known which Node {name} was then")),
        (Some(NodeSight::There { uid, .. }), Some(then)) if uid != then => {
            Err(format!("Node {name} was replaced: its containers may run on"))
        }
        (Some(NodeSight::There { ready: false, .. }), _) => {
            Err(format!("Node {name} is not Ready: its containers may run on"))
        }
        (Some(NodeSight::There { ready: true, .. }), _) => Ok(()),
    }
}

#[cfg(test)]
#[path = "observe_tests/mod.rs"]
mod tests;
