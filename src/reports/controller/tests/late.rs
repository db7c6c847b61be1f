//! Attempts that were given up and deliver something after all.

use super::*;
use crate::{api::Artifact, providers::Delivered};

fn delivered(uri: &str) -> RunStatus {
    let artifact = Artifact { uri: uri.into(), sha256: "a".repeat(64), size_bytes: 1 };
    RunStatus::Succeeded {
        started: None,
        completed: None,
        result: None,
        result_lost: false,
        artifact: Delivered::artifact(artifact),
    }
}

/// A job that runs its second attempt, because nobody knew how the first one ended.
fn tried_again() -> Value {
    let mut status = running();
    let mut first = status["attempts"][0].clone();
    first["outcome"] = json!("Unknown");
    first["reason"] = json!("OutcomeUnknown");
    first["completionTime"] = json!("2026-11-29T01:59:30Z");
    let mut second = status["attempts"][0].clone();
    second["number"] = json!(2);
    second["runKey"] = json!("k-r2");
    second["handle"] = json!(handle("k-r2"));
    status["attempt"] = json!(2);
    status["attempts"] = json!([first, second]);
    status["run"] = json!({"simulated": {}, "actionClass": "ReadOnly"});
    status
}

fn acts() -> RunStatus {
    let started = "2026-11-29T01:59:01Z".parse().unwrap();
    RunStatus::Running { started, pod: None }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_given_up_is_asked_about_before_its_job_is_over() {
    let scene = Scene::new();
    scene.put_job("report", &tried_again());
    scene.says("k-r1", delivered("s3://late"));
    scene.says("k-r2", delivered("s3://counts"));
    let status = scene.pass_job("report").await;
    assert_eq!(
        (&status["state"], &status["artifact"]["uri"]),
        (&json!("Succeeded"), &json!("s3://counts"))
    );
    let refusals = scene.told().into_iter().filter(|reason| reason == "ArtifactRefused").count();
    assert_eq!(refusals, 1);
    scene.runs.asked.lock().unwrap().clear();
    scene.observe_job("report");
    scene.pass_job("report").await;
    assert!(scene.runs.asked.lock().unwrap().is_empty(), "what is over is asked nothing");
    assert!(scene.told().is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_is_asked_again_until_its_end_is_known_and_told_once() {
    let scene = Scene::new();
    scene.put_job("report", &tried_again());
    let asked = |scene: &Scene| {
        let asked = std::mem::take(&mut *scene.runs.asked.lock().unwrap());
        asked.iter().filter(|asked| **asked == handle("k-r1")).count()
    };
    scene.says("k-r1", acts());
    scene.says("k-r2", acts());
    for _ in 0..2 {
        scene.pass_job("report").await;
        scene.observe_job("report");
        assert_eq!(asked(&scene), 1, "once for each pass");
        scene.later(30);
    }
    scene.says("k-r1", delivered("s3://late"));
    scene.told();
    for told in [1, 0] {
        scene.pass_job("report").await;
        scene.observe_job("report");
        assert_eq!(asked(&scene), told);
        let refusals = scene.told().iter().filter(|reason| *reason == "ArtifactRefused").count();
        assert_eq!(refusals, told);
    }
}
