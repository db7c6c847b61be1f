//! New objects and claims.

use std::collections::BTreeMap;

use kube::ResourceExt as _;

use super::{Snapshot, is_terminal};
use crate::{
    api::{
        Claim, LABEL_SCHEDULE, MAX_CLAIMS, MaintenanceOccurrence, MaintenanceOccurrenceSpec,
        MaintenanceSchedule,
    },
    identity::{WorkId, occurrence_name},
    time::IntendedTime,
};

/// Started claims for what was prepared under an earlier life of the schedule.
pub(super) fn inherited_claims(snapshot: &Snapshot) -> Vec<Claim> {
    let prepared = |o: &&MaintenanceOccurrence| {
        !is_terminal(o)
            && o.status.as_ref().is_some_and(|s| s.attempts.iter().any(|a| a.handle.is_some()))
    };
    snapshot
        .occurrences
        .values()
        .filter(prepared)
        .take(MAX_CLAIMS)
        .map(|o| {
            let uid = o.metadata.uid.clone().unwrap_or_default();
            new_claim(&snapshot.schedule, o.spec.intended_time, uid, true, false)
        })
        .collect()
}

pub(super) fn new_claim(
    schedule: &MaintenanceSchedule,
    instant: IntendedTime,
    uid: String,
    start: bool,
    replaces: bool,
) -> Claim {
    let namespace = schedule.namespace().unwrap_or_default();
    let work = WorkId::maintenance(&namespace, &schedule.name_any(), instant);
    Claim {
        time: instant,
        start,
        replaces,
        uid,
        run_key: work.maintenance_run_key(1),
        action_class: schedule.spec.run.maintenance_class(),
        http: schedule.spec.run.http.clone(),
    }
}

/// The occurrence of an instant, as the operator creates it: inert until its uid is claimed.
pub(super) fn new_occurrence(
    schedule: &MaintenanceSchedule,
    instant: IntendedTime,
) -> MaintenanceOccurrence {
    let name = schedule.name_any();
    let mut occurrence = MaintenanceOccurrence::new(
        &occurrence_name(&name, instant),
        MaintenanceOccurrenceSpec {
            schedule_name: name.clone(),
            intended_time: instant,
            schedule_uid: schedule.metadata.uid.clone(),
            run: Some(schedule.spec.run.clone()),
            cancel: false,
            resolution: None,
        },
    );
    occurrence.metadata.namespace = schedule.namespace();
    occurrence.metadata.labels = Some(BTreeMap::from([(LABEL_SCHEDULE.to_owned(), name)]));
    occurrence
}
