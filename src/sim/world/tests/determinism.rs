//! One seed is one history.

use jiff::SignedDuration;

use super::*;
use crate::identity::sha256_hex;

/// Digest of the history of seed 42, as it was when this line was written. It holds for debug and
/// release builds alike. A change of the operator, of the model, or of a library that sends other
/// requests or sends them in another order changes it; a second run that disagrees with the first is
/// a defect of the simulation, and so is a build that disagrees with another.
const SEED_42: &str = "cec0dbcf8e2e6944498401bd9d4b5c7ec148fb6514d51f10cb5fd495fc9f8c13";

/// Everything at once: deaths, pauses, a partition, lost answers, clocks that go wrong.
async fn eventful(seed: u64) -> World {
    let world = world(seed);
    world.run_until(secs(119)).await;
    world.api(&ApiFault::DropResponses(2));
    world.run_until(secs(125)).await;
    if let Some(leader) = world.leader() {
        world.pause(leader);
    }
    world.run_until(secs(140)).await;
    world.jump_clock(0, SignedDuration::from_secs(30));
    world.set_rate(1, 1.2);
    world.api(&ApiFault::Latency { extra: Duration::from_millis(300), lasting: secs(20) });
    world.run_until(secs(160)).await;
    for replica in 0..2 {
        world.resume(replica);
        world.restart(replica);
    }
    world.run_until(secs(180)).await;
    world.delete_lease();
    world.api(&ApiFault::Compact);
    world.run_until(secs(240)).await;
    world
}

fn log(seed: u64) -> String {
    history(async {
        let world = eventful(seed).await;
        let mut log = world.write_log();
        log.push_str(&told(&world));
        log
    })
}

#[test]
fn the_same_seed_is_the_same_history_and_another_is_another() {
    let (first, second) = (log(42), log(42));
    if let Some((a, b)) = first.lines().zip(second.lines()).find(|(a, b)| a != b) {
        panic!("the histories part:\n{a}\n{b}");
    }
    assert_eq!(first, second);
    assert_ne!(first, log(43));
    assert_eq!(sha256_hex(first.as_bytes()), SEED_42);
}
