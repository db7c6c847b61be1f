//! What the derived schemas need before they are installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use serde_json::Value;

/// Takes `nullable` out of the schema. The derive sets it on every optional field; without it the
/// API server drops a null when it is written, so nobody ever reads one.
pub(super) fn tidy(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(validation) = &mut version.schema else { continue };
        let Some(schema) = validation.open_api_v3_schema.take() else { continue };
        validation.open_api_v3_schema = Some(without_nullable(schema));
    }
    crd
}

fn without_nullable(schema: JSONSchemaProps) -> JSONSchemaProps {
    let mut value = serde_json::to_value(schema).expect("a schema is JSON");
    remove_nullable(&mut value);
    serde_json::from_value(value).expect("a schema without `nullable` is a schema")
}

fn remove_nullable(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // A property called `nullable` would be an object; the keyword is a boolean.
            if map.get("nullable").is_some_and(Value::is_boolean) {
                map.remove("nullable");
            }
            map.values_mut().for_each(remove_nullable);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nullable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
