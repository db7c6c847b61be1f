//! Expectations: what a scenario file says must hold.

use std::fmt;

use serde_json::Value;

use super::{
    object::{ObjectRef, has_runs, read_kind},
    path::FieldPath,
    read::{At, Fields, Read, echo},
};
use crate::{sim::Kind, yaml::Place};

/// Most expectations at one moment: one page of results.
pub(super) const MAX_EXPECTATIONS: usize = 1_000;
/// Largest number that is expected of anything.
const MAX_NUMBER: u64 = 1_000_000;

/// One expectation.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Where it stands in the file.
    pub place: Place,
    /// What it is about.
    pub what: What,
}

/// What an expectation is about.
#[derive(Clone, Debug)]
pub enum What {
    /// An object is there, and stands so.
    Object {
        /// Which.
        object: ObjectRef,
        /// `status.state`.
        state: Option<String>,
        /// `status.reason`.
        reason: Option<String>,
        /// Fields by their path.
        fields: Vec<(FieldPath, Wanted)>,
    },
    /// So many distinct runs of that name were released to the provider.
    Runs {
        /// Of which object.
        object: ObjectRef,
        /// How many.
        bounds: Bounds,
    },
    /// So many objects of a kind are there.
    Count {
        /// Which kind.
        kind: Kind,
        /// Only those with this `status.state`.
        state: Option<String>,
        /// Only those in this namespace; otherwise in all.
        namespace: Option<String>,
        /// Only those with this `spec.tenant`.
        tenant: Option<String>,
        /// How many.
        bounds: Bounds,
    },
    /// An object is not there.
    Absent(ObjectRef),
    /// The Lease was acquired so many times so far.
    Terms(Bounds),
    /// What a recovery trace counts.
    Trace {
        /// Which one.
        which: TraceAt,
        /// Its numbers by their field.
        numbers: Vec<(&'static str, i64)>,
    },
    /// How a queue stands.
    Admissions {
        /// Which queue.
        queue: ObjectRef,
        /// `status.admissions`.
        is: Option<String>,
        /// `status.reason`.
        reason: Option<String>,
    },
    /// An event was published so many times.
    Event {
        /// Its reason.
        reason: String,
        /// Only those about this object.
        object: Option<ObjectRef>,
        /// How many.
        bounds: Bounds,
    },
    /// Objects in the order of their first release.
    Order(Vec<ObjectRef>),
}

/// What a field must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// There, whatever it is.
    Present,
    /// Equal to this; null means that it is not there.
    Equal(Value),
}

/// Which recovery trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceAt {
    /// The newest.
    Last,
    /// The how-manieth, counted from 1.
    Number(usize),
}

/// How many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    least: u64,
    most: Option<u64>,
}

impl Bounds {
    /// Whether a number is within them.
    pub fn hold(self, number: u64) -> bool {
        number >= self.least && self.most.is_none_or(|most| number <= most)
    }

    /// Whether it is exactly one.
    pub(super) fn is_one(self) -> bool {
        self == Self { least: 1, most: Some(1) }
    }

    /// Reads `is`, `atLeast` and `atMost`.
    fn from_fields(fields: &mut Fields<'_>, default: Option<Self>) -> Read<Self> {
        let number = |at: Option<At<'_>>| at.map(|at| at.number(0, MAX_NUMBER)).transpose();
        let is = number(fields.get("is"))?;
        let least = number(fields.get("atLeast"))?;
        let most = number(fields.get("atMost"))?;
        if is.is_some() && (least.is_some() || most.is_some()) {
            return Err(fields.fault("has is together with atLeast or atMost; keep one of them"));
        }
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            return Err(fields.fault(format!("atLeast: {least} is more than atMost: {most}")));
        }
        match (is, least, most) {
            (Some(number), _, _) => Ok(Self { least: number, most: Some(number) }),
            (None, None, None) => default
                .ok_or_else(|| fields.fault("does not say how many; add is, atLeast or atMost")),
            (None, least, most) => Ok(Self { least: least.unwrap_or(0), most }),
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (least, Some(most)) if least == most => write!(f, "{least}"),
            (0, Some(most)) => write!(f, "at most {most}"),
            (least, Some(most)) => write!(f, "{least} to {most}"),
            (least, None) => write!(f, "at least {least}"),
        }
    }
}

/// What an expectation may begin with.
const SUBJECTS: [&str; 8] =
    ["runs", "count", "absent", "terms", "trace", "admissions", "event", "order"];

impl Expectation {
    pub(super) fn read_list(at: &At<'_>) -> Read<Vec<Self>> {
        at.list(MAX_EXPECTATIONS)?.iter().map(Self::read).collect()
    }

    pub(super) fn read(at: &At<'_>) -> Read<Self> {
        let mut fields = at.fields()?;
        let what = if let Some((subject, value)) = fields.which(&SUBJECTS)? {
            read_subject(subject, &value, &mut fields)?
        } else if let Some(object) = fields.get("object") {
            read_object(&object, &mut fields)?
        } else {
            fields.finish("expectation")?;
            let subjects = SUBJECTS.join(", ");
            let problem = format!("expects nothing; begin it with one of object, {subjects}");
            return Err(at.fault(problem));
        };
        fields.finish("part of this expectation")?;
        Ok(Self { place: at.place(), what })
    }
}

