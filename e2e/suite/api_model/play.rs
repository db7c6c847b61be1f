//! Plays one operation and says what came of it, without what differs between any two servers.

use std::{collections::BTreeMap, time::Duration};

use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::table::{Compare, Step};

/// Longest an operation takes: a watch of two seconds, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// What came of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// HTTP status.
    pub code: u16,
    /// Whether the object of the path has another version than before, or is there or gone.
    pub moved: bool,
    /// The answer, as far as it is compared.
    pub answer: Value,
    /// The object of the path afterwards, as far as it is compared.
    pub stored: Value,
}

/// A server under comparison, and what was seen of its objects.
pub struct Player {
    client: Client,
    namespace: String,
    seen: BTreeMap<String, Seen>,
    token: String,
    /// Words that differ between any two servers, and what stands for them.
    words: Vec<(String, String)>,
}

/// The versions of one object.
#[derive(Clone, Debug, Default)]
struct Seen {
    uid: String,
    first: String,
    last: String,
}

impl Player {
    pub fn new(client: Client, namespace: &str) -> Self {
        let words = vec![(namespace.to_owned(), "NS".to_owned())];
        let (seen, token) = (BTreeMap::new(), String::new());
        Self { client, namespace: namespace.to_owned(), seen, token, words }
    }

    /// Carries out one operation.
    pub async fn play(&mut self, step: &Step) -> Outcome {
        let path = self.path(&step.path);
        let object = step.object().map(|path| self.path(&path));
        let before = match &object {
            Some(object) => self.look(object).await,
            None => Value::Null,
        };
        let query = self.fill(&step.query, object.as_deref());
        let body = match &step.body {
            Value::Null => Vec::new(),
            Value::String(raw) => raw.clone().into_bytes(),
            value => self.fill(&value.to_string(), object.as_deref()).into_bytes(),
        };
        let (code, answer) = self.send(&step.method, &path, &query, step.content_type, body).await;
        let after = match &object {
            Some(object) => self.look(object).await,
            None => Value::Null,
        };
        if let Some(uid) = answer["metadata"]["uid"].as_str() {
            self.words.push((uid.to_owned(), "UID".to_owned()));
        }
        let token = answer["metadata"]["continue"].as_str().filter(|token| !token.is_empty());
        // What waits for the compaction is played again with the same token.
        if let Some(token) = token.filter(|_| !step.compacted) {
            token.clone_into(&mut self.token);
        }
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        Outcome {
            code,
            moved: version(&before) != version(&after),
            answer: self.answer(&answer, step.compare),
            stored: match step.compare {
                Compare::Everything | Compare::NotTheMessage => self.normal(&after),
                Compare::Metadata => self.normal(&json!({"metadata": after["metadata"]})),
            },
        }
    }

    fn path(&self, path: &str) -> String {
        path.replace("{ns}", &self.namespace)
    }

    /// Puts in the namespace, and uid and version of the object as last seen.
    fn fill(&self, text: &str, object: Option<&str>) -> String {
        let seen = object.and_then(|object| self.seen.get(object)).cloned().unwrap_or_default();
        text.replace("{ns}", &self.namespace)
            .replace("{uid}", &seen.uid)
            .replace("{rv}", &seen.last)
            .replace("{old-rv}", &seen.first)
            .replace("{continue}", &encoded(&self.token))
    }

