//! Canonical JSON (RFC 8785): one spelling of one value, so that its hash is an identity.

use std::{cmp::Ordering, fmt::Write as _};

use serde_json::{Map, Number, Value};

/// Up to here every integer is a double of its own, and prints as itself.
const MAX_EXACT: u64 = 1 << 53;
/// ECMAScript prints numbers of more digits before the point with an exponent.
const MAX_PLAIN_DIGITS: i32 = 21;
/// And those with more zeros behind the point.
const MAX_LEADING_ZEROS: i32 = 6;

/// The canonical text of a value.
///
/// Keys are sorted by UTF-16 units, strings are escaped as little as JSON allows, and numbers are
/// spelt as ECMAScript spells the double that they denote. Integers beyond 2^53 are therefore
/// rounded, as the RFC wants it; a run has none. A float is what `serde_json` read, which for more
/// than 17 digits may be the neighbour of the nearest double: it is the same for the same text.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    put(&mut out, value);
    out
}

fn put(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => put_number(out, number),
        Value::String(text) => put_text(out, text),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                put(out, item);
            }
            out.push(']');
        }
        Value::Object(entries) => put_object(out, entries),
    }
}

fn put_object(out: &mut String, entries: &Map<String, Value>) {
    let mut sorted: Vec<(&String, &Value)> = entries.iter().collect();
    sorted.sort_by(|(a, _), (b, _)| by_units(a, b));
    out.push('{');
    for (place, (key, value)) in sorted.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        put_text(out, key);
        out.push(':');
        put(out, value);
    }
    out.push('}');
}

fn by_units(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c)); // writing to a String cannot fail
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn put_number(out: &mut String, number: &Number) {
    let exact = number.as_i64().is_some_and(|n| n.unsigned_abs() <= MAX_EXACT);
    if exact {
        out.push_str(&number.to_string());
        return;
    }
    // JSON has no number that is not finite, and `serde_json` makes none.
    out.push_str(&ecmascript(number.as_f64().unwrap_or_default()));
}

/// `Number::toString` of ECMAScript, for a finite number.
fn ecmascript(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned(); // of both signs
    }
    let sign = if number < 0.0 { "-" } else { "" };
    // The shortest digits that denote this double and, of two that are as near, the even ones: the
    // formatter of the standard library takes the other.
    let text = Number::from_f64(number.abs()).map(|n| n.to_string()).unwrap_or_default();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{rest}");
    let significant = all.trim_start_matches('0');
    let length = |text: &str| i32::try_from(text.len()).unwrap_or(i32::MAX);
    // The number is 0.digits times ten to the power of `point`.
    let leading = length(&all) - length(significant);
    let point = length(whole) - leading + exponent.parse::<i32>().unwrap_or(0);
    let digits = significant.trim_end_matches('0');
    let count = length(digits);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    let body = if count <= point && point <= MAX_PLAIN_DIGITS {
        format!("{digits}{}", zeros(point - count))
    } else if 0 < point && point <= MAX_PLAIN_DIGITS {
        let (whole, rest) = digits.split_at(usize::try_from(point).unwrap_or(0));
        format!("{whole}.{rest}")
    } else if -MAX_LEADING_ZEROS < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() { String::new() } else { format!(".{rest}") };
        let plus = if point > 0 { "+" } else { "" };
        format!("{first}{rest}e{plus}{}", point - 1)
    };
    format!("{sign}{body}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        let value = json!({
            "numbers": [333_333_333.333_333_3, 1E30, 4.50, 2e-3, 1e-27],
            "string": "\u{20ac}$\u{000F}\u{000a}A'\u{0042}\u{0022}\u{005c}\\\"/",
            "literals": [null, true, false],
        });
        assert_eq!(
            canonical_json(&value),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
    }

    #[test]
    fn keys_are_sorted_by_utf_16_units() {
        let value = json!({
            "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet With Dagesh",
            "1": "One", "\u{1f600}": "Emoji: Grinning Face", "\u{80}": "Control",
            "\u{f6}": "Latin Small Letter O With Diaeresis",
        });
        let text = canonical_json(&value);
        let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
        let places: Vec<_> = order.iter().map(|word| text.find(word).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn numbers_are_spelt_as_ecmascript_spells_doubles() {
        // Appendix B of the RFC: bits and text.
        for (bits, text) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let value = Value::from(f64::from_bits(bits));
            assert_eq!(canonical_json(&value), text, "{bits:016x}");
        }
        for (value, text) in [
            (json!(0), "0"),
            (json!(-1), "-1"),
            (json!(i64::MAX), "9223372036854776000"),
            (json!(9_007_199_254_740_993_i64), "9007199254740992"),
            (json!(u64::MAX), "18446744073709552000"),
            (json!(-0.000_003_5), "-0.0000035"),
            (json!(-1.5e-7), "-1.5e-7"),
        ] {
            assert_eq!(canonical_json(&value), text);
        }
    }
}
