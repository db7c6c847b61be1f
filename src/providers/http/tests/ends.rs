//! Runs whose parent is gone, and credentials.

use super::*;

fn orphan(run_key: Option<&str>, attempts: Option<Vec<Committed>>) -> Orphan {
    Orphan {
        namespace: "docs".into(),
        parent_uid: "parent-1".into(),
        class: ActionClass::Fenced,
        attempts,
        http: Some(HttpRun { url: URL.into(), credentials_secret_ref: None }),
        run_key: run_key.map(str::to_owned),
    }
}

#[tokio::test]
async fn runs_of_a_parent_that_is_gone_are_ended_as_far_as_its_claim_and_its_attempts_tell() {
    let first = request();
    let second = RunRequest {
        run_key: wire::next_key(&first.run_key).unwrap(),
        attempt: 2,
        ..first.clone()
    };
    // Only the claim is known: it names the first attempt, and the second runs.
    let scene = Scene::new();
    for request in [&first, &second] {
        let known = scene.prepared(request).await;
        scene.release(request, &known).await.unwrap();
    }
    let claimed = orphan(Some(&first.run_key), None);
    let stopped = scene.provider.stop_orphans(&scene.permit(), &claimed).await;
    assert_eq!(stopped, Ok(Orphans::Over));
    assert_eq!(scene.outside.tally(&second.run_key)["deletes"], 1);
    // Its last version is known, and nothing was committed: the key is closed for good.
    let scene = Scene::new();
    let idle = orphan(Some(&first.run_key), Some(Vec::new()));
    let stopped = scene.provider.stop_orphans(&scene.permit(), &idle).await;
    assert_eq!(stopped, Ok(Orphans::Over));
    let late = scene.provider.prepare(&scene.permit(), &first).await.unwrap();
    assert!(matches!(late, Prepared::Refused { .. }), "{late:?}");
    // No version of it is known, and neither does its service know it: it may have run.
    let scene = Scene::new();
    let stopped = scene.provider.stop_orphans(&scene.permit(), &claimed).await.unwrap();
    assert!(matches!(&stopped, Orphans::NotYet { message } if message.contains("abandon")));
    let reads = Orphan { class: ActionClass::ReadOnly, ..claimed };
    let stopped = scene.provider.stop_orphans(&scene.permit(), &reads).await;
    assert_eq!(stopped, Ok(Orphans::Over));
    // A committed run that its service has forgotten may still act.
    let scene = Scene::new();
    let known = scene.prepared(&first).await;
    scene.outside.control("POST", "/fake/forget", r#"{"match": "*"}"#);
    let recorded = orphan(None, Some(vec![known]));
    let stopped = scene.provider.stop_orphans(&scene.permit(), &recorded).await.unwrap();
    assert!(
        matches!(&stopped, Orphans::NotYet { message } if message.contains("does not know run"))
    );
    // One that does not confirm is not over, and a service that is away says nothing.
    let scene = Scene::new();
    let hangs = with_parameters(&json!({"fakeOutcome": "Hang"}));
    let known = scene.prepared(&hangs).await;
    scene.release(&hangs, &known).await.unwrap();
    let recorded = orphan(None, Some(vec![known]));
    let stopped = scene.provider.stop_orphans(&scene.permit(), &recorded).await.unwrap();
    assert!(matches!(stopped, Orphans::NotYet { .. }), "{stopped:?}");
    scene.outside.go_away();
    let stopped = scene.provider.stop_orphans(&scene.permit(), &recorded).await;
    assert!(matches!(stopped, Err(ProviderError::Unreachable(_))), "{stopped:?}");
}

#[tokio::test]
async fn credentials_come_from_a_secret_that_allows_the_address() {
    let scene = Scene::new();
    let with_secret = of(&json!({
        "http": {"url": URL, "credentialsSecretRef": {"name": "runner"}},
    }));
    let secrets = "/api/v1/namespaces/docs/secrets";
    match scene.provider.accept(&with_secret).await {
        Acceptance::NotYet { message } => {
            assert!(message.contains("no Secret runner"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let secret = |url: &str| {
        json!({
            "metadata": {"name": "runner", "annotations": {"punctual.dev/allowed-url": url}},
            "data": {"token": "c2VjcmV0"},
        })
    };
    scene.fake.put(secrets, secret("https://elsewhere.example"));
    match scene.provider.prepare(&scene.permit(), &with_secret).await.unwrap() {
        Prepared::Refused { message } => assert!(message.contains("allowed-url"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(scene.operations.lock().unwrap().is_empty(), "nothing was sent");
    scene.fake.put(secrets, secret(URL));
    scene.pass(31);
    assert_eq!(scene.provider.accept(&with_secret).await, Acceptance::Accepted);
    let reads = || scene.fake.log().iter().filter(|entry| entry.path.contains("secrets")).count();
    let before = reads();
    for _ in 0..5 {
        scene.provider.accept(&with_secret).await;
    }
    assert_eq!(reads(), before, "a Secret is kept for a moment");
    scene.pass(31);
    scene.provider.accept(&with_secret).await;
    assert_eq!(reads(), before + 1);
}
