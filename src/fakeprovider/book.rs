//! What is known of runs, and what a request does to it: pure.
//!
//! A request leads to records and an answer. The records are written to disk, then applied, then the
//! answer is given; applying the records of a file again gives the same book.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::identity::sha256_hex;

/// Runs that are known, tombstones included: at about 1 kB each.
const MAX_RUNS: usize = 100_000;
/// Longest duration of a run, in seconds: a month.
const MAX_SECONDS: i64 = 2_592_000;

/// Body of `PUT /runs/{key}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewRun {
    /// Equal over attempts.
    #[serde(rename = "requestID")]
    pub request_id: String,
    /// Number of the attempt.
    pub attempt: i64,
    /// What the run may do.
    pub action_class: String,
    /// Whether it must not begin before it is released.
    pub hold: bool,
    /// Parameters; those that begin with `fake` say how the run goes.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The intended instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended_time: Option<String>,
    /// The tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Record {
    /// A request about the key carried a higher epoch than any before.
    Seen {
        /// Run key.
        key: String,
        /// The epoch.
        epoch: i64,
    },
    /// A run was recorded, or recorded anew while it was held.
    Put {
        /// Run key.
        key: String,
        /// Epoch of the request.
        epoch: i64,
        /// When.
        at: Timestamp,
        /// What only this version of the run answers to.
        handle: String,
        /// What was asked for.
        run: NewRun,
    },
    /// It began, or will after its delay.
    Released {
        /// Run key.
        key: String,
        /// Epoch of the request.
        epoch: i64,
        /// When.
        at: Timestamp,
    },
    /// It was deleted; for an unknown key, a tombstone.
    Deleted {
        /// Run key.
        key: String,
        /// Epoch of the request.
        epoch: i64,
        /// When.
        at: Timestamp,
    },
    /// The service lost its memory of the key.
    Forgotten {
        /// Run key.
        key: String,
    },
}

/// What the contract lets one ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `GET /capabilities`.
    Capabilities,
    /// `PUT /runs/{key}`.
    Put(NewRun),
    /// `POST /runs/{key}/release`.
    Release {
        /// The committed handle.
        handle: String,
    },
    /// `GET /runs/{key}`.
    Get,
    /// `DELETE /runs/{key}`.
    Delete,
}

/// An answer: status and JSON body.
pub type Answer = (u16, Value);

/// How runs go that say nothing else, and what the service can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Whether it holds runs until they are released.
    pub hold: bool,
    /// How long a run takes.
    pub seconds: i64,
}

impl Default for Habits {
    fn default() -> Self {
        Self { hold: true, seconds: 10 }
    }
}

/// What happened to a key in all, also before it was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// What it was asked for, as last recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<NewRun>,
    /// Times it was recorded.
    pub puts: u64,
    /// Times it began.
    pub starts: u64,
    /// Times it was deleted.
    pub deletes: u64,
    /// When it began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub started: Vec<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    /// The highest epoch seen for the key.
    epoch: i64,
    life: Life,
}

#[derive(Clone, Debug, PartialEq)]
enum Life {
    /// Only an epoch was seen.
    Unknown,
    /// Deleted before anything was known of it.
    Tombstone,
    Known(Box<Run>),
}

impl Life {
    fn is_deleted(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Tombstone => true,
            Self::Known(run) => run.deleted.is_some(),
        }
    }

    fn is_over(&self, habits: &Habits, now: Timestamp) -> bool {
        matches!(self, Self::Known(run) if run.is_over(habits, now))
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Run {
    new: NewRun,
    handle: String,
    /// Epoch that recorded it.
    put: i64,
    released: Option<Timestamp>,
    deleted: Option<Timestamp>,
}

/// All runs. `PartialEq` so that a test sees that a file gives the book back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Book {
    entries: BTreeMap<String, Entry>,
    tallies: BTreeMap<String, Tally>,
    /// Records applied so far: handles are made of it.
    applied: u64,
}

impl Book {
    /// What a request does: what is to be recorded, and the answer once that is on disk.
    pub fn ask(
        &self,
        habits: &Habits,
        key: &str,
        epoch: i64,
        ask: &Ask,
        now: Timestamp,
    ) -> (Vec<Record>, Answer) {
        if *ask == Ask::Capabilities {
            return (Vec::new(), (200, json!({"hold": habits.hold})));
        }
        let entry = self.entries.get(key);
        let seen = entry.map_or(0, |entry| entry.epoch);
        if epoch < seen {
            let message =
                format!("epoch {epoch} is older than {seen}, which was seen for this run");
            return (Vec::new(), (412, json!({"reason": "EpochTooLow", "message": message})));
        }
        if entry.is_none() && self.entries.len() >= MAX_RUNS {
            return (Vec::new(), problem(503, "Full", "no more runs are kept"));
        }
        let mut records = Vec::new();
        if epoch > seen {
            records.push(Record::Seen { key: key.to_owned(), epoch });
        }
        let life = entry.map_or(&Life::Unknown, |entry| &entry.life);
        let (record, refusal) = decide(self.applied, habits, key, epoch, ask, now, life);
        records.extend(record);
        if let Some(refusal) = refusal {
            return (records, refusal);
        }
        let created = matches!(records.last(), Some(Record::Put { .. }));
        let mut after = self.only(key);
        for record in &records {
            after.apply(habits, record);
        }
        let status = if created { 201 } else { 200 };
        (records, (status, after.tell(habits, key, now)))
    }

