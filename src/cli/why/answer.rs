//! The answer of `punctual why`: as data for scripts, as text for people.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    api::{MAX_MESSAGE_CHARS, Time, truncate},
    cluster::ObjectKey,
};

/// Most lines of a timeline: what a person reads. The oldest and the newest are kept.
const MAX_MOMENTS: usize = 40;
/// Of these, so many from the beginning.
const FIRST_MOMENTS: usize = 10;

/// Why an object is as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    /// What was asked about, for example `mocc/nightly-202611290200`.
    pub(super) object: String,
    /// Its namespace.
    pub(super) namespace: String,
    /// Where it stands, in one word.
    pub(super) state: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// Where it stands, in a sentence.
    pub(super) summary: String,
    /// What happened, oldest first.
    pub(super) happened: Vec<Moment>,
    /// Which rule made it so, in sentences.
    pub(super) why: Vec<String>,
    /// What happens next.
    pub(super) next: Vec<Next>,
    /// What a person can do.
    pub(super) actions: Vec<Action>,
    /// What could not be read, so that it is missing above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_read: Vec<String>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Moment {
    /// When, if that is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<Time>,
    /// What.
    pub(super) what: String,
    /// Epoch of the term that did it, if a leader did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) epoch: Option<i64>,
}

/// Something that is going to happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Next {
    /// When, or about when, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<Time>,
    /// What.
    pub(super) what: String,
}

/// Something that a person can do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Action {
    /// In which case it helps, and what it does.
    pub(super) when: String,
    /// The line to type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
}

impl Answer {
    /// About this object.
    pub(super) fn about(short: &str, key: &ObjectKey) -> Self {
        Self {
            object: format!("{short}/{}", key.name),
            namespace: key.namespace.clone(),
            ..Self::default()
        }
    }

    /// Where it stands.
    pub(super) fn stands(
        &mut self,
        state: impl Into<String>,
        reason: Option<&str>,
        summary: impl Into<String>,
    ) {
        self.state = state.into();
        let news = |reason: &&str| !reason.is_empty() && *reason != self.state;
        self.reason = reason.filter(news).map(ToOwned::to_owned);
        self.summary = summary.into();
    }

    /// Something happened at a time that is recorded, or not.
    pub(super) fn happened(
        &mut self,
        at: Option<Timestamp>,
        what: impl Into<String>,
        epoch: Option<i64>,
    ) {
        let what = truncate(&what.into(), MAX_MESSAGE_CHARS);
        self.happened.push(Moment { time: at.map(Time::new), what, epoch });
    }

    /// A rule that made it so.
    pub(super) fn because(&mut self, sentence: impl Into<String>) {
        let sentence = truncate(&sentence.into(), 2 * MAX_MESSAGE_CHARS);
        if !sentence.is_empty() && !self.why.contains(&sentence) {
            self.why.push(sentence);
        }
    }

    /// Something will happen.
    pub(super) fn then(&mut self, at: Option<Timestamp>, what: impl Into<String>) {
        self.next.push(Next { time: at.map(Time::new), what: what.into() });
    }

    /// A person can type this.
    pub(super) fn can(&mut self, when: impl Into<String>, command: impl Into<String>) {
        self.actions.push(Action { when: when.into(), command: Some(command.into()) });
    }

    /// A person can do this; there is no one line for it.
    pub(super) fn can_do(&mut self, what: impl Into<String>) {
        self.actions.push(Action { when: what.into(), command: None });
    }

    /// Puts the timeline in order: what has no time stays behind what it was said after. A very long
    /// one loses its middle.
    pub(super) fn in_order(mut self) -> Self {
        let mut last = Timestamp::MIN;
        let mut keyed: Vec<(Timestamp, Moment)> = std::mem::take(&mut self.happened)
            .into_iter()
            .map(|moment| {
                last = moment.time.map_or(last, |time| time.0);
                (last, moment)
            })
            .collect();
        keyed.sort_by_key(|(at, _)| *at);
        let mut moments: Vec<Moment> = keyed.into_iter().map(|(_, moment)| moment).collect();
        if moments.len() > MAX_MOMENTS {
            let cut = moments.len() - MAX_MOMENTS + 1;
            let what = format!("({cut} more in between)");
            moments.splice(
                FIRST_MOMENTS..FIRST_MOMENTS + cut,
                [Moment { time: None, what, epoch: None }],
            );
        }
        self.happened = moments;
        self
    }

