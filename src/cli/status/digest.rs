//! From what was read to a report: pure.

use jiff::{SignedDuration, Timestamp};
use kube::Resource as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    fences::{self, Key},
    read::Facts,
    report::{
        Bounded, Clocks, Lateness, Leader, Need, NextInstant, QueueRow, Recovery, Report, Schedules,
    },
};
use crate::{
    api::{
        ANNOTATION_EPOCH, Admissions, Condition, ConditionStatus, MaintenanceSchedule,
        MaintenanceScheduleStatus, RecoveryTrace, ReportQueue, ReportSchedule, ScheduleState, Time,
    },
    cli::why::{
        Target, from_now, pod, second,
        snapshot::{moment, text},
        span,
    },
    runs::conditions,
    schedules::Kind,
    time::{IntendedTime, SkipReason},
};

/// Most things that need a person that are listed one by one; all are counted.
const MAX_NEEDS: usize = 30;
/// Most queues that are listed.
const MAX_QUEUES: usize = 50;
/// A recovery that takes longer needs a person: providers are asked for one minute.
const PATIENCE: SignedDuration = SignedDuration::from_secs(120);
/// An instant that was not decided so long after it came is late: a leader decides within milliseconds.
const LATE: SignedDuration = SignedDuration::from_secs(10);
/// An instant whose name was taken is a matter for a person for so long.
const RECENT: SignedDuration = SignedDuration::from_hours(24);

/// What a person has to know.
pub(super) fn digest(facts: &Facts) -> Report {
    let mut digest = Digest { facts, needs: Vec::new(), schedules: Schedules::default() };
    let leader = leader(facts);
    digest.unresolved();
    digest.queues();
    digest.foreign();
    digest.schedules();
    digest.stuck();
    let recovery = digest.recovery();
    Report {
        namespace: facts.namespace.clone(),
        leader,
        clocks: clocks(facts),
        needs: Bounded::of(digest.needs, MAX_NEEDS),
        schedules: digest.schedules,
        queues: Bounded::of(rows(facts), MAX_QUEUES),
        recovery,
        not_read: facts.not_read.clone(),
    }
}

fn leader(facts: &Facts) -> Leader {
    let Some(key) = &facts.lease_key else {
        let message = "not known: no RecoveryTrace names the Lease; say where the operator is with --lease-namespace".to_owned();
        return Leader { message, ..Leader::default() };
    };
    let mut leader = Leader { lease: Some(key.to_string()), ..Leader::default() };
    let Some(lease) = &facts.lease else {
        leader.message = format!(
            "nobody: there is no Lease {key}, or it could not be read; is the operator running there?"
        );
        return leader;
    };
    let holder = text(lease, "/spec/holderIdentity");
    let epoch = lease.pointer("/metadata/annotations").and_then(|all| all.get(ANNOTATION_EPOCH));
    leader.epoch = epoch.and_then(Value::as_str).and_then(|text| text.parse().ok());
    leader.since = moment(lease, "/spec/acquireTime").map(Time::new);
    leader.renews = facts.renewed;
    if holder.is_empty() {
        leader.message = format!(
            "nobody holds the Lease {key}; a standby takes it within seconds, so none seems to run"
        );
        return leader;
    }
    leader.holder = Some(holder.to_owned());
    // The time in the Lease is the leader's clock, and is told, not decided by.
    let clock = facts.server_time.unwrap_or(facts.now);
    let age = moment(lease, "/spec/renewTime").map(|at| clock.duration_since(at));
    leader.renewed_seconds_ago = age.map(|age| age.as_secs());
    let lasts = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(10);
    let fresh = age.is_some_and(|age| age.as_secs() <= lasts);
    leader.leads = facts.renewed || fresh;
    let since = leader.since.map_or_else(String::new, |at| {
        format!(" since {} ({})", second(at.0), span(clock.duration_since(at.0)))
    });
    let epoch = leader.epoch.map_or_else(String::new, |epoch| format!(", epoch {epoch}"));
    let renewal = match (facts.renewed, age) {
        (true, _) => "it renews".to_owned(),
        (false, Some(age)) if fresh => {
            format!("no renewal was seen for 3 s; the last was {} ago", span(age))
        }
        (false, Some(age)) => format!("it has not renewed for {}, and nobody took over", span(age)),
        (false, None) => "it does not say when it renewed".to_owned(),
    };
    leader.message = format!("{}{since}{epoch}; {renewal}", pod(holder));
    leader
}

