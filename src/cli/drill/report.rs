//! What a rehearsal came to, for people and for programs.

use std::{fmt::Write as _, time::Duration};

use serde::Serialize;

use super::output;
use crate::sim::{
    chronicle::{Chronicle, Takeover},
    page::words::{Headline, wall},
    scenario::{Failure, Played, Scenario, show_time},
};

/// Widest line of a paragraph, in characters.
const WIDTH: usize = 100;
/// Most pieces of work that a table on a terminal lists.
const MAX_ROWS: usize = 60;

/// How one scenario went.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verdict {
    name: String,
    /// Empty for the built-in one.
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
    #[serde(rename = "verdict")]
    word: Word,
    seed: u64,
    /// The command that plays it again.
    pub(super) reproduce: String,
    failures: Vec<Failed>,
    /// Invariants that did not hold, and defects.
    violations: Vec<String>,
    went: Went,
}

/// A verdict in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Word {
    Passed,
    Failed,
}

/// An expectation that failed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Failed {
    line: usize,
    /// Virtual time since the start.
    at: String,
    expected: String,
    found: String,
}

/// What happened.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Went {
    virtual_seconds: f64,
    led: String,
    ran: String,
    refused: String,
    next: String,
    terms: Vec<Led>,
    takeovers: Vec<Takeover>,
    works: Vec<Outcome>,
}

/// One term.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Led {
    epoch: i64,
    holder: String,
    gained: String,
    from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
}

/// One piece of work at the end.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    object: String,
    state: String,
    reason: String,
    message: String,
    runs: usize,
}

impl Verdict {
    /// Of a scenario that was played, with another seed than its own if one is given.
    pub(super) fn of(scenario: &Scenario, file: &str, seed: Option<u64>, played: &Played) -> Self {
        let failed = |failure: &Failure| Failed {
            line: failure.line,
            at: show_time(failure.at),
            expected: failure.expected.clone(),
            found: failure.found.clone(),
        };
        Self {
            name: scenario.name.clone(),
            file: file.to_owned(),
            word: if played.passed() { Word::Passed } else { Word::Failed },
            seed: played.seed,
            reproduce: reproduce(file, seed),
            failures: played.failures.iter().map(failed).collect(),
            violations: played.broken.clone(),
            went: Went::of(&played.chronicle),
        }
    }

    /// Whether it was played and everything was as expected.
    pub(super) fn passed(&self) -> bool {
        self.word == Word::Passed
    }

    /// Whether nothing is wrong with it, as far as it could be played.
    pub(super) fn is_fine(&self) -> bool {
        self.word != Word::Failed
    }

    /// What is wrong, a sentence each.
    pub(super) fn sentences(&self) -> Vec<String> {
        let file = if self.file.is_empty() { &self.name } else { &self.file };
        let failures = self.failures.iter().map(|failure| {
            let Failed { line, at, expected, found } = failure;
            format!(
                "{file}:{line}: at {at} this was expected: {expected}. What was there: {found}."
            )
        });
        let violations = self.violations.iter().map(|broken| format!("invariant broken: {broken}"));
        failures.chain(violations).collect()
    }
}

/// The command that plays a scenario again.
fn reproduce(file: &str, seed: Option<u64>) -> String {
    let file = if file.is_empty() { String::new() } else { format!(" {file}") };
    // A seed that is the file's own needs no mention.
    let seeds = seed
        .map_or_else(String::new, |seed| format!(" --seeds {seed}..{}", seed.saturating_add(1)));
    if file.is_empty() && !seeds.is_empty() {
        return format!(
            "punctual drill --print > restart.yaml && punctual drill restart.yaml{seeds}"
        );
    }
    format!("punctual drill{file}{seeds}")
}

impl Went {
    fn of(chronicle: &Chronicle) -> Self {
        let Headline { led, ran, refused, next } = Headline::of(chronicle);
        let terms = chronicle.terms.iter().map(|term| Led {
            epoch: term.epoch,
            holder: term.holder.clone(),
            gained: format!("{:?}", term.gained),
            from: wall(chronicle, term.began),
            to: term.ended.as_ref().map(|(at, _)| wall(chronicle, *at)),
        });
        let works = chronicle.works.iter().map(|work| {
            let last = work.changes.last();
            let text = |of: fn(&crate::sim::chronicle::Change) -> &String| {
                last.map(of).cloned().unwrap_or_default()
            };
            Outcome {
                object: work.key.to_string(),
                state: text(|change| &change.state),
                reason: text(|change| &change.reason),
                message: text(|change| &change.message),
                runs: chronicle.released_runs(work),
            }
        });
        Self {
            virtual_seconds: Duration::as_secs_f64(&chronicle.end),
            led,
            ran,
            refused,
            next,
            terms: terms.collect(),
            works: works.collect(),
            takeovers: chronicle.takeovers(),
        }
    }
}

