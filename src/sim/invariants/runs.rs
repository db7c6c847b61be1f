//! What really ran, and when it could act.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

use super::{
    Blame, Case, Invariant,
    admissions::Admissions,
    claims::Claims,
    facts::{self, Store},
};
use crate::sim::{Key, Kind, RunChange, RunEvent, Verb};

/// A run as it really stands.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, in any combination")]
pub(super) struct Run {
    /// When it was first released.
    pub(super) released: Option<Duration>,
    /// When it was known to act no more, by an event.
    pub(super) ended: Option<Duration>,
    /// Whether it was seen to act, by an event; then only an event ends it.
    executing: bool,
    /// For a Job: when it was finished or gone.
    pub(super) job_over: Option<Duration>,
    is_job: bool,
    /// Pods of the Job that are not over.
    pods: BTreeSet<String>,
    /// Every pod that the Job ever had.
    had: BTreeSet<String>,
    /// Name and uid of the node of each pod, by the pod's uid.
    nodes: BTreeMap<String, (String, String)>,
    /// Pods that are gone.
    vanished: BTreeSet<String>,
    /// Whether a pod succeeded and what it reported is no JSON.
    garbled: bool,
    /// Whether it was asked to stop.
    told: bool,
    /// Whether its provider has forgotten it.
    pub(super) lost: bool,
    parent_uid: String,
}

impl Run {
    /// Whether it was released and may still do something.
    fn acts(&self) -> bool {
        if self.released.is_none() || self.ended.is_some() {
            return false;
        }
        self.executing || !self.is_job || self.job_over.is_none() || !self.pods.is_empty()
    }

    /// Whether its Job had more than one pod, so that nobody but a person can say what that did.
    pub(super) fn was_doubled(&self) -> bool {
        self.had.len() > 1
    }

    /// Whether a pod of its Job is gone, and its node is gone or another one since: whoever did not see
    /// the pod over before cannot say any more whether its containers act.
    pub(super) fn has_lost_its_proof(&self, store: &Store) -> bool {
        let stands = |(name, uid): &(String, String)| {
            store.get(&Key::new(Kind::Node, "", name.clone())).is_some_and(|n| facts::uid(n) == uid)
        };
        let mut nodes = self.vanished.iter().filter_map(|pod| self.nodes.get(pod));
        nodes.any(|node| !stands(node))
    }

    /// Whether this pod was on the Node with this uid, as far as anybody knows.
    pub(super) fn was_on(&self, pod: &str, node_uid: &str) -> bool {
        node_uid.is_empty() || self.nodes.get(pod).is_none_or(|(_, uid)| uid == node_uid)
    }

    /// Whether nothing can be read of what it delivered.
    pub(super) fn has_lost_its_report(&self) -> bool {
        self.garbled || self.has_lost_its_pods()
    }

    /// Whether all pods that its Job ever had are gone, and with them what they reported.
    pub(super) fn has_lost_its_pods(&self) -> bool {
        !self.had.is_empty() && self.had.is_subset(&self.vanished)
    }

    /// When a released run was over.
    pub(super) fn over(&self) -> Option<Duration> {
        (self.released.is_some() && !self.acts()).then(|| self.ended.max(self.job_over)).flatten()
    }
}

/// Whether a container of a pod left a message that is no JSON.
fn is_garbled(pod: &Value) -> bool {
    facts::list(pod, "/status/containerStatuses").iter().any(|container| {
        let message = facts::text(container, "/state/terminated/message");
        !message.is_empty() && serde_json::from_str::<Value>(message).is_err()
    })
}

/// How the work of an identity ended.
struct Ended {
    at: Duration,
    /// Whether a person has deleted the record of it since.
    forgotten: bool,
}

/// The start decisions that a release is judged by.
#[derive(Clone, Copy)]
pub(super) struct Rights<'a> {
    pub(super) claims: &'a Claims,
    pub(super) admissions: &'a Admissions,
}

/// Runs by handle, and what is recorded about them.
#[derive(Default)]
pub(super) struct Runs {
    by_handle: BTreeMap<String, Run>,
    /// Handles of each identity, in the order they came.
    of_identity: BTreeMap<Key, Vec<String>>,
    /// Handles that a parent has committed, with its uid.
    committed: BTreeMap<String, String>,
    /// Handles of attempts whose end was once recorded as unknown.
    unknown: BTreeSet<String>,
    ended: BTreeMap<Key, Ended>,
}

impl Runs {
    pub(super) fn judge(&mut self, case: &Case, rights: Rights<'_>, blame: &mut Blame) {
        match case.commit.key.kind {
            kind if facts::is_work(kind) => self.work(case, blame),
            Kind::Job => self.job(case, rights, blame),
            Kind::Pod => self.pod(case),
            _ => {}
        }
    }

