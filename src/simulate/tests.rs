//! What must hold in whatever is played.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::{outcome::outcome, *};
use crate::{
    arrivals::{Failures, Outage, Rhythm},
    reports::rules::TenantRule,
};

const MINUTE: i64 = 60_000;

fn rules(slots: i32) -> Rules {
    Rules { slots, ..Rules::default() }
}

/// A morning with too few slots, so that everything happens.
fn busy(seed: u64) -> Setting {
    let outage = Outage { after_seconds: 3_600, seconds: 1_200, percent: 60 };
    let model = Model {
        seed,
        hours: 4,
        jobs: 1_500,
        outage: Some(outage),
        impatient_per_mille: 50,
        ..Model::default()
    };
    let mut setting =
        Setting::new(model, Rules { queued: 150, queued_per_tenant: 30, ..rules(16) });
    let rule = TenantRule { weight: 3, max_running: Some(4) };
    setting.rules.tenants.insert("acme".to_owned(), rule);
    setting.names.push("acme".to_owned());
    setting
}

/// One burst in which nothing fails.
fn burst(seed: u64, jobs: u32, slots: i32) -> Setting {
    let model = Model {
        seed,
        hours: 1,
        jobs,
        tenants: 40,
        rhythm: Rhythm::burst(),
        failures: Failures::none(),
        impatient_per_mille: 0,
        ..Model::default()
    };
    Setting::new(model, rules(slots))
}

pub(super) fn quiet(_: u64) {}

#[test]
fn every_job_that_arrives_ends_in_one_way() {
    for seed in 1..=6 {
        let setting = busy(seed);
        let played = play(&setting, quiet);
        let outcome = outcome(&setting, &played);
        let jobs = &outcome.jobs;
        assert_eq!(jobs.arrived, 1_500);
        assert_eq!(jobs.arrived, jobs.ran() + jobs.rejected() + jobs.cancelled + jobs.waiting);
        assert_eq!(jobs.waiting, 0, "it drains");
        let admitted: BTreeSet<u32> = played.admissions.iter().map(|one| one.job).collect();
        assert_eq!(admitted.len() as u64, jobs.ran(), "who had a slot ran, and nobody else");
        for (number, story) in (0..).zip(&played.stories) {
            let ran = matches!(story.fate, Fate::Succeeded | Fate::Failed);
            assert_eq!(admitted.contains(&number), ran, "{story:?}");
        }
        assert!(jobs.rejected() > 0 && jobs.failed > 0 && jobs.cancelled > 0, "{jobs:?}");
        let by_tenant: u64 = outcome.tenants.iter().map(|tenant| tenant.jobs.arrived).sum();
        assert_eq!(by_tenant, 1_500);
    }
}

#[test]
fn retries_that_are_switched_off_wait_and_are_counted() {
    let mut setting = busy(1);
    setting.rules.retries = false;
    let outcome = outcome(&setting, &play(&setting, quiet));
    let jobs = &outcome.jobs;
    assert!(jobs.waiting > 0 && outcome.retries.admitted == 0, "{jobs:?}");
    assert_eq!(jobs.arrived, jobs.ran() + jobs.rejected() + jobs.cancelled + jobs.waiting);
}

#[test]
fn slots_limits_and_most_running_are_kept() {
    for seed in 1..=6 {
        let setting = busy(seed);
        let played = play(&setting, quiet);
        assert_eq!(played.tally.most_held, 16);
        assert!(played.samples.iter().all(|sample| sample.held <= 16));
        // Retries come back to the queue without an answer, so a few more may wait than are accepted.
        assert!(played.tally.most_waiting <= 150 + 60, "{}", played.tally.most_waiting);
        let mut running: BTreeMap<i64, i32> = BTreeMap::new();
        for admitted in &played.admissions {
            let job = &played.arrivals[admitted.job as usize];
            if job.tenant == 0 {
                let ending = setting.model.ending(job, admitted.attempt, admitted.at);
                *running.entry(admitted.at).or_default() += 1;
                *running.entry(admitted.at + ending.after).or_default() -= 1;
            }
        }
        let held = running.values().scan(0, |held, change| {
            *held += change;
            Some(*held)
        });
        assert!(held.max().unwrap() <= 4, "acme holds at most its maxRunning");
    }
}

