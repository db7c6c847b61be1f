//! `punctual drill`: rehearses scenario files, the built-in restart, or random histories, on the model
//! of the API server. No cluster is touched.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    BAD_USAGE, CliError, DONE, NO, input,
    output::{self},
    progress::Progress,
    target::Output,
};
use crate::sim::{
    page::{self, Section},
    scenario::{Played, Scenario, ScenarioError, parse, play},
};

mod points;
mod random;
mod report;
#[cfg(test)]
mod tests;

use report::Verdict;

/// The restart rehearsal that is played without files.
const RESTART: &str = include_str!("restart.yaml");
/// What messages call it.
const RESTART_NAME: &str = "the built-in restart rehearsal";
/// Most seeds of one call: some hours of work.
const MAX_SEEDS: u64 = 1_000_000;

/// Arguments of `punctual drill`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The built-in restart rehearsal.
  kubectl punctual drill
  # A scenario of one's own, with a page that shows what happened.
  kubectl punctual drill scenario.yaml --html drill.html
  # Random histories.
  kubectl punctual drill --seeds 0..2000

Exit codes: 0 everything was as expected; 1 an expectation or an invariant failed; 2 a file cannot be \
used. What a scenario file may say: docs/reference/scenarios.md.")]
pub struct Args {
    /// Scenario files; `-` is standard input. Without any, the built-in restart rehearsal is played.
    files: Vec<PathBuf>,
    /// Play the files with each of these seeds, B not included; without files, play one random history
    /// for each.
    #[arg(long, value_name = "A..B", value_parser = parse_seeds)]
    seeds: Option<Range<u64>>,
    /// Write a page that shows what happened; of many seeds only those that failed.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Play the points of the built-in stories: the leader dies after each of its writes, and each of
    /// its writes lands only after its successor works.
    #[arg(long, conflicts_with_all = ["files", "seeds", "html"])]
    points: bool,
    /// Print the built-in restart rehearsal as a scenario file, to start one's own from.
    #[arg(long, conflicts_with_all = ["files", "seeds", "html", "points"])]
    print: bool,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || "must be two numbers like 0..2000, the second not included".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let seeds: Range<u64> = from.parse().map_err(|_| wrong())?..to.parse().map_err(|_| wrong())?;
    if seeds.is_empty() {
        return Err(format!("{text} holds no seed; write {from}.. and a larger number"));
    }
    if seeds.end - seeds.start > MAX_SEEDS {
        return Err(format!("holds more than {MAX_SEEDS} seeds"));
    }
    Ok(seeds)
}

/// Everything that was played.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// Whether everything was as expected.
    passed: bool,
    scenarios: Vec<Verdict>,
}

/// Rehearses.
pub fn run(args: &Args) -> Result<u8, CliError> {
    if args.print {
        return write_out(RESTART).map(|()| DONE);
    }
    if args.points {
        return points::run(args.output);
    }
    if let (true, Some(seeds)) = (args.files.is_empty(), &args.seeds) {
        return random::run(seeds, args.html.as_deref(), args.output);
    }
    let scenarios = match read(&args.files) {
        Ok(scenarios) => scenarios,
        Err(problems) => {
            eprintln!("{problems}");
            return Ok(BAD_USAGE);
        }
    };
    let mut verdicts = Vec::new();
    let mut sections = Vec::new();
    let seeds = args.seeds.clone();
    let total = scenarios.len() as u64 * seeds.as_ref().map_or(1, |seeds| seeds.end - seeds.start);
    let mut progress = Progress::new(total);
    for (scenario, source) in &scenarios {
        for seed in each(seeds.as_ref()) {
            progress.at(&scenario.name);
            let played = play(scenario, seed).map_err(|error| bad(&error))?;
            let verdict = Verdict::of(scenario, source, seed, &played);
            if args.html.is_some() && keeps(seeds.as_ref(), &verdict) {
                sections.push(section(scenario, &verdict, played));
            }
            verdicts.push(verdict);
        }
    }
    progress.done();
    if let Some(path) = &args.html {
        write_page(path, &sections)?;
    }
    finish(args, verdicts)
}

/// The seeds to play with; one of the scenario's own if none was asked for.
fn each(seeds: Option<&Range<u64>>) -> Vec<Option<u64>> {
    seeds.map_or_else(|| vec![None], |seeds| seeds.clone().map(Some).collect())
}

/// Whether a page shows it: of many seeds only those that failed.
fn keeps(seeds: Option<&Range<u64>>, verdict: &Verdict) -> bool {
    seeds.is_none_or(|seeds| seeds.end - seeds.start == 1) || !verdict.passed()
}

fn bad(error: &ScenarioError) -> CliError {
    CliError::BadUsage(error.to_string())
}

/// Reads all files, and says everything that is wrong with any of them.
fn read(files: &[PathBuf]) -> Result<Vec<(Scenario, String)>, String> {
    if files.is_empty() {
        let scenario = parse(RESTART_NAME, RESTART).map_err(|error| error.to_string())?;
        return Ok(vec![(scenario, String::new())]);
    }
    let mut scenarios = Vec::new();
    let mut problems = Vec::new();
    for path in files {
        let name = path.display().to_string();
        let read = input::read_text(path)
            .map_err(|error| format!("cannot read {name}: {error}"))
            .and_then(|text| parse(&name, &text).map_err(|error| error.to_string()));
        match read {
            Ok(scenario) => scenarios.push((scenario, name)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(scenarios) } else { Err(problems.join("\n")) }
}

fn section(scenario: &Scenario, verdict: &Verdict, played: Played) -> Section {
    Section {
        title: scenario.name.clone(),
        about: scenario.about.clone(),
        passed: Some(verdict.passed()),
        wrong: verdict.sentences(),
        command: verdict.reproduce.clone(),
        chronicle: played.chronicle,
    }
}

fn write_page(path: &Path, sections: &[Section]) -> Result<(), CliError> {
    let title = match sections {
        [one] => format!("{} - punctual drill", one.title),
        _ => "punctual drill".to_owned(),
    };
    fs::write(path, page::page(&title, sections))
        .map_err(|error| CliError::Failed(format!("cannot write {}: {error}", path.display())))
}

fn write_out(text: &str) -> Result<(), CliError> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has seen enough, as in `punctual drill --print | head`.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::Failed(format!("cannot print: {error}")))
        }
        _ => Ok(()),
    }
}

fn finish(args: &Args, scenarios: Vec<Verdict>) -> Result<u8, CliError> {
    let passed = scenarios.iter().all(Verdict::is_fine);
    let answer = Answer { passed, scenarios };
    output::print(args.output, &answer, || {
        let mut text = report::for_people(&answer.scenarios);
        if let Some(path) = &args.html {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "\nThe page: {}", path.display());
        }
        text
    })?;
    Ok(if passed { DONE } else { NO })
}
