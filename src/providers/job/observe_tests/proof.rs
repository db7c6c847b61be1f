//! Whether a run is over.

use super::*;

#[test]
fn failed_is_no_proof() {
    let policy = failed_job("PodFailurePolicy");
    let limit = failed_job("BackoffLimitExceeded");
    let gone = || case().job(&policy).pod_was(&running(), "u1");
    check([
        ("its pod ended", case().job(&limit).pod(&ended(1)), "Failed ExitCode Transient"),
        (
            "its pod was seen to end and is gone",
            case().job(&limit).pod_was(&ended(1), "u1"),
            "Failed ExitCode Transient",
        ),
        (
            "its pod is still there and runs",
            case().job(&policy).pod(&running()),
            "Unknown EndNotSeen",
        ),
        (
            "its pod is still there and runs, its node is Ready",
            case()
                .job(&policy)
                .pod(&running())
                .recorded("pod-1", "n1", Some("u1"))
                .ready("n1", "u1")
                .stop_requested(),
            "Unknown EndNotSeen",
        ),
        ("its pod vanished, its node was not read", gone(), "Unknown EndNotSeen"),
        (
            "its pod vanished, its node too",
            gone().node("n1", NodeSight::Gone),
            "Unknown EndNotSeen",
        ),
        ("its pod vanished, its node was replaced", gone().ready("n1", "u2"), "Unknown EndNotSeen"),
        (
            "its pod vanished, its node is not Ready",
            gone().node("n1", NodeSight::There { uid: "u1".into(), ready: false }),
            "Unknown EndNotSeen",
        ),
        (
            "its pod vanished, nodes may not be read",
            gone().node("n1", NodeSight::Forbidden),
            "Unknown EndNotSeen",
        ),
        (
            "its pod vanished, its node is Ready, too early to tell",
            gone().ready("n1", "u1"),
            "Stopping",
        ),
        (
            "its pod vanished, its node is Ready 59 s later",
            gone().ready("n1", "u1").absent_for(59),
            "Stopping",
        ),
        (
            "its pod vanished, its node is Ready a minute later",
            gone().ready("n1", "u1").absent_for(60),
            "Failed Disrupted Disruption",
        ),
        (
            "its pod vanished after a requested stop, its node is Ready",
            gone().ready("n1", "u1").stop_requested(),
            "Failed Disrupted Disruption",
        ),
        (
            "its pod is known from the record alone, its node is Ready",
            case().job(&limit).recorded("pod-1", "n1", Some("u1")).ready("n1", "u1").absent_for(60),
            "Failed BackoffLimitExceeded Transient",
        ),
        (
            "recorded without the uid of its node",
            case().job(&limit).recorded("pod-1", "n1", None).ready("n1", "u1").absent_for(60),
            "Unknown EndNotSeen",
        ),
        (
            "it counts a pod that nobody saw",
            case().job(&limit).absent_for(600),
            "Unknown EndNotSeen",
        ),
        (
            "it never had a pod",
            case().job(&job_with(
                "conditions: [{type: Failed, status: 'True', reason: DeadlineExceeded}]",
            )),
            "Failed DeadlineExceeded Transient",
        ),
        (
            "its pod was never bound",
            case().job(&limit).pod(&never_bound()),
            "Failed BackoffLimitExceeded Transient",
        ),
        ("weak class: no difference", gone().class(ActionClass::ReadOnly), "Unknown EndNotSeen"),
        (
            "its pod did the work, but the Job says failed",
            case().job(&failed_job("DeadlineExceeded")).pod(&ended(0)),
            "Failed DeadlineExceeded Transient",
        ),
    ]);
}

