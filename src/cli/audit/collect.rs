//! What is kept of the objects that are read, and what each is a run of: pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::ResourceExt as _;

use super::{
    cronjob::{self, OfCronJob},
    run::{Outcome, Run, Same, Source, Work},
};
use crate::{
    api::{
        ANNOTATION_RUN_KEY, Attempt, AttemptOutcome, MaintenanceOccurrence, ReportJob, Resolution,
        ResolutionDecision, Time,
    },
    identity::{MAINTENANCE_ATTEMPT, REPORT_ATTEMPT, work_of_attempt},
    maintenance::occurrence,
    reports::job as report,
    runs::{DUPLICATE_POD, OUTCOME_UNKNOWN, RETRY_REQUESTED},
};

/// Hex digits of an identity at the beginning of a run key.
const ID_DIGITS: usize = 32;

/// A piece of work of Punctual.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkFact {
    /// What it is.
    pub(super) work: Work,
    /// The identity in its run keys.
    pub(super) id: String,
    /// Namespace.
    pub(super) namespace: String,
    /// Its runs.
    pub(super) runs: Vec<Run>,
    /// Handles that it committed: uids of Jobs.
    pub(super) handles: Vec<String>,
}

/// A Job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobFact {
    /// Namespace.
    pub(super) namespace: String,
    /// Its uid.
    pub(super) uid: String,
    /// Which CronJob made it.
    pub(super) of: Option<OfCronJob>,
    /// The identity in its run key.
    pub(super) id: Option<String>,
    /// Whether it ran, or is to run.
    pub(super) ran: bool,
    /// Pods that it started, as far as it counts them.
    pub(super) pods: i32,
    /// It as a run.
    pub(super) run: Run,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Collected {
    /// Occurrences.
    pub(super) occurrences: Vec<WorkFact>,
    /// Reports.
    pub(super) reports: Vec<WorkFact>,
    /// Jobs.
    pub(super) jobs: Vec<JobFact>,
    /// Schedules that are not suspended, as `NAMESPACE/msched/NAME`.
    pub(super) schedules: BTreeSet<String>,
    /// CronJobs that are not suspended, namespace and name.
    pub(super) cronjobs: BTreeSet<(String, String)>,
    /// A person's words on what is the same.
    pub(super) same: BTreeMap<String, String>,
    /// Objects that could not be read as what they are.
    pub(super) unreadable: usize,
    /// What could not be read, a sentence each.
    pub(super) not_read: Vec<String>,
}

impl Collected {
    /// Nothing was read yet.
    pub(super) fn new(same: &[Same]) -> Self {
        let same = same.iter().map(|one| (one.cronjob.clone(), one.schedule.clone())).collect();
        Self { same, ..Self::default() }
    }

    /// The schedule that stands for a CronJob.
    pub(super) fn schedule_of(&self, cronjob: &str) -> String {
        let mapped = self.same.get(cronjob).cloned();
        let mapped = mapped.unwrap_or_else(|| format!("msched/{cronjob}"));
        // A CronJob that stands for another one stands for what that stands for.
        match mapped.strip_prefix("cronjob/") {
            Some(other) => format!("msched/{other}"),
            None => mapped,
        }
    }
}

/// What is kept of an occurrence.
pub(super) fn of_occurrence(occurrence: &MaintenanceOccurrence) -> WorkFact {
    let namespace = occurrence.namespace().unwrap_or_default();
    let status = occurrence.status.clone().unwrap_or_default();
    let work = Work::Scheduled {
        namespace: namespace.clone(),
        schedule: format!("msched/{}", occurrence.spec.schedule_name),
        instant: occurrence.spec.intended_time.timestamp(),
    };
    let object = format!("mocc/{}", occurrence.name_any());
    let created = occurrence.metadata.creation_timestamp.as_ref().map(|at| at.0);
    WorkFact {
        work,
        id: occurrence::work(occurrence).id,
        namespace,
        runs: Attempts { all: &status.attempts, asked: occurrence.spec.resolution.as_ref() }.runs(
            Source::Occurrence,
            &object,
            created,
        ),
        handles: handles(&status.attempts),
    }
}

