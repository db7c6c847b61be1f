//! What it does when something does.

use std::collections::BTreeSet;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_an_acquisition_is_found_out() {
    for (fault, arrived) in [
        (Fault::LoseResponse, 1),
        (Fault::LoseRequest, 1),
        (Fault::LandLater(ms(450)), 1), // after the deadline, before the read
        (Fault::LandLater(ms(550)), 2), // after the second copy
        (Fault::Refuse(503, "ServiceUnavailable"), 2),
    ] {
        let lab = Lab::new();
        lab.held_by_a_ghost();
        let replica = lab.start(3);
        lab.fake.fault(Method::PUT, "leases", fault.clone());
        let (term, gained, _) = replica.leads().await;
        assert_eq!(gained, Gained::Expired, "{fault:?}");
        let stored = lab.stored();
        let notes = &stored["metadata"]["annotations"];
        assert_eq!(notes["punctual.dev/nonce"], term.nonce, "{fault:?}");
        assert_eq!(notes["punctual.dev/epoch"], term.epoch.to_string(), "{fault:?}");
        sleep(secs(20)).await;
        assert_eq!(replica.term(), Some(term), "{fault:?}: it goes on leading");
        let sent = lab.puts(true);
        let won = sent.iter().filter(|entry| entry.code == 200).count();
        assert_eq!(won, 1, "{fault:?}: one acquisition took effect");
        assert_eq!(sent.len(), arrived, "{fault:?}");
        let nonces: BTreeSet<String> = sent
            .iter()
            .map(|e| e.body["metadata"]["annotations"]["punctual.dev/nonce"].to_string())
            .collect();
        assert_eq!(nonces.len(), 1, "{fault:?}: the same attempt");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_acquisition_that_someone_else_beat_is_given_up() {
    let lab = Lab::new();
    lab.held_by_a_ghost();
    let replica = lab.start(3);
    lab.fake.fault(Method::PUT, "leases", Fault::LandLater(secs(30)));
    // While it waits for the answer, another one acquires.
    while lab.fake.faults_left() > 0 {
        sleep(ms(10)).await;
    }
    lab.fake.edit(LEASE, |lease| {
        lease["metadata"]["annotations"]["punctual.dev/nonce"] = json!("rival");
        lease["spec"]["holderIdentity"] = json!("rival/rival");
    });
    sleep(secs(2)).await;
    assert_eq!(replica.term(), None);
    let news = replica.handle.leadership().borrow().clone();
    assert_eq!(news, Leadership::Follower { holder: Some("rival/rival".into()) });
    sleep(secs(28)).await;
    let late = lab.puts(true).into_iter().find(|entry| entry.code != 200).unwrap();
    assert_eq!(late.code, 409, "the late copy changes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_is_deleted_is_lost_and_does_not_bring_it_back() {
    let lab = Lab::new();
    let replica = lab.start(10);
    replica.leads().await;
    let standby = lab.start(10);
    sleep(secs(5)).await;
    lab.fake.remove(LEASE);
    let (_, gained, _) = standby.leads().await;
    assert_eq!(gained, Gained::LeaseDeleted);
    assert_eq!(replica.lost().await, LostReason::LeaseDeleted);
    assert!(lab.holder().starts_with("pod-1/"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_edited_by_a_person_ends_the_term() {
    let lab = Lab::new();
    let replica = lab.start(10);
    replica.leads().await;
    lab.fake.edit(LEASE, |lease| lease["spec"]["holderIdentity"] = json!("me, by hand"));
    let holder = Some("me, by hand".into());
    assert_eq!(replica.lost().await, LostReason::Taken { holder });
    assert_eq!(lab.holder(), "me, by hand");
    // Steering by the coordinated election.
    let lab = Lab::new();
    let replica = lab.start(10);
    replica.leads().await;
    lab.fake.edit(LEASE, |lease| lease["spec"]["preferredHolder"] = json!("pod-9"));
    lab.fake.clear_log();
    assert_eq!(replica.lost().await, LostReason::Steered);
    assert!(lab.puts(false).iter().all(|entry| entry.code == 409), "not renewed any more");
}

#[tokio::test(start_paused = true)]
async fn a_touched_lease_that_is_still_ours_goes_on() {
    let lab = Lab::new();
    let replica = lab.start(3);
    let (term, ..) = replica.leads().await;
    for _ in 0..10 {
        lab.fake.edit(LEASE, |lease| lease["metadata"]["labels"] = json!({"by": "a person"}));
        sleep(ms(1700)).await;
        assert_eq!(replica.term(), Some(term.clone()));
    }
    assert_eq!(lab.stored()["metadata"]["labels"]["by"], "a person", "and the label stays");
    let conflicts = lab.puts(false).iter().filter(|entry| entry.code == 409).count();
    assert_eq!(conflicts, 10);
}

#[tokio::test(start_paused = true)]
async fn two_failed_renewals_cost_nothing_and_a_dead_server_costs_the_term() {
    let lab = Lab::new();
    let replica = lab.start(3);
    let (term, ..) = replica.leads().await;
    for fault in [Fault::LandLater(secs(60)), Fault::LoseResponse, Fault::LoseRequest] {
        lab.fake.fault(Method::PUT, "leases", fault.clone());
        lab.fake.fault(Method::PUT, "leases", fault.clone());
        sleep(secs(3)).await;
        assert_eq!(replica.term(), Some(term.clone()), "{fault:?}");
    }
    for _ in 0..100 {
        lab.fake.fault(Method::PUT, "leases", Fault::LoseRequest);
    }
    assert_eq!(replica.lost().await, LostReason::Expired);
    assert_ne!(lab.holder(), "", "not given back: nobody knows what else is wrong");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_paused_past_its_validity_is_lost_when_it_goes_on() {
    for pause in [2, 60] {
        let lab = Lab::new();
        let replica = lab.start(3);
        let (term, ..) = replica.leads().await;
        let standby = lab.start(3);
        sleep(secs(5)).await;
        let permit = replica.gate.permit().unwrap();
        lab.fake.clear_log();
        while lab.puts(false).is_empty() {
            sleep(ms(5)).await; // not in the middle of a request
        }
        sleep(ms(20)).await;
        replica.process.freeze();
        sleep(secs(pause)).await;
        assert!(permit.check().is_err(), "no permit outlives the validity");
        let successor = (pause > 10).then(|| standby.term().unwrap());
        lab.fake.clear_log();
        replica.process.thaw();
        assert_eq!(replica.lost().await, LostReason::Expired);
        let sent = lab.puts(false).into_iter();
        let nonce = |e: &Logged| e.body["metadata"]["annotations"]["punctual.dev/nonce"].clone();
        assert_eq!(sent.filter(|e| nonce(e) == term.nonce).count(), 0, "nothing is sent any more");
        if let Some(successor) = successor {
            assert!(successor.epoch > term.epoch);
            assert_eq!(standby.term(), Some(successor));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn orders_from_outside_close_the_gate_at_once_and_give_the_lease_back() {
    let lab = Lab::new();
    let replica = lab.start(10);
    replica.leads().await;
    replica.handle.lose(LostReason::Outranked);
    assert!(replica.gate.is_lost(), "at once");
    replica.handle.lose(LostReason::Shutdown);
    assert_eq!(replica.lost().await, LostReason::Outranked);
    assert_eq!(lab.holder(), "");
    // The writer has only the gate.
    let replica = lab.start(10);
    replica.leads().await;
    replica.gate.lose();
    assert_eq!(replica.lost().await, LostReason::FenceNotEnforced);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_went_back_ends_followers_too() {
    let lab = Lab::new();
    lab.held_by_a_ghost();
    let follower = lab.start(300);
    sleep(secs(1)).await;
    lab.fake.restore(LEASE, 5);
    assert_eq!(follower.lost().await, LostReason::VersionWentBack);
}

/// One hundred rounds: the leader is killed, ten electors race for what it leaves.
#[tokio::test(start_paused = true)]
async fn ten_electors_race_for_one_expired_lease_and_one_wins_each_epoch() {
    const ROUNDS: usize = 100;
    let lab = Lab::new();
    lab.held_by_a_ghost();
    let mut replicas: Vec<Replica> = (0..10).map(|_| lab.start(3)).collect();
    let mut epochs: Vec<i64> = Vec::new();
    for round in 0..ROUNDS {
        let winner = loop {
            let leaders: Vec<usize> =
                (0..replicas.len()).filter(|at| replicas[*at].term().is_some()).collect();
            assert!(leaders.len() <= 1, "round {round}: {leaders:?}");
            match leaders.first() {
                Some(leader) => break *leader,
                None => sleep(ms(20)).await,
            }
        };
        let leader = replicas.remove(winner);
        epochs.push(leader.term().unwrap().epoch);
        leader.task.abort();
        replicas.push(lab.start(3));
    }
    assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
    let acquisitions = lab.puts(true);
    let won: Vec<&Logged> = acquisitions.iter().filter(|entry| entry.code == 200).collect();
    assert_eq!(won.len(), ROUNDS, "one winner a round");
    let nonce =
        |entry: &Logged| entry.body["metadata"]["annotations"]["punctual.dev/nonce"].to_string();
    let nonces: BTreeSet<String> = acquisitions.iter().map(nonce).collect();
    assert_eq!(nonces.len(), acquisitions.len(), "each acquisition has a nonce of its own");
    let lost = acquisitions.iter().filter(|entry| entry.code == 409).count();
    assert!(lost > ROUNDS, "they did race: {lost} were too late");
}
