//! Plays every scenario file of the repository, and `punctual drill` as people call it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use punctual::sim::{
    chronicle::Chronicle,
    scenario::{Played, Scenario, parse, play},
};
use serde_json::Value;

/// Folders with scenario files.
const FOLDERS: [&str; 4] =
    ["tests/cases/scenarios", "tests/scenarios", "docs/examples/scenarios", RUNBOOK_REHEARSALS];
/// Those that follow the steps of a runbook.
const RUNBOOK_REHEARSALS: &str = "docs/runbooks/rehearsals";
/// Fewer files than this means that the test looked in the wrong place.
const LEAST_FILES: usize = 50;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every scenario file, by path.
fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = FOLDERS
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).expect("the folder is readable"))
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= LEAST_FILES, "only {} files", files.len());
    files
}

fn read(path: &Path) -> Scenario {
    let name = path.strip_prefix(root()).expect("a file of the repository").display().to_string();
    let text = fs::read_to_string(path).expect("the file is readable");
    let scenario = parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    assert_eq!(stem, Some(scenario.name.as_str()), "a scenario has the name of its file");
    scenario
}

/// What is wrong with a scenario that was played.
fn wrong(scenario: &Scenario, played: &Played) -> Vec<String> {
    let failures = played.failures.iter().map(|failure| {
        let (line, at) = (failure.line, failure.at.as_secs_f64());
        let (expected, found) = (&failure.expected, &failure.found);
        format!("{}:{line} at {at} s: expected {expected}; {found}", scenario.file)
    });
    let broken = played.broken.iter().map(|broken| format!("{}: {broken}", scenario.file));
    failures.chain(broken).collect()
}

/// What is wrong with each of `0..count`, each judged on one thread from its beginning to its end.
fn judge_all(count: usize, judge: impl Fn(usize) -> Vec<String> + Sync) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let wrong = judge(number);
            found.lock().expect("no thread panics while it holds the lock").extend(wrong);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(work);
        }
    });
    found.into_inner().expect("no thread panics while it holds the lock")
}

#[test]
fn every_scenario_goes_as_its_file_says() {
    let scenarios: Vec<Scenario> = files().iter().map(|path| read(path)).collect();
    let found = judge_all(scenarios.len(), |number| match play(&scenarios[number], None) {
        Ok(played) => wrong(&scenarios[number], &played),
        Err(error) => vec![error.to_string()],
    });
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// The built-in rehearsal.
const REHEARSAL: &str = include_str!("../src/cli/drill/restart.yaml");
/// Says with how many seeds the rehearsal is played.
const REHEARSALS_ENV: &str = "PUNCTUAL_REHEARSALS";
/// Without it: as many as take some seconds.
const REHEARSALS: usize = 4;
/// The one report of which nobody can say how it ended.
const NOBODY_KNOWS: &str = "bolt-costs";
/// What a recovery trace counts.
const COUNTS: [&str; 4] = ["resumed", "reconciled", "preserved", "uncertain"];

/// What the leader of the second term must have counted, from the store and the provider alone, as
/// they stood when that term began: what was over, what was released, and what the provider has lost.
fn derived(chronicle: &Chronicle) -> [i64; 4] {
    let over = ["Succeeded", "Failed", "Cancelled", "Rejected", "Skipped", "Superseded"];
    let began = chronicle.terms[1].began;
    let [mut resumed, mut reconciled, mut preserved, mut uncertain] = [0; 4];
    for work in &chronicle.works {
        let Some(state) = work.state_at(began) else { continue };
        let mut runs = chronicle.runs.iter().filter(|run| run.is_of(work));
        let released = runs.find(|run| run.released.is_some_and(|released| released <= began));
        match released {
            _ if over.contains(&state.state.as_str()) => preserved += 1,
            Some(run) if run.how == "lost" => uncertain += 1,
            Some(_) => reconciled += 1,
            None => resumed += 1,
        }
    }
    [resumed, reconciled, preserved, uncertain]
}

/// What is wrong with a rehearsal of this seed.
fn wrongly_recorded(scenario: &Scenario, seed: usize) -> Option<String> {
    let played = play(scenario, Some(seed as u64)).expect("the rehearsal can be played");
    let chronicle = &played.chronicle;
    let trace = chronicle.traces.last().expect("the second term left a record");
    let recorded = COUNTS.map(|count| trace["status"][count].as_i64().unwrap_or(-1));
    let derived = derived(chronicle);
    let unknown = chronicle.works.iter().find(|work| work.key.name == NOBODY_KNOWS);
    let unknown = unknown.expect("it was created");
    let runs = chronicle.runs.iter().filter(|run| run.is_of(unknown) && run.released.is_some());
    let (state, runs) = (unknown.state(), runs.count());
    let right = chronicle.terms.len() == 2
        && recorded == derived
        && recorded[3] == 1
        && (state, runs) == ("Unresolved", 1)
        && played.broken.is_empty();
    (!right).then(|| {
        format!(
            "seed {seed}: {} terms; recorded {recorded:?}, derived {derived:?}; {NOBODY_KNOWS} is \
             {state} with {runs} runs; {:?}",
            chronicle.terms.len(),
            played.broken,
        )
    })
}

#[test]
fn the_record_of_a_rehearsal_counts_what_the_store_and_the_provider_say() {
    let scenario = parse("restart.yaml", REHEARSAL).expect("the built-in rehearsal is right");
    let asked = std::env::var(REHEARSALS_ENV).ok().map(|text| {
        text.parse().unwrap_or_else(|_| panic!("{REHEARSALS_ENV} is a number, not {text:?}"))
    });
    let seeds = asked.unwrap_or(REHEARSALS);
    let found = judge_all(seeds, |seed| wrongly_recorded(&scenario, seed).into_iter().collect());
    assert!(found.is_empty(), "of {seeds} seeds:\n{}\n", found.join("\n"));
}

#[test]
fn one_seed_is_one_history_and_another_seed_is_another() {
    let scenario = read(&root().join("tests/cases/scenarios/leader-change-midway.yaml"));
    let log = |seed| play(&scenario, seed).expect("it can be played").write_log;
    assert_eq!(log(Some(7)), log(Some(7)));
    assert_ne!(log(Some(7)), log(Some(8)));
    assert_eq!(log(None), log(Some(scenario.seed)));
}

/// Runs the binary in a folder of its own.
fn drill(test: &str, file: &str, arguments: &[&str]) -> (Output, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&folder).expect("a folder of our own");
    fs::write(folder.join("x.yaml"), file).expect("a folder of our own");
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.current_dir(&folder).arg("drill").args(arguments);
    (command.output().expect("the binary starts"), folder)
}

