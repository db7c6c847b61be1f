//! What the schemas look like: bounds, formats, words, sizes, promised fields.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    super::{
        FENCE_RULE, MAX_CLAIMS, MAX_LEASE_NAME, MAX_MESSAGE_CHARS, MAX_PARAMETERS,
        MAX_REASON_CHARS, MAX_SKIPPED_RANGES, MAX_SLOTS, MAX_TAGS, MAX_TENANT_CHARS,
        MAX_TENANT_RULES, MAX_TRACE_ITEMS, MAX_TRACE_PAUSED, MAX_WEIGHT, MaintenanceOccurrence,
        MaintenanceSchedule, ReportJob, ReportQueue, ReportSchedule, crds,
    },
    schema, walk,
};

/// Longest object that client-side `kubectl apply` can annotate.
const MAX_APPLY_BYTES: usize = 262_144;

fn kinds() -> Vec<String> {
    crds().iter().map(|crd| crd.spec.names.kind.clone()).collect()
}

fn each_node(mut visit: impl FnMut(&str, &Value)) {
    for kind in kinds() {
        let schema = schema(&kind);
        walk(&schema, "", &mut |path, node| visit(&format!("{kind} {path}"), node));
    }
}

#[test]
fn formats_are_known_to_kubernetes() {
    each_node(|path, node| {
        if let Some(format) = node.get("format") {
            assert!(["int32", "int64", "date-time"].contains(&format.as_str().unwrap()), "{path}");
        }
    });
}

/// Words that YAML 1.1, which kubectl and Helm read, takes for booleans or null.
fn is_yaml_keyword(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["y", "yes", "n", "no", "on", "off", "true", "false", "null", "~"].contains(&word.as_str())
}

