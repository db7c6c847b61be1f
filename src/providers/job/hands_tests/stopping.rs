//! Ending runs.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_run_is_stopped_only_after_the_request_is_recorded() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.fake.clear_log();
    let early = scene.cancel(&committed).await;
    assert!(matches!(early, Err(ProviderError::Conflict(_))), "{early:?}");
    assert_eq!(scene.cancel(&Committed::default()).await, Ok(CancelStep::Asked));
    assert!(scene.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_held_job_is_deleted_exactly_and_is_absent_at_once() {
    let scene = scene();
    let committed = stopping(&scene.prepared().await);
    let stored = scene.fake.stored(JOB).unwrap();
    scene.fake.clear_log();
    assert_eq!(scene.cancel(&committed).await, Ok(CancelStep::Asked));
    let delete = scene.logged().pop().unwrap();
    assert_exact_deletion(&delete, &stored, "Foreground");
    scene.provider.sightings.job_changed(Some(&serde_json::from_value(stored).unwrap()), None);
    scene.provider.jobs.observe(fixtures::k8s_job("{metadata: {resourceVersion: '9999'}}"));
    assert_eq!(scene.status(&committed).await, RunStatus::Absent);
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_job_that_was_let_run_proves_nothing() {
    for (description, edit) in [
        ("released and begun", begun("")),
        (
            "suspended after its pod was counted",
            begun(", failed: 1").replacen('{', "{spec: {suspend: true}, ", 1),
        ),
    ] {
        let scene = scene();
        let committed = scene.prepared().await;
        if description.starts_with("released") {
            scene.release(&committed).await.unwrap();
        }
        scene.edit_job(&edit);
        let last = serde_json::from_value(scene.fake.stored(JOB).unwrap()).unwrap();
        let committed = stopping(&committed);
        assert_eq!(scene.cancel(&committed).await, Ok(CancelStep::Asked), "{description}");
        assert_eq!(scene.fake.stored(JOB), None, "{description}");
        scene.provider.sightings.job_changed(Some(&last), None);
        scene.provider.jobs.observe(fixtures::k8s_job("{metadata: {resourceVersion: '9999'}}"));
        scene.wait(3600);
        let status = scene.status(&committed).await;
        assert!(matches!(status, RunStatus::Unknown { .. }), "{description}: {status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_job_is_deleted_only_once_its_controller_has_begun() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.release(&committed).await.unwrap();
    let committed = stopping(&committed);
    scene.fake.clear_log();
    assert!(matches!(scene.cancel(&committed).await, Ok(CancelStep::Waits { .. })));
    assert_eq!(scene.status(&committed).await, RunStatus::Stopping);
    assert!(scene.requests().iter().all(|request| request.starts_with("GET")));
    scene.edit_job(&begun(""));
    let stored = scene.fake.stored(JOB).unwrap();
    assert_eq!(scene.cancel(&committed).await, Ok(CancelStep::Asked));
    assert_exact_deletion(&scene.logged().pop().unwrap(), &stored, "Foreground");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_under_way_is_not_repeated_and_a_conflict_is_told() {
    let scene = scene();
    let committed = stopping(&scene.prepared().await);
    scene.fake.fault(Method::DELETE, "jobs", Fault::Refuse(409, "Conflict"));
    assert!(matches!(scene.cancel(&committed).await, Err(ProviderError::Conflict(_))));
    scene.edit_job("{metadata: {deletionTimestamp: '2026-11-29T02:00:00Z'}}");
    scene.fake.clear_log();
    assert_eq!(scene.cancel(&committed).await, Ok(CancelStep::Asked));
    assert!(scene.requests().is_empty());
    assert_eq!(scene.status(&committed).await, RunStatus::Stopping);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_stays_until_its_outcome_is_recorded() {
    let scene = scene();
    let committed = stopping(&scene.prepared().await);
    scene.edit_job(&begun(", conditions: [{type: Failed, status: 'True'}]"));
    scene.fake.clear_log();
    assert!(matches!(scene.cancel(&committed).await, Ok(CancelStep::Waits { .. })));
    assert!(scene.requests().iter().all(|request| request.starts_with("GET")));
    let recorded = scene.provider.cancel(&scene.permit(), &scene.request, &committed, true).await;
    assert_eq!(recorded, Ok(CancelStep::Asked));
    assert_eq!(scene.fake.stored(JOB), None);
}

#[tokio::test(start_paused = true)]
async fn pods_that_outlived_their_job_are_deleted_one_by_one() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.release(&committed).await.unwrap();
    scene.edit_job(&begun(""));
    scene.put_pod(&committed, &running());
    let committed = stopping(&committed);
    scene.fake.remove(JOB); // with --cascade=orphan
    scene.provider.jobs.observe(fixtures::k8s_job("{metadata: {resourceVersion: '9999'}}"));
    let status = scene.status(&committed).await;
    assert!(matches!(status, RunStatus::Running { .. }), "{status:?}");
    let stored = scene.fake.stored(POD).unwrap();
    assert_eq!(scene.cancel(&committed).await, Ok(CancelStep::Asked));
    assert_exact_deletion(&scene.logged().pop().unwrap(), &stored, "Background");
    scene.provider.sightings.pod_changed(
        Some(&serde_json::from_value(stored).unwrap()),
        None,
        true,
    );
    assert_eq!(scene.status(&committed).await, RunStatus::Absent, "its Node is Ready");
}

#[tokio::test(start_paused = true)]
async fn orphans_are_found_by_label_stopped_and_proven_over() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.release(&committed).await.unwrap();
    let attempts = || Some(vec![committed.clone()]);
    let fenced = ActionClass::Fenced;
    let not_yet = |orphans: &Orphans, part: &str| match orphans {
        Orphans::NotYet { message } => message.contains(part),
        Orphans::Over => false,
    };
    let orphans = scene.stop_orphans(fenced, attempts()).await;
    assert!(not_yet(&orphans, "has not begun"), "{orphans:?}");
    scene.edit_job(&begun(""));
    scene.put_pod(&committed, &running());
    scene.fake.clear_log();
    let orphans = scene.stop_orphans(fenced, attempts()).await;
    assert!(not_yet(&orphans, "is being ended"), "{orphans:?}");
    let log = scene.logged();
    assert!(log[0].query.contains("punctual.dev"), "by label: {}", log[0].query);
    assert!(log.iter().any(|entry| entry.method == Method::DELETE && entry.path == JOB));
    // The Job is gone, its pod is left behind and is deleted too; then it is gone as well.
    let orphans = scene.stop_orphans(fenced, attempts()).await;
    assert!(not_yet(&orphans, "p1 is being ended"), "{orphans:?}");
    assert_eq!(scene.fake.stored(POD), None);
    assert_eq!(scene.stop_orphans(fenced, attempts()).await, Orphans::Over);
}

#[tokio::test(start_paused = true)]
async fn orphans_of_which_nothing_is_known_are_over_only_if_that_cannot_matter() {
    let gone = Committed { handle: Some("uid-gone".into()), ..Committed::default() };
    let recorded = Committed {
        pod: Some(PodRef { uid: "p".into(), node: Some("n1".into()), node_uid: Some("x".into()) }),
        ..gone.clone()
    };
    for (description, class, attempts, over) in [
        ("nothing was committed", ActionClass::Fenced, Some(vec![]), true),
        ("prepared, not committed", ActionClass::Fenced, Some(vec![Committed::default()]), true),
        ("the object was never seen", ActionClass::Fenced, None, false),
        ("never seen, but it only reads", ActionClass::ReadOnly, None, true),
        ("never seen, but idempotent", ActionClass::Idempotent, None, true),
        ("a Job that nobody saw", ActionClass::Fenced, Some(vec![gone.clone()]), false),
        ("a Job that nobody saw, but it only reads", ActionClass::ReadOnly, Some(vec![gone]), true),
        ("a pod on a Node that was replaced", ActionClass::Fenced, Some(vec![recorded]), false),
    ] {
        let orphans = scene().stop_orphans(class, attempts).await;
        assert_eq!(orphans == Orphans::Over, over, "{description}: {orphans:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_ran_for_a_parent_that_nobody_recorded_is_remembered() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.release(&committed).await.unwrap();
    scene.edit_job(&begun(""));
    scene.put_pod(&committed, &running());
    scene.status(&committed).await;
    let node = scene.fake.stored(NODE).unwrap();
    scene.fake.remove(NODE);
    scene.remove_pod();
    scene.fake.remove(JOB);
    let orphans = scene.stop_orphans(ActionClass::Fenced, None).await;
    assert!(matches!(orphans, Orphans::NotYet { .. }), "its Node was removed: {orphans:?}");
    scene.fake.put(NODES, node.clone());
    scene.fake.edit(NODE, |stored| stored["metadata"]["uid"] = node["metadata"]["uid"].clone());
    assert_eq!(scene.stop_orphans(ActionClass::Fenced, None).await, Orphans::Over);
}

#[tokio::test(start_paused = true)]
async fn what_still_acts_for_a_parent_is_known_without_asking() {
    let scene = scene();
    assert!(!scene.provider.acts_for("parent-1"), "there is none");
    for (version, more, acts) in [
        (2, "{spec: {suspend: false}}", true),
        (3, "{spec: {suspend: true}}", true),
        (4, "{metadata: {deletionTimestamp: '2026-11-29T02:00:00Z'}}", false),
        (5, "{status: {conditions: [{type: Failed, status: 'True'}]}}", false),
    ] {
        let mut seen = fixtures::k8s_job(more);
        seen.metadata.resource_version = Some(version.to_string());
        scene.provider.jobs.observe(seen);
        assert_eq!(scene.provider.acts_for("parent-1"), acts, "{more}");
        assert!(!scene.provider.acts_for("parent-2"), "{more}");
    }
    assert!(scene.fake.log().is_empty(), "nobody was asked");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_read_keeps_its_orphans_from_being_over() {
    let scene = scene();
    let odd = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "odd", "labels": {"punctual.dev/parent-uid": "parent-1"}},
        "spec": "no object",
    });
    scene.fake.put("/apis/batch/v1/namespaces/docs/jobs", odd);
    let orphan = Orphan {
        namespace: "docs".into(),
        parent_uid: "parent-1".into(),
        class: ActionClass::ReadOnly,
        attempts: Some(vec![]),
        http: None,
        run_key: None,
    };
    let stopped = scene.provider.stop_orphans(&scene.permit(), &orphan).await;
    assert!(
        matches!(&stopped, Err(ProviderError::Unreachable(why)) if why.contains("docs/odd")),
        "{stopped:?}"
    );
}
