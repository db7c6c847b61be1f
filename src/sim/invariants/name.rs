//! The invariants and their names.

use std::fmt;

/// An invariant. Its name is stable: documentation, scenario output and bug reports use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// There is something to judge: a replica wrote.
    HistoryNotEmpty,
    /// Each acquisition of the Lease has the epoch of the version it replaced, higher than all
    /// before, and keeps it.
    EpochsIncrease,
    /// An epoch belongs to one process.
    EpochOfOneProcess,
    /// Only a term that was acquired writes, and only by its own replica.
    TermAcquired,
    /// Once a term sealed an object, no older term's write to it commits.
    OlderTermWritesNothing,
    /// What an occurrence is never changes.
    IdentityFixed,
    /// A terminal outcome, and the end of an attempt, never change.
    OutcomeFixed,
    /// A terminal outcome is recorded only when the run can no longer act, or a person says so.
    OutcomeProven,
    /// Per identity one run at a time, and none after the end.
    OneRun,
    /// Nothing starts without a started claim.
    StartedByClaim,
    /// No attempt of a report starts without an entry in the ledger of its queue.
    StartedByEntry,
    /// No admission commits while the entries fill the slots, and a ledger never vanishes.
    SlotsKept,
    /// An entry is dropped only when its attempt is over.
    EntryKept,
    /// A new leader admits nothing before it has accounted for what it found in the ledger.
    AdmissionsAfterRecovery,
    /// Only the handle that the parent has committed is released.
    ReleasedAsCommitted,
    /// A run whose end nobody knows is not repeated unless a person asks.
    UnresolvedNotRetried,
    /// Except under `Allow` at most one claim is started.
    OneStartedClaim,
    /// A started claim is dropped only when its work is over.
    ClaimKept,
    /// Claims are in the order of their instants, and reports are claimed once.
    ClaimsInOrder,
    /// Records are removed behind a mark that never goes back.
    RecordsBehindMark,
    /// At the end: every instant that became due was run or is accounted for.
    InstantsAccounted,
    /// At the end: the leader has nothing left that it could do now.
    Converged,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::HistoryNotEmpty,
        Self::EpochsIncrease,
        Self::EpochOfOneProcess,
        Self::TermAcquired,
        Self::OlderTermWritesNothing,
        Self::IdentityFixed,
        Self::OutcomeFixed,
        Self::OutcomeProven,
        Self::OneRun,
        Self::StartedByClaim,
        Self::StartedByEntry,
        Self::SlotsKept,
        Self::EntryKept,
        Self::AdmissionsAfterRecovery,
        Self::ReleasedAsCommitted,
        Self::UnresolvedNotRetried,
        Self::OneStartedClaim,
        Self::ClaimKept,
        Self::ClaimsInOrder,
        Self::RecordsBehindMark,
        Self::InstantsAccounted,
        Self::Converged,
    ];

    /// Its name: the heading in `docs/reference/invariants.md`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HistoryNotEmpty => "history-not-empty",
            Self::EpochsIncrease => "epochs-increase",
            Self::EpochOfOneProcess => "epoch-of-one-process",
            Self::TermAcquired => "term-acquired",
            Self::OlderTermWritesNothing => "older-term-writes-nothing",
            Self::IdentityFixed => "identity-fixed",
            Self::OutcomeFixed => "outcome-fixed",
            Self::OutcomeProven => "outcome-proven",
            Self::OneRun => "one-run",
            Self::StartedByClaim => "started-by-claim",
            Self::StartedByEntry => "started-by-entry",
            Self::SlotsKept => "slots-kept",
            Self::EntryKept => "entry-kept",
            Self::AdmissionsAfterRecovery => "admissions-after-recovery",
            Self::ReleasedAsCommitted => "released-as-committed",
            Self::UnresolvedNotRetried => "unresolved-not-retried",
            Self::OneStartedClaim => "one-started-claim",
            Self::ClaimKept => "claim-kept",
            Self::ClaimsInOrder => "claims-in-order",
            Self::RecordsBehindMark => "records-behind-mark",
            Self::InstantsAccounted => "instants-accounted",
            Self::Converged => "converged",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
