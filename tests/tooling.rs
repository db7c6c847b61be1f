//! The scripts that judge test runs are judged here, on forged logs: a summary that calls a broken
//! run green would be worse than none.

use std::{
    path::PathBuf,
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

fn script(name: &str) -> Command {
    Command::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("hack").join(name))
}

/// A path of its own for each caller, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctual-tooling-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Exit code and last line of the summary.
fn summary(log: &str, code: &str, least: &str, skips: &str) -> (Option<i32>, String) {
    let log = Scratch::new(log);
    let output = script("test-summary").arg(&log.0).args([code, least, skips]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), text.lines().last().unwrap_or_default().to_owned())
}

const GOOD: &str = "\
running 2 tests
test result: ok. 40 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.15s
noise about 7 failed; attempts
test result: ok. 20 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 9.99s
";

#[test]
fn results_are_added_up() {
    assert_eq!(summary(GOOD, "0", "60", "2"), (Some(0), "60 passed, 0 failed, 2 skipped".into()));
}

#[test]
fn what_is_not_as_expected_is_red() {
    let failed = GOOD.replace("ok. 20 passed; 0 failed", "FAILED. 19 passed; 1 failed");
    for (why, log, code, least, skips) in [
        ("a test failed though make said 0", failed.as_str(), "0", "1", "2"),
        ("make failed though no test did", GOOD, "2", "60", "2"),
        ("fewer tests than expected", GOOD, "0", "61", "2"),
        ("more skipped than expected", GOOD, "0", "60", "1"),
        ("fewer skipped than expected", GOOD, "0", "60", "3"),
        ("nothing ran", "error: could not compile\n", "0", "0", "0"),
    ] {
        assert_eq!(summary(log, code, least, skips).0, Some(1), "{why}");
    }
}

fn stage(arguments: &[&str], stages: Option<&Scratch>) -> Output {
    let mut command = script("stage");
    command.args(arguments).env_remove("PUNCTUAL_STAGES");
    if let Some(file) = stages {
        command.env("PUNCTUAL_STAGES", &file.0);
    }
    command.output().unwrap()
}

#[test]
fn a_stage_prints_its_time_and_passes_the_exit_code_on() {
    let times = Scratch::new("");
    let good = stage(&["good", "echo", "a  b"], Some(&times));
    let text = String::from_utf8(good.stdout).unwrap();
    assert!(
        good.status.success() && text.contains("a  b\n") && text.contains("<== good: "),
        "{text}"
    );
    let bad = stage(&["bad", "sh", "-c", "exit 7"], Some(&times));
    assert_eq!(bad.status.code(), Some(7));
    assert!(String::from_utf8(bad.stderr).unwrap().contains("FAILED"));
    let times = std::fs::read_to_string(&times.0).unwrap();
    assert!(times.lines().count() == 2 && times.ends_with(" bad\n"), "{times}");
}

#[test]
fn a_stage_without_a_command_is_bad_usage() {
    assert_eq!(stage(&["lonely"], None).status.code(), Some(2));
}
