//! `punctual logs`: what the pod of an attempt wrote.

use std::io::{self, Write as _};

use futures::{AsyncBufRead, AsyncReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;

use super::{
    CliError, DONE,
    act::work::{Piece, RunsOn, Work},
    target::{Connection, Target, TargetKind, WORK, block_on, read},
    trouble::Call,
};
use crate::{
    api::{Attempt, LABEL_PARENT_UID, MaintenanceOccurrence, ReportJob},
    cluster::{ObjectKey, Person},
};

/// Annotation of a pod that names its most important container, as kubectl knows it.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Bytes that are copied at one time: a screen of text, and a followed line is shown at once anyway.
const CHUNK: usize = 16 * 1024;

/// Arguments of `punctual logs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What the newest attempt wrote.
  kubectl punctual logs mocc/nightly-retention-202611290200
  # Follow the container main of the second attempt.
  kubectl punctual logs rjob/acme-usage-2026-11 --attempt 2 --container main --follow

Exit codes: 0 done; 1 there is no log, or something is wrong; 2 bad usage.")]
pub struct Args {
    /// Whose log, like mocc/nightly-retention-202611290200 or rjob/acme-usage-2026-11.
    object: String,
    /// Number of the attempt, as in status.attempts [default: the newest]
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// Go on until the container has ended.
    #[arg(short, long)]
    follow: bool,
    /// Which container [default: the one that the pod names as its default, else its first]
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Only so many lines from the end.
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(i64).range(0..))]
    tail: Option<i64>,
    #[command(flatten)]
    connection: Connection,
}

/// Runs `punctual logs`.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let target = Target::parse(&args.object, &WORK)?;
    block_on(async {
        let person = args.connection.connect().await?;
        let name = &target.name;
        let work = match target.kind {
            TargetKind::ReportJob => read::<ReportJob>(&person, name).await?.work(),
            _ => read::<MaintenanceOccurrence>(&person, name).await?.work(),
        };
        let attempt = attempt(&work, args.attempt)?;
        let pod = pod_of(&person, &work, attempt).await?;
        let container = container(&pod, args.container.as_deref())?;
        let wanted = LogParams {
            container: Some(container),
            follow: args.follow,
            tail_lines: args.tail,
            ..LogParams::default()
        };
        let call = Call::of::<Pod>("get", &person).about("log");
        let log = person.logs(&ObjectKey::of(&pod.metadata), &wanted).await;
        copy(log.map_err(|error| call.failed(error))?).await?;
        Ok(DONE)
    })
}

/// The attempt that is meant, if it can have a pod.
fn attempt(work: &Work, number: Option<i32>) -> Result<&Attempt, CliError> {
    let Work { target, recorded, attempts, .. } = work;
    let found = match number {
        None => attempts.last(),
        Some(number) => attempts.iter().find(|attempt| attempt.number == number),
    };
    let no = |why: String| Err(CliError::Failed(why));
    let Some(attempt) = found else {
        let numbers: Vec<String> = attempts.iter().map(|one| one.number.to_string()).collect();
        return no(match number {
            Some(number) if !numbers.is_empty() => {
                format!("{target} has no attempt {number}; it has {}", numbers.join(", "))
            }
            _ => format!("{recorded}. No attempt was prepared yet, so there is no log"),
        });
    };
    match &work.runs_on {
        RunsOn::Service(url) => no(format!(
            "{target} runs at the execution service {url}, which keeps the log: ask there for run {}",
            attempt.run_key
        )),
        RunsOn::Simulation => no(format!(
            "the run of {target} is simulated: nothing executes, so nothing writes a log"
        )),
        RunsOn::Job | RunsOn::Unknown => Ok(attempt),
    }
}

/// The pod of an attempt.
async fn pod_of(person: &Person, work: &Work, attempt: &Attempt) -> Result<Pod, CliError> {
    let label = format!("{LABEL_PARENT_UID}={}", work.uid);
    let call = Call::of::<Pod>("list", person);
    let listed = person.reader().list::<Pod>(Some(person.namespace()), Some(&label)).await;
    let pods = listed.map_err(|error| call.failed(error))?.items;
    choose(pods, attempt).ok_or_else(|| {
        let Work { target, recorded, .. } = work;
        let number = attempt.number;
        CliError::Failed(if attempt.start_time.is_some() || attempt.outcome.is_some() {
            format!(
                "the pod of attempt {number} of {target} is gone, and its log with it; a log store of \
                 the cluster may have it under the label {label}"
            )
        } else {
            format!("{recorded}. Attempt {number} has no pod yet; try again once it runs")
        })
    })
}

/// The pod that belongs to the committed handle: the very one that was seen, else one that the Job
/// with this uid made.
fn choose(pods: Vec<Pod>, attempt: &Attempt) -> Option<Pod> {
    let handle = attempt.handle.as_deref()?;
    let recorded = attempt.pod.as_ref().map(|pod| pod.uid.as_str());
    let mut of_handle: Vec<Pod> = pods
        .into_iter()
        .filter(|pod| {
            let owners = pod.metadata.owner_references.iter().flatten();
            owners.into_iter().any(|owner| owner.uid == handle)
        })
        .collect();
    let at = of_handle.iter().position(|pod| pod.metadata.uid.as_deref() == recorded);
    (!of_handle.is_empty()).then(|| of_handle.swap_remove(at.unwrap_or(0)))
}

