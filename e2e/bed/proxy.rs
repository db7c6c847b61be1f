//! A proxy between one replica and the API server that can hold, lose, delay and cut.
//!
//! The replica speaks TLS to the proxy (its kubeconfig trusts the proxy's authority); the proxy
//! speaks TLS to the API server and passes the bearer token on. It sees each request and can hold
//! one particular write: until it is let go before it reaches the API server, or until its answer is
//! let go after it was committed. A held write goes on by itself: that the replica gave up, froze or
//! died meanwhile changes nothing, as with a packet that is already on its way.

use std::{
    convert::Infallible,
    fmt,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _};
use http_body_util::{
    BodyExt as _, BodyStream, Full, Limited, StreamBody, combinators::UnsyncBoxBody,
};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body, config::AuthInfo};
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

use super::{
    Bed,
    error::{BedError, Context as _, Result},
    kubeconfig::Server,
    pki::Authority,
};

/// The API server refuses larger objects anyway.
const MAX_BODY: usize = 8 << 20;

/// What becomes of all traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    /// Packets vanish: nothing is answered, nothing is closed.
    Blackhole,
    /// Connections are reset and new ones refused.
    Cut,
}

/// A write as the proxy saw it.
#[derive(Clone, Debug)]
pub struct SeenWrite {
    /// Counts the writes of this proxy from 1.
    pub number: u64,
    /// `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: Method,
    /// Path without query.
    pub path: String,
    /// Query, empty if there is none.
    pub query: String,
    /// Body; null if it is no JSON.
    pub body: Value,
}

impl SeenWrite {
    /// Whether it is a dry run, which commits nothing.
    pub fn dry_run(&self) -> bool {
        self.query.contains("dryRun=")
    }

    /// Whether it is about the Lease.
    pub fn is_lease(&self) -> bool {
        self.path.contains("/leases")
    }

    /// Whether it is an event.
    pub fn is_event(&self) -> bool {
        self.path.contains("/events")
    }
}

/// The API server's answer to a write.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// Body; null if it is no JSON.
    pub body: Value,
}

/// Chooses writes.
#[derive(Clone)]
pub struct Which(Arc<dyn Fn(&SeenWrite) -> bool + Send + Sync>);

impl Which {
    /// Those for which `choose` is true.
    pub fn new(choose: impl Fn(&SeenWrite) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }

    /// Writes that decide something: no Lease, no event, no dry run.
    pub fn decisions() -> Self {
        Self::new(|write| !write.is_lease() && !write.is_event() && !write.dry_run())
    }

    /// Decisions with this method on a path that contains `part`, for example `PUT` and
    /// `/maintenanceoccurrences/nightly-202611290200/status`.
    pub fn on(method: Method, part: &str) -> Self {
        let part = part.to_owned();
        Self::new(move |write| {
            write.method == method && write.path.contains(&part) && !write.dry_run()
        })
    }
}

impl fmt::Debug for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Which(..)")
    }
}

/// What happens to the chosen write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// It waits in front of the API server until it is released.
    Hold,
    /// It is committed, its answer waits until it is released.
    HoldAnswer,
    /// It is committed, its answer is lost and the connection closed.
    DropAnswer,
    /// It is committed, its answer is lost and all traffic is cut.
    CutAfter,
}

struct Rule {
    which: Which,
    action: Action,
    /// How many more matching writes pass before it fires; it fires once.
    remaining: Mutex<usize>,
    reached: watch::Sender<Option<SeenWrite>>,
    released: watch::Sender<bool>,
    answered: watch::Sender<Option<std::result::Result<Answer, String>>>,
}

impl Rule {
    /// Whether this write is the one; counts it if it matches.
    fn fires(&self, write: &SeenWrite) -> bool {
        if !(self.which.0)(write) {
            return false;
        }
        let mut remaining = self.remaining.lock().expect("no holder panics");
        *remaining = remaining.wrapping_sub(1);
        *remaining == 0
    }

    async fn wait_released(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.released.subscribe().wait_for(|released| *released).await;
    }
}

/// The chosen write, from the test's side.
pub struct Held {
    rule: Arc<Rule>,
}

impl Held {
    /// Waits until the write has come, and, for the actions after the commit, is committed.
    pub async fn reached(&self, within: Duration) -> Result<SeenWrite> {
        let mut reached = self.rule.reached.subscribe();
        match tokio::time::timeout(within, reached.wait_for(Option::is_some)).await {
            Ok(Ok(write)) => Ok(write.clone().expect("awaited to be there")),
            _ => Err(BedError(format!("the write did not come within {within:?}"))),
        }
    }

    /// Lets it (or its answer) go.
    pub fn release(&self) {
        self.rule.released.send_replace(true);
    }