    async fn look(&mut self, path: &str) -> Value {
        let (code, object) = self.send(&Method::GET, path, "", "", Vec::new()).await;
        if code != 200 {
            return Value::Null;
        }
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (uid, version) = (text("uid"), text("resourceVersion"));
        let seen = self.seen.entry(path.to_owned()).or_default();
        if seen.uid != uid {
            *seen = Seen { uid: uid.clone(), first: version.clone(), last: String::new() };
        }
        seen.last.clone_from(&version);
        self.words.push((uid, "UID".to_owned()));
        self.words.push((format!("\"{version}\""), "\"RV\"".to_owned()));
        object
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> (u16, Value) {
        let uri = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let mut request = Request::builder().method(method.clone()).uri(uri);
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(Body::from(body)).expect("a step is a request");
        let exchange = async {
            let response = self.client.send(request).await.expect("an answer");
            let code = response.status().as_u16();
            (code, response.into_body().collect().await.expect("a body").to_bytes())
        };
        let (code, bytes) =
            tokio::time::timeout(DEADLINE, exchange).await.expect("an answer in time");
        let text = String::from_utf8_lossy(&bytes);
        let value = if query.contains("watch=true") && code == 200 {
            text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line")).collect()
        } else {
            serde_json::from_str(&text).unwrap_or_else(|_| text.trim().into())
        };
        (code, value)
    }

    /// The answer as far as it is compared: of a list or a watch, what is in it.
    fn answer(&self, answer: &Value, compare: Compare) -> Value {
        if let Value::Array(events) = answer {
            let shown = events.iter().map(|event| {
                let object = &event["object"];
                json!([event["type"], object["metadata"]["name"], object["code"], object["reason"]])
            });
            return shown.collect();
        }
        if let Some(items) = answer["items"].as_array() {
            let names: Vec<&Value> = items.iter().map(|item| &item["metadata"]["name"]).collect();
            let meta = &answer["metadata"];
            let goes_on = meta["continue"].as_str().is_some_and(|token| !token.is_empty());
            return json!([names, goes_on, meta["remainingItemCount"]]);
        }
        if answer["kind"] == "Status" {
            let mut status = self.normal(answer);
            if compare != Compare::Everything {
                status["message"] = Value::Null;
                for cause in status["details"]["causes"].as_array_mut().into_iter().flatten() {
                    cause["message"] = Value::Null;
                }
            }
            if let Some(meta) = status.as_object_mut() {
                meta.remove("metadata");
            }
            return status;
        }
        match compare {
            Compare::Everything | Compare::NotTheMessage => self.normal(answer),
            Compare::Metadata => self.normal(&json!({"metadata": answer["metadata"]})),
        }
    }

    /// A value without what differs between any two servers, and without what is empty.
    fn normal(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut normal = serde_json::Map::new();
                for (name, value) in fields {
                    let value = match name.as_str() {
                        "managedFields" | "selfLink" => continue,
                        "creationTimestamp" | "deletionTimestamp" => json!("TIME"),
                        "resourceVersion" => json!("RV"),
                        "uid" if value.is_string() => json!("UID"),
                        _ => self.normal(value),
                    };
                    if !is_empty(&value) {
                        normal.insert(name.clone(), value);
                    }
                }
                if let Some(causes) = normal.get_mut("causes").and_then(Value::as_array_mut) {
                    causes.sort_by_key(ToString::to_string);
                }
                Value::Object(normal)
            }
            Value::Array(items) => items.iter().map(|item| self.normal(item)).collect(),
            Value::String(text) => self.without_words(text).into(),
            other => other.clone(),
        }
    }

    fn without_words(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (word, stands) in self.words.iter().filter(|(word, _)| !word.is_empty()) {
            text = text.replace(word, stands);
        }
        for seen in self.seen.values() {
            for version in [&seen.first, &seen.last] {
                if !version.is_empty() {
                    text = text.replace(&format!("({version})"), "(RV)");
                    if let Some(head) = text.strip_suffix(&format!("meta: {version}")) {
                        text = format!("{head}meta: RV");
                    }
                }
            }
        }
        sorted_reasons(&text)
    }
}

/// The real server names several causes in an order that differs from call to call.
fn sorted_reasons(text: &str) -> String {
    let Some((head, list)) = text.split_once("is invalid: [") else { return text.to_owned() };
    let list = list.strip_suffix(']').unwrap_or(list);
    let mut causes: Vec<&str> = list.split(", ").collect();
    causes.sort_unstable();
    format!("{head}is invalid: [{}]", causes.join(", "))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Percent-encodes a token for a query.
fn encoded(text: &str) -> String {
    let sign = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(sign).collect()
}
