//! The decision of the election: pure. [`decide`] turns what happened into what to do next.
//!
//! ```text
//!             Create, Acquire                   answer, or a read shows our nonce
//!  Follower ────────────────────> Acquiring ────────────────────────────────────> Leading
//!     ^          (unknown: read until decided)  │                                    │
//!     └──────────────── someone else was faster ┘        not mine, steered, too late │
//!                                                                                    v
//!                                                                   Lost (the process ends)
//! ```
//!
//! Time enters as readings of the lease clock that the caller took; remote timestamps never do.

mod foreign;
mod view;

use std::{collections::VecDeque, time::Duration};

pub use foreign::{Verdict, judge};
pub use view::{LeaseView, UnusableLease, holder};
pub(super) use view::{acquired, given_back, renewed, unheld};

use super::{
    config::{LeaseConfig, takeover_after},
    permit::Term,
};
use crate::time::LeaseInstant;

/// Longest time between a follower's reads of the Lease; the watch is only a hint.
pub const OBSERVE_EVERY: Duration = Duration::from_secs(2);
/// Least time between the starts of two attempts of which the first failed at once: three fit into
/// the validity all the same, and a refused connection makes no busy loop.
pub const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Uids of Leases that are remembered with their newest version: one a deletion, and nobody deletes
/// Leases for long.
const MAX_KNOWN_UIDS: usize = 16;

/// How leadership was gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gained {
    /// Nobody had held the Lease.
    First,
    /// The holder gave it back.
    Released,
    /// The holder had not renewed it for long enough.
    Expired,
    /// The Lease had been deleted.
    LeaseDeleted,
}

/// Why this process does not lead any more, and never will again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LostReason {
    /// Another holder, or a Lease without our marks.
    #[error("the Lease is not ours any more, held by {}", .holder.as_deref().unwrap_or("nobody"))]
    Taken {
        /// Who holds it.
        holder: Option<String>,
    },
    /// The Lease is gone or was created anew.
    #[error("the Lease was deleted")]
    LeaseDeleted,
    /// Another party steers the Lease.
    #[error("spec.strategy or spec.preferredHolder of the Lease was set: another holder is wanted")]
    Steered,
    /// The Lease's version is below one already seen: the cluster's past was restored.
    #[error(
        "the Lease's resourceVersion went back below one already seen: after a restore, start with \
         a higher --epoch-offset"
    )]
    VersionWentBack,
    /// No renewal was confirmed in time.
    #[error("no renewal was confirmed before the validity ran out")]
    Expired,
    /// The process was asked to stop.
    #[error("shutting down")]
    Shutdown,
    /// An object carries a fence that only the next term can outrank.
    #[error("an object carries a newer fence, which only a new term can outrank")]
    Outranked,
    /// The API server accepted the fence of an older term.
    #[error("the API server does not enforce the fence")]
    FenceNotEnforced,
}

/// What a read of the Lease gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// There is none.
    Absent,
    /// There is one.
    Lease(LeaseView),
    /// There is one that nothing can be decided from.
    Unusable(UnusableLease),
}

/// What this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It watches.
    Follower,
    /// It sent an acquisition and does not know the outcome.
    Acquiring(Acquisition),
    /// Its acquisition is confirmed.
    Leading(Holding),
    /// It led, or must not lead; final.
    Lost(LostReason),
}

/// An acquisition to send, or sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// The term it would begin.
    pub term: Term,
    /// The holder identity it writes.
    pub holder: String,
    /// Uid of the Lease.
    pub uid: String,
    /// The version it replaces.
    pub base: i64,
    /// How the term would be gained.
    pub gained: Gained,
    /// Who held the Lease before.
    pub former_holder: Option<String>,
}

/// A confirmed acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// What was acquired.
    pub acquisition: Acquisition,
    /// Start of the last confirmed write, from which validity counts. `None` while the acquisition
    /// is only known from a read: a renewal must confirm it first.
    pub confirmed: Option<LeaseInstant>,
    /// Number of the last renewal that was sent.
    pub attempt: u64,
    /// Start of that renewal, if its outcome is not known.
    pub pending: Option<LeaseInstant>,
}

