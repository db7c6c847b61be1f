//! Values of flags, each of which changes a setting.

use std::{collections::BTreeMap, fmt};

use crate::{
    api::{MAX_SLOTS, MAX_TENANT_CHARS, MAX_WEIGHT},
    arrivals::{MAX_TENANTS, Outage},
    reports::rules::TenantRule,
    simulate::Setting,
};

/// Most waiting jobs that a queue may allow.
const MAX_QUEUED: i32 = 1_000_000;
/// Longest outage, in seconds: a week.
const MAX_OUTAGE: u32 = 7 * 86_400;
/// Of a hundred attempts in an outage, how many fail if nothing else is said.
const OUTAGE_PERCENT: u64 = 60;

/// One value of one flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// `--jobs`.
    Jobs(u32),
    /// `--slots`.
    Slots(i32),
    /// `--tenants`.
    Tenants(u32),
    /// `--weights`, in the order in which they are given.
    Weights(Vec<(String, i32)>),
    /// `--max-running` with one number.
    MaxRunning(i32),
    /// `--max-running` of some tenants.
    MaxRunningOf(Vec<(String, i32)>),
    /// `--limits`.
    Limits {
        /// Of all.
        queued: Option<i32>,
        /// Of one tenant.
        per_tenant: Option<i32>,
    },
    /// `--retry-budget`; none switches retries off.
    RetryBudget(Option<i32>),
    /// `--outage`; none is no outage.
    Outage(Option<Outage>),
    /// `--seed`.
    Seed(u64),
}

impl Change {
    /// Makes it so.
    pub(super) fn apply(&self, setting: &mut Setting) {
        match self {
            Self::Jobs(jobs) => setting.model.jobs = *jobs,
            Self::Slots(slots) => setting.rules.slots = *slots,
            Self::Tenants(tenants) => setting.model.tenants = *tenants,
            Self::Weights(weights) => {
                for (name, weight) in weights {
                    rule(setting, name).weight = *weight;
                }
            }
            Self::MaxRunning(most) => {
                for name in setting.tenants() {
                    unnamed_rule(setting, &name).max_running = Some(*most);
                }
            }
            Self::MaxRunningOf(most) => {
                for (name, most) in most {
                    rule(setting, name).max_running = Some(*most);
                }
            }
            Self::Limits { queued, per_tenant } => {
                let rules = &mut setting.rules;
                rules.queued = queued.unwrap_or(rules.queued);
                rules.queued_per_tenant = per_tenant.unwrap_or(rules.queued_per_tenant);
            }
            Self::RetryBudget(percent) => {
                setting.rules.retries = percent.is_some();
                setting.rules.budget_percent = percent.unwrap_or(setting.rules.budget_percent);
            }
            Self::Outage(outage) => setting.model.outage = *outage,
            Self::Seed(seed) => setting.model.seed = *seed,
        }
    }
}

/// The rule of a tenant that is named.
fn rule<'a>(setting: &'a mut Setting, name: &str) -> &'a mut TenantRule {
    if !setting.names.iter().any(|known| known == name) {
        setting.names.push(name.to_owned());
    }
    unnamed_rule(setting, name)
}

fn unnamed_rule<'a>(setting: &'a mut Setting, name: &str) -> &'a mut TenantRule {
    let new = TenantRule { weight: 1, max_running: None };
    setting.rules.tenants.entry(name.to_owned()).or_insert(new)
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |pairs: &[(String, i32)]| {
            let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
            pairs.join(",")
        };
        match self {
            Self::Jobs(jobs) => write!(f, "jobs {jobs}"),
            Self::Slots(slots) => write!(f, "slots {slots}"),
            Self::Tenants(tenants) => write!(f, "tenants {tenants}"),
            Self::Weights(weights) => write!(f, "weights {}", list(weights)),
            Self::MaxRunning(most) => write!(f, "max running {most}"),
            Self::MaxRunningOf(most) => write!(f, "max running {}", list(most)),
            Self::Limits { queued, per_tenant } => {
                let part = |name: &str, value: &Option<i32>| value.map(|v| format!("{name}={v}"));
                let parts = [part("queued", queued), part("per-tenant", per_tenant)];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                write!(f, "limits {}", parts.join(","))
            }
            Self::RetryBudget(Some(percent)) => write!(f, "retry budget {percent} %"),
            Self::RetryBudget(None) => write!(f, "no retries"),
            Self::Outage(Some(Outage { after_seconds, seconds, percent })) => {
                let (minutes, length) = (after_seconds / 60, seconds / 60);
                let (hour, minute) = (minutes / 60, minutes % 60);
                write!(f, "outage {hour:02}:{minute:02}+{length}m@{percent}")
            }
            Self::Outage(None) => write!(f, "no outage"),
            Self::Seed(seed) => write!(f, "seed {seed}"),
        }
    }
}

