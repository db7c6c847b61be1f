//! What to make of a Job that has the name already. Pure.

use k8s_openapi::api::batch::v1::Job;

use super::build::template_hash;
use crate::{
    api::{
        ANNOTATION_EPOCH, ANNOTATION_PARENT_KIND, ANNOTATION_RELEASED, ANNOTATION_RUN_KEY,
        ANNOTATION_TEMPLATE_HASH, LABEL_PARENT_UID,
    },
    providers::{RunRequest, job::digest::JobDigest},
};

/// What a Job of the wanted name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Exactly the wanted one, made in this term.
    Own,
    /// Exactly the wanted one, made in another term: taken over by writing the own epoch on it.
    Adoptable,
    /// It is being deleted: the name becomes free.
    Leaving,
    /// Made for this parent, of something else, and inert: removed.
    Outdated,
    /// Made for this parent, of something else, and it was let run by someone.
    OutdatedAndLetRun,
    /// Made for an earlier parent of the same name, which is gone: stopped and removed.
    OfFormerParent,
    /// Made or taken over by a newer term: this process is deposed and does not know it yet.
    OfNewerTerm,
    /// Not made for such a parent.
    Foreign,
}

/// Judges a Job, as read live, that stands where the Job of `request` belongs.
pub fn judge(job: &Job, request: &RunRequest) -> Existing {
    let annotation = |key: &str| job.metadata.annotations.as_ref()?.get(key).map(String::as_str);
    if job.metadata.deletion_timestamp.is_some() {
        return Existing::Leaving;
    }
    let of_this_kind = annotation(ANNOTATION_PARENT_KIND) == Some(&request.parent.kind);
    let (Some(parent), Some(run_key)) =
        (annotation(LABEL_PARENT_UID), annotation(ANNOTATION_RUN_KEY))
    else {
        return Existing::Foreign;
    };
    if !of_this_kind {
        return Existing::Foreign;
    }
    // A stale leader must not remove what a newer one has committed, or is about to.
    let made_by = annotation(ANNOTATION_EPOCH).and_then(|epoch| epoch.parse::<i64>().ok());
    if made_by.is_some_and(|epoch| epoch > request.epoch) {
        return Existing::OfNewerTerm;
    }
    if parent != request.parent.uid {
        return Existing::OfFormerParent;
    }
    let same_template = annotation(ANNOTATION_TEMPLATE_HASH) == Some(&template_hash(request));
    if run_key == request.run_key && same_template {
        let epoch = request.epoch.to_string();
        return if annotation(ANNOTATION_EPOCH) == Some(&epoch) {
            Existing::Own
        } else {
            Existing::Adoptable
        };
    }
    if JobDigest::of(job).is_some_and(|job| job.is_held() && !job.counted && job.started.is_none())
    {
        Existing::Outdated
    } else {
        Existing::OutdatedAndLetRun
    }
}

/// What a release does to a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseStep {
    /// Let it run.
    Patch,
    /// It was released already.
    Done,
    /// It can not be released (any more).
    Impossible(String),
}

