//! The validation rules that the API server evaluates (CEL), and their messages.
//!
//! Rules that look at what was there before stand at the root of a kind: a rule on a field is not
//! evaluated when the field appears or disappears. No rule compares an object that preserves
//! unknown fields, because such a comparison accepts swapped keys.

/// The field is what it was: present or absent as before, and equal.
macro_rules! unchanged {
    ($field:literal) => {
        concat!(
            "has(self.",
            $field,
            ") == has(oldSelf.",
            $field,
            ") && (!has(self.",
            $field,
            ") || self.",
            $field,
            " == oldSelf.",
            $field,
            ")"
        )
    };
}
pub(super) use unchanged;

/// Rule at the root of every kind: the fence never vanishes, its epoch never decreases, and an
/// equal epoch has an equal nonce.
pub const FENCE_RULE: &str = "!has(oldSelf.status) || !has(oldSelf.status.fence) || (has(self.status) && has(self.status.fence) && (self.status.fence.epoch > oldSelf.status.fence.epoch || (self.status.fence.epoch == oldSelf.status.fence.epoch && self.status.fence.nonce == oldSelf.status.fence.nonce)))";
/// Message of [`FENCE_RULE`]; the operator recognises refused stale writes by it.
pub const FENCE_MESSAGE: &str = "a newer leader term has sealed this object: the epoch of status.fence never decreases, an equal epoch has an equal nonce, and the fence never vanishes";

/// An occurrence's name is its identity. The pattern of `intendedTime` ends with `00Z`, the seconds
/// that the name leaves out; compared in this form no text can make the rule fail to evaluate.
pub const NAME_RULE: &str = "self.metadata.name + '00Z' == self.spec.scheduleName + '-' + self.spec.intendedTime.replace('-', '').replace('T', '').replace(':', '')";
/// Message of [`NAME_RULE`]; the check that the API server enforces the rules looks for it.
pub const NAME_RULE_MESSAGE: &str = "metadata.name must be spec.scheduleName + '-' + the digits of spec.intendedTime (YYYYMMDDHHMM, UTC), for example nightly-202611290200";

/// A moment that the calendar has. `timestamp(self)` would refuse the same, but by an evaluation
/// error in place of the message.
pub(crate) const INSTANT_RULE: &str =
    "!self.startsWith('0000') && !format.datetime().validate(self).hasValue()";
/// Message of [`INSTANT_RULE`].
pub(crate) const INSTANT_MESSAGE: &str =
    "must be a whole minute that exists, in UTC, written like 2026-11-29T02:00:00Z";

/// Longest name of a schedule; see [`crate::identity::MAX_SCHEDULE_NAME`].
pub(crate) const SCHEDULE_NAME_RULE: &str = "self.metadata.name.size() <= 40";
/// Message of [`SCHEDULE_NAME_RULE`].
pub(crate) const SCHEDULE_NAME_MESSAGE: &str = "metadata.name of a MaintenanceSchedule has at most 40 characters, so that the names of its occurrences, attempts and pods stay within 63; choose a shorter name";

/// The zone has its own field.
pub(crate) const NO_ZONE_RULE: &str = "!self.contains('TZ=')";
/// Message of [`NO_ZONE_RULE`].
pub(crate) const NO_ZONE_MESSAGE: &str =
    "write the zone into spec.timeZone, not as TZ= or CRON_TZ= into spec.schedule";

/// Exactly one provider.
pub(crate) const ONE_PROVIDER_RULE: &str =
    "[has(self.job), has(self.http), has(self.simulated)].filter(x, x).size() == 1";
/// Message of [`ONE_PROVIDER_RULE`].
pub(crate) const ONE_PROVIDER_MESSAGE: &str = "run needs exactly one of job, http, simulated";

/// All parameters together stay within [`super::MAX_PARAMETERS_BYTES`].
pub(crate) const PARAMETERS_RULE: &str =
    "self.map(k, bytes(k).size() + bytes(self[k]).size()).sum() <= 8192";
/// Message of [`PARAMETERS_RULE`].
pub(crate) const PARAMETERS_MESSAGE: &str =
    "parameters have at most 8192 bytes, all keys and values together";

/// What an occurrence is never changes.
pub(crate) const IDENTITY_RULE: &str = concat!(
    "self.spec.scheduleName == oldSelf.spec.scheduleName && ",
    "self.spec.intendedTime == oldSelf.spec.intendedTime && ",
    unchanged!("spec.scheduleUID")
);
/// Message of [`IDENTITY_RULE`].
pub(crate) const IDENTITY_MESSAGE: &str = "spec is immutable: scheduleName, intendedTime and scheduleUID are the identity; only cancel and resolution may change";