/// The answer for people: the whole story of one scenario, or a line for each of many.
pub(super) fn for_people(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    if let [one] = verdicts {
        text.push_str(&story(one));
    } else {
        let rows: Vec<[String; 3]> = verdicts.iter().map(row).collect();
        text.push_str(&output::table(["SCENARIO", "VERDICT", "IN WORDS"], &rows));
    }
    for verdict in verdicts.iter().filter(|verdict| !verdict.is_fine()) {
        let _ = writeln!(text, "\n{} failed:", verdict.name);
        for sentence in verdict.sentences() {
            text.push_str(&paragraph("  * ", &sentence));
        }
        let _ = writeln!(text, "  again: {}", verdict.reproduce);
    }
    if verdicts.len() > 1 {
        let count = |word| verdicts.iter().filter(|verdict| verdict.word == word).count();
        let (passed, failed) = (count(Word::Passed), count(Word::Failed));
        let _ = writeln!(text, "\n{passed} as expected, {failed} not.");
    }
    text
}

fn row(verdict: &Verdict) -> [String; 3] {
    let word = match verdict.word {
        Word::Passed => "as expected",
        Word::Failed => "FAILED",
    };
    [verdict.name.clone(), word.to_owned(), verdict.went.ran.clone()]
}

/// One scenario in full.
fn story(verdict: &Verdict) -> String {
    let went = &verdict.went;
    let word = if verdict.passed() { "as expected" } else { "NOT as expected" };
    let span = show_time(Duration::from_secs_f64(went.virtual_seconds.round()));
    let mut text =
        format!("{}: {word} ({span} of virtual time, seed {})\n\n", verdict.name, verdict.seed);
    for (head, words) in [
        ("Who led.   ", &went.led),
        ("What ran.  ", &went.ran),
        ("Refused.   ", &went.refused),
        ("Next.      ", &went.next),
    ] {
        text.push_str(&paragraph(&format!("  {head}"), words));
    }
    for takeover in went.takeovers.iter().filter(|takeover| tells(takeover)) {
        text.push_str(&found(takeover));
    }
    text
}

/// Whether a takeover is worth a table: the first leader finds what was just applied.
fn tells(takeover: &Takeover) -> bool {
    takeover.gained != "First" && !takeover.items.is_empty()
}

/// What a new leader found, item by item.
fn found(takeover: &Takeover) -> String {
    let Takeover { epoch, leader, gained, took, .. } = takeover;
    let mut text =
        format!("\nWhat {leader} found when it took over (epoch {epoch}, {gained}, {took}):\n\n");
    let rows: Vec<[String; 5]> = takeover
        .items
        .iter()
        .take(MAX_ROWS)
        .map(|item| {
            [
                item.object.clone(),
                item.was.clone(),
                item.class.clone(),
                item.became.clone(),
                item.runs.to_string(),
            ]
        })
        .collect();
    text.push_str(&output::table(["OBJECT", "THEN", "FOUND AS", "AT THE END", "RUNS"], &rows));
    if takeover.items.len() > MAX_ROWS {
        let _ = writeln!(text, "and {} more", takeover.items.len() - MAX_ROWS);
    }
    let count = |number: Option<i64>| number.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let _ = writeln!(
        text,
        "\n{} resumed (nothing was running), {} reconciled (the provider was asked and answered),\n\
         {} preserved (over, not touched), {} uncertain (nobody could say).",
        count(takeover.resumed),
        count(takeover.reconciled),
        count(takeover.preserved),
        count(takeover.uncertain)
    );
    text
}

/// Text in lines of a readable width, hung below its head.
pub(super) fn paragraph(head: &str, text: &str) -> String {
    let indent = " ".repeat(head.chars().count());
    let mut out = String::new();
    let mut line = head.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{}", line.trim_end());
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_hang_below_their_head() {
        let text = "word ".repeat(40);
        let shown = paragraph("  * ", &text);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines.len() == 3 && lines[0].starts_with("  * word"), "{shown}");
        assert!(lines[1].starts_with("    word") && lines[1].chars().count() <= WIDTH);
        assert_eq!(shown.split_whitespace().filter(|word| *word == "word").count(), 40);
    }

    #[test]
    fn a_failure_can_be_played_again_by_one_line() {
        assert_eq!(reproduce("", None), "punctual drill");
        assert_eq!(reproduce("x.yaml", None), "punctual drill x.yaml");
        assert_eq!(reproduce("x.yaml", Some(7)), "punctual drill x.yaml --seeds 7..8");
        assert!(reproduce("", Some(7)).ends_with("punctual drill restart.yaml --seeds 7..8"));
    }
}