#[test]
fn a_second_pod_is_never_explained_away() {
    let second = |yaml: &str| yaml.replacen('{', "{metadata: {uid: pod-2}, ", 1);
    let released = job_with("active: 1");
    let mut many = case().job(&released);
    many.seen.overflow = true;
    check([
        (
            "both run",
            case().job(&released).pod(&running()).pod(&second(&running())),
            "Unknown DuplicatePod",
        ),
        (
            "the recorded one is another",
            case().job(&released).recorded("pod-0", "n1", Some("u1")).pod(&running()),
            "Unknown DuplicatePod",
        ),
        (
            "one is gone",
            case().job(&released).pod_was(&running(), "u1").pod(&second(&running())),
            "Unknown DuplicatePod",
        ),
        (
            "even if the Job completed",
            case().job(&complete_job()).pod(&ended(1)).pod(&second(&ended(0))),
            "Unknown DuplicatePod",
        ),
        (
            "even if a stop was requested",
            case().job(&released).pod(&running()).pod(&second(&running())).stop_requested(),
            "Unknown DuplicatePod",
        ),
        ("more than are remembered", many, "Unknown DuplicatePod"),
        (
            "orphans of a deleted Job",
            case().pod(&running()).pod(&second(&running())),
            "Unknown DuplicatePod",
        ),
        (
            "the first was never bound, so only one ran",
            case().job(&complete_job()).pod_was(&never_bound(), "u1").pod(&second(&ended(0))),
            "Succeeded",
        ),
        (
            "all gone: each needs its proof",
            case()
                .pod_was(&running(), "u1")
                .pod_was(&second(&running()), "u9")
                .ready("n1", "u1")
                .stop_requested(),
            "Unknown EndNotSeen",
        ),
        (
            "all gone and both proven over",
            case()
                .pod_was(&running(), "u1")
                .pod_was(&second(&running()), "u1")
                .ready("n1", "u1")
                .stop_requested(),
            "Absent",
        ),
    ]);
}

#[test]
fn a_vanished_job_needs_a_proof_of_the_end() {
    let begun = job_with("active: 1");
    let gone = || case().job_was(&begun).pod_was(&running(), "u1");
    let leaving =
        running().replacen('{', &format!("{{metadata: {{deletionTimestamp: '{START}'}}, "), 1);
    check([
        ("unknown to the API and to this process", case(), "Unknown EndNotSeen"),
        ("the same, long after", case().absent_for(3600), "Unknown EndNotSeen"),
        (
            "the same, stop requested",
            case().stop_requested().absent_for(3600),
            "Unknown EndNotSeen",
        ),
        ("its pod is still being ended", case().job_was(&begun).pod(&leaving), "Stopping"),
        (
            "its pod was orphaned and runs on",
            case().job_was(&begun).pod(&running()).recorded("pod-1", "n1", Some("u1")),
            r#"Running { uid: "pod-1", node: Some("n1"), node_uid: Some("u1") }"#,
        ),
        ("its orphaned pod succeeded", case().pod(&ended(0)), "Succeeded"),
        (
            "its pod was seen to fail",
            case().job_was(&begun).pod_was(&ended(143), "u1"),
            "Failed ExitCode Transient",
        ),
        (
            "its pod was seen to succeed",
            case().pod_was(&ended(0), "u1").stop_requested(),
            "Succeeded",
        ),
        (
            "its node was removed",
            gone().node("n1", NodeSight::Gone).absent_for(600),
            "Unknown EndNotSeen",
        ),
        (
            "its node was removed, stop requested",
            gone().node("n1", NodeSight::Gone).stop_requested().absent_for(600),
            "Unknown EndNotSeen",
        ),
        ("its node was replaced", gone().ready("n1", "u2").stop_requested(), "Unknown EndNotSeen"),
        (
            "its node is Ready, and we asked for the end",
            gone().ready("n1", "u1").stop_requested(),
            "Absent",
        ),
        (
            "its node is Ready, but we did not ask",
            gone().ready("n1", "u1").absent_for(59),
            "Stopping",
        ),
        ("its node is Ready a minute later", gone().ready("n1", "u1").absent_for(60), "Absent"),
        (
            "a new leader has the record alone",
            case().recorded("pod-1", "n1", Some("u1")).ready("n1", "u1").stop_requested(),
            "Absent",
        ),
        (
            "its pod vanished while it was not bound, unseen",
            case().job_was(&begun).pod_was(&unbound(), "u1").stop_requested().absent_for(600),
            "Unknown EndNotSeen",
        ),
    ]);
}

