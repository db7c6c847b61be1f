//! The model of the API server answers as the real one does.
//!
//! One table of operations is played against both, side by side. Status code, whether the version of
//! the object moved, the answer and the stored object must agree. What differs between any two
//! servers (uids, versions, times) is replaced by a word first.

use std::time::Duration;

use punctual::{sim::api::Model, time::WallClock};
use serde_json::json;

use crate::bed::{
    control_plane::{Parts, PlaneOptions},
    objects,
    plan::scenario,
    run::progress,
};

mod coverage;
mod play;
mod table;

use play::{Outcome, Player};
use table::{Step, table};

/// Fewer operations than this would leave out something that the operator does.
const LEAST_OPERATIONS: usize = 60;
/// How often the real server forgets the past.
const COMPACTION: Duration = Duration::from_secs(5);
/// What was there before one compaction is gone after the next but one, on a busy machine later.
const MOST_COMPACTIONS: usize = 12;

#[test]
fn the_model_answers_as_the_real_api_server() {
    let options = PlaneOptions {
        parts: Parts::ApiServer,
        apiserver_flags: vec![format!("--etcd-compaction-interval={}s", COMPACTION.as_secs())],
        ..PlaneOptions::default()
    };
    scenario().on_own_cluster(options).unchecked("no operator takes part").run(async |s| {
        // Pods need one; no controller makes it here.
        let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        let accounts = objects::api(&s.client(), &s.namespace, "serviceaccount");
        accounts.create(&kube::api::PostParams::default(), &account).await.unwrap();
        let model = Model::new(WallClock::system());
        model.install_crds();
        model.add_namespace(&s.namespace);
        let mut real = Player::new(s.client(), &s.namespace);
        let mut modelled = Player::new(model.server(0).client("person"), &s.namespace);
        let steps = table();
        assert!(steps.len() >= LEAST_OPERATIONS, "{} operations", steps.len());
        let mut differences = Vec::new();
        for step in &steps {
            if step.compacted {
                model.compact();
            }
            let (mut wanted, found) = (real.play(step).await, modelled.play(step).await);
            // The real server forgets the past in its own time.
            for _ in 0..MOST_COMPACTIONS {
                if !step.compacted || wanted == found {
                    break;
                }
                tokio::time::sleep(COMPACTION).await;
                wanted = real.play(step).await;
            }
            differences.extend(difference(step, &wanted, &found));
        }
        progress(&format!("{} operations, {} differ", steps.len(), differences.len()));
        assert!(differences.is_empty(), "\n{}\n", differences.join("\n\n"));
    });
}

/// What differs, if anything does.
fn difference(step: &Step, real: &Outcome, model: &Outcome) -> Option<String> {
    if real == model {
        return None;
    }
    let parts = [
        ("code", real.code.to_string(), model.code.to_string()),
        ("moved", real.moved.to_string(), model.moved.to_string()),
        ("answer", real.answer.to_string(), model.answer.to_string()),
        ("stored", real.stored.to_string(), model.stored.to_string()),
    ];
    let lines = parts
        .into_iter()
        .filter(|(_, real, model)| real != model)
        .map(|(what, real, model)| format!("\n  {what}\n    real  {real}\n    model {model}"));
    let Step { what, method, path, query, .. } = step;
    Some(format!("{what}: {method} {path} {query}{}", lines.collect::<String>()))
}
