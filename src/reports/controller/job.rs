//! One pass over a report job.

use jiff::{SignedDuration, Timestamp};

use super::{
    Controller, Key,
    late::LateAsks,
    queue_key,
    recovery::orphan_key,
    schedule::{Claimed, schedule_key},
};
use crate::{
    api::{ReportJob, ReportJobStatus, ReportQueue, ReportState, RunSpec},
    authority::{Fenced as _, NotLeading, Permit, Sealed},
    cluster::{Lookup, ObjectKey},
    providers::{Committed, OfQueue, ProviderError, RunRequest},
    reconcile::{MAX_ROUNDS, PassError},
    reports::{
        admission::Why,
        drain,
        facts::{attempts, is_terminal, kept_until},
        job::{self, Decision, Place, Snapshot, Standing, Step},
        queue::{self, Answer, spec},
    },
    runs::{
        Heard, Note,
        hands::{self, AttemptOf, Hands},
        open_attempt,
    },
    schedules::hands::{prune, seal},
    time::IntendedTime,
};

/// Kind, for reports.
pub(super) const KIND: &str = "ReportJob";

/// When a record is looked at again that is old by a clock that is not trusted.
const WRONG_CLOCK_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// How the job stands, and the queue as this term owns it if that says so.
struct Observed {
    standing: Standing,
    queue: Option<Sealed<ReportQueue>>,
    queue_run: Option<RunSpec>,
    place: Option<Place>,
}

impl Controller {
    pub(super) async fn pass_job(&self, key: &ObjectKey) -> Result<Option<Timestamp>, PassError> {
        let _pass = self.deps.pass().await;
        let permit = self.deps.permit()?;
        let report = match self.jobs.lookup(key) {
            Lookup::Found(report) => report,
            Lookup::Unreadable(error) => {
                tracing::warn!(%key, %error, "report job cannot be read; nothing of it is decided");
                return Ok(None);
            }
            Lookup::Absent => return Ok(None),
        };
        if report.metadata.deletion_timestamp.is_some() {
            self.queue.add(orphan_key(&report));
            return Ok(None);
        }
        let uid = report.metadata.uid.as_deref();
        if !self.deps.may_write(&permit, KIND, &report.metadata, report.fence()).await? {
            self.deps.recovery.left_alone(uid, "ForeignFence", "it carries a foreign fence");
            self.account_for(&queue_key(&report), uid.unwrap_or_default());
            return Ok(None);
        }
        // Observe.
        let observed = self.observe_job(key, &report, &permit).await?;
        let mut snapshot = Snapshot {
            job: report.as_ref().clone(),
            standing: observed.standing,
            queue_run: observed.queue_run,
            place: observed.place,
            late: Vec::new(),
            heard: Heard::default(),
            told: self.state.lock().runs.told(key),
            trust_clock: (self.deps.may_create)().is_ok(),
            fence: permit.term().fence(),
        };
        let mut late = LateAsks::of(&snapshot);
        for _ in 0..MAX_ROUNDS {
            self.ask_late(key, &mut late, &mut snapshot, &permit).await?;
            // Decide.
            let decision = job::decide(&snapshot, self.deps.wall.now());
            let Decision { step, wake_at, notes } = decision;
            // Act.
            if step == Step::Wait {
                if self.must_seal(&snapshot) {
                    let status = snapshot.job.status.clone().unwrap_or_default();
                    self.write_job(status, &mut snapshot, &permit).await?;
                    continue;
                }
                self.at_rest(&snapshot);
                self.note_job(key, &mut snapshot, &notes);
                if is_terminal(&snapshot.job) {
                    return self.pass_record(&snapshot.job, &permit).await;
                }
                let again = late.again(self.deps.wall.now());
                return Ok(wake_at.into_iter().chain(again).min());
            }
            self.take_step(key, step, &mut snapshot, observed.queue.as_ref(), &permit).await?;
            self.note_job(key, &mut snapshot, &notes);
        }
        Err(PassError::Restless)
    }

    /// Whether the job holds a slot that this leader found taken, and is not sealed: an earlier term
    /// could still write it, so its queue stays closed until it is.
    fn must_seal(&self, snapshot: &Snapshot) -> bool {
        let report = &snapshot.job;
        let uid = report.metadata.uid.as_deref().unwrap_or_default();
        let sealed = report.fence() == Some(&snapshot.fence);
        let state = self.state.lock();
        let term = state.terms.get(&queue_key(report));
        !sealed && !is_terminal(report) && term.is_some_and(|term| term.unaccounted.contains(uid))
    }

