//! The operations: every verb, precondition and class of refusal that the operator, and the people
//! around it, meet.
//!
//! In texts, `{ns}` is the namespace; `{uid}`, `{rv}` and `{old-rv}` are the uid, the version and the
//! first version of the object of the path, as last seen; `{continue}` is the last token of a list.

use http::Method;
use serde_json::{Value, json};

mod built_in;
mod custom;
mod occurrences;
mod reads;
mod reports;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";

pub const SCHEDULES: &str = "/apis/punctual.dev/v1alpha1/namespaces/{ns}/maintenanceschedules";
pub const OCCURRENCES: &str = "/apis/punctual.dev/v1alpha1/namespaces/{ns}/maintenanceoccurrences";
pub const TRACES: &str = "/apis/punctual.dev/v1alpha1/namespaces/{ns}/recoverytraces";
pub const REPORT_QUEUES: &str = "/apis/punctual.dev/v1alpha1/namespaces/{ns}/reportqueues";
pub const REPORT_JOBS: &str = "/apis/punctual.dev/v1alpha1/namespaces/{ns}/reportjobs";
pub const REPORT_SCHEDULES: &str = "/apis/punctual.dev/v1alpha1/namespaces/{ns}/reportschedules";
pub const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
pub const JOBS: &str = "/apis/batch/v1/namespaces/{ns}/jobs";
pub const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/{ns}/events";
pub const PODS: &str = "/api/v1/namespaces/{ns}/pods";
pub const NODES: &str = "/api/v1/nodes";
pub const NAMESPACES: &str = "/api/v1/namespaces";
pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How much of the objects and sentences must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// All of them, word for word.
    Everything,
    /// The sentence quotes a Go value or the words of a JSON parser: reason and fields only.
    NotTheMessage,
    /// The real server adds what no part of the operator looks at: metadata only.
    Metadata,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Step {
    pub what: &'static str,
    pub method: Method,
    pub path: String,
    pub query: String,
    pub content_type: &'static str,
    /// A text is sent as it is.
    pub body: Value,
    pub compare: Compare,
    /// The past is forgotten first.
    pub compacted: bool,
}

impl Step {
    fn new(what: &'static str, method: Method, path: String, body: Value) -> Self {
        let content_type = match method {
            Method::PATCH => MERGE,
            Method::GET => "",
            _ => JSON,
        };
        let compare = Compare::Everything;
        let (query, compacted) = (String::new(), false);
        Self { what, method, path, query, content_type, body, compare, compacted }
    }

    fn query(self, query: &str) -> Self {
        Self { query: query.to_owned(), ..self }
    }

    fn content_type(self, content_type: &'static str) -> Self {
        Self { content_type, ..self }
    }

    fn compare(self, compare: Compare) -> Self {
        Self { compare, ..self }
    }

    fn compacted(self) -> Self {
        Self { compacted: true, ..self }
    }

    fn dry(self) -> Self {
        self.query("dryRun=All")
    }

    /// Path of the object that it is about.
    pub fn object(&self) -> Option<String> {
        let path = self.path.strip_suffix("/status").unwrap_or(&self.path);
        if self.method == Method::POST {
            let name = self.body["metadata"]["name"].as_str().filter(|name| !name.is_empty())?;
            return Some(format!("{path}/{name}"));
        }
        let collection = self.is_collection();
        (!collection).then(|| path.to_owned())
    }

    /// Whether it is about a whole kind.
    pub fn is_collection(&self) -> bool {
        let ours = [SCHEDULES, OCCURRENCES, TRACES, REPORT_QUEUES, REPORT_JOBS, REPORT_SCHEDULES];
        let others = [LEASES, JOBS, EVENTS, PODS, NODES, NAMESPACES, CRDS];
        let plural = self.path.rsplit('/').next().unwrap_or_default();
        ours.iter().chain(&others).any(|known| known.ends_with(&format!("/{plural}")))
    }
}

fn post(what: &'static str, path: &str, body: Value) -> Step {
    Step::new(what, Method::POST, path.to_owned(), body)
}

fn put(what: &'static str, path: &str, name: &str, body: Value) -> Step {
    Step::new(what, Method::PUT, format!("{path}/{name}"), body)
}

fn patch(what: &'static str, path: &str, name: &str, body: Value) -> Step {
    Step::new(what, Method::PATCH, format!("{path}/{name}"), body)
}

fn delete(what: &'static str, path: &str, name: &str, options: Value) -> Step {
    Step::new(what, Method::DELETE, format!("{path}/{name}"), options)
}

fn get(what: &'static str, path: &str, name: &str) -> Step {
    let path = if name.is_empty() { path.to_owned() } else { format!("{path}/{name}") };
    Step::new(what, Method::GET, path, Value::Null)
}

/// `base` with some fields replaced, added, or (null) taken away; paths are JSON pointers.
fn with<const N: usize>(base: &Value, changes: [(&str, Value); N]) -> Value {
    let mut object = base.clone();
    for (path, value) in changes {
        let (parent, name) = path.rsplit_once('/').expect("a pointer has a slash");
        let parent = object.pointer_mut(parent).expect("the parent is there");
        let parent = parent.as_object_mut().expect("the parent is an object");
        if value.is_null() {
            parent.remove(name);
        } else {
            parent.insert(name.to_owned(), value);
        }
    }
    object
}

/// The operations in the order in which they are played.
pub fn table() -> Vec<Step> {
    [custom::steps(), occurrences::steps(), reports::steps(), built_in::steps(), reads::steps()]
        .concat()
}

/// Metadata that name one version of one object.
fn at_version(name: &str) -> Value {
    json!({"name": name, "namespace": "{ns}", "uid": "{uid}", "resourceVersion": "{rv}"})
}
