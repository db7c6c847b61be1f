//! The end of a history, for reports: no slot is kept for what is over, none is free while a job
//! waits that may have it, and every job has an answer.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::Value;

use super::{
    Blame, Invariant,
    admissions::{entries, is_over, job_of},
    ending::{End, is_ghost},
    facts,
};
use crate::sim::{Key, Kind};

/// A provider that does not answer is asked for a minute; then its run is Unresolved and accounted for.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(120);

impl End<'_> {
    pub(super) fn reports(&self, blame: &mut Blame) {
        for (key, queue) in self.store.all(Kind::ReportQueue) {
            if !self.is_quarantined(queue) && self.has_rested(key) {
                self.queue(key, queue, blame);
            }
        }
        for (key, job) in self.store.all(Kind::ReportJob) {
            let owners = [self.store.queue_of(job), self.store.schedule_of(job)];
            let left_alone = owners.into_iter().flatten().any(|owner| self.is_quarantined(owner));
            let going = !facts::text(job, "/metadata/deletionTimestamp").is_empty();
            let open = !facts::is_terminal(job) && !going;
            if open && !left_alone && !self.is_quarantined(job) && self.has_rested(key) {
                self.report(key, job, blame);
            }
        }
    }

    fn queue(&self, key: &Key, queue: &Value, blame: &mut Blame) {
        let mut left = |sentence: String| blame.on(Invariant::Converged, key, sentence);
        let mut running: BTreeMap<&str, i64> = BTreeMap::new();
        for entry in entries(queue) {
            *running.entry(facts::text(entry, "/tenant")).or_default() += 1;
            let name = facts::text(entry, "/job");
            let job_key = Key::new(Kind::ReportJob, key.namespace.clone(), name);
            let over = job_of(self.store, key, entry).is_some_and(|job| is_over(job, entry));
            if over && self.has_rested(&job_key) {
                left(format!("the entry of {name} stands although its attempt is over"));
            }
        }
        if facts::text(queue, "/status/admissions") == "Paused" && self.is_paused_long(queue) {
            left("it is still paused: nobody accounts for what was found".to_owned());
        }
        let slots = queue.pointer("/spec/slots").and_then(Value::as_i64).unwrap_or_default();
        let used = i64::try_from(entries(queue).len()).unwrap_or(i64::MAX);
        let until = facts::time(queue, "/spec/admissionUntilTime");
        let held = facts::text(queue, "/spec/admission") == "Hold";
        if used >= slots || (held && until.is_none_or(|until| until > self.now)) {
            return;
        }
        for (job_key, job) in self.store.all(Kind::ReportJob) {
            let of = facts::queue_key(job) == *key && self.has_rested(job_key);
            if of && self.may_be_admitted(queue, job, &running) {
                left(format!("{} waits although a slot is free", job_key.name));
            }
        }
    }

    /// Whether it is paused for longer than any provider is asked.
    fn is_paused_long(&self, queue: &Value) -> bool {
        let mut conditions = facts::list(queue, "/status/conditions").iter();
        let ready = conditions.find(|condition| facts::text(condition, "/type") == "Ready");
        let since = ready.and_then(|ready| facts::time(ready, "/lastTransitionTime"));
        since
            .and_then(|since| since.checked_add(LONGEST_PAUSE).ok())
            .is_some_and(|end| end < self.now)
    }

    /// Whether a first attempt waits for nothing but a slot. Whether a retry may start depends on
    /// what others have cost.
    fn may_be_admitted(&self, queue: &Value, job: &Value, running: &BTreeMap<&str, i64>) -> bool {
        let (name, tenant) = (facts::text(job, "/metadata/name"), facts::text(job, "/spec/tenant"));
        let waits = facts::text(job, "/status/state") == "Queued"
            && facts::attempts(job).is_empty()
            && !facts::flag(job, "/spec/cancel")
            && facts::text(job, "/metadata/deletionTimestamp").is_empty()
            && !self.is_quarantined(job);
        let taken = entries(queue).iter().any(|entry| facts::text(entry, "/job") == name);
        let limit = facts::list(queue, "/spec/tenants")
            .iter()
            .find(|rule| facts::text(rule, "/name") == tenant)
            .and_then(|rule| rule["maxRunning"].as_i64());
        let capped = limit.is_some_and(|most| running.get(tenant).copied().unwrap_or(0) >= most);
        waits && !taken && !capped
    }

    fn report(&self, key: &Key, job: &Value, blame: &mut Blame) {
        let mut left = |sentence: &str| blame.on(Invariant::Converged, key, sentence);
        let queue_key = facts::queue_key(job);
        let there = self.store.queue_of(job).is_some() && self.has_rested(&queue_key);
        let unanswered = facts::text(job, "/status/state").is_empty();
        if facts::is_planned(job) {
            if let Some(sentence) = self.of_instant(job, there && unanswered) {
                left(sentence);
            }
        } else if there && unanswered {
            left("its queue did not answer it");
        }
        let open = facts::attempts(job)
            .last()
            .filter(|attempt| ["", "Unknown"].contains(&facts::text(attempt, "/outcome")));
        if open.is_none() && facts::flag(job, "/spec/cancel") {
            left("its cancel was not carried out, although nothing of it runs");
        }
        let Some(attempt) = open else { return };
        if let Some(sentence) = self.of_attempt(job, attempt) {
            left(sentence);
        }
    }

    /// What is left to do about a job that a schedule made, by what that has decided.
    fn of_instant(&self, job: &Value, unanswered: bool) -> Option<&'static str> {
        let schedule = self.store.schedule_of(job);
        if !self.has_rested(&facts::schedule_key(job)) {
            return None;
        }
        let uid = facts::uid(job);
        let claim = schedule
            .into_iter()
            .flat_map(facts::claims)
            .find(|claim| facts::text(claim, "/uid") == uid);
        let started = claim.is_some_and(facts::is_started) && self.is_due(job, schedule);
        if claim.is_none() && is_ghost(job, schedule) {
            return Some("its schedule has decided its instant without it, but it was not ended");
        }
        if schedule.is_none() && facts::attempts(job).is_empty() {
            return Some(
                "its schedule is gone and nothing of it was prepared, but it was not ended",
            );
        }
        (started && unanswered).then_some("its claim is started, but its queue did not answer it")
    }
}
