//! One run of the test binary: its id, its folder, and the guarantee that nothing outlives it.

use std::{
    fs,
    future::Future,
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::LazyLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tokio::runtime::Runtime;

/// Marks every process of a run in its environment, so that the keeper ends nothing else, even if
/// the system has given a process id to another program meanwhile.
pub const RUN_ENV: &str = "PUNCTUAL_E2E_RUN";

/// Set to keep the run's folder (data, logs, audit log) after the end.
pub const KEEP_ENV: &str = "PUNCTUAL_E2E_KEEP";

/// Two worker threads drive all tests: the tests wait, the programs under test do the work.
const WORKER_THREADS: usize = 2;

/// Waits until the test process is gone, however it ended, then ends what it had started and
/// removes the run's folder. Twice, because a program may have been starting at that moment.
const KEEPER: &str = r#"
cat >/dev/null
for pass in 1 2; do
  for file in "$1"/pids/*; do
    pid=${file##*/}
    tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qxF "$2" && kill -9 "$pid"
  done
  sleep 0.1
done
[ -e "$1/keep" ] || rm -rf "$1"
"#;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build()
        .expect("a runtime can be built")
});

static RUN: LazyLock<Run> =
    LazyLock::new(|| Run::start().expect("a folder for the run can be made"));

/// Runs `future` on the calling test's thread. All tests share one runtime, because the shared
/// cluster's clients and processes belong to the runtime that made them.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

/// The present run.
pub fn run() -> &'static Run {
    &RUN
}

/// One run of the test binary.
pub struct Run {
    /// Distinguishes this run from others on the machine.
    pub id: String,
    /// Everything the run writes, except the artifacts of failures.
    pub dir: PathBuf,
    started: Instant,
    /// Held, never written: its closing tells the keeper that this process is gone.
    _lifeline: ChildStdin,
}

impl Run {
    fn start() -> io::Result<Self> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let id = format!("{:x}{:x}", std::process::id(), since_epoch.as_millis() & 0xff_ffff);
        let dir = std::env::temp_dir().join(format!("punctual-e2e-{id}"));
        fs::create_dir_all(dir.join("pids"))?;
        if std::env::var_os(KEEP_ENV).is_some() {
            fs::write(dir.join("keep"), "")?;
        }
        // Its own process group: an interrupt from the terminal must not end the keeper too.
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "punctual-e2e-keeper"])
            .arg(&dir)
            .arg(format!("{RUN_ENV}={id}"))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let lifeline = keeper.stdin.take().expect("stdin was asked for as a pipe");
        Ok(Self { id, dir, started: Instant::now(), _lifeline: lifeline })
    }

    /// The folder in which a running program's id stands as a file name.
    pub fn pids(&self) -> PathBuf {
        self.dir.join("pids")
    }
}

/// Prints a line of progress past libtest's capture, with the time since the run began.
pub fn progress(line: &str) {
    let elapsed = run().started.elapsed().as_secs_f32();
    // Nothing can be done if stderr is closed.
    let _ = writeln!(io::stderr(), "e2e {elapsed:6.1} s  {line}");
}

/// Where the dumps of failed tests go: outside the run's folder, which is removed.
pub fn artifacts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/artifacts").join(&run().id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::{
        error::{BedError, Context as _},
        processes::{Process, Spec},
        wait,
    };

    const INNER_ENV: &str = "PUNCTUAL_E2E_INNER";

    /// Starts a program, says which, and waits to be killed.
    fn inner(report: &Path) {
        block_on(async {
            let process = Process::start(Spec {
                name: "orphan".to_owned(),
                program: "sleep".into(),
                args: vec!["300".to_owned()],
                env: Vec::new(),
                unset: Vec::new(),
                log: run().dir.join("orphan.log"),
            })
            .unwrap();
            process.freeze().await.unwrap();
            let text = format!("{} {}", process.pid(), run().dir.display());
            fs::write(report.with_extension("new"), text).unwrap();
            fs::rename(report.with_extension("new"), report).unwrap();
            std::future::pending::<()>().await;
        });
    }

    #[test]
    fn nothing_outlives_a_killed_run() {
        if let Some(report) = std::env::var_os(INNER_ENV) {
            inner(Path::new(&report));
        }
        let report = run().dir.join("inner-run");
        let mut test = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bed::run::tests::nothing_outlives_a_killed_run"])
            .env(INNER_ENV, &report)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let seconds = std::time::Duration::from_secs(30);
        let told =
            block_on(wait::until("the inner run has started a program", seconds, || async {
                fs::read_to_string(&report).context(|| "read its report".to_owned())
            }))
            .unwrap();
        let (pid, dir) = told.split_once(' ').unwrap();
        assert!(Path::new("/proc").join(pid).exists());
        test.kill().unwrap();
        test.wait().unwrap();
        block_on(wait::until("all of the inner run is gone", seconds, || async {
            let left = [Path::new("/proc").join(pid), PathBuf::from(dir)];
            match left.iter().find(|path| path.exists()) {
                Some(path) => Err(BedError(format!("{} is there", path.display()))),
                None => Ok(()),
            }
        }))
        .unwrap();
    }
}
