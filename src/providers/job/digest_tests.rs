use super::*;
use crate::providers::job::fixtures::{job, pod};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const RAN: &str = "startedAt: '2026-11-29T02:00:05Z', finishedAt: '2026-11-29T02:00:09Z'";

/// A bound pod in this phase with this state of its container `main` and more of its status.
fn bound(phase: &str, state: &str, more: &str) -> PodDigest {
    pod(&format!(
        "{{spec: {{nodeName: n1}}, status: {{phase: {phase}, containerStatuses: \
         [{{name: main, ready: false, restartCount: 0, image: x, imageID: x, state: {state}}}]{more}}}}}"
    ))
}

fn ended(code: i32, more: &str) -> String {
    format!("{{terminated: {{exitCode: {code}, {RAN}{more}}}}}")
}

fn disrupted(by: &str) -> String {
    format!(", conditions: [{{type: DisruptionTarget, status: 'True', reason: {by}}}]")
}

#[test]
fn a_job_says_how_it_stands() {
    let held = job("{spec: {suspend: true}}");
    assert!(held.is_held() && !held.is_finished() && !held.counted);
    assert_eq!(held.parent_uid.as_deref(), Some("parent-1"));
    let released =
        job("{spec: {suspend: true}, metadata: {annotations: {punctual.dev/released: '7'}}}");
    assert!(!released.is_held(), "suspended with the annotation: somebody else stopped it");
    let failed = job("{status: {startTime: '2026-11-29T02:00:01Z', failed: 1, conditions: [
          {type: FailureTarget, status: 'True', reason: X},
          {type: Failed, status: 'True', reason: BackoffLimitExceeded, message: too many,
           lastTransitionTime: '2026-11-29T02:00:10Z'}]}}");
    assert_eq!(failed.started, Some(at("2026-11-29T02:00:01Z")));
    assert_eq!(
        failed.finish,
        JobFinish::Failed {
            at: Some(at("2026-11-29T02:00:10Z")),
            reason: "BackoffLimitExceeded".into(),
            message: "too many".into(),
        }
    );
    for (description, conditions, finish) in [
        (
            "complete, with its own time",
            "completionTime: '2026-11-29T02:00:09Z', conditions: [{type: Complete, status: 'True', lastTransitionTime: '2026-11-29T02:00:10Z'}]",
            JobFinish::Complete { at: Some(at("2026-11-29T02:00:09Z")) },
        ),
        ("not yet failed", "conditions: [{type: FailureTarget, status: 'True'}]", JobFinish::No),
        ("not complete", "conditions: [{type: Complete, status: 'False'}]", JobFinish::No),
    ] {
        assert_eq!(job(&format!("{{status: {{{conditions}}}}}")).finish, finish, "{description}");
    }
}

#[test]
fn a_job_that_counts_a_pod_in_any_state_has_had_one() {
    for (status, counted) in [
        ("{}", false),
        ("{active: 0, failed: 0, ready: 0, terminating: 0}", false),
        ("{uncountedTerminatedPods: {}}", false),
        ("{active: 1}", true),
        ("{ready: 1}", true),
        ("{failed: 1}", true),
        ("{succeeded: 1}", true),
        ("{terminating: 1}", true),
        ("{uncountedTerminatedPods: {failed: [pod-1]}}", true),
        ("{uncountedTerminatedPods: {succeeded: [pod-1]}}", true),
    ] {
        assert_eq!(job(&format!("{{status: {status}}}")).counted, counted, "{status}");
    }
}

#[test]
fn a_pod_belongs_to_its_job_by_owner_or_after_orphaning_by_label() {
    assert_eq!(pod("{}").job_uid.as_deref(), Some("job-1"));
    let orphan = pod("{metadata: {ownerReferences: null}}");
    assert_eq!(orphan.job_uid.as_deref(), Some("job-1"));
    let foreign = pod("{metadata: {ownerReferences: null, labels: null}}");
    assert_eq!(foreign.job_uid, None);
}

