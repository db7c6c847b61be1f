//! No fence, no campaign: asks whether the API server enforces the rules that safety rests on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

use super::notes::ProcessNotes;
use crate::{
    api,
    authority::{ElectorHandle, Leadership},
    cluster::{FenceCheck, FencedWriter, Gap, Reader, check_fence},
    retry,
    telemetry::{Health, Metrics},
};

/// How often a follower asks again after it was satisfied: somebody may have replaced the CRDs. A
/// request or two a minute, and a standby that could not work is not ready.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Keeps the permission to campaign in step with what the API server enforces.
pub(super) struct Campaign {
    /// Where the create with a wrong name is tried.
    pub(super) namespace: String,
    /// Key of the pauses, so that replicas do not ask in step.
    pub(super) replica: String,
    pub(super) reader: Reader,
    pub(super) writer: Arc<FencedWriter>,
    pub(super) handle: ElectorHandle,
    pub(super) health: Health,
    pub(super) metrics: Arc<Metrics>,
    pub(super) notes: ProcessNotes,
}

impl Campaign {
    /// Nothing was asked yet, so the replica is not ready.
    pub(super) fn begin(&self) {
        let not_yet = "the API server's validation rules have not been checked yet";
        self.health.missing(FenceCheck::REASON, not_yet);
    }

    /// Asks for ever. A leader is left alone: its own term tries the fence with every kind it writes.
    pub(super) async fn run(self) {
        let mut failures = 0;
        let mut allowed = false;
        let mut told = String::new();
        loop {
            if !self.leads() {
                let check = check_fence(&self.reader, &self.writer, &self.namespace).await;
                if check.passed() {
                    self.allow();
                    (failures, allowed) = (0, true);
                    told.clear();
                } else if !(allowed && is_silence(&check)) {
                    self.refuse(&check, &mut told);
                    (failures, allowed) = (failures + 1, false);
                }
            }
            let pause = match failures {
                0 => ASK_AGAIN,
                failures => retry::delay(&retry::STARTUP, &self.replica, failures),
            };
            sleep(pause).await;
        }
    }

    fn leads(&self) -> bool {
        matches!(*self.handle.leadership().borrow(), Leadership::Leading { .. })
    }

    fn allow(&self) {
        for crd in api::crds() {
            self.metrics.crd_missing(crd.metadata.name.as_deref().unwrap_or_default(), false);
        }
        self.metrics.fence_enforced(true);
        self.health.present(FenceCheck::REASON);
        self.handle.set_campaign(true);
    }

    /// Tells people once for each new sentence; `told` is the last one.
    fn refuse(&self, check: &FenceCheck, told: &mut String) {
        self.handle.set_campaign(false);
        for crd in api::crds() {
            let name = crd.metadata.name.as_deref().unwrap_or_default();
            let missing = check.gaps.iter().any(|gap| crd_of(gap) == Some(name));
            self.metrics.crd_missing(name, missing);
        }
        self.metrics.fence_enforced(false);
        let sentence = check.to_string();
        self.health.missing(FenceCheck::REASON, &sentence);
        if *told != sentence {
            tracing::warn!(reason = FenceCheck::REASON, "{sentence}");
            self.notes.fence_not_enforced(sentence.clone());
            *told = sentence;
        }
    }
}

/// Whether the check only got no answer: nothing is known to be missing, and what was there before
/// counts.
fn is_silence(check: &FenceCheck) -> bool {
    check.gaps.iter().all(|gap| matches!(gap, Gap::NotKnown { .. }))
}

fn crd_of(gap: &Gap) -> Option<&str> {
    match gap {
        Gap::CrdMissing { crd } | Gap::VersionMissing { crd } | Gap::RulesDiffer { crd, .. } => {
            Some(crd)
        }
        Gap::NameRuleNotEnforced | Gap::NotKnown { .. } => None,
    }
}

/// What hears of every comparison of the clocks: a metric each time, an event when the verdict
/// changes.
pub(super) fn watch_clocks(
    metrics: Arc<Metrics>,
    notes: ProcessNotes,
) -> impl Fn(f64, bool) + Send + Sync + 'static {
    let agreed = AtomicBool::new(true);
    move |seconds, ok| {
        metrics.clock_compared(seconds, ok);
        if agreed.swap(ok, Ordering::Relaxed) != ok {
            tracing::warn!(seconds, ok, "the verdict on the clocks changed");
            notes.clocks(seconds, ok);
        }
    }
}
