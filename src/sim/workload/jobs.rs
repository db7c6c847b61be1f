//! The Job controller.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    Inner, JOB_CONTROLLER, Step, TRACKING, Workload, is_deleting, is_terminal, key_of, uid_of,
};
use crate::sim::{
    Key, Kind,
    api::{Deletion, Request},
};

impl Workload {
    /// The Job controller does nothing for a while, as when it changes its leader: what it was about
    /// to do is forgotten, and it looks at every Job anew.
    pub fn controller_away(&self, lasting: Duration) {
        let until = self.0.time.elapsed() + lasting;
        {
            let mut state = self.0.state();
            state.away_until = state.away_until.max(until);
        }
        self.0.count("Job controller away");
    }
}

impl Inner {
    /// Whether the Job controller is away; then it looks at this Job when it is back.
    fn is_away(&self, job: &Key) -> bool {
        let back = self.state().away_until.saturating_sub(self.time.elapsed());
        if !back.is_zero() {
            self.later(back, Step::Job(job.clone()));
        }
        !back.is_zero()
    }

    /// One sync of a Job.
    pub(super) fn look_at_job(&self, key: &Key) {
        if self.is_away(key) {
            return;
        }
        let Some(job) = self.model.get(key) else { return };
        let Some(uid) = uid_of(&job) else { return };
        if is_deleting(&job) || is_finished(&job) {
            return;
        }
        let pods: Vec<Arc<Value>> =
            self.pods_of(uid).iter().filter_map(|key| self.model.get(key)).collect();
        if job["spec"]["suspend"] == true {
            return self.hold(key, &job, &pods);
        }
        if let Some(pod) = pods.iter().find(|pod| is_terminal(pod)) {
            return self.finish_job(key, pod);
        }
        if pods.is_empty() {
            if self.state().creating.insert(uid.to_owned()) {
                self.soon(Step::CreatePod(job));
            }
        } else if job["status"]["startTime"].is_null() {
            let now = self.now();
            let conditions = self.condition("Suspended", "False", "JobResumed");
            let status = json!({"startTime": now, "active": 1, "conditions": conditions});
            self.write(JOB_CONTROLLER, Request::patch_status(key, json!({"status": status})));
        }
    }

    /// Holds a suspended Job: its pods are ended, and then it is as if there had been none.
    fn hold(&self, key: &Key, job: &Value, pods: &[Arc<Value>]) {
        for pod in pods.iter().filter(|pod| !is_deleting(pod) && !is_terminal(pod)) {
            let pod = key_of(Kind::Pod, pod);
            self.write(JOB_CONTROLLER, Request::delete(&pod, Deletion::default()));
        }
        let ended = pods.iter().all(|pod| is_terminal(pod));
        let known = job["status"]["conditions"].as_array().is_some_and(|all| {
            all.iter().any(|c| c["type"] == "Suspended" && c["status"] == "True")
        });
        if ended && (!known || !job["status"]["startTime"].is_null()) {
            let conditions = self.condition("Suspended", "True", "JobSuspended");
            let status = json!({"startTime": null, "active": 0, "conditions": conditions});
            self.write(JOB_CONTROLLER, Request::patch_status(key, json!({"status": status})));
        }
    }

    fn finish_job(&self, key: &Key, pod: &Value) {
        let succeeded = pod["status"]["phase"] == "Succeeded";
        let disrupted = pod["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "DisruptionTarget"));
        let status = if succeeded {
            let conditions = self.condition("Complete", "True", "CompletionsReached");
            json!({
                "active": 0, "succeeded": 1, "completionTime": self.now(),
                "conditions": conditions,
            })
        } else {
            let reason = if disrupted { "PodFailurePolicy" } else { "BackoffLimitExceeded" };
            let conditions = self.condition("Failed", "True", reason);
            json!({"active": 0, "failed": 1, "conditions": conditions})
        };
        self.write(JOB_CONTROLLER, Request::patch_status(key, json!({"status": status})));
    }

    /// Creates the pod of a Job, whatever became of that Job meanwhile: the controller decided it from
    /// what it saw before.
    pub(super) fn create_pod(&self, job: &Arc<Value>) {
        let Some(uid) = uid_of(job) else { return };
        self.state().creating.remove(uid);
        let key = key_of(Kind::Job, job);
        if self.is_away(&key) {
            return;
        }
        let template = &job["spec"]["template"];
        let mut meta = template["metadata"].clone();
        if !meta.is_object() {
            meta = json!({});
        }
        meta["generateName"] = format!("{}-", key.name).into();
        meta["finalizers"] = json!([TRACKING]);
        meta["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": key.name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }]);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"],
        });
        if self.write(JOB_CONTROLLER, Request::create(Kind::Pod, &key.namespace, pod)) {
            self.soon(Step::Job(key));
        }
    }

    /// The only condition of a Job that is kept: each state has one.
    fn condition(&self, of: &str, status: &str, reason: &str) -> Value {
        let now = self.now();
        json!([{
            "type": of, "status": status, "reason": reason, "message": "",
            "lastProbeTime": now, "lastTransitionTime": now,
        }])
    }

    /// The true time, as objects show it.
    pub(super) fn now(&self) -> Value {
        let now = self.time.wall_at(self.time.elapsed());
        jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string().into()
    }
}

/// Whether a Job is complete or failed.
pub(super) fn is_finished(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|condition| condition["status"] == "True")
        .any(|condition| condition["type"] == "Complete" || condition["type"] == "Failed")
}
