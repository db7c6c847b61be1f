//! One self-contained page that shows what happened: a headline in plain words, a swim lane for each
//! replica, the Lease and every piece of work, what a new leader found, and the list of events.
//!
//! It needs no network, no script and no explanation, follows the light or dark theme of the reader,
//! and fits a telephone. Everything that comes from a history is escaped.

use std::{fmt::Write as _, time::Duration};

use serde_json::Value;

use super::{
    chronicle::{Chronicle, Work},
    world::{Entry, What},
};
use axis::Axis;
use lanes::{Draw, Lane, moments, numbered};
use words::{Headline, sentence, span, virtual_time, wall};

mod axis;
mod lanes;
#[cfg(test)]
mod tests;
pub mod words;

/// Most rows of a table; more is no page for people.
const MAX_ROWS: usize = 400;
/// The look.
pub(crate) const STYLE: &str = include_str!("style.css");

/// One history and what is said about it.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub title: String,
    /// What it is about, in a sentence or two, if somebody said so.
    pub about: String,
    /// Whether everything was as expected; nothing if nothing was expected.
    pub passed: Option<bool>,
    /// What was not as expected, a sentence each.
    pub wrong: Vec<String>,
    /// The command that plays it again.
    pub command: String,
    /// What happened.
    pub chronicle: Chronicle,
}

/// The page.
pub fn page(title: &str, sections: &[Section]) -> String {
    let mut body = String::new();
    if sections.len() > 1 {
        body.push_str(&index(sections));
    }
    for (number, part) in sections.iter().enumerate() {
        body.push_str(&section(number, part));
    }
    frame(
        title,
        STYLE,
        &body,
        "Played by <code>punctual drill</code> on virtual time: the production controllers over a model \
         of the API server. No cluster was touched.",
    )
}

/// A page without anything from outside: its title, its look, its body, and what stands below. The
/// title is escaped, the rest is HTML already.
pub(crate) fn frame(title: &str, style: &str, body: &str, footer: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\
         <footer>{footer}</footer>\n</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// `text` as HTML shows it.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

fn badge(passed: Option<bool>) -> &'static str {
    match passed {
        Some(true) => "<span class=\"badge good\">as expected</span>",
        Some(false) => "<span class=\"badge bad\">not as expected</span>",
        None => "",
    }
}

fn index(sections: &[Section]) -> String {
    let mut out = "<nav><h1>Rehearsals</h1>\n<ol>\n".to_owned();
    for (number, section) in sections.iter().enumerate() {
        let (title, badge) = (escape(&section.title), badge(section.passed));
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(out, "<li><a href=\"#s{number}\">{title}</a> {badge}</li>");
    }
    out.push_str("</ol></nav>\n");
    out
}

fn section(number: usize, section: &Section) -> String {
    let chronicle = &section.chronicle;
    let headline = Headline::of(chronicle);
    let mut out = format!(
        "<section id=\"s{number}\">\n<header><h2>{} {}</h2>\n",
        escape(&section.title),
        badge(section.passed)
    );
    if !section.about.is_empty() {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escape(&section.about));
    }
    let _ = writeln!(
        out,
        "<p class=\"meta\">{}, {} of virtual time, {}</p></header>",
        escape(&chronicle.start.to_string()),
        span(Duration::from_secs(chronicle.end.as_secs())),
        words::count(chronicle.replicas, "replica", "replicas"),
    );
    out.push_str(&wrong(&section.wrong));
    let _ = writeln!(
        out,
        "<div class=\"headline\">\n<p><b>Who led.</b> {}</p>\n<p><b>What ran.</b> {}</p>\n\
         <p><b>What was refused.</b> {}</p>\n<p><b>What comes next.</b> {}</p>\n</div>",
        escape(&headline.led),
        escape(&headline.ran),
        escape(&headline.refused),
        escape(&headline.next),
    );
    out.push_str(&chart(chronicle));
    out.push_str(&works(chronicle));
    out.push_str(&takeovers(chronicle));
    out.push_str(&events(chronicle));
    let _ = writeln!(
        out,
        "<p class=\"again\">Play it again: <code>{}</code></p>\n</section>",
        escape(&section.command)
    );
    out
}

fn wrong(sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let mut out = "<div class=\"wrong\"><h3>Not as expected</h3><ul>\n".to_owned();
    for sentence in sentences {
        let _ = writeln!(out, "<li>{}</li>", escape(sentence));
    }
    out.push_str("</ul></div>\n");
    out
}

