//! What the derived schemas need before they are installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use serde_json::Value;

/// Tidies a derived schema.
///
/// * `nullable` goes. The derive sets it on every optional field; without it the API server drops a
///   null when it is written, so nobody ever reads one.
/// * Descriptions lose the line breaks of the source, which `kubectl explain` would keep.
pub(super) fn tidy(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(validation) = &mut version.schema else { continue };
        let Some(schema) = validation.open_api_v3_schema.take() else { continue };
        validation.open_api_v3_schema = Some(tidy_schema(schema));
    }
    crd
}

fn tidy_schema(schema: JSONSchemaProps) -> JSONSchemaProps {
    let mut value = serde_json::to_value(schema).expect("a schema is JSON");
    tidy_value(&mut value);
    serde_json::from_value(value).expect("a schema without `nullable` is a schema")
}

fn tidy_value(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // A property of one of these names would be a schema, which is an object.
            if map.get("nullable").is_some_and(Value::is_boolean) {
                map.remove("nullable");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = reflow(text);
            }
            map.values_mut().for_each(tidy_value);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy_value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Joins the lines of each paragraph.
fn reflow(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
