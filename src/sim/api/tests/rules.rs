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
const PAIRS: usize = 1200;

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
type Edits = Vec<(String, Vec<Value>)>;

fn edits<const N: usize>(list: [(&str, Vec<Value>); N]) -> Edits {
    list.into_iter().map(|(path, values)| (path.to_owned(), values)).collect()
}

fn texts(list: &[&str]) -> Vec<Value> {
    list.iter().map(|text| json!(text)).collect()
}

fn fence(epoch: i64, nonce: &str) -> Value {
    json!({"epoch": epoch, "nonce": nonce})
}

fn fences() -> Edits {
    let of = |epoch, nonce| fence(epoch, nonce);
    edits([
        ("/status", vec![json!(null), json!({}), json!({"fence": of(100, "a")})]),
        ("/status/fence", vec![json!(null), of(99, "a"), of(100, "a"), of(100, "b"), of(101, "b")]),
    ])
}

fn parameters(at: &str) -> Edits {
    let long = "x".repeat(8190);
    let values =
        vec![json!(null), json!({}), json!({"a": long}), json!({"ab": long}), json!({"abc": long})];
    let one = vec![json!(null), json!("ä"), json!("ö".repeat(4096))];
    vec![(format!("{at}/parameters"), values), (format!("{at}/parameters/ä"), one)]
}

/// Of a run at this place.
fn runs(at: &str) -> Edits {
    let run = json!({"actionClass": "Fenced", "maxAttempts": 1, "simulated": {}, "parameters": {"a": "b"}});
    let fields = edits([
        ("", vec![json!({"simulated": {}}), json!({"http": {"url": "http://x"}}), run]),
        ("/job", vec![json!(null), json!({"template": {"a": 1}}), json!({"template": {"a": 2}})]),
        ("/http", vec![json!(null), json!({"url": "http://a"}), json!({"url": "http://b"})]),
        ("/simulated", vec![json!(null), json!({}), json!({"result": {"rows": 3}})]),
        ("/actionClass", vec![json!(null), json!("Fenced"), json!("ReadOnly")]),
        ("/maxAttempts", vec![json!(null), json!(1), json!(2)]),
        ("/startTimeoutSeconds", vec![json!(null), json!(1), json!(2)]),
        ("/timeoutSeconds", vec![json!(null), json!(1), json!(2)]),
    ]);
    let fields = fields.into_iter().map(|(path, values)| (format!("{at}{path}"), values));
    fields.chain(parameters(at)).collect()
}

fn moments() -> Vec<Value> {
    texts(&["2026-11-29T02:00:00Z", "2026-02-29T00:00:00Z", "0000-01-01T00:00:00Z", "tomorrow"])
}

/// What both kinds of schedules have.
fn timing() -> Edits {
    edits([
        ("/metadata/name", vec![json!("nightly"), json!("s".repeat(40)), json!("ä".repeat(41))]),
        ("/spec/schedule", texts(&["0 2 * * *", "TZ=UTC 0 2 * * *", "TZ"])),
        ("/spec/anchor", moments()),
    ])
}

/// What occurrences and report jobs have.
fn work() -> Edits {
    edits([
        ("/spec/intendedTime", moments()),
        ("/spec/scheduleUID", vec![json!(null), json!("u-1"), json!("u-2")]),
        ("/spec/run", vec![json!(null)]),
        ("/spec/cancel", vec![json!(null), json!(false), json!(true)]),
        ("/status/id", vec![json!(null), json!("abc"), json!("abd")]),
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
    ])
}

fn occurrences() -> Edits {
    let mut states = texts(&["Pending", "Running", "Unresolved", "Succeeded", "Failed"]);
    states.extend(texts(&["Cancelled", "Skipped", "Superseded", "Starting", "Cancelling"]));
    states.push(json!(null));
    edits([
        ("/metadata/name", texts(&["nightly-202611290200", "weekly-202611290200", "nightly"])),
        ("/spec/scheduleName", texts(&["nightly", "weekly"])),
        ("/status/state", states),
    ])
}

