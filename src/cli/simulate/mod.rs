//! `punctual simulate`: plays the arrival model on a queue, through the code that the operator runs, to
//! choose slots and limits. No cluster is touched.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::Serialize;

use super::{CliError, DONE, output, progress::Progress, target::Output};
use crate::{
    arrivals::{MAX_HOURS, MAX_JOBS, Model},
    reports::rules::Rules,
    simulate::{
        Setting,
        outcome::{Outcome, outcome},
        page::{self, Section},
        play,
    },
    time::manifest::parse_time,
};

mod manifest;
mod table;
#[cfg(test)]
mod tests;
mod variants;

use variants::Change;

/// Most jobs of one call, all variants together: some minutes of work.
const MAX_JOBS_IN_ALL: u64 = 20_000_000;
/// Most variants: more is no table for people.
const MAX_VARIANTS: usize = 64;
/// Slots of a queue that no file describes.
const SLOTS: i32 = 64;

/// Arguments of `punctual simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # 20,000 jobs in a day, on 64 and on 96 slots.
  kubectl punctual simulate --jobs 20000 --slots 64,96
  # A queue as its manifest describes it.
  kubectl punctual simulate -f queue.yaml

A flag with several values is a question: --slots 64,96 plays both and prints one line for each. \
--weights, --max-running and --limits hold commas themselves; give them twice. How jobs come and end: \
docs/decisions/0027-arrival-model-with-top-of-hour-bursts.md. What the numbers mean: \
docs/reference/simulate.md.")]
pub struct Args {
    /// File with a ReportQueue: its slots, limits, tenants and retries are played.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many jobs come.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "20000",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_JOBS)))]
    jobs: Vec<u32>,
    /// In how many hours they come.
    #[arg(long, value_name = "N", default_value_t = 24,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_HOURS)))]
    hours: u32,
    /// When the first hour begins [default: 2026-11-30T00:00:00Z, a Monday]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<Timestamp>,
    /// Slots of the queue [default: those of the file, or 64]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = variants::slots)]
    slots: Vec<Change>,
    /// How many tenants there are; the first of them have most jobs [default: 300]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = variants::tenants)]
    tenants: Vec<Change>,
    /// Weights of tenants; who is named first has most jobs. Others weigh 1.
    #[arg(long, value_name = "TENANT=N,…", value_parser = variants::weights)]
    weights: Vec<Change>,
    /// Most slots that tenants may have at once: of some, or one number for each tenant.
    #[arg(long, value_name = "N or TENANT=N,…", value_parser = variants::max_running)]
    max_running: Vec<Change>,
    /// What retries may cost, in percent of first attempts; `off` for no retries [default: those of
    /// the file, or 10]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = variants::retry_budget)]
    retry_budget: Vec<Change>,
    /// How many jobs may wait, in all and of one tenant [default: those of the file, or
    /// queued=10000,per-tenant=1000]
    #[arg(long, value_name = "queued=N,per-tenant=N", value_parser = variants::limits)]
    limits: Vec<Change>,
    /// When the provider fails: start on the first day, length, percent of attempts that fail. Without
    /// a value 10:00+20m@60; `none` for comparison.
    #[arg(long, value_name = "HH:MM+LENGTH@PERCENT", value_delimiter = ',', num_args = 0..=1,
        default_missing_value = "10:00+20m@60", value_parser = variants::outage)]
    outage: Vec<Change>,
    /// One seed is one history, on every machine.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = variants::seed)]
    seed: Vec<Change>,
    /// Write a page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// A setting and what is different in it.
struct Variant {
    name: String,
    setting: Setting,
}

/// What came of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    /// What is different in it, in the words of the command line; empty if there is one only.
    variant: String,
    #[serde(flatten)]
    outcome: Outcome,
}

/// The answer for scripts.
#[derive(Debug, Serialize)]
struct Answer {
    variants: Vec<Line>,
}

/// Plays and prints.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let variants = variants(args)?;
    let total: u64 = variants.iter().map(|variant| u64::from(variant.setting.model.jobs)).sum();
    if total > MAX_JOBS_IN_ALL {
        return Err(CliError::BadUsage(format!(
            "{total} jobs in all variants together are too many, at most {MAX_JOBS_IN_ALL}: lower \
             --jobs or ask for fewer variants"
        )));
    }
    let mut progress = Progress::new(total);
    let (mut lines, mut sections, mut before) = (Vec::new(), Vec::new(), 0);
    for Variant { name, setting } in variants {
        let played = play(&setting, |jobs| progress.reached(before + jobs, &name));
        before += u64::from(setting.model.jobs);
        let outcome = outcome(&setting, &played);
        if args.html.is_some() {
            sections.push(Section::new(name.clone(), &setting, &played, outcome.clone()));
        }
        lines.push(Line { variant: name, outcome });
    }
    progress.done();
    if let Some(path) = &args.html {
        write_page(path, &sections)?;
    }
    let answer = Answer { variants: lines };
    output::print(args.output, &answer, || {
        table::for_people(&answer.variants, args.html.as_deref())
    })?;
    Ok(DONE)
}

fn write_page(path: &Path, sections: &[Section]) -> Result<(), CliError> {
    fs::write(path, page::page(sections))
        .map_err(|error| CliError::Failed(format!("cannot write {}: {error}", path.display())))
}

/// Everything that is to be played: each value of each flag with each of all others.
fn variants(args: &Args) -> Result<Vec<Variant>, CliError> {
    let setting = setting(args)?;
    let jobs: Vec<Change> = args.jobs.iter().copied().map(Change::Jobs).collect();
    let questions = [
        &jobs,
        &args.tenants,
        &args.slots,
        &args.weights,
        &args.max_running,
        &args.limits,
        &args.retry_budget,
        &args.outage,
        &args.seed,
    ];
    let count = questions.iter().map(|values| values.len().max(1)).product::<usize>();
    if count > MAX_VARIANTS {
        return Err(CliError::BadUsage(format!(
            "{count} variants are too many, at most {MAX_VARIANTS}: give fewer values"
        )));
    }
    let mut all = vec![Variant { name: String::new(), setting }];
    for values in questions {
        if values.is_empty() {
            continue;
        }
        all = all
            .iter()
            .flat_map(|one| values.iter().map(|value| with(one, value, values)))
            .collect();
    }
    all.iter().try_for_each(|variant| check(&variant.setting))?;
    Ok(all)
}

/// The same with one value of a flag; named only if the flag has several.
fn with(variant: &Variant, value: &Change, values: &[Change]) -> Variant {
    let mut setting = variant.setting.clone();
    value.apply(&mut setting);
    let mut name = variant.name.clone();
    if values.len() > 1 {
        let blank = if name.is_empty() { "" } else { ", " };
        name = format!("{name}{blank}{value}");
    }
    Variant { name, setting }
}

/// Refuses a setting that names more tenants than there are.
fn check(setting: &Setting) -> Result<(), CliError> {
    let (named, tenants) = (setting.names.len(), setting.model.tenants);
    if named > tenants as usize {
        return Err(CliError::BadUsage(format!(
            "{named} tenants are named and --tenants is {tenants}: raise it, or name fewer"
        )));
    }
    Ok(())
}

/// What is the same in all variants.
fn setting(args: &Args) -> Result<Setting, CliError> {
    let mut model = Model { hours: args.hours, ..Model::default() };
    if let Some(from) = args.from {
        model.from = from;
    }
    match &args.file {
        Some(path) => manifest::read(path, model),
        None => Ok(Setting::new(model, Rules { slots: SLOTS, ..Rules::default() })),
    }
}
