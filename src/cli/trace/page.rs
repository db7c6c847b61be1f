//! What stands on the page: pure.

use serde::Serialize;

use super::named;
use crate::{
    api::{LeadershipGained, PhaseDuration, RecoveryTrace, Time, TraceItem, TracePaused},
    cli::act::work::{Stage, Work},
    cluster::ObjectKey,
};

/// How an item stands now.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Now {
    /// It is there.
    There(Box<Work>),
    /// It was deleted.
    Gone,
    /// It is there and cannot be read.
    Unreadable,
    /// It could not be looked at, for want of a right or of an answer.
    NotRead,
}

/// One uncertain item.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    object: String,
    /// What was known of it at the takeover.
    reason: String,
    message: String,
    /// How it stands now.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<String>,
    /// Whether a person has to act.
    needs_person: bool,
    /// What to do.
    advice: String,
    /// The command that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

/// The record of a takeover, and what of it needs a person now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    name: String,
    namespace: String,
    epoch: i64,
    holder: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    former_holder: Option<String>,
    gained: LeadershipGained,
    complete: bool,
    /// Whether a later term has begun.
    superseded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<String>,
    phases: Vec<PhaseDuration>,
    resumed: i32,
    reconciled: i32,
    preserved: i32,
    uncertain: i32,
    items: Vec<Item>,
    paused: Vec<TracePaused>,
}

impl Page {
    /// The page of a record. `newest` is the highest epoch of any record, `now` says for each of its
    /// items how it stands.
    pub(super) fn of(
        trace: &RecoveryTrace,
        newest: Option<i64>,
        now: &[Now],
        program: &str,
    ) -> Self {
        let key = ObjectKey::of(&trace.metadata);
        let status = trace.status.clone().unwrap_or_default();
        let items = status.items.iter().zip(now);
        Self {
            name: key.name,
            namespace: key.namespace,
            epoch: trace.spec.epoch,
            holder: trace.spec.holder.clone(),
            former_holder: trace.spec.former_holder.clone(),
            gained: trace.spec.gained,
            complete: status.completion_time.is_some(),
            superseded: newest.is_some_and(|newest| newest > trace.spec.epoch),
            start_time: status.start_time,
            completion_time: status.completion_time,
            duration: status.duration,
            resumed: status.resumed.unwrap_or(0),
            reconciled: status.reconciled.unwrap_or(0),
            preserved: status.preserved.unwrap_or(0),
            uncertain: status.uncertain.unwrap_or(0),
            items: items.map(|(item, now)| Item::of(item, now, program)).collect(),
            phases: status.phases,
            paused: status.paused,
        }
    }

    /// The page for people.
    pub(super) fn text(&self) -> String {
        let mut lines =
            vec![format!("RecoveryTrace {} in namespace {}", self.name, self.namespace)];
        lines.push(String::new());
        lines.push(format!("Term        epoch {}, held by {}", self.epoch, self.holder));
        lines.push(format!("Gained      {:?}: {}", self.gained, self.how()));
        if let Some(start) = self.start_time {
            lines.push(format!("Began       {start}"));
        }
        lines.push(format!("Recovery    {}", self.recovery()));
        if self.complete {
            lines.push(String::new());
            lines.extend(self.counts());
        }
        if !self.items.is_empty() {
            lines.push(String::new());
            lines.push(self.items_head());
            for item in &self.items {
                lines.extend(item.lines());
            }
        }
        if !self.paused.is_empty() {
            lines.push(String::new());
            lines
                .push("Nothing new is started in this term, or was not at first, from:".to_owned());
            lines.extend(self.paused.iter().map(paused));
        }
        lines.join("\n") + "\n"
    }

    fn how(&self) -> String {
        let former = self.former_holder.as_deref();
        let former = former.map(|former| format!(", {former},")).unwrap_or_default();
        match self.gained {
            LeadershipGained::Released => format!("the holder before{former} gave the Lease back"),
            LeadershipGained::Expired => {
                format!("the holder before{former} had not renewed the Lease for too long")
            }
            LeadershipGained::LeaseDeleted => {
                format!("the Lease had been deleted under the holder before{former}")
                    .trim_end_matches(',')
                    .to_owned()
            }
            LeadershipGained::First => "nobody had held the Lease".to_owned(),
        }
    }

    fn recovery(&self) -> String {
        match &self.duration {
            Some(duration) if self.complete => {
                let phases: Vec<String> = self
                    .phases
                    .iter()
                    .map(|phase| format!("{:?} {} ms", phase.name, phase.milliseconds))
                    .collect();
                let phases = phases.join(", ");
                format!("complete after {duration} ({phases})")
            }
            _ if self.complete => "complete".to_owned(),
            _ if self.superseded => "not completed: the term ended before; the next record accounts \
                 for the same work"
                .to_owned(),
            _ => "under way: not every item is accounted for. If that lasts longer than two minutes, \
                 see docs/runbooks/recovery.md"
                .to_owned(),
        }
    }

