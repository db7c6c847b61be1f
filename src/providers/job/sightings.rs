//! What this process has seen of Jobs and their pods.
//!
//! A pod that ended is often gone within a second, and with it the proof that it ended. Watch events
//! are noted here as they come, so that the proof outlives the pod. Losing a note is safe: without
//! it the end counts as not seen.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};

use super::digest::{JobDigest, PodDigest, PodEnd};
use crate::time::LeaseInstant;

/// Jobs remembered of which neither Job nor pod exists any more. Their runs are judged within
/// seconds; this many end at most in that time. Those that exist are bounded by the cluster itself.
const MAX_GONE: usize = 4096;
/// Pods remembered of one Job. There is one; a second one is already a fault that ends the attempt.
const MAX_PODS: usize = 4;

/// A pod, as it was seen last.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenPod {
    /// Its last state; an end that was seen once stays.
    pub pod: PodDigest,
    /// Uid of its node, read when it was seen bound.
    pub node_uid: Option<String>,
    /// It is there, as far as is known.
    pub present: bool,
}

/// What this process has seen of one Job.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that are seen independently of each other"
)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Uid of its parent.
    pub parent_uid: Option<String>,
    /// The Job is there, as far as is known.
    pub present: bool,
    /// The Job was seen at all.
    pub job: bool,
    /// The Job controller was seen to begin with it (`status.startTime`).
    pub started: bool,
    /// The Job controller was seen to count a pod of it.
    pub counted: bool,
    /// This process deleted exactly the version that was never released: nothing ran.
    pub deleted_held: bool,
    /// More pods than are remembered.
    pub overflow: bool,
    /// Its pods, in the order in which they were seen.
    pub pods: Vec<SeenPod>,
    /// Since when live reads have found no pod, and no Job that could make one.
    pub absent_since: Option<LeaseInstant>,
}

impl Seen {
    /// Notes a state of the Job.
    pub fn saw_job(&mut self, job: &JobDigest) {
        self.job = true;
        self.present = true;
        self.started |= job.started.is_some();
        self.counted |= job.counted;
        if !job.is_finished() {
            self.absent_since = None;
        }
        self.parent_uid = self.parent_uid.take().or_else(|| job.parent_uid.clone());
    }

    /// Notes a state of one of its pods.
    pub fn saw_pod(&mut self, mut pod: PodDigest) {
        self.absent_since = None;
        self.parent_uid = self.parent_uid.take().or_else(|| pod.parent_uid.clone());
        if let Some(known) = self.pods.iter_mut().find(|known| known.pod.uid == pod.uid) {
            if pod.version < known.pod.version {
                return; // a live read was ahead of the watch
            }
            if !pod.is_over() && known.pod.is_over() {
                pod.end = known.pod.end.clone(); // for example the garbage collector wrote over it
            }
            pod.node = pod.node.or_else(|| known.pod.node.take());
            pod.started = pod.started.or(known.pod.started);
            pod.finished = pod.finished.or(known.pod.finished);
            known.pod = pod;
            known.present = true;
        } else if self.pods.len() < MAX_PODS {
            self.pods.push(SeenPod { pod, node_uid: None, present: true });
        } else {
            self.overflow = true;
        }
    }

    /// Notes that a pod is gone. `witnessed`: every state up to the last was seen, so one that was
    /// not bound then was never bound.
    pub fn pod_gone(&mut self, uid: &str, witnessed: bool) {
        if let Some(known) = self.pods.iter_mut().find(|known| known.pod.uid == uid) {
            known.present = false;
            if witnessed && known.pod.node.is_none() && !known.pod.is_over() {
                known.pod.end = PodEnd::NeverBound;
            }
        }
    }

    /// Notes what a live look found: all pods there are, and whether the Job is there.
    pub fn saw_live(&mut self, job: Option<&JobDigest>, pods: &[PodDigest], now: LeaseInstant) {
        let absent_since = self.absent_since;
        for known in &mut self.pods {
            known.present = pods.iter().any(|pod| pod.uid == known.pod.uid);
        }
        for pod in pods {
            self.saw_pod(pod.clone());
        }
        self.present = false;
        if let Some(job) = job {
            self.saw_job(job);
        }
        if pods.is_empty() && job.is_none_or(JobDigest::is_finished) {
            self.absent_since = absent_since.or(Some(now));
        }
    }

