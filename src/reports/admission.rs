//! Who is admitted next, and why another is not.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

use super::{
    budget::{Budget, beyond},
    fairness::{Next, Turns},
    ledger::{Books, http_bytes},
    name::Name,
    rules::{Rules, Starts},
    waiting::{Class, Waiting},
};
use crate::api::{ActionClass, HttpRun, Ledger, LedgerEntry, MAX_LEDGER_HTTP_BYTES, Time};

/// Most jobs that one pass leaves out because they cannot be admitted now; the next pass looks at
/// them again. Without it a pass could look at all that wait.
const MAX_LEFT_OUT: usize = 1000;

/// What an entry says of the run, for the day when its object is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    /// The run key of the attempt.
    pub run_key: String,
    /// The action class.
    pub action_class: ActionClass,
    /// The http provider, if it is one.
    pub http: Option<HttpRun>,
}

/// Why a job whose turn it was is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Its run could not be described: the caller does not have the object.
    NotDescribed,
    /// The ledger has no room for its provider's address: see [`MAX_LEDGER_HTTP_BYTES`].
    LedgerFull,
}

/// What one pass admits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// The ledger to write; nothing is admitted until that write succeeds.
    pub ledger: Ledger,
    /// The new entries, in the order of their turns.
    pub admitted: Vec<LedgerEntry>,
    /// Jobs whose turn it was and that cannot be admitted now, by name.
    pub left_out: Vec<(String, LeftOut)>,
}

/// Fills the free slots: [`Books::admit`] on a ledger.
pub fn admit(
    ledger: &Ledger,
    waiting: &Waiting,
    rules: &Rules,
    now: Timestamp,
    describe: impl FnMut(&str, &str, i32) -> Option<RunRef>,
) -> Admission {
    let mut books = Books::open(ledger);
    let (admitted, left_out) = books.admit(waiting, rules, now, describe);
    Admission {
        ledger: books.close(),
        admitted: admitted.into_iter().map(|entry| LedgerEntry::clone(&entry)).collect(),
        left_out,
    }
}

impl Books {
    /// Fills the free slots, one turn after another. [`Waiting::advance`] comes before it, `waiting`
    /// itself is not changed: the write of the ledger may fail.
    ///
    /// `describe` is given name, uid and attempt of a job whose turn it is.
    pub fn admit(
        &mut self,
        waiting: &Waiting,
        rules: &Rules,
        now: Timestamp,
        describe: impl FnMut(&str, &str, i32) -> Option<RunRef>,
    ) -> (Vec<Arc<LedgerEntry>>, Vec<(String, LeftOut)>) {
        self.admit_up_to(usize::MAX, waiting, rules, now, describe)
    }

    /// [`Books::admit`] of at most so many.
    pub fn admit_up_to(
        &mut self,
        most: usize,
        waiting: &Waiting,
        rules: &Rules,
        now: Timestamp,
        mut describe: impl FnMut(&str, &str, i32) -> Option<RunRef>,
    ) -> (Vec<Arc<LedgerEntry>>, Vec<(String, LeftOut)>) {
        let (mut admitted, mut left_out) = (Vec::new(), Vec::new());
        if rules.free(self.used()) == 0 || waiting.is_empty() {
            return (Vec::new(), left_out);
        }
        let mut http_room = MAX_LEDGER_HTTP_BYTES.saturating_sub(self.http_bytes());
        let mut pass = Pass::new(self, waiting, rules);
        while admitted.len() < most
            && left_out.len() < MAX_LEFT_OUT
            && let Some(turn) = pass.next()
        {
            let Some(job) = pass.turns.job(&turn.next) else { break };
            let uid = job.uid();
            let Some(run) = describe(&job.name, &uid, job.attempt) else {
                left_out.push((job.name.to_string(), LeftOut::NotDescribed));
                pass.turns.skip(&turn.next);
                continue;
            };
            let entry = LedgerEntry {
                job: job.name.as_ref().to_owned(),
                uid,
                tenant: waiting.tenant(job.tenant).to_string(),
                attempt: job.attempt,
                run_key: run.run_key,
                action_class: run.action_class,
                http: run.http,
                charge: job.charge,
                retry: job.retry,
                admitted_time: Time::new(now),
            };
            let Some(room) = http_room.checked_sub(http_bytes(&entry)) else {
                left_out.push((entry.job, LeftOut::LedgerFull));
                pass.turns.skip(&turn.next);
                continue;
            };
            http_room = room;
            pass.take(&turn);
            admitted.push(entry);
        }
        (admitted.into_iter().filter_map(|entry| self.enter(entry)).collect(), left_out)
    }
}

