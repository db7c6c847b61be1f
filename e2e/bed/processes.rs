//! Programs under test: started, frozen, continued, killed, started again.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Mutex,
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::{process::Command, sync::watch, time::Instant};

use super::{
    error::{BedError, Context as _, Result},
    run::{RUN_ENV, run},
};

/// How long the kernel may take to stop all threads of a process or to end it.
const SIGNAL_DEADLINE: Duration = Duration::from_secs(10);
/// How often the state of a process is looked at while waiting for it.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Lines of a log that are shown when its program failed.
const TAIL_LINES: usize = 25;

/// Writes its own id where the keeper looks, then becomes the program: no moment in between at
/// which the program runs unseen.
const REGISTER: &str = r#"echo >"$1/$$" || exit 125; shift; exec "$@""#;

/// What to start.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Name for messages and for the log file.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment on top of the inherited one.
    pub env: Vec<(String, OsString)>,
    /// Variables of the inherited environment that it must not see.
    pub unset: Vec<String>,
    /// Where stdout and stderr go; started again, it appends.
    pub log: PathBuf,
}

/// A program under test. Dropping it leaves it running; the keeper ends it with the run.
pub struct Process {
    spec: Spec,
    life: Mutex<Life>,
}

/// One life of a program: from a start to the end it came to.
#[derive(Clone)]
struct Life {
    /// Counts its starts from 1.
    number: u32,
    pid: u32,
    /// A handle that can never mean another process, even after the id was given away.
    handle: std::sync::Arc<OwnedFd>,
    exit: watch::Receiver<Option<ExitStatus>>,
}

impl Process {
    /// Starts the program.
    pub fn start(spec: Spec) -> Result<Self> {
        let life = Mutex::new(spawn(&spec, 1)?);
        Ok(Self { spec, life })
    }

