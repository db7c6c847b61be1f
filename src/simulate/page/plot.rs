//! Plots that fit every width: lines and areas are SVG that is stretched, labels are text beside it.

use std::fmt::Write as _;

use crate::sim::page::escape;

/// Size of the plane in which lines are drawn.
const PLANE: f64 = 1000.0;
/// Most points of a line: twice what a wide screen can tell apart.
const MAX_POINTS: usize = 600;
/// Most labels at an axis.
const MAX_TICKS: i64 = 6;
/// From this part of the width on, in percent, a label stands left of its place.
const RIGHT_EDGE: f64 = 92.0;

/// One line of a plot.
pub(super) struct Series {
    /// What it shows, for the legend.
    pub(super) name: &'static str,
    /// Its look.
    pub(super) class: &'static str,
    /// Whether the space below it is filled.
    pub(super) area: bool,
    /// Places from left to right, with values; none where nothing is known.
    pub(super) points: Vec<(i64, Option<i64>)>,
}

/// What numbers of an axis are.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// Counts.
    Count,
    /// Milliseconds, shown as time spans.
    Span,
    /// Percent of 0 to 100.
    Percent,
    /// Milliseconds since this moment since the epoch, shown as a clock.
    Clock(i64),
}

/// A plot with its words.
pub(super) struct Plot {
    /// Its heading.
    pub(super) title: &'static str,
    /// How to read it, in a sentence or two.
    pub(super) caption: String,
    /// What the horizontal axis is, and its end.
    pub(super) across: (Unit, i64),
    /// What the vertical axis is.
    pub(super) up: Unit,
    /// A level that is drawn as a line, with its name.
    pub(super) level: Option<(i64, &'static str)>,
    /// The lines, the first one at the back.
    pub(super) series: Vec<Series>,
}

impl Plot {
    /// The plot as HTML.
    pub(super) fn html(&self) -> String {
        let values = self.series.iter().flat_map(|series| &series.points);
        let highest = values.filter_map(|(_, value)| *value).max().unwrap_or(0);
        let highest = highest.max(self.level.map_or(0, |(level, _)| level)).max(1);
        let ticks = ticks(self.up, highest);
        let top = ticks.last().map_or(highest, |(value, _)| *value).max(highest);
        let mut out = format!("<figure class=\"plot\">\n<h3>{}</h3>\n", self.title);
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(out, "<p class=\"meta\">{}</p>", escape(&self.caption));
        out.push_str(&self.legend());
        let _ = write!(
            out,
            "<div class=\"plane\"><div class=\"ys\">{}</div><div class=\"area\">\
             <svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{}\">",
            labels(&ticks, top, true),
            escape(self.title)
        );
        for (value, _) in &ticks {
            let y = PLANE - place(*value, top);
            let _ = write!(out, "<path class=\"grid\" d=\"M0 {y:.1}H1000\"/>");
        }
        for series in &self.series {
            out.push_str(&self.line(series, top));
        }
        if let Some((level, _)) = self.level {
            let y = PLANE - place(level, top);
            let _ = write!(out, "<path class=\"level\" d=\"M0 {y:.1}H1000\"/>");
        }
        let (unit, end) = self.across;
        let across = labels(&clock_or(unit, end), end, false);
        let _ = writeln!(out, "</svg></div><div class=\"xs\">{across}</div></div>\n</figure>");
        out
    }

    fn legend(&self) -> String {
        let mut out = "<p class=\"legend\">".to_owned();
        for series in &self.series {
            let _ = write!(out, "<span class=\"{}\">{}</span>", series.class, escape(series.name));
        }
        if let Some((_, name)) = self.level {
            let _ = write!(out, "<span class=\"level\">{}</span>", escape(name));
        }
        out.push_str("</p>\n");
        out
    }

    /// A line, and what is below it if it is an area. It is cut where nothing is known.
    fn line(&self, series: &Series, top: i64) -> String {
        let mut out = String::new();
        for part in thin(&series.points).split(|(_, value)| value.is_none()) {
            let mut path = String::new();
            for (at, value) in part {
                let (x, y) = (place(*at, self.across.1), PLANE - place(value.unwrap_or(0), top));
                let letter = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{letter}{x:.1} {y:.1}");
            }
            let (Some((first, _)), Some((last, _))) = (part.first(), part.last()) else { continue };
            if series.area {
                let (from, to) = (place(*first, self.across.1), place(*last, self.across.1));
                let _ = write!(
                    out,
                    "<path class=\"fill {}\" d=\"{path}L{to:.1} 1000L{from:.1} 1000Z\"/>",
                    series.class
                );
            }
            let _ = write!(out, "<path class=\"line {}\" d=\"{path}\"/>", series.class);
        }
        out
    }
}

/// So many points that each can be seen; of several the highest stays, because peaks matter.
fn thin(points: &[(i64, Option<i64>)]) -> Vec<(i64, Option<i64>)> {
    let size = points.len().div_ceil(MAX_POINTS).max(1);
    points.chunks(size).filter_map(|chunk| chunk.iter().copied().max_by_key(|(_, v)| *v)).collect()
}

/// A place on the plane.
fn place(value: i64, of: i64) -> f64 {
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let share = value as f64 / of.max(1) as f64;
    share.clamp(0.0, 1.0) * PLANE
}

/// Labels of an axis; those that a telephone has no room for are marked.
fn labels(ticks: &[(i64, String)], end: i64, up: bool) -> String {
    let mut out = String::new();
    for (number, (value, text)) in ticks.iter().enumerate() {
        let percent = place(*value, end) / 10.0;
        let minor = if number % 2 == 1 { " minor" } else { "" };
        let edge = if percent > RIGHT_EDGE { " right" } else { "" };
        let _ = if up {
            write!(out, "<span style=\"bottom:{percent:.1}%\">{text}</span>")
        } else {
            write!(out, "<span class=\"x{minor}{edge}\" style=\"left:{percent:.1}%\">{text}</span>")
        };
    }
    out
}

fn clock_or(unit: Unit, end: i64) -> Vec<(i64, String)> {
    match unit {
        Unit::Clock(from) => clock(from, end),
        unit => ticks(unit, end),
    }
}

/// Steps of spans, in milliseconds: seconds, minutes, hours, days.
const SPANS: [i64; 18] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    1_200_000,
    1_800_000,
    3_600_000,
    7_200_000,
    14_400_000,
    28_800_000,
    86_400_000,
    172_800_000,
];

