use super::*;

const D: Duration = Duration::from_secs(10);

fn config() -> LeaseConfig {
    LeaseConfig::new(D, 0).unwrap()
}

fn at(millis: u64) -> LeaseInstant {
    LeaseInstant::from_nanos(millis * 1_000_000)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A Lease `u1` held by `other` in term 7, renewed three times.
fn held() -> LeaseView {
    LeaseView {
        uid: "u1".into(),
        resource_version: 10,
        holder: Some("other/n7".into()),
        duration: Some(D),
        epoch: Some(7),
        nonce: Some("n7".into()),
        attempt: Some(3),
        steered: false,
    }
}

fn with(change: impl FnOnce(&mut LeaseView)) -> Read {
    let mut view = held();
    change(&mut view);
    Read::Lease(view)
}

fn step(own: &mut Own, input: Input<'_>, now: LeaseInstant) -> Action {
    decide(own, input, now, &config())
}

fn look(own: &mut Own, read: &Read, now: LeaseInstant) -> Action {
    step(own, Input::Read(read), now)
}

/// A process that sent an acquisition of version 10 (epoch 10, nonce `mine`).
fn acquiring() -> Own {
    let mut own = Own::new();
    assert!(matches!(look(&mut own, &Read::Lease(held()), at(0)), Action::Look { .. }));
    own.acquiring(&held(), Gained::Expired, "me", "mine", &config()).unwrap();
    own
}

/// The Lease as that acquisition, and `attempt` renewals, leave it.
fn mine(resource_version: i64, attempt: u64) -> Read {
    with(|view| {
        view.resource_version = resource_version;
        view.holder = Some("me/mine".into());
        view.epoch = Some(10);
        view.nonce = Some("mine".into());
        view.attempt = Some(attempt);
    })
}

/// A leader whose acquisition was sent at 0 s and confirmed.
fn leading() -> Own {
    let mut own = acquiring();
    let answer = mine(11, 0);
    let action = step(&mut own, Input::Written { answer: &answer, started: at(0) }, at(20));
    assert_eq!(action, Action::Rest { wait: ms(1480) });
    own
}

fn holding(own: &Own) -> &Holding {
    match own.role() {
        Role::Leading(holding) => holding,
        role => panic!("{role:?}"),
    }
}

fn taken(holder: Option<&str>) -> Action {
    Action::Lose(LostReason::Taken { holder: holder.map(ToOwned::to_owned) })
}

#[test]
fn a_held_lease_is_left_alone_until_it_stood_still_long_enough() {
    let mut own = Own::new();
    let lease = Read::Lease(held());
    assert_eq!(look(&mut own, &lease, at(1000)), Action::Look { after: OBSERVE_EVERY });
    assert_eq!(look(&mut own, &lease, at(11_000)), Action::Look { after: ms(1500) });
    assert_eq!(look(&mut own, &lease, at(12_499)), Action::Look { after: ms(1) });
    let expired = Action::Acquire { gained: Gained::Expired };
    assert_eq!(look(&mut own, &lease, at(12_500)), expired, "10 s · 1.05 + 1 s");
}

#[test]
fn any_sign_of_life_starts_the_timer_again() {
    for (what, change) in [
        ("uid", (|view| view.uid = "u2".into()) as fn(&mut LeaseView)),
        ("epoch", |view| view.epoch = Some(8)),
        ("epoch removed", |view| view.epoch = None),
        ("nonce", |view| view.nonce = Some("x".into())),
        ("attempt", |view| view.attempt = Some(4)),
    ] {
        let mut own = Own::new();
        look(&mut own, &Read::Lease(held()), at(0));
        let action = look(&mut own, &with(change), at(11_500));
        assert_eq!(action, Action::Look { after: OBSERVE_EVERY }, "{what}");
        let action = look(&mut own, &with(change), at(22_999));
        assert!(matches!(action, Action::Look { .. }), "{what}");
        let action = look(&mut own, &with(change), at(23_000));
        assert_eq!(action, Action::Acquire { gained: Gained::Expired }, "{what}");
    }
}

#[test]
fn what_is_no_sign_of_life_does_not() {
    for (what, change) in [
        ("resourceVersion", (|view| view.resource_version = 12) as fn(&mut LeaseView)),
        ("holder", |view| view.holder = Some("z".into())),
        ("steering", |view| view.steered = true),
    ] {
        let mut own = Own::new();
        look(&mut own, &Read::Lease(held()), at(0));
        let action = look(&mut own, &with(change), at(11_500));
        assert_eq!(action, Action::Acquire { gained: Gained::Expired }, "{what}");
    }
}

#[test]
fn the_duration_in_the_object_counts() {
    for (recorded, patience) in [
        (Some(Duration::from_secs(3)), 4150),
        (Some(Duration::from_secs(60)), 64_000),
        (None, 11_500),
    ] {
        let mut own = Own::new();
        let lease = with(|view| view.duration = recorded);
        look(&mut own, &lease, at(0));
        assert!(matches!(look(&mut own, &lease, at(patience - 1)), Action::Look { .. }));
        let action = look(&mut own, &lease, at(patience));
        assert_eq!(action, Action::Acquire { gained: Gained::Expired }, "{recorded:?}");
    }
}

#[test]
fn the_timer_counts_from_answers_so_silence_alone_takes_nothing_over() {
    let mut own = Own::new();
    look(&mut own, &Read::Lease(held()), at(0));
    for input in [Input::Unread, Input::Refused, Input::Unknown] {
        let action = step(&mut own, input, at(60_000));
        assert_eq!(action, Action::Look { after: OBSERVE_EVERY }, "{input:?}");
    }
    let renewed = with(|view| view.attempt = Some(40));
    assert!(matches!(look(&mut own, &renewed, at(60_000)), Action::Look { .. }));
}

#[test]
fn an_unheld_lease_is_taken_at_once() {
    let free = |epoch| with(|view| (view.holder, view.epoch) = (None, epoch));
    let mut own = Own::new();
    assert_eq!(look(&mut own, &free(Some(7)), at(0)), Action::Acquire { gained: Gained::Released },);
    let mut own = Own::new();
    assert_eq!(look(&mut own, &free(None), at(0)), Action::Acquire { gained: Gained::First });
    // Another Lease had been there.
    let mut own = Own::new();
    look(&mut own, &Read::Lease(held()), at(0));
    assert_eq!(look(&mut own, &Read::Absent, at(1)), Action::Create);
    let new = with(|view| {
        (view.uid, view.resource_version) = ("u2".into(), 30);
        (view.holder, view.epoch) = (None, None);
    });
    assert_eq!(look(&mut own, &new, at(2)), Action::Acquire { gained: Gained::LeaseDeleted });
}

#[test]
fn the_epoch_is_the_version_that_is_replaced_plus_the_offset() {
    let mut own = Own::new();
    let acquisition =
        own.acquiring(&held(), Gained::First, "me", "n", &LeaseConfig::new(D, 5).unwrap()).unwrap();
    assert_eq!(acquisition.term, Term { epoch: 15, nonce: "n".into() });
    assert_eq!((acquisition.holder.as_str(), acquisition.base), ("me/n", 10));
    assert_eq!(acquisition.former_holder.as_deref(), Some("other/n7"));
    let mut huge = held();
    huge.resource_version = i64::MAX;
    let offset = LeaseConfig::new(D, 1).unwrap();
    assert_eq!(own.acquiring(&huge, Gained::First, "me", "n", &offset), None);
}

#[test]
fn a_version_that_goes_back_ends_the_process_in_every_role() {
    let older = |uid: &str| with(|view| (view.uid, view.resource_version) = (uid.to_owned(), 9));
    for own in [acquiring(), leading(), {
        let mut own = Own::new();
        look(&mut own, &Read::Lease(held()), at(0));
        own
    }] {
        let mut own = own;
        let action = look(&mut own, &older("u1"), at(50));
        assert_eq!(action, Action::Lose(LostReason::VersionWentBack));
    }
    let mut own = Own::new();
    look(&mut own, &Read::Lease(held()), at(0));
    assert!(
        matches!(look(&mut own, &older("u2"), at(1)), Action::Look { .. }),
        "another object may have any version",
    );
    assert_eq!(
        look(&mut own, &older("u1"), at(2)),
        Action::Lose(LostReason::VersionWentBack),
        "the first object is not forgotten",
    );
}

#[test]
fn known_uids_are_bounded() {
    let mut own = Own::new();
    for uid in 0..100 {
        look(&mut own, &with(|view| view.uid = format!("u{uid}")), at(0));
    }
    assert_eq!(own.newest.len(), MAX_KNOWN_UIDS);
}

#[test]
fn an_acquisition_of_unknown_outcome_is_decided_by_a_read() {
    for (what, read, expected) in [
        ("it happened", mine(11, 0), Action::Renew),
        ("nothing happened yet", Read::Lease(held()), Action::Resend),
        (
            "someone else was faster",
            with(|view| (view.resource_version, view.nonce) = (11, Some("x".into()))),
            Action::Look { after: OBSERVE_EVERY },
        ),
        (
            "an earlier attempt of this pod is not this attempt",
            with(|view| {
                view.resource_version = 11;
                (view.holder, view.nonce) = (Some("me/earlier".into()), Some("earlier".into()));
            }),
            Action::Look { after: OBSERVE_EVERY },
        ),
        ("deleted", Read::Absent, Action::Create),
        (
            "replaced by another object of the same version",
            with(|view| view.uid = "u2".into()),
            Action::Look { after: OBSERVE_EVERY },
        ),
        ("unusable", Read::Unusable(UnusableLease::NoUid), Action::Look { after: RETRY_PAUSE }),
    ] {
        let mut own = acquiring();
        let action = step(&mut own, Input::Unknown, at(1400));
        assert_eq!(action, Action::Look { after: RETRY_PAUSE }, "{what}");
        assert_eq!(look(&mut own, &read, at(1500)), expected, "{what}");
        let follower = matches!(own.role(), Role::Follower);
        let stays = matches!(expected, Action::Renew | Action::Resend)
            || read == Read::Unusable(UnusableLease::NoUid);
        assert_eq!(follower, !stays, "{what}");
    }
}

#[test]
fn an_acquisition_that_was_refused_is_looked_at_before_anything_else() {
    let mut own = acquiring();
    assert_eq!(step(&mut own, Input::Conflict, at(20)), Action::Look { after: Duration::ZERO });
    assert_eq!(step(&mut own, Input::Unread, at(40)), Action::Look { after: ms(1500) });
    assert_eq!(step(&mut own, Input::Refused, at(60)), Action::Look { after: OBSERVE_EVERY });
    assert!(matches!(own.role(), Role::Acquiring(_)), "a copy may still be under way");
}

#[test]
fn what_is_only_known_from_a_read_gives_no_validity() {
    let mut own = acquiring();
    assert_eq!(look(&mut own, &mine(11, 0), at(9000)), Action::Renew);
    assert_eq!(holding(&own).confirmed, None);
    assert_eq!(own.renewing(at(9010)), 1);
    let answer = mine(12, 1);
    step(&mut own, Input::Written { answer: &answer, started: at(9010) }, at(9030));
    assert_eq!(holding(&own).confirmed, Some(at(9010)));
}

#[test]
fn renewals_come_at_their_time_counted_from_the_start() {
    let mut own = leading();
    assert_eq!(step(&mut own, Input::Timer, at(1499)), Action::Rest { wait: ms(1) });
    assert_eq!(step(&mut own, Input::Timer, at(1500)), Action::Renew);
    assert_eq!(own.renewing(at(1500)), 1);
    let answer = mine(12, 1);
    let action = step(&mut own, Input::Written { answer: &answer, started: at(1500) }, at(2500));
    assert_eq!(action, Action::Rest { wait: ms(500) });
    assert_eq!(holding(&own).confirmed, Some(at(1500)));
}

#[test]
fn a_failed_renewal_is_followed_at_once_but_no_busy_loop() {
    for input in [Input::Unknown, Input::Refused, Input::Unread] {
        let mut own = leading();
        own.renewing(at(1500));
        assert_eq!(step(&mut own, input, at(1540)), Action::Rest { wait: ms(60) }, "{input:?}");
        assert_eq!(step(&mut own, Input::Timer, at(1600)), Action::Renew, "{input:?}");
        own.renewing(at(1600));
        assert_eq!(step(&mut own, input, at(3000)), Action::Renew, "{input:?}: timed out");
    }
}

#[test]
fn leadership_ends_when_the_validity_does_whatever_happens() {
    let answer = mine(12, 1);
    for input in [
        Input::Timer,
        Input::Unread,
        Input::Refused,
        Input::Unknown,
        Input::Conflict,
        Input::Read(&answer),
        Input::Written { answer: &answer, started: at(5900) },
    ] {
        let mut own = leading();
        own.renewing(at(5900));
        let early = step(&mut own.clone(), input, at(5999));
        assert!(!matches!(early, Action::Lose(_)), "{input:?}");
        let action = step(&mut own, input, at(6000));
        assert_eq!(action, Action::Lose(LostReason::Expired), "{input:?}: 0.6 · 10 s");
        assert_eq!(step(&mut own, Input::Read(&answer), at(6001)), action, "lost is final");
    }
}

#[test]
fn a_conflict_is_looked_at_and_decides() {
    let lost = |reason| Action::Lose(reason);
    for (what, read, expected) in [
        ("someone touched it, still mine", mine(13, 0), Action::Renew),
        ("the lost answer was a yes", mine(12, 1), Action::Rest { wait: ms(1440) }),
        (
            "edited to another holder",
            with(|view| {
                *view = match mine(13, 0) {
                    Read::Lease(view) => view,
                    read => panic!("{read:?}"),
                };
                view.holder = Some("z".into());
            }),
            taken(Some("z")),
        ),
        ("another term", with(|view| view.resource_version = 13), taken(Some("other/n7"))),
        (
            "same nonce, another epoch",
            with(|view| {
                *view = match mine(13, 0) {
                    Read::Lease(view) => view,
                    read => panic!("{read:?}"),
                };
                view.epoch = Some(11);
            }),
            taken(Some("me/mine")),
        ),
        ("released", with(|v| (v.resource_version, v.holder) = (13, None)), taken(None)),
        ("deleted", Read::Absent, lost(LostReason::LeaseDeleted)),
        (
            "deleted and created again",
            with(|view| (view.uid, view.resource_version) = ("u2".into(), 20)),
            lost(LostReason::LeaseDeleted),
        ),
        ("unusable", Read::Unusable(UnusableLease::NoVersion), taken(None)),
        (
            "steered",
            match mine(13, 0) {
                Read::Lease(mut view) => {
                    view.steered = true;
                    Read::Lease(view)
                }
                read => panic!("{read:?}"),
            },
            lost(LostReason::Steered),
        ),
    ] {
        let mut own = leading();
        own.renewing(at(1500));
        let action = step(&mut own, Input::Conflict, at(1550));
        assert_eq!(action, Action::Look { after: Duration::ZERO }, "{what}");
        assert_eq!(look(&mut own, &read, at(1560)), expected, "{what}");
    }
}

#[test]
fn an_answer_that_is_not_ours_ends_it_too() {
    let mut own = leading();
    own.renewing(at(1500));
    let answer = with(|view| view.resource_version = 12);
    let action = step(&mut own, Input::Written { answer: &answer, started: at(1500) }, at(1520));
    assert_eq!(action, taken(Some("other/n7")));
}

#[test]
fn a_follower_is_patient_with_what_it_cannot_use() {
    let mut own = Own::new();
    let action = look(&mut own, &Read::Unusable(UnusableLease::NoUid), at(0));
    assert_eq!(action, Action::Look { after: OBSERVE_EVERY });
    assert_eq!(own.role(), &Role::Follower);
}

#[test]
fn the_first_reason_of_a_loss_stays() {
    let mut own = leading();
    assert_eq!(own.lose(LostReason::Shutdown), Action::Lose(LostReason::Shutdown));
    assert_eq!(own.lose(LostReason::Outranked), Action::Lose(LostReason::Shutdown));
    assert_eq!(step(&mut own, Input::Timer, at(0)), Action::Lose(LostReason::Shutdown));
}

#[test]
fn three_attempts_that_time_out_fit_into_the_validity() {
    for secs in [3, 10, 60] {
        let config = LeaseConfig::new(Duration::from_secs(secs), 0).unwrap();
        let mut own = acquiring();
        let answer = mine(11, 0);
        let mut now = at(0);
        decide(&mut own, Input::Written { answer: &answer, started: now }, now, &config);
        now = now.after(config.renew_every());
        for _ in 0..2 {
            assert_eq!(decide(&mut own, Input::Timer, now, &config), Action::Renew);
            own.renewing(now);
            now = now.after(config.attempt_timeout());
            assert_eq!(decide(&mut own, Input::Unknown, now, &config), Action::Renew);
        }
        let start = now;
        own.renewing(start);
        now = now.after(config.attempt_timeout().saturating_sub(ms(1)));
        let late = mine(14, 3);
        let action =
            decide(&mut own, Input::Written { answer: &late, started: start }, now, &config);
        assert!(matches!(action, Action::Rest { .. }), "{secs}: {action:?}");
    }
}

#[test]
fn a_lease_is_given_back_only_by_a_leader_that_ends_by_its_own_will() {
    let taken = LostReason::Taken { holder: Some("other".to_owned()) };
    for (reason, gives_back) in [
        (LostReason::Shutdown, true),
        (LostReason::Outranked, true),
        (LostReason::FenceNotEnforced, true),
        (taken, false),
        (LostReason::LeaseDeleted, false),
        (LostReason::Steered, false),
        (LostReason::VersionWentBack, false),
        (LostReason::Expired, false),
    ] {
        assert_eq!(reason.gives_back(), gives_back, "{reason:?}");
    }
}

#[test]
fn a_lease_that_was_made_again_from_a_copy_is_another_one() {
    // As after `kubectl replace --force` of what was read: the same words under another uid.
    let Read::Lease(mut copy) = mine(12, 0) else { unreachable!("it is a Lease") };
    copy.uid = "u2".into();
    let copy = Read::Lease(copy);
    let mut own = acquiring();
    assert!(matches!(look(&mut own, &copy, at(10)), Action::Look { .. }));
    assert!(matches!(own.role(), Role::Follower));
    let mut own = leading();
    assert_eq!(look(&mut own, &copy, at(1000)), Action::Lose(LostReason::LeaseDeleted));
}
