//! Random histories, one a seed, on every core.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    ops::Range,
    path::{Path, PathBuf},
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
    write_page,
};
use crate::sim::{
    page::Section,
    random::{Report, history, rows, told},
    world::Coverage,
};

/// So many histories leave no row of the table at zero; else something is not rehearsed any more.
const ENOUGH: u64 = 2000;
/// Most failed seeds that are told in full.
const MAX_FAILURES: usize = 20;
/// Most sentences for one seed; what comes after the first few is a consequence of them.
const MAX_SENTENCES: usize = 5;
/// Last entries of the story of a failed seed.
const MAX_STORY: usize = 40;

/// Plays a history for each seed. The page shows the only one, or those that failed.
pub(super) fn run(seeds: &Range<u64>, html: Option<&Path>, output: Output) -> Result<u8, CliError> {
    let tally = play(seeds);
    let shown = html.map(|_| shown(seeds, &tally)).unwrap_or_default();
    let mut answer = Answer::of(seeds, tally);
    if let Some(path) = html.filter(|_| !shown.is_empty()) {
        write_page(path, &shown.into_iter().map(section).collect::<Vec<Section>>())?;
        answer.page = Some(path.to_owned());
    }
    output::print(output, &answer, || {
        let mut text = answer.for_people();
        match (html, &answer.page) {
            // Writing into a string cannot fail.
            (_, Some(page)) => drop(writeln!(text, "\nThe page: {}", page.display())),
            (Some(_), None) => text.push_str(NO_PAGE),
            (None, None) => {}
        }
        text
    })?;
    Ok(if answer.passed { DONE } else { NO })
}

/// Said when all of many seeds were clean, and a page was asked for.
const NO_PAGE: &str = "\nNo page was written: it shows the seeds that failed, and none did. A range of \
                       one seed is always shown.\n";

/// The seeds that a page shows: the only one, or the first that failed.
fn shown(seeds: &Range<u64>, tally: &Tally) -> Vec<u64> {
    if seeds.end - seeds.start == 1 {
        vec![seeds.start]
    } else {
        tally.failures.keys().copied().collect()
    }
}

/// A history on the page. It is played once more: one seed is one history.
fn section(seed: u64) -> Section {
    let (report, chronicle) = told(seed);
    Section {
        title: format!("random history {seed}"),
        about: ABOUT.to_owned(),
        passed: Some(report.is_clean()),
        wrong: sentences(&report),
        command: again(seed),
        chronicle,
    }
}

/// What the page says about every random history.
const ABOUT: &str = "A seed chose the cluster, what people did, and everything that went wrong. In the \
                     end everything was repaired.";

/// The command that plays a seed again.
fn again(seed: u64) -> String {
    format!("punctual drill --seeds {seed}..{}", seed + 1)
}

/// What did not hold.
fn sentences(report: &Report) -> Vec<String> {
    let violations = report.violations.iter().map(ToString::to_string);
    violations.chain(report.defects.iter().cloned()).take(MAX_SENTENCES).collect()
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
    /// The lowest seed that reached each row.
    first: BTreeMap<String, u64>,
    failures: BTreeMap<u64, Failure>,
    failed: u64,
}

/// A history that failed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    seed: u64,
    sentences: Vec<String>,
    /// The end of what happened.
    story: Vec<String>,
    reproduce: String,
}

impl Failure {
    /// Of a report that is not clean.
    pub(super) fn of(report: &Report, reproduce: String) -> Self {
        let from = report.story.len().saturating_sub(MAX_STORY);
        Self {
            seed: report.seed,
            sentences: sentences(report),
            story: report.story[from..].iter().map(ToString::to_string).collect(),
            reproduce,
        }
    }

    /// What did not hold, and how to see it again.
    pub(super) fn for_people(&self) -> String {
        let mut text = String::new();
        for sentence in &self.sentences {
            text.push_str(&super::report::paragraph("  * ", sentence));
        }
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  again: {}", self.reproduce);
        text
    }
}

impl Tally {
    fn add(&mut self, report: &Report) {
        self.histories += 1;
        self.commits += report.commits;
        self.terms += report.terms as u64;
        self.virtual_seconds += report.lasted.as_secs_f64();
        self.coverage.merge(&report.coverage);
        for (row, _) in rows(&report.coverage).into_iter().filter(|(_, number)| *number > 0) {
            let first = self.first.entry(row).or_insert(report.seed);
            *first = (*first).min(report.seed);
        }
        if report.is_clean() {
            return;
        }
        self.failed += 1;
        self.failures.insert(report.seed, Failure::of(report, again(report.seed)));
        if self.failures.len() > MAX_FAILURES {
            self.failures.pop_last();
        }
    }
}

/// Does something for each number, on as many threads as there are cores.
pub(super) fn each(numbers: Range<u64>, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(numbers.start);
    let one_after_the_other = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return;
            }
            work(number);
        }
    };
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(one_after_the_other);
        }
    });
}

