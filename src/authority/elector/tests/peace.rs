//! What the election does when nothing goes wrong.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_first_replica_creates_the_lease_and_leads() {
    let lab = Lab::new();
    let replica = lab.start(10);
    let (term, gained, former) = replica.leads().await;
    assert_eq!((gained, former), (Gained::First, None));
    // The epoch is the version that the acquisition replaced.
    let acquisition = &lab.puts(true)[0];
    assert_eq!(acquisition.body["metadata"]["resourceVersion"], term.epoch.to_string());
    assert_eq!(acquisition.body["metadata"]["annotations"]["punctual.dev/nonce"], term.nonce);
    assert_eq!(lab.holder(), format!("pod-0/{}", term.nonce));
    let created = lab.fake.log().into_iter().find(|entry| entry.method == Method::POST).unwrap();
    assert_eq!(created.body["spec"]["holderIdentity"], Value::Null, "created unheld");
    sleep(secs(60)).await;
    assert_eq!(replica.term(), Some(term));
    let renewals = lab.puts(false);
    assert!((39..=41).contains(&renewals.len()), "every 1.5 s: {}", renewals.len());
    for renewal in &renewals {
        let meta = &renewal.body["metadata"];
        assert!(meta["uid"].is_string() && meta["resourceVersion"].is_string());
    }
    assert_eq!(replica.clocks.may_create(), Ok(()), "compared with the answers' Date");
}

#[tokio::test(start_paused = true)]
async fn nobody_campaigns_without_permission() {
    let lab = Lab::new();
    let replica = lab.start(3);
    replica.handle.set_campaign(false);
    sleep(secs(30)).await;
    assert!(lab.fake.log().iter().all(|entry| entry.method == Method::GET));
    replica.handle.set_campaign(true);
    let asked = tokio::time::Instant::now();
    replica.leads().await;
    assert!(asked.elapsed() < ms(200), "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_standby_waits_for_the_expiry_and_takes_over_in_time() {
    // At any moment between two reads.
    for moment in [0, 400, 800, 1200, 1600] {
        let lab = Lab::new();
        let first = lab.start(3);
        let (old, ..) = first.leads().await;
        let second = lab.start(3);
        sleep(ms(20_000 + moment)).await;
        assert_eq!(second.term(), None);
        let holder = lab.holder();
        let news = second.handle.leadership().borrow().clone();
        assert_eq!(news, Leadership::Follower { holder: Some(holder.clone()) });
        first.task.abort(); // as SIGKILL would
        let killed = tokio::time::Instant::now();
        let (new, gained, former) = second.leads().await;
        assert_eq!((gained, former), (Gained::Expired, Some(holder)));
        assert!(new.epoch > old.epoch);
        // Its last sign of life was up to 0.5 s old, and the watch showed it at once.
        let took = killed.elapsed();
        assert!(took > ms(4150 - 510) && took < ms(4150 + 100), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn followers_ask_little() {
    let lab = Lab::new();
    let leader = lab.start(10);
    leader.leads().await;
    let follower = lab.start(10);
    sleep(secs(10)).await;
    lab.fake.clear_log();
    sleep(secs(60)).await;
    let gets = lab.fake.log().iter().filter(|entry| entry.method == Method::GET).count();
    assert!((38..=42).contains(&gets), "once a renewal, every 1.5 s: {gets}");
    assert_eq!(follower.term(), None);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let lab = Lab::new();
    let first = lab.start(10);
    let (old, ..) = first.leads().await;
    let second = lab.start(10);
    sleep(ms(9_700)).await;
    first.handle.shutdown();
    let asked = tokio::time::Instant::now();
    let (new, gained, _) = second.leads().await;
    assert!(asked.elapsed() < ms(300), "{:?}", asked.elapsed());
    assert_eq!(gained, Gained::Released);
    assert!(new.epoch > old.epoch);
    assert!(first.drained.load(Ordering::Relaxed), "drained before it was given back");
    assert_eq!(first.lost().await, LostReason::Shutdown);
}

#[tokio::test(start_paused = true)]
async fn only_the_own_lease_is_given_back() {
    type Edit = fn(&mut Value);
    for (what, edit) in [
        (
            "another nonce",
            (|l| l["metadata"]["annotations"]["punctual.dev/nonce"] = json!("x")) as Edit,
        ),
        ("another epoch", |l| l["metadata"]["annotations"]["punctual.dev/epoch"] = json!("9999")),
        ("another holder", |lease| lease["spec"]["holderIdentity"] = json!("z")),
    ] {
        let lab = Lab::new();
        let replica = lab.start(10);
        replica.leads().await;
        lab.fake.edit(LEASE, edit);
        lab.fake.clear_log();
        replica.handle.shutdown();
        assert_eq!(replica.lost().await, LostReason::Shutdown);
        assert!(lab.puts(false).is_empty(), "{what}");
        assert_ne!(lab.holder(), "", "{what}");
    }
    // Deleted and created again by somebody.
    let lab = Lab::new();
    let replica = lab.start(10);
    replica.leads().await;
    let lease = lab.stored();
    lab.fake.remove(LEASE);
    lab.fake.put(LEASES, lease);
    replica.handle.shutdown();
    replica.lost().await;
    assert_ne!(lab.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn giving_back_survives_one_lost_answer() {
    for fault in [Fault::LoseRequest, Fault::LoseResponse] {
        let lab = Lab::new();
        let replica = lab.start(10);
        replica.leads().await;
        lab.fake.fault(Method::PUT, "leases", fault);
        replica.handle.shutdown();
        replica.lost().await;
        assert_eq!(lab.holder(), "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_hangs_does_not_hold_the_lease() {
    let lab = Lab::new();
    let key = ObjectKey::new("ops", "punctual");
    let config = LeaseConfig::new(secs(10), 0).unwrap();
    let gate = Gate::new(lab.lease_clock.clone());
    let (elector, handle) = Elector::new(Setup {
        lease: Clients::single(lab.fake.client()).lease(key, config.attempt_timeout()),
        config,
        pod: "pod".into(),
        gate,
        lease_clock: lab.lease_clock.clone(),
        wall_clock: lab.wall_clock.clone(),
        clocks: ClockGuard::new(
            lab.lease_clock.clone(),
            lab.wall_clock.clone(),
            secs(5),
            |_, _| {},
        ),
        entropy: Entropy::seeded(1),
    });
    handle.set_campaign(true);
    let task = tokio::spawn(elector.run(std::future::pending::<()>));
    let mut news = handle.leadership();
    news.wait_for(|news| matches!(news, Leadership::Leading { .. })).await.unwrap();
    handle.shutdown();
    let asked = tokio::time::Instant::now();
    assert_eq!(task.await.unwrap(), LostReason::Shutdown);
    assert!(asked.elapsed() < DRAIN_TIMEOUT + secs(1));
    assert_eq!(lab.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn validity_counts_from_the_start_of_the_request() {
    let lab = Lab::new();
    lab.fake.set_latency(secs(1));
    let replica = lab.start(10);
    replica.leads().await;
    let valid_for = replica.gate.valid_until().unwrap().since(lab.lease_clock.now());
    assert!(valid_for > ms(4900) && valid_for < ms(5100), "6 s less 1 s: {valid_for:?}");
}
