//! One API server: HTTP requests in, answers out.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{HeaderValue, Method, Request as HttpRequest, Response, header};
use hyper::body::Bytes;
use jiff::{Timestamp, fmt::rfc2822};
use kube::Client;
use serde_json::{Value, json};

use super::{
    body::Body,
    http::Call,
    list,
    model::Model,
    refusal::{Cause, Refusal},
    request::{Deletion, Propagation, Request},
    select::Selector,
    store::{Objects, to_bytes},
    watch::{self, Wanted},
    write::{NOT_SERVED, Outcome},
};
use crate::sim::Kind;

/// Content types of bodies that are whole objects.
const JSON: &str = "application/json";
/// The one content type of patches that the operator sends, and that is modelled.
const MERGE_PATCH: &str = "application/merge-patch+json";

/// What one server sees of the store: later than it happens, or as it was.
#[derive(Debug, Default)]
pub(super) struct ServerState(Mutex<View>);

#[derive(Debug, Default)]
struct View {
    lag: Duration,
    stale: Option<Stale>,
}

/// The store as it was, and until when it is shown.
#[derive(Clone, Debug)]
pub(super) struct Stale {
    pub(super) until: Duration,
    pub(super) revision: u64,
    pub(super) objects: Arc<Objects>,
}

impl ServerState {
    fn view<T>(&self, look: impl FnOnce(&mut View) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn lag(&self) -> Duration {
        self.view(|view| view.lag)
    }

    /// The old view, if it is shown at `now`.
    pub(super) fn stale(&self, now: Duration) -> Option<Stale> {
        self.view(|view| view.stale.clone()).filter(|stale| now < stale.until)
    }
}

/// One of the API servers over the store; clones are the same server.
#[derive(Clone)]
pub struct Server {
    model: Model,
    state: Arc<ServerState>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(model: Model, state: Arc<ServerState>) -> Self {
        Self { model, state }
    }

    /// Watches of this server show everything so much later.
    pub fn set_watch_lag(&self, lag: Duration) {
        self.state.view(|view| view.lag = lag);
    }

    /// Until that moment (virtual time since the start) lists and watches of this server show the
    /// store as it is now. Reads of single objects are live.
    pub fn stale_reads_until(&self, until: Duration) {
        let (revision, objects) = {
            let store = self.model.store();
            (store.revision(), Arc::new(store.objects().clone()))
        };
        self.state.view(|view| view.stale = Some(Stale { until, revision, objects }));
    }

    /// Carries out exactly one request of `by`, without faults.
    pub fn serve(
        &self,
        by: &str,
        request: HttpRequest<kube::client::Body>,
    ) -> impl Future<Output = Response<Body>> + Send + use<> {
        let (server, by) = (self.clone(), by.to_owned());
        async move {
            let (parts, body) = request.into_parts();
            let answer = match body.collect_bytes().await {
                Ok(bytes) => server.answer(&by, &parts, &bytes),
                Err(error) => Err(Refusal::bad_request(error.to_string())),
            };
            match answer {
                Ok((code, body)) => server.respond(code, body),
                Err(refusal) => server.refuse(&refusal),
            }
        }
    }

    /// A client of this server for a party that meets no faults.
    pub fn client(&self, by: &str) -> Client {
        let (server, by) = (self.clone(), by.to_owned());
        let service = tower::service_fn(move |request| {
            let answer = server.serve(&by, request);
            async move { Ok::<_, tower::BoxError>(answer.await) }
        });
        Client::new(service, "default")
    }

