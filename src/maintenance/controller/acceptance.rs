//! Asks the provider whether it would accept the run of a schedule.

use kube::{Resource as _, ResourceExt as _};

use super::{Controller, occurrence::KIND};
use crate::{
    api::{MaintenanceOccurrence, MaintenanceSchedule},
    authority::{NotLeading, Permit},
    identity::{WorkId, maintenance_attempt_name, occurrence_name},
    providers::{Acceptance, Parent, ProviderError, RunRequest},
    reconcile::PassError,
    time::IntendedTime,
};

impl Controller {
    /// Nothing is created. A provider that gives no answer is asked again later.
    pub(super) async fn ask_acceptance(
        &self,
        schedule: &MaintenanceSchedule,
        permit: &Permit,
    ) -> Result<Acceptance, PassError> {
        let at = IntendedTime::floor(self.deps.wall.now());
        let request = first_run(schedule, at, permit.term().epoch);
        match self.deps.providers.accept(&request).await {
            Ok(answer) => Ok(answer),
            Err(ProviderError::NotLeading) => Err(NotLeading.into()),
            Err(error) => Ok(Acceptance::NotYet { message: error.to_string() }),
        }
    }
}

/// The first attempt of the occurrence of an instant, as it would be prepared. The occurrence does
/// not exist, so the schedule's uid stands for its.
fn first_run(schedule: &MaintenanceSchedule, at: IntendedTime, epoch: i64) -> RunRequest {
    let namespace = schedule.namespace().unwrap_or_default();
    let work = WorkId::maintenance(&namespace, &schedule.name_any(), at);
    let name = occurrence_name(&schedule.name_any(), at);
    RunRequest {
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
        epoch,
        class: schedule.spec.run.maintenance_class(),
        run: schedule.spec.run.clone(),
    }
}
