//! Random histories, one a seed, on every core.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use serde::Serialize;

use super::{
    super::{CliError, DONE, NO, target::Output},
    output,
    progress::Progress,
};
use crate::sim::{
    random::{Report, history},
    world::Coverage,
};

/// Most failed seeds that are told in full.
const MAX_FAILURES: usize = 20;
/// Most sentences for one seed; what comes after the first few is a consequence of them.
const MAX_SENTENCES: usize = 5;
/// Last entries of the story of a failed seed.
const MAX_STORY: usize = 40;

/// Plays a history for each seed.
pub(super) fn run(seeds: Range<u64>, output: Output) -> Result<u8, CliError> {
    let tally = play(&seeds);
    let code = if tally.failures.is_empty() { DONE } else { NO };
    let answer = Answer::of(&seeds, tally);
    output::print(output, &answer, || answer.for_people())?;
    Ok(code)
}

/// What many histories came to. Sums and sorted lists only, so that it does not matter which thread
/// played what.
#[derive(Default)]
struct Tally {
    histories: u64,
    commits: u64,
    terms: u64,
    virtual_seconds: f64,
    coverage: Coverage,
    failures: BTreeMap<u64, Failure>,
    failed: u64,
}

/// A seed that failed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    seed: u64,
    sentences: Vec<String>,
    /// The end of what happened.
    story: Vec<String>,
    reproduce: String,
}

impl Tally {
    fn add(&mut self, report: &Report) {
        self.histories += 1;
        self.commits += report.commits;
        self.terms += report.terms as u64;
        self.virtual_seconds += report.lasted.as_secs_f64();
        self.coverage.merge(&report.coverage);
        if report.is_clean() {
            return;
        }
        self.failed += 1;
        let seed = report.seed;
        let violations = report.violations.iter().map(ToString::to_string);
        let all: Vec<String> = violations.chain(report.defects.iter().cloned()).collect();
        let from = report.story.len().saturating_sub(MAX_STORY);
        self.failures.insert(
            seed,
            Failure {
                seed,
                sentences: all.into_iter().take(MAX_SENTENCES).collect(),
                story: report.story[from..].iter().map(ToString::to_string).collect(),
                reproduce: format!("punctual drill --seeds {seed}..{}", seed + 1),
            },
        );
        if self.failures.len() > MAX_FAILURES {
            self.failures.pop_last();
        }
    }
}

/// Plays all seeds on as many threads as there are cores: one history is on one thread from its
/// beginning to its end.
fn play(seeds: &Range<u64>) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let tally = Mutex::new(Tally::default());
    let progress = Mutex::new(Progress::new(seeds.end - seeds.start));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let report = history(seed);
            // A thread that panicked ends the program: the scope below hands its panic on.
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.add(&report);
            let (done, failed) = (tally.histories, tally.failed);
            drop(tally);
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.reached(done, &format!("histories, {failed} failed"));
        }
    };
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    progress.into_inner().unwrap_or_else(PoisonError::into_inner).done();
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    passed: bool,
    seeds: String,
    histories: u64,
    failed: u64,
    commits: u64,
    terms: u64,
    virtual_hours: f64,
    failures: Vec<Failure>,
    coverage: Covered,
}

/// What all histories went through, by name.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Covered {
    /// Fault, then kind of request.
    faults: BTreeMap<String, BTreeMap<String, u64>>,
    /// `Running -> Succeeded`; a new object comes from `(new)`.
    transitions: BTreeMap<String, u64>,
    /// `Failed/ExitCode`.
    reasons: BTreeMap<String, u64>,
    skipped: BTreeMap<String, u64>,
    events: BTreeMap<String, u64>,
    /// How leadership was gained.
    gained: BTreeMap<String, u64>,
    /// Why processes ended by themselves.
    ended: BTreeMap<String, u64>,
    /// What happened in the cluster around the operator.
    workload: BTreeMap<String, u64>,
}

