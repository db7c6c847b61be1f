//! Reading and writing YAML: the only user of the YAML library, so that it can be swapped.

use serde::{Serialize, de::DeserializeOwned};

/// A text that is not the YAML expected, with line and column where the library knows them.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(serde_yaml::Error);

impl YamlError {
    /// Line of the fault, counted from 1.
    pub fn line(&self) -> Option<usize> {
        self.0.location().map(|at| at.line())
    }
}

/// Reads one document; merge keys (`<<`) are applied.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let mut value: serde_yaml::Value = serde_yaml::from_str(text).map_err(YamlError)?;
    value.apply_merge().map_err(YamlError)?;
    serde_yaml::from_value(value).map_err(YamlError)
}

/// Writes one document.
pub fn to_string<T: Serialize>(value: &T) -> Result<String, YamlError> {
    serde_yaml::to_string(value).map_err(YamlError)
}
