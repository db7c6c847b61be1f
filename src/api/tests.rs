//! The validation rules, as the API server evaluates them, and the shape of the schemas.
//!
//! The schemas are the ones that `punctual crds` prints; objects are raw JSON, so that also those
//! are tried which the types could not hold.

mod report_rules;
mod rules;
mod shape;

use serde_json::Value;

use super::crds;

/// The schema of a kind's only version.
fn schema(kind: &str) -> Value {
    let crd = crds().iter().find(|crd| crd.spec.names.kind == kind).expect("a known kind");
    assert_eq!(crd.spec.versions.len(), 1);
    let schema = crd.spec.versions[0].schema.as_ref().unwrap();
    serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap()
}

/// Every schema node below `node`, itself included, with its path (`[]` for items, `{}` for values
/// of a map).
fn walk<'a>(node: &'a Value, path: &str, visit: &mut impl FnMut(&str, &'a Value)) {
    visit(path, node);
    let join =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if let Some(properties) = node["properties"].as_object() {
        for (name, child) in properties {
            walk(child, &join(name), visit);
        }
    }
    if node["items"].is_object() {
        walk(&node["items"], &join("[]"), visit);
    }
    if node["additionalProperties"].is_object() {
        walk(&node["additionalProperties"], &join("{}"), visit);
    }
}
