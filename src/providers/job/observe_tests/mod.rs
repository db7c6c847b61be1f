use super::*;
use crate::{
    api::ResultValue,
    providers::{Waiting, job::fixtures},
    time::LeaseInstant,
};

mod proof;
mod standing;

const START: &str = "2026-11-29T02:00:05Z";
const RELEASED: &str = "metadata: {annotations: {punctual.dev/released: '7'}}";
const BEGUN: &str = "startTime: '2026-11-29T02:00:01Z'";

/// A case under construction.
struct Case {
    class: ActionClass,
    committed: Committed,
    job: Option<JobDigest>,
    seen: Seen,
    nodes: BTreeMap<String, NodeSight>,
    absent_for: Option<u64>,
}

/// A committed Fenced run of which nothing is there and nothing was seen.
fn case() -> Case {
    let committed = Committed { handle: Some("job-1".into()), ..Committed::default() };
    Case {
        class: ActionClass::Fenced,
        committed,
        job: None,
        seen: Seen::default(),
        nodes: BTreeMap::new(),
        absent_for: None,
    }
}

impl Case {
    fn class(mut self, class: ActionClass) -> Self {
        self.class = class;
        self
    }

    fn stop_requested(mut self) -> Self {
        self.committed.stop_requested = Some(START.parse().unwrap());
        self
    }

    fn recorded(mut self, uid: &str, node: &str, node_uid: Option<&str>) -> Self {
        self.committed.pod = Some(PodRef {
            uid: uid.into(),
            node: Some(node.into()),
            node_uid: node_uid.map(Into::into),
        });
        self
    }

    /// The Job is there like this.
    fn job(mut self, yaml: &str) -> Self {
        let job = fixtures::job(yaml);
        self.seen.saw_job(&job);
        self.job = Some(job);
        self
    }

    /// The Job was there like this, and is gone.
    fn job_was(mut self, yaml: &str) -> Self {
        self.seen.saw_job(&fixtures::job(yaml));
        self.seen.present = false;
        self
    }

    /// A pod is there like this.
    fn pod(mut self, yaml: &str) -> Self {
        self.seen.saw_pod(fixtures::pod(yaml));
        self
    }

    /// A pod was there like this, and is gone; its node was read then.
    fn pod_was(mut self, yaml: &str, node_uid: &str) -> Self {
        let pod = fixtures::pod(yaml);
        let uid = pod.uid.clone();
        self.seen.saw_pod(pod);
        let known = self.seen.pods.iter_mut().find(|known| known.pod.uid == uid).unwrap();
        known.node_uid = Some(node_uid.into());
        self.seen.pod_gone(&uid, false);
        self
    }

    fn node(mut self, name: &str, sight: NodeSight) -> Self {
        self.nodes.insert(name.into(), sight);
        self
    }

    fn ready(self, name: &str, uid: &str) -> Self {
        self.node(name, NodeSight::There { uid: uid.into(), ready: true })
    }

    fn absent_for(mut self, seconds: u64) -> Self {
        self.absent_for = Some(seconds);
        self
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            class: self.class,
            committed: &self.committed,
            job: self.job.as_ref(),
            seen: &self.seen,
            nodes: &self.nodes,
            absent_for: self.absent_for.map(Duration::from_secs),
        }
    }

    /// The status in one line: kind, and what tells it apart.
    fn says(&self) -> String {
        match observe(&self.facts()) {
            RunStatus::Held => "Held".into(),
            RunStatus::Released { pod, waiting } => {
                let pod = pod.map(|pod| format!(" {}", pod.uid)).unwrap_or_default();
                let why = waiting.map(|w: Waiting| format!(" {}", w.reason)).unwrap_or_default();
                format!("Released{pod}{why}")
            }
            RunStatus::Running { started, pod } => {
                let pod = pod.map(|pod| format!(" {pod:?}")).unwrap_or_default();
                assert_eq!(started.to_string(), START);
                format!("Running{pod}").replace("PodRef ", "")
            }
            RunStatus::Succeeded { result_lost, .. } if result_lost => "Succeeded, lost".into(),
            RunStatus::Succeeded { .. } => "Succeeded".into(),
            RunStatus::Failed { reason, class, .. } => format!("Failed {reason} {class:?}"),
            RunStatus::Absent => "Absent".into(),
            RunStatus::Stopping => "Stopping".into(),
            RunStatus::Unknown { reason, message } => {
                assert!(message.len() > 20, "a sentence: {message}");
                format!("Unknown {reason}")
            }
            RunStatus::StoppedByOthers { .. } => "StoppedByOthers".into(),
        }
    }
}

/// Runs a table of `description => case, expected`.
fn check<const N: usize>(table: [(&str, Case, &str); N]) {
    for (description, case, expected) in table {
        assert_eq!(case.says(), expected, "{description}");
    }
}

fn pod_in(phase: &str, state: &str, more: &str) -> String {
    format!(
        "{{spec: {{nodeName: n1}}, status: {{phase: {phase}, containerStatuses: [{{name: main, \
         ready: true, restartCount: 0, image: x, imageID: x, state: {state}}}]{more}}}}}"
    )
}

fn running() -> String {
    pod_in("Running", &format!("{{running: {{startedAt: '{START}'}}}}"), "")
}

fn ended(code: i32) -> String {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    pod_in(phase, &format!("{{terminated: {{exitCode: {code}, startedAt: '{START}'}}}}"), "")
}

fn unbound() -> String {
    "{status: {phase: Pending}}".into()
}

fn never_bound() -> String {
    "{metadata: {deletionTimestamp: '2026-11-29T02:01:00Z'}, status: {phase: Pending}}".into()
}

fn job_with(status: &str) -> String {
    format!("{{{RELEASED}, spec: {{suspend: false}}, status: {{{BEGUN}, {status}}}}}")
}

fn complete_job() -> String {
    job_with("succeeded: 1, conditions: [{type: Complete, status: 'True'}]")
}

fn failed_job(reason: &str) -> String {
    job_with(&format!(
        "failed: 1, conditions: [{{type: Failed, status: 'True', reason: {reason}}}]"
    ))
}
