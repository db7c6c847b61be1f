//! How a run stands, by caches and live reads.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_life_of_a_run_costs_one_read_of_its_node() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.release(&committed).await.unwrap();
    scene.edit_job(&begun(""));
    scene.put_pod(&committed, &running());
    scene.fake.clear_log();
    let RunStatus::Running { started, pod: Some(pod) } = scene.status(&committed).await else {
        panic!("not running")
    };
    assert_eq!(started.to_string(), AT);
    let node = scene.fake.stored(NODE).unwrap();
    assert_eq!(pod.node_uid.as_deref(), node["metadata"]["uid"].as_str());
    assert_eq!(pod.node.as_deref(), Some("n1"));
    let recorded = Committed { pod: Some(pod), ..committed.clone() };
    scene.status(&recorded).await;
    assert_eq!(scene.requests(), [format!("GET {NODE}")]);

    let message = r#"{"result": {"rows": 3}}"#;
    let ended = status(&format!("{{terminated: {{exitCode: 0, message: '{message}'}}}}"));
    scene.fake.edit(POD, |pod| {
        *pod = merged(pod.take(), yaml::from_str(&format!("{{{ended}}}")).unwrap());
    });
    scene.provider.sightings.pod_changed(None, Some(&scene.pod()), true);
    scene.edit_job(&begun(", conditions: [{type: Complete, status: 'True'}]"));
    let status = scene.status(&recorded).await;
    assert!(matches!(status, RunStatus::Succeeded { result: Some(_), .. }), "{status:?}");
    assert!(scene.requests().is_empty(), "all of it was seen by watch");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_the_watch_has_not_shown_is_read_live() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.release(&committed).await.unwrap();
    let pod = format!("{{{}}}", status("{terminated: {exitCode: 3}}"));
    let labels = json!({
        "punctual.dev/parent-uid": "parent-1",
        LABEL_CONTROLLER_UID: committed.handle.as_deref().unwrap(),
    });
    let base = json!({"metadata": {"name": "p1", "labels": labels}, "spec": {"nodeName": "n1"}});
    scene.fake.put(PODS, merged(base, yaml::from_str(&pod).unwrap()));
    scene.edit_job(&begun(", conditions: [{type: Failed, status: 'True'}]"));
    scene.fake.clear_log();
    match scene.status(&committed).await {
        RunStatus::Failed { reason, .. } => assert_eq!(reason, "ExitCode"),
        other => panic!("{other:?}"),
    }
    let requests = scene.requests();
    assert_eq!(requests[..2], [format!("GET {JOB}"), format!("GET {PODS}")], "the Job first");
}

#[tokio::test(start_paused = true)]
async fn a_removed_node_never_proves_the_end() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.release(&committed).await.unwrap();
    scene.edit_job(&begun(""));
    scene.put_pod(&committed, &running());
    let RunStatus::Running { pod, .. } = scene.status(&committed).await else {
        panic!("not running")
    };
    let committed = stopping(&Committed { pod, ..committed });
    let node = scene.fake.stored(NODE).unwrap();
    scene.fake.remove(NODE);
    scene.remove_pod();
    scene.edit_job(&begun(", failed: 1, conditions: [{type: Failed, status: 'True'}]"));
    let unknown = |status: &RunStatus| matches!(status, RunStatus::Unknown { reason, .. } if reason == "EndNotSeen");
    let status = scene.status(&committed).await;
    assert!(unknown(&status), "{status:?}");
    // It comes back under the same name as another Node.
    scene.fake.put(NODES, node.clone());
    scene.wait(3600);
    let status = scene.status(&committed).await;
    assert!(unknown(&status), "{status:?}");
    // A new leader knows no more than what is recorded.
    let fresh = provider(&scene.fake, &scene.clock);
    let status = fresh.status(&scene.request, &committed).await.unwrap();
    assert!(unknown(&status), "{status:?}");
    // The same Node, Ready again.
    scene.fake.edit(NODE, |stored| stored["metadata"]["uid"] = node["metadata"]["uid"].clone());
    let status = fresh.status(&scene.request, &committed).await.unwrap();
    assert!(matches!(status, RunStatus::Failed { .. }), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_vanished_before_it_began_counts_as_absent_after_a_minute() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.release(&committed).await.unwrap();
    scene.fake.remove(JOB);
    let fresh = provider(&scene.fake, &scene.clock);
    scene.provider.jobs.observe(
        serde_json::from_value(scene.fake.put(
            JOBS,
            json!({
                "metadata": {"name": "nightly-202611290200-m1"}, "spec": {"template": {}},
            }),
        ))
        .unwrap(),
    );
    assert_eq!(scene.status(&committed).await, RunStatus::Stopping, "the name is another's");
    scene.wait(59);
    assert_eq!(scene.status(&committed).await, RunStatus::Stopping);
    scene.wait(1);
    assert_eq!(scene.status(&committed).await, RunStatus::Absent);
    let status = fresh.status(&scene.request, &committed).await.unwrap();
    assert!(
        matches!(status, RunStatus::Unknown { .. }),
        "who has not seen it unstarted cannot tell: {status:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_pod_starts_the_minute_anew() {
    let scene = scene();
    let committed = scene.prepared().await;
    scene.release(&committed).await.unwrap();
    let job = scene.fake.stored(JOB).unwrap();
    scene.fake.remove(JOB);
    scene.provider.sightings.job_changed(Some(&serde_json::from_value(job).unwrap()), None);
    scene.provider.jobs.observe(fixtures::k8s_job("{metadata: {resourceVersion: '9999'}}"));
    assert_eq!(scene.status(&committed).await, RunStatus::Stopping);
    scene.wait(59);
    scene.put_pod(&committed, &running());
    scene.wait(1);
    let status = scene.status(&committed).await;
    assert!(matches!(status, RunStatus::Running { .. }), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_or_cannot_be_understood_proves_nothing() {
    let scene = scene();
    let committed = Committed { handle: Some("uid-gone".into()), ..Committed::default() };
    let committed = stopping(&committed);
    scene.fake.fault(Method::GET, "jobs", Fault::Refuse(500, "InternalError"));
    let status = || scene.provider.status(&scene.request, &committed);
    assert!(matches!(status().await, Err(ProviderError::Unreachable(_))));
    scene.fake.fault(Method::GET, "pods", Fault::LoseRequest);
    assert!(matches!(status().await, Err(ProviderError::Unreachable(_))));
    let labels = json!({"punctual.dev/parent-uid": "parent-1"});
    scene.fake.put(PODS, json!({"metadata": {"name": "odd", "labels": labels}, "spec": "?"}));
    let unreadable = status().await;
    assert!(
        matches!(&unreadable, Err(ProviderError::Unreachable(why)) if why.contains("docs/odd")),
        "{unreadable:?}"
    );
}