#[test]
fn no_word_is_a_yaml_boolean() {
    fn strings(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                found.push(key.clone());
                strings(value, found);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    each_node(|path, node| {
        let mut words = Vec::new();
        strings(&node["default"], &mut words);
        // `status` of a condition has the values of metav1.Condition, which everybody quotes.
        if !path.ends_with("conditions.[].status") {
            strings(&node["enum"], &mut words);
        }
        words.extend(node["properties"].as_object().into_iter().flat_map(|p| p.keys().cloned()));
        for word in words {
            assert!(!is_yaml_keyword(&word), "{path}: {word}");
        }
    });
}

#[test]
fn everything_is_bounded() {
    each_node(|path, node| {
        if node["x-kubernetes-preserve-unknown-fields"] == true {
            assert!(path.ends_with("job.template"), "{path} preserves unknown fields");
            return;
        }
        match node["type"].as_str() {
            Some("string") => {
                let bounded = node["maxLength"].is_u64() || node["enum"].is_array();
                assert!(bounded, "{path}: string without maxLength or enum");
            }
            Some("array") => assert!(node["maxItems"].is_u64(), "{path}: list without maxItems"),
            Some("object") if node["additionalProperties"].is_object() => {
                assert!(node["maxProperties"].is_u64(), "{path}: map without maxProperties");
            }
            Some("object") => {
                let metadata = path.ends_with(" metadata");
                let known = node["properties"].is_object() || metadata;
                // `simulated: {}` and the like have only optional fields, but they have some.
                assert!(known, "{path}: object without fields");
            }
            Some("integer" | "boolean") => {}
            None if node["x-kubernetes-int-or-string"] == true => {
                assert!(node["maxLength"].is_u64(), "{path}: text without maxLength");
            }
            other => panic!("{path}: unexpected type {other:?}"),
        }
    });
}

#[test]
fn bounds_are_the_constants_of_the_code() {
    let schedule = schema("MaintenanceSchedule");
    let status = &schedule["properties"]["status"]["properties"];
    assert_eq!(status["claimed"]["maxItems"], json!(MAX_CLAIMS));
    assert_eq!(status["skipped"]["maxItems"], json!(MAX_SKIPPED_RANGES));
    let queue = schema("ReportQueue");
    let (spec, status) = (&queue["properties"]["spec"], &queue["properties"]["status"]);
    let ledger = &status["properties"]["ledger"]["properties"];
    assert_eq!(ledger["entries"]["maxItems"], json!(MAX_SLOTS));
    assert_eq!(ledger["tags"]["maxItems"], json!(MAX_TAGS));
    assert_eq!(spec["properties"]["slots"]["maximum"], json!(f64::from(MAX_SLOTS)));
    let tenants = &spec["properties"]["tenants"];
    assert_eq!(tenants["maxItems"], json!(MAX_TENANT_RULES));
    let tenant = &tenants["items"]["properties"];
    assert_eq!(tenant["name"]["maxLength"], json!(MAX_TENANT_CHARS));
    assert_eq!(tenant["weight"]["maximum"], json!(f64::from(MAX_WEIGHT)));
    let job = schema("ReportJob");
    let job = &job["properties"]["spec"]["properties"];
    assert_eq!(job["tenant"]["maxLength"], json!(MAX_TENANT_CHARS));
    assert_eq!(job["tenant"]["pattern"], tenant["name"]["pattern"]);
    let trace = schema("RecoveryTrace");
    let status = &trace["properties"]["status"]["properties"];
    assert_eq!(status["items"]["maxItems"], json!(MAX_TRACE_ITEMS));
    assert_eq!(status["paused"]["maxItems"], json!(MAX_TRACE_PAUSED));
    let spec = &trace["properties"]["spec"]["properties"];
    assert_eq!(spec["leaseName"]["maxLength"], json!(MAX_LEASE_NAME));
    let run = &schedule["properties"]["spec"]["properties"]["run"]["properties"];
    assert_eq!(run["parameters"]["maxProperties"], json!(MAX_PARAMETERS));
    each_node(|path, node| {
        if path.ends_with("message") {
            assert_eq!(node["maxLength"], json!(MAX_MESSAGE_CHARS), "{path}");
        }
        if path.contains("status.") && path.ends_with(".reason") && node["enum"].is_null() {
            assert_eq!(node["maxLength"], json!(MAX_REASON_CHARS), "{path}");
        }
    });
}

#[test]
fn everything_is_documented() {
    each_node(|path, node| {
        let standard =
            ["apiVersion", "kind", "metadata"].iter().any(|f| path.ends_with(&format!(" {f}")));
        let value = path.ends_with("{}") || path.ends_with("[]");
        if !standard && !value {
            let text = node["description"].as_str().unwrap_or_default();
            assert!(text.len() > 8 && !text.contains("Auto-generated"), "{path}: {text:?}");
        }
    });
}

#[test]
fn a_definition_fits_into_the_annotation_of_kubectl_apply() {
    for crd in crds() {
        let bytes = serde_json::to_vec(crd).unwrap().len();
        assert!(bytes < MAX_APPLY_BYTES / 2, "{}: {bytes} bytes", crd.spec.names.kind);
    }
}

/// Places where a rule names an object that preserves unknown fields, other than in `has(…)`.
fn comparisons_of_raw_objects(schema: &Value) -> Vec<String> {
    let mut raw = Vec::new();
    walk(schema, "", &mut |path, node| {
        let mut holds_raw = false;
        walk(node, "", &mut |_, inner| {
            holds_raw |= inner["x-kubernetes-preserve-unknown-fields"] == true;
        });
        if holds_raw {
            raw.push(path.to_owned());
        }
    });
    let mut found = Vec::new();
    walk(schema, "", &mut |at, node| {
        for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let rule = rule["rule"].as_str().unwrap();
            for (path, in_has) in mentions(rule) {
                let full = [at, path.as_str()]
                    .iter()
                    .filter(|p| !p.is_empty())
                    .copied()
                    .collect::<Vec<_>>();
                let full = full.join(".");
                if !in_has && raw.contains(&full) {
                    found.push(format!("{full:?} in {rule}"));
                }
            }
        }
    });
    found
}

/// Every `self…` and `oldSelf…` of a rule: the path behind it, and whether it stands alone in `has(…)`.
fn mentions(rule: &str) -> Vec<(String, bool)> {
    let in_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut found = Vec::new();
    let mut position = 0;
    while let Some(offset) = rule[position..].find(in_path) {
        let start = position + offset;
        let length = rule[start..].find(|c| !in_path(c)).unwrap_or(rule.len() - start);
        position = start + length;
        let word = &rule[start..position];
        let path = ["self", "oldSelf"].iter().find_map(|root| word.strip_prefix(root));
        if let Some(path) = path.filter(|path| path.is_empty() || path.starts_with('.')) {
            let in_has = rule[..start].ends_with("has(") && rule[position..].starts_with(')');
            found.push((path.trim_start_matches('.').to_owned(), in_has));
        }
    }
    found
}

#[test]
fn no_rule_compares_an_object_that_preserves_unknown_fields() {
    for kind in kinds() {
        assert_eq!(comparisons_of_raw_objects(&schema(&kind)), [""; 0], "{kind}");
    }
}