/// The container that is meant.
fn container(pod: &Pod, wanted: Option<&str>) -> Result<String, CliError> {
    let spec = pod.spec.as_ref();
    let all: Vec<&str> = spec
        .map(|spec| {
            let init = spec.init_containers.iter().flatten();
            spec.containers.iter().chain(init).map(|one| one.name.as_str()).collect()
        })
        .unwrap_or_default();
    let named = pod.metadata.annotations.as_ref().and_then(|all| all.get(DEFAULT_CONTAINER));
    let choice = wanted.or(named.map(String::as_str)).or(all.first().copied());
    match choice {
        Some(name) if all.contains(&name) => Ok(name.to_owned()),
        _ => Err(CliError::Failed(format!(
            "the pod {} has no container {:?}; it has {}",
            pod.metadata.name.as_deref().unwrap_or_default(),
            choice.unwrap_or_default(),
            all.join(", ")
        ))),
    }
}

/// Copies the log to standard output as it comes.
async fn copy(log: impl AsyncBufRead) -> Result<(), CliError> {
    let mut log = std::pin::pin!(log);
    let mut chunk = vec![0; CHUNK];
    let mut out = io::stdout();
    loop {
        let read = log.read(&mut chunk).await;
        let read = read.map_err(|error| CliError::Failed(format!("the log broke off: {error}")))?;
        if read == 0 {
            return Ok(());
        }
        match out.write_all(&chunk[..read]).and_then(|()| out.flush()) {
            // The reader has seen enough, as in `punctual logs … | head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(CliError::Failed(format!("cannot print: {error}"))),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::act::work::made;

    fn work(run: &Value) -> Work {
        let attempts = [made::failed(1), made::attempt(2)];
        made::occurrence(&json!({}), &json!({"state": "Running", "attempts": attempts, "run": run}))
            .work()
    }

    fn pod(name: &str, uid: &str, owner: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "uid": uid,
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner}],
            },
            "spec": {"containers": [{"name": "main"}, {"name": "side"}],
                     "initContainers": [{"name": "first"}]},
        }))
        .unwrap()
    }

    #[test]
    fn the_newest_attempt_is_meant_unless_one_is_named() {
        let job = work(&json!({"job": {"template": {}}}));
        assert_eq!(attempt(&job, None).unwrap().number, 2);
        assert_eq!(attempt(&job, Some(1)).unwrap().number, 1);
        let none = attempt(&job, Some(3)).unwrap_err().to_string();
        assert!(none.contains("no attempt 3; it has 1, 2"), "{none}");
        let waits = made::report(&json!({}), &json!({"state": "Queued"})).work();
        assert!(attempt(&waits, None).unwrap_err().to_string().contains("No attempt"));
    }

    #[test]
    fn what_runs_elsewhere_says_where_to_look() {
        let http = work(&json!({"http": {"url": "https://runner/v1"}}));
        let said = attempt(&http, Some(1)).unwrap_err().to_string();
        assert!(said.contains("https://runner/v1") && said.contains("run k-m1"), "{said}");
        let simulated = work(&json!({"simulated": {}}));
        assert!(attempt(&simulated, None).unwrap_err().to_string().contains("simulated"));
    }

    #[test]
    fn only_a_pod_of_the_committed_handle_is_shown() {
        let mut wanted: Attempt = serde_json::from_value(made::attempt(2)).unwrap();
        let pods = || vec![pod("x", "1", "other"), pod("a", "2", "h"), pod("b", "3", "h")];
        let name = |pod: Option<Pod>| pod.and_then(|pod| pod.metadata.name);
        assert_eq!(name(choose(pods(), &wanted)).as_deref(), Some("a"));
        wanted.pod = serde_json::from_value(json!({"uid": "3"})).unwrap();
        assert_eq!(name(choose(pods(), &wanted)).as_deref(), Some("b"), "the one that was seen");
        wanted.handle = Some("gone".to_owned());
        assert!(choose(pods(), &wanted).is_none());
        wanted.handle = None;
        assert!(choose(pods(), &wanted).is_none(), "nothing was committed");
    }

    #[test]
    fn the_container_is_the_one_named_else_the_default_else_the_first() {
        let mut one = pod("a", "1", "h");
        assert_eq!(container(&one, None).unwrap(), "main");
        assert_eq!(container(&one, Some("first")).unwrap(), "first");
        let wrong = container(&one, Some("none")).unwrap_err().to_string();
        assert!(wrong.contains("main, side, first"), "{wrong}");
        let annotation = (DEFAULT_CONTAINER.to_owned(), "side".to_owned());
        one.metadata.annotations = Some([annotation].into());
        assert_eq!(container(&one, None).unwrap(), "side");
    }
}
