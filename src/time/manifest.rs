//! Reading the fields that concern time from a manifest, as people keep it in files and as
//! `kubectl get -o yaml` shows it.
//!
//! Other fields are not looked at, so that a file for another version, or one that the API server
//! would refuse for another reason, can still be planned.

use std::str::FromStr;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    DstPolicy, IntendedTime, MissedRunsPolicy,
    plan::{DEFAULT_TIME_ZONE, MAX_MISSED_LIMIT, Observed, PlanInput},
    spread::{MAX_SPREAD_SECONDS, SpreadKind, SpreadOf},
};

/// `missedRuns.limit` where it is left out.
const DEFAULT_MISSED_LIMIT: i64 = 10;

/// Most characters of a wrong value that a message repeats.
const MAX_ECHO_CHARS: usize = 80;

/// Names in `spec` whose misspelling would silently change what is planned.
const SPEC_NAMES: [&str; 9] = [
    "schedule",
    "timeZone",
    "dstPolicy",
    "anchor",
    "suspend",
    "suspendUntilTime",
    "startingDeadlineSeconds",
    "missedRuns",
    "spread",
];

/// A field of a manifest that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ManifestError {
    /// The field.
    pub path: String,
    /// What is wrong and how to write it.
    pub problem: String,
}

impl PlanInput {
    /// Reads a `MaintenanceSchedule` or `ReportSchedule`.
    pub fn from_manifest(manifest: &Value) -> Result<Self, ManifestError> {
        let root = Node { path: String::new(), value: manifest };
        let of = match root.get("kind")?.text()? {
            Some("MaintenanceSchedule") => SpreadKind::Maintenance,
            Some("ReportSchedule") => SpreadKind::Report,
            Some("CronJob") => {
                return Err(refuse(
                    "kind",
                    "is CronJob; make a schedule of it with `punctual convert`",
                ));
            }
            other => {
                let found = other.map_or("is missing".to_owned(), |k| format!("is {}", echo(k)));
                let wanted = "must be MaintenanceSchedule or ReportSchedule";
                return Err(refuse("kind", &format!("{found}; {wanted}")));
            }
        };
        let metadata = root.get("metadata")?;
        let spec = root.get("spec")?;
        let status = root.get("status")?;
        spec.refuse_misspelled(&SPEC_NAMES)?;
        let missed = spec.get("missedRuns")?;
        missed.refuse_misspelled(&["policy", "limit"])?;
        let limit = missed.get("limit")?.integer(1..=MAX_MISSED_LIMIT)?;
        Ok(Self {
            schedule: spec
                .get("schedule")?
                .required_text("a cron expression like \"0 2 * * *\"")?,
            time_zone: spec.get("timeZone")?.text()?.unwrap_or(DEFAULT_TIME_ZONE).to_owned(),
            dst_policy: dst_policy(&spec.get("dstPolicy")?)?,
            anchor: spec.get("anchor")?.instant()?,
            suspend: spec.get("suspend")?.boolean()?.unwrap_or(false),
            suspend_until_time: spec.get("suspendUntilTime")?.time()?,
            starting_deadline_seconds: spec
                .get("startingDeadlineSeconds")?
                .integer(0..=i64::MAX)?,
            missed_policy: missed_policy(&missed.get("policy")?)?,
            missed_limit: limit.unwrap_or(DEFAULT_MISSED_LIMIT),
            spread: spread(&spec, &metadata, of)?,
            uid: metadata.get("uid")?.text()?.map(str::to_owned),
            creation_time: metadata.get("creationTimestamp")?.time()?,
            last_schedule_time: status.get("lastScheduleTime")?.instant()?,
            effective_time: status.get("effectiveTime")?.time()?,
            suspended_time: status.get("suspendedTime")?.time()?,
            observed: observed(&status.get("observed")?)?,
        })
    }
}

fn dst_policy(node: &Node<'_>) -> Result<DstPolicy, ManifestError> {
    let policy = node.one_of(&[("Once", DstPolicy::Once), ("CronJob", DstPolicy::CronJob)])?;
    Ok(policy.unwrap_or_default())
}

fn missed_policy(node: &Node<'_>) -> Result<MissedRunsPolicy, ManifestError> {
    let policy = node.one_of(&[
        ("Latest", MissedRunsPolicy::Latest),
        ("All", MissedRunsPolicy::All),
        ("None", MissedRunsPolicy::None),
    ])?;
    Ok(policy.unwrap_or_default())
}

fn spread(
    spec: &Node<'_>,
    metadata: &Node<'_>,
    of: SpreadKind,
) -> Result<Option<SpreadOf>, ManifestError> {
    let window = spec.get("spread")?.get("windowSeconds")?.integer(0..=MAX_SPREAD_SECONDS)?;
    let Some(window_seconds) = window.filter(|&seconds| seconds > 0) else { return Ok(None) };
    // The delay is a hash of the identity, so both parts of the name count.
    let namespace = metadata.get("namespace")?.text()?.unwrap_or("default").to_owned();
    let name = metadata.get("name")?.required_text("the schedule's name")?;
    Ok(Some(SpreadOf { window_seconds, of, namespace, name }))
}

