//! Durations as Go writes them: `300ms`, `1.5h`, `-2h45m`.

use std::time::Duration;

use jiff::SignedDuration;

/// Longest duration of a scenario: as long as the longest month. A history of that length has some
/// three million renewals of the Lease and takes minutes.
pub(super) const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

/// Units and their nanoseconds. Of two that begin alike the longer one comes first.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];
/// Longest that can be read, in nanoseconds: what Go can hold.
const MAX_NANOS: f64 = 9.2e18;

/// Reads a duration; `None` if it is none.
pub(super) fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits == "0" {
        return Some(SignedDuration::ZERO);
    }
    if digits.is_empty() {
        return None;
    }
    let mut rest = digits;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        if !number.contains(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (unit, scale) = UNITS.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        nanos += number.parse::<f64>().ok()? * scale;
        rest = &after[unit.len()..];
    }
    if nanos > MAX_NANOS {
        return None;
    }
    #[allow(clippy::cast_possible_truncation)]
    // bounded above, and a fraction of a nanosecond is nothing
    let duration = SignedDuration::from_nanos(nanos.round() as i64);
    Some(if negative { -duration } else { duration })
}

/// Virtual time for people: `130s`, `2m 10.5s` would be `130.5s`.
pub fn show(at: Duration) -> String {
    let millis = at.as_millis();
    let (seconds, rest) = (millis / 1000, millis % 1000);
    if rest == 0 {
        return format!("{seconds}s");
    }
    let fraction = format!("{rest:03}");
    format!("{seconds}.{}s", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("5s", 5_000),
            ("119.5s", 119_500),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("-2h45m", -9_900_000),
            ("+10ms", 10),
            (".5s", 500),
            ("1.s", 1_000),
            ("1000us", 1),
            ("1000µs", 1),
            ("1000000ns", 1),
            ("5m", 300_000),
            ("1h1m1s1ms", 3_661_001),
        ] {
            assert_eq!(parse(text), Some(SignedDuration::from_millis(millis)), "{text}");
        }
        for text in ["", "-", "5", "s", ".s", "5 s", "1d", "5S", "1.2.3s", "1e3s", "9999999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn virtual_time_is_shown_in_seconds() {
        let shown = [0, 130_000, 119_500, 1_050, 7].map(|ms| show(Duration::from_millis(ms)));
        assert_eq!(shown, ["0s", "130s", "119.5s", "1.05s", "0.007s"]);
    }
}
