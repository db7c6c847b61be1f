//! What a plan decides, rule by rule.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{at, instant};
use crate::{
    identity::WorkId,
    time::{
        DstPolicy, MissedRunsPolicy, SkipReason, SkippedRange,
        plan::{Observed, PlanInput, SchedulePlan, add_skipped_totals, merge_skipped, plan},
        spread::{SpreadKind, SpreadOf, spread_delay_seconds},
    },
};

/// A schedule that was seen before, in order, and decided up to `last`.
pub(super) fn known(expression: &str, last: &str) -> PlanInput {
    PlanInput {
        schedule: expression.to_owned(),
        time_zone: "UTC".to_owned(),
        dst_policy: DstPolicy::Once,
        anchor: None,
        suspend: false,
        suspend_until_time: None,
        starting_deadline_seconds: None,
        missed_policy: MissedRunsPolicy::Latest,
        missed_limit: 10,
        spread: None,
        uid: Some("u1".to_owned()),
        creation_time: Some(at("2025-01-01T00:00:00Z")),
        last_schedule_time: Some(instant(last)),
        effective_time: Some(at("2025-01-01T00:00:00Z")),
        suspended_time: None,
        observed: Some(Observed {
            uid: Some("u1".to_owned()),
            schedule: expression.to_owned(),
            time_zone: "UTC".to_owned(),
            dst_policy: DstPolicy::Once,
            anchor: None,
            suspend_until_time: None,
        }),
    }
}

/// The input with what a plan has recorded.
pub(super) fn recorded(input: &PlanInput, plan: &SchedulePlan) -> PlanInput {
    PlanInput {
        last_schedule_time: plan.last_schedule_time,
        effective_time: Some(plan.effective_time),
        suspended_time: plan.suspended_time,
        observed: Some(plan.observed.clone()),
        ..input.clone()
    }
}

/// A plan in one line: what runs, what is skipped, what is next.
fn told(input: &PlanInput, now: &str) -> String {
    tell(&plan(input, at(now)).unwrap())
}

fn tell(plan: &SchedulePlan) -> String {
    let run: Vec<String> = plan.run.iter().map(ToString::to_string).collect();
    let skipped: Vec<String> = plan
        .skipped
        .iter()
        .map(|r| format!("{} {}..{} {}", r.count, r.from, r.to, r.reason.as_str()))
        .collect();
    let next = plan.next.map_or("never".to_owned(), |next| next.to_string());
    format!("run [{}] skip [{}] next {next}", run.join(" "), skipped.join(", "))
        .replace(":00Z", "Z")
        .replace("2025-", "")
}

fn range(from: &str, to: &str, count: i64, reason: SkipReason) -> SkippedRange {
    SkippedRange { from: instant(from), to: instant(to), count, reason }
}

#[test]
fn missed_instants_follow_the_policy() {
    let hourly = known("0 * * * *", "2025-06-10T08:00:00Z");
    let with =
        |missed_policy, missed_limit| PlanInput { missed_policy, missed_limit, ..hourly.clone() };
    let now = "2025-06-10T12:00:30Z";
    let cases = [
        (
            MissedRunsPolicy::Latest,
            10,
            "run [06-10T12:00Z] skip [3 06-10T09:00Z..06-10T11:00Z Superseded]",
        ),
        (
            MissedRunsPolicy::All,
            10,
            "run [06-10T09:00Z 06-10T10:00Z 06-10T11:00Z 06-10T12:00Z] skip []",
        ),
        (
            MissedRunsPolicy::All,
            2,
            "run [06-10T11:00Z 06-10T12:00Z] skip [2 06-10T09:00Z..06-10T10:00Z Superseded]",
        ),
        (
            MissedRunsPolicy::None,
            10,
            "run [06-10T12:00Z] skip [3 06-10T09:00Z..06-10T11:00Z Missed]",
        ),
    ];
    for (policy, limit, expected) in cases {
        let expected = format!("{expected} next 06-10T13:00Z");
        assert_eq!(told(&with(policy, limit), now), expected, "{policy:?} {limit}");
    }
    // Nothing is due 61 seconds after the instant, one is due at 60.
    let none = with(MissedRunsPolicy::None, 10);
    assert!(told(&none, "2025-06-10T12:01:01Z").starts_with("run [] skip [4 "));
    assert!(told(&none, "2025-06-10T12:01:00Z").starts_with("run [06-10T12:00Z]"));
}

