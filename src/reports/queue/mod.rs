//! What a queue decides: pure.
//!
//! One pass settles what is over, answers new jobs, and fills the free slots, in that order. All of
//! it is one conditional write of the ledger, made from the very version it replaces; who is
//! admitted, and nobody else, may start. If the write fails the pass is made anew.
//!
//! A new leader first seals the queue and admits nothing until every entry that it found is
//! accounted for: its job was read and sealed in this term, or is gone or left alone, and the
//! provider was asked.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{
    admission::{LeftOut, RunRef},
    drain::{self, Drain},
    job::UNSATISFIABLE,
    ledger::{Books, rebuild},
    limits::{self, Refusal},
    rules::{Rules, Starts},
    waiting::WaitingJob,
};
use crate::{
    api::{
        AdmissionPolicy, Admissions, Drain as ApiDrain, Fence, Ledger, LedgerEntry,
        MAX_MESSAGE_CHARS, ReportQueue, ReportQueueStatus, Time, set_condition, truncate,
    },
    runs::{Note, conditions},
};

mod book;
pub mod spec;
mod standing;
#[cfg(test)]
mod tests;

pub use book::{Answer, Book, MAX_ANSWERED, Newcomer, waiting_job};
pub use standing::{Standing, standing};

/// Counts and estimates that nothing decides by are written again after this time at the earliest,
/// so that they cost no write for every job.
const SHOW_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// When it is looked again whether the runs of a deleted job are over.
const PROBE_INTERVAL: SignedDuration = SignedDuration::from_secs(5);
/// Pause between two writes of a ledger. What is admitted and settled meanwhile shares the next one,
/// so that in a burst a job costs a fraction of a write, and a large ledger (700 kB at most) is
/// written five times a second at most. A report takes seconds at least; this is what its slot waits
/// for the next one at most.
pub const WRITE_PAUSE: SignedDuration = SignedDuration::from_millis(200);

/// Everything a decision about a queue depends on, besides its [`Book`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The queue, at the version that the decision's write replaces.
    pub queue: ReportQueue,
    /// How the job of each entry stands, in the order of the entries.
    pub standings: Vec<Standing>,
    /// Uids of deleted jobs whose runs are proven over.
    pub over: BTreeSet<String>,
    /// Set if the queue has no ledger, and every non-terminal job of its name was read live and
    /// sealed: the attempts that are not over.
    pub taken_over: Option<Vec<LedgerEntry>>,
    /// Entries found by this leader that are not accounted for.
    pub unaccounted: usize,
    /// When counts and estimates were last written by this leader.
    pub shown: Option<Timestamp>,
    /// When this leader last wrote the ledger.
    pub written: Option<Timestamp>,
    /// The present term.
    pub fence: Fence,
}

/// What to do about a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Entries whose job is gone: ask whether its runs are over, then decide again.
    pub probe: Vec<LedgerEntry>,
    /// Write this.
    pub status: Option<ReportQueueStatus>,
    /// What that write admits.
    pub admitted: Vec<LedgerEntry>,
    /// Jobs whose turn it was and that could not be admitted.
    pub left_out: Vec<(String, LeftOut)>,
    /// When to look again.
    pub wake_at: Option<Timestamp>,
    /// What happened, once the write is committed.
    pub notes: Vec<Note>,
}

/// Whether the queue must be taken over before anything is decided: it has no ledger.
pub fn needs_takeover(queue: &ReportQueue) -> bool {
    ledger(queue).is_none()
}

/// The ledger of a queue, if it has one.
pub fn ledger(queue: &ReportQueue) -> Option<&Ledger> {
    queue.status.as_ref()?.ledger.as_ref()
}

/// The entries of a queue.
pub fn entries(queue: &ReportQueue) -> &[LedgerEntry] {
    ledger(queue).map(|ledger| ledger.entries.as_slice()).unwrap_or_default()
}

/// Whether this term has sealed the queue.
pub fn is_sealed(queue: &ReportQueue, fence: &Fence) -> bool {
    queue.status.as_ref().and_then(|status| status.fence.as_ref()) == Some(fence)
}

