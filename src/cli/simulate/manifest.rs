//! A queue to play, from a file.

use std::path::Path;

use serde_json::Value;

use crate::{
    api::{MAX_SLOTS, ReportQueue},
    arrivals::Model,
    cli::{CliError, input},
    reports::{
        queue::spec,
        rules::{Rules, Starts},
    },
    simulate::Setting,
};

/// The setting with the rules of the one ReportQueue of a file. What the file says of other kinds is
/// passed over, and so is a Hold: it is the queue in operation that is played.
pub(super) fn read(path: &Path, model: Model) -> Result<Setting, CliError> {
    let name = path.display();
    let all = input::read_manifests(path)?;
    let queues: Vec<&Value> = all.iter().filter(|one| one["kind"] == "ReportQueue").collect();
    let [queue] = queues[..] else {
        return Err(CliError::BadUsage(format!(
            "{name} has {} objects of kind ReportQueue; give a file with one",
            queues.len()
        )));
    };
    let queue: ReportQueue = serde_json::from_value(queue.clone())
        .map_err(|error| CliError::BadUsage(format!("{name}: spec of the ReportQueue: {error}")))?;
    let slots = queue.spec.slots;
    if !(1..=MAX_SLOTS).contains(&slots) {
        return Err(CliError::BadUsage(format!(
            "{name}: spec.slots is {slots}; it must be from 1 to {MAX_SLOTS}"
        )));
    }
    let rules = spec::rules(&queue.spec, false, model.from);
    let mut setting = Setting::new(model, Rules { starts: Starts::Open, accepts: true, ..rules });
    setting.names = queue.spec.tenants.iter().map(|tenant| tenant.name.clone()).collect();
    if let Some(run) = &queue.spec.run_template {
        setting.max_attempts = run.report_attempts();
    }
    Ok(setting)
}
