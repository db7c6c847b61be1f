//! Replicas of the operator: real processes with the chart's rights, to freeze, kill and cut off.

use std::{
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Mutex,
};

use super::{
    error::{BedError, Context as _, Result},
    kubeconfig::{self, Credentials, Server},
    ports,
    processes::{Process, Spec},
    run::progress,
    wait,
};

/// How a replica differs from the usual one.
#[derive(Clone, Debug, Default)]
pub struct ReplicaOptions {
    /// Duration of the Lease; default [`LEASE_DURATION`].
    pub lease_duration: Option<Duration>,
    /// Where it reaches the API server; default: directly.
    pub through: Option<Server>,
    /// Further arguments of `punctual run`.
    pub args: Vec<String>,
    /// Further environment.
    pub env: Vec<(String, String)>,
}

/// Short, so that a failover takes seconds; long enough that a renewal on a busy machine with two
/// cores has time for its answer.
pub const LEASE_DURATION: Duration = Duration::from_secs(6);

/// Pause before a replica that ended by itself is started again.
const START_AGAIN: Duration = Duration::from_secs(1);
/// Exit code of bad usage, which no second start makes better.
const BAD_USAGE: i32 = 2;

/// Everything that a replica is started with.
pub struct Launch<'a> {
    /// Its name: `POD_NAME`, and part of the Lease's holder.
    pub name: &'a str,
    /// Namespace whose objects it decides about.
    pub namespace: &'a str,
    /// Namespace and name of its Lease.
    pub lease: (&'a str, &'a str),
    /// Where the API server is.
    pub server: &'a Server,
    /// Token of its account.
    pub token: &'a str,
    /// Folder for its kubeconfig and log.
    pub dir: &'a Path,
}

/// The arguments of `punctual run`: the one place that knows them.
fn arguments(launch: &Launch, options: &ReplicaOptions, health_port: u16) -> Vec<String> {
    let duration = options.lease_duration.unwrap_or(LEASE_DURATION);
    let mut args = vec![
        "run".to_owned(),
        format!("--lease-namespace={}", launch.lease.0),
        format!("--lease-name={}", launch.lease.1),
        format!("--lease-duration={}s", duration.as_secs()),
        format!("--watch-namespace={}", launch.namespace),
        format!("--health-address=127.0.0.1:{health_port}"),
    ];
    args.extend(options.args.iter().cloned());
    args
}

/// One replica. As a Pod's container it is started again when it ends by itself: on a busy machine
/// a leader may lose a short Lease at any time. Killed or asked to end it stays down.
pub struct Replica {
    /// Its name.
    pub name: String,
    process: Arc<Process>,
    health_port: u16,
    /// Whether it is to run; held while it is ended or started.
    wanted: Arc<Mutex<bool>>,
}

impl Replica {
    /// Starts one.
    pub fn start(launch: &Launch, options: &ReplicaOptions) -> Result<Self> {
        let kubeconfig = launch.dir.join(format!("{}.kubeconfig", launch.name));
        let server = options.through.as_ref().unwrap_or(launch.server);
        kubeconfig::write(
            &kubeconfig,
            server,
            &Credentials::Token(launch.token),
            launch.namespace,
        )?;
        let health_port = ports::take()?;
        let mut env = vec![
            ("KUBECONFIG".to_owned(), kubeconfig.into()),
            ("POD_NAME".to_owned(), launch.name.into()),
            ("POD_NAMESPACE".to_owned(), launch.lease.0.into()),
        ];
        env.extend(options.env.iter().map(|(name, value)| (name.clone(), value.into())));
        let process = Arc::new(Process::start(Spec {
            name: launch.name.to_owned(),
            program: env!("CARGO_BIN_EXE_punctual").into(),
            args: arguments(launch, options, health_port),
            env,
            unset: Vec::new(),
            log: launch.dir.join(format!("{}.log", launch.name)),
        })?);
        let wanted = Arc::new(Mutex::new(true));
        tokio::spawn(keep(Arc::downgrade(&process), wanted.clone()));
        Ok(Self { name: launch.name.to_owned(), process, health_port, wanted })
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Freezes it (SIGSTOP).
    pub async fn freeze(&self) -> Result<()> {
        self.process.freeze().await
    }

    /// Lets it go on (SIGCONT).
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// Leaves it down when it ends by itself, until it is restarted.
    pub async fn stays_down(&self) {
        *self.wanted.lock().await = false;
    }

    /// Kills it (SIGKILL).
    pub async fn kill(&self) -> Result<()> {
        self.stays_down().await;
        self.process.kill().await
    }

    /// Asks it to end (SIGTERM).
    pub async fn terminate(&self) -> Result<()> {
        self.stays_down().await;
        self.process.terminate()
    }

    /// Starts it again.
    pub async fn restart(&self) -> Result<()> {
        let mut wanted = self.wanted.lock().await;
        *wanted = true;
        self.process.restart().await
    }

    /// Waits until it has ended.
    pub async fn wait_exit(&self, within: Duration) -> Result<ExitStatus> {
        self.process.wait_exit(within).await
    }

    /// What it has logged.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// Its log file.
    pub fn log(&self) -> PathBuf {
        self.process.log().to_owned()
    }

    /// Asks its health endpoint for `path`; status code and body.
    pub async fn ask(&self, path: &str) -> Result<(u16, String)> {
        http_get(self.health_port, path).await
    }

    /// Waits until it says that it is ready.
    pub async fn wait_ready(&self, within: Duration) -> Result<()> {
        wait::until(&format!("{} is ready", self.name), within, || async {
            self.process.check_alive()?;
            let (status, body) = self.ask("/readyz").await?;
            if status == 200 { Ok(()) } else { Err(BedError(format!("{status}: {body}"))) }
        })
        .await
    }
}

/// Starts a process again whenever it ended by itself and is wanted, until it is dropped.
async fn keep(process: Weak<Process>, wanted: Arc<Mutex<bool>>) {
    loop {
        let Some(ended) = process.upgrade().map(|process| process.ended()) else { return };
        ended.await;
        tokio::time::sleep(START_AGAIN).await;
        let Some(process) = process.upgrade() else { return };
        let wanted = wanted.lock().await;
        let code = process.exit().and_then(|status| status.code());
        if *wanted && !process.alive() && code != Some(BAD_USAGE) {
            progress(&format!("{} ended by itself and is started again", process.name()));
            if let Err(error) = process.restart().await {
                progress(&format!("{} cannot be started again: {error}", process.name()));
            }
        }
    }
}

/// A GET over HTTP/1.0, where the end of the connection is the end of the answer.
async fn http_get(port: u16, path: &str) -> Result<(u16, String)> {
    let what = || format!("ask 127.0.0.1:{port}{path}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.context(what)?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.context(what)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.context(what)?;
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    status
        .map(|code| (code, body.to_owned()))
        .ok_or_else(|| BedError(format!("{}: {answer:?}", what())))
}