    fn is_gone(&self) -> bool {
        !self.present && self.pods.iter().all(|known| !known.present)
    }
}

/// What this process has seen of all Jobs, by their uid; clones share it.
///
/// Feed it from the caches of Jobs and pods: see [`Sightings::job_changed`] and
/// [`Sightings::pod_changed`].
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<String, Seen>,
    /// Uids in the order in which they were last seen to be gone; some may have been forgotten.
    gone: VecDeque<String>,
}

impl Sightings {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every note is complete or absent: nothing in here panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a change of the Job cache.
    pub fn job_changed(&self, old: Option<&Job>, new: Option<&Job>) {
        let uid_of = |job: &Job| job.metadata.uid.clone();
        let now = new.and_then(JobDigest::of);
        if let Some(job) = &now {
            self.note(&job.uid.clone(), |seen| seen.saw_job(job));
        }
        let before = old.and_then(uid_of);
        if let Some(before) = before.filter(|uid| now.as_ref().is_none_or(|job| job.uid != *uid)) {
            self.note_known(&before, |seen| seen.present = false);
        }
    }

    /// Takes a change of the pod cache. `witnessed`: if the pod is gone, its deletion was seen by
    /// watch, in order, and not only its absence in a list.
    pub fn pod_changed(&self, old: Option<&Pod>, new: Option<&Pod>, witnessed: bool) {
        let now = new.and_then(PodDigest::of);
        if let Some(pod) = &now
            && let Some(job) = pod.job_uid.clone()
        {
            self.note(&job, |seen| seen.saw_pod(pod.clone()));
        }
        let Some(before) = old.and_then(PodDigest::of) else { return };
        if now.is_some_and(|pod| pod.uid == before.uid) {
            return;
        }
        // Another pod of the same name says nothing about what happened in between.
        let witnessed = witnessed && new.is_none();
        if let Some(job) = &before.job_uid {
            self.note_known(job, |seen| seen.pod_gone(&before.uid, witnessed));
        }
    }

    /// What was seen of the Job with this uid.
    pub fn of(&self, job_uid: &str) -> Seen {
        self.lock().jobs.get(job_uid).cloned().unwrap_or_default()
    }

    /// Uids of the Jobs seen of this parent.
    pub fn of_parent(&self, parent_uid: &str) -> Vec<String> {
        let state = self.lock();
        // One that was only asked for was not seen.
        let is_ours = |seen: &Seen| {
            seen.parent_uid.as_deref() == Some(parent_uid) && (seen.job || !seen.pods.is_empty())
        };
        let ours = state.jobs.iter().filter(|(_, seen)| is_ours(seen));
        ours.map(|(uid, _)| uid.clone()).collect()
    }

    /// Changes the note of a Job, making one if there is none, and gives it back.
    pub fn note(&self, job_uid: &str, change: impl FnOnce(&mut Seen)) -> Seen {
        let mut state = self.lock();
        let in_line = state.jobs.get(job_uid).is_some_and(Seen::is_gone);
        let seen = state.jobs.entry(job_uid.to_owned()).or_default();
        change(seen);
        let seen = seen.clone();
        if seen.is_gone() && !in_line {
            state.bury(job_uid);
        }
        seen
    }

    /// Changes the note of a Job, if there is one.
    fn note_known(&self, job_uid: &str, change: impl FnOnce(&mut Seen)) {
        let mut state = self.lock();
        let Some(seen) = state.jobs.get_mut(job_uid) else { return };
        let in_line = seen.is_gone();
        change(seen);
        if seen.is_gone() && !in_line {
            state.bury(job_uid);
        }
    }

    /// Drops the note of a Job whose outcome is recorded.
    pub fn forget(&self, job_uid: &str) {
        self.lock().jobs.remove(job_uid);
    }

    /// Number of Jobs remembered.
    pub fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl State {
    /// Puts a Job whose parts are all gone in line to be forgotten.
    fn bury(&mut self, job_uid: &str) {
        self.gone.push_back(job_uid.to_owned());
        // One that came back and went again is in line twice; its last place counts.
        while self.gone.len() > MAX_GONE {
            let Some(oldest) = self.gone.pop_front() else { break };
            if self.jobs.get(&oldest).is_some_and(Seen::is_gone) && !self.gone.contains(&oldest) {
                self.jobs.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
#[path = "sightings_tests.rs"]
mod tests;
