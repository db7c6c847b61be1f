//! Why a queue is as it is.

use jiff::Timestamp;

use super::{
    answer::{Answer, many, span},
    commands::Target,
    events,
    occurrence::list,
    schedule::condition,
    snapshot::{Snapshot, known},
    terms::{Terms, explain_no_leader, sealed_by},
    waiting::Line,
};
use crate::{
    api::{Admissions, ConditionStatus, RecoveryTrace, ReportQueue, ReportQueueSpec},
    reports::queue::spec,
    runs::conditions,
};

/// Explains a queue that could be read.
pub(super) fn explain(snapshot: &Snapshot, queue: &ReportQueue, answer: &mut Answer) {
    let target = Target::new(answer.object.clone(), &answer.namespace);
    let terms = Terms::of(snapshot);
    story(snapshot, queue, &terms, answer);
    admissions(snapshot, queue, &target, answer);
    let line = Line::new(queue.clone(), &snapshot.others, snapshot.now);
    holders(&line, queue, snapshot, answer);
    let (waiting, tenants) = line.waiting();
    if waiting > 0 {
        answer.because(format!(
            "Waiting: {} of {}. Next: {}.",
            many(waiting, "report"),
            many(tenants, "tenant"),
            list(&line.next())
        ));
    }
    line.explain_drain(answer);
    if waiting > 0 {
        answer.can("To run more at one time (spec.slots)", target.edit());
    }
    if let Some(accepted) =
        queue.status.as_ref().and_then(|s| condition(&s.conditions, conditions::ACCEPTED))
        && accepted.status == ConditionStatus::False
    {
        answer.because(format!(
            "Its runTemplate would be refused ({}): {}.",
            accepted.reason,
            accepted.message.trim_end_matches('.')
        ));
        answer.can("To correct it", target.edit());
    }
    explain_no_leader(answer, snapshot);
    events::explain_fenced_write(answer, snapshot);
}

fn story(snapshot: &Snapshot, queue: &ReportQueue, terms: &Terms, answer: &mut Answer) {
    let created = queue.metadata.creation_timestamp.as_ref().map(|at| at.0);
    answer.happened(created, "created", None);
    events::tell(answer, snapshot);
    *answer = std::mem::take(answer).in_order();
    if let Some(epoch) = snapshot.object.as_ref().and_then(sealed_by) {
        let what = format!("last written by {}", terms.who(epoch));
        answer.happened(None, what, Some(epoch));
        if let Some(how) = terms.how(epoch) {
            answer.happened(None, format!("that leader began because {how}"), Some(epoch));
        }
    }
}

fn admissions(snapshot: &Snapshot, queue: &ReportQueue, target: &Target, answer: &mut Answer) {
    let status = queue.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    let message = status.and_then(|status| status.message.as_deref()).unwrap_or_default();
    let note = queue.spec.admission_reason.as_deref();
    let note = note.map_or_else(String::new, |note| format!(" Note: {note}"));
    match status.and_then(|status| status.admissions) {
        None => {
            answer.stands(
                "New",
                None,
                "No leader has looked at it yet; nothing is accepted or started.",
            );
            answer.then(None, "A leader opens it within a second.");
        }
        Some(Admissions::Open) if reason == Some("SlotsLowered") => {
            answer.stands(
                "Open",
                reason,
                "Nothing new starts until what runs fits into its slots.",
            );
            answer.because(format!("{}.", message.trim_end_matches('.')));
        }
        Some(Admissions::Open) => answer.stands(
            "Open",
            reason,
            "It accepts reports and starts them as slots become free.",
        ),
        Some(Admissions::Paused) => {
            answer.stands(
                "Paused",
                reason,
                "Nothing new starts: a new leader has yet to find out what holds its slots.",
            );
            answer.because("After a change of leader every entry of the ledger must be accounted for: its report is read and sealed, and its provider answered, or 60 seconds of asking passed. Before that more could run than there are slots. What runs goes on.");
            unaccounted(snapshot, queue, answer);
            answer.then(None, "It opens by itself when the last entry is accounted for, usually within seconds, at most about a minute after the provider was first asked.");
            answer.can("To see what the new leader found", "kubectl punctual trace");
        }
        Some(Admissions::Held) => {
            answer.stands(
                "Held",
                reason,
                "Reports are accepted; nothing new starts. What runs goes on.",
            );
            answer.because(format!("spec.admission is Hold.{note}"));
            tell_when_it_opens(answer, &queue.spec, snapshot.now);
            answer.can("To open it", target.resume());
        }
        Some(Admissions::Closed) => {
            answer.stands("Closed", reason, "Nothing new is accepted; what waits still runs.");
            answer.because(format!("spec.admission is Closed.{note}"));
            tell_when_it_opens(answer, &queue.spec, snapshot.now);
            answer.can("To open it", target.resume());
        }
    }
}

/// When a queue that is not open opens again.
pub(super) fn tell_when_it_opens(answer: &mut Answer, queue: &ReportQueueSpec, now: Timestamp) {
    match spec::policy_ends(queue, now) {
        Some(at) => answer.then(Some(at), "The queue opens by itself (spec.admissionUntilTime)."),
        None => {
            answer.then(None, "The queue opens when someone opens it; no time is set for that.");
        }
    }
}

/// What the newest trace says of this queue.
fn unaccounted(snapshot: &Snapshot, queue: &ReportQueue, answer: &mut Answer) {
    let traces = snapshot.traces.iter().filter_map(|trace| known::<RecoveryTrace>(Some(trace)));
    let Some(newest) = traces.max_by_key(|trace| trace.spec.epoch) else { return };
    let meta = &queue.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = format!("{namespace}/{}", meta.name.as_deref().unwrap_or_default());
    let status = newest.status.unwrap_or_default();
    let of = status.paused.iter().filter(|paused| paused.queue.as_deref() == Some(&name));
    for paused in of {
        answer.because(format!(
            "The recovery trace of epoch {} says: {}.",
            newest.spec.epoch, paused.reason
        ));
    }
}

fn holders(line: &Line, queue: &ReportQueue, snapshot: &Snapshot, answer: &mut Answer) {
    let holders = line.holders();
    let slots = queue.spec.slots;
    if holders.is_empty() {
        answer.because(format!("No slot is taken; there are {slots}."));
        return;
    }
    let named: Vec<String> = holders
        .iter()
        .map(|entry| {
            let since = span(snapshot.now.duration_since(entry.admitted_time.0));
            format!("rjob/{} of {} (for {since})", entry.job, entry.tenant)
        })
        .collect();
    answer.because(format!("{} of {slots} slots are taken, by {}.", holders.len(), list(&named)));
    let known: Vec<&str> =
        snapshot.others.iter().map(|job| super::snapshot::text(job, "/metadata/uid")).collect();
    let gone: Vec<String> = holders
        .iter()
        .filter(|entry| !snapshot.others.is_empty() && !known.contains(&entry.uid.as_str()))
        .map(|entry| format!("rjob/{} (uid {})", entry.job, entry.uid))
        .collect();
    if !gone.is_empty() {
        answer.because(format!(
            "Deleted, and not proven over, so that their slots stay taken: {}.",
            list(&gone)
        ));
        answer.can_do("Only if you know that nothing of a deleted report runs any more and the operator cannot find out: add its uid with your reason to spec.abandon of the queue.");
    }
}
