//! What keeps an instant from running, or kept it: others of its schedule that are not over.
//!
//! The accounting of a schedule says that something was in the way, not what. So the work that still
//! exists is asked, each piece by its own times; where none tells it any more, the answer says so.

use jiff::Timestamp;
use kube::Resource as _;
use serde_json::Value;

use super::{
    answer::{Answer, many, second, span},
    commands::Target,
    occurrence::{finished, list},
    snapshot::{Snapshot, moment, text},
};
use crate::{
    api::{
        Attempt, AttemptOutcome, Claim, ConcurrencyPolicy, Condition, MAX_CLAIMS,
        MaintenanceSchedule, MaintenanceScheduleStatus,
    },
    cli::target::TargetKind,
    identity::occurrence_name,
    runs::conditions::unresolved_since,
    schedules::Kind,
    time::IntendedTime,
};

/// Most of them that are told one by one; the others are counted.
const MOST_TOLD: usize = 3;

/// A piece of work of the same schedule.
#[derive(Clone, Debug, Default, PartialEq)]
struct Piece {
    name: String,
    uid: String,
    state: String,
    created: Option<Timestamp>,
    over: Option<Timestamp>,
    unresolved: Option<Timestamp>,
    attempts: Vec<Attempt>,
}

/// A part of an object, or nothing if it is not there or not as it should be.
fn part<T: serde::de::DeserializeOwned + Default>(object: &Value, pointer: &str) -> T {
    object.pointer(pointer).and_then(|part| T::deserialize(part).ok()).unwrap_or_default()
}

impl Piece {
    fn of(object: &Value) -> Self {
        let conditions: Vec<Condition> = part(object, "/status/conditions");
        Self {
            name: text(object, "/metadata/name").to_owned(),
            uid: text(object, "/metadata/uid").to_owned(),
            state: text(object, "/status/state").to_owned(),
            created: moment(object, "/metadata/creationTimestamp"),
            over: finished(&conditions),
            unresolved: unresolved_since(&conditions),
            attempts: part(object, "/status/attempts"),
        }
    }

    /// When anything of it was first known to be there: it had been claimed before.
    fn began(&self) -> Option<Timestamp> {
        began(self.attempts.first()?)
    }

    /// Whether it was not over at some moment of a time.
    fn was_open(&self, from: Timestamp, until: Timestamp) -> bool {
        self.began().is_some_and(|began| began <= until) && self.over.is_none_or(|end| end > from)
    }

    /// How it stood then, for a sentence after "it was" or "it is".
    fn standing(&self, then: Timestamp) -> String {
        let at = |time: Option<crate::api::Time>| time.map(|t| t.0).filter(|t| *t <= then);
        let newest = self.attempts.iter().rev();
        let newest = newest.clone().find(|one| began(one).is_some_and(|began| began <= then));
        let Some(attempt) = newest else {
            return "claimed, and waiting for its own turn".to_owned();
        };
        let n = attempt.number;
        if let Some(since) = self.unresolved.filter(|since| *since <= then) {
            return format!(
                "Unresolved {}: how attempt {n} ended is not known",
                for_long(since, then)
            );
        }
        // With its last attempt it is over itself, once that is recorded.
        let was_last = self.over.is_some() && self.attempts.last() == Some(attempt);
        if let (Some(end), Some(outcome)) = (at(attempt.completion_time), attempt.outcome)
            && !was_last
        {
            return format!(
                "between two attempts: attempt {n} ended {outcome:?} at {}",
                second(end)
            );
        }
        if let Some(since) = at(attempt.stop_requested_time) {
            return format!("being stopped {}", for_long(since, then));
        }
        if let Some(since) = at(attempt.start_time) {
            return format!("running {}", for_long(since, then));
        }
        if let Some(since) = at(attempt.released_time) {
            return format!("released, and not seen to start {}", for_long(since, then));
        }
        let since = began(attempt).unwrap_or(then);
        format!("about to start {}", for_long(since, then))
    }

    /// How it stands now.
    fn stands_now(&self) -> String {
        let state = if self.state.is_empty() { "Pending" } else { &self.state };
        match self.over {
            Some(end) => format!("It ended at {}: {state}.", second(end)),
            None => format!("It is {state} now."),
        }
    }

