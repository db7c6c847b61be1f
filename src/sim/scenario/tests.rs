//! The parser: what files mean, and what is said to mistakes.

use super::*;
use crate::api::{ResultValue, SimulatedOutcome};

/// A file with this below `spec`.
fn file(spec: &str) -> String {
    let spec = format!("  {}\n", spec.trim_end().replace('\n', "\n  "));
    format!(
        "apiVersion: punctual.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: x}}\nspec:\n  \
         start: '2026-11-29T01:58:00Z'\n{spec}"
    )
}

/// What is wrong with a file, `line field sentence` each.
fn problems(text: &str) -> Vec<String> {
    let error = parse("x.yaml", text).expect_err("a bad file");
    let shown = error.to_string();
    shown.lines().map(|line| line.strip_prefix("x.yaml:").expect("the file").to_owned()).collect()
}

#[test]
fn everything_is_optional_but_the_name_and_the_start() {
    let scenario = parse("x.yaml", &file("")).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.replicas), ("x", 2));
    assert_eq!(scenario.start.to_string(), "2026-11-29T01:58:00Z");
    assert_eq!(scenario.seed, seed_of("x"), "derived from the name");
    assert_ne!(seed_of("x"), seed_of("y"));
    assert!(scenario.end.is_none() && scenario.needs.is_empty());
}

#[test]
fn every_verb_is_read() {
    let steps = "\
replicas: 3
steps:
- {at: 0, pause: leader}
- {at: 1s, resume: all}
- {at: 2s, kill: r2}
- {at: 3s, restart: standby}
- {at: 4s, partition: r0}
- {at: 4s, heal: r0}
- {at: 5s, crash: {replica: leader, afterWrite: 3}}
- {at: 6s, apply: {apiVersion: v1, kind: Namespace, metadata: {name: docs}}}
- {at: 6s, patch: {object: docs/msched/nightly, merge: {spec: {suspend: true}}}, refused: no}
- {at: 7s, delete: rjob/acme-1}
- {at: 7s, cancel: mocc/x}
- {at: 8s, lease: delete}
- {at: 8s, lease: {patch: {spec: {holderIdentity: me}}}}
- {at: 9s, clock: {replica: r1, jump: -90s}}
- {at: 9s, clock: {replica: r1, rate: 1.1}}
- {at: 10s, api: {unavailable: 10s}}
- {at: 10s, api: {dropResponses: 3}}
- {at: 10s, api: {conflicts: 3}}
- {at: 10s, api: {latency: 2s, for: 30s}}
- {at: 10s, api: {staleReads: 30s}}
- {at: 10s, api: {compact: now}}
- {at: 11s, provider: {match: 'acme-*', outcome: Unknown}}
- {at: 11s, provider: {lose: nightly-202611290200-m2}}
- {at: 12s, expect: [{terms: 1}]}
- {within: 2m, until: [{terms: {atLeast: 2}}]}";
    let scenario = parse("x.yaml", &file(steps)).unwrap();
    let shown: Vec<String> = scenario.steps.iter().map(|step| format!("{:?}", step.verb)).collect();
    for (index, start) in [
        (0, "Replica(Pause, Leader)"),
        (1, "Replica(Resume, All)"),
        (2, "Replica(Kill, Replica(2))"),
        (3, "Replica(Restart, Standby)"),
        (4, "Replica(Partition, Replica(0))"),
        (5, "Replica(Heal, Replica(0))"),
        (6, "Crash { who: Leader, after_write: 3 }"),
        (7, "Apply("),
        (8, "Patch {"),
        (9, "Delete("),
        (10, "Cancel("),
        (11, "DeleteLease"),
        (12, "PatchLease("),
        (13, "ClockJump(Replica(1), 1m 30s ago)"),
        (14, "ClockRate(Replica(1), 1.1)"),
        (15, "Api(Unavailable(10s))"),
        (16, "Api(DropResponses(3))"),
        (17, "Api(Conflicts(3))"),
        (18, "Api(Latency { delay: 2s, lasts: 30s })"),
        (19, "Api(StaleReads(30s))"),
        (20, "Api(Compact)"),
        (21, "Provider(Rule {"),
        (22, "Lose(RunRef("),
        (23, "Expect("),
        (24, "Until("),
    ] {
        assert!(shown[index].starts_with(start), "{index}: {}", shown[index]);
    }
    assert_eq!(scenario.steps[8].refused.as_deref(), Some("no"));
    assert_eq!(scenario.steps[24].when, When::Within(Duration::from_secs(120)));
    assert_eq!(scenario.line(scenario.steps[24].place), 32);
    assert_eq!(scenario.needs, BTreeSet::new());
}