    /// The part of the book that is about one key.
    fn only(&self, key: &str) -> Self {
        let entry = self.entries.get(key).map(|entry| (key.to_owned(), entry.clone()));
        Self { entries: entry.into_iter().collect(), applied: self.applied, ..Self::default() }
    }

    /// Applies what was recorded.
    pub fn apply(&mut self, habits: &Habits, record: &Record) {
        self.applied += 1;
        let key = match record {
            Record::Seen { key, .. }
            | Record::Put { key, .. }
            | Record::Released { key, .. }
            | Record::Deleted { key, .. }
            | Record::Forgotten { key } => key,
        };
        let tally = self.tallies.entry(key.clone()).or_default();
        if let Record::Forgotten { .. } = record {
            self.entries.remove(key);
            return;
        }
        let entry =
            self.entries.entry(key.clone()).or_insert(Entry { epoch: 0, life: Life::Unknown });
        match record {
            Record::Seen { epoch, .. } => entry.epoch = entry.epoch.max(*epoch),
            Record::Put { epoch, at, handle, run, .. } => {
                let released = (!habits.hold).then_some(*at);
                tally.puts += 1;
                tally.run = Some(run.clone());
                tally.began(released);
                entry.life = Life::Known(Box::new(Run {
                    new: run.clone(),
                    handle: handle.clone(),
                    put: *epoch,
                    released,
                    deleted: None,
                }));
            }
            Record::Released { at, .. } => {
                if let Life::Known(run) = &mut entry.life {
                    run.released = Some(*at);
                    tally.began(Some(*at));
                }
            }
            Record::Deleted { at, .. } => {
                tally.deletes += 1;
                match &mut entry.life {
                    Life::Known(run) => run.deleted = Some(*at),
                    life => *life = Life::Tombstone,
                }
            }
            Record::Forgotten { .. } => {}
        }
    }

    /// A run as the contract tells it.
    fn tell(&self, habits: &Habits, key: &str, now: Timestamp) -> Value {
        match self.entries.get(key).map(|entry| &entry.life) {
            Some(Life::Known(run)) => run.tell(habits, key, now),
            _ => json!({"key": key, "state": "Absent"}),
        }
    }

    /// Keys of runs that are known.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// What happened to every key.
    pub fn tallies(&self) -> &BTreeMap<String, Tally> {
        &self.tallies
    }
}

impl Tally {
    fn began(&mut self, at: Option<Timestamp>) {
        if let Some(at) = at {
            self.starts += 1;
            self.started.push(at);
        }
    }
}

/// What is recorded, and the answer if it is a refusal.
fn decide(
    applied: u64,
    habits: &Habits,
    key: &str,
    epoch: i64,
    ask: &Ask,
    now: Timestamp,
    life: &Life,
) -> (Option<Record>, Option<Answer>) {
    let key = key.to_owned();
    let refuse = |code, reason: &str, message: &str| (None, Some(problem(code, reason, message)));
    match (ask, life) {
        (Ask::Put(run), _) if run.hold && !habits.hold => {
            refuse(422, "CannotHold", "this service cannot hold a run until it is released")
        }
        (Ask::Put(_) | Ask::Release { .. }, life) if life.is_deleted() => {
            refuse(410, "Deleted", "this run was deleted; it is never accepted again")
        }
        (Ask::Put(run), Life::Known(known)) => match known.again(run, epoch) {
            Again::Same => (None, None),
            Again::Anew => (Some(put(applied, key, epoch, now, run)), None),
            Again::Taken => refuse(409, "KeyTaken", "another run is known under this key"),
        },
        (Ask::Put(run), _) => (Some(put(applied, key, epoch, now, run)), None),
        (Ask::Release { .. } | Ask::Get, Life::Unknown) => {
            refuse(404, "UnknownRun", "nothing is known of this run")
        }
        (Ask::Release { handle }, Life::Known(run)) if *handle != run.handle => {
            refuse(409, "HandleChanged", "this run has another handle")
        }
        (Ask::Release { .. }, Life::Known(run)) if run.released.is_none() => {
            (Some(Record::Released { key, epoch, at: now }), None)
        }
        (Ask::Delete, life) if !life.is_deleted() && !life.is_over(habits, now) => {
            (Some(Record::Deleted { key, epoch, at: now }), None)
        }
        (Ask::Release { .. } | Ask::Get | Ask::Delete | Ask::Capabilities, _) => (None, None),
    }
}

