//! Whether a value is what its schema wants, and whether the rules hold.

use serde_json::Value;

use super::{
    refusal::Cause,
    schema::{Rule, Schema, child},
};

/// Why `new`, in place of `old` or as a new object, is refused.
pub(super) fn check(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    rules(schema, new, old, "", &mut causes);
    causes
}

/// Asks the rules of a node, then those below it. What did not change is not asked again, except
/// where a rule compares.
fn rules(schema: &Schema, new: &Value, old: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    for rule in &schema.rules {
        if !rule.twin.holds(new, old) {
            causes.push(refused(rule, schema, path));
        }
    }
    match new {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(inner) = schema.property(name) {
                    let old = old.and_then(|old| old.get(name));
                    rules(inner, value, old, &child(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                rules(inner, item, None, &format!("{path}[{index}]"), causes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn refused(rule: &Rule, schema: &Schema, path: &str) -> Cause {
    let field = match (path, rule.field_path.as_str()) {
        ("", "") => "<nil>".to_owned(),
        (path, "") => path.to_owned(),
        (path, below) => child(path, below),
    };
    let message = &rule.message;
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => Cause::forbidden(field, message),
        Some("FieldValueRequired") => Cause::required(field, message),
        _ => {
            let shown = schema.of_type.map_or("object", super::schema::Type::word);
            Cause::invalid(field, &shown.into(), message)
        }
    }
}
