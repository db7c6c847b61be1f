//! Ending what runs for a parent that is gone or being deleted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;

use super::{
    JobProvider,
    digest::{JobDigest, PodDigest},
    errors::no_answer,
    look::{Found, unread},
};
use crate::{
    api::{ActionClass, LABEL_PARENT_UID},
    authority::Permit,
    cluster::ObjectKey,
    providers::{CancelStep, Committed, Orphan, Orphans, ProviderError, RunStatus},
};

impl JobProvider {
    /// Stops every Job of a parent that is gone or being deleted, which counts as a request to stop,
    /// and says whether all of them are proven over. Call it until they are.
    pub async fn stop_orphans(
        &self,
        permit: &Permit,
        orphan: &Orphan,
    ) -> Result<Orphans, ProviderError> {
        let runs = self.find(orphan).await?;
        if runs.is_empty() {
            return Ok(nothing_found(orphan));
        }
        let mut left = Vec::new();
        for (handle, found) in &runs {
            if let Some(why) = self.stop_orphan(permit, orphan, handle, found).await? {
                left.push(why);
            }
        }
        if left.is_empty() {
            Ok(Orphans::Over)
        } else {
            Ok(Orphans::NotYet { message: left.join("; ") })
        }
    }

    /// Everything that is or was known to run for the parent, by the uid of its Job.
    async fn find(&self, orphan: &Orphan) -> Result<BTreeMap<String, Found>, ProviderError> {
        let labels = format!("{LABEL_PARENT_UID}={}", orphan.parent_uid);
        let jobs = self
            .reader
            .list::<Job>(Some(&orphan.namespace), Some(&labels))
            .await
            .map_err(|error| unread(&error))?;
        if let Some(job) = jobs.unreadable.first() {
            return Err(no_answer(format!("Job {} cannot be read: {}", job.key, job.error)));
        }
        // Jobs first: in this order a pod of a Job that is gone is not missed.
        let pods = self.pods_of_parent(&orphan.namespace, &orphan.parent_uid).await?;
        let mut runs: BTreeMap<String, Found> = BTreeMap::new();
        let empty = || Found { job: None, pods: Vec::new() };
        for job in jobs.items {
            if let Some(uid) = job.metadata.uid.clone() {
                runs.entry(uid).or_insert_with(empty).job = Some(job);
            }
        }
        for pod in pods {
            if let Some(uid) = PodDigest::of(&pod).and_then(|pod| pod.job_uid) {
                runs.entry(uid).or_insert_with(empty).pods.push(pod);
            }
        }
        let recorded = orphan.attempts.iter().flatten().filter_map(|known| known.handle.clone());
        for uid in self.sightings.of_parent(&orphan.parent_uid).into_iter().chain(recorded) {
            runs.entry(uid).or_insert_with(empty);
        }
        for (handle, found) in &runs {
            self.note_live(handle, &orphan.parent_uid, found);
        }
        Ok(runs)
    }

    /// Takes the next step of ending one of them. Gives back why it is not over yet.
    async fn stop_orphan(
        &self,
        permit: &Permit,
        orphan: &Orphan,
        handle: &str,
        found: &Found,
    ) -> Result<Option<String>, ProviderError> {
        let committed = committed(orphan, handle);
        // A finished Job is left to the garbage collector: nobody is there to record its outcome.
        let finished = found.job.as_ref().and_then(JobDigest::of).is_some_and(|j| j.is_finished());
        if !finished {
            match self.stop(permit, found, true).await {
                Ok(CancelStep::Asked) | Err(ProviderError::Conflict(_)) => {}
                Ok(CancelStep::Waits { message }) => return Ok(Some(message)),
                Err(error) => return Err(error),
            }
        }
        Ok(match self.judge_live(orphan.class, handle, &committed, found).await? {
            RunStatus::Absent | RunStatus::Succeeded { .. } | RunStatus::Failed { .. } => None,
            RunStatus::Unknown { message, .. } => Some(message),
            RunStatus::Held
            | RunStatus::Released { .. }
            | RunStatus::Running { .. }
            | RunStatus::Stopping
            | RunStatus::StoppedByOthers { .. } => Some(format!("{} is being ended", name(found))),
        })
    }
}

fn name(found: &Found) -> String {
    let job = found.job.as_ref().map(|job| ObjectKey::of(&job.metadata));
    let pod = found.pods.first().map(|pod| ObjectKey::of(&pod.metadata));
    match (job, pod) {
        (Some(job), _) => format!("Job {job}"),
        (None, Some(pod)) => format!("pod {pod}"),
        (None, None) => "its run".to_owned(),
    }
}

/// What is recorded of the attempt with this handle. Its parent is gone, so a stop is requested; when
/// does not matter.
fn committed(orphan: &Orphan, handle: &str) -> Committed {
    let recorded = orphan.attempts.iter().flatten();
    let known = recorded.into_iter().find(|known| known.handle.as_deref() == Some(handle));
    let known = known.cloned().unwrap_or_default();
    Committed {
        handle: Some(handle.to_owned()),
        stop_requested: known.stop_requested.or(Some(Timestamp::UNIX_EPOCH)),
        pod: known.pod,
    }
}

/// Neither Job nor pod nor a memory of one.
fn nothing_found(orphan: &Orphan) -> Orphans {
    match (&orphan.attempts, orphan.class) {
        // Its last version is known, and no attempt was committed.
        (Some(_), _) | (None, ActionClass::ReadOnly | ActionClass::Idempotent) => Orphans::Over,
        (None, ActionClass::Fenced) => Orphans::NotYet {
            message: "the object was deleted before this leader saw it, and nothing shows whether \
                      its run is over; once it is, add its uid to spec.abandon"
                .to_owned(),
        },
    }
}