fn put(applied: u64, key: String, epoch: i64, at: Timestamp, run: &NewRun) -> Record {
    // Distinct also from the handle that a forgotten run of the same key had.
    let handle = format!("h{applied}-{}", &sha256_hex(key.as_bytes())[..8]);
    Record::Put { key, epoch, at, handle, run: run.clone() }
}

/// What a second PUT of a known key is.
enum Again {
    Same,
    Anew,
    Taken,
}

impl Run {
    fn again(&self, run: &NewRun, epoch: i64) -> Again {
        if self.new == *run {
            return Again::Same;
        }
        let held = self.released.is_none();
        if held && self.new.request_id == run.request_id && epoch > self.put {
            return Again::Anew;
        }
        Again::Taken
    }

    fn says(&self, parameter: &str) -> Option<&str> {
        self.new.parameters.get(parameter).map(String::as_str)
    }

    fn seconds(&self, parameter: &str, default: i64) -> SignedDuration {
        let given = self.says(parameter).and_then(|text| text.parse().ok());
        SignedDuration::from_secs(given.unwrap_or(default).clamp(0, MAX_SECONDS))
    }

    fn starts_at(&self) -> Option<Timestamp> {
        self.released?.checked_add(self.seconds("fakeStartSeconds", 0)).ok()
    }

    fn ends_at(&self, habits: &Habits) -> Option<Timestamp> {
        let hangs = self.says("fakeOutcome") == Some("Hang");
        let seconds = self.seconds("fakeDurationSeconds", habits.seconds);
        self.starts_at()?.checked_add(seconds).ok().filter(|_| !hangs)
    }

    /// Whether it ended by itself, before anybody deleted it.
    fn is_over(&self, habits: &Habits, now: Timestamp) -> bool {
        let until = self.deleted.map_or(now, |deleted| deleted.min(now));
        self.ends_at(habits).is_some_and(|end| end <= until)
    }

    fn tell(&self, habits: &Habits, key: &str, now: Timestamp) -> Value {
        let mut told = Map::new();
        told.insert("key".to_owned(), key.into());
        told.insert("handle".to_owned(), self.handle.clone().into());
        let state = self.state(habits, now);
        told.insert("state".to_owned(), state.into());
        if !matches!(state, "Held" | "Released") {
            let started = self.starts_at().filter(|start| *start <= now);
            told.extend(started.map(|at| ("startTime".to_owned(), at.to_string().into())));
        }
        if matches!(state, "Succeeded" | "Failed") {
            let end = self.ends_at(habits);
            told.extend(end.map(|at| ("completionTime".to_owned(), at.to_string().into())));
        }
        match state {
            "Succeeded" => {
                let rows = i64::try_from(key.len()).unwrap_or_default();
                told.insert("result".to_owned(), json!({"rows": rows, "executed": "nothing"}));
                if self.says("fakeArtifact") == Some("true") {
                    told.insert("artifact".to_owned(), artifact(key));
                }
            }
            "Failed" => {
                let reason = self.says("fakeReason").unwrap_or("Fake");
                told.insert("reason".to_owned(), reason.into());
                told.insert("message".to_owned(), "it failed as it was told to".into());
                told.insert(
                    "retryable".to_owned(),
                    (self.says("fakeRetryable") != Some("false")).into(),
                );
            }
            "Unknown" => {
                told.insert("message".to_owned(), "it does not say, as it was told to".into());
            }
            _ => {}
        }
        Value::Object(told)
    }

    fn state(&self, habits: &Habits, now: Timestamp) -> &'static str {
        let outcome = self.says("fakeOutcome").unwrap_or("Succeeded");
        if self.is_over(habits, now) {
            return match outcome {
                "Failed" => "Failed",
                "Unknown" => "Unknown",
                _ => "Succeeded",
            };
        }
        let began = self.starts_at().is_some_and(|start| start <= now);
        match (self.deleted, self.released) {
            (Some(_), Some(_)) if outcome == "Hang" => "Stopping",
            (Some(_), _) => "Cancelled",
            (None, None) => "Held",
            (None, Some(_)) if began => "Running",
            (None, Some(_)) => "Released",
        }
    }
}

fn artifact(key: &str) -> Value {
    let content = format!("the report of run {key}\n");
    json!({
        "uri": format!("fake://reports/{key}"),
        "sha256": sha256_hex(content.as_bytes()),
        "sizeBytes": content.len(),
    })
}

/// An answer that carries nothing out.
pub fn problem(code: u16, reason: &str, message: &str) -> Answer {
    (code, json!({"reason": reason, "message": message}))
}