fn report_jobs() -> Edits {
    let mut states = texts(&["Queued", "Admitted", "Running", "Cancelling", "Unresolved"]);
    states.extend(texts(&["Succeeded", "Failed", "Cancelled", "Rejected"]));
    states.push(json!(null));
    let mut names = texts(&["acme-1", "nightly-202611290200", "a-20261129020", "ä-202611290200"]);
    names.extend(texts(&["a-2026112902000", "a-202611290200x", "-202611290200", "202611290200"]));
    names.extend([json!("x".repeat(53)), json!("ä".repeat(54))]);
    let artifact = |uri: &str, attempt: i32| json!({"uri": uri, "attempt": attempt});
    let artifacts = vec![json!(null), artifact("s3://a", 1), artifact("s3://a", 2)];
    edits([
        ("/metadata/name", names),
        ("/spec/scheduleName", vec![json!(null), json!("nightly"), json!("weekly")]),
        ("/spec/intendedTime", vec![json!(null)]),
        ("/spec/queueName", texts(&["reports", "others"])),
        ("/spec/tenant", texts(&["acme", "zeta"])),
        ("/spec/priority", vec![json!(0), json!(1)]),
        ("/spec/estimateSeconds", vec![json!(60), json!(61)]),
        ("/spec/queueDeadlineSeconds", vec![json!(null), json!(60), json!(61)]),
        ("/spec/artifact", texts(&["Optional", "Required"])),
        ("/status/artifact", artifacts.clone()),
        ("/status/artifact", [artifacts, vec![artifact("s3://b", 1)]].concat()),
        ("/status/state", states),
    ])
}

fn report_queues() -> Edits {
    let entries = |count: usize| -> Value {
        (0..count).map(|number| json!({"uid": format!("u-{number}")})).collect()
    };
    let ledger = |count: usize| json!({"virtualTime": 1, "entries": entries(count)});
    let ledgers = vec![json!(null), json!({}), ledger(0), ledger(1), ledger(2), ledger(3)];
    edits([
        ("/metadata/name", vec![json!("reports"), json!("q".repeat(63)), json!("q".repeat(64))]),
        ("/spec/slots", vec![json!(1), json!(2), json!(3)]),
        ("/spec/runTemplate", vec![json!(null)]),
        ("/status/ledger", ledgers),
        ("/status/ledger/entries", vec![json!(null), entries(1), entries(2), entries(4)]),
    ])
}

fn traces() -> Edits {
    let mut names = texts(&["punctual-100", "punctual-101", "x", "punctual-0100"]);
    names.extend(texts(&["punctual-1x", "punctual", "other-100"]));
    edits([
        ("/status/completionTime", vec![json!(null), json!("2026-11-29T02:00:00Z")]),
        ("/status/resumed", vec![json!(null), json!(0), json!(1)]),
        ("/metadata/name", names),
        ("/spec/epoch", vec![json!(100), json!(101)]),
        ("/spec/leaseName", texts(&["punctual", "other"])),
        ("/spec/formerHolder", vec![json!(null), json!("r1/y")]),
    ])
}

/// The kinds with an object of each, and what of it is changed.
fn cases() -> Vec<(Kind, Value, Edits)> {
    let run = json!({"simulated": {}});
    let mut with_run = [schedule("nightly"), occurrence()];
    for object in &mut with_run {
        object["spec"]["run"] = run.clone();
    }
    let [schedule, occurrence] = with_run;
    let template = "/spec/jobTemplate/spec";
    let template_run = format!("{template}/run");
    vec![
        (Kind::MaintenanceSchedule, schedule, [runs("/spec/run"), timing()].concat()),
        (
            Kind::MaintenanceOccurrence,
            occurrence,
            [runs("/spec/run"), work(), occurrences()].concat(),
        ),
        (Kind::RecoveryTrace, trace(), traces()),
        (
            Kind::ReportQueue,
            report_queue("reports"),
            [runs("/spec/runTemplate"), report_queues()].concat(),
        ),
        (
            Kind::ReportJob,
            report_job("acme-1"),
            [runs("/spec/run"), parameters("/spec"), work(), report_jobs()].concat(),
        ),
        (
            Kind::ReportSchedule,
            report_schedule("nightly"),
            [runs(&template_run), parameters(template), timing()].concat(),
        ),
    ]
}

fn trace() -> Value {
    json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "RecoveryTrace",
        "metadata": {"name": "punctual-100"},
        "spec": {"leaseName": "punctual", "epoch": 100, "holder": "r0/x", "gained": "First"},
    })
}

fn edited(base: &Value, edits: &[(String, Vec<Value>)], times: usize, dice: &mut Dice) -> Value {
    let mut object = base.clone();
    for _ in 0..times {
        let (path, values) = &edits[dice.below(edits.len())];
        set(&mut object, path, &values[dice.below(values.len())]);
    }
    object
}

/// The schema of a kind in the CRDs of this program.
fn schema(kind: Kind) -> Value {
    let crd = api::crds().iter().find(|crd| crd.spec.names.kind == kind.name()).unwrap();
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
    for (kind, mut base, edits) in cases() {
        let mut known = BTreeMap::new();
        messages(&schema(kind), &mut known);
        base["status"] = json!({"fence": fence(100, "a")});
        let edits = [fences(), edits].concat();
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
