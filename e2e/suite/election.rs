//! Who leads: one epoch a term, whatever happens to the Lease.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use punctual::{
    authority::{
        ClockGuard, DEFAULT_MAX_SKEW, Elector, Entropy, Gate, Leadership, LeaseConfig, Setup, Term,
        config::MIN_DURATION,
    },
    cluster::{Clients, ObjectKey},
    time::{LeaseClock, WallClock},
};
use serde_json::json;

use super::work::{
    BY_HAND, SOON, epoch, finish, gives_up, held, leading, led_by, one_run_each, pair, running,
    schedule, succeeded, trigger,
};
use crate::{
    bed::{
        plan::scenario,
        run::progress,
        scenario::{Scenario, ok},
    },
    checker,
};

/// Leases that are raced for side by side: waiting for an expiry takes time, not work.
const LEASES: usize = 10;
/// Races for each Lease, one after the other.
const ROUNDS: usize = 10;
/// Electors in a race.
const RACERS: usize = 10;
/// Duration of the Lease whose holder is gone: the shortest, so that a race begins soon.
const ABANDONED: Duration = MIN_DURATION;
/// Duration that the racers take it for: long, so that their requests have time on a busy machine.
const RACED_FOR: Duration = Duration::from_secs(15);

/// Gives the chart's account the right to lead with any name, not only the chart's.
async fn allow_all_leases(s: &Scenario) {
    let user = &s.account().await.user;
    let rights = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "race"},
         "rules": [{
             "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
             "verbs": ["create", "get", "list", "update", "watch"],
         }]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
         "metadata": {"name": "race"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "race"},
         "subjects": [{
             "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user,
         }]},
    ]});
    s.apply(&rights.to_string()).await;
}

/// A Lease whose holder never comes back.
async fn abandoned_lease(client: Client, namespace: &str, name: &str) {
    let lease = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "holderIdentity": "gone/0", "leaseDurationSeconds": ABANDONED.as_secs(),
        },
    }))
    .expect("a Lease");
    let leases: Api<Lease> = Api::namespaced(client, namespace);
    leases.create(&PostParams::default(), &lease).await.expect("a Lease can be created");
}

/// Makes a Lease of a winner that is gone expire as soon as possible.
async fn shorten(s: &Scenario, name: &str) {
    let edit = Patch::Merge(json!({"spec": {"leaseDurationSeconds": ABANDONED.as_secs()}}));
    let leases = s.api("lease");
    leases.patch(name, &PatchParams::default(), &edit).await.expect("a Lease can be edited");
}

/// How a race ended for one elector.
enum Finish {
    /// It leads.
    Won(Term),
    /// Somebody else does.
    Lost(String),
}

/// Runs an elector until the race is decided for it: it leads, or it sees that the holder is not
/// `before` any more. Then it is gone at once, and what it holds is not given back.
async fn racer(clients: Clients, key: ObjectKey, before: String, number: usize) -> Finish {
    let config = LeaseConfig::new(RACED_FOR, 0).expect("the duration is allowed");
    let (lease_clock, wall_clock) = (LeaseClock::system(), WallClock::system());
    let (elector, handle) = Elector::new(Setup {
        lease: clients.lease(key.clone(), config.attempt_timeout()),
        gate: Gate::new(lease_clock.clone()),
        clocks: ClockGuard::new(
            lease_clock.clone(),
            wall_clock.clone(),
            DEFAULT_MAX_SKEW,
            |_, _| {},
        ),
        config,
        pod: format!("racer-{number}"),
        lease_clock,
        wall_clock,
        entropy: Entropy::system(),
    });
    handle.set_campaign(true);
    let mut news = handle.leadership();
    let decided = news.wait_for(|now| match now {
        Leadership::Follower { holder } => holder.as_ref().is_some_and(|holder| *holder != before),
        Leadership::Leading { .. } | Leadership::Lost { .. } => true,
    });
    tokio::select! {
        biased;
        now = decided => match &*now.expect("the elector lives as long as this") {
            Leadership::Leading { term, .. } => Finish::Won(term.clone()),
            Leadership::Follower { holder } => Finish::Lost(holder.clone().unwrap_or_default()),
            Leadership::Lost { reason } => panic!("{key}: a racer ended: {reason}"),
        },
        reason = elector.run(|| async {}) => panic!("{key}: a racer ended: {reason}"),
    }
}

