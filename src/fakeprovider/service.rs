//! One request in, one reaction out.
//!
//! Beside the contract there are `GET`, `POST` and `DELETE /fake/faults`, `POST /fake/forget`,
//! `POST /fake/deliver` and `GET /fake/audit`, which no provider has.

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    book::{Answer, Ask, Book, Habits, NewRun, Record, problem},
    faults::{Fault, Faults, Kind, Operation},
    journal::{Journal, JournalError},
};
use crate::{glob::glob, time::WallClock};

/// Longest body that is read, in bytes: a run with its parameters has less than 16 kB.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// Requests that the network holds up at once.
const MAX_LATE: usize = 256;
/// Longest run key, in characters, as in the status of a parent.
const MAX_KEY_CHARS: usize = 64;

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Path below the base address.
    pub path: String,
    /// Value of `Punctual-Epoch`.
    pub epoch: Option<String>,
    /// Value of `Authorization`.
    pub authorization: Option<String>,
    /// Body.
    pub body: Vec<u8>,
}

/// What a client sees of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    /// An answer, at once or later.
    Answer {
        /// After so long.
        after: Duration,
        /// Status.
        code: u16,
        /// JSON.
        body: Value,
    },
    /// Nothing was done and the connection is closed.
    Unreachable,
    /// Something was done, and the connection is closed.
    Lost,
    /// Something was recorded, and the process dies.
    Crash,
}

/// The service.
pub struct Service {
    clock: WallClock,
    habits: Habits,
    token: Option<String>,
    state: Mutex<State>,
}

struct State {
    book: Book,
    journal: Journal,
    faults: Faults,
    /// PUTs that the network holds up.
    late: Vec<Late>,
    /// PUTs that arrived late, and what they were answered.
    arrived: Vec<Value>,
}

#[derive(Clone)]
struct Late {
    key: String,
    epoch: i64,
    run: NewRun,
}

#[derive(Deserialize)]
struct Release {
    handle: String,
}

#[derive(Deserialize)]
struct Forget {
    #[serde(rename = "match")]
    pattern: String,
}

impl Service {
    /// Opens the service whose records are in `file`. With a token, requests need it.
    pub fn open(
        file: &Path,
        clock: WallClock,
        habits: Habits,
        token: Option<String>,
    ) -> Result<Self, JournalError> {
        let (journal, records) = Journal::open(file)?;
        let mut book = Book::default();
        for record in &records {
            book.apply(&habits, record);
        }
        let state = State {
            book,
            journal,
            faults: Faults::default(),
            late: Vec::new(),
            arrived: Vec::new(),
        };
        Ok(Self { clock, habits, token, state: Mutex::new(state) })
    }

    /// Arms a fault.
    pub fn arm(&self, fault: Fault) -> Result<(), String> {
        self.lock().faults.arm(fault)
    }

    /// What happened to every run.
    pub fn audit(&self) -> Value {
        let state = self.lock();
        json!({"runs": state.book.tallies(), "late": state.arrived})
    }

    /// Reacts to one request.
    pub fn react(&self, request: &Request) -> Reaction {
        let expected = self.token.as_ref().map(|token| format!("Bearer {token}"));
        if expected.is_some() && request.authorization != expected {
            return at_once(problem(401, "Unauthorized", "the token is missing or wrong"));
        }
        let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
        if parts.first() == Some(&"fake") {
            return at_once(self.control(request, &parts[1..]));
        }
        let (key, operation, ask) = match ask(request, &parts) {
            Ok(asked) => asked,
            Err(answer) => return at_once(answer),
        };
        let Some(epoch) = request.epoch.as_deref().and_then(|text| text.parse::<i64>().ok()) else {
            let message = "the header Punctual-Epoch is missing or is no integer";
            return at_once(problem(400, "NoEpoch", message));
        };
        if epoch < 1 {
            return at_once(problem(400, "NoEpoch", "the header Punctual-Epoch is from 1"));
        }
        self.strike(key, operation, epoch, &ask)
    }

    fn strike(&self, key: &str, operation: Operation, epoch: i64, ask: &Ask) -> Reaction {
        let mut state = self.lock();
        let Some(fault) = state.faults.strike(key, operation) else {
            return at_once(self.carry_out(&mut state, key, epoch, ask));
        };
        match fault.fault {
            Kind::Unreachable => Reaction::Unreachable,
            Kind::Slow => {
                let (code, body) = self.carry_out(&mut state, key, epoch, ask);
                Reaction::Answer { after: fault.delay(), code, body }
            }
            Kind::LostResponse => {
                self.carry_out(&mut state, key, epoch, ask);
                Reaction::Lost
            }
            Kind::Crash => {
                self.carry_out(&mut state, key, epoch, ask);
                Reaction::Crash
            }
            Kind::Forget => {
                let record = Record::Forgotten { key: key.to_owned() };
                if let Err(answer) = self.record(&mut state, &[record]) {
                    return at_once(answer);
                }
                at_once(self.carry_out(&mut state, key, epoch, ask))
            }
            Kind::Duplicate => {
                self.carry_out(&mut state, key, epoch, ask);
                at_once(self.carry_out(&mut state, key, epoch, ask))
            }
            Kind::EpochRefused => {
                let message = "a higher epoch was seen, as it was told to say";
                at_once(problem(412, "EpochTooLow", message))
            }
            Kind::Unknown => {
                let (code, mut body) = self.carry_out(&mut state, key, epoch, ask);
                if code == 200 {
                    body["state"] = "Unknown".into();
                }
                Reaction::Answer { after: Duration::ZERO, code, body }
            }
            Kind::LatePut => {
                if let (Ask::Put(run), true) = (ask, state.late.len() < MAX_LATE) {
                    state.late.push(Late { key: key.to_owned(), epoch, run: run.clone() });
                }
                Reaction::Lost
            }
        }
    }

