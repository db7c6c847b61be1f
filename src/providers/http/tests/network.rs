//! The sockets: the client against the reference service on a loopback port.

use std::net::SocketAddr;

use http::Request;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, rustls};

use super::*;
use crate::fakeprovider::{server, service::Service};

struct Server {
    address: SocketAddr,
    file: std::path::PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.file);
    }
}

fn service(name: &str, token: Option<&str>) -> (std::path::PathBuf, Arc<Service>) {
    let file = std::env::temp_dir().join(format!("punctual-net-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let clock = WallClock::driven(START.parse().unwrap());
    let token = token.map(str::to_owned);
    let opened = Service::open(&file, clock, Habits::default(), token).unwrap();
    (file, Arc::new(opened))
}

async fn plain(name: &str) -> (Server, Arc<Service>) {
    let (file, service) = service(name, None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = Arc::clone(&service);
    let task =
        tokio::spawn(
            async move { match server::serve(served, listener, Arc::new(|| {})).await {} },
        );
    (Server { address, file, task }, service)
}

/// A server that answers every request with these bytes, and counts them.
async fn raw(answer: Vec<u8>) -> (SocketAddr, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        let mut silent = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = socket.read(&mut request).await;
            *counted.lock().unwrap() += 1;
            if answer.is_empty() {
                silent.push(socket);
            } else {
                let _ = socket.write_all(&answer).await;
            }
        }
    });
    (address, count)
}

fn get(address: &str) -> Request<Vec<u8>> {
    Request::get(format!("{address}/capabilities")).header(EPOCH_HEADER, 7).body(vec![]).unwrap()
}

async fn send(network: &Network, request: Request<Vec<u8>>) -> Result<u16, SendError> {
    network.send(request, &Tls::default()).await.map(|answer| answer.status().as_u16())
}

/// The base address of the reference service has no path, the documents of the tests have one.
struct WithoutPath(Network);

impl Transport for WithoutPath {
    fn send<'a>(
        &'a self,
        mut request: Request<Vec<u8>>,
        tls: &'a Tls,
    ) -> futures::future::BoxFuture<'a, Result<http::Response<Vec<u8>>, SendError>> {
        let uri = request.uri().to_string().replacen("/v1/", "/", 1);
        *request.uri_mut() = uri.parse().unwrap();
        self.0.send(request, tls)
    }
}

#[tokio::test]
async fn what_goes_over_the_wire_keeps_to_the_contract() {
    let (server, service) = plain("wire").await;
    let scene = Scene::new();
    let reader = Clients::single(scene.fake.client()).reader();
    let held = Held::new(WithoutPath(Network::new(true)));
    let operations = Arc::clone(&held.operations);
    let metrics = Arc::new(Metrics::new());
    let (lease, counted) = (scene.lease.clone(), Arc::clone(&metrics));
    let provider = HttpProvider::new(reader, Arc::new(held), lease, counted);
    let request = of(&json!({"http": {"url": format!("http://{}/v1", server.address)}}));
    let permit = scene.permit();
    assert_eq!(provider.accept(&request).await, Acceptance::Accepted);
    let Ok(Prepared::Ready { handle }) = provider.prepare(&permit, &request).await else {
        panic!("not ready")
    };
    provider.release(&permit, &request, &handle).await.unwrap();
    let known = Committed { handle: Some(handle), ..Committed::default() };
    assert_eq!(word(&provider.status(&request, &known).await.unwrap()), "Running");
    service.arm("lost-response,times=1".parse().unwrap()).unwrap();
    let lost = provider.status(&request, &known).await;
    assert!(matches!(lost, Err(ProviderError::Unreachable(_))), "{lost:?}");
    provider.cancel(&permit, &request, &stopping(&known), false).await.unwrap();
    assert_eq!(provider.status(&request, &known).await, Ok(RunStatus::Absent));
    let seen: Vec<String> = operations.lock().unwrap().iter().map(|o| o.0.clone()).collect();
    for operation in ["capabilities", "putRun", "releaseRun", "getRun", "deleteRun"] {
        assert!(seen.iter().any(|name| name == operation), "{operation}: {seen:?}");
    }
    assert_eq!(service.audit()["runs"][&request.run_key]["starts"], 1);
    let counted = metrics.encode();
    for line in [
        "{method=\"PUT\",result=\"ok\"} 1",
        "{method=\"POST\",result=\"ok\"} 1",
        "{method=\"GET\",result=\"broken\"} 1",
        "{method=\"DELETE\",result=\"ok\"} 1",
    ] {
        let line = format!("punctual_service_requests_total{line}");
        assert!(counted.lines().any(|counted| counted == line), "{line} is not in\n{counted}");
    }
}

