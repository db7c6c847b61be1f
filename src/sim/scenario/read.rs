//! Reading strictly: every value is asked for by name, and what nobody asked for is refused.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::duration;
use crate::{
    time::manifest::parse_time,
    yaml::{Content, Entry, Node, Place},
};

/// Longest piece of the file that a message repeats, in characters.
const MAX_ECHO_CHARS: usize = 60;
/// Most changes of one letter between what was written and what was meant, for a guess.
const MAX_TYPOS: usize = 2;

/// Something wrong in a file, at one place.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// Where.
    pub(super) place: Place,
    /// Path of the field, for example `spec.steps[2].at`.
    pub(super) field: String,
    /// What is wrong and what to write.
    pub(super) problem: String,
}

/// A value of the file, or what is wrong with it.
pub(super) type Read<T> = Result<T, Fault>;

/// A node and the path that leads to it.
#[derive(Clone, Debug)]
pub(super) struct At<'a> {
    pub(super) node: &'a Node,
    pub(super) field: String,
}

impl<'a> At<'a> {
    pub(super) fn new(node: &'a Node, field: impl Into<String>) -> Self {
        Self { node, field: field.into() }
    }

    pub(super) fn place(&self) -> Place {
        self.node.place
    }

    /// Something is wrong here.
    pub(super) fn fault(&self, problem: impl Into<String>) -> Fault {
        Fault { place: self.place(), field: self.field.clone(), problem: problem.into() }
    }

    fn must_be(&self, what: &str) -> Fault {
        self.fault(format!("must be {what}, not {}", echo(&self.node.to_value())))
    }

    pub(super) fn scalar(&self) -> Option<&'a Value> {
        match &self.node.content {
            Content::Scalar(value) => Some(value),
            Content::List(_) | Content::Map(_) => None,
        }
    }

    pub(super) fn text(&self) -> Read<&'a str> {
        match self.scalar().and_then(Value::as_str) {
            Some("") => Err(self.fault("is empty; write something or leave the line out")),
            Some(text) => Ok(text),
            None => Err(self.must_be("text")),
        }
    }

    /// A whole number of `least` to `most`.
    pub(super) fn number(&self, least: u64, most: u64) -> Read<u64> {
        let number = self.scalar().and_then(Value::as_u64);
        let number = number.filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.must_be(&format!("a whole number from {least} to {most}")))
    }

    /// A duration that is not negative.
    pub(super) fn duration(&self) -> Read<Duration> {
        let signed = self.signed_duration()?;
        let duration = Duration::try_from(signed)
            .map_err(|_| self.must_be("a duration that is not negative"))?;
        if duration > duration::LONGEST {
            return Err(self.must_be("at most 31 days (744h)"));
        }
        Ok(duration)
    }

    pub(super) fn signed_duration(&self) -> Read<SignedDuration> {
        let what = "a duration like 90s, 1.5m or 1h30m";
        let Some(value) = self.scalar() else { return Err(self.must_be(what)) };
        if value.as_u64() == Some(0) {
            return Ok(SignedDuration::ZERO);
        }
        if value.is_number() {
            return Err(self.fault(format!(
                "has no unit; write {value}s if it counts seconds, or {value}m for minutes"
            )));
        }
        let text = value.as_str().ok_or_else(|| self.must_be(what))?;
        duration::parse(text).ok_or_else(|| self.must_be(what))
    }

    pub(super) fn time(&self) -> Read<Timestamp> {
        parse_time(self.text()?).map_err(|problem| self.fault(problem))
    }

    /// The items of a list of at most `most`.
    pub(super) fn list(&self, most: usize) -> Read<Vec<At<'a>>> {
        let Content::List(items) = &self.node.content else {
            return Err(self.must_be("a list, each item begun with a dash"));
        };
        if items.len() > most {
            return Err(self.fault(format!("has {} items; at most {most} fit", items.len())));
        }
        let at = |(index, node)| At::new(node, format!("{}[{index}]", self.field));
        Ok(items.iter().enumerate().map(at).collect())
    }

    /// The keys of a mapping.
    pub(super) fn entries(&self) -> Read<&'a [Entry]> {
        match &self.node.content {
            Content::Map(entries) => Ok(entries),
            Content::List(_) | Content::Scalar(_) => {
                Err(self.must_be("an object with named fields"))
            }
        }
    }

    pub(super) fn fields(&self) -> Read<Fields<'a>> {
        Ok(Fields { entries: self.entries()?, at: self.clone(), asked: Vec::new() })
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&'static str, T)]) -> Read<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let wrong = || self.must_be(&names.join(" or "));
        let text = self.scalar().and_then(Value::as_str).ok_or_else(wrong)?;
        words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(wrong)
    }
}

