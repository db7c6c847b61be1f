//! A small API server for unit tests: objects with optimistic concurrency under a `kube::Client`,
//! and faults. It knows just enough rules of the kinds to refuse stale fences and wrong names.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::sleep};

use crate::{
    api::{FENCE_MESSAGE, NAME_RULE_MESSAGE},
    time::WallClock,
};

/// What goes wrong with a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It never arrives; the connection breaks.
    LoseRequest,
    /// It is carried out, but the connection breaks before the answer.
    LoseResponse,
    /// It arrives after this time, and nobody ever answers.
    LandLater(Duration),
    /// It is refused with this code and reason.
    Refuse(u16, &'static str),
}

/// One request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
    pub(crate) code: u16,
}

#[derive(Default)]
struct World {
    revision: u64,
    uids: u64,
    objects: BTreeMap<Path, Value>,
    events: Vec<(u64, Path, &'static str, Value)>,
    faults: Vec<(Method, String, Fault)>,
    log: Vec<Logged>,
    /// Rules that a broken installation does not have.
    no_fence_rule: bool,
    no_name_rule: bool,
    /// Where the `Date` header comes from.
    wall: Option<WallClock>,
    /// How long every request is on its way.
    latency: Duration,
}

/// The server; clones share it.
#[derive(Clone, Default)]
pub(crate) struct FakeApi {
    world: Arc<Mutex<World>>,
    changed: Arc<Notify>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Path {
    group: String,
    plural: String,
    namespace: String,
    name: String,
    subresource: String,
}

impl Path {
    fn parse(path: &str) -> Self {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let skip = if parts[0] == "api" { 2 } else { 3 };
        let group = parts[..skip].join("/");
        let mut rest = parts[skip..].iter().map(ToString::to_string);
        let mut next = || rest.next().unwrap_or_default();
        let first = next();
        let (namespace, plural) =
            if first == "namespaces" { (next(), next()) } else { (String::new(), first) };
        Self { group, plural, namespace, name: next(), subresource: next() }
    }

    fn object(&self) -> Self {
        Self { subresource: String::new(), ..self.clone() }
    }

    /// Whether a list of `self` shows `other`.
    fn shows(&self, other: &Self) -> bool {
        (&self.group, &self.plural) == (&other.group, &other.plural)
            && (self.namespace.is_empty() || self.namespace == other.namespace)
    }
}

type Answer = (u16, Value);

impl FakeApi {
    pub(crate) fn new() -> Self {
        let fake = Self::default();
        fake.world().revision = 100;
        fake
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request| {
            let fake = fake.clone();
            async move { fake.serve(request).await }
        });
        Client::new(service, "default")
    }

    /// The next matching request meets `fault`. Faults are used up in the order they were added.
    pub(crate) fn fault(&self, method: Method, path_contains: &str, fault: Fault) {
        self.world().faults.push((method, path_contains.to_owned(), fault));
    }

    /// How many faults nobody has met yet.
    pub(crate) fn faults_left(&self) -> usize {
        self.world().faults.len()
    }

    pub(crate) fn without_fence_rule(&self) {
        self.world().no_fence_rule = true;
    }

    pub(crate) fn without_name_rule(&self) {
        self.world().no_name_rule = true;
    }

    pub(crate) fn show_date(&self, wall: &WallClock) {
        self.world().wall = Some(wall.clone());
    }

    pub(crate) fn set_latency(&self, latency: Duration) {
        self.world().latency = latency;
    }

    /// The requests that arrived and were answered, watches left out.
    pub(crate) fn log(&self) -> Vec<Logged> {
        self.world().log.clone()
    }

    pub(crate) fn clear_log(&self) {
        self.world().log.clear();
    }

    /// What is stored under a path.
    pub(crate) fn stored(&self, path: &str) -> Option<Value> {
        self.world().objects.get(&Path::parse(path)).cloned()
    }

    /// A change by someone else.
    pub(crate) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let path = Path::parse(path);
        let mut world = self.world();
        let mut object = world.objects[&path].clone();
        change(&mut object);
        world.store(path, object, "MODIFIED");
        drop(world);
        self.changed.notify_waiters();
    }

    /// The object and the whole server go back to an older version, as after a restore.
    pub(crate) fn restore(&self, path: &str, revision: u64) {
        let mut world = self.world();
        world.revision = revision;
        let object = world.objects.get_mut(&Path::parse(path)).unwrap();
        object["metadata"]["resourceVersion"] = revision.to_string().into();
    }

    /// An object made by someone else; gives it as stored.
    pub(crate) fn put(&self, path: &str, object: Value) -> Value {
        let stored = self.world().create(&Path::parse(path), object);
        self.changed.notify_waiters();
        stored
    }

    /// A deletion by someone else.
    pub(crate) fn remove(&self, path: &str) {
        self.world().delete(&Path::parse(path));
        self.changed.notify_waiters();
    }

    /// Forgets old events: a watch from before gets 410.
    pub(crate) fn compact(&self) {
        self.world().events.clear();
        self.changed.notify_waiters();
    }

