//! What is particular to schedules of maintenance; a pass over one is [`crate::schedules::hands`].

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};

use super::{Controller, Key, occurrence::KIND};
use crate::{
    api::{MaintenanceOccurrence, MaintenanceSchedule},
    authority::Permit,
    cluster::ObjectKey,
    identity::{WorkId, maintenance_attempt_name, occurrence_name},
    providers::{Acceptance, Parent, RunRequest},
    reconcile::PassError,
    schedules::hands::{Hands, Manner},
    time::IntendedTime,
};

impl Controller {
    pub(super) async fn pass_schedule(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Timestamp>, PassError> {
        let hands = Hands {
            deps: &self.deps,
            schedules: &self.schedules,
            works: &self.occurrences,
            departures: &self.departures,
            refusals: &self.refusals,
            manner: self,
        };
        hands.pass(key).await
    }
}

impl Manner<MaintenanceSchedule> for Controller {
    fn works_of(&self, schedule: &ObjectKey) -> Vec<Arc<MaintenanceOccurrence>> {
        self.occurrences.by_index(&index_key(schedule))
    }

    /// Nothing but the bound of claims holds maintenance back.
    fn room(
        &self,
        _: &MaintenanceSchedule,
        _: &BTreeMap<IntendedTime, MaintenanceOccurrence>,
    ) -> usize {
        usize::MAX
    }

    /// The occurrence does not exist, so the schedule's uid stands for its.
    fn first_run(
        &self,
        schedule: &MaintenanceSchedule,
        at: IntendedTime,
        permit: &Permit,
    ) -> Result<RunRequest, Acceptance> {
        let namespace = schedule.namespace().unwrap_or_default();
        let work = WorkId::maintenance(&namespace, &schedule.name_any(), at);
        let name = occurrence_name(&schedule.name_any(), at);
        Ok(RunRequest {
            attempt_name: maintenance_attempt_name(&name, 1),
            parent: Parent {
                api_version: MaintenanceOccurrence::api_version(&()).into_owned(),
                kind: KIND.to_owned(),
                namespace,
                name,
                uid: schedule.uid().unwrap_or_default(),
            },
            attempt: 1,
            run_key: work.maintenance_run_key(1),
            request_id: work.request_id(),
            intended_time: Some(at),
            queue: None,
            epoch: permit.term().epoch,
            class: schedule.spec.run.maintenance_class(),
            run: schedule.spec.run.clone(),
        })
    }

    fn look_at(&self, work: ObjectKey) {
        self.queue.add(Key::Occurrence(work));
    }
}

/// Second key of an occurrence in its cache: the schedule it belongs to.
pub(super) fn index_key(schedule: &ObjectKey) -> String {
    schedule.to_string()
}