#[test]
fn every_expectation_is_read() {
    let expect = "\
expect:
- {object: mocc/nightly-202611290200, state: Succeeded, reason: Completed, fields: {status.result.rows: 3, 'status.skipped[0].reason': Concurrent, status.retryAfterTime: present}}
- {object: msched/nightly}
- {runs: mocc/nightly-202611290200, is: 1}
- {count: rjob, state: Succeeded, namespace: docs, tenant: acme, atLeast: 1, atMost: 40}
- {absent: other/mocc/nightly-202611290159}
- {terms: 2}
- {terms: {atMost: 3}}
- {trace: last, resumed: 1, reconciled: 1, preserved: 3, uncertain: 0}
- {trace: 1}
- {admissions: rqueue/reports, is: Paused, reason: RecoveryIncomplete}
- {event: FencedWriteRejected}
- {event: FencedWriteRejected, object: mocc/x, is: 0}
- {order: [rjob/small-1, rjob/big-2]}";
    let scenario = parse("x.yaml", &file(expect)).unwrap();
    assert_eq!(scenario.expect.len(), 13);
    let What::Object { fields, .. } = &scenario.expect[0].what else { panic!("an object") };
    assert_eq!(fields[0].1, Wanted::Equal(3.into()));
    assert_eq!(fields[2].1, Wanted::Present);
    let What::Count { bounds, .. } = &scenario.expect[3].what else { panic!("a count") };
    assert_eq!(bounds.to_string(), "1 to 40");
    assert!(!bounds.hold(0) && bounds.hold(1) && bounds.hold(40) && !bounds.hold(41));
    let What::Absent(object) = &scenario.expect[4].what else { panic!("an absence") };
    assert_eq!(object.to_string(), "other/mocc/nightly-202611290159");
    let What::Event { bounds, .. } = &scenario.expect[10].what else { panic!("an event") };
    assert_eq!(bounds.to_string(), "at least 1");
    assert_eq!(scenario.needs, BTreeSet::new());
}

#[test]
fn rules_of_the_provider_are_read() {
    let rules = format!(
        "provider:\n- {{match: 'nightly-*', attempts: [1, 2], duration: 90s, outcome: Failed, \
         reason: Crash, result: {{rows: 3, text: x}}, artifact: {{uri: s3://x, sha256: '{}', \
         sizeBytes: 1}}}}\n- {{match: '*'}}",
        "0a".repeat(32)
    );
    let scenario = parse("x.yaml", &file(&rules)).unwrap();
    let rule = &scenario.rules[0];
    assert_eq!(rule.attempts, Some(vec![1, 2]));
    assert_eq!(
        (rule.outcome, rule.duration),
        (SimulatedOutcome::Failed, Some(Duration::from_secs(90)))
    );
    assert_eq!(rule.result.as_ref().map(|result| &result["rows"]), Some(&ResultValue::Integer(3)));
    assert_eq!(rule.artifact.as_ref().map(|artifact| artifact["sizeBytes"] == 1), Some(true));
    assert_eq!(scenario.rules[1].outcome, SimulatedOutcome::Succeeded);
}

