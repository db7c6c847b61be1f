//! `punctual next` and `punctual plan`, run as the binary: cases from the public fault reports of
//! other schedulers, and what is said to bad input.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

/// Runs the binary with `input` on its standard input.
fn punctual(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("piped");
    match stdin.write_all(input.as_bytes()) {
        // A refusal of the arguments may come before the input is read.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
        _ => drop(stdin),
    }
    child.wait_with_output().expect("the binary ends")
}

/// The JSON that a command prints.
fn answer(args: &[&str], input: &str) -> Value {
    let output = punctual(args, input);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    assert!(errors.is_empty(), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What a command says when it refuses its input with exit code 2.
fn refusal(args: &[&str], input: &str) -> String {
    let output = punctual(args, input);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?} {input}: {errors}");
    assert!(output.stdout.is_empty(), "{args:?}: nothing is answered");
    errors
}

fn next(expression: &str, zone: &str, from: &str, policy: &str, count: usize) -> Value {
    let count = count.to_string();
    let args = ["next", "--schedule", expression, "--time-zone", zone, "--dst-policy", policy]
        .into_iter()
        .chain(["--from", from, "--count", &count, "-o", "json"])
        .collect::<Vec<_>>();
    answer(&args, "")
}

fn utc(listed: &Value) -> Vec<&str> {
    let listed = listed.as_array().expect("a list");
    listed.iter().map(|one| one["utc"].as_str().expect("text")).collect()
}

/// A time zone file (RFC 9636) that says "UTC, always".
const ALWAYS_UTC: &[u8] = b"TZif\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04\
    \0\0\0\0\0\0UTC\0";

#[test]
fn zones_come_from_the_binary_and_not_from_the_machine() {
    let machine = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("zones-of-the-machine");
    std::fs::create_dir_all(machine.join("Europe")).expect("a folder of our own");
    std::fs::write(machine.join("Europe/Berlin"), ALWAYS_UTC).expect("a folder of our own");
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .env("TZDIR", &machine)
        .env("TZ", "America/New_York")
        .args(["next", "--schedule", "30 2 * * *", "--time-zone", "Europe/Berlin"])
        .args(["--from", "2026-01-10T00:00:00Z", "--count", "1", "-o", "json"])
        .output()
        .expect("the binary ends");
    let listed = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(utc(&listed), ["2026-01-10T01:30:00Z"]);
}

#[test]
fn next_lists_the_instants_of_every_case() {
    let mut cases = 0;
    for line in include_str!("cases/next.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [name, expression, zone, from, policy, expected] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("six columns: {line}");
        };
        let expected: Vec<&str> = expected.split(',').collect();
        let listed = next(expression, zone, from, policy, expected.len());
        assert_eq!(utc(&listed), expected, "{name}");
        cases += 1;
    }
    assert!(cases >= 13, "{cases}");
}

#[test]
fn plan_decides_every_case() {
    let cases: Value = punctual::yaml::from_str(include_str!("cases/plan.yaml")).expect("YAML");
    let cases = cases.as_array().expect("a list");
    assert!(cases.len() >= 9, "{}", cases.len());
    for case in cases {
        let manifest = serde_json::to_string(&case["schedule"]).expect("JSON");
        let now = case["now"].as_str().expect("a time");
        let plan = answer(&["plan", "-f", "-", "--now", now, "-o", "json"], &manifest);
        for (key, expected) in case["expect"].as_object().expect("an object") {
            assert_eq!(&plan[key], expected, "{}: {key}", case["name"]);
        }
    }
}

