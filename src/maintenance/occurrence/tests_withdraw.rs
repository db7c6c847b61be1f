//! What may have been prepared at a service outside the cluster is withdrawn before an occurrence
//! ends without an attempt.

use serde_json::json;

use super::{tests::*, *};
use crate::runs::Right;

fn outside() -> Driver {
    Driver::new(&json!({
        "run": {"actionClass": "Idempotent", "simulated": null, "http": {"url": "https://a.example"}},
    }))
}

fn withdraws(step: &Step) -> bool {
    matches!(step, Step::Withdraw { attempt: 1, run } if run.http.is_some())
}

/// Description, what ends it before anything is committed, and the reason of that end.
type Ending = (&'static str, fn(&mut Driver), &'static str);

fn ends() -> [Ending; 4] {
    [
        ("cancelled", |d| d.snapshot.occurrence.spec.cancel = true, "CancelRequested"),
        (
            "replaced",
            |d| {
                d.snapshot.standing =
                    Standing::Started { not_before: time(T), deadline: None, replaced: true };
            },
            "Replaced",
        ),
        (
            "too late",
            |d| {
                d.snapshot.standing = Standing::Started {
                    not_before: time(T),
                    deadline: Some(time(T)),
                    replaced: false,
                };
            },
            "Deadline",
        ),
        (
            "refused",
            |d| d.snapshot.heard.prepared = Some(Prepared::Refused { message: "no".into() }),
            "RunRefused",
        ),
    ]
}

#[test]
fn it_ends_only_once_its_service_has_confirmed_it() {
    for (description, change, reason) in ends() {
        let mut driver = outside();
        change(&mut driver);
        let seal = driver.step();
        assert!(matches!(seal, Step::Write(_)), "{description}: sealed first: {seal:?}");
        assert!(withdraws(&driver.settle()), "{description}");
        driver.snapshot.heard.withdrawn = Some(Err("nobody is there".into()));
        assert_eq!(driver.settle(), Step::Wait, "{description}");
        let unanswered = (OccurrenceState::Pending, "ProviderUnreachable");
        assert_eq!(driver.outcome(), unanswered, "{description}");
        assert!(driver.decide().wake_at.is_some(), "{description}: it is asked again");
        let writes = driver.writes;
        driver.now = time("2026-11-29T09:00:00Z");
        driver.snapshot.heard.withdrawn = None;
        assert!(withdraws(&driver.settle()), "{description}: hours later too");
        driver.snapshot.heard.withdrawn = Some(Err("nobody is there".into()));
        driver.settle();
        assert_eq!(driver.writes, writes, "{description}: said once");
        driver.snapshot.heard.withdrawn = Some(Ok(()));
        driver.settle();
        assert_eq!(driver.outcome().1, reason, "{description}");
    }
}

#[test]
fn what_never_had_the_right_to_start_ends_without_asking() {
    for standing in [
        Standing::Waiting,
        Standing::Ghost { skipped: None },
        Standing::RecordPruned,
        Standing::ScheduleGone,
    ] {
        let mut driver = outside().standing(standing.clone());
        driver.snapshot.occurrence.spec.cancel = true;
        driver.settle();
        assert!(driver.outcome().0.is_terminal(), "{standing:?}: {:?}", driver.outcome());
    }
    let mut undecided = outside().standing(Standing::Undecided);
    undecided.snapshot.occurrence.spec.cancel = true;
    assert_eq!(undecided.settle(), Step::Wait, "an earlier term may have asked for it");
    assert_eq!(undecided.writes, 0);
    let right = |driver: &Driver| {
        let record = crate::runs::Record::default();
        right::right(&driver.snapshot, &record, true, driver.now)
    };
    assert_eq!(right(&undecided), Right::Undecided);
}

#[test]
fn a_job_is_held_by_the_cluster_and_needs_no_withdrawal() {
    for (description, change, reason) in ends() {
        let mut driver = Driver::fenced();
        change(&mut driver);
        driver.settle();
        assert_eq!(driver.outcome().1, reason, "{description}");
    }
}

#[test]
fn a_service_that_does_not_answer_is_asked_until_it_does() {
    let mut driver = outside();
    driver.settle();
    driver.snapshot.heard.prepared = Some(Prepared::NoAnswer { message: "no answer".into() });
    driver.settle();
    for hour in 3..9 {
        driver.now = time(&format!("2026-11-29T0{hour}:00:00Z"));
        assert_eq!(driver.settle(), Step::Wait);
        assert_eq!(driver.outcome(), (OccurrenceState::Pending, "ProviderUnreachable"));
        assert!(driver.decide().wake_at.is_some());
    }
    driver.snapshot.heard.prepared = Some(Prepared::Ready { handle: "http/a-m1/h".into() });
    assert_eq!(driver.settle(), Step::Ask { attempt: 1 });
}
