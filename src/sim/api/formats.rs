//! Formats of strings, as the API server reads them.
//!
//! Read by hand: every write of a history has some twenty of them.

/// The number that these two bytes are, if both are digits.
fn two_digits(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some((tens - b'0') * 10 + (ones - b'0')),
        _ => None,
    }
}

/// Whether the calendar has the day `YYYY-MM-DD`.
fn is_day(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let numbers = [&bytes[0..2], &bytes[2..4], &bytes[5..7], &bytes[8..10]].map(two_digits);
    let [Some(century), Some(of_century), Some(month), Some(day)] = numbers else { return false };
    let year = u32::from(century) * 100 + u32::from(of_century);
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

/// Whether the text is `hh:mm`, `hh:mm:ss`: as many numbers as bounds, none above its own.
fn is_clock(text: &[u8], most: &[u8]) -> bool {
    let mut parts = text.split(|byte| *byte == b':');
    let fits = |most: &u8| parts.next().and_then(two_digits).is_some_and(|is| is <= *most);
    most.iter().all(fits) && parts.next().is_none()
}

/// `z`, or an offset; hours and minutes of an offset are any two digits.
fn is_zone(text: &str) -> bool {
    match text.as_bytes() {
        [b'z' | b'Z'] => true,
        [b'+' | b'-', offset @ ..] => is_clock(offset, &[99, 99]),
        _ => false,
    }
}

/// `format: date-time` of a schema. After `IsDateTime` of the package `strfmt` of kube-openapi, whose
/// pattern takes any sign between the seconds and their fraction.
pub(super) fn is_date_time(text: &str) -> bool {
    let Some((day, time)) = text.split_once(['t', 'T']) else { return false };
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    if !is_day(day) || !is_clock(clock.as_bytes(), &[23, 59, 59]) {
        return false;
    }
    let mut signs = rest.chars();
    let fraction = signs.next().is_some_and(|sign| sign != '\n');
    let zone = signs.as_str().trim_start_matches(|sign: char| sign.is_ascii_digit());
    is_zone(rest) || (fraction && zone.len() < signs.as_str().len() && is_zone(zone))
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
            "2026-11-29t02:00:00z",
            "2026-11-29T02:00:00,5-99:99",
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
            "2026-11-29T00:00:00.Z",
            "2026-11-29T00:00:00.5",
            "2026-11-29T00:00:00+1:00",
            "2026-11-29T00:00:60Z",
            "2026-11-29T00:00:00Z ",
            "2026-1l-29T00:00:00Z",
            "2026-11-29T0\u{e9}:00:00Z",
        ] {
            assert!(!is_date_time(no), "{no}");
        }
        assert!(is_micro_time("2026-11-29T02:00:00.000001Z"));
        assert!(!is_micro_time("2026-11-29T02:00:00.5Z") && !is_micro_time("2026-11-29T02:00:00Z"));
    }
}
