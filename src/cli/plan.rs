//! `punctual plan`: what the operator would do with a schedule at a moment.

use std::{fmt::Write as _, path::PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    CliError, DONE, input, output,
    target::{Connection, Output, block_on, find},
};
use crate::{
    api::{MaintenanceSchedule, ReportSchedule},
    schedules::Kind,
    time::{
        IntendedTime, SkippedRange, WallClock,
        manifest::parse_time,
        plan::{PlanInput, SchedulePlan, plan},
    },
};

/// Arguments of `punctual plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Before an edit is applied: what would the operator run and skip now?
  kubectl punctual plan -f edited.yaml --cluster
  # At another moment, from a saved object, without a cluster.
  kubectl get msched nightly -o yaml | kubectl punctual plan -f - --now 2026-11-29T05:00:00Z -o json

Exit codes: 0 done; 1 something is wrong; 2 a bad file or bad usage.")]
pub struct Args {
    /// File with a schedule and its status, as `kubectl get -o yaml` shows it; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Plan the file as an edit of the schedule of that name in the cluster: its status and
    /// creation time count, the file's do not. Nothing is written.
    #[arg(long)]
    cluster: bool,
    /// The moment to plan at [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    now: Option<Timestamp>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// The answer for scripts.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    run: &'a [IntendedTime],
    skipped: &'a [SkippedRange],
    next: Option<IntendedTime>,
}

/// Prints the plan.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let now = args.now.unwrap_or_else(|| WallClock::system().now());
    let mut manifest = input::read_manifest(&args.file)?;
    if args.cluster {
        manifest = block_on(over_live(manifest, &args.connection))?;
    }
    let refused = |error: String| CliError::BadUsage(format!("{}: {error}", args.file.display()));
    let input = PlanInput::from_manifest(&manifest).map_err(|error| refused(error.to_string()))?;
    let plan = plan(&input, now).map_err(|error| refused(error.to_string()))?;
    let answer = Answer { run: &plan.run, skipped: &plan.skipped, next: plan.next };
    output::print(args.output, &answer, || for_people(&plan, now))?;
    Ok(DONE)
}

/// The manifest as it would stand in the cluster after an edit.
async fn over_live(manifest: Value, connection: &Connection) -> Result<Value, CliError> {
    let Some(name) = manifest["metadata"]["name"].as_str() else {
        return Err(CliError::BadUsage(
            "metadata.name is missing; --cluster looks the schedule up by it".to_owned(),
        ));
    };
    let kind = manifest["kind"].as_str().unwrap_or_default();
    let reports = kind == "ReportSchedule";
    if !reports && kind != "MaintenanceSchedule" {
        return Err(CliError::BadUsage(format!(
            "kind: is {kind:?}; --cluster plans a MaintenanceSchedule or a ReportSchedule"
        )));
    }
    let person = connection.connect_in(manifest["metadata"]["namespace"].as_str()).await?;
    if reports {
        let live: Option<ReportSchedule> = find(&person, name).await?;
        return edited(manifest, person.namespace(), live.as_ref());
    }
    let live: Option<MaintenanceSchedule> = find(&person, name).await?;
    edited(manifest, person.namespace(), live.as_ref())
}

/// What a schedule is stays, and so does what was recorded of it; what it shall do is the file's.
fn edited<S: Kind>(
    mut manifest: Value,
    namespace: &str,
    live: Option<&S>,
) -> Result<Value, CliError> {
    let unreadable = |error: serde_json::Error| CliError::Failed(error.to_string());
    let (metadata, status) = match live {
        None => {
            (json!({"name": manifest["metadata"]["name"], "namespace": namespace}), Value::Null)
        }
        Some(live) => (
            serde_json::to_value(live.meta()).map_err(unreadable)?,
            serde_json::to_value(live.status()).map_err(unreadable)?,
        ),
    };
    manifest["metadata"] = metadata;
    manifest["status"] = status;
    Ok(manifest)
}

/// The plan in words.
fn for_people(plan: &SchedulePlan, now: Timestamp) -> String {
    let mut text = format!("At {now}:\n");
    let mut line = |head: &str, what: &str| {
        let _ = writeln!(text, "  {head:<8} {what}"); // writing to a String cannot fail
    };
    if plan.run.is_empty() {
        line("run", "nothing");
    }
    for at in &plan.run {
        line("run", &at.to_string());
    }
    for range in &plan.skipped {
        let SkippedRange { from, to, count, reason } = range;
        let when = if count == &1 {
            from.to_string()
        } else {
            format!("{from} to {to}, {count} instants")
        };
        line("skip", &format!("{when}: {}", reason.as_str()));
    }
    match (plan.suspended_time, plan.next) {
        (Some(since), None) => line("next", &format!("none, suspended since {since}")),
        (Some(since), Some(next)) => {
            line("next", &format!("{next}, suspended since {since} until then"));
        }
        (None, None) if plan.never_fires => line("next", "never, no date of the calendar matches"),
        (None, None) => line("next", "none within 20 years"),
        (None, Some(next)) => line("next", &next.to_string()),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Value {
        json!({
            "kind": "MaintenanceSchedule",
            "metadata": {"name": "s", "creationTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {"schedule": "0 3 * * *", "run": {"simulated": {}}},
            "status": {"lastScheduleTime": "2020-01-01T00:00:00Z"},
        })
    }

    #[test]
    fn an_edit_keeps_what_the_cluster_knows() {
        let live: MaintenanceSchedule = serde_json::from_value(json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
            "metadata": {
                "name": "s", "namespace": "docs", "uid": "u",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"schedule": "0 2 * * *", "run": {"simulated": {}}},
            "status": {
                "lastScheduleTime": "2026-01-05T02:00:00Z",
                "effectiveTime": "2026-01-01T00:00:00Z",
                "observed": {"uid": "u", "schedule": "0 2 * * *", "timeZone": "UTC", "dstPolicy": "Once"},
            },
        }))
        .unwrap();
        let edited = edited(file(), "docs", Some(&live)).unwrap();
        let input = PlanInput::from_manifest(&edited).unwrap();
        let now = "2026-01-06T02:30:00Z".parse().unwrap();
        // The expression is seen changed now: 02:00 of the old one is superseded, 03:00 comes next.
        let plan = plan(&input, now).unwrap();
        assert!(plan.run.is_empty(), "{plan:?}");
        assert_eq!(plan.skipped[0].from.to_string(), "2026-01-06T02:00:00Z");
        assert_eq!(plan.next.unwrap().to_string(), "2026-01-06T03:00:00Z");
    }

    #[test]
    fn one_that_does_not_exist_is_planned_as_just_created() {
        let edited = edited(file(), "docs", None::<&MaintenanceSchedule>).unwrap();
        let input = PlanInput::from_manifest(&edited).unwrap();
        assert_eq!((input.creation_time, input.last_schedule_time), (None, None));
    }
}