/// The fields of an object; those that nobody asks for are refused at the end.
pub(super) struct Fields<'a> {
    at: At<'a>,
    entries: &'a [Entry],
    asked: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The value of a field, if it is there.
    pub(super) fn get(&mut self, key: &'static str) -> Option<At<'a>> {
        self.asked.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(At::new(&entry.value, self.path(key)))
    }

    /// The value of a field that must be there.
    pub(super) fn need(&mut self, key: &'static str, what: &str) -> Read<At<'a>> {
        let found = self.get(key);
        found.ok_or_else(|| Fault {
            place: self.at.place(),
            field: self.path(key),
            problem: format!("is missing; {what}"),
        })
    }

    /// The first of these fields that is there.
    pub(super) fn which(&mut self, keys: &[&'static str]) -> Read<Option<(&'static str, At<'a>)>> {
        let mut found: Option<(&'static str, At<'a>)> = None;
        for key in keys {
            let Some(at) = self.get(key) else { continue };
            if let Some((other, _)) = &found {
                return Err(self.at.fault(format!("has both {other} and {key}; keep one of them")));
            }
            found = Some((*key, at));
        }
        Ok(found)
    }

    fn path(&self, key: &str) -> String {
        if self.at.field.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at.field) }
    }

    /// Refuses the first field that nobody asked for.
    pub(super) fn finish(&self, what: &str) -> Read<()> {
        let unknown = self.entries.iter().find(|entry| !self.asked.contains(&entry.key.as_str()));
        let Some(entry) = unknown else { return Ok(()) };
        let known = self.asked.iter().copied();
        let problem = format!("is no {what}; {}", meant(&entry.key, known));
        Err(Fault { place: entry.place, field: self.path(&entry.key), problem })
    }

    /// Something is wrong with the object as a whole.
    pub(super) fn fault(&self, problem: impl Into<String>) -> Fault {
        self.at.fault(problem)
    }
}

/// What a person may have meant by `word`, or what there is to choose from.
pub(super) fn meant<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = known.clone().map(|name| (typos(word, name), name)).min();
    match near {
        Some((distance, name)) if distance <= MAX_TYPOS && distance < word.chars().count() => {
            format!("did you mean {name}?")
        }
        _ => format!("known are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// How many letters differ: wrong, left out, added, or swapped with their neighbour. Capitals do not
/// count. (The optimal string alignment distance.)
fn typos(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (a, b) = (letters(a), letters(b));
    let first: Vec<usize> = (0..=b.len()).collect();
    let mut rows = vec![first];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// A value as a message repeats it.
pub(super) fn echo(value: &Value) -> String {
    let text = match value {
        Value::Null => return "nothing".to_owned(),
        Value::Array(_) => return "a list".to_owned(),
        Value::Object(_) => return "an object".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    };
    if text.chars().count() <= MAX_ECHO_CHARS {
        return text;
    }
    text.chars().take(MAX_ECHO_CHARS).collect::<String>() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_is_guessed_and_a_strange_one_is_not() {
        let known = ["pause", "resume", "kill"];
        assert_eq!(meant("puase", known.into_iter()), "did you mean pause?");
        assert_eq!(meant("Kill", known.into_iter()), "did you mean kill?");
        assert_eq!(meant("explode", known.into_iter()), "known are pause, resume, kill");
        assert_eq!(meant("ki", known.into_iter()), "known are pause, resume, kill");
        assert_eq!(
            (typos("kitten", "sitting"), typos("puase", "pause"), typos("", "ab")),
            (3, 1, 2)
        );
    }
}