#[test]
fn two_instants_can_be_due_at_once() {
    let input = PlanInput {
        missed_policy: MissedRunsPolicy::None,
        ..known("* * * * *", "2025-06-10T08:00:00Z")
    };
    let expected = "run [06-10T08:09Z 06-10T08:10Z] skip [8 06-10T08:01Z..06-10T08:08Z Missed] next 06-10T08:11Z";
    assert_eq!(told(&input, "2025-06-10T08:10:00Z"), expected);
}

#[test]
fn the_look_back_ends_after_seven_days() {
    let input = PlanInput {
        missed_policy: MissedRunsPolicy::All,
        missed_limit: 100,
        ..known("0 0 * * *", "2025-06-01T00:00:00Z")
    };
    let expected = "run [06-05T00:00Z 06-06T00:00Z 06-07T00:00Z 06-08T00:00Z 06-09T00:00Z 06-10T00:00Z 06-11T00:00Z 06-12T00:00Z] \
                    skip [3 06-02T00:00Z..06-04T00:00Z Missed] next 06-13T00:00Z";
    assert_eq!(told(&input, "2025-06-12T00:00:00Z"), expected);
    let year = known("* * * * *", "2024-06-12T00:00:00Z");
    let latest = plan(&year, at("2025-06-12T00:00:10Z")).unwrap();
    assert_eq!(latest.skipped.len(), 2, "older than a week, and superseded");
    let total: i64 = latest.skipped.iter().map(|r| r.count).sum();
    assert_eq!(
        total,
        162 * 1440,
        "counted exactly: from the creation on, all but the one that runs"
    );
}

#[test]
fn the_deadline_counts_from_the_instant_or_the_spread_start() {
    let hourly = PlanInput {
        starting_deadline_seconds: Some(5400),
        missed_policy: MissedRunsPolicy::All,
        ..known("0 * * * *", "2025-06-10T08:00:00Z")
    };
    let expected = "run [06-10T11:00Z 06-10T12:00Z] skip [2 06-10T09:00Z..06-10T10:00Z Deadline] next 06-10T13:00Z";
    assert_eq!(told(&hourly, "2025-06-10T12:10:00Z"), expected);
    let just = "run [06-10T11:00Z 06-10T12:00Z]";
    assert!(
        told(&hourly, "2025-06-10T12:30:00Z").starts_with(just),
        "at the deadline it is in time"
    );
    assert!(told(&hourly, "2025-06-10T12:30:01Z").starts_with("run [06-10T12:00Z]"));

    let spread = SpreadOf {
        window_seconds: 7200,
        of: SpreadKind::Maintenance,
        namespace: "d".to_owned(),
        name: "s".to_owned(),
    };
    let delayed = PlanInput { spread: Some(spread.clone()), ..hourly };
    for minute in 0..60 {
        let now = at(&format!("2025-06-10T12:{minute:02}:00Z"));
        let decided = plan(&delayed, now).unwrap();
        for hour in 9..=12 {
            let one = instant(&format!("2025-06-10T{hour:02}:00:00Z"));
            let start = one.timestamp().as_second() + spread.delay_seconds(one);
            let in_time = start + 5400 >= now.as_second();
            assert_eq!(decided.run.contains(&one), in_time, "{one} at {now}");
        }
    }
}

#[test]
fn a_spread_is_even_and_stays_in_its_window() {
    let delays: Vec<i64> = (0..1000)
        .map(|n| {
            let work = WorkId::maintenance("d", &format!("s{n}"), instant("2025-06-10T08:00:00Z"));
            assert_eq!(spread_delay_seconds(&work, 0), 0);
            assert_eq!(spread_delay_seconds(&work, -5), 0);
            spread_delay_seconds(&work, 100)
        })
        .collect();
    assert!(delays.iter().all(|delay| (0..100).contains(delay)));
    for quarter in 0..4 {
        let share = delays.iter().filter(|&&d| d / 25 == quarter).count();
        assert!((200..300).contains(&share), "{share} of 1000 in quarter {quarter}");
    }
}

