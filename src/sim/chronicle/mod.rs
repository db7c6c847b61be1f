//! What a history leaves behind for people: who led, what happened to each piece of work and each
//! run, what was refused, what a new leader found, and what comes next.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Commit, Key, Kind, Verb,
    provider::RunRecord,
    world::{Entry, Term, World},
};
use crate::api::{ANNOTATION_RUN_KEY, SimulatedOutcome};

mod takeover;

pub use takeover::{FoundItem, Takeover};

/// Most pieces of work that are followed; what comes after them is counted only.
pub const MAX_WORKS: usize = 5_000;
/// Most changes that one piece of work keeps: an occurrence of 64 attempts has some two hundred.
pub const MAX_CHANGES: usize = 500;

/// A history, as far as people want to see it.
#[derive(Clone, Debug)]
pub struct Chronicle {
    /// What a true clock showed at virtual time 0.
    pub start: Timestamp,
    /// When it ended.
    pub end: Duration,
    /// How many replicas there were.
    pub replicas: usize,
    /// What happened, in order.
    pub story: Vec<Entry>,
    /// Who led, in order.
    pub terms: Vec<Term>,
    /// Pieces of work by their first appearance.
    pub works: Vec<Work>,
    /// How many more there were.
    pub works_left_out: usize,
    /// Runs by the time they were held.
    pub runs: Vec<Run>,
    /// Recovery traces, oldest first.
    pub traces: Vec<Arc<Value>>,
    /// The schedules at the end.
    pub schedules: Vec<Arc<Value>>,
}

/// One piece of work: an occurrence or a report job.
#[derive(Clone, Debug)]
pub struct Work {
    /// Which object.
    pub key: Key,
    /// When it was created first.
    pub created: Duration,
    /// Each state it was in, in order.
    pub changes: Vec<Change>,
    /// When it was deleted, if it is not there any more.
    pub gone: Option<Duration>,
}

/// A new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Duration,
    /// `status.state`.
    pub state: String,
    /// `status.reason`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// Epoch of the term that wrote it; 0 if it carries none.
    pub epoch: i64,
}

impl Work {
    /// The last state.
    pub fn state(&self) -> &str {
        self.changes.last().map_or("", |change| &change.state)
    }

    /// The state at a time.
    pub fn state_at(&self, at: Duration) -> Option<&Change> {
        self.changes.iter().rev().find(|change| change.at <= at)
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Kind of its object.
    pub kind: String,
    /// Namespace of its object.
    pub namespace: String,
    /// Name of its object.
    pub object: String,
    /// Name of the attempt.
    pub name: String,
    /// Its key.
    pub run_key: String,
    /// When it was held: prepared, inert.
    pub held: Duration,
    /// When it was released.
    pub released: Option<Duration>,
    /// When it ended.
    pub ended: Option<Duration>,
    /// How it ended or stands, in one or two words.
    pub how: String,
}

impl Run {
    /// Whether it belongs to a piece of work.
    pub fn is_of(&self, work: &Work) -> bool {
        self.kind == work.key.kind.name()
            && self.namespace == work.key.namespace
            && self.object == work.key.name
    }
}

impl From<&RunRecord> for Run {
    fn from(record: &RunRecord) -> Self {
        let cancelled = record.cancelled_at.filter(|_| !record.may_act());
        let how = match (record.outcome, record.ended_at, record.cancelled_at) {
            _ if record.lost => "lost",
            (Some(SimulatedOutcome::Succeeded), Some(_), _) => "Succeeded",
            (Some(SimulatedOutcome::Failed), Some(_), _) => "Failed",
            (Some(SimulatedOutcome::Unknown), ..) => "nobody can say",
            (_, _, Some(_)) if record.may_act() => "ignores its cancel",
            (_, _, Some(_)) if record.released_at.is_none() => "removed before it ran",
            (_, _, Some(_)) => "cancelled",
            _ if record.released_at.is_some() => "runs",
            _ => "held",
        };
        Self {
            kind: record.kind.clone(),
            namespace: record.namespace.clone(),
            object: record.name.clone(),
            name: record.attempt_name.clone(),
            run_key: record.run_key.clone(),
            held: record.held_at,
            released: record.released_at,
            ended: record.ended_at.or(cancelled),
            how: how.to_owned(),
        }
    }
}

/// Listens to a history; clones share what was heard.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    works: Vec<Work>,
    /// Where each is in `works`.
    index: BTreeMap<Key, usize>,
    left_out: usize,
    jobs: BTreeMap<String, Run>,
    /// By epoch.
    traces: BTreeMap<i64, Arc<Value>>,
}

