//! One pass over a queue.

use std::{collections::BTreeSet, mem, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{Controller, Key, State, Term};
use crate::{
    api::{LedgerEntry, ReportJob, ReportQueue},
    authority::{Fenced as _, Permit},
    cluster::{Lookup, ObjectKey},
    providers::Orphans,
    reconcile::{Asking, MAX_ROUNDS, PassError, Promised},
    reports::{
        admission::RunRef,
        drain,
        facts::is_terminal,
        job,
        ledger::Books,
        queue::{self, Plan, Snapshot, Standing, entries, spec, standing},
    },
};

/// Kind, for reports.
pub(super) const KIND: &str = "ReportQueue";

/// How often it is computed anew when waiting jobs are likely to start.
const EXPECT_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

impl Controller {
    pub(super) async fn pass_queue(&self, key: &ObjectKey) -> Result<Option<Timestamp>, PassError> {
        let permit = self.deps.permit()?;
        let found = match self.queues.lookup(key) {
            Lookup::Found(found) => found,
            Lookup::Unreadable(error) => {
                tracing::warn!(%key, %error, "queue cannot be read; nothing of it is decided");
                return Ok(None);
            }
            Lookup::Absent => {
                self.state.lock().terms.remove(key);
                self.look_at_jobs_of(key);
                return Ok(None);
            }
        };
        if !self.deps.may_write(&permit, KIND, &found.metadata, found.fence()).await? {
            return Ok(None);
        }
        // Observe.
        let mut snapshot = self.observe_queue(key, &found, &permit);
        if queue::needs_takeover(&found) {
            snapshot.taken_over = Some(self.take_over(key, &found, &permit).await?);
            // What it found holds slots: this pass waits for it like every later one.
            snapshot.unaccounted = self.unaccounted(key);
        }
        let asking = Asking::begin();
        for _ in 0..MAX_ROUNDS {
            // Decide.
            let now = self.deps.wall.now();
            let plan = {
                let mut state = self.state.lock();
                let State { books, terms, .. } = &mut *state;
                let book = books.entry(key.clone()).or_default();
                book.advance(now);
                let answered = queue::answer(&snapshot, book, now);
                terms.entry(key.clone()).or_default().answered.extend(answered);
                queue::decide(&snapshot, book, now, |name, uid, attempt| {
                    self.describe(key, name, uid, attempt, &snapshot.queue)
                })
            };
            // Act.
            if self.probe(key, &plan, &mut snapshot, &permit, asking).await? {
                continue; // the entries look different now
            }
            let wake_at = plan.wake_at;
            self.record(key, plan, &snapshot, &permit).await?;
            self.look_at_answered(key);
            let expect_at = self.expect_again(key);
            return Ok(wake_at.into_iter().chain(expect_at).min());
        }
        Err(PassError::Restless)
    }

    /// Jobs that were answered say so now.
    fn look_at_answered(&self, key: &ObjectKey) {
        let mut state = self.state.lock();
        let answered = state.terms.get_mut(key).map(|term| mem::take(&mut term.answered));
        drop(state);
        for name in answered.unwrap_or_default() {
            self.queue.add(Key::Job(ObjectKey::new(&key.namespace, name)));
        }
    }

    fn observe_queue(&self, key: &ObjectKey, found: &ReportQueue, permit: &Permit) -> Snapshot {
        let fence = permit.term().fence();
        let entries = entries(found);
        let uid = found.metadata.uid.clone().unwrap_or_default();
        let mut state = self.state.lock();
        let term = state.terms.entry(key.clone()).or_default();
        if term.uid != uid {
            *term = Term { uid, ..Term::default() };
            if !queue::is_sealed(found, &fence) {
                term.unaccounted = entries.iter().map(|entry| entry.uid.clone()).collect();
            }
        }
        let held: BTreeSet<&str> = entries.iter().map(|entry| entry.uid.as_str()).collect();
        term.unaccounted.retain(|uid| held.contains(uid.as_str()));
        let (unaccounted, shown, written) = (term.unaccounted.len(), term.shown, term.written);
        let book = state.books.entry(key.clone()).or_default();
        book.hold(entries);
        drop(state);
        Snapshot {
            queue: found.clone(),
            standings: entries.iter().map(|entry| self.standing(key, entry)).collect(),
            over: BTreeSet::new(),
            taken_over: None,
            unaccounted,
            shown,
            written,
            fence,
        }
    }

    fn standing(&self, queue: &ObjectKey, entry: &LedgerEntry) -> Standing {
        let key = ObjectKey::new(&queue.namespace, &entry.job);
        match self.jobs.lookup(&key) {
            Lookup::Found(job) => standing(entry, Some(&job)),
            Lookup::Unreadable(_) => Standing::Open,
            Lookup::Absent => Standing::Gone,
        }
    }

    /// What runs for a job, if the job is known.
    fn describe(
        &self,
        queue_key: &ObjectKey,
        name: &str,
        uid: &str,
        attempt: i32,
        queue: &ReportQueue,
    ) -> Option<RunRef> {
        let found = self.jobs.get(&ObjectKey::new(&queue_key.namespace, name))?;
        let found = found.as_ref();
        if found.metadata.uid.as_deref() != Some(uid) {
            return None;
        }
        if spec::refuses_own_run(&queue.spec, found).is_some() {
            return None; // its own pass rejects it
        }
        let template = queue.spec.run_template.as_ref();
        let run = job::run_in_force(found, template).ok()?;
        Some(RunRef {
            run_key: job::work(found, template).attempts.key(attempt),
            action_class: run.report_class(),
            http: run.http.clone(),
        })
    }

    /// Looks after entries whose job is not known, for a bounded time. Says whether the snapshot changed.
    async fn probe(
        &self,
        key: &ObjectKey,
        plan: &Plan,
        snapshot: &mut Snapshot,
        permit: &Permit,
        asking: Asking,
    ) -> Result<bool, PassError> {
        let mut changed = false;
        for entry in self.departures.in_turn(key, &plan.probe, |entry| &entry.uid) {
            if snapshot.over.contains(&entry.uid) {
                continue;
            }
            if !self.departures.goes_on(key, asking, &entry.uid) {
                return Ok(changed);
            }
            changed |= self.probe_entry(key, entry, snapshot, permit).await?;
        }
        self.departures.all_asked(key);
        Ok(changed)
    }

    async fn probe_entry(
        &self,
        key: &ObjectKey,
        entry: &LedgerEntry,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<bool, PassError> {
        let name = ObjectKey::new(&key.namespace, &entry.job);
        let live: Option<ReportJob> = self.deps.reader.get(&name).await.map_err(PassError::Read)?;
        if let Some(live) = live {
            let stands = standing(entry, Some(&live)) != Standing::Gone;
            self.jobs.observe(live);
            if stands {
                self.queue.add(Key::Queue(key.clone()));
                self.queue.add(Key::Job(name));
                return Ok(false);
            }
        }
        let promised = Promised {
            class: entry.action_class,
            run_key: &entry.run_key,
            http: entry.http.as_ref(),
        };
        let (namespace, uid) = (&key.namespace, &entry.uid);
        let stopped =
            self.departures.stop(&self.deps, permit, namespace, uid, Some(promised)).await;
        match stopped {
            Ok(Orphans::Over) => {
                self.account_for(key, &entry.uid);
                snapshot.over.insert(entry.uid.clone());
                snapshot.unaccounted = self.unaccounted(key);
                Ok(true)
            }
            Ok(Orphans::NotYet { message }) => {
                tracing::debug!(%key, uid = entry.uid, message, "a deleted job's runs are not over");
                // The provider has answered; its slot stays held.
                let changed = self.account_for(key, &entry.uid);
                snapshot.unaccounted = self.unaccounted(key);
                Ok(changed)
            }
            Err(error) => {
                tracing::debug!(%key, uid = entry.uid, %error, "cannot tell whether runs are over");
                Ok(false)
            }
        }
    }

    fn unaccounted(&self, key: &ObjectKey) -> usize {
        self.state.lock().terms.get(key).map_or(0, |term| term.unaccounted.len())
    }

    /// An entry that this leader found is accounted for. Says whether that is news.
    pub(super) fn account_for(&self, key: &ObjectKey, uid: &str) -> bool {
        let mut state = self.state.lock();
        let news = state.terms.get_mut(key).is_some_and(|term| term.unaccounted.remove(uid));
        drop(state);
        if news {
            self.queue.add(Key::Queue(key.clone()));
        }
        news
    }

    /// Writes the decision, and makes what it admits due.
    async fn record(
        &self,
        key: &ObjectKey,
        plan: Plan,
        snapshot: &Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        for (name, why) in &plan.left_out {
            tracing::debug!(%key, name, ?why, "its turn came, but it cannot be admitted now");
        }
        let Some(status) = plan.status else { return Ok(()) };
        let mut next = snapshot.queue.clone();
        next.status = Some(status);
        let stored = self.deps.write_status(permit, &self.queues, &snapshot.queue, next).await?;
        let now = self.deps.wall.now();
        {
            let mut state = self.state.lock();
            if let Some(term) = state.terms.get_mut(key) {
                (term.shown, term.written) = (Some(now), Some(now));
            }
            if let Some(book) = state.books.get_mut(key) {
                book.hold(entries(&stored));
            }
        }
        let sealed_now = !queue::is_sealed(&snapshot.queue, &snapshot.fence);
        self.deps.note(KIND, key, stored.metadata.uid.as_deref(), &plan.notes);
        if sealed_now {
            self.look_at_jobs_of(key); // they waited for the seal
        }
        for entry in &plan.admitted {
            self.queue.add(Key::Job(ObjectKey::new(&key.namespace, &entry.job)));
        }
        Ok(())
    }

    /// The open jobs of a queue get another look.
    pub(super) fn look_at_jobs_of(&self, key: &ObjectKey) {
        for job in self.jobs.by_index(&key.to_string()) {
            if !is_terminal(&job) {
                self.queue.add(Key::Job(ObjectKey::of(&job.metadata)));
            }
        }
    }

    /// While jobs wait, it is computed anew once in a while when they start. Gives when.
    fn expect_again(&self, key: &ObjectKey) -> Option<Timestamp> {
        let found = self.queues.get(key)?;
        let now = self.deps.wall.now();
        if self.state.lock().books.get(key)?.waiting().is_empty() {
            return None;
        }
        self.expect_starts(key, &found, now);
        let expected = self.state.lock().terms.get(key)?.expected?;
        expected.checked_add(EXPECT_INTERVAL).ok()
    }

    /// When waiting jobs are likely to start, computed once in a while. Those to whom it makes a
    /// difference are told.
    fn expect_starts(&self, key: &ObjectKey, queue: &ReportQueue, now: Timestamp) {
        let Some(ledger) = queue::ledger(queue) else { return };
        let mut state = self.state.lock();
        let Some(term) = state.terms.get_mut(key) else { return };
        if term.expected.is_some_and(|at| now.duration_since(at) < EXPECT_INTERVAL) {
            return;
        }
        term.expected = Some(now);
        let paused = !term.unaccounted.is_empty();
        let Some(book) = state.books.get_mut(key) else { return };
        let rules = spec::rules(&queue.spec, paused, now);
        let starts = drain::starts(&Books::open(ledger), book.waiting(), &rules, now);
        let names: Vec<_> = starts.iter().map(|(name, start)| (Arc::clone(name), *start)).collect();
        book.foresee(starts);
        drop(state);
        for (name, start) in names {
            let job = ObjectKey::new(&key.namespace, name.as_ref());
            let status = self.jobs.get(&job).and_then(|job| job.status.clone());
            // A job without a state is about to be answered, and told then.
            let Some(status) = status.filter(|status| status.state.is_some()) else { continue };
            if drain::moved(status.estimated_start_time.map(|at| at.0), start.at, now) {
                self.queue.add(Key::Job(job));
            }
        }
    }
}
