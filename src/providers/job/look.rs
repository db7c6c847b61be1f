//! Looking at a run: the caches first, the API server where something must be proven.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Node, Pod},
};

use super::{
    JobProvider,
    digest::{JobDigest, PodDigest},
    errors::no_answer,
    key,
    observe::{Facts, NodeSight, needs_live_reads, observe},
    sightings::Seen,
};
use crate::{
    api::{ActionClass, LABEL_PARENT_UID},
    cluster::{ApiError, Lookup, ObjectKey, Reader},
    providers::{Committed, ProviderError, RunRequest, RunStatus},
    time::{LeaseClock, LeaseInstant},
};

/// How long the uid of a Node is believed. A Node that is replaced in that time is recorded with its
/// former uid, which later counts as no proof: the safe side.
const NODE_UID_SECONDS: u64 = 60;
/// Most Nodes remembered: the largest clusters Kubernetes supports have 5,000.
const MAX_NODES: usize = 5000;

/// When a Node was read, and its uid unless it is not there or may not be read.
type NodeUid = (LeaseInstant, Option<String>);

/// Uids of Nodes, by name, read a moment ago.
pub(super) struct NodeUids {
    known: Mutex<BTreeMap<String, NodeUid>>,
    clock: LeaseClock,
}

impl NodeUids {
    pub(super) fn new(clock: LeaseClock) -> Self {
        Self { known: Mutex::default(), clock }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, NodeUid>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uid of the Node, or `None` if it cannot be had.
    async fn get(&self, reader: &Reader, name: &str) -> Option<String> {
        let now = self.clock.now();
        let fresh = |at: LeaseInstant| now.since(at) < Duration::from_secs(NODE_UID_SECONDS);
        if let Some((at, uid)) = self.lock().get(name)
            && fresh(*at)
        {
            return uid.clone();
        }
        let uid = match reader.get_cluster::<Node>(name).await {
            Ok(node) => node.and_then(|node| node.metadata.uid),
            Err(ApiError::Forbidden { .. }) => None,
            Err(_) => return None, // asked again at the next look
        };
        let mut known = self.lock();
        if known.len() >= MAX_NODES {
            known.clear();
        }
        known.insert(name.to_owned(), (now, uid.clone()));
        uid
    }
}

/// What a live look found of one Job.
pub(super) struct Found {
    /// The Job, if the one with the handle's uid is there.
    pub(super) job: Option<Job>,
    /// Its pods.
    pub(super) pods: Vec<Pod>,
}

/// What a read that failed means: nothing is known.
pub(super) fn unread(error: &ApiError) -> ProviderError {
    no_answer(error.to_string())
}

impl JobProvider {
    /// How a run stands. Reads the API server only if the answer rests on something being absent, and
    /// once for the Node of each new pod.
    pub async fn status(
        &self,
        request: &RunRequest,
        committed: &Committed,
    ) -> Result<RunStatus, ProviderError> {
        let Some(handle) = &committed.handle else { return Ok(RunStatus::Absent) };
        let key = key(request);
        let job = match self.jobs.lookup(&key) {
            Lookup::Found(job) => JobDigest::of(&job).filter(|job| job.uid == *handle),
            Lookup::Unreadable(_) | Lookup::Absent => None,
        };
        if let Some(job) = &job {
            let seen = self.sightings.note(handle, |seen| seen.saw_job(job));
            let seen = self.with_node(handle, committed, seen).await;
            let nodes = BTreeMap::new();
            let facts = Facts {
                class: request.class,
                committed,
                job: Some(job),
                seen: &seen,
                nodes: &nodes,
                absent_for: None,
            };
            if !needs_live_reads(&facts) {
                return Ok(observe(&facts));
            }
        }
        let found = self.look(handle, &key, &request.parent.uid).await?;
        self.judge_live(request.class, handle, committed, &found).await
    }

