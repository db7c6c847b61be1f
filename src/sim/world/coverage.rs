//! What a history, or many, went through.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::sim::{Commit, Kind};

/// Counts by name. All maps are sorted, so tables of them are the same every time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Fault × kind of request: `("response lost", "update mocc/status")`. Faults that strike no
    /// single request have the kind `-`.
    pub faults: BTreeMap<(String, String), u64>,
    /// State of an occurrence before × after; before is empty for a new one.
    pub transitions: BTreeMap<(String, String), u64>,
    /// State of an occurrence × reason, counted when either changes.
    pub reasons: BTreeMap<(String, String), u64>,
    /// Reasons of skipped ranges of schedules, counted when a range with it appears.
    pub skipped: BTreeMap<String, u64>,
    /// State of a report job before × after; before is empty for a new one.
    pub report_transitions: BTreeMap<(String, String), u64>,
    /// State of a report job × reason, counted when either changes.
    pub report_reasons: BTreeMap<(String, String), u64>,
    /// Reasons of skipped ranges of report schedules, counted when a range with it appears.
    pub report_skipped: BTreeMap<String, u64>,
    /// Whether a queue admits × reason, counted when either changes.
    pub admissions: BTreeMap<(String, String), u64>,
    /// Reasons of events.
    pub events: BTreeMap<String, u64>,
    /// How terms were gained.
    pub gained: BTreeMap<String, u64>,
    /// Why processes ended by themselves.
    pub ended: BTreeMap<String, u64>,
    /// Kind of request × HTTP status of the answer that the API server gave.
    pub calls: BTreeMap<(String, u16), u64>,
    /// What happened in the cluster around the operator: nodes lost, pods collected.
    pub workload: BTreeMap<String, u64>,
}

impl Coverage {
    /// Adds what another history went through.
    pub fn merge(&mut self, other: &Self) {
        add(&mut self.faults, &other.faults);
        add(&mut self.transitions, &other.transitions);
        add(&mut self.reasons, &other.reasons);
        add(&mut self.skipped, &other.skipped);
        add(&mut self.report_transitions, &other.report_transitions);
        add(&mut self.report_reasons, &other.report_reasons);
        add(&mut self.report_skipped, &other.report_skipped);
        add(&mut self.admissions, &other.admissions);
        add(&mut self.events, &other.events);
        add(&mut self.gained, &other.gained);
        add(&mut self.ended, &other.ended);
        add(&mut self.calls, &other.calls);
        add(&mut self.workload, &other.workload);
    }

    /// One fault, at one kind of request.
    pub fn fault(&mut self, fault: &str, sort: &str) {
        *self.faults.entry((fault.to_owned(), sort.to_owned())).or_default() += 1;
    }

    /// Takes what a commit shows.
    pub(super) fn commit(&mut self, commit: &Commit) {
        match commit.key.kind {
            Kind::MaintenanceOccurrence => {
                states(commit, &mut self.transitions, &mut self.reasons);
            }
            Kind::ReportJob => {
                states(commit, &mut self.report_transitions, &mut self.report_reasons);
            }
            Kind::MaintenanceSchedule => ranges(commit, &mut self.skipped),
            Kind::ReportSchedule => ranges(commit, &mut self.report_skipped),
            Kind::ReportQueue => reasons(commit, "admissions", &mut self.admissions),
            Kind::Event => {
                if let Some(reason) = commit.new.as_ref().and_then(|event| event["reason"].as_str())
                {
                    count(&mut self.events, reason);
                }
            }
            _ => {}
        }
    }
}

type Pairs = BTreeMap<(String, String), u64>;

fn text(of: &Value, field: &str) -> String {
    of["status"][field].as_str().unwrap_or_default().to_owned()
}

/// A state that changed, and its reason.
fn states(commit: &Commit, transitions: &mut Pairs, by_reason: &mut Pairs) {
    let Some(new) = &commit.new else { return };
    let old = commit.old.as_deref().unwrap_or(&Value::Null);
    let (from, to) = (text(old, "state"), text(new, "state"));
    if from != to {
        *transitions.entry((from, to)).or_default() += 1;
    }
    reasons(commit, "state", by_reason);
}

/// A field of the status with its reason, if either changed.
fn reasons(commit: &Commit, field: &str, by_reason: &mut Pairs) {
    let Some(new) = &commit.new else { return };
    let old = commit.old.as_deref().unwrap_or(&Value::Null);
    let both = |of: &Value| (text(of, field), text(of, "reason"));
    let now = both(new);
    if both(old) != now && !now.1.is_empty() {
        *by_reason.entry(now).or_default() += 1;
    }
}

