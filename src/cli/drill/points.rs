//! Every crash point and every late write of the built-in stories, on every core.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
};

use serde::Serialize;

use super::{
    super::{CliError, DONE, NO, progress::Progress, target::Output},
    output,
    random::{Failure, each},
};
use crate::sim::random::points::{Point, Story, play, points, stories};

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    passed: bool,
    /// Points played, by story.
    points: BTreeMap<&'static str, u64>,
    /// What failed, by story and point.
    failures: BTreeMap<String, Failure>,
}

/// Plays all points of all stories.
pub(super) fn run(output: Output) -> Result<u8, CliError> {
    let stories = stories();
    let answer = play_all(&stories, 1);
    output::print(output, &answer, || answer.for_people())?;
    Ok(if answer.passed { DONE } else { NO })
}

/// Plays every `step`th point.
fn play_all(stories: &[Story], step: usize) -> Answer {
    let all: Vec<(&Story, Point)> = stories
        .iter()
        .flat_map(|story| points(story).into_iter().map(move |point| (story, point)))
        .step_by(step)
        .collect();
    let total = u64::try_from(all.len()).unwrap_or(u64::MAX);
    let found = Mutex::new((Progress::new(total), BTreeMap::new(), BTreeMap::new()));
    each(0..total, |number| {
        let Some((story, point)) = usize::try_from(number).ok().and_then(|at| all.get(at)) else {
            return;
        };
        let report = play(story, *point);
        // A thread that panicked ends the program.
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let (progress, played, failures) = &mut *found;
        progress.at(story.name);
        *played.entry(story.name).or_default() += 1;
        if !report.is_clean() {
            let failure = Failure::of(&report, "punctual drill --points".to_owned());
            failures.insert(format!("{}: {point}", story.name), failure);
        }
    });
    let (mut progress, points, failures) =
        found.into_inner().unwrap_or_else(PoisonError::into_inner);
    progress.done();
    Answer { passed: failures.is_empty(), points, failures }
}

impl Answer {
    fn for_people(&self) -> String {
        let total: u64 = self.points.values().sum();
        let mut text = format!(
            "{total} histories, {} failed: the leader dies after each of its writes, or one of them \
             lands only after its successor works.\n\n",
            self.failures.len()
        );
        for (story, number) in &self.points {
            // Writing into a string cannot fail, here and below.
            let _ = writeln!(text, "{number:>6}  {story}");
        }
        for (name, failure) in &self.failures {
            let _ = writeln!(text, "\n{name} failed:");
            text.push_str(&failure.for_people());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_story_is_played_and_counted() {
        let one = &stories()[..1];
        let answer = play_all(one, 6);
        assert!(answer.passed, "{:#?}", answer.failures);
        let played = answer.points[one[0].name];
        assert!((3..10).contains(&played), "{played}");
        assert!(answer.for_people().starts_with(&format!("{played} histories, 0 failed: ")));
    }
}