/// The entry that lets this attempt start, if the queue has one in this term.
pub fn entry<'a>(queue: &'a ReportQueue, uid: &str) -> Option<&'a LedgerEntry> {
    entries(queue).iter().filter(|entry| entry.uid == uid).max_by_key(|entry| entry.attempt)
}

/// Answers new jobs, oldest first. To be done after settling: what is over is a free slot and so a
/// place. While the leader has yet to account for what it found, nobody is answered: nobody knows
/// how many places there are. Gives the names of those that were answered.
pub fn answer(snapshot: &Snapshot, book: &mut Book, now: Timestamp) -> Vec<String> {
    if snapshot.unaccounted > 0 || !book.has_fresh() {
        return Vec::new();
    }
    let rules = spec::rules(&snapshot.queue.spec, false, now);
    let Some(Settled { books, .. }) = settled(snapshot, &rules) else { return Vec::new() };
    let (mut new, mut answered) = (Vec::new(), Vec::new());
    for Newcomer { job, deadline } in book.fresh() {
        answered.push(job.name.clone());
        let Some(message) = unsatisfiable(&snapshot.queue, &rules, &job, deadline, now) else {
            new.push(job);
            continue;
        };
        let retry_after = limits::retry_after(now, None, &job.uid);
        book.reject(&job, Answer::Rejected { reason: UNSATISFIABLE, message, retry_after });
    }
    let verdicts = limits::accept(book.waiting(), &rules, books.used(), &new);
    let drained = drain::drain(&books, book.waiting(), &rules, now).about;
    let reject = |job: &WaitingJob, refusal: Refusal| Answer::Rejected {
        reason: refusal.reason(),
        message: refused(refusal, &snapshot.queue),
        retry_after: limits::retry_after(now, drained, &job.uid),
    };
    book.answer_all(&new, &verdicts, reject);
    answered
}

