//! Whatever is stored, and whatever of it is missing or malformed, there is an answer.

use serde_json::json;

use super::*;
use crate::{cli::why::TargetKind, sim::rng::Rng};

/// Scenes that leave objects of every kind in many states.
fn objects() -> Vec<Scene> {
    let spec = "\
start: \"2026-11-29T01:58:00Z\"
objects:
- apiVersion: punctual.dev/v1alpha1
  kind: MaintenanceSchedule
  metadata: {name: nightly, namespace: docs}
  spec: {schedule: '*/10 * * * *', spread: {windowSeconds: 60}, run: {simulated: {}}}
- apiVersion: punctual.dev/v1alpha1
  kind: ReportSchedule
  metadata: {name: hourly, namespace: docs}
  spec: {schedule: '0 * * * *', jobTemplate: {spec: {queueName: reports, tenant: acme, run: {simulated: {}}}}}
- apiVersion: punctual.dev/v1alpha1
  kind: ReportQueue
  metadata: {name: reports, namespace: docs}
  spec: {slots: 2, limits: {queued: 3}, tenants: [{name: acme, maxRunning: 1, weight: 3}]}
";
    let mut spec = spec.to_owned();
    for n in 0..7 {
        let job = format!(
            "- apiVersion: punctual.dev/v1alpha1\n  kind: ReportJob\n  metadata: {{name: r{n}, namespace: docs}}\n  spec: {{queueName: reports, tenant: t{}, run: {{simulated: {{}}}}}}\n",
            n % 3
        );
        spec += &job;
    }
    spec += "provider:\n- {match: 'r0*', duration: 5s, outcome: Failed, reason: Unavailable}\n- {match: 'r1*', duration: 5s, outcome: Unknown}\n- {match: 'nightly-202611290210', outcome: Unknown}\n- {match: '*', duration: 12m}\nsteps:\n- {at: 4m, kill: leader}\n";
    ["4m30s", "15m", "75m"].map(|end| scene("many", &format!("{spec}end: {end}\n"))).into()
}

/// Every object that can be asked about, and the instants around it.
fn questions(scene: &Scene) -> Vec<(String, String, Option<&'static str>)> {
    let mut all = Vec::new();
    for object in &scene.objects {
        let text = |pointer| super::super::snapshot::text(object, pointer).to_owned();
        let Some(subject) = TargetKind::ALL.into_iter().find(|s| s.kind() == text("/kind")) else {
            continue;
        };
        let target = format!("{}/{}", subject.short(), text("/metadata/name"));
        if matches!(subject, TargetKind::MaintenanceSchedule | TargetKind::ReportSchedule) {
            for at in [
                "2026-11-29T01:00:00Z",
                "2026-11-29T02:00:00Z",
                "2026-11-29T02:10:00Z",
                "2026-11-29T02:15:00Z",
                "2027-01-01T00:00:00Z",
            ] {
                all.push((text("/metadata/namespace"), target.clone(), Some(at)));
            }
        }
        all.push((text("/metadata/namespace"), target, None));
    }
    all
}

/// Breaks something somewhere.
fn mutate(value: &mut Value, rng: &mut Rng) {
    let junk = [
        Value::Null,
        json!(""),
        json!("Exploded"),
        json!(-1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!([]),
        json!({}),
        json!("2026-13-45T99:99:99Z"),
        json!("9999-12-31T23:59:00Z"),
        json!(true),
    ];
    match value {
        Value::Object(map) if !map.is_empty() && !rng.chance(10) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let key = rng.pick(&keys).unwrap().clone();
            if rng.chance(10) {
                map.remove(&key);
            } else {
                mutate(map.get_mut(&key).unwrap(), rng);
            }
        }
        Value::Array(list) if !list.is_empty() && !rng.chance(10) => {
            let index = usize::try_from(rng.of(0..=list.len() as u64 - 1)).unwrap();
            mutate(&mut list[index], rng);
        }
        other => *other = rng.pick(&junk).unwrap().clone(),
    }
}

#[test]
fn every_object_of_a_history_has_an_answer() {
    for scene in objects() {
        for (namespace, target, at) in questions(&scene) {
            let answer = scene.why(&namespace, &target, at);
            assert!(!answer.state.is_empty() && !answer.summary.is_empty(), "{target}: {answer:?}");
            assert!(!answer.why.is_empty(), "{target} {at:?}: {answer:?}");
            assert!(answer.not_read.is_empty(), "{target}: {answer:?}");
            let text = answer.text(scene.now);
            assert!(!text.contains("..") && !text.contains("  ("), "{text}");
        }
    }
}

#[test]
fn nothing_that_is_stored_makes_it_fail() {
    let mut rng = Rng::new(7);
    for scene in objects() {
        for (namespace, target, at) in questions(&scene) {
            let whole = scene.gather(&namespace, &target, at);
            for _ in 0..25 {
                let mut broken = whole.clone();
                let parts: Vec<&mut Value> = [
                    &mut broken.object,
                    &mut broken.schedule,
                    &mut broken.queue,
                    &mut broken.lease,
                ]
                .into_iter()
                .flatten()
                .chain(&mut broken.others)
                .chain(&mut broken.events)
                .chain(&mut broken.lease_events)
                .chain(&mut broken.traces)
                .collect();
                for part in parts {
                    for _ in 0..rng.of(0..=3) {
                        mutate(part, &mut rng);
                    }
                }
                if let Ok(answer) = explain(&broken) {
                    assert!(!answer.text(broken.now).is_empty());
                }
            }
        }
    }
}
