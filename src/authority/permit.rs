//! The gate between leading and writing: [`Permit`] and [`Sealed`].

use std::{
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    api::{
        Fence, MaintenanceOccurrence, MaintenanceSchedule, RecoveryTrace, ReportJob, ReportQueue,
        ReportSchedule,
    },
    time::{LeaseClock, LeaseInstant},
};

/// One term of leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The fencing token: resourceVersion of the Lease version that the acquisition replaced.
    pub epoch: i64,
    /// Random text of the acquisition.
    pub nonce: String,
}

impl Term {
    /// The fence that objects written in this term carry.
    pub fn fence(&self) -> Fence {
        Fence { epoch: self.epoch, nonce: self.nonce.clone() }
    }
}

/// This process does not lead (any more): nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead")]
pub struct NotLeading;

#[derive(Debug)]
enum State {
    /// Not leading yet.
    Closed,
    /// Leading until the instant, unless a renewal extends it.
    Open { term: Arc<Term>, valid_until: LeaseInstant },
    /// Leadership ended; it never comes back in this process.
    Lost,
}

/// Where the elector publishes leadership and every writer asks for it.
#[derive(Clone, Debug)]
pub struct Gate {
    state: Arc<Mutex<State>>,
    clock: LeaseClock,
}

impl Gate {
    /// A closed gate.
    pub fn new(clock: LeaseClock) -> Self {
        Self { state: Arc::new(Mutex::new(State::Closed)), clock }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock still holds a whole state: every change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The acquisition of `term` is confirmed, or a renewal of it: valid until `valid_until`.
    /// Does nothing after [`Gate::lose`].
    pub fn open(&self, term: &Term, valid_until: LeaseInstant) {
        let mut state = self.lock();
        match &mut *state {
            State::Lost => {}
            State::Open { term: held, valid_until: until } if **held == *term => {
                *until = valid_until.max(*until);
            }
            State::Closed | State::Open { .. } => {
                *state = State::Open { term: Arc::new(term.clone()), valid_until };
            }
        }
    }

    /// Leadership ended, for good.
    pub fn lose(&self) {
        *self.lock() = State::Lost;
    }

    /// Whether leadership ended for good.
    pub fn is_lost(&self) -> bool {
        matches!(*self.lock(), State::Lost)
    }

    /// Until when the present term is valid, if one is open.
    pub fn valid_until(&self) -> Option<LeaseInstant> {
        match &*self.lock() {
            State::Open { valid_until, .. } => Some(*valid_until),
            State::Closed | State::Lost => None,
        }
    }

    /// A permit, if this process leads now.
    pub fn permit(&self) -> Result<Permit, NotLeading> {
        match &*self.lock() {
            State::Open { term, valid_until } if self.clock.now() < *valid_until => {
                Ok(Permit { term: Arc::clone(term), gate: self.clone() })
            }
            State::Open { .. } | State::Closed | State::Lost => Err(NotLeading),
        }
    }
}

/// Proof that this process led when it was asked last; [`Permit::check`] asks again.
///
/// Validity keeps a paused leader from sending much; what makes the rest harmless is the fence.
#[derive(Clone, Debug)]
pub struct Permit {
    term: Arc<Term>,
    gate: Gate,
}

impl Permit {
    /// The term this permit belongs to.
    pub fn term(&self) -> &Term {
        &self.term
    }

    /// Whether the same term still leads now. Called right before every write.
    pub fn check(&self) -> Result<(), NotLeading> {
        let now = self.gate.permit()?;
        if *now.term == *self.term { Ok(()) } else { Err(NotLeading) }
    }

