//! Random histories of a schedule, planned, and accounted for by a second, list-based model: every
//! instant is run or skipped exactly once, with the right reason.

use std::collections::BTreeSet;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{
    at, instant,
    plan::{known, recorded},
    properties,
};
use crate::time::{
    DstPolicy, IntendedTime, MissedRunsPolicy, Schedule, SkipReason, SkippedRange,
    plan::{MAX_MISSED_LIMIT, PlanInput, plan},
    spread::{SpreadKind, SpreadOf},
};

const EXPRESSIONS: [&str; 6] =
    ["*/7 * * * *", "0 * * * *", "30 2 * * *", "@every 45m", "0 9,17 * * 1-5", "0 0 30 2 *"];

/// What happens between two looks.
#[derive(Clone, Debug)]
enum Event {
    Nothing,
    Edit(usize),
    Zone(bool),
    Suspend,
    SuspendFor(i64),
    Resume,
    Missed(MissedRunsPolicy, usize),
    Deadline(Option<i64>),
    Spread(i64),
}

fn event() -> impl Strategy<Value = Event> {
    let policy = prop_oneof![
        Just(MissedRunsPolicy::Latest),
        Just(MissedRunsPolicy::All),
        Just(MissedRunsPolicy::None)
    ];
    prop_oneof![
        4 => Just(Event::Nothing),
        2 => (0..EXPRESSIONS.len()).prop_map(Event::Edit),
        1 => any::<bool>().prop_map(Event::Zone),
        1 => Just(Event::Suspend),
        1 => (0..400_000_i64).prop_map(Event::SuspendFor),
        2 => Just(Event::Resume),
        1 => (policy, 1..20_usize).prop_map(|(policy, limit)| Event::Missed(policy, limit)),
        1 => prop::option::of(0..200_000_i64).prop_map(Event::Deadline),
        1 => (0..20_000_i64).prop_map(Event::Spread),
    ]
}

/// Seconds between two looks: often one instant, at times an outage, at times a clock that steps
/// back.
fn pause() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0..7_200_i64,
        2 => (0..120_i64).prop_map(|minutes| minutes * 60),
        2 => 0..200_000_i64,
        1 => 0..1_000_000_i64,
        1 => -7_200..0_i64,
    ]
}

fn apply(input: &mut PlanInput, event: &Event, now: Timestamp) {
    match *event {
        Event::Nothing => {}
        Event::Edit(to) => EXPRESSIONS[to].clone_into(&mut input.schedule),
        Event::Zone(berlin) => {
            let zone = if berlin { "Europe/Berlin" } else { "UTC" };
            zone.clone_into(&mut input.time_zone);
        }
        Event::Suspend => (input.suspend, input.suspend_until_time) = (true, None),
        Event::SuspendFor(seconds) => {
            let until = Timestamp::from_second(now.as_second() + seconds).unwrap();
            (input.suspend, input.suspend_until_time) = (true, Some(until));
        }
        Event::Resume => (input.suspend, input.suspend_until_time) = (false, None),
        Event::Missed(policy, limit) => {
            (input.missed_policy, input.missed_limit) = (policy, limit);
        }
        Event::Deadline(seconds) => input.starting_deadline_seconds = seconds,
        Event::Spread(window_seconds) => {
            input.spread = Some(SpreadOf {
                window_seconds,
                of: SpreadKind::Report,
                namespace: "d".to_owned(),
                name: "s".to_owned(),
            });
        }
    }
}

/// An instant with its fate; `None` is to run.
type Fate = (IntendedTime, Option<SkipReason>);

/// The model: what is in force, and since when nothing is decided.
struct Model {
    /// The schedule in force, as its text and itself.
    force: (String, Schedule),
    /// Every instant up to here is decided.
    decided: Timestamp,
    /// Instants before this do not exist.
    effective: Timestamp,
    suspended: Option<(Timestamp, Option<Timestamp>)>,
}

fn text(input: &PlanInput) -> String {
    format!("{} {}", input.schedule, input.time_zone)
}

fn parsed(input: &PlanInput) -> Schedule {
    let anchor = IntendedTime::floor(input.creation_time.unwrap());
    Schedule::parse(&input.schedule, &input.time_zone, DstPolicy::Once, anchor).unwrap()
}

impl Model {
    /// The instants in force that nobody has decided, up to `until`.
    fn open(&self, until: Timestamp) -> Vec<IntendedTime> {
        let before = Timestamp::from_second(self.effective.as_second() - 1).unwrap();
        self.force.1.between(self.decided.max(before), until).collect()
    }

    /// The fates of all instants that one look decides.
    fn look(&mut self, input: &PlanInput, now: Timestamp) -> Vec<Fate> {
        let mut fates: Vec<Fate> = Vec::new();
        let suspended = input.suspend && input.suspend_until_time.is_none_or(|until| now < until);
        let force = (text(input), parsed(input));
        let edited = force.0 != self.force.0;
        if edited {
            for at in self.open(now) {
                let of_both =
                    at.timestamp() == now && force.1.between(self.decided, now).any(|t| t == at);
                if !of_both {
                    let since = self.suspended.is_some_and(|(since, _)| at.timestamp() >= since);
                    let reason = if since { SkipReason::Suspended } else { SkipReason::Superseded };
                    fates.push((at, Some(reason)));
                }
            }
            (self.force, self.effective) = (force, now);
        } else if let Some((since, known)) = self.suspended.filter(|_| !suspended) {
            let ended_itself = input.suspend && known == input.suspend_until_time;
            let end = if ended_itself { known.unwrap().clamp(since.min(now), now) } else { now };
            for at in self.open(now).into_iter().filter(|at| at.timestamp() < end) {
                // Also one before `since`: the clock was set back while suspended, and an edit then
                // made the schedule count from that earlier moment.
                fates.push((at, Some(SkipReason::Suspended)));
            }
            self.effective = end;
        }
        let open = self.open(now);
        let closed: BTreeSet<IntendedTime> = fates.iter().map(|&(at, _)| at).collect();
        let rest: Vec<IntendedTime> = open.into_iter().filter(|at| !closed.contains(at)).collect();
        if !suspended {
            fates.extend(fates_of(input, &rest, now));
        } else if self.suspended.is_none() {
            fates.extend(rest.into_iter().map(|at| (at, Some(SkipReason::Suspended))));
        }
        self.suspended = suspended
            .then(|| (self.suspended.map_or(now, |(since, _)| since), input.suspend_until_time));
        if let Some((last, _)) = fates.last() {
            self.decided = self.decided.max(last.timestamp());
        }
        fates
    }
}

