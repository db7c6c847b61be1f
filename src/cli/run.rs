//! `punctual run`: the operator.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::signal::unix::{SignalKind, signal};

use super::{
    CliError, DONE, NO,
    when::{parse_days, parse_seconds},
};
use crate::{
    authority::{Entropy, LeaseConfig},
    cluster::Clients,
    operator::{
        self, Exit, Parts,
        config::{
            Config, ConfigError, Numbers, check_lease_name, check_namespace, check_namespaces,
            check_object_name,
        },
    },
    providers::{
        http::{Network, Transport},
        simulated::{InProcess, SimulatedService},
    },
    telemetry::{
        Health, Metrics, health,
        logs::{self, DEFAULT_FILTER, LogFormat},
    },
    time::{LeaseClock, WallClock},
};

/// Exit code when leadership was lost: the process is to be started anew, as a Pod is.
const LOST: u8 = 4;
/// Exit code of the watchdog: the runtime did not notice in time that leadership was lost.
const STUCK: i32 = 5;

/// Seconds of a day.
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Arguments of `punctual run`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # As the chart runs it, in a Pod: what is to be set comes from the environment.
  punctual run
  # On a workstation, with the rights of the kubeconfig's context.
  punctual run --lease-namespace punctual-system

Exit codes: 0 it was asked to end; 1 something is wrong; 2 bad usage; 4 leadership was lost, and 5 the
same, noticed too late: the process is to be started anew, as a Pod is.")]
pub struct Args {
    /// Name of the Lease by which the replicas elect their leader.
    #[arg(long, env = "PUNCTUAL_LEASE_NAME", default_value = "punctual", value_name = "NAME")]
    lease_name: String,

    /// Namespace of the Lease [default: POD_NAMESPACE, else the namespace of the kubeconfig].
    #[arg(long, env = "PUNCTUAL_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    lease_namespace: Option<String>,

    /// How long a leader that stopped renewing keeps the Lease; at least 3s. A standby takes over
    /// about that long after a leader died.
    #[arg(
        long = "lease-duration",
        env = "PUNCTUAL_LEASE_DURATION",
        default_value = "10s",
        value_parser = parse_seconds,
        value_name = "DURATION"
    )]
    lease_seconds: u32,

    /// Work only in this namespace; may be repeated or separated by commas [default: all].
    #[arg(long, env = "PUNCTUAL_WATCH_NAMESPACE", value_delimiter = ',', value_name = "NAMESPACE")]
    watch_namespace: Vec<String>,

    /// Where /livez, /readyz and /metrics are served.
    #[arg(
        long,
        env = "PUNCTUAL_HEALTH_ADDRESS",
        default_value = "0.0.0.0:8080",
        value_name = "ADDRESS:PORT"
    )]
    health_address: SocketAddr,

    /// Accept runs of the provider `simulated`, which do nothing; for demonstrations and drills.
    #[arg(long, env = "PUNCTUAL_ALLOW_SIMULATED")]
    allow_simulated: bool,

    /// Let runs of the provider `http` call loopback and link-local addresses; for demonstrations.
    #[arg(long, env = "PUNCTUAL_ALLOW_LOCAL_PROVIDERS")]
    allow_local_providers: bool,

    /// Create no occurrences while the clock differs from the API server's by more.
    #[arg(
        long = "max-clock-skew",
        env = "PUNCTUAL_MAX_CLOCK_SKEW",
        default_value = "5s",
        value_parser = parse_seconds,
        value_name = "DURATION"
    )]
    max_clock_skew_seconds: u32,

    /// Added to every epoch. Raise it only while no replica runs, after a restore into a cluster
    /// whose resourceVersions are lower.
    #[arg(
        long,
        env = "PUNCTUAL_EPOCH_OFFSET",
        default_value_t = 0,
        allow_negative_numbers = true,
        value_name = "NUMBER"
    )]
    epoch_offset: i64,

    /// How long records are kept whose schedule was deleted.
    #[arg(
        long = "orphan-retention",
        env = "PUNCTUAL_ORPHAN_RETENTION",
        default_value = "90d",
        value_parser = parse_days,
        value_name = "DURATION"
    )]
    orphan_retention_days: u32,

    /// Most objects of one kind worked on at a time.
    #[arg(long, env = "PUNCTUAL_CONCURRENCY", default_value_t = 16, value_name = "NUMBER")]
    concurrency: u32,

    /// How log lines look.
    #[arg(long, env = "PUNCTUAL_LOG_FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,

    /// What is logged, for example info,punctual=debug.
    #[arg(
        long,
        env = "PUNCTUAL_LOG_FILTER",
        default_value = DEFAULT_FILTER,
        value_name = "DIRECTIVES"
    )]
    log_filter: String,

    /// Name of this replica [default: the host name].
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,

    /// Namespace of this replica.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pod_namespace: Option<String>,

    /// Uid of this replica's Pod; events about the process refer to it.
    #[arg(long, env = "POD_UID", value_name = "UID")]
    pod_uid: Option<String>,
}