fn chart(chronicle: &Chronicle) -> String {
    let axis = Axis::new(chronicle.end, moments(chronicle));
    let of_hour = chronicle.start.as_second().rem_euclid(86_400);
    let ticks = axis.ticks(Duration::from_secs(u64::try_from(of_hour).unwrap_or(0)));
    let mut lines = String::new();
    for (from, to) in &axis.quiet {
        let (left, right) = (axis.place(*from), axis.place(*to));
        let _ = write!(
            lines,
            "<i class=\"q\" style=\"left:{left:.2}%;width:{:.2}%\"></i>",
            right - left
        );
    }
    for tick in &ticks {
        let _ = write!(lines, "<i class=\"g\" style=\"left:{:.2}%\"></i>", axis.place(*tick));
    }
    let mut out = "<h3>Timeline</h3>\n<div class=\"chart\">\n".to_owned();
    out.push_str(&axis_row(chronicle, &axis, &ticks));
    let draw = Draw { chronicle, axis: &axis };
    for lane in draw.lanes() {
        out.push_str(&lane_row(&lane, &lines));
    }
    out.push_str("</div>\n");
    let hidden = chronicle.works.len().saturating_sub(lanes::MAX_WORK_LANES);
    if hidden > 0 {
        let _ =
            writeln!(out, "<p class=\"meta\">{hidden} more occurrences are in the table only.</p>");
    }
    out
}

/// The labels of the axis. A telephone shows the major ones.
fn axis_row(chronicle: &Chronicle, axis: &Axis, ticks: &[Duration]) -> String {
    /// Room that a label needs on a telephone, in percent of the width.
    const MAJOR_DISTANCE: f64 = 20.0;
    let mut out =
        "<div class=\"lane axis\"><div class=\"label\"><b>Time</b><span>UTC, and seconds \
                   since the start</span></div><div class=\"track\">"
            .to_owned();
    let mut last_major = f64::NEG_INFINITY;
    for tick in ticks {
        let place = axis.place(*tick);
        let major = place - last_major >= MAJOR_DISTANCE && place <= 86.0;
        if major {
            last_major = place;
        }
        let class = if major { "tick major" } else { "tick" };
        let _ = write!(
            out,
            "<span class=\"{class}\" style=\"left:{place:.2}%\">{}<small>{}</small></span>",
            escape(&wall(chronicle, *tick)),
            virtual_time(*tick)
        );
    }
    for (from, to) in &axis.quiet {
        let (left, right) = (axis.place(*from), axis.place(*to));
        let gap = span(Duration::from_secs(to.saturating_sub(*from).as_secs()));
        let _ = write!(
            out,
            "<span class=\"quiet\" style=\"left:{left:.2}%;width:{:.2}%\" title=\"{gap} without events, \
             drawn shorter\">≈<small>{gap}</small></span>",
            right - left,
        );
    }
    out.push_str("</div></div>\n");
    out
}

fn lane_row(lane: &Lane, lines: &str) -> String {
    let tall = if lane.tall { " tall" } else { "" };
    let mut out = format!(
        "<div class=\"lane{tall}\"><div class=\"label\"><b>{}</b><span>{}</span></div>\
         <div class=\"track\">{lines}",
        escape(&lane.label),
        escape(&lane.note)
    );
    for piece in &lane.pieces {
        let _ = write!(
            out,
            "<span class=\"p {}\" style=\"left:{:.2}%;width:{:.2}%\" title=\"{}\"><em>{}</em></span>",
            escape(&piece.class),
            piece.from,
            piece.to - piece.from,
            escape(&piece.title),
            escape(&piece.text)
        );
    }
    for marker in &lane.markers {
        let _ = write!(
            out,
            "<span class=\"m {}\" style=\"left:{:.2}%\" title=\"{}\">{}</span>",
            marker.class,
            marker.at,
            escape(&marker.title),
            escape(&marker.text)
        );
    }
    out.push_str("</div></div>\n");
    out
}