    fn is_unresolved(&self) -> bool {
        let unknown = self.attempts.last().and_then(|attempt| attempt.outcome);
        self.over.is_none()
            && (self.unresolved.is_some() || unknown == Some(AttemptOutcome::Unknown))
    }
}

/// The first that is recorded of an attempt.
fn began(attempt: &Attempt) -> Option<Timestamp> {
    let times = [attempt.prepared_time, attempt.released_time, attempt.start_time];
    times.into_iter().flatten().map(|time| time.0).min()
}

fn for_long(since: Timestamp, then: Timestamp) -> String {
    format!("since {} ({})", second(since), span(then.duration_since(since)))
}

/// The time in which others were in the way of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Within {
    /// From when it could have started.
    pub(super) from: Timestamp,
    /// When it was decided that it does not run.
    pub(super) until: Timestamp,
}

impl Within {
    /// A decision at one moment.
    pub(super) fn moment(at: Timestamp) -> Self {
        Self { from: at, until: at }
    }
}

/// The work of a schedule that may be in the way of one of its instants.
pub(super) struct Others<'a> {
    snapshot: &'a Snapshot,
    /// The kind of what the schedule makes.
    work: TargetKind,
    schedule: &'a str,
    claimed: &'a [Claim],
    pruned: Option<IntendedTime>,
    policy: ConcurrencyPolicy,
}

impl<'a> Others<'a> {
    /// What a schedule made and makes.
    pub(super) fn of<S: Kind>(
        snapshot: &'a Snapshot,
        schedule: &'a S,
        status: &'a MaintenanceScheduleStatus,
    ) -> Self {
        let maintenance = S::kind(&()) == MaintenanceSchedule::kind(&());
        let made = [TargetKind::ReportJob, TargetKind::MaintenanceOccurrence];
        Self {
            snapshot,
            work: made[usize::from(maintenance)],
            schedule: schedule.meta().name.as_deref().unwrap_or_default(),
            claimed: &status.claimed,
            pruned: status.pruned_through,
            policy: schedule.policy(),
        }
    }

    fn target(&self, name: &str) -> Target {
        Target::new(format!("{}/{name}", self.work.short()), &self.snapshot.key.namespace)
    }

    fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.snapshot.others.iter().filter(|o| text(o, "/kind") == self.work.kind()).map(Piece::of)
    }

    /// Claims of other instants, the oldest first, and what they name, if it is still there.
    fn claims(&self, of: IntendedTime) -> Vec<(&Claim, Option<Piece>)> {
        let mut claims: Vec<&Claim> = self.claimed.iter().filter(|c| c.time != of).collect();
        claims.sort_by_key(|claim| claim.time);
        let found = |claim: &Claim| self.pieces().find(|piece| piece.uid == claim.uid);
        claims.into_iter().map(|claim| (claim, found(claim))).collect()
    }

    /// Names what was in the way of an instant that was not run.
    pub(super) fn explain_skip(&self, answer: &mut Answer, instant: IntendedTime, within: Within) {
        let too_many = format!(
            "{MAX_CLAIMS} of the schedule were not over at once: it keeps track of no more."
        );
        match (self.work, self.policy) {
            (TargetKind::ReportJob, _) => answer.because(too_many),
            (_, ConcurrencyPolicy::Allow) => answer.because(format!(
                "concurrencyPolicy is Allow now. Either it was another one then, or {too_many}"
            )),
            _ => {}
        }
        let own = occurrence_name(self.schedule, instant);
        let mut open: Vec<Piece> = self
            .pieces()
            .filter(|piece| piece.name != own && piece.was_open(within.from, within.until))
            .collect();
        open.sort_by_key(|piece| (piece.began(), piece.name.clone()));
        for piece in open.iter().take(MOST_TOLD) {
            let target = self.target(&piece.name);
            let then = piece.over.map_or(within.until, |over| over.min(within.until));
            answer.because(format!(
                "In its way was {}: at {} it was {}. {}",
                target.object,
                second(then),
                piece.standing(then),
                piece.stands_now()
            ));
        }
        let more = open.len().saturating_sub(MOST_TOLD);
        if more > 0 {
            answer.because(format!("So were {}.", many(more, "other")));
        }
        let gone: Vec<String> = self
            .claims(instant)
            .iter()
            .filter(|(claim, piece)| {
                claim.start && claim.time < instant && piece.is_none() && self.snapshot.others_read
            })
            .map(|(claim, _)| self.target(&occurrence_name(self.schedule, claim.time)).object)
            .collect();
        self.explain_gone(answer, &gone);
        match open.first() {
            Some(first) => self.offer(answer, first),
            None if gone.is_empty() => self.nobody_left(answer, within),
            None => {}
        }
    }

    fn explain_gone(&self, answer: &mut Answer, gone: &[String]) {
        if gone.is_empty() {
            return;
        }
        answer.because(format!(
            "Deleted, and still claimed: {}. Deleting what runs is a cancel; the claim stands, and counts as running, until nothing of it runs any more.",
            list(gone)
        ));
        answer.can("To see what the schedule holds on to", self.of_schedule().why());
    }

    fn of_schedule(&self) -> Target {
        let kind = match self.work {
            TargetKind::ReportJob => TargetKind::ReportSchedule,
            _ => TargetKind::MaintenanceSchedule,
        };
        let name = format!("{}/{}", kind.short(), self.schedule);
        Target::new(name, &self.snapshot.key.namespace)
    }

    /// No record tells which one it was.
    fn nobody_left(&self, answer: &mut Answer, within: Within) {
        if !self.snapshot.others_read {
            answer.because("Which one was in its way could not be looked up.");
            return;
        }
        let kind = self.work.kind();
        let pruned = self.pruned.map(|through| {
            format!(
                " Retention may have removed what is older than {through} (status.prunedThrough)."
            )
        });
        answer.because(format!(
            "Which one was in its way is not known any more: no {kind} of this schedule that still exists was open at {}. Its record was deleted by hand or by spec.retention.{}",
            second(within.until),
            pruned.unwrap_or_default()
        ));
    }

    /// What can be done about one that was in the way.
    fn offer(&self, answer: &mut Answer, piece: &Piece) {
        let target = self.target(&piece.name);
        if piece.is_unresolved() {
            answer.can("It is still in the way of what comes next, until its end is known or decided. To see what can be decided", target.why());
        } else if piece.over.is_none() {
            answer.can(
                "It is still in the way of what comes next. To see how it stands",
                target.why(),
            );
            answer.can(
                "If it hangs, or what comes next matters more, stop it (cannot be taken back)",
                target.cancel(),
            );
        } else {
            answer.can("To see why that one took so long", target.why());
        }
    }

    /// Names what an instant waits for that is claimed, or is to be.
    pub(super) fn explain_wait(&self, answer: &mut Answer, instant: IntendedTime) {
        let claims = self.claims(instant);
        let before: Vec<&(&Claim, Option<Piece>)> =
            claims.iter().filter(|(claim, _)| claim.start || claim.time < instant).collect();
        let called =
            |claim: &Claim| self.target(&occurrence_name(self.schedule, claim.time)).object;
        let names: Vec<String> = before.iter().map(|(claim, _)| called(claim)).collect();
        if !names.is_empty() {
            answer.because(format!("Before it: {}.", list(&names)));
        }
        let started = before.iter().filter(|(claim, _)| claim.start);
        for (claim, piece) in started.clone().take(MOST_TOLD) {
            let Some(piece) = piece else { continue };
            answer.because(format!("{} is {}.", called(claim), piece.standing(self.snapshot.now)));
        }
        let looked = self.snapshot.others_read;
        let gone: Vec<String> = started
            .clone()
            .filter(|(_, piece)| looked && piece.is_none())
            .map(|(claim, _)| called(claim))
            .collect();
        self.explain_gone(answer, &gone);
        answer
            .then(None, "It starts when those before it are over, in the order of their instants.");
        match started.clone().find_map(|(_, piece)| piece.as_ref()) {
            Some(piece) => self.offer(answer, piece),
            None if gone.is_empty() => {
                if let Some(first) = names.first() {
                    let first = Target::new(first.clone(), &self.snapshot.key.namespace);
                    answer.can("To see what the first of them waits for", first.why());
                }
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-11-29T02:30:00Z";

    /// One whose only attempt has these times.
    fn piece(attempt: &Value, conditions: &Value) -> Piece {
        let mut one = json!({"number": 1, "runKey": "k-m1", "handle": "h", "epoch": 7});
        for (key, value) in attempt.as_object().unwrap() {
            one[key] = value.clone();
        }
        Piece::of(&json!({
            "kind": "MaintenanceOccurrence",
            "metadata": {"name": "nightly-202611290200", "uid": "u1"},
            "status": {"state": "Running", "attempts": [one], "conditions": conditions},
        }))
    }

    fn condition(r#type: &str, at: &str) -> Value {
        json!({"type": r#type, "status": "True", "reason": "R", "message": "", "lastTransitionTime": at})
    }

    #[test]
    fn how_one_stood_is_told_by_its_own_times() {
        let at = |minute: u32| format!("2026-11-29T02:{minute:02}:00Z");
        let now: Timestamp = NOW.parse().unwrap();
        let prepared = json!({"preparedTime": at(1)});
        let released = json!({"preparedTime": at(1), "releasedTime": at(2)});
        let running = json!({"preparedTime": at(1), "releasedTime": at(2), "startTime": at(3)});
        let stopping = json!({"startTime": at(3), "stopRequestedTime": at(20)});
        let failed = json!({"startTime": at(3), "completionTime": at(20), "outcome": "Failed"});
        let later = json!({"preparedTime": at(31), "startTime": at(31)});
        let lost = json!({"startTime": at(3), "outcome": "Unknown"});
        let unresolved = json!([condition("Unresolved", &at(10))]);
        for (attempt, conditions, said) in [
            (&prepared, &json!([]), "about to start since 2026-11-29T02:01:00Z (29m)"),
            (
                &released,
                &json!([]),
                "released, and not seen to start since 2026-11-29T02:02:00Z (28m)",
            ),
            (&running, &json!([]), "running since 2026-11-29T02:03:00Z (27m)"),
            (&stopping, &json!([]), "being stopped since 2026-11-29T02:20:00Z (10m)"),
            (
                &failed,
                &json!([]),
                "between two attempts: attempt 1 ended Failed at 2026-11-29T02:20:00Z",
            ),
            (&later, &json!([]), "claimed, and waiting for its own turn"),
            (
                &lost,
                &unresolved,
                "Unresolved since 2026-11-29T02:10:00Z (20m): how attempt 1 ended is not known",
            ),
        ] {
            assert_eq!(piece(attempt, conditions).standing(now), said);
        }
    }

    #[test]
    fn only_what_had_begun_and_was_not_over_was_open() {
        let run = json!({"startTime": "2026-11-29T02:03:00Z"});
        let (before, then, after): (Timestamp, Timestamp, Timestamp) = (
            "2026-11-29T02:02:00Z".parse().unwrap(),
            NOW.parse().unwrap(),
            "2026-11-29T02:50:00Z".parse().unwrap(),
        );
        let over = piece(&run, &json!([condition("Finished", "2026-11-29T02:40:00Z")]));
        assert!(over.was_open(then, then) && !over.was_open(before, before));
        assert!(!over.was_open(after, after), "it was over by then");
        assert!(over.was_open(then, after), "for a part of the time");
        assert_eq!(over.stands_now(), "It ended at 2026-11-29T02:40:00Z: Running.");
        let mut ended = run.clone();
        ended["completionTime"] = json!("2026-11-29T02:39:58Z");
        ended["outcome"] = json!("Succeeded");
        let ended = piece(&ended, &json!([condition("Finished", "2026-11-29T02:40:00Z")]));
        let at_its_end = ended.standing("2026-11-29T02:40:00Z".parse().unwrap());
        assert_eq!(at_its_end, "running since 2026-11-29T02:03:00Z (37m)");
        let open = piece(&run, &json!([]));
        assert!(open.was_open(after, after) && open.stands_now() == "It is Running now.");
        let never = Piece::of(&json!({"status": {"state": "Superseded"}}));
        assert!(!never.was_open(then, then), "nothing of it ever ran");
    }

    #[test]
    fn what_is_malformed_is_left_out() {
        let odd = json!({"status": {"attempts": 7, "conditions": [{"type": 1}]}, "metadata": []});
        assert_eq!(Piece::of(&odd), Piece::default());
    }
}