    /// A provider's word about a run.
    pub(super) fn event(
        &mut self,
        event: &RunEvent,
        store: &Store,
        rights: Rights<'_>,
        blame: &mut Blame,
    ) {
        self.know(&event.handle, &event.parent, &event.parent_uid);
        if event.what == RunChange::Released {
            self.release(&event.handle, &event.parent, store, rights, blame);
        }
        let Some(run) = self.by_handle.get_mut(&event.handle) else { return };
        match event.what {
            RunChange::Held => {}
            RunChange::Released => {
                run.released.get_or_insert(event.at);
            }
            RunChange::Started => run.executing = true,
            RunChange::Ended { .. } | RunChange::CancelConfirmed => {
                run.ended.get_or_insert(event.at);
            }
            RunChange::CancelAsked => run.told = true,
            RunChange::Lost => run.lost = true,
        }
    }

    /// Handles of the runs of this parent that can still act.
    pub(super) fn acting_for<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a str> {
        self.by_handle
            .iter()
            .filter(move |(_, run)| run.parent_uid == uid && run.acts())
            .map(|(handle, _)| handle.as_str())
    }

    /// The run with this handle.
    pub(super) fn get(&self, handle: &str) -> Option<&Run> {
        self.by_handle.get(handle)
    }

    /// Whether a parent has committed this handle.
    pub(super) fn is_committed(&self, handle: &str) -> bool {
        self.committed.contains_key(handle)
    }

    /// Whether a run of this identity was ever released.
    pub(super) fn ran(&self, identity: &Key) -> bool {
        self.handles(identity).any(|(_, run)| run.released.is_some())
    }

