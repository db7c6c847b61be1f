//! What the kinds of schedules have in common, and where they differ.

use std::fmt;

use jiff::Timestamp;
use kube::Resource;

use crate::{
    api::{
        Abandoned, Attempt, Claim, ConcurrencyPolicy, MaintenanceScheduleStatus, MissedRuns,
        Retention, Spread,
    },
    time::{DstPolicy, IntendedTime, SkipReason, spread::SpreadKind},
};

/// The part of a spec that every kind of schedule has: when it is due, and what becomes of instants.
#[derive(Clone, Copy, Debug)]
pub struct Timing<'a> {
    /// `spec.schedule`.
    pub schedule: &'a str,
    /// `spec.timeZone`.
    pub time_zone: &'a str,
    /// `spec.dstPolicy`.
    pub dst_policy: DstPolicy,
    /// `spec.anchor`.
    pub anchor: Option<IntendedTime>,
    /// `spec.suspend`.
    pub suspend: bool,
    /// `spec.suspendReason`.
    pub suspend_reason: Option<&'a str>,
    /// `spec.suspendUntilTime`.
    pub suspend_until_time: Option<Timestamp>,
    /// `spec.startingDeadlineSeconds`.
    pub starting_deadline_seconds: Option<i64>,
    /// `spec.missedRuns`.
    pub missed_runs: &'a MissedRuns,
    /// `spec.spread`.
    pub spread: &'a Spread,
    /// `spec.retention`.
    pub retention: &'a Retention,
    /// `spec.abandon`.
    pub abandon: &'a [Abandoned],
}

/// The timing of a spec; its fields have the same names in all kinds.
macro_rules! timing {
    ($spec:expr) => {
        $crate::schedules::Timing {
            schedule: &$spec.schedule,
            time_zone: &$spec.time_zone,
            dst_policy: $spec.dst_policy,
            anchor: $spec.anchor,
            suspend: $spec.suspend,
            suspend_reason: $spec.suspend_reason.as_deref(),
            suspend_until_time: $spec.suspend_until_time.map(|at| at.0),
            starting_deadline_seconds: $spec.starting_deadline_seconds,
            missed_runs: &$spec.missed_runs,
            spread: &$spec.spread,
            retention: &$spec.retention,
            abandon: &$spec.abandon,
        }
    };
}
pub(crate) use timing;

/// A kind of schedule.
pub trait Kind: Resource<DynamicType = ()> + Clone + fmt::Debug + PartialEq {
    /// What each of its instants makes.
    type Work: Work;
    /// What its identities are called.
    const SPREAD: SpreadKind;

    /// The part of the spec that all kinds have.
    fn timing(&self) -> Timing<'_>;
    /// What was recorded of it.
    fn status(&self) -> Option<&MaintenanceScheduleStatus>;
    /// Puts another status in the place of what was recorded.
    fn set_status(&mut self, status: MaintenanceScheduleStatus);
    /// What happens when an instant is due while earlier work is not over.
    fn policy(&self) -> ConcurrencyPolicy;
    /// The work of an instant, as the operator creates it: inert until its uid is claimed.
    fn new_work(&self, instant: IntendedTime) -> Self::Work;
    /// What a claim says of the first run of an instant, apart from whose it is and whether it starts.
    fn run_of(&self, instant: IntendedTime) -> RunOf;
}

/// What a claim says of a run, so that a provider can be asked when its object is gone.
pub type RunOf = (String, crate::api::ActionClass, Option<crate::api::HttpRun>);

/// A claim of an instant by a schedule.
pub(super) fn new_claim<S: Kind>(
    schedule: &S,
    instant: IntendedTime,
    uid: String,
    start: bool,
    replaces: bool,
) -> Claim {
    let (run_key, action_class, http) = schedule.run_of(instant);
    Claim { time: instant, start, replaces, uid, run_key, action_class, http }
}

/// What an instant of a schedule makes.
pub trait Work: Resource<DynamicType = ()> + Clone + fmt::Debug + PartialEq {
    /// What people call it.
    const NOUN: &'static str;

    /// Its instant, if it is one of a schedule.
    fn instant(&self) -> Option<IntendedTime>;
    /// Whether a person made it in the place of the schedule.
    fn is_hand_made(&self) -> bool;
    /// Whether a person made it and it asks its schedule for a claim.
    fn asks_for_claim(&self) -> bool;
    /// Whether nothing more will happen to it.
    fn is_terminal(&self) -> bool;
    /// Whether it ran and succeeded.
    fn has_succeeded(&self) -> bool;
    /// Its attempts, oldest first.
    fn attempts(&self) -> &[Attempt];
    /// Seconds between its instant and its start, if it started.
    fn lateness_seconds(&self) -> Option<i64>;
    /// Why it ended without running, if that is how it ended and its instant is to be accounted for.
    fn not_run(&self) -> Option<SkipReason>;
    /// Gives it a status to be sealed, if it has none.
    fn begin_status(&mut self);
}