#[tokio::test]
async fn this_machine_and_its_link_are_not_called_unless_that_is_allowed() {
    let (server, _) = plain("local").await;
    let port = server.address.port();
    let careful = Network::new(false);
    for host in
        ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "169.254.169.254", "127.1", "2130706433"]
    {
        let refused = send(&careful, get(&format!("http://{host}:{port}"))).await;
        match refused {
            Err(SendError::Refused(why)) => {
                assert!(
                    why.contains("--allow-local-providers") && why.contains("run.http.url"),
                    "{why}"
                );
            }
            // A machine without IPv6, or whose resolver takes no such spelling: not called either.
            Err(SendError::NotReached(_)) if host != "127.0.0.1" && host != "169.254.169.254" => {}
            other => panic!("{host}: {other:?}"),
        }
    }
    let many = send(&Network::new(true), get("http://224.0.0.1:80")).await;
    assert!(matches!(many, Err(SendError::Refused(_))), "{many:?}");
    let allowed = send(&Network::new(true), get(&format!("http://127.0.0.1:{port}"))).await;
    assert_eq!(allowed, Ok(200));
}

#[tokio::test]
async fn redirects_are_not_followed_and_nothing_is_sent_twice() {
    let (target, reached) = raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec()).await;
    let location = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{target}/\r\ncontent-length: 0\r\n\r\n"
    );
    let (moved, asked) = raw(location.into_bytes()).await;
    let network = Network::new(true);
    assert_eq!(send(&network, get(&format!("http://{moved}"))).await, Ok(307));
    assert_eq!((*asked.lock().unwrap(), *reached.lock().unwrap()), (1, 0));
    let (busy, asked) =
        raw(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()).await;
    assert_eq!(send(&network, get(&format!("http://{busy}"))).await, Ok(503));
    assert_eq!(*asked.lock().unwrap(), 1);
    let (rude, asked) = raw(b"\r\n".to_vec()).await;
    let broken = send(&network, get(&format!("http://{rude}"))).await;
    assert!(matches!(broken, Err(SendError::Broken(_))), "{broken:?}");
    assert_eq!(*asked.lock().unwrap(), 1);
}

#[tokio::test]
async fn answers_are_bounded() {
    let network = Network::new(true);
    let long = "x".repeat(100_000);
    let body = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len());
    let (server, _) = raw(body.into_bytes()).await;
    let broken = send(&network, get(&format!("http://{server}"))).await;
    assert!(matches!(broken, Err(SendError::Broken(_))), "{broken:?}");
    let (server, _) = raw(format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n").into_bytes()).await;
    let broken = send(&network, get(&format!("http://{server}"))).await;
    assert!(matches!(broken, Err(SendError::Broken(_))), "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_says_nothing_is_not_waited_for() {
    let (server, _) = raw(Vec::new()).await;
    let began = tokio::time::Instant::now();
    let late = send(&Network::new(true), get(&format!("http://{server}"))).await;
    assert!(
        matches!(&late, Err(SendError::NotReached(why)) if why.contains("within 8 s")),
        "{late:?}"
    );
    assert!(began.elapsed() <= ANSWER_TIMEOUT + Duration::from_secs(1));
}

#[tokio::test]
async fn nobody_at_the_address_is_not_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let nobody = send(&Network::new(true), get(&format!("http://{address}"))).await;
    assert!(matches!(nobody, Err(SendError::NotReached(_))), "{nobody:?}");
}

/// A certificate authority, and a certificate of it for `name`, as PEM and as rustls takes them.
struct Pki {
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { authority: CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    fn pem(&self) -> Vec<u8> {
        self.authority.pem().into_bytes()
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.authority).unwrap(), key)
    }
}

#[tokio::test]
async fn tls_needs_a_trusted_name_and_shows_the_certificate_of_the_secret() {
    let (pki, stranger) = (Pki::new(), Pki::new());
    let (certificate, key) = pki.issue("127.0.0.1");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pki.authority.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::clone(&provider),
    );
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (file, service) = service("tls", Some("secret"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, service) = (acceptor.clone(), Arc::clone(&service));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    server::converse(service, stream, Arc::new(|| {})).await;
                }
            });
        }
    });
    let server = Server { address, file, task };

    let (own, own_key) = pki.issue("operator");
    let identity = Some((own.pem().into_bytes(), own_key.serialize_pem().into_bytes()));
    let network = Network::new(true);
    let ask = async |tls: Tls, token: &str| {
        let mut request = get(&format!("https://{}", server.address));
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, value);
        network.send(request, &tls).await.map(|answer| answer.status().as_u16())
    };
    let good = Tls { authority: Some(pki.pem()), identity: identity.clone() };
    assert_eq!(ask(good.clone(), "secret").await, Ok(200));
    assert_eq!(ask(good.clone(), "wrong").await, Ok(401));
    for (description, tls) in [
        ("an authority that nobody named", Tls { authority: None, ..good.clone() }),
        ("another authority", Tls { authority: Some(stranger.pem()), ..good.clone() }),
        ("no own certificate", Tls { identity: None, ..good.clone() }),
    ] {
        let failed = ask(tls, "secret").await;
        assert!(
            matches!(failed, Err(SendError::NotReached(_) | SendError::Broken(_))),
            "{description}: {failed:?}"
        );
    }
    for (tls, part) in [
        (Tls { authority: Some(b"nothing".to_vec()), identity: None }, "ca.crt"),
        (Tls { identity: Some((b"x".to_vec(), b"y".to_vec())), ..good.clone() }, "tls."),
    ] {
        match ask(tls, "secret").await {
            Err(SendError::Refused(why)) => {
                assert!(why.contains(part) && why.contains("credentialsSecretRef"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}
