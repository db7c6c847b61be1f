//! Rules about single objects: fences, preconditions, identities, outcomes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Exception, Rule, Violation,
    history::{Actor, Entry, History, Place, at},
};

/// States in which nothing more happens.
const TERMINAL: [&str; 6] =
    ["Succeeded", "Failed", "Cancelled", "Skipped", "Superseded", "Rejected"];
/// What of a terminal status is its outcome.
const OUTCOME: [&str; 4] = ["state", "reason", "result", "artifact"];
/// Kinds that carry a fence.
const FENCED: [&str; 5] = [
    "maintenanceschedules",
    "maintenanceoccurrences",
    "recoverytraces",
    "reportqueues",
    "reportjobs",
];
/// Kinds of which each object is a piece of work with an outcome.
const WORK: [&str; 2] = ["maintenanceoccurrences", "reportjobs"];
/// What of a report's spec says what it is. The run is left out: it keeps fields that nobody knows.
const REPORT: [&str; 5] = [
    "/spec/queueName",
    "/spec/tenant",
    "/spec/scheduleName",
    "/spec/intendedTime",
    "/spec/scheduleUID",
];

/// What is checked.
pub(super) struct Scope<'a> {
    /// The history.
    pub history: &'a History,
    /// Name of the Lease.
    pub lease: &'a str,
    /// What the scenario does on purpose.
    pub exceptions: &'a [Exception],
    /// Whether the API server was killed and may have taken records of writes with it.
    pub holes: bool,
}

impl Scope<'_> {
    /// Whether a write to the object of this entry may be missing from the log.
    pub(super) fn holes_in(&self, entry: &Entry) -> bool {
        self.holes || self.history.gave_up(&entry.resource, &entry.name)
    }

    /// Whether an entry is known to come before `place`. What a missing record said is first seen in
    /// a later one, so with holes the order proves nothing.
    pub(super) fn precedes(&self, entry: &Entry, place: Place) -> bool {
        entry.place < Some(place) || self.holes_in(entry)
    }
}

/// Checks every object by itself.
pub(super) fn check(scope: &Scope) -> Vec<Violation> {
    let mut wrong = Vec::new();
    if scope.history.committed.iter().all(|entry| entry.actor == Actor::Reading) {
        wrong.push(violation(Rule::NotEmpty, "the log has no write to check".to_owned()));
    }
    for (_, versions) in by_uid(scope.history) {
        wrong.extend(fences(&versions));
        wrong.extend(identity(&versions));
        wrong.extend(outcome(&versions));
        wrong.extend(artifact(&versions));
    }
    wrong.extend(scope.history.committed.iter().filter_map(precondition));
    wrong
}

fn violation(rule: Rule, what: String) -> Violation {
    Violation { rule, what }
}

/// Versions of each object, in order.
pub(super) fn by_uid(history: &History) -> BTreeMap<&str, Vec<&Entry>> {
    let mut objects: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in history.committed.iter().filter(|entry| !entry.object.is_null()) {
        objects.entry(&entry.uid).or_default().push(entry);
    }
    objects
}

/// Whether a state is terminal.
pub(super) fn is_terminal(entry: &Entry) -> bool {
    TERMINAL.contains(&entry.text("/status/state"))
}

/// The term that stands on a version: the fence of ours, the annotation of a Job. A release counts
/// with its own epoch, which it writes beside.
fn term(entry: &Entry) -> Option<(i64, String)> {
    if FENCED.contains(&entry.resource.as_str()) {
        return entry.fence().map(|(epoch, nonce)| (epoch, nonce.to_owned()));
    }
    if entry.resource == "jobs" {
        let epoch = entry.annotation("punctual.dev/epoch").parse().ok()?;
        return Some((epoch, String::new()));
    }
    None
}

fn fences(versions: &[&Entry]) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut sealed: Option<(i64, String, &Entry)> = None;
    for entry in versions {
        let now = term(entry);
        match (&sealed, &now) {
            (Some((epoch, nonce, by)), Some((next, next_nonce))) => {
                if next < epoch || (next == epoch && next_nonce != nonce) {
                    wrong.push(violation(
                        Rule::NoOlderTerm,
                        format!("epoch {next} wrote after epoch {epoch} had sealed: {entry}; sealed: {by}"),
                    ));
                }
            }
            (Some((epoch, _, by)), None) if FENCED.contains(&entry.resource.as_str()) => {
                wrong.push(violation(
                    Rule::NoOlderTerm,
                    format!("the fence of epoch {epoch} has vanished: {entry}; sealed: {by}"),
                ));
            }
            // A person may take the annotation off a Job.
            (Some(_), None) | (None, _) => {}
        }
        if let Some((epoch, nonce)) = now {
            sealed = Some((epoch, nonce, entry));
        }
        wrong.extend(older_sender(entry, versions));
        wrong.extend(older_release(entry));
    }
    wrong
}

