//! Steps: what happens in a scenario, one verb each.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use super::{
    expect::Expectation,
    object::{Manifest, ObjectRef, has_runs, merge_patch},
    read::{At, Read, echo},
    rule::{RunRef, read_rule},
};
use crate::{sim::provider::Rule, yaml::Place};

/// Most writes that one fault concerns, and most writes after which a replica crashes.
const MAX_WRITES: u64 = 100_000;
/// Slowest and fastest clock: one that stands still, and one beyond any machine's.
const RATES: std::ops::RangeInclusive<f64> = 0.0..=10.0;

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it stands in the file.
    pub place: Place,
    /// When it happens.
    pub when: When,
    /// What happens.
    pub verb: Verb,
    /// The API server must refuse it with a message that contains this.
    pub refused: Option<String>,
}

/// When a step happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At this time since the start.
    At(Duration),
    /// As soon as something holds, at most this long after the step before.
    Within(Duration),
}

/// Which replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The holder that the Lease names, dead or alive.
    Leader,
    /// The lowest-numbered living replica that is not the leader.
    Standby,
    /// All of them.
    All,
    /// `rN`.
    Replica(usize),
}

/// What happens to replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaVerb {
    /// SIGSTOP.
    Pause,
    /// SIGCONT.
    Resume,
    /// SIGKILL.
    Kill,
    /// SIGKILL, then a new process.
    Restart,
    /// Cut off from the API server, not from the provider.
    Partition,
    /// Reached again.
    Heal,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Something happens to replicas.
    Replica(ReplicaVerb, Who),
    /// A replica dies after its n-th committed write from now on, before it sees the answer.
    Crash {
        /// Which replica.
        who: Who,
        /// How many writes commit.
        after_write: u32,
    },
    /// As `kubectl apply`.
    Apply(Manifest),
    /// A merge patch.
    Patch {
        /// Of which object.
        object: ObjectRef,
        /// The patch.
        merge: Value,
    },
    /// An object is deleted.
    Delete(ObjectRef),
    /// `spec.cancel` is set.
    Cancel(ObjectRef),
    /// The Lease is deleted.
    DeleteLease,
    /// The Lease is edited by a merge patch.
    PatchLease(Value),
    /// The wall clock of replicas jumps.
    ClockJump(Who, SignedDuration),
    /// The lease clock of replicas runs at another rate.
    ClockRate(Who, f64),
    /// The API server misbehaves.
    Api(ApiFault),
    /// A rule of the provider goes in front of the others.
    Provider(Rule),
    /// A run is gone for ever.
    Lose(RunRef),
    /// These hold when the moment has settled.
    Expect(Vec<Expectation>),
    /// Wait until these hold.
    Until(Vec<Expectation>),
}

/// How the API server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFault {
    /// Nothing reaches it for this long.
    Unavailable(Duration),
    /// The next writes commit, and their answers are lost.
    DropResponses(u32),
    /// The next conditional writes, the Lease's left out, are answered 409.
    Conflicts(u32),
    /// Everything takes longer.
    Latency {
        /// By this much.
        delay: Duration,
        /// For this long.
        lasts: Duration,
    },
    /// Lists and watches answer as of now for this long.
    StaleReads(Duration),
    /// Old revisions are forgotten.
    Compact,
}

/// The verbs.
const VERBS: [&str; 16] = [
    "pause",
    "resume",
    "kill",
    "restart",
    "partition",
    "heal",
    "crash",
    "apply",
    "patch",
    "delete",
    "cancel",
    "lease",
    "clock",
    "api",
    "provider",
    "expect",
];

