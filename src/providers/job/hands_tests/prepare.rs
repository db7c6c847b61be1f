//! Preparing and releasing.

use super::*;

#[tokio::test(start_paused = true)]
async fn prepare_creates_an_inert_job_and_gives_its_uid() {
    let scene = scene();
    let committed = scene.prepared().await;
    let stored = scene.fake.stored(JOB).unwrap();
    assert_eq!(committed.handle.as_deref(), stored["metadata"]["uid"].as_str());
    assert_eq!(stored["spec"]["suspend"], true);
    assert_eq!(stored["metadata"]["annotations"]["punctual.dev/epoch"], "7");
    let container = &stored["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["newField"], 1, "what this version does not know is kept");
    assert_eq!(scene.requests(), [format!("POST {JOBS}")]);
    assert_eq!(scene.status(&committed).await, RunStatus::Held);
    assert_eq!(scene.prepare().await, Ok(Prepared::Ready { handle: committed.handle.unwrap() }));
    assert_eq!(scene.requests(), [format!("POST {JOBS}"), format!("GET {JOB}")], "nothing changed");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_the_create_does_not_create_twice() {
    let scene = scene();
    scene.fake.fault(Method::POST, "jobs", Fault::LoseResponse);
    let committed = scene.prepared().await;
    let stored = scene.fake.stored(JOB).unwrap();
    assert_eq!(committed.handle.as_deref(), stored["metadata"]["uid"].as_str());
    assert_eq!(scene.requests(), [format!("POST {JOBS}"), format!("GET {JOB}")]);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_terms_job_is_taken_over_by_a_conditional_write_of_the_own_epoch() {
    let scene = scene();
    scene.prepared().await;
    scene.edit_job("{metadata: {annotations: {punctual.dev/epoch: '5'}}}");
    let stored = scene.fake.stored(JOB).unwrap();
    scene.fake.clear_log();
    let adopted = scene.prepared().await;
    assert_eq!(adopted.handle.as_deref(), stored["metadata"]["uid"].as_str());
    let patch = scene.logged().pop().unwrap();
    assert_eq!(patch.method, Method::PATCH);
    assert_eq!(
        patch.body,
        json!({"metadata": {
            "uid": stored["metadata"]["uid"],
            "resourceVersion": stored["metadata"]["resourceVersion"],
            "annotations": {"punctual.dev/epoch": "7"},
        }})
    );
    scene.edit_job("{metadata: {annotations: {punctual.dev/epoch: '5'}}}");
    scene.fake.fault(Method::PATCH, "jobs", Fault::Refuse(409, "Conflict"));
    let conflict = scene.prepare().await;
    assert!(matches!(conflict, Err(ProviderError::Conflict(_))), "{conflict:?}");
}

#[tokio::test(start_paused = true)]
async fn a_newer_terms_job_is_left_alone() {
    for template in ["", ", punctual.dev/template-hash: x"] {
        let scene = scene();
        scene.prepared().await;
        scene.edit_job(&format!(
            "{{metadata: {{annotations: {{punctual.dev/epoch: '9'{template}}}}}}}"
        ));
        let stored = scene.fake.stored(JOB);
        let answer = scene.prepare().await;
        assert!(matches!(answer, Ok(Prepared::NotYet { .. })), "{answer:?}");
        assert_eq!(scene.fake.stored(JOB), stored, "neither taken over nor removed");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_way_is_removed_only_if_it_is_ours_and_inert() {
    let annotate = |text: &str| format!("{{metadata: {{annotations: {{{text}}}}}}}");
    let other_template = annotate("punctual.dev/template-hash: x");
    let runs = "{spec: {suspend: false}}";
    for (description, edits, expected, deletes) in [
        ("another template, held", vec![other_template.as_str()], "NotYet another template", true),
        (
            "another template, let run",
            vec![other_template.as_str(), runs],
            "NameConflict another template",
            false,
        ),
        (
            "of a former parent, held",
            vec![&*annotate("punctual.dev/parent-uid: parent-0")],
            "NotYet deleted MaintenanceOccurrence",
            true,
        ),
        (
            "of a former parent, released, not begun",
            vec![&*annotate("punctual.dev/parent-uid: parent-0"), runs],
            "NotYet has not begun",
            false,
        ),
        (
            "being deleted",
            vec!["{metadata: {deletionTimestamp: '2026-11-29T02:00:00Z'}}"],
            "NotYet being deleted",
            false,
        ),
        (
            "somebody's",
            vec![&*annotate("punctual.dev/run-key: null")],
            "NameConflict not made by Punctual",
            false,
        ),
    ] {
        let scene = scene();
        scene.prepared().await;
        for edit in edits {
            scene.edit_job(edit);
        }
        let stored = scene.fake.stored(JOB).unwrap();
        scene.fake.clear_log();
        let (kind, message) = match scene.prepare().await.unwrap() {
            Prepared::NotYet { message } => ("NotYet", message),
            Prepared::NameConflict { message } => ("NameConflict", message),
            other => panic!("{description}: {other:?}"),
        };
        let (expected_kind, part) = expected.split_once(' ').unwrap();
        assert_eq!(kind, expected_kind, "{description}: {message}");
        assert!(message.contains(part), "{description}: {message}");
        let log = scene.logged();
        let writes: Vec<_> = log.iter().filter(|entry| entry.method != Method::GET).collect();
        assert_eq!(writes[0].code, 409, "{description}: the refused create");
        assert_eq!(writes.len(), if deletes { 2 } else { 1 }, "{description}");
        if deletes {
            assert_exact_deletion(writes[1], &stored, "Foreground");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_end_or_wait_and_no_answer_is_neither() {
    for (code, reason, expected) in [
        (422, "Invalid", "Refused"),
        (400, "BadRequest", "Refused"),
        (413, "RequestEntityTooLarge", "Refused"),
        (403, "Forbidden", "NotYet"),
        (404, "NotFound", "NotYet"),
        (429, "TooManyRequests", "Unreachable"),
        (500, "InternalError", "Unreachable"),
    ] {
        let scene = scene();
        scene.fake.fault(Method::POST, "jobs", Fault::Refuse(code, reason));
        let kind = match scene.prepare().await {
            Ok(Prepared::Refused { message }) => {
                assert!(message.starts_with("run.job.template is refused"), "{message}");
                "Refused"
            }
            Ok(Prepared::NotYet { .. }) => "NotYet",
            Err(ProviderError::Unreachable(_)) => "Unreachable",
            other => panic!("{code}: {other:?}"),
        };
        assert_eq!(kind, expected, "{code}");
    }
    let mut scene = scene();
    scene.request = fixtures::request("{spec: {restartPolicy: Always, containers: [{name: m}]}}");
    assert!(matches!(scene.prepare().await, Ok(Prepared::Refused { .. })));
    assert!(scene.requests().is_empty(), "nothing is asked for what can never be");
}

#[tokio::test(start_paused = true)]
async fn acceptance_is_a_dry_run() {
    let scene = scene();
    let accept = || scene.provider.accept(&scene.request);
    assert_eq!(accept().await, Ok(Acceptance::Accepted));
    let log = scene.logged();
    assert!(log[0].query.contains("dryRun=All"), "{}", log[0].query);
    assert_eq!(scene.fake.stored(JOB), None);
    scene.fake.fault(Method::POST, "jobs", Fault::Refuse(422, "Invalid"));
    assert!(matches!(accept().await, Ok(Acceptance::Refused { .. })));
    scene.fake.fault(Method::POST, "jobs", Fault::Refuse(403, "Forbidden"));
    assert!(matches!(accept().await, Ok(Acceptance::NotYet { .. })));
    scene.fake.fault(Method::POST, "jobs", Fault::LoseRequest);
    assert!(matches!(accept().await, Err(ProviderError::Unreachable(_))));
    scene.prepared().await;
    assert_eq!(accept().await, Ok(Acceptance::Accepted), "the name is taken, so the rest is valid");
}

#[tokio::test(start_paused = true)]
async fn release_is_one_conditional_patch_and_happens_once() {
    let scene = scene();
    let committed = scene.prepared().await;
    let stored = scene.fake.stored(JOB).unwrap();
    scene.fake.clear_log();
    scene.release(&committed).await.unwrap();
    let log = scene.logged();
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].method, Method::PATCH);
    assert_eq!(
        log[0].body,
        json!({
            "metadata": {
                "uid": stored["metadata"]["uid"],
                "resourceVersion": stored["metadata"]["resourceVersion"],
                "annotations": {"punctual.dev/released": "7"},
            },
            "spec": {"suspend": false},
        })
    );
    scene.release(&committed).await.unwrap();
    assert!(scene.requests().is_empty(), "released already");
    assert_eq!(scene.status(&committed).await, RunStatus::Released { pod: None, waiting: None });
    assert!(scene.requests().is_empty(), "the own write is known at once");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_meets_the_job_controllers_first_write_reads_again() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.fake.edit(JOB, |job| job["status"] = json!({"conditions": []})); // not seen by watch yet
    scene.fake.clear_log();
    scene.release(&committed).await.unwrap();
    let patch = format!("PATCH {JOB}");
    assert_eq!(scene.requests(), [patch.clone(), format!("GET {JOB}"), patch]);
    assert_eq!(scene.fake.stored(JOB).unwrap()["spec"]["suspend"], false);
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_replaced_or_lost_is_not_released() {
    let released = "{metadata: {annotations: {punctual.dev/released: '5'}}}";
    for (description, edits) in [
        ("suspended by others after an earlier release", vec![released]),
        ("being deleted", vec!["{metadata: {deletionTimestamp: '2026-11-29T02:00:00Z'}}"]),
        ("replaced by one of the same name", vec!["{metadata: {uid: another}}"]),
    ] {
        let scene = scene();
        let committed = scene.prepared().await;
        for edit in edits {
            scene.edit_job(edit);
        }
        scene.fake.clear_log();
        let refused = scene.release(&committed).await;
        assert!(matches!(refused, Err(ProviderError::Conflict(_))), "{description}: {refused:?}");
        let patched = scene.requests().iter().any(|request| request.starts_with("PATCH"));
        assert!(!patched, "{description}");
    }
    let scene = scene();
    let committed = scene.prepared().await;
    scene.fake.remove(JOB);
    let gone = scene.release(&committed).await;
    assert!(matches!(gone, Err(ProviderError::Conflict(_))), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_without_leading() {
    let scene = scene();
    let committed = scene.prepared().await;
    let (parent, permit) = (scene.parent(), scene.permit());
    scene.gate.lose();
    scene.fake.clear_log();
    let lost = ProviderError::NotLeading;
    let handle = committed.handle.as_deref().unwrap();
    let provider = &scene.provider;
    assert_eq!(provider.prepare(&parent, &scene.request).await, Err(lost.clone()));
    assert_eq!(provider.release(&parent, &scene.request, handle).await, Err(lost.clone()));
    let committed = stopping(&committed);
    assert_eq!(provider.cancel(&permit, &scene.request, &committed, false).await, Err(lost));
    assert!(scene.requests().iter().all(|request| request.starts_with("GET")));
}
