//! The connections to the API server.

use std::time::Duration;

use kube::{Client, Config, client::ClientBuilder, config::KubeConfigOptions};
use tokio::time::sleep;

use super::{ApiError, FencedWriter, LeaseApi, Object, ObjectKey, Reader, WriteObserver, kind_of};
use crate::retry::{Policy, delay};

/// Longest wait for a connection of the work and watch clients.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest silence of the socket while the work client waits for an answer; above the deadlines of
/// single calls, so that those decide and this one only frees sockets.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(35);
/// Longest wait to get bytes of a request out.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the API server keeps one watch open. Together with the watcher's margin of 5 s it bounds
/// how long a silently dead connection goes unnoticed; one request a minute a kind costs nothing.
pub(super) const WATCH_SECONDS: u32 = 55;
/// Longest silence on a watch socket: above [`WATCH_SECONDS`] and the watcher's margin.
pub(super) const WATCH_READ_TIMEOUT: Duration = Duration::from_secs(75);

/// Attempts to watch again: an API server that comes back is noticed soon enough, and one that
/// struggles is left alone.
const WATCH_AGAIN: Policy = Policy {
    initial: Duration::from_millis(250),
    max: Duration::from_secs(15),
    jitter_percent: 25,
};

/// The growing pauses between attempts to watch one kind.
pub(super) struct WatchPause {
    kind: &'static str,
    failures: u32,
}

impl WatchPause {
    pub(super) fn of<K: Object>() -> Self {
        Self { kind: kind_of::<K>(), failures: 0 }
    }

    /// One more attempt failed: waits.
    pub(super) async fn wait(&mut self) {
        self.failures = self.failures.saturating_add(1);
        sleep(delay(&WATCH_AGAIN, self.kind, self.failures)).await;
    }
}

/// The connections: for work, for watches, and for the Lease.
///
/// Three, because they need different timeouts, and because a flood of work must not hold up a
/// renewal. None of them retries.
#[derive(Clone)]
pub struct Clients {
    work: Client,
    watch: Client,
    lease: Client,
}

impl Clients {
    /// Connections as `config` describes them. `lease_attempt` is the attempt timeout of the Lease
    /// (see [`crate::authority`]): its socket timeouts stay within it.
    pub fn new(config: &Config, lease_attempt: Duration) -> Result<Self, ApiError> {
        Ok(Self {
            work: build(config, CONNECT_TIMEOUT, READ_TIMEOUT, SEND_TIMEOUT)?,
            watch: build(config, CONNECT_TIMEOUT, WATCH_READ_TIMEOUT, SEND_TIMEOUT)?,
            lease: build(config, lease_attempt, lease_attempt, lease_attempt)?,
        })
    }

    /// A connection on which an answer may be silent for as long as it likes, as logs that are
    /// followed are.
    pub(super) fn patient(config: &Config) -> Result<Client, ApiError> {
        build(config, CONNECT_TIMEOUT, None, SEND_TIMEOUT)
    }

    /// Where the cluster is: `KUBECONFIG`, else `~/.kube/config`, else the pod's account. `context`
    /// names another context than the current one.
    pub async fn configuration(context: Option<&str>) -> Result<Config, ApiError> {
        let options =
            KubeConfigOptions { context: context.map(ToOwned::to_owned), ..Default::default() };
        match Config::from_kubeconfig(&options).await {
            Ok(config) => Ok(config),
            Err(error) => Config::incluster().map_err(|_| ApiError::Unsendable {
                message: format!("no cluster to talk to: {error}"),
            }),
        }
    }

    /// Connections to the cluster of the environment, and the namespace of its context.
    pub async fn connect(lease_attempt: Duration) -> Result<(Self, String), ApiError> {
        let config = Self::configuration(None).await?;
        Ok((Self::new(&config, lease_attempt)?, config.default_namespace))
    }

    /// One given client for everything: for the simulation and for tests, whose service has no
    /// sockets.
    pub fn single(client: Client) -> Self {
        Self { work: client.clone(), watch: client.clone(), lease: client }
    }

    /// Live reads.
    pub fn reader(&self) -> Reader {
        Reader::new(self.work.clone())
    }

    /// The writer; `observer` counts what it does.
    pub fn writer(&self, observer: impl WriteObserver + 'static) -> FencedWriter {
        FencedWriter::new(self.work.clone(), Box::new(observer))
    }

    pub(super) fn work(&self) -> Client {
        self.work.clone()
    }

    /// Access to one Lease; `attempt` is the deadline of each request about it.
    pub fn lease(&self, key: ObjectKey, attempt: Duration) -> LeaseApi {
        LeaseApi::new(self.lease.clone(), self.watch.clone(), key, attempt)
    }

    pub(super) fn watch(&self) -> Client {
        self.watch.clone()
    }
}

fn build(
    config: &Config,
    connect: Duration,
    read: impl Into<Option<Duration>>,
    send: Duration,
) -> Result<Client, ApiError> {
    let mut config = config.clone();
    config.default_retry = false; // a retried write is a blind resend
    config.connect_timeout = Some(connect);
    config.read_timeout = read.into();
    config.write_timeout = Some(send);
    config.reset_reader_on_write = true; // time a pooled connection idled does not count
    Ok(ClientBuilder::try_from(config)?.build())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        time::timeout,
    };

    use super::*;

    #[tokio::test]
    async fn clients_are_built_without_touching_the_network() {
        let config = Config::new("https://127.0.0.1:1".parse().unwrap());
        assert!(Clients::new(&config, Duration::from_millis(1400)).is_ok());
    }

    /// A server that hands each connection to `answer` and counts them, and a configuration for it.
    async fn server(answer: &'static [u8]) -> (Config, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config =
            Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = socket.read(&mut request).await;
                counted.fetch_add(1, Ordering::SeqCst);
                match answer {
                    [] => silent.push(socket),
                    answer => drop(socket.write_all(answer).await),
                }
            }
        });
        (config, requests)
    }

    fn get() -> http::Request<Vec<u8>> {
        http::Request::get("/version").body(Vec::new()).unwrap()
    }

    #[tokio::test]
    async fn no_connection_repeats_a_request_by_itself() {
        let busy =
            b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let (config, requests) = server(busy).await;
        let clients = Clients::new(&config, Duration::from_millis(1400)).unwrap();
        for (number, client) in [clients.work, clients.watch, clients.lease].iter().enumerate() {
            let ended = timeout(Duration::from_secs(10), client.request_text(get())).await;
            assert_eq!(requests.load(Ordering::SeqCst), number + 1);
            ended.expect("it is answered once").unwrap_err();
        }
    }

    #[tokio::test]
    async fn the_lease_connection_waits_no_longer_than_one_attempt() {
        let (config, _requests) = server(b"").await;
        let clients = Clients::new(&config, Duration::from_millis(200)).unwrap();
        // Far above the attempt, far below the other connections' patience.
        let ended = timeout(Duration::from_secs(10), clients.lease.request_text(get())).await;
        ended.expect("the socket gives up by itself").unwrap_err();
    }

    #[test]
    fn a_quiet_watch_outlives_the_servers_timeout() {
        let watcher_margin = 5;
        assert!(WATCH_READ_TIMEOUT.as_secs() > u64::from(WATCH_SECONDS) + watcher_margin);
    }
}
