//! The swim lanes: what is drawn where.

use std::{collections::BTreeMap, time::Duration};

use super::{
    axis::Axis,
    words::{self, sentence, span, wall},
};
use crate::sim::{
    chronicle::{Chronicle, Work},
    world::{Down, Entry, Term, What},
};

/// Most pieces of work that get a lane of their own; the table shows more.
pub(super) const MAX_WORK_LANES: usize = 40;
/// Markers closer than this, in percent of the width, become one.
const MARKER_DISTANCE: f64 = 5.5;
/// Narrowest piece that is drawn, in percent, so that what took a moment is still seen.
const NARROWEST: f64 = 0.35;

/// One lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) label: String,
    pub(super) note: String,
    pub(super) pieces: Vec<Piece>,
    pub(super) markers: Vec<Marker>,
    /// A lane of work has a second row, for its runs.
    pub(super) tall: bool,
}

/// A stretch of time in a lane.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) class: String,
    pub(super) text: String,
    pub(super) title: String,
}

/// A moment in a lane.
#[derive(Clone, Debug)]
pub(super) struct Marker {
    pub(super) at: f64,
    pub(super) class: &'static str,
    pub(super) text: String,
    pub(super) title: String,
}

/// Draws one history.
pub(super) struct Draw<'a> {
    pub(super) chronicle: &'a Chronicle,
    pub(super) axis: &'a Axis,
}

/// Times at which something happens.
pub(super) fn moments(chronicle: &Chronicle) -> Vec<Duration> {
    let story = chronicle.story.iter().map(|entry| entry.at);
    let works = chronicle.works.iter().flat_map(|work| {
        work.changes.iter().map(|change| change.at).chain([work.created]).chain(work.gone)
    });
    let runs = chronicle
        .runs
        .iter()
        .flat_map(|run| [Some(run.held), run.released, run.ended].into_iter().flatten());
    story.chain(works).chain(runs).collect()
}

/// Entries of the story that get a number: what was done to the world, or what it did by itself.
pub(super) fn numbered(chronicle: &Chronicle) -> Vec<(usize, &Entry)> {
    let fine = |entry: &&Entry| is_cause(entry);
    chronicle.story.iter().filter(fine).enumerate().map(|(index, e)| (index + 1, e)).collect()
}

/// Whether an entry is a cause: something that was done to the world.
pub(super) fn is_cause(entry: &Entry) -> bool {
    matches!(
        entry.what,
        What::Down(Down::Killed | Down::Crashed { .. })
            | What::Frozen
            | What::Thawed
            | What::CutOff
            | What::Reachable
            | What::Fault { .. }
            | What::Step { .. }
    )
}

