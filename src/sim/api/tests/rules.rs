//! The twins of the rules are the rules.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::cel::{compile_schema, validate_compiled};
use serde_json::{Value, json};

use super::{super::twins, *};
use crate::{
    api,
    sim::api::{custom::Custom, validate},
};

/// Pairs of an old and a new object a kind. Each field below is the subject of dozens of them.
const PAIRS: usize = 1000;

/// A generator of small numbers; the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        // Constants of Knuth's MMIX generator.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

fn set(object: &mut Value, path: &str, value: &Value) {
    let (parent, name) = path.rsplit_once('/').unwrap();
    let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) else { return };
    if value.is_null() {
        parent.remove(name);
    } else {
        parent.insert(name.to_owned(), value.clone());
    }
}

/// Fields and what they may become; null takes one away.
fn edits(kind: Kind) -> Vec<(&'static str, Vec<Value>)> {
    let fence = |epoch: i64, nonce: &str| json!({"epoch": epoch, "nonce": nonce});
    if kind == Kind::RecoveryTrace {
        return vec![
            ("/status", vec![json!(null), json!({}), json!({"fence": fence(100, "a")})]),
            ("/status/fence", vec![json!(null), fence(99, "a"), fence(100, "b"), fence(101, "b")]),
            ("/status/completionTime", vec![json!(null), json!("2026-11-29T02:00:00Z")]),
            ("/status/resumed", vec![json!(null), json!(0), json!(1)]),
            (
                "/metadata/name",
                vec![
                    json!("punctual-100"),
                    json!("punctual-101"),
                    json!("x"),
                    json!("punctual-0100"),
                    json!("punctual-1x"),
                    json!("punctual"),
                    json!("other-100"),
                ],
            ),
            ("/spec/epoch", vec![json!(100), json!(101)]),
            ("/spec/leaseName", vec![json!("punctual"), json!("other")]),
            ("/spec/formerHolder", vec![json!(null), json!("r1/y")]),
        ];
    }
    let long = "x".repeat(8190);
    let run = json!({"actionClass": "Fenced", "maxAttempts": 1, "simulated": {}, "parameters": {"a": "b"}});
    let mut edits = vec![
        ("/status", vec![json!(null), json!({}), json!({"fence": fence(100, "a")})]),
        (
            "/status/fence",
            vec![json!(null), fence(99, "a"), fence(100, "a"), fence(100, "b"), fence(101, "b")],
        ),
        ("/spec/run", vec![json!({"simulated": {}}), json!({"http": {"url": "http://x"}}), run]),
        (
            "/spec/run/job",
            vec![json!(null), json!({"template": {"a": 1}}), json!({"template": {"a": 2}})],
        ),
        (
            "/spec/run/http",
            vec![json!(null), json!({"url": "http://a"}), json!({"url": "http://b"})],
        ),
        ("/spec/run/simulated", vec![json!(null), json!({}), json!({"result": {"rows": 3}})]),
        (
            "/spec/run/parameters",
            vec![
                json!(null),
                json!({}),
                json!({"a": long}),
                json!({"ab": long}),
                json!({"abc": long}),
            ],
        ),
        ("/spec/run/parameters/ä", vec![json!(null), json!("ä"), json!("ö".repeat(4096))]),
        ("/spec/run/actionClass", vec![json!(null), json!("Fenced"), json!("ReadOnly")]),
        ("/spec/run/maxAttempts", vec![json!(null), json!(1), json!(2)]),
        ("/spec/run/startTimeoutSeconds", vec![json!(null), json!(1), json!(2)]),
        ("/spec/run/timeoutSeconds", vec![json!(null), json!(1), json!(2)]),
    ];
    let moments =
        ["2026-11-29T02:00:00Z", "2026-02-29T00:00:00Z", "0000-01-01T00:00:00Z", "tomorrow"];
    let moments: Vec<Value> = moments.iter().map(|text| json!(text)).collect();
    if kind == Kind::MaintenanceSchedule {
        edits.extend([
            (
                "/metadata/name",
                vec![json!("nightly"), json!("s".repeat(40)), json!("ä".repeat(41))],
            ),
            ("/spec/schedule", vec![json!("0 2 * * *"), json!("TZ=UTC 0 2 * * *"), json!("TZ")]),
            ("/spec/anchor", moments),
        ]);
        return edits;
    }
    edits.extend([
        (
            "/metadata/name",
            vec![json!("nightly-202611290200"), json!("weekly-202611290200"), json!("nightly")],
        ),
        ("/spec/scheduleName", vec![json!("nightly"), json!("weekly")]),
        ("/spec/intendedTime", moments),
        ("/spec/scheduleUID", vec![json!(null), json!("u-1"), json!("u-2")]),
        ("/spec/run", vec![json!(null)]),
        ("/spec/cancel", vec![json!(null), json!(false), json!(true)]),
        ("/status/id", vec![json!(null), json!("abc"), json!("abd")]),
        (
            "/status/state",
            ["Pending", "Running", "Unresolved", "Succeeded", "Failed", "Cancelled", "Skipped"]
                .iter()
                .chain(&["Superseded", "Starting", "Cancelling"])
                .map(|state| json!(state))
                .chain([json!(null)])
                .collect(),
        ),
        ("/status/reason", vec![json!(null), json!("Complete"), json!("Other")]),
        (
            "/status/result",
            vec![
                json!(null),
                json!({"rows": 3}),
                json!({"rows": 4}),
                json!({"rows": "3", "t": "x"}),
            ],
        ),
    ]);
    edits
}

fn trace() -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "RecoveryTrace",
        "metadata": {"name": "punctual-100"},
        "spec": {"leaseName": "punctual", "epoch": 100, "holder": "r0/x", "gained": "First"},
    })
}

