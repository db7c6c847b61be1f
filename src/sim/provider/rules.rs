//! How the simulated provider behaves, run by run.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use crate::{
    api::{ResultValue, SimulatedOutcome, SimulatedRun},
    glob::glob,
    providers::simulated::DEFAULT_SECONDS,
};

/// One rule; the first that matches counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Glob on the name of the object that the run belongs to: `*` stands for any text, `?` for one
    /// character.
    pub matches: String,
    /// Attempts it is for, from 1; none means all.
    pub attempts: Option<Vec<i32>>,
    /// How long the run takes. Default: 10 s.
    pub duration: Option<Duration>,
    /// How it ends. Default: `Succeeded`.
    pub outcome: SimulatedOutcome,
    /// The result of success.
    pub result: Option<BTreeMap<String, ResultValue>>,
    /// The reason of failure.
    pub reason: Option<String>,
    /// The artifact that it leaves.
    pub artifact: Option<Value>,
}

impl Rule {
    /// Whether it is for this attempt of this object.
    pub fn is_for(&self, name: &str, attempt: i32) -> bool {
        self.attempts.as_ref().is_none_or(|attempts| attempts.contains(&attempt))
            && glob(&self.matches, name)
    }
}

/// What a run does if nothing else is said.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sim) struct Behaviour {
    pub(in crate::sim) duration: Duration,
    pub(in crate::sim) outcome: SimulatedOutcome,
    pub(in crate::sim) result: Option<BTreeMap<String, ResultValue>>,
    pub(in crate::sim) reason: String,
    pub(in crate::sim) artifact: Option<Value>,
}

impl Behaviour {
    /// By the first rule, or else by what the manifest says.
    pub(super) fn of(rules: &[Rule], name: &str, attempt: i32, spec: &SimulatedRun) -> Self {
        let reason = |reason: &Option<String>| reason.clone().unwrap_or_else(|| "Simulated".into());
        match rules.iter().find(|rule| rule.is_for(name, attempt)) {
            Some(rule) => Self {
                duration: rule.duration.unwrap_or(Duration::from_secs(DEFAULT_SECONDS)),
                outcome: rule.outcome,
                result: rule.result.clone(),
                reason: reason(&rule.reason),
                artifact: rule.artifact.clone(),
            },
            None => Self {
                duration: Duration::from_secs(
                    spec.duration_seconds
                        .and_then(|seconds| u64::try_from(seconds).ok())
                        .unwrap_or(DEFAULT_SECONDS),
                ),
                outcome: spec.outcome.unwrap_or_default(),
                result: spec.result.clone(),
                reason: reason(&spec.reason),
                artifact: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_counts_and_none_means_the_manifest() {
        let rule = |matches: &str, attempts: Option<Vec<i32>>, secs: u64| Rule {
            matches: matches.to_owned(),
            attempts,
            duration: Some(Duration::from_secs(secs)),
            ..Rule::default()
        };
        let rules = [rule("a", Some(vec![2]), 1), rule("a*", None, 2), rule("a", None, 3)];
        let spec = SimulatedRun { duration_seconds: Some(7), ..SimulatedRun::default() };
        let secs = |name, attempt| Behaviour::of(&rules, name, attempt, &spec).duration.as_secs();
        assert_eq!((secs("a", 2), secs("a", 1), secs("b", 1)), (1, 2, 7));
        let unsaid =
            Behaviour::of(&[Rule { matches: "*".into(), ..Rule::default() }], "b", 1, &spec);
        assert_eq!(unsaid.duration.as_secs(), DEFAULT_SECONDS, "rules stand over manifests whole");
    }
}