#[test]
fn retries_take_no_more_than_their_budget() {
    for (seed, percent) in [(1, 0), (2, 5), (3, 10), (4, 10), (5, 50)] {
        let mut setting = busy(seed);
        setting.rules.budget_percent = percent;
        setting.model.failures.transient_per_mille = 400;
        let played = play(&setting, quiet);
        let tally = &played.tally;
        let largest = played.arrivals.iter().map(|job| i64::from(job.estimate) * 1000).max();
        let full = (16 * 3_600_000 / 10).max(2 * largest.unwrap());
        let paid = tally.retries_paid - tally.beyond_charged;
        let most = full + tally.first_charged * i64::from(percent) / 100;
        assert!(tally.retries > 100 && paid <= most, "seed {seed}: {paid} of {most}");
        assert!(percent > 10 || tally.waited_for_budget > 0, "the budget is what holds them back");
        if tally.beyond_charged == 0 {
            assert!(played.samples.iter().all(|sample| sample.budget_left >= 0));
        }
    }
}

#[test]
fn the_first_job_of_a_tenant_never_waits_behind_a_second_one_of_another() {
    let mut waited = 0;
    for seed in 1..=8 {
        let setting = burst(seed, 500, 4);
        let played = play(&setting, quiet);
        for tenant in 0..setting.model.tenants {
            let first = played.arrivals.iter().find(|job| job.tenant == tenant);
            let Some(first) = first else { continue };
            let mut others: BTreeMap<u32, u32> = BTreeMap::new();
            for admitted in &played.admissions {
                if admitted.job == first.number {
                    break;
                }
                if admitted.at >= first.at {
                    let other = played.arrivals[admitted.job as usize].tenant;
                    *others.entry(other).or_default() += 1;
                }
            }
            waited += others.len();
            assert!(
                others.values().all(|count| *count == 1),
                "seed {seed}: tenant {tenant} waited behind {others:?}"
            );
        }
    }
    assert!(waited > 100, "some do wait behind first ones of others: {waited}");
}

#[test]
fn tenants_that_wait_have_what_their_weights_give_them() {
    let mut setting = burst(3, 2_000, 32);
    let rule = TenantRule { weight: 3, max_running: None };
    setting.rules.tenants.insert("acme".to_owned(), rule);
    setting.names.push("acme".to_owned());
    // Estimates are right, or shares of slots could not be those of charges.
    (setting.model.work.tenant_sigma, setting.model.work.run_sigma) = (0.0, 0.0);
    setting.model.work.tail_percent = 0;
    setting.rules.queued_per_tenant = 10_000;
    let outcome = outcome(&setting, &play(&setting, quiet));
    for tenant in &outcome.tenants[..4] {
        let (had, due) = (tenant.had_percent, tenant.due_percent);
        assert!((had / due - 1.0).abs() < 0.15, "{}: had {had}, due {due}", tenant.name);
    }
    let [acme, second, ..] = &outcome.tenants[..] else { panic!("two tenants at least") };
    assert!(acme.due_percent > 2.0 * second.due_percent, "{acme:?} {second:?}");
}

#[test]
fn nobody_is_due_more_than_it_could_hold_and_others_share_what_it_leaves() {
    let demand = |number, held, wants, weight| play::Demand { number, held, wants, weight };
    // Ten slots; the heaviest tenant has one job, another has three, the others have many.
    let waits =
        vec![demand(0, 5, 20, 1), demand(1, 3, 3, 1), demand(2, 1, 1, 3), demand(3, 1, 9, 2)];
    let mut due: Vec<(usize, i64)> =
        play::fair(waits, 10_000).into_iter().map(|(number, _, due)| (number, due)).collect();
    due.sort_unstable();
    assert_eq!(due, [(0, 2_250), (1, 2_250), (2, 1_000), (3, 4_500)]);
    // Who wants no more than there is gets it, and nobody more.
    let waits = vec![demand(0, 2, 3, 5), demand(1, 1, 2, 1)];
    assert_eq!(play::fair(waits, 8_000), [(0, 2, 3_000), (1, 1, 2_000)]);
}

#[test]
fn a_broken_template_stops_at_the_second_equal_failure() {
    let mut setting = busy(2);
    setting.model.outage = None;
    setting.model.templates = 20;
    setting.model.failures = Failures { poison: true, ..Failures::none() };
    let played = play(&setting, quiet);
    let mut attempts: BTreeMap<u32, i32> = BTreeMap::new();
    for admitted in &played.admissions {
        let most = attempts.entry(admitted.job).or_default();
        *most = admitted.attempt.max(*most);
    }
    let broken = |job: &&Arrival| job.template == 0 && attempts.contains_key(&job.number);
    let mut count = 0;
    for job in played.arrivals.iter().filter(broken) {
        assert_eq!(attempts[&job.number], 2, "job {}", job.number);
        assert_eq!(played.stories[job.number as usize].fate, Fate::Failed);
        count += 1;
    }
    assert!(count > 20, "{count}");
    let others = played.arrivals.iter().filter(|job| job.template != 0);
    for job in others.filter(|job| attempts.contains_key(&job.number)) {
        assert_eq!(attempts[&job.number], 1);
    }
}

