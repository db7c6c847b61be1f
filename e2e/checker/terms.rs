//! Rules about the Lease: who led, with which epoch.

use std::collections::BTreeMap;

use super::{
    Rule, Term, Violation,
    history::{Actor, Entry, Place, at},
    rules::Scope,
};

const EPOCH: &str = "punctual.dev/epoch";
const NONCE: &str = "punctual.dev/nonce";

/// The acquisitions, and what is wrong with them.
pub(super) fn check(scope: &Scope) -> (Vec<Term>, Vec<Violation>) {
    let mut wrong = Vec::new();
    let mut terms: Vec<Term> = Vec::new();
    // The nonce that each Lease carries.
    let mut lasts: BTreeMap<&str, String> = BTreeMap::new();
    let mut offset = None;
    for entry in scope.history.of("leases").filter(|entry| entry.name == scope.lease) {
        let nonce = entry.annotation(NONCE);
        let last = lasts.entry(&entry.uid).or_default();
        // Edits by people are no acquisitions: whatever they write, it must not lead to a fault.
        let by_operator = matches!(entry.actor, Actor::Operator | Actor::Reading);
        let acquires = by_operator && !nonce.is_empty() && nonce != *last;
        if acquires {
            if let Some(term) = acquisition(scope, entry, &mut offset, &terms, &mut wrong) {
                terms.push(term);
            }
        } else if entry.actor == Actor::Operator {
            wrong.extend(changed_epoch(entry, &terms));
        }
        if !entry.object.is_null() {
            nonce.clone_into(last);
        }
    }
    wrong.extend(nonces(scope, &terms));
    wrong.extend(known(scope, &terms));
    (terms, wrong)
}

fn violation(rule: Rule, what: String) -> Violation {
    Violation { rule, what }
}

/// A renewal with another epoch than its term's.
fn changed_epoch(entry: &Entry, terms: &[Term]) -> Option<Violation> {
    let term = terms.iter().find(|term| term.nonce == entry.annotation(NONCE))?;
    let epoch = entry.annotation(EPOCH);
    (epoch != term.epoch.to_string()).then(|| {
        let what =
            format!("the epoch changes within a term, from {} to {epoch:?}: {entry}", term.epoch);
        violation(Rule::EpochsIncrease, what)
    })
}

/// Judges one acquisition.
fn acquisition(
    scope: &Scope,
    entry: &Entry,
    offset: &mut Option<i64>,
    terms: &[Term],
    wrong: &mut Vec<Violation>,
) -> Option<Term> {
    let mut blame =
        |what: String| wrong.push(violation(Rule::EpochsIncrease, format!("{what}: {entry}")));
    let Ok(epoch) = entry.annotation(EPOCH).parse::<i64>() else {
        blame(format!("an acquisition without an epoch ({:?})", entry.annotation(EPOCH)));
        return None;
    };
    if let Some(before) = terms.iter().map(|term| term.epoch).max()
        && epoch <= before
    {
        blame(format!("epoch {epoch} was acquired after epoch {before}"));
    }
    // A reading stands in for a write that was not recorded: what it replaced is not known.
    if entry.actor == Actor::Operator {
        let replaced = at(&entry.request, "/metadata/resourceVersion").parse::<i64>();
        match (replaced, at(&entry.request, "/metadata/uid")) {
            // A renewal whose acquisition was not recorded: what that one replaced is not known.
            (Ok(replaced), _) if scope.holes_in(entry) && replaced > epoch => {}
            (Ok(replaced), uid) if !uid.is_empty() => {
                let difference = epoch - replaced;
                if difference < 0 || offset.is_some_and(|offset| offset != difference) {
                    blame(format!(
                        "epoch {epoch} is not the version {replaced} that it replaced (offset {offset:?})"
                    ));
                }
                *offset = offset.or(Some(difference));
            }
            _ => blame("an acquisition that is not conditional on a version and a uid".to_owned()),
        }
    }
    Some(Term {
        epoch,
        nonce: entry.annotation(NONCE).to_owned(),
        holder: entry.text("/spec/holderIdentity").to_owned(),
        place: entry.place?,
    })
}

/// An epoch belongs to one nonce, wherever it stands.
fn nonces(scope: &Scope, terms: &[Term]) -> Vec<Violation> {
    let mut owners: BTreeMap<i64, (String, String)> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut claim = |epoch: i64, nonce: &str, whence: String| match owners.get(&epoch) {
        Some((owner, first)) if owner != nonce => wrong.push(violation(
            Rule::OneNonceAnEpoch,
            format!(
                "epoch {epoch} belongs to nonce {owner} ({first}) and to nonce {nonce} ({whence})"
            ),
        )),
        Some(_) => {}
        None => drop(owners.insert(epoch, (nonce.to_owned(), whence))),
    };
    for term in terms {
        claim(term.epoch, &term.nonce, format!("acquired by {}", term.holder));
    }
    for entry in &scope.history.committed {
        if let Some((epoch, nonce)) = entry.fence() {
            claim(epoch, nonce, entry.to_string());
        }
    }
    wrong
}

/// Every fence was acquired before it was used.
fn known(scope: &Scope, terms: &[Term]) -> Vec<Violation> {
    let holes = scope.holes || scope.history.gave_up("leases", scope.lease);
    let acquired = |epoch: i64, nonce: &str, place: Option<Place>| {
        terms.iter().any(|term| {
            let before = holes || Some(term.place) < place;
            term.epoch == epoch && term.nonce == nonce && before
        })
    };
    scope
        .history
        .committed
        .iter()
        // Only the operator's writes put a term into a fence; all others carry along what is there.
        .filter(|entry| entry.actor == Actor::Operator)
        .filter_map(|entry| {
            let (epoch, nonce) = entry.fence()?;
            (!acquired(epoch, nonce, entry.place)).then(|| {
                violation(
                    Rule::KnownTerm,
                    format!("epoch {epoch} of nonce {nonce} was not acquired before: {entry}"),
                )
            })
        })
        .collect()
}