/// Skipped ranges of a schedule that are new.
fn ranges(commit: &Commit, skipped: &mut BTreeMap<String, u64>) {
    let ranges = |of: Option<&Value>| {
        let list = of.and_then(|of| of["status"]["skipped"].as_array());
        list.cloned().unwrap_or_default()
    };
    let before = ranges(commit.old.as_deref());
    for range in ranges(commit.new.as_deref()) {
        let known = before.iter().any(|old| old["from"] == range["from"]);
        if let (false, Some(reason)) = (known, range["reason"].as_str()) {
            count(skipped, reason);
        }
    }
}

/// One more of that name.
pub(super) fn count(map: &mut BTreeMap<String, u64>, name: &str) {
    *map.entry(name.to_owned()).or_default() += 1;
}

fn add<K: Ord + Clone>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, number) in from {
        *to.entry(key.clone()).or_default() += number;
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use serde_json::json;

    use super::*;
    use crate::sim::{Key, Verb};

    fn commit(kind: Kind, old: Option<Value>, new: Option<Value>) -> Commit {
        Commit {
            revision: 1,
            at: Duration::ZERO,
            by: "r0".into(),
            verb: Verb::Update,
            subresource: "status",
            key: Key::new(kind, "default", "x"),
            old: old.map(Arc::new),
            new: new.map(Arc::new),
        }
    }

    #[test]
    fn states_and_reasons_are_counted_when_they_change() {
        let state = |state, reason| Some(json!({"status": {"state": state, "reason": reason}}));
        let mut coverage = Coverage::default();
        let kind = Kind::MaintenanceOccurrence;
        coverage.commit(&commit(kind, None, Some(json!({}))));
        coverage.commit(&commit(kind, Some(json!({})), state("Pending", "Claimed")));
        coverage.commit(&commit(kind, state("Pending", "Claimed"), state("Pending", "Claimed")));
        coverage.commit(&commit(kind, state("Pending", "Claimed"), state("Pending", "Waits")));
        coverage.commit(&commit(kind, state("Pending", "Waits"), None));
        let of = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(coverage.transitions, BTreeMap::from([(of("", "Pending"), 1)]));
        assert_eq!(
            coverage.reasons,
            BTreeMap::from([(of("Pending", "Claimed"), 1), (of("Pending", "Waits"), 1)])
        );
    }

    #[test]
    fn reports_and_queues_are_counted_apart() {
        let state = |state, reason| Some(json!({"status": {"state": state, "reason": reason}}));
        let queue = |reason| Some(json!({"status": {"admissions": "Open", "reason": reason}}));
        let mut coverage = Coverage::default();
        coverage.commit(&commit(Kind::ReportJob, None, state("Queued", "WaitingForSlot")));
        coverage.commit(&commit(Kind::ReportQueue, queue("Open"), queue("SlotsLowered")));
        coverage.commit(&commit(Kind::ReportQueue, queue("Open"), queue("Open")));
        let ranges = Some(json!({"status": {"skipped": [{"from": "1", "reason": "QueueFull"}]}}));
        coverage.commit(&commit(Kind::ReportSchedule, None, ranges));
        let one = |a: &str, b: &str| BTreeMap::from([((a.to_owned(), b.to_owned()), 1)]);
        let expected = Coverage {
            report_transitions: one("", "Queued"),
            report_reasons: one("Queued", "WaitingForSlot"),
            report_skipped: BTreeMap::from([("QueueFull".to_owned(), 1)]),
            admissions: one("Open", "SlotsLowered"),
            ..Coverage::default()
        };
        assert_eq!(coverage, expected);
        let mut both = Coverage::default();
        both.merge(&coverage);
        assert_eq!(both, expected);
    }

    #[test]
    fn a_skipped_range_counts_once_and_histories_add_up() {
        let with = |ranges: Value| Some(json!({"status": {"skipped": ranges}}));
        let (a, b) =
            (json!({"from": "1", "reason": "Missed"}), json!({"from": "2", "reason": "Deadline"}));
        let mut coverage = Coverage::default();
        let kind = Kind::MaintenanceSchedule;
        coverage.commit(&commit(kind, None, with(json!([a]))));
        coverage.commit(&commit(kind, with(json!([a])), with(json!([a, b]))));
        let mut both = coverage.clone();
        both.merge(&coverage);
        assert_eq!(
            both.skipped,
            BTreeMap::from([("Missed".to_owned(), 2), ("Deadline".to_owned(), 2)])
        );
    }
}
