//! The reference service for runs outside the cluster, as a process.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    error::{BedError, Context as _, Result},
    objects::text,
    ports,
    processes::{Process, Spec},
    scenario::{Scenario, ok},
    wait,
};

/// Far longer than it takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// The reference service as a process.
pub struct Service {
    process: Process,
    port: u16,
    file: PathBuf,
}

impl Service {
    /// Starts it with faults, as its flag takes them, and waits until it answers.
    pub async fn start(s: &Scenario, faults: &[&str]) -> Self {
        let (port, file) = (ok(ports::take()), s.dir.join("runs.jsonl"));
        let mut args = vec!["fake-provider".to_owned(), format!("--listen=127.0.0.1:{port}")];
        args.push(format!("--state={}", file.display()));
        args.push("--duration-seconds=1".to_owned());
        args.extend(faults.iter().map(|fault| format!("--fault={fault}")));
        let process = ok(Process::start(Spec {
            name: "provider".to_owned(),
            program: env!("CARGO_BIN_EXE_punctual").into(),
            args,
            env: Vec::new(),
            unset: vec!["KUBECONFIG".to_owned()],
            log: s.dir.join("provider.log"),
        }));
        let service = Self { process, port, file };
        service.answers().await;
        service
    }

    async fn answers(&self) {
        let answers = || async { self.ask("GET", "/fake/audit", &Value::Null).await.map(drop) };
        ok(wait::until("the service answers", SOON, answers).await);
    }

    /// Kills it (SIGKILL).
    pub async fn kill(&self) {
        ok(self.process.kill().await);
    }

    /// Starts it again, and waits until it answers.
    pub async fn restart(&self) {
        ok(self.process.restart().await);
        self.answers().await;
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let what = || format!("{method} {path}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.context(what)?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: provider\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.context(what)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.context(what)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        if !head.starts_with("HTTP/1.1 2") {
            return Err(BedError(format!("{method} {path}: {answer}")));
        }
        Ok(serde_json::from_str(body).unwrap_or_default())
    }

    /// Arms a fault that happens to every such request from now on.
    pub async fn arm(&self, fault: &str, runs: &str, on: &str) {
        let fault = json!({"fault": fault, "match": runs, "on": on});
        ok(self.ask("POST", "/fake/faults", &fault).await);
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The records of its file: what happened, and the run key.
    fn records(&self) -> Vec<(String, String)> {
        let written = fs::read_to_string(&self.file).expect("the service made it");
        let parsed = written.lines().map(serde_json::from_str::<Value>);
        let records = parsed.map(|record| record.expect("each line is JSON"));
        records.map(|r| (text(&r, "/record").to_owned(), text(&r, "/key").to_owned())).collect()
    }

    /// How often each run began.
    pub fn begun(&self) -> BTreeMap<String, usize> {
        let mut begun = BTreeMap::new();
        for (_, key) in self.records().into_iter().filter(|(record, _)| record == "released") {
            *begun.entry(key).or_default() += 1;
        }
        begun
    }
}