fn number(text: &str, low: i32, high: i32) -> Result<i32, String> {
    let number = text.trim().parse::<i32>().ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| format!("{text:?} must be a whole number from {low} to {high}"))
}

pub(super) fn slots(text: &str) -> Result<Change, String> {
    number(text, 1, MAX_SLOTS).map(Change::Slots)
}

pub(super) fn tenants(text: &str) -> Result<Change, String> {
    let most = i32::try_from(MAX_TENANTS).unwrap_or(i32::MAX);
    number(text, 1, most).map(|tenants| Change::Tenants(tenants.unsigned_abs()))
}

pub(super) fn seed(text: &str) -> Result<Change, String> {
    text.trim().parse().map(Change::Seed).map_err(|_| format!("{text:?} must be a whole number"))
}

/// Pairs `name=number`, each name once.
fn pairs(text: &str, low: i32, high: i32) -> Result<Vec<(String, i32)>, String> {
    let mut pairs: Vec<(String, i32)> = Vec::new();
    for part in text.split(',') {
        let (name, value) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?} must be a name, = and a number, like acme=2"))?;
        let name = name.trim();
        if name.is_empty() || name.chars().count() > MAX_TENANT_CHARS {
            return Err(format!("{name:?} must be a name of 1 to {MAX_TENANT_CHARS} characters"));
        }
        if pairs.iter().any(|(known, _)| known == name) {
            return Err(format!("{name} is given twice; give it once"));
        }
        pairs.push((name.to_owned(), number(value, low, high)?));
    }
    Ok(pairs)
}

pub(super) fn weights(text: &str) -> Result<Change, String> {
    pairs(text, 1, MAX_WEIGHT).map(Change::Weights)
}

pub(super) fn max_running(text: &str) -> Result<Change, String> {
    if text.contains('=') {
        return pairs(text, 0, MAX_SLOTS).map(Change::MaxRunningOf);
    }
    number(text, 0, MAX_SLOTS).map(Change::MaxRunning)
}

pub(super) fn retry_budget(text: &str) -> Result<Change, String> {
    if text == "off" {
        return Ok(Change::RetryBudget(None));
    }
    let percent = number(text.trim_end_matches('%'), 0, 100);
    percent
        .map(|percent| Change::RetryBudget(Some(percent)))
        .map_err(|_| format!("{text:?} must be a whole number of percent from 0 to 100, or off"))
}

pub(super) fn limits(text: &str) -> Result<Change, String> {
    let mut given: BTreeMap<String, i32> = pairs(text, 0, MAX_QUEUED)?.into_iter().collect();
    let (queued, per_tenant) = (given.remove("queued"), given.remove("per-tenant"));
    match given.keys().next() {
        Some(other) => Err(format!("{other:?} is no limit; write queued=N,per-tenant=N")),
        None => Ok(Change::Limits { queued, per_tenant }),
    }
}

/// `HH:MM+LENGTH@PERCENT`, the last part optional.
pub(super) fn outage(text: &str) -> Result<Change, String> {
    if text == "none" {
        return Ok(Change::Outage(None));
    }
    let wrong = || {
        format!(
            "{text:?} must be a time of the first day, + and a length of a week at most, and the \
             percent of attempts that fail, like 10:00+20m@60; or none"
        )
    };
    let (when, percent) = match text.split_once('@') {
        Some((when, percent)) => (when, percent.parse().map_err(|_| wrong())?),
        None => (text, OUTAGE_PERCENT),
    };
    let (from, length) = when.split_once('+').ok_or_else(wrong)?;
    let (hour, minute) = from.split_once(':').ok_or_else(wrong)?;
    let part = |text: &str, below: u32| text.parse::<u32>().ok().filter(|part| *part < below);
    let (hour, minute) = part(hour, 24).zip(part(minute, 60)).ok_or_else(wrong)?;
    let (count, unit) = match length.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (length.strip_suffix('h').ok_or_else(wrong)?, 3600),
    };
    let seconds = part(count, MAX_OUTAGE).and_then(|count| count.checked_mul(unit));
    let seconds = seconds.filter(|s| (1..=MAX_OUTAGE).contains(s)).ok_or_else(wrong)?;
    if percent > 100 {
        return Err(wrong());
    }
    let after_seconds = (hour * 60 + minute) * 60;
    Ok(Change::Outage(Some(Outage { after_seconds, seconds, percent })))
}
