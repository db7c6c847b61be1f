//! Schedules over time: what was recorded is not run again, what was missed is made up for, and
//! what is due while something runs follows the policy.

use jiff::{Timestamp, tz::TimeZone};
use punctual::{identity::occurrence_name, time::IntendedTime};
use serde_json::{Value, json};

use super::steps::{
    SOON, after, apply_back_dated, by_hand, claims, claims_nothing, hourly_at, in_state, job_of,
    let_go, minutes_ago, moment, not_soon, operator, patch, patch_status, punctual, runs_of,
    schedule, skipped, state_of, trigger, trigger_again, uid,
};
use crate::bed::{
    objects::text,
    plan::scenario,
    run::progress,
    scenario::{Scenario, ok},
};

/// Applies the same manifest again and triggers the same instant again: the record answers.
async fn ask_again(s: &Scenario, manifest: &Value, code: i32) {
    let name = text(manifest, "/metadata/name");
    let before = s.get("mocc", name).await.unwrap();
    let said = s.apply(&manifest.to_string()).await;
    assert!(said.stdout.contains("unchanged"), "{}", said.stdout);
    let at = text(manifest, "/spec/intendedTime").parse().unwrap();
    let answer = trigger_again(s, text(manifest, "/spec/scheduleName"), at).await;
    assert_eq!(answer.code, Some(code), "{answer:?}");
    let json = answer.json();
    assert_eq!(json["existing"], true);
    assert_eq!(json["state"], before["status"]["state"]);
    assert_eq!(json["reason"], before["status"]["reason"]);
    assert_eq!(json.get("result"), before["status"].get("result"));
    assert_eq!(s.get("mocc", name).await.unwrap(), before, "the record did not move");
    assert_eq!(runs_of(s, name).await, 1, "{name}");
}

#[test]
fn a_recorded_result_answers_whoever_asks_again() {
    scenario().on_throw_away_cluster().run(async |s| {
        let rows = json!({"play/message": "{\"result\": {\"rows\": 3}}"});
        s.apply(&schedule("good", &not_soon(), &rows, &json!({})).to_string()).await;
        let fails = json!({"play/exit-code": "1"});
        s.apply(&schedule("bad", &not_soon(), &fails, &json!({})).to_string()).await;
        operator(s).await;
        let at = minutes_ago(30);
        let (good, bad) = (by_hand("good", at), by_hand("bad", at));
        s.apply(&good.to_string()).await;
        s.apply(&bad.to_string()).await;
        let done = in_state(s, &occurrence_name("good", at), "Succeeded").await;
        assert_eq!(done["status"]["result"], json!({"rows": 3}));
        let failed = in_state(s, &occurrence_name("bad", at), "Failed").await;
        assert_eq!(state_of(&failed), ("Failed", "ExitCode"));
        ask_again(s, &good, 0).await;
        ask_again(s, &bad, 1).await;
    });
}