/// What an occurrence runs never changes, as far as a rule can see: the Job template preserves
/// unknown fields and cannot be compared, the copy in `status.run` is what counts.
pub(crate) const RUN_RULE: &str = concat!(
    "has(self.spec.run) == has(oldSelf.spec.run) && (!has(self.spec.run) || (",
    unchanged!("spec.run.actionClass"),
    " && ",
    unchanged!("spec.run.maxAttempts"),
    " && ",
    unchanged!("spec.run.startTimeoutSeconds"),
    " && ",
    unchanged!("spec.run.timeoutSeconds"),
    " && ",
    unchanged!("spec.run.parameters"),
    " && ",
    "has(self.spec.run.job) == has(oldSelf.spec.run.job) && ",
    unchanged!("spec.run.http"),
    " && ",
    unchanged!("spec.run.simulated"),
    "))"
);
/// Message of [`RUN_RULE`].
pub(crate) const RUN_MESSAGE: &str =
    "spec.run is immutable; to run something else, trigger another instant";

/// A cancel is for good.
pub(crate) const CANCEL_RULE: &str = "!has(oldSelf.spec.cancel) || !oldSelf.spec.cancel || (has(self.spec.cancel) && self.spec.cancel)";
/// Message of [`CANCEL_RULE`].
pub(crate) const CANCEL_MESSAGE: &str =
    "spec.cancel cannot be taken back; trigger another instant instead";

/// The hashed identity, once recorded, stays.
pub(crate) const ID_RULE: &str = "!has(oldSelf.status) || !has(oldSelf.status.id) || (has(self.status) && has(self.status.id) && self.status.id == oldSelf.status.id)";
/// Message of [`ID_RULE`].
pub(crate) const ID_MESSAGE: &str = "status.id is the identity: it is immutable and never vanishes";

/// A terminal outcome stays.
pub(crate) const TERMINAL_RULE: &str = concat!(
    "!has(oldSelf.status) || !has(oldSelf.status.state) || ",
    "!(oldSelf.status.state in ['Succeeded', 'Failed', 'Cancelled', 'Skipped', 'Superseded']) || ",
    "(has(self.status) && ",
    unchanged!("status.state"),
    " && ",
    unchanged!("status.reason"),
    " && ",
    unchanged!("status.result"),
    ")"
);
/// Message of [`TERMINAL_RULE`].
pub(crate) const TERMINAL_MESSAGE: &str = "a terminal outcome is immutable: status.state, status.reason and status.result are final; to run again, trigger another instant";

/// A trace is the record of one term. Written the other way round, with `string(self.spec.epoch)`, the
/// API server cannot bound the cost: it takes the text of a number to be of any length.
pub(crate) const TRACE_NAME_RULE: &str = "self.metadata.name.startsWith(self.spec.leaseName + '-') && self.metadata.name.substring(self.spec.leaseName.size() + 1).matches('^[1-9][0-9]{0,17}$') && int(self.metadata.name.substring(self.spec.leaseName.size() + 1)) == self.spec.epoch";
/// Message of [`TRACE_NAME_RULE`].
pub(crate) const TRACE_NAME_MESSAGE: &str =
    "metadata.name must be spec.leaseName + '-' + spec.epoch, for example punctual-184467";

/// Which term it is the record of never changes.
pub(crate) const TRACE_SPEC_RULE: &str = "self.spec == oldSelf.spec";
/// Message of [`TRACE_SPEC_RULE`].
pub(crate) const TRACE_SPEC_MESSAGE: &str =
    "spec is immutable: it says which term this is the record of";

/// No other term writes into the record, neither an older nor a newer one.
pub(crate) const TRACE_TERM_RULE: &str =
    "!has(self.status) || !has(self.status.fence) || self.status.fence.epoch == self.spec.epoch";
/// Message of [`TRACE_TERM_RULE`].
pub(crate) const TRACE_TERM_MESSAGE: &str =
    "the record of a term is written in that term: status.fence.epoch must be spec.epoch";

/// A completed record stays.
pub(crate) const TRACE_FINAL_RULE: &str = "!has(oldSelf.status) || !has(oldSelf.status.completionTime) || (has(self.status) && self.status == oldSelf.status)";
/// Message of [`TRACE_FINAL_RULE`].
pub(crate) const TRACE_FINAL_MESSAGE: &str =
    "a completed record is immutable: status never changes once completionTime is set";