    fn carry_out(&self, state: &mut State, key: &str, epoch: i64, ask: &Ask) -> Answer {
        let (records, answer) = state.book.ask(&self.habits, key, epoch, ask, self.clock.now());
        if let Err(answer) = self.record(state, &records) {
            return answer;
        }
        if *ask == Ask::Delete {
            self.deliver(state, key);
        }
        answer
    }

    /// What was recorded survives; what could not be is not done.
    fn record(&self, state: &mut State, records: &[Record]) -> Result<(), Answer> {
        if let Err(error) = state.journal.append(records) {
            tracing::error!(error = &error as &dyn std::error::Error, "nothing can be recorded");
            return Err(problem(500, "NotRecorded", "the state file cannot be written"));
        }
        for record in records {
            state.book.apply(&self.habits, record);
        }
        Ok(())
    }

    /// The network delivers the PUTs that it held up and whose key fits.
    fn deliver(&self, state: &mut State, pattern: &str) {
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.late).into_iter().partition(|late| glob(pattern, &late.key));
        state.late = rest;
        for late in due {
            let ask = Ask::Put(late.run);
            let (code, body) = self.carry_out(state, &late.key, late.epoch, &ask);
            if state.arrived.len() < MAX_LATE {
                let reason = body["reason"].clone();
                state.arrived.push(json!({"key": late.key, "code": code, "reason": reason}));
            }
        }
    }

    fn control(&self, request: &Request, path: &[&str]) -> Answer {
        let mut state = self.lock();
        let bad = |message: &str| problem(400, "Bad", message);
        match (&request.method, path) {
            (&Method::GET, ["audit"]) => {
                (200, json!({"runs": state.book.tallies(), "late": state.arrived}))
            }
            (&Method::GET, ["faults"]) => (200, json!(state.faults.all())),
            (&Method::DELETE, ["faults"]) => {
                state.faults.clear();
                (200, json!([]))
            }
            (&Method::POST, ["faults"]) => match serde_json::from_slice::<Fault>(&request.body) {
                Err(error) => bad(&format!("it is no fault: {error}")),
                Ok(fault) => match state.faults.arm(fault) {
                    Ok(()) => (200, json!(state.faults.all())),
                    Err(message) => bad(&message),
                },
            },
            (&Method::POST, ["forget"]) => match serde_json::from_slice::<Forget>(&request.body) {
                Err(_) => bad("it is like {\"match\": \"abc-*\"}"),
                Ok(forget) => {
                    let known = state.book.keys().filter(|key| glob(&forget.pattern, key));
                    let records: Vec<Record> =
                        known.map(|key| Record::Forgotten { key: key.clone() }).collect();
                    match self.record(&mut state, &records) {
                        Ok(()) => (200, json!({"forgotten": records.len()})),
                        Err(answer) => answer,
                    }
                }
            },
            (&Method::POST, ["deliver"]) => {
                self.deliver(&mut state, "*");
                (200, json!({"late": state.arrived}))
            }
            _ => {
                let message = "there are /fake/audit, /fake/faults, /fake/forget and /fake/deliver";
                problem(404, "NoSuchPath", message)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Records are applied after they are on disk; a reader of the file gets the same book.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn at_once((code, body): Answer) -> Reaction {
    Reaction::Answer { after: Duration::ZERO, code, body }
}

/// What of the contract a request asks.
fn ask<'a>(request: &Request, parts: &[&'a str]) -> Result<(&'a str, Operation, Ask), Answer> {
    let bad = |what: &str, error: serde_json::Error| {
        problem(400, "BadBody", &format!("{what} cannot be read: {error}"))
    };
    let asked = match (&request.method, parts) {
        (&Method::GET, ["capabilities"]) => ("", Operation::Capabilities, Ask::Capabilities),
        (&Method::PUT, ["runs", key]) => {
            let run = serde_json::from_slice(&request.body).map_err(|e| bad("the run", e))?;
            (*key, Operation::Put, Ask::Put(run))
        }
        (&Method::POST, ["runs", key, "release"]) => {
            let Release { handle } =
                serde_json::from_slice(&request.body).map_err(|e| bad("the handle", e))?;
            (*key, Operation::Release, Ask::Release { handle })
        }
        (&Method::GET, ["runs", key]) => (*key, Operation::Get, Ask::Get),
        (&Method::DELETE, ["runs", key]) => (*key, Operation::Delete, Ask::Delete),
        _ => return Err(problem(404, "NoSuchPath", "there are /capabilities and /runs/{key}")),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let key = asked.0;
    if asked.2 != Ask::Capabilities
        && (key.is_empty() || key.len() > MAX_KEY_CHARS || !key.bytes().all(plain))
    {
        return Err(problem(
            400,
            "BadKey",
            "a run key has 1 to 64 letters, digits, dots and hyphens",
        ));
    }
    Ok(asked)
}