/// Everything the decision remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    role: Role,
    /// Mark of the Lease last read, and when a read first showed it.
    seen: Option<(Mark, LeaseInstant)>,
    /// Newest version read of each uid, oldest uid first.
    newest: VecDeque<(String, i64)>,
}

/// What changes with every acquisition and renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    uid: String,
    epoch: Option<i64>,
    nonce: Option<String>,
    attempt: Option<u64>,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Time has passed.
    Timer,
    /// A read was answered.
    Read(&'a Read),
    /// A read was not answered, or refused.
    Unread,
    /// The write was answered with success; `started` is when it was sent.
    Written {
        /// The answer.
        answer: &'a Read,
        /// When the write was sent.
        started: LeaseInstant,
    },
    /// The write was refused because of another version or uid, or there is no Lease.
    Conflict,
    /// The write was refused for another reason; nothing was written.
    Refused,
    /// Nobody knows whether the write happened.
    Unknown,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wait, then read (as a follower, earlier if the watch hints at something).
    Look {
        /// How long to wait at most.
        after: Duration,
    },
    /// Create an unheld Lease, then read.
    Create,
    /// Acquire the version that was read: make an acquisition of it with [`Own::acquiring`], send it.
    Acquire {
        /// How the term would be gained.
        gained: Gained,
    },
    /// Send the acquisition again: the version it replaces is still there, and nothing else is.
    Resend,
    /// Renew now, with number [`Holding::attempt`] + 1 ([`Own::renewing`]).
    Renew,
    /// Nothing until then.
    Rest {
        /// How long.
        wait: Duration,
    },
    /// Leadership is over, or impossible.
    Lose(LostReason),
}

impl Default for Own {
    fn default() -> Self {
        Self::new()
    }
}

impl Own {
    /// A process that has seen nothing.
    pub fn new() -> Self {
        Self { role: Role::Follower, seen: None, newest: VecDeque::new() }
    }

    /// What this process is.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The acquisition that `Action::Acquire` asked for, of the version in `view`; from now on its
    /// outcome is unknown. `None` if the epoch would not be a positive `i64`.
    pub fn acquiring(
        &mut self,
        view: &LeaseView,
        gained: Gained,
        pod: &str,
        nonce: &str,
        config: &LeaseConfig,
    ) -> Option<Acquisition> {
        let epoch = view.resource_version.checked_add(config.epoch_offset())?;
        let acquisition = Acquisition {
            term: Term { epoch, nonce: nonce.to_owned() },
            holder: holder(pod, nonce),
            uid: view.uid.clone(),
            base: view.resource_version,
            gained,
            former_holder: view.holder.clone(),
        };
        self.role = Role::Acquiring(acquisition.clone());
        Some(acquisition)
    }

    /// The number of the renewal that is sent now; from now on its outcome is unknown.
    pub fn renewing(&mut self, now: LeaseInstant) -> u64 {
        let Role::Leading(holding) = &mut self.role else { return 0 };
        holding.attempt = holding.attempt.saturating_add(1);
        holding.pending = Some(now);
        holding.attempt
    }

    /// Ends the role for a reason from outside, unless it has ended.
    pub fn lose(&mut self, reason: LostReason) -> Action {
        if !matches!(self.role, Role::Lost(_)) {
            self.role = Role::Lost(reason);
        }
        self.lost()
    }

    fn lost(&self) -> Action {
        match &self.role {
            Role::Lost(reason) => Action::Lose(reason.clone()),
            Role::Follower | Role::Acquiring(_) | Role::Leading(_) => {
                unreachable!("only called after the role was set to lost")
            }
        }
    }

    /// Remembers the version; whether one above it was read before.
    fn went_back(&mut self, view: &LeaseView) -> bool {
        let version = view.resource_version;
        match self.newest.iter_mut().find(|(uid, _)| *uid == view.uid) {
            Some((_, newest)) if *newest > version => return true,
            Some((_, newest)) => *newest = version,
            None => {
                self.newest.push_back((view.uid.clone(), version));
                if self.newest.len() > MAX_KNOWN_UIDS {
                    self.newest.pop_front();
                }
            }
        }
        false
    }

