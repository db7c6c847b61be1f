//! `punctual crds`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{CliError, DONE};
use crate::{api, yaml};

/// Arguments of `punctual crds`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints all CustomResourceDefinitions as YAML documents, in a stable order.
///
/// `punctual crds | kubectl apply --server-side -f -` installs or updates them.
pub fn run(_: &Args) -> Result<u8, CliError> {
    for crd in api::crds() {
        print!("---\n{}", document(&crd)?);
    }
    Ok(DONE)
}

/// One CustomResourceDefinition as a YAML document: the content of its file in `crds/`.
fn document(crd: &CustomResourceDefinition) -> Result<String, CliError> {
    yaml::to_string(crd).map_err(|error| CliError::Failed(error.to_string()))
}
