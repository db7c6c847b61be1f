//! Rules about the ledgers of report queues: who may run, and how many at a time.
//!
//! The ledger is the transaction by which reports are admitted, so what the rules compare is its
//! versions in the audit log with the Jobs that were released meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Release, Rule, Violation,
    history::{Entry, History, Place, at},
    rules::{Scope, by_uid},
    runs::{PARENT_UID, REPORTS, finished},
};

const QUEUES: &str = "reportqueues";

/// An entry of a ledger: uid of its report, number of the attempt.
type Admission = (String, i64);

/// One version of a queue that has a ledger.
struct Version<'a> {
    place: Place,
    slots: usize,
    admissions: BTreeSet<Admission>,
    entry: &'a Entry,
}

/// Checks all ledgers of the history, and the releases against them.
pub(super) fn check(scope: &Scope, releases: &[Release]) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for versions in by_uid(scope.history).values() {
        if versions.first().is_some_and(|first| first.resource == QUEUES) {
            wrong.extend(successions(scope, versions));
        }
    }
    let queues = queues(scope);
    let reports = reports(scope);
    let ends = ends(scope.history);
    // Released and not known to be over, by queue.
    let mut outstanding: BTreeMap<&str, Vec<&Release>> = BTreeMap::new();
    for release in releases.iter().filter(|release| release.parent.resource == REPORTS) {
        let Some(&queue) = reports.get(release.parent.uid.as_str()) else {
            wrong.push(violation(
                Rule::Admitted,
                format!("{} belongs to no report of the history", release.job),
            ));
            continue;
        };
        let versions = queues.get(queue).map(Vec::as_slice).unwrap_or_default();
        let run = outstanding.entry(queue).or_default();
        run.retain(|other| ends.get(other.uid.as_str()).is_none_or(|end| *end > release.place));
        run.push(release);
        let judged = Judged { release, queue, versions, running: run };
        wrong.extend(judged.not_admitted(scope));
        wrong.extend(judged.beyond_slots(scope));
    }
    wrong
}

fn violation(rule: Rule, what: String) -> Violation {
    Violation { rule, what }
}

fn ledger(entry: &Entry) -> Option<BTreeSet<Admission>> {
    let ledger = entry.object["status"]["ledger"].as_object()?;
    let entries = ledger.get("entries").and_then(Value::as_array).into_iter().flatten();
    Some(entries.map(|e| (at(e, "/uid").to_owned(), e["attempt"].as_i64().unwrap_or(0))).collect())
}

fn slots(entry: &Entry) -> usize {
    let slots = entry.object["spec"]["slots"].as_u64().unwrap_or(0);
    usize::try_from(slots).unwrap_or(usize::MAX)
}

/// From each version of a queue to the next: the ledger stays, and what is added fits.
fn successions(scope: &Scope, versions: &[&Entry]) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut last: Option<(BTreeSet<Admission>, &Entry)> = None;
    for entry in versions {
        let Some(now) = ledger(entry) else {
            if let Some((_, by)) = &last {
                wrong.push(violation(
                    Rule::LedgerStays,
                    format!("the ledger has vanished: {entry}; it was there: {by}"),
                ));
            }
            continue;
        };
        let slots = slots(entry);
        let added: Vec<&Admission> = match &last {
            Some((before, _)) => now.difference(before).collect(),
            // A ledger that is made anew has what was prepared before, which may be more than fits.
            None => now.iter().filter(|admission| !was_prepared(scope, admission, entry)).collect(),
        };
        if !added.is_empty() && now.len() > slots {
            wrong.push(violation(
                Rule::NoOverAdmission,
                format!("{added:?} added to make {} entries of {slots} slots: {entry}", now.len()),
            ));
        }
        last = Some((now, entry));
    }
    wrong
}

/// Whether a Job of this report was there before.
fn was_prepared(scope: &Scope, (uid, _): &Admission, before: &Entry) -> bool {
    scope.history.of("jobs").any(|job| {
        scope.precedes(job, before.place.expect("what was committed has a place"))
            && job.object["metadata"]["labels"][PARENT_UID] == uid.as_str()
    })
}