/// Expression, zone, from, policy, and the note on the first instant.
const NOTES: [[&str; 5]; 11] = [
    [
        "0,30 2,3 * * *",
        "America/New_York",
        "2026-03-08T05:00:00Z",
        "Once",
        "02:00 and 02:30 do not exist on this day; run together with 03:00",
    ],
    [
        "*/10 2 * * *",
        "America/New_York",
        "2026-03-08T05:00:00Z",
        "Once",
        "6 local times from 02:00 to 02:50 do not exist on this day; run once, at the end of the gap",
    ],
    [
        "45 23 * * *",
        "Asia/Pyongyang",
        "2018-05-04T00:00:00Z",
        "Once",
        "23:45 on 2018-05-04 does not exist; runs at the end of the gap",
    ],
    [
        "0 9 * * *",
        "Pacific/Apia",
        "2011-12-29T20:00:00Z",
        "Once",
        "09:00 on 2011-12-30 does not exist; runs at the end of the gap",
    ],
    [
        "30 1 * * *",
        "America/New_York",
        "2026-11-01T04:00:00Z",
        "Once",
        "01:30 happens twice on this day; runs at the first",
    ],
    [
        "30 1 * * *",
        "America/New_York",
        "2026-11-01T04:00:00Z",
        "CronJob",
        "01:30 happens twice on this day; this is the first",
    ],
    [
        "30 1 * * *",
        "America/New_York",
        "2026-11-01T05:30:00Z",
        "CronJob",
        "01:30 happens twice on this day; this is the second",
    ],
    [
        "*/30 * * * *",
        "America/New_York",
        "2026-11-01T06:00:00Z",
        "Once",
        "01:30 happens twice on this day; this is the second",
    ],
    [
        "30 2 * * *",
        "America/New_York",
        "2026-03-08T05:00:00Z",
        "CronJob",
        "02:30 on 2026-03-08 does not exist and is left out",
    ],
    ["*/30 * * * *", "America/New_York", "2026-03-08T06:30:00Z", "Once", ""],
    ["@every 6h", "America/New_York", "2026-03-08T06:30:00Z", "Once", ""],
];

#[test]
fn next_shows_local_times_and_what_clocks_did() {
    let gap = next("30 2 * * *", "America/New_York", "2026-03-07T08:00:00Z", "Once", 2);
    let at_gap = json!({
        "utc": "2026-03-08T07:00:00Z",
        "local": "2026-03-08T03:00:00-04:00",
        "note": "02:30 does not exist on this day; runs at the end of the gap",
    });
    assert_eq!(gap[0], at_gap);
    assert_eq!(gap[1]["note"], "");

    for [expression, zone, from, policy, note] in NOTES {
        let listed = next(expression, zone, from, policy, 1);
        assert_eq!(listed[0]["note"], note, "{expression} {zone} {policy}");
    }
}

#[test]
fn next_reads_a_schedule_from_a_file() {
    let manifest = "kind: MaintenanceSchedule\nmetadata: {creationTimestamp: '2026-01-01T00:05:30Z'}\nspec: {schedule: '@every 6h'}\n";
    let args = ["next", "-f", "-", "--from", "2026-01-02T00:00:00Z", "--count", "1", "-o", "json"];
    assert_eq!(utc(&answer(&args, manifest)), ["2026-01-02T00:05:00Z"], "on the creation's grid");
    let anchored = ["next", "--schedule", "@every 6h", "--anchor", "2026-01-01T01:00:00+01:00"];
    let args = [&anchored[..], &["--from", "2026-01-02T03:00:00Z", "--count=1", "-ojson"]].concat();
    assert_eq!(utc(&answer(&args, "")), ["2026-01-02T06:00:00Z"]);
}

#[test]
fn what_never_fires_is_an_empty_list() {
    assert_eq!(next("0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", "Once", 3), json!([]));
    let table = punctual(&["next", "--schedule", "0 0 30 2 *"], "");
    assert!(String::from_utf8_lossy(&table.stdout).starts_with("never: no date"));
}

#[test]
fn tables_are_for_people() {
    let args =
        ["next", "--schedule", "0 2 * * *", "--from", "2026-03-08T00:00:00Z", "--count", "1"];
    let table = String::from_utf8(punctual(&args, "").stdout).expect("text");
    let expected = "UTC                   LOCAL                      NOTE\n\
                    2026-03-08T02:00:00Z  2026-03-08T02:00:00+00:00\n";
    assert_eq!(table, expected);

    let manifest = r#"{"kind": "MaintenanceSchedule", "spec": {"schedule": "0 * * * *", "missedRuns": {"policy": "None"}},
        "status": {"lastScheduleTime": "2026-03-08T00:00:00Z", "observed": {"schedule": "0 * * * *"}}}"#;
    let args = ["plan", "-f", "-", "--now", "2026-03-08T05:00:10Z"];
    let table = String::from_utf8(punctual(&args, manifest).stdout).expect("text");
    let expected = "At 2026-03-08T05:00:10Z:\n  \
                      run      2026-03-08T05:00:00Z\n  \
                      skip     2026-03-08T01:00:00Z to 2026-03-08T04:00:00Z, 4 instants: Missed\n  \
                      next     2026-03-08T06:00:00Z\n";
    assert_eq!(table, expected);
}

