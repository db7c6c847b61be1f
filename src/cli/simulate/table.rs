//! The answer for people.

use std::{fmt::Write as _, path::Path, time::Duration};

use super::Line;
use crate::{
    cli::output::table,
    sim::page::words::span,
    simulate::outcome::{Accuracy, Jobs, Outcome, Tenant, Wait},
};

/// One outcome in full, or a line for each of several.
pub(super) fn for_people(lines: &[Line], page: Option<&Path>) -> String {
    let mut text = match lines {
        [one] => story(&one.outcome),
        _ => comparison(lines),
    };
    if let Some(path) = page {
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(text, "\nThe page: {}", path.display());
    }
    text
}

/// Seconds for people.
fn time(seconds: f64) -> String {
    span(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

fn story(outcome: &Outcome) -> String {
    let Outcome { setting, jobs, queue, .. } = outcome;
    let mut text = format!(
        "{} jobs of {} tenants in {} h over {} slots, from {}, seed {}\n\n",
        setting.jobs,
        setting.tenants,
        setting.hours,
        setting.slots,
        setting.from_time,
        setting.seed
    );
    let mut say = |head: &str, words: String| {
        let _ = writeln!(text, "{head:<10} {words}");
    };
    say("Jobs.", became(jobs));
    say(
        "Queue.",
        format!(
            "{} % of the slots in use on average, at most {} of {}; at most {} jobs waited; longest \
             backlog {}",
            queue.utilisation_percent,
            queue.most_slots_used,
            setting.slots,
            queue.most_waiting,
            time(queue.longest_backlog_seconds)
        ),
    );
    say(
        "Drained.",
        format!(
            "{}, {} after the last hour",
            queue.drained_time,
            time(queue.drained_after_seconds)
        ),
    );
    say("Retries.", spent(outcome));
    if let Some(outage) = &setting.outage {
        let (from, length) = (&outage.from_time, time(f64::from(outage.seconds)));
        say("Outage.", format!("from {from} for {length}, {} % of attempts fail", outage.percent));
    }
    text.push_str(&tables(outcome));
    text
}

/// Who waited how long, how right forecasts were, who had what.
fn tables(outcome: &Outcome) -> String {
    let Outcome { setting, waiting, forecast, tenants, .. } = outcome;
    let mut text = "\nTime from creation to the first start:\n\n".to_owned();
    let small = setting.tenants as usize - waiting.large_tenants;
    let row = |name: String, wait: &Wait| {
        let Wait { started, p50_seconds, p95_seconds, p99_seconds, longest_seconds } = wait;
        let times = [p50_seconds, p95_seconds, p99_seconds, longest_seconds].map(|s| time(*s));
        let [p50, p95, p99, longest] = times;
        [name, started.to_string(), p50, p95, p99, longest]
    };
    let rows = [
        row(format!("{small} small ones"), &waiting.small),
        row(format!("{} large ones", waiting.large_tenants), &waiting.large),
    ];
    text.push_str(&table(["TENANTS", "STARTED", "HALF", "95 %", "99 %", "LONGEST"], &rows));
    text.push_str("\nForecasts just after each burst, and by how much they were wrong:\n\n");
    let row = |what: &str, of: &Accuracy| {
        let (half, most) = (format!("{} %", of.p50_percent), format!("{} %", of.p90_percent));
        [what.to_owned(), of.judged.to_string(), half, most]
    };
    let rows = [
        row("when what waits is done", &forecast.drain),
        row("when a job starts", &forecast.start),
        row("the same by jobs before it, over the rate", &forecast.start_by_arrival),
    ];
    text.push_str(&table(["FORECAST", "JUDGED", "HALF WITHIN", "90 % WITHIN"], &rows));
    text.push_str(
        "\nTenants. Had and due: of the slots of all who waited, while it waited itself.\n\n",
    );
    let rows: Vec<[String; 9]> = tenants.iter().map(tenant).collect();
    let head =
        ["TENANT", "WEIGHT", "JOBS", "RAN", "REJECTED", "HALF", "99 %", "SLOT TIME", "HAD / DUE"];
    text.push_str(&table(head, &rows));
    text
}

/// What became of jobs, in words.
fn became(jobs: &Jobs) -> String {
    let Jobs { arrived, succeeded, failed, cancelled, waiting, rejected } = jobs;
    let mut parts = vec![
        format!("{arrived} arrived"),
        format!("{succeeded} succeeded"),
        format!("{failed} failed for good"),
        format!("{cancelled} cancelled while they waited"),
    ];
    let reasons: Vec<String> = rejected.iter().map(|(why, n)| format!("{why} {n}")).collect();
    parts.push(match &reasons[..] {
        [] => "none rejected".to_owned(),
        reasons => format!("{} rejected ({})", jobs.rejected(), reasons.join(", ")),
    });
    if *waiting > 0 {
        parts.push(format!("{waiting} wait for ever"));
    }
    parts.join(", ")
}

fn spent(outcome: &Outcome) -> String {
    let retries = &outcome.retries;
    format!(
        "{} attempts failed, {} were tried again, {} not; retries took {} % of the slot time of first \
         attempts; {} waited for the budget, {} for their share",
        retries.failed_attempts,
        retries.admitted,
        retries.given_up,
        retries.percent_of_first,
        retries.waited_for_budget,
        retries.waited_for_share
    )
}

fn tenant(tenant: &Tenant) -> [String; 9] {
    let name = match tenant.tenants {
        1 => tenant.name.clone(),
        count => format!("{} ({count})", tenant.name),
    };
    [
        name,
        tenant.weight.to_string(),
        tenant.jobs.arrived.to_string(),
        tenant.jobs.ran().to_string(),
        tenant.jobs.rejected().to_string(),
        time(tenant.waiting.p50_seconds),
        time(tenant.waiting.p99_seconds),
        format!("{} %", tenant.slot_time_percent),
        format!("{} / {} %", tenant.had_percent, tenant.due_percent),
    ]
}

/// One line for each variant.
fn comparison(lines: &[Line]) -> String {
    let rows: Vec<[String; 10]> = lines
        .iter()
        .map(|Line { variant, outcome }| {
            let Outcome { jobs, waiting, queue, forecast, retries, .. } = outcome;
            [
                variant.clone(),
                jobs.ran().to_string(),
                jobs.rejected().to_string(),
                time(waiting.small.p50_seconds),
                time(waiting.small.p99_seconds),
                time(waiting.large.p99_seconds),
                format!("{} %", queue.utilisation_percent),
                time(queue.longest_backlog_seconds),
                format!("{} %", forecast.drain.p50_percent),
                format!("{} / {}", retries.admitted, retries.waited_for_budget),
            ]
        })
        .collect();
    let head = [
        "VARIANT",
        "RAN",
        "REJECTED",
        "SMALL HALF",
        "SMALL 99 %",
        "LARGE 99 %",
        "SLOTS USED",
        "LONGEST BACKLOG",
        "DRAIN OFF BY",
        "RETRIES / DENIED",
    ];
    let mut text = table(head, &rows);
    text.push_str(
        "\nSmall, large: time from creation to the first start, by size of the tenant. Drain off by: how \
         wrong half of\nthe forecasts were at most, just after each burst. Denied: retries that \
         waited for the budget.\n",
    );
    text
}
