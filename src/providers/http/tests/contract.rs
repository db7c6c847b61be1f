//! Holds exchanges to `docs/reference/provider.openapi.yaml`.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use http::{Request, Response};
use regex::Regex;
use serde_json::{Map, Value};

use super::super::{SendError, Tls, Transport};
use crate::yaml;

/// The document.
pub(super) fn document() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/provider.openapi.yaml");
    yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Passes requests on, holds them and their answers to the contract, and counts operations.
pub(super) struct Held<T> {
    pub(super) inner: T,
    document: Value,
    pub(super) operations: Arc<Mutex<Vec<(String, u16)>>>,
}

impl<T> Held<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, document: document(), operations: Arc::default() }
    }
}

impl<T: Transport> Transport for Held<T> {
    fn send<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        tls: &'a Tls,
    ) -> BoxFuture<'a, Result<Response<Vec<u8>>, SendError>> {
        let (parts, body) = request.clone().into_parts();
        let headers: Vec<(String, String)> = parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let path = parts.uri.path().strip_prefix("/v1").expect("the base address has a path");
        let asked = check_request(&self.document, parts.method.as_str(), path, &headers, &body);
        let operation = asked.unwrap_or_else(|why| panic!("{} {path}: {why}", parts.method));
        Box::pin(async move {
            let answer = self.inner.send(request, tls).await;
            let code = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
            let id = operation["operationId"].as_str().unwrap().to_owned();
            if let Ok(answer) = &answer {
                check_answer(&self.document, &operation, code, answer.body())
                    .unwrap_or_else(|why| panic!("{id} {code}: {why}"));
            }
            self.operations.lock().unwrap().push((id, code));
            answer
        })
    }
}

/// The operation that a request is, if it keeps to the document.
pub(super) fn check_request(
    document: &Value,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Value, String> {
    let (template, of_path) = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .find_map(|(template, of_path)| Some((matches(template, path)?, of_path)))
        .ok_or("there is no such path")?;
    let operation = &of_path[method.to_lowercase()];
    if operation.is_null() {
        return Err("there is no such method".into());
    }
    let parameters = [&of_path["parameters"], &operation["parameters"]];
    let mut required = 0;
    for parameter in parameters.iter().filter_map(|list| list.as_array()).flatten() {
        let parameter = resolve(document, parameter);
        let name = parameter["name"].as_str().unwrap();
        let given = match parameter["in"].as_str().unwrap() {
            "path" => template.get(name).and_then(Value::as_str).map(str::to_owned),
            "header" => {
                let given = headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
                given.map(|(_, value)| value.clone())
            }
            other => return Err(format!("parameters in {other} are not understood")),
        };
        let Some(given) = given else { return Err(format!("{name} is missing")) };
        required += 1;
        let schema = &parameter["schema"];
        let value = match schema["type"].as_str() {
            Some("integer") => {
                given.parse::<i64>().map_err(|_| format!("{name} {given:?}"))?.into()
            }
            _ => Value::String(given),
        };
        check(document, schema, &value).map_err(|why| format!("{name}: {why}"))?;
    }
    assert!(required > 0, "every operation has an epoch");
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    if schema.is_null() {
        if !body.is_empty() {
            return Err("it has a body".into());
        }
    } else {
        let json = headers.iter().any(|h| h.0 == "content-type" && h.1 == "application/json");
        if !json {
            return Err("its body is not declared as JSON".into());
        }
        let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        check(document, schema, &body)?;
    }
    Ok(operation.clone())
}

/// Whether an answer is one that the document allows.
pub(super) fn check_answer(
    document: &Value,
    operation: &Value,
    code: u16,
    body: &[u8],
) -> Result<(), String> {
    let response = &operation["responses"][code.to_string()];
    if response.is_null() {
        return Err("the document has no such status".into());
    }
    let schema = &resolve(document, response)["content"]["application/json"]["schema"];
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    check(document, schema, &body)
}

/// The values of a template's variables.
fn matches(template: &str, path: &str) -> Option<Map<String, Value>> {
    let (wanted, given): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    if wanted.len() != given.len() {
        return None;
    }
    let mut found = Map::new();
    for (wanted, given) in wanted.iter().zip(given) {
        match wanted.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => {
                found.insert(name.to_owned(), given.into());
            }
            None if *wanted == given => {}
            None => return None,
        }
    }
    Some(found)
}

fn resolve<'a>(document: &'a Value, of: &'a Value) -> &'a Value {
    match of["$ref"].as_str() {
        None => of,
        Some(pointer) => {
            let found = document.pointer(pointer.strip_prefix('#').unwrap());
            found.unwrap_or_else(|| panic!("{pointer} leads nowhere"))
        }
    }
}

