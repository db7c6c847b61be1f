//! Flags, variants, files, and what people are shown.

use std::path::Path;

use clap::Parser;

use super::*;
use crate::arrivals::Outage;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

fn args(text: &str) -> Args {
    let words = std::iter::once("simulate").chain(text.split_whitespace());
    Program::try_parse_from(words).unwrap().args
}

fn refused(text: &str) -> String {
    let words = std::iter::once("simulate").chain(text.split_whitespace());
    Program::try_parse_from(words).unwrap_err().to_string()
}

fn names(text: &str) -> Vec<String> {
    variants(&args(text)).unwrap().into_iter().map(|variant| variant.name).collect()
}

#[test]
fn several_values_of_a_flag_are_variants_and_one_is_none() {
    assert_eq!(names(""), [""]);
    assert_eq!(names("--slots 8 --seed 3"), [""]);
    assert_eq!(names("--slots 64,96"), ["slots 64", "slots 96"]);
    assert_eq!(
        names("--slots 64,96 --retry-budget 10,off"),
        [
            "slots 64, retry budget 10 %",
            "slots 64, no retries",
            "slots 96, retry budget 10 %",
            "slots 96, no retries"
        ]
    );
    assert_eq!(
        names("--weights acme=2,bolt=1 --weights acme=4"),
        ["weights acme=2,bolt=1", "weights acme=4"]
    );
    assert_eq!(
        names("--limits queued=100 --limits queued=100,per-tenant=20"),
        ["limits queued=100", "limits queued=100,per-tenant=20"]
    );
    assert_eq!(names("--outage none,10:00+20m"), ["no outage", "outage 10:00+20m@60"]);
}

#[test]
fn values_change_what_is_played() {
    let all = "--slots 8 --tenants 40 --weights acme=2 --max-running acme=3,bolt=1 --limits \
               queued=50,per-tenant=5 --retry-budget off --seed 9 --jobs 100 --hours 2 --outage";
    let [Variant { setting, .. }] = &variants(&args(all)).unwrap()[..] else { panic!("one") };
    let Setting { model, rules, names, .. } = setting;
    assert_eq!((rules.slots, rules.queued, rules.queued_per_tenant), (8, 50, 5));
    assert_eq!((rules.retries, model.seed, model.jobs, model.hours), (false, 9, 100, 2));
    assert_eq!((model.tenants, &names[..]), (40, &["acme".to_owned(), "bolt".to_owned()][..]));
    assert_eq!((rules.weight("acme"), rules.weight("bolt")), (2, 1));
    assert!(
        rules.is_capped("acme", 3) && !rules.is_capped("acme", 2) && rules.is_capped("bolt", 1)
    );
    let outage = Outage { after_seconds: 36_000, seconds: 1_200, percent: 60 };
    assert_eq!(model.outage, Some(outage));
    let each = variants(&args("--tenants 3 --max-running 2")).unwrap();
    for name in ["tenant-001", "tenant-002", "tenant-003"] {
        assert!(each[0].setting.rules.is_capped(name, 2), "{name}");
    }
    assert!(each[0].setting.names.is_empty());
}

#[test]
fn bad_values_are_refused_with_what_to_write() {
    for (text, told) in [
        ("--slots 0", "from 1 to 1024"),
        ("--slots many", "from 1 to 1024"),
        ("--tenants 10001", "from 1 to 10000"),
        ("--weights acme", "like acme=2"),
        ("--weights acme=0", "from 1 to 1000"),
        ("--weights acme=1,acme=2", "given twice"),
        ("--weights =1", "1 to 40 characters"),
        ("--max-running=-1", "from 0 to 1024"),
        ("--limits waiting=3", "no limit; write queued=N,per-tenant=N"),
        ("--retry-budget 101", "from 0 to 100, or off"),
        ("--outage noon", "like 10:00+20m@60"),
        ("--outage 25:00+20m", "like 10:00+20m@60"),
        ("--outage 10:00+20m@101", "like 10:00+20m@60"),
        ("--outage 10:00+0m", "like 10:00+20m@60"),
        ("--jobs 0", "jobs"),
        ("--hours 0", "hours"),
    ] {
        let message = refused(text);
        assert!(message.contains(told), "{text}: {message}");
    }
    for (text, told) in [
        ("--tenants 1 --weights a=1,b=1", "2 tenants are named and --tenants is 1"),
        ("--jobs 5000000,4000000,4000000,5000000,5000000", "too many"),
        ("--seed 1,2,3,4,5,6,7,8,9 --slots 1,2,3,4,5,6,7,8", "72 variants are too many"),
    ] {
        let message = run(&args(text)).unwrap_err();
        assert!(message.to_string().contains(told), "{text}: {message}");
        assert_eq!(message.code(), super::super::BAD_USAGE);
    }
}

#[test]
fn a_queue_is_played_as_its_manifest_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/monthly-reports.yaml");
    let text = format!("--file {} --slots 2,6", file.display());
    let all = variants(&args(&text)).unwrap();
    let rules = &all[0].setting.rules;
    assert_eq!((rules.slots, rules.queued, rules.queued_per_tenant), (2, 100, 20));
    assert_eq!((rules.weight("acme"), rules.is_capped("acme", 1)), (2, true));
    assert_eq!(all[0].setting.tenants()[0], "acme");
    assert_eq!(all[1].setting.rules.slots, 6);
    let none = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/nightly-retention.yaml");
    let message = variants(&args(&format!("--file {}", none.display()))).err().unwrap();
    assert!(message.to_string().contains("0 objects of kind ReportQueue"), "{message}");
}

fn lines(text: &str) -> Vec<Line> {
    let variants = variants(&args(text)).unwrap();
    variants
        .into_iter()
        .map(|Variant { name, setting }| {
            let outcome = outcome(&setting, &play(&setting, |_| {}));
            Line { variant: name, outcome }
        })
        .collect()
}

#[test]
fn people_are_shown_one_story_or_a_line_for_each_variant() {
    let small = "--jobs 200 --hours 2 --tenants 20";
    let one = lines(&format!("{small} --slots 4 --weights acme=2 --outage 00:30+20m"));
    let text = table::for_people(&one, Some(Path::new("sim.html")));
    for part in
        ["200 jobs of 20 tenants", "200 arrived", "FORECAST", "acme", "HAD / DUE", "Outage."]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.ends_with("The page: sim.html\n"), "{text}");
    let two = lines(&format!("{small} --slots 4,8"));
    let text = table::for_people(&two, None);
    let heads: Vec<&str> = text.lines().take(3).map(|line| line.get(..8).unwrap()).collect();
    assert_eq!(heads, ["VARIANT ", "slots 4 ", "slots 8 "], "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
}

#[test]
fn scripts_are_given_numbers_by_name() {
    let lines = lines("--jobs 200 --hours 2 --tenants 20 --slots 4");
    let json = serde_json::to_value(Answer { variants: lines }).unwrap();
    let one = &json["variants"][0];
    assert_eq!((one["variant"].as_str(), one["setting"]["slots"].as_i64()), (Some(""), Some(4)));
    assert_eq!(one["jobs"]["arrived"], 200);
    for path in [
        "/waiting/small/p99Seconds",
        "/queue/utilisationPercent",
        "/forecast/drain/p50Percent",
        "/retries/waitedForBudget",
        "/tenants/0/duePercent",
    ] {
        assert!(one.pointer(path).is_some_and(serde_json::Value::is_number), "{path}: {one}");
    }
}