/// What the leader said last of its clock, and how this machine's stands.
fn clocks(facts: &Facts) -> Clocks {
    /// The API server tells its time in whole seconds, and an answer takes some time.
    const TOLERATED: i64 = 3;
    let own = facts.server_time.map(|server| facts.now.duration_since(server).as_secs());
    let said = facts
        .lease_events
        .iter()
        .filter(|event| matches!(text(event, "/reason"), "ClockSkew" | "ClocksAgree"));
    let when = |event: &&Value| {
        moment(event, "/series/lastObservedTime").or_else(|| moment(event, "/eventTime"))
    };
    let newest = said.max_by_key(when);
    let skewed = newest.is_some_and(|event| text(event, "/reason") == "ClockSkew");
    let mut message = match newest {
        Some(event) if skewed => text(event, "/note").to_owned(),
        _ => "the leader has no complaint".to_owned(),
    };
    if let Some(ahead) = own.filter(|ahead| ahead.abs() > TOLERATED) {
        let text = "; ages here are off, because this machine's clock and the API server's differ: ahead by";
        message = format!("{message}{text} {ahead} s");
    }
    Clocks { skewed, own_ahead_seconds: own, message }
}

struct Digest<'a> {
    facts: &'a Facts,
    needs: Vec<Need>,
    schedules: Schedules,
}

/// What an object is called, with its namespace.
struct Named {
    object: String,
    target: Target,
}

fn named(short: &str, value: &Value) -> Named {
    let (namespace, name) = (text(value, "/metadata/namespace"), text(value, "/metadata/name"));
    let object = format!("{short}/{name}");
    Named {
        target: Target::new(object.clone(), namespace),
        object: format!("{namespace}/{object}"),
    }
}

/// The short name of an occurrence's or a report's kind.
fn short_of_work(value: &Value) -> &'static str {
    if text(value, "/kind") == "ReportJob" { "rjob" } else { "mocc" }
}

/// The conditions of an object of any kind; none if they cannot be read.
fn all_conditions(value: &Value) -> Vec<Condition> {
    let conditions = value.pointer("/status/conditions").cloned().unwrap_or_default();
    serde_json::from_value(conditions).unwrap_or_default()
}

fn known<K: DeserializeOwned>(value: &Value) -> Result<K, String> {
    K::deserialize(value).map_err(|error| error.to_string())
}

