//! Runs as batch/v1 Jobs.
//!
//! Decisions are pure and live in the files below; [`JobProvider`] is the hands. It reads the Job
//! cache and its own [`Sightings`] for what happens all the time, and the API server wherever a
//! decision rests on something being absent.

pub mod adopt;
pub mod build;
pub mod digest;
mod errors;
mod look;
pub mod observe;
mod orphans;
pub mod report;
pub mod sightings;
pub mod stop;

use std::sync::Arc;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::api::PropagationPolicy;

use self::{
    adopt::{Existing, ReleaseStep, judge, release_step},
    build::manifest,
    digest::JobDigest,
    errors::{Refusal, no_answer, on_create, on_write},
    look::{NodeUids, unread},
    stop::{StopStep, left_behind, stop_step},
};
pub use self::{digest::LABEL_CONTROLLER_UID, sightings::Sightings};
use super::{Acceptance, CancelStep, Committed, Prepared, ProviderError, RunRequest};
use crate::{
    authority::{Permit, Sealed},
    cluster::{
        ApiError, Cache, Change, Created, Deletion, FencedWriter, ObjectKey, Raw, Reader,
        WriteError,
    },
    time::LeaseClock,
};

/// How often a release reads the Job anew after a conflict. Right after a Job is created its
/// controller writes its status once or twice; whoever conflicts more often is asked again later.
const RELEASE_TRIES: usize = 3;

/// Runs Jobs.
pub struct JobProvider {
    reader: Reader,
    writer: Arc<FencedWriter>,
    jobs: Cache<Job>,
    sightings: Sightings,
    clock: LeaseClock,
    nodes: NodeUids,
}

impl Sightings {
    /// Takes a change of the Job cache; call it from that cache's listener.
    pub fn on_job(&self, change: &Change<'_, Job>) {
        self.job_changed(change.old, change.new);
    }

    /// Takes a change of the pod cache; call it from that cache's listener.
    pub fn on_pod(&self, change: &Change<'_, Pod>) {
        self.pod_changed(change.old, change.new, change.witnessed);
    }
}

impl JobProvider {
    /// A provider that writes through `writer`. `jobs` caches the Jobs that carry the label of a
    /// parent, and its listener and that of the pod cache feed `sightings`. `clock` measures how long
    /// something has been absent.
    pub fn new(
        reader: Reader,
        writer: Arc<FencedWriter>,
        jobs: Cache<Job>,
        sightings: Sightings,
        clock: LeaseClock,
    ) -> Self {
        let nodes = NodeUids::new(clock.clone());
        Self { reader, writer, jobs, sightings, clock, nodes }
    }

    /// What this process has seen of Jobs and pods.
    pub fn sightings(&self) -> &Sightings {
        &self.sightings
    }

    /// Whether there is a Job of this parent that is neither finished nor being deleted, as far as the
    /// cache shows; its second key must be the parent's uid.
    pub fn acts_for(&self, parent_uid: &str) -> bool {
        self.jobs
            .by_index(parent_uid)
            .iter()
            .any(|job| JobDigest::of(job).is_some_and(|job| !job.is_finished() && !job.deleting))
    }

    /// Creates the suspended Job of an attempt for which nothing is committed yet, or takes over the
    /// one that exists. The handle is the Job's uid.
    pub async fn prepare<P>(
        &self,
        parent: &Sealed<P>,
        request: &RunRequest,
    ) -> Result<Prepared, ProviderError> {
        let job = match wanted(request) {
            Ok(job) => job,
            Err(message) => return Ok(Prepared::Refused { message }),
        };
        match self.writer.create(parent.permit(), &job).await {
            Ok(Created::New(created)) => self.ready(&typed(&created)?),
            Ok(Created::Existing(existing)) => {
                self.existing(parent, request, &typed(&existing)?).await
            }
            Err(error) => match on_create(error)? {
                Refusal::ForGood(message) => Ok(Prepared::Refused { message }),
                Refusal::ForNow(message) => Ok(Prepared::NotYet { message }),
            },
        }
    }

    fn ready(&self, job: &Job) -> Result<Prepared, ProviderError> {
        let digest = self.note(job);
        let handle =
            digest.ok_or_else(|| no_answer("the API server answered a Job without uid"))?;
        Ok(Prepared::Ready { handle: handle.uid })
    }