    /// The answer as text.
    pub(super) fn text(&self, now: Timestamp) -> String {
        let mut out = String::new();
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let place = match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!(" in namespace {namespace}"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}{place}: {}{reason}", self.object, self.state);
        let _ = writeln!(out, "{}", self.summary);
        section(
            &mut out,
            "What happened",
            self.happened.iter().map(|moment| {
                let time = moment.time.map_or_else(String::new, |time| second(time.0));
                format!("{time:20}  {}", moment.what)
            }),
        );
        section(&mut out, "Why", self.why.iter().cloned());
        section(
            &mut out,
            "What happens next",
            self.next.iter().map(|next| match next.time {
                Some(time) => {
                    format!("{} ({}): {}", second(time.0), from_now(time.0, now), next.what)
                }
                None => next.what.clone(),
            }),
        );
        section(
            &mut out,
            "What you can do",
            self.actions.iter().map(|action| match &action.command {
                Some(command) => {
                    format!("{}:\n    {command}", action.when.trim_end_matches('.'))
                }
                None => action.when.clone(),
            }),
        );
        section(&mut out, "Not read", self.not_read.iter().cloned());
        out
    }
}

fn section(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    for line in lines {
        let _ = writeln!(out, "  {}", line.trim_end());
    }
}

/// So many of something: `1 report`, `2 reports`.
pub(super) fn many(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// A moment as people read it: whole seconds.
pub(in crate::cli) fn second(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// `in 5m`, `2h ago`.
pub(in crate::cli) fn from_now(at: Timestamp, now: Timestamp) -> String {
    let distance = at.duration_since(now);
    match distance.as_secs() {
        0 => "now".to_owned(),
        secs if secs > 0 => format!("in {}", span(distance)),
        _ => format!("{} ago", span(distance)),
    }
}

/// How long, in the two largest units: `45s`, `4m 10s`, `3h 20m`, `2d 4h`.
pub(in crate::cli) fn span(duration: SignedDuration) -> String {
    let secs = duration.as_secs().unsigned_abs();
    let (days, hours, minutes, seconds) =
        (secs / 86_400, secs / 3600 % 24, secs / 60 % 60, secs % 60);
    let two = |a: u64, unit_a: &str, b: u64, unit_b: &str| match b {
        0 => format!("{a}{unit_a}"),
        b => format!("{a}{unit_a} {b}{unit_b}"),
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => two(minutes, "m", seconds, "s"),
        (0, _, _) => two(hours, "h", minutes, "m"),
        _ => two(days, "d", hours, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    #[test]
    fn what_has_no_time_stays_behind_what_it_follows() {
        let mut answer = Answer::default();
        answer.happened(Some(at(5)), "b", None);
        answer.happened(None, "after b", None);
        answer.happened(Some(at(0)), "a", None);
        let order: Vec<String> = answer.in_order().happened.into_iter().map(|m| m.what).collect();
        assert_eq!(order, ["a", "b", "after b"]);
    }

    #[test]
    fn a_long_timeline_loses_its_middle() {
        let mut answer = Answer::default();
        (0..100).for_each(|n| answer.happened(Some(at(n)), n.to_string(), None));
        let cut = answer.in_order().happened;
        assert_eq!(cut.len(), MAX_MOMENTS);
        assert_eq!((cut[0].what.as_str(), cut[MAX_MOMENTS - 1].what.as_str()), ("0", "99"));
        assert_eq!(cut[FIRST_MOMENTS].what, "(61 more in between)");
    }

    #[test]
    fn spans_have_two_units() {
        for (seconds, text) in
            [(5, "5s"), (250, "4m 10s"), (300, "5m"), (12_000, "3h 20m"), (187_200, "2d 4h")]
        {
            assert_eq!(span(SignedDuration::from_secs(seconds)), text);
            assert_eq!(from_now(at(seconds), at(0)), format!("in {text}"));
            assert_eq!(from_now(at(-seconds), at(0)), format!("{text} ago"));
        }
        assert_eq!(from_now(at(0), at(0)), "now");
    }
}
