//! `punctual fake-provider`: a reference service for the provider `http`.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use tokio::net::TcpListener;

use super::{CliError, DONE};
use crate::{
    fakeprovider::{book::Habits, faults::Fault, server, service::Service},
    telemetry::logs::{self, DEFAULT_FILTER, LogFormat},
    time::WallClock,
};

/// Exit code of the fault `crash`, that of a process that SIGKILL ended.
const CRASHED: i32 = 137;

/// Arguments of `punctual fake-provider`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # For a run with http: {url: http://127.0.0.1:8700}.
  kubectl punctual fake-provider
  # Runs take a minute, and requests need a token.
  kubectl punctual fake-provider --listen 127.0.0.1:9000 --token-file token --duration-seconds 60")]
pub struct Args {
    /// Where it listens.
    #[arg(long, default_value = "127.0.0.1:8700", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// File with its records; made if it is not there.
    #[arg(long, default_value = "fake-provider.jsonl", value_name = "FILE")]
    state: PathBuf,
    /// File with the token that requests need.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Say that runs cannot be held, and start them at once.
    #[arg(long)]
    no_hold: bool,
    /// How long a run takes that says nothing else.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(i64).range(0..=2_592_000), value_name = "SECONDS")]
    duration_seconds: i64,
    /// A fault from the start: KIND[,match=GLOB][,on=OPERATION][,times=N][,millis=N]; may be
    /// repeated. Later ones go in front.
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,
}

/// Serves until the process is ended.
pub fn run(args: &Args) -> Result<u8, CliError> {
    logs::init(LogFormat::default(), DEFAULT_FILTER)
        .map_err(|error| CliError::BadUsage(error.to_string()))?;
    let service = open(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.listen).await.map_err(|error| {
            CliError::Failed(format!("--listen {}: cannot listen there: {error}", args.listen))
        })?;
        let address = listener.local_addr().unwrap_or(args.listen);
        println!("fake provider: http://{address}, records in {}", args.state.display());
        let crash: server::Crash = Arc::new(|| std::process::exit(CRASHED));
        tokio::select! {
            biased;
            stopped = tokio::signal::ctrl_c() => {
                stopped.map_err(|error| CliError::Failed(format!("cannot take signals: {error}")))?;
            }
            never = server::serve(Arc::new(service), listener, crash) => match never {},
        }
        Ok(DONE)
    })
}

fn open(args: &Args) -> Result<Service, CliError> {
    let token = match &args.token_file {
        None => None,
        Some(path) => {
            let read = std::fs::read_to_string(path).map_err(|error| {
                CliError::BadUsage(format!("--token-file {}: {error}", path.display()))
            })?;
            Some(read.trim().to_owned()).filter(|token| !token.is_empty())
        }
    };
    if args.token_file.is_some() && token.is_none() {
        return Err(CliError::BadUsage("--token-file: it is empty; write a token into it".into()));
    }
    let habits = Habits { hold: !args.no_hold, seconds: args.duration_seconds };
    let service =
        Service::open(&args.state, WallClock::system(), habits, token).map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            CliError::Failed(format!(
                "--state {}: {error}{}",
                args.state.display(),
                cause.unwrap_or_default()
            ))
        })?;
    for fault in &args.fault {
        service.arm(fault.clone()).map_err(CliError::BadUsage)?;
    }
    Ok(service)
}