#[test]
fn a_pod_is_over_only_when_nothing_of_it_runs() {
    let running = "{running: {startedAt: '2026-11-29T02:00:05Z'}}";
    let creating = "{waiting: {reason: ContainerCreating}}";
    let two = "{spec: {nodeName: n1, containers: [{name: main}, {name: side}]}, status: {phase: ";
    let sidecar = "{spec: {nodeName: n1, initContainers: [{name: proxy, restartPolicy: Always}]}, status: {phase: ";
    let status = |name: &str, state: &str| {
        format!(
            "[{{name: {name}, ready: false, restartCount: 0, image: x, imageID: x, state: {state}}}]"
        )
    };
    let main_ended = status("main", &ended(0, ""));
    for (description, pod, over) in [
        ("not bound yet", pod("{status: {phase: Pending}}"), false),
        (
            "never bound: being deleted",
            pod(
                "{metadata: {deletionTimestamp: '2026-11-29T02:00:00Z'}, status: {phase: Pending}}",
            ),
            true,
        ),
        ("never bound: failed", pod("{status: {phase: Failed}}"), true),
        (
            "bound and being deleted",
            pod(
                "{metadata: {deletionTimestamp: '2026-11-29T02:00:00Z'}, spec: {nodeName: n1}, status: {phase: Pending}}",
            ),
            false,
        ),
        ("running", bound("Running", running, ""), false),
        ("being created", bound("Pending", creating, ""), false),
        ("ended, phase not yet", bound("Running", &ended(0, ""), ""), true),
        ("succeeded", bound("Succeeded", &ended(0, ""), ""), true),
        ("failed", bound("Failed", &ended(1, ""), ""), true),
        (
            "the garbage collector says Failed, the container runs on",
            bound("Failed", running, &disrupted("DeletionByPodGC")),
            false,
        ),
        (
            "the garbage collector says Failed, the container may have been started",
            bound("Failed", creating, &disrupted("DeletionByPodGC")),
            false,
        ),
        (
            "the garbage collector says Failed after the kubelet had said that all ended",
            bound("Failed", &ended(137, ""), &disrupted("DeletionByPodGC")),
            true,
        ),
        (
            "the garbage collector says Failed between the init container and the main one",
            pod(&format!(
                "{{spec: {{nodeName: n1, initContainers: [{{name: i}}]}}, status: {{phase: Failed, \
                 initContainerStatuses: {}, containerStatuses: {}{}}}}}",
                status("i", &ended(0, "")),
                status("main", "{waiting: {reason: PodInitializing}}"),
                disrupted("DeletionByPodGC"),
            )),
            false,
        ),
        (
            "the node controller wrote NodeLost",
            bound("Failed", creating, ", reason: NodeLost"),
            false,
        ),
        (
            "Failed without a word by anyone, last heard of being created",
            bound("Failed", creating, ""),
            false,
        ),
        (
            "rejected by the kubelet: nothing was started",
            pod("{spec: {nodeName: n1}, status: {phase: Failed, reason: OutOfcpu, message: no}}"),
            true,
        ),
        (
            "Failed and nothing reported",
            pod("{spec: {nodeName: n1}, status: {phase: Failed}}"),
            false,
        ),
        (
            "an init container failed, the main one never starts",
            pod(&format!(
                "{{spec: {{nodeName: n1, initContainers: [{{name: i}}]}}, status: {{phase: Failed, \
                 initContainerStatuses: {}, containerStatuses: {}}}}}",
                status("i", &ended(1, "")),
                status("main", "{waiting: {reason: PodInitializing}}"),
            )),
            true,
        ),
        (
            "one of two ended",
            pod(&format!("{two} Running, containerStatuses: {main_ended}}}}}")),
            false,
        ),
        (
            "the sidecar still runs",
            pod(&format!(
                "{sidecar} Running, containerStatuses: {main_ended}, initContainerStatuses: {}}}}}",
                status("proxy", running)
            )),
            false,
        ),
        (
            "the sidecar ended too",
            pod(&format!(
                "{sidecar} Running, containerStatuses: {main_ended}, initContainerStatuses: {}}}}}",
                status("proxy", &ended(0, ""))
            )),
            true,
        ),
    ] {
        assert_eq!(pod.is_over(), over, "{description}: {:?}", pod.end);
    }
}

