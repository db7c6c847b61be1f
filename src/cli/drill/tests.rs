//! The built-in rehearsal, and what is said to bad usage.

use super::*;
use crate::sim::chronicle::Takeover;

fn restart() -> (Scenario, Played) {
    let scenario = parse(RESTART_NAME, RESTART).unwrap();
    let played = play(&scenario, None).unwrap();
    (scenario, played)
}

#[test]
fn the_restart_finds_work_in_every_state_and_accounts_for_all_of_it() {
    let (scenario, played) = restart();
    let verdict = Verdict::of(&scenario, "", None, &played);
    assert!(verdict.passed(), "{:#?}", verdict.sentences());
    let takeovers = played.chronicle.takeovers();
    let takeover: &Takeover = takeovers.last().unwrap();
    let of = |class: &str| takeover.items.iter().filter(|item| item.class == class).count();
    let count = |number: Option<i64>| usize::try_from(number.unwrap()).unwrap();
    let table = [of("Resumed"), of("Reconciled"), of("Preserved"), of("Uncertain")];
    let trace = [
        count(takeover.resumed),
        count(takeover.reconciled),
        count(takeover.preserved),
        count(takeover.uncertain),
    ];
    assert_eq!(table, trace, "the table says what the trace counts: {:#?}", takeover.items);
    assert!(table.iter().all(|number| *number > 0), "{table:?}");
    for was in ["Queued", "prepared, not released", "Running", "Succeeded", "Failed", "Cancelled"] {
        let found = takeover.items.iter().any(|item| item.was == was);
        assert!(found, "nothing was {was}: {:#?}", takeover.items);
    }
    assert!(takeover.items.iter().all(|item| item.runs <= 1), "nothing ran twice");
}

#[test]
fn the_story_of_the_restart_is_told_in_words() {
    let (scenario, played) = restart();
    let verdict = Verdict::of(&scenario, "", None, &played);
    let text = report::for_people(&[verdict]);
    for part in [
        "restart: as expected",
        "Who led.",
        " crashed before it saw the answer",
        "What ran.",
        "Nothing ran twice.",
        "bolt-costs waits for the provider or for a person's decision",
        "FOUND AS",
        "prepared, not released",
    ] {
        assert!(
            text.split_whitespace().collect::<Vec<_>>().join(" ").contains(part),
            "{part}\n{text}"
        );
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn seeds_are_a_range_of_numbers() {
    assert_eq!(parse_seeds("0..2000"), Ok(0..2000));
    for (text, told) in [
        ("7", "must be two numbers"),
        ("a..b", "must be two numbers"),
        ("5..5", "holds no seed"),
        ("9..5", "holds no seed"),
        ("0..9999999", "holds more than"),
    ] {
        assert!(parse_seeds(text).unwrap_err().contains(told), "{text}");
    }
}