#[test]
fn before_the_controller_began_absence_counts_after_a_minute_without_a_pod() {
    let released = format!("{{{RELEASED}, spec: {{suspend: false}}}}");
    let by_others = format!("{{{RELEASED}, spec: {{suspend: true}}}}");
    let began = job_with("active: 0");
    let counted = job_with("active: 1");
    let mut held = case();
    held.seen.deleted_held = true;
    check([
        ("deleted by us while held", held, "Absent"),
        (
            "vanished while held, too early",
            case().job_was("{spec: {suspend: true}}").absent_for(59),
            "Stopping",
        ),
        ("vanished while held", case().job_was("{spec: {suspend: true}}").absent_for(60), "Absent"),
        ("vanished before it began, not looked for yet", case().job_was(&released), "Stopping"),
        (
            "vanished before it began, too early",
            case().job_was(&released).absent_for(59),
            "Stopping",
        ),
        ("vanished before it began", case().job_was(&released).absent_for(60), "Absent"),
        (
            "suspended by others, deleted, too early",
            case().job_was(&by_others).stop_requested().absent_for(59),
            "Stopping",
        ),
        (
            "suspended by others, deleted",
            case().job_was(&by_others).stop_requested().absent_for(60),
            "Absent",
        ),
        (
            "began, but was never given a pod (quota)",
            case().job_was(&began).stop_requested().absent_for(60),
            "Absent",
        ),
        (
            "began and counted a pod that nobody saw",
            case().job_was(&counted).stop_requested().absent_for(600),
            "Unknown EndNotSeen",
        ),
        (
            "its only pod was never bound, and the Job was deleted after it began",
            case().job_was(&counted).pod_was(&never_bound(), "u1").stop_requested(),
            "Absent",
        ),
        (
            "its only pod was never bound, the beginning was not seen",
            case().pod_was(&never_bound(), "u1").stop_requested().absent_for(59),
            "Stopping",
        ),
        (
            "the same, a minute later",
            case().pod_was(&never_bound(), "u1").stop_requested().absent_for(60),
            "Absent",
        ),
    ]);
}

#[test]
fn for_weak_classes_absence_after_a_requested_stop_suffices() {
    for class in [ActionClass::ReadOnly, ActionClass::Idempotent] {
        check([
            ("unknown to all", case().class(class).stop_requested(), "Absent"),
            (
                "but not without the request",
                case().class(class).absent_for(600),
                "Unknown EndNotSeen",
            ),
            (
                "nor while its pod runs",
                case().class(class).pod_was(&running(), "u1").pod(&running()).stop_requested(),
                r#"Running { uid: "pod-1", node: Some("n1"), node_uid: Some("u1") }"#,
            ),
            (
                "its node was removed",
                case()
                    .class(class)
                    .pod_was(&running(), "u1")
                    .node("n1", NodeSight::Gone)
                    .stop_requested(),
                "Absent",
            ),
            (
                "an outcome that was seen is still told",
                case().class(class).pod_was(&ended(0), "u1").stop_requested(),
                "Succeeded",
            ),
        ]);
    }
}

#[test]
fn sixty_seconds_are_counted_from_the_first_look_that_found_nothing() {
    let at = |secs| LeaseInstant::from_nanos(0).after(Duration::from_secs(secs));
    let mut seen = Seen::default();
    let job = fixtures::job("{spec: {suspend: false}}");
    seen.saw_live(Some(&job), &[], at(1));
    assert_eq!(seen.absent_since, None, "a Job that could make a pod is there");
    seen.saw_live(None, &[], at(2));
    seen.saw_live(None, &[], at(3));
    assert_eq!(seen.absent_since, Some(at(2)));
    seen.saw_live(None, &[fixtures::pod(&running())], at(4));
    assert_eq!(seen.absent_since, None, "a late pod starts the count anew");
    seen.saw_live(Some(&fixtures::job(&failed_job("X"))), &[], at(5));
    assert_eq!(seen.absent_since, Some(at(5)), "a failed Job makes none");
    seen.saw_job(&fixtures::job(&failed_job("X")));
    assert_eq!(seen.absent_since, Some(at(5)), "however often it is seen");
    seen.saw_pod(fixtures::pod(&running()));
    assert_eq!(seen.absent_since, None, "the watch counts too");
}
