//! From a seed to a plan. Pure: the plan is data, so a failure can be played again and looked at.

use std::time::Duration;

use serde_json::Value;

use super::{
    duty,
    moves::{Move, Who},
    objects, reports, theme,
};
use crate::sim::{
    provider::Rule,
    rng::Rng,
    world::{ApiFault, Class, Effect, Fault, Setup},
};

/// When the first thing may go wrong: the first term has begun.
const FIRST_MOVE: Duration = Duration::from_secs(5);
/// When everything is repaired.
const CALM: Duration = Duration::from_secs(230);
/// When the history ends: after the calm every run of the plan that ends by itself has ended.
const END: Duration = Duration::from_secs(370);
/// Least and most things that go wrong.
const MOVES: (u64, u64) = (4, 14);

/// A history to be played.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The cluster.
    pub setup: Setup,
    /// What is in it when the replicas start.
    pub objects: Vec<Value>,
    /// How runs behave.
    pub rules: Vec<Rule>,
    /// What happens, and when; in order.
    pub moves: Vec<(Duration, Move)>,
    /// When everything is repaired.
    pub calm: Duration,
    /// When it ends.
    pub end: Duration,
}

/// The plan of a seed.
pub fn plan(seed: u64) -> Plan {
    let mut plan = maintenance(seed);
    reports::put(&mut plan, seed);
    plan
}

/// The plan of a seed before reports are put into it.
pub(super) fn maintenance(seed: u64) -> Plan {
    let rng = Rng::new(seed);
    let mut dice = rng.fork(1);
    let replicas = if dice.chance(25) { 3 } else { 2 };
    let lease_seconds = if dice.chance(15) { 4 } else { 10 };
    let setup = Setup { replicas, seed, lease_seconds, ..Setup::default() };
    let objects = objects::objects(&mut rng.fork(2));
    let rules = objects::rules(&mut rng.fork(3));
    let mut dice = rng.fork(4);
    let mut moves: Vec<(Duration, Move)> = (0..dice.of(MOVES.0..=MOVES.1))
        .map(|_| {
            let last = u64::try_from(CALM.saturating_sub(FIRST_MOVE).as_millis()).unwrap_or(0);
            (FIRST_MOVE + ms(dice.of(0..=last)), one_move(&mut dice))
        })
        .collect();
    moves.sort_by_key(|(at, _)| *at);
    let mut plan = Plan { setup, objects, rules, moves, calm: CALM, end: END };
    duty::put(&mut plan, seed);
    theme::put(&mut plan, seed);
    plan
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(dice: &mut Rng, from: u64, to: u64) -> Duration {
    ms(dice.of(from * 1000..=to * 1000))
}

fn who(dice: &mut Rng) -> Who {
    match dice.of(1..=10) {
        1..=7 => Who::Leader,
        8 | 9 => Who::Standby,
        _ => Who::All,
    }
}

fn one_move(dice: &mut Rng) -> Move {
    match dice.of(1..=100) {
        1..=24 => process(dice),
        25..=52 => Move::Inject(whose(dice), request(dice)),
        53..=66 => api(dice),
        67..=70 => lease(dice),
        71..=75 => clock(dice),
        76..=82 => provider(dice),
        83..=93 => Move::Person,
        _ => Move::Cluster,
    }
}

fn whose(dice: &mut Rng) -> Option<Who> {
    dice.chance(70).then_some(Who::Leader)
}

fn process(dice: &mut Rng) -> Move {
    let (who, lasting) = (who(dice), secs(dice, 1, 60));
    match dice.of(1..=10) {
        1 | 2 => Move::Pause(who, lasting),
        3 | 4 => Move::Kill(who, lasting),
        5 | 6 => Move::Partition(who, lasting),
        7..=9 => {
            let writes = u32::try_from(dice.of(0..=8)).unwrap_or(0);
            Move::CrashAfter(Who::Leader, writes, lasting)
        }
        _ => Move::Stop(who, lasting),
    }
}

/// A fault that waits for one of the next requests.
fn request(dice: &mut Rng) -> Fault {
    let silent = dice.chance(50);
    let effect = match dice.of(1..=15) {
        1 => Effect::LoseRequest { silent },
        2 | 3 => Effect::LoseResponse { silent },
        4 | 5 => Effect::Duplicate { after: secs(dice, 0, 20) },
        6 | 7 => Effect::Delay { by: secs(dice, 1, 45) },
        8 | 9 => Effect::Hold,
        10 => Effect::Freeze { lasting: secs(dice, 5, 40) },
        11 => Effect::CutOff { lasting: secs(dice, 5, 40) },
        12 => Effect::CrashAfter,
        13 => Effect::CrashBefore,
        14 => Effect::Refuse { code: 409, committed: false },
        _ => {
            let code = *dice.pick(&[429, 500, 503, 504]).unwrap_or(&503);
            Effect::Refuse { code, committed: silent }
        }
    };
    let class = match dice.of(1..=20) {
        1 => Class::Any,
        2 => Class::Read,
        3 => Class::Lease,
        4 => Class::Check,
        5 => Class::Write,
        _ => Class::Work,
    };
    let conflicts = matches!(effect, Effect::Refuse { code: 409, .. });
    let class = if conflicts { Class::Conditional } else { class };
    let small = |number: u64| u32::try_from(number).unwrap_or(0);
    let (skip, times) = (small(dice.of(0..=6)), small(dice.of(1..=3)));
    Fault { class, skip, times, ..Fault::next_write(effect) }
}

fn api(dice: &mut Rng) -> Move {
    let times = u32::try_from(dice.of(1..=6)).unwrap_or(1);
    Move::Api(match dice.of(1..=9) {
        1 => ApiFault::Unavailable(secs(dice, 1, 30)),
        2 => ApiFault::DropResponses(times),
        3 => ApiFault::Conflicts(times * 3),
        4 => ApiFault::Refuse { code: 429, times: times * 2, committed: false },
        5 => ApiFault::Latency { extra: secs(dice, 0, 2), lasting: secs(dice, 5, 40) },
        6 | 7 => ApiFault::StaleReads(secs(dice, 5, 60)),
        8 => ApiFault::Compact,
        _ => ApiFault::BreakConnections,
    })
}

fn lease(dice: &mut Rng) -> Move {
    match dice.of(1..=3) {
        1 => Move::DeleteLease,
        2 => Move::TakeLease,
        _ => Move::SteerLease,
    }
}

fn clock(dice: &mut Rng) -> Move {
    let who = who(dice);
    if dice.chance(50) {
        let seconds = i64::try_from(dice.of(0..=240)).unwrap_or(0) - 120;
        Move::Jump(who, seconds)
    } else {
        let percent = u32::try_from(dice.of(0..=200)).unwrap_or(100);
        Move::Rate(who, percent, secs(dice, 10, 60))
    }
}

fn provider(dice: &mut Rng) -> Move {
    match dice.of(1..=5) {
        1 => Move::ProviderRule(objects::rule(dice, "*")),
        2 => Move::ProviderUnreachable(secs(dice, 5, 90)),
        3 => Move::ProviderDropsAnswers(u32::try_from(dice.of(1..=3)).unwrap_or(1)),
        _ => Move::ProviderLoses,
    }
}
