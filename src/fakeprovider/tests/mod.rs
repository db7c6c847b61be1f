//! The rules that a service has to keep, and the file that keeps them over a crash.

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    book::{Book, Habits},
    journal::{Journal, JournalError},
    outside::Outside,
    service::{Reaction, Request},
};
use crate::time::WallClock;

const KEY: &str = "/runs/4c78fa5c685dd0f1904515254e6e61c1-m1";

struct Scene {
    clock: WallClock,
    outside: Outside,
}

impl Scene {
    fn new() -> Self {
        Self::with(Habits { hold: true, seconds: 5 })
    }

    fn with(habits: Habits) -> Self {
        let clock = WallClock::driven("2026-11-29T02:00:00Z".parse().unwrap());
        let outside = Outside::with(clock.clone(), habits);
        Self { clock, outside }
    }

    fn react(&self, epoch: i64, method: Method, path: &str, body: &Value) -> Reaction {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let epoch = Some(epoch.to_string());
        self.outside.react(&Request { method, path: path.into(), epoch, authorization: None, body })
    }

    fn ask(&self, epoch: i64, method: Method, path: &str, body: &Value) -> (u16, Value) {
        match self.react(epoch, method, path, body) {
            Reaction::Answer { code, body, .. } => (code, body),
            other => panic!("{other:?}"),
        }
    }

    fn put(&self, epoch: i64, parameters: &Value) -> (u16, Value) {
        self.ask(epoch, Method::PUT, KEY, &run(parameters))
    }

    fn release(&self, epoch: i64, handle: &Value) -> (u16, Value) {
        self.ask(epoch, Method::POST, &format!("{KEY}/release"), &json!({"handle": handle}))
    }

    fn get(&self, epoch: i64) -> (u16, Value) {
        self.ask(epoch, Method::GET, KEY, &Value::Null)
    }

    fn delete(&self, epoch: i64) -> (u16, Value) {
        self.ask(epoch, Method::DELETE, KEY, &Value::Null)
    }

    fn pass(&self, seconds: i64) {
        let now = self.clock.now();
        self.clock.set(now + jiff::SignedDuration::from_secs(seconds));
    }
}

fn run(parameters: &Value) -> Value {
    json!({
        "requestID": "4c78fa5c-685d-80f1-9045-15254e6e61c1", "attempt": 1,
        "actionClass": "Fenced", "hold": true, "parameters": parameters,
    })
}

fn state(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["state"].as_str().or(answer.1["reason"].as_str()).unwrap())
}

#[test]
fn a_run_is_held_until_its_handle_is_released_and_then_has_a_clock() {
    let scene = Scene::new();
    let put = scene.put(7, &json!({}));
    assert_eq!(state(&put), (201, "Held"));
    assert_eq!(scene.put(7, &json!({})), (200, put.1.clone()), "the same again changes nothing");
    scene.pass(3600);
    assert_eq!(state(&scene.get(7)), (200, "Held"));
    assert_eq!(state(&scene.release(7, &json!("other"))), (409, "HandleChanged"));
    assert_eq!(state(&scene.get(7)), (200, "Held"));
    let released = scene.release(7, &put.1["handle"]);
    assert_eq!(state(&released), (200, "Running"));
    assert_eq!(released.1["startTime"], "2026-11-29T03:00:00Z");
    scene.pass(4);
    assert_eq!(state(&scene.release(7, &put.1["handle"])), (200, "Running"), "it began once");
    scene.pass(1);
    let ended = scene.get(7).1;
    assert_eq!(
        (&ended["state"], &ended["completionTime"]),
        (&json!("Succeeded"), &json!("2026-11-29T03:00:05Z"))
    );
    assert_eq!(state(&scene.delete(7)), (200, "Succeeded"), "an end stays as it was");
    assert_eq!(scene.outside.starts(), 1);
}

#[test]
fn a_lower_epoch_than_was_seen_changes_nothing_whatever_was_seen_first() {
    for first in [Method::GET, Method::DELETE] {
        let scene = Scene::new();
        scene.ask(9, first.clone(), KEY, &Value::Null);
        for (method, path, body) in [
            (Method::PUT, KEY.to_owned(), run(&json!({}))),
            (Method::POST, format!("{KEY}/release"), json!({"handle": "h"})),
            (Method::GET, KEY.to_owned(), Value::Null),
            (Method::DELETE, KEY.to_owned(), Value::Null),
        ] {
            let answer = scene.ask(8, method.clone(), &path, &body);
            assert_eq!(state(&answer), (412, "EpochTooLow"), "{method} after {first}");
        }
        scene.outside.come_back();
        assert_eq!(state(&scene.get(8)), (412, "EpochTooLow"), "also after a restart");
        let other = scene.ask(8, Method::GET, "/runs/other-m1", &Value::Null);
        assert_eq!(state(&other), (404, "UnknownRun"), "each key has its own");
    }
}