/// Decides about the committed Job, in its newest known state. `had_a_pod`: one of it was seen, so it
/// ran whatever its annotations say.
pub fn release_step(job: Option<&JobDigest>, had_a_pod: bool) -> ReleaseStep {
    let Some(job) = job else {
        return ReleaseStep::Impossible("the committed Job is gone".into());
    };
    if job.deleting {
        ReleaseStep::Impossible(format!("Job {} is being deleted", job.name))
    } else if job.is_finished() || (!job.suspended && job.released) {
        ReleaseStep::Done
    } else if job.suspended && (job.released || job.counted || had_a_pod) {
        ReleaseStep::Impossible(format!(
            "Job {} was suspended after it had been let run ({ANNOTATION_RELEASED}); it is not \
             released twice",
            job.name
        ))
    } else {
        ReleaseStep::Patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::job::fixtures::{job, k8s_job, request};

    const TEMPLATE: &str = "{spec: {containers: [{name: main, image: x}]}}";

    fn annotated(changes: &[(&str, Option<&str>)], more: &str) -> Job {
        let request = request(TEMPLATE);
        let mut job = k8s_job(more);
        let annotations = job.metadata.annotations.get_or_insert_default();
        let hash = template_hash(&request);
        for (key, value) in [
            (ANNOTATION_PARENT_KIND, "MaintenanceOccurrence"),
            (LABEL_PARENT_UID, "parent-1"),
            (ANNOTATION_RUN_KEY, request.run_key.as_str()),
            (ANNOTATION_TEMPLATE_HASH, hash.as_str()),
            (ANNOTATION_EPOCH, "7"),
        ] {
            annotations.insert(key.into(), value.into());
        }
        for (key, value) in changes {
            match value {
                Some(value) => annotations.insert((*key).into(), (*value).into()),
                None => annotations.remove(*key),
            };
        }
        job
    }

    #[test]
    fn only_the_very_job_is_adopted() {
        let held = "{spec: {suspend: true}}";
        let runs = "{spec: {suspend: false}}";
        let leaving = "{metadata: {deletionTimestamp: '2026-11-29T02:00:00Z'}}";
        let old = (ANNOTATION_EPOCH, Some("5"));
        let newer = (ANNOTATION_EPOCH, Some("9"));
        for (description, changes, more, expected) in [
            ("made by this term", vec![], held, Existing::Own),
            ("made by an earlier term", vec![old], held, Existing::Adoptable),
            ("made by an earlier term, runs", vec![old], runs, Existing::Adoptable),
            ("made by a newer term", vec![newer], held, Existing::OfNewerTerm),
            (
                "made by a newer term, of another template",
                vec![newer, (ANNOTATION_TEMPLATE_HASH, Some("x"))],
                held,
                Existing::OfNewerTerm,
            ),
            ("no epoch", vec![(ANNOTATION_EPOCH, None)], held, Existing::Adoptable),
            ("being deleted", vec![old], leaving, Existing::Leaving),
            ("other run key", vec![(ANNOTATION_RUN_KEY, Some("x"))], held, Existing::Outdated),
            (
                "other template",
                vec![(ANNOTATION_TEMPLATE_HASH, Some("x"))],
                held,
                Existing::Outdated,
            ),
            ("no hash", vec![(ANNOTATION_TEMPLATE_HASH, None)], held, Existing::Outdated),
            (
                "other template, and it runs",
                vec![(ANNOTATION_TEMPLATE_HASH, Some("x"))],
                runs,
                Existing::OutdatedAndLetRun,
            ),
            (
                "other template, released and suspended by others",
                vec![(ANNOTATION_TEMPLATE_HASH, Some("x")), (ANNOTATION_RELEASED, Some("5"))],
                held,
                Existing::OutdatedAndLetRun,
            ),
            (
                "other template, it has had a pod",
                vec![(ANNOTATION_TEMPLATE_HASH, Some("x"))],
                "{spec: {suspend: true}, status: {failed: 1}}",
                Existing::OutdatedAndLetRun,
            ),
            ("other parent", vec![(LABEL_PARENT_UID, Some("p0"))], held, Existing::OfFormerParent),
            ("no parent", vec![(LABEL_PARENT_UID, None)], held, Existing::Foreign),
            ("no run key", vec![(ANNOTATION_RUN_KEY, None)], held, Existing::Foreign),
            (
                "other kind",
                vec![(ANNOTATION_PARENT_KIND, Some("ReportJob"))],
                held,
                Existing::Foreign,
            ),
            ("no kind", vec![(ANNOTATION_PARENT_KIND, None)], held, Existing::Foreign),
        ] {
            assert_eq!(
                judge(&annotated(&changes, more), &request(TEMPLATE)),
                expected,
                "{description}"
            );
        }
        assert_eq!(judge(&k8s_job(held), &request(TEMPLATE)), Existing::Foreign, "somebody's Job");
    }

    #[test]
    fn a_job_is_released_once() {
        let released = "metadata: {annotations: {punctual.dev/released: '7'}}";
        let finished = "status: {conditions: [{type: Complete, status: 'True'}]}";
        let leaving =
            "{spec: {suspend: true}, metadata: {deletionTimestamp: '2026-11-29T02:00:00Z'}}";
        for (description, yaml, had_a_pod, patch) in [
            ("held", "{spec: {suspend: true}}".to_owned(), false, Some(true)),
            (
                "unsuspended by others: the annotation follows",
                "{spec: {suspend: false}}".into(),
                true,
                Some(true),
            ),
            ("released", format!("{{spec: {{suspend: false}}, {released}}}"), true, Some(false)),
            (
                "finished",
                format!("{{spec: {{suspend: false}}, {released}, {finished}}}"),
                true,
                Some(false),
            ),
            (
                "suspended after release",
                format!("{{spec: {{suspend: true}}, {released}}}"),
                false,
                None,
            ),
            ("held, but a pod was seen", "{spec: {suspend: true}}".into(), true, None),
            (
                "held, but a pod was counted",
                "{spec: {suspend: true}, status: {failed: 1}}".into(),
                false,
                None,
            ),
            ("being deleted", leaving.into(), false, None),
        ] {
            let step = release_step(Some(&job(&yaml)), had_a_pod);
            let is_patch = match &step {
                ReleaseStep::Patch => Some(true),
                ReleaseStep::Done => Some(false),
                ReleaseStep::Impossible(_) => None,
            };
            assert_eq!(is_patch, patch, "{description}: {step:?}");
        }
        assert!(matches!(release_step(None, false), ReleaseStep::Impossible(_)));
    }
}
