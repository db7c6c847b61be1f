//! The rights of replicas: those of the chart's ServiceAccount, never more.

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use super::{
    Bed,
    error::{BedError, Context as _, Result},
    kubectl::call,
    objects::text,
};

/// Longer than any run of the suite.
const TOKEN_SECONDS: i64 = 4 * 3600;

/// What of the chart a replica needs that runs outside the cluster: the account and its rights.
const WANTED: [&str; 5] =
    ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// An account and a token to act as it.
pub struct Account {
    /// Its user name, as the audit log shows it.
    pub user: String,
    /// Its bearer token.
    pub token: String,
}

/// Installs the account and the rights of a release of the chart in `namespace`.
pub async fn grant(bed: &Bed, namespace: &str) -> Result<Account> {
    let objects = documents(&template(bed, namespace, namespace, &[]).await?, &WANTED)?;
    let name = objects
        .iter()
        .find(|object| object["kind"] == "ServiceAccount")
        .map(|object| text(object, "/metadata/name").to_owned())
        .ok_or_else(|| BedError("the chart renders no ServiceAccount".to_owned()))?;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let kubectl = bed.kubectl()?.in_namespace(namespace);
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &list).await?;
    Ok(Account {
        user: format!("system:serviceaccount:{namespace}:{name}"),
        token: token(bed, namespace, &name).await?,
    })
}

/// A token to act as an account.
pub async fn token(bed: &Bed, namespace: &str, account: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(bed.client.clone(), namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .context(|| format!("ask for a token of {namespace}/{account}"))?;
    answer
        .status
        .map(|status| status.token)
        .ok_or_else(|| BedError(format!("the API server gave no token for {namespace}/{account}")))
}

/// What helm renders from the chart. Rights of the whole cluster are named after the release, so a
/// release named after its namespace does not meet another.
pub async fn template(bed: &Bed, release: &str, namespace: &str, more: &[&str]) -> Result<String> {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/punctual");
    let helm = bed.tools.path("helm")?;
    let mut args = vec!["template", release, chart, "--namespace", namespace];
    args.extend(more);
    let said = call(&helm, &args, &bed.kubeconfig, "").await?;
    if !said.ok {
        return Err(BedError(format!("helm template: {}", said.stderr.trim())));
    }
    Ok(said.stdout)
}

/// The objects of these kinds in what helm rendered.
pub fn documents(text: &str, kinds: &[&str]) -> Result<Vec<Value>> {
    let mut wanted = Vec::new();
    for document in text.split("\n---") {
        if document
            .lines()
            .all(|line| line.trim().is_empty() || line.starts_with('#') || line == "---")
        {
            continue;
        }
        let object: Value = punctual::yaml::from_str(document)
            .context(|| format!("read what helm rendered:\n{document}"))?;
        if kinds.iter().any(|kind| object["kind"] == *kind) {
            wanted.push(object);
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_accounts_and_rights_are_taken_from_the_chart() {
        let text = "---\n# Source: a\nkind: ServiceAccount\nmetadata: {name: a}\n---\n# Source: b\n---\nkind: Deployment\n---\nkind: Role\n";
        let kinds: Vec<String> = documents(text, &WANTED)
            .unwrap()
            .iter()
            .map(|object| object["kind"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(kinds, ["ServiceAccount", "Role"]);
    }
}
