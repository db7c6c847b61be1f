//! What is kept of a failed test, so that it can be understood without running it again.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Bed, audit, kubectl::Kubectl, processes::tail, run::artifacts};

/// Kinds of which every object of the namespace is written down.
const KINDS: &str = "maintenanceschedules,maintenanceoccurrences,reportqueues,reportjobs,reportschedules,recoverytraces,leases,jobs,pods,events,configmaps";
/// How long kubectl waits for an API server that may be the thing that broke.
const PATIENCE: &str = "--request-timeout=5s";
/// Lines kept of the logs of the cluster's programs.
const LOG_LINES: usize = 400;
/// Entries kept of the audit log, of those that name the namespace.
const AUDIT_LINES: usize = 2000;

/// Runs whose dumps are kept: enough to compare, and the disk does not fill.
const RUNS_KEPT: usize = 10;

/// Writes the state of a test's namespace and the logs of everything around it; returns the folder.
/// Never fails: what cannot be had is said in the file where it would stand.
pub async fn write(
    bed: &Bed,
    test: &str,
    namespace: &str,
    logs: &[PathBuf],
    error: &str,
) -> PathBuf {
    let dir = artifacts().join(test);
    // If the folder cannot be made nothing below can be written, and the test's own error stands.
    let _ = fs::create_dir_all(&dir);
    forget_old_runs();
    put(&dir, "error.txt", error);
    if let Ok(kubectl) = bed.kubectl() {
        objects(&dir, &kubectl.in_namespace(namespace)).await;
    }
    for log in logs {
        let name = log.file_name().and_then(|name| name.to_str()).unwrap_or("log");
        // A replica that never started has no log.
        let _ = fs::copy(log, dir.join(name));
    }
    if let Ok(plane) = bed.plane() {
        for process in plane.processes() {
            put(&dir, &format!("{}.log", process.name()), &tail(process.log(), LOG_LINES));
        }
        let entries = audit::lines(&plane.audit_dir(), namespace)
            .unwrap_or_else(|error| vec![error.to_string()]);
        let last = &entries[entries.len().saturating_sub(AUDIT_LINES)..];
        put(&dir, "audit.jsonl", &last.join("\n"));
    }
    dir
}

async fn objects(dir: &Path, kubectl: &Kubectl) {
    let wide = match kubectl
        .try_run(&["get", KINDS, "-o", "wide", "--ignore-not-found", PATIENCE], "")
        .await
    {
        Ok(said) => said.stdout + &said.stderr,
        Err(error) => error.to_string(),
    };
    put(dir, "objects.txt", &wide);
    for kind in KINDS.split(',') {
        let text = match kubectl
            .try_run(&["get", kind, "-o", "yaml", "--ignore-not-found", PATIENCE], "")
            .await
        {
            Ok(said) => said.stdout + &said.stderr,
            Err(error) => error.to_string(),
        };
        put(dir, &format!("{kind}.yaml"), &text);
    }
}

fn put(dir: &Path, name: &str, text: &str) {
    // A full disk must not hide the error of the test.
    let _ = fs::write(dir.join(name), text);
}

/// Removes the dumps of all but the newest runs.
fn forget_old_runs() {
    let Some(parent) = artifacts().parent().map(Path::to_owned) else { return };
    let Ok(entries) = fs::read_dir(parent) else { return };
    let mut runs: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    runs.sort();
    let old = runs.len().saturating_sub(RUNS_KEPT);
    for (_, path) in &runs[..old] {
        // Another run may be removing it too.
        let _ = fs::remove_dir_all(path);
    }
}
