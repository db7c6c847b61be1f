//! What clients and people do with reports meanwhile.

use serde_json::{Value, json};

use super::{
    moves::{Hand, name_of},
    objects::object,
    reports,
};
use crate::sim::{Key, Kind, api::Request};

/// Numbers of jobs that are submitted beside those of the plan.
const LATER_JOBS: (u64, u64) = (20, 29);

impl Hand<'_> {
    /// One thing that a client does with its reports, or a person with queues and schedules.
    pub(super) fn client(&mut self) {
        match self.dice.of(1..=16) {
            1..=3 => self.cancel(Kind::ReportJob),
            4 | 5 => self.resolve(Kind::ReportJob),
            6 => self.delete(Kind::ReportJob),
            7 => self.submit_again(),
            8 => self.submit(),
            9 | 10 => self.change_slots(),
            11 => self.change_admission(),
            12 | 13 => self.delete_or_apply(Kind::ReportQueue),
            14 => self.suspend(Kind::ReportSchedule),
            15 => self.edit_reports(),
            _ => self.delete_or_apply(Kind::ReportSchedule),
        }
    }

    fn submit(&mut self) {
        let number = self.dice.of(LATER_JOBS.0..=LATER_JOBS.1);
        let job = reports::submitted(&mut self.dice, number);
        self.create(&job);
    }

    /// A client deletes a report and submits it again at once.
    fn submit_again(&mut self) {
        let by_client = |object: &Value| object["spec"]["scheduleName"].is_null();
        let Some(submitted) = self.one_of(Kind::ReportJob, by_client) else { return };
        let name = name_of(&submitted);
        self.delete_named(Kind::ReportJob, &name);
        let mut spec = submitted["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("cancel");
            fields.remove("resolution");
        }
        self.create(&object("ReportJob", &name, &spec));
    }

    fn change_slots(&mut self) {
        let Some(object) = self.one_of(Kind::ReportQueue, |_| true) else { return };
        let slots = self.dice.of(1..=4);
        self.patch(Kind::ReportQueue, &name_of(&object), &json!({"spec": {"slots": slots}}));
    }

    fn change_admission(&mut self) {
        let Some(object) = self.one_of(Kind::ReportQueue, |_| true) else { return };
        let admission = self.dice.pick(&["Open", "Open", "Hold", "Closed"]).copied();
        let spec = json!({"admission": admission, "admissionUntilTime": null});
        self.patch(Kind::ReportQueue, &name_of(&object), &json!({"spec": spec}));
    }

    /// Whichever is there is deleted; one that is not is applied again, as it may be otherwise.
    fn delete_or_apply(&mut self, kind: Kind) {
        let name = match kind {
            Kind::ReportQueue => reports::QUEUES[0],
            _ => reports::SCHEDULE,
        };
        if self.world.model().get(&Key::new(kind, "default", name)).is_some() {
            return self.delete_named(kind, name);
        }
        let object = match kind {
            Kind::ReportQueue => reports::queue(&mut self.dice, name),
            _ => reports::schedule(&mut self.dice),
        };
        self.create(&object);
    }

    /// Another expression, or other reports from now on.
    fn edit_reports(&mut self) {
        let Some(object) = self.one_of(Kind::ReportSchedule, |_| true) else { return };
        let other = reports::schedule(&mut self.dice);
        let field = self.dice.pick(&["schedule", "missedRuns", "jobTemplate"]).copied();
        let field = field.unwrap_or("schedule");
        let key = Key::new(Kind::ReportSchedule, "default", name_of(&object));
        let patch = Request::patch(&key, json!({"spec": {field: other["spec"][field]}}));
        self.write(&format!("edit {field} of {key}"), patch);
    }
}