#[test]
fn the_search_for_such_comparisons_finds_them() {
    for (place, rule) in [
        ("/x-kubernetes-validations", "self.spec.run == oldSelf.spec.run"),
        (
            "/x-kubernetes-validations",
            "self.spec.run.job.template == oldSelf.spec.run.job.template",
        ),
        ("/x-kubernetes-validations", "!has(self.status) || self.status == oldSelf.status"),
        ("/properties/spec/properties/run/x-kubernetes-validations", "self.job == oldSelf.job"),
        ("/properties/spec/properties/run/x-kubernetes-validations", "self == oldSelf"),
    ] {
        let mut forged = schema("MaintenanceOccurrence");
        *forged.pointer_mut(place).unwrap() = json!([{"rule": rule}]);
        assert_eq!(comparisons_of_raw_objects(&forged).len(), 2, "{rule}");
    }
}

#[test]
fn every_kind_has_the_fence_rule_at_its_root() {
    for kind in kinds() {
        let schema = schema(&kind);
        let rules = schema["x-kubernetes-validations"].as_array().unwrap();
        let fence = rules.iter().find(|rule| rule["rule"] == FENCE_RULE);
        assert_eq!(fence.unwrap()["fieldPath"], ".status.fence", "{kind}");
    }
}

#[test]
fn the_promised_fields_exist() {
    let promised = [
        (
            "MaintenanceSchedule",
            "spec: schedule timeZone dstPolicy anchor suspend suspendReason suspendUntilTime concurrencyPolicy \
             startingDeadlineSeconds missedRuns.policy missedRuns.limit spread.windowSeconds retention.successful \
             retention.failed retention.maxAgeDays abandon.[].uid abandon.[].reason run.actionClass run.maxAttempts \
             run.startTimeoutSeconds run.timeoutSeconds run.parameters.{} run.job.template run.http.url \
             run.http.credentialsSecretRef.name run.simulated.durationSeconds run.simulated.outcome",
        ),
        (
            "MaintenanceSchedule",
            "status: state nextScheduleTime lastScheduleTime latenessSeconds active claimed.[].time claimed.[].start \
             claimed.[].uid claimed.[].runKey claimed.[].actionClass claimed.[].http effectiveTime suspendedTime \
             observed.uid observed.schedule observed.timeZone observed.dstPolicy observed.anchor prunedThrough \
             skipped.[].from skipped.[].to skipped.[].count skipped.[].reason skippedTotal.{} tzdbVersion fence.epoch \
             fence.nonce conditions.[].type observedGeneration",
        ),
        (
            "MaintenanceOccurrence",
            "spec: scheduleName intendedTime scheduleUID run.job.template cancel resolution.attempt \
             resolution.decision resolution.reason resolution.acceptDuplicate",
        ),
        (
            "MaintenanceOccurrence",
            "status: state reason message id attempts.[].number attempts.[].runKey attempts.[].handle \
             attempts.[].pod.uid attempts.[].pod.node attempts.[].pod.nodeUID attempts.[].epoch \
             attempts.[].preparedTime attempts.[].startTime attempts.[].completionTime \
             attempts.[].stopRequestedTime attempts.[].outcome attempts.[].reason result.{} run.job.template \
             latenessSeconds fence.epoch fence.nonce conditions.[].type observedGeneration",
        ),
        (
            "ReportQueue",
            "spec: slots limits.queued limits.queuedPerTenant tenants.[].name tenants.[].weight \
             tenants.[].maxRunning retries.enabled retries.budgetPercent admission admissionReason \
             admissionUntilTime runTemplate.job.template allowOwnRun retention.successfulSeconds \
             retention.failedSeconds abandon.[].uid abandon.[].reason",
        ),
        (
            "ReportQueue",
            "status: slotsUsed waiting tenantsWaiting admissions reason ledger.entries.[].job \
             ledger.entries.[].uid ledger.entries.[].tenant ledger.entries.[].attempt \
             ledger.entries.[].runKey ledger.entries.[].actionClass ledger.entries.[].http.url \
             ledger.entries.[].charge ledger.entries.[].retry ledger.entries.[].admittedTime \
             drain.jobs drain.slotSeconds drain.aboutTime drain.atMostTime fence.epoch fence.nonce \
             conditions.[].type observedGeneration",
        ),
        (
            "ReportJob",
            "spec: queueName tenant priority parameters.{} estimateSeconds queueDeadlineSeconds \
             artifact run.job.template cancel resolution.attempt scheduleName intendedTime scheduleUID",
        ),
        (
            "ReportJob",
            "status: state reason message id position estimatedStartTime retryAfterTime \
             nextAttemptTime attempts.[].number attempts.[].runKey artifact.uri artifact.sha256 \
             artifact.sizeBytes artifact.attempt artifact.acceptedTime result.{} run.job.template \
             fence.epoch fence.nonce conditions.[].type observedGeneration",
        ),
        (
            "ReportSchedule",
            "spec: schedule timeZone dstPolicy anchor suspend suspendReason suspendUntilTime \
             startingDeadlineSeconds missedRuns.policy missedRuns.limit spread.windowSeconds \
             retention.successful retention.failed retention.maxAgeDays abandon.[].uid \
             jobTemplate.metadata.labels.{} jobTemplate.metadata.annotations.{} \
             jobTemplate.spec.queueName jobTemplate.spec.tenant jobTemplate.spec.priority \
             jobTemplate.spec.parameters.{} jobTemplate.spec.estimateSeconds \
             jobTemplate.spec.queueDeadlineSeconds jobTemplate.spec.artifact \
             jobTemplate.spec.run.job.template",
        ),
        ("RecoveryTrace", "spec: leaseName epoch holder formerHolder gained"),
        (
            "RecoveryTrace",
            "status: startTime completionTime phases.[].name phases.[].milliseconds resumed reconciled preserved \
             uncertain items.[].object items.[].class items.[].reason paused.[].reason fence.epoch fence.nonce \
             conditions.[].type",
        ),
    ];
    for (kind, fields) in promised {
        let schema = schema(kind);
        let mut paths = Vec::new();
        walk(&schema, "", &mut |path, _| paths.push(path.to_owned()));
        let (part, fields) = fields.split_once(": ").unwrap();
        for field in fields.split_whitespace() {
            assert!(paths.contains(&format!("{part}.{field}")), "{kind}: {part}.{field}");
        }
    }
}