#[test]
fn a_new_schedule_starts_at_its_creation() {
    let created = PlanInput {
        creation_time: Some(at("2025-06-10T08:00:00Z")),
        last_schedule_time: None,
        effective_time: None,
        observed: None,
        ..known("0 * * * *", "2025-06-10T08:00:00Z")
    };
    let first = plan(&created, at("2025-06-10T09:00:01Z")).unwrap();
    let expected =
        "run [06-10T09:00Z] skip [1 06-10T08:00Z..06-10T08:00Z Superseded] next 06-10T10:00Z";
    assert_eq!(tell(&first), expected, "an instant at the creation is not before it");
    assert_eq!(first.effective_time, at("2025-06-10T08:00:00Z"));
    assert!(first.must_record);

    let no_time = PlanInput { creation_time: None, ..created };
    assert_eq!(told(&no_time, "2025-06-10T09:00:30Z"), "run [] skip [] next 06-10T10:00Z");
}

#[test]
fn a_created_again_schedule_discards_what_it_finds() {
    let restored = PlanInput {
        uid: Some("u2".to_owned()),
        creation_time: Some(at("2025-06-10T11:30:00Z")),
        suspended_time: Some(at("2025-06-10T08:30:00Z")),
        ..known("0 * * * *", "2025-06-10T08:00:00Z")
    };
    let decided = plan(&restored, at("2025-06-10T12:00:01Z")).unwrap();
    assert_eq!(tell(&decided), "run [06-10T12:00Z] skip [] next 06-10T13:00Z");
    assert_eq!(decided.observed.uid.as_deref(), Some("u2"));
    assert_eq!(decided.suspended_time, None);
}

#[test]
fn an_edit_supersedes_what_the_old_expression_left() {
    let old = known("30 * * * *", "2025-06-10T08:30:00Z");
    let edits = [
        PlanInput { schedule: "0 * * * *".to_owned(), ..old.clone() },
        PlanInput { time_zone: "Europe/Berlin".to_owned(), ..old.clone() },
        PlanInput { dst_policy: DstPolicy::CronJob, ..old.clone() },
        PlanInput { anchor: Some(instant("2025-01-01T00:01:00Z")), ..old.clone() },
    ];
    for edited in edits {
        let decided = plan(&edited, at("2025-06-10T11:10:00.5Z")).unwrap();
        let expected = "run [] skip [2 06-10T09:30Z..06-10T10:30Z Superseded]";
        assert!(tell(&decided).starts_with(expected), "{}", tell(&decided));
        assert_eq!(decided.effective_time, at("2025-06-10T11:10:00Z"), "whole seconds");
        let again = plan(&recorded(&edited, &decided), at("2025-06-10T11:10:20Z")).unwrap();
        assert!(!again.must_record && again.run.is_empty() && again.skipped.is_empty());
    }
    // Spelling out a default, or learning the uid, is no edit.
    let same = PlanInput { anchor: Some(instant("2025-01-01T00:00:00Z")), uid: None, ..old };
    assert!(told(&same, "2025-06-10T09:30:01Z").starts_with("run [06-10T09:30Z]"));
}

#[test]
fn an_edit_at_an_instant_of_both_expressions_runs_it() {
    let edited = PlanInput {
        schedule: "0 */2 * * *".to_owned(),
        ..known("0 * * * *", "2025-06-10T08:00:00Z")
    };
    let expected =
        "run [06-10T10:00Z] skip [1 06-10T09:00Z..06-10T09:00Z Superseded] next 06-10T12:00Z";
    assert_eq!(told(&edited, "2025-06-10T10:00:00Z"), expected);
    let expected = "run [] skip [3 06-10T09:00Z..06-10T11:00Z Superseded] next 06-10T12:00Z";
    assert_eq!(told(&edited, "2025-06-10T11:00:00Z"), expected);
}

