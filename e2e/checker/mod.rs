//! The history checker: proves from the API server's audit log that nothing ran twice and that no
//! deposed leader changed anything. It never looks at what the operator says of itself.
//!
//! Each rule has at least one forged history in `forged` that it must reject.

use std::fmt;

use serde_json::Value;

use crate::bed::{
    Bed, audit,
    error::{BedError, Context as _, Result},
    objects, wait,
};

#[cfg(test)]
mod forged;
#[cfg(test)]
mod forged_reports;
#[cfg(test)]
mod forger;
pub mod history;
mod ledgers;
mod rules;
mod runs;
mod terms;

use history::{Entry, History};

/// Time for the audit log to hold what the API server has answered.
const COMPLETE_DEADLINE: std::time::Duration = std::time::Duration::from_secs(30);

/// What the checker proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// There is something to check at all.
    NotEmpty,
    /// Each acquisition of the Lease has a higher epoch than all before, also across deletion and
    /// edits; its epoch is the resourceVersion it replaced (plus one constant offset); it was
    /// conditional on that version; and it stays the same through the term.
    EpochsIncrease,
    /// An epoch belongs to one nonce, on the Lease and on every object.
    OneNonceAnEpoch,
    /// What stands in a fence was acquired before.
    KnownTerm,
    /// Once a term sealed an object, no older term's write to it commits, and the fence stays.
    NoOlderTerm,
    /// The operator writes only with uid and resourceVersion.
    Precondition,
    /// An object's name is its identity, and neither ever changes.
    IdentityFixed,
    /// A terminal outcome never changes, and neither does an accepted artifact.
    OutcomeFixed,
    /// Per identity one run at a time, and none after a terminal state.
    OneRun,
    /// A run is released only with a started claim of its occurrence's uid.
    Claimed,
    /// Only the handle that the parent committed is released.
    Committed,
    /// A run of a report is released only while the ledger of its queue has an entry of its uid and
    /// attempt.
    Admitted,
    /// A write that adds an entry to a ledger leaves no more entries than the queue has slots.
    NoOverAdmission,
    /// The ledger of a queue never vanishes.
    LedgerStays,
    /// No more Jobs of a queue are released and not over than it has slots.
    WithinSlots,
}

/// What a scenario does on purpose, which would otherwise be a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exception {
    /// A person deletes the record of this occurrence and asks for the instant again.
    RecordDeleted(String),
    /// A person starts this Job by hand; the operator is not to blame for the run.
    StartedByHand(String),
}

/// A rule that does not hold, with the writes that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// What is wrong, with the entries of the audit log.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// One acquisition of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its epoch.
    pub epoch: i64,
    /// Its nonce.
    pub nonce: String,
    /// `spec.holderIdentity`.
    pub holder: String,
    /// Where it stands in the history.
    pub place: history::Place,
}

/// What a run belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Plural of its kind; empty if the history has no such object.
    pub resource: &'static str,
    /// Its uid.
    pub uid: String,
}

/// One start of a run: the first version of a Job that is not suspended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Name of the occurrence or of the report: its identity.
    pub identity: String,
    /// Which of the two it is.
    pub parent: Parent,
    /// Name of the Job.
    pub job: String,
    /// Uid of the Job.
    pub uid: String,
    /// Epoch of the term that released it; none if a person or another controller did.
    pub epoch: Option<i64>,
    /// Who left the version behind that may run.
    pub by: history::Actor,
    /// Where it stands in the history.
    pub place: history::Place,
}

/// What a history contains, if it is right.
#[derive(Clone, Debug)]
pub struct Report {
    /// Acquisitions of the Lease, in order.
    pub terms: Vec<Term>,
    /// Runs, in order.
    pub releases: Vec<Release>,
    /// Everything, for what a scenario wants to look at itself.
    pub history: History,
}

impl Report {
    /// Runs of one occurrence or report.
    pub fn releases_of<'a>(&'a self, identity: &'a str) -> impl Iterator<Item = &'a Release> {
        self.releases.iter().filter(move |release| release.identity == identity)
    }