    /// How long reads have shown the same mark.
    fn unchanged_for(&mut self, view: &LeaseView, now: LeaseInstant) -> Duration {
        let mark = Mark {
            uid: view.uid.clone(),
            epoch: view.epoch,
            nonce: view.nonce.clone(),
            attempt: view.attempt,
        };
        match &self.seen {
            Some((seen, since)) if *seen == mark => now.since(*since),
            Some(_) | None => {
                self.seen = Some((mark, now));
                Duration::ZERO
            }
        }
    }
}

impl LostReason {
    /// Whether the Lease is given back: if the loss is this process's own will. In all other cases it
    /// is somebody else's already, or nobody knows what else is wrong.
    pub(super) fn gives_back(&self) -> bool {
        match self {
            Self::Shutdown | Self::Outranked | Self::FenceNotEnforced => true,
            Self::Taken { .. }
            | Self::LeaseDeleted
            | Self::Steered
            | Self::VersionWentBack
            | Self::Expired => false,
        }
    }
}

impl Acquisition {
    /// Whether the Lease is the one that this acquisition made.
    pub(super) fn made(&self, view: &LeaseView) -> bool {
        view.uid == self.uid
            && view.epoch == Some(self.term.epoch)
            && view.nonce.as_deref() == Some(&self.term.nonce)
            && view.holder.as_deref() == Some(&self.holder)
    }
}

/// What to do next, after `input` happened and at `now`. What cannot be used leads to waiting, what
/// takes leadership away to [`Action::Lose`].
pub fn decide(own: &mut Own, input: Input<'_>, now: LeaseInstant, config: &LeaseConfig) -> Action {
    let read = match input {
        Input::Read(read) | Input::Written { answer: read, .. } => Some(read),
        Input::Timer | Input::Unread | Input::Conflict | Input::Refused | Input::Unknown => None,
    };
    if let Some(Read::Lease(view)) = read
        && own.went_back(view)
    {
        return own.lose(LostReason::VersionWentBack);
    }
    match own.role.clone() {
        Role::Lost(_) => own.lost(),
        Role::Follower => follow(own, input, now, config),
        Role::Acquiring(acquisition) => acquire(own, acquisition, input, now, config),
        Role::Leading(holding) => lead(own, holding, input, now, config),
    }
}

fn follow(own: &mut Own, input: Input<'_>, now: LeaseInstant, config: &LeaseConfig) -> Action {
    let view = match input {
        Input::Read(Read::Lease(view)) => view,
        Input::Read(Read::Absent) => return Action::Create,
        Input::Read(Read::Unusable(_)) | Input::Refused | Input::Unread | Input::Unknown => {
            return Action::Look { after: OBSERVE_EVERY };
        }
        Input::Timer | Input::Conflict | Input::Written { .. } => {
            return Action::Look { after: Duration::ZERO };
        }
    };
    let unchanged = own.unchanged_for(view, now);
    if view.holder.is_none() {
        let gained = match view.epoch {
            Some(_) => Gained::Released,
            None if own.newest.len() > 1 => Gained::LeaseDeleted,
            None => Gained::First,
        };
        return Action::Acquire { gained };
    }
    let patience = takeover_after(view.duration.unwrap_or(config.duration()));
    match patience.checked_sub(unchanged) {
        Some(rest) if !rest.is_zero() => Action::Look { after: rest.min(OBSERVE_EVERY) },
        Some(_) | None => Action::Acquire { gained: Gained::Expired },
    }
}