#[test]
fn an_unreadable_old_expression_cannot_block_a_new_one() {
    let mut edited = known("0 * * * *", "2025-06-10T08:00:00Z");
    edited.observed.as_mut().unwrap().schedule = "nonsense".to_owned();
    let expected = "run [] skip [] next 06-10T10:00Z";
    assert_eq!(told(&edited, "2025-06-10T09:00:01Z"), expected);
}

#[test]
fn suspending_skips_and_resuming_runs_nothing_old() {
    let active = known("0 * * * *", "2025-06-10T08:00:00Z");
    let suspended = PlanInput { suspend: true, ..active };
    // First seen with an instant open: it is not run, and recorded at once.
    let seen = plan(&suspended, at("2025-06-10T09:00:30Z")).unwrap();
    assert_eq!(tell(&seen), "run [] skip [1 06-10T09:00Z..06-10T09:00Z Suspended] next never");
    assert_eq!(seen.suspended_time, Some(at("2025-06-10T09:00:30Z")));
    // While suspended nothing is written.
    let suspended = recorded(&suspended, &seen);
    let later = plan(&suspended, at("2025-06-11T09:00:30Z")).unwrap();
    assert_eq!(tell(&later), "run [] skip [] next never");
    assert!(!later.must_record);
    assert_eq!(later.look_again, None);
    // An edit meanwhile closes the stretch of the old expression.
    let edited = PlanInput { schedule: "30 * * * *".to_owned(), ..suspended };
    let closed = plan(&edited, at("2025-06-11T12:10:00Z")).unwrap();
    assert_eq!(tell(&closed), "run [] skip [27 06-10T10:00Z..06-11T12:00Z Suspended] next never");
    assert_eq!(closed.suspended_time, Some(at("2025-06-10T09:00:30Z")), "suspended since then");
    // Resumed: the rest of the stretch.
    let resumed = PlanInput { suspend: false, ..recorded(&edited, &closed) };
    let resumed = plan(&resumed, at("2025-06-11T14:30:20Z")).unwrap();
    let expected = "run [] skip [3 06-11T12:30Z..06-11T14:30Z Suspended] next 06-11T15:30Z";
    assert_eq!(tell(&resumed), expected);
    assert_eq!(
        (resumed.suspended_time, resumed.effective_time),
        (None, at("2025-06-11T14:30:20Z"))
    );
}

#[test]
fn a_suspension_ends_by_itself() {
    let until = at("2025-06-10T12:00:00Z");
    let suspended = PlanInput {
        suspend: true,
        suspend_until_time: Some(until),
        ..known("0 * * * *", "2025-06-10T08:00:00Z")
    };
    let seen = plan(&suspended, at("2025-06-10T08:10:00Z")).unwrap();
    assert_eq!(tell(&seen), "run [] skip [] next 06-10T12:00Z");
    assert_eq!(seen.look_again, Some(until));
    // A leader that comes late still runs what was due after the time that everybody knew.
    let known_until = recorded(&suspended, &seen);
    let expected =
        "run [06-10T12:00Z] skip [3 06-10T09:00Z..06-10T11:00Z Suspended] next 06-10T13:00Z";
    assert_eq!(told(&known_until, "2025-06-10T12:00:40Z"), expected);
    // A time in the past that nobody knew before is a resume at the moment it is seen.
    let mut edited = known_until;
    edited.suspend_until_time = Some(at("2025-06-10T10:30:00Z"));
    let expected = "run [] skip [4 06-10T09:00Z..06-10T12:00Z Suspended] next 06-10T13:00Z";
    assert_eq!(told(&edited, "2025-06-10T12:00:40Z"), expected);
}

#[test]
fn a_clock_that_stepped_back_plans_nothing_new() {
    let input = known("0 * * * *", "2025-06-10T08:00:00Z");
    let decided = plan(&input, at("2025-06-10T06:30:00Z")).unwrap();
    assert_eq!(tell(&decided), "run [] skip [] next 06-10T09:00Z");
    assert!(!decided.must_record);
}

