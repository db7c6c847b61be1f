//! Counts what was found, and writes the record of the term from it: pure.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::classify::{Found, Item, Judgement, Verdict, at_takeover};
use crate::api::{
    Condition, ConditionStatus, MAX_TRACE_ITEMS, MAX_TRACE_PAUSED, PhaseDuration, RecoveryClass,
    RecoveryPhase, RecoveryTraceStatus, Time, TraceItem, TracePaused,
};

/// Condition of a trace: whether every item is accounted for.
pub const COMPLETE: &str = "Complete";

/// An item that is not accounted for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outstanding {
    item: Item,
    found: Found,
    /// What will have to be said of it if nothing more is learnt; `None` until it was looked at.
    so_far: Option<Verdict>,
}

/// What a new leader found, and what is known of it so far.
///
/// Bounded by the number of objects that were not over when they were listed; those that were over
/// are only counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By uid.
    outstanding: BTreeMap<String, Outstanding>,
    known: BTreeMap<Item, Verdict>,
    counts: BTreeMap<RecoveryClass, usize>,
}

/// When the parts of a recovery began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// When the term began.
    pub started: Timestamp,
    /// When the last item was accounted for.
    pub completed: Timestamp,
    /// From the beginning of the term until everything was listed.
    pub list: Duration,
    /// From then on until the last item was accounted for.
    pub classify: Duration,
}

impl Tally {
    /// Everything that was listed.
    pub fn of(items: impl IntoIterator<Item = (Item, Found)>) -> Self {
        let mut tally = Self::default();
        for (item, found) in items {
            match at_takeover(&found) {
                Judgement::Known(verdict) if verdict.class == RecoveryClass::Preserved => {
                    *tally.counts.entry(verdict.class).or_default() += 1;
                }
                Judgement::Known(verdict) => tally.close(item, verdict),
                Judgement::NotYet(_) | Judgement::Nothing => {
                    let waiting = Outstanding { item: item.clone(), found, so_far: None };
                    tally.outstanding.insert(item.uid, waiting);
                }
            }
        }
        tally
    }

    /// How an item was found, while it is not accounted for.
    pub fn found(&self, uid: &str) -> Option<&Found> {
        self.outstanding.get(uid).map(|waiting| &waiting.found)
    }

    /// Takes what was learnt of the item with this uid. The first verdict stays. Says whether that
    /// was progress: the item is accounted for, or was looked at for the first time.
    pub fn learn(&mut self, uid: &str, judgement: Judgement) -> bool {
        let Some(waiting) = self.outstanding.get_mut(uid) else { return false };
        match judgement {
            Judgement::Nothing => false,
            Judgement::NotYet(verdict) => waiting.so_far.replace(verdict).is_none(),
            Judgement::Known(verdict) => {
                if let Some(waiting) = self.outstanding.remove(uid) {
                    self.close(waiting.item, verdict);
                }
                true
            }
        }
    }

    /// Nothing more is awaited: what is not accounted for is uncertain.
    pub fn give_up(&mut self) {
        for (_, waiting) in std::mem::take(&mut self.outstanding) {
            let verdict = waiting.so_far.unwrap_or_else(|| {
                Verdict::uncertain("NotReached", "nothing was learnt of it for 60 s")
            });
            self.close(waiting.item, verdict);
        }
    }

    fn close(&mut self, item: Item, verdict: Verdict) {
        *self.counts.entry(verdict.class).or_default() += 1;
        self.known.insert(item, verdict);
    }

    /// How many items are not accounted for.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// How many items fell into a class so far.
    pub fn count(&self, class: RecoveryClass) -> usize {
        self.counts.get(&class).copied().unwrap_or(0)
    }

    /// All that was not just counted, by name: what a log says of each item.
    pub fn items(&self) -> impl Iterator<Item = (&Item, &Verdict)> {
        self.known.iter()
    }

