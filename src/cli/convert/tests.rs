//! CronJobs as people have them, through the whole of `convert`.

use jiff::civil::date;
use serde_json::json;

use super::*;
use crate::{
    providers::job::{build::manifest, fixtures::request},
    sim::api::Model,
    time::WallClock,
    yaml::to_portable_string,
};

const CRON_JOBS: &str = include_str!("../../../tests/data/cronjobs.yaml");

/// A CronJob, and what its annotations want of its conversion.
struct Case {
    name: String,
    cron_job: Value,
    expect: Vec<String>,
    refused: Option<String>,
}

fn cases() -> Vec<Case> {
    let all = cron_jobs(yaml::all_from_str(CRON_JOBS).unwrap());
    let case = |mut cron_job: Value| {
        let annotations = cron_job["metadata"]["annotations"].as_object_mut().unwrap();
        let expect = annotations.remove("expect");
        let refused = annotations.remove("refused");
        let lines = expect.iter().flat_map(|lines| lines.as_str().unwrap().lines());
        Case {
            name: cron_job["metadata"]["name"].as_str().unwrap().to_owned(),
            expect: lines.map(str::to_owned).collect(),
            refused: refused.map(|refused| refused.as_str().unwrap().to_owned()),
            cron_job,
        }
    };
    all.into_iter().map(case).collect()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A CronJob with nothing but a time.
fn due(schedule: &str, zone: &str) -> Value {
    json!({
        "kind": "CronJob",
        "metadata": {"name": "due", "creationTimestamp": "2026-01-01T00:00:30Z"},
        "spec": {
            "schedule": schedule, "timeZone": zone,
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
        },
    })
}

fn year_of(cron_job: &Value, dst_policy: DstPolicy) -> Comparison {
    let choices = Choices { name: None, dst_policy };
    let converted = convert(cron_job, &choices).unwrap();
    compare(cron_job, &converted, at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z")).unwrap()
}

#[test]
fn cron_jobs_of_many_shapes_become_schedules_that_the_api_server_takes() {
    let now = date(2026, 11, 30).at(12, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp();
    let model = Model::new(WallClock::driven(now));
    model.install_crds();
    let mut converted_ones = 0;
    for Case { name, cron_job, expect, refused } in cases() {
        let converted = match (
            convert(&cron_job, &Choices { dst_policy: DstPolicy::CronJob, name: None }),
            refused,
        ) {
            (Ok(converted), None) => converted,
            (Err(error), Some(wanted)) => {
                assert!(error.to_string().contains(&wanted), "{name}: {error}");
                continue;
            }
            (Ok(_), Some(wanted)) => panic!("{name} was to be refused: {wanted}"),
            (Err(error), None) => panic!("{name}: {error}"),
        };
        converted_ones += 1;
        let text = for_people(&converted);
        let flat =
            text.split_whitespace().filter(|word| *word != "#").collect::<Vec<_>>().join(" ");
        for line in expect {
            let wanted = line.trim_start_matches("# ");
            assert!(flat.contains(wanted), "{name}: {line}\nis not in\n{text}");
        }
        let read: Value = yaml::from_str(&text).unwrap();
        assert_eq!(read, converted.manifest(), "{name}: text and object are the same");
        assert!(
            text.lines().all(|line| !line.starts_with('#') || line.len() <= WIDTH + 2),
            "{text}"
        );
        assert!(!text.contains("last-applied"), "{name}");
        model.install(&read).unwrap_or_else(|refusal| panic!("{name}: {refusal}\n{text}"));
        let template = to_portable_string(&read["spec"]["run"]["job"]["template"], 0);
        let job = manifest(&request(&template));
        job.unwrap_or_else(|refusal| panic!("{name}: {refusal}\n{text}"));
    }
    assert!(converted_ones >= 30, "only {converted_ones}");
}

#[test]
fn a_converted_cron_job_runs_at_the_instants_at_which_it_ran() {
    for Case { name, cron_job, refused, .. } in cases() {
        if refused.is_some() || cron_job["spec"]["schedule"].as_str().unwrap().starts_with("@every")
        {
            continue;
        }
        let compared = year_of(&cron_job, DstPolicy::CronJob);
        assert!(compared.is_same(), "{name}: {compared:?}");
        assert_eq!(compared.cron_job_runs, compared.schedule_runs, "{name}");
        assert!(compared.cron_job_runs > 0, "{name}");
    }
}

#[test]
fn once_differs_where_clocks_change() {
    let compared = year_of(&due("30 2 * * *", "Europe/Berlin"), DstPolicy::Once);
    let found: Vec<_> =
        compared.differences.iter().map(|one| (one.utc.to_string(), one.only)).collect();
    let wanted = [
        ("2026-03-29T01:00:00Z".to_owned(), "MaintenanceSchedule"), // 03:00, the end of the gap
        ("2026-10-25T01:30:00Z".to_owned(), "CronJob"),             // the second 02:30
    ];
    assert_eq!(found, wanted);
    assert_eq!((compared.cron_job_runs, compared.schedule_runs, compared.different), (365, 365, 2));
    let text = differences(&compared);
    assert!(text.contains("2026-10-25T01:30:00Z") && text.contains("CronJob"), "{text}");
}

#[test]
fn differences_are_listed_up_to_a_bound_and_counted_beyond() {
    let cron_job = due("* 2 * * *", "Europe/Berlin");
    let one_year = year_of(&cron_job, DstPolicy::Once);
    assert_eq!((one_year.differences.len(), one_year.different), (61, 61));
    let converted =
        convert(&cron_job, &Choices { name: None, dst_policy: DstPolicy::Once }).unwrap();
    let (from, to) = (at("2026-01-01T00:00:00Z"), at("2043-01-01T00:00:00Z"));
    let more = compare(&cron_job, &converted, from, to).unwrap();
    assert_eq!((more.differences.len(), more.different), (MAX_LISTED, 17 * 61));
    assert!(differences(&more).ends_with("and 37 more\n"));
}

#[test]
fn an_interval_that_began_between_two_minutes_is_shifted() {
    let compared = year_of(&due("@every 90m", "UTC"), DstPolicy::CronJob);
    assert_eq!((compared.shift_seconds, compared.different), (30, 0));
    assert!(!compared.is_same());
    assert!(differences(&compared).contains("30 s later"), "{}", differences(&compared));
}

#[test]
fn programs_read_the_schedules_without_comments() {
    let choices = Choices { name: None, dst_policy: DstPolicy::CronJob };
    let one = || convert(&due("0 2 * * *", "UTC"), &choices).unwrap();
    for converted in [vec![one()], vec![one(), one()]] {
        let json = written(Output::Json, &converted).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        let yaml = written(Output::Yaml, &converted).unwrap();
        assert!(!yaml.contains('#'), "{yaml}");
        assert_eq!(yaml::from_str::<Value>(&yaml).unwrap(), json);
        let people = yaml::all_from_str(&written(Output::Table, &converted).unwrap()).unwrap();
        let schedules = match json["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![json],
        };
        assert_eq!(schedules, people);
    }
}

#[test]
fn a_chosen_name_is_used_and_checked() {
    let named = |name: &str| {
        let choices = Choices { name: Some(name.to_owned()), dst_policy: DstPolicy::CronJob };
        convert(&due("0 2 * * *", "UTC"), &choices)
    };
    assert_eq!(named("short").unwrap().metadata["name"], "short");
    assert!(named(&"x".repeat(41)).unwrap_err().to_string().contains("--name"));
}
