//! Which records are kept, and how far they may have been removed.
//!
//! A record is only removed after `status.prunedThrough` of the schedule covers its instant: from
//! then on hand-made work of such an instant is refused, because it may have run.

use jiff::{SignedDuration, Timestamp};

use super::Work;
use crate::{api::Retention, time::IntendedTime};

/// Most records removed in one pass, so that a lowered limit does not hold up due instants.
pub const MAX_PRUNED_PER_PASS: usize = 50;

/// The records that the limits no longer cover, oldest first. `works` come oldest first.
///
/// `waiting_from` is the oldest instant that still waits to start: only older records are removed,
/// or the mark would overtake it.
pub fn surplus<'a, W: Work + 'a>(
    limits: &Retention,
    works: impl DoubleEndedIterator<Item = (IntendedTime, &'a W)>,
    waiting_from: Option<IntendedTime>,
    claimed: &dyn Fn(&W) -> bool,
    now: Timestamp,
) -> Vec<(IntendedTime, &'a W)> {
    let oldest_kept = now
        .checked_sub(SignedDuration::from_hours(24 * i64::from(limits.max_age_days)))
        .unwrap_or(Timestamp::MIN);
    let finished = works.rev().filter(|(_, work)| work.is_terminal() && !claimed(work));
    let mut successful = 0;
    let mut others = 0;
    let mut surplus: Vec<(IntendedTime, &W)> = finished
        .filter(|(instant, work)| {
            let (count, limit) = if work.has_succeeded() {
                (&mut successful, limits.successful)
            } else {
                (&mut others, limits.failed)
            };
            *count += 1;
            let too_many = *count > limit;
            let too_old = instant.timestamp() < oldest_kept;
            (too_many || too_old) && waiting_from.is_none_or(|from| *instant < from)
        })
        .collect();
    surplus.reverse();
    surplus.truncate(MAX_PRUNED_PER_PASS);
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{
        MaintenanceOccurrence, MaintenanceOccurrenceSpec, MaintenanceOccurrenceStatus,
        OccurrenceState,
    };

    fn occurrence(minute: i64, state: OccurrenceState) -> MaintenanceOccurrence {
        let at = IntendedTime::new(Timestamp::from_second(minute * 60).unwrap()).unwrap();
        let mut o = MaintenanceOccurrence::new(
            &crate::identity::occurrence_name("s", at),
            MaintenanceOccurrenceSpec {
                schedule_name: "s".into(),
                intended_time: at,
                schedule_uid: None,
                run: None,
                cancel: false,
                resolution: None,
            },
        );
        o.status = Some(MaintenanceOccurrenceStatus { state: Some(state), ..Default::default() });
        o
    }

    fn pruned(
        limits: &Retention,
        all: &[MaintenanceOccurrence],
        waiting: Option<i64>,
        now_min: i64,
    ) -> Vec<i64> {
        let waiting =
            waiting.map(|m| IntendedTime::new(Timestamp::from_second(m * 60).unwrap()).unwrap());
        surplus(
            limits,
            all.iter().map(|o| (o.spec.intended_time, o)),
            waiting,
            &|_| false,
            Timestamp::from_second(now_min * 60).unwrap(),
        )
        .into_iter()
        .map(|(at, _)| at.timestamp().as_second() / 60)
        .collect()
    }

    #[test]
    fn keeps_the_newest_of_each_kind_and_nothing_too_old() {
        use OccurrenceState::{Failed, Running, Succeeded};
        let all = [
            occurrence(1, Failed),
            occurrence(2, Succeeded),
            occurrence(3, Succeeded),
            occurrence(4, Running),
            occurrence(5, Succeeded),
        ];
        let limits = Retention { successful: 2, failed: 1, max_age_days: 90 };
        assert_eq!(pruned(&limits, &all, None, 10), [2]);
        for waiting in [1, 2] {
            let kept = pruned(&limits, &all, Some(waiting), 10);
            assert_eq!(kept, [0_i64; 0], "only what is older than the one that waits: {waiting}");
        }
        assert_eq!(pruned(&limits, &all, Some(3), 10), [2]);
        let none = Retention { successful: 0, failed: 0, max_age_days: 90 };
        assert_eq!(pruned(&none, &all, None, 10), [1, 2, 3, 5], "never what is not terminal");
        let aged = Retention { successful: 9, failed: 9, max_age_days: 1 };
        assert_eq!(pruned(&aged, &all, None, 24 * 60 + 3), [1, 2]);
    }

    #[test]
    fn a_pass_is_bounded() {
        let all: Vec<_> = (0..200).map(|m| occurrence(m, OccurrenceState::Succeeded)).collect();
        let none = Retention { successful: 0, failed: 0, max_age_days: 90 };
        assert_eq!(pruned(&none, &all, None, 300).len(), MAX_PRUNED_PER_PASS);
    }
}