fn observed(node: &Node<'_>) -> Result<Option<Observed>, ManifestError> {
    if node.value.is_null() {
        return Ok(None);
    }
    Ok(Some(Observed {
        uid: node.get("uid")?.text()?.map(str::to_owned),
        schedule: node.get("schedule")?.required_text("the expression last acted on")?,
        time_zone: node.get("timeZone")?.text()?.unwrap_or(DEFAULT_TIME_ZONE).to_owned(),
        dst_policy: dst_policy(&node.get("dstPolicy")?)?,
        anchor: node.get("anchor")?.instant()?,
        suspend_until_time: node.get("suspendUntilTime")?.time()?,
    }))
}

/// A place in the manifest. What is left out is null.
struct Node<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Node<'a> {
    /// The field `name` of this object.
    fn get(&self, name: &str) -> Result<Node<'a>, ManifestError> {
        let path =
            if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        match self.value {
            Value::Null => Ok(Node { path, value: &Value::Null }),
            Value::Object(fields) => {
                Ok(Node { path, value: fields.get(name).unwrap_or(&Value::Null) })
            }
            _ if self.path.is_empty() => Err(refuse("file", "must hold one object: a schedule")),
            _ => Err(self.refuse("must be an object with named fields")),
        }
    }

    fn refuse(&self, problem: &str) -> ManifestError {
        refuse(&self.path, problem)
    }

    /// A refusal that repeats the value found.
    fn must_be(&self, wanted: &str) -> ManifestError {
        let found = match self.value {
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            Value::String(text) => echo(text),
            other => other.to_string(),
        };
        self.refuse(&format!("must be {wanted}, not {found}"))
    }

    fn text(&self) -> Result<Option<&'a str>, ManifestError> {
        match self.value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(self.must_be("text; write it in quotes")),
        }
    }

    fn required_text(&self, what: &str) -> Result<String, ManifestError> {
        match self.text()? {
            Some(text) => Ok(text.to_owned()),
            None => Err(self.refuse(&format!("is missing; it is {what}"))),
        }
    }

    fn boolean(&self) -> Result<Option<bool>, ManifestError> {
        match self.value {
            Value::Null => Ok(None),
            Value::Bool(value) => Ok(Some(*value)),
            _ => Err(self.must_be("true or false")),
        }
    }

    fn integer(&self, range: std::ops::RangeInclusive<i64>) -> Result<Option<i64>, ManifestError> {
        match self.value {
            Value::Null => Ok(None),
            value => match value.as_i64().filter(|number| range.contains(number)) {
                Some(number) => Ok(Some(number)),
                None if *range.end() == i64::MAX => {
                    Err(self.must_be(&format!("a whole number, at least {}", range.start())))
                }
                None => Err(self.must_be(&format!(
                    "a whole number from {} to {}",
                    range.start(),
                    range.end()
                ))),
            },
        }
    }

    fn one_of<T: Copy>(&self, values: &[(&str, T)]) -> Result<Option<T>, ManifestError> {
        let Some(text) = self.text()? else { return Ok(None) };
        if let Some((_, value)) = values.iter().find(|(name, _)| *name == text) {
            return Ok(Some(*value));
        }
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        Err(self.must_be(&names.join(" or ")))
    }

    fn time(&self) -> Result<Option<Timestamp>, ManifestError> {
        let Some(text) = self.text()? else { return Ok(None) };
        parse_time(text).map(Some).map_err(|problem| self.refuse(&problem))
    }

    fn instant(&self) -> Result<Option<IntendedTime>, ManifestError> {
        let Some(text) = self.text()? else { return Ok(None) };
        let parsed = parse_time(text)
            .and_then(|at| IntendedTime::new(at).map_err(|error| error.to_string()));
        parsed.map(Some).map_err(|problem| self.refuse(&problem))
    }

    /// Refuses names that differ from known ones only in case.
    fn refuse_misspelled(&self, known: &[&str]) -> Result<(), ManifestError> {
        let Value::Object(fields) = self.value else { return Ok(()) };
        for name in fields.keys() {
            let meant = known.iter().find(|k| k.eq_ignore_ascii_case(name) && *k != name);
            if let Some(meant) = meant {
                return Err(self.refuse(&format!("has {}; it is spelled {meant}", echo(name))));
            }
        }
        Ok(())
    }
}

/// Parses a moment as people and Kubernetes write it: RFC 3339, with any offset, in the years 1 to
/// 9999.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("must be a time like 2026-11-29T02:00:00Z, not {}", echo(text));
    let at = Timestamp::from_str(text).map_err(|_| wrong())?;
    let year = jiff::tz::TimeZone::UTC.to_datetime(at).year();
    if (1..=9999).contains(&year) { Ok(at) } else { Err(wrong()) }
}

fn refuse(path: &str, problem: &str) -> ManifestError {
    ManifestError { path: path.to_owned(), problem: problem.to_owned() }
}

/// A value in quotes, cut to a readable length.
fn echo(text: &str) -> String {
    if text.chars().count() <= MAX_ECHO_CHARS {
        return format!("{text:?}");
    }
    format!("{:?}…", text.chars().take(MAX_ECHO_CHARS).collect::<String>())
}