/// An object as the code writes it after it read it.
fn read_back<K: Serialize + DeserializeOwned>(object: Value) -> Value {
    serde_json::to_value(serde_json::from_value::<K>(object).unwrap()).unwrap()
}

#[test]
fn defaults_of_the_schema_are_defaults_of_the_code() {
    let schedule = json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule", "metadata": {"name": "n"},
        "spec": {"schedule": "@daily", "run": {"simulated": {}}},
    });
    let occurrence = json!({
        "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceOccurrence",
        "metadata": {"name": "n-202611290200"},
        "spec": {"scheduleName": "n", "intendedTime": "2026-11-29T02:00:00Z"},
    });
    let of = |kind: &str, spec: Value| {
        let version = "punctual.dev/v1alpha1";
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "n"}, "spec": spec})
    };
    let queue = of("ReportQueue", json!({"slots": 1}));
    let job = of("ReportJob", json!({"queueName": "q", "tenant": "t"}));
    let template = json!({"spec": {"queueName": "q", "tenant": "t"}});
    let reports = of("ReportSchedule", json!({"schedule": "@daily", "jobTemplate": template}));
    let read = [
        read_back::<MaintenanceSchedule>(schedule),
        read_back::<MaintenanceOccurrence>(occurrence),
        read_back::<ReportQueue>(queue),
        read_back::<ReportJob>(job),
        read_back::<ReportSchedule>(reports),
    ];
    let mut seen = 0;
    for object in read {
        let schema = schema(object["kind"].as_str().unwrap());
        walk(&schema["properties"]["spec"], "/spec", &mut |path, node| {
            let Some(default) = node.get("default").filter(|_| !path.contains('[')) else { return };
            // What is not written at all is the type's own zero value.
            let value = object.pointer(&path.replace('.', "/")).cloned().unwrap_or(json!(false));
            assert_eq!(&value, default, "{path}");
            seen += 1;
        });
    }
    assert!(seen >= 30, "only {seen} defaults were compared");
}

#[test]
fn the_schema_declares_no_default_within_a_run() {
    const TEMPLATE_RUN: &str = "/properties/jobTemplate/properties/spec/properties/run";
    let mut seen = 0;
    for kind in kinds() {
        let schema = schema(&kind);
        let spec = &schema["properties"]["spec"];
        for run in ["/properties/run", "/properties/runTemplate", TEMPLATE_RUN] {
            let Some(run) = spec.pointer(run) else { continue };
            walk(run, "run", &mut |path, node| {
                assert!(node.get("default").is_none(), "{kind} {path}");
            });
            seen += 1;
        }
    }
    assert_eq!(seen, 5, "schedules, occurrences, queues, jobs, schedules of reports");
}
