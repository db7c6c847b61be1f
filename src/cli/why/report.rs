//! Why a report job is as it is.

use jiff::{SignedDuration, Timestamp};

use super::{
    answer::{Answer, second, span},
    commands::Target,
    events,
    occurrence::{REMOVE_THE_CAUSE, finished, say_not_prepared, say_why, tried_again},
    queue::tell_when_it_opens,
    run::Run,
    snapshot::{Snapshot, known},
    terms::{Terms, created_by, explain_no_leader},
    waiting::Line,
    words,
};
use crate::{
    api::{LedgerEntry, ReportJob, ReportJobStatus, ReportQueue, ReportState, RunSpec},
    reports::{job::queue_deadline, queue},
    runs::{CREATE_REFUSED, PREPARE_PATIENCE, conditions},
};

/// Explains a report job that could be read.
pub(super) fn explain(snapshot: &Snapshot, report: &ReportJob, answer: &mut Answer) {
    let status = report.status.clone().unwrap_or_default();
    let queue: Option<ReportQueue> = known(snapshot.queue.as_ref());
    let terms = Terms::of(snapshot);
    let target = Target::new(answer.object.clone(), &answer.namespace);
    let view = View { snapshot, report, status: &status, queue, terms, target };
    view.story(answer);
    view.state(answer);
    events::explain_fenced_write(answer, snapshot);
    if report.metadata.deletion_timestamp.is_some() {
        answer.because("It is being deleted. Deleting a report is a cancel: its slot stays taken until its run is proven over.");
    }
}

struct View<'a> {
    snapshot: &'a Snapshot,
    report: &'a ReportJob,
    status: &'a ReportJobStatus,
    queue: Option<ReportQueue>,
    terms: Terms,
    target: Target,
}

