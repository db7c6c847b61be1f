//! The history checker on a real audit log: it sees what was written, and by whom.

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Resource as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    bed::{plan::scenario, scenario::Scenario},
    checker::{Rule, history::Actor},
};

/// The Lease with the rights of the operator.
async fn leases(s: &Scenario) -> Api<Lease> {
    Api::namespaced(s.account_client().await, &s.namespace)
}

/// Acquires the Lease as the operator does, with an epoch that differs from the right one by `by`.
async fn acquire(s: &Scenario, leases: &Api<Lease>, nonce: &str, by: i64) -> i64 {
    let mut lease = leases.get(&s.lease).await.unwrap();
    let version: i64 = lease.meta().resource_version.as_ref().unwrap().parse().unwrap();
    let epoch = version + by;
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert("punctual.dev/epoch".to_owned(), epoch.to_string());
    annotations.insert("punctual.dev/nonce".to_owned(), nonce.to_owned());
    lease.spec.get_or_insert_default().holder_identity = Some(format!("pod/{nonce}"));
    leases.replace(&s.lease, &PostParams::default(), &lease).await.unwrap();
    epoch
}

async fn create(s: &Scenario, leases: &Api<Lease>) {
    let lease = serde_json::from_value(json!({"metadata": {"name": s.lease}, "spec": {}})).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
}

#[test]
fn terms_are_read_from_the_audit_log() {
    scenario().on_throw_away_cluster().run(async |s| {
        let leases = leases(s).await;
        create(s, &leases).await;
        let first = acquire(s, &leases, "n1", 0).await;
        let stale = leases.get(&s.lease).await.unwrap();
        // A person edits the Lease, and deletes it: neither is an acquisition.
        let edit =
            Patch::Merge(json!({"metadata": {"annotations": {"punctual.dev/nonce": "mine"}}}));
        let by_hand: Api<Lease> = Api::namespaced(s.client(), &s.namespace);
        by_hand.patch(&s.lease, &PatchParams::default(), &edit).await.unwrap();
        assert!(leases.replace(&s.lease, &PostParams::default(), &stale).await.is_err());
        let second = acquire(s, &leases, "n2", 0).await;
        by_hand.delete(&s.lease, &DeleteParams::default()).await.unwrap();
        create(s, &leases).await;
        let third = acquire(s, &leases, "n3", 0).await;
        let report = s.verify().await;
        let epochs: Vec<i64> = report.terms.iter().map(|term| term.epoch).collect();
        assert_eq!(epochs, [first, second, third]);
        assert_eq!(report.terms[2].holder, "pod/n3");
        let refused = report.history.refused.last().expect("the stale write was refused");
        assert_eq!((refused.code, refused.actor), (409, Actor::Operator));
        assert!(refused.message.contains("modified"), "{}", refused.message);
        let users: Vec<Actor> = report.history.of("leases").map(|entry| entry.actor).collect();
        assert_eq!(users.iter().filter(|actor| **actor == Actor::Person).count(), 2);
    });
}

#[test]
fn a_wrong_epoch_in_the_audit_log_is_found() {
    scenario().on_throw_away_cluster().unchecked("it forges a wrong history").run(async |s| {
        let leases = leases(s).await;
        let nothing = s.try_verify().await.unwrap_err().to_string();
        assert!(nothing.contains(&format!("{:?}", Rule::NotEmpty)), "{nothing}");
        create(s, &leases).await;
        acquire(s, &leases, "n1", 0).await;
        s.verify().await;
        acquire(s, &leases, "n2", -100).await;
        let wrong = s.try_verify().await.unwrap_err().to_string();
        assert!(wrong.contains(&format!("{:?}", Rule::EpochsIncrease)), "{wrong}");
    });
}