/// Why the job could never start under the present spec, if so.
fn unsatisfiable(
    queue: &ReportQueue,
    rules: &Rules,
    job: &WaitingJob,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Option<String> {
    if rules.is_capped(&job.tenant, 0) {
        let tenant = &job.tenant;
        return Some(format!(
            "tenant {tenant} may run nothing here: raise maxRunning of {tenant} in spec.tenants of the queue"
        ));
    }
    let opens = spec::policy_ends(&queue.spec, now).filter(|_| rules.starts == Starts::Held)?;
    let deadline = deadline.filter(|deadline| *deadline < opens)?;
    Some(format!(
        "its queue deadline {deadline} is before the queue opens again, at {opens}: leave out spec.queueDeadlineSeconds, or create it later"
    ))
}

fn refused(refusal: Refusal, queue: &ReportQueue) -> String {
    let limits = &queue.spec.limits;
    let text = match refusal {
        Refusal::QueueClosed => match &queue.spec.admission_reason {
            Some(note) => format!("the queue accepts nothing new: {note}"),
            None => "the queue accepts nothing new (spec.admission: Closed)".to_owned(),
        },
        Refusal::QueueFull => format!("{} jobs wait, as many as may", limits.queued),
        Refusal::TenantQueueFull => {
            format!("{} jobs of its tenant wait, as many as may", limits.queued_per_tenant)
        }
    };
    let text = format!(
        "{text}. Nothing ran and nothing was promised: delete it and create it again after status.retryAfterTime"
    );
    truncate(&text, MAX_MESSAGE_CHARS)
}

/// The ledger with everything settled that is over.
struct Settled {
    books: Books,
    probe: Vec<LedgerEntry>,
    notes: Vec<Note>,
}

/// `None` if the queue has no ledger and was not taken over.
fn settled(snapshot: &Snapshot, rules: &Rules) -> Option<Settled> {
    let ledger = match (ledger(&snapshot.queue), &snapshot.taken_over) {
        (Some(ledger), _) => ledger.clone(),
        (None, Some(found)) => rebuild(rules, found),
        (None, None) => return None,
    };
    let mut books = Books::open(&ledger);
    let (mut probe, mut notes) = (Vec::new(), Vec::new());
    let abandoned = &snapshot.queue.spec.abandon;
    for (entry, standing) in ledger.entries.iter().zip(&snapshot.standings) {
        match standing {
            Standing::Open => {}
            Standing::Over { took, again: Some(again) } => {
                books.settle_known(rules, &entry.uid, entry.attempt, *took, *again);
            }
            Standing::Over { took, again: None } => {
                books.settle(rules, &entry.uid, entry.attempt, *took);
            }
            Standing::Gone if snapshot.over.contains(&entry.uid) => {
                books.settle(rules, &entry.uid, entry.attempt, entry.charge);
                let text = format!("job {} was deleted; its runs are over", entry.job);
                notes.push(Note::normal("SlotFreed", text));
            }
            Standing::Gone if abandoned.iter().any(|a| a.uid == entry.uid) => {
                books.settle(rules, &entry.uid, entry.attempt, entry.charge);
                let text = format!(
                    "spec.abandon says that the runs of the deleted job {} are over",
                    entry.job
                );
                notes.push(Note::warning("SlotAbandoned", text));
            }
            Standing::Gone => probe.push(entry.clone()),
        }
    }
    Some(Settled { books, probe, notes })
}

/// Decides what the queue does next. Pure: equal snapshots, books and times give equal plans.
/// `describe` says what runs for a job, by name, uid and attempt.
pub fn decide(
    snapshot: &Snapshot,
    book: &Book,
    now: Timestamp,
    describe: impl FnMut(&str, &str, i32) -> Option<RunRef>,
) -> Plan {
    let paused = snapshot.unaccounted > 0;
    let rules = spec::rules(&snapshot.queue.spec, paused, now);
    let Some(Settled { mut books, probe, notes }) = settled(snapshot, &rules) else {
        return Plan::default(); // it is taken over first
    };
    let mut plan = Plan { probe, notes, ..Plan::default() };
    let stored = snapshot.queue.status.clone().unwrap_or_default();
    // Sealed before anything is decided; the same write carries the decision if nothing is to be
    // accounted for.
    let (admitted, left_out) = books.admit(book.waiting(), &rules, now, describe);
    plan.admitted = admitted.iter().map(|entry| LedgerEntry::clone(entry)).collect();
    plan.left_out = left_out;
    let ledger = books.close();
    plan.wake_at = earliest([
        spec::policy_ends(&snapshot.queue.spec, now),
        book.waiting().next_due(),
        (!plan.probe.is_empty()).then(|| after(now, PROBE_INTERVAL)),
    ]);
    let shown = Shown { snapshot, book, books: &books, rules: &rules, now };
    let status = shown.status(&stored, ledger);
    let sealed = is_sealed(&snapshot.queue, &snapshot.fence);
    let decided = stored.ledger != status.ledger
        || stored.admissions != status.admissions
        || stored.reason != status.reason
        || stored.message != status.message
        || stored.observed_generation != status.observed_generation
        || stored.conditions != status.conditions;
    let open = status.ledger.as_ref().is_some_and(|ledger| !ledger.entries.is_empty());
    if let Some(pause) = pause(snapshot.written, now).filter(|_| decided) {
        // What was decided is decided again then.
        return Plan { wake_at: Some(pause), probe: plan.probe, ..Plan::default() };
    }
    // No job is told its answer, not even that it is rejected, before its queue is sealed.
    let asked = book.has_fresh() || book.has_answers() || !book.waiting().is_empty();
    if decided || (!sealed && (open || asked)) {
        plan.status = Some(status);
        return plan;
    }
    if differs(&stored, &status) {
        let due = snapshot.shown.map(|shown| after(shown, SHOW_INTERVAL));
        if due.is_none_or(|due| due <= now) {
            plan.status = Some(status);
        } else {
            plan.wake_at = earliest([plan.wake_at, due]);
        }
    }
    plan
}

/// What the status shows besides the ledger.
struct Shown<'a> {
    snapshot: &'a Snapshot,
    book: &'a Book,
    books: &'a Books,
    rules: &'a Rules,
    now: Timestamp,
}

