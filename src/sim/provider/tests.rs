use tokio::time::sleep;

use super::*;
use crate::providers::job::fixtures::{simulated_request, word};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn provider() -> Provider {
    Provider::new(Time::starting("2026-11-29T02:00:00Z".parse().unwrap()))
}

fn prepare(provider: &Provider, spec: &str) -> String {
    match provider.prepare(&simulated_request(spec)).unwrap() {
        Prepared::Ready { handle } => handle,
        other => panic!("{other:?}"),
    }
}

fn start(provider: &Provider, spec: &str) -> String {
    let handle = prepare(provider, spec);
    provider.release(&handle).unwrap();
    handle
}

fn status(provider: &Provider, handle: &str) -> Option<&'static str> {
    provider.status(handle).unwrap().as_ref().map(word)
}

fn rule(matches: &str, secs: Option<u64>, outcome: SimulatedOutcome) -> Rule {
    let duration = secs.map(Duration::from_secs);
    Rule { matches: matches.into(), duration, outcome, ..Rule::default() }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_held_released_once_and_ends_in_its_time() {
    let provider = provider();
    let told: Arc<Mutex<Vec<RunChange>>> = Arc::default();
    let hears = Arc::clone(&told);
    provider.on_event(move |event| hears.lock().unwrap().push(event.what.clone()));
    let handle = prepare(&provider, "{durationSeconds: 30}");
    sleep(secs(100)).await;
    assert_eq!(status(&provider, &handle), Some("Held"));
    provider.release(&handle).unwrap();
    sleep(secs(29)).await;
    provider.release(&handle).unwrap();
    assert_eq!(status(&provider, &handle), Some("Running"));
    assert_eq!(provider.next_end(), Some(secs(130)));
    sleep(secs(60)).await;
    assert_eq!(status(&provider, &handle), Some("Succeeded"));
    let [run] = &provider.runs()[..] else { panic!("one run") };
    assert_eq!((run.released_at, run.ended_at), (Some(secs(100)), Some(secs(130))));
    let ended = RunChange::Ended { outcome: "Succeeded".into() };
    let expected = [RunChange::Held, RunChange::Released, RunChange::Started, ended];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn rules_stand_over_manifests_and_apply_to_running_ones() {
    let provider = provider();
    let name = simulated_request("{}").parent.name;
    provider.add_rules([rule(&name, Some(90), SimulatedOutcome::Succeeded)]);
    let handle = start(&provider, "{durationSeconds: 5, outcome: Failed}");
    sleep(secs(80)).await;
    assert_eq!(status(&provider, &handle), Some("Running"));
    provider.put_rule(rule("*", None, SimulatedOutcome::Unknown));
    assert_eq!(status(&provider, &handle), Some("Unknown"), "10 s are over");
    assert_eq!(provider.runs()[0].outcome, Some(SimulatedOutcome::Unknown));
    provider.put_rule(rule("*", None, SimulatedOutcome::Failed));
    assert_eq!(status(&provider, &handle), Some("Failed"));
    provider.put_rule(rule("*", None, SimulatedOutcome::Succeeded));
    assert_eq!(status(&provider, &handle), Some("Failed"), "what happened stays");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_confirmed_at_once_unless_the_run_hangs() {
    for (spec, after, cancelled) in [
        ("{}", 5, "Absent"),
        ("{}", 10, "Succeeded"),
        ("{outcome: Unknown}", 20, "Absent"),
        ("{outcome: Hang}", 20, "Stopping"),
    ] {
        let provider = provider();
        let handle = start(&provider, spec);
        sleep(secs(after)).await;
        provider.cancel(&handle).unwrap();
        assert_eq!(status(&provider, &handle), Some(cancelled), "{spec}");
    }
    let provider = provider();
    let held = prepare(&provider, "{outcome: Hang}");
    provider.cancel(&held).unwrap();
    assert_eq!(status(&provider, &held), Some("Absent"), "held: there is nothing to hang");
    assert!(matches!(provider.release(&held), Err(ProviderError::Conflict(_))));
}

#[tokio::test(start_paused = true)]
async fn what_hangs_gives_way_once_the_rule_says_so() {
    let provider = provider();
    let handle = start(&provider, "{outcome: Hang}");
    provider.cancel(&handle).unwrap();
    provider.put_rule(rule("*", Some(3600), SimulatedOutcome::Succeeded));
    assert_eq!(status(&provider, &handle), Some("Stopping"), "nobody asked again");
    provider.cancel(&handle).unwrap();
    assert_eq!(status(&provider, &handle), Some("Absent"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_run_is_gone_for_ever() {
    let provider = provider();
    let handle = start(&provider, "{}");
    let attempt = simulated_request("{}").attempt_name;
    assert_eq!(provider.lose("other-m1"), 0);
    assert_eq!(provider.lose(&attempt), 1);
    assert_eq!(status(&provider, &handle), None);
    assert!(matches!(provider.release(&handle), Err(ProviderError::Conflict(_))));
    let again = prepare(&provider, "{}");
    assert_ne!(again, handle);
    assert_eq!(status(&provider, &again), Some("Held"));
    assert_eq!(status(&provider, &handle), None, "the old handle stays unknown");
    assert!(provider.runs()[0].lost && !provider.runs()[1].lost);
}

#[tokio::test(start_paused = true)]
async fn unreachable_does_nothing_and_a_lost_answer_did_it_all_the_same() {
    let provider = provider();
    let handle = prepare(&provider, "{}");
    provider.unreachable_until(secs(60));
    assert!(matches!(provider.release(&handle), Err(ProviderError::Unreachable(_))));
    assert!(matches!(provider.status(&handle), Err(ProviderError::Unreachable(_))));
    sleep(secs(60)).await;
    assert_eq!(status(&provider, &handle), Some("Held"));
    provider.drop_answers(1);
    assert!(matches!(provider.release(&handle), Err(ProviderError::Unreachable(_))));
    assert_eq!(status(&provider, &handle), Some("Running"));
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_without_pause_is_noticed_and_put_off() {
    let provider = provider();
    let handle = start(&provider, "{durationSeconds: 30}");
    for _ in 0..MAX_CALLS_AT_ONCE - 2 {
        assert!(provider.status(&handle).is_ok());
    }
    assert_eq!(provider.restless(), None);
    assert!(provider.status(&handle).is_err());
    assert_eq!(provider.restless(), Some(Duration::ZERO));
    sleep(secs(1)).await;
    assert_eq!(status(&provider, &handle), Some("Running"));
}