    /// The API server's answer, once there is one.
    pub async fn answer(&self, within: Duration) -> Result<Answer> {
        let mut answered = self.rule.answered.subscribe();
        match tokio::time::timeout(within, answered.wait_for(Option::is_some)).await {
            Ok(Ok(answer)) => answer.clone().expect("awaited to be there").map_err(BedError),
            _ => Err(BedError(format!("no answer to the write within {within:?}"))),
        }
    }
}

struct Shared {
    upstream: Client,
    mode: watch::Sender<Mode>,
    delay: watch::Sender<Duration>,
    rules: Mutex<Vec<Arc<Rule>>>,
    writes: Mutex<Vec<(SeenWrite, Option<StatusCode>)>>,
    count: AtomicU64,
}

/// A running proxy; its connections end when it is dropped.
pub struct Proxy {
    server: Server,
    shared: Arc<Shared>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.mode.send_replace(Mode::Cut);
    }
}

impl Proxy {
    /// Starts one in front of the bed's API server; its authority's file goes to `dir`.
    pub async fn start(bed: &Bed, dir: &Path) -> Result<Self> {
        let mut config = bed.config.clone();
        // The replica's own token goes through; the proxy has no rights.
        config.auth_info = AuthInfo::default();
        // The replica decides how long it waits, and watches are silent for minutes.
        config.read_timeout = None;
        config.write_timeout = None;
        let upstream = Client::try_from(config).context(|| "make the proxy's client".to_owned())?;
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).await.context(|| "bind the proxy".to_owned())?;
        let port = listener.local_addr().context(|| "ask for the proxy's port".to_owned())?.port();
        let authority = Authority::new("punctual-e2e-proxy-ca")?;
        let path = dir.join(format!("proxy-{port}-ca.crt"));
        std::fs::write(&path, authority.pem()).context(|| format!("write {}", path.display()))?;
        let acceptor = acceptor(&authority)?;
        let shared = Arc::new(Shared {
            upstream,
            mode: watch::Sender::new(Mode::Pass),
            delay: watch::Sender::new(Duration::ZERO),
            rules: Mutex::new(Vec::new()),
            writes: Mutex::new(Vec::new()),
            count: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, acceptor, shared.clone()));
        let server = Server { url: format!("https://127.0.0.1:{port}"), authority: path };
        Ok(Self { server, shared, accepting })
    }

    /// Where a replica finds it; for `ReplicaOptions::through`.
    pub fn server(&self) -> Server {
        self.server.clone()
    }

    fn rule(&self, which: Which, nth: usize, action: Action) -> Held {
        let rule = Arc::new(Rule {
            which,
            action,
            remaining: Mutex::new(nth),
            reached: watch::Sender::new(None),
            released: watch::Sender::new(false),
            answered: watch::Sender::new(None),
        });
        self.shared.rules.lock().expect("no holder panics").push(rule.clone());
        Held { rule }
    }

    /// Holds the `nth` (from 1) of the chosen writes in front of the API server.
    pub fn hold(&self, which: Which, nth: usize) -> Held {
        self.rule(which, nth, Action::Hold)
    }

    /// Holds the answer to the `nth` of the chosen writes that are committed.
    pub fn hold_answer(&self, which: Which, nth: usize) -> Held {
        self.rule(which, nth, Action::HoldAnswer)
    }

    /// Loses the answer to the `nth` of the chosen writes that are committed.
    pub fn drop_answer(&self, which: Which, nth: usize) -> Held {
        self.rule(which, nth, Action::DropAnswer)
    }

    /// The same, and cuts all traffic with it.
    pub fn cut_after(&self, which: Which, nth: usize) -> Held {
        self.rule(which, nth, Action::CutAfter)
    }

    /// Delays each request from now on.
    pub fn delay(&self, by: Duration) {
        self.shared.delay.send_replace(by);
    }

    /// Lets nothing through in either direction, and closes nothing.
    pub fn blackhole(&self) {
        self.shared.mode.send_replace(Mode::Blackhole);
    }

    /// Resets all connections and refuses new ones.
    pub fn cut(&self) {
        self.shared.mode.send_replace(Mode::Cut);
    }

    /// Lets everything through again; what a blackhole kept goes on.
    pub fn resume(&self) {
        self.shared.mode.send_replace(Mode::Pass);
    }

    /// All writes so far with the status of their answers (none: no answer yet).
    pub fn writes(&self) -> Vec<(SeenWrite, Option<StatusCode>)> {
        self.shared.writes.lock().expect("no holder panics").clone()
    }
}