impl Shown<'_> {
    fn status(&self, stored: &ReportQueueStatus, ledger: Ledger) -> ReportQueueStatus {
        let queue = &self.snapshot.queue;
        let used = ledger.entries.len();
        let (admissions, reason, message) = self.admissions();
        let generation = queue.metadata.generation;
        let waiting = self
            .book
            .waiting()
            .len()
            .saturating_sub(ledger.entries.iter().filter(|e| self.waits(e)).count());
        let mut status = ReportQueueStatus {
            slots: Some(format!("{used}/{}", queue.spec.slots)),
            slots_used: i32::try_from(used).ok(),
            waiting: i32::try_from(waiting).ok(),
            tenants_waiting: i32::try_from(self.book.waiting().tenants()).ok(),
            admissions: Some(admissions),
            reason: Some(reason.to_owned()),
            message: (!message.is_empty()).then(|| truncate(&message, MAX_MESSAGE_CHARS)),
            ledger: Some(ledger),
            drain: Some(self.drain(stored)),
            fence: stored.fence.clone(),
            conditions: stored.conditions.clone(),
            observed_generation: generation,
        };
        let ready = admissions == Admissions::Open;
        set_condition(
            &mut status.conditions,
            conditions::condition(conditions::READY, ready, reason, &message, self.now, generation),
        );
        status
    }

    /// Whether an entry's job still stands among the waiting: it was admitted in this very pass.
    fn waits(&self, entry: &LedgerEntry) -> bool {
        self.book.waits(&entry.job, &entry.uid, entry.attempt)
    }

    fn admissions(&self) -> (Admissions, &'static str, String) {
        let spec = &self.snapshot.queue.spec;
        let note = spec.admission_reason.clone().unwrap_or_default();
        let unaccounted = self.snapshot.unaccounted;
        if unaccounted > 0 {
            let text = "a new leader has yet to find out what holds the slots; nothing new starts until then";
            return (Admissions::Paused, "RecoveryIncomplete", text.to_owned());
        }
        match spec::policy(spec, self.now) {
            AdmissionPolicy::Open => {
                let used = self.books.used();
                if used > self.rules.slots() {
                    let text = format!(
                        "{used} reports run and there are {} slots: nothing new starts until it fits",
                        self.rules.slots()
                    );
                    return (Admissions::Open, "SlotsLowered", text);
                }
                (Admissions::Open, "Open", String::new())
            }
            AdmissionPolicy::Hold => (Admissions::Held, "Hold", note),
            AdmissionPolicy::Closed => (Admissions::Closed, "Closed", note),
        }
    }

    /// Moments are written again only when they moved enough to matter.
    fn drain(&self, stored: &ReportQueueStatus) -> ApiDrain {
        let Drain { jobs, slot_seconds, about, at_most } =
            drain::drain(self.books, self.book.waiting(), self.rules, self.now);
        let old = stored.drain.clone().unwrap_or_default();
        let keep = |old: Option<Time>, new: Option<Timestamp>| match new {
            Some(new) if !drain::moved(old.map(|t| t.0), new, self.now) => old,
            new => new.map(|at| Time::new(drain::whole(at))),
        };
        let nothing = jobs == 0;
        ApiDrain {
            jobs: i64::try_from(jobs).unwrap_or(i64::MAX),
            slot_seconds,
            about_time: keep(old.about_time, about.filter(|_| !nothing)),
            at_most_time: keep(old.at_most_time, at_most.filter(|_| !nothing)),
        }
    }
}

/// Whether what is shown differs.
fn differs(stored: &ReportQueueStatus, new: &ReportQueueStatus) -> bool {
    stored.slots != new.slots
        || stored.waiting != new.waiting
        || stored.tenants_waiting != new.tenants_waiting
        || stored.drain != new.drain
}

/// When the ledger may be written again, if not now. A clock that was set back makes nobody wait.
fn pause(written: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let written = written.filter(|written| *written <= now)?;
    Some(after(written, WRITE_PAUSE)).filter(|end| *end > now)
}

fn earliest(times: impl IntoIterator<Item = Option<Timestamp>>) -> Option<Timestamp> {
    times.into_iter().flatten().min()
}

fn after(now: Timestamp, delay: SignedDuration) -> Timestamp {
    now.saturating_add(delay).unwrap_or(Timestamp::MAX)
}