    fn counts(&self) -> Vec<String> {
        let rows = [
            (self.resumed, "Resumed", "nothing of them was running; they go on"),
            (self.reconciled, "Reconciled", "their provider was asked and answered"),
            (self.preserved, "Preserved", "they were over and were not touched"),
            (self.uncertain, "Uncertain", "nobody could say how they stand; nothing was repeated"),
        ];
        rows.iter().map(|(count, name, words)| format!("{name:<10}  {count:>7}  {words}")).collect()
    }

    fn items_head(&self) -> String {
        let listed = self.items.len();
        let open = self.items.iter().filter(|item| item.needs_person).count();
        let of = if usize::try_from(self.uncertain).is_ok_and(|all| all > listed) {
            format!("the first {listed} of {}", self.uncertain)
        } else {
            listed.to_string()
        };
        format!("Uncertain ({of}), of which {open} need a person now:")
    }
}

fn paused(paused: &TracePaused) -> String {
    let what = match (&paused.schedule, &paused.queue) {
        (Some(schedule), _) => format!("the schedule {schedule}"),
        (None, Some(queue)) => format!("the queue {queue}"),
        (None, None) => "something".to_owned(),
    };
    let fix = match paused.reason.as_str() {
        "ForeignFence" => ": see docs/runbooks/foreign-fence.md",
        "RecoveryIncomplete" => ": it opens by itself once each of its slots is accounted for",
        "Unreadable" => ": correct the object, its kind's schema would refuse it",
        _ => "",
    };
    format!("  {what}  {}{fix}", paused.reason)
}

impl Item {
    fn of(item: &TraceItem, now: &Now, program: &str) -> Self {
        let TraceItem { object, class: _, reason, message } = item;
        let stands = match now {
            Now::There(work) => Some(work.recorded.to_string()),
            Now::Gone => Some("it was deleted".to_owned()),
            Now::Unreadable | Now::NotRead => None,
        };
        let (needs_person, advice, command) = advice(item, now, program);
        Self {
            object: object.clone(),
            reason: reason.clone(),
            message: message.clone(),
            now: stands,
            needs_person,
            advice,
            command,
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("  {}  {}", self.object, self.reason),
            format!("    then: {}", self.message),
        ];
        lines.extend(self.now.as_ref().map(|now| format!("    now:  {now}")));
        lines.push(format!("    do:   {}", self.advice));
        lines.extend(self.command.as_ref().map(|command| format!("          {command}")));
        lines
    }
}

/// Whether a person has to act, what to do, and the command for it.
fn advice(item: &TraceItem, now: &Now, program: &str) -> (bool, String, Option<String>) {
    let resolve = |attempt: &str| {
        let (namespace, target) = named(item)?;
        Some(format!(
            "{program} resolve {target} --namespace {namespace} --attempt {attempt} --decision \
             Succeeded|Failed|Retry --reason \"how you know\""
        ))
    };
    match (now, item.reason.as_str()) {
        (Now::There(work), _) if work.stage == Stage::Unresolved => {
            let attempt = work.recorded.attempt.unwrap_or(1).to_string();
            let what =
                "find out whether it ended, from its logs or the data it changes; then decide";
            (true, what.to_owned(), resolve(&attempt))
        }
        (Now::There(work), _) if work.is_over() => (false, "nothing: it is over".to_owned(), None),
        (_, "ForeignFence") => (true, "see docs/runbooks/foreign-fence.md".to_owned(), None),
        (Now::There(_), _) => (false, "nothing: it goes on".to_owned(), None),
        (Now::Gone, "DeletedNotOver") => {
            let what = "its place stays taken until its runs are proven over. If you know that they \
                        are, say so in spec.abandon of its schedule or queue, see \
                        docs/runbooks/unresolved-runs.md";
            (true, what.to_owned(), None)
        }
        (Now::Gone, _) => (false, "nothing, if its runs are over".to_owned(), None),
        (Now::Unreadable, _) => {
            let show = named(item).map(|(namespace, target)| {
                format!("kubectl get {target} --namespace {namespace} -o yaml")
            });
            (true, "correct it or delete it: its kind's schema would refuse it".to_owned(), show)
        }
        (Now::NotRead, _) => {
            let what = "you may not read it, or the cluster did not answer. If it is Unresolved, \
                        somebody has to decide";
            (true, what.to_owned(), resolve("N"))
        }
    }
}

