//! What an occurrence is and how it ended never changes; records go only behind the mark.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Blame, Case, Invariant, facts};
use crate::sim::{Key, Kind, Verb};

/// What is remembered of occurrences.
#[derive(Default)]
pub(super) struct Records {
    /// `status.id` of each name, over all objects of that name.
    ids: BTreeMap<Key, String>,
    /// The name that has an id.
    owners: BTreeMap<String, Key>,
}

impl Records {
    pub(super) fn judge(&mut self, case: &Case, blame: &mut Blame) {
        match case.commit.key.kind {
            Kind::MaintenanceOccurrence => {
                if let Some(new) = case.after() {
                    self.identity(&case.commit.key, case.before(), new, blame);
                }
                if let (Some(old), Some(new)) = (case.before(), case.after()) {
                    outcome(&case.commit.key, old, new, blame);
                }
                if case.by_replica && case.commit.verb == Verb::Delete {
                    removal(case, blame);
                }
            }
            Kind::ReportJob => {
                if let Some(new) = case.after().filter(|new| facts::is_planned(new)) {
                    self.identity(&case.commit.key, case.before(), new, blame);
                }
                if let (Some(old), Some(new)) = (case.before(), case.after()) {
                    outcome(&case.commit.key, old, new, blame);
                    report(&case.commit.key, old, new, blame);
                }
                if case.by_replica && case.commit.verb == Verb::Delete {
                    removal(case, blame);
                }
            }
            kind if facts::is_schedule(kind) => mark(case, blame),
            _ => {}
        }
    }

    fn identity(&mut self, key: &Key, old: Option<&Value>, new: &Value, blame: &mut Blame) {
        let mut wrong = |sentence: String| blame.on(Invariant::IdentityFixed, key, sentence);
        let (schedule, instant) =
            (facts::text(new, "/spec/scheduleName"), facts::text(new, "/spec/intendedTime"));
        // 2026-11-29T02:00:00Z: the digits without the seconds.
        let digits: String = instant.chars().filter(char::is_ascii_digit).take(12).collect();
        if key.name != format!("{schedule}-{digits}") {
            wrong(format!("its name is not its schedule {schedule:?} and its instant {instant:?}"));
        }
        for field in ["/spec/scheduleName", "/spec/intendedTime", "/spec/scheduleUID"] {
            if let Some(old) = old.filter(|old| facts::text(old, field) != facts::text(new, field))
            {
                let (before, now) = (facts::text(old, field), facts::text(new, field));
                wrong(format!("{field} changed from {before:?} to {now:?}"));
            }
        }
        let id = facts::text(new, "/status/id");
        if id.is_empty() {
            if old.is_some_and(|old| !facts::text(old, "/status/id").is_empty()) {
                wrong("status.id has vanished".to_owned());
            }
            return;
        }
        let known = self.ids.entry(key.clone()).or_insert_with(|| id.to_owned());
        if known != id {
            wrong(format!("one identity has two ids, {known} and {id}"));
        }
        let owner = self.owners.entry(id.to_owned()).or_insert_with(|| key.clone());
        if owner != key {
            wrong(format!("its id {id} is also that of {owner}"));
        }
        for attempt in facts::attempts(new) {
            let (key, number) = (facts::text(attempt, "/runKey"), &attempt["number"]);
            let kind = if facts::is_report(new) { 'r' } else { 'm' };
            if key != format!("{id}-{kind}{number}") {
                wrong(format!(
                    "the run key {key:?} of attempt {number} is not {id}-{kind}{number}"
                ));
            }
        }
    }
}

/// What a report is never changes, nor does the artifact that counts.
fn report(key: &Key, old: &Value, new: &Value, blame: &mut Blame) {
    if facts::uid(old) != facts::uid(new) {
        return;
    }
    for field in ["queueName", "tenant", "priority", "parameters", "estimateSeconds"] {
        let (before, now) = (&old["spec"][field], &new["spec"][field]);
        if before != now {
            let sentence = format!("spec.{field} changed from {before} to {now}");
            blame.on(Invariant::IdentityFixed, key, sentence);
        }
    }
    for (invariant, field) in
        [(Invariant::IdentityFixed, "id"), (Invariant::OutcomeFixed, "artifact")]
    {
        let (before, now) = (&old["status"][field], &new["status"][field]);
        if !before.is_null() && before != now {
            blame.on(invariant, key, format!("status.{field} changed from {before} to {now}"));
        }
    }
}

/// A terminal outcome stays, and so does what an attempt was and how it ended.
fn outcome(key: &Key, old: &Value, new: &Value, blame: &mut Blame) {
    if facts::uid(old) != facts::uid(new) {
        return;
    }
    let mut wrong = |sentence: String| blame.on(Invariant::OutcomeFixed, key, sentence);
    if facts::is_terminal(old) {
        for field in ["state", "reason", "result", "artifact"] {
            let (before, now) = (&old["status"][field], &new["status"][field]);
            if before != now {
                wrong(format!("the terminal status.{field} changed from {before} to {now}"));
            }
        }
    }
    let (before, now) = (facts::attempts(old), facts::attempts(new));
    if now.len() < before.len() {
        wrong(format!("of {} attempts only {} are left", before.len(), now.len()));
    }
    for (before, now) in before.iter().zip(now) {
        for field in ["number", "runKey", "handle"] {
            if before[field] != now[field] {
                let number = &before["number"];
                wrong(format!(
                    "attempt {number}: {field} changed from {} to {}",
                    before[field], now[field]
                ));
            }
        }
        let ended = ["Succeeded", "Failed", "Cancelled"].contains(&facts::text(before, "/outcome"));
        if ended && before["outcome"] != now["outcome"] {
            let number = &before["number"];
            wrong(format!(
                "attempt {number}: its end changed from {} to {}",
                before["outcome"], now["outcome"]
            ));
        }
    }
}

/// The operator removes only what is over, behind the mark of its schedule.
fn removal(case: &Case, blame: &mut Blame) {
    let Some(old) = case.before() else { return };
    let key = &case.commit.key;
    if !facts::is_terminal(old) {
        let state = facts::text(old, "/status/state");
        blame.on(Invariant::RecordsBehindMark, key, format!("removed while it was {state:?}"));
    }
    if facts::is_report(old) && !facts::is_planned(old) {
        return; // its queue keeps it for a time
    }
    // A schedule that no term has sealed yet was created just now, while its records were orphans.
    let schedule = case.store.schedule_of(old).filter(|schedule| facts::fence(schedule).is_some());
    let Some(schedule) = schedule else { return };
    let mark = facts::text(schedule, "/status/prunedThrough");
    // Instants have one spelling, which sorts by time.
    if mark < facts::text(old, "/spec/intendedTime") {
        let sentence = format!("removed although its schedule's prunedThrough is {mark:?}");
        blame.on(Invariant::RecordsBehindMark, key, sentence);
    }
}

/// The mark of a schedule never goes back.
fn mark(case: &Case, blame: &mut Blame) {
    let (Some(old), Some(new), true) = (case.before(), case.after(), case.by_replica) else {
        return;
    };
    let (before, now) =
        (facts::text(old, "/status/prunedThrough"), facts::text(new, "/status/prunedThrough"));
    if now < before {
        let sentence = format!("prunedThrough went back from {before} to {now:?}");
        blame.on(Invariant::RecordsBehindMark, &case.commit.key, sentence);
    }
}
