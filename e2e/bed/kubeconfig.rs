//! Kubeconfig files, as JSON, which every reader of YAML understands.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::error::{Context as _, Result};

/// Where an API server is reached and how its certificate is checked.
#[derive(Clone, Debug)]
pub struct Server {
    /// `https://host:port`.
    pub url: String,
    /// Path of the PEM file of its authority.
    pub authority: PathBuf,
}

/// How a client shows who it is.
pub enum Credentials<'a> {
    /// Files of a certificate and its key.
    Certificate { certificate: &'a str, key: &'a str },
    /// A bearer token.
    Token(&'a str),
}

/// Writes a kubeconfig with one context, `e2e`, whose namespace is `namespace`.
pub fn write(
    path: &Path,
    server: &Server,
    credentials: &Credentials,
    namespace: &str,
) -> Result<()> {
    let user: Value = match credentials {
        Credentials::Certificate { certificate, key } => {
            json!({"client-certificate": certificate, "client-key": key})
        }
        Credentials::Token(token) => json!({"token": token}),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {
            "server": server.url, "certificate-authority": server.authority,
        }}],
        "users": [{"name": "e2e", "user": user}],
        "contexts": [{"name": "e2e", "context": {
            "cluster": "e2e", "user": "e2e", "namespace": namespace,
        }}],
    });
    fs::write(path, config.to_string()).context(|| format!("write {}", path.display()))
}
