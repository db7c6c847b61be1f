//! Scenario files: a rehearsal that anybody can write.
//!
//! A file says what is there, what goes wrong and when, and what must hold. [`parse`] reads it
//! strictly: every mistake is told with its file, line, field and what to write. [`run`] plays it on
//! the simulated world with the production code. `docs/reference/scenarios.md` is the reference.

use std::{collections::BTreeSet, fmt, time::Duration};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::provider::Rule;
use crate::yaml::{Document, Place};

mod check;
#[cfg(test)]
mod check_tests;
mod duration;
mod expect;
mod object;
mod path;
mod read;
mod rule;
mod run;
mod step;
#[cfg(test)]
mod tests;

pub use duration::show as show_time;
pub use expect::{Bounds, Expectation, TraceAt, Wanted, What};
pub use object::{DEFAULT_NAMESPACE, Manifest, ObjectRef};
pub use path::FieldPath;
pub use rule::RunRef;
pub use run::{Failure, Played, play};
pub use step::{ApiFault, ReplicaVerb, Step, Verb, When, Who};

use read::{At, Fault, Fields, Read};

/// Replicas if the file does not say.
const DEFAULT_REPLICAS: usize = 2;
/// Most replicas: more than anybody runs, and each costs as much as the first.
const MAX_REPLICAS: u64 = 9;
/// Most objects, steps and rules of one file: what a person can still read.
const MAX_ITEMS: usize = 2_000;
/// Most problems of a file that are told at once.
const MAX_PROBLEMS: usize = 20;
/// How long a scenario goes on after its last step if the file does not say.
pub const DEFAULT_REST: Duration = Duration::from_secs(300);

/// A scenario as its file tells it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// `metadata.name`.
    pub name: String,
    /// What it is about: the comment at the beginning of its file.
    pub about: String,
    /// Name of the file, for messages.
    pub file: String,
    /// What a true clock shows at the start.
    pub start: Timestamp,
    /// How many replicas there are.
    pub replicas: usize,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// What is there before the replicas start, in file order.
    pub objects: Vec<Manifest>,
    /// How the simulated provider behaves; the first that matches wins.
    pub rules: Vec<Rule>,
    /// What happens.
    pub steps: Vec<Step>,
    /// When it ends; otherwise [`DEFAULT_REST`] after the last step.
    pub end: Option<Duration>,
    /// What must hold at the end.
    pub expect: Vec<Expectation>,
    document: Document,
}

/// A file that cannot be used: every problem that was found, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Name of the file.
    pub file: String,
    /// What is wrong, in the order of the file.
    pub problems: Vec<Problem>,
}

/// One thing wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// Path of the field; empty if the file is no YAML at all.
    pub field: String,
    /// What is wrong and what to write.
    pub sentence: String,
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for ScenarioError {
    /// `file:line: field sentence`, a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { line, field, sentence }) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            let blank = if field.is_empty() { "" } else { ": " };
            write!(f, "{newline}{}:{line}: {field}{blank}{sentence}", self.file)?;
        }
        Ok(())
    }
}

/// Reads a scenario. `file` is what messages call it.
pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
    let refuse = |problems| ScenarioError { file: file.to_owned(), problems };
    let document = Document::parse(text).map_err(|error| {
        let line = error.line().unwrap_or(1);
        let sentence = format!("is no YAML that can be used: {error}");
        refuse(vec![Problem { line, field: String::new(), sentence }])
    })?;
    let mut faults = Faults::default();
    let scenario = read(file, &document, &mut faults);
    match scenario {
        Ok(scenario) if faults.0.is_empty() => Ok(Scenario { about: about(text), ..scenario }),
        Ok(_) => Err(refuse(faults.problems(&document))),
        Err(fault) => {
            faults.0.push(fault);
            Err(refuse(faults.problems(&document)))
        }
    }
}

