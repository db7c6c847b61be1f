//! One run, as it is found, and what it is a run of.

use jiff::Timestamp;
use serde::Serialize;

use crate::api::Time;

/// What did the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum Source {
    /// An attempt of a MaintenanceOccurrence.
    Occurrence,
    /// An attempt of a ReportJob.
    Report,
    /// A Job that a CronJob made.
    CronJob,
    /// A Job that carries the run key of an attempt and is not the one that was committed.
    Job,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum Outcome {
    /// With success.
    Succeeded,
    /// With failure.
    Failed,
    /// It was stopped.
    Cancelled,
    /// It has started and is not over.
    Running,
    /// It was created to run at once and has not started.
    Waiting,
    /// Nobody knows.
    Unknown,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    /// What did it.
    pub(super) source: Source,
    /// The object, for example `mocc/nightly-202611290200` or `job/nightly-29334840`.
    pub(super) object: String,
    /// Number of the attempt, of those that have some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attempt: Option<i32>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<Time>,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) started: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Time>,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// How it is known what it is a run of.
    pub(super) known_by: String,
    /// Whether it is the one that counts.
    pub(super) record: bool,
}

impl Run {
    /// The moment that orders runs: the start, or what is nearest to it.
    pub(super) fn moment(&self) -> Option<Timestamp> {
        self.started.or(self.created).map(|at| at.0)
    }
}

/// What a run is a run of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// An instant of a schedule, or of the CronJob that does the same.
    Scheduled {
        /// Namespace.
        namespace: String,
        /// Short name of the kind, and name: `msched/nightly`.
        schedule: String,
        /// The instant. CronJobs may have instants within a minute.
        instant: Timestamp,
    },
    /// A report that a client named.
    Named {
        /// Namespace.
        namespace: String,
        /// Name of the ReportJob.
        name: String,
    },
    /// Something that only its run key names: the object that it belonged to is gone.
    Key {
        /// Namespace.
        namespace: String,
        /// The identity in the run key.
        id: String,
    },
}

/// A person's word that a CronJob and a schedule are the same work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Same {
    /// Name of the CronJob.
    pub(super) cronjob: String,
    /// `msched/NAME`, `rsched/NAME`, or `cronjob/NAME` of another CronJob.
    pub(super) schedule: String,
}

impl Same {
    /// Reads `cronjob/NAME=msched/NAME`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} must be like cronjob/old-nightly=msched/nightly");
        let (cronjob, schedule) = text.split_once('=').ok_or_else(wrong)?;
        let cronjob =
            ["cronjob/", "cronjobs/", "cj/"].iter().find_map(|kind| cronjob.strip_prefix(kind));
        let cronjob = cronjob.filter(|name| is_name(name)).ok_or_else(wrong)?;
        let named = ["msched/", "rsched/", "cronjob/"]
            .iter()
            .any(|kind| schedule.strip_prefix(kind).is_some_and(is_name));
        if !named {
            return Err(wrong());
        }
        Ok(Self { cronjob: cronjob.to_owned(), schedule: schedule.to_owned() })
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '='])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_names_both_kinds() {
        let same = Same::parse("cronjob/old=msched/new").unwrap();
        assert_eq!((same.cronjob.as_str(), same.schedule.as_str()), ("old", "msched/new"));
        assert!(Same::parse("cj/old=rsched/new").is_ok());
        for wrong in [
            "old=new",
            "cronjob/old",
            "cronjob/=msched/x",
            "cronjob/a=msched/",
            "cronjob/a=mocc/b",
            "msched/a=cronjob/b",
            "cronjob/a=msched/b/c",
            "",
        ] {
            assert!(
                Same::parse(wrong).unwrap_err().contains("cronjob/old-nightly=msched/nightly"),
                "{wrong}"
            );
        }
    }
}
