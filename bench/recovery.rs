//! How long a new leader needs to account for a busy cluster: `cargo bench --bench recovery`.
//!
//! A leader runs 1,000 reports on services outside the cluster, and 20,000 wait. It is killed, and
//! another replica takes over. Both are whole replicas, in real time, in one process with the model of
//! the API server and the reference service; every request takes as long as over a network. Goals, on
//! two cores: every item is accounted for within 60 s of the beginning of the term, what runs goes on
//! and is not started again, and no service has more than 8 questions at a time. Prints the peak of the
//! memory of the whole process, the model of the API server with all objects included. Fails when a
//! goal is missed.

#[path = "../tests/shared/resident.rs"]
mod resident;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::Client;
use punctual::{
    authority::Entropy,
    cluster::Clients,
    fakeprovider::{
        book::Habits,
        service::{self, Reaction, Service},
    },
    operator::{self, Config, Parts},
    providers::http::{EPOCH_HEADER, SendError, Tls, Transport},
    sim::{Key, Kind, api::Model},
    telemetry::{Health, Metrics},
    time::{LeaseClock, WallClock},
};
use resident::peak;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

/// Reports that run, and reports that wait.
const RUNNING: usize = 1_000;
const WAITING: usize = 20_000;
/// Tenants that submitted them.
const TENANTS: usize = 300;
/// Services that execute them.
const SERVICES: usize = 4;
/// Goal, from the beginning of the term until every item is accounted for.
const GOAL: Duration = Duration::from_secs(60);
/// Goal: questions to one service at a time.
const MOST_QUESTIONS: usize = 8;
/// A request to the API server, and one to a service, takes at least so long.
const API_LATENCY: Duration = Duration::from_millis(2);
const SERVICE_LATENCY: Duration = Duration::from_millis(50);
/// Whoever waits for longer gives up.
const PATIENCE: Duration = Duration::from_secs(1200);
/// Objects one controller works on at a time: the default of the flag.
const CONCURRENCY: usize = 16;

/// The services outside the cluster, with one book.
struct Services {
    service: Service,
    file: PathBuf,
    /// By service: questions under way, and the most there ever were.
    now: [AtomicUsize; SERVICES],
    most: [AtomicUsize; SERVICES],
    asked: AtomicUsize,
}

impl Services {
    fn open(wall: &WallClock) -> Self {
        let name = format!("punctual-bench-recovery-{}.jsonl", std::process::id());
        let file = std::env::temp_dir().join(name);
        let habits = Habits { hold: true, seconds: 24 * 3600 };
        let opened = Service::open(&file, wall.clone(), habits, None);
        Self {
            service: opened.expect("the temporary folder can be written to"),
            file,
            now: Default::default(),
            most: Default::default(),
            asked: AtomicUsize::new(0),
        }
    }

    fn most_questions(&self) -> usize {
        self.most.iter().map(|most| most.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    /// Runs that were started, and how often in all.
    fn starts(&self) -> (usize, u64) {
        let audit = self.service.audit();
        let runs = audit["runs"].as_object().into_iter().flatten();
        let starts: Vec<u64> = runs.filter_map(|(_, run)| run["starts"].as_u64()).collect();
        (starts.iter().filter(|starts| **starts > 0).count(), starts.iter().sum())
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// A question under way, until it is answered or whoever asked is killed.
struct Question<'a>(&'a AtomicUsize);

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Transport for Services {
    fn send<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        _tls: &'a Tls,
    ) -> BoxFuture<'a, Result<Response<Vec<u8>>, SendError>> {
        let host = request.uri().host().unwrap_or_default();
        let number = host.bytes().find(u8::is_ascii_digit).map_or(0, |digit| digit - b'0');
        let number = usize::from(number) % SERVICES;
        let epoch = request.headers().get(EPOCH_HEADER);
        let request = service::Request {
            epoch: epoch.and_then(|value| value.to_str().ok()).map(ToOwned::to_owned),
            authorization: None,
            path: request.uri().path().to_owned(),
            method: request.method().clone(),
            body: request.into_body(),
        };
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let now = self.now[number].fetch_add(1, Ordering::Relaxed) + 1;
            self.most[number].fetch_max(now, Ordering::Relaxed);
            let _question = Question(&self.now[number]);
            sleep(SERVICE_LATENCY).await;
            let reaction = self.service.react(&request);
            let Reaction::Answer { code, body, .. } = reaction else {
                return Err(SendError::NotReached("no fault is armed".to_owned()));
            };
            let answer = Response::builder().status(code).body(body.to_string().into_bytes());
            answer.map_err(|error| SendError::Broken(error.to_string()))
        })
    }
}

