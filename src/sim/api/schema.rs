//! Structural schemas: defaults, pruning, and where the rules stand.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::{place::Place, twins::Twin};

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// One node of a schema, read once when its CRD is installed.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the schema language")]
pub(super) struct Schema {
    pub(super) of_type: Option<Type>,
    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Option<Box<Schema>>,
    pub(super) items: Option<Box<Schema>>,
    pub(super) required: Vec<String>,
    pub(super) allowed: Vec<Value>,
    pub(super) pattern: Option<Regex>,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) min_length: Option<usize>,
    pub(super) max_length: Option<usize>,
    pub(super) max_items: Option<usize>,
    pub(super) max_properties: Option<usize>,
    pub(super) date_time: bool,
    /// `int32` or `int64`. The ranges of our integers are written as bounds.
    pub(super) integer_format: Option<&'static str>,
    pub(super) int_or_string: bool,
    pub(super) map_keys: Vec<String>,
    pub(super) rules: Vec<Rule>,
    default: Option<Value>,
    nullable: bool,
    preserve: bool,
}

/// One validation rule at a node.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) twin: Twin,
    pub(super) message: String,
    pub(super) reason: Option<String>,
    /// Where the refusal points, from the node.
    pub(super) field_path: String,
}

/// Fields of a schema that change nothing about what is accepted.
const WITHOUT_EFFECT: [&str; 4] = ["description", "title", "example", "externalDocs"];

impl Schema {
    /// Reads a schema. What this model would not enforce is an error, so that nothing is accepted
    /// here that the API server refuses.
    pub(super) fn parse(schema: &Value, path: &str) -> Result<Self, String> {
        let fields = schema.as_object().ok_or_else(|| format!("{path}: a schema is an object"))?;
        let mut parsed = Self::default();
        for (name, value) in fields {
            parsed.take(name, value, path).map_err(|why| format!("{path}: {name}: {why}"))?;
        }
        Ok(parsed)
    }

    fn take(&mut self, name: &str, value: &Value, path: &str) -> Result<(), String> {
        match name {
            "type" => self.of_type = Some(type_of(value)?),
            "properties" => {
                for (name, inner) in value.as_object().ok_or("not an object")? {
                    let inner = Self::parse(inner, &format!("{path}.{name}"))?;
                    self.properties.insert(name.clone(), inner);
                }
            }
            "additionalProperties" => {
                self.additional = Some(Box::new(Self::parse(value, &format!("{path}{{}}"))?));
            }
            "items" => self.items = Some(Box::new(Self::parse(value, &format!("{path}[]"))?)),
            "required" => self.required = texts(value)?,
            "enum" => self.allowed.clone_from(value.as_array().ok_or("not a list")?),
            "pattern" => {
                let text = value.as_str().ok_or("not a text")?;
                self.pattern = Some(Regex::new(text).map_err(|error| error.to_string())?);
            }
            "minimum" => self.minimum = value.as_f64(),
            "maximum" => self.maximum = value.as_f64(),
            "minLength" => self.min_length = Some(size(value)?),
            "maxLength" => self.max_length = Some(size(value)?),
            "maxItems" => self.max_items = Some(size(value)?),
            "maxProperties" => self.max_properties = Some(size(value)?),
            "format" => match value.as_str() {
                Some("date-time") => self.date_time = true,
                Some("int32") => self.integer_format = Some("int32"),
                Some("int64") => self.integer_format = Some("int64"),
                _ => return Err(format!("{value} is not modelled")),
            },
            "default" => self.default = Some(value.clone()),
            "nullable" => self.nullable = value == true,
            "x-kubernetes-preserve-unknown-fields" => self.preserve = value == true,
            "x-kubernetes-int-or-string" => self.int_or_string = value == true,
            "x-kubernetes-list-type" => match value.as_str() {
                Some("atomic" | "map") => {}
                _ => return Err(format!("{value} is not modelled")),
            },
            "x-kubernetes-list-map-keys" => self.map_keys = texts(value)?,
            "x-kubernetes-validations" => self.rules = rules(value)?,
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => return Err("is not modelled".to_owned()),
        }
        Ok(())
    }

