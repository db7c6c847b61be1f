//! What people do meanwhile.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    moves::{Hand, name_of},
    objects,
};
use crate::sim::{
    Key, Kind,
    api::{Deletion, Propagation, Request},
};

/// Who writes.
const PERSON: &str = "person";

impl Hand<'_> {
    /// One thing that a person does with something that is there.
    pub(super) fn person(&mut self) {
        match self.dice.of(1..=12) {
            1 | 2 => self.cancel(Kind::MaintenanceOccurrence),
            3 | 4 => self.resolve(Kind::MaintenanceOccurrence),
            5 => self.delete(Kind::MaintenanceOccurrence),
            6 => self.delete(Kind::MaintenanceSchedule),
            7 | 8 => self.create_schedule(),
            9 => self.suspend(Kind::MaintenanceSchedule),
            10 | 11 => self.edit(),
            _ => self.trigger(),
        }
    }

    pub(super) fn write(&self, what: &str, request: Request) {
        let outcome = match self.world.model().write(PERSON, request) {
            Ok(_) => "done".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        self.world.note(format!("a person wants to {what}: {outcome}"));
    }

    pub(super) fn one_of(
        &mut self,
        kind: Kind,
        wanted: impl Fn(&Value) -> bool,
    ) -> Option<Arc<Value>> {
        let all = self.world.model().list(kind);
        let of: Vec<Arc<Value>> = all.into_iter().filter(|object| wanted(object)).collect();
        self.dice.pick(&of).cloned()
    }

    pub(super) fn cancel(&mut self, kind: Kind) {
        let open = |object: &Value| object["status"]["conditions"].is_null() || !is_over(object);
        let Some(object) = self.one_of(kind, open) else { return };
        let key = Key::new(kind, "default", name_of(&object));
        let patch = Request::patch(&key, json!({"spec": {"cancel": true}}));
        self.write(&format!("cancel {key}"), patch);
    }

    pub(super) fn resolve(&mut self, kind: Kind) {
        let unresolved = |object: &Value| object["status"]["state"] == "Unresolved";
        let Some(object) = self.one_of(kind, unresolved) else { return };
        let key = Key::new(kind, "default", name_of(&object));
        let attempt = object["status"]["attempts"].as_array().map_or(1, Vec::len);
        let decision = self.dice.pick(&["Succeeded", "Failed", "Retry", "Retry"]).copied();
        let resolution = json!({
            "attempt": attempt, "decision": decision, "reason": "looked at by a person",
            "acceptDuplicate": self.dice.chance(30),
        });
        let patch = Request::patch(&key, json!({"spec": {"resolution": resolution}}));
        self.write(&format!("resolve {key}"), patch);
    }

    pub(super) fn delete(&mut self, kind: Kind) {
        let Some(object) = self.one_of(kind, |_| true) else { return };
        let key = Key::new(kind, "default", name_of(&object));
        self.write(&format!("delete {key}"), Request::delete(&key, Deletion::default()));
    }

    fn create_schedule(&mut self) {
        let name = self.dice.pick(&objects::SCHEDULES).copied().unwrap_or("alpha");
        let schedule = objects::schedule(&mut self.dice, name);
        let create = Request::create(Kind::MaintenanceSchedule, "default", schedule);
        self.write(&format!("create msched/{name}"), create);
    }

    pub(super) fn suspend(&mut self, kind: Kind) {
        let Some(object) = self.one_of(kind, |_| true) else { return };
        let key = Key::new(kind, "default", name_of(&object));
        let suspend = object["spec"]["suspend"] != true;
        let patch = Request::patch(&key, json!({"spec": {"suspend": suspend}}));
        self.write(&format!("set suspend of {key} to {suspend}"), patch);
    }

    /// Another expression, policy or image.
    fn edit(&mut self) {
        let Some(object) = self.one_of(Kind::MaintenanceSchedule, |_| true) else { return };
        let key = Key::new(Kind::MaintenanceSchedule, "default", name_of(&object));
        let other = objects::schedule(&mut self.dice, &key.name);
        let field = self.dice.pick(&["schedule", "concurrencyPolicy", "missedRuns"]).copied();
        let field = field.unwrap_or("schedule");
        let patch = Request::patch(&key, json!({"spec": {field: other["spec"][field]}}));
        self.write(&format!("edit {field} of {key}"), patch);
    }

    pub(super) fn create(&self, object: &Value) {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let Some(kind) = Kind::named(&text(&object["kind"])) else { return };
        let name = text(&object["metadata"]["name"]);
        let create = Request::create(kind, "default", object.clone());
        self.write(&format!("create {}/{name}", kind.short()), create);
    }

    pub(super) fn patch(&self, kind: Kind, name: &str, patch: &Value) {
        let key = Key::new(kind, "default", name);
        self.write(&format!("edit {key}"), Request::patch(&key, patch.clone()));
    }

    pub(super) fn delete_named(&self, kind: Kind, name: &str) {
        let key = Key::new(kind, "default", name);
        self.write(&format!("delete {key}"), Request::delete(&key, Deletion::default()));
    }

    pub(super) fn delete_job(&self, job: &str) {
        let background = Some(Propagation::Background);
        let how = Deletion { propagation: background, ..Deletion::default() };
        let key = Key::new(Kind::Job, "default", job);
        self.write(&format!("delete {key}"), Request::delete(&key, how));
    }

    /// Another image for the first schedule that runs Jobs.
    pub(super) fn new_image(&mut self) {
        let runs_jobs = |object: &Value| object.pointer("/spec/run/job").is_some();
        let all = self.world.model().list(Kind::MaintenanceSchedule);
        let Some(object) = all.iter().find(|object| runs_jobs(object)) else { return };
        let key = Key::new(Kind::MaintenanceSchedule, "default", name_of(object));
        let image = format!("example.org/work:{}", self.dice.of(2..=99));
        let mut run = objects::job();
        run["job"]["template"]["spec"]["containers"][0]["image"] = image.clone().into();
        let patch = Request::patch(&key, json!({"spec": {"run": run}}));
        self.write(&format!("let {key} run {image}"), patch);
    }

    /// An occurrence by hand, of an instant a little before or after now.
    fn trigger(&mut self) {
        let name = self.dice.pick(&objects::SCHEDULES).copied().unwrap_or("alpha");
        let now = self.world.model().now();
        let minutes = i64::try_from(self.dice.of(0..=6)).unwrap_or(0) - 3;
        let minute = now.as_second().div_euclid(60) + minutes;
        let Ok(instant) = jiff::Timestamp::from_second(minute * 60) else { return };
        let instant = instant.to_string();
        let digits: String = instant.chars().filter(char::is_ascii_digit).take(12).collect();
        let object = objects::by_hand(name, &digits, &instant, None);
        let create = Request::create(Kind::MaintenanceOccurrence, "default", object);
        self.write(&format!("trigger {name} at {instant}"), create);
    }
}

/// Whether an occurrence or a report has ended.
fn is_over(work: &Value) -> bool {
    let state = work["status"]["state"].as_str().unwrap_or_default();
    ["Succeeded", "Failed", "Cancelled", "Skipped", "Superseded", "Rejected"].contains(&state)
}
