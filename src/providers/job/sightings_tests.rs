use super::*;
use crate::providers::job::fixtures::{k8s_job, k8s_pod};

const UNBOUND: &str = "{status: {phase: Pending}}";
const ENDED: &str = "{metadata: {resourceVersion: '12'}, spec: {nodeName: n1}, status: {phase: Failed, \
                     containerStatuses: [{name: main, ready: false, restartCount: 0, image: x, \
                     imageID: x, state: {terminated: {exitCode: 1}}}]}}";

fn ended_over(text: &str) -> SeenPod {
    let sightings = Sightings::new();
    sightings.pod_changed(None, Some(&k8s_pod(ENDED)), true);
    sightings.pod_changed(Some(&k8s_pod(ENDED)), Some(&k8s_pod(text)), true);
    sightings.of("job-1").pods.remove(0)
}

#[test]
fn an_end_that_was_seen_stays() {
    let collected = ended_over(
        "{metadata: {resourceVersion: '13'}, spec: {nodeName: n1}, status: {phase: Failed, \
         conditions: [{type: DisruptionTarget, status: 'True', reason: DeletionByPodGC}]}}",
    );
    assert!(matches!(collected.pod.end, PodEnd::Failed(_)), "{:?}", collected.pod.end);
    assert_eq!(collected.pod.version, 13);
}

#[test]
fn an_older_state_changes_nothing() {
    let late = ended_over("{metadata: {resourceVersion: '11'}, spec: {nodeName: n1}}");
    assert_eq!(late.pod.version, 12);
    assert!(late.pod.is_over());
}

#[test]
fn a_pod_that_went_unbound_was_never_bound_only_if_its_deletion_was_seen() {
    let other = "{metadata: {uid: pod-2}, status: {phase: Pending}}";
    for (description, last, next, witnessed, never_bound) in [
        ("seen", UNBOUND, None, true, true),
        ("only missing from a list", UNBOUND, None, false, false),
        ("replaced under its name", UNBOUND, Some(other), true, false),
        ("bound", "{spec: {nodeName: n1}}", None, true, false),
    ] {
        let sightings = Sightings::new();
        sightings.pod_changed(None, Some(&k8s_pod(last)), true);
        let next = next.map(k8s_pod);
        sightings.pod_changed(Some(&k8s_pod(last)), next.as_ref(), witnessed);
        let seen = sightings.of("job-1").pods.remove(0);
        assert!(!seen.present, "{description}");
        assert_eq!(seen.pod.end == PodEnd::NeverBound, never_bound, "{description}");
    }
}

#[test]
fn a_job_is_known_by_its_uid_and_its_parent() {
    let sightings = Sightings::new();
    let (first, second) = (k8s_job("{}"), k8s_job("{metadata: {uid: job-2}}"));
    sightings.job_changed(None, Some(&first));
    sightings.job_changed(Some(&first), Some(&second));
    assert!(!sightings.of("job-1").present && sightings.of("job-1").job);
    assert!(sightings.of("job-2").present);
    assert_eq!(sightings.of_parent("parent-1"), ["job-1", "job-2"]);
    assert!(sightings.of_parent("parent-2").is_empty());
    sightings.job_changed(Some(&second), None);
    assert!(!sightings.of("job-2").present);
    sightings.forget("job-2");
    assert_eq!(sightings.of("job-2"), Seen::default());
}

#[test]
fn what_was_once_seen_of_a_job_stays_seen() {
    let sightings = Sightings::new();
    let begun = "{status: {startTime: '2026-11-29T02:00:00Z', active: 1}}";
    sightings.job_changed(None, Some(&k8s_job(begun)));
    sightings.job_changed(None, Some(&k8s_job("{spec: {suspend: true}}")));
    let seen = sightings.of("job-1");
    assert!(seen.started && seen.counted, "a suspension resets the Job's own status");
}

#[test]
fn more_pods_than_are_remembered_are_not_forgotten_to_be_more() {
    let sightings = Sightings::new();
    for n in 0..=MAX_PODS {
        let pod = k8s_pod(&format!("{{metadata: {{uid: pod-{n}}}}}"));
        sightings.pod_changed(None, Some(&pod), true);
    }
    let seen = sightings.of("job-1");
    assert_eq!((seen.pods.len(), seen.overflow), (MAX_PODS, true));
}

#[test]
fn only_what_is_gone_is_forgotten_oldest_first_and_what_came_back_is_not() {
    let sightings = Sightings::new();
    let job = |n: usize| k8s_job(&format!("{{metadata: {{uid: job-{n:05}}}}}"));
    sightings.job_changed(None, Some(&job(0)));
    for n in 1..=MAX_GONE {
        sightings.job_changed(None, Some(&job(n)));
        sightings.job_changed(Some(&job(n)), None);
    }
    assert_eq!(sightings.len(), MAX_GONE + 1);
    sightings.job_changed(None, Some(&job(1))); // the oldest one comes back
    for n in 0..3 {
        let n = MAX_GONE + 1 + n;
        sightings.job_changed(None, Some(&job(n)));
        sightings.job_changed(Some(&job(n)), None);
    }
    let known = sightings.of_parent("parent-1");
    assert!(known.contains(&"job-00000".to_owned()), "it is there");
    assert!(known.contains(&"job-00001".to_owned()), "it is there again");
    assert!(!known.contains(&"job-00002".to_owned()) && !known.contains(&"job-00003".to_owned()));
    assert_eq!(known.len(), MAX_GONE + 2);
}

#[test]
fn looking_often_at_nothing_pushes_nobody_out() {
    let sightings = Sightings::new();
    let now = LeaseInstant::from_nanos(1);
    sightings.note("other", |seen| seen.saw_live(None, &[], now));
    for _ in 0..2 * MAX_GONE {
        sightings.note("job-1", |seen| seen.saw_live(None, &[], now));
    }
    assert_eq!(sightings.len(), 2);
    assert_eq!(sightings.of("other").absent_since, Some(now));
}