    /// The gate that issued it.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// An object whose status carries a fence.
pub trait Fenced {
    /// The fence, if a term has sealed the object.
    fn fence(&self) -> Option<&Fence>;
    /// Puts the fence into the status, creating an empty status if there is none.
    fn set_fence(&mut self, fence: Fence);
}

macro_rules! fenced {
    ($($kind:ty),+) => { $(
        impl Fenced for $kind {
            fn fence(&self) -> Option<&Fence> {
                self.status.as_ref().and_then(|status| status.fence.as_ref())
            }

            fn set_fence(&mut self, fence: Fence) {
                self.status.get_or_insert_default().fence = Some(fence);
            }
        }
    )+ };
}
fenced!(
    MaintenanceSchedule,
    MaintenanceOccurrence,
    RecoveryTrace,
    ReportQueue,
    ReportJob,
    ReportSchedule
);

/// An object that the present term owns: its stored status carries the term's fence.
///
/// The only key to writes that depend on it (commit, release, claim).
#[derive(Clone, Debug)]
pub struct Sealed<T> {
    object: T,
    permit: Permit,
}

impl<T: Fenced> Sealed<T> {
    /// Takes an object *as the API server answered it*. Gives it back if its fence is not the
    /// permit's: it must be sealed first.
    pub fn of(permit: &Permit, object: T) -> Result<Self, T> {
        let term = permit.term();
        let mine = object
            .fence()
            .is_some_and(|fence| fence.epoch == term.epoch && fence.nonce == term.nonce);
        if mine { Ok(Self { object, permit: permit.clone() }) } else { Err(object) }
    }
}

impl<T> Sealed<T> {
    /// The permit it was sealed under.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// The object itself.
    pub fn into_inner(self) -> T {
        self.object
    }
}

impl<T> Deref for Sealed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::{MaintenanceScheduleSpec, MaintenanceScheduleStatus};

    fn term(epoch: i64) -> Term {
        Term { epoch, nonce: format!("n{epoch}") }
    }

    fn gate() -> (Gate, LeaseClock) {
        let clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
        (Gate::new(clock.clone()), clock)
    }

    fn at(seconds: u64) -> LeaseInstant {
        LeaseInstant::from_nanos(0).after(Duration::from_secs(seconds))
    }

    fn schedule() -> MaintenanceSchedule {
        let spec: MaintenanceScheduleSpec = serde_json::from_value(serde_json::json!({
            "schedule": "0 2 * * *", "run": {"simulated": {}},
        }))
        .unwrap();
        MaintenanceSchedule::new("nightly", spec)
    }

    #[test]
    fn no_permit_before_leading_after_expiry_or_after_loss() {
        let (gate, clock) = gate();
        assert!(gate.permit().is_err());
        gate.open(&term(5), at(6));
        let permit = gate.permit().unwrap();
        clock.set(at(6));
        assert_eq!(permit.check(), Err(NotLeading), "validity ends at the instant, not after it");
        gate.open(&term(5), at(9));
        assert_eq!(permit.check(), Ok(()), "a renewal makes it valid again");
        gate.lose();
        gate.open(&term(6), at(20));
        assert!(permit.check().is_err() && gate.permit().is_err(), "lost is final");
    }

    #[test]
    fn a_permit_of_an_older_term_is_worth_nothing() {
        let (gate, _clock) = gate();
        gate.open(&term(5), at(6));
        let old = gate.permit().unwrap();
        gate.open(&term(6), at(6));
        assert_eq!(old.check(), Err(NotLeading));
    }

    #[test]
    fn only_the_own_fence_seals() {
        let (gate, _clock) = gate();
        gate.open(&term(5), at(6));
        let permit = gate.permit().unwrap();
        let mut object = schedule();
        assert!(Sealed::of(&permit, object.clone()).is_err(), "no fence at all");
        object.set_fence(term(4).fence());
        assert!(Sealed::of(&permit, object.clone()).is_err(), "an older term's fence");
        object.status = Some(MaintenanceScheduleStatus::default());
        object.set_fence(Fence { epoch: 5, nonce: "other".into() });
        assert!(Sealed::of(&permit, object.clone()).is_err(), "same epoch, another nonce");
        object.set_fence(term(5).fence());
        assert!(Sealed::of(&permit, object).is_ok());
    }
}