    /// How many runs of reports were released and not over when most were.
    pub fn most_reports_at_once(&self) -> usize {
        ledgers::most_at_once(&self.history, &self.releases)
    }

    /// Writes with this epoch in their fence that the API server refused.
    pub fn refused_of_epoch(&self, epoch: i64) -> impl Iterator<Item = &Entry> {
        self.history
            .refused
            .iter()
            .filter(move |entry| entry.sent_fence().is_some_and(|(sent, _)| sent == epoch))
    }
}

/// Checks a history; all violations, or what it contains. With `holes` writes may be missing,
/// because the API server was killed after it had committed and before it recorded them.
pub fn check(
    history: History,
    lease: &str,
    exceptions: &[Exception],
    holes: bool,
) -> Result<Report, Vec<Violation>> {
    let scope = rules::Scope { history: &history, lease, exceptions, holes };
    let (terms, mut violations) = terms::check(&scope);
    violations.extend(rules::check(&scope));
    let (releases, of_runs) = runs::check(&scope);
    violations.extend(of_runs);
    violations.extend(ledgers::check(&scope, &releases));
    violations.sort_by_key(|violation| violation.rule);
    if violations.is_empty() { Ok(Report { terms, releases, history }) } else { Err(violations) }
}

/// Reads the audit log of a namespace and checks it; the error lists all violations.
pub async fn verify(
    bed: &Bed,
    namespace: &str,
    lease: &str,
    exceptions: &[Exception],
) -> Result<Report> {
    let history = read(bed, namespace).await?;
    check(history, lease, exceptions, bed.lost_records()).map_err(|violations| {
        let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
        BedError(format!("the history of {namespace} is wrong:\n{}", lines.join("\n")))
    })
}

/// The history of a namespace up to now: complete, because every object as it stands now is in it.
async fn read(bed: &Bed, namespace: &str) -> Result<History> {
    // The API server sets up a kind anew after its CRD was written, and says so with 429.
    let listed = || live(bed, namespace);
    let live = wait::until("all kinds can be listed", COMPLETE_DEADLINE, listed).await?;
    let dir = bed.plane()?.audit_dir();
    audit::flush(bed, namespace, &dir).await?;
    wait::until("the audit log holds all objects as they are", COMPLETE_DEADLINE, || async {
        let lines = audit::lines(&dir, namespace)?;
        let history = History::read(lines.iter().map(String::as_str), namespace, &live)
            .context(|| format!("read {}", dir.display()))?;
        // A killed API server may have taken the record of a last write with it, and one that gave
        // up on a write recorded it as failed: the object as it was read stands in for that one.
        let missing = live.iter().find(|object| {
            !bed.lost_records() && !history.may_lack(object) && !history.reaches(object)
        });
        match missing {
            None => Ok(history),
            Some(object) => Err(BedError(format!(
                "{} {} has resourceVersion {}, which no write in the audit log left behind",
                object["kind"], object["metadata"]["name"], object["metadata"]["resourceVersion"],
            ))),
        }
    })
    .await
}

/// The objects of the history as they are now.
async fn live(bed: &Bed, namespace: &str) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for (kind, name) in [
        ("msched", "MaintenanceSchedule"),
        ("mocc", "MaintenanceOccurrence"),
        ("rqueue", "ReportQueue"),
        ("rjob", "ReportJob"),
        ("job", "Job"),
        ("lease", "Lease"),
    ] {
        let list = match objects::api(&bed.client, namespace, kind)
            .list(&kube::api::ListParams::default())
            .await
        {
            Ok(list) => list,
            // A cluster without the kinds: tests of the bed itself.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(error).context(|| format!("list {kind}")),
        };
        for object in &list.items {
            let mut object = objects::json(object);
            // A list's items carry no kind of their own.
            object["kind"] = name.into();
            all.push(object);
        }
    }
    Ok(all)
}
