//! Replicas run with the chart's rights and nothing more.

use std::time::Duration;

use crate::bed::{operator::ReplicaOptions, plan::scenario, scenario::ok};

#[test]
fn a_replica_that_cannot_start_says_why() {
    scenario().unchecked("it writes nothing").run(async |s| {
        let options =
            ReplicaOptions { args: vec!["--no-such-flag".to_owned()], ..ReplicaOptions::default() };
        let replica = s.replica_with("r0", &options).await;
        let status = ok(replica.wait_exit(Duration::from_secs(30)).await);
        assert_eq!(status.code(), Some(2), "bad usage");
        assert!(!replica.log_text().is_empty());
    });
}

#[test]
fn the_charts_account_may_do_its_work_and_no_more() {
    scenario().unchecked("nobody leads").run(async |s| {
        let user = s.account().await.user.clone();
        let lease = format!("lease.coordination.k8s.io/{}", s.lease);
        for (allowed, verb, what) in [
            (true, "update", lease.as_str()),
            (true, "create", "leases.coordination.k8s.io"),
            (true, "create", "jobs.batch"),
            (true, "patch", "jobs.batch"),
            (true, "get", "nodes"),
            (false, "delete", lease.as_str()),
            (false, "get", "secrets"),
            (false, "create", "pods"),
            (false, "deletecollection", "jobs.batch"),
            (false, "update", "customresourcedefinitions.apiextensions.k8s.io"),
        ] {
            let args = ["auth", "can-i", verb, what, "--as", &user];
            let said = ok(s.kubectl().try_run(&args, "").await);
            assert_eq!(said.ok, allowed, "{verb} {what}: {}{}", said.stdout, said.stderr);
        }
    });
}
