//! `punctual cancel`: asks for the end of an occurrence or a report job.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::{
    Decision, act, ending,
    work::{Piece, Recorded, RunsOn, Stage, Work},
};
use crate::{
    api::{MaintenanceOccurrence, ReportJob},
    cli::{
        CliError, DONE, NO, output, program,
        target::{Connection, Output, Target, TargetKind, WORK, block_on, read},
        when::parse_duration,
    },
    cluster::Person,
};

/// Arguments of `punctual cancel`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Ask for the end, and see what must happen before it is Cancelled.
  kubectl punctual cancel rjob/acme-usage-2026-11
  # Wait until it is over, at most 5 minutes.
  kubectl punctual cancel mocc/nightly-retention-202611290200 --wait=5m

A cancel cannot be taken back. To stop a schedule from making new ones, pause it.

Exit codes: 0 the cancel is asked for, or it is Cancelled; 1 it ended otherwise and can no longer be
cancelled, it did not end in the time given, or something is wrong; 2 bad usage.")]
pub struct Args {
    /// What to cancel, like mocc/nightly-retention-202611290200 or rjob/acme-usage-2026-11.
    object: String,
    /// Wait until it is over, and show how it goes; at most 10m if no duration is given.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true,
          default_missing_value = ending::USUAL_WAIT, value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(flatten)]
    recorded: Recorded,
    /// Whether this call asked for it, rather than one before.
    requested: bool,
    /// What happens next; none if it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Runs `punctual cancel`.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let target = Target::parse(&args.object, &WORK)?;
    block_on(async {
        let person = args.connection.connect().await?;
        match target.kind {
            TargetKind::ReportJob => cancel::<ReportJob>(&person, &target.name, args).await,
            _ => cancel::<MaintenanceOccurrence>(&person, &target.name, args).await,
        }
    })
}

async fn cancel<K: Piece>(person: &Person, name: &str, args: &Args) -> Result<u8, CliError> {
    let (mut answer, work) =
        act(person, name, |seen: &K| Ok(decide(&seen.work(), program()))).await?;
    let mut in_time = true;
    if let Some(limit) = args.wait.filter(|_| !work.is_over()) {
        match ending::wait::<K>(person, &work, limit).await? {
            Some(over) => answer = Answer { recorded: over.recorded, next: None, ..answer },
            None => in_time = false,
        }
        if !in_time {
            answer.recorded = read::<K>(person, name).await?.work().recorded;
        }
    }
    output::print(args.output, &answer, || sentences(&answer))?;
    if !in_time {
        return Err(CliError::Failed(format!(
            "{name} is not over in the time given; the cancel stands, and it goes on"
        )));
    }
    let ended_otherwise = answer.next.is_none() && answer.recorded.state != "Cancelled";
    Ok(if ended_otherwise { NO } else { DONE })
}

/// Sets `spec.cancel`, unless it is set or nothing is left to cancel.
fn decide(work: &Work, program: &str) -> Decision<(Answer, Work)> {
    let answer = |requested| {
        let next = (!work.is_over()).then(|| next(work, program));
        (Answer { recorded: work.recorded.clone(), requested, next }, work.clone())
    };
    if work.is_over() || work.cancel {
        return Decision::Say(answer(false));
    }
    Decision::Write(json!({"spec": {"cancel": true}}), answer(true))
}

/// What must happen before it is Cancelled.
fn next(work: &Work, program: &str) -> String {
    let holds = work.holds;
    let proof = match &work.runs_on {
        RunsOn::Job => {
            "its Job is deleted, and all its containers were seen to have ended".to_owned()
        }
        RunsOn::Service(url) => format!("the service at {url} confirms that the run is over"),
        RunsOn::Simulation | RunsOn::Unknown => "its provider confirms that it is over".to_owned(),
    };
    match work.stage {
        Stage::Waits => {
            "nothing of it runs: the leader makes it Cancelled with its next write".to_owned()
        }
        Stage::Starts => format!(
            "its run is prepared or just released; it is Cancelled once {proof}, and keeps its \
             {holds} until then"
        ),
        Stage::Runs | Stage::Stops => {
            format!("it is Cancelling until {proof}, and keeps its {holds} until then")
        }
        Stage::Unresolved => {
            let number = work.recorded.attempt.unwrap_or(1);
            format!(
                "nobody knows how its run ended; it is Cancelled once {proof}. If nobody can say, \
                 decide yourself: {program} resolve {} --namespace {} --attempt {number} --decision \
                 Failed --reason \"how you know\"",
                work.target, work.recorded.namespace
            )
        }
        Stage::Cancelled | Stage::Over => "it is over".to_owned(),
    }
}

/// The answer for people.
fn sentences(answer: &Answer) -> String {
    let Answer { recorded, requested, next } = answer;
    let then = match next {
        Some(next) if *requested => format!("Cancel requested: {next}.\n"),
        Some(next) => format!("A cancel was requested before: {next}.\n"),
        None if recorded.state == "Cancelled" => String::new(),
        None => "It is over and can no longer be cancelled.\n".to_owned(),
    };
    format!("{recorded}\n{then}")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::cli::act::work::made;

    fn work(state: &str, run: &Value) -> Work {
        let status = json!({"state": state, "attempts": [made::attempt(1)], "run": run});
        made::occurrence(&json!({}), &status).work()
    }

    fn next_of(state: &str, run: &Value) -> String {
        match decide(&work(state, run), "punctual") {
            Decision::Write(patch, (answer, _)) => {
                assert_eq!(patch, json!({"spec": {"cancel": true}}));
                assert!(answer.requested, "{state}");
                answer.next.unwrap()
            }
            Decision::Say(said) => panic!("{state}: {said:?}"),
        }
    }

    #[test]
    fn what_must_be_confirmed_depends_on_the_state_and_on_what_runs_it() {
        let job = json!({"job": {"template": {}}});
        let http = json!({"http": {"url": "https://r/v1"}});
        assert!(next_of("Pending", &job).contains("nothing of it runs"));
        assert!(next_of("Starting", &job).contains("prepared or just released"));
        assert!(next_of("Running", &job).contains("all its containers were seen to have ended"));
        assert!(next_of("Cancelling", &http).contains("the service at https://r/v1 confirms"));
        let unresolved = next_of("Unresolved", &json!({"simulated": {}}));
        let line = "punctual resolve mocc/nightly-202611290200 --namespace docs --attempt 1";
        assert!(unresolved.contains(line), "{unresolved}");
    }

    #[test]
    fn what_is_asked_for_or_over_is_not_written() {
        let asked = made::occurrence(&json!({"cancel": true}), &json!({"state": "Cancelling"}));
        let Decision::Say((answer, _)) = decide(&asked.work(), "punctual") else {
            panic!("it was asked for")
        };
        assert!(!answer.requested && answer.next.is_some());
        assert!(sentences(&answer).contains("requested before"));
        for (state, words) in
            [("Cancelled", "is Cancelled"), ("Succeeded", "no longer be cancelled")]
        {
            let over = made::report(&json!({}), &json!({"state": state})).work();
            let Decision::Say((answer, _)) = decide(&over, "punctual") else {
                panic!("{state} is over")
            };
            assert_eq!((answer.requested, &answer.next), (false, &None), "{state}");
            assert!(sentences(&answer).contains(words), "{}", sentences(&answer));
        }
    }
}