    async fn serve(&self, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        if query_value(&query, "watch").is_some() {
            return Ok(self.watch(&path, &query).await);
        }
        let latency = self.world().latency;
        if !latency.is_zero() {
            sleep(latency).await;
        }
        let fault = {
            let mut world = self.world();
            let hit = world
                .faults
                .iter()
                .position(|(method, part, _)| *method == parts.method && path.contains(part));
            hit.map(|hit| world.faults.remove(hit).2)
        };
        match fault {
            Some(Fault::LoseRequest) => return Err("connection reset".into()),
            Some(Fault::Refuse(code, reason)) => {
                let answer = refusal(code, reason, "as the test wants", "");
                return Ok(self.finish(&parts.method, &path, &query, body, answer));
            }
            Some(Fault::LandLater(after)) => {
                let fake = self.clone();
                tokio::spawn(async move {
                    sleep(after).await;
                    fake.carry_out(&parts.method, &path, &query, body);
                });
                return std::future::pending().await;
            }
            Some(Fault::LoseResponse) => {
                self.carry_out(&parts.method, &path, &query, body);
                return Err("connection reset".into());
            }
            None => {}
        }
        Ok(self.carry_out(&parts.method, &path, &query, body))
    }

    fn carry_out(&self, method: &Method, path: &str, query: &str, body: Value) -> Response<Body> {
        let answer = self.world().answer(method, &Path::parse(path), query, &body);
        self.changed.notify_waiters();
        self.finish(method, path, query, body, answer)
    }

    fn finish(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        body: Value,
        (code, answer): Answer,
    ) -> Response<Body> {
        let mut world = self.world();
        world.log.push(Logged {
            method: method.clone(),
            path: path.to_owned(),
            query: query.to_owned(),
            body,
            code,
        });
        let mut response = Response::builder().status(code);
        if let Some(wall) = &world.wall {
            let date = jiff::fmt::rfc2822::DateTimePrinter::new()
                .timestamp_to_rfc9110_string(&wall.now())
                .unwrap();
            response = response.header("Date", date);
        }
        response.body(Body::from(answer.to_string().into_bytes())).unwrap()
    }

    /// A long poll: answers with the events after the given version once there are some.
    async fn watch(&self, path: &str, query: &str) -> Response<Body> {
        let path = Path::parse(path);
        let from: u64 = query_value(query, "resourceVersion").unwrap().parse().unwrap();
        let name = query_value(query, "fieldSelector")
            .and_then(|fields| fields.strip_prefix("metadata.name=").map(ToOwned::to_owned));
        let limit: u64 =
            query_value(query, "timeoutSeconds").and_then(|text| text.parse().ok()).unwrap_or(290);
        let lines = async {
            loop {
                let changed = self.changed.notified();
                if let Some(lines) = self.world().lines(&path, from, name.as_deref()) {
                    return lines;
                }
                changed.await;
            }
        };
        let lines =
            tokio::time::timeout(Duration::from_secs(limit), lines).await.unwrap_or_default();
        Response::new(Body::from(lines.into_bytes()))
    }
}

impl World {
    fn lines(&self, path: &Path, from: u64, name: Option<&str>) -> Option<String> {
        if self.events.is_empty() && from < self.revision {
            let gone = refusal(410, "Expired", "too old resource version", "").1;
            return Some(json!({"type": "ERROR", "object": gone}).to_string() + "\n");
        }
        let lines: Vec<String> = self
            .events
            .iter()
            .filter(|(at, of, ..)| *at > from && path.shows(of))
            .filter(|(_, of, ..)| name.is_none_or(|name| name == of.name))
            .map(|(_, _, kind, object)| json!({"type": kind, "object": object}).to_string() + "\n")
            .collect();
        (!lines.is_empty()).then(|| lines.concat())
    }

    fn store(&mut self, path: Path, mut object: Value, event: &'static str) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.events.push((self.revision, path.clone(), event, object.clone()));
        self.objects.insert(path, object.clone());
        object
    }

    fn create(&mut self, path: &Path, mut object: Value) -> Value {
        self.uids += 1;
        object["metadata"]["uid"] = format!("uid-{}", self.uids).into();
        object["metadata"]["namespace"] = path.namespace.clone().into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.store(Path { name, ..path.object() }, object, "ADDED")
    }

    fn delete(&mut self, path: &Path) {
        let mut object = self.objects.remove(path).unwrap();
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.events.push((self.revision, path.clone(), "DELETED", object));
    }

