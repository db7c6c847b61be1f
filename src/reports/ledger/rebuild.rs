//! A ledger for a queue that has none: it is new, or was deleted and created again while reports ran.

use super::Books;
use crate::{
    api::{Ledger, LedgerEntry},
    reports::{fairness::units, rules::Rules},
};

/// An attempt that was found prepared or committed and not over, of a job that exists or is gone.
pub type Found = LedgerEntry;

/// The ledger of a queue whose unfinished attempts are these: each holds its slot, whether there are
/// as many slots or not, and nothing more starts until it fits. The virtual time starts at 0, what
/// runs is charged to its tenant, and the retry budget is full.
///
/// Of several entries of one attempt the first counts. The order of `found` decides nothing else.
#[must_use]
pub fn rebuild(rules: &Rules, found: &[Found]) -> Ledger {
    let mut books = Books::open(&Ledger::new());
    for entry in found {
        let Some(entry) = books.enter(entry.clone()) else { continue };
        let charge = units(entry.charge, rules.weight(&entry.tenant));
        let _ = books.accounts.charge(&entry.tenant.as_str().into(), charge);
        books.budget.found(entry.charge);
    }
    books.close()
}
