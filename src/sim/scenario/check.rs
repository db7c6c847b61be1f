//! Judges expectations by what is there, and says what was there if one fails.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    expect::{Bounds, TraceAt, Wanted, What},
    object::{DEFAULT_NAMESPACE, ObjectRef},
    path::FieldPath,
    show_time,
};
use crate::sim::{Kind, api::Model};

/// Most objects that a sentence lists.
const MAX_LISTED: usize = 4;
/// Longest value that a sentence repeats, in characters.
const MAX_VALUE_CHARS: usize = 200;

/// What expectations are judged by.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// The store.
    pub model: &'a Model,
    /// Every run so far.
    pub runs: &'a [RunFact],
    /// Every recovery trace so far, oldest first, also those removed since.
    pub traces: &'a [Arc<Value>],
    /// How often the Lease was acquired so far.
    pub terms: usize,
}

/// A run that was held, by whatever provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFact {
    /// Kind of its object.
    pub kind: String,
    /// Namespace of its object.
    pub namespace: String,
    /// Name of its object.
    pub name: String,
    /// Its key.
    pub run_key: String,
    /// When it was released first.
    pub released_at: Option<Duration>,
}

impl RunFact {
    fn is_of(&self, object: &ObjectRef) -> bool {
        self.kind == object.kind.name()
            && self.namespace == object.namespace
            && self.name == object.name
    }
}

/// An expectation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// What was expected.
    pub expected: String,
    /// What was there.
    pub found: String,
}

type Verdict = Result<(), Miss>;

fn miss(expected: impl Into<String>, found: impl Into<String>) -> Verdict {
    Err(Miss { expected: expected.into(), found: found.into() })
}

impl What {
    /// Whether it holds.
    pub fn judge(&self, ground: Ground<'_>) -> Verdict {
        match self {
            Self::Object { object, state, reason, fields } => {
                judge_object(ground, object, state.as_deref(), reason.as_deref(), fields)
            }
            Self::Runs { object, bounds } => judge_runs(ground, object, *bounds),
            Self::Count { kind, state, namespace, tenant, bounds } => {
                let wanted = Wants {
                    state: state.as_deref(),
                    namespace: namespace.as_deref(),
                    tenant: tenant.as_deref(),
                };
                judge_count(ground, *kind, &wanted, *bounds)
            }
            Self::Absent(object) => match get(ground, object) {
                None => Ok(()),
                Some(found) => miss(format!("no {object}"), format!("it is {}", standing(&found))),
            },
            Self::Terms(bounds) => {
                let terms = ground.terms as u64;
                if bounds.hold(terms) {
                    return Ok(());
                }
                miss(format!("{bounds} terms of leadership"), format!("there were {terms}"))
            }
            Self::Trace { which, numbers } => judge_trace(ground, *which, numbers),
            Self::Admissions { queue, is, reason } => {
                judge_admissions(ground, queue, is.as_deref(), reason.as_deref())
            }
            Self::Event { reason, object, bounds } => {
                judge_event(ground, reason, object.as_ref(), *bounds)
            }
            Self::Order(objects) => judge_order(ground, objects),
        }
    }
}

fn get(ground: Ground<'_>, object: &ObjectRef) -> Option<Arc<Value>> {
    ground.model.get(&object.key())
}

/// A value in a sentence: text as it is, anything else as JSON.
fn show(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.chars().count() <= MAX_VALUE_CHARS {
        return text;
    }
    text.chars().take(MAX_VALUE_CHARS).collect::<String>() + "…"
}

/// How an object stands, in a few words.
fn standing(object: &Value) -> String {
    let status = &object["status"];
    let Some(state) = status["state"].as_str() else { return "there, without a state".into() };
    let reason = status["reason"].as_str().map(|reason| format!(" ({reason})"));
    let message = status["message"].as_str().map(|message| format!(": {message}"));
    format!("{state}{}{}", reason.unwrap_or_default(), message.unwrap_or_default())
}