impl Recorder {
    /// Listens from now on.
    pub fn attach(world: &World) -> Self {
        let recorder = Self::default();
        let hears = recorder.clone();
        world.model().on_commit(Box::new(move |commit| hears.lock().hear(commit)));
        recorder
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        // Every change is one push or one insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recovery traces so far, oldest first, also those removed since.
    pub fn traces(&self) -> Vec<Arc<Value>> {
        self.lock().traces.values().cloned().collect()
    }

    /// All runs so far, of the simulated provider and of Jobs, by the time they were held.
    pub fn runs(&self, world: &World) -> Vec<Run> {
        let mut runs: Vec<Run> = world.provider().runs().iter().map(Run::from).collect();
        runs.extend(self.lock().jobs.values().cloned());
        runs.sort_by(|a, b| (a.held, &a.name).cmp(&(b.held, &b.name)));
        runs
    }

    /// The whole history until now.
    pub fn chronicle(&self, world: &World) -> Chronicle {
        let runs = self.runs(world);
        let heard = self.lock();
        Chronicle {
            start: world.setup().start,
            end: world.elapsed(),
            replicas: world.setup().replicas,
            story: world.story(),
            terms: world.terms(),
            works: heard.works.clone(),
            works_left_out: heard.left_out,
            runs,
            traces: heard.traces.values().cloned().collect(),
            schedules: world.model().list(Kind::MaintenanceSchedule),
        }
    }
}

impl Heard {
    fn hear(&mut self, commit: &Commit) {
        match commit.key.kind {
            Kind::MaintenanceOccurrence | Kind::ReportJob => self.work(commit),
            Kind::Job => self.job(commit),
            Kind::RecoveryTrace => {
                if let Some(new) = &commit.new {
                    let epoch = new["spec"]["epoch"].as_i64().unwrap_or(0);
                    self.traces.insert(epoch, Arc::clone(new));
                }
            }
            _ => {}
        }
    }

    fn work(&mut self, commit: &Commit) {
        let index = match self.index.get(&commit.key) {
            Some(index) => *index,
            None if self.works.len() >= MAX_WORKS => {
                self.left_out += usize::from(commit.verb == Verb::Create);
                return;
            }
            None => {
                let key = commit.key.clone();
                self.index.insert(key.clone(), self.works.len());
                let (created, changes) = (commit.at, Vec::new());
                self.works.push(Work { key, created, changes, gone: None });
                self.works.len() - 1
            }
        };
        let work = &mut self.works[index];
        let Some(new) = &commit.new else {
            work.gone = Some(commit.at);
            return;
        };
        work.gone = None;
        let change = Change::of(commit.at, new);
        let same = |last: &Change| last.state == change.state && last.reason == change.reason;
        if !work.changes.last().is_some_and(same) && work.changes.len() < MAX_CHANGES {
            work.changes.push(change);
        }
    }

    fn job(&mut self, commit: &Commit) {
        let Some(job) = commit.new.as_ref().or(commit.old.as_ref()) else { return };
        let (uid, run) = (&job["metadata"]["uid"], &job["metadata"]["annotations"]);
        let (Some(uid), Some(key)) = (uid.as_str(), run[ANNOTATION_RUN_KEY].as_str()) else {
            return;
        };
        let owner = &job["metadata"]["ownerReferences"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let run = self.jobs.entry(uid.to_owned()).or_insert_with(|| Run {
            kind: text(&owner["kind"]),
            namespace: commit.key.namespace.clone(),
            object: text(&owner["name"]),
            name: commit.key.name.clone(),
            run_key: key.to_owned(),
            held: commit.at,
            released: None,
            ended: None,
            how: "held".to_owned(),
        });
        if run.released.is_none() && job["spec"]["suspend"] == false {
            run.released = Some(commit.at);
            "runs".clone_into(&mut run.how);
        }
        let finished = ["Complete", "Failed"].into_iter().find(|kind| holds(job, kind));
        let gone = commit.verb == Verb::Delete;
        if run.ended.is_none() && (finished.is_some() || gone) {
            run.ended = Some(commit.at);
            let how = match (finished, run.released) {
                (Some("Complete"), _) => "Succeeded",
                (Some(_), _) => "Failed",
                (None, Some(_)) => "removed while it ran",
                (None, None) => "removed before it ran",
            };
            how.clone_into(&mut run.how);
        }
    }
}

/// Whether a condition of an object holds.
fn holds(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .is_some_and(|all| all.iter().any(|one| one["type"] == kind && one["status"] == "True"))
}

impl Change {
    fn of(at: Duration, object: &Value) -> Self {
        let status = &object["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let state = status["state"].as_str().unwrap_or("Created").to_owned();
        Self {
            at,
            state,
            reason: text(&status["reason"]),
            message: text(&status["message"]),
            epoch: status["fence"]["epoch"].as_i64().unwrap_or(0),
        }
    }
}