    /// What is learnt of a job that came to rest: its entry is accounted for once it was sealed in
    /// this term and its provider was asked, or once nobody answered for so long that it is
    /// Unresolved.
    fn at_rest(&self, snapshot: &Snapshot) {
        let report = &snapshot.job;
        self.deps.recovery.rested(report);
        let sealed = report.fence() == Some(&snapshot.fence);
        let over = is_terminal(report);
        let open = open_attempt(attempts(report)).is_some();
        let unresolved =
            report.status.as_ref().and_then(|status| status.state) == Some(ReportState::Unresolved);
        let asked = match &snapshot.heard.answer {
            Some(Ok(_)) => true,
            Some(Err(ProviderError::Unreachable(_))) => unresolved,
            Some(Err(ProviderError::Conflict(_) | ProviderError::NotLeading)) | None => false,
        };
        if over || (sealed && (asked || !open)) {
            let uid = report.metadata.uid.as_deref().unwrap_or_default();
            self.account_for(&queue_key(report), uid);
        }
    }

    /// Tells people; what is ignored in the spec is told once for each change of it.
    fn note_job(&self, key: &ObjectKey, snapshot: &mut Snapshot, notes: &[Note]) {
        self.heard_late(key, snapshot);
        let meta = &snapshot.job.metadata;
        self.deps.note(KIND, key, meta.uid.as_deref(), notes);
        if let Some(generation) = meta.generation
            && notes.iter().any(crate::runs::is_about_ignored)
        {
            snapshot.told = Some(generation);
            self.state.lock().runs.tell(key, generation);
        }
    }

    /// A finished job is removed after a time. Gives the moment of the next look.
    async fn pass_record(
        &self,
        record: &ReportJob,
        permit: &Permit,
    ) -> Result<Option<Timestamp>, PassError> {
        if let Some(schedule) = schedule_key(record)
            && !matches!(self.schedules.lookup(&schedule), Lookup::Absent)
        {
            return Ok(None); // its schedule looks after it
        }
        let queue = self.queues.get(&queue_key(record));
        let Some(until) = kept_until(record, queue.as_deref()) else { return Ok(None) };
        let now = self.deps.wall.now();
        if now < until {
            return Ok(Some(until));
        }
        if (self.deps.may_create)().is_err() {
            return Ok(now.checked_add(WRONG_CLOCK_INTERVAL).ok());
        }
        prune(&self.deps, record, "removed by the retention of its queue", permit).await?;
        Ok(None)
    }

    /// How the job stands with its queue.
    async fn observe_job(
        &self,
        key: &ObjectKey,
        report: &ReportJob,
        permit: &Permit,
    ) -> Result<Observed, PassError> {
        let nothing = |standing| Observed { standing, queue: None, queue_run: None, place: None };
        if is_terminal(report) {
            return Ok(nothing(Standing::Undecided));
        }
        match self.claimed(report, permit).await? {
            Claimed::Started => {}
            Claimed::Undecided => return Ok(nothing(Standing::Undecided)),
            Claimed::LeftAlone => {
                self.seal_slot_holder(report, permit).await?;
                return Ok(nothing(Standing::Undecided));
            }
            Claimed::Ghost => return Ok(nothing(Standing::Ghost)),
            Claimed::ScheduleGone => return Ok(nothing(Standing::ScheduleGone)),
        }
        let of = queue_key(report);
        let found = match self.queues.lookup(&of) {
            Lookup::Found(found) => found,
            Lookup::Unreadable(_) => return Ok(nothing(Standing::Undecided)),
            Lookup::Absent => {
                let live: Option<ReportQueue> =
                    self.deps.reader.get(&of).await.map_err(PassError::Read)?;
                let Some(live) = live else { return Ok(nothing(Standing::QueueNotFound)) };
                self.queues.observe(live);
                self.queue.add(Key::Queue(of));
                return Ok(nothing(Standing::Undecided));
            }
        };
        let queue_run = found.spec.run_template.clone();
        if !queue::is_sealed(&found, &permit.term().fence()) {
            // Nobody may start by what an earlier term has written; the queue is sealed first.
            self.queue.add(Key::Queue(of));
            return Ok(Observed { queue_run, ..nothing(Standing::Undecided) });
        }
        let uid = report.metadata.uid.as_deref().unwrap_or_default();
        let Some(entry) = queue::entry(&found, uid) else {
            let (standing, place) = self.waits(key, &of, &found, report);
            return Ok(Observed { standing, queue: None, queue_run, place });
        };
        let standing = Standing::Admitted { attempt: entry.attempt };
        // Copied only here: the ledger is large, and most jobs wait.
        let queue = Sealed::of(permit, found.as_ref().clone()).ok();
        Ok(Observed { standing, queue, queue_run, place: None })
    }