impl Draw<'_> {
    /// All lanes, from top to bottom.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        let mut lanes = Vec::new();
        let causes = self.causes();
        if !causes.markers.is_empty() {
            lanes.push(causes);
        }
        lanes.push(self.lease());
        lanes.extend((0..self.chronicle.replicas).map(|replica| self.replica(replica)));
        let refused = self.refused();
        if !refused.markers.is_empty() {
            lanes.push(refused);
        }
        lanes.extend(chosen(self.chronicle).into_iter().map(|work| self.work(work)));
        lanes
    }

    fn piece(
        &self,
        from: Duration,
        to: Duration,
        class: impl Into<String>,
        text: impl Into<String>,
        title: impl Into<String>,
    ) -> Piece {
        let left = self.axis.place(from).min(100.0 - NARROWEST);
        let right = self.axis.place(to).max(left + NARROWEST);
        let times = format!(
            "{} to {}, {}",
            wall(self.chronicle, from),
            wall(self.chronicle, to),
            span(to.saturating_sub(from))
        );
        let title = format!("{} ({times})", title.into());
        Piece { from: left, to: right, class: class.into(), text: text.into(), title }
    }

    fn causes(&self) -> Lane {
        let mut markers: Vec<Marker> = Vec::new();
        let mut first = 0;
        for (number, entry) in numbered(self.chronicle) {
            let at = self.axis.place(entry.at);
            let line = format!("{}  {}", wall(self.chronicle, entry.at), sentence(entry));
            let near = markers.last_mut().filter(|last| at - last.at < MARKER_DISTANCE);
            if let Some(last) = near {
                last.text = format!("{first}–{number}");
                last.title = format!("{}\n{line}", last.title);
            } else {
                first = number;
                let text = number.to_string();
                markers.push(Marker { at, class: "cause", text, title: line });
            }
        }
        let note = "numbers as in the list of events".to_owned();
        Lane { label: "What happened".to_owned(), note, markers, ..Lane::default() }
    }

    fn refused(&self) -> Lane {
        let mut markers: Vec<Marker> = Vec::new();
        let mut number = 0;
        for entry in &self.chronicle.story {
            let What::Refused(refused) = &entry.what else { continue };
            if !words::is_telling(refused) {
                continue;
            }
            let at = self.axis.place(entry.at);
            let line = format!("{}  {}", wall(self.chronicle, entry.at), sentence(entry));
            let near = markers.last_mut().filter(|last| at - last.at < MARKER_DISTANCE);
            if let Some(last) = near {
                last.title = format!("{}\n{line}", last.title);
                number += 1;
                last.text = format!("✕{number}");
            } else {
                number = 1;
                markers.push(Marker { at, class: "refused", text: "✕".to_owned(), title: line });
            }
        }
        let note = "writes of a leader whose term was over".to_owned();
        Lane { label: "Refused writes".to_owned(), note, markers, ..Lane::default() }
    }

    fn lease(&self) -> Lane {
        let mut pieces = Vec::new();
        let terms = &self.chronicle.terms;
        for (index, term) in terms.iter().enumerate() {
            let next = terms.get(index + 1).map_or(self.chronicle.end, |next| next.began);
            let ended = term.ended.as_ref().map_or(next, |(at, _)| *at).min(next);
            // A holder that is dead, frozen or cut off renews no more; the Lease still names it.
            let renewed =
                if ended < next { ended } else { silent_from(term, next).unwrap_or(next) };
            let who = words::leader(term);
            let class = color(term.replica);
            let text = format!("{who} · epoch {}", term.epoch);
            let title = format!("the Lease is held by {who}, epoch {}", term.epoch);
            pieces.push(self.piece(term.began, renewed, format!("held {class}"), text, title));
            if renewed < next {
                let title = format!("nobody renews the Lease of {who}");
                pieces.push(self.piece(renewed, next, "silent", "silent", title));
            }
        }
        let note = "who holds it; the epoch numbers the terms".to_owned();
        Lane { label: "Lease".to_owned(), note, pieces, ..Lane::default() }
    }

    fn replica(&self, replica: usize) -> Lane {
        let mut pieces = Vec::new();
        let end = self.chronicle.end;
        for (from, to) in self.stretches(replica, is_up, is_down) {
            pieces.push(self.piece(from, to, "up", "", format!("r{replica} is up")));
        }
        for (from, to) in self.stretches(replica, is_down, is_up) {
            pieces.push(self.piece(from, to, "down", "down", format!("r{replica} is down")));
        }
        let own = self.chronicle.terms.iter().filter(|term| term.replica == Some(replica));
        for term in own {
            let to = term.ended.as_ref().map_or(end, |(at, _)| *at);
            let class = format!("leads {}", color(Some(replica)));
            let text = format!("leads, epoch {}", term.epoch);
            let title = format!("r{replica} leads with epoch {}", term.epoch);
            pieces.push(self.piece(term.began, to, class, text, title));
        }
        let thaws = |what: &What| matches!(what, What::Thawed | What::Down(_));
        for (from, to) in self.stretches(replica, |what| *what == What::Frozen, thaws) {
            let title = format!("r{replica} is frozen");
            pieces.push(self.piece(from, to, "frozen", "frozen", title));
        }
        let heals = |what: &What| *what == What::Reachable;
        for (from, to) in self.stretches(replica, |what| *what == What::CutOff, heals) {
            let title = format!("r{replica} is cut off from the API server");
            pieces.push(self.piece(from, to, "cut", "cut off", title));
        }
        Lane { label: format!("r{replica}"), note: "replica".to_owned(), pieces, ..Lane::default() }
    }

    /// Stretches from an entry of one kind to the next one of another kind.
    fn stretches(
        &self,
        replica: usize,
        begins: impl Fn(&What) -> bool,
        ends: impl Fn(&What) -> bool,
    ) -> Vec<(Duration, Duration)> {
        let mut found = Vec::new();
        let mut since = None;
        for entry in self.chronicle.story.iter().filter(|entry| entry.replica == Some(replica)) {
            if let Some(from) = since
                && ends(&entry.what)
            {
                found.push((from, entry.at));
                since = None;
            } else if since.is_none() && begins(&entry.what) {
                since = Some(entry.at);
            }
        }
        found.extend(since.map(|from| (from, self.chronicle.end)));
        found
    }

    fn work(&self, work: &Work) -> Lane {
        let over = work.gone.unwrap_or(self.chronicle.end);
        let mut pieces = Vec::new();
        for (index, change) in work.changes.iter().enumerate() {
            let to = work.changes.get(index + 1).map_or(over, |next| next.at);
            // "Succeeded, Completed" says it twice.
            let plain = change.reason.is_empty()
                || change.reason == change.state
                || (change.state.as_str(), change.reason.as_str()) == ("Succeeded", "Completed");
            let reason = if plain { String::new() } else { format!(", {}", change.reason) };
            let message = if change.message.is_empty() {
                String::new()
            } else {
                format!(": {}", change.message)
            };
            let title = format!("{}{reason}{message}", change.state);
            let class = format!("state {}", change.state.to_lowercase());
            let text = if is_terminal(&change.state) && !reason.is_empty() {
                format!("{}{reason}", change.state)
            } else {
                change.state.clone()
            };
            pieces.push(self.piece(change.at, to, class, text, title));
        }
        for run in self.chronicle.runs.iter().filter(|run| run.is_of(work)) {
            let Some(from) = run.released else { continue };
            let to = run.ended.unwrap_or(self.chronicle.end);
            let number = run.name.rsplit('-').next().unwrap_or_default();
            let title = format!("run {}: {}", run.name, run.how);
            let text = format!("run {number}: {}", run.how);
            let class = if run.ended.is_some() { "run" } else { "run open" };
            pieces.push(self.piece(from, to, class, text, title));
        }
        let created = format!("created {}", wall(self.chronicle, work.created));
        Lane { label: work.key.name.clone(), note: created, pieces, tall: true, ..Lane::default() }
    }
}