#[test]
fn what_never_fires_is_planned_as_such() {
    let decided = plan(&known("0 0 30 2 *", "2025-06-10T08:00:00Z"), at("2025-06-12T00:00:00Z"));
    let decided = decided.unwrap();
    assert!(decided.never_fires && decided.next.is_none() && decided.look_again.is_none());
}

#[test]
fn what_is_refused_names_the_field() {
    let mut input = known("0 * * * *", "2025-06-10T08:00:00Z");
    input.schedule = "0 0 * * 7".to_owned();
    let sentence = plan(&input, Timestamp::UNIX_EPOCH).unwrap_err().to_string();
    assert!(sentence.starts_with("spec.schedule: day of week:"), "{sentence}");
    input.schedule = "0 0 * * 0".to_owned();
    input.time_zone = "Local".to_owned();
    let sentence = plan(&input, Timestamp::UNIX_EPOCH).unwrap_err().to_string();
    assert!(sentence.starts_with("spec.timeZone: \"Local\""), "{sentence}");
}

#[test]
fn adjacent_ranges_of_one_reason_become_one() {
    use SkipReason::{Concurrent, Missed};
    let [one, two, three, four, five] = [1, 2, 3, 4, 5].map(|h| format!("2025-06-10T0{h}:00:00Z"));
    let first = vec![range(&one, &two, 2, Missed)];
    let next = [range(&three, &four, 2, Missed)];
    let merged = |cursor: &str, run: &[&str], new: &[SkippedRange]| {
        let run: Vec<_> = run.iter().map(|t| instant(t)).collect();
        merge_skipped(first.clone(), new, Some(instant(cursor)), &run, 20)
    };
    assert_eq!(merged(&two, &[], &next), [range(&one, &four, 4, Missed)]);
    assert_eq!(merged(&two, &[&five], &next), [range(&one, &four, 4, Missed)]);
    // Something ran in between, before or within the new decision.
    assert_eq!(merged(&three, &[], &[range(&four, &four, 1, Missed)]).len(), 2);
    assert_eq!(merged(&two, &[&three], &[range(&four, &four, 1, Missed)]).len(), 2);
    assert_eq!(merged(&two, &[], &[range(&three, &four, 2, Concurrent)]).len(), 2);
    // Late news of an older instant finds its place.
    let late =
        merged(&five, &[], &[range("2025-06-09T00:00:00Z", "2025-06-09T00:00:00Z", 1, Missed)]);
    assert_eq!(late[0].from, instant("2025-06-09T00:00:00Z"));
    let kept = merge_skipped(first.clone(), &[range(&four, &four, 1, Concurrent)], None, &[], 1);
    assert_eq!(kept, [range(&four, &four, 1, Concurrent)], "the newest are kept");

    let mut totals = BTreeMap::new();
    add_skipped_totals(&mut totals, &first);
    add_skipped_totals(
        &mut totals,
        &[range(&five, &five, 1, Concurrent), range(&three, &four, 2, Missed)],
    );
    assert_eq!(totals, BTreeMap::from([("Concurrent".to_owned(), 1), ("Missed".to_owned(), 4)]));
}

#[test]
fn ranges_and_policies_are_written_as_in_manifests() {
    let one = range("2025-06-10T01:00:00Z", "2025-06-10T02:00:00Z", 2, SkipReason::QueueFull);
    let json = r#"{"from":"2025-06-10T01:00:00Z","to":"2025-06-10T02:00:00Z","count":2,"reason":"QueueFull"}"#;
    assert_eq!(serde_json::to_string(&one).unwrap(), json);
    assert_eq!(serde_json::from_str::<SkippedRange>(json).unwrap(), one);
    assert_eq!(serde_json::to_string(&DstPolicy::default()).unwrap(), "\"Once\"");
    assert_eq!(serde_json::to_string(&MissedRunsPolicy::default()).unwrap(), "\"Latest\"");
    for reason in [SkipReason::Suspended, SkipReason::CreateRefused, SkipReason::NameConflict] {
        assert_eq!(serde_json::to_string(&reason).unwrap(), format!("{:?}", reason.as_str()));
    }
}
