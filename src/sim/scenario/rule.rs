//! Rules of the simulated provider: how runs go.

use std::{collections::BTreeMap, fmt};

use serde_json::{Value, json};

use super::read::{At, Read, echo};
use crate::{
    api::{ResultValue, SimulatedOutcome},
    sim::provider::Rule,
};

/// Most attempts that a rule names; an occurrence has at most 64.
const MAX_ATTEMPTS: usize = 64;
/// Largest artifact, in bytes: 4 TiB, more than any store takes as one object.
const MAX_ARTIFACT_BYTES: u64 = 4 << 40;
/// Most values of a result, as in the kinds.
const MAX_RESULTS: usize = 32;

/// A run as people name it: the object's name and `-m1` or `-r1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef(String);

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads one rule.
pub(super) fn read_rule(at: &At<'_>) -> Read<Rule> {
    let mut fields = at.fields()?;
    let glob = fields.need("match", "it is a glob on the object's name, for example \"*\"");
    let attempts = fields.get("attempts");
    let duration = fields.get("duration");
    let outcome = fields.get("outcome");
    let reason = fields.get("reason");
    let result = fields.get("result");
    let artifact = fields.get("artifact");
    fields.finish("field of a provider rule")?;
    Ok(Rule {
        matches: glob?.text()?.to_owned(),
        attempts: attempts.map(|at| read_attempts(&at)).transpose()?,
        duration: duration.map(|at| at.duration()).transpose()?,
        outcome: outcome.map(|at| at.one_of(&OUTCOMES)).transpose()?.unwrap_or_default(),
        result: result.map(|at| read_result(&at)).transpose()?,
        reason: reason.map(|at| at.text().map(str::to_owned)).transpose()?,
        artifact: artifact.map(|at| read_artifact(&at)).transpose()?,
    })
}

/// Outcomes by their name.
const OUTCOMES: [(&str, SimulatedOutcome); 4] = [
    ("Succeeded", SimulatedOutcome::Succeeded),
    ("Failed", SimulatedOutcome::Failed),
    ("Unknown", SimulatedOutcome::Unknown),
    ("Hang", SimulatedOutcome::Hang),
];

fn read_attempts(at: &At<'_>) -> Read<Vec<i32>> {
    let items = at.list(MAX_ATTEMPTS)?;
    if items.is_empty() {
        return Err(at.fault("is empty; leave it out for all attempts"));
    }
    let number = |item: &At<'_>| item.number(1, MAX_ATTEMPTS as u64);
    items.iter().map(|item| number(item).map(|n| i32::try_from(n).unwrap_or(i32::MAX))).collect()
}

fn read_result(at: &At<'_>) -> Read<BTreeMap<String, ResultValue>> {
    let entries = at.entries()?;
    if entries.len() > MAX_RESULTS {
        return Err(at.fault(format!("has {} values; at most {MAX_RESULTS} fit", entries.len())));
    }
    let mut result = BTreeMap::new();
    for entry in entries {
        let value = entry.value.to_value();
        let read = match (value.as_i64(), value.as_str()) {
            (Some(number), _) => ResultValue::Integer(number),
            (None, Some(text)) => ResultValue::Text(text.to_owned()),
            (None, None) => {
                let at = At::new(&entry.value, format!("{}.{}", at.field, entry.key));
                let value = echo(&value);
                return Err(at.fault(format!("must be text or a whole number, not {value}")));
            }
        };
        result.insert(entry.key.clone(), read);
    }
    Ok(result)
}

fn read_artifact(at: &At<'_>) -> Read<Value> {
    let mut fields = at.fields()?;
    let uri = fields.need("uri", "it says where the artifact is");
    let sha256 = fields.need("sha256", "it has 64 hex digits");
    let size = fields.need("sizeBytes", "it is a number of bytes");
    fields.finish("field of artifact")?;
    let sha256 = sha256?;
    let digest = sha256.text()?;
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if digest.len() != 64 || !digest.chars().all(hex) {
        return Err(sha256.fault("must have 64 hex digits, 0-9 and a-f, in quotes"));
    }
    let size = size?.number(0, MAX_ARTIFACT_BYTES)?;
    Ok(json!({"uri": uri?.text()?, "sha256": digest, "sizeBytes": size}))
}

impl RunRef {
    pub(super) fn read(at: &At<'_>) -> Read<Self> {
        let text = at.text()?;
        let attempt = text.rsplit_once('-').filter(|(object, _)| !object.is_empty());
        let number = attempt.and_then(|(_, attempt)| attempt.strip_prefix(['m', 'r']));
        let number = number.and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
        if number == 0 || text.contains('/') {
            return Err(at.fault(format!(
                "must name a run, the object's name and -m1 or -r1, not {text:?}"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}