/// Everything that is not a replica.
struct Cluster {
    model: Model,
    wall: WallClock,
    lease: LeaseClock,
    services: Arc<Services>,
    /// Writes that replicas sent.
    writes: Arc<AtomicUsize>,
}

/// A replica that runs.
struct Running {
    metrics: Arc<Metrics>,
    task: JoinHandle<()>,
}

impl Running {
    /// The value of a metric without labels.
    fn shows(&self, name: &str) -> f64 {
        let text = self.metrics.encode();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }
}

impl Cluster {
    fn new() -> Self {
        let wall = WallClock::system();
        let model = Model::new(wall.clone());
        model.install_crds();
        model.add_namespace("ops");
        let services = Arc::new(Services::open(&wall));
        Self { model, lease: LeaseClock::system(), services, wall, writes: Arc::default() }
    }

    fn install(&self, manifest: &Value) {
        self.model.install(manifest).expect("what the bench installs is valid");
    }

    fn make_queue(&self) {
        self.install(&json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
            "metadata": {"name": "reports", "namespace": "analytics"},
            "spec": {
                "slots": RUNNING, "limits": {"queued": 2 * WAITING, "queuedPerTenant": WAITING},
            },
        }));
    }

    /// Everything that is ever submitted.
    fn submit(&self) {
        for number in 0..RUNNING + WAITING {
            let tenant = format!("customer-{:03}", number % TENANTS);
            let url = format!("https://runner-{}.example/", number % SERVICES);
            self.install(&json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
                "metadata": {"name": format!("usage-{number:05}"), "namespace": "analytics"},
                "spec": {
                    "queueName": "reports", "tenant": tenant, "estimateSeconds": 3600,
                    "parameters": {"month": "2026-10", "customer": tenant},
                    "run": {"actionClass": "Idempotent", "http": {"url": url}},
                },
            }));
        }
    }

    fn client(&self, name: &str) -> Client {
        let (server, name) = (self.model.server(0), name.to_owned());
        let writes = Arc::clone(&self.writes);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            if request.method() != http::Method::GET {
                writes.fetch_add(1, Ordering::Relaxed);
            }
            let answer = server.serve(&name, request);
            async move {
                sleep(API_LATENCY).await;
                Ok::<_, tower::BoxError>(answer.await)
            }
        });
        Client::new(service, "ops")
    }

    fn start(&self, name: &str, seed: u64) -> Running {
        let metrics = Arc::new(Metrics::new());
        let config = Config {
            replica: name.to_owned(),
            pod_uid: None,
            lease_namespace: "ops".to_owned(),
            lease_name: "punctual".to_owned(),
            lease_seconds: 10,
            watch_namespaces: Vec::new(),
            health_address: None,
            allow_simulated: false,
            allow_local_providers: false,
            max_clock_skew: Duration::from_secs(5),
            epoch_offset: 0,
            orphan_retention: Duration::from_secs(24 * 3600),
            concurrency: CONCURRENCY,
        };
        let parts = Parts {
            clients: Clients::single(self.client(name)),
            lease_clock: self.lease.clone(),
            wall_clock: self.wall.clone(),
            entropy: Entropy::seeded(seed),
            health: Health::new(self.lease.clone(), Arc::clone(&metrics)),
            simulated: None,
            http: Some(Arc::clone(&self.services) as Arc<dyn Transport>),
            watchdog_exit: None,
        };
        let task = tokio::spawn(async move {
            match operator::run(config, parts, std::future::pending()).await {
                Ok(exit) => println!("a replica ended: {exit}"),
                Err(error) => println!("a replica could not start: {error}"),
            }
        });
        Running { metrics, task }
    }

    /// Reports by state.
    fn in_state(&self, state: &str) -> usize {
        let all = self.model.list(Kind::ReportJob);
        all.iter().filter(|report| report["status"]["state"] == state).count()
    }

    fn queue_is_open(&self) -> bool {
        let queue = self.model.get(&Key::new(Kind::ReportQueue, "analytics", "reports"));
        queue.is_some_and(|queue| queue["status"]["admissions"] == "Open")
    }

    /// Counts of the newest trace: resumed, reconciled, preserved, uncertain.
    fn counts(&self) -> [i64; 4] {
        let traces = self.model.list(Kind::RecoveryTrace);
        let newest = traces.iter().max_by_key(|trace| trace["spec"]["epoch"].as_i64());
        let count = |class: &str| newest.and_then(|trace| trace["status"][class].as_i64());
        ["resumed", "reconciled", "preserved", "uncertain"].map(|class| count(class).unwrap_or(-1))
    }
}