/// Whose turn it is, and who else could have been next.
pub(crate) struct Turn {
    pub(crate) next: Next,
    other: Option<Next>,
}

/// A pass over the free slots: the rules of both classes on top of the turns within each.
pub(crate) struct Pass<'a> {
    pub(crate) turns: Turns<'a>,
    budget: &'a mut Budget,
    rules: &'a Rules,
    used: usize,
    retries: usize,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(books: &'a mut Books, waiting: &'a Waiting, rules: &'a Rules) -> Self {
        let (used, retries) = (books.used(), books.retries());
        let turns = Turns::new(&mut books.accounts, waiting, rules, &books.names);
        Self { turns, budget: &mut books.budget, rules, used, retries }
    }

    /// Whose turn it is, if a slot is free.
    pub(crate) fn next(&mut self) -> Option<Turn> {
        if self.rules.free(self.used) == 0 {
            return None;
        }
        let first = self.turns.next(Class::First);
        let retry = self.next_retry(first.is_some());
        let guaranteed = self.retries < self.rules.guaranteed_retries();
        match (first, retry) {
            (Some(first), Some(retry)) if guaranteed || retry.before(&first) => {
                Some(Turn { next: retry, other: Some(first) })
            }
            (Some(first), retry) => Some(Turn { next: first, other: retry }),
            (None, retry) => Some(Turn { next: retry?, other: None }),
        }
    }

    /// The retry whose turn it is, if retries may have one slot more and it can be paid, or nothing
    /// else is to be done. A smaller one does not go before it: it would take what the larger one
    /// waits for.
    fn next_retry(&mut self, first_attempts_wait: bool) -> Option<Next> {
        if !self.rules.retries || self.retries >= self.rules.most_retries(first_attempts_wait) {
            return None;
        }
        let next = self.turns.next(Class::Retry)?;
        let job = self.turns.job(&next)?;
        let pays = self.budget.affords(self.rules, job.charge);
        (pays || beyond(self.used, first_attempts_wait)).then_some(next)
    }

    /// The job gets its slot and is paid for. The virtual time goes on first.
    pub(crate) fn take(&mut self, turn: &Turn) {
        let Some(job) = self.turns.job(&turn.next) else { return };
        let (charge, retry) = (job.charge, job.retry);
        self.turns.raise([Some(&turn.next), turn.other.as_ref()]);
        self.turns.take(&turn.next);
        self.used += 1;
        if retry {
            self.retries += 1;
            self.budget.retry(self.rules, charge);
        } else {
            self.budget.first_attempt(self.rules, charge);
        }
    }

    /// A slot is free again.
    pub(crate) fn release(&mut self, tenant: &Name, retry: bool) {
        self.used = self.used.saturating_sub(1);
        self.retries = self.retries.saturating_sub(usize::from(retry));
        self.turns.release(tenant);
    }
}