impl Args {
    /// Checks everything; `host_name` and `kubeconfig_namespace` stand in for what was not given.
    fn into_config(
        self,
        host_name: &str,
        kubeconfig_namespace: Option<&str>,
    ) -> Result<Config, ConfigError> {
        let numbers = Numbers {
            lease_seconds: self.lease_seconds,
            max_clock_skew_seconds: self.max_clock_skew_seconds,
            epoch_offset: self.epoch_offset,
            orphan_retention_days: self.orphan_retention_days,
            concurrency: self.concurrency,
        };
        numbers.check()?;
        check_lease_name("lease-name", &self.lease_name)?;
        let lease_namespace = given(self.lease_namespace)
            .or_else(|| given(self.pod_namespace))
            .or_else(|| given(kubeconfig_namespace.map(str::to_owned)))
            .ok_or(ConfigError::NoLeaseNamespace)?;
        check_namespace("lease-namespace", &lease_namespace)?;
        let replica = given(self.pod_name).unwrap_or_else(|| host_name.to_lowercase());
        check_object_name("pod-name", &replica)?;
        Ok(Config {
            replica,
            pod_uid: given(self.pod_uid),
            lease_namespace,
            lease_name: self.lease_name,
            lease_seconds: numbers.lease_seconds,
            watch_namespaces: check_namespaces(self.watch_namespace)?,
            health_address: Some(self.health_address),
            allow_simulated: self.allow_simulated,
            allow_local_providers: self.allow_local_providers,
            max_clock_skew: Duration::from_secs(numbers.max_clock_skew_seconds.into()),
            epoch_offset: numbers.epoch_offset,
            orphan_retention: Duration::from_secs(
                u64::from(numbers.orphan_retention_days) * DAY_SECONDS,
            ),
            concurrency: usize::try_from(numbers.concurrency).unwrap_or(1),
        })
    }
}

/// Runs the operator until it is told to stop or loses leadership.
pub fn run(args: Args) -> Result<u8, CliError> {
    logs::init(args.log_format, &args.log_filter).map_err(|e| CliError::BadUsage(e.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| failed("cannot start", &error))?;
    let outcome = runtime.block_on(operate(args));
    // Whatever is still under way is fenced; nothing is waited for.
    runtime.shutdown_background();
    outcome
}

async fn operate(args: Args) -> Result<u8, CliError> {
    let lease = Duration::from_secs(u64::from(args.lease_seconds));
    let attempt = LeaseConfig::new(lease, args.epoch_offset)
        .map_err(|error| CliError::BadUsage(format!("--lease-duration: {error}")))?
        .attempt_timeout();
    let (clients, namespace) =
        Clients::connect(attempt).await.map_err(|error| failed("cannot connect", &error))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let config = args
        .into_config(&host, Some(&namespace))
        .map_err(|error| CliError::BadUsage(error.to_string()))?;
    let (lease_clock, wall_clock) = (LeaseClock::system(), WallClock::system());
    let health = Health::new(lease_clock.clone(), Arc::new(Metrics::new()));
    if let Some(address) = config.health_address {
        let listener =
            health::bind(address).await.map_err(|error| failed("cannot serve health", &error))?;
        tokio::spawn(health::serve(health.clone(), listener));
    }
    let entropy = Entropy::system();
    let simulated = config.allow_simulated.then(|| {
        let runs = InProcess::new(entropy.nonce(), lease_clock.clone(), wall_clock.clone());
        Arc::new(runs) as Arc<dyn SimulatedService>
    });
    let http: Arc<dyn Transport> = Arc::new(Network::new(config.allow_local_providers));
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|error| failed("cannot take signals", &error))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|error| failed("cannot take signals", &error))?;
    let stop = async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tracing::info!(replica = config.replica, version = env!("CARGO_PKG_VERSION"), "starting");
    let parts = Parts {
        clients,
        lease_clock,
        wall_clock,
        entropy,
        health,
        simulated,
        http: Some(http),
        watchdog_exit: Some(Box::new(|| {
            eprintln!("punctual: the validity of leadership ran out unnoticed; ending the process");
            std::process::exit(STUCK);
        })),
    };
    let exit =
        operator::run(config, parts, stop).await.map_err(|error| failed("cannot start", &error))?;
    tracing::info!(%exit, "ending");
    Ok(match exit {
        Exit::Stopped => DONE,
        Exit::Lost(_) => LOST,
        Exit::ControllersEnded => NO,
    })
}