#[test]
fn a_deleted_key_is_never_accepted_again() {
    let scene = Scene::new();
    assert_eq!(state(&scene.get(7)), (404, "UnknownRun"));
    assert_eq!(state(&scene.delete(7)), (200, "Absent"), "it had never heard of it");
    assert_eq!(state(&scene.put(8, &json!({}))), (410, "Deleted"));
    assert_eq!(state(&scene.release(8, &json!("h"))), (410, "Deleted"));
    assert_eq!(state(&scene.get(8)), (200, "Absent"));

    let held = Scene::new();
    let put = held.put(7, &json!({}));
    assert_eq!(state(&held.delete(7)), (200, "Cancelled"));
    assert_eq!(state(&held.release(7, &put.1["handle"])), (410, "Deleted"));
    assert_eq!(state(&held.put(9, &json!({}))), (410, "Deleted"));
    held.outside.come_back();
    assert_eq!(state(&held.put(9, &json!({}))), (410, "Deleted"), "also after a restart");
    assert_eq!(held.outside.starts(), 0);
}

#[test]
fn another_content_replaces_what_is_held_only_for_a_later_term() {
    let scene = Scene::new();
    let first = scene.put(7, &json!({"a": "1"})).1["handle"].clone();
    assert_eq!(state(&scene.put(7, &json!({"a": "2"}))), (409, "KeyTaken"));
    let second = scene.put(8, &json!({"a": "2"}));
    assert_eq!(state(&second), (201, "Held"));
    assert_ne!(second.1["handle"], first);
    assert_eq!(state(&scene.release(8, &first)), (409, "HandleChanged"));
    assert_eq!(state(&scene.release(8, &second.1["handle"])), (200, "Running"));
    assert_eq!(state(&scene.put(9, &json!({"a": "3"}))), (409, "KeyTaken"), "it began");
}

#[test]
fn parameters_say_how_a_run_goes() {
    for (parameters, after, expected) in [
        (json!({"fakeDurationSeconds": "60"}), 59, "Running"),
        (json!({"fakeDurationSeconds": "60"}), 60, "Succeeded"),
        (json!({"fakeStartSeconds": "9"}), 8, "Released"),
        (json!({"fakeStartSeconds": "9"}), 9, "Running"),
        (json!({"fakeOutcome": "Failed"}), 5, "Failed"),
        (json!({"fakeOutcome": "Unknown"}), 4, "Running"),
        (json!({"fakeOutcome": "Unknown"}), 5, "Unknown"),
        (json!({"fakeOutcome": "Hang"}), 9999, "Running"),
    ] {
        let scene = Scene::new();
        let put = scene.put(7, &parameters);
        scene.release(7, &put.1["handle"]);
        scene.pass(after);
        assert_eq!(scene.get(7).1["state"], expected, "{parameters} after {after} s");
    }
    let hangs = Scene::new();
    let put = hangs.put(7, &json!({"fakeOutcome": "Hang"}));
    hangs.release(7, &put.1["handle"]);
    assert_eq!(state(&hangs.delete(7)), (200, "Stopping"));
    hangs.pass(9999);
    assert_eq!(state(&hangs.get(7)), (200, "Stopping"), "it never confirms");
}

#[test]
fn a_service_that_cannot_hold_says_so_and_starts_what_needs_no_hold() {
    let scene = Scene::with(Habits { hold: false, seconds: 5 });
    let capabilities = scene.ask(7, Method::GET, "/capabilities", &Value::Null);
    assert_eq!(capabilities, (200, json!({"hold": false})));
    assert_eq!(state(&scene.put(7, &json!({}))), (422, "CannotHold"));
    let mut eager = run(&json!({}));
    eager["hold"] = false.into();
    let put = scene.ask(7, Method::PUT, KEY, &eager);
    assert_eq!(state(&put), (201, "Running"));
    assert_eq!(scene.ask(8, Method::PUT, KEY, &eager).0, 200, "the same run");
    assert_eq!(scene.outside.starts(), 1);
}