/// What is kept of a report.
pub(super) fn of_report(job: &ReportJob) -> WorkFact {
    let namespace = job.namespace().unwrap_or_default();
    let status = job.status.clone().unwrap_or_default();
    let (spec, name) = (&job.spec, job.name_any());
    let work = match (&spec.schedule_name, spec.intended_time) {
        (Some(schedule), Some(instant)) => Work::Scheduled {
            namespace: namespace.clone(),
            schedule: format!("rsched/{schedule}"),
            instant: instant.timestamp(),
        },
        _ => Work::Named { namespace: namespace.clone(), name: name.clone() },
    };
    let created = job.metadata.creation_timestamp.as_ref().map(|at| at.0);
    WorkFact {
        work,
        id: report::work(job, None).id,
        namespace,
        runs: Attempts { all: &status.attempts, asked: spec.resolution.as_ref() }.runs(
            Source::Report,
            &format!("rjob/{name}"),
            created,
        ),
        handles: handles(&status.attempts),
    }
}

fn handles(attempts: &[Attempt]) -> Vec<String> {
    attempts.iter().filter_map(|attempt| attempt.handle.clone()).collect()
}

/// The attempts of one piece of work, and what a person asked for of one of them.
struct Attempts<'a> {
    all: &'a [Attempt],
    asked: Option<&'a Resolution>,
}

impl Attempts<'_> {
    /// The runs among them. Attempts that follow one another, each after the proven end of the one
    /// before, are one run that was tried again.
    fn runs(&self, source: Source, object: &str, created: Option<Timestamp>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut last: Option<&Attempt> = None;
        for attempt in self.all.iter().filter(|attempt| has_run(attempt)) {
            let known_by = "its name is the identity of the instant".to_owned();
            let run = Run {
                source,
                object: object.to_owned(),
                attempt: Some(attempt.number),
                created: created.map(Time::new),
                started: attempt.start_time.or(attempt.released_time).or(attempt.prepared_time),
                ended: attempt.completion_time,
                outcome: outcome(attempt),
                known_by,
                record: false,
            };
            match (last, runs.last_mut()) {
                (Some(before), Some(same)) if self.is_over_before(before, attempt) => {
                    (same.attempt, same.ended, same.outcome) =
                        (run.attempt, run.ended, run.outcome);
                }
                _ => runs.push(run),
            }
            last = Some(attempt);
        }
        runs
    }

    /// Whether an attempt was proven over before the next one began.
    fn is_over_before(&self, attempt: &Attempt, next: &Attempt) -> bool {
        let given_up = match attempt.reason.as_deref() {
            Some(RETRY_REQUESTED) => !self.was_proven(attempt),
            reason => reason == Some(OUTCOME_UNKNOWN),
        };
        let began = next.start_time.or(next.released_time).or(next.prepared_time);
        let in_order = match (attempt.completion_time, began) {
            (Some(over), Some(began)) => over <= began,
            (Some(_), None) => true,
            (None, _) => false,
        };
        in_order && !given_up
    }

    /// Whether an attempt that a person wanted repeated is known to have been over. Without
    /// `acceptDuplicate` the next one starts on the provider's word alone. With it, and of decisions
    /// that a later one has replaced, it is not recorded. Nor does it help that both pods of an
    /// attempt are over.
    fn was_proven(&self, attempt: &Attempt) -> bool {
        let of_this = self.asked.filter(|asked| asked.attempt == attempt.number);
        let on_proof = of_this.is_some_and(|asked| {
            asked.decision == ResolutionDecision::Retry && !asked.accept_duplicate
        });
        on_proof && attempt.stop_reason.as_deref() != Some(DUPLICATE_POD)
    }
}