/// An error and its causes as one sentence.
fn failed(what: &str, error: &dyn std::error::Error) -> CliError {
    let mut sentence = format!("{what}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        sentence = format!("{sentence}: {error}");
        cause = error.source();
    }
    CliError::Failed(sentence)
}

/// An environment variable that is set to nothing counts as not set.
fn given(value: Option<String>) -> Option<String> {
    value.filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _, builder::Resettable};

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    /// Parses without the environment: tests may themselves run in a Pod.
    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        let alone = Program::command().mut_args(|arg| arg.env(Resettable::Reset));
        let matches = alone.try_get_matches_from(["x"].iter().chain(flags))?;
        Ok(Program::from_arg_matches(&matches)?.args)
    }

    fn config(flags: &[&str]) -> Result<Config, ConfigError> {
        parse(flags).unwrap().into_config("Host-1", Some("from-kubeconfig"))
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let config = config(&[]).unwrap();
        let expected = Config {
            replica: "host-1".into(),
            pod_uid: None,
            lease_namespace: "from-kubeconfig".into(),
            lease_name: "punctual".into(),
            lease_seconds: 10,
            watch_namespaces: vec![],
            health_address: Some(([0, 0, 0, 0], 8080).into()),
            allow_simulated: false,
            allow_local_providers: false,
            max_clock_skew: Duration::from_secs(5),
            epoch_offset: 0,
            orphan_retention: Duration::from_secs(90 * 24 * 3600),
            concurrency: 16,
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn the_lease_is_in_the_namespace_that_was_named_nearest() {
        let namespace = |flags: &[&str]| config(flags).unwrap().lease_namespace;
        assert_eq!(namespace(&["--lease-namespace=a", "--pod-namespace=b"]), "a");
        assert_eq!(namespace(&["--pod-namespace=b"]), "b");
        assert_eq!(namespace(&["--pod-namespace="]), "from-kubeconfig");
        let nowhere = parse(&[]).unwrap().into_config("h", None);
        assert_eq!(nowhere, Err(ConfigError::NoLeaseNamespace));
    }

    #[test]
    fn namespaces_are_repeated_or_separated_by_commas() {
        let flags = ["--watch-namespace=b,a", "--watch-namespace", "c"];
        assert_eq!(config(&flags).unwrap().watch_namespaces, ["a", "b", "c"]);
    }

    #[test]
    fn bad_values_are_refused_with_the_name_of_their_flag() {
        for flags in [
            ["--lease-duration", "2s"],
            ["--max-clock-skew", "31s"],
            ["--orphan-retention", "0d"],
            ["--epoch-offset", "-5"],
            ["--lease-name", "A"],
            ["--lease-namespace", "a.b"],
            ["--watch-namespace", "*"],
            ["--pod-name", "a/b"],
            ["--concurrency", "0"],
        ] {
            let error = config(&flags).unwrap_err().to_string();
            assert!(error.starts_with(flags[0]), "{error}");
        }
    }

    #[test]
    fn what_is_no_number_or_address_is_refused_at_the_command_line() {
        for flag in [
            "--lease-duration=10",
            "--max-clock-skew=5",
            "--orphan-retention=36h",
            "--health-address=8080",
            "--log-format=xml",
        ] {
            assert!(parse(&[flag]).is_err(), "{flag}");
        }
    }
}
