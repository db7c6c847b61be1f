//! The sockets of the reference service.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    time::sleep,
};

use super::service::{self, MAX_BODY_BYTES, Reaction, Service};
use crate::{connections, providers::http::EPOCH_HEADER};

/// Connections served at a time: a few replicas with a few connections each. More wait.
const MAX_CONNECTIONS: usize = 256;
/// A client has so long to send the headers of its next request; idle connections end with it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// What ends the process in the fault `crash`.
pub type Crash = Arc<dyn Fn() + Send + Sync>;

/// No answer is given: the connection ends.
#[derive(Debug)]
struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed without an answer")
    }
}

impl std::error::Error for Closed {}

/// Serves until dropped.
pub async fn serve(service: Arc<Service>, listener: TcpListener, crash: Crash) -> Infallible {
    connections::serve(listener, MAX_CONNECTIONS, move |stream| {
        converse(Arc::clone(&service), stream, Arc::clone(&crash))
    })
    .await
}

/// One connection.
pub async fn converse<S>(service: Arc<Service>, stream: S, crash: Crash)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let answer = service_fn(move |request| respond(Arc::clone(&service), request, crash.clone()));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn respond(
    service: Arc<Service>,
    request: Request<Incoming>,
    crash: Crash,
) -> Result<Response<Full<Bytes>>, Closed> {
    let (parts, body) = request.into_parts();
    let header = |name: &str| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let body = Limited::new(body, MAX_BODY_BYTES).collect().await.map_err(|_| Closed)?;
    let request = service::Request {
        epoch: header(EPOCH_HEADER),
        authorization: header(AUTHORIZATION.as_str()),
        path: parts.uri.path().to_owned(),
        method: parts.method,
        body: body.to_bytes().to_vec(),
    };
    match service.react(&request) {
        Reaction::Unreachable | Reaction::Lost => Err(Closed),
        Reaction::Crash => {
            crash();
            Err(Closed)
        }
        Reaction::Answer { after, code, body } => {
            if !after.is_zero() {
                sleep(after).await;
            }
            let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            Ok(response)
        }
    }
}
