//! The ledger of a queue: who is admitted, how many at once, and for how long.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Blame, Case, Invariant,
    facts::{self, Store},
    runs::Runs,
};
use crate::sim::{Key, Kind};

/// An attempt of a report job: uid and number.
type Attempt = (String, i64);

/// Admissions so far.
#[derive(Default)]
pub(super) struct Admissions {
    /// Attempts that ever had an entry in a ledger.
    admitted: BTreeSet<Attempt>,
    /// By queue's uid: the term that sealed it last, and the entries that it found.
    found: BTreeMap<String, (i64, BTreeSet<Attempt>)>,
}

impl Admissions {
    pub(super) fn judge(&mut self, case: &Case, runs: &Runs, blame: &mut Blame) {
        if case.commit.key.kind != Kind::ReportQueue {
            return;
        }
        let (key, Some(new)) = (&case.commit.key, case.after()) else { return };
        let old = case.before();
        let had = old.and_then(|old| old.pointer("/status/ledger")).is_some();
        if had && new.pointer("/status/ledger").is_none() {
            blame.on(Invariant::SlotsKept, key, "its ledger has vanished");
        }
        if !case.is_status_of_replica() {
            return;
        }
        let before: BTreeSet<Attempt> = old.into_iter().flat_map(attempts).collect();
        let now: BTreeSet<Attempt> = attempts(new).collect();
        let added: BTreeSet<&Attempt> = now.difference(&before).collect();
        if let Some((epoch, _)) = facts::fence(new) {
            let found = self.found.entry(facts::uid(new).to_owned()).or_default();
            if found.0 != epoch {
                *found = (epoch, if had { before.clone() } else { now.clone() });
            }
            if had && !added.is_empty() {
                let open: Vec<&Attempt> =
                    found.1.iter().filter(|attempt| now.contains(*attempt)).collect();
                unaccounted(case, new, &open, epoch, blame);
            }
        }
        let slots = new.pointer("/spec/slots").and_then(Value::as_i64).unwrap_or_default();
        let used = i64::try_from(now.len()).unwrap_or(i64::MAX);
        // What is found when a ledger is made anew may be more than the slots of today.
        if had && !added.is_empty() && used > slots {
            let sentence = format!("{used} entries after an admission, and {slots} slots");
            blame.on(Invariant::SlotsKept, key, sentence);
        }
        for entry in old.into_iter().flat_map(entries) {
            if !now.contains(&attempt(entry)) {
                kept(case, new, entry, runs, blame);
            }
        }
        self.admitted.extend(now);
    }

    /// Whether this attempt may start.
    pub(super) fn may_start(&self, uid: &str, number: i64) -> bool {
        self.admitted.contains(&(uid.to_owned(), number))
    }
}

/// The entries of a queue.
pub(super) fn entries(queue: &Value) -> &[Value] {
    facts::list(queue, "/status/ledger/entries")
}

fn attempt(entry: &Value) -> Attempt {
    (facts::text(entry, "/uid").to_owned(), entry["attempt"].as_i64().unwrap_or_default())
}

fn attempts(queue: &Value) -> impl Iterator<Item = Attempt> {
    entries(queue).iter().map(attempt)
}

/// The job of an entry, if it stands under the entry's uid.
pub(super) fn job_of<'a>(store: &'a Store, queue: &Key, entry: &Value) -> Option<&'a Value> {
    let key = Key::new(Kind::ReportJob, queue.namespace.clone(), facts::text(entry, "/job"));
    store.get(&key).filter(|job| facts::uid(job) == facts::text(entry, "/uid"))
}

/// Whether the attempt of an entry is over, by what its job says.
pub(super) fn is_over(job: &Value, entry: &Value) -> bool {
    let number = &entry["attempt"];
    let recorded = facts::attempts(job).iter().find(|attempt| &attempt["number"] == number);
    let outcome = recorded.map_or("", |attempt| facts::text(attempt, "/outcome"));
    facts::is_terminal(job) || !["", "Unknown"].contains(&outcome)
}

/// A new leader admits nothing before it has sealed every job that it found in the ledger, unless
/// the job is over, gone, or carries the fence of nobody.
fn unaccounted(case: &Case, queue: &Value, open: &[&Attempt], epoch: i64, blame: &mut Blame) {
    for entry in entries(queue).iter().filter(|entry| open.contains(&&attempt(entry))) {
        let Some(job) = job_of(case.store, &case.commit.key, entry) else { continue };
        let going = !facts::text(job, "/metadata/deletionTimestamp").is_empty();
        let sealed = facts::fence(job).is_some_and(|(of, _)| of >= epoch);
        if !sealed && !going && !is_over(job, entry) {
            let sentence = format!(
                "term {epoch} admits although it has not sealed {}, which holds a slot",
                facts::text(entry, "/job")
            );
            blame.on(Invariant::AdmissionsAfterRecovery, &case.commit.key, sentence);
        }
    }
}

/// An entry goes only when its attempt is over, when its job is gone and nothing of it acts, or when
/// a person has written it off.
fn kept(case: &Case, queue: &Value, entry: &Value, runs: &Runs, blame: &mut Blame) {
    let (key, uid) = (&case.commit.key, facts::text(entry, "/uid"));
    let name = facts::text(entry, "/job");
    let abandoned =
        facts::list(queue, "/spec/abandon").iter().any(|a| facts::text(a, "/uid") == uid);
    if abandoned {
        return;
    }
    if let Some(job) = job_of(case.store, key, entry) {
        let going = !facts::text(job, "/metadata/deletionTimestamp").is_empty();
        if !going && !is_over(job, entry) {
            let sentence = format!("the entry of {name} was dropped before its attempt was over");
            blame.on(Invariant::EntryKept, key, sentence);
        }
        return;
    }
    // For the other classes absence after a requested stop suffices, whatever still acts.
    let fenced = facts::text(entry, "/actionClass") == "Fenced";
    if let Some(run) = runs.acting_for(uid).next().filter(|_| fenced) {
        let sentence =
            format!("the entry of {name}, which is gone, was dropped while run {run} can act");
        blame.on(Invariant::EntryKept, key, sentence);
    }
}