#[test]
fn a_schedule_without_a_status_was_just_created() {
    let manifest = "kind: ReportSchedule\nspec: {schedule: '0 * * * *'}\nstatus: {}\n";
    let plan = answer(&["plan", "-f", "-", "--now", "2026-03-08T05:00:10Z", "-ojson"], manifest);
    assert_eq!(plan, json!({"run": [], "skipped": [], "next": "2026-03-08T06:00:00Z"}));
}

#[test]
fn next_refuses_bad_input_with_a_sentence() {
    let long = "1,".repeat(200) + "1 * * * *";
    let cases: [(&[&str], &str); 14] = [
        (
            &["--schedule", "0 0 * * 7"],
            "--schedule day of week: \"7\" is outside 0-6: 7 is not a weekday; use 0 or SUN for Sunday",
        ),
        (&["--schedule", "TZ=UTC 0 0 * * *"], "use spec.timeZone"),
        (&["--schedule", "0 0 * *"], "has 4 fields where exactly five are needed"),
        (&["--schedule", "-5 * * * *"], "minute: \"-5\" is not 0-59"),
        (&["--schedule", ""], "--schedule is empty; write five fields"),
        (&["--schedule", &long], "at most 256 are accepted"),
        (&["--schedule", "@every 30s"], "must be a whole number of minutes, at least 1m"),
        (
            &["--schedule", "0 0 * * *", "--time-zone", "europe/berlin"],
            "--time-zone \"europe/berlin\" must be spelled \"Europe/Berlin\"",
        ),
        (
            &["--schedule", "0 0 * * *", "--time-zone", "Nowhere"],
            "is not in the IANA time zone database",
        ),
        (&["--schedule", "0 0 * * *", "--dst-policy", "Twice"], "must be Once or CronJob"),
        (
            &["--schedule", "0 0 * * *", "--from", "yesterday"],
            "must be a time like 2026-11-29T02:00:00Z",
        ),
        (&["--schedule", "0 0 * * *", "--count", "0"], "0 is not in 1..=10080"),
        (&["--schedule", "@every 1h", "--anchor", "2026-01-01T00:00:30Z"], "is not a whole minute"),
        (&[], "--schedule"),
    ];
    for (args, sentence) in cases {
        let said = refusal(&[&["next"], args].concat(), "");
        assert!(said.contains(sentence), "{args:?}: {said}");
    }
}

/// What `plan` says to a file that it cannot use.
fn plan_refusal(manifest: &str) -> String {
    refusal(&["plan", "-f", "-", "--now", "2026-03-08T05:00:10Z"], manifest)
}

#[test]
fn plan_refuses_what_is_no_schedule_with_a_sentence() {
    for (manifest, sentence) in [
        ("kind: [", "is not one YAML object"),
        ("- a\n- b\n", "file: must hold one object: a schedule"),
        ("", "kind: is missing; must be MaintenanceSchedule or ReportSchedule"),
        ("kind: CronJob", "kind: is CronJob; make a schedule of it with `punctual convert`"),
        ("kind: Pod", "kind: is \"Pod\"; must be MaintenanceSchedule or ReportSchedule"),
        ("kind: ReportSchedule", "spec.schedule: is missing; it is a cron expression"),
        ("kind: ReportSchedule\nspec: 7", "spec: must be an object with named fields"),
    ] {
        let said = plan_refusal(manifest);
        assert!(said.contains(sentence), "{manifest}: {said}");
    }
    assert!(refusal(&["plan", "-f", "/no/such/file"], "").contains("cannot read /no/such/file"));
    assert!(refusal(&["plan"], "").contains("--file"));
    assert!(refusal(&["plan", "-f", "-", "--now", "later"], "").contains("must be a time like"));
}