    /// The answer that says no, with the server's clock in it.
    pub fn refuse(&self, refusal: &Refusal) -> Response<Body> {
        // A path that leads nowhere is answered before anybody speaks of objects.
        let body = if refusal.message == NOT_SERVED {
            Bytes::from(format!("{NOT_SERVED}\n"))
        } else {
            to_bytes(&refusal.status())
        };
        let mut response = self.respond(refusal.code, Body::whole(body));
        if let Some(seconds) = refusal.retry_after_secs {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    fn respond(&self, code: u16, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        if let Ok(code) = code.try_into() {
            *response.status_mut() = code;
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        if let Some(date) = http_date(self.model.now()) {
            headers.insert(header::DATE, date);
        }
        response
    }

    fn answer(
        &self,
        by: &str,
        parts: &http::request::Parts,
        body: &[u8],
    ) -> Result<(u16, Body), Refusal> {
        let call = Call::parse(&parts.method, &parts.uri)?;
        self.model.store().serves(call.kind, call.part)?;
        let collection = call.name.is_empty();
        match (call.method.as_str(), collection) {
            ("GET", true) if call.query.is_true("watch") => Ok((200, self.watch(&call)?)),
            ("GET", true) => Ok((200, self.list(&call)?)),
            ("GET", false) => {
                let store = self.model.store();
                let found =
                    store.get(&call.key()).ok_or_else(|| Refusal::not_found(&call.key()))?;
                Ok((200, Body::whole(found.bytes().clone())))
            }
            ("POST", true) | ("PUT" | "PATCH" | "DELETE", false) => {
                let request = request(&call, content_type(parts), body)?;
                let done = self.model.act(by, |store, writer| store.carry_out(writer, request))?;
                Ok(shown(&call, &done))
            }
            _ => Err(Refusal::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )),
        }
    }

    fn selector(&self, call: &Call) -> Result<Selector, Refusal> {
        let custom = self.model.store().served(call.kind)?;
        let selectable = custom.as_ref().map_or(&[][..], |custom| &custom.selectable);
        let query = &call.query;
        let (labels, fields) = (query.get("labelSelector"), query.get("fieldSelector"));
        Selector::parse(call.kind, labels, fields, selectable)
    }

    fn list(&self, call: &Call) -> Result<Body, Refusal> {
        let selector = self.selector(call)?;
        let stale = self.state.stale(self.model.elapsed());
        let store = self.model.store();
        Ok(Body::whole(list::page(&store, call, &selector, stale.as_ref())?))
    }

    fn watch(&self, call: &Call) -> Result<Body, Refusal> {
        let query = &call.query;
        if query.is_true("sendInitialEvents") {
            return Err(Refusal::bad_request("sendInitialEvents is not modelled"));
        }
        let wanted = Wanted {
            kind: call.kind,
            namespace: call.namespace.clone(),
            selector: self.selector(call)?,
            after: query.number("resourceVersion")?.unwrap_or(0),
            seconds: query.number("timeoutSeconds")?,
            bookmarks: query.is_true("allowWatchBookmarks"),
        };
        let lines = watch::lines(self.model.clone(), Arc::clone(&self.state), wanted);
        Ok(Body::lines(lines))
    }
}

/// The server's clock, as the header `Date` carries it.
fn http_date(now: Timestamp) -> Option<HeaderValue> {
    static PRINTER: rfc2822::DateTimePrinter = rfc2822::DateTimePrinter::new();
    let text = PRINTER.timestamp_to_rfc9110_string(&now).ok()?;
    HeaderValue::from_str(&text).ok()
}

/// The content type without its parameters.
fn content_type(parts: &http::request::Parts) -> &str {
    let given = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    given.map_or(JSON, |given| given.split(';').next().unwrap_or(given).trim())
}

fn json_body(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        Refusal::bad_request(format!("the object provided is unrecognized: {error}"))
    })
}

/// The write that a request asks for.
fn request(call: &Call, content_type: &str, body: &[u8]) -> Result<Request, Refusal> {
    let (kind, key, subresource) = (call.kind, call.key(), call.part);
    let options = match call.method {
        Method::DELETE => return deletion(call, body),
        Method::POST => "CreateOptions",
        Method::PUT => "UpdateOptions",
        _ => "PatchOptions",
    };
    let dry_run = call.query.dry_run(options)?;
    let accepted = if call.method == Method::PATCH { MERGE_PATCH } else { JSON };
    if content_type != accepted {
        return Err(Refusal::unsupported_media(accepted));
    }
    let object = json_body(body)?;
    Ok(match call.method {
        Method::POST => {
            Request::Create { kind, namespace: call.namespace.clone(), object, dry_run }
        }
        Method::PUT => Request::Update { key, subresource, object, dry_run },
        _ => Request::Patch { key, subresource, patch: object, dry_run },
    })
}

/// The options of a deletion stand in the body; without one, in the query.
fn deletion(call: &Call, body: &[u8]) -> Result<Request, Refusal> {
    let query = &call.query;
    let options = if body.is_empty() {
        json!({"propagationPolicy": query.get("propagationPolicy")})
    } else {
        json_body(body)?
    };
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let propagation = match options["propagationPolicy"].as_str().unwrap_or_default() {
        "" => None,
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        "Orphan" => Some(Propagation::Orphan),
        other => {
            let known = ["Foreground", "Background", "Orphan"].map(Value::from);
            let cause = Cause::unsupported("propagationPolicy", &other.into(), &known);
            return Err(Refusal::invalid_options("DeleteOptions", cause));
        }
    };
    let how = Deletion {
        uid: text(&options["preconditions"]["uid"]),
        resource_version: text(&options["preconditions"]["resourceVersion"]),
        propagation,
        grace_seconds: options["gracePeriodSeconds"].as_i64(),
    };
    let dry_run = if body.is_empty() {
        query.dry_run("DeleteOptions")?
    } else {
        options["dryRun"].as_array().is_some_and(|all| !all.is_empty())
    };
    Ok(Request::Delete { key: call.key(), how, dry_run })
}

/// Code and body for what a write came to.
fn shown(call: &Call, done: &Outcome) -> (u16, Body) {
    let object = |code| (code, Body::whole(done.stored().bytes().clone()));
    match done {
        Outcome::Created(_) => object(201),
        Outcome::Updated(_) | Outcome::Deleting(_) => object(200),
        Outcome::Deleted(_) if call.kind == Kind::Pod => object(200),
        Outcome::Deleted(last) => {
            let mut details = json!({
                "name": call.name, "kind": call.kind.plural(),
                "uid": last.object["metadata"]["uid"],
            });
            if !call.kind.group().is_empty() {
                details["group"] = call.kind.group().into();
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": details,
            });
            (200, Body::whole(to_bytes(&status)))
        }
    }
}