/// The comment at the beginning of a file, as one paragraph.
fn about(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    lines.map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// What is wrong so far: a list goes on after an item that cannot be read.
#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    /// The items of an optional list that can be read.
    fn each<T>(
        &mut self,
        list: Option<At<'_>>,
        mut read: impl FnMut(&At<'_>) -> Read<T>,
    ) -> Vec<T> {
        let Some(list) = list else { return Vec::new() };
        let items = list.list(MAX_ITEMS).unwrap_or_else(|fault| {
            self.0.push(fault);
            Vec::new()
        });
        items.iter().filter_map(|item| self.take(read(item))).collect()
    }

    /// The value, or nothing and a fault more.
    fn take<T>(&mut self, read: Read<T>) -> Option<T> {
        read.map_err(|fault| self.0.push(fault)).ok()
    }

    fn problems(mut self, document: &Document) -> Vec<Problem> {
        self.0.sort_by_key(|fault| fault.place);
        self.0.truncate(MAX_PROBLEMS);
        let problem = |Fault { place, field, problem }| Problem {
            line: document.line(place),
            field,
            sentence: problem,
        };
        self.0.into_iter().map(problem).collect()
    }
}

fn read(file: &str, document: &Document, faults: &mut Faults) -> Read<Scenario> {
    let root = At::new(&document.root, "");
    let mut fields = root.fields()?;
    let version = fields.need("apiVersion", "write punctual.dev/v1alpha1")?;
    let kind = fields.need("kind", "write Scenario")?;
    let metadata = fields.need("metadata", "it holds the name, as in metadata: {name: x}")?;
    let spec = fields.need("spec", "it holds start, objects, steps and expect")?;
    faults.take(fields.finish("field of a scenario"));
    faults.take(version.one_of(&[("punctual.dev/v1alpha1", ())]));
    faults.take(kind.one_of(&[("Scenario", ())]));
    let name = faults.take(read_name(&metadata)).unwrap_or_default();
    let mut spec = spec.fields()?;
    let start = spec.need("start", "it is what clocks show at the start").and_then(|at| at.time());
    let start = faults.take(start).unwrap_or_default();
    let replicas = spec.get("replicas").map(|at| at.number(1, MAX_REPLICAS));
    let replicas = replicas.and_then(|read| faults.take(read));
    let replicas = replicas.and_then(|n| usize::try_from(n).ok()).unwrap_or(DEFAULT_REPLICAS);
    let seed = spec.get("seed").map(|at| at.number(0, u64::MAX));
    let seed = seed.and_then(|read| faults.take(read)).unwrap_or_else(|| seed_of(&name));
    let objects = faults.each(spec.get("objects"), Manifest::read);
    let rules = faults.each(spec.get("provider"), rule::read_rule);
    let mut order = Order::default();
    let steps = faults.each(spec.get("steps"), |at| order.check(at, Step::read(at, replicas)?));
    let end = faults.take(read_end(&mut spec, order.last)).flatten();
    let expect = faults.each(spec.get("expect"), Expectation::read);
    faults.take(spec.finish("field of spec"));
    let (file, document) = (file.to_owned(), document.clone());
    let scenario = Scenario {
        name,
        about: String::new(),
        file,
        start,
        replicas,
        seed,
        objects,
        rules,
        steps,
        end,
        expect,
        document,
    };
    scenario.check_names(faults);
    Ok(scenario)
}

fn read_name(at: &At<'_>) -> Read<String> {
    let mut fields = at.fields()?;
    let name = fields.need("name", "it names the scenario");
    fields.finish("field of metadata; a scenario is no cluster object")?;
    let name = name?;
    let text = name.text()?;
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if text.len() > 63 || !text.chars().all(fine) {
        return Err(name.fault("must have at most 63 lower-case letters, digits, - and ."));
    }
    Ok(text.to_owned())
}

/// The seed of a scenario that names none: the same on every machine.
fn seed_of(name: &str) -> u64 {
    Sha256::digest(name).iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

fn read_end(spec: &mut Fields<'_>, last: Duration) -> Read<Option<Duration>> {
    let Some(at) = spec.get("end") else { return Ok(None) };
    let end = at.duration()?;
    if end < last {
        let last = show_time(last);
        return Err(at.fault(format!("is before the last step, at {last}; write {last} or later")));
    }
    Ok(Some(end))
}

/// Holds steps to their order.
#[derive(Default)]
struct Order {
    last: Duration,
}

impl Order {
    fn check(&mut self, at: &At<'_>, step: Step) -> Read<Step> {
        let When::At(time) = step.when else { return Ok(step) };
        if time < self.last {
            let (time, last) = (show_time(time), show_time(self.last));
            let place = at.node.get("at").map_or(at.place(), |node| node.place);
            let problem =
                format!("is {time}, before the step above it, at {last}; put steps in order");
            return Err(Fault { place, field: format!("{}.at", at.field), problem });
        }
        self.last = time;
        Ok(step)
    }
}

impl Scenario {
    /// The line of a place of its file.
    pub fn line(&self, place: Place) -> usize {
        self.document.line(place)
    }

    /// One object cannot be created twice.
    fn check_names(&self, faults: &mut Faults) {
        let mut seen = BTreeSet::new();
        for (index, manifest) in self.objects.iter().enumerate() {
            if !seen.insert(&manifest.object) {
                faults.0.push(Fault {
                    place: manifest.place,
                    field: format!("spec.objects[{index}]"),
                    problem: format!("is {} once more; remove one", manifest.object),
                });
            }
        }
    }
}