/// The names of some objects, for a sentence.
fn names<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    let names: Vec<String> = objects
        .map(|object| {
            let name = object["metadata"]["name"].as_str().unwrap_or("?");
            match object["metadata"]["namespace"].as_str() {
                None | Some(DEFAULT_NAMESPACE) => name.to_owned(),
                Some(namespace) => format!("{namespace}/{name}"),
            }
        })
        .collect();
    let more = names.len().saturating_sub(MAX_LISTED);
    let listed = names[..names.len().min(MAX_LISTED)].join(", ");
    if more == 0 { listed } else { format!("{listed} and {more} more") }
}

fn judge_object(
    ground: Ground<'_>,
    object: &ObjectRef,
    state: Option<&str>,
    reason: Option<&str>,
    fields: &[(FieldPath, Wanted)],
) -> Verdict {
    let Some(found) = get(ground, object) else {
        let wanted = state.map(|state| format!(" in state {state}")).unwrap_or_default();
        let others = ground.model.list(object.kind);
        let others = match names(others.iter().map(AsRef::as_ref)) {
            names if names.is_empty() => format!("there is no {} at all", object.kind.short()),
            names => format!("it is not there; there are {names}"),
        };
        return miss(format!("{object}{wanted}"), others);
    };
    let status = &found["status"];
    for (what, wanted) in [("state", state), ("reason", reason)] {
        if wanted.is_some_and(|wanted| status[what] != wanted) {
            let wanted = wanted.unwrap_or_default();
            return miss(
                format!("{object} with {what} {wanted}"),
                format!("it is {}", standing(&found)),
            );
        }
    }
    for (path, wanted) in fields {
        let value = path.of(&found);
        match (wanted, value) {
            (Wanted::Present, Some(_)) => {}
            (Wanted::Present, None) => {
                return miss(format!("{object} with some {path}"), "that field is not there");
            }
            (Wanted::Equal(wanted), value) => {
                let same = value.map_or(wanted.is_null(), |value| equal(value, wanted));
                if !same {
                    let found = value.map_or_else(|| "nothing".to_owned(), show);
                    let expected = format!("{object} with {path} = {}", show(wanted));
                    return miss(expected, format!("it is {found}"));
                }
            }
        }
    }
    Ok(())
}

/// Whether two values are the same; 1 and 1.0 are.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Released runs of an object's name, the first release of each run key.
fn released<'a>(ground: Ground<'a>, object: &ObjectRef) -> Vec<(&'a str, Duration)> {
    let mut found: Vec<(&str, Duration)> = Vec::new();
    for run in ground.runs.iter().filter(|run| run.is_of(object)) {
        let Some(at) = run.released_at else { continue };
        match found.iter_mut().find(|(key, _)| *key == run.run_key) {
            Some((_, first)) => *first = at.min(*first),
            None => found.push((&run.run_key, at)),
        }
    }
    found
}

fn judge_runs(ground: Ground<'_>, object: &ObjectRef, bounds: Bounds) -> Verdict {
    let runs = released(ground, object);
    if bounds.hold(runs.len() as u64) {
        return Ok(());
    }
    let plural = if bounds.is_one() { "run" } else { "runs" };
    let found = if runs.is_empty() {
        "none was released".to_owned()
    } else {
        let at = runs.iter().take(MAX_LISTED).map(|(_, at)| show_time(*at));
        let at = at.collect::<Vec<_>>().join(", ");
        format!("{} released, at {at}", runs.len())
    };
    miss(format!("{bounds} {plural} of {object}"), found)
}

/// What objects must be like to count.
struct Wants<'a> {
    state: Option<&'a str>,
    namespace: Option<&'a str>,
    tenant: Option<&'a str>,
}

impl Wants<'_> {
    fn are(&self, object: &Value) -> bool {
        let is = |wanted: Option<&str>, value: &Value| wanted.is_none_or(|wanted| value == wanted);
        is(self.state, &object["status"]["state"])
            && is(self.namespace, &object["metadata"]["namespace"])
            && is(self.tenant, &object["spec"]["tenant"])
    }
}