#[test]
fn a_backfill_runs_one_after_another_oldest_first() {
    scenario().on_throw_away_cluster().run(async |s| {
        let instants = [minutes_ago(50), minutes_ago(40), minutes_ago(30)];
        let slow = json!({"play/duration": "2s"});
        let manifest = schedule("backfilled", &hourly_at(&instants), &slow, &json!({}));
        s.apply(&manifest.to_string()).await;
        let (from, to) = (instants[0].to_string(), instants[2].to_string());
        let window = ["--from", &from, "--to", &to, "-o", "json"];
        let backfill = [&["backfill", "msched/backfilled"][..], &window].concat();
        let dry = punctual(s, &[&backfill[..], &["--dry-run"]].concat()).await;
        assert_eq!(dry.code, Some(0), "{dry:?}");
        let times = |answer: &Value| -> Vec<String> {
            let all = answer.as_array().unwrap().iter();
            all.map(|one| text(one, "/intendedTime").to_owned()).collect()
        };
        assert_eq!(times(&dry.json()), instants.map(|at| at.to_string()));
        assert!(s.list("mocc").await.is_empty(), "a dry run creates nothing");
        // The newest is there first. Nobody runs anything yet.
        let newest = trigger(s, "backfilled", instants[2]).await;
        let real = punctual(s, &backfill).await;
        assert_eq!(real.code, Some(0), "{real:?}");
        let existing: Vec<Value> =
            real.json().as_array().unwrap().iter().map(|one| one["existing"].clone()).collect();
        assert_eq!(existing, [false, false, true]);
        operator(s).await;
        in_state(s, &newest, "Succeeded").await;
        let names = instants.map(|at| occurrence_name("backfilled", at));
        let mut ended = None;
        for name in &names {
            let done = s.get("mocc", name).await.unwrap();
            assert_eq!(text(&done, "/status/state"), "Succeeded", "{name}");
            let prepared = moment(&done, "/status/attempts/0/preparedTime");
            assert!(ended.is_none_or(|ended| ended <= prepared), "{name} began too early: {done}");
            ended = Some(moment(&done, "/status/attempts/0/completionTime"));
        }
        let report = s.verify().await;
        let order: Vec<&String> = report.releases.iter().map(|run| &run.identity).collect();
        assert_eq!(order, names.iter().collect::<Vec<_>>());
        let again = punctual(s, &backfill).await;
        assert_eq!(again.code, Some(0), "all succeeded: {again:?}");
        assert!(again.json().as_array().unwrap().iter().all(|one| one["existing"] == true));
    });
}

#[test]
fn a_schedule_deleted_and_created_again_holds_what_runs() {
    scenario().on_throw_away_cluster().run(async |s| {
        let at = minutes_ago(5);
        let hangs = json!({"play/hang": "true"});
        let manifest = schedule("gitops", &hourly_at(&[at]), &hangs, &json!({}));
        apply_back_dated(s, &manifest, minutes_ago(7)).await;
        operator(s).await;
        let name = occurrence_name("gitops", at);
        let runs = in_state(s, &name, "Running").await;
        let former = s.get("msched", "gitops").await.unwrap();
        ok(s.kubectl().run(&["delete", "msched", "gitops"]).await);
        s.apply(&manifest.to_string()).await;
        let holds = |m: &Value| uid(m) != uid(&former) && claims(m, uid(&runs), true);
        s.wait_for("msched", "gitops", "the new one holds what runs", SOON, holds).await;
        // The same instant is what runs already; another one waits for it.
        let same = trigger_again(s, "gitops", at).await;
        assert_eq!(same.code, Some(0), "{same:?}");
        assert_eq!(
            (&same.json()["existing"], &same.json()["state"]),
            (&json!(true), &json!("Running"))
        );
        let other = trigger(s, "gitops", minutes_ago(3)).await;
        let waits = in_state(s, &other, "Pending").await;
        assert_eq!(state_of(&waits), ("Pending", "Waiting"));
        let still = s.get("mocc", &name).await.unwrap();
        assert_eq!((uid(&still), text(&still, "/status/state")), (uid(&runs), "Running"));
        let_go(s, &job_of(&name, 1), "play/hang").await;
        in_state(s, &name, "Succeeded").await;
        in_state(s, &other, "Running").await;
        let_go(s, &job_of(&other, 1), "play/hang").await;
        in_state(s, &other, "Succeeded").await;
        let now = s.wait_for("msched", "gitops", "it holds nothing", SOON, claims_nothing).await;
        let created = moment(&now, "/metadata/creationTimestamp");
        assert_eq!(moment(&now, "/status/effectiveTime"), created);
        assert_eq!(runs_of(s, &name).await, 1);
        assert_eq!(runs_of(s, &other).await, 1);
    });
}

/// The day before today by `days`, at `hour` o'clock, UTC.
fn days_ago(days: i64, hour: i8) -> IntendedTime {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let day = today.saturating_sub(jiff::ToSpan::days(days));
    let at = day.at(hour, 0, 0, 0).to_zoned(TimeZone::UTC).expect("UTC has every hour");
    IntendedTime::floor(at.timestamp())
}

