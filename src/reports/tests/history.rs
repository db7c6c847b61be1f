//! A queue with random tenants, jobs, failures and people; and a scheduler that forgets.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use jiff::Timestamp;

use crate::{
    api::{ActionClass, LedgerEntry},
    reports::{
        admission::RunRef,
        ledger::Books,
        rules::{Rules, TenantRule},
        waiting::{Waiting, WaitingJob},
    },
    sim::rng::Rng,
};

/// Largest estimate, in milliseconds.
pub(in crate::reports) const LARGEST: i64 = 600_000;

pub(in crate::reports) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

/// A first attempt.
pub(in crate::reports) fn job(name: &str, tenant: &str, created: i64, charge: i64) -> WaitingJob {
    WaitingJob {
        name: name.into(),
        uid: format!("uid-{name}"),
        tenant: tenant.into(),
        priority: 0,
        created: at(created),
        attempt: 1,
        charge,
        retry: false,
        not_before: None,
        scheduled: false,
    }
}

#[allow(clippy::unnecessary_wraps)] // an admission asks like this
pub(in crate::reports) fn run_ref(name: &str, _: &str, attempt: i32) -> Option<RunRef> {
    Some(RunRef {
        run_key: format!("{name}-r{attempt}"),
        action_class: ActionClass::Idempotent,
        http: None,
    })
}

/// What happens in a history.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each is a thing of its own
pub(in crate::reports) struct Mood {
    /// Estimates are wrong by 0.25 to 3.
    pub(in crate::reports) wrong: bool,
    /// Percent of attempts that fail and are tried again, three times in all.
    pub(in crate::reports) failing: u64,
    /// Jobs have priorities.
    pub(in crate::reports) priorities: bool,
    /// Tenants have a most.
    pub(in crate::reports) caps: bool,
    /// People cancel, delete and create again.
    pub(in crate::reports) people: bool,
    /// Slots, weights and retries are changed while jobs run.
    pub(in crate::reports) edits: bool,
    /// Whatever can end ends before time passes by itself.
    pub(in crate::reports) busy: bool,
}

/// Everything, with a chance of its own for each seed.
pub(in crate::reports) fn any_mood(rng: &mut Rng) -> Mood {
    Mood {
        wrong: rng.chance(70),
        failing: *rng.pick(&[0, 8, 40, 80]).unwrap(),
        priorities: rng.chance(50),
        caps: rng.chance(50),
        people: rng.chance(60),
        edits: rng.chance(30),
        busy: false,
    }
}

/// One queue.
pub(in crate::reports) struct World {
    pub(in crate::reports) rng: Rng,
    pub(in crate::reports) mood: Mood,
    pub(in crate::reports) rules: Rules,
    pub(in crate::reports) now: i64,
    pub(in crate::reports) waiting: Waiting,
    pub(in crate::reports) books: Books,
    /// The ReportJobs that wait: what is durable beside the ledger.
    pub(in crate::reports) durable: BTreeMap<String, WaitingJob>,
    /// End, uid, attempt of what runs.
    running: BinaryHeap<Reverse<(i64, String, i32)>>,
    /// Jobs that run, to try them again.
    admitted: BTreeMap<String, WaitingJob>,
    /// Sum of settlements, and of what retries cost in fact.
    pub(in crate::reports) retry_cost: i64,
    number: usize,
}

impl World {
    pub(in crate::reports) fn new(seed: u64, mood: Mood) -> Self {
        let mut rng = Rng::new(seed);
        let tenants = rng.of(2..=24);
        let rule = |rng: &mut Rng| TenantRule {
            weight: i32::try_from(rng.of(1..=5)).unwrap(),
            max_running: (mood.caps && rng.chance(40))
                .then(|| i32::try_from(rng.of(0..=3)).unwrap()),
        };
        let rules = Rules {
            slots: i32::try_from(rng.of(1..=24)).unwrap(),
            tenants: (0..tenants).map(|n| (format!("t{n:02}"), rule(&mut rng))).collect(),
            ..Rules::default()
        };
        Self {
            rng,
            mood,
            rules,
            now: 1_700_000_000_000,
            waiting: Waiting::new(),
            books: Books::open(&crate::api::Ledger::new()),
            durable: BTreeMap::new(),
            running: BinaryHeap::new(),
            admitted: BTreeMap::new(),
            retry_cost: 0,
            number: 0,
        }
    }

    fn tenant(&mut self) -> String {
        // The first one floods.
        if self.rng.chance(33) {
            return "t00".into();
        }
        let last = u64::try_from(self.rules.tenants.len() - 1).unwrap();
        format!("t{:02}", self.rng.of(0..=last))
    }

    pub(in crate::reports) fn wait(&mut self, job: WaitingJob) {
        self.waiting.upsert(&job);
        self.durable.insert(job.name.clone(), job);
    }

    /// Some jobs are created, up to `most` at once.
    pub(in crate::reports) fn arrivals(&mut self, most: u64) -> Vec<WaitingJob> {
        let mut new = Vec::new();
        for _ in 0..self.rng.of(0..=3) {
            let tenant = self.tenant();
            let many = if tenant == "t00" { self.rng.of(1..=most) } else { 1 };
            for _ in 0..many {
                self.number += 1;
                let charge = i64::try_from(self.rng.of(1_000..=LARGEST.unsigned_abs())).unwrap();
                // The API server's creation times are whole seconds, so names decide often.
                let created = self.now / 1000 * 1000;
                let mut job = job(&format!("j{:05}", self.number), &tenant, created, charge);
                if self.mood.priorities && self.rng.chance(20) {
                    job.priority = i32::try_from(self.rng.of(0..=4)).unwrap() - 2;
                }
                new.push(job.clone());
                self.wait(job);
            }
        }
        new
    }