impl View<'_> {
    fn run(&self) -> Run<'_> {
        let run = self.run_in_force();
        Run {
            target: &self.target,
            uid: self.uid(),
            attempts: &self.status.attempts,
            class: run.map_or(crate::api::ActionClass::Idempotent, RunSpec::report_class),
            spec: run,
            conditions: &self.status.conditions,
            due: None,
            cancel: self.report.spec.cancel,
            resolution: self.report.spec.resolution.as_ref(),
            reason: self.reason(),
            message: self.message(),
        }
    }

    fn run_in_force(&self) -> Option<&RunSpec> {
        let of_queue = self.queue.as_ref().and_then(|queue| queue.spec.run_template.as_ref());
        self.status.run.as_ref().or(self.report.spec.run.as_deref()).or(of_queue)
    }

    fn uid(&self) -> &str {
        self.report.metadata.uid.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.report.metadata.name.as_deref().unwrap_or_default()
    }

    fn tenant(&self) -> &str {
        &self.report.spec.tenant
    }

    fn reason(&self) -> &str {
        self.status.reason.as_deref().unwrap_or_default()
    }

    fn message(&self) -> &str {
        self.status.message.as_deref().unwrap_or_default()
    }

    fn queue_target(&self) -> Target {
        Target::new(format!("rqueue/{}", self.report.spec.queue_name), &self.target.namespace)
    }

    fn story(&self, answer: &mut Answer) {
        let object = self.snapshot.object.as_ref();
        let created = self.report.metadata.creation_timestamp.as_ref().map(|at| at.0);
        let spec = &self.report.spec;
        let (by, epoch) = match &spec.schedule_name {
            Some(schedule) => (
                format!("by the operator for an instant of rsched/{schedule}"),
                object.and_then(created_by),
            ),
            None => ("by a client".to_owned(), None),
        };
        let (queue, tenant) = (&spec.queue_name, self.tenant());
        let what = format!("created {by}, for tenant {tenant} in rqueue/{queue}");
        answer.happened(created, what, epoch);
        let entry = self.queue.as_ref().and_then(|of| queue::entry(of, self.uid()));
        if let Some(entry) = entry {
            let n = entry.attempt;
            let what =
                format!("admitted: attempt {n} has a slot, recorded in the ledger of its queue");
            answer.happened(Some(entry.admitted_time.0), what, None);
        }
        self.run().tell(answer, &self.terms);
        if let Some(artifact) = &self.status.artifact {
            let what = format!(
                "the artifact of attempt {} was accepted: {}",
                artifact.attempt, artifact.uri
            );
            answer.happened(Some(artifact.accepted_time.0), what, None);
        }
        let over = finished(&self.status.conditions);
        if let (Some(at), Some(state)) = (over, self.status.state) {
            answer.happened(Some(at), format!("ended: {state:?} ({})", self.reason()), None);
        }
        let until = over.unwrap_or(self.snapshot.now);
        events::end_story(answer, self.snapshot, &self.terms, created, until);
    }

    fn state(&self, answer: &mut Answer) {
        let Some(state) = self.status.state else {
            answer.stands("New", None, self.how_it_waits("Its queue has not answered it yet."));
            return self.queued(answer);
        };
        let summary = match state {
            ReportState::Queued => {
                self.how_it_waits("It waits; it is accepted, and that is a promise.")
            }
            ReportState::Admitted => "It has a slot and is about to start.",
            ReportState::Running => "It is running.",
            ReportState::Cancelling => {
                "It is being stopped; its slot stays taken until that is confirmed."
            }
            ReportState::Unresolved => "Nobody knows whether it is done.",
            ReportState::Succeeded => "It is done.",
            ReportState::Failed => "It failed, and is not tried again.",
            ReportState::Cancelled => "It was cancelled.",
            ReportState::Rejected => {
                "Its queue did not take it. Nothing ran, and nothing was promised."
            }
        };
        answer.stands(format!("{state:?}"), Some(self.reason()), summary);
        match state {
            ReportState::Queued => self.queued(answer),
            ReportState::Admitted | ReportState::Running => self.acting(answer),
            ReportState::Cancelling => {
                say_why(answer, self.reason(), self.message());
                answer.then(None, "It is asked every 2 seconds whether it is over; then it is Cancelled and its slot is free.");
            }
            ReportState::Unresolved => self.run().explain_unresolved(
                answer,
                "It keeps its slot meanwhile: if it still runs, another one in its place would be one too many.",
            ),
            ReportState::Rejected => self.rejected(answer),
            ReportState::Succeeded | ReportState::Failed | ReportState::Cancelled => self.over(answer, state),
        }
    }

    /// Where it stands before its next attempt, in a sentence; without a slot, the one that is given.
    fn how_it_waits(&self, without_slot: &'static str) -> &'static str {
        match self.slot() {
            None => without_slot,
            Some(_) if self.report.spec.cancel => "It has a slot and is about to be cancelled.",
            Some(_) if words::not_prepared(self.reason()).is_some() => {
                "It has a slot, and what runs it cannot be prepared for now."
            }
            Some(_) => "It has a slot and is about to start.",
        }
    }

    /// The slot that it holds for the attempt that is to start next, if its queue gave it one.
    fn slot(&self) -> Option<&LedgerEntry> {
        let entry = queue::entry(self.queue.as_ref()?, self.uid())?;
        let newest = self.status.attempts.last().map_or(0, |attempt| attempt.number);
        // One of an attempt that is over is about to be settled, and lets nothing start.
        (entry.attempt > newest).then_some(entry)
    }

    fn queued(&self, answer: &mut Answer) {
        let slot = self.slot();
        if self.report.spec.cancel {
            self.cancelled_before_start(answer);
        } else if let Some(slot) = slot {
            self.about_to_start(answer, slot);
        } else if let Some(queue) = &self.queue {
            let mut line = Line::new(queue.clone(), &self.jobs(), self.snapshot.now);
            line.explain(answer, self.name(), self.tenant());
        } else {
            self.without_queue(answer);
        }
        if slot.is_none() && !self.status.attempts.is_empty() {
            say_why(answer, self.reason(), self.message());
        }
        let never_admitted = slot.is_none() && self.status.attempts.is_empty();
        if let Some(deadline) = queue_deadline(self.report).filter(|_| never_admitted) {
            answer.then(
                Some(deadline),
                "If it has not been admitted by then it ends Failed (spec.queueDeadlineSeconds).",
            );
        }
        explain_no_leader(answer, self.snapshot);
        if !self.report.spec.cancel {
            let free = match slot {
                None => "its place is free at once",
                Some(_) if self.may_have_been_asked_for() => {
                    "its slot is free once the service confirms that nothing of it runs"
                }
                Some(_) => "its slot is free at once",
            };
            let when = format!("If it is not wanted any more ({free})");
            answer.can(when, self.target.cancel());
        }
    }

    /// Whether a service may have been asked for the attempt that is to start next. One that cannot
    /// hold runs what it is asked to prepare, so that nobody knows that nothing runs.
    fn may_have_been_asked_for(&self) -> bool {
        self.slot().is_some() && self.run_in_force().is_some_and(|run| run.http.is_some())
    }

    fn cancelled_before_start(&self, answer: &mut Answer) {
        if self.may_have_been_asked_for() {
            answer.because("A person asked to cancel it. The service may have been asked to run it, so its slot stays taken until the service confirms that nothing of it runs.");
            if words::not_prepared(self.reason()).is_some() {
                say_not_prepared(answer, self.reason(), self.message());
            }
            answer.then(None, "It is Cancelled as soon as the service confirms that.");
        } else {
            answer.because("A person asked to cancel it, and nothing of it runs.");
            answer.then(None, "It is Cancelled as soon as a leader looks.");
        }
    }

    /// It holds its slot already: nobody is before it, and nothing of it is committed.
    fn about_to_start(&self, answer: &mut Answer, slot: &LedgerEntry) {
        let since = span(self.snapshot.now.duration_since(slot.admitted_time.0));
        answer.because(format!(
            "The ledger of its queue has an entry for attempt {}: that entry is its slot. It has held it for {since}, and nobody else gets it meanwhile.",
            slot.attempt
        ));
        if words::not_prepared(self.reason()).is_none() {
            answer.then(None, "It is prepared and started, within a second.");
            return;
        }
        say_not_prepared(answer, self.reason(), self.message());
        answer.then(None, tried_again());
        let since = conditions::refused_since(&self.status.conditions);
        if let Some(since) = since.filter(|_| self.reason() == CREATE_REFUSED)
            && let Ok(end) = since.checked_add(PREPARE_PATIENCE)
        {
            let what = "If it is still refused by then, it ends Failed (CreateRefused).";
            answer.then(Some(end), what);
        }
        answer.can_do(REMOVE_THE_CAUSE);
    }

    /// The jobs of the queue, this one among them.
    fn jobs(&self) -> Vec<serde_json::Value> {
        let mut jobs = self.snapshot.others.clone();
        let there =
            jobs.iter().any(|job| super::snapshot::text(job, "/metadata/name") == self.name());
        if let (false, Some(own)) = (there, &self.snapshot.object) {
            jobs.push(own.clone());
        }
        jobs
    }

    fn without_queue(&self, answer: &mut Answer) {
        let name = &self.report.spec.queue_name;
        if self.snapshot.queue.is_some() {
            answer.because(format!("ReportQueue {name:?} exists but cannot be read by this version; nothing of it is decided."));
            answer.can("To look at it", self.queue_target().show());
            return;
        }
        if self.snapshot.not_read.is_empty() {
            answer.because(format!(
                "There is no ReportQueue {name:?} in namespace {}.",
                self.target.namespace
            ));
        }
        answer.then(
            None,
            "It waits until the queue exists; then it is accepted or rejected like any other.",
        );
        answer.can_do(format!("Create ReportQueue {name:?}, or cancel this report."));
    }

    fn acting(&self, answer: &mut Answer) {
        answer.because("The ledger of its queue has an entry for this very attempt: that entry is its slot, and what lets it start.");
        if self.status.state == Some(ReportState::Admitted) || !self.message().is_empty() {
            say_why(answer, self.reason(), self.message());
        }
        self.run().explain_running(answer, self.snapshot.now);
        if self.run_in_force().is_some_and(|run| run.job.is_some()) {
            answer.can("To see what it prints", self.target.logs());
        }
        answer.can("To stop it (cannot be taken back)", self.target.cancel());
    }

    fn rejected(&self, answer: &mut Answer) {
        let message = self.message().trim_end_matches('.');
        if !message.is_empty() {
            answer.because(format!("{}: {message}.", self.reason()));
        }
        let limits = self.queue.as_ref().map(|queue| &queue.spec.limits);
        let number = |which: fn(&crate::api::QueueLimits) -> i32| limits.map(which);
        match self.reason() {
            "QueueFull" => self.full(answer, "limits.queued", number(|l| l.queued)),
            "TenantQueueFull" => self.full(answer, "limits.queuedPerTenant", number(|l| l.queued_per_tenant)),
            "QueueClosed" => {
                answer.because("The queue is closed (spec.admission: Closed): what waits in it still runs, nothing new is taken.");
                if let Some(queue) = &self.queue {
                    tell_when_it_opens(answer, &queue.spec, self.snapshot.now);
                }
                answer.can("To open the queue", self.queue_target().resume());
            }
            "Unsatisfiable" => answer.because("It could never run as it is written, so it is not kept waiting. The sentence above names the field; correct it and create it again."),
            _ => {}
        }
        answer.because("Rejecting is final for this object, and claims nothing: the same name can be created again.");
        match self.status.retry_after_time {
            Some(at) if at.0 > self.snapshot.now => {
                answer.then(Some(at.0), "It makes sense to try again from then on: about then the queue will have done what waits now. Others were given slightly different times, so that not all come back at once.");
            }
            Some(_) => answer.then(None, "The time to come back has passed: try again now."),
            None => answer.then(None, "Nothing happens by itself."),
        }
        let wait = self.status.retry_after_time.map(|at| at.0.duration_since(self.snapshot.now));
        let wait = wait.filter(|wait| *wait > SignedDuration::ZERO);
        let when = wait.map_or_else(
            || "To try again".to_owned(),
            |wait| format!("To try again, in {}", span(wait)),
        );
        answer.can(when, self.target.resubmit());
        answer.can("To see how full the queue is", self.queue_target().why());
    }

    /// A limit that was reached, and how full it is now.
    fn full(&self, answer: &mut Answer, field: &str, limit: Option<i32>) {
        let queue = &self.report.spec.queue_name;
        let Some(limit) = limit else {
            answer.because(format!("{field} of rqueue/{queue} was reached. The queue is not there now, or could not be read."));
            return;
        };
        let waiting =
            self.queue.as_ref().and_then(|queue| queue.status.as_ref()).and_then(|s| s.waiting);
        let now = waiting.map_or_else(String::new, |n| {
            format!(" Now {n} reports wait in it, of all tenants together.")
        });
        answer.because(format!("{field} of rqueue/{queue} is {limit}: so many may wait, and one more for each free slot. When this one came there was no place left.{now}"));
        answer.can(format!("To let more wait ({field})"), self.queue_target().edit());
    }

    fn over(&self, answer: &mut Answer, state: ReportState) {
        say_why(answer, self.reason(), self.message());
        answer.because("Its end is final and never changes.");
        let kept = self
            .kept_until()
            .map(|at| (at, "Its record is removed (spec.retention of its queue)."));
        match kept {
            Some((at, what)) if at > self.snapshot.now => answer.then(Some(at), what),
            _ => answer.then(
                None,
                "Nothing; its record is kept as spec.retention of its queue or schedule says.",
            ),
        }
        if state == ReportState::Succeeded {
            if let Some(artifact) = &self.status.artifact {
                let at = second(artifact.accepted_time.0);
                answer.because(format!(
                    "The one artifact that counts is {} (sha256 {}, accepted {at}).",
                    artifact.uri, artifact.sha256
                ));
            }
            return;
        }
        let limit = self.run_in_force().map_or(3, RunSpec::report_attempts);
        self.run().explain_attempts(answer, limit);
        if state == ReportState::Failed && self.run_in_force().is_some_and(|run| run.job.is_some())
        {
            answer.can("To see what it printed, if its pod is still there", self.target.logs());
        }
        if self.report.spec.schedule_name.is_none() {
            answer.can_do("To have it made after all, create a ReportJob under another name.");
        }
    }

    fn kept_until(&self) -> Option<Timestamp> {
        let own = self.report.spec.schedule_name.is_none();
        own.then(|| crate::reports::facts::kept_until(self.report, self.queue.as_ref())).flatten()
    }
}
