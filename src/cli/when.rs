//! Times as people write and read them on the command line.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::time::manifest::parse_time;

/// Longest time that a command may be told: ten years, so that a slip of the keyboard is noticed.
const LONGEST: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);
/// Seconds of a day.
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A moment, or how long from now it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// A moment.
    At(Timestamp),
    /// So long from now.
    In(SignedDuration),
}

impl When {
    /// The moment, in whole seconds, if it is after `now`.
    pub fn after(self, now: Timestamp) -> Option<Timestamp> {
        let at = match self {
            Self::At(at) => at,
            Self::In(time) => now.checked_add(time).ok()?,
        };
        Timestamp::from_second(at.as_second()).ok().filter(|at| *at > now)
    }
}

/// Reads a time like 2026-11-29T02:00:00Z, or a duration like 90m or 2h.
pub fn parse_when(text: &str) -> Result<When, String> {
    if let Ok(at) = parse_time(text) {
        return Ok(When::At(at));
    }
    duration(text).map(When::In).ok_or_else(|| {
        format!("{text:?} is no time like 2026-11-29T02:00:00Z and no duration like 90m or 2h")
    })
}

/// Reads a duration like 90s, 5m or 1h30m.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text)
        .and_then(|time| Duration::try_from(time).ok())
        .ok_or_else(|| format!("{text:?} is no duration like 90s, 5m or 1h30m"))
}

/// Reads a duration of whole seconds like 10s or 1m, and gives the seconds.
pub fn parse_seconds(text: &str) -> Result<u32, String> {
    duration(text)
        .filter(|time| time.subsec_nanos() == 0)
        .and_then(|time| u32::try_from(time.as_secs()).ok())
        .ok_or_else(|| format!("{text:?} is no duration of whole seconds like 10s or 1m"))
}

/// Reads a duration of whole days like 90d or 48h, and gives the days.
pub fn parse_days(text: &str) -> Result<u32, String> {
    let given = match text.strip_suffix('d') {
        Some(days) if !days.starts_with('+') => days.parse().ok(),
        Some(_) => None,
        None => duration(text)
            .filter(|time| time.subsec_nanos() == 0 && time.as_secs() % DAY_SECONDS == 0)
            .and_then(|time| u32::try_from(time.as_secs() / DAY_SECONDS).ok()),
    };
    given.ok_or_else(|| format!("{text:?} is no duration of whole days like 90d or 48h"))
}

fn duration(text: &str) -> Option<SignedDuration> {
    let time: SignedDuration = text.parse().ok()?;
    (time.is_positive() && time <= LONGEST).then_some(time)
}

/// How long it is from `now` until `at`, in the two largest units: 3h 20m, 45s.
pub fn until(now: Timestamp, at: Timestamp) -> String {
    let secs = at.duration_since(now).as_secs().max(0);
    let (days, hours, mins) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    match (days, hours, mins) {
        (0, 0, 0) => format!("{secs}s"),
        (0, 0, _) => format!("{mins}m {}s", secs % 60),
        (0, ..) => format!("{hours}h {mins}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_moment_is_a_time_or_a_duration_from_now() {
        let now = at("2026-11-29T02:00:00.5Z");
        for (text, wanted) in [
            ("2026-11-29T03:00:00+00:00", Some("2026-11-29T03:00:00Z")),
            ("90m", Some("2026-11-29T03:30:00Z")),
            ("1h30m", Some("2026-11-29T03:30:00Z")),
            ("2026-11-29T02:00:00Z", None),
        ] {
            assert_eq!(parse_when(text).unwrap().after(now), wanted.map(at), "{text}");
        }
        for wrong in ["", "tomorrow", "-5m", "0s", "100000000h", "2026-13-01T00:00:00Z"] {
            assert!(parse_when(wrong).is_err(), "{wrong}");
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
    }

    #[test]
    fn whole_seconds_and_days_are_read_with_their_unit() {
        assert_eq!(["10s", "1m", "1m30s"].map(parse_seconds), [Ok(10), Ok(60), Ok(90)]);
        assert_eq!(["90d", "48h", "0d"].map(parse_days), [Ok(90), Ok(2), Ok(0)]);
        for wrong in ["", "10", "-1s", "1500ms", "100000000h", "ten"] {
            let error = parse_seconds(wrong).unwrap_err();
            assert!(error.contains("like 10s or 1m"), "{error}");
        }
        for wrong in ["", "d", "90", "-1d", "+1d", "1.5d", "36h", "99999999999d", "ten"] {
            let error = parse_days(wrong).unwrap_err();
            assert!(error.contains("like 90d or 48h"), "{error}");
        }
    }

    #[test]
    fn the_two_largest_units_are_shown() {
        let now = at("2026-11-29T02:00:00Z");
        for (later, wanted) in [
            ("2026-11-29T02:00:45Z", "45s"),
            ("2026-11-29T02:03:20Z", "3m 20s"),
            ("2026-11-29T05:20:59Z", "3h 20m"),
            ("2026-12-01T03:00:00Z", "2d 1h"),
            ("2026-11-29T01:00:00Z", "0s"),
        ] {
            assert_eq!(until(now, at(later)), wanted);
        }
    }
}