    /// The record. `paused`: of what nothing new is started in this term.
    pub fn status(&self, timing: &Timing, mut paused: Vec<TracePaused>) -> RecoveryTraceStatus {
        let count = |class| Some(i32::try_from(self.count(class)).unwrap_or(i32::MAX));
        let uncertain = self.known.iter().filter(|(_, v)| v.class == RecoveryClass::Uncertain);
        let items = uncertain.take(MAX_TRACE_ITEMS).map(|(item, verdict)| TraceItem {
            object: item.to_string(),
            class: verdict.class,
            reason: verdict.reason.clone(),
            message: verdict.message.clone(),
        });
        paused.truncate(MAX_TRACE_PAUSED);
        let phases =
            [(RecoveryPhase::List, timing.list), (RecoveryPhase::Classify, timing.classify)];
        RecoveryTraceStatus {
            start_time: Some(Time::new(timing.started)),
            completion_time: Some(Time::new(timing.completed)),
            duration: Some(seconds(timing.list + timing.classify)),
            phases: phases.map(phase).to_vec(),
            resumed: count(RecoveryClass::Resumed),
            reconciled: count(RecoveryClass::Reconciled),
            preserved: count(RecoveryClass::Preserved),
            uncertain: count(RecoveryClass::Uncertain),
            items: items.collect(),
            paused,
            fence: None,
            conditions: vec![self.complete(timing.completed)],
        }
    }

    fn complete(&self, at: Timestamp) -> Condition {
        let uncertain = self.count(RecoveryClass::Uncertain);
        let (reason, message) = if uncertain == 0 {
            ("Accounted", "every item is accounted for".to_owned())
        } else {
            let message = format!("of {uncertain} items nobody could say how they stand");
            ("Uncertain", message)
        };
        Condition {
            r#type: COMPLETE.to_owned(),
            status: ConditionStatus::True,
            reason: reason.to_owned(),
            message,
            last_transition_time: Time::new(at),
            observed_generation: None,
        }
    }

    /// One sentence with the four counts.
    pub fn summary(&self) -> String {
        let counts = RecoveryClass::ALL
            .map(|class| format!("{} {}", self.count(class), class.as_str().to_lowercase()));
        counts.join(", ")
    }
}

fn phase((name, took): (RecoveryPhase, Duration)) -> PhaseDuration {
    let milliseconds = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
    PhaseDuration { name, milliseconds }
}

