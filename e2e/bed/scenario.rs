//! One test: its own namespace and Lease on a shared cluster, its replicas, a dump if it fails, and
//! the history checker at its end.

use std::{
    fs,
    panic::resume_unwind,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::{
    Api, Client, Config, api::PostParams, core::DynamicObject, runtime::wait::await_condition,
};
use serde_json::{Value, json};
use tokio::{sync::OnceCell, time::Instant};

use super::{
    Bed, client_of, dump,
    error::{BedError, Context as _, Result},
    kubeconfig::{self, Credentials, Server},
    kubectl::{Kubectl, Said},
    objects::{self, text},
    operator::{Launch, Replica, ReplicaOptions},
    plan::{Failure, Plan},
    proxy::Proxy,
    rights::{self, Account},
    run::{KEEP_ENV, progress, run},
    wait,
};
use crate::checker::{self, Exception, Report};

/// Time for the namespace's service account to appear.
const NAMESPACE_DEADLINE: Duration = Duration::from_secs(60);
/// Longest namespace name, so that names made from it (a helm release: 53) fit.
pub(super) const NAMESPACE_CHARS: usize = 50;

/// A running scenario.
pub struct Scenario {
    /// Path of the test function.
    pub name: String,
    /// The cluster.
    pub bed: Arc<Bed>,
    /// Its namespace; its Lease is in there too.
    pub namespace: String,
    /// Name of its Lease.
    pub lease: String,
    /// Folder for its files; removed with the run.
    pub dir: PathBuf,
    exceptions: Vec<Exception>,
    account: OnceCell<Account>,
    replicas: Mutex<Vec<Arc<Replica>>>,
    own_cluster: bool,
}

impl Scenario {
    pub(super) async fn create(name: &str, plan: &Plan) -> Result<Self> {
        let short = short_name(name);
        let bed = match &plan.own {
            Some(options) => Bed::own(&short, options).await?,
            None => Bed::shared().await?,
        };
        let namespace = format!("{short}-{}", &run().id[run().id.len() - 5..]);
        let dir = run().dir.join("tests").join(&namespace);
        fs::create_dir_all(&dir).context(|| format!("make {}", dir.display()))?;
        create_namespace(&bed, &namespace, name).await?;
        Ok(Self {
            name: name.to_owned(),
            bed,
            namespace,
            lease: "punctual".to_owned(),
            dir,
            exceptions: plan.exceptions.clone(),
            account: OnceCell::new(),
            replicas: Mutex::new(Vec::new()),
            own_cluster: plan.own.is_some(),
        })
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        self.bed.client.clone()
    }

    /// kubectl in the scenario's namespace, as a person who may do everything.
    pub fn kubectl(&self) -> Kubectl {
        ok(self.bed.kubectl()).in_namespace(&self.namespace)
    }

    /// Applies manifests with kubectl; they must be accepted. Returns what kubectl said.
    pub async fn apply(&self, manifests: &str) -> Said {
        let said = ok(self.kubectl().apply(manifests).await);
        assert!(said.ok, "kubectl apply: {}\n{manifests}", said.stderr);
        said
    }

    /// Objects of the kind with this short name (`msched`, `mocc`, `job`, `lease`, `pod`, …).
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        objects::api(&self.bed.client, &self.namespace, kind)
    }

    /// One object as JSON, if it exists; read live.
    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let found =
            ok(self.api(kind).get_opt(name).await.context(|| format!("read {kind}/{name}")));
        found.map(|object| objects::json(&object))
    }

    /// All objects of a kind in the namespace, by name.
    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let list = ok(self
            .api(kind)
            .list(&kube::api::ListParams::default())
            .await
            .context(|| format!("list {kind}")));
        list.items.iter().map(objects::json).collect()
    }

    /// Watches an object until `holds` and returns it. Panics after `within` with what was awaited
    /// and the object as last seen.
    pub async fn wait_for(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        within: Duration,
        holds: impl Fn(&Value) -> bool + Send + Sync,
    ) -> Value {
        let seen = self.watch_until(kind, name, within, |object| object.is_some_and(&holds)).await;
        match seen {
            Ok(Some(object)) => object,
            Ok(None) => panic!("{kind}/{name} has gone while awaited: {what}"),
            Err(last) => panic!("not within {within:?}: {kind}/{name}: {what}; last seen: {last}"),
        }
    }

    /// Watches until an object is gone.
    pub async fn wait_gone(&self, kind: &str, name: &str, within: Duration) {
        if let Err(last) = self.watch_until(kind, name, within, |object| object.is_none()).await {
            panic!("{kind}/{name} not gone within {within:?}; last seen: {last}");
        }
    }

    /// A watch is opened anew when the API server drops it: it may be the thing under test.
    async fn watch_until(
        &self,
        kind: &str,
        name: &str,
        within: Duration,
        holds: impl Fn(Option<&Value>) -> bool + Send + Sync,
    ) -> Result<Option<Value>, String> {
        let last = Mutex::new("nothing".to_owned());
        let condition = |object: Option<&DynamicObject>| {
            let value = object.map(objects::json);
            let done = holds(value.as_ref());
            *last.lock().expect("no holder panics") =
                value.map_or("no such object".to_owned(), |value| value.to_string());
            done
        };
        let watching = wait::until("the condition", within, || async {
            await_condition(self.api(kind), name, &condition)
                .await
                .context(|| format!("watch {kind}/{name}"))
        });
        match watching.await {
            Ok(object) => Ok(object.as_ref().map(objects::json)),
            Err(error) => Err(format!("{} ({error})", last.lock().expect("no holder panics"))),
        }
    }

    /// Rights and token of the chart's ServiceAccount in this namespace.
    pub async fn account(&self) -> &Account {
        ok(self.account.get_or_try_init(|| rights::grant(&self.bed, &self.namespace)).await)
    }

    /// A client with the rights of the chart's ServiceAccount, for writes that a test forges.
    pub async fn account_client(&self) -> Client {
        let account = self.account().await;
        ok(self.client_of_token("account", &self.bed.server, &account.token).await)
    }

    /// How to connect with the rights of the chart's ServiceAccount, for parts of the operator that
    /// a test runs itself.
    pub async fn account_config(&self) -> Config {
        let account = self.account().await;
        ok(self.config_of_token("account", &self.bed.server, &account.token).await).0
    }

    /// A client that shows `token` to the API server at `server`; `name` names its kubeconfig.
    pub async fn client_of_token(
        &self,
        name: &str,
        server: &Server,
        token: &str,
    ) -> Result<Client> {
        self.config_of_token(name, server, token).await.map(|(_, client)| client)
    }

    /// The same with the configuration it was made from.
    async fn config_of_token(
        &self,
        name: &str,
        server: &Server,
        token: &str,
    ) -> Result<(Config, Client)> {
        let path = self.dir.join(format!("{name}.kubeconfig"));
        kubeconfig::write(&path, server, &Credentials::Token(token), &self.namespace)?;
        client_of(path).await
    }

    /// Starts a replica. It is killed at the scenario's end at the latest.
    pub async fn replica(&self, name: &str) -> Arc<Replica> {
        self.replica_with(name, &ReplicaOptions::default()).await
    }

    /// Starts a replica that differs from the usual one.
    pub async fn replica_with(&self, name: &str, options: &ReplicaOptions) -> Arc<Replica> {
        let account = self.account().await;
        let launch = Launch {
            name,
            namespace: &self.namespace,
            lease: (&self.namespace, &self.lease),
            server: &self.bed.server,
            token: &account.token,
            dir: &self.dir,
        };
        let replica = Arc::new(ok(Replica::start(&launch, options)));
        self.replicas.lock().expect("no holder panics").push(replica.clone());
        replica
    }

    /// Starts a proxy in front of the API server, for [`ReplicaOptions::through`].
    pub async fn proxy(&self) -> Proxy {
        ok(Proxy::start(&self.bed, &self.dir).await)
    }

    /// The replica that the Lease names as its holder, once it names one.
    pub async fn leader(&self, within: Duration) -> Arc<Replica> {
        self.holder(within, "it has a holder", |_| true).await
    }

    /// The replica that the Lease names once that is another one than `old`.
    pub async fn next_leader(&self, old: &Replica, within: Duration) -> Arc<Replica> {
        self.holder(within, "it has another holder", |pod| pod != old.name).await
    }

    async fn holder(
        &self,
        within: Duration,
        what: &str,
        wanted: impl Fn(&str) -> bool + Send + Sync,
    ) -> Arc<Replica> {
        let pod = |lease: &Value| {
            let holder = text(lease, "/spec/holderIdentity");
            holder.split('/').next().unwrap_or_default().to_owned()
        };
        let holds = |lease: &Value| !pod(lease).is_empty() && wanted(&pod(lease));
        let lease = self.wait_for("lease", &self.lease, what, within, holds).await;
        let name = pod(&lease);
        self.replica_named(&name)
            .unwrap_or_else(|| panic!("the Lease is held by {name}, which is none of the replicas"))
    }

    /// The replica of this name, as in a holder identity (`<pod>/<nonce>`).
    pub fn replica_named(&self, pod: &str) -> Option<Arc<Replica>> {
        let replicas = self.replicas.lock().expect("no holder panics");
        replicas.iter().find(|replica| replica.name == pod).cloned()
    }

    /// Epoch of the present term, as the Lease says.
    pub async fn epoch(&self) -> Result<i64> {
        let lease = self.get("lease", &self.lease).await.unwrap_or_default();
        let epoch = lease["metadata"]["annotations"]["punctual.dev/epoch"].as_str();
        let epoch = epoch.and_then(|epoch| epoch.parse().ok());
        epoch.ok_or_else(|| BedError(format!("no epoch on {lease}")))
    }

    /// The complete record of a term after `term`, once there is one. A busy machine may move
    /// leadership before a record is complete; the next one then says the same.
    pub async fn record_after(&self, term: i64, within: Duration) -> Value {
        let found = wait::until("a later term has recorded what it found", within, || async {
            let traces = self.list("rtrace").await;
            let complete = traces.into_iter().find(|trace| {
                trace["spec"]["epoch"].as_i64() > Some(term)
                    && !text(trace, "/status/completionTime").is_empty()
            });
            complete.ok_or_else(|| BedError("there is none yet".to_owned()))
        });
        ok(found.await)
    }

    /// Checks the history so far and returns what it contains; panics on a violation.
    pub async fn verify(&self) -> Report {
        ok(self.try_verify().await)
    }

    /// Checks the history so far; the error lists all violations.
    pub async fn try_verify(&self) -> Result<Report> {
        checker::verify(&self.bed, &self.namespace, &self.lease, &self.exceptions).await
    }

    /// Ends the replicas and checks the history.
    pub(super) async fn conclude(&self, unchecked: Option<&str>) -> Result<()> {
        self.kill_replicas().await;
        if self.account.get().is_none() || unchecked.is_some() || !self.bed.is_own() {
            return Ok(());
        }
        self.try_verify().await.map(|_| ())
    }

    async fn kill_replicas(&self) {
        let replicas = self.replicas.lock().expect("no holder panics").clone();
        for replica in replicas {
            // The keeper ends what cannot be ended here.
            let _ = replica.kill().await;
        }
    }

    pub(super) async fn end(self, started: Instant, outcome: Result<(), Failure>) {
        let seconds = started.elapsed().as_secs_f32();
        self.kill_replicas().await;
        let Err(failure) = outcome else {
            progress(&format!("{} ok, {seconds:.1} s", self.name));
            self.leave().await;
            return;
        };
        if let Ok(plane) = self.bed.plane() {
            // A frozen API server could not say what the objects look like.
            plane
                .processes()
                .filter(|process| process.alive())
                .for_each(|process| drop(process.thaw()));
        }
        let logs: Vec<PathBuf> = self
            .replicas
            .lock()
            .expect("no holder panics")
            .iter()
            .map(|replica| replica.log())
            .collect();
        let dir = dump::write(
            &self.bed,
            &self.name.replace("::", "."),
            &self.namespace,
            &logs,
            failure.message(),
        )
        .await;
        progress(&format!("{} FAILED after {seconds:.1} s; see {}", self.name, dir.display()));
        self.leave().await;
        match failure {
            Failure::Panicked(payload) => resume_unwind(payload),
            Failure::Said(message) => panic!("{message}"),
        }
    }

    /// Ends a cluster of its own, and cleans up on one that is not ours.
    async fn leave(&self) {
        if self.own_cluster {
            if let Ok(plane) = self.bed.plane() {
                for process in plane.processes() {
                    // The keeper ends what cannot be ended here.
                    let _ = process.kill().await;
                }
            }
        } else if !self.bed.is_own() && std::env::var_os(KEEP_ENV).is_none() {
            self.clean_up().await;
        }
    }

    async fn clean_up(&self) {
        let kubectl = ok(self.bed.kubectl());
        let release = format!("app.kubernetes.io/instance={}", self.namespace);
        for args in [
            &["delete", "namespace", &self.namespace, "--wait=false"][..],
            &["delete", "clusterroles,clusterrolebindings", "-l", &release][..],
        ] {
            if let Err(error) = kubectl.run(args).await {
                progress(&format!("{}: cannot clean up: {error}", self.name));
            }
        }
    }
}