/// Whether something of the attempt ran, as far as that is recorded.
fn has_run(attempt: &Attempt) -> bool {
    let open = attempt.completion_time.is_none() && attempt.handle.is_some();
    let ended =
        matches!(attempt.outcome, Some(AttemptOutcome::Succeeded | AttemptOutcome::Unknown));
    attempt.start_time.is_some() || ended || open
}

fn outcome(attempt: &Attempt) -> Outcome {
    match attempt.outcome {
        Some(AttemptOutcome::Succeeded) => Outcome::Succeeded,
        Some(AttemptOutcome::Failed) => Outcome::Failed,
        Some(AttemptOutcome::Cancelled) => Outcome::Cancelled,
        Some(AttemptOutcome::Unknown) => Outcome::Unknown,
        None if attempt.start_time.is_some() => Outcome::Running,
        None => Outcome::Waiting,
    }
}

/// What is kept of a Job.
pub(super) fn of_job(job: &Job) -> JobFact {
    let status = job.status.clone().unwrap_or_default();
    let name = job.metadata.name.clone().unwrap_or_default();
    let of = cronjob::of(job);
    let run_key = [&job.metadata.annotations, &job.metadata.labels]
        .into_iter()
        .find_map(|notes| notes.as_ref()?.get(ANNOTATION_RUN_KEY).cloned());
    let conditions = status.conditions.unwrap_or_default();
    let is = |kind: &str| conditions.iter().any(|c| c.type_ == kind && c.status == "True");
    let ended = status.completion_time.as_ref().map(|at| at.0).or_else(|| {
        let over = conditions.iter().find(|c| c.type_ == "Failed" && c.status == "True")?;
        over.last_transition_time.as_ref().map(|at| at.0)
    });
    let started = status.start_time.as_ref().map(|at| at.0);
    let suspended = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    let pods =
        status.succeeded.unwrap_or(0) + status.failed.unwrap_or(0) + status.active.unwrap_or(0);
    let outcome = match (is("Complete"), is("Failed"), started) {
        (true, ..) => Outcome::Succeeded,
        (_, true, _) => Outcome::Failed,
        (_, _, Some(_)) => Outcome::Running,
        (_, _, None) => Outcome::Waiting,
    };
    let known_by = match (&of, &run_key) {
        (_, Some(key)) => format!("run key {key}"),
        (Some(of), None) => of.known_by.to_owned(),
        (None, None) => String::new(),
    };
    JobFact {
        namespace: job.metadata.namespace.clone().unwrap_or_default(),
        uid: job.metadata.uid.clone().unwrap_or_default(),
        id: run_key.as_deref().and_then(id_in),
        ran: started.is_some() || pods > 0 || !suspended,
        pods,
        run: Run {
            source: if of.is_some() && run_key.is_none() { Source::CronJob } else { Source::Job },
            object: format!("job/{name}"),
            attempt: None,
            created: job.metadata.creation_timestamp.as_ref().map(|at| Time::new(at.0)),
            started: started.map(Time::new),
            ended: ended.map(Time::new),
            outcome,
            known_by,
            record: false,
        },
        of,
    }
}

/// The identity in a run key: `<id>-m<N>`, `<id>-r<N>`, `<id>-<object>-r<N>`.
fn id_in(run_key: &str) -> Option<String> {
    let of = |infix| work_of_attempt(run_key, infix).map(|(work, _)| work);
    let work = of(MAINTENANCE_ATTEMPT).or_else(|| of(REPORT_ATTEMPT)).unwrap_or(run_key);
    let id = work.get(..ID_DIGITS)?;
    id.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| id.to_owned())
}

/// Namespace and name of a CronJob that is not suspended.
pub(super) fn active(cronjob: &CronJob) -> Option<(String, String)> {
    let suspended = cronjob.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    (!suspended).then(|| (cronjob.namespace().unwrap_or_default(), cronjob.name_any()))
}