/// A table; cells are HTML already.
fn table(
    title: &str,
    class: &str,
    header: &[&str],
    rows: &[(&'static str, Vec<String>)],
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out =
        format!("<h3>{title}</h3>\n<div class=\"scroll\"><table class=\"{class}\"><thead><tr>");
    for name in header {
        let _ = write!(out, "<th>{name}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for (class, cells) in rows.iter().take(MAX_ROWS) {
        let _ = write!(out, "<tr class=\"{class}\">");
        for (cell, name) in cells.iter().zip(header) {
            let _ = write!(out, "<td data-h=\"{name}\">{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if rows.len() > MAX_ROWS {
        let _ = writeln!(out, "<p class=\"meta\">{} more rows.</p>", rows.len() - MAX_ROWS);
    }
    out
}

fn works(chronicle: &Chronicle) -> String {
    let row = |work: &Work| {
        let runs = chronicle.runs.iter().filter(|run| run.is_of(work));
        let released: Vec<String> = runs
            .filter_map(|run| {
                let at = wall(chronicle, run.released?);
                let number = run.name.rsplit('-').next().unwrap_or_default().to_owned();
                let ended = run.ended.map(|end| format!(" to {}", wall(chronicle, end)));
                let how = &run.how;
                Some(format!("{number}: {at}{}, {how}", ended.unwrap_or_default()))
            })
            .collect();
        let last = work.changes.last();
        let state = last.map_or(String::new(), |last| {
            let reason = if last.reason.is_empty() || last.reason == last.state {
                String::new()
            } else {
                format!(" · {}", last.reason)
            };
            format!("{}{reason}", last.state)
        });
        let message = last.map_or("", |last| last.message.as_str());
        let gone =
            work.gone.map_or(String::new(), |at| format!(" (deleted at {})", wall(chronicle, at)));
        let class = match work.state() {
            "Unresolved" => "uncertain",
            "Failed" => "bad",
            _ => "",
        };
        let runs = if released.is_empty() { "none".to_owned() } else { released.join("; ") };
        let cells = vec![
            format!("<b>{}</b>", escape(&work.key.name)),
            format!("{}{}", escape(&state), escape(&gone)),
            escape(&runs),
            escape(message),
        ];
        (class, cells)
    };
    let rows: Vec<_> = chronicle.works.iter().map(row).collect();
    let (one, many) = words::nouns(chronicle);
    let heads = [&words::capital(one), "At the end", "Runs", "In words"];
    table(&words::capital(many), "works", &heads, &rows)
}

/// What each new leader found.
fn takeovers(chronicle: &Chronicle) -> String {
    let row = |trace: &std::sync::Arc<Value>| {
        let (spec, status) = (&trace["spec"], &trace["status"]);
        let text = |value: &Value| escape(value.as_str().unwrap_or_default());
        let holder = spec["holder"].as_str().unwrap_or_default();
        let number = |name: &str| {
            status[name].as_i64().map_or_else(|| "–".to_owned(), |number| number.to_string())
        };
        let items = status["items"].as_array().map_or(String::new(), |items| {
            let item = |item: &Value| {
                let object = item["object"].as_str().unwrap_or_default();
                format!("{object}: {}", item["message"].as_str().unwrap_or_default())
            };
            escape(&items.iter().map(item).collect::<Vec<_>>().join("; "))
        });
        let cells = vec![
            format!("<b>{}</b>", spec["epoch"].as_i64().unwrap_or(0)),
            escape(holder.split('/').next().unwrap_or_default()),
            text(&spec["gained"]),
            number("resumed"),
            number("reconciled"),
            number("preserved"),
            number("uncertain"),
            text(&status["duration"]),
            items,
        ];
        ("", cells)
    };
    let rows: Vec<_> = chronicle.traces.iter().map(row).collect();
    let header = [
        "Epoch",
        "Leader",
        "Lease gained",
        "Resumed",
        "Reconciled",
        "Preserved",
        "Uncertain",
        "Took",
        "Uncertain items",
    ];
    let note = "<p class=\"meta\">Resumed: nothing was running. Reconciled: the provider was asked and \
                answered. Preserved: it was over and was not touched. Uncertain: nobody could say.</p>\n";
    let table = table("What each new leader found", "takeovers", &header, &rows);
    if table.is_empty() { table } else { table + note }
}

fn events(chronicle: &Chronicle) -> String {
    let numbers = numbered(chronicle);
    let mut next = numbers.iter().peekable();
    let rows: Vec<(&'static str, Vec<String>)> = chronicle
        .story
        .iter()
        .filter(|entry| !is_noise(entry))
        .map(|entry| {
            let number = next.next_if(|(_, one)| std::ptr::eq(*one, entry));
            let number = number.map_or(String::new(), |(number, _)| {
                format!("<span class=\"m cause\">{number}</span>")
            });
            let class = match &entry.what {
                What::Refused(refused) if words::is_telling(refused) => "refusal",
                What::Refused(_) => "minor",
                What::Leads { .. } => "leads",
                _ => "",
            };
            let cells = vec![
                number,
                escape(&wall(chronicle, entry.at)),
                virtual_time(entry.at),
                escape(&sentence(entry)),
            ];
            (class, cells)
        })
        .collect();
    table("Events", "events", &["#", "UTC", "Since start", "What"], &rows)
}

/// Whether an entry tells nothing: candidates for the Lease that came second, and the end of a term
/// that the next entry tells again.
fn is_noise(entry: &Entry) -> bool {
    match &entry.what {
        What::Refused(refused) => !refused.injected && words::is_campaign(refused),
        What::TermEnded { why, .. } => why.ends_with("took over"),
        _ => false,
    }
}
