//! What a report job does next: pure.
//!
//! The life of its attempts is [`crate::runs`]; here are its states ([`states`]), what its queue
//! answered it, and when it may start: while the ledger of its queue, sealed in this term, has an
//! entry for its very attempt.
//!
//! **Writes.** A report that runs well is written three times: when its queue takes it (`Queued`,
//! which seals run and id), when its handle is committed (`Admitted`), and at its end. A start is
//! written only if the run still acts ten seconds later, or if it is `Fenced`. With the create and
//! the release of its Job these are five requests; the ledger's share is what is left of 5.2,
//! because one write of the ledger admits and settles many. Of these, admission is the commit and
//! that share. An estimate that moved is one write more, see [`Snapshot::place`].
//!
//! **Cancel.** Queued: one write, and the place is free in it. Admitted or running: the wish is
//! recorded, the provider is asked, and the slot stays taken until it confirms. Cancel beats retries
//! and recovery; an end that was written beats a later cancel, and with it the artifact.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{Fence, ReportJob, ReportJobStatus, ReportState, RunSpec, Time},
    runs::{self, Acceptance, Change, Heard, Note, Phase, Record},
    schedules::Work,
};

mod late;
mod life;
pub mod states;

pub use late::{Late, may_deliver_late};
pub use life::{NoRun, ReportPhase, content_hash, run_in_force, wanted_run, work, work_id};

use life::New;

/// Reason of a job that waits for a slot and for nothing else.
pub const WAITING: &str = "WaitingForSlot";
/// Reason of a retry for which its queue has no budget.
pub const RETRY_BUDGET_EXHAUSTED: &str = "RetryBudgetExhausted";
/// Reason of an end while it waited.
const QUEUE_DEADLINE: &str = "QueueDeadlineExceeded";
/// Reason of a rejection that waiting would not help.
pub const UNSATISFIABLE: &str = "Unsatisfiable";

/// One step; what is written is a whole status.
pub type Step = runs::Step<ReportJobStatus>;

/// A step, when to look again, and what is worth an event once the step is done.
pub type Decision = runs::Decision<ReportJobStatus>;

/// How the job stands with its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The queue is not sealed in this term, or its ledger is not ready: nothing is answered and
    /// nothing starts.
    Undecided,
    /// There is no such queue, read live.
    QueueNotFound,
    /// The queue does not take it. Without effect on a job that was taken before.
    Rejected {
        /// `QueueFull`, `TenantQueueFull`, `QueueClosed` or [`UNSATISFIABLE`].
        reason: &'static str,
        /// Why, in a sentence.
        message: String,
        /// When to create it again.
        retry_after: Option<Timestamp>,
    },
    /// The queue takes it, or took it; it waits.
    Accepted {
        /// Why it waits: [`WAITING`], [`RETRY_BUDGET_EXHAUSTED`], … Each change of the reason is one
        /// write of the job, so what holds for a whole queue is no reason.
        reason: &'static str,
        /// Why, in a sentence. Written with the reason only.
        message: String,
    },
    /// The ledger of the queue, sealed in this term, has an entry with the job's name and uid.
    Admitted {
        /// The attempt of the entry.
        attempt: i32,
    },
    /// Made by a report schedule that, read live, has decided its instant without claiming it.
    Ghost,
    /// Made by a report schedule that, read live, is gone, before anything of it was prepared.
    ScheduleGone,
}

/// Its place in the queue, as customers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// About how many start before it.
    pub position: Option<String>,
    /// About when it starts.
    pub estimated_start: Option<Timestamp>,
}

/// Everything a decision about a job depends on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The job, at the version that the decision's write replaces.
    pub job: ReportJob,
    /// How it stands with its queue.
    pub standing: Standing,
    /// The `runTemplate` of the queue.
    pub queue_run: Option<RunSpec>,
    /// Its place, if it moved so far that it is worth a write. While it waits only.
    pub place: Option<Place>,
    /// What a provider was seen to say of attempts that do not count any more. Each is told once,
    /// so take it out once a decision was made with it.
    pub late: Vec<Late>,
    /// What this pass has heard and done about an attempt.
    pub heard: Heard,
    /// The newest generation of which people were told that something in it is ignored, as far as
    /// this process knows.
    pub told: Option<i64>,
    /// Whether the wall clock agrees with the API server's. If not, nothing ends or starts because
    /// of a time.
    pub trust_clock: bool,
    /// The present term.
    pub fence: Fence,
}

