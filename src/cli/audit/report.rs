//! The answer of `punctual audit duplicates`: as data for scripts, as text for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;

use super::run::Run;
use crate::cli::{output, why::second};

/// Most groups that are printed for people; JSON and YAML have all.
const MAX_SHOWN: usize = 200;

/// What ran more than once.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The namespace that was looked at; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    /// How many pieces of work ran more than once.
    pub(super) duplicates: usize,
    /// Each of them.
    pub(super) groups: Vec<Group>,
    /// Jobs of CronJobs that do not say for which instant they are: made by hand, or named by others.
    pub(super) without_instant: usize,
    /// Jobs that started more than one pod.
    pub(super) many_pods: ManyPods,
    /// CronJobs and schedules that are both active, so that each instant would run twice.
    pub(super) both: Vec<String>,
    /// How much was read.
    pub(super) read: Read,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_read: Vec<String>,
}

/// Work that ran more than once.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Group {
    /// Namespace.
    pub(super) namespace: String,
    /// Whose work it is: a schedule, a CronJob, a report, or a run key whose object is gone.
    pub(super) of: String,
    /// The instant, of a schedule or a CronJob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instant: Option<Timestamp>,
    /// Whether two runs acted at one time, as far as their times say.
    pub(super) overlapped: bool,
    /// Why the run that is marked is the record.
    pub(super) why: String,
    /// The runs, in the order of their starts.
    pub(super) runs: Vec<Run>,
}

/// Jobs that started more than one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ManyPods {
    /// How many.
    pub(super) total: usize,
    /// The first of them.
    pub(super) jobs: Vec<String>,
}

/// How much was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Read {
    /// MaintenanceOccurrences.
    pub(super) occurrences: usize,
    /// ReportJobs.
    pub(super) reports: usize,
    /// Jobs.
    pub(super) jobs: usize,
    /// Objects that could not be read as what they are, and were left out.
    pub(super) unreadable: usize,
}

impl Report {
    /// The report as text.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for group in self.groups.iter().take(MAX_SHOWN) {
            group.write(&mut out);
        }
        let more = self.groups.len().saturating_sub(MAX_SHOWN);
        // Writing to a String cannot fail.
        if more > 0 {
            let _ = writeln!(out, "… and {more} more; -o json has all.\n");
        }
        let Read { occurrences, reports, jobs, unreadable } = &self.read;
        let place = self.namespace.as_ref().map_or_else(
            || "all namespaces".to_owned(),
            |namespace| format!("namespace {namespace}"),
        );
        let found = match self.duplicates {
            0 => "No work ran more than once".to_owned(),
            1 => "1 piece of work ran more than once".to_owned(),
            n => format!("{n} pieces of work ran more than once"),
        };
        let _ = writeln!(
            out,
            "{found}. Read {occurrences} occurrences, {reports} reports and {jobs} Jobs in {place}."
        );
        self.notes(&mut out, *unreadable);
        out
    }

    fn notes(&self, out: &mut String, unreadable: usize) {
        if !self.both.is_empty() {
            let _ = writeln!(
                out,
                "\nBoth active, so each instant from now on would run twice; suspend one of each pair:"
            );
            for pair in &self.both {
                let _ = writeln!(out, "  {pair}");
            }
        }
        if self.many_pods.total > 0 {
            let total = self.many_pods.total;
            let _ = writeln!(
                out,
                "\n{total} Jobs of CronJobs started more than one pod. A Job repeats what fails (backoffLimit), so its work may have begun more than once:"
            );
            for job in &self.many_pods.jobs {
                let _ = writeln!(out, "  {job}");
            }
            if total > self.many_pods.jobs.len() {
                let _ = writeln!(out, "  … and {} more", total - self.many_pods.jobs.len());
            }
        }
        if self.without_instant > 0 {
            let _ = writeln!(
                out,
                "\n{} Jobs of CronJobs do not say for which instant they are (made by hand, or renamed); they are not compared.",
                self.without_instant
            );
        }
        if unreadable > 0 {
            let _ = writeln!(
                out,
                "\n{unreadable} objects could not be read as what they are, and were left out."
            );
        }
        if !self.not_read.is_empty() {
            let _ = writeln!(out, "\nNot read, so duplicates there are not found:");
            for sentence in &self.not_read {
                let _ = writeln!(out, "  {sentence}");
            }
        }
    }
}

impl Group {
    fn write(&self, out: &mut String) {
        let instant = self.instant.map(|at| format!(" {at}")).unwrap_or_default();
        let at_once = if self.overlapped { ", some of them at the same time" } else { "" };
        let (namespace, of, runs) = (&self.namespace, &self.of, self.runs.len());
        let _ = writeln!(out, "{namespace}/{of}{instant}: {runs} runs{at_once}");
        let moment = |at: Option<crate::api::Time>| at.map(|at| second(at.0)).unwrap_or_default();
        let rows: Vec<[String; 6]> = self
            .runs
            .iter()
            .map(|run| {
                let attempt = run.attempt.map(|n| format!(" (attempt {n})")).unwrap_or_default();
                [
                    if run.record { "record".to_owned() } else { String::new() },
                    format!("{}{attempt}", run.object),
                    moment(run.started),
                    moment(run.ended),
                    format!("{:?}", run.outcome),
                    run.known_by.clone(),
                ]
            })
            .collect();
        let header = ["", "RUN", "STARTED", "ENDED", "OUTCOME", "KNOWN BY"];
        for line in output::table(header, &rows).lines() {
            let _ = writeln!(out, "  {line}");
        }
        let _ = writeln!(out, "  The record is the one that is marked: {}.\n", self.why);
    }
}