impl Step {
    pub(super) fn read(at: &At<'_>, replicas: usize) -> Read<Self> {
        let mut fields = at.fields()?;
        let when = fields.which(&["at", "within"])?;
        let found = fields.which(&VERBS)?;
        let until = fields.get("until");
        let refused = fields.get("refused");
        fields.finish("verb or field of a step")?;
        let Some((key, when)) = when else {
            return Err(fields.fault("does not say when; add at, for example at: 90s"));
        };
        let waits = key == "within";
        let verb = match (found, until) {
            (Some((verb, _)), Some(_)) => {
                return Err(fields.fault(format!("has both {verb} and until; make two steps")));
            }
            (None, Some(until)) if waits => Verb::Until(Expectation::read_list(&until)?),
            (None, Some(until)) => {
                return Err(until.fault("goes with within; write within in place of at"));
            }
            (Some((verb, _)), None) if waits => {
                return Err(when.fault(format!("goes with until; a {verb} happens at a time")));
            }
            (Some((verb, value)), None) => read_verb(verb, &value, replicas)?,
            (None, None) => {
                let verbs = VERBS.join(", ");
                return Err(fields.fault(format!("does nothing; add one verb of {verbs}")));
            }
        };
        let duration = when.duration()?;
        let when = if waits { When::Within(duration) } else { When::At(duration) };
        let refused = refused.map(|at| read_refused(&at, &verb)).transpose()?;
        Ok(Self { place: at.place(), when, verb, refused })
    }
}

fn read_refused(at: &At<'_>, verb: &Verb) -> Read<String> {
    let written = matches!(
        verb,
        Verb::Apply(_)
            | Verb::Patch { .. }
            | Verb::Delete(_)
            | Verb::Cancel(_)
            | Verb::DeleteLease
            | Verb::PatchLease(_)
    );
    if !written {
        return Err(at.fault("goes with apply, patch, delete, cancel or lease only; remove it"));
    }
    at.text().map(str::to_owned)
}

fn read_verb(verb: &'static str, at: &At<'_>, replicas: usize) -> Read<Verb> {
    let replica = |what| Ok(Verb::Replica(what, Who::read(at, replicas)?));
    match verb {
        "pause" => replica(ReplicaVerb::Pause),
        "resume" => replica(ReplicaVerb::Resume),
        "kill" => replica(ReplicaVerb::Kill),
        "restart" => replica(ReplicaVerb::Restart),
        "partition" => replica(ReplicaVerb::Partition),
        "heal" => replica(ReplicaVerb::Heal),
        "crash" => read_crash(at, replicas),
        "apply" => Ok(Verb::Apply(Manifest::read(at)?)),
        "patch" => read_patch(at),
        "delete" => Ok(Verb::Delete(ObjectRef::read(at)?)),
        "cancel" => read_cancel(at),
        "lease" => read_lease(at),
        "clock" => read_clock(at, replicas),
        "api" => Ok(Verb::Api(read_api(at)?)),
        "provider" => read_provider(at),
        _ => Ok(Verb::Expect(Expectation::read_list(at)?)),
    }
}

impl Who {
    fn read(at: &At<'_>, replicas: usize) -> Read<Self> {
        let wrong = |text: String| {
            let last = replicas.saturating_sub(1);
            let each = if last == 0 { "r0".to_owned() } else { format!("r0 to r{last}") };
            at.fault(format!("must be leader, standby, all or {each}, not {text}"))
        };
        let text = at.scalar().and_then(Value::as_str);
        let text = text.ok_or_else(|| wrong(echo(&at.node.to_value())))?;
        match text {
            "leader" => Ok(Self::Leader),
            "standby" => Ok(Self::Standby),
            "all" => Ok(Self::All),
            _ => {
                let digits = text.strip_prefix('r').filter(|d| *d == "0" || !d.starts_with('0'));
                let index = digits.and_then(|digits| digits.parse::<usize>().ok());
                let index = index.filter(|index| *index < replicas);
                index.map(Self::Replica).ok_or_else(|| wrong(format!("{text:?}")))
            }
        }
    }
}

fn read_crash(at: &At<'_>, replicas: usize) -> Read<Verb> {
    let mut fields = at.fields()?;
    let who = fields.need("replica", "it is leader, standby, all or rN")?;
    let writes = fields.need("afterWrite", "it is the number of writes that still commit");
    fields.finish("field of crash")?;
    let after_write = small(writes?.number(1, MAX_WRITES)?);
    Ok(Verb::Crash { who: Who::read(&who, replicas)?, after_write })
}