    /// Seals a job that holds a slot and has nothing committed, so that no earlier term commits
    /// anything any more: its schedule will not say how it stands, and its queue waits for that.
    async fn seal_slot_holder(&self, report: &ReportJob, permit: &Permit) -> Result<(), PassError> {
        let uid = report.metadata.uid.as_deref().unwrap_or_default();
        let idle = open_attempt(attempts(report)).is_none();
        let holds = {
            let state = self.state.lock();
            state.books.get(&queue_key(report)).is_some_and(|book| book.holds_slot(uid))
        };
        if idle && holds && report.fence() != Some(&permit.term().fence()) {
            let sealed = seal(&self.deps, report.clone(), permit).await?;
            self.jobs.observe(sealed.into_inner());
        }
        Ok(())
    }

    /// How a job stands that has no entry.
    fn waits(
        &self,
        key: &ObjectKey,
        of: &ObjectKey,
        found: &ReportQueue,
        report: &ReportJob,
    ) -> (Standing, Option<Place>) {
        let now = self.deps.wall.now();
        let uid = report.metadata.uid.as_deref().unwrap_or_default();
        let mut state = self.state.lock();
        let paused = state.terms.get(of).is_some_and(|term| !term.unaccounted.is_empty());
        let Some(book) = state.books.get_mut(of) else { return (Standing::Undecided, None) };
        // A job and its queue wake in the moment in which a retry may start, in any order: what keeps
        // it from starting is said by whoever is first.
        book.advance(now);
        let recorded = report.status.as_ref().is_some_and(|status| status.state.is_some());
        match book.answer(&key.name, uid) {
            Some(Answer::Rejected { reason, message, retry_after }) => {
                let (message, retry_after) = (message.clone(), Some(*retry_after));
                return (Standing::Rejected { reason, message, retry_after }, None);
            }
            None if !recorded => return (Standing::Undecided, None),
            Some(Answer::Accepted) | None => {}
        }
        if let Some(why) = spec::refuses_own_run(&found.spec, report) {
            let (reason, message) = (job::UNSATISFIABLE, why.to_owned());
            return (Standing::Rejected { reason, message, retry_after: None }, None);
        }
        let (reason, message) = words(book.explain(found, paused, now, &key.name));
        let place = book.start(&key.name).and_then(|start| {
            let written = report.status.as_ref().and_then(|s| s.estimated_start_time).map(|t| t.0);
            drain::moved(written, start.at, now).then(|| Place {
                position: Some(start.position.to_string()),
                estimated_start: Some(drain::whole(start.at)),
            })
        });
        (Standing::Accepted { reason, message }, place)
    }

    async fn take_step(
        &self,
        key: &ObjectKey,
        step: Step,
        snapshot: &mut Snapshot,
        queue: Option<&Sealed<ReportQueue>>,
        permit: &Permit,
    ) -> Result<(), PassError> {
        match step {
            Step::Wait => {}
            Step::Write(status) => self.write_job(*status, snapshot, permit).await?,
            Step::Prepare { attempt, run } => {
                let request = run_request(snapshot, attempt, *run, permit);
                // Only the ledger of a queue that this term has sealed lets something begin.
                let Some(queue) = queue else { return Err(NotLeading.into()) };
                let answer = self.hands(permit).prepare(queue, &request).await?;
                snapshot.heard.prepared = Some(answer);
            }
            Step::Withdraw { attempt, run } => {
                // Decided in an object of this term: the decision seals it first.
                sealed(permit, &snapshot.job)?;
                let request = run_request(snapshot, attempt, *run, permit);
                snapshot.heard.withdrawn = Some(self.hands(permit).withdraw(&request).await?);
            }
            Step::Release { attempt } => self.release(attempt, snapshot, permit).await?,
            Step::Ask { attempt } => self.ask(key, attempt, snapshot, permit).await?,
            Step::Cancel { attempt, recorded } => {
                // The wish is recorded in an object of this term: the decision seals it first.
                sealed(permit, &snapshot.job)?;
                let request = request_of(snapshot, attempt, permit);
                let known = committed(&snapshot.job);
                self.hands(permit).cancel(key, &request, &known, recorded).await?;
                snapshot.heard.cancelled = true;
                snapshot.heard.answer = None;
            }
        }
        Ok(())
    }