pub(super) fn acceptor(authority: &Authority) -> Result<TlsAcceptor> {
    let identity = authority.server(&["localhost", "127.0.0.1"])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key_der));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context(|| "choose TLS versions".to_owned())?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(identity.certificate_der)], key)
        .context(|| "use the proxy's certificate".to_owned())?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        let shared = shared.clone();
        tokio::spawn(async move {
            let mut mode = shared.mode.subscribe();
            tokio::select! {
                // Dropping the connection closes it.
                _ = mode.wait_for(|mode| *mode == Mode::Cut) => {}
                () = serve(stream, acceptor, shared.clone()) => {}
            }
        });
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    shared.gate().await;
    // A replica that hangs up is a case under test, not an error here.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request| handle(shared.clone(), request));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("closed by the proxy")]
struct Closed;

type Out = UnsyncBoxBody<Bytes, kube::Error>;

async fn handle(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> std::result::Result<Response<Out>, Closed> {
    shared.gate().await;
    let delay = *shared.delay.borrow();
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        let answer =
            shared.upstream.send(request.map(|_| Body::empty())).await.map_err(|_| Closed)?;
        return Ok(answer.map(|body| gated(shared, body)));
    }
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(|_| Closed)?.to_bytes();
    let (report, reported) = oneshot::channel();
    // In a task of its own: it must reach the API server even if the replica has hung up.
    tokio::spawn(async move {
        // Nobody waits if the replica has hung up.
        let _ = report.send(forward_write(&shared, parts, body).await);
    });
    reported.await.map_err(|_| Closed)?
}

/// A streamed body (a watch, mostly) that stands still while the proxy is a blackhole.
fn gated(shared: Arc<Shared>, body: Body) -> Out {
    let frames = BodyStream::new(body).then(move |frame| {
        let shared = shared.clone();
        async move {
            shared.gate().await;
            frame
        }
    });
    StreamBody::new(frames.map_err(|error: kube::Error| error)).boxed_unsync()
}

async fn forward_write(
    shared: &Shared,
    parts: http::request::Parts,
    body: Bytes,
) -> std::result::Result<Response<Out>, Closed> {
    let write = SeenWrite {
        number: shared.count.fetch_add(1, Ordering::Relaxed) + 1,
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    shared.writes.lock().expect("no holder panics").push((write.clone(), None));
    let held = shared.fired(&write, |action| action == Action::Hold);
    if let Some(rule) = &held {
        rule.reached.send_replace(Some(write.clone()));
        rule.wait_released().await;
    }
    let (answered, bytes) = match send(shared, parts, body).await {
        Ok(answer) => answer,
        Err(error) => {
            if let Some(rule) = held {
                rule.answered.send_replace(Some(Err(error.to_string())));
            }
            return Err(Closed);
        }
    };
    let seen = Answer {
        status: answered.status,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    };
    shared.answered(&write, seen.status);
    let after = seen
        .status
        .is_success()
        .then(|| shared.fired(&write, |action| action != Action::Hold))
        .flatten();
    for rule in held.iter().chain(&after) {
        rule.answered.send_replace(Some(Ok(seen.clone())));
    }
    if let Some(rule) = after {
        rule.reached.send_replace(Some(write));
        match rule.action {
            Action::DropAnswer => return Err(Closed),
            Action::CutAfter => {
                shared.mode.send_replace(Mode::Cut);
                return Err(Closed);
            }
            Action::HoldAnswer | Action::Hold => rule.wait_released().await,
        }
    }
    shared.gate().await;
    let body = Full::new(bytes).map_err(|never: Infallible| match never {}).boxed_unsync();
    Ok(Response::from_parts(answered, body))
}

async fn send(
    shared: &Shared,
    parts: http::request::Parts,
    body: Bytes,
) -> std::result::Result<(http::response::Parts, Bytes), kube::Error> {
    let request = Request::from_parts(parts, Body::from(body.to_vec()));
    let (head, body) = shared.upstream.send(request).await?.into_parts();
    Ok((head, body.collect_bytes().await?))
}

impl Shared {
    /// Waits while the proxy is a blackhole.
    async fn gate(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.mode.subscribe().wait_for(|mode| *mode != Mode::Blackhole).await;
    }

    /// The rule of the wanted kind that this write makes fire. Every such rule counts it.
    fn fired(&self, write: &SeenWrite, wanted: impl Fn(Action) -> bool) -> Option<Arc<Rule>> {
        let rules = self.rules.lock().expect("no holder panics");
        rules
            .iter()
            .filter(|rule| wanted(rule.action))
            .filter(|rule| rule.fires(write))
            .last()
            .cloned()
    }

    fn answered(&self, write: &SeenWrite, status: StatusCode) {
        let mut writes = self.writes.lock().expect("no holder panics");
        if let Some((_, answer)) = writes.iter_mut().find(|(seen, _)| seen.number == write.number) {
            *answer = Some(status);
        }
    }
}
