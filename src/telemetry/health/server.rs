//! The HTTP server of `/livez`, `/readyz` and `/metrics`.
//!
//! Anyone who reaches the port can talk to it, so everything a client can make it hold is bounded:
//! connections, header bytes, headers, and the time one connection may take. Request bodies are
//! never read.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tracing::debug;

use super::Health;
use crate::connections;

/// Connections served at a time: a kubelet's probes, a few scrapers, a person. More wait.
const MAX_CONNECTIONS: usize = 64;
/// A connection has so long in all. Probes time out earlier; it frees places held by idle clients.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// A client has so long to send its request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of request line and headers. Probes send about 200; 8 KiB is the least hyper accepts.
const MAX_HEADER_BYTES: usize = 8192;
/// Headers in a request. Prometheus sends about 10.
const MAX_HEADERS: usize = 64;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// The health server could not start.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The address cannot be used.
    #[error("--health-address {address}: cannot listen there; choose another address or port")]
    Bind {
        /// The address as configured.
        address: SocketAddr,
        /// What the machine said.
        #[source]
        source: std::io::Error,
    },
}

/// Listens on `address`.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, HealthError> {
    TcpListener::bind(address).await.map_err(|source| HealthError::Bind { address, source })
}

/// Serves until dropped; dropping it closes every connection.
pub async fn serve(health: Health, listener: TcpListener) -> Infallible {
    connections::serve(listener, MAX_CONNECTIONS, move |stream| {
        let conversation = converse(health.clone(), stream);
        async move {
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, conversation).await;
        }
    })
    .await
}

/// One connection, one request.
async fn converse(health: Health, stream: TcpStream) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&health, request.method(), request.uri().path());
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .max_header_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%error, "a client of the health server went away");
    }
}

/// The answer to one request.
fn respond(health: &Health, method: &Method, path: &str) -> Response<String> {
    if method != Method::GET && method != Method::HEAD {
        return answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".to_owned());
    }
    match path {
        "/livez" => verdict(&health.why_not_alive()),
        "/readyz" => verdict(&health.why_not_ready()),
        "/metrics" => answer(StatusCode::OK, OPEN_METRICS, health.metrics().encode()),
        _ => {
            let known = "there are /livez, /readyz and /metrics\n".to_owned();
            answer(StatusCode::NOT_FOUND, TEXT, known)
        }
    }
}

fn verdict(why_not: &[String]) -> Response<String> {
    if why_not.is_empty() {
        return answer(StatusCode::OK, TEXT, "ok\n".to_owned());
    }
    answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, why_not.join("\n") + "\n")
}

fn answer(status: StatusCode, kind: HeaderValue, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::Arc};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::{
        telemetry::Metrics,
        time::{LeaseClock, LeaseInstant},
    };

    async fn start() -> (Health, LeaseClock, SocketAddr, tokio::task::JoinHandle<Infallible>) {
        let clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let health = Health::new(clock.clone(), Arc::new(Metrics::new()));
        health.started();
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(health.clone(), listener));
        (health, clock, address, server)
    }

    /// Sends `request` and reads until the server closes the connection.
    async fn exchange(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        // A server that closes with unread bytes resets the connection; what came before counts.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        exchange(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await
    }

    #[tokio::test]
    async fn ready_and_alive_are_separate_and_readiness_names_what_is_missing() {
        let (health, clock, address, _server) = start().await;
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200 OK\r\n"));
        health.missing("fence", "CRD maintenanceschedules.punctual.dev is missing");
        let answer = get(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.ends_with("fence: CRD maintenanceschedules.punctual.dev is missing\n"));
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200 OK\r\n"));
        let _beat = health.expect_loop("elector", Duration::from_secs(1));
        clock.set(LeaseInstant::from_nanos(2_000_000_000));
        let answer = get(address, "/livez").await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("elector: silent"));
    }

    #[tokio::test]
    async fn metrics_unknown_paths_and_other_methods() {
        let (_health, _clock, address, _server) = start().await;
        let answer = get(address, "/metrics").await;
        assert!(answer.contains("application/openmetrics-text"), "{answer}");
        assert!(answer.contains("\npunctual_leader 0\n") && answer.ends_with("# EOF\n"));
        assert!(get(address, "/").await.starts_with("HTTP/1.1 404 "));
        let answer = exchange(address, b"POST /livez HTTP/1.1\r\nContent-Length: 0\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    }

    #[tokio::test]
    async fn oversized_and_malformed_requests_are_refused_and_the_next_is_served() {
        let (_health, _clock, address, _server) = start().await;
        let long = format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024));
        assert!(!exchange(address, long.as_bytes()).await.contains("200 OK"));
        let many = format!("GET /livez HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(500));
        assert!(!exchange(address, many.as_bytes()).await.contains("200 OK"));
        assert!(!exchange(address, b"\x16\x03\x01\x02\x00\x01\r\n\r\n").await.contains("200 OK"));
        assert!(get(address, "/livez").await.contains("200 OK"));
    }

    #[tokio::test]
    async fn idle_clients_lose_their_place_to_those_who_wait() {
        let (_health, _clock, address, _server) = start().await;
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = tokio::time::timeout(CONNECTION_TIMEOUT * 2, get(address, "/livez")).await;
        assert!(answer.unwrap().contains("200 OK"));
    }
}
