//! How a run stands.

use super::*;

#[test]
fn held_means_suspended_and_never_released() {
    let suspended = "spec: {suspend: true}";
    check([
        ("nothing committed", Case { committed: Committed::default(), ..case() }, "Absent"),
        ("prepared", case().job(&format!("{{{suspended}}}")), "Held"),
        (
            "prepared, stop requested",
            case().job(&format!("{{{suspended}}}")).stop_requested(),
            "Held",
        ),
        (
            "suspended after release",
            case().job(&format!("{{{RELEASED}, {suspended}}}")),
            "StoppedByOthers",
        ),
        (
            "suspended after release, stop requested",
            case().job(&format!("{{{RELEASED}, {suspended}}}")).stop_requested(),
            "StoppedByOthers",
        ),
        (
            "unsuspended and suspended by others: it has had a pod, so it is never released again",
            case().job(&format!("{{{suspended}}}")).pod(&running()),
            "StoppedByOthers",
        ),
        (
            "the same, and the pod is known from the record alone",
            case().job(&format!("{{{suspended}}}")).recorded("pod-1", "n1", Some("u1")),
            "StoppedByOthers",
        ),
        (
            "suspended while being deleted",
            case().job(&format!("{{{suspended}, metadata: {{deletionTimestamp: '{START}'}}}}")),
            "Stopping",
        ),
    ]);
}

#[test]
fn a_released_run_starts_with_its_first_container() {
    let released = format!("{{{RELEASED}, spec: {{suspend: false}}}}");
    let no_image = pod_in("Pending", "{waiting: {reason: ErrImagePull}}", "");
    let bound = r#"Running { uid: "pod-1", node: Some("n1"), node_uid: Some("u1") }"#;
    check([
        ("the controller has not begun", case().job(&released), "Released"),
        ("the controller has begun", case().job(&job_with("active: 0")), "Released"),
        ("unsuspended by others", case().job("{spec: {suspend: false}}"), "Released"),
        ("a pod, not bound", case().job(&job_with("active: 1")).pod(&unbound()), "Released"),
        (
            "a pod whose image does not exist",
            case().job(&job_with("active: 1")).pod(&no_image),
            "Released pod-1 ErrImagePull",
        ),
        (
            "a container runs; the node was recorded",
            case().job(&job_with("active: 1")).pod(&running()).recorded("pod-1", "n1", Some("u1")),
            bound,
        ),
        (
            "a container ended, the Job has not noticed",
            case().job(&job_with("active: 1")).pod(&ended(0)).recorded("pod-1", "n1", Some("u1")),
            bound,
        ),
        (
            "stop requested before the controller began",
            case().job(&released).stop_requested(),
            "Stopping",
        ),
        (
            "stop requested, not deleted yet",
            case().job(&job_with("active: 1")).stop_requested(),
            "Released",
        ),
        (
            "being deleted by anyone",
            case()
                .job(&format!(
                    "{{metadata: {{deletionTimestamp: '{START}'}}, status: {{{BEGUN}}}}}"
                ))
                .pod(&running()),
            "Stopping",
        ),
    ]);
    let mut read = case().job(&job_with("active: 1")).pod(&running());
    read.seen.pods[0].node_uid = Some("u1".into());
    assert_eq!(read.says(), bound, "the node was read just now");
}

#[test]
fn complete_is_a_proof_and_the_message_may_be_lost() {
    check([
        ("with its pod", case().job(&complete_job()).pod(&ended(0)), "Succeeded"),
        (
            "its pod is gone, but was seen",
            case().job(&complete_job()).pod_was(&ended(0), "u1"),
            "Succeeded",
        ),
        (
            "its pod is gone and was not seen to end",
            case().job(&complete_job()).pod_was(&running(), "u1"),
            "Succeeded, lost",
        ),
        ("its pod was never seen", case().job(&complete_job()), "Succeeded, lost"),
        (
            "its pod was listed by a server that lags behind",
            case().job(&complete_job()).pod(&running()),
            "Running { uid: \"pod-1\", node: Some(\"n1\"), node_uid: None }",
        ),
        (
            "being deleted meanwhile",
            case()
                .job(&complete_job().replace(
                    "annotations",
                    "deletionTimestamp: '2026-11-29T03:00:00Z', annotations",
                ))
                .pod(&ended(0)),
            "Succeeded",
        ),
        (
            "stop requested meanwhile",
            case().job(&complete_job()).pod(&ended(0)).stop_requested(),
            "Succeeded",
        ),
    ]);
    let message = r#"{"result": {"rows": 3}}"#;
    let pod = pod_in(
        "Succeeded",
        &format!(
            "{{terminated: {{exitCode: 0, startedAt: '{START}', finishedAt: '2026-11-29T02:00:09Z', message: '{message}'}}}}"
        ),
        "",
    );
    let case = case().job(&complete_job()).pod(&pod);
    assert_eq!(
        observe(&case.facts()),
        RunStatus::Succeeded {
            started: Some(START.parse().unwrap()),
            completed: Some("2026-11-29T02:00:09Z".parse().unwrap()),
            result: Some(BTreeMap::from([("rows".into(), ResultValue::Integer(3))])),
            result_lost: false,
            artifact: crate::providers::Delivered::Nothing,
        }
    );
}

#[test]
fn caches_suffice_until_something_rests_on_absence() {
    let released = format!("{{{RELEASED}, spec: {{suspend: false}}}}");
    for (description, case, expected) in [
        ("no Job", case(), true),
        ("held", case().job("{spec: {suspend: true}}"), false),
        ("released", case().job(&released), false),
        ("running", case().job(&job_with("active: 1")).pod(&running()), false),
        (
            "suspended by others",
            case().job(&format!("{{{RELEASED}, spec: {{suspend: true}}}}")),
            true,
        ),
        ("complete with its pod", case().job(&complete_job()).pod(&ended(0)), false),
        ("complete, its pod not seen", case().job(&complete_job()), true),
        ("complete, its pod not seen to end", case().job(&complete_job()).pod(&running()), true),
        ("failed with its pod", case().job(&failed_job("X")).pod(&ended(1)), false),
        ("failed, its pod not seen to end", case().job(&failed_job("X")).pod(&running()), true),
    ] {
        assert_eq!(needs_live_reads(&case.facts()), expected, "{description}");
    }
}