/// The rules for missed and due instants, one after the other over a list.
fn fates_of(input: &PlanInput, open: &[IntendedTime], now: Timestamp) -> Vec<Fate> {
    let age = |at: IntendedTime| now.as_second() - at.timestamp().as_second();
    let delay = |at: IntendedTime| input.spread.as_ref().map_or(0, |s| s.delay_seconds(at));
    let mut fates: Vec<Fate> = open.iter().map(|&at| (at, None)).collect();
    for (at, fate) in &mut fates {
        if age(*at) > 7 * 24 * 3600 {
            *fate = Some(SkipReason::Missed);
        } else if input.starting_deadline_seconds.is_some_and(|d| age(*at) > d + delay(*at)) {
            *fate = Some(SkipReason::Deadline);
        }
    }
    let mut places = match input.missed_policy {
        MissedRunsPolicy::Latest => 1,
        MissedRunsPolicy::All => input.missed_limit.min(MAX_MISSED_LIMIT),
        MissedRunsPolicy::None => usize::MAX,
    };
    for (at, fate) in fates.iter_mut().rev().filter(|(_, fate)| fate.is_none()) {
        if input.missed_policy == MissedRunsPolicy::None && age(*at) > 60 {
            *fate = Some(SkipReason::Missed);
        } else if places == 0 {
            *fate = Some(SkipReason::Superseded);
        } else {
            places -= 1;
        }
    }
    fates
}

/// Fates as a plan writes them.
fn written(fates: &[Fate]) -> (Vec<IntendedTime>, Vec<SkippedRange>) {
    let run = fates.iter().filter(|(_, fate)| fate.is_none()).map(|&(at, _)| at).collect();
    let ranges = fates.chunk_by(|a, b| a.1 == b.1).filter_map(|chunk| {
        let (from, to) = (chunk[0].0, chunk[chunk.len() - 1].0);
        let count = i64::try_from(chunk.len()).unwrap();
        chunk[0].1.map(|reason| SkippedRange { from, to, count, reason })
    });
    (run, ranges.collect())
}

proptest! {
    #![proptest_config(properties(128))]

    #[test]
    fn every_instant_has_exactly_one_fate(
        steps in prop::collection::vec((event(), pause()), 1..14),
    ) {
        let start = at("2025-03-28T20:30:00Z"); // two days before clocks change in Berlin
        let mut input = PlanInput {
            creation_time: Some(start),
            last_schedule_time: None,
            effective_time: None,
            observed: None,
            ..known("0 * * * *", "2025-01-01T00:00:00Z")
        };
        let mut model = Model {
            force: (text(&input), parsed(&input)),
            decided: at("1970-01-01T00:00:00Z"),
            effective: start,
            suspended: None,
        };
        let first = plan(&input, start).unwrap();
        input = recorded(&input, &first);
        let mut now = start;
        let mut decided: Vec<IntendedTime> = Vec::new();
        for (event, pause) in steps {
            now = Timestamp::from_second(now.as_second() + pause).unwrap();
            apply(&mut input, &event, now);
            let plan_now = plan(&input, now).unwrap();
            let fates = model.look(&input, now);
            let (run, skipped) = written(&fates);
            prop_assert_eq!(&plan_now.run, &run, "{:?} at {}", event, now);
            prop_assert_eq!(&plan_now.skipped, &skipped, "{:?} at {}", event, now);
            for (at, _) in &fates {
                prop_assert!(decided.last().is_none_or(|last| last < at), "{} twice", at);
                decided.push(*at);
            }
            prop_assert!(plan_now.next.is_none_or(|next| next.timestamp() > now));
            input = recorded(&input, &plan_now);
            let again = plan(&input, now).unwrap();
            prop_assert!(again.run.is_empty() && again.skipped.is_empty() && !again.must_record);
        }
    }
}

#[test]
fn the_model_tells_fates_apart() {
    let input = PlanInput {
        missed_policy: MissedRunsPolicy::All,
        missed_limit: 1,
        starting_deadline_seconds: Some(7200),
        ..known("0 * * * *", "2025-06-10T00:00:00Z")
    };
    let open = [
        "2025-06-01T00:00:00Z",
        "2025-06-10T08:00:00Z",
        "2025-06-10T11:00:00Z",
        "2025-06-10T12:00:00Z",
    ]
    .map(instant);
    let fates = fates_of(&input, &open, at("2025-06-10T12:00:10Z")).into_iter().map(|f| f.1);
    let expected =
        [Some(SkipReason::Missed), Some(SkipReason::Deadline), Some(SkipReason::Superseded), None];
    assert_eq!(fates.collect::<Vec<_>>(), expected);
}
