//! Reports that a service outside the cluster runs, here the reference service: it and the replicas
//! are killed, and what it wrote into its file is what the operator recorded.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    reports::{create_all, idle, reached},
    steps::SOON,
    work::revive,
};
use crate::{
    bed::{objects::text, plan::scenario, run::progress, scenario::ok, service::Service},
    restart::{COUNTS, DOUBTFUL, is, queue, replicas, report, restart, run_key},
};

#[test]
fn what_runs_outside_runs_once_whoever_is_killed() {
    scenario().on_throw_away_cluster().run(async |s| {
        let faults = ["lost-response,on=release,times=2", "lost-response,on=put,times=2"];
        let service = Service::start(s, &faults).await;
        replicas(s).await;
        s.apply(&queue(&service, 3).to_string()).await;
        let reports = (0..12).map(|n| report(&format!("r{n:02}"), "acme", &json!({}))).collect();
        let names = create_all(s, reports).await;
        reached(s, "Succeeded", 3, SOON).await;
        service.kill().await;
        let leader = s.leader(SOON).await;
        ok(leader.kill().await);
        s.next_leader(&leader, SOON).await;
        service.restart().await;
        revive(&leader).await;
        reached(s, "Succeeded", names.len(), SOON).await;
        idle(s).await;
        let mut keys = BTreeSet::new();
        for name in &names {
            let done = s.get("rjob", name).await.expect("it is kept");
            assert_eq!(done["status"]["attempts"].as_array().map(Vec::len), Some(1), "{done}");
            keys.insert(run_key(&done));
        }
        let begun = service.begun();
        assert_eq!(begun.keys().cloned().collect::<BTreeSet<_>>(), keys, "nobody else's");
        assert!(begun.values().all(|times| *times == 1), "{begun:?}");
        s.verify().await;
    });
}

#[test]
fn a_restart_of_all_replicas_in_a_burst_is_accounted_for() {
    scenario().on_throw_away_cluster().run(async |s| {
        let done = restart(s, |_| {}).await;
        progress(&format!("after the restart: {COUNTS:?} are {:?}", done.recorded));
        assert_eq!(done.recorded, done.derived, "{}", done.trace);
        assert_eq!(done.derived, [5, 3, 4, 1]);
        let doubtful = format!("{}/rjob/{DOUBTFUL}", s.namespace);
        assert_eq!(text(&done.trace, "/status/items/0/object"), doubtful);
        let unresolved = is(s, DOUBTFUL, "Unresolved").await;
        assert_eq!(unresolved["status"]["attempts"].as_array().map(Vec::len), Some(1));
        let begun = done.service.begun();
        assert!(begun.values().all(|times| *times == 1), "{begun:?}");
        s.verify().await;
    });
}