/// Waits until it holds, looking so often; gives how long that took.
async fn until(what: &str, every: Duration, holds: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        sleep(every).await;
    }
    begun.elapsed()
}

async fn recover() -> bool {
    let cluster = Cluster::new();
    cluster.make_queue();
    let first = cluster.start("first", 1);
    let second = Duration::from_secs(1);
    until("the queue is open", second, || cluster.queue_is_open()).await;
    cluster.submit();
    let busy = || cluster.in_state("Running") == RUNNING && cluster.in_state("Queued") == WAITING;
    let took = until("the reports run and wait", second, busy).await;
    println!("{RUNNING} reports run and {WAITING} wait after {:.1} s", took.as_secs_f64());
    first.task.abort();
    let asked = cluster.services.asked.load(Ordering::Relaxed);
    let written = cluster.writes.load(Ordering::Relaxed);
    let newcomer = cluster.start("second", 2);
    let often = Duration::from_millis(20);
    let led = until("the second leads", often, || newcomer.shows("punctual_leader") > 0.0).await;
    let begun = Instant::now();
    until("its queue is open", often, || cluster.queue_is_open()).await;
    let recorded = || newcomer.shows("punctual_recovery_duration_seconds") > 0.0;
    until("everything is accounted for", often, recorded).await;
    let outer = begun.elapsed();
    // The trace is completed a moment after the metric.
    until("the trace is complete", often, || cluster.counts()[0] >= 0).await;
    let told = newcomer.shows("punctual_recovery_duration_seconds");
    let [resumed, reconciled, preserved, uncertain] = cluster.counts();
    println!("leader after {:.1} s; accounted for everything after {told:.1} s", led.as_secs_f64());
    println!(
        "{resumed} resumed, {reconciled} reconciled, {preserved} preserved, {uncertain} uncertain"
    );
    let (runs, starts) = cluster.services.starts();
    let most = cluster.services.most_questions();
    let asked = cluster.services.asked.load(Ordering::Relaxed) - asked;
    let written = cluster.writes.load(Ordering::Relaxed) - written;
    println!("{asked} questions meanwhile, at most {most} at a time to one service");
    println!("{written} writes meanwhile, the events among them");
    println!("{runs} runs were started, {starts} times in all");
    println!("{} MiB at most, the model of the API server included", peak("self") >> 20);
    newcomer.task.abort();
    let items = [resumed, reconciled, preserved, uncertain];
    let expected = [WAITING, RUNNING, 0, 0].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let goals = [
        ("every item is accounted for in time", outer < GOAL),
        ("each is what it was", items == expected),
        ("what ran was not started again", (runs, starts) == (RUNNING, RUNNING as u64)),
        ("a service has few questions at a time", most <= MOST_QUESTIONS),
    ];
    for (goal, _) in goals.iter().filter(|(_, reached)| !reached) {
        println!("MISSED: {goal}");
    }
    goals.iter().all(|(_, reached)| *reached)
}

fn main() -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let reached = runtime.expect("the machine has threads").block_on(recover());
    if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
