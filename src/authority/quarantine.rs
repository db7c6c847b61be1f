//! Objects that carry a fence no present term can outrank: they are left alone.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    ElectorHandle, LostReason, Permit,
    lease::{LeaseView, Read, Verdict, judge},
};
use crate::{
    api::Fence,
    cluster::{ApiError, LeaseApi, ObjectKey},
};

/// Objects that are remembered. Each is an accident or a restore; beyond that the Lease is read
/// again whenever one is met, and the writer refuses them all the same.
pub const MAX_QUARANTINED: usize = 1024;

/// An object that is not written in this term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub key: ObjectKey,
    /// The fence it carries.
    pub fence: Fence,
}

/// What came of meeting a foreign fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Leadership was given up.
    Lost(LostReason),
    /// The object is left alone; `first` if it was not before, which is worth an event.
    Quarantined {
        /// Whether this is news.
        first: bool,
    },
}

/// Judges foreign fences and remembers the objects that carry them.
pub struct Quarantine {
    lease: LeaseApi,
    elector: ElectorHandle,
    epoch_offset: i64,
    /// By uid.
    objects: Mutex<BTreeMap<String, Quarantined>>,
}

impl Quarantine {
    /// An empty one. `epoch_offset` is that of the election.
    pub fn new(lease: LeaseApi, elector: ElectorHandle, epoch_offset: i64) -> Self {
        Self { lease, elector, epoch_offset, objects: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Quarantined>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object of `kind` carries `fence`, which is not this term's and not an older one's (see
    /// [`crate::cluster::WriteError::ForeignFence`]). Reads the Lease, unless the same fence was
    /// judged before; ends leadership or remembers the object.
    ///
    /// # Errors
    /// If the Lease cannot be read: nothing is decided, the object is not to be written meanwhile.
    pub async fn met(
        &self,
        permit: &Permit,
        kind: &'static str,
        object: &ObjectMeta,
        fence: &Fence,
    ) -> Result<Foreign, ApiError> {
        let uid = object.uid.clone().unwrap_or_default();
        if self.lock().get(&uid).is_some_and(|known| known.fence == *fence) {
            return Ok(Foreign::Quarantined { first: false });
        }
        let read = match self.lease.get().await? {
            None => Read::Absent,
            Some(answered) => {
                LeaseView::of(&answered.lease).map_or_else(Read::Unusable, Read::Lease)
            }
        };
        match judge(fence, &read, permit.term(), self.epoch_offset) {
            Verdict::Lose(reason) => {
                self.elector.lose(reason.clone());
                Ok(Foreign::Lost(reason))
            }
            Verdict::Quarantine => {
                let mut objects = self.lock();
                if objects.len() < MAX_QUARANTINED || objects.contains_key(&uid) {
                    let key = ObjectKey::of(object);
                    objects.insert(uid, Quarantined { kind, key, fence: fence.clone() });
                }
                Ok(Foreign::Quarantined { first: true })
            }
        }
    }

    /// Whether the object with this uid is left alone.
    pub fn contains(&self, uid: &str) -> bool {
        self.lock().contains_key(uid)
    }

    /// The object is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// All that are left alone, by uid.
    pub fn list(&self) -> Vec<Quarantined> {
        self.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::{
        authority::{
            ClockGuard, Elector, Entropy, Gate, LeaseConfig, Setup, Term, config::DEFAULT_DURATION,
        },
        cluster::{Clients, fake::FakeApi},
        time::{LeaseClock, LeaseInstant, WallClock},
    };

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/ops/leases";

    /// A leader in term 50 whose Lease is at version 101.
    fn scene() -> (FakeApi, Quarantine, Gate) {
        let fake = FakeApi::new();
        fake.put(
            LEASES,
            json!({
                "metadata": {"name": "punctual", "annotations": {"punctual.dev/nonce": "mine"}},
                "spec": {"holderIdentity": "pod/mine"},
            }),
        );
        let lease_clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
        let wall_clock = WallClock::driven(jiff::Timestamp::UNIX_EPOCH);
        let gate = Gate::new(lease_clock.clone());
        gate.open(&Term { epoch: 50, nonce: "mine".into() }, LeaseInstant::from_nanos(1));
        let key = ObjectKey::new("ops", "punctual");
        let lease = Clients::single(fake.client()).lease(key, Duration::from_secs(1));
        let (_, handle) = Elector::new(Setup {
            lease: lease.clone(),
            config: LeaseConfig::new(DEFAULT_DURATION, 0).unwrap(),
            pod: "pod".into(),
            gate: gate.clone(),
            lease_clock: lease_clock.clone(),
            wall_clock: wall_clock.clone(),
            clocks: ClockGuard::new(lease_clock, wall_clock, Duration::from_secs(5), |_, _| {}),
            entropy: Entropy::seeded(1),
        });
        (fake, Quarantine::new(lease, handle, 0), gate)
    }

    fn object(uid: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some("shop".into()),
            name: Some("nightly".into()),
            uid: Some(uid.into()),
            ..ObjectMeta::default()
        }
    }

    fn fence(epoch: i64) -> Fence {
        Fence { epoch, nonce: "foreign".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_fence_costs_one_object() {
        let (fake, quarantine, gate) = scene();
        let permit = gate.permit().unwrap();
        for first in [true, false] {
            let met = quarantine.met(&permit, "Schedule", &object("a"), &fence(900)).await.unwrap();
            assert_eq!(met, Foreign::Quarantined { first });
        }
        assert_eq!(fake.log().len(), 1, "judged once");
        assert!(quarantine.contains("a") && !quarantine.contains("b"));
        assert_eq!(quarantine.list()[0].key, ObjectKey::new("shop", "nightly"));
        assert!(!gate.is_lost(), "all others go on");
        quarantine.forget("a");
        assert!(quarantine.list().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_that_the_next_term_outranks_ends_this_one() {
        let (_, quarantine, gate) = scene();
        let permit = gate.permit().unwrap();
        let met = quarantine.met(&permit, "Schedule", &object("a"), &fence(60)).await.unwrap();
        assert_eq!(met, Foreign::Lost(LostReason::Outranked));
        assert!(gate.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn a_successors_fence_ends_this_term() {
        let (fake, quarantine, gate) = scene();
        fake.edit(&format!("{LEASES}/punctual"), |lease| {
            lease["metadata"]["annotations"]["punctual.dev/nonce"] = json!("next");
        });
        let permit = gate.permit().unwrap();
        let met = quarantine.met(&permit, "Schedule", &object("a"), &fence(900)).await.unwrap();
        assert_eq!(met, Foreign::Lost(LostReason::Taken { holder: Some("pod/mine".into()) }));
        assert!(gate.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let (_, quarantine, gate) = scene();
        let permit = gate.permit().unwrap();
        for number in 0..MAX_QUARANTINED + 3 {
            let object = object(&number.to_string());
            quarantine.met(&permit, "Schedule", &object, &fence(9000)).await.unwrap();
        }
        assert_eq!(quarantine.list().len(), MAX_QUARANTINED);
    }
}
