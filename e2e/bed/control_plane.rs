//! A throw-away control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{
    error::{BedError, Context as _, Result},
    kubeconfig::{self, Credentials, Server},
    pki::{ADMIN, Pki},
    ports,
    processes::{Process, Spec},
    tools::Tools,
};

/// Which programs a control plane has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// etcd and kube-apiserver: enough for API behaviour, ready soonest.
    ApiServer,
    /// All, with a fake node: Jobs run.
    Everything,
}

/// How a control plane differs from the shared one.
#[derive(Clone, Debug)]
pub struct PlaneOptions {
    /// Which programs it has.
    pub parts: Parts,
    /// Further flags of kube-apiserver, such as `--min-request-timeout=5` (watches end after 5 to
    /// 10 s), `--etcd-compaction-interval=15s` (410 Gone), `--goaway-chance=0.02`.
    pub apiserver_flags: Vec<String>,
    /// Whether etcd waits for the disk: true in tests that kill it.
    pub fsync: bool,
    /// Whether the kinds are installed before the scenario begins: false in the one that installs
    /// them itself.
    pub kinds: bool,
}

impl Default for PlaneOptions {
    fn default() -> Self {
        Self { parts: Parts::Everything, apiserver_flags: Vec::new(), fsync: false, kinds: true }
    }
}

/// etcd.
pub const ETCD: &str = "etcd";
/// kube-apiserver.
pub const APISERVER: &str = "kube-apiserver";
/// kube-controller-manager.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// kube-scheduler.
pub const SCHEDULER: &str = "kube-scheduler";
/// kwok, which plays nodes and pods.
pub const KWOK: &str = "kwok";

/// `GOGC` of the programs, in percent: they live for seconds on a busy machine with two cores, where
/// the default of 100 collects garbage again and again while thousands of objects are written. A
/// kube-apiserver here holds less than 200 MB that is in use, so it stays below 1 GB.
const GARBAGE: &str = "300";

/// The annotation by which kwok knows its nodes.
pub const FAKE_NODE: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// The running programs of one control plane.
pub struct ControlPlane {
    dir: PathBuf,
    pki: Pki,
    server: Server,
    tools: Tools,
    processes: BTreeMap<&'static str, Process>,
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver in `dir`; they are not ready yet.
    pub fn start(dir: PathBuf, tools: Tools, options: &PlaneOptions) -> Result<Self> {
        for sub in ["logs", "audit", "etcd"] {
            let path = dir.join(sub);
            fs::create_dir_all(&path).context(|| format!("make {}", path.display()))?;
        }
        let pki = Pki::create(dir.join("pki"))?;
        let (client, peer, secure) = (ports::take()?, ports::take()?, ports::take()?);
        let server = Server {
            url: format!("https://127.0.0.1:{secure}"),
            authority: pki.file("ca.crt").into(),
        };
        let mut plane = Self { dir, pki, server, tools, processes: BTreeMap::new() };
        plane.write_inputs()?;
        plane.launch(ETCD, etcd_args(&plane.dir, client, peer, options.fsync))?;
        let mut args = plane.apiserver_args(client, secure);
        args.extend(options.apiserver_flags.iter().cloned());
        plane.launch(APISERVER, args)?;
        Ok(plane)
    }

    /// Starts the controllers and the fake kubelet; the API server must be ready.
    pub fn start_controllers(&mut self) -> Result<()> {
        self.launch(CONTROLLER_MANAGER, self.controller_manager_args())?;
        self.launch(
            SCHEDULER,
            vec![
                format!("--kubeconfig={}", self.kubeconfig(SCHEDULER).display()),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ],
        )?;
        self.launch(KWOK, self.kwok_args())
    }

    fn launch(&mut self, name: &'static str, args: Vec<String>) -> Result<()> {
        let process = Process::start(Spec {
            name: name.to_owned(),
            program: self.tools.path(name)?,
            args,
            env: vec![("GOGC".to_owned(), GARBAGE.into())],
            unset: vec!["KUBECONFIG".to_owned()],
            log: self.dir.join("logs").join(format!("{name}.log")),
        })?;
        self.processes.insert(name, process);
        Ok(())
    }

    /// One of its programs.
    pub fn process(&self, name: &str) -> Result<&Process> {
        self.processes
            .get(name)
            .ok_or_else(|| BedError(format!("this control plane has no {name}")))
    }

    /// All its programs.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values()
    }

    /// Where the API server listens.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Kubeconfig of the person at the keyboard.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig(ADMIN)
    }

    /// Folder of the audit log.
    pub fn audit_dir(&self) -> PathBuf {
        self.dir.join("audit")
    }

    fn kubeconfig(&self, client: &str) -> PathBuf {
        self.dir.join(format!("{client}.kubeconfig"))
    }

    fn write_inputs(&self) -> Result<()> {
        for client in [ADMIN, CONTROLLER_MANAGER, SCHEDULER, KWOK] {
            let credentials = Credentials::Certificate {
                certificate: &self.pki.file(&format!("{client}.crt")),
                key: &self.pki.file(&format!("{client}.key")),
            };
            kubeconfig::write(&self.kubeconfig(client), &self.server, &credentials, "default")?;
        }
        for (name, text) in [
            ("audit-policy.yaml", include_str!("audit-policy.yaml")),
            ("kwok-stages.yaml", include_str!("kwok-stages.yaml")),
        ] {
            let path = self.dir.join(name);
            fs::write(&path, text).context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }

    fn apiserver_args(&self, etcd: u16, secure: u16) -> Vec<String> {
        let file = |name: &str| self.pki.file(name);
        vec![
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={secure}"),
            // Nothing in this cluster asks for the API server by its service address.
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            "--authorization-mode=Node,RBAC".to_owned(),
            // Refuses an ownerReference with blockOwnerDeletion by one who may not delete the owner:
            // off by default, on in managed clusters, so the operator must live with it.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            format!("--audit-policy-file={}", self.dir.join("audit-policy.yaml").display()),
            format!("--audit-log-path={}", self.audit_dir().join("audit.log").display()),
        ]
    }

    fn controller_manager_args(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.kubeconfig(CONTROLLER_MANAGER).display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--use-service-account-credentials".to_owned(),
            format!("--service-account-private-key-file={}", self.pki.file("sa.key")),
            format!("--root-ca-file={}", self.pki.file("ca.crt")),
            "--controllers=*".to_owned(),
            "--concurrent-job-syncs=20".to_owned(),
            "--kube-api-qps=300".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ]
    }

    fn kwok_args(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.kubeconfig(KWOK).display()),
            format!("--config={}", self.dir.join("kwok-stages.yaml").display()),
            "--manage-all-nodes=false".to_owned(),
            format!("--manage-nodes-with-annotation-selector={}={}", FAKE_NODE.0, FAKE_NODE.1),
            "--node-lease-duration-seconds=40".to_owned(),
        ]
    }
}

fn etcd_args(dir: &Path, client: u16, peer: u16, fsync: bool) -> Vec<String> {
    let mut args = vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls=http://127.0.0.1:{client}"),
        format!("--advertise-client-urls=http://127.0.0.1:{client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
        "--log-level=warn".to_owned(),
    ];
    if !fsync {
        args.push("--unsafe-no-fsync".to_owned());
    }
    args
}
