//! Scheduler, kubelets and the node controller.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    COLLECTOR, Execution, Inner, JOB_CONTROLLER, KILLED, NODE, NODES, Step, TRACKING,
    has_finalizer, is_deleting, is_terminal, job_name_of, jobs::is_finished, uid_of,
    without_finalizer,
};
use crate::{
    api::{ANNOTATION_RUN_KEY, LABEL_PARENT_UID, SimulatedOutcome, SimulatedRun},
    sim::{
        Key, Kind, RunChange,
        api::{Deletion, Request},
    },
};

/// How long a run of a hanging container takes: longer than any history.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

impl Inner {
    /// Whoever is concerned looks at a pod.
    pub(super) fn look_at_pod(&self, key: &Key) {
        let Some(pod) = self.model.get(key) else { return };
        if self.is_counted(key, &pod) {
            let finalizers = without_finalizer(&pod, TRACKING);
            let patch = json!({"metadata": {"finalizers": finalizers}});
            self.write(JOB_CONTROLLER, Request::patch(key, patch));
            return;
        }
        let Some(node) = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) else {
            return self.schedule(key, &pod);
        };
        if self.model.get(&Key::new(Kind::Node, "", node)).is_none() {
            return self.collect_nodeless(key, &pod);
        }
        if !self.state().alive.contains(node) {
            return;
        }
        self.sync_containers(key, &pod, node);
    }

    /// Whether the Job controller holds a pod no longer: it was counted, or there is nobody to count.
    fn is_counted(&self, key: &Key, pod: &Value) -> bool {
        if !has_finalizer(pod, TRACKING) {
            return false;
        }
        let name = job_name_of(pod).unwrap_or_default();
        let job = self.model.get(&Key::new(Kind::Job, &*key.namespace, name));
        let own = pod["metadata"]["labels"][super::CONTROLLER_UID].as_str();
        match job.filter(|job| uid_of(job) == own) {
            None => true,
            Some(job) if is_finished(&job) => true,
            // A Job that is held forgets its pods, and one that is deleted counts no more.
            Some(job) => (is_deleting(&job) || job["spec"]["suspend"] == true) && is_terminal(pod),
        }
    }

    fn schedule(&self, key: &Key, pod: &Value) {
        if is_terminal(pod) {
            return;
        }
        if is_deleting(pod) {
            // No node will ever have it: the collector ends it, so that its Job can count it.
            let ended = json!({"status": {"phase": "Failed"}});
            self.write(COLLECTOR, Request::patch_status(key, ended));
            return;
        }
        let ready: Vec<&str> = {
            let state = self.state();
            NODES.into_iter().filter(|node| state.alive.contains(*node)).collect()
        };
        let node = self.state().rng.pick(&ready).copied();
        match node {
            Some(node) => {
                self.write(NODE, Request::patch(key, json!({"spec": {"nodeName": node}})));
            }
            // No node: it waits.
            None => self.later(Duration::from_secs(10), Step::Pod(key.clone())),
        }
    }

    /// A pod whose Node object is gone is marked and removed; what it does nobody knows.
    fn collect_nodeless(&self, key: &Key, pod: &Value) {
        if !is_terminal(pod) {
            self.disrupt(key, "DeletionByPodGC");
            self.write(NODE, Request::patch_status(key, json!({"status": {"phase": "Failed"}})));
        }
        self.force_delete(key);
    }

    /// One sync of a kubelet.
    fn sync_containers(&self, key: &Key, pod: &Value, node: &str) {
        let Some(uid) = uid_of(pod) else { return };
        let known = self.state().executions.iter().find(|e| e.pod_uid == uid).cloned();
        match known {
            None if is_terminal(pod) && !is_deleting(pod) => {}
            None if is_deleting(pod) => self.give_up(key, pod),
            None => self.start(key, pod, uid, node),
            Some(execution) => {
                let execution =
                    if is_deleting(pod) { self.end(uid, KILLED) } else { Some(execution) };
                let Some(execution) = execution else { return };
                if let Some((at, code)) = execution.ended
                    && !is_terminal(pod)
                {
                    self.report_end(key, pod, &execution, at, code);
                }
                if is_deleting(pod) {
                    self.force_delete(key);
                }
            }
        }
    }

    /// A kubelet is told to end a pod of which it has started nothing.
    fn give_up(&self, key: &Key, pod: &Value) {
        if !is_terminal(pod) {
            let unknown = json!({"terminated": {
                "exitCode": KILLED, "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the pod was terminated",
            }});
            let status = json!({"phase": "Failed", "containerStatuses": containers(pod, &unknown)});
            self.write(NODE, Request::patch_status(key, json!({"status": status})));
        }
        self.force_delete(key);
    }

    fn start(&self, key: &Key, pod: &Value, uid: &str, node: &str) {
        let now = self.time.elapsed();
        let job = job_name_of(pod).unwrap_or_default().to_owned();
        let (kind, name, attempt) = attempt_of(&job);
        let does = self.provider.behaviour(name, attempt, &SimulatedRun::default());
        let (code, takes) = match does.outcome {
            SimulatedOutcome::Succeeded | SimulatedOutcome::Unknown => (0, does.duration),
            SimulatedOutcome::Failed if does.reason == "Crash" => (42, does.duration),
            SimulatedOutcome::Failed => (1, does.duration),
            SimulatedOutcome::Hang => (0, FOR_EVER),
        };
        let message = match does.outcome {
            SimulatedOutcome::Unknown => "this is no JSON".to_owned(),
            SimulatedOutcome::Failed => json!({"reason": does.reason}).to_string(),
            _ => json!({"result": does.result}).to_string(),
        };
        let owner = pod["metadata"]["labels"][super::CONTROLLER_UID].as_str().unwrap_or_default();
        let execution = Execution {
            namespace: key.namespace.clone(),
            parent: parent_of(key, pod, kind, name),
            job_uid: owner.to_owned(),
            pod_uid: uid.to_owned(),
            node: node.to_owned(),
            started: now,
            ended: None,
            message,
            job,
        };
        {
            let mut state = self.state();
            state.executions.push(execution);
            let index = state.executions.len() - 1;
            state.tell(now, index, RunChange::Started);
        }
        let pod_uid = uid.to_owned();
        self.later(takes, Step::ContainerEnds { pod_uid, pod: key.clone(), code });
        let at = self.now();
        let shown = containers(pod, &json!({"running": {"startedAt": at}}));
        let status = json!({"phase": "Running", "startTime": at, "containerStatuses": shown});
        self.write(NODE, Request::patch_status(key, json!({"status": status})));
    }

    /// A container ends, if it still runs; gives what is known of it.
    fn end(&self, pod_uid: &str, code: i32) -> Option<Execution> {
        let now = self.time.elapsed();
        let mut state = self.state();
        let index = state.executions.iter().position(|e| e.pod_uid == pod_uid)?;
        state.end(now, index, code);
        state.executions.get(index).cloned()
    }

    /// A container has done its work. Whether anybody hears of it is its node's affair.
    pub(super) fn container_ends(&self, pod_uid: &str, pod: &Key, code: i32) {
        self.end(pod_uid, code);
        self.look_at_pod(pod);
    }

    fn report_end(&self, key: &Key, pod: &Value, execution: &Execution, at: Duration, code: i32) {
        let stamp = |at: Duration| {
            let at = self.time.wall_at(at);
            jiff::Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
        };
        let reason = if code == 0 { "Completed" } else { "Error" };
        let message = if code == KILLED { "" } else { &execution.message };
        let ended = json!({"terminated": {
            "exitCode": code, "reason": reason, "message": message,
            "startedAt": stamp(execution.started), "finishedAt": stamp(at),
        }});
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let status = json!({"phase": phase, "containerStatuses": containers(pod, &ended)});
        self.write(NODE, Request::patch_status(key, json!({"status": status})));
    }

    /// A container whose pod is gone is killed, if its node works.
    pub(super) fn kill_stray(&self, pod_uid: &str) {
        let alive = {
            let state = self.state();
            let of = state.executions.iter().find(|e| e.pod_uid == pod_uid);
            of.is_some_and(|execution| state.alive.contains(&execution.node))
        };
        if alive {
            self.end(pod_uid, KILLED);
        }
    }

    /// A node that works again kills the containers whose pods are gone.
    pub(super) fn kill_strays(&self, node: &str) {
        let running: Vec<String> = {
            let state = self.state();
            let on = state.executions.iter().filter(|e| e.node == node && e.ended.is_none());
            on.map(|execution| execution.pod_uid.clone()).collect()
        };
        let pods = self.model.list(Kind::Pod);
        for pod_uid in running {
            if !pods.iter().any(|pod| uid_of(pod) == Some(&*pod_uid)) {
                self.soon(Step::KillContainer { pod_uid });
            }
        }
    }

    pub(super) fn node_condition(&self, node: &str, status: &str, reason: &str) {
        let now = self.now();
        let ready = json!([{
            "type": "Ready", "status": status, "reason": reason, "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }]);
        let patch = json!({"status": {"conditions": ready}});
        self.write(NODE, Request::patch_status(&Key::new(Kind::Node, "", node), patch));
    }

    pub(super) fn node_silent(&self, node: &str) {
        if !self.state().alive.contains(node) {
            self.node_condition(node, "Unknown", "NodeStatusUnknown");
        }
    }

    /// The pods of a lost node are told to go; nobody is there to do it.
    pub(super) fn evict_from(&self, node: &str) {
        if self.state().alive.contains(node) {
            return;
        }
        for key in self.pods_on(node) {
            self.disrupt(&key, "DeletionByTaintManager");
            self.write(COLLECTOR, Request::delete(&key, Deletion::default()));
        }
    }

    /// Marks a pod as ended from outside.
    pub(super) fn disrupt(&self, key: &Key, reason: &str) {
        let now = self.now();
        let conditions = json!([{
            "type": "DisruptionTarget", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": now,
        }]);
        let patch = json!({"status": {"conditions": conditions}});
        self.write(COLLECTOR, Request::patch_status(key, patch));
    }
}

/// What a Job is an attempt of, by its name: kind and name of the object, and the number. `-m1` ends
/// the name of an occurrence's attempt, `-r1` that of a report job's; anything else is nobody's.
pub(super) fn attempt_of(job: &str) -> (Kind, &str, i32) {
    let numbered = |(name, number): (_, &str)| Some((name, number.parse().ok()?));
    let (maintenance, report) = (job.rsplit_once("-m"), job.rsplit_once("-r"));
    if let Some((name, number)) = report.and_then(numbered) {
        return (Kind::ReportJob, name, number);
    }
    let (name, number) = maintenance.and_then(numbered).unwrap_or((job, 1));
    (Kind::MaintenanceOccurrence, name, number)
}

/// The object that a pod works for, its uid, and the run key, as the pod itself says.
fn parent_of(key: &Key, pod: &Value, kind: Kind, name: &str) -> (Key, String, String) {
    let parent = Key::new(kind, &*key.namespace, name);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &pod["metadata"];
    let uid = text(&meta["labels"][LABEL_PARENT_UID]);
    (parent, uid, text(&meta["annotations"][ANNOTATION_RUN_KEY]))
}

/// All containers of a pod in one state.
fn containers(pod: &Value, state: &Value) -> Value {
    let names = pod["spec"]["containers"].as_array().into_iter().flatten();
    let one = |container: &Value| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": "",
            "ready": false, "restartCount": 0, "state": state,
        })
    };
    names.map(one).collect()
}