/// A mistake below `spec`, its line counted from 6 (the first after `start`), its field, and a part
/// of what is said.
const MISTAKES: &[(&str, usize, &str, &str)] = &[
    ("strat: 1", 6, "spec.strat", "is no field of spec; did you mean start?"),
    ("replicas: 0", 6, "spec.replicas", "must be a whole number from 1 to 9, not 0"),
    ("seed: x", 6, "spec.seed", "must be a whole number from 0"),
    ("end: 5", 6, "spec.end", "has no unit; write 5s if it counts seconds, or 5m for minutes"),
    ("end: 5 min", 6, "spec.end", "must be a duration like 90s, 1.5m or 1h30m, not \"5 min\""),
    ("end: -5s", 6, "spec.end", "must be a duration that is not negative, not \"-5s\""),
    ("end: 9000h", 6, "spec.end", "must be at most 31 days"),
    ("steps: {at: 1s}", 6, "spec.steps", "must be a list, each item begun with a dash"),
    ("steps:", 6, "spec.steps", "must be a list, each item begun with a dash, not nothing"),
    (
        "end: 1s\nsteps:\n- {at: 2s, kill: all}",
        6,
        "spec.end",
        "is before the last step, at 2s; write 2s or later",
    ),
    (
        "steps:\n- {at: 2s, kill: all}\n- {at: 1s, kill: all}",
        8,
        "spec.steps[1].at",
        "is 1s, before the step above it, at 2s; put steps in order",
    ),
    ("steps:\n- {at: 2s, puase: all}", 7, "spec.steps[0].puase", "did you mean pause?"),
    ("steps:\n- {at: 2s, explode: all}", 7, "spec.steps[0].explode", "known are at, within, pause"),
    ("steps:\n- {at: 2s}", 7, "spec.steps[0]", "does nothing; add one verb of pause, resume"),
    ("steps:\n- {kill: all}", 7, "spec.steps[0]", "does not say when; add at, for example at: 90s"),
    (
        "steps:\n- {at: 2s, within: 3s, until: []}",
        7,
        "spec.steps[0]",
        "has both at and within; keep one of them",
    ),
    (
        "steps:\n- {at: 2s, kill: all, pause: all}",
        7,
        "spec.steps[0]",
        "has both pause and kill; keep one of them",
    ),
    ("steps:\n- {at: 2s, until: []}", 7, "spec.steps[0].until", "goes with within"),
    ("steps:\n- {within: 2s, kill: all}", 7, "spec.steps[0].within", "goes with until"),
    ("steps:\n- {within: 2s, expect: []}", 7, "spec.steps[0].within", "goes with until"),
    ("steps:\n- {at: 1s, kill: all, refused: x}", 7, "spec.steps[0].refused", "remove it"),
    (
        "steps:\n- {at: 1s, kill: r2}",
        7,
        "spec.steps[0].kill",
        "must be leader, standby, all or r0 to r1, not \"r2\"",
    ),
    ("steps:\n- {at: 1s, kill: r01}", 7, "spec.steps[0].kill", "not \"r01\""),
    ("steps:\n- {at: 1s, kill: 1}", 7, "spec.steps[0].kill", "or r0 to r1, not 1"),
    (
        "steps:\n- {at: 1s, crash: {replica: leader}}",
        7,
        "spec.steps[0].crash.afterWrite",
        "is missing; it is the number of writes that still commit",
    ),
    (
        "steps:\n- {at: 1s, crash: {replica: leader, afterWrite: 0}}",
        7,
        "spec.steps[0].crash.afterWrite",
        "must be a whole number from 1",
    ),
    ("steps:\n- {at: 1s, delete: nightly}", 7, "spec.steps[0].delete", "must name an object like"),
    (
        "steps:\n- {at: 1s, delete: moc/x}",
        7,
        "spec.steps[0].delete",
        "\"moc\" is no kind of object; did you mean mocc?",
    ),
    ("steps:\n- {at: 1s, delete: mocc/}", 7, "spec.steps[0].delete", "has an empty part"),
    ("steps:\n- {at: 1s, cancel: msched/x}", 7, "spec.steps[0].cancel", "cannot be cancelled"),
    ("steps:\n- {at: 1s, lease: remove}", 7, "spec.steps[0].lease", "must be delete, or {patch:"),
    ("steps:\n- {at: 1s, lease: {}}", 7, "spec.steps[0].lease.patch", "is missing"),
    (
        "steps:\n- {at: 1s, clock: {replica: r0}}",
        7,
        "spec.steps[0].clock",
        "changes nothing; add jump (wall clock) or rate (lease clock)",
    ),
    ("steps:\n- {at: 1s, clock: {replica: r0, rate: 11}}", 7, "spec.steps[0].clock.rate", "0 (s"),
    ("steps:\n- {at: 1s, api: {}}", 7, "spec.steps[0].api", "does nothing; add one of unavailable"),
    ("steps:\n- {at: 1s, api: {latency: 2s}}", 7, "spec.steps[0].api", "does not end; add for"),
    (
        "steps:\n- {at: 1s, api: {conflicts: 2, for: 2s}}",
        7,
        "spec.steps[0].api.for",
        "goes with latency only; remove it from conflicts",
    ),
    ("steps:\n- {at: 1s, api: {compact: 1s}}", 7, "spec.steps[0].api.compact", "must be now"),
    (
        "steps:\n- {at: 1s, api: {conflicts: 1, dropResponses: 1}}",
        7,
        "spec.steps[0].api",
        "has both dropResponses and conflicts",
    ),
    ("steps:\n- {at: 1s, provider: {lose: x}}", 7, "spec.steps[0].provider.lose", "-m1 or -r1"),
    ("steps:\n- {at: 1s, provider: {lose: x-m0}}", 7, "spec.steps[0].provider.lose", "a run"),
    (
        "steps:\n- at: 1s\n  provider:\n    match: x\n    lose: x-m1",
        9,
        "spec.steps[0].provider.match",
        "is no field of provider next to lose",
    ),
    ("provider:\n- {outcome: Failed}", 7, "spec.provider[0].match", "is missing; it is a glob"),
    (
        "provider:\n- {match: x, outcome: Crash}",
        7,
        "spec.provider[0].outcome",
        "must be Succeeded or Failed or Unknown or Hang, not \"Crash\"",
    ),
    ("provider:\n- {match: x, attempts: []}", 7, "spec.provider[0].attempts", "is empty"),
    ("provider:\n- {match: x, result: {a: []}}", 7, "spec.provider[0].result.a", "not a list"),
    (
        "provider:\n- match: x\n  artifact: {uri: x, sha256: abc, sizeBytes: 1}",
        8,
        "spec.provider[0].artifact.sha256",
        "must have 64 hex digits",
    ),
    ("expect:\n- {}", 7, "spec.expect[0]", "expects nothing; begin it with one of object, runs"),
    ("expect:\n- {objekt: mocc/x}", 7, "spec.expect[0].objekt", "did you mean object?"),
    ("expect:\n- {object: mocc/x, sate: y}", 7, "spec.expect[0].sate", "did you mean state?"),
    ("expect:\n- {object: mocc/x, fields: {a..b: 1}}", 7, "spec.expect[0].fields.\"a..b\"", "path"),
    ("expect:\n- {runs: mocc/x}", 7, "spec.expect[0]", "does not say how many; add is, atLeast"),
    ("expect:\n- {runs: msched/x, is: 1}", 7, "spec.expect[0].runs", "has no runs"),
    (
        "expect:\n- {runs: mocc/x, is: 1, atLeast: 1}",
        7,
        "spec.expect[0]",
        "has is together with atLeast or atMost",
    ),
    (
        "expect:\n- {count: mocc, atLeast: 3, atMost: 2}",
        7,
        "spec.expect[0]",
        "atLeast: 3 is more than atMost: 2",
    ),
    ("expect:\n- {count: cronjob, is: 1}", 7, "spec.expect[0].count", "is no kind of object"),
    ("expect:\n- {terms: {exactly: 2}}", 7, "spec.expect[0].terms.exactly", "is no bound of terms"),
    ("expect:\n- {trace: first}", 7, "spec.expect[0].trace", "must be last, or a position such"),
    ("expect:\n- {admissions: rqueue/x}", 7, "spec.expect[0]", "does not say how the queue stands"),
    ("expect:\n- {admissions: mocc/x, is: Open}", 7, "spec.expect[0].admissions", "name a queue"),
    ("expect:\n- {order: [mocc/x]}", 7, "spec.expect[0].order", "two objects at least"),
    ("expect:\n- {terms: 1, runs: mocc/x}", 7, "spec.expect[0]", "has both runs and terms"),
    ("objects:\n- {kind: CronJob}", 7, "spec.objects[0].kind", "is no kind that is simulated"),
    ("objects:\n- {kind: msched}", 7, "spec.objects[0].kind", "is no kind that is simulated"),
    (
        "objects:\n- {apiVersion: v1, kind: MaintenanceSchedule, metadata: {name: x}}",
        7,
        "spec.objects[0].apiVersion",
        "must be punctual.dev/v1alpha1 for a MaintenanceSchedule",
    ),
    (
        "objects:\n- {apiVersion: v1, kind: Node, metadata: {name: x, namespace: y}}",
        7,
        "spec.objects[0].metadata.namespace",
        "a Node has no namespace; remove it",
    ),
    (
        "objects:\n- {apiVersion: v1, kind: Pod, metadata: {generateName: x}}",
        7,
        "spec.objects[0].metadata.name",
        "is missing; every object of a scenario has a name",
    ),
];