impl Covered {
    fn of(coverage: Coverage) -> Self {
        let mut faults: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for ((fault, sort), number) in coverage.faults {
            faults.entry(fault).or_default().insert(sort, number);
        }
        let arrow = |((from, to), number): ((String, String), u64)| {
            let from = if from.is_empty() { "(new)".to_owned() } else { from };
            let to = if to.is_empty() { "(no state)".to_owned() } else { to };
            (format!("{from} -> {to}"), number)
        };
        let slash = |((state, reason), number): ((String, String), u64)| {
            (format!("{state}/{reason}"), number)
        };
        Self {
            faults,
            transitions: coverage.transitions.into_iter().map(arrow).collect(),
            reasons: coverage.reasons.into_iter().map(slash).collect(),
            skipped: coverage.skipped,
            events: coverage.events,
            gained: coverage.gained,
            ended: coverage.ended,
            workload: coverage.workload,
        }
    }

    fn for_people(&self) -> String {
        let mut text = "\nFaults, and how often they struck which request:\n\n".to_owned();
        for (fault, sorts) in &self.faults {
            let total: u64 = sorts.values().sum();
            let each: Vec<String> = sorts
                .iter()
                .filter(|(sort, _)| *sort != "-")
                .map(|(sort, number)| format!("{sort} {number}"))
                .collect();
            let colon = if each.is_empty() { "" } else { ": " };
            text.push_str(&line(&format!("{fault} {total}{colon}{}", each.join(", "))));
        }
        for (title, map) in [
            ("States of occurrences", &self.transitions),
            ("States and reasons", &self.reasons),
            ("Instants that were not run", &self.skipped),
            ("Leadership gained", &self.gained),
            ("Processes that ended by themselves", &self.ended),
            ("Events", &self.events),
            ("Around the operator", &self.workload),
        ] {
            let each: Vec<String> =
                map.iter().map(|(name, number)| format!("{name} {number}")).collect();
            let _ = write!(text, "\n{title}:\n\n{}", line(&each.join(", ")));
        }
        text
    }
}

/// One indented line, wrapped.
fn line(text: &str) -> String {
    super::report::paragraph("  ", text)
}

impl Answer {
    fn of(seeds: &Range<u64>, tally: Tally) -> Self {
        Self {
            passed: tally.failures.is_empty(),
            seeds: format!("{}..{}", seeds.start, seeds.end),
            histories: tally.histories,
            failed: tally.failed,
            commits: tally.commits,
            terms: tally.terms,
            virtual_hours: (tally.virtual_seconds / 36.0).round() / 100.0,
            failures: tally.failures.into_values().collect(),
            coverage: Covered::of(tally.coverage),
        }
    }

    fn for_people(&self) -> String {
        let Self { histories, failed, commits, terms, virtual_hours, .. } = self;
        let mut text = format!(
            "{histories} histories, {failed} failed: {terms} terms of leadership, {commits} committed \
             writes, {virtual_hours} hours of virtual time.\n"
        );
        text.push_str(&self.coverage.for_people());
        for failure in &self.failures {
            let _ = writeln!(text, "\nseed {} failed:", failure.seed);
            for sentence in &failure.sentences {
                text.push_str(&super::report::paragraph("  * ", sentence));
            }
            let _ = writeln!(text, "  again: {}", failure.reproduce);
        }
        if let Some(first) = self.failures.first() {
            let _ = writeln!(text, "\nThe end of the story of seed {}:", first.seed);
            for entry in &first.story {
                let _ = writeln!(text, "  {entry}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_histories_are_clean_and_their_order_does_not_matter() {
        let (a, b) = (play(&(0..4)), play(&(0..4)));
        assert_eq!((a.histories, a.failed), (4, 0), "{:?}", a.failures);
        assert!(a.terms >= 4 && a.commits > 0);
        assert_eq!(a.coverage, b.coverage);
        let answer = Answer::of(&(0..4), a);
        assert!(answer.for_people().starts_with("4 histories, 0 failed: "));
    }
}
