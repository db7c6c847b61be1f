//! What was said about the drain and about starts, and what came of it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    Admitted,
    play::{at, number_of},
};
use crate::reports::{
    drain::{self, Drain},
    ledger::Books,
    rules::Rules,
    waiting::{Class, Waiting},
};

/// Time between two samples at least, in milliseconds.
const SAMPLE_EVERY: i64 = 60_000;
/// Most samples that are kept: with more, every second one goes, and they are taken half as often.
const MAX_SAMPLES: usize = 3_000;

/// The queue at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// Jobs that waited.
    pub waiting: usize,
    /// Slots that were held.
    pub held: usize,
    /// Of them, by retries.
    pub retries: usize,
    /// What was left for retries, in slot-milliseconds.
    pub budget_left: i64,
    /// About when all of them would be over, as was said.
    pub about: Option<i64>,
    /// When at the latest, as was said.
    pub at_most: Option<i64>,
    /// Jobs with a lower number had come and were answered.
    pub upto: u32,
    /// When all of those were over, filled in at the end.
    pub over: Option<i64>,
}

/// A queue: its ledger, who waits, its rules.
pub(super) type Queue<'a> = (&'a Books, &'a Waiting, &'a Rules);

/// The queue at that moment.
pub(super) fn sample((books, waiting, rules): Queue<'_>, upto: u32, now: i64) -> Sample {
    let Drain { about, at_most, .. } = drain::drain(books, waiting, rules, at(now));
    Sample {
        at: now,
        waiting: waiting.len(),
        held: books.used(),
        retries: books.retries(),
        budget_left: books.retry_budget_left(rules),
        about: about.map(Timestamp::as_millisecond),
        at_most: at_most.map(Timestamp::as_millisecond),
        upto,
        over: None,
    }
}

/// The samples of a history.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    pub(super) all: Vec<Sample>,
    pub(super) asked: Vec<Sample>,
    next: i64,
    every: i64,
}

impl Samples {
    pub(super) fn new(from: i64) -> Self {
        Self { all: Vec::new(), asked: Vec::new(), next: from, every: SAMPLE_EVERY }
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> i64 {
        self.next
    }

    /// Takes the one that is due.
    pub(super) fn take(&mut self, queue: Queue<'_>, upto: u32) {
        self.all.push(sample(queue, upto, self.next));
        if self.all.len() > MAX_SAMPLES {
            let mut number = 0;
            self.all.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
        self.next += self.every;
    }

    /// Fills in when the jobs of each sample were over; `over` is that of each job, by number.
    pub(super) fn close(&mut self, over: &[Option<i64>]) {
        close_samples(&mut self.all, over);
        close_samples(&mut self.asked, over);
    }
}

fn close_samples(samples: &mut [Sample], over: &[Option<i64>]) {
    let (mut next, mut last) = (0, Some(i64::MIN));
    for sample in samples {
        while next < sample.upto as usize
            && let Some(&over) = over.get(next)
        {
            last = over.zip(last).map(|(a, b)| a.max(b));
            next += 1;
        }
        sample.over = last.map(|last| last.max(sample.at));
    }
}

/// What one job was told about its start, and what a plain formula says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Number of the job.
    pub job: u32,
    /// When it was told.
    pub at: i64,
    /// When it would start, as was said.
    pub said: i64,
    /// What the order of arrival says: jobs before it, times the mean estimate, over the slots.
    pub by_arrival: i64,
    /// The same with its place in the order of admission, which only this queue knows.
    pub by_turn: i64,
    /// When it started, filled in at the end; none if it never did.
    pub started: Option<i64>,
}

/// What everybody who waits is told at that moment.
pub(super) fn ask((books, waiting, rules): Queue<'_>, now: i64) -> Vec<Told> {
    let starts = drain::starts(books, waiting, rules, at(now));
    let mut said: Vec<(i64, u32)> = starts
        .iter()
        .filter_map(|(name, start)| Some((start.at.as_millisecond(), number_of(name)?)))
        .collect();
    said.sort_unstable();
    let mut arrived: Vec<u32> = said.iter().map(|(_, job)| *job).collect();
    arrived.sort_unstable();
    let before: BTreeMap<u32, i64> = arrived.into_iter().zip(0..).collect();
    let waits = i64::try_from(waiting.len()).unwrap_or(i64::MAX).max(1);
    let mean = (waiting.charge(Class::First) + waiting.charge(Class::Retry)) / waits;
    let slots = i64::try_from(rules.slots()).unwrap_or(1);
    let plain = |before: i64| now + before.saturating_mul(mean) / slots;
    (0..)
        .zip(said)
        .map(|(turn, (said, job))| Told {
            job,
            at: now,
            said,
            by_arrival: plain(before.get(&job).copied().unwrap_or(turn)),
            by_turn: plain(turn),
            started: None,
        })
        .collect()
}

/// Fills in when those who were told started.
pub(super) fn close(told: &mut [Told], admissions: &[Admitted]) {
    let mut by_job: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, told) in told.iter().enumerate() {
        by_job.entry(told.job).or_default().push(index);
    }
    for Admitted { at, job, .. } in admissions {
        for index in by_job.get(job).into_iter().flatten() {
            let told = &mut told[*index];
            if told.at <= *at {
                told.started.get_or_insert(*at);
            }
        }
    }
}

/// By how much something was said wrong, in thousandths of what came of it; none if that was sooner
/// than `least` milliseconds.
pub fn error(from: i64, said: i64, was: i64, least: i64) -> Option<i64> {
    let took = was - from;
    (took >= least.max(1)).then(|| (said - was).abs().saturating_mul(1000) / took)
}
