//! What is known of the jobs of one queue: which have no answer yet, which wait, and what was
//! answered but is not recorded yet.
//!
//! All of it is made from the jobs and from what this leader answered, and can be made again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::ResourceExt as _;

use super::{ledger, spec};
use crate::{
    api::{Ledger, LedgerEntry, ReportJob, ReportQueue, ReportState},
    reports::{
        admission::{self, Why},
        drain::Start,
        facts::attempts,
        job::queue_deadline,
        ledger::Books,
        limits::{Refusal, Verdicts},
        rules::Rules,
        waiting::{Kept, Waiting, WaitingJob},
    },
    runs::{RETRY_REQUESTED, open_attempt},
};

/// Most jobs that are answered in one pass. The next pass goes on; without a bound one pass over a
/// burst would hold up settlements.
pub const MAX_ANSWERED: usize = 2000;

/// What a queue answered to a new job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It waits from now on.
    Accepted,
    /// It does not: nothing ran and nothing was promised.
    Rejected {
        /// Why, in one word.
        reason: &'static str,
        /// Why, in a sentence.
        message: String,
        /// When it makes sense to come again.
        retry_after: Timestamp,
    },
}

/// An answer that is not recorded in the job yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answered {
    uid: String,
    answer: Answer,
}

/// A job without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// The job as one that would wait.
    pub job: WaitingJob,
    /// When it must have been admitted.
    pub deadline: Option<Timestamp>,
}

/// The jobs of one queue.
#[derive(Clone, Debug, Default)]
pub struct Book {
    waiting: Waiting,
    /// Jobs without an answer, oldest first.
    fresh: BTreeMap<(Timestamp, String), Newcomer>,
    /// Keys of `fresh` by name.
    fresh_names: BTreeMap<String, Timestamp>,
    answered: BTreeMap<String, Answered>,
    /// What holds a slot, by uid and attempt.
    entries: BTreeSet<(String, i32)>,
    /// When waiting jobs are likely to start.
    starts: BTreeMap<Arc<str>, Start>,
    /// The queue at one version, for questions about single jobs.
    opened: Option<Opened>,
    /// How often a ledger was opened for such a question.
    #[cfg(test)]
    openings: usize,
}

/// What a version of a queue says, ready to be asked: opening a ledger costs as much as it is long,
/// and thousands of jobs that wait ask of the same one.
#[derive(Clone, Debug)]
struct Opened {
    version: Option<String>,
    books: Books,
    rules: Rules,
}

impl Book {
    /// The jobs that wait.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Retries whose time has come may start.
    pub fn advance(&mut self, now: Timestamp) {
        self.waiting.advance(now);
    }

    /// Jobs without an answer, oldest first, at most [`MAX_ANSWERED`].
    pub fn fresh(&self) -> Vec<Newcomer> {
        self.fresh.values().take(MAX_ANSWERED).cloned().collect()
    }

    /// Whether jobs wait for an answer.
    pub fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Whether a job was answered and does not say so itself yet.
    pub fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// What the queue answered to this job, if that is not recorded in it.
    pub fn answer(&self, name: &str, uid: &str) -> Option<&Answer> {
        self.answered.get(name).filter(|answered| answered.uid == uid).map(|a| &a.answer)
    }

    /// Why this job waits. `queue` is one version of its queue; `paused` says that its leader has yet
    /// to account for what it found. `None` if no job of that name waits.
    pub fn explain(
        &mut self,
        queue: &ReportQueue,
        paused: bool,
        now: Timestamp,
        name: &str,
    ) -> Option<Why> {
        let version = &queue.metadata.resource_version;
        let known = self.opened.take().filter(|of| version.is_some() && of.version == *version);
        let opened = self.opened.insert(known.unwrap_or_else(|| {
            #[cfg(test)]
            {
                self.openings += 1;
            }
            Opened {
                version: version.clone(),
                books: Books::open(ledger(queue).unwrap_or(&Ledger::new())),
                rules: spec::rules(&queue.spec, paused, now),
            }
        }));
        opened.rules.starts = spec::starts(&queue.spec, paused, now);
        admission::explain(&opened.books, &self.waiting, &opened.rules, name)
    }

    /// How often a ledger was opened to say why jobs wait.
    #[cfg(test)]
    pub(super) fn openings(&self) -> usize {
        self.openings
    }

    /// When this job is likely to start.
    pub fn start(&self, name: &str) -> Option<Start> {
        self.starts.get(name).copied()
    }

    /// When waiting jobs are likely to start, as was just computed.
    pub fn foresee(&mut self, starts: BTreeMap<Arc<str>, Start>) {
        self.starts = starts;
    }

