//! Whether a value is what its schema wants, and whether the rules hold.
//!
//! What did not change is not judged again, as on the real server (ratcheting): an object that an
//! older schema let in can still be updated.

use serde_json::Value;

use super::{
    formats,
    place::Place,
    refusal::Cause,
    schema::{Rule, Schema, Type},
};

/// Refusals after which the rules are not asked: they could not be evaluated.
const BLOCKING: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// Adds why `new`, in place of `old` or as a new object, is refused.
pub(super) fn check(schema: &Schema, new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    values(schema, new, old, &Place::Root, causes);
    lists(schema, new, old, &Place::Root, causes);
    if causes.iter().any(|cause| BLOCKING.contains(&cause.reason)) {
        let why = "some validation rules were not checked because the object was invalid; correct \
                   the existing errors to complete validation";
        causes.push(Cause::invalid("<nil>", &Value::Null, why));
    } else {
        rules(schema, new, old, &Place::Root, Ratchet::On, causes);
    }
}

/// Whether what did not change is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ratchet {
    On,
    #[cfg(test)]
    Off,
}

/// The messages of the rules that refuse, of all rules, as CEL alone would judge.
#[cfg(test)]
pub(super) fn rule_refusals(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut causes = Vec::new();
    rules(schema, new, old, &Place::Root, Ratchet::Off, &mut causes);
    let message = |cause: Cause| {
        let known = ["Forbidden: ", "Invalid value: ", "Required value: "];
        let text = known.iter().find_map(|word| cause.message.strip_prefix(word)).unwrap();
        // A simple value is repeated before the message.
        let mut value = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        match value.next() {
            Some(Ok(_)) => text[value.byte_offset()..].trim_start_matches(": ").to_owned(),
            _ => text.to_owned(),
        }
    };
    causes.into_iter().map(message).collect()
}