    /// Fills in what is absent and has a default, and drops a null where none may stand.
    pub(super) fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| !value.is_null() || self.keeps_null(name));
                for (name, inner) in &self.properties {
                    if let Some(default) = &inner.default {
                        fields.entry(name).or_insert_with(|| default.clone());
                    }
                }
                for (name, value) in fields {
                    if let Some(inner) = self.property(name) {
                        inner.fill(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(inner) = &self.items {
                    for item in items {
                        inner.fill(item);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn keeps_null(&self, name: &str) -> bool {
        self.properties.get(name).is_none_or(|inner| inner.nullable)
    }

    /// The schema of a field.
    pub(super) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional.as_deref())
    }

    /// Drops the fields that the schema does not know, and names them.
    pub(super) fn prune(&self, value: &mut Value, place: &Place<'_>, dropped: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if !self.preserve && self.additional.is_none() {
                    fields.retain(|name, _| {
                        let known = self.properties.contains_key(name);
                        if !known {
                            dropped.push(Place::Field(place, name).to_string());
                        }
                        known
                    });
                }
                for (name, value) in fields {
                    if let Some(inner) = self.property(name) {
                        inner.prune(value, &Place::Field(place, name), dropped);
                    }
                }
            }
            Value::Array(items) => {
                let Some(inner) = &self.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    inner.prune(item, &Place::Item(place, index), dropped);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn type_of(value: &Value) -> Result<Type, String> {
    [Type::Object, Type::Array, Type::String, Type::Integer, Type::Number, Type::Boolean]
        .into_iter()
        .find(|known| value == known.word())
        .ok_or_else(|| format!("{value} is no type"))
}

fn size(value: &Value) -> Result<usize, String> {
    let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| format!("{value} is no size"))
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let list = value.as_array().ok_or("not a list")?;
    let text = |item: &Value| item.as_str().map(ToOwned::to_owned).ok_or("not a list of texts");
    Ok(list.iter().map(text).collect::<Result<_, _>>()?)
}

fn rules(value: &Value) -> Result<Vec<Rule>, String> {
    value.as_array().ok_or("not a list")?.iter().map(rule).collect()
}

fn rule(value: &Value) -> Result<Rule, String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let source = text("rule");
    let twin = Twin::of(&source).ok_or_else(|| format!("the rule {source:?} is not known"))?;
    let fields = value.as_object().into_iter().flatten();
    let known = ["rule", "message", "reason", "fieldPath"];
    if let Some((other, _)) = fields.into_iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Err(format!("{other} of a rule is not modelled"));
    }
    let message = Some(text("message")).filter(|message| !message.is_empty());
    Ok(Rule {
        twin,
        message: message.unwrap_or_else(|| format!("failed rule: {source}")),
        reason: value.get("reason").and_then(Value::as_str).map(ToOwned::to_owned),
        field_path: text("fieldPath").trim_start_matches('.').to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::parse(
            &json!({
                "type": "object",
                "properties": {
                    "limit": {"type": "integer", "default": 3},
                    "policy": {
                        "type": "object", "default": {"a": 1},
                        "properties": {"a": {"type": "integer"}, "b": {"type": "string", "default": "x"}},
                    },
                    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
                    "open": {"type": "string", "nullable": true},
                },
            }),
            "",
        )
        .unwrap()
    }

    #[test]
    fn defaults_are_filled_in_and_nulls_dropped() {
        let mut value = json!({"limit": null, "open": null, "map": {}, "raw": {"x": null}});
        schema().fill(&mut value);
        let expected = json!({
            "limit": 3, "open": null, "map": {}, "policy": {"a": 1, "b": "x"}, "raw": {"x": null},
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let mut value = json!({
            "limit": 1, "other": 2, "raw": {"any": 1}, "map": {"any": "y"},
            "list": [{"k": "a", "z": 1}], "policy": {"c": 1},
        });
        let mut dropped = Vec::new();
        schema().prune(&mut value, &Place::Root, &mut dropped);
        assert_eq!(
            value,
            json!({"limit": 1, "raw": {"any": 1}, "map": {"any": "y"}, "list": [{"k": "a"}], "policy": {}})
        );
        assert_eq!(dropped, ["other", "list[0].z", "policy.c"]);
    }

    #[test]
    fn what_is_not_modelled_is_an_error() {
        for (schema, why) in [
            (json!({"type": "object", "oneOf": []}), "oneOf"),
            (json!({"type": "text"}), "no type"),
            (json!({"format": "uuid"}), "not modelled"),
            (json!({"x-kubernetes-validations": [{"rule": "self > 1"}]}), "is not known"),
            (json!({"properties": {"a": {"items": {"allOf": []}}}}), ".a[]"),
        ] {
            let error = Schema::parse(&schema, "").unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
