//! What all kinds share: the fence, conditions, times.

use std::{borrow::Cow, fmt};

use jiff::Timestamp;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest message in a condition or status, in characters: enough for two sentences, and a status
/// stays small whatever an API server or a container wrote.
pub const MAX_MESSAGE_CHARS: usize = 1024;
/// Longest reason, in characters (Kubernetes' own bound for condition reasons).
pub const MAX_REASON_CHARS: usize = 128;
/// Longest Kubernetes object name.
pub const MAX_NAME_CHARS: usize = 253;

/// Who wrote last: the term's epoch and its nonce.
///
/// The operator writes it; nobody else needs to. The API server refuses a status write whose fence
/// is older than the stored one, so a leader that was paused and resumed can change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fence {
    /// Epoch of the leader's term: the resourceVersion of the Lease version that its acquisition replaced.
    #[schemars(range(min = 1))]
    pub epoch: i64,
    /// Random text of that acquisition.
    #[schemars(length(min = 1, max = 64))]
    pub nonce: String,
}

/// A moment, written in RFC 3339 UTC. Not an identity: see [`crate::time::IntendedTime`] for that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Timestamp);

impl Time {
    /// The moment, cut to whole milliseconds so that writing and reading give the same value.
    pub fn new(at: Timestamp) -> Self {
        Self(Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at))
    }
}

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self::new(at)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time", "maxLength": 40})
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is not known.
    Unknown,
}

/// One aspect of an object's state, with a reason and a sentence for the person who must act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, for example Ready.
    #[schemars(length(min = 1, max = 64))]
    pub r#type: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word, for programs.
    #[schemars(length(max = 128))]
    pub reason: String,
    /// Why, in a sentence, for people: what is wrong and what to do.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// When the condition's status last changed.
    pub last_transition_time: Time,
    /// The generation of the object that this condition speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Sets a condition, keeping its `lastTransitionTime` unless its status changed.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) {
    new.message = truncate(&new.message, MAX_MESSAGE_CHARS);
    new.reason = truncate(&new.reason, MAX_REASON_CHARS);
    match conditions.iter_mut().find(|c| c.r#type == new.r#type) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time;
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

/// `text`, at most `max` characters; a cut is shown by an ellipsis.
pub fn truncate(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: ConditionStatus, at: &str) -> Condition {
        Condition {
            r#type: "Ready".into(),
            status,
            reason: "R".into(),
            message: String::new(),
            last_transition_time: Time(at.parse().unwrap()),
            observed_generation: Some(1),
        }
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut all = vec![condition(ConditionStatus::True, "2026-01-01T00:00:00Z")];
        set_condition(&mut all, condition(ConditionStatus::True, "2026-01-02T00:00:00Z"));
        assert_eq!(all[0].last_transition_time.to_string(), "2026-01-01T00:00:00Z");
        set_condition(&mut all, condition(ConditionStatus::False, "2026-01-03T00:00:00Z"));
        assert_eq!(all[0].last_transition_time.to_string(), "2026-01-03T00:00:00Z");
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn truncation_counts_characters_not_bytes() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöüß", 3), "äö…");
    }

    #[test]
    fn a_time_survives_writing_and_reading() {
        let at = Time::new("2026-11-29T02:00:00.123456789Z".parse().unwrap());
        let text = serde_json::to_string(&at).unwrap();
        assert_eq!(text, "\"2026-11-29T02:00:00.123Z\"");
        assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), at);
    }
}