/// Holds a value to a schema. A keyword that is not understood is an error: nothing is passed over.
pub(super) fn check(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if schema["$ref"].is_string() {
        return check(document, resolve(document, schema), value);
    }
    let schema = schema.as_object().ok_or("there is no schema")?;
    for (keyword, wanted) in schema {
        let text = value.as_str();
        let length = text.map(|text| text.chars().count() as u64);
        let holds = match keyword.as_str() {
            "description" => true,
            "type" => match wanted.as_str().unwrap() {
                "object" => value.is_object(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64(),
                other => return Err(format!("type {other} is not understood")),
            },
            "enum" => wanted.as_array().unwrap().contains(value),
            "pattern" => {
                let pattern = Regex::new(wanted.as_str().unwrap()).unwrap();
                text.is_none_or(|text| pattern.is_match(text))
            }
            "format" if wanted == "date-time" => {
                text.is_none_or(|text| text.parse::<jiff::Timestamp>().is_ok())
            }
            "minLength" => length.is_none_or(|length| length >= wanted.as_u64().unwrap()),
            "maxLength" => length.is_none_or(|length| length <= wanted.as_u64().unwrap()),
            "minimum" => value.as_i64().is_none_or(|n| n >= wanted.as_i64().unwrap()),
            "maximum" => value.as_i64().is_none_or(|n| n <= wanted.as_i64().unwrap()),
            "maxProperties" => {
                value.as_object().is_none_or(|o| o.len() as u64 <= wanted.as_u64().unwrap())
            }
            "required" => {
                let names = wanted.as_array().unwrap().iter().filter_map(Value::as_str);
                names.into_iter().all(|name| value.get(name).is_some())
            }
            "properties" | "additionalProperties" => continue,
            other => return Err(format!("keyword {other} is not understood")),
        };
        if !holds {
            return Err(format!("{value} breaks {keyword} {wanted}"));
        }
    }
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    for (name, value) in value.as_object().into_iter().flatten() {
        let result = match (properties.get(name), schema.get("additionalProperties")) {
            (None, Some(Value::Bool(false))) => Err("is not in the contract".to_owned()),
            (Some(schema), _) | (None, Some(schema)) => check(document, schema, value),
            (None, None) => Ok(()),
        };
        result.map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

#[test]
fn what_breaks_the_contract_is_found() {
    let document = document();
    let epoch = [("punctual-epoch".to_owned(), "7".to_owned())];
    let json = ("content-type".to_owned(), "application/json".to_owned());
    let run = r#"{"requestID":"4c78fa5c-685d-80f1-9045-15254e6e61c1","attempt":1,"actionClass":"Fenced","hold":true,"parameters":{}}"#;
    let with_body = [epoch[0].clone(), json];
    let put =
        |body: &str| check_request(&document, "PUT", "/runs/a-m1", &with_body, body.as_bytes());
    assert!(put(run).is_ok());
    for (description, broken) in [
        ("no request id", run.replace("requestID", "requestId")),
        ("a UUID of another version", run.replace("-80f1-", "-40f1-")),
        ("attempt 0", run.replace(":1,", ":0,")),
        ("another class", run.replace("Fenced", "Careless")),
        ("a number as parameter", run.replace("{}", "{\"a\":1}")),
        ("one field more", run.replace("\"hold\"", "\"extra\":1,\"hold\"")),
        ("no JSON", "run it".to_owned()),
    ] {
        assert!(put(&broken).is_err(), "{description}");
    }
    let get = |path: &str, headers: &[(String, String)]| {
        check_request(&document, "GET", path, headers, b"").map(|_| ())
    };
    assert_eq!(get("/runs/a-m1", &epoch), Ok(()));
    assert!(get("/runs/a-m1", &[]).is_err(), "no epoch");
    assert!(get("/runs/a%2Fb", &epoch).is_err(), "no run key");
    assert!(get("/run/a", &epoch).is_err(), "no such path");
    assert!(check_request(&document, "POST", "/runs/a-m1", &epoch, b"").is_err(), "no such method");
    assert!(check_request(&document, "GET", "/runs/a-m1", &epoch, b"{}").is_err(), "a body");
    let operation = &document["paths"]["/runs/{key}"]["get"];
    let answer = |code, body: &str| check_answer(&document, operation, code, body.as_bytes());
    assert_eq!(answer(200, r#"{"key":"a-m1","state":"Held","handle":"h"}"#), Ok(()));
    assert!(answer(201, r#"{"key":"a-m1","state":"Held"}"#).is_err(), "another status");
    assert!(answer(200, r#"{"key":"a-m1","state":"Sleeping"}"#).is_err(), "another state");
    assert!(answer(200, r#"{"key":"a-m1","state":"Running","startTime":"noon"}"#).is_err());
    assert!(answer(404, r#"{"message":"no"}"#).is_err(), "a problem without a reason");
}

/// Follows every reference, and counts schemas.
fn walk(document: &Value, at: &Value, found: &mut usize) {
    match at {
        Value::Object(fields) => {
            if let Some(schema) = fields.get("schema").or(fields.get("schemas")) {
                *found += usize::from(!schema.is_null());
            }
            if fields.contains_key("$ref") {
                resolve(document, at);
            }
            fields.values().for_each(|value| walk(document, value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| walk(document, value, found)),
        _ => {}
    }
}

#[test]
fn every_schema_of_the_document_is_understood() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = 0;
    walk(&document, &document, &mut found);
    assert!(found >= 6, "{found}");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let broken = check(&document, schema, &Value::Null).unwrap_err();
        assert!(broken.contains("breaks"), "{name}: {broken}");
    }
}