/// Versions with a ledger of the queues of each name, in order. A queue that was deleted and created
/// again is another object of the same name.
fn queues<'a>(scope: &Scope<'a>) -> BTreeMap<&'a str, Vec<Version<'a>>> {
    let mut queues: BTreeMap<&str, Vec<Version>> = BTreeMap::new();
    for entry in scope.history.of(QUEUES) {
        let (Some(place), Some(admissions)) = (entry.place, ledger(entry)) else { continue };
        let version = Version { place, slots: slots(entry), admissions, entry };
        queues.entry(&entry.name).or_default().push(version);
    }
    queues
}

/// The queue of each report, by the report's uid.
fn reports<'a>(scope: &Scope<'a>) -> BTreeMap<&'a str, &'a str> {
    let reports = scope.history.of(REPORTS).filter(|entry| !entry.object.is_null());
    reports.map(|entry| (entry.uid.as_str(), entry.text("/spec/queueName"))).collect()
}

/// When each Job could no longer act.
fn ends(history: &History) -> BTreeMap<&str, Place> {
    let mut ends = BTreeMap::new();
    for entry in history.of("jobs").filter(|entry| entry.is_gone() || finished(&entry.object)) {
        if let Some(place) = entry.place {
            ends.entry(entry.uid.as_str()).or_insert(place);
        }
    }
    ends
}

/// How many runs of reports were released and not over when most were.
pub(super) fn most_at_once(history: &History, releases: &[Release]) -> usize {
    let ends = ends(history);
    let mut running: Vec<&Release> = Vec::new();
    let counts = releases.iter().filter(|release| release.parent.resource == REPORTS).map(|one| {
        running.retain(|other| ends.get(other.uid.as_str()).is_none_or(|end| *end > one.place));
        running.push(one);
        running.len()
    });
    counts.max().unwrap_or(0)
}

/// A release, and everything that it is judged by.
struct Judged<'a> {
    release: &'a Release,
    queue: &'a str,
    versions: &'a [Version<'a>],
    /// Released and not over, with this one.
    running: &'a [&'a Release],
}

impl Judged<'_> {
    /// What the ledger must contain: the attempt is the end of the Job's name.
    fn admission(&self) -> Option<Admission> {
        let (_, attempt) = self.release.job.rsplit_once("-r")?;
        Some((self.release.parent.uid.clone(), attempt.parse().ok()?))
    }

    /// A write that is not in the log may have admitted it.
    fn holes(&self, scope: &Scope) -> bool {
        scope.holes || scope.history.gave_up(QUEUES, self.queue)
    }

    fn not_admitted(&self, scope: &Scope) -> Option<Violation> {
        let before = self.versions.iter().rev().find(|version| version.place < self.release.place);
        let holds =
            |version: &Version| self.admission().is_some_and(|a| version.admissions.contains(&a));
        if before.is_some_and(holds) || self.holes(scope) {
            return None;
        }
        let (job, queue) = (&self.release.job, self.queue);
        let last = before.map_or("none".to_owned(), |version| version.entry.to_string());
        Some(violation(
            Rule::Admitted,
            format!("{job} was released without an entry in the ledger of {queue}; last: {last}"),
        ))
    }

    /// The slots may have changed between the admission and the release. What is admitted last of all
    /// that runs was admitted in between, when it fitted.
    fn beyond_slots(&self, scope: &Scope) -> Option<Violation> {
        let admission = self.admission()?;
        let admitted = self.versions.iter().position(|v| v.admissions.contains(&admission))?;
        let until = self.versions[admitted..].iter().take_while(|v| v.place < self.release.place);
        let slots = until.map(|version| version.slots).max()?;
        if self.running.len() <= slots || self.holes(scope) {
            return None;
        }
        let jobs: Vec<&str> = self.running.iter().map(|release| release.job.as_str()).collect();
        let (job, queue) = (&self.release.job, self.queue);
        Some(violation(
            Rule::WithinSlots,
            format!("with {job} {} run of {slots} slots of {queue}: {jobs:?}", jobs.len()),
        ))
    }
}
