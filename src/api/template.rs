//! A pod template, which many objects carry and few differ in.

use std::{ops::Deref, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A pod template as the user wrote it. Clones share it in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template(Arc<Value>);

impl From<Value> for Template {
    fn from(template: Value) -> Self {
        Self(Arc::new(template))
    }
}

impl From<Arc<Value>> for Template {
    fn from(template: Arc<Value>) -> Self {
        Self(template)
    }
}

impl Template {
    /// The content, to be shared.
    pub fn shared(&self) -> &Arc<Value> {
        &self.0
    }
}

impl Deref for Template {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_the_json_that_was_written() {
        let text = r#"{"spec":{"containers":[{"name":"main"}]}}"#;
        let template: Template = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&template).unwrap(), text);
        assert_eq!(template["spec"]["containers"][0]["name"], "main");
    }
}