#[test]
fn every_mistake_is_told_with_its_line_its_field_and_what_to_write() {
    for (spec, line, field, sentence) in MISTAKES {
        let told = problems(&file(spec));
        let start = format!("{line}: {field}: ");
        let fine = told.iter().any(|one| one.starts_with(&start) && one.contains(sentence));
        assert!(fine, "{spec}\nwanted {start}… {sentence}\ngot {told:#?}");
        assert_eq!(told.len(), 1, "{spec}: {told:#?}");
    }
}

#[test]
fn a_misspelt_field_of_a_manifest_is_told_as_kubectl_does() {
    let of = |fields: &str| {
        problems(&file(&format!(
            "objects:\n- apiVersion: punctual.dev/v1alpha1\n  kind: MaintenanceSchedule\n  {fields}"
        )))
    };
    for (fields, told) in [
        (
            "metadata: {name: x}\n  spec:\n    schedule: '0 2 * * *'\n    timezone: UTC",
            "12: spec.objects[0].spec.timezone: is no field of the kind; did you mean timeZone?",
        ),
        (
            "metadata: {name: x, label: {a: b}}",
            "9: spec.objects[0].metadata.label: is no field of metadata; did you mean labels?",
        ),
        (
            "metadata: {name: x}\n  sepc: {}",
            "10: spec.objects[0].sepc: is no field; did you mean spec?",
        ),
        (
            "metadata: {name: x}\n  spec: {run: {simulated: {duration: 1s}}}",
            "10: spec.objects[0].spec.run.simulated.duration: is no field of the kind; known are",
        ),
    ] {
        let all = of(fields);
        assert!(all.len() == 1 && all[0].starts_with(told), "{fields}: {all:#?}");
    }
    let job = "objects:\n- apiVersion: punctual.dev/v1alpha1\n  kind: MaintenanceSchedule\n  \
               metadata: {name: x, labels: {any: thing}}\n  spec:\n    run:\n      parameters: \
               {any: thing}\n      job: {template: {spec: {whatever: [1]}}}";
    assert!(parse("x.yaml", &file(job)).is_ok(), "templates and maps are free");
}