    /// Notes an own write, or a live read, of a Job.
    fn note(&self, job: &Job) -> Option<JobDigest> {
        let digest = JobDigest::of(job)?;
        self.jobs.observe(job.clone());
        self.sightings.note(&digest.uid, |seen| seen.saw_job(&digest));
        Some(digest)
    }

    /// The name is taken.
    async fn existing<P>(
        &self,
        parent: &Sealed<P>,
        request: &RunRequest,
        job: &Job,
    ) -> Result<Prepared, ProviderError> {
        let name = &request.attempt_name;
        let not_yet = |message: String| Ok(Prepared::NotYet { message });
        match judge(job, request) {
            Existing::Own => self.ready(job),
            Existing::Adoptable => {
                let adopted = self.writer.adopt_job(parent, job).await.map_err(on_write)?;
                self.ready(&adopted)
            }
            Existing::Leaving => not_yet(format!("Job {name} is being deleted")),
            Existing::OfNewerTerm => {
                not_yet(format!("Job {name} was made in a newer term; it is left alone"))
            }
            Existing::Outdated => {
                self.delete(parent.permit(), job).await?;
                not_yet(format!("Job {name} was made from another template and is removed first"))
            }
            Existing::OutdatedAndLetRun => Ok(Prepared::NameConflict {
                message: format!(
                    "Job {name} was made for this attempt from another template and somebody let it \
                     run; delete it once its work is over"
                ),
            }),
            Existing::OfFormerParent => {
                let digest = JobDigest::of(job);
                let why = match stop_step(digest.as_ref(), true) {
                    StopStep::DeleteJob => {
                        self.delete(parent.permit(), job).await?;
                        "it is removed first".to_owned()
                    }
                    StopStep::Wait(why) => why,
                    StopStep::UnderWay | StopStep::Gone => "it is going away".to_owned(),
                };
                let kind = &request.parent.kind;
                not_yet(format!("Job {name} belongs to a deleted {kind} of the same name; {why}"))
            }
            Existing::Foreign => Ok(Prepared::NameConflict {
                message: format!(
                    "Job {name} exists and was not made by Punctual; rename or delete it"
                ),
            }),
        }
    }

    /// Asks the API server whether it would accept the Job, without creating it.
    pub async fn accept(&self, request: &RunRequest) -> Result<Acceptance, ProviderError> {
        let job = match wanted(request) {
            Ok(job) => job,
            Err(message) => return Ok(Acceptance::Refused { message }),
        };
        match self.writer.dry_run_create(&job).await {
            // Validation comes before the name is looked up.
            Ok(_) | Err(WriteError::Api(ApiError::AlreadyExists)) => Ok(Acceptance::Accepted),
            Err(error) => match on_create(error)? {
                Refusal::ForGood(message) => Ok(Acceptance::Refused { message }),
                Refusal::ForNow(message) => Ok(Acceptance::NotYet { message }),
            },
        }
    }