fn edited(base: &Value, edits: &[(&str, Vec<Value>)], times: usize, dice: &mut Dice) -> Value {
    let mut object = base.clone();
    for _ in 0..times {
        let (path, values) = &edits[dice.below(edits.len())];
        set(&mut object, path, &values[dice.below(values.len())]);
    }
    object
}

/// The schema of a kind in the CRDs of this program.
fn schema(kind: Kind) -> Value {
    let crd = api::crds().into_iter().find(|crd| crd.spec.names.kind == kind.name()).unwrap();
    let schema = crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema;
    serde_json::to_value(schema).unwrap()
}

/// Every rule of a schema by its message.
fn messages(schema: &Value, found: &mut BTreeMap<String, String>) {
    match schema {
        Value::Object(fields) => {
            for rule in fields
                .get("x-kubernetes-validations")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let text = |name: &str| rule[name].as_str().unwrap().to_owned();
                found.insert(text("message"), text("rule"));
            }
            fields.values().for_each(|value| messages(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| messages(value, found)),
        _ => {}
    }
}

/// What the rules say, by CEL and by the twins: the messages of those that refuse, sorted.
fn both(kind: Kind, pairs: &[(Value, Option<Value>)]) -> Vec<(Vec<String>, Vec<String>)> {
    let schema = schema(kind);
    let compiled = compile_schema(&schema);
    let native = super::super::schema::Schema::parse(&schema, kind.name()).unwrap();
    pairs
        .iter()
        .map(|(new, old)| {
            let cel = validate_compiled(&compiled, new, old.as_ref());
            let mut cel: Vec<String> = match cel {
                Ok(()) => Vec::new(),
                Err(errors) => errors.into_vec().into_iter().map(|error| error.message).collect(),
            };
            let mut twins: Vec<String> = validate::rule_refusals(&native, new, old.as_ref());
            cel.sort();
            twins.sort();
            (cel, twins)
        })
        .collect()
}

#[test]
fn every_twin_is_its_rule() {
    let mut asked = BTreeSet::new();
    for kind in [Kind::MaintenanceSchedule, Kind::MaintenanceOccurrence, Kind::RecoveryTrace] {
        let mut known = BTreeMap::new();
        messages(&schema(kind), &mut known);
        let mut base = match kind {
            Kind::MaintenanceSchedule => schedule("nightly"),
            Kind::RecoveryTrace => trace(),
            _ => occurrence(),
        };
        base["status"] = json!({"fence": {"epoch": 100, "nonce": "a"}});
        if kind != Kind::RecoveryTrace {
            base["spec"]["run"] = json!({"simulated": {}});
        }
        let edits = edits(kind);
        let mut dice = Dice(7);
        let mut pairs = Vec::new();
        for index in 0..PAIRS {
            let (before, after) = (dice.below(8), dice.below(3));
            let subject = &edits[index % edits.len()..=index % edits.len()];
            let old = edited(&base, &edits, before, &mut dice);
            let old = edited(&old, subject, 1, &mut dice);
            let new = edited(&old, &edits, after, &mut dice);
            let new = edited(&new, subject, 1, &mut dice);
            pairs.push((new, (index % 5 != 0).then_some(old)));
        }
        let mut refused: BTreeMap<String, usize> = BTreeMap::new();
        for ((cel, twins), (new, old)) in both(kind, &pairs).into_iter().zip(&pairs) {
            assert_eq!(twins, cel, "{kind:?}\nnew {new}\nold {old:?}");
            for message in twins {
                *refused.entry(message).or_default() += 1;
            }
        }
        for (message, rule) in known {
            let times = refused.get(&message).copied().unwrap_or(0);
            assert!((3..PAIRS - 50).contains(&times), "{times} refusals: {message}");
            asked.insert(rule);
        }
    }
    let twins: BTreeSet<String> = twins::ALL
        .iter()
        .map(|(rule, _)| (*rule).to_owned())
        .filter(|rule| rule != "true")
        .collect();
    assert_eq!(asked, twins, "every rule has a twin and every twin a rule");
}

#[test]
fn a_crd_without_a_rule_is_not_enforced() {
    let model = Model::new(WallClock::driven("2026-11-29T01:58:30Z".parse().unwrap()));
    for crd in api::crds() {
        let mut crd = serde_json::to_value(crd).unwrap();
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema.as_object_mut().unwrap().remove("x-kubernetes-validations").unwrap();
        model.install(&crd).unwrap();
    }
    let mut wrong = occurrence();
    wrong["metadata"]["name"] = "other".into();
    wrong["metadata"]["namespace"] = "default".into();
    wrong["status"] = json!({"fence": {"epoch": 9, "nonce": "a"}});
    let key = model.install(&wrong).unwrap();
    let stale = json!({"status": {"fence": {"epoch": 8, "nonce": "b"}}});
    model.write("r0", Request::patch_status(&key, stale)).unwrap();
}

#[test]
fn a_rule_that_nobody_knows_is_an_error() {
    let mut crd = serde_json::to_value(&api::crds()[0]).unwrap();
    let rules = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    rules["x-kubernetes-validations"][0]["rule"] = "self.metadata.name.size() <= 41".into();
    let error = Custom::read(&crd).unwrap_err();
    assert!(error.contains("self.metadata.name.size() <= 41"), "{error}");
    let model = Model::new(WallClock::driven("2026-11-29T01:58:30Z".parse().unwrap()));
    assert!(model.install(&crd).unwrap_err().contains("is not known"));
    assert!(model.list(Kind::CustomResourceDefinition).is_empty());
}
