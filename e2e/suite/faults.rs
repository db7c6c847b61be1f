//! The cluster itself fails under a running operator; each of these has a cluster of its own.

use hyper::Method;

use super::work::{
    BY_HAND, SOON, finish, gives_up, held, job, leading, led_by, one_run_each, pair, pair_behind,
    quick, revive, running, schedule, succeeded, trigger,
};
use crate::bed::{
    control_plane::{APISERVER, CONTROLLER_MANAGER, ETCD, PlaneOptions},
    plan::scenario,
    proxy::Which,
    scenario::ok,
};

#[test]
fn the_api_server_is_killed_and_restarted_midway() {
    scenario().on_own_cluster(PlaneOptions::default()).run(async |s| {
        pair(s).await;
        s.apply(&schedule(BY_HAND, &held())).await;
        let name = trigger(s, 0).await;
        running(s, &name).await;
        let server = ok(s.bed.process(APISERVER));
        ok(server.restart().await);
        ok(s.bed.ready().await);
        finish(s, &name).await;
        succeeded(s, &name).await;
        // Whoever leads now goes on with new work.
        let next = trigger(s, 1).await;
        running(s, &next).await;
        finish(s, &next).await;
        succeeded(s, &next).await;
        let report = s.verify().await;
        one_run_each(s, &report, &[name, next]).await;
    });
}

#[test]
fn the_api_server_and_etcd_freeze_for_a_while() {
    scenario().on_own_cluster(PlaneOptions::default()).run(async |s| {
        let replicas = pair(s).await;
        s.apply(&schedule(BY_HAND, &held())).await;
        let mut names = Vec::new();
        for (round, program) in [APISERVER, ETCD].into_iter().enumerate() {
            let name = trigger(s, round).await;
            running(s, &name).await;
            let process = ok(s.bed.process(program));
            let number = leading(s).await;
            let (leader, standby) = (&replicas[number], &replicas[1 - number]);
            let lives = standby.process().lives();
            leader.stays_down().await;
            ok(process.freeze().await);
            // Frozen for as long as it takes: without a confirmed renewal the leader must go.
            gives_up(leader).await;
            assert!(standby.process().alive(), "a standby waits: {}", standby.log_text());
            assert_eq!(standby.process().lives(), lives, "a standby waits: {}", standby.log_text());
            ok(process.thaw());
            led_by(s, standby).await;
            finish(s, &name).await;
            succeeded(s, &name).await;
            names.push(name);
            revive(leader).await;
        }
        let report = s.verify().await;
        one_run_each(s, &report, &names).await;
    });
}

#[test]
fn the_controller_manager_dies_while_a_job_is_released() {
    scenario().on_own_cluster(PlaneOptions::default()).run(async |s| {
        let proxy = s.proxy().await;
        pair_behind(s, &proxy).await;
        s.apply(&schedule(BY_HAND, &quick())).await;
        let release = proxy.hold(Which::on(Method::PATCH, "/jobs/"), 1);
        let name = trigger(s, 0).await;
        ok(release.reached(SOON).await);
        let controllers = ok(s.bed.process(CONTROLLER_MANAGER));
        ok(controllers.kill().await);
        release.release();
        s.wait_for("job", &job(&name), "it is released", SOON, |o| o["spec"]["suspend"] == false)
            .await;
        assert!(s.list("pod").await.is_empty(), "nobody is there to make a pod");
        ok(controllers.restart().await);
        succeeded(s, &name).await;
        let report = s.verify().await;
        one_run_each(s, &report, &[name]).await;
    });
}