    /// Adds the uid of its Node to a pod that is bound and for which none is known.
    async fn with_node(&self, handle: &str, committed: &Committed, seen: Seen) -> Seen {
        let recorded = |uid: &str| {
            committed.pod.as_ref().is_some_and(|pod| pod.uid == uid && pod.node_uid.is_some())
        };
        let lacking = seen
            .pods
            .iter()
            .find(|known| known.present && known.node_uid.is_none() && !recorded(&known.pod.uid));
        let Some((pod, node)) =
            lacking.and_then(|known| Some((known.pod.uid.clone(), known.pod.node.clone()?)))
        else {
            return seen;
        };
        let Some(uid) = self.nodes.get(&self.reader, &node).await else { return seen };
        self.sightings.note(handle, |seen| {
            if let Some(known) = seen.pods.iter_mut().find(|known| known.pod.uid == pod) {
                known.node_uid = Some(uid);
            }
        })
    }

    /// Reads the Job, then its pods: in this order a pod of a Job that is gone is not missed.
    pub(super) async fn look(
        &self,
        handle: &str,
        key: &ObjectKey,
        parent_uid: &str,
    ) -> Result<Found, ProviderError> {
        let job = self.reader.get::<Job>(key).await.map_err(|error| unread(&error))?;
        let job = job.filter(|job| job.metadata.uid.as_deref() == Some(handle));
        let pods = self.pods_of_parent(&key.namespace, parent_uid).await?;
        let mine = |pod: &Pod| {
            PodDigest::of(pod).is_some_and(|pod| pod.job_uid.as_deref() == Some(handle))
        };
        let found = Found { job, pods: pods.into_iter().filter(mine).collect() };
        self.note_live(handle, parent_uid, &found);
        Ok(found)
    }

    /// All pods that carry the label of this parent.
    pub(super) async fn pods_of_parent(
        &self,
        namespace: &str,
        parent_uid: &str,
    ) -> Result<Vec<Pod>, ProviderError> {
        let labels = format!("{LABEL_PARENT_UID}={parent_uid}");
        let listed = self
            .reader
            .list::<Pod>(Some(namespace), Some(&labels))
            .await
            .map_err(|error| unread(&error))?;
        match listed.unreadable.first() {
            None => Ok(listed.items),
            // Taken for absent it would prove what is not so.
            Some(pod) => Err(no_answer(format!("pod {} cannot be read: {}", pod.key, pod.error))),
        }
    }

    /// Notes what a live look found.
    pub(super) fn note_live(&self, handle: &str, parent_uid: &str, found: &Found) {
        let job = found.job.as_ref().and_then(JobDigest::of);
        let pods: Vec<_> = found.pods.iter().filter_map(PodDigest::of).collect();
        let now = self.clock.now();
        self.sightings.note(handle, |seen| {
            seen.parent_uid.get_or_insert_with(|| parent_uid.to_owned());
            seen.saw_live(job.as_ref(), &pods, now);
        });
    }

    /// The status that a live look amounts to. Nodes are read last, so that one that is Ready was so
    /// after its pod had vanished.
    pub(super) async fn judge_live(
        &self,
        class: ActionClass,
        handle: &str,
        committed: &Committed,
        found: &Found,
    ) -> Result<RunStatus, ProviderError> {
        let seen = self.with_node(handle, committed, self.sightings.of(handle)).await;
        let job = found.job.as_ref().and_then(JobDigest::of);
        let mut nodes = BTreeMap::new();
        if job.as_ref().is_none_or(JobDigest::is_finished) {
            let vanished = seen.pods.iter().filter(|known| !known.present && !known.pod.is_over());
            let recorded = committed.pod.iter().filter_map(|pod| pod.node.clone());
            for name in vanished.filter_map(|known| known.pod.node.clone()).chain(recorded) {
                if let Entry::Vacant(place) = nodes.entry(name) {
                    let sight = self.node(place.key()).await?;
                    place.insert(sight);
                }
            }
        }
        let now = self.clock.now();
        Ok(observe(&Facts {
            class,
            committed,
            job: job.as_ref(),
            seen: &seen,
            nodes: &nodes,
            absent_for: seen.absent_since.map(|since| now.since(since)),
        }))
    }

    async fn node(&self, name: &str) -> Result<NodeSight, ProviderError> {
        let node: Node = match self.reader.get_cluster(name).await {
            Ok(Some(node)) => node,
            Ok(None) => return Ok(NodeSight::Gone),
            Err(ApiError::Forbidden { .. }) => return Ok(NodeSight::Forbidden),
            Err(error) => return Err(unread(&error)),
        };
        let Some(uid) = node.metadata.uid else { return Ok(NodeSight::Gone) };
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        Ok(NodeSight::There { uid, ready })
    }
}
