//! Writes histories that never happened, commit by commit.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::sim::{
    Commit, Key, Kind, RunChange, RunEvent, Verb,
    invariants::{Checker, Invariant, Setup, Violation},
};

pub(super) const START: &str = "2026-11-29T01:58:00Z";
pub(super) const INSTANT: &str = "2026-11-29T02:00:00Z";
pub(super) const ID: &str = "0123456789abcdef0123456789abcdef";

/// A replica in a term.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub(super) by: &'static str,
    pub(super) epoch: i64,
    pub(super) nonce: &'static str,
}

impl Term {
    pub(super) fn fence(self) -> Value {
        json!({"epoch": self.epoch, "nonce": self.nonce})
    }
}

pub(super) struct Forger {
    pub(super) checker: Checker,
    objects: BTreeMap<Key, Arc<Value>>,
    revision: u64,
    at: Duration,
}

pub(super) fn lease() -> Key {
    Key::new(Kind::Lease, "ops", "punctual")
}

pub(super) fn schedule() -> Key {
    Key::new(Kind::MaintenanceSchedule, "default", "nightly")
}

pub(super) fn occurrence() -> Key {
    Key::new(Kind::MaintenanceOccurrence, "default", "nightly-202611290200")
}

pub(super) fn job(n: u32) -> Key {
    Key::new(Kind::Job, "default", format!("nightly-202611290200-m{n}"))
}

pub(super) fn pod(n: u32) -> Key {
    Key::new(Kind::Pod, "default", format!("nightly-202611290200-m{n}-x"))
}

