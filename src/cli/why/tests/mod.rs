//! Answers about objects that the operator itself wrote: scenes are played in the simulation, and
//! what is stored then is asked about through the very code that reads a cluster.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{answer::Answer, ask, explain::explain, read, snapshot::Snapshot};
use crate::{
    cluster::{ObjectKey, Person},
    sim::{
        api::Model,
        scenario::{self, Scenario},
    },
    time::WallClock,
};

mod any_object;
mod blocker;
mod golden;
mod not_prepared;

/// What is stored at the end of a scene.
pub(super) struct Scene {
    pub(super) objects: Vec<Arc<Value>>,
    model: Model,
    pub(super) now: Timestamp,
}

/// What was stored at the end, and when that was.
type End = (Vec<Arc<Value>>, Timestamp);

/// Plays what is below `spec` of a scenario file, which must go as it says. Tests with the same scene,
/// name included, share the play, which takes seconds, and have a store each.
pub(super) fn scene(name: &str, spec: &str) -> Scene {
    static PLAYED: Mutex<BTreeMap<String, Arc<OnceLock<End>>>> = Mutex::new(BTreeMap::new());
    let spec = spec.trim_matches('\n').replace('\n', "\n  ");
    let text = format!(
        "apiVersion: punctual.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n"
    );
    let cell = {
        let mut played = PLAYED.lock().unwrap_or_else(PoisonError::into_inner);
        played.entry(text.clone()).or_default().clone()
    };
    let (objects, now) = cell.get_or_init(|| play(name, &text)).clone();
    let model = Model::new(WallClock::driven(now));
    model.install_crds();
    for object in &objects {
        let kind = super::snapshot::text(object, "/kind");
        if !["CustomResourceDefinition", "Namespace"].contains(&kind) {
            model.install(object).unwrap_or_else(|error| panic!("{error}: {object}"));
        }
    }
    Scene { objects, model, now }
}

fn play(name: &str, text: &str) -> End {
    let scenario: Scenario = scenario::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
    let played = scenario::play(&scenario, None).unwrap_or_else(|error| panic!("{error}"));
    assert!(played.passed(), "{name}: {:?} {:?}", played.failures, played.broken);
    let end = SignedDuration::try_from(played.chronicle.end).unwrap();
    (played.objects, scenario.start + end)
}

impl Scene {
    /// Everything that is read to answer a question; `at` is an instant of a schedule.
    pub(super) fn gather(&self, namespace: &str, target: &str, at: Option<&str>) -> Snapshot {
        let (subject, name) = ask::parse(target).unwrap();
        let question = read::Question {
            subject,
            key: ObjectKey::new(namespace, name),
            at: at.map(|at| at.parse().unwrap()),
            now: self.now,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let person = Person::single(&self.model.server(0).client("reader"), namespace);
            read::gather(&person, question, &read::LeasePlace::default()).await.unwrap()
        })
    }

    /// Epochs of the terms, oldest first.
    pub(super) fn epochs(&self) -> Vec<i64> {
        let traces = self.objects.iter().filter(|object| object["kind"] == "RecoveryTrace");
        let mut epochs: Vec<i64> =
            traces.filter_map(|trace| trace["spec"]["epoch"].as_i64()).collect();
        epochs.sort_unstable();
        epochs
    }

    /// An event about an occurrence, a minute before the question, as the operator writes it.
    pub(super) fn event(&self, namespace: &str, name: &str, reason: &str, note: &str) {
        let at = self.now - SignedDuration::from_mins(1);
        let event = serde_json::json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": format!("{name}.0123456789abcdef"), "namespace": namespace},
            "eventTime": format!("{at:.6}"), "type": "Warning", "reason": reason,
            "action": "Write", "note": note, "reportingController": "punctual.dev/operator",
            "reportingInstance": "r0",
            "regarding": {
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
                "namespace": namespace, "name": name,
            },
        });
        self.model.install(&event).unwrap();
    }

    /// The answer to a question.
    pub(super) fn why(&self, namespace: &str, target: &str, at: Option<&str>) -> Answer {
        explain(&self.gather(namespace, target, at)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Compares the answer's text with the file of that name, or writes it.
    pub(super) fn golden(
        &self,
        file: &str,
        namespace: &str,
        target: &str,
        at: Option<&str>,
    ) -> String {
        self.golden_of(file, &self.gather(namespace, target, at))
    }

    /// The same about what was read, of which a test took something away.
    pub(super) fn golden_of(&self, file: &str, read: &Snapshot) -> String {
        let text = explain(read).unwrap_or_else(|error| panic!("{error}")).text(self.now);
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("src/cli/why/tests/golden")
            .join(format!("{file}.txt"));
        if std::env::var_os("PUNCTUAL_WRITE_GOLDEN").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text == stored,
            "{} is old; look at the new text, and if it is right write it with PUNCTUAL_WRITE_GOLDEN=1:\n{text}",
            path.display()
        );
        text
    }
}