/// A schedule that runs at two, and what is expected of it.
fn nightly(expect: &str) -> String {
    format!(
        "# It runs at two.\napiVersion: punctual.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: \
         x}}\nspec:\n  start: '2026-11-29T01:58:00Z'\n  objects:\n  - apiVersion: \
         punctual.dev/v1alpha1\n    kind: MaintenanceSchedule\n    metadata: {{name: nightly}}\n    \
         spec: {{schedule: 0 2 * * *, run: {{simulated: {{}}}}}}\n  end: 3m\n  expect:\n  - {expect}\n"
    )
}

const SUCCEEDS: &str = "{object: mocc/nightly-202611290200, state: Succeeded}";
const FAILS: &str = "{object: mocc/nightly-202611290200, state: Failed}";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn a_file_that_holds_ends_with_0_and_its_story() {
    let (output, folder) = drill("holds", &nightly(SUCCEEDS), &["x.yaml", "--html", "page.html"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    for part in ["x: as expected", "Who led.", "Nothing ran twice.", "The page: page.html"] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert!(output.stderr.is_empty(), "no progress bar without a terminal");
    let page = fs::read_to_string(folder.join("page.html")).expect("the page is there");
    assert!(page.starts_with("<!doctype html>") && page.contains("It runs at two."));
}

#[test]
fn a_file_that_fails_ends_with_1_and_says_why_and_how_to_play_it_again() {
    let (output, _) = drill("fails", &nightly(FAILS), &["x.yaml", "--seeds", "3..4"]);
    let said: String = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "x: NOT as expected",
        "x.yaml:14: at 180.",
        "this was expected: mocc/nightly-202611290200 with state Failed. What was there: it is Succeeded",
        "again: punctual drill x.yaml --seeds 3..4",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn programs_get_json() {
    let (output, _) = drill("json", &nightly(FAILS), &["x.yaml", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let scenario = &answer["scenarios"][0];
    assert_eq!((&answer["passed"], &scenario["verdict"]), (&false.into(), &"Failed".into()));
    assert_eq!(scenario["failures"][0]["line"], 14);
    assert_eq!(scenario["went"]["works"][0]["state"], "Succeeded");
    assert_eq!(scenario["went"]["terms"].as_array().map(Vec::len), Some(1));
    assert_eq!(scenario["reproduce"], "punctual drill x.yaml");
}

#[test]
fn a_bad_file_ends_with_2_and_its_line() {
    for (file, told) in [
        (
            nightly("{objekt: x}"),
            "x.yaml:14: spec.expect[0].objekt: is no expectation; did you mean",
        ),
        ("kind: [".to_owned(), "x.yaml:2: is no YAML that can be used"),
        (
            nightly(SUCCEEDS).replace("0 2 * * *", "TZ=UTC 0 2 * * *"),
            "x.yaml:8: spec.objects[0]: is refused by the API server:",
        ),
    ] {
        let (output, _) = drill("bad", &file, &["x.yaml"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(told) && output.stdout.is_empty(), "{said}");
    }
    let (output, _) = drill("bad", "", &["nothing.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot read nothing.yaml"));
}

#[test]
fn the_built_in_rehearsal_can_be_printed_and_played_as_a_file() {
    let (printed, _) = drill("print", "", &["--print"]);
    let (output, _) = drill("printed", &text(&printed.stdout), &["x.yaml"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("FOUND AS") && said.contains("prepared, not released"), "{said}");
}