fn acquire(
    own: &mut Own,
    acquisition: Acquisition,
    input: Input<'_>,
    now: LeaseInstant,
    config: &LeaseConfig,
) -> Action {
    match input {
        Input::Written { answer: Read::Lease(view), started } if acquisition.made(view) => {
            let confirmed = Some(started);
            own.role = Role::Leading(Holding { acquisition, confirmed, attempt: 0, pending: None });
            decide(own, Input::Timer, now, config)
        }
        // Only known from a read: when it happened is not, so a renewal confirms it first.
        Input::Read(Read::Lease(view)) if acquisition.made(view) => {
            let attempt = view.attempt.unwrap_or(0);
            own.role =
                Role::Leading(Holding { acquisition, confirmed: None, attempt, pending: None });
            Action::Renew
        }
        Input::Read(Read::Lease(view))
            if view.uid == acquisition.uid && view.resource_version == acquisition.base =>
        {
            Action::Resend
        }
        // Someone else was faster, or the Lease was deleted: it can never happen any more.
        Input::Read(Read::Lease(_) | Read::Absent) => {
            own.role = Role::Follower;
            follow(own, input, now, config)
        }
        // A refusal is an answer, though only about the copy that was sent last; another may be
        // under way. So ask what is there.
        Input::Conflict => Action::Look { after: Duration::ZERO },
        Input::Refused => Action::Look { after: OBSERVE_EVERY },
        Input::Unread => Action::Look { after: config.renew_every() },
        Input::Timer | Input::Unknown | Input::Written { .. } | Input::Read(Read::Unusable(_)) => {
            Action::Look { after: RETRY_PAUSE }
        }
    }
}

fn lead(
    own: &mut Own,
    mut holding: Holding,
    input: Input<'_>,
    now: LeaseInstant,
    config: &LeaseConfig,
) -> Action {
    let valid_until = holding.confirmed.map(|start| start.after(config.validity()));
    let mut still_mine = false;
    match input {
        Input::Read(read) | Input::Written { answer: read, .. } => {
            let view = match read {
                Read::Lease(view) if holding.acquisition.made(view) => view,
                Read::Lease(view) if view.uid == holding.acquisition.uid => {
                    return own.lose(LostReason::Taken { holder: view.holder.clone() });
                }
                Read::Lease(_) | Read::Absent => return own.lose(LostReason::LeaseDeleted),
                Read::Unusable(_) => return own.lose(LostReason::Taken { holder: None }),
            };
            if view.steered {
                return own.lose(LostReason::Steered);
            }
            let confirmed = match input {
                Input::Written { started, .. } => Some(started),
                // The renewal whose answer was lost did happen.
                _ => holding.pending.filter(|_| view.attempt == Some(holding.attempt)),
            };
            if let Some(start) = confirmed {
                holding.confirmed = holding.confirmed.max(Some(start));
                holding.pending = None;
                own.role = Role::Leading(holding.clone());
            }
            still_mine = confirmed.is_none();
        }
        Input::Timer | Input::Unread | Input::Conflict | Input::Refused | Input::Unknown => {}
    }
    // From here on by the clock. A validity that ran out is not revived, not even by an answer that
    // came just now: others may have been counting on it.
    if valid_until.is_some_and(|until| now >= until) {
        return own.lose(LostReason::Expired);
    }
    match input {
        Input::Conflict => Action::Look { after: Duration::ZERO },
        Input::Unread | Input::Refused | Input::Unknown => retry(&holding, now),
        Input::Timer | Input::Read(_) | Input::Written { .. } => match holding.confirmed {
            Some(start) if !still_mine => rest_or_renew(start, now, config),
            Some(_) | None => Action::Renew,
        },
    }
}

/// A failed attempt is followed at once, but not faster than [`RETRY_PAUSE`].
fn retry(holding: &Holding, now: LeaseInstant) -> Action {
    let since = holding.pending.map_or(RETRY_PAUSE, |start| now.since(start));
    match RETRY_PAUSE.checked_sub(since) {
        Some(wait) if !wait.is_zero() => Action::Rest { wait },
        Some(_) | None => Action::Renew,
    }
}

fn rest_or_renew(start: LeaseInstant, now: LeaseInstant, config: &LeaseConfig) -> Action {
    match config.renew_every().checked_sub(now.since(start)) {
        Some(wait) if !wait.is_zero() => Action::Rest { wait },
        Some(_) | None => Action::Renew,
    }
}

#[cfg(test)]
mod tests;