    /// A job came, changed or went (`None`). A job of a schedule comes once its schedule has started
    /// it: the claim has accepted it.
    pub fn follow(&mut self, name: &str, job: Option<&ReportJob>) {
        self.forget_fresh(name);
        let Some((job, waits)) = job.and_then(|job| Some((job, waiting_job(job)?))) else {
            self.leave(name);
            return;
        };
        let uid = job.uid().unwrap_or_default();
        if self.entries.contains(&(uid.clone(), waits.attempt)) {
            self.leave(name);
            return;
        }
        let recorded = job.status.as_ref().and_then(|status| status.state).is_some();
        if recorded {
            self.answered.remove(name);
        }
        match self.answer(name, &uid) {
            _ if recorded => self.waiting.upsert(&waits),
            Some(Answer::Accepted) => self.waiting.upsert(&waits),
            Some(Answer::Rejected { .. }) => self.leave_waiting(name),
            None if waits.scheduled => {
                self.waiting.upsert(&waits);
                self.remember(&waits, Answer::Accepted);
            }
            None => {
                self.answered.remove(name); // to another job of that name
                self.leave_waiting(name);
                self.fresh_names.insert(name.to_owned(), waits.created);
                let newcomer = Newcomer { deadline: queue_deadline(job), job: waits };
                self.fresh.insert((newcomer.job.created, name.to_owned()), newcomer);
            }
        }
    }

    /// These jobs are answered. `new` is what the verdicts speak of.
    pub fn answer_all(
        &mut self,
        new: &[WaitingJob],
        verdicts: &Verdicts,
        reject: impl Fn(&WaitingJob, Refusal) -> Answer,
    ) {
        for &index in &verdicts.accepted {
            let job = &new[index];
            self.forget_fresh(&job.name);
            self.waiting.upsert(job);
            self.remember(job, Answer::Accepted);
        }
        for &(index, refusal) in &verdicts.rejected {
            let job = &new[index];
            self.reject(job, reject(job, refusal));
        }
    }

    /// This job is rejected.
    pub fn reject(&mut self, job: &WaitingJob, answer: Answer) {
        self.forget_fresh(&job.name);
        self.remember(job, answer);
    }

    fn remember(&mut self, job: &WaitingJob, answer: Answer) {
        self.answered.insert(job.name.clone(), Answered { uid: job.uid.clone(), answer });
    }

    /// The ledger as it stands: what has an entry does not wait.
    pub fn hold(&mut self, entries: &[LedgerEntry]) {
        self.entries = entries.iter().map(|entry| (entry.uid.clone(), entry.attempt)).collect();
        for entry in entries {
            if self.waits(&entry.job, &entry.uid, entry.attempt) {
                self.waiting.remove(&entry.job, &entry.uid);
                self.starts.remove(entry.job.as_str());
            }
        }
    }

    /// Whether a job with this uid holds a slot.
    pub fn holds_slot(&self, uid: &str) -> bool {
        self.entries.range((uid.to_owned(), i32::MIN)..).next().is_some_and(|(of, _)| of == uid)
    }

    /// Whether this attempt of this job stands among the waiting.
    pub fn waits(&self, name: &str, uid: &str, attempt: i32) -> bool {
        self.waiting.get(name).is_some_and(|kept| kept.is(uid) && kept.attempt == attempt)
    }

    fn leave(&mut self, name: &str) {
        self.answered.remove(name);
        self.leave_waiting(name);
    }

    fn leave_waiting(&mut self, name: &str) {
        if let Some(uid) = self.waiting.get(name).map(Kept::uid) {
            self.waiting.remove(name, &uid);
        }
        self.starts.remove(name);
    }

    fn forget_fresh(&mut self, name: &str) {
        if let Some(created) = self.fresh_names.remove(name) {
            self.fresh.remove(&(created, name.to_owned()));
        }
    }
}

/// The job as one that waits; `None` if it does not: it is over, going, runs, or is to be cancelled.
pub fn waiting_job(job: &ReportJob) -> Option<WaitingJob> {
    let meta = &job.metadata;
    if job.spec.cancel || meta.deletion_timestamp.is_some() {
        return None;
    }
    let status = job.status.as_ref();
    let state = status.and_then(|status| status.state);
    if !matches!(state, None | Some(ReportState::Queued)) {
        return None;
    }
    let attempts = attempts(job);
    let last = attempts.last();
    if open_attempt(attempts).is_some() {
        return None;
    }
    let asked_for = last.is_some_and(|a| a.reason.as_deref() == Some(RETRY_REQUESTED));
    Some(WaitingJob {
        name: job.name_any(),
        uid: job.uid()?,
        tenant: job.spec.tenant.clone(),
        priority: job.spec.priority,
        created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0),
        attempt: last.map_or(1, |attempt| attempt.number + 1),
        charge: i64::from(job.spec.estimate_seconds) * 1000,
        retry: last.is_some() && !asked_for,
        not_before: status.and_then(|status| status.next_attempt_time).map(|t| t.0),
        scheduled: job.spec.schedule_name.is_some(),
    })
}
