//! The programs of the bed: built once by `e2e/tools/build`, or found in the PATH.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio};

use tokio::process::Command;

use super::{
    error::{BedError, Context as _, Result},
    run::progress,
};

/// Program name → path.
#[derive(Clone, Debug)]
pub struct Tools(BTreeMap<String, PathBuf>);

impl Tools {
    /// All programs of a control plane of our own; builds what is missing (minutes, once).
    pub async fn for_own_cluster() -> Result<Self> {
        Self::build(&[]).await
    }

    /// kubectl and helm for a cluster that exists: from the PATH if they are there.
    pub async fn for_other_cluster() -> Result<Self> {
        let mut found = BTreeMap::new();
        for tool in ["kubectl", "helm"] {
            if let Some(path) = in_path(tool) {
                found.insert(tool.to_owned(), path);
            } else {
                progress(&format!("{tool} is not in the PATH: using the one of e2e/tools"));
                found.extend(Self::build(&[tool]).await?.0);
            }
        }
        Ok(Self(found))
    }

    async fn build(programs: &[&str]) -> Result<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/tools/build");
        // Its progress goes to the terminal: a first build takes minutes.
        let output = Command::new(script)
            .args(programs)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .await
            .context(|| format!("run {script}"))?;
        if !output.status.success() {
            return Err(BedError(format!("{script} failed with {}", output.status)));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Self(
            text.lines()
                .filter_map(|line| line.split_once('='))
                .map(|(name, path)| (name.to_owned(), PathBuf::from(path)))
                .collect(),
        ))
    }

    /// Path of one program.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        self.0
            .get(name)
            .cloned()
            .ok_or_else(|| BedError(format!("{name} was not built by e2e/tools/build")))
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}