#[test]
fn an_outage_does_not_create_a_storm_of_retries() {
    // Everything fails for half an hour, within seconds, while first attempts wait all the time.
    let mut setting = burst(5, 8_000, 40);
    setting.rules.queued = 100_000;
    setting.rules.queued_per_tenant = 100_000;
    setting.model.outage = Some(Outage { after_seconds: 0, seconds: 1_800, percent: 100 });
    let played = play(&setting, quiet);
    let from = setting.model.from.as_millisecond();
    let first_waits = played.stories.iter().filter_map(|story| story.started).max().unwrap();
    assert!(first_waits > from + 30 * MINUTE, "first attempts wait through the outage");
    let during = |admitted: &&Admitted| admitted.at < from + 30 * MINUTE;
    let all = played.admissions.iter().filter(during).count();
    let retries = played.admissions.iter().filter(during).filter(|a| a.attempt > 1).count();
    assert!(all > 2_000 && retries > 100, "{retries} of {all}");
    assert!(retries * 100 <= all * 12, "{retries} of {all} admissions were retries");
    for sample in played.samples.iter().filter(|sample| sample.at < first_waits) {
        assert!(sample.retries <= setting.rules.most_retries(true), "{sample:?}");
    }
    assert!(played.admissions.iter().all(|admitted| admitted.attempt <= 3));
}

#[test]
fn a_forecast_is_right_if_nothing_is_uncertain() {
    let mut setting = burst(4, 600, 8);
    (setting.model.work.tenant_sigma, setting.model.work.run_sigma) = (0.0, 0.0);
    let played = play(&setting, quiet);
    let outcome = outcome(&setting, &played);
    let start = &outcome.forecast.start;
    assert!(start.judged > 300 && start.p90_percent < 1.0, "{start:?}");
    assert!(outcome.forecast.drain.p50_percent < 10.0, "{:?}", outcome.forecast.drain);
    let asked = &played.asked[0];
    assert!(asked.over <= asked.at_most, "the bound holds: {asked:?}");
}

#[test]
fn one_seed_is_one_answer_to_the_last_byte() {
    let json = |seed| {
        let mut setting = busy(seed);
        setting.model.jobs = 400;
        serde_json::to_string(&outcome(&setting, &play(&setting, quiet))).unwrap()
    };
    let (one, again) = (json(1), json(1));
    assert_eq!(one, again);
    assert_ne!(one, json(2));
    // The same in every build and on every machine.
    let digest = Sha256::digest(one.as_bytes());
    let first = digest.first_chunk().copied().map_or(0, u64::from_be_bytes);
    assert_eq!(format!("{first:016x}"), "798730dff7be65cf", "{one}");
}

#[test]
fn names_are_given_to_the_largest_tenants_first() {
    let mut setting = Setting::new(Model { tenants: 4, ..Model::default() }, rules(1));
    setting.names = vec!["acme".to_owned(), "tenant-003".to_owned(), "bolt".to_owned()];
    assert_eq!(setting.tenants(), ["acme", "bolt", "tenant-003", "tenant-004"]);
}

#[test]
fn the_page_is_complete_and_has_nothing_from_outside() {
    let setting = busy(1);
    let played = play(&setting, quiet);
    let section = |name: &str| {
        page::Section::new(name.to_owned(), &setting, &played, outcome(&setting, &played))
    };
    let one = page::page(&[section("")]);
    assert_eq!(one.matches("<svg").count(), 5);
    for part in ["What ran.", "Who waited.", "Retry budget", "acme", "prefers-color-scheme: dark"] {
        assert!(one.contains(part), "{part}");
    }
    for outside in ["<script", "http:", "https:", "url(", "@import", "NaN"] {
        assert!(!one.contains(outside), "{outside}");
    }
    let two = page::page(&[section("slots <8>"), section("slots 16")]);
    assert!(two.contains("slots &lt;8&gt;") && !two.contains("<8>"));
    assert!(two.contains("href=\"#s1\"") && two.contains("id=\"s1\""));
    assert_eq!(one, page::page(&[section("")]), "the same page again");
}
