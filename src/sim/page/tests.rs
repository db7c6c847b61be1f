//! The page: complete, escaped, and without anything from outside.

use super::*;
use crate::sim::scenario::{Scenario, parse, play};

const MIDWAY: &str = "
apiVersion: punctual.dev/v1alpha1
kind: Scenario
metadata: {name: midway}
spec:
  start: '2026-11-29T01:58:00Z'
  objects:
  - apiVersion: punctual.dev/v1alpha1
    kind: MaintenanceSchedule
    metadata: {name: nightly}
    spec: {schedule: 0 2 * * *, run: {simulated: {}}}
  provider:
  - {match: 'nightly-*', duration: 90s}
  steps:
  - {at: 150s, kill: leader}
  - {at: 300s, delete: msched/nightly}
  end: 400s
";

fn midway() -> (Scenario, Chronicle) {
    let scenario = parse("midway.yaml", MIDWAY).unwrap();
    let played = play(&scenario, None).unwrap();
    assert!(played.passed(), "{:?} {:?}", played.failures, played.broken);
    (scenario, played.chronicle)
}

fn section_of(chronicle: Chronicle) -> Section {
    Section {
        title: "midway <&>\"'".to_owned(),
        about: "A leader dies.".to_owned(),
        passed: Some(false),
        wrong: vec!["<b>expected</b>".to_owned()],
        command: "punctual drill midway.yaml".to_owned(),
        chronicle,
    }
}

#[test]
fn the_headline_answers_the_five_questions() {
    let (_, chronicle) = midway();
    let headline = Headline::of(&chronicle);
    let [first, second] = &chronicle.terms[..] else { panic!("two terms") };
    let (old, new) = (words::leader(first), words::leader(second));
    assert!(headline.led.contains(&format!("{old} led first, with epoch {}", first.epoch)));
    let why = format!("At 02:00:30 {old} was killed, so nobody renewed the Lease any more");
    assert!(headline.led.contains(&why), "{}", headline.led);
    assert!(headline.led.contains(&format!("{new} took over at 02:00:4")), "{}", headline.led);
    assert!(headline.led.contains("after the last renewal"), "{}", headline.led);
    assert_eq!(
        headline.ran,
        "One run was released, of nightly-202611290200, which succeeded. Nothing ran twice."
    );
    assert!(
        headline.refused.starts_with("Nothing that an old leader sent"),
        "{}",
        headline.refused
    );
    assert!(headline.next.contains(&format!("{new} leads")), "{}", headline.next);
}

#[test]
fn the_page_shows_every_lane_and_needs_nothing_from_outside() {
    let (_, chronicle) = midway();
    let shown = page("midway", &[section_of(chronicle)]);
    for part in [
        "What happened",
        "Lease",
        "<b>r0</b>",
        "<b>r1</b>",
        "nightly-202611290200",
        "run m1: Succeeded",
        "prefers-color-scheme: dark",
        "is killed; it gives nothing back",
        "a person deletes msched/nightly",
        "What each new leader found",
        "Expired",
        "punctual drill midway.yaml",
    ] {
        let lower = shown.to_lowercase();
        assert!(lower.contains(&part.to_lowercase()), "{part} is not on the page");
    }
    for outside in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!shown.contains(outside), "{outside}");
    }
}

#[test]
fn everything_is_escaped() {
    let (_, mut chronicle) = midway();
    let evil = "<script>alert('x')</script>";
    chronicle.works[0].key.name = evil.to_owned();
    chronicle.works[0].changes[0].state = "x\" onclick=\"y".to_owned();
    chronicle.works[0].changes[0].message = evil.to_owned();
    chronicle.runs[0].how = evil.to_owned();
    let mut section = section_of(chronicle);
    section.about = evil.to_owned();
    section.command = evil.to_owned();
    let shown = page(evil, &[section.clone(), section]);
    assert!(!shown.contains("<script"), "no tag of somebody else");
    assert!(!shown.contains("<b>expected</b>"));
    assert!(!shown.contains("\" onclick"), "no attribute of somebody else");
    assert!(shown.contains("midway &lt;&amp;&gt;&quot;&#39;"));
}

#[test]
fn pieces_of_a_lane_are_in_order_and_on_the_page() {
    let (_, chronicle) = midway();
    let axis = Axis::new(chronicle.end, moments(&chronicle));
    let lanes = Draw { chronicle: &chronicle, axis: &axis }.lanes();
    assert_eq!(lanes.len(), 1 + 1 + 2 + 1, "causes, Lease, two replicas, one occurrence");
    for lane in &lanes {
        for piece in &lane.pieces {
            let fine = piece.from >= 0.0 && piece.to <= 100.001 && piece.from < piece.to;
            assert!(fine, "{}: {piece:?}", lane.label);
        }
        let distances = lane.markers.windows(2).map(|pair| pair[1].at - pair[0].at);
        assert!(distances.into_iter().all(|distance| distance > 5.0), "{:?}", lane.markers);
    }
    let lease = &lanes[1];
    let classes: Vec<&str> =
        lease.pieces.iter().map(|p| p.class.split(' ').next().unwrap()).collect();
    assert_eq!(classes, ["held", "silent", "held"]);
}

#[test]
fn durations_are_written_for_people() {
    for (millis, shown) in [
        (0, "0 s"),
        (11_520, "11.5 s"),
        (60_000, "1 min"),
        (90_000, "1 min 30 s"),
        (3_600_000, "1 h"),
        (5_400_000, "1 h 30 min"),
    ] {
        assert_eq!(span(Duration::from_millis(millis)), shown);
    }
}