fn read_subject(subject: &'static str, at: &At<'_>, fields: &mut Fields<'_>) -> Read<What> {
    match subject {
        "runs" => {
            let object = ObjectRef::read(at)?;
            if !has_runs(object.kind) {
                let short = object.kind.short();
                return Err(at.fault(format!("a {short} has no runs; name a mocc or an rjob")));
            }
            Ok(What::Runs { object, bounds: Bounds::from_fields(fields, None)? })
        }
        "count" => Ok(What::Count {
            kind: read_kind(at)?,
            state: text(fields.get("state"))?,
            namespace: text(fields.get("namespace"))?,
            tenant: text(fields.get("tenant"))?,
            bounds: Bounds::from_fields(fields, None)?,
        }),
        "absent" => Ok(What::Absent(ObjectRef::read(at)?)),
        "terms" => read_terms(at),
        "trace" => read_trace(at, fields),
        "admissions" => read_admissions(at, fields),
        "event" => read_event(at, fields),
        _ => read_order(at),
    }
}

fn text(at: Option<At<'_>>) -> Read<Option<String>> {
    at.map(|at| at.text().map(str::to_owned)).transpose()
}

fn read_object(at: &At<'_>, fields: &mut Fields<'_>) -> Read<What> {
    let object = ObjectRef::read(at)?;
    let state = text(fields.get("state"))?;
    let reason = text(fields.get("reason"))?;
    let mut wanted = Vec::new();
    if let Some(list) = fields.get("fields") {
        for entry in list.entries()? {
            let at = At::new(&entry.value, format!("{}.{:?}", list.field, entry.key));
            let path = FieldPath::parse(&entry.key).map_err(|problem| at.fault(problem))?;
            let value = entry.value.to_value();
            let present = value.as_str() == Some("present");
            wanted.push((path, if present { Wanted::Present } else { Wanted::Equal(value) }));
        }
    }
    Ok(What::Object { object, state, reason, fields: wanted })
}

fn read_terms(at: &At<'_>) -> Read<What> {
    if at.scalar().is_some() {
        let number = at.number(0, MAX_NUMBER)?;
        return Ok(What::Terms(Bounds { least: number, most: Some(number) }));
    }
    let mut fields = at.fields()?;
    let bounds = Bounds::from_fields(&mut fields, None);
    fields.finish("bound of terms")?;
    Ok(What::Terms(bounds?))
}

fn read_trace(at: &At<'_>, fields: &mut Fields<'_>) -> Read<What> {
    let last = at.scalar().and_then(Value::as_str) == Some("last");
    let which = if last {
        TraceAt::Last
    } else {
        let number = at.number(1, MAX_NUMBER).map_err(|_| {
            let value = echo(&at.node.to_value());
            at.fault(format!("must be last, or a position such as 1, not {value}"))
        })?;
        TraceAt::Number(usize::try_from(number).unwrap_or(usize::MAX))
    };
    let mut numbers = Vec::new();
    for name in ["resumed", "reconciled", "preserved", "uncertain"] {
        if let Some(at) = fields.get(name) {
            let number = at.number(0, MAX_NUMBER)?;
            numbers.push((name, i64::try_from(number).unwrap_or(i64::MAX)));
        }
    }
    Ok(What::Trace { which, numbers })
}

fn read_admissions(at: &At<'_>, fields: &mut Fields<'_>) -> Read<What> {
    let queue = ObjectRef::read(at)?;
    if queue.kind != Kind::ReportQueue {
        return Err(at.fault("must name a queue, for example rqueue/reports"));
    }
    let is = fields.get("is");
    let words = ["Open", "Paused", "Held", "Closed"].map(|word| (word, word));
    let is = is.map(|at| at.one_of(&words).map(str::to_owned)).transpose()?;
    let reason = text(fields.get("reason"))?;
    if is.is_none() && reason.is_none() {
        return Err(fields.fault("does not say how the queue stands; add is or reason"));
    }
    Ok(What::Admissions { queue, is, reason })
}

fn read_event(at: &At<'_>, fields: &mut Fields<'_>) -> Read<What> {
    let once = Bounds { least: 1, most: None };
    let object = fields.get("object").map(|at| ObjectRef::read(&at)).transpose()?;
    let bounds = Bounds::from_fields(fields, Some(once))?;
    Ok(What::Event { reason: at.text()?.to_owned(), object, bounds })
}

fn read_order(at: &At<'_>) -> Read<What> {
    let items = at.list(MAX_EXPECTATIONS)?;
    if items.len() < 2 {
        return Err(at.fault("must name two objects at least; one has no order"));
    }
    let mut order = Vec::new();
    for item in &items {
        let object = ObjectRef::read(item)?;
        if !has_runs(object.kind) {
            let short = object.kind.short();
            return Err(item.fault(format!("a {short} has no runs; name a mocc or an rjob")));
        }
        order.push(object);
    }
    Ok(What::Order(order))
}
