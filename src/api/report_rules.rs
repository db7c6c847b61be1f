//! The validation rules of the kinds of reports, and their messages; see [`super::rules`].

use super::rules::unchanged;

/// Longest name of a report job, so that its attempts and pods stay within 63 characters.
pub(crate) const REPORT_NAME_RULE: &str = "self.metadata.name.size() <= 53";
/// Message of [`REPORT_NAME_RULE`].
pub(crate) const REPORT_NAME_MESSAGE: &str = "metadata.name of a ReportJob has at most 53 characters, so that the names of its attempts and pods stay within 63; choose a shorter name";

/// A report job is either an instant of a schedule or it is not.
pub(crate) const SCHEDULED_WHOLE_RULE: &str = "has(self.spec.scheduleName) == has(self.spec.intendedTime) && has(self.spec.scheduleName) == has(self.spec.scheduleUID)";
/// Message of [`SCHEDULED_WHOLE_RULE`].
pub(crate) const SCHEDULED_WHOLE_MESSAGE: &str = "spec.scheduleName, spec.intendedTime and spec.scheduleUID are set together or not at all; leave them out, a ReportSchedule sets them";

/// The name of an instant is its identity, and nobody else's name looks like one.
pub(crate) const SCHEDULED_NAME_RULE: &str = "has(self.spec.scheduleName) && has(self.spec.intendedTime) ? self.metadata.name + '00Z' == self.spec.scheduleName + '-' + self.spec.intendedTime.replace('-', '').replace('T', '').replace(':', '') : !self.metadata.name.matches('-[0-9]{12}$')";
/// Message of [`SCHEDULED_NAME_RULE`].
pub(crate) const SCHEDULED_NAME_MESSAGE: &str = "metadata.name ends with '-' and 12 digits exactly if a ReportSchedule made the job: then it is spec.scheduleName + '-' + the digits of spec.intendedTime; choose a name that ends otherwise";

/// What a report job is never changes.
pub(crate) const REPORT_IDENTITY_RULE: &str = concat!(
    "self.spec.queueName == oldSelf.spec.queueName && ",
    "self.spec.tenant == oldSelf.spec.tenant && ",
    "self.spec.priority == oldSelf.spec.priority && ",
    unchanged!("spec.parameters"),
    " && ",
    "self.spec.estimateSeconds == oldSelf.spec.estimateSeconds && ",
    unchanged!("spec.queueDeadlineSeconds"),
    " && ",
    "self.spec.artifact == oldSelf.spec.artifact && ",
    unchanged!("spec.scheduleName"),
    " && ",
    unchanged!("spec.intendedTime"),
    " && ",
    unchanged!("spec.scheduleUID")
);
/// Message of [`REPORT_IDENTITY_RULE`].
pub(crate) const REPORT_IDENTITY_MESSAGE: &str = "spec is immutable: only cancel and resolution may change; create another ReportJob for another report";
/// Message of [`RUN_RULE`] for report jobs.
pub(crate) const REPORT_RUN_MESSAGE: &str =
    "spec.run is immutable; create another ReportJob to run something else";
/// Message of [`CANCEL_RULE`] for report jobs.
pub(crate) const REPORT_CANCEL_MESSAGE: &str =
    "spec.cancel cannot be taken back; create another ReportJob instead";

/// A terminal outcome stays.
pub(crate) const REPORT_TERMINAL_RULE: &str = concat!(
    "!has(oldSelf.status) || !has(oldSelf.status.state) || ",
    "!(oldSelf.status.state in ['Succeeded', 'Failed', 'Cancelled', 'Rejected']) || ",
    "(has(self.status) && ",
    unchanged!("status.state"),
    " && ",
    unchanged!("status.reason"),
    " && ",
    unchanged!("status.result"),
    " && ",
    unchanged!("status.artifact"),
    ")"
);
/// Message of [`REPORT_TERMINAL_RULE`].
pub(crate) const REPORT_TERMINAL_MESSAGE: &str = "a terminal outcome is immutable: status.state, status.reason, status.result and status.artifact are final; create another ReportJob to run again";

/// The artifact that counts, once accepted, stays.
pub(crate) const ARTIFACT_RULE: &str = "!has(oldSelf.status) || !has(oldSelf.status.artifact) || (has(self.status) && has(self.status.artifact) && self.status.artifact == oldSelf.status.artifact)";
/// Message of [`ARTIFACT_RULE`].
pub(crate) const ARTIFACT_MESSAGE: &str =
    "an accepted artifact is immutable: status.artifact never changes and never vanishes";

/// Message of [`SCHEDULE_NAME_RULE`] for report schedules.
pub(crate) const REPORT_SCHEDULE_NAME_MESSAGE: &str = "metadata.name of a ReportSchedule has at most 40 characters, so that the names of its jobs, attempts and pods stay within 63; choose a shorter name";

/// Longest name of a queue: it is the value of a label.
pub(crate) const QUEUE_NAME_RULE: &str = "self.metadata.name.size() <= 63";
/// Message of [`QUEUE_NAME_RULE`].
pub(crate) const QUEUE_NAME_MESSAGE: &str = "metadata.name of a ReportQueue has at most 63 characters, because it is the value of a label; choose a shorter name";

/// The ledger never vanishes, and no write admits a job while the entries fill the slots. Without a
/// ledger before it is being rebuilt from what is found, which may be more than the slots of today.
pub(crate) const LEDGER_RULE: &str = "!has(oldSelf.status) || !has(oldSelf.status.ledger) || (has(self.status) && has(self.status.ledger) && (!has(self.status.ledger.entries) || self.status.ledger.entries.size() <= self.spec.slots || (has(oldSelf.status.ledger.entries) && self.status.ledger.entries.size() <= oldSelf.status.ledger.entries.size())))";
/// Message of [`LEDGER_RULE`].
pub(crate) const LEDGER_MESSAGE: &str =
    "status.ledger never vanishes, and no job is admitted while its entries fill spec.slots";
