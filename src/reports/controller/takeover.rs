//! A queue without a ledger: new, or deleted and created again while reports ran.
//!
//! An earlier leader may have admitted jobs by the ledger that is gone, and may be late to commit
//! them. So every job of the queue that is not over is read live and sealed first, whether it was
//! ever admitted or not; after that nobody else starts one. Then what runs gets its entries back.
//! This is the one place where sealing is proportional to what is queued.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;

use super::{Controller, Key, wiring::report_of};
use crate::{
    api::{
        ANNOTATION_RUN_KEY, ActionClass, LABEL_PARENT_UID, LABEL_QUEUE, LABEL_TENANT, LedgerEntry,
        ReportJob, ReportQueue, Time,
    },
    authority::Permit,
    cluster::ObjectKey,
    providers::job::digest::JobDigest,
    reconcile::PassError,
    reports::{
        facts::{attempts, is_terminal},
        job,
    },
    runs::open_attempt,
    schedules::hands::seal,
};

/// Seals under way at once. A queue may have 20,000 open jobs, and one after another they would take
/// minutes in which nothing of it starts; more at once would crowd out the other work of this leader.
const SEALS_AT_ONCE: usize = 8;

impl Controller {
    /// Seals what is not over, and gives the attempts that are not over.
    pub(super) async fn take_over(
        &self,
        key: &ObjectKey,
        queue: &ReportQueue,
        permit: &Permit,
    ) -> Result<Vec<LedgerEntry>, PassError> {
        self.deps.passes_ended().await;
        let fields = format!("spec.queueName={}", key.name);
        let listed = self
            .deps
            .reader
            .list_fields::<ReportJob>(&key.namespace, &fields)
            .await
            .map_err(PassError::Read)?;
        if let Some(unreadable) = listed.unreadable.first() {
            // It cannot be sealed, so an earlier term might still start it.
            return Err(PassError::Unreadable(unreadable.key.clone()));
        }
        let now = Time::new(self.deps.wall.now());
        let known: BTreeSet<String> =
            listed.items.iter().map(|report| report.uid().unwrap_or_default()).collect();
        let open = listed.items.into_iter().filter(|report| !is_terminal(report));
        let mut seals = stream::iter(open.map(|report| seal(&self.deps, report, permit)))
            .buffered(SEALS_AT_ONCE);
        let mut found = Vec::new();
        while let Some(sealed) = seals.try_next().await? {
            let sealed = sealed.into_inner();
            found.extend(open_entry(&sealed, queue, now));
            self.jobs.observe(sealed);
        }
        found.extend(self.orphaned_entries(key, &known, now).await?);
        let mut state = self.state.lock();
        if let Some(term) = state.terms.get_mut(key) {
            term.unaccounted = found.iter().map(|entry| entry.uid.clone()).collect();
        }
        drop(state);
        // A pass over one of them may have come to rest before it stood among them.
        for entry in &found {
            self.queue.add(Key::Job(ObjectKey::new(&key.namespace, &entry.job)));
        }
        Ok(found)
    }

    /// Entries of unfinished Jobs of this queue whose report is gone.
    async fn orphaned_entries(
        &self,
        key: &ObjectKey,
        known: &BTreeSet<String>,
        now: Time,
    ) -> Result<Vec<LedgerEntry>, PassError> {
        let labels = format!("{LABEL_QUEUE}={}", key.name);
        let listed = self
            .deps
            .reader
            .list::<Job>(Some(&key.namespace), Some(&labels))
            .await
            .map_err(PassError::Read)?;
        let orphans = listed.items.iter().filter(|job| {
            job.labels().get(LABEL_PARENT_UID).is_some_and(|uid| !known.contains(uid))
                && !JobDigest::of(job).is_some_and(|digest| digest.is_finished())
        });
        Ok(orphans.filter_map(|job| orphaned_entry(job, now)).collect())
    }
}

/// The entry of a job whose newest attempt is committed and not over.
fn open_entry(report: &ReportJob, queue: &ReportQueue, now: Time) -> Option<LedgerEntry> {
    let attempt = open_attempt(attempts(report))?;
    let run = job::run_in_force(report, queue.spec.run_template.as_ref()).ok()?;
    Some(LedgerEntry {
        job: report.name_any(),
        uid: report.uid()?,
        tenant: report.spec.tenant.clone(),
        attempt: attempt.number,
        run_key: attempt.run_key.clone(),
        action_class: run.report_class(),
        http: run.http.clone(),
        charge: i64::from(report.spec.estimate_seconds) * 1000,
        retry: attempt.number > 1,
        admitted_time: attempt.prepared_time.unwrap_or(now),
    })
}

/// The entry of a Job whose report is gone. Nobody knows its estimate any more.
fn orphaned_entry(job: &Job, now: Time) -> Option<LedgerEntry> {
    let name = job.name_any();
    let (report, attempt) = report_of(&name)?;
    Some(LedgerEntry {
        job: report.to_owned(),
        uid: job.labels().get(LABEL_PARENT_UID)?.clone(),
        tenant: job.labels().get(LABEL_TENANT)?.clone(),
        attempt,
        run_key: job.annotations().get(ANNOTATION_RUN_KEY).cloned().unwrap_or_default(),
        // Without its report only a full proof counts.
        action_class: ActionClass::Fenced,
        http: None,
        charge: 0,
        retry: attempt > 1,
        admitted_time: job.metadata.creation_timestamp.as_ref().map_or(now, |at| Time::new(at.0)),
    })
}