    pub(super) fn hands<'a>(&'a self, permit: &'a Permit) -> Hands<'a> {
        Hands { providers: &self.deps.providers, recovery: &self.deps.recovery, permit }
    }

    async fn write_job(
        &self,
        status: ReportJobStatus,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        let mut next = snapshot.job.clone();
        next.status = Some(status);
        let stored = self.deps.write_status(permit, &self.jobs, &snapshot.job, next).await?;
        if is_terminal(&stored) {
            let uid = stored.metadata.uid.as_deref().unwrap_or_default();
            if self.deps.ended_with(uid, attempts(&stored)) {
                self.queue.add(orphan_key(&stored));
            }
        }
        snapshot.go_on_with(stored);
        Ok(())
    }

    async fn release(
        &self,
        attempt: i32,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        let sealed = sealed(permit, &snapshot.job)?;
        let request = request_of(snapshot, attempt, permit);
        let handle = committed(&snapshot.job).handle.unwrap_or_default();
        let answer = self.hands(permit).release(&sealed, &request, &handle).await?;
        if answer.is_ok() {
            let due = snapshot.job.spec.intended_time.map(IntendedTime::timestamp);
            self.deps.released(KIND, &snapshot.job.metadata, attempt, due);
        }
        snapshot.heard.answer = Some(answer);
        Ok(())
    }

    async fn ask(
        &self,
        key: &ObjectKey,
        attempt: i32,
        snapshot: &mut Snapshot,
        permit: &Permit,
    ) -> Result<(), PassError> {
        let request = request_of(snapshot, attempt, permit);
        let known = committed(&snapshot.job);
        let uid = snapshot.job.metadata.uid.as_deref();
        let answer = self.hands(permit).ask(uid, &request, &known).await?;
        let now = || self.deps.wall.now();
        snapshot.heard.unreachable_since = self.state.lock().runs.learn(key, &answer, now);
        snapshot.heard.answer = Some(answer);
        Ok(())
    }
}

/// Why a job waits, as its status says it. What holds for a whole queue is no reason of a job: each
/// change of it would be a write of every job.
fn words(why: Option<Why>) -> (&'static str, String) {
    match why {
        Some(
            why @ (Why::NameTaken
            | Why::RetriesDisabled
            | Why::RetryBudgetExhausted
            | Why::TenantBarred
            | Why::TenantLimit),
        ) => (why.reason(), why.to_string()),
        _ => (job::WAITING, "it waits for a slot of its queue".to_owned()),
    }
}

/// The job as this term owns it. The decision asks for the seal first, so this only fails if
/// leadership changed hands in between.
fn sealed(permit: &Permit, report: &ReportJob) -> Result<Sealed<ReportJob>, PassError> {
    Sealed::of(permit, report.clone()).map_err(|_| NotLeading.into())
}

/// What is recorded of the newest attempt.
fn committed(report: &ReportJob) -> Committed {
    hands::committed(attempts(report)).pop().unwrap_or_default()
}

/// What is recorded of one attempt.
pub(super) fn committed_of(report: &ReportJob, attempt: i32) -> Committed {
    let of = attempts(report).iter().filter(|known| known.number == attempt).cloned();
    hands::committed(&of.collect::<Vec<_>>()).pop().unwrap_or_default()
}

/// The request of a committed attempt: its run is the one that was sealed.
pub(super) fn request_of(snapshot: &Snapshot, attempt: i32, permit: &Permit) -> RunRequest {
    let run = snapshot.job.status.as_ref().and_then(|s| s.run.clone()).unwrap_or_default();
    run_request(snapshot, attempt, run, permit)
}

fn run_request(snapshot: &Snapshot, attempt: i32, run: RunSpec, permit: &Permit) -> RunRequest {
    let report = &snapshot.job;
    let of = AttemptOf {
        work: &job::work(report, snapshot.queue_run.as_ref()),
        attempt,
        class: run.report_class(),
        run,
        intended_time: report.spec.intended_time,
    };
    let mut request = hands::request(hands::parent(report), of, permit);
    request.queue =
        Some(OfQueue { name: report.spec.queue_name.clone(), tenant: report.spec.tenant.clone() });
    request
}
