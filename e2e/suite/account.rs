//! People with exactly some rights, as accounts of a scenario's namespace.

use std::path::PathBuf;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use super::steps::SOON;
use crate::bed::{
    error::{BedError, Context as _},
    kubeconfig::{self, Credentials},
    rights,
    scenario::{Scenario, ok},
    wait,
};

/// One right: API group, resource, verb.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) verb: String,
}

impl Right {
    /// As a command names what is missing.
    pub(super) fn sentence(&self, namespace: &str) -> String {
        let Self { group, resource, verb } = self;
        let resource = match group.as_str() {
            "" => resource.clone(),
            group => format!("{resource}.{group}"),
        };
        format!("you may not {verb} {resource} in namespace {namespace:?}")
    }
}

/// A person with these rights and no others; gives the kubeconfig.
pub(super) async fn person(s: &Scenario, name: &str, rights: &[Right]) -> PathBuf {
    let rules: Vec<Value> = rights
        .iter()
        .map(|right| {
            json!({
                "apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb],
            })
        })
        .collect();
    let meta = json!({"name": name});
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": s.namespace});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta,
         "roleRef": role, "subjects": [subject]},
    ]});
    s.apply(&objects.to_string()).await;
    for right in rights {
        granted(s, name, right).await;
    }
    let token = ok(rights::token(&s.bed, &s.namespace, name).await);
    let path = s.dir.join(format!("{name}.kubeconfig"));
    ok(kubeconfig::write(&path, &s.bed.server, &Credentials::Token(&token), &s.namespace));
    path
}

/// Waits until the API server has learnt of a right.
async fn granted(s: &Scenario, name: &str, right: &Right) {
    let (resource, sub) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let review: SubjectAccessReview = serde_json::from_value(json!({
        "metadata": {},
        "spec": {
            "user": format!("system:serviceaccount:{}:{name}", s.namespace),
            "resourceAttributes": {
                "namespace": s.namespace, "verb": right.verb, "group": right.group,
                "resource": resource, "subresource": sub,
            },
        },
    }))
    .expect("it is a review");
    let reviews: Api<SubjectAccessReview> = Api::all(s.client());
    let asked = wait::until("the right is known", SOON, || async {
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.context(|| format!("ask for {right:?}"))?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        if allowed { Ok(()) } else { Err(BedError(format!("{right:?} is not granted yet"))) }
    });
    ok(asked.await);
}