fn judge_count(ground: Ground<'_>, kind: Kind, wants: &Wants<'_>, bounds: Bounds) -> Verdict {
    let all = ground.model.list(kind);
    let count = all.iter().filter(|object| wants.are(object)).count();
    if bounds.hold(count as u64) {
        return Ok(());
    }
    let short = kind.short();
    let mut expected = format!("{bounds} {short}");
    for (word, wanted) in
        [("in state", wants.state), ("in namespace", wants.namespace), ("of tenant", wants.tenant)]
    {
        if let Some(wanted) = wanted {
            expected = format!("{expected} {word} {wanted}");
        }
    }
    let each = all.iter().take(MAX_LISTED).map(|object| {
        let state = object["status"]["state"].as_str().unwrap_or("no state");
        format!("{} {state}", names(std::iter::once(object.as_ref())))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let more = all.len().saturating_sub(MAX_LISTED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let of = if all.is_empty() {
        format!("there is no {short} at all")
    } else {
        format!("{count} of {} are so: {each}{more}", all.len())
    };
    miss(expected, of)
}

fn judge_trace(ground: Ground<'_>, which: TraceAt, numbers: &[(&'static str, i64)]) -> Verdict {
    let (trace, shown) = match which {
        TraceAt::Last => (ground.traces.last(), "the newest recovery trace".to_owned()),
        TraceAt::Number(n) => (ground.traces.get(n - 1), format!("recovery trace {n}")),
    };
    let Some(trace) = trace else {
        return miss(shown, format!("there are {}", ground.traces.len()));
    };
    let name = trace["metadata"]["name"].as_str().unwrap_or("?");
    for (field, wanted) in numbers {
        let found = trace["status"][field].as_i64();
        if found != Some(*wanted) {
            let found = found.map_or_else(
                || "it does not say; recovery was not complete".to_owned(),
                |found| format!("it is {found}"),
            );
            return miss(format!("{shown} ({name}) with {field} = {wanted}"), found);
        }
    }
    Ok(())
}

fn judge_admissions(
    ground: Ground<'_>,
    queue: &ObjectRef,
    is: Option<&str>,
    reason: Option<&str>,
) -> Verdict {
    let Some(found) = get(ground, queue) else {
        return miss(
            format!("{queue} with admissions {}", is.unwrap_or("of any kind")),
            "no queue",
        );
    };
    let status = &found["status"];
    for (what, wanted) in [("admissions", is), ("reason", reason)] {
        if let Some(wanted) = wanted
            && status[what] != wanted
        {
            let found = format!("it is {}", show(&status[what]));
            return miss(format!("{queue} with {what} {wanted}"), found);
        }
    }
    Ok(())
}

fn judge_event(
    ground: Ground<'_>,
    reason: &str,
    object: Option<&ObjectRef>,
    bounds: Bounds,
) -> Verdict {
    let mut count = 0;
    let mut others = Vec::new();
    for event in ground.model.list(Kind::Event) {
        let about = &event["regarding"];
        let is_about = object.is_none_or(|object| {
            about["kind"] == object.kind.name()
                && about["name"] == object.name.as_str()
                && about["namespace"].as_str().unwrap_or_default() == object.namespace
        });
        if !is_about {
            continue;
        }
        if event["reason"] == reason {
            count += event["series"]["count"].as_u64().unwrap_or(1).max(1);
        } else if let Some(other) = event["reason"].as_str() {
            others.push(other.to_owned());
        }
    }
    if bounds.hold(count) {
        return Ok(());
    }
    others.sort_unstable();
    others.dedup();
    others.truncate(MAX_LISTED * 2);
    let about = object.map(|object| format!(" about {object}")).unwrap_or_default();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("; other events{about}: {}", others.join(", "))
    };
    miss(format!("{bounds} events {reason}{about}"), format!("there were {count}{others}"))
}

fn judge_order(ground: Ground<'_>, objects: &[ObjectRef]) -> Verdict {
    let first = |object: &ObjectRef| released(ground, object).iter().map(|(_, at)| *at).min();
    let listed: Vec<String> = objects.iter().map(ToString::to_string).collect();
    let expected = || format!("first releases in the order {}", listed.join(", "));
    let mut last: Option<(&ObjectRef, Duration)> = None;
    for object in objects {
        let Some(at) = first(object) else {
            return miss(expected(), format!("{object} never started"));
        };
        if let Some((other, before)) = last
            && at < before
        {
            let (at, before) = (show_time(at), show_time(before));
            return miss(expected(), format!("{object} started at {at}, {other} at {before}"));
        }
        last = Some((object, at));
    }
    Ok(())
}