/// The last part of the test's path as part of a namespace name.
pub(super) fn short_name(test: &str) -> String {
    let last = test.rsplit("::").next().unwrap_or(test).replace('_', "-");
    let cut: String = last.chars().take(NAMESPACE_CHARS - 6).collect();
    cut.trim_end_matches('-').to_owned()
}

async fn create_namespace(bed: &Bed, namespace: &str, test: &str) -> Result<()> {
    let object = json!({
        "metadata": {"name": namespace, "annotations": {"punctual.dev/e2e-test": test}},
    });
    let object = serde_json::from_value(object).context(|| "make a namespace".to_owned())?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(bed.client.clone());
    namespaces
        .create(&PostParams::default(), &object)
        .await
        .context(|| format!("create namespace {namespace}"))?;
    if bed
        .plane()
        .is_ok_and(|plane| plane.process(super::control_plane::CONTROLLER_MANAGER).is_err())
    {
        return Ok(());
    }
    // Without it no pod can be created.
    let accounts = objects::api(&bed.client, namespace, "serviceaccount");
    wait::until("the namespace has its service account", NAMESPACE_DEADLINE, || async {
        accounts.get("default").await.context(|| "read the account".to_owned())
    })
    .await
    .map(|_| ())
}

/// The value, or the end of the test with the error's sentence.
pub fn ok<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}
