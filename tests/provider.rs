//! `punctual fake-provider` as a process: what it recorded survives its death, at any moment.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "/runs/4c78fa5c685dd0f1904515254e6e61c1-m1";

/// A process that ends with the test.
struct Provider {
    process: Child,
    address: String,
}

impl Provider {
    fn start(state: &Path, flags: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["fake-provider", "--listen", "127.0.0.1:0", "--state"])
            .arg(state)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("http://")?.1.split_once(',')?.0.to_owned()))
            .expect("it says where it listens");
        Self { process, address }
    }

    /// The answer, or `None` if the connection ended without one.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: fake\r\npunctual-epoch: 7\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let code = head.split(' ').nth(1)?.parse().ok()?;
        Some((code, serde_json::from_str(body).ok()?))
    }

    fn get(&self) -> (u16, Value) {
        self.ask("GET", KEY, &Value::Null).expect("it answers")
    }

    fn put(&self) -> Option<(u16, Value)> {
        let run = json!({
            "requestID": "4c78fa5c-685d-80f1-9045-15254e6e61c1", "attempt": 1,
            "actionClass": "Fenced", "hold": true, "parameters": {"fakeDurationSeconds": "86400"},
        });
        self.ask("PUT", KEY, &run)
    }

    fn kill(mut self) {
        self.process.kill().expect("it runs"); // SIGKILL
        self.process.wait().expect("it ends");
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A file of its own, removed with the test.
struct State(PathBuf);

impl State {
    fn new(name: &str) -> Self {
        let file = format!("punctual-provider-{name}-{}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(file);
        let _ = std::fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn what_was_answered_survives_sigkill() {
    let state = State::new("kill");
    let provider = Provider::start(&state.0, &[]);
    let second = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["fake-provider", "--listen", "127.0.0.1:0", "--state"])
        .arg(&state.0)
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another process uses it"), "two would overwrite each other: {said}");
    let (code, held) = provider.put().expect("it answers");
    assert_eq!((code, &held["state"]), (201, &json!("Held")));
    provider.kill();
    let provider = Provider::start(&state.0, &[]);
    assert_eq!(provider.get(), (200, held.clone()));
    let released =
        provider.ask("POST", &format!("{KEY}/release"), &json!({"handle": held["handle"]}));
    let (_, running) = released.expect("it answers");
    assert_eq!(running["state"], "Running");
    provider.kill();
    let provider = Provider::start(&state.0, &[]);
    assert_eq!(provider.get(), (200, running), "since the same moment");
    let (_, ended) = provider.ask("DELETE", KEY, &Value::Null).expect("it answers");
    assert_eq!(ended["state"], "Cancelled");
    provider.kill();
    let provider = Provider::start(&state.0, &[]);
    let (code, refused) = provider.put().expect("it answers");
    assert_eq!((code, &refused["reason"]), (410, &json!("Deleted")));
}

#[test]
fn what_was_recorded_before_a_crash_is_there_after_it() {
    let state = State::new("crash");
    let mut provider = Provider::start(&state.0, &["--fault", "crash,on=put,times=1"]);
    assert_eq!(provider.put(), None, "it dies before it answers");
    let ended = provider.process.wait().expect("it ends");
    assert_eq!(ended.code(), Some(137));
    let provider = Provider::start(&state.0, &[]);
    let (code, held) = provider.get();
    assert_eq!((code, &held["state"]), (200, &json!("Held")));
    let (code, again) = provider.put().expect("it answers");
    assert_eq!((code, again), (200, held), "the same run, with the same handle");
    let audit = provider.ask("GET", "/fake/audit", &Value::Null).expect("it answers").1;
    let tally = &audit["runs"][&KEY[6..]];
    assert_eq!((&tally["puts"], &tally["starts"]), (&json!(1), &json!(0)));
}

#[test]
fn bad_flags_and_files_are_refused() {
    let state = State::new("bad");
    std::fs::write(&state.0, "this is no record\n").expect("it can be written");
    let file = state.0.to_str().expect("a plain path");
    for (flags, code, part) in [
        (vec!["--state", file], 1, "line 1 of the state file is no record"),
        (vec!["--fault", "slowly"], 2, "there are unknown, unreachable, slow"),
        (vec!["--duration-seconds", "2592001"], 2, "duration-seconds"),
        (vec!["--token-file", "/nowhere/token"], 2, "--token-file /nowhere/token"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .arg("fake-provider")
            .args(["--listen", "127.0.0.1:0"])
            .args(&flags)
            .output()
            .expect("the binary starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.contains(part), "{flags:?}: {said}");
    }
}