impl Snapshot {
    /// Goes on with the version that was stored, whose place is not known. What a provider said of an
    /// attempt says nothing of the next one.
    pub fn go_on_with(&mut self, stored: ReportJob) {
        self.heard.go_on(Work::attempts(&self.job), Work::attempts(&stored));
        (self.job, self.place) = (stored, None);
    }
}

/// Decides the next step. Pure: equal snapshots and times give equal decisions.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Decision {
    if snapshot.job.metadata.deletion_timestamp.is_some() {
        return Decision::wait(); // deletion is a cancel; what is left is stopped by its parent's uid
    }
    let status = snapshot.job.status.clone().unwrap_or_default();
    let wanted = wanted_run(&snapshot.job, snapshot.queue_run.as_ref());
    let life = life::snapshot(snapshot, &status, wanted.as_ref().ok(), now);
    let view = View { snapshot, status: &status, wanted: &wanted, now };
    let decision = match view.before_admission(&life.record) {
        Some(mut decision) => {
            decision.notes.extend(runs::ignored(&life, now));
            decision
        }
        None => runs::decide(&life, now).written(|change| Some(view.lived(change))),
    };
    let mut decision = view.through_the_table(view.with_place(decision));
    decision.notes.extend(snapshot.late.iter().filter_map(|late| late::refused(&status, late)));
    view.with_times(decision)
}

/// When a job must have been admitted for the first time, if it says so.
pub fn queue_deadline(job: &ReportJob) -> Option<Timestamp> {
    let created = job.metadata.creation_timestamp.as_ref()?.0;
    created.checked_add(SignedDuration::from_secs(job.spec.queue_deadline_seconds?)).ok()
}

/// Whether an admitted attempt of a job is over for its queue: its entry may be settled.
///
/// An attempt is over when its end is recorded, and the job's end, also a person's word, ends all. A
/// job that ended before anything was committed has nothing that could run.
pub fn attempt_is_over(status: &ReportJobStatus, attempt: i32) -> bool {
    if status.state.is_some_and(ReportState::is_terminal) {
        return true;
    }
    let newest = status.attempts.last().map_or(0, |newest| newest.number);
    let open = runs::open_attempt(&status.attempts).map(|open| open.number);
    attempt <= newest && open != Some(attempt)
}

struct View<'a> {
    snapshot: &'a Snapshot,
    status: &'a ReportJobStatus,
    wanted: &'a Result<RunSpec, NoRun>,
    now: Timestamp,
}

/// A write before it went through the table; `None` is the seal.
type Wanted = Option<Box<New>>;

