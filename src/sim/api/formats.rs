//! Formats of strings, as the API server reads them.

use std::sync::OnceLock;

use regex::Regex;

fn pattern(cell: &'static OnceLock<Regex>, text: &str) -> &'static Regex {
    cell.get_or_init(|| Regex::new(text).expect("the literal pattern is a regular expression"))
}

/// Whether the calendar has the day `YYYY-MM-DD`.
fn is_day(text: &str) -> bool {
    static DAY: OnceLock<Regex> = OnceLock::new();
    let Some(parts) = pattern(&DAY, "^([0-9]{4})-([0-9]{2})-([0-9]{2})$").captures(text) else {
        return false;
    };
    let number = |index: usize| parts[index].parse::<u32>().unwrap_or(0);
    let (year, month, day) = (number(1), number(2), number(3));
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// `format: date-time` of a schema. After `IsDateTime` of the package `strfmt` of kube-openapi.
pub(super) fn is_date_time(text: &str) -> bool {
    static TIME: OnceLock<Regex> = OnceLock::new();
    let text = text.to_lowercase();
    let Some((day, time)) = text.split_once('t') else { return false };
    let form = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    let time = pattern(&TIME, form).captures(time);
    is_day(day) && time.is_some_and(|time| &time[1] <= "23" && &time[2] <= "59" && &time[3] <= "59")
}

/// `format.datetime()` of CEL.
pub(super) fn is_rfc3339(text: &str) -> bool {
    is_date_time(text)
}

/// A time with exactly six digits after the second, as Leases and events carry it.
pub(super) fn is_micro_time(text: &str) -> bool {
    let fraction = text.split_once('.').map(|(_, fraction)| fraction);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    is_date_time(text) && fraction.is_some_and(|fraction| digits(fraction) == 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_from_other_texts() {
        for yes in [
            "2026-11-29T02:00:00Z",
            "2028-02-29T23:59:59.123456Z",
            "2026-11-29t02:00:00+01:00",
            "0000-01-01T00:00:00Z",
        ] {
            assert!(is_date_time(yes), "{yes}");
        }
        for no in [
            "",
            "2026-11-29",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-29T24:00:00Z",
            "2026-11-29T00:60:00Z",
            "2026-11-29T00:00:00",
            "2026-11-29T00:00Z",
            "x2026-11-29T00:00:00Z",
        ] {
            assert!(!is_date_time(no), "{no}");
        }
        assert!(is_micro_time("2026-11-29T02:00:00.000001Z"));
        assert!(!is_micro_time("2026-11-29T02:00:00.5Z") && !is_micro_time("2026-11-29T02:00:00Z"));
    }
}
