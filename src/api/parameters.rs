//! The parameters of a run, which a report and its sealed run both carry.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Strings given to a run, by name. Clones share them in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(Arc<BTreeMap<String, String>>);

impl Parameters {
    /// These, shared with `other` if it says the same.
    pub fn share(&mut self, other: &Self) {
        if self == other {
            *self = other.clone();
        }
    }

    /// The same, and `own` over them.
    #[must_use]
    pub fn with(self, own: &Self) -> Self {
        if self.is_empty() {
            return own.clone();
        }
        let mut all = Arc::unwrap_or_clone(self.0);
        all.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        all.into()
    }
}

impl From<BTreeMap<String, String>> for Parameters {
    fn from(parameters: BTreeMap<String, String>) -> Self {
        Self(Arc::new(parameters))
    }
}

impl Deref for Parameters {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Parameters {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn own_parameters_go_over_those_of_the_run() {
        let (run, own) = (read(r#"{"a":"1","b":"2"}"#), read(r#"{"b":"3","c":"4"}"#));
        let text = serde_json::to_string(&run.with(&own)).unwrap();
        assert_eq!(text, r#"{"a":"1","b":"3","c":"4"}"#);
        assert_eq!(Parameters::default().with(&own), own);
        assert_eq!(own.clone().with(&Parameters::default()), own);
    }

    #[test]
    fn equal_parameters_share_memory_and_others_stay_as_they_are() {
        let kept = read(r#"{"a":"1"}"#);
        let (mut same, mut other) = (read(r#"{"a":"1"}"#), read(r#"{"a":"2"}"#));
        same.share(&kept);
        other.share(&kept);
        assert!(Arc::ptr_eq(&same.0, &kept.0));
        assert_eq!(other, read(r#"{"a":"2"}"#));
    }
}