    fn answer(&mut self, method: &Method, path: &Path, query: &str, body: &Value) -> Answer {
        let dry = query_value(query, "dryRun").is_some();
        let old = self.objects.get(&path.object()).cloned();
        match (method.as_str(), old) {
            ("GET", _) if path.name.is_empty() => self.list(path, query),
            ("GET", Some(old)) => (200, old),
            ("POST", _) => self.post(path, body, dry),
            ("PUT", None) if body["metadata"]["uid"].is_string() => {
                refusal(409, "Conflict", "Precondition failed: UID in precondition", "")
            }
            ("PUT", Some(old)) => self.replace(path, &old, body, dry),
            ("PATCH", Some(old)) => {
                let meta = &body["metadata"];
                if meta["uid"].is_string() && meta["uid"] != old["metadata"]["uid"] {
                    return refusal(422, "Invalid", "field is immutable", "metadata.uid");
                }
                let mut new = old.clone();
                super::writer::merge(&mut new, body);
                self.replace(path, &old, &new, dry)
            }
            ("DELETE", Some(old)) => {
                let wanted = &body["preconditions"];
                let differs =
                    |of: &str| wanted[of].is_string() && wanted[of] != old["metadata"][of];
                if differs("uid") || differs("resourceVersion") {
                    return refusal(409, "Conflict", "Precondition failed", "");
                }
                self.delete(&path.object());
                (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            _ => refusal(404, "NotFound", "not found", ""),
        }
    }

    fn list(&self, path: &Path, query: &str) -> Answer {
        let label = query_value(query, "labelSelector");
        let (label, value) =
            label.as_deref().and_then(|text| text.split_once('=')).unwrap_or_default();
        let field = query_value(query, "fieldSelector");
        let shown: Vec<&Value> = self
            .objects
            .iter()
            .filter(|(of, _)| path.shows(of))
            .filter(|(of, object)| {
                field.as_deref().is_none_or(|field| match field.split_once('=') {
                    Some(("metadata.name", name)) => name == of.name,
                    Some((path, value)) => {
                        object.pointer(&format!("/{}", path.replace('.', "/")))
                            == Some(&value.into())
                    }
                    None => false,
                })
            })
            .map(|(_, object)| object)
            .filter(|object| label.is_empty() || object["metadata"]["labels"][label] == value)
            .collect();
        let from = query_value(query, "continue").map_or(0, |token| token.parse().unwrap());
        let limit = query_value(query, "limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let more = shown.len().saturating_sub(from) > limit;
        let token = if more { (from + limit).to_string() } else { String::new() };
        let items: Vec<&Value> = shown.into_iter().skip(from).take(limit).collect();
        let meta = json!({"resourceVersion": self.revision.to_string(), "continue": token});
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items}))
    }

    fn post(&mut self, path: &Path, body: &Value, dry: bool) -> Answer {
        let name = body["metadata"]["name"].as_str().unwrap().to_owned();
        if self.objects.contains_key(&Path { name: name.clone(), ..path.clone() }) {
            return refusal(409, "AlreadyExists", "exists", "");
        }
        if path.plural == "maintenanceoccurrences" && !self.no_name_rule {
            let schedule = body["spec"]["scheduleName"].as_str().unwrap();
            let time = body["spec"]["intendedTime"].as_str().unwrap();
            let digits: String = time.chars().filter(char::is_ascii_digit).take(12).collect();
            if name != format!("{schedule}-{digits}") {
                return refusal(422, "Invalid", NAME_RULE_MESSAGE, "");
            }
        }
        if dry {
            return (201, body.clone());
        }
        let mut object = body.clone();
        if path.group.contains("punctual.dev") {
            object.as_object_mut().unwrap().remove("status");
        }
        (201, self.create(path, object))
    }

    fn replace(&mut self, path: &Path, old: &Value, body: &Value, dry: bool) -> Answer {
        for of in ["uid", "resourceVersion"] {
            let wanted = &body["metadata"][of];
            if wanted.is_string() && *wanted != old["metadata"][of] {
                return refusal(409, "Conflict", "the object has been modified", "");
            }
        }
        let mut new = old.clone();
        if path.subresource == "status" {
            new["status"] = body["status"].clone();
        } else {
            let status = old.get("status").cloned();
            new = body.clone();
            for of in ["uid", "namespace", "resourceVersion"] {
                new["metadata"][of] = old["metadata"][of].clone();
            }
            if path.group.contains("punctual.dev")
                && let Some(status) = status
            {
                new["status"] = status;
            }
        }
        let (before, after) = (&old["status"]["fence"], &new["status"]["fence"]);
        let stale = before.is_object()
            && (after["epoch"].as_i64() < before["epoch"].as_i64()
                || (after["epoch"] == before["epoch"] && after["nonce"] != before["nonce"]));
        if stale && !self.no_fence_rule {
            return refusal(422, "Invalid", FENCE_MESSAGE, "");
        }
        if dry || new == *old {
            return (200, new);
        }
        (200, self.store(path.object(), new, "MODIFIED"))
    }
}

fn refusal(code: u16, reason: &str, message: &str, field: &str) -> Answer {
    let causes = if field.is_empty() { json!([]) } else { json!([{"field": field}]) };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message, "details": {"causes": causes},
    });
    (code, status)
}

/// The decoded value of a query parameter.
fn query_value(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.replace("%3D", "=").replace("%2F", "/").replace("%2C", ",").replace('+', " "))
}