    fn handles<'a>(
        &'a self,
        identity: &Key,
    ) -> impl Iterator<Item = (&'a String, &'a Run)> + use<'a> {
        let handles = self.of_identity.get(identity).map_or(&[][..], Vec::as_slice);
        handles.iter().filter_map(|handle| self.by_handle.get_key_value(handle))
    }

    fn acts(&self, handle: &str) -> bool {
        self.by_handle.get(handle).is_some_and(Run::acts)
    }

    fn know(&mut self, handle: &str, identity: &Key, parent_uid: &str) {
        if self.by_handle.contains_key(handle) {
            return;
        }
        let run = Run { parent_uid: parent_uid.to_owned(), ..Run::default() };
        self.by_handle.insert(handle.to_owned(), run);
        self.of_identity.entry(identity.clone()).or_default().push(handle.to_owned());
    }

    fn job(&mut self, case: &Case, rights: Rights<'_>, blame: &mut Blame) {
        let Some(job) = case.after().or_else(|| case.before()) else { return };
        let Some((identity, parent_uid)) = parent_of(job, case.store) else { return };
        let handle = facts::uid(job).to_owned();
        self.know(&handle, &identity, &parent_uid);
        let suspended = |job: &Value| facts::flag(job, "/spec/suspend");
        let now_free = case.after().is_some_and(|new| !suspended(new));
        let starts = now_free && case.before().is_none_or(suspended);
        if starts && case.by_replica {
            self.release(&handle, &identity, case.store, rights, blame);
        }
        let at = case.commit.at;
        let Some(run) = self.by_handle.get_mut(&handle) else { return };
        run.is_job = true;
        if starts {
            run.released.get_or_insert(at);
        }
        let deleting = case
            .after()
            .is_none_or(|new| !facts::text(new, "/metadata/deletionTimestamp").is_empty());
        run.told |= deleting && case.by_replica;
        if case.commit.verb == Verb::Delete || finished(job) {
            run.job_over.get_or_insert(at);
        }
    }

    fn pod(&mut self, case: &Case) {
        let Some(pod) = case.after().or_else(|| case.before()) else { return };
        let owners = facts::list(pod, "/metadata/ownerReferences");
        let run = match owners.iter().find(|owner| facts::text(owner, "/kind") == "Job") {
            Some(job) => self.by_handle.get_mut(facts::uid_of_owner(job)),
            // A pod that was orphaned is still the pod of its run.
            None => self.by_handle.values_mut().find(|run| run.had.contains(facts::uid(pod))),
        };
        let Some(run) = run else { return };
        run.had.insert(facts::uid(pod).to_owned());
        let node = facts::text(pod, "/spec/nodeName");
        if !node.is_empty() {
            let stands = case.store.get(&Key::new(Kind::Node, "", node)).map(facts::uid);
            let of = || (node.to_owned(), stands.unwrap_or_default().to_owned());
            run.nodes.entry(facts::uid(pod).to_owned()).or_insert_with(of);
        }
        if case.after().is_none() {
            run.vanished.insert(facts::uid(pod).to_owned());
        }
        let phase = case.after().map_or("", |pod| facts::text(pod, "/status/phase"));
        run.garbled |= phase == "Succeeded" && case.after().is_some_and(is_garbled);
        // The API server binds no pod that is being deleted.
        let never_bound = facts::text(pod, "/spec/nodeName").is_empty()
            && !facts::text(pod, "/metadata/deletionTimestamp").is_empty();
        if case.after().is_none() || never_bound || ["Succeeded", "Failed"].contains(&phase) {
            run.pods.remove(facts::uid(pod));
            if run.job_over.is_some() && run.pods.is_empty() {
                run.job_over = Some(case.commit.at);
            }
        } else {
            run.pods.insert(facts::uid(pod).to_owned());
        }
    }

    /// Judges the moment at which a run may begin to act.
    fn release(
        &self,
        handle: &str,
        identity: &Key,
        store: &Store,
        rights: Rights<'_>,
        blame: &mut Blame,
    ) {
        let Some(run) = self.by_handle.get(handle) else { return };
        if let Some(first) = run.released
            && run.is_job
        {
            let sentence = format!("run {handle} was released again, first at {first:?}");
            blame.on(Invariant::OneRun, identity, sentence);
        }
        for (other, earlier) in self.handles(identity).filter(|(other, _)| *other != handle) {
            if earlier.acts() && !may_overlap(other, earlier, identity, store) {
                let sentence = format!("run {handle} was released while run {other} can act");
                blame.on(Invariant::OneRun, identity, sentence);
            }
        }
        let parent = store.occurrence(&run.parent_uid);
        let by_hand =
            parent.is_some_and(|parent| facts::text(parent, "/spec/scheduleUID").is_empty());
        if let Some(ended) = self.ended.get(identity)
            && !(ended.forgotten && by_hand)
        {
            let sentence = format!("run {handle} was released after the end at {:?}", ended.at);
            blame.on(Invariant::OneRun, identity, sentence);
        }
        if identity.kind == Kind::ReportJob {
            let attempts = parent.map(facts::attempts).unwrap_or_default();
            let attempt = attempts.iter().find(|a| facts::text(a, "/handle") == handle);
            let number = attempt.and_then(|attempt| attempt["number"].as_i64()).unwrap_or_default();
            if !rights.admissions.may_start(&run.parent_uid, number) {
                let sentence = format!("run {handle} was released without an entry in a ledger");
                blame.on(Invariant::StartedByEntry, identity, sentence);
            }
        }
        // A report that no schedule made needs no claim.
        let by_claim = identity.kind != Kind::ReportJob || parent.is_some_and(facts::is_planned);
        if by_claim && !rights.claims.may_start(&run.parent_uid) {
            let sentence = format!(
                "run {handle} of uid {} was released without a started claim",
                run.parent_uid
            );
            blame.on(Invariant::StartedByClaim, identity, sentence);
        }
        if self.committed.get(handle) != Some(&run.parent_uid) {
            let sentence = format!("run {handle} was released before its parent had committed it");
            blame.on(Invariant::ReleasedAsCommitted, identity, sentence);
        }
    }

    fn work(&mut self, case: &Case, blame: &mut Blame) {
        let key = &case.commit.key;
        let Some(new) = case.after() else {
            // Who deletes the record of an end may ask for the instant again, by hand. A report that
            // was removed may be asked for again whoever removed it.
            if (!case.by_replica || key.kind == Kind::ReportJob)
                && let Some(ended) = self.ended.get_mut(key)
            {
                ended.forgotten = true;
            }
            return;
        };
        if let Some(old) = case.before() {
            self.repeated(key, old, new, blame);
        }
        for attempt in facts::attempts(new) {
            let handle = facts::text(attempt, "/handle");
            self.committed.insert(handle.to_owned(), facts::uid(new).to_owned());
            if facts::text(attempt, "/outcome") == "Unknown" {
                self.unknown.insert(handle.to_owned());
            }
        }
        if facts::is_terminal(new) && !case.before().is_some_and(facts::is_terminal) {
            self.proven(key, new, blame);
            self.ended.insert(key.clone(), Ended { at: case.commit.at, forgotten: false });
        }
    }

    /// Another attempt follows one whose end nobody knew.
    fn repeated(&self, key: &Key, old: &Value, new: &Value, blame: &mut Blame) {
        let (before, now) = (facts::attempts(old), facts::attempts(new));
        let Some(last) = before.last().filter(|_| now.len() > before.len()) else { return };
        let handle = facts::text(last, "/handle");
        let number = last["number"].as_i64().unwrap_or_default();
        let asked =
            facts::resolution(new, number).is_some_and(|r| facts::text(r, "/decision") == "Retry");
        let known = !self.unknown.contains(handle) || !self.acts(handle);
        if !known && !asked && facts::class(new) != "ReadOnly" {
            let sentence = format!("attempt {number} is repeated, whose end nobody knows");
            blame.on(Invariant::UnresolvedNotRetried, key, sentence);
        }
    }

    /// A terminal outcome needs the proof that the run is over, or a person's word. For the other
    /// classes a requested stop suffices.
    fn proven(&self, key: &Key, new: &Value, blame: &mut Blame) {
        let Some(last) = facts::attempts(new).last() else { return };
        let handle = facts::text(last, "/handle");
        let number = last["number"].as_i64().unwrap_or_default();
        let word = facts::resolution(new, number).map_or("", |r| facts::text(r, "/decision"));
        let stopped = !facts::text(last, "/stopRequestedTime").is_empty();
        let suffices = stopped && facts::class(new) != "Fenced";
        if self.acts(handle) && !["Succeeded", "Failed"].contains(&word) && !suffices {
            let state = facts::text(new, "/status/state");
            let sentence = format!("it was recorded as {state} while run {handle} can act");
            blame.on(Invariant::OutcomeProven, key, sentence);
        }
    }
}