#[test]
fn plan_refuses_bad_fields_with_a_sentence() {
    for (fields, sentence) in [
        ("schedule: 5", "spec.schedule: must be text; write it in quotes, not 5"),
        ("schedule: '0 0 * * 7'", "spec.schedule: day of week: \"7\" is outside 0-6"),
        ("timeZone: Local", "spec.timeZone: \"Local\" is not a place's time zone"),
        ("timeZone: ''", "spec.timeZone: is empty; leave it out for UTC"),
        ("timezone: UTC", "spec: has \"timezone\"; it is spelled timeZone"),
        ("dstPolicy: once", "spec.dstPolicy: must be Once or CronJob, not \"once\""),
        ("suspend: 'yes'", "spec.suspend: must be true or false, not \"yes\""),
        ("missedRuns: {policy: Some}", "spec.missedRuns.policy: must be Latest or All or None"),
        ("missedRuns: {limit: 101}", "limit: must be a whole number from 1 to 100, not 101"),
        ("startingDeadlineSeconds: -1", "must be a whole number, at least 0, not -1"),
        ("suspendUntilTime: soon", "spec.suspendUntilTime: must be a time like"),
        ("anchor: '2026-01-01T00:00:30Z'", "spec.anchor: 2026-01-01T00:00:30Z is not a whole"),
        ("spread: {windowSeconds: -1}", "must be a whole number from 0 to 86400, not -1"),
    ] {
        let schedule = if fields.contains("schedule:") { "" } else { "schedule: '0 0 * * *', " };
        let said = plan_refusal(&format!("kind: ReportSchedule\nspec: {{{schedule}{fields}}}"));
        assert!(said.contains(sentence), "{fields}: {said}");
    }
    for (fields, sentence) in [
        ("lastScheduleTime: 12", "status.lastScheduleTime: must be text"),
        ("effectiveTime: '-009999-01-02T01:59:59Z'", "status.effectiveTime: must be a time like"),
        ("observed: {timeZone: UTC}", "status.observed.schedule: is missing"),
    ] {
        let spec = "kind: ReportSchedule\nspec: {schedule: '0 0 * * *'}";
        let said = plan_refusal(&format!("{spec}\nstatus: {{{fields}}}"));
        assert!(said.contains(sentence), "{fields}: {said}");
    }
}

const CRON_JOB: &str = "
kind: CronJob
metadata: {name: nightly, namespace: docs}
spec:
  schedule: 30 2 * * *
  timeZone: Europe/Berlin
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
";

#[test]
fn a_converted_cron_job_can_be_planned() {
    let converted = punctual(&["convert", "-f", "-"], CRON_JOB);
    let schedule = String::from_utf8(converted.stdout).expect("text");
    assert!(converted.status.success(), "{schedule}");
    let plan = ["plan", "-f", "-", "--now", "2026-03-28T12:00:00Z", "-o", "json"];
    // A CronJob leaves out the night in which 02:30 does not exist.
    assert_eq!(answer(&plan, &schedule)["next"], "2026-03-30T00:30:00Z");
}

#[test]
fn convert_says_at_which_instants_the_two_differ() {
    let year = ["convert", "-f", "-", "--check", "--from", "2026-01-01T00:00:00Z"];
    let same = punctual(&year, CRON_JOB);
    assert_eq!(same.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&same.stdout).contains("They run at the same instants"));
    let once = punctual(&[&year[..], &["--dst-policy", "Once", "-o", "json"]].concat(), CRON_JOB);
    assert_eq!(once.status.code(), Some(1));
    let compared: Value = serde_json::from_slice(&once.stdout).expect("JSON");
    assert_eq!(utc(&compared[0]["differences"]), ["2026-03-29T01:00:00Z", "2026-10-25T01:30:00Z"]);
}

#[test]
fn what_convert_cannot_use_is_refused_with_a_sentence() {
    for (args, input, sentence) in [
        (&["convert", "-f", "-"][..], "", "there is no object in it; give a CronJob"),
        (&["convert", "-f", "-"], "kind: Job", "kind: is \"Job\""),
        (&["convert", "-f", "-"], "a: [", "is not YAML"),
        (&["convert", "-f", "/none"], "", "cannot read /none"),
        (&["convert", "-f", "-", "--from", "2026-01-01T00:00:00Z"], CRON_JOB, "--check"),
        (&["convert", "-f", "-", "--dst-policy", "Never"], CRON_JOB, "must be Once or CronJob"),
    ] {
        let said = refusal(args, input);
        assert!(said.contains(sentence), "{args:?} {input}: {said}");
    }
    let two = format!("{CRON_JOB}---{CRON_JOB}");
    assert!(refusal(&["convert", "-f", "-", "--name", "x"], &two).contains("there are 2 CronJobs"));
}