/// One race: ten fresh electors, and a Lease whose holder (`before`) is gone. Gives the winner's
/// epoch and its holder identity.
async fn race(clients: &[Clients], key: &ObjectKey, before: &str) -> (i64, String) {
    let racers = clients
        .iter()
        .enumerate()
        .map(|(number, clients)| racer(clients.clone(), key.clone(), before.to_owned(), number));
    let finishes = tokio::time::timeout(SOON, join_all(racers)).await.expect("a race ends soon");
    let mut winners = Vec::new();
    let mut holders = Vec::new();
    for finish in finishes {
        match finish {
            Finish::Won(term) => winners.push(term),
            Finish::Lost(holder) => holders.push(holder),
        }
    }
    let [winner] = winners.as_slice() else { panic!("{key}: {} winners", winners.len()) };
    assert!(holders.iter().all(|holder| holder.ends_with(&winner.nonce)), "{key}: {holders:?}");
    (winner.epoch, holders.swap_remove(0))
}

#[test]
fn ten_electors_race_for_an_expired_lease() {
    scenario().on_throw_away_cluster().heavy().run(async |s| {
        allow_all_leases(s).await;
        let config = s.account_config().await;
        let timeout = LeaseConfig::new(RACED_FOR, 0).unwrap().attempt_timeout();
        let clients: Vec<Clients> =
            (0..RACERS).map(|_| Clients::new(&config, timeout).unwrap()).collect();
        let races = (0..LEASES).map(|number| {
            let key = ObjectKey::new(&s.namespace, format!("race-{number}"));
            let clients = &clients;
            async move {
                abandoned_lease(s.account_client().await, &key.namespace, &key.name).await;
                let mut before = "gone/0".to_owned();
                let mut epochs = Vec::new();
                for _ in 0..ROUNDS {
                    let (epoch, holder) = race(clients, &key, &before).await;
                    epochs.push(epoch);
                    before = holder;
                    shorten(s, &key.name).await;
                }
                (key.name, epochs)
            }
        });
        let races = join_all(races).await;
        let report = s.verify().await;
        for (lease, epochs) in races {
            assert!(epochs.is_sorted_by(|a, b| a < b), "{lease}: {epochs:?}");
            // What the electors say of themselves is what the audit log says of them.
            let of_lease = checker::check(report.history.clone(), &lease, &[], false)
                .unwrap_or_else(|violations| panic!("{lease}: {violations:?}"));
            let recorded: Vec<i64> = of_lease.terms.iter().map(|term| term.epoch).collect();
            assert_eq!(recorded, epochs, "{lease}");
        }
        let lost = report.history.refused.iter().filter(|e| e.resource == "leases").count();
        progress(&format!(
            "{} races of {RACERS} electors: {lost} acquisitions refused",
            LEASES * ROUNDS
        ));
        assert!(lost > 0, "nobody raced: not one acquisition came too late");
    });
}

/// What happens to the Lease while a Job runs: its holder ends, the other goes on with the run.
async fn the_term_ends(s: &Scenario, act: impl AsyncFnOnce(&Scenario)) {
    let replicas = pair(s).await;
    s.apply(&schedule(BY_HAND, &held())).await;
    let name = trigger(s, 0).await;
    running(s, &name).await;
    let (number, old) = (leading(s).await, epoch(s).await);
    replicas[number].stays_down().await;
    act(s).await;
    gives_up(&replicas[number]).await;
    led_by(s, &replicas[1 - number]).await;
    assert!(epoch(s).await > old);
    finish(s, &name).await;
    succeeded(s, &name).await;
    let report = s.verify().await;
    one_run_each(s, &report, &[name]).await;
}

#[test]
fn a_deleted_lease_ends_the_term() {
    scenario().on_throw_away_cluster().run(async |s| {
        the_term_ends(s, async |s| {
            s.api("lease").delete(&s.lease, &DeleteParams::default()).await.unwrap();
        })
        .await;
    });
}

#[test]
fn a_lease_edited_to_another_holder_ends_the_term() {
    scenario().on_throw_away_cluster().run(async |s| {
        the_term_ends(s, async |s| {
            let edit = r#"{"spec": {"holderIdentity": "somebody-else"}}"#;
            let args = ["patch", "lease", &s.lease, "--type=merge", "--patch", edit];
            ok(s.kubectl().run(&args).await);
        })
        .await;
    });
}