impl View<'_> {
    /// What the queue's answer leads to, while nothing was ever committed.
    fn before_admission(&self, record: &Record) -> Option<runs::Decision<Wanted>> {
        let waits = record.phase() == Phase::Waiting && record.attempts.is_empty();
        if !waits || self.snapshot.job.spec.cancel {
            return None;
        }
        let taken = record.run.is_some();
        match &self.snapshot.standing {
            Standing::Admitted { .. } => match self.wanted {
                Err(why) if !taken => Some(reject(record, UNSATISFIABLE, &why.to_string(), None)),
                _ => None,
            },
            Standing::Rejected { reason, message, retry_after } if !taken => {
                Some(reject(record, reason, message, *retry_after))
            }
            Standing::QueueNotFound | Standing::Accepted { .. } if self.too_late() => {
                Some(self.miss_deadline(record))
            }
            Standing::Accepted { reason, message } if !taken => match self.wanted {
                Ok(run) => Some(self.accept(record, run, reason, message)),
                Err(why) => Some(reject(record, UNSATISFIABLE, &why.to_string(), None)),
            },
            Standing::Undecided
            | Standing::Ghost
            | Standing::ScheduleGone
            | Standing::QueueNotFound
            | Standing::Accepted { .. }
            | Standing::Rejected { .. } => None,
        }
    }

    fn too_late(&self) -> bool {
        let deadline = queue_deadline(&self.snapshot.job);
        self.snapshot.trust_clock && deadline.is_some_and(|end| self.now >= end)
    }

    /// The queue took it: its run and its identity are sealed and used from then on.
    fn accept(
        &self,
        record: &Record,
        run: &RunSpec,
        reason: &str,
        message: &str,
    ) -> runs::Decision<Wanted> {
        let mut record = record.clone();
        record.run = Some(run.clone());
        record.id = Some(work_id(&self.snapshot.job, self.snapshot.queue_run.as_ref()).id());
        record.accepted = Some(accepted(true, "Accepted", ""));
        write(record, ReportState::Queued, reason, message, None)
    }

    fn miss_deadline(&self, record: &Record) -> runs::Decision<Wanted> {
        let seconds = self.snapshot.job.spec.queue_deadline_seconds.unwrap_or_default();
        let message = format!("it was not admitted within {seconds} s (spec.queueDeadlineSeconds)");
        let note = Note::warning("Failed", format!("{QUEUE_DEADLINE}: {message}"));
        write(record.clone(), ReportState::Failed, QUEUE_DEADLINE, &message, None).note(note)
    }

    /// A change of the run's life as a change of the job.
    fn lived(&self, change: Change) -> Wanted {
        let Change::To(record) = change else { return None };
        let mut record = *record;
        // Not taken by a queue that does not exist.
        if self.snapshot.standing == Standing::QueueNotFound && record.run.is_none() {
            let message = record.message.clone().unwrap_or_default();
            record.accepted.get_or_insert_with(|| accepted(false, "QueueNotFound", &message));
        }
        let state = life::state(record.phase());
        let retry_after = self.status.retry_after_time;
        Some(Box::new(New { record, state, retry_after, place: None }))
    }

    /// The place in the queue goes along with a write that leaves the job waiting, or is one.
    fn with_place(&self, mut decision: runs::Decision<Wanted>) -> runs::Decision<Wanted> {
        let Some(place) = &self.snapshot.place else { return decision };
        match &mut decision.step {
            runs::Step::Write(wanted) => {
                if let Some(new) = wanted.as_mut() {
                    new.place = Some(place.clone());
                }
            }
            runs::Step::Wait if self.status.state == Some(ReportState::Queued) => {
                let (record, state) = (life::record(self.status), ReportState::Queued);
                let new = New { record, state, retry_after: None, place: Some(place.clone()) };
                decision.step = runs::Step::Write(Box::new(Some(Box::new(new))));
            }
            _ => {}
        }
        decision
    }

    /// Every write goes through the table of states. One that is not in it is not made.
    fn through_the_table(&self, decision: runs::Decision<Wanted>) -> Decision {
        let generation = self.snapshot.job.metadata.generation;
        let sealed = self.status.fence.as_ref() == Some(&self.snapshot.fence);
        let mut defect = None;
        let decision = decision.written(|wanted| match wanted {
            None => Some(self.status.clone()),
            Some(new) => match states::move_to(self.status, *new, self.now, generation) {
                Ok(status) => Some(status).filter(|status| !(sealed && status == self.status)),
                Err(illegal) => {
                    defect = Some(Note::warning("IllegalTransition", illegal.to_string()));
                    None
                }
            },
        });
        match defect {
            None => decision,
            Some(note) => Decision { step: decision.step, wake_at: None, notes: vec![note] },
        }
    }

    /// Looks again when a retry may be admitted, and when it is too late for the first admission.
    fn with_times(&self, decision: Decision) -> Decision {
        let waits = matches!(self.status.state, None | Some(ReportState::Queued));
        if !waits || decision.step != Step::Wait || !self.snapshot.trust_clock {
            return decision;
        }
        let first = self.status.attempts.is_empty();
        let known = !matches!(
            self.snapshot.standing,
            Standing::Undecided | Standing::Ghost | Standing::ScheduleGone
        );
        let deadline = queue_deadline(&self.snapshot.job).filter(|_| first && known);
        let retry = self.status.next_attempt_time.map(|at| at.0);
        let later = |at: Option<Timestamp>| at.filter(|at| *at > self.now);
        decision.wake_at(later(deadline)).wake_at(later(retry))
    }
}

fn accepted(holds: bool, reason: &'static str, message: &str) -> Acceptance {
    Acceptance { holds, reason, message: message.to_owned() }
}

/// No event: in an overload it would be one more write for each job that is turned away.
fn reject(
    record: &Record,
    reason: &'static str,
    message: &str,
    retry_after: Option<Timestamp>,
) -> runs::Decision<Wanted> {
    let mut record = record.clone();
    record.accepted = Some(accepted(false, reason, message));
    write(record, ReportState::Rejected, reason, message, retry_after)
}

fn write(
    mut record: Record,
    state: ReportState,
    reason: &str,
    message: &str,
    retry_after: Option<Timestamp>,
) -> runs::Decision<Wanted> {
    record.reason = Some(reason.to_owned());
    record.message = Some(message.to_owned());
    let new = New { record, state, retry_after: retry_after.map(Time::new), place: None };
    runs::Decision::step(runs::Step::Write(Box::new(Some(Box::new(new)))))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_ends;
#[cfg(test)]
mod tests_states;
