//! Sends requests: the sockets of the provider `http`.
//!
//! Every address that a name resolves to is checked before a connection is made to it, and it is that
//! very address that is connected to, so a name that resolves to something else a moment later gains
//! nothing. No proxy, no redirect, no cookie, no request sent twice.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tower::Service;

use super::address::{is_local, is_many};
use crate::api::truncate;

/// Longest time to connect to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time from a request to the whole of its answer, connecting included. Below the 60 s after
/// which nobody waits any more, so that a slow service is asked several times.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
/// Most bytes of an answer: a run with its result has less than 12 KiB.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Most bytes of a status line and headers.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;
/// Idle connections kept to one service; more are opened when there is more to ask.
const MAX_IDLE: usize = 8;
/// How long an idle connection is kept: a running run is asked about every 2 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// Sets of connections, one for each TLS identity. One that is forgotten connects anew.
const MAX_POOLS: usize = 64;
/// Most characters of a cause that a sentence repeats.
const MAX_CAUSE: usize = 300;

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It was not sent, and never will be.
    #[error("{0}")]
    Refused(String),
    /// The service could not be reached, or did not answer in time.
    #[error("{0}")]
    NotReached(String),
    /// The service was reached, and its answer did not come whole.
    #[error("{0}")]
    Broken(String),
}

/// Own certificate, and whom to trust; PEM.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tls {
    /// Certificates of those who may have signed the service's; else those the machine trusts.
    pub authority: Option<Vec<u8>>,
    /// Own certificate chain and key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Sends one request.
pub trait Transport: Send + Sync {
    /// Sends it once and gives its whole answer.
    fn send<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        tls: &'a Tls,
    ) -> BoxFuture<'a, Result<Response<Vec<u8>>, SendError>>;
}

type Pool = legacy::Client<HttpsConnector<Guarded>, Full<Bytes>>;

/// The network.
pub struct Network {
    allow_local: bool,
    pools: Mutex<BTreeMap<Tls, Pool>>,
}

impl Network {
    /// Connections; to this machine and its link only if `allow_local`.
    pub fn new(allow_local: bool) -> Self {
        Self { allow_local, pools: Mutex::default() }
    }

    fn pool(&self, tls: &Tls) -> Result<Pool, SendError> {
        // Every change is one insertion or removal.
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(tls) {
            return Ok(pool.clone());
        }
        let config = configuration(tls).map_err(SendError::Refused)?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Guarded { allow_local: self.allow_local });
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE)
            .http1_max_buf_size(MAX_HEADER_BYTES)
            .retry_canceled_requests(false) // nothing is sent twice
            .build(connector);
        if pools.len() >= MAX_POOLS {
            pools.pop_first();
        }
        pools.insert(tls.clone(), pool.clone());
        Ok(pool)
    }

    async fn exchange(
        &self,
        request: Request<Vec<u8>>,
        tls: &Tls,
    ) -> Result<Response<Vec<u8>>, SendError> {
        let pool = self.pool(tls)?;
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let answer = pool.request(request).await.map_err(|error| {
            let why = sentence(&error);
            match refusal(&error) {
                Some(refused) => SendError::Refused(refused),
                None if error.is_connect() => SendError::NotReached(why),
                None => SendError::Broken(why),
            }
        })?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(|error| {
            SendError::Broken(format!("its answer broke off or is too long: {error}"))
        })?;
        Ok(Response::from_parts(parts, body.to_bytes().to_vec()))
    }
}

impl Transport for Network {
    fn send<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        tls: &'a Tls,
    ) -> BoxFuture<'a, Result<Response<Vec<u8>>, SendError>> {
        Box::pin(async move {
            let late = || format!("no answer within {} s", ANSWER_TIMEOUT.as_secs());
            let answer = timeout(ANSWER_TIMEOUT, self.exchange(request, tls)).await;
            answer.unwrap_or_else(|_| Err(SendError::NotReached(late())))
        })
    }
}

/// Whom to trust and what to show.
fn configuration(tls: &Tls) -> Result<ClientConfig, String> {
    let of = "run.http.credentialsSecretRef";
    let mut roots = RootCertStore::empty();
    match &tls.authority {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let added = certificate.ok().map(|certificate| roots.add(certificate));
                if !matches!(added, Some(Ok(()))) {
                    return Err(format!(
                        "{of}: ca.crt has something that is no certificate in PEM"
                    ));
                }
            }
            if roots.is_empty() {
                return Err(format!("{of}: ca.crt has no certificate in PEM"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = &tls.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|_| format!("{of}: tls.crt is no certificate in PEM"))?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| format!("{of}: tls.key is no private key in PEM"))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|_| format!("{of}: tls.key is not the key of tls.crt"))
}

/// Connects to addresses that were checked, and to no other.
#[derive(Clone, Debug)]
struct Guarded {
    allow_local: bool,
}

/// An address that is not called.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Forbidden(String);

impl Service<Uri> for Guarded {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let allow_local = self.allow_local;
        Box::pin(async move { connect(&uri, allow_local).await.map(TokioIo::new) })
    }
}

async fn connect(uri: &Uri, allow_local: bool) -> io::Result<TcpStream> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(443);
    let found: Vec<SocketAddr> = timeout(CONNECT_TIMEOUT, lookup_host((host, port)))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the name was not resolved in time"))??
        .take(MAX_ADDRESSES)
        .collect();
    // One forbidden address is enough: the others may be bait.
    if let Some(why) = found.iter().find_map(|found| forbidden(host, *found, allow_local)) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, Forbidden(why)));
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in found {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "no connection in time"),
        }
    }
    Err(last)
}

/// Why an address is not called.
fn forbidden(host: &str, address: SocketAddr, allow_local: bool) -> Option<String> {
    let of = truncate(host, 100);
    if is_many(address.ip()) {
        return Some(format!("run.http.url: {of} is an address of many machines; use one of one"));
    }
    (is_local(address.ip()) && !allow_local).then(|| {
        format!(
            "run.http.url: {of} is a loopback or link-local address; use another, or start the \
             operator with --allow-local-providers"
        )
    })
}

/// The words of a refusal among the causes of an error.
fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(forbidden) = inner.and_then(|inner| inner.downcast_ref::<Forbidden>()) {
            return Some(forbidden.0.clone());
        }
        cause = error.source();
    }
    None
}

/// An error and its causes as one sentence.
fn sentence(error: &dyn std::error::Error) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        sentence = format!("{sentence}: {error}");
        cause = error.source();
    }
    truncate(&sentence, MAX_CAUSE)
}
