//! Reads the repository that the tests are about.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Text files below `folder` that `wanted` accepts, in order of their paths: (path, text). None if
/// there is no such folder.
pub(crate) fn files(folder: &str, wanted: &dyn Fn(&Path) -> bool) -> Vec<(String, String)> {
    /// Deeper than any folder of this repository; a link that goes round would be.
    const MAX_DEPTH: usize = 16;
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![(root.join(folder), 0)];
    while let Some((path, depth)) = open.pop() {
        if path.is_dir() {
            assert!(depth < MAX_DEPTH, "{} is too deep", path.display());
            let entries = fs::read_dir(&path).expect("a folder of the repository is readable");
            open.extend(entries.map(|e| (e.expect("entries are readable").path(), depth + 1)));
        } else if wanted(&path)
            && let Ok(text) = fs::read_to_string(&path)
        {
            let relative = path.strip_prefix(&root).expect("found below the root");
            found.push((relative.to_string_lossy().replace('\\', "/"), text));
        }
    }
    found.sort();
    found
}

/// Whether a file's name ends like this, without the dot.
pub(crate) fn ends_in(ending: &str) -> impl Fn(&Path) -> bool + '_ {
    move |path| path.extension().is_some_and(|have| have == ending)
}