#[test]
fn requests_that_break_the_contract_are_refused() {
    let scene = Scene::new();
    for (description, epoch, path, body, code) in [
        ("no epoch", None, KEY, run(&json!({})), 400),
        ("no number", Some("many"), KEY, run(&json!({})), 400),
        ("epoch 0", Some("0"), KEY, run(&json!({})), 400),
        ("no run", Some("7"), KEY, json!({"run": 1}), 400),
        ("a key with a space", Some("7"), "/runs/a%20b", run(&json!({})), 400),
        ("another path", Some("7"), "/jobs", run(&json!({})), 404),
    ] {
        let request = Request {
            method: Method::PUT,
            path: path.into(),
            epoch: epoch.map(str::to_owned),
            authorization: None,
            body: body.to_string().into_bytes(),
        };
        let reaction = scene.outside.react(&request);
        assert!(
            matches!(reaction, Reaction::Answer { code: given, .. } if given == code),
            "{description}: {reaction:?}"
        );
    }
}

#[test]
fn a_file_gives_the_book_back_and_half_a_line_is_cut_off() {
    let path = std::env::temp_dir().join(format!("punctual-journal-{}.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let habits = Habits::default();
    let (mut journal, records) = Journal::open(&path).unwrap();
    assert!(records.is_empty());
    let now: Timestamp = "2026-11-29T02:00:00Z".parse().unwrap();
    let mut book = Book::default();
    let run = serde_json::from_value(run(&json!({"a": "1"}))).unwrap();
    let asks = [super::book::Ask::Put(run), super::book::Ask::Get, super::book::Ask::Delete];
    for (epoch, ask) in (7..).zip(&asks) {
        let (records, _) = book.ask(&habits, "a-m1", epoch, ask, now);
        journal.append(&records).unwrap();
        for record in &records {
            book.apply(&habits, record);
        }
    }
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let mut again = Book::default();
        let (_, records) = Journal::open(&path)?;
        for record in &records {
            again.apply(&habits, record);
        }
        Ok::<_, JournalError>((again, records.len()))
    };
    let (again, lines) = read(&whole).unwrap();
    assert_eq!(again, book);
    for cut in 1..40 {
        let (_, left) = read(&whole[..whole.len() - cut]).unwrap();
        assert_eq!(left, lines - 1, "{cut} bytes are missing");
        let rest = std::fs::read(&path).unwrap();
        assert!(rest.ends_with(b"\n") && whole.starts_with(&rest), "cut at a whole line");
    }
    let broken = [b"what is this\n", whole.as_slice()].concat();
    assert!(matches!(read(&broken), Err(JournalError::Line { line: 1 })));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn each_fault_does_what_it_says() {
    let scene = Scene::new();
    let put = |scene: &Scene| scene.react(7, Method::PUT, KEY, &run(&json!({})));
    scene.outside.arm("unreachable,times=1");
    assert_eq!(put(&scene), Reaction::Unreachable);
    assert_eq!(state(&scene.get(7)), (404, "UnknownRun"), "nothing was done");
    scene.outside.arm("lost-response,times=1");
    assert_eq!(put(&scene), Reaction::Lost);
    assert_eq!(state(&scene.get(7)), (200, "Held"), "it was done");
    scene.outside.arm("slow,times=1,millis=50");
    assert!(matches!(put(&scene), Reaction::Answer { after, .. } if after.as_millis() == 50));
    scene.outside.arm("unknown,times=1");
    assert_eq!(scene.get(7).1["state"], "Unknown");
    scene.outside.arm("epoch-refused,times=1");
    assert_eq!(state(&scene.get(7)), (412, "EpochTooLow"));
    scene.outside.arm("duplicate,on=delete,times=1");
    assert_eq!(state(&scene.delete(7)), (200, "Cancelled"));
    assert_eq!(scene.outside.tally(&KEY[6..])["deletes"], 1, "the second changed nothing");

    let forgets = Scene::new();
    let handle = forgets.put(7, &json!({})).1["handle"].clone();
    forgets.release(7, &handle);
    forgets.outside.arm("forget,times=1");
    assert_eq!(state(&forgets.get(7)), (404, "UnknownRun"));
    assert_ne!(forgets.put(7, &json!({})).1["handle"], handle, "another run for the service");
    assert_eq!(forgets.outside.starts(), 1, "what it did is not undone");

    let crashes = Scene::new();
    crashes.outside.arm("crash,on=put");
    assert_eq!(put(&crashes), Reaction::Crash);
    crashes.outside.come_back();
    assert_eq!(state(&crashes.get(7)), (200, "Held"), "it was recorded before");

    let late = Scene::new();
    late.outside.arm("late-put,times=1");
    assert_eq!(put(&late), Reaction::Lost);
    assert_eq!(state(&late.delete(7)), (200, "Absent"));
    let audit = late.outside.control("GET", "/fake/audit", "");
    assert_eq!(audit["late"][0]["code"], 410, "it arrived after the DELETE: {audit}");
    assert_eq!(state(&late.get(7)), (200, "Absent"));
}
