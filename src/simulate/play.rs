//! The loop on virtual time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
};

use jiff::Timestamp;

use super::{
    Admitted, Fate, Played, Setting, Share, Story, Tally,
    forecast::{self, Samples, Told},
};
use crate::{
    api::{ActionClass, Attempt, AttemptOutcome, Ledger, LedgerEntry},
    arrivals::{Arrival, Ending},
    reports::{
        admission::{RunRef, Why, explain},
        ledger::Books,
        limits,
        queue::{MAX_ANSWERED, WRITE_PAUSE},
        waiting::{Waiting, WaitingJob},
    },
    retry, runs,
};

/// Reason of a job that its queue can never start.
const UNSATISFIABLE: &str = "Unsatisfiable";
/// How often progress is told, in passes.
const TELL_EVERY: u64 = 1_024;

/// A moment, in milliseconds since the epoch.
pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// The prefix of the names of jobs.
const PREFIX: &str = "report-";

/// The number of the job of that name.
pub(super) fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

fn name_of(number: u32) -> String {
    format!("{PREFIX}{number:07}")
}

fn uid_of(number: u32) -> String {
    format!("3f0c1a52-6d0f-4c7e-9a39-{number:012x}")
}

/// Plays a history to its end. `progress` is told now and then how many jobs have come.
pub fn play(setting: &Setting, mut progress: impl FnMut(u64)) -> Played {
    let mut play = Play::new(setting);
    while let Some(due) = play.next_event() {
        let now = due.max(play.now.saturating_add(pause()));
        play.look(now);
        play.pass(now);
        if play.tally.passes.is_multiple_of(TELL_EVERY) {
            progress(play.next as u64);
        }
    }
    play.close()
}

fn pause() -> i64 {
    i64::try_from(WRITE_PAUSE.as_millis()).unwrap_or(0)
}

/// A run that goes on.
struct Run {
    attempt: i32,
    retry: bool,
    started: i64,
    ending: Ending,
}

/// A history that goes on.
struct Play<'a> {
    setting: &'a Setting,
    tenants: Vec<String>,
    arrivals: Vec<Arrival>,
    stories: Vec<Story>,
    books: Books,
    waiting: Waiting,
    /// When the last pass was made.
    now: i64,
    /// The first moment, and the first after which no job comes.
    window: (i64, i64),
    /// How many jobs have come.
    next: usize,
    /// Jobs without an answer.
    fresh: VecDeque<u32>,
    /// Ends of runs.
    ends: BinaryHeap<Reverse<(i64, u32)>>,
    running: BTreeMap<u32, Run>,
    /// When customers lose patience.
    patience: BinaryHeap<Reverse<(i64, u32)>>,
    /// When retries may start that wait for their time.
    due: BTreeSet<(i64, u32)>,
    /// Attempts of jobs that failed before.
    attempts: BTreeMap<u32, Vec<Attempt>>,
    asked: usize,
    told: Vec<Told>,
    samples: Samples,
    shares: Vec<Share>,
    admissions: Vec<Admitted>,
    tally: Tally,
    /// Since when somebody waits.
    backlog: Option<i64>,
}

impl<'a> Play<'a> {
    fn new(setting: &'a Setting) -> Self {
        let arrivals = setting.model.arrivals();
        let from = setting.model.from.as_millisecond();
        let length = i64::from(setting.model.hours) * 3_600_000;
        let tenants = setting.tenants();
        Self {
            setting,
            stories: vec![Story::default(); arrivals.len()],
            shares: vec![Share::default(); tenants.len()],
            tenants,
            arrivals,
            books: Books::open(&Ledger::new()),
            waiting: Waiting::new(),
            now: from - pause(),
            window: (from, from + length),
            next: 0,
            fresh: VecDeque::new(),
            ends: BinaryHeap::new(),
            running: BTreeMap::new(),
            patience: BinaryHeap::new(),
            due: BTreeSet::new(),
            attempts: BTreeMap::new(),
            asked: 0,
            told: Vec::new(),
            samples: Samples::new(from),
            admissions: Vec::new(),
            tally: Tally::default(),
            backlog: None,
        }
    }

