//! The validation rules of the CRDs (CEL) as native functions.
//!
//! A twin is looked up by the text of the rule in the CRD that is installed. So a CRD that lacks a
//! rule is not enforced here either, and a rule that has no twin is an error when its CRD is
//! installed. A test holds every twin equal to the CEL text.

use serde_json::Value;

use crate::api::{
    report_rules::{
        ARTIFACT_RULE, LEDGER_RULE, QUEUE_NAME_RULE, REPORT_IDENTITY_RULE, REPORT_NAME_RULE,
        REPORT_TERMINAL_RULE, SCHEDULED_NAME_RULE, SCHEDULED_WHOLE_RULE,
    },
    rules::{
        CANCEL_RULE, FENCE_RULE, ID_RULE, IDENTITY_RULE, INSTANT_RULE, NAME_RULE, NO_ZONE_RULE,
        ONE_PROVIDER_RULE, PARAMETERS_RULE, RUN_RULE, SCHEDULE_NAME_RULE, TERMINAL_RULE,
        TRACE_FINAL_RULE, TRACE_NAME_RULE, TRACE_SPEC_RULE, TRACE_TERM_RULE,
    },
};

/// Whether a rule holds for a value in place of an old one. A rule that compares with the old value
/// is not asked without one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Twin {
    /// Looks at the value alone.
    Of(fn(&Value) -> bool),
    /// Looks at the new and the old value.
    Transition(fn(&Value, &Value) -> bool),
}

impl Twin {
    /// The twin of a rule.
    pub(super) fn of(rule: &str) -> Option<Self> {
        ALL.iter().find(|(text, _)| *text == rule).map(|(_, twin)| *twin)
    }

    /// Whether the rule holds.
    pub(super) fn holds(self, new: &Value, old: Option<&Value>) -> bool {
        match self {
            Self::Of(holds) => holds(new),
            Self::Transition(holds) => old.is_none_or(|old| holds(new, old)),
        }
    }
}

/// Every rule.
pub(super) const ALL: [(&str, Twin); 25] = [
    ("true", Twin::Of(|_| true)),
    (NAME_RULE, Twin::Of(name_is_identity)),
    (SCHEDULE_NAME_RULE, Twin::Of(|object| name_has_at_most(object, 40))),
    (INSTANT_RULE, Twin::Of(instant_exists)),
    (NO_ZONE_RULE, Twin::Of(|text| !str_of(text).contains("TZ="))),
    (ONE_PROVIDER_RULE, Twin::Of(one_provider)),
    (PARAMETERS_RULE, Twin::Of(parameters_fit)),
    (FENCE_RULE, Twin::Transition(fence_stands)),
    (IDENTITY_RULE, Twin::Transition(identity_stands)),
    (RUN_RULE, Twin::Transition(run_stands)),
    (CANCEL_RULE, Twin::Transition(cancel_stands)),
    (ID_RULE, Twin::Transition(id_stands)),
    (TERMINAL_RULE, Twin::Transition(terminal_stands)),
    (TRACE_NAME_RULE, Twin::Of(trace_name_is_term)),
    (TRACE_SPEC_RULE, Twin::Transition(|new, old| unchanged(new, old, &["spec"]))),
    (TRACE_TERM_RULE, Twin::Of(trace_is_of_its_term)),
    (TRACE_FINAL_RULE, Twin::Transition(completed_trace_stands)),
    (QUEUE_NAME_RULE, Twin::Of(|object| name_has_at_most(object, 63))),
    (LEDGER_RULE, Twin::Transition(ledger_stands)),
    (REPORT_NAME_RULE, Twin::Of(|object| name_has_at_most(object, 53))),
    (SCHEDULED_WHOLE_RULE, Twin::Of(scheduled_is_whole)),
    (SCHEDULED_NAME_RULE, Twin::Of(scheduled_name_is_identity)),
    (REPORT_IDENTITY_RULE, Twin::Transition(report_stands)),
    (ARTIFACT_RULE, Twin::Transition(artifact_stands)),
    (REPORT_TERMINAL_RULE, Twin::Transition(report_outcome_stands)),
];

fn str_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The value at a path of names; absent where any of them is.
fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(*name))
}

fn unchanged(new: &Value, old: &Value, path: &[&str]) -> bool {
    at(new, path) == at(old, path)
}

fn name_is_identity(object: &Value) -> bool {
    let spec = &object["spec"];
    let digits = str_of(&spec["intendedTime"]).replace(['-', 'T', ':'], "");
    let identity = format!("{}-{digits}", str_of(&spec["scheduleName"]));
    format!("{}00Z", str_of(&object["metadata"]["name"])) == identity
}

fn name_has_at_most(object: &Value, most: usize) -> bool {
    str_of(&object["metadata"]["name"]).chars().count() <= most
}

/// RFC 3339, and not in the year 0000.
fn instant_exists(text: &Value) -> bool {
    let text = str_of(text);
    !text.starts_with("0000") && super::formats::is_rfc3339(text)
}

fn one_provider(run: &Value) -> bool {
    ["job", "http", "simulated"].iter().filter(|name| run.get(**name).is_some()).count() == 1
}

fn parameters_fit(parameters: &Value) -> bool {
    let pairs = parameters.as_object().into_iter().flatten();
    pairs.map(|(name, value)| name.len() + str_of(value).len()).sum::<usize>() <= 8192
}

