//! How long an admission takes, and how much a waiting job weighs: `cargo bench --bench admission`.
//!
//! One decision is: a job is settled, another is submitted, and the next is admitted. A pass of the
//! operator makes many of them in one write, so the numbers are given for passes of one and of
//! sixteen. A pass works on a copy of the ledger, because its write may fail; that is told apart.
//! Times are of the processor, so a machine may be busy with other things. Goal: below 5 µs each at
//! 100,000 waiting jobs. Fails when a goal is missed.

#[path = "../tests/shared/resident.rs"]
mod resident;

use std::{hint::black_box, process::ExitCode, sync::Arc, time::Duration};

use jiff::Timestamp;
use punctual::{
    api::{ActionClass, Ledger, LedgerEntry},
    reports::{
        admission::RunRef,
        drain,
        ledger::Books,
        rules::Rules,
        waiting::{Waiting, WaitingJob},
    },
};
use resident::resident;
use rustix::time::{ClockId, clock_gettime};

/// Goal for one decision, in passes as the operator makes them.
const DECISION: Duration = Duration::from_micros(5);
/// Goal for one waiting job, in bytes.
const WEIGHT: usize = 200;
/// Decisions of one measurement, so few that most are not interrupted by anything else, and how many
/// there are. The median counts.
const DECISIONS: usize = 64;
const MEASUREMENTS: usize = 301;
/// Slots of the queue.
const SLOTS: i32 = 64;

/// Job number `number`: 300 tenants, the first with a third of all jobs.
fn job(number: usize) -> WaitingJob {
    let tenant = if number.is_multiple_of(3) { 0 } else { number % 300 };
    WaitingJob {
        name: format!("customer-{tenant:03}-usage-{number:07}"),
        uid: format!("3f0c1a52-6d0f-4c7e-9a39-{number:012x}"),
        tenant: format!("customer-{tenant:03}"),
        priority: 0,
        created: Timestamp::from_second(1_700_000_000 + i64::try_from(number / 50).unwrap_or(0))
            .unwrap_or(Timestamp::UNIX_EPOCH),
        attempt: 1,
        charge: 1_000 * (1 + i64::try_from(number % 600).unwrap_or(0)),
        retry: false,
        not_before: None,
        scheduled: false,
    }
}

/// A queue in operation.
struct Queue {
    books: Books,
    waiting: Waiting,
    rules: Rules,
    running: Vec<Arc<LedgerEntry>>,
    submitted: usize,
}

impl Queue {
    fn new(queued: usize) -> Self {
        let mut waiting = Waiting::new();
        (0..queued).for_each(|number| waiting.upsert(&job(number)));
        let mut queue = Self {
            books: Books::open(&Ledger::new()),
            waiting,
            rules: Rules { slots: SLOTS, ..Rules::default() },
            running: Vec::new(),
            submitted: queued,
        };
        queue.admit();
        queue
    }

    fn admit(&mut self) {
        let describe = |name: &str, _: &str, _| {
            Some(RunRef {
                run_key: name.to_owned(),
                action_class: ActionClass::Idempotent,
                http: None,
            })
        };
        let (admitted, _) =
            self.books.admit(&self.waiting, &self.rules, Timestamp::UNIX_EPOCH, describe);
        for entry in admitted {
            self.waiting.remove(&entry.job, &entry.uid);
            self.running.push(entry);
        }
    }

    /// One pass: so many are over, so many come, and the slots are filled again.
    fn pass(&mut self, new: &[WaitingJob]) {
        for (entry, new) in self.running.drain(..new.len()).zip(new) {
            let actual = entry.charge * 3 / 4;
            black_box(self.books.settle(&self.rules, &entry.uid, entry.attempt, actual));
            self.waiting.upsert(new);
        }
        self.admit();
    }

    /// The next jobs that are submitted.
    fn next_jobs(&mut self, count: usize) -> Vec<WaitingJob> {
        let from = self.submitted;
        self.submitted += count;
        (from..self.submitted).map(job).collect()
    }
}

/// Time of one decision in passes of so many.
fn median(queue: &mut Queue, in_one: usize) -> Duration {
    let mut measure = || {
        let new = queue.next_jobs(DECISIONS);
        let begin = processor();
        new.chunks(in_one).for_each(|new| queue.pass(new));
        processor().saturating_sub(begin) / u32::try_from(DECISIONS).unwrap_or(u32::MAX)
    };
    let mut all: Vec<Duration> = (0..MEASUREMENTS).map(|_| measure()).collect();
    all.sort_unstable();
    all[MEASUREMENTS / 2]
}

/// Processor time that this thread has had.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Time of one copy of the ledger.
fn copy(queue: &Queue) -> Duration {
    let begin = processor();
    (0..MEASUREMENTS).for_each(|_| drop(black_box(queue.books.clone())));
    processor().saturating_sub(begin) / u32::try_from(MEASUREMENTS).unwrap_or(u32::MAX)
}

fn main() -> ExitCode {
    let mut missed = false;
    let before = resident("self");
    // The largest first: memory that others gave back would make it look lighter.
    let mut heavy = Queue::new(100_000);
    let weight = resident("self").saturating_sub(before) / 100_000;
    missed |= weight > WEIGHT;
    println!("{weight} bytes for each of 100,000 waiting jobs (goal: {WEIGHT})");
    println!("  queued   ns in passes of 1   ns in passes of 16   ns of a copy");
    for queued in [1_000, 10_000] {
        let mut queue = Queue::new(queued);
        missed |= print(queued, &mut queue);
    }
    missed |= print(100_000, &mut heavy);
    let begin = processor();
    let starts = drain::starts(&heavy.books, &heavy.waiting, &heavy.rules, Timestamp::UNIX_EPOCH);
    let (count, time) = (starts.len(), processor().saturating_sub(begin));
    println!("{} ms to play {count} admissions ahead", time.as_millis());
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Prints a line; whether the goal was missed.
fn print(queued: usize, queue: &mut Queue) -> bool {
    let (one, many) = (median(queue, 1), median(queue, 16));
    let missed = many > DECISION;
    let verdict = if missed { "  MISSED" } else { "" };
    let copy = copy(queue).as_nanos();
    println!("{queued:>8} {:>19} {:>20} {copy:>14}{verdict}", one.as_nanos(), many.as_nanos());
    missed
}