/// Whether a person accepted the duplicate or wrote the old run off, or it only reads and was told
/// to stop as far as its provider can be, or its provider knows it no more after it was asked to stop
/// it, which suffices for what need not be fenced.
fn may_overlap(handle: &str, run: &Run, identity: &Key, store: &Store) -> bool {
    let current = store.get(identity);
    let of_handle = |work: &Value| {
        let mut attempts = facts::attempts(work).iter();
        attempts.find(|attempt| facts::text(attempt, "/handle") == handle).cloned()
    };
    let accepted = current.is_some_and(|work| {
        let number = of_handle(work).and_then(|attempt| attempt["number"].as_i64());
        number.and_then(|number| facts::resolution(work, number)).is_some_and(|resolution| {
            facts::text(resolution, "/decision") == "Retry"
                && facts::flag(resolution, "/acceptDuplicate")
        })
    });
    let parent = store.occurrence(&run.parent_uid);
    let class = parent.map_or("Fenced", facts::class);
    let owners = parent.map(|parent| [store.schedule_of(parent), store.queue_of(parent)]);
    let written_off = owners.into_iter().flatten().flatten().any(|owner| {
        let mut list = facts::list(owner, "/spec/abandon").iter();
        list.any(|entry| facts::text(entry, "/uid") == run.parent_uid)
    });
    // What a deleted object has begun is stopped, and there is nowhere to record it.
    let deleted = current.is_none_or(|current| facts::uid(current) != run.parent_uid);
    let stop = parent
        .and_then(of_handle)
        .is_some_and(|attempt| deleted || !facts::text(&attempt, "/stopRequestedTime").is_empty());
    let absent = run.lost || run.job_over.is_some();
    accepted
        || written_off
        || (class == "ReadOnly" && (run.told || run.lost))
        || (class != "Fenced" && stop && absent)
}

/// Identity and uid of the object that a Job of ours runs for.
fn parent_of(job: &Value, store: &Store) -> Option<(Key, String)> {
    let namespace = facts::text(job, "/metadata/namespace");
    let owners = facts::list(job, "/metadata/ownerReferences");
    for owner in owners {
        if let Some(kind) = Kind::named(facts::text(owner, "/kind")).filter(|k| facts::is_work(*k))
        {
            let name = facts::text(owner, "/name");
            let uid = facts::uid_of_owner(owner).to_owned();
            return Some((Key::new(kind, namespace, name), uid));
        }
    }
    // Without its owner: by the uid on the label.
    let uid = facts::text(job, "/metadata/labels/punctual.dev~1parent-uid");
    let parent = store.occurrence(uid)?;
    let name = facts::text(parent, "/metadata/name");
    let kind = if facts::is_report(parent) { Kind::ReportJob } else { Kind::MaintenanceOccurrence };
    Some((Key::new(kind, namespace, name), uid.to_owned()))
}

fn finished(job: &Value) -> bool {
    facts::list(job, "/status/conditions").iter().any(|condition| {
        facts::text(condition, "/status") == "True"
            && ["Complete", "Failed"].contains(&facts::text(condition, "/type"))
    })
}
