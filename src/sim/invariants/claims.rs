//! Who may start: started claims of a sealed schedule, or the own seal where there is no schedule.
//! Claims of both kinds of schedules are judged alike; those of reports are all started at once.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Blame, Case, Invariant, facts, runs::Runs};
use crate::sim::{Key, Kind};

/// The start decisions so far.
#[derive(Default)]
pub(super) struct Claims {
    /// Uids that ever had a started claim in a schedule a term had sealed.
    started: BTreeSet<String>,
    /// Uids of occurrences without a schedule that bring their run and were sealed.
    by_own_seal: BTreeSet<String>,
}

impl Claims {
    pub(super) fn judge(&mut self, case: &Case, runs: &Runs, blame: &mut Blame) {
        if !case.is_status_of_replica() {
            return;
        }
        let Some(new) = case.after() else { return };
        match case.commit.key.kind {
            kind if facts::is_schedule(kind) => {
                in_order(&case.commit.key, new, blame);
                if let Some(old) = case.before() {
                    if kind == Kind::ReportSchedule {
                        claimed_once(&case.commit.key, old, new, blame);
                    } else {
                        one_started(&case.commit.key, old, new, blame);
                    }
                    kept(case, old, new, runs, blame);
                }
                let started = facts::claims(new).iter().filter(|claim| facts::is_started(claim));
                self.started.extend(started.map(|claim| facts::text(claim, "/uid").to_owned()));
            }
            Kind::MaintenanceOccurrence => {
                // A schedule that no term has sealed decides nothing yet.
                let schedule = case.store.schedule_of(new);
                let decides = schedule.is_none_or(|schedule| facts::fence(schedule).is_none());
                let by_hand = facts::text(new, "/spec/scheduleUID").is_empty();
                if decides && by_hand && new.pointer("/spec/run").is_some() {
                    self.by_own_seal.insert(facts::uid(new).to_owned());
                }
            }
            _ => {}
        }
    }

    /// Whether the work of this uid may start.
    pub(super) fn may_start(&self, uid: &str) -> bool {
        self.started.contains(uid) || self.by_own_seal.contains(uid)
    }
}

/// Whether the write takes over a schedule that is new, re-created or restored: claims that stood
/// there were another's.
fn takes_over(old: &Value) -> bool {
    let Some(observed) = old.pointer("/status/observed") else { return true };
    let of = facts::text(observed, "/uid");
    !of.is_empty() && of != facts::uid(old)
}

fn started(schedule: &Value) -> impl Iterator<Item = &Value> {
    facts::claims(schedule).iter().filter(|claim| facts::is_started(claim))
}

/// Claims stand in the order of their instants, and no instant has two.
fn in_order(key: &Key, schedule: &Value, blame: &mut Blame) {
    for pair in facts::claims(schedule).windows(2) {
        // Instants have one spelling, which sorts by time.
        let (first, next) = (facts::text(&pair[0], "/time"), facts::text(&pair[1], "/time"));
        if first >= next {
            let sentence = format!("the claim of {next} stands behind that of {first}");
            blame.on(Invariant::ClaimsInOrder, key, sentence);
        }
    }
}

/// A schedule of reports, whose instants nobody asks for by hand, claims nothing that it has decided.
fn claimed_once(key: &Key, old: &Value, new: &Value, blame: &mut Blame) {
    if takes_over(old) {
        return;
    }
    let decided = facts::text(old, "/status/lastScheduleTime");
    let before: BTreeSet<&str> =
        facts::claims(old).iter().map(|claim| facts::text(claim, "/uid")).collect();
    for claim in facts::claims(new) {
        let time = facts::text(claim, "/time");
        if !before.contains(facts::text(claim, "/uid")) && time <= decided {
            let sentence = format!("{time} is claimed, and everything until {decided} was decided");
            blame.on(Invariant::ClaimsInOrder, key, sentence);
        }
    }
}

/// Except under `Allow` no claim is started while another is. A schedule that is taken over carries
/// on with what had begun.
fn one_started(key: &Key, old: &Value, new: &Value, blame: &mut Blame) {
    if facts::text(new, "/spec/concurrencyPolicy") == "Allow" || takes_over(old) {
        return;
    }
    let all: Vec<&str> = started(new).map(|claim| facts::text(claim, "/uid")).collect();
    let before: BTreeSet<&str> = started(old).map(|claim| facts::text(claim, "/uid")).collect();
    if all.len() > 1 && all.iter().any(|uid| !before.contains(uid)) {
        let times: Vec<&str> = started(new).map(|claim| facts::text(claim, "/time")).collect();
        let sentence = format!("claims of {} are started together", times.join(", "));
        blame.on(Invariant::OneStartedClaim, key, sentence);
    }
}

/// A started claim goes only when its occurrence is terminal, or gone with its runs over, or when a
/// person has written it off.
fn kept(case: &Case, old: &Value, new: &Value, runs: &Runs, blame: &mut Blame) {
    if takes_over(old) {
        return;
    }
    for claim in started(old) {
        let uid = facts::text(claim, "/uid");
        let stays = started(new).any(|other| facts::text(other, "/uid") == uid);
        let written_off =
            facts::list(new, "/spec/abandon").iter().any(|a| facts::text(a, "/uid") == uid);
        if stays || written_off {
            continue;
        }
        let key = &case.commit.key;
        let time = facts::text(claim, "/time");
        let occurrence = case.store.occurrence(uid);
        let digits: String = time.chars().filter(char::is_ascii_digit).take(12).collect();
        let occurrence_key = facts::work_key(key, &digits);
        if case.store.stands(&occurrence_key, uid) {
            if !occurrence.is_some_and(facts::is_terminal) {
                let sentence = format!("the started claim of {time} was dropped before its end");
                blame.on(Invariant::ClaimKept, key, sentence);
            }
            continue;
        }
        // For the other classes absence after a requested stop suffices, whatever still acts.
        let fenced = facts::text(claim, "/actionClass") == "Fenced";
        if let Some(run) = runs.acting_for(uid).next().filter(|_| fenced) {
            let sentence = format!(
                "the started claim of {time}, whose occurrence is gone, was dropped while run {run} \
                 can act"
            );
            blame.on(Invariant::ClaimKept, key, sentence);
        }
    }
}
