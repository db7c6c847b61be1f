//! What a recovery trace says.

use super::{
    answer::Answer,
    snapshot::Snapshot,
    terms::{Terms, pod},
    words,
};
use crate::api::{RecoveryPhase, RecoveryTrace, TraceItem, TracePaused};

/// Most items that are told one by one.
const MOST_ITEMS: usize = 10;

/// Explains a recovery trace that could be read.
pub(super) fn explain(snapshot: &Snapshot, trace: &RecoveryTrace, answer: &mut Answer) {
    let terms = Terms::of(snapshot);
    let status = trace.status.clone().unwrap_or_default();
    let (epoch, leader) = (trace.spec.epoch, pod(&trace.spec.holder));
    let created = trace.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let began = status.start_time.map(|at| at.0).or(created);
    let how = terms.how(epoch).unwrap_or_else(|| format!("{:?}", trace.spec.gained));
    answer.happened(
        began,
        format!("{leader} began to lead with epoch {epoch}: {how}"),
        Some(epoch),
    );
    for phase in &status.phases {
        let what = match phase.name {
            RecoveryPhase::List => "reading everything",
            RecoveryPhase::Classify => "looking at each item and asking its provider",
        };
        answer.happened(None, format!("{what} took {} ms", phase.milliseconds), None);
    }
    if let Some(end) = status.completion_time {
        answer.happened(Some(end.0), "every item was accounted for", Some(epoch));
    }
    *answer = std::mem::take(answer).in_order();
    let newest = terms.newest() == Some(epoch);
    let uncertain = status.uncertain.unwrap_or(0);
    match (status.completion_time, newest) {
        (Some(_), _) if uncertain > 0 => answer.stands(
            "Complete",
            Some("Uncertain"),
            format!(
                "The new leader took over; of {uncertain} items nobody could say how they stand."
            ),
        ),
        (Some(_), _) => answer.stands(
            "Complete",
            Some("Accounted"),
            "The new leader took over, and every item is accounted for.",
        ),
        (None, true) => {
            answer.stands(
                "UnderWay",
                None,
                "The new leader is taking over; not every item is accounted for yet.",
            );
            answer.then(None, "It is completed when every item was read and every provider has answered, or was asked for 60 seconds.");
        }
        (None, false) => {
            answer.stands(
                "Ended",
                None,
                "This term ended before every item was accounted for. The next term did it anew.",
            );
        }
    }
    let count = |n: Option<i32>| n.unwrap_or(0);
    answer.because("A new leader knows nothing. It reads all work that is not over, and asks the provider of whatever may run, before anything is repeated.");
    answer.because(format!(
        "{} resumed (nothing of it was running), {} reconciled (the provider was asked and answered), {} preserved (it was over and stays as it is), {uncertain} uncertain (nobody could say).",
        count(status.resumed), count(status.reconciled), count(status.preserved),
    ));
    items(&status.items, uncertain, answer);
    paused(&status.paused, answer);
    answer.then(None, "A completed trace never changes; the last 20 are kept.");
}

fn items(items: &[TraceItem], uncertain: i32, answer: &mut Answer) {
    for item in items.iter().take(MOST_ITEMS) {
        let message = item.message.trim_end_matches('.');
        let meaning = words::meaning(&item.reason).unwrap_or_default();
        answer.because(
            format!("{} is uncertain ({}): {message}. {meaning}", item.object, item.reason)
                .trim_end(),
        );
        let mut parts = item.object.splitn(3, '/');
        if let (Some(namespace), Some(kind), Some(name)) =
            (parts.next(), parts.next(), parts.next())
        {
            answer.can(
                format!("To see what can be decided about {kind}/{name}"),
                format!("kubectl punctual why {kind}/{name} -n {namespace}"),
            );
        }
    }
    let told = i32::try_from(items.len().min(MOST_ITEMS)).unwrap_or(i32::MAX);
    if uncertain > told {
        answer.because(format!(
            "{} more are uncertain; the log of the leader has one line for each item.",
            uncertain - told
        ));
    }
}

fn paused(all: &[TracePaused], answer: &mut Answer) {
    for paused in all.iter().take(MOST_ITEMS) {
        let what = match (&paused.queue, &paused.schedule) {
            (Some(queue), _) => format!("queue {queue}"),
            (_, Some(schedule)) => format!("schedule {schedule}"),
            (None, None) => "an object".to_owned(),
        };
        let why = match paused.reason.as_str() {
            "ForeignFence" => {
                "it carries the epoch of a term that this Lease never had, for example after a restore from another cluster; it is left alone"
            }
            "Unreadable" => "it cannot be read; correct it, and it is taken up",
            "RecoveryIncomplete" => "not everything that holds its slots is accounted for",
            other => other,
        };
        answer.because(format!("Nothing new of {what} is started in this term: {why}."));
    }
    if all.len() > MOST_ITEMS {
        answer.because(format!("{} more are paused (status.paused).", all.len() - MOST_ITEMS));
    }
}