/// `1.204s`
fn seconds(took: Duration) -> String {
    format!("{}.{:03}s", took.as_secs(), took.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        Item {
            namespace: "docs".into(),
            kind: "mocc",
            name: name.to_owned(),
            uid: format!("uid-{name}"),
        }
    }

    fn timing() -> Timing {
        Timing {
            started: "2026-11-29T02:00:00Z".parse().unwrap(),
            completed: "2026-11-29T02:00:01.25Z".parse().unwrap(),
            list: Duration::from_millis(205),
            classify: Duration::from_millis(999),
        }
    }

    fn open() -> Found {
        Found::Open { unresolved: false }
    }

    fn known(class: RecoveryClass, reason: &str) -> Judgement {
        Judgement::Known(Verdict::new(class, reason, "m"))
    }

    #[test]
    fn each_item_is_counted_once_and_the_first_verdict_stays() {
        let mut tally = Tally::of([
            (item("over"), Found::Over),
            (item("idle"), Found::Idle),
            (item("open"), open()),
        ]);
        assert_eq!(tally.outstanding(), 2);
        assert!(tally.learn("uid-open", known(RecoveryClass::Reconciled, "Running")));
        assert!(!tally.learn("uid-open", known(RecoveryClass::Uncertain, "Later")));
        assert!(!tally.learn("uid-over", known(RecoveryClass::Uncertain, "Later")));
        assert!(!tally.learn("uid-of-another", known(RecoveryClass::Resumed, "New")));
        assert!(tally.learn("uid-idle", known(RecoveryClass::Resumed, "NothingRan")));
        assert_eq!(tally.outstanding(), 0);
        assert_eq!(tally.summary(), "1 resumed, 1 reconciled, 1 preserved, 0 uncertain");
    }

    #[test]
    fn the_first_look_is_progress_and_the_next_is_not() {
        let mut tally = Tally::of([(item("a"), open())]);
        let silent = || Judgement::NotYet(Verdict::uncertain("ProviderUnreachable", "m"));
        assert!(!tally.learn("uid-a", Judgement::Nothing));
        assert!(tally.learn("uid-a", silent()));
        assert!(!tally.learn("uid-a", silent()));
        assert_eq!(tally.outstanding(), 1);
    }

    #[test]
    fn whoever_gives_up_says_what_was_learnt_last() {
        let mut tally = Tally::of([(item("a"), open()), (item("b"), Found::Idle)]);
        tally.learn("uid-a", Judgement::NotYet(Verdict::uncertain("First", "m")));
        tally.learn("uid-a", Judgement::NotYet(Verdict::uncertain("Last", "m")));
        tally.give_up();
        assert_eq!(tally.outstanding(), 0);
        let status = tally.status(&timing(), vec![]);
        let listed: Vec<_> =
            status.items.iter().map(|i| (i.object.as_str(), i.reason.as_str())).collect();
        assert_eq!(listed, [("docs/mocc/a", "Last"), ("docs/mocc/b", "NotReached")]);
        assert_eq!(status.conditions[0].reason, "Uncertain");
    }

    #[test]
    fn the_record_says_everything() {
        let mut tally = Tally::of([(item("over"), Found::Over), (item("a"), open())]);
        tally.learn("uid-a", known(RecoveryClass::Reconciled, "Running"));
        let status = tally.status(&timing(), vec![]);
        assert_eq!(status.start_time.unwrap().to_string(), "2026-11-29T02:00:00Z");
        assert_eq!(status.completion_time.unwrap().to_string(), "2026-11-29T02:00:01.25Z");
        assert_eq!(status.duration.as_deref(), Some("1.204s"));
        let phases: Vec<_> = status.phases.iter().map(|p| (p.name, p.milliseconds)).collect();
        assert_eq!(phases, [(RecoveryPhase::List, 205), (RecoveryPhase::Classify, 999)]);
        let counts = [status.resumed, status.reconciled, status.preserved, status.uncertain];
        assert_eq!(counts, [Some(0), Some(1), Some(1), Some(0)]);
        assert!(status.items.is_empty() && status.paused.is_empty());
        assert_eq!(status.conditions[0].reason, "Accounted");
    }

    #[test]
    fn a_leader_that_finds_nothing_writes_zeros() {
        let tally = Tally::of([]);
        assert_eq!(tally.outstanding(), 0);
        let status = tally.status(&timing(), vec![]);
        let counts = [status.resumed, status.reconciled, status.preserved, status.uncertain];
        assert_eq!(counts, [Some(0); 4]);
    }

    #[test]
    fn the_lists_are_bounded_and_everything_is_counted() {
        let items = (0..200).rev().map(|n| (item(&format!("n{n:03}")), open()));
        let mut tally = Tally::of(items);
        tally.give_up();
        let pause = |n| TracePaused::schedule(&format!("docs/s{n}"), "R");
        let status = tally.status(&timing(), (0..200).map(pause).collect());
        assert_eq!(status.uncertain, Some(200));
        assert_eq!((status.items.len(), status.paused.len()), (MAX_TRACE_ITEMS, MAX_TRACE_PAUSED));
        assert_eq!(status.items[0].object, "docs/mocc/n000", "by name, whatever came first");
    }

    #[test]
    fn what_cannot_be_read_is_uncertain_at_once() {
        let tally = Tally::of([(item("a"), Found::Unreadable { error: "e".into() })]);
        assert_eq!((tally.outstanding(), tally.count(RecoveryClass::Uncertain)), (0, 1));
    }

    #[test]
    fn an_object_made_again_under_its_name_is_another_item() {
        let again = Item { uid: "uid-later".into(), ..item("a") };
        let mut tally = Tally::of([(item("a"), Found::Gone), (again, open())]);
        tally.learn("uid-later", known(RecoveryClass::Reconciled, "Running"));
        assert_eq!(tally.outstanding(), 1, "what became of the first is not known");
    }
}
