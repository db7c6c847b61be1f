//! The fence as implemented, without each guard, and other fences.

use super::{Admission, Epochs, Fence, IMPLEMENTED, NOTHING, Protocol, Seal};
use crate::explore::{bound, must_fail, must_hold};

#[test]
fn no_older_term_writes_after_the_seal() {
    must_hold("fence, as implemented", Fence::new(IMPLEMENTED));
}

/// An older term must not write; what is sent must not arrive twice.
const OLDER: &str = "older term";
const TWICE: &str = "arrived twice";

/// Explores the protocol without resends, and without a judgement of order, where they are not what
/// breaks it.
#[track_caller]
fn breaks(what: &str, protocol: Protocol, expected: &str) {
    let judges_order = expected == TWICE;
    let model = Fence { resends: u8::from(judges_order), judges_order, ..Fence::new(protocol) };
    let wrong = must_fail(&format!("fence, {what}"), model);
    assert!(wrong.contains(expected), "{what}: {wrong}");
}

/// Each guard taken away alone. The rules and the heed stand in for each other.
#[test]
fn without_a_guard_of_the_fence_an_older_term_writes() {
    for (what, protocol, expected) in [
        ("no seal", Protocol { seal: Seal::None, ..IMPLEMENTED }, OLDER),
        ("a seal that changes nothing", Protocol { seal: Seal::NoOp, ..IMPLEMENTED }, OLDER),
        ("no resourceVersion", Protocol { version: false, ..IMPLEMENTED }, TWICE),
        ("epochs that are counted", Protocol { epochs: Epochs::Counter, ..IMPLEMENTED }, OLDER),
        (
            "neither rules nor heed",
            Protocol { epoch_rule: false, nonce_rule: false, heeds_fence: false, ..IMPLEMENTED },
            OLDER,
        ),
    ] {
        breaks(what, protocol, expected);
    }
}

/// What others do, and what was thought of first.
#[test]
fn other_fences_let_an_older_term_write() {
    let seal_and_rules = Protocol { version: false, ..IMPLEMENTED };
    for (what, protocol, expected) in [
        ("nothing", NOTHING, OLDER),
        (
            "the leader reads the Lease before it writes",
            Protocol { admission: Admission::LeaderReadsLease, ..NOTHING },
            OLDER,
        ),
        (
            "a policy that knows the Lease from its cache",
            Protocol { admission: Admission::PolicyWithCache, ..NOTHING },
            OLDER,
        ),
        (
            "a webhook that reads the Lease",
            Protocol { admission: Admission::Webhook, ..NOTHING },
            OLDER,
        ),
        ("resourceVersion only", Protocol { version: true, ..NOTHING }, OLDER),
        (
            "rules and heed without a seal",
            Protocol { epoch_rule: true, nonce_rule: true, heeds_fence: true, ..NOTHING },
            OLDER,
        ),
        (
            "a seal, then writes without a fence",
            Protocol { seal: Seal::Write, heeds_fence: true, ..NOTHING },
            OLDER,
        ),
        (
            "a seal and resourceVersion, but who reads a newer fence goes on",
            Protocol { seal: Seal::Write, version: true, ..NOTHING },
            OLDER,
        ),
        ("a seal and the rules, without resourceVersion", seal_and_rules, TWICE),
        (
            "the same with epochs that are counted",
            Protocol { epochs: Epochs::Counter, ..seal_and_rules },
            OLDER,
        ),
        (
            "the same with epochs that are counted above the fence",
            Protocol { epochs: Epochs::CounterAboveFence, ..seal_and_rules },
            OLDER,
        ),
    ] {
        breaks(what, protocol, expected);
    }
}

/// The rules of the API server and the heed of the leader each suffice: two lines of defence.
#[test]
fn the_rules_and_the_heed_of_the_leader_each_suffice() {
    let sends = bound(2, 3);
    let heed = Protocol { epoch_rule: false, nonce_rule: false, ..IMPLEMENTED };
    must_hold("fence, without rules", Fence { sends, ..Fence::new(heed) });
    let rules = Protocol { heeds_fence: false, ..IMPLEMENTED };
    must_hold("fence, without heed", Fence { sends, ..Fence::new(rules) });
}