fn is_up(what: &What) -> bool {
    matches!(what, What::Up { .. })
}

fn is_down(what: &What) -> bool {
    matches!(what, What::Down(_))
}

/// When the holder of a term renewed last, if that was long before the next term.
fn silent_from(term: &Term, next: Duration) -> Option<Duration> {
    /// Renewals come every 1.5 s; a gap that is much longer is silence.
    const LONG: Duration = Duration::from_secs(4);
    (next.saturating_sub(term.renewed) > LONG).then_some(term.renewed)
}

/// The colour of a replica.
fn color(replica: Option<usize>) -> String {
    replica.map_or_else(|| "other".to_owned(), |replica| format!("c{}", replica % 5))
}

/// Whether nothing more happens to it.
pub(super) fn is_terminal(state: &str) -> bool {
    matches!(state, "Succeeded" | "Failed" | "Cancelled" | "Skipped" | "Superseded" | "Rejected")
}

/// The pieces of work that get a lane: all, or those with the most to tell, in their order.
fn chosen(chronicle: &Chronicle) -> Vec<&Work> {
    if chronicle.works.len() <= MAX_WORK_LANES {
        return chronicle.works.iter().collect();
    }
    let mut by_state: BTreeMap<&str, usize> = BTreeMap::new();
    for work in &chronicle.works {
        *by_state.entry(work.state()).or_default() += 1;
    }
    // Rare endings tell most; of equal ones the one that went through more.
    let mut ranked: Vec<(usize, usize, usize)> = chronicle
        .works
        .iter()
        .enumerate()
        .map(|(index, work)| {
            let rare = by_state.get(work.state()).copied().unwrap_or(0);
            (rare, usize::MAX - work.changes.len(), index)
        })
        .collect();
    ranked.sort_unstable();
    ranked.truncate(MAX_WORK_LANES);
    let mut indices: Vec<usize> = ranked.into_iter().map(|(_, _, index)| index).collect();
    indices.sort_unstable();
    indices.into_iter().filter_map(|index| chronicle.works.get(index)).collect()
}
