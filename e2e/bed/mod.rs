//! The test bed: a cluster, replicas of the operator on it, and everything that can happen to them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{sync::OnceCell, time::Instant};

pub mod audit;
pub mod control_plane;
pub mod dump;
pub mod error;
pub mod kubeconfig;
pub mod kubectl;
pub mod kubelet;
pub mod kwok;
pub mod objects;
pub mod operator;
pub mod pki;
pub mod plan;
pub mod ports;
pub mod processes;
pub mod proxy;
pub mod rights;
pub mod run;
pub mod scenario;
pub mod service;
pub mod tools;
pub mod wait;

use control_plane::{APISERVER, ControlPlane, Parts, PlaneOptions};
use error::{BedError, Context as _, Result};
use kubeconfig::Server;
use kubectl::Kubectl;
use processes::Process;
use run::{progress, run};
use tools::Tools;

/// Time for a control plane to become ready: 5 s on an idle machine, more while others compile.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// Names a kubeconfig of a cluster to test against instead of a throw-away one; before `KUBECONFIG`.
const KUBECONFIG_ENV: &str = "PUNCTUAL_E2E_KUBECONFIG";

/// A cluster under test.
pub struct Bed {
    /// A client that may do everything.
    pub client: Client,
    /// The same as a configuration.
    pub config: Config,
    /// The same as a file.
    pub kubeconfig: PathBuf,
    /// Where the API server is reached.
    pub server: Server,
    /// The programs.
    pub tools: Tools,
    plane: Option<ControlPlane>,
}

static SHARED: OnceCell<Result<Arc<Bed>>> = OnceCell::const_new();

/// The kubeconfig of an existing cluster, if the suite was pointed at one.
pub fn other_cluster() -> Option<PathBuf> {
    [KUBECONFIG_ENV, "KUBECONFIG"]
        .into_iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty())
        .map(PathBuf::from)
}

impl Bed {
    /// The cluster that all tests share; the first to ask starts it.
    pub async fn shared() -> Result<Arc<Self>> {
        SHARED
            .get_or_init(|| async {
                let bed = match other_cluster() {
                    Some(path) => Self::connect(path).await?,
                    None => Self::start("shared", &PlaneOptions::default()).await?,
                };
                Ok(Arc::new(bed))
            })
            .await
            .clone()
    }

    /// A cluster of its own for a test that would disturb others.
    pub async fn own(name: &str, options: &PlaneOptions) -> Result<Arc<Self>> {
        Self::start(name, options).await.map(Arc::new)
    }

    async fn start(name: &str, options: &PlaneOptions) -> Result<Self> {
        let started = Instant::now();
        let tools = Tools::for_own_cluster().await?;
        let tools_ready = started.elapsed();
        let dir = run().dir.join(name);
        let mut plane = ControlPlane::start(dir, tools.clone(), options)?;
        let kubeconfig = plane.admin_kubeconfig();
        let (config, client) = client_of(kubeconfig.clone()).await?;
        let server = plane.server().clone();
        wait_ready(&client, &plane).await?;
        let api_ready = started.elapsed();
        if options.parts == Parts::Everything {
            plane.start_controllers()?;
        }
        let bed = Self { client, config, kubeconfig, server, tools, plane: Some(plane) };
        if options.kinds {
            bed.install_kinds().await?;
        }
        if options.parts == Parts::Everything {
            kwok::add_node(&bed, kwok::NODE, None).await?;
            bed.controllers_work().await?;
        }
        progress(&format!(
            "control plane {name}: programs {:.1} s, API server ready {:.1} s, all ready {:.1} s ({})",
            tools_ready.as_secs_f32(),
            api_ready.as_secs_f32(),
            started.elapsed().as_secs_f32(),
            bed.server.url,
        ));
        Ok(bed)
    }

