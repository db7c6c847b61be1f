//! The grammar: what CronJob accepts, and what people read when it is refused.

use crate::time::cron::{CronExpression, MAX_EXPRESSION_BYTES};

/// What our parser makes of an expression, in the form of the recorded answers.
fn answer(expression: &str) -> String {
    match CronExpression::parse(expression) {
        Err(_) => "refused".to_owned(),
        Ok(CronExpression::Every(every)) => format!("every\t{}", every.minutes() * 60),
        Ok(CronExpression::Fields(f)) => format!(
            "{:x}\t{:x}\t{:x}\t{:x}\t{:x}\t{}",
            f.minutes,
            f.hours,
            f.days,
            f.months,
            f.weekdays,
            i32::from(f.both_days)
        ),
    }
}

#[test]
fn accepts_exactly_what_cronjob_accepts() {
    let recorded = include_str!("../../../tests/data/cron-grammar.tsv");
    let mut seen = (0, 0);
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let (expression, expected) = line.split_once('\t').unwrap();
        let expression: String = serde_json::from_str(expression).unwrap();
        let whole_minutes = match expected.strip_prefix("every\t") {
            Some(seconds) => seconds.parse::<i64>().unwrap() % 60 == 0,
            None => true,
        };
        let expected = if whole_minutes { expected } else { "refused" };
        assert_eq!(answer(&expression), expected, "{expression:?}");
        if expected == "refused" { seen.0 += 1 } else { seen.1 += 1 }
    }
    assert!(seen.0 > 500 && seen.1 > 500, "the recording has both kinds: {seen:?}");
}

#[test]
fn intervals_are_whole_minutes() {
    for refused in ["@every 30s", "@every 90s", "@every 1m0.5s", "@every 0", "@every -1h"] {
        let sentence = CronExpression::parse(refused).unwrap_err().to_string();
        assert!(sentence.contains("whole number of minutes, at least 1m"), "{sentence}");
    }
    assert_eq!(answer("@every 1m"), "every\t60");
}

#[test]
fn refusals_name_the_field_and_the_fix() {
    let long = "0 ".repeat(MAX_EXPRESSION_BYTES);
    let cases = [
        ("0 0 * * 7", "day of week: \"7\" is outside 0-6: 7 is not a weekday; use 0 or SUN"),
        ("0 0 * * 5-7", "use 0 or SUN for Sunday"),
        ("0 0 * * 7/2", "use 0 or SUN for Sunday"),
        ("0 0 * * 8", "day of week: \"8\" is outside 0-6 or SUN-SAT"),
        ("60 * * * *", "minute: \"60\" is outside 0-59"),
        ("* 24 * * *", "hour: \"24\" is outside 0-23"),
        ("* * 0 * *", "day of month: \"0\" is outside 1-31"),
        ("* * * 13 *", "month: \"13\" is outside 1-12 or JAN-DEC"),
        ("0 22-2 * * *", "hour: \"22-2\" runs backwards; write two ranges, 22-23,0-2"),
        ("0 0 * * FRI-MON", "write two ranges, 5-6,0-1"),
        ("*/0 * * * *", "minute: \"*/0\" has a step that is not a positive number"),
        ("*/2/3 * * * *", "more than one slash"),
        ("1-2-3 * * * *", "more than one hyphen"),
        ("0 0 L * *", "day of month: \"L\" is not 1-31; L, W, # and H are not part"),
        ("0 0 * january *", "month: \"january\" is not 1-12 or JAN-DEC"),
        ("- * * * *", "minute: \"-\" is not 0-59"),
        ("0 0 * *", "has 4 fields where exactly five are needed"),
        ("0 0 0 * * *", "has 6 fields where exactly five are needed"),
        ("0 0 0 * * *", "(no seconds, no years)"),
        ("", "is empty"),
        (" \t ", "is empty"),
        ("@Daily", "\"@Daily\" is not a descriptor; use @yearly"),
        ("@reboot", "is not a descriptor"),
        ("@every day", "@every needs a duration like 90m"),
        ("TZ=UTC 0 0 * * *", "use spec.timeZone"),
        ("CRON_TZ=UTC @daily", "use spec.timeZone"),
        (&long, "has 512 bytes; at most 256"),
    ];
    for (expression, part) in cases {
        let sentence = CronExpression::parse(expression).unwrap_err().to_string();
        assert!(sentence.contains(part), "{expression:?}: {sentence}");
    }
}

#[test]
fn expressions_without_a_date_never_fire() {
    let never = [
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        ", * * * *",
        "* , * * *",
        "* * * , *",
        "* * * * ,",
        "* * , * ,",
        "0 0 , * *",
    ];
    for expression in never {
        assert!(CronExpression::parse(expression).unwrap().never_fires(), "{expression}");
    }
    for expression in
        ["0 0 29 2 *", "0 0 30 2 1", "0 0 , * 1", "0 0 31 2-3 *", "* * 1 * ,", "@every 1m"]
    {
        assert!(!CronExpression::parse(expression).unwrap().never_fires(), "{expression}");
    }
}