#[test]
fn times_are_those_of_the_containers() {
    let pod = bound("Succeeded", &ended(0, ""), "");
    assert_eq!(pod.started, Some(at("2026-11-29T02:00:05Z")));
    assert_eq!(pod.finished, Some(at("2026-11-29T02:00:09Z")));
    let lost = "{terminated: {exitCode: 137, startedAt: '1970-01-01T00:00:00Z', finishedAt: null}}";
    let pod = bound("Failed", lost, "");
    assert_eq!((pod.started, pod.finished), (None, None), "the kubelet does not know");
    let unlisted = super::super::fixtures::pod(
        "{spec: {nodeName: n1}, status: {phase: Running, startTime: '2026-11-29T02:00:04Z'}}",
    );
    assert_eq!(unlisted.started, Some(at("2026-11-29T02:00:04Z")));
    let creating = bound(
        "Pending",
        "{waiting: {reason: ContainerCreating}}",
        ", startTime: '2026-11-29T02:00:04Z'",
    );
    assert_eq!(creating.started, None, "no container has started");
}

#[test]
fn every_failure_has_a_reason_and_a_class() {
    use FailureClass::{Deterministic, Disruption, Transient};
    let message = |json: &str| format!(", message: '{json}'");
    for (description, pod, reason, class) in [
        ("exit code", bound("Failed", &ended(1, ""), ""), "ExitCode", Transient),
        ("exit code 42", bound("Failed", &ended(42, ""), ""), "ExitCode", Deterministic),
        (
            "not retryable",
            bound("Failed", &ended(1, &message(r#"{"retryable": false}"#)), ""),
            "NotRetryable",
            Deterministic,
        ),
        (
            "not retryable, with a reason",
            bound(
                "Failed",
                &ended(1, &message(r#"{"retryable": false, "reason": "BadInput"}"#)),
                "",
            ),
            "BadInput",
            Deterministic,
        ),
        (
            "retryable though 42",
            bound("Failed", &ended(42, &message(r#"{"retryable": true}"#)), ""),
            "ExitCode",
            Transient,
        ),
        (
            "a reason of its own",
            bound("Failed", &ended(1, &message(r#"{"reason": "Unavailable"}"#)), ""),
            "Unavailable",
            Transient,
        ),
        (
            "a log as message",
            bound("Failed", &ended(1, &message("panicked at main")), ""),
            "ExitCode",
            Transient,
        ),
        (
            "out of memory",
            bound("Failed", &ended(137, ", reason: OOMKilled"), ""),
            "OOMKilled",
            Deterministic,
        ),
        (
            "cannot be started",
            bound("Failed", &ended(128, ", reason: StartError"), ""),
            "StartError",
            Deterministic,
        ),
        (
            "evicted",
            bound("Failed", &ended(143, ""), &disrupted("EvictionByEvictionAPI")),
            "Evicted",
            Disruption,
        ),
        (
            "evicted by its node, whatever the exit code",
            bound(
                "Failed",
                &ended(42, ""),
                &format!(
                    "{}, reason: Evicted, message: low on memory",
                    disrupted("TerminationByKubelet")
                ),
            ),
            "Evicted",
            Disruption,
        ),
        (
            "preempted",
            bound("Failed", &ended(143, ""), &disrupted("PreemptionByScheduler")),
            "Preempted",
            Disruption,
        ),
        (
            "node lost",
            bound("Failed", &ended(143, ""), &disrupted("DeletionByPodGC")),
            "NodeLost",
            Disruption,
        ),
        (
            "node tainted",
            bound("Failed", &ended(143, ""), &disrupted("DeletionByTaintManager")),
            "NodeLost",
            Disruption,
        ),
        (
            "rejected by its node",
            super::super::fixtures::pod(
                "{spec: {nodeName: n1}, status: {phase: Failed, reason: OutOfcpu, message: no}}",
            ),
            "OutOfcpu",
            Disruption,
        ),
        (
            "deadline of the template",
            bound("Failed", &ended(137, ""), ", reason: DeadlineExceeded"),
            "DeadlineExceeded",
            Transient,
        ),
    ] {
        match pod.end {
            PodEnd::Failed(failure) => {
                assert_eq!(
                    (failure.reason.as_str(), failure.class),
                    (reason, class),
                    "{description}"
                );
                assert!(
                    !failure.message.is_empty() && !failure.message.ends_with('.'),
                    "{description}"
                );
            }
            other => panic!("{description}: {other:?}"),
        }
    }
}

#[test]
fn a_sidecar_that_is_killed_in_the_end_does_not_fail_the_work() {
    let with = |main: i32| {
        pod(&format!(
            "{{spec: {{nodeName: n1, initContainers: [{{name: proxy, restartPolicy: Always}}]}}, \
             status: {{phase: Running, \
             initContainerStatuses: [{{name: proxy, ready: false, restartCount: 0, image: x, imageID: x, state: {}}}], \
             containerStatuses: [{{name: main, ready: false, restartCount: 0, image: x, imageID: x, state: {}}}]}}}}",
            ended(143, ""),
            ended(main, ""),
        ))
    };
    assert!(matches!(with(0).end, PodEnd::Succeeded(_)));
    match with(3).end {
        PodEnd::Failed(failure) => assert!(failure.message.contains("main exited with code 3")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_container_that_says_something_speaks() {
    let one = |name: &str, message: &str| {
        format!(
            "{{name: {name}, ready: false, restartCount: 0, image: x, imageID: x, state: {{terminated: {{exitCode: 0, message: '{message}'}}}}}}"
        )
    };
    let pod = pod(&format!(
        "{{spec: {{nodeName: n1}}, status: {{phase: Succeeded, containerStatuses: [{}, {}, {}]}}}}",
        one("quiet", " "),
        one("main", r#"{"result": {"rows": 3}}"#),
        one("late", r#"{"result": {"rows": 4}}"#),
    ));
    let PodEnd::Succeeded(report) = pod.end else { panic!("{:?}", pod.end) };
    assert_eq!(report.result.unwrap()["rows"], crate::api::ResultValue::Integer(3));
}

#[test]
fn what_keeps_a_pod_from_starting_is_said() {
    for (description, pod, expected) in [
        (
            "usual preparations",
            bound("Pending", "{waiting: {reason: ContainerCreating}}", ""),
            None,
        ),
        ("running", bound("Running", "{running: {}}", ""), None),
        (
            "no such image",
            bound("Pending", "{waiting: {reason: ErrImagePull, message: not found}}", ""),
            Some((
                "ErrImagePull",
                "container main cannot start (ErrImagePull): not found",
                FailureClass::Deterministic,
            )),
        ),
        (
            "no such ConfigMap",
            bound("Pending", "{waiting: {reason: CreateContainerConfigError}}", ""),
            Some((
                "CreateContainerConfigError",
                "container main cannot start (CreateContainerConfigError)",
                FailureClass::Deterministic,
            )),
        ),
        (
            "no room",
            pod(
                "{status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: 0/1 nodes}]}}",
            ),
            Some(("Unschedulable", "no node takes the pod: 0/1 nodes", FailureClass::Transient)),
        ),
    ] {
        let said = pod.waiting.as_ref().map(|w| (w.reason.as_str(), w.message.as_str(), w.class));
        assert_eq!(said, expected, "{description}");
    }
}
