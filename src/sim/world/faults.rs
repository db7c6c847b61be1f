//! What can go wrong with a request, and which requests it happens to.

use std::time::Duration;

use super::call::{Action, Call};
use crate::sim::Kind;

/// Most faults that wait for their request at once; far more than a history has.
pub const MAX_WAITING_FAULTS: usize = 1024;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It never arrives. `silent`: nobody answers; else the connection breaks.
    LoseRequest {
        /// Whether the sender learns nothing until its own deadline.
        silent: bool,
    },
    /// It is carried out, and the answer is lost.
    LoseResponse {
        /// Whether the sender learns nothing until its own deadline.
        silent: bool,
    },
    /// It is carried out twice: at once, and once more after this time.
    Duplicate {
        /// Time between the two.
        after: Duration,
    },
    /// It arrives that much later.
    Delay {
        /// How much.
        by: Duration,
    },
    /// It stays on its way until [`super::World::let_through`].
    Hold,
    /// It is answered with this code.
    Refuse {
        /// 409, 429, 500, 503, 504.
        code: u16,
        /// Whether it was carried out all the same.
        committed: bool,
    },
    /// Its sender dies before it arrives, and it never does.
    CrashBefore,
    /// It is carried out, and its sender dies before it sees the answer.
    CrashAfter,
    /// It is carried out, and its sender freezes for this long before it sees the answer.
    Freeze {
        /// How long.
        lasting: Duration,
    },
    /// It is carried out, and its sender is cut off for this long before it sees the answer.
    CutOff {
        /// How long.
        lasting: Duration,
    },
}

impl Effect {
    /// Its name in coverage tables.
    pub fn name(&self) -> String {
        match self {
            Self::LoseRequest { .. } => "request lost".to_owned(),
            Self::LoseResponse { .. } => "response lost".to_owned(),
            Self::Duplicate { .. } => "delivered twice".to_owned(),
            Self::Delay { .. } => "delayed".to_owned(),
            Self::Hold => "held back".to_owned(),
            Self::Refuse { code, committed: false } => format!("{code} before commit"),
            Self::Refuse { code, committed: true } => format!("{code} after commit"),
            Self::CrashBefore => "crash before".to_owned(),
            Self::CrashAfter => "crash after".to_owned(),
            Self::Freeze { .. } => "freeze after".to_owned(),
            Self::CutOff { .. } => "cut off after".to_owned(),
        }
    }
}

/// Which requests a fault is for. Watches are never meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// All.
    #[default]
    Any,
    /// Reads.
    Read,
    /// Writes, those of the Lease included.
    Write,
    /// Writes that are neither of the Lease nor an event.
    Work,
    /// Writes to something that exists, other than the Lease: those that name a version.
    Conditional,
    /// Writes of the Lease.
    Lease,
    /// Requests about the validation rules: dry runs and reads of CRDs.
    Check,
}

/// A fault that waits for its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose requests; `None` means everyone's.
    pub replica: Option<usize>,
    /// Which of them.
    pub class: Class,
    /// About which kind only.
    pub kind: Option<Kind>,
    /// Only those of this sort, as [`Call::sort`] names it.
    pub only: Option<&'static str>,
    /// How many such requests pass before it strikes.
    pub skip: u32,
    /// How many it strikes.
    pub times: u32,
    /// What happens to them.
    pub effect: Effect,
}

impl Fault {
    /// The next write of work, of anyone.
    pub fn next_write(effect: Effect) -> Self {
        Self {
            replica: None,
            class: Class::Work,
            kind: None,
            only: None,
            skip: 0,
            times: 1,
            effect,
        }
    }

    fn is_for(&self, call: &Call) -> bool {
        if call.action == Action::Watch || self.replica.is_some_and(|of| of != call.replica) {
            return false;
        }
        if self.kind.is_some_and(|kind| kind != call.key.kind) {
            return false;
        }
        if self.only.is_some_and(|only| call.sort() != only) {
            return false;
        }
        let lease = call.key.kind == Kind::Lease;
        match self.class {
            Class::Any => true,
            Class::Read => !call.action.is_write(),
            Class::Write => call.is_write(),
            Class::Work => call.is_write() && call.is_work(),
            Class::Conditional => call.is_write() && !lease && call.action != Action::Create,
            Class::Lease => call.is_write() && lease,
            Class::Check => call.dry_run || call.key.kind == Kind::CustomResourceDefinition,
        }
    }
}

/// The faults that wait, in the order they were injected.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<Fault>);

impl Waiting {
    pub(super) fn add(&mut self, fault: Fault) {
        if self.0.len() < MAX_WAITING_FAULTS && fault.times > 0 {
            self.0.push(fault);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What happens to this request: the first fault that is for it and has let enough pass.
    pub(super) fn strike(&mut self, call: &Call) -> Option<Effect> {
        let mut struck = None;
        for fault in self.0.iter_mut().filter(|fault| fault.is_for(call)) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if struck.is_none() {
                fault.times -= 1;
                struck = Some(fault.effect.clone());
            }
        }
        self.0.retain(|fault| fault.times > 0);
        struck
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Key;

    fn call(action: Action, kind: Kind, dry_run: bool) -> Call {
        let key = Key::new(kind, "default", "x");
        Call { replica: 0, action, key, subresource: String::new(), dry_run }
    }

    #[test]
    fn classes_mean_what_they_say() {
        use Action::{Create, Delete, Get, Update, Watch};
        use Class::{Any, Check, Conditional, Lease, Read, Work, Write};
        let occurrence = Kind::MaintenanceOccurrence;
        for (call, expected) in [
            (call(Get, occurrence, false), vec![Any, Read]),
            (call(Create, occurrence, false), vec![Any, Write, Work]),
            (call(Create, occurrence, true), vec![Any, Check]),
            (call(Update, occurrence, false), vec![Any, Write, Work, Conditional]),
            (call(Delete, Kind::Job, false), vec![Any, Write, Work, Conditional]),
            (call(Update, Kind::Lease, false), vec![Any, Write, Lease]),
            (call(Create, Kind::Event, false), vec![Any, Write]),
            (call(Get, Kind::CustomResourceDefinition, false), vec![Any, Read, Check]),
            (call(Watch, occurrence, false), vec![]),
        ] {
            let all = [Any, Read, Write, Work, Conditional, Lease, Check];
            let hit: Vec<Class> = all
                .into_iter()
                .filter(|&class| Fault { class, ..Fault::next_write(Effect::Hold) }.is_for(&call))
                .collect();
            assert_eq!(hit, expected, "{call:?}");
        }
    }

    #[test]
    fn a_fault_lets_pass_strikes_and_is_used_up() {
        let mut waiting = Waiting::default();
        waiting.add(Fault { skip: 1, times: 2, ..Fault::next_write(Effect::CrashAfter) });
        waiting.add(Fault { replica: Some(1), ..Fault::next_write(Effect::Hold) });
        let write = call(Action::Update, Kind::Job, false);
        let struck: Vec<_> = (0..4).map(|_| waiting.strike(&write)).collect();
        let crash = Some(Effect::CrashAfter);
        assert_eq!(struck, [None, crash.clone(), crash, None]);
        assert_eq!(waiting.strike(&Call { replica: 1, ..write.clone() }), Some(Effect::Hold));
        assert!(waiting.0.is_empty());
        waiting.add(Fault { only: Some("delete job"), ..Fault::next_write(Effect::Hold) });
        assert_eq!(waiting.strike(&write), None, "an update");
        let delete = call(Action::Delete, Kind::Job, false);
        assert_eq!(waiting.strike(&delete), Some(Effect::Hold));
    }
}
