//! The API server's audit log: what was asked for, by whom, what became of it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{
    Bed,
    error::{BedError, Context as _, Result},
    objects, wait,
};

/// The API server writes an entry before or just after it answers.
const FLUSH_DEADLINE: Duration = Duration::from_secs(30);
/// Times a log is read anew when it was rotated while it was read.
const READS: usize = 5;

/// Waits until the log holds everything that was answered before this call: a request that can be
/// recognised is sent, and its entry awaited.
pub async fn flush(bed: &Bed, namespace: &str, dir: &Path) -> Result<()> {
    let marker = format!("audit-marker-{}", kube_unique(namespace));
    let configmap = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": marker}});
    objects::api(&bed.client, namespace, "configmap")
        .patch(&marker, &PatchParams::apply("punctual-e2e"), &Patch::Apply(configmap))
        .await
        .context(|| "write the audit marker".to_owned())?;
    wait::until("the audit log holds the marker", FLUSH_DEADLINE, || async {
        if lines(dir, &marker)?.is_empty() {
            return Err(BedError("not there yet".to_owned()));
        }
        Ok(())
    })
    .await
}

/// A name that no earlier marker of this run has.
fn kube_unique(namespace: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{namespace}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// All complete lines that contain `needle`, of the log and of what was rotated away, oldest first.
pub fn lines(dir: &Path, needle: &str) -> Result<Vec<String>> {
    for _ in 0..READS {
        let before = files(dir)?;
        let mut found = Vec::new();
        for path in &before {
            let text = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
            // The last line may be half written; its rest comes with the next read.
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            found.extend(complete.lines().filter(|line| line.contains(needle)).map(str::to_owned));
        }
        if files(dir)? == before {
            return Ok(found);
        }
    }
    Err(BedError(format!("{} is rotated faster than it can be read", dir.display())))
}

/// The log's files. The API server renames `audit.log` to `audit-<time>.log`, which sorts before it
/// (`-` before `.`) and by time.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).context(|| format!("read {}", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::run::run;

    #[test]
    fn rotated_files_come_first_and_a_torn_last_line_waits() {
        let dir = run().dir.join("audit-reading");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("audit.log"), "x 3\ny\nx 4").unwrap();
        fs::write(dir.join("audit-2026-11-29T21-00-00.000.log"), "x 2\n").unwrap();
        fs::write(dir.join("audit-2026-11-29T20-00-00.000.log"), "x 1\n").unwrap();
        assert_eq!(lines(&dir, "x").unwrap(), ["x 1", "x 2", "x 3"]);
    }

    #[test]
    fn a_missing_log_is_an_error() {
        assert!(lines(Path::new("/nonexistent/audit"), "x").is_err());
    }
}
