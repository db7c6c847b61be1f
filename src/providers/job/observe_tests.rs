use super::*;
use crate::{
    api::ResultValue,
    providers::{Waiting, job::fixtures},
    time::LeaseInstant,
};

const START: &str = "2026-11-29T02:00:05Z";
const RELEASED: &str = "metadata: {annotations: {punctual.dev/released: '7'}}";
const BEGUN: &str = "startTime: '2026-11-29T02:00:01Z'";

/// A case under construction.
struct Case {
    class: ActionClass,
    committed: Committed,
    job: Option<JobDigest>,
    seen: Seen,
    nodes: BTreeMap<String, NodeSight>,
    absent_for: Option<u64>,
}

/// A committed Fenced run of which nothing is there and nothing was seen.
fn case() -> Case {
    let committed = Committed { handle: Some("job-1".into()), ..Committed::default() };
    Case {
        class: ActionClass::Fenced,
        committed,
        job: None,
        seen: Seen::default(),
        nodes: BTreeMap::new(),
        absent_for: None,
    }
}

impl Case {
    fn class(mut self, class: ActionClass) -> Self {
        self.class = class;
        self
    }

    fn stop_requested(mut self) -> Self {
        self.committed.stop_requested = Some(START.parse().unwrap());
        self
    }

    fn recorded(mut self, uid: &str, node: &str, node_uid: Option<&str>) -> Self {
        self.committed.pod = Some(PodRef {
            uid: uid.into(),
            node: Some(node.into()),
            node_uid: node_uid.map(Into::into),
        });
        self
    }

    /// The Job is there like this.
    fn job(mut self, yaml: &str) -> Self {
        let job = fixtures::job(yaml);
        self.seen.saw_job(&job);
        self.job = Some(job);
        self
    }

    /// The Job was there like this, and is gone.
    fn job_was(mut self, yaml: &str) -> Self {
        self.seen.saw_job(&fixtures::job(yaml));
        self.seen.present = false;
        self
    }

    /// A pod is there like this.
    fn pod(mut self, yaml: &str) -> Self {
        self.seen.saw_pod(fixtures::pod(yaml));
        self
    }

    /// A pod was there like this, and is gone; its node was read then.
    fn pod_was(mut self, yaml: &str, node_uid: &str) -> Self {
        let pod = fixtures::pod(yaml);
        let uid = pod.uid.clone();
        self.seen.saw_pod(pod);
        let known = self.seen.pods.iter_mut().find(|known| known.pod.uid == uid).unwrap();
        known.node_uid = Some(node_uid.into());
        self.seen.pod_gone(&uid, false);
        self
    }

    fn node(mut self, name: &str, sight: NodeSight) -> Self {
        self.nodes.insert(name.into(), sight);
        self
    }

    fn ready(self, name: &str, uid: &str) -> Self {
        self.node(name, NodeSight::There { uid: uid.into(), ready: true })
    }

    fn absent_for(mut self, seconds: u64) -> Self {
        self.absent_for = Some(seconds);
        self
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            class: self.class,
            committed: &self.committed,
            job: self.job.as_ref(),
            seen: &self.seen,
            nodes: &self.nodes,
            absent_for: self.absent_for.map(Duration::from_secs),
        }
    }

    /// The status in one line: kind, and what tells it apart.
    fn says(&self) -> String {
        match observe(&self.facts()) {
            RunStatus::Held => "Held".into(),
            RunStatus::Released { pod, waiting } => {
                let pod = pod.map(|pod| format!(" {}", pod.uid)).unwrap_or_default();
                let why = waiting.map(|w: Waiting| format!(" {}", w.reason)).unwrap_or_default();
                format!("Released{pod}{why}")
            }
            RunStatus::Running { started, pod } => {
                let pod = pod.map(|pod| format!(" {pod:?}")).unwrap_or_default();
                assert_eq!(started.to_string(), START);
                format!("Running{pod}").replace("PodRef ", "")
            }
            RunStatus::Succeeded { result_lost, .. } if result_lost => "Succeeded, lost".into(),
            RunStatus::Succeeded { .. } => "Succeeded".into(),
            RunStatus::Failed { reason, class, .. } => format!("Failed {reason} {class:?}"),
            RunStatus::Absent => "Absent".into(),
            RunStatus::Stopping => "Stopping".into(),
            RunStatus::Unknown { reason, message } => {
                assert!(message.len() > 20, "a sentence: {message}");
                format!("Unknown {reason}")
            }
            RunStatus::StoppedByOthers { .. } => "StoppedByOthers".into(),
        }
    }
}

/// Runs a table of `description => case, expected`.
fn check<const N: usize>(table: [(&str, Case, &str); N]) {
    for (description, case, expected) in table {
        assert_eq!(case.says(), expected, "{description}");
    }
}

fn pod_in(phase: &str, state: &str, more: &str) -> String {
    format!(
        "{{spec: {{nodeName: n1}}, status: {{phase: {phase}, containerStatuses: [{{name: main, \
         ready: true, restartCount: 0, image: x, imageID: x, state: {state}}}]{more}}}}}"
    )
}

fn running() -> String {
    pod_in("Running", &format!("{{running: {{startedAt: '{START}'}}}}"), "")
}

fn ended(code: i32) -> String {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    pod_in(phase, &format!("{{terminated: {{exitCode: {code}, startedAt: '{START}'}}}}"), "")
}

fn unbound() -> String {
    "{status: {phase: Pending}}".into()
}

fn never_bound() -> String {
    "{metadata: {deletionTimestamp: '2026-11-29T02:01:00Z'}, status: {phase: Pending}}".into()
}

fn job_with(status: &str) -> String {
    format!("{{{RELEASED}, spec: {{suspend: false}}, status: {{{BEGUN}, {status}}}}}")
}

fn complete_job() -> String {
    job_with("succeeded: 1, conditions: [{type: Complete, status: 'True'}]")
}

fn failed_job(reason: &str) -> String {
    job_with(&format!(
        "failed: 1, conditions: [{{type: Failed, status: 'True', reason: {reason}}}]"
    ))
}

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
        }
    );
}

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
    seen.saw_pod(fixtures::pod(&running()));
    assert_eq!(seen.absent_since, None, "the watch counts too");
}