#[test]
fn all_mistakes_of_a_file_are_told_in_its_order() {
    let told = problems(&file(
        "end: soon\nsteps:\n- {at: 1s, puase: all}\n- {at: 1s, kill: all}\nexpect:\n- {terms: x}",
    ));
    let lines: Vec<_> = told.iter().map(|one| one.split(':').next().unwrap()).collect();
    assert_eq!(lines, ["6", "8", "11"], "{told:#?}");
}

#[test]
fn what_is_no_scenario_at_all_is_told() {
    for (text, told) in [
        ("", "1: must be an object with named fields, not nothing"),
        ("a: [", "2: is no YAML that can be used"),
        ("kind: Scenario", "1: apiVersion: is missing; write punctual.dev/v1alpha1"),
        (
            "apiVersion: punctual.dev/v1alpha1\nkind: Szenario\nmetadata: {name: x}\nspec: {start: \
             '2026-11-29T01:58:00Z'}",
            "2: kind: must be Scenario, not \"Szenario\"",
        ),
        (
            "apiVersion: punctual.dev/v1alpha1\nkind: Scenario\nmetadata: {name: X_Y}\nspec: \
             {start: '2026-11-29T01:58:00Z'}",
            "3: metadata.name: must have at most 63 lower-case letters",
        ),
        (
            "apiVersion: punctual.dev/v1alpha1\nkind: Scenario\nmetadata: {name: x}\nspec: {}",
            "4: spec.start: is missing; it is what clocks show at the start",
        ),
    ] {
        let all = problems(text);
        assert!(all[0].starts_with(told), "{text}: {all:#?}");
    }
}