/// Why a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The leader has yet to account for what it found.
    QueuePaused,
    /// `spec.admission: Hold`.
    QueueHeld,
    /// A job of its name, deleted since, still holds a slot.
    NameTaken,
    /// The retry's time has not come.
    BackingOff {
        /// When it comes.
        until: Timestamp,
    },
    /// `spec.retries.enabled: false`.
    RetriesDisabled,
    /// Its tenant may hold no slot at all: `maxRunning` is 0.
    TenantBarred,
    /// Its tenant holds as many slots as it may.
    TenantLimit,
    /// Retries of this queue have cost as much as they may.
    RetryBudgetExhausted,
    /// Retries hold as many slots as they may.
    RetryShare,
    /// All slots are held, and its tenant has had more than others who wait.
    FairShare,
    /// All slots are held.
    WaitingForSlot,
    /// Nothing stands in its way: the next pass admits it.
    Next,
}

impl Why {
    /// The reason, for programs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::QueuePaused => "QueuePaused",
            Self::QueueHeld => "QueueHeld",
            Self::NameTaken => "NameTaken",
            Self::BackingOff { .. } => "BackingOff",
            Self::RetriesDisabled => "RetriesDisabled",
            Self::TenantBarred | Self::TenantLimit => "TenantLimit",
            Self::RetryBudgetExhausted => "RetryBudgetExhausted",
            Self::RetryShare => "RetryShare",
            Self::FairShare => "FairShare",
            Self::WaitingForSlot | Self::Next => "WaitingForSlot",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueuePaused => "the queue is paused until a new leader knows what is running",
            Self::QueueHeld => {
                "the queue is on hold: nothing new starts until spec.admission is Open"
            }
            Self::NameTaken => {
                "a deleted job of this name still runs; this one starts when that is over"
            }
            Self::BackingOff { until } => return write!(f, "it is tried again after {until}"),
            Self::RetriesDisabled => {
                "retries are switched off in this queue (spec.retries.enabled)"
            }
            Self::TenantBarred => {
                "its tenant may run nothing here: raise its maxRunning in spec.tenants of the queue"
            }
            Self::TenantLimit => "its tenant has as many reports running as it may (maxRunning)",
            Self::RetryBudgetExhausted => {
                "retries of this queue have used up their budget, which first attempts fill again; without any they go one at a time"
            }
            Self::RetryShare => "retries hold as many slots as they may while others wait",
            Self::FairShare => {
                "all slots are taken, and tenants that have had less than this one come first"
            }
            Self::WaitingForSlot => "all slots are taken",
            Self::Next => "it starts with the next pass",
        })
    }
}

/// Why the job of that name waits, given what is admitted after the last pass. `None` if no job of
/// that name waits.
pub fn explain(books: &Books, waiting: &Waiting, rules: &Rules, name: &str) -> Option<Why> {
    let job = waiting.get(name)?;
    let tenant = waiting.tenant(job.tenant);
    let account = books.accounts.get(tenant);
    let full = rules.slots() <= books.used();
    let firsts_wait = !waiting.heads(Class::First).is_empty();
    let capped = books.retries() >= rules.most_retries(firsts_wait);
    let pays = books.budget.affords(rules, job.charge) || beyond(books.used(), firsts_wait);
    Some(match rules.starts {
        Starts::Paused => Why::QueuePaused,
        Starts::Held => Why::QueueHeld,
        Starts::Open if books.is_name_taken(name) => Why::NameTaken,
        Starts::Open if waiting.is_later(job) => Why::BackingOff {
            until: Timestamp::from_millisecond(job.not_before).unwrap_or(Timestamp::MAX),
        },
        Starts::Open if job.retry && !rules.retries => Why::RetriesDisabled,
        Starts::Open if rules.is_capped(tenant, 0) => Why::TenantBarred,
        Starts::Open if rules.is_capped(tenant, account.running) => Why::TenantLimit,
        Starts::Open if job.retry && !pays => Why::RetryBudgetExhausted,
        Starts::Open if job.retry && capped => Why::RetryShare,
        Starts::Open if !full => Why::Next,
        Starts::Open if waiting.tenants() > 1 && !account.is_empty() => Why::FairShare,
        Starts::Open => Why::WaitingForSlot,
    })
}
