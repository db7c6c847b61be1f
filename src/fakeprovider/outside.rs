//! The service as a client sees it, without sockets: for tests in virtual time.

use std::{
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::future::BoxFuture;
use http::{Request, Response, header};
use serde_json::Value;
use tokio::time::sleep;

use super::{
    book::Habits,
    faults::Fault,
    service::{self, Reaction, Service},
};
use crate::{
    providers::http::{ANSWER_TIMEOUT, EPOCH_HEADER, SendError, Tls, Transport},
    time::WallClock,
};

/// Base address of every service that is asked this way.
pub(crate) const URL: &str = "https://runner.example/v1";

/// A service with its file, which goes with it.
pub(crate) struct Outside {
    file: PathBuf,
    clock: WallClock,
    habits: Habits,
    service: Mutex<Option<Service>>,
    crashes: AtomicU64,
}

impl Outside {
    pub(crate) fn with(clock: WallClock, habits: Habits) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctual-fake-{}-{number}.jsonl", std::process::id());
        let file = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&file);
        let outside =
            Self { file, clock, habits, service: Mutex::default(), crashes: AtomicU64::new(0) };
        outside.come_back();
        outside
    }

    /// Ends the process; what it recorded stays.
    pub(crate) fn go_away(&self) {
        *self.service.lock().unwrap() = None;
    }

    /// Starts the process, with what is recorded and without faults.
    pub(crate) fn come_back(&self) {
        self.go_away(); // the file has one user
        let opened = Service::open(&self.file, self.clock.clone(), self.habits.clone(), None);
        *self.service.lock().unwrap() = Some(opened.unwrap());
    }

    pub(crate) fn arm(&self, fault: &str) {
        let fault: Fault = fault.parse().unwrap();
        self.service.lock().unwrap().as_ref().unwrap().arm(fault).unwrap();
    }

    pub(crate) fn disarm(&self) {
        self.control("DELETE", "/fake/faults", "");
    }

    /// One of the requests that no provider knows.
    pub(crate) fn control(&self, method: &str, path: &str, body: &str) -> Value {
        let request = service::Request {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            epoch: None,
            authorization: None,
            body: body.as_bytes().to_vec(),
        };
        match self.react(&request) {
            Reaction::Answer { code: 200, body, .. } => body,
            other => panic!("{other:?}"),
        }
    }

    /// What happened to the run with this key.
    pub(crate) fn tally(&self, key: &str) -> Value {
        self.control("GET", "/fake/audit", "")["runs"][key].clone()
    }

    pub(crate) fn starts(&self) -> u64 {
        let audit = self.control("GET", "/fake/audit", "");
        let runs = audit["runs"].as_object().unwrap().values();
        runs.map(|run| run["starts"].as_u64().unwrap()).sum()
    }

    pub(crate) fn crashes(&self) -> u64 {
        self.crashes.load(Ordering::Relaxed)
    }

    pub(crate) fn react(&self, request: &service::Request) -> Reaction {
        let service = self.service.lock().unwrap();
        service.as_ref().map_or(Reaction::Unreachable, |service| service.react(request))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Transport for Outside {
    fn send<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        _tls: &'a Tls,
    ) -> BoxFuture<'a, Result<Response<Vec<u8>>, SendError>> {
        let header = |name: &str| {
            request.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let request = service::Request {
            epoch: header(EPOCH_HEADER),
            authorization: header(header::AUTHORIZATION.as_str()),
            path: request.uri().path().strip_prefix("/v1").unwrap().to_owned(),
            method: request.method().clone(),
            body: request.into_body(),
        };
        Box::pin(async move {
            match self.react(&request) {
                Reaction::Unreachable => Err(SendError::NotReached("nobody is there".into())),
                Reaction::Lost => Err(SendError::Broken("the answer was lost".into())),
                Reaction::Crash => {
                    self.crashes.fetch_add(1, Ordering::Relaxed);
                    self.come_back();
                    Err(SendError::Broken("the connection was reset".into()))
                }
                Reaction::Answer { after, code, body } => {
                    sleep(after.min(ANSWER_TIMEOUT)).await;
                    if after >= ANSWER_TIMEOUT {
                        return Err(SendError::NotReached("no answer in time".into()));
                    }
                    let answer = Response::builder().status(code);
                    Ok(answer.body(body.to_string().into_bytes()).unwrap())
                }
            }
        })
    }
}

/// Several clients share one service.
impl Transport for std::sync::Arc<Outside> {
    fn send<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        tls: &'a Tls,
    ) -> BoxFuture<'a, Result<Response<Vec<u8>>, SendError>> {
        self.as_ref().send(request, tls)
    }
}