    /// Lets the committed Job run. Only `parent`, sealed in this term and recording `handle`, gives
    /// the right to. Calling it again changes nothing.
    pub async fn release<P>(
        &self,
        parent: &Sealed<P>,
        request: &RunRequest,
        handle: &str,
    ) -> Result<(), ProviderError> {
        let key = key(request);
        let is_handle = |job: &Job| job.metadata.uid.as_deref() == Some(handle);
        let mut job = self.jobs.get(&key).filter(|job| is_handle(job));
        let mut last = ProviderError::Conflict(format!("Job {} keeps changing", key.name));
        for _ in 0..RELEASE_TRIES {
            if job.is_none() {
                let read = self.reader.get::<Job>(&key).await.map_err(|error| unread(&error))?;
                job = read.filter(|job| is_handle(job)).map(Arc::new);
            }
            let digest = job.as_deref().and_then(JobDigest::of);
            let had_a_pod = !self.sightings.of(handle).pods.is_empty();
            match release_step(digest.as_ref(), had_a_pod) {
                ReleaseStep::Done => return Ok(()),
                ReleaseStep::Impossible(why) => return Err(ProviderError::Conflict(why)),
                ReleaseStep::Patch => {}
            }
            let Some(known) = job.take() else { break };
            match self.writer.release_job(parent, &known).await.map_err(on_write) {
                Ok(released) => {
                    self.note(&released);
                    return Ok(());
                }
                Err(conflict @ ProviderError::Conflict(_)) => last = conflict,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Takes the next step of ending a committed run; call it until its status says that it is over.
    ///
    /// The stop must be recorded in the sealed parent first. `outcome_recorded` says that the attempt
    /// is decided, so that a finished Job is no longer needed.
    pub async fn cancel(
        &self,
        permit: &Permit,
        request: &RunRequest,
        committed: &Committed,
        outcome_recorded: bool,
    ) -> Result<CancelStep, ProviderError> {
        let Some(handle) = &committed.handle else { return Ok(CancelStep::Asked) };
        if committed.stop_requested.is_none() && !outcome_recorded {
            let why = "a run is stopped only after the request is recorded".to_owned();
            return Err(ProviderError::Conflict(why));
        }
        let key = key(request);
        let leaving = |job: &Arc<Job>| {
            job.metadata.uid.as_ref() == Some(handle) && job.metadata.deletion_timestamp.is_some()
        };
        if self.jobs.get(&key).is_some_and(|job| leaving(&job)) {
            return Ok(CancelStep::Asked);
        }
        let found = self.look(handle, &key, &request.parent.uid).await?;
        self.stop(permit, &found, outcome_recorded).await
    }

    /// Takes the next step of ending what a live look found.
    async fn stop(
        &self,
        permit: &Permit,
        found: &look::Found,
        outcome_recorded: bool,
    ) -> Result<CancelStep, ProviderError> {
        let digest = found.job.as_ref().and_then(JobDigest::of);
        if let Some(job) = &found.job {
            match stop_step(digest.as_ref(), outcome_recorded) {
                StopStep::DeleteJob => self.delete(permit, job).await?,
                StopStep::Wait(message) => return Ok(CancelStep::Waits { message }),
                StopStep::UnderWay | StopStep::Gone => {}
            }
        }
        let digests: Vec<_> = found.pods.iter().filter_map(digest::PodDigest::of).collect();
        for orphan in left_behind(digest.as_ref(), &digests) {
            let is_it = |pod: &&Pod| pod.metadata.uid.as_ref() == Some(&orphan.uid);
            if let Some(pod) = found.pods.iter().find(is_it) {
                self.writer
                    .delete(permit, pod, PropagationPolicy::Background)
                    .await
                    .map_err(on_write)?;
            }
        }
        Ok(CancelStep::Asked)
    }

    /// Deletes exactly this version of a Job, its pods first: the API's default orphans them.
    async fn delete(&self, permit: &Permit, job: &Job) -> Result<(), ProviderError> {
        let deletion = self
            .writer
            .delete(permit, job, PropagationPolicy::Foreground)
            .await
            .map_err(on_write)?;
        if deletion == Deletion::Accepted
            && let Some(digest) = JobDigest::of(job)
        {
            self.sightings.note(&digest.uid, |seen| {
                let inert = digest.is_held() && digest.started.is_none() && seen.pods.is_empty();
                seen.deleted_held |= inert && !digest.counted && !seen.counted;
            });
        }
        Ok(())
    }
}

/// The Job that a request asks for, or why there can be none.
fn wanted(request: &RunRequest) -> Result<Raw<Job>, String> {
    let manifest = manifest(request).map_err(|refused| refused.to_string())?;
    serde_json::from_value(manifest)
        .map_err(|error| format!("run.job.template cannot be made into a Job: {error}"))
}

fn key(request: &RunRequest) -> ObjectKey {
    ObjectKey::new(&request.parent.namespace, &request.attempt_name)
}

/// A Job as this program knows it, from one that keeps everything.
fn typed(raw: &Raw<Job>) -> Result<Job, ProviderError> {
    serde_json::to_value(raw)
        .and_then(serde_json::from_value)
        .map_err(|error| no_answer(format!("the API server answered an unreadable Job: {error}")))
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
#[path = "hands_tests/mod.rs"]
mod tests;
