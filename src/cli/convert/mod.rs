//! `punctual convert`: a CronJob as a schedule, and where the two would differ.

use std::{fmt::Write as _, path::PathBuf};

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use serde_json::{Value, json};

use self::{
    check::{Comparison, MAX_LISTED, compare},
    cronjob::{Choices, Converted, Field, convert},
};
use super::{CliError, DONE, NO, input, next::parse_policy, output, target::Output};
use crate::{
    time::{DstPolicy, IntendedTime, WallClock, manifest::parse_time},
    yaml,
};

mod check;
mod cronjob;
#[cfg(test)]
mod tests;

/// Widest line of a comment.
const WIDTH: usize = 100;

/// Arguments of `punctual convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  punctual convert -f cronjob.yaml > schedule.yaml
  kubectl get cronjobs -o yaml | punctual convert -f -
  punctual convert -f cronjob.yaml --check --dst-policy Once

With --check the exit code is 1 if the two do not run at the same instants.")]
pub struct Args {
    /// File with CronJobs, as `kubectl get -o yaml` shows them; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Name of the schedule [default: that of the CronJob]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What happens when clocks change: CronJob, as before, or Once, each local time once.
    #[arg(long, value_name = "POLICY", value_parser = parse_policy, default_value = "CronJob")]
    dst_policy: DstPolicy,
    /// In place of the schedule, print at which instants of a year only one of the two runs.
    #[arg(long)]
    check: bool,
    /// Start of that year [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "check")]
    from: Option<Timestamp>,
    /// Form of the answer. Without --check, json and yaml are the schedules without comments, several as
    /// a List.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Prints the schedules, or where they differ.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let file = args.file.display();
    let refused = |error: String| CliError::BadUsage(format!("{file}: {error}"));
    let cron_jobs = cron_jobs(input::read_manifests(&args.file)?);
    if cron_jobs.is_empty() {
        return Err(refused("there is no object in it; give a CronJob".to_owned()));
    }
    if cron_jobs.len() > 1 && args.name.is_some() {
        let count = cron_jobs.len();
        return Err(refused(format!("--name names one schedule, and there are {count} CronJobs")));
    }
    let choices = Choices { name: args.name.clone(), dst_policy: args.dst_policy };
    let mut converted = Vec::new();
    for cron_job in &cron_jobs {
        converted.push(convert(cron_job, &choices).map_err(|error| {
            match cron_job["metadata"]["name"].as_str() {
                Some(name) if cron_jobs.len() > 1 => refused(format!("{name}: {error}")),
                _ => refused(error.to_string()),
            }
        })?);
    }
    if !args.check {
        output::write(&written(args.output, &converted)?)?;
        return Ok(DONE);
    }
    let this_minute = || IntendedTime::floor(WallClock::system().now()).timestamp();
    let from = args.from.unwrap_or_else(this_minute);
    let to = from
        .to_zoned(TimeZone::UTC)
        .checked_add(1.year())
        .map_or(Timestamp::MAX, |zoned| zoned.timestamp());
    let mut compared = Vec::new();
    for (cron_job, converted) in cron_jobs.iter().zip(&converted) {
        compared.push(
            compare(cron_job, converted, from, to).map_err(|error| refused(error.to_string()))?,
        );
    }
    output::print(args.output, &compared, || compared.iter().map(differences).collect())?;
    Ok(if compared.iter().all(Comparison::is_same) { DONE } else { NO })
}

/// The objects, and those in lists.
fn cron_jobs(documents: Vec<Value>) -> Vec<Value> {
    let of = |mut document: Value| match document["items"].take() {
        Value::Array(items) => items,
        _ => vec![document],
    };
    documents.into_iter().flat_map(of).collect()
}

/// The schedules in the form that was asked for.
fn written(form: Output, converted: &[Converted]) -> Result<String, CliError> {
    match form {
        Output::Table => Ok(converted.iter().map(for_people).collect::<Vec<_>>().join("---\n")),
        Output::Json => output::json(&for_programs(converted)),
        // kubectl reads an older YAML than the one that is written elsewhere.
        Output::Yaml => Ok(yaml::to_portable_string(&for_programs(converted), 0)),
    }
}

/// The schedule, or a List of several, without comments.
fn for_programs(converted: &[Converted]) -> Value {
    match converted {
        [one] => one.manifest(),
        all => {
            let items: Vec<Value> = all.iter().map(Converted::manifest).collect();
            json!({"apiVersion": "v1", "kind": "List", "items": items})
        }
    }
}

/// The schedule, with comments on what differs.
fn for_people(converted: &Converted) -> String {
    let mut text = String::new();
    comment(
        "Made from a CronJob by `punctual convert`. Suspend the CronJob before you apply this: \
             two controllers that run the same work know nothing of each other.",
        0,
        &mut text,
    );
    for note in &converted.notes {
        comment(note, 0, &mut text);
    }
    let manifest = converted.manifest();
    for key in ["apiVersion", "kind", "metadata"] {
        yaml::write_entry(key, &manifest[key], 0, &mut text);
    }
    text.push_str("spec:\n");
    fields(&converted.spec, 2, &mut text);
    text.push_str("  run:\n");
    fields(&converted.run, 4, &mut text);
    text
}

fn fields(fields: &[Field], indent: usize, text: &mut String) {
    for field in fields {
        comment(&field.comment, indent, text);
        yaml::write_entry(field.name, &field.value, indent, text);
    }
}

/// Writes a comment in lines of bounded width.
fn comment(sentence: &str, indent: usize, text: &mut String) {
    let mut column = 0;
    for word in sentence.split_whitespace() {
        if column > 0 && column + 1 + word.chars().count() > WIDTH {
            text.push('\n');
            column = 0;
        }
        if column == 0 {
            let _ = write!(text, "{:indent$}# {word}", ""); // writing to a String cannot fail
            column = indent + 2 + word.chars().count();
        } else {
            let _ = write!(text, " {word}");
            column += 1 + word.chars().count();
        }
    }
    if column > 0 {
        text.push('\n');
    }
}

/// The comparison in words.
fn differences(compared: &Comparison) -> String {
    let Comparison { name, from, to, cron_job_runs, schedule_runs, .. } = compared;
    let mut text = format!(
        "{name}: {from} to {to}: the CronJob runs {cron_job_runs} times, the schedule {schedule_runs}.\n"
    );
    let mut line = |sentence: &str| {
        let _ = writeln!(text, "{sentence}"); // writing to a String cannot fail
    };
    if compared.is_same() {
        line("They run at the same instants.");
        return text;
    }
    if compared.shift_seconds != 0 {
        line(&format!(
            "Each run of the CronJob is {} s later than that of the schedule: it counts from a moment \
             between two minutes.",
            compared.shift_seconds
        ));
    }
    if compared.different > 0 {
        let rows: Vec<[String; 4]> = compared
            .differences
            .iter()
            .map(|one| [one.utc.to_string(), one.local.clone(), one.only.into(), one.note.clone()])
            .collect();
        text += &output::table(["UTC", "LOCAL", "ONLY", "NOTE"], &rows);
        let more = compared.different.saturating_sub(MAX_LISTED as u64);
        if more > 0 {
            let _ = writeln!(text, "and {more} more");
        }
    }
    text
}