/// Puts the fields of `more` into `base`, maps into maps.
fn merge(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (name, value) in more {
                merge(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more.clone(),
    }
}

pub(super) fn claim(uid: &str, start: bool) -> Value {
    json!({"time": INSTANT, "start": start, "uid": uid, "runKey": format!("{ID}-m1"), "actionClass": "Fenced"})
}

pub(super) fn attempt(n: u32, more: &Value) -> Value {
    let mut all =
        json!({"number": n, "runKey": format!("{ID}-m{n}"), "handle": format!("j{n}"), "epoch": 1});
    merge(&mut all, more);
    all
}

impl Forger {
    pub(super) fn new() -> Self {
        let checker =
            Checker::new(Setup { start: START.parse().unwrap(), lease: lease(), epoch_offset: 0 });
        Self { checker, objects: BTreeMap::new(), revision: 100, at: Duration::ZERO }
    }

    /// Time passes until this second.
    pub(super) fn at(&mut self, second: u64) -> &mut Self {
        self.at = Duration::from_secs(second);
        self
    }

    fn commit(&mut self, by: &str, subresource: &'static str, key: &Key, new: Option<Value>) {
        self.revision += 1;
        let new = new.map(|mut object| {
            object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
            object["metadata"]["name"] = json!(key.name);
            object["metadata"]["namespace"] = json!(key.namespace);
            Arc::new(object)
        });
        let old = self.objects.get(key).cloned();
        let verb = match (&old, &new) {
            (None, _) => Verb::Create,
            (_, None) => Verb::Delete,
            _ => Verb::Update,
        };
        match &new {
            Some(new) => drop(self.objects.insert(key.clone(), new.clone())),
            None => drop(self.objects.remove(key)),
        }
        self.checker.commit(&Commit {
            revision: self.revision,
            at: self.at,
            by: by.into(),
            verb,
            subresource,
            key: key.clone(),
            old,
            new,
        });
    }

    /// Creates an object, or merges `more` into the one there is.
    pub(super) fn write(&mut self, by: &str, key: &Key, more: &Value) {
        let mut object = self.objects.get(key).map_or(json!({}), |object| object.as_ref().clone());
        merge(&mut object, more);
        self.commit(by, "", key, Some(object));
    }

    /// Replaces the whole status.
    pub(super) fn status(&mut self, by: &str, key: &Key, status: Value) {
        let mut object = self.objects[key].as_ref().clone();
        object["status"] = status;
        self.commit(by, "status", key, Some(object));
    }

    /// Merges into the status, with the fence of a term.
    pub(super) fn decide(&mut self, term: Term, key: &Key, more: &Value) {
        let mut status = self.objects[key]["status"].clone();
        if status.is_null() {
            status = json!({});
        }
        merge(&mut status, more);
        status["fence"] = term.fence();
        self.status(term.by, key, status);
    }

    pub(super) fn delete(&mut self, by: &str, key: &Key) {
        self.commit(by, "", key, None);
    }

    /// The Lease is taken; gives the term.
    pub(super) fn acquire(&mut self, by: &'static str, nonce: &'static str) -> Term {
        if !self.objects.contains_key(&lease()) {
            self.write(by, &lease(), &json!({"metadata": {"uid": "l1"}, "spec": {}}));
        }
        let version = self.objects[&lease()]["metadata"]["resourceVersion"].clone();
        let epoch = version.as_str().unwrap().parse().unwrap();
        self.take(Term { by, epoch, nonce });
        Term { by, epoch, nonce }
    }

    /// The Lease is written with any epoch.
    pub(super) fn take(&mut self, term: Term) {
        let annotations =
            json!({"punctual.dev/epoch": term.epoch.to_string(), "punctual.dev/nonce": term.nonce});
        let more = json!({"metadata": {"annotations": annotations}, "spec": {"holderIdentity": format!("{}/{}", term.by, term.nonce)}});
        self.write(term.by, &lease(), &more);
    }

    /// A person creates the schedule.
    pub(super) fn new_schedule(&mut self, more: &Value) {
        let created: jiff::Timestamp = START.parse().unwrap();
        let created = created + jiff::SignedDuration::try_from(self.at).unwrap();
        let mut object = json!({
            "metadata": {"uid": "s1", "creationTimestamp": created.to_string()},
            "spec": {"schedule": "0 2 * * *", "timeZone": "UTC", "concurrencyPolicy": "Forbid"},
        });
        merge(&mut object, more);
        self.write("person", &schedule(), &object);
    }

    /// The leader sees the schedule for the first time.
    pub(super) fn take_up(&mut self, term: Term) {
        let spec = &self.objects[&schedule()]["spec"];
        let observed = json!({"uid": "s1", "schedule": spec["schedule"], "timeZone": "UTC"});
        let effective = self.objects[&schedule()]["metadata"]["creationTimestamp"].clone();
        self.decide(term, &schedule(), &json!({"observed": observed, "effectiveTime": effective}));
    }

    pub(super) fn create_occurrence(&mut self, by: &str, uid: &str, more: &Value) {
        let mut object = json!({
            "metadata": {"uid": uid},
            "spec": {"scheduleName": "nightly", "intendedTime": INSTANT, "scheduleUID": "s1"},
        });
        merge(&mut object, more);
        self.write(by, &occurrence(), &object);
    }

    /// A suspended Job, uid `j<n>`, of the occurrence with uid `parent`.
    pub(super) fn prepare(&mut self, term: Term, n: u32, parent: &str) {
        let owner =
            json!({"kind": "MaintenanceOccurrence", "name": occurrence().name, "uid": parent});
        let object = json!({
            "metadata": {
                "uid": format!("j{n}"), "labels": {"punctual.dev/parent-uid": parent}, "ownerReferences": [owner],
                "annotations": {"punctual.dev/epoch": term.epoch.to_string()},
            },
            "spec": {"suspend": true},
        });
        self.write(term.by, &job(n), &object);
    }

    pub(super) fn release(&mut self, term: Term, n: u32) {
        let annotations = json!({"punctual.dev/released": term.epoch.to_string()});
        let more = json!({"metadata": {"annotations": annotations}, "spec": {"suspend": false}});
        self.write(term.by, &job(n), &more);
    }

    pub(super) fn finish_job(&mut self, n: u32, condition: &str) {
        let status = json!({"conditions": [{"type": condition, "status": "True"}]});
        self.status("job-controller", &job(n), status);
    }

    pub(super) fn run(&mut self, handle: &str, what: RunChange) {
        self.checker.run(&RunEvent {
            at: self.at,
            parent: occurrence(),
            parent_uid: "o1".into(),
            run_key: format!("{ID}-m1"),
            handle: handle.into(),
            what,
        });
    }

    // ---- the usual story, in steps --------------------------------------------------------------

    /// A leader has taken up a schedule.
    pub(super) fn led() -> (Self, Term) {
        let mut forger = Self::new();
        forger.new_schedule(&json!({}));
        let term = forger.at(1).acquire("r0", "n0");
        forger.at(2).take_up(term);
        (forger, term)
    }

    /// Its instant has come, is created and claimed.
    pub(super) fn claimed() -> (Self, Term) {
        let (mut forger, term) = Self::led();
        forger.at(120).create_occurrence("r0", "o1", &json!({}));
        forger.claim(term, &json!([claim("o1", true)]));
        (forger, term)
    }

    pub(super) fn claim(&mut self, term: Term, claims: &Value) {
        self.decide(term, &schedule(), &json!({"lastScheduleTime": INSTANT, "claimed": claims}));
    }

    /// Its Job is prepared and committed.
    pub(super) fn committed() -> (Self, Term) {
        let (mut forger, term) = Self::claimed();
        forger.prepare(term, 1, "o1");
        forger.attempts(term, "Starting", &json!([attempt(1, &json!({}))]));
        (forger, term)
    }

    pub(super) fn attempts(&mut self, term: Term, state: &str, attempts: &Value) {
        let more = json!({"state": state, "id": ID, "attempts": attempts});
        self.decide(term, &occurrence(), &more);
    }

    /// It is released.
    pub(super) fn running() -> (Self, Term) {
        let (mut forger, term) = Self::committed();
        forger.release(term, 1);
        (forger, term)
    }

    /// It is over.
    pub(super) fn finished() -> (Self, Term) {
        let (mut forger, term) = Self::running();
        forger.at(150).finish_job(1, "Complete");
        forger.end(term, "Succeeded");
        forger.claim(term, &json!([]));
        (forger, term)
    }

    /// The end of attempt 1 is recorded.
    pub(super) fn end(&mut self, term: Term, state: &str) {
        let more = json!({"outcome": state});
        self.attempts(term, state, &json!([attempt(1, &more)]));
    }

    // ---- verdicts -------------------------------------------------------------------------------

    /// The violations after the end.
    pub(super) fn judged(mut self) -> Vec<Violation> {
        let at = self.at.max(Duration::from_mins(10));
        self.checker.finish(at, true);
        self.checker.violations().to_vec()
    }

    #[track_caller]
    pub(super) fn must_pass(self) {
        let found = self.judged();
        assert!(found.is_empty(), "{found:#?}");
    }

    /// The history breaks this invariant, and no other one before the end.
    #[track_caller]
    pub(super) fn must_break(self, invariant: Invariant, words: &str) {
        let before_end = self.checker.violations().to_vec();
        let others: Vec<_> = before_end.iter().filter(|v| v.invariant != invariant).collect();
        assert!(others.is_empty(), "{others:#?}");
        let found = self.judged();
        let hit = found.iter().any(|v| v.invariant == invariant && v.sentence.contains(words));
        assert!(hit, "{invariant} was not found: {found:#?}");
    }
}