impl Digest<'_> {
    fn need(
        &mut self,
        of: &Named,
        reason: &str,
        message: impl Into<String>,
        since: Option<Timestamp>,
    ) {
        self.needs.push(Need {
            object: of.object.clone(),
            reason: reason.to_owned(),
            message: message.into(),
            since: since.map(Time::new),
            command: of.target.why(),
        });
    }

    /// Oldest first: the longest unanswered question is the most urgent.
    fn unresolved(&mut self) {
        let mut found: Vec<(Option<Timestamp>, Named, String)> = Vec::new();
        for value in &self.facts.unresolved {
            let since = conditions::unresolved_since(&all_conditions(value));
            let reason = text(value, "/status/reason");
            let message = format!(
                "nobody knows how its run ended ({reason}): {}",
                text(value, "/status/message")
            );
            found.push((since, named(short_of_work(value), value), message));
        }
        found.sort_by(|a, b| (a.0, &a.1.object).cmp(&(b.0, &b.1.object)));
        for (since, of, message) in found {
            self.need(&of, "Unresolved", message, since);
        }
    }

    fn queues(&mut self) {
        for value in &self.facts.queues {
            let of = named("rqueue", value);
            let queue: ReportQueue = match known(value) {
                Ok(queue) => queue,
                Err(error) => {
                    self.need(
                        &of,
                        "Unreadable",
                        format!("it cannot be read, so nothing of it is decided: {error}"),
                        None,
                    );
                    continue;
                }
            };
            let status = queue.status.unwrap_or_default();
            let ready = find(&status.conditions, conditions::READY);
            let since = ready.map(|condition| condition.last_transition_time.0);
            let lasting = since.is_some_and(|at| self.facts.now.duration_since(at) >= PATIENCE);
            if status.admissions == Some(Admissions::Paused) && lasting {
                self.need(&of, "Paused", "nothing new starts in it: recovery has not accounted for everything that holds its slots", since);
            }
            self.refused(&of, &status.conditions);
        }
    }

    /// A run that its provider refuses.
    fn refused(&mut self, of: &Named, all: &[Condition]) {
        let accepted =
            find(all, conditions::ACCEPTED).filter(|c| c.status == ConditionStatus::False);
        if let Some(accepted) = accepted {
            let since = Some(accepted.last_transition_time.0);
            self.need(
                of,
                &accepted.reason,
                format!("what it runs would be refused: {}", accepted.message),
                since,
            );
        }
    }

    fn foreign(&mut self) {
        for (Key { namespace, short, name }, (since, message)) in fences::left_alone(self.facts) {
            let object = format!("{short}/{name}");
            let target = Target::new(object.clone(), &namespace);
            let of = Named { object: format!("{namespace}/{object}"), target };
            self.need(&of, "ForeignFence", message, since);
        }
    }

    fn schedules(&mut self) {
        for value in &self.facts.schedules {
            self.schedules.total += 1;
            if text(value, "/kind") == "ReportSchedule" {
                self.schedule::<ReportSchedule>("rsched", value);
            } else {
                self.schedule::<MaintenanceSchedule>("msched", value);
            }
        }
    }

    fn schedule<S: Kind + DeserializeOwned>(&mut self, short: &str, value: &Value) {
        let of = named(short, value);
        let schedule: S = match known(value) {
            Ok(schedule) => schedule,
            Err(error) => {
                self.schedules.invalid += 1;
                let message = format!("it cannot be read, so nothing of it is decided: {error}");
                return self.need(&of, "Unreadable", message, None);
            }
        };
        let status = schedule.status().cloned().unwrap_or_default();
        match status.state {
            Some(ScheduleState::Active) => self.schedules.active += 1,
            Some(ScheduleState::Suspended) => self.schedules.suspended += 1,
            Some(ScheduleState::Invalid) => self.schedules.invalid += 1,
            None => self.schedules.new += 1,
        }
        self.schedules.running += usize::try_from(status.active.unwrap_or(0)).unwrap_or(0);
        if S::kind(&()) == MaintenanceSchedule::kind(&()) {
            self.lateness_of(&of, &status);
        }
        self.next_of(&of, &status);
        if let Some(ready) = find(&status.conditions, conditions::READY)
            && ready.status == ConditionStatus::False
        {
            let since = Some(ready.last_transition_time.0);
            self.need(&of, &ready.reason, ready.message.clone(), since);
        }
        self.refused(&of, &status.conditions);
        self.name_conflicts(&of, &status);
    }

    /// A report is not late: it waits in its queue.
    fn lateness_of(&mut self, of: &Named, status: &MaintenanceScheduleStatus) {
        let Some(seconds) = status.lateness_seconds else { return };
        let most = self.schedules.lateness.as_ref().is_none_or(|known| seconds > known.seconds);
        if most {
            self.schedules.lateness = Some(Lateness { seconds, schedule: of.object.clone() });
        }
    }

    fn next_of(&mut self, of: &Named, status: &MaintenanceScheduleStatus) {
        let Some(next) = status.next_schedule_time.map(IntendedTime::timestamp) else { return };
        if self.facts.now.duration_since(next) > LATE {
            self.schedules.late += 1;
            let ready = find(&status.conditions, conditions::READY);
            if ready.is_none_or(|ready| ready.status != ConditionStatus::False) {
                let message = format!(
                    "its instant {} came {} and is not decided",
                    second(next),
                    from_now(next, self.facts.now)
                );
                self.need(of, "Late", message, Some(next));
            }
            return;
        }
        let sooner = self.schedules.next.as_ref().is_none_or(|known| next < known.time.0);
        if sooner {
            self.schedules.next =
                Some(NextInstant { time: Time::new(next), schedule: of.object.clone() });
        }
    }

    fn name_conflicts(&mut self, of: &Named, status: &MaintenanceScheduleStatus) {
        let recent = |at: Timestamp| self.facts.now.duration_since(at) <= RECENT;
        let newest =
            status.skipped.iter().rev().find(|range| {
                range.reason == SkipReason::NameConflict && recent(range.to.timestamp())
            });
        if let Some(range) = newest {
            let at = range.to.timestamp();
            self.need(
                of,
                "NameConflict",
                format!(
                    "the instant {} was not run: an object of somebody else has the name it needs",
                    range.to
                ),
                Some(at),
            );
        }
    }

    /// Occurrences and reports that cannot start.
    fn stuck(&mut self) {
        for value in &self.facts.stuck {
            let since = conditions::refused_since(&all_conditions(value))
                .or_else(|| moment(value, "/metadata/creationTimestamp"));
            let message = format!("it cannot start: {}", text(value, "/status/message"));
            let of = named(short_of_work(value), value);
            self.need(&of, text(value, "/status/reason"), message, since);
        }
    }

    fn recovery(&mut self) -> Option<Recovery> {
        let key = self.facts.lease_key.as_ref()?;
        let epoch = |value: &&Value| value.pointer("/spec/epoch").and_then(Value::as_i64);
        let of_lease = |value: &&Value| {
            text(value, "/metadata/namespace") == key.namespace
                && text(value, "/spec/leaseName") == key.name
        };
        let newest = self.facts.traces.iter().filter(of_lease).max_by_key(epoch)?;
        let trace: RecoveryTrace = known(newest).ok()?;
        let status = trace.status.unwrap_or_default();
        let created = trace.metadata.creation_timestamp.as_ref().map(|at| at.0);
        let start = status.start_time.map(|at| at.0).or(created);
        let open = status.completion_time.is_none();
        if open && start.is_some_and(|at| self.facts.now.duration_since(at) >= PATIENCE) {
            let of = named("rtrace", newest);
            self.need(
                &of,
                "RecoveryIncomplete",
                "the takeover of the newest term is not complete: not every item is accounted for",
                start,
            );
        }
        let count = |n: Option<i32>| n.unwrap_or(0);
        Some(Recovery {
            trace: format!("{}/{}", key.namespace, trace.metadata.name.unwrap_or_default()),
            epoch: trace.spec.epoch,
            gained: format!("{:?}", trace.spec.gained),
            start: start.map(Time::new),
            duration: status.duration.filter(|_| !open),
            resumed: count(status.resumed),
            reconciled: count(status.reconciled),
            preserved: count(status.preserved),
            uncertain: count(status.uncertain),
        })
    }
}

fn find<'a>(all: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    all.iter().find(|condition| condition.r#type == r#type)
}

fn rows(facts: &Facts) -> Vec<QueueRow> {
    let row = |value: &Value| {
        let queue: ReportQueue = known(value).ok()?;
        let status = queue.status.unwrap_or_default();
        let slots = queue.spec.slots;
        Some(QueueRow {
            queue: format!(
                "{}/{}",
                text(value, "/metadata/namespace"),
                text(value, "/metadata/name")
            ),
            slots: status.slots.unwrap_or_else(|| format!("0/{slots}")),
            waiting: status.waiting.unwrap_or(0),
            admissions: status.admissions.map_or_else(|| "New".to_owned(), |a| format!("{a:?}")),
            reason: status.reason.unwrap_or_default(),
            drained: status.drain.and_then(|drain| drain.about_time),
        })
    };
    facts.queues.iter().filter_map(row).collect()
}
