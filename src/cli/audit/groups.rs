//! Which work ran more than once, and which of its runs is the record: pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    collect::{Collected, JobFact},
    report::{Group, ManyPods, Read, Report},
    run::{Outcome, Run, Source, Work},
};

/// Jobs with many pods that are listed; all are counted.
const MAX_MANY_PODS: usize = 20;
/// More pods than that were not started for one completion.
const ONE_POD: i32 = 1;

/// Groups everything that was read by what it is a run of.
pub(super) fn report(collected: Collected, namespace: Option<String>) -> Report {
    let read = Read {
        occurrences: collected.occurrences.len(),
        reports: collected.reports.len(),
        jobs: collected.jobs.len(),
        unreadable: collected.unreadable,
    };
    let both = both(&collected);
    let many_pods = many_pods(&collected.jobs);
    let (runs, without_instant) = runs_by_work(&collected);
    let groups = runs.into_iter().filter(|(_, runs)| runs.len() > 1);
    let groups: Vec<Group> = groups.map(|(work, runs)| group(work, runs)).collect();
    Report {
        namespace,
        duplicates: groups.len(),
        groups,
        without_instant,
        many_pods,
        both,
        read,
        not_read: collected.not_read,
    }
}

/// Every run, by what it is a run of; and how many Jobs of CronJobs do not say their instant.
fn runs_by_work(collected: &Collected) -> (BTreeMap<Work, Vec<Run>>, usize) {
    let mut runs: BTreeMap<Work, Vec<Run>> = BTreeMap::new();
    let mut by_id: BTreeMap<(&str, &str), &Work> = BTreeMap::new();
    let mut committed: BTreeSet<&str> = BTreeSet::new();
    for fact in collected.occurrences.iter().chain(&collected.reports) {
        by_id.insert((&fact.namespace, &fact.id), &fact.work);
        committed.extend(fact.handles.iter().map(String::as_str));
        runs.entry(fact.work.clone()).or_default().extend(fact.runs.iter().cloned());
    }
    let mut without_instant = 0;
    for job in collected.jobs.iter().filter(|job| job.ran) {
        if committed.contains(job.uid.as_str()) {
            continue; // it is the attempt that is counted already
        }
        let work = match (&job.id, &job.of) {
            (Some(id), _) => {
                let known = by_id.get(&(job.namespace.as_str(), id.as_str()));
                let gone = || Work::Key { namespace: job.namespace.clone(), id: id.clone() };
                known.map_or_else(gone, |work| (*work).clone())
            }
            (None, Some(of)) => {
                let Some(instant) = of.instant else {
                    without_instant += 1;
                    continue;
                };
                let schedule = collected.schedule_of(&of.cronjob);
                Work::Scheduled { namespace: job.namespace.clone(), schedule, instant }
            }
            (None, None) => continue,
        };
        runs.entry(work).or_default().push(job.run.clone());
    }
    (runs, without_instant)
}

fn group(work: Work, mut runs: Vec<Run>) -> Group {
    runs.sort_by(|a, b| {
        (a.moment(), &a.object, a.attempt).cmp(&(b.moment(), &b.object, b.attempt))
    });
    let (record, why) = record(&runs);
    if let Some(run) = runs.get_mut(record) {
        run.record = true;
    }
    let only_cronjobs = runs.iter().all(|run| run.source == Source::CronJob);
    let (namespace, of, instant) = match work {
        Work::Scheduled { namespace, schedule, instant } => {
            let of = match schedule.strip_prefix("msched/") {
                Some(name) if only_cronjobs => format!("cronjob/{name}"),
                _ => schedule,
            };
            (namespace, of, Some(instant))
        }
        Work::Named { namespace, name } => (namespace, format!("rjob/{name}"), None),
        Work::Key { namespace, id } => (namespace, format!("run key {id}"), None),
    };
    Group { namespace, of, instant, overlapped: overlapped(&runs), why: why.to_owned(), runs }
}

/// Which run is the record, and why. Runs are in the order of their starts.
fn record(runs: &[Run]) -> (usize, &'static str) {
    let own = |run: &Run| matches!(run.source, Source::Occurrence | Source::Report);
    let succeeded = |run: &Run| run.outcome == Outcome::Succeeded;
    if let Some(at) = runs.iter().position(|run| own(run) && succeeded(run)) {
        return (
            at,
            "the object of Punctual is the record: its name is the identity of the work, and its end never changes",
        );
    }
    if let Some(at) = runs.iter().rposition(own) {
        return (
            at,
            "the object of Punctual is the record, although this run did not succeed: its name is the identity of the work",
        );
    }
    if let Some(at) = runs.iter().position(succeeded) {
        return (at, "it is the first that succeeded; what ran besides repeated or disturbed it");
    }
    (0, "none succeeded; it is the first that started")
}

/// Whether two of the runs acted at one time, as far as their times say.
fn overlapped(runs: &[Run]) -> bool {
    let mut latest_end: Option<Option<crate::api::Time>> = None;
    for run in runs {
        let Some(started) = run.started else { continue };
        match latest_end {
            Some(None) => return true,
            Some(Some(end)) if started < end => return true,
            _ => {}
        }
        let open = matches!(run.outcome, Outcome::Running | Outcome::Unknown);
        let end = if open { None } else { run.ended.or(Some(started)) };
        latest_end = Some(match (latest_end, end) {
            (Some(Some(before)), Some(end)) => Some(before.max(end)),
            (_, end) => end,
        });
    }
    false
}

/// CronJobs and schedules that would both run the next instant.
fn both(collected: &Collected) -> Vec<String> {
    let pairs = collected.cronjobs.iter().filter_map(|(namespace, name)| {
        let schedule = collected.schedule_of(name);
        collected
            .schedules
            .contains(&format!("{namespace}/{schedule}"))
            .then(|| format!("{namespace}/cronjob/{name} and {namespace}/{schedule}"))
    });
    pairs.collect()
}

/// Jobs of CronJobs that started more than one pod: the Job controller repeats what fails.
fn many_pods(jobs: &[JobFact]) -> ManyPods {
    let many = jobs.iter().filter(|job| job.of.is_some() && job.pods > ONE_POD);
    let names: Vec<String> = many
        .map(|job| format!("{}/{} ({} pods)", job.namespace, job.run.object, job.pods))
        .collect();
    ManyPods { total: names.len(), jobs: names.into_iter().take(MAX_MANY_PODS).collect() }
}