/// Records for tests.
#[cfg(test)]
pub(super) mod made {
    use serde_json::{Value, json};

    use super::*;

    pub(in crate::cli::trace) fn trace(epoch: i64, status: &Value) -> RecoveryTrace {
        serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "RecoveryTrace",
            "metadata": {"name": format!("punctual-{epoch}"), "namespace": "punctual-system"},
            "spec": {
                "leaseName": "punctual", "epoch": epoch, "holder": "punctual-0/abcd",
                "formerHolder": "punctual-1/ef01", "gained": "Expired",
            },
            "status": status,
        }))
        .unwrap()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::act::work::{Piece as _, made as work};

    fn complete(items: &Value) -> RecoveryTrace {
        made::trace(
            30,
            &json!({
                "startTime": "2026-11-29T02:00:00Z", "completionTime": "2026-11-29T02:00:01.2Z",
                "duration": "1.204s",
                "phases": [{"name": "List", "milliseconds": 204}, {"name": "Classify", "milliseconds": 1000}],
                "resumed": 12, "reconciled": 3, "preserved": 100, "uncertain": 2, "items": items,
                "paused": [{"queue": "docs/reports", "reason": "RecoveryIncomplete"}],
            }),
        )
    }

    fn item(object: &str, reason: &str) -> Value {
        json!({"object": object, "class": "Uncertain", "reason": reason, "message": "who knows"})
    }

    fn there(state: &str) -> Now {
        let status = json!({"state": state, "attempts": [work::failed(1), work::attempt(2)]});
        Now::There(Box::new(work::occurrence(&json!({}), &status).work()))
    }

    #[test]
    fn the_page_tells_what_happened_and_what_to_do() {
        let mocc = "docs/mocc/nightly-202611290200";
        let trace = complete(&json!([item(mocc, "EndNotSeen"), item("docs/rjob/a", "EndNotSeen")]));
        let page =
            Page::of(&trace, Some(30), &[there("Unresolved"), Now::NotRead], "kubectl punctual");
        let text = page.text();
        for line in [
            "RecoveryTrace punctual-30 in namespace punctual-system",
            "Term        epoch 30, held by punctual-0/abcd",
            "Gained      Expired: the holder before, punctual-1/ef01, had not renewed",
            "Recovery    complete after 1.204s (List 204 ms, Classify 1000 ms)",
            "Resumed          12  nothing of them was running",
            "Uncertain (2), of which 2 need a person now:",
            "    now:  mocc/nightly-202611290200 is Unresolved",
            "          kubectl punctual resolve mocc/nightly-202611290200 --namespace docs --attempt 2 \
             --decision Succeeded|Failed|Retry --reason \"how you know\"",
            "          kubectl punctual resolve rjob/a --namespace docs --attempt N",
            "  the queue docs/reports  RecoveryIncomplete: it opens by itself",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn each_item_has_its_own_way_out() {
        let says = |reason: &str, now: &Now| {
            let item = serde_json::from_value(item("docs/mocc/n-202611290200", reason)).unwrap();
            let (needs, what, _) = advice(&item, now, "punctual");
            (needs, what)
        };
        for (reason, now, needs, words) in [
            ("EndNotSeen", there("Succeeded"), false, "it is over"),
            ("ProviderUnreachable", there("Running"), false, "it goes on"),
            ("ForeignFence", there("Running"), true, "foreign-fence"),
            ("DeletedNotOver", Now::Gone, true, "spec.abandon"),
            ("EndNotSeen", Now::Gone, false, "nothing"),
            ("Unreadable", Now::Unreadable, true, "correct it"),
            ("NotReached", Now::NotRead, true, "somebody has to decide"),
        ] {
            let (does, said) = says(reason, &now);
            assert_eq!(does, needs, "{reason} {now:?}");
            assert!(said.contains(words), "{reason}: {said}");
        }
    }

    #[test]
    fn a_record_without_an_end_says_why() {
        let open = made::trace(30, &json!({}));
        assert!(Page::of(&open, Some(30), &[], "punctual").text().contains("under way"));
        let ended = Page::of(&open, Some(31), &[], "punctual").text();
        assert!(ended.contains("the term ended before") && !ended.contains("Preserved"), "{ended}");
    }

    #[test]
    fn more_than_are_listed_are_counted() {
        let mut trace = complete(&json!([item("docs/mocc/a", "EndNotSeen")]));
        if let Some(status) = &mut trace.status {
            status.uncertain = Some(200);
        }
        let text = Page::of(&trace, None, &[Now::Gone], "punctual").text();
        assert!(text.contains("Uncertain (the first 1 of 200), of which 0 need"), "{text}");
    }
}