    /// When something happens next. None if nothing will any more.
    fn next_event(&self) -> Option<i64> {
        [
            (!self.fresh.is_empty()).then_some(self.now),
            self.arrivals.get(self.next).map(|job| job.at),
            self.ends.peek().map(|Reverse((at, _))| *at),
            self.patience.peek().map(|Reverse((at, _))| *at),
            self.waiting.next_due().map(Timestamp::as_millisecond),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Samples and questions that are due before that moment. Nothing has changed since the last pass.
    fn look(&mut self, before: i64) {
        let queue = (&self.books, &self.waiting, &self.setting.rules);
        let upto = u32::try_from(self.next - self.fresh.len()).unwrap_or(u32::MAX);
        while let Some(&ask) = self.setting.asks.get(self.asked).filter(|ask| **ask < before) {
            self.samples.asked.push(forecast::sample(queue, upto, ask));
            self.told.extend(forecast::ask(queue, ask));
            self.asked += 1;
        }
        let mut shares = 0;
        while self.samples.next() < before {
            self.samples.take(queue, upto);
            shares += 1;
        }
        (0..shares).for_each(|_| self.share());
    }

    /// What those who wait hold, and what their weights give them of what they hold together.
    fn share(&mut self) {
        let rules = &self.setting.rules;
        if self.books.used() < rules.slots() {
            return;
        }
        let int = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let waits: Vec<Demand> = (0..self.tenants.len())
            .filter_map(|number| {
                let tenant = &self.tenants[number];
                let waits = int(self.waiting.len_of(tenant));
                let held = i64::from(self.books.running(tenant));
                let weight = rules.weight(tenant);
                (waits > 0).then_some(Demand { number, held, wants: held + waits, weight })
            })
            .collect();
        let of: i64 = waits.iter().map(|demand| demand.held * 1000).sum();
        for (number, held, due) in fair(waits, of) {
            let share = &mut self.shares[number];
            share.held += held * 1000;
            share.due += due;
            share.of += of;
        }
    }

    /// One pass: settle, answer, admit, as the operator does.
    fn pass(&mut self, now: i64) {
        let until = now.min(self.window.1) - self.now.max(self.window.0);
        self.tally.held += until.max(0) * i64::try_from(self.books.used()).unwrap_or(0);
        self.now = now;
        self.tally.passes += 1;
        self.settle();
        let due = self.retries_due();
        self.arrive();
        self.lose_patience();
        self.waiting.advance(at(now));
        self.answer();
        self.admit();
        self.ask_retries(&due);
        self.count();
    }

    /// Runs that are over free their slots.
    fn settle(&mut self) {
        while let Some(&Reverse((end, job))) = self.ends.peek()
            && end <= self.now
        {
            self.ends.pop();
            if let Some(run) = self.running.remove(&job) {
                self.end(job, &run, end);
            }
        }
    }

    /// Retries whose time has come since the last pass.
    fn retries_due(&mut self) -> Vec<u32> {
        let mut due = Vec::new();
        while let Some(&(at, job)) = self.due.first()
            && at <= self.now
        {
            self.due.pop_first();
            due.push(job);
        }
        due
    }

    fn end(&mut self, job: u32, run: &Run, end: i64) {
        let took = end - run.started;
        if run.retry {
            let charge = i64::from(self.arrivals[job as usize].estimate) * 1000;
            self.tally.retries_took += took;
            self.tally.retries_paid += took.min(charge);
        } else {
            self.tally.first_took += took;
        }
        let over = match run.ending.failure {
            None => Some(Fate::Succeeded),
            Some(failure) => {
                self.tally.failed_attempts += 1;
                let attempts = self.attempts.entry(job).or_default();
                attempts.push(failed(run.attempt, failure.reason));
                let limit = self.setting.max_attempts;
                let next = runs::may_retry(attempts, failure.reason, failure.class, limit);
                next.is_err().then_some(Fate::Failed)
            }
        };
        let (rules, uid, again) = (&self.setting.rules, uid_of(job), over.is_none());
        self.books.settle_known(rules, &uid, run.attempt, took, again);
        if let Some(fate) = over {
            self.tally.given_up += u64::from(fate == Fate::Failed);
            self.attempts.remove(&job);
            self.finish(job, fate, end);
        } else {
            self.try_again(job, run.attempt, end);
        }
    }

    fn finish(&mut self, job: u32, fate: Fate, at: i64) {
        if let Some(story) = self.stories.get_mut(job as usize) {
            (story.fate, story.over) = (fate, Some(at));
        }
    }

    fn try_again(&mut self, job: u32, attempt: i32, ended: i64) {
        let delay = retry::delay(&retry::RUN, &uid_of(job), attempt.unsigned_abs());
        let delay = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX / 4);
        self.due.insert((ended + delay, job));
        let waits = self.waiting_job(job, attempt + 1, Some(ended + delay));
        self.waiting.upsert(&waits);
    }

    /// The job as one that waits.
    fn waiting_job(&self, job: u32, attempt: i32, not_before: Option<i64>) -> WaitingJob {
        let arrival = &self.arrivals[job as usize];
        WaitingJob {
            name: name_of(job),
            uid: uid_of(job),
            tenant: self.tenants[arrival.tenant as usize].clone(),
            priority: 0,
            // The API server's creation times are whole seconds.
            created: at(arrival.at / 1000 * 1000),
            attempt,
            charge: i64::from(arrival.estimate) * 1000,
            retry: attempt > 1,
            not_before: not_before.map(at),
            scheduled: false,
        }
    }

    fn arrive(&mut self) {
        while let Some(arrival) = self.arrivals.get(self.next).filter(|job| job.at <= self.now) {
            self.fresh.push_back(arrival.number);
            if let Some(after) = arrival.patience {
                self.patience.push(Reverse((arrival.at + after, arrival.number)));
            }
            self.next += 1;
        }
    }

    /// Customers cancel what has never started.
    fn lose_patience(&mut self) {
        while let Some(&Reverse((end, job))) = self.patience.peek()
            && end <= self.now
        {
            self.patience.pop();
            let open = self.stories[job as usize] == Story::default();
            if open && self.waiting.remove(&name_of(job), &uid_of(job)) {
                self.finish(job, Fate::Cancelled, self.now);
            }
        }
    }

    /// New jobs are accepted or rejected, oldest first.
    fn answer(&mut self) {
        let rules = &self.setting.rules;
        let mut new = Vec::new();
        for job in self.fresh.drain(..self.fresh.len().min(MAX_ANSWERED)).collect::<Vec<_>>() {
            let waits = self.waiting_job(job, 1, None);
            if rules.is_capped(&waits.tenant, 0) {
                self.finish(job, Fate::Rejected(UNSATISFIABLE), self.now);
            } else {
                new.push(waits);
            }
        }
        if new.is_empty() {
            return;
        }
        let verdicts = limits::accept(&self.waiting, rules, self.books.used(), &new);
        for index in verdicts.accepted {
            self.waiting.upsert(&new[index]);
        }
        for (index, refusal) in verdicts.rejected {
            if let Some(job) = number_of(&new[index].name) {
                self.finish(job, Fate::Rejected(refusal.reason()), self.now);
            }
        }
    }

    /// Fills the free slots.
    fn admit(&mut self) {
        let rules = &self.setting.rules;
        let describe = |name: &str, _: &str, _: i32| {
            let run_key = name.to_owned();
            Some(RunRef { run_key, action_class: ActionClass::Idempotent, http: None })
        };
        let (admitted, _) = self.books.admit(&self.waiting, rules, at(self.now), describe);
        let beyond = self.books.retry_budget_left(rules) < 0;
        for entry in admitted {
            self.waiting.remove(&entry.job, &entry.uid);
            if entry.retry && beyond {
                self.tally.beyond_charged += entry.charge;
            }
            self.start(&entry);
        }
    }

    fn start(&mut self, entry: &LedgerEntry) {
        let Some(job) = number_of(&entry.job) else { return };
        let (now, attempt) = (self.now, entry.attempt);
        self.admissions.push(Admitted { at: now, job, attempt });
        if entry.retry {
            self.tally.retries += 1;
        } else {
            self.tally.first_charged += entry.charge;
        }
        self.stories[job as usize].started.get_or_insert(now);
        let ending = self.setting.model.ending(&self.arrivals[job as usize], attempt, now);
        self.ends.push(Reverse((now + ending.after, job)));
        self.running.insert(job, Run { attempt, retry: entry.retry, started: now, ending });
    }

    /// Why retries wait whose time has come in this pass.
    fn ask_retries(&mut self, due: &[u32]) {
        for job in due {
            match explain(&self.books, &self.waiting, &self.setting.rules, &name_of(*job)) {
                Some(Why::RetryBudgetExhausted) => self.tally.waited_for_budget += 1,
                Some(Why::RetryShare) => self.tally.waited_for_share += 1,
                _ => {}
            }
        }
    }

    fn count(&mut self) {
        let (waiting, tally) = (self.waiting.len(), &mut self.tally);
        tally.most_held = tally.most_held.max(self.books.used());
        tally.most_waiting = tally.most_waiting.max(waiting);
        if waiting == 0 {
            if let Some(since) = self.backlog.take() {
                tally.longest_backlog = tally.longest_backlog.max(self.now - since);
            }
        } else {
            self.backlog.get_or_insert(self.now);
        }
    }

    fn close(mut self) -> Played {
        let over: Vec<Option<i64>> = self.stories.iter().map(|story| story.over).collect();
        self.samples.close(&over);
        forecast::close(&mut self.told, &self.admissions);
        Played {
            arrivals: self.arrivals,
            stories: self.stories,
            admissions: self.admissions,
            tally: self.tally,
            samples: self.samples.all,
            asked: self.samples.asked,
            told: self.told,
            shares: self.shares,
            end: self.now,
        }
    }
}

/// A tenant that waits: what it holds, what it could hold, its weight.
pub(super) struct Demand {
    pub(super) number: usize,
    pub(super) held: i64,
    pub(super) wants: i64,
    pub(super) weight: i64,
}

/// Shares these thousandths of slots by weight; nobody is given more than it could hold. The number,
/// what it holds, and what it is due, in thousandths.
pub(super) fn fair(mut all: Vec<Demand>, mut left: i64) -> Vec<(usize, i64, i64)> {
    // Who could hold least for its weight is satisfied first.
    all.sort_by_key(|demand| (demand.wants * 1000 / demand.weight, demand.number));
    let mut weights: i64 = all.iter().map(|demand| demand.weight).sum();
    let mut shares = Vec::new();
    for Demand { number, held, wants, weight } in all {
        let due = (left * weight / weights.max(1)).min(wants * 1000);
        left -= due;
        weights -= weight;
        shares.push((number, held, due));
    }
    shares
}

/// An attempt that failed for that reason, as it is recorded.
fn failed(number: i32, reason: &str) -> Attempt {
    Attempt {
        number,
        run_key: String::new(),
        handle: None,
        pod: None,
        epoch: 1,
        prepared_time: None,
        released_time: None,
        start_time: None,
        completion_time: None,
        stop_requested_time: None,
        stop_reason: None,
        outcome: Some(AttemptOutcome::Failed),
        reason: Some(reason.to_owned()),
    }
}
