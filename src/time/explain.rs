//! What people read beside an instant: its local time, and what a change of the clocks did to it.

use jiff::Timestamp;

use super::{
    DstPolicy, IntendedTime, Schedule,
    calendar::{Date, MINUTE},
    cron::CronFields,
    walk::Walk,
    zone::{Begun, Stretch},
};

/// Seconds of a day.
const DAY: i64 = 24 * 60 * MINUTE;

/// Most gaps that a note looks for between two instants: 20 years with four changes each.
const MOST_GAPS: usize = 80;

impl Schedule {
    /// The local time of an instant, RFC 3339 with the offset then in force.
    pub fn local_time(&self, at: IntendedTime) -> String {
        let utc = at.timestamp().as_second();
        let offset = self.zone().offset_seconds(at.timestamp());
        let (sign, size) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
        let local = utc + offset;
        let (hours, minutes, seconds) = (size / 3600, size / 60 % 60, size % 60);
        let odd = if seconds == 0 { String::new() } else { format!(":{seconds:02}") }; // before 1972
        let second = local.rem_euclid(MINUTE);
        format!("{}T{}:{second:02}{sign}{hours:02}:{minutes:02}{odd}", date(local), clock(local))
    }

    /// What a change of the clocks did to instant `at`, or left out between `previous` and it;
    /// empty if nothing.
    pub fn note(&self, previous: Timestamp, at: IntendedTime) -> String {
        let (Some(walk), Some(fields)) = (self.walk(), self.fields()) else {
            return String::new();
        };
        let second = at.timestamp().as_second();
        let mut notes = Vec::new();
        if self.policy() == DstPolicy::CronJob && !fields.covers_all_hours() {
            notes.extend(self.left_out(fields, &walk, (previous.as_second(), second)));
        }
        if !walk.follows_real_time() {
            notes.extend(walk.gap_at(second).and_then(|gap| at_the_end_of(gap, fields)));
        }
        notes.extend(self.twice(second, walk.follows_real_time()));
        notes.join("; ")
    }

    /// Says that a local time happens twice, if it does.
    fn twice(&self, second: i64, real: bool) -> Option<String> {
        let Stretch { offset, end, begun } = self.zone().stretch(second);
        let local = second + offset;
        let was_before = begun.is_some_and(|Begun { reached, .. }| reached > local);
        let comes_again = end.is_some_and(|end| {
            let after = self.zone().stretch(end);
            let again = local - after.offset;
            again >= end && after.end.is_none_or(|end| again < end)
        });
        let which = match (was_before, comes_again, real) {
            (_, true, false) => "runs at the first",
            (_, true, true) => "this is the first",
            (true, false, _) => "this is the second",
            (false, false, _) => return None,
        };
        Some(format!("{} happens twice on this day; {which}", clock(local)))
    }

    /// Says which matching local times did not exist after one second and up to another.
    fn left_out(
        &self,
        fields: &CronFields,
        walk: &Walk<'_>,
        (after, until): (i64, i64),
    ) -> Option<String> {
        let ends = std::iter::successors(self.zone().stretch(after).end, |&end| {
            self.zone().stretch(end).end
        });
        let gaps = ends.take_while(|&end| end <= until).take(MOST_GAPS);
        let lost: Vec<String> = gaps
            .filter_map(|end| walk.gap_at(end))
            .filter_map(|(first, end)| Lost::of(fields, first, end))
            .map(|lost| {
                format!("{} {} not exist and {} left out", lost.text(None), lost.does(), lost.is())
            })
            .collect();
        (!lost.is_empty()).then(|| lost.join("; "))
    }
}

/// Says what the instant at the end of a gap stands for, if a matching local time was lost.
fn at_the_end_of((first, end): (i64, i64), fields: &CronFields) -> Option<String> {
    let lost = Lost::of(fields, first, end)?;
    let runs = if fields.first_local(end, end + 1).is_some() {
        format!("runs together with {}", clock(end))
    } else if lost.count == 1 {
        "runs at the end of the gap".to_owned()
    } else {
        "run once, at the end of the gap".to_owned()
    };
    Some(format!(
        "{} {} not exist{}; {runs}",
        lost.text(Some(end)),
        lost.does(),
        lost.on_this_day(end)
    ))
}

/// Matching local times that clocks jumped over.
struct Lost {
    first: i64,
    last: i64,
    count: i64,
}

impl Lost {
    fn of(fields: &CronFields, first: i64, end: i64) -> Option<Self> {
        Some(Self {
            first: fields.first_local(first, end)?,
            last: fields.last_local(first, end)?,
            count: fields.count_local(first, end),
        })
    }

    /// Names them, with the date unless it is the one of `today`.
    fn text(&self, today: Option<i64>) -> String {
        let name = |local: i64| match today {
            Some(today) if today.div_euclid(DAY) == local.div_euclid(DAY) => clock(local),
            _ => format!("{} on {}", clock(local), date(local)),
        };
        match self.count {
            1 => name(self.first),
            2 => format!("{} and {}", name(self.first), name(self.last)),
            n => format!("{n} local times from {} to {}", name(self.first), name(self.last)),
        }
    }

    fn does(&self) -> &'static str {
        if self.count == 1 { "does" } else { "do" }
    }

    fn is(&self) -> &'static str {
        if self.count == 1 { "is" } else { "are" }
    }

    fn on_this_day(&self, today: i64) -> &'static str {
        if self.last.div_euclid(DAY) == today.div_euclid(DAY) { " on this day" } else { "" }
    }
}

/// `02:30`.
fn clock(local: i64) -> String {
    let minute = local.rem_euclid(DAY) / MINUTE;
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

/// `2026-03-08`.
fn date(local: i64) -> String {
    let Date { year, month, day } = Date::from_days(local.div_euclid(DAY));
    format!("{year:04}-{month:02}-{day:02}")
}