/// Goes on with what is below a value. Elements of a list have no older version: lists are replaced
/// as a whole.
fn below<'a>(
    schema: &'a Schema,
    new: &'a Value,
    old: Option<&'a Value>,
    place: &Place<'_>,
    mut each: impl FnMut(&'a Schema, &'a Value, Option<&'a Value>, &Place<'_>),
) {
    match new {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(inner) = schema.property(name) {
                    let old = old.and_then(|old| old.get(name));
                    each(inner, value, old, &Place::Field(place, name));
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                each(inner, item, None, &Place::Item(place, index));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Types, bounds and forms.
fn values(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    place: &Place<'_>,
    causes: &mut Vec<Cause>,
) {
    if old == Some(new) {
        return;
    }
    if !has_type(schema, new) {
        wrong_type(schema, new, place, causes);
        return;
    }
    if !schema.allowed.is_empty() && !schema.allowed.contains(new) {
        causes.push(Cause::unsupported(place.to_string(), new, &schema.allowed));
    }
    match new {
        Value::Object(fields) => {
            for name in &schema.required {
                if !fields.contains_key(name) {
                    causes.push(Cause::required(Place::Field(place, name).to_string(), ""));
                }
            }
            too_many("FieldValueTooMany", schema.max_properties, fields.len(), place, causes);
        }
        Value::Array(items) => {
            too_many("FieldValueTooMany", schema.max_items, items.len(), place, causes);
        }
        Value::String(text) => string(schema, text, place, causes),
        Value::Number(_) => number(schema, new, place, causes),
        Value::Null | Value::Bool(_) => {}
    }
    below(schema, new, old, place, |schema, new, old, place| {
        values(schema, new, old, place, causes);
    });
}

fn has_type(schema: &Schema, value: &Value) -> bool {
    if schema.int_or_string {
        return value.is_i64() || value.is_u64() || value.is_string();
    }
    let Some(wanted) = schema.of_type else { return true };
    match wanted {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Integer => {
            value.is_i64()
                || value.is_u64()
                || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
    }
}

fn wrong_type(schema: &Schema, value: &Value, place: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut wanted = match schema.of_type {
        Some(of_type) if !schema.int_or_string => of_type.word(),
        _ => "integer,string",
    };
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if let Some(format) = schema.integer_format.filter(|_| is == "float64") {
        let why = format!("Checked value must be of type integer with format {format} in {place}");
        causes.push(Cause::invalid("<nil>", &"".into(), &why));
        wanted = format;
    }
    let message =
        format!("Invalid value: {is:?}: {place} in body must be of type {wanted}: {is:?}");
    causes.push(Cause::of("FieldValueTypeInvalid", place.to_string(), message));
}

fn too_many(
    reason: &'static str,
    most: Option<usize>,
    is: usize,
    place: &Place<'_>,
    causes: &mut Vec<Cause>,
) {
    if let Some(most) = most.filter(|most| is > *most) {
        let message = format!("Too many: {is}: must have at most {most} items");
        causes.push(Cause::of(reason, place.to_string(), message));
    }
}

fn string(schema: &Schema, text: &str, place: &Place<'_>, causes: &mut Vec<Cause>) {
    let length = text.chars().count();
    let shown = Value::from(text);
    let mut invalid = |why: String| {
        let why = format!("{place} in body {why}");
        causes.push(Cause::invalid(place.to_string(), &shown, &why));
    };
    // The real server looks no further at a text that is too short.
    if let Some(least) = schema.min_length.filter(|least| length < *least) {
        invalid(format!("should be at least {least} chars long"));
    } else if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text))
    {
        invalid(format!("should match '{pattern}'"));
    }
    if schema.date_time && !formats::is_date_time(text) {
        let why = format!("{place} in body must be of type date-time: {shown}");
        let message = format!("Invalid value: {shown}: {why}");
        causes.push(Cause::of("FieldValueTypeInvalid", place.to_string(), message));
    }
    if let Some(most) = schema.max_length.filter(|most| length > *most) {
        let message = format!("Too long: may not be more than {most} bytes");
        causes.push(Cause::of("FieldValueTooLong", place.to_string(), message));
    }
}

fn number(schema: &Schema, value: &Value, place: &Place<'_>, causes: &mut Vec<Cause>) {
    let Some(number) = value.as_f64() else { return };
    let mut invalid = |why: &str, bound: f64| {
        let why = format!("{place} in body should be {why} than or equal to {bound}");
        causes.push(Cause::invalid(place.to_string(), value, &why));
    };
    if let Some(least) = schema.minimum.filter(|least| number < *least) {
        invalid("greater", least);
    }
    if let Some(most) = schema.maximum.filter(|most| number > *most) {
        invalid("less", most);
    }
}

/// No two elements of a list of the type `map` have the same keys.
fn lists(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    place: &Place<'_>,
    causes: &mut Vec<Cause>,
) {
    if old == Some(new) {
        return;
    }
    if let Value::Array(items) = new
        && !schema.map_keys.is_empty()
    {
        let keys = |item: &Value| -> Value {
            let pairs = schema.map_keys.iter().map(|name| (name.clone(), item[name].clone()));
            Value::Object(pairs.collect())
        };
        for (index, item) in items.iter().enumerate() {
            let of_item = keys(item);
            if items[..index].iter().any(|earlier| keys(earlier) == of_item) {
                let field = Place::Item(place, index).to_string();
                let message = format!("Duplicate value: {of_item}");
                causes.push(Cause::of("FieldValueDuplicate", field, message));
            }
        }
    }
    below(schema, new, old, place, |schema, new, old, place| {
        lists(schema, new, old, place, causes);
    });
}

/// Asks the rules of a node, then those below it.
fn rules(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    place: &Place<'_>,
    ratchet: Ratchet,
    causes: &mut Vec<Cause>,
) {
    if ratchet == Ratchet::On && old == Some(new) {
        return;
    }
    for rule in &schema.rules {
        if !rule.twin.holds(new, old) {
            causes.push(refused(rule, new, place));
        }
    }
    below(schema, new, old, place, |schema, new, old, place| {
        rules(schema, new, old, place, ratchet, causes);
    });
}

fn refused(rule: &Rule, value: &Value, place: &Place<'_>) -> Cause {
    let field = match (place, rule.field_path.as_str()) {
        (Place::Root, "") => "<nil>".to_owned(),
        (place, "") => place.to_string(),
        (place, below) => Place::Field(place, below).to_string(),
    };
    let message = &rule.message;
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => Cause::forbidden(field, message),
        Some("FieldValueRequired") => Cause::required(field, message),
        _ => Cause::invalid(field, value, message),
    }
}