/// A number that was bounded when it was read.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn read_patch(at: &At<'_>) -> Read<Verb> {
    let mut fields = at.fields()?;
    let object = fields.need("object", "it names the object, for example msched/nightly")?;
    let merge = fields.need("merge", "it is a merge patch, for example {spec: {suspend: true}}");
    fields.finish("field of patch")?;
    Ok(Verb::Patch { object: ObjectRef::read(&object)?, merge: merge_patch(&merge?)? })
}

fn read_cancel(at: &At<'_>) -> Read<Verb> {
    let object = ObjectRef::read(at)?;
    if !has_runs(object.kind) {
        let short = object.kind.short();
        return Err(at.fault(format!("a {short} cannot be cancelled; name a mocc or an rjob")));
    }
    Ok(Verb::Cancel(object))
}

fn read_lease(at: &At<'_>) -> Read<Verb> {
    if at.scalar().is_some() {
        at.one_of(&[("delete", ())])
            .map_err(|_| at.fault("must be delete, or {patch: {…merge patch…}}"))?;
        return Ok(Verb::DeleteLease);
    }
    let mut fields = at.fields()?;
    let patch = fields.need("patch", "it is a merge patch of the Lease");
    fields.finish("field of lease")?;
    Ok(Verb::PatchLease(merge_patch(&patch?)?))
}

fn read_clock(at: &At<'_>, replicas: usize) -> Read<Verb> {
    let mut fields = at.fields()?;
    let who = fields.need("replica", "it is leader, standby, all or rN")?;
    let change = fields.which(&["jump", "rate"])?;
    fields.finish("field of clock")?;
    let who = Who::read(&who, replicas)?;
    match change {
        Some(("jump", at)) => Ok(Verb::ClockJump(who, at.signed_duration()?)),
        Some((_, at)) => {
            let rate = at.scalar().and_then(Value::as_f64).filter(|rate| RATES.contains(rate));
            let rate = rate.ok_or_else(|| {
                let value = echo(&at.node.to_value());
                at.fault(format!(
                    "must be a number from 0 (stands still) to 10, 1 is right, not {value}"
                ))
            })?;
            Ok(Verb::ClockRate(who, rate))
        }
        None => Err(fields.fault("changes nothing; add jump (wall clock) or rate (lease clock)")),
    }
}

fn read_api(at: &At<'_>) -> Read<ApiFault> {
    let mut fields = at.fields()?;
    let faults = ["unavailable", "dropResponses", "conflicts", "latency", "staleReads", "compact"];
    let found = fields.which(&faults)?;
    let lasts = fields.get("for");
    fields.finish("fault of the API server")?;
    let Some((fault, at)) = found else {
        return Err(fields.fault(format!("does nothing; add one of {}", faults.join(", "))));
    };
    if fault == "latency" {
        let lasts = lasts.ok_or_else(|| fields.fault("does not end; add for, as in for: 30s"))?;
        return Ok(ApiFault::Latency { delay: at.duration()?, lasts: lasts.duration()? });
    }
    if let Some(lasts) = lasts {
        return Err(lasts.fault(format!("goes with latency only; remove it from {fault}")));
    }
    Ok(match fault {
        "unavailable" => ApiFault::Unavailable(at.duration()?),
        "dropResponses" => ApiFault::DropResponses(small(at.number(1, MAX_WRITES)?)),
        "conflicts" => ApiFault::Conflicts(small(at.number(1, MAX_WRITES)?)),
        "staleReads" => ApiFault::StaleReads(at.duration()?),
        _ => {
            at.one_of(&[("now", ())])?;
            ApiFault::Compact
        }
    })
}

fn read_provider(at: &At<'_>) -> Read<Verb> {
    let mut fields = at.fields()?;
    if let Some(run) = fields.get("lose") {
        fields.finish("field of provider next to lose")?;
        return Ok(Verb::Lose(RunRef::read(&run)?));
    }
    Ok(Verb::Provider(read_rule(at)?))
}