/// `0 9,17 * * 1-5`, turned so that today is its Sunday.
fn working_days() -> String {
    let of = |days| {
        let day = days_ago(days, 0).timestamp().to_zoned(TimeZone::UTC).weekday();
        day.to_sunday_zero_offset().to_string()
    };
    format!("0 9,17 * * {}", [6, 5, 4, 3, 2].map(of).join(","))
}

/// A CronJob that was last looked at at `last`.
async fn cron_job(s: &Scenario, name: &str, expression: &str, last: IntendedTime) {
    let manifest = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {
            "schedule": expression, "timeZone": "UTC", "suspend": true,
            "jobTemplate": {"spec": {"template": {
                "metadata": {"annotations": {"play/duration": "200ms"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "registry.example/none:1"}],
                },
            }}},
        },
    });
    s.apply(&manifest.to_string()).await;
    patch_status(s, "cronjob", name, &json!({"status": {"lastScheduleTime": last.to_string()}}))
        .await;
    patch(s, "cronjob", name, &json!({"spec": {"suspend": false}})).await;
}

/// The CronJob controller guesses the newest missed instant from the distance of the next two. From
/// a Thursday 17:00 these are Friday 9:00 and 17:00, and on Sunday its guess is past the last one.
#[test]
fn instants_before_a_weekend_are_made_up_for_where_a_cronjob_misses_them() {
    scenario().on_throw_away_cluster().run(async |s| {
        let thursday = days_ago(3, 17);
        let expression = working_days();
        let spec = json!({"missedRuns": {"policy": "All", "limit": 100}});
        let manifest = schedule("working-days", &expression, &json!({}), &spec);
        apply_back_dated(s, &manifest, thursday).await;
        let latest = schedule("latest-only", &expression, &json!({}), &json!({}));
        apply_back_dated(s, &latest, thursday).await;
        cron_job(s, "working-days", &expression, thursday).await;
        cron_job(s, "every-day", "0 17 * * *", thursday).await;
        operator(s).await;
        let friday = [days_ago(2, 9), days_ago(2, 17)];
        let names = friday.map(|at| occurrence_name("working-days", at));
        for name in &names {
            in_state(s, name, "Succeeded").await;
        }
        in_state(s, &occurrence_name("latest-only", friday[1]), "Succeeded").await;
        let of_latest = s.get("msched", "latest-only").await.unwrap();
        assert_eq!(skipped(&of_latest, friday[0]), Some("Superseded"));
        let occurrences = s.list("mocc").await;
        assert_eq!(occurrences.len(), 3, "{occurrences:?}");
        let now = s.get("msched", "working-days").await.unwrap();
        assert_eq!(text(&now, "/status/lastScheduleTime"), friday[1].to_string());
        assert_eq!(now["status"]["skippedTotal"].get("Missed"), None);
        // The controller works: it makes up for the one whose instants are evenly spaced.
        let last = days_ago(i64::from(Timestamp::now() < days_ago(0, 17).timestamp()), 17);
        let caught_up = |c: &Value| text(c, "/status/lastScheduleTime") == last.to_string();
        s.wait_for("cronjob", "every-day", "its newest instant ran", SOON, caught_up).await;
        let other = s.get("cronjob", "working-days").await.unwrap();
        progress(&format!(
            "CronJob {expression:?}, last {thursday}: two instants missed, now last {}",
            text(&other, "/status/lastScheduleTime")
        ));
    });
}