    fn life(&self) -> Life {
        self.life.lock().expect("no holder panics").clone()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its process id in its present life.
    pub fn pid(&self) -> u32 {
        self.life().pid
    }

    /// How often it was started.
    pub fn lives(&self) -> u32 {
        self.life().number
    }

    /// Its log.
    pub fn log(&self) -> &Path {
        &self.spec.log
    }

    /// How it ended, if it has ended.
    pub fn exit(&self) -> Option<ExitStatus> {
        *self.life().exit.borrow()
    }

    /// Whether it runs or is frozen.
    pub fn alive(&self) -> bool {
        self.exit().is_none()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        pidfd_send_signal(self.life().handle.as_ref(), signal)
            .context(|| format!("send {signal:?} to {}", self.spec.name))
    }

    /// Freezes it (SIGSTOP) and returns when all of it stands still.
    pub async fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let deadline = Instant::now() + SIGNAL_DEADLINE;
        while !stopped(self.pid()) {
            if Instant::now() > deadline || !self.alive() {
                return Err(BedError(format!("{} cannot be frozen", self.spec.name)));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Lets a frozen one go on (SIGCONT).
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end (SIGTERM); does not wait.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends it at once (SIGKILL), frozen or not, and waits until it is gone.
    pub async fn kill(&self) -> Result<()> {
        if self.alive() {
            // It may end by itself at this very moment; the wait below tells.
            let _ = self.signal(Signal::KILL);
        }
        self.wait_exit(SIGNAL_DEADLINE).await.map(|_| ())
    }

    /// The end of its present life.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut exit = self.life().exit;
        // An error means that nobody sees its end any more, which is an end too.
        async move { drop(exit.wait_for(Option::is_some).await) }
    }

    /// Waits for its end.
    pub async fn wait_exit(&self, within: Duration) -> Result<ExitStatus> {
        let mut exit = self.life().exit;
        let status = match tokio::time::timeout(within, exit.wait_for(Option::is_some)).await {
            Ok(Ok(status)) => *status,
            Ok(Err(_)) => None,
            Err(_) => {
                return Err(BedError(format!("{} still runs after {within:?}", self.spec.name)));
            }
        };
        status.ok_or_else(|| BedError(format!("nobody saw how {} ended", self.spec.name)))
    }

    /// Kills it if it runs, and starts it again with the same arguments and log.
    pub async fn restart(&self) -> Result<()> {
        self.kill().await?;
        let number = self.lives() + 1;
        *self.life.lock().expect("no holder panics") = spawn(&self.spec, number)?;
        Ok(())
    }

    /// An error with the end of the log if it has ended.
    pub fn check_alive(&self) -> Result<()> {
        match self.exit() {
            None => Ok(()),
            Some(status) => Err(BedError(format!(
                "{} ended with {}; the end of its log:\n{}",
                self.spec.name,
                describe(status),
                tail(&self.spec.log, TAIL_LINES)
            ))),
        }
    }
}

fn spawn(spec: &Spec, number: u32) -> Result<Life> {
    let pids = run().pids();
    let log = File::options()
        .create(true)
        .append(true)
        .open(&spec.log)
        .context(|| format!("open {}", spec.log.display()))?;
    let log_too = log.try_clone().context(|| "copy a file handle".to_owned())?;
    let mut command = Command::new("sh");
    command
        .args(["-c", REGISTER, "sh"])
        .arg(&pids)
        .arg(&spec.program)
        .args(&spec.args)
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .env(RUN_ENV, &run().id)
        .current_dir(&run().dir)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too)
        // An interrupt from the terminal reaches the test process only; the keeper does the rest.
        .process_group(0);
    for name in &spec.unset {
        command.env_remove(name);
    }
    let mut child = command.spawn().context(|| format!("start {}", spec.program.display()))?;
    let pid = child.id().ok_or_else(|| BedError(format!("{} ended at once", spec.name)))?;
    let handle = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| BedError(format!("{pid} is no process id")))
        .and_then(|pid| {
            pidfd_open(pid, PidfdFlags::empty()).context(|| format!("watch {}", spec.name))
        })?;
    let (report, exit) = watch::channel(None);
    tokio::spawn(async move {
        let status = child.wait().await.ok();
        // Only now may the id be given to another process.
        let _ = fs::remove_file(pids.join(pid.to_string()));
        let _ = report.send(status);
    });
    Ok(Life { number, pid, handle: std::sync::Arc::new(handle), exit })
}

/// Whether every thread of the process stands still.
fn stopped(pid: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    tasks.flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The state follows the name, which stands in brackets and may contain anything.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

/// The last `lines` lines of a file.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::run::block_on;

    fn sleeper(name: &str) -> Spec {
        Spec {
            name: name.to_owned(),
            program: "sleep".into(),
            args: vec!["300".to_owned()],
            env: Vec::new(),
            unset: Vec::new(),
            log: run().dir.join(format!("{name}.log")),
        }
    }

    #[test]
    fn a_process_is_frozen_thawed_killed_and_restarted() {
        block_on(async {
            let process = Process::start(sleeper("sleeper")).unwrap();
            let first = process.pid();
            assert!(run().pids().join(first.to_string()).exists() || process.alive());
            process.freeze().await.unwrap();
            assert!(stopped(first));
            assert!(process.alive(), "frozen is not dead");
            process.thaw().unwrap();
            process.restart().await.unwrap();
            assert_ne!(process.pid(), first);
            assert!(!run().pids().join(first.to_string()).exists(), "the keeper must forget it");
            process.terminate().unwrap();
            let status = process.wait_exit(SIGNAL_DEADLINE).await.unwrap();
            assert_eq!(status.signal(), Some(15));
            assert!(process.check_alive().unwrap_err().to_string().contains("signal 15"));
        });
    }

    #[test]
    fn a_frozen_process_can_be_killed() {
        block_on(async {
            let process = Process::start(sleeper("frozen-sleeper")).unwrap();
            process.freeze().await.unwrap();
            process.kill().await.unwrap();
            assert_eq!(process.exit().and_then(|status| status.signal()), Some(9));
        });
    }
}
