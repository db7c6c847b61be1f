//! Rules about runs: one at a time, none after the end, only with a claim and a committed handle. What
//! the ledger of a queue allows is in [`super::ledgers`].

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Exception, Parent, Release, Rule, Violation,
    history::{Actor, Entry, Place, at},
    rules::{Scope, by_uid, is_terminal},
};

pub(super) const PARENT_UID: &str = "punctual.dev/parent-uid";
const RELEASED: &str = "punctual.dev/released";
const OCCURRENCES: &str = "maintenanceoccurrences";
pub(super) const REPORTS: &str = "reportjobs";
/// Kinds that runs belong to, and their plurals.
const PARENTS: [(&str, &str); 2] = [("MaintenanceOccurrence", OCCURRENCES), ("ReportJob", REPORTS)];

/// The runs, and what is wrong with them.
pub(super) fn check(scope: &Scope) -> (Vec<Release>, Vec<Violation>) {
    let releases = releases(scope);
    let mut wrong = Vec::new();
    for (index, release) in releases.iter().enumerate() {
        let by_hand = Exception::StartedByHand(release.job.clone());
        if release.by == Actor::Person && scope.exceptions.contains(&by_hand) {
            continue;
        }
        let earlier = releases[..index].iter().filter(|other| {
            other.identity == release.identity && other.parent.resource == release.parent.resource
        });
        for other in earlier {
            wrong.extend(overlap(scope, other, release));
        }
        wrong.extend(after_the_end(scope, release));
        wrong.extend(unclaimed(scope, release));
        wrong.extend(uncommitted(scope, release));
    }
    (releases, wrong)
}

fn violation(rule: Rule, what: String) -> Violation {
    Violation { rule, what }
}

/// The first version of each Job of ours that may run.
fn releases(scope: &Scope) -> Vec<Release> {
    let mut found: Vec<Release> = by_uid(scope.history)
        .into_values()
        .filter_map(|versions| {
            let first = versions
                .iter()
                .find(|entry| entry.object["spec"]["suspend"] != Value::Bool(true))?;
            let (identity, parent) = identity_of(scope, first)?;
            Some(Release {
                identity,
                parent,
                job: first.name.clone(),
                uid: first.uid.clone(),
                epoch: first.annotation(RELEASED).parse().ok(),
                by: first.actor,
                place: first.place?,
            })
        })
        .collect();
    found.sort_by_key(|release| release.place);
    found
}

/// What a Job belongs to: by its owner, else by the uid on its label. A name, and the object.
fn identity_of(scope: &Scope, job: &Entry) -> Option<(String, Parent)> {
    if job.resource != "jobs" {
        return None;
    }
    let owners = job.object["metadata"]["ownerReferences"].as_array();
    for owner in owners.into_iter().flatten() {
        let Some((_, resource)) = PARENTS.iter().find(|(kind, _)| owner["kind"] == *kind) else {
            continue;
        };
        let uid = owner["uid"].as_str().unwrap_or_default().to_owned();
        return Some((owner["name"].as_str()?.to_owned(), Parent { resource, uid }));
    }
    let uid = job.object["metadata"]["labels"][PARENT_UID].as_str()?.to_owned();
    let known = PARENTS.iter().find_map(|(_, resource)| {
        let parent = scope.history.of(resource).find(|entry| entry.uid == uid)?;
        Some((parent.name.clone(), *resource))
    });
    let (name, resource) = known.unwrap_or_else(|| (format!("uid {uid}"), ""));
    Some((name, Parent { resource, uid }))
}

/// When a Job could no longer act: complete, failed, or gone.
fn over(scope: &Scope, uid: &str) -> Option<Place> {
    scope
        .history
        .of("jobs")
        .filter(|entry| entry.uid == uid)
        .find(|entry| entry.is_gone() || finished(&entry.object))
        .and_then(|entry| entry.place)
}

pub(super) fn finished(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["status"] == "True"
            && (condition["type"] == "Complete" || condition["type"] == "Failed")
    })
}

/// Versions of what a release belongs to, before it: of all objects of its name.
fn parents<'a>(scope: &Scope<'a>, of: &'a Release) -> impl Iterator<Item = &'a Entry> {
    scope
        .history
        .of(of.parent.resource)
        .filter(move |entry| entry.name == of.identity && entry.place < Some(of.place))
}

fn overlap(scope: &Scope, first: &Release, second: &Release) -> Option<Violation> {
    let asked_again = Exception::RecordDeleted(second.identity.clone());
    // A report that was deleted and created again is another run of the same request.
    let same = second.parent.resource != REPORTS || first.parent.uid == second.parent.uid;
    if first.job == second.job && same && !scope.exceptions.contains(&asked_again) {
        return Some(violation(
            Rule::OneRun,
            format!(
                "attempt {} was released twice, as Job {} and as Job {}",
                first.job, first.uid, second.uid
            ),
        ));
    }
    if over(scope, &first.uid).is_some_and(|end| end < second.place)
        || may_overlap(scope, first, second)
    {
        return None;
    }
    Some(violation(
        Rule::OneRun,
        format!(
            "{} was released while {} could still act (identity {})",
            second.job, first.job, second.identity
        ),
    ))
}