#[test]
fn retention_removes_records_and_never_runs_their_instants_again() {
    scenario().on_throw_away_cluster().run(async |s| {
        let spec = json!({"retention": {"successful": 1}});
        s.apply(&schedule("pruned", &not_soon(), &json!({}), &spec).to_string()).await;
        let instants = [minutes_ago(50), minutes_ago(40), minutes_ago(30)];
        operator(s).await;
        let mut names = Vec::new();
        for at in instants {
            names.push(trigger(s, "pruned", at).await);
        }
        for gone in &names[..2] {
            s.wait_gone("mocc", gone, SOON).await;
        }
        in_state(s, &names[2], "Succeeded").await;
        let now = s.get("msched", "pruned").await.unwrap();
        assert_eq!(text(&now, "/status/prunedThrough"), instants[1].to_string());
        s.wait_gone("job", &job_of(&names[0], 1), SOON).await;
        // It may have run, so it is not run again.
        trigger(s, "pruned", instants[0]).await;
        let refused = in_state(s, &names[0], "Skipped").await;
        assert_eq!(state_of(&refused), ("Skipped", "RecordPruned"));
        let again = trigger_again(s, "pruned", instants[0]).await;
        assert_eq!((again.code, &again.json()["existing"]), (Some(1), &json!(true)), "{again:?}");
        for name in &names {
            assert_eq!(runs_of(s, name).await, 1, "{name}");
        }
    });
}

/// An occurrence as a backup has it, without its status.
fn restored(name: &str, at: IntendedTime, schedule_uid: &str) -> Value {
    let mut manifest = by_hand(name, at);
    manifest["spec"]["scheduleUID"] = json!(schedule_uid);
    manifest["spec"]["run"] =
        schedule("any", "@daily", &json!({}), &json!({}))["spec"]["run"].clone();
    manifest
}

#[test]
fn occurrences_restored_without_status_are_never_run() {
    scenario().on_throw_away_cluster().run(async |s| {
        let at = minutes_ago(5);
        let manifest = schedule("lives", &hourly_at(&[at]), &json!({}), &json!({}));
        apply_back_dated(s, &manifest, minutes_ago(7)).await;
        let lives = s.get("msched", "lives").await.unwrap();
        // A schedule that comes out of the backup too, with the status of its former life.
        let all = json!({"missedRuns": {"policy": "All"}});
        let manifest = schedule("restored", &hourly_at(&[at]), &json!({}), &all);
        s.apply(&manifest.to_string()).await;
        let former = json!({"status": {
            "lastScheduleTime": minutes_ago(180).to_string(),
            "effectiveTime": minutes_ago(600).to_string(),
            "observed": {"uid": "former", "schedule": hourly_at(&[at])},
            "claimed": [{
                "time": at.to_string(), "start": true, "uid": "lost", "runKey": "k-m1",
                "actionClass": "Fenced",
            }],
        }});
        patch_status(s, "msched", "restored", &former).await;
        let before = restored("restored", after(at, -60), "former");
        s.apply(&before.to_string()).await;
        operator(s).await;
        in_state(s, &occurrence_name("lives", at), "Succeeded").await;
        let cases = [
            (restored("lives", after(at, -60), "former"), "NotClaimed"),
            (restored("lives", after(at, -120), uid(&lives)), "NotClaimed"),
            (restored("gone", at, "former"), "ScheduleDeleted"),
        ];
        for (occurrence, _) in &cases {
            s.apply(&occurrence.to_string()).await;
        }
        let cases = [&cases[..], &[(before, "NotClaimed")]].concat();
        for (occurrence, reason) in cases {
            let name = text(&occurrence, "/metadata/name");
            let over = in_state(s, name, "Superseded").await;
            assert_eq!(state_of(&over), ("Superseded", reason), "{name}");
            assert_eq!(runs_of(s, name).await, 0, "{name}");
        }
        let settled = |m: &Value| claims_nothing(m) && m["status"]["fence"].is_object();
        let now = s.wait_for("msched", "restored", "the lost claim is gone", SOON, settled).await;
        let created = moment(&now, "/metadata/creationTimestamp");
        assert_eq!(moment(&now, "/status/effectiveTime"), created, "it begins when it was created");
        let jobs = s.list("job").await;
        assert_eq!(jobs.len(), 1, "only what was due ran: {jobs:?}");
    });
}