    /// A person cancels what waits, or deletes what runs and creates it again.
    pub(in crate::reports) fn people(&mut self) {
        if !self.mood.people || !self.rng.chance(10) {
            return;
        }
        let names: Vec<String> = self.durable.keys().cloned().collect();
        if let Some(name) = self.rng.pick(&names).cloned()
            && let Some(job) = self.durable.remove(&name)
        {
            assert!(!self.waiting.remove(&name, "another"));
            assert!(self.waiting.remove(&name, &job.uid));
        }
        let running: Vec<LedgerEntry> = self.books.entries().cloned().collect();
        if let Some(entry) = self.rng.pick(&running)
            && !self.durable.contains_key(&entry.job)
        {
            let mut again = job(&entry.job, &entry.tenant, self.now / 1000 * 1000, 60_000);
            again.uid = format!("{}-again-{}", entry.uid, self.now);
            self.admitted.remove(&entry.uid);
            self.wait(again);
        }
    }

    /// The queue is edited.
    pub(in crate::reports) fn edits(&mut self) {
        if !self.mood.edits || !self.rng.chance(5) {
            return;
        }
        self.rules.slots = i32::try_from(self.rng.of(1..=24)).unwrap();
        self.rules.retries = self.rng.chance(80);
        let names: Vec<String> = self.rules.tenants.keys().cloned().collect();
        if let Some(name) = self.rng.pick(&names) {
            let weight = i32::try_from(self.rng.of(1..=5)).unwrap();
            self.rules.tenants.get_mut(name).unwrap().weight = weight;
        }
    }

    /// Fills the free slots and starts what was admitted.
    pub(in crate::reports) fn admit(&mut self) -> Vec<LedgerEntry> {
        self.waiting.advance(at(self.now));
        let (admitted, left_out) =
            self.books.admit(&self.waiting, &self.rules, at(self.now), run_ref);
        assert_eq!(left_out, []);
        let admitted: Vec<LedgerEntry> = admitted.iter().map(|e| LedgerEntry::clone(e)).collect();
        for entry in &admitted {
            self.start(entry);
        }
        admitted
    }

    fn start(&mut self, entry: &LedgerEntry) {
        assert!(self.waiting.remove(&entry.job, &entry.uid));
        let job = self.durable.remove(&entry.job).unwrap();
        assert_eq!((&job.uid, job.attempt, job.charge), (&entry.uid, entry.attempt, entry.charge));
        assert!(job.not_before.is_none_or(|time| time <= at(self.now)), "before its time");
        let part = if self.mood.wrong { self.rng.of(1..=12) } else { 4 };
        let cost = entry.charge * i64::try_from(part).unwrap() / 4;
        self.running.push(Reverse((self.now + cost, entry.uid.clone(), entry.attempt)));
        self.admitted.insert(entry.uid.clone(), job);
    }

    /// The next run ends, or some time passes. What ended, if something did.
    pub(in crate::reports) fn ends(&mut self) -> Option<LedgerEntry> {
        let full = self.books.used() >= self.rules.slots();
        if !(full || self.mood.busy || self.rng.chance(60)) || self.running.is_empty() {
            self.now += i64::try_from(self.rng.of(1..=100_000)).unwrap();
            return None;
        }
        let Reverse((end, uid, attempt)) = self.running.pop()?;
        let entry = self.books.entry(&uid).cloned().unwrap();
        self.now = self.now.max(end);
        let actual = (end - entry.admitted_time.0.as_millisecond()).max(0);
        if entry.retry {
            self.retry_cost += actual;
        }
        assert!(self.books.settle(&self.rules, &uid, attempt, actual));
        let before = self.books.clone();
        assert!(!self.books.settle(&self.rules, &uid, attempt, actual / 2), "settled twice");
        assert_eq!(self.books, before);
        let again = self.admitted.remove(&uid).filter(|_| attempt < 3);
        let again = again.filter(|_| self.rng.chance(self.mood.failing));
        if !entry.retry {
            self.books.budget.first_ended(again.is_some());
        }
        if let Some(mut job) = again {
            job.attempt += 1;
            job.retry = true;
            let backoff = i64::try_from(self.rng.of(15_000..=60_000)).unwrap();
            job.not_before = Some(at(self.now + backoff));
            self.wait(job);
        }
        Some(entry)
    }

    /// A new leader: everything from durable facts, in an order that has nothing to do with how they
    /// came about.
    pub(in crate::reports) fn restart(&mut self) {
        let ledger = self.books.close();
        let text = serde_json::to_string(&ledger).unwrap();
        self.books = Books::open(&serde_json::from_str(&text).unwrap());
        self.waiting = Waiting::new();
        let mut jobs: Vec<&WaitingJob> = self.durable.values().collect();
        while !jobs.is_empty() {
            let last = u64::try_from(jobs.len() - 1).unwrap();
            let index = usize::try_from(self.rng.of(0..=last)).unwrap();
            self.waiting.upsert(jobs.swap_remove(index));
        }
    }
}