    async fn connect(kubeconfig: PathBuf) -> Result<Self> {
        let tools = Tools::for_other_cluster().await?;
        let (config, client) = client_of(kubeconfig.clone()).await?;
        let authority = run().dir.join("other-cluster-ca.crt");
        let pem: String =
            config.root_cert.iter().flatten().map(|der| pki::certificate_pem(der)).collect();
        std::fs::write(&authority, pem).context(|| format!("write {}", authority.display()))?;
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        progress(&format!("using the cluster at {url} ({})", kubeconfig.display()));
        let server = Server { url, authority };
        let bed = Self { client, config, kubeconfig, server, tools, plane: None };
        bed.install_kinds().await?;
        Ok(bed)
    }

    /// Applies every file of `crds/` as the documents advise, and waits until the kinds are served.
    async fn install_kinds(&self) -> Result<()> {
        self.apply_kinds(&["--server-side", "--force-conflicts"]).await
    }

    /// Applies every file of `crds/` with these flags of `kubectl apply`, and waits until the kinds
    /// are served; an error if the API server warns of anything.
    pub async fn apply_kinds(&self, flags: &[&str]) -> Result<()> {
        let dir = crds();
        let dir = dir.display().to_string();
        let kubectl = self.kubectl()?;
        let apply = ["apply", "--warnings-as-errors", "-f", &dir];
        kubectl.run(&[&apply, flags].concat()).await?;
        kubectl
            .run(&["wait", "--for=condition=Established", "--timeout=120s", "-f", &dir])
            .await
            .map(|_| ())
    }

    /// Waits until the controllers have done something: the namespace `default` has its account.
    async fn controllers_work(&self) -> Result<()> {
        let accounts = objects::api(&self.client, "default", "serviceaccount");
        wait::until("the controller-manager creates service accounts", START_DEADLINE, || async {
            self.plane()?.processes().try_for_each(Process::check_alive)?;
            accounts.get("default").await.context(|| "read the account".to_owned())
        })
        .await?;
        kwok::node_ready(self, kwok::NODE).await
    }

    /// Whether this is a throw-away control plane.
    pub fn is_own(&self) -> bool {
        self.plane.is_some()
    }

    /// The programs of the control plane; an error on a cluster that is not ours.
    pub fn plane(&self) -> Result<&ControlPlane> {
        self.plane
            .as_ref()
            .ok_or_else(|| BedError("this cluster's programs are not ours".to_owned()))
    }

    /// One of its programs, to freeze, kill or restart.
    pub fn process(&self, name: &str) -> Result<&Process> {
        self.plane()?.process(name)
    }

    /// Whether the audit log may lack writes that were committed: the API server was killed.
    pub fn lost_records(&self) -> bool {
        self.process(APISERVER).is_ok_and(|process| process.lives() > 1)
    }

    /// kubectl for a person who may do everything.
    pub fn kubectl(&self) -> Result<Kubectl> {
        Ok(Kubectl::new(self.tools.path("kubectl")?, self.kubeconfig.clone()))
    }

    /// Waits until the API server answers `/readyz`.
    pub async fn ready(&self) -> Result<()> {
        wait_ready(&self.client, self.plane()?).await
    }
}

/// The folder of the kinds' definitions.
fn crds() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/crds"))
}

async fn client_of(kubeconfig: PathBuf) -> Result<(Config, Client)> {
    let read =
        Kubeconfig::read_from(&kubeconfig).context(|| format!("read {}", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .context(|| format!("use {}", kubeconfig.display()))?;
    // What the suite sends is sent once: a hidden second try would change what is tested.
    config.default_retry = false;
    let client = Client::try_from(config.clone()).context(|| "make a client".to_owned())?;
    Ok((config, client))
}

async fn wait_ready(client: &Client, plane: &ControlPlane) -> Result<()> {
    wait::until("the API server is ready", START_DEADLINE, || async {
        plane.process(APISERVER)?.check_alive()?;
        let request = http::Request::get("/readyz")
            .body(Vec::new())
            .context(|| "build a request".to_owned())?;
        client.request_text(request).await.context(|| "ask /readyz".to_owned())
    })
    .await
    .map(|_| ())
}
