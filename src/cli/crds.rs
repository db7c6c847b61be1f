//! `punctual crds`.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{CliError, DONE};
use crate::{api, yaml};

/// Arguments of `punctual crds`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Install or update them.
  kubectl punctual crds | kubectl apply --server-side -f -
  # One file for each kind.
  kubectl punctual crds --dir crds/")]
pub struct Args {
    /// Write one file for each kind into this directory, in place of printing. May be given again.
    #[arg(long, value_name = "DIRECTORY")]
    dir: Vec<PathBuf>,
}

/// Prints all CustomResourceDefinitions as YAML documents, in a stable order, or writes them to files.
///
/// `punctual crds | kubectl apply --server-side -f -` installs or updates them.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let documents = documents()?;
    if args.dir.is_empty() {
        let texts: Vec<_> = documents.iter().flat_map(|(_, text)| ["---\n", text]).collect();
        return match io::stdout().write_all(texts.concat().as_bytes()) {
            // The reader has seen enough, as in `punctual crds | head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(DONE),
            Err(error) => Err(CliError::Failed(format!("cannot print: {error}"))),
            Ok(()) => Ok(DONE),
        };
    }
    for directory in &args.dir {
        for (name, text) in &documents {
            write(&directory.join(name), text)?;
        }
    }
    Ok(DONE)
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    fs::write(path, text)
        .map_err(|error| CliError::Failed(format!("cannot write {}: {error}", path.display())))
}

/// File name and content for each kind, in the order of [`api::crds`].
fn documents() -> Result<Vec<(String, String)>, CliError> {
    api::crds().iter().map(|crd| Ok((file_name(crd), document(crd)?))).collect()
}

/// The kind's plural name: unique in the group, and stable.
fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}.yaml", crd.spec.names.plural)
}

fn document(crd: &CustomResourceDefinition) -> Result<String, CliError> {
    yaml::to_string(crd).map_err(|error| CliError::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The files that are checked in: for people, and the copy that Helm can read.
    const COPIES: [&str; 2] = ["crds", "charts/punctual/files/crds"];

    fn checked_in(directory: &Path) -> BTreeMap<String, String> {
        fs::read_dir(directory)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect()
    }

    #[test]
    fn the_checked_in_files_are_what_the_types_say() {
        let expected: BTreeMap<_, _> = documents().unwrap().into_iter().collect();
        for copy in COPIES {
            let found = checked_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join(copy));
            assert!(found == expected, "{copy} differs from the types: run `make gen`");
        }
    }

    #[test]
    fn documents_read_back_as_what_they_were() {
        for (crd, (_, text)) in api::crds().iter().zip(documents().unwrap()) {
            let read: CustomResourceDefinition = yaml::from_str(&text).unwrap();
            assert_eq!(read, *crd);
        }
    }
}
