//! kubectl and helm as a person runs them.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, process::Command};

use super::error::{BedError, Context as _, Result};

/// No call of these programs takes longer on a cluster that answers: longer than any `--timeout` that
/// a scenario gives one.
const CALL_DEADLINE: Duration = Duration::from_secs(150);

/// What a program said.
#[derive(Clone, Debug)]
pub struct Said {
    /// Whether its exit code was 0.
    pub ok: bool,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A command-line tool with a kubeconfig and a default namespace.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: Option<String>,
}

impl Kubectl {
    /// kubectl for a cluster.
    pub fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self { program, kubeconfig, namespace: None }
    }

    /// The same with a default namespace.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self.clone() }
    }

    /// Runs it with `stdin` and returns what it said, whatever its exit code.
    pub async fn try_run(&self, args: &[&str], stdin: &str) -> Result<Said> {
        let mut all: Vec<&str> = Vec::new();
        if let Some(namespace) = &self.namespace {
            all.extend(["--namespace", namespace]);
        }
        all.extend(args);
        call(&self.program, &all, &self.kubeconfig, stdin).await
    }

    /// Runs it and returns its standard output; an error with its standard error if it fails.
    pub async fn run(&self, args: &[&str]) -> Result<String> {
        self.run_with(args, "").await
    }

    /// The same with `stdin`.
    pub async fn run_with(&self, args: &[&str], stdin: &str) -> Result<String> {
        let said = self.try_run(args, stdin).await?;
        if said.ok {
            return Ok(said.stdout);
        }
        Err(BedError(format!("kubectl {}: {}", args.join(" "), said.stderr.trim())))
    }

    /// `kubectl apply` of manifests; returns what it said, warnings on stderr included.
    pub async fn apply(&self, manifests: &str) -> Result<Said> {
        self.try_run(&["apply", "-f", "-"], manifests).await
    }

    /// `kubectl get … -o json`.
    pub async fn get(&self, args: &[&str]) -> Result<Value> {
        let mut all = vec!["get", "-o", "json"];
        all.extend(args);
        let text = self.run(&all).await?;
        serde_json::from_str(&text)
            .context(|| format!("read what kubectl get {} said", args.join(" ")))
    }
}

/// Runs a tool with `KUBECONFIG` set.
pub async fn call(program: &Path, args: &[&str], kubeconfig: &Path, stdin: &str) -> Result<Said> {
    let name = program.display();
    let mut child = Command::new(program)
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context(|| format!("start {name}"))?;
    let mut input = child.stdin.take().expect("stdin was asked for as a pipe");
    let finished = async {
        // A program that does not read its input has closed it: its own message says why.
        let _ = input.write_all(stdin.as_bytes()).await;
        drop(input);
        child.wait_with_output().await
    };
    let output = tokio::time::timeout(CALL_DEADLINE, finished)
        .await
        .map_err(|_| {
            BedError(format!("{name} {}: no answer in {CALL_DEADLINE:?}", args.join(" ")))
        })?
        .context(|| format!("run {name}"))?;
    Ok(Said {
        ok: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