fn fence_stands(new: &Value, old: &Value) -> bool {
    let fence = ["status", "fence"];
    let Some(before) = at(old, &fence) else { return true };
    let Some(after) = at(new, &fence) else { return false };
    let epoch = |fence: &Value| fence["epoch"].as_i64();
    epoch(after) > epoch(before)
        || (epoch(after) == epoch(before) && after["nonce"] == before["nonce"])
}

fn identity_stands(new: &Value, old: &Value) -> bool {
    ["scheduleName", "intendedTime", "scheduleUID"]
        .iter()
        .all(|field| unchanged(new, old, &["spec", field]))
}

fn run_stands(new: &Value, old: &Value) -> bool {
    let run = ["spec", "run"];
    let (Some(after), Some(before)) = (at(new, &run), at(old, &run)) else {
        return at(new, &run).is_some() == at(old, &run).is_some();
    };
    after.get("job").is_some() == before.get("job").is_some()
        && [
            "actionClass",
            "maxAttempts",
            "startTimeoutSeconds",
            "timeoutSeconds",
            "parameters",
            "http",
            "simulated",
        ]
        .iter()
        .all(|field| unchanged(after, before, &[field]))
}

fn cancel_stands(new: &Value, old: &Value) -> bool {
    let cancelled = |object: &Value| object["spec"]["cancel"] == true;
    !cancelled(old) || cancelled(new)
}

fn id_stands(new: &Value, old: &Value) -> bool {
    let id = ["status", "id"];
    at(old, &id).is_none_or(|before| at(new, &id) == Some(before))
}

fn terminal_stands(new: &Value, old: &Value) -> bool {
    let terminal = ["Succeeded", "Failed", "Cancelled", "Skipped", "Superseded"];
    outcome_stands(new, old, &terminal, &["state", "reason", "result"])
}

/// Whether the old state is not one of these, or these fields of the status are what they were.
fn outcome_stands(new: &Value, old: &Value, terminal: &[&str], fields: &[&str]) -> bool {
    let state = at(old, &["status", "state"]).map(str_of);
    !state.is_some_and(|state| terminal.contains(&state))
        || fields.iter().all(|field| unchanged(new, old, &["status", field]))
}

fn trace_name_is_term(trace: &Value) -> bool {
    let (name, spec) = (str_of(&trace["metadata"]["name"]), &trace["spec"]);
    let after = name.strip_prefix(str_of(&spec["leaseName"]));
    let Some(number) = after.and_then(|after| after.strip_prefix('-')) else { return false };
    let written_once = (1..=18).contains(&number.len())
        && !number.starts_with('0')
        && number.bytes().all(|sign| sign.is_ascii_digit());
    written_once && number.parse().ok() == spec["epoch"].as_i64()
}

fn trace_is_of_its_term(trace: &Value) -> bool {
    at(trace, &["status", "fence", "epoch"]).is_none_or(|epoch| *epoch == trace["spec"]["epoch"])
}

fn completed_trace_stands(new: &Value, old: &Value) -> bool {
    at(old, &["status", "completionTime"]).is_none() || unchanged(new, old, &["status"])
}

fn ledger_stands(new: &Value, old: &Value) -> bool {
    let ledger = ["status", "ledger"];
    let Some(before) = at(old, &ledger) else { return true };
    let Some(after) = at(new, &ledger) else { return false };
    let taken = |ledger: &Value| ledger["entries"].as_array().map_or(0, Vec::len);
    let slots = new["spec"]["slots"].as_u64().and_then(|slots| usize::try_from(slots).ok());
    slots.is_some_and(|slots| taken(after) <= slots) || taken(after) <= taken(before)
}

fn scheduled_is_whole(job: &Value) -> bool {
    let has = |field: &str| job["spec"].get(field).is_some();
    has("scheduleName") == has("intendedTime") && has("scheduleName") == has("scheduleUID")
}

fn scheduled_name_is_identity(job: &Value) -> bool {
    let spec = &job["spec"];
    if spec.get("scheduleName").is_some() && spec.get("intendedTime").is_some() {
        return name_is_identity(job);
    }
    let name = str_of(&job["metadata"]["name"]);
    let end = name.len().checked_sub(13).and_then(|start| name.get(start..));
    let digits = end.and_then(|end| end.strip_prefix('-'));
    !digits.is_some_and(|digits| digits.bytes().all(|sign| sign.is_ascii_digit()))
}

fn report_stands(new: &Value, old: &Value) -> bool {
    [
        "queueName",
        "tenant",
        "priority",
        "parameters",
        "estimateSeconds",
        "queueDeadlineSeconds",
        "artifact",
        "scheduleName",
        "intendedTime",
        "scheduleUID",
    ]
    .iter()
    .all(|field| unchanged(new, old, &["spec", field]))
}

fn artifact_stands(new: &Value, old: &Value) -> bool {
    let artifact = ["status", "artifact"];
    at(old, &artifact).is_none_or(|before| at(new, &artifact) == Some(before))
}

fn report_outcome_stands(new: &Value, old: &Value) -> bool {
    let terminal = ["Succeeded", "Failed", "Cancelled", "Rejected"];
    outcome_stands(new, old, &terminal, &["state", "reason", "result", "artifact"])
}
