//! Maintenance schedules and their occurrences, as [`crate::schedules`] sees them.

use std::collections::BTreeMap;

use kube::ResourceExt as _;

use crate::{
    api::{
        Attempt, ConcurrencyPolicy, LABEL_SCHEDULE, MaintenanceOccurrence,
        MaintenanceOccurrenceSpec, MaintenanceSchedule, MaintenanceScheduleStatus, OccurrenceState,
    },
    identity::{WorkId, occurrence_name},
    schedules::{Kind, RunOf, Timing, Work, timing},
    time::{IntendedTime, SkipReason, spread::SpreadKind},
};

impl Kind for MaintenanceSchedule {
    type Work = MaintenanceOccurrence;
    const SPREAD: SpreadKind = SpreadKind::Maintenance;

    fn timing(&self) -> Timing<'_> {
        timing!(self.spec)
    }

    fn status(&self) -> Option<&MaintenanceScheduleStatus> {
        self.status.as_ref()
    }

    fn set_status(&mut self, status: MaintenanceScheduleStatus) {
        self.status = Some(status);
    }

    fn policy(&self) -> ConcurrencyPolicy {
        self.spec.concurrency_policy
    }

    fn new_work(&self, instant: IntendedTime) -> MaintenanceOccurrence {
        let name = self.name_any();
        let mut occurrence = MaintenanceOccurrence::new(
            &occurrence_name(&name, instant),
            MaintenanceOccurrenceSpec {
                schedule_name: name.clone(),
                intended_time: instant,
                schedule_uid: self.metadata.uid.clone(),
                run: Some(self.spec.run.clone()),
                cancel: false,
                resolution: None,
            },
        );
        occurrence.metadata.namespace = self.namespace();
        occurrence.metadata.labels = Some(BTreeMap::from([(LABEL_SCHEDULE.to_owned(), name)]));
        occurrence
    }

    fn run_of(&self, instant: IntendedTime) -> RunOf {
        let namespace = self.namespace().unwrap_or_default();
        let work = WorkId::maintenance(&namespace, &self.name_any(), instant);
        let run = &self.spec.run;
        (work.maintenance_run_key(1), run.maintenance_class(), run.http.clone())
    }
}

impl Work for MaintenanceOccurrence {
    const NOUN: &'static str = "occurrence";

    fn instant(&self) -> Option<IntendedTime> {
        Some(self.spec.intended_time)
    }

    fn is_hand_made(&self) -> bool {
        self.spec.schedule_uid.is_none()
    }

    fn asks_for_claim(&self) -> bool {
        self.is_hand_made() && self.spec.run.is_none() && !self.spec.cancel
    }

    fn is_terminal(&self) -> bool {
        self.status.as_ref().and_then(|s| s.state).is_some_and(OccurrenceState::is_terminal)
    }

    fn has_succeeded(&self) -> bool {
        self.status.as_ref().and_then(|s| s.state) == Some(OccurrenceState::Succeeded)
    }

    fn attempts(&self) -> &[Attempt] {
        self.status.as_ref().map(|status| status.attempts.as_slice()).unwrap_or_default()
    }

    fn lateness_seconds(&self) -> Option<i64> {
        self.status.as_ref()?.lateness_seconds
    }

    fn not_run(&self) -> Option<SkipReason> {
        match self.status.as_ref()?.reason.as_deref()? {
            "Deadline" => Some(SkipReason::Deadline),
            "NameConflict" => Some(SkipReason::NameConflict),
            "CreateRefused" => Some(SkipReason::CreateRefused),
            _ => None,
        }
    }

    fn begin_status(&mut self) {
        self.status.get_or_insert_default().state.get_or_insert(OccurrenceState::Pending);
    }
}

/// Whether nothing more will happen to the occurrence.
pub fn is_terminal(occurrence: &MaintenanceOccurrence) -> bool {
    occurrence.is_terminal()
}