/// How many parts of that size hold it.
fn parts(whole: i64, part: i64) -> i64 {
    (whole + part - 1) / part.max(1)
}

/// The smallest step of which few are enough.
fn step(steps: impl Iterator<Item = i64>, highest: i64) -> i64 {
    let mut last = 1;
    for step in steps {
        last = step;
        if parts(highest, step) <= MAX_TICKS {
            return step;
        }
    }
    last * parts(highest, last * MAX_TICKS)
}

/// Round values from 0 to the first one that is not below `highest`.
fn ticks(unit: Unit, highest: i64) -> Vec<(i64, String)> {
    let powers = (0..15).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i64.pow(power)));
    let step = match unit {
        Unit::Count => step(powers, highest),
        Unit::Percent => return (0..=4).map(|n| (n * 25, format!("{} %", n * 25))).collect(),
        Unit::Span | Unit::Clock(_) => step(SPANS.into_iter(), highest),
    };
    let label = |value: i64| match unit {
        Unit::Span | Unit::Clock(_) => short_span(value),
        Unit::Count | Unit::Percent => value.to_string(),
    };
    (0..=parts(highest, step)).map(|n| (n * step, label(n * step))).collect()
}

/// A span of a few characters: `0`, `30 s`, `5 min`, `1 h 30`, `2 d`.
fn short_span(millis: i64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => "0".to_owned(),
        1..60 => format!("{seconds} s"),
        60..3_600 if seconds % 60 == 0 => format!("{} min", seconds / 60),
        60..3_600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        3_600..172_800 if seconds % 3_600 == 0 => format!("{} h", seconds / 3_600),
        3_600..172_800 => format!("{} h {:02}", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Round times of the clock: hours of the day, or days.
fn clock(from: i64, end: i64) -> Vec<(i64, String)> {
    const HOUR: i64 = 3_600_000;
    let steps = [1, 2, 3, 4, 6, 12, 24, 48, 96, 168].map(|hours| hours * HOUR);
    let steps = [600_000, 1_800_000].into_iter().chain(steps);
    let step = step(steps, end);
    let first = (step - from.rem_euclid(step)).rem_euclid(step);
    let label = |at: i64| {
        let time = super::super::play::at(from + at).to_zoned(jiff::tz::TimeZone::UTC);
        let midnight = (from + at).rem_euclid(24 * HOUR) == 0;
        let form = if midnight && at > 0 { "%b %-d" } else { "%H:%M" };
        time.strftime(form).to_string()
    };
    (0..=MAX_TICKS + 1)
        .map(|n| first + n * step)
        .filter(|at| *at <= end)
        .map(|at| (at, label(at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_round_few_and_reach_the_top() {
        for (unit, highest, last) in [
            (Unit::Count, 1, "1"),
            (Unit::Count, 873, "1000"),
            (Unit::Count, 64, "80"),
            (Unit::Span, 95_000, "1:40 min"),
            (Unit::Span, 3_000_000, "50 min"),
            (Unit::Span, 40_000_000, "12 h"),
        ] {
            let ticks = ticks(unit, highest);
            let (value, label) = ticks.last().unwrap();
            assert!(*value >= highest && (2..=8).contains(&ticks.len()), "{highest}: {ticks:?}");
            assert_eq!(label, last, "{highest}: {ticks:?}");
        }
        let day = clock(1_795_996_800_000, 90_000_000);
        let labels: Vec<&str> = day.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["00:00", "06:00", "12:00", "18:00", "Dec 1"]);
    }

    #[test]
    fn peaks_survive_when_points_are_thinned() {
        let points: Vec<(i64, Option<i64>)> =
            (0..5_000).map(|n| (n, Some(if n == 1_234 { 9 } else { 1 }))).collect();
        let thin = thin(&points);
        assert!(thin.len() <= MAX_POINTS && thin.contains(&(1_234, Some(9))));
    }
}
