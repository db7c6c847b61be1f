//! When a Job may be deleted. Pure.

use super::digest::{JobDigest, PodDigest};

/// What a stop does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopStep {
    /// Delete exactly this version of the Job, and its pods first.
    DeleteJob,
    /// Not yet, for this reason.
    Wait(String),
    /// The deletion is under way.
    UnderWay,
    /// There is no such Job.
    Gone,
}

/// Decides about the Job with the committed uid, as read live.
///
/// A released Job is deleted only once its controller has begun with it or it finished: before that
/// the controller may be about to create a pod that nothing removes once the Job is gone. One that
/// was never released, or that somebody suspended, is not waited for. A finished one is the only
/// record of how its run ended, so it stays until `outcome_recorded`.
pub fn stop_step(job: Option<&JobDigest>, outcome_recorded: bool) -> StopStep {
    let Some(job) = job else { return StopStep::Gone };
    if job.deleting {
        StopStep::UnderWay
    } else if job.is_finished() && !outcome_recorded {
        StopStep::Wait(format!("Job {} finished: its outcome is recorded first", job.name))
    } else if job.suspended || job.started.is_some() || job.is_finished() {
        StopStep::DeleteJob
    } else {
        StopStep::Wait(format!(
            "the Job controller has not begun with Job {}; deleted now, its pod could outlive it",
            job.name
        ))
    }
}

/// Pods that outlived their Job without being deleted (somebody deleted the Job and orphaned them)
/// are deleted one by one.
pub fn left_behind<'a>(job: Option<&JobDigest>, pods: &'a [PodDigest]) -> Vec<&'a PodDigest> {
    match job {
        Some(_) => Vec::new(),
        None => pods.iter().filter(|pod| !pod.deleting && !pod.is_over()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::job::fixtures::{job, pod};

    #[test]
    fn a_job_is_deleted_only_when_no_pod_can_come_after_it() {
        let delete = || StopStep::DeleteJob;
        let wait = |text: &str| StopStep::Wait(text.to_owned());
        for (description, yaml, recorded, expected) in [
            ("held", "{spec: {suspend: true}}", false, delete()),
            (
                "released, controller has not begun",
                "{spec: {suspend: false}, metadata: {annotations: {punctual.dev/released: '7'}}}",
                false,
                wait("has not begun"),
            ),
            (
                "unsuspended by others, controller has not begun",
                "{spec: {suspend: false}}",
                false,
                wait("has not begun"),
            ),
            (
                "released and begun",
                "{spec: {suspend: false}, status: {startTime: '2026-11-29T02:00:00Z'}}",
                false,
                delete(),
            ),
            (
                "suspended by others after release",
                "{spec: {suspend: true}, metadata: {annotations: {punctual.dev/released: '7'}}}",
                false,
                delete(),
            ),
            (
                "finished, outcome not recorded",
                "{spec: {suspend: false}, status: {conditions: [{type: Failed, status: 'True'}]}}",
                false,
                wait("recorded first"),
            ),
            (
                "finished, outcome recorded",
                "{spec: {suspend: false}, status: {conditions: [{type: Complete, status: 'True'}]}}",
                true,
                delete(),
            ),
            (
                "being deleted",
                "{spec: {suspend: true}, metadata: {deletionTimestamp: '2026-11-29T02:00:00Z'}}",
                false,
                StopStep::UnderWay,
            ),
        ] {
            let step = stop_step(Some(&job(yaml)), recorded);
            match (&step, &expected) {
                (StopStep::Wait(why), StopStep::Wait(part)) => {
                    assert!(why.contains(part.as_str()), "{description}: {why}");
                }
                _ => assert_eq!(step, expected, "{description}"),
            }
        }
        assert_eq!(stop_step(None, false), StopStep::Gone);
    }

    #[test]
    fn only_pods_without_a_job_are_deleted_one_by_one() {
        let pods = [
            pod("{metadata: {uid: acts}, spec: {nodeName: n1}, status: {phase: Running}}"),
            pod(
                "{metadata: {uid: leaves, deletionTimestamp: '2026-11-29T02:00:00Z'}, spec: {nodeName: n1}}",
            ),
            pod("{metadata: {uid: over}, status: {phase: Failed}}"),
        ];
        assert!(left_behind(Some(&job("{}")), &pods).is_empty());
        let uids: Vec<_> = left_behind(None, &pods).iter().map(|pod| pod.uid.clone()).collect();
        assert_eq!(uids, ["acts"]);
    }
}