/// Plays all seeds; one history is on one thread from its beginning to its end.
fn play(seeds: &Range<u64>) -> Tally {
    let tally = Mutex::new(Tally::default());
    let progress = Mutex::new(Progress::new(seeds.end - seeds.start));
    each(seeds.clone(), |seed| {
        let report = history(seed);
        // A thread that panicked ends the program: the scope hands its panic on.
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.add(&report);
        let (done, failed) = (tally.histories, tally.failed);
        drop(tally);
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.reached(done, &format!("histories, {failed} failed"));
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
    /// What many histories must have gone through.
    rows: BTreeMap<String, Row>,
    /// Everything that they went through.
    coverage: Covered,
    /// Where the page is, if one was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<PathBuf>,
}

/// A row of the table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// How often.
    number: u64,
    /// The lowest seed of the range that reached it.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
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
    /// The same of reports.
    report_transitions: BTreeMap<String, u64>,
    report_reasons: BTreeMap<String, u64>,
    report_skipped: BTreeMap<String, u64>,
    /// Whether queues admitted: `Open/SlotsLowered`.
    admissions: BTreeMap<String, u64>,
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
            report_transitions: coverage.report_transitions.into_iter().map(arrow).collect(),
            report_reasons: coverage.report_reasons.into_iter().map(slash).collect(),
            report_skipped: coverage.report_skipped,
            admissions: coverage.admissions.into_iter().map(slash).collect(),
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
            ("States of reports", &self.report_transitions),
            ("States and reasons of reports", &self.report_reasons),
            ("Instants of reports that were not run", &self.report_skipped),
            ("Queues", &self.admissions),
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
        let row = |(name, number): (String, u64)| {
            let seed = tally.first.get(&name).copied();
            (name, Row { number, seed })
        };
        let rows: BTreeMap<String, Row> = rows(&tally.coverage).into_iter().map(row).collect();
        let complete = rows.values().all(|row| row.number > 0);
        Self {
            passed: tally.failures.is_empty() && (complete || tally.histories < ENOUGH),
            rows,
            seeds: format!("{}..{}", seeds.start, seeds.end),
            histories: tally.histories,
            failed: tally.failed,
            commits: tally.commits,
            terms: tally.terms,
            virtual_hours: (tally.virtual_seconds / 36.0).round() / 100.0,
            failures: tally.failures.into_values().collect(),
            coverage: Covered::of(tally.coverage),
            page: None,
        }
    }

    /// What must have been reached, with how often and the first seed.
    fn table(&self) -> String {
        let reached = self.rows.values().filter(|row| row.number > 0).count();
        let all = self.rows.len();
        let mut text =
            format!("\nRows that {ENOUGH} histories must reach: {reached} of {all}.\n\n");
        // Few histories are played to look at them, not at the table.
        let whole = self.histories >= ENOUGH;
        for (name, Row { number, seed }) in self.rows.iter().filter(|_| whole) {
            let seed = seed.map_or_else(|| "never".to_owned(), |seed| format!("seed {seed}"));
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{number:>9}  {seed:<11}  {name}");
        }
        text
    }

    fn for_people(&self) -> String {
        let Self { histories, failed, commits, terms, virtual_hours, .. } = self;
        let mut text = format!(
            "{histories} histories, {failed} failed: {terms} terms of leadership, {commits} committed \
             writes, {virtual_hours} hours of virtual time.\n"
        );
        text.push_str(&self.coverage.for_people());
        text.push_str(&self.table());
        for failure in &self.failures {
            let _ = writeln!(text, "\nseed {} failed:", failure.seed);
            text.push_str(&failure.for_people());
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
        let (a, b) = (play(&(0..3)), play(&(0..3)));
        assert_eq!((a.histories, a.failed), (3, 0), "{:?}", a.failures);
        assert!(a.terms >= 3 && a.commits > 0);
        assert_eq!(a.coverage, b.coverage);
        let answer = Answer::of(&(0..3), a);
        assert!(answer.for_people().starts_with("3 histories, 0 failed: "));
    }

    #[test]
    fn a_page_shows_the_only_seed_or_those_that_failed() {
        let failed = |seed| Failure {
            seed,
            sentences: Vec::new(),
            story: Vec::new(),
            reproduce: again(seed),
        };
        let failures = BTreeMap::from([(3, failed(3)), (5, failed(5))]);
        let tally = Tally { failures, ..Tally::default() };
        assert_eq!(shown(&(0..9), &tally), [3, 5]);
        assert_eq!(shown(&(7..8), &Tally::default()), [7]);
        assert_eq!(shown(&(0..9), &Tally::default()), [] as [u64; 0]);
        let section = section(7);
        assert_eq!((section.passed, section.wrong.len()), (Some(true), 0));
        let page = crate::sim::page::page("seed 7", &[section]);
        for part in ["random history 7", "punctual drill --seeds 7..8", "Who led."] {
            assert!(page.contains(part), "{part}");
        }
    }
}