/// A person accepted a duplicate; or it only reads, and the old run was told to stop.
fn may_overlap(scope: &Scope, first: &Release, second: &Release) -> bool {
    let accepted = parents(scope, second).any(|entry| {
        let resolution = &entry.object["spec"]["resolution"];
        resolution["decision"] == "Retry" && resolution["acceptDuplicate"] == true
    });
    let class = parents(scope, second)
        .filter_map(|entry| entry.object.pointer("/status/run/actionClass").and_then(Value::as_str))
        .last();
    let told = scope
        .history
        .of("jobs")
        .filter(|entry| entry.uid == first.uid && entry.place < Some(second.place))
        .any(|entry| entry.verb == "delete");
    accepted || (class == Some("ReadOnly") && told)
}

fn after_the_end(scope: &Scope, release: &Release) -> Option<Violation> {
    if scope.exceptions.contains(&Exception::RecordDeleted(release.identity.clone())) {
        return None;
    }
    let of_report = release.parent.resource == REPORTS;
    let end = parents(scope, release)
        .filter(|entry| !of_report || entry.uid == release.parent.uid)
        .find(|entry| is_terminal(entry))?;
    Some(violation(
        Rule::OneRun,
        format!("{} was released after {} had ended: {end}", release.job, release.identity),
    ))
}

/// The object that a Job was made for: the one whose uid it carries.
fn parent<'a>(scope: &Scope<'a>, release: &Release) -> Option<&'a Entry> {
    let of =
        scope.history.committed.iter().find(|entry| {
            entry.uid == release.parent.uid && entry.resource == release.parent.resource
        });
    of.filter(|entry| !entry.uid.is_empty())
}

fn unclaimed(scope: &Scope, release: &Release) -> Option<Violation> {
    if release.parent.resource == REPORTS {
        return None; // its right to run is an entry of a ledger
    }
    let Some(parent) = parent(scope, release) else {
        return Some(violation(
            Rule::Claimed,
            format!("{} belongs to no occurrence of the history", release.job),
        ));
    };
    let schedule = parent.text("/spec/scheduleName");
    let claimed = schedules(scope, schedule)
        .filter(|entry| scope.precedes(entry, release.place))
        .any(|entry| {
            let claims = entry.object["status"]["claimed"].as_array();
            claims
                .into_iter()
                .flatten()
                .any(|claim| claim["uid"] == parent.uid.as_str() && claim["start"] == true)
        });
    if claimed || decides_for_itself(scope, parent, schedule) {
        return None;
    }
    Some(violation(
        Rule::Claimed,
        format!(
            "{} was released, but {} (uid {}) had no started claim",
            release.job, parent.name, parent.uid
        ),
    ))
}

fn schedules<'a>(scope: &Scope<'a>, name: &'a str) -> impl Iterator<Item = &'a Entry> {
    scope.history.of("maintenanceschedules").filter(move |entry| entry.name == name)
}

/// A hand-made occurrence without a schedule: its own seal is the start decision. The schedule must
/// have been absent when it was sealed.
fn decides_for_itself(scope: &Scope, parent: &Entry, schedule: &str) -> bool {
    if !parent.text("/spec/scheduleUID").is_empty() {
        return false;
    }
    let seal = scope
        .history
        .of(OCCURRENCES)
        .find(|entry| entry.uid == parent.uid && entry.fence().is_some())
        .and_then(|entry| entry.place);
    let Some(seal) = seal else { return false };
    let mut live: BTreeMap<&str, bool> = BTreeMap::new();
    for entry in schedules(scope, schedule).filter(|entry| entry.place < Some(seal)) {
        live.insert(&entry.uid, !entry.is_gone());
    }
    !live.values().any(|live| *live)
}

fn uncommitted(scope: &Scope, release: &Release) -> Option<Violation> {
    let versions = scope.history.of(release.parent.resource);
    let committed = versions
        .filter(|entry| entry.name == release.identity && scope.precedes(entry, release.place))
        .any(|entry| {
            let attempts = entry.object["status"]["attempts"].as_array();
            let mut attempts = attempts.into_iter().flatten();
            attempts.any(|attempt| at(attempt, "/handle").contains(&release.uid))
        });
    let by_operator = matches!(release.by, Actor::Operator | Actor::Reading);
    (!committed && by_operator).then(|| {
        let (job, identity) = (&release.job, &release.identity);
        violation(
            Rule::Committed,
            format!("{job} was released before its uid was committed in {identity}"),
        )
    })
}