/// A write that carries an older term than the one that had sealed the version it replaced, although
/// the object it left behind shows the newer one (as a write to the main endpoint would).
fn older_sender(entry: &Entry, versions: &[&Entry]) -> Option<Violation> {
    let (sent, _) = entry.sent_fence().filter(|_| entry.actor == Actor::Operator)?;
    let sealed = versions
        .iter()
        .filter(|other| other.place < entry.place)
        .filter_map(|other| other.fence().map(|(epoch, _)| epoch))
        .max()?;
    (sent < sealed && entry.fence().is_some_and(|(epoch, _)| epoch >= sealed)).then(|| {
        violation(
            Rule::NoOlderTerm,
            format!("a write of epoch {sent} committed after epoch {sealed} had sealed: {entry}"),
        )
    })
}

/// A release by a term older than the one that has adopted the Job.
fn older_release(entry: &Entry) -> Option<Violation> {
    let released: i64 =
        at(&entry.request, "/metadata/annotations/punctual.dev~1released").parse().ok()?;
    let (adopted, _) = term(entry)?;
    (released < adopted).then(|| {
        violation(
            Rule::NoOlderTerm,
            format!("epoch {released} released a Job that epoch {adopted} had taken: {entry}"),
        )
    })
}

/// What an object is, by its name and its spec; none of a kind that is no work.
fn identity_of(entry: &Entry) -> Option<Vec<&str>> {
    let fields: &[&str] = match entry.resource.as_str() {
        "maintenanceoccurrences" => &REPORT[2..],
        "reportjobs" => &REPORT,
        _ => return None,
    };
    let mut all = vec![entry.name.as_str()];
    all.extend(fields.iter().map(|field| entry.text(field)));
    Some(all)
}

/// Whether the name says the schedule and the instant. Of a report that a client names it says neither.
fn is_named_right(entry: &Entry) -> bool {
    let schedule = entry.text("/spec/scheduleName");
    if schedule.is_empty() && entry.resource == "reportjobs" {
        return true;
    }
    let instant = entry.text("/spec/intendedTime");
    let digits: String = instant.chars().filter(char::is_ascii_digit).take(12).collect();
    entry.name == format!("{schedule}-{digits}")
}

fn identity(versions: &[&Entry]) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut first: Option<(Vec<&str>, &Entry)> = None;
    for entry in versions {
        let Some(now) = identity_of(entry) else { continue };
        if !is_named_right(entry) {
            wrong.push(violation(
                Rule::IdentityFixed,
                format!("its name is not its schedule and instant: {entry}"),
            ));
        }
        match &first {
            Some((identity, by)) if *identity != now => wrong.push(violation(
                Rule::IdentityFixed,
                format!("the identity changed from {identity:?} to {now:?}: {entry}; first: {by}"),
            )),
            Some(_) => {}
            None => first = Some((now, entry)),
        }
    }
    wrong
}

fn outcome(versions: &[&Entry]) -> Vec<Violation> {
    let of = |entry: &Entry| OUTCOME.map(|field| entry.object["status"][field].clone());
    let mut wrong = Vec::new();
    let mut last: Option<([Value; 4], &Entry)> = None;
    for entry in versions.iter().filter(|entry| WORK.contains(&entry.resource.as_str())) {
        let now = of(entry);
        if let Some((outcome, by)) = &last
            && *outcome != now
        {
            wrong.push(violation(
                Rule::OutcomeFixed,
                format!("the outcome changed from {outcome:?} to {now:?}: {entry}; recorded: {by}"),
            ));
        }
        if is_terminal(entry) {
            last = Some((now, entry));
        }
    }
    wrong
}

/// An accepted artifact stays as it is, also before the end.
fn artifact(versions: &[&Entry]) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut accepted: Option<(&Value, &Entry)> = None;
    for entry in versions.iter().filter(|entry| entry.resource == "reportjobs") {
        let now = &entry.object["status"]["artifact"];
        match accepted {
            Some((artifact, by)) if artifact != now => wrong.push(violation(
                Rule::OutcomeFixed,
                format!("the artifact changed from {artifact} to {now}: {entry}; accepted: {by}"),
            )),
            None if !now.is_null() => accepted = Some((now, entry)),
            Some(_) | None => {}
        }
    }
    wrong
}

/// The operator writes with uid and resourceVersion, and never to many objects at once.
fn precondition(entry: &Entry) -> Option<Violation> {
    if entry.actor != Actor::Operator {
        return None;
    }
    let has = |base: &str| {
        ["resourceVersion", "uid"]
            .iter()
            .all(|field| !at(&entry.request, &format!("{base}/{field}")).is_empty())
    };
    let has_version = !at(&entry.request, "/metadata/resourceVersion").is_empty();
    let fine = match entry.verb.as_str() {
        // A create is inert until a parent records its uid.
        "create" => true,
        "delete" => has("/preconditions"),
        // A Job's release is a patch; its resourceVersion never returns under another uid.
        "patch" => has_version,
        "update" => has("/metadata"),
        _ => false,
    };
    (!fine)
        .then(|| violation(Rule::Precondition, format!("without uid and resourceVersion: {entry}")))
}
