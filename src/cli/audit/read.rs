//! What the audit needs, read by list in pages.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::ResourceExt as _;

use super::{
    collect::{Collected, active, of_job, of_occurrence, of_report},
    run::Same,
};
use crate::{
    api::{MaintenanceOccurrence, MaintenanceSchedule, ReportJob, ReportSchedule},
    cli::{CliError, trouble::Call},
    cluster::{ApiError, Object, Person},
};

/// Tells how far a list is: its kind, how many were read, how many are about to come.
type Progress = fn(&str, usize, i64);

/// Reads everything, and keeps of each object what the audit needs.
pub(super) async fn collect(
    person: &Person,
    namespace: Option<&str>,
    same: &[Same],
    progress: Progress,
) -> Result<Collected, CliError> {
    let mut all = Collected::new(same);
    let lists = Lists { person, namespace, progress };
    let (found, unreadable) = lists.read(of_occurrence as fn(&MaintenanceOccurrence) -> _).await?;
    (all.occurrences, all.unreadable) = (found, unreadable);
    let (found, unreadable) = lists.read(of_report as fn(&ReportJob) -> _).await?;
    all.reports = found;
    all.unreadable += unreadable;
    let (found, _) = lists
        .read(|schedule: &MaintenanceSchedule| {
            (!schedule.spec.suspend).then(|| schedule_name("msched", schedule))
        })
        .await?;
    all.schedules.extend(found.into_iter().flatten());
    let (found, _) = lists
        .read(|schedule: &ReportSchedule| {
            (!schedule.spec.suspend).then(|| schedule_name("rsched", schedule))
        })
        .await?;
    all.schedules.extend(found.into_iter().flatten());
    match lists.try_read(active as fn(&CronJob) -> _).await {
        Ok((found, _)) => all.cronjobs.extend(found.into_iter().flatten()),
        Err(error) => all.not_read.push(format!(
            "{}; whether a CronJob and a schedule are both active is not said",
            lists.call::<CronJob>().left_out(&error)
        )),
    }
    let (found, unreadable) = lists.read(of_job as fn(&Job) -> _).await?;
    all.jobs = found;
    all.unreadable += unreadable;
    Ok(all)
}

fn schedule_name<K: Object>(short: &str, schedule: &K) -> String {
    format!("{}/{short}/{}", schedule.namespace().unwrap_or_default(), schedule.name_any())
}

struct Lists<'a> {
    person: &'a Person,
    namespace: Option<&'a str>,
    progress: Progress,
}

impl Lists<'_> {
    /// What is kept of each object of a kind, and how many could not be read. Of a kind that is not
    /// installed there are none.
    async fn read<K: Object, T>(
        &self,
        keep: impl Fn(&K) -> T,
    ) -> Result<(Vec<T>, usize), CliError> {
        match self.try_read(keep).await {
            Err(ApiError::NotFound) => Ok((Vec::new(), 0)),
            outcome => outcome.map_err(|error| self.call::<K>().failed(error)),
        }
    }

    fn call<K: Object>(&self) -> Call {
        Call::of::<K>("list", self.person).within(self.namespace)
    }

    async fn try_read<K: Object, T>(
        &self,
        keep: impl Fn(&K) -> T,
    ) -> Result<(Vec<T>, usize), ApiError> {
        let (mut kept, mut unreadable) = (Vec::new(), 0);
        let plural = K::plural(&());
        let mut pages = 0;
        self.person
            .reader()
            .pages::<K>(self.namespace, "", |begins, page, rest| {
                if begins {
                    kept.clear();
                    (unreadable, pages) = (0, 0);
                }
                pages += 1;
                kept.extend(page.items.iter().map(&keep));
                unreadable += page.unreadable.len();
                if pages > 1 || rest > 0 {
                    (self.progress)(&plural, kept.len(), rest);
                }
            })
            .await?;
        Ok((kept, unreadable))
    }
}
